"""Models that travel: what comes back is what went in, and nothing in a file is ever run."""

from __future__ import annotations

import bz2
import copy
import gzip
import importlib
import io
import json
import lzma
import os
import pickle
import random
import re
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import zipfile
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
import skops.io
from conftest import imbalanced
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import evenmargin
from evenmargin import (
    DensityWeightedMLPClassifier,
    DensityWeightedMLPRegressor,
    DensityWeights,
    EvenMarginClassifier,
    KernelSVM,
    LearnedWeights,
    LinearSVM,
    SharedGridSearch,
    StratifiedNystroem,
    ZAdjustedClassifier,
    adjust,
    kernels,
    papers,
    persistence,
)
from evenmargin.density import SCHEMES
from evenmargin.losses import LOSSES
from evenmargin.operating import get_objective
from evenmargin.persistence import TRUSTED, Manifest, ModelFileError, load, read_manifest, save
from evenmargin.problem import Status
from evenmargin.sampling import SAMPLERS, Given
from evenmargin.solvers import KERNEL_SOLVERS, SOLVERS, Pegasos
from evenmargin.stopping import AUCHalting

X, Y = imbalanced(n=120, d=5, seed=1)
FRAME = pd.DataFrame(X, columns=list("abcde")).assign(
    kind=np.random.default_rng(0).choice(["x", "y", "z"], 120),
    when=pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(120), "D"),
)
FRAME.loc[3, "a"] = np.nan


def there_and_back(model, folder, **options):
    return load(save(model, folder / "model.skops", **options), **options)


def fitted(model, rows=X, labels=Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(rows, labels)


def answers(model, rows=X):
    """All that a model says of rows."""
    names = ("predict", "predict_proba", "decision_function", "transform")
    return {name: np.asarray(getattr(model, name)(rows)) for name in names if hasattr(model, name)}


def same_answers(one, other, rows=X):
    mine, theirs = answers(one, rows), answers(other, rows)
    assert mine
    assert mine.keys() == theirs.keys()
    for name in mine:
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    return True


def without_addresses(model):
    return re.sub("0x[0-9A-Fa-f]+", "", repr(model))


# --- what comes back is what went in ---


def steps(solver="pegasos", **parameters):
    return LinearSVM(solver=solver, max_iter=99, **parameters)


MACHINES = {
    **{f"linear, {name} loss": LinearSVM(loss=name, max_iter=50) for name in LOSSES},
    **{f"linear, {kind.__name__} object": LinearSVM(loss=kind(), max_iter=50) for kind in LOSSES.values()},
    **{f"linear by {name}": LinearSVM(solver=name, loss="squared_hinge", max_iter=50) for name in SOLVERS},
    **{
        f"linear by {kind.__name__} object": LinearSVM(
            solver=kind(), max_iter=50, random_state=0, loss="squared_hinge", class_weight="inverse"
        )
        for kind in SOLVERS.values()
    },
    **{f"kernel {name}": KernelSVM(kernel=name) for name in kernels.KERNELS if name != "precomputed"},
    **{f"kernel by {name}": KernelSVM(solver=name, loss="squared_hinge", max_iter=50) for name in KERNEL_SOLVERS},
    **{
        f"kernel by {kind.__name__} object": KernelSVM(
            solver=kind(), loss="log" if name == "lbfgs" else "squared_hinge", max_iter=50, random_state=0
        )
        for name, kind in KERNEL_SOLVERS.items()
    },
    **{f"sampling {name}": steps(sampling=kind()) for name, kind in SAMPLERS.items()},
    **{f"density {name}": KernelSVM(density=name, random_state=0) for name in SCHEMES},
    "kernel object RBF": KernelSVM(kernel=kernels.RBF(sigma=1.5)),
    "kernel object Poly": KernelSVM(kernel=kernels.Poly(degree=2, coef0=1.0)),
    "kernel object Laplacian": KernelSVM(kernel=kernels.Laplacian(0.5)),
    "kernel object Exponential": KernelSVM(kernel=kernels.Exponential(0.5)),
    "kernel object Sigmoid": KernelSVM(kernel=kernels.Sigmoid(0.1)),
    "kernel object Linear": KernelSVM(kernel=kernels.Linear()),
    "sampling given": steps(sampling=Given(np.arange(120)[::-1])),
    "density object": KernelSVM(density=DensityWeights(2, method="fourier", n_components=50, random_state=0)),
    "halting by name": steps(stopping="auc"),
    "halting on rows aside": steps(solver=Pegasos(average=True), stopping=AUCHalting(validation=(X, Y))),
    "halting on sparse rows": steps(stopping=AUCHalting(validation=(csr_matrix(X), Y))),
    "warm start": KernelSVM(warm_start=True),
    "warm start, linear": LinearSVM(warm_start=True),
    "class weights by label": LinearSVM(class_weight={-1: 1.0, 1: 5.0}),
    "a RandomState": steps(random_state=np.random.RandomState(3)),
    "lsgd": papers.lsgd(T=99),
    "wlsgd": papers.wlsgd(T=99),
    "ksgd": papers.ksgd(T=99),
    "wksgd": papers.wksgd(T=99),
    "pegasos as printed": papers.cost_sensitive_pegasos(X=20, T=99, project=True, double_count=True),
    "pegasos with a kernel": papers.cost_sensitive_pegasos(X=20, T=99, kernel="rbf"),
    "blinex": papers.blinex_linear(T=50),
    "blinex with a kernel": papers.blinex_kernel(T=50),
    "z-svm": papers.zsvm(gamma=0.1),
    "gwl": papers.gwl_svc(),
    **{f"z by {name}": ZAdjustedClassifier(KernelSVM(), metric=name) for name in adjust.METRICS},
    **{f"z by {type(m).__name__} object": ZAdjustedClassifier(LinearSVM(), metric=m) for m in adjust.METRICS.values()},
    "z by costs": ZAdjustedClassifier(LinearSVM(), metric=[[0, 1], [10, 0]]),
    "z by a cost object": ZAdjustedClassifier(LinearSVM(), metric=adjust.CostMatrix([[0, 1], [10, 0]])),
    "z around SVC": ZAdjustedClassifier(SVC(), cv=StratifiedKFold(3)),
    "learned weights": LearnedWeights(LinearSVM(), random_state=np.random.RandomState(0)),
    "Nyström map": make_pipeline(StandardScaler(), StratifiedNystroem(n_components=20, random_state=0), LinearSVM()),
    "search": SharedGridSearch(KernelSVM(), {"gamma": [0.1, "scale"], "class_weight": [None, {-1: 1, 1: 2}]}),
    "search of a pipeline": SharedGridSearch(
        make_pipeline(StandardScaler(), KernelSVM()), {"kernelsvm__C": [1, 10]}, scoring=["roc_auc", "f1"], refit="f1",
        cv=RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0),
    ),
    "scikit-learn's search": GridSearchCV(LinearSVM(), {"C": [0.1, 1]}, scoring="balanced_accuracy", cv=3),
    "calibrated": CalibratedClassifierCV(LinearSVM(), cv=3),
    "calibrated by steps": CalibratedClassifierCV(LinearSVM(), method="isotonic", cv=3),
    "scikit-learn's own": make_pipeline(SimpleImputer(), FunctionTransformer(np.arcsinh), SGDClassifier()),
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_a_loaded_model_says_the_same_as_the_saved_one(name, tmp_path):
    model = fitted(clone(MACHINES[name]))
    assert same_answers(model, there_and_back(model, tmp_path))


@pytest.mark.parametrize("name", MACHINES)
def test_a_model_can_be_saved_before_it_is_fitted(name, tmp_path):
    back = there_and_back(MACHINES[name], tmp_path)
    assert without_addresses(back) == without_addresses(MACHINES[name])


def test_a_precomputed_kernel_travels(tmp_path):
    model = KernelSVM(kernel="precomputed").fit(X @ X.T, Y)
    assert same_answers(model, there_and_back(model, tmp_path), X @ X.T)


@pytest.mark.parametrize("kind", [csr_matrix, csr_array])
def test_a_model_of_sparse_rows_travels(kind, tmp_path):
    model = make_pipeline(StratifiedNystroem(n_components=10, random_state=0), KernelSVM()).fit(kind(X), Y)
    assert same_answers(model, there_and_back(model, tmp_path), kind(X))
    machine = KernelSVM().fit(kind(X), Y)
    back = there_and_back(machine, tmp_path)
    assert type(back.support_vectors_) is type(machine.support_vectors_)


def test_several_classes_and_strings_as_labels_travel(tmp_path):
    words = np.array(["rare", "often", "always"])[np.digitize(X[:, 0], [-1, 0])]
    model = fitted(LinearSVM(), X, words)
    back = there_and_back(model, tmp_path)
    assert same_answers(model, back)
    assert back.status_ == model.status_
    assert all(isinstance(status, Status) for status in back.status_)


def test_a_pipeline_of_columns_travels(tmp_path):
    rows = FRAME.drop(columns="when").fillna({"a": 0.0})
    columns = ColumnTransformer([
        ("words", OneHotEncoder(handle_unknown="ignore"), ["kind"]),
        ("numbers", StandardScaler(), make_column_selector(dtype_include=float)),
    ])  # fmt: skip
    model = make_pipeline(columns, LinearSVM()).fit(rows, Y)
    assert same_answers(model, there_and_back(model, tmp_path), rows)


def test_networks_travel(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    for kind in (DensityWeightedMLPClassifier, DensityWeightedMLPRegressor):
        model = kind((4,), density=2, max_epochs=3, random_state=0)
        fitted(model)
        assert same_answers(model, there_and_back(model, tmp_path))


def test_density_weights_travel(tmp_path):
    model = DensityWeights("sqrt").fit(X)
    np.testing.assert_array_equal(there_and_back(model, tmp_path).weights_, model.weights_)


def test_why_a_fit_ended_is_still_a_status(tmp_path):
    back = there_and_back(LinearSVM().fit(X, Y), tmp_path)
    assert back.status_ is Status.CONVERGED


def test_false_stays_false_among_the_keys_of_a_dict(tmp_path):
    prices = {False: 1.0, True: 5.0}
    assert there_and_back(LinearSVM(class_weight=prices), tmp_path).class_weight == prices


def test_an_object_that_is_there_twice_is_one_object_again(tmp_path):
    rule = AUCHalting(validation=(X, Y))
    model = make_pipeline(LinearSVM(stopping=rule), LinearSVM(stopping=rule))
    first, second = (step.stopping for _, step in there_and_back(model, tmp_path).steps)
    assert first.validation[0] is second.validation[0]


def test_a_loaded_machine_can_be_fitted_again_and_goes_on(tmp_path):
    model = LinearSVM(solver="pegasos", random_state=0, alpha=0.1).partial_fit(X, Y, classes=[-1, 1])
    back = there_and_back(model, tmp_path)
    assert same_answers(model.partial_fit(X, Y), back.partial_fit(X, Y))
    assert same_answers(clone(back).fit(X, Y), clone(model).fit(X, Y))


# --- EvenMarginClassifier ---


@pytest.fixture(scope="module")
def committee():
    return EvenMarginClassifier(time_budget="fast").fit(FRAME, np.where(Y > 0, "bad", "good"))


@pytest.fixture
def returned(committee, tmp_path):
    return there_and_back(committee, tmp_path)


@pytest.fixture(scope="module")
def model_file(committee, tmp_path_factory):
    return save(committee, tmp_path_factory.mktemp("models") / "committee.skops", notes={"target": "fraud"})


def test_the_committee_says_the_same(committee, returned):
    assert same_answers(committee, returned, FRAME)
    assert same_answers(committee, returned, FRAME.assign(kind="never seen"))


def test_the_committee_comes_with_all_that_is_known_of_it(committee, returned):
    for name in ("estimates_", "cv_results_", "operating_curve_"):
        pd.testing.assert_frame_equal(getattr(returned, name), getattr(committee, name))
    np.testing.assert_array_equal(returned.oof_scores_, committee.oof_scores_)
    assert str(returned.summary_) == str(committee.summary_)
    assert vars(returned).keys() == vars(committee).keys()


def test_settings_that_were_tried_come_along(tmp_path):
    model = fitted(EvenMarginClassifier())
    assert len(model.cv_results_) > 10
    pd.testing.assert_frame_equal(there_and_back(model, tmp_path).cv_results_, model.cv_results_)


@pytest.mark.parametrize("objective", [{"recall": 0.9}, {"fn": 10, "fp": 1}, "f1"])
def test_the_boundary_of_a_loaded_committee_can_be_moved(committee, returned, objective):
    moved = copy.deepcopy(committee).set_operating_point(objective)
    returned.set_operating_point(objective)
    assert same_answers(moved, returned, FRAME)
    pd.testing.assert_frame_equal(returned.estimates_, moved.estimates_)


def test_a_loaded_committee_can_be_cloned_and_fitted_again(committee, returned):
    labels = np.where(Y > 0, "bad", "good")
    assert same_answers(clone(returned).fit(FRAME, labels), committee, FRAME)
    assert same_answers(returned.fit(FRAME, labels), committee, FRAME)


def test_a_committee_for_several_classes_travels(tmp_path):
    model = fitted(EvenMarginClassifier(time_budget="fast"), X, np.digitize(X[:, 0], [-1, 0]))
    back = there_and_back(model, tmp_path)
    assert same_answers(model, back)
    pd.testing.assert_frame_equal(back.estimates_, model.estimates_)
    assert back.operating_curve_.keys() == model.operating_curve_.keys()
    for label, curve in model.operating_curve_.items():
        pd.testing.assert_frame_equal(back.operating_curve_[label], curve)


@pytest.mark.parametrize(
    "objective", [adjust.FBeta(2.0), get_objective({"recall": 0.9}), {"precision": 0.5}, [[0, 1], [5, 0]]], ids=str
)
def test_objectives_of_all_kinds_travel(objective, tmp_path):
    model = fitted(EvenMarginClassifier(objective, time_budget="fast"))
    back = there_and_back(model, tmp_path)
    assert same_answers(fitted(clone(back)), model)


def test_pickle_and_copy_still_give_the_whole_committee(committee):
    for other in (pickle.loads(pickle.dumps(committee)), copy.copy(committee), copy.deepcopy(committee)):
        assert same_answers(committee, other, FRAME)
        pd.testing.assert_frame_equal(other.operating_curve_, committee.operating_curve_)


def test_a_state_with_frames_as_pickles_of_earlier_versions_have_it_is_taken(committee):
    other = EvenMarginClassifier.__new__(EvenMarginClassifier)
    other.__setstate__(dict(vars(committee)))
    assert same_answers(committee, other, FRAME)


def test_the_table_of_a_search_comes_along(tmp_path):
    search = fitted(clone(MACHINES["search"]))
    pd.testing.assert_frame_equal(there_and_back(search, tmp_path).cv_results_, search.cv_results_)


def test_loading_and_predicting_import_no_numba(model_file, tmp_path):
    FRAME.to_pickle(tmp_path / "rows.pkl")
    script = f"""
        import sys
        import pandas as pd
        from evenmargin.persistence import load
        load({str(model_file)!r}).predict_proba(pd.read_pickle({str(tmp_path / "rows.pkl")!r}))
        assert "numba" not in sys.modules
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=120)


# --- the file ---


def test_the_same_model_is_the_same_bytes(committee, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first, second = (save(one, tmp_path / name) for one, name in ((committee, "a"), (copy.deepcopy(committee), "b")))
    assert first.read_bytes() == second.read_bytes()
    assert save(load(first), second).read_bytes() == first.read_bytes()
    assert read_manifest(first).saved == "2023-11-14T22:13:20+00:00"


def test_the_same_model_is_the_same_bytes_in_another_process(tmp_path, monkeypatch):
    """Where sets have another order."""
    script = """
        import sys
        from evenmargin import LinearSVM
        from evenmargin.persistence import save

        save(LinearSVM(class_weight={"words": {"one", "two", "three", "four", "five"}}), sys.argv[1])
        """
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    theirs = tmp_path / "theirs.skops"
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(theirs)], check=True, timeout=120)
    model = LinearSVM(class_weight={"words": {"five", "four", "three", "two", "one"}})
    assert save(model, tmp_path / "ours.skops").read_bytes() == theirs.read_bytes()


def test_skops_itself_reads_the_file(committee, model_file, tmp_path, capsys):
    names = skops.io.get_untrusted_types(file=model_file)
    assert "evenmargin.auto.EvenMarginClassifier" in names
    assert same_answers(skops.io.load(model_file, trusted=names), committee, FRAME)
    skops.io.visualize(save(LinearSVM(), tmp_path / "machine.skops"))
    assert "evenmargin.linear.LinearSVM" in capsys.readouterr().out


def test_the_manifest_says_what_where_and_when(model_file):
    manifest = read_manifest(model_file)
    assert manifest.model == "evenmargin.auto.EvenMarginClassifier"
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


def test_a_large_array_of_one_value_is_not_refused_as_a_bomb(tmp_path):
    model = LinearSVM().fit(X, Y)
    model.many_ = np.zeros(10_000_000)
    assert there_and_back(model, tmp_path).many_.size == 10_000_000


# --- the list of trusted types ---


def resolve(name):
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


@pytest.mark.parametrize("name", sorted({name for names in TRUSTED.values() for name in names}))
def test_every_trusted_name_exists_where_it_says(name):
    found = resolve(name)
    assert f"{found.__module__}.{found.__name__}" == name or name == "numpy.dtype"


def test_every_estimator_and_part_is_trusted():
    parts = [
        *(getattr(evenmargin, name) for name in evenmargin.__all__ if name[0].isupper()),
        *LOSSES.values(),
        *kernels.KERNELS.values(),
        *SOLVERS.values(),
        *KERNEL_SOLVERS.values(),
        *SAMPLERS.values(),
        *map(type, adjust.METRICS.values()),
    ]
    known = {name for names in TRUSTED.values() for name in names}
    assert {f"{part.__module__}.{part.__name__}" for part in parts if isinstance(part, type)} <= known


def test_nothing_outside_evenmargin_scikit_learn_numpy_and_scipy_is_trusted():
    roots = {name.split(".")[0] for names in TRUSTED.values() for name in names}
    assert roots == {"evenmargin", "sklearn", "numpy", "scipy"}


@pytest.mark.parametrize(
    "name",
    ["accuracy", "average_precision", "balanced_accuracy", "f1", "f1_macro", "jaccard", "matthews_corrcoef",
     "neg_brier_score", "neg_log_loss", "precision", "recall", "roc_auc", "top_k_accuracy"],
)  # fmt: skip
def test_a_search_by_any_scorer_of_classifiers_can_be_saved(name, tmp_path):
    back = there_and_back(GridSearchCV(LinearSVM(), {}, scoring=get_scorer(name)), tmp_path)
    assert repr(back.scoring) == repr(get_scorer(name))


# --- models that cannot travel ---


class Own(LinearSVM):
    """A class from outside."""


def linear(A, B):
    return A @ B.T


class Odd(BaseEstimator):
    def __init__(self, inner=None):
        self.inner = inner


REFUSED = {
    "a lambda as kernel": (KernelSVM(kernel=lambda A, B: A @ B.T), "<lambda>"),
    "a function as kernel": (KernelSVM(kernel=linear), "test_persistence.linear"),
    "a function as objective": (EvenMarginClassifier(linear), "test_persistence.linear"),
    "a class from outside": (make_pipeline(StandardScaler(), Own()), "test_persistence.Own"),
    "a partial function": (FunctionTransformer(partial(np.add, 1)), "a partial function"),
    "a bound method": (FunctionTransformer(LinearSVM().get_params), "a bound method"),
    "a generator": (Odd(np.random.default_rng()), r"a numpy\.random\.Generator"),
    "a frame": (Odd({"rows": [FRAME]}), r"inner\['rows'\]\[0\]"),
    "a lock": (Odd(threading.Lock()), "_thread.lock"),
    "keys that JSON confuses": (Odd({1: "a", "1": "b"}), "keys that JSON cannot tell apart"),
    "False beside an empty key": (Odd({False: "a", "": "b"}), "keys that JSON cannot tell apart"),
    "a tuple as key": (Odd({(1, 2): "a"}), "inner"),
    "a tree": (RandomForestClassifier(2).fit(X, Y), "sklearn.tree._tree.Tree"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_not_be_loaded_again_is_not_saved(name, tmp_path):
    model, named = REFUSED[name]
    trusted = [Odd] if "Odd" in repr(type(model)) else []
    with pytest.raises(ModelFileError, match=rf"cannot be saved.*{named}") as caught:
        save(model, tmp_path / "model.skops", trusted=trusted)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_model_that_holds_itself_is_not_saved(tmp_path):
    model = LinearSVM()
    model.self_ = model
    with pytest.raises(ModelFileError, match="cannot be saved: it holds itself"):
        save(model, tmp_path / "model.skops")


@pytest.mark.parametrize("model", [LinearSVM, None, {"a": 1}, "model", np.ones(3)], ids=str)
def test_only_estimators_are_saved(model, tmp_path):
    with pytest.raises(ModelFileError, match="save takes an estimator"):
        save(model, tmp_path / "model.skops")


@pytest.mark.parametrize("name", [Own, "test_persistence.Own"])
def test_a_class_from_outside_travels_if_the_user_trusts_it(name, tmp_path):
    model = Own().fit(X, Y)
    path = save(model, tmp_path / "own.skops", trusted=[name])
    with pytest.raises(ModelFileError, match=r"not trusted \(test_persistence.Own\)"):
        load(path)
    assert same_answers(load(path, trusted=[name]), model)


def test_a_function_from_outside_travels_if_the_user_trusts_it(tmp_path):
    model = KernelSVM(kernel=linear).fit(X, Y)
    assert same_answers(there_and_back(model, tmp_path, trusted=[linear]), model)


@pytest.mark.parametrize("trusted", [True, "test_persistence.Own", 3, [None], None], ids=str)
def test_trust_is_given_by_name_only(trusted, model_file):
    with pytest.raises(ModelFileError, match="must be a list of full names"):
        load(model_file, trusted=trusted)


# --- files that are no model files ---


def saying(path, words):
    """`load` and `read_manifest` refuse a file in one sentence with these words."""
    for read in (load, read_manifest):
        with pytest.raises(ModelFileError, match=words) as caught:
            read(path)
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)
    return True


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
    "a seal and nothing else": (persistence._seal(b""), "not a sound model file"),
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
    assert saying(tmp_path / "model.pkl", "is a pickle, which can run any code when it is opened")
    assert not (tmp_path / "mark").exists()


def test_a_file_of_skops_itself_is_told_apart(tmp_path):
    skops.io.dump(LinearSVM(), tmp_path / "plain.skops")
    assert saying(tmp_path / "plain.skops", r"is a zip, but not a model that evenmargin\.persistence\.save wrote")


def test_a_file_that_cannot_be_read_is_named(model_file, monkeypatch):
    def refused(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refused)
    assert saying(model_file, "cannot be read: Permission denied")


# --- versions ---


def unpacked(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def forge(path, folder, schema=None, manifest=None, members=None):
    """A file with some of its content changed, and the checksum made right again."""
    parts = unpacked(path)
    for name, change in (("schema.json", schema), ("evenmargin.json", manifest)):
        if change is not None:
            content = json.loads(parts[name])
            changed = change(content)
            parts[name] = json.dumps(content if changed is None else changed).encode()
    if members is not None:
        members(parts)
    out = folder / "forged.skops"
    out.write_bytes(persistence._sealed(parts))
    return out


def version(name, number):
    def change(manifest):
        manifest["versions"][name] = number

    return change


def resealed(content):
    """The bytes of a file with its checksum made right again."""
    body = bytes(content[: -len(persistence._seal(b""))])
    return body + persistence._seal(body)


def test_a_file_of_a_later_format_says_to_upgrade(model_file, tmp_path):
    body = unpacked(forge(model_file, tmp_path, manifest=version("evenmargin", "7.1.0")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(persistence, "FORMAT", 2)
        (tmp_path / "later.skops").write_bytes(persistence._sealed(body))
    words = r"was written by evenmargin 7\.1\.0 \(format 2\), and this is .*, which reads format 1: upgrade evenmargin"
    assert saying(tmp_path / "later.skops", words)


def test_a_file_of_a_later_format_of_any_content_says_to_upgrade(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(persistence, "FORMAT", 12345)
        (tmp_path / "later.skops").write_bytes(b"something else" + persistence._seal(b"something else"))
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


# --- forged files: nothing runs, nothing is imported ---


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
    model = make_pipeline(StandardScaler(), LinearSVM(random_state=np.random.RandomState(0)).fit(X, Y))
    model.named_steps["standardscaler"].fit(X)
    return save(model, tmp_path_factory.mktemp("models") / "small.skops")


def text(value):
    return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(value)}


def node(kind, module, name, **more):
    return {"__class__": name, "__module__": module, "__loader__": kind, **more}


def several(*parts, kind="TupleNode", name="tuple"):
    return node(kind, "builtins", name, content=list(parts))


def mapping(**parts):
    keys = several(*(node("TypeNode", "builtins", "str") for _ in parts), kind="ListNode", name="list")
    return node("DictNode", "builtins", "dict", content=parts, key_types=keys)


def keyed(key, kind):
    """A dict whose key is made by calling something with it."""
    return mapping() | {"content": {key: text(1)}, "key_types": several(kind, kind="ListNode", name="list")}


DANGEROUS = [
    "os.system", "posix.system", "builtins.eval", "builtins.exec", "builtins.__import__", "subprocess.Popen",
    "numpy.f2py.compile", "numpy.f2py.crackfortran.myeval", "types.FunctionType", "pickle.loads", "runpy.run_path",
    "joblib.numpy_pickle.load", "numpy.lib._npyio_impl.load", "importlib.import_module", "webbrowser.open",
    "pathlib.Path", "marker_module.run", "marker_module.Type", "evenmargin._files.replace_file",
    "evenmargin.persistence.save", "evenmargin._core._jit.jit",
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
    ours, call = ("evenmargin.linear", "LinearSVM"), several(text(command))
    machine = node("ObjectNode", *ours, content=mapping(C=text(1.0)))
    halves = {"__module__": "evenmargin", "__class__": "linear"}
    reduced = {"content": mapping(), "__reduce__": {"args": call}}
    seeds = {"bit_generator": mapping(bit_generator=text("seed"), state=text(1)), "seed_seq": mapping()}
    system = node("FunctionNode", "os", "system")
    return {
        "an operator": node("OperatorFuncNode", "operator", "methodcaller", attrs=several(text("save"), text(command))),
        "an operator that calls": node("OperatorFuncNode", "operator", "call", attrs=several(system, text(command))),
        "a method of a trusted class": node("MethodNode", *ours, content={"obj": machine, "func": "set_params"}),
        "a method under a trusted name": node(
            "MethodNode", "evenmargin", "linear", content={"obj": text(1) | halves, "func": "LinearSVM"}
        ),
        "a generator that calls": node("RandomGeneratorNode", "numpy.random._generator", "Generator", content=seeds),
        "a reference": node("CachedNode", *ours, __id__=1),
        "a trusted class that is called": node("ConstructorFromReduceNode", *ours, content=call),
        "a trusted class of an array": node("NdArrayNode", *ours, type="numpy", file="1.npy"),
        "a trusted class as a loss": node("LossNode", *ours, **reduced),
        "a trusted class as a list": node("ListNode", *ours, content=[text(1)]),
        "a trusted class as the type of a key": keyed(command, node("TypeNode", *ours)),
        "a trusted function as a class": node("ObjectNode", "evenmargin.papers", "_printed_twice", content=mapping()),
        "a trusted name in other halves": node("ObjectNode", "evenmargin", "linear.LinearSVM", content=mapping()),
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


def test_what_is_called_is_refused_even_if_the_list_of_skops_were_to_fail(small_file, tmp_path, marks, monkeypatch):
    monkeypatch.setattr("skops.io._persist.audit_tree", lambda tree, trusted: None)
    every = attacks(f"touch {tmp_path / 'mark'}")
    called = ("a partial function", "a constructor", "a list", "a set", "an array", "a random state",
              "the function of a key", "the type of a key")  # fmt: skip
    for name in ["an operator that calls", "a generator that calls", *(f"os.system as {way}" for way in called)]:
        with pytest.raises(ModelFileError):
            load(forge(small_file, tmp_path, schema=lambda schema, name=name: {**every[name], "protocol": 2}))
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
        manifest["model"] = "evenmargin.linear.LinearSVM"

    with pytest.raises(ModelFileError, match=r"holds a sklearn\.pipeline\.Pipeline and says that it is a evenmargin"):
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
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelFileError):
        load(forge(small_file, tmp_path, members=lambda parts: parts.update({"1.npy": ARRAYS[name]})))
    assert not (tmp_path / "mark").exists()


# --- bombs ---


def overblown(parts, claimed=None):
    """A file that unpacks to far more than its size, and perhaps says that it does not."""
    parts = parts | {"99.bin": bytes(300_000_000)}
    content = persistence._zipped(parts, dict.fromkeys(parts, zipfile.ZIP_DEFLATED)).getvalue()
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
    "doubling parts": (doubling(several(text(1))), "two of its parts have one number"),
    "doubling references": (doubling({}), "a part of it has no type"),
    "deep brackets": ('{"a":' * 100_000 + "1" + "}" * 100_000, "RecursionError"),
    "deep parts": (nested(200), "is nested more than"),
    "millions of parts": ("[" + "{}," * 5_000_000 + "1]", f"more than {persistence._PARTS:,} parts"),
    "a tenth of the parts that may be": (
        several(*[node("ObjectNode", "sklearn.preprocessing._data", "StandardScaler")] * (persistence._PARTS // 10)),
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
            content = persistence._sealed(parts | {"schema.json": schema.encode()})
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
    assert only_clean_errors(content + persistence._seal(content) * sealed, tmp_path / "chance.skops")


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
        refused += only_clean_errors(persistence._sealed(parts | {name: bytes(content)}), tmp_path / "flipped.skops")
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
            only_clean_errors(persistence._sealed(changed), tmp_path / "shuffled.skops")
    for name in odd:
        if name != "999.npy":
            assert only_clean_errors(persistence._sealed(parts | {name: b"x"}), tmp_path / "odd.skops"), name


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_of_one_name_are_refused(small_file, tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in [*unpacked(small_file).items(), ("schema.json", b"{}")]:
            archive.writestr(name, content)
        archive.comment = b" " * len(persistence._seal(b""))
    (tmp_path / "twice.skops").write_bytes(resealed(out.getvalue()))
    assert saying(tmp_path / "twice.skops", "two of its members have one name")


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
    name = data.draw(st.sampled_from(["schema.json", "schema.json", "evenmargin.json"]))
    value = json.loads(parts[name])
    for _ in range(data.draw(st.integers(1, 3))):
        where = data.draw(st.sampled_from(list(places(value))[1:]))
        new = data.draw(JSON)
        put(value, where, new)
    only_clean_errors(persistence._sealed(parts | {name: json.dumps(value).encode()}), tmp_path / "types.skops")


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
    only_clean_errors(persistence._sealed(parts), tmp_path / "moved.skops")


# --- writing ---


def test_saving_into_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot be written: there is no folder"):
        save(LinearSVM(), tmp_path / "none" / "model.skops")


def test_saving_onto_a_folder_is_one_sentence(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"is a folder: give the name of a file in it"):
        save(LinearSVM(), tmp_path)


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *args, **kwargs: False)
    with pytest.raises(PermissionError, match="is not yours to write to"):
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
