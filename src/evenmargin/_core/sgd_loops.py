"""Pegasos, with and without a kernel: one row a step, step size 1/t in units of the regulariser.

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
SCALE = 4  # with a kernel: what the stored coefficients are to be multiplied by
TALLY = 5

FIXED, AUGMENTED, FREE = 0, 1, 2


class Iterate(NamedTuple):
    """The current point, and what is kept with it."""

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
                norm2 += _norm2_change(step, score * (t - 1), square(rows, i), bias, b_state)
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
def kernel_steps(
    K: Floats, scores: Array, pull: Array, loss: LossLike, t: int, tally: Array, rule: Rule, out: Array
) -> float:
    """One step for each row of the block, from step t on.

    K      : of the block's rows among themselves
    scores : Σ c_j K(x_j, ·) of what came before the block, in units of the stored coefficients; changed in place
    pull   : y · price / frequency of the block's rows
    out    : what each step adds to its row's stored coefficient

    Returns what coefficients from before the block are to be multiplied by: 1,
    unless projections have made the scale so small that it is folded into them.
    """
    bias, rate, radius, _ = rule
    folded = 1.0
    b_state, norm2, scale = tally[BIAS], tally[NORM2], tally[SCALE]
    for k in range(pull.size):
        score = 0.0
        b = b_state
        if t > 0:
            score = scale * scores[k] / t
            if bias == AUGMENTED:
                b = b_state / t
        t += 1
        label = 1.0 if pull[k] > 0.0 else -1.0
        step = -pull[k] * slope(loss, label * (score + b), label)
        out[k] = step / scale
        if step != 0.0:
            if radius < np.inf:
                norm2 += _norm2_change(step, score * (t - 1), K[k, k], bias, b_state)
            added = step / scale
            for other in range(k + 1, pull.size):
                scores[other] += added * K[k, other]
            if bias == AUGMENTED:
                b_state += step
            elif bias == FREE:
                b_state += rate * step / np.sqrt(t)
        if radius < np.inf:
            norm = np.sqrt(max(norm2, 0.0)) / t
            if norm > radius:
                shrink = radius / norm
                scale *= shrink
                norm2 *= shrink * shrink
                if bias == AUGMENTED:
                    b_state *= shrink
                if scale < 1e-100:
                    for other in range(pull.size):
                        scores[other] *= scale
                    for other in range(k + 1):
                        out[other] *= scale
                    folded *= scale
                    scale = 1.0
    tally[BIAS], tally[NORM2], tally[SCALE] = b_state, norm2, scale
    return folded


@jit
def _norm2_change(step: float, inner: float, size: float, bias: int, b_state: float) -> float:
    """What a step along a row adds to ‖v‖²; `inner` is v·x and `size` ‖x‖², without the constant column."""
    if bias == AUGMENTED:
        size += 1.0
        inner += b_state
    return step * (2.0 * inner + step * size)


@jit
def _scale_back(v: Floats, lagged: Floats, shrink: float, harmonic: float) -> None:
    """Multiply v by `shrink`; the average keeps what it has summed so far."""
    for j in range(v.size):
        if lagged.size > 0:
            lagged[j] -= harmonic * (1.0 - shrink) * v[j]
        v[j] *= shrink


@jit
def _change(v: Floats, t: int, before: Floats) -> float:
    """Return ‖v/t − before‖₁, and put the new iterate into `before`."""
    change = 0.0
    for j in range(v.size):
        now = v[j] / t
        change += abs(now - before[j])
        before[j] = now
    return change
