"""Grids of SVMs with weights from densities, judged by F1 over folds, on one kernel matrix at each γ_K."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._util.threads import Workers
from .._util.typing import Array, Index, Labels, Mask
from ..density import DensityWeights
from ..kernels import RBF, Kernel, kernel_matrix
from ..solvers.price_paths import solve_paths
from ._measure import Fold

# Mean price of a row (C times its weight) above which machines are not tried: their margin is
# all but hard, and on rows that cannot be separated SMO takes seconds for each.
LARGEST = 1e4


class Grid(NamedTuple):
    """Values to try; for the random weights each γ_S is a draw."""

    gamma_K: tuple[float, ...]
    C: tuple[float, ...]
    gamma_S: tuple[float, ...]
    class_cost: tuple[float, ...] = (1.0,)  # of the positive class
    cut: tuple[float, ...] = (0.0,)  # thresholds of the score
    z: tuple[float, ...] = ()  # tried in place of a threshold

    def size(self, families: Sequence[Family]) -> int:
        """The number of candidates."""
        lengths = (self.gamma_K, self.class_cost, families, self.C, (*self.cut, *self.z))
        return math.prod(map(len, lengths))


class Family(NamedTuple):
    """Candidates that share the weights of their rows; without a scheme w = 1."""

    scheme: str | None
    gamma_S: float = 0.0
    seed: int = 0  # of random weights


class KernelRows(NamedTuple):
    """Rows and labels, the kernel, and the units in which its γ and that of the densities are counted."""

    X: Array
    y: Labels
    kernel: Callable[[float], Kernel] = RBF
    unit: float = 1.0  # of γ_K
    near: float = 1.0  # of γ_S
    normalize: str | None = None

    def gram(self, gamma: float) -> Array:
        kernel = self.kernel(gamma * self.unit)
        return np.asarray(kernel_matrix(kernel, self.X, self.X, compiled=True), dtype=np.float64)

    def costs(self, family: Family, rows: Index) -> Array:
        """Weights of some rows by the density among them; all 0 where the scheme leaves no row."""
        scheme, gamma, seed = family
        if scheme is None:
            return np.ones(rows.size)
        rule = DensityWeights(scheme, gamma=gamma * self.near, normalize=self.normalize, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a class without weight: `train` takes care of it
            try:
                return rule.fit_weights(self.X[rows], self.y[rows])
            except ValueError:
                if scheme == "same_class":
                    return np.zeros(rows.size)
                raise


Task = tuple[Index, Array]  # rows to train on, and a weight for each


def train(K: Array, y: Labels, tasks: Sequence[Task], C: Sequence[float], pool: Workers) -> tuple[Array, list[Array]]:
    """Scores of all rows, and coefficients, of machines for all tasks and all C, on one kernel matrix.

    Rows of weight 0 are left out. There is no machine, and its scores are NaN, where a class
    is left empty, where the mean price is above LARGEST, or where the solver did not converge.
    """
    C_ = np.asarray(C)
    scores = np.full((len(tasks), C_.size, y.size), np.nan)
    beta = [np.zeros((C_.size, rows.size)) for rows, _ in tasks]
    able = [i for i, (rows, cost) in enumerate(tasks) if np.unique(y[rows[cost > 0]]).size == 2]
    if not able:
        return scores, beta
    folds, prices, tops = [], np.ones((len(able), C_.size, y.size)), []
    for k, i in enumerate(able):
        rows, cost = tasks[i]
        kept = cost > 0
        folds.append(rows[kept])
        tops.append(LARGEST / cost[kept].mean())
        prices[k][:, rows[kept]] = np.outer(np.minimum(C_, tops[k]), cost[kept])  # the same machine again is free
    found = solve_paths(K, folds, y, prices, workers=pool)
    for k, i in enumerate(able):
        if found.converged[k]:
            tried = tops[k] * (1 + 1e-9) >= C_
            scores[i, tried] = found.scores[k, tried]
            beta[i][:, tasks[i][1] > 0] = found.beta[k]
    return scores, beta


def f1(scores: Array, positive: Mask) -> Array:
    """F1 of the class of scores above 0, along the last axis; NaN where scores are."""
    found = scores > 0
    hits = (found & positive).sum(axis=-1)
    value = 2.0 * hits / np.maximum(found.sum(axis=-1) + positive.sum(), 1)
    return np.asarray(np.where(np.isnan(scores).any(axis=-1), np.nan, value))


def mean_f1(K: Array, y: Labels, folds: Sequence[Fold], tasks: Sequence[Task], grid: Grid, pool: Workers) -> Array:
    """Families × C × (thresholds, then z): mean F1 over the folds, −1 where a fold has no machine."""
    (scores, coefficients), cut, z = train(K, y, tasks, grid.C, pool), np.asarray(grid.cut), np.asarray(grid.z)
    each = np.empty((len(folds), len(tasks) // len(folds), len(grid.C), cut.size + z.size))
    for task, beta in enumerate(coefficients):
        family, fold = divmod(task, len(folds))
        rows, test = folds[fold]
        score = scores[task][:, None, test]
        moved = score - cut[:, None]
        if z.size:
            up = (np.maximum(beta, 0.0) @ K[np.ix_(rows, test)])[:, None]
            moved = np.concatenate([moved, score + (z[:, None] - 1.0) * up], axis=1)
        each[fold, family] = f1(moved, y[test] > 0)
    return np.where(np.isnan(each).any(axis=0), -1.0, each.mean(axis=0))


def search(
    rows: KernelRows, folds: Sequence[Fold], grid: Grid, families: Sequence[Family], pool: Workers
) -> dict[str, Any]:
    """The first of the best candidates by mean F1 over the folds, and how many could be trained on every fold.

    Where none could, F1 is 0.
    """
    y = rows.y
    weights = [
        (own, rows.costs(family._replace(seed=family.seed + fold), own))
        for family in families
        for fold, (own, _) in enumerate(folds)
    ]
    best, candidates = -1.0, 0
    at, (family, c, move) = (grid.gamma_K[0], grid.class_cost[0]), (0, 0, 0)
    for gamma_K in grid.gamma_K:
        K = rows.gram(gamma_K)
        for class_cost in grid.class_cost:
            level = np.where(y > 0, class_cost, 1.0)
            tasks = [(own, weight * level[own]) for own, weight in weights]
            mean = mean_f1(K, y, folds, tasks, grid, pool)
            candidates += int((mean >= 0).sum())
            place = np.unravel_index(int(np.argmax(mean)), mean.shape)
            if mean[place] > best:
                best, at, (family, c, move) = float(mean[place]), (gamma_K, class_cost), map(int, place)
    cut, z = (grid.cut[move], None) if move < len(grid.cut) else (None, grid.z[move - len(grid.cut)])
    return {
        "f1": max(best, 0.0), "gamma_K": at[0], "C": grid.C[c], "class_cost": at[1],
        **families[family]._asdict(), "cut": cut, "z": z, "candidates": candidates,
    }  # fmt: skip


def standardised(X: Array, rows: Index) -> Array:
    """Standardise all rows by the means and deviations of some."""
    spread = X[rows].std(axis=0)
    return np.asarray((X - X[rows].mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def families_of(schemes: Iterable[str | None], gammas: Sequence[float], seed: int = 0) -> list[Family]:
    """Every scheme at every γ_S; w = 1 has no γ_S."""
    return [
        Family(scheme, gamma, seed + 100 * k)
        for scheme in schemes
        for k, gamma in enumerate(gammas if scheme is not None else (0.0,))
    ]
