"""How a model scores rows for the class to find, where it cuts, and where it would cut unadjusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV

from .._input.checks import check_is_fitted
from .._util.typing import Array, Mask, MatrixLike
from ..auto import EvenMarginClassifier
from ..display._common import own_threshold
from ..display._scores import before_and_after, plain_threshold
from ..zsvm import ZAdjustedClassifier

__all__ = ["Judge", "get_judge"]


@dataclass(frozen=True)
class Judge:
    """Any classifier of two classes with `decision_function` or `predict_proba`.

    Rows are flagged where their score is above `threshold`. `plain_cut` is where
    the scores would be cut without an adjustment, `plain_name` that place in words;
    both are None for a model that has none.
    """

    model: Any
    which: int  # the class to find is classes_[which]
    threshold: float
    plain_cut: float | None = None
    plain_name: str | None = None

    def score(self, X: MatrixLike) -> Array:
        """Higher for the class to find."""
        if hasattr(self.model, "decision_function"):
            scores = np.asarray(self.model.decision_function(X), dtype=np.float64).ravel()
            return scores if self.which == 1 else -scores
        return np.asarray(self.model.predict_proba(X)[:, self.which], dtype=np.float64)

    def chance(self, X: MatrixLike, scores: Array) -> Array | None:
        """Probabilities of the class to find, if the model tells."""
        if not hasattr(self.model, "predict_proba"):
            return None
        if not hasattr(self.model, "decision_function"):
            return scores.clip(0.0, 1.0)
        return np.asarray(self.model.predict_proba(X)[:, self.which], dtype=np.float64).clip(0.0, 1.0)

    def chance_at(self, thresholds: Array, scores: Array, chances: Array | None) -> Array | None:
        """The probability where scores are cut, if a higher score always is a higher probability."""
        if chances is None:
            return None
        order = np.lexsort((chances, scores))
        if (np.diff(chances[order]) < -1e-9).any():
            return None
        return np.interp(thresholds, scores[order], chances[order])

    def flagged_before(self, X: MatrixLike, scores: Array) -> Mask | None:
        """Which rows were flagged without the adjustment."""
        return None if self.plain_cut is None else scores > self.plain_cut


@dataclass(frozen=True)
class _EvenMarginJudge(Judge):
    """Scores in the terms of `threshold_`; turned around for the class that it does not look for."""

    @property
    def _turned(self) -> bool:
        return bool(self.model.classes_[self.which] != self.model.pos_label_)

    def score(self, X: MatrixLike) -> Array:
        above = self.model.assess(X)["score"].to_numpy()
        scores = above + self.model.threshold_  # above it exactly where they were
        return -scores if self._turned else scores

    def chance(self, X: MatrixLike, scores: Array) -> Array | None:
        told = self.model.calibrator_
        return 1.0 - told.probability(-scores) if self._turned else told.probability(scores)

    def chance_at(self, thresholds: Array, scores: Array, chances: Array | None) -> Array | None:
        return self.chance(None, thresholds)


@dataclass(frozen=True)
class _AdjustedJudge(Judge):
    """A machine with its z, whose scores before are not the same scores cut elsewhere."""

    def flagged_before(self, X: MatrixLike, scores: Array) -> Mask | None:
        before, _ = before_and_after(self.model, X)
        minority = before > 0
        return minority if self.model.classes_[self.which] == self.model.minority_ else ~minority


def get_judge(model: Any, which: int) -> Judge:
    """The judge for a fitted model of two classes."""
    check_is_fitted(model)
    turned = which == 0  # a score on the boundary is of classes_[0], so that for it the cut lies just below
    if isinstance(model, EvenMarginClassifier):
        half = float(model.calibrator_.score_at(0.5))
        if model.classes_[which] == model.pos_label_:
            return _EvenMarginJudge(model, which, float(model.threshold_), half, "a probability of 1/2")
        return _EvenMarginJudge(model, which, _just_below(-float(model.threshold_)), -half, "a probability of 1/2")
    if isinstance(model, ZAdjustedClassifier):
        at = _just_below(0.0) if turned else 0.0
        if hasattr(model, "z_"):
            return _AdjustedJudge(model, which, at, None, "z = 1")
        moved = plain_threshold(model) - float(model.threshold_)
        own = model.classes_[which] == model.minority_
        return Judge(model, which, at, moved if own else _just_below(-moved), "the machine's own threshold")
    method = "decision_function" if hasattr(model, "decision_function") else "predict_proba"
    if not hasattr(model, method):
        raise ValueError(
            f"{type(model).__name__} has neither decision_function nor predict_proba: there are no scores to report."
        )
    plain = 0.0 if method == "decision_function" else 0.5
    if isinstance(model, TunedThresholdClassifierCV | FixedThresholdClassifier):
        at = own_threshold(model, method, np.asarray(model.classes_).tolist()[which])
        return Judge(model, which, _just_below(at) if turned else at, plain, "the machine's own threshold")
    return Judge(model, which, _just_below(plain) if turned else plain)


def _just_below(number: float) -> float:
    return float(np.nextafter(number, -np.inf))
