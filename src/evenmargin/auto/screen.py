"""The screen: the g and C of a lens whose out-of-fold scores are best, by ROC-AUC plus the best smoothed G-mean."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from .._util.typing import Array, Index, Mask
from ..metrics import roc_auc
from .crossfit import fit_grid
from .rows import ClassRows, LensRows, fold_numbers, fold_splits

__all__ = ["Screen", "screen"]

CS = (1.0, 10.0)  # to choose from


class Screen(NamedTuple):
    """The best setting (g, C) of a lens, all that were tried, and how much too good the best looks."""

    best: tuple[float, float]
    table: list[dict[str, Any]]
    optimism: float


def screen(seen: LensRows, rows: ClassRows, folds: int) -> Screen:
    """Try every g and C of a lens on these rows."""
    fold = fold_numbers(rows.positive, folds, rows.seed + 1000)
    tried = [(g, C) for g in seen.lens.grid for C in CS]
    scores = np.empty((len(tried), fold.size))
    for found in fit_grid(seen, fold_splits(fold, rows.positive), seen.lens.grid, CS, rows, fold.size):
        scores[:, found.test] = found.scores.reshape(len(tried), -1)
    areas = [roc_auc(rows.positive, own, rows.weight) for own in scores]
    means = [_smoothed_gmean(own, rows.positive, rows.weight) for own in scores]
    table = [
        {"lens": seen.lens.name, "g": g, "C": C, "rows": fold.size, "roc_auc": area, "gmean": mean}
        for (g, C), area, mean in zip(tried, areas, means, strict=True)
    ]
    best = int(np.argmax(np.add(areas, means)))
    return Screen(tried[best], table, _optimism(scores, best, fold, rows))


def _optimism(scores: Array, best: int, fold: Index, rows: ClassRows) -> float:
    """By how much the best setting beats, in ROC-AUC on each fold, what the other folds would have chosen."""

    def area(own: Array, some: Index | Mask) -> float:
        return roc_auc(rows.positive[some], own[some], rows.weight[some])

    gains = []
    for own, others in rows.known_folds(fold):
        if rows.has_both(own):
            chosen = int(np.argmax([area(one, others) for one in scores]))
            gains.append(area(scores[best], own) - area(scores[chosen], own))
    return max(0.0, float(np.mean(gains))) if gains else 0.0


def _smoothed_gmean(scores: Array, positive: Mask, weight: Array, bins: int = 128) -> float:
    """The best G-mean of scores whose two distributions are smoothed, on a grid: for choosing among many."""
    low, high = float(scores.min()), float(scores.max())
    if not high > low:
        return 0.0
    step = (high - low) / (bins - 1)
    centres = np.arange(bins) * step
    rates = []
    for kind in (True, False):
        own, mass = scores[positive == kind] - low, weight[positive == kind]
        total = mass.sum()
        mean = mass @ own / total
        spread = float(np.sqrt(mass @ (own - mean) ** 2 / total))
        quartiles = np.quantile(own, [0.25, 0.75], weights=mass, method="inverted_cdf")
        robust = float(quartiles[1] - quartiles[0]) / 1.34
        width = 0.9 * (min(spread, robust) or max(spread, robust)) * total**-0.2
        held = np.bincount(np.rint(own / step).astype(np.intp), weights=mass, minlength=bins) / total
        rates.append(ndtr((centres[None, :] - centres[:, None]) / max(width, 1e-3 * step)) @ held)
    return float(np.sqrt(np.max(rates[0] * (1.0 - rates[1]))))
