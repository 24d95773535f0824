"""Figures that the papers measure, and what is said of several of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

__all__ = ["gmean", "interval", "mean_and_spread", "sensitivity"]


def sensitivity(y: ArrayLike, predicted: ArrayLike) -> float:
    """The share of the rows of class +1 that are found."""
    y, predicted = np.asarray(y), np.asarray(predicted)
    return float(np.mean(predicted[y > 0] > 0))


def gmean(y: ArrayLike, predicted: ArrayLike) -> float:
    """The root of the product of the recalls of both classes; labels −1 and +1."""
    y, predicted = np.asarray(y), np.asarray(predicted)
    return math.sqrt(sensitivity(y, predicted) * sensitivity(-y, -predicted))


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard deviation; no deviation of one value."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def interval(differences: Sequence[float], overlap: float = 0.0, level: float = 0.95) -> tuple[float, float]:
    """Mean of differences over folds or seeds, and the half width of its interval.

    Student's, with the correction of Nadeau and Bengio where training sets overlap:
    `overlap` is the number of test rows over that of training rows in a fold (1/4 for
    five folds), 0 for independent values.
    """
    count = len(differences)
    if count < 2:
        return float(np.mean(differences)), math.inf
    scale = math.sqrt((1.0 / count + overlap) * float(np.var(differences, ddof=1)))
    return float(np.mean(differences)), float(student.ppf(0.5 + level / 2, count - 1)) * scale
