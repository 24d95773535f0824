"""From a table as people have it to a matrix of numbers without gaps.

Numbers and booleans stay, dates become days, and everything else is a category
with a column for each value (scikit-learn's `OneHotEncoder`). A missing number
becomes the median, with a column that says so; a missing category is one more
category. Columns that tell nothing are dropped. No labels are used, and medians
are by sample weight.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

__all__ = ["TableEncoder", "as_table"]

Array = NDArray[np.float64]

_CATEGORIES = 50  # columns that one column of categories may become; the rare ones share one
_RARE = 5  # rows of a category below which it shares a column with the other rare ones
_LARGEST = 1e100
_MISSING = "(missing)"
_NUMBERS = ("integer", "floating", "mixed-integer-float", "boolean", "decimal")


def as_table(X: Any) -> Any:
    """A pandas frame for frames and for arrays of objects; other arrays are left to scikit-learn's checks."""
    if isinstance(X, pd.DataFrame):
        return X
    if issparse(X):
        raise TypeError(
            "Sparse X is not supported here: use X.toarray() if that fits into memory, or LinearSVM, which takes sparse X."
        )
    if type(X).__module__.split(".")[0] == "polars":
        return pd.DataFrame({name: X[name].to_numpy() for name in X.columns})
    array = np.asarray(X)
    if array.dtype.kind in "OUSM" and array.ndim == 2:
        return pd.DataFrame(array)
    return X


class TableEncoder:
    """Learn from the training rows how to make numbers of a table; see the module.

    Attributes
    ----------
    names_ : list of str
        Of the columns of the result.
    left_out_ : list of str
        Columns of the table without two different values.
    """

    def fit(self, table: Any, weight: Array) -> TableEncoder:
        self.columns_ = None
        if isinstance(table, pd.DataFrame):
            self.columns_ = _encoder(table).fit(table)
        raw, names = self._raw(table), self._names(table)
        gaps = np.isnan(raw)
        self.gaps_ = np.flatnonzero(gaps.any(axis=0) & ~gaps.all(axis=0))
        self.medians_ = np.array([_median(column, weight) for column in raw.T])
        filled = self._filled(raw)
        self.kept_ = np.flatnonzero(np.ptp(filled, axis=0) > 0)
        every = names + [f"{names[j]} missing" for j in self.gaps_]
        self.names_ = [every[j] for j in self.kept_]
        self.left_out_ = [every[j] for j in np.setdiff1d(np.arange(len(every)), self.kept_)]
        empty = [names[j] for j in np.flatnonzero(gaps.all(axis=0))]
        if empty:
            which = ", ".join(repr(name) for name in empty[:5]) + (", …" if len(empty) > 5 else "")
            warnings.warn(f"No value in {which}: left out.", UserWarning, stacklevel=4)
        if self.kept_.size == 0:
            raise ValueError("No column of X has two different values: there is nothing to learn from.")
        return self

    def transform(self, table: Any) -> Array:
        return np.ascontiguousarray(self._filled(self._raw(table))[:, self.kept_])

    def _raw(self, table: Any) -> Array:
        """Numbers, with gaps."""
        if self.columns_ is not None:
            table = self.columns_.transform(table)
        raw = np.asarray(table, dtype=np.float64)
        if raw.size and not np.nanmax(np.abs(raw), initial=0.0) < _LARGEST:
            j = int(np.flatnonzero((np.abs(raw) >= _LARGEST).any(axis=0))[0])
            raise ValueError(
                f"Column {self._names(table)[j]!r} of X contains infinity or a value above {_LARGEST:.0e}: "
                "replace such values, with NaN if they are unknown."
            )
        return raw

    def _filled(self, raw: Array) -> Array:
        gaps = np.isnan(raw)
        filled = np.where(gaps, self.medians_, raw)
        return np.hstack([filled, gaps[:, self.gaps_]])

    def _names(self, table: Any) -> list[str]:
        if self.columns_ is not None:
            return [str(name) for name in self.columns_.get_feature_names_out()]
        return [f"x{j}" for j in range(np.shape(table)[1])]


def _encoder(table: pd.DataFrame) -> ColumnTransformer:
    numbers = [name for name in table.columns if _is_number(table[name])]
    others = [name for name in table.columns if not _is_number(table[name])]
    one_hot = OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=_RARE, max_categories=_CATEGORIES, sparse_output=False
    )
    words = FunctionTransformer(_words, feature_names_out="one-to-one")
    plain = FunctionTransformer(_numbers, feature_names_out="one-to-one")
    return ColumnTransformer(
        [("numbers", plain, numbers), ("categories", make_pipeline(words, one_hot), others)],
        verbose_feature_names_out=False,
    )


def _is_number(column: pd.Series) -> bool:
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return False
    if pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind) or kind.kind == "m":
        return True
    if kind.kind == "O":
        return column.isna().all() or pd.api.types.infer_dtype(column, skipna=True) in _NUMBERS
    return False


def _numbers(table: pd.DataFrame) -> Array:
    """Each column as float64; dates and spans in days."""
    out = np.empty(table.shape)
    for j, name in enumerate(table.columns):
        column = table[name]
        if column.dtype.kind == "M":
            column = (column - pd.Timestamp(0, tz=getattr(column.dtype, "tz", None))) / pd.Timedelta(days=1)
        elif column.dtype.kind == "m":
            column = column / pd.Timedelta(days=1)
        try:
            out[:, j] = pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            raise ValueError(f"Column {name!r} of X held numbers in training and now holds something else.") from None
    return out


def _words(table: pd.DataFrame) -> pd.DataFrame:
    """Each column as strings, so that categories of mixed types can be sorted."""
    return pd.DataFrame(
        {name: column.astype(object).map(str).where(column.notna(), _MISSING) for name, column in table.items()},
        index=table.index,
    )


def _median(column: Array, weight: Array) -> float:
    known = ~np.isnan(column)
    if not known.any():
        return 0.0
    return float(np.quantile(column[known], 0.5, weights=weight[known], method="inverted_cdf"))
