"""The kernel matrix of the training rows, and three ways to hold it.

- `WholeGram`: all of it, in float64. For few rows, and for precomputed kernels.
- `CachedGram`: rows that were asked for, as many as fit into a given memory. For kernels that cost more to compute
  than to read: many columns, callables.
- `StreamedGram`: nothing; tiles are computed when they are needed and forgotten. For rows on a device, too: the
  columns that a round asks for cost less to compute there than to keep.

All of them answer the same two questions: the block of a working set, and what a change of some coefficients does to
the scores of all rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .. import _core
from .._device import arrays
from .._util.threads import Workers
from .._util.typing import Array, Floats, Index, MatrixLike
from ..kernels import (
    Exponential,
    Function,
    Kernel,
    Points,
    Precomputed,
    centre_of,
    kernel_dot,
    kernel_matrix,
    prepared,
    reach,
)
from ..kernels.kernels import Euclidean

__all__ = ["CachedGram", "Entries", "Gram", "StreamedGram", "WholeGram", "hold"]

# Rows up to which the whole matrix is computed, in float64.
SMALL = 2048
# Error of a float32 kernel value, in units of its size; `arrays.ROUNDING` is that of a device.
_ROUNDING = 1.2e-7
# Columns from which a kernel value is cheaper to read than to compute again.
_WIDE = 192


@dataclass(frozen=True)
class Entries:
    """What a kernel matrix is made of, and the threads that compute it."""

    kernel: Kernel
    X: MatrixLike
    workers: Workers
    constant: float = 0.0  # added to every entry
    ridge: Array | None = None  # added to the diagonal


class Gram(ABC):
    """The kernel matrix of n rows; see the module."""

    single = False  # whether products are computed in float32
    most = 2  # rows that a working set may have

    def __init__(self, entries: Entries) -> None:
        self.kernel, self.X, self.workers = entries.kernel, entries.X, entries.workers
        self.constant, self.ridge = entries.constant, entries.ridge
        self.n = self.X.shape[0]
        with np.errstate(over="ignore", invalid="ignore"):
            self.diagonal: Array = self.kernel.diagonal(self.X) + self.constant
        if not np.isfinite(self.diagonal).all():
            raise ValueError(
                "The kernel is not finite for some rows of X: scale the features, or choose a smaller degree."
            )
        unit = arrays.ROUNDING if isinstance(self.X, arrays.Rows) else _ROUNDING
        self.centre = centre_of(self.kernel, self.X)
        self.rounding = unit * self._size()
        if self.ridge is not None:
            self.diagonal = self.diagonal + self.ridge
        self.largest = float(np.abs(self.diagonal).max())

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
        return self._complete(self._dot(rows, scale), slice(None), rows, scale)

    def exact(self, wanted: Index, rows: Index, scale: Array) -> Array:
        """K[wanted, rows] · scale, always in float64."""
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
        A, B = self._prepared(wanted, np.float64), self._prepared(rows, np.float64)
        return kernel_dot(self.kernel, A, B, scale, workers=self.workers)

    def _prepared(self, rows: Index | slice, dtype: DTypeLike, budget: int = 0) -> Any:
        return prepared(self.kernel, self.X[rows], dtype, self.centre, budget)

    def _size(self) -> float:
        """The scale that errors of float32 kernel values are proportional to."""
        if isinstance(self.kernel, Exponential):
            return _ROUNDING**-0.5  # the root of a distance that is rounded
        if not isinstance(self.kernel, Euclidean):
            return float(np.abs(self.diagonal).max())
        some = self.X[:: max(1, self.n // 2000)]
        return 1.0 + 2.0 * reach(self.kernel, some, self.centre, np.mean)

    def widen(self) -> None:  # noqa: B027 (optional)
        """Compute in float64 from now on."""

    @abstractmethod
    def _block(self, rows: Index) -> Array: ...

    @abstractmethod
    def _dot(self, rows: Index, scale: Array) -> Array: ...


class WholeGram(Gram):
    """The whole matrix, in float64 (a precomputed one as it is)."""

    def __init__(self, entries: Entries, budget: int = 1 << 28) -> None:
        super().__init__(entries)
        kernel, X = self.kernel, self.X
        self.most = block_rows(budget)
        if isinstance(kernel, Precomputed):
            self.K = X
        elif isinstance(kernel, Function):
            self.K = kernel.matrix(X, X)
        else:
            points = prepared(kernel, X, np.float64, self.centre, budget=1 << 30)
            self.K = kernel_matrix(kernel, points, points, workers=self.workers)

    def block(self, rows: Index) -> Array:
        plain = not self.constant and self.ridge is None
        if plain and rows.size == self.n and self.K.dtype == np.float64:  # all of them, in their order
            return self.K
        return super().block(rows)

    def _block(self, rows: Index) -> Array:
        return gather(self.K, rows, rows, self.workers)

    def _dot(self, rows: Index, scale: Array) -> Array:
        return _sum_rows(self.K, rows, scale, self.workers)

    def _exact(self, wanted: Index, rows: Index, scale: Array) -> Array:
        return self._dot(rows, scale)[wanted]


class StreamedGram(Gram):
    """Tiles computed when needed: float32 at first, float64 once `widen` is called."""

    def __init__(self, entries: Entries, budget: int) -> None:
        super().__init__(entries)
        self.budget, self.single, self.most = budget, True, block_rows(2 * budget)
        self.points = prepared(self.kernel, self.X, np.float32, self.centre, budget)

    def widen(self) -> None:
        if self.single:
            self.single = False
            del self.points  # its memory may be needed
            self.points = prepared(self.kernel, self.X, np.float64, self.centre, self.budget)

    def _block(self, rows: Index) -> Array:
        own = self._prepared(rows, np.float64, budget=1 << 30)
        return np.asarray(kernel_matrix(self.kernel, own, own, workers=self.workers))

    def _dot(self, rows: Index, scale: Array) -> Array:
        others = self._prepared(rows, self.points.dtype)
        return kernel_dot(self.kernel, self.points, others, scale, workers=self.workers, compiled=True)


class CachedGram(Gram):
    """Rows of K that were asked for, in float32 at first, as many as `capacity` bytes hold."""

    def __init__(self, entries: Entries, capacity: int) -> None:
        super().__init__(entries)
        self.capacity = capacity
        self._open(np.float64 if isinstance(self.kernel, Function) else np.float32)

    def _open(self, dtype: DTypeLike) -> None:
        self.single = dtype == np.float32
        room = max(2, self.capacity // (self.n * np.dtype(dtype).itemsize))
        self.store = np.empty((min(self.n, room), self.n), dtype)
        self.place = np.full(self.n, -1)  # where a row is stored
        self.used = np.zeros(self.store.shape[0], np.int64)  # when it was last asked for
        self.most = min(block_rows(self.capacity), self.store.shape[0])
        if not isinstance(self.kernel, Function):
            self.points = Points(self.kernel, self.X, dtype, self.centre, self.capacity // 2)

    def widen(self) -> None:
        if self.single:
            self._open(np.float64)

    def _block(self, rows: Index) -> Array:
        self._fetch(rows)
        return gather(self.store, self.place[rows], rows, self.workers)

    def _dot(self, rows: Index, scale: Array) -> Array:
        out = np.zeros(self.n)
        for start in range(0, rows.size, self.store.shape[0]):
            some = rows[start : start + self.store.shape[0]]
            self._fetch(some)
            out += _sum_rows(self.store, self.place[some], scale[start : start + some.size], self.workers)
        return out

    def _fetch(self, rows: Index) -> None:
        """Load these rows into the store, in place of the least recently used ones."""
        now = self.used.max() + 1
        here = self.place[rows] >= 0
        self.used[self.place[rows[here]]] = now
        missing = rows[~here]
        if missing.size == 0:
            return
        slots = np.argsort(self.used, kind="stable")[: missing.size]
        self.place[np.isin(self.place, slots)] = -1
        self.place[missing], self.used[slots] = slots, now
        if isinstance(self.kernel, Function):
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


def hold(entries: Entries, cache_size: float, most: int) -> Gram:
    """Choose how to hold K: by its size, its cost, the megabytes of the cache, and the rows of a working set."""
    kernel, X, bytes_ = entries.kernel, entries.X, int(cache_size * 1e6)
    n, away = X.shape[0], isinstance(X, arrays.Rows)
    if not (away or isinstance(kernel, Precomputed)) and bytes_ < 2 * 8 * n:
        raise ValueError(
            f"cache_size={cache_size:g} MB does not hold two rows of the kernel matrix of {n} rows: "
            f"give it at least {16e-6 * n:.2g} (200 is the default)."
        )
    if isinstance(kernel, Precomputed) or (n <= SMALL and n <= block_rows(bytes_)):
        return WholeGram(entries, bytes_)
    capacity = bytes_ // 2
    roomy = X.shape[1] > _WIDE and capacity >= 2 * min(most, n // 4) * n * 4  # for some working sets
    if isinstance(kernel, Function) or (roomy and not away):
        return CachedGram(entries, capacity)
    return StreamedGram(entries, bytes_ // 4)


def block_rows(budget: int) -> int:
    """How many rows a working set may have, if its block and two copies of it are to fit into these bytes."""
    return int(min(4096, max(2, (budget / 24) ** 0.5)))


def _sum_rows(K: Floats, rows: Index, scale: Array, workers: Workers) -> Array:
    out = np.zeros(K.shape[1])
    add, step = _core.smo_loops.add_rows, 4096
    workers.each(lambda i: add(K, rows, scale, i, out[i : i + step]), range(0, out.size, step))
    return out


def gather(K: Floats, rows: Index, columns: Index, workers: Workers) -> Array:
    """K[rows][:, columns] in float64."""
    out = np.empty((rows.size, columns.size))
    copy, step = _core.smo_loops.gather, 128
    workers.each(lambda i: copy(K, rows[i : i + step], columns, out[i : i + step]), range(0, rows.size, step))
    return out
