"""The Blinex paper: it prints no table, so here is the one it asks for, the loss against hinge and log.

A bounded loss should not be disturbed by wrong labels. `blinex-noise` trains on labels of which
a growing share is wrong, `blinex-imbalance` on ever fewer rows of the rare class;
test rows are untouched. All three losses get the same rows, class costs, intercept,
kernel, folds and number of candidates.

Hinge machines are solved exactly (`solvers/price_paths.py`), the others by L-BFGS to 0.3 % of the objective,
each from the machine of the next smaller price: for Blinex, which is not convex, the way from a small price
to a large one matters. A kernel machine is a linear one on a factor of the kernel matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from .._util.threads import available_cores, one_blas_thread
from .._util.typing import Array, Index, Labels
from ..display.axes import GREEN, NEGATIVE, POSITIVE
from ..kernels import RBF, kernel_matrix
from ..losses import Blinex, Log
from ..metrics import roc_auc
from ..problem import Problem, Solution
from ..solvers import Control, Lbfgs, Solver, run
from ..solvers.base import State
from ..solvers.kernel_lbfgs import pivoted_cholesky
from ..solvers.price_paths import solve_paths
from ._base import Line, Report, ReportSheet, Results, Settings, Table, TableJob
from ._findings import verdict
from ._measure import gmean, interval, rows_of, stratified_folds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TABLES"]


LOSSES = ("hinge", "log", "Blinex")
MACHINES = ("linear", "kernel")
FIGURES = {"gmean": "G-mean", "auc": "ROC-AUC"}
TITLE = "Blinex minus another loss"

# Kinds of noise and their shares. 5 % of 20 rare rows is a single row: too few for a level.
NOISE = {"any label": (0.0, 0.05, 0.1, 0.2, 0.3), "rare rows hidden": (0.0, 0.1, 0.2, 0.3)}
RATIOS = (10, 30, 100)

MOST_TRAINING, MOST_TEST = 480, 2_000  # rows of a split
MAJORITY = 500  # rows of it under growing imbalance
OUTER, INNER = 5, 3  # folds

# b(eᵃ − a − 1) is 0.5, 0.7, 0.9 and 0.8: from nearly symmetric to far higher costs for a rare row.
SHAPES = ((0.3, 10.0), (1.0, 1.0), (2.0, 0.2), (3.0, 0.05))
PRICES = (0.003, 0.03, 0.3, 3.0, 30.0, 300.0)
_TOL = 3e-3  # of the objective


class Candidate(NamedTuple):
    """A price, and for Blinex its a and b."""

    price: float
    a: float = 0.0
    b: float = 0.0


class Condition(NamedTuple):
    """What is done to the training rows: a share of wrong labels of a kind, or a ratio of the classes."""

    kind: str
    level: float

    @property
    def words(self) -> str:
        return f"1 : {self.level:g}" if self.kind == "ratio" else f"{self.kind}, {100 * self.level:g} %"


class Split(NamedTuple):
    """Features and labels of a training part, whose labels may be wrong, and of a test part."""

    X: Array
    y: Labels
    X_test: Array
    y_test: Labels


# --- the data ---


def _all_rows(settings: Settings, name: str) -> tuple[Array, Labels]:
    """All rows of a set, the official test rows with the others; +1 is the rarer class."""
    (X, y), data = rows_of(settings, name), settings.load(name)
    if data.X_test is not None and data.y_test is not None:
        X, y = np.vstack([X, data.X_test]), np.concatenate([y, data.y_test])
    return X, y if np.mean(y > 0) <= 0.5 else -y


def stratified(y: Labels, most: int, rng: np.random.Generator) -> Index:
    """At most `most` places of y, in order, with the shares of the classes kept.

    >>> y = np.repeat([1, -1], [20, 180])
    >>> y[stratified(y, 50, np.random.default_rng(0))].tolist().count(1)
    5
    """
    rare, common = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    if y.size <= most:
        return np.arange(y.size)
    count = max(1, round(most * rare.size / y.size))
    chosen = rng.choice(rare, count, replace=False), rng.choice(common, most - count, replace=False)
    return np.sort(np.concatenate(chosen))


def with_noise(y: Labels, condition: Condition, rng: np.random.Generator) -> Labels:
    """Labels of which a share is wrong: of all rows, or of the rare ones, which are then labelled as common."""
    of = np.flatnonzero(y > 0) if condition.kind == "rare rows hidden" else np.arange(y.size)
    wrong = rng.choice(of, round(condition.level * of.size), replace=False)
    noisy = y.copy()
    noisy[wrong] *= -1
    return noisy


def with_ratio(y: Labels, ratio: float, most: int, rng: np.random.Generator) -> Index:
    """At most `most` common rows, and one rare row for every `ratio` of them, but at least one for each inner fold."""
    rare, common = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    common = rng.choice(common, min(most, common.size), replace=False)
    count = min(rare.size, max(INNER, round(common.size / ratio)))
    return np.sort(np.concatenate([rng.choice(rare, count, replace=False), common]))


def _split(X: Array, y: Labels, condition: Condition, trial: int, seed: int) -> Split:
    """The trial's rows, standardised by its training part; the same rows for every share of wrong labels."""
    train, test = stratified_folds(y, OUTER, seed + trial // OUTER)[trial % OUTER]  # new folds for every five trials
    rng = np.random.default_rng([seed, trial, 0])
    test = test[stratified(y[test], MOST_TEST, rng)]
    if condition.kind == "ratio":
        train = train[with_ratio(y[train], condition.level, MAJORITY, rng)]
        labels = y[train]
    else:
        train = train[stratified(y[train], MOST_TRAINING, rng)]
        labels = with_noise(y[train], condition, np.random.default_rng([seed, trial, 1]))
    scaler = StandardScaler().fit(X[train])
    varied = X[train].max(axis=0) > X[train].min(axis=0)
    return Split(scaler.transform(X[train])[:, varied], labels, scaler.transform(X[test])[:, varied], y[test])


def kernel_features(X: Array, others: Array) -> tuple[Array, Array]:
    """Features whose inner products are those of the RBF kernel with γ = 1/columns, exactly, on the rows of X."""
    kernel = RBF(gamma=1.0 / X.shape[1])
    factor, pivots = pivoted_cholesky(np.array(kernel_matrix(kernel, X, X, dtype=np.float64), order="C"))
    across = np.asarray(kernel_matrix(kernel, others, X[pivots], dtype=np.float64))
    return factor, np.ascontiguousarray(solve_triangular(factor[pivots], across.T, lower=True).T)


# --- the machines ---


class CoarseLbfgs(Lbfgs):
    """L-BFGS that stops at tol: the last digits cost more than the fit, and a search does not need them."""

    def finish(self, problem: Problem, state: State, solution: Solution) -> bool:
        return Solver.finish(self, problem, state, solution)


def candidates(loss: str, quick: bool = False) -> list[Candidate]:
    """As many candidates for each loss; prices ascend for each a and b."""
    shapes, prices = (SHAPES[:2], PRICES[1:4:2]) if quick else (SHAPES, PRICES)
    if loss == "Blinex":
        return [Candidate(price, a, b) for a, b in shapes for price in prices]
    return [Candidate(float(price)) for price in np.geomspace(prices[0], prices[-1], len(shapes) * len(prices))]


@one_blas_thread()
def machines(loss: str, X: Array, y: Labels, tried: Sequence[Candidate]) -> tuple[Array, Array]:
    """Coefficients and intercepts of the candidates, class costs balanced, the intercept free."""
    costs = compute_sample_weight("balanced", y)
    if loss == "hinge":
        prices = np.array([[candidate.price] for candidate in tried]) * costs
        found = solve_paths(X @ X.T, [np.arange(y.size)], y, prices)
        return found.beta[0] @ X, found.intercept[0]
    coef, intercept = np.zeros((len(tried), X.shape[1])), np.zeros(len(tried))
    labels, rows = y.astype(np.float64), np.ascontiguousarray(X)
    for i, (price, a, b) in enumerate(tried):
        problem = Problem(rows, labels, price * costs, Blinex(a, b) if loss == "Blinex" else Log())
        control = Control(tol=_TOL, certify=False)
        if i and (a, b) == tried[i - 1][1:]:
            control.coef, control.intercept = coef[i - 1], float(intercept[i - 1])
        solution = run(problem, CoarseLbfgs(), control)
        coef[i], intercept[i] = solution.coef, solution.intercept
    return coef, intercept


def path_to(chosen: Candidate, tried: Sequence[Candidate]) -> list[Candidate]:
    """The chosen candidate after those from which the search reached it: without them Blinex may end elsewhere."""
    if chosen.a == 0.0:  # convex: all ways lead there
        return [chosen]
    return [each for each in tried if each[1:] == chosen[1:] and each.price <= chosen.price]


def measure(y: Labels, scores: Array) -> dict[str, float]:
    """G-mean and ROC-AUC; a score of 0 is negative."""
    return {"gmean": gmean(y, np.where(scores > 0, 1, -1)), "auc": roc_auc(y, scores)}


def search(loss: str, X: Array, y: Labels, tried: Sequence[Candidate], seed: int) -> dict[str, Candidate]:
    """For each figure the best candidate by inner folds, whose labels are as wrong as those of the other rows."""
    total: dict[str, Array] = {figure: np.zeros(len(tried)) for figure in FIGURES}
    for rows, held in stratified_folds(y, INNER, seed):
        coef, intercept = machines(loss, X[rows], y[rows], tried)
        for i, scores in enumerate(coef @ X[held].T + intercept[:, None]):
            for figure, value in measure(y[held], scores).items():
                total[figure][i] += value
    return {figure: tried[int(np.argmax(values))] for figure, values in total.items()}


def _trial(X: Array, y: Labels, condition: Condition, settings: Settings, trial: int) -> dict[str, float]:
    """The figures of all machines on one split."""
    split = _split(X, y, condition, trial, settings.seed)
    features = {"linear": (split.X, split.X_test), "kernel": kernel_features(split.X, split.X_test)}
    found = {}
    for (machine, (train, test)), loss in product(features.items(), LOSSES):
        tried = candidates(loss, settings.quick)
        for figure, candidate in search(loss, train, split.y, tried, settings.seed + trial).items():
            coef, intercept = machines(loss, train, split.y, path_to(candidate, tried))
            found[f"{machine}/{loss}/{figure}"] = measure(split.y_test, test @ coef[-1] + intercept[-1])[figure]
    return found


def _run(settings: Settings, name: str, condition: Condition) -> dict[str, list[float]]:
    """One set under one condition: for every machine, loss and figure the values of the trials."""
    X, y = _all_rows(settings, name)
    measured = partial(_trial, X, y, condition, settings)
    with one_blas_thread(), ThreadPoolExecutor(available_cores()) as pool:
        trials = [*pool.map(measured, range(_trials(settings)))]
    return {cell: [trial[cell] for trial in trials] for cell in trials[0]}


# --- the reports ---


class Comparison(NamedTuple):
    """What the two tables differ in: the sets, what is done to their training rows, and the words for that."""

    sets: tuple[str, ...]
    quick_sets: tuple[str, ...]
    kinds: Mapping[str, tuple[float, ...]]
    axis: str


class ComparisonRun(NamedTuple):
    """A comparison, how it is run, and the results of its jobs, once there are any."""

    which: Comparison
    settings: Settings
    results: Results = {}

    @property
    def names(self) -> tuple[str, ...]:
        return self.which.quick_sets if self.settings.quick else self.which.sets

    @property
    def conditions(self) -> list[Condition]:
        return list(dict.fromkeys(each for kind in self.which.kinds for each in self.levels(kind)))

    def levels(self, kind: str) -> list[Condition]:
        """The conditions of a kind, mildest first; no noise has the name of the first kind."""
        found = [Condition(kind if level else "any label", level) for level in self.which.kinds[kind]]
        return [found[0], found[-1]] if self.settings.quick else found

    def key(self, name: str, condition: Condition) -> str:
        return f"{name}/{condition.words}/{_trials(self.settings)} trials"

    def values(self, name: str, condition: Condition, machine: str, loss: str, figure: str) -> list[float]:
        """A figure of each trial."""
        return self.results[self.key(name, condition)].figures[f"{machine}/{loss}/{figure}"]

    def mean(self, condition: Condition, machine: str, loss: str, figure: str) -> float:
        """The mean over the sets, each the mean over its trials."""
        return float(np.mean([self.values(name, condition, machine, loss, figure) for name in self.names]))

    def differences(self) -> list[Line]:
        """Blinex minus another loss on one set: mean over the trials, 95 % interval, and "better" or "worse"."""
        found = []
        for machine, figure, at, name, other in product(MACHINES, FIGURES, self.conditions, self.names, LOSSES[:-1]):
            ours, theirs = (self.values(name, at, machine, loss, figure) for loss in (LOSSES[-1], other))
            mean, half = interval(np.subtract(ours, theirs).tolist(), 1.0 / (OUTER - 1))
            note = verdict(mean, half, ("worse", "", "better"))
            found.append(Line((machine, FIGURES[figure], at.words, name, other), None, mean, half, note=note))
        return found


def _trials(settings: Settings) -> int:
    return settings.repeats(2 * OUTER, 2)


def _jobs(which: Comparison, settings: Settings) -> Iterator[TableJob]:
    run = ComparisonRun(which, settings)
    for name, condition in product(run.names, run.conditions):
        yield TableJob(run.key(name, condition), partial(_run, settings, name, condition))


def _report(which: Comparison, settings: Settings, results: Results) -> Report:
    run = ComparisonRun(which, settings, results)
    differences = run.differences()
    means = [
        Line((machine, FIGURES[figure], at.words, loss), None, run.mean(at, machine, loss, figure))
        for machine, figure, at, loss in product(MACHINES, FIGURES, run.conditions, LOSSES)
    ]
    title = "Mean over the sets, each the mean over its splits; parameters chosen by inner folds"
    sheets = [ReportSheet(title, ("machine", "figure", "training part", "loss"), means), _sheet_over_sets(differences)]
    for machine in MACHINES:
        lines = [replace(each, labels=each.labels[1:]) for each in differences if each.labels[0] == machine]
        title, columns = f"{TITLE}, set by set: {machine} machines", ("figure", "training part", "set", "minus")
        sheets.append(ReportSheet(title, columns, lines, spread="95 % interval over the splits"))
    count, (better, worse) = len(differences), _verdicts(differences)
    overall = (
        f"Of {count} differences (set, training part, machine, figure, other loss), {better} are above 0 and {worse} "
        f"below 0 by their 95 % interval; chance alone would give about {0.025 * count:.0f} of each."
    )
    return Report(sheets, [overall, *_findings_by_kind(run)])


def _verdicts(differences: Sequence[Line]) -> tuple[int, int]:
    """How many are better, and how many worse."""
    notes = [difference.note for difference in differences]
    return notes.count("better"), notes.count("worse")


def _sheet_over_sets(differences: Sequence[Line]) -> ReportSheet:
    groups: dict[tuple[str, ...], list[Line]] = {}
    for difference in differences:
        machine, figure, condition, _, other = difference.labels
        groups.setdefault((machine, figure, condition, other), []).append(difference)
    lines = []
    for labels, group in groups.items():
        better, worse = _verdicts(group)
        note = f"{better} better, {worse} worse of {len(group)}"
        lines.append(Line(labels, None, *interval([each.ours or 0.0 for each in group]), note=note))
    title = f"{TITLE}, mean over the sets; the note counts sets whose own interval excludes 0"
    columns = ("machine", "figure", "training part", "minus")
    return ReportSheet(title, columns, lines, spread="95 % interval over the sets")


def _findings_by_kind(run: ComparisonRun) -> Iterator[str]:
    """From the mildest to the worst condition of each kind: what each loss has at both."""
    for kind, machine, (figure, title) in product(run.which.kinds, MACHINES, FIGURES.items()):
        first, *_, last = run.levels(kind)
        ends = {loss: [run.mean(at, machine, loss, figure) for at in (first, last)] for loss in LOSSES}
        each = ", ".join(f"{loss} {a:.3f} to {b:.3f}" for loss, (a, b) in ends.items())
        yield f"{title} of the {machine} machines, {first.words} to {last.words}: {each}."


def _draw(which: Comparison, settings: Settings, results: Results, figure: Figure) -> None:
    """Each figure against the level, averaged over the sets, for the three losses."""
    run, panels = ComparisonRun(which, settings, results), list(product(which.kinds, MACHINES))
    axes = figure.subplots(len(FIGURES), len(panels), sharex="col", sharey="row", squeeze=False)
    for ax, (name, (kind, machine)) in zip(axes.flat, product(FIGURES, panels), strict=True):
        levels = run.levels(kind)
        shown = [level.level if kind == "ratio" else 100 * level.level for level in levels]
        for loss, colour in zip(LOSSES, (NEGATIVE, GREEN, POSITIVE), strict=True):
            means = [run.mean(level, machine, loss, name) for level in levels]
            ax.plot(shown, means, marker="o", color=colour, label=loss)
        if kind == "ratio":
            ax.set_xscale("log")
            ax.set_xticks(shown, [f"{x:g}" for x in shown])
            ax.minorticks_off()
        ax.set(xlabel=which.axis, ylabel=f"{FIGURES[name]}, mean of {len(run.names)} sets")
        ax.label_outer()
    for ax, (kind, machine) in zip(axes[0], panels, strict=True):
        ax.set_title(machine if kind == "ratio" else f"{machine}, {kind}")
    axes[0, 0].legend()


WRONG_LABELS = Comparison(
    ("car_good", "ecoli_imu", "german_credit", "ionosphere", "mammography", "oil_spill", "spectrometer", "yeast_me2"),
    ("ecoli_imu", "ionosphere"),
    NOISE,
    "wrong labels, %",
)
FEWER_RARE = Comparison(
    ("euthyroid", "german_credit", "ijcnn1", "letter", "mammography", "segmentation"),
    ("euthyroid", "segmentation"),
    {"ratio": RATIOS},
    "common rows to a rare one",
)
TABLES = tuple(
    Table(
        name, f"Blinex against hinge and log with {what}", "blinex", which.sets,
        partial(_jobs, which), partial(_report, which), draw=partial(_draw, which),
    )
    for name, what, which in (
        ("blinex-noise", "wrong labels in the training part", WRONG_LABELS),
        ("blinex-imbalance", "ever fewer rows of the rare class", FEWER_RARE),
    )
)  # fmt: skip
