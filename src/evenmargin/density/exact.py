"""Exact densities: all pairs of rows, in tiles of the kernel matrix.

On the host each tile serves two blocks of rows: its rows sum to one, its columns to the other. Round r takes the pairs
of blocks (p, q) with p + q = r modulo their number. No block is in two pairs of a round and each pair is in one round,
so that threads may share a round, every sum has one order, and nothing is held but some tiles.

On a device the whole kernel matrix is computed, not half of it: a fused kernel never writes a tile, so using it twice
would cost more than computing it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._device import products
from .._util.threads import Workers
from .._util.typing import Array, Index
from ..kernels import Points, kernel_dot

_BLOCKS = 32  # blocks of rows at least, where rows are many; half as many tasks are open at a time
_PREPARED = 2 << 20  # bytes of prepared rows in a block


def exact_on_host(points: Points, codes: Index, share: Array) -> Array:
    """Σ_j ±share_j K_ij for every row, + where i and j have the same code."""
    with Workers.of(None, points.n * points.n) as pool:
        return _signed_sums(codes, share, lambda v, rows=None: _symmetric_sums(points, v, pool, rows))


def exact_on_device(points: products.DevicePoints, codes: Index, share: Array) -> Array:
    """The same on a device."""

    def sums(v: Array, rows: Index | None = None) -> Array:
        some = points if rows is None else points.take(rows)
        return kernel_dot(points.kernel, some, some, v, precision="high")

    return _signed_sums(codes, share, sums)


def _signed_sums(codes: Index, share: Array, sums: Callable[..., Array]) -> Array:
    """Signed sums from sums(v, rows), which is K·v over all rows or some.

    Up to two codes take one product with a vector of both signs. More take one
    with all rows, and one for the rows of each code among themselves.
    """
    if codes.max() < 2:
        sign = 1.0 - 2.0 * codes
        return sign * sums(sign * share)
    total = -sums(share)
    for code in range(codes.max() + 1):
        rows = np.flatnonzero(codes == code)
        total[rows] += 2.0 * sums(share[rows], rows)
    return total


def _symmetric_sums(points: Points, v: Array, pool: Workers, rows: Index | None = None) -> Array:
    """K·v, K the kernel matrix of all rows or of the given ones."""
    n, step, kernel = v.size, points.tile, points.kernel
    held = _PREPARED // (step * points.width * points.dtype.itemsize)
    size = step * max(1, min(-(-n // (_BLOCKS * step)), held))
    count = -(-n // size)
    out, small = np.zeros(n), v.astype(points.dtype)

    def tiles(block: int, prepare: Callable[[Any], Any]) -> list[tuple[slice, Any]]:
        """The tiles of rows of a block, prepared."""
        places = [slice(i, min(i + step, n)) for i in range(block * size, min((block + 1) * size, n), step)]
        return [(place, prepare(place if rows is None else rows[place])) for place in places]

    def task(pair: int) -> None:
        p, q = divmod(pair, count)
        columns = tiles(q, points.right)
        for down, (i, left) in enumerate(tiles(p, points.left)):
            for across, (j, right) in enumerate(columns):
                if p == q and across < down:
                    continue
                tile = kernel.combine(left, right, pool.buffer, True)
                kernel.apply(tile, compiled=True)
                out[i] += np.dot(tile, small[j])
                if i != j:
                    out[j] += np.dot(small[i], tile)

    for turn in range(count):
        pairs = [(p, (turn - p) % count) for p in range(count)]
        pairs.sort(key=lambda pair: pair[0] == pair[1])  # the halves last
        pool.each(task, [p * count + q for p, q in pairs if p <= q])
    return out
