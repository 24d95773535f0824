"""What the report rests on: checked rows, their scores, and what every threshold does to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._input.checks import check_labels, check_weights
from .._input.collections import refuse_dask
from .._util.typing import Array, Index, Mask, MatrixLike, VectorLike
from ..auto import EvenMarginClassifier
from ..metrics import CostMatrix, precision, recall, specificity
from ..operating import MetricInterval, Objective, expected_cost, get_objective, metric_interval
from ..operating.counts import LabelledScores
from ..operating.responses import DecisionRule, binary_classes, decision_rule, label_index
from ._table import TableView

__all__ = ["Counts", "Evidence", "Prices", "gather"]


_POINTS = 480  # of the operating curve; a few more are added
_METRICS = ("recall", "specificity", "precision", "gmean", "roc_auc")


class Prices(NamedTuple):
    """What a missed case, a false alarm and the two correct predictions cost, and where these prices are from."""

    fn: float
    fp: float
    tp: float = 0.0
    tn: float = 0.0
    source: str = "given"

    @classmethod
    def of(cls, costs: CostMatrix, source: str) -> Prices:
        (tn, fp), (fn, tp) = costs.costs
        return cls(float(fn), float(fp), float(tp), float(tn), source)

    @property
    def matrix(self) -> CostMatrix:
        return CostMatrix([[self.tn, self.fp], [self.fn, self.tp]])


class Counts(NamedTuple):
    """Weights of the rows found, missed, flagged by mistake and correctly not flagged."""

    tp: float
    fn: float
    fp: float
    tn: float

    @classmethod
    def of(cls, flagged: Mask, positive: Mask, weight: Array) -> Counts:
        sides = (flagged & positive, ~flagged & positive, flagged & ~positive, ~flagged & ~positive)
        return cls(*(float(weight[side].sum()) for side in sides))

    @property
    def total(self) -> float:
        return sum(self)

    @property
    def rates(self) -> dict[str, float]:
        """Recall, precision, specificity and G-mean; NaN where there are no rows to take a share of."""
        tp, fn, fp, tn = (np.array(count) for count in self)
        rates = {metric.__name__: float(metric(tp, fn, fp, tn)) for metric in (recall, precision, specificity)}
        return rates | {"gmean": math.sqrt(rates["recall"] * rates["specificity"])}

    def per_1000(self, count: float) -> float:
        return 1000.0 * count / self.total

    def cost(self, prices: Prices) -> float:
        """The cost of 1 000 cases."""
        return self.per_1000(sum(count * getattr(prices, name) for name, count in self._asdict().items()))


@dataclass(frozen=True)
class Evidence:
    """Rows of weight above 0 that have a score, and the model that gave it."""

    model: BaseEstimator
    rule: DecisionRule
    table: TableView  # all rows that were given
    index: Index  # which of them are reported; the arrays below are of these
    positive: Mask
    weight: Array
    scores: Array
    probabilities: Array | None  # of the class to find
    labels: tuple[Any, Any]  # the class to find and the other one
    names: Sequence[Any]  # of the rows of the table
    prices: Prices
    objective: Objective | None  # what the threshold was chosen for
    training: bool  # whether the scores are those of cross-validation
    weighted: bool
    target: str | None = None  # what the labels say

    @cached_property
    def X(self) -> Any:
        """The rows that are reported, of the type that was given."""
        return self.table.X if self.index.size == self.table.rows else self.table.take(self.index)

    @cached_property
    def share(self) -> float:
        """The share of the class to find."""
        return float(self.weight[self.positive].sum() / self.weight.sum())

    @property
    def positives(self) -> int:
        """Rows of the class to find, whatever they weigh."""
        return int(np.count_nonzero(self.positive))

    @cached_property
    def flagged(self) -> Mask:
        return np.asarray(self.scores > self.rule.threshold)

    @cached_property
    def chosen(self) -> Counts:
        return Counts.of(self.flagged, self.positive, self.weight)

    @cached_property
    def before(self) -> Counts | None:
        """Counts without the adjustment; None where there is none."""
        flagged = self.rule.flagged_before(self.X, self.scores)
        return None if flagged is None else Counts.of(flagged, self.positive, self.weight)

    @cached_property
    def _sample(self) -> LabelledScores:
        return LabelledScores.of(self.scores, self.positive, self.weight)

    @cached_property
    def points(self) -> pd.DataFrame:
        """The operating curve, thinned, with the model's own thresholds in place of others that predict the same."""
        own = [at for at in (self.rule.plain_threshold, self.rule.threshold) if at is not None]
        thresholds = np.concatenate([self._sample.thresholds(_POINTS), own])
        columns = dict(zip(Counts._fields, self._sample.counts(thresholds), strict=True))
        points = pd.DataFrame({"threshold": thresholds, **columns}).drop_duplicates([*columns], keep="last")
        points = points.sort_values("threshold", ignore_index=True)
        at = self.rule.probability_at(points["threshold"].to_numpy(), self.scores, self.probabilities)
        return points.assign(probability=np.nan if at is None else at)

    @cached_property
    def place(self) -> int:
        """The place of the chosen threshold among the points."""
        return int(np.flatnonzero(self.points["threshold"] == self.rule.threshold)[0])

    @cached_property
    def plain_place(self) -> int | None:
        """The place of the plain threshold, or of another one that gives the same predictions."""
        if self.rule.plain_threshold is None:
            return None
        counts = np.ravel(self._sample.counts(np.array([self.rule.plain_threshold])))
        return int(np.flatnonzero((self.points[[*Counts._fields]] == counts).all(axis=1))[0])

    @property
    def corrected(self) -> bool:
        """Whether `expected` are the model's own estimates, corrected for choices that were made on the same rows."""
        return self.training and bool(self.labels[0] == self.model.pos_label_)

    @cached_property
    def expected(self) -> dict[str, MetricInterval]:
        """What to expect of new rows: metrics, the share of `false_alarms` and the `cost` of 1 000 cases."""
        if self.corrected:
            own = self.model.estimates_[["value", "low", "high"]].astype(float)
            found = {name: MetricInterval(*own.loc[name]) for name in _METRICS}
        else:
            found = {name: self._interval(name) for name in _METRICS}
        up = float(self.positives)
        right, down = found["specificity"], up * (1.0 - self.share) / self.share
        cost = expected_cost(found["recall"].value, right.value, up, down, self.prices.matrix)
        return found | {
            "cost": MetricInterval(*(1000.0 * figure for figure in cost)),
            "false_alarms": MetricInterval(1.0 - right.value, 1.0 - right.high, 1.0 - right.low),
        }

    def _interval(self, metric: str) -> MetricInterval:
        """A metric with its interval; weights are scaled to add up to the number of rows, of each class if possible."""
        weight, sides = self.weight.copy(), (self.positive, ~self.positive)
        factors = [np.count_nonzero(side) / weight[side].sum() for side in sides]
        for side, factor in zip(sides, factors, strict=True):
            weight[side] *= factors[0] if metric == "precision" else factor
        return metric_interval(self.scores, self.positive, self.rule.threshold, metric, weight)

    @cached_property
    def extremes(self) -> dict[str, float]:
        """The cost of 1 000 cases if no row is flagged, and if every row is."""
        share, prices = self.share, self.prices
        nobody = 1000.0 * (share * prices.fn + (1.0 - share) * prices.tn)
        return {"nobody": nobody, "everybody": 1000.0 * (share * prices.tp + (1.0 - share) * prices.fp)}


# --- checks ---


def gather(
    model: BaseEstimator, X: MatrixLike, y: VectorLike, *, sample_weight: VectorLike = None, training: bool = False,
    pos_label: object = None, prices: Any = None, rows: Sequence[Any] | None = None, target: str | None = None,
) -> Evidence:  # fmt: skip
    """Check the arguments, score the rows, and choose prices."""
    classes = binary_classes(model, "a report")
    table, y, weight = _checked_rows(model, classes, X, y, sample_weight)
    which = _class_to_find(model, classes, y, weight, pos_label)
    rule = decision_rule(model, which)
    positive = y == model.classes_[which]
    if training:
        scores = _unseen_scores(model, which, y.size)
        index = np.flatnonzero((weight > 0) & ~np.isnan(scores))
        scores, weight = scores[index], _stand_for_all(weight, positive, index)
        probabilities = rule.probability(None, scores)
    else:
        index = np.flatnonzero(weight > 0)
        kept = table.X if index.size == y.size else table.take(index)
        scores = rule.score(kept)
        probabilities = rule.probability(kept, scores)
    if not np.isfinite(scores).all():
        raise ValueError("The model gives scores that are not finite: check X for values that are too large.")
    if np.unique(positive[index]).size < 2:
        raise ValueError("Rows of both classes with a weight above 0 are needed for a report.")
    return Evidence(
        model, rule, table, index, positive[index], weight[index], scores, probabilities,
        (classes[which], classes[1 - which]), _row_names(rows, y.size), _prices(prices, model, positive, weight),
        _objective(model), training, sample_weight is not None, target,
    )  # fmt: skip


def _checked_rows(
    model: BaseEstimator, classes: list[Any], X: MatrixLike, y: VectorLike, sample_weight: VectorLike
) -> tuple[TableView, NDArray[Any], Array]:
    refuse_dask(X)
    table = TableView.of(X, model)
    if np.ndim(y) == 1 and pd.isna(np.asarray(y)).any():
        raise ValueError("Some labels in y are missing: leave out these rows.")
    y = check_labels(y)
    if y.size != table.rows:
        raise ValueError(f"X has {table.rows:,} rows, but y has {y.size:,} labels: give one label for each row.")
    found = np.unique(y).tolist()
    if len(found) > 2:
        raise ValueError(f"y holds {len(found)} classes, but a report is for two: merge all but one of them.")
    unknown = [label for label in found if label not in classes]
    if unknown:
        raise ValueError(f"y holds {unknown[0]!r}, which the model does not know: its classes are {classes}.")
    if len(found) < 2:
        raise ValueError(f"y holds one class only ({found[0]!r}): a report needs rows of both classes.")
    return table, y, check_weights(sample_weight, y.size)


def _class_to_find(model: BaseEstimator, classes: list[Any], y: NDArray[Any], weight: Array, pos_label: object) -> int:
    """The place of the class to find: `pos_label`, the class that the model names, or the rarer one."""
    own = getattr(model, "pos_label_", getattr(model, "minority_", None)) if pos_label is None else pos_label
    if pos_label is not None or own in classes:
        return label_index(classes, own)
    first = float(weight[y == model.classes_[0]].sum())
    return int(2.0 * first >= weight.sum())


def _unseen_scores(model: BaseEstimator, which: int, n: int) -> Array:
    """The score of each row by machines that have not seen it."""
    if not isinstance(model, EvenMarginClassifier):
        raise ValueError(
            f"training=True is for EvenMarginClassifier, which keeps scores of unseen rows: for a "
            f"{type(model).__name__} give rows that it was not fitted on."
        )
    scores = model.oof_scores_
    if scores.shape[0] != n:
        raise ValueError(
            f"training=True needs the {scores.shape[0]:,} rows that the model was fitted on, in that order, but X has "
            f"{n:,}."
        )
    return np.asarray(scores if model.classes_[which] == model.pos_label_ else -scores)


def _stand_for_all(weight: Array, positive: Mask, index: Index) -> Array:
    """Weights with which the rows that have a score weigh as much as their whole class, if only a sample was used."""
    weight, used = weight.copy(), np.isin(np.arange(weight.size), index)
    for side in (positive, ~positive):
        total, own = weight[side].sum(), weight[side & used].sum()
        if 0 < own < total:
            weight[side & used] *= total / own
    return weight


def _row_names(rows: Sequence[Any] | None, n: int) -> Sequence[Any]:
    if rows is None:
        return range(1, n + 1)
    names = list(rows)
    if len(names) != n:
        raise ValueError(f"rows has {len(names):,} names: give one for each of the {n:,} rows.")
    return names


def _objective(model: BaseEstimator) -> Objective | None:
    """What the threshold was chosen for, unless it was moved since."""
    if not isinstance(model, EvenMarginClassifier) and not hasattr(model, "minority_"):
        return None
    given: Any = getattr(model, "objective", getattr(model, "metric", None))
    goal = get_objective(given)
    return goal if str(goal) == getattr(model, "objective_", str(goal)) else None


def _prices(prices: Any, model: BaseEstimator, positive: Mask, weight: Array) -> Prices:
    """The given prices, those of the model's objective, or such that both classes count the same."""
    given = isinstance(prices, Mapping | list | tuple | np.ndarray)
    goal = get_objective(prices) if given else _objective(model) if prices is None else None
    if goal is not None and goal.costs is not None:
        return Prices.of(goal.costs, "given" if given else "objective")
    if prices is not None:
        raise ValueError(f"prices={prices!r} must be a dict such as {{'fn': 100, 'fp': 1}}.")
    ratio = float(weight[~positive].sum() / weight[positive].sum())
    digits = 1 - math.floor(math.log10(ratio))
    return Prices(float(round(ratio, digits)), 1.0, source="balance")
