"""Dask collections, recognised without importing dask.

Estimators ask `is_dask` before they validate, which would load the whole table, and leave the work to
`evenmargin.distributed`, which they import then.
"""

from __future__ import annotations

from .._util.typing import MatrixLike


def is_dask(X: MatrixLike) -> bool:
    """Whether X is a dask array, frame or series; other lazy objects of dask are refused, as their shape is unknown."""
    if type(X).__module__.partition(".")[0] not in ("dask", "distributed"):
        return False
    if not (hasattr(type(X), "npartitions") and hasattr(type(X), "ndim")):  # of the type: Delayed has all attributes
        raise TypeError(
            f"A dask {type(X).__name__} is neither an array nor a frame: make one with dask.array.from_delayed or "
            "dask.dataframe.from_delayed, or call compute() if it fits into memory."
        )
    return True


def refuse_dask(X: MatrixLike, name: str = "X") -> None:
    """Refuse a dask collection where rows must be in memory: a whole table is not loaded unasked."""
    if is_dask(X) and name != "X":
        raise TypeError(
            f"{name} is a dask {type(X).__name__}, but X is in memory: call {name}.compute(), or give X as a dask "
            "collection too."
        )
    if is_dask(X):
        raise TypeError(
            f"X is a dask {type(X).__name__}, but this needs rows in memory: call X.compute() if they fit. LinearSVM, "
            "StratifiedNystroem (before it, for a kernel), DensityWeights and EvenMarginClassifier take collections."
        )
