"""`LinearSVM.fit` on dask collections.

One pass surveys the table, its sample is solved in memory, and from there the drivers of `solvers/rounds.py`, one for
each class against the rest, ask together: a graph a round, message → sums over each partition → their sum. Which worker
does what changes nothing, and a worker that dies is dask's to replace: what it held is computed again from the source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._input.checks import require_labels, seed_from
from .._util.progress import progress_bars
from .._util.threads import one_blas_thread
from .._util.typing import Array, MatrixLike, VectorLike
from ..losses import Hinge, Log, SquaredHinge, get_loss
from ..problem import Problem, Status, intercept_for
from ..solvers import Control, Lbfgs, Newton, Solver, run
from ..solvers.one_vs_rest import binary_task, effective_C, one_vs_rest
from ..solvers.outcome import Outcome, Progress, Resumption, TaskOutcome, TaskProgress
from ..solvers.rounds import WIDE, Course, Request, Sums, Terms, Trail, begin, drive, look
from ..weights import is_minority
from ._engine import ClusterLost, Engine, reduced
from ._moments import added
from ._partitions import Block, Partitions, partitions
from ._survey import FirstPass, Survey, stacked

_SAMPLE_BYTES = 2 << 20  # of the rows of each class that the start is computed from
_SAMPLE_ROWS = 4_000  # of each class, at most
_MAX_ITER = {"newton": 500, "lbfgs": 10_000}  # steps, as these solvers have it in memory
_ROWS_PER_COLUMN = 10  # of a sample; with fewer its hinge fits it too well, and zero is the better start
_NEAR = 1.25  # how much prices may differ for multipliers to be a good start


@dataclass(frozen=True)
class Costs:
    """What a partition must know of the whole table to price its rows."""

    classes: NDArray[Any]
    totals: Array
    options: dict[str, Any]
    loss: Any
    intercepts: tuple[Any, ...]  # of each class against the rest

    def problem(self, X: MatrixLike, codes: NDArray[Any], weight: Array, place: int) -> Problem:
        """One class against the rest on some rows."""
        if not codes.size:
            return Problem(X, np.empty(0), np.empty(0), self.loss, self.intercepts[place])
        every = np.arange(self.classes.size)
        task = binary_task(
            codes, weight, every, one_vs_rest(every)[place], dtype=X.dtype, totals=self.totals, **self.options
        )
        return Problem(X, task.labels, task.price, self.loss, self.intercepts[place])


def answer(block: Block, costs: Costs, requests: Sequence[Request | None]) -> list[Sums | None]:
    """The sums of one partition; a request is None where its driver has ended."""
    if block.fault:  # it had none when it was surveyed
        raise ValueError(f"Partition {block.number}: {block.fault}.")
    weights = block.weights
    codes = np.searchsorted(costs.classes, block.labels)[block.codes] if block.codes.size else block.codes
    with one_blas_thread():
        return [
            None if request is None else look(costs.problem(block.X, codes, weights, place), request)
            for place, request in enumerate(requests)
        ]


def add(answers: list[list[Sums | None]]) -> list[Sums | None]:
    return [None if sums[0] is None else added(sums) for sums in zip(*answers, strict=True)]


@dataclass(frozen=True)
class LinearFit:
    """What a fit has found: an outcome as of a fit in memory, the columns (names, number), and the rounds it took.

    `interrupted` is what ended the rounds too early, where the outcome is only what they had reached.
    """

    outcome: Outcome
    columns: tuple[list[Any] | None, int]
    rounds: int
    interrupted: BaseException | None = None


def fit_linear(
    machine: BaseEstimator,
    X: MatrixLike,
    y: VectorLike,
    sample_weight: VectorLike,
    resumed: Callable[[NDArray[Any], int], Progress | None],
) -> LinearFit:
    """Fit with the parameters of a `LinearSVM`.

    `resumed` gives what to go on from, for the classes and the number of columns, beside the machine's coefficients.
    """
    loss = _check(machine, y)
    table = partitions(X, y, sample_weight)
    if not table.blocks:
        raise ValueError("X has no partitions.")
    with Engine() as engine:
        seed = seed_from(machine.random_state)
        most = int(np.clip(_SAMPLE_BYTES // (8 * max(1, table.width)), 10, _SAMPLE_ROWS))  # rows of each class
        blocks, found = FirstPass(seed, most).settle(engine, table)
        table = replace(table, blocks=blocks)
        fit = _Rounds(machine, engine, table, found.check_classes(), loss, seed)
        fit.before = resumed(fit.costs.classes, table.width)
        try:
            fit.go()
        except (ClusterLost, KeyboardInterrupt) as error:
            return fit.interrupted(error)
        return fit.result()


def _check(machine: BaseEstimator, y: VectorLike) -> Any:
    """Refuse what cannot be done on dask collections, and return the loss."""
    loss = get_loss(machine.loss)
    if not isinstance(loss, Hinge | SquaredHinge | Log):
        raise ValueError(f"On dask collections the loss must be 'hinge', 'squared_hinge' or 'log', not {loss!r}.")
    if not (isinstance(machine.solver, Newton) or machine.solver in ("auto", "newton")):
        raise ValueError(f"On dask collections the solver must be 'auto' or 'newton', not {machine.solver!r}.")
    if machine.stopping is not None:
        raise ValueError("stopping is for the stochastic solvers: on dask collections use None.")
    if machine.density is not None:
        raise ValueError(
            "density needs all rows at once: on dask collections give the weights of DensityWeights as sample_weight."
        )
    require_labels(machine, y)
    return loss


class _Rounds:
    """The drivers of one fit, what they are sent, and what they have reached."""

    before: Progress | None = None

    def __init__(
        self, machine: BaseEstimator, engine: Engine, table: Partitions, survey: Survey, loss: Any, seed: int
    ) -> None:
        self.machine, self.engine, self.table, self.survey, self.seed = machine, engine, table, survey, seed
        self.solver: Solver = Newton() if table.width <= WIDE else Lbfgs()
        classes = survey.classes
        totals = np.array([survey.totals[label] for label in classes.tolist()])
        self.tasks = one_vs_rest(classes)
        self.signs = [1.0 if is_minority(totals[k], totals.sum() - totals[k]) else -1.0 for k in self.tasks]
        intercepts = tuple(intercept_for(machine.intercept, sign) for sign in self.signs)
        rule = machine.class_weight
        if isinstance(rule, dict):  # rows carry codes
            rule = _by_code(rule, classes)
        options = {"C": machine.C, "alpha": machine.alpha, "class_weight": rule}
        self.costs = Costs(classes, totals, options, loss, intercepts)
        # The prices of the classes as a whole: they are what they will be, so a wrong class_weight shows now.
        every = np.arange(totals.size)
        self.prices = [
            self.costs.problem(np.empty((totals.size, 0)), every, totals, place).price
            for place in range(len(self.tasks))
        ]
        limit = machine.max_iter or _MAX_ITER[self.solver.name]
        self.terms = [Terms(loss, table.width + 1, each, float(machine.tol), limit) for each in intercepts]
        self.courses: list[Course] = []
        self.endings = [Status.BUDGET] * len(self.tasks)

    def _begin(self, place: int) -> Course:
        machine, terms = self.machine, self.terms[place]
        if self.before is None:
            return begin(terms, self._start(place))
        task = self.before.tasks[place]
        kept, now = task.resumption, self.prices[place]
        if kept is not None and np.all((now <= _NEAR * kept.prices) & (kept.prices <= _NEAR * now)):
            turn = self.signs[place] * task.sign  # another class may be the smaller one now
            return begin(terms, before=(turn * kept.point, Trail(turn * kept.points, kept.kappas), kept.kappa))
        return begin(terms, self.signs[place] * np.append(machine.coef_[place], machine.intercept_[place]))

    def _start(self, place: int) -> Array | None:
        """Fit the sample, at prices that make up for the rows that are not in it."""
        if self.table.width > WIDE:  # few rows fit in it, and L-BFGS has been no quicker from there
            return None
        samples = [self.survey.sample[label] for label in self.costs.classes.tolist()]
        count = sum(sample.weight.size for sample in samples)
        if self.terms[place].hinge and count < _ROWS_PER_COLUMN * self.table.width:
            return None
        X = stacked([sample.X for sample in samples])
        weight = np.concatenate(
            [s.weight * (total / s.weight.sum()) for s, total in zip(samples, self.costs.totals, strict=True)]
        )
        codes = np.repeat(np.arange(len(samples)), [sample.weight.size for sample in samples])
        problem = self.costs.problem(X, codes, weight, place)
        with one_blas_thread():
            solved = run(problem, Newton(), Control(tol=1e-3, max_iter=60, intercept=problem.offset))
        return np.append(solved.coef, solved.intercept).astype(np.float64)

    def go(self) -> None:
        """Rounds until every driver has ended."""
        self.courses = [self._begin(place) for place in range(len(self.tasks))]
        drivers = [drive(terms, course) for terms, course in zip(self.terms, self.courses, strict=True)]
        requests: list[Request | None] = [next(driver) for driver in drivers]
        with progress_bars(bool(self.machine.verbose)) as open_bar:
            reports = [open_bar(self.costs.classes[k]) for k in self.tasks]
            while any(request is not None for request in requests):
                answers = self.table.blocks.map(answer, self.costs, tuple(requests))
                seen = self.engine.compute(reduced(answers, add))
                for place, driver in enumerate(drivers):
                    if requests[place] is None:
                        continue
                    try:
                        with one_blas_thread():  # beside busy workers several threads take far longer
                            requests[place] = driver.send(seen[place])
                    except StopIteration as end:
                        requests[place], self.endings[place] = None, end.value
                    course, report = self.courses[place], reports[place]
                    if report is not None:
                        total = course.steps if requests[place] is None else self.terms[place].max_iter
                        report(course.steps, total, f"gap {course.relative_gap:.1e}")

    def result(self) -> LinearFit:
        total = float(self.costs.totals.sum())
        C, rows = effective_C(self.machine.C, self.machine.alpha, total), self.survey.rows
        tasks = []
        for course, status, sign, prices in zip(self.courses, self.endings, self.signs, self.prices, strict=True):
            trail = course.trail
            resumption = Resumption(course.point, trail.points, trail.kappas, course.kappa, prices)
            end = TaskProgress(rows, float(prices.sum()) / C, sign, resumption=resumption)
            part = sign * course.pulls[0 if sign > 0 else 1, :-1] if len(self.courses) == 1 else None
            tasks.append(TaskOutcome(course.solution(status), sign, end, positive_part=part))
        costs = self.costs
        outcome = Outcome(self.solver, tuple(tasks), costs.classes, self.survey.dtype, costs.totals, rows, self.seed)
        return LinearFit(outcome, self.table.columns, max(course.rounds for course in self.courses))

    def interrupted(self, error: BaseException) -> LinearFit:
        """What was reached when something ended the rounds too early; raised again where that is nothing."""
        reached = bool(self.courses) and all(course.best_sums is not None for course in self.courses)
        if isinstance(error, ClusterLost):
            rounds = max((course.rounds for course in self.courses), default=0)
            then = "The machine keeps what was reached; with warm_start=True the next fit continues from there."
            lost = ClusterLost(
                f"The cluster was lost in round {rounds}. {error} {then if reached else 'Nothing was reached.'}"
            )
            lost.__cause__ = error
            error = lost
        if not reached:
            raise error
        return replace(self.result(), interrupted=error)


def _by_code(rule: dict[Any, Any], classes: NDArray[Any]) -> dict[int, Any]:
    known = classes.tolist()
    unknown = [label for label in rule if label not in known]
    if unknown:
        raise ValueError(f"class_weight names {unknown}, but the classes are {known}.")
    return {known.index(label): weight for label, weight in rule.items()}
