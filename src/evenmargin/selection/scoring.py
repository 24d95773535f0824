"""The scorers of a search: whatever `GridSearchCV` takes, and the usual ones for many machines at once.

A scikit-learn scorer spends most of its time on checking its input. For a name in `QUICK` the same number is computed
from the scores of a whole path of machines. Where a metric is not defined (no row predicted positive, one class only),
that is left to the scorer itself, whose warnings and conventions then hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from numbers import Number
from traceback import format_exc
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import check_scoring

from .._util.typing import Array, Mask, MatrixLike, VectorLike
from ..metrics import BalancedAccuracy, FBeta, Metric, precision, recall


class Scorers:
    """One scorer or several, by name; a single one is called "score". The parameters are those of the search."""

    def __init__(self, estimator: BaseEstimator, scoring: Any, error_score: float | str) -> None:
        self.error_score, self.failures = error_score, list[str]()
        self.multiple = not (scoring is None or isinstance(scoring, str) or callable(scoring))
        self.open = callable(scoring)  # only its return value tells whether it is one metric or several
        if self.multiple:
            check_scoring(estimator, scoring)  # scikit-learn's errors for lists and dicts that make no sense
            named = dict(scoring) if isinstance(scoring, Mapping) else {name: name for name in scoring}
        else:
            named = {"score": scoring}
        self.names = {name: _name(given) for name, given in named.items()}
        self.own = any(map(is_own_function, named.values()))
        self.scorers = {name: check_scoring(estimator, given) for name, given in named.items()}

    def __call__(
        self,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: VectorLike,
        params: Mapping[str, dict[str, Any]],
        names: Iterable[str] | None = None,
    ) -> dict[str, float]:
        """The metrics of a fitted estimator, or some of them; error_score where a scorer fails."""
        found: dict[str, float] = {}
        for name in self.scorers if names is None else names:
            try:
                rows = (X,) if y is None else (X, y)
                value = self.scorers[name](estimator, *rows, **params.get(name, {}))
            except Exception:
                if isinstance(self.error_score, str):
                    raise
                self.failures.append(format_exc())
                value = self.error_score
            if self.open and isinstance(value, dict):
                found.update((str(key), _number(each, key)) for key, each in value.items())
            else:
                found[name] = _number(value, name)
        return found


def is_own_function(scoring: object) -> bool:
    """Whether it is a function of the user's own, which may ask the estimator for anything: it needs a fitted one."""
    return callable(scoring) and not hasattr(scoring, "_score_func")


def _name(given: object) -> str | None:
    """The name of a scikit-learn scorer, whose metric may be computed for many machines at once."""
    if given is None:
        return "accuracy"  # what `score` of a classifier is
    return given if isinstance(given, str) else None


def takes_weight(scorer: Callable[..., Any]) -> bool:
    """Whether this version of scikit-learn's own searches hand sample_weight on to the scorer."""
    if hasattr(scorer, "_accept_sample_weight"):
        return bool(scorer._accept_sample_weight())
    return not hasattr(scorer, "_score_func") and "sample_weight" in signature(scorer).parameters


def _number(value: Any, name: str) -> float:
    if hasattr(value, "item") and np.size(value) == 1:
        value = value.item()
    if not isinstance(value, Number):
        raise ValueError(f"scoring: {name!r} must return a number, and it returned {value!r} ({type(value).__name__}).")
    return float(value)  # type: ignore[arg-type]  # whatever is a Number here has __float__


def quick_scores(name: str | None, classes: NDArray[Any], y: NDArray[Any], scores: Array) -> Array:
    """A metric for every machine, by the name of a scikit-learn scorer; NaN where that is left to the scorer itself.

    classes : those of the machines
    scores : ndarray of shape (machines, n) or (machines, n, n_classes)
    """
    undefined = np.full(scores.shape[0], np.nan)
    if name == "accuracy":
        predicted = classes[(scores > 0).astype(np.intp) if scores.ndim == 2 else scores.argmax(axis=2)]
        return np.asarray(np.count_nonzero(predicted == y, axis=1) / y.size) if y.size else undefined
    if name not in QUICK or classes.size != 2:
        return undefined
    positive = y == classes[1]
    plus = int(positive.sum())
    if not 0 < plus < y.size or (y[~positive] != classes[0]).any():
        return undefined
    if name not in ("balanced_accuracy", "roc_auc") and not (classes.dtype.kind in "biuf" and classes[1] == 1):
        return undefined  # its positive class is 1
    return QUICK[name](positive, scores)


def _from_counts(metric: Metric) -> Callable[[Mask, Array], Array]:
    def scores_of(positive: Mask, scores: Array) -> Array:
        flagged = scores > 0
        tp = np.count_nonzero(flagged[:, positive], axis=1)
        fp = np.count_nonzero(flagged, axis=1) - tp
        plus = np.count_nonzero(positive)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(metric(tp, plus - tp, fp, positive.size - plus - fp), dtype=np.float64)

    return scores_of


def _from_curve(metric: Callable[[Array, Array], float]) -> Callable[[Mask, Array], Array]:
    """A metric of true and false positives for a threshold at each distinct score, from the highest down."""

    def of_one(positive: Mask, scores: Array) -> float:
        order = np.argsort(scores, kind="stable")[::-1]
        ends = np.append(np.flatnonzero(np.diff(scores[order])), scores.size - 1)
        tp = np.cumsum(positive[order], dtype=np.float64)[ends]
        return metric(tp, 1.0 + ends - tp)

    return lambda positive, scores: np.array([of_one(positive, each) for each in scores])


def _roc_auc(tp: Array, fp: Array) -> float:
    """The area under the curve by trapezoids, its straight stretches taken as one: the scorer's own rounding."""
    if tp.size > 2:
        corner = np.concatenate([[True], (np.diff(fp, 2) != 0) | (np.diff(tp, 2) != 0), [True]])
        tp, fp = tp[corner], fp[corner]
    tpr, fpr = np.concatenate([[0.0], tp]) / tp[-1], np.concatenate([[0.0], fp]) / fp[-1]
    return float((np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2.0).sum())


def _average_precision(tp: Array, fp: Array) -> float:
    """Σ (R_k − R_{k−1}) P_k over the distinct scores, summed from the lowest up as the scorer does."""
    recall = np.concatenate([(tp / tp[-1])[::-1], [0.0]])
    return float(-np.sum(np.diff(recall) * (tp / (tp + fp))[::-1]))


QUICK: dict[str, Callable[[Mask, Array], Array]] = {
    "accuracy": _from_counts(lambda tp, fn, fp, tn: (tp + tn) / (tp + fn + fp + tn)),
    "balanced_accuracy": _from_counts(BalancedAccuracy()),
    "f1": _from_counts(FBeta(1.0)),
    "precision": _from_counts(precision),
    "recall": _from_counts(recall),
    "roc_auc": _from_curve(_roc_auc),
    "average_precision": _from_curve(_average_precision),
}
