"""What several tables measure in the same way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student
from sklearn.model_selection import StratifiedKFold

from .._util.typing import Array, Index, Labels
from ..metrics import GMean, recall
from ._base import Settings

__all__ = [
    "Fold", "confusion", "gmean", "interval", "mean", "mean_and_spread", "rows_of", "sensitivity", "stratified_folds",
]  # fmt: skip

Fold = tuple[Index, Index]  # training rows and test rows


def stratified_folds(y: NDArray[Any], count: int, seed: int) -> list[Fold]:
    """Stratified folds of shuffled rows."""
    return list(StratifiedKFold(count, shuffle=True, random_state=seed).split(y, y))


def rows_of(settings: Settings, name: str) -> tuple[Array, Labels]:
    """The training rows of a set as float64, and their labels."""
    data = settings.load(name)
    return np.ascontiguousarray(data.X, np.float64), np.asarray(data.y, np.int64)


def confusion(y: ArrayLike, predicted: ArrayLike) -> dict[str, Any]:
    """The four counts, as `evenmargin.metrics` takes them; positive is above 0."""
    cells = 2 * (np.asarray(y) > 0) + (np.asarray(predicted) > 0)
    return dict(zip(("tn", "fp", "fn", "tp"), np.bincount(cells, minlength=4).tolist(), strict=True))


def sensitivity(y: ArrayLike, predicted: ArrayLike) -> float:
    """The share of the positive rows that are found."""
    return float(recall(**confusion(y, predicted)))


def gmean(y: ArrayLike, predicted: ArrayLike) -> float:
    """The root of the product of the recalls of both classes."""
    return float(GMean()(**confusion(y, predicted)))


def mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard deviation; a single value has no deviation."""
    return mean(values), float(np.std(values, ddof=1)) if len(values) > 1 else None


def interval(differences: Sequence[float], overlap: float = 0.0) -> tuple[float, float]:
    """Mean of differences over folds or seeds, and the half width of its 95 % interval.

    Student's, with the correction of Nadeau and Bengio where training sets overlap:
    `overlap` is the number of test rows over that of training rows in a fold (1/4 for
    five folds), 0 for independent values.
    """
    count = len(differences)
    if count < 2:
        return mean(differences), math.inf
    scale = math.sqrt((1.0 / count + overlap) * float(np.var(differences, ddof=1)))
    return mean(differences), float(student.ppf(0.975, count - 1)) * scale
