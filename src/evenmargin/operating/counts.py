"""Counts of a confusion matrix at any thresholds, exact and smoothed, from the scores of two classes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr

from .._input.scores import scores_of_two_classes
from .._util.typing import Array, Index
from ..metrics import TOLERANCE

FourCounts = tuple[Array, Array, Array, Array]


def hits_and_misses(counts: FourCounts) -> dict[str, tuple[Array, Array]]:
    """The two counts that each rate is made of: rows that count for it, and against it."""
    tp, fn, fp, tn = counts
    return {"recall": (tp, fn), "specificity": (tn, fp), "precision": (tp, fp)}


@dataclass(frozen=True)
class ClassScores:
    """The scores of one class: distinct and ascending, with the weight of each."""

    values: Array
    weight: Array

    @classmethod
    def of(cls, scores: Array, weight: Array | None) -> ClassScores:
        order = None if weight is None else np.argsort(scores, kind="stable")
        scores = np.sort(scores) if order is None else scores[order]
        first = np.flatnonzero(np.diff(scores, prepend=-np.inf) > 0)
        if weight is None:
            return cls(scores[first], np.diff(first, append=scores.size).astype(np.float64))
        return cls(scores[first], np.add.reduceat(weight[order], first))

    @property
    def total(self) -> float:
        return float(self.weight.sum())

    def counts(self, thresholds: Array) -> tuple[Array, Array]:
        """Weight above each threshold, and at or below it; each sum begins at its own end, so that 0 is 0."""
        below = np.append(0.0, np.cumsum(self.weight))
        above = np.append(np.cumsum(self.weight[::-1])[::-1], 0.0)
        place = np.searchsorted(self.values, thresholds, side="right")
        return above[place], below[place]

    def smoothed_counts(self, thresholds: Array, width: float) -> tuple[Array, Array]:
        """The same if every score were a Gaussian of this width."""
        above = np.empty(thresholds.size)
        for i in range(0, thresholds.size, 256):
            apart = self.values - thresholds[i : i + 256, None]
            above[i : i + 256] = ndtr(apart / width) @ self.weight
        above = np.minimum(above, self.total)
        return above, self.total - above

    def quantiles(self, shares: ArrayLike) -> Array:
        """Scores with at least these shares of the weight at or below them, none twice."""
        cumulated = np.cumsum(self.weight)
        places = np.searchsorted(cumulated, np.asarray(shares) * (cumulated[-1] * (1.0 - TOLERANCE)))
        return np.unique(self.values[np.minimum(places, self.values.size - 1)])

    @property
    def width(self) -> float:
        """Silverman's width of a Gaussian kernel; 0 where all scores are the same."""
        mean = float(np.average(self.values, weights=self.weight))
        spread = math.sqrt(float(np.average((self.values - mean) ** 2, weights=self.weight)))
        middle = float(np.ptp(self.quantiles([0.25, 0.75]))) / 1.34
        return 0.9 * (min(spread, middle) if middle > 0 else spread) * max(self.total, 1.0) ** -0.2

    def group_starts(self, groups: int) -> Index:
        """Where to cut the scores into groups: evenly in the log-odds of the share below, so finely in both tails."""
        cumulated = np.cumsum(self.weight)
        reach = math.log(2.0 * self.weight.size)
        shares = expit(np.linspace(-reach, reach, groups))
        return np.unique(np.append(0, np.searchsorted(cumulated, shares[:-1] * cumulated[-1])))

    def grouped(self, groups: int) -> ClassScores:
        """About that many scores at most in place of all: means of neighbours, with small groups in the tails."""
        if self.values.size <= groups:
            return self
        first = self.group_starts(groups)
        weight = np.add.reduceat(self.weight, first)
        return ClassScores(np.add.reduceat(self.weight * self.values, first) / weight, weight)


@dataclass(frozen=True)
class LabelledScores:
    """The scores of the positive and of the negative rows."""

    positive: ClassScores
    negative: ClassScores

    @classmethod
    def of(cls, scores: ArrayLike, positive: ArrayLike, sample_weight: ArrayLike | None) -> LabelledScores:
        """Checked, without rows of weight 0."""
        true, weight, (score,) = scores_of_two_classes(positive, sample_weight, name="positive", scores=scores)
        return cls(*(ClassScores.of(score[own], None if weight is None else weight[own]) for own in (true, ~true)))

    @property
    def distinct(self) -> Array:
        return np.union1d(self.positive.values, self.negative.values)

    def counts(self, thresholds: Array) -> FourCounts:
        return (*self.positive.counts(thresholds), *self.negative.counts(thresholds))

    def grouped(self, groups: int) -> LabelledScores:
        return LabelledScores(self.positive.grouped(groups), self.negative.grouped(groups))

    def together(self, positive: ArrayLike = 1.0, negative: ArrayLike = 0.0) -> tuple[Array, Array, Array]:
        """Scores and weights of both classes, and of each score the number given for its class."""
        sides = (self.positive, self.negative)
        values, weight = (np.concatenate([getattr(side, name) for side in sides]) for name in ("values", "weight"))
        return values, weight, np.repeat([positive, negative], [side.values.size for side in sides])

    def thresholds(self, most: float = math.inf) -> Array:
        """One for each different prediction, or `most` of them; the first flags all rows, the last none."""
        values = self.distinct
        edge = 0.01 * (float(np.ptp(values)) or float(np.abs(values[0])) or 1.0)
        below = min(values[0] - edge, np.nextafter(values[0], -np.inf))
        thresholds = np.concatenate([[below], between(values), [values[-1] + edge]])
        if thresholds.size <= most:
            return thresholds
        places = [np.array([0, thresholds.size - 1])]
        for side in (self.positive, self.negative):
            first = side.group_starts(int(most - 2) // 2)
            places.append(np.searchsorted(values, side.values[first]))  # the threshold just below that score
        return np.asarray(thresholds[np.unique(np.concatenate(places))])


def between(values: Array) -> Array:
    """A threshold between each two neighbours: not below the lower one, and below the upper one."""
    low, high = values[:-1], values[1:]
    middle = low + 0.5 * (high - low)
    return np.where(middle < high, middle, low)
