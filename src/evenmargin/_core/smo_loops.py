"""Sequential minimal optimisation on a working set whose kernel matrix is at hand.

    maximise  Σ β_i v_i − 1/2 ΔβᵀKΔβ,   lo ≤ β ≤ hi,  v = the gradient at β

The largest of many numbers is found with its place in one pass that vectorises: the bits of a float32, made to sort
like whole numbers, stand above the index in one 64-bit key. Choices are made in float32, steps are taken in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._util.typing import Array, Floats, Index
from ._jit import jit


class Coefficients(NamedTuple):
    """The coefficients of a working set, their box, and where they may go: 0, or −inf where they may not."""

    K: Floats
    beta: Array
    lo: Array
    hi: Array
    v: Array
    up: Array
    down: Array
    diagonal: Array  # of K


@jit
def pairs(block: Coefficients, tol: float, limit: int) -> int:
    """Steps along pairs, Σ β kept, until no pair violates by more than tol; returns how many.

    The first is the row that most wants to rise, the second the one with the largest gain (Fan, Chen and Lin 2005).
    """
    K, beta, lo, hi, v, up, down, diagonal = block
    m = v.size
    step = 0.0
    unit = 1.0 / max(np.max(diagonal), 1e-300)  # gains must not leave float32
    i = j = np.int64(0)
    for count in range(limit):
        best = np.int64(-0x7FFFFFFFFFFFFFFF)
        row_i, row_j = K[i], K[j]
        for k in range(m):
            now = v[k] - step * (row_i[k] - row_j[k])
            v[k] = now
            bits = np.int64(np.float32(now + up[k]).view(np.int32))
            bits ^= (bits >> np.int64(31)) & np.int64(0x7FFFFFFF)
            best = max(best, (bits << np.int64(32)) | np.int64(k))
        i = best & np.int64(0xFFFFFFFF)
        row_i, v_i, d_i = K[i], v[i], diagonal[i]
        best = np.int64(-1)
        worst = np.int64(0)
        for k in range(m):
            apart = max(np.float32(v_i - v[k] + down[k]), np.float32(0.0))
            curve = np.float32(max(unit * (d_i + diagonal[k] - 2.0 * row_i[k]), 1e-12))
            gain = np.int64(np.float32(apart * apart / curve).view(np.int32))
            best = max(best, (gain << np.int64(32)) | np.int64(k))
            worst = max(worst, np.int64(np.float32(apart).view(np.int32)))
        if np.int32(worst).view(np.float32) <= tol or up[i] < 0.0:
            return count
        j = best & np.int64(0xFFFFFFFF)
        bend = max(d_i + diagonal[j] - 2.0 * row_i[j], 1e-12 / unit)
        step = min((v_i - v[j]) / bend, hi[i] - beta[i], beta[j] - lo[j])
        _move(i, step, block)
        _move(j, -step, block)
    for k in range(m):
        v[k] -= step * (K[i, k] - K[j, k])
    return limit


@jit
def singles(block: Coefficients, tol: float, limit: int) -> int:
    """Steps along one coordinate at a time, that of the largest gain, until none violates by more than tol."""
    K, beta, lo, hi, v, up, down, diagonal = block
    m = v.size
    step = 0.0
    unit = 1.0 / max(np.max(diagonal), 1e-300)
    i = np.int64(0)
    for count in range(limit):
        best = np.int64(-1)
        worst = np.int64(0)
        row = K[i]
        for k in range(m):
            now = v[k] - step * row[k]
            v[k] = now
            wish = max(np.float32(now + up[k]), np.float32(down[k] - now), np.float32(0.0))
            curve = np.float32(max(unit * diagonal[k], 1e-12))
            gain = np.int64(np.float32(wish * wish / curve).view(np.int32))
            best = max(best, (gain << np.int64(32)) | np.int64(k))
            worst = max(worst, np.int64(np.float32(wish).view(np.int32)))
        if np.int32(worst).view(np.float32) <= tol:
            return count
        i = best & np.int64(0xFFFFFFFF)
        wanted = beta[i] + v[i] / max(diagonal[i], 1e-12 / unit)
        step = min(max(wanted, lo[i]), hi[i]) - beta[i]
        _move(i, step, block)
    for k in range(m):
        v[k] -= step * K[i, k]
    return limit


@jit
def _move(i: int, step: float, block: Coefficients) -> None:
    """Move one variable, onto its bound where it gets there, and note where it may still go."""
    _, beta, lo, hi, _, up, down, _ = block
    now = beta[i] + step
    width = 1e-12 * (hi[i] - lo[i]) if hi[i] - lo[i] < np.inf else 0.0
    if now >= hi[i] - width:
        now = hi[i]
    elif now <= lo[i] + width:
        now = lo[i]
    beta[i] = now
    up[i] = 0.0 if now < hi[i] else -np.inf
    down[i] = 0.0 if now > lo[i] else -np.inf


@jit
def add_rows(K: Floats, rows: Index, scale: Array, start: int, out: Array) -> None:
    """out += Σ scale_r · K[row_r, start : start + out.size]."""
    for r in range(rows.size):
        source, factor = K[rows[r]], scale[r]
        for k in range(out.size):
            out[k] += factor * source[start + k]


@jit
def gather(K: Floats, rows: Index, columns: Index, out: Array) -> None:
    """out = K[rows][:, columns]."""
    for i in range(rows.size):
        source = K[rows[i]]
        for j in range(columns.size):
            out[i, j] = source[columns[j]]
