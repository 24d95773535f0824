"""Rows of X, dense or CSR, behind three operations.

A loop that calls `dot`, `add` and `square` is written once and compiled for both layouts: like the losses, the two
classes are NamedTuples that the bridge resolves by type. Sums are taken in the dtype of the vector.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._util.typing import Floats, Index
from ._bridge import bridge
from ._jit import prefetch


class Dense(NamedTuple):
    """A C-contiguous matrix."""

    X: Floats

    def dot(self, i: int, w: Floats) -> Any:
        total = w.dtype.type(0)
        for j in range(w.size):
            total += self.X[i, j] * w[j]
        return total

    def add(self, i: int, scale: float, w: Floats) -> None:
        step = w.dtype.type(scale)  # a float64 scalar would widen a float32 loop
        for j in range(w.size):
            w[j] += step * self.X[i, j]

    def square(self, i: int) -> Any:
        total = self.X.dtype.type(0)
        for j in range(self.X.shape[1]):
            total += self.X[i, j] * self.X[i, j]
        return total

    def fetch(self, i: int) -> None:
        # Every line of a short row; of a long one a line in each kilobyte, from where the hardware follows.
        line = 64 // self.X.itemsize
        stride = line if self.X.shape[1] <= 8 * line else 16 * line
        for j in range(0, self.X.shape[1], stride):
            prefetch(self.X, i, j)


class Csr(NamedTuple):
    """A matrix in compressed sparse rows, without repeated entries in a row.

    Positions are made unsigned: without the test for a negative index, which
    Python's meaning asks for, these loops are five times as fast.
    """

    data: Floats
    indices: Index
    indptr: Index

    def dot(self, i: int, w: Floats) -> Any:
        total = w.dtype.type(0)
        for k in range(np.uint64(self.indptr[i]), np.uint64(self.indptr[i + 1])):
            total += self.data[k] * w[np.uint64(self.indices[k])]
        return total

    def add(self, i: int, scale: float, w: Floats) -> None:
        step = w.dtype.type(scale)
        for k in range(np.uint64(self.indptr[i]), np.uint64(self.indptr[i + 1])):
            w[np.uint64(self.indices[k])] += step * self.data[k]

    def square(self, i: int) -> Any:
        total = self.data.dtype.type(0)
        for k in range(np.uint64(self.indptr[i]), np.uint64(self.indptr[i + 1])):
            total += self.data[k] * self.data[k]
        return total

    def fetch(self, i: int) -> None:
        prefetch(self.data, self.indptr[i], 0)
        prefetch(self.indices, self.indptr[i], 0)


Rows: TypeAlias = Dense | Csr


dot = bridge("dot", "i", "w")  # row i times w
add = bridge("add", "i", "scale", "w")  # add scale times row i to w, in place
square = bridge("square", "i")  # the squared norm of row i
fetch = bridge("fetch", "i")  # start to load row i, which is needed soon
