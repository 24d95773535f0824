"""How much work to do for a table, and a summary of what was done."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

MOST_ROWS = 100_000  # to learn from: all of the rare class, if it is up to half of them
_PER_SECOND = 1_000  # rows to learn from, for each second of time
FEW = 100  # rows of the rare class below which folds are repeated
_MANY = 500  # rows of the rare class from which five folds are enough


@dataclass(frozen=True)
class Plan:
    """How much work to do, and in how many seconds from `started` on, by time.perf_counter."""

    screen: int = 1000  # rows to choose g and C on; 0 takes the usual ones
    folds: int = 5  # of the cross-fitting
    repeats: int = 1  # of the cross-fitting
    exact: int = 50_000  # rows up to which machines are exact
    rows: int = 4_000  # of an exact machine, at most; all positive ones are kept if they are up to half of it
    landmarks: int = 500  # of the Nyström map above that
    seconds: float = np.inf
    started: float = 0.0
    turn: tuple[int, int] = (0, 1)  # which of how many committees this is

    def late(self, share: float, more: float = 0.0) -> bool:
        """Whether this share of the committee's time will be over in so many seconds."""
        place, count = self.turn
        return time.perf_counter() + more > self.started + (place + share) / count * self.seconds


def most_rows(time_budget: float | str) -> int:
    """Rows to learn from, at most."""
    return MOST_ROWS if isinstance(time_budget, str) else int(np.clip(_PER_SECOND * time_budget, 4_000, MOST_ROWS))


def plan_for(sizes: dict[Any, int], time_budget: float | str, folds: int | None, started: float) -> Plan:
    """The plan for classes of these sizes, with a warning where one is too small for the folds."""
    least = min(sizes.values())
    folds = folds or (10 if least < _MANY else 5)
    if least < folds:
        rarest = next(label for label, size in sizes.items() if size == least)
        trust = "how well it is found cannot be known" if least == 1 else "estimates for it will be rough"
        warnings.warn(
            f"Class {rarest!r} has only {least} different row{'s' * (least > 1)}, so {max(2, least)} folds "
            f"are used: {trust}.",
            UserWarning,
            stacklevel=4,
        )
    plan = Plan(folds=max(2, min(folds, least)), rows=int(np.clip(sum(sizes.values()) // 5, 4000, 8000)))
    if time_budget == "fast":
        return replace(plan, screen=0)
    if time_budget == "thorough":
        return replace(plan, screen=4000, repeats=10 if least < FEW else 3)
    return replace(plan, repeats=2 if least < FEW else 1, seconds=float(time_budget), started=started)


@dataclass(frozen=True)
class FitRecord:
    """Rows of the table, rows that were learned from, the plan, and how long it took."""

    rows: int
    used: int
    plan: Plan
    seconds: float

    def describe(self, columns: str) -> list[tuple[str, str]]:
        """Lines on the table and the machines; `columns` describes the columns."""
        sample = f", of which {self.used:,} were used" if self.used < self.rows else ""
        exact = self.used <= self.plan.exact
        kind = "exact kernel machines" if exact else f"kernel machines approximated by {self.plan.landmarks} landmarks"
        return [
            ("rows", f"{self.rows:,}{sample}"),
            ("columns", columns),
            ("machines", f"{kind}, {self.plan.folds} folds; fitted in {self.seconds:.1f} s"),
        ]


@dataclass
class Summary:
    """What was done, in words: `print(model.summary_)`."""

    lines: list[tuple[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        width = max(len(title) for title, _ in self.lines) + 2
        return "\n".join(f"{title:<{width}}{text}" for title, text in self.lines)

    __repr__ = __str__
