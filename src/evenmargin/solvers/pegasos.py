"""Stochastic gradient descent with step 1/(λt): Pegasos, LSGD, WLSGD.

Objective: λ/2 ‖w‖² + mean of cost · loss, which is the problem's divided by C·n. At step t = 1, 2, …, with w_1 = 0:

    draw row i;  w ← (1 − 1/t) w − (1/t) · (price_i / frequency_i) · slope · y_i x_i

then, with `project`, scale w back to ‖w‖ ≤ 1/√λ. Shalev-Shwartz, Singer, Srebro and Cotter 2011 for the hinge; Lu and
Zhou ("Log-loss SVM Classification for Imbalanced Data", eqs. 6 and 8) for the log loss with class-size weights; Sun for
class-balanced sampling and a fixed bias.

An augmented intercept is one more coordinate. A free one, which the step size of the weights would throw about, moves
by 1/√t and is set to its best value for the final w.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._util.typing import Array, Floats, Index
from ..problem import Problem, Solution, Status
from .base import CHUNK, DRAWS, AnyProblem, AnyState, Control, Solver, State, is_real
from .duality import best_intercept


@dataclass
class StepsState(State):
    t: int
    rule: Any  # of `_core.sgd_loops`, as the tally
    tally: Array
    pull: Array  # y · price / frequency
    take: Callable[[int], Index]


@dataclass
class PegasosState(StepsState):
    iterate: Any
    first: int  # steps taken before this fit


class StepsOverT(Solver):
    """Base of the stochastic solvers with step 1/(λt)."""

    project: bool
    best_b: bool

    unit = "step"
    exact = False
    needs = ("slope",)

    def _start(self, problem: AnyProblem, control: Control, change_tol: float = 0.0) -> dict[str, Any]:
        """The fields of `StepsState`."""
        loops = _core.sgd_loops
        tally = np.zeros(loops.TALLY)
        tally[loops.SCALE], tally[loops.BIAS] = 1.0, problem.offset
        if control.coef is not None and control.steps:
            tally[loops.BIAS] = control.intercept * (control.steps if problem.augmented else 1.0)
        bias = loops.AUGMENTED if problem.augmented else loops.FREE if problem.free else loops.FIXED
        frequency = control.sampling.frequency(problem.y)
        return {
            "t": control.steps,
            "rule": loops.Rule(bias, 1.0 / problem.total_price, self._radius(problem), change_tol),
            "tally": tally,
            "pull": problem.y * (problem.price / frequency),
            "take": control.sampling.stream(problem.y, np.random.default_rng([control.seed, control.steps])),
        }

    def _radius(self, problem: AnyProblem) -> float:
        """The radius of the ball to scale back to: the paper's, or that of a ball that holds the optimum."""
        box = getattr(problem.loss, "dual_box", None)
        if box is not None and math.isinf(box()[0]):  # a slope without bound: unprojected, first steps blow up
            return max(problem.radius, math.sqrt(2.0 * problem.zero_objective))
        return problem.radius if self.project else np.inf

    def finish(self, problem: AnyProblem, state: AnyState, solution: Solution) -> bool:
        w, b = self.coefficients(problem, state)
        solution.coef, solution.intercept = w, self.refine(problem, w, b)
        return True

    def refine(self, problem: AnyProblem, w: Floats, b: float) -> float:
        """A free intercept at its best value for the final w."""
        if not (self.best_b and problem.free and hasattr(problem.loss, "conjugate")):
            return b
        return self._best_intercept(problem, w)

    def _best_intercept(self, problem: AnyProblem, w: Floats) -> float:
        return best_intercept(problem, problem.scores(w.astype(np.float64, copy=False), 0.0))


@dataclass(frozen=True)
class Pegasos(StepsOverT):
    """Pegasos; see the module.

    Parameters
    ----------
    project : bool, default=False
        Scale w back to ‖w‖ ≤ 1/√λ after each step.
    average : bool, default=False
        Return the mean of the iterates instead of the last one. With this step
        size the last one is the better of the two.
    change_tol : float, default=0.0
        Stop when a step changes w by less than this in the 1-norm; 0 never does.
    best_b : bool, default=True
        Set a free intercept to its best value for the final w.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from evenmargin import LinearSVM
    >>> from evenmargin.solvers import Pegasos
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> svm = LinearSVM(alpha=1e-3, solver=Pegasos(project=True), max_iter=5000, random_state=0)
    >>> svm.fit(X / X.max(axis=0), y).n_iter_
    5000
    """

    project: bool = False
    average: bool = False
    change_tol: float = 0.0
    best_b: bool = True

    name = "pegasos"
    _conditions = {"change_tol": (lambda value: is_real(value, 0.0), "a finite number of at least 0")}

    def default_max_iter(self, problem: Problem) -> int:
        return max(100_000, 10 * problem.shape[0])

    def init(self, problem: Problem, control: Control) -> PegasosState:
        d, dtype = problem.shape[1], problem.X.dtype
        v = np.zeros(d, dtype)
        if control.coef is not None and control.steps:
            v = (control.steps * control.coef).astype(dtype)
        lagged = np.zeros(d if self.average else 0, dtype)
        before = v / max(control.steps, 1) if self.change_tol > 0 else np.zeros(0, dtype)
        start = self._start(problem, control, float(self.change_tol))
        iterate = _core.sgd_loops.Iterate(v, lagged, before, start["tally"])
        state = PegasosState(**start, iterate=iterate, first=control.steps)
        _measure(problem, state)
        return state

    def step(self, problem: Problem, state: PegasosState, limit: int) -> int:
        per_step = problem.size / problem.shape[0] + 10.0 + state.iterate.before.size
        order = state.take(max(1, min(limit, DRAWS, int(CHUNK / per_step))))
        rows = problem.rows, state.pull, problem.loss
        done = _core.sgd_loops.steps(*rows, order, state.t, state.iterate, state.rule)
        state.t += done
        if done < order.size:
            state.ending = Status.SETTLED
        _measure(problem, state)
        return int(done)

    def coefficients(self, problem: Problem, state: PegasosState) -> tuple[Floats, float]:
        loops, t, (v, lagged, _, tally) = _core.sgd_loops, max(state.t, 1), state.iterate
        if not self.average:
            b = tally[loops.BIAS] / (t if problem.augmented else 1.0)
            return v / v.dtype.type(t), float(b)
        count = max(state.t - state.first, 1)
        w = (tally[loops.HARMONIC] * v - lagged) / count
        b = tally[loops.BIAS]
        if problem.augmented:
            b = (tally[loops.HARMONIC] * b - tally[loops.BIAS_SUM]) / count
        elif problem.free:
            b = tally[loops.BIAS_SUM] / count
        return w.astype(v.dtype), float(b)


def _measure(problem: Problem, state: PegasosState) -> None:
    """Compute ‖v‖² again, so that it does not drift over many updates."""
    if state.rule.radius < np.inf:
        loops, wide = _core.sgd_loops, state.iterate.v.astype(np.float64)
        extra = state.tally[loops.BIAS] ** 2 if problem.augmented else 0.0
        state.tally[loops.NORM2] = float(wide @ wide) + extra
