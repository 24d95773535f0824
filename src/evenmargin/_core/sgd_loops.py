"""Pegasos: one row a step, step size 1/t in units of the regulariser.

w_{t+1} = (1 − 1/t) w_t + (1/t) g_t, and so w_{t+1} = v_t / t with v_t = Σ g_j.
Only v is kept: a step without a gradient costs nothing, and there is no scale
to renormalise. Notation: `gain` is price/frequency of a row, g = gain·(−slope)·y·x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._bridge import slope
from ._jit import jit, prefetch
from .rows import add, dot, fetch, square

# Places in `tally`, the scalars that are carried between calls.
BIAS = 0  # the intercept; its sum of gradients where it is augmented
NORM2 = 1  # ‖v‖², kept only with a finite radius
HARMONIC = 2  # Σ 1/t over the steps, kept only for the average
BIAS_SUM = 3  # what `lagged` is for w, or the sum of free intercepts
TALLY = 4

FIXED, AUGMENTED, FREE = 0, 1, 2


@jit
def steps(
    rows: Any,
    y: Any,
    gain: Any,
    loss: Any,
    order: Any,
    t: int,
    v: Any,
    lagged: Any,
    before: Any,
    tally: Any,
    bias: int,
    pull: float,
    radius: float,
    tol: float,
) -> int:
    """Take the steps of `order` from step t on; return how many were taken.

    lagged : Σ (Σ_{k<j} 1/k) g_j, from which the average is made; size 0: no average
    before : the last iterate, to measure the change by; size 0: do not measure
    pull   : rate of a free intercept, per unit of gain
    tol    : stop when ‖w_{t+1} − w_t‖₁ is below it (needs `before`)
    """
    averaging = lagged.size > 0
    projecting = radius < np.inf
    # Rows are read in random order: ask for one so many steps before it is needed.
    ahead = 16 if v.size <= 256 else 4
    for k in range(order.size):
        i = order[k]
        soon = order[min(k + ahead, order.size - 1)]
        fetch(rows, soon)
        prefetch(gain, soon, 0)
        prefetch(y, soon, 0)
        score = 0.0
        b = tally[BIAS]
        if t > 0:
            inverse = 1.0 / t  # ready before the dot product is
            score = dot(rows, i, v) * inverse
            if bias == AUGMENTED:
                b *= inverse
        t += 1
        step = -gain[i] * slope(loss, y[i] * (score + b), y[i]) * y[i]
        if step != 0.0:
            if projecting:
                size = square(rows, i)
                inner = score * (t - 1)
                if bias == AUGMENTED:
                    size += 1.0
                    inner += tally[BIAS]
                tally[NORM2] += step * (2.0 * inner + step * size)
            add(rows, i, step, v)
            if averaging:
                add(rows, i, step * tally[HARMONIC], lagged)
            if bias == AUGMENTED:
                tally[BIAS] += step
                tally[BIAS_SUM] += step * tally[HARMONIC]
            elif bias == FREE:
                tally[BIAS] += pull * step / np.sqrt(t)
        if projecting:
            norm = np.sqrt(max(tally[NORM2], 0.0)) / t
            if norm > radius:
                shrink = radius / norm
                for j in range(v.size):
                    if averaging:  # keep what the average has summed so far
                        lagged[j] -= tally[HARMONIC] * (1.0 - shrink) * v[j]
                    v[j] *= shrink
                tally[NORM2] *= shrink * shrink
                if bias == AUGMENTED:
                    tally[BIAS_SUM] -= tally[HARMONIC] * (1.0 - shrink) * tally[BIAS]
                    tally[BIAS] *= shrink
        if averaging:
            tally[HARMONIC] += 1.0 / t
            if bias == FREE:
                tally[BIAS_SUM] += tally[BIAS]
        if before.size > 0:
            change = 0.0
            for j in range(v.size):
                now = v[j] / t
                change += abs(now - before[j])
                before[j] = now
            if change < tol:
                return k + 1
    return order.size
