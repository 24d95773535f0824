"""Linear support vector machines: any loss, cost, sampling and solver."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from ._input.checks import (
    Interval,
    StrOptions,
    available_if,
    check_is_fitted,
    drop_weightless,
    fit_context,
    seed_from,
    validate_rows,
    validate_training,
)
from ._input.collections import by_blocks, elsewhere, is_dask
from ._input.entry import enter
from ._machine import Machine, same_classes
from ._util.progress import Report, progress_bars
from ._util.threads import one_blas_thread
from ._util.typing import Array, Floats, MatrixLike, VectorLike
from .density import DensityWeights, density_weights
from .losses import get_loss, slopes
from .problem import Problem, Solution
from .sampling import Given
from .solvers import Control, Pegasos, Solver, get_solver, run
from .solvers.one_vs_rest import binary_task, effective_C, one_vs_rest
from .stopping import AUCHalting

__all__ = ["LinearSVM"]


def _can_stream(estimator: Any) -> bool:
    if not (isinstance(estimator.solver, Pegasos) or estimator.solver in ("auto", "pegasos")):
        raise AttributeError(f"partial_fit needs solver='pegasos' (or 'auto'); {estimator.solver!r} cannot stream.")
    return True


class LinearSVM(Machine):
    """A linear support vector machine for classes of unequal size.

    Minimises 1/2 ‖w‖² + C Σ cost_i · loss(y_i (x_i·w + b)), where the cost of a
    row is its class weight times its sample weight. The exact solvers, which
    are the default on data that fits, reach the same optimum whichever is
    chosen, and a sample weight of 2 is the same as the row twice.

    Parameters
    ----------
    C : float, default=1.0
        Price of the losses against the margin.
    alpha : float or None, default=None
        λ, as in `SGDClassifier`; if given it sets C = 1/(λ·n), n counting
        sample weights.
    loss : {"hinge", "squared_hinge", "log", "blinex"} or a loss, default="hinge"
        scikit-learn's "log_loss" is another name for "log".
        A loss object sets its parameters: ``Blinex(a=1.5, b=0.5)``.
    class_weight : None, "balanced", "inverse", dict or callable, default=None
        "balanced" gives both classes the same total cost; "inverse" is 1 over
        the weight of the class. Both count sample weights. Of several classes,
        each is balanced against the rest.
    density : None, str, int or DensityWeights, default=None
        A further factor of the costs, from the density around each row: a scheme of
        `DensityWeights` by name or number, or such an object.
    solver : {"auto", "newton", "dual_cd", "lbfgs", "pegasos", "nesterov"} or a solver, default="auto"
        "auto" takes an exact solver where that is affordable and says in
        `solver_` which. A solver object sets its options:
        ``Pegasos(project=True)``.
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
        mini-batches for "nesterov", passes for "dual_cd". None: the solver's.
    random_state : int, RandomState or None, default=None
    warm_start : bool, default=False
        Go on from the last fit: Pegasos with its count of steps, the exact
        solvers of the hinge with their multipliers if the rows are as many, the
        others with the coefficients.
    n_jobs : int or None, default=None
        Threads over the one-vs-rest problems of several classes. The answer
        does not depend on it.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    objective_ : float or ndarray of shape (n_classes,)
        Before `coef_` was rounded to float32, where X is. NaN after `partial_fit`.
    dual_gap_ : float or ndarray of shape (n_classes,)
        Certified bound on objective_ − optimum; NaN for Blinex, not convex.
    n_iter_ : int
        Iterations, the most of all classes.
    status_ : Status or list of Status
        Why the fit ended.
    solver_ : str
    history_ : list of dict
        Objective, gap or ROC-AUC at each check; for several classes a list
        of such lists.
    rounds_ : int
        After a fit on dask collections: how often it went over all rows to solve. The
        passes that read, survey and hold the table come on top.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    Tensors are taken to the CPU, and what is found stays there, with NumPy. Predictions
    for a tensor on a GPU are tensors there, but for labels that are text. Tensors on the
    CPU are taken for arrays unless scikit-learn's array API dispatch is on.

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

    classes_: NDArray[Any]
    coef_: Floats
    intercept_: Floats
    n_iter_: int
    solver_: str
    rounds_: int
    _stream: dict[str, Any]
    _trails: list[dict[str, Any]] | None

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

    def __init__(
        self,
        C: float = 1.0,
        *,
        alpha: float | None = None,
        loss: Any = "hinge",
        class_weight: Any = None,
        density: Any = None,
        solver: Any = "auto",
        intercept: Any = "free",
        sampling: Any = "uniform",
        stopping: Any = None,
        tol: float = 1e-6,
        max_iter: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.alpha = alpha
        self.loss = loss
        self.class_weight = class_weight
        self.density = density
        self.solver = solver
        self.intercept = intercept
        self.sampling = sampling
        self.stopping = stopping
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike = None) -> LinearSVM:
        """Fit the machine.

        Parameters
        ----------
        X : array-like, CSR matrix, torch tensor, dask array or dask frame of shape (n_samples, n_features)
            C-contiguous float32 and float64 arrays are used as they are. Of a dask
            collection only sums travel (`evenmargin.distributed`): hinge, squared
            hinge and log by Newton's method, to the same optimum; by L-BFGS, in many
            more rounds, where there are more than 2 000 columns.
        y : array-like of shape (n_samples,)
            Two or more classes, numbers or strings.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        if is_dask(X):
            solver, solutions = elsewhere("fit_linear")(self, X, y, sample_weight)
            self._warn_unless_converged(solver, [(solution, np.inf) for solution in solutions], float(self.tol))
            return self
        X, y, weight, classes = drop_weightless(*validate_training(self, X, y, sample_weight))
        self._warn_if_reversed()
        seed, tasks = seed_from(self.random_state), one_vs_rest(classes)
        density = density_weights(self.density, X, y, weight, seed)
        if density is not None and not density.all():
            kept = density > 0
            X, y, weight, density = X[kept], y[kept], weight[kept], density[kept]
        solver = self._solver(self._problem(X, y, weight, classes, tasks[0], density=density)[0])
        before = self if self.warm_start and same_classes(self, classes) and self.coef_.shape[1] == X.shape[1] else None

        def solve(place: int, which: int, report: Report | None) -> tuple[Solution, float, float, float, Any]:
            problem, sign = self._problem(X, y, weight, classes, which, density=density)
            control = self._control(classes, which, problem, sign, seed, report)
            if before is not None:
                _go_on(control, before, place, problem, sign)
            with one_blas_thread():
                solution = run(problem, solver, control)
            nothing = np.inf if solver.exact else problem.objective(np.zeros(X.shape[1]), problem.offset)
            half = _half(problem, solution, sign) if solver.exact else None
            return solution, sign, nothing, problem.total_price, half

        with progress_bars(bool(self.verbose)) as open_bar:
            results = Parallel(n_jobs=self.n_jobs, require="sharedmem")(
                delayed(solve)(place, which, open_bar(classes[which])) for place, which in enumerate(tasks)
            )
        solutions, signs, nothing, prices, halves = zip(*results, strict=True)
        taken = [solution.n_iter if isinstance(solver, Pegasos) else y.size for solution in solutions]
        if before is not None and isinstance(solver, Pegasos) and before.solver_ == solver.name:
            taken = [more + already for more, already in zip(taken, before._stream["steps"], strict=True)]
        self._store(solver, list(zip(solutions, signs, strict=True)), X.dtype, classes)
        self._half = halves[0] if len(halves) == 1 else None
        C = effective_C(self.C, self.alpha, float(weight.sum()))
        self._stream = {
            "totals": np.array([weight[y == label].sum() for label in classes]),
            "rows": y.size,
            "steps": taken,
            "costs": [price / C for price in prices],
            "seed": seed,
        }
        self._warn_unless_converged(solver, list(zip(solutions, nothing, strict=True)), float(self.tol))
        return self

    @available_if(_can_stream)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: MatrixLike, y: VectorLike, classes: Any = None, sample_weight: VectorLike = None
    ) -> LinearSVM:
        """Take one Pegasos step for each row of a batch, for streams larger than memory.

        After `fit` it goes on from the fitted machine.

        "balanced" and "inverse" class weights use the totals of all batches so
        far. Where C is given and not alpha, the objective is that of all rows so
        far. `sampling`, `stopping` and the options `average` and `change_tol` of
        Pegasos do not apply.

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
        if self.density is not None:
            raise ValueError("density needs all rows at once: use fit, or give the weights as sample_weight.")
        if is_dask(X):
            raise ValueError("partial_fit takes a batch that is in memory: give dask collections to fit.")
        first = not hasattr(self, "_stream")
        X, y, weight, seen = validate_training(self, X, y, sample_weight, reset=first)
        known = self._known_classes(classes)
        unknown = np.setdiff1d(seen, known)
        if unknown.size:
            raise ValueError(f"y has classes {unknown.tolist()} that are not among {known.tolist()}.")
        keep = weight > 0
        if not keep.all():
            X, y, weight = X[keep], y[keep], weight[keep]
        tasks = one_vs_rest(known)
        none = [0] * len(tasks)
        fresh: dict[str, Any] = {"totals": np.zeros(known.size), "rows": 0, "steps": none, "costs": none}
        stream = fresh if first else self._stream
        seed = seed_from(self.random_state) if first else stream["seed"]
        totals = stream["totals"] + [weight[y == label].sum() for label in known]
        rows = stream["rows"] + y.size
        order = np.random.default_rng([seed, rows]).permutation(y.size)
        solver = self.solver if isinstance(self.solver, Pegasos) else Pegasos()
        solver = replace(solver, average=False, change_tol=0.0, best_b=False)
        C, results, costs = effective_C(self.C, self.alpha, float(totals.sum())), [], []
        for place, which in enumerate(tasks):
            problem, sign = self._problem(X, y, weight, known, which, totals)
            costs.append(stream["costs"][place] + problem.total_price / C)
            problem = replace(problem, stream_price=C * costs[place])
            control = Control(sampling=Given(order, population=rows), max_iter=y.size, certify=False)
            if not first:
                _go_on(control, self, place, problem, sign)
                if self.alpha is None:  # C times more rows: what they have pulled so far counts for more
                    grown = rows / stream["rows"]
                    control.coef = grown * control.coef
                    control.intercept *= grown if problem.augmented else 1.0
            results.append((run(problem, solver, control), sign))
        self._store(solver, results, X.dtype if first else self.coef_.dtype, known)
        self._stream = {
            "totals": totals, "rows": rows, "steps": [steps + y.size for steps in stream["steps"]],
            "costs": costs, "seed": seed,
        }  # fmt: skip
        self.n_iter_ = max(self._stream["steps"])
        self._half = None
        return self

    @by_blocks
    def decision_function(self, X: MatrixLike) -> Floats:
        """Signed scores w·x + b, above 0 for `classes_[1]` of two classes.

        Parameters
        ----------
        X : array-like, CSR matrix or torch tensor of shape (n_samples, n_features)

        Returns
        -------
        ndarray or tensor of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        X, home = enter(X, plain=True)
        X = validate_rows(self, X)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.asarray(X @ self.coef_.T) + self.intercept_
        if np.isnan(scores).any():
            raise ValueError(f"X has values up to {abs(X).max():.1e}, so large that a score overflows {X.dtype}.")
        return home.give(scores.ravel() if scores.shape[1] == 1 else scores)

    def _split_decision(self, X: MatrixLike) -> tuple[Floats, Floats, float]:
        """The parts of the score that come from rows of `classes_[1]` and of `classes_[0]`, and the intercept."""
        check_is_fitted(self)
        if self._half is None:
            raise ValueError(
                f"This LinearSVM has no dual to split (two classes and an exact solver have one; this is "
                f"{self.solver_!r} with {self.classes_.size} classes): use method='threshold', or another solver."
            )
        X = validate_rows(self, X)
        up = np.asarray(X @ self._half.astype(X.dtype, copy=False))
        return up, np.asarray(X @ self.coef_[0]) - up, float(self.intercept_[0])

    def _problem(
        self,
        X: MatrixLike,
        y: NDArray[Any],
        weight: Array,
        classes: NDArray[Any],
        which: int,
        totals: Array | None = None,
        density: Array | None = None,
    ) -> tuple[Problem, float]:
        """The problem of one class against the rest, and the sign that turns its scores back."""
        task = binary_task(
            y, weight, classes, which, C=self.C, alpha=self.alpha, class_weight=self.class_weight, dtype=X.dtype,
            totals=totals, density=density,
        )  # fmt: skip
        intercept = self._given_intercept(task.sign)
        return Problem(X, task.labels, task.price, get_loss(self.loss), intercept, task.radius), task.sign

    def _solver(self, problem: Problem) -> Solver:
        stochastic = self.stopping is not None and self.solver == "auto"
        return self._check_stopping(
            get_solver("pegasos" if stochastic else self.solver, problem), "'pegasos' and 'nesterov'"
        )

    def _known_classes(self, classes: Any) -> NDArray[Any]:
        """The classes of a stream, which its first call gives."""
        if hasattr(self, "_stream"):
            if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise ValueError(f"classes={classes} are not those of the calls before, {self.classes_.tolist()}.")
            return self.classes_
        if classes is None:
            raise ValueError("classes must be given in the first call of partial_fit: all classes of the stream.")
        known = np.unique(classes)
        if known.size < 2:
            raise ValueError(f"classes has one class only ({known.tolist()}); a classifier needs at least two.")
        return known

    def _store(self, solver: Solver, results: list[tuple[Solution, float]], dtype: Any, classes: NDArray[Any]) -> None:
        with np.errstate(over="ignore"):
            coef = np.stack([sign * solution.coef for solution, sign in results]).astype(dtype, copy=False)
            intercept = np.array([sign * solution.intercept for solution, sign in results]).astype(dtype, copy=False)
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            raise ValueError(
                f"The coefficients that solver={solver.name!r} found are not finite in {np.dtype(dtype)}: "
                "scale the features, or choose a smaller C, intercept or learning rate."
            )
        solutions = [solution for solution, _ in results]
        self.classes_, self.coef_, self.intercept_ = classes, coef, intercept
        self._record(solver, solutions)
        self._alphas = [solution.alpha for solution in solutions] if self.warm_start else None
        self._trails = None
        if hasattr(self, "rounds_"):
            del self.rounds_


def _go_on(control: Control, before: Any, place: int, problem: Problem, sign: float) -> None:
    """Start from an earlier fit's coefficients, and from its multipliers if the rows are as many."""
    control.coef = sign * before.coef_[place]
    if problem.learned:
        control.intercept = sign * float(before.intercept_[place])
    control.steps = before._stream["steps"][place]
    alphas = getattr(before, "_alphas", None)
    if alphas is not None and alphas[place] is not None and alphas[place].size == problem.shape[0]:
        control.alpha = alphas[place]


def _half(problem: Problem, solution: Solution, sign: float) -> Array:
    """The part of w that comes from rows of the class in question."""
    alpha = solution.alpha
    if alpha is None:  # at an optimum the gradient tells
        margins = problem.y * problem.scores(solution.coef, solution.intercept)
        alpha = -problem.price * slopes(problem.loss, margins, problem.y)
    return sign * problem.combine(np.where(sign * problem.y > 0, alpha * problem.y, 0.0))
