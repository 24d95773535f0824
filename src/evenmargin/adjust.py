"""Adjusting a trained machine: the best z, or the best threshold, for a metric.

z-SVM splits the score of a machine into the pull p of the positive support vectors and the rest q, which contains the
intercept, and strengthens p:

    f(x, z) = z·p(x) + q(x),   z ≥ 0,   positive where f > 0.

A metric of the four counts is a step function of z. Row i changes sides at −q_i/p_i, if that is positive: it becomes
positive there if p_i > 0 and negative if p_i < 0; with p_i = 0 it stays. So one sort and one cumulative sum find the
best z of all, in O(n log n). A threshold is the same with s_i + shift instead.

Rounding is part of the definition. fl(fl(z·p_i) + q_i) is monotone in z, so that row i changes sides exactly once among
the floating-point numbers: after e_i, the last z on the old side. The metric is constant for e_k < z ≤ e_{k+1}, and
every z in that interval attains it in the arithmetic that will be used to predict. That also settles the breakpoints
themselves, where f = 0 is negative: if such a point can be represented, it is an interval of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._input.scores import scores_of_two_classes
from ._util.typing import Array, Mask
from .metrics import (
    MCC,
    METRICS,
    TOLERANCE,
    BalancedAccuracy,
    CostMatrix,
    FBeta,
    GMean,
    Metric,
    MetricLike,
    get_metric,
    metric_values,
)

__all__ = [
    "MCC", "METRICS", "BalancedAccuracy", "BestThreshold", "BestZ", "CostMatrix", "FBeta", "GMean", "MetricCurve",
    "best_threshold", "best_z", "get_metric", "metric_curve",
]  # fmt: skip

_PLACES = ("upper", "middle", "lower")
_LARGEST = float(np.finfo(np.float64).max)
_SMALLEST = 1e-100  # a z below it counts as 0: products would underflow, which alone would separate rows
_MARGIN = 0.01  # of a plateau: the distance from its end, so that different rounding does not leave it
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


class BestZ(NamedTuple):
    """The chosen z, the metric there, and all z around it that attain the same."""

    z: float
    value: float
    interval: tuple[float, float]


class BestThreshold(NamedTuple):
    """The chosen threshold, the metric there, and all thresholds around it that attain the same."""

    threshold: float
    value: float
    interval: tuple[float, float]


def best_z(
    p: ArrayLike,
    q: ArrayLike,
    y: ArrayLike,
    metric: MetricLike = "gmean",
    sample_weight: ArrayLike | None = None,
    *,
    search: str = "exact",
    place: str = "upper",
    z_max: float | None = None,
    resolution: float = 0.0,
) -> BestZ:
    """The z ≥ 0 that gives the best metric when the rows with z·p + q > 0 are flagged.

    Parameters
    ----------
    p, q : array-like of shape (n,)
        The two parts of each score; the sums are taken in float64.
    y : array-like of shape (n,)
        The positive rows are those above 0 (or True).
    metric : {"gmean", "f1", "balanced_accuracy"}, a metric, cost matrix or callable, default="gmean"
        A callable takes arrays tp, fn, fp and tn and returns an array to be
        maximised; NaN counts as worst.
    sample_weight : array-like of shape (n,), default=None
        A weight of 2 counts the row twice; a row of weight 0 is ignored.
    search : {"exact", "golden"}, default="exact"
        "golden" is the golden section search of the paper on [0, z_max]. The metric is
        not unimodal, so it may miss the best z.
    place : {"upper", "middle", "lower"}, default="upper"
        Where on the plateau of best z, for "exact": "upper" and "lower" are 1 % of its
        width from the end. Of several plateaus, "lower" takes the lowest and the others
        the highest. Without an upper end, z is 1 % above the lower one, or 1 if that is
        larger.
    z_max : float or None, default=None
        For "golden". None: just past the last row that changes sides, and at least 1.
    resolution : float, default=0.0
        Skip plateaus narrower than this fraction of z, which only rounding separates.

    Returns
    -------
    BestZ
        z, value and interval: every z from `interval[0]` to `interval[1]` gives
        that value. Where no z changes the metric, z is 1 and the interval (0, inf).

    Examples
    --------
    >>> from evenmargin.adjust import best_z
    >>> p, q = [1.0, 0.8, 0.2, 0.1], [-0.5, -1.2, -0.8, -0.9]
    >>> best_z(p, q, [1, 1, 0, 0])
    BestZ(z=3.975, value=1.0, interval=(1.5, 4.0))
    """
    if search not in ("exact", "golden"):
        raise ValueError(f"search={search!r} is unknown; choose 'exact' or 'golden'.")
    if z_max is not None and not 0 < z_max < math.inf:
        raise ValueError(f"z_max={z_max!r} must be a finite number above 0.")
    steps = _z_steps(y, sample_weight, metric, p, q)
    if search == "golden" and np.ptp(steps.values) > 0:
        last = max(1.0, float(steps.ends[-1]) * (1.0 + _MARGIN))
        z = _golden_section(steps, min(last if z_max is None else float(z_max), _LARGEST))
        interval = steps.plateau(steps.index(z))
    else:
        narrow = resolution * np.append(steps.ends, 0.0)
        interval = steps.best_plateau(place, narrow)
        z = _inside(interval, place, neutral=1.0, scale=interval[0])
    return BestZ(z, steps.value(z), interval)


def best_threshold(
    scores: ArrayLike,
    y: ArrayLike,
    metric: MetricLike = "gmean",
    sample_weight: ArrayLike | None = None,
    *,
    place: str = "upper",
    neutral: float = 0.0,
    resolution: float = 0.0,
) -> BestThreshold:
    """The threshold that gives the best metric when the rows with scores above it are flagged.

    Parameters
    ----------
    scores : array-like of shape (n,)
    y : array-like of shape (n,)
        The positive rows are those above 0 (or True).
    metric, sample_weight
        As in `best_z`.
    place : {"upper", "middle", "lower"}, default="upper"
        Where on the plateau of best thresholds. As in `best_z`, "upper" raises
        the scores: it is the *smallest* threshold that is as good.
    neutral : float, default=0.0
        The threshold to return where none changes the metric, or where the plateau has
        one end only and `neutral` is more than 1 % of the range of scores inside it.
    resolution : float, default=0.0
        Skip plateaus narrower than this fraction of the largest score.

    Returns
    -------
    BestThreshold
        threshold, value and interval, as in `best_z`.

    Examples
    --------
    >>> from evenmargin.adjust import best_threshold
    >>> best_threshold([0.5, -0.25, -0.75, -1.0], [1, 1, 0, 0], place="middle")
    BestThreshold(threshold=-0.5, value=1.0, interval=(-0.75, -0.25000000000000006))
    """
    positive, weight, (score,) = scores_of_two_classes(y, sample_weight, scores=scores)
    steps = _threshold_steps(score, positive, weight, metric)
    largest = float(np.abs(score).max())
    low, high = steps.best_plateau(place, np.full(steps.values.size, resolution * largest))
    shift = _inside((low, high), place, neutral=-float(neutral), scale=float(np.ptp(score)) or largest or 1.0)
    return BestThreshold(0.0 - shift, steps.value(shift), (0.0 - high, 0.0 - low))


class MetricCurve(NamedTuple):
    """A metric as a step function: `values[k]` between `breaks[k - 1]` and `breaks[k]`, the ends being open."""

    breaks: Array
    values: Array


def metric_curve(
    y: ArrayLike,
    metric: MetricLike = "gmean",
    sample_weight: ArrayLike | None = None,
    *,
    scores: ArrayLike | None = None,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
) -> MetricCurve:
    """The metric for every threshold on `scores`, or for every z in z·p + q: what the searches maximise.

    Parameters
    ----------
    y : array-like of shape (n,)
        The positive rows are those above 0 (or True).
    metric, sample_weight
        As in `best_z`.
    scores : array-like of shape (n,), default=None
        For the curve over the threshold t; rows with scores above t are flagged.
    p, q : array-like of shape (n,), default=None
        For the curve over z ≥ 0; rows with z·p + q above 0 are flagged.

    Returns
    -------
    MetricCurve
        breaks, in ascending order, and one more value than breaks. At a break itself
        the value is the one above it for a threshold, and the one below it for z.
        Where the metric is NaN the value is −inf.

    Examples
    --------
    >>> from evenmargin.adjust import metric_curve
    >>> curve = metric_curve([1, 1, 0, 0], "balanced_accuracy", scores=[0.5, 0.25, 0.25, -1.0])
    >>> curve.breaks, curve.values
    (array([-1.  ,  0.25,  0.5 ]), array([0.5 , 0.75, 0.75, 0.5 ]))
    """
    if (scores is None) == (p is None) or (p is None) != (q is None):
        raise ValueError("metric_curve takes either scores, for a threshold, or both p and q, for z.")
    if p is not None and q is not None:
        steps = _z_steps(y, sample_weight, metric, p, q)
        return MetricCurve(steps.ends, steps.values)
    positive, weight, (score,) = scores_of_two_classes(y, sample_weight, scores=np.asarray(scores))
    steps = _threshold_steps(score, positive, weight, metric)
    return MetricCurve(0.0 - steps.ends[::-1], steps.values[::-1])


def _z_steps(y: ArrayLike, sample_weight: ArrayLike | None, metric: MetricLike, p: ArrayLike, q: ArrayLike) -> _Steps:
    """The metric over z."""
    positive, weight, (pull, rest) = scores_of_two_classes(y, sample_weight, p=p, q=q)
    moves = (pull != 0) & ((pull > 0) != (rest > 0))
    # Rising: the last z with z·|p| ≤ |q|. Falling: the last with z·|p| < |q|.
    rises, limit = pull > 0, np.abs(rest)
    limit = np.where(rises, limit, np.nextafter(limit, 0.0))
    ends = np.full(pull.size, np.inf)
    ends[moves] = _last_multiplier(np.abs(pull[moves]), limit[moves])
    ends[ends < _SMALLEST] = 0.0
    return _sweep(ends, np.where(rises, 1.0, -1.0), rest > 0, positive, weight, get_metric(metric), 0.0)


def _threshold_steps(score: Array, positive: Mask, weight: Array | None, metric: MetricLike) -> _Steps:
    """The metric over shifts: a threshold t is a shift −t, and row i is positive for shifts above −s_i."""
    return _sweep(
        -score, np.ones(score.size), np.zeros(score.size, np.bool_), positive, weight, get_metric(metric), -math.inf
    )


def _last_multiplier(a: Array, limit: Array) -> Array:
    """The largest z with fl(z·a) ≤ limit, for a > 0 and limit ≥ 0; both sides of it are within two steps of limit/a."""
    with np.errstate(over="ignore", under="ignore"):
        z = np.minimum(limit / a, _LARGEST)
        for _ in range(3):
            z = np.where(z * a > limit, np.nextafter(z, 0.0), z)
        for _ in range(3):
            above = np.nextafter(z, np.inf)
            z = np.where(above * a <= limit, above, z)
        far = np.flatnonzero((z * a > limit) | (np.nextafter(z, np.inf) * a <= limit))
        if far.size:  # products below the smallest number: halve over all numbers, which sort as their bits do
            a, limit = a[far], limit[far]
            low, high = np.zeros(far.size, dtype=np.int64), np.full(far.size, np.float64(_LARGEST).view(np.int64))
            while (low < high).any():
                middle = high - (high - low) // 2
                fits = middle.view(np.float64) * a <= limit
                low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
            z[far] = low.view(np.float64)
    return z


def run_around(good: Mask, k: int) -> tuple[int, int]:
    """First and last place of the unbroken run of good places around place k."""
    bad = np.flatnonzero(~good)
    place = int(np.searchsorted(bad, k))
    first = int(bad[place - 1]) + 1 if place > 0 else 0
    last = int(bad[place]) - 1 if place < bad.size else good.size - 1
    return first, last


@dataclass(frozen=True)
class _Steps:
    """A step function of x: values[k] for ends[k−1] < x ≤ ends[k], from `start` to infinity."""

    ends: Array
    values: Array
    start: float

    def index(self, x: float) -> int:
        return int(np.searchsorted(self.ends, x))

    def value(self, x: float) -> float:
        return float(self.values[self.index(x)])

    def plateau(self, k: int, good: Mask | None = None) -> tuple[float, float]:
        """First and last number around step k where the value is the same, or `good`."""
        first, last = run_around(self.values == self.values[k] if good is None else good, k)
        low = self.start if first == 0 else float(np.nextafter(self.ends[first - 1], np.inf))
        if first > 0 and self.start == 0:
            low = max(low, _SMALLEST)
        return low, (math.inf if last == self.ends.size else float(self.ends[last]))

    def best_plateau(self, place: str, narrow: Array) -> tuple[float, float]:
        """The plateau of the best value, of those not `narrow`; the first and the last step never are."""
        if place not in _PLACES:
            raise ValueError(f"place={place!r} is unknown; choose 'upper', 'middle' or 'lower'.")
        width = np.diff(self.ends, prepend=-np.inf, append=np.inf)
        wide = width >= narrow
        best = self.values[wide].max()
        good = self.values >= best - TOLERANCE * abs(best) if np.isfinite(best) else self.values >= best
        return self.plateau(int(np.flatnonzero(wide & good)[0 if place == "lower" else -1]), good)


def _sweep(
    ends: Array, signs: Array, at_start: Mask, positive: Mask, weight: Array | None, metric: Metric, start: float
) -> _Steps:
    """The metric over x, where rows become positive (sign 1) or negative (−1) after their ends."""
    weight = np.ones(positive.size) if weight is None else weight
    moves = np.flatnonzero(ends < _LARGEST)  # the ends of other rows are out of reach
    moves = moves[np.argsort(ends[moves], kind="stable")]
    ends, change, of_positive = ends[moves], signs[moves] * weight[moves], positive[moves]
    last = np.flatnonzero(np.diff(ends, append=np.inf) > 0)  # of each tie

    def flagged(true: Mask, moving: Mask) -> tuple[Array, Array]:
        """Weight of the rows of a class that are flagged and that are not, at each step."""
        whole = float(weight[true].sum())
        first = float(weight[true & at_start].sum())
        yes = np.append(first, first + np.cumsum(np.where(moving, change, 0.0))[last])
        no = whole - yes
        for count in (yes, no):
            count[count < TOLERANCE * whole] = 0.0
        return yes, no

    (tp, fn), (fp, tn) = flagged(positive, of_positive), flagged(~positive, ~of_positive)
    values = metric_values(metric, (tp, fn, fp, tn))
    values = np.where(np.isnan(values), -np.inf, values)
    if np.isneginf(values).all():
        raise ValueError("metric is NaN or −inf for every choice, so there is no best one: check the metric.")
    return _Steps(ends[last], values, start)


def _inside(interval: tuple[float, float], place: str, neutral: float, scale: float) -> float:
    """A number on a plateau: a share of its width from an end, or past its only end by a share of `scale`."""
    low, high = interval
    if math.isinf(low) and math.isinf(high):
        return neutral
    if math.isinf(high):
        x = max(neutral, low + _MARGIN * scale)
    elif math.isinf(low):
        x = min(neutral, high - _MARGIN * scale)
    else:
        x = low + {"lower": _MARGIN, "middle": 0.5, "upper": 1.0 - _MARGIN}[place] * (high - low)
    return min(max(x, low, -_LARGEST), high, _LARGEST)


def _golden_section(steps: _Steps, high: float) -> float:
    """Golden section search for the maximum on [0, high].

    The paper does not say what to do on a tie. The upper part is kept, as in the
    exact search, unless everything from there to `high` is no better than z = 0.
    """
    low, top = 0.0, steps.plateau(steps.index(high))[0]
    if steps.value(high) > steps.value(0.0):
        top = math.inf
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = steps.value(left), steps.value(right)
    while high - low > 1e-9 * high and high > 1e3 * _SMALLEST:
        if at_left > at_right or (at_left == at_right and left >= top):
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = steps.value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = steps.value(right)
    return left if at_left >= at_right else right
