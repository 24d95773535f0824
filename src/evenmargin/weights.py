"""The cost of each row (class weights times sample weights), which class is the minority, and which prices are usable.

Totals count sample weights, for "balanced" and "inverse" too: a weight of 2 counts a row twice, one of 0 not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._util.typing import Array, Mask

__all__ = ["minority_is_positive", "row_costs"]

# Above it, squares of prices times squares of features would overflow.
LARGEST_PRICE = 1e60


_RULES: dict[str, Callable[[Array], Any]] = {
    "balanced": lambda totals: totals.sum() / (2.0 * totals),
    "inverse": lambda totals: 1.0 / totals,
}


def row_costs(
    class_weight: str | Mapping[Any, float] | Callable[[Array], Any] | None,
    labels: NDArray[Any],
    positive: Mask,
    sample_weight: Array,
    totals: Array | None = None,
    classes: NDArray[Any] | None = None,
) -> Array:
    """The cost of every row of a two-class problem.

    Parameters
    ----------
    class_weight : None, "balanced", "inverse", dict or callable
        "balanced": total/(2·total of the class). "inverse": 1/total of the class (Lu and Zhou, eq. 8). dict: by label,
        1 where a label is missing. callable: takes the two totals (negative, positive) and returns two weights.
    labels : ndarray of shape (n,)
        The labels as the user gave them, which are the keys of a dict.
    positive : bool ndarray of shape (n,)
        The class of the row in this problem (one class against the rest).
    sample_weight : ndarray of shape (n,)
    totals : ndarray of shape (2,), optional
        Weight of the negative and of the positive class, if these rows are only part of the data.
    classes : ndarray, optional
        All labels, if these rows may not include all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.weights import row_costs
    >>> y = np.array([0, 0, 0, 1])
    >>> row_costs("balanced", y, y == 1, np.ones(4))
    array([0.66666667, 0.66666667, 0.66666667, 2.        ])
    """
    if class_weight is None:
        return sample_weight
    if isinstance(class_weight, Mapping):
        return sample_weight * _by_label(class_weight, labels, np.unique(labels) if classes is None else classes)
    rule = class_weight if callable(class_weight) else _RULES.get(class_weight)
    if rule is None:
        raise ValueError(
            f"class_weight={class_weight!r} is unknown; choose None, 'balanced', 'inverse', "
            "a dict of label: weight, or a callable."
        )
    if totals is None:
        totals = np.array([sample_weight[~positive].sum(), sample_weight[positive].sum()])
    with np.errstate(divide="ignore", over="ignore"):  # a class that a stream has not had yet
        weights = np.asarray(rule(totals), dtype=np.float64)
    if weights.shape != (2,):
        raise ValueError(f"class_weight: the callable must return two weights, negative class first, not {weights}.")
    return sample_weight * weights[positive.astype(np.intp)]


def _by_label(weights: Mapping[Any, Any], labels: NDArray[Any], classes: NDArray[Any]) -> Array:
    known = classes.tolist()
    unknown = [label for label in weights if label not in known]
    if unknown:
        raise ValueError(f"class_weight names {unknown}, but the classes are {known}.")
    each = [weights.get(label, 1.0) for label in known]
    if not all(isinstance(weight, Real) and 0 < float(weight) < np.inf for weight in each):
        raise ValueError(f"class_weight must give each class a finite weight above 0, not {dict(weights)}.")
    return np.array(each, dtype=np.float64)[np.searchsorted(classes, labels)]


def is_minority(own: float, rest: float) -> bool:
    """Whether a class of this total weight is the minority against the rest, which it also is on a tie."""
    return bool(own <= rest)


def minority_is_positive(positive: Mask, sample_weight: Array) -> bool:
    """Whether the class marked True is the minority, the one of smaller weight; on a tie it is."""
    return is_minority(sample_weight[positive].sum(), sample_weight[~positive].sum())


def prices_are_usable(price: Array) -> bool:
    """Whether every price is above 0 and below `LARGEST_PRICE`; NaN is not."""
    return bool(price.min() > 0 and price.max() < LARGEST_PRICE)
