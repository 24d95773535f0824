"""The summary of a fit: what was done, and what to expect, in words."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from .detector import Detector
from .plan import FEW, Plan

__all__ = ["FitRecord", "Summary", "describe_detector"]

_TITLES = {"gmean": "G-mean", "recall": "recall", "precision": "precision", "roc_auc": "ROC-AUC"}


@dataclass
class Summary:
    """What was done, in words: `print(model.summary_)`."""

    lines: list[tuple[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        width = max(len(title) for title, _ in self.lines) + 2
        return "\n".join(f"{title:<{width}}{text}" for title, text in self.lines)

    __repr__ = __str__


@dataclass(frozen=True)
class FitRecord:
    """Rows of the table, rows that were learned from, the plan, and how long it took."""

    rows: int
    used: int
    plan: Plan
    seconds: float

    def describe(self, columns: str) -> list[tuple[str, str]]:
        """Lines on the table and the machines; `columns` describes the columns."""
        sample = f", of which {self.used:,} were learned from" if self.used < self.rows else ""
        kind = "exact kernels" if self.used <= self.plan.exact else f"a Nyström map of {self.plan.landmarks} landmarks"
        return [
            ("rows", f"{self.rows:,}{sample}"),
            ("columns", columns),
            ("machines", f"{kind}, {self.plan.folds} folds; fitted in {self.seconds:.1f} s"),
        ]


def describe_detector(detector: Detector, objective: str, estimates: pd.DataFrame) -> list[tuple[str, str]]:
    """Lines on a class: how frequent it is, where it is predicted, and what to expect."""
    count, committee = int(detector.count[detector.positive].sum()), detector.committee
    share = detector.weight[detector.positive].sum() / detector.weight.sum()
    lines = [
        (f"class {detector.label!r}", f"{count:,} rows, {share:.2%} of the weight"),
        ("  lenses", ", ".join(member.name for member in committee.members)),
        ("  boundary", f"{objective}: predicted above a probability of {detector.probability_threshold:.3g}"),
        ("  to expect", "on rows that it has not seen:"),
    ]
    for name, title in _TITLES.items():
        value, low, high = estimates.loc[name]
        known = f"{value:.3f} (95 % interval {low:.3f} to {high:.3f})"
        lines.append((f"  {title}", "unknown" if np.isnan(value) else known))
    if count < FEW:
        lines.append(("  note", f"{count:,} rows of the class are few: trust the intervals, not the values"))
    if committee.shortened:
        lines.append(("  note", f"time was short: {committee.shortened}"))
    return lines
