"""Losses of many margins, elementwise."""

from __future__ import annotations

from typing import Any

from ._bridge import conjugate, slope, value
from ._jit import jit


@jit
def values(loss: Any, margins: Any, labels: Any, out: Any) -> None:
    for i in range(margins.size):
        out[i] = value(loss, margins[i], labels[i])


@jit
def slopes(loss: Any, margins: Any, labels: Any, out: Any) -> None:
    for i in range(margins.size):
        out[i] = slope(loss, margins[i], labels[i])


@jit
def conjugate_sum(loss: Any, alpha: Any, labels: Any, upper: Any) -> float:
    """Sum of upper_i · conjugate(alpha_i / upper_i)."""
    total = 0.0
    for i in range(alpha.size):
        total += upper[i] * conjugate(loss, alpha[i] / upper[i], labels[i])
    return total
