"""Nesterov's accelerated gradient over mini-batches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._util.typing import Array, Floats, Index, LossLike
from ._bridge import slope
from ._jit import jit
from .rows import Rows, add, dot


class Motion(NamedTuple):
    """The current point and its velocity, with working memory for two vectors."""

    w: Floats
    velocity: Floats
    ahead: Floats
    gradient: Floats
    bias: Array  # (b, its velocity)
    rate: Array  # (η,)


class Schedule(NamedTuple):
    """How steps are taken."""

    batch: int
    learn_bias: bool
    bias_penalty: float
    momentum: float
    decay: float
    compound: bool


@jit
def steps(
    rows: Rows, y: Floats, gain: Array, loss: LossLike, order: Index, t: int, motion: Motion, schedule: Schedule
) -> None:
    """One step for each `batch` indices of `order`."""
    w, velocity, ahead, gradient, bias, rate = motion
    batch, learn_bias, bias_penalty, momentum, decay, compound = schedule
    n = y.size
    for start in range(0, order.size, batch):
        b = bias[0] + momentum * bias[1]
        for j in range(w.size):
            ahead[j] = w[j] + momentum * velocity[j]
            gradient[j] = ahead[j] / n
        bias_gradient = bias_penalty * b / n
        for k in range(start, start + batch):
            i = order[k]
            margin = y[i] * (dot(rows, i, ahead) + b)
            pull = gain[i] / n / batch * slope(loss, margin, y[i]) * y[i]
            if pull != 0.0:
                add(rows, i, pull, gradient)
                bias_gradient += pull
        eta = w.dtype.type(rate[0])
        keep = w.dtype.type(momentum)
        for j in range(w.size):
            velocity[j] = keep * velocity[j] - eta * gradient[j]
            w[j] += velocity[j]
        if learn_bias:
            bias[1] = momentum * bias[1] - rate[0] * bias_gradient
            bias[0] += bias[1]
        rate[0] *= np.exp(-decay * t) if compound else np.exp(-decay)
        t += 1
