"""The sums of `density.py` on a device: exact, and by random frequencies.

Exact sums take all of the kernel matrix, where those on the host take half of it: a
fused kernel never writes a tile, so that a second use of it would cost more than
computing it again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device import arrays, products
from .._util.typing import Array, Floats, Index
from ..kernels import Linear, kernel_dot

__all__ = ["exact_on_device", "fourier_on_device"]


def exact_on_device(points: products.Points, codes: Index, share: Array) -> Array:
    """Σ_j ±share_j K_ij for every row, + where i and j have the same code.

    Up to two codes take one product with a vector of both signs. More take one
    with all rows, and one for the rows of each code among themselves.
    """

    def sums(some: products.Points, v: Array) -> Array:
        return kernel_dot(points.kernel, some, some, v, precision="high")

    if codes.max() < 2:
        sign = 1.0 - 2.0 * codes
        return sign * sums(points, sign * share)
    found = -sums(points, share)
    for code in range(codes.max() + 1):
        rows = np.flatnonzero(codes == code)
        found[rows] += 2.0 * sums(points.take(rows), share[rows])
    return found


def fourier_on_device(X: arrays.Rows, centre: Any, waves: Floats, codes: Index, share: Array) -> tuple[Array, Array]:
    """The same by random frequencies, with standard errors.

    Angles are tiles of the linear kernel between rows and frequencies; sums over
    tiles are in float64.
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
        self.rows = products.Points(Linear(), X, waves.dtype, centre)
        columns = arrays.Rows.put(np.ascontiguousarray(waves.T), X.device)
        self.columns = products.Points(Linear(), columns, waves.dtype)

    def put(self, numbers: NDArray[Any], dtype: Any = None) -> Any:
        return arrays.put(numbers, self.device, dtype)

    def each(self, task: Any) -> None:
        """task(rows, frequencies, cosines, sines) for every tile."""

        def tile(i: slice, j: slice, angle: Any) -> None:
            products.outer_product(self.rows.left[i], self.columns.left[j], angle)
            task(i, j, angle.cos(), angle.sin_())

        products.over_tiles(self.rows, self.columns, tile)
