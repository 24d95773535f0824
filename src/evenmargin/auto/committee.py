"""Kernel machines on three views of a table, each cross-fitted, averaged into one score.

For each view:

1. A screen on up to a thousand rows takes the g and C whose out-of-fold scores are best, by ROC-AUC plus the best
   smoothed G-mean.
2. With these, a machine is fitted on all folds but one, for each fold. Its scores of that fold are the out-of-fold
   scores, on which thresholds and probabilities are chosen elsewhere. The average of the machines predicts.
3. A balanced logistic turns the scores of the view into log-odds. The committee's score is the mean of the log-odds.

Two things use the labels of all rows, and make out-of-fold scores look a little better than new rows will: the choice
of g and C, and the logistic. For estimates there are scores whose logistic is of the other folds (`Committee.honest`),
and the gain of the best g and C over those that the other folds would have chosen (`Committee.optimism`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from .._util.threads import Workers
from .._util.typing import Array, Index, Mask
from ..metrics import roc_auc
from .crossfit import Member, crossed_log_odds, fit_grid, fit_member
from .plan import Plan
from .rows import ClassRows, ViewRows, fold_numbers, fold_splits, some_rows
from .views import VIEWS, ViewSpec

_CHUNK = 2_048  # rows to score at a time: a view of them may have hundreds of columns
_CS = (1.0, 10.0)  # to choose from


@dataclass
class Committee:
    """The members, their out-of-fold scores, and how they were chosen."""

    members: list[Member] = field(default_factory=list)
    unseen: Array = field(default_factory=lambda: np.empty(0))  # the out-of-fold scores
    honest: Array = field(default_factory=lambda: np.empty(0))  # the same, with the logistic of the other folds
    fold: Index = field(default_factory=lambda: np.empty(0, np.intp))  # of each row, in the first repeat
    screened: list[dict[str, Any]] = field(default_factory=list)  # the settings that were tried
    optimism: float = 0.0  # by how much the chosen settings look too good, in ROC-AUC
    shortened: str = ""  # what the time did not allow

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


def assemble(
    rows_of: Callable[[ViewSpec], ViewRows],
    rows: ClassRows,
    plan: Plan,
    report: Callable[[str], None] = lambda stage: None,
) -> Committee:
    """Screen, cross-fit and average; see the module. `rows_of` gives the rows as a view shows them."""
    committee, specs = Committee(), VIEWS
    if plan.late(1.0):
        committee.shortened = f"this is the default model, with only the view {specs[0].name!r}"
        plan = replace(plan, screen=0, folds=min(plan.folds, 3), repeats=1, rows=1000, exact=rows.positive.size)
        specs = specs[:1]
    chosen = {spec.name: spec.usual for spec in specs}
    if plan.screen:
        some = some_rows(np.arange(rows.positive.size), rows.positive, plan.screen, 0.25, rows.seed)
        gains = []
        for spec in _while_time(specs, lambda slowest: plan.late(0.4, slowest)):  # the rest is for the cross-fitting
            report(f"screening {spec.name}")
            seen = rows_of(spec)
            seen = replace(seen, Z=seen.Z[some])
            chosen[spec.name], tried, gain = _screen(seen, rows.only(some), min(plan.folds, 5))
            committee.screened += tried
            gains.append(gain)
        if len(gains) < len(specs):
            committee.shortened = "some views kept their default settings"
        committee.optimism = float(np.mean(gains)) if gains else 0.0
    rounds = [fold_numbers(rows.positive, plan.folds, rows.seed + r) for r in range(plan.repeats)]
    committee.fold = rounds[0]
    scores = []
    for spec in _while_time(specs, lambda slowest: slowest > 0 and plan.late(1.0, 1.5 * slowest)):
        report(f"fitting {spec.name}")
        member, own = fit_member(rows_of(spec), chosen[spec.name], rounds, rows, plan)
        committee.members.append(member)
        scores.append(own)
    if len(scores) < len(specs):
        committee.shortened = f"only {len(scores)} of {len(specs)} views were used"
    parts = zip(committee.members, scores, strict=True)
    committee.unseen = np.mean([member.slope * own + member.offset for member, own in parts], axis=0)
    committee.honest = np.mean([crossed_log_odds(own, rounds[0], rows) for own in scores], axis=0)
    return committee


def _while_time(specs: tuple[ViewSpec, ...], late: Callable[[float], bool]) -> Iterator[ViewSpec]:
    """The views one after the other, until it is too late for one that takes as long as the slowest so far."""
    slowest = 0.0
    for spec in specs:
        if late(slowest):
            return
        started = time.perf_counter()
        yield spec
        slowest = max(slowest, time.perf_counter() - started)


def _screen(seen: ViewRows, rows: ClassRows, folds: int) -> tuple[tuple[float, float], list[dict[str, Any]], float]:
    """The best g and C of a view, a table of all that were tried, and how much too good the best looks."""
    fold = fold_numbers(rows.positive, folds, rows.seed + 1000)
    tried = [(g, C) for g in seen.spec.grid for C in _CS]
    scores = np.empty((len(tried), fold.size))
    for found in fit_grid(seen, fold_splits(fold, rows.positive), seen.spec.grid, _CS, rows, fold.size):
        scores[:, found.test] = found.scores.reshape(len(tried), -1)
    areas = [roc_auc(rows.positive, own, rows.weight) for own in scores]
    means = [_smoothed_gmean(own, rows.positive, rows.weight) for own in scores]
    table = [
        {"view": seen.spec.name, "g": g, "C": C, "rows": fold.size, "roc_auc": area, "gmean": mean}
        for (g, C), area, mean in zip(tried, areas, means, strict=True)
    ]
    best = int(np.argmax(np.add(areas, means)))
    return tried[best], table, _optimism(scores, best, fold, rows)


def _optimism(scores: Array, best: int, fold: Index, rows: ClassRows) -> float:
    """By how much the best setting beats, in ROC-AUC on each fold, what the other folds would have chosen."""

    def area(own: Array, some: Index | Mask) -> float:
        return roc_auc(rows.positive[some], own[some], rows.weight[some])

    gains = []
    for own, others in rows.known_folds(fold):
        if rows.has_both(own):
            chosen = int(np.argmax([area(one, others) for one in scores]))
            gains.append(area(scores[best], own) - area(scores[chosen], own))
    return max(0.0, float(np.mean(gains))) if gains else 0.0


def _smoothed_gmean(scores: Array, positive: Mask, weight: Array, bins: int = 128) -> float:
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
