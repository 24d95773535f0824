"""The generalized weighted loss (GWL): Tables I to IV, weights from densities for SVC, on four sets.

The paper takes the best mean F1 of a grid on the folds that it is measured on.
Each table here has four parts:

    the paper's rows    chosen as in the paper, on the folds of one seed
    more folds          the same on the folds of other seeds
    nested folds        GWL against w = 1, all settings chosen by inner folds
    parts               the best composition of what evenmargin has, chosen as in the paper

Weights are those of the training rows of a fold, computed from these alone. One
kernel matrix serves all folds, weights and C at a γ_K (`solvers/price_paths.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.svm import SVC

from .._util.threads import Workers
from .._util.typing import Array, Labels
from ..auto.views import PiecewiseLinear, Standard, View
from ..density import SCHEMES
from ..kernels import RBF, Kernel, Laplacian
from ._base import Line, Record, Report, ReportSheet, Results, Settings, Table, TableJob, paper_figures
from ._findings import figures, line, many, records, seconds, verdict
from ._measure import Fold, interval, mean, rows_of, stratified_folds
from .gwl_search import LARGEST, Family, Grid, KernelRows, f1, families_of, search, standardised, train

__all__ = ["TABLES"]

PLAIN, ONES = "sklearn.svm.SVC", "GWL SVC"


class PaperTable(NamedTuple):
    """A table of the paper: `rows` has the mean F1 and the time of each of its rows, as printed."""

    number: str
    label: str
    data: str
    standardise: bool
    seeds: int  # of folds
    rows: dict[str, tuple[float | None, str]]

    @property
    def best(self) -> tuple[str, float]:
        """The paper's best row with weights from densities."""
        rows = [(label, paper) for label, (paper, _) in self.rows.items() if label.startswith("GWL(") and paper]
        return max(rows, key=lambda row: row[1])


# Table I has four rows GWL(8) and no GWL(7): the first is read as GWL(7), the others as draws of GWL(8).
PRINTED = paper_figures("gwl")
SETS = [
    PaperTable(**facts, rows={label: row[place] for label, row in PRINTED["rows"].items() if row[place]})
    for place, facts in enumerate(PRINTED["tables"])
]


def _powers(*exponents: float) -> tuple[float, ...]:
    return tuple(float(10.0**exponent) for exponent in exponents)


FULL = Grid(_powers(*(-4 + k / 3 for k in range(15))), _powers(*range(-2, 7)), _powers(*range(-3, 2)))
NESTED = Grid(FULL.gamma_K[::2], FULL.C, FULL.gamma_S[1:4])
QUICK = Grid(_powers(-3, -2, -1, -0.5, 0), _powers(*range(-1, 4)), _powers(-2, 0))
QUICK_NESTED = Grid(_powers(-3, -1.5, -0.5), _powers(-1, 0, 1, 2), _powers(-1))
QUICK_STATLOG = Grid(_powers(-2, -1.5), _powers(0, 1), _powers(-2))
QUICK_STATLOG_NESTED = Grid(_powers(-2), _powers(0, 1), _powers(-2))

# Of the compositions; γ_K and γ_S in units of those of the median distance.
PARTS = Grid(
    _powers(*np.arange(-1.5, 1.01, 1 / 3)), _powers(*range(-2, 4)), _powers(-1, 0, 1), (0.5, 1.0, 2.0, 4.0),
    tuple(float(cut) for cut in np.arange(-16, 17) / 20), (0.5, 0.7, 0.8, 0.9, 1.1, 1.25, 1.5, 2.0),
)  # fmt: skip
# Of the finer grid around the best of these: factors of its values, then thresholds and z.
STEPS = Grid(
    _powers(*np.arange(-3, 4) / 10), _powers(-1, -0.5, 0, 0.5, 1), _powers(-0.5, 0, 0.5), (0.75, 1.0, 4 / 3),
    tuple(float(cut) for cut in np.arange(-40, 41) / 50), PARTS.z,
)  # fmt: skip
QUICK_PARTS = Grid(_powers(-0.5, 0.25), _powers(0, 1), _powers(0), (1.0, 2.0), (-0.2, 0.0, 0.2), (0.8, 1.25))
QUICK_STEPS = Grid(_powers(-0.2), _powers(0), _powers(0), (1.0,), (-0.1, 0.0, 0.1), (0.9, 1.1))

VIEWS: dict[str, type[View] | None] = {"raw": None, "standardised": Standard, "ramps": PiecewiseLinear}
KERNELS: dict[str, tuple[Callable[[float], Kernel], str]] = {
    "RBF": (RBF, "sqeuclidean"),
    "Laplacian": (Laplacian, "cityblock"),
}


class Run(NamedTuple):
    """A table of the paper, how it is run, and the results of its jobs, once there are any."""

    which: PaperTable
    settings: Settings
    results: Results = {}

    @property
    def seeds(self) -> range:
        """The seeds of the folds."""
        return range(self.settings.seed, self.settings.seed + self.settings.repeats(self.which.seeds, 1))

    def grid(self, nested: bool = False) -> Grid:
        if not self.settings.quick:
            return NESTED if nested else FULL
        if self.which.label == "Statlog":  # three times the rows
            return QUICK_STATLOG_NESTED if nested else QUICK_STATLOG
        return QUICK_NESTED if nested else QUICK

    def row(self, label: str) -> list[Record]:
        """The records of a row of the table, one for each seed."""
        return [self.results[f"folds {seed}/{label}"] for seed in self.seeds]

    def f1(self, label: str) -> list[float]:
        return figures(self.row(label), "f1")

    @property
    def compositions(self) -> list[tuple[str, str]]:
        """Views and kernels."""
        return list(product(("standardised",) if self.settings.quick else VIEWS, KERNELS))

    def nested(self) -> dict[str, list[float]]:
        """F1 on all outer folds: of both arms, and of GWL minus w = 1."""
        arms = ("w = 1", "GWL")
        ones, weighted = ([found["f1"] for found in figures(records(self.results, "nested "), arm)] for arm in arms)
        return {"w = 1": ones, "GWL": weighted, "GWL less w = 1": np.subtract(weighted, ones).tolist()}


# --- chosen as in the paper ---


def _row(run: Run, label: str, seed: int) -> dict[str, Any]:
    """One row of the paper's table, on the folds of a seed; the German rows standardised, over all of them."""
    X, y = rows_of(run.settings, run.which.data)
    if run.which.standardise:
        X = standardised(X, np.arange(y.size))
    grid, folds = run.grid(), stratified_folds(y, 5, seed)
    with Workers() as pool:
        if label == PLAIN:
            return _plain(X, y, folds, grid, pool)
        draw = ("second" in label) + 2 * ("third" in label)
        own = int(np.random.default_rng([seed, draw]).integers(1 << 31))  # of the random weights
        scheme = None if label == ONES else SCHEMES[int(label[4]) - 1]
        return search(KernelRows(X, y), folds, grid, families_of([scheme], grid.gamma_S, own), pool)


def _plain(X: Array, y: Labels, folds: Sequence[Fold], grid: Grid, pool: Workers) -> dict[str, Any]:
    """scikit-learn's own SVC over γ_K and C."""
    C = [value for value in grid.C if value <= LARGEST]
    mean = np.zeros((len(grid.gamma_K), len(C)))

    def task(cell: int) -> None:
        k, c = divmod(cell, len(C))
        for rows, test in folds:
            svc = SVC(C=C[c], gamma=grid.gamma_K[k]).fit(X[rows], y[rows])
            mean[k, c] += float(f1(svc.decision_function(X[test]), y[test] > 0)) / len(folds)

    pool.each(task, range(mean.size))
    k, c = np.unravel_index(int(np.argmax(mean)), mean.shape)
    return {"f1": float(mean[k, c]), "gamma_K": grid.gamma_K[k], "C": C[c], "candidates": mean.size}


# --- nested folds ---


def _nested(run: Run, seed: int, fold: int) -> dict[str, Any]:
    """F1 of GWL and of w = 1 on one outer fold, with everything chosen by inner folds."""
    X, y = rows_of(run.settings, run.which.data)
    own, test = stratified_folds(y, 5, seed)[fold]
    rows = KernelRows(standardised(X, own) if run.which.standardise else X, y)
    inner = [(own[a], own[b]) for a, b in stratified_folds(y[own], 5, seed)]
    grid, found = run.grid(nested=True), {}
    schemes: dict[str, Sequence[str | None]] = {"w = 1": (None,), "GWL": SCHEMES[:7]}
    with Workers() as pool:
        for arm, some in schemes.items():
            best = search(rows, inner, grid, families_of(some, grid.gamma_S), pool)
            costs = rows.costs(Family(best["scheme"], best["gamma_S"]), own)
            scores = train(rows.gram(best["gamma_K"]), y, [(own, costs)], [best["C"]], pool)[0][0, 0, test]
            reached = float(np.nan_to_num(f1(scores, y[test] > 0)))  # a machine that cannot be trained finds no row
            found[arm] = {**best, "f1": reached, "inner": best["f1"]}
    return found


# --- compositions of parts ---


def _composition(run: Run, view: str, kernel: str) -> dict[str, Any]:
    """The best of all class costs, densities, thresholds and z, on the folds that it is measured on.

    It comes from a coarse grid, then from a finer one around its best; the winner is then
    measured on the folds of other seeds as well.
    """
    settings = run.settings
    rows = _viewed(*rows_of(settings, run.which.data), view, kernel)
    grid, steps = (QUICK_PARTS, QUICK_STEPS) if settings.quick else (PARTS, STEPS)
    folds = stratified_folds(rows.y, 5, settings.seed)
    with Workers() as pool:
        coarse = search(rows, folds, grid, _all_families(grid), pool)
        centre = {**coarse, "gamma_S": coarse["gamma_S"] or max(grid.gamma_S)}
        near = {name: tuple(centre[name] * step for step in getattr(steps, name)) for name in Grid._fields[:4]}
        around = steps._replace(**near)
        fine = search(rows, folds, around, _all_families(around), pool)
        best = max(coarse, fine, key=lambda found: float(found["f1"]))
        others = [stratified_folds(rows.y, 5, settings.seed + k) for k in range(1, 2 if settings.quick else 6)]
        elsewhere = [search(rows, other, *_single_grid(best), pool)["f1"] for other in others]
    total = sum(each.size(_all_families(each)) for each in (grid, around))
    return {**best, "coarse": coarse["f1"], "candidates": total, "elsewhere": elsewhere}


def _viewed(X: Array, y: Labels, view: str, kernel: str) -> KernelRows:
    """A view of all rows, with γ counted in units of that of the median distance."""
    chosen, (kind, metric) = VIEWS[view], KERNELS[kernel]
    if chosen is not None:
        X = chosen().fit(X, np.ones(y.size)).transform(X).astype(np.float64)
    unit, near = (1.0 / float(np.median(pdist(X, each))) for each in (metric, "sqeuclidean"))
    return KernelRows(X, y, kind, unit, near, "mean")


def _all_families(grid: Grid) -> list[Family]:
    return [Family(None), *(Family(scheme, gamma) for gamma in grid.gamma_S for scheme in SCHEMES[:6])]


def _single_grid(best: dict[str, Any]) -> tuple[Grid, list[Family]]:
    """A grid of one composition."""
    grid = Grid(*(() if best[name] is None else (best[name],) for name in Grid._fields))
    return grid, [Family(best["scheme"], best["gamma_S"])]


# --- jobs ---


def _jobs(which: PaperTable, settings: Settings) -> Iterator[TableJob]:
    run = Run(which, settings)
    for seed, label in product(run.seeds, which.rows):
        yield TableJob(f"folds {seed}/{label}", partial(_row, run, label, seed))
    for seed, fold in product(run.seeds, range(5)):
        yield TableJob(f"nested {seed}/fold {fold}", partial(_nested, run, seed, fold))
    for view, kernel in run.compositions:
        yield TableJob(f"parts/{view}/{kernel}", partial(_composition, run, view, kernel))


# --- report ---


def _report(which: PaperTable, settings: Settings, results: Results) -> Report:
    run = Run(which, settings, results)
    sheets = [_rows_sheet(run), _settings_sheet(run), _nested_sheet(run), _parts_sheet(run)]
    return Report(sheets, [_gain_finding(run), _nested_finding(run)])


def _rows_sheet(run: Run) -> ReportSheet:
    which, lines = run.which, []
    for label, (paper, printed) in which.rows.items():
        values, taken = run.f1(label), seconds(run.row(label)) / len(run.seeds)
        note = f"from {min(values):.4f} to {max(values):.4f}" + (f"; paper's time {printed}" if printed else "")
        if which.number == "I" and label == "GWL(7)":
            note += "; the paper labels this row GWL(8), like the three below it"
        lines.append(line((label,), paper, values, taken, note))
    title = (
        f"{which.label}: mean F1 over five folds, chosen as in the paper: the best of a grid on the same folds; mean "
        f"over {many(len(run.seeds), 'seed')} of the folds"
    )
    return ReportSheet(title, ("algorithm",), lines, digits=4, time="one seed")


def _settings_sheet(run: Run) -> ReportSheet:
    lines = []
    for label, (paper, _) in run.which.rows.items():
        best, taken = run.row(label)[0]
        density = "" if best.get("scheme") in (None, "random") else f", γ_S {best['gamma_S']:g}"
        note = f"γ_K {best['gamma_K']:.2g}, C {best['C']:g}{density}; best of {best['candidates']}"
        lines.append(Line((label,), paper, best["f1"], seconds=taken, note=note))
    title = (
        f"{run.which.label}: the folds of seed {run.settings.seed} alone, and the best settings on them, of those "
        f"whose mean price of a row is at most {LARGEST:g}"
    )
    return ReportSheet(title, ("algorithm",), lines, digits=4)


def _nested_sheet(run: Run) -> ReportSheet:
    lines = [Line((label,), None, *interval(values, overlap=0.25)) for label, values in run.nested().items()]
    title = (
        f"{run.which.label}: mean F1 over nested folds: γ_K, C, γ_S and the scheme (1 to 7) chosen by five inner folds "
        f"({len(run.seeds)} × 5 outer folds)"
    )
    spread = "half width of a 95 % interval, for overlapping folds"
    return ReportSheet(title, ("machine",), lines, digits=4, spread=spread)


def _parts_sheet(run: Run) -> ReportSheet:
    lines = []
    for view, kernel in run.compositions:
        best, taken = run.results[f"parts/{view}/{kernel}"]
        density = "none" if best["scheme"] is None else f"{best['scheme']} (mean 1, γ_S {best['gamma_S']:.2g})"
        moved = f"z {best['z']:g}" if best["cut"] is None else f"threshold {best['cut']:g}"
        note = (
            f"γ_K {best['gamma_K']:.2g}, C {best['C']:.2g}, cost of the positive class {best['class_cost']:.2g}, "
            f"density {density}, {moved}; the coarse grid alone {best['coarse']:.4f}; {best['candidates']} candidates; "
            f"on the folds of other seeds {mean(best['elsewhere']):.4f}"
        )
        lines.append(Line((view, kernel), run.which.best[1], best["f1"], seconds=taken, note=note))
    title = (
        f"{run.which.label}: the best composition of parts beside the paper's best GWL, chosen as in the paper: the "
        f"best of a grid, and of a finer grid around that, on the same folds (stratified, seed {run.settings.seed}), "
        "and therefore optimistic; scaling uses all rows, without labels; γ in units of that of the median distance"
    )
    return ReportSheet(title, ("rows", "kernel"), lines, digits=4, time="its whole grid")


def _gain_finding(run: Run) -> str:
    gains = {label: float(np.mean(np.subtract(run.f1(label), run.f1(ONES)))) for label in run.which.rows}
    density = [label for label in gains if label.startswith("GWL(") and "(8)" not in label]
    best, (name, most) = max(density, key=gains.__getitem__), run.which.best
    random = " and ".join(f"{gain:+.4f}" for label, gain in gains.items() if label.startswith("GWL(8)"))
    return (
        f"Chosen on the folds it is measured on, {best} is the best of the schemes with {mean(run.f1(best)):.4f}, "
        f"{gains[best]:+.4f} against w = 1; random weights, GWL(8): {random}. The paper's best is {name} with "
        f"{most:.4f}."
    )


def _nested_finding(run: Run) -> str:
    average, half = interval(run.nested()["GWL less w = 1"], overlap=0.25)
    said = verdict(average, half, ("it loses", "no gain is shown", "it gains"))
    return (
        f"With everything chosen by inner folds, the F1 of GWL minus that of w = 1 is {average:+.4f} ± {half:.4f} (95 "
        f"% interval): {said}."
    )


TABLES = tuple(
    Table(
        f"gwl-table{place}", f"Table {which.number}, SVC with weights from densities on {which.label}", "gwl",
        (which.data,), partial(_jobs, which), partial(_report, which),
    )
    for place, which in enumerate(SETS, start=1)
)  # fmt: skip
