"""Nyström features with landmarks from every class.

With landmarks L drawn from the rows, K ≈ K(X, L) K(L, L)⁻¹ K(L, X). With the eigenvalues λ of K(L, L) that exceed
rounding, and their eigenvectors U, the rows of

    Z = K(X, L) · U · diag(λ)^(−1/2)

have the inner products Z Zᵀ of that approximation, so that a linear machine on Z is one with the kernel. Landmarks
drawn regardless of class are mostly rows of the majority, and kernel values among the minority are then the least
exact; so they are drawn by class. Whether the machine that follows is better depends on the data: try both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ._device import arrays, products
from ._input import checks
from ._input.checks import Interval, StrOptions
from ._input.collections import is_dask
from ._input.entry import Portable, enter, place_of, stored_like_input
from ._util.threads import Workers, count_threads, one_blas_thread
from ._util.typing import Array, Floats, Index, MatrixLike, VectorLike
from .kernels import RBF, Function, Kernel, Precomputed, centre_of, get_kernel, kernel_matrix, prepared, reach

__all__ = ["StratifiedNystroem"]

_LOST = 1e-4  # the error of an exponent from which distances are computed in float64
_TILE = 512  # rows at a time
_HELD = 64 << 20  # bytes of prepared landmarks that a call may hold


class StratifiedNystroem(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Portable):
    """Features whose inner products approximate a kernel, with landmarks from every class.

    Put before a `LinearSVM` it gives a kernel machine whose time and memory grow with rows × landmarks.

    Parameters
    ----------
    kernel : str, kernel or callable, default="rbf"
        As in `KernelSVM`.
    gamma : float, "scale" or "auto", default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    n_components : int, default=100
        Landmarks; all rows, if there are fewer.
    stratify : {"balanced", "proportional"}, dict or None, default="balanced"
        How many landmarks are rows of each class. "balanced": equally many of each, or
        all of a class that has fewer. "proportional": by the classes' weights, and at
        least one of each. A dict: this number for each label, instead of
        `n_components`. None, or a fit without y: regardless of class.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads over tiles of rows; None or −1 takes all cores. The result does not depend on it.
    device : None, "cpu", "cuda" or "cuda:0", default=None
        Where to compute features. None: where X is, which is a GPU for a CUDA tensor; its features are a
        tensor there. Landmarks are always drawn on the CPU and are the same ones; features are the same up to
        rounding, and up to their signs where gamma="scale" is rounded differently.

    Attributes
    ----------
    components_ : ndarray or CSR of shape (landmarks, n_features)
        The landmarks. With a precomputed kernel, their kernel values. (After a fit
        to a tensor this and the next two are tensors.)
    component_indices_ : ndarray of shape (landmarks,)
        Which rows they are, in ascending order, none twice.
    normalization_ : ndarray of shape (features out, landmarks)
        What kernel values with the landmarks are multiplied by. It has fewer rows than
        landmarks if some landmarks add nothing beyond rounding.
    kernel_ : kernel
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    sklearn.kernel_approximation.Nystroem : Landmarks drawn from all rows, regardless of class.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.pipeline import make_pipeline
    >>> from evenmargin import LinearSVM
    >>> from evenmargin.nystroem import StratifiedNystroem
    >>> X, y = make_classification(500, weights=[0.95], random_state=0)
    >>> landmarks = StratifiedNystroem(n_components=40, random_state=0).fit(X, y)
    >>> int(y[landmarks.component_indices_].sum())
    20
    >>> machine = make_pipeline(landmarks, LinearSVM(class_weight="balanced")).fit(X, y)
    >>> machine.score(X, y) > 0.9
    True
    """

    components_: Any
    component_indices_: Index
    normalization_: Array
    kernel_: Any

    _parameter_constraints: dict[str, list[Any]] = {
        "kernel": [str, callable, Kernel],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale", "auto"})],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "stratify": [StrOptions({"balanced", "proportional"}), dict, None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "device": [str, None],
    }

    def __init__(
        self,
        kernel: str | Kernel | Callable[..., Any] = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_components: int = 100,
        stratify: str | dict[Any, int] | None = "balanced",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> None:
        checks.store_parameters(self, locals())

    @checks.fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: VectorLike = None, sample_weight: VectorLike = None) -> StratifiedNystroem:
        """Draw the landmarks.

        Parameters
        ----------
        X : array-like, CSR matrix, tensor, dask array or dask frame of shape (n_samples, n_features)
            For dask collections only landmarks are moved. They are drawn with the same
            probabilities from other random numbers, which depend on the partitions.
        y : array-like of shape (n_samples,), default=None
            Classes. Ignored if `stratify` is None.
        sample_weight : array-like of shape (n_samples,), default=None
            Within its class, a row is drawn with a probability proportional to its weight.

        Returns
        -------
        self
        """
        count_threads(self.n_jobs)
        blind = y is None or self.stratify is None
        if isinstance(self.stratify, Mapping) and y is None:
            raise ValueError("stratify names labels, so fit needs the classes of the rows: call fit(X, y).")
        if is_dask(X):
            return self._fit_collection(X, None if blind else y, sample_weight)
        kernel = get_kernel(self.kernel, self.gamma, self.degree, self.coef0)
        X, home = enter(X, self.device, plain=isinstance(kernel, Precomputed | Function))
        labels = np.zeros(checks.num_samples(X), np.int8) if blind else y
        X, labels, weight, classes = checks.validate_training(self, X, labels, sample_weight)
        if not weight.any():
            raise ValueError("All sample weights are zero: no row is left to be a landmark.")
        kernel = kernel.settled(X, weight)
        if isinstance(kernel, Precomputed) and X.shape[0] != X.shape[1]:
            raise ValueError(f"kernel='precomputed' needs a square matrix to fit, not {X.shape[0]} × {X.shape[1]}.")
        drawn = self._landmark_rows(labels, weight, classes)
        with stored_like_input(self, home):
            self.kernel_, self.component_indices_, self.components_ = kernel, drawn, X[drawn]
            self.normalization_ = self._normalization(X.dtype)
        return self

    def transform(self, X: MatrixLike) -> Floats:
        """The features of rows.

        Parameters
        ----------
        X : array-like, CSR matrix, tensor, dask array or dask frame of shape (n_samples, n_features)
            With a precomputed kernel, kernel values with all rows of the fit.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            In float32 if X is; a tensor on its device, if X is one. For a dask array a
            lazy array with its chunks, for a dask frame a frame with its index.
        """
        checks.check_is_fitted(self)
        if is_dask(X):
            from .distributed import transform_nystroem

            return transform_nystroem(self, X)
        checks.check_same_kind(self, X, "normalization_", "transform")
        plain = isinstance(self.kernel_, Precomputed | Function)
        X, home = enter(X, place_of(self.device, self.normalization_), plain)
        X = checks.validate_rows(self, X)
        features = self._features_on_device(X, home) if isinstance(X, arrays.Rows) else self._features(X)
        return home.give(features)

    def _fit_collection(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike) -> StratifiedNystroem:
        """`fit` of a dask collection."""
        from .distributed import fit_nystroem

        found = fit_nystroem(self, X, y, sample_weight, self._counts)
        self.kernel_, self.component_indices_, self.components_ = found.kernel, found.indices, found.components
        self.normalization_ = self._normalization(found.dtype)
        checks.remember_columns(self, *found.columns)
        return self

    def _features(self, X: MatrixLike) -> Floats:
        into = np.ascontiguousarray(arrays.to_host(self.normalization_).T)
        if isinstance(self.kernel_, Precomputed):
            return np.asarray(X[:, arrays.to_host(self.component_indices_)] @ into.astype(X.dtype))
        right, dtype = self._right(X)
        into, count = into.astype(dtype), into.shape[0]
        out = np.empty((X.shape[0], into.shape[1]), X.dtype)
        alone = Workers(1)  # within a tile of rows

        def task(i: int) -> None:
            rows = X[i : i + _TILE]
            tile = pool.buffer(rows.shape[0] * count, dtype).reshape(rows.shape[0], count)
            kernel_matrix(self.kernel_, rows, right, dtype=dtype, out=tile, workers=alone)
            if dtype == out.dtype:
                np.dot(tile, into, out=out[i : i + _TILE])
            else:
                out[i : i + _TILE] = tile @ into

        small = X.shape[0] * count < 200_000
        with Workers(1 if small else count_threads(self.n_jobs)) as pool:
            pool.each(task, range(0, X.shape[0], _TILE))
        return out

    def _features_on_device(self, X: arrays.Rows, home: arrays.Home) -> Any:
        """The features on a device, as a tensor; or taken to the host piece by piece, if X came from there."""
        right, dtype = self._right(X)
        into = arrays.put(np.ascontiguousarray(arrays.to_host(self.normalization_).T), X.device, dtype)
        n, count = X.shape[0], into.shape[1]
        if home.device is None:
            out: Any = np.empty((n, count), X.dtype)
        else:
            with arrays.enough_memory(X.device, f"{n} rows of {count} features"):
                out = X.tensor.new_empty((n, count))
        step = max(_TILE, arrays.PASS // max(count, X.shape[1]))
        for i in range(0, n, step):
            rows = products.DevicePoints(self.kernel_, X[i : i + step], dtype, right.centre)
            found = products.dot(self.kernel_, rows, right, into, wide=False)
            out[i : i + step] = arrays.fetch(found) if home.device is None else found
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, Precomputed) or self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.normalization_.shape[0])

    def _landmark_rows(self, labels: NDArray[Any], weight: Array, classes: NDArray[Any]) -> Index:
        """Draw landmarks of each class, none twice, with probabilities by weight."""
        codes = np.searchsorted(classes, labels)
        sizes = np.bincount(codes[weight > 0], minlength=classes.size)
        totals = np.asarray(np.bincount(codes, weights=weight, minlength=classes.size), dtype=np.float64)
        counts = self._counts(sizes, totals / weight.sum(), classes)
        with np.errstate(divide="ignore", over="ignore"):
            clock = np.random.default_rng(checks.seed_from(self.random_state)).standard_exponential(codes.size) / weight
        drawn = []  # of each class the rows whose exponential clocks ring first
        for k, count in enumerate(counts):
            rows = np.flatnonzero((codes == k) & (weight > 0))
            drawn.append(rows[np.argsort(clock[rows], kind="stable")[:count]])
        return np.sort(np.concatenate(drawn))

    def _counts(self, sizes: Index, share: Array, classes: NDArray[Any]) -> Index:
        """Landmarks of each class, from its number of rows and its share of the weight."""
        if isinstance(self.stratify, Mapping):
            return _given_counts(self.stratify, sizes, classes)
        total = min(int(self.n_components), int(sizes.sum()))
        if self.stratify == "proportional":
            return _proportional_counts(sizes, share, total)
        return _even_counts(sizes, total)

    def _normalization(self, dtype: np.dtype[Any]) -> Array:
        """diag(λ)^(−1/2) · Uᵀ of the landmarks' kernel matrix, without directions that are lost in rounding."""
        L = arrays.to_host(self.components_)  # on the host, as another rounding may flip the signs of eigenvectors
        if isinstance(self.kernel_, Precomputed):
            K = np.asarray(L.toarray() if issparse(L) else L)[:, self.component_indices_].astype(np.float64)
        else:
            K = np.asarray(kernel_matrix(self.kernel_, L, L, dtype=np.float64))
        with one_blas_thread():  # sums, and so the features, would depend on the number of threads
            values, vectors = eigh(0.5 * (K + K.T))
        # A direction of eigenvalue λ multiplies the rounding of kernel values by λ^(−1/2).
        least = max(L.shape[0] * np.finfo(np.float64).eps, float(np.finfo(dtype).eps)) * float(values[-1])
        keep = np.flatnonzero(values > max(least, 0.0))[::-1]
        if keep.size == 0:
            raise ValueError(
                f"kernel={self.kernel!r} has no positive eigenvalue on the landmarks: choose other parameters for it, "
                "or a kernel that is positive definite."
            )
        return np.ascontiguousarray((vectors[:, keep] / np.sqrt(values[keep])).T)

    def _right(self, X: MatrixLike) -> tuple[Any, np.dtype[Any]]:
        """The landmarks made ready, and the precision of tiles: float64 where float32 would lose distances."""
        L, kernel, dtype = self.components_, self.kernel_, X.dtype
        L = arrays.Rows.put(L, X.device) if isinstance(X, arrays.Rows) else arrays.to_host(L)
        if isinstance(kernel, Function):
            return L, np.dtype(np.float64)
        centre = None if issparse(X) or issparse(L) else centre_of(kernel, L)
        if isinstance(kernel, RBF) and reach(kernel, L, centre) * np.finfo(dtype).eps > _LOST:
            dtype = np.dtype(np.float64)
        return prepared(kernel, L, dtype, centre, budget=_HELD), dtype


def _even_counts(sizes: Index, total: int) -> Index:
    """Equally many of each class; where a small class runs out, the others make up for it."""
    counts = np.zeros(sizes.size, np.intp)
    for place, k in enumerate(np.argsort(sizes, kind="stable")):
        counts[k] = min(int(sizes[k]), (total - int(counts.sum())) // (sizes.size - place))
    return counts


def _proportional_counts(sizes: Index, share: Array, total: int) -> Index:
    """By weight, and at least one of each class; where a class runs out, the others make up for it."""
    counts = np.minimum(sizes, 1) if total >= np.count_nonzero(sizes) else np.zeros_like(sizes)
    for _ in range(total - int(counts.sum())):
        # The class that is furthest behind its share.
        behind = np.where(counts < sizes, total * share - counts, -np.inf)
        counts[int(np.argmax(behind))] += 1
    return counts


def _given_counts(stratify: Mapping[Any, Any], sizes: Index, classes: NDArray[Any]) -> Index:
    unknown = sorted(set(stratify) - set(classes.tolist()), key=str)
    if unknown:
        raise ValueError(f"stratify has labels {unknown} that no row has; choose among {classes.tolist()}.")
    for label, count in stratify.items():
        most = int(sizes[classes.tolist().index(label)])
        if isinstance(count, bool) or not isinstance(count, Integral) or not 0 <= int(count) <= most:
            raise ValueError(f"stratify: class {label!r} can give 0 to {most} landmarks, not {count!r}.")
    counts = np.array([stratify.get(label, 0) for label in classes.tolist()], dtype=np.intp)
    if not counts.any():
        raise ValueError("stratify asks for no landmarks: give at least one class a number above 0.")
    return counts
