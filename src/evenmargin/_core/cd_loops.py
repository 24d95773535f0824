"""Dual coordinate descent over the rows.

minimise over 0 ≤ α ≤ upper:
    1/2 ‖Σ α_i y_i (x_i; s)‖² + 1/2 Σ ridge_i α_i² − Σ α_i (1 − y_i b)

s is the value of a constant column (0: none) and b a fixed offset of the score.
w = Σ α_i y_i x_i and constant[0] = s Σ α_i y_i are kept up to date.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._util.typing import Array, Floats, Labels
from ._jit import jit, prefetch
from .rows import Rows, add, dot, fetch, square


@jit
def squared_norms(rows: Rows, out: Array) -> None:
    for i in range(out.size):
        out[i] = square(rows, i)


class Dual(NamedTuple):
    """The label of each row, the curvature, the box and the ridge of its α, and α."""

    y: Floats
    curvature: Array
    upper: Array
    ridge: Array
    alpha: Array


class Scope(NamedTuple):
    """The first n_active rows of `active`, and the projected gradients beyond which a row at a bound leaves them."""

    active: Labels
    n_active: int
    above: float
    below: float
    seed: NDArray[np.uint64]


@jit
def epoch(rows: Rows, dual: Dual, w: Array, constant: Array, s: float, b: float, scope: Scope, out: Array) -> int:
    """One pass over the active rows in random order; returns how many stay active.

    A row at a bound whose gradient is beyond the worst of the last pass is put behind the active ones. `out` receives
    the largest and the smallest projected gradient of this pass.
    """
    y, curvature, upper, ridge, alpha = dual
    active, n_active, shrink_above, shrink_below, seed = scope
    most = -np.inf
    least = np.inf
    _shuffle(active, n_active, seed)
    ahead = 8 if w.size <= 256 else 3
    k = 0
    while k < n_active:
        i = active[k]
        soon = active[min(k + ahead, n_active - 1)]
        fetch(rows, soon)
        prefetch(alpha, soon, 0)
        prefetch(curvature, soon, 0)
        gradient = y[i] * (dot(rows, i, w) + s * constant[0] + b) - 1.0 + ridge[i] * alpha[i]
        projected = gradient
        if alpha[i] <= 0.0:
            if gradient > shrink_above:
                n_active -= 1
                active[k] = active[n_active]
                active[n_active] = i
                continue
            projected = min(gradient, 0.0)
        elif alpha[i] >= upper[i]:
            if gradient < shrink_below:
                n_active -= 1
                active[k] = active[n_active]
                active[n_active] = i
                continue
            projected = max(gradient, 0.0)
        k += 1
        most = max(most, projected)
        least = min(least, projected)
        if projected != 0.0:
            old = alpha[i]
            if curvature[i] > 0.0:
                new = min(max(old - gradient / curvature[i], 0.0), upper[i])
            else:  # a row of zeros: nothing but its own bound holds it
                new = upper[i] if gradient < 0.0 else 0.0
            if new != old:
                alpha[i] = new
                step = (new - old) * y[i]
                add(rows, i, step, w)
                constant[0] += step * s
    out[0] = most
    out[1] = least
    return n_active


@jit
def _shuffle(active: Labels, n_active: int, seed: NDArray[np.uint64]) -> None:
    """The active rows in random order; Marsaglia's xorshift picks the next one."""
    for k in range(n_active):
        seed[0] ^= seed[0] << np.uint64(13)
        seed[0] ^= seed[0] >> np.uint64(7)
        seed[0] ^= seed[0] << np.uint64(17)
        other = k + np.int64((seed[0] >> np.uint64(11)) % np.uint64(n_active - k))
        active[k], active[other] = active[other], active[k]


@jit
def weighted_rows(rows: Rows, scale: Floats, w: Floats) -> None:
    """w += Σ scale_i x_i."""
    for i in range(scale.size):
        if scale[i] != 0.0:
            add(rows, i, scale[i], w)


@jit
def scores(rows: Rows, w: Floats, out: Array) -> None:
    """out_i = x_i · w."""
    for i in range(out.size):
        out[i] = dot(rows, i, w)
