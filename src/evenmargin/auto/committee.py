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

Two things use the labels of all rows, and make out-of-fold scores look a little better
than new rows will: the choice of g and C, and the logistic. For estimates there are
scores whose logistic is of the other folds (`Committee.honest`), and the gain of the best
g and C over those that the other folds would have chosen (`Committee.optimism`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from scipy.special import expit, ndtr

from .._input.checks import ConvergenceWarning
from .._util.threads import Workers
from .._util.typing import Array, Index, Mask, Single
from ..kernels import RBF, Exponential, Kernel, kernel_dot, kernel_matrix
from ..linear import LinearSVM
from ..metrics import roc_auc
from ..nystroem import StratifiedNystroem
from ..solvers.price_paths import solve_paths
from ..weights import row_costs
from .views import PiecewiseLinear, QuantileNormal, Standard, View

__all__ = ["LENSES", "Case", "Committee", "Lens", "Look", "Plan", "assemble", "some_rows"]


CS = (1.0, 10.0)  # to choose from
_FOCUS = (0.4, 1.0)  # g and C of the machine whose slopes weight the columns
_FOCUS_ROWS = 1000
_MEDIAN_ROWS = 500
_FEW = 256  # support vectors up to which scores are in float64
_TOL = 1e-3
_LINEAR_TOL, _LINEAR_ITERATIONS = 1e-2, 100
_CHUNK = 2_048  # rows to score at a time: a view of them may have hundreds of columns


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
    turn: tuple[int, int] = (0, 1)  # which of how many committees this is

    def late(self, share: float, more: float = 0.0) -> bool:
        """Whether this share of the committee's time will be over in so many seconds."""
        place, count = self.turn
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
    """The members, what they say of rows they have not seen, and how they were chosen.

    unseen : ndarray of shape (n,)
        Scores of rows by machines that have not seen them.
    honest : ndarray of shape (n,)
        The same, with the logistic of the other folds.
    fold : ndarray of shape (n,)
        In which fold a row was, in the first repeat.
    screened : list of dict
        The settings that were tried.
    optimism : float
        By how much the chosen settings look too good, in ROC-AUC.
    shortened : str
        What the time did not allow.
    """

    members: list[Member] = field(default_factory=list)
    unseen: Array = field(default_factory=lambda: np.empty(0))
    honest: Array = field(default_factory=lambda: np.empty(0))
    fold: Index = field(default_factory=lambda: np.empty(0, np.intp))
    screened: list[dict[str, Any]] = field(default_factory=list)
    optimism: float = 0.0
    shortened: str = ""

    def score(self, X: Array, workers: Workers | None = None) -> Array:
        """The mean log-odds; threads take members and some rows at a time."""
        out = np.empty((len(self.members), X.shape[0]))
        chunks = -(-X.shape[0] // _CHUNK)

        def task(place: int) -> None:
            k, chunk = divmod(place, chunks)
            rows = slice(chunk * _CHUNK, (chunk + 1) * _CHUNK)
            out[k, rows] = self.members[k].log_odds(X[rows], alone)

        with Workers.of(workers, X.shape[0] * self.members[0].machine.beta.size) as pool, Workers(1) as alone:
            pool.each(task, range(len(self.members) * chunks))
        return out.mean(axis=0)


@dataclass
class Case:
    """The rows of one class against the rest, and what all steps on them need."""

    positive: Mask
    weight: Array
    seed: int
    workers: Workers

    def only(self, rows: Index) -> Case:
        return Case(self.positive[rows], self.weight[rows], self.seed, self.workers)

    @property
    def signs(self) -> Array:
        return np.where(self.positive, 1.0, -1.0)

    @property
    def costs(self) -> Array:
        """Both classes the same in total."""
        return row_costs("balanced", self.positive, self.positive, self.weight)


Split = tuple[Index, Index]  # rows to train on, rows to score


def assemble(
    looks: Callable[[Lens], Look], case: Case, plan: Plan, report: Callable[[str], None] = lambda stage: None
) -> Committee:
    """Screen, cross-fit and average; see the module. `looks` shows the rows through a lens."""
    committee, lenses = Committee(), list(LENSES)
    if plan.late(1.0):
        committee.shortened = f"this is the default model, the lens {lenses[0].name!r} at its usual setting"
        plan = replace(plan, screen=0, folds=min(plan.folds, 3), repeats=1, rows=1000, exact=case.positive.size)
        lenses = lenses[:1]
    chosen = _settings(committee, lenses, looks, case, plan, report)
    rounds = [_folds(case.positive, plan.folds, case.seed + r) for r in range(plan.repeats)]
    committee.fold = rounds[0]
    scores, slowest = [], 0.0
    for place, lens in enumerate(lenses):
        if place and plan.late(1.0, 1.5 * slowest):
            committee.shortened = f"only {place} of {len(lenses)} lenses were used"
            break
        started = time.perf_counter()
        report(f"fitting {lens.name}")
        member, own = _cross_fit(looks(lens), chosen[lens.name], rounds, case, plan)
        committee.members.append(member)
        scores.append(own)
        slowest = max(slowest, time.perf_counter() - started)
    parts = zip(committee.members, scores, strict=True)
    committee.unseen = np.mean([member.slope * own + member.offset for member, own in parts], axis=0)
    committee.honest = np.mean([_crossed_log_odds(own, rounds[0], case) for own in scores], axis=0)
    return committee


# --- the screen ---


def _settings(
    committee: Committee, lenses: list[Lens], looks: Callable[[Lens], Look], case: Case, plan: Plan,
    report: Callable[[str], None],
) -> dict[str, tuple[float, float]]:  # fmt: skip
    """g and C of each lens: the best of a screen, or the usual ones where there is no time for it."""
    chosen = {lens.name: lens.usual for lens in lenses}
    if not plan.screen:
        return chosen
    rows = some_rows(np.arange(case.positive.size), case.positive, plan.screen, 0.25, case.seed)
    sample, gains, slowest = case.only(rows), [], 0.0
    for lens in lenses:
        if plan.late(0.4, slowest):  # the rest is for the cross-fitting
            committee.shortened = "some lenses are at their usual setting"
            break
        started = time.perf_counter()
        report(f"screening {lens.name}")
        look = looks(lens)
        screen = _screen(Look(lens, look.view, look.Z[rows], look.median), sample, min(plan.folds, 5))
        chosen[lens.name] = screen.best
        committee.screened += screen.table
        gains.append(screen.optimism)
        slowest = max(slowest, time.perf_counter() - started)
    committee.optimism = float(np.mean(gains)) if gains else 0.0
    return chosen


@dataclass
class _Screen:
    """The best setting of a lens, all that were tried, and how much too good the best looks."""

    best: tuple[float, float]
    table: list[dict[str, Any]]
    optimism: float


def _screen(look: Look, case: Case, folds: int) -> _Screen:
    """The g and C with the best out-of-fold scores."""
    fold = _folds(case.positive, folds, case.seed + 1000)
    splits = _splits(fold, case.positive)
    tried = [(g, C) for g in look.lens.grid for C in CS]
    scores = np.empty((len(tried), fold.size))
    for group in _groups(look.lens, splits, fold.size, fold.size):
        for found in _fit(look, group, look.lens.grid, CS, case):
            scores[:, found.test] = found.scores.reshape(len(tried), -1)
    areas = [roc_auc(case.positive, own, case.weight) for own in scores]
    means = [smoothed_gmean(own, case.positive, case.weight) for own in scores]
    table = [
        {"lens": look.lens.name, "g": g, "C": C, "rows": fold.size, "roc_auc": area, "gmean": mean}
        for (g, C), area, mean in zip(tried, areas, means, strict=True)
    ]
    best = int(np.argmax(np.add(areas, means)))
    return _Screen(tried[best], table, _optimism(scores, best, fold, case))


def _optimism(scores: Array, best: int, fold: Index, case: Case) -> float:
    """By how much the best setting beats, in ROC-AUC on each fold, what the other folds would have chosen."""
    gains = []
    for k in range(int(fold.max()) + 1):
        own, known = np.flatnonzero(fold == k), _rows_with_both(fold != k, case)
        if not 0 < np.count_nonzero(case.positive[own]) < own.size:
            continue
        would = int(np.argmax([_area(one, case, known) for one in scores]))
        gains.append(_area(scores[best], case, own) - _area(scores[would], case, own))
    return max(0.0, float(np.mean(gains))) if gains else 0.0


def _area(scores: Array, case: Case, rows: Index) -> float:
    return roc_auc(case.positive[rows], scores[rows], case.weight[rows])


def some_rows(rows: Index, positive: Mask, size: int, share: float, seed: int) -> Index:
    """Up to `size` of the rows, of which up to this share is positive; a quarter more is left as it is."""
    if rows.size <= 1.25 * size:
        return rows
    rng = np.random.default_rng(seed)
    rare, others = (rng.permutation(rows[positive[rows] == kind]) for kind in (True, False))
    rare = rare[: max(int(share * size), size - others.size)]
    return np.sort(np.concatenate([rare, others[: size - rare.size]]))


def smoothed_gmean(scores: Array, positive: Mask, weight: Array, bins: int = 128) -> float:
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
    look: Look, setting: tuple[float, float], rounds: list[Index], case: Case, plan: Plan
) -> tuple[Member, Array]:
    """The member, and its scores of rows that it has not seen, averaged over the repeats."""
    n = case.positive.size
    g, C = setting
    mapped = n > plan.exact
    most = n if mapped else plan.rows

    def fit(splits: list[Split]) -> list[_Found]:
        splits = [
            (some_rows(train, case.positive, most, 0.5, case.seed + k), test) for k, (train, test) in enumerate(splits)
        ]
        if mapped:
            return _fit_mapped(look, splits, setting, case, plan.landmarks)
        return [one for group in _groups(look.lens, splits, n, most) for one in _fit(look, group, (g,), (C,), case)]

    scores, found = np.zeros(n), []
    for fold in rounds:
        own = fit(_splits(fold, case.positive))
        for one in own:
            scores[one.test] += one.scores[0, 0] / len(rounds)
        found += own
    # Where each fold has columns or a map of its own, one machine on all rows is as good as the mean, and much smaller.
    if look.lens.focused or mapped:
        found = fit([(np.arange(n), np.arange(0))])
    slope, offset = log_odds(scores, case)
    return Member(look.lens.name, look.view, _mean_machine(found, look.lens, g), slope, offset), scores


def _crossed_log_odds(scores: Array, fold: Index, case: Case) -> Array:
    """Log-odds of each fold by the logistic of the others."""
    out = np.empty(scores.size)
    for k in range(int(fold.max()) + 1):
        known = _rows_with_both(fold != k, case)
        slope, offset = log_odds(scores[known], case.only(known))
        out[fold == k] = slope * scores[fold == k] + offset
    return out


def _groups(lens: Lens, splits: list[Split], n: int, most: int) -> list[list[Split]]:
    """Splits that can share a kernel matrix: all, unless each has columns of its own, or rows are too many."""
    return [splits] if n <= 1.25 * most and not lens.focused else [[split] for split in splits]


def _fit(look: Look, splits: list[Split], gs: tuple[float, ...], Cs: tuple[float, ...], case: Case) -> list[_Found]:
    """Machines for splits that share a kernel matrix."""
    Z, scale, median = _columns(look, splits[0][0], case)
    rows = np.unique(np.concatenate([train for train, _ in splits]))
    own = Z[rows]
    folds = [np.searchsorted(rows, train) for train, _ in splits]
    prices = np.zeros((len(splits), len(Cs), rows.size))
    for price, fold, (train, _) in zip(prices, folds, splits, strict=True):
        price[:, fold] = np.multiply.outer(Cs, case.only(train).costs)
    shape = (len(gs), len(Cs))
    found = [
        _Found(test, Z, scale, median, train, np.empty((*shape, train.size)), np.empty(shape),
               np.empty((*shape, test.size)))
        for train, test in splits
    ]  # fmt: skip
    for i, g in enumerate(gs):
        kernel = look.lens.kernel(g / median)
        K = np.asarray(kernel_matrix(kernel, own, own, dtype=np.float32, workers=case.workers, compiled=True))
        paths = solve_paths(K, folds, case.signs[rows], prices, tol=_TOL, workers=case.workers)
        for k, one in enumerate(found):
            one.beta[i], one.intercept[i] = paths.beta[k], paths.intercept[k]
            place = np.minimum(np.searchsorted(rows, one.test), rows.size - 1)
            if np.array_equal(rows[place], one.test):
                one.scores[i] = paths.scores[k][:, place]
            else:
                sums = kernel_dot(
                    kernel, Z[one.test], Z[one.support], one.beta[i].T.astype(np.float32), dtype=np.float32,
                    workers=case.workers, compiled=True,
                )  # fmt: skip
                one.scores[i] = sums.T + one.intercept[i][:, None]
    return found


def _fit_mapped(
    look: Look, splits: list[Split], setting: tuple[float, float], case: Case, landmarks: int
) -> list[_Found]:
    """The same by linear machines on a Nyström map, for many rows.

    Each split has landmarks of its own: they are drawn by class, and must not know
    the labels of the rows to score.
    """
    found: list[Any] = [None] * len(splits)
    g, C = setting

    def task(k: int) -> None:
        train, test = splits[k]
        Z, scale, median = _columns(look, train, replace(case, workers=alone))
        known = case.only(train)
        nystroem = StratifiedNystroem(
            look.lens.kernel(g / median), n_components=landmarks, random_state=case.seed, n_jobs=1
        )
        svm = LinearSVM(C, tol=_LINEAR_TOL, max_iter=_LINEAR_ITERATIONS).fit(
            nystroem.fit(Z[train], known.positive).transform(Z[train]), known.positive, sample_weight=known.costs
        )
        scores = np.empty(0)
        if test.size:
            scores = nystroem.transform(Z[test]) @ svm.coef_[0] + svm.intercept_[0]
        beta = svm.coef_.astype(np.float64) @ nystroem.normalization_
        rows = train[nystroem.component_indices_]
        found[k] = _Found(test, Z, scale, median, rows, beta[None], svm.intercept_[None], scores[None, None])

    with warnings.catch_warnings(), Workers(1) as alone:
        warnings.simplefilter("ignore", ConvergenceWarning)  # near enough: tol is for the last digits
        case.workers.each(task, range(len(splits)))
    return found


def _columns(look: Look, train: Index, case: Case) -> tuple[Single, Single | None, float]:
    """What the look shows, the weights of its columns if it is focused, and the median distance then."""
    if not look.lens.focused:
        return look.Z, None, look.median
    scale = focus(look, train, case)
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


def focus(look: Look, train: Index, case: Case) -> Single:
    """Weights of the columns: the root mean square slope of a first machine's score, class-balanced.

    The total variance of the columns stays what it was.
    """
    train = some_rows(train, case.positive, _FOCUS_ROWS, 0.25, case.seed)
    Z, known = look.Z[train], case.only(train)
    g, C = _FOCUS
    K = kernel_matrix(RBF(g / look.median), Z, Z, dtype=np.float32, workers=case.workers, compiled=True)
    cost = known.costs
    paths = solve_paths(K, [np.arange(train.size)], known.signs, C * cost[None], tol=1e-2)
    beta = paths.beta[0][0].astype(np.float32)
    slope = Z * (K @ beta)[:, None] - K @ (beta[:, None] * Z)
    steep = np.asarray((cost / cost.sum()) @ slope.astype(np.float64) ** 2)
    scale = np.sqrt(steep / max(float(steep.mean()), 1e-300) + 0.01)
    spread = Z.astype(np.float64).var(axis=0)
    kept = spread.sum() / max(float(spread @ scale**2), 1e-300)
    return np.asarray(scale * np.sqrt(kept), dtype=np.float32)


def log_odds(scores: Array, case: Case) -> tuple[float, float]:
    """Slope and intercept of a balanced logistic in the standardised score, at a ridge of 1; by Newton's method."""
    centre = float(np.average(scores, weights=case.weight))
    spread = float(np.sqrt(np.average((scores - centre) ** 2, weights=case.weight))) or 1.0
    columns = np.stack([(scores - centre) / spread, np.ones(scores.size)])
    cost, theta, ridge = case.costs, np.array([1.0, 0.0]), np.diag([1.0, 1e-9])
    for _ in range(50):
        share = expit(theta @ columns)
        gradient = columns @ (cost * (share - case.positive)) + ridge @ theta
        step = np.linalg.solve((columns * (cost * share * (1.0 - share))) @ columns.T + ridge, gradient)
        theta = theta - step * min(1.0, 2.0 / float(np.abs(step).max() + 1e-300))
        if np.abs(step).max() < 1e-9:
            break
    slope = max(float(theta[0]), 1e-3) / spread  # a lens that ranks backwards by chance must not turn around
    return slope, float(theta[1]) - slope * centre


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


def _rows_with_both(wanted: Mask, case: Case) -> Index:
    """The wanted rows, or all if one class is not among them."""
    both = 0 < np.count_nonzero(case.positive[wanted]) < np.count_nonzero(wanted)
    return np.flatnonzero(wanted) if both else np.arange(wanted.size)


def _splits(fold: Index, positive: Mask) -> list[Split]:
    """Rows to train on and rows to score; the only row of a class is always trained on, though it is scored too."""
    lone = np.zeros(fold.size, np.bool_)
    for kind in (positive, ~positive):
        lone |= kind & (np.count_nonzero(kind) == 1)
    return [(np.flatnonzero((fold != k) | lone), np.flatnonzero(fold == k)) for k in range(int(fold.max()) + 1)]
