"""Dual coordinate descent over the rows.

minimise over 0 ≤ α ≤ upper:
    1/2 ‖Σ α_i y_i (x_i; s)‖² + 1/2 Σ ridge_i α_i² − Σ α_i (1 − y_i b)

s is the value of a constant column (0: none) and b a fixed offset of the score.
w = Σ α_i y_i x_i and constant[0] = s Σ α_i y_i are kept up to date.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._jit import jit, prefetch
from .rows import add, dot, fetch, square


@jit
def squared_norms(rows: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = square(rows, i)


@jit
def epoch(
    rows: Any,
    y: Any,
    curvature: Any,
    upper: Any,
    ridge: Any,
    alpha: Any,
    w: Any,
    constant: Any,
    s: float,
    b: float,
    active: Any,
    n_active: int,
    shrink_above: float,
    shrink_below: float,
    seed: Any,
    out: Any,
) -> int:
    """One pass over the active rows in random order; returns how many stay active.

    A row at a bound whose gradient is beyond the worst of the last pass is put
    behind the active ones. `out` receives the largest and the smallest
    projected gradient of this pass.
    """
    most = -np.inf
    least = np.inf
    for k in range(n_active):
        # Marsaglia's xorshift picks the next row.
        seed[0] ^= seed[0] << np.uint64(13)
        seed[0] ^= seed[0] >> np.uint64(7)
        seed[0] ^= seed[0] << np.uint64(17)
        other = k + np.int64((seed[0] >> np.uint64(11)) % np.uint64(n_active - k))
        active[k], active[other] = active[other], active[k]
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
def weighted_rows(rows: Any, scale: Any, w: Any) -> None:
    """w += Σ scale_i x_i."""
    for i in range(scale.size):
        if scale[i] != 0.0:
            add(rows, i, scale[i], w)


@jit
def scores(rows: Any, w: Any, out: Any) -> None:
    """out_i = x_i · w."""
    for i in range(out.size):
        out[i] = dot(rows, i, w)
