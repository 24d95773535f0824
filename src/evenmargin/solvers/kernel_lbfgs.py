"""Smooth losses with a kernel, exactly: a linear machine on the columns of K's Cholesky factor.

With K = L Lᵀ the machine f = Σ β_j K(x_j, ·) + b has the scores L u, u = Lᵀβ, and ‖f‖² = ‖u‖². So the problem of the
representer coefficients β is the linear one with the rows of L in place of those of X, and `lbfgs.py` solves it. The
factor is pivoted and ends where K has no more to add, so K may be singular.

At the optimum β_i = −price_i · slope_i · y_i. These are returned, with a
correction on the pivot rows that makes up for what is left of the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, solve_triangular

from .._util.typing import Array, Floats, Index
from ..kernels import Precomputed
from ..losses import slopes
from ..problem import KernelProblem, Problem, Solution
from .base import Control, Solver, State
from .gram import Entries, WholeGram
from .lbfgs import Lbfgs, LbfgsState

# Rows up to which K and its factor are held: 3 GB each.
MOST_ROWS = 20_000


@dataclass
class KernelLbfgsState(State):
    linear: Problem
    inner: LbfgsState
    pivots: Index
    triangle: Array  # the pivot rows of L


@dataclass(frozen=True)
class KernelLbfgs(Solver):
    """L-BFGS on the representer coefficients, with the parameter of `Lbfgs`; see the module."""

    memory: int = 20

    name = "lbfgs"
    unit = Lbfgs.unit
    kernel = True
    needs = Lbfgs.needs
    _conditions = Lbfgs._conditions

    @property
    def _linear(self) -> Lbfgs:
        return Lbfgs(self.memory)

    def default_max_iter(self, problem: KernelProblem) -> int:
        return 10_000

    def init(self, problem: KernelProblem, control: Control) -> KernelLbfgsState:
        n = problem.shape[0]
        if n > MOST_ROWS:
            raise ValueError(
                f"solver='lbfgs' holds the kernel matrix of all rows, and {n} are too many (at most {MOST_ROWS}): "
                "use solver='sgd', or 'smo' with a hinge."
            )
        if not problem.definite:
            raise ValueError(
                "solver='lbfgs' needs a positive definite kernel: use solver='sgd', or 'smo' with a hinge."
            )
        K = WholeGram(Entries(problem.kernel, problem.X, problem.workers)).K
        if isinstance(problem.kernel, Precomputed):
            K = np.array(K, dtype=np.float64, order="C")  # it is the user's own, and will be overwritten
        L, pivots = pivoted_cholesky(K)
        linear = Problem(L, problem.y.astype(np.float64), problem.price, problem.loss, problem.intercept)
        start = Control(tol=control.tol, seed=control.seed)
        if control.coef is not None:
            start.coef, start.intercept = L.T @ control.coef, control.intercept
        return KernelLbfgsState(linear, self._linear.init(linear, start), pivots, L[pivots])

    def step(self, problem: KernelProblem, state: KernelLbfgsState, limit: int) -> int:
        done = self._linear.step(state.linear, state.inner, limit)
        state.due, state.ending = state.inner.due, state.inner.ending
        return done

    def gap(self, problem: KernelProblem, state: KernelLbfgsState) -> tuple[float, float]:
        return self._linear.gap(state.linear, state.inner)

    def coefficients(self, problem: KernelProblem, state: KernelLbfgsState) -> tuple[Array, float]:
        return self._represented(state, *self._linear.coefficients(state.linear, state.inner))

    def finish(self, problem: KernelProblem, state: KernelLbfgsState, solution: Solution) -> bool:
        moved = self._linear.finish(state.linear, state.inner, solution)
        solution.coef, solution.intercept = self._represented(state, solution.coef, solution.intercept)
        return moved or not np.isfinite(solution.objective)

    def _represented(self, state: KernelLbfgsState, u: Floats, b: float) -> tuple[Array, float]:
        linear = state.linear
        beta = -linear.price * slopes(linear.loss, linear.y * linear.scores(u, b), linear.y) * linear.y
        left = u - linear.X.T @ beta
        beta[state.pivots] += solve_triangular(state.triangle, left, lower=True, trans="T", check_finite=False)
        return beta, b


def pivoted_cholesky(K: Array, tol: float = 1e-12) -> tuple[Array, Index]:
    """L of shape (n, rank) with K = L Lᵀ up to tol of its diagonal, and the pivot rows in their order.

    K, in C order, is overwritten: its transpose is itself, and in the order LAPACK likes.
    """
    factor, pivots, rank, _ = lapack.dpstrf(K.T, tol=tol * float(K.diagonal().max()), lower=1, overwrite_a=1)
    order = pivots - 1
    L = np.empty((K.shape[0], rank))
    for i in range(0, order.size, 256):
        L[order[i : i + 256]] = np.tril(factor[i : i + 256, :rank], k=i)
    return L, order[:rank]
