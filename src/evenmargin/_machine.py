"""The one fit that `LinearSVM` and `KernelSVM` share, and their predictions from scores.

A fit enters its rows (`Training`), makes a problem of each class against the rest, runs the solver on it, stores the
outcome, and warns where the solver has not converged:

    fit, partial_fit    the rows enter (`_enter_rows`); then `_solve`, `_store` and `_warn_unless_converged`
    _solve              for each task: prices and problem (`TaskProblem`) → control → run → outcome
    hooks               `_adapted`, `_choose_solver`, `_control`, `_start`, `_outcome_of`, `_store`

A fit to a dask collection hands over the same `Outcome` from `evenmargin.distributed`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import wraps
from numbers import Integral, Real
from typing import Any, Generic, TypeVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import DTypeLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score

from ._device.arrays import Home, to_host
from ._input import checks
from ._input.checks import ConvergenceWarning, Interval, StrOptions
from ._input.collections import is_dask, refuse_dask
from ._input.entry import Portable, enter, kind_of
from ._util.progress import Report, progress_bars
from ._util.threads import Workers, one_blas_thread
from ._util.typing import Array, Floats, Index, MatrixLike, VectorLike
from .density import DensityWeights, density_weights
from .losses import Blinex, Log, get_loss
from .problem import Problem, Solution, Status, intercept_for
from .sampling import get_sampler
from .solvers import Control, Solver, run
from .solvers.one_vs_rest import binary_task, one_vs_rest
from .solvers.outcome import Outcome, Progress, TaskOutcome, TaskProgress
from .stopping import AUCHalting

_Method = TypeVar("_Method", bound=Callable[..., Any])


def by_blocks(method: _Method) -> _Method:
    """Make a method of rows take dask collections too: block by block, as a lazy array."""

    @wraps(method)
    def wrapped(self: BaseEstimator, X: MatrixLike) -> Any:
        if not is_dask(X):
            return method(self, X)
        from .distributed import over_blocks

        return over_blocks(self, method.__name__, X)

    return wrapped  # type: ignore[return-value]  # of the same signature


class Classifier(ClassifierMixin):
    """scikit-learn's mixin, with a score that takes tensors and dask collections."""

    def score(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike = None) -> float:
        """The share of rows that are classified correctly, by weight.

        Parameters
        ----------
        X : array-like, CSR matrix or torch tensor of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        if is_dask(X):
            from .distributed import score_blocks

            return score_blocks(self, X, y, sample_weight)
        refuse_dask(y, "y")
        refuse_dask(sample_weight, "sample_weight")
        predicted = to_host(self.predict(X))
        return float(accuracy_score(to_host(y), predicted, sample_weight=to_host(sample_weight)))


@dataclass(frozen=True)
class Training:
    """The rows of a fit once they have entered, without those of weight 0: what all of its tasks share.

    `index` says which of the rows that were given these are, `density` is a further factor of their prices, and
    `before` is what to go on from. A batch of a stream has the `totals`, the weight of each class in all batches so
    far, and how many `rows` these have.
    """

    X: Any
    y: NDArray[Any]
    weight: Array
    classes: NDArray[Any]
    seed: int
    index: Index
    density: Array | None = None
    before: Progress | None = None
    totals: Array | None = None
    rows: int = 0

    @property
    def total_weight(self) -> float:
        return float((self.weight if self.totals is None else self.totals).sum())


AnyTraining = TypeVar("AnyTraining", bound=Training)


@dataclass(frozen=True)
class TaskProblem(Generic[AnyTraining]):
    """One class against the rest: its place among the tasks, its problem, and the sign that turns its scores back."""

    training: AnyTraining
    place: int
    problem: Problem
    sign: float

    @property
    def which(self) -> int:
        """The number of the class."""
        return one_vs_rest(self.training.classes)[self.place]

    @property
    def before(self) -> TaskProgress | None:
        """What the task goes on from."""
        return None if self.training.before is None else self.training.before.tasks[self.place]


def _has_probabilities(estimator: BaseEstimator) -> bool:
    if not isinstance(get_loss(estimator.loss), Log):
        raise AttributeError("predict_proba needs loss='log'; other losses have no probabilities of their own.")
    return True


class Machine(Classifier, Portable, Generic[AnyTraining]):
    """Base of `LinearSVM` and `KernelSVM`: the fit around the solver, and predictions from scores."""

    classes_: NDArray[Any]
    intercept_: Floats
    n_iter_: int
    solver_: str

    _parameter_constraints: dict[str, list[Any]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="neither"), None],
        "loss": [str, tuple],
        "class_weight": [str, dict, callable, None],
        "density": [str, Integral, DensityWeights, None],
        "solver": [str, Solver],
        "intercept": [StrOptions({"free", "augmented"}), Interval(Real, None, None, closed="neither"), None],
        "sampling": [str, object],
        "stopping": [StrOptions({"auc"}), AUCHalting, None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    # --- the fit ---

    def _enter_rows(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike) -> Training:
        """Check the rows, and leave out those of weight 0 or density 0."""
        X, y, weight, classes = checks.validate_training(self, X, y, sample_weight)
        self._warn_if_reversed()
        index, y, weight, classes = checks.drop_weightless(np.arange(y.size), y, weight, classes)
        X = self._take_rows(X, index)
        seed = checks.seed_from(self.random_state)
        density = density_weights(self.density, X, y, weight, seed)
        if density is not None:
            kept = np.flatnonzero(density)
            X, index, y = self._take_rows(X, kept), index[kept], y[kept]
            weight, density = weight[kept], density[kept]
        return Training(X, y, weight, classes, seed, index, density)

    def _take_rows(self, X: MatrixLike, rows: Index) -> Any:
        return X if rows.size == X.shape[0] else X[rows]

    def _solve(self, training: AnyTraining) -> Outcome:
        """Solve the problem of every class against the rest."""
        tasks = one_vs_rest(training.classes)
        with self._workers() as workers, progress_bars(bool(self.verbose)) as open_bar:
            solver = self._choose_solver(self._task_problem(training, 0, workers).problem)

            def solve(place: int, report: Report | None) -> TaskOutcome:
                task = self._task_problem(training, place, workers)
                control = self._control(task, solver, report)
                with one_blas_thread():
                    return self._outcome_of(task, solver, run(task.problem, solver, control))

            outcomes = Parallel(n_jobs=self.n_jobs if workers is None else 1, require="sharedmem")(
                delayed(solve)(place, open_bar(training.classes[which])) for place, which in enumerate(tasks)
            )
        totals = training.totals
        if totals is None:
            totals = np.array([training.weight[training.y == label].sum() for label in training.classes])
        rows = training.rows or training.y.size
        return Outcome(solver, tuple(outcomes), training.classes, training.X.dtype, totals, rows, training.seed)

    def _workers(self) -> AbstractContextManager[Workers | None]:
        """The threads over tiles within a task; without them `n_jobs` is for threads over tasks."""
        return nullcontext()

    def _task_problem(self, training: AnyTraining, place: int, workers: Workers | None) -> TaskProblem[AnyTraining]:
        task = binary_task(
            training.y, training.weight, training.classes, one_vs_rest(training.classes)[place],
            C=self.C, alpha=self.alpha, class_weight=self.class_weight, dtype=training.X.dtype,
            totals=training.totals, density=training.density,
        )  # fmt: skip
        intercept = intercept_for(self.intercept, task.sign)
        plain = Problem(training.X, task.labels, task.price, get_loss(self.loss), intercept, task.radius)
        return TaskProblem(training, place, self._adapted(plain, training, workers), task.sign)

    def _adapted(self, problem: Problem, training: AnyTraining, workers: Workers | None) -> Problem:
        """Add to the problem what else the solvers of this machine must know."""
        return problem

    def _choose_solver(self, problem: Problem) -> Solver:
        raise NotImplementedError

    def _control(self, task: TaskProblem[AnyTraining], solver: Solver, report: Report | None) -> Control:
        return Control(
            tol=self.tol,
            max_iter=self.max_iter,
            sampling=get_sampler(self.sampling),
            seed=task.training.seed + task.which,
            halting=self._halting(task.training.classes, task.which, task.sign, task.problem.X),
            progress=report,
            **self._start(task),
        )

    def _start(self, task: TaskProblem[AnyTraining]) -> dict[str, Any]:
        """Return where the solver starts: `coef`, `intercept`, `alpha` and `steps` of `Control`."""
        raise NotImplementedError

    def _outcome_of(self, task: TaskProblem[AnyTraining], solver: Solver, solution: Solution) -> TaskOutcome:
        raise NotImplementedError

    def _halting(self, classes: NDArray[Any], which: int, sign: float, like: MatrixLike) -> AUCHalting | None:
        rule = AUCHalting() if self.stopping == "auc" else self.stopping
        if rule is None or rule.validation is None:
            return rule
        X, y = checks.validate_aside(self, rule.validation, classes, like)
        labels = np.where(y == classes[which], sign, -sign)
        if np.unique(labels).size < 2:
            raise ValueError("stopping: the rows set aside for ROC-AUC must include both classes.")
        return replace(rule, validation=(X, labels))

    def _check_stopping(self, solver: Solver, stochastic: str) -> Solver:
        if self.stopping is not None and solver.exact:
            raise ValueError(f"stopping is for the stochastic solvers, {stochastic}; with {solver.name!r} use None.")
        return solver

    def _coefficients(self, outcome: Outcome, dtype: DTypeLike, advice: str) -> tuple[NDArray[Any], Floats]:
        """The coefficients and the intercepts of all tasks, a row for each; they must be finite."""
        with np.errstate(over="ignore"):
            coef = np.stack([task.coef for task in outcome.tasks]).astype(dtype, copy=False)
            intercept = np.array([task.intercept for task in outcome.tasks]).astype(dtype, copy=False)
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            raise ValueError(
                f"The coefficients that solver={outcome.solver.name!r} found are not finite in {np.dtype(dtype)}: "
                f"scale the features, or choose {advice}."
            )
        return coef, intercept

    def _record(self, outcome: Outcome) -> None:
        """Store how the solver ended."""
        self.classes_ = outcome.classes
        solutions = [task.solution for task in outcome.tasks]
        self.solver_ = outcome.solver.name
        self.n_iter_ = max(solution.n_iter for solution in solutions)
        self.status_ = _one_or_all([solution.status for solution in solutions])
        self.history_ = _one_or_all([solution.history for solution in solutions])
        self.objective_ = _one_or_all(np.array([solution.objective for solution in solutions]))
        self.dual_gap_ = _one_or_all(np.array([solution.gap for solution in solutions]))

    def _warn_if_reversed(self) -> None:
        loss = get_loss(self.loss)
        if not isinstance(loss, Blinex):
            return
        reach = loss.b * (np.exp(min(abs(loss.a), 700.0)) - abs(loss.a) - 1.0)
        if reach > 1.2:
            warnings.warn(
                f"{loss!r} is flat where a rare row is wrong (b·(e^|a| − |a| − 1) is {reach:.2g}), and may therefore "
                "favour the other class: choose a smaller a or b.",
                UserWarning,
                stacklevel=5,
            )

    def _warn_unless_converged(self, outcome: Outcome, tol: float, advice: str = "") -> None:
        """Warn once, for the worst of the tasks, and say what to do about it."""
        solver, message = outcome.solver, ""
        if solver.exact:
            solutions = [task.solution for task in outcome.tasks]
            unfinished = [s for s in solutions if s.status in (Status.BUDGET, Status.STALLED)]
            if unfinished:
                worst = max(unfinished, key=lambda s: s.relative_gap)
                where = "before its gradient was within tol"
                if not np.isnan(worst.gap):
                    where = f"at a relative duality gap of {worst.relative_gap:.1e}, above {tol:g}"
                message = (
                    f"{solver.name} stopped after {worst.n_iter} iterations ({solver.unit}) {where} "
                    f"({worst.status.value}): raise max_iter, scale the features, or choose a smaller C{advice}."
                )
        elif self.max_iter is None and self.stopping is None:  # whoever sets the steps may well want few
            lost = [
                (task.solution.objective, task.zero_objective)
                for task in outcome.tasks
                if task.solution.objective > task.zero_objective or np.isinf(task.solution.objective)
            ]
            if lost:
                message = (
                    f"{solver.name} ended at an objective of {lost[0][0]:.1e}, worse than coefficients of zero "
                    f"({lost[0][1]:.1e}): scale the features, choose a smaller C, or raise max_iter."
                )
        if message:
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    # --- predictions ---

    @by_blocks
    def decision_function(self, X: MatrixLike) -> Floats:
        """Signed scores, above 0 for `classes_[1]` of two classes.

        Parameters
        ----------
        X : array-like, CSR matrix or torch tensor of shape (n_samples, n_features)
            For a `KernelSVM` with kernel="precomputed", kernel values of shape (n_samples, n_samples_fit).

        Returns
        -------
        ndarray or tensor of shape (n_samples,) or (n_samples, n_classes)
        """
        self._check_kind(X, "decision_function")
        X, home = self._enter(X)
        scores = self._scores(X)
        return home.give(scores.ravel() if scores.shape[1] == 1 else scores)

    def split_decision(self, X: MatrixLike) -> tuple[Floats, Floats, float]:
        """The parts of the scores that come from rows of `classes_[1]` and of `classes_[0]`, and the intercept.

        Their sum is `decision_function`; z-SVM multiplies the part of the rare class.

        Parameters
        ----------
        X : array-like, CSR matrix or torch tensor of shape (n_samples, n_features)

        Returns
        -------
        positive, negative : ndarray of shape (n_samples,)
        intercept : float
        """
        checks.check_is_fitted(self)
        positive, negative = self._score_parts(X)
        return positive, negative, float(self.intercept_[0])

    def _scores(self, X: MatrixLike) -> Floats:
        """The scores of rows that have entered, with a column for each class against the rest."""
        raise NotImplementedError

    def _score_parts(self, X: MatrixLike) -> tuple[Floats, Floats]:
        """The scores of two classes without the intercept, as the parts of `split_decision`."""
        raise NotImplementedError

    def _enter(self, X: MatrixLike) -> tuple[Any, Home]:
        """Rows to predict, where that is done, and the kind of array that they were."""
        X, home = enter(X, plain=True)
        return checks.validate_rows(self, X), home

    @by_blocks
    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """The class of each row; a score of exactly 0 is `classes_[0]`.

        Parameters
        ----------
        X : array-like, CSR matrix or torch tensor of shape (n_samples, n_features)

        Returns
        -------
        ndarray or tensor of shape (n_samples,)
            Labels that are text stay with NumPy.
        """
        self._check_kind(X, "predict")
        scores = to_host(self.decision_function(X))
        chosen = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return kind_of(X).give(np.asarray(self.classes_[chosen]))

    @checks.available_if(_has_probabilities)
    @by_blocks
    def predict_proba(self, X: MatrixLike) -> Floats:
        """Probabilities of the log loss, under the class weights it was fitted with.

        Parameters
        ----------
        X : array-like, CSR matrix or torch tensor of shape (n_samples, n_features)

        Returns
        -------
        ndarray or tensor of shape (n_samples, n_classes)
        """
        from scipy.special import expit

        self._check_kind(X, "predict_proba")
        scores, give = to_host(self.decision_function(X)), kind_of(X).give
        if scores.ndim == 1:
            return give(np.column_stack([expit(-scores), expit(scores)]))
        each = expit(scores)
        total = each.sum(axis=1, keepdims=True)
        return give(np.asarray(np.where(total > 0, each / np.where(total > 0, total, 1), 1 / each.shape[1])))

    @checks.available_if(_has_probabilities)
    @by_blocks
    def predict_log_proba(self, X: MatrixLike) -> Floats:
        """Logarithms of `predict_proba`, with the same parameters and shape."""
        self._check_kind(X, "predict_log_proba")
        with np.errstate(divide="ignore"):
            return kind_of(X).give(np.log(to_host(self.predict_proba(X))))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Where a file holds JSON, as that of skops does, an enum of strings has become a string.
        if "status_" in state:
            state = {**state, "status_": _as_status(state["status_"])}
        super().__setstate__(state)

    def _check_kind(self, X: MatrixLike, method: str) -> None:
        """Refuse rows that are not of the kind of the fit, where a machine follows scikit-learn's rule on it."""
        checks.check_is_fitted(self)


def _as_status(known: Any) -> Any:
    if isinstance(known, list):
        return [_as_status(one) for one in known]
    return Status(known) if known in list(Status) else known


def _one_or_all(values: Any) -> Any:
    return values[0] if len(values) == 1 else values


def same_classes(fitted: BaseEstimator, classes: NDArray[Any]) -> bool:
    return hasattr(fitted, "classes_") and np.array_equal(classes, fitted.classes_)
