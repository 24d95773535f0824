"""What the trials of a search have in common, done once.

Candidates that differ only in C (or alpha), and in how z or a threshold is chosen,
make up a recipe. A recipe on a fold is a job: one path over its prices
(`_paths.py`), which gives the scores of all rows for all its candidates. Jobs with
the same rows and the same kernel share a kernel matrix; those of a pipeline have
rows of their own, as its transformers are fitted once for each fold and setting.

Only machines whose fit is known here take part: `KernelSVM` with the hinge or
its square, by its exact solver, alone, at the end of a pipeline, or inside a
`ZAdjustedClassifier` that chooses on its training rows. Whatever is out of the
ordinary in a job (an error, a path that does not converge) sends its candidates
to a plain fit, so that warnings and errors are those of the estimator itself.

Where the machine runs on a device, rows are put there once, and kernel matrices
are computed there. Those of small folds come to the host and are used as ever;
those of large ones stay (`_paths.Square`), one at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import isfinite
from numbers import Real
from threading import Lock, Semaphore
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from .._device import arrays, products
from .._input.checks import (
    drop_weightless,
    seed_from,
    validate_parameters,
    validate_rows,
    validate_training,
    weight_name,
)
from .._input.entry import enter
from .._util.threads import Workers
from .._util.typing import Array, Index, MatrixLike
from ..density import DensityWeights, density_weights
from ..density.schemes import normalized, scheme_name, scheme_weights
from ..density.weights import fit_in_memory
from ..kernel import KernelSVM
from ..kernels import RBF, Laplacian, Linear, Poly, centre_of, get_kernel, kernel_matrix, prepared, reach
from ..losses import Hinge, SquaredHinge, get_loss
from ..problem import intercept_for
from ..solvers import SMO, SMO_UP_TO
from ..solvers.gram import SMALL
from ..solvers.one_vs_rest import Task, binary_task, effective_C, one_vs_rest
from ..solvers.price_paths import Square, solve_paths
from ..weights import minority_is_positive, prices_are_usable
from ..zsvm import ZAdjustedClassifier, adjusted_scores, best_choice, check_choices
from .scoring import quick_scores
from .trials import Sheet, Trials

__all__ = ["share"]

Cell = tuple[int, int]

# Parameters of ZAdjustedClassifier that leave its machine as it is.
_ADJUSTMENTS = ("method", "metric", "search", "place", "z_max")
# Error of a float32 kernel value from which float64 is used, as in the solver.
_COARSE = 1e-4
# What rounding of kernel values may do to a score, at most.
_NOISE = 0.05
# The share of a device's free memory that a kernel matrix may take there.
_SHARE = 0.6


class NotShared(Exception):
    """This job is one for plain fits."""


# --- recipes ---


@dataclass
class Recipe:
    """Candidates that one path serves.

    machine : with the recipe's parameters, but for C and alpha
    kernel : its kernel, not settled yet
    steps : the transformers before it
    transform : their parameters, as a key
    costs : what the costs of rows are made of, as a key
    adjusted : the classifier around the machine
    cells : list of (candidate, C, alpha, adjuster)
    """

    machine: KernelSVM
    kernel: Any
    steps: Pipeline | None
    transform: Hashable
    costs: Hashable
    adjusted: ZAdjustedClassifier | None
    cells: list[tuple[int, float, float | None, Any]] = field(default_factory=list)


def _anatomy(estimator: Any) -> tuple[str, bool, Pipeline | None, KernelSVM] | None:
    """The prefix of the machine's parameters, whether it is adjusted, the pipeline around it, and the machine."""
    prefix, steps = "", None
    adjusted = type(estimator) is ZAdjustedClassifier
    if adjusted:
        if estimator.cv is not None:
            return None
        prefix, estimator = "estimator__", estimator._estimator()
    if type(estimator) is Pipeline:
        if not estimator.steps or getattr(estimator, "transform_input", None):
            return None
        steps, (name, estimator) = estimator, estimator.steps[-1]
        prefix += f"{name}__"
        if len(steps.steps) == 1:
            steps = None
    return (prefix, adjusted, steps, estimator) if type(estimator) is KernelSVM else None


def _recipes(trials: Trials) -> list[Recipe]:
    """The recipes of the candidates that can share."""
    base = _anatomy(trials.estimator)
    if base is None:
        for params in trials.candidates:  # an unknown parameter is an error, not a fit that failed
            trials.made(params)
        return []
    prefix, adjusted = base[:2]
    price, aside = {prefix + "C", prefix + "alpha"}, set(_ADJUSTMENTS if adjusted else ())
    made: dict[Hashable, Recipe | None] = {}
    for candidate, params in enumerate(trials.candidates):
        common = {name: value for name, value in params.items() if name not in price | aside}
        key = tuple((name, id(value)) for name, value in sorted(common.items()))
        if key not in made:
            made[key] = _recipe(trials.made(common), prefix, adjusted, key)
        recipe = made[key]
        try:
            if recipe is not None:
                recipe.cells.append((candidate, *_cell(recipe, params, prefix)))
        except (ValueError, TypeError):
            pass  # a plain fit will say what is wrong
    return [recipe for recipe in made.values() if recipe is not None and recipe.cells]


def _recipe(estimator: Any, prefix: str, adjusted: bool, key: tuple[tuple[str, int], ...]) -> Recipe | None:
    found = _anatomy(estimator)
    if found is None or found[:2] != (prefix, adjusted):
        return None
    steps, machine = found[2:]
    try:
        validate_parameters(machine)
        kernel = get_kernel(machine.kernel, machine.gamma, machine.degree, machine.coef0)
        known = type(kernel) in (RBF, Laplacian, Linear) or (type(kernel) is Poly and kernel.coef0 >= 0)
        plain = (
            type(get_loss(machine.loss)) not in (Hinge, SquaredHinge)
            or (machine.solver not in ("auto", "smo") if isinstance(machine.solver, str) else machine.solver != SMO())
            or machine.stopping is not None or machine.max_iter is not None or machine.warm_start
            or isinstance(machine.intercept, bool | np.bool_) or isinstance(machine.density, bool)
            or (adjusted and machine.intercept == "augmented")
        )  # fmt: skip
    except (ValueError, TypeError):
        return None
    if plain or not known:
        return None
    own = tuple(part for part in key if not part[0].startswith(prefix))
    density = machine.density.get_params() if isinstance(machine.density, DensityWeights) else machine.density
    costs = repr((density, machine.class_weight, machine.random_state))
    return Recipe(machine, kernel, None if steps is None else steps[:-1], own, costs, estimator if adjusted else None)


def _cell(recipe: Recipe, params: dict[str, Any], prefix: str) -> tuple[float, float | None, Any]:
    """C, alpha and the adjuster of a candidate."""
    C, alpha = params.get(prefix + "C", recipe.machine.C), params.get(prefix + "alpha", recipe.machine.alpha)
    for number in (C, alpha):
        if number is not None and not (isinstance(number, Real) and float(number) > 0 and isfinite(number)):
            raise ValueError(number)
    if C is None or isinstance(C, bool) or isinstance(alpha, bool):
        raise ValueError(C)
    adjuster = None
    if recipe.adjusted is not None:
        own = {name: params.get(name, getattr(recipe.adjusted, name)) for name in _ADJUSTMENTS}
        adjuster = ZAdjustedClassifier(recipe.machine, **own)
        validate_parameters(adjuster)
        check_choices(adjuster, recipe.machine)
    return float(C), None if alpha is None else float(alpha), adjuster


# --- rows and their kernel matrices ---


class _SquaredDistance(RBF):
    """−γ‖a − b‖², for many γ to be made of."""

    def apply(self, tile: Any, compiled: bool = False) -> None:
        pass


class _Distance(Laplacian):
    """−γ Σ|a − b|, for the same."""

    apply = _SquaredDistance.apply


# From how many columns on distances cost more to compute than to read, and what computes them.
_DISTANCES: dict[Any, tuple[int, Any]] = {RBF: (64, _SquaredDistance(1.0)), Laplacian: (8, _Distance(1.0))}


class FoldRows:
    """Rows that kernel matrices are made of, with their labels and weights.

    All rows of a search, or those of one fold after its transformers.
    """

    def __init__(self, X: MatrixLike, y: NDArray[Any], weight: Array) -> None:
        self.X, self.y, self.weight, self.n = X, y, weight, y.size
        self.on_device = isinstance(X, arrays.Rows)
        self.dtype: Any = np.float64
        self.kernels: set[Any] = set()
        self.centre = centre_of(RBF(1.0), X)
        self.reach = reach(RBF(1.0), X, self.centre)
        self._lock = Lock()
        self._held: dict[Any, Any] = {}

    @cached_property
    def distances(self) -> set[Any]:
        """The kinds of kernels that share their distances."""
        if self.on_device:  # it multiplies faster than it reads
            return set()
        several = {kind for kind in _DISTANCES if sum(type(kernel) is kind for kernel, _ in self.kernels) > 1}
        return {kind for kind in several if self.X.shape[1] >= _DISTANCES[kind][0]}

    @property
    def held_on_device(self) -> bool:
        """Whether kernel matrices stay on a device."""
        return self.on_device and self.dtype == np.float32

    def rounding(self, kernel: Any) -> float:
        """The error of a kernel value."""
        if type(kernel) is RBF:
            size = 1.0 + 2.0 * kernel.gamma * self.reach
        elif type(kernel) is Laplacian:
            size = 1.0 + 2.0 * kernel.gamma * (self.X.shape[1] * self.reach) ** 0.5
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                size = float(np.abs(kernel.diagonal(self.X)).max())
        return size * (arrays.ROUNDING if self.held_on_device else float(np.finfo(self.dtype).eps))

    def gram(self, kernel: Any, augmented: bool, out: Any, workers: Workers) -> Any:
        """K of all rows among themselves, 1 added where the intercept is augmented."""
        if self.held_on_device:
            return self._square(kernel, augmented)
        kind = type(kernel)
        if kind in self.distances:
            with self._lock:
                if kind not in self._held:
                    self._held[kind] = self._whole(_DISTANCES[kind][1], np.empty_like(out), workers)
            for i in range(0, self.n, 64):  # in cache
                np.multiply(self._held[kind][i : i + 64], self.dtype(kernel.gamma), out=out[i : i + 64])
                kernel.apply(out[i : i + 64], compiled=True)
        else:
            self._whole(kernel, out, workers)
        if augmented:
            out += self.dtype(1.0)
        return out

    def _whole(self, kernel: Any, out: Any, workers: Workers) -> Any:
        points = prepared(kernel, self.X, self.dtype, self._centre(kernel), budget=1 << 30)
        return kernel_matrix(kernel, points, points, out=out, workers=workers, compiled=True)

    def _square(self, kernel: Any, augmented: bool) -> Square:
        points = prepared(kernel, self.X, self.dtype, self._centre(kernel))
        K = products.block(kernel, points, points)
        return Square(K.add_(1.0) if augmented else K)

    def _centre(self, kernel: Any) -> Any:
        return self.centre if kernel.shift_invariant else None


class Grams:
    """Kernel matrices, each made by the first job that asks and dropped after the last; memory is used again."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self.left: dict[Hashable, int] = {}
        for job in jobs:
            self.left[job.gram] = self.left.get(job.gram, 0) + 1
        self.locks = {key: Lock() for key in self.left}
        self.held: dict[Hashable, Any] = {}
        self.spare: dict[Any, list[Any]] = {}
        self._lock = Lock()

    def take(self, job: Job) -> Any:
        rows = job.rows
        with self.locks[job.gram]:
            if job.gram not in self.held:
                with self._lock:
                    spare = self.spare.get((rows.n, rows.dtype), [])
                    out = spare.pop() if spare else None
                if out is None and not rows.held_on_device:
                    out = np.empty((rows.n, rows.n), rows.dtype)
                self.held[job.gram] = rows.gram(job.kernel, job.augmented, out, Workers(1))
            return self.held[job.gram]

    def drop(self, job: Job) -> None:
        with self._lock:
            self.left[job.gram] -= 1
            if self.left[job.gram] == 0 and job.gram in self.held:
                done = self.held.pop(job.gram)
                if not job.rows.held_on_device:  # a device keeps its own spare memory
                    self.spare.setdefault((job.rows.n, job.rows.dtype), []).append(done)


# --- jobs ---


@dataclass
class Job:
    """A recipe on a fold.

    train : the rows that the machine is trained on: those of the fold with a weight
    counted : the rows that z or a threshold is chosen on: density may leave out some of them in training
    test : the rows held out
    tasks : one class against the rest, for C = 1
    """

    recipe: Recipe
    fold: int
    rows: FoldRows
    kernel: Any
    train: Index
    counted: Index
    test: Index
    classes: NDArray[Any]
    tasks: list[Task]

    @property
    def augmented(self) -> bool:
        return bool(self.recipe.machine.intercept == "augmented")

    @property
    def gram(self) -> tuple[int, Any, bool]:
        return id(self.rows), self.kernel, self.augmented


class Desk:
    """Where jobs are prepared: what several of them need is remembered."""

    def __init__(self, trials: Trials) -> None:
        self.trials = trials
        self.weight_given = next((weight for weight in trials.fit_params.values() if weight is not None), None)
        self.memory: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        if key not in self.memory:
            self.memory[key] = make()
        return self.memory[key]

    def job(self, recipe: Recipe, fold: int) -> Job:
        train, test = self.trials.index[fold]
        if recipe.machine.solver == "auto" and train.size > SMO_UP_TO:
            raise NotShared
        if test.size == 0 or min(train.min(initial=0), test.min()) < 0 or np.unique(train).size < train.size:
            raise NotShared
        if recipe.steps is None:
            rows = self.once(("rows", str(recipe.machine.device)), lambda: self._all_rows(recipe.machine.device))
        else:
            key = recipe.transform, fold, str(recipe.machine.device)
            rows = self.once(key, lambda: self._fold_rows(recipe, fold))
            train, test = np.arange(train.size), np.arange(train.size, train.size + test.size)
        counted, kept, weight, classes, tasks = self.once(
            (id(rows), fold, recipe.costs), lambda: self._tasks(recipe.machine, rows, fold, train)
        )
        kernel = recipe.kernel.settled(
            rows.X[kept] if isinstance(getattr(recipe.kernel, "gamma", None), str) else rows.X, weight
        )
        job = Job(recipe, fold, rows, kernel, kept, counted, test, classes, tasks)
        rows.kernels.add(job.gram[1:])
        return job

    def _tasks(self, machine: KernelSVM, rows: FoldRows, fold: int, train: Index) -> tuple[Any, ...]:
        """What is the same for all kernels: rows that count, rows to train on, their weights, classes and tasks."""
        counted, y, weight, classes = drop_weightless(
            train, rows.y[train], rows.weight[train], np.unique(rows.y[train])
        )
        kept, density = counted, None
        if machine.density is not None:
            density = self._density(machine, rows, fold, counted, y, weight)
            some = np.flatnonzero(density)
            kept, y, weight, density = counted[some], y[some], weight[some], density[some]
            if np.unique(y).size < classes.size:
                raise NotShared
        tasks = [
            binary_task(
                y, weight, classes, which, C=1.0, alpha=None, class_weight=machine.class_weight, dtype=rows.X.dtype,
                density=density,
            )
            for which in one_vs_rest(classes)
        ]  # fmt: skip
        return counted, kept, weight, classes, tasks

    def _weights(self, n: int) -> Array:
        return np.ones(n) if self.weight_given is None else np.asarray(self.weight_given, dtype=np.float64)

    def _all_rows(self, device: Any) -> FoldRows:
        X, _ = enter(self.trials.X, device)
        X, y, weight, _ = validate_training(KernelSVM(), X, self.trials.y, self.weight_given)
        return FoldRows(X, y, weight)

    def _fold_rows(self, recipe: Recipe, fold: int) -> FoldRows:
        """The rows of a fold after its transformers: those it was fitted to, then those held out."""
        trials, scratch, device = self.trials, KernelSVM(), recipe.machine.device
        X, y = trials.part(fold, held_out=False)
        aside, y_aside = trials.part(fold, held_out=True)
        steps = clone(recipe.steps)
        weight = self._weights(len(trials.y))
        X, _ = enter(steps.fit_transform(X, y), device)
        X, y, _, _ = validate_training(scratch, X, y, weight[trials.index[fold][0]])
        aside = validate_rows(scratch, enter(steps.transform(aside), device)[0])
        X = _joined(X, aside)
        return FoldRows(X, np.concatenate([y, np.asarray(y_aside)]), weight[np.concatenate(trials.index[fold])])

    def _density(
        self, machine: KernelSVM, rows: FoldRows, fold: int, own: Index, y: NDArray[Any], weight: Array
    ) -> Array:
        """The machine's density weights; schemes with the same γ share their sums."""
        given = machine.density
        assert given is not None
        rule = given if isinstance(given, DensityWeights) else DensityWeights(given)
        validate_parameters(rule)
        scheme = scheme_name(rule.scheme)
        if rule.method != "exact" or scheme == "random":
            return np.asarray(density_weights(machine.density, rows.X[own], y, weight, seed_from(machine.random_state)))
        signed = scheme == "same_class"

        def sums() -> Array:
            plain = DensityWeights("same_class" if signed else "density", gamma=rule.gamma, device=rule.device)
            return fit_in_memory(plain, rows.X[own], y, weight).density_

        s = self.once((id(rows), fold, rule.gamma, signed), sums)
        found = normalized(scheme_weights(s, scheme, weight), rule.normalize, weight)
        return np.asarray(found, dtype=np.float64)


def _joined(X: MatrixLike, aside: Any) -> Any:
    if isinstance(X, arrays.Rows):
        return arrays.Rows(arrays.namespace(X.tensor).cat([X.tensor, aside.tensor]))
    return vstack([X, aside], format="csr") if issparse(X) or issparse(aside) else np.concatenate([X, aside])


# --- doing a job ---


def _paths(job: Job, K: Any, prices: Array) -> tuple[Array, Array, Array]:
    """Scores of all rows, intercepts and coefficients, for every C and task, with the class in question as positive."""
    machine, n = job.recipe.machine, job.rows.n
    scores, intercepts, beta = [], [], []
    for task in job.tasks:
        price = np.zeros((prices.size, n))
        price[:, job.train] = np.outer(prices, task.price)
        if not prices_are_usable(price[:, job.train]):
            raise NotShared
        labels = np.ones(n)
        labels[job.train] = task.labels
        fixed = intercept_for(machine.intercept, task.sign)
        found = solve_paths(
            K, [job.train], labels, price, free=fixed == "free",
            intercept=0.0 if fixed is None or isinstance(fixed, str) else fixed,
            squared=type(get_loss(machine.loss)) is SquaredHinge, tol=max(float(machine.tol), 1e-10),
        )  # fmt: skip
        noise = job.rows.rounding(job.kernel) * np.linalg.norm(found.beta[0], axis=1).max()
        if not (found.converged.all() and np.isfinite(found.scores).all() and noise < _NOISE):
            raise NotShared
        scores.append(task.sign * found.scores[0])
        intercepts.append(task.sign * found.intercept[0])
        beta.append(task.sign * found.beta[0])
    return np.stack(scores, axis=-1), np.stack(intercepts, axis=-1), np.stack(beta, axis=-1)


def _responses(job: Job, K: Any) -> Array:
    """The decision function of every candidate for all rows."""
    cells, weight = job.recipe.cells, float(job.rows.weight[job.train].sum())
    each = np.array([effective_C(C, alpha, weight) for _, C, alpha, _ in cells])
    prices, places = np.unique(each, return_inverse=True)
    scores, intercepts, beta = _paths(job, K, prices)
    if job.recipe.adjusted is None:
        scores = scores.astype(job.rows.X.dtype, copy=False)[places]
        return scores if len(job.tasks) > 1 else scores[:, :, 0]
    if job.classes.size > 2:
        raise NotShared
    ups = _row_sums(K, job.train, np.maximum(beta[:, :, 0], 0.0))
    return _adjusted(job, places, scores[:, :, 0], intercepts[:, 0], ups)


def _adjusted(job: Job, places: Index, scores: Array, intercepts: Array, ups: Array) -> Array:
    """The same after each candidate's own choice of z or a threshold, as in `zsvm.py`.

    places : which machine a candidate has
    ups : the parts of the scores that come from positive coefficients
    """
    y, weights = job.rows.y[job.counted], job.rows.weight[job.counted]
    minority = int(minority_is_positive(y == job.classes[1], weights))
    positive = y == job.classes[minority]
    found = np.empty((places.size, job.rows.n))
    for cell, (place, (_, _, _, adjuster)) in enumerate(zip(places, job.recipe.cells, strict=True)):
        score = scores[place]
        if adjuster.method == "z":
            up, b = ups[place], intercepts[place]
            parts: tuple[Array, ...] = (up, score - up) if minority == 1 else (up + b - score, -(up + b))
        else:
            score = score.astype(job.rows.X.dtype).astype(np.float64)
            parts = (score if minority == 1 else -score,)
        chosen = tuple(part[job.counted] for part in parts)
        best = best_choice(adjuster, chosen, positive, weights, job.recipe.machine)
        found[cell] = adjusted_scores(parts, best[0], minority)
    return found


def _row_sums(K: Any, rows: Index, V: Array) -> Array:
    """V · K[rows], in float64."""
    if isinstance(K, Square):
        return K.product(rows, V)
    full = np.zeros((V.shape[0], K.shape[0]))
    full[:, rows] = V
    if K.dtype == np.float64:
        return full @ K
    parts = [full @ K[i : i + 256].T.astype(np.float64) for i in range(0, K.shape[0], 256)]
    return np.concatenate(parts, axis=1)


class Known(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A machine whose scores of some rows are known, for scorers; for all else it is fitted."""

    def __init__(self, classes: Any, X: MatrixLike, scores: Any, fit: Callable[[], Any]) -> None:
        self.classes_, self._X, self._scores, self._fit = classes, X, scores, fit

    def decision_function(self, X: MatrixLike) -> Any:
        return self._scores if X is self._X else self._real.decision_function(X)

    def predict(self, X: MatrixLike) -> Any:
        if X is not self._X:
            return self._real.predict(X)
        called = (self._scores > 0).astype(np.intp) if self._scores.ndim == 1 else self._scores.argmax(axis=1)
        return self.classes_[called]

    def __getattr__(self, name: str) -> Any:
        if name == "_real":
            self._real = self._fit()
            return self._real
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._real, name)


def _note(trials: Trials, sheet: Sheet, job: Job, responses: Array, held_out: bool) -> None:
    """Score all candidates of a job on the rows held out, or on those of its training."""
    rows = job.test if held_out else _training_rows(job, trials)
    part = sheet.test if held_out else sheet.train
    responses, y = responses[:, rows], job.rows.y[rows]
    cells = np.array([candidate for candidate, *_ in job.recipe.cells])
    open_names: dict[int, list[str]] = {}
    for name, short in trials.scorers.names.items():
        weighted = name in trials.score_params
        values = np.full(cells.size, np.nan) if weighted else quick_scores(short, job.classes, y, responses)
        done = np.isfinite(values)
        if done.any():
            sheet.note(part, name, cells[done], job.fold, values[done])
        for place in np.flatnonzero(~done).tolist():
            open_names.setdefault(place, []).append(name)
    if open_names:
        X, labels = trials.part(job.fold, held_out)
        params = trials.params_of(trials.folds[job.fold][held_out])
        for place, names in open_names.items():
            candidate = int(cells[place])
            known = Known(job.classes, X, responses[place], partial(trials.fitted, candidate, job.fold))
            for name, value in trials.scorers.some(names, known, X, labels, params).items():
                sheet.note(part, name, candidate, job.fold, value)


def _training_rows(job: Job, trials: Trials) -> Index:
    """Where the training rows of the job's fold stand among its rows; those without a weight too."""
    train = trials.index[job.fold][0]
    return train if job.recipe.steps is None else np.arange(train.size)


def _do(trials: Trials, sheet: Sheet, job: Job, K: Any) -> None:
    started = time.perf_counter()
    responses = _responses(job, K)
    cells = np.array([candidate for candidate, *_ in job.recipe.cells])
    sheet.fit_time[cells, job.fold] = (time.perf_counter() - started) / cells.size
    started = time.perf_counter()
    _note(trials, sheet, job, responses, held_out=True)
    sheet.score_time[cells, job.fold] = (time.perf_counter() - started) / cells.size
    if trials.with_train:
        _note(trials, sheet, job, responses, held_out=False)


# --- all of them ---


def share(trials: Trials, sheet: Sheet, cache_size: float, workers: Workers, done: Callable[[int], None]) -> set[Cell]:
    """Do the trials that share work, and return which (candidate, fold) were done.

    cache_size : megabytes that kernel matrices may take
    done : told how many trials are finished
    """
    recipes = _recipes(trials)
    if not recipes or not _only_weights(trials) or trials.scorers.own:
        return set()
    jobs, slots = _affordable(_jobs(trials, recipes), cache_size)
    grams, at_once = Grams(jobs), Semaphore(max(slots, 1))
    finished: list[Job] = []

    def task(place: int) -> None:
        job = jobs[place]
        with at_once:
            try:
                _do(trials, sheet, job, grams.take(job))
            except Exception:  # a plain fit will say what is wrong
                return
            finally:
                grams.drop(job)
        finished.append(job)
        done(len(job.recipe.cells))

    if any(job.rows.held_on_device for job in jobs):
        workers = Workers(1)  # a device does one job at a time, and so holds one matrix
    workers.each(task, range(len(jobs)))
    return {(candidate, job.fold) for job in finished for candidate, *_ in job.recipe.cells}


def _only_weights(trials: Trials) -> bool:
    """Whether `fit` is given sample weights of the machine at most."""
    given = {name for name, value in trials.fit_params.items() if value is not None}
    if get_tags(trials.estimator).input_tags.pairwise or (given and get_config()["enable_metadata_routing"]):
        return False
    return given <= {weight_name(trials.estimator)}


def _jobs(trials: Trials, recipes: list[Recipe]) -> list[Job]:
    """The jobs that can be prepared, those with the same kernel matrix next to each other."""
    desk, together = Desk(trials), dict[Hashable, list[Job]]()
    for recipe in recipes:
        for fold in range(len(trials.folds)):
            try:
                job = desk.job(recipe, fold)
            except Exception:  # a plain fit will say what is wrong
                continue
            together.setdefault(job.gram, []).append(job)
    return [job for jobs in together.values() for job in jobs]


def _affordable(jobs: list[Job], cache_size: float) -> tuple[list[Job], int]:
    """The jobs whose kernel matrices have digits and fit into memory, and how many may be done at a time."""
    for rows in {id(job.rows): job.rows for job in jobs}.values():
        largest = max(job.train.size for job in jobs if job.rows is rows)
        rows.dtype = np.float64 if largest <= SMALL else np.float32
    good, slots = [], 1 << 30
    for job in jobs:
        held = job.rows.n**2 * np.dtype(job.rows.dtype).itemsize
        room = int(cache_size * 1e6 / held) - len(job.rows.distances)
        if job.rows.held_on_device:
            room = int(_SHARE * arrays.free_memory(job.rows.X.device) / held)
        if room >= 1 and job.rows.rounding(job.kernel) < (1e-6 if job.rows.dtype == np.float64 else _COARSE):
            good.append(job)
            slots = min(slots, room)
    return good, slots
