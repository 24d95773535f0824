"""Forged model files: nothing runs, nothing is imported."""

from __future__ import annotations

import io
import json
import pickle
import struct
import sys
import textwrap

import numpy as np
import pytest
import skops.io
from modelfiles import X, Y, forge, keyed, mapping, node, saved_small, several, text
from scipy.sparse import csr_matrix

from evenmargin import KernelSVM
from evenmargin.persistence import ModelFileError, load, save


@pytest.fixture
def marks(tmp_path, monkeypatch):
    """A module that leaves a mark when it is imported, and another when it is used."""
    (tmp_path / "marker_module.py").write_text(
        textwrap.dedent(f"""
        import os
        from pathlib import Path
        folder = Path({str(tmp_path)!r})
        (folder / "imported").touch()
        def run(*args, **kwargs):
            (folder / "run").touch()
        class Type:
            def __new__(cls, *args, **kwargs):
                run()
                return super().__new__(cls)
            def __setstate__(self, state):
                run()
        """)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("marker_module", None)
    yield lambda: sorted(path.name for path in tmp_path.iterdir() if path.name in ("imported", "run", "mark"))
    sys.modules.pop("marker_module", None)


@pytest.fixture(scope="module")
def small_file(tmp_path_factory):
    return saved_small(tmp_path_factory.mktemp("models"))


DANGEROUS = [
    "os.system", "posix.system", "builtins.eval", "builtins.exec", "builtins.__import__", "subprocess.Popen",
    "numpy.f2py.compile", "numpy.f2py.crackfortran.myeval", "types.FunctionType", "pickle.loads", "runpy.run_path",
    "joblib.numpy_pickle.load", "numpy.lib._npyio_impl.load", "importlib.import_module", "webbrowser.open",
    "pathlib.Path", "marker_module.run", "marker_module.Type", "evenmargin._util.files.replace_file",
    "evenmargin.persistence.save", "evenmargin.persistence._save.save", "evenmargin._core._jit.jit", "builtins.open",
    "builtins.map", "builtins.type", "numpy.fromfile", "numpy.memmap", "sklearn.datasets._base.load_files",
]  # fmt: skip


def ways(module, name, command):
    """All the ways in which a file can ask for something by name."""
    named = {"__module__": module, "__class__": name}
    call, words = several(text(command)), several(text(command), kind="ListNode", name="list")
    function = node("FunctionNode", module, name)
    partial = {"func": function, "args": call, "kwds": mapping(), "namespace": text(None)}
    reduced = {"content": mapping(), "__reduce__": {"args": call}}
    return {
        "a function": function,
        "a type": node("TypeNode", module, name),
        "an object": node("ObjectNode", module, name, content=mapping(a=text(command))),
        "an object without state": node("ObjectNode", module, name),
        "a constructor": node("ConstructorFromReduceNode", module, name, content=call),
        "a partial function": node("PartialNode", "functools", "partial", content=partial),
        "a list": words | named,
        "a set": words | named | {"__loader__": "SetNode"},
        "a tuple": call | named,
        "a dict": mapping(a=text(command)) | named,
        "an array": node("NdArrayNode", module, name, type="numpy", file="1.npy"),
        "an array of objects": node("NdArrayNode", module, name, type="json", content=[text(1)], shape=call),
        "a loss": node("LossNode", module, name, **reduced),
        "a tree": node("TreeNode", module, name, **reduced),
        "something reduced": node("ReduceNode", module, name, **reduced),
        "a random state": node("RandomStateNode", module, name, content=mapping(a=text(1))),
        "a sparse matrix": node("SparseMatrixNode", module, name, type="scipy", file="1.npy"),
        "JSON": text(1) | named,
        "a slice": node("SliceNode", module, name, content={"start": 0, "stop": 1, "step": None}),
        "bytes": node("BytesNode", module, name, file="schema.json"),
        "a masked array": node("MaskedArrayNode", module, name, content={"data": text(1), "mask": text(2)}),
        "a dtype": node("DTypeNode", module, name, content=text(1)),
        "the type of a key": keyed(command, node("TypeNode", module, name)),
        "the function of a key": keyed(command, function),
        "a factory": node(
            "DefaultDictNode", "collections", "defaultdict", content={"main": mapping(), "default_factory": function}
        ),
    }


def tricks(command):
    """Ways to call something under a name that is trusted, or without a name."""
    ours, call = ("evenmargin.persistence.types", "LinearSVM"), several(text(command))
    machine = node("ObjectNode", *ours, content=mapping(C=text(1.0)))
    halves = {"__module__": "evenmargin.persistence", "__class__": "types"}
    reduced = {"content": mapping(), "__reduce__": {"args": call}}
    seeds = {"bit_generator": mapping(bit_generator=text("seed"), state=text(1)), "seed_seq": mapping()}
    system = node("FunctionNode", "os", "system")
    return {
        "an operator": node("OperatorFuncNode", "operator", "methodcaller", attrs=several(text("save"), text(command))),
        "an operator that calls": node("OperatorFuncNode", "operator", "call", attrs=several(system, text(command))),
        "a method of a trusted class": node("MethodNode", *ours, content={"obj": machine, "func": "set_params"}),
        "a method under a trusted name": node(
            "MethodNode", "evenmargin.persistence", "types", content={"obj": text(1) | halves, "func": "LinearSVM"}
        ),
        "a generator that calls": node("RandomGeneratorNode", "numpy.random._generator", "Generator", content=seeds),
        "a reference": node("CachedNode", *ours, __id__=1),
        "a trusted class that is called": node("ConstructorFromReduceNode", *ours, content=call),
        "a trusted class of an array": node("NdArrayNode", *ours, type="numpy", file="1.npy"),
        "a trusted class as a loss": node("LossNode", *ours, **reduced),
        "a trusted class as a list": node("ListNode", *ours, content=[text(1)]),
        "a trusted class as the type of a key": keyed(command, node("TypeNode", *ours)),
        "a trusted function as a class": node("ObjectNode", ours[0], "recall", content=mapping()),
        "a trusted name in other halves": node(
            "ObjectNode", "evenmargin.persistence", "types.LinearSVM", content=mapping()
        ),
        "a trusted class by its place": node("ObjectNode", "evenmargin.linear", "LinearSVM", content=mapping()),
        "a name beside the table": node("ObjectNode", ours[0], "import_module", content=mapping()),
        "a relative name": node("ObjectNode", ".marker_module", "Type", content=mapping()),
        "a name with a dot at its end": node("ObjectNode", "marker_module.", "Type", content=mapping()),
    }


def attacks(command):
    found = tricks(command)
    for full in DANGEROUS:
        module, _, name = full.rpartition(".")
        found |= {f"{full} as {way}": part for way, part in ways(module, name, command).items()}
    return found


@pytest.mark.parametrize("name", attacks(""))
def test_a_forged_part_is_never_built(name, small_file, tmp_path, marks):
    attack = attacks(f"touch {tmp_path / 'mark'}")[name]

    def change(schema):
        schema["content"]["content"]["memory"] = attack

    with pytest.raises(ModelFileError) as caught:
        load(forge(small_file, tmp_path, schema=change))
    assert "\n" not in str(caught.value)
    assert marks() == []
    assert "marker_module" not in sys.modules


def test_a_forged_part_as_the_whole_model_is_never_built(small_file, tmp_path, marks):
    for attack in attacks(f"touch {tmp_path / 'mark'}").values():
        with pytest.raises(ModelFileError):
            load(forge(small_file, tmp_path, schema=lambda schema, attack=attack: {**attack, "protocol": 2}))
    assert marks() == []


@pytest.mark.parametrize("protocol", [0, 1, -1, 99, True, "2", None])
def test_files_of_another_protocol_are_refused(protocol, small_file, tmp_path, marks):
    """Of the first, skops reads what a function is from another place."""
    function = node("FunctionNode", "numpy", "add", content={"module_path": "marker_module", "function": "run"})

    def change(schema):
        schema["protocol"] = protocol
        schema["content"]["content"]["memory"] = function

    with pytest.raises(ModelFileError):
        load(forge(small_file, tmp_path, schema=change))
    assert marks() == []


@pytest.fixture
def unlisted(monkeypatch):
    """Skops without its list of trusted types; and how often it is asked for a model."""
    asked, load_it = [], skops.io.load
    monkeypatch.setattr("skops.io._persist.audit_tree", lambda tree, trusted: None)
    monkeypatch.setattr("skops.io._audit.Node.get_unsafe_set", lambda node: set())
    monkeypatch.setattr("skops.io.load", lambda *args, **options: asked.append(args) or load_it(*args, **options))
    return asked


@pytest.mark.parametrize("name", attacks(""))
def test_a_forged_part_does_not_reach_skops_even_if_its_list_were_to_fail(name, small_file, tmp_path, marks, unlisted):
    attack = attacks(f"touch {tmp_path / 'mark'}")[name]

    def inside(schema):
        schema["content"]["content"]["memory"] = attack

    for change in (inside, lambda schema: {**attack, "protocol": 2}):
        with pytest.raises(ModelFileError):
            load(forge(small_file, tmp_path, schema=change))
    assert unlisted == []
    assert marks() == []
    assert "marker_module" not in sys.modules


def test_a_sound_file_needs_nothing_of_the_list_of_skops(small_file, unlisted):
    assert load(small_file).get_params()["linearsvm__C"] == 1.0
    assert len(unlisted) == 1


def test_a_name_that_the_user_trusts_is_still_no_type_of_keys(small_file, tmp_path, marks):
    def change(schema):
        schema["content"]["content"]["memory"] = keyed("a", node("TypeNode", "marker_module", "run"))

    with pytest.raises(ModelFileError, match="a dict in it has keys of unknown types"):
        load(forge(small_file, tmp_path, schema=change), trusted=["marker_module.run"])
    assert marks() == []


def test_untrusted_types_are_named(small_file, tmp_path, marks):
    def change(schema):
        schema["content"]["content"]["memory"] = several(
            node("ObjectNode", "marker_module", "Type"), node("FunctionNode", "os", "system")
        )

    with pytest.raises(ModelFileError, match=r"not trusted \(marker_module\.Type, os\.system\), so nothing"):
        load(forge(small_file, tmp_path, schema=change))
    assert marks() == []


def test_what_a_file_says_of_itself_is_not_trusted(small_file, tmp_path, marks):
    def claim(manifest):
        manifest["trusted"] = ["marker_module.Type"]
        manifest["notes"] = {"trusted": ["marker_module.Type"]}

    def change(schema):
        schema["content"]["content"]["memory"] = node("ObjectNode", "marker_module", "Type")

    with pytest.raises(ModelFileError, match="not trusted"):
        load(forge(small_file, tmp_path, schema=change, manifest=claim))
    assert marks() == []


def test_a_file_that_holds_another_model_than_it_says_is_refused(small_file, tmp_path):
    def lie(manifest):
        manifest["model"] = "evenmargin.persistence.types.LinearSVM"

    with pytest.raises(ModelFileError, match=r"holds a sklearn\.pipeline\.Pipeline but says that it holds a even"):
        load(forge(small_file, tmp_path, manifest=lie))


def find(value, kind):
    """The first part of a kind."""
    if isinstance(value, dict):
        if value.get("__loader__") == kind:
            return value
        value = list(value.values())
    found = [find(part, kind) for part in value] if isinstance(value, list) else []
    return next((part for part in found if part is not None), None)


@pytest.mark.parametrize("place", [-1, 625, 10**6, 1.5, "x", None])
def test_a_random_state_that_would_read_beyond_its_memory_is_refused(place, small_file, tmp_path):
    def change(schema):
        state = find(schema, "RandomStateNode")["content"]["content"]["state"]["content"]
        state["pos"]["content"] = json.dumps(place)

    with pytest.raises(ModelFileError):
        load(forge(small_file, tmp_path, schema=change))


@pytest.mark.parametrize("name", ["indices", "indptr", "shape", "format", "data"])
def test_a_sparse_matrix_with_wrong_indices_is_refused(name, tmp_path):
    path = save(KernelSVM().fit(csr_matrix(X), Y), tmp_path / "sparse.skops")
    wrong = {
        "indices": lambda a: a + 1000, "indptr": lambda a: a[::-1], "shape": lambda a: a // 2,
        "format": lambda a: np.array(b"dia"), "data": lambda a: a[:-1],
    }[name]  # fmt: skip

    def change(parts):
        (matrix,) = [member for member in parts if member.endswith(".npz")]
        with np.load(io.BytesIO(parts[matrix])) as arrays:
            out, arrays = io.BytesIO(), dict(arrays)
        np.savez(out, **arrays | {name: wrong(arrays[name])})
        parts[matrix] = out.getvalue()

    with pytest.raises(ModelFileError):
        load(forge(path, tmp_path, members=change))


def npy(header, content=b""):
    header = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


ARRAYS = {
    "longer than its bytes": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000,), }"),
    "of more bytes than there are": npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**62}, 8), }}"),
    "shorter than its bytes": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", bytes(80)),
    "of objects": npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", pickle.dumps([1])),
    "of nothing, many times": npy(f"{{'descr': '|V0', 'fortran_order': False, 'shape': ({2**60},), }}"),
    "of negative length": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1), }", bytes(8)),
    "with code as header": npy("__import__('os').system('touch mark')"),
    "with a wide header": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31),
    "of an unknown version": b"\x93NUMPY\x09\x00" + bytes(99),
    "a pickle": pickle.dumps([1, 2]),
    "a zip": b"PK\x03\x04" + bytes(99),
    "empty": b"",
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_is_not_what_it_says_is_refused(name, small_file, tmp_path, monkeypatch):
    def change(parts):
        parts[next(member for member in parts if member.endswith(".npy"))] = ARRAYS[name]

    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelFileError):
        load(forge(small_file, tmp_path, members=change))
    assert not (tmp_path / "mark").exists()
