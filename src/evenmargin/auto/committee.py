"""Kernel machines on three views of a table, each cross-fitted, averaged into one score.

For each lens:

1. A screen on up to a thousand rows takes the g and C whose out-of-fold scores are
   best, by ROC-AUC plus the best smoothed G-mean.
2. With these, a machine is fitted on all folds but one, for each fold. Its scores of
   the fold that it has not seen are the out-of-fold scores, on which thresholds and
   probabilities are chosen elsewhere. The average of the machines predicts.
3. A balanced logistic turns the scores of the lens into log-odds. The committee's
   score is the mean of the log-odds.

Two things use the labels of all rows, and make out-of-fold scores look a little better
than new rows will: the choice of g and C, and the logistic. For estimates there are
scores whose logistic is of the other folds (`Committee.honest`), and the gain of the best
g and C over those that the other folds would have chosen (`Committee.optimism`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._util.threads import Workers
from .._util.typing import Array, Index
from .crossfit import Member, crossed_log_odds, fit_member
from .plan import Plan
from .rows import ClassRows, LensRows, fold_numbers, some_rows
from .screen import screen
from .views import LENSES, Lens

__all__ = ["Committee", "assemble"]

_CHUNK = 2_048  # rows to score at a time: a view of them may have hundreds of columns


@dataclass
class Committee:
    """The members, their scores of rows that they have not seen, and how they were chosen.

    unseen : scores of rows by machines that have not seen them
    honest : the same, with the logistic of the other folds
    fold : in which fold a row was, in the first repeat
    screened : the settings that were tried
    optimism : by how much the chosen settings look too good, in ROC-AUC
    shortened : what the time did not allow
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


def assemble(
    rows_of: Callable[[Lens], LensRows],
    rows: ClassRows,
    plan: Plan,
    report: Callable[[str], None] = lambda stage: None,
) -> Committee:
    """Screen, cross-fit and average; see the module. `rows_of` shows the rows through a lens."""
    committee, lenses = Committee(), list(LENSES)
    if plan.late(1.0):
        committee.shortened = f"this is the default model, the lens {lenses[0].name!r} at its usual setting"
        plan = replace(plan, screen=0, folds=min(plan.folds, 3), repeats=1, rows=1000, exact=rows.positive.size)
        lenses = lenses[:1]
    chosen = _settings(committee, lenses, rows_of, rows, plan, report)
    rounds = [fold_numbers(rows.positive, plan.folds, rows.seed + r) for r in range(plan.repeats)]
    committee.fold = rounds[0]
    scores, slowest = [], 0.0
    for place, lens in enumerate(lenses):
        if place and plan.late(1.0, 1.5 * slowest):
            committee.shortened = f"only {place} of {len(lenses)} lenses were used"
            break
        started = time.perf_counter()
        report(f"fitting {lens.name}")
        member, own = fit_member(rows_of(lens), chosen[lens.name], rounds, rows, plan)
        committee.members.append(member)
        scores.append(own)
        slowest = max(slowest, time.perf_counter() - started)
    parts = zip(committee.members, scores, strict=True)
    committee.unseen = np.mean([member.slope * own + member.offset for member, own in parts], axis=0)
    committee.honest = np.mean([crossed_log_odds(own, rounds[0], rows) for own in scores], axis=0)
    return committee


def _settings(
    committee: Committee,
    lenses: list[Lens],
    rows_of: Callable[[Lens], LensRows],
    rows: ClassRows,
    plan: Plan,
    report: Callable[[str], None],
) -> dict[str, tuple[float, float]]:
    """g and C of each lens: the best of a screen, or the usual ones where there is no time for it."""
    chosen = {lens.name: lens.usual for lens in lenses}
    if not plan.screen:
        return chosen
    some = some_rows(np.arange(rows.positive.size), rows.positive, plan.screen, 0.25, rows.seed)
    gains, slowest = [], 0.0
    for lens in lenses:
        if plan.late(0.4, slowest):  # the rest is for the cross-fitting
            committee.shortened = "some lenses are at their usual setting"
            break
        started = time.perf_counter()
        report(f"screening {lens.name}")
        seen = rows_of(lens)
        found = screen(replace(seen, Z=seen.Z[some]), rows.only(some), min(plan.folds, 5))
        chosen[lens.name] = found.best
        committee.screened += found.table
        gains.append(found.optimism)
        slowest = max(slowest, time.perf_counter() - started)
    committee.optimism = float(np.mean(gains)) if gains else 0.0
    return chosen
