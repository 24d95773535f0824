"""What errors cost when costs and class sizes vary: cost curves and decision curves."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from .._util.typing import Array, Index
from ..operating.counts import ClassScores
from ._base import Option, ProbabilityDisplay, ScoreDisplay, ScoredRows, ScoreSource, of_class
from .axes import NEGATIVE, POSITIVE, Style, has_label, legend_above, next_color, reference, style

__all__ = ["CostCurveDisplay", "DecisionCurveDisplay"]


def _counts_above(rows: ScoredRows) -> tuple[Array, Array, Array]:
    """Distinct scores with −inf before them, and the weight of each class above each of them."""
    score = rows.scores[0]
    cuts = np.append(-np.inf, np.unique(score))
    sides = (rows.positive, ~rows.positive)
    tp, fp = (ClassScores.of(score[side], rows.weight[side]).counts(cuts)[0] for side in sides)
    return cuts, tp, fp


@dataclass(eq=False, repr=False)
class CostCurveDisplay(ScoreDisplay):
    """Cost curves of Drummond and Holte: the expected cost of a classifier for all costs and class sizes.

    The probability-cost of the positive class, from 0 to 1, is its share of the cost if
    all rows were predicted wrongly: p₊·C₊/(p₊·C₊ + p₋·C₋), where p is the share of a class
    and C the cost of an error in it. Plotted over it, the normalised expected cost of a
    threshold is the straight line from its false positive rate to its false negative rate.
    The curve is the lowest of all these lines, and is compared with the classifiers that
    predict one class for every row. Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    probability_cost, cost : ndarray of shape (n_corners,)
        Corners of the curve, which is straight between them: ``np.interp(x, probability_cost,
        cost)`` is exact.
    thresholds : ndarray of shape (n_corners - 1,)
        The best threshold between two corners, −inf to predict all rows positive.
    rates : tuple of two floats or None, default=None
        False positive and false negative rate at `threshold`.
    threshold : float or None, default=None
        The classifier's own threshold.

    Attributes
    ----------
    line_ : matplotlib Line2D
    threshold_line_ : matplotlib Line2D or None

    References
    ----------
    Chris Drummond and Robert Holte, "Cost curves: An improved method for visualizing
    classifier performance", Machine Learning, 2006.

    Examples
    --------
    >>> from evenmargin.display import CostCurveDisplay
    >>> display = CostCurveDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> display.probability_cost, display.cost
    (array([0. , 0.5, 1. ]), array([0.  , 0.25, 0.  ]))
    """

    probability_cost: Array
    cost: Array
    thresholds: Array
    rates: tuple[float, float] | None = None
    threshold: float | None = None
    labels: tuple[object, object] | None = None
    name: str | None = None

    _subject = "the cost curve"
    _options = {
        "threshold": Option(
            None, "float, 'own' or None",
            "Also draw the line of this threshold; 'own' is the threshold of the estimator.", "own",
        ),
    }  # fmt: skip

    @classmethod
    def _compute(
        cls, rows: ScoredRows, source: ScoreSource, *, threshold: float | str | None = None
    ) -> CostCurveDisplay:
        if source.threshold is not None and isinstance(threshold, str) and threshold == "own":
            threshold = source.threshold
        if threshold is not None and (not isinstance(threshold, Real) or not np.isfinite(float(threshold))):
            raise ValueError(f"threshold={threshold!r} must be a finite number, or None.")
        cuts, tp, fp = _counts_above(rows)
        fnr, fpr = 1.0 - tp / tp[0], fp / fp[0]
        corners, cost, best = _lower_envelope(fpr[::-1], fnr[::-1])
        rates = None
        if threshold is not None:
            place = int(np.searchsorted(cuts, float(threshold), side="right")) - 1
            threshold, rates = float(threshold), (float(fpr[place]), float(fnr[place]))
        return cls(corners, cost, cuts[::-1][best], rates, threshold, rows.labels)

    def _draw(self, name: str | None, kwargs: Style) -> None:
        ax, ends = self.ax_, np.array([0.0, 1.0])
        highest = 0.0 if not has_label(ax, "always negative") else ax.get_ylim()[1]
        reference(ax, ends, ends, NEGATIVE, "always negative")
        reference(ax, ends, 1.0 - ends, POSITIVE, "always positive")
        drawn = style(kwargs, label=name or "best threshold", linewidth=2.0, color=next_color(ax))
        (self.line_,) = ax.plot(self.probability_cost, self.cost, **drawn)
        self.threshold_line_ = None
        if self.rates is not None:
            label = f"{name} at {self.threshold:.3g}" if name else f"threshold {self.threshold:.3g}"
            (self.threshold_line_,) = ax.plot(
                ends, self.rates, color=self.line_.get_color(), linewidth=1.2, linestyle=":", label=label
            )
        of = "" if self.labels is None else f" {self.labels[1]}"
        ax.set(xlabel=f"Probability-cost of the positive class{of}", ylabel="Normalised expected cost")
        # Above one half even tossing a coin is better: only a classifier's own line may need the room.
        needed = min(1.0, 1.06 * max((0.5, *(self.rates or ()))))
        ax.set(xlim=(0.0, 1.0), ylim=(0.0, max(needed, highest)))
        legend_above(ax)


def _lower_envelope(fpr: Array, fnr: Array) -> tuple[Array, Array, Index]:
    """Corners of the lowest of the lines fpr + x·(fnr − fpr) on [0, 1], and which line is lowest between them.

    These lines belong to the corners of the lower left hull of the points (fpr, fnr), which
    must come with fpr ascending and fnr descending.
    """
    # Only where a step down ends and a step to the right begins can be a corner: few points, if a class is rare.
    ends_down, begins_right = np.diff(fnr, prepend=2.0) < 0, np.diff(fpr, append=2.0) > 0
    hull: list[int] = []
    for k in np.flatnonzero(ends_down & begins_right).tolist():
        while len(hull) > 1:
            i, j = hull[-2], hull[-1]
            # j stays if it is strictly below the straight line from i to k.
            if (fpr[j] - fpr[i]) * (fnr[k] - fnr[i]) > (fnr[j] - fnr[i]) * (fpr[k] - fpr[i]):
                break
            hull.pop()
        hull.append(k)
    best = np.array(hull, dtype=np.intp)
    right, down = np.diff(fpr[best]), -np.diff(fnr[best])
    corners = np.concatenate([[0.0], right / (right + down), [1.0]])
    # A line that is best at an end only (all rows are predicted alike) is lowest on no interval.
    kept = np.flatnonzero(np.diff(corners) > 0)
    best = best[kept]
    corners = np.append(corners[kept], 1.0)
    line = np.append(best, best[-1])
    return corners, fpr[line] * (1.0 - corners) + fnr[line] * corners, best


@dataclass(eq=False, repr=False)
class DecisionCurveDisplay(ProbabilityDisplay):
    """Decision curve: the net benefit of acting on predicted probabilities above a threshold.

    Net benefit is tp/n − fp/n · t/(1 − t): the hits minus the false alarms, which are weighted
    by the odds of the threshold t above which one would act. It depends on the class sizes, which must be
    those of the population, and is compared with acting on all rows and on none. Make one
    with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    thresholds : ndarray of shape (n_thresholds,)
    net_benefit, treat_all : ndarray of shape (n_thresholds,)
    prevalence : float
        Share of the positive class.

    Attributes
    ----------
    line_ : matplotlib Line2D

    References
    ----------
    Andrew Vickers and Elena Elkin, "Decision curve analysis: a novel method for
    evaluating prediction models", Medical Decision Making, 2006.

    Examples
    --------
    >>> from evenmargin.display import DecisionCurveDisplay
    >>> display = DecisionCurveDisplay.from_predictions(
    ...     [0, 0, 0, 1], [0.1, 0.2, 0.6, 0.7], thresholds=[0.0, 0.25, 0.5]
    ... )
    >>> display.net_benefit.round(3)
    array([0.25 , 0.167, 0.   ])
    """

    thresholds: Array
    net_benefit: Array
    treat_all: Array
    prevalence: float
    labels: tuple[object, object] | None = None
    name: str | None = None

    _subject = "the decision curve"
    _options = {
        "thresholds": Option(
            None, "array-like", "From 0 to below 1; if None, up to where few positives remain above."
        ),
    }  # fmt: skip

    @classmethod
    def _compute(
        cls, rows: ScoredRows, source: ScoreSource, *, thresholds: ArrayLike | None = None
    ) -> DecisionCurveDisplay:
        cuts, tp, fp = _counts_above(rows)
        total = float(rows.weight.sum())
        prevalence = float(rows.weight[rows.positive].sum()) / total
        grid = _threshold_grid(thresholds, rows, prevalence)
        place = np.searchsorted(cuts, grid, side="right") - 1
        odds = grid / (1.0 - grid)
        benefit = (tp[place] - fp[place] * odds) / total
        return cls(grid, benefit, prevalence - (1.0 - prevalence) * odds, prevalence, rows.labels)

    def _draw(self, name: str | None, kwargs: Style) -> None:
        ax = self.ax_
        first = not has_label(ax, "act on all")
        reference(ax, self.thresholds, self.treat_all, POSITIVE, "act on all")
        if first:
            ax.axhline(0.0, color=NEGATIVE, linewidth=1.2, linestyle="--", label="act on none")
        drawn = style(kwargs, label=name or "model", linewidth=2.0, color=next_color(ax))
        (self.line_,) = ax.plot(self.thresholds, self.net_benefit, **drawn)
        ax.set(xlabel=f"Threshold probability{of_class(self.labels)}", ylabel="Net benefit")
        low, high = (0.0, 0.0) if first else ax.get_xlim()
        ax.set_xlim(min(low, float(self.thresholds[0])), max(high, float(self.thresholds[-1])))
        # Far below 0 nobody would use the model: how far does not matter.
        low, high = (-0.25 * self.prevalence, 0.0) if first else ax.get_ylim()
        ax.set_ylim(min(low, -0.25 * self.prevalence), max(high, 1.08 * self.prevalence))
        legend_above(ax)


def _threshold_grid(given: ArrayLike | None, rows: ScoredRows, prevalence: float) -> Array:
    """The given thresholds, or 401 of them up to where 98 % of the positives are below."""
    if given is None:
        positives = ClassScores.of(rows.scores[0][rows.positive], rows.weight[rows.positive])
        top = float(positives.quantiles(0.98)[0])
        return np.linspace(0.0, min(0.99, max(1.1 * top, 3.0 * prevalence)), 401)
    try:
        grid = np.unique(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        grid = np.empty(0)
    if grid.size == 0 or not (grid >= 0).all() or not (grid < 1).all():
        raise ValueError("thresholds must be numbers from 0 to below 1: the odds of 1 are infinite.")
    return grid
