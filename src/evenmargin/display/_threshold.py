"""Metrics over every threshold, or over every z, as the exact step functions that they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._input.checks import check_is_fitted
from .._util.typing import Array, Mask, MatrixLike
from ..adjust import MetricCurve, best_threshold, best_z, metric_curve
from ..metrics import METRICS, CostMatrix, FBeta, get_metric, precision, recall, specificity
from ..zsvm import ZAdjustedClassifier, parts_of_score
from . import _common as common

__all__ = ["ThresholdDisplay"]


_LOG = 100.0  # a range of z that spans more than this factor is drawn on a logarithmic axis
_DEFAULT = ("gmean", "sensitivity", "specificity")
_NAMES = {"gmean": "G-mean", "f1": "F1", "mcc": "MCC"}
_COLORS = {"sensitivity": common.POSITIVE, "specificity": common.NEGATIVE, "G-mean": common.BLACK}


_PARTS = {"sensitivity": recall, "specificity": specificity, "precision": precision}


def _named(metrics: Any) -> dict[str, Any]:
    """Metrics by the names they have in the legend."""
    if isinstance(metrics, Mapping):
        return {str(name): _metric(metric) for name, metric in metrics.items()}
    if isinstance(metrics, str | np.ndarray) or callable(metrics) or _is_cost_matrix(metrics):
        metrics = [metrics]
    named: dict[str, Any] = {}
    for given in metrics:
        metric = _metric(given)
        name = _name(given, metric)
        while name in named:
            name += "′"
        named[name] = metric
    if not named:
        raise ValueError("metrics is empty: name at least one, such as 'gmean'.")
    return named


def _name(given: Any, metric: Any) -> str:
    if isinstance(metric, CostMatrix):
        return "mean cost"
    if isinstance(metric, FBeta):
        return f"F{metric.beta:g}"
    key = given if isinstance(given, str) else next((key for key, known in METRICS.items() if known == metric), None)
    if key is not None:
        return _NAMES.get(key, key.replace("_", " "))
    return str(getattr(metric, "__name__", type(metric).__name__)).strip("_")


def _is_cost_matrix(given: Any) -> bool:
    """Whether this is one matrix of numbers, and not a list of metrics."""
    if not isinstance(given, list | tuple) or len(given) != 2:
        return False
    costs = [cost for row in given if isinstance(row, list | tuple) for cost in row]
    return len(costs) == 4 and not any(isinstance(cost, str | list | tuple) for cost in costs)


def _metric(given: Any) -> Any:
    if isinstance(given, str) and given in _PARTS:
        return _PARTS[given]
    try:
        return get_metric(given)
    except ValueError as error:
        if isinstance(given, str):
            raise ValueError(f"{error}"[:-1] + ", or here also 'sensitivity', 'specificity' or 'precision'.") from None
        raise


@dataclass(eq=False, repr=False)
class ThresholdDisplay:
    """Metrics against the threshold, or against the z of z-SVM, with the chosen point.

    Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    curves : dict of str to MetricCurve
        Each metric as a step function: its breaks and one value more. Mean costs are
        as they are paid, not negated.
    kind : {"threshold", "z"}
        What the curves run over.
    at : float or None
        The chosen threshold or z.
    span : tuple of two floats
        The part of it that is drawn, which outliers do not stretch.
    values : dict of str to float
        The metrics at `at`.
    score_name : str, default="score"
        What the threshold cuts, for the label of the axis.
    costs : tuple of str, default=()
        The curves that are costs, and have an axis of their own.
    name : str or None, default=None
        Stands over the axes.

    Attributes
    ----------
    ax_, cost_ax_ : matplotlib Axes
        `cost_ax_` is the axis of mean costs at the right, `ax_` if there is nothing else, or None.
    figure_ : matplotlib Figure
    lines_ : dict of str to matplotlib Line2D
    at_line_ : matplotlib Line2D or None

    See Also
    --------
    evenmargin.adjust.metric_curve : The curves as numbers.

    Examples
    --------
    >>> from evenmargin.display import ThresholdDisplay
    >>> display = ThresholdDisplay.from_predictions([0, 0, 0, 1, 1], [0.1, 0.2, 0.6, 0.5, 0.9])
    >>> display.curves["sensitivity"].breaks
    array([0.1, 0.2, 0.5, 0.6, 0.9])
    >>> round(display.values["G-mean"], 3)
    0.816
    """

    curves: dict[str, MetricCurve]
    kind: str
    at: float | None
    span: tuple[float, float]
    values: dict[str, float]
    score_name: str = "score"
    costs: tuple[str, ...] = ()
    name: str | None = None

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> ThresholdDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None: of a new figure.
        name : str, default=None
            Stands over the axes; None: `self.name`.
        **kwargs : dict
            For all lines, as in matplotlib's `plot`.

        Returns
        -------
        self
        """
        self.ax_ = common.get_axes(ax)
        self.figure_ = self.ax_.figure
        self.cost_ax_: Any = None
        if self.costs:
            self.cost_ax_ = self.ax_ if len(self.costs) == len(self.curves) else self.ax_.twinx()
            self.cost_ax_.set_ylabel("Mean cost of a row")
            self.cost_ax_.spines["top"].set_visible(False)
        self.lines_: dict[str, Any] = {}
        others = iter(common.OTHERS * (1 + len(self.curves)))
        for label, curve in self.curves.items():
            target = self.cost_ax_ if label in self.costs else self.ax_
            drawn = common.style(
                kwargs,
                color=_COLORS.get(label) or next(others),
                linewidth=1.5 if self.lines_ else 2.0,  # the first is the one that matters
                linestyle="-" if target is self.ax_ else "--",
                label=f"{label} {self.values[label]:.3g}" if label in self.values else label,
            )
            (self.lines_[label],) = target.plot(*self._corners(curve), **drawn)
        self._mark()
        self._finish(self.name if name is None else name)
        return self

    def _corners(self, curve: MetricCurve) -> tuple[Array, Array]:
        """The curve's corners within the span: each break twice, with the value before and after."""
        low, high = self.span
        breaks = curve.breaks
        first, last = np.searchsorted(breaks, [low, high])
        x = np.concatenate([[low], np.repeat(breaks[first:last], 2), [high]])
        values = np.repeat(curve.values[first : last + 1], 2)
        return x, np.where(np.isfinite(values), values, np.nan)

    def _mark(self) -> None:
        self.at_line_ = None
        if self.at is None:
            return
        what = "z" if self.kind == "z" else "threshold"
        self.at_line_ = self.ax_.axvline(
            self.at, color=common.GREY, linewidth=1.0, linestyle="--", zorder=1, label=f"{what} {self.at:.3g}"
        )
        for label, value in self.values.items():
            line = self.lines_[label]
            line.axes.plot([self.at], [value], "o", color=line.get_color(), markersize=4.5)

    def _finish(self, title: str | None) -> None:
        low, high = self.span
        if self.kind == "z" and low > 0 and high > _LOG * low:
            self.ax_.set_xscale("log")
        self.ax_.set_xlim(low, high)
        if self.cost_ax_ is not self.ax_:
            self.ax_.set_ylabel("Metric")
            shown = np.concatenate([line.get_ydata() for name, line in self.lines_.items() if name not in self.costs])
            if not ((shown < 0) | (shown > 1)).any():
                self.ax_.set_ylim(-0.02, 1.02)
        self.ax_.set_xlabel(
            "z, the pull of the minority" if self.kind == "z" else f"Threshold on the {self.score_name}"
        )
        handles = [*self.lines_.values(), *([self.at_line_] if self.at_line_ else [])]
        common.legend_above(self.ax_, handles, title=title)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: MatrixLike,
        y: ArrayLike,
        *,
        metrics: Any = _DEFAULT,
        at: float | str | None = "own",
        sample_weight: ArrayLike | None = None,
        response_method: str = "auto",
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ThresholdDisplay:
        """Draw how a fitted classifier's metrics on (X, y) depend on its threshold, or on z.

        Parameters
        ----------
        estimator : fitted classifier
            A `ZAdjustedClassifier` is drawn over z or over its threshold, whichever it
            chose, with the minority as positive class.
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        metrics : str, metric, cost matrix, callable, a list of them or a dict, default=("gmean", \
"sensitivity", "specificity")
            As in `evenmargin.adjust`, and "sensitivity", "specificity", "precision". A dict
            gives the names for the legend.
        at : float, "own", "best" or None, default="own"
            What to mark: a threshold or z, the estimator's own, or the best here for the first metric.
        sample_weight : array-like of shape (n_samples,), default=None
        response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
            "auto" takes `predict_proba` if there is one. Not for a `ZAdjustedClassifier`.
        pos_label : label, default=None
            The positive class; None: `classes_[1]`, or the minority of a `ZAdjustedClassifier`.
        name : str, default=None
            Stands over the axes.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            For all lines, as in matplotlib's `plot`.

        Returns
        -------
        ThresholdDisplay
        """
        common.check_matplotlib()
        scores: dict[str, Any]
        if isinstance(estimator, ZAdjustedClassifier):
            scores, pos_label, own, score_name = _adjusted(estimator, X, pos_label)
        else:
            score, pos_label, method = common.responses(estimator, X, response_method, pos_label)
            scores, own = {"y_score": score}, common.own_threshold(estimator, method, pos_label)
            score_name = "predicted probability" if method == "predict_proba" else "decision function"
        return cls._compute(
            y,
            scores,
            metrics,
            own if isinstance(at, str) and at == "own" else at,
            sample_weight,
            pos_label,
            name,
            score_name,
        ).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike | None = None,
        *,
        p: ArrayLike | None = None,
        q: ArrayLike | None = None,
        metrics: Any = _DEFAULT,
        at: float | str | None = "best",
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> ThresholdDisplay:
        """Draw metrics over the threshold on `y_score`, or over the z of z·p + q.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
        y_score : array-like of shape (n_samples,), default=None
            Higher for the positive class; rows above the threshold are called positive.
        p, q : array-like of shape (n_samples,), default=None
            Instead of `y_score`: the pull of the positive support vectors, and the rest.
        metrics, sample_weight, name, ax, **kwargs
            As in `from_estimator`.
        at : float, "best" or None, default="best"
            What to mark: a threshold or z, or the best for the first metric.
        pos_label : label, default=None
            The positive class; None: the label 1.

        Returns
        -------
        ThresholdDisplay
        """
        common.check_matplotlib()
        if (y_score is None) == (p is None) or (p is None) != (q is None):
            raise ValueError("Give either y_score, for a threshold, or both p and q, for z.")
        scores = {"y_score": y_score} if y_score is not None else {"p": p, "q": q}
        return cls._compute(y_true, scores, metrics, at, sample_weight, pos_label, name, "score").plot(ax, **kwargs)

    @classmethod
    def _compute(
        cls,
        y_true: ArrayLike,
        scores: dict[str, Any],
        metrics: Any,
        at: Any,
        sample_weight: ArrayLike | None,
        pos_label: Any,
        name: str | None,
        score_name: str,
    ) -> ThresholdDisplay:
        named = _named(metrics)
        positive, weight, parts, _ = common.label_rows(y_true, pos_label, sample_weight, **scores)
        kind = "z" if len(parts) == 2 else "threshold"
        over = {"p": parts[0], "q": parts[1]} if kind == "z" else {"scores": parts[0]}
        curves = {label: metric_curve(positive, metric, weight, **over) for label, metric in named.items()}
        costs = tuple(label for label, metric in named.items() if isinstance(metric, CostMatrix))
        for label in costs:
            curves[label] = MetricCurve(curves[label].breaks, 0.0 - curves[label].values)
        at = _place(at, kind, parts, positive, weight, next(iter(named.values())))
        values = {}
        if at is not None:
            # At a break: for z the value below it, for a threshold the one above.
            side: Any = "left" if kind == "z" else "right"
            values = {label: float(c.values[np.searchsorted(c.breaks, at, side=side)]) for label, c in curves.items()}
            values = {label: value for label, value in values.items() if np.isfinite(value)}
        span = _z_span(parts, positive, weight, at) if kind == "z" else _span(parts[0], positive, weight, at)
        return cls(curves, kind, at, span, values, score_name, costs, name)


def _place(at: Any, kind: str, parts: list[Array], positive: Mask, weight: Array, metric: Any) -> float | None:
    """The threshold or z to mark."""
    if at is None:
        return None
    if isinstance(at, str) and at == "best":
        if kind == "z":
            return best_z(parts[0], parts[1], positive, metric, weight).z
        return best_threshold(parts[0], positive, metric, weight, place="middle").threshold
    if not isinstance(at, Real) or not np.isfinite(float(at)) or (kind == "z" and at < 0):
        raise ValueError(f"at={at!r} must be 'best', None, or a finite number{', from 0 for z' * (kind == 'z')}.")
    return float(at)


def _adjusted(model: ZAdjustedClassifier, X: MatrixLike, pos_label: Any) -> tuple[dict[str, Any], Any, float, str]:
    """What a ZAdjustedClassifier chose from: the parts of its scores, the minority, z or the threshold, a name."""
    check_is_fitted(model)
    minority = np.asarray(model.minority_).item()
    if pos_label is not None and pos_label != minority:
        raise ValueError(
            f"A ZAdjustedClassifier is adjusted for its minority, {minority!r}: leave pos_label={pos_label!r} out."
        )
    which = int(model.minority_ == model.classes_[1])
    if hasattr(model, "z_"):
        p, q = parts_of_score("z", model.estimator_, X, which)
        return {"p": p, "q": q}, minority, model.z_, ""
    scored = hasattr(model.estimator_, "decision_function")
    (score,) = parts_of_score("threshold", model.estimator_, X, which)
    return {"y_score": score}, minority, model.threshold_, "decision function" if scored else "predicted probability"


def _span(score: Array, positive: Mask, weight: Array, at: float | None) -> tuple[float, float]:
    low, high = common.fence(score, positive, weight)
    if at is not None:
        low, high = min(low, at), max(high, at)
    margin = 0.03 * (high - low)
    return low - margin, high + margin


def _z_span(parts: list[Array], positive: Mask, weight: Array, at: float | None) -> tuple[float, float]:
    """Where most rows of either class change sides, with z = 1, the machine as it was, and the chosen z."""
    p, q = parts
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        breaks = -q / p
    moves = np.isfinite(breaks) & (breaks > 0)
    marks = [1.0] if at is None else [1.0, at]
    if not moves.any():
        return 0.0, 1.2 * max(marks)
    breaks, positive, weight = breaks[moves], positive[moves], weight[moves]
    lower, upper = (float(z) for z in common.class_quantile(breaks, positive, weight, [0.25, 0.75]))
    if upper > _LOG * lower:  # spread over powers of ten
        low, high = common.class_quantile(breaks, positive, weight, [0.02, 0.98])
        marks = [mark for mark in marks if mark > 0]
        return 0.8 * min(float(low), *marks), 1.25 * max(float(high), *marks)
    spread = 1.5 * (upper - lower)
    low = min(max(float(breaks.min()), lower - spread), *marks)
    high = max(min(float(breaks.max()), upper + spread), *marks)
    margin = 0.05 * (high - low) or 0.5
    return max(0.0, low - margin), high + margin
