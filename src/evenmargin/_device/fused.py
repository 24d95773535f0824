# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
"""K(A, B)·V on CUDA in one kernel: distances by tensor cores, exp, and sums, without writing a tile of K.

Only `products.dot` comes here, for the RBF kernel on float32 points. With x̂ = √(2γ·log₂e)·x,

    Σ_b K(a, b) v_b = 2^(−‖â‖²/2) · Σ_b 2^(â·b̂) · w_b,    w_b = v_b · 2^(−‖b̂‖²/2),

so that a pair of rows costs its share of a matrix product, one 2^x and one multiplication. Where rows are so far out
that 2^(â·b̂) may leave float32, or a shift is to be taken off K, norms are added to the exponent instead.

    "fast"  rows rounded to 11 bits, half precision (as tf32), one product
    "high"  22 of float32's 24 bits, as sums of two halves, three products: hi·hi + lo·hi + hi·lo

Norms are those of the rounded rows: so distances are exact, between rows that have moved by
2⁻¹² or 2⁻²³ of their columns. Sums have an error of some 3e-4 ("fast") and 3e-7 ("high") of Σ K|v|,
which grows with γ‖x‖² of the centred rows: to 1e-3 at 8, from where on "fast" is computed as
"high", and to 4e-5 at 170, twice that of plain float32, which takes over there.

Sums are in float32 over up to 65 536 columns, in eight strands a row, then in float64 in a fixed
order and without atomics: the same bits in every run.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, TypeAlias

from .._util.typing import Device, Tensor
from .arrays import PASS, is_out_of_memory, torch

try:
    import triton
    import triton.language as tl
    from triton import OutOfResources, jit
except ImportError:  # `_works` says so, and the plain path is taken
    triton = tl = None
    OutOfResources = MemoryError

    def jit(function=None, **options):  # type: ignore[no-redef]  # stands in for Triton's
        return function or jit


PreparedPoints: TypeAlias = Any  # `products.DevicePoints`, or whatever has their n, d, left, device and cache

SMALL = 1 << 22  # kernel values below which compiling costs more than the plain path takes
COLUMNS = 16  # of V, at most: each takes a pass
LONGEST = 1 << 16  # columns of K that are summed in float32
SHARES = 256  # parts of the work for each processor: the last ones leave it idle for a short time only
# ‖x̂‖²/2 = γ‖x‖²·log₂e, up to which
NEAR_FAST = 12.0  # half precision has digits left
NEAR = 50.0  # 2^(â·b̂) and w are float32 numbers
FAR = 256.0  # distances have digits left: tensor cores lose more of them than float32 does
PAD = 256  # rows are padded to a multiple of it, with zeros
DEEP = 128  # columns from which on rows are read in pieces
ROOM = 160_000  # bytes of shared memory from which on there are three stages of such pieces; else two
# Said at each launch, as the default changes with Triton 3.10: without it Σ e·v is two instructions a pair, not one.
FUSED = {"enable_fp_fusion": True}

# 2^x by the instruction itself, without the care for results below 1e-38 that tl.exp2 takes. Multiprocessors do 16 a
# clock, so in "fast" every fourth is a polynomial of degree 3 (1e-4) instead, on units that are idle otherwise: x
# plus 1.5·2²³ has the nearest whole number in its last bits, which are added to the exponent of 2^(x − that).
EXP2 = "ex2.approx.ftz.f32 $0, $1;"
MIXED = """
{
.reg .f32 r, f, p; .reg .b32 i, j;
ex2.approx.ftz.f32 $0, $4;
ex2.approx.ftz.f32 $1, $5;
ex2.approx.ftz.f32 $2, $6;
add.rn.f32 r, $7, 0f4B400000;
sub.rn.f32 f, r, 0f4B400000;
sub.rn.f32 f, $7, f;
fma.rn.f32 p, f, 0f3D6260A9, 0f3E7877F7;
fma.rn.f32 p, p, f, 0f3F3179DE;
fma.rn.f32 p, p, f, 0f3F7FFB49;
mov.b32 i, r;
shl.b32 i, i, 23;
mov.b32 j, p;
add.s32 i, i, j;
mov.b32 $3, i;
}
"""


def available(device: Device) -> bool:
    """Whether the fused kernel is made for it: a device of NVIDIA's, from capability 8.0."""
    if device.type != "cuda":
        return False
    return torch().version.cuda is not None and _properties(device).major >= 8  # ROCm's devices are called "cuda", too


def supports(kernel_name: str, d: int) -> bool:
    """Whether there is a fused kernel for rows of d columns."""
    return kernel_name == "rbf" and 1 <= d <= 1 << 13


def dot(A: PreparedPoints, B: PreparedPoints, V: Tensor, shift: float, precision: str) -> Tensor | None:
    """K(A, B)·V in float64 for float32 points of an RBF kernel, or None where the plain path is to be taken.

    A shift is taken off K before it is summed, and added to the sums again; the precision is "high" then.
    """
    columns = 1 if V.ndim == 1 else V.shape[1]
    if not 1 <= columns <= COLUMNS or A.n * B.n < SMALL:
        return None
    out, high = None, shift != 0.0 or precision != "fast"
    if (A.device, A.d, high) in _beyond:
        return None
    try:
        with torch().cuda.device(A.device):
            if _works(A.device):
                out = _product(A, B, V.reshape(B.n, columns).T, high, shift)
    except (OutOfResources, RuntimeError) as error:
        if isinstance(error, OutOfResources):
            _beyond.add((A.device, A.d, high))
            _warn_slow(A.device, error)
        elif not is_out_of_memory(error):
            raise
        for points in (A, B):
            points.cache.clear()  # the plain path may need the room
    return out if out is None else out[0] if V.ndim == 1 else out.T


_beyond: set[Any] = set()  # (device, columns, high) whose kernels take more shared memory than the device has


@cache
def _properties(device: Device) -> Any:
    return torch().cuda.get_device_properties(device)


@cache
def _works(device: Device) -> bool:
    """Whether Triton compiles and runs a small product here; warn once where it does not."""
    try:
        if triton is None:
            raise ImportError("it is not installed")
        x = torch().linspace(-1.0, 1.0, 300, dtype=torch().float32, device=device)
        left = torch().zeros((300, 4), dtype=torch().float32, device=device)
        left[:, 0] = x
        points = SimpleNamespace(n=300, d=1, left=left, device=device, cache={})
        found = _product(points, points, torch().ones((1, 300), dtype=torch().float32, device=device), True)
        wanted = torch().exp(-0.5 * (x[:, None] - x).double().square()).sum(dim=1)
        if not float((found / wanted - 1.0).abs().max()) < 1e-4:
            raise RuntimeError("its sums are wrong")
    except Exception as error:  # whatever the reason, there is the plain path
        if is_out_of_memory(error):  # which says nothing of Triton
            raise
        _warn_slow(device, error)
        return False
    return True


def _warn_slow(device: Device, error: Exception) -> None:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    warnings.warn(
        f"Kernel products on {device} are about ten times slower than they could be: Triton does not work here, as "
        f"{reason}.",
        RuntimeWarning,
        stacklevel=3,
    )


# --- what is launched ---


@dataclass(frozen=True)
class _Plan:
    """Sizes of a kernel: columns of a row (a power of two and a rest), tiles, warps and stages."""

    head: int
    tail: int
    rows: int
    columns: int
    warps: int
    stages: int

    @property
    def wide(self) -> int:
        return self.head + self.tail

    @classmethod
    def of(cls, d: int, high: bool, shared: int = ROOM) -> _Plan:
        if d > DEEP:
            return cls(64 * -(-d // 64), 0, 128, 128 if high else 256, 8, 2 if high and shared < ROOM else 3)
        head = max(16, 1 << (d.bit_length() - 1))
        tail = max(16, 1 << (d - head - 1).bit_length()) if d > head else 0
        if tail == head:
            head, tail = 2 * head, 0
        sizes = {  # measured on an H200
            (False, False): (128, 64, 4, 3),
            (False, True): (128, 64, 4, 2),
            (True, False): (128, 128, 8, 2),
            (True, True): (128, 64, 8, 2) if tail else (64, 64, 4, 2),
        }
        return cls(head, tail, *sizes[high, head + tail > 64])


@dataclass(frozen=True)
class _Halves:
    """Rows of points as one or two halves, with −‖x̂‖²/2 in float64, padded with zeros."""

    rows: Tensor
    norms: Tensor
    factors: Tensor  # 2^norms
    reach: float  # the largest ‖x̂‖²/2

    @classmethod
    def of(cls, left: Tensor, d: int, high: bool) -> _Halves:
        wide, n = _Plan.of(d, high).wide, left.shape[0]
        room = PAD * -(-n // PAD)
        rows = torch().empty((room, 2 * wide if high else wide), dtype=torch().float16, device=left.device)
        norms = torch().empty(room, dtype=torch().float64, device=left.device)
        span = triton.next_power_of_2(wide)
        some = max(1, min(64, 4096 // span))
        _prepare[(room // some,)](
            left, rows, norms, n, d, left.stride(0), math.sqrt(math.log2(math.e)), span, wide, high, some, **FUSED
        )
        return cls(rows, norms, torch().exp2(norms[:n]), -float(norms.min()))

    @classmethod
    def cached(cls, points: PreparedPoints, high: bool) -> _Halves:
        name = ("halves", high)
        if name not in points.cache:
            points.cache[name] = cls.of(points.left, points.d, high)
        return points.cache[name]


def _product(A: PreparedPoints, B: PreparedPoints, V: Tensor, high: bool, shift: float = 0.0) -> Tensor | None:
    """K(A, B)·Vᵀ, transposed; with a shift in "high" only."""
    left, right = _Halves.cached(A, high), _Halves.cached(B, high)
    if not (left.reach <= FAR and right.reach <= FAR):  # or not a number
        return None
    far = shift != 0.0 or max(left.reach, right.reach) > (NEAR if high else NEAR_FAST)
    if far and not high:
        return _product(A, B, V, True)
    card = _properties(A.device)
    # Bytes that a program may have: 227 KB on an H100, 163 on an A100, 99 on smaller cards.
    plan = _Plan.of(A.d, high, getattr(card, "shared_memory_per_block_optin", ROOM))
    count, q = V.shape[0], right.rows.shape[0]
    W = torch().zeros((count, q), dtype=torch().float32, device=V.device)
    top = V.abs().amax(dim=1, keepdim=True).double()  # so that no part of a sum leaves float32, whatever V's unit
    top = torch().where(top > 0.0, top, 1.0)
    W[:, : B.n] = V / top if far else V / top * right.factors
    tiles = -(-A.n // plan.rows)
    parts, per = _split(tiles, q, plan.columns, card.multi_processor_count)
    sums = torch().empty((count, parts, A.n), dtype=torch().float32, device=V.device)
    grid, options = (tiles, parts, count), {"num_warps": plan.warps, "num_stages": plan.stages, **FUSED}
    given = (left.rows, right.rows, left.norms, right.norms, W, sums, A.n, q, per, float(shift))
    how = (high, far, shift != 0.0, plan.rows, plan.columns)
    code = (EXP2, 1) if high or not EXP2 else (MIXED, 4)
    if A.d > DEEP:
        _deep_sums[grid](*given, plan.wide, *how, 64, plan.stages, *code, **options)
    else:
        _sums[grid](*given, plan.head, plan.tail, *how, plan.stages, *code, **options)
    out = _added(sums).mul_(top)
    if not far:
        out.mul_(left.factors)
    return out.add_(shift * V.sum(dim=1, keepdim=True, dtype=torch().float64)) if shift else out


def _added(sums: Tensor) -> Tensor:
    """Σ over the parts in float64, in their order; for `sum` torch would first copy all of them in float64."""
    if sums.numel() <= PASS:
        return sums.sum(dim=1, dtype=torch().float64)
    out = sums[:, 0].double()
    for part in range(1, sums.shape[1]):
        out += sums[:, part]
    return out


def _split(tiles: int, q: int, columns: int, processors: int) -> tuple[int, int]:
    """How many parts to cut the columns into, and how long these are: few rows leave processors without work."""
    parts = max(-(-q // LONGEST), min(-(-SHARES * processors // tiles), q // (32 * columns)), 1)
    per = columns * -(-q // (columns * parts))
    return -(-q // per), per


# --- on the device ---


@jit(do_not_specialize=["n", "d"])
def _prepare(
    X, OUT, NORM, n, d, step, SCALE: tl.constexpr, SPAN: tl.constexpr, WIDE: tl.constexpr, HIGH: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Rows of points as halves, and −‖·‖²/2 of what they then are; zeros from row n on."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    far = row.to(tl.int64)[:, None]
    column = tl.arange(0, SPAN)[None, :]
    x = tl.load(X + far * step + column, mask=(row < n)[:, None] & (column < d), other=0.0) * SCALE
    high = x.to(tl.float16)
    whole = high.to(tl.float64)
    into = OUT + far * (2 * WIDE if HIGH else WIDE) + column
    tl.store(into, high, mask=column < WIDE)
    if HIGH:
        low = (x - high.to(tl.float32)).to(tl.float16)
        whole += low.to(tl.float64)
        tl.store(into + WIDE, low, mask=column < WIDE)
    tl.store(NORM + row, -0.5 * tl.sum(whole * whole, axis=1))


@jit
def _weigh(
    x, v, shift, SHIFTED: tl.constexpr, EXP2: tl.constexpr, PACK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """Σ (2^x − shift)·v over the columns of a tile, in eight strands a row: one thread holds all of a strand."""
    if EXP2 == "":
        e = tl.exp2(x)
    elif PACK == 1:
        e = tl.inline_asm_elementwise(EXP2, "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        e = tl.inline_asm_elementwise(EXP2, "=f,=f,=f,=f,f,f,f,f", [x], dtype=tl.float32, is_pure=True, pack=PACK)
    if SHIFTED:
        e -= shift
    return tl.sum(tl.reshape(e * v[None, :], (BM, BN // 8, 8)), axis=1)


@jit(do_not_specialize=["p"])
def _sums(
    A, B, RA, RB, W, OUT, p, q, per, shift, HEAD: tl.constexpr, TAIL: tl.constexpr, HIGH: tl.constexpr,
    NORMS: tl.constexpr, SHIFTED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr,
    EXP2: tl.constexpr, PACK: tl.constexpr,
):  # fmt: skip
    """Sums over a part of the columns, for a tile of rows that stays where it is."""
    wide: tl.constexpr = HEAD + TAIL
    stride: tl.constexpr = 2 * wide if HIGH else wide
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    part = tl.program_id(1)
    head = tl.arange(0, HEAD)[None, :]
    down = tl.arange(0, BN)
    left = A + row.to(tl.int64)[:, None] * stride
    a = tl.load(left + head)
    if TAIL > 0:
        tail = HEAD + tl.arange(0, TAIL)[None, :]
        a_tail = tl.load(left + tail)
    if HIGH:
        a_low = tl.load(left + wide + head)
        if TAIL > 0:
            a_low_tail = tl.load(left + wide + tail)
    if NORMS:
        ra = tl.load(RA + row).to(tl.float32)[:, None]
    first = part * per
    B += first.to(tl.int64) * stride
    across = down[:, None] * stride
    W += tl.program_id(2).to(tl.int64) * q + first
    RB += first
    total = tl.zeros((BM, 8), tl.float32)
    for _ in tl.range(0, tl.minimum(per, q - first), BN, num_stages=STAGES):
        b = tl.load(B + across + head)
        w = tl.load(W + down)
        x = tl.zeros((BM, BN), tl.float32)
        if TAIL > 0:
            b_tail = tl.load(B + across + tail)
        if HIGH:  # small terms first: tensor cores cut off digits of sums
            x = tl.dot(a_low, b.T, x)
            x = tl.dot(a, tl.load(B + across + wide + head).T, x)
            if TAIL > 0:
                x = tl.dot(a_low_tail, b_tail.T, x)
                x = tl.dot(a_tail, tl.load(B + across + wide + tail).T, x)
        x = tl.dot(a, b.T, x)
        if TAIL > 0:
            x = tl.dot(a_tail, b_tail.T, x)
        if NORMS:
            x += ra + tl.load(RB + down).to(tl.float32)[None, :]
        total += _weigh(x, w, shift, SHIFTED, EXP2, PACK, BM, BN)
        B += BN * stride
        W += BN
        RB += BN
    into = OUT + (tl.program_id(2) * tl.num_programs(1) + part).to(tl.int64) * p + row
    tl.store(into, tl.sum(total, axis=1), mask=row < p)


@jit(do_not_specialize=["p"])
def _deep_sums(
    A, B, RA, RB, W, OUT, p, q, per, shift, wide, HIGH: tl.constexpr, NORMS: tl.constexpr, SHIFTED: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, EXP2: tl.constexpr,
    PACK: tl.constexpr,
):  # fmt: skip
    """The same for long rows, which are read BK columns at a time."""
    stride = 2 * wide if HIGH else wide
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    part = tl.program_id(1)
    some = tl.arange(0, BK)[None, :]
    down = tl.arange(0, BN)
    left = A + row.to(tl.int64)[:, None] * stride + some
    if NORMS:
        ra = tl.load(RA + row).to(tl.float32)[:, None]
    first = part * per
    B += first.to(tl.int64) * stride
    across = down[:, None] * stride + some
    W += tl.program_id(2).to(tl.int64) * q + first
    RB += first
    total = tl.zeros((BM, 8), tl.float32)
    for _ in range(0, tl.minimum(per, q - first), BN):
        x = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(0, wide, BK, num_stages=STAGES):
            a = tl.load(left + k)
            b = tl.load(B + across + k)
            y = tl.zeros((BM, BN), tl.float32) if NORMS else x
            if HIGH:
                y = tl.dot(tl.load(left + wide + k), b.T, y)
                y = tl.dot(a, tl.load(B + across + wide + k).T, y)
            y = tl.dot(a, b.T, y)
            x = x + y if NORMS else y  # far out rows keep more digits so
        if NORMS:
            x += ra + tl.load(RB + down).to(tl.float32)[None, :]
        total += _weigh(x, tl.load(W + down), shift, SHIFTED, EXP2, PACK, BM, BN)
        B += BN * stride
        W += BN
        RB += BN
    into = OUT + (tl.program_id(2) * tl.num_programs(1) + part).to(tl.int64) * p + row
    tl.store(into, tl.sum(total, axis=1), mask=row < p)
