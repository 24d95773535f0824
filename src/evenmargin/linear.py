"""Linear support vector machines: any loss, cost, sampling and solver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._input import checks
from ._input.collections import is_dask
from ._machine import Machine, TaskProblem, Training, same_classes
from ._util.progress import Report
from ._util.threads import Workers
from ._util.typing import ClassWeight, Floats, MatrixLike, RandomState, VectorLike
from .density import DensityWeights
from .problem import Problem, Solution
from .sampling import Given, Sampler
from .solvers import Control, Pegasos, Solver, get_solver
from .solvers.one_vs_rest import effective_C
from .solvers.outcome import Outcome, Progress, TaskOutcome, TaskProgress, positive_part
from .stopping import AUCHalting

__all__ = ["LinearSVM"]


def _can_stream(estimator: LinearSVM) -> bool:
    if not (isinstance(estimator.solver, Pegasos) or estimator.solver in ("auto", "pegasos")):
        raise AttributeError(f"partial_fit needs solver='pegasos' (or 'auto'); {estimator.solver!r} cannot stream.")
    return True


class LinearSVM(Machine[Training]):
    """A linear support vector machine for classes of unequal size.

    Minimises 1/2 ‖w‖² + C Σ cost_i · loss(y_i (x_i·w + b)), where the cost of a row is its class weight times
    its sample weight. The exact solvers, which are the default where affordable, reach the same optimum
    whichever is chosen, and a sample weight of 2 is the same as the row twice.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the margin: a larger C regularises less.
    alpha : float or None, default=None
        λ, as in `SGDClassifier`; if given it sets C = 1/(λ·n), n counting sample weights.
    loss : {"hinge", "squared_hinge", "log", "blinex"} or a loss, default="hinge"
        "log_loss" is another name for "log". A loss object sets its parameters: ``Blinex(a=1.5, b=0.5)``.
    class_weight : None, "balanced", "inverse", dict or callable, default=None
        "balanced" gives both classes the same total cost; "inverse" is 1 over the weight of the class. Both
        count sample weights. Of several classes, each is balanced against the rest.
    density : None, str, int or DensityWeights, default=None
        A further factor of the costs, from the density around each row: a scheme of
        `DensityWeights` by name or number, or such an object.
    solver : {"auto", "newton", "dual_cd", "lbfgs", "pegasos", "nesterov"} or a solver, default="auto"
        "auto" takes an exact solver where that is affordable and says in `solver_` which. A solver object
        sets its options: ``Pegasos(project=True)``.
    intercept : {"free", "augmented"}, float or None, default="free"
        "free": learned and not penalised, as in SVC. "augmented": the weight of
        a constant column, penalised, as in LinearSVC. A number: fixed. None: 0.
    sampling : {"uniform", "balanced"} or a sampler, default="uniform"
        How the stochastic solvers draw rows. It changes their path, not the
        objective. "balanced" draws each class with probability 1/2.
    stopping : None, "auc" or AUCHalting, default=None
        Halting on ROC-AUC, for the stochastic solvers; "auto" then takes Pegasos.
    tol : float, default=1e-6
        The exact solvers stop when the duality gap is below tol times the
        objective. The stochastic ones have a budget of steps.
    max_iter : int or None, default=None
        Budget in the solver's own unit: steps for "pegasos" (not epochs),
        mini-batches for "nesterov", passes for "dual_cd". None: the solver's own.
    random_state : int, RandomState or None, default=None
    warm_start : bool, default=False
        Continue from the last fit: Pegasos with its count of steps, the exact solvers of the hinge with
        their multipliers if there are as many rows, the others with the coefficients.
    n_jobs : int or None, default=None
        Threads over the one-vs-rest problems of several classes. The answer does not depend on it.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    objective_ : float or ndarray of shape (n_classes,)
        Computed before `coef_` is rounded to float32, if X is. NaN after `partial_fit`.
    dual_gap_ : float or ndarray of shape (n_classes,)
        Certified bound on objective_ − optimum; NaN for Blinex, which is not convex.
    n_iter_ : int
        Iterations, the largest number over all classes.
    status_ : Status or list of Status
        Why the fit ended.
    positive_coef_ : ndarray of shape (n_features,) or None
        The part of `coef_` that comes from rows of `classes_[1]`: only for two classes, after an exact solver.
    solver_ : str
    history_ : list of dict
        Objective, gap or ROC-AUC at each check; for several classes a list of such lists.
    rounds_ : int
        After a fit on dask collections: the passes over all rows to solve, besides those that read the table.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    Tensors are copied to the CPU, and fitted attributes are NumPy arrays. Predictions
    for a tensor on a GPU are tensors there, except for text labels. Tensors on the CPU
    are treated as arrays unless scikit-learn's array API dispatch is on.

    See Also
    --------
    evenmargin.papers : The machines of the papers, composed from this class.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from evenmargin import LinearSVM
    >>> X, y = make_classification(weights=[0.9], random_state=0)
    >>> svm = LinearSVM(class_weight="balanced").fit(X, y)
    >>> svm.solver_, svm.status_.value
    ('newton', 'converged: the duality gap is within tol')
    >>> svm.predict(X[:3])
    array([0, 0, 0])
    """

    coef_: Floats
    positive_coef_: Floats | None
    rounds_: int
    _progress: Progress

    def __init__(
        self,
        C: float = 1.0,
        *,
        alpha: float | None = None,
        loss: str | tuple[Any, ...] = "hinge",
        class_weight: ClassWeight = None,
        density: str | int | DensityWeights | None = None,
        solver: str | Solver = "auto",
        intercept: str | float | None = "free",
        sampling: str | Sampler = "uniform",
        stopping: str | AUCHalting | None = None,
        tol: float = 1e-6,
        max_iter: int | None = None,
        random_state: RandomState = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        checks.store_parameters(self, locals())

    @checks.fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike = None) -> LinearSVM:
        """Fit the machine.

        Parameters
        ----------
        X : array-like, CSR matrix, torch tensor, dask array or dask frame of shape (n_samples, n_features)
            C-contiguous float32 and float64 arrays are used as they are. For a dask collection only sums
            are sent (`evenmargin.distributed`): hinge, squared hinge and log by Newton's method, to the
            same optimum; above 2 000 columns by L-BFGS, in many more rounds.
        y : array-like of shape (n_samples,)
            Two or more classes, numbers or strings.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        if is_dask(X):
            outcome = self._fit_collection(X, y, sample_weight)
        else:
            training = self._enter_rows(X, y, sample_weight)
            before = self._resumed(training.classes, training.X.shape[1])
            outcome = self._solve(replace(training, before=before))
            self._store(outcome)
        self._warn_unless_converged(outcome, float(self.tol))
        return self

    @checks.available_if(_can_stream)
    @checks.fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: MatrixLike, y: VectorLike, classes: VectorLike = None, sample_weight: VectorLike = None
    ) -> LinearSVM:
        """Take one Pegasos step for each row of a batch, for streams larger than memory.

        After `fit` it continues from the fitted machine.

        "balanced" and "inverse" class weights use the totals of all batches so far. With C rather than
        alpha, the objective is that of all rows so far. `sampling`, `stopping` and the options `average` and
        `change_tol` of Pegasos do not apply.

        Parameters
        ----------
        X : array-like, CSR matrix or torch tensor of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes of the stream; needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        batch = self._enter_batch(X, y, classes, sample_weight)
        outcome = self._solve(batch)
        self._store(outcome if batch.before is None else replace(outcome, dtype=self.coef_.dtype))
        self.n_iter_ = max(task.steps for task in self._progress.tasks)
        return self

    # --- hooks of the predictions ---

    def _scores(self, X: MatrixLike) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.asarray(X @ self.coef_.T) + self.intercept_
        if np.isnan(scores).any():
            raise ValueError(f"X has values up to {abs(X).max():.1e}, so large that a score overflows: scale X first.")
        return scores

    def _score_parts(self, X: MatrixLike) -> tuple[Floats, Floats]:
        if self.positive_coef_ is None:
            raise ValueError(
                f"This LinearSVM has no dual to split, which takes two classes and an exact solver (it used "
                f"{self.solver_!r} on {self.classes_.size} classes): use method='threshold', or another solver."
            )
        X, _ = self._enter(X)
        positive = np.asarray(X @ self.positive_coef_.astype(X.dtype, copy=False))
        return positive, np.asarray(X @ self.coef_[0]) - positive

    # --- hooks of the fit ---

    def _enter_batch(self, X: MatrixLike, y: VectorLike, classes: VectorLike, sample_weight: VectorLike) -> Training:
        """Check the next batch of a stream, which may lack a class."""
        if self.density is not None:
            raise ValueError("density needs all rows at once: use fit, or give the weights as sample_weight.")
        if is_dask(X):
            raise ValueError("partial_fit takes a batch that is in memory: for dask collections use fit.")
        before = getattr(self, "_progress", None)
        X, y, weight, seen = checks.validate_training(self, X, y, sample_weight, reset=before is None)
        known = self._known_classes(classes)
        unknown = np.setdiff1d(seen, known)
        if unknown.size:
            raise ValueError(f"y has classes {unknown.tolist()} that are not among {known.tolist()}.")
        index = np.flatnonzero(weight > 0)
        X, y, weight = self._take_rows(X, index), y[index], weight[index]
        totals, rows = np.array([weight[y == label].sum() for label in known]), y.size
        seed = checks.seed_from(self.random_state) if before is None else before.seed
        if before is not None:
            totals, rows = before.totals + totals, before.rows + rows
        return Training(X, y, weight, known, seed, index, before=before, totals=totals, rows=rows)

    def _task_problem(self, training: Training, place: int, workers: Workers | None) -> TaskProblem[Training]:
        task = super()._task_problem(training, place, workers)
        if training.totals is None:
            return task
        C = effective_C(self.C, self.alpha, training.total_weight)  # the price of all rows so far
        return replace(task, problem=replace(task.problem, stream_price=C * self._cost(task)))

    def _cost(self, task: TaskProblem[Training]) -> float:
        """The sum of the costs of all rows so far."""
        cost = float(task.problem.price.sum()) / effective_C(self.C, self.alpha, task.training.total_weight)
        if task.training.totals is not None and task.before is not None:
            cost += task.before.cost
        return cost

    def _choose_solver(self, problem: Problem) -> Solver:
        if problem.stream_price is not None:
            pegasos = self.solver if isinstance(self.solver, Pegasos) else Pegasos()
            return replace(pegasos, average=False, change_tol=0.0, best_b=False)
        stochastic = self.stopping is not None and self.solver == "auto"
        solver = get_solver("pegasos" if stochastic else self.solver, problem)
        return self._check_stopping(solver, "'pegasos' and 'nesterov'")

    def _control(self, task: TaskProblem[Training], solver: Solver, report: Report | None) -> Control:
        training = task.training
        if training.totals is None:
            return super()._control(task, solver, report)
        # A batch: every row once, in an order of its own.
        order = np.random.default_rng([training.seed, training.rows]).permutation(training.y.size)
        return Control(
            sampling=Given(order, population=training.rows),
            max_iter=training.y.size,
            certify=False,
            **self._start(task),
        )

    def _start(self, task: TaskProblem[Training]) -> dict[str, Any]:
        training, problem, before = task.training, task.problem, task.before
        if training.before is None or before is None:
            return {"intercept": problem.offset}
        coef = task.sign * self.coef_[task.place]
        intercept = task.sign * float(self.intercept_[task.place]) if problem.learned else problem.offset
        if training.totals is not None and self.alpha is None:
            # C times more rows: what the rows before have pulled so far counts for more.
            grown = training.rows / training.before.rows
            coef, intercept = grown * coef, intercept * (grown if problem.augmented else 1.0)
        alpha = before.alpha if before.alpha is not None and before.alpha.size == problem.shape[0] else None
        return {"coef": coef, "intercept": intercept, "alpha": alpha, "steps": before.steps}

    def _outcome_of(self, task: TaskProblem[Training], solver: Solver, solution: Solution) -> TaskOutcome:
        training, streaming = task.training, task.training.totals is not None
        steps = solution.n_iter if isinstance(solver, Pegasos) else training.y.size
        if task.before is not None and isinstance(solver, Pegasos) and (streaming or self.solver_ == solver.name):
            steps += task.before.steps
        alpha = solution.alpha if self.warm_start else None
        progress = TaskProgress(steps, self._cost(task), task.sign, alpha=alpha)
        if solver.exact:
            part = positive_part(task.problem, solution, task.sign) if training.classes.size == 2 else None
            return TaskOutcome(solution, task.sign, progress, positive_part=part)
        return TaskOutcome(solution, task.sign, progress, np.inf if streaming else task.problem.zero_objective)

    def _resumed(self, classes: NDArray[Any], width: int) -> Progress | None:
        """Return what a warm start goes on from."""
        if self.warm_start and same_classes(self, classes) and self.coef_.shape[1] == width:
            return self._progress
        return None

    def _fit_collection(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike) -> Outcome:
        """Fit to a dask collection."""
        from .distributed import fit_linear

        found = fit_linear(self, X, y, sample_weight, self._resumed)
        checks.remember_columns(self, *found.columns)
        self._store(found.outcome)
        self.rounds_ = found.rounds
        if found.interrupted is not None:  # by the cluster or the user; what was reached is kept
            raise found.interrupted
        return found.outcome

    def _known_classes(self, classes: VectorLike) -> NDArray[Any]:
        """The classes of a stream, as given in its first call."""
        if hasattr(self, "_progress"):
            if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise ValueError(f"classes={classes} differ from those of earlier calls, {self.classes_.tolist()}.")
            return self.classes_
        if classes is None:
            raise ValueError("classes must be given in the first call of partial_fit: all classes of the stream.")
        known = np.unique(classes)
        if known.size < 2:
            raise ValueError(f"classes has one class only ({known.tolist()}); a classifier needs at least two.")
        return known

    def _store(self, outcome: Outcome) -> None:
        tasks, advice = outcome.tasks, "a smaller C, intercept or learning rate"
        self.coef_, self.intercept_ = self._coefficients(outcome, outcome.dtype, advice)
        self.positive_coef_ = tasks[0].positive_part if len(tasks) == 1 else None
        self._record(outcome)
        self._progress = outcome.progress
        self.__dict__.pop("rounds_", None)
