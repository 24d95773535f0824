"""Kernels and their tiles against scikit-learn's pairwise functions."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, random_array
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel, sigmoid_kernel
from sklearn.svm import SVC

from evenmargin import KernelSVM, _core
from evenmargin._util.threads import Workers, _libraries, one_blas_thread
from evenmargin.kernels import (
    RBF,
    Exponential,
    Function,
    Laplacian,
    Linear,
    Points,
    Poly,
    Precomputed,
    Sigmoid,
    get_kernel,
    kernel_dot,
    kernel_matrix,
)
from evenmargin.solvers.gram import CachedGram, Entries, StreamedGram, WholeGram

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((1300, 7)) + 3.0, RNG.standard_normal((700, 7)) + 3.0
V = RNG.standard_normal((700, 2))
KINDS = [
    (RBF(0.2), lambda A, B: rbf_kernel(A, B, gamma=0.2)),
    (RBF(sigma=1.5), lambda A, B: rbf_kernel(A, B, gamma=1 / 1.5**2)),
    (Laplacian(0.2), lambda A, B: laplacian_kernel(A, B, gamma=0.2)),
    (Linear(), linear_kernel),
    (Poly(0.1, 3, 1.0), lambda A, B: polynomial_kernel(A, B, gamma=0.1, degree=3, coef0=1.0)),
    (Sigmoid(0.01, -0.2), lambda A, B: sigmoid_kernel(A, B, gamma=0.01, coef0=-0.2)),
]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("dtype", "apart", "close"), [(np.float64, 1e-13, 1e-6), (np.float32, 2e-6, 2e-3)])
def test_the_exponential_kernel_keeps_half_of_the_digits_of_close_rows(dtype, apart, close, compiled):
    found = kernel_matrix(Exponential(0.2), A, B, dtype=dtype, compiled=compiled)
    assert np.abs(found - np.exp(-0.2 * cdist(A, B))).max() < apart
    same = kernel_matrix(Exponential(0.2), A, A, dtype=dtype, compiled=compiled)
    assert np.abs(same - np.exp(-0.2 * cdist(A, A))).max() < close


def test_an_exponential_machine_is_that_of_its_kernel_matrix():
    y = np.where(A[:, 0] * A[:, 1] > 9, 1, -1)
    svm = KernelSVM(kernel="exponential", gamma=0.2, tol=1e-6).fit(A, y)
    peer = SVC(kernel="precomputed", tol=1e-8).fit(np.exp(-0.2 * cdist(A, A)), y)
    assert np.abs(svm.decision_function(B) - peer.decision_function(np.exp(-0.2 * cdist(B, A)))).max() < 1e-4


@pytest.mark.parametrize(("kernel", "peer"), KINDS, ids=lambda kind: getattr(kind, "name", ""))
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("dtype", "allowed"), [(np.float64, 1e-12), (np.float32, 2e-6)])
def test_values_and_products(kernel, peer, dtype, allowed, compiled):
    K = peer(A, B)
    found = kernel_matrix(kernel, A, B, dtype=dtype, compiled=compiled)
    assert found.dtype == dtype
    assert np.abs(found - K).max() <= allowed * np.abs(K).max()
    for shift in (0.0, 1.0):
        product = kernel_dot(kernel, A, B, V, dtype=dtype, compiled=compiled, shift=shift)
        assert np.abs(product - K @ V).max() <= 10 * allowed * np.abs(K @ V).max()
    assert np.allclose(kernel_dot(kernel, A, B, V[:, 0], dtype=dtype), K @ V[:, 0], rtol=1e-4, atol=1e-3)
    assert np.allclose(kernel.diagonal(A), np.diag(peer(A, A)))
    symmetric = kernel_matrix(kernel, A, A)
    assert np.allclose(symmetric, symmetric.T, rtol=1e-14, atol=0)
    assert np.abs(symmetric - peer(A, A)).max() <= 1e-12 * np.abs(symmetric).max()


@pytest.mark.parametrize(("kernel", "peer"), KINDS, ids=lambda kind: getattr(kind, "name", ""))
def test_sparse_rows_dense_enough_and_very_sparse(kernel, peer):
    wide = [random_array((n, 400), density=0.01, rng=n, format="csr") for n in (600, 520)]
    for left, right in [(csr_matrix(A), csr_matrix(B)), (A, csr_matrix(B)), (csr_matrix(A), B), wide]:
        K, weights = peer(left, right), RNG.standard_normal(right.shape[0])
        K = K.toarray() if hasattr(K, "toarray") else K
        assert np.allclose(kernel_dot(kernel, left, right, weights), K @ weights, rtol=1e-9, atol=1e-9)


def test_the_compiled_exp_is_as_good_as_float32_allows():
    x = -np.concatenate([np.linspace(0, 90, 100_001), [1e3, 1e10, 1e38], np.logspace(-30, -1, 1000)]).astype(np.float32)
    tile = x.reshape(1, -1).copy()
    _core.tile_loops.exp_of_negative(tile)
    exact = np.exp(x.astype(np.float64))
    assert np.abs(tile[0] - exact).max() <= 1.5e-7
    seen = x > -80
    assert (np.abs(tile[0] - exact)[seen] / exact[seen]).max() <= 5e-6
    above = np.full((1, 5), 1e-6, np.float32)  # what rounding may leave of a distance of 0
    _core.tile_loops.exp_of_negative(above)
    assert np.array_equal(above, np.ones((1, 5), np.float32))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 700), st.integers(1, 1100), st.integers(1, 40), st.integers(0, 5))
def test_any_shape_and_any_number_of_threads(p, q, d, seed):
    rng = np.random.default_rng(seed)
    left, right, weights = rng.standard_normal((p, d)), rng.standard_normal((q, d)), rng.standard_normal(q)
    kernel, answers = RBF(1.0 / d), []
    for threads in (1, 2, 5):
        with Workers(threads) as workers:
            answers.append(kernel_dot(kernel, left, right, weights, workers=workers))
    assert np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2])
    assert np.allclose(answers[0], rbf_kernel(left, right, gamma=1.0 / d) @ weights, atol=1e-10)


def test_far_from_the_origin_no_digits_are_lost():
    near = RNG.standard_normal((600, 4))
    K = rbf_kernel(near, gamma=0.3)
    for offset in (0.0, 1e3):
        found = kernel_matrix(RBF(0.3), (near + offset).astype(np.float32), (near + offset).astype(np.float32))
        assert np.abs(found - K).max() < 2e-6 + 3e-7 * offset  # the rounding of X itself


def test_gamma_scale_is_that_of_svc_and_counts_weights():
    y = np.arange(A.shape[0]) % 2
    svc = SVC().fit(A, y)
    assert RBF().settled(A, np.ones(len(A))).gamma == pytest.approx(svc._gamma)
    assert RBF("auto").settled(A, np.ones(len(A))).gamma == 1 / 7
    weight = RNG.integers(0, 3, len(A)).astype(float)
    repeated = np.repeat(A, weight.astype(int), axis=0)
    for rows, again in [(A, repeated), (csr_matrix(A), csr_matrix(repeated))]:
        assert RBF().settled(rows, weight).gamma == pytest.approx(RBF().settled(again, np.ones(len(repeated))).gamma)
    assert RBF().settled(np.ones((5, 2)), np.ones(5)).gamma == 1.0


def test_kernels_by_name():
    assert get_kernel("rbf", 0.5) == RBF(0.5)
    assert get_kernel("poly", 0.5, 2, 1.0) == Poly(0.5, 2, 1.0)
    assert get_kernel(RBF(sigma=2.0)).gamma == 0.25
    assert isinstance(get_kernel(linear_kernel), Function)
    assert isinstance(get_kernel("precomputed"), Precomputed)
    with pytest.raises(ValueError, match="kernel='laplace' is unknown; choose one of 'linear', 'rbf'"):
        get_kernel("laplace")


@pytest.mark.parametrize("constant", [0.0, 1.0])
@pytest.mark.parametrize("ridged", [False, True])
def test_three_ways_to_hold_a_matrix_give_the_same(constant, ridged):
    ridge = RNG.random(len(A)) if ridged else None
    K = rbf_kernel(A, gamma=0.2) + constant + (np.diag(ridge) if ridged else 0.0)
    rows = RNG.permutation(len(A))[:300]
    scale = RNG.standard_normal(300)
    with Workers(2) as workers:
        entries = Entries(RBF(0.2), A, workers, constant, ridge)
        grams = [WholeGram(entries), StreamedGram(entries, 1 << 20), CachedGram(entries, 8 * len(A) * 400)]
        for gram in grams:
            for exact in (False, True):
                allowed = 1e-11 if exact or isinstance(gram, WholeGram) else 1e-4
                assert np.abs(gram.block(rows) - K[np.ix_(rows, rows)]).max() < allowed
                assert np.abs(gram.dot(rows, scale) - K[:, rows] @ scale).max() < allowed
                wanted = np.arange(50, 900)
                assert np.abs(gram.exact(wanted, rows, scale) - K[np.ix_(wanted, rows)] @ scale).max() < 1e-11
                gram.widen()
            assert np.allclose(gram.diagonal, np.diag(K))


def test_the_cache_forgets_and_fetches_again():
    K = rbf_kernel(A, gamma=0.2)
    with Workers(1) as workers:
        gram = CachedGram(Entries(RBF(0.2), A, workers), 4 * len(A) * 120)
        assert gram.store.nbytes <= 4 * len(A) * 120
        for _ in range(20):
            rows = RNG.permutation(len(A))[: RNG.integers(1, 120)]
            assert np.abs(gram.block(rows) - K[np.ix_(rows, rows)]).max() < 1e-6
        many = RNG.permutation(len(A))[:500]  # more than it holds at a time
        assert np.abs(gram.dot(many, np.ones(500)) - K[:, many].sum(axis=1)).max() < 1e-3


def test_rows_are_prepared_once_within_the_budget():
    assert Points(RBF(0.2), A, np.float32, budget=1 << 20).ready is not None
    assert Points(RBF(0.2), A, np.float32, budget=100).ready is None


def test_sparse_rows_against_dense_ones_and_the_other_way_round():
    wide = [random_array((n, 200), density=0.02, rng=n, format="csr") for n in (300, 250)]
    weights = RNG.standard_normal(250)
    expected = rbf_kernel(*wide, gamma=1.0) @ weights
    for left in (wide[0], wide[0].toarray()):
        for right in (wide[1], wide[1].toarray()):
            assert np.allclose(kernel_dot(RBF(1.0), left, right, weights), expected, atol=1e-12)


def test_blas_is_held_to_one_thread_from_any_thread():
    """threadpoolctl alone heeds only the first thread that asked."""
    seen = []

    def look():
        with one_blas_thread():
            seen.append([library.num_threads for library in _libraries()])

    look()
    before = [library.num_threads for library in _libraries()]
    other = threading.Thread(target=look)
    other.start()
    other.join()
    assert seen[0] == seen[1] == [1] * len(before)
    assert [library.num_threads for library in _libraries()] == before
