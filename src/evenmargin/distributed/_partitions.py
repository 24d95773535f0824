"""From dask collections to blocks: a partition's rows, labels and weights, checked where they are.

A fault is not raised on the worker but returned in words, so that the client can name the first partition that
has one, whichever worker came across it first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import check_array

from .._input.checks import check_magnitude, check_weights, feature_names
from .._input.collections import is_dask
from .._input.entry import canonical
from .._util.typing import Array, Mask, MatrixLike, VectorLike
from ._engine import Parts

_FLOATS = (np.float64, np.float32)


@dataclass(frozen=True)
class Block:
    """A partition made ready: rows of weight 0 are gone, and `codes` are places in `labels`.

    Without y all labels are 0; `weight` is None where every row counts once.
    """

    number: int
    X: Any
    labels: NDArray[Any]
    codes: NDArray[np.int32]
    weight: Array | None
    kept: Mask | None = None  # which rows of the partition these are, where not all
    fault: str = ""

    @property
    def weights(self) -> Array:
        return np.ones(self.codes.size) if self.weight is None else self.weight

    @property
    def nbytes(self) -> int:
        X = self.X
        held = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if issparse(X) else X.nbytes
        return int(held + self.codes.nbytes + (0 if self.weight is None else self.weight.nbytes))


@dataclass(frozen=True)
class Partitions:
    """The blocks of a table, its columns, and the bytes of all blocks and of the largest, if known."""

    blocks: Parts
    names: list[Any] | None
    width: int
    nbytes: float = np.nan
    largest: float = np.nan

    @property
    def columns(self) -> tuple[list[Any] | None, int]:
        """The names of the columns, if they have any, and their number."""
        return self.names, self.width


def partitions(X: MatrixLike, y: VectorLike = None, weight: VectorLike = None) -> Partitions:
    """The blocks of a dask array or frame, with labels and weights cut the same way."""
    if is_frame(X):
        names = list(X.columns)
        if not names:
            raise ValueError("X has no columns: check the files that it is read from.")
        feature_names(X._meta)  # refuses names of several types
        # Columns of objects may be numbers.
        words = [name for name, kind in X.dtypes.items() if kind.kind in "mMSU" or isinstance(kind, pd.StringDtype)]
        if words:
            raise ValueError(f"X has columns that are not numbers, {words}: encode them, or leave them out.")
        return Partitions(triples(X, y, weight).numbered(prepare, names, len(names)), names, len(names))
    X = two_dimensional(X)
    width = int(X.shape[1])
    # Of a row with its code and its weight. NaN where chunks are not known, or blocks may be sparse.
    entry = 4 if X.dtype == np.float32 else 8
    each = float(width * entry + 12) if isinstance(X._meta, np.ndarray) else np.nan
    largest = max(X.chunks[0], default=0) * each
    blocks = triples(X, y, weight).fold(largest).numbered(prepare, None, width)
    return Partitions(blocks, None, width, X.shape[0] * each, largest)


def triples(X: MatrixLike, y: VectorLike, weight: VectorLike) -> Parts:
    """(rows, labels, weights) of every partition as they are; what is not given is None."""
    y, weight = _one_column(y, "y"), _one_column(weight, "sample_weight")
    together = joined(X, y, weight)
    if together is not None:
        return Parts.of(together)
    X = X if is_frame(X) else two_dimensional(X)
    return _side_by_side(X.npartitions, X, _alike(X, y, "y"), _alike(X, weight, "sample_weight"))


def label_pieces(X: MatrixLike, y: VectorLike, weight: VectorLike) -> Parts:
    """(labels, None, weights) of every partition, without reading X."""
    y, weight = _one_column(y, "y"), _one_column(weight, "sample_weight")
    if is_dask(y) and hasattr(y, "to_frame"):  # those of y, which dask may read in other pieces than X
        together = joined(y.to_frame(), None, weight)
        if together is not None:
            return Parts.of(together)
    return _side_by_side(X.npartitions, _alike(X, y, "y"), None, _alike(X, weight, "sample_weight"))


def _side_by_side(count: int, *columns: Any) -> Parts:
    """For each partition a list of its parts of the columns; what is not a dask collection goes to every partition."""
    arrays = iter(Parts.of_arrays([column for column in columns if _is_array(column)]))
    parts = []
    for column in columns:
        if _is_array(column):
            parts.append(next(arrays))
        else:
            parts.append(Parts.of(column) if is_dask(column) else Parts({}, [column] * count))
    graph = {key: task for part in parts for key, task in part.graph.items()}
    return Parts(graph, [list(keys) for keys in zip(*(part.keys for part in parts), strict=True)])


def _is_array(column: Any) -> bool:
    return is_dask(column) and hasattr(column, "chunks")


def is_frame(X: MatrixLike) -> bool:
    """Whether X, a dask collection, has columns with names."""
    return hasattr(X, "columns") and X.ndim == 2


def two_dimensional(X: MatrixLike) -> Any:
    """An array whose blocks hold whole rows."""
    if getattr(X, "ndim", None) != 2:
        raise ValueError(f"X must be a dask array or frame of two dimensions, not {type(X).__name__} of {X.ndim}.")
    if np.isnan(X.shape[1]):
        raise ValueError("The number of X's columns is not known: give the array its shape, or use a dask frame.")
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def joined(X: MatrixLike, y: VectorLike, weight: VectorLike) -> Any:
    """A collection whose partitions are (rows, labels, weights), of a frame and series; None of other kinds."""
    y, weight = _one_column(y, "y"), _one_column(weight, "sample_weight")
    series = [v for v in (y, weight) if v is not None and np.ndim(v)]
    if not is_frame(X) or not all(is_dask(v) and hasattr(v, "to_frame") for v in series):
        return None
    for v, what in ((y, "y"), (weight, "sample_weight")):
        if v is None or not np.ndim(v):
            continue
        cut = v.divisions != X.divisions and v.known_divisions and X.known_divisions
        if cut or v.npartitions != X.npartitions:
            raise ValueError(_unlike(X.npartitions, v.npartitions, what))
    # In one expression: dask joins partitions of a file by the columns that are read, y's otherwise than X's. Not by
    # `assign`, which would align rows by their index, and fill columns that a partition lacks with NaN.
    options = {"meta": X._meta, "align_dataframes": False, "enforce_metadata": False}
    return X.map_partitions(_together, y, weight, **options)


def _together(rows: Any, y: VectorLike, weight: VectorLike) -> tuple[Any, Any, Any]:
    return rows, y, weight


def _one_column(v: Any, what: str) -> Any:
    if v is not None and not is_dask(v) and not np.ndim(v):
        if what == "y":
            raise ValueError(f"y is {v!r}: it must hold one label for each row.")
        return float(v)  # of every row
    if not is_dask(v) or v.ndim == 1:
        return v
    columns = math.prod(v.shape[1:])
    if columns != 1:
        raise ValueError(f"{what} must have one column, not {columns}.")
    return v[v.columns[0]] if is_frame(v) else v[(slice(None), *[0] * (v.ndim - 1))]


def _alike(X: MatrixLike, v: Any, what: str) -> Any:
    """Labels or weights cut as X is, a dask collection; None, and one number for all rows, as they are."""
    if v is None or not np.ndim(v):
        return v
    known = not is_frame(X) and not np.isnan(X.shape[0])
    if not is_dask(v):
        if not known:
            raise ValueError(f"{what} must be a dask collection like X: the rows of X's partitions are not known.")
        import dask.array as da

        v = da.from_array(np.asarray(v), chunks=-1)
    if known and hasattr(v, "chunks") and not np.isnan(v.shape[0]):
        if v.shape[0] != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and {what} has {v.shape[0]}.")
        v = v.rechunk({0: X.chunks[0]})
    if v.npartitions != X.npartitions:
        raise ValueError(_unlike(X.npartitions, v.npartitions, what))
    return v


def _unlike(ours: int, theirs: int, what: str) -> str:
    return (
        f"X has {ours} partitions and {what} has {theirs}, or they are cut at other rows: partition both alike, "
        "as columns of one frame are."
    )


def in_words(error: Exception) -> str:
    """The first line of the error, to follow the name of a partition."""
    return str(error).split("\n")[0].rstrip(".")


def prepare(number: int, piece: tuple[Any, Any, Any], names: list[Any] | None, width: int) -> Block:
    """A partition (X, y, weight) as numbers, or with its fault in words."""
    try:
        return _prepared(number, *piece, names, width)
    except (ValueError, TypeError) as error:
        nothing = np.empty((0, width)), np.empty(0), np.empty(0, np.int32), None
        return Block(number, *nothing, fault=in_words(error))


def _prepared(
    number: int, X: MatrixLike, y: VectorLike, weight: VectorLike, names: list[Any] | None, width: int
) -> Block:
    X = check_array(
        X if names is None else same_columns(X, names),
        accept_sparse="csr", dtype=_FLOATS, order="C", ensure_min_samples=0, input_name="X",
    )  # fmt: skip
    if X.shape[1] != width:
        raise ValueError(f"it has {X.shape[1]} columns, where the table has {width}")
    y = labels_of(y, X.shape[0])
    kept = None
    if weight is not None:
        weight = check_weights(weight, X.shape[0])
        if not weight.all():
            kept = weight > 0
            X, y, weight = X[kept], y[kept], weight[kept]
    if issparse(X):
        X = canonical(X)
    if X.shape[0]:
        check_magnitude(X)
    try:
        labels, codes = np.unique(y, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"The labels in y must be of one type, none of them missing ({error})") from None
    return Block(number, aligned(X), labels, codes.astype(np.int32), weight, kept)


def same_columns(X: MatrixLike, names: list[Any]) -> Any:
    """The table's columns, in its order."""
    own = list(X.columns)
    if own == names:
        return X
    missing = [name for name in names if name not in own]
    more = [name for name in own if name not in names]
    if missing or more or len(own) != len(names):
        twice = "" if missing or more else ", some of them more than once"
        lacks = f"lacks the columns {missing}" if missing else f"has all columns of the table{twice}"
        raise ValueError(f"it {lacks}" + (f" and has {more}, which the table does not have" if more else ""))
    return X[names]


def labels_of(y: VectorLike, rows: int) -> NDArray[Any]:
    if y is None:
        return np.zeros(rows, np.int64)
    y = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    if y.shape != (rows,):
        raise ValueError(f"it has {rows} rows and labels of shape {y.shape}")
    if pd.isna(y).any():
        raise ValueError("Input y contains NaN or other missing values: leave these rows out")
    if y.dtype.kind == "f" and not np.array_equal(y, np.floor(y)):
        raise ValueError("y holds numbers that are not whole: a classifier needs classes")
    return y


def aligned(X: MatrixLike) -> Any:
    """Align X in memory: what came over a connection may lie at any byte, where products take several times as long."""
    if not issparse(X):
        return np.require(X, requirements=["C", "A"])
    parts = X.data, X.indices, X.indptr
    if all(part.flags.aligned for part in parts):
        return X
    return type(X)(tuple(np.require(part, requirements=["A"]) for part in parts), shape=X.shape)
