"""Kernels and their products on a device, on the CPU's torch, against the host in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from evenmargin import kernels as k
from evenmargin._device import arrays, products
from evenmargin._util.threads import Workers
from evenmargin.solvers.gram import Entries, StreamedGram, WholeGram, hold

torch = pytest.importorskip("torch", reason="torch is not installed")
CPU = torch.device("cpu")
KINDS = [k.Linear(), k.RBF(0.1), k.Laplacian(0.1), k.Exponential(0.2), k.Poly(0.2, 3, 1.0), k.Sigmoid(0.05, 0.1)]
each = pytest.mark.parametrize("kernel", KINDS, ids=lambda kernel: kernel.name)
# What float32 may cost, of the largest sum; exp(−γ‖·‖) takes the root of a rounded distance.
ERROR = dict.fromkeys(["linear", "rbf", "laplacian", "poly", "sigmoid"], 2e-6) | {"exponential": 5e-5}


def rows(n, d=7, seed=0, dtype=np.float32):
    return (np.random.default_rng(seed).standard_normal((n, d)) + 0.5).astype(dtype)


def up(X):
    return arrays.Rows.put(X, CPU)


P, Q = rows(900), rows(700, seed=1)
V = np.random.default_rng(2).standard_normal((700, 2))


def exact(kernel, A=P, B=Q, V=V):
    return k.kernel_dot(kernel, A.astype(np.float64), B.astype(np.float64), V)


def worst(found, wanted):
    return np.abs(found - wanted).max() / np.abs(wanted).max()


@each
def test_sums_in_float64_are_those_of_the_host(kernel):
    found = k.kernel_dot(kernel, up(P), up(Q), V, dtype=np.float64)
    assert worst(found, exact(kernel)) < 1e-12


@each
def test_sums_in_float32_have_the_stated_error(kernel):
    found = k.kernel_dot(kernel, up(P), up(Q), V)
    assert found.dtype == np.float64
    assert worst(found, exact(kernel)) < ERROR[kernel.name]


@each
def test_a_matrix_is_that_of_the_host(kernel, monkeypatch):
    monkeypatch.setattr(products, "TILE", 1 << 16)
    found = k.kernel_matrix(kernel, up(P), up(Q), dtype=np.float64)
    np.testing.assert_allclose(
        found, k.kernel_matrix(kernel, P, Q, dtype=np.float64), rtol=0, atol=1e-12 * abs(found).max()
    )
    out = np.empty((900, 700))
    assert k.kernel_matrix(kernel, up(P), up(Q), dtype=np.float64, out=out) is out
    assert (out == found).all()


@each
def test_the_answer_hardly_depends_on_the_size_of_tiles(kernel, monkeypatch):
    whole = k.kernel_dot(kernel, up(P), up(Q), V, dtype=np.float64)
    monkeypatch.setattr(products, "TILE", 1 << 14)
    assert worst(k.kernel_dot(kernel, up(P), up(Q), V, dtype=np.float64), whole) < 1e-14


@pytest.mark.parametrize("sides", [(up, np.array), (np.array, up), (up, csr_matrix), (csr_matrix, up)])
def test_the_other_side_is_put_where_one_is(sides):
    found = k.kernel_dot(k.RBF(0.1), sides[0](P), sides[1](Q), V, dtype=np.float64)
    assert worst(found, exact(k.RBF(0.1))) < 1e-12


def test_prepared_rows_are_taken_as_they_are():
    kernel = k.RBF(0.1)
    B = k.prepared(kernel, up(Q), np.float64, k.centre_of(kernel, Q))
    assert isinstance(B, products.DevicePoints)
    assert worst(k.kernel_dot(kernel, up(P), B, V), exact(kernel)) < 1e-12
    some = np.array([5, 600, 7])
    assert worst(k.kernel_dot(kernel, P, B.take(some), V[some]), exact(kernel, B=Q[some], V=V[some])) < 1e-12


def test_rows_with_themselves_are_prepared_once(monkeypatch):
    made, real = [], products.DevicePoints.__init__
    monkeypatch.setattr(products.DevicePoints, "__init__", lambda self, *given: made.append(1) or real(self, *given))
    rows_ = up(P)
    k.kernel_dot(k.RBF(0.1), rows_, rows_, np.ones(900))
    assert len(made) == 1


def test_one_vector_gives_one_vector():
    found = k.kernel_dot(k.RBF(0.1), up(P), up(Q), V[:, 0])
    assert found.shape == (900,)
    assert worst(found, exact(k.RBF(0.1))[:, 0]) < 2e-6


def test_no_columns_give_zeros():
    assert k.kernel_dot(k.RBF(0.1), up(P), up(Q[:0]), V[:0]).tolist() == np.zeros((900, 2)).tolist()


def test_a_shift_saves_digits():
    kernel, far = k.RBF(1e-3), np.random.default_rng(0).choice([-1.0, 1.0], 700)
    wanted = exact(kernel, V=far)
    plain, shifted = (k.kernel_dot(kernel, up(P), up(Q), far, shift=shift) for shift in (0.0, 1.0))
    assert worst(shifted, wanted) < 0.3 * worst(plain, wanted)


def test_the_host_has_no_use_for_precision():
    found = [k.kernel_dot(k.RBF(0.1), P, Q, V, precision=precision) for precision in (None, "high", "fast")]
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


@pytest.mark.parametrize("where", [np.array, up])
def test_an_unknown_precision_is_refused(where):
    with pytest.raises(ValueError, match=r"precision='low' must be 'high', 'fast' or None"):
        k.kernel_dot(k.RBF(0.1), where(P), where(Q), V, precision="low")


def test_rows_far_from_the_origin_keep_their_digits():
    found = k.kernel_dot(k.RBF(0.1), up(P + np.float32(1000)), up(Q + np.float32(1000)), V)
    assert worst(found, exact(k.RBF(0.1), P + np.float32(1000), Q + np.float32(1000))) < 2e-5


@pytest.mark.parametrize("gamma", ["scale", "auto"])
def test_gamma_is_that_of_the_host(gamma):
    w = np.random.default_rng(0).random(900)
    found, wanted = (k.RBF(gamma).settled(X, w).gamma for X in (up(P), P))
    assert found == pytest.approx(wanted, rel=1e-12)


@each
def test_the_diagonal_is_that_of_the_host(kernel):
    np.testing.assert_allclose(kernel.diagonal(up(P)), kernel.diagonal(P), rtol=1e-12)


@dataclass(frozen=True)
class Cosine(k.Kernel):
    """A user's own: cos(a·b), written by the namespace of its tile."""

    name = "cosine"

    def scale(self):
        return 1.0

    def apply(self, tile, compiled=False):
        arrays.namespace(tile).cos(tile, out=tile)

    def diagonal(self, X):
        return np.cos(k.Linear().diagonal(X))


class Halved(k.RBF):
    """A built-in kernel with another map, under the same name."""

    def apply(self, tile, compiled=False):
        super().apply(tile)
        tile *= 0.5


def test_a_users_own_kernel_runs_on_a_device():
    assert worst(k.kernel_dot(Cosine(), up(P), up(Q), V, dtype=np.float64), exact(Cosine())) < 1e-12
    halved = k.kernel_dot(Halved(0.1), up(P), up(Q), V, dtype=np.float64)
    assert worst(halved, 0.5 * exact(k.RBF(0.1))) < 1e-12


class Fake:
    """Stands in for the fused kernel's module."""

    def __init__(self, answer=True):
        self.calls, self.answer = [], answer

    def available(self, device):
        return True

    def supports(self, name, d):
        return name == "rbf"

    def dot(self, A, B, V, shift, precision):
        self.calls.append(precision)
        return torch.full((A.n, *V.shape[1:]), 7.0) if self.answer else None


@pytest.fixture
def fused(monkeypatch):
    """A device that has a fused kernel for RBF; what it computes is 7."""
    fake = Fake()
    monkeypatch.setattr(products, "_engine", lambda device: fake)
    return fake


def test_the_fused_kernel_is_asked_first(fused):
    assert (k.kernel_dot(k.RBF(0.1), up(P), up(Q), V) == 7.0).all()
    k.kernel_dot(k.RBF(0.1), up(P), up(Q), V, precision="fast")
    assert fused.calls == ["high", "fast"]


def test_what_the_fused_kernel_does_not_know_goes_the_plain_way(fused):
    for kernel in (k.Laplacian(0.1), Halved(0.1)):
        assert worst(k.kernel_dot(kernel, up(P), up(Q), V), exact(kernel)) < 2e-6
    assert worst(k.kernel_dot(k.RBF(0.1), up(P), up(Q), V, dtype=np.float64), exact(k.RBF(0.1))) < 1e-12
    assert fused.calls == []
    fused.answer = False  # it may say so only when it sees the rows
    assert worst(k.kernel_dot(k.RBF(0.1), up(P), up(Q), V), exact(k.RBF(0.1))) < 2e-6


# The kernel matrix of training rows


def grams(n, constant=0.0, ridge=None):
    X, kernel = rows(n), k.RBF(0.15)
    pool = Workers(1)
    return [hold(Entries(kernel, where(X), pool, constant, ridge), 200.0, 1024) for where in (np.array, up)]


def test_few_rows_are_held_whole_on_the_host():
    here, there = grams(500)
    assert isinstance(there, WholeGram)
    assert isinstance(there.K, np.ndarray)
    np.testing.assert_allclose(there.K, here.K, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("constant", "ridge"), [(0.0, None), (1.0, np.linspace(0.1, 0.2, 2100))])
def test_many_rows_answer_as_on_the_host(constant, ridge):
    here, there = grams(2100, constant, ridge)
    assert isinstance(there, StreamedGram)
    assert isinstance(here, StreamedGram)
    some, wanted = np.arange(50, 350, 2), np.arange(0, 2100, 5)
    scale = np.random.default_rng(0).standard_normal(some.size)
    np.testing.assert_allclose(there.block(some), here.block(some), rtol=0, atol=1e-13)
    np.testing.assert_allclose(there.exact(wanted, some, scale), here.exact(wanted, some, scale), rtol=0, atol=1e-12)
    noise = there.rounding * np.linalg.norm(scale)
    assert np.abs(there.dot(some, scale) - here.exact(np.arange(2100), some, scale)).max() < noise
    np.testing.assert_array_equal(there.diagonal, here.diagonal)
    there.widen()
    np.testing.assert_allclose(there.dot(some, scale), here.exact(np.arange(2100), some, scale), rtol=0, atol=1e-12)
    np.testing.assert_allclose(there.block(some), here.block(some), rtol=0, atol=1e-13)
    assert (there.dot(some[:0], scale[:0]) == 0.0).all()


def test_a_small_cache_is_enough_on_a_device():
    """Nothing of K is held, so `cache_size` bounds working sets alone."""
    there = hold(Entries(k.RBF(0.15), up(rows(2100)), Workers(1)), 0.01, 1024)
    assert isinstance(there, StreamedGram)
    assert there.most < 1024
