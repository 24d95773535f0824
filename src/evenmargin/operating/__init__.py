"""Operating points: where to put a threshold on scores, what to expect there, and what a score means as a probability.

All of it needs scores, labels and weights only. Scores should be of rows that the machine was not trained on. A row is
flagged (classified as positive) where its score is above the threshold. A weight of 2 counts a row twice, everywhere.
"""

from __future__ import annotations

from .calibration import Calibrator
from .intervals import MetricInterval, expected_cost, metric_interval, wilson
from .objectives import Floor, Objective, get_objective
from .thresholds import Choice, choose_threshold, operating_curve

__all__ = [
    "Calibrator",
    "Choice",
    "Floor",
    "MetricInterval",
    "Objective",
    "choose_threshold",
    "expected_cost",
    "get_objective",
    "metric_interval",
    "operating_curve",
    "wilson",
]
