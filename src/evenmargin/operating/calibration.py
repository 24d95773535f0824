"""What a score means as a probability."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from .._util.typing import Array
from .counts import ClassScores, LabelledScores

_GROUPS = 2000  # groups of neighbouring scores that represent a class
_KNOTS = 5  # bends of the log-odds
_STIFF = 3.0  # price of a bend: of the squared difference of two slopes, scores in standard deviations
_BARRIER = 0.01  # what keeps slopes above 0


class Calibrator:
    """Scores to probabilities of being positive, strictly increasing.

    The log-odds are a line with a few bends, fitted by weighted maximum likelihood
    with a penalty on bending: with few rows it is Platt's logistic curve, with many
    it follows their frequencies. As in Platt's method the targets are slightly off 0
    and 1, but their mean remains the share of positive rows. Beyond the log-odds that
    this number of rows can support, the curve grows only logarithmically.

    Attributes
    ----------
    knots_ : ndarray of shape (k,)
        Scores where the log-odds bend.
    log_odds_ : ndarray of shape (k,)
        The log-odds there.
    slopes_ : tuple of two floats
        Their slopes below the first knot and above the last.
    limits_ : tuple of two floats
        The log-odds beyond which growth is logarithmic.

    Examples
    --------
    >>> from evenmargin.operating import Calibrator
    >>> scores, positive = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0], [0, 0, 0, 1, 0, 1]
    >>> calibrator = Calibrator().fit(scores, positive)
    >>> calibrator.probability([-1.0, 1.0]).round(1)
    array([0.1, 0.7])
    >>> float(calibrator.score_at(calibrator.probability(0.25)).round(6))
    0.25
    """

    def fit(self, scores: ArrayLike, positive: ArrayLike, sample_weight: ArrayLike | None = None) -> Calibrator:
        """Fit to scores of rows that the machine was not trained on; a weight of 2 counts a row twice."""
        sample = LabelledScores.of(scores, positive, sample_weight)
        up, down = sample.positive.total, sample.negative.total
        moved = 0.5 / (1.0 + 1.0 / min(up, down))  # half a row or less, from each class to the other
        groups = sample.grouped(_GROUPS)
        values, weight, target = groups.together(1.0 - moved / up, moved / down)
        centre = float(np.average(values, weights=weight))
        scale = math.sqrt(float(np.average((values - centre) ** 2, weights=weight))) or 1.0
        values = (values - centre) / scale
        halves = np.concatenate([side.weight / side.total for side in (groups.positive, groups.negative)])
        knots = ClassScores.of(values, halves).quantiles((np.arange(_KNOTS) + 0.5) / _KNOTS)
        start, slopes = _monotone_log_odds(values, weight, target, knots)
        self.knots_ = centre + scale * knots
        self.log_odds_ = start + np.append(0.0, np.cumsum(slopes[1:-1] * np.diff(knots)))
        self.slopes_ = (float(slopes[0] / scale), float(slopes[-1] / scale))
        self.limits_ = (-math.log(down + 1.0), math.log(up + 1.0))
        return self

    def probability(self, scores: ArrayLike) -> Array:
        """The probability of each score."""
        values = np.asarray(scores, dtype=np.float64)
        knots, odds, (below, above) = self.knots_, self.log_odds_, self.slopes_
        line = np.interp(values, knots, odds)
        line = line + below * np.minimum(values - knots[0], 0.0) + above * np.maximum(values - knots[-1], 0.0)
        low, high = self.limits_
        return expit(
            np.clip(line, low, high) + np.log1p(np.maximum(line - high, 0.0)) - np.log1p(np.maximum(low - line, 0.0))
        )

    def score_at(self, probability: ArrayLike) -> Array:
        """The score that has this probability: the inverse of `probability`."""
        share = np.asarray(probability, dtype=np.float64)
        if not np.all((share > 0) & (share < 1)):
            raise ValueError("probability must lie between 0 and 1, ends excluded.")
        line = np.log(share) - np.log1p(-share)
        low, high = self.limits_
        line = np.clip(line, low, high) + np.expm1(np.maximum(line - high, 0.0)) - np.expm1(np.maximum(low - line, 0.0))
        knots, odds, (below, above) = self.knots_, self.log_odds_, self.slopes_
        outside = np.minimum(line - odds[0], 0.0) / below + np.maximum(line - odds[-1], 0.0) / above
        return np.asarray(np.interp(line, odds, knots) + outside)


def _monotone_log_odds(values: Array, weight: Array, target: Array, knots: Array) -> tuple[float, Array]:
    """The log-odds at the first knot, and the slopes below, between and above the knots.

    Minimises Σ weight · log-loss + stiffness · Σ (difference of neighbouring slopes)²
    − barrier · Σ log(slope) by Newton's method. The barrier keeps slopes above 0, also
    for scores that carry no information, or point the wrong way.
    """
    inner = [np.clip(values, low, high) - low for low, high in pairwise(knots)]
    outer = np.minimum(values - knots[0], 0.0), np.maximum(values - knots[-1], 0.0)
    columns = np.stack([np.ones(values.size), outer[0], *inner, outer[1]])
    k = columns.shape[0]
    bend = np.diff(np.eye(k)[1:], axis=0)
    stiff = 2.0 * _STIFF * bend.T @ bend

    def loss(theta: Array) -> float:
        if not (theta[1:] > 0).all():
            return math.inf
        odds = theta @ columns
        fit = float(weight @ (np.logaddexp(0.0, odds) - target * odds))
        return fit + 0.5 * float(theta @ stiff @ theta) - _BARRIER * float(np.log(theta[1:]).sum())

    share = float(np.average(target, weights=weight))
    theta = np.append(math.log(share / (1.0 - share)), np.ones(k - 1))
    now = loss(theta)
    for _ in range(200):
        chance = expit(theta @ columns)
        walls = np.append(0.0, _BARRIER / theta[1:])
        gradient = columns @ (weight * (chance - target)) + stiff @ theta - walls
        curvature = (columns * (weight * chance * (1.0 - chance))) @ columns.T + stiff + np.diag(walls**2 / _BARRIER)
        step = np.linalg.solve(curvature + 1e-12 * np.trace(curvature) * np.eye(k), gradient)
        promised, size = float(gradient @ step), 1.0
        while size > 1e-9 and not (after := loss(theta - size * step)) <= now - 0.1 * size * promised:
            size *= 0.5
        if size <= 1e-9 or promised <= 1e-12 * (1.0 + abs(now)):
            break
        theta, now = theta - size * step, after
    return float(theta[0]), theta[1:]
