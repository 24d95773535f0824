"""Searches that share their work."""

from __future__ import annotations

from .learned import LearnedWeights
from .search import SharedGridSearch, pegasos_grid

__all__ = ["LearnedWeights", "SharedGridSearch", "pegasos_grid"]
