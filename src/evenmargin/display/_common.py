"""What the displays share: axes, colours, legends; labels, weights, scores; ranges that outliers do not stretch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV

from .._input.checks import check_is_fitted
from .._util.typing import Array, Mask, MatrixLike

__all__ = [
    "BLACK",
    "GREEN",
    "GREY",
    "NEGATIVE",
    "OTHERS",
    "POSITIVE",
    "PURPLE",
    "Scored",
    "check_matplotlib",
    "class_quantile",
    "fence",
    "get_axes",
    "has_label",
    "label_rows",
    "legend_above",
    "own_threshold",
    "responses",
    "style",
]


NEGATIVE, POSITIVE = "#0072B2", "#D55E00"  # blue, vermilion
BLACK, GREY, GREEN, PURPLE = "#222222", "#8C8C8C", "#009E73", "#AA4499"
OTHERS = [GREEN, PURPLE, "#56B4E9", "#B8860B"]

_ROUNDING = 1e-6  # how far a float32 model's probabilities may leave [0, 1]

# What matplotlib calls by two names: a user's "lw" must replace our "linewidth".
_ALIASES = {"c": "color", "ls": "linestyle", "lw": "linewidth", "ms": "markersize", "mec": "markeredgecolor",
            "mfc": "markerfacecolor", "mew": "markeredgewidth", "ec": "edgecolor", "fc": "facecolor",
            "ds": "drawstyle"}  # fmt: skip


# --- drawing ---


def check_matplotlib() -> Any:
    """matplotlib.pyplot, or one sentence."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("The displays draw with matplotlib: install it with `pip install matplotlib`.") from error
    return plt


def get_axes(ax: Any) -> Any:
    """The given axes, or those of a new figure that makes room for a legend outside of them."""
    plt = check_matplotlib()
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def style(given: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    """Our keyword arguments for an artist, with those given in their place."""
    return {**defaults, **{_ALIASES.get(key, key): value for key, value in given.items()}}


def has_label(ax: Any, label: str) -> bool:
    """Whether an artist with this label is there, so that a reference is drawn once."""
    return label in ax.get_legend_handles_labels()[1]


def legend_above(ax: Any, handles: list[Any] | None = None, title: str | None = None) -> None:
    """A legend over the axes, where it covers no data, in as many columns as their width allows."""
    handles = ax.get_legend_handles_labels()[0] if handles is None else handles
    for columns in range(min(4, len(handles)), 0, -1):
        legend = ax.legend(
            handles=handles, ncols=columns, title=title, loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False,
            fontsize="small", title_fontsize="medium", alignment="left", borderaxespad=0.2, columnspacing=1.2,
            handlelength=1.6,
        )  # fmt: skip
        if columns == 1 or legend.get_window_extent().width <= 1.04 * ax.get_window_extent().width:
            return


# --- rows ---


class Scored(NamedTuple):
    """Rows of weight above 0: which are positive, their weights, their scores, and the labels (negative, positive)."""

    positive: Mask
    weight: Array
    scores: list[Array]
    labels: tuple[Any, Any]


def label_rows(
    y_true: ArrayLike, pos_label: Any, sample_weight: ArrayLike | None, *, unit: bool = False, **scores: ArrayLike
) -> Scored:
    """Check labels, weights and scores; with `unit` the scores must be probabilities."""
    y = np.asarray(y_true)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    if y.ndim != 1 or y.size == 0:
        raise ValueError(f"y_true has shape {y.shape}; it must hold one label for each row.")
    parts = [_numbers(part, name, y.size) for name, part in scores.items()]
    weight = np.ones(y.size) if sample_weight is None else _numbers(sample_weight, "sample_weight", y.size)
    if (weight < 0).any():
        raise ValueError("sample_weight must not be below 0.")
    for name, part in zip(scores, parts, strict=True):
        if unit and (part.min() < -_ROUNDING or part.max() > 1.0 + _ROUNDING):
            raise ValueError(
                f"{name} must hold probabilities from 0 to 1, not numbers from {part.min():.3g} to {part.max():.3g}: "
                "calibrate scores first, for example with sklearn.calibration.CalibratedClassifierCV."
            )
    if unit:
        parts = [part.clip(0.0, 1.0) for part in parts]
    negative_label, pos_label = _two_labels(y, pos_label)
    keep = weight > 0
    positive = (y == pos_label)[keep]
    if not positive.any() or positive.all():
        raise ValueError("y_true must hold rows of both classes with a weight above 0.")
    return Scored(positive, weight[keep], [part[keep] for part in parts], (negative_label, pos_label))


def _numbers(values: ArrayLike, name: str, n: int) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold numbers, one for each row.") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.ravel()
    if array.shape != (n,):
        advice = ": give the column of the positive class" if array.shape == (n, 2) else ""
        raise ValueError(
            f"{name} has shape {array.shape}; it must hold one number for each of the {n} rows of y_true{advice}."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers only.")
    return array


def _two_labels(y: NDArray[Any], pos_label: Any) -> tuple[Any, Any]:
    """(negative, positive), where without a `pos_label` the label 1 is positive."""
    try:
        found = np.unique(y).tolist()
    except TypeError as error:
        raise ValueError(f"The labels in y_true must be of one type, none of them missing ({error}).") from None
    if len(found) != 2:
        raise ValueError(f"y_true must hold two classes, and it holds {len(found)}: {found[:5]}.")
    if pos_label is None:
        if found not in ([0, 1], [-1, 1]):
            raise ValueError(f"y_true holds {found[0]!r} and {found[1]!r}: say which is positive with pos_label.")
        pos_label = found[1]
    elif pos_label not in found:
        raise ValueError(f"pos_label={pos_label!r} is not in y_true, which holds {found[0]!r} and {found[1]!r}.")
    return found[1 - found.index(pos_label)], found[found.index(pos_label)]


# --- estimators ---


def responses(estimator: Any, X: MatrixLike, response_method: str, pos_label: Any) -> tuple[Array, Any, str]:
    """Scores for the positive class (`classes_[1]` unless named), its label, and the method that gave them."""
    known = ("predict_proba", "decision_function")
    if response_method not in ("auto", *known):
        raise ValueError(
            f"response_method={response_method!r} is unknown; choose 'auto', 'predict_proba' or 'decision_function'."
        )
    name = type(estimator).__name__
    if not is_classifier(estimator):
        raise ValueError(f"{name} is not a classifier: the display needs a fitted one with two classes.")
    check_is_fitted(estimator)
    classes = np.asarray(estimator.classes_).tolist()
    if len(classes) != 2:
        raise ValueError(f"{name} was fitted on {len(classes)} classes: the display needs a classifier of two.")
    if pos_label is None:
        own = getattr(estimator, "pos_label_", None)
        pos_label = classes[1] if own is None else own
    elif pos_label not in classes:
        raise ValueError(f"pos_label={pos_label!r} is not a class of {name}, which knows {classes}.")
    wanted = known if response_method == "auto" else (response_method,)
    method = next((method for method in wanted if hasattr(estimator, method)), None)
    if method is None:
        raise ValueError(f"{name} has no {' or '.join(wanted)}, which the display needs.")
    values = np.asarray(getattr(estimator, method)(X), dtype=np.float64)
    which = classes.index(pos_label)
    if method == "predict_proba":
        return values[:, which], pos_label, method
    return (values if which == 1 else -values), pos_label, method


def own_threshold(estimator: Any, method: str, pos_label: Any) -> float:
    """Where the estimator itself cuts the scores that `method` gave."""
    default = 0.5 if method == "predict_proba" else 0.0
    own = getattr(estimator, "probability_threshold_", None)  # of EvenMarginClassifier
    if own is not None and method == "predict_proba":
        return float(own if pos_label == estimator.pos_label_ else 1.0 - own)
    tuned = isinstance(estimator, TunedThresholdClassifierCV)
    if not tuned and not isinstance(estimator, FixedThresholdClassifier):
        return default
    cut = estimator.best_threshold_ if tuned else estimator.threshold
    if cut == "auto" or estimator.response_method not in ("auto", method):
        return default
    own_label = getattr(estimator, "pos_label", None)
    turned = pos_label != (estimator.classes_[1] if own_label is None else own_label)
    return float((2.0 * default - cut) if turned else cut)


# --- ranges ---


def class_quantile(values: Array, positive: Mask, weight: Array, shares: Any) -> Array:
    """Quantiles in which the two classes count the same, however rare one is."""
    mass = np.empty(values.size)
    for side in (positive, ~positive):
        mass[side] = weight[side] / max(float(weight[side].sum()), 1e-300)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(mass[order]) / mass.sum()
    places = np.searchsorted(reached, np.asarray(shares) - 1e-12)
    return values[order][np.minimum(places, values.size - 1)]


def fence(values: Array, positive: Mask, weight: Array) -> tuple[float, float]:
    """The range of the two classes without what lies far out.

    Far is 2.5 times the spread of the middle half: of a class, or, for all but 2 % of
    its rows at either end, of both classes together.
    """
    both = _reach(*class_quantile(values, positive, weight, [0.25, 0.75]))
    low, high = [], []
    for side in (positive, ~positive):
        own, alone = values[side], np.ones(int(side.sum()), dtype=np.bool_)
        first, lower, upper, last = class_quantile(own, alone, weight[side], [0.02, 0.25, 0.75, 0.98])
        reach = _reach(lower, upper)
        low.append(max(float(own.min()), min(reach[0], max(float(first), both[0]))))
        high.append(min(float(own.max()), max(reach[1], min(float(last), both[1]))))
    return (min(low), max(high)) if min(low) < max(high) else (min(low) - 0.5, max(high) + 0.5)


def _reach(lower: float, upper: float) -> tuple[float, float]:
    spread = 2.5 * float(upper - lower)
    return float(lower) - spread, float(upper) + spread
