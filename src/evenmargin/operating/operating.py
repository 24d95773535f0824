"""Where to cut the scores of a machine, what to expect there, and what a score means as a probability.

All of it knows scores, labels and weights only. Scores should be of rows that
the machine was not trained on. A row is called positive where its score is above
the threshold. A weight of 2 is a row twice, everywhere.

With few positive rows the best threshold of a sample is mostly luck: the metric
is a step function, and its highest step is where noise put it. `choose_threshold`
therefore smooths the scores of each class by a Gaussian, of the width that
Silverman's rule gives,

    h = 0.9 · min(sd, IQR/1.34) · n^(−1/5),

and takes the best threshold of the smoothed counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincc, betaincinv, expit, ndtr, ndtri, stdtrit

from .._util.typing import Array, Index, Mask
from ..adjust import best_threshold
from ..metrics import MCC, BalancedAccuracy, CostMatrix, FBeta, GMean, Metric, get_metric, recall, specificity

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Calibrator",
    "Choice",
    "Floor",
    "MetricInterval",
    "Objective",
    "choose_threshold",
    "expected_cost",
    "get_objective",
    "metric_interval",
    "operating_curve",
    "wilson",
]


_COUNTS = ("tp", "fn", "fp", "tn")
_GROUPS = 1000  # groups of neighbouring scores that stand for a class when it is smoothed
_GRID = 1000  # thresholds on an even grid, besides those between scores
_TIE = 1e-12  # relative: what sums may lose to rounding
_PRIOR_ROWS = 10.0  # what the expected variance of an area counts for


# --- objectives ---


@dataclass(frozen=True)
class Floor:
    """The least recall or precision that is asked for.

    With a confidence, the rate that holds for new rows must be at least `level`
    with that confidence, by the exact (Clopper–Pearson) bound; without, it is
    enough that the rate of the given rows is.
    """

    rate: str
    level: float
    confidence: float | None = None

    def attained(self, tp: Array, fn: Array, fp: Array) -> Array:
        """The rate, or how sure it is that the rate is above the floor; NaN where nothing is called positive."""
        misses = fn if self.rate == "recall" else fp
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(tp + misses > 0, tp / (tp + misses), np.nan)
        if self.confidence is None:
            return rate
        return np.where(np.isnan(rate), np.nan, betaincc(np.maximum(tp, 1e-12), misses + 1.0, self.level))

    @property
    def needed(self) -> float:
        return (self.level if self.confidence is None else self.confidence) * (1.0 - _TIE)


@dataclass(frozen=True)
class Objective:
    """What to make best: a function of the four counts, perhaps above a floor.

    Called with tp, fn, fp and tn it gives the value to be maximised. `str()` of it
    is its name, in words.

    Attributes
    ----------
    name : str
    metric : callable
    floor : Floor or None
    """

    name: str
    metric: Metric
    floor: Floor | None = None

    def __str__(self) -> str:
        return self.name

    def __call__(self, tp: Array, fn: Array, fp: Array, tn: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.asarray(self.metric(tp, fn, fp, tn), dtype=np.float64)
        if values.shape != np.shape(tp):
            raise ValueError("objective must return one number for each element of the arrays tp, fn, fp and tn.")
        return values

    @property
    def has_floor(self) -> bool:
        return self.floor is not None

    @property
    def costs(self) -> CostMatrix | None:
        """The costs, if the objective is one of costs."""
        return self.metric if isinstance(self.metric, CostMatrix) else None

    def reached(self, tp: Array, fn: Array, fp: Array) -> Mask:
        """Where the floor is reached; everywhere, if there is none."""
        if self.floor is None:
            return np.ones(np.shape(tp), dtype=np.bool_)
        return np.asarray(self.floor.attained(tp, fn, fp) >= self.floor.needed)

    def rank(self, tp: Array, fn: Array, fp: Array, tn: Array) -> Array:
        """What to sort thresholds by: the value; below a floor, always less, by how far below it is."""
        values = self(tp, fn, fp, tn)
        if self.floor is not None:
            attained = self.floor.attained(tp, fn, fp)
            short = np.minimum(attained, self.floor.needed) - 2.0
            values = np.where(attained >= self.floor.needed, values, short + 1e-9 * values)
        return np.where(np.isnan(values), -np.inf, values)


def get_objective(objective: Any) -> Objective:
    """The objective for a name, costs, a floor, a metric or a function.

    Parameters
    ----------
    objective : str, mapping, cost matrix, callable or Objective
        - "gmean", "balanced_accuracy", "f1" or "mcc";
        - costs, ``{"fn": 100, "fp": 1}``, with "tp" and "tn" if these cost too, or
          the matrix [[tn, fp], [fn, tp]]: to be made least;
        - ``{"recall": 0.95}``: the best specificity with at least this recall;
        - ``{"precision": 0.9}``: the best recall with at least this precision;
        - a function of arrays (tp, fn, fp, tn), to be made largest, such as the
          metrics of `evenmargin.adjust`.

        About half of new samples fall below a floor that the given rows just
        reach. ``{"recall": 0.95, "confidence": 0.9}`` keeps enough distance for
        the recall of new rows to be at least .95 in nine of ten cases. That takes
        rows: at least log(1 − confidence)/log(recall) positive ones, here 45.

    Returns
    -------
    Objective

    Examples
    --------
    >>> from evenmargin.operating import get_objective
    >>> print(get_objective({"fn": 100, "fp": 1}))
    cost with fn = 100, fp = 1
    >>> print(get_objective({"recall": 0.95, "confidence": 0.9}))
    recall of at least 95 % with 90 % confidence
    >>> get_objective({"recall": 0.95}).has_floor
    True
    """
    if isinstance(objective, Objective):
        return objective
    if isinstance(objective, Mapping):
        keys = set(objective)
        if keys & {"recall", "precision"}:
            return _floor_objective(objective)
        return _cost_objective(objective)
    try:
        metric = get_metric(objective)
    except ValueError as error:
        if isinstance(objective, list | tuple | np.ndarray):
            raise ValueError(f"objective: {error}") from None
        raise ValueError(
            f"objective={objective!r} is unknown; choose 'gmean', 'balanced_accuracy', 'f1', 'mcc', costs such as "
            "{'fn': 100, 'fp': 1}, a floor such as {'recall': 0.95} or {'precision': 0.9}, "
            "or a function of (tp, fn, fp, tn)."
        ) from None
    return Objective(_name(metric), metric)


def _name(metric: Metric) -> str:
    match metric:
        case GMean():
            return "G-mean"
        case BalancedAccuracy():
            return "balanced accuracy"
        case MCC():
            return "Matthews correlation"
        case FBeta():
            return f"F{metric.beta:g}"
        case CostMatrix():
            (tn, fp), (fn, tp) = metric.costs
            more = "".join(f", {name} = {cost:g}" for name, cost in (("tp", tp), ("tn", tn)) if cost)
            return f"cost with fn = {fn:g}, fp = {fp:g}{more}"
    return str(getattr(metric, "__name__", type(metric).__name__))


def _number(value: Any) -> float:
    return float(value) if isinstance(value, Real) and not isinstance(value, bool | np.bool_) else math.nan


def _cost_objective(costs: Mapping[str, Any]) -> Objective:
    if not {"fn", "fp"} <= set(costs) <= set(_COUNTS):
        raise ValueError(
            f"objective={dict(costs)!r}: costs need 'fn' (a positive row missed) and 'fp' (a false alarm) and may have "
            "'tp' and 'tn'; a floor is {'recall': 0.95} or {'precision': 0.9}."
        )
    tp, fn, fp, tn = (_number(costs.get(name, 0.0)) for name in _COUNTS)
    if not all(map(math.isfinite, (tp, fn, fp, tn))):
        raise ValueError(f"objective={dict(costs)!r}: every cost must be a finite number.")
    if fn <= tp or fp <= tn:
        raise ValueError(
            f"objective={dict(costs)!r}: a mistake must cost more than the right call, "
            "'fn' more than 'tp' and 'fp' more than 'tn', or one answer for all rows is best."
        )
    metric = CostMatrix([[tn, fp], [fn, tp]])
    return Objective(_name(metric), metric)


def _floor_objective(floor: Mapping[str, Any]) -> Objective:
    rates = [key for key in floor if key != "confidence"]
    if len(rates) != 1:
        raise ValueError(
            f"objective={dict(floor)!r}: a floor has 'recall' or 'precision', perhaps 'confidence', and nothing else."
        )
    rate, level = rates[0], _number(floor[rates[0]])
    if not 0 < level <= 1:
        raise ValueError(f"objective={dict(floor)!r}: the {rate} must be above 0 and at most 1, such as 0.95 for 95 %.")
    confidence = None if floor.get("confidence") is None else _number(floor["confidence"])
    if confidence is not None and not (0 < confidence < 1 and level < 1):
        raise ValueError(
            f"objective={dict(floor)!r}: the confidence must lie between 0 and 1, such as 0.9, "
            f"and the {rate} below 1, which no sample makes certain."
        )
    sure = "" if confidence is None else f" with {100 * confidence:g} % confidence"
    return Objective(
        f"{rate} of at least {100 * level:g} %{sure}",
        specificity if rate == "recall" else recall,
        Floor(rate, level, confidence),
    )


# --- counts at thresholds, exact and smoothed ---


@dataclass(frozen=True)
class _Side:
    """The scores of one class: distinct and ascending, with the weight of each."""

    values: Array
    weight: Array

    @classmethod
    def of(cls, scores: Array, weight: Array | None) -> _Side:
        if weight is None:
            scores = np.sort(scores)
            first = np.flatnonzero(np.diff(scores, prepend=-np.inf) > 0)
            return cls(scores[first], np.diff(first, append=scores.size).astype(np.float64))
        order = np.argsort(scores, kind="stable")
        scores, weight = scores[order], weight[order]
        first = np.flatnonzero(np.diff(scores, prepend=-np.inf) > 0)
        return cls(scores[first], np.add.reduceat(weight, first))

    @property
    def total(self) -> float:
        return float(self.weight.sum())

    def counts(self, thresholds: Array) -> tuple[Array, Array]:
        """Weight above each threshold, and at or below it; each sum begins at its own end, so that 0 is 0."""
        below = np.append(0.0, np.cumsum(self.weight))
        above = np.append(np.cumsum(self.weight[::-1])[::-1], 0.0)
        place = np.searchsorted(self.values, thresholds, side="right")
        return above[place], below[place]

    def smoothed_counts(self, thresholds: Array, width: float) -> tuple[Array, Array]:
        """The same if every score were a Gaussian of this width."""
        above = np.empty(thresholds.size)
        for i in range(0, thresholds.size, 256):
            apart = self.values - thresholds[i : i + 256, None]
            above[i : i + 256] = ndtr(apart / width) @ self.weight
        above = np.minimum(above, self.total)
        return above, self.total - above

    def quantiles(self, shares: ArrayLike) -> Array:
        """Scores with at least these shares of the weight at or below them, none twice."""
        cumulated = np.cumsum(self.weight)
        places = np.searchsorted(cumulated, np.asarray(shares) * (cumulated[-1] * (1.0 - _TIE)))
        return np.unique(self.values[np.minimum(places, self.values.size - 1)])

    @property
    def width(self) -> float:
        """Silverman's width of a Gaussian kernel; 0 where all scores are the same."""
        mean = float(np.average(self.values, weights=self.weight))
        spread = math.sqrt(float(np.average((self.values - mean) ** 2, weights=self.weight)))
        middle = float(np.ptp(self.quantiles([0.25, 0.75]))) / 1.34
        return 0.9 * (min(spread, middle) if middle > 0 else spread) * max(self.total, 1.0) ** -0.2

    def grouped(self, groups: int) -> _Side:
        """At most about that many scores in place of all: means of neighbours, small groups in the tails."""
        if self.values.size <= groups:
            return self
        first = _spread(self.weight, groups)
        weight = np.add.reduceat(self.weight, first)
        return _Side(np.add.reduceat(self.weight * self.values, first) / weight, weight)


def _spread(weight: Array, groups: int) -> Index:
    """Where to cut a sorted list into groups: evenly in the log-odds of the share below, so finely in both tails."""
    cumulated = np.cumsum(weight)
    reach = math.log(2.0 * weight.size)
    shares = expit(np.linspace(-reach, reach, groups))
    return np.unique(np.append(0, np.searchsorted(cumulated, shares[:-1] * cumulated[-1])))


@dataclass(frozen=True)
class _Sample:
    positive: _Side
    negative: _Side

    def counts(self, thresholds: Array) -> tuple[Array, Array, Array, Array]:
        return (*self.positive.counts(thresholds), *self.negative.counts(thresholds))

    @property
    def distinct(self) -> Array:
        return np.union1d(self.positive.values, self.negative.values)


def _sample(scores: ArrayLike, positive: ArrayLike, sample_weight: ArrayLike | None) -> _Sample:
    """Checked rows, those of weight 0 left out, by class."""
    score, label = _vector(scores, "scores"), _vector(positive, "positive")
    weight = None if sample_weight is None else _vector(sample_weight, "sample_weight")
    sizes = [part.size for part in (score, label, weight) if part is not None]
    if len(set(sizes)) > 1:
        sizes_text = ", ".join(map(str, sizes))
        raise ValueError(f"scores, positive and sample_weight must have the same length, not {sizes_text}.")
    if weight is not None:
        if (weight < 0).any():
            raise ValueError("sample_weight must not be below 0.")
        score, label, weight = score[weight > 0], label[weight > 0], weight[weight > 0]
    true = label > 0
    if not true.any() or true.all():
        raise ValueError("positive must mark rows of both classes (True: positive), with a weight above 0.")
    sides = (_Side.of(score[of], None if weight is None else weight[of]) for of in (true, ~true))
    return _Sample(*sides)


def _vector(values: ArrayLike, name: str) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers, one for each row.") from None
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError(f"{name} must hold one finite number for each row.")
    return array


def _between(values: Array) -> Array:
    """A threshold between each two neighbours, at or above the lower and below the upper one."""
    low, high = values[:-1], values[1:]
    middle = low + 0.5 * (high - low)
    return np.where(middle < high, middle, low)


# --- the threshold ---


class Choice(NamedTuple):
    """A threshold, and what it does to the rows it was chosen on.

    `value` is what is maximised, from the exact counts tp, fn, fp and tn of these
    rows; `reached` is False where no threshold reaches the floor of the objective,
    and the threshold is the one that comes nearest.
    """

    threshold: float
    value: float
    reached: bool
    tp: float
    fn: float
    fp: float
    tn: float


def choose_threshold(
    scores: ArrayLike,
    positive: ArrayLike,
    objective: Any = "gmean",
    sample_weight: ArrayLike | None = None,
    *,
    smooth: bool = True,
) -> Choice:
    """The threshold that is best for an objective.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Of rows that the machine was not trained on.
    positive : array-like of shape (n,)
        True (or above 0) for positive rows.
    objective : default="gmean"
        As in `get_objective`.
    sample_weight : array-like of shape (n,), default=None
        A weight of 2 is a row twice, a weight of 0 no row.
    smooth : bool, default=True
        Smooth the scores of each class first, which does better on new rows. A
        floor must then be reached by the smoothed counts as well as by the exact
        ones, where some threshold does both. A floor with a confidence keeps its
        distance already and is not smoothed, nor is one of 1, which smoothed
        counts never reach. False: the middle of the thresholds that are best for
        the rows as they are.

    Returns
    -------
    Choice

    Examples
    --------
    >>> from evenmargin.operating import choose_threshold
    >>> scores, positive = [-1.2, -1.0, -0.8, -0.2, 0.1, 0.4], [0, 0, 0, 1, 0, 1]
    >>> choose_threshold(scores, positive, {"recall": 0.9}, smooth=False)
    Choice(threshold=-0.5, value=0.75, reached=True, tp=2.0, fn=0.0, fp=1.0, tn=3.0)
    """
    goal, sample = get_objective(objective), _sample(scores, positive, sample_weight)
    exact = goal.floor is not None and (goal.floor.confidence is not None or goal.floor.level == 1)
    threshold = _smooth_threshold(sample, goal) if smooth and not exact else None
    if threshold is None:
        threshold = _exact_threshold(sample, goal)
    counts = sample.counts(np.array([threshold]))
    value, reached = goal(*counts), goal.reached(*counts[:3])
    return Choice(threshold, float(value[0]), bool(reached[0]), *(float(count[0]) for count in counts))


def _exact_threshold(sample: _Sample, objective: Objective) -> float:
    sides = (sample.positive, sample.negative)
    scores = np.concatenate([side.values for side in sides])
    weight = np.concatenate([side.weight for side in sides])
    true = np.repeat([1.0, 0.0], [side.values.size for side in sides])
    return best_threshold(scores, true, objective.rank, weight, place="middle").threshold


def _smooth_threshold(sample: _Sample, objective: Objective) -> float | None:
    """The best threshold of the smoothed counts: on a grid first, then closer around the best of it.

    None where there is no width to smooth by, or where a floor is within reach of
    the rows but not of the smoothed counts.
    """
    widths = (sample.positive.width, sample.negative.width)
    if not max(widths) > 0:
        return None
    # A class of one score has no width of its own, and takes the other's.
    wide, wide_negative = (width or max(widths) for width in widths)
    positive, negative = sample.positive.grouped(_GROUPS), sample.negative.grouped(_GROUPS)
    values = np.union1d(positive.values, negative.values)
    margin = 3.0 * max(widths)
    least = min(1.0, 0.5 * sample.positive.total)

    def ranks(thresholds: Array) -> Array:
        ups, downs = positive.smoothed_counts(thresholds, wide), negative.smoothed_counts(thresholds, wide_negative)
        rank = objective.rank(*ups, *downs)
        if objective.floor is None:
            return rank
        # The precision of less than a row is that of the Gaussians' tails, not of rows.
        rank = np.where(ups[0] + downs[0] < least, -np.inf, rank)
        return np.where(objective.reached(*sample.counts(thresholds)[:3]), rank, rank - 4.0)

    grid = np.union1d(_between(values), np.linspace(values[0] - margin, values[-1] + margin, _GRID))
    rank = ranks(grid)
    if np.isneginf(rank).all():
        raise ValueError(f"objective {objective} is NaN or −inf wherever the scores are cut: it cannot choose.")
    if objective.floor is not None and rank.max() < 0:
        thresholds = _thresholds(sample)
        if objective.reached(*sample.counts(thresholds)[:3]).any():
            return None
    first, last = _best_run(rank)
    if first == last:
        grid = np.linspace(grid[max(first - 1, 0)], grid[min(last + 1, grid.size - 1)], 129)
        first, last = _best_run(ranks(grid))
    return float(0.5 * (grid[first] + grid[last]))


def _best_run(rank: Array) -> tuple[int, int]:
    """First and last place of the neighbours that share the highest rank."""
    best = int(np.argmax(rank))
    slack = _TIE * abs(rank[best]) if math.isfinite(rank[best]) else 0.0
    worse = np.flatnonzero(~(rank >= rank[best] - slack))
    place = int(np.searchsorted(worse, best))
    first = int(worse[place - 1]) + 1 if place > 0 else 0
    last = int(worse[place]) - 1 if place < worse.size else rank.size - 1
    return first, last


# --- the curve ---


def operating_curve(
    scores: ArrayLike,
    positive: ArrayLike,
    sample_weight: ArrayLike | None = None,
    objective: Any = None,
    *,
    max_points: int = 1000,
) -> pd.DataFrame:
    """What every threshold does: a table with a row for each, ascending.

    Parameters
    ----------
    scores, positive, sample_weight
        As in `choose_threshold`.
    objective : default=None
        As in `get_objective`. Adds the columns `value` (to be maximised), for
        costs also `cost` (in total) and `cost_per_row`, for a floor `reached`.
    max_points : int, default=1000
        Where more thresholds than that give different calls, take so many of
        them, spread over the ranks of both classes, densely at their ends.

    Returns
    -------
    DataFrame
        `threshold`; the weights `tp`, `fn`, `fp`, `tn`; `flagged`, the share that
        is called positive; `recall`, `specificity`, `precision` (NaN where nothing
        is called positive), `gmean`, `balanced_accuracy`, `f1`, `mcc`; and 95 %
        Wilson intervals, `recall_low`, `recall_high` and so on.

    Examples
    --------
    >>> from evenmargin.operating import operating_curve
    >>> curve = operating_curve([-1.0, -0.5, 0.0, 0.5], [0, 0, 1, 1])
    >>> curve[["threshold", "tp", "fp", "recall", "specificity"]]
       threshold   tp   fp  recall  specificity
    0     -1.015  2.0  2.0     1.0          0.0
    1     -0.750  2.0  1.0     1.0          0.5
    2     -0.250  2.0  0.0     1.0          1.0
    3      0.250  1.0  0.0     0.5          1.0
    4      0.515  0.0  0.0     0.0          1.0
    """
    import pandas as pd

    if not _number(max_points) >= 10:
        raise ValueError(f"max_points={max_points!r} must be a number of thresholds, 10 or more.")
    sample = _sample(scores, positive, sample_weight)
    threshold = _thresholds(sample, int(max_points))
    tp, fn, fp, tn = counts = sample.counts(threshold)
    columns = {"threshold": threshold, "tp": tp, "fn": fn, "fp": fp, "tn": tn}
    columns["flagged"] = (tp + fp) / (tp + fn + fp + tn)
    rates = {"recall": (tp, fn), "specificity": (tn, fp), "precision": (tp, fp)}
    for name, (hits, misses) in rates.items():
        with np.errstate(invalid="ignore"):
            columns[name] = hits / (hits + misses)
    metrics: dict[str, Metric] = {
        "gmean": GMean(),
        "balanced_accuracy": BalancedAccuracy(),
        "f1": FBeta(),
        "mcc": MCC(),
    }
    columns |= {name: metric(*counts) for name, metric in metrics.items()}
    if objective is not None:
        columns |= _objective_columns(get_objective(objective), counts)
    for name, (hits, misses) in rates.items():
        columns[f"{name}_low"], columns[f"{name}_high"] = wilson(hits, misses)
    return pd.DataFrame(columns)


def _objective_columns(objective: Objective, counts: tuple[Array, Array, Array, Array]) -> dict[str, Any]:
    columns: dict[str, Any] = {"value": objective(*counts)}
    if objective.costs is not None:
        columns["cost"] = 0.0 - columns["value"] * sum(counts)
        columns["cost_per_row"] = 0.0 - columns["value"]
    if objective.floor is not None:
        columns["reached"] = objective.reached(*counts[:3])
    return columns


def _thresholds(sample: _Sample, most: float = math.inf) -> Array:
    """One for each call that differs, or `most` of them; the first flags all rows, the last none."""
    values = sample.distinct
    edge = 0.01 * (float(np.ptp(values)) or float(np.abs(values[0])) or 1.0)
    below = min(values[0] - edge, np.nextafter(values[0], -np.inf))
    thresholds = np.concatenate([[below], _between(values), [values[-1] + edge]])
    if thresholds.size <= most:
        return thresholds
    places = [np.array([0, thresholds.size - 1])]
    for side in (sample.positive, sample.negative):
        first = _spread(side.weight, int(most - 2) // 2)
        places.append(np.searchsorted(values, side.values[first]))  # the threshold just below that score
    return np.asarray(thresholds[np.unique(np.concatenate(places))])


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


# --- probabilities ---

_KNOTS = 5  # bends of the log-odds
_STIFF = 3.0  # price of a bend: of the squared difference of two slopes, scores in standard deviations
_BARRIER = 0.01  # what keeps slopes above 0


class Calibrator:
    """Scores to probabilities of being positive, strictly increasing.

    The log-odds are a line with a few bends, fitted by weighted maximum likelihood
    with a price on bending: with few rows it is Platt's logistic curve, with many
    it follows their frequencies. Targets are a little off 0 and 1, as Platt's
    are, but so that their mean stays the share of positive rows. Beyond the
    log-odds that so many rows can tell the curve bends to logarithmic growth, so
    that probabilities keep their order and do not become 0 or 1.

    Attributes
    ----------
    knots_ : ndarray of shape (k,)
        Scores where the log-odds bend.
    log_odds_ : ndarray of shape (k,)
        The log-odds there.
    slopes_ : tuple of two floats
        Their slopes below the first knot and above the last.
    limits_ : tuple of two floats
        The log-odds beyond which growth is logarithmic.

    Examples
    --------
    >>> from evenmargin.operating import Calibrator
    >>> scores, positive = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0], [0, 0, 0, 1, 0, 1]
    >>> calibrator = Calibrator().fit(scores, positive)
    >>> calibrator.probability([-1.0, 1.0]).round(1)
    array([0.1, 0.7])
    >>> float(calibrator.score_at(calibrator.probability(0.25)).round(6))
    0.25
    """

    knots_: Array
    log_odds_: Array
    slopes_: tuple[float, float]
    limits_: tuple[float, float]

    def fit(self, scores: ArrayLike, positive: ArrayLike, sample_weight: ArrayLike | None = None) -> Calibrator:
        """Fit to scores of rows that the machine was not trained on; a weight of 2 is a row twice."""
        sample = _sample(scores, positive, sample_weight)
        sides = [side.grouped(2 * _GROUPS) for side in (sample.positive, sample.negative)]
        values = np.concatenate([side.values for side in sides])
        weight = np.concatenate([side.weight for side in sides])
        centre = float(np.average(values, weights=weight))
        scale = math.sqrt(float(np.average((values - centre) ** 2, weights=weight))) or 1.0
        values = (values - centre) / scale
        halves = np.concatenate([side.weight / side.total for side in sides])
        knots = _Side.of(values, halves).quantiles((np.arange(_KNOTS) + 0.5) / _KNOTS)
        up, down = sample.positive.total, sample.negative.total
        moved = 0.5 / (1.0 + 1.0 / min(up, down))  # half a row or less, from each class to the other
        target = np.repeat([1.0 - moved / up, moved / down], [side.values.size for side in sides])
        start, slopes = _monotone_log_odds(values, weight, target, knots)
        self.knots_ = centre + scale * knots
        self.log_odds_ = start + np.append(0.0, np.cumsum(slopes[1:-1] * np.diff(knots)))
        self.slopes_ = (float(slopes[0] / scale), float(slopes[-1] / scale))
        self.limits_ = (-math.log(down + 1.0), math.log(up + 1.0))
        return self

    def probability(self, scores: ArrayLike) -> Array:
        """The probability of each score."""
        values = np.asarray(scores, dtype=np.float64)
        knots, odds, (below, above) = self.knots_, self.log_odds_, self.slopes_
        line = np.interp(values, knots, odds)
        line = line + below * np.minimum(values - knots[0], 0.0) + above * np.maximum(values - knots[-1], 0.0)
        low, high = self.limits_
        return expit(
            np.clip(line, low, high) + np.log1p(np.maximum(line - high, 0.0)) - np.log1p(np.maximum(low - line, 0.0))
        )

    def score_at(self, probability: ArrayLike) -> Array:
        """The score that has this probability: `probability` backwards."""
        share = np.asarray(probability, dtype=np.float64)
        if not np.all((share > 0) & (share < 1)):
            raise ValueError("probability must lie between 0 and 1, ends excluded.")
        line = np.log(share) - np.log1p(-share)
        low, high = self.limits_
        line = np.clip(line, low, high) + np.expm1(np.maximum(line - high, 0.0)) - np.expm1(np.maximum(low - line, 0.0))
        knots, odds, (below, above) = self.knots_, self.log_odds_, self.slopes_
        outside = np.minimum(line - odds[0], 0.0) / below + np.maximum(line - odds[-1], 0.0) / above
        return np.asarray(np.interp(line, odds, knots) + outside)


def _monotone_log_odds(values: Array, weight: Array, target: Array, knots: Array) -> tuple[float, Array]:
    """The log-odds at the first knot, and the slopes below, between and above the knots.

    Minimises Σ weight · log-loss + stiffness · Σ (difference of neighbouring slopes)²
    − barrier · Σ log(slope) by Newton's method. The barrier keeps slopes above 0, also
    for scores that tell nothing, or the contrary.
    """
    inner = [np.clip(values, low, high) - low for low, high in pairwise(knots)]
    outer = np.minimum(values - knots[0], 0.0), np.maximum(values - knots[-1], 0.0)
    columns = np.stack([np.ones(values.size), outer[0], *inner, outer[1]])
    k = columns.shape[0]
    bend = np.diff(np.eye(k)[1:], axis=0)
    stiff = 2.0 * _STIFF * bend.T @ bend

    def loss(theta: Array) -> float:
        if not (theta[1:] > 0).all():
            return math.inf
        odds = theta @ columns
        fit = float(weight @ (np.logaddexp(0.0, odds) - target * odds))
        return fit + 0.5 * float(theta @ stiff @ theta) - _BARRIER * float(np.log(theta[1:]).sum())

    share = float(np.average(target, weights=weight))
    theta = np.append(math.log(share / (1.0 - share)), np.ones(k - 1))
    now = loss(theta)
    for _ in range(200):
        chance = expit(theta @ columns)
        walls = np.append(0.0, _BARRIER / theta[1:])
        gradient = columns @ (weight * (chance - target)) + stiff @ theta - walls
        curvature = (columns * (weight * chance * (1.0 - chance))) @ columns.T + stiff + np.diag(walls**2 / _BARRIER)
        step = np.linalg.solve(curvature + 1e-12 * np.trace(curvature) * np.eye(k), gradient)
        promised, size = float(gradient @ step), 1.0
        while size > 1e-9 and not (after := loss(theta - size * step)) <= now - 0.1 * size * promised:
            size *= 0.5
        if size <= 1e-9 or promised <= 1e-12 * (1.0 + abs(now)):
            break
        theta, now = theta - size * step, after
    return float(theta[0]), theta[1:]


# --- intervals ---


class MetricInterval(NamedTuple):
    """A metric, and an interval that is to hold its value for new rows."""

    value: float
    low: float
    high: float


def metric_interval(
    scores: ArrayLike,
    positive: ArrayLike,
    threshold: float = 0.0,
    metric: Any = "gmean",
    sample_weight: ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> MetricInterval:
    """A metric of the calls at a threshold, with a confidence interval that few rows do not fool.

    Recall, specificity and precision have Wilson's interval. A metric of both
    classes has the quantiles it takes when recall, specificity and the share of the
    classes are independent and each is distributed as its count tells (by Jeffreys' rule). The area under
    the ROC curve has DeLong's variance, with what to expect mixed in where rows are few.

    A threshold that was chosen on the same rows makes the value a little too good:
    in simulations G-mean by up to .02 with 10 positive rows, by up to .004 with 100.

    Parameters
    ----------
    scores : array-like of shape (n,) or (repeats, n)
        Of rows that the machine was not trained on; with repeats, of several
        rounds of cross-validation. They are averaged, and count as one.
    positive : array-like of shape (n,)
    threshold : float, default=0.0
    metric : default="gmean"
        "recall", "specificity", "precision", "roc_auc", or as in `get_objective`.
    sample_weight : array-like of shape (n,), default=None
    level : float, default=0.95

    Returns
    -------
    MetricInterval

    Examples
    --------
    >>> from evenmargin.operating import metric_interval
    >>> scores, positive = [-1.2, -1.0, -0.8, -0.2, 0.1, 0.4], [0, 0, 0, 1, 0, 1]
    >>> [round(number, 2) for number in metric_interval(scores, positive, -0.5, "recall")]
    [1.0, 0.34, 1.0]
    """
    if not 0 < _number(level) < 1:
        raise ValueError(f"level={level!r} must lie between 0 and 1, such as 0.95.")
    if not math.isfinite(_number(threshold)):
        raise ValueError(f"threshold={threshold!r} must be a finite number.")
    samples = [_sample(row, positive, sample_weight) for row in _rounds(scores)]
    if isinstance(metric, str) and metric == "roc_auc":
        return _auc_interval(samples, level)
    at = np.array([float(threshold)])
    tp, fn, fp, tn = counts = np.mean([sample.counts(at) for sample in samples], axis=0)
    rates = {"recall": (tp, fn), "specificity": (tn, fp), "precision": (tp, fp)}
    if isinstance(metric, str) and metric in rates:
        hits, misses = rates[metric]
        low, high = wilson(hits, misses, level)
        value = float(hits[0] / (hits[0] + misses[0])) if hits[0] + misses[0] > 0 else math.nan
        return MetricInterval(value, float(low[0]), float(high[0]))
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


def expected_cost(recall: float, specificity: float, positives: float, negatives: float, costs: Any) -> MetricInterval:
    """What a row costs on average, by rates that so many rows of each class have shown.

    Parameters
    ----------
    recall, specificity : float
    positives, negatives : float
        Rows of each class, which say how sure the rates are and how frequent the classes.
    costs : mapping or matrix
        As in `get_objective`.

    Returns
    -------
    MetricInterval

    Examples
    --------
    >>> from evenmargin.operating import expected_cost
    >>> [round(figure, 2) for figure in expected_cost(0.9, 0.95, 100, 900, {"fn": 10, "fp": 1})]
    [0.15, 0.1, 0.22]
    """
    goal = get_objective(costs)
    if goal.costs is None:
        raise ValueError(f"costs={costs!r} are no costs: give {{'fn': 100, 'fp': 1}}, for instance.")
    if not (math.isfinite(recall) and math.isfinite(specificity)):
        return MetricInterval(math.nan, math.nan, math.nan)
    weight = [positives * recall, positives * (1.0 - recall), negatives * (1.0 - specificity), negatives * specificity]
    found = metric_interval([1.0, -1.0, 1.0, -1.0], [1, 1, 0, 0], 0.0, goal, weight)
    return MetricInterval(-found.value, -found.high, -found.low)


def _rounds(scores: ArrayLike) -> list[Array]:
    try:
        array = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError("scores must hold numbers: one for each row, or one for each round and row.")
    return list(np.atleast_2d(array))


def _plausible(hits: Array, misses: Array, count: int) -> Array:
    """Rates that a count makes plausible: quantiles of Jeffreys' distribution, at even steps of probability."""
    return np.asarray(betaincinv(hits + 0.5, misses + 0.5, (np.arange(count) + 0.5) / count))


def _auc_interval(samples: list[_Sample], level: float) -> MetricInterval:
    """Wilson's interval, of as many rows as would give a rate the variance of the area.

    DeLong's variance of a few rows, or of an area near 1, comes out far too small.
    It counts for as many rows as there are positive ones, and the variance of two
    exponential distributions (Hanley and McNeil) for ten more.
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


def _delong(sample: _Sample) -> tuple[float, float]:
    """The area under the ROC curve and DeLong's variance of it."""
    above = _share_below(sample.positive.values, sample.negative)
    below = 1.0 - _share_below(sample.negative.values, sample.positive)
    area = float(np.average(above, weights=sample.positive.weight))
    variance = 0.0
    for part, side in ((above, sample.positive), (below, sample.negative)):
        variance += float(np.average((part - area) ** 2, weights=side.weight)) / max(side.total - 1.0, 1.0)
    return area, variance


def _share_below(values: Array, side: _Side) -> Array:
    """The share of a class below each score, ties as halves."""
    below = np.append(0.0, np.cumsum(side.weight))
    first, last = (np.searchsorted(side.values, values, side=end) for end in ("left", "right"))
    return np.asarray(0.5 * (below[first] + below[last]) / below[-1])
