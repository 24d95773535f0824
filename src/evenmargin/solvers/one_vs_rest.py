"""One class against the rest: from labels, weights and C to two-class tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._util.typing import Array, Floats
from ..weights import LARGEST_PRICE, is_minority, prices_are_usable, row_costs

__all__ = ["Task", "binary_task", "effective_C", "one_vs_rest"]


@dataclass(frozen=True)
class Task:
    """A two-class task, in which the minority is labelled +1."""

    labels: Floats
    price: Array
    sign: float  # +1 or −1, turns the task's scores into those of the class in question
    radius: float  # 1/√λ, or more where weights ask for it, for solvers that project


def one_vs_rest(classes: NDArray[Any]) -> list[int]:
    """The positive class of each task: the second of two classes, or each of more."""
    return [1] if classes.size == 2 else list(range(classes.size))


def effective_C(C: float, alpha: float | None, total: float) -> float:
    """C, or what alpha = λ means for rows of this total weight: 1/(λ·n)."""
    return float(C) if alpha is None else 1.0 / (float(alpha) * total)


def binary_task(
    y: NDArray[Any],
    weight: Array,
    classes: NDArray[Any],
    which: int,
    *,
    C: float,
    alpha: float | None,
    class_weight: Any,
    dtype: Any,
    totals: Array | None = None,  # the weight of each class, where these rows are part of a stream
    density: Array | None = None,  # one more factor of the prices, which class weights do not see
) -> Task:
    """The task of class `which` against the rest."""
    positive = y == classes[which]
    if totals is None:
        total, pair = float(weight.sum()), np.array([weight[~positive].sum(), weight[positive].sum()])
    else:
        total, pair = float(totals.sum()), np.array([totals.sum() - totals[which], totals[which]])
    rare = is_minority(pair[1], pair[0])
    C = effective_C(C, alpha, total)
    with np.errstate(over="ignore"):
        price = C * row_costs(class_weight, y, positive, weight, pair, classes)
        if density is not None:
            price = price * density
    if not prices_are_usable(price):
        raise ValueError(
            f"C times the weights runs from {price.min():.1e} to {price.max():.1e}: choose C (or alpha), "
            f"class_weight and sample_weight so that every row has a price above 0 and below {LARGEST_PRICE:.0e}."
        )
    labels = np.where(positive == rare, 1.0, -1.0).astype(dtype)
    radius = float(np.sqrt(max(C * total, price.sum())))
    return Task(labels, price, 1.0 if rare else -1.0, radius)
