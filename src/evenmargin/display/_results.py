"""The candidates of a finished search, from the search or from its results as a dict or frame."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from .._util.typing import Array

__all__ = ["Results", "SearchResults", "as_numbers", "score_title", "value_key"]

Results: TypeAlias = BaseEstimator | Mapping[str, Any]  # a fitted search, or its results as a dict or frame


@dataclass(frozen=True)
class SearchResults:
    """The candidates of a search with one of its scores."""

    candidates: list[dict[str, Any]]
    means: Array
    score: str
    columns: dict[str, Any]
    title: str
    chosen: int | None

    @classmethod
    def of(cls, search_or_results: Results, score: str | None) -> SearchResults:
        columns = _columns(search_or_results)
        known = [name.removeprefix("mean_test_") for name in columns if name.startswith("mean_test_")]
        if not known:
            raise ValueError("The results have no column mean_test_…: give a fitted search or its cv_results_.")
        chosen = getattr(search_or_results, "best_index_", None) if score is None else None
        if score is None:
            refit = getattr(search_or_results, "refit", None)
            score = refit if isinstance(refit, str) and refit in known else known[0]
            if len(known) > 1 and score != refit:
                raise ValueError(f"The search has several scores: name one of {', '.join(map(repr, known))} as score.")
        if score not in known:
            raise ValueError(f"score={score!r} is not in the results, which have {', '.join(map(repr, known))}.")
        scoring = getattr(search_or_results, "scoring", None)
        title = scoring if score == "score" and isinstance(scoring, str) else score
        means = np.asarray(columns[f"mean_test_{score}"], dtype=np.float64)
        return cls(_candidates(columns), means, score, columns, title, chosen)

    def splits(self, kind: str) -> Any:
        """Scores of each candidate in each fold; only their means if the results have no folds."""
        found: list[Array] = []
        while (name := f"split{len(found)}_{kind}_{self.score}") in self.columns:
            found.append(np.asarray(self.columns[name], dtype=np.float64))
        if found:
            return np.column_stack(found)
        mean = self.columns.get(f"mean_{kind}_{self.score}")
        return None if mean is None else np.asarray(mean, dtype=np.float64)[:, None]

    def along(self, param: str, fixed: dict[str, Any]) -> list[int]:
        """The candidates that differ from the best one only in `param`, one for each value of it."""
        for name in (param, *fixed):
            self.values(name)
        if param in fixed:
            raise ValueError(f"{param!r} is the parameter to draw: leave it out of fixed.")
        keyed = [{name: value_key(value) for name, value in candidate.items()} for candidate in self.candidates]
        wanted = {name: value_key(value) for name, value in fixed.items()}
        own = [candidate.pop(param, None) for candidate in keyed]
        matching = [k for k, rest in enumerate(keyed) if param in self.candidates[k] and wanted.items() <= rest.items()]
        if not matching:
            raise ValueError(f"No candidate of the search has {param!r} with the fixed values {fixed!r}.")
        best = self.chosen
        if best not in matching:
            best = max(matching, key=lambda k: -math.inf if np.isnan(self.means[k]) else self.means[k])
        found = {own[k]: k for k in reversed(matching) if keyed[k] == keyed[best]}
        if len(found) < 2:
            raise ValueError(
                f"Only one candidate has the best values of the other parameters, so there is nothing to draw over "
                f"{param!r}: a grid search tries several."
            )
        return sorted(found.values())

    def values(self, name: str) -> dict[Hashable, Any]:
        """The tried values of a parameter by their keys, ascending if they are numbers."""
        seen: dict[Hashable, Any] = {}
        for candidate in self.candidates:
            if name in candidate:
                seen.setdefault(value_key(candidate[name]), candidate[name])
        if not seen:
            known = dict.fromkeys(name for candidate in self.candidates for name in candidate)
            raise ValueError(f"{name!r} is not a parameter of the search, which has {', '.join(map(repr, known))}.")
        if as_numbers(seen.values()) is None:
            return seen
        return dict(sorted(seen.items(), key=lambda item: float(item[1])))


def value_key(value: object) -> Hashable:
    """A key that is equal for equal values: for 1 and 1.0, but not for True; others, such as arrays, by their repr."""
    if isinstance(value, bool | np.bool_):
        return bool, bool(value)
    return value if isinstance(value, Hashable) else repr(value)


def _columns(search_or_results: Results) -> dict[str, Any]:
    results = getattr(search_or_results, "cv_results_", search_or_results)
    if isinstance(results, Mapping):
        return dict(results)
    if hasattr(results, "columns") and hasattr(results, "__getitem__"):  # a frame, of pandas or polars
        return {str(name): results[name].to_numpy() for name in results.columns}
    raise ValueError(
        f"{type(search_or_results).__name__} holds no results of a search: give a fitted search, or its cv_results_ "
        "as a dict or DataFrame."
    )


def _candidates(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameters of each candidate, without those it does not have."""
    params = columns.get("params")
    if params is not None and all(isinstance(candidate, Mapping) for candidate in params):
        return [dict(candidate) for candidate in params]
    named = {name.removeprefix("param_"): column for name, column in columns.items() if name.startswith("param_")}
    if not named:
        raise ValueError("The results name no parameters: they need params, or a column param_… for each.")
    n = len(next(iter(named.values())))
    return [{name: column[k] for name, column in named.items() if not _missing(column[k])} for k in range(n)]


def _missing(value: object) -> bool:
    return value is np.ma.masked or (isinstance(value, float) and math.isnan(value))


def as_numbers(values: Iterable[Any]) -> Array | None:
    """The values as an array, if all are finite numbers."""
    if all(isinstance(value, Real | np.number) and not isinstance(value, bool | np.bool_) for value in values):
        numbers = np.asarray(list(values), dtype=np.float64)
        return numbers if np.isfinite(numbers).all() else None
    return None


def score_title(score: str, negated: bool = False) -> str:
    """The name of a score for an axis."""
    if negated:
        score = score.removeprefix("neg_")
    words = score.replace("neg_", "negative ").replace("_", " ")
    return (words[:1].upper() + words[1:]).replace("Roc auc", "ROC-AUC").replace("Gmean", "G-mean")
