"""z and threshold: the searches against brute force, and the classifier as its users meet it."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
import time
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import sklearn
from conftest import imbalanced
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, fbeta_score, recall_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, StratifiedShuffleSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenmargin import zsvm
from evenmargin.adjust import best_threshold, best_z
from evenmargin.metrics import CostMatrix, FBeta, GMean, get_metric
from evenmargin.zsvm import ZAdjustedClassifier

X, Y = imbalanced(n=240, d=6, ratio=0.88, seed=2)
NAMES = np.where(Y > 0, "a rare one", "common")  # the minority comes first in classes_
METRICS = ["gmean", "f1", "balanced_accuracy", FBeta(2.0), CostMatrix([[0, 1], [7, -1]])]
PLACES = ["upper", "middle", "lower"]
tight = {"gamma": 0.1, "tol": 1e-12}


def counts(positive, truth, weight):
    """tp, fn, fp, tn."""
    return [
        float(weight[true & called].sum())
        for true, called in [(truth, positive), (truth, ~positive), (~truth, positive), (~truth, ~positive)]
    ]


def at_z(z, p, q, truth, weight, metric="gmean"):
    return float(get_metric(metric)(*map(np.array, counts(z * p + q > 0, truth, weight))))


def brute_z(p, q, truth, weight, metric):
    """The best value over the breakpoints, their floating-point neighbours, and a point of every interval."""
    with np.errstate(divide="ignore", invalid="ignore"):
        breaks = -q / p
    breaks = np.unique(breaks[np.isfinite(breaks) & (breaks > 0)])
    up, down = [breaks], [breaks]
    for _ in range(3):
        up.append(np.nextafter(up[-1], np.inf))
        down.append(np.nextafter(down[-1], 0.0))
    ends = np.concatenate([[0.0], breaks, [2.0 * breaks[-1] + 1.0 if breaks.size else 1.0]])
    tried = np.concatenate([*up, *down, 0.5 * (ends[1:] + ends[:-1]), [0.0, 1e-99, ends[-1]]])
    return max(at_z(z, p, q, truth, weight, metric) for z in tried)


# --- the exact search ---

number = st.one_of(st.sampled_from([0.0, 0.5, 1.0, -1.0, 2.0, -0.25, 1 / 3, -0.1, 0.1]), st.floats(-50, 50, width=16))


@st.composite
def tables(draw, values=number, least=2):
    """Columns p and q, labels and whole weights, with both classes in play."""
    n = draw(st.integers(least, 12))
    column = st.lists(values, min_size=n, max_size=n).map(np.array)
    truth = np.array([True, False, *draw(st.lists(st.booleans(), min_size=n - 2, max_size=n - 2))])
    whole = st.sampled_from([0.0, 1.0, 1.0, 3.0])
    weight = np.array([1.0, 2.0, *draw(st.lists(whole, min_size=n - 2, max_size=n - 2))])
    return draw(column), draw(column), truth, weight


@given(tables(), st.sampled_from(METRICS), st.sampled_from(PLACES))
def test_exact_search_equals_brute_force_and_z_attains_its_value(table, metric, place):
    p, q, truth, weight = table
    best = best_z(p, q, truth, metric, weight, place=place)
    assert best.value == pytest.approx(brute_z(p, q, truth, weight, metric), rel=1e-12)
    assert best.value == at_z(best.z, p, q, truth, weight, metric)  # bit by bit
    low, high = best.interval
    assert 0 <= low <= best.z <= high
    for z in (low, low + 0.3 * (min(high, 2.0 * low + 1.0) - low), min(high, 1e300)):
        assert at_z(z, p, q, truth, weight, metric) >= best.value - 1e-11


@given(tables(values=st.sampled_from([0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 0.25, 4.0, -4.0])))
def test_exact_search_is_exact_in_rational_arithmetic(table):
    """With powers of two every breakpoint is a number, and so is the point where f = 0."""
    p, q, truth, weight = table
    breaks = sorted({Fraction(-b) / Fraction(a) for a, b in zip(p, q, strict=True) if a and -b / a > 0})
    ends = [Fraction(0), *breaks, (breaks[-1] if breaks else 0) + 1]
    tried = [*ends, *((a + b) / 2 for a, b in pairwise(ends))]
    values = []
    for z in tried:
        called = np.array([z * Fraction(a) + Fraction(b) > 0 for a, b in zip(p, q, strict=True)])
        values.append(float(GMean()(*map(np.array, counts(called, truth, weight)))))
    assert best_z(p, q, truth, sample_weight=weight).value == pytest.approx(max(values), rel=1e-12)


@given(tables(), st.sampled_from(METRICS))
def test_golden_section_is_never_better(table, metric):
    p, q, truth, weight = table
    golden = best_z(p, q, truth, metric, weight, search="golden")
    assert golden.value == at_z(golden.z, p, q, truth, weight, metric)
    assert golden.interval[0] <= golden.z <= golden.interval[1]
    assert golden.value <= best_z(p, q, truth, metric, weight).value + 1e-12


@given(tables(), st.sampled_from(METRICS), st.sampled_from(PLACES))
def test_the_threshold_equals_brute_force_and_attains_its_value(table, metric, place):
    scores, _, truth, weight = table
    best = best_threshold(scores, truth, metric, weight, place=place)

    def value(threshold):
        return float(get_metric(metric)(*map(np.array, counts(scores - threshold > 0, truth, weight))))

    tried = np.concatenate([scores, np.nextafter(scores, np.inf), np.nextafter(scores, -np.inf), [-99.0, 99.0]])
    assert best.value == pytest.approx(max(map(value, tried)), rel=1e-12)
    assert best.value == value(best.threshold)
    assert best.interval[0] <= best.threshold <= best.interval[1]
    for threshold in np.clip(best.interval, -1e300, 1e300):
        assert value(threshold) >= best.value - 1e-11


@given(tables())
def test_a_weight_is_a_number_of_rows(table):
    p, q, truth, weight = table
    many = weight.astype(int)
    again = [np.repeat(part, many) for part in (p, q, truth)]
    for metric in METRICS:
        assert best_z(p, q, truth, metric, weight) == best_z(*again, metric)
        assert best_threshold(p, truth, metric, weight) == best_threshold(again[0], again[2], metric)


@given(tables(), st.floats(0.01, 100))
def test_fractional_weights_choose_as_whole_ones(table, factor):
    p, q, truth, weight = table
    whole, part = (best_z(p, q, truth, sample_weight=scale * weight) for scale in (1.0, factor))
    assert part.interval == whole.interval
    assert part.value == pytest.approx(whole.value)


def test_golden_section_misses_what_the_exact_search_finds():
    """The metric has two peaks; the search settles on the lower one."""
    p, q = np.ones(10), -np.array([3.0, 3.0, 9.0, 9.0, 9.0, 6.0, 9.5, 9.5, 9.5, 9.5])
    truth = np.arange(10) < 5
    exact, golden = best_z(p, q, truth), best_z(p, q, truth, search="golden", z_max=12.0)
    assert exact.interval == pytest.approx((9.0, 9.5))
    assert golden.interval == pytest.approx((3.0, 6.0))
    assert golden.value < exact.value


def test_golden_section_climbs_off_the_flats_at_both_ends():
    p, q, truth = np.ones(4), -np.array([1.0, 1.0, 1.2, 1.3]), [1, 1, 0, 0]
    for z_max in (None, 1.4, 100.0, 1e6):
        assert best_z(p, q, truth, search="golden", z_max=z_max).interval == pytest.approx((1.0, 1.2))


def test_the_place_on_the_plateau():
    p, q, truth = [1.0, 1.0, 1.0], [-1.0, -2.0, -6.0], [1, 1, 0]
    z = {place: best_z(p, q, truth, place=place).z for place in PLACES}
    assert z["lower"] == pytest.approx(2.04)
    assert z["middle"] == pytest.approx(4.0)
    assert z["upper"] == pytest.approx(5.96)
    cut = {place: best_threshold([5.0, 4.0, 0.0], truth, place=place).threshold for place in PLACES}
    assert cut["upper"] == pytest.approx(0.04)  # the scores are highest
    assert cut["lower"] == pytest.approx(3.96)


def test_of_several_plateaus_the_highest_unless_the_lowest_is_asked_for():
    p, q, truth = np.ones(4), -np.array([1.0, 2.0, 3.0, 4.0]), [1, 0, 1, 0]
    accuracy = lambda tp, fn, fp, tn: tp + tn  # noqa: E731
    assert best_z(p, q, truth, accuracy).interval == pytest.approx((3.0, 4.0))
    assert best_z(p, q, truth, accuracy, place="lower").interval == pytest.approx((1.0, 2.0))


def test_a_plateau_without_end_gives_a_finite_z():
    late = best_z([1.0, -1.0], [-5.0, -1.0], [1, 0])
    assert late.interval == (np.nextafter(5.0, 9.0), math.inf)
    assert late.z == pytest.approx(5.05)
    assert best_z([1.0, -1.0], [-0.5, -1.0], [1, 0]).z == 1.0  # as it was
    assert best_z([0.0, 1.0], [1.0, 1.0], [0, 1], [[0, 0], [1, 0]]).z == 1.0


def test_what_z_cannot_change_it_leaves():
    assert best_z(np.zeros(3), [1.0, -1.0, 2.0], [1, 0, 0]).z == 1.0
    assert best_z(np.zeros(3), [1.0, -1.0, 2.0], [1, 0, 0]).interval == (0.0, math.inf)
    assert best_z(np.ones(3), np.zeros(3), [1, 0, 0]).z == 1.0
    assert best_z(np.ones(3), np.zeros(3), [1, 0, 0], search="golden").z == 1.0
    assert best_threshold(np.ones(3), [1, 0, 0], neutral=0.5).threshold == 0.5


def test_products_that_underflow_or_overflow_change_nothing():
    p, q, truth = np.array([1.0, 0.8, 0.2, 0.1]), np.array([-0.5, -1.2, -0.8, -0.9]), np.array([1, 1, 0, 0]) > 0
    plain = best_z(p, q, truth)
    for small, large in [(1e-290, 1.0), (1e-305, 1e-5), (1e-320, 1e-15), (1.0, 1e300)]:
        scaled = best_z(p * small, q * large, truth)
        assert scaled.value == plain.value == at_z(scaled.z, p * small, q * large, truth, np.ones(4))
    with np.errstate(over="ignore"):
        assert best_z(p * 1e-305, q * 1e100, truth).z == 1.0  # out of reach


def test_plateaus_of_rounding_are_passed_over():
    p, q, truth = np.ones(4), np.array([-1.0, -1.0 - 2e-16, -2.0, -3.0]), [1, 0, 1, 0]
    accuracy = lambda tp, fn, fp, tn: 9 * tp * (fp == 0) + tp * tn  # noqa: E731
    assert best_z(p, q, truth, accuracy).interval == (np.nextafter(1.0, 2), -q[1])
    assert best_z(p, q, truth, accuracy, resolution=1e-12).interval[0] == pytest.approx(2.0)


def test_the_search_costs_a_few_sorts():
    rng = np.random.default_rng(0)
    truth = rng.random(50_000) < 0.05
    p, q = rng.random(50_000) * (1 + truth), -rng.random(50_000)
    spent = {best_z: [], np.argsort: []}
    for _ in range(5):
        for function, arguments in ((best_z, (p, q, truth)), (np.argsort, (p,))):
            start = time.perf_counter()
            function(*arguments)
            spent[function].append(time.perf_counter() - start)
    assert min(spent[best_z]) < 40 * min(spent[np.argsort])  # about 6; a loop over rows would be hundreds


# --- metrics ---


def test_metrics_are_scikit_learns():
    rng = np.random.default_rng(1)
    truth, called, weight = rng.random(50) < 0.3, rng.random(50) < 0.5, rng.random(50)
    four = [np.array(count) for count in counts(called, truth, weight)]
    sensitivity, specificity = (recall_score(truth, called, sample_weight=weight, pos_label=k) for k in (1, 0))
    assert get_metric("gmean")(*four) == pytest.approx(math.sqrt(sensitivity * specificity))
    assert get_metric("balanced_accuracy")(*four) == pytest.approx(
        balanced_accuracy_score(truth, called, sample_weight=weight)
    )
    for beta in (0.5, 1, 2):
        assert FBeta(beta)(*four) == pytest.approx(fbeta_score(truth, called, beta=beta, sample_weight=weight))
    costs = np.array([[0.5, 1.0], [8.0, -1.0]])
    total = (costs * confusion_matrix(truth, called, sample_weight=weight)).sum()
    assert get_metric(costs)(*four) == pytest.approx(-total / weight.sum())


def test_a_metric_that_is_nan_somewhere_is_worst_there():
    precision = lambda tp, fn, fp, tn: tp / (tp + fp)  # noqa: E731
    assert best_z([1.0, 1.0, 1.0], [-1.0, -2.0, -3.0], [0, 1, 1], precision).value == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("accuracy!", "metric='accuracy!' is unknown; choose one of 'balanced_accuracy', 'f1', 'gmean'"),
        (GMean, "is unknown"),
        (3.0, "is unknown"),
        (np.ones((3, 3)), "A cost matrix must hold 2 × 2 finite numbers"),
        ([[0, 1], [2]], "A cost matrix must hold 2 × 2 finite numbers"),
        ([[0, 1], [np.nan, 0]], "A cost matrix must hold 2 × 2 finite numbers"),
        (lambda tp, fn, fp, tn: 1.0, "one number for each element"),
        (lambda tp, fn, fp, tn: tp * np.nan, "metric is NaN"),
    ],
)
def test_metrics_that_are_none(metric, said):
    with pytest.raises(ValueError, match=said):
        best_z([1.0, 1.0], [-1.0, -2.0], [1, 0], metric)


@pytest.mark.parametrize("beta", [0, -1.0, np.nan, "2"])
def test_a_beta_that_is_none(beta):
    with pytest.raises(ValueError, match="must be a number above 0"):
        FBeta(beta)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"y": [1, 1]}, "y must hold rows of both classes"),
        ({"sample_weight": [1.0, 0.0]}, "y must hold rows of both classes"),
        ({"sample_weight": [1.0, -1.0]}, "must not be below 0"),
        ({"sample_weight": [1.0, np.nan]}, "sample_weight must hold one finite number"),
        ({"p": [1.0, np.inf]}, "p must hold one finite number"),
        ({"q": [[1.0, 2.0]]}, "q must hold one finite number"),
        ({"q": ["a", "b"]}, "q must be an array of numbers"),
        ({"p": [1.0]}, "must have the same length"),
        ({"search": "guess"}, "search='guess' is unknown"),
        ({"place": "top"}, "place='top' is unknown"),
        ({"search": "golden", "z_max": 0.0}, "z_max=0.0 must be a finite number above 0"),
        ({"search": "golden", "z_max": math.inf}, "z_max=inf must be a finite number above 0"),
    ],
)
def test_the_search_explains_what_it_refuses(changed, said):
    with pytest.raises(ValueError, match=said):
        best_z(**{"p": [1.0, 1.0], "q": [-1.0, -2.0], "y": [1, 0], **changed})


def test_a_metric_of_one_class_says_so():
    with pytest.raises(ValueError, match="rows of both classes"):
        GMean()(np.array(0.0), np.array(0.0), np.array(1.0), np.array(2.0))


# --- scikit-learn's own checks ---

# SVC's gamma="scale" does not count weights, and its default tol is coarser than the checks of weights.
CHECKED = [
    ZAdjustedClassifier(SVC(**tight)),
    ZAdjustedClassifier(SVC(**tight), place="middle", cv=3),
    ZAdjustedClassifier(SVC(**tight), search="golden", metric="f1"),
    ZAdjustedClassifier(SVC(kernel="precomputed")),
    ZAdjustedClassifier(SVC(**tight), method="threshold"),
    ZAdjustedClassifier(GaussianNB(), method="threshold"),
]


@parametrize_with_checks(CHECKED)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# --- the split ---


def mixed(A, B):
    """A kernel of the user's own."""
    return np.asarray((A @ B.T) ** 2 + 0.5 * (A @ B.T))


KERNELS = [
    SVC(kernel="linear"), SVC(), SVC(gamma="auto"), SVC(kernel="poly", degree=2, coef0=0.7),
    SVC(kernel="sigmoid", gamma=0.05, coef0=-0.2), SVC(kernel=mixed), NuSVC(nu=0.2),
]  # fmt: skip


@pytest.mark.parametrize(
    "svc", KERNELS, ids=lambda svc: f"{type(svc).__name__}-{getattr(svc.kernel, '__name__', svc.kernel)}"
)
@pytest.mark.parametrize("labels", [Y, NAMES], ids=["numbers", "names"])
def test_the_parts_add_up_to_the_decision_function(svc, labels):
    for container in (np.asarray, np.float32, csr_matrix, csr_array):
        if callable(svc.kernel) and container in (csr_matrix, csr_array):
            continue  # this one is for dense rows
        rows = container(X)
        svc = clone(svc).fit(rows, labels)
        up, down, intercept = zsvm.split_decision(svc, rows)
        assert_allclose(up + down + intercept, svc.decision_function(rows), rtol=1e-9, atol=1e-9)
        if svc.kernel == "rbf":
            assert up.min() > 0 > down.max()


def test_precomputed_kernels_and_tiles(monkeypatch):
    gram = rbf_kernel(X, gamma=0.1)
    direct = ZAdjustedClassifier(SVC(**tight)).fit(X, Y)
    whole = ZAdjustedClassifier(SVC(kernel="precomputed", tol=1e-12)).fit(gram, Y)
    assert whole.z_ == pytest.approx(direct.z_)
    monkeypatch.setattr(zsvm, "_TILE", 1000)
    assert_allclose(whole.decision_function(gram[:50]), direct.decision_function(X[:50]), atol=1e-8)
    folds = [ZAdjustedClassifier(svc, cv=3).fit(rows, Y) for svc, rows in
             [(SVC(**tight), X), (SVC(kernel="precomputed", tol=1e-12), gram)]]  # fmt: skip
    assert folds[0].z_ == pytest.approx(folds[1].z_)


def test_a_machine_takes_part_by_its_split():
    class Split(ClassifierMixin, BaseEstimator):
        def fit(self, X, y, sample_weight=None):
            self.classes_ = np.unique(y)
            return self

        def split_decision(self, X):
            return np.abs(X[:, 0]).astype(np.float32), -np.abs(X[:, 1]).astype(np.float32), np.array([-0.5])

    rows = np.array([[1.0, 1.0], [2.0, 3.0], [0.5, 1.5], [0.1, 1.0]])
    svm = ZAdjustedClassifier(Split()).fit(rows, [1, 1, 0, 0])
    assert svm.interval_ == pytest.approx((1.75, 4.0))
    assert_allclose(svm.decision_function(rows), svm.z_ * rows[:, 0] - rows[:, 1] - 0.5)
    rows = np.array([[1.0, 3.0], [2.0, 1.0], [3.0, 1.0], [1.0, 0.25]])
    other = ZAdjustedClassifier(Split()).fit(rows, [0, 1, 1, 1])  # p is the other part now
    assert other.interval_ == pytest.approx((1 / 6, 1.5))
    assert other.minority_ == 0
    assert_allclose(other.decision_function(rows), rows[:, 0] - other.z_ * rows[:, 1] - 0.5)


# --- the classifier ---


def gmean(svm, rows=X, labels=Y, weight=None):
    return math.sqrt(
        np.prod([recall_score(labels == k, svm.predict(rows) == k, sample_weight=weight) for k in np.unique(labels)])
    )


@pytest.mark.parametrize("options", [{}, {"method": "threshold"}, {"search": "golden"}, {"place": "middle"}])
@pytest.mark.parametrize("labels", [Y, NAMES], ids=["numbers", "names"])
def test_the_score_it_reports_is_that_of_its_predictions(options, labels):
    svm = ZAdjustedClassifier(SVC(), **options).fit(X, labels)
    assert svm.best_score_ == pytest.approx(gmean(svm, labels=labels))
    assert svm.best_score_ > gmean(svm.estimator_, labels=labels) + 0.05
    assert_array_equal(svm.decision_function(X) > 0, svm.predict(X) == svm.classes_[1])
    chosen = svm.z_ if svm.method == "z" else svm.threshold_
    assert svm.interval_[0] <= chosen <= svm.interval_[1]
    assert hasattr(svm, "z_") != hasattr(svm, "threshold_")


@pytest.mark.parametrize("method", ["z", "threshold"])
def test_the_minority_is_helped_whatever_it_is_called(method):
    number, name = (ZAdjustedClassifier(SVC(**tight), method=method).fit(X, labels) for labels in (Y, NAMES))
    assert number.minority_ == 1
    assert name.minority_ == "a rare one" == name.classes_[0]
    assert_array_equal(number.predict(X) == 1, name.predict(X) == "a rare one")
    assert_allclose(number.decision_function(X), -name.decision_function(X), rtol=1e-6, atol=1e-6)
    if method == "z":
        assert number.z_ == pytest.approx(name.z_, rel=1e-6)
        assert number.z_ > 1


def test_weights_decide_which_class_is_the_minority():
    weight = np.where(Y > 0, 100.0, 1.0)
    assert ZAdjustedClassifier(SVC()).fit(X, Y, weight).minority_ == -1
    assert ZAdjustedClassifier(SVC()).fit(np.array([[0.0], [1.0], [3.0], [4.0]]), [0, 0, 1, 1]).minority_ == 1


@pytest.mark.parametrize("labels", [[0, 0, 1], [1, 1, 0]])
def test_a_score_of_zero_is_the_majoritys(labels):
    rows = np.array([[-1.0], [-2.0], [2.0]])
    svm = ZAdjustedClassifier(SVC(kernel="linear"), method="threshold").fit(rows, labels)
    svm.threshold_ = float(zsvm.parts_of_score("threshold", svm.estimator_, rows[:1], int(svm.minority_))[0][0])
    assert svm.predict(rows[:1]) == labels[0]
    assert (svm.decision_function(rows[:1]) > 0) == (labels[0] == 1)


@pytest.mark.parametrize("method", ["z", "threshold"])
@pytest.mark.parametrize("cv", [None, "prefit"])
def test_weights_are_rows(method, cv):
    rng = np.random.default_rng(0)
    many = rng.integers(0, 4, size=240)
    svc = SVC(**tight).fit(X, Y) if cv == "prefit" else SVC(**tight)
    weighted = ZAdjustedClassifier(svc, method=method, cv=cv).fit(X, Y, many)
    repeated = ZAdjustedClassifier(svc, method=method, cv=cv).fit(np.repeat(X, many, axis=0), np.repeat(Y, many))
    assert_allclose(weighted.interval_, repeated.interval_, rtol=1e-6)
    assert weighted.best_score_ == pytest.approx(repeated.best_score_)
    assert weighted.best_score_ == pytest.approx(gmean(weighted, weight=many))
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cv", [None, 3, StratifiedKFold(3)])
def test_rows_without_weight_are_no_rows(cv):
    others = np.vstack([X, X[:60] + 5.0])
    labels = np.concatenate([NAMES, np.full(60, "a third kind")])
    weight = np.append(np.ones(240), np.zeros(60))
    padded = ZAdjustedClassifier(SVC(**tight), cv=cv).fit(others, labels, weight)
    plain = ZAdjustedClassifier(SVC(**tight), cv=cv).fit(X, NAMES)
    assert_array_equal(padded.classes_, plain.classes_)
    if not isinstance(cv, StratifiedKFold):  # which deals out the rows it is given
        assert padded.z_ == pytest.approx(plain.z_)


def test_held_out_scores():
    svm = ZAdjustedClassifier(SVC(), cv=4).fit(X, Y)
    p, q, truth = [], [], []
    for train, test in StratifiedKFold(4).split(X, Y):
        up, down, intercept = zsvm._svc_split(SVC().fit(X[train], Y[train]), X[test])
        p, q, truth = [*p, *up], [*q, *(down + intercept)], [*truth, *(Y[test] > 0)]
    by_hand = best_z(p, q, truth)
    assert svm.z_ == pytest.approx(by_hand.z)
    assert svm.best_score_ == by_hand.value
    assert_allclose(svm.estimator_.decision_function(X), SVC().fit(X, Y).decision_function(X))
    with parallel_config("threading"):
        assert clone(svm).set_params(n_jobs=2).fit(X, Y).z_ == svm.z_


@pytest.mark.parametrize("method", ["z", "threshold"])
def test_any_splitter_will_do(method):
    part = StratifiedShuffleSplit(1, test_size=0.3, random_state=0)
    by_splitter = ZAdjustedClassifier(SVC(**tight), method=method, cv=part).fit(X, Y)
    train, test = next(part.split(X, Y))
    frozen = FrozenEstimator(SVC(**tight).fit(X[train], Y[train]))
    by_hand = ZAdjustedClassifier(frozen, method=method).fit(X[test], Y[test])
    assert by_splitter.interval_ == pytest.approx(by_hand.interval_)
    masks = ZAdjustedClassifier(SVC(**tight), method=method, cv=[(np.isin(np.arange(240), train), test)]).fit(X, Y)
    assert masks.interval_ == pytest.approx(by_splitter.interval_)


@pytest.mark.parametrize("method", ["z", "threshold"])
def test_a_fitted_machine_stays_as_it_is(method):
    svc = SVC().fit(X[:160], Y[:160])
    before = svc.decision_function(X)
    frozen = ZAdjustedClassifier(FrozenEstimator(svc), method=method).fit(X[160:], Y[160:])
    prefit = ZAdjustedClassifier(svc, method=method, cv="prefit").fit(X[160:], Y[160:], np.ones(80))
    assert prefit.estimator_ is svc
    assert frozen.interval_ == prefit.interval_
    assert_array_equal(frozen.predict(X), prefit.predict(X))
    assert_array_equal(svc.decision_function(X), before)
    pipe = make_pipeline(StandardScaler(), FrozenEstimator(svc))
    assert hasattr(ZAdjustedClassifier(pipe, method=method).fit(X, Y), "best_score_")


def test_pipelines():
    scaled = StandardScaler().fit_transform(X)
    weight = np.linspace(0.5, 2.0, 240)
    pipe = ZAdjustedClassifier(make_pipeline(None, StandardScaler(), "passthrough", SVC())).fit(X, Y, weight)
    plain = ZAdjustedClassifier(SVC()).fit(scaled, Y, weight)
    assert pipe.z_ == pytest.approx(plain.z_)
    assert_allclose(pipe.decision_function(X), plain.decision_function(scaled))
    nested = ZAdjustedClassifier(make_pipeline(StandardScaler(), make_pipeline(SVC()))).fit(X, Y, weight)
    assert nested.z_ == pytest.approx(plain.z_)


def test_pipelines_that_resample():
    pytest.importorskip("imblearn")
    from imblearn.over_sampling import SMOTE
    from imblearn.pipeline import make_pipeline as make_resampling

    pipe = make_resampling(StandardScaler(), SMOTE(random_state=0), SVC())
    svm = ZAdjustedClassifier(pipe, cv=3).fit(X, Y)
    up, down, intercept = zsvm.split_decision(svm.estimator_, X)
    assert_allclose(up + down + intercept, svm.estimator_.decision_function(X), rtol=1e-9, atol=1e-9)
    assert svm.minority_ == 1
    assert set(svm.predict(X)) == {-1, 1}
    assert 0 < ZAdjustedClassifier(pipe, method="threshold", cv=3).fit(X, Y).best_score_ <= 1
    with pytest.warns(UserWarning, match="the weights count in the metric only"):
        ZAdjustedClassifier(pipe).fit(X, Y, np.ones(240))


def test_weights_that_the_estimator_does_not_take():
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight"):
        svm = ZAdjustedClassifier(KNeighborsClassifier(), method="threshold").fit(X, Y, np.ones(240))
    assert svm.best_score_ == pytest.approx(gmean(svm))


def test_probabilities_have_thresholds_too():
    for labels in (Y, NAMES):
        svm = ZAdjustedClassifier(KNeighborsClassifier(15), method="threshold", place="middle").fit(X, labels)
        assert 0 < svm.threshold_ < 0.5
        column = list(svm.classes_).index(svm.minority_)
        above = svm.estimator_.predict_proba(X)[:, column] > svm.threshold_
        assert_array_equal(above, svm.predict(X) == svm.minority_)


@pytest.mark.parametrize("metric", [*METRICS, [[0, 1], [30, 0]], lambda tp, fn, fp, tn: tp - 0.2 * fp])
def test_every_metric_is_best_at_the_choice(metric):
    svm = ZAdjustedClassifier(SVC(), metric=metric).fit(X, Y)
    p, q = zsvm.parts_of_score("z", svm.estimator_, X, 1)
    values = [at_z(z, p, q, Y > 0, np.ones(240), metric) for z in np.geomspace(0.1, 100, 200)]
    assert svm.best_score_ >= max(values)
    assert svm.best_score_ == pytest.approx(at_z(svm.z_, p, q, Y > 0, np.ones(240), metric))


def test_dear_misses_mean_more_alarms():
    dear, cheap = (ZAdjustedClassifier(SVC(), metric=[[0, 1], [cost, 0]]).fit(X, Y) for cost in (50, 1))
    assert dear.z_ > cheap.z_
    assert (dear.predict(X) > 0).sum() > (cheap.predict(X) > 0).sum()


def test_metadata_routing():
    weight, groups = np.linspace(0.5, 2.0, 240), np.arange(240) % 4
    plain = ZAdjustedClassifier(SVC()).fit(X, Y, weight)
    with sklearn.config_context(enable_metadata_routing=True):
        svc = SVC().set_fit_request(sample_weight=True)
        routed = ZAdjustedClassifier(svc).set_fit_request(sample_weight=True).fit(X, Y, sample_weight=weight)
        assert routed.z_ == plain.z_
        apart = SVC().set_fit_request(sample_weight=False)
        only_metric = ZAdjustedClassifier(apart).fit(X, Y, sample_weight=weight)
        assert_allclose(only_metric.estimator_.dual_coef_, SVC().fit(X, Y).dual_coef_)
        cv = GroupKFold(4).set_split_request(groups=True)
        grouped = ZAdjustedClassifier(svc, cv=cv).fit(X, Y, groups=groups)
    folds = [(groups != k, groups == k) for k in range(4)]
    assert grouped.interval_ == pytest.approx(ZAdjustedClassifier(SVC(), cv=folds).fit(X, Y).interval_)


def test_it_is_at_home_in_scikit_learn():
    table = pd.DataFrame(X, columns=list("abcdef"))
    svm = ZAdjustedClassifier(SVC()).fit(table, NAMES)
    assert_array_equal(svm.feature_names_in_, list("abcdef"))
    assert svm.n_features_in_ == 6
    assert_array_equal(pickle.loads(pickle.dumps(svm)).predict(table), svm.predict(table))
    grid = {"estimator__C": [0.1, 10.0], "metric": ["gmean", FBeta(2.0)], "method": ["z", "threshold"]}
    search = GridSearchCV(ZAdjustedClassifier(SVC()), grid, scoring="balanced_accuracy", cv=3).fit(X, Y)
    assert 0.5 < search.best_score_ < 1
    assert "SVC" in ZAdjustedClassifier(SVC())._repr_html_()
    flowers, kinds = load_iris(return_X_y=True)
    assert OneVsRestClassifier(ZAdjustedClassifier(SVC())).fit(flowers, kinds).score(flowers, kinds) > 0.85


def test_a_change_of_method_leaves_nothing_behind():
    svm = ZAdjustedClassifier(SVC()).fit(X, Y)
    svm.set_params(method="threshold").fit(X, Y)
    assert not hasattr(svm, "z_")
    assert svm.set_params(method="z").fit(X, Y).z_ > 1
    assert not hasattr(svm, "threshold_")


def test_the_default_machine_is_kernel_svm():
    kernel = pytest.importorskip("evenmargin.kernel")
    svm = ZAdjustedClassifier().fit(X, Y)
    assert isinstance(svm.estimator_, kernel.KernelSVM)
    assert svm.best_score_ == pytest.approx(gmean(svm))


def test_predicting_never_imports_numba(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(ZAdjustedClassifier(SVC()).fit(X, Y)))
    code = (
        "import pickle, sys, numpy as np\n"
        f"pickle.load(open({str(path)!r}, 'rb')).predict(np.zeros((3, 6)))\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- bad input ---


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"estimator": LinearSVC()}, "LinearSVC has no support vectors to split: method='z' takes KernelSVM"),
        ({"estimator": make_pipeline(StandardScaler(), LogisticRegression())}, "has no support vectors to split"),
        ({"estimator": FrozenEstimator(LogisticRegression())}, "LogisticRegression has no support vectors"),
        ({"estimator": StandardScaler(), "method": "threshold"}, "neither decision_function nor predict_proba"),
        ({"estimator": "svc"}, "'estimator' parameter"),
        ({"method": "threshold", "search": "golden"}, "search='golden' is for method='z'"),
        ({"search": "golden", "z_max": 0.0}, "'z_max' parameter"),
        ({"search": "golden", "z_max": -1.0}, "'z_max' parameter"),
        ({"metric": "g-mean"}, "metric='g-mean' is unknown"),
        ({"metric": [[1, 2, 3], [4, 5, 6]]}, "A cost matrix must hold 2 × 2"),
        ({"place": "top"}, "'place' parameter"),
        ({"cv": 1}, "'cv' parameter"),
        ({"cv": [(np.flatnonzero(Y < 0), np.flatnonzero(Y > 0))]}, "training rows of one class only"),
        ({"cv": [(np.arange(200), np.flatnonzero(Y < 0))]}, "rows of both classes"),
    ],
)
def test_options_that_are_none(options, said):
    with pytest.raises(ValueError, match=said):
        ZAdjustedClassifier(**{"estimator": SVC(), **options}).fit(X, Y)


@pytest.mark.parametrize(
    ("labels", "weight", "said"),
    [
        (np.ones(240), None, "one class only"),
        (Y, (Y > 0).astype(float), "one class only .*, once rows of weight 0 are left out"),
        (Y, np.zeros(240), "All sample weights are zero"),
        (np.arange(240) % 3, None, "Only binary classification is supported. y has 3 classes"),
        (np.where(np.arange(240) == 3, np.nan, Y), None, "contains NaN"),
        (np.array([None, *NAMES[1:]], dtype=object), None, "of one type, none of them missing"),
        (np.linspace(0, 1, 240), None, "Unknown label type"),
        (Y[:-1], None, "inconsistent numbers of samples"),
        (Y, np.ones(239), "one weight for each of the 240 rows"),
        (Y, np.full(240, -1.0), "Negative values in data passed to `sample_weight`"),
        (Y, np.full(240, np.nan), "Input sample_weight contains NaN"),
        (Y, np.full(240, 1e308), "adds up to infinity"),
    ],
)
def test_labels_and_weights_that_are_none(labels, weight, said):
    with pytest.raises(ValueError, match=said):
        ZAdjustedClassifier(SVC()).fit(X, labels, weight)


def test_a_machine_of_other_classes_is_refused():
    for labels in (NAMES, np.arange(240) % 3):
        with pytest.raises(ValueError, match="give rows of the same two classes"):
            ZAdjustedClassifier(FrozenEstimator(SVC().fit(X, labels))).fit(X, Y)


def test_an_unfitted_machine_is_not_prefit():
    with pytest.raises(NotFittedError):
        ZAdjustedClassifier(SVC(), cv="prefit").fit(X, Y)
    with pytest.raises(NotFittedError):
        ZAdjustedClassifier(FrozenEstimator(SVC())).fit(X, Y)


@pytest.mark.parametrize(("method", "left"), [("z", "z = 1 leaves"), ("threshold", "the threshold stays at 0.0")])
def test_scores_that_are_all_equal_are_left_with_a_warning(method, left):
    same = np.ones((40, 2))
    with pytest.warns(UserWarning, match=f"No choice changes the metric, as when all scores are equal: {left}"):
        svm = ZAdjustedClassifier(SVC(), method=method).fit(same, np.arange(40) < 8)
    assert svm.best_score_ == 0
    assert_array_equal(svm.predict(same), svm.estimator_.predict(same))
