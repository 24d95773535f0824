"""Kernel support vector machines: any kernel, loss, cost, sampling and solver."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import kernels
from ._device.arrays import Home, Rows, is_tensor, to_host
from ._input import checks
from ._input.checks import Interval, StrOptions
from ._input.entry import enter, place_of, stored_like_input
from ._machine import Machine, TaskProblem, Training, same_classes
from ._util.progress import Report
from ._util.threads import Workers, count_threads
from ._util.typing import Array, ClassWeight, Floats, Index, MatrixLike, RandomState, VectorLike
from .density import DensityWeights
from .kernels import Kernel, Linear, Precomputed
from .kernels.checks import check_digits, check_precomputed, is_definite
from .losses import get_loss
from .problem import KernelProblem, Problem, Solution
from .sampling import Sampler
from .solvers import Control, KernelSGD, Solver, get_kernel_solver
from .solvers.kernel_sgd import look
from .solvers.outcome import Outcome, Progress, TaskOutcome, TaskProgress
from .stopping import AUCHalting

__all__ = ["KernelSVM"]


# Support vectors up to which scores are always computed in float64.
_FEW = 256
# The error of scores in float32 on some training rows, in units of the largest, up to which float32 is used.
_ERROR = 7e-5
# Kernels whose scores may be computed in float32.
_SINGLE = kernels.RBF | kernels.Exponential | kernels.Laplacian | kernels.Linear | kernels.Poly


@dataclass(frozen=True)
class KernelTraining(Training):
    """Training with a settled kernel, whether that is positive definite, and where the rows came from."""

    kernel: Kernel = field(kw_only=True)
    definite: bool = True
    home: Home = field(default_factory=Home)


class KernelSVM(Machine[KernelTraining]):
    """A support vector machine with a kernel, for classes of unequal size.

    Minimises 1/2 ‖f‖² + C Σ cost_i · loss(y_i (f(x_i) + b)) over the functions f = Σ β_j K(x_j, ·), where the
    cost of a row is its class weight times its density weight times its sample weight. The exact solvers
    reach the optimum and say how close they are; a sample weight of 2 is the same as the row twice. The
    machine keeps only its support vectors.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the margin: a larger C regularises less.
    alpha : float or None, default=None
        As in `LinearSVM`.
    kernel : {"rbf", "laplacian", "exponential", "linear", "poly", "sigmoid", "precomputed"}, a kernel or a callable, \
            default="rbf"
        A kernel object sets its own parameters: ``RBF(sigma=1.5)``. A callable
        takes two matrices and returns the matrix of kernel values.
    gamma : float, "scale" or "auto", default="scale"
        Not used by "linear" or "precomputed". "scale": 1/(columns · weighted variance of X), "auto": 1/columns.
    degree : int, default=3
        The degree of "poly".
    coef0 : float, default=0.0
        The offset of "poly" and "sigmoid".
    loss : {"hinge", "squared_hinge", "log", "blinex"} or a loss, default="hinge"
    class_weight : None, "balanced", "inverse", dict or callable, default=None
        As in `LinearSVM`.
    density : None, str, int or DensityWeights, default=None
        As in `LinearSVM`.
    solver : {"auto", "smo", "lbfgs", "sgd"} or a solver, default="auto"
        "smo" is exact for the hinge and the squared hinge, "lbfgs" for the smooth losses on up to some ten
        thousand rows; "sgd" takes any loss. "auto" takes an exact one where affordable; `solver_` says which.
    intercept : {"free", "augmented"}, float or None, default="free"
        As in `LinearSVM`. "augmented" adds 1 to the kernel.
    sampling : {"uniform", "balanced"} or a sampler, default="uniform"
        How "sgd" draws rows. It changes its path, not the objective.
    stopping : None, "auc" or AUCHalting, default=None
        Halting on ROC-AUC, for "sgd".
    tol : float, default=1e-3
        "smo" stops, as SVC does, when no pair of rows violates the conditions of the optimum by more than tol
        (in units of the margin), and the duality gap is below tol times the objective. "lbfgs" stops when the
        gap is below tol² times the objective.
    max_iter : int or None, default=None
        Budget in the solver's own unit: steps for "sgd", working sets for "smo".
    cache_size : float, default=200.0
        Megabytes that "smo" may hold of the kernel matrix.
    random_state : int, RandomState or None, default=None
    warm_start : bool, default=False
        Continue from the last fit, if the number of rows and the classes are the same.
    n_jobs : int or None, default=None
        Threads over tiles of the kernel matrix; None or −1 takes all cores, or
        OMP_NUM_THREADS. The answer does not depend on it.
    verbose : int, default=0
        1 shows a progress bar.
    device : None, "cpu", "cuda" or "cuda:0", default=None
        Where kernel values are computed. None: where X is, on the GPU for CUDA tensors. A precomputed
        or a callable kernel is computed on the CPU. GPUs need the extra `torch`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    support_ : ndarray of shape (n_SV,)
        Which rows are support vectors.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
        Without columns for a precomputed kernel.
    dual_coef_ : ndarray of shape (1, n_SV) or (n_classes, n_SV)
        β, above 0 for support vectors of `classes_[1]`, or of the class of the row.
    n_support_ : ndarray of shape (n_classes,)
        Support vectors of each class.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    kernel_ : Kernel
        The kernel, with its parameters as numbers.
    objective_ : float or ndarray of shape (n_classes,)
        NaN after "sgd" on many rows, where it would cost more than the fit.
    dual_gap_ : float or ndarray of shape (n_classes,)
        Certified bound on objective_ − optimum; NaN where there is none: for Blinex, for a kernel that is not
        positive definite (a callable or precomputed one is checked on 300 rows), and where `objective_` is NaN.
    n_iter_ : int
    status_ : Status or list of Status
    solver_ : str
    history_ : list of dict
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    Scores of a machine with more than 256 support vectors are computed in float32 where that changes the
    scores of some training rows by less than 7e-5 of the largest, and in float64 otherwise.

    After a fit to a torch tensor on a GPU the arrays above are tensors there, and
    predictions are, too; `classes_` and text labels are always NumPy arrays. Tensors on
    the CPU are treated as arrays unless scikit-learn's array API dispatch is on. A
    machine that is pickled or saved on a GPU can be loaded where there is none.

    On a GPU "smo" and "sgd" take kernel values in float32 for more than 2 048 rows, whatever the type of X:
    with a relative error of 5e-7, for the RBF kernel times 1 + 2γ‖x‖². "smo" computes its final values again
    in float64, as on the CPU, so its optimum is as good. Scores are in float32 by the rule above.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from evenmargin import KernelSVM
    >>> X, y = make_moons((180, 20), noise=0.2, random_state=0)
    >>> svm = KernelSVM(C=10, class_weight="balanced").fit(X, y)
    >>> svm.solver_, svm.status_.value
    ('smo', 'converged: the duality gap is within tol')
    >>> svm.score(X, y) > 0.9
    True
    """

    support_: Index
    support_vectors_: Any
    dual_coef_: Array
    n_support_: Index
    kernel_: Kernel

    _parameter_constraints: dict[str, list[Any]] = {
        **Machine._parameter_constraints,
        "kernel": [str, callable, Kernel],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "device": [str, None],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        alpha: float | None = None,
        kernel: str | Kernel | Callable[..., Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        loss: str | tuple[Any, ...] = "hinge",
        class_weight: ClassWeight = None,
        density: str | int | DensityWeights | None = None,
        solver: str | Solver = "auto",
        intercept: str | float | None = "free",
        sampling: str | Sampler = "uniform",
        stopping: str | AUCHalting | None = None,
        tol: float = 1e-3,
        max_iter: int | None = None,
        cache_size: float = 200.0,
        random_state: RandomState = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        device: str | None = None,
    ) -> None:
        checks.store_parameters(self, locals())

    @checks.fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike = None) -> KernelSVM:
        """Fit the machine.

        Parameters
        ----------
        X : array-like, CSR matrix or torch tensor of shape (n_samples, n_features)
            With kernel="precomputed", the kernel matrix of shape (n_samples, n_samples).
            On a GPU sparse rows become dense.
        y : array-like of shape (n_samples,)
            Two or more classes, numbers or strings.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        training = self._enter_training(X, y, sample_weight)
        outcome = self._solve(training)
        with stored_like_input(self, training.home):
            self._store(training, outcome)
        self._progress = outcome.progress if self.warm_start else None
        advice = ", or take LinearSVM" if isinstance(training.kernel, Linear) else ""
        self._warn_unless_converged(outcome, self._tolerance(outcome.solver), advice)
        return self

    @property
    def _pairwise(self) -> bool:
        return isinstance(self.kernel, Precomputed) or self.kernel == "precomputed"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._pairwise
        tags.input_tags.sparse = not self._pairwise
        return tags

    # --- hooks of the predictions ---

    def _check_kind(self, X: MatrixLike, method: str) -> None:
        super()._check_kind(X, method)
        checks.check_same_kind(self, X, "dual_coef_", method)

    def _enter(self, X: MatrixLike) -> tuple[Any, Home]:
        plain = isinstance(self.kernel_, Precomputed | kernels.Function)
        X, home = enter(X, place_of(self.device, self.support_vectors_), plain)
        return checks.validate_rows(self, X), home

    def _scores(self, X: MatrixLike) -> Floats:
        scores = _finite(self._kernel_sums(X, to_host(self.dual_coef_).T), X) + to_host(self.intercept_)
        return scores.astype(X.dtype, copy=False)

    def _score_parts(self, X: MatrixLike) -> tuple[Floats, Floats]:
        if self.classes_.size > 2:
            raise ValueError(f"The score can be split for two classes only, not for {self.classes_.size}.")
        beta = to_host(self.dual_coef_)[0]
        X, _ = self._enter(X)
        parts = _finite(self._kernel_sums(X, np.column_stack([np.maximum(beta, 0), np.minimum(beta, 0)])), X)
        return parts[:, 0], parts[:, 1]

    def _kernel_sums(self, X: MatrixLike, V: Array) -> Array:
        """K(X, support vectors) · V."""
        if isinstance(self.kernel_, Precomputed):
            return np.asarray(X[:, to_host(self.support_)] @ V, dtype=np.float64)
        vectors = self.support_vectors_
        if is_tensor(vectors):
            vectors = Rows.put(vectors, X.device) if isinstance(X, Rows) else to_host(vectors)
        dtype = np.float32 if self._single else np.float64
        small = X.shape[0] * V.shape[0] < 1_000_000
        with Workers(1 if small else count_threads(self.n_jobs)) as workers:
            return kernels.kernel_dot(self.kernel_, X, vectors, V, dtype=dtype, shift=self._shift, workers=workers)

    # --- hooks of the fit ---

    def _enter_training(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike) -> KernelTraining:
        kernel = kernels.get_kernel(self.kernel, self.gamma, self.degree, self.coef0)
        X, home = enter(X, self.device, isinstance(kernel, Precomputed | kernels.Function))
        if self.density is not None and self._pairwise:
            raise ValueError("density needs the rows themselves: with kernel='precomputed' give sample_weight.")
        rows = self._enter_rows(X, y, sample_weight)
        kernel = kernel.settled(rows.X, rows.weight)
        check_digits(kernel, rows.X)
        before = self._resumed(kernel, rows.classes, rows.y.size)
        return KernelTraining(
            **{**vars(rows), "before": before}, kernel=kernel, definite=is_definite(kernel, rows.X), home=home
        )

    def _take_rows(self, X: MatrixLike, rows: Index) -> Any:
        if not self._pairwise:
            return super()._take_rows(X, rows)
        check_precomputed(X)
        return X if rows.size == X.shape[0] else np.ascontiguousarray(X[np.ix_(rows, rows)])

    def _resumed(self, kernel: Kernel, classes: NDArray[Any], rows: int) -> Progress | None:
        """Return what a warm start goes on from."""
        before = getattr(self, "_progress", None)
        if before is None or not self.warm_start or not same_classes(self, classes):
            return None
        return before if before.rows == rows and self.kernel_ == kernel else None

    def _workers(self) -> AbstractContextManager[Workers]:
        return Workers(count_threads(self.n_jobs))

    def _adapted(self, problem: Problem, training: KernelTraining, workers: Workers | None) -> KernelProblem:
        return KernelProblem(
            **vars(problem),
            kernel=training.kernel,
            cache_size=float(self.cache_size),
            workers=workers,
            definite=training.definite,
        )

    def _choose_solver(self, problem: Problem) -> Solver:
        stochastic = self.stopping is not None and self.solver == "auto"
        assert isinstance(problem, KernelProblem)
        solver = get_kernel_solver("sgd" if stochastic else self.solver, problem)
        return self._check_stopping(solver, "here 'sgd'")

    def _tolerance(self, solver: Solver) -> float:
        if solver.name != "lbfgs":
            return self.tol
        return max(float(self.tol) ** 2, 1e-12 if hasattr(get_loss(self.loss), "conjugate") else 1e-9)

    def _control(self, task: TaskProblem[KernelTraining], solver: Solver, report: Report | None) -> Control:
        control, training = super()._control(task, solver, report), task.training
        halting = control.halting
        if isinstance(training.kernel, Precomputed) and halting is not None and halting.validation:
            aside, labels = halting.validation
            halting = replace(halting, validation=(aside[:, training.index], labels))
        # A gap takes all of K, however few the steps.
        certify = solver.exact or training.y.size**2 <= look(training.X)
        return replace(control, tol=self._tolerance(solver), halting=halting, certify=certify)

    def _start(self, task: TaskProblem[KernelTraining]) -> dict[str, Any]:
        problem, before = task.problem, task.before
        if before is None:
            return {"intercept": problem.offset}
        assert before.coef is not None
        turn = task.sign * before.sign  # −1 where the other class has become the smaller one
        intercept = turn * before.intercept if problem.learned else problem.offset
        return {"coef": turn * before.coef, "intercept": intercept, "alpha": before.alpha, "steps": before.steps}

    def _outcome_of(self, task: TaskProblem[KernelTraining], solver: Solver, solution: Solution) -> TaskOutcome:
        steps = solution.n_iter
        if task.before is not None and isinstance(solver, KernelSGD):
            steps += task.before.steps
        progress = TaskProgress(
            steps, sign=task.sign, coef=solution.coef, intercept=solution.intercept, alpha=solution.alpha
        )
        return TaskOutcome(solution, task.sign, progress, task.problem.zero_objective)

    def _store(self, training: KernelTraining, outcome: Outcome) -> None:
        kernel, X = training.kernel, training.X
        beta, intercept = self._coefficients(outcome, np.float64, "a smaller C or another kernel")
        chosen = np.flatnonzero(beta.any(axis=0))
        self.kernel_, self.support_ = kernel, training.index[chosen]
        self.dual_coef_, self.intercept_ = beta[:, chosen], intercept
        pairwise = isinstance(kernel, Precomputed)
        self.support_vectors_ = np.empty((chosen.size, 0)) if pairwise else X[chosen]
        self.n_support_ = np.array([np.count_nonzero(training.y[chosen] == label) for label in outcome.classes])
        self._set_precision(X)
        self._record(outcome)

    def _set_precision(self, X: MatrixLike) -> None:
        """Find out by a trial whether scores may be computed in float32, and around which number kernel values lie."""
        self._shift, self._single = 0.0, False
        vectors = self.support_vectors_
        if vectors.shape[0] <= _FEW or not isinstance(self.kernel_, _SINGLE):
            return
        if isinstance(self.kernel_, kernels.RBF):
            if kernels.reach(self.kernel_, vectors, kernels.centre_of(self.kernel_, vectors)) > 1e4:
                return  # float32 has no digits for such distances
            some = vectors[:: vectors.shape[0] // 100]
            near = kernels.kernel_matrix(self.kernel_, some, some, dtype=np.float64).mean() > 0.5
            self._shift = 1.0 if near else 0.0  # K − 1 is exact for K ≥ 1/2
        rows = X[:: max(1, X.shape[0] // 500)]
        exact = self._kernel_sums(rows, self.dual_coef_.T)
        self._single = True
        with np.errstate(over="ignore", invalid="ignore"):
            error = np.abs(self._kernel_sums(rows, self.dual_coef_.T) - exact).max(axis=0)
        # On a device a larger product may be fused, with up to twice the error of this one.
        bound = _ERROR if not isinstance(X, Rows) else 0.5 * _ERROR
        self._single = bool((error <= bound * np.abs(exact + self.intercept_).max(axis=0)).all())  # not where it is NaN


def _finite(sums: Array, X: MatrixLike) -> Array:
    if not np.isfinite(sums).all():
        raise ValueError(f"X has values up to {abs(to_host(X)).max():.1e}, so large that a kernel value is not finite.")
    return sums
