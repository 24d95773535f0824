"""Figures in scikit-learn's Display manner: computed once, drawn with `plot`, matplotlib imported only then.

The negative class is always blue and the positive class vermilion, from the palette
of Okabe and Ito, which colour-blind readers can distinguish. Rows of weight 2 count
twice, rows of weight 0 not at all.
"""

from __future__ import annotations

from ._costs import CostCurveDisplay, DecisionCurveDisplay
from ._reliability import ReliabilityDisplay
from ._scores import BoundaryDistanceDisplay, ScoreHistogramDisplay
from ._search import HeatMapDisplay
from ._threshold import ThresholdDisplay

__all__ = [
    "BoundaryDistanceDisplay",
    "CostCurveDisplay",
    "DecisionCurveDisplay",
    "HeatMapDisplay",
    "ReliabilityDisplay",
    "ScoreHistogramDisplay",
    "ThresholdDisplay",
]
