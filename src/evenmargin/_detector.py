"""A detector of one class: a committee's score, where it is cut, what it means, and what to expect.

Everything here is chosen on the committee's scores of rows that it was not trained on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._committee import Committee
from ._threads import Workers
from .operating import Calibrator, Objective, choose_threshold, metric_interval, operating_curve

__all__ = ["Detector"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_ESTIMATES = ("gmean", "recall", "specificity", "precision", "f1", "auc")


@dataclass
class Detector:
    """A class against the rest.

    Attributes
    ----------
    label : the class
    committee : Committee
    positive, weight : ndarrays of shape (n,)
        The training rows: whether they are of the class, and what they weigh.
    calibrator : Calibrator
    threshold : float
        Scores above it are called positive.
    """

    label: Any
    committee: Committee
    positive: Mask
    weight: Array
    calibrator: Calibrator
    threshold: float = 0.0

    @classmethod
    def of(cls, label: Any, committee: Committee, positive: Mask, weight: Array) -> Detector:
        calibrator = Calibrator().fit(committee.unseen.mean(axis=0), positive, weight)
        return cls(label, committee, positive, weight, calibrator)

    @property
    def unseen(self) -> Array:
        """Scores of the training rows by machines that have not seen them."""
        return np.asarray(self.committee.unseen.mean(axis=0))

    def score(self, X: Array, workers: Workers | None = None) -> Array:
        return self.committee.score(X, workers)

    def probability(self, scores: Any) -> Array:
        return self.calibrator.probability(scores)

    @property
    def probability_threshold(self) -> float:
        return float(self.probability(self.threshold))

    def cut_for(self, objective: Objective) -> bool:
        """Cut where the objective says; False if nothing reaches it, and the nearest was taken."""
        choice = choose_threshold(self.unseen, self.positive, objective, self.weight)
        self.threshold = choice.threshold
        return choice.reached

    def estimates(self, objective: Objective | None) -> pd.DataFrame:
        """What to expect of new rows: metric by value, low and high.

        A threshold looks too good on the rows that it was chosen on. So each fold is
        cut where the other folds say, if there is an objective to say it.
        """
        scores, cut = self.unseen, np.full(self.positive.size, self.threshold)
        for k in range(int(self.committee.fold.max()) + 1) if objective is not None else ():
            others = self.committee.fold != k
            if 0 < np.count_nonzero(self.positive[others]) < np.count_nonzero(others):
                choice = choose_threshold(scores[others], self.positive[others], objective, self.weight[others])
                cut[~others] = choice.threshold
        rows = {
            name: metric_interval(scores if name == "auc" else scores - cut, self.positive, 0.0, name, self.weight)
            for name in _ESTIMATES
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["value", "low", "high"])

    def curve(self, objective: Objective | None) -> pd.DataFrame:
        """What every threshold would do."""
        curve = operating_curve(self.unseen, self.positive, self.weight, objective)
        curve.insert(1, "probability", self.probability(curve["threshold"].to_numpy()))
        return curve
