"""Displays: every number against a plain loop, every figure drawn, every refusal one sentence."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from conftest import imbalanced
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.metrics import brier_score_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    ParameterGrid,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from evenmargin import KernelSVM, LinearSVM, ZAdjustedClassifier
from evenmargin.adjust import best_threshold, best_z, metric_curve
from evenmargin.metrics import CostMatrix, FBeta, GMean, get_metric

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402

from evenmargin.display import (  # noqa: E402
    BoundaryDistanceDisplay,
    CostCurveDisplay,
    DecisionCurveDisplay,
    HeatMapDisplay,
    ReliabilityDisplay,
    ScoreHistogramDisplay,
    ThresholdDisplay,
)

X, Y = imbalanced(n=300, d=5, ratio=0.85, seed=3)
NAMES = np.where(Y > 0, "a rare one", "common")  # the positive class comes first in classes_
RNG = np.random.default_rng(0)
PROB = np.clip(0.25 + 0.2 * (Y > 0) + 0.25 * RNG.standard_normal(Y.size), 0.0, 1.0).round(2)  # with ties
WEIGHT = RNG.integers(0, 4, Y.size).astype(float)
BLUE, VERMILION = "#0072b2", "#d55e00"
SCORED = [ThresholdDisplay, ScoreHistogramDisplay, CostCurveDisplay]
PROBABLE = [DecisionCurveDisplay, ReliabilityDisplay]
EVERY = [*SCORED, *PROBABLE]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def logistic():
    return LogisticRegression().fit(X, Y)


@pytest.fixture(scope="module")
def z_machine():
    return ZAdjustedClassifier(KernelSVM(gamma=0.2)).fit(X, Y)


@pytest.fixture(scope="module")
def shifted():
    return ZAdjustedClassifier(KernelSVM(gamma=0.2), method="threshold").fit(X, Y)


@pytest.fixture(scope="module")
def search():
    grid = {"alpha": [10.0, 1e-3, 1e-1], "class_weight": [None, "balanced"], "loss": ["hinge", "log"]}
    return GridSearchCV(LinearSVM(), grid, scoring="balanced_accuracy", cv=3, return_train_score=True).fit(X, Y)


def drawn(display):
    """The figure rendered, which is where a bad tick or label would fail."""
    display.figure_.canvas.draw()
    return display


def one_sentence(error):
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert len(re.findall(r"\.\s", text)) == 0, text
    return text


def counts(called, truth, weight):
    pairs = [(truth, called), (truth, ~called), (~truth, called), (~truth, ~called)]
    return [np.array(float(weight[true & yes].sum())) for true, yes in pairs]


# --- the metric over thresholds and z ---


def value_at(curve, x, side):
    return curve.values[np.searchsorted(curve.breaks, x, side=side)]


@pytest.mark.parametrize("metric", ["gmean", "f1", "balanced_accuracy", FBeta(2.0), CostMatrix([[0, 1], [9, -1]])])
def test_the_curve_over_thresholds_is_the_metric_at_each_of_them(metric):
    curve = metric_curve(Y, metric, WEIGHT, scores=PROB)
    assert_array_equal(curve.breaks, np.unique(PROB[WEIGHT > 0]))
    for t in np.concatenate([curve.breaks, curve.breaks + 0.003, [-1.0]]):
        expected = get_metric(metric)(*counts(t < PROB, Y > 0, WEIGHT))
        assert_allclose(value_at(curve, t, "right"), expected, atol=1e-12)


@pytest.mark.parametrize("metric", ["gmean", "f1", [[0, 1], [9, 0]]])
def test_the_curve_over_z_is_the_metric_at_each_z(metric):
    p, q = RNG.standard_normal(60).round(1), RNG.standard_normal(60).round(1)
    truth = np.arange(60) % 3 == 0
    curve = metric_curve(truth, metric, p=p, q=q)
    for z in np.concatenate([curve.breaks, 1.001 * curve.breaks, [0.0, 1.0, 1e3]]):
        expected = get_metric(metric)(*counts(z * p + q > 0, truth, np.ones(60)))
        assert_allclose(value_at(curve, z, "left"), expected, atol=1e-12)


def test_the_curves_hold_what_the_searches_find():
    p, q = 1 + PROB, -1.4 + 0.3 * np.sin(np.arange(Y.size))
    best = best_z(p, q, Y, "gmean", WEIGHT)
    curve = metric_curve(Y, "gmean", WEIGHT, p=p, q=q)
    assert best.value == curve.values.max() == value_at(curve, best.z, "left")
    best = best_threshold(PROB, Y, "gmean", WEIGHT)
    curve = metric_curve(Y, "gmean", WEIGHT, scores=PROB)
    assert best.value == curve.values.max() == value_at(curve, best.threshold, "right")


@pytest.mark.parametrize(
    "given", [{}, {"p": PROB}, {"scores": PROB, "p": PROB, "q": PROB}, {"scores": PROB, "q": PROB}]
)
def test_a_curve_wants_scores_or_both_parts(given):
    with pytest.raises(ValueError, match="either scores") as error:
        metric_curve(Y, **given)
    one_sentence(error)


def test_the_drawn_steps_are_the_curve():
    display = drawn(ThresholdDisplay.from_predictions(Y, PROB))
    for name, curve in display.curves.items():
        x, y = display.lines_[name].get_data()
        inside = (x[1:] > x[:-1]) & np.isfinite(y[1:])
        middle = 0.5 * (x[1:] + x[:-1])[inside]
        assert middle.size > 20
        assert_allclose(y[1:][inside], value_at(curve, middle, "right"))
    assert_allclose(display.curves["G-mean"].values ** 2,
                    display.curves["sensitivity"].values * display.curves["specificity"].values)  # fmt: skip


def test_the_marked_threshold_is_the_best_of_the_first_metric():
    display = ThresholdDisplay.from_predictions(Y, PROB, metrics=["f1", "gmean"])
    assert display.values["F1"] == display.curves["F1"].values.max()
    assert display.values["G-mean"] < display.curves["G-mean"].values.max()
    assert display.at_line_.get_xdata()[0] == display.at


def test_a_given_threshold_is_marked_and_none_is_not():
    display = ThresholdDisplay.from_predictions(Y, PROB, at=0.4)
    sensitivity = np.mean(PROB[Y > 0] > 0.4)
    assert display.values["sensitivity"] == pytest.approx(sensitivity)
    display = drawn(ThresholdDisplay.from_predictions(Y, PROB, at=None))
    assert display.at_line_ is None
    assert display.values == {}


def test_at_a_break_the_marked_values_are_those_of_prediction():
    at = float(np.median(PROB))
    display = ThresholdDisplay.from_predictions(Y, PROB, at=at)
    assert display.values["specificity"] == pytest.approx(np.mean(PROB[Y < 0] <= at))


def test_a_z_machine_is_drawn_over_z_at_its_own(z_machine):
    display = drawn(ThresholdDisplay.from_estimator(z_machine, X, Y))
    assert display.kind == "z"
    assert display.at == z_machine.z_
    assert display.values["G-mean"] == pytest.approx(z_machine.best_score_)
    called = z_machine.predict(X) == 1
    assert display.values["sensitivity"] == pytest.approx(np.mean(called[Y > 0]))


def test_a_shifted_machine_is_drawn_over_its_threshold(shifted):
    display = drawn(ThresholdDisplay.from_estimator(shifted, X, Y))
    assert display.kind == "threshold"
    assert display.at == shifted.threshold_
    assert display.values["specificity"] == pytest.approx(np.mean(shifted.predict(X)[Y < 0] == -1))


def test_the_minority_is_positive_whatever_it_is_called():
    a = ThresholdDisplay.from_estimator(ZAdjustedClassifier(KernelSVM(gamma=0.2)).fit(X, Y), X, Y)
    b = ThresholdDisplay.from_estimator(ZAdjustedClassifier(KernelSVM(gamma=0.2)).fit(X, NAMES), X, NAMES)
    assert b.at == pytest.approx(a.at, rel=1e-6)
    assert b.values == pytest.approx(a.values)


def test_costs_are_positive_and_have_an_axis_of_their_own():
    display = drawn(ThresholdDisplay.from_predictions(Y, PROB, metrics=["gmean", [[0, 1], [20, 0]]]))
    assert display.cost_ax_ is not display.ax_
    cost = [np.mean(np.where(Y > 0, 20.0 * (t >= PROB), t < PROB)) for t in display.curves["mean cost"].breaks]
    assert_allclose(display.curves["mean cost"].values[1:], cost)
    alone = drawn(ThresholdDisplay.from_predictions(Y, PROB, metrics=[[0, 1], [20, 0]]))
    assert alone.cost_ax_ is alone.ax_
    assert alone.values["mean cost"] == pytest.approx(min(cost))


def test_metrics_have_names_and_may_be_given_others():
    display = ThresholdDisplay.from_predictions(
        Y, PROB, metrics=["balanced_accuracy", FBeta(2.0), GMean(), "precision", lambda tp, fn, fp, tn: tp - fp]
    )
    assert list(display.curves) == ["balanced accuracy", "F2", "G-mean", "precision", "<lambda>"]
    display = ThresholdDisplay.from_predictions(Y, PROB, metrics={"recall": "sensitivity"})
    assert list(display.curves) == ["recall"]


def test_sensitivity_and_specificity_have_the_colours_of_their_classes():
    display = ThresholdDisplay.from_predictions(Y, PROB)
    assert to_hex(display.lines_["sensitivity"].get_color()) == VERMILION
    assert to_hex(display.lines_["specificity"].get_color()) == BLUE


@pytest.mark.parametrize("far", [1e9, -1e9])
def test_an_outlier_does_not_stretch_the_axis_of_thresholds(far):
    scores = np.append(PROB, far)
    display = drawn(ThresholdDisplay.from_predictions(np.append(Y, -1), scores))
    low, high = display.ax_.get_xlim()
    assert -2 < low < high < 3


def test_outliers_do_not_stretch_the_axis_of_z():
    p, q = np.ones(Y.size), -1.0 - PROB[::-1]
    p[:4] = 1e-8
    display = drawn(ThresholdDisplay.from_predictions(Y, p=p, q=q))
    assert display.ax_.get_xlim()[1] < 5


def test_breaks_over_powers_of_ten_get_a_logarithmic_axis():
    z = 10.0 ** np.linspace(-4, 5, Y.size)
    display = drawn(ThresholdDisplay.from_predictions(Y, p=1 / z, q=-np.ones(Y.size)))
    assert display.ax_.get_xscale() == "log"


def test_a_score_that_never_moves_is_drawn_too():
    display = drawn(ThresholdDisplay.from_predictions(Y, p=np.zeros(Y.size), q=PROB - 0.5))
    assert display.curves["G-mean"].breaks.size == 0
    drawn(ThresholdDisplay.from_predictions(Y, np.ones(Y.size)))


def test_the_own_threshold_of_a_classifier_is_where_it_predicts(logistic):
    models = [
        logistic,
        RidgeClassifier().fit(X, Y),
        TunedThresholdClassifierCV(LogisticRegression(), cv=3).fit(X, Y),
        FixedThresholdClassifier(LogisticRegression(), threshold=0.3).fit(X, Y),
        FixedThresholdClassifier(RidgeClassifier()).fit(X, Y),
    ]
    for model in models:
        for pos_label in (1, -1):
            display = ThresholdDisplay.from_estimator(model, X, Y, pos_label=pos_label)
            called = model.predict(X) == pos_label
            assert display.values["sensitivity"] == pytest.approx(np.mean(called[pos_label == Y]))


# --- distances to the boundary ---


def test_mean_distances_are_weighted_means_of_each_class():
    before, after = PROB - 0.5, PROB - 0.3
    display = drawn(BoundaryDistanceDisplay.from_predictions(Y, before, after, sample_weight=WEIGHT))
    for means, scores in ((display.before, before), (display.after, after)):
        for mean, side in zip(means, (Y < 0, Y > 0), strict=True):
            assert mean == pytest.approx(np.sum(scores[side] * WEIGHT[side]) / np.sum(WEIGHT[side]))
    assert [bar.get_height() for bar in display.bars_[1]] == [display.before[1], display.after[1]]


def test_before_and_after_are_the_scores_of_machine_and_adjusted_machine(z_machine, shifted):
    for model in (z_machine, shifted):
        display = BoundaryDistanceDisplay.from_estimator(model, X, Y, geometric=False)
        before, after = model.estimator_.decision_function(X), model.decision_function(X)
        assert_allclose(display.before, [before[Y < 0].mean(), before[Y > 0].mean()], atol=1e-5)
        assert_allclose(display.after, [after[Y < 0].mean(), after[Y > 0].mean()], atol=1e-5)


@pytest.mark.parametrize("labels", [Y, NAMES])
@pytest.mark.parametrize("machine", [SVC(gamma=0.2), KernelSVM(gamma=0.2), make_pipeline(StandardScaler(), SVC())])
def test_geometric_distances_are_scores_over_the_length_of_w(machine, labels):
    model = ZAdjustedClassifier(machine).fit(X, labels)
    display = drawn(BoundaryDistanceDisplay.from_estimator(model, X, labels, geometric=True))
    plain = BoundaryDistanceDisplay.from_estimator(model, X, labels, geometric=False)
    fitted = model.estimator_[-1] if hasattr(model.estimator_, "steps") else model.estimator_
    gamma = fitted._gamma if isinstance(fitted, SVC) else 0.2
    coef, K = np.ravel(fitted.dual_coef_), rbf_kernel(fitted.support_vectors_, gamma=gamma)
    pulls = coef > 0 if model.minority_ == model.classes_[1] else coef < 0
    strengthened = np.where(pulls, model.z_ * coef, coef)
    assert_allclose(np.divide(plain.before, display.before), np.sqrt(coef @ K @ coef), rtol=1e-4)
    assert_allclose(np.divide(plain.after, display.after), np.sqrt(strengthened @ K @ strengthened), rtol=1e-4)


@pytest.mark.parametrize("method", ["z", "threshold"])
def test_geometric_distances_of_a_linear_machine(method):
    model = ZAdjustedClassifier(LinearSVM(), method=method).fit(X, Y)
    geometric, plain = (BoundaryDistanceDisplay.from_estimator(model, X, Y, geometric=g) for g in (True, False))
    assert_allclose(np.divide(plain.before, geometric.before), np.linalg.norm(model.estimator_.coef_), rtol=1e-6)
    rows = np.vstack([np.zeros(5), np.eye(5)])
    scores = model.decision_function(rows)  # of the unit vectors: the adjusted w itself
    assert_allclose(np.divide(plain.after, geometric.after), np.linalg.norm(scores[1:] - scores[0]), rtol=1e-6)


def test_without_support_vectors_the_scores_are_shown_as_they_are():
    model = ZAdjustedClassifier(GaussianNB(), method="threshold").fit(X, Y)
    display = drawn(BoundaryDistanceDisplay.from_estimator(model, X, Y))
    assert display.unit == "Mean score, boundary at 0"
    assert display.before[1] == pytest.approx(np.mean(model.estimator_.predict_proba(X)[Y > 0, 1]) - 0.5)
    with pytest.raises(ValueError, match="GaussianNB has no ‖w‖") as error:
        BoundaryDistanceDisplay.from_estimator(model, X, Y, geometric=True)
    one_sentence(error)


def test_several_pairs_of_bars_stand_side_by_side():
    first = BoundaryDistanceDisplay.from_predictions(Y, PROB, PROB, name="one")
    second = drawn(BoundaryDistanceDisplay.from_predictions(Y, PROB, PROB, name="two", ax=first.ax_))
    assert [tick.get_text() for tick in second.ax_.get_xticklabels()] == [
        "before\none", "after\none", "before\ntwo", "after\ntwo",
    ]  # fmt: skip
    assert second.bars_[0][0].get_x() > first.bars_[1][1].get_x()
    assert len(second.ax_.get_legend().get_texts()) == 2


def test_only_an_adjusted_machine_has_a_before(logistic):
    with pytest.raises(ValueError, match="LogisticRegression has no adjustment") as error:
        BoundaryDistanceDisplay.from_estimator(logistic, X, Y)
    one_sentence(error)


# --- histograms ---


def test_densities_are_shares_of_the_class_over_the_width():
    display = drawn(ScoreHistogramDisplay.from_predictions(Y, PROB, bins=7, sample_weight=WEIGHT, thresholds=0.4))
    width = np.diff(display.edges)
    for density, side in zip(display.densities, (Y < 0, Y > 0), strict=True):
        for k in range(7):
            upper = display.edges[k + 1] >= PROB if k == 6 else display.edges[k + 1] > PROB
            inside = side & (display.edges[k] <= PROB) & upper
            assert density[k] * width[k] == pytest.approx(WEIGHT[inside].sum() / WEIGHT[side].sum())
    assert display.outside == pytest.approx((0.0, 0.0))
    assert display.threshold_lines_[0].get_xdata()[0] == 0.4


def test_rows_beyond_the_bins_are_told_and_do_not_stretch_them():
    display = drawn(ScoreHistogramDisplay.from_predictions(np.append(Y, -1), np.append(PROB, 1e6)))
    assert display.edges[-1] < 2
    assert display.outside[0] == pytest.approx(1 / (1 + np.sum(Y < 0)))
    assert "beyond" in display.ax_.get_legend().get_texts()[0].get_text()


def test_a_shifted_machine_shows_both_thresholds(shifted):
    display = drawn(ScoreHistogramDisplay.from_estimator(shifted, X, Y))
    assert display.thresholds == {"threshold": 0.0, "before": -shifted.threshold_}
    turned = ScoreHistogramDisplay.from_estimator(shifted, X, Y, pos_label=-1)
    assert turned.thresholds["before"] == shifted.threshold_


def test_the_classes_have_their_colours_in_the_histogram(logistic):
    display = drawn(ScoreHistogramDisplay.from_estimator(logistic, X, Y, thresholds={"mine": 0.2, "yours": 0.6}))
    assert [to_hex(patch.get_edgecolor()) for patch in display.patches_] == [BLUE, VERMILION]
    assert len(display.threshold_lines_) == 2


def test_equal_scores_make_a_histogram_too():
    display = drawn(ScoreHistogramDisplay.from_predictions(Y, np.zeros(Y.size)))
    assert display.densities[0].sum() * np.diff(display.edges)[0] == pytest.approx(1.0)


# --- cost curves ---


def naive_cost(x, scores, truth, weight):
    """The least normalised expected cost over all thresholds."""
    costs = []
    for t in [-np.inf, *np.unique(scores)]:
        tp, fn, fp, tn = counts(scores > t, truth, weight)
        costs.append(fn / (tp + fn) * x + fp / (fp + tn) * (1 - x))
    return min(costs)


def test_the_cost_curve_is_the_least_cost_over_all_thresholds():
    display = drawn(CostCurveDisplay.from_predictions(Y, PROB, sample_weight=WEIGHT))
    keep = WEIGHT > 0
    for x in np.linspace(0, 1, 41):
        expected = naive_cost(x, PROB[keep], Y[keep] > 0, WEIGHT[keep])
        assert np.interp(x, display.probability_cost, display.cost) == pytest.approx(expected, abs=1e-12)
    assert_array_equal(display.line_.get_ydata(), display.cost)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=2, max_size=25))
def test_cost_curves_of_any_scores(rows):
    truth, scores = np.array([row[0] for row in rows]), np.array([row[1] for row in rows], dtype=float)
    if truth.all() or not truth.any():
        return
    display = CostCurveDisplay.from_predictions(truth.astype(int), scores)
    plt.close("all")
    assert (np.diff(display.probability_cost) > 0).all()
    for x in np.linspace(0, 1, 17):
        expected = naive_cost(x, scores, truth, np.ones(truth.size))
        assert np.interp(x, display.probability_cost, display.cost) == pytest.approx(expected, abs=1e-12)


def test_thresholds_of_the_cost_curve_attain_it():
    display = CostCurveDisplay.from_predictions(Y, PROB)
    middle = 0.5 * (display.probability_cost[1:] + display.probability_cost[:-1])
    assert display.thresholds.size == middle.size
    for x, t in zip(middle, display.thresholds, strict=True):
        cost = np.mean(PROB[Y > 0] <= t) * x + np.mean(PROB[Y < 0] > t) * (1 - x)
        assert cost == pytest.approx(np.interp(x, display.probability_cost, display.cost))


def test_the_line_of_a_classifier_joins_its_error_rates(logistic):
    display = drawn(CostCurveDisplay.from_estimator(logistic, X, Y))
    called = logistic.predict(X) > 0
    assert display.rates == pytest.approx((np.mean(called[Y < 0]), np.mean(~called[Y > 0])))
    assert_array_equal(display.threshold_line_.get_ydata(), display.rates)
    assert CostCurveDisplay.from_estimator(logistic, X, Y, threshold=None).threshold_line_ is None


def test_swapping_the_labels_mirrors_the_cost_curve():
    a = CostCurveDisplay.from_predictions(Y, PROB)
    b = CostCurveDisplay.from_predictions(Y, -PROB, pos_label=-1)
    assert_allclose(b.probability_cost, 1 - a.probability_cost[::-1], atol=1e-12)
    assert_allclose(b.cost, a.cost[::-1], atol=1e-12)


def test_perfect_scores_cost_nothing():
    display = drawn(CostCurveDisplay.from_predictions(Y, Y.astype(float)))
    assert_allclose(display.cost, 0.0)


# --- decision curves ---


def test_net_benefit_is_hits_less_false_alarms_at_the_odds():
    display = drawn(DecisionCurveDisplay.from_predictions(Y, PROB, sample_weight=WEIGHT))
    total = WEIGHT.sum()
    for t, benefit, of_all in zip(display.thresholds, display.net_benefit, display.treat_all, strict=True):
        tp, fn, fp, tn = counts(t < PROB, Y > 0, WEIGHT)
        assert benefit == pytest.approx(tp / total - fp / total * t / (1 - t), abs=1e-12)
        assert of_all == pytest.approx((tp + fn) / total - (fp + tn) / total * t / (1 - t), abs=1e-12)
    assert display.prevalence == pytest.approx(WEIGHT[Y > 0].sum() / total)


def test_thresholds_of_the_decision_curve_can_be_chosen(logistic):
    display = drawn(DecisionCurveDisplay.from_estimator(logistic, X, Y, thresholds=[0.5, 0.1]))
    assert_array_equal(display.thresholds, [0.1, 0.5])
    called = logistic.predict(X) > 0
    assert display.net_benefit[1] == pytest.approx(np.mean(called & (Y > 0)) - np.mean(called & (Y < 0)))


def test_far_below_zero_does_not_squash_the_decision_curve():
    display = drawn(DecisionCurveDisplay.from_predictions(Y, np.full(Y.size, 0.97)))
    low, high = display.ax_.get_ylim()
    assert low > -display.prevalence
    assert high > display.prevalence


def test_the_odds_of_one_are_refused():
    for bad in ([0.5, 1.0], [-0.1], [], ["a"], [np.nan]):
        with pytest.raises(ValueError, match="from 0 to below 1") as error:
            DecisionCurveDisplay.from_predictions(Y, PROB, thresholds=bad)
        one_sentence(error)


# --- reliability ---


def test_bins_of_the_reliability_diagram_are_what_they_say():
    display = drawn(ReliabilityDisplay.from_predictions(Y, PROB, sample_weight=WEIGHT))
    keep = WEIGHT > 0
    prob, truth, weight = PROB[keep], Y[keep] > 0, WEIGHT[keep]
    # Bins are runs of sorted predictions: recover each by its weight.
    order = np.argsort(prob, kind="stable")
    ends = np.searchsorted(np.cumsum(weight[order]), np.cumsum(display.totals) - 1e-9)
    start, gap = 0, 0.0
    for k, end in enumerate(ends):
        rows = order[start : end + 1]
        assert display.prob_true[k] == pytest.approx(np.average(truth[rows], weights=weight[rows]))
        assert display.prob_pred[k] == pytest.approx(np.average(prob[rows], weights=weight[rows]))
        assert weight[rows][truth[rows]].sum() >= 5
        if end + 1 < order.size:
            assert prob[order[end]] < prob[order[end + 1]]  # equal predictions stay together
        gap += weight[rows].sum() * abs(display.prob_true[k] - display.prob_pred[k])
        start = end + 1
    assert start == order.size
    assert display.ece == pytest.approx(gap / weight.sum())
    assert display.totals.size >= 3


def test_the_brier_score_is_that_of_scikit_learn():
    display = ReliabilityDisplay.from_predictions(Y, PROB, sample_weight=WEIGHT)
    assert display.brier == pytest.approx(brier_score_loss(Y, PROB, sample_weight=WEIGHT, pos_label=1))


def test_intervals_are_those_of_wilson():
    display = ReliabilityDisplay.from_predictions(Y, PROB)
    stats = pytest.importorskip("scipy.stats")
    for share, total, low, high in zip(display.prob_true, display.totals, display.lower, display.upper, strict=True):
        interval = stats.binomtest(round(share * total), round(total)).proportion_ci(0.95, method="wilson")
        assert (low, high) == pytest.approx((interval.low, interval.high))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 12), st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_every_bin_holds_positives_enough_or_there_is_one_bin(n_bins, enough, seed):
    rng = np.random.default_rng(seed)
    prob = rng.beta(0.4, 4, 200).round(2)
    truth = rng.random(200) < prob
    truth[:2] = True, False
    display = ReliabilityDisplay.from_predictions(truth.astype(int), prob, n_bins=n_bins, min_positives=enough)
    plt.close("all")
    assert 1 <= display.totals.size <= n_bins
    assert display.totals.sum() == 200
    if display.totals.size > 1:
        assert (display.prob_true * display.totals >= enough - 1e-9).all()
        assert (np.diff(display.prob_pred) > 0).all()


def test_perfect_probabilities_have_no_calibration_error():
    prob = np.repeat([0.25, 0.5], 100)
    truth = np.concatenate([np.arange(100) < 25, np.arange(100) < 50]).astype(int)
    display = drawn(ReliabilityDisplay.from_predictions(truth, prob))
    assert display.ece == pytest.approx(0.0, abs=1e-12)


def test_the_reliability_diagram_reaches_as_far_as_the_predictions():
    rng = np.random.default_rng(0)
    prob = rng.beta(0.3, 30, 5000)
    display = drawn(ReliabilityDisplay.from_predictions((rng.random(5000) < prob).astype(int), prob))
    assert display.ax_.get_xlim()[1] < 0.3


def test_the_histogram_beneath_is_shared_and_counts_rows(logistic):
    first = ReliabilityDisplay.from_estimator(logistic, X, Y)
    forest = RandomForestClassifier(20, max_depth=3, random_state=0).fit(X, Y)
    second = drawn(ReliabilityDisplay.from_estimator(forest, X, Y, ax=first.ax_))
    assert second.hist_ax_ is first.hist_ax_
    assert len(second.ax_.get_legend().get_texts()) == 3
    assert first.hist_ax_.patches[0].get_data().values.sum() == Y.size
    axes = plt.figure().add_axes((0.1, 0.1, 0.8, 0.8))
    placed = drawn(ReliabilityDisplay.from_estimator(logistic, X, Y, ax=axes))
    assert placed.hist_ax_.get_position().y1 < placed.ax_.get_position().y0


# --- what all of them share ---


def numbers(display):
    """Everything computed, as flat arrays; not the rows themselves, nor how many they are, nor names."""
    if isinstance(display, ThresholdDisplay):
        values = [part for curve in display.curves.values() for part in curve] + [display.at, display.span]
    else:
        skipped = ("y_prob", "sample_weight", "labels", "name", "score_name", "thresholds")
        values = [v for name, v in vars(display).items() if name not in skipped and not name.endswith("_")]
    return [np.ravel(value).astype(float) for value in values if value is not None]


def assert_same(a, b, **tolerance):
    for one, other in zip(numbers(a), numbers(b), strict=True):
        assert_allclose(one, other, **tolerance)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_weights_are_repetitions(kind):
    repeated = np.repeat(np.arange(Y.size), WEIGHT.astype(int))
    weighted = kind.from_predictions(Y, PROB, sample_weight=WEIGHT)
    assert_same(weighted, kind.from_predictions(Y[repeated], PROB[repeated]), atol=1e-12)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_labels_may_be_strings(kind):
    named = drawn(kind.from_predictions(NAMES, PROB, pos_label="a rare one"))
    assert_same(named, kind.from_predictions(Y, PROB), rtol=0)


@pytest.mark.parametrize(("label", "column"), [("a rare one", 0), ("common", 1), (None, 1)])
@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_an_estimator_gives_what_its_predictions_give(kind, label, column):
    model = LogisticRegression().fit(X, NAMES)
    made = drawn(kind.from_estimator(model, X, NAMES, pos_label=label, sample_weight=WEIGHT))
    cut = {ThresholdDisplay: {"at": 0.5}, CostCurveDisplay: {"threshold": 0.5}}.get(kind, {})
    prob = model.predict_proba(X)[:, column]
    given = kind.from_predictions(NAMES, prob, pos_label=model.classes_[column], sample_weight=WEIGHT, **cut)
    assert_same(made, given, rtol=0)
    assert made.figure_ is made.ax_.figure


@pytest.mark.parametrize("kind", [CostCurveDisplay, DecisionCurveDisplay, ReliabilityDisplay], ids=lambda k: k.__name__)
def test_several_curves_share_axes_and_references(kind):
    first = kind.from_predictions(Y, PROB, name="one")
    second = drawn(kind.from_predictions(Y, np.sqrt(PROB), name="two", ax=first.ax_))
    assert second.ax_ is first.ax_
    assert second.line_.get_color() != first.line_.get_color()
    labels = [text.get_text() for text in second.ax_.get_legend().get_texts()]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_a_display_can_be_drawn_again_in_another_style(kind):
    display = kind.from_predictions(Y, PROB)
    axes = plt.figure().add_subplot()
    assert display.plot(axes, name="again", lw=5, color="black") is display
    assert display.ax_ is axes
    lines = (
        display.lines_.values() if kind is ThresholdDisplay else getattr(display, "patches_", None) or [display.line_]
    )
    assert all(line.get_linewidth() == 5 for line in lines)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_axis_has_a_label_and_the_legend_is_outside(kind):
    display = drawn(kind.from_predictions(Y, PROB))
    assert display.ax_.get_ylabel()
    assert display.ax_.get_xlabel() or display.hist_ax_.get_xlabel()
    legend = display.ax_.get_legend().get_window_extent()
    assert legend.y0 >= display.ax_.get_window_extent().y1 - 2
    assert legend.x1 <= display.figure_.bbox.x1 + 1
    assert legend.y1 <= display.figure_.bbox.y1 + 1


BAD = [
    ({"y_true": Y[:5]}, "one number for each of the 5 rows"),
    ({"y_true": np.column_stack([Y, Y])}, "one label for each row"),
    ({"y_true": np.ones(Y.size)}, "but it holds 1"),
    ({"y_true": np.arange(Y.size) % 3}, "but it holds 3"),
    ({"y_true": NAMES}, "say which is positive"),
    ({"pos_label": 7}, "pos_label=7 is not in y_true"),
    ({"y_true": np.array([None, "a"] * (Y.size // 2), dtype=object)}, "of one type"),
    ({"sample_weight": np.ones(3)}, "sample_weight has shape"),
    ({"sample_weight": -np.ones(Y.size)}, "not be below 0"),
    ({"sample_weight": (Y > 0).astype(float)}, "two classes with a weight above 0"),
    ({"score": np.full(Y.size, np.nan)}, "one finite number for each row"),
    ({"score": np.column_stack([PROB, PROB])}, "the column of the positive class"),
    ({"score": ["x"] * Y.size}, "must be an array of numbers"),
]


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("change", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_predictions_get_one_sentence(kind, change, message):
    given = {"y_true": Y, "score": PROB, **change}
    with pytest.raises(ValueError, match=message) as error:
        kind.from_predictions(given.pop("y_true"), given.pop("score"), **given)
    one_sentence(error)
    assert not plt.get_fignums()


@pytest.mark.parametrize("kind", PROBABLE, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("scores", [PROB - 0.5, 3 * PROB])
def test_scores_that_are_no_probabilities_are_refused(kind, scores):
    with pytest.raises(ValueError, match="must hold probabilities") as error:
        kind.from_predictions(Y, scores)
    one_sentence(error)


@pytest.mark.parametrize("kind", PROBABLE, ids=lambda kind: kind.__name__)
def test_probabilities_that_rounding_took_over_the_edge_are_taken(kind):
    assert_same(kind.from_predictions(Y, PROB + np.where(PROB == 1, 1e-7, 0)), kind.from_predictions(Y, PROB), rtol=0)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_estimators_that_do_not_fit_get_one_sentence(kind, logistic):
    three = GaussianNB().fit(*load_iris(return_X_y=True))
    for model, message in [(three, "fitted on 3 classes"), (LinearRegression().fit(X, Y), "not a classifier")]:
        with pytest.raises(ValueError, match=message) as error:
            kind.from_estimator(model, X, Y)
        one_sentence(error)
    with pytest.raises(ValueError, match="pos_label=5 is not a class") as error:
        kind.from_estimator(logistic, X, Y, pos_label=5)
    one_sentence(error)


@pytest.mark.parametrize("kind", PROBABLE, ids=lambda kind: kind.__name__)
def test_a_classifier_without_probabilities_is_refused_where_they_are_needed(kind):
    with pytest.raises(ValueError, match="RidgeClassifier has no predict_proba") as error:
        kind.from_estimator(RidgeClassifier().fit(X, Y), X, Y)
    one_sentence(error)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ThresholdDisplay.from_predictions(Y, PROB, metrics="gnome"), "'gnome' is unknown.*'specificity'"),
        (lambda: ThresholdDisplay.from_predictions(Y, PROB, metrics=[]), "metrics is empty"),
        (lambda: ThresholdDisplay.from_predictions(Y, PROB, at="worst"), "at='worst' must be"),
        (lambda: ThresholdDisplay.from_predictions(Y, p=PROB, q=PROB, at=-1.0), "from 0 for z"),
        (lambda: ThresholdDisplay.from_predictions(Y), "either y_score"),
        (lambda: ThresholdDisplay.from_predictions(Y, p=PROB), "either y_score"),
        (lambda: ThresholdDisplay.from_predictions(Y, p=PROB, q=PROB[:9]), "q has shape"),
        (lambda: ScoreHistogramDisplay.from_predictions(Y, PROB, bins=0), "bins=0"),
        (lambda: ScoreHistogramDisplay.from_predictions(Y, PROB, thresholds="high"), "thresholds='high'"),
        (lambda: ScoreHistogramDisplay.from_predictions(Y, PROB, thresholds=[np.inf]), "must be a finite number"),
        (lambda: CostCurveDisplay.from_predictions(Y, PROB, threshold="own"), "threshold='own'"),
        (lambda: ReliabilityDisplay.from_predictions(Y, PROB, n_bins=0), "n_bins=0"),
        (lambda: ReliabilityDisplay.from_predictions(Y, PROB, min_positives=-1), "min_positives=-1"),
        (lambda: BoundaryDistanceDisplay.from_predictions(Y, PROB, PROB[:9]), "after has shape"),
    ],
)
def test_bad_choices_get_one_sentence(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    one_sentence(error)


def test_an_unknown_response_method_is_named(logistic):
    with pytest.raises(ValueError, match="response_method='predict' is unknown") as error:
        CostCurveDisplay.from_estimator(logistic, X, Y, response_method="predict")
    one_sentence(error)


def test_an_adjusted_machine_keeps_its_minority_as_positive(z_machine):
    with pytest.raises(ValueError, match="adjusted for its minority, 1") as error:
        ThresholdDisplay.from_estimator(z_machine, X, Y, pos_label=-1)
    one_sentence(error)


def test_frozen_and_calibrated_machines_can_be_drawn(z_machine):
    calibrated = CalibratedClassifierCV(FrozenEstimator(z_machine.estimator_)).fit(X, Y)
    drawn(ReliabilityDisplay.from_estimator(calibrated, X, Y))
    display = drawn(ScoreHistogramDisplay.from_estimator(FrozenEstimator(z_machine.estimator_), X, Y))
    assert display.thresholds == {"threshold": 0.0}


# --- searches ---


def test_results_may_come_as_dict_frame_or_file(search, tmp_path):
    frame = pd.DataFrame(search.cv_results_)
    frame.to_csv(tmp_path / "results.csv", index=False)
    heat = HeatMapDisplay.from_cv_results(search, "alpha", "loss").scores
    read = pd.read_csv(tmp_path / "results.csv")
    for results in (search.cv_results_, frame, frame.drop(columns="params"), read):
        assert_allclose(HeatMapDisplay.from_cv_results(results, "alpha", "loss").scores, heat)


def test_one_of_several_scores_is_chosen():
    scoring = ["roc_auc", "balanced_accuracy"]
    grid = {"alpha": [0.1, 1.0], "loss": ["hinge", "log"]}
    search = GridSearchCV(LinearSVM(), grid, cv=3, scoring=scoring, refit="roc_auc").fit(X, Y)
    assert HeatMapDisplay.from_cv_results(search, "alpha", "loss").score_name == "ROC-AUC"
    display = HeatMapDisplay.from_cv_results(search.cv_results_, "alpha", "loss", score="balanced_accuracy")
    assert display.score_name == "Balanced accuracy"
    assert_array_equal(display.scores.T.ravel(), search.cv_results_["mean_test_balanced_accuracy"])
    with pytest.raises(ValueError, match="several scores: name one of 'roc_auc'") as error:
        HeatMapDisplay.from_cv_results(search.cv_results_, "alpha", "loss")
    one_sentence(error)


def test_grids_with_different_parameters_can_be_drawn():
    grids = [{"kernel": ["rbf"], "gamma": [1.0, 0.01, 0.1]}, {"kernel": ["linear"], "C": [0.1, 1.0]}]
    search = GridSearchCV(SVC(), grids, cv=3).fit(X, Y)
    for results in (search, pd.DataFrame(search.cv_results_).drop(columns="params")):
        display = drawn(HeatMapDisplay.from_cv_results(results, "gamma", "kernel"))
        assert display.x_values == [0.01, 0.1, 1.0]
        assert np.isfinite(display.scores).sum() == 3
        assert HeatMapDisplay.from_cv_results(results, "C", "kernel").x_values == [0.1, 1.0]


@pytest.mark.parametrize("reduce", ["max", "mean"])
def test_a_cell_of_the_map_sums_up_its_candidates(search, reduce):
    display = drawn(HeatMapDisplay.from_cv_results(search, "alpha", "class_weight", reduce=reduce))
    assert display.x_values == [1e-3, 1e-1, 10.0]
    for row, weight in enumerate(display.y_values):
        for column, alpha in enumerate(display.x_values):
            found = [
                mean
                for candidate, mean in zip(
                    search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
                )
                if candidate["alpha"] == alpha and candidate["class_weight"] == weight
            ]
            assert len(found) == 2
            assert display.scores[row, column] == pytest.approx(max(found) if reduce == "max" else np.mean(found))
    assert len(display.text_) == 6


def test_the_best_cell_is_framed(search):
    display = drawn(HeatMapDisplay.from_cv_results(search, "alpha", "loss"))
    row, column = display.best
    assert display.x_values[column] == search.best_params_["alpha"]
    assert display.y_values[row] == search.best_params_["loss"]
    assert display.best_.get_xy() == (column - 0.5, row - 0.5)


def test_cells_that_were_not_tried_stay_empty():
    grid = {"alpha": np.logspace(-3, 2, 12), "loss": ["hinge", "log"]}
    search = RandomizedSearchCV(LinearSVM(), grid, n_iter=8, cv=3, random_state=0).fit(X, Y)
    display = drawn(HeatMapDisplay.from_cv_results(search, "alpha", "loss"))
    assert np.isfinite(display.scores).sum() == 8
    assert np.isnan(display.scores).any()


def test_many_cells_have_no_numbers_in_them_and_fewer_labels():
    grid = list(ParameterGrid({"a": np.logspace(-6, 6, 25), "b": range(20)}))
    results = {"params": grid, "mean_test_score": np.linspace(0, 1, len(grid))}
    display = drawn(HeatMapDisplay.from_cv_results(results, "a", "b"))
    assert display.text_ == []
    assert len(display.ax_.get_xticks()) <= 10
    assert display.ax_.get_xticklabels()[0].get_text() == "$10^{-6}$"


def test_a_very_bad_cell_does_not_take_all_the_colours():
    grid = list(ParameterGrid({"a": [1, 2, 3], "b": [1, 2, 3]}))
    results = {"params": grid, "mean_test_score": [-1e6, *np.linspace(0.8, 0.9, 8)]}
    display = drawn(HeatMapDisplay.from_cv_results(results, "a", "b"))
    assert display.im_.norm.vmin > 0.5


def test_failed_candidates_are_left_out():
    grid = list(ParameterGrid({"a": [1, 2, 3], "b": [1, 2]}))
    results = {"params": grid, "mean_test_score": [0.1, np.nan, 0.3, 0.2, np.nan, 0.1]}
    assert np.isnan(drawn(HeatMapDisplay.from_cv_results(results, "a", "b")).scores).sum() == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: HeatMapDisplay.from_cv_results(s, "alpha", "loss", score="f1"), "score='f1' is not in the results"),
        (lambda s: HeatMapDisplay.from_cv_results(s, "alpha", "gamma"), "'gamma' is not a parameter of the search"),
        (lambda s: HeatMapDisplay.from_cv_results(s, "alpha", "alpha"), "name two parameters"),
        (lambda s: HeatMapDisplay.from_cv_results(s, "alpha", "loss", reduce="min"), "reduce='min' is unknown"),
        (lambda s: HeatMapDisplay.from_cv_results(3, "alpha", "loss"), "int holds no results"),
        (lambda s: HeatMapDisplay.from_cv_results({}, "alpha", "loss"), "no column mean_test_"),
        (lambda s: HeatMapDisplay.from_cv_results({"mean_test_score": [1.0]}, "a", "b"), "name no parameters"),
        (
            lambda s: HeatMapDisplay.from_cv_results(
                {"params": [{"a": 1}, {"b": 2}], "mean_test_score": [1, 2]}, "a", "b"
            ),
            "No candidate",
        ),
    ],
)
def test_searches_that_cannot_be_drawn_get_one_sentence(search, call, message):
    with pytest.raises(ValueError, match=message) as error:
        call(search)
    one_sentence(error)
    assert not plt.get_fignums()


# --- matplotlib ---


def test_matplotlib_is_imported_only_to_draw():
    code = "import sys, evenmargin.display; assert not {'matplotlib', 'numba'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_there_is_one_sentence(monkeypatch, search, logistic, z_machine):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    calls = [
        *[lambda kind=kind: kind.from_predictions(Y, PROB) for kind in EVERY],
        *[lambda kind=kind: kind.from_estimator(logistic, X, Y) for kind in EVERY],
        lambda: BoundaryDistanceDisplay.from_predictions(Y, PROB, PROB),
        lambda: BoundaryDistanceDisplay.from_estimator(z_machine, X, Y),
        lambda: HeatMapDisplay.from_cv_results(search, "alpha", "loss"),
    ]
    for call in calls:
        with pytest.raises(ImportError, match="pip install matplotlib") as error:
            call()
        one_sentence(error)
