"""Scores, labels and weights of rows, checked: what thresholds and metrics are computed from."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from .._util.typing import Array, Mask


def as_real(value: object) -> float:
    """The value as a float; NaN where it is not a real number."""
    return float(value) if isinstance(value, Real) and not isinstance(value, bool | np.bool_) else math.nan


def finite_vector(values: ArrayLike, name: str) -> Array:
    """One finite number for each row."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers, one for each row.") from None
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError(f"{name} must hold one finite number for each row.")
    return array


def scores_of_two_classes(
    labels: ArrayLike, sample_weight: ArrayLike | None, *, name: str = "y", **scores: ArrayLike
) -> tuple[Mask, Array | None, list[Array]]:
    """Which rows are positive, their weights if there are any, and their scores; rows of weight 0 are left out.

    `name` is what error messages call the labels, and each keyword what they call an array of scores.
    """
    vectors = {key: finite_vector(values, key) for key, values in {**scores, name: labels}.items()}
    if sample_weight is not None:
        vectors["sample_weight"] = finite_vector(sample_weight, "sample_weight")
    if len({vector.size for vector in vectors.values()}) > 1:
        sizes = ", ".join(str(vector.size) for vector in vectors.values())
        raise ValueError(f"{', '.join(vectors)} must have the same length, not {sizes}.")
    weight = vectors.pop("sample_weight", None)
    if weight is not None:
        if (weight < 0).any():
            raise ValueError("sample_weight must not be below 0.")
        counted = weight > 0
        weight, vectors = weight[counted], {key: vector[counted] for key, vector in vectors.items()}
    positive = vectors.pop(name) > 0
    if not positive.any() or positive.all():
        raise ValueError(f"{name} must hold rows of both classes (above 0: positive) with a weight above 0.")
    return positive, weight, list(vectors.values())
