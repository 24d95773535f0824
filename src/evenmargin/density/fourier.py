"""Approximate densities, by random Fourier features.

For the kernel they take cos(ω·(x_i − x_j)), averaged over D frequencies ω ~ N(0, 2γI). With φ(ω) = Σ_j exp(iω·x_j) that
is one pass for φ and one for

    s_i ≈ mean over ω of Re(exp(−iω·x_i) φ(ω)).

A kernel value k has the standard error (1 − k²)/√(2D), so that of s_i/n is at most √(1/(2D)). As the mean of |φ|² is
Σ_j s_j, it is also at most √(s̄/(Dn)), where s̄ is the mean of s, and about √(s̄/(2Dn)) where few rows are near.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._device import arrays, products
from .._util.threads import Workers
from .._util.typing import Array, Floats, Index, MatrixLike
from ..kernels import RBF, Linear

_BLOCKS = 32  # blocks of rows at least, where rows are many
_WAVES = 1 << 18  # cosines at a time
_LOST = 1e-4  # the error of an exponent from which distances have lost their digits


def precision_for(kernel: RBF, far: float, dtype: DTypeLike) -> np.dtype[Any]:
    """The given dtype, or float64 if it has too few digits for rows that are this `far` apart (see `reach`)."""
    if far * np.finfo(dtype).eps >= _LOST:
        dtype = np.float64
    if not far * np.finfo(dtype).eps < _LOST:
        raise ValueError(
            f"gamma={kernel.gamma:.1e} is so large for these rows that no digits of their distances are left: "
            "scale the features, for example with sklearn.preprocessing.StandardScaler, or choose a smaller gamma."
        )
    return np.dtype(dtype)


def fourier_on_host(
    X: MatrixLike, centre: Array | None, waves: Floats, codes: Index, share: Array
) -> tuple[Array, Array]:
    """Σ_j ±share_j K_ij for every row, + where i and j have the same code, with standard errors."""
    return fourier_spread(X, centre, waves, codes, fourier_phases(X, centre, waves, codes, share, int(codes.max()) + 1))


def draw_waves(kernel: RBF, width: int, count: int, seed: int, dtype: DTypeLike) -> Floats:
    """Frequencies ω as columns, the same ones wherever they are drawn."""
    waves = np.random.default_rng(seed).standard_normal((width, count))
    return (kernel.scale() * waves).astype(dtype)


def fourier_phases(
    X: MatrixLike, centre: Array | None, waves: Floats, codes: Index, share: Array, classes: int
) -> Array:
    """Σ_j share_j (cos ω·x_j, sin ω·x_j) over the rows of each class, of shape (classes, 2, frequencies)."""
    starts, size, step = _wave_blocks(share.size, waves.shape[1])
    phases = np.zeros((len(starts), classes, 2, waves.shape[1]))

    def gather(start: int) -> None:
        into = phases[start // size]
        for i in range(start, min(start + size, share.size), step):
            rows = slice(i, min(i + step, start + size, share.size))
            member = (share[rows] * (codes[rows] == np.arange(classes)[:, None])).astype(waves.dtype)
            for part, wave in enumerate(_angles(X, centre, waves, rows)):
                into[:, part] += member @ wave

    with Workers.of(None, share.size * waves.shape[1]) as pool:
        pool.each(gather, starts)
    return np.asarray(phases.sum(axis=0))


def fourier_spread(
    X: MatrixLike, centre: Array | None, waves: Floats, codes: Index, phase: Array
) -> tuple[Array, Array]:
    """Own class less the others for every row, given the phases of all rows, with standard errors."""
    n, count = codes.size, waves.shape[1]
    starts, size, step = _wave_blocks(n, count)
    total = (2.0 * phase - phase.sum(axis=0)).astype(waves.dtype)
    sums, errors = np.empty(n), np.empty(n)

    def spread(start: int) -> None:
        for i in range(start, min(start + size, n), step):
            rows = slice(i, min(i + step, start + size, n))
            cosine, sine = _angles(X, centre, waves, rows)
            cosine *= total[codes[rows], 0]
            sine *= total[codes[rows], 1]
            cosine += sine
            sums[rows] = cosine.mean(axis=1, dtype=np.float64)
            errors[rows] = cosine.std(axis=1, dtype=np.float64) / (math.sqrt(count - 1) or np.nan)

    with Workers.of(None, n * count) as pool:
        pool.each(spread, starts)
    return sums, errors


def _wave_blocks(n: int, count: int) -> tuple[range, int, int]:
    """Where blocks of rows start, the rows in a block, and the rows computed at a time."""
    step = max(16, _WAVES // count)
    size = step * max(1, -(-n // (_BLOCKS * step)))
    return range(0, n, size), size, step


def _angles(X: MatrixLike, centre: Array | None, waves: Floats, rows: slice) -> tuple[Any, Any]:
    some = X[rows] if centre is None else X[rows] - centre
    angle = np.asarray(some @ waves, dtype=waves.dtype)
    return np.cos(angle), np.sin(angle, out=angle)


def fourier_on_device(X: arrays.Rows, centre: Any, waves: Floats, codes: Index, share: Array) -> tuple[Array, Array]:
    """`fourier_on_host` on a device.

    Angles are tiles of the linear kernel between rows and frequencies; sums over tiles are in float64.
    """
    classes, count = int(codes.max()) + 1, waves.shape[1]
    angles = _Angles(X, centre, waves)
    member = angles.put(share * (codes == np.arange(classes)[:, None]), waves.dtype)
    code = angles.put(codes)
    phase = arrays.zeros((2, classes, count), X.device)
    first, second = (arrays.zeros(share.size, X.device) for _ in range(2))

    def gather(i: slice, j: slice, cosine: Any, sine: Any) -> None:
        both = member[:, i] @ cosine, member[:, i] @ sine
        phase[0, :, j] += both[0]
        phase[1, :, j] += both[1]

    angles.each(gather)
    total = (2.0 * phase - phase.sum(dim=1, keepdim=True)).to(member.dtype)  # the own class less the others

    def spread(i: slice, j: slice, cosine: Any, sine: Any) -> None:
        for wave, part in zip((cosine, sine), total, strict=True):
            wave.mul_(part[:, j] if classes == 1 else part[:, j][code[i]])
        found = cosine.add_(sine).double()
        both = found.sum(dim=1), found.square().sum(dim=1)
        first[i] += both[0]
        second[i] += both[1]

    angles.each(spread)
    sums, squares = (arrays.to_host(each) / count for each in (first, second))
    deviation = np.sqrt(np.maximum(squares - sums * sums, 0.0))
    return sums, deviation / (math.sqrt(count - 1) or np.nan)


class _Angles:
    """Cosines and sines of ω·x, in tiles of rows × frequencies."""

    def __init__(self, X: arrays.Rows, centre: Any, waves: Floats) -> None:
        self.device = X.device
        self.rows = products.DevicePoints(Linear(), X, waves.dtype, centre)
        columns = arrays.Rows.put(np.ascontiguousarray(waves.T), X.device)
        self.columns = products.DevicePoints(Linear(), columns, waves.dtype)

    def put(self, numbers: NDArray[Any], dtype: Any = None) -> Any:
        return arrays.put(numbers, self.device, dtype)

    def each(self, task: Callable[[slice, slice, Any, Any], None]) -> None:
        """task(rows, frequencies, cosines, sines) for every tile."""

        def tile(i: slice, j: slice, angle: Any) -> None:
            products.outer_product(self.rows.left[i], self.columns.left[j], angle)
            task(i, j, angle.cos(), angle.sin_())

        products.over_tiles(self.rows, self.columns, tile)
