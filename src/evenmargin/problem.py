"""The problem that a solver solves, and its solution.

Every solver minimises the same objective,

    F(w, b) = 1/2 ‖w‖² + Σ_i price_i · loss(y_i (x_i·w + b), y_i),

where price_i = C · class weight · sample weight. With `intercept="augmented"`
1/2 b² is added, as if X had a constant column.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse

from . import _core
from ._device import arrays
from ._util.typing import Array, Floats, MatrixLike
from .kernels import Precomputed, kernel_dot
from .losses import values

__all__ = ["KernelProblem", "Problem", "Solution", "Status", "intercept_for"]

EXACT = 1 << 30  # kernel values that a device computes in float64, where rows are: some hundredths of a second


class Status(StrEnum):
    """Why a fit ended."""

    CONVERGED = "converged: the duality gap is within tol"
    STATIONARY = "converged: the gradient is within tol"
    BUDGET = "max_iter was reached"
    HALTED = "halted: ROC-AUC stopped improving"
    SETTLED = "settled: a step changed the coefficients by less than change_tol"
    STALLED = "stalled: no progress is left at this precision"


def intercept_for(intercept: str | float | None, sign: float) -> str | float | None:
    """The intercept option of a machine, for a problem whose scores are those of the machine times `sign`."""
    if isinstance(intercept, bool | np.bool_):
        raise ValueError(f"intercept={intercept} is not valid: use 'free' to learn it, None for none, or a number.")
    return intercept if intercept is None or isinstance(intercept, str) else sign * float(intercept)


class WithIntercept:
    """What an intercept of "free", "augmented", a number or None means."""

    intercept: str | float | None

    @property
    def free(self) -> bool:
        """The intercept is learned and not penalised."""
        return self.intercept == "free"

    @property
    def augmented(self) -> bool:
        """The intercept is learned as the weight of a constant column."""
        return self.intercept == "augmented"

    @property
    def learned(self) -> bool:
        """The intercept is learned, penalised or not."""
        return self.free or self.augmented

    @property
    def offset(self) -> float:
        """The intercept if it is a number, else 0."""
        return 0.0 if self.intercept is None or isinstance(self.intercept, str) else float(self.intercept)


@dataclass(frozen=True)
class Problem(WithIntercept):
    """Rows, labels, prices, a loss and an intercept: all that a solver knows.

    Parameters
    ----------
    X : ndarray (C-contiguous) or CSR of shape (n, d), float32 or float64
    y : ndarray of shape (n,)
        −1 or +1 (the minority), in the dtype of X.
    price : float64 ndarray of shape (n,)
        C times the cost of each row; all above 0.
    loss : a loss of `evenmargin.losses`
    intercept : "free", "augmented", float or None
    radius : float
        1/√λ, for solvers that project: with the hinge and no fixed intercept the optimum lies within.
    stream_price : float or None
        The price of all rows of a stream, where X is a part of it.
    """

    X: Any
    y: Floats
    price: Array
    loss: Any
    intercept: str | float | None = "free"
    radius: float = np.inf
    stream_price: float | None = None

    @property
    def total_price(self) -> float:
        return float(self.price.sum()) if self.stream_price is None else self.stream_price

    @property
    def zero_objective(self) -> float:
        """The objective of coefficients of zero."""
        labels = self.y.astype(np.float64)
        return float(self.price @ values(self.loss, labels * self.offset, labels))

    @cached_property
    def rows(self) -> Any:
        X = self.X
        return _core.rows.Csr(X.data, X.indices, X.indptr) if issparse(X) else _core.rows.Dense(X)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    @property
    def size(self) -> int:
        """Stored entries of X: what one pass costs."""
        return int(self.X.nnz) if issparse(self.X) else int(self.X.size)

    def scores(self, w: Floats, b: float) -> Array:
        """x_i·w + b for every row, summed in the dtype of w."""
        out = np.empty(self.shape[0])
        _core.cd_loops.scores(self.rows, w, out)
        out += b
        return out

    def scores_of(self, X: MatrixLike, w: Floats) -> Floats:
        """x·w for other rows, in their dtype."""
        return X @ w.astype(X.dtype, copy=False)

    def combine(self, scale: Floats) -> Array:
        """Σ scale_i x_i, in float64."""
        w = np.zeros(self.shape[1])
        _core.cd_loops.weighted_rows(self.rows, scale, w)
        return w

    def squared_norm(self, scale: Floats) -> float:
        """‖Σ scale_i x_i‖²."""
        w = self.combine(scale)
        return float(w @ w)

    def penalty(self, w: Floats, b: float) -> float:
        w = w.astype(np.float64, copy=False)
        return 0.5 * float(w @ w) + (0.5 * b * b if self.augmented else 0.0)

    def objective(self, w: Floats, b: float, scores: Array | None = None) -> float:
        """F(w, b); `scores` are x_i·w + b where they are known."""
        if scores is None:
            scores = self.scores(w.astype(np.float64, copy=False), b)
        return self.penalty(w, b) + float(self.price @ values(self.loss, self.y * scores, self.y))


@dataclass(frozen=True)
class KernelProblem(Problem):
    """The same with a kernel: f(x) = Σ β_j K(x_j, x) + b, and ‖f‖² = βᵀKβ. "w" is β here.

    Parameters
    ----------
    kernel : a settled kernel of `evenmargin.kernels`
        With `Precomputed`, X is K.
    cache_size : float
        Megabytes that a solver may hold of K.
    workers : Workers
        The threads that tiles are given to.
    definite : bool
        Whether K is positive definite; otherwise there is no duality gap.
    """

    kernel: Any = None
    cache_size: float = 200.0
    workers: Any = None
    definite: bool = True

    @property
    def size(self) -> int:
        """Entries of K, at most."""
        return self.X.shape[0] * self.X.shape[0]

    def product(self, beta: Floats) -> Array:
        """K β for all rows; the last one is remembered."""
        memory = self.__dict__.setdefault("_memory", {})
        if "beta" not in memory or not np.array_equal(memory["beta"], beta):
            memory.update(beta=np.array(beta), product=self.scores_of(self.X, beta))
        return np.asarray(memory["product"])

    def scores_of(self, X: MatrixLike, w: Floats) -> Floats:
        some = np.flatnonzero(w)
        if isinstance(self.kernel, Precomputed):
            return kernel_dot(self.kernel, X[:, some], None, w[some])
        # On a device too in the dtype of X, where that is not felt: a gap may be asked for to the last digits.
        away = isinstance(self.X, arrays.Rows)
        dtype = np.float32 if away and X.shape[0] * some.size > EXACT else X.dtype
        return kernel_dot(self.kernel, X, self.X[some], w[some], dtype=dtype, workers=self.workers, compiled=True)

    def scores(self, w: Floats, b: float) -> Array:
        return self.product(w) + b

    def squared_norm(self, scale: Floats) -> float:
        return float(scale @ self.product(scale))

    def penalty(self, w: Floats, b: float) -> float:
        return 0.5 * self.squared_norm(w) + (0.5 * b * b if self.augmented else 0.0)


@dataclass
class Solution:
    """The result of a solver. `gap` is an upper bound on objective − optimum."""

    coef: Floats
    intercept: float
    n_iter: int
    objective: float
    gap: float
    status: Status
    history: list[dict[str, float]] = field(default_factory=list)
    alpha: Array | None = None

    @property
    def relative_gap(self) -> float:
        return self.gap / max(abs(self.objective), 1e-300)
