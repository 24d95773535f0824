"""Costs, sampling and stopping, each alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score
from sklearn.utils.class_weight import compute_sample_weight

from evenmargin.sampling import ClassBalanced, Given, Uniform
from evenmargin.stopping import AUCHalting, improvement_waits, roc_auc, waiting_time
from evenmargin.weights import minority_is_positive, row_costs

Y = np.array(["no", "no", "yes", "no", "no", "yes", "no", "no"])
POSITIVE = Y == "yes"


# --- costs ---


def test_balanced_is_scikit_learns_on_unit_weights():
    assert_allclose(row_costs("balanced", Y, POSITIVE, np.ones(8)), compute_sample_weight("balanced", Y))


def test_inverse_gives_each_class_a_total_of_one():
    costs = row_costs("inverse", Y, POSITIVE, np.ones(8))
    assert_allclose(costs, np.where(POSITIVE, 1 / 2, 1 / 6))


@pytest.mark.parametrize("rule", ["balanced", "inverse"])
def test_totals_count_sample_weights_as_repetition(rule):
    weight = np.array([1, 2, 3, 1, 1, 1, 2, 1])
    costs = row_costs(rule, Y, POSITIVE, weight.astype(float))
    repeated = np.repeat(np.arange(8), weight)
    per_copy = row_costs(rule, Y[repeated], POSITIVE[repeated], np.ones(weight.sum()))
    assert_allclose(costs, np.bincount(repeated, per_copy))


def test_a_dict_speaks_of_the_users_labels():
    costs = row_costs({"yes": 5.0}, Y, POSITIVE, np.full(8, 2.0))
    assert_allclose(costs, np.where(POSITIVE, 10.0, 2.0))


def test_a_callable_gets_the_totals():
    costs = row_costs(lambda totals: 1 / totals**2, Y, POSITIVE, np.ones(8))
    assert_allclose(costs, np.where(POSITIVE, 1 / 4, 1 / 36))


def test_no_class_weight_leaves_the_sample_weights_as_they_are():
    weight = np.arange(1.0, 9.0)
    assert row_costs(None, Y, POSITIVE, weight) is weight


def test_the_minority_is_found_by_weight_and_a_tie_goes_to_the_positive_class():
    assert minority_is_positive(POSITIVE, np.ones(8))
    assert not minority_is_positive(POSITIVE, np.where(POSITIVE, 10.0, 1.0))
    assert minority_is_positive(np.array([True, False]), np.ones(2))


# --- sampling ---


@pytest.mark.parametrize("sampler", [Uniform(), ClassBalanced(), Given([3, 1, 4, 1, 5, 0, 2])])
def test_the_stream_does_not_depend_on_how_it_is_cut(sampler):
    y = np.where(np.arange(7) < 2, 1.0, -1.0)
    whole = sampler.stream(y, np.random.default_rng(3))(50)
    take = sampler.stream(y, np.random.default_rng(3))
    assert_array_equal(np.concatenate([take(k) for k in (1, 7, 0, 30, 12)]), whole)


@pytest.mark.parametrize("sampler", [Uniform(), ClassBalanced()])
def test_rows_are_drawn_as_often_as_the_sampler_says(sampler):
    y = np.where(np.arange(20) < 3, 1.0, -1.0)
    frequency = sampler.frequency(y)
    assert frequency.sum() == pytest.approx(1.0)
    draws = 200_000
    counts = np.bincount(sampler.stream(y, np.random.default_rng(0))(draws), minlength=20)
    spread = np.sqrt(draws * frequency * (1 - frequency))
    assert np.all(np.abs(counts - draws * frequency) < 5 * spread)


def test_balanced_sampling_draws_both_classes_equally_often():
    y = np.where(np.arange(1000) < 10, 1.0, -1.0)
    drawn = ClassBalanced().stream(y, np.random.default_rng(0))(100_000)
    assert abs((y[drawn] > 0).mean() - 0.5) < 0.01


# --- stopping ---


@settings(max_examples=60)
@given(st.data(), st.integers(3, 40))
def test_roc_auc_is_scikit_learns(data, n):
    scores = data.draw(arrays(np.float64, n, elements=st.integers(-3, 3).map(float)))
    y = data.draw(arrays(np.int64, n, elements=st.sampled_from([-1, 1])))
    y[:2] = -1, 1
    weight = data.draw(arrays(np.float64, n, elements=st.floats(0.1, 5)))
    assert roc_auc(y, scores) == pytest.approx(roc_auc_score(y, scores))
    assert roc_auc(y, scores, weight) == pytest.approx(roc_auc_score(y, scores, sample_weight=weight))


def test_waits_are_steps_between_improvements():
    assert_array_equal(improvement_waits([0.4, 0.6, 0.6, 0.7, 0.65, 0.9]), [2, 2, 2])
    assert improvement_waits([0.4, 0.3]).size == 0


def test_waiting_time_follows_the_corrected_formulas():
    waits = np.array([2.0, 5, 3, 8, 2])
    m, p = 5, 5 / 20
    estimate = waiting_time(waits)
    half = 1.959964 * np.sqrt((1 - p) / p**2 / (m - 1))
    assert_allclose(estimate, [4.0, 4 - half, 4 + half, p - p * (1 - p) / m], rtol=1e-6)
    assert estimate.chance > 0
    assert_array_equal(estimate.integers(), np.arange(1, 8))


def test_the_interval_covers_the_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        estimate = waiting_time(rng.geometric(0.2, size=30))
        covered += estimate.low <= 5.0 <= estimate.high
    assert 0.90 <= covered / 2000 <= 0.97


def test_the_bias_correction_reduces_the_bias():
    rng = np.random.default_rng(1)
    samples = rng.geometric(0.3, size=(20_000, 10))
    plain = 10 / samples.sum(axis=1)
    corrected = plain - plain * (1 - plain) / 10
    assert abs(corrected.mean() - 0.3) < 0.25 * abs(plain.mean() - 0.3)
    assert_allclose([waiting_time(sample).chance for sample in samples[:20]], corrected[:20])


@pytest.mark.parametrize("waits", [[3], [], [0, 2], [[1, 2], [3, 4]]])
def test_waiting_time_says_what_it_needs(waits):
    with pytest.raises(ValueError, match="at least two waits"):
        waiting_time(waits)


class _Rows:
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([-1.0, 1.0, -1.0, 1.0])
    price = np.ones(4)

    @staticmethod
    def scores_of(X, coef):
        return X @ coef


def _play(rule, coefficients):
    """Feed a rule with one-column models; return at which check it halts."""
    run = rule.start(_Rows)
    for check, w in enumerate(coefficients, start=1):
        if run.check(check * rule.every, np.array([w]), 0.0):
            return check, run
    return None, run


def test_the_papers_rule_halts_at_the_first_check_without_improvement():
    assert _play(AUCHalting(every=3), [1.0, 1.0, 1.0])[0] == 2
    assert _play(AUCHalting(every=3), [-1.0])[0] == 1


def test_a_patient_rule_waits_and_keeps_the_best_state():
    halted, run = _play(AUCHalting(every=1, patience=3, keep_best=True), [0.0, 1.0, -1.0, -1.0, 0.0, 1.0])
    assert halted == 5
    assert run.best[0][0] == 1.0
    assert run.top == 0.75


def test_recording_never_halts():
    assert _play(AUCHalting(every=1, halt=False), [-1.0] * 20)[0] is None
