"""The fused kernel without a GPU: its host side, its arithmetic in Triton's interpreter, and what it is compiled to.

On a GPU: see `test_fused.py`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from interpreted import COLUMNS, FAR

from evenmargin._device import fused


@pytest.mark.parametrize("high", [False, True])
@pytest.mark.parametrize("d", [1, 15, 16, 17, 50, 64, 65, 80, 90, 128, 129, 780, 8192])
def test_a_row_fits_its_plan(d, high):
    plan = fused._Plan.of(d, high)
    assert plan.wide == fused._Plan.of(d, high, 99 << 10).wide
    assert plan.wide >= d
    assert plan.wide <= max(16, 2 * d)
    assert plan.wide % 16 == 0
    assert fused.PAD % plan.rows == 0
    assert fused.PAD % plan.columns == 0
    if d <= fused.DEEP:
        assert all(size & (size - 1) == 0 for size in (plan.head, plan.tail))


@pytest.mark.parametrize("tiles", [1, 8, 2048])
@pytest.mark.parametrize("q", [256, 4096, 400_128, 10_000_128])
def test_parts_cover_all_columns_once(tiles, q):
    parts, per = fused._split(tiles, q, 128, 132)
    assert per % 128 == 0
    assert per <= fused.LONGEST
    assert (parts - 1) * per < q <= parts * per


def test_few_rows_are_cut_into_many_parts():
    assert fused._split(1, 400_128, 128, 132)[0] > 50


def test_the_cpu_has_no_fused_kernel():
    assert not fused.available(SimpleNamespace(type="cpu"))


def test_only_the_gaussian_kernel_is_fused():
    assert fused.supports("rbf", 50)
    assert not any(fused.supports(name, 50) for name in ("linear", "poly", "sigmoid", "laplacian", "exponential"))


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="products on a device need torch")


@pytest.mark.parametrize(("rows", "columns"), [(4000, 17), (100, 1)], ids=["many columns", "few kernel values"])
def test_other_products_are_left_to_the_plain_path(torch, rows, columns):
    points = SimpleNamespace(n=rows, d=3, device=None)
    assert fused.dot(points, points, np.zeros((rows, columns)), 0.0, "high") is None


def test_devices_of_other_makers_have_no_fused_kernel(torch, monkeypatch):
    monkeypatch.setattr(fused, "_properties", lambda device: SimpleNamespace(major=9))
    for version, there in (("12.8", True), (None, False)):
        monkeypatch.setattr(torch.version, "cuda", version)
        assert fused.available(SimpleNamespace(type="cuda")) is there


@pytest.fixture
def untried(torch):
    """Nothing is known yet of whether Triton works here."""
    fused._works.cache_clear()
    yield torch.device("cpu")
    fused._works.cache_clear()


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

    monkeypatch.setattr(fused, "triton", triton)
    monkeypatch.setattr(fused, "_product", given)
    with pytest.warns(RuntimeWarning, match=f"about ten times slower .* Triton does not work here, as {reason}"):
        assert not fused._works(untried)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not fused._works(untried)


def test_where_memory_ends_the_room_it_took_is_free_for_the_plain_path(torch, monkeypatch):
    def short(A, B, *_):
        for points in (A, B):
            points.cache["halves", True] = "much memory"
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(fused, "_works", lambda device: True)
    monkeypatch.setattr(fused, "_product", short)
    A, B = (SimpleNamespace(n=4000, d=3, device=None, cache={}) for _ in range(2))
    assert fused.dot(A, B, torch.ones(4000), 0.0, "high") is None
    assert A.cache == B.cache == {}


def test_a_kernel_too_large_for_the_device_is_tried_once(torch, monkeypatch):
    class Beyond(Exception):
        pass

    tried = []

    def large(*_):
        tried.append(1)
        raise Beyond("out of resource: shared memory")

    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(fused, "_works", lambda device: True)
    monkeypatch.setattr(fused, "_product", large)
    monkeypatch.setattr(fused, "OutOfResources", Beyond)
    monkeypatch.setattr(fused, "_beyond", set())
    A = SimpleNamespace(n=4000, d=780, device="a card", cache={})
    with pytest.warns(RuntimeWarning, match="on a card are about ten times .* here, as out of resource: shared memory"):
        assert fused.dot(A, A, torch.ones(4000), 0.0, "high") is None
    assert fused.dot(A, A, torch.ones(4000), 0.0, "high") is None
    assert len(tried) == 1


@pytest.mark.parametrize("limit", [0, 1 << 24], ids=["part by part", "at once"])
def test_parts_are_added_in_double_precision(torch, monkeypatch, limit):
    monkeypatch.setattr(fused, "PASS", limit)
    sums = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 9, 50), dtype=np.float32))
    np.testing.assert_allclose(fused._added(sums), sums.numpy().sum(axis=1, dtype=np.float64), rtol=1e-13)


# --- its arithmetic, and its code ---


def test_the_polynomial_is_two_to_the_x():
    """Every fourth 2^x of "fast", by the numbers in its machine code."""
    bits = np.array([int(word, 16) for word in re.findall("0f(.{8})", fused.MIXED)], np.uint32)
    magic, _, *terms = bits.view(np.float32)
    x = np.linspace(-120.0, 100.0, 100_001, dtype=np.float32)
    whole = x + magic
    part = x - (whole - magic)
    value = np.polyval(terms, part).astype(np.float32)
    found = ((whole.view(np.uint32) << 23) + value.view(np.uint32)).view(np.float32)
    np.testing.assert_allclose(found, np.exp2(x.astype(np.float64)), rtol=1.1e-4)


@pytest.fixture(scope="module")
def interpreted():
    """Errors of the kernel in Triton's interpreter, by the name of the case."""
    pytest.importorskip("torch", reason="products on a device need torch")
    pytest.importorskip("triton", minversion="3.9", reason="the interpreter of Triton 3.9 is not installed")
    script = Path(__file__).with_name("interpreted.py")
    alone = {**os.environ, "TRITON_INTERPRET": "1"}  # before Triton is imported
    done = subprocess.run([sys.executable, str(script)], env=alone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("d", COLUMNS)
def test_sums_in_the_interpreter_have_the_stated_error(interpreted, d):
    assert interpreted[f"fast {d}"] < 3e-4
    assert interpreted[f"high {d}"] < 3e-7
    assert interpreted[f"shift {d}"] < 5e-7


@pytest.mark.parametrize("far", FAR)
def test_far_rows_in_the_interpreter_cost_few_digits(interpreted, far):
    assert interpreted[f"far {far}"] < 1e-4


@pytest.mark.parametrize(
    ("machine", "apart"),
    [("smo", 2e-5), ("sgd", 1e-6), ("density", 1e-6), ("same_class", 1e-6), ("nystroem", 1e-5)],
)
def test_machines_on_the_interpreted_kernel_are_those_of_the_host(interpreted, machine, apart):
    assert interpreted[f"{machine}, products"] > 0
    assert interpreted[machine] < apart


# Devices that are not here: capability, shared memory of a program in KB, and their instruction for a product.
DEVICES = [(80, 163, "mma.sync"), (86, 99, "mma.sync"), (89, 99, "mma.sync"), (90, 227, "wgmma.mma_async")]


@pytest.mark.parametrize("high", [False, True], ids=["fast", "high"])
@pytest.mark.parametrize("d", [50, 100, 780])
@pytest.mark.parametrize(("capability", "room", "product"), DEVICES)
def test_it_compiles_to_tensor_cores_fits_and_writes_no_tile(capability, room, product, d, high):
    """What it writes to memory is one number a row."""
    triton = pytest.importorskip("triton", minversion="3.6", reason="Triton is not installed")
    found = compiled(triton, d, high, capability, room << 10)
    code = found.asm["ptx"]
    assert found.metadata.shared <= room << 10
    assert product in code
    assert "ex2.approx.ftz.f32" in code
    assert len(re.findall(r"st\.global", code)) == 1
    assert "st.local" not in code


def compiled(triton, d, high, capability, room):
    """A plain product for a device."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    plan, deep = fused._Plan.of(d, high, room), d > fused.DEEP
    kernel = fused._deep_sums if deep else fused._sums
    kinds = {
        "A": "*fp16", "B": "*fp16", "RA": "*fp64", "RB": "*fp64", "W": "*fp32", "OUT": "*fp32", "p": "i32", "q": "i32",
        "per": "i32", "shift": "fp32", "wide": "i32",
    }  # fmt: skip
    fixed = {
        "HEAD": plan.head, "TAIL": plan.tail, "HIGH": high, "NORMS": False, "SHIFTED": False, "BM": plan.rows,
        "BN": plan.columns, "BK": 64, "STAGES": plan.stages, "EXP2": fused.EXP2 if high else fused.MIXED,
        "PACK": 1 if high else 4,
    }  # fmt: skip
    names = kernel.arg_names
    place = {name: (number,) for number, name in enumerate(names)}
    source = ASTSource(
        fn=kernel,
        signature={name: kinds.get(name, "constexpr") for name in names},
        constexprs={place[name]: value for name, value in fixed.items() if name in place},
        attrs={
            place[name]: [["tt.divisibility", 16]] for name in kinds if name in place and name not in ("p", "shift")
        },
    )
    options = {"num_warps": plan.warps, "num_stages": plan.stages, **fused.FUSED}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
