"""Objectives, thresholds, curves, probabilities and intervals: what a table of scores and labels can tell."""

from __future__ import annotations

import math
import pickle
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, matthews_corrcoef, roc_auc_score

from evenmargin.adjust import best_threshold
from evenmargin.metrics import MCC, FBeta, GMean
from evenmargin.operating import Calibrator, choose_threshold, get_objective, metric_interval, operating_curve

NAMES = ["gmean", "balanced_accuracy", "f1", "mcc"]
OBJECTIVES = [*NAMES, {"fn": 20, "fp": 1}, {"recall": 0.8}, {"precision": 0.4}, {"recall": 0.7, "confidence": 0.8}]


def two_normals(positives=40, negatives=400, apart=2.0, seed=0):
    rng = np.random.default_rng(seed)
    scores = np.concatenate([rng.normal(apart, 1.0, positives), rng.normal(0.0, 1.0, negatives)])
    return scores, np.arange(scores.size) < positives


def naive_counts(scores, positive, weight, threshold):
    called = scores > threshold
    return [
        sum(w for w, c, p in zip(weight, called, positive, strict=True) if (bool(p), bool(c)) == pair)
        for pair in [(True, True), (True, False), (False, True), (False, False)]
    ]


tables = st.integers(4, 25).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-5, 5).map(lambda k: k / 4), min_size=n, max_size=n),
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
        st.integers(1, n - 1),
    )
)


def table(drawn):
    scores, weight, positives = drawn
    weight = np.array(weight, dtype=float)
    weight[0] = weight[-1] = 1.0  # both classes
    return np.array(scores), np.arange(weight.size) < positives, weight


# --- objectives ---


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ("gmean", "G-mean"),
        ("balanced_accuracy", "balanced accuracy"),
        ("f1", "F1"),
        ("mcc", "Matthews correlation"),
        ({"fn": 100, "fp": 1}, "cost with fn = 100, fp = 1"),
        ({"fn": 100, "fp": 1, "tp": -5}, "cost with fn = 100, fp = 1, tp = -5"),
        ([[0, 1], [10, 0]], "cost with fn = 10, fp = 1"),
        ({"recall": 0.95}, "recall of at least 95 %"),
        ({"precision": 0.9}, "precision of at least 90 %"),
        ({"recall": 0.95, "confidence": 0.9}, "recall of at least 95 % with 90 % confidence"),
        (FBeta(2.0), "F2"),
    ],
)
def test_an_objective_says_in_words_what_it_is(objective, words):
    assert str(get_objective(objective)) == get_objective(objective).name == words


def test_only_a_floor_has_a_floor():
    floors = [isinstance(o, dict) and bool({"recall", "precision"} & set(o)) for o in OBJECTIVES]
    assert sum(floors) == 3
    assert [get_objective(o).has_floor for o in OBJECTIVES] == floors


def test_an_objective_is_taken_as_it_is():
    objective = get_objective({"recall": 0.9})
    assert get_objective(objective) is objective


def test_mcc_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    y, called = rng.random(100) < 0.3, rng.random(100) < 0.4
    counts = [float((a & b).sum()) for a, b in [(y, called), (y, ~called), (~y, called), (~y, ~called)]]
    assert MCC()(*counts) == pytest.approx(matthews_corrcoef(y, called))
    assert MCC()(0.0, 5.0, 0.0, 95.0) == 0.0


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ("accuracy!", "objective='accuracy!' is unknown; choose 'gmean'"),
        (None, "objective=None is unknown"),
        ({}, "costs need 'fn'"),
        ({"fn": 100}, "costs need 'fn'"),
        ({"fn": 100, "fp": 1, "x": 1}, "costs need 'fn'"),
        ({"fn": 100, "fp": "1"}, "every cost must be a finite number"),
        ({"fn": 0, "fp": 1}, "a mistake must cost more than the right prediction"),
        ({"recall": 95}, "the recall must be above 0 and at most 1, such as 0.95 for 95 %"),
        ({"recall": True}, "the recall must be above 0"),
        ({"recall": 0.9, "precision": 0.9}, "a floor has 'recall' or 'precision'"),
        ({"recall": 0.9, "fn": 1}, "a floor has 'recall' or 'precision'"),
        ({"recall": 0.9, "confidence": 90}, "the confidence must lie between 0 and 1"),
        ({"recall": 1.0, "confidence": 0.9}, "the recall below 1"),
        ([[1, 2, 3]], "objective: A cost matrix must hold 2 × 2"),
    ],
)
def test_a_bad_objective_gets_one_sentence(objective, message):
    with pytest.raises(ValueError, match="objective") as error:
        get_objective(objective)
    assert message in str(error.value)
    assert str(error.value).count(". ") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, math.nan], [0, 1]), "scores must hold one finite number for each row"),
        (([1.0, 2.0, 3.0], [0, 1]), "must have the same length, not 3, 2"),
        (([1.0, 2.0], [1, 1]), "positive must hold rows of both classes"),
        (([1.0, 2.0], [0, 1], "gmean", [1.0, 0.0]), "positive must hold rows of both classes"),
        (([1.0, 2.0], [0, 1], "gmean", [1.0, -1.0]), "sample_weight must not be below 0"),
        (([1.0, 2.0], [0, 1], lambda tp, fn, fp, tn: 1.0), "one number for each element"),
        (([1.0, 2.0, 3.0], [0, 1, 1], lambda tp, fn, fp, tn: tp * math.nan), "so there is no best one"),
        ((["a", "b"], [0, 1]), "scores must be an array of numbers"),
    ],
)
def test_bad_scores_labels_or_weights_get_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        choose_threshold(*arguments)


# --- thresholds ---


@given(tables, st.sampled_from(NAMES))
def test_the_exact_threshold_is_that_of_adjust(drawn, name):
    scores, positive, weight = table(drawn)
    choice = choose_threshold(scores, positive, name, weight, smooth=False)
    best = best_threshold(scores, positive, name, weight, place="middle")
    assert choice.value == pytest.approx(best.value)
    assert best.interval[0] <= choice.threshold <= best.interval[1]


@given(tables, st.sampled_from(OBJECTIVES), st.booleans())
def test_a_choice_reports_the_counts_of_its_own_calls(drawn, objective, smooth):
    scores, positive, weight = table(drawn)
    choice = choose_threshold(scores, positive, objective, weight, smooth=smooth)
    assert_allclose(choice[3:], naive_counts(scores, positive, weight, choice.threshold), atol=1e-12)


@given(tables, st.sampled_from(OBJECTIVES), st.booleans())
def test_a_weight_is_a_repetition(drawn, objective, smooth):
    scores, positive, weight = table(drawn)
    often = weight.astype(int)
    weighted = choose_threshold(scores, positive, objective, weight, smooth=smooth)
    repeated = choose_threshold(np.repeat(scores, often), np.repeat(positive, often), objective, smooth=smooth)
    assert_allclose(weighted, repeated, rtol=1e-9, atol=1e-9)


@given(tables, st.sampled_from(["recall", "precision"]), st.sampled_from([0.5, 0.8, 1.0]), st.booleans())
def test_a_floor_is_reached_wherever_some_threshold_reaches_it(drawn, rate, level, smooth):
    scores, positive, weight = table(drawn)
    choice = choose_threshold(scores, positive, {rate: level}, weight, smooth=smooth)
    curve = operating_curve(scores, positive, weight)
    assert choice.reached == bool((curve[rate] >= level - 1e-12).any())
    if choice.reached:
        misses = choice.fn if rate == "recall" else choice.fp
        assert choice.tp >= (choice.tp + misses) * level - 1e-9


def test_the_exact_floor_has_the_best_of_all_that_reach_it():
    scores, positive = two_normals()
    curve = operating_curve(scores, positive)
    choice = choose_threshold(scores, positive, {"recall": 0.9}, smooth=False)
    assert choice.value == curve.specificity[curve.recall >= 0.9].max()
    choice = choose_threshold(scores, positive, {"precision": 0.5}, smooth=False)
    assert choice.value == curve.recall[curve.precision >= 0.5].max()


def test_a_precision_out_of_reach_says_so_and_comes_near():
    rng = np.random.default_rng(0)
    scores, positive = rng.random(300), np.arange(300) % 10 == 0  # scores that tell nothing
    scores[np.argsort(scores)[-20:]] += 1.0
    positive[np.argsort(scores)[-3:]] = False
    for smooth in (True, False):
        choice = choose_threshold(scores, positive, {"precision": 0.95}, smooth=smooth)
        assert not choice.reached
        assert choice.tp > 0


def test_all_positive_rows_can_be_asked_for():
    scores, positive = two_normals()
    choice = choose_threshold(scores, positive, {"recall": 1.0})
    assert choice.reached
    assert choice.fn == 0
    assert choice.value > 0.2


def test_a_confidence_makes_the_floor_hold_for_new_rows():
    held = {0.8: 0, None: 0}
    for seed in range(200):
        scores, positive = two_normals(60, 200, seed=seed)
        for confidence in held:
            goal = {"recall": 0.9, "confidence": confidence}
            threshold = choose_threshold(scores, positive, goal, smooth=False).threshold
            held[confidence] += bool(ndtr(2.0 - threshold) >= 0.9)
    assert held[0.8] >= 0.75 * 200
    assert held[None] <= 0.6 * 200


def test_a_confidence_that_so_few_rows_cannot_give_is_not_reached():
    scores, positive = two_normals(10, 100)
    choice = choose_threshold(scores, positive, {"recall": 0.95, "confidence": 0.9})
    assert not choice.reached
    assert choice.fn == 0
    assert choice.tn > 0


def test_smoothing_does_better_on_new_rows():
    gain = []
    for seed in range(150):
        scores, positive = two_normals(10, 300, seed=seed)
        chosen = [choose_threshold(scores, positive, "gmean", smooth=smooth).threshold for smooth in (True, False)]
        smooth, exact = (math.sqrt(ndtr(2.0 - t) * ndtr(t)) for t in chosen)
        gain.append(smooth - exact)
    assert np.mean(gain) > 2 * np.std(gain) / math.sqrt(len(gain))


def test_the_smooth_threshold_follows_the_scale_of_the_scores():
    scores, positive = two_normals()
    plain, moved = (choose_threshold(s, positive, "mcc").threshold for s in (scores, 1000.0 * scores - 5.0))
    assert moved == pytest.approx(1000.0 * plain - 5.0)


def test_classes_far_apart_are_cut_between_them():
    scores = np.array([-5.1, -5.0, -4.9, 4.9, 5.0, 5.1])
    for smooth in (True, False):
        choice = choose_threshold(scores, scores > 0, smooth=smooth)
        assert choice.value == 1.0
        assert abs(choice.threshold) < 2.0


@pytest.mark.parametrize(
    "scores", [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 2.0, 2.0]]
)
def test_scores_without_spread_are_no_trouble(scores):
    for objective in OBJECTIVES:
        choice = choose_threshold(scores, [False, False, True, True], objective)
        assert math.isfinite(choice.threshold)
        assert math.isfinite(choice.value)


def test_a_function_is_made_largest():
    scores, positive = two_normals()
    choices = [choose_threshold(scores, positive, goal, smooth=False) for goal in (GMean(), lambda *c: GMean()(*c))]
    assert choices[0] == choices[1]


def test_a_higher_price_of_a_miss_lowers_the_threshold():
    scores, positive = two_normals()
    thresholds = [choose_threshold(scores, positive, {"fn": fn, "fp": 1}).threshold for fn in (1, 10, 100)]
    assert thresholds == sorted(thresholds, reverse=True)


def test_a_million_scores_take_less_than_a_second():
    scores, positive = two_normals(10_000, 990_000)
    start = time.perf_counter()
    choice = choose_threshold(scores, positive, "gmean")
    assert time.perf_counter() - start < 1.0  # 0.2 s on an idle machine
    assert choice.threshold == pytest.approx(1.0, abs=0.05)


# --- the curve ---


@given(tables)
def test_the_curve_has_every_call_that_differs_with_its_exact_counts(drawn):
    scores, positive, weight = table(drawn)
    curve = operating_curve(scores, positive, weight)
    assert len(curve) == np.unique(scores[weight > 0]).size + 1
    assert (np.diff(curve.threshold) > 0).all()
    for row in curve.itertuples():
        expected = naive_counts(scores, positive, weight, row.threshold)
        assert_allclose([row.tp, row.fn, row.fp, row.tn], expected, atol=1e-12)


def test_the_columns_are_the_metrics_of_scikit_learn():
    scores, positive = two_normals()
    curve = operating_curve(scores, positive)
    for row in curve.iloc[10:-10:40].itertuples():
        called = scores > row.threshold
        assert row.f1 == pytest.approx(f1_score(positive, called))
        assert row.mcc == pytest.approx(matthews_corrcoef(positive, called))
        assert row.flagged == pytest.approx(called.mean())
        assert row.gmean == pytest.approx(math.sqrt(row.recall * row.specificity))
        assert row.balanced_accuracy == pytest.approx((row.recall + row.specificity) / 2)


def test_the_curve_ends_where_all_and_where_none_is_flagged():
    curve = operating_curve(*two_normals())
    assert (curve.flagged.iloc[0], curve.flagged.iloc[-1]) == (1.0, 0.0)
    assert math.isnan(curve.precision.iloc[-1])
    assert (curve.precision_low.iloc[-1], curve.precision_high.iloc[-1]) == (0.0, 1.0)


def test_wilson_intervals_are_those_of_the_formula():
    curve = operating_curve(*two_normals())
    row, z = curve.iloc[200], 1.959963984540054
    n, p = row.tp + row.fn, row.recall
    root = z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    ends = [(p + z**2 / (2 * n) + sign * root) / (1 + z**2 / n) for sign in (-1, 1)]
    assert_allclose([row.recall_low, row.recall_high], ends)
    for rate in ("recall", "specificity", "precision"):
        inside = curve[curve[rate].notna()]
        assert ((inside[f"{rate}_low"] <= inside[rate]) & (inside[rate] <= inside[f"{rate}_high"])).all()


def test_neighbouring_floats_are_told_apart():
    low = 1.0
    high = np.nextafter(low, 2.0)
    curve = operating_curve([low, high], [0, 1])
    assert_array_equal(curve.tp, [1, 1, 0])
    assert_array_equal(curve.fp, [1, 0, 0])


def test_an_objective_adds_its_columns():
    scores, positive = two_normals()
    cost = operating_curve(scores, positive, objective={"fn": 10, "fp": 1})
    assert_allclose(cost.cost, 10 * cost.fn + cost.fp)
    assert_allclose(cost.cost_per_row, cost.cost / scores.size)
    floor = operating_curve(scores, positive, objective={"recall": 0.9})
    assert_array_equal(floor.reached, floor.recall >= 0.9)
    assert "cost" not in operating_curve(scores, positive)


def test_a_long_curve_is_thinned_and_keeps_both_ends_fine():
    scores, positive = two_normals(2_000, 200_000)
    curve = operating_curve(scores, positive, max_points=500)
    assert 250 <= len(curve) <= 500
    assert (curve.flagged.iloc[0], curve.flagged.iloc[-1]) == (1.0, 0.0)
    assert np.abs(np.diff(curve.recall)).max() < 0.03
    assert ((curve.fp > 0) & (curve.fp < 20)).sum() > 10
    with pytest.raises(ValueError, match="max_points=1 must be a number of at least 10"):
        operating_curve(scores, positive, max_points=1)


# --- probabilities ---


def test_probabilities_keep_the_order_of_the_scores():
    scores, positive = two_normals(10, 500)
    calibrator = Calibrator().fit(scores, positive)
    probability = calibrator.probability(np.linspace(-50, 50, 20_001))
    assert (np.diff(probability) > 0).all()
    assert probability[0] > 0
    assert probability[-1] < 1


def test_scores_that_rank_the_wrong_way_round_still_keep_their_order():
    scores, positive = two_normals()
    probability = Calibrator().fit(-scores, positive).probability(np.sort(scores))
    assert (np.diff(probability) > 0).all()


def test_score_at_is_the_inverse():
    scores, positive = two_normals()
    calibrator = Calibrator().fit(scores, positive)
    wide = np.linspace(-12, 12, 501)
    assert_allclose(calibrator.score_at(calibrator.probability(wide)), wide, atol=1e-6)
    with pytest.raises(ValueError, match="between 0 and 1"):
        calibrator.score_at([0.5, 1.0])


def test_the_mean_probability_is_the_share_of_positive_rows():
    scores, positive = two_normals(10, 1000)
    assert Calibrator().fit(scores, positive).probability(scores).mean() == pytest.approx(10 / 1010, rel=0.02)


def test_a_weight_is_a_repetition_for_probabilities_too():
    scores, positive = two_normals(20, 200)
    often = np.random.default_rng(0).integers(0, 4, scores.size)
    weighted = Calibrator().fit(scores, positive, often)
    repeated = Calibrator().fit(np.repeat(scores, often), np.repeat(positive, often))
    assert_allclose(weighted.probability(scores), repeated.probability(scores), rtol=1e-4)


def test_a_logistic_truth_is_found_and_so_is_one_that_is_not_logistic():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=200_000)
    grid = np.linspace(-2.5, 2.5, 41)
    for odds in (lambda s: 2.0 * s - 3.0, lambda s: np.where(s > 0, 4.0 * s, 0.5 * s) - 3.0):
        positive = rng.random(scores.size) < 1 / (1 + np.exp(-odds(scores)))
        probability = Calibrator().fit(scores, positive).probability(grid)
        assert_allclose(probability, 1 / (1 + np.exp(-odds(grid))), atol=0.06)


def test_with_few_rows_it_is_no_worse_than_a_logistic_curve():
    ours, logistic = [], []
    for seed in range(40):
        scores, positive = two_normals(10, 300, seed=seed)
        new, truth = two_normals(300, 9000, seed=1000 + seed)
        for errors, probability in (
            (ours, Calibrator().fit(scores, positive).probability(new)),
            (logistic, LogisticRegression(C=1e6).fit(scores[:, None], positive).predict_proba(new[:, None])[:, 1]),
        ):
            errors.append(np.mean((probability - truth) ** 2))
    assert np.mean(ours) <= 1.005 * np.mean(logistic)


@pytest.mark.parametrize("scores", [[0.0] * 6, [0.0, 0, 0, 1, 1, 1], [-1e9, 0, 0, 0, 0, 1e9]])
def test_scores_of_any_shape_give_probabilities(scores):
    calibrator = Calibrator().fit(scores, [False, False, False, True, True, True])
    probability = calibrator.probability(np.array([-1.0, 0.0, 1.0]))
    assert ((probability > 0) & (probability < 1)).all()
    assert (np.diff(probability) >= 0).all()


def test_a_million_scores_are_calibrated_in_a_second():
    scores, positive = two_normals(10_000, 990_000)
    start = time.perf_counter()
    Calibrator().fit(scores, positive).probability(scores)
    assert time.perf_counter() - start < 1.0  # 0.2 s on an idle machine


def test_a_calibrator_is_a_handful_of_numbers():
    calibrator = Calibrator().fit(*two_normals(1000, 100_000))
    assert len(pickle.dumps(calibrator)) < 1000


# --- intervals ---


def test_rates_have_the_wilson_interval_of_the_curve():
    scores, positive = two_normals()
    row = operating_curve(scores, positive).iloc[150]
    for rate in ("recall", "specificity", "precision"):
        interval = metric_interval(scores, positive, row.threshold, rate)
        assert_allclose(interval, [row[rate], row[f"{rate}_low"], row[f"{rate}_high"]])


@pytest.mark.parametrize("positives", [10, 30, 100])
@pytest.mark.parametrize(("metric", "least"), [("recall", 0.91), ("gmean", 0.91), ("roc_auc", 0.91)])
def test_the_interval_holds_the_truth_as_often_as_it_says(positives, metric, least):
    truth = {"recall": ndtr(1.0), "gmean": ndtr(1.0), "roc_auc": ndtr(2.0 / math.sqrt(2.0))}[metric]
    held, runs = 0, 200
    for seed in range(runs):
        scores, positive = two_normals(positives, 300, seed=seed)
        interval = metric_interval(scores, positive, 1.0, metric)
        held += interval.low <= truth <= interval.high
    assert held >= least * runs


def test_no_miss_among_few_rows_is_no_certainty():
    scores, positive = np.append(np.zeros(50), np.ones(5)), np.append(np.zeros(50), np.ones(5))
    for metric in ("recall", "gmean", "balanced_accuracy", "roc_auc"):
        interval = metric_interval(scores, positive, 0.5, metric)
        assert interval.value == interval.high == 1.0
        assert interval.low < 0.9


def test_the_area_is_that_of_scikit_learn():
    scores, positive = two_normals()
    scores, weight = scores.round(1), np.random.default_rng(0).integers(0, 3, scores.size)
    area = metric_interval(scores, positive, metric="roc_auc", sample_weight=weight).value
    assert area == pytest.approx(roc_auc_score(positive, scores, sample_weight=weight))


@pytest.mark.parametrize("metric", ["recall", "precision", "gmean", "roc_auc", {"fn": 5, "fp": 1}])
def test_a_weight_is_a_repetition_for_intervals_too(metric):
    scores, positive = two_normals(20, 200)
    often = np.random.default_rng(0).integers(0, 4, scores.size)
    weighted = metric_interval(scores, positive, 1.0, metric, often)
    assert_allclose(weighted, metric_interval(np.repeat(scores, often), np.repeat(positive, often), 1.0, metric))


def test_rounds_of_cross_validation_are_averaged_and_not_taken_for_more_rows():
    scores, positive = two_normals()
    for metric in ("recall", "gmean", "roc_auc"):
        once = metric_interval(scores, positive, 1.0, metric)
        assert_allclose(metric_interval([scores] * 5, positive, 1.0, metric), once)
    noise = np.random.default_rng(0).normal(0, 0.3, (5, scores.size))
    several = metric_interval(scores + noise, positive, 1.0, "recall").value
    each = [metric_interval(scores + part, positive, 1.0, "recall").value for part in noise]
    assert several == pytest.approx(np.mean(each))


def test_a_bad_level_threshold_or_shape_gets_one_sentence():
    scores, positive = two_normals()
    with pytest.raises(ValueError, match="level=95 must lie between 0 and 1"):
        metric_interval(scores, positive, level=95)
    with pytest.raises(ValueError, match="threshold=nan must be a finite number"):
        metric_interval(scores, positive, math.nan)
    with pytest.raises(ValueError, match="one for each row, or one for each round and row"):
        metric_interval(np.zeros((2, 2, 2)), positive)
