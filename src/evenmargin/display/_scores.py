"""Where the scores of the two classes lie: their means around the boundary, and their histograms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline

from .._device.arrays import to_host
from .._input.checks import check_is_fitted
from .._util.typing import Array, MatrixLike
from ..zsvm import ZAdjustedClassifier, parts_of_score, split_decision, unfrozen
from . import _common as common

__all__ = ["BoundaryDistanceDisplay", "ScoreHistogramDisplay", "before_and_after", "plain_threshold"]


@dataclass(eq=False, repr=False)
class BoundaryDistanceDisplay:
    """The mean signed distance of each class to the boundary, before and after an adjustment.

    A class whose mean is on the wrong side of 0 is mostly missed. It is figure 1 of
    Imam, Ting and Kamruzzaman, "z-SVM: An SVM for Improved Classification of
    Imbalanced Data". Make one with `from_estimator` or `from_predictions`; several on
    the same axes stand side by side.

    Parameters
    ----------
    before, after : tuple of two floats
        Mean distance of the negative and of the positive class; above 0 is the positive side.
    labels : tuple
        The labels (negative, positive).
    unit : str, default="Mean score, boundary at 0"
        The label of the axis.
    name : str or None, default=None
        Stands under the bars.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : tuple of two matplotlib BarContainer
        Of the negative and of the positive class: before, after.

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
    labels: tuple[Any, Any]
    unit: str = "Mean score, boundary at 0"
    name: str | None = None

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> BoundaryDistanceDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None: of a new figure. Bars that are there stay, and these stand at their right.
        name : str, default=None
            Stands under the bars; None: `self.name`.
        **kwargs : dict
            For all bars, as in matplotlib's `bar`.

        Returns
        -------
        self
        """
        name = self.name if name is None else name
        self.ax_ = ax = common.get_axes(ax)
        self.figure_ = ax.figure
        there = [tick.get_text() for tick in ax.get_xticklabels()] if ax.containers else []
        start = 2.4 * (len(there) // 2)
        places, width = start + np.array([0.0, 1.0]), 0.36
        bars = []
        for side, (label, color) in enumerate(zip(self.labels, (common.NEGATIVE, common.POSITIVE), strict=True)):
            drawn = common.style(kwargs, color=color, label=f"class {label}")
            if common.has_label(ax, drawn["label"]):
                drawn["label"] = "_" + drawn["label"]
            heights = [self.before[side], self.after[side]]
            bars.append(ax.bar(places + (side - 0.5) * (width + 0.02), heights, width, **drawn))
            ax.bar_label(
                bars[-1],
                fmt=lambda value: f"{value:.2g}".replace("-", "−"),
                padding=2,
                fontsize="small",
                color=common.BLACK,
            )
        self.bars_ = (bars[0], bars[1])
        if not there:
            ax.axhline(0.0, color=common.BLACK, linewidth=1.0)
        ticks = [f"before\n{name}", f"after\n{name}"] if name else ["before", "after"]
        ax.set_xticks([*(ax.get_xticks() if there else []), *places], [*there, *ticks], fontsize="small")
        ax.tick_params(axis="x", length=0)
        ax.margins(y=0.12)
        ax.set_ylabel(self.unit)
        common.legend_above(ax)
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: ZAdjustedClassifier,
        X: MatrixLike,
        y: ArrayLike,
        *,
        geometric: bool | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> BoundaryDistanceDisplay:
        """Draw what the adjustment of a machine did to the distances of the rows (X, y).

        Parameters
        ----------
        estimator : fitted ZAdjustedClassifier
            Its minority is the positive class.
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        geometric : bool or None, default=None
            Whether to divide scores by ‖w‖ of the machine as it is before and after, so
            that they are distances in the space of the features or of the kernel, and
            comparable. None: where the machine has support vectors, or coefficients.
        sample_weight : array-like of shape (n_samples,), default=None
        name : str, default=None
            Stands under the bars.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            For all bars, as in matplotlib's `bar`.

        Returns
        -------
        BoundaryDistanceDisplay
        """
        common.check_matplotlib()
        if not isinstance(estimator, ZAdjustedClassifier):
            raise ValueError(
                f"{type(estimator).__name__} has no adjustment to show: give a ZAdjustedClassifier, or the scores "
                "before and after to from_predictions."
            )
        check_is_fitted(estimator)
        before, after = before_and_after(estimator, X)
        unit = "Mean score, boundary at 0"
        if geometric is not False:
            lengths = _lengths(estimator)
            if lengths is not None:
                before, after, unit = before / lengths[0], after / lengths[1], "Mean score/‖w‖, boundary at 0"
            elif geometric:
                inner = type(_machine(estimator)).__name__
                raise ValueError(f"{inner} has no ‖w‖ that can be computed: use geometric=False.")
        minority = np.asarray(estimator.minority_).item()
        return cls._compute(y, before, after, sample_weight, minority, unit, name).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        before: ArrayLike,
        after: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> BoundaryDistanceDisplay:
        """Draw the means of scores before and after.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
        before, after : array-like of shape (n_samples,)
            Scores with the boundary at 0, above it for the positive class.
        sample_weight : array-like of shape (n_samples,), default=None
        pos_label : label, default=None
            The positive class; None: the label 1.
        name : str, default=None
            Stands under the bars.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            For all bars, as in matplotlib's `bar`.

        Returns
        -------
        BoundaryDistanceDisplay
        """
        common.check_matplotlib()
        return cls._compute(y_true, before, after, sample_weight, pos_label, "Mean score, boundary at 0", name).plot(
            ax, **kwargs
        )

    @classmethod
    def _compute(
        cls,
        y_true: ArrayLike,
        before: ArrayLike,
        after: ArrayLike,
        sample_weight: ArrayLike | None,
        pos_label: Any,
        unit: str,
        name: str | None,
    ) -> BoundaryDistanceDisplay:
        positive, weight, scores, labels = common.label_rows(
            y_true, pos_label, sample_weight, before=before, after=after
        )
        sides = (~positive, positive)
        first, last = (
            (
                float(np.average(s[sides[0]], weights=weight[sides[0]])),
                float(np.average(s[sides[1]], weights=weight[sides[1]])),
            )
            for s in scores
        )
        return cls(first, last, labels, unit, name)


def before_and_after(model: ZAdjustedClassifier, X: MatrixLike) -> tuple[Array, Array]:
    """Scores of the minority with the boundary at 0, as the machine was trained and as it was adjusted."""
    which = int(model.minority_ == model.classes_[1])
    if hasattr(model, "z_"):
        p, q = parts_of_score("z", model.estimator_, X, which)
        return p + q, model.z_ * p + q
    (score,) = parts_of_score("threshold", model.estimator_, X, which)
    return score - plain_threshold(model), score - model.threshold_


def plain_threshold(model: ZAdjustedClassifier) -> float:
    """Where the machine itself cuts its scores."""
    return 0.0 if hasattr(model.estimator_, "decision_function") else 0.5


def _machine(model: ZAdjustedClassifier) -> Any:
    machine = unfrozen(model.estimator_)
    while isinstance(machine, Pipeline):
        machine = unfrozen(machine.steps[-1][1])
    return machine


def _lengths(model: ZAdjustedClassifier) -> tuple[float, float] | None:
    """‖w‖ before and after, or None where the machine does not tell.

    With w = a·up + b·down, up = Σ max(c_j, 0) φ(x_j) and down likewise, ‖w‖² is
    Σ_j (a·max(c_j, 0) + b·min(c_j, 0)) · w·φ(x_j): the parts of the scores of the
    support vectors themselves are all it takes.
    """
    machine = _machine(model)
    z = getattr(model, "z_", 1.0)
    after = (z, 1.0) if model.minority_ == model.classes_[1] else (1.0, z)
    half = getattr(machine, "_half", None)
    if hasattr(machine, "coef_") and (half is not None or z == 1.0) and not hasattr(machine, "support_vectors_"):
        coef = np.ravel(machine.coef_).astype(np.float64)
        up = coef if half is None else np.asarray(half, dtype=np.float64)
        squares = [float(np.square(a * up + b * (coef - up)).sum()) for a, b in ((1.0, 1.0), after)]
    elif hasattr(machine, "support_vectors_") and machine.support_vectors_.shape[1] and not callable(machine.kernel):
        given = to_host(machine.dual_coef_)
        coef = np.ravel(given.toarray() if issparse(given) else given).astype(np.float64)
        up, down, _ = split_decision(machine, machine.support_vectors_)
        squares = [
            float((a * np.maximum(coef, 0.0) + b * np.minimum(coef, 0.0)) @ (a * up + b * down))
            for a, b in ((1.0, 1.0), after)
        ]
    else:
        return None
    return (squares[0] ** 0.5, squares[1] ** 0.5) if min(squares) > 0 else None


@dataclass(eq=False, repr=False)
class ScoreHistogramDisplay:
    """Histograms of the scores of the two classes, each with area 1, so that the rare one is seen.

    Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Of the bins, the same for both classes; they leave outliers out.
    densities : tuple of two ndarrays of shape (n_bins,)
        Of the negative and of the positive class: their share in a bin over its width.
    totals : tuple of two floats
        Weight of each class.
    labels : tuple
        The labels (negative, positive).
    thresholds : dict of str to float, default={}
        Lines to draw.
    score_name : str, default="Score"
        The label of the axis.
    name : str or None, default=None
        Stands over the axes.

    Attributes
    ----------
    outside : tuple of two floats
        The share of each class beyond the bins.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
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
    labels: tuple[Any, Any]
    thresholds: dict[str, float] = field(default_factory=dict)
    score_name: str = "Score"
    name: str | None = None

    @property
    def outside(self) -> tuple[float, float]:
        shares = [max(0.0, 1.0 - float(density @ np.diff(self.edges))) for density in self.densities]
        return shares[0], shares[1]

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> ScoreHistogramDisplay:
        """Draw the histograms.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None: of a new figure.
        name : str, default=None
            Stands over the axes; None: `self.name`.
        **kwargs : dict
            For both histograms, as in matplotlib's `stairs`.

        Returns
        -------
        self
        """
        self.ax_ = ax = common.get_axes(ax)
        self.figure_ = ax.figure
        patches = []
        for side, color in enumerate((common.NEGATIVE, common.POSITIVE)):
            beyond = f", {self.outside[side]:.1%} beyond" if self.outside[side] > 5e-4 else ""
            label = f"class {self.labels[side]} ({self.totals[side]:g} rows{beyond})"
            ax.stairs(self.densities[side], self.edges, fill=True, color=color, alpha=0.25, linewidth=0)
            drawn = common.style(kwargs, color=color, linewidth=1.6, label=label)
            patches.append(ax.stairs(self.densities[side], self.edges, **drawn))
        self.patches_ = (patches[0], patches[1])
        self.threshold_lines_ = []
        for (label, value), dash in zip(
            self.thresholds.items(), ["--", ":", "-."] * len(self.thresholds), strict=False
        ):
            text = f"{label} {value:.3g}"
            self.threshold_lines_.append(
                ax.axvline(value, color=common.BLACK, linewidth=1.2, linestyle=dash, label=text)
            )
        shown = [float(self.edges[0]), float(self.edges[-1]), *self.thresholds.values()]
        margin = 0.02 * (max(shown) - min(shown))
        ax.set_xlim(min(shown) - margin, max(shown) + margin)
        ax.set_ylim(bottom=0.0)
        ax.set(xlabel=self.score_name, ylabel="Density within the class")
        common.legend_above(ax, title=self.name if name is None else name)
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: MatrixLike,
        y: ArrayLike,
        *,
        bins: int = 30,
        thresholds: Any = "own",
        sample_weight: ArrayLike | None = None,
        response_method: str = "auto",
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ScoreHistogramDisplay:
        """Draw the scores that a fitted classifier gives to (X, y).

        Parameters
        ----------
        estimator : fitted classifier
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        bins : int, default=30
        thresholds : "own", None, float, list of floats or dict, default="own"
            Lines to draw. "own" is where the estimator cuts; of a `ZAdjustedClassifier` that
            chose a threshold, also where its machine would have.
        sample_weight : array-like of shape (n_samples,), default=None
        response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
            "auto" takes `predict_proba` if there is one.
        pos_label : label, default=None
            The positive class; None: `classes_[1]`.
        name : str, default=None
            Stands over the axes.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            For both histograms, as in matplotlib's `stairs`.

        Returns
        -------
        ScoreHistogramDisplay
        """
        common.check_matplotlib()
        score, pos_label, method = common.responses(estimator, X, response_method, pos_label)
        if isinstance(thresholds, str) and thresholds == "own":
            thresholds = {"threshold": common.own_threshold(estimator, method, pos_label)}
            if isinstance(estimator, ZAdjustedClassifier) and hasattr(estimator, "threshold_"):
                moved = plain_threshold(estimator) - estimator.threshold_
                thresholds["before"] = moved if pos_label == estimator.minority_ else -moved
        axis = "Predicted probability" if method == "predict_proba" else "Decision function"
        axis += f" of class {pos_label}" if method == "predict_proba" else f", above 0 for class {pos_label}"
        return cls._compute(y, score, bins, thresholds, sample_weight, pos_label, axis, name).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        bins: int = 30,
        thresholds: Any = None,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ScoreHistogramDisplay:
        """Draw given scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
        y_score : array-like of shape (n_samples,)
            Higher for the positive class.
        bins : int, default=30
        thresholds : None, float, list of floats or dict, default=None
            Lines to draw; a dict gives their names.
        sample_weight : array-like of shape (n_samples,), default=None
        pos_label : label, default=None
            The positive class; None: the label 1.
        name : str, default=None
            Stands over the axes.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            For both histograms, as in matplotlib's `stairs`.

        Returns
        -------
        ScoreHistogramDisplay
        """
        common.check_matplotlib()
        return cls._compute(y_true, y_score, bins, thresholds, sample_weight, pos_label, "Score", name).plot(
            ax, **kwargs
        )

    @classmethod
    def _compute(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        bins: int,
        thresholds: Any,
        sample_weight: ArrayLike | None,
        pos_label: Any,
        score_name: str,
        name: str | None,
    ) -> ScoreHistogramDisplay:
        if not isinstance(bins, int | np.integer) or bins < 1:
            raise ValueError(f"bins={bins!r} must be a whole number from 1.")
        lines = _lines(thresholds)
        positive, weight, (score,), labels = common.label_rows(y_true, pos_label, sample_weight, y_score=y_score)
        low, high = common.fence(score, positive, weight)
        edges = np.linspace(low, high, int(bins) + 1)
        densities, totals = [], []
        for side in (~positive, positive):
            counts = np.histogram(score[side], edges, weights=weight[side])[0]
            totals.append(float(weight[side].sum()))
            densities.append(counts / (totals[-1] * np.diff(edges)))
        return cls(edges, (densities[0], densities[1]), (totals[0], totals[1]), labels, lines, score_name, name)


def _lines(thresholds: Any) -> dict[str, float]:
    """Named thresholds, all of them finite."""
    if thresholds is None:
        return {}
    try:
        if isinstance(thresholds, Mapping):
            named = {str(label): float(value) for label, value in thresholds.items()}
        else:
            values = np.atleast_1d(np.asarray(thresholds, dtype=np.float64)).ravel().tolist()
            prefix = "threshold" if len(values) == 1 else "threshold "
            named = {prefix + ("" if len(values) == 1 else str(k + 1)): value for k, value in enumerate(values)}
        if np.isfinite(list(named.values())).all():
            return named
    except (TypeError, ValueError):
        pass
    raise ValueError(f"thresholds={thresholds!r} must be a finite number, some of them, or a dict of them by name.")
