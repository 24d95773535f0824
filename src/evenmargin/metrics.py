"""Metrics from the four counts of a confusion matrix, and ROC-AUC.

A metric is a function of the weights tp, fn, fp and tn (true positives, false negatives, false positives, true
negatives). It works elementwise on arrays, with one element for each threshold, and larger is better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._util.typing import Array

__all__ = [
    "MCC",
    "METRICS",
    "BalancedAccuracy",
    "CostMatrix",
    "FBeta",
    "GMean",
    "Metric",
    "get_metric",
    "precision",
    "recall",
    "roc_auc",
    "specificity",
]

Metric = Callable[[Array, Array, Array, Array], Array]
# What `get_metric` takes.
MetricLike: TypeAlias = Metric | str | Sequence[Sequence[float]] | NDArray[Any]

TOLERANCE = 1e-12  # relative: what rounding may do to sums of weights


def rate(hits: Array, misses: Array) -> Array:
    """hits/(hits + misses); NaN where there are no rows to take a share of."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.true_divide(hits, np.add(hits, misses)))


def recall(tp: Array, fn: Array, fp: Array, tn: Array) -> Array:
    """tp/(tp + fn), also called sensitivity: the share of the positive rows that are found."""
    return rate(tp, fn)


def specificity(tp: Array, fn: Array, fp: Array, tn: Array) -> Array:
    """tn/(tn + fp): the share of the negative rows that are not flagged."""
    return rate(tn, fp)


def precision(tp: Array, fn: Array, fp: Array, tn: Array) -> Array:
    """tp/(tp + fp): the share of the flagged rows that are positive."""
    return rate(tp, fp)


def _class_recall(hits: Array, misses: Array) -> Array:
    if not np.all(np.add(hits, misses) > 0):
        raise ValueError("The metric needs rows of both classes with a weight above 0.")
    return rate(hits, misses)


@dataclass(frozen=True)
class GMean:
    """√(sensitivity · specificity).

    Examples
    --------
    >>> from evenmargin.metrics import GMean
    >>> float(GMean()(tp=9, fn=1, fp=19, tn=81).round(3))
    0.854
    """

    def __str__(self) -> str:
        return "G-mean"

    def __call__(self, tp: Array, fn: Array, fp: Array, tn: Array) -> Array:
        return np.sqrt(_class_recall(tp, fn) * _class_recall(tn, fp))


@dataclass(frozen=True)
class BalancedAccuracy:
    """(sensitivity + specificity)/2.

    Examples
    --------
    >>> from evenmargin.metrics import BalancedAccuracy
    >>> float(BalancedAccuracy()(tp=9, fn=3, fp=25, tn=75))
    0.75
    """

    def __str__(self) -> str:
        return "balanced accuracy"

    def __call__(self, tp: Array, fn: Array, fp: Array, tn: Array) -> Array:
        return np.asarray(0.5 * (_class_recall(tp, fn) + _class_recall(tn, fp)))


@dataclass(frozen=True)
class FBeta:
    """(1 + β²)·tp/((1 + β²)·tp + β²·fn + fp): a β above 1 favours recall, one below 1 precision.

    Examples
    --------
    >>> from evenmargin.metrics import FBeta
    >>> float(FBeta(1.0)(tp=10, fn=0, fp=20, tn=80))
    0.5
    """

    beta: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.beta, Real) or not 0 < float(self.beta) < 1e100:
            raise ValueError(f"FBeta: beta={self.beta!r} must be a number above 0.")

    def __str__(self) -> str:
        return f"F{self.beta:g}"

    def __call__(self, tp: Array, fn: Array, fp: Array, tn: Array) -> Array:
        square = float(self.beta) ** 2
        hits = (1.0 + square) * np.asarray(tp)
        return np.asarray(hits / (hits + square * fn + fp))


@dataclass(frozen=True)
class MCC:
    """Matthews correlation of true and predicted classes; 0 where all rows are predicted to be of one class.

    Examples
    --------
    >>> from evenmargin.metrics import MCC
    >>> float(MCC()(tp=9, fn=1, fp=19, tn=81).round(3))
    0.469
    """

    def __str__(self) -> str:
        return "Matthews correlation"

    def __call__(self, tp: Array, fn: Array, fp: Array, tn: Array) -> Array:
        # Of roots, and not the root of a product, which could overflow.
        flagged, others = np.asarray(tp + fp), np.asarray(fn + tn)
        both = np.sqrt(flagged) * np.sqrt(others) * np.sqrt(tp + fn) * np.sqrt(fp + tn)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(both > 0, (np.asarray(tp) * tn - np.asarray(fp) * fn) / both, 0.0)


@dataclass(frozen=True)
class CostMatrix:
    """Minus the mean cost of a row, from [[cost of tn, of fp], [of fn, of tp]].

    Rows of the matrix are true classes and columns predicted ones, negative
    first, as in scikit-learn's `confusion_matrix`. Costs below 0 are gains.

    Examples
    --------
    >>> from evenmargin.metrics import CostMatrix
    >>> float(CostMatrix([[0, 1], [10, 0]])(tp=9, fn=1, fp=20, tn=70))
    -0.3
    """

    costs: Any

    def __post_init__(self) -> None:
        try:
            costs = np.asarray(self.costs, dtype=np.float64)
        except (TypeError, ValueError):
            costs = np.empty(0)
        if costs.shape != (2, 2) or not np.isfinite(costs).all():
            raise ValueError(f"A cost matrix must hold 2 × 2 finite numbers, [[tn, fp], [fn, tp]], not {self.costs!r}.")
        object.__setattr__(self, "costs", tuple(map(tuple, costs.tolist())))

    def __str__(self) -> str:
        (tn, fp), (fn, tp) = self.costs
        more = "".join(f", {name} = {cost:g}" for name, cost in (("tp", tp), ("tn", tn)) if cost)
        return f"cost with fn = {fn:g}, fp = {fp:g}{more}"

    def __call__(self, tp: Array, fn: Array, fp: Array, tn: Array) -> Array:
        (of_tn, of_fp), (of_fn, of_tp) = self.costs
        total = np.asarray(tp + fn + fp + tn)
        return np.asarray(-(of_tn * tn + of_fp * fp + of_fn * fn + of_tp * tp) / total)


METRICS: dict[str, Metric] = {
    "gmean": GMean(),
    "f1": FBeta(1.0),
    "balanced_accuracy": BalancedAccuracy(),
    "mcc": MCC(),
}


def get_metric(metric: MetricLike) -> Metric:
    """The metric for a name or a cost matrix; a function is returned as it is.

    Examples
    --------
    >>> from evenmargin.metrics import get_metric
    >>> get_metric("f1")
    FBeta(beta=1.0)
    >>> get_metric([[0, 1], [10, 0]])
    CostMatrix(costs=((0.0, 1.0), (10.0, 0.0)))
    """
    if isinstance(metric, str) and metric in METRICS:
        return METRICS[metric]
    if isinstance(metric, list | tuple | np.ndarray):
        return CostMatrix(metric)
    if callable(metric) and not isinstance(metric, type):
        return metric
    known = ", ".join(repr(name) for name in sorted(METRICS))
    raise ValueError(
        f"metric={metric!r} is unknown; choose one of {known}, an object such as FBeta(2.0), "
        "a cost matrix [[tn, fp], [fn, tp]], or a function of (tp, fn, fp, tn)."
    )


def metric_values(metric: Metric, counts: tuple[Array, Array, Array, Array], name: str = "metric") -> Array:
    """A metric of the user's at many thresholds; NaN where it is undefined. `name` is what an error calls it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.asarray(metric(*counts), dtype=np.float64)
    if values.shape != np.shape(counts[0]):
        raise ValueError(f"{name} must return one number for each element of the arrays tp, fn, fp and tn.")
    return values


def roc_auc(y: ArrayLike, scores: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """The probability that a positive row scores above a negative one, ties counting 1/2.

    The same number as scikit-learn's `roc_auc_score`, without its checks, since
    solvers call it.

    Examples
    --------
    >>> from evenmargin.metrics import roc_auc
    >>> roc_auc([1, -1, -1, 1], [0.9, 0.1, 0.4, 0.4])
    0.875
    """
    y, scores = np.asarray(y), np.asarray(scores)
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weight is None or np.all(weight == weight[0]):  # counting ranks is four times as fast
        plus, minus = scores[y > 0], np.sort(scores[~(y > 0)])
        below, not_above = (np.searchsorted(minus, plus, side).sum() for side in ("left", "right"))
        return float(0.5 * (below + not_above) / (plus.size * minus.size))
    order = np.argsort(scores, kind="stable")
    scores, positive, weight = scores[order], y[order] > 0, weight[order]
    ends = np.append(np.flatnonzero(np.diff(scores)), scores.size - 1)  # last place of each tie
    plus = np.diff(np.cumsum(weight * positive)[ends], prepend=0.0)
    minus_below = np.cumsum(weight * ~positive)[ends]
    minus = np.diff(minus_below, prepend=0.0)
    return float(plus @ (minus_below - 0.5 * minus) / (plus.sum() * minus.sum()))
