"""A model from a file, and the columns of a table that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .. import persistence
from .._util.sentences import quoted
from ._columns import Matcher, NeededColumns, Schema
from ._reading import InputError, TableFile

_NOTES = {"table": dict, "said": list, "weight": str | None, "digest": str}  # what `fit` writes into a model's file


@dataclass(frozen=True)
class Loaded:
    """A model with what its file says of it."""

    model: Any
    manifest: persistence.Manifest
    schema: Schema | None  # the table that `evenmargin fit` read; saved from Python, a model has none
    words: list[str]  # the columns that are read from a text file as they stand in it
    weights: list[str]  # the column of the weights of the fit, if it had one

    def columns(self, present: Sequence[str], beside: Sequence[str] = ()) -> list[str]:
        """Name the columns that the model reads; if it knows no names, all but those `beside`."""
        if self.schema is not None:
            return list(self.schema.columns)
        names = getattr(self.model, "feature_names_in_", None)
        return [name for name in present if name not in beside] if names is None else [str(name) for name in names]

    def rows_of(self, file: TableFile) -> Matcher | PlainRows:
        """Check the columns of a table, and make the function that turns pieces of it into rows for the model."""
        if self.schema is not None:
            file.expect(self.schema.decimal_comma)
        rows_of = PlainRows(self.model, file.columns) if self.schema is None else Matcher(self.schema)
        rows_of.check(file.columns, file.lacks(rows_of.names))
        return rows_of


class PlainRows(NeededColumns):
    """What `Matcher` is, for a model that was saved from Python."""

    def __init__(self, model: Any, columns: Sequence[str]) -> None:
        self.by_name = hasattr(model, "feature_names_in_")
        self.count = getattr(model, "n_features_in_", None)
        super().__init__(map(str, getattr(model, "feature_names_in_", columns)))

    def __call__(self, piece: pd.DataFrame) -> Any:
        if self.by_name:
            return piece[list(self.names)]
        if self.count is not None and piece.shape[1] != self.count:
            raise InputError(
                f"The model takes {self.count} columns, known by their order only, but the table has {piece.shape[1]}: "
                "leave out the others, or fit the model on a table with column names."
            )
        try:
            return piece.to_numpy(np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            wrong = [name for name in piece if not pd.api.types.is_numeric_dtype(piece[name])]
            raise InputError(f"The model takes numbers, but column {quoted(wrong)} holds something else.") from None


def open_model(path: Path) -> Loaded:
    """Load a classifier with its schema, without running anything of the file."""
    model, manifest = persistence.load_with_manifest(path)
    if not (hasattr(model, "predict") and hasattr(model, "classes_")):
        raise InputError(f"{path} holds a {type(model).__name__}, which is not a fitted classifier.")
    notes = manifest.notes
    for name, kind in _NOTES.items():
        if name in notes and not isinstance(notes[name], kind):
            raise InputError(f"{path} has notes that `evenmargin fit` did not write: fit the model again.")
    schema = Schema.from_notes(notes["table"]) if "table" in notes else None
    weights = [] if notes.get("weight") is None else [notes["weight"]]
    return Loaded(model, manifest, schema, [] if schema is None else schema.words, weights)
