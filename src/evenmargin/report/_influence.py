"""Which columns matter to a model.

For a linear model these are the coefficients: how much the score changes for one standard deviation of a column.
For any other model it is permutation importance: how much of the distance between the classes' mean scores is lost
when the values of a column are shuffled, and how far the area under the ROC curve drops. The area by itself would say
nothing about a model that ranks nearly all rows correctly, as on rows that it has seen. Rows, calls and seconds are
limited, and the text says where the search was cut short.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline

from .._util.typing import Array, Index, Mask, MatrixLike
from ..metrics import roc_auc
from ._evidence import Evidence
from ._table import TableView

__all__ = ["Influence", "influence"]


SECONDS = 4.0  # for all calls of the model
_ROWS = 1_000  # of each class, at most
_LEAST = 100  # of each class, where fewer rows make room for all columns
_COLUMNS = 300  # to try, first those that separate the classes best by themselves
_REPEATS = 3
_VISIBLE = 5e-4  # a drop in ROC-AUC that is seen in three decimals


@dataclass(frozen=True)
class Influence:
    """A figure for each column that was tried, the largest first."""

    columns: Index  # their places in the table
    values: Array  # signed changes of the score, or shares of the distance that are lost
    drops: Array | None  # of ROC-AUC, for permutations, if any is visible
    linear: bool
    how: str  # how the figures were measured, in words


def influence(evidence: Evidence, seed: int, seconds: float = SECONDS) -> Influence | None:
    """Coefficients if the model has them, else permutation importance; None for sparse rows or if time is short."""
    found = _coefficients(evidence)
    return found if found is not None or issparse(evidence.table.X) else _permutation(evidence, seed, seconds)


# --- linear models ---


def _coefficients(evidence: Evidence) -> Influence | None:
    model, X, names = evidence.model, evidence.table.X, evidence.table.names
    if isinstance(model, Pipeline):
        steps, model = model[:-1], model[-1]
        try:  # a transformer that mixes columns gives them other names
            if not hasattr(model, "coef_") or list(steps.get_feature_names_out(names)) != names:
                return None
        except (AttributeError, ValueError):
            return None
        X = steps.transform(X) if len(steps) else X
    coef = np.asarray(getattr(model, "coef_", np.empty(0)))
    if coef.size != evidence.table.columns or not set(evidence.table.kinds) <= {"number", "yes or no"}:
        return None
    values = np.ravel(coef).astype(np.float64) * _deviations(X)
    values = values if evidence.rule.which == 1 else -values
    order = np.argsort(-np.abs(values), kind="stable")
    how = "The change of the score when a column grows by one standard deviation, from the model's coefficients."
    return Influence(order, values[order], None, True, how)


def _deviations(X: MatrixLike) -> Array:
    if issparse(X):
        mean, square = (np.asarray(part.mean(axis=0)).ravel() for part in (X, X.multiply(X)))
        return np.sqrt(np.maximum(square - mean**2, 0.0))
    return np.asarray(np.nanstd(np.asarray(X, dtype=np.float64), axis=0))


# --- any model ---


def _permutation(evidence: Evidence, seed: int, seconds: float) -> Influence | None:
    rng, started = np.random.default_rng(seed), time.perf_counter()
    order = _by_separation(evidence)[:_COLUMNS]
    rows = _some_rows(evidence.positive, _ROWS, rng)
    took, gap, area = _timed(evidence, rows)
    if took * order.size > seconds:  # fewer rows take at most their share of the time, often less
        rows = _some_rows(evidence.positive, max(_LEAST, int(_ROWS * seconds / (took * order.size))), rng)
        took, gap, area = _timed(evidence, rows)
    lost: dict[int, list[tuple[float, float]]] = {}
    for turn in range(_REPEATS * order.size):
        if time.perf_counter() - started + took > seconds or not gap > 0:
            break
        j = int(order[turn % order.size])
        left = _score_separation(evidence, rows, _shuffled(evidence, rows, j, rng))
        lost.setdefault(j, []).append((1.0 - left[0] / gap, area - left[1]))
    if not lost:
        return None
    tried = np.array(list(lost), dtype=np.intp)
    means = np.array([np.mean(of, axis=0) for of in lost.values()])
    best = np.argsort(-means[:, 0], kind="stable")
    drops = means[best, 1] if means[:, 1].max() >= _VISIBLE else None
    how = _how(evidence, rows.size, tried.size, min(map(len, lost.values())), seconds)
    if drops is not None:
        how += f" The last figure is the drop in ROC-AUC, from {area:.3f}."
    return Influence(tried[best], means[best, 0], drops, False, how)


def _how(evidence: Evidence, rows: int, tried: int, repeats: int, seconds: float) -> str:
    times = {1: "once", 2: "twice", 3: "three times"}[repeats]
    text = (
        "The share of the distance between the mean scores of the two classes that is lost when a column is "
        f"shuffled: each one was shuffled {times}, on {rows:,} rows."
    )
    if evidence.training:
        text += " The model has seen these rows, so the figures show how much it relies on a column."
    left = evidence.table.columns - tried
    if left > 0:
        out_of_time = tried < min(_COLUMNS, evidence.table.columns)
        why = f"after {seconds:g} seconds" if out_of_time else f"after {_COLUMNS} columns"
        text += f" This ended {why}: {left:,} columns that separate the classes less were not tried."
    return text


def _some_rows(positive: Mask, most: int, rng: np.random.Generator) -> Index:
    """Up to `most` rows of each class: the area under the curve does not depend on their shares."""
    sides = [rng.permutation(np.flatnonzero(side))[:most] for side in (positive, ~positive)]
    return np.sort(np.concatenate(sides))


def _timed(evidence: Evidence, rows: Index) -> tuple[float, float, float]:
    """The seconds that a call takes, and what `_score_separation` gives for these rows."""
    started = time.perf_counter()
    figures = _score_separation(evidence, rows, evidence.table.take(evidence.index[rows]))
    return time.perf_counter() - started, *figures


def _score_separation(evidence: Evidence, rows: Index, X: MatrixLike) -> tuple[float, float]:
    """The distance between the mean scores of the classes, and the area under the ROC curve."""
    positive, weight, scores = evidence.positive[rows], evidence.weight[rows], evidence.rule.score(X)
    up, down = (float(np.average(scores[side], weights=weight[side])) for side in (positive, ~positive))
    return up - down, float(roc_auc(np.where(positive, 1.0, -1.0), scores, weight))


def _shuffled(evidence: Evidence, rows: Index, j: int, rng: np.random.Generator) -> Any:
    """These rows, with one column shuffled."""
    X, places = evidence.table.take(evidence.index[rows]), rng.permutation(rows.size)
    if not isinstance(X, pd.DataFrame):
        X = X.copy()
        X[:, j] = X[places, j]
        return X
    parts = [X.iloc[:, :j], X.iloc[places, [j]].set_axis(X.index, axis=0), X.iloc[:, j + 1 :]]
    return pd.concat(parts, axis=1)


def _by_separation(evidence: Evidence) -> Index:
    """Columns by how well each separates the classes by itself, on a limited number of rows."""
    rows = _some_rows(evidence.positive, _ROWS, np.random.default_rng(0))
    sign = np.where(evidence.positive[rows], 1.0, -1.0)
    by_column = [_separation(evidence.table, j, evidence.index[rows], sign) for j in range(evidence.table.columns)]
    return np.argsort(-np.array(by_column), kind="stable")


def _separation(table: TableView, j: int, rows: Index, sign: Array) -> float:
    """How far the ROC-AUC of a column by itself is from 1/2; categories are ranked by their rate of the class."""
    if table.kinds[j] in ("number", "date"):
        numbers = table.numbers(j, rows)
        known = ~np.isnan(numbers)
        if np.unique(sign[known]).size < 2:
            return 0.0
        return abs(float(roc_auc(sign[known], numbers[known])) - 0.5)
    codes = pd.factorize(table.column(j, rows).astype(str), use_na_sentinel=False)[0]
    hits, totals = np.bincount(codes, weights=sign > 0), np.bincount(codes)
    rates = (hits + 0.5) / (totals + 1.0)
    return abs(float(roc_auc(sign, rates[codes])) - 0.5) if totals.size < 0.5 * rows.size else 0.0
