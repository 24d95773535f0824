"""What a threshold is chosen for: a metric, costs, or a floor under recall or precision."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincc

from .. import metrics
from .._input.scores import as_real
from .._util.typing import Array, Mask
from ..metrics import CostMatrix, Metric, MetricLike

_COUNTS = ("tp", "fn", "fp", "tn")


@dataclass(frozen=True)
class Floor:
    """The lowest acceptable recall or precision.

    Without a confidence, of the given rows; with one, of new rows with that
    confidence, by the exact (Clopper–Pearson) bound.
    """

    rate: str
    level: float
    confidence: float | None = None

    def attained(self, tp: Array, fn: Array, fp: Array) -> Array:
        """The rate, or the confidence that it is above the floor; NaN where no row is flagged."""
        misses = fn if self.rate == "recall" else fp
        share = metrics.rate(tp, misses)
        if self.confidence is None:
            return share
        return np.where(np.isnan(share), np.nan, betaincc(np.maximum(tp, 1e-12), misses + 1.0, self.level))

    @property
    def needed(self) -> float:
        """What `attained` must reach."""
        return (self.level if self.confidence is None else self.confidence) * (1.0 - metrics.TOLERANCE)


@dataclass(frozen=True)
class Objective:
    """What to maximise: a function of tp, fn, fp and tn, perhaps subject to a floor; `str()` is its name in words."""

    name: str
    metric: Metric
    floor: Floor | None = None

    def __str__(self) -> str:
        return self.name

    def __call__(self, tp: Array, fn: Array, fp: Array, tn: Array) -> Array:
        return metrics.metric_values(self.metric, (tp, fn, fp, tn), "objective")

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
        """What to sort thresholds by: the value, or below the floor something smaller, by how far below it is."""
        values = self(tp, fn, fp, tn)
        if self.floor is not None:
            attained = self.floor.attained(tp, fn, fp)
            short = np.minimum(attained, self.floor.needed) - 2.0
            values = np.where(attained >= self.floor.needed, values, short + 1e-9 * values)
        return np.where(np.isnan(values), -np.inf, values)


ObjectiveLike = Objective | MetricLike | Mapping[str, float]


def get_objective(objective: ObjectiveLike) -> Objective:
    """The objective for a name, costs, a floor, a metric or a function.

    Parameters
    ----------
    objective : str, mapping, cost matrix, callable or Objective
        - "gmean", "balanced_accuracy", "f1" or "mcc";
        - costs to be minimised: ``{"fn": 100, "fp": 1}``, with "tp" and "tn" if
          right predictions cost something too, or the matrix [[tn, fp], [fn, tp]];
        - ``{"recall": 0.95}``: the best specificity with at least this recall;
        - ``{"precision": 0.9}``: the best recall with at least this precision;
        - a function of arrays (tp, fn, fp, tn) to be maximised, such as the
          metrics of `evenmargin.metrics`.

        About half of new samples fall below a floor that the given rows just
        reach. ``{"recall": 0.95, "confidence": 0.9}`` keeps the recall of new rows at
        .95 or more in nine of ten cases, for which at least log(1 − .9)/log(.95) = 45
        positive rows are needed.

    Returns
    -------
    Objective
        A function of the four counts, with a name.

    Examples
    --------
    >>> from evenmargin.operating import get_objective
    >>> print(get_objective({"fn": 100, "fp": 1}))
    cost with fn = 100, fp = 1
    >>> print(get_objective({"recall": 0.95, "confidence": 0.9}))
    recall of at least 95 % with 90 % confidence
    """
    if isinstance(objective, Objective):
        return objective
    if isinstance(objective, Mapping):
        is_floor = not {"recall", "precision"}.isdisjoint(objective)
        return _floor_objective(dict(objective)) if is_floor else get_objective(_cost_matrix(dict(objective)))
    try:
        metric = metrics.get_metric(objective)
    except ValueError as error:
        if isinstance(objective, list | tuple | np.ndarray):
            raise ValueError(f"objective: {error}") from None
        raise ValueError(
            f"objective={objective!r} is unknown; choose {', '.join(map(repr, metrics.METRICS))}, costs such as "
            "{'fn': 100, 'fp': 1}, a floor such as {'recall': 0.95} or {'precision': 0.9}, "
            "or a function of (tp, fn, fp, tn)."
        ) from None
    return Objective(_in_words(metric), metric)


def _in_words(metric: Metric) -> str:
    if any("__str__" in vars(kind) for kind in type(metric).__mro__[:-1]):
        return str(metric)
    return str(getattr(metric, "__name__", type(metric).__name__))


def _cost_matrix(costs: dict[str, float]) -> CostMatrix:
    if not {"fn", "fp"} <= set(costs) <= set(_COUNTS):
        raise ValueError(
            f"objective={costs!r}: costs need 'fn' (a missed positive row) and 'fp' (a false alarm) and may have "
            "'tp' and 'tn'; a floor is {'recall': 0.95} or {'precision': 0.9}."
        )
    tp, fn, fp, tn = (as_real(costs.get(name, 0.0)) for name in _COUNTS)
    if not all(map(math.isfinite, (tp, fn, fp, tn))):
        raise ValueError(f"objective={costs!r}: every cost must be a finite number.")
    if fn <= tp or fp <= tn:
        raise ValueError(
            f"objective={costs!r}: a mistake must cost more than the right prediction, "
            "'fn' more than 'tp' and 'fp' more than 'tn', or the same prediction for every row is best."
        )
    return CostMatrix([[tn, fp], [fn, tp]])


def _floor_objective(floor: dict[str, float]) -> Objective:
    rates = [key for key in floor if key != "confidence"]
    if len(rates) != 1:
        raise ValueError(
            f"objective={floor!r}: a floor has 'recall' or 'precision', perhaps 'confidence', and nothing else."
        )
    name, level = rates[0], as_real(floor[rates[0]])
    if not 0 < level <= 1:
        raise ValueError(f"objective={floor!r}: the {name} must be above 0 and at most 1, such as 0.95 for 95 %.")
    confidence = None if floor.get("confidence") is None else as_real(floor["confidence"])
    if confidence is not None and not (0 < confidence < 1 and level < 1):
        raise ValueError(
            f"objective={floor!r}: the confidence must lie between 0 and 1, such as 0.9, "
            f"and the {name} below 1, which no sample can make certain."
        )
    sure = "" if confidence is None else f" with {100 * confidence:g} % confidence"
    metric = metrics.specificity if name == "recall" else metrics.recall
    return Objective(f"{name} of at least {100 * level:g} %{sure}", metric, Floor(name, level, confidence))
