"""Elementwise maps of kernel tiles, in place."""

from __future__ import annotations

import numpy as np

from .._util.typing import Floats, Single
from ._jit import jit, jit_exactly


@jit_exactly
def exp_of_negative(tile: Single) -> None:
    """exp of float32 numbers up to 0 (above, by rounding: taken as 0), to an absolute error of 1.5e-7.

    2^k · 2^f with k = x·log₂e rounded and |f| ≤ 1/2. k comes from a truncating
    cast and goes into the exponent bits; sums must not be reordered here.
    """
    rows, columns = tile.shape
    for i in range(rows):
        for j in range(columns):
            x = min(max(tile[i, j], np.float32(-87.0)), np.float32(0.0)) * np.float32(1.4426950408889634)
            k = np.int32(x - np.float32(0.5))
            f = x - np.float32(k)
            p = np.float32(1.5403530e-4)
            p = p * f + np.float32(1.3333558e-3)
            p = p * f + np.float32(9.6181291e-3)
            p = p * f + np.float32(5.5504109e-2)
            p = p * f + np.float32(2.4022651e-1)
            p = p * f + np.float32(6.9314718e-1)
            p = p * f + np.float32(1.0)
            tile[i, j] = np.int32((k + np.int32(127)) << np.int32(23)).view(np.float32) * p


@jit
def minus_l1(rows: Floats, columns: Floats, out: Floats) -> None:
    """out[i, j] = −Σ_k |rows[i, k] − columns[k, j]|.

    Four k at a time, since out is read and written for each.
    """
    d, m = columns.shape
    for i in range(rows.shape[0]):
        own = out[i]
        for j in range(m):
            own[j] = 0
        k = 0
        while k + 4 <= d:
            a, b, c, e = rows[i, k], rows[i, k + 1], rows[i, k + 2], rows[i, k + 3]
            w, x, y, z = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
            for j in range(m):
                own[j] -= abs(a - w[j]) + abs(b - x[j]) + abs(c - y[j]) + abs(e - z[j])
            k += 4
        while k < d:
            a, w = rows[i, k], columns[k]
            for j in range(m):
                own[j] -= abs(a - w[j])
            k += 1
