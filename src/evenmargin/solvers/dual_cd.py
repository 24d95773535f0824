"""Dual coordinate descent for the hinge and the squared hinge.

Given prices p it solves the dual

    min over 0 ≤ α ≤ upper:  1/2 ‖Σ α_i y_i x_i‖² + 1/2 Σ ridge_i α_i² − Σ α_i,

upper = p and ridge = 0 for the hinge, upper = ∞ and ridge = 1/(2p) for the squared hinge, one coordinate at a time in
random order, leaving out rows that stay at a bound (Hsieh, Chang, Lin, Keerthi and Sundararajan 2008).

A free intercept adds the constraint Σ α_i y_i = 0, which single coordinates cannot keep. It is met by the method of
multipliers: b is the multiplier, the squared violation is penalised by a constant column of value s, and b moves by
s²·Σ α_i y_i whenever that violation outweighs the rest. At the end Σ α_i y_i = 0 and b is the unpenalised intercept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._util.typing import Array
from ..problem import Problem, Solution, Status
from .base import CHUNK, Control, Solver, State
from .duality import certify, settled_intercept

_PATIENCE = 2_000  # passes after which the gap is looked at in any case, and rounding in w undone


@dataclass
class DualCDState(State):
    dual: Any  # of `_core.cd_loops`
    w: Array
    b: float  # fixed offset, or the multiplier of a free intercept
    s: float  # value of the constant column
    constant: Array  # (1,): s Σ α y
    active: NDArray[np.int64]
    seed: NDArray[np.uint64]
    n_active: int = 0
    most: float = np.inf
    least: float = -np.inf
    threshold: float = 0.1  # violation at which the gap is looked at next
    measured: float = np.inf  # violation of the last pass
    passes: int = 0  # since the gap was last looked at

    @property
    def violation(self) -> float:
        return self.most - self.least

    @property
    def intercept(self) -> float:
        return self.b + self.s * float(self.constant[0])


@dataclass(frozen=True)
class DualCD(Solver):
    """Dual coordinate descent; see the module."""

    name = "dual_cd"
    unit = "pass over the rows"
    needs = ("dual_box", "conjugate")

    def init(self, problem: Problem, control: Control) -> DualCDState:
        n, d = problem.shape
        bound, ridge = problem.loss.dual_box()
        curvature = np.empty(n)
        loops = _core.cd_loops
        loops.squared_norms(problem.rows, curvature)
        s = 1.0 if problem.augmented else 0.0
        if problem.free:  # as heavy as a typical row; with tiny prices enough to move b by 1
            s = math.sqrt(max(float(curvature.mean()), 1.0 / float(problem.price.sum())))
        ridges = ridge / problem.price
        curvature += s * s + ridges
        upper = bound * problem.price
        alpha, w = np.zeros(n), np.zeros(d)
        if control.alpha is not None:
            alpha = np.clip(control.alpha, 0.0, upper)
            w = problem.combine(alpha * problem.y)
        return DualCDState(
            dual=loops.Dual(problem.y, curvature, upper, ridges, alpha),
            w=w,
            b=control.intercept if problem.free and control.alpha is not None else problem.offset,
            s=s,
            constant=np.array([s * float(alpha @ problem.y)]),
            active=np.arange(n),
            seed=np.array([0x9E3779B97F4A7C15 ^ control.seed], dtype=np.uint64),
            n_active=n,
        )

    def step(self, problem: Problem, state: DualCDState, limit: int) -> int:
        work, done = 0.0, 0
        per_row = problem.size / problem.shape[0] + 10.0
        state.due = False
        while done < limit and work < CHUNK and not state.due:
            work += state.n_active * per_row
            self.epoch(problem, state)
            done += 1
        return done

    def epoch(self, problem: Problem, state: DualCDState) -> None:
        """One pass over the active rows."""
        above = state.most if state.most > 0 else np.inf
        below = state.least if state.least < 0 else -np.inf
        ends = np.empty(2)
        loops = _core.cd_loops
        scope = loops.Scope(state.active, state.n_active, above, below, state.seed)
        state.n_active = loops.epoch(problem.rows, state.dual, state.w, state.constant, state.s, state.b, scope, ends)
        n = problem.shape[0]
        everything = state.n_active == n
        state.passes += 1
        state.most, state.least = (float(ends[0]), float(ends[1])) if np.isfinite(ends).all() else (0.0, 0.0)
        unbalanced = 0.0
        if problem.free:
            unbalanced = abs(state.s * float(state.constant[0]))
            if state.violation <= 10.0 * unbalanced:
                state.b += state.s * float(state.constant[0])
        state.measured = max(state.violation, unbalanced)
        state.due = state.passes >= _PATIENCE
        if state.measured <= state.threshold:
            if everything:
                state.due = True
                state.threshold *= 0.2
            else:  # bring every row back before believing it
                state.n_active, state.most, state.least = n, np.inf, -np.inf

    def gap(self, problem: Problem, state: DualCDState) -> tuple[float, float]:
        # Rounding has drifted w from Σ α y x a little: start again from it.
        alpha = state.dual.alpha
        state.w = problem.combine(alpha * problem.y)
        state.constant[0] = state.s * float(alpha @ problem.y)
        state.ending = Status.STALLED if state.threshold < 1e-13 else None
        state.passes = 0
        return certify(problem, state.w, state.intercept, alpha)

    def coefficients(self, problem: Problem, state: DualCDState) -> tuple[Array, float]:
        return state.w, state.intercept

    def finish(self, problem: Problem, state: DualCDState, solution: Solution) -> bool:
        solution.coef, solution.alpha = state.w, state.dual.alpha
        solution.intercept = state.intercept
        if np.isfinite(state.dual.upper).all():
            solution.intercept = settled_intercept(problem, state.w, state.intercept, state.dual.alpha)
        return solution.intercept != state.intercept
