"""Model files: what they say of themselves, other files, other versions, and how they are written."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path
from types import ModuleType

import joblib
import numpy as np
import pytest
import sklearn
import skops.io
from modelfiles import (
    FRAME,
    X,
    Y,
    fitted_committee,
    forge,
    mapping,
    node,
    same_answers,
    saved_small,
    saying,
    text,
    there_and_back,
    unpacked,
    version,
)

import evenmargin
from evenmargin import EvenMarginClassifier, KernelSVM, LinearSVM, kernels
from evenmargin.persistence import Manifest, ModelFileError, _file, load, load_with_manifest, read_manifest, save, types


@pytest.fixture(scope="module")
def committee():
    return fitted_committee()


@pytest.fixture(scope="module")
def model_file(committee, tmp_path_factory):
    return save(committee, tmp_path_factory.mktemp("models") / "committee.skops", notes={"target": "fraud"})


# --- the file ---


def test_skops_itself_reads_the_file(committee, model_file, tmp_path, capsys):
    names = skops.io.get_untrusted_types(file=model_file)
    assert "evenmargin.persistence.types.EvenMarginClassifier" in names
    assert same_answers(skops.io.load(model_file, trusted=names), committee, FRAME)
    skops.io.visualize(save(LinearSVM(), tmp_path / "machine.skops"))
    assert "evenmargin.persistence.types.LinearSVM" in capsys.readouterr().out


def test_the_manifest_says_what_where_and_when(model_file):
    manifest = read_manifest(model_file)
    assert manifest.model == "evenmargin.persistence.types.EvenMarginClassifier"
    assert manifest.versions["evenmargin"] == evenmargin.__version__
    assert manifest.versions.keys() == {"evenmargin", "python", "scikit-learn", "numpy", "skops"}
    assert manifest.notes == {"target": "fraud"}
    assert dict(manifest.summary())["model"] == manifest.model
    assert evenmargin.__version__ in str(manifest)
    with pytest.raises(AttributeError):
        manifest.model = "other"


def test_notes_of_any_language_travel(tmp_path):
    notes = {"größe": [1, 2.5, None, True, "€ \ud800"], "": {"a": {}}}
    assert read_manifest(save(LinearSVM(), tmp_path / "m", notes=notes)).notes == notes


@pytest.mark.parametrize("notes", [{"a": np.float64}, {"a": float("nan")}, {(1, 2): 3}, ["a"], "text"], ids=str)
def test_notes_that_are_no_json_are_refused(notes, tmp_path):
    with pytest.raises(ModelFileError, match=r"^notes must be "):
        save(LinearSVM(), tmp_path / "m", notes=notes)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("notes", [None, [], ["target"], "target", 3, True], ids=str)
def test_notes_that_a_forger_made_no_dict_are_refused(notes, model_file, tmp_path):
    assert saying(
        forge(model_file, tmp_path, manifest=lambda stated: {**stated, "notes": notes}), "its notes are not a dict"
    )


def test_model_and_manifest_come_from_one_reading(committee, model_file, monkeypatch):
    opened, open_it = [], Path.open
    monkeypatch.setattr(Path, "open", lambda path, *args: opened.append(path) or open_it(path, *args))
    model, manifest = load_with_manifest(model_file)
    assert opened == [model_file]
    assert same_answers(model, committee, FRAME)
    assert manifest == read_manifest(model_file)


def test_a_large_array_of_one_value_is_not_refused_as_a_bomb(tmp_path):
    model = LinearSVM().fit(X, Y)
    model.many_ = np.zeros(10_000_000)
    assert there_and_back(model, tmp_path).many_.size == 10_000_000


# --- files that are no model files ---


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^There is no file .*nowhere\.skops\.$"):
        load(tmp_path / "nowhere.skops")


def test_a_folder_is_no_model(tmp_path):
    assert saying(tmp_path, "is a folder")


def test_a_device_is_no_model():
    assert saying("/dev/zero", "is a device or a pipe")


OTHERS = {
    "nothing": (b"", "is empty"),
    "text": ("a,b\n1,2\nÄ,3\n".encode(), "is not a model file"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(500), "is not a model file"),
    "a gzipped table": (gzip.compress(b"a,b\n1,2\n" * 99), "is not a model file"),
    "half a gzip": (gzip.compress(random.Random(0).randbytes(9999))[:99], "is not a model file"),
    "a seal and nothing else": (_file.seal(b""), "not a sound model file"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_are_refused_in_words(name, tmp_path):
    content, words = OTHERS[name]
    (tmp_path / "file.skops").write_bytes(content)
    assert saying(tmp_path / "file.skops", words)


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


PICKLES = {
    **{f"protocol {p}": lambda bomb, path, p=p: path.write_bytes(pickle.dumps(bomb, protocol=p)) for p in (2, 3, 4, 5)},
    "protocol 0": lambda bomb, path: path.write_bytes(pickle.dumps(LinearSVM(), protocol=0)),
    "joblib": joblib.dump,
    **{f"joblib {way}": partial(joblib.dump, compress=(way, 3)) for way in ("zlib", "gzip", "bz2", "xz", "lzma")},
    "pickle in gzip": lambda bomb, path: path.write_bytes(gzip.compress(pickle.dumps([bomb, os.urandom(9999)]))),
    "pickle in bz2": lambda bomb, path: path.write_bytes(bz2.compress(pickle.dumps(bomb))),
    "pickle in xz": lambda bomb, path: path.write_bytes(lzma.compress(pickle.dumps(bomb))),
}


@pytest.mark.parametrize("way", PICKLES)
def test_a_pickle_is_refused_with_the_reason_and_is_not_opened(way, tmp_path):
    PICKLES[way](Bomb(tmp_path / "mark"), tmp_path / "model.pkl")
    assert saying(tmp_path / "model.pkl", "is a pickle, which can run any code when opened")
    assert not (tmp_path / "mark").exists()


def test_a_file_of_skops_itself_is_told_apart(tmp_path):
    skops.io.dump(LinearSVM(), tmp_path / "plain.skops")
    assert saying(tmp_path / "plain.skops", r"is a zip, but not a model that evenmargin\.save wrote")


def test_a_file_that_cannot_be_read_is_named(model_file, monkeypatch):
    def refused(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refused)
    assert saying(model_file, "cannot be read: Permission denied")


# --- types that moved ---


@pytest.fixture
def moved_kernel(monkeypatch):
    """The class of a kernel under another name in another module, and no more where it was."""
    moved = type("Gaussian", (kernels.RBF,), {"__module__": "evenmargin.elsewhere"})
    elsewhere = ModuleType("evenmargin.elsewhere")
    elsewhere.Gaussian = moved
    monkeypatch.setitem(sys.modules, "evenmargin.elsewhere", elsewhere)
    monkeypatch.setattr(types, "OBJECTS", {**types.OBJECTS, "RBFKernel": "elsewhere.Gaussian"})
    monkeypatch.delattr(sys.modules[kernels.RBF.__module__], "RBF")
    return moved


def test_a_file_from_before_a_class_moved_still_opens(tmp_path, request):
    model = KernelSVM(kernel=kernels.RBF(sigma=1.5)).fit(X, Y)
    path = save(model, tmp_path / "before.skops")
    moved = request.getfixturevalue("moved_kernel")
    back = load(path)
    assert type(back.kernel) is moved
    assert same_answers(model, back)


def test_a_class_that_moved_is_saved_under_the_name_that_it_had(tmp_path, moved_kernel):
    path = save(KernelSVM(kernel=moved_kernel(sigma=1.5)), tmp_path / "after.skops")
    assert "RBFKernel" in unpacked(path)["schema.json"].decode()
    assert "elsewhere" not in unpacked(path)["schema.json"].decode()
    assert type(load(path).kernel) is moved_kernel


def test_no_file_names_a_place_in_the_package(model_file):
    texts = json.dumps([json.loads(unpacked(model_file)[name]) for name in ("schema.json", "evenmargin.json")])
    assert set(re.findall(r'"evenmargin\.[^"]*"', texts)) == {
        '"evenmargin.persistence.types"', '"evenmargin.persistence.types.EvenMarginClassifier"'
    }  # fmt: skip


# --- versions ---


def test_a_file_of_a_later_format_says_to_upgrade(model_file, tmp_path):
    body = unpacked(forge(model_file, tmp_path, manifest=version("evenmargin", "7.1.0")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_file, "FORMAT", 3)
        (tmp_path / "later.skops").write_bytes(_file.sealed(body))
    words = r"was written by evenmargin 7\.1\.0 \(format 3\), and this is .*, which reads format 2: upgrade evenmargin"
    assert saying(tmp_path / "later.skops", words)


def test_a_file_from_before_the_first_release_says_to_fit_again(model_file, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_file, "FORMAT", 1)
        (tmp_path / "earlier.skops").write_bytes(_file.sealed(unpacked(model_file)))
    words = r"was written before the first release of evenmargin \(format 1\), .* reads format 2: fit the model again"
    assert saying(tmp_path / "earlier.skops", words)


def test_a_file_of_a_later_format_of_any_content_says_to_upgrade(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_file, "FORMAT", 12345)
        (tmp_path / "later.skops").write_bytes(b"something else" + _file.seal(b"something else"))
    assert saying(tmp_path / "later.skops", r"was written by a newer evenmargin \(format 12345\)")


@pytest.mark.parametrize(
    ("name", "number"), [("evenmargin", "99.0.0"), ("scikit-learn", "1.2.0"), ("scikit-learn", "99.1.dev0")]
)
def test_other_versions_are_one_warning_and_the_model_loads(name, number, committee, model_file, tmp_path):
    path = forge(model_file, tmp_path, manifest=version(name, number))
    words = rf"was saved with {name} {number} \(this is .*\): predictions may differ"
    with pytest.warns(UserWarning, match=words) as seen:
        model = load(path)
    assert len(seen) == 1
    assert seen[0].filename == __file__
    assert same_answers(model, committee, FRAME)


def test_load_with_manifest_warns_whoever_called_it(model_file, tmp_path):
    path = forge(model_file, tmp_path, manifest=version("evenmargin", "99.0.0"))
    with pytest.warns(UserWarning, match="was saved with evenmargin 99") as seen:
        load_with_manifest(path)
    assert [one.filename for one in seen] == [__file__]


@pytest.fixture(scope="module")
def small_file(tmp_path_factory):
    return saved_small(tmp_path_factory.mktemp("models"))


def asking_for(module, name):
    def change(schema):
        schema["content"]["content"]["memory"] = node("ObjectNode", module, name, content=mapping())

    return change


UNKNOWN = {
    "evenmargin": (("evenmargin.later", "Machine"), "written by evenmargin 99.0.0"),
    "scikit-learn": (("sklearn.later", "Machine"), "written with scikit-learn 99.0.0"),
}


@pytest.mark.parametrize("package", UNKNOWN)
def test_a_type_of_a_newer_version_says_to_upgrade(package, small_file, tmp_path):
    (module, name), written = UNKNOWN[package]
    path = forge(small_file, tmp_path, schema=asking_for(module, name), manifest=version(package, "99.0.0"))
    words = rf"was {written}, and this is [0-9.a-z]+, which does not know {module}\.{name}: upgrade {package}\.$"
    with pytest.raises(ModelFileError, match=words):
        load(path)


@pytest.mark.parametrize("package", UNKNOWN)
def test_a_type_that_is_unknown_to_the_same_version_is_just_not_trusted(package, small_file, tmp_path):
    with pytest.raises(ModelFileError, match=r"holds types that are not trusted \(.*\.later\.Machine\), so nothing"):
        load(forge(small_file, tmp_path, schema=asking_for(*UNKNOWN[package][0])))


def test_your_own_type_in_a_file_of_a_newer_version_is_still_yours_to_trust(small_file, tmp_path):
    path = forge(
        small_file, tmp_path, schema=asking_for("shop.features", "Ratio"), manifest=version("evenmargin", "99.0.0")
    )
    with pytest.raises(ModelFileError, match=r"not trusted \(shop\.features\.Ratio\).*name them in trusted="):
        load(path)


def test_a_known_type_that_has_changed_in_a_newer_version_says_to_upgrade(small_file, tmp_path):
    def longer(schema):
        loss = node("TupleNode", types.__name__, "HingeLoss", content=[text(1.0)] * 9)
        schema["content"]["content"]["memory"] = loss

    with pytest.raises(ModelFileError, match=r"is not a sound model file \(TypeError"):
        load(forge(small_file, tmp_path, schema=longer))
    words = r"was written by evenmargin 99\.0\.0, and this is .*, which cannot read it \(.*\): upgrade evenmargin\.$"
    with pytest.raises(ModelFileError, match=words):
        load(forge(small_file, tmp_path, schema=longer, manifest=version("evenmargin", "99.0.0")))


def test_an_older_evenmargin_and_another_patch_of_scikit_learn_are_no_news(model_file, tmp_path):
    patch = ".".join([*sklearn.__version__.split(".")[:2], "99"])

    def older(manifest):
        manifest["versions"] |= {"evenmargin": "0.0.9", "scikit-learn": patch}

    assert isinstance(load(forge(model_file, tmp_path, manifest=older)), EvenMarginClassifier)


def test_what_scikit_learn_says_of_each_part_is_said_once(model_file, tmp_path):
    def old_parts(schema):
        texts = json.dumps(schema)
        assert "_sklearn_version" in texts
        return json.loads(texts.replace(sklearn.__version__, "1.2.0"))

    path = forge(model_file, tmp_path, schema=old_parts, manifest=version("scikit-learn", "1.2.0"))
    with pytest.warns(UserWarning, match="scikit-learn 1.2.0") as seen:
        load(path)
    assert len(seen) == 1


# --- writing ---


def test_saving_into_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot be written: there is no folder"):
        save(LinearSVM(), tmp_path / "none" / "model.skops")


def test_saving_onto_a_folder_is_one_sentence(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"is a folder: give the name of a file in it"):
        save(LinearSVM(), tmp_path)


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *args, **kwargs: False)
    with pytest.raises(PermissionError, match="you may not write to the folder"):
        save(LinearSVM(), tmp_path / "model.skops")


def saving_in_a_process(folder, before=""):
    script = f"""
        import resource, signal, sys
        import numpy as np
        from evenmargin import LinearSVM
        from evenmargin.persistence import save
        model = LinearSVM()
        model.many_ = np.random.default_rng(0).random(1_000_000)
        {before}
        print("ready", flush=True)
        save(model, {str(folder / "model.skops")!r})
        """
    return [sys.executable, "-c", textwrap.dedent(script)]


def test_a_full_disk_leaves_the_earlier_file(tmp_path):
    path = save(LinearSVM(C=7.0), tmp_path / "model.skops")
    limit = "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (10**5, 10**5))"
    done = subprocess.run(
        saving_in_a_process(tmp_path, limit), capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip
    assert "OSError" in done.stderr
    assert "File too large" in done.stderr
    assert load(path).C == 7.0
    assert [file.name for file in tmp_path.iterdir()] == ["model.skops"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device"), MemoryError])
def test_an_interrupted_save_leaves_the_earlier_file(error, tmp_path, monkeypatch):
    path = save(LinearSVM(C=7.0), tmp_path / "model.skops")

    def interrupted(descriptor):
        raise error

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(error if isinstance(error, type) else OSError):
        save(LinearSVM(C=8.0), path)
    assert load(path).C == 7.0
    assert [file.name for file in tmp_path.iterdir()] == ["model.skops"]


@pytest.mark.parametrize("wait", [0.0, 0.2])
def test_ctrl_c_during_a_save_leaves_the_earlier_file_or_the_new_one(wait, tmp_path):
    path = save(LinearSVM(C=7.0), tmp_path / "model.skops")
    with subprocess.Popen(saving_in_a_process(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdout.readline()
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
    assert load(path).C in (7.0, 1.0)
    assert [file.name for file in tmp_path.iterdir()] == ["model.skops"]


def test_a_manifest_is_a_value():
    one = Manifest("a.B", "2024-01-01T00:00:00+00:00", {"evenmargin": "0.1.0"})
    assert one == Manifest("a.B", "2024-01-01T00:00:00+00:00", {"evenmargin": "0.1.0"})
