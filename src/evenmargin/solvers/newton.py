"""Newton's method on the rows in play, exact for every convex loss.

Given prices p, it minimises Φ(w, b) = 1/2 ‖w‖² + Σ ψ_i(y_i (x_i·w + b)).

- Squared hinge and log: ψ_i = p_i · loss. Each step solves (I + Xᵀ diag(ψ'') X)
  for the direction; only rows with curvature enter.
- Hinge: the loss has no curvature, so ψ_i is its augmented Lagrangian with
  multiplier α_i: ψ_i' = −clip(α_i + κ p_i (1 − m_i), 0, p_i). When the step for
  the present α has converged, α takes the clipped value and κ grows; the
  minimisers converge to the exact optimum superlinearly, and the rows with
  curvature shrink to the support vectors strictly inside their box.
  (Rockafellar 1976 for the outer loop; Yan and Li 2020 for SVMs.)

A few passes of dual coordinate descent give the hinge its first α. The cost of
a step is n·d for the scores and (rows in play)·d² for the matrix, so this is
for d up to a few thousand; a line search by bisection needs no pass over X.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse import issparse

from .. import _core
from ..losses import Hinge, slopes, values
from ..problem import Problem, Solution
from .base import Control, Solver, State
from .dual_cd import DualCD
from .duality import best_intercept, certify

Array = NDArray[np.float64]

# The first κ, in units of one over the violation that coordinate descent left,
# and its growth per round: few Newton steps on dense and sparse data alike.
_KAPPA, _GROWTH, _KAPPA_MAX = 3.0, 3.0, 1e8
# Entries of X up to which the last digits are worth a few more steps.
_POLISH_UP_TO = 1_000_000
_TILE = 256  # rows of X copied at a time for the matrix


@dataclass
class NewtonState(State):
    w: Array
    b: float
    scores: Array
    alpha: Array
    tol: float
    kappa: float = 0.0  # 0: the loss is smooth, ψ is the loss itself


@dataclass(frozen=True)
class Newton(Solver):
    """Newton steps with an exact line search; see the module.

    Parameters
    ----------
    warm_epochs : int, default=10
        Passes of dual coordinate descent before the first step (hinge only).
    """

    warm_epochs: int = 10

    name = "newton"
    unit = "Newton step"
    needs = ("conjugate",)

    def default_max_iter(self, problem: Problem) -> int:
        return 500

    def init(self, problem: Problem, control: Control) -> NewtonState:
        n, d = problem.shape
        w, b, alpha, kappa = np.zeros(d), problem.offset, np.zeros(n), 0.0
        if isinstance(problem.loss, Hinge):
            descent = DualCD()
            start = descent.init(problem, control)
            for _ in range(self.warm_epochs):
                descent.epoch(problem, start)
            w, b, alpha = start.w, start.intercept, start.alpha
            kappa = _KAPPA / float(np.clip(start.violation, 1e-3, 10.0))
        elif control.coef is not None:
            w, b = control.coef.astype(np.float64), float(control.intercept)
        return NewtonState(w=w, b=b, scores=problem.scores(w, b), alpha=alpha, kappa=kappa, tol=control.tol)

    def step(self, problem: Problem, state: NewtonState, limit: int) -> int:
        """One Newton step; where the last one has converged, new multipliers first."""
        margins = problem.y * state.scores
        first, second = self._derivatives(problem, state, margins)
        gradient = self._gradient(problem, state, first)
        new_multipliers = bool(state.kappa) and self._inner_done(problem, state, first, gradient)
        if new_multipliers:
            state.alpha = -first
            state.kappa = min(_GROWTH * state.kappa, _KAPPA_MAX)
            first, second = self._derivatives(problem, state, margins)
            gradient = self._gradient(problem, state, first)
        direction = -_solve(self._matrix(problem, second), gradient)
        decrement = float(-gradient @ direction)
        if not decrement > 0.0:  # zero, or a loss that is not convex here
            state.settled = True
            return 1
        move = problem.scores(direction[:-1], direction[-1])
        tau = self._line_search(problem, state, direction, move)
        state.w = state.w + tau * direction[:-1]
        state.b += tau * direction[-1]
        state.scores += tau * move
        penalty = problem.penalty(state.w, state.b)
        value = penalty + float(problem.price @ values(problem.loss, problem.y * state.scores, problem.y))
        state.due = decrement <= state.tol * value
        state.settled = decrement <= 1e-24 * value and (new_multipliers or not state.kappa)
        return 1

    def gap(self, problem: Problem, state: NewtonState) -> tuple[float, float]:
        return certify(problem, state.w, state.b, self._multipliers(problem, state))

    def coefficients(self, problem: Problem, state: NewtonState) -> tuple[Array, float]:
        return state.w, state.b

    def finish(self, problem: Problem, state: NewtonState, solution: Solution) -> bool:
        moved = polish(problem, state)
        solution.coef, solution.intercept = state.w, state.b
        solution.alpha = alpha = self._multipliers(problem, state)
        if state.kappa and problem.free and not np.any((alpha > 0) & (alpha < problem.price)):
            solution.intercept = best_intercept(problem, state.scores - state.b)
            moved = True
        return moved

    def _multipliers(self, problem: Problem, state: NewtonState) -> Array:
        return -self._derivatives(problem, state, problem.y * state.scores)[0]

    def _derivatives(self, problem: Problem, state: NewtonState, margins: Array) -> tuple[Array, Array]:
        """ψ' and ψ'' by the margin, for every row."""
        first, second = np.empty_like(margins), np.empty_like(margins)
        if state.kappa:
            _core.newton_loops.lagrangian(margins, state.alpha, problem.price, state.kappa, first, second)
        else:
            _core.newton_loops.curvatures(problem.loss, margins, problem.y, problem.price, second)
            np.multiply(problem.price, slopes(problem.loss, margins, problem.y), out=first)
        return first, second

    def _gradient(self, problem: Problem, state: NewtonState, first: Array) -> Array:
        pull = first * problem.y
        gradient = np.empty(state.w.size + 1)
        gradient[:-1] = state.w + problem.combine(pull)
        gradient[-1] = pull.sum() + (state.b if problem.augmented else 0.0)
        if not (problem.free or problem.augmented):
            gradient[-1] = 0.0
        return gradient

    def _inner_done(self, problem: Problem, state: NewtonState, first: Array, gradient: Array) -> bool:
        """The residual is small beside the move that α is about to make."""
        move = (state.alpha + first) / np.sqrt(problem.price)
        return float(gradient @ gradient) <= 0.01 * float(move @ move) / state.kappa

    def _matrix(self, problem: Problem, second: Array) -> Array:
        """I + Xᵀ diag(second) X with the intercept as last row and column."""
        d = problem.shape[1]
        matrix = np.zeros((d + 1, d + 1), order="F")  # as BLAS wants it
        weighted_gram(problem, np.flatnonzero(second > 0), second, matrix)
        if np.any(second < 0):  # only where polishing a loss that is not convex
            matrix *= -1.0
            weighted_gram(problem, np.flatnonzero(second < 0), -second, matrix)
            matrix *= -1.0
        matrix[np.arange(d), np.arange(d)] += 1.0
        if not (problem.free or problem.augmented):
            matrix[-1, :] = 0.0
            matrix[-1, -1] = 1.0
        else:
            matrix[-1, -1] += 1.0 if problem.augmented else 1e-12 * max(1.0, float(problem.price.max()))
        return matrix

    def _line_search(self, problem: Problem, state: NewtonState, direction: Array, move: Array) -> float:
        """The zero of Φ's derivative along the direction, by bisection from 1."""
        quadratic = float(direction[:-1] @ direction[:-1])
        linear = float(state.w @ direction[:-1])
        if problem.augmented:
            quadratic += direction[-1] ** 2
            linear += state.b * direction[-1]

        def along(tau: float) -> float:
            if state.kappa:
                slope = _core.newton_loops.lagrangian_slope_along(
                    state.scores, move, tau, problem.y, state.alpha, problem.price, state.kappa
                )
            else:
                slope = _core.newton_loops.slope_along(problem.loss, state.scores, move, tau, problem.y, problem.price)
            return linear + tau * quadratic + slope

        return _zero(along)


def polish(problem: Problem, state: NewtonState) -> bool:
    """On small data go on to the last digits: there a weight of 2 and a row twice must agree.

    True if the state has moved.
    """
    solver, moved = Newton(), False
    for _ in range(60):
        if state.settled or problem.size > _POLISH_UP_TO:
            break
        solver.step(problem, state, 1)
        moved = True
    return moved


def _zero(along: Callable[[float], float]) -> float:
    if along(1.0) <= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 1e-3 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if along(middle) > 0.0 else (middle, high)
    return 0.5 * (low + high)


def weighted_gram(problem: Problem, rows: NDArray[np.intp], weight: Array, out: Array) -> None:
    """Lower half of `out` (in Fortran's order) += Σ weight_i (x_i; 1)(x_i; 1)ᵀ over the given rows."""
    if issparse(problem.X):
        _core.newton_loops.sparse_gram(*problem.rows, rows, weight, out)
        return
    buffer = np.empty((min(_TILE, rows.size), out.shape[0]))
    for start in range(0, rows.size, _TILE):
        chosen = rows[start : start + _TILE]
        tile, root = buffer[: chosen.size], np.sqrt(weight[chosen])
        np.multiply(problem.X[chosen], root[:, None], out=tile[:, :-1])
        tile[:, -1] = root
        linalg.blas.dsyrk(1.0, tile.T, beta=1.0, c=out, lower=1, overwrite_c=1)


def _solve(matrix: Array, right: Array) -> Array:
    """matrix⁻¹ right, from the lower half; a step that still descends where it is not definite."""
    try:
        factor = linalg.cho_factor(matrix, lower=True, check_finite=False)
        return linalg.cho_solve(factor, right, check_finite=False)
    except linalg.LinAlgError:
        whole = np.tril(matrix) + np.tril(matrix, -1).T
        return linalg.lstsq(whole, right, check_finite=False)[0]
