"""The shared search against scikit-learn's GridSearchCV, and the paths against single fits."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import sklearn
from conftest import imbalanced
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.exceptions import FitFailedWarning, UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, make_scorer, recall_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)  # fmt: skip
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenmargin import DensityWeights, KernelSVM, LinearSVM, ZAdjustedClassifier, papers
from evenmargin._util.threads import Workers
from evenmargin.kernels import RBF, Laplacian, Poly
from evenmargin.metrics import FBeta
from evenmargin.selection import SharedGridSearch, pegasos_grid
from evenmargin.selection.scoring import QUICK
from evenmargin.solvers import price_paths
from evenmargin.solvers.price_paths import solve_paths
from evenmargin.stopping import AUCHalting

X, Y = imbalanced(n=150, d=5, ratio=0.75, seed=3)
NAMES = np.where(Y > 0, "a rare one", "common")
THREE = np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.8, 0.9])
GROUPS = np.arange(Y.size) // 5
WEIGHTS = np.random.default_rng(0).integers(0, 4, Y.size).astype(float)
CS = [0.1, 1.0, 30.0]


def scores(results):
    """The columns of metrics, ranks included."""
    table = pd.DataFrame(results)
    return table[[name for name in table if "_test_" in name or "_train_" in name]]


def both(estimator, grid, X=X, y=Y, fit=None, **options):
    """Our search and scikit-learn's, fitted to the same."""
    options = {"error_score": "raise", **options}
    return [search(estimator, grid, **options).fit(X, y, **(fit or {})) for search in (SharedGridSearch, GridSearchCV)]


def assert_same(ours, theirs, shares=True):
    assert ours.shares_work_ is shares
    assert set(ours.cv_results_) == set(theirs.cv_results_)
    assert list(ours.cv_results_["params"]) == theirs.cv_results_["params"]
    expected = scores(theirs.cv_results_)
    assert_allclose(scores(ours.cv_results_)[expected.columns].to_numpy(), expected.to_numpy(), atol=1e-12)
    assert ours.best_index_ == theirs.best_index_
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=1e-12)


# --- the same numbers as GridSearchCV ---

GRIDS = {
    "gamma": {"C": CS, "gamma": [0.05, 0.5, "scale", "auto"]},
    "kernels": {"C": CS, "kernel": ["linear", "poly", Laplacian(), RBF(0.3), RBF(sigma=1.5), Poly(0.5, 2, 1.0)]},
    "class costs": {"C": CS, "class_weight": [None, "balanced", "inverse", {1: 5.0}, lambda totals: 1 / totals**0.5]},
    "schemes": {"C": CS, "density": [None, "sqrt", 3, "inverse"]},
    "density gamma": {
        "density": [DensityWeights(scheme, gamma=g, normalize=norm) for scheme in (1, 4, "same_class")
                    for g in (2.0, 20.0) for norm in (None, "mean")],
    },
    "random weights": {"C": CS, "density": ["random"], "random_state": [0, 7]},
    "Fourier weights": {"density": [DensityWeights("sqrt", method="fourier", n_components=50, random_state=1)]},
    "intercept": {"C": CS, "intercept": ["free", None, -0.7, 1, "augmented"]},
    "squared hinge": {"C": CS, "loss": ["squared_hinge"], "intercept": ["free", 0.5], "density": [None, "sqrt"]},
    "alpha": {"alpha": [1e-4, 1e-2, 1.0, None]},
    "two grids": [{"C": CS}, {"kernel": ["linear"], "C": [1.0], "degree": [2, 3]}, {}],
    "everything": {
        "C": CS, "gamma": [0.1, 1.0], "class_weight": [None, "balanced"], "density": ["sqrt", "inverse"],
        "intercept": ["free", 0.3],
    },
}  # fmt: skip


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_a_kernel_machine_gets_the_numbers_of_grid_search(grid):
    assert_same(*both(KernelSVM(), grid, scoring="roc_auc"))


@pytest.mark.parametrize("labels", [Y, NAMES, THREE, Y > 0], ids=lambda y: f"{y.dtype}-{y[:1]}")
def test_labels_of_any_kind_and_number(labels):
    assert_same(*both(KernelSVM(), {"C": CS, "class_weight": [None, "balanced"]}, y=labels, return_train_score=True))


def test_many_classes_and_a_metric_of_their_scores():
    metrics = ["accuracy", "balanced_accuracy", "f1_macro"]
    assert_same(*both(KernelSVM(), {"C": CS, "gamma": [0.1, 1]}, y=THREE, scoring=metrics, refit="f1_macro"))


@pytest.mark.parametrize(
    "rows", [X.astype(np.float32), csr_matrix(X), pd.DataFrame(X).add_prefix("column "), X.tolist()],
    ids=["float32", "sparse", "frame", "lists"],
)  # fmt: skip
def test_rows_of_any_kind(rows):
    assert_same(*both(KernelSVM(), {"C": CS, "gamma": [0.1, "scale"]}, X=rows, scoring="balanced_accuracy"))


def test_many_columns_share_their_distances():
    wide = np.random.default_rng(0).normal(size=(Y.size, 80)) + 0.3 * Y[:, None]
    grid = {"C": CS, "gamma": [1e-3, 1e-2, 0.1], "kernel": ["rbf", Laplacian(0.01), Laplacian(0.1), "linear"]}
    assert_same(*both(KernelSVM(), grid, X=wide, scoring="roc_auc"))


def test_a_pipeline_whose_transformers_have_settings():
    pipeline = Pipeline([("scale", StandardScaler()), ("svm", KernelSVM())])
    grid = {
        "svm__C": CS, "svm__gamma": [0.1, "scale"], "scale": [StandardScaler(), MinMaxScaler(), "passthrough"],
    }  # fmt: skip
    assert_same(*both(pipeline, grid, scoring="roc_auc"))


class Counting(TransformerMixin, BaseEstimator):
    """Rows as they are, and how often it was fitted."""

    fits: list = []

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, y=None):
        self.fits.append(self.shift)
        self.mean_ = X.mean(axis=0)
        return self

    def transform(self, X):
        return X - self.mean_ + self.shift


def test_transformers_are_fitted_once_for_each_fold_and_setting():
    Counting.fits.clear()
    grid = {"kernelsvm__C": CS, "kernelsvm__gamma": [0.1, 1.0], "counting__shift": [0.0, 1.0]}
    search = SharedGridSearch(make_pipeline(Counting(), KernelSVM()), grid, cv=3, refit=False).fit(X, Y)
    assert search.shares_work_
    assert sorted(Counting.fits) == [0.0] * 3 + [1.0] * 3


def test_training_rows_are_those_of_fit_transform():
    class Noisy(Counting):
        """Fitting rows are transformed in another way than others, as by target encoders."""

        def fit_transform(self, X, y=None):
            return self.fit(X).transform(X) * 1.5

    assert_same(*both(make_pipeline(Noisy(), KernelSVM()), {"kernelsvm__C": CS}, scoring="roc_auc"))


Z_GRID = {
    "estimator__C": CS, "estimator__gamma": [0.1, 1.0], "method": ["z", "threshold"],
    "metric": ["gmean", "f1", FBeta(2.0)], "place": ["upper", "middle"],
}  # fmt: skip


@pytest.mark.parametrize("labels", [Y, NAMES], ids=["numbers", "names"])
def test_z_and_threshold(labels):
    metrics = ["balanced_accuracy", "roc_auc"]
    assert_same(*both(ZAdjustedClassifier(KernelSVM()), Z_GRID, y=labels, scoring=metrics, refit="roc_auc"))


def test_z_over_a_pipeline_with_costs_and_densities():
    machine = ZAdjustedClassifier(make_pipeline(StandardScaler(), KernelSVM(class_weight="balanced")), place="middle")
    grid = {
        "estimator__kernelsvm__C": CS, "method": ["z", "threshold"],
        "estimator__kernelsvm__density": ["sqrt", DensityWeights("same_class", gamma=3.0)],
        "estimator__kernelsvm__intercept": ["free", 0.5],
    }  # fmt: skip
    assert_same(*both(machine, grid, scoring="balanced_accuracy"))


def test_the_golden_search_of_z():
    grid = {"estimator__C": CS, "search": ["golden", "exact"], "z_max": [None, 5.0]}
    assert_same(*both(ZAdjustedClassifier(KernelSVM()), grid, scoring="balanced_accuracy"))


SPLITTERS = {
    "default": None,
    "three": 3,
    "KFold": KFold(4, shuffle=True, random_state=0),
    "repeated": RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
    "shuffled": StratifiedShuffleSplit(3, test_size=0.3, train_size=0.5, random_state=0),
    "predefined": PredefinedSplit(np.arange(Y.size) % 4 - 1),
    "lists": [(np.arange(100), np.arange(100, 150)), (np.arange(40, 150), np.arange(60))],
    "masks": [(np.arange(150) < 100, np.arange(150) >= 100)],
}


@pytest.mark.parametrize("cv", SPLITTERS.values(), ids=SPLITTERS)
def test_any_splitter(cv):
    assert_same(*both(KernelSVM(), {"C": CS}, cv=cv, scoring="roc_auc"))


def test_groups_go_to_the_splitter():
    assert_same(*both(KernelSVM(), {"C": CS}, cv=GroupKFold(5), fit={"groups": GROUPS}))


def test_rows_drawn_twice_are_left_to_single_fits():
    rows = np.random.default_rng(0).integers(0, 150, 200)
    assert_same(*both(KernelSVM(), {"C": CS}, cv=[(rows, np.arange(150))], scoring="roc_auc"), shares=False)


@pytest.mark.skipif(not hasattr(make_scorer(accuracy_score), "_accept_sample_weight"), reason="scorers get no weights")
@pytest.mark.parametrize(
    "estimator", [KernelSVM(), KernelSVM(class_weight="balanced", density="sqrt"), ZAdjustedClassifier(KernelSVM())]
)
def test_sample_weights_count_in_fits_and_scores(estimator):
    C = "estimator__C" if isinstance(estimator, ZAdjustedClassifier) else "C"
    assert_same(*both(estimator, {C: CS}, fit={"sample_weight": WEIGHTS}, scoring="accuracy"))


def test_sample_weights_of_a_pipelines_last_step():
    pipeline = make_pipeline(StandardScaler(), KernelSVM())
    assert_same(*both(pipeline, {"kernelsvm__C": CS}, fit={"kernelsvm__sample_weight": WEIGHTS}, scoring="roc_auc"))


def test_a_scorer_that_takes_no_weights_is_told_of():
    def plain(estimator, X, y):
        return estimator.score(X, y)

    with pytest.warns(UserWarning, match="but not by scoring"):
        SharedGridSearch(KernelSVM(), {"C": CS}, scoring=plain).fit(X, Y, sample_weight=WEIGHTS)


# --- metrics ---


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_metric_is_the_scorers_own(name):
    assert_same(*both(KernelSVM(class_weight="balanced"), {"C": CS, "gamma": [0.1, 1, "scale"]}, scoring=name))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_where_a_metric_is_not_defined_the_scorer_decides():
    metrics = ["precision", "recall", "f1", "roc_auc", "average_precision", "balanced_accuracy"]
    folds = [(np.arange(150), np.flatnonzero(Y < 0)[:20]), (np.arange(150), np.arange(150))]
    single = [name for name in metrics if name not in ("roc_auc", "average_precision", "balanced_accuracy")]
    assert_same(*both(KernelSVM(), {"C": [1e-3, 1.0]}, cv=folds, scoring=single, refit="recall"))
    assert_same(*both(KernelSVM(), {"C": [1e-3, 1.0]}, cv=folds[1:], scoring=metrics, refit="roc_auc"))


def test_an_undefined_metric_warns_as_the_scorer_does():
    with pytest.warns(UndefinedMetricWarning, match="Precision is ill-defined"):
        SharedGridSearch(KernelSVM(), {"C": [1e-4]}, scoring="precision", n_jobs=1).fit(X, Y)


def test_scorers_of_any_kind():
    def distance(estimator, X, y):
        return float(np.abs(estimator.decision_function(X[::2])).mean()) + estimator.support_.size

    scoring = {
        "name": "f1_macro", "other positive": make_scorer(f1_score, pos_label=-1), "own": distance,
        "scores": make_scorer(lambda y, s: float(s.mean()), response_method="decision_function"),
    }  # fmt: skip
    for refit in ("name", "own", False):
        ours, theirs = both(KernelSVM(), {"C": CS}, scoring=scoring, refit=refit, return_train_score=True)
        expected = scores(theirs.cv_results_)
        assert_allclose(scores(ours.cv_results_)[expected.columns].to_numpy(), expected.to_numpy(), atol=1e-9)
        assert ours.multimetric_
        assert set(ours.scorer_) == set(scoring)
        assert hasattr(ours, "best_index_") == hasattr(theirs, "best_index_")


def test_a_callable_may_return_several_metrics():
    def several(estimator, X, y):
        called = estimator.predict(X)
        return {"right": accuracy_score(y, called), "found": recall_score(y, called)}

    assert_same(*both(KernelSVM(), {"C": CS}, scoring=several, refit="found"), shares=False)


def test_refit_may_choose_by_itself():
    def cheapest(results):
        good = results["mean_test_score"] > np.max(results["mean_test_score"]) - 0.05
        return int(np.flatnonzero(good)[0])

    ours, theirs = both(KernelSVM(), {"C": CS}, refit=cheapest)
    assert ours.best_index_ == theirs.best_index_
    assert not hasattr(ours, "best_score_")


# --- what cannot share is fitted one by one ---

PLAIN = {
    "loss": (KernelSVM(), {"C": CS, "loss": ["log"]}),
    "solver": (KernelSVM(solver="sgd", max_iter=200, random_state=0), {"C": CS}),
    "linear": (LinearSVM(random_state=0), {"C": CS, "class_weight": [None, "balanced"]}),
    "SVC": (SVC(), {"C": CS, "gamma": [0.1, "scale"]}),
    "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": CS}),
    "no parameters": (GaussianNB(), {}),
    "z with folds": (ZAdjustedClassifier(KernelSVM(), cv=3), {"estimator__C": CS}),
    "own kernel": (KernelSVM(kernel=rbf_kernel), {"C": CS}),
}


@pytest.mark.parametrize(("estimator", "grid"), PLAIN.values(), ids=PLAIN)
def test_other_estimators_get_the_same_numbers(estimator, grid):
    assert_same(*both(estimator, grid, scoring="balanced_accuracy"), shares=False)


def test_a_precomputed_kernel():
    assert_same(*both(KernelSVM(kernel="precomputed"), {"C": CS}, X=rbf_kernel(X, gamma=0.3)), shares=False)


def test_machines_that_share_and_machines_that_do_not_in_one_grid():
    grid = [{"C": CS}, {"C": CS, "loss": ["log"]}]
    ours, theirs = both(KernelSVM(), grid)
    assert_same(ours, theirs, shares=False)
    assert ours.n_shared_ == 15


def test_estimators_as_parameters():
    pipeline = Pipeline([("svm", KernelSVM())])
    grid = [{"svm": [KernelSVM(gamma=0.1), KernelSVM(gamma=1.0)], "svm__C": CS}, {"svm": [LogisticRegression()]}]
    ours, theirs = both(pipeline, grid, refit=False)
    assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-12)
    assert ours.n_shared_ == 30


def test_folds_too_long_for_the_last_digits_are_solved_to_tol():
    rows, labels = imbalanced(n=2700, d=5, ratio=0.75, seed=1)
    grid = {"C": [0.1, 10.0], "gamma": [0.1, "scale"], "intercept": ["free", None]}
    ours, theirs = both(KernelSVM(), grid, X=rows, y=labels, scoring="roc_auc", refit=False)
    assert ours.shares_work_
    assert_allclose(
        scores(ours.cv_results_).filter(like="split"), scores(theirs.cv_results_).filter(like="split"), atol=2e-4
    )


def test_little_memory_means_single_fits():
    search = SharedGridSearch(KernelSVM(), {"C": CS}, cache_size=0.01).fit(X, Y)
    assert search.n_shared_ == 0
    assert_same(*both(KernelSVM(), {"C": CS}))


# --- what a user meets ---


def test_the_best_estimator_answers():
    search = SharedGridSearch(KernelSVM(), {"C": CS}, scoring="roc_auc").fit(pd.DataFrame(X).add_prefix("c"), Y)
    frame = pd.DataFrame(X).add_prefix("c")
    fitted = clone(search.estimator).set_params(**search.best_params_).fit(frame, Y)
    assert_array_equal(search.predict(frame), fitted.predict(frame))
    assert_array_equal(search.decision_function(frame), fitted.decision_function(frame))
    assert search.score(frame, Y) == search.scorer_(fitted, frame, Y)
    assert_array_equal(search.classes_, [-1, 1])
    assert search.n_features_in_ == 5
    assert list(search.feature_names_in_) == list(frame)
    assert search.n_splits_ == 5
    assert search.refit_time_ > 0
    assert search.multimetric_ is False
    assert not hasattr(search, "predict_proba")


def test_probabilities_and_transformed_rows_where_the_estimator_has_them():
    search = SharedGridSearch(LogisticRegression(), {"C": CS}).fit(X, Y)
    assert search.predict_proba(X).shape == (150, 2)
    assert_allclose(np.exp(search.predict_log_proba(X)), search.predict_proba(X))
    scaler = SharedGridSearch(StandardScaler(), {"with_mean": [True, False]}, scoring=lambda s, X, y=None: s.with_mean)
    assert scaler.fit(X).transform(X).shape == X.shape


def test_without_refit_there_are_results_only():
    search = SharedGridSearch(KernelSVM(), {"C": CS}, refit=False).fit(X, Y)
    assert search.best_params_["C"] in CS
    assert not hasattr(search, "best_estimator_")
    with pytest.raises(AttributeError, match="predict") as refused:
        search.predict(X)
    assert "refit=False" in str(refused.value.__cause__)


def test_results_are_a_table():
    grid = [{"C": CS, "kernel": ["rbf"]}, {"kernel": ["linear"]}]
    table = SharedGridSearch(KernelSVM(), grid).fit(X, Y).cv_results_
    assert isinstance(table, pd.DataFrame)
    assert table.shape[0] == 4
    assert table["param_kernel"].tolist() == ["rbf"] * 3 + ["linear"]
    assert table["param_C"].tolist()[:3] == CS
    assert np.isnan(table["param_C"][3])
    assert (table[["mean_fit_time", "mean_score_time"]] > 0).all().all()


def test_threads_give_the_same_bits():
    grid = {"C": CS, "gamma": [0.1, 1.0, "scale"], "density": ["sqrt", "inverse"]}
    tables = [
        scores(SharedGridSearch(KernelSVM(), grid, scoring="roc_auc", n_jobs=jobs).fit(X, Y).cv_results_)
        for jobs in (1, 2, 5, -1)
    ]
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0], check_exact=True)


def test_a_search_can_be_fitted_again_copied_and_pickled():
    search = SharedGridSearch(KernelSVM(), {"C": CS}, scoring=["roc_auc", "f1"], refit="f1").fit(X, Y)
    again = pickle.loads(pickle.dumps(search))
    assert_array_equal(again.predict(X), search.predict(X))
    search.set_params(scoring=["roc_auc", "f1"], refit=False).fit(X, Y)
    assert not hasattr(search, "best_index_")
    assert not hasattr(clone(search), "cv_results_")


def test_a_progress_bar_counts_fits(capsys):
    SharedGridSearch(KernelSVM(), {"C": CS}, verbose=1).fit(X, Y)
    assert "15/15" in capsys.readouterr().out


def test_metadata_routing_reaches_the_estimator():
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = KernelSVM().set_fit_request(sample_weight=True)
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight=False)
        ours, theirs = both(estimator, {"C": CS}, fit={"sample_weight": WEIGHTS}, scoring=scorer)
        assert_same(ours, theirs, shares=False)
        assert_same(*both(estimator, {"C": CS}, cv=GroupKFold(3), fit={"groups": GROUPS}, scoring=scorer))


def test_nested_in_cross_validation():
    search = SharedGridSearch(KernelSVM(), {"C": CS}, cv=3)
    peer = GridSearchCV(KernelSVM(), {"C": CS}, cv=3)
    ours, theirs = (sklearn.model_selection.cross_val_score(each, X, Y, cv=3) for each in (search, peer))
    assert_allclose(ours, theirs)


EXPECTED = {
    "check_classifiers_one_label_sample_weights": "its folds may hold one class, as those of GridSearchCV may",
}


@parametrize_with_checks(
    [
        SharedGridSearch(KernelSVM(), {"C": [0.1, 1]}, error_score="raise"),
        SharedGridSearch(
            make_pipeline(StandardScaler(), LinearSVM(random_state=0)), {"linearsvm__C": [0.1, 1]}, error_score="raise"
        ),
    ],
    expected_failed_checks=lambda search: {} if isinstance(search.estimator, Pipeline) else EXPECTED,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# --- bad input ---


def test_an_unknown_parameter_is_named():
    for estimator in (KernelSVM(), LinearSVM()):
        with pytest.raises(ValueError, match="Invalid parameter 'no_such'"):
            SharedGridSearch(estimator, {"no_such": [1]}).fit(X, Y)


@pytest.mark.parametrize(
    ("grid", "words"),
    [({"C": []}, "non-empty"), ({"C": 1.0}, "list"), ("C", "param_grid"), ([], "no candidates")],
)
def test_a_grid_that_makes_no_sense(grid, words):
    with pytest.raises((ValueError, TypeError), match=words):
        SharedGridSearch(KernelSVM(), grid).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scoring": "no such metric"}, "scoring"),
        ({"scoring": []}, "scoring|Empty"),
        ({"scoring": ["f1", "roc_auc"]}, "refit must be one of"),
        ({"scoring": ["f1", "roc_auc"], "refit": "accuracy"}, "must be one of 'f1', 'roc_auc'"),
        ({"refit": lambda results: 99}, "refit returned 99"),
        ({"refit": lambda results: 0.5}, "refit returned 0.5"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"cache_size": -1}, "cache_size"),
        ({"error_score": "rise"}, "error_score"),
        ({"cv": []}, "cv gives no folds"),
        ({"cv": 1}, "cv"),
        ({"cv": GroupKFold(3)}, "groups"),
        ({"scoring": lambda e, X, y: "much"}, "must return a number"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense(options, words):
    with pytest.raises(ValueError, match=words):
        SharedGridSearch(KernelSVM(), {"C": CS}, **options).fit(X, Y)


def test_a_candidate_that_cannot_be_fitted_gets_the_error_score():
    search = SharedGridSearch(KernelSVM(), {"C": [-1.0, 1.0], "gamma": [0.1, "scall"]}, error_score=-5.0)
    with pytest.warns(FitFailedWarning, match="15 fits failed out of a total of 20.*C.*parameter"):
        search.fit(X, Y)
    assert search.cv_results_["mean_test_score"].tolist()[:2] == [-5.0, -5.0]
    assert search.best_params_ == {"C": 1.0, "gamma": 0.1}
    assert search.n_shared_ == 5


def test_nan_scores_are_ranked_last():
    search = SharedGridSearch(KernelSVM(), {"C": [-1.0, 1.0, 10.0]})
    with pytest.warns(FitFailedWarning, match="5 fits failed"), pytest.warns(UserWarning, match="non-finite"):
        search.fit(X, Y)
    assert search.cv_results_["rank_test_score"][0] == 3


def test_errors_are_raised_where_that_is_asked_for():
    with pytest.raises(ValueError, match="The 'C' parameter of KernelSVM"):
        SharedGridSearch(KernelSVM(), {"C": [1.0, -1.0]}, error_score="raise").fit(X, Y)


def test_when_all_fits_fail_the_reason_is_said_once():
    with pytest.raises(ValueError, match=r"All the 10 fits failed \(10 times: .*C"):
        SharedGridSearch(KernelSVM(C=-1.0), {"gamma": [0.1, 1.0]}).fit(X, Y)


def test_a_fold_without_one_of_the_classes():
    folds = [(np.flatnonzero(Y < 0), np.arange(150)), (np.arange(150), np.arange(150))]
    with pytest.warns(FitFailedWarning, match="one class only"), pytest.warns(UserWarning, match="non-finite"):
        search = SharedGridSearch(KernelSVM(), {"C": CS}, cv=folds).fit(X, Y)
    assert search.cv_results_["split0_test_score"].isna().all()
    assert search.cv_results_["split1_test_score"].notna().all()


def test_a_fold_without_one_of_three_classes_is_fitted_with_two():
    folds = [(np.flatnonzero(THREE != 2), np.arange(150)), (np.arange(0, 150, 2), np.arange(1, 150, 2))]
    assert_same(*both(KernelSVM(), {"C": CS}, y=THREE, cv=folds))


def test_a_scorer_that_fails():
    def picky(estimator, X, y):
        if estimator.C > 1:
            raise RuntimeError("too expensive")
        return 1.0

    with pytest.warns(UserWarning, match="Scoring failed 5 times"), pytest.warns(UserWarning, match="non-finite"):
        search = SharedGridSearch(KernelSVM(), {"C": [0.1, 10.0]}, scoring=picky).fit(X, Y)
    assert search.cv_results_["mean_test_score"][0] == 1.0
    with pytest.raises(RuntimeError, match="too expensive"):
        SharedGridSearch(KernelSVM(), {"C": [0.1, 10.0]}, scoring=picky, error_score="raise").fit(X, Y)


def test_rows_with_missing_values_are_refused_as_by_the_machine():
    broken = X.copy()
    broken[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        SharedGridSearch(KernelSVM(), {"C": CS}, error_score="raise").fit(broken, Y)


def test_z_with_three_classes_is_refused_as_by_the_classifier():
    with pytest.raises(ValueError, match="binary"):
        SharedGridSearch(ZAdjustedClassifier(KernelSVM()), {"estimator__C": CS}, error_score="raise").fit(X, THREE)


INTERRUPTED = """
import numpy as np
from evenmargin import KernelSVM
from evenmargin.selection import SharedGridSearch

rng = np.random.default_rng(0)
X, y = rng.normal(size=(1500, 5)), rng.integers(0, 2, 1500)
SharedGridSearch(KernelSVM(), {"C": [1.0], "gamma": [1.0]}).fit(X[:200], y[:200])
grid = {"C": np.logspace(0, 4, 10), "gamma": np.logspace(-2, 2, 50)}
print("started", flush=True)
try:
    SharedGridSearch(KernelSVM(), grid).fit(X, y)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are another matter there")
def test_a_search_can_be_interrupted():
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "started\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        asked = time.perf_counter()
        assert process.stdout.readline() == "interrupted\n"
        assert time.perf_counter() - asked < 10.0


# --- the pegasos paper's search ---


def test_the_pegasos_grid_holds_lambda_bias_and_the_waits():
    grid = pegasos_grid(X, Y, random_state=0)
    assert grid["alpha"] == [10.0**k for k in range(-4, 4)]
    assert_allclose(grid["intercept"], np.linspace(-2, 2, 10))
    every = [rule.every for rule in grid["stopping"]]
    assert every == list(range(every[0], every[-1] + 1))
    assert every[0] >= 1


def test_the_pegasos_search_is_that_of_grid_search():
    grid = pegasos_grid(X, Y, lam=[1e-2, 1.0], b=[-0.5, 0.5], most=3, random_state=0)
    assert 1 <= len(grid["stopping"]) <= 3
    machine = papers.cost_sensitive_pegasos(T=200, random_state=0)
    assert_same(*both(machine, grid, scoring="roc_auc"), shares=False)


def test_the_steps_between_checks_may_be_given():
    assert [rule.every for rule in pegasos_grid(X, Y, every=[5, 50])["stopping"]] == [5, 50]
    assert all(isinstance(rule, AUCHalting) for rule in pegasos_grid(X, Y, every=[5])["stopping"])


def test_too_few_improvements_to_tell_a_wait():
    with pytest.raises(ValueError, match="improved 0 times in 10 steps"):
        pegasos_grid(np.zeros((20, 2)), np.arange(20) % 2, T=10)


# --- paths ---


def fold_of(seed, size=110):
    return np.random.default_rng(seed).permutation(Y.size)[:size]


@pytest.fixture(params=["small", "large"])
def way(request, monkeypatch):
    """Both ways of solving a path, on the same rows."""
    if request.param == "large":
        monkeypatch.setattr(price_paths, "SMALL", 10)
    return {"small": 1e-8, "large": 2e-3}[request.param]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", ["free", 0.4, None])
def test_a_path_is_the_machines_of_single_fits(way, dtype, intercept):
    K = rbf_kernel(X, gamma=0.4).astype(dtype)
    cost = np.random.default_rng(1).uniform(0.5, 2.0, Y.size)
    folds = [fold_of(0), fold_of(1, 90)]
    given = 0.0 if intercept is None else intercept
    found = solve_paths(
        K, folds, Y, np.outer([0.1, 3.0, 200.0], cost), free=intercept == "free",
        intercept=0.0 if intercept == "free" else given,
    )  # fmt: skip
    assert found.converged.all()
    for fold, betas, intercepts, path in zip(folds, found.beta, found.intercept, found.scores, strict=True):
        for C, beta, b, score in zip([0.1, 3.0, 200.0], betas, intercepts, path, strict=True):
            machine = KernelSVM(C, gamma=0.4, intercept=intercept).fit(X[fold], Y[fold], sample_weight=cost[fold])
            close = max(way, 1e-4 if dtype == np.float32 else 0.0) * max(1.0, np.abs(score).max())
            assert_allclose(score, machine.decision_function(X), atol=close)
            assert b == pytest.approx(machine.intercept_[0], abs=close)
            assert_allclose(K[:, fold] @ beta + b, score, atol=close)
            assert ((beta * Y[fold] >= 0) & (np.abs(beta) <= C * cost[fold])).all()


@pytest.mark.parametrize("intercept", ["free", 0.4])
def test_a_path_of_the_squared_hinge(intercept):
    cost = np.random.default_rng(1).uniform(0.5, 2.0, Y.size)
    fold, fixed = fold_of(0), intercept != "free"
    found = solve_paths(
        rbf_kernel(X, gamma=0.4), [fold], Y, np.outer([0.1, 3.0, 200.0, 1.0], cost), free=not fixed,
        intercept=0.4 * fixed, squared=True,
    )  # fmt: skip
    for C, score in zip([0.1, 3.0, 200.0, 1.0], found.scores[0], strict=True):
        machine = KernelSVM(C, gamma=0.4, loss="squared_hinge", intercept=intercept)
        machine.fit(X[fold], Y[fold], sample_weight=cost[fold])
        assert_allclose(score, machine.decision_function(X), atol=1e-7)


def test_long_folds_have_no_path_of_the_squared_hinge():
    with pytest.raises(ValueError, match="up to 2048 rows"):
        solve_paths(np.eye(2049), [np.arange(2049)], np.ones(2049), np.ones((1, 2049)), squared=True)


def test_prices_in_any_order(way):
    K = rbf_kernel(X, gamma=0.4)
    prices = np.outer([3.0, 0.1, 200.0, 3.0], np.ones(Y.size))
    found = solve_paths(K, [fold_of(0)], Y, prices)
    alone = [solve_paths(K, [fold_of(0)], Y, prices[[c]]).scores[0, 0] for c in range(4)]
    assert_allclose(found.scores[0], alone, atol=way * np.abs(found.scores).max())


def test_folds_may_have_labels_and_prices_of_their_own(way):
    K = rbf_kernel(X, gamma=0.4)
    labels = np.stack([Y, np.where(THREE == 1, 1, -1)])
    prices = np.stack([np.full((2, Y.size), C) * [[1.0], [4.0]] for C in (0.5, 2.0)])
    folds = [fold_of(0), fold_of(2)]
    found = solve_paths(K, folds, labels, prices)
    for k in range(2):
        alone = solve_paths(K, [folds[k]], labels[k], prices[k])
        assert_array_equal(found.scores[k], alone.scores[0])


def test_threads_give_the_same_paths(way):
    K = rbf_kernel(X, gamma=0.4).astype(np.float32)
    folds, prices = [fold_of(k) for k in range(6)], np.outer([0.1, 10.0], np.ones(Y.size))
    alone = solve_paths(K, folds, Y, prices)
    with Workers(3) as workers:
        together = solve_paths(K, folds, Y, prices, workers=workers)
    assert_array_equal(alone.scores, together.scores)


def test_where_no_row_is_at_its_price_a_larger_price_changes_nothing(way):
    K = rbf_kernel(X, gamma=50.0)
    found = solve_paths(K, [fold_of(0)], Y, np.outer([100.0, 1000.0], np.ones(Y.size)))
    assert_array_equal(found.beta[0][0], found.beta[0][1])


def test_a_kernel_matrix_that_is_singular(way):
    twice = np.concatenate([X[:60], X[:60]])[:, :2].round(1)
    y = np.concatenate([Y[:60], Y[:60]])
    K = (twice @ twice.T + 1.0) ** 2
    found = solve_paths(K, [np.arange(120)], y, np.outer([0.01, 1.0], np.ones(120)))
    assert found.converged.all()
    machine = SVC(C=1.0, kernel="precomputed", tol=1e-8).fit(K, y)
    assert_allclose(found.scores[0, 1], machine.decision_function(K), atol=5e-3 if way > 1e-3 else 1e-4)


PYTHON = """
import numpy as np
from evenmargin import KernelSVM
from evenmargin.selection import SharedGridSearch

rng = np.random.default_rng(0)
X, y = rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
search = SharedGridSearch(KernelSVM(), {"C": [0.1, 1.0], "gamma": [0.5]}, cv=2, n_jobs=1, scoring="roc_auc").fit(X, y)
assert search.shares_work_
print(search.cv_results_["mean_test_score"].round(12).tolist())
"""


def test_compiled_and_plain_python_agree():
    found = [
        subprocess.run(
            [sys.executable, "-c", PYTHON], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONWARNINGS": "error", "NUMBA_DISABLE_JIT": disable},
        ).stdout
        for disable in ("0", "1")
    ]  # fmt: skip
    assert found[0] == found[1] != ""


class Stubborn(ClassifierMixin, BaseEstimator):
    """A classifier that is never right."""

    def __init__(self, k=0):
        self.k = k

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), "neither")


def test_any_classifier_may_be_searched():
    search = SharedGridSearch(Stubborn(), {"k": [1, 2]}).fit(X, NAMES)
    assert search.cv_results_["mean_test_score"].tolist() == [0.0, 0.0]
    assert StratifiedKFold(5).get_n_splits() == search.n_splits_
