"""Support vector machines for imbalanced data."""

from __future__ import annotations

from .linear import LinearSVM

__version__ = "0.1.0"

__all__ = ["LinearSVM", "__version__"]
