"""Dask collections, told and passed on without importing dask.

Estimators ask `is_dask` before they validate, which would load the whole table, and leave the work to
`evenmargin.distributed`. That package knows them, so they know it by name only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

from .._util.typing import MatrixLike

__all__ = ["by_blocks", "elsewhere", "is_dask", "refuse_dask"]

_Method = TypeVar("_Method", bound=Callable[..., Any])


def is_dask(X: MatrixLike) -> bool:
    """Whether X is a dask array, frame or series; what else dask computes is refused, as its shape is not known."""
    if type(X).__module__.partition(".")[0] not in ("dask", "distributed"):
        return False
    if not (hasattr(type(X), "npartitions") and hasattr(type(X), "ndim")):  # of the type: Delayed has all attributes
        raise TypeError(
            f"A dask {type(X).__name__} is no array and no frame: make one of it by dask.array.from_delayed or "
            "dask.dataframe.from_delayed, or call compute() if it fits into memory."
        )
    return True


def refuse_dask(X: MatrixLike, name: str = "X") -> None:
    """Where rows must be in memory: a whole table is not loaded unasked. Labels and weights are where rows are."""
    if is_dask(X) and name != "X":
        raise TypeError(
            f"{name} is a dask {type(X).__name__}, and X is in memory: call {name}.compute(), or give X as a dask "
            "collection too."
        )
    if is_dask(X):
        raise TypeError(
            f"X is a dask {type(X).__name__}, and this takes rows in memory: call X.compute() if they fit. LinearSVM, "
            "StratifiedNystroem (before it, for a kernel), DensityWeights and EvenMarginClassifier take it as it is."
        )


def elsewhere(name: str) -> Callable[..., Any]:
    """A function of `evenmargin.distributed`, imported when it is needed."""
    try:
        module = import_module("evenmargin.distributed")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("dask", "distributed", "pyarrow"):
            raise
        raise ModuleNotFoundError(
            f"Dask collections need {error.name}, which is not here: pip install 'evenmargin[dask]'.", name=error.name
        ) from None
    return getattr(module, name)  # type: ignore[no-any-return]


def by_blocks(method: _Method) -> _Method:
    """A method of rows; of a dask collection it gives a lazy array, block by block."""

    @wraps(method)
    def wrapped(self: Any, X: MatrixLike) -> Any:
        return elsewhere("over_blocks")(self, method.__name__, X) if is_dask(X) else method(self, X)

    return wrapped  # type: ignore[return-value]
