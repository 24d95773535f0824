"""The rows of one class against the rest, as a view shows them, and how they are split into folds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from .._util.threads import Workers
from .._util.typing import Array, Index, Mask, Single
from ..kernels import Exponential
from ..weights import minority_is_positive, row_costs
from .views import View, ViewSpec

_MEDIAN_ROWS = 500

Split = tuple[Index, Index]  # rows to train on, rows to score


@dataclass
class ViewRows:
    """The training rows as a view shows them, which all classes share; `median` is that of their distances."""

    spec: ViewSpec
    view: View
    Z: Single
    median: float

    @classmethod
    def of(cls, spec: ViewSpec, X: Array, weight: Array) -> ViewRows:
        view = spec.view().fit(X, weight)
        Z = view.transform(X)
        return cls(spec, view, Z, median_distance(spec, Z))


def positive_side(
    y: NDArray[Any], weight: Array, classes: NDArray[Any], place: int, pos_label: Any
) -> tuple[float, Mask]:
    """The sign that turns scores into those of `classes[place]`, and which rows are positive.

    Of two classes the positive one is `pos_label`, or the rarer one.
    """
    own = y == classes[place]
    if classes.size > 2:
        return 1.0, own
    named = minority_is_positive(own, weight) if pos_label is None else classes[1] == pos_label
    return (1.0, own) if named else (-1.0, ~own)


def median_distance(spec: ViewSpec, Z: Single) -> float:
    """The median of distances that are not 0, among some rows."""
    some = Z[:: -(-Z.shape[0] // _MEDIAN_ROWS)]
    apart = pdist(some, "euclidean" if spec.kernel is Exponential else "sqeuclidean")
    apart = apart[apart > 0]
    return float(np.median(apart)) if apart.size else 1.0


@dataclass
class ClassRows:
    """The rows of one class against the rest, and what all steps on them need."""

    positive: Mask
    weight: Array
    seed: int
    workers: Workers

    def only(self, rows: Index) -> ClassRows:
        return ClassRows(self.positive[rows], self.weight[rows], self.seed, self.workers)

    @property
    def signs(self) -> Array:
        return np.where(self.positive, 1.0, -1.0)

    @property
    def costs(self) -> Array:
        """What each row costs when both classes weigh the same in total."""
        return row_costs("balanced", self.positive, self.positive, self.weight)

    def known_folds(self, fold: Index) -> Iterator[tuple[Mask, Index]]:
        """Which rows each fold has, and those of the other folds, or all rows if these are of one class."""
        for k in range(int(fold.max()) + 1):
            own = fold == k
            others = ~own if self.has_both(~own) else np.ones(own.size, np.bool_)
            yield own, np.flatnonzero(others)

    def has_both(self, wanted: Mask) -> bool:
        """Whether both classes are among the wanted rows."""
        return bool(0 < np.count_nonzero(self.positive[wanted]) < np.count_nonzero(wanted))


def some_rows(rows: Index, positive: Mask, size: int, share: float, seed: int) -> Index:
    """Up to `size` of the rows, of which up to this share is positive; a quarter more is left as it is."""
    if rows.size <= 1.25 * size:
        return rows
    rng = np.random.default_rng(seed)
    rare, others = (rng.permutation(rows[positive[rows] == kind]) for kind in (True, False))
    rare = rare[: max(int(share * size), size - others.size)]
    return np.sort(np.concatenate([rare, others[: size - rare.size]]))


def fold_numbers(positive: Mask, count: int, seed: int) -> Index:
    """Which fold each row is in, each class spread evenly."""
    rng = np.random.default_rng(seed)
    fold, start = np.empty(positive.size, np.intp), 0
    for kind in (True, False):
        rows = rng.permutation(np.flatnonzero(positive == kind))
        fold[rows] = (start + np.arange(rows.size)) % count
        start += rows.size
    return fold


def fold_splits(fold: Index, positive: Mask) -> list[Split]:
    """Rows to train on and rows to score; the only row of a class is always trained on, though it is scored too."""
    lone = np.zeros(fold.size, np.bool_)
    for kind in (positive, ~positive):
        lone |= kind & (np.count_nonzero(kind) == 1)
    return [(np.flatnonzero((fold != k) | lone), np.flatnonzero(fold == k)) for k in range(int(fold.max()) + 1)]
