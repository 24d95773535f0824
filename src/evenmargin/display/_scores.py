"""Where the scores of the two classes lie: their means around the boundary, and their histograms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import eye_array, issparse
from sklearn.base import BaseEstimator

from .._device.arrays import to_host
from .._input.checks import check_is_fitted
from .._util.typing import Array, MatrixLike
from ..operating.responses import before_and_after, unadjusted_threshold
from ..zsvm import ZAdjustedClassifier, machine_in, split_decision
from ._base import REQUIRED, ROWS, Option, ScoreDisplay, ScoredRows, ScoreSource
from .axes import BLACK, NEGATIVE, POSITIVE, Style, has_label, legend_above, style
from .binning import typical_range

__all__ = ["BoundaryDistanceDisplay", "ScoreHistogramDisplay"]

_UNIT = "Mean score, boundary at 0"
Thresholds: TypeAlias = ArrayLike | Mapping[str, float] | None


@dataclass(eq=False, repr=False)
class BoundaryDistanceDisplay(ScoreDisplay):
    """The mean signed distance of each class to the boundary, before and after an adjustment.

    A class whose mean is on the wrong side of 0 is mostly missed. This is figure 1 of
    Imam, Ting and Kamruzzaman, "z-SVM: An SVM for Improved Classification of Imbalanced
    Data". Make one with `from_estimator` or `from_predictions`; several on the same
    axes are drawn side by side.

    Parameters
    ----------
    before, after : tuple of two floats
        Mean distance of the negative and of the positive class; the positive side is above 0.
    labels : tuple
        The labels (negative, positive).
    unit : str, default="Mean score, boundary at 0"
        The label of the axis.

    Attributes
    ----------
    bars_ : tuple of two matplotlib BarContainer
        For the negative and the positive class: before, after.

    Examples
    --------
    >>> from evenmargin.display import BoundaryDistanceDisplay
    >>> before, after = [-1.5, -0.5, -0.25], [-1.0, -0.5, 0.5]
    >>> display = BoundaryDistanceDisplay.from_predictions([0, 0, 1], before, after)
    >>> display.before, display.after
    ((-1.0, -0.25), (-0.75, 0.5))
    """

    before: tuple[float, float]
    after: tuple[float, float]
    labels: tuple[object, object]
    unit: str = _UNIT
    name: str | None = None

    _subject = "the mean distances"
    _artist = "For all bars, as in matplotlib's `bar`."
    _estimator = "fitted ZAdjustedClassifier, whose minority is the positive class"
    _is_curve, _name_text = False, "Below the bars."
    _scores = {
        "before": Option(REQUIRED, ROWS, "Scores with the boundary at 0, above it for the positive class."),
        "after": Option(REQUIRED, ROWS, "The same scores after the adjustment."),
    }
    _asked = {
        "geometric": Option(
            None, "bool or None",
            "Whether to divide scores by the length of w, before and after the adjustment,\nso that they are distances "
            "in the space of the features or of the kernel, and\ncomparable. None: where the machine has support "
            "vectors or coefficients.",
        )
    }  # fmt: skip

    @classmethod
    def _source(
        cls, estimator: BaseEstimator, X: MatrixLike, *, geometric: bool | None = None, **asked: object
    ) -> ScoreSource:
        if not isinstance(estimator, ZAdjustedClassifier):
            raise ValueError(
                f"{type(estimator).__name__} has no adjustment to show: give a ZAdjustedClassifier, or pass the scores "
                "before and after to from_predictions."
            )
        check_is_fitted(estimator)
        before, after = before_and_after(estimator, X)
        lengths, unit = None if geometric is False else _lengths(estimator), _UNIT
        if geometric and lengths is None:
            name = type(machine_in(estimator.estimator_)).__name__
            raise ValueError(f"{name} has no ‖w‖ to divide by: use geometric=False.")
        if lengths is not None:
            before, after, unit = before / lengths[0], after / lengths[1], "Mean score/‖w‖, boundary at 0"
        return ScoreSource({"before": before, "after": after}, np.asarray(estimator.minority_).item(), unit=unit)

    @classmethod
    def _compute(cls, rows: ScoredRows, source: ScoreSource) -> BoundaryDistanceDisplay:
        negative, positive = (
            [float(np.average(score[side], weights=rows.weight[side])) for score in rows.scores]
            for side in (~rows.positive, rows.positive)
        )
        return cls((negative[0], positive[0]), (negative[1], positive[1]), rows.labels, source.unit or _UNIT)

    def _draw(self, name: str | None, kwargs: Style) -> None:
        ax = self.ax_
        others = [tick.get_text() for tick in ax.get_xticklabels()] if ax.containers else []
        start = 2.4 * (len(others) // 2)
        places, width = start + np.array([0.0, 1.0]), 0.36
        bars = []
        for side, (label, color) in enumerate(zip(self.labels, (NEGATIVE, POSITIVE), strict=True)):
            drawn = style(kwargs, color=color, label=f"class {label}")
            if has_label(ax, drawn["label"]):
                drawn["label"] = "_" + drawn["label"]
            heights = [self.before[side], self.after[side]]
            bars.append(ax.bar(places + (side - 0.5) * (width + 0.02), heights, width, **drawn))
            ax.bar_label(bars[-1], fmt=_short, padding=2, fontsize="small", color=BLACK)
        self.bars_ = (bars[0], bars[1])
        if not others:
            ax.axhline(0.0, color=BLACK, linewidth=1.0)
        ticks = [f"before\n{name}", f"after\n{name}"] if name else ["before", "after"]
        ax.set_xticks([*(ax.get_xticks() if others else []), *places], [*others, *ticks], fontsize="small")
        ax.tick_params(axis="x", length=0)
        ax.margins(y=0.12)
        ax.set_ylabel(self.unit)
        legend_above(ax)


def _short(value: float) -> str:
    return f"{value:.2g}".replace("-", "−")


def _lengths(model: ZAdjustedClassifier) -> tuple[float, float] | None:
    """‖w‖ before and after, or None for a machine without coefficients or support vectors.

    With w = a·up + b·down, up = Σ max(c_j, 0) φ(x_j) and down = Σ min(c_j, 0) φ(x_j), ‖w‖² is
    Σ_j (a·max(c_j, 0) + b·min(c_j, 0)) · w·φ(x_j): it needs only the two parts of the scores of
    the support vectors.
    """
    machine = machine_in(model.estimator_)
    z = getattr(model, "z_", 1.0)
    after = (z, 1.0) if model.minority_ == model.classes_[1] else (1.0, z)
    if hasattr(machine, "support_vectors_"):
        if not machine.support_vectors_.shape[1] or callable(machine.kernel):
            return None
        given = to_host(machine.dual_coef_)
        coef = np.ravel(given.toarray() if issparse(given) else given).astype(np.float64)
        up, down = _split(machine, machine.support_vectors_)
        strong, weak = np.maximum(coef, 0.0), np.minimum(coef, 0.0)
    elif hasattr(machine, "coef_"):
        # The scores of the unit vectors are w itself.
        coef = np.ravel(machine.coef_).astype(np.float64)
        up, down = (coef, 0.0 * coef) if z == 1.0 else _split(machine, eye_array(coef.size, format="csr"))
        strong, weak = up, down
    else:
        return None
    squares = [float((a * strong + b * weak) @ (a * up + b * down)) for a, b in ((1.0, 1.0), after)]
    return (squares[0] ** 0.5, squares[1] ** 0.5) if min(squares) > 0 else None


def _split(machine: BaseEstimator, rows: MatrixLike) -> tuple[Array, Array]:
    """The two parts of the scores of rows, as a frame if the machine was fitted on one."""
    names = getattr(machine, "feature_names_in_", None)
    if names is not None:
        rows = pd.DataFrame(rows.toarray() if issparse(rows) else to_host(rows), columns=names)
    return split_decision(machine, rows)[:2]


@dataclass(eq=False, repr=False)
class ScoreHistogramDisplay(ScoreDisplay):
    """Histograms of the scores of the two classes, each with area 1, so that the rare class is visible.

    Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Edges of the bins, the same for both classes; outliers lie beyond them.
    densities : tuple of two ndarrays of shape (n_bins,)
        For the negative and the positive class: the share in a bin divided by its width.
    totals : tuple of two floats
        Weight of each class.
    labels : tuple
        The labels (negative, positive).
    thresholds : dict of str to float, default={}
        Lines to draw.
    score_name : str, default="Score"
        The label of the axis.

    Attributes
    ----------
    outside : tuple of two floats
        The share of each class beyond the bins.
    patches_ : tuple of two matplotlib StepPatch
    threshold_lines_ : list of matplotlib Line2D

    Examples
    --------
    >>> from evenmargin.display import ScoreHistogramDisplay
    >>> display = ScoreHistogramDisplay.from_predictions([0, 0, 0, 1], [0.0, 1.0, 1.5, 2.0], bins=2)
    >>> display.edges
    array([0., 1., 2.])
    >>> display.densities[1]
    array([0., 1.])
    """

    edges: Array
    densities: tuple[Array, Array]
    totals: tuple[float, float]
    labels: tuple[object, object]
    thresholds: dict[str, float] = field(default_factory=dict)
    score_name: str = "Score"
    name: str | None = None

    @property
    def outside(self) -> tuple[float, float]:
        shares = [max(0.0, 1.0 - float(density @ np.diff(self.edges))) for density in self.densities]
        return shares[0], shares[1]

    _subject = "the histograms"
    _artist = "For both histograms, as in matplotlib's `stairs`."
    _is_curve, _name_text = False, "Title of the legend."
    _options = {
        "bins": Option(30, "int"),
        "thresholds": Option(
            None, "'own', None, float, list of floats or dict",
            "Lines to draw; a dict gives their names. 'own' is the threshold of the estimator\nand, for a "
            "ZAdjustedClassifier that chose one, also that before the adjustment.", "own",
        ),
    }  # fmt: skip

    @classmethod
    def _source(cls, estimator: BaseEstimator, X: MatrixLike, **asked: Any) -> ScoreSource:
        source = super()._source(estimator, X, **asked)
        return source._replace(unadjusted=unadjusted_threshold(estimator, source.pos_label))

    @classmethod
    def _compute(
        cls, rows: ScoredRows, source: ScoreSource, *, bins: int = 30, thresholds: Thresholds = None
    ) -> ScoreHistogramDisplay:
        if not isinstance(bins, int | np.integer) or bins < 1:
            raise ValueError(f"bins={bins!r} must be a whole number from 1.")
        if source.threshold is not None and isinstance(thresholds, str) and thresholds == "own":
            thresholds = {"threshold": source.threshold}
            if source.unadjusted is not None:
                thresholds["before"] = source.unadjusted
        lines = _lines(thresholds)
        (score,), positive, weight = rows.scores, rows.positive, rows.weight
        low, high = typical_range(score, positive, weight)
        edges = np.linspace(low, high, int(bins) + 1)
        densities, totals = [], []
        for side in (~positive, positive):
            counts = np.histogram(score[side], edges, weights=weight[side])[0]
            totals.append(float(weight[side].sum()))
            densities.append(counts / (totals[-1] * np.diff(edges)))
        axis = {
            None: "Score", "predict_proba": f"Predicted probability of class {source.pos_label}",
            "decision_function": f"Decision function, above 0 for class {source.pos_label}",
        }[source.method]  # fmt: skip
        return cls(edges, (densities[0], densities[1]), (totals[0], totals[1]), rows.labels, lines, axis)

    def _draw(self, name: str | None, kwargs: Style) -> None:
        ax, patches = self.ax_, []
        for side, color in enumerate((NEGATIVE, POSITIVE)):
            beyond = f", {self.outside[side]:.1%} beyond" if self.outside[side] > 5e-4 else ""
            label = f"class {self.labels[side]} ({self.totals[side]:g} rows{beyond})"
            ax.stairs(self.densities[side], self.edges, fill=True, color=color, alpha=0.25, linewidth=0)
            drawn = style(kwargs, color=color, linewidth=1.6, label=label)
            patches.append(ax.stairs(self.densities[side], self.edges, **drawn))
        self.patches_ = (patches[0], patches[1])
        dashes = ["--", ":", "-."] * len(self.thresholds)
        self.threshold_lines_ = [
            ax.axvline(value, color=BLACK, linewidth=1.2, linestyle=dash, label=f"{label} {value:.3g}")
            for (label, value), dash in zip(self.thresholds.items(), dashes, strict=False)
        ]
        shown = [float(self.edges[0]), float(self.edges[-1]), *self.thresholds.values()]
        margin = 0.02 * (max(shown) - min(shown))
        ax.set_xlim(min(shown) - margin, max(shown) + margin)
        ax.set_ylim(bottom=0.0)
        ax.set(xlabel=self.score_name, ylabel="Density within the class")
        legend_above(ax, title=name)


def _lines(thresholds: Thresholds) -> dict[str, float]:
    """Finite thresholds by name."""
    if thresholds is None:
        return {}
    try:
        if isinstance(thresholds, Mapping):
            named = {str(label): float(value) for label, value in thresholds.items()}
        else:
            values = np.ravel(np.asarray(thresholds, dtype=np.float64)).tolist()
            names = ["threshold"] if len(values) == 1 else [f"threshold {k + 1}" for k in range(len(values))]
            named = dict(zip(names, values, strict=True))
        if np.isfinite(list(named.values())).all():
            return named
    except (TypeError, ValueError):
        pass
    raise ValueError(f"thresholds={thresholds!r} must be a finite number, a list of them, or a dict of them by name.")
