"""Losses of many rows: elementwise, their conjugates, and their sum with its gradient."""

from __future__ import annotations

from .._util.typing import Array, Floats, LossLike
from ._bridge import conjugate, curvature, slope, value
from ._jit import jit
from .rows import Rows, add, dot


@jit
def values(loss: LossLike, margins: Floats, labels: Floats, out: Floats) -> None:
    for i in range(margins.size):
        out[i] = value(loss, margins[i], labels[i])


@jit
def slopes(loss: LossLike, margins: Floats, labels: Floats, out: Floats) -> None:
    for i in range(margins.size):
        out[i] = slope(loss, margins[i], labels[i])


@jit
def curvatures(loss: LossLike, margins: Floats, labels: Floats, price: Array, out: Floats) -> None:
    for i in range(out.size):
        out[i] = price[i] * curvature(loss, margins[i], labels[i])


@jit
def conjugate_sum(loss: LossLike, alpha: Array, labels: Floats, upper: Array) -> float:
    """Sum of upper_i · conjugate(alpha_i / upper_i)."""
    total = 0.0
    for i in range(alpha.size):
        total += upper[i] * conjugate(loss, alpha[i] / upper[i], labels[i])
    return total


@jit
def value_and_gradient(
    rows: Rows, y: Floats, price: Array, loss: LossLike, w: Floats, b: float, gradient: Array
) -> tuple[float, float]:
    """Σ price·loss and its derivative by b; adds the derivative by w to `gradient`.

    A row is read once, for its score and, while it is in cache, for its pull.
    """
    total = 0.0
    by_b = 0.0
    for i in range(y.size):
        margin = y[i] * (dot(rows, i, w) + b)
        total += price[i] * value(loss, margin, y[i])
        pull = price[i] * slope(loss, margin, y[i]) * y[i]
        if pull != 0.0:
            add(rows, i, pull, gradient)
            by_b += pull
    return total, by_b
