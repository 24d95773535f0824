"""What kernels ask of all rows: how much their entries vary, and how far apart rows are. Parts merge into the whole."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._util.typing import Array
from ..kernels import RBF, Kernel, reach, variance_of
from ._partitions import Block


@dataclass(frozen=True)
class Moments:
    """The number of entries of X, their mean and Σ (entry − mean)², all by the weights of their rows."""

    total: float = 0.0
    mean: float = 0.0
    spread: float = 0.0

    @classmethod
    def of(cls, block: Block) -> Moments:
        X, weight = block.X, block.weights
        total = float(weight.sum()) * X.shape[1]
        if not total:
            return cls()
        sums = np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
        return cls(total, float(weight @ sums) / total, total * variance_of(X, weight))

    def __add__(self, other: Moments) -> Moments:
        total = self.total + other.total
        if not total:
            return self
        apart, share = other.mean - self.mean, other.total / total
        between = apart * apart * share * self.total
        return Moments(total, self.mean + share * apart, self.spread + other.spread + between)

    def settle(self, kernel: Kernel, width: int) -> Kernel:
        """The kernel with its parameters as numbers, as it would have them from all rows."""
        variance = self.spread / self.total
        apart = math.sqrt(variance) if variance > 1e-28 * self.mean**2 else 0.0  # else rounding, of a constant X
        rows = np.repeat([[-apart], [apart]], width, axis=1)  # two rows with this variance: no more is asked of them
        return kernel.settled(rows, np.ones(2))


@dataclass(frozen=True)
class Extent:
    """The number of rows, their mean (None if some are sparse, so not centred), and a bound on their distance to it."""

    rows: int = 0
    centre: Array | None = None
    radius: float = 0.0

    @classmethod
    def of(cls, block: Block) -> Extent:
        X = block.X
        if not X.shape[0]:
            return cls()
        centre = None if issparse(X) else np.asarray(X.mean(axis=0, dtype=np.float64))
        return cls(X.shape[0], centre, math.sqrt(reach(RBF(1.0), X, centre)))

    def __add__(self, other: Extent) -> Extent:
        if not self.rows or not other.rows:
            return self if self.rows else other
        rows = self.rows + other.rows
        centre = None
        if self.centre is not None and other.centre is not None:
            centre = self.centre + other.rows / rows * (other.centre - self.centre)
        return Extent(rows, centre, max(self._radius(centre), other._radius(centre)))

    def _radius(self, centre: Array | None) -> float:
        """A bound on the distances to a centre, by the triangle inequality."""
        if self.centre is None:
            return self.radius
        return self.radius + float(np.linalg.norm(self.centre if centre is None else self.centre - centre))


def added(parts: Iterable[Any]) -> Any:
    """The sum of the parts, in their order."""
    return reduce(lambda one, other: one + other, parts)
