"""The score, the threshold and the positive label of any fitted classifier of two classes.

The displays, the report and the command ask for these. No estimator is imported: one that has rules of its own is
known by its public attributes, `calibrator_` of EvenMarginClassifier and `minority_` of ZAdjustedClassifier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV

from .._device.arrays import to_host
from .._input.checks import check_is_fitted
from .._util.typing import Array, Mask, MatrixLike

METHODS = ("predict_proba", "decision_function")


# --- labels ---


def binary_classes(estimator: BaseEstimator, user: str) -> list[Any]:
    """The two labels of a fitted classifier, or an error that says why `user` cannot take it."""
    name = type(estimator).__name__
    if not is_classifier(estimator):
        raise ValueError(f"{name} is not a classifier: {user} needs a fitted classifier with two classes.")
    check_is_fitted(estimator)
    classes = np.asarray(estimator.classes_).tolist()
    if len(classes) != 2:
        raise ValueError(f"{name} was fitted on {len(classes)} classes: {user} needs a classifier with two.")
    return classes


def positive_label(estimator: BaseEstimator) -> Any:
    """The class that scores speak for: the one that the estimator names, otherwise `classes_[1]`."""
    own = getattr(estimator, "pos_label_", None)
    return estimator.classes_[1] if own is None else own


def label_index(classes: list[Any], label: object) -> int:
    """The place of a label among the classes."""
    if label not in classes:
        raise ValueError(f"pos_label={label!r} is not a class of the model, which was fitted on {classes}.")
    return classes.index(label)


# --- scores ---


def respond(
    estimator: BaseEstimator, X: MatrixLike, response_method: str, pos_label: object, user: str
) -> tuple[Array, Any, str]:
    """Scores by a fitted classifier of two classes, their positive label, and the method that gave them."""
    if response_method not in ("auto", *METHODS):
        raise ValueError(
            f"response_method={response_method!r} is unknown; choose 'auto', 'predict_proba' or 'decision_function'."
        )
    classes = binary_classes(estimator, user)
    which = label_index(classes, positive_label(estimator) if pos_label is None else pos_label)
    wanted = METHODS if response_method == "auto" else (response_method,)
    method = next((method for method in wanted if hasattr(estimator, method)), None)
    if method is None:
        raise ValueError(f"{type(estimator).__name__} has no {' or '.join(wanted)}, which {user} needs.")
    return scores_for(estimator, X, method, which), classes[which], method


def score_method(estimator: BaseEstimator) -> str:
    """Where scores come from: `decision_function` if there is one."""
    return "decision_function" if hasattr(estimator, "decision_function") else "predict_proba"


def scores_for(estimator: BaseEstimator, X: MatrixLike, method: str, which: int) -> Array:
    """Scores that are higher for `classes_[which]`, by one of the two methods."""
    return for_class(to_host(getattr(estimator, method)(X), np.float64), which)


def for_class(values: Any, which: int) -> Any:
    """What one of the methods returned, for `classes_[which]`: a column of probabilities, or a score with its sign."""
    if values.ndim == 2 and values.shape[1] == 2:
        return values[:, which]
    values = values.ravel()
    return values if which == 1 else -values


# --- thresholds ---


def neutral_threshold(method: str) -> float:
    """Where a classifier cuts the scores of a method if nobody moves its threshold."""
    return 0.5 if method == "predict_proba" else 0.0


def own_threshold(estimator: BaseEstimator, method: str, pos_label: object) -> float:
    """Where the estimator itself cuts the scores that `method` gives for `pos_label`."""
    neutral = neutral_threshold(method)
    own = getattr(estimator, "probability_threshold_", None)  # of EvenMarginClassifier
    if own is not None and method == "predict_proba":
        return float(own if pos_label == estimator.pos_label_ else 1.0 - own)
    tuned = isinstance(estimator, TunedThresholdClassifierCV)
    if not tuned and not isinstance(estimator, FixedThresholdClassifier):
        return neutral
    cut = estimator.best_threshold_ if tuned else estimator.threshold
    if cut == "auto" or estimator.response_method not in ("auto", method):
        return neutral
    own_label = getattr(estimator, "pos_label", None)
    turned = pos_label != (estimator.classes_[1] if own_label is None else own_label)
    return float((2.0 * neutral - cut) if turned else cut)


def unadjusted_threshold(model: BaseEstimator, pos_label: object) -> float | None:
    """Where the machine in a ZAdjustedClassifier cuts its adjusted scores; None if it has not chosen a threshold."""
    if not hasattr(model, "minority_") or not hasattr(model, "threshold_"):
        return None
    moved = neutral_threshold(score_method(model.estimator_)) - float(model.threshold_)
    return moved if pos_label == model.minority_ else -moved


def before_and_after(model: BaseEstimator, X: MatrixLike) -> tuple[Array, Array]:
    """Scores of the minority with the boundary at 0, by the machine in a ZAdjustedClassifier and as adjusted."""
    which, method = int(model.minority_ == model.classes_[1]), score_method(model.estimator_)
    before = scores_for(model.estimator_, X, method, which) - neutral_threshold(method)
    return before, scores_for(model, X, "decision_function", which)


# --- both together ---


@dataclass(frozen=True)
class DecisionRule:
    """How a fitted classifier predicts: rows are flagged whose score is above `threshold`.

    `plain_threshold` is where the scores would be cut without an adjustment, `plain_name` that place in words.
    """

    model: Any
    which: int  # the class to find is classes_[which]
    threshold: float
    plain_threshold: float | None = None
    plain_name: str | None = None

    def score(self, X: MatrixLike) -> Array:
        """Higher for the class to find."""
        return scores_for(self.model, X, score_method(self.model), self.which)

    def probability(self, X: MatrixLike, scores: Array) -> Array | None:
        """Probabilities of the class to find, if the model has them."""
        if not hasattr(self.model, "predict_proba"):
            return None
        if score_method(self.model) == "predict_proba":
            return scores.clip(0.0, 1.0)
        return scores_for(self.model, X, "predict_proba", self.which).clip(0.0, 1.0)

    def probability_at(self, thresholds: Array, scores: Array, probabilities: Array | None) -> Array | None:
        """The probability at a threshold, if a higher score always is a higher probability."""
        if probabilities is None:
            return None
        order = np.lexsort((probabilities, scores))
        if (np.diff(probabilities[order]) < -1e-9).any():
            return None
        return np.interp(thresholds, scores[order], probabilities[order])

    def flagged_before(self, X: MatrixLike, scores: Array) -> Mask | None:
        """Which rows were flagged without the adjustment."""
        return None if self.plain_threshold is None else scores > self.plain_threshold


class _CalibratedRule(DecisionRule):
    """EvenMarginClassifier: scores on the scale of `threshold_`, negated for the class that is not `pos_label_`."""

    @property
    def _turned(self) -> bool:
        return bool(self.model.classes_[self.which] != self.model.pos_label_)

    def score(self, X: MatrixLike) -> Array:
        scores = self.model.assess(X)["score"].to_numpy() + self.model.threshold_
        return -scores if self._turned else scores

    def probability(self, X: MatrixLike, scores: Array) -> Array | None:
        calibrator = self.model.calibrator_
        return 1.0 - calibrator.probability(-scores) if self._turned else calibrator.probability(scores)

    def probability_at(self, thresholds: Array, scores: Array, probabilities: Array | None) -> Array | None:
        return self.probability(None, thresholds)


class _AdjustedRule(DecisionRule):
    """ZAdjustedClassifier with its z: the scores without z are not the same ones with another threshold."""

    def flagged_before(self, X: MatrixLike, scores: Array) -> Mask | None:
        minority = before_and_after(self.model, X)[0] > 0
        return minority if self.model.classes_[self.which] == self.model.minority_ else ~minority


def decision_rule(model: BaseEstimator, which: int) -> DecisionRule:
    """The rule of a fitted model of two classes, for `classes_[which]`."""
    check_is_fitted(model)
    label = np.asarray(model.classes_).tolist()[which]

    def at(threshold: float) -> float:
        # A score on the boundary is of classes_[0], so that for it the threshold lies just below.
        return float(np.nextafter(threshold, -np.inf)) if which == 0 else threshold

    if getattr(model, "calibrator_", None) is not None:
        threshold, half = float(model.threshold_), float(model.calibrator_.score_at(0.5))
        if label != model.pos_label_:
            threshold, half = float(np.nextafter(-threshold, -np.inf)), -half
        return _CalibratedRule(model, which, threshold, half, "a probability of 1/2")
    if hasattr(model, "z_"):
        return _AdjustedRule(model, which, at(0.0), None, "z = 1")
    moved = unadjusted_threshold(model, label)
    if moved is not None:
        before = moved if label == model.minority_ else float(np.nextafter(moved, -np.inf))
        return DecisionRule(model, which, at(0.0), before, "the machine's own threshold")
    method = score_method(model)
    if not hasattr(model, method):
        raise ValueError(
            f"{type(model).__name__} has neither decision_function nor predict_proba: there are no scores to report."
        )
    tuned = isinstance(model, TunedThresholdClassifierCV | FixedThresholdClassifier)
    plain = (neutral_threshold(method), "the machine's own threshold") if tuned else (None, None)
    return DecisionRule(model, which, at(own_threshold(model, method, label)), *plain)
