"""Newton's method on the rows near the margin, exact for every convex loss.

Given prices p, it minimises Φ(w, b) = 1/2 ‖w‖² + Σ ψ_i(y_i (x_i·w + b)).

- Squared hinge and log: ψ_i = p_i · loss. Each step solves (I + Xᵀ diag(ψ'') X)
  for the direction; only rows with curvature enter.
- Hinge: the loss has no curvature, so ψ_i is its augmented Lagrangian with
  multiplier α_i: ψ_i' = −clip(α_i + κ p_i (1 − m_i), 0, p_i). When the step for the present α has converged, α takes
  the clipped value and κ grows; the minimisers converge to the exact optimum superlinearly, and the rows with curvature
  shrink to the support vectors strictly inside their box. (Rockafellar 1976 for the outer loop; Yan and Li 2020 for
  SVMs.) A few passes of dual coordinate descent give the first α. Once few rows are within reach of the margin, the
  others are frozen at their bound and their pull is a constant; the certificate always looks at all rows.

The cost of a step is n·d for the scores and (rows in play)·d² for the matrix, so
this is for d up to about a thousand; a line search needs no pass over X.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse import issparse

from .. import _core
from .._util.typing import Array, Index
from ..losses import Hinge, slopes
from ..problem import Problem, Solution, Status, WithIntercept
from .base import CHUNK, Control, Solver, State, whole
from .dual_cd import DualCD
from .duality import SMALL, certify, settled_intercept

# The first κ, in units of one over the violation that coordinate descent left,
# and its growth per round: few Newton steps on dense and sparse data alike.
_KAPPA, _GROWTH, _KAPPA_MAX = 3.0, 3.0, 1e5
# Rows whose margin is within _BAND/κ of 1 are in reach; they are copied when
# they are at most this share of all, anew whenever κ has grown by _RENEW.
_BAND, _SHARE, _RENEW = 8.0, 0.08, 8.0
_TILE = 256  # rows of X copied at a time for the matrix


@dataclass
class Part:
    """The rows that a step is computed from, and the constant pull of all others."""

    problem: Problem
    rows: Index | slice
    scores: Array
    alpha: Array
    fixed: Array  # (d + 1,)

    @property
    def frozen(self) -> bool:
        return not isinstance(self.rows, slice)


class Derivatives(NamedTuple):
    """The derivatives of ψ for each row of a part, with two sums over its rows."""

    first: Array  # ψ' by the margin
    second: Array  # ψ''
    moved: float  # Σ (change of α)²/price, were α updated now
    slack: float  # the gap that would be left if the gradient vanished


@dataclass
class NewtonState(State):
    w: Array
    b: float
    part: Part
    alpha: Array  # of all rows, as they were when `part` was taken
    value: float  # objective, roughly: the scale for tol
    tol: float
    kappa: float = 0.0  # 0: the loss is smooth, ψ is the loss itself
    renewed: float = 0.0  # κ when `part` was taken
    drift: float = 0.0  # bound on how far a margin has moved since then
    reach: float = 0.0  # the longest row
    small: bool = False  # the last step was at the limit of rounding
    derivatives: Derivatives | None = None  # at the present point, if they have been taken


@dataclass(frozen=True)
class Newton(Solver):
    """Newton steps with an exact line search; see the module.

    Parameters
    ----------
    warm_epochs : int, default=6
        Passes of dual coordinate descent before the first step (hinge only).
    """

    warm_epochs: int = 6

    name = "newton"
    unit = "Newton step"
    needs = ("conjugate", "curvature")
    _conditions = {"warm_epochs": whole(0)}

    def takes(self, loss: Any) -> bool:
        return isinstance(loss, Hinge) or super().takes(loss)

    def default_max_iter(self, problem: Problem) -> int:
        return 500

    def init(self, problem: Problem, control: Control) -> NewtonState:
        w, b = np.zeros(problem.shape[1]), problem.offset
        if isinstance(problem.loss, Hinge):
            descent = DualCD()
            start = descent.init(problem, control)
            for _ in range(self.warm_epochs):
                descent.epoch(problem, start)
            kappa = _KAPPA / float(np.clip(start.measured, 1e-3, 10.0))
            state = start_at(problem, start.w, start.intercept, start.dual.alpha, kappa, control.tol)
            state.reach = float(np.sqrt(start.dual.curvature.max()))
            return state
        if control.coef is not None:
            w, b = control.coef.astype(np.float64), float(control.intercept)
        return start_at(problem, w, b, np.zeros(problem.shape[0]), 0.0, control.tol)

    def step(self, problem: Problem, state: NewtonState, limit: int) -> int:
        """Take one Newton step, after updating the multipliers if the last steps have converged."""
        state.due = False
        now = state.derivatives or self._derivatives(state)
        gradient = self._gradient(state, now.first)
        # The residual is small beside the move that α is about to make.
        new_multipliers = bool(state.kappa) and float(gradient @ gradient) <= 0.01 * now.moved / state.kappa
        if new_multipliers:
            state.part.alpha = -now.first
            state.kappa = min(_GROWTH * state.kappa, _KAPPA_MAX)
            if not state.part.frozen or state.kappa > _RENEW * state.renewed:
                self._screen(problem, state)
            now = self._derivatives(state)
            gradient = self._gradient(state, now.first)
        direction = -solve_lower(self._matrix(state.part.problem, now.second), gradient)
        decrement = float(-gradient @ direction)
        if not decrement > 0.0:  # zero, or a loss that is not convex here
            state.ending = Status.STALLED
            return 1
        move = state.part.problem.scores(direction[:-1], direction[-1])
        tau = self._line_search(state, direction, move)
        state.drift += tau * (state.reach * float(np.linalg.norm(direction[:-1])) + abs(direction[-1]))
        if state.part.frozen and state.drift > (_BAND - 1.0) / state.renewed:
            # A frozen row might come within reach: take this step with all rows.
            self._screen(problem, state, freeze=False)
            return 1
        state.w = state.w + tau * direction[:-1]
        state.b += tau * direction[-1]
        state.part.scores += tau * move
        state.derivatives = self._derivatives(state)
        state.due = decrement + state.derivatives.slack <= state.tol * state.value
        # decrement · κ is about the squared change of the multipliers
        small = decrement * max(1.0, state.kappa) <= 1e-21 * state.value
        if small and (new_multipliers or state.small or not state.kappa):
            state.ending = Status.STALLED
        state.small = small
        return 1

    def gap(self, problem: Problem, state: NewtonState) -> tuple[float, float]:
        self._screen(problem, state, freeze=state.part.frozen)
        state.value, gap = certify(problem, state.w, state.b, self._multipliers(problem, state))
        return state.value, gap

    def coefficients(self, problem: Problem, state: NewtonState) -> tuple[Array, float]:
        return state.w, state.b

    def finish(self, problem: Problem, state: NewtonState, solution: Solution) -> bool:
        moved = worth_polishing(problem, solution) and polish(problem, state, solution)
        solution.coef, solution.intercept = state.w, state.b
        solution.alpha = alpha = self._multipliers(problem, state)
        if state.kappa:
            solution.intercept = settled_intercept(problem, state.w, state.b, alpha)
        return moved or solution.intercept != state.b

    def _multipliers(self, problem: Problem, state: NewtonState) -> Array:
        """α of all rows: −ψ', except that frozen rows keep theirs."""
        alpha = state.alpha.copy()
        alpha[state.part.rows] = -self._derivatives(state).first
        return alpha

    def _screen(self, problem: Problem, state: NewtonState, freeze: bool = True) -> None:
        """Take all rows into the part again, then freeze those that are out of reach of the margin."""
        if not state.kappa:
            return
        state.alpha[state.part.rows] = state.part.alpha
        scores = problem.scores(state.w, state.b)
        state.part, state.renewed, state.drift = _whole(problem, scores, state.alpha), state.kappa, 0.0
        state.derivatives = None
        near = np.abs(1.0 - problem.y * scores) <= _BAND / state.kappa
        if not freeze or not 0 < np.count_nonzero(near) <= _SHARE * near.size:
            return
        rows, pull = np.flatnonzero(near), self._derivatives(state).first
        state.alpha = np.where(near, state.alpha, -pull)
        pull = np.where(near, 0.0, pull) * problem.y
        fixed = np.append(problem.combine(pull), pull.sum())
        part = replace(problem, X=problem.X[rows], y=problem.y[rows], price=problem.price[rows])
        state.part = Part(part, rows, scores[rows], state.alpha[rows], fixed)

    def _derivatives(self, state: NewtonState) -> Derivatives:
        """The derivatives at the state, for every row of the part."""
        part, problem = state.part, state.part.problem
        first, second = np.empty_like(part.scores), np.empty_like(part.scores)
        loops = _core.newton_loops
        if state.kappa:
            terms = loops.Lagrangian(problem.y, part.alpha, problem.price, state.kappa)
            moved, slack = loops.lagrangian(terms, part.scores, first, second)
            return Derivatives(first, second, float(moved), float(slack))
        margins = problem.y * part.scores
        _core.loss_loops.curvatures(problem.loss, margins, problem.y, problem.price, second)
        np.multiply(problem.price, slopes(problem.loss, margins, problem.y), out=first)
        return Derivatives(first, second, 0.0, 0.0)

    def _gradient(self, state: NewtonState, first: Array) -> Array:
        problem = state.part.problem
        pull = first * problem.y
        gradient = state.part.fixed.copy()
        gradient[:-1] += state.w + problem.combine(pull)
        gradient[-1] += pull.sum() + (state.b if problem.augmented else 0.0)
        if not problem.learned or abs(gradient[-1]) <= 1e-15 * float(np.abs(pull).sum()):
            # Rounding alone must not move an intercept that nothing holds.
            gradient[-1] = 0.0
        return gradient

    def _matrix(self, problem: Problem, second: Array) -> Array:
        """I + Xᵀ diag(second) X with the intercept as last row and column; lower half."""
        d = problem.shape[1]
        matrix = np.zeros((d + 1, d + 1), order="F")  # as BLAS wants it
        weighted_gram(problem, np.flatnonzero(second > 0), second, matrix)
        if np.any(second < 0):  # only where polishing a loss that is not convex
            matrix *= -1.0
            weighted_gram(problem, np.flatnonzero(second < 0), -second, matrix)
            matrix *= -1.0
        return completed(matrix, problem, float(problem.price.max()))

    def _line_search(self, state: NewtonState, direction: Array, move: Array) -> float:
        """The zero of Φ's derivative along the direction, by bisection from 1."""
        part, problem = state.part, state.part.problem
        quadratic = float(direction[:-1] @ direction[:-1])
        linear = float(state.w @ direction[:-1]) + float(part.fixed @ direction)
        if problem.augmented:
            quadratic += direction[-1] ** 2
            linear += state.b * direction[-1]
        loops = _core.newton_loops
        terms = loops.Lagrangian(problem.y, part.alpha, problem.price, state.kappa)

        def along(tau: float) -> float:
            if state.kappa:
                slope = loops.lagrangian_slope_along(terms, part.scores, move, tau)
            else:
                slope = loops.slope_along(problem.loss, part.scores, move, tau, problem.y, problem.price)
            return linear + tau * quadratic + float(slope)

        return _zero(along)


def start_at(problem: Problem, w: Array, b: float, alpha: Array, kappa: float, tol: float) -> NewtonState:
    """A state at the given point, with all rows in its part."""
    scores = problem.scores(w, b)
    part = _whole(problem, scores, alpha)
    return NewtonState(w, b, part, alpha, problem.objective(w, b, scores), tol, kappa)


def _whole(problem: Problem, scores: Array, alpha: Array) -> Part:
    return Part(problem, slice(None), scores, alpha.copy(), np.zeros(problem.shape[1] + 1))


def worth_polishing(problem: Problem, solution: Solution) -> bool:
    """Whether to compute the last digits: of a converged one on small data, where weight 2 must equal a row twice."""
    return problem.size <= SMALL and solution.status in (Status.CONVERGED, Status.STALLED, Status.STATIONARY)


def polish(problem: Problem, state: NewtonState, solution: Solution) -> bool:
    """Take Newton steps until rounding stops them, and count them in the solution; True if there were any."""
    solver, steps = Newton(), 0
    while state.ending is None and steps < 60:
        steps += solver.step(problem, state, 1)
    if steps:
        solver._screen(problem, state, freeze=False)
    solution.n_iter += steps
    return steps > 0


def _zero(along: Callable[[float], float]) -> float:
    """Where a function that starts below 0 and does not decrease reaches 0; 1 if beyond."""
    if along(1.0) <= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if along(middle) > 0.0 else (middle, high)
        if high - low <= 1e-3 * high:
            break
    return 0.5 * (low + high)


def weighted_gram(problem: Problem, rows: Index, weight: Array, out: Array) -> None:
    """Lower half of `out` (in Fortran's order) += Σ weight_i (x_i; 1)(x_i; 1)ᵀ over the given rows."""
    if rows.size == 0:
        return
    if issparse(problem.X):
        per_row = (problem.size / problem.shape[0] + 1.0) ** 2
        count = max(1, int(CHUNK / per_row))  # a short call, so that Ctrl-C is answered
        for start in range(0, rows.size, count):
            _core.newton_loops.sparse_gram(*problem.rows, rows[start : start + count], weight, out)
        return
    buffer = np.empty((min(_TILE, rows.size), out.shape[0]))
    for start in range(0, rows.size, _TILE):
        chosen = rows[start : start + _TILE]
        tile, root = buffer[: chosen.size], np.sqrt(weight[chosen])
        np.multiply(problem.X[chosen], root[:, None], out=tile[:, :-1])
        tile[:, -1] = root
        linalg.blas.dsyrk(1.0, tile.T, beta=1.0, c=out, lower=1, overwrite_c=1)


def completed(matrix: Array, problem: WithIntercept, scale: float) -> Array:
    """Add the penalty to the matrix; a free intercept gets 1e-12 of the scale, so that the matrix is regular."""
    d = matrix.shape[0] - 1
    matrix[np.arange(d), np.arange(d)] += 1.0
    if not problem.learned:
        matrix[-1, :] = 0.0
        matrix[-1, -1] = 1.0
    else:
        matrix[-1, -1] += 1.0 if problem.augmented else 1e-12 * max(1.0, scale)
    return matrix


def solve_lower(matrix: Array, right: Array) -> Array:
    """matrix⁻¹ right, from the lower half; by least squares where it is not definite."""
    try:
        factor = linalg.cho_factor(matrix, lower=True, check_finite=False)
        return linalg.cho_solve(factor, right, check_finite=False)
    except linalg.LinAlgError:
        whole = np.tril(matrix) + np.tril(matrix, -1).T
        return linalg.lstsq(whole, right, check_finite=False)[0]
