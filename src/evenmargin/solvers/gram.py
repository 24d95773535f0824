"""The kernel matrix of the training rows, in four ways of holding it.

- `Whole`: all of it, in float64. For few rows, and for precomputed kernels.
- `Cached`: rows that were asked for, as many as fit into a given memory. For
  kernels that cost more to compute than to read: many columns, callables.
- `Streamed`: nothing; tiles are computed when they are needed and forgotten.
- `OnDevice`: the same, with rows and tiles on a device.

All of them answer the same two questions: the block of a working set, and what a
change of some coefficients does to the scores of all rows. `ridge` is added to
the diagonal and `constant` to every entry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from .. import _core
from .._device import arrays, products
from .._util.threads import Workers
from .._util.typing import Array, Index, MatrixLike
from ..kernels import (
    RBF,
    Exponential,
    Function,
    Points,
    Precomputed,
    centre_of,
    kernel_dot,
    kernel_matrix,
    prepared,
    reach,
)

__all__ = ["Cached", "Gram", "OnDevice", "Streamed", "Whole", "hold"]


# Rows up to which the whole matrix is computed, in float64.
SMALL = 2048
# Error of a float32 kernel value, in units of its size; `arrays.ROUNDING` is that of a device.
_ROUNDING = 1.2e-7
# Columns from which a kernel value is cheaper to read than to compute again.
_WIDE = 192


class Gram(ABC):
    """The kernel matrix of n rows; see the module."""

    single = False  # whether products are computed in float32
    most = 2  # rows that a working set may have

    def __init__(self, kernel: Any, X: MatrixLike, constant: float, ridge: Array | None, workers: Workers) -> None:
        self.kernel, self.X, self.constant, self.workers = kernel, X, constant, workers
        self.ridge = ridge
        self.n = X.shape[0]
        with np.errstate(over="ignore", invalid="ignore"):
            self.diagonal: Array = kernel.diagonal(X) + constant
        if not np.isfinite(self.diagonal).all():
            raise ValueError(
                "The kernel is not finite for some rows of X: scale the features, or choose a smaller degree."
            )
        unit = arrays.ROUNDING if isinstance(X, arrays.Rows) else _ROUNDING
        self.rounding = unit * _size(kernel, X, self.diagonal)
        if ridge is not None:
            self.diagonal = self.diagonal + ridge

    @cached_property
    def largest(self) -> float:
        """The largest |K(x, x)|."""
        return float(np.abs(self.diagonal).max())

    def block(self, rows: Index) -> Array:
        """K of the given rows among themselves."""
        K = self._block(rows)
        if self.constant:
            K += self.constant
        if self.ridge is not None:
            K[np.diag_indices(rows.size)] += self.ridge[rows]
        return K

    def dot(self, rows: Index, scale: Array) -> Array:
        """K[:, rows] · scale."""
        out = self._dot(rows, scale)
        return self._complete(out, slice(None), rows, scale)

    def exact(self, wanted: Index, rows: Index, scale: Array) -> Array:
        """K[wanted, rows] · scale in float64, whatever is held."""
        return self._complete(self._exact(wanted, rows, scale), wanted, rows, scale)

    def _complete(self, out: Array, wanted: Index | slice, rows: Index, scale: Array) -> Array:
        if self.constant:
            out += self.constant * scale.sum()
        if self.ridge is not None:
            full = np.zeros(self.n)
            full[rows] = self.ridge[rows] * scale
            out += full[wanted]
        return out

    def _exact(self, wanted: Index, rows: Index, scale: Array) -> Array:
        if isinstance(self.kernel, Function):
            return kernel_dot(self.kernel, self.X[wanted], self.X[rows], scale)
        centre = centre_of(self.kernel, self.X)
        A = Points(self.kernel, self.X[wanted], np.float64, centre)
        B = Points(self.kernel, self.X[rows], np.float64, centre)
        return kernel_dot(self.kernel, A, B, scale, workers=self.workers)

    def widen(self) -> None:  # noqa: B027 (optional)
        """From here on in float64."""

    @abstractmethod
    def _block(self, rows: Index) -> Array: ...

    @abstractmethod
    def _dot(self, rows: Index, scale: Array) -> Array: ...


class Whole(Gram):
    """All of K, in float64 (a precomputed one as it is)."""

    def __init__(
        self, kernel: Any, X: MatrixLike, constant: float, ridge: Array | None, workers: Workers, budget: int = 1 << 28
    ) -> None:
        super().__init__(kernel, X, constant, ridge, workers)
        self.most = block_rows(budget)
        if isinstance(kernel, Precomputed):
            self.K = X
        elif isinstance(kernel, Function):
            self.K = kernel.matrix(X, X)
        else:
            points = prepared(kernel, X, np.float64, centre_of(kernel, X), budget=1 << 30)
            self.K = kernel_matrix(kernel, points, points, workers=workers)

    def block(self, rows: Index) -> Array:
        plain = not self.constant and self.ridge is None
        if plain and rows.size == self.n and self.K.dtype == np.float64:  # all of them, in their order
            return self.K
        return super().block(rows)

    def _block(self, rows: Index) -> Array:
        return _gather(self.K, rows, rows, self.workers)

    def _dot(self, rows: Index, scale: Array) -> Array:
        return _sum_rows(self.K, rows, scale, self.workers)

    def _exact(self, wanted: Index, rows: Index, scale: Array) -> Array:
        return self._dot(rows, scale)[wanted]


class Streamed(Gram):
    """Tiles computed when needed: float32 at first, float64 once `widen` is called."""

    def __init__(
        self, kernel: Any, X: MatrixLike, constant: float, ridge: Array | None, workers: Workers, budget: int
    ) -> None:
        super().__init__(kernel, X, constant, ridge, workers)
        self.budget, self.single, self.most = budget, True, block_rows(2 * budget)
        self.points = Points(kernel, X, np.float32, centre_of(kernel, X), budget)

    def widen(self) -> None:
        if self.single:
            self.single = False
            self.points = Points(self.kernel, self.X, np.float64, self.points.centre, self.budget)

    def _block(self, rows: Index) -> Array:
        own = Points(self.kernel, self.X[rows], np.float64, self.points.centre, budget=1 << 30)
        return np.asarray(kernel_matrix(self.kernel, own, own, workers=self.workers))

    def _dot(self, rows: Index, scale: Array) -> Array:
        others = Points(self.kernel, self.X[rows], self.points.dtype, self.points.centre)
        return kernel_dot(self.kernel, self.points, others, scale, workers=self.workers, compiled=True)


class OnDevice(Streamed):
    """Rows on a device: tiles are computed there, blocks and sums come to the host in float64.

    Nothing of K is held: a round asks for some hundred columns, which cost less to
    compute there than to keep.
    """

    def __init__(
        self, kernel: Any, X: MatrixLike, constant: float, ridge: Array | None, workers: Workers, budget: int
    ) -> None:
        Gram.__init__(self, kernel, X, constant, ridge, workers)
        self.single, self.most = True, block_rows(2 * budget)
        self.points: Any = products.DevicePoints(kernel, X, np.float32, centre_of(kernel, X))

    def widen(self) -> None:
        if self.single:
            self.single, centre = False, self.points.centre
            del self.points  # its memory may be needed
            self.points = products.DevicePoints(self.kernel, self.X, np.float64, centre)

    def _block(self, rows: Index) -> Array:
        own = self._wide(rows)
        return np.asarray(arrays.fetch(products.block(self.kernel, own, own)))

    def _dot(self, rows: Index, scale: Array) -> Array:
        return self._product(self.points, self.points.take(rows), scale)

    def _exact(self, wanted: Index, rows: Index, scale: Array) -> Array:
        return self._product(self._wide(wanted), self._wide(rows), scale)

    def _wide(self, rows: Index) -> products.DevicePoints:
        """These rows in float64."""
        if not self.single:
            return self.points.take(rows)  # type: ignore[no-any-return]
        return products.DevicePoints(self.kernel, self.X[rows], np.float64, self.points.centre)

    def _product(self, A: products.DevicePoints, B: products.DevicePoints, scale: Array) -> Array:
        if B.n == 0:
            return np.zeros(A.n)
        V = arrays.put(scale, A.device, B.dtype)
        return np.asarray(arrays.fetch(products.dot(self.kernel, A, B, V)))


class Cached(Gram):
    """Rows of K that were asked for, in float32 at first, as many as `capacity` bytes hold."""

    def __init__(
        self, kernel: Any, X: MatrixLike, constant: float, ridge: Array | None, workers: Workers, capacity: int
    ) -> None:
        super().__init__(kernel, X, constant, ridge, workers)
        self.capacity, self.budget = capacity, capacity // 2
        self._open(np.float32 if not isinstance(kernel, Function) else np.float64)

    def _open(self, dtype: Any) -> None:
        self.single = dtype == np.float32
        self.store = np.empty((min(self.n, self.room(dtype)), self.n), dtype)
        self.place = np.full(self.n, -1)  # where a row is stored
        self.owner = np.full(self.store.shape[0], -1)  # whose row a place holds
        self.used = np.zeros(self.store.shape[0], np.int64)  # when it was last asked for
        self.clock = 0
        self.most = min(block_rows(self.capacity), self.store.shape[0])
        self.points: Points | None = None
        if not isinstance(self.kernel, Function):
            self.points = Points(self.kernel, self.X, dtype, centre_of(self.kernel, self.X), self.budget)

    def room(self, dtype: Any) -> int:
        return max(2, self.capacity // (self.n * np.dtype(dtype).itemsize))

    def widen(self) -> None:
        if self.single:
            self._open(np.float64)

    def _block(self, rows: Index) -> Array:
        self._fetch(rows)
        return _gather(self.store, self.place[rows], rows, self.workers)

    def _dot(self, rows: Index, scale: Array) -> Array:
        out = np.zeros(self.n)
        for start in range(0, rows.size, self.store.shape[0]):
            some = rows[start : start + self.store.shape[0]]
            self._fetch(some)
            out += _sum_rows(self.store, self.place[some], scale[start : start + some.size], self.workers)
        return out

    def _fetch(self, rows: Index) -> None:
        """Have these rows in the store, in place of those not asked for the longest."""
        self.clock += 1
        here = self.place[rows] >= 0
        self.used[self.place[rows[here]]] = self.clock
        missing = rows[~here]
        if missing.size == 0:
            return
        slots = np.argsort(self.used, kind="stable")[: missing.size]
        gone = self.owner[slots]
        self.place[gone[gone >= 0]] = -1
        self.owner[slots], self.place[missing], self.used[slots] = missing, slots, self.clock
        if self.points is None:
            self.store[slots] = self.kernel.matrix(self.X[missing], self.X)
            return
        points = self.points
        # Dense rows are at hand as a left side, very sparse ones as a right side.
        mine, theirs = (points.right, points.left) if points.sparse is None else (points.left, points.right)
        step = points.tile
        for j in range(0, missing.size, step):
            own, places = mine(missing[j : j + step]), slots[j : j + step]

            def task(i: int, own: Any = own, places: Index = places) -> None:
                tile = self.kernel.combine(own, theirs(slice(i, i + step)), self.workers.buffer, True)
                self.kernel.apply(tile, True)
                self.store[places, i : i + step] = tile

            self.workers.each(task, range(0, self.n, step))


def hold(
    kernel: Any, X: MatrixLike, constant: float, ridge: Array | None, workers: Workers, cache_size: float, most: int
) -> Gram:
    """The way to hold K that suits its size and its cost.

    cache_size : megabytes
    most : rows of a working set; a cache must hold some sets
    """
    n, bytes_, away = X.shape[0], int(cache_size * 1e6), isinstance(X, arrays.Rows)
    if not (away or isinstance(kernel, Precomputed)) and bytes_ < 2 * 8 * n:
        raise ValueError(
            f"cache_size={cache_size:g} MB does not hold two rows of the kernel matrix of {n} rows: "
            f"give it at least {16e-6 * n:.2g} (200 is the default)."
        )
    if isinstance(kernel, Precomputed) or (n <= SMALL and n <= block_rows(bytes_)):
        return Whole(kernel, X, constant, ridge, workers, bytes_)
    if away:
        return OnDevice(kernel, X, constant, ridge, workers, bytes_ // 4)
    capacity = bytes_ // 2
    if isinstance(kernel, Function) or (X.shape[1] > _WIDE and capacity >= 2 * min(most, n // 4) * n * 4):
        return Cached(kernel, X, constant, ridge, workers, capacity)
    return Streamed(kernel, X, constant, ridge, workers, bytes_ // 4)


def _size(kernel: Any, X: MatrixLike, diagonal: Array) -> float:
    """What the errors of float32 kernel values are in proportion to."""
    if isinstance(kernel, Exponential):
        return _ROUNDING**-0.5  # the root of a distance that is rounded
    if not isinstance(kernel, RBF):
        return float(np.abs(diagonal).max())
    some = X[:: max(1, X.shape[0] // 2000)]
    centre = centre_of(kernel, X)
    return 1.0 + 2.0 * reach(kernel, some, centre, np.mean)


def block_rows(budget: int) -> int:
    """Rows of a working set whose block, with two copies of it, takes so many bytes."""
    return int(min(4096, max(2, (budget / 24) ** 0.5)))


def _sum_rows(K: Any, rows: Index, scale: Array, workers: Workers) -> Array:
    out = np.zeros(K.shape[1])
    step = 4096

    def task(i: int) -> None:
        _core.smo_loops.add_rows(K, rows, scale, i, out[i : i + step])

    workers.each(task, range(0, out.size, step))
    return out


def _gather(K: Any, rows: Index, columns: Index, workers: Workers) -> Array:
    out = np.empty((rows.size, columns.size))

    def task(i: int) -> None:
        _core.smo_loops.gather(K, rows[i : i + 128], columns, out[i : i + 128])

    workers.each(task, range(0, rows.size, 128))
    return out
