"""Kernel machines on three views of a table, each cross-fitted, averaged into one score.

A lens is a view of the table with a kernel exp(−g·d/m), where d is a distance and
m the median of it. For each lens:

1. A screen on up to a thousand rows takes the g and C whose out-of-fold scores are
   best, by ROC-AUC plus the best smoothed G-mean.
2. With these, a machine is fitted on all folds but one, for each fold. Its scores of
   the fold that it has not seen are the out-of-fold scores, on which thresholds and
   probabilities are chosen elsewhere. The average of the machines predicts.
3. A balanced logistic turns the scores of the lens into log-odds. The committee's
   score is the mean of the log-odds.

Classes cost n/(2·n_class). Up to `Plan.exact` rows machines are exact, on up to
`Plan.rows` of them each; above, they are linear on a Nyström map.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression

from ._paths import solve_paths
from ._threads import Workers
from ._validation import ConvergenceWarning
from ._views import PiecewiseLinear, QuantileNormal, Standard, View
from .kernels import RBF, Exponential, Kernel, kernel_dot, kernel_matrix
from .linear import LinearSVM
from .nystroem import StratifiedNystroem
from .stopping import roc_auc

Array = NDArray[np.float64]
Single = NDArray[np.float32]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

PRICES = (1.0, 10.0)  # C to choose from
_FOCUS = (0.4, 1.0)  # g and C of the machine whose slopes weight the columns
_FOCUS_ROWS = 1000
_MEDIAN_ROWS = 500
_FEW = 256  # support vectors up to which scores are in float64
_TOL = 1e-3
_LINEAR_TOL = 1e-2


@dataclass(frozen=True)
class Lens:
    """A view with its kernel.

    kernel : RBF or Exponential; its gamma is g/m
    grid : the g to choose from
    usual : g and C without a screen
    focused : columns are weighted by how much the score of a first machine changes with them
    """

    name: str
    view: type[View]
    kernel: type[RBF] | type[Exponential]
    grid: tuple[float, ...]
    usual: tuple[float, float]
    focused: bool = False


LENSES = (
    Lens("standard", Standard, RBF, (0.1, 0.4, 1.6, 6.4), (1.6, 1.0)),
    Lens("ranks", QuantileNormal, Exponential, (0.3, 1.0, 3.0), (1.0, 1.0)),
    Lens("ramps", PiecewiseLinear, RBF, (0.1, 0.4, 1.6), (0.4, 1.0), focused=True),
)


@dataclass(frozen=True)
class Plan:
    """How much work to do, and in how many seconds from `started` on, by time.perf_counter.

    screen : rows to choose g and C on; 0 takes the usual ones
    folds, repeats : of the cross-fitting
    exact : rows up to which machines are exact
    rows : of an exact machine, at most; all positive ones are kept if they are up to half of it
    landmarks : of the Nyström map above that
    """

    screen: int = 1000
    folds: int = 5
    repeats: int = 1
    exact: int = 50_000
    rows: int = 4_000
    landmarks: int = 500
    seconds: float = np.inf
    started: float = 0.0
    share: tuple[int, int] = (0, 1)  # which of how many committees this is

    def late(self, share: float, more: float = 0.0) -> bool:
        """Whether this share of the committee's time will be over in so many seconds."""
        place, count = self.share
        return time.perf_counter() + more > self.started + (place + share) / count * self.seconds


@dataclass
class Look:
    """A lens on the training rows: what all classes share."""

    lens: Lens
    view: View
    Z: Single
    median: float

    @classmethod
    def at(cls, lens: Lens, X: Array, weight: Array) -> Look:
        view = lens.view().fit(X, weight)
        Z = view.transform(X)
        return cls(lens, view, Z, median_distance(lens, Z))


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
    """A lens, settled: its mean machine, and what turns scores into log-odds."""

    name: str
    view: View
    machine: Expansion
    slope: float
    offset: float

    def log_odds(self, X: Array, workers: Workers | None) -> Array:
        return np.asarray(self.slope * self.machine.score(self.view.transform(X), workers) + self.offset)


@dataclass
class Committee:
    """The members, what they say of rows they have not seen (one line for each repeat), and how they were chosen."""

    members: list[Member] = field(default_factory=list)
    unseen: Array = field(default_factory=lambda: np.empty((0, 0)))
    fold: Index = field(default_factory=lambda: np.empty(0, np.intp))  # of each row, in the first repeat
    screened: list[dict[str, Any]] = field(default_factory=list)
    optimism: float = 0.0
    shortened: str = ""  # what the time did not allow

    def score(self, X: Array, workers: Workers | None = None) -> Array:
        return np.mean([member.log_odds(X, workers) for member in self.members], axis=0)


Split = tuple[Index, Index]  # rows to train on, rows to score


def assemble(
    looks: list[Look], positive: Mask, weight: Array, plan: Plan, seed: int, workers: Workers,
    report: Callable[[str], None] = lambda stage: None,
) -> Committee:  # fmt: skip
    """Screen, cross-fit and average; see the module."""
    committee, chosen = Committee(), {}
    if plan.late(1.0):
        committee.shortened = f"this is the default model, the lens {looks[0].lens.name!r} at its usual setting"
        plan, looks = replace(plan, screen=0, folds=min(plan.folds, 3), repeats=1, rows=1000), looks[:1]
    screen = _Sample.draw(positive, weight, plan.screen, seed)
    for look in looks:
        chosen[look.lens.name] = look.lens.usual
        # The screens may take 40 % of the time, and the first lens is cross-fitted anyhow.
        if plan.screen and not plan.late(0.4):
            report(f"screening {look.lens.name}")
            chosen[look.lens.name] = _screen(look, screen, plan.folds, seed, workers, committee)
        elif plan.screen:
            committee.shortened = "some lenses are at their usual setting"
    rounds = [_folds(positive, plan.folds, seed + r) for r in range(plan.repeats)]
    committee.fold = rounds[0]
    unseen, slowest = [], 0.0
    for place, look in enumerate(looks):
        if place and plan.late(1.0, slowest):
            committee.shortened = f"only {place} of {len(looks)} lenses were used"
            break
        started = time.perf_counter()
        report(f"fitting {look.lens.name}")
        member, scores = _cross_fit(look, chosen[look.lens.name], rounds, positive, weight, plan, seed, workers)
        committee.members.append(member)
        unseen.append(scores)
        slowest = max(slowest, time.perf_counter() - started)
    committee.unseen = np.mean(unseen, axis=0)
    return committee


# --- the screen ---


@dataclass
class _Sample:
    """Some rows, with the rare class over-represented."""

    rows: Index
    positive: Mask
    weight: Array

    @classmethod
    def draw(cls, positive: Mask, weight: Array, size: int, seed: int) -> _Sample:
        rows = some_rows(np.arange(positive.size), positive, size, 0.25, seed) if size else np.arange(0)
        return cls(rows, positive[rows], weight[rows])


def some_rows(rows: Index, positive: Mask, size: int, share: float, seed: int) -> Index:
    """Up to `size` of the rows, of which up to this share is positive; a quarter more is left as it is."""
    if rows.size <= 1.25 * size:
        return rows
    rng = np.random.default_rng(seed)
    rare, others = (rng.permutation(rows[positive[rows] == kind]) for kind in (True, False))
    rare = rare[: max(int(share * size), size - others.size)]
    return np.sort(np.concatenate([rare, others[: size - rare.size]]))


def _screen(
    look: Look, sample: _Sample, folds: int, seed: int, workers: Workers, committee: Committee
) -> tuple[float, float]:
    """The g and C with the best out-of-fold scores on the sample."""
    splits = _splits(_folds(sample.positive, folds, seed + 1000), sample.positive)
    part = Look(look.lens, look.view, look.Z[sample.rows], look.median)
    scores = np.empty((len(look.lens.grid), len(PRICES), sample.rows.size))
    for group in _groups(look.lens, splits, sample.rows.size, sample.rows.size):
        for found in _fit(part, group, look.lens.grid, PRICES, sample.positive, sample.weight, seed, workers):
            scores[:, :, found.test] = found.scores
    best, result = -np.inf, look.lens.usual
    for i, g in enumerate(look.lens.grid):
        for j, C in enumerate(PRICES):
            auc = roc_auc(sample.positive, scores[i, j], sample.weight)
            gmean = smoothed_gmean(scores[i, j], sample.positive, sample.weight)
            committee.screened.append(
                {"lens": look.lens.name, "g": g, "C": C, "rows": sample.rows.size, "roc_auc": auc, "gmean": gmean}
            )
            if auc + gmean > best:
                best, result = auc + gmean, (g, C)
    return result


def smoothed_gmean(scores: Array, positive: Mask, weight: Array, bins: int = 256) -> float:
    """The best G-mean of scores whose two distributions are smoothed, on a grid: for choosing among many."""
    low, high = float(scores.min()), float(scores.max())
    if not high > low:
        return 0.0
    step = (high - low) / (bins - 1)
    centres = np.arange(bins) * step
    rates = []
    for kind in (True, False):
        own, mass = scores[positive == kind] - low, weight[positive == kind]
        total = mass.sum()
        mean = mass @ own / total
        spread = float(np.sqrt(mass @ (own - mean) ** 2 / total))
        quartiles = np.quantile(own, [0.25, 0.75], weights=mass, method="inverted_cdf")
        robust = float(quartiles[1] - quartiles[0]) / 1.34
        width = 0.9 * (min(spread, robust) or max(spread, robust)) * total**-0.2
        held = np.bincount(np.rint(own / step).astype(np.intp), weights=mass, minlength=bins) / total
        rates.append(ndtr((centres[None, :] - centres[:, None]) / max(width, 1e-3 * step)) @ held)
    return float(np.sqrt(np.max(rates[0] * (1.0 - rates[1]))))


# --- cross-fitting ---


@dataclass
class _Found:
    """The machines of a split, for each g and C, and their scores of the rows that they have not seen."""

    test: Index
    Z: Single  # what the look shows of the rows, in columns of the split's own
    scale: Single | None  # of the columns
    median: float
    support: Index  # rows that may have coefficients
    beta: Array  # (n_g, n_C, those rows)
    intercept: Array  # (n_g, n_C)
    scores: Array  # (n_g, n_C, rows to score)


def _cross_fit(
    look: Look, setting: tuple[float, float], rounds: list[Index], positive: Mask, weight: Array, plan: Plan,
    seed: int, workers: Workers,
) -> tuple[Member, Array]:  # fmt: skip
    """The member, and its log-odds of rows that it has not seen, a line for each repeat."""
    n = positive.size
    mapped = n > plan.exact
    most = n if mapped else plan.rows

    def fit(splits: list[Split]) -> list[_Found]:
        splits = [(some_rows(train, positive, most, 0.5, seed + k), test) for k, (train, test) in enumerate(splits)]
        found = []
        for group in _groups(look.lens, splits, n, most):
            if mapped:
                found += _fit_mapped(look, group, setting, positive, weight, plan.landmarks, seed, workers)
            else:
                found += _fit(look, group, setting[:1], setting[1:], positive, weight, seed, workers)
        return found

    scores, every = np.empty((len(rounds), n)), []
    for own, fold in zip(scores, rounds, strict=True):
        found = fit(_splits(fold, positive))
        for one in found:
            own[one.test] = one.scores[0, 0]
        every += found
    if look.lens.focused:  # each fold has columns of its own: one machine on all rows is as good, and much smaller
        every = fit([(np.arange(n), np.arange(0))])
    slope, offset = log_odds(scores.mean(axis=0), positive, weight)
    return Member(
        look.lens.name, look.view, _mean_machine(every, look.lens, setting[0]), slope, offset
    ), slope * scores + offset


def _groups(lens: Lens, splits: list[Split], n: int, most: int) -> list[list[Split]]:
    """Splits that can share a kernel matrix: all, unless each has columns of its own, or rows are too many."""
    return [splits] if n <= 1.25 * most and not lens.focused else [[split] for split in splits]


def _fit(
    look: Look, splits: list[Split], gs: tuple[float, ...], Cs: tuple[float, ...], positive: Mask, weight: Array,
    seed: int, workers: Workers,
) -> list[_Found]:  # fmt: skip
    """Machines for splits that share a kernel matrix."""
    Z, scale, median = _columns(look, splits, positive, weight, seed, workers)
    rows = np.unique(np.concatenate([train for train, _ in splits]))
    own = Z[rows]
    folds = [np.searchsorted(rows, train) for train, _ in splits]
    prices = np.zeros((len(splits), len(Cs), rows.size))
    for price, fold, (train, _) in zip(prices, folds, splits, strict=True):
        price[:, fold] = np.multiply.outer(Cs, balanced_costs(positive[train], weight[train]))
    y = np.where(positive[rows], 1.0, -1.0)
    found = [
        _Found(test, Z, scale, median, train, np.empty((len(gs), len(Cs), train.size)), np.empty((len(gs), len(Cs))),
               np.empty((len(gs), len(Cs), test.size)))
        for train, test in splits
    ]  # fmt: skip
    for i, g in enumerate(gs):
        kernel = look.lens.kernel(g / median)
        K = np.asarray(kernel_matrix(kernel, own, own, dtype=np.float32, workers=workers, compiled=True))
        paths = solve_paths(K, folds, y, prices, tol=_TOL, workers=workers)
        for k, one in enumerate(found):
            one.beta[i], one.intercept[i] = paths.beta[k], paths.intercept[k]
            place = np.minimum(np.searchsorted(rows, one.test), rows.size - 1)
            if np.array_equal(rows[place], one.test):
                one.scores[i] = paths.scores[k][:, place]
            else:
                V = one.beta[i].T.astype(np.float32)
                sums = kernel_dot(
                    kernel, Z[one.test], Z[one.support], V, dtype=np.float32, workers=workers, compiled=True
                )
                one.scores[i] = sums.T + one.intercept[i][:, None]
    return found


def _fit_mapped(
    look: Look, splits: list[Split], setting: tuple[float, float], positive: Mask, weight: Array, landmarks: int,
    seed: int, workers: Workers,
) -> list[_Found]:  # fmt: skip
    """The same by linear machines on a Nyström map, for many rows."""
    Z, scale, median = _columns(look, splits, positive, weight, seed, workers)
    g, C = setting
    nystroem = StratifiedNystroem(
        look.lens.kernel(g / median), n_components=landmarks, random_state=seed, n_jobs=workers.threads
    ).fit(Z, positive)
    map_of_all = nystroem.transform(Z)
    found: list[Any] = [None] * len(splits)

    def task(k: int) -> None:
        train, test = splits[k]
        svm = LinearSVM(C, tol=_LINEAR_TOL, max_iter=100).fit(
            map_of_all[train], positive[train], sample_weight=balanced_costs(positive[train], weight[train])
        )
        beta = svm.coef_.astype(np.float64) @ nystroem.normalization_
        scores = map_of_all[test] @ svm.coef_[0] + svm.intercept_[0]
        found[k] = _Found(
            test, Z, scale, median, nystroem.component_indices_, beta[None], svm.intercept_[None], scores[None, None]
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        workers.each(task, range(len(splits)))
    return found


def _columns(
    look: Look, splits: list[Split], positive: Mask, weight: Array, seed: int, workers: Workers
) -> tuple[Single, Single | None, float]:
    """What the look shows, the weights of its columns if it is focused, and the median distance then."""
    if not look.lens.focused:
        return look.Z, None, look.median
    ((train, _),) = splits
    scale = focus(look, train, positive, weight, seed, workers)
    Z = look.Z * scale
    return Z, scale, median_distance(look.lens, Z)


def _mean_machine(found: list[_Found], lens: Lens, g: float) -> Expansion:
    """The mean of machines that see the same columns, as one."""
    one = found[0]
    beta = np.zeros(one.Z.shape[0])
    for other in found:
        beta[other.support] += other.beta[0, 0] / len(found)
    support = np.flatnonzero(beta)
    intercept = float(np.mean([other.intercept[0, 0] for other in found]))
    return Expansion(
        lens.kernel(g / one.median), one.scale, one.Z[support], beta[support].astype(np.float32), intercept
    )


# --- pieces ---


def balanced_costs(positive: Mask, weight: Array) -> Array:
    """n/(2·n_class) times the weight, n counting weights."""
    total, rare = weight.sum(), weight[positive].sum()
    return np.asarray(weight * np.where(positive, total / (2 * rare), total / (2 * (total - rare))))


def focus(look: Look, train: Index, positive: Mask, weight: Array, seed: int, workers: Workers) -> Single:
    """Weights of the columns: the root mean square slope of a first machine's score, class-balanced.

    The total variance of the columns stays what it was.
    """
    train = some_rows(train, positive, _FOCUS_ROWS, 0.25, seed)
    Z, positive, weight = look.Z[train], positive[train], weight[train]
    g, C = _FOCUS
    K = kernel_matrix(RBF(g / look.median), Z, Z, dtype=np.float32, workers=workers, compiled=True)
    cost = balanced_costs(positive, weight)
    paths = solve_paths(K, [np.arange(train.size)], np.where(positive, 1.0, -1.0), C * cost[None], tol=1e-2)
    beta = paths.beta[0][0].astype(np.float32)
    slope = Z * (K @ beta)[:, None] - K @ (beta[:, None] * Z)
    steep = np.asarray((cost / cost.sum()) @ slope.astype(np.float64) ** 2)
    scale = np.sqrt(steep / max(float(steep.mean()), 1e-300) + 0.01)
    spread = Z.astype(np.float64).var(axis=0)
    kept = spread.sum() / max(float(spread @ scale**2), 1e-300)
    return np.asarray(scale * np.sqrt(kept), dtype=np.float32)


def log_odds(scores: Array, positive: Mask, weight: Array) -> tuple[float, float]:
    """Slope and intercept of a balanced logistic in the score."""
    centre = float(np.average(scores, weights=weight))
    spread = float(np.sqrt(np.average((scores - centre) ** 2, weights=weight))) or 1.0
    model = LogisticRegression().fit(
        ((scores - centre) / spread)[:, None], positive, sample_weight=balanced_costs(positive, weight)
    )
    slope = max(float(model.coef_[0, 0]), 1e-3) / spread  # a lens that ranks backwards by chance must not turn around
    return slope, float(model.intercept_[0]) - slope * centre


def median_distance(lens: Lens, Z: Single) -> float:
    """The median of distances that are not 0, among some rows."""
    some = Z[:: -(-Z.shape[0] // _MEDIAN_ROWS)]
    apart = pdist(some, "euclidean" if lens.kernel is Exponential else "sqeuclidean")
    apart = apart[apart > 0]
    return float(np.median(apart)) if apart.size else 1.0


def _folds(positive: Mask, count: int, seed: int) -> Index:
    """Which fold each row is in, each class spread evenly."""
    rng = np.random.default_rng(seed)
    fold, start = np.empty(positive.size, np.intp), 0
    for kind in (True, False):
        rows = rng.permutation(np.flatnonzero(positive == kind))
        fold[rows] = (start + np.arange(rows.size)) % count
        start += rows.size
    return fold


def _splits(fold: Index, positive: Mask) -> list[Split]:
    """Rows to train on and rows to score; the only row of a class is always trained on, though it is scored too."""
    lone = np.zeros(fold.size, np.bool_)
    for kind in (positive, ~positive):
        lone |= kind & (np.count_nonzero(kind) == 1)
    return [(np.flatnonzero((fold != k) | lone), np.flatnonzero(fold == k)) for k in range(int(fold.max()) + 1)]
