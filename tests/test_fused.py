"""The fused kernel against float64 and against itself, on a GPU."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from evenmargin._device import arrays, fused, products
from evenmargin.kernels import RBF, kernel_dot

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available()
    or find_spec("triton") is None
    or not fused.available(torch.device("cuda", torch.cuda.current_device())),
    reason="the fused kernel needs Triton and a CUDA device from capability 8.0",
)
# What it may cost, of Σ K|v|, for rows that are not far out.
ERROR = {"fast": 1e-3, "high": 5e-6}
each = pytest.mark.parametrize("precision", list(ERROR))


@pytest.fixture(autouse=True)
def _small_products_too(monkeypatch):
    monkeypatch.setattr(fused, "SMALL", 0)


def rows(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)


def points(kernel, X):
    return products.DevicePoints(kernel, arrays.Rows.put(X, arrays.find_device("cuda")), np.float32)


def fused(kernel, A, B, V, shift=0.0, precision="high"):
    """K(A, B)·V by the fused kernel; None where it leaves that to the plain path."""
    found = fused.dot(points(kernel, A), points(kernel, B), torch.from_numpy(V).cuda(), shift, precision)
    return None if found is None else found.cpu().numpy()


def exact(kernel, A, B, V):
    return kernel_dot(kernel, A.astype(np.float64), B.astype(np.float64), V.astype(np.float64))


def error(found, kernel, A, B, V):
    """The largest, as a share of Σ K|v|."""
    assert found is not None
    return (np.abs(found - exact(kernel, A, B, V)) / exact(kernel, A, B, np.abs(V))).max()


@each
@pytest.mark.parametrize("d", [1, 17, 50, 90, 129, 780])
def test_sums_have_the_stated_error(d, precision):
    """Of sides that are no multiples of a tile, for one vector and for three, with zeros and both signs."""
    kernel, A, B = RBF(1.0 / d), rows(301, d), rows(1777, d, 1)
    V = np.random.default_rng(2).standard_normal((1777, 3), dtype=np.float32)
    V[::5] = 0.0
    assert error(fused(kernel, A, B, V, precision=precision), kernel, A, B, V) < ERROR[precision]
    one = np.ascontiguousarray(V[:, 0])
    found = fused(kernel, A, B, one, precision=precision)
    assert found.shape == (301,)
    assert error(found, kernel, A, B, one) < ERROR[precision]


@each
def test_zeros_give_zeros(precision):
    kernel, X = RBF(0.1), rows(300, 10)
    V = np.zeros((300, 2), np.float32)
    V[:, 0] = 1.0
    found = fused(kernel, X, X, V, precision=precision)
    assert (found[:, 0] > 0.9).all()
    assert (found[:, 1] == 0.0).all()


@pytest.mark.parametrize(("precision", "far", "limit"), [("fast", 8.0, 1.5e-3), ("high", 34.0, 3e-5)])
@pytest.mark.parametrize("unit", [1e-30, 1e-20, 1e20, 1e30])
def test_the_unit_of_the_vector_is_no_matter(unit, precision, far, limit):
    """Also where norms are factors and as large as they may be: γ‖x‖² is up to `far`."""
    X = rows(1000, 3)
    X *= np.sqrt(2.0 * far / (X**2).sum(axis=1).max())
    V = np.random.default_rng(1).standard_normal(1000).astype(np.float32) * np.float32(unit)
    assert error(fused(RBF(0.5), X, X, V, precision=precision), RBF(0.5), X, X, V) < limit


@each
@pytest.mark.parametrize("d", [3, 200])
@pytest.mark.parametrize("far", [30.0, 170.0])
def test_a_far_row_costs_digits_but_few(far, d, precision):
    """γ‖x‖² is `far`. "fast" is computed as "high" there."""
    kernel, X = RBF(1.0 / d), rows(1000, d)
    X[7] *= np.sqrt(far * d / (X[7] ** 2).sum())
    X[8] = 1.01 * X[7]
    X[8] *= np.sqrt(far * d / (X[8] ** 2).sum())
    V = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    assert error(fused(kernel, X, X, V, precision=precision), kernel, X, X, V) < 1e-4


def test_rows_too_far_out_are_left_to_the_plain_path():
    X, V = rows(1000, 3), np.ones(1000, np.float32)
    X[7] = 40.0
    assert fused(RBF(0.5), X, X, V) is None


@each
@pytest.mark.parametrize("d", [17, 200])
def test_a_shift_saves_digits(d, precision):
    """Kernel values near 1 and a vector whose sum is near 0."""
    kernel, A, B = RBF(0.01 / d), rows(301, d), rows(60_000, d, 1)
    V = np.random.default_rng(2).choice(np.float32([-1.0, 1.0]), 60_000)
    wanted = exact(kernel, A, B, V)
    plain, shifted = (np.abs(fused(kernel, A, B, V, shift, precision) - wanted).max() for shift in (0.0, 1.0))
    assert shifted < 0.5 * plain
    assert shifted < 1e-6 * V.size


@each
@pytest.mark.parametrize("d", [50, 780])
def test_two_runs_give_the_same_bits(d, precision):
    kernel, A, B = RBF(1.0 / d), rows(700, d), rows(70_000, d, 1)
    V = np.random.default_rng(2).standard_normal((70_000, 2), dtype=np.float32)
    first, second = (fused(kernel, A, B, V, precision=precision) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_large_products_are_fused(monkeypatch):
    seen, real = [], fused._product
    monkeypatch.setattr(fused, "_product", lambda *given: seen.append(1) or real(*given))
    X = rows(1000, 5)
    there = arrays.Rows.put(X, arrays.find_device("cuda"))
    for shift in (0.0, 1.0):
        found = kernel_dot(RBF(0.1), there, there, np.ones(1000), shift=shift)
        np.testing.assert_allclose(found, exact(RBF(0.1), X, X, np.ones(1000)), rtol=5e-6)
    assert len(seen) == 2


def test_where_memory_ends_the_plain_path_takes_over(monkeypatch):
    real = fused._product

    def short(*given):
        real(*given)
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.")

    X, kernel = rows(1000, 5), RBF(0.1)
    there = points(kernel, X)
    kernel_dot(kernel, there, there, np.ones(1000))
    assert there.cache
    monkeypatch.setattr(fused, "_product", short)
    found = kernel_dot(kernel, there, there, np.ones(1000))
    np.testing.assert_allclose(found, exact(kernel, X, X, np.ones(1000)), rtol=5e-6)
    assert not there.cache


def test_results_come_down_whatever_the_default_device():
    tensor = torch.arange(5.0, device="cuda")
    with torch.device("cuda"):
        assert arrays.fetch(tensor).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


@each
def test_autocast_rounds_nothing_of_ours(precision):
    kernel, X, V = RBF(0.1), rows(1000, 5), np.ones((1000, 2), np.float32)
    wanted = fused(kernel, X, X, V, precision=precision)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        np.testing.assert_array_equal(fused(kernel, X, X, V, precision=precision), wanted)
