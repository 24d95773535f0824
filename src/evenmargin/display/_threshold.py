"""Metrics over every threshold, or over every z, drawn as exact step functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from .._input.checks import check_is_fitted
from .._util.typing import Array, MatrixLike
from ..adjust import MetricCurve, best_threshold, best_z, metric_curve
from ..metrics import METRICS, CostMatrix, FBeta, Metric, MetricLike, get_metric, precision, recall, specificity
from ..operating.responses import score_method, scores_for
from ..zsvm import ZAdjustedClassifier, parts_of_score
from ._base import ROWS, Option, ScoreDisplay, ScoredRows, ScoreSource
from .axes import BLACK, GREY, NEGATIVE, OTHERS, POSITIVE, Style, legend_above, style
from .binning import class_quantile, typical_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ThresholdDisplay"]


_LOG = 100.0  # a range of z that spans more than this factor is drawn on a logarithmic axis
_DEFAULT = ("gmean", "sensitivity", "specificity")
_NAMES = {"gmean": "G-mean", "f1": "F1", "mcc": "MCC"}
Metrics: TypeAlias = MetricLike | Iterable[MetricLike] | Mapping[str, MetricLike]
_COLORS = {"sensitivity": POSITIVE, "specificity": NEGATIVE, "G-mean": BLACK}
_PARTS = {"sensitivity": recall, "specificity": specificity, "precision": precision}


def _named(metrics: Metrics) -> dict[str, Metric]:
    """Metrics by their names in the legend."""
    if isinstance(metrics, Mapping):
        return {str(name): _metric(metric) for name, metric in metrics.items()}
    single = isinstance(metrics, str | np.ndarray) or callable(metrics) or _is_cost_matrix(metrics)
    several: Any = [metrics] if single else metrics
    named: dict[str, Metric] = {}
    for given in several:
        metric = _metric(given)
        name = _name(given, metric)
        while name in named:
            name += "′"
        named[name] = metric
    if not named:
        raise ValueError("metrics is empty: name at least one, such as 'gmean'.")
    return named


def _name(given: object, metric: Metric) -> str:
    if isinstance(metric, CostMatrix):
        return "mean cost"
    if isinstance(metric, FBeta):
        return f"F{metric.beta:g}"
    key = given if isinstance(given, str) else next((key for key, known in METRICS.items() if known == metric), None)
    if key is not None:
        return _NAMES.get(key, key.replace("_", " "))
    return str(getattr(metric, "__name__", type(metric).__name__)).strip("_")


def _is_cost_matrix(given: object) -> bool:
    """Whether this is one matrix of numbers, and not a list of metrics."""
    try:
        return np.asarray(given, dtype=np.float64).shape == (2, 2)
    except (TypeError, ValueError):
        return False


def _metric(given: MetricLike) -> Metric:
    if isinstance(given, str) and given in _PARTS:
        return _PARTS[given]
    try:
        return get_metric(given)
    except ValueError as error:
        if isinstance(given, str):
            raise ValueError(f"{error}"[:-1] + ", or here also 'sensitivity', 'specificity' or 'precision'.") from None
        raise


@dataclass(eq=False, repr=False)
class ThresholdDisplay(ScoreDisplay):
    """Metrics against the threshold, or against the z of z-SVM, with the chosen point.

    Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    curves : dict of str to MetricCurve
        Each metric as a step function: its breaks and one value more. Mean costs are
        positive numbers, not negated.
    kind : {"threshold", "z"}
        What the curves are drawn against.
    at : float or None
        The chosen threshold or z.
    span : tuple of two floats
        The range of thresholds or z to draw, without outliers.
    values : dict of str to float
        The metrics at `at`.
    score_name : str, default="score"
        The name of the score in the label of the axis.
    costs : tuple of str, default=()
        The curves that are costs and have an axis of their own.

    Attributes
    ----------
    cost_ax_ : matplotlib Axes or None
        The axes of mean costs at the right; `ax_` if all curves are costs, None if there are none.
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

    _subject = "how metrics depend on the threshold, or on z,"
    _artist = "For all lines, as in matplotlib's `plot`."
    _is_curve, _name_text = False, "Title of the legend."
    _scores = {
        "y_score": Option(None, ROWS, "Higher for the positive class; rows above a threshold are predicted positive.")
    }
    _parts = {
        "p": Option(None, ROWS, "Instead of `y_score`: the pull of the positive support vectors in z·p + q."),
        "q": Option(None, ROWS, "The rest of the score."),
    }
    _options = {
        "metrics": Option(
            _DEFAULT, "str, metric, cost matrix, callable, a list of them or a dict",
            "As in `evenmargin.adjust`, and 'sensitivity', 'specificity', 'precision'. A dict\n"
            "gives the names for the legend.",
        ),
        "at": Option(
            "best", "float, 'own', 'best' or None",
            "What to mark: a threshold or z, that of the estimator, or the best one here for the\nfirst metric.",
            "own",
        ),
    }  # fmt: skip

    @classmethod
    def _given(cls, scores: dict[str, Any], pos_label: object) -> ScoreSource:
        score, p, q = scores.values()
        if (score is None) == (p is None) or (p is None) != (q is None):
            raise ValueError("Give either y_score (for thresholds) or both p and q (for z).")
        return ScoreSource({name: part for name, part in scores.items() if part is not None}, pos_label)

    @classmethod
    def _source(
        cls, estimator: BaseEstimator, X: MatrixLike, *, pos_label: object, response_method: str = "auto"
    ) -> ScoreSource:
        """The scores; of a ZAdjustedClassifier, those from which it chose z or the threshold."""
        if not isinstance(estimator, ZAdjustedClassifier):
            return super()._source(estimator, X, pos_label=pos_label, response_method=response_method)
        check_is_fitted(estimator)
        minority = np.asarray(estimator.minority_).item()
        if pos_label is not None and pos_label != minority:
            raise ValueError(
                f"A ZAdjustedClassifier is adjusted for its minority, {minority!r}: leave out pos_label={pos_label!r}."
            )
        which = int(estimator.minority_ == estimator.classes_[1])
        if hasattr(estimator, "z_"):
            p, q = parts_of_score("z", estimator.estimator_, X, which)
            return ScoreSource({"p": p, "q": q}, minority, None, estimator.z_)
        method = score_method(estimator.estimator_)
        score = scores_for(estimator.estimator_, X, method, which)
        return ScoreSource({"y_score": score}, minority, method, estimator.threshold_)

    @classmethod
    def _compute(
        cls, rows: ScoredRows, source: ScoreSource, *, metrics: Metrics = _DEFAULT, at: float | str | None = "best"
    ) -> ThresholdDisplay:
        named, parts = _named(metrics), rows.scores
        kind = "z" if len(parts) == 2 else "threshold"
        over = {"p": parts[0], "q": parts[1]} if kind == "z" else {"scores": parts[0]}
        curves = {label: metric_curve(rows.positive, metric, rows.weight, **over) for label, metric in named.items()}
        costs = tuple(label for label, metric in named.items() if isinstance(metric, CostMatrix))
        for label in costs:
            curves[label] = MetricCurve(curves[label].breaks, 0.0 - curves[label].values)
        if source.threshold is not None and isinstance(at, str) and at == "own":
            at = source.threshold
        at = _place(at, kind, rows, next(iter(named.values())))
        values = {}
        if at is not None:
            # At a break: for z the value below it, for a threshold the one above.
            side: Literal["left", "right"] = "left" if kind == "z" else "right"
            values = {label: float(c.values[np.searchsorted(c.breaks, at, side=side)]) for label, c in curves.items()}
            values = {label: value for label, value in values.items() if np.isfinite(value)}
        span = _z_span(rows, at) if kind == "z" else _span(rows, at)
        score_name = (source.method or "score").replace("predict_proba", "predicted probability").replace("_", " ")
        return cls(curves, kind, at, span, values, score_name, costs)

    def _draw(self, name: str | None, kwargs: Style) -> None:
        self.cost_ax_: Axes | None = None
        if self.costs:
            self.cost_ax_ = self.ax_ if len(self.costs) == len(self.curves) else self.ax_.twinx()
            self.cost_ax_.set_ylabel("Mean cost of a row")
            self.cost_ax_.spines["top"].set_visible(False)
        self.lines_: dict[str, Any] = {}
        others = iter(OTHERS * (1 + len(self.curves)))
        for label, curve in self.curves.items():
            target = self.ax_ if self.cost_ax_ is None or label not in self.costs else self.cost_ax_
            drawn = style(
                kwargs,
                color=_COLORS.get(label) or next(others),
                linewidth=1.5 if self.lines_ else 2.0,  # the first is the one that matters
                linestyle="-" if target is self.ax_ else "--",
                label=f"{label} {self.values[label]:.3g}" if label in self.values else label,
            )
            (self.lines_[label],) = target.plot(*self._corners(curve), **drawn)
        self._mark()
        self._finish(name)

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
            self.at, color=GREY, linewidth=1.0, linestyle="--", zorder=1, label=f"{what} {self.at:.3g}"
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
        legend_above(self.ax_, handles, title=title)


def _place(at: float | str | None, kind: str, rows: ScoredRows, metric: Metric) -> float | None:
    """The threshold or z to mark."""
    if at is None:
        return None
    if isinstance(at, str) and at == "best":
        if kind == "z":
            return best_z(rows.scores[0], rows.scores[1], rows.positive, metric, rows.weight).z
        return best_threshold(rows.scores[0], rows.positive, metric, rows.weight, place="middle").threshold
    if not isinstance(at, Real) or not np.isfinite(float(at)) or (kind == "z" and at < 0):
        raise ValueError(f"at={at!r} must be 'best', None, or a finite number{', from 0 for z' * (kind == 'z')}.")
    return float(at)


def _span(rows: ScoredRows, at: float | None) -> tuple[float, float]:
    low, high = typical_range(rows.scores[0], rows.positive, rows.weight)
    if at is not None:
        low, high = min(low, at), max(high, at)
    margin = 0.03 * (high - low)
    return low - margin, high + margin


def _z_span(rows: ScoredRows, at: float | None) -> tuple[float, float]:
    """Where most rows of either class change sides, with z = 1, the machine as it was, and the chosen z."""
    p, q = rows.scores
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        breaks = -q / p
    moves = np.isfinite(breaks) & (breaks > 0)
    marks = [1.0] if at is None else [1.0, at]
    if not moves.any():
        return 0.0, 1.2 * max(marks)
    breaks, positive, weight = breaks[moves], rows.positive[moves], rows.weight[moves]
    lower, upper = (float(z) for z in class_quantile(breaks, positive, weight, [0.25, 0.75]))
    if upper > _LOG * lower:  # spread over powers of ten
        low, high = class_quantile(breaks, positive, weight, [0.02, 0.98])
        marks = [mark for mark in marks if mark > 0]
        return 0.8 * min(float(low), *marks), 1.25 * max(float(high), *marks)
    spread = 1.5 * (upper - lower)
    low = min(max(float(breaks.min()), lower - spread), *marks)
    high = max(min(float(breaks.max()), upper + spread), *marks)
    margin = 0.05 * (high - low) or 0.5
    return max(0.0, low - margin), high + margin
