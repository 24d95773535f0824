"""Support vector machines for imbalanced data."""

from __future__ import annotations

from .density import DensityWeights
from .kernel import KernelSVM
from .linear import LinearSVM
from .zsvm import ZAdjustedClassifier

__version__ = "0.1.0"

__all__ = ["DensityWeights", "KernelSVM", "LinearSVM", "ZAdjustedClassifier", "__version__"]
