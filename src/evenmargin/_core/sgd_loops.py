"""Pegasos: one row a step, step size 1/t in units of the regulariser.

w_{t+1} = (1 − 1/t) w_t + (1/t) g_t, and so w_{t+1} = v_t / t with v_t = Σ g_j.
Only v is kept: a step without a gradient costs nothing, and there is no scale
to renormalise. Notation: `pull` is y·price/frequency of a row, g = −pull·slope·x.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._util.typing import Array, Floats, Index, LossLike
from ._bridge import slope
from ._jit import jit, prefetch
from .rows import Rows, add, dot, fetch, square

# Places in `tally`, the scalars that are carried between calls.
BIAS = 0  # the intercept; its sum of gradients where it is augmented
NORM2 = 1  # ‖v‖², kept only with a finite radius
HARMONIC = 2  # Σ 1/t over the steps, kept only for the average
BIAS_SUM = 3  # what `lagged` is for w, or the sum of free intercepts
TALLY = 4

FIXED, AUGMENTED, FREE = 0, 1, 2


class Iterate(NamedTuple):
    """Where the steps are."""

    v: Floats
    lagged: Floats  # Σ (Σ_{k<j} 1/k) g_j, from which the average is made; size 0: no average
    before: Floats  # the last iterate, to measure the change by; size 0: do not measure
    tally: Array


class Rule(NamedTuple):
    """How steps are taken."""

    bias: int
    rate: float  # of a free intercept, per unit of pull
    radius: float
    tol: float = 0.0  # stop when ‖w_{t+1} − w_t‖₁ is below it (needs `before`)


@jit
def steps(rows: Rows, pull: Array, loss: LossLike, order: Index, t: int, iterate: Iterate, rule: Rule) -> int:
    """Take the steps of `order` from step t on; return how many were taken."""
    v, lagged, before, tally = iterate
    bias, rate, radius, tol = rule
    averaging = lagged.size > 0
    projecting = radius < np.inf
    # In registers: the compiler cannot know that no array overlaps `tally`.
    b_state, norm2, harmonic, b_sum = tally[BIAS], tally[NORM2], tally[HARMONIC], tally[BIAS_SUM]
    # Rows are read in random order: ask for one so many steps before it is needed.
    ahead = 16 if v.size <= 256 else 4
    taken = order.size
    for k in range(order.size):
        i = order[k]
        soon = order[min(k + ahead, order.size - 1)]
        fetch(rows, soon)
        prefetch(pull, soon, 0)
        score = 0.0
        b = b_state
        if t > 0:
            inverse = 1.0 / t  # ready before the dot product is
            score = dot(rows, i, v) * inverse
            if bias == AUGMENTED:
                b *= inverse
        t += 1
        label = 1.0 if pull[i] > 0.0 else -1.0  # one array to read instead of two
        step = -pull[i] * slope(loss, label * (score + b), label)
        if step != 0.0:
            if projecting:
                norm2 += norm2_change(step, score * (t - 1), square(rows, i), bias, b_state)
            add(rows, i, step, v)
            if averaging:
                add(rows, i, step * harmonic, lagged)
            if bias == AUGMENTED:
                b_state += step
                b_sum += step * harmonic
            elif bias == FREE:
                b_state += rate * step / np.sqrt(t)
        if projecting:
            norm = np.sqrt(max(norm2, 0.0)) / t
            if norm > radius:
                shrink = radius / norm
                _scale_back(v, lagged, shrink, harmonic)
                norm2 *= shrink * shrink
                if bias == AUGMENTED:
                    b_sum -= harmonic * (1.0 - shrink) * b_state
                    b_state *= shrink
        if averaging:
            harmonic += 1.0 / t
            if bias == FREE:
                b_sum += b_state
        if before.size > 0 and _change(v, t, before) < tol:
            taken = k + 1
            break
    tally[BIAS], tally[NORM2], tally[HARMONIC], tally[BIAS_SUM] = b_state, norm2, harmonic, b_sum
    return taken


@jit
def norm2_change(step: float, inner: float, size: float, bias: int, b_state: float) -> float:
    """What a step along a row adds to ‖v‖²; `inner` is v·x and `size` ‖x‖², without the constant column."""
    if bias == AUGMENTED:
        size += 1.0
        inner += b_state
    return step * (2.0 * inner + step * size)


@jit
def _scale_back(v: Floats, lagged: Floats, shrink: float, harmonic: float) -> None:
    """v times `shrink`; the average keeps what it has summed so far."""
    for j in range(v.size):
        if lagged.size > 0:
            lagged[j] -= harmonic * (1.0 - shrink) * v[j]
        v[j] *= shrink


@jit
def _change(v: Floats, t: int, before: Floats) -> float:
    """‖v/t − before‖₁; `before` takes the new iterate."""
    change = 0.0
    for j in range(v.size):
        now = v[j] / t
        change += abs(now - before[j])
        before[j] = now
    return change
