"""What the trials of a search have in common, done once.

A recipe on a fold is a job: one path over its prices (`solvers.price_paths`), which gives the scores of all rows for
all its candidates. Jobs with the same rows and the same kernel share a kernel matrix; those of a pipeline have
rows of their own, as its transformers are fitted once for each fold and setting.

Whatever is out of the ordinary in a job (an error, a path that does not converge) sends its candidates
to a plain fit, so that warnings and errors are those of the estimator itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Semaphore
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags

from .._device import arrays
from .._input.checks import drop_weightless, seed_from, validate_rows, validate_training, weight_name
from .._input.entry import enter
from .._util.threads import Workers
from .._util.typing import Array, Floats, Index, MatrixLike
from ..density import density_weights
from ..kernel import KernelSVM
from ..kernels import Kernel
from ..losses import SquaredHinge, get_loss
from ..operating.responses import for_class
from ..problem import intercept_for
from ..solvers import SMO_UP_TO
from ..solvers.gram import SMALL
from ..solvers.one_vs_rest import Task, binary_task, effective_C, one_vs_rest
from ..solvers.price_paths import Square, solve_paths
from ..weights import minority_is_positive, prices_are_usable
from ..zsvm import adjusted_scores, best_choice, z_parts
from .matrices import FoldRows, KernelMatrices, MatrixKey, joined, row_sums
from .recipes import Recipe, find_recipes
from .scoring import quick_scores
from .trials import Trials

# Error of a float32 kernel value from which float64 is used, as in the solver.
_COARSE = 1e-4
# What rounding of kernel values may do to a score, at most.
_NOISE = 0.05
# The share of a device's free memory that a kernel matrix may take there.
_SHARE = 0.6


class NotShared(Exception):
    """The candidates of this job need plain fits."""


# Of our own code; RuntimeError is torch's, when a device has no memory left. A plain fit will say what is wrong.
_EXPECTED = (NotShared, ValueError, TypeError, ArithmeticError, MemoryError, RuntimeError)


@contextmanager
def _code_of_the_user() -> Iterator[None]:
    """A transformer, class weights or a metric may raise anything: a plain fit will raise it again."""
    try:
        yield
    except Exception as error:
        raise NotShared from error


class TrainingTasks(NamedTuple):
    """What is the same for all kernels."""

    counted: Index  # the rows of the fold with a weight: z or a threshold is chosen on them
    train: Index  # those of them that the machine is trained on: density may leave out some
    weight: Array  # of the rows to train on
    classes: NDArray[Any]
    tasks: list[Task]  # one class against the rest, for C = 1


@dataclass
class PathJob:
    """A recipe on a fold."""

    recipe: Recipe
    fold: int
    rows: FoldRows
    kernel: Kernel
    training: TrainingTasks
    train: Index  # those without a weight included
    test: Index

    @property
    def matrix(self) -> MatrixKey:
        return MatrixKey(self.rows, self.kernel, bool(self.recipe.machine.intercept == "augmented"))


class JobMaker:
    """Makes jobs, and remembers what several of them need."""

    def __init__(self, trials: Trials) -> None:
        self.trials = trials
        self.sample_weight = next((weight for weight in trials.fit_params.values() if weight is not None), None)
        self.memory: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[..., Any], *given: Any) -> Any:
        if key not in self.memory:
            self.memory[key] = make(*given)
        return self.memory[key]

    def job(self, recipe: Recipe, fold: int) -> PathJob:
        train, test = self.trials.index[fold]
        device = str(recipe.machine.device)
        if recipe.machine.solver == "auto" and train.size > SMO_UP_TO:
            raise NotShared
        if test.size == 0 or min(train.min(initial=0), test.min()) < 0 or np.unique(train).size < train.size:
            raise NotShared
        if recipe.steps is None:
            rows = self.once(("rows", device), self._all_rows, recipe.machine.device)
        else:
            rows = self.once((recipe.transform, fold, device), self._fold_rows, recipe, fold)
            train, test = np.arange(train.size), np.arange(train.size, train.size + test.size)
        training = self.once((rows, fold, recipe.costs), self._tasks, recipe, rows, fold, train)
        in_words = isinstance(getattr(recipe.kernel, "gamma", None), str)
        kernel = recipe.kernel.settled(rows.X[training.train] if in_words else rows.X, training.weight)
        job = PathJob(recipe, fold, rows, kernel, training, train, test)
        rows.kernels.add(job.matrix[1:])
        return job

    def _tasks(self, recipe: Recipe, rows: FoldRows, fold: int, train: Index) -> TrainingTasks:
        machine = recipe.machine
        counted, y, weight, classes = drop_weightless(
            train, rows.y[train], rows.weight[train], np.unique(rows.y[train])
        )
        kept, density = counted, None
        if machine.density is not None:
            given = machine.density, rows.X[counted], y, weight, seed_from(machine.random_state)
            density = np.asarray(self.once((rows, fold, recipe.densities), density_weights, *given))
            some = np.flatnonzero(density)
            kept, y, weight, density = counted[some], y[some], weight[some], density[some]
            if np.unique(y).size < classes.size:
                raise NotShared
        options = {"class_weight": machine.class_weight, "dtype": rows.X.dtype, "density": density}
        with _code_of_the_user():
            tasks = [binary_task(y, weight, classes, k, C=1.0, alpha=None, **options) for k in one_vs_rest(classes)]
        return TrainingTasks(counted, kept, weight, classes, tasks)

    def _all_rows(self, device: str | None) -> FoldRows:
        X, _ = enter(self.trials.X, device)
        X, y, weight, _ = validate_training(KernelSVM(), X, self.trials.y, self.sample_weight)
        return FoldRows(X, y, weight)

    def _fold_rows(self, recipe: Recipe, fold: int) -> FoldRows:
        """The rows of a fold after its transformers: those it was fitted to, then those held out."""
        trials, scratch, device = self.trials, KernelSVM(), recipe.machine.device
        (X, y), (aside, y_aside) = (trials.part(fold, held_out) for held_out in (False, True))
        given = self.sample_weight
        weight = np.ones(len(trials.y)) if given is None else np.asarray(given, dtype=np.float64)
        with _code_of_the_user():
            steps = clone(recipe.steps)
            X, aside = steps.fit_transform(X, y), steps.transform(aside)
        X, y, _, _ = validate_training(scratch, enter(X, device)[0], y, weight[trials.index[fold][0]])
        aside = validate_rows(scratch, enter(aside, device)[0])
        X, y = joined(X, aside), np.concatenate([y, np.asarray(y_aside)])
        return FoldRows(X, y, weight[np.concatenate(trials.index[fold])])


def _paths(job: PathJob, K: Floats | Square, prices: Array) -> tuple[Array, Array, Array]:
    """Scores of all rows, intercepts and coefficients, for every C and task, with the class in question as positive."""
    machine, n, train = job.recipe.machine, job.rows.n, job.training.train
    parts = []
    for task in job.training.tasks:
        price, labels = np.zeros((prices.size, n)), np.ones(n)
        price[:, train], labels[train] = np.outer(prices, task.price), task.labels
        if not prices_are_usable(price[:, train]):
            raise NotShared
        fixed = intercept_for(machine.intercept, task.sign)
        found = solve_paths(
            K,
            [train],
            labels,
            price,
            free=fixed == "free",
            intercept=0.0 if fixed is None or isinstance(fixed, str) else fixed,
            squared=type(get_loss(machine.loss)) is SquaredHinge,
            tol=max(float(machine.tol), 1e-10),
        )
        noise = job.rows.rounding(job.kernel) * np.linalg.norm(found.beta[0], axis=1).max()
        if not (found.converged.all() and np.isfinite(found.scores).all() and noise < _NOISE):
            raise NotShared
        parts.append([task.sign * part[0] for part in (found.scores, found.intercept, found.beta)])
    scores, intercepts, beta = (np.stack(part, axis=-1) for part in zip(*parts, strict=True))
    return scores, intercepts, beta


def _responses(job: PathJob, K: Floats | Square) -> Array:
    """The decision function of every candidate for all rows."""
    train = job.training.train
    weight = float(job.rows.weight[train].sum())
    each = np.array([effective_C(candidate.C, candidate.alpha, weight) for candidate in job.recipe.candidates])
    prices, places = np.unique(each, return_inverse=True)
    scores, intercepts, beta = _paths(job, K, prices)
    if job.recipe.candidates[0].adjuster is None:
        scores = scores.astype(job.rows.X.dtype, copy=False)[places]
        return scores if scores.shape[2] > 1 else scores[:, :, 0]
    if job.training.classes.size > 2:
        raise NotShared
    ups = row_sums(K, train, np.maximum(beta[:, :, 0], 0.0))
    machines = [(scores[place, :, 0], ups[place], float(intercepts[place, 0])) for place in places]
    return _adjusted(job, machines)


def _adjusted(job: PathJob, machines: list[tuple[Array, Array, float]]) -> Array:
    """The same after each candidate's own choice of z or a threshold.

    `machines` are each candidate's scores, the parts of them from positive coefficients, and the intercept.
    """
    counted, classes = job.training.counted, job.training.classes
    y, weights = job.rows.y[counted], job.rows.weight[counted]
    minority = int(minority_is_positive(y == classes[1], weights))
    found = np.empty((len(machines), job.rows.n))
    for place, (candidate, (score, up, b)) in enumerate(zip(job.recipe.candidates, machines, strict=True)):
        adjuster: Any = candidate.adjuster
        if adjuster.method == "z":
            parts: tuple[Array, ...] = z_parts(up, score - (up + b), b, minority)
        else:
            parts = (for_class(score.astype(job.rows.X.dtype).astype(np.float64), minority),)
        chosen = tuple(part[counted] for part in parts)
        with _code_of_the_user():
            best = best_choice(adjuster, chosen, y == classes[minority], weights, job.recipe.machine)
        found[place] = adjusted_scores(parts, best[0], minority)
    return found


class ScoredMachine(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A machine whose scores of some rows are known, for scorers; for all else it is fitted."""

    def __init__(self, classes: NDArray[Any], X: MatrixLike, scores: Array, fit: Callable[[], Any]) -> None:
        self.classes_, self._X, self._scores, self._fit = classes, X, scores, fit

    def decision_function(self, X: MatrixLike) -> Any:
        return self._scores if X is self._X else self._real.decision_function(X)

    def predict(self, X: MatrixLike) -> Any:
        if X is not self._X:
            return self._real.predict(X)
        place = (self._scores > 0).astype(np.intp) if self._scores.ndim == 1 else self._scores.argmax(axis=1)
        return self.classes_[place]

    @cached_property
    def _real(self) -> Any:
        return self._fit()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._real, name)


def _score(trials: Trials, job: PathJob, responses: Array, held_out: bool) -> None:
    """Score all candidates of a job on the rows held out, or on those of its training."""
    rows = job.test if held_out else job.train
    responses, y = responses[:, rows], job.rows.y[rows]
    quick = {
        name: quick_scores(short, job.training.classes, y, responses)
        for name, short in trials.scorers.names.items()
        if name not in trials.score_params
    }
    for candidate, own in zip(job.recipe.candidates, range(len(responses)), strict=True):
        result = trials.results[candidate.number, job.fold]
        scores = {name: float(values[own]) for name, values in quick.items() if np.isfinite(values[own])}
        if left := [name for name in trials.scorers.names if name not in scores]:
            X, labels = trials.part(job.fold, held_out)
            fit = partial(trials.fitted, candidate.number, job.fold)
            machine = ScoredMachine(job.training.classes, X, responses[own], fit)
            params = trials.params_of(trials.folds[job.fold][held_out])
            scores |= trials.scorers(machine, X, labels, params, left)
        setattr(result, "test_scores" if held_out else "train_scores", scores)


def _do(trials: Trials, job: PathJob, matrices: KernelMatrices) -> bool:
    """Fit and score the candidates of a job; whether that went well."""
    results = [trials.results[candidate.number, job.fold] for candidate in job.recipe.candidates]
    started = time.perf_counter()
    try:
        responses = _responses(job, matrices.take(job.matrix))
    except _EXPECTED:
        return False
    finally:
        matrices.drop(job.matrix)
    fitted = time.perf_counter()
    _score(trials, job, responses, held_out=True)
    scored = time.perf_counter()
    for result in results:
        result.fit_time, result.score_time = (fitted - started) / len(results), (scored - fitted) / len(results)
    if trials.with_train:
        _score(trials, job, responses, held_out=False)
    return True


def share(trials: Trials, cache_size: float, workers: Workers, done: Callable[[int], None]) -> set[tuple[int, int]]:
    """Do the trials that share work, and return which (candidate, fold) were done.

    cache_size : megabytes that kernel matrices may take
    done : called with how many more trials are finished
    """
    recipes = find_recipes(trials)
    if not recipes or not _only_weights(trials) or trials.scorers.own:
        return set()
    jobs, slots = _affordable(_jobs(trials, recipes), cache_size)
    matrices, at_once = KernelMatrices(job.matrix for job in jobs), Semaphore(max(slots, 1))
    finished = set[tuple[int, int]]()

    def task(place: int) -> None:
        job = jobs[place]
        with at_once:
            if not _do(trials, job, matrices):
                return
        finished.update((candidate.number, job.fold) for candidate in job.recipe.candidates)
        done(len(job.recipe.candidates))

    if any(job.rows.held_on_device for job in jobs):
        workers = Workers(1)  # a device does one job at a time, and so holds one matrix
    workers.each(task, range(len(jobs)))
    return finished


def _only_weights(trials: Trials) -> bool:
    """Whether `fit` is given nothing but sample weights for the machine."""
    given = {name for name, value in trials.fit_params.items() if value is not None}
    if get_tags(trials.estimator).input_tags.pairwise or (given and get_config()["enable_metadata_routing"]):
        return False
    return given <= {weight_name(trials.estimator)}


def _jobs(trials: Trials, recipes: list[Recipe]) -> list[PathJob]:
    """The jobs that can be prepared, those with the same kernel matrix next to each other."""
    maker, together = JobMaker(trials), dict[MatrixKey, list[PathJob]]()
    for recipe in recipes:
        for fold in range(len(trials.folds)):
            try:
                job = maker.job(recipe, fold)
            except _EXPECTED:
                continue
            together.setdefault(job.matrix, []).append(job)
    return [job for jobs in together.values() for job in jobs]


def _affordable(jobs: list[PathJob], cache_size: float) -> tuple[list[PathJob], int]:
    """The jobs whose kernel matrices are precise enough and fit into memory, and how many may be done at a time."""
    for rows in {id(job.rows): job.rows for job in jobs}.values():
        largest = max(job.training.train.size for job in jobs if job.rows is rows)
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
