"""Everything that touches scikit-learn's validation helpers, some of them private."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import _fit_context as fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

__all__ = [
    "ConvergenceWarning",
    "Interval",
    "StrOptions",
    "available_if",
    "check_is_fitted",
    "drop_weightless",
    "fit_context",
    "seed_from",
    "validate_aside",
    "validate_parameters",
    "validate_rows",
    "validate_training",
]

_FLOATS = (np.float64, np.float32)


def validate_parameters(estimator: Any) -> None:
    """Check an estimator's parameters, also inside the fit of another one, which would skip it."""
    estimator._validate_params()


def validate_rows(estimator: Any, X: Any) -> Any:
    """X for prediction: dense or CSR, float32 or float64, the columns of the fit."""
    return validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=_FLOATS)


def validate_training(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, reset: bool = True
) -> tuple[Any, NDArray[Any], NDArray[np.float64], NDArray[Any]]:
    """X (C-contiguous or canonical CSR), labels, weights and classes for training."""
    try:
        X, y = validate_data(estimator, X, y, reset=reset, accept_sparse="csr", dtype=_FLOATS, order="C")
        check_classification_targets(y)
        classes = np.unique(y)
    except TypeError as error:
        if "'<' not supported" not in str(error) and "of NA" not in str(error):
            raise  # scikit-learn's own words, on X
        raise ValueError(f"The labels in y must be of one type, none of them missing ({error}).") from None
    if issparse(X):
        X = _canonical(X)
    weight = np.asarray(
        _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True), dtype=np.float64
    )
    with np.errstate(over="ignore"):
        if not np.isfinite(weight.sum()):
            raise ValueError("sample_weight adds up to infinity: choose smaller weights, say divided by their mean.")
    _check_magnitude(X)
    return X, np.asarray(y), weight, classes


def _canonical(X: Any) -> Any:
    """A CSR matrix that compiled loops can trust: indices in range, none twice in a row."""
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"X is not a valid CSR matrix: {error}.") from None
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def validate_aside(estimator: Any, rows: Any, classes: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """(X, y) set aside for a halting rule: the columns and the classes of the fit."""
    try:
        X, y = rows
    except (TypeError, ValueError):
        raise ValueError("stopping: validation must be a pair (X, y) of rows set aside.") from None
    X, y = validate_rows(estimator, X), column_or_1d(y)
    check_consistent_length(X, y)
    unknown = sorted(set(y.tolist()) - set(classes.tolist()), key=str)
    if unknown:
        raise ValueError(f"stopping: the rows set aside have labels {unknown} that the training rows have not.")
    return X, y


def _check_magnitude(X: Any) -> None:
    """Refuse values whose squares, summed and weighted, would overflow."""
    entries = X.data if issparse(X) else X.ravel()
    limit = float(np.finfo(X.dtype).max) ** (1.0 / 3.0)
    with np.errstate(over="ignore"):
        if float(np.dot(entries, entries)) <= limit * limit:  # one pass, and nearly always enough
            return
    largest = max(float(entries.max()), -float(entries.min()))
    if largest > limit:
        raise ValueError(
            f"X has values up to {largest:.1e}, too large to square in {X.dtype}: "
            "scale the features first, for example with sklearn.preprocessing.StandardScaler."
        )


def drop_weightless(
    X: Any, y: NDArray[Any], weight: NDArray[np.float64], classes: NDArray[Any]
) -> tuple[Any, NDArray[Any], NDArray[np.float64], NDArray[Any]]:
    """Rows of weight 0 are no rows; the rest must hold two classes."""
    keep = weight > 0
    if not keep.any():
        raise ValueError("All sample weights are zero: at least two rows of different classes need a weight above 0.")
    if not keep.all():
        X, y, weight = X[keep], y[keep], weight[keep]
        classes = np.unique(y)
    if classes.size < 2:
        left = "" if keep.all() else ", once rows of weight 0 are left out"
        raise ValueError(
            f"The target has one class only ({classes.tolist()[0]!r}){left}; "
            "a classifier needs rows of at least two classes."
        )
    return X, y, weight, classes


def seed_from(random_state: Any) -> int:
    """A seed for numpy's Generator, drawn once from scikit-learn's random_state."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
