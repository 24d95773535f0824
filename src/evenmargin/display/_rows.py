"""Labels, weights and scores of rows, checked before a figure is computed from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._util.typing import Array, Mask

__all__ = ["ScoredRows", "label_rows"]

_ROUNDING = 1e-6  # how far a float32 model's probabilities may leave [0, 1]


class ScoredRows(NamedTuple):
    """Rows of weight above 0: which are positive, their weights and scores, and the labels (negative, positive)."""

    positive: Mask
    weight: Array
    scores: list[Array]
    labels: tuple[object, object]


def label_rows(
    y_true: ArrayLike, pos_label: object, sample_weight: ArrayLike | None, *, unit: bool = False, **scores: ArrayLike
) -> ScoredRows:
    """Check labels, weights and scores; with `unit` the scores must be probabilities."""
    y = np.asarray(y_true)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    if y.ndim != 1 or y.size == 0:
        raise ValueError(f"y_true has shape {y.shape}; it must hold one label for each row.")
    parts = [_numbers(part, name, y.size) for name, part in scores.items()]
    weight = np.ones(y.size) if sample_weight is None else _numbers(sample_weight, "sample_weight", y.size)
    if (weight < 0).any():
        raise ValueError("sample_weight must not be below 0.")
    if unit:
        parts = [_probabilities(part, name) for name, part in zip(scores, parts, strict=True)]
    negative_label, pos_label = _two_labels(y, pos_label)
    keep = weight > 0
    positive = (y == pos_label)[keep]
    if not positive.any() or positive.all():
        raise ValueError("y_true must hold rows of both classes with a weight above 0.")
    return ScoredRows(positive, weight[keep], [part[keep] for part in parts], (negative_label, pos_label))


def _numbers(values: ArrayLike, name: str, n: int) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold numbers, one for each row.") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.ravel()
    if array.shape != (n,):
        advice = ": give the column of the positive class" if array.shape == (n, 2) else ""
        raise ValueError(
            f"{name} has shape {array.shape}; it must hold one number for each of the {n} rows of y_true{advice}."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers only.")
    return array


def _probabilities(part: Array, name: str) -> Array:
    if part.min() < -_ROUNDING or part.max() > 1.0 + _ROUNDING:
        raise ValueError(
            f"{name} must hold probabilities from 0 to 1, not numbers from {part.min():.3g} to {part.max():.3g}: "
            "calibrate scores first, for example with sklearn.calibration.CalibratedClassifierCV."
        )
    return part.clip(0.0, 1.0)


def _two_labels(y: NDArray[np.generic], pos_label: object) -> tuple[object, object]:
    """(negative, positive), where without a `pos_label` the label 1 is positive."""
    try:
        found = np.unique(y).tolist()
    except TypeError as error:
        raise ValueError(f"The labels in y_true must be of one type, none of them missing ({error}).") from None
    if len(found) != 2:
        raise ValueError(f"y_true must hold two classes, and it holds {len(found)}: {found[:5]}.")
    if pos_label is None:
        if found not in ([0, 1], [-1, 1]):
            raise ValueError(f"y_true holds {found[0]!r} and {found[1]!r}: say which is positive with pos_label.")
        pos_label = found[1]
    elif pos_label not in found:
        raise ValueError(f"pos_label={pos_label!r} is not in y_true, which holds {found[0]!r} and {found[1]!r}.")
    return found[1 - found.index(pos_label)], found[found.index(pos_label)]
