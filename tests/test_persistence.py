"""Models that travel: what comes back is what went in."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from modelfiles import FRAME, X, Y, fitted, fitted_committee, same_answers, there_and_back
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

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
    kernels,
    metrics,
    papers,
)
from evenmargin.density import SCHEMES
from evenmargin.losses import LOSSES
from evenmargin.operating import get_objective
from evenmargin.persistence import save
from evenmargin.problem import Status
from evenmargin.sampling import SAMPLERS, Given
from evenmargin.solvers import KERNEL_SOLVERS, SOLVERS, Pegasos
from evenmargin.stopping import AUCHalting


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
    **{f"z by {name}": ZAdjustedClassifier(KernelSVM(), metric=name) for name in metrics.METRICS},
    **{f"z by {type(m).__name__} object": ZAdjustedClassifier(LinearSVM(), metric=m) for m in metrics.METRICS.values()},
    "z by costs": ZAdjustedClassifier(LinearSVM(), metric=[[0, 1], [10, 0]]),
    "z by a cost object": ZAdjustedClassifier(LinearSVM(), metric=metrics.CostMatrix([[0, 1], [10, 0]])),
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
    return fitted_committee()


@pytest.fixture(scope="module")
def model_file(committee, tmp_path_factory):
    return save(committee, tmp_path_factory.mktemp("models") / "committee.skops", notes={"target": "fraud"})


@pytest.fixture
def returned(committee, tmp_path):
    return there_and_back(committee, tmp_path)


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
    "objective", [metrics.FBeta(2.0), get_objective({"recall": 0.9}), {"precision": 0.5}, [[0, 1], [5, 0]]], ids=str
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
