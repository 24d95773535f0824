"""Data sets: where they are looked for, what the papers' versions are, what of OpenML is taken."""

from __future__ import annotations

import dataclasses
import gc
import gzip
import hashlib
import json
import pickle
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import _openml

from evenmargin import datasets
from evenmargin.datasets import DatasetNotFound, _arrays, _catalogue
from evenmargin.datasets._arrays import checksum
from evenmargin.datasets._catalogue import CATALOGUE
from evenmargin.datasets._openml import CAR_LEVELS, convert

ON_OPENML = [name for name, entry in CATALOGUE.items() if entry.source]
ROOT = Path(__file__).parents[1]


# scikit-learn leaves the socket of a download that broke off to the garbage collector, which the server's end calls.
pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _empty_places(monkeypatch, tmp_path):
    """No folder of data, an empty cache, and no way to the net."""
    monkeypatch.delenv("EVENMARGIN_DATA", raising=False)
    monkeypatch.setenv("EVENMARGIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(_openml, "urlopen", _no_net)
    monkeypatch.setattr(_openml, "time", SimpleNamespace(sleep=lambda seconds: None))


def _no_net(request, *args, **kwargs):
    raise OSError("Network is unreachable")


def stored(name, seed=0, rows=60):
    """Small made-up arrays in the stored form of a set; enough rows of each class for its paper's draws."""
    entry, generator = CATALOGUE[name], np.random.default_rng(seed)
    counts = {"letter": (783, 19_217), "adult_a9a": (300, 40)}.get(name, (rows // 4, rows - rows // 4))
    arrays = {}
    for half in ("", "_test") if entry.test and name != "letter" else ("",):
        y = generator.permutation(np.repeat([1, -1], counts)).astype(np.int8)
        arrays |= {f"X{half}": generator.integers(0, 200, (len(y), entry.columns)).astype(np.float32), f"y{half}": y}
        if entry.needs and "label" in entry.needs:
            arrays[f"label{half}"] = np.where(y == 1, 17 if name == "letter" else 7, 1).astype(np.int8)
    for need in set(entry.needs) - set(arrays):
        arrays[need] = np.full(len(y), 5, np.int8)
    return arrays


def put(folder, name, arrays):
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / f"{name}.npz", **arrays)
    return folder


# Names


def test_a_name_with_a_slip_gets_the_near_ones():
    with pytest.raises(ValueError, match=r"no data set 'abalon19': did you mean 'abalone19'\?"):
        datasets.load("abalon19")


def test_a_name_like_no_other_gets_them_all():
    with pytest.raises(ValueError, match=r"no data set 'zzz': choose from mnist, ijcnn1, .*sick_euthyroid_full\.$"):
        datasets.load("zzz")


def test_the_list_has_a_row_for_each_set():
    table = datasets.list()
    assert [*table.columns] == ["name", "title", "papers", "rows", "features", "positives", "positive", "found"]
    assert len(table) == 25
    assert table.name.is_unique
    assert {paper for papers in table.papers for paper in papers.split(", ")} == {
        "log-loss",
        "pegasos",
        "z-svm",
        "gwl",
        "",
    }


def test_every_checksum_is_one_and_no_two_are_equal():
    sums = {entry.checksum for entry in CATALOGUE.values()}
    assert len(sums) == len(CATALOGUE)
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in sums)


# Places


def test_a_given_folder_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENMARGIN_DATA", str(put(tmp_path / "variable", "sonar", stored("sonar", seed=1))))
    folder = put(tmp_path / "argument", "sonar", stored("sonar", seed=2))
    data = datasets.load("sonar", folder=folder, stored=True)
    np.testing.assert_array_equal(data.X, stored("sonar", seed=2)["X"])
    assert data.source == str(folder / "sonar.npz")


def test_the_folder_of_the_variable_comes_before_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENMARGIN_DATA", str(put(tmp_path / "variable", "sonar", stored("sonar", seed=1))))
    put(tmp_path / "cache" / "data", "sonar", stored("sonar", seed=2))
    np.testing.assert_array_equal(datasets.load("sonar", stored=True).X, stored("sonar", seed=1)["X"])


def test_the_cache_is_asked_when_the_folder_lacks_the_set(tmp_path):
    put(tmp_path / "cache" / "data", "sonar", stored("sonar"))
    (tmp_path / "empty").mkdir()
    data = datasets.load("sonar", folder=tmp_path / "empty", download=False)
    assert data.source == str(tmp_path / "cache" / "data" / "sonar.npz")


def test_a_folder_that_does_not_exist_is_an_error_at_once(tmp_path):
    with pytest.raises(DatasetNotFound, match="nowhere is not a folder: give the one with the npz files"):
        datasets.load("breast_wdbc", folder=tmp_path / "nowhere")


def test_a_file_is_not_a_folder(tmp_path, monkeypatch):
    put(tmp_path, "sonar", stored("sonar"))
    monkeypatch.setenv("EVENMARGIN_DATA", str(tmp_path / "sonar.npz"))
    with pytest.raises(DatasetNotFound, match="is not a folder"):
        datasets.list()


def test_an_empty_variable_is_none(monkeypatch):
    monkeypatch.setenv("EVENMARGIN_DATA", "")
    assert datasets.load("breast_wdbc").source == "scikit-learn"


def test_the_list_says_where_each_set_would_come_from(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENMARGIN_DATA", str(put(tmp_path / "mine", "sonar", stored("sonar"))))
    put(tmp_path / "cache" / "data", "usps", stored("usps"))
    found = datasets.list().set_index("name").found
    assert found[["sonar", "usps", "breast_wdbc", "letter", "ijcnn1"]].tolist() == [
        "folder", "cache", "scikit-learn", "OpenML", "missing",
    ]  # fmt: skip


def test_the_list_takes_the_folder_that_load_takes(tmp_path):
    folder = put(tmp_path / "mine", "sonar", stored("sonar"))
    assert datasets.list(folder=folder).set_index("name").found["sonar"] == "folder"


def test_without_download_a_missing_set_says_how_to_get_it():
    expected = (
        "The data set letter is not on this machine: allow its download from OpenML by download=True, or put "
        "letter.npz into a folder named by folder= or EVENMARGIN_DATA (it comes from the UCI repository, Letter "
        "Recognition)."
    )
    with pytest.raises(DatasetNotFound, match=f"^{re.escape(expected)}$"):
        datasets.load("letter", download=False)


@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - set(ON_OPENML) - {"breast_wdbc"}))
def test_a_set_without_a_copy_on_openml_says_where_it_comes_from(name):
    with pytest.raises(DatasetNotFound) as caught:
        datasets.load(name)
    assert "no copy of the same content is known on OpenML" in str(caught.value)
    assert CATALOGUE[name].origin in str(caught.value)


def test_not_found_is_a_file_not_found_error():
    assert issubclass(DatasetNotFound, FileNotFoundError)


def test_the_set_of_scikit_learn_has_the_checksum():
    arrays = datasets._breast_cancer()
    assert checksum(arrays) == CATALOGUE["breast_wdbc"].checksum


@pytest.mark.parametrize(
    ("platform", "variable", "rest"),
    [("linux", "XDG_CACHE_HOME", "evenmargin/data"), ("win32", "LOCALAPPDATA", "evenmargin/data")],
)
def test_the_cache_is_in_the_platforms_folder(monkeypatch, tmp_path, platform, variable, rest):
    monkeypatch.delenv("EVENMARGIN_CACHE")
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv(variable, str(tmp_path))
    assert datasets._cache() == tmp_path / rest


# Files


def test_a_truncated_file_is_named(tmp_path):
    path = put(tmp_path, "sonar", stored("sonar")) / "sonar.npz"
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} is damaged or not an npz file \(\w+\): replace it"):
        datasets.load("sonar", folder=tmp_path)


def test_a_file_with_a_pickle_in_it_is_refused(tmp_path):
    (tmp_path / "sonar.npz").write_bytes(pickle.dumps({"X": 1}))
    with pytest.raises(ValueError, match=r"sonar\.npz is damaged or not an npz file"):
        datasets.load("sonar", folder=tmp_path)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"y": None}, "lacks the array y"),
        ({"X": np.zeros((60, 59))}, r"has X of shape \(60, 59\) and type float64 where numbers in 60 columns"),
        ({"X": np.zeros(60)}, r"has X of shape \(60,\)"),
        ({"X": np.full((60, 60), "a")}, "type <U1"),
        ({"X": np.full((60, 60), np.nan)}, "has missing or infinite values in X"),
        ({"y": np.ones(59)}, "has 59 rows in y but 60 in X"),
        ({"y": np.zeros(60)}, "has something other than"),
        ({"label": np.ones(3, int)}, "has 3 rows in label"),
        ({"X_test": np.zeros((5, 60))}, "has only one of X_test and y_test"),
    ],
)
def test_a_file_with_wrong_arrays_is_named_with_its_fault(tmp_path, change, fault):
    arrays = {name: array for name, array in (stored("sonar") | change).items() if array is not None}
    put(tmp_path, "sonar", arrays)
    with pytest.raises(ValueError, match=rf"sonar\.npz .*{fault}.*: replace it, or delete it to look elsewhere\.$"):
        datasets.load("sonar", folder=tmp_path)


def test_a_file_without_an_array_that_the_papers_version_needs_is_named(tmp_path):
    arrays = stored("wine_quality_white")
    del arrays["quality"]
    put(tmp_path, "wine_quality_white", arrays)
    with pytest.raises(ValueError, match="lacks the array quality"):
        datasets.load("wine_quality_white", folder=tmp_path)


def test_a_file_of_the_user_need_not_have_the_checksum(tmp_path):
    put(tmp_path, "sonar", stored("sonar"))
    assert len(datasets.load("sonar", folder=tmp_path).X) == 60


def test_signs_may_be_floats_and_numbers_of_any_size_integers(tmp_path):
    arrays = stored("oil_spill")
    big = arrays["X"].astype(np.int64) + 2**24 + 1
    put(tmp_path, "oil_spill", {"X": big, "y": arrays["y"].astype(np.float64)})
    data = datasets.load("oil_spill", folder=tmp_path)
    np.testing.assert_array_equal(data.X, big)
    assert data.y.dtype == np.int64


def test_a_file_too_small_for_a_papers_draw_says_so(tmp_path):
    arrays = {name: array[:1000] for name, array in stored("letter").items()}
    put(tmp_path, "letter", arrays)
    with pytest.raises(ValueError, match=r"needs 353 rows of a class that has .* use stored=True"):
        datasets.load("letter", folder=tmp_path)


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(*paths):
        raise OSError("no room")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no room"):
        _arrays.write(tmp_path / "sonar.npz", stored("sonar"))
    assert not [*tmp_path.iterdir()]


# The papers' versions, on made-up arrays


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_set_loads_in_both_versions_ready_for_an_estimator(tmp_path, name):
    put(tmp_path, name, stored(name))
    for version in (False, True):
        data = datasets.load(name, folder=tmp_path, stored=version)
        entry = CATALOGUE[name]
        assert data.X.dtype in (np.float32, np.float64)
        assert data.X.flags.c_contiguous
        assert data.X.shape[1] == (entry.columns if version else entry.features or entry.columns)
        if data.y.dtype == np.float64:
            assert (name, version) == ("wine_quality_white", False)
        else:
            assert data.y.dtype == np.int64
            assert set(data.y) == {-1, 1}
        assert (data.X_test is None) == (data.y_test is None)
        assert repr(data).startswith(f"Dataset('{name}', ")
        assert len(repr(data)) < 140


def test_ijcnn1_is_trained_on_the_rows_for_testing(tmp_path):
    arrays = stored("ijcnn1")
    data = datasets.load("ijcnn1", folder=put(tmp_path, "ijcnn1", arrays))
    np.testing.assert_array_equal(data.X, arrays["X_test"])
    np.testing.assert_array_equal(data.y_test, arrays["y"])


def test_adult_keeps_all_negatives_and_the_papers_number_of_positives(tmp_path):
    arrays = stored("adult_a9a")
    data = datasets.load("adult_a9a", folder=put(tmp_path, "adult_a9a", arrays))
    assert [np.sum(data.y == 1), np.sum(data.y == -1)] == [254, 40]
    assert [np.sum(data.y_test == 1), np.sum(data.y_test == -1)] == [119, 40]


def test_letters_are_halved_with_the_papers_number_of_test_positives(tmp_path):
    data = datasets.load("letter", folder=put(tmp_path, "letter", stored("letter")))
    assert (len(data.X), len(data.X_test)) == (10_000, 10_000)
    assert [np.sum(data.y == 1), np.sum(data.y_test == 1)] == [430, 353]


@pytest.mark.parametrize("name", ["letter", "adult_a9a"])
def test_a_draw_depends_on_the_seed_only(tmp_path, name):
    put(tmp_path, name, stored(name))
    first, again, other = (datasets.load(name, folder=tmp_path, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.X_test, again.X_test)
    assert not np.array_equal(first.X_test, other.X_test)


@pytest.mark.parametrize("name", ["letter", "adult_a9a"])
def test_a_draw_does_not_depend_on_the_order_of_rows(tmp_path, name):
    arrays = stored(name)
    orders = {half: np.random.default_rng(1).permutation(len(arrays["y" + half])) for half in ("", "_test")
              if "y" + half in arrays}  # fmt: skip
    shuffled = {key: array[orders["_test" if key.endswith("_test") else ""]] for key, array in arrays.items()}
    one = datasets.load(name, folder=put(tmp_path / "one", name, arrays))
    two = datasets.load(name, folder=put(tmp_path / "two", name, shuffled))
    assert checksum(vars(one)) == checksum(vars(two))


def test_cars_have_a_column_for_each_level(tmp_path):
    arrays = on_openml("car_good")
    wide = [np.eye(len(levels))[arrays["X"][:, j]] for j, levels in enumerate(CAR_LEVELS)]
    data = datasets.load("car_good", folder=put(tmp_path, "car_good", arrays))
    np.testing.assert_array_equal(data.X, np.column_stack(wide))
    assert data.X.shape[1] == 21


def test_euthyroid_has_the_six_continuous_columns(tmp_path):
    arrays = stored("euthyroid")
    data = datasets.load("euthyroid", folder=put(tmp_path, "euthyroid", arrays))
    np.testing.assert_array_equal(data.X, arrays["X"][:, [0, 14, 16, 18, 20, 22]])
    assert "six continuous columns" in data.info


def test_segments_of_grass_are_positive(tmp_path):
    arrays = stored("segmentation")
    arrays["y"] = np.where(arrays["label"] == 7, -1, 1)  # another class is positive in the stored form
    folder = put(tmp_path, "segmentation", arrays)
    data, as_stored = (
        datasets.load("segmentation", folder=folder),
        datasets.load("segmentation", folder=folder, stored=True),
    )
    np.testing.assert_array_equal(data.y == 1, arrays["label"] == 7)
    np.testing.assert_array_equal(as_stored.y, arrays["y"])
    assert (data.positive, as_stored.positive) == ("GRASS", "BRICKFACE")


@pytest.mark.parametrize(
    ("name", "sign"), [("ionosphere", -1), ("sonar", -1), ("breast_wisconsin", 1), ("german_credit", 1)]
)
def test_copies_of_rows_are_left_out_and_the_class_is_the_papers(tmp_path, name, sign):
    arrays = stored(name)
    keep = np.arange(60) % 3 < 2
    arrays["X"][~keep] = arrays["X"][1]
    folder = put(tmp_path, name, arrays)
    data = datasets.load(name, folder=folder)
    np.testing.assert_array_equal(data.X, arrays["X"][keep])
    np.testing.assert_array_equal(data.y, sign * arrays["y"][keep])
    np.testing.assert_array_equal(datasets.load(name, folder=folder, stored=True).y, arrays["y"])


def test_wine_has_its_quality_for_y(tmp_path):
    arrays = stored("wine_quality_white")
    data = datasets.load("wine_quality_white", folder=put(tmp_path, "wine_quality_white", arrays))
    np.testing.assert_array_equal(data.y, np.full(60, 5.0))
    assert "positive" not in repr(data)


# The checksum


def test_the_checksum_is_of_the_content_not_of_its_order_or_type():
    arrays = stored("usps")
    order = np.random.default_rng(0).permutation(60)
    same = {name: array[order].astype(np.float64) for name, array in arrays.items()}
    assert checksum(same) == checksum(arrays)


def test_the_checksum_sees_a_changed_value_label_row_or_half():
    arrays = stored("segmentation")
    changed = arrays["X"].copy()
    changed[3, 4] += 1
    swapped = {"X": arrays["X_test"], "X_test": arrays["X"], "y": arrays["y_test"], "y_test": arrays["y"]}
    others = [
        arrays | {"X": changed}, arrays | {"y": -arrays["y"]}, arrays | {"label": arrays["label"] + 1},
        arrays | swapped, {name: array[1:] if "test" not in name else array for name, array in arrays.items()},
    ]  # fmt: skip
    assert len({checksum(arrays), *map(checksum, others)}) == 6


def test_minus_zero_is_zero_to_the_checksum():
    X, y = np.zeros((2, 3)), np.array([1, -1])
    assert checksum({"X": -X, "y": y}) == checksum({"X": X, "y": y})


# OpenML, from a server on this machine


class Server:
    """Answers what scikit-learn asks of OpenML; `fault` makes it fail in a given way."""

    def __init__(self):
        self.tables, self.fault, self.asked = {}, None, []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def put(self, number, table, classes):
        """A table to serve; `classes` names its nominal columns."""
        lines = ["@RELATION table", ""]
        for name in table:
            kind = "{" + ",".join(sorted(set(table[name].dropna()))) + "}" if name in classes else "REAL"
            lines.append(f"@ATTRIBUTE {name} {kind}")
        rows = table.to_csv(index=False, header=False, na_rep="?", lineterminator="\n")
        self.tables[number] = "\n".join([*lines, "", "@DATA", rows]).encode(), table, classes

    def answer(self, handler):
        path = urlsplit(handler.path).path
        self.asked.append(path)
        number = int(re.findall(r"\d+", path)[-1] if "download" not in path else re.search(r"download/(\d+)", path)[1])
        if self.fault == "error" or number not in self.tables:
            handler.send_error(500 if self.fault == "error" else 412)
            return
        text, table, classes = self.tables[number]
        if "download" in path:
            body = gzip.compress(text)
            body = body[: len(body) // 2] if self.fault == "half" else body
        else:
            body = gzip.compress(json.dumps(self.describe(path, number, text, table, classes)).encode())
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def describe(self, path, number, text, table, classes):
        if "features" in path:
            columns = [
                {"index": str(j), "name": name, "data_type": "nominal" if name in classes else "numeric",
                 "is_target": "false", "is_ignore": "false", "is_row_identifier": "false",
                 "number_of_missing_values": str(table[name].isna().sum())}
                for j, name in enumerate(table)
            ]  # fmt: skip
            return {"data_features": {"feature": columns}}
        if "qualities" in path:
            return {"data_qualities": {"quality": [{"name": "NumberOfInstances", "value": str(len(table))}]}}
        return {"data_set_description": {
            "id": str(number), "name": "table", "version": "1", "format": "ARFF", "status": "active", "description": "",
            "file_id": str(number), "url": f"https://www.openml.org/data/v1/download/{number}/table.arff",
            "md5_checksum": hashlib.md5(text).hexdigest(),
        }}  # fmt: skip


@pytest.fixture
def server(monkeypatch):
    from urllib.request import Request, urlopen

    server = Server()
    address = "http://{}:{}".format(*server.http.server_address)

    def at_home(request, *args, **kwargs):
        # Version by version scikit-learn has another address for OpenML; the path says enough.
        return urlopen(Request(address + urlsplit(request.full_url).path, headers=dict(request.header_items())))

    monkeypatch.setattr(_openml, "urlopen", at_home)
    yield server
    server.http.shutdown()
    server.thread.join()
    server.http.server_close()
    gc.collect()


def table_of(name, arrays):
    """The table from which the stored arrays of a set would be made, and its nominal columns."""
    entry = CATALOGUE[name]
    X, y = (
        np.concatenate([arrays[part], arrays[f"{part}_test"]]) if entry.source.split else arrays[part] for part in "Xy"
    )
    table = pd.DataFrame(X.astype(np.float64) if X.dtype == np.float64 else X).add_prefix("V")
    classes = np.where(y == 1, entry.source.positive, "other")
    if entry.source.labels:
        label = np.concatenate([arrays["label"], arrays.get("label_test", np.empty(0, int))])
        names = {number: key for key, number in entry.source.labels.items()}
        classes = np.array([names[number] for number in label])
    if name == "abalone19":
        table = table.iloc[:, 3:]
        table.insert(0, "Sex", np.array(["F", "I", "M"])[X[:, :3].argmax(axis=1)])
        classes = np.where(y == 1, "19", "9")
    elif name == "car_good":
        table = pd.DataFrame({f"V{j}": np.array(levels)[X[:, j].astype(int)] for j, levels in enumerate(CAR_LEVELS)})
        classes = np.array(["unacc", "acc", "good", "vgood"])[arrays["label"]]
    elif name == "spectrometer":
        table.insert(0, "Declination", 0.5)
        classes = np.where(y == 1, "45", "43")
    elif name == "wine_quality_white":
        classes = arrays["quality"].astype(str)
    elif name == "mnist":
        table = pd.concat([table, pd.DataFrame(np.zeros((len(X), 4), np.uint8)).add_prefix("blank")], axis=1)
    elif name == "yeast_ml8":
        classes = np.where(y == 1, "TRUE", "FALSE")
        table = table.assign(Class8="FALSE")
    table[entry.source.target or "class"] = classes
    return table, [key for key in table if table[key].dtype.kind not in "fiu"]


def on_openml(name, rows=60):
    """Made-up arrays of a set, as a table on OpenML would give them."""
    arrays = stored(name, rows=rows)
    y, generator = arrays["y"], np.random.default_rng(1)
    if name == "letter":
        arrays = {key: array[:200] for key, array in arrays.items()}
        arrays["label"] = np.where(arrays["y"] == 1, 26, 8).astype(np.int8)
    elif CATALOGUE[name].source.labels:
        positive = CATALOGUE[name].source.labels[CATALOGUE[name].source.positive]
        arrays |= {f"label{h}": np.where(arrays[f"y{h}"] == 1, positive, 1).astype(np.int8) for h in ("", "_test")}
    elif name == "abalone19":
        arrays["X"][:, :3] = np.eye(3)[generator.integers(0, 3, len(y))]
    elif name == "car_good":
        codes = np.column_stack([generator.integers(0, len(levels), len(y)) for levels in CAR_LEVELS])
        arrays |= {"X": codes, "label": np.where(y == 1, 2, 3)}
    elif name == "wine_quality_white":
        arrays["quality"] = np.where(y == 1, 4, 6).astype(np.int8)
    elif name == "oil_spill":
        arrays["X"] = arrays["X"].astype(np.float64) + 2.0**24 + 1
    return arrays


@pytest.fixture
def offer(server, monkeypatch):
    """Put a made-up set on the server and into the catalogue: its arrays, its checksum, its split."""

    def offer(name, arrays=None, table=None):
        arrays = arrays or on_openml(name)
        entry = CATALOGUE[name]
        split = len(arrays["X"]) if entry.source.split else None
        entry = dataclasses.replace(
            entry, checksum=checksum(arrays), source=dataclasses.replace(entry.source, split=split)
        )
        monkeypatch.setitem(_catalogue.CATALOGUE, name, entry)
        server.put(entry.source.id, *(table or table_of(name, arrays)))
        return arrays

    return offer


@pytest.mark.parametrize("name", ON_OPENML)
def test_a_table_on_openml_becomes_the_stored_arrays_and_is_kept(offer, name, tmp_path):
    expected = offer(name)
    data = datasets.load(name, stored=True)
    np.testing.assert_array_equal(data.X, expected["X"])
    np.testing.assert_array_equal(data.y, expected["y"])
    assert data.source == f"OpenML, data set {CATALOGUE[name].source.id}"
    with np.load(tmp_path / "cache" / "data" / f"{name}.npz") as kept:
        assert set(kept.files) == set(expected)
        for key in kept.files:
            np.testing.assert_array_equal(kept[key], expected[key])


def test_a_set_is_downloaded_once(offer, server, monkeypatch, tmp_path):
    offer("ecoli_imu")
    first = datasets.load("ecoli_imu")
    assert server.asked
    monkeypatch.setattr(_openml, "urlopen", _no_net)
    again = datasets.load("ecoli_imu")
    np.testing.assert_array_equal(first.X, again.X)
    assert again.source == str(tmp_path / "cache" / "data" / "ecoli_imu.npz")
    assert datasets.list().set_index("name").found["ecoli_imu"] == "cache"


def test_nothing_but_the_set_is_left_in_the_cache(offer, tmp_path):
    offer("ecoli_imu")
    datasets.load("ecoli_imu")
    assert [path.name for path in (tmp_path / "cache" / "data").iterdir()] == ["ecoli_imu.npz"]


def test_without_download_the_server_is_not_asked(offer, server):
    offer("ecoli_imu")
    with pytest.raises(DatasetNotFound, match="not on this machine"):
        datasets.load("ecoli_imu", download=False)
    assert not server.asked


def test_the_list_asks_nothing_of_the_server(offer, server):
    offer("ecoli_imu")
    assert datasets.list().set_index("name").found["ecoli_imu"] == "OpenML"
    assert not server.asked


def test_rows_with_gaps_are_dropped(offer):
    arrays = on_openml("breast_wisconsin")
    table, classes = table_of("breast_wisconsin", arrays)
    gap = table.iloc[:1].copy()
    gap.iloc[0, 5] = np.nan
    offer("breast_wisconsin", arrays, (pd.concat([table, gap]), classes))
    np.testing.assert_array_equal(datasets.load("breast_wisconsin", stored=True).X, arrays["X"])


def test_wines_that_are_there_twice_come_once(offer):
    arrays = on_openml("wine_quality_white")
    table, classes = table_of("wine_quality_white", arrays)
    offer("wine_quality_white", arrays, (pd.concat([table, table.iloc[:20]]), classes))
    np.testing.assert_array_equal(datasets.load("wine_quality_white").X, arrays["X"])


def test_the_order_of_the_rows_on_openml_does_not_matter(offer):
    arrays = on_openml("ecoli_imu")
    table, classes = table_of("ecoli_imu", arrays)
    offer("ecoli_imu", arrays, (table.iloc[::-1], classes))
    np.testing.assert_array_equal(datasets.load("ecoli_imu").X, arrays["X"][::-1])


def kept(folder):
    return [path.name for path in folder.rglob("*") if path.is_file()]


def test_a_table_with_another_content_is_refused_and_not_kept(offer, server, tmp_path):
    arrays = offer("ecoli_imu")
    arrays["X"][0, 0] += 1
    server.put(39, *table_of("ecoli_imu", arrays))
    with pytest.raises(DatasetNotFound) as caught:
        datasets.load("ecoli_imu")
    expected = CATALOGUE["ecoli_imu"].checksum[:12]
    assert re.fullmatch(
        rf"ecoli_imu on OpenML \(data set 39\) differs from the papers' set \(checksum [0-9a-f]{{12}}… where "
        rf"{expected}… is expected\), so it was not kept: put ecoli_imu\.npz into a folder .*\.",
        str(caught.value),
    )
    assert not kept(tmp_path)


def test_a_table_with_other_columns_is_refused_and_not_kept(offer, server, tmp_path):
    offer("spectrometer")
    server.put(313, *table_of("ecoli_imu", on_openml("ecoli_imu")))
    with pytest.raises(DatasetNotFound, match=r"has other columns or classes than expected .*LRS-class.*not kept"):
        datasets.load("spectrometer")
    assert not kept(tmp_path)


def test_a_table_with_unknown_classes_is_refused(offer, server):
    arrays = offer("letter")
    table, classes = table_of("letter", arrays)
    server.put(6, table.assign(**{"class": "Ä"}), classes)
    with pytest.raises(DatasetNotFound, match="has other columns or classes than expected"):
        datasets.load("letter")


@pytest.mark.parametrize(
    ("fault", "reason"), [("error", "HTTP Error 500"), ("half", "Compressed file ended"), ("gone", "39 not found")]
)
def test_a_server_in_trouble_gives_one_sentence_and_leaves_nothing(offer, server, tmp_path, fault, reason):
    offer("ecoli_imu")
    server.fault = fault
    if fault == "gone":
        server.tables.clear()
    with pytest.raises(DatasetNotFound) as caught:
        datasets.load("ecoli_imu")
    assert re.fullmatch(
        rf"ecoli_imu on OpenML \(data set 39\) could not be downloaded \(.*{reason}.*\): try again later, or put "
        r"ecoli_imu\.npz into a folder named by folder= or EVENMARGIN_DATA \(it comes from .* Ecoli\)\.",
        str(caught.value),
    )
    assert not kept(tmp_path)


def test_a_set_comes_after_all_when_the_server_recovers(offer, server):
    offer("ecoli_imu")
    server.fault = "half"
    with pytest.raises(DatasetNotFound):
        datasets.load("ecoli_imu")
    server.fault = None
    assert len(datasets.load("ecoli_imu").X) == 60


def test_without_the_net_the_reason_is_given():
    with pytest.raises(DatasetNotFound, match=r"could not be downloaded \(Network is unreachable\): try again later"):
        datasets.load("ecoli_imu")


def test_a_cache_that_cannot_be_written_does_not_stop_a_download(offer, monkeypatch, tmp_path):
    offer("ecoli_imu")
    (tmp_path / "file").touch()
    monkeypatch.setenv("EVENMARGIN_CACHE", str(tmp_path / "file"))
    assert len(datasets.load("ecoli_imu").X) == 60


def test_a_full_disk_does_not_lose_a_download(offer, monkeypatch):
    def fail(*paths):
        raise OSError("no room")

    offer("ecoli_imu")
    monkeypatch.setattr("os.replace", fail)
    assert len(datasets.load("ecoli_imu").X) == 60


# The papers' own data, where they are


@pytest.fixture
def real(papers_data, tmp_path):
    """The arrays of a set and a folder with its file, or a skip."""

    def real(name):
        arrays = papers_data(name)
        return arrays, put(tmp_path / "real", name, arrays)

    return real


@pytest.mark.parametrize("name", CATALOGUE)
def test_rows_columns_and_positives_are_those_of_the_papers(real, name):
    entry, (_, folder) = CATALOGUE[name], real(name)
    data = datasets.load(name, folder=folder)
    assert data.X.shape == (entry.train[0], entry.features or entry.columns)
    assert np.sum(data.y == 1) == entry.train[1]
    test = None if data.X_test is None else (len(data.X_test), np.sum(data.y_test == 1))
    assert test == entry.test


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_papers_sets_have_the_checksums(real, name):
    arrays, _ = real(name)
    assert checksum(arrays) == CATALOGUE[name].checksum


@pytest.mark.parametrize("name", ON_OPENML)
def test_a_table_made_from_the_papers_set_is_read_back_as_it(real, name):
    arrays, _ = real(name)
    table, _ = table_of(name, arrays)
    found = convert(CATALOGUE[name].source, table)
    assert checksum(found) == CATALOGUE[name].checksum
    assert {key: found[key].dtype for key in ("X", "y")} == {key: arrays[key].dtype for key in ("X", "y")}
    assert set(found) == {key for key in arrays if key.removesuffix("_test") in ("X", "y", "label", "quality")}


@pytest.mark.parametrize("name", ["letter", "adult_a9a"])
def test_the_draws_from_the_papers_sets_can_be_repeated(real, name):
    _, folder = real(name)
    first, again, other = (datasets.load(name, folder=folder, random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.X_test, again.X_test)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.X_test, other.X_test)


# The package


def test_importing_needs_neither_numba_nor_pandas_nor_scikit_learns_data_sets():
    code = "import sys, evenmargin.datasets; print(*{'numba', 'pandas', 'sklearn.datasets'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


def test_no_data_are_in_the_repository():
    try:
        run = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a git repository, so there is no list of its files")
    assert not [path for path in run.stdout.split() if path.endswith((".npz", ".npy", ".arff", ".csv.gz"))]


def test_no_data_are_in_the_package():
    package = Path(datasets.__file__).parents[1]
    assert not [path for path in package.rglob("*") if path.suffix in (".npz", ".npy", ".arff")]
