"""The result of a fit, and what the next fit goes on from.

A fit solves one task for each class against the rest, in memory or over the partitions of a dask collection. Either way
it ends with an `Outcome`, of which the machine keeps the coefficients, and `Progress` for warm starts and streams.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._util.typing import Array, Floats
from ..losses import slopes
from ..problem import Problem, Solution
from .base import Solver

__all__ = ["Outcome", "Progress", "Resumption", "TaskOutcome", "TaskProgress", "positive_part"]


@dataclass(frozen=True)
class Resumption:
    """Where the rounds over a dask collection ended: all that the next ones need to go on exactly (`rounds.py`)."""

    point: Array  # (n_features + 1,)
    points: Array  # where multipliers were updated, and with which κ
    kappas: Array
    kappa: float
    prices: Array  # of the classes as wholes; at quite other prices the multipliers mislead


@dataclass(frozen=True)
class TaskProgress:
    """Where one task ended; coefficients and multipliers are kept for warm starts only."""

    steps: int = 0  # taken so far, for solvers whose step size falls with their number
    cost: float = 0.0  # the sum of the costs of all rows so far, that is of their prices divided by C
    sign: float = 1.0  # turns the coefficients into those of the class in question
    coef: Floats | None = None  # as the solver had them, where the machine does not hold them as attributes
    intercept: float = 0.0
    alpha: Array | None = None  # multipliers of the rows
    resumption: Resumption | None = None  # of a fit to a dask collection


@dataclass(frozen=True)
class Progress:
    """What a warm start, or the next batch of a stream, goes on from."""

    totals: Array  # the weight of each class
    rows: int
    seed: int
    tasks: tuple[TaskProgress, ...]


@dataclass(frozen=True)
class TaskOutcome:
    """The solution of one class against the rest."""

    solution: Solution
    sign: float  # turns it into the scores of the class in question
    progress: TaskProgress
    zero_objective: float = np.inf  # of coefficients of zero, where the solver may end above it
    positive_part: Array | None = None  # of the coefficients: what comes from rows of the class in question

    @property
    def coef(self) -> Floats:
        return self.sign * self.solution.coef

    @property
    def intercept(self) -> float:
        return self.sign * self.solution.intercept


@dataclass(frozen=True)
class Outcome:
    """The result of a fit, from which a machine sets its attributes."""

    solver: Solver
    tasks: tuple[TaskOutcome, ...]
    classes: NDArray[np.generic]
    dtype: DTypeLike
    totals: Array  # the weight of each class, in all batches of a stream
    rows: int
    seed: int

    @property
    def progress(self) -> Progress:
        return Progress(self.totals, self.rows, self.seed, tuple(task.progress for task in self.tasks))


def positive_part(problem: Problem, solution: Solution, sign: float) -> Array:
    """The part of w that comes from rows of the class in question."""
    alpha = solution.alpha
    if alpha is None:  # at an optimum the gradient says what they are
        margins = problem.y * problem.scores(solution.coef, solution.intercept)
        alpha = -problem.price * slopes(problem.loss, margins, problem.y)
    return sign * problem.combine(np.where(sign * problem.y > 0, alpha * problem.y, 0.0))
