"""`EvenMarginClassifier`: a good model without tuning."""

from __future__ import annotations

from .classifier import EvenMarginClassifier
from .plan import Summary

__all__ = ["EvenMarginClassifier", "Summary"]
