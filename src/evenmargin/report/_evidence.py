"""What the report rests on: checked rows, their scores, and what every threshold does to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import is_classifier

from .._input.checks import check_is_fitted, check_labels, check_weights
from .._input.collections import refuse_dask
from .._util.typing import Array, Index, Mask, MatrixLike, VectorLike
from ..auto import EvenMarginClassifier
from ..metrics import CostMatrix
from ..operating import MetricInterval, Objective, expected_cost, get_objective, metric_interval, operating_curve
from ._judges import Judge, get_judge
from ._table import Table

__all__ = ["Counts", "Evidence", "Prices", "gather"]


_POINTS = 480  # of the operating curve; a few more are added
_METRICS = ("recall", "specificity", "precision", "gmean", "roc_auc")


@dataclass(frozen=True)
class Prices:
    """What a missed case and a false alarm cost, right calls too if they cost, and where that is from."""

    fn: float
    fp: float
    tp: float = 0.0
    tn: float = 0.0
    source: str = "given"

    @property
    def matrix(self) -> CostMatrix:
        return CostMatrix([[self.tn, self.fp], [self.fn, self.tp]])


@dataclass(frozen=True)
class Counts:
    """Weights of the rows found, missed, falsely flagged and rightly left alone."""

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
        return self.tp + self.fn + self.fp + self.tn

    @property
    def recall(self) -> float:
        return _ratio(self.tp, self.tp + self.fn)

    @property
    def specificity(self) -> float:
        return _ratio(self.tn, self.tn + self.fp)

    @property
    def precision(self) -> float:
        return _ratio(self.tp, self.tp + self.fp)

    @property
    def gmean(self) -> float:
        return math.sqrt(self.recall * self.specificity)

    def cost(self, prices: Prices) -> float:
        """Of 1 000 cases."""
        paid = self.fn * prices.fn + self.fp * prices.fp + self.tp * prices.tp + self.tn * prices.tn
        return 1000.0 * paid / self.total


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan


@dataclass(frozen=True)
class Evidence:
    """Rows of weight above 0 that have a score, and the model that gave it.

    Attributes
    ----------
    model : fitted classifier
    judge : Judge
    table : Table
        All rows that were given.
    index : ndarray of shape (n,)
        Which of them are reported.
    positive, weight, scores : ndarrays of shape (n,)
    chances : ndarray of shape (n,) or None
        Probabilities of the class to find.
    labels : tuple
        The class to find and the other one.
    names : sequence
        Of the rows of the table.
    prices : Prices
    objective : Objective or None
        What the threshold was chosen for.
    training : bool
        Whether the scores are those of cross-fitting.
    weighted : bool
    target : str or None
        What the labels are of.
    """

    model: Any
    judge: Judge
    table: Table
    index: Index
    positive: Mask
    weight: Array
    scores: Array
    chances: Array | None
    labels: tuple[Any, Any]
    names: Sequence[Any]
    prices: Prices
    objective: Objective | None
    training: bool
    weighted: bool
    target: str | None = None

    @cached_property
    def X(self) -> Any:
        """The rows that are reported, as the model takes them."""
        return self.table.X if self.index.size == self.table.rows else self.table.take(self.index)

    @property
    def share(self) -> float:
        """Of the class to find."""
        return float(self.weight[self.positive].sum() / self.weight.sum())

    @property
    def positives(self) -> int:
        """Rows of the class to find, whatever they weigh."""
        return int(np.count_nonzero(self.positive))

    @property
    def flagged(self) -> Mask:
        return np.asarray(self.scores > self.judge.threshold)

    @cached_property
    def chosen(self) -> Counts:
        return Counts.of(self.flagged, self.positive, self.weight)

    @cached_property
    def flagged_before(self) -> Mask | None:
        """Calls without the adjustment; None where there is none."""
        return self.judge.flagged_before(self.X, self.scores)

    @cached_property
    def points(self) -> pd.DataFrame:
        """The operating curve, thinned, with the chosen threshold and the plain one among its own."""
        curve = operating_curve(self.scores, self.positive, self.weight, max_points=_POINTS)
        curve = curve[["threshold", "tp", "fn", "fp", "tn"]]
        for cut in (self.judge.plain_cut, self.judge.threshold):
            if cut is not None:
                curve = _with_threshold(curve, cut, Counts.of(self.scores > cut, self.positive, self.weight))
        at = self.judge.chance_at(curve["threshold"].to_numpy(), self.scores, self.chances)
        return curve.assign(probability=np.nan if at is None else at)

    @cached_property
    def place(self) -> int:
        """Of the chosen threshold among the points."""
        return int(np.flatnonzero(self.points["threshold"] == self.judge.threshold)[0])

    @cached_property
    def plain_place(self) -> int | None:
        """Of the plain threshold, or of another one that gives the same calls."""
        cut = self.judge.plain_cut
        if cut is None:
            return None
        same = _same_calls(self.points, Counts.of(self.scores > cut, self.positive, self.weight))
        return int(np.flatnonzero(same)[0])

    @property
    def corrected(self) -> bool:
        """Whether the model's own estimates are said: they take off what was chosen on the same rows."""
        return self.training and bool(self.labels[0] == self.model.pos_label_)

    @cached_property
    def expected(self) -> dict[str, MetricInterval]:
        """What to expect of new rows, by metric; `cost` is of 1 000 cases."""
        if self.corrected:
            own = self.model.estimates_[["value", "low", "high"]].astype(float)
            found = {name: MetricInterval(*own.loc[name]) for name in _METRICS}
        else:
            found = {name: self._interval(name) for name in _METRICS}
        return found | {"cost": self._expected_cost(found["recall"].value, found["specificity"].value)}

    def _interval(self, metric: str) -> MetricInterval:
        return metric_interval(
            self.scores, self.positive, self.judge.threshold, metric, self._counted(metric == "precision")
        )

    def _counted(self, share_matters: bool) -> Array:
        """Weights that add up to the rows there are, for each class where shares do not matter."""
        weight, sides = self.weight.copy(), (self.positive, ~self.positive)
        factors = [np.count_nonzero(side) / weight[side].sum() for side in sides]
        for side, factor in zip(sides, factors, strict=True):
            weight[side] *= factors[0] if share_matters else factor
        return weight

    def _expected_cost(self, recall: float, specificity: float) -> MetricInterval:
        up = float(self.positives)
        found = expected_cost(recall, specificity, up, up * (1.0 - self.share) / self.share, self.prices.matrix)
        return MetricInterval(*(1000.0 * figure for figure in found))


def _with_threshold(curve: pd.DataFrame, cut: float, counts: Counts) -> pd.DataFrame:
    """The curve with this threshold: in place of its neighbour below if that gives the same calls, else beside it."""
    row = {"threshold": cut, "tp": counts.tp, "fn": counts.fn, "fp": counts.fp, "tn": counts.tn}
    same = _same_calls(curve, counts)
    if np.count_nonzero(same) == 1 and not (curve["threshold"] == cut).any():
        curve = curve[~same]
    elif (curve["threshold"] == cut).any():
        return curve
    return pd.concat([curve, pd.DataFrame([row])]).sort_values("threshold", ignore_index=True)


def _same_calls(curve: pd.DataFrame, counts: Counts) -> Mask:
    """Thresholds that flag the same rows; sums of weights may differ by rounding."""
    close = 1e-9 * counts.total
    return np.asarray((np.abs(curve["tp"] - counts.tp) <= close) & (np.abs(curve["fp"] - counts.fp) <= close))


# --- from what was given ---


def gather(
    model: Any,
    X: MatrixLike,
    y: VectorLike,
    *,
    sample_weight: VectorLike = None,
    training: bool = False,
    pos_label: Any = None,
    prices: Any = None,
    rows: Any = None,
    target: str | None = None,
) -> Evidence:
    """Check everything, score the rows, and choose prices."""
    table, y, weight = _checked_rows(model, X, y, sample_weight)
    classes = np.asarray(model.classes_).tolist()
    which = _class_to_find(model, classes, y, weight, pos_label)
    judge = get_judge(model, which)
    positive = y == model.classes_[which]
    if training:
        scores = _unseen_scores(model, judge, y.size)
        index = np.flatnonzero((weight > 0) & ~np.isnan(scores))
        weight = _stand_for_all(weight, positive, index)
        chances = judge.chance(None, scores[index])
    else:
        index = np.flatnonzero(weight > 0)
        kept = table.X if index.size == y.size else table.take(index)
        scores = np.full(y.size, np.nan)
        scores[index] = judge.score(kept)
        chances = judge.chance(kept, scores[index])
    if not np.isfinite(scores[index]).all():
        raise ValueError("The model gives scores that are not finite: look at its input for values that are too large.")
    if np.unique(positive[index]).size < 2:
        raise ValueError("Rows of both classes with a weight above 0 are needed for a report.")
    return Evidence(
        model, judge, table, index, positive[index], weight[index], scores[index], chances,
        (classes[which], classes[1 - which]), _row_names(rows, y.size), _prices(prices, model, positive, weight),
        _objective(model), training, sample_weight is not None, target,
    )  # fmt: skip


def _checked_rows(
    model: Any, X: MatrixLike, y: VectorLike, sample_weight: VectorLike
) -> tuple[Table, NDArray[Any], Array]:
    name = type(model).__name__
    if not is_classifier(model):
        raise ValueError(f"{name} is not a classifier: a report needs a fitted one of two classes.")
    check_is_fitted(model)
    if len(model.classes_) != 2:
        raise ValueError(f"{name} was fitted on {len(model.classes_)} classes: a report needs a model of two.")
    refuse_dask(X)
    table = Table.of(X, model)
    if np.ndim(y) == 1 and pd.isna(np.asarray(y)).any():
        raise ValueError("Some labels in y are missing: leave these rows out.")
    y = check_labels(y)
    if y.size != table.rows:
        raise ValueError(f"X has {table.rows:,} rows and y has {y.size:,} labels: give one label for each row.")
    found = np.unique(y).tolist()
    if len(found) > 2:
        raise ValueError(f"y holds {len(found)} classes: a report is for two, so make one of them stand for the rest.")
    strange = [label for label in found if label not in np.asarray(model.classes_).tolist()]
    if strange:
        raise ValueError(
            f"y holds {strange[0]!r}, which the model does not know: its classes are "
            f"{np.asarray(model.classes_).tolist()}."
        )
    if len(found) < 2:
        raise ValueError(f"y holds one class only ({found[0]!r}): a report needs rows of both classes.")
    return table, y, check_weights(sample_weight, y.size)


def _class_to_find(model: Any, classes: list[Any], y: NDArray[Any], weight: Array, pos_label: Any) -> int:
    """As given, as the model says, or the rarer one."""
    if pos_label is not None:
        if pos_label not in classes:
            raise ValueError(f"pos_label={pos_label!r} is not a class of the model, which knows {classes}.")
        return classes.index(pos_label)
    own = getattr(model, "pos_label_", getattr(model, "minority_", None))
    if own is not None and own in classes:
        return classes.index(own)
    first = float(weight[y == model.classes_[0]].sum())
    return int(2.0 * first >= weight.sum())


def _unseen_scores(model: Any, judge: Judge, n: int) -> Array:
    """The scores by machines that have not seen the row."""
    if not isinstance(model, EvenMarginClassifier):
        raise ValueError(
            f"training=True is for EvenMarginClassifier, which keeps scores of unseen rows: for a "
            f"{type(model).__name__} give rows that it was not fitted on."
        )
    scores = model.oof_scores_
    if scores.shape[0] != n:
        raise ValueError(
            f"training=True needs the rows that the model was fitted on, {scores.shape[0]:,} of them in that order, "
            f"and X has {n:,}."
        )
    return np.asarray(scores if judge.model.classes_[judge.which] == model.pos_label_ else -scores)


def _stand_for_all(weight: Array, positive: Mask, index: Index) -> Array:
    """Rows that have a score weigh what their whole class does, where a sample was learned from."""
    weight, used = weight.copy(), np.isin(np.arange(weight.size), index)
    for side in (positive, ~positive):
        total, own = weight[side].sum(), weight[side & used].sum()
        if 0 < own < total:
            weight[side & used] *= total / own
    return weight


def _row_names(rows: Any, n: int) -> Sequence[Any]:
    if rows is None:
        return range(1, n + 1)
    names = list(rows)
    if len(names) != n:
        raise ValueError(f"rows has {len(names):,} names: give one for each of the {n:,} rows.")
    return names


def _objective(model: Any) -> Objective | None:
    """What the threshold was chosen for, unless it was moved since."""
    given: Any = getattr(model, "objective", getattr(model, "metric", None))
    if not isinstance(model, EvenMarginClassifier) and not hasattr(model, "minority_"):
        return None
    goal = get_objective(given)
    return goal if str(goal) == getattr(model, "objective_", str(goal)) else None


def _prices(prices: Any, model: Any, positive: Mask, weight: Array) -> Prices:
    """Those given, those of the model's objective, or such that both classes weigh alike."""
    if prices is not None:
        if isinstance(prices, Prices):
            return prices
        costs = None
        if isinstance(prices, dict | list | tuple | np.ndarray):
            costs = get_objective(prices).costs
        if costs is None:
            raise ValueError(f"prices={prices!r} must be a dict such as {{'fn': 100, 'fp': 1}}.")
        return _from_matrix(costs, "given")
    goal = _objective(model)
    if goal is not None and goal.costs is not None:
        return _from_matrix(goal.costs, "objective")
    ratio = float(weight[~positive].sum() / weight[positive].sum())
    digits = 1 - math.floor(math.log10(ratio))
    return Prices(float(round(ratio, digits)), 1.0, source="balance")


def _from_matrix(costs: CostMatrix, source: str) -> Prices:
    (tn, fp), (fn, tp) = costs.costs
    return Prices(float(fn), float(fp), float(tp), float(tn), source)
