"""Model files made of bombs and of chance: clean errors, in bounded time and memory."""

from __future__ import annotations

import copy
import io
import json
import random
import struct
import subprocess
import sys
import textwrap
import warnings
import zipfile
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from modelfiles import node, resealed, saved_small, saying, several, text, unpacked

from evenmargin.persistence import ModelFileError, _audit, _file, load


@pytest.fixture(scope="module")
def small_file(tmp_path_factory):
    return saved_small(tmp_path_factory.mktemp("models"))


# --- bombs ---


def overblown(parts, claimed=None):
    """A file that unpacks to far more than its size, and perhaps says that it does not."""
    parts = parts | {"99.bin": bytes(300_000_000)}
    content = _file.zipped(parts, dict.fromkeys(parts, zipfile.ZIP_DEFLATED)).getvalue()
    if claimed is not None:
        content = content.replace(struct.pack("<I", 300_000_000), struct.pack("<I", claimed))
    return resealed(content)


def nested(times):
    part = several()
    for _ in range(times):
        part = several(part)
    return part


def doubling(reference):
    """Parts of two parts each, the second of which refers to the first."""
    part = several() | {"__id__": 1}
    for number in range(2, 60):
        part = several(part, reference | {"__id__": number - 1}) | {"__id__": number}
    return part


BOMBS = {
    "a zip bomb": (overblown, "unpacks to more than 64 times its size"),
    "a zip bomb that lies": (partial(overblown, claimed=1000), "CRC"),
    "doubling parts": (doubling(several(text(1))), "two different parts of it have the same number"),
    "doubling references": (doubling({}), "a part of it has no type"),
    "deep brackets": ('{"a":' * 100_000 + "1" + "}" * 100_000, "RecursionError"),
    "deep parts": (nested(200), "is nested more than"),
    "millions of parts": ("[" + "{}," * 5_000_000 + "1]", f"more than {_audit.PARTS:,} parts"),
    "a tenth of the parts that may be": (
        several(*[node("ObjectNode", "sklearn.preprocessing._data", "StandardScaler")] * (_audit.PARTS // 10)),
        "holds a builtins.tuple",
    ),
}


@pytest.fixture(scope="module")
def explosions(small_file, tmp_path_factory):
    """What a process that loads the bombs says, how long it took and how many megabytes."""
    folder = tmp_path_factory.mktemp("bombs")
    for name, (bomb, _) in BOMBS.items():
        parts = unpacked(small_file)
        if callable(bomb):
            content = bomb(parts)
        else:
            schema = bomb if isinstance(bomb, str) else json.dumps({**bomb, "protocol": 2})
            content = _file.sealed(parts | {"schema.json": schema.encode()})
        (folder / name).write_bytes(content)
    script = """
        import json, sys, time, tracemalloc
        import skops.io, evenmargin.auto
        from evenmargin.persistence import ModelFileError, load

        tracemalloc.start()
        for path in sys.argv[1:]:
            tracemalloc.reset_peak()
            started = time.process_time()
            try:
                said = repr(load(path))
            except ModelFileError as error:
                said = str(error)
            print(json.dumps([said, time.process_time() - started, tracemalloc.get_traced_memory()[1] / 2**20]))
        """
    command = [sys.executable, "-c", textwrap.dedent(script), *(str(folder / name) for name in BOMBS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    return dict(zip(BOMBS, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_in_bounded_time_and_memory(name, explosions):
    said, seconds, megabytes = explosions[name]
    assert BOMBS[name][1] in said
    assert seconds < 30
    assert megabytes < 100  # so that a model of the most parts takes less than a gigabyte


# --- fuzzing ---


def only_clean_errors(content, path):
    """Whether a file is refused; anything but a model or a ModelFileError is a failure."""
    path.write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load(path)
    except ModelFileError as error:
        return "\n" not in str(error)
    return False


def test_a_file_cut_short_anywhere_is_refused(small_file, tmp_path):
    content = small_file.read_bytes()
    for length in [*range(0, len(content), 13), *range(len(content) - 150, len(content))]:
        assert only_clean_errors(content[:length], tmp_path / "cut.skops"), length


def test_a_file_with_bytes_behind_it_is_refused(small_file, tmp_path):
    for more in (b"\n", b"\0" * 10, b"x" * 5000):
        assert only_clean_errors(small_file.read_bytes() + more, tmp_path / "longer.skops")


def test_any_flipped_bit_is_found(small_file, tmp_path):
    content, rng = small_file.read_bytes(), random.Random(0)
    for place in [*rng.sample(range(8 * len(content)), 800), *range(8 * (len(content) - 95), 8 * len(content), 7)]:
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        assert only_clean_errors(bytes(flipped), tmp_path / "flipped.skops"), place


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=2000), sealed=st.booleans())
def test_bytes_of_chance_are_refused(content, sealed, tmp_path):
    assert only_clean_errors(content + _file.seal(content) * sealed, tmp_path / "chance.skops")


def test_flipped_bits_under_a_right_checksum_give_clean_errors(small_file, tmp_path):
    """The archive itself is fuzzed: headers, sizes, compressed data."""
    content, rng = small_file.read_bytes(), random.Random(1)
    refused = 0
    for _ in range(400):
        flipped = bytearray(content)
        for _ in range(rng.choice([1, 1, 1, 4, 32])):
            place = rng.randrange(len(content))
            flipped[place] = rng.choice([flipped[place] ^ (1 << rng.randrange(8)), 0, 255, rng.randrange(256)])
        refused += only_clean_errors(resealed(flipped), tmp_path / "flipped.skops")
    assert refused > 300


def test_flipped_bits_inside_members_give_clean_errors(small_file, tmp_path):
    """Past the checks of the archive: JSON and arrays are fuzzed."""
    parts, rng = unpacked(small_file), random.Random(2)
    refused = 0
    for _ in range(400):
        name = rng.choice(["schema.json", "evenmargin.json", *parts])
        content = bytearray(parts[name])
        for _ in range(rng.choice([1, 1, 4])):
            place = rng.randrange(min(len(content), 200) if name.endswith(".npy") else len(content))
            content[place] ^= 1 << rng.randrange(8)
        refused += only_clean_errors(_file.sealed(parts | {name: bytes(content)}), tmp_path / "flipped.skops")
    assert refused > 200


def test_members_that_are_shuffled_lost_or_renamed_give_clean_errors(small_file, tmp_path):
    parts, rng = unpacked(small_file), random.Random(3)
    names = list(parts)
    odd = ["../../evil", "/etc/passwd", "a/b.npy", "", "999.npy", "schema.JSON", "é.npy", "__init__.py"]
    for _ in range(200):
        contents = list(parts.values())
        if rng.random() < 0.5:
            rng.shuffle(contents)
        changed = dict(zip(names, contents, strict=True))
        if rng.random() < 0.5:
            changed.pop(rng.choice(names))
        if rng.random() < 0.5:
            changed[rng.choice(odd)] = rng.choice(contents)
        if changed != parts:
            only_clean_errors(_file.sealed(changed), tmp_path / "shuffled.skops")
    for name in odd:
        if name != "999.npy":
            assert only_clean_errors(_file.sealed(parts | {name: b"x"}), tmp_path / "odd.skops"), name


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_of_one_name_are_refused(small_file, tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in [*unpacked(small_file).items(), ("schema.json", b"{}")]:
            archive.writestr(name, content)
        archive.comment = b" " * len(_file.seal(b""))
    (tmp_path / "twice.skops").write_bytes(resealed(out.getvalue()))
    assert saying(tmp_path / "twice.skops", "two of its members have the same name")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["ObjectNode", "DictNode", "TypeNode", "builtins", "str", "1.npy", "numpy", "schema.json"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(
        ["__loader__", "__class__", "__module__", "__id__", "content", "key_types", "file", "type", "shape", "attrs"]
    ), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


def places(value, path=()):
    """All places in a JSON value."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


def put(value, path, new):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_json_of_wrong_types_gives_clean_errors(data, small_file, tmp_path):
    parts = unpacked(small_file)
    parts["1.npy"] = next(content for name, content in parts.items() if name.endswith(".npy"))
    name = data.draw(st.sampled_from(["schema.json", "schema.json", "evenmargin.json"]))
    value = json.loads(parts[name])
    for _ in range(data.draw(st.integers(1, 3))):
        where = data.draw(st.sampled_from(list(places(value))[1:]))
        new = data.draw(JSON)
        put(value, where, new)
    only_clean_errors(_file.sealed(parts | {name: json.dumps(value).encode()}), tmp_path / "types.skops")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_parts_in_the_wrong_places_give_clean_errors(data, small_file, tmp_path):
    parts = unpacked(small_file)
    value = json.loads(parts["schema.json"])
    every = list(places(value))[1:]
    for _ in range(data.draw(st.integers(1, 3))):
        source, target = data.draw(st.sampled_from(every)), data.draw(st.sampled_from(every))
        part = value
        try:
            for key in source:
                part = part[key]
            put(value, target, copy.deepcopy(part))
        except (KeyError, IndexError, TypeError):
            continue  # an earlier exchange took the place away
    parts["schema.json"] = json.dumps(value).encode()
    only_clean_errors(_file.sealed(parts), tmp_path / "moved.skops")
