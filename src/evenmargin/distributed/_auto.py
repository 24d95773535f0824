"""`EvenMarginClassifier` on dask collections: a sample is drawn where the rows are, and learned from in memory.

A first pass counts the classes and reads labels and weights only. It tells how many rows of each class are wanted. In
the second, every row draws a number from a stream that belongs to its partition, and those travel whose number is small
enough to be wanted; of them the least are taken. So the sample of each class is uniform, and the same whoever drew it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._input.checks import check_is_fitted, check_weights
from .._tables.distinct import rows_of_each
from .._tables.encoder import as_table
from .._util.typing import Array, Index, MatrixLike, VectorLike
from ._blocks import called, for_tasks, over_frames, probe
from ._engine import Engine, Parts, reduced
from ._moments import added
from ._partitions import in_words, is_frame, label_pieces, labels_of, prepare, same_columns, triples, two_dimensional
from ._survey import FirstPass, Survey, merge_surveys, survey


@dataclass(frozen=True)
class TableSample:
    """Rows of a table, at weights that make up for the others; which rows they are, and of how many."""

    table: Any
    y: NDArray[Any]
    weight: Array
    index: Index
    rows: int


@dataclass(frozen=True)
class SampledPart:
    """Rows of one partition that may be in the sample: their labels, weights, numbers, and places in it."""

    number: int
    length: int
    table: Any = None
    y: Any = None
    weight: VectorLike = None
    clock: Any = None
    place: Any = None
    fault: str = ""


def sample_table(X: MatrixLike, y: VectorLike, sample_weight: VectorLike, most: int, seed: int) -> TableSample:
    """Up to `most` rows, the small classes whole, at weights that keep the weight of each class."""
    if y is None:
        raise ValueError("EvenMarginClassifier requires y to be passed, but the target y is None.")
    X = X if is_frame(X) else two_dimensional(X)
    counts = label_pieces(X, y, sample_weight).numbered(tally)
    with Engine() as engine:
        found: Survey = engine.compute(reduced(counts, merge_surveys, 0)).check_classes(" of y")
        quota = rows_of_each(np.array(list(found.counts.values())), most)
        limits = {label: _limit(quota, rows) for label, rows in found.counts.items()}
        names = list(X.columns) if is_frame(X) else None
        parts = triples(X, y, sample_weight).numbered(take, names, limits, seed)
        taken: list[SampledPart] = engine.compute(reduced(parts, added))
    Survey(rows=1, faults=[(part.number, part.fault) for part in taken if part.fault]).check()
    return _sampled(taken, found, quota)


def tally(number: int, piece: tuple[Any, None, Any]) -> Survey:
    """The classes of one partition."""
    y, _, weight = piece
    return survey(prepare(number, (np.zeros((len(y), 1)), y, weight), None, 1), FirstPass())


def _limit(quota: int, rows: int) -> float:
    """Below this the numbers of a few more rows than the quota lie; hardly ever, once in 10⁹, of less."""
    return (quota + 6.0 * math.sqrt(quota) + 20.0) / rows


def take(
    number: int, piece: tuple[Any, Any, Any], names: list[Any] | None, limits: dict[Any, float], seed: int
) -> list[SampledPart]:
    """The rows of one partition whose numbers are below the limit of their class."""
    X, y, weight = piece
    try:
        X = as_table(X if names is None else same_columns(X, names))
        labels, codes = np.unique(labels_of(y, X.shape[0]), return_inverse=True)
        weight = check_weights(weight, codes.size)
    except (ValueError, TypeError) as error:
        return [SampledPart(number, 0, fault=in_words(error))]
    clock = np.random.default_rng([seed, number]).random(codes.size)
    limit = np.array([limits.get(label, 0.0) for label in labels.tolist()])
    kept = np.flatnonzero((weight > 0) & (clock < limit[codes])) if codes.size else np.empty(0, np.intp)
    table = X.iloc[kept] if hasattr(X, "iloc") else X[kept]
    return [SampledPart(number, codes.size, table, labels[codes[kept]], weight[kept], clock[kept], kept)]


def _sampled(taken: list[SampledPart], found: Survey, quota: int) -> TableSample:
    """The rows with the least numbers of each class, in the order of the table."""
    starts = np.cumsum([0] + [part.length for part in taken])
    index = np.concatenate([start + part.place for start, part in zip(starts[:-1], taken, strict=True)])
    some = [part for part in taken if part.place.size]
    y, weight, clock = (np.concatenate([getattr(p, name) for p in some]) for name in ("y", "weight", "clock"))
    kept = []
    for label, total in found.totals.items():
        own = np.flatnonzero(y == label)
        own = own[np.argsort(clock[own], kind="stable")[:quota]]
        if own.size < found.counts[label]:
            weight[own] *= total / weight[own].sum()
        kept.append(own)
    rows = np.sort(np.concatenate(kept))
    return TableSample(_stacked([part.table for part in some], rows), y[rows], weight[rows], index[rows], found.rows)


def _stacked(tables: list[Any], rows: Index) -> Any:
    """Some rows of all tables; a column of categories has those of all of them."""
    if not hasattr(tables[0], "iloc"):
        return np.concatenate(tables)[rows]
    from dask.dataframe.dispatch import concat

    return concat(tables).iloc[rows].reset_index(drop=True)


def assess_blocks(model: BaseEstimator, X: MatrixLike) -> Any:
    """`EvenMarginClassifier.assess`, lazily: a frame with the partitions of X, and its index if it has one."""
    check_is_fitted(model)
    if is_frame(X):
        return over_frames(model, "assess", X, model.assess(probe(model, X)).iloc[:0])
    X = two_dimensional(X)
    meta = model.assess(probe(model, X)).iloc[:0]
    return Parts.of_arrays([X])[0].map(called, for_tasks(model, X), "assess", meta).frame(meta)
