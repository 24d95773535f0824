"""What errors cost when costs and class sizes vary: cost curves and decision curves."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._util.typing import Array, Index, Mask, MatrixLike
from . import _common as common

__all__ = ["CostCurveDisplay", "DecisionCurveDisplay"]


def _counts(score: Array, positive: Mask, weight: Array) -> tuple[Array, Array, Array]:
    """Distinct scores, ascending, and the weight of each class above each of them; with −inf first, all rows."""
    order = np.argsort(score, kind="stable")
    score, mass = score[order], weight[order]
    hits = np.where(positive[order], mass, 0.0)
    last = np.flatnonzero(np.diff(score, append=np.inf) > 0)

    def above(part: Array) -> Array:
        whole = np.cumsum(part[::-1])[::-1]  # from the top, so that nothing above the highest score is exactly 0
        return np.append(whole, 0.0)[np.concatenate([[0], last + 1])]

    return np.append(-np.inf, score[last]), above(hits), above(mass - hits)


@dataclass(eq=False, repr=False)
class CostCurveDisplay:
    """Cost curves of Drummond and Holte: the expected cost of a classifier whatever the costs and class sizes.

    The probability-cost of the positive class, from 0 to 1, is its share of the cost if
    all rows were called wrongly: p₊·C₊/(p₊·C₊ + p₋·C₋), with the share p and the price C
    of an error of each class. Over it the normalised expected cost of a threshold is the
    straight line from its false positive rate to its false negative rate. The curve is
    the lowest of all these lines. Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    probability_cost, cost : ndarray of shape (n_corners,)
        Corners of the curve, which is straight between them: ``np.interp(x, probability_cost,
        cost)`` is exact.
    thresholds : ndarray of shape (n_corners - 1,)
        The best threshold between two corners, −inf to call all rows positive.
    rates : tuple of two floats or None, default=None
        False positive and false negative rate at `threshold`.
    threshold : float or None, default=None
        The classifier's own threshold.
    labels : tuple or None, default=None
        The labels (negative, positive).
    name : str or None, default=None
        For the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
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
    labels: tuple[Any, Any] | None = None
    name: str | None = None

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> CostCurveDisplay:
        """Draw the curve, and the two classifiers that look at nothing.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None: of a new figure. Several curves share them.
        name : str, default=None
            For the legend; None: `self.name`.
        **kwargs : dict
            For the curve, as in matplotlib's `plot`.

        Returns
        -------
        self
        """
        name = self.name if name is None else name
        self.ax_ = ax = common.get_axes(ax)
        self.figure_ = ax.figure
        first, ends = not common.has_label(ax, "always negative"), np.array([0.0, 1.0])
        for label, color, heights in (
            ("always negative", common.NEGATIVE, ends),
            ("always positive", common.POSITIVE, 1.0 - ends),
        ):
            if not common.has_label(ax, label):
                ax.plot(ends, heights, color=color, linewidth=1.2, linestyle="--", label=label)
        drawn = {"label": name or "best threshold", "linewidth": 2.0, "color": _next_color(ax)}
        (self.line_,) = ax.plot(self.probability_cost, self.cost, **common.style(kwargs, **drawn))
        self.threshold_line_ = None
        if self.rates is not None:
            (self.threshold_line_,) = ax.plot(
                ends, self.rates, color=self.line_.get_color(), linewidth=1.2, linestyle=":",
                label=f"{name} at {self.threshold:.3g}" if name else f"threshold {self.threshold:.3g}",
            )  # fmt: skip
        of = "" if self.labels is None else f" {self.labels[1]}"
        ax.set(xlabel=f"Probability-cost of the positive class{of}", ylabel="Normalised expected cost")
        # Above one half even a coin is better: only a classifier's own line may need the room.
        highest = 1.06 * max((0.5, *(self.rates or ())))
        ax.set(xlim=(0.0, 1.0), ylim=(0.0, max(min(1.0, highest), 0.0 if first else ax.get_ylim()[1])))
        common.legend_above(ax)
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: MatrixLike,
        y: ArrayLike,
        *,
        threshold: float | str | None = "own",
        sample_weight: ArrayLike | None = None,
        response_method: str = "auto",
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> CostCurveDisplay:
        """Draw the cost curve of a fitted classifier on (X, y).

        Parameters
        ----------
        estimator : fitted classifier
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        threshold : float, "own" or None, default="own"
            Draw also the line of this threshold; "own" is where the estimator cuts.
        sample_weight : array-like of shape (n_samples,), default=None
        response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
            "auto" takes `predict_proba` if there is one.
        pos_label : label, default=None
            The positive class; None: `classes_[1]`.
        name : str, default=None
            For the legend; None: the estimator's class.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            For the curve, as in matplotlib's `plot`.

        Returns
        -------
        CostCurveDisplay
        """
        common.check_matplotlib()
        score, pos_label, method = common.responses(estimator, X, response_method, pos_label)
        if isinstance(threshold, str) and threshold == "own":
            threshold = common.own_threshold(estimator, method, pos_label)
        return cls.from_predictions(
            y, score, threshold=threshold, sample_weight=sample_weight, pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name, ax=ax, **kwargs,
        )  # fmt: skip

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        threshold: Any = None,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> CostCurveDisplay:
        """Draw the cost curve of given scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
        y_score : array-like of shape (n_samples,)
            Higher for the positive class; rows above a threshold are called positive.
        threshold : float or None, default=None
            Draw also the line of this threshold.
        sample_weight : array-like of shape (n_samples,), default=None
        pos_label : label, default=None
            The positive class; None: the label 1.
        name : str, default=None
            For the legend.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            For the curve, as in matplotlib's `plot`.

        Returns
        -------
        CostCurveDisplay
        """
        common.check_matplotlib()
        if threshold is not None and (not isinstance(threshold, Real) or not np.isfinite(float(threshold))):
            raise ValueError(f"threshold={threshold!r} must be a finite number, or None.")
        positive, weight, (score,), labels = common.label_rows(y_true, pos_label, sample_weight, y_score=y_score)
        cuts, tp, fp = _counts(score, positive, weight)
        fnr, fpr = 1.0 - tp / tp[0], fp / fp[0]
        corners, cost, best = _lower_envelope(fpr[::-1], fnr[::-1])
        rates = None
        if threshold is not None:
            place = int(np.searchsorted(cuts, float(threshold), side="right")) - 1
            threshold, rates = float(threshold), (float(fpr[place]), float(fnr[place]))
        return cls(corners, cost, cuts[::-1][best], rates, threshold, labels, name).plot(ax, **kwargs)


def _next_color(ax: Any) -> str:
    """Another colour for each curve on the same axes; dashed and dotted lines are references."""
    curves = sum(line.get_linestyle() == "-" for line in ax.lines)
    palette = [common.BLACK, *common.OTHERS]
    return palette[curves % len(palette)]


def _lower_envelope(fpr: Array, fnr: Array) -> tuple[Array, Array, Index]:
    """Corners of the lowest of the lines fpr + x·(fnr − fpr) on [0, 1], and the line between two corners.

    The lines that take part are the corners of the lower left hull of the points
    (fpr, fnr), which come here with fpr ascending and fnr descending.
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
    # Lines that are best at an end only (all called the same, and no better there) leave no stretch.
    stretch = np.flatnonzero(np.diff(corners) > 0)
    best = best[stretch]
    corners = np.append(corners[stretch], 1.0)
    line = np.append(best, best[-1])
    return corners, fpr[line] * (1.0 - corners) + fnr[line] * corners, best


@dataclass(eq=False, repr=False)
class DecisionCurveDisplay:
    """Decision curve: the net benefit of acting on predicted probabilities above a threshold.

    Net benefit is tp/n − fp/n · t/(1 − t): hits, less false alarms at the odds of the
    threshold t at which one would just act. It is compared with acting on all rows and
    on none. Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    thresholds : ndarray of shape (n_thresholds,)
    net_benefit, treat_all : ndarray of shape (n_thresholds,)
    prevalence : float
        Share of the positive class.
    labels : tuple or None, default=None
        The labels (negative, positive).
    name : str or None, default=None
        For the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
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
    labels: tuple[Any, Any] | None = None
    name: str | None = None

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> DecisionCurveDisplay:
        """Draw the curve, and what acting on all rows or on none gives.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None: of a new figure. Several curves share them.
        name : str, default=None
            For the legend; None: `self.name`.
        **kwargs : dict
            For the curve, as in matplotlib's `plot`.

        Returns
        -------
        self
        """
        name = (self.name if name is None else name) or "model"
        self.ax_ = ax = common.get_axes(ax)
        self.figure_ = ax.figure
        first = not common.has_label(ax, "act on all")
        if first:
            ax.plot(
                self.thresholds,
                self.treat_all,
                color=common.POSITIVE,
                linewidth=1.2,
                linestyle="--",
                label="act on all",
            )
            ax.axhline(0.0, color=common.NEGATIVE, linewidth=1.2, linestyle="--", label="act on none")
        drawn = {"label": name, "linewidth": 2.0, "color": _next_color(ax)}
        (self.line_,) = ax.plot(self.thresholds, self.net_benefit, **common.style(kwargs, **drawn))
        of = "" if self.labels is None else f" of class {self.labels[1]}"
        ax.set(xlabel=f"Threshold probability{of}", ylabel="Net benefit")
        low, high = (0.0, 0.0) if first else ax.get_xlim()
        ax.set_xlim(min(low, float(self.thresholds[0])), max(high, float(self.thresholds[-1])))
        # Far below 0 nobody would use the model: how far does not matter.
        low, high = (-0.25 * self.prevalence, 0.0) if first else ax.get_ylim()
        ax.set_ylim(min(low, -0.25 * self.prevalence), max(high, 1.08 * self.prevalence))
        common.legend_above(ax)
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: MatrixLike,
        y: ArrayLike,
        *,
        thresholds: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> DecisionCurveDisplay:
        """Draw the decision curve of a fitted classifier on (X, y).

        Parameters
        ----------
        estimator : fitted classifier
            With `predict_proba`.
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            With the class sizes of the population: net benefit depends on them.
        thresholds : array-like, default=None
            From 0 to below 1; None: as far as the positive class is predicted.
        sample_weight : array-like of shape (n_samples,), default=None
        pos_label : label, default=None
            The positive class; None: `classes_[1]`.
        name : str, default=None
            For the legend; None: the estimator's class.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            For the curve, as in matplotlib's `plot`.

        Returns
        -------
        DecisionCurveDisplay
        """
        common.check_matplotlib()
        y_prob, pos_label, _ = common.responses(estimator, X, "predict_proba", pos_label)
        return cls.from_predictions(
            y, y_prob, thresholds=thresholds, sample_weight=sample_weight, pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name, ax=ax, **kwargs,
        )  # fmt: skip

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        thresholds: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> DecisionCurveDisplay:
        """Draw the decision curve of given probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
        y_prob : array-like of shape (n_samples,)
            Of the positive class; rows above a threshold are acted on.
        thresholds, sample_weight, ax, **kwargs
            As in `from_estimator`.
        pos_label : label, default=None
            The positive class; None: the label 1.
        name : str, default=None
            For the legend.

        Returns
        -------
        DecisionCurveDisplay
        """
        common.check_matplotlib()
        positive, weight, (prob,), labels = common.label_rows(
            y_true, pos_label, sample_weight, unit=True, y_prob=y_prob
        )
        total = float(weight.sum())
        prevalence = float(weight[positive].sum()) / total
        grid = _threshold_grid(thresholds, prob[positive], weight[positive], prevalence)
        cuts, tp, fp = _counts(prob, positive, weight)
        place = np.searchsorted(cuts, grid, side="right") - 1
        odds = grid / (1.0 - grid)
        benefit = (tp[place] - fp[place] * odds) / total
        return cls(grid, benefit, prevalence - (1.0 - prevalence) * odds, prevalence, labels, name).plot(ax, **kwargs)


def _threshold_grid(given: ArrayLike | None, of_positives: Array, weight: Array, prevalence: float) -> Array:
    """Given thresholds, or some hundreds up to where all but 2 % of the positives are below."""
    if given is None:
        order = np.argsort(of_positives)
        reached = np.cumsum(weight[order]) / weight.sum()
        top = of_positives[order][min(int(np.searchsorted(reached, 0.98)), order.size - 1)]
        return np.linspace(0.0, min(0.99, max(1.1 * float(top), 3.0 * prevalence)), 401)
    try:
        grid = np.unique(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        grid = np.empty(0)
    if grid.size == 0 or not (grid >= 0).all() or not (grid < 1).all():
        raise ValueError("thresholds must hold numbers from 0 to below 1: the odds of 1 are infinite.")
    return grid
