"""The trials of a search: every candidate on every fold, and the sheet on which the results are noted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from traceback import format_exc
from typing import Any

import numpy as np
from sklearn.base import clone

from .._device import arrays
from .._input.checks import check_method_params, safe_split
from .._util.typing import Array, Index, MatrixLike
from .scoring import Scorers

__all__ = ["Sheet", "Trials", "for_scorers"]


class Sheet:
    """A number for each metric, candidate and fold.

    test, train : dict of name -> ndarray of shape (n_candidates, n_folds)
    fit_time, score_time : ndarrays of that shape, seconds
    errors : dict of (candidate, fold) -> traceback of a fit that failed
    """

    def __init__(self, n_candidates: int, n_folds: int) -> None:
        self.shape = (n_candidates, n_folds)
        self.test: dict[str, Array] = {}
        self.train: dict[str, Array] = {}
        self.fit_time, self.score_time = np.zeros(self.shape), np.zeros(self.shape)
        self.errors: dict[tuple[int, int], str] = {}

    def note(self, part: dict[str, Array], name: str, candidates: Any, fold: int, value: Any) -> None:
        part.setdefault(name, np.full(self.shape, np.nan))[candidates, fold] = value

    def note_errors(self, error_score: float) -> None:
        """error_score in place of every metric of a fit that failed."""
        for part in (self.test, self.train):
            for numbers in part.values():
                for place in self.errors:
                    numbers[place] = error_score


class OnHost:
    """A fitted estimator that answers in NumPy, for scorers: they compare with labels, and these are on the host."""

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._estimator, name)
        if name not in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
            return found

        @wraps(found)  # scorers tell methods by their names
        def answer(*given: Any, **named: Any) -> Any:
            return arrays.to_host(found(*given, **named))

        return answer

    def __sklearn_tags__(self) -> Any:
        return self._estimator.__sklearn_tags__()


def for_scorers(estimator: Any, X: MatrixLike) -> Any:
    """The estimator as scorers can use it on X, whose answers to tensors may be tensors."""
    return OnHost(estimator) if arrays.is_tensor(X) else estimator


@dataclass(frozen=True)
class Trials:
    """What is tried.

    Parameters
    ----------
    estimator : estimator, not fitted
    candidates : list of parameter settings
    X, y : as the user gave them
    folds : list of (training rows, held-out rows)
    fit_params : for the estimator's `fit`, of all rows
    score_params : for each scorer by its name
    scorers : Scorers
    with_train : bool
        Score the training rows too.
    """

    estimator: Any
    candidates: list[dict[str, Any]]
    X: Any
    y: Any
    folds: list[tuple[Any, Any]]
    fit_params: dict[str, Any]
    score_params: Mapping[str, dict[str, Any]]
    scorers: Scorers
    with_train: bool = False
    _split: dict[int, Any] = field(default_factory=dict)

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

    def plain(self, sheet: Sheet, candidate: int, fold: int) -> None:
        """Fit and score one candidate on one fold."""
        started = time.perf_counter()
        try:
            estimator = self.fitted(candidate, fold)
        except Exception:
            if isinstance(self.scorers.error_score, str):
                raise
            sheet.errors[candidate, fold] = format_exc()
            return
        finally:
            sheet.fit_time[candidate, fold] = time.perf_counter() - started
        started = time.perf_counter()
        train, test = self.folds[fold]
        X, y = safe_split(estimator, self.X, self.y, test, train)
        if not self.scorers.own:
            estimator = for_scorers(estimator, X)
        for name, value in self.scorers(estimator, X, y, self.params_of(test)).items():
            sheet.note(sheet.test, name, candidate, fold, value)
        sheet.score_time[candidate, fold] = time.perf_counter() - started
        if self.with_train:
            X, y = safe_split(estimator, self.X, self.y, train)
            for name, value in self.scorers(estimator, X, y, self.params_of(train)).items():
                sheet.note(sheet.train, name, candidate, fold, value)

    def params_of(self, rows: Any) -> dict[str, dict[str, Any]]:
        """The scorers' parameters for these rows."""
        return {name: check_method_params(self.X, params, indices=rows) for name, params in self.score_params.items()}

    def part(self, fold: int, held_out: bool) -> tuple[Any, Any]:
        """The rows of a fold as the user's own kind of X and y, for estimators that are not pairwise."""
        key = 2 * fold + held_out
        if key not in self._split:
            self._split[key] = safe_split(self.estimator, self.X, self.y, self.folds[fold][held_out])
        return self._split[key]

    @cached_property
    def index(self) -> list[tuple[Index, Index]]:
        """The folds as arrays of row numbers."""

        def numbers(rows: Any) -> Index:
            rows = np.asarray(rows)
            return np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.intp)

        return [(numbers(train), numbers(test)) for train, test in self.folds]
