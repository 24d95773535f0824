"""Reliability diagrams for a rare class: bins with enough positives, intervals, and a histogram of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._util.typing import Array
from ._base import Option, ProbabilityDisplay, ScoredRows, ScoreSource, of_class
from .axes import GREY, Style, hide_frame, legend_above, next_color, reference, style
from .binning import calibration_bins

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ReliabilityDisplay"]


_BELOW = "predictions below"  # marks the axes of the histogram, so that further curves share them


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(ProbabilityDisplay):
    """Reliability diagram: how often the positive class occurs where it is predicted with some probability.

    Bins are quantiles in which both classes count the same, so that they are narrow
    where the rare class is, and neighbours are joined until each contains enough
    positives. Each has a Wilson interval of 95 %, with weights as counts. Below is a
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

    Attributes
    ----------
    hist_ax_ : matplotlib Axes
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
    labels: tuple[object, object] | None = None
    name: str | None = None

    _subject = "the reliability diagram"
    _options = {
        "n_bins": Option(10, "int", "Bins at most."),
        "min_positives": Option(5, "float", "Weight of positives that each bin must contain."),
    }
    _plot_options = {"ref_line": Option(True, "bool", "Whether to draw the diagonal.")}

    @classmethod
    def _compute(
        cls, rows: ScoredRows, source: ScoreSource, *, n_bins: int = 10, min_positives: float = 5
    ) -> ReliabilityDisplay:
        if not isinstance(n_bins, int | np.integer) or n_bins < 1:
            raise ValueError(f"n_bins={n_bins!r} must be a whole number from 1.")
        if not min_positives >= 0:
            raise ValueError(f"min_positives={min_positives!r} must be a number from 0.")
        prob, weight = rows.scores[0], rows.weight
        bins = calibration_bins(prob, rows.positive, weight, int(n_bins), float(min_positives))
        return cls(*bins[:5], prob, weight, bins.ece, bins.brier, rows.labels)

    def _draw(self, name: str | None, kwargs: Style, *, ref_line: bool = True) -> None:
        ax, color = self.ax_, next_color(self.ax_)
        first = not any(line.get_linestyle() == "-" for line in ax.lines)
        if ref_line:
            reference(ax, [0.0, 1.0], [0.0, 1.0], GREY, "perfect", ":")
        figures = f"ECE {self.ece:.2g}, Brier {self.brier:.3g}"
        label = figures if name is None else f"{name} ({figures})"
        drawn = style(kwargs, color=color, linewidth=1.6, marker="o", markersize=4.5, label=label)
        (self.line_,) = ax.plot(self.prob_pred, self.prob_true, **drawn)
        self.intervals_ = ax.vlines(
            self.prob_pred, self.lower, self.upper, color=self.line_.get_color(), linewidth=1.2, alpha=0.6
        )
        reach = min(1.0, 1.15 * max(float(self.prob_pred.max()), float(self.prob_true.max())))
        reach = max(reach, 0.0 if first else ax.get_xlim()[1])
        self._draw_histogram(reach, first)
        margin, of = 0.02 * reach, of_class(self.labels)
        ax.set(ylabel=f"Share{of}", xlim=(-margin, reach + margin), ylim=(-margin, reach + margin))
        self.hist_ax_.set(xlabel=f"Predicted probability{of}", ylabel="Rows")
        legend_above(ax)

    def _draw_histogram(self, reach: float, first: bool) -> None:
        siblings = self.ax_.get_shared_x_axes().get_siblings(self.ax_)
        below = [other for other in siblings if other.get_label() == _BELOW]
        self.hist_ax_ = below[0] if below else _append_below(self.ax_)
        edges = np.linspace(0.0, max(reach, 1e-12), 41)
        counts = np.histogram(self.y_prob, edges, weights=self.sample_weight)[0]
        self.hist_ax_.stairs(counts, edges, color=self.line_.get_color(), fill=first, alpha=0.5 if first else 1.0)


def _append_below(ax: Axes) -> Axes:
    """Axes in the lower part of these, with a logarithmic scale, since most predictions are near 0."""
    spec = ax.get_subplotspec()
    if spec is not None:
        grid = spec.subgridspec(2, 1, height_ratios=(4, 1), hspace=0.08)
        ax.set_subplotspec(grid[0])
        below = ax.figure.add_subplot(grid[1], sharex=ax)
    else:
        left, bottom, width, height = ax.get_position().bounds
        ax.set_position((left, bottom + 0.26 * height, width, 0.74 * height))
        below = ax.figure.add_axes((left, bottom, width, 0.2 * height), sharex=ax)
    below.set_label(_BELOW)
    below.set_yscale("log")
    ax.tick_params(axis="x", labelbottom=False)
    return hide_frame(below)
