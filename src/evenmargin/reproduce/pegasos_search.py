"""The machines of the pegasos paper, as printed and repaired, the search for their settings, and what is measured."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from .._input.checks import seed_from
from .._util.threads import one_blas_thread
from .._util.typing import Array, Index, Labels
from ..kernel import KernelSVM
from ..linear import LinearSVM
from ..losses import get_loss
from ..metrics import roc_auc
from ..papers import cost_sensitive_pegasos
from ..problem import Problem, intercept_for
from ..sampling import get_sampler
from ..selection import SharedGridSearch
from ..solvers import Control, Pegasos, run
from ..solvers.one_vs_rest import binary_task
from ..stopping import AUCHalting, improvement_waits
from ._base import Settings, TableJob, paper_figures
from ._measure import Fold, rows_of, stratified_folds

SVM = LinearSVM | KernelSVM
Curve = Sequence[Sequence[Any]]  # places, and at each the scores of the folds on training rows and on the others


class PaperFigures(NamedTuple):
    """What the paper prints of a data set: Table 2 (AUC, λ, bias, X), Table 3 (DECIDL) and Table 4."""

    title: str
    auc: float
    lam: float
    b: float
    every: int
    decidl: float
    holdout: float


SETS = {name: PaperFigures(**printed) for name, printed in paper_figures("pegasos").items()}
YEAST = "yeast_ml8"  # not in the paper's Tables 2 and 4
TITLES = {name: paper.title for name, paper in SETS.items()} | {YEAST: "Yeast ML 8"}
DECIDL = {name: paper.decidl for name, paper in SETS.items()} | {YEAST: 0.5}


class Form(StrEnum):
    """The machine as printed, repaired in several ways, and solved to the optimum."""

    PRINTED = "printed"
    REPAIRED = "repaired"
    AVERAGED = "repaired, averaged"
    LONG = "repaired, T = 20 000"
    EXACT = "exact solver"
    KERNEL = "repaired, RBF kernel"
    EXACT_KERNEL = "exact solver, RBF kernel"


class SearchGrid(NamedTuple):
    """The grids of the searches, and the numbers of steps, folds and draws."""

    # The paper's grid; its text leaves out λ = 0.1, which its Table 2 has.
    lam: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)
    b: tuple[float, ...] = tuple(np.linspace(-2.0, 2.0, 10).tolist())
    waits: int = 1000  # steps of the run that waits are taken from, for X
    folds: int = 5  # of the search
    draws: int = 5  # runs with other random draws, where a setting is measured again
    shares: int = 8  # points of a learning curve
    gamma: tuple[float, ...] = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)  # of the kernel machines, as kernel_lam
    kernel_lam: tuple[float, ...] = (1e-3, 1e-2, 1e-1)


FULL = SearchGrid()
QUICK = SearchGrid(
    lam=(1e-4, 1e-1, 1.0), b=FULL.b[::4], waits=100, folds=3, draws=1, shares=3, gamma=(1e-2,), kernel_lam=(1e-2,)
)


def grid_of(settings: Settings) -> SearchGrid:
    return QUICK if settings.quick else FULL


# --- rows, folds and random numbers ---


class Holdout(NamedTuple):
    """80 % to learn from, 20 % held out, and folds of the 80 %."""

    X: Array
    y: Labels
    X_out: Array
    y_out: Labels
    folds: list[Fold]


def _seed(settings: Settings, *key: object) -> int:
    """A different seed for each use, the same in every run."""
    text = "/".join(map(str, key)).encode()
    return int(np.random.SeedSequence([settings.seed, zlib.crc32(text)]).generate_state(1)[0] >> 1)


def seeds_for(settings: Settings, *key: object) -> Iterator[int]:
    """An endless stream of seeds for one use."""
    rng = np.random.default_rng(_seed(settings, *key))
    while True:
        yield int(rng.integers(1 << 31))


def split_of(settings: Settings, name: str, split: int) -> Holdout:
    X, y = rows_of(settings, name)
    seed = _seed(settings, name, "split", split)
    learn, out, y_learn, y_out = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    folds = stratified_folds(y_learn, grid_of(settings).folds, _seed(settings, name, "folds", split))
    return Holdout(learn, y_learn, out, y_out, folds)


def subset(rows: Index, y: Labels, share: float, seed: int) -> Index:
    """A random share of the rows of each class, with at least one row of each."""
    rng = np.random.default_rng(seed)
    parts = [rng.permutation(rows[y[rows] == label]) for label in (-1, 1)]
    return np.sort(np.concatenate([part[: max(1, round(share * part.size))] for part in parts]))


def standardised(learn: Array, other: Array) -> tuple[Array, Array]:
    """Standardise both arrays by the means and deviations of the first."""
    scaler = StandardScaler().fit(learn)
    return scaler.transform(learn), scaler.transform(other)


def job(key: str, measure: Callable[..., Mapping[str, Any]], *given: object) -> TableJob:
    def measured() -> Mapping[str, Any]:
        # Thousands of small fits on rows that were checked when they were loaded: threads and checks inside each
        # would take most of the time.
        with one_blas_thread(), config_context(assume_finite=True, skip_parameter_validation=True):
            return measure(*given)

    return TableJob(key, measured)


# --- the machines ---


def printed(lam: float, b: float, every: int, seed: int = 0) -> SVM:
    """As printed: raw features, the imbalance counted twice, halted by ROC-AUC on the training rows."""
    return cost_sensitive_pegasos(lam, b, X=every, double_count=True, random_state=seed)


def waits_between(X: Array, y: Labels, lam: float, b: float, T: int, seed: int) -> list[int]:
    """Steps between improvements of ROC-AUC in a run of T steps of the printed form that is not halted."""
    machine = cost_sensitive_pegasos(lam, b, T=T, double_count=True, random_state=seed)
    machine.set_params(stopping=AUCHalting(every=1, halt=False)).fit(X, y)
    return [int(wait) for wait in improvement_waits([e["auc"] for e in machine.history_ if "auc" in e])]


def printed_interval_end(waits: Sequence[int]) -> int:
    """X from the waits of one run: the upper end of the interval for the mean wait as the paper prints it.

    Its two slips pull in one direction. The middle is p̂ − p̂/(1 − p̂), about 0, instead of
    1/p̂, and the deviation is divided by the root of the number of waits twice. So the end is far
    below the mean wait; the X of Table 2, from 2 to 8, are too.
    """
    count = len(waits)
    chance = count / sum(waits) if waits else 1.0
    if count < 2 or chance == 1.0:
        return 1
    deviation = math.sqrt((1.0 - chance) / ((count - 1) * chance**2))
    return max(1, math.ceil(chance - chance / (1.0 - chance) + 1.96 * deviation / math.sqrt(count)))


def printed_candidates(X: Array, y: Labels, grid: SearchGrid, seeds: Iterator[int]) -> list[SVM]:
    """The machines of the paper's search: for each λ and bias an X from one run on the rows, before any fold."""
    candidates = []
    for lam, b in product(grid.lam, grid.b):
        seed = next(seeds)
        every = printed_interval_end(waits_between(X, y, lam, b, grid.waits, seed))
        candidates.append(printed(lam, b, every, seed))
    return candidates


# --- scores ---


def search(candidates: Sequence[SVM], X: Array, y: Labels, folds: Sequence[Fold], scaled: bool) -> tuple[Any, float]:
    """The candidate of the best mean ROC-AUC over the folds, the first of equals, and that mean.

    It gives the numbers of `SharedGridSearch`, where `scaled` stands for a pipeline with a
    `StandardScaler`, without checks and certificates, which take most of the time of
    fits as small as these.
    """
    scores = np.zeros(len(candidates))
    for inside, outside in folds:
        learn, judge = standardised(X[inside], X[outside]) if scaled else (X[inside], X[outside])
        for place, machine in enumerate(candidates):
            scores[place] += roc_auc(y[outside], scores_after_fit(machine, learn, y[inside], judge)) / len(folds)
    best = int(scores.argmax())
    return clone(candidates[best]), float(scores[best])


def fold_scores(
    machines: Sequence[SVM], X: Array, y: Labels, folds: Sequence[Fold], scaled: bool
) -> tuple[Array, Array]:
    """ROC-AUC on the training rows and on the others: one figure for each fold, means over the machines."""
    train, test = np.zeros(len(folds)), np.zeros(len(folds))
    for place, (inside, outside) in enumerate(folds):
        learn, judge = standardised(X[inside], X) if scaled else (X[inside], X)
        for machine in machines:
            scores = scores_after_fit(machine, learn, y[inside], judge)
            train[place] += roc_auc(y[inside], scores[inside]) / len(machines)
            test[place] += roc_auc(y[outside], scores[outside]) / len(machines)
    return train, test


def scores_after_fit(machine: SVM, X: Array, y: Labels, judge: Array) -> Array:
    """Scores of other rows after a fit; for linear Pegasos up to the bias, which does not change ROC-AUC.

    Linear Pegasos runs without `fit`, whose checks and certificate take longer than its steps.
    """
    if not isinstance(machine.solver, Pegasos):
        return np.asarray(machine.fit(X, y).decision_function(judge))
    task = binary_task(
        y, np.ones(y.size), np.array([-1, 1]), 1, C=machine.C, alpha=machine.alpha, class_weight=machine.class_weight,
        dtype=X.dtype,
    )  # fmt: skip
    bias = intercept_for(machine.intercept, task.sign)
    problem = Problem(X, task.labels, task.price, get_loss(machine.loss), bias, task.radius)
    halting = machine.stopping if isinstance(machine.stopping, AUCHalting) else None
    control = Control(
        max_iter=machine.max_iter, sampling=get_sampler(machine.sampling), seed=seed_from(machine.random_state) + 1,
        intercept=problem.offset, halting=halting, certify=False,
    )  # fmt: skip
    return np.asarray(judge @ (task.sign * run(problem, machine.solver, control).coef))


# --- the cells of the tables ---


def table2_jobs(settings: Settings) -> Iterator[TableJob]:
    for name, split in product(SETS, range(settings.repeats(3, 1))):
        yield job(f"{name}/split {split}", table2_cell, settings, name, split)


def table2_cell(settings: Settings, name: str, split: int) -> dict[str, Any]:
    grid, paper = grid_of(settings), SETS[name]
    rows, seeds = split_of(settings, name, split), seeds_for(settings, name, "table 2", split)
    candidates = printed_candidates(rows.X, rows.y, grid, seeds)
    best, auc = search(candidates, rows.X, rows.y, rows.folds, scaled=False)
    lam, b, every = best.alpha, best.intercept, best.stopping.every

    def again(lam: float, b: float, every: int) -> float:
        machines = [printed(lam, b, every, next(seeds)) for _ in range(grid.draws)]
        return float(fold_scores(machines, rows.X, rows.y, rows.folds, scaled=False)[1].mean())

    return {
        "auc": auc,
        "lam": lam,
        "b": b,
        "every": every,
        "candidates": len(candidates),
        "again": again(lam, b, every),
        "at the paper's": again(paper.lam, paper.b, paper.every),
        "waits": waits_between(rows.X, rows.y, paper.lam, paper.b, grid.waits, next(seeds)),
    }


def table4_jobs(settings: Settings) -> Iterator[TableJob]:
    kernel = (Form.KERNEL, Form.EXACT_KERNEL)
    forms = dict.fromkeys(SETS, tuple(form for form in Form if form not in kernel)) | {YEAST: (Form.REPAIRED, *kernel)}
    for name in TITLES:
        for form, split in product(forms[name], range(settings.repeats(10, 2))):
            yield job(f"{name}/{form}/split {split}", table4_cell, settings, name, form, split)


def table4_cell(settings: Settings, name: str, form: Form, split: int) -> dict[str, Any]:
    """Search on the 80 % part, fit the winner to all of it, and score the rows held out."""
    grid, rows = grid_of(settings), split_of(settings, name, split)
    learn, judge = (rows.X, rows.X_out) if form == Form.PRINTED else standardised(rows.X, rows.X_out)
    if form == Form.EXACT_KERNEL:
        machine = _exact_kernel(rows, grid)
    else:
        candidates = _candidates(form, rows, grid, seeds_for(settings, name, form, split))
        machine, _ = search(candidates, rows.X, rows.y, rows.folds, scaled=form != Form.PRINTED)
    machine.fit(learn, rows.y)
    chosen = {"λ": machine.alpha}
    if "kernel" in machine.get_params():
        chosen["γ"] = machine.gamma
    elif form != Form.EXACT:
        chosen["b"] = machine.intercept
    if form == Form.PRINTED:
        chosen["X"] = machine.stopping.every
    return {"auc": roc_auc(rows.y_out, machine.decision_function(judge)), "chosen": chosen}


def _candidates(form: Form, rows: Holdout, grid: SearchGrid, seeds: Iterator[int]) -> list[SVM]:
    if form == Form.PRINTED:
        return printed_candidates(rows.X, rows.y, grid, seeds)
    seed = next(seeds)  # the same draws for all, so that they differ in λ and b only
    if form == Form.EXACT:
        return [LinearSVM(alpha=lam, class_weight="balanced", random_state=seed) for lam in grid.lam]
    if form == Form.KERNEL:
        pairs = [(lam, gamma) for lam in grid.kernel_lam for gamma in grid.gamma]
        return [cost_sensitive_pegasos(lam, kernel="rbf", gamma=gamma, random_state=seed) for lam, gamma in pairs]
    steps, solver = 20_000 if form == Form.LONG else 1000, Pegasos(average=form == Form.AVERAGED)
    machines = [cost_sensitive_pegasos(lam, b, steps, random_state=seed) for lam in grid.lam for b in grid.b]
    return [machine.set_params(solver=solver) for machine in machines]


def _exact_kernel(rows: Holdout, grid: SearchGrid) -> Any:
    pipeline = Pipeline([("scale", StandardScaler()), ("svm", KernelSVM(class_weight="balanced"))])
    values = {"svm__alpha": grid.kernel_lam, "svm__gamma": grid.gamma}
    found = SharedGridSearch(pipeline, values, scoring="roc_auc", cv=rows.folds, refit=False).fit(rows.X, rows.y)
    return pipeline.set_params(**found.best_params_)["svm"]


def curve_jobs(settings: Settings) -> Iterator[TableJob]:
    for name, form in product(SETS, (Form.PRINTED, Form.REPAIRED)):
        yield job(f"{name}/{form}", curve_cell, settings, name, form)


def curve_cell(settings: Settings, name: str, form: Form) -> dict[str, Any]:
    """Curves on the 80 % part: the printed form at the paper's λ, bias and X, the repaired one at its own best."""
    grid, rows, paper = grid_of(settings), split_of(settings, name, 0), SETS[name]
    seeds = seeds_for(settings, name, form, "curves")
    draws = [next(seeds) for _ in range(grid.draws)]
    lam, b = paper.lam, paper.b
    if form == Form.REPAIRED:
        best, _ = search(_candidates(form, rows, grid, seeds), rows.X, rows.y, rows.folds, scaled=True)
        lam, b = best.alpha, best.intercept

    def at(lam: float, b: float, folds: Sequence[Fold] = rows.folds) -> tuple[Array, Array]:
        if form == Form.PRINTED:
            machines = [printed(lam, b, paper.every, seed) for seed in draws]
        else:
            machines = [cost_sensitive_pegasos(lam, b, random_state=seed) for seed in draws]
        return fold_scores(machines, rows.X, rows.y, folds, form == Form.REPAIRED)

    def by_share(share: float) -> tuple[Array, Array]:
        return at(lam, b, [(subset(inside, rows.y, share, next(seeds)), outside) for inside, outside in rows.folds])

    def over(places: Iterable[float], scores: Callable[[float], tuple[Array, Array]]) -> Curve:
        found = [(float(place), *map(np.ndarray.tolist, scores(place))) for place in places]
        return [*zip(*found, strict=True)]

    return {
        "at": f"λ {lam:.3g}, b {b:.3g}",
        "rows": over(np.linspace(0.1, 1.0, grid.shares), by_share),
        "b": over(grid.b, lambda b: at(lam, b)),
        "lam": over(grid.lam, lambda lam: at(lam, b)),
    }
