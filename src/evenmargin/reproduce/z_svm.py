"""The z-SVM paper: Table 2 and Figures 1 to 3, on five sets.

The paper gives γ = 1 and ten folds, and leaves open C, the scaling of the columns,
the upper end M of its search and which class of segmentation is positive. The
settings in `SETS` are readings whose figures come near the paper's. Its figures are
means over the folds: where it prints a G-mean of .3486 beside a sensitivity of .1833
(SMOTE on car), all rows together would give √.1833 = .428 times a factor near 1.

Columns are scaled by the training rows of each fold. SMOTE of N % adds N/100 times
the positive training rows, and z is chosen on the rows that the machine was
trained on.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from .. import papers
from .._util.typing import Array, Labels
from ..auto import EvenMarginClassifier
from ..display import BoundaryDistanceDisplay
from ..kernel import KernelSVM
from ..selection import SharedGridSearch
from ..zsvm import ZAdjustedClassifier
from ._base import Line, Record, Report, ReportSheet, Results, Settings, Table, TableJob, paper_figures
from ._findings import all_but, figures, line, many, number, records, seconds, share
from ._measure import Fold, confusion, gmean, mean, rows_of, sensitivity, stratified_folds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TABLES"]


FOLDS = 10
NEAR = 0.03  # of the paper's G-mean
FIGURES = {"gmean": "G-mean", "sensitivity": "sensitivity"}


class Benchmark(NamedTuple):
    """A set: the paper's name, our settings, and Table 2 as pairs of G-mean and sensitivity."""

    title: str
    scale: list[float]
    C: float
    svm: tuple[float, float]
    smote: tuple[float, float]
    zsvm: tuple[float, float]


SETS = {name: Benchmark(**printed) for name, printed in paper_figures("z-svm").items()}

# Searches for z, as arguments of `papers.zsvm`. The paper's M calls every row positive; M = 10 is another reading.
SEARCHES: dict[str, dict[str, Any]] = {
    "exact": {},
    "golden": {"search": "golden"},
    "golden10": {"search": "golden", "M": 10.0},
}
METHODS = {
    "svm": "SVM",
    "smote": "SMOTE 100 %",
    "exact": "z-SVM, exact search",
    "golden": "z-SVM, golden section",
    "golden10": "z-SVM, golden section, M = 10",
}
NESTED = {"chosen": "z-SVM, settings chosen", "auto": "EvenMarginClassifier"}
TITLES = METHODS | NESTED

RATES = tuple(range(100, 1001, 100))
GAMMAS = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)

GRID: dict[str, list[Any]] = {
    "estimator__kernelsvm__C": [0.1, 1.0, 10.0, 100.0],
    "estimator__kernelsvm__gamma": [0.01, 0.1, 1.0],
    "estimator__kernelsvm__class_weight": [None, "balanced"],
    "method": ["z", "threshold"],
}
QUICK_GRID = {**GRID, "estimator__kernelsvm__C": [1.0, 10.0], "estimator__kernelsvm__gamma": [0.1]}
INNER, QUICK_INNER = 5, 3  # folds


# --- rows ---


def oversampled(X: Array, y: Labels, rate: int, seed: int) -> tuple[Array, Labels]:
    """The rows, and rate/100 times the positive ones from SMOTE."""
    from imblearn.over_sampling import SMOTE

    positive = int(np.count_nonzero(y > 0))
    wanted = positive + round(positive * rate / 100)
    smote = SMOTE(sampling_strategy={1: wanted}, k_neighbors=min(5, positive - 1), random_state=seed)
    with warnings.catch_warnings():  # SMOTE warns where the paper's rates make the positive class the larger one
        warnings.simplefilter("ignore", UserWarning)
        more, labels = smote.fit_resample(X, y)
    return np.asarray(more, np.float64), np.asarray(labels, np.int64)


def measure(y: Labels, predicted: ArrayLike) -> dict[str, float]:
    """Both figures of a fold, and the counts that pooling needs."""
    tn, fp, fn, tp = confusion(y, predicted).values()
    counts = {"tp": tp, "tn": tn, "positives": tp + fn, "negatives": tn + fp}
    return {"gmean": gmean(y, predicted), "sensitivity": sensitivity(y, predicted), **counts}


def pooled(folds: Sequence[Mapping[str, Any]]) -> float:
    """The G-mean of the test rows of all folds together."""
    tp, tn, positives, negatives = (sum(fold[key] for fold in folds) for key in ("tp", "tn", "positives", "negatives"))
    return math.sqrt(tp / positives * tn / negatives)


# --- the paper's settings ---


def machine(case: Benchmark, X: Array, y: Labels, gamma: float = 1.0) -> KernelSVM:
    """The plain machine that z-SVM starts from."""
    return KernelSVM(case.C, gamma=gamma).fit(X, y)


def adjusted(svm: KernelSVM, X: Array, y: Labels, search: str) -> ZAdjustedClassifier:
    """z-SVM from a trained machine, which is not trained again."""
    return papers.zsvm(**SEARCHES[search], cv="prefit").set_params(estimator=svm).fit(X, y)


def _fold(
    case: Benchmark, X: Array, y: Labels, fold: Fold, plain: str, *, seed: int = 0, rate: int = 0, gamma: float = 1.0
) -> dict[str, Any]:
    """A fold of the plain machine, under the name `plain`, and of z-SVM from it with each search."""
    train, test = fold
    scaler = MinMaxScaler(tuple(case.scale)).fit(X[train])
    own, labels, others = scaler.transform(X[train]), y[train], scaler.transform(X[test])
    if rate:
        own, labels = oversampled(own, labels, rate, seed)
    svm = machine(case, own, labels, gamma)
    models = {plain: svm} | {search: adjusted(svm, own, labels, search) for search in SEARCHES}
    return {method: measure(y[test], model.predict(others)) for method, model in models.items()}


def _folds(settings: Settings, name: str, trial: int, plain: str, most: int = FOLDS, **options: Any) -> dict[str, Any]:
    """The figures of at most `most` folds, for each method."""
    (X, y), seed = rows_of(settings, name), settings.seed + trial
    folds = stratified_folds(y, FOLDS, seed)[:most]
    each = [_fold(SETS[name], X, y, fold, plain, seed=seed, **options) for fold in folds]
    return {method: [fold[method] for fold in each] for method in each[0]}


# --- settings chosen inside the folds ---


def _chosen(settings: Settings, name: str, trial: int, fold: int) -> dict[str, Any]:
    """z-SVM on one outer fold, with C, γ, class costs, and z or a threshold chosen by inner folds."""
    (X, y), seed = rows_of(settings, name), settings.seed + trial
    train, test = stratified_folds(y, FOLDS, seed)[fold]
    estimator = ZAdjustedClassifier(make_pipeline(StandardScaler(), KernelSVM()))
    grid, count = (QUICK_GRID, QUICK_INNER) if settings.quick else (GRID, INNER)
    inner = StratifiedKFold(count, shuffle=True, random_state=seed)
    search = SharedGridSearch(estimator, grid, scoring="balanced_accuracy", cv=inner).fit(X[train], y[train])
    C, costs, gamma, method = (search.best_params_[key] for key in sorted(GRID))
    words = f"{method}, C = {C:g}, γ = {gamma:g}, {'balanced' if costs else 'equal'} costs"
    return {**measure(y[test], search.predict(X[test])), "words": words}


def _auto(settings: Settings, name: str, trial: int, fold: int) -> dict[str, Any]:
    """EvenMarginClassifier, which chooses for itself, on the same fold."""
    (X, y), seed = rows_of(settings, name), settings.seed + trial
    train, test = stratified_folds(y, FOLDS, seed)[fold]
    return measure(y[test], EvenMarginClassifier(random_state=seed).fit(X[train], y[train]).predict(X[test]))


def _costly_folds(settings: Settings) -> int:
    """How many folds the slowest searches are run on."""
    return 2 if settings.quick else FOLDS


# --- Table 2 ---


def _trials(settings: Settings) -> range:
    return range(settings.repeats(3, 1))


def _auto_sets(settings: Settings) -> tuple[str, ...]:
    return ("yeast_me2", "segmentation") if settings.quick else tuple(SETS)


def _table2_jobs(settings: Settings) -> Iterator[TableJob]:
    trials = _trials(settings)
    for trial, name in product(trials, SETS):
        yield TableJob(f"{name}/SVM/trial {trial}", partial(_folds, settings, name, trial, "svm"))
        yield TableJob(f"{name}/SMOTE/trial {trial}", partial(_folds, settings, name, trial, "smote", rate=100))
    for trial, name, fold in product(trials, SETS, range(_costly_folds(settings))):
        yield TableJob(f"{name}/chosen/trial {trial}/fold {fold}", partial(_chosen, settings, name, trial, fold))
    for trial, name, fold in product(trials, _auto_sets(settings), range(_costly_folds(settings))):
        yield TableJob(f"{name}/auto/trial {trial}/fold {fold}", partial(_auto, settings, name, trial, fold))


class FoldFigures(NamedTuple):
    """The figures of the folds of each trial, for one method on one set."""

    trials: list[list[dict[str, Any]]]
    seconds: float

    def values(self, figure: str) -> list[float]:
        """The mean over the folds, for each trial; "pooled" is of all rows together."""
        if figure == "pooled":
            return [pooled(folds) for folds in self.trials]
        return [mean([fold[figure] for fold in folds]) for folds in self.trials]


Cells = Mapping[tuple[str, str], FoldFigures]  # by set and method


def _cell(settings: Settings, results: Results, name: str, method: str) -> FoldFigures:
    if method in NESTED:  # a job for each fold
        folds = [records(results, f"{name}/{method}/trial {trial}/") for trial in _trials(settings)]
        return FoldFigures([[record.figures for record in each] for each in folds], sum(map(seconds, folds)))
    job = "SMOTE" if method == "smote" else "SVM"
    found = [results[f"{name}/{job}/trial {trial}"] for trial in _trials(settings)]
    return FoldFigures(figures(found, method), seconds(found))


def _paper_figure(case: Benchmark, method: str, figure: str) -> float:
    pair = {"svm": case.svm, "smote": case.smote}.get(method, case.zsvm)
    return pair[figure == "sensitivity"]


def _lines(cells: Cells, methods: Iterable[str], titles: Mapping[str, str]) -> list[Line]:
    """A line for each set, method and figure; a figure without a title has no label."""
    lines = []
    for (name, case), method, (figure, title) in product(SETS.items(), methods, titles.items()):
        if cell := cells.get((name, method)):
            labels = (case.title, TITLES[method], *([title] if title else []))
            note = _most_chosen(cell) if method == "chosen" and figure == "gmean" else ""
            lines.append(line(labels, _paper_figure(case, method, figure), cell.values(figure), cell.seconds, note))
    return lines


def _table2_report(settings: Settings, results: Results) -> Report:
    cells = {
        (name, method): _cell(settings, results, name, method)
        for name, method in product(SETS, TITLES)
        if method != "auto" or name in _auto_sets(settings)
    }
    spread, columns = "standard deviation over the draws of folds", ("set", "method", "figure")
    by = f"{many(len(_trials(settings)), 'draw')} of ten folds"
    few = f", {_costly_folds(settings)} folds of each" if settings.quick else ""
    settings_title = (
        "The paper's settings, γ = 1, with C, scaling and class, which it leaves open, chosen to come near its figures "
        f"on these rows; mean over the folds of {by}"
    )
    pooled_title = f"The same, G-mean of all test rows together; {by}"
    chosen_title = f"Settings chosen inside the folds, beside the paper's z-SVM; {by}{few}"
    time = "a job: SVM and its z together"
    sheets = [
        ReportSheet(settings_title, columns, _lines(cells, METHODS, FIGURES), spread=spread, time=time),
        ReportSheet(pooled_title, columns[:2], _lines(cells, METHODS, {"pooled": ""}), spread=spread),
        ReportSheet(chosen_title, columns, _lines(cells, NESTED, FIGURES), spread=spread, time="all draws"),
    ]
    return Report(sheets, list(_table2_findings(cells)))


def _most_chosen(cell: FoldFigures) -> str:
    counted = Counter(fold["words"] for folds in cell.trials for fold in folds)
    words, count = counted.most_common(1)[0]
    return f"most often ({count} of {counted.total()} folds): {words}"


def _table2_findings(cells: Cells) -> Iterator[str]:
    means = {key: mean(cell.values("gmean")) for key, cell in cells.items()}
    for search in SEARCHES:
        away = {case.title: means[name, search] - case.zsvm[0] for name, case in SETS.items()}
        missed = [f"{title} {number(value, 3, '+')}" for title, value in away.items() if abs(value) > NEAR]
        yield (
            f"{METHODS[search]}, mean over the folds: {len(SETS) - len(missed)} of {len(SETS)} sets within {NEAR:g} of "
            f"the paper's G-mean{all_but(missed)}"
        )
    for method, title in NESTED.items():
        above = share(means[name, method] > SETS[name].zsvm[0] for name in SETS if (name, method) in means)
        yield f"{title} inside the folds: above the paper's z-SVM on {above} sets by G-mean, mean over the folds."


# --- Figure 1 ---


def _distances(settings: Settings, name: str) -> dict[str, Any]:
    """Mean score of the negative and of the positive rows, of machines trained on all of them."""
    X, y = rows_of(settings, name)
    X = MinMaxScaler(tuple(SETS[name].scale)).fit_transform(X)
    svm = machine(SETS[name], X, y)
    models: dict[str, Any] = {"svm": svm, **{search: adjusted(svm, X, y, search) for search in SEARCHES}}
    scores = {method: model.decision_function(X) for method, model in models.items()}
    found = {method: [float(each[y < 0].mean()), float(each[y > 0].mean())] for method, each in scores.items()}
    return {**found, "z": float(models["exact"].z_)}


def _fig1_jobs(settings: Settings) -> Iterator[TableJob]:
    for name in SETS:
        yield TableJob(name, partial(_distances, settings, name))


def _fig1_report(settings: Settings, results: Results) -> Report:
    lines = []
    for (name, case), method in product(SETS.items(), ("svm", *SEARCHES)):
        found, note = results[name].figures, f"z = {results[name].figures['z']:.4g}" if method == "exact" else ""
        for side, value, words in zip(("negative", "positive"), found[method], ("", note), strict=True):
            lines.append(Line((case.title, METHODS[method], side), None, value, note=words))
    title = "Mean score of the training rows, γ = 1; the boundary is at 0. The paper draws bars and prints no figures"
    positive = {name: [results[name].figures[method][1] for method in ("svm", "exact")] for name in SETS}
    wrong = [", ".join(SETS[name].title for name in SETS if positive[name][place] <= 0) or "none" for place in (0, 1)]
    findings = [
        f"The mean score of the positive rows is on the wrong side of the boundary of SVM on: {wrong[0]} (the paper "
        f"says abalone, car and yeast); of z-SVM on: {wrong[1]}.",
        f"z-SVM moves the boundary away from the positive rows on {share(b > a for a, b in positive.values())} sets.",
    ]
    return Report([ReportSheet(title, ("set", "method", "class"), lines)], findings)


def _fig1_draw(settings: Settings, results: Results, figure: Figure) -> None:
    axes = figure.subplots(1, len(SETS))
    for ax, (name, case) in zip(axes, SETS.items(), strict=True):
        before, after = (tuple(results[name].figures[method]) for method in ("svm", "exact"))
        BoundaryDistanceDisplay(before, after, ("−1", "+1")).plot(ax)
        ax.set_xlabel(case.title)  # the legend is where a title would be
        ax.set_xticks(ax.get_xticks(), ["SVM", "z-SVM"])
        if ax is not axes[0]:
            ax.set_ylabel("")
            ax.get_legend().remove()


# --- Figures 2 and 3: curves, averaged over the sets ---


class Curves(NamedTuple):
    """A figure of the paper: the plain machine and z-SVM from it, over one setting."""

    setting: str  # an argument of `_fold`
    axis: str
    plain: str
    points: tuple[float, ...]

    @property
    def names(self) -> dict[str, str]:
        return {self.plain: self.plain.upper(), **{method: METHODS[method] for method in SEARCHES}}

    def at(self, settings: Settings) -> tuple[float, ...]:
        return (self.points[0], self.points[-1]) if settings.quick else self.points

    def jobs(self, settings: Settings) -> Iterator[TableJob]:
        most, trials = 3 if settings.quick else FOLDS, range(settings.repeats(1, 1))
        for point, name, trial in product(self.at(settings), SETS, trials):
            run = partial(_folds, settings, name, trial, self.plain, most, **{self.setting: point})
            yield TableJob(f"{name}/{self.setting} {point:g}/trial {trial}", run)

    def records(self, results: Results, point: float) -> list[Record]:
        return [record for key, record in results.items() if f"/{self.setting} {point:g}/" in key]

    def means(self, settings: Settings, results: Results, method: str, figure: str) -> Array:
        """For each point the mean over the sets, each the mean over its folds."""
        found = [figures(self.records(results, point), method) for point in self.at(settings)]
        return np.array([mean([mean([fold[figure] for fold in folds]) for folds in each]) for each in found])

    def report(self, settings: Settings, results: Results) -> Report:
        points, names = self.at(settings), self.names
        means = {pair: self.means(settings, results, *pair) for pair in product(names, FIGURES)}
        taken = [seconds(self.records(results, point)) for point in points]
        lines = [
            Line((f"{point:g}", names[method], title), None, float(means[method, figure][i]), None, taken[i])
            for (i, point), method, (figure, title) in product(enumerate(points), names, FIGURES.items())
        ]
        title = "Mean over the five sets, each the mean over its folds. The paper draws curves and prints no figures"
        return Report([ReportSheet(title, (self.axis, "method", "figure"), lines)], list(self._findings(means)))

    def _findings(self, means: Mapping[tuple[str, str], Array]) -> Iterator[str]:
        for search in SEARCHES:
            above = [np.count_nonzero(means[search, figure] > means[self.plain, figure]) for figure in FIGURES]
            yield (
                f"{METHODS[search]}, is above {self.plain.upper()} at {above[0]} of {means[search, 'gmean'].size} "
                f"points by G-mean and at {above[1]} by sensitivity."
            )

    def draw(self, settings: Settings, results: Results, figure: Figure) -> None:
        axes = figure.subplots(1, len(FIGURES), sharey=True)
        for ax, (name, title) in zip(axes, FIGURES.items(), strict=True):
            for method, label in self.names.items():
                ax.plot(self.at(settings), self.means(settings, results, method, name), marker="o", label=label)
            ax.set(xlabel=self.axis, ylabel=f"{title}, mean of {len(SETS)} sets", ylim=(0.0, 1.0))
        axes[0].legend()


FIG2 = Curves("rate", "rate of SMOTE (%)", "smote", RATES)
FIG3 = Curves("gamma", "γ", "svm", GAMMAS)


TABLES = (
    Table(
        "z-svm-table2", "G-mean and sensitivity of SVM, SMOTE and z-SVM", "z-svm", tuple(SETS),
        _table2_jobs, _table2_report, needs=("imblearn",),
    ),
    Table(
        "z-svm-fig1", "Mean distance of both classes from the boundary, SVM and z-SVM", "z-svm", tuple(SETS),
        _fig1_jobs, _fig1_report, draw=_fig1_draw,
    ),
    Table(
        "z-svm-fig2", "SMOTE, and z-SVM on its machine, by the rate of SMOTE", "z-svm", tuple(SETS),
        FIG2.jobs, FIG2.report, needs=("imblearn",), draw=FIG2.draw,
    ),
    Table(
        "z-svm-fig3", "SVM and z-SVM, by γ", "z-svm", tuple(SETS),
        FIG3.jobs, FIG3.report, draw=FIG3.draw,
    ),
)  # fmt: skip
