"""When to stop: halting on ROC-AUC, and how long to wait between checks.

`AUCHalting` checks ROC-AUC at regular intervals. `waiting_time` estimates how many steps an improvement takes, from the
waits observed in a run (Sun, "PEGASOS SVM for Imbalanced Classification").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._util.typing import Array, Floats
from .metrics import roc_auc

if TYPE_CHECKING:
    from .problem import Problem

__all__ = ["AUCHalting", "WaitingTime", "improvement_waits", "roc_auc", "waiting_time"]


@dataclass(frozen=True, eq=False)
class AUCHalting:
    """Halt when ROC-AUC has not improved at a check every `every` steps.

    Parameters
    ----------
    every : int, default=100
        Steps between checks: the X of the paper; see `waiting_time`.
    patience : int, default=1
        Consecutive checks without improvement before halting. 1 is the paper's
        rule, which halts after few steps and costs accuracy.
    keep_best : bool, default=False
        Return the state with the best ROC-AUC seen, not the last one.
    validation : (X, y) or None, default=None
        Rows set aside by the caller, with labels of the classes that the estimator is trained on. None: the training
        rows, as in the paper, counted by their weight.
    halt : bool, default=True
        False only records ROC-AUC in `history_`, for `improvement_waits`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from evenmargin import LinearSVM
    >>> from evenmargin.stopping import AUCHalting
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> rule = AUCHalting(every=50, patience=5, keep_best=True)
    >>> svm = LinearSVM(solver="pegasos", stopping=rule, random_state=0).fit(X, y)
    >>> svm.status_.value
    'halted: ROC-AUC stopped improving'
    """

    every: int = 100
    patience: int = 1
    keep_best: bool = False
    validation: Any = None
    halt: bool = True

    def __post_init__(self) -> None:
        for name in ("every", "patience"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"AUCHalting: {name}={value!r} must be a whole number of at least 1.")

    def start(self, problem: Problem) -> AUCRun:
        return AUCRun(self, problem)


class AUCRun:
    """The state of an `AUCHalting` in one fit."""

    def __init__(self, rule: AUCHalting, problem: Problem) -> None:
        self.rule, self.every = rule, rule.every
        self.problem = problem
        self.X, self.y = problem.X, problem.y
        self.weight: Array | None = problem.price
        if rule.validation is not None:
            (self.X, self.y), self.weight = rule.validation, None
        self.last = self.top = self.auc = 0.5  # the paper's start
        self.failures = 0
        self.best: tuple[Floats, float] | None = None

    def until_check(self, done: int) -> int:
        return self.every - done % self.every

    def check(self, done: int, coef: Floats, intercept: float) -> bool:
        """Compute ROC-AUC; True to halt."""
        self.auc = roc_auc(self.y, self.problem.scores_of(self.X, coef), self.weight)
        # A single failure is judged against the last check, as the paper prints
        # it; a patient rule against the best so far.
        improved = self.auc > (self.last if self.rule.patience == 1 else self.top)
        if self.auc > self.top:
            self.top = self.auc
            if self.rule.keep_best:
                self.best = coef.copy(), intercept
        self.last = self.auc
        self.failures = 0 if improved else self.failures + 1
        return self.rule.halt and self.failures >= self.rule.patience


class WaitingTime(NamedTuple):
    """Steps to the next improvement: their mean, an interval, and the probability of an improvement per step."""

    mean: float
    low: float
    high: float
    chance: float

    def integers(self) -> NDArray[np.int64]:
        """The whole numbers in the interval: the values of X to search over."""
        return np.arange(max(1, math.ceil(self.low)), max(1, math.floor(self.high)) + 1)


def improvement_waits(auc: ArrayLike, baseline: float = 0.5) -> NDArray[np.int64]:
    """The numbers of steps between improvements on the best ROC-AUC so far, from ROC-AUC after each step.

    Examples
    --------
    >>> from evenmargin.stopping import improvement_waits
    >>> improvement_waits([0.5, 0.6, 0.6, 0.55, 0.7])
    array([2, 3])
    """
    auc = np.asarray(auc, dtype=np.float64)
    before = np.maximum.accumulate(np.concatenate([[baseline], auc[:-1]]))
    return np.diff(np.flatnonzero(auc > before) + 1, prepend=0)


def waiting_time(waits: ArrayLike, confidence: float = 0.95) -> WaitingTime:
    """Mean wait for an improvement, with a confidence interval.

    Waits k_1..k_m (steps, each at least 1) are assumed to be geometric. p̂ = m/Σk is corrected for its bias to p̂ −
    p̂(1−p̂)/m, and the mean wait 1/p̂ gets the interval 1/p̂ ± z·sqrt((1−p̂)/p̂²/(m−1)). The paper prints p̂ −
    p̂/(1−p̂), which is negative, and an interval that covers the mean 30 % of the time.

    Parameters
    ----------
    waits : array-like of int
    confidence : float, default=0.95

    Examples
    --------
    >>> from evenmargin.stopping import waiting_time
    >>> estimate = waiting_time([3, 5, 2, 6, 4, 4])
    >>> estimate.mean
    4.0
    >>> estimate.integers()
    array([1, 2, 3, 4, 5, 6, 7])
    """
    waits = np.asarray(waits, dtype=np.float64)
    if waits.ndim != 1 or waits.size < 2 or not np.all(waits >= 1):
        raise ValueError("waiting_time needs at least two waits, each of one step or more.")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence={confidence!r} must lie between 0 and 1.")
    from scipy.stats import norm

    m = waits.size
    chance = m / float(waits.sum())
    half = float(norm.ppf(0.5 + 0.5 * confidence)) * math.sqrt((1.0 - chance) / chance**2 / (m - 1))
    mean = 1.0 / chance
    return WaitingTime(mean, mean - half, mean + half, chance - chance * (1.0 - chance) / m)
