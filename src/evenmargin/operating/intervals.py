"""What to expect on new rows: metrics with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtri, stdtrit

from .._input.scores import as_real
from .._util.typing import Array
from ..metrics import CostMatrix, rate
from .counts import ClassScores, LabelledScores, hits_and_misses
from .objectives import ObjectiveLike, get_objective

_PRIOR_ROWS = 10.0  # how many rows the expected variance of an area counts for


def wilson(hits: Array, misses: Array, level: float = 0.95) -> tuple[Array, Array]:
    """Wilson's score interval of a rate; (0, 1) where nothing was counted.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.operating import wilson
    >>> low, high = wilson(np.array([9.0]), np.array([1.0]))
    >>> low.round(2), high.round(2)
    (array([0.6]), array([0.98]))
    """
    return _score_interval(hits, misses, float(ndtri(0.5 + 0.5 * level)))


def _score_interval(hits: Array, misses: Array, quantile: float) -> tuple[Array, Array]:
    total, square = hits + misses, quantile**2
    centre = (hits + 0.5 * square) / (total + square)
    spread = hits * misses / np.where(total > 0, total, 1.0) + 0.25 * square
    half = quantile * np.sqrt(spread) / (total + square)
    # At the ends the formula is exact up to rounding only.
    return np.where(hits > 0, centre - half, 0.0), np.where(misses > 0, centre + half, 1.0)


class MetricInterval(NamedTuple):
    """A metric, and an interval that should contain its value on new rows."""

    value: float
    low: float
    high: float


def metric_interval(
    scores: ArrayLike,
    positive: ArrayLike,
    threshold: float = 0.0,
    metric: ObjectiveLike = "gmean",
    sample_weight: ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> MetricInterval:
    """A metric of the predictions at a threshold, with a confidence interval that holds up with few rows.

    Recall, specificity and precision have Wilson's interval. For a metric of both classes
    it lies between its quantiles when recall, specificity and the share of the positive
    class are independent, each with Jeffreys' distribution for its counts. ROC-AUC has
    DeLong's variance, blended with the expected one where rows are few.

    A threshold that was chosen on the same rows makes the value a little too good:
    in simulations G-mean by up to .02 with 10 positive rows, by up to .004 with 100.

    Parameters
    ----------
    scores : array-like of shape (n,) or (repeats, n)
        Scores of rows that the machine was not trained on; repeats are rounds of
        cross-validation, which are averaged and count as one.
    positive : array-like of shape (n,)
    threshold : float, default=0.0
    metric : default="gmean"
        "recall", "specificity", "precision", "roc_auc", or as in `get_objective`.
    sample_weight : array-like of shape (n,), default=None
    level : float, default=0.95

    Returns
    -------
    MetricInterval
        The metric and both ends of its interval.

    Examples
    --------
    >>> from evenmargin.operating import metric_interval
    >>> scores, positive = [-1.2, -1.0, -0.8, -0.2, 0.1, 0.4], [0, 0, 0, 1, 0, 1]
    >>> [round(number, 2) for number in metric_interval(scores, positive, -0.5, "recall")]
    [1.0, 0.34, 1.0]
    """
    if not 0 < as_real(level) < 1:
        raise ValueError(f"level={level!r} must lie between 0 and 1, such as 0.95.")
    if not math.isfinite(as_real(threshold)):
        raise ValueError(f"threshold={threshold!r} must be a finite number.")
    rounds = np.atleast_2d(scores)
    if rounds.ndim > 2 or rounds.size == 0:
        raise ValueError("scores must hold numbers: one for each row, or one for each round and row.")
    samples = [LabelledScores.of(row, positive, sample_weight) for row in rounds]
    if isinstance(metric, str) and metric == "roc_auc":
        return _auc_interval(samples, level)
    at = np.array([float(threshold)])
    tp, fn, fp, tn = counts = tuple(np.mean([sample.counts(at) for sample in samples], axis=0))
    rates = hits_and_misses(counts)
    if isinstance(metric, str) and metric in rates:
        hits, misses = rates[metric]
        low, high = wilson(hits, misses, level)
        return MetricInterval(float(rate(hits, misses)[0]), float(low[0]), float(high[0]))
    goal = get_objective(metric)
    value = float(goal(*counts)[0])
    total = tp + fn + fp + tn
    rises, falls, share = np.meshgrid(
        _plausible(tp, fn, 64), _plausible(tn, fp, 64), _plausible(tp + fn, fp + tn, 32), indexing="ij"
    )
    up, down = total * share, total * (1.0 - share)
    values = goal(rises * up, (1.0 - rises) * up, (1.0 - falls) * down, falls * down)
    low, high = np.nanquantile(values, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
    return MetricInterval(value, min(float(low), value), max(float(high), value))


def expected_cost(
    recall: float,
    specificity: float,
    positives: float,
    negatives: float,
    costs: Mapping[str, float] | CostMatrix | Sequence[Sequence[float]],
) -> MetricInterval:
    """The mean cost of a row, from the rates observed on this many rows of each class.

    Parameters
    ----------
    recall, specificity : float
    positives, negatives : float
        Rows of each class, for the certainty of the rates and the frequency of the classes.
    costs : mapping or matrix
        As in `get_objective`.

    Returns
    -------
    MetricInterval
        The cost, and the ends of its 95 % interval.

    Examples
    --------
    >>> from evenmargin.operating import expected_cost
    >>> [round(figure, 2) for figure in expected_cost(0.9, 0.95, 100, 900, {"fn": 10, "fp": 1})]
    [0.15, 0.1, 0.22]
    """
    goal = get_objective(costs)
    if goal.costs is None:
        raise ValueError(f"costs={costs!r} are not costs: give {{'fn': 100, 'fp': 1}}, for instance.")
    if not (math.isfinite(recall) and math.isfinite(specificity)):
        return MetricInterval(math.nan, math.nan, math.nan)
    weight = [positives * recall, positives * (1.0 - recall), negatives * (1.0 - specificity), negatives * specificity]
    gain = metric_interval([1.0, -1.0, 1.0, -1.0], [1, 1, 0, 0], 0.0, goal, weight)
    return MetricInterval(-gain.value, -gain.high, -gain.low)


def _plausible(hits: Array, misses: Array, count: int) -> Array:
    """Rates that the counts make plausible: quantiles of Jeffreys' distribution, at even steps of probability."""
    return np.asarray(betaincinv(hits + 0.5, misses + 0.5, (np.arange(count) + 0.5) / count))


def _auc_interval(samples: list[LabelledScores], level: float) -> MetricInterval:
    """Wilson's interval, for as many rows as would give a rate the variance of the area.

    DeLong's variance of few rows, or of an area near 1, is far too small. It has the weight of the positive rows, and
    the variance for two exponential distributions (Hanley and McNeil) that of ten more.
    """
    m, n = samples[0].positive.total, samples[0].negative.total
    areas, variances = zip(*map(_delong, samples), strict=True)
    area = float(np.mean(areas))
    near = (area * m + 0.5) / (m + 1.0)  # not 0 or 1, where no variance would be left
    of_pairs = near / (2.0 - near) - near**2, 2.0 * near**2 / (1.0 + near) - near**2
    expected = (near * (1.0 - near) + (m - 1.0) * of_pairs[0] + (n - 1.0) * of_pairs[1]) / (m * n)
    variance = (_PRIOR_ROWS * expected + m * float(np.mean(variances))) / (_PRIOR_ROWS + m)
    rows = near * (1.0 - near) / variance
    quantile = float(stdtrit(m + _PRIOR_ROWS - 1.0, 0.5 + 0.5 * level))
    low, high = _score_interval(np.array([area * rows]), np.array([(1.0 - area) * rows]), quantile)
    return MetricInterval(area, float(low[0]), float(high[0]))


def _delong(sample: LabelledScores) -> tuple[float, float]:
    """The area under the ROC curve and DeLong's variance of it."""
    above = _share_below(sample.positive.values, sample.negative)
    below = 1.0 - _share_below(sample.negative.values, sample.positive)
    area = float(np.average(above, weights=sample.positive.weight))
    variance = 0.0
    for part, side in ((above, sample.positive), (below, sample.negative)):
        variance += float(np.average((part - area) ** 2, weights=side.weight)) / max(side.total - 1.0, 1.0)
    return area, variance


def _share_below(values: Array, side: ClassScores) -> Array:
    """The share of a class below each score, ties counting one half."""
    below = np.append(0.0, np.cumsum(side.weight))
    first, last = (np.searchsorted(side.values, values, side=end) for end in ("left", "right"))
    return np.asarray(0.5 * (below[first] + below[last]) / below[-1])
