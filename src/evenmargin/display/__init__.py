"""Figures in scikit-learn's Display manner: computed once, drawn with `plot`, matplotlib imported only then.

Everywhere the negative class is blue and the positive one vermilion, of the palette
of Okabe and Ito, which colour-blind readers can tell apart. Rows of weight 2 count
twice, rows of weight 0 not at all.
"""

from __future__ import annotations

from ._costs import CostCurveDisplay, DecisionCurveDisplay
from ._reliability import ReliabilityDisplay
from ._scores import BoundaryDistanceDisplay, ScoreHistogramDisplay
from ._search import HeatMapDisplay, LearningCurveDisplay, ValidationCurveDisplay
from ._threshold import ThresholdDisplay

__all__ = [
    "BoundaryDistanceDisplay",
    "CostCurveDisplay",
    "DecisionCurveDisplay",
    "HeatMapDisplay",
    "LearningCurveDisplay",
    "ReliabilityDisplay",
    "ScoreHistogramDisplay",
    "ThresholdDisplay",
    "ValidationCurveDisplay",
]
