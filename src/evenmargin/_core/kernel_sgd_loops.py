"""The sequential part of blocked kernel SGD: the steps of one block, on its own tile of K."""

from __future__ import annotations

import numpy as np

from .._util.typing import Array, Floats, LossLike
from ._bridge import slope
from ._jit import jit
from .sgd_loops import AUGMENTED, BIAS, FREE, NORM2, Rule, norm2_change

SCALE = 2  # of `tally`: what the stored coefficients are to be multiplied by


@jit
def steps(K: Floats, scores: Array, pull: Array, loss: LossLike, t: int, tally: Array, rule: Rule, out: Array) -> float:
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
                norm2 += norm2_change(step, score * (t - 1), K[k, k], bias, b_state)
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
