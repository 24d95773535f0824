"""Searches that share work.

`GridSearchCV` fits every candidate from nothing. But machines with the same kernel have the same kernel matrix,
whatever their C, costs and fold, and one of them is a good start for the next.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from numbers import Integral, Real
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, ParameterGrid, check_cv
from sklearn.utils import assert_all_finite
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import indexable

from .._device.arrays import is_tensor, to_host
from .._input.checks import Interval, check_method_params, fit_context, store_parameters
from .._input.collections import refuse_dask
from .._input.entry import on_device
from .._tables.frames import FramesTravel
from .._util.progress import progress_bars
from .._util.threads import Workers, count_threads
from .._util.typing import MatrixLike, VectorLike
from .jobs import share
from .scoring import Scorers, is_own_function, takes_weight
from .trials import OnHost, Trials


class SharedGridSearch(FramesTravel, GridSearchCV):  # type: ignore[misc]  # scikit-learn has no types
    """`GridSearchCV`, with the work that candidates have in common done once.

    It gives the same numbers for the same folds. `KernelSVM` with the hinge or the
    squared hinge and its exact solver shares work: alone, as the last step of a
    `Pipeline`, and inside a `ZAdjustedClassifier` with cv=None. Transformers are fitted
    once for each fold and setting. There is one matrix for each kernel, folds are parts
    of it, machines of growing C start from one another, and z or thresholds are chosen
    from the scores of one machine. On a device, or with X a CUDA tensor, all of this is
    computed there. Other estimators, losses and solvers are fitted one by one, in threads.

    Parameters
    ----------
    estimator : estimator
    param_grid : dict or list of dicts
        Parameters and the values to try, named as for `set_params`: "C",
        "estimator__C" in a `ZAdjustedClassifier`, "kernelsvm__C" in a pipeline.
    scoring, refit, cv, error_score, return_train_score
        As in GridSearchCV.
    n_jobs : int or None, default=None
        Threads; None or −1 takes all cores, or OMP_NUM_THREADS. The answer does
        not depend on it.
    verbose : int, default=0
        1 shows a progress bar.
    cache_size : float, default=1000.0
        Megabytes that kernel matrices may take: n² numbers of 4 bytes, of 8 where
        folds have up to 2 048 training rows, once or twice; on a device one matrix may
        take six tenths of its free memory. Candidates that need more are fitted one by one.

    Attributes
    ----------
    cv_results_ : pandas.DataFrame
        The columns of GridSearchCV. The time of shared work is split evenly.
    shares_work_ : bool
        Whether all fits of the search came from shared work.
    n_shared_ : int
        How many fits came from shared work.
    best_index_, best_params_, best_score_, best_estimator_, scorer_, n_splits_, refit_time_, multimetric_, \
classes_, n_features_in_, feature_names_in_
        As in GridSearchCV.

    Notes
    -----
    Machines of up to 2 048 rows are solved to the last digits here as in
    `KernelSVM`. Larger ones are solved to `tol`, here in float32: rows whose score
    is within tol of 0 may fall on either side. The same holds on a device.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from evenmargin import KernelSVM
    >>> from evenmargin.selection import SharedGridSearch
    >>> X, y = make_moons((180, 20), noise=0.2, random_state=0)
    >>> grid = {"C": [0.1, 1, 10], "gamma": [0.1, 1, 10], "class_weight": [None, "balanced"]}
    >>> search = SharedGridSearch(KernelSVM(), grid, scoring="balanced_accuracy").fit(X, y)
    >>> search.shares_work_, len(search.cv_results_)
    (True, 18)
    >>> search.best_score_ > 0.9
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **GridSearchCV._parameter_constraints,
        "cache_size": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        estimator: BaseEstimator,
        param_grid: dict[str, Any] | list[dict[str, Any]],
        *,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool | str | Callable[..., int] = True,
        cv: Any = None,
        verbose: int = 0,
        error_score: float | str = np.nan,
        return_train_score: bool = False,
        cache_size: float = 1000.0,
    ) -> None:
        store_parameters(self, locals())

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: MatrixLike, y: VectorLike = None, **params: Any) -> SharedGridSearch:
        """Try all candidates on all folds, and fit the best to all rows.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or tensor of shape (n_samples, n_features)
            As the estimator takes it.
        y : array-like of shape (n_samples,), default=None
        **params : dict
            `groups` goes to the splitter, all else to the estimator's `fit`:
            `sample_weight`, or `kernelsvm__sample_weight` in a pipeline. As in
            GridSearchCV of scikit-learn 1.9 and later, `sample_weight` goes to
            scorers that take it, too. With metadata routing enabled, all go where they
            are requested.

        Returns
        -------
        self
        """
        refuse_dask(X)
        trials = self._trials(X, y, params)
        scorers = trials.scorers
        self.n_splits_ = len(trials.folds)
        self._try_all(trials)
        self._warn_of_failures(trials)
        trials.complete(self.error_score)
        metrics = list(trials.results[0, 0].test_scores)
        self.multimetric_ = scorers.multiple or metrics != ["score"]
        if scorers.open and self.multimetric_:
            self._check_refit_for_multimetric(metrics)
        self.cv_results_ = self._table(trials)
        self.scorer_ = scorers.scorers if scorers.multiple else scorers.scorers["score"]
        self._choose(trials)
        return self

    def score(self, X: MatrixLike, y: VectorLike = None, **params: Any) -> float:
        """The metric of the best estimator on other rows: that of `scoring`, or of `refit` among several.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        **params : dict
            For the scorer, with metadata routing enabled.

        Returns
        -------
        float
        """
        if getattr(self, "multimetric_", False) and self.refit and not isinstance(self.refit, str):
            raise ValueError("With several metrics, score needs refit to name one of them; or use scorer_.")
        asked = self
        if is_tensor(X) and hasattr(self, "best_estimator_") and not is_own_function(self.scoring):
            asked = copy(self)
            asked.best_estimator_ = OnHost(self.best_estimator_)
        return super(SharedGridSearch, asked).score(X, to_host(y), **params)

    def _trials(self, X: MatrixLike, y: VectorLike, params: dict[str, Any]) -> Trials:
        """Every candidate, and every fold of the rows."""
        scorers = Scorers(self.estimator, self.scoring, self.error_score)
        if scorers.multiple:
            self._check_refit_for_multimetric(scorers.scorers)
        candidates = list(ParameterGrid(self.param_grid))
        if not candidates:
            raise ValueError("param_grid has no candidates: give a dict of parameters and values, or a list of them.")
        X, y = indexable(X, to_host(y))
        if y is not None:
            assert_all_finite(y, input_name="y")  # before a splitter looks at it
        params = check_method_params(X, {name: to_host(value) for name, value in params.items()})
        fit_params, split_params, score_params = self._route(params, scorers)
        folds = list(check_cv(self.cv, y, classifier=is_classifier(self.estimator)).split(X, y, **split_params))
        if not folds:
            raise ValueError("cv gives no folds: choose a splitter that does.")
        return Trials(
            clone(self.estimator), candidates, X, y, folds, fit_params, score_params, scorers, self.return_train_score
        )

    def _try_all(self, trials: Trials) -> None:
        """Do what can be shared first, then the rest one by one."""
        with Workers(count_threads(self.n_jobs)) as workers, self._counting(len(trials.results)) as done:
            shared = share(trials, float(self.cache_size), workers, done)
            rest = [place for place in trials.results if place not in shared]
            config = get_config()

            def task(turn: int) -> None:
                with config_context(**config):  # a thread has its own
                    trials.run(*rest[turn])
                done(1)

            alone = on_device(trials.estimator, trials.X, trials.candidates)
            (Workers(1) if alone else workers).each(task, range(len(rest)))
        self.n_shared_, self.shares_work_ = len(shared), not rest

    def _table(self, trials: Trials) -> pd.DataFrame:
        """The results as GridSearchCV has them; its warnings are given at the user's line."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = [vars(result) for result in trials.results.values()]
            table = self._format_results(trials.candidates, self.n_splits_, results)
        for each in caught:
            warnings.warn(each.message, stacklevel=4)
        return pd.DataFrame(table)

    @contextmanager
    def _counting(self, total: int) -> Iterator[Callable[[int], None]]:
        """A progress bar over fits, if it is asked for."""
        with progress_bars(bool(self.verbose)) as open_bar:
            report, lock, count = open_bar("fits"), Lock(), 0

            def done(more: int) -> None:
                nonlocal count
                with lock:
                    count += more
                    if report is not None:
                        report(count, total, "")

            yield done

    def _choose(self, trials: Trials) -> None:
        """Choose the best candidate, and fit it to all rows."""
        best = ("best_index_", "best_params_", "best_score_", "best_estimator_", "refit_time_")
        for stale in (*best, "feature_names_in_"):
            self.__dict__.pop(stale, None)
        if self.multimetric_ and not self.refit:
            return
        results = self.cv_results_
        if callable(self.refit):
            index: Any = self.refit(results)
            if not isinstance(index, Integral) or not 0 <= int(index) < len(results):
                raise ValueError(
                    f"refit returned {index!r}: it must return the index of a candidate, from 0 to {len(results) - 1}."
                )
            self.best_index_ = int(index)
        else:
            metric = self.refit if self.multimetric_ else "score"
            self.best_index_ = int(results[f"rank_test_{metric}"].to_numpy().argmin())
            self.best_score_ = float(results[f"mean_test_{metric}"].iloc[self.best_index_])
        self.best_params_ = trials.candidates[self.best_index_]
        if not self.refit:
            return
        started = time.perf_counter()
        estimator = trials.made(self.best_params_)
        rows = (trials.X,) if trials.y is None else (trials.X, trials.y)
        self.best_estimator_ = estimator.fit(*rows, **trials.fit_params)
        self.refit_time_ = time.perf_counter() - started
        if hasattr(estimator, "feature_names_in_"):
            self.feature_names_in_ = estimator.feature_names_in_

    def _check_refit_for_multimetric(self, names: Iterable[str]) -> None:
        if self.refit is False or callable(self.refit) or (isinstance(self.refit, str) and self.refit in names):
            return
        raise ValueError(
            f"With several metrics refit must be one of {', '.join(map(repr, names))}, False or a callable, "
            f"not {self.refit!r}."
        )

    def _route(self, params: dict[str, Any], scorers: Scorers) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """What goes to the estimator, to the splitter and to each scorer."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **params)
            return routed.estimator.fit, routed.splitter.split, dict.fromkeys(scorers.scorers, routed.scorer.score)
        params = dict(params)
        groups = params.pop("groups", None)
        weight = params.get("sample_weight")
        if weight is None:
            return params, {"groups": groups}, {}
        taking = [name for name, scorer in scorers.scorers.items() if takes_weight(scorer)]
        if len(taking) < len(scorers.scorers):
            others = ", ".join(repr(name) for name in scorers.scorers if name not in taking)
            warnings.warn(
                f"sample_weight is used in the fits, but not by scoring {others}: all rows count equally there.",
                UserWarning,
                stacklevel=4,
            )
        return params, {"groups": groups}, {name: {"sample_weight": weight} for name in taking}

    def _warn_of_failures(self, trials: Trials) -> None:
        total, failures = len(trials.results), trials.scorers.failures
        errors = [result.error for result in trials.results.values() if result.error]
        if errors:
            counted = Counter(error.strip().splitlines()[-1] for error in errors)
            reasons = "; ".join(f"{count} times: {reason}" for reason, count in counted.most_common())
            if len(errors) == total:
                raise ValueError(f"All the {total} fits failed ({reasons}). Set error_score='raise' to see where.")
            warnings.warn(
                f"{len(errors)} fits failed out of a total of {total}, and their score is set to "
                f"{self.error_score} ({reasons}). Set error_score='raise' to see where.",
                FitFailedWarning,
                stacklevel=4,
            )
        if failures:
            warnings.warn(
                f"Scoring failed {len(failures)} times; these scores are set to {self.error_score}: {failures[0]}",
                UserWarning,
                stacklevel=4,
            )
