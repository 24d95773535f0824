"""From a table as people have it to a matrix of numbers without gaps.

Numbers and booleans stay, dates become days, and everything else is a category with a column for each value
(scikit-learn's `OneHotEncoder`). A missing number becomes the median by sample weight, with a column that says so; a
missing category is one more category. Columns of a single value are dropped. No labels are used.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from .._device.arrays import is_tensor, readable, to_host
from .._util.sentences import quoted
from .._util.typing import Array, MatrixLike
from .kinds import LARGEST, as_floats, declared_kind, word_of

_CATEGORIES = 50  # columns that one column of categories may become
_RARE = 5  # weight of a category below which it shares a column with the other rare ones
MISSING, OTHER = "(missing)", "(other)"


def as_table(X: MatrixLike) -> Any:
    """Make a frame of frames, lists and arrays of objects; other arrays are left to scikit-learn's checks."""
    if isinstance(X, pd.DataFrame):
        named(X)  # refuses names that come twice
        return X
    if isinstance(X, pd.Series):
        return X.to_numpy()
    if is_tensor(X):
        return to_host(readable(X))
    if issparse(X):
        raise TypeError(
            "Sparse X is not supported here: use X.toarray() if that fits into memory, or LinearSVM, which takes it."
        )
    if type(X).__module__.split(".")[0] == "polars":
        return pd.DataFrame({name: X[name].to_numpy() for name in X.columns})
    if isinstance(X, list | tuple):
        frame = pd.DataFrame(np.array(X, dtype=object)) if np.ndim(X) == 2 else None
        return X if frame is None or all(becomes_number(frame[name]) for name in frame) else frame
    array = np.asarray(X)
    return pd.DataFrame(array) if array.dtype.kind in "OUSM" and array.ndim == 2 else X


class TableEncoder:
    """Learn from the training rows how to make numbers of a table; `names_` are those of the columns that come out."""

    def fit(self, table: Any, weight: Array) -> TableEncoder:
        self.columns_: ColumnTransformer | None = None
        self.common_: dict[str, set[str]] = {}
        if isinstance(table, pd.DataFrame):
            table = named(table)
            numbers = [name for name in table.columns if becomes_number(table[name])]
            others = [name for name in table.columns if name not in numbers]
            self.common_ = {name: _common(table[name], weight) for name in others}
            plain = FunctionTransformer(as_numbers, feature_names_out="one-to-one")
            one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            parts = [("numbers", plain, numbers), ("categories", one_hot, others)]
            self.columns_ = ColumnTransformer(parts, verbose_feature_names_out=False).fit(self._grouped(table))
        raw, names = self._raw(table), self._names(table)
        gaps = np.isnan(raw)
        self.gaps_ = np.flatnonzero(gaps.any(axis=0) & ~gaps.all(axis=0))
        self.medians_ = np.array([_median(column, weight) for column in raw.T])
        self.kept_ = np.flatnonzero(np.ptp(self._filled(raw), axis=0) > 0)
        every = names + [f"{names[j]} missing" for j in self.gaps_]
        self.names_ = [every[j] for j in self.kept_]
        self.left_out_ = [every[j] for j in np.setdiff1d(np.arange(len(every)), self.kept_)]
        if empty := [names[j] for j in np.flatnonzero(gaps.all(axis=0))]:
            warnings.warn(f"Left out, having no values: {quoted(empty)}.", UserWarning, stacklevel=4)
        if self.kept_.size == 0:
            raise ValueError("No column of X has two different values: there is nothing to learn from.")
        return self

    def transform(self, table: Any) -> Array:
        return np.ascontiguousarray(self._filled(self._raw(table))[:, self.kept_])

    def _raw(self, table: Any) -> Array:
        """Make numbers of the columns, with gaps."""
        if self.columns_ is not None:
            names = self.columns_.feature_names_in_
            table = named(table) if isinstance(table, pd.DataFrame) else pd.DataFrame(table, columns=names)
            table = self.columns_.transform(self._grouped(table))
        raw = np.asarray(table, dtype=np.float64)
        if raw.size and not np.nanmax(np.abs(raw), initial=0.0) < LARGEST:
            j = int(np.flatnonzero((np.abs(raw) >= LARGEST).any(axis=0))[0])
            raise ValueError(
                f"Column {self._names(table)[j]!r} of X contains infinity or a value above {LARGEST:.0e}: "
                "replace such values, with NaN if they are unknown."
            )
        return raw

    def _grouped(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Turn categories into words; the rare and the unknown ones are one."""
        words = {
            name: column.where(column.isin(self.common_[name]), OTHER)
            for name, column in ((name, as_words(frame[name])) for name in self.common_)
        }
        return frame.assign(**words)

    def _filled(self, raw: Array) -> Array:
        gaps = np.isnan(raw)
        filled = np.where(gaps, self.medians_, raw)
        return np.hstack([filled, gaps[:, self.gaps_]])

    def _names(self, table: Any) -> list[str]:
        if self.columns_ is not None:
            return [str(name) for name in self.columns_.get_feature_names_out()]
        return [f"x{j}" for j in range(np.shape(table)[1])]


def named(table: pd.DataFrame) -> pd.DataFrame:
    """Name the columns of a frame by strings; refuse names of which two are the same."""
    several = isinstance(table.columns, pd.MultiIndex)
    names = [" ".join(map(str, name)) if several else str(name) for name in table.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X has more than one column named {twice!r}: give each column a name of its own.")
    return table.set_axis(names, axis=1)


def _common(column: pd.Series, weight: Array) -> set[str]:
    """Choose the categories that get a column of their own."""
    totals = pd.Series(weight).groupby(as_words(column).to_numpy()).sum()
    return set(totals[totals >= _RARE].sort_index().nlargest(_CATEGORIES - 1, keep="first").index)


def becomes_number(column: pd.Series) -> bool:
    """Say whether a column becomes one column of numbers, rather than one for each category."""
    return declared_kind(column) in ("number", "date", "span", "nothing", "complex")


def as_numbers(table: pd.DataFrame) -> Array:
    """Turn each column into float64; dates and spans of time into days."""
    out = np.empty(table.shape)
    for j, name in enumerate(table.columns):
        column = table[name]
        if declared_kind(column) == "complex":
            raise ValueError(f"Complex data not supported: column {name!r} of X holds complex numbers.")
        try:
            out[:, j] = as_floats(column)
        except (TypeError, ValueError):
            raise ValueError(f"Column {name!r} of X held numbers in training but now holds something else.") from None
    return out


def as_words(column: pd.Series) -> pd.Series:
    """Turn a column into strings, so that categories of mixed types can be sorted."""
    return column.astype(object).map(word_of).where(column.notna(), MISSING)


def _median(column: Array, weight: Array) -> float:
    known = ~np.isnan(column)
    if not known.any():
        return 0.0
    return float(np.quantile(column[known], 0.5, weights=weight[known], method="inverted_cdf"))
