"""The inputs of a model's graph: one matrix, or one input for each column of the frame that it was fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.svm import SVC, NuSVC

from .._device.arrays import to_host
from .._tables.encoder import MISSING, OTHER, TableEncoder, as_numbers, as_table, as_words, becomes_number, named
from .._util.typing import MatrixLike
from ..auto import EvenMarginClassifier
from ..kernel import KernelSVM
from ..linear import LinearSVM
from ..zsvm import ZAdjustedClassifier
from ._machines import unwrapped

__all__ = ["MISSING", "OTHER", "Input", "feed", "inputs_of", "table_columns"]

MATRIX = "X"  # the name of the one input of models that were fitted on arrays


@dataclass(frozen=True)
class Input:
    """An input of the graph: its name, its type (float64, float32 or str), and how many columns it has."""

    name: str
    dtype: type
    width: int = 1


def inputs_of(model: BaseEstimator, X: MatrixLike = None) -> list[Input]:
    """The inputs of a model's graph; rows X show the types of columns that a pipeline does not know."""
    first = _first(model)
    if isinstance(first, EvenMarginClassifier):
        encoder = first.encoder_
        if encoder.columns_ is None:
            return [Input(MATRIX, np.float64, int(first.n_features_in_))]
        _, categories = table_columns(encoder)
        names = [str(name) for name in encoder.columns_.feature_names_in_]
        return [Input(name, str if name in categories else np.float64) for name in names]
    known = _dtype_of(first)
    if not hasattr(first, "feature_names_in_"):
        return [Input(MATRIX, known or _dtype_of_rows(X), _width(first, X))]
    names = [str(name) for name in first.feature_names_in_]
    if known is not None:
        return [Input(name, known) for name in names]
    if X is None:
        raise ValueError("This pipeline was fitted on a frame: give some of its rows as X, for the types of columns.")
    frame = _frame(X, names)
    return [Input(str(name), np.float64 if becomes_number(frame[name]) else str) for name in frame.columns]


def feed(model: BaseEstimator, inputs: list[Input], X: MatrixLike) -> dict[str, NDArray[Any]]:
    """Rows as an array for each input."""
    first, X = _first(model), to_host(X)
    if len(inputs) == 1 and inputs[0].name == MATRIX and getattr(first, "feature_names_in_", None) is None:
        rows = X.toarray() if issparse(X) else X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
        if rows.ndim != 2 or rows.shape[1] != inputs[0].width:
            raise ValueError(f"X has shape {rows.shape}, but the model takes {inputs[0].width} columns.")
        return {MATRIX: np.ascontiguousarray(rows.astype(object if inputs[0].dtype is str else inputs[0].dtype))}
    frame = _frame(X, [own.name for own in inputs])
    numbers = [own.name for own in inputs if own.dtype is not str]
    values = dict(zip(numbers, as_numbers(frame[numbers]).T, strict=True))
    common = first.encoder_.common_ if isinstance(first, EvenMarginClassifier) else {}
    columns = {
        own.name: _text(frame[own.name], common.get(own.name))
        if own.dtype is str
        else values[own.name].astype(own.dtype)
        for own in inputs
    }
    return {name: column.reshape(-1, 1) for name, column in columns.items()}


def table_columns(encoder: TableEncoder) -> tuple[list[str], dict[str, list[str]]]:
    """The columns of numbers, and those of categories with the words that have a column, both in order."""
    assert encoder.columns_ is not None
    numbers: list[str] = []
    categories: dict[str, list[str]] = {}
    for kind, transformer, names in encoder.columns_.transformers_:
        if kind == "numbers":
            numbers = [str(name) for name in names]
        elif kind == "categories" and len(names):
            words = [[str(word) for word in own] for own in transformer.categories_]
            categories = dict(zip((str(name) for name in names), words, strict=True))
    return numbers, categories


def _first(model: BaseEstimator) -> BaseEstimator:
    """The step that the rows enter first."""
    steps, last = unwrapped(model)
    if steps:
        return steps[0]
    return _first(last.estimator_) if isinstance(last, ZAdjustedClassifier) else last


def _dtype_of(first: BaseEstimator) -> type | None:
    """The precision of the rows that a machine was fitted on; None for other estimators."""
    if isinstance(first, LinearSVM):
        kept = first.coef_
    elif isinstance(first, KernelSVM | SVC | NuSVC):
        kept = to_host(first.support_vectors_)
    else:
        return None
    return np.float32 if kept.dtype == np.float32 else np.float64


def _dtype_of_rows(X: MatrixLike) -> type:
    if X is None:
        return np.float64
    X = to_host(X)
    kind = X.dtype if hasattr(X, "dtype") else np.asarray(X).dtype
    if kind == np.float32:
        return np.float32
    return str if kind.kind in "OU" else np.float64


def _width(first: BaseEstimator, X: MatrixLike) -> int:
    if not hasattr(first, "n_features_in_") and X is None:
        raise ValueError(f"{type(first).__name__} does not know its number of columns: give some rows as X.")
    return int(first.n_features_in_ if hasattr(first, "n_features_in_") else np.shape(X)[1])


def _frame(X: MatrixLike, names: list[str]) -> pd.DataFrame:
    """The columns with these names of a frame; those of an array get the names in order."""
    table = as_table(X)
    if not isinstance(table, pd.DataFrame):
        table = pd.DataFrame(np.asarray(table))
        if table.shape[1] != len(names):
            raise ValueError(f"X has {table.shape[1]} columns, but the model takes {len(names)}.")
        table.columns = pd.Index(names)
    table = named(table)
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise ValueError(f"X lacks the column {missing[0]!r}, which the model was fitted on.")
    return table[names]


def _text(column: pd.Series, known: set[str] | None) -> NDArray[Any]:
    """Words; the empty one stands for a missing value, unless the model knows it as a category."""
    words = as_words(column).to_numpy(dtype=object, copy=True)
    if known is not None and "" in known:
        return words
    if known is not None:
        words[words == ""] = OTHER
    words[column.isna().to_numpy()] = ""
    return words
