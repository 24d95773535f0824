"""The different rows of a table, and which of them to learn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._util.typing import Array, Floats, Index

_OFTEN = 10  # copies of a row from which it stays that many rows, which may be in several folds
_HEAVY = 1_000.0  # average weight of a row, up to which a weight is taken for a number of rows


@dataclass(frozen=True)
class DistinctRows:
    """The different rows of a table, in an order of their own."""

    X: Array
    y: NDArray[Any]
    weight: Array
    count: Array  # how many rows of the table each of them is
    inverse: Index  # which of them each row of the table is


def distinct_rows(X: Array, y: NDArray[Any], weight: Array) -> DistinctRows:
    """Make one row of rows of a class that are the same, of their total weight.

    So neither the order of the rows nor the way that weights are written matters, and
    few copies of a row are not in two folds. But a row that the table has often is
    several rows: new rows will be like it, and it must not be judged as never seen.
    """
    codes = np.unique(y, return_inverse=True)[1]
    with np.errstate(over="ignore"):
        single, double = _keys(X.astype(np.float32)), _keys(X)
    order = np.lexsort((double, codes, single))
    new = (np.diff(double[order]) != 0) | (np.diff(codes[order]) != 0)
    starts = np.concatenate([[0], np.flatnonzero(new) + 1])
    group = np.concatenate([[0], np.cumsum(new)])
    count = np.bincount(group)
    total = np.asarray(np.bincount(group, weights=weight[order]), dtype=np.float64)
    if not total.size <= total.sum() <= _HEAVY * total.size:
        total *= total.size / total.sum()  # weights are in units of their own, and count a row each on average
    times = np.where(count >= _OFTEN, _OFTEN, 1)
    places = np.concatenate([[0], np.cumsum(times)])
    inverse = np.empty(y.size, np.intp)
    inverse[order] = places[group] + (np.arange(y.size) - starts[group]) % times[group]
    first = order[starts].repeat(times)
    return DistinctRows(X[first], y[first], (total / times).repeat(times), (count / times).repeat(times), inverse)


def _keys(X: Floats) -> NDArray[np.uint64]:
    """Hash each row by its content only."""
    rows = pd.DataFrame(X + X.dtype.type(0))  # one zero, not two
    return pd.util.hash_pandas_object(rows, index=False).to_numpy()


@dataclass(frozen=True)
class WorkingRows:
    """The rows to learn from: which, at which weights, and how many rows of the table they are."""

    index: Index
    weight: Array
    count: Array

    def place(self, rows: DistinctRows) -> Index:
        """Find each row of the table among these; −1 if it is not there."""
        place = np.full(rows.y.size, -1)
        place[self.index] = np.arange(self.index.size)
        return place[rows.inverse]


def rows_of_each(sizes: Index, most: int) -> int:
    """Choose how many rows of a class to take: as many of each, but what a small class leaves goes to the others."""
    if sizes.sum() <= most:
        return most
    small = np.sort(sizes)
    quotas = (most - np.cumsum(small) + small) // np.arange(small.size, 0, -1)
    return int(quotas[small > quotas][0])


def working_rows(rows: DistinctRows, classes: NDArray[Any], most: int, seed: int) -> WorkingRows:
    """Choose up to so many rows, the smaller classes whole, at weights that keep the share of each class."""
    quota = rows_of_each(np.array([np.count_nonzero(rows.y == label) for label in classes]), most)
    rng, kept, weight = np.random.default_rng(seed), [], rows.weight.copy()
    for label in classes:
        own = np.flatnonzero(rows.y == label)
        some = np.sort(rng.permutation(own)[:quota])
        weight[some] *= rows.weight[own].sum() / rows.weight[some].sum()
        kept.append(some)
    index = np.sort(np.concatenate(kept))
    return WorkingRows(index, weight[index], rows.count[index])
