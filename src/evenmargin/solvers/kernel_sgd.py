"""Stochastic gradient descent with a kernel, in blocks: KSGD, WKSGD, kernel Pegasos, the kernel Blinex machine.

The rule is that of `pegasos.py`, for w = Σ β_j φ(x_j). At step t = 1, 2, …:

    draw row i;  score = Σ_j c_j K(x_j, x_i) / (t − 1), 0 at t = 1
    c_i ← c_i − (price_i / frequency_i) · slope · y_i,   and  β = c / t.

The rows of the next B steps are known before they are taken. So their scores
against all that was drawn before come from one tile of K at a time, by a matrix
product; only the B steps among themselves are sequential, on a B × B tile. The
iterates are those of one step after another.

Lu and Zhou for the hinge and the log loss with class-size weights; Sun for
class-balanced sampling with a given bias; the kernel algorithm of the Blinex
paper, whose constant here is that of its objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..kernels import Function, Points, Precomputed, centre_of
from ..problem import KernelProblem, Solution
from .base import Control, Solver, State
from .duality import best_intercept
from .pegasos import bias_mode, safe_radius

Array = NDArray[np.float64]
Index = NDArray[np.signedinteger]

BLOCK = 512
LOOK = 500_000_000  # kernel values that a look at all rows may cost: about a second
_COLUMNS = 768  # of a tile; a power of two is slower, as rows of it compete for places in the cache


@dataclass
class KernelSGDState(State):
    t: int
    coef: Array  # c, up to the scale in `tally`
    tally: Array
    pull: Array  # y · price / frequency
    rate: float
    radius: float
    take: Callable[[int], Index]
    drawn: Drawn


@dataclass(frozen=True)
class KernelSGD(Solver):
    """Blocked kernel SGD; see the module.

    Parameters
    ----------
    project : bool, default=False
        Scale w back to ‖w‖ ≤ 1/√λ after each step.
    best_b : bool, default=True
        Set a free intercept to its best value for the final w.
    """

    project: bool = False
    best_b: bool = True

    name = "sgd"
    unit = "step"
    kernel = True
    exact = False
    needs = ("slope",)

    def default_max_iter(self, problem: KernelProblem) -> int:  # type: ignore[override]
        return min(max(10_000, 5 * problem.shape[0]), 100_000)

    def init(self, problem: KernelProblem, control: Control) -> KernelSGDState:  # type: ignore[override]
        loops, n = _core.sgd_loops, problem.shape[0]
        tally = np.zeros(loops.TALLY)
        tally[_core.kernel_sgd_loops.SCALE] = 1.0
        tally[loops.BIAS] = problem.offset
        coef, drawn = np.zeros(n), Drawn(problem)
        if control.coef is not None and control.steps:
            coef = control.steps * control.coef.astype(np.float64)
            tally[loops.BIAS] = control.intercept * (control.steps if problem.augmented else 1.0)
            drawn.add(np.flatnonzero(coef))
        radius = safe_radius(problem, self.project)
        if radius < np.inf:
            extra = tally[loops.BIAS] ** 2 if problem.augmented else 0.0
            tally[loops.NORM2] = problem.squared_norm(coef) + extra
        frequency = control.sampling.frequency(problem.y)
        return KernelSGDState(
            t=control.steps,
            coef=coef,
            tally=tally,
            pull=problem.y * (problem.price / frequency),
            rate=1.0 / problem.total_price,
            radius=radius,
            take=control.sampling.stream(problem.y, np.random.default_rng([control.seed, control.steps])),
            drawn=drawn,
        )

    def step(self, problem: KernelProblem, state: KernelSGDState, limit: int) -> int:  # type: ignore[override]
        order = state.take(min(limit, state.drawn.block))
        scores, K = state.drawn.against(order, state.coef)
        added = np.empty(order.size)
        folded = _core.kernel_sgd_loops.steps(
            K, scores, state.pull[order], problem.loss, state.t, state.tally, bias_mode(problem), state.rate,
            state.radius, added,
        )  # fmt: skip
        if folded != 1.0:
            state.coef *= folded
        np.add.at(state.coef, order, added)
        moved = order[added != 0.0]
        state.drawn.add(np.unique(moved[~state.drawn.known[moved]]))
        state.t += order.size
        return int(order.size)

    def coefficients(self, problem: KernelProblem, state: KernelSGDState) -> tuple[Array, float]:  # type: ignore[override]
        loops, t = _core.sgd_loops, max(state.t, 1)
        b = state.tally[loops.BIAS] / (t if problem.augmented else 1.0)
        return state.coef * (state.tally[_core.kernel_sgd_loops.SCALE] / t), float(b)

    def finish(self, problem: KernelProblem, state: KernelSGDState, solution: Solution) -> bool:  # type: ignore[override]
        beta, b = self.coefficients(problem, state)
        solution.coef, solution.intercept = beta, self.refine(problem, beta, b)
        return True

    def refine(self, problem: KernelProblem, w: NDArray[np.floating], b: float) -> float:  # type: ignore[override]
        """A free intercept at its best value for the final w."""
        if not (self.best_b and problem.free and hasattr(problem.loss, "conjugate")):
            return b
        n, support = problem.shape[0], max(1, int(np.count_nonzero(w)))
        if n * support <= LOOK:
            return best_intercept(problem, problem.scores(w, 0.0))
        some = slice(0, None, int(np.ceil(10.0 * n * support / LOOK)))  # all rows would cost more than the fit
        sample = replace(problem, X=problem.X[some], y=problem.y[some], price=problem.price[some])
        return best_intercept(sample, problem.scores_of(sample.X, w).astype(np.float64))


class Drawn:
    """The rows drawn so far that have a coefficient, made ready for products."""

    def __init__(self, problem: KernelProblem) -> None:
        self.problem, n = problem, problem.shape[0]
        self.known = np.zeros(n, bool)
        self.rows = np.empty(0, np.intp)
        self.plain, self.block = isinstance(problem.kernel, Precomputed | Function), BLOCK
        if not self.plain:
            self.points = Points(problem.kernel, problem.X, problem.X.dtype, centre_of(problem.kernel, problem.X))
            self.block = min(BLOCK, self.points.tile)  # fewer rows where they are long
            self.dense = self.points.sparse is None
            self.right = np.empty((_COLUMNS, self.points.width if self.dense else 0), self.points.dtype)

    def add(self, rows: Index) -> None:
        start = self.rows.size
        self.known[rows] = True
        self.rows = np.concatenate([self.rows, rows])
        if self.plain or not self.dense:
            return
        if self.rows.size > self.right.shape[0]:
            more = min(max(2 * self.right.shape[0], self.rows.size), self.known.size)
            right = np.empty((more, self.right.shape[1]), self.right.dtype)
            right[:start] = self.right[:start]
            self.right = right
        self.right[start : self.rows.size] = self.points.right(rows)

    def against(self, order: Index, coef: Array) -> tuple[Array, Any]:
        """Σ_j c_j K(x_j, x_i) for the rows of a block, and K among them."""
        problem, kernel = self.problem, self.problem.kernel
        if isinstance(kernel, Precomputed):
            K = problem.X[order]
            return np.asarray(K @ coef, dtype=np.float64), np.ascontiguousarray(K[:, order])
        if isinstance(kernel, Function):
            own = problem.X[order]
            past = (
                kernel.matrix(own, problem.X[self.rows]) @ coef[self.rows] if self.rows.size else np.zeros(order.size)
            )
            return past, kernel.matrix(own, own)
        left, own = self.points.left(order), np.empty((order.size, order.size), self.points.dtype)
        c = coef[self.rows].astype(left.dtype)
        starts = range(0, self.rows.size, _COLUMNS)
        parts = np.zeros((len(starts), order.size))

        def task(place: int) -> None:
            if place == len(starts):  # the block itself, while others work on the past
                own[...] = kernel.combine(left, self.points.right(order), problem.workers.buffer, True)
                kernel.apply(own, True)
                return
            some = slice(starts[place], starts[place] + _COLUMNS)
            right = self.right[: c.size][some] if self.dense else self.points.right(self.rows[some])
            tile = kernel.combine(left, right, problem.workers.buffer, True)
            kernel.apply(tile, True)
            parts[place] = np.dot(tile, c[some])

        problem.workers.each(task, range(len(starts), -1, -1))
        return parts.sum(axis=0), own
