"""A method of a fitted estimator, block by block and lazily."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import dask
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._input.checks import check_is_fitted, check_weights
from .._util.typing import Array, MatrixLike, VectorLike
from ._engine import Engine, reduced
from ._moments import added
from ._partitions import in_words, is_frame, labels_of, triples, two_dimensional


def over_blocks(estimator: BaseEstimator, method: str, X: MatrixLike) -> Any:
    """`estimator.method` of every block: an array of (n,) or (n, columns), cut as X is.

    How long the partitions of a frame are is not known, nor are the array's chunks then.
    """
    X = X if is_frame(X) else two_dimensional(X)
    like = empty_result(estimator, method, X)
    if is_frame(X):
        kind = pd.DataFrame if like.ndim > 1 else pd.Series
        return over_frames(estimator, method, X, kind(like)).to_dask_array()
    # By name: arguments that are arrays would be cut into blocks.
    options = {"estimator": _frozen(estimator, X), "method": method, "nothing": like}
    options |= {"token": method, "dtype": like.dtype, "meta": like}
    if like.ndim == 1:
        return X.map_blocks(called, drop_axis=1, **options)
    return X.map_blocks(called, chunks=(X.chunks[0], (like.shape[1],)), **options)


def empty_result(estimator: BaseEstimator, method: str, X: MatrixLike) -> NDArray[Any]:
    """What the method returns for no rows, from trying it with two, which also checks the columns at once."""
    check_is_fitted(estimator)
    result = getattr(estimator, method)(probe(estimator, X))
    if not isinstance(result, np.ndarray):
        raise ValueError(
            f"Transform output {type(result).__module__.partition('.')[0]!r} would load all features: on dask "
            "collections it must be 'default'."
        )
    return result[:0]


def over_frames(estimator: BaseEstimator, method: str, X: MatrixLike, nothing: pd.DataFrame | pd.Series) -> Any:
    """`estimator.method` of every partition of a frame, in one like `nothing` with the index of X."""
    options = {"token": method, "meta": nothing.set_axis(X._meta.index, axis=0), "enforce_metadata": False}
    return X.map_partitions(_called_of_frame, _frozen(estimator, X), method, nothing, **options)


def probe(estimator: BaseEstimator, X: MatrixLike) -> Any:
    """Two rows with the columns of X and nothing missing; words and dates only for an estimator that reads them."""
    if not is_frame(X):
        return np.zeros((2, int(X.shape[1])), X.dtype)
    rows = X._meta_nonempty.reset_index(drop=True)
    reads = estimator.__sklearn_tags__().input_tags.string
    for name, kind in X.dtypes.items():
        if pd.api.types.is_numeric_dtype(kind):
            rows[name] = pd.Series([0, 0], dtype=kind)
        elif not reads:
            rows[name] = 0.0
    return rows


def score_blocks(estimator: BaseEstimator, X: MatrixLike, y: VectorLike, sample_weight: VectorLike = None) -> float:
    """The share of rows that are classified correctly, by weight: two numbers travel for each block."""
    check_is_fitted(estimator)
    if y is None:
        raise ValueError("A score needs the classes of the rows: call score(X, y).")
    parts = triples(X, y, sample_weight).numbered(_right, for_tasks(estimator, X))
    with Engine() as engine:
        right, total = engine.compute(reduced(parts, added))
    if not total > 0:
        raise ValueError("X has no rows of a weight above 0.")
    return float(right / total)


def _right(number: int, piece: tuple[Any, Any, Any], estimator: BaseEstimator) -> Array:
    """The weight of the rows that are predicted right, and of all."""
    X, y, weight = piece
    if not X.shape[0]:
        return np.zeros(2)
    try:
        y, weight = labels_of(y, X.shape[0]), check_weights(weight, X.shape[0])
        return np.array([weight[estimator.predict(X) == y].sum(), weight.sum()])
    except (ValueError, TypeError) as error:
        raise ValueError(f"Partition {number}: {in_words(error)}.") from None


def for_tasks(estimator: BaseEstimator, X: MatrixLike) -> Any:
    """A copy of the estimator, as it may be fitted again before tasks run; with one thread, as dask has its own.

    It takes the names of X's columns for its own, or their lack: the probe has warned, and blocks need not.
    """
    estimator = copy(estimator)
    if getattr(estimator, "n_jobs", 1) is None:
        estimator.n_jobs = 1
    names = list(X.columns) if is_frame(X) else []
    if names and all(isinstance(name, str) for name in names):
        vars(estimator).setdefault("feature_names_in_", np.array(names, dtype=object))
    elif not names and not estimator.__sklearn_tags__().input_tags.string:
        vars(estimator).pop("feature_names_in_", None)
    return estimator


def _frozen(estimator: BaseEstimator, X: MatrixLike) -> Any:
    """The copy for tasks as one value of the graph, not one in each task."""
    return dask.delayed(for_tasks(estimator, X), pure=False, traverse=False)


def called(
    part: MatrixLike, estimator: BaseEstimator, method: str, nothing: Any, block_id: Sequence[int] | None = None
) -> Any:
    """Call a method with one block."""
    if not part.shape[0]:
        return nothing
    try:
        return getattr(estimator, method)(part)
    except ValueError as error:
        where = f"Partition {block_id[0]}: " if block_id else ""
        raise ValueError(f"{where}{in_words(error)}.") from None


def _called_of_frame(
    part: MatrixLike,
    estimator: BaseEstimator,
    method: str,
    nothing: pd.DataFrame | pd.Series,
    partition_info: Mapping[str, Any] | None = None,
) -> Any:
    """Call a method with one partition of a frame; the result is one like `nothing`."""
    number = None if partition_info is None else (partition_info["number"],)
    found = type(nothing)(called(part, estimator, method, nothing, number))
    if isinstance(nothing, pd.DataFrame):
        found = found.set_axis(nothing.columns, axis=1)
    return found.set_axis(part.index, axis=0)
