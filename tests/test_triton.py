"""The fused kernel's host side: which sizes it takes, and when it leaves a product to the plain path.

The kernel itself needs a GPU: see `test_fused.py`.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from evenmargin import _triton


@pytest.mark.parametrize("high", [False, True])
@pytest.mark.parametrize("d", [1, 15, 16, 17, 50, 64, 65, 80, 90, 128, 129, 780, 8192])
def test_a_row_fits_its_plan(d, high):
    plan = _triton._Plan.of(d, high)
    assert plan.wide >= d
    assert plan.wide <= max(16, 2 * d)
    assert plan.wide % 16 == 0
    assert _triton.PAD % plan.rows == 0
    assert _triton.PAD % plan.columns == 0
    if d <= _triton.DEEP:
        assert all(size & (size - 1) == 0 for size in (plan.head, plan.tail))


@pytest.mark.parametrize("tiles", [1, 8, 2048])
@pytest.mark.parametrize("q", [256, 4096, 400_128, 10_000_128])
def test_parts_cover_all_columns_once(tiles, q):
    parts, per = _triton._split(tiles, q, 128, 132)
    assert per % 128 == 0
    assert per <= _triton.LONGEST
    assert (parts - 1) * per < q <= parts * per


def test_few_rows_are_cut_into_many_parts():
    assert _triton._split(1, 400_128, 128, 132)[0] > 50


def test_the_cpu_has_no_fused_kernel():
    assert not _triton.available(SimpleNamespace(type="cpu"))


def test_only_the_gaussian_kernel_is_fused():
    assert _triton.supports("rbf", 50)
    assert not any(_triton.supports(name, 50) for name in ("linear", "poly", "sigmoid", "laplacian", "exponential"))


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="products on a device need torch")


@pytest.mark.parametrize(("rows", "columns"), [(4000, 17), (100, 1)], ids=["many columns", "few kernel values"])
def test_other_products_are_left_to_the_plain_path(torch, rows, columns):
    points = SimpleNamespace(n=rows, device=None)
    assert _triton.dot(None, points, points, np.zeros((rows, columns)), 0.0, "high") is None


def test_devices_of_other_makers_have_no_fused_kernel(torch, monkeypatch):
    monkeypatch.setattr(_triton, "_capability", lambda device: 9)
    for version, there in (("12.8", True), (None, False)):
        monkeypatch.setattr(torch.version, "cuda", version)
        assert _triton.available(SimpleNamespace(type="cuda")) is there


@pytest.fixture
def untried(torch):
    """Nothing is known yet of whether Triton works here."""
    _triton._works.cache_clear()
    yield torch.device("cpu")
    _triton._works.cache_clear()


@pytest.mark.parametrize(
    ("triton", "product", "reason"),
    [
        (None, None, "it is not installed"),
        (object(), RuntimeError("Failed to find C compiler.\nSet CC."), "Failed to find C compiler"),
        (object(), 7.0, "its sums are wrong"),
    ],
)
def test_a_triton_that_does_not_work_is_said_once(untried, torch, monkeypatch, triton, product, reason):
    def given(*_):
        if isinstance(product, Exception):
            raise product
        return torch.full((1, 300), product)

    monkeypatch.setattr(_triton, "triton", triton)
    monkeypatch.setattr(_triton, "_product", given)
    with pytest.warns(RuntimeWarning, match=f"some ten times as long .* Triton does not work here: {reason}"):
        assert not _triton._works(untried)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not _triton._works(untried)


def test_where_memory_ends_the_room_it_took_is_free_for_the_plain_path(torch, monkeypatch):
    def short(A, B, *_):
        for points in (A, B):
            points.cache["halves", True] = "much memory"
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(_triton, "_works", lambda device: True)
    monkeypatch.setattr(_triton, "_product", short)
    A, B = (SimpleNamespace(n=4000, device=None, cache={}) for _ in range(2))
    assert _triton.dot(None, A, B, torch.ones(4000), 0.0, "high") is None
    assert A.cache == B.cache == {}
