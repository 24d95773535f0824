"""Where rows enter an estimator, and results leave it in the kind of array that the rows were.

Inside there are only arrays of the host and `arrays.Rows`, which are on a device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array

from .._device import arrays
from .._device.arrays import Home, Rows, enough_memory, find_device, is_tensor, known_device, readable, to_host
from .._util.typing import Device, MatrixLike
from .collections import refuse_dask

FLOATS = (np.float64, np.float32)


# --- in ---


def kind_of(X: MatrixLike) -> Home:
    """The kind of array that X is: NumPy, or tensors on its device (see `Home.of`)."""
    refuse_dask(X)
    dispatch = get_config()["array_api_dispatch"]
    if is_tensor(X):  # first: one on a GPU that requires its gradient raises when it is asked for its interface
        return Home.of(X, dispatch)
    foreign = hasattr(X, "__cuda_array_interface__") or (dispatch and hasattr(X, "__array_namespace__"))
    if foreign and not isinstance(X, np.ndarray):
        raise TypeError(
            f"X is a {type(X).__module__}.{type(X).__qualname__}, which is not supported: "
            "give a NumPy array or a torch tensor, such as torch.from_dlpack(X)."
        )
    return Home()


def enter(X: MatrixLike, device: Device | str = None, plain: bool = False) -> tuple[Any, Home]:
    """X as an array of the host or `Rows` on a device, and its `Home`, which converts results back.

    Without a `device` that is where X is. With `plain` it is the host whatever the device: for kernels that are a
    matrix or a function, and for machines that compute nowhere else. Rows have entered before, in the fit of another
    estimator, and stay where they are.
    """
    place = None if device is None else find_device(device)
    if isinstance(X, Rows):
        return X, Home()
    home = kind_of(X)
    if device is None:
        place = home.device
    given = X = readable(X) if is_tensor(X) else X
    if plain or arrays.native(place):
        return to_host(X), home
    if not is_tensor(X):  # frames and lists are read as on the host; entries are looked at on the device
        X = check_array(X, accept_sparse="csr", dtype=FLOATS, ensure_all_finite=False)
    elif X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D tensor instead: rows and columns, as X.reshape(-1, 1) has.")
    rows = Rows.put(canonical(X) if issparse(X) else X, place)
    rows.original = given
    return rows, home


def place_of(device: Device | str, fitted: MatrixLike) -> Device | str:
    """Where a fitted estimator computes: on the device of its parameters, or on that of the tensors of its fit."""
    return fitted.device if device is None and is_tensor(fitted) else device


def canonical(X: MatrixLike) -> Any:
    """A CSR matrix that compiled loops can trust: indices in range, none twice in a row."""
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"X is not a valid CSR matrix: {error}.") from None
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def on_device(estimator: BaseEstimator, X: MatrixLike, settings: Iterable[Mapping[str, Any]] = ()) -> bool:
    """Whether fits of the estimator, with any of these settings, run on a device, which does one thing at a time.

    More processes would each take memory there for themselves.
    """
    given = [X.device] if is_tensor(X) else []
    for params in (estimator.get_params(), *settings):
        given += [value for name, value in params.items() if name.split("__")[-1] == "device" and value is not None]
    return any(not arrays.native(device) for device in map(known_device, given))


# --- out ---


@contextmanager
def stored_like_input(estimator: BaseEstimator, home: Home) -> Iterator[None]:
    """Convert what a fit stores within to the kind of array that the rows were; labels and names stay with NumPy.

    Where that fails, as when memory runs out, the estimator is what it was before.
    """
    before = dict(vars(estimator))
    room = enough_memory(home.device, f"the arrays of {type(estimator).__name__}") if home.device else nullcontext()
    try:
        yield
        with room:
            results = {name: home.give(value) for name, value in vars(estimator).items() if _is_result(name, value)}
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
    vars(estimator).update(results)


def _is_result(name: str, value: Any) -> bool:
    own = (name.startswith("_") or name.endswith("_")) and name not in ("classes_", "feature_names_in_")
    return own and isinstance(value, np.ndarray | Rows)


class Portable(BaseEstimator):
    """An estimator whose rows may be sparse or tensors, and whose tensors are NumPy arrays when it is copied or saved.

    They are tensors again where their device can be had. Elsewhere (no GPU, a forked process, no memory left) they stay
    with NumPy, so that a machine fitted on a GPU predicts without one.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        homes = {name: str(value.device) for name, value in state.items() if is_tensor(value)}
        return {**state, **{name: to_host(state[name]) for name in homes}, "_homes": homes} if homes else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        homes = state.pop("_homes", {})
        with suppress(RuntimeError):  # of CUDA, which cannot be started in a fork, or is out of memory
            state.update({name: Home(known_device(device)).give(state[name]) for name, device in homes.items()})
        super().__setstate__(state)
