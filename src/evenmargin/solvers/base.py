"""The one loop that every solver runs under.

A solver says where to start, takes steps, measures the gap and fills in the solution. The loop does everything else:
budget, tolerance, halting, progress bar, history and the reason for stopping. Ctrl-C is answered between two steps.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, TypeAlias

import numpy as np

from .._util.typing import Array, Floats, LossLike
from ..problem import Problem, Solution, Status
from ..sampling import Uniform
from ..stopping import AUCHalting
from .duality import certify

# The kind of problem that a solver takes, and the state of its own: each solver names them.
AnyProblem: TypeAlias = Any
AnyState: TypeAlias = Any

# Whether an option has a value that makes sense, and what it must be, in words.
Condition: TypeAlias = tuple[Callable[[Any], bool], str]

# Multiply-adds of one step: some tens of milliseconds.
CHUNK = 30_000_000
DRAWS = 65_536  # indices drawn at a time: few enough to stay in cache


@dataclass
class Control:
    """How to run a solver: its tolerance, budget, randomness, warm start and halting rule."""

    tol: float = 1e-6
    max_iter: int | None = None
    sampling: Any = field(default_factory=Uniform)
    seed: int = 0
    coef: Floats | None = None
    intercept: float = 0.0
    alpha: Array | None = None
    steps: int = 0  # already taken, for solvers whose step size falls with t
    halting: AUCHalting | None = None
    progress: Callable[[int, int, str], None] | None = None
    certify: bool = True  # compute the objective and the gap at the end


@dataclass
class State:
    """What a solver carries from step to step."""

    due: bool = field(default=False, kw_only=True)  # computing the duality gap is worth its cost now
    ending: Status | None = field(default=None, kw_only=True)  # why the solver can do no more


class Solver(ABC):
    """Base of the solvers. Subclasses are frozen dataclasses of their options."""

    name: ClassVar[str]
    unit: ClassVar[str]  # what one iteration is
    exact: ClassVar[bool] = True  # reaches the optimum of a convex problem to tol
    kernel: ClassVar[bool] = False  # solves a KernelProblem
    needs: ClassVar[tuple[str, ...]] = ()  # methods that a loss must have
    _conditions: ClassVar[dict[str, Condition]] = {}  # of the options

    def __post_init__(self) -> None:
        for option, (met, wanted) in self._conditions.items():
            if not met(value := getattr(self, option)):
                raise ValueError(f"{type(self).__name__}: {option}={value!r} must be {wanted}.")

    def default_max_iter(self, problem: AnyProblem) -> int:
        return 100_000

    @abstractmethod
    def init(self, problem: AnyProblem, control: Control) -> AnyState:
        """The state to start from."""

    @abstractmethod
    def step(self, problem: AnyProblem, state: AnyState, limit: int) -> int:
        """Up to `limit` iterations, a fraction of a second's work; returns how many."""

    @abstractmethod
    def coefficients(self, problem: AnyProblem, state: AnyState) -> tuple[Floats, float]:
        """(w, b) now."""

    def gap(self, problem: AnyProblem, state: AnyState) -> tuple[float, float]:
        """(objective, duality gap) at the state."""
        return certify(problem, *self.coefficients(problem, state))

    def certificate(self, problem: AnyProblem, solution: Solution) -> tuple[float, float]:
        """Objective and gap of a solution that `gap` has not measured."""
        return certify(problem, solution.coef, solution.intercept, solution.alpha)

    def refine(self, problem: AnyProblem, w: Floats, b: float) -> float:
        """The intercept to return with the final w."""
        return b

    def finish(self, problem: AnyProblem, state: AnyState, solution: Solution) -> bool:
        """Fill in the solution; True if it differs from the state that `gap` last measured."""
        solution.coef, solution.intercept = self.coefficients(problem, state)
        return False

    def takes(self, loss: LossLike) -> bool:
        return all(hasattr(loss, method) for method in self.needs)


def whole(least: int) -> Condition:
    """The condition of a whole number of at least `least`."""

    def met(value: Any) -> bool:
        return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least

    return met, f"a whole number of at least {least}"


def is_real(value: Any, low: float, high: float = math.inf) -> bool:
    """Whether it is a number with low ≤ value < high."""
    return isinstance(value, Real) and not isinstance(value, bool) and low <= float(value) < high


def run(problem: Problem, solver: Solver, control: Control) -> Solution:
    """Run the solver until the tolerance, halting or the budget says stop."""
    budget = solver.default_max_iter(problem) if control.max_iter is None else control.max_iter
    state = solver.init(problem, control)
    started = time.perf_counter()
    history: list[dict[str, float]] = []
    status, done = Status.BUDGET, 0
    objective, gap, certified_at = np.nan, np.nan, -1
    halting = control.halting.start(problem) if control.halting else None

    while done < budget:
        limit = budget - done if halting is None else min(budget - done, halting.until_check(done))
        done += solver.step(problem, state, limit)
        note = ""
        if state.due:
            objective, gap = solver.gap(problem, state)
            certified_at = done
            note = f"gap {gap / max(abs(objective), 1e-300):.1e}"
            history.append(entry(done, started, objective=objective, gap=gap))
            if gap <= control.tol * abs(objective):
                status = Status.CONVERGED
        if halting is not None and halting.until_check(done) == halting.every:
            stop = halting.check(done, *solver.coefficients(problem, state))
            note = f"ROC-AUC {halting.auc:.4f}"
            history.append(entry(done, started, auc=halting.auc))
            if stop:
                status = Status.HALTED
        if control.progress is not None:
            control.progress(done, budget, note)
        if status is Status.BUDGET and state.ending is not None:
            status = state.ending
        if status is not Status.BUDGET:
            break

    solution = Solution(np.empty(0), 0.0, done, objective, gap, status, history)
    moved = solver.finish(problem, state, solution) or certified_at != done
    if halting is not None and halting.best is not None:
        solution.coef, solution.intercept = halting.best
        solution.intercept = solver.refine(problem, *halting.best)
        moved = True
    if moved and control.certify:
        solution.objective, solution.gap = solver.certificate(problem, solution)
        history.append(entry(solution.n_iter, started, objective=solution.objective, gap=solution.gap))
    solution.status = _judge(solution, control.tol)
    if control.progress is not None:  # what is done is all there was to do
        control.progress(solution.n_iter, solution.n_iter, "")
    return solution


def _judge(solution: Solution, tol: float) -> Status:
    """The reason for stopping, corrected by the final gap."""
    if solution.status in (Status.BUDGET, Status.STALLED) and solution.gap <= tol * abs(solution.objective):
        return Status.CONVERGED
    if solution.status in (Status.CONVERGED, Status.STALLED):  # as good as float64 allows
        good = solution.gap <= max(tol, 1e-9) * abs(solution.objective)
        return Status.CONVERGED if good else Status.STALLED
    return solution.status


def entry(done: int, started: float, **figures: float) -> dict[str, float]:
    return {"n_iter": done, "seconds": time.perf_counter() - started, **figures}
