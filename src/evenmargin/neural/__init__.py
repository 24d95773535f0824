"""Neural networks whose losses are weighted by density."""

from __future__ import annotations

from .estimators import DensityWeightedMLPClassifier, DensityWeightedMLPRegressor

__all__ = ["DensityWeightedMLPClassifier", "DensityWeightedMLPRegressor"]
