"""What a column of a table holds, by its type and its values, and the values as numbers, instants or words.

`declared_kind` is the one rule. `EvenMarginClassifier` goes by it alone: numbers, dates and spans of time become
numbers, and the rest categories. The command, whose text files declare no types, looks into "text" (`content`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .._util.typing import Array

LARGEST = 1e100  # no measurement is as large as that

# Words that stand for a missing value in every kind of file.
_GAPS = "NA,N/A,n/a,<NA>,#NA,#N/A,#N/A N/A,NULL,null,None,NaN,nan,-NaN,-nan,1.#IND,-1.#IND,1.#QNAN,-1.#QNAN"
GAPS = frozenset(["", *_GAPS.split(",")])

_NESTED = (list, dict, tuple, set, bytes, np.ndarray)
_OF_OBJECTS = {
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "boolean", "decimal"), "number"),
    **dict.fromkeys(("date", "datetime", "datetime64", "period"), "date"),
    **dict.fromkeys(("timedelta", "timedelta64"), "span"),
    "empty": "nothing",
}


def declared_kind(column: pd.Series) -> str:
    """Tell the kind of a column by its type or, where it holds objects, by the type of its values.

    It is "number", "date", "span" (of time), "category", "text", "nothing" (objects that are all missing), "nested"
    (lists, structures or bytes) or "complex".
    """
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return "category"
    if isinstance(kind, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(kind):
        return "date"
    if kind.kind == "m":
        return "span"
    if pd.api.types.is_numeric_dtype(kind):
        return "complex" if pd.api.types.is_complex_dtype(kind) else "number"
    if kind.kind != "O" or isinstance(kind, pd.StringDtype):
        return "text"
    first = next((value for value in column if isinstance(value, _NESTED) or not pd.isna(value)), None)
    if isinstance(first, _NESTED):
        return "nested"
    return "nothing" if first is None else _OF_OBJECTS.get(pd.api.types.infer_dtype(column, skipna=True), "text")


def as_instants(column: pd.Series) -> pd.Series:
    """Turn dates of any type into pandas' datetimes; those that these cannot hold are missing."""
    if isinstance(column.dtype, pd.PeriodDtype):
        return column.dt.to_timestamp()
    if column.dtype.kind != "O":
        return column
    if pd.api.types.infer_dtype(column, skipna=True) == "period":
        return pd.PeriodIndex(column).to_timestamp().to_series(index=column.index)
    return pd.to_datetime(column, utc=True, errors="coerce")


def as_days(column: pd.Series) -> pd.Series:
    """Turn dates and spans of time into days; other columns stay as they are."""
    kind = declared_kind(column)
    if kind == "date":
        column = as_instants(column)
        return (column - pd.Timestamp(0, tz=getattr(column.dtype, "tz", None))) / pd.Timedelta(days=1)
    if kind == "span":
        return (pd.to_timedelta(column) if column.dtype.kind == "O" else column) / pd.Timedelta(days=1)
    return column


def as_floats(column: pd.Series) -> Array:
    """Turn numbers, dates and spans of time into float64, a gap into NaN."""
    if declared_kind(column) == "nothing":
        return np.full(len(column), np.nan)
    return pd.to_numeric(as_days(column)).to_numpy(dtype=np.float64, na_value=np.nan)


def word_of(value: Any) -> str:
    """Write a value as text; a whole number is the same word as integer and as float."""
    return str(int(value)) if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)
