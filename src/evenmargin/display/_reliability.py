"""Reliability diagrams for a rare class: bins with positives enough, intervals, and what lies beneath."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._util.typing import Array, Index, Mask, MatrixLike
from ..operating import wilson
from . import _common as common

__all__ = ["ReliabilityDisplay", "join_bins", "sum_bins"]


_BENEATH = "predictions beneath"  # marks the axes of the histogram, so that further curves share them
_NORMAL = 1.959963984540054  # of 95 %


@dataclass(eq=False, repr=False)
class ReliabilityDisplay:
    """Reliability diagram: how often the positive class comes where it is predicted with some probability.

    Bins are quantiles in which both classes count the same, so that they are fine
    where the rare class is, and neighbours are joined until each holds positives
    enough. Each has a Wilson interval of 95 %, with weights as counts. Beneath is a
    histogram of all predictions. Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    prob_true, prob_pred : ndarray of shape (n_bins,)
        Share of positives and mean prediction in each bin.
    lower, upper : ndarray of shape (n_bins,)
        Wilson interval of `prob_true`.
    totals : ndarray of shape (n_bins,)
        Weight of each bin.
    y_prob, sample_weight : ndarray of shape (n_samples,)
        Predictions and weights, for the histogram.
    ece : float
        Expected calibration error: the mean of |prob_true − prob_pred| over rows.
    brier : float
        Mean squared difference of predictions and outcomes.
    labels : tuple or None, default=None
        The labels (negative, positive).
    name : str or None, default=None
        For the legend.

    Attributes
    ----------
    ax_, hist_ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
    intervals_ : matplotlib LineCollection

    See Also
    --------
    sklearn.calibration.CalibrationDisplay : Bins of equal width or size, without intervals or weights.

    Examples
    --------
    >>> from evenmargin.display import ReliabilityDisplay
    >>> y_prob = [0.1, 0.1, 0.1, 0.1, 0.8, 0.8, 0.8, 0.8]
    >>> display = ReliabilityDisplay.from_predictions([0, 0, 0, 1, 0, 1, 1, 1], y_prob, min_positives=1)
    >>> display.prob_pred, display.prob_true
    (array([0.1, 0.8]), array([0.25, 0.75]))
    >>> round(display.ece, 3), round(display.brier, 3)
    (0.1, 0.2)
    """

    prob_true: Array
    prob_pred: Array
    lower: Array
    upper: Array
    totals: Array
    y_prob: Array
    sample_weight: Array
    ece: float
    brier: float
    labels: tuple[Any, Any] | None = None
    name: str | None = None

    def plot(
        self, ax: Any = None, *, name: str | None = None, ref_line: bool = True, **kwargs: Any
    ) -> ReliabilityDisplay:
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None: of a new figure. Several curves share them.
        name : str, default=None
            For the legend; None: `self.name`.
        ref_line : bool, default=True
            Whether to draw the diagonal.
        **kwargs : dict
            For the curve, as in matplotlib's `plot`.

        Returns
        -------
        self
        """
        name = self.name if name is None else name
        self.ax_ = ax = common.get_axes(ax)
        self.figure_ = ax.figure
        curves = sum(line.get_marker() == "o" for line in ax.lines)
        if ref_line and not common.has_label(ax, "perfect"):
            ax.plot([0.0, 1.0], [0.0, 1.0], color=common.GREY, linewidth=1.0, linestyle=":", label="perfect")
        palette = [common.BLACK, *common.OTHERS]
        figures = f"ECE {self.ece:.2g}, Brier {self.brier:.3g}"
        drawn = common.style(
            kwargs, color=palette[curves % len(palette)], linewidth=1.6, marker="o", markersize=4.5,
            label=figures if name is None else f"{name} ({figures})",
        )  # fmt: skip
        (self.line_,) = ax.plot(self.prob_pred, self.prob_true, **drawn)
        self.intervals_ = ax.vlines(
            self.prob_pred, self.lower, self.upper, color=self.line_.get_color(), linewidth=1.2, alpha=0.6
        )
        self._finish(first=curves == 0)
        return self

    def _finish(self, first: bool) -> None:
        """Ranges as far as the curves go, the histogram, and labels."""
        ax = self.ax_
        reach = min(1.0, 1.15 * max(float(self.prob_pred.max()), float(self.prob_true.max())))
        reach = max(reach, 0.0 if first else ax.get_xlim()[1])
        margin = 0.02 * reach
        beneath = [other for other in ax.get_shared_x_axes().get_siblings(ax) if other.get_label() == _BENEATH]
        self.hist_ax_ = beneath[0] if beneath else _append_below(ax)
        edges = np.linspace(0.0, max(reach, 1e-12), 41)
        counts = np.histogram(self.y_prob, edges, weights=self.sample_weight)[0]
        self.hist_ax_.stairs(counts, edges, color=self.line_.get_color(), fill=first, alpha=0.5 if first else 1.0)
        of = "" if self.labels is None else f" of class {self.labels[1]}"
        ax.set(ylabel=f"Share{of}", xlim=(-margin, reach + margin), ylim=(-margin, reach + margin))
        self.hist_ax_.set(xlabel=f"Predicted probability{of}", ylabel="Rows")
        common.legend_above(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: MatrixLike,
        y: ArrayLike,
        *,
        n_bins: int = 10,
        min_positives: float = 5,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        ref_line: bool = True,
        **kwargs: Any,
    ) -> ReliabilityDisplay:
        """Draw the diagram of a fitted classifier on (X, y).

        Parameters
        ----------
        estimator : fitted classifier
            With `predict_proba`.
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        n_bins : int, default=10
            At most.
        min_positives : float, default=5
            Weight of positives that each bin must hold.
        sample_weight : array-like of shape (n_samples,), default=None
        pos_label : label, default=None
            The positive class; None: `classes_[1]`.
        name : str, default=None
            For the legend; None: the estimator's class.
        ax : matplotlib Axes, default=None
        ref_line : bool, default=True
            Whether to draw the diagonal.
        **kwargs : dict
            For the curve, as in matplotlib's `plot`.

        Returns
        -------
        ReliabilityDisplay
        """
        common.check_matplotlib()
        y_prob, pos_label, _ = common.responses(estimator, X, "predict_proba", pos_label)
        return cls.from_predictions(
            y, y_prob, n_bins=n_bins, min_positives=min_positives, sample_weight=sample_weight, pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name, ax=ax, ref_line=ref_line, **kwargs,
        )  # fmt: skip

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        n_bins: int = 10,
        min_positives: float = 5,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        ref_line: bool = True,
        **kwargs: Any,
    ) -> ReliabilityDisplay:
        """Draw the diagram of given probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
        y_prob : array-like of shape (n_samples,)
            Of the positive class.
        n_bins, min_positives, sample_weight, ax, ref_line, **kwargs
            As in `from_estimator`.
        pos_label : label, default=None
            The positive class; None: the label 1.
        name : str, default=None
            For the legend.

        Returns
        -------
        ReliabilityDisplay
        """
        common.check_matplotlib()
        if not isinstance(n_bins, int | np.integer) or n_bins < 1:
            raise ValueError(f"n_bins={n_bins!r} must be a whole number from 1.")
        if not min_positives >= 0:
            raise ValueError(f"min_positives={min_positives!r} must be a number from 0.")
        positive, weight, (prob,), labels = common.label_rows(
            y_true, pos_label, sample_weight, unit=True, y_prob=y_prob
        )
        bins = join_bins(prob, positive, weight, int(n_bins), float(min_positives))
        totals, hits, sums = (sum_bins(bins, part) for part in (weight, weight * positive, weight * prob))
        share, mean = hits / totals, sums / totals
        ece = float(totals @ np.abs(share - mean) / totals.sum())
        brier = float(np.average(np.square(prob - positive), weights=weight))
        return cls(
            share, mean, *_wilson(share, totals), totals, prob, weight, ece, brier, labels, name
        ).plot(ax, ref_line=ref_line, **kwargs)  # fmt: skip


def join_bins(prob: Array, positive: Mask, weight: Array, n_bins: int, enough: float) -> Index:
    """The bin of each row, from 0 on: equal predictions together, neighbours joined until positives are enough."""
    mass = np.where(positive, weight / weight[positive].sum(), weight / weight[~positive].sum())
    _, group = np.unique(prob, return_inverse=True)
    size = np.bincount(group, weights=mass)
    middle = (np.cumsum(size) - 0.5 * size) / size.sum()
    quantile = np.minimum((n_bins * middle + 1e-9).astype(np.intp), n_bins - 1)[group]
    positives = np.bincount(quantile, weights=weight * positive, minlength=n_bins)
    joined, held = np.zeros(n_bins, dtype=np.intp), 0.0
    for k in range(n_bins):
        if held >= max(enough, 1e-300):
            joined[k:] += 1
            held = 0.0
        held += positives[k]
    last = joined[-1]
    if last > 0 and held < enough:
        joined[joined == last] = last - 1
    return np.unique(joined[quantile], return_inverse=True)[1]


def sum_bins(bins: Index, values: Array) -> Array:
    """The sum of each bin."""
    return np.bincount(bins, weights=values).astype(np.float64)


def _wilson(share: Array, total: Array) -> tuple[Array, Array]:
    """Wilson's interval for a share of `total` rows."""
    low, high = wilson(share * total, (1.0 - share) * total)
    return np.minimum(low, share), np.maximum(high, share)


def _append_below(ax: Any) -> Any:
    """Axes under the given ones, in a part of their room, with a logarithmic scale: most predictions are near 0."""
    spec = ax.get_subplotspec()
    if spec is not None:
        upper, lower = spec.subgridspec(2, 1, height_ratios=(4, 1), hspace=0.08)
        ax.set_subplotspec(upper)
        below = ax.figure.add_subplot(lower, sharex=ax)
    else:
        left, bottom, width, height = ax.get_position().bounds
        ax.set_position((left, bottom + 0.26 * height, width, 0.74 * height))
        below = ax.figure.add_axes((left, bottom, width, 0.2 * height), sharex=ax)
    below.set_label(_BENEATH)
    below.set_yscale("log")
    for side in ("top", "right"):
        below.spines[side].set_visible(False)
    ax.tick_params(axis="x", labelbottom=False)
    return below
