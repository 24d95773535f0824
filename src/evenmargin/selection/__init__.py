"""Searches that share their work."""

from __future__ import annotations

from .learned import LearnedWeights
from .pegasos import pegasos_grid
from .search import SharedGridSearch

__all__ = ["LearnedWeights", "SharedGridSearch", "pegasos_grid"]
