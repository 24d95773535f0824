"""Searches that share work: one kernel matrix for many machines.

`GridSearchCV` fits every candidate from nothing. Machines with the same kernel
have the same kernel matrix, whatever their C, costs and fold, and one of them is
a good start for the next. `SharedGridSearch` gives the same numbers from one
matrix for each kernel.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import indexable

from .._device.arrays import to_host
from .._input.checks import Interval, StrOptions, available_if, check_is_fitted, check_method_params, fit_context
from .._input.collections import refuse_dask
from .._input.entry import on_device
from .._tables.frames import FramesTravel
from .._util.progress import progress_bars
from .._util.threads import Workers, count_threads
from .._util.typing import Array, Floats, MatrixLike, VectorLike
from ..papers import cost_sensitive_pegasos
from ..stopping import AUCHalting, improvement_waits, waiting_time
from .scoring import Scorers
from .shared import share
from .trials import Sheet, Trials, for_scorers

__all__ = ["SharedGridSearch", "pegasos_grid"]


def _best_has(name: str) -> Any:
    """Whether the best estimator, or the given one before a fit, has a method."""

    def check(search: Any) -> bool:
        _check_refit(search, name)
        getattr(search.best_estimator_ if hasattr(search, "best_estimator_") else search.estimator, name)
        return True

    return check


def _check_refit(search: Any, name: str) -> None:
    if search.refit is False:
        raise AttributeError(
            f"This {type(search).__name__} was made with refit=False, so that {name} has no machine to ask: "
            "fit one yourself with best_params_, or set refit=True."
        )


class SharedGridSearch(FramesTravel, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Cross-validated search over a grid, with the work that candidates have in common done once.

    It is used as scikit-learn's `GridSearchCV`, and gives the same numbers for the
    same folds. `KernelSVM` with the hinge or the squared hinge
    and its exact solver shares work: alone,
    as the last step of a `Pipeline`, and inside a `ZAdjustedClassifier` with
    cv=None. Transformers are fitted once for each fold and setting. There is one
    kernel matrix for each kernel, folds are parts of it, machines of growing C start
    from one another, and z or thresholds are chosen from the scores of one machine.
    Where the machine has a device, or X is a CUDA tensor, X is put there once and
    kernel matrices are computed there.
    Other estimators, losses and solvers are fitted one by one, in threads.

    Parameters
    ----------
    estimator : estimator
    param_grid : dict or list of dicts
        Parameters and the values to try, named as for `set_params`: "C",
        "estimator__C" in a `ZAdjustedClassifier`, "kernelsvm__C" in a pipeline.
    scoring : str, callable, list, tuple, dict or None, default=None
        One metric or several. None: the estimator's own `score`.
    n_jobs : int or None, default=None
        Threads; None or −1 takes all cores, or OMP_NUM_THREADS. The answer does
        not depend on it. A device does one fit at a time.
    refit : bool, str or callable, default=True
        Fit the best candidate to all rows. With several metrics, the name of the
        one that counts. A callable takes `cv_results_` and returns the index of
        the best candidate.
    cv : int, splitter, iterable or None, default=None
        None: five folds, stratified for a classifier.
    verbose : int, default=0
        1 shows a progress bar.
    error_score : "raise" or float, default=nan
        The score where a fit or a scorer fails.
    return_train_score : bool, default=False
    cache_size : float, default=1000.0
        Megabytes that kernel matrices may take: n² numbers of 4 bytes, of 8 where
        folds have up to 2 048 training rows, once or twice. Candidates that
        need more are fitted one by one. On a device one matrix may take six
        tenths of the free memory there.

    Attributes
    ----------
    cv_results_ : pandas.DataFrame
        The columns of GridSearchCV: for each metric split0_test_score, …,
        mean_test_score, std_test_score, rank_test_score; param_… for each
        parameter, params, and times. The time of shared work is split evenly.
    best_index_ : int
    best_params_ : dict
    best_score_ : float
    best_estimator_ : estimator
    shares_work_ : bool
        Whether all fits of the search came from shared work.
    n_shared_ : int
        How many of them.
    scorer_ : scorer or dict of scorers
    n_splits_ : int
    refit_time_ : float
        Seconds.
    multimetric_ : bool
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str

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

    cv_results_: Any
    best_index_: int
    best_params_: dict[str, Any]
    best_score_: float
    best_estimator_: Any
    shares_work_: bool
    n_shared_: int

    _parameter_constraints: dict[str, list[Any]] = {
        "estimator": [object],
        "param_grid": [dict, list],
        "scoring": [str, callable, list, tuple, set, dict, None],
        "n_jobs": [Integral, None],
        "refit": ["boolean", str, callable],
        "cv": ["cv_object"],
        "verbose": ["verbose"],
        "error_score": [StrOptions({"raise"}), Real],
        "return_train_score": ["boolean"],
        "cache_size": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        cache_size: float = 1000.0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.refit = refit
        self.cv = cv
        self.verbose = verbose
        self.error_score = error_score
        self.return_train_score = return_train_score
        self.cache_size = cache_size

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: MatrixLike, y: VectorLike = None, **params: Any) -> SharedGridSearch:
        """Try all candidates on all folds, and fit the best to all rows.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or tensor of shape (n_samples, n_features)
            As the estimator takes it.
        y : array-like of shape (n_samples,), default=None
        **params : dict
            `groups` goes to the splitter. All else goes to the estimator's `fit`,
            cut to the rows of each fold where it has one entry for each row:
            `sample_weight`, or `kernelsvm__sample_weight` in a pipeline. As in
            GridSearchCV of scikit-learn 1.9 and later, `sample_weight` goes to
            scorers that take it, too. With metadata routing enabled, all go
            where they are asked for.

        Returns
        -------
        self
        """
        scorers = Scorers(self.estimator, self.scoring, self.error_score)
        if scorers.multiple:
            self._check_refit_name(scorers.scorers)
        candidates = list(ParameterGrid(self.param_grid))
        if not candidates:
            raise ValueError("param_grid has no candidates: give a dict of parameters and values, or a list of them.")
        refuse_dask(X)
        X, y = indexable(X, to_host(y))
        if y is not None:
            assert_all_finite(y, input_name="y")  # before a splitter looks at it
        params = check_method_params(X, {name: to_host(value) for name, value in params.items()})
        fit_params, split_params, score_params = self._route(params, scorers)
        splitter = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        folds = list(splitter.split(X, y, **split_params))
        if not folds:
            raise ValueError("cv gives no folds: choose a splitter that does.")
        trials = Trials(
            clone(self.estimator), candidates, X, y, folds, fit_params, score_params, scorers, self.return_train_score
        )
        self.n_splits_ = len(folds)
        sheet = self._try_all(trials)
        self._warn_of_failures(sheet, scorers)
        self.multimetric_ = scorers.multiple or list(sheet.test) != ["score"]
        if scorers.open and self.multimetric_:
            self._check_refit_name(sheet.test)
        self.cv_results_ = _table(candidates, sheet)
        self.scorer_ = scorers.kept
        self._choose(trials)
        return self

    def _try_all(self, trials: Trials) -> Sheet:
        """What can be shared first, then the rest one by one."""
        sheet = Sheet(len(trials.candidates), len(trials.folds))
        total = len(trials.candidates) * len(trials.folds)
        with Workers(count_threads(self.n_jobs)) as workers, self._counting(total) as done:
            shared = share(trials, sheet, float(self.cache_size), workers, done)
            rest = [
                (candidate, fold)
                for candidate in range(len(trials.candidates))
                for fold in range(len(trials.folds))
                if (candidate, fold) not in shared
            ]
            config = get_config()

            def task(place: int) -> None:
                with config_context(**config):  # a thread has its own
                    trials.plain(sheet, *rest[place])
                done(1)

            alone = on_device(trials.estimator, trials.X, trials.candidates)
            (Workers(1) if alone else workers).each(task, range(len(rest)))
        self.n_shared_, self.shares_work_ = len(shared), not rest
        return sheet

    @contextmanager
    def _counting(self, total: int) -> Iterator[Any]:
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
        """The best candidate, fitted to all rows."""
        for stale in ("best_index_", "best_params_", "best_score_", "best_estimator_", "refit_time_"):
            self.__dict__.pop(stale, None)
        self.__dict__.pop("feature_names_in_", None)
        if self.multimetric_ and not self.refit:
            return
        results = self.cv_results_
        if callable(self.refit):
            best: Any = self.refit(results)
            if not isinstance(best, Integral) or not 0 <= int(best) < len(results):
                raise ValueError(
                    f"refit returned {best!r}: it must return the index of a candidate, from 0 to {len(results) - 1}."
                )
            self.best_index_ = int(best)
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

    def _check_refit_name(self, names: Any) -> None:
        if self.refit is False or callable(self.refit) or (isinstance(self.refit, str) and self.refit in names):
            return
        known = ", ".join(map(repr, names))
        raise ValueError(
            f"With several metrics refit must name the one that counts, of {known}, or be False or a callable; "
            f"it is {self.refit!r}."
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
        taking = scorers.taking_weights()
        if len(taking) < len(scorers.scorers):
            deaf = ", ".join(repr(name) for name in scorers.scorers if name not in taking)
            warnings.warn(
                f"sample_weight counts in the fits, but scoring {deaf} takes no weights: there all rows count alike.",
                UserWarning,
                stacklevel=4,
            )
        return params, {"groups": groups}, {name: {"sample_weight": weight} for name in taking}

    def _warn_of_failures(self, sheet: Sheet, scorers: Scorers) -> None:
        total = sheet.shape[0] * sheet.shape[1]
        if sheet.errors:
            counted = Counter(error.strip().splitlines()[-1] for error in sheet.errors.values())
            reasons = "; ".join(f"{count} times: {reason}" for reason, count in counted.most_common())
            if len(sheet.errors) == total:
                raise ValueError(f"All the {total} fits failed ({reasons}). Set error_score='raise' to see where.")
            for name in scorers.scorers if not sheet.test else ():
                sheet.note(sheet.test, name, [], 0, np.nan)
            sheet.note_errors(self.error_score)
            warnings.warn(
                f"{len(sheet.errors)} fits failed out of a total of {total}, and their score is set to "
                f"{self.error_score} ({reasons}). Set error_score='raise' to see where.",
                FitFailedWarning,
                stacklevel=4,
            )
        if scorers.failures:
            warnings.warn(
                f"Scoring failed {len(scorers.failures)} times, and the score there is set to {self.error_score}: "
                f"{scorers.failures[0]}",
                UserWarning,
                stacklevel=4,
            )

    # --- the best estimator's methods ---

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
        _check_refit(self, "score")
        check_is_fitted(self)
        if params and not get_config()["enable_metadata_routing"]:
            raise ValueError(f"score takes {', '.join(params)} only with metadata routing enabled.")
        given = process_routing(self, "score", **params).scorer.score if params else {}
        if self.multimetric_ and not isinstance(self.refit, str):
            raise ValueError("With several metrics, score needs refit to name the one that counts; or ask scorer_.")
        scorer = self.scorer_[self.refit] if isinstance(self.scorer_, dict) else self.scorer_
        rows = (X,) if y is None else (X, to_host(y))
        own = callable(self.scoring) and not hasattr(self.scoring, "_score_func")
        found = scorer(self.best_estimator_ if own else for_scorers(self.best_estimator_, X), *rows, **given)
        return found[self.refit] if isinstance(found, dict) else found

    @available_if(_best_has("predict"))
    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """The best estimator's `predict`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(_best_has("decision_function"))
    def decision_function(self, X: MatrixLike) -> Floats:
        """The best estimator's `decision_function`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    @available_if(_best_has("predict_proba"))
    def predict_proba(self, X: MatrixLike) -> Floats:
        """The best estimator's `predict_proba`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(_best_has("predict_log_proba"))
    def predict_log_proba(self, X: MatrixLike) -> Floats:
        """The best estimator's `predict_log_proba`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        return self.best_estimator_.predict_log_proba(X)

    @available_if(_best_has("transform"))
    def transform(self, X: MatrixLike) -> Any:
        """The best estimator's `transform`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features_out)
        """
        check_is_fitted(self)
        return self.best_estimator_.transform(X)

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes that the best estimator knows."""
        _best_has("classes_")(self)
        return self.best_estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """Columns of X."""
        try:
            check_is_fitted(self)
        except NotFittedError as error:
            raise AttributeError(f"{type(self).__name__} has no n_features_in_ before a fit.") from error
        return self.best_estimator_.n_features_in_

    def get_metadata_routing(self) -> MetadataRouter:
        """What the estimator, the scorers and the splitter ask for.

        Returns
        -------
        MetadataRouter
        """
        router = MetadataRouter(owner=self)
        fit = MethodMapping().add(caller="fit", callee="fit")
        score = MethodMapping().add(caller="score", callee="score").add(caller="fit", callee="score")
        split = MethodMapping().add(caller="fit", callee="split")
        router.add(estimator=self.estimator, method_mapping=fit)
        router.add(scorer=check_scoring(self.estimator, self.scoring), method_mapping=score)
        return router.add(splitter=self.cv, method_mapping=split)

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags.pairwise, tags.input_tags.sparse = inner.input_tags.pairwise, inner.input_tags.sparse
        return tags


# --- the table of results ---


def _table(candidates: list[dict[str, Any]], sheet: Sheet) -> Any:
    """`cv_results_`, with the columns of GridSearchCV."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name, seconds in (("fit_time", sheet.fit_time), ("score_time", sheet.score_time)):
        columns[f"mean_{name}"], columns[f"std_{name}"] = seconds.mean(axis=1), seconds.std(axis=1)
    for name in sorted({name for params in candidates for name in params}):
        columns[f"param_{name}"] = _column([params.get(name, np.nan) for params in candidates])
    columns["params"] = candidates
    for name in sheet.test:
        for part, numbers in (("test", sheet.test), ("train", sheet.train)):
            if name in numbers:
                columns.update(_columns(f"{part}_{name}", numbers[name], rank=part == "test"))
    return pd.DataFrame(columns)


def _column(values: list[Any]) -> Any:
    """Numbers as numbers, all else as it is."""
    if all(isinstance(value, Real) and not isinstance(value, bool) for value in values):
        return np.array(values)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _columns(name: str, numbers: Array, rank: bool) -> dict[str, Any]:
    columns = {f"split{fold}_{name}": numbers[:, fold] for fold in range(numbers.shape[1])}
    mean = np.average(numbers, axis=1)
    if not np.isfinite(mean).all():
        warnings.warn(
            f"{np.count_nonzero(~np.isfinite(mean))} of {mean.size} candidates have a {name} that is not finite.",
            UserWarning,
            stacklevel=5,
        )
    columns[f"mean_{name}"] = mean
    columns[f"std_{name}"] = np.sqrt(np.average((numbers - mean[:, None]) ** 2, axis=1))
    if rank:  # failures are tied with the worst
        least = np.nanmin(mean) - 1.0 if not np.isnan(mean).all() else 0.0
        columns[f"rank_{name}"] = rankdata(-np.where(np.isnan(mean), least, mean), method="min").astype(np.int32)
    return columns


# --- the pegasos paper's search ---


def pegasos_grid(
    X: MatrixLike,
    y: VectorLike,
    *,
    lam: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3),
    b: Sequence[float] = tuple(np.linspace(-2.0, 2.0, 10).tolist()),
    every: Sequence[int] | None = None,
    most: int | None = None,
    T: int = 1000,
    random_state: Any = None,
) -> dict[str, list[Any]]:
    """The grid of the pegasos paper, for `papers.cost_sensitive_pegasos`: λ, the bias, and X.

    X is the number of steps between two looks at ROC-AUC. The paper takes it from
    the whole numbers in a confidence interval of the mean wait for an improvement
    (`stopping.waiting_time`), with the waits seen in one run here.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The rows of the run that waits are taken from.
    y : array-like of shape (n_samples,)
        Two classes.
    lam : sequence of float, default=(1e-4, …, 1e3)
        λ.
    b : sequence of float, default=ten points in [−2, 2]
        The bias.
    every : sequence of int or None, default=None
        X. None: from the waits.
    most : int or None, default=None
        Take so many of the whole numbers at most, evenly spaced.
    T : int, default=1000
        Steps of the run.
    random_state : int, RandomState or None, default=None
        Of the run.

    Returns
    -------
    dict
        alpha, intercept and stopping, for the `param_grid` of a search.

    References
    ----------
    John Sun, "PEGASOS SVM for Imbalanced Classification".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from evenmargin.papers import cost_sensitive_pegasos
    >>> from evenmargin.selection import SharedGridSearch, pegasos_grid
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(axis=0)) / X.std(axis=0)
    >>> grid = pegasos_grid(X, y, lam=[0.01, 1.0], b=[-1.0, 0.0], most=3, random_state=0)
    >>> machine = cost_sensitive_pegasos(random_state=0)
    >>> search = SharedGridSearch(machine, grid, scoring="roc_auc").fit(X, y)
    >>> len(search.cv_results_), search.best_score_ > 0.9
    (12, True)
    """
    if every is None:
        machine = cost_sensitive_pegasos(T=T, random_state=random_state)
        machine.set_params(stopping=AUCHalting(every=1, halt=False)).fit(X, y)
        waits = improvement_waits([entry["auc"] for entry in machine.history_ if "auc" in entry])
        if waits.size < 2:
            raise ValueError(
                f"ROC-AUC improved {waits.size} times in {T} steps, too seldom to tell how long to wait: "
                "scale the features, raise T, or give every."
            )
        steps = waiting_time(waits).integers()
    else:
        steps = np.asarray(every)
    if most is not None and steps.size > most:
        steps = np.unique(np.linspace(steps[0], steps[-1], max(1, most)).round().astype(np.int64))
    return {"alpha": list(lam), "intercept": list(b), "stopping": [AUCHalting(every=int(step)) for step in steps]}
