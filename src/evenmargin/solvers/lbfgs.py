"""L-BFGS for the smooth losses: log, squared hinge, Blinex.

Minimises F(w, b) = 1/2 ‖w‖² + Σ price_i · loss(y_i (x_i·w + b)) with scipy's L-BFGS-B, in variables scaled by the
square root of F's diagonal curvature, so that columns of very different size do not slow it down. One pass over X gives
value and gradient. Blinex is not convex: a stationary point is found from w = 0, and no gap is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from scipy.sparse import issparse

from .. import _core
from .._util.typing import Array
from ..problem import Problem, Solution, Status
from .base import Control, Solver, State, whole
from .newton import polish, start_at, worth_polishing


@dataclass
class LbfgsState(State):
    u: Array  # the variables: scale · (w, b)
    scale: Array
    tol: float


@dataclass(frozen=True)
class Lbfgs(Solver):
    """L-BFGS; see the module.

    Parameters
    ----------
    memory : int, default=20
        Pairs of steps and gradients that are kept.
    """

    memory: int = 20

    name = "lbfgs"
    unit = "L-BFGS step"
    needs = ("curvature",)
    _conditions = {"memory": whole(1)}

    def default_max_iter(self, problem: Problem) -> int:
        return 10_000

    def init(self, problem: Problem, control: Control) -> LbfgsState:
        scale = np.sqrt(self._diagonal(problem))
        start = np.zeros(scale.size)
        if control.coef is not None:
            start[: problem.shape[1]] = control.coef
            start[problem.shape[1] :] = control.intercept
        return LbfgsState(u=start * scale, scale=scale, tol=control.tol)

    def step(self, problem: Problem, state: LbfgsState, limit: int) -> int:
        """Take up to 100 iterations, fewer when the gradient is small enough."""
        total, most = float(problem.price.sum()), min(limit, 100)

        @lru_cache(maxsize=4)  # scipy's callback is not given the gradient
        def at(u: bytes) -> tuple[float, Array]:
            return self._value_and_gradient(problem, np.frombuffer(u) / state.scale)

        def function(u: Array) -> tuple[float, Array]:
            value, gradient = at(u.tobytes())
            return value / total, gradient / state.scale / total

        def small(u: Array) -> bool:
            return self._small(problem, state, *at(u.tobytes()), u / state.scale)

        def watch(intermediate_result: OptimizeResult) -> None:
            if small(intermediate_result.x):
                raise StopIteration

        result = minimize(
            function, state.u, jac=True, method="L-BFGS-B", callback=watch,
            options={"maxiter": most, "maxcor": self.memory, "ftol": 0.0, "gtol": 0.0, "maxls": 50},
        )  # fmt: skip
        state.u, state.due = result.x, True
        done = small(result.x)
        if done:
            state.tol *= 0.01  # should the gap not be reached yet
            state.ending = None if hasattr(problem.loss, "conjugate") else Status.STATIONARY
        else:
            state.ending = Status.STALLED if result.nit < most else None
        return max(1, int(result.nit))

    def coefficients(self, problem: Problem, state: LbfgsState) -> tuple[Array, float]:
        return self._split(problem, state.u / state.scale)

    def finish(self, problem: Problem, state: LbfgsState, solution: Solution) -> bool:
        """Fill in the solution; where it costs little, add Newton steps for digits that L-BFGS cannot reach."""
        w, b = solution.coef, solution.intercept = self.coefficients(problem, state)
        if not worth_polishing(problem, solution) or problem.shape[1] > 1_000:
            return False
        newton = start_at(problem, w, b, np.zeros(problem.shape[0]), kappa=0.0, tol=0.0)
        moved = polish(problem, newton, solution)
        w, b = solution.coef, solution.intercept = newton.w, newton.b
        if solution.status is Status.STALLED and not hasattr(problem.loss, "conjugate"):
            point = np.append(w, b) if problem.learned else w
            value, gradient = self._value_and_gradient(problem, point)
            if self._small(problem, state, value, gradient, point):  # there is no gap to show it
                solution.status = Status.STATIONARY
        return moved

    def _split(self, problem: Problem, x: Array) -> tuple[Array, float]:
        d = problem.shape[1]
        return x[:d], float(x[d]) if x.size > d else problem.offset

    def _value_and_gradient(self, problem: Problem, x: Array) -> tuple[float, Array]:
        w, b = self._split(problem, x)
        gradient = np.zeros_like(x)
        gradient[: w.size] = w
        pieces = problem.rows, problem.y, problem.price, problem.loss
        total, by_b = _core.loss_loops.value_and_gradient(*pieces, w, b, gradient[: w.size])
        if x.size > w.size:
            gradient[-1] = by_b + (b if problem.augmented else 0.0)
        return problem.penalty(w, b) + total, gradient

    def _small(self, problem: Problem, state: LbfgsState, value: float, gradient: Array, x: Array) -> bool:
        """Whether the gap that the gradient implies is small: 1/2 ‖∂F/∂w‖² + (1 + |b|) |∂F/∂b|."""
        d = problem.shape[1]
        residual = 0.5 * float(gradient[:d] @ gradient[:d])
        if problem.learned:
            residual += abs(float(gradient[d])) * (1.0 + abs(float(x[d])))
        return residual <= 0.1 * state.tol * abs(value)

    def _diagonal(self, problem: Problem) -> Array:
        """1 + Σ price_i x_ij²: the curvature of F by each coefficient, up to a factor."""
        X, price, learned = problem.X, problem.price, problem.learned
        diagonal = np.ones(problem.shape[1] + learned)
        if issparse(X):
            diagonal[: X.shape[1]] += X.multiply(X).T @ price
        else:
            for start in range(0, X.shape[0], 256):
                tile = X[start : start + 256].astype(np.float64)
                diagonal[: X.shape[1]] += price[start : start + 256] @ np.square(tile, out=tile)
        if learned:
            diagonal[-1] += price.sum()
        return diagonal
