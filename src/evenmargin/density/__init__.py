"""`DensityWeights`: costs from the density around each row."""

from __future__ import annotations

from .schemes import SCHEMES
from .weights import DensityWeights, density_weights

__all__ = ["SCHEMES", "DensityWeights", "density_weights"]
