"""A table of any type behind one interface: names and kinds of its columns, some of its rows, a typical row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from .._tables.encoder import named
from .._tables.kinds import as_floats, declared_kind
from .._util.typing import Array, Index, MatrixLike

__all__ = ["TableView"]


_LONGEST = 80  # characters of a column's name
_KINDS = {"number": "number", "complex": "number", "nothing": "number", "date": "date", "span": "date"}


@dataclass(frozen=True)
class TableView:
    """Rows as a pandas frame, an array, or a sparse matrix, whichever the model takes."""

    X: MatrixLike
    names: list[str]  # of the columns
    kinds: list[str]  # of the columns: "number", "yes or no", "date" or "category"

    @classmethod
    def of(cls, X: MatrixLike, model: BaseEstimator) -> TableView:
        if issparse(X):
            X = X.tocsr()
        elif type(X).__module__.split(".")[0] == "polars":
            X = pd.DataFrame({name: X[name].to_numpy() for name in X.columns})
        elif not isinstance(X, pd.DataFrame):
            X = _array(X)
        if X.ndim != 2 or 0 in X.shape:
            raise ValueError(f"X has shape {X.shape}: give a table with at least one row and one column.")
        if isinstance(X, pd.DataFrame):
            names = list(named(X).columns)  # which refuses names that are used twice
            kinds = [_kind(X.iloc[:, j]) for j in range(X.shape[1])]
        else:
            names = [str(name) for name in getattr(model, "feature_names_in_", ())]
            names = names if len(names) == X.shape[1] else [f"x{j}" for j in range(X.shape[1])]
            kinds = [_kind(pd.Series(X[:, j])) for j in range(X.shape[1])] if X.dtype == object else []
            kinds = kinds or ["number" if X.dtype.kind in "iufb" else "category"] * X.shape[1]
        return cls(X, names, kinds)

    @property
    def rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def columns(self) -> int:
        return int(self.X.shape[1])

    @property
    def shown(self) -> list[str]:
        """The names, shortened if they are very long."""
        return [name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…" for name in self.names]

    def take(self, rows: Index) -> Any:
        """Some rows, of X's own type."""
        return self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows]

    def column(self, j: int, rows: Index | None = None) -> pd.Series:
        """A column, of all rows or some."""
        if isinstance(self.X, pd.DataFrame):
            column = self.X.iloc[:, j]
            return (column if rows is None else column.iloc[rows]).reset_index(drop=True)
        X = self.X if rows is None else self.X[rows]
        return pd.Series(X[:, [j]].toarray().ravel() if issparse(X) else X[:, j])

    def numbers(self, j: int, rows: Index | None = None) -> Array:
        """A column of numbers or dates as floats, missing ones as NaN."""
        return as_floats(self.column(j, rows))

    def missing(self) -> Index:
        """How many values each column lacks."""
        if isinstance(self.X, pd.DataFrame):
            return self.X.isna().sum().to_numpy(dtype=np.intp)
        if issparse(self.X):
            place = self.X.indices[np.isnan(self.X.data)]
            return np.bincount(place, minlength=self.columns).astype(np.intp)
        return np.asarray(pd.isna(self.X).sum(axis=0), dtype=np.intp)

    def typical(self, rows: Index) -> Index:
        """For each column, the place of a row with the median value of these rows, or the most frequent one."""
        places = np.zeros(self.columns, dtype=np.intp)
        for j, kind in enumerate(self.kinds):
            if kind in ("number", "date"):
                numbers = self.numbers(j, rows)
                known = rows[~np.isnan(numbers)]
                order = np.argsort(numbers[~np.isnan(numbers)], kind="stable")
                places[j] = known[order[(order.size - 1) // 2]] if order.size else 0
            else:
                codes = pd.factorize(self.column(j, rows))[0]
                known = codes[codes >= 0]
                often = int(np.bincount(known).argmax()) if known.size else -1
                places[j] = rows[int(np.flatnonzero(codes == often)[0])]
        return places

    def slice(self, places: Index, j: int, k: int, across: Array, up: Array) -> Any:
        """Rows that are equal in all columns, with the values at `places`, except for columns j and k."""
        if isinstance(self.X, pd.DataFrame):
            columns = [self.X.iloc[np.full(across.size, place), i].array for i, place in enumerate(places)]
            columns[j], columns[k] = across, up
            frame = pd.DataFrame(dict(enumerate(columns)))
            return frame.set_axis(self.X.columns, axis=1)
        base = self.X[places, np.arange(self.columns)]
        grid = np.tile(np.asarray(base).ravel(), (across.size, 1))
        if grid.dtype.kind in "iub":
            grid = grid.astype(np.float64)
        grid[:, j], grid[:, k] = across, up
        return grid


def _array(X: MatrixLike) -> NDArray[Any]:
    """Numbers as they are; a list with words in it as objects, so that its numbers stay numbers."""
    if isinstance(X, list | tuple):
        held = np.array(X, dtype=object)
        words = held.ndim == 2 and any(isinstance(cell, str) for cell in held[0])
        return held if words or held.ndim != 2 else np.asarray(X)
    return np.asarray(X)


def _kind(column: pd.Series) -> str:
    if pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        return "yes or no"
    return _KINDS.get(declared_kind(column), "category")
