"""Properties that must hold on any data, by hypothesis."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import imbalanced
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from evenmargin import LinearSVM

MACHINES = st.sampled_from(
    [
        {"loss": "hinge"},
        {"loss": "hinge", "class_weight": "balanced"},
        {"loss": "squared_hinge", "class_weight": "balanced"},
        {"loss": "log", "class_weight": "inverse", "C": 50.0},
        {"loss": "hinge", "intercept": "augmented", "class_weight": "balanced"},
        {"loss": "log", "intercept": 0.5},
    ]
)
SMALL = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def tables(draw):
    """Rows with ties and duplicates, two classes, whole-number weights of which some are 0."""
    n, d = draw(st.integers(6, 30)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = np.round(rng.normal(size=(n, d)), draw(st.integers(0, 3)))
    y = np.where(rng.random(n) < 0.3, 1, -1)
    y[:4] = 1, -1, 1, -1
    X[4:6] = X[:2]
    weight = rng.integers(0, 4, size=n).astype(float)
    weight[:2] = 1, 2
    return X, y, weight


def _scores(machine, X, y, weight=None, at=None):
    return (
        LinearSVM(**{"C": 0.5, "random_state": 0, **machine})
        .fit(X, y, weight)
        .decision_function(X if at is None else at)
    )


@SMALL
@given(tables(), MACHINES)
def test_a_weight_is_a_repetition_and_zero_is_absence(table, machine):
    X, y, weight = table
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))
    assert_allclose(
        _scores(machine, X, y, weight), _scores(machine, X[repeated], y[repeated], at=X), rtol=1e-6, atol=1e-7
    )


@SMALL
@given(tables(), MACHINES)
def test_swapping_the_labels_swaps_the_scores(table, machine):
    X, y, weight = table
    mirrored = {**machine, "intercept": -0.5} if machine.get("intercept") == 0.5 else machine
    positive, negative = weight[y > 0].sum(), weight[y < 0].sum()
    first, second = _scores(machine, X, y, weight), _scores(mirrored, X, -y, weight)
    if positive != negative:  # the minority is the same rows: the same problem to the last bit
        assert_array_equal(first, -second)
    else:
        assert_allclose(first, -second, rtol=1e-6, atol=1e-7)


@SMALL
@given(tables(), MACHINES, st.integers(0, 1000))
def test_the_order_of_the_rows_does_not_matter(table, machine, seed):
    X, y, weight = table
    order = np.random.default_rng(seed).permutation(len(y))
    assert_allclose(
        _scores(machine, X, y, weight), _scores(machine, X[order], y[order], weight[order], at=X), rtol=1e-6, atol=1e-7
    )


@SMALL
@given(tables(), MACHINES)
def test_sparse_rows_are_dense_rows(table, machine):
    X, y, weight = table
    assert_allclose(_scores(machine, X, y, weight), _scores(machine, csr_array(X), y, weight), rtol=1e-6, atol=1e-7)


@SMALL
@given(tables(), st.sampled_from(["hinge", "squared_hinge", "log"]), st.floats(0.1, 10))
def test_the_weights_times_a_factor_are_c_times_that_factor(table, loss, factor):
    X, y, weight = table
    first = _scores({"loss": loss, "C": 0.3 * factor}, X, y, weight)
    assert_allclose(first, _scores({"loss": loss, "C": 0.3}, X, y, factor * weight), rtol=1e-6, atol=1e-7)


@SMALL
@given(tables(), MACHINES)
def test_float32_is_close_to_float64(table, machine):
    X, y, weight = table
    narrow = _scores(machine, X.astype(np.float32), y, weight, at=X.astype(np.float32))
    assert narrow.dtype == np.float32
    wide = _scores(machine, X.astype(np.float32).astype(np.float64), y, weight)
    assert_allclose(narrow, wide, rtol=1e-4, atol=1e-4 * (1 + np.abs(wide).max()))


@pytest.mark.parametrize("solver", ["newton", "dual_cd"])
def test_alpha_means_one_over_c_times_the_weight_of_all_rows(solver):
    X, y = imbalanced(n=60, d=3)
    weight = np.random.default_rng(0).uniform(0.5, 2, size=60)
    by_alpha = LinearSVM(alpha=0.02, solver=solver, tol=1e-10).fit(X, y, weight)
    by_c = LinearSVM(C=1 / (0.02 * weight.sum()), solver=solver, tol=1e-10).fit(X, y, weight)
    assert np.abs(by_c.coef_).max() > 0.1
    assert_allclose(by_alpha.coef_, by_c.coef_, rtol=1e-6)
