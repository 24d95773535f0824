"""Rows that kernel matrices are made of, and these matrices: each is made once, and used by many jobs.

Where the machine runs on a device, rows are put there once, and kernel matrices are computed there. Those of small
folds come to the host; those of large ones stay (`price_paths.Square`), one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from .._device import arrays, products
from .._util.threads import Workers
from .._util.typing import Array, Floats, Index, MatrixLike
from ..kernels import RBF, Kernel, Laplacian, centre_of, kernel_matrix, prepared, reach
from ..solvers.price_paths import Square


class _SquaredDistance(RBF):
    """−γ‖a − b‖², for many γ to be made of."""

    def apply(self, tile: Floats, compiled: bool = False) -> None:
        pass


class _Distance(Laplacian):
    """−γ Σ|a − b|, for the same."""

    def apply(self, tile: Floats, compiled: bool = False) -> None:
        pass


# From how many columns on distances cost more to compute than to read, and what computes them.
_DISTANCES: dict[Any, tuple[int, Any]] = {RBF: (64, _SquaredDistance(1.0)), Laplacian: (8, _Distance(1.0))}


class FoldRows:
    """All rows of a search, or those of one fold after its transformers, with their labels and weights."""

    def __init__(self, X: MatrixLike, y: NDArray[Any], weight: Array) -> None:
        self.X, self.y, self.weight, self.n = X, y, weight, y.size
        self.on_device = isinstance(X, arrays.Rows)
        self.dtype: Any = np.float64
        self.kernels: set[Any] = set()
        self.centre = centre_of(RBF(1.0), X)
        self.reach = reach(RBF(1.0), X, self.centre)
        self._lock = Lock()
        self._held: dict[Any, Any] = {}

    @cached_property
    def distances(self) -> set[Any]:
        """The kinds of kernels that share their distances."""
        if self.on_device:  # it multiplies faster than it reads
            return set()
        several = {kind for kind in _DISTANCES if sum(type(kernel) is kind for kernel, _ in self.kernels) > 1}
        return {kind for kind in several if self.X.shape[1] >= _DISTANCES[kind][0]}

    @property
    def held_on_device(self) -> bool:
        """Whether kernel matrices stay on a device."""
        return self.on_device and self.dtype == np.float32

    def rounding(self, kernel: Kernel) -> float:
        """The error of a kernel value."""
        if type(kernel) is RBF:
            size = 1.0 + 2.0 * kernel.gamma * self.reach
        elif type(kernel) is Laplacian:
            size = 1.0 + 2.0 * kernel.gamma * (self.X.shape[1] * self.reach) ** 0.5
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                size = float(np.abs(kernel.diagonal(self.X)).max())
        return size * (arrays.ROUNDING if self.held_on_device else float(np.finfo(self.dtype).eps))

    def gram(self, kernel: Any, augmented: bool, out: Any, workers: Workers) -> Any:
        """K of all rows among themselves, 1 added where the intercept is augmented."""
        if self.held_on_device:
            return self._square(kernel, augmented)
        kind = type(kernel)
        if kind in self.distances:
            with self._lock:
                if kind not in self._held:
                    self._held[kind] = self._whole(_DISTANCES[kind][1], np.empty_like(out), workers)
            for i in range(0, self.n, 64):  # in cache
                np.multiply(self._held[kind][i : i + 64], self.dtype(kernel.gamma), out=out[i : i + 64])
                kernel.apply(out[i : i + 64], compiled=True)
        else:
            self._whole(kernel, out, workers)
        if augmented:
            out += self.dtype(1.0)
        return out

    def _whole(self, kernel: Kernel, out: Floats | None, workers: Workers) -> Any:
        points = self._points(kernel, budget=1 << 30)
        return kernel_matrix(kernel, points, points, out=out, workers=workers, compiled=True)

    def _square(self, kernel: Kernel, augmented: bool) -> Square:
        points = self._points(kernel)
        K = products.block(kernel, points, points)
        return Square(K.add_(1.0) if augmented else K)

    def _points(self, kernel: Kernel, **options: int) -> Any:
        return prepared(kernel, self.X, self.dtype, self.centre if kernel.shift_invariant else None, **options)


class MatrixKey(NamedTuple):
    """Which kernel matrix: of these rows, by this kernel, with 1 added where the intercept is augmented."""

    rows: FoldRows
    kernel: Kernel
    augmented: bool


class KernelMatrices:
    """Kernel matrices, each made by the first job that asks and dropped after the last; memory is used again."""

    def __init__(self, keys: Iterable[MatrixKey]) -> None:
        self.left = Counter(keys)
        self.locks = {key: Lock() for key in self.left}
        self.held: dict[MatrixKey, Any] = {}
        self.spare: dict[Hashable, list[Floats]] = {}
        self._lock = Lock()

    def take(self, key: MatrixKey) -> Floats | Square:
        rows = key.rows
        with self.locks[key]:
            if key not in self.held:
                with self._lock:
                    spare = self.spare.get((rows.n, rows.dtype), [])
                    out = spare.pop() if spare else None
                if out is None and not rows.held_on_device:
                    out = np.empty((rows.n, rows.n), rows.dtype)
                self.held[key] = rows.gram(key.kernel, key.augmented, out, Workers(1))
            return self.held[key]

    def drop(self, key: MatrixKey) -> None:
        with self._lock:
            self.left[key] -= 1
            if self.left[key] == 0 and key in self.held:
                done = self.held.pop(key)
                if not key.rows.held_on_device:  # a device keeps its own spare memory
                    self.spare.setdefault((key.rows.n, key.rows.dtype), []).append(done)


def joined(X: MatrixLike, aside: MatrixLike) -> MatrixLike:
    """The rows of both, one below the other."""
    if isinstance(X, arrays.Rows):
        return arrays.Rows(arrays.namespace(X.tensor).cat([X.tensor, aside.tensor]))
    return vstack([X, aside], format="csr") if issparse(X) or issparse(aside) else np.concatenate([X, aside])


def row_sums(K: Any, rows: Index, V: Array) -> Array:
    """V · K[rows], in float64."""
    if isinstance(K, Square):
        return K.product(rows, V)
    full = np.zeros((V.shape[0], K.shape[0]))
    full[:, rows] = V
    if K.dtype == np.float64:
        return full @ K
    parts = [full @ K[i : i + 256].T.astype(np.float64) for i in range(0, K.shape[0], 256)]
    return np.concatenate(parts, axis=1)
