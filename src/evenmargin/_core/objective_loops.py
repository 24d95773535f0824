"""The objective's data term and its gradient in one pass over X."""

from __future__ import annotations

from typing import Any

from ._bridge import slope, value
from ._jit import jit
from .rows import add, dot


@jit
def value_and_gradient(rows: Any, y: Any, price: Any, loss: Any, w: Any, b: float, gradient: Any) -> Any:
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
