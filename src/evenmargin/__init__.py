"""Support vector machines for imbalanced data."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .auto import EvenMarginClassifier
    from .density import DensityWeights
    from .kernel import KernelSVM
    from .linear import LinearSVM
    from .neural import DensityWeightedMLPClassifier, DensityWeightedMLPRegressor
    from .nystroem import StratifiedNystroem
    from .persistence import load, save
    from .selection import LearnedWeights, SharedGridSearch
    from .zsvm import ZAdjustedClassifier

__version__ = "0.1.0"

__all__ = [
    "DensityWeightedMLPClassifier", "DensityWeightedMLPRegressor", "DensityWeights", "EvenMarginClassifier",
    "KernelSVM", "LearnedWeights", "LinearSVM", "SharedGridSearch", "StratifiedNystroem", "ZAdjustedClassifier",
    "__version__", "load", "save",
]  # fmt: skip

_HOME = {
    "DensityWeightedMLPClassifier": "neural",
    "DensityWeightedMLPRegressor": "neural",
    "DensityWeights": "density",
    "EvenMarginClassifier": "auto",
    "KernelSVM": "kernel",
    "LearnedWeights": "selection",
    "LinearSVM": "linear",
    "SharedGridSearch": "selection",
    "StratifiedNystroem": "nystroem",
    "ZAdjustedClassifier": "zsvm",
    "load": "persistence",
    "save": "persistence",
}


def __getattr__(name: str) -> Any:
    """A name is imported when it is first asked for: not everyone needs pandas."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
