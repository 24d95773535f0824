"""Cross-fitting: machines of a view on all folds but one, their out-of-fold scores, and their mean.

Classes cost n/(2·n_class). Up to `Plan.exact` rows machines are exact, on up to `Plan.rows` of them each; above, they
are linear on a Nyström map.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from .._input.checks import ConvergenceWarning
from .._util.threads import Workers
from .._util.typing import Array, Floats, Index, Single
from ..kernels import RBF, Kernel, kernel_dot, kernel_matrix
from ..linear import LinearSVM
from ..nystroem import StratifiedNystroem
from ..solvers.price_paths import solve_paths
from .plan import Plan
from .rows import ClassRows, Split, ViewRows, fold_splits, median_distance, some_rows
from .views import View

_FOCUS = (0.4, 1.0)  # g and C of the machine whose slopes weight the columns
_FOCUS_ROWS = 1000
_FEW = 256  # support vectors up to which scores are in float64
_TOL = 1e-3
_LINEAR_TOL, _LINEAR_ITERATIONS = 1e-2, 100


@dataclass
class Expansion:
    """Σ β_j K(z_j, z·scale) + b."""

    kernel: Kernel
    scale: Single | None
    support: Single
    beta: Single
    intercept: float

    def score(self, Z: Single, workers: Workers | None) -> Array:
        if self.scale is not None:
            Z = Z * self.scale
        # Few terms are summed in float64, where it costs nothing, so that a row's score does not depend on the others.
        dtype = np.float32 if self.beta.size > _FEW else np.float64
        return kernel_dot(self.kernel, Z, self.support, self.beta, dtype=dtype, workers=workers) + self.intercept


@dataclass
class Member:
    """A view with its mean machine, and the line that turns its scores into log-odds."""

    name: str
    view: View
    machine: Expansion
    slope: float
    offset: float

    def log_odds(self, X: Array, workers: Workers | None) -> Array:
        return np.asarray(self.slope * self.machine.score(self.view.transform(X), workers) + self.offset)


def fit_member(
    seen: ViewRows, setting: tuple[float, float], rounds: list[Index], rows: ClassRows, plan: Plan
) -> tuple[Member, Array]:
    """The member, and its out-of-fold scores, averaged over the repeats; `setting` is (g, C)."""
    n = rows.positive.size
    mapped = n > plan.exact
    most = n if mapped else plan.rows
    (g, C), scores, machines = setting, np.zeros(n), []

    def fit_machines(splits: list[Split]) -> list[SplitMachines]:
        splits = [
            (some_rows(train, rows.positive, most, 0.5, rows.seed + k), test) for k, (train, test) in enumerate(splits)
        ]
        if mapped:
            return _fit_mapped(seen, splits, setting, rows, plan.landmarks)
        return fit_grid(seen, splits, (g,), (C,), rows, most)

    for fold in rounds:
        found = fit_machines(fold_splits(fold, rows.positive))
        for one in found:
            scores[one.test] += one.scores[0, 0] / len(rounds)
        machines += found
    # Where each fold has columns or a map of its own, one machine on all rows is as good as the mean, and much smaller.
    if seen.spec.focused or mapped:
        machines = fit_machines([(np.arange(n), np.arange(0))])
    machine = _mean_machine(machines, seen.spec.kernel(g / machines[0].median))
    return Member(seen.spec.name, seen.view, machine, *_log_odds(scores, rows)), scores


def crossed_log_odds(scores: Array, fold: Index, rows: ClassRows) -> Array:
    """Log-odds of each fold by the logistic of the others."""
    out = np.empty(scores.size)
    for own, others in rows.known_folds(fold):
        slope, offset = _log_odds(scores[others], rows.only(others))
        out[own] = slope * scores[own] + offset
    return out


def _log_odds(scores: Array, rows: ClassRows) -> tuple[float, float]:
    """Slope and intercept of a balanced logistic in the standardised score, at a ridge of 1; by Newton's method."""
    centre = float(np.average(scores, weights=rows.weight))
    spread = float(np.sqrt(np.average((scores - centre) ** 2, weights=rows.weight))) or 1.0
    columns = np.stack([(scores - centre) / spread, np.ones(scores.size)])
    cost, theta, ridge = rows.costs, np.array([1.0, 0.0]), np.diag([1.0, 1e-9])
    for _ in range(50):
        share = expit(theta @ columns)
        gradient = columns @ (cost * (share - rows.positive)) + ridge @ theta
        step = np.linalg.solve((columns * (cost * share * (1.0 - share))) @ columns.T + ridge, gradient)
        theta = theta - step * min(1.0, 2.0 / float(np.abs(step).max() + 1e-300))
        if np.abs(step).max() < 1e-9:
            break
    slope = max(float(theta[0]), 1e-3) / spread  # a view that ranks backwards by chance must not be inverted
    return slope, float(theta[1]) - slope * centre


@dataclass
class SplitMachines:
    """The machines of a split, for each g and C, and their out-of-fold scores."""

    test: Index
    Z: Single  # what the view shows of the rows, in columns of the split's own
    scale: Single | None  # of the columns
    median: float
    support: Index  # rows that may have coefficients
    beta: Array  # (n_g, n_C, those rows)
    intercept: Floats  # (n_g, n_C)
    scores: Array  # (n_g, n_C, rows to score)


def fit_grid(
    seen: ViewRows, splits: list[Split], gs: tuple[float, ...], Cs: tuple[float, ...], rows: ClassRows, most: int
) -> list[SplitMachines]:
    """Machines for every g and C; splits share kernel matrices unless each has columns of its own or many rows."""
    shared = rows.positive.size <= 1.25 * most and not seen.spec.focused
    groups = [splits] if shared else [[split] for split in splits]
    return [machines for group in groups for machines in _fit_group(seen, group, gs, Cs, rows)]


def _fit_group(
    seen: ViewRows, splits: list[Split], gs: tuple[float, ...], Cs: tuple[float, ...], rows: ClassRows
) -> list[SplitMachines]:
    Z, scale, median = _columns(seen, splits[0][0], rows)
    used = np.unique(np.concatenate([train for train, _ in splits]))
    folds = [np.searchsorted(used, train) for train, _ in splits]
    prices, shape = np.zeros((len(splits), len(Cs), used.size)), (len(gs), len(Cs))
    found = []
    for price, fold, (train, test) in zip(prices, folds, splits, strict=True):
        price[:, fold] = np.multiply.outer(Cs, rows.only(train).costs)
        empty = np.empty((*shape, train.size)), np.empty(shape), np.empty((*shape, test.size))
        found.append(SplitMachines(test, Z, scale, median, train, *empty))
    for i, g in enumerate(gs):
        kernel = seen.spec.kernel(g / median)
        K = np.asarray(kernel_matrix(kernel, Z[used], Z[used], dtype=np.float32, workers=rows.workers, compiled=True))
        paths = solve_paths(K, folds, rows.signs[used], prices, tol=_TOL, workers=rows.workers)
        for k, one in enumerate(found):
            one.beta[i], one.intercept[i] = paths.beta[k], paths.intercept[k]
            place = np.minimum(np.searchsorted(used, one.test), used.size - 1)
            if np.array_equal(used[place], one.test):
                one.scores[i] = paths.scores[k][:, place]
                continue
            beta = one.beta[i].T.astype(np.float32)
            options: dict[str, Any] = {"dtype": np.float32, "workers": rows.workers, "compiled": True}
            sums = kernel_dot(kernel, Z[one.test], Z[one.support], beta, **options)
            one.scores[i] = sums.T + one.intercept[i][:, None]
    return found


def _fit_mapped(
    seen: ViewRows, splits: list[Split], setting: tuple[float, float], rows: ClassRows, landmarks: int
) -> list[SplitMachines]:
    """The same by linear machines on a Nyström map, for many rows.

    Each split has landmarks of its own: they are drawn by class, and must not know
    the labels of the rows to score.
    """
    found: list[Any] = [None] * len(splits)
    g, C = setting

    def task(k: int) -> None:
        train, test = splits[k]
        Z, scale, median = _columns(seen, train, replace(rows, workers=alone))
        own = rows.only(train)
        kernel = seen.spec.kernel(g / median)
        nystroem = StratifiedNystroem(kernel, n_components=landmarks, random_state=rows.seed, n_jobs=1)
        svm = LinearSVM(C, tol=_LINEAR_TOL, max_iter=_LINEAR_ITERATIONS)
        mapped = nystroem.fit(Z[train], own.positive).transform(Z[train])
        svm.fit(mapped, own.positive, sample_weight=own.costs)
        scores = nystroem.transform(Z[test]) @ svm.coef_[0] + svm.intercept_[0] if test.size else np.empty(0)
        beta = svm.coef_.astype(np.float64) @ nystroem.normalization_
        support = train[nystroem.component_indices_]
        found[k] = SplitMachines(test, Z, scale, median, support, beta[None], svm.intercept_[None], scores[None, None])

    with warnings.catch_warnings(), Workers(1) as alone:
        warnings.simplefilter("ignore", ConvergenceWarning)  # near enough: tol is for the last digits
        rows.workers.each(task, range(len(splits)))
    return found


def _columns(seen: ViewRows, train: Index, rows: ClassRows) -> tuple[Single, Single | None, float]:
    """What the view shows, the weights of its columns if it is focused, and the median distance then."""
    if not seen.spec.focused:
        return seen.Z, None, seen.median
    scale = focus(seen, train, rows)
    Z = seen.Z * scale
    return Z, scale, median_distance(seen.spec, Z)


def focus(seen: ViewRows, train: Index, rows: ClassRows) -> Single:
    """Weights of the columns: the root mean square slope of a first machine's score, class-balanced.

    The total variance of the columns stays what it was.
    """
    train = some_rows(train, rows.positive, _FOCUS_ROWS, 0.25, rows.seed)
    Z, own = seen.Z[train], rows.only(train)
    g, C = _FOCUS
    K = kernel_matrix(RBF(g / seen.median), Z, Z, dtype=np.float32, workers=rows.workers, compiled=True)
    cost = own.costs
    paths = solve_paths(K, [np.arange(train.size)], own.signs, C * cost[None], tol=1e-2)
    beta = paths.beta[0][0].astype(np.float32)
    slope = Z * (K @ beta)[:, None] - K @ (beta[:, None] * Z)
    steep = np.asarray((cost / cost.sum()) @ slope.astype(np.float64) ** 2)
    scale = np.sqrt(steep / max(float(steep.mean()), 1e-300) + 0.01)
    spread = Z.astype(np.float64).var(axis=0)
    kept = spread.sum() / max(float(spread @ scale**2), 1e-300)
    return np.asarray(scale * np.sqrt(kept), dtype=np.float32)


def _mean_machine(machines: list[SplitMachines], kernel: Kernel) -> Expansion:
    """The mean of machines that see the same columns, as one."""
    first = machines[0]
    beta = np.zeros(first.Z.shape[0])
    for one in machines:
        beta[one.support] += one.beta[0, 0] / len(machines)
    support = np.flatnonzero(beta)
    intercept = float(np.mean([one.intercept[0, 0] for one in machines]))
    return Expansion(kernel, first.scale, first.Z[support], beta[support].astype(np.float32), intercept)
