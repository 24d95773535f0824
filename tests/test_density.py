"""Density weights: the sums against a double loop, what weights and labels mean, and the weights in use."""

from __future__ import annotations

import math
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from conftest import imbalanced
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, csr_matrix
from scipy.sparse import random as random_csr
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenmargin._util import threads
from evenmargin.density import SCHEMES, DensityWeights, exact

X, Y = imbalanced(n=90, d=5, ratio=0.8, seed=3)
THREE = np.array(["one", "two", "three"])[np.digitize(X[:, 0], np.quantile(X[:, 0], [0.3, 0.6]))]
EXACT = SCHEMES[:7]
DIGITS = {np.float64: 1e-12, np.float32: 3e-5}


def naive(scheme, X, y, gamma, weight=None):
    """The formulas, one pair of rows at a time."""
    weight = np.ones(len(X)) if weight is None else weight
    found = []
    for a, label in zip(X, y, strict=True):
        total = 0.0
        for b, other, times in zip(X, y, weight, strict=True):
            near = times * math.exp(-gamma * sum((p - q) ** 2 for p, q in zip(a, b, strict=True)))
            total += near if scheme != "same_class" or label == other else -near
        found.append(total)
    s = np.maximum(found, 0.0)
    kind = scheme.removeprefix("inverse").removeprefix("_")
    power = {"sqrt": np.sqrt(s), "square": s * s}.get(kind, s)
    return 1 / power if scheme.startswith("inverse") else power


def many(n, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


# --- the sums ---


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scheme", EXACT)
def test_weights_equal_the_double_loop(scheme, dtype):
    rows = X.astype(dtype)
    for labels in (Y, THREE):
        found = DensityWeights(scheme, gamma=0.3).fit(rows, labels)
        expected = naive(scheme, rows.astype(float).tolist(), labels, 0.3)
        assert_allclose(found.weights_, expected, rtol=DIGITS[dtype], atol=DIGITS[dtype])
        assert found.weights_.dtype == np.float64
        number = 1 + SCHEMES.index(scheme)
        assert_array_equal(DensityWeights(number, gamma=0.3).fit_weights(rows, labels), found.weights_)


@pytest.mark.parametrize("n", [1, 2, 511, 512, 513, 1025, 2600])
def test_every_pair_of_blocks_is_taken_once(n, monkeypatch):
    rows, weight = many(n), np.random.default_rng(1).uniform(0.5, 2, n)
    expected = rbf_kernel(rows, gamma=0.5) @ weight
    for blocks in (1, 2, 3, 32):
        monkeypatch.setattr(exact, "_BLOCKS", blocks)
        found = DensityWeights("density", gamma=0.5).fit(rows, sample_weight=weight)
        assert_allclose(found.density_, expected, rtol=1e-12)


def test_several_classes_in_blocks():
    rows = many(1500)
    labels = np.digitize(rows[:, 0], [-1, 0, 1])
    same = labels[:, None] == labels
    expected = (rbf_kernel(rows, gamma=0.5) * np.where(same, 1, -1)).sum(axis=1)
    assert_allclose(DensityWeights(7, gamma=0.5).fit(rows, labels).density_, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [csr_array, csr_matrix])
def test_sparse_rows_are_the_same_rows(kind, dtype):
    full = np.where(X > 0.3, X, 0).astype(dtype)
    wide = random_csr(70, 400, 0.01, "csr", dtype, rng=0)
    for options in ({"scheme": "density"}, {"scheme": 7}, {"scheme": 1, "method": "fourier", "random_state": 0}):
        for rows, labels in ((full, Y), (wide.toarray(), Y[:70])):
            weights = DensityWeights(**options)
            assert_allclose(
                weights.fit_weights(kind(rows), labels), clone(weights).fit_weights(rows, labels), rtol=3e-4, atol=3e-4
            )  # fmt: skip
    weights = DensityWeights("density")
    assert_allclose(weights.fit_weights(kind(full)), weights.fit_weights(full), rtol=DIGITS[dtype])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 1, 2, 3]), min_size=12, max_size=12), st.sampled_from(EXACT), st.booleans())
def test_a_weight_is_so_many_rows(times, scheme, normalize):
    times = np.array([1, 1, *times])
    rows, labels, weight = X[:14], Y[:14] * np.r_[1, -1, np.ones(12)], times.astype(float)
    options = {"gamma": "scale", "normalize": "mean" if normalize else None}
    try:
        repeated = DensityWeights(scheme, **options).fit(np.repeat(rows, times, 0), np.repeat(labels, times))
    except (ValueError, UserWarning):
        return  # a class without weight, tested below
    weighted = DensityWeights(scheme, **options).fit(rows, labels, weight)
    assert weighted.gamma_ == pytest.approx(repeated.gamma_)
    assert_allclose(np.repeat(weighted.weights_, times), repeated.weights_, rtol=1e-9, atol=1e-12)


def test_a_row_of_weight_0_has_the_weight_it_would_have_if_it_were_there():
    for scheme in EXACT:
        weight = np.ones(90)
        there = DensityWeights(scheme, gamma=0.3).fit_weights(X, THREE, weight)
        weight[7] = 0
        assert DensityWeights(scheme, gamma=0.3).fit_weights(X, THREE, weight)[7] == pytest.approx(there[7])


@pytest.mark.parametrize("method", ["exact", "fourier"])
def test_labels_are_only_compared(method):
    weights = DensityWeights("same_class", gamma=0.3, method=method, random_state=0)
    expected = weights.fit_weights(X, Y)
    for labels in (-Y, Y > 0, np.where(Y > 0, "a", "b"), np.where(Y > 0, 7, 9)):
        assert_array_equal(weights.fit_weights(X, labels), expected)


@pytest.mark.parametrize("scheme", EXACT)
@pytest.mark.parametrize("method", ["exact", "fourier"])
def test_the_order_of_rows_and_columns_does_not_matter(scheme, method):
    weights = DensityWeights(scheme, method=method, random_state=0)
    order = np.random.default_rng(4).permutation(90)
    expected = weights.fit_weights(X, Y)
    assert_allclose(weights.fit_weights(X[order], Y[order]), expected[order], rtol=1e-10, atol=1e-10)
    if method == "exact":
        assert_allclose(weights.fit_weights(X[:, ::-1], Y), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("method", ["exact", "fourier"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.filterwarnings("ignore:scheme='same_class'")
def test_threads_do_not_change_a_bit(method, dtype, monkeypatch):
    rows = many(3000 if dtype == np.float64 else 1100).astype(dtype)
    labels = np.digitize(rows[:, 0], [-1, 1])
    weights = DensityWeights(7, method=method, n_components=50, random_state=0)
    found = []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "available_cores", lambda count=count: count)
        found.append(weights.fit(rows, labels).density_)
    assert_array_equal(found[0], found[1])
    assert_array_equal(found[0], found[2])


def test_memory_is_that_of_some_tiles():
    rows = many(6000, 150)
    weights = DensityWeights("density")
    weights.fit(rows[:10])
    tracemalloc.start()
    try:
        weights.fit(rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    tile = 512 * 512 * 8
    assert peak < 4 * threads.available_cores() * tile + 12_000_000 < 6000 * 6000 * 8 / 8


# --- digits ---


@pytest.mark.parametrize("gamma", [1e-9, 1e-3, 1.0, 1e3])
def test_float32_rows_far_from_zero_or_far_apart(gamma):
    rows = (X * np.array([1, 1, 1, 30, 100]) + 1000).astype(np.float32)
    rows[1] = rows[0]
    expected = naive("density", rows.astype(float).tolist(), Y, gamma)
    assert_allclose(DensityWeights("density", gamma=gamma).fit_weights(rows), expected, rtol=3e-4)
    assert_allclose(DensityWeights("density", gamma=gamma).fit_weights(csr_array(rows)), expected, rtol=3e-4)


def test_a_gamma_beyond_all_digits_is_refused():
    for gamma in (1e14, 1e300):
        with pytest.raises(ValueError, match="so large for these rows that no digits of their distances are left"):
            DensityWeights(gamma=gamma).fit(X)


def test_all_rows_in_one_place_or_all_alone():
    for dtype, n in ((np.float64, 2000), (np.float32, 300)):
        one_place, alone = np.ones((n, 2), dtype), 100 * np.arange(n, dtype=dtype)[:, None]
        for method in ("exact", "fourier"):
            found = DensityWeights("square", gamma=1.0, method=method, random_state=0).fit(one_place)
            assert_allclose(found.weights_, float(n) ** 2, rtol=1e-5)
        assert_allclose(DensityWeights("inverse_square", gamma=1.0).fit_weights(alone), 1.0)
        assert_allclose(DensityWeights("square", gamma=1.0).fit_weights(alone), 1.0)


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1e30])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sample_weights_of_any_size(size, dtype):
    weight = np.random.default_rng(5).uniform(0.5, 2, 90)
    rows = X.astype(dtype)
    for scheme, power in (("square", 2), ("inverse_square", -2), ("same_class", 1)):
        weights = DensityWeights(scheme, gamma=0.3)
        expected = size**power * weights.fit_weights(rows, Y, weight)
        assert_allclose(weights.fit_weights(rows, Y, weight * size), expected, rtol=1e-5)


def test_sample_weights_of_very_different_size_stay_finite():
    weight = np.where(np.arange(90) < 2, 1e-60, 1.0)
    rows = X.astype(np.float32)
    rows[0] += 1000
    found = DensityWeights("inverse_square", gamma=0.3).fit(rows, sample_weight=weight)
    assert np.isfinite(found.weights_).all()
    assert found.density_[0] == pytest.approx(1e-60)


# --- normalising, chance, Fourier sums ---


@pytest.mark.parametrize("scheme", SCHEMES)
def test_mean_1(scheme):
    weight = np.arange(90) % 3 * 1.0
    weights = DensityWeights(scheme, gamma=0.3, random_state=0)
    plain = weights.fit_weights(X, Y, weight)
    even = weights.set_params(normalize="mean").fit_weights(X, Y, weight)
    assert np.average(even, weights=weight) == pytest.approx(1)
    assert_allclose(even / even.max(), plain / plain.max())
    assert DensityWeights(scheme, gamma=0.3, normalize="mean").fit_weights(X, Y).mean() == pytest.approx(1)


def test_the_random_control():
    one, same, other = (DensityWeights("random", random_state=seed).fit_weights(X) for seed in (0, 0, 1))
    assert_array_equal(one, same)
    assert (one != other).all()
    assert one.min() >= 1
    assert one.max() < 2
    assert_array_equal(DensityWeights(8, random_state=0).fit_weights(3 * X), one)
    assert np.ptp(DensityWeights(8).fit_weights(np.zeros((4000, 1)))) > 0.99
    assert not hasattr(DensityWeights("sqrt").fit(X).set_params(scheme="random").fit(X), "density_")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("gamma", [0.01, 0.3, 2.0])
@pytest.mark.filterwarnings("ignore:scheme='same_class'")
def test_fourier_sums_are_as_good_as_they_say(gamma, dtype):
    rows, weight, D = many(700).astype(dtype), np.random.default_rng(6).uniform(0, 2, 700), 400
    K = rbf_kernel(rows.astype(float), gamma=gamma)
    exact = K @ weight
    labels = np.digitize(rows[:, 0], [-1, 1])
    signed = (K * np.where(labels[:, None] == labels, 1, -1)) @ weight
    fourier = DensityWeights("density", gamma=gamma, method="fourier", n_components=D)
    runs = [clone(fourier).set_params(random_state=seed) for seed in range(12)]
    off = np.array([run.fit(rows, sample_weight=weight).density_ - exact for run in runs])
    assert_allclose(off.std(), np.mean([run.density_error_ for run in runs]), rtol=0.3)
    total, mean = weight.sum(), np.average(exact, weights=weight)
    assert off.std() < total * math.sqrt(1 / (2 * D))
    assert off.std() < math.sqrt(mean * total / D)
    if gamma == 2.0:
        assert_allclose(off.std(), math.sqrt(mean * total / (2 * D)), rtol=0.2)
    assert abs(off.mean()) < off.std()
    apart = [run.set_params(scheme=7).fit(rows, labels, weight).density_ - signed for run in runs]
    assert_allclose(np.std(apart), np.mean([run.density_error_ for run in runs]), rtol=0.3)


def test_fourier_sums_are_at_least_the_row_itself():
    alone = 100.0 * np.arange(300)[:, None]
    weight = np.arange(300) % 3 * 1.0
    found = DensityWeights("density", gamma=1.0, method="fourier", n_components=20, random_state=0)
    assert found.fit(alone).density_.min() == 1
    assert (found.fit(alone, sample_weight=weight).density_ >= np.where(weight > 0, weight, 1)).all()
    assert not hasattr(found.set_params(method="exact").fit(alone), "density_error_")


def test_more_frequencies_more_digits():
    exact = DensityWeights("density").fit_weights(X)
    few, more = (
        DensityWeights("density", method="fourier", n_components=D, random_state=1).fit(X) for D in (20, 20_000)
    )
    assert abs(more.weights_ - exact).max() < 0.02 * 90
    assert more.density_error_.mean() < 0.1 * few.density_error_.mean()
    again = DensityWeights("density", method="fourier", n_components=20, random_state=1)
    assert_array_equal(again.fit_weights(X), few.weights_)


# --- in use ---


@pytest.mark.parametrize("scheme", SCHEMES)
def test_weights_are_prices_of_an_svc(scheme):
    weights = DensityWeights(scheme, gamma=0.3, normalize="mean", random_state=0).fit_weights(X, Y)
    keep = weights > 0
    svc = SVC(C=2.0, kernel="linear", tol=1e-8).fit(X[keep], Y[keep], sample_weight=weights[keep])
    alpha = np.abs(svc.dual_coef_[0])
    price = 2.0 * weights[keep][svc.support_]
    assert (alpha <= price * (1 + 1e-9)).all()
    assert np.isclose(alpha, price, rtol=1e-9).any()
    assert_allclose(SVC(C=2.0, kernel="linear", tol=1e-8).fit(X, Y, weights).decision_function(X[keep]),
                    svc.decision_function(X[keep]), atol=1e-5)  # fmt: skip


def test_weights_for_regression():
    rows = many(50)
    target = rows @ np.arange(4.0)
    weights = DensityWeights("inverse").fit_weights(rows, target)
    assert_allclose(Ridge(1e-9).fit(rows, target, weights).coef_, np.arange(4.0), atol=1e-6)


def test_at_home_in_scikit_learn():
    table = pd.DataFrame(X, columns=list("abcde"))
    weights = DensityWeights().fit(table)
    assert_array_equal(weights.feature_names_in_, list("abcde"))
    assert weights.n_features_in_ == 5
    assert weights.gamma_ == pytest.approx(1 / (5 * X.var()))
    assert DensityWeights(gamma="auto").fit(X).gamma_ == 0.2
    assert_array_equal(pickle.loads(pickle.dumps(weights)).weights_, weights.weights_)
    assert repr(clone(DensityWeights(3, gamma=2.0))) == "DensityWeights(gamma=2.0, scheme=3)"
    before = X.copy()
    assert_array_equal(DensityWeights().fit(X).weights_, weights.weights_)
    assert_array_equal(X, before)


@parametrize_with_checks([DensityWeights(), DensityWeights(method="fourier", n_components=20, random_state=0)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


# --- bad input ---


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scheme": "cube"}, "'scheme' parameter"),
        ({"scheme": 0}, "'scheme' parameter"),
        ({"scheme": 9}, "'scheme' parameter"),
        ({"scheme": 2.0}, "'scheme' parameter"),
        ({"gamma": 0.0}, "'gamma' parameter"),
        ({"gamma": "wide"}, "'gamma' parameter"),
        ({"gamma": math.inf}, "gamma"),
        ({"gamma": math.nan}, "gamma"),
        ({"normalize": "sum"}, "'normalize' parameter"),
        ({"method": "nystroem"}, "'method' parameter"),
        ({"method": "fourier", "n_components": 0}, "'n_components' parameter"),
        ({"random_state": "x"}, "'random_state' parameter"),
    ],
)
def test_options_that_are_none(options, said):
    with pytest.raises(ValueError, match=said):
        DensityWeights(**options).fit(X)


@pytest.mark.parametrize(
    ("rows", "labels", "weight", "said"),
    [
        (np.where(X > 1, np.nan, X), Y, None, "contains NaN"),
        (np.where(X > 1, np.inf, X), Y, None, "infinity"),
        (csr_array(np.where(X > 1, np.nan, X)), Y, None, "contains NaN"),
        (X[0], Y, None, "Expected 2D array"),
        (X[:0], Y[:0], None, "0 sample"),
        (X * 1e150, Y, None, "too large to square"),
        (X, None, None, "needs the classes of the rows"),
        (X, Y[:-1], None, "inconsistent numbers of samples"),
        (X, X[:, 0], None, "Unknown label type"),
        (X, Y, np.ones(89), "sample_weight"),
        (X, Y, -np.ones(90), "[Nn]egative"),
        (X, Y, np.full(90, np.nan), "NaN"),
        (X, Y, np.full(90, 1e308), "infinity"),
        (X, Y, np.zeros(90), "weights are zero|at least one non-zero"),
    ],
)
def test_rows_labels_and_weights_that_are_none(rows, labels, weight, said):
    with pytest.raises(ValueError, match=said):
        DensityWeights("same_class").fit(rows, labels, weight)


@pytest.mark.parametrize(("scheme", "size"), [("square", 1e200), ("inverse_square", 1e200), ("inverse_square", 1e-200)])
def test_weights_beyond_all_numbers_are_refused(scheme, size):
    with pytest.raises(ValueError, match=r"too large or too small to represent.*divide it by its mean"):
        DensityWeights(scheme, normalize="mean").fit(X, sample_weight=np.full(90, size))


def test_classes_that_lose_all_their_weight():
    with pytest.warns(UserWarning, match="every row of class 1 other classes are denser .* choose a larger gamma"):
        found = DensityWeights("same_class", gamma=1e-6).fit(X, Y)
    assert (found.weights_[Y > 0] == 0).all()
    assert (found.weights_[Y < 0] > 0).all()
    with pytest.raises(ValueError, match="all weights are 0; choose a larger gamma"):
        DensityWeights("same_class", gamma=1e-6).fit(X, np.arange(90) % 3)


def test_one_class_alone_has_its_density():
    assert_array_equal(
        DensityWeights("same_class").fit_weights(X, np.ones(90)), DensityWeights("density").fit_weights(X)
    )
