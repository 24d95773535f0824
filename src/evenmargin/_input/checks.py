"""Everything that touches scikit-learn's validation helpers, some of them private."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.base import _fit_context as fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_method_params as check_method_params
from sklearn.utils.validation import _get_feature_names as feature_names
from sklearn.utils.validation import _num_samples as num_samples
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from .._device.arrays import Rows, to_host, too_large_message
from .._util.typing import Array, Mask, MatrixLike, RandomState, VectorLike
from .collections import refuse_dask
from .entry import FLOATS, canonical, enter

try:
    from sklearn.utils._array_api import check_same_namespace
except ImportError:  # before scikit-learn 1.9 there is no such rule
    check_same_namespace = None

__all__ = [  # what other modules take from scikit-learn by way of this one
    "ConvergenceWarning",
    "Interval",
    "StrOptions",
    "available_if",
    "check_is_fitted",
    "check_method_params",
    "feature_names",
    "fit_context",
    "num_samples",
    "safe_split",
]


def store_parameters(estimator: BaseEstimator, arguments: Mapping[str, Any]) -> None:
    """Store the parameters of an estimator under their names, given the `locals()` of its `__init__`."""
    vars(estimator).update({name: value for name, value in arguments.items() if name != "self"})


def validate_parameters(estimator: BaseEstimator) -> None:
    """Check an estimator's parameters, also inside the fit of another one, which would skip it."""
    estimator._validate_params()


def remember_columns(estimator: BaseEstimator, names: list[Any] | None, width: int) -> None:
    """Store the number of columns and their names, as scikit-learn does: names only where all of them are text."""
    estimator.n_features_in_ = width
    if names is not None and all(isinstance(name, str) for name in names):
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def check_same_kind(estimator: BaseEstimator, X: MatrixLike, attribute: str, method: str) -> None:
    """Where array API dispatch is on, refuse rows of another kind, or on another device, than those of `fit`."""
    if check_same_namespace is not None and not isinstance(X, Rows):
        check_same_namespace(X, estimator, attribute=attribute, method=method)


def _check_on_device(estimator: BaseEstimator, X: Rows, reset: bool) -> None:
    """Check rows on a device as `check_array` does on the host."""
    name = type(estimator).__name__
    if 0 in X.shape:
        what = "sample" if X.shape[0] == 0 else "feature"
        raise ValueError(f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required by {name}.")
    validate_data(estimator, X.original, reset=reset, skip_check_array=True)  # number and names of columns
    X.check(name, squared=reset)


def validate_rows(estimator: BaseEstimator, X: MatrixLike) -> Any:
    """X for prediction: dense or CSR, float32 or float64, the columns of the fit."""
    if isinstance(X, Rows):
        _check_on_device(estimator, X, reset=False)
        return X
    X, _ = enter(X, plain=True)
    return validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=FLOATS)


def validate_training(
    estimator: BaseEstimator, X: MatrixLike, y: VectorLike, sample_weight: VectorLike, *, reset: bool = True
) -> tuple[Any, NDArray[Any], Array, NDArray[Any]]:
    """X (C-contiguous or canonical CSR, or Rows), labels, weights and classes for training."""
    refuse_dask(X)
    require_labels(estimator, y)
    if isinstance(X, Rows):
        _check_on_device(estimator, X, reset)
    else:
        X, _ = enter(X, plain=True)
        X = validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=FLOATS, order="C")
    y, weight = _labels_and_weights(X, y, sample_weight)
    if issparse(X):
        X = canonical(X)
    if not isinstance(X, Rows):
        check_magnitude(X)
    return X, y, weight, np.unique(y)


def require_labels(estimator: BaseEstimator, y: VectorLike) -> None:
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")


def _labels_and_weights(X: MatrixLike, y: VectorLike, sample_weight: VectorLike) -> tuple[NDArray[Any], Array]:
    y = check_labels(y)
    check_consistent_length(X, y)
    return y, check_weights(sample_weight, y.size)


def validate_table(estimator: BaseEstimator, table: MatrixLike, *, reset: bool = False) -> Any:
    """A pandas frame or an array, which may have missing values; for prediction with the columns of the fit."""
    if hasattr(table, "iloc"):
        validate_data(estimator, table, reset=reset, skip_check_array=True)
        if 0 in table.shape:
            raise ValueError(f"X has shape {table.shape}: at least one row and one column are needed.")
        return table
    table, _ = enter(table, plain=True)
    return validate_data(estimator, table, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")


def validate_table_training(
    estimator: BaseEstimator, table: MatrixLike, y: VectorLike, sample_weight: VectorLike
) -> tuple[Any, NDArray[Any], Array, NDArray[Any], Mask]:
    """A table, labels, weights and classes for training without rows of weight 0, and which rows are left."""
    require_labels(estimator, y)
    table = validate_table(estimator, table, reset=True)
    y, weight = _labels_and_weights(table, y, sample_weight)
    kept = weight > 0
    rows, y, weight, classes = drop_weightless(np.arange(y.size), y, weight, np.unique(y))
    if rows.size < table.shape[0]:
        table = table.iloc[rows] if hasattr(table, "iloc") else table[rows]
    return table, y, weight, classes, kept


def validate_aside(
    estimator: BaseEstimator, rows: tuple[MatrixLike, VectorLike], classes: NDArray[Any], like: MatrixLike = None
) -> tuple[Any, NDArray[Any]]:
    """(X, y) set aside for a halting rule: the columns and the classes of the fit, where its rows are."""
    try:
        X, y = rows
    except (TypeError, ValueError):
        raise ValueError("stopping: validation must be a pair (X, y) of rows set aside.") from None
    X, _ = enter(X, like.device) if isinstance(like, Rows) else enter(X, plain=True)
    X, y = validate_rows(estimator, X), column_or_1d(to_host(y))
    check_consistent_length(X, y)
    unknown = sorted(set(y.tolist()) - set(classes.tolist()), key=str)
    if unknown:
        raise ValueError(f"stopping: the rows set aside have labels {unknown} that the training rows do not have.")
    return X, y


def check_magnitude(X: MatrixLike) -> None:
    """Refuse values whose squares, summed and weighted, would overflow."""
    entries = X.data if issparse(X) else X.ravel()
    limit = float(np.finfo(X.dtype).max) ** (1.0 / 3.0)
    with np.errstate(over="ignore"):
        if float(np.dot(entries, entries)) <= limit * limit:  # one pass, and nearly always enough
            return
    largest = max(float(entries.max()), -float(entries.min()))
    if largest > limit:
        raise ValueError(too_large_message(largest, X.dtype))


def drop_weightless(
    X: MatrixLike, y: NDArray[Any], weight: Array, classes: NDArray[Any]
) -> tuple[Any, NDArray[Any], Array, NDArray[Any]]:
    """Leave out rows of weight 0; the rest must hold two classes."""
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


def seed_from(random_state: RandomState) -> int:
    """A seed for numpy's Generator, drawn once from scikit-learn's random_state."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def check_labels(y: VectorLike) -> NDArray[Any]:
    """The labels of rows, of one type, none missing."""
    refuse_dask(y, "y")
    try:
        y = column_or_1d(to_host(y), warn=True)
        assert_all_finite(y, input_name="y")
        np.unique(y)
        check_classification_targets(y)
    except TypeError as error:
        raise ValueError(f"The labels in y must be of one type, none of them missing ({error}).") from None
    return np.asarray(y)


def check_weights(sample_weight: VectorLike, n: int) -> Array:
    """One finite weight for each row, none below 0; the default is 1, and a single number is for every row."""
    if sample_weight is None:
        return np.ones(n)
    refuse_dask(sample_weight, "sample_weight")
    options = {"ensure_2d": False, "ensure_min_samples": 0, "input_name": "sample_weight"}
    weight = check_array(to_host(sample_weight), dtype=np.float64, **options)
    if weight.ndim == 0:
        weight = np.full(n, weight)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight has shape {weight.shape}; it must hold one weight for each of the {n} rows.")
    if weight.min(initial=0.0) < 0:
        raise ValueError("Negative values in data passed to `sample_weight`: a weight must be 0 or more.")
    with np.errstate(over="ignore"):
        if not np.isfinite(weight.sum()):
            raise ValueError("sample_weight adds up to infinity: choose smaller weights, say divided by their mean.")
    return np.asarray(weight)


def weight_name(estimator: BaseEstimator) -> str | None:
    """The name under which `fit` takes sample weights, if it does."""
    if not isinstance(estimator, Pipeline):
        takes = not isinstance(estimator, FrozenEstimator) and has_fit_parameter(estimator, "sample_weight")
        return "sample_weight" if takes else None
    if any(hasattr(step, "fit_resample") for _, step in estimator.steps):
        return None
    last, inner = estimator.steps[-1][0], weight_name(estimator.steps[-1][1])
    return None if inner is None else f"{last}__{inner}"
