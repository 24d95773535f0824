"""Frames among the attributes of an estimator, as plain arrays, which every format can hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# The dtype to build a column with: pandas finds that of numbers by itself; "str" is its own type of strings.
_DTYPES: dict[str, Any] = {"numbers": None, "objects": object, "strings": "str"}


@dataclass
class PlainColumn:
    """A column of a frame, or a level of its index."""

    name: Any
    kind: str
    values: NDArray[Any]

    @classmethod
    def of(cls, values: Any, name: Any) -> PlainColumn:
        if isinstance(values.dtype, np.dtype) and values.dtype.kind != "O":
            return cls(name, "numbers", values.to_numpy())
        kind = "strings" if isinstance(values.dtype, pd.StringDtype) else "objects"
        return cls(name, kind, values.to_numpy().astype(object))


@dataclass
class PlainFrame:
    """A frame taken apart; without levels, its rows are counted from 0."""

    columns: list[PlainColumn]
    levels: list[PlainColumn]

    @classmethod
    def of(cls, frame: pd.DataFrame) -> PlainFrame:
        index = frame.index
        names = [] if index.equals(pd.RangeIndex(len(frame))) else index.names
        levels = [PlainColumn.of(index.get_level_values(place), name) for place, name in enumerate(names)]
        return cls([PlainColumn.of(frame[name], name) for name in frame.columns], levels)

    def frame(self) -> pd.DataFrame:
        """Build the frame again."""
        levels = [pd.Index(level.values, dtype=_DTYPES[level.kind], name=level.name) for level in self.levels]
        index: Any = None
        if levels:
            index = levels[0] if len(levels) == 1 else pd.MultiIndex.from_arrays(levels)
        columns = {column.name: pd.Series(column.values, index, dtype=_DTYPES[column.kind]) for column in self.columns}
        return pd.DataFrame(columns, index)


class FramesTravel:
    """For estimators with frames among their attributes: pickle, copy and skops get plain arrays."""

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]  # of the next class, an estimator
        return {name: _replaced(value, pd.DataFrame, PlainFrame.of) for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        whole = {name: _replaced(value, PlainFrame, PlainFrame.frame) for name, value in state.items()}
        super().__setstate__(whole)  # type: ignore[misc]  # of the next class, an estimator


def _replaced(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """Change a value of this kind, and those in a dict."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict) and any(isinstance(part, kind) for part in value.values()):
        return {key: _replaced(part, kind, change) for key, part in value.items()}
    return value
