"""A detector of one class: a committee's score, its threshold, what it means, and what to expect.

Everything here is chosen on the committee's out-of-fold scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .._util.typing import Array, Mask
from ..operating import Calibrator, Choice, Objective, choose_threshold, metric_interval, operating_curve
from .committee import Committee
from .plan import FEW

_PARTS = 5  # with a threshold from the others; two folds of ten are one part, as each threshold takes time
_ESTIMATES = ("gmean", "recall", "specificity", "precision", "f1", "roc_auc")
_TITLES = {"gmean": "G-mean", "recall": "recall", "precision": "precision", "roc_auc": "ROC-AUC"}


@dataclass
class Detector:
    """A class against the rest, with the calibrator that says what a score means as a probability."""

    label: Any
    committee: Committee
    positive: Mask  # of the training rows, whether they are of the class
    weight: Array
    count: Array  # how many rows of the table each of them stands for, which decides how wide intervals are
    sign: float = 1.0  # −1 where the class is the first of two: turns scores into those of `classes_[1]`
    threshold: float = 0.0  # the class is predicted for scores above it

    def __post_init__(self) -> None:
        self.calibrator = Calibrator().fit(self.committee.unseen, self.positive, self.weight)

    @property
    def probability_threshold(self) -> float:
        return float(self.calibrator.probability(self.threshold))

    def choose(self, objective: Objective) -> Choice:
        """The threshold that is best for the objective."""
        return choose_threshold(self.committee.unseen, self.positive, objective, self.weight)

    def estimates(self, objective: Objective | None) -> pd.DataFrame:
        """What to expect of new rows: metric by value, low and high.

        A threshold looks too good on the rows that it was chosen on. So each fold gets the
        threshold that is best for the other folds, if there is an objective. The gain
        from the choice of settings is subtracted.
        """
        part, cut = self.committee.fold % _PARTS, np.full(self.positive.size, self.threshold)
        scores = self.committee.unseen if objective is None else self.committee.honest
        for k in range(int(part.max()) + 1):
            others = part != k
            if objective is not None and 0 < np.count_nonzero(self.positive[others]) < np.count_nonzero(others):
                choice = choose_threshold(scores[others], self.positive[others], objective, self.weight[others])
                cut[~others] = choice.threshold
        rows = {}
        for name in _ESTIMATES:
            own = scores if name == "roc_auc" else scores - cut
            found = metric_interval(own, self.positive, 0.0, name, self._counted(name))
            gain = self.committee.optimism if name in ("roc_auc", "gmean", "recall", "specificity") else 0.0
            rows[name] = [max(0.0, figure - gain) for figure in found]
        if min(np.count_nonzero(self.positive), np.count_nonzero(~self.positive)) == 1:
            rows = {name: [np.nan, 0.0, 1.0] for name in rows}  # its only row was trained on
        return pd.DataFrame.from_dict(rows, orient="index", columns=["value", "low", "high"])

    def describe(self, objective: str, estimates: pd.DataFrame) -> list[tuple[str, str]]:
        """Lines for the summary: how frequent the class is, where it is predicted, and what to expect."""
        count = int(self.count[self.positive].sum())
        share = self.weight[self.positive].sum() / self.weight.sum()
        lines = [
            (f"class {self.label!r}", f"{count:,} rows, {share:.2%} of the weight"),
            ("  views", ", ".join(member.name for member in self.committee.members)),
            ("  boundary", f"at a probability of {self.probability_threshold:.3g} ({objective})"),
            ("  expected", "on new rows:"),
        ]
        for name, title in _TITLES.items():
            value, low, high = estimates.loc[name]
            known = f"{value:.3f} (95 % interval {low:.3f} to {high:.3f})"
            lines.append((f"  {title}", "unknown" if np.isnan(value) else known))
        if count < FEW:
            lines.append(("  note", f"{count:,} rows of the class are few: trust the intervals, not the values"))
        if self.committee.shortened:
            lines.append(("  note", f"time was short: {self.committee.shortened}"))
        return lines

    def _counted(self, name: str) -> Array:
        """Weights that add up to the rows there were: repeating rows, or weighing them, makes nothing surer.

        For each class, where its share does not matter to the metric; else by the class alone.
        """
        own, rest = (self.count[side].sum() / self.weight[side].sum() for side in (self.positive, ~self.positive))
        return self.weight * np.where(self.positive, own, own if name in ("precision", "f1") else rest)

    def curve(self, objective: Objective | None) -> pd.DataFrame:
        """What every threshold would do."""
        curve = operating_curve(self.committee.unseen, self.positive, self.weight, objective)
        curve.insert(1, "probability", self.calibrator.probability(curve["threshold"].to_numpy()))
        return curve


def class_scores(detectors: list[Detector], scores: list[Array]) -> Array:
    """How far the detectors' scores are above the boundary: of `classes_[1]`, or of each class."""
    if len(detectors) == 1:
        return np.asarray(detectors[0].sign * (scores[0] - detectors[0].threshold))
    above = [
        _log_odds(detector.calibrator.probability(own)) - _log_odds(detector.probability_threshold)
        for detector, own in zip(detectors, scores, strict=True)
    ]
    return np.column_stack(above)


def class_probabilities(detectors: list[Detector], scores: list[Array]) -> Array:
    """A column for each class, from the detectors' scores."""
    shares = [detector.calibrator.probability(own) for detector, own in zip(detectors, scores, strict=True)]
    if len(detectors) == 1:
        (share,) = shares
        return np.column_stack([1.0 - share, share] if detectors[0].sign > 0 else [share, 1.0 - share])
    every = np.column_stack(shares)
    return np.asarray(every / every.sum(axis=1, keepdims=True))


def _log_odds(probability: Any) -> Any:
    return np.log(probability) - np.log1p(-np.asarray(probability))
