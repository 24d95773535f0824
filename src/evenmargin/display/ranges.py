"""Ranges of a figure that outliers do not stretch and in which the rare class can be seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._util.typing import Array, Mask

__all__ = ["class_quantile", "typical_range"]


def class_quantile(values: Array, positive: Mask, weight: Array, shares: ArrayLike) -> Array:
    """Quantiles in which the two classes count the same, however rare one is."""
    mass = np.empty(values.size)
    for side in (positive, ~positive):
        mass[side] = weight[side] / max(float(weight[side].sum()), 1e-300)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(mass[order]) / mass.sum()
    places = np.searchsorted(reached, np.asarray(shares) - 1e-12)
    return values[order][np.minimum(places, values.size - 1)]


def typical_range(values: Array, positive: Mask, weight: Array) -> tuple[float, float]:
    """The range of the two classes without what lies far out.

    Far is 2.5 times the spread of the middle half: of a class, or, for all but 2 % of
    its rows at either end, of both classes together.
    """
    both = _reach(*class_quantile(values, positive, weight, [0.25, 0.75]))
    low, high = [], []
    for side in (positive, ~positive):
        own, alone = values[side], np.ones(int(side.sum()), dtype=np.bool_)
        first, lower, upper, last = class_quantile(own, alone, weight[side], [0.02, 0.25, 0.75, 0.98])
        reach = _reach(lower, upper)
        low.append(max(float(own.min()), min(reach[0], max(float(first), both[0]))))
        high.append(min(float(own.max()), max(reach[1], min(float(last), both[1]))))
    return (min(low), max(high)) if min(low) < max(high) else (min(low) - 0.5, max(high) + 0.5)


def _reach(lower: float, upper: float) -> tuple[float, float]:
    spread = 2.5 * float(upper - lower)
    return float(lower) - spread, float(upper) + spread
