"""The colours of all figures, from the palette of Okabe and Ito, which colour-blind readers can distinguish."""

from __future__ import annotations

__all__ = ["BLACK", "GREEN", "GREY", "NEGATIVE", "OTHERS", "POSITIVE", "PURPLE"]

NEGATIVE, POSITIVE = "#0072B2", "#D55E00"  # blue, vermilion
BLACK, GREY, GREEN, PURPLE = "#222222", "#8C8C8C", "#009E73", "#AA4499"
OTHERS = [GREEN, PURPLE, "#56B4E9", "#B8860B"]
