"""Rows of two classes in bins and ranges in which the rare class can be seen, for figures and the report."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._util.typing import Array, Index, Mask
from ..operating import wilson

__all__ = ["CalibrationBins", "calibration_bins", "class_quantile", "typical_range"]


# --- bins of predictions ---


class CalibrationBins(NamedTuple):
    """Bins of predictions.

    `prob_true` is the share of positives in each, with a Wilson interval from `lower` to
    `upper`, `prob_pred` the mean prediction, `totals` the weight. `ece` is the expected
    calibration error, the mean of |prob_true − prob_pred| over rows, and `brier` the mean
    squared difference of predictions and outcomes.
    """

    prob_true: Array
    prob_pred: Array
    lower: Array
    upper: Array
    totals: Array
    ece: float
    brier: float


def calibration_bins(
    prob: Array, positive: Mask, weight: Array, n_bins: int, min_positives: float, counts: Array | None = None
) -> CalibrationBins:
    """Bins in which both classes count the same, joined until each holds a weight of `min_positives` of positives.

    `counts` are what the intervals take for rows; the weights if None.
    """
    bins = _join_bins(prob, positive, weight, n_bins, min_positives)
    parts = (weight, weight * positive, weight * prob, weight if counts is None else counts)
    totals, hits, sums, rows = (np.bincount(bins, weights=part).astype(np.float64) for part in parts)
    share, mean = hits / totals, sums / totals
    low, high = wilson(share * rows, (1.0 - share) * rows)
    ece = float(totals @ np.abs(share - mean) / totals.sum())
    brier = float(np.average(np.square(prob - positive), weights=weight))
    return CalibrationBins(share, mean, np.minimum(low, share), np.maximum(high, share), totals, ece, brier)


def _join_bins(prob: Array, positive: Mask, weight: Array, n_bins: int, enough: float) -> Index:
    """The bin of each row, from 0 on: equal predictions together, neighbours joined until positives are enough."""
    mass = np.where(positive, weight / weight[positive].sum(), weight / weight[~positive].sum())
    _, group = np.unique(prob, return_inverse=True)
    size = np.bincount(group, weights=mass)
    middle = (np.cumsum(size) - 0.5 * size) / size.sum()
    quantile = np.minimum((n_bins * middle + 1e-9).astype(np.intp), n_bins - 1)[group]
    positives = np.bincount(quantile, weights=weight * positive, minlength=n_bins)
    joined, held = np.zeros(n_bins, dtype=np.intp), 0.0
    for k in range(n_bins):
        if held >= max(enough, 1e-300):
            joined[k:] += 1
            held = 0.0
        held += positives[k]
    last = joined[-1]
    if last > 0 and held < enough:
        joined[joined == last] = last - 1
    return np.unique(joined[quantile], return_inverse=True)[1]


# --- ranges that outliers do not stretch ---


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
