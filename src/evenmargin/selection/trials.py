"""The trials of a search: every candidate on every fold, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from traceback import format_exc
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from .._device import arrays
from .._input.checks import check_method_params, safe_split
from .._util.typing import Index
from .scoring import Scorers


@dataclass
class TrialResult:
    """Seconds and metrics of one candidate on one fold; `error` is the traceback of a fit that failed."""

    fit_time: float = 0.0
    score_time: float = 0.0
    test_scores: dict[str, float] = field(default_factory=dict)
    train_scores: dict[str, float] = field(default_factory=dict)
    error: str = ""


class OnHost:
    """A fitted estimator whose answers are NumPy arrays: scorers compare them with labels, which are on the host."""

    def __init__(self, estimator: BaseEstimator) -> None:
        self._estimator = estimator

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._estimator, name)
        if name not in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
            return found

        @wraps(found)  # scorers recognise methods by their names
        def answer(*given: Any, **named: Any) -> Any:
            return arrays.to_host(found(*given, **named))

        return answer

    def __sklearn_tags__(self) -> Any:
        return self._estimator.__sklearn_tags__()


@dataclass
class Trials:
    """Candidates and folds, with all that their fits and scores need, and the results by (candidate, fold)."""

    estimator: BaseEstimator
    candidates: list[dict[str, Any]]
    X: Any  # as the user gave it, like y
    y: Any
    folds: list[tuple[Any, Any]]  # training rows, held-out rows
    fit_params: dict[str, Any]  # of all rows
    score_params: Mapping[str, dict[str, Any]]  # for each scorer by its name
    scorers: Scorers
    with_train: bool = False  # whether the training rows are scored too

    def __post_init__(self) -> None:
        places = [(candidate, fold) for candidate in range(len(self.candidates)) for fold in range(len(self.folds))]
        self.results = {place: TrialResult() for place in places}
        self._parts: dict[Hashable, Any] = {}

    def fitted(self, candidate: int, fold: int) -> Any:
        """The candidate's estimator, fitted to the training rows of the fold."""
        estimator = self.made(self.candidates[candidate])
        train, _ = self.folds[fold]
        X, y = safe_split(estimator, self.X, self.y, train)
        params = check_method_params(self.X, self.fit_params, indices=train)
        return estimator.fit(X, **params) if y is None else estimator.fit(X, y, **params)

    def made(self, params: dict[str, Any]) -> Any:
        """A new estimator with these parameters; they are cloned, as they may be estimators."""
        return clone(self.estimator).set_params(**clone(params, safe=False))

    def run(self, candidate: int, fold: int) -> None:
        """Fit and score one candidate on one fold, as any search does."""
        result, started = self.results[candidate, fold], time.perf_counter()
        try:
            estimator = self.fitted(candidate, fold)
        except Exception:
            if isinstance(self.scorers.error_score, str):
                raise
            result.error = format_exc()
            return
        finally:
            result.fit_time = time.perf_counter() - started
        started = time.perf_counter()
        train, test = self.folds[fold]
        X, y = safe_split(estimator, self.X, self.y, test, train)
        if arrays.is_tensor(X) and not self.scorers.own:
            estimator = OnHost(estimator)
        result.test_scores = self.scorers(estimator, X, y, self.params_of(test))
        result.score_time = time.perf_counter() - started
        if self.with_train:
            X, y = safe_split(estimator, self.X, self.y, train)
            result.train_scores = self.scorers(estimator, X, y, self.params_of(train))

    def complete(self, error_score: float) -> None:
        """Give every result a number for every metric: error_score where the fit failed."""
        for part in ("test_scores", "train_scores"):
            names = dict.fromkeys(name for result in self.results.values() for name in getattr(result, part))
            for result in self.results.values():
                missing = error_score if result.error else np.nan
                setattr(result, part, {name: getattr(result, part).get(name, missing) for name in names})

    def params_of(self, rows: Any) -> dict[str, dict[str, Any]]:
        """The scorers' parameters for these rows."""
        return {name: check_method_params(self.X, params, indices=rows) for name, params in self.score_params.items()}

    def part(self, fold: int, held_out: bool) -> tuple[Any, Any]:
        """The rows of a fold as the user's own kind of X and y, for estimators that are not pairwise."""
        if (fold, held_out) not in self._parts:
            rows = self.folds[fold][held_out]
            self._parts[fold, held_out] = safe_split(self.estimator, self.X, self.y, rows)
        return self._parts[fold, held_out]

    @cached_property
    def index(self) -> list[tuple[Index, Index]]:
        """The folds as arrays of row numbers."""

        def numbers(rows: Any) -> Index:
            rows = np.asarray(rows)
            return np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.intp)

        return [(numbers(train), numbers(test)) for train, test in self.folds]
