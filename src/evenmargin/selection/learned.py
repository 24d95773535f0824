"""Search for sample weights: fit with many, keep the best on other rows, perturb them, and repeat.

From the best weights w so far come

    w'_i ∝ w_i · exp(spread · ε_i),   ε_i ~ N(0, 1),

each scaled to a mean of 1. The best of a round are in the next one, so that the score never falls, and round 0 holds
equal weights, so that it starts no lower than the plain estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import column_or_1d, indexable

from .._device.arrays import to_host
from .._input.checks import (
    Interval,
    available_if,
    check_is_fitted,
    check_labels,
    check_weights,
    fit_context,
    safe_split,
    seed_from,
    store_parameters,
    validate_parameters,
    weight_name,
)
from .._input.collections import refuse_dask
from .._input.entry import on_device
from .._util.progress import progress_bars
from .._util.typing import Array, Index, MatrixLike, VectorLike
from ..density import DensityWeights
from ..sampling import hold_out

Fold = tuple[Index, Index]


def _if_estimator_has(name: str) -> Any:
    """Decorate a method that is there only if the estimator has it, which otherwise says so itself."""
    return available_if(lambda search: bool(getattr(getattr(search, "estimator_", search.estimator), name)))


def _delegated(name: str) -> Any:
    """A method that asks the fitted estimator."""

    def method(self: LearnedWeights, X: MatrixLike) -> Any:
        check_is_fitted(self)
        return getattr(self.estimator_, name)(X)

    method.__name__, method.__qualname__ = name, f"LearnedWeights.{name}"
    method.__doc__ = f"""`{name}` of the fitted estimator.

        Parameters
        ----------
        X : array-like, sparse matrix or torch tensor of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
    return _if_estimator_has(name)(method)


class LearnedWeights(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Any estimator, fitted with sample weights that were searched for on held-out rows.

    Fits the estimator with a population of random weights, keeps the best by the
    score of the held-out rows, perturbs it, and repeats.

    `best_score_` is the best of `population + rounds · (population − 1)` tries on the
    same rows, and so optimistic, the more so the fewer rows there are: judge the result
    on other rows, and against `estimator` alone. It pays where the held-out rows can be
    trusted more than the others (name them by `cv`), such as checked labels among many
    unchecked ones. Where they are as noisy, weights fit their noise, and the plain
    estimator may well be better.

    Parameters
    ----------
    estimator : estimator
        A classifier or regressor whose `fit` takes `sample_weight`, or a Pipeline
        that ends in one. If its random_state is None, all its fits get the same one.
    population : int, default=8
        Weight vectors in a round, including the best so far.
    rounds : int, default=10
        Rounds after the first; 0 takes the best of the first.
    spread : float, default=0.5
        Standard deviation of the logarithm of the factors.
    start : "ones", a scheme's name or number, or DensityWeights, default="ones"
        What the first round perturbs.
    validation_fraction : float, default=0.2
        Rows to hold out, of each class for a classifier; not used with `cv`.
    cv : None, int, splitter or iterable, default=None
        Folds: weights are scored by the mean over them, every row has a weight, and
        a fit is needed for each fold.
    scoring : str, callable or None, default=None
        None is the estimator's own `score`. The accuracy of few rows hardly changes
        with weights: "neg_log_loss" or "roc_auc" are more sensitive. It is given
        `sample_weight` where `fit` is.
    n_jobs : int or None, default=None
        Fits run at a time; one on a GPU. The result does not depend on it.
    random_state : int, RandomState or None, default=None
    refit : bool, default=True
        Fit again with all rows, held-out ones at a weight of 1. False keeps the
        estimator that the score belongs to.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    weights_ : ndarray of shape (n_samples,)
        The best weights, factors of `sample_weight`: of mean 1 over the rows trained
        on, and 1 for rows held out or of sample weight 0.
    estimator_ : estimator
        The fitted estimator.
    best_score_ : float
        Score of the best weights, on the rows they were chosen on: optimistic.
    plain_score_ : float
        Score of equal weights, on the same rows.
    history_ : list of dict
        For each round "best_score", "scores" (of its new weights) and "improved".
    classes_ : ndarray of shape (n_classes,)
        For a classifier.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    X may be a tensor where the estimator takes one. `weights_` is a NumPy array.

    References
    ----------
    Filippo Portera, "A Generalized Weighted Loss for SVC and MLP", section IV.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sklearn.linear_model import Ridge
    >>> from evenmargin.selection.learned import LearnedWeights
    >>> X, y = make_regression(80, 4, noise=20, random_state=0)
    >>> search = LearnedWeights(Ridge(), random_state=0).fit(X, y)
    >>> search.best_score_ >= search.plain_score_
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "estimator": [BaseEstimator],
        "population": [Interval(Integral, 2, None, closed="left")],
        "rounds": [Interval(Integral, 0, None, closed="left")],
        "spread": [Interval(Real, 0, None, closed="neither")],
        "start": [str, Integral, DensityWeights],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "refit": ["boolean"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        population: int = 8,
        rounds: int = 10,
        spread: float = 0.5,
        start: Any = "ones",
        validation_fraction: float = 0.2,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        refit: bool = True,
        verbose: int = 0,
    ) -> None:
        store_parameters(self, locals())

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike = None) -> LearnedWeights:
        """Search for weights, and fit the estimator with them.

        Parameters
        ----------
        X : array-like, sparse matrix or torch tensor of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            A factor of all weights that are tried, and of the score.

        Returns
        -------
        self
        """
        name = weight_name(self.estimator)
        if name is None:
            raise ValueError(
                f"{type(self.estimator).__name__} takes no sample_weight in fit, so there are no weights to "
                "learn: choose an estimator that does."
            )
        if self.cv is not None and not self.refit:
            raise ValueError("With cv there is a fit for each fold and no single one to keep: use refit=True.")
        refuse_dask(X)
        X, y = indexable(X, self._target(y))
        weight = check_weights(sample_weight, y.size)
        rng = np.random.default_rng(seed_from(self.random_state))
        estimator = _seeded(self.estimator, rng)
        scorer, folds = check_scoring(estimator, self.scoring), self._folds(X, y, weight, rng)
        weighted, keep = sample_weight is not None, not self.refit
        trial = WeightTrial(estimator, scorer, name, X, y, weight, folds, weighted, keep)
        self.weights_, fitted = self._search(trial, rng)
        self.estimator_ = trial.fit(np.flatnonzero(weight > 0), self.weights_) if self.refit else fitted
        return self

    predict = _delegated("predict")
    predict_proba = _delegated("predict_proba")
    predict_log_proba = _delegated("predict_log_proba")
    decision_function = _delegated("decision_function")

    @_if_estimator_has("score")
    def score(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike = None) -> float:
        """The estimator's own score, whatever `scoring` was.

        Parameters
        ----------
        X : array-like, sparse matrix or torch tensor of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        check_is_fitted(self)
        params = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.estimator_.score(X, y, **params))

    classes_ = property(lambda self: self.estimator_.classes_)
    n_features_in_ = property(lambda self: self.estimator_.n_features_in_)
    feature_names_in_ = property(lambda self: self.estimator_.feature_names_in_)

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags.sparse, tags.input_tags.pairwise = inner.input_tags.sparse, inner.input_tags.pairwise
        tags.target_tags.required = True
        return tags

    def _target(self, y: VectorLike) -> NDArray[Any]:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if is_classifier(self.estimator):
            return check_labels(y)
        y = column_or_1d(to_host(y), warn=True)
        assert_all_finite(y, input_name="y")
        return np.asarray(y)

    def _folds(self, X: MatrixLike, y: NDArray[Any], weight: Array, rng: np.random.Generator) -> list[Fold]:
        """Rows to train on and rows to score, all of them with a sample weight."""
        classifier, kept = is_classifier(self.estimator), np.flatnonzero(weight > 0)
        if kept.size == 0:
            raise ValueError("All sample weights are zero: no row is left to learn from.")
        if classifier and np.unique(y[kept]).size < 2:
            raise ValueError("The target has one class only: a classifier needs rows of at least two classes.")
        if self.cv is None:
            train, aside = hold_out(y[kept], self.validation_fraction, rng, stratify=classifier)
            return [(kept[train], kept[aside])]
        every, weighs = np.arange(y.size), weight > 0
        try:
            splits = list(check_cv(self.cv, y, classifier=classifier).split(X, y))
            folds = [(every[train], every[test]) for train, test in splits]
        except (TypeError, ValueError) as error:
            if "groups" in str(error):
                raise ValueError("fit takes no groups: give the folds, as cv=list(cv.split(X, y, groups)).") from error
            raise
        if not folds:
            raise ValueError("cv gives no folds: choose a splitter that does.")
        folds = [(train[weighs[train]], test[weighs[test]]) for train, test in folds]
        for train, test in folds:
            for rows, part in ((train, "training"), (test, "validation")):
                lost = np.setdiff1d(y[kept], y[rows]).tolist() if classifier else []
                if lost or rows.size == 0:
                    what = f"class {lost[0]!r}" if lost else "rows"
                    raise ValueError(f"cv leaves a fold without {what} in its {part} part: use fewer folds.")
        return folds

    def _search(self, trial: WeightTrial, rng: np.random.Generator) -> tuple[Array, Any]:
        learned = np.unique(np.concatenate([train for train, _ in trial.folds]))
        best, fitted, score, history = np.ones(learned.size), None, -np.inf, list[dict[str, Any]]()
        tried = [best, *self._start(trial, learned, rng)]

        def perturbed(around: Array) -> Array:
            steps = self.spread * rng.standard_normal(learned.size)
            found = around * np.exp(np.clip(steps - steps.max(), -700.0, 0.0))  # only ratios count
            return np.asarray(found / np.average(found, weights=trial.weight[learned]))

        tried += [perturbed(tried[-1]) for _ in range(self.population - len(tried))]
        n_jobs = 1 if on_device(trial.estimator, trial.X) else self.n_jobs
        with Parallel(n_jobs=n_jobs) as parallel, progress_bars(bool(self.verbose)) as open_bar:
            report = open_bar("rounds")
            for turn in range(self.rounds + 1):
                if turn > 0:
                    tried = [perturbed(best) for _ in range(self.population - 1)]
                found = parallel(delayed(trial)(learned, candidate) for candidate in tried)
                scores = np.array([value for value, _ in found])
                top = int(np.argmax(np.where(np.isnan(scores), -np.inf, scores)))
                improved = bool(scores[top] > score)
                if improved:
                    score, best, fitted = float(scores[top]), tried[top], found[top][1]
                history.append({"best_score": score, "scores": scores, "improved": improved})
                if report is not None:
                    report(turn + 1, self.rounds + 1, f"score {score:.4g}")
        if not np.isfinite(score):
            raise ValueError("No weights had a finite score: check scoring, and the estimator on these rows.")
        self.best_score_, self.plain_score_, self.history_ = score, float(history[0]["scores"][0]), history
        weights = np.ones(trial.y.size)
        weights[learned] = best
        return weights, fitted

    def _start(self, trial: WeightTrial, learned: Index, rng: np.random.Generator) -> list[Array]:
        """Density weights of the rows that weights are learned for, with a mean of 1; none for equal weights."""
        if isinstance(self.start, str) and self.start == "ones":
            return []
        if isinstance(self.start, bool):
            raise ValueError(f'start={self.start} is not an option: give "ones", or a scheme of DensityWeights.')
        rule = clone(self.start) if isinstance(self.start, DensityWeights) else DensityWeights(self.start)
        validate_parameters(rule)
        if rule.random_state is None:
            rule.random_state = int(rng.integers(np.iinfo(np.int32).max))
        if rule.scheme in ("same_class", 7) and not is_classifier(self.estimator):
            raise ValueError(f"start={self.start!r} needs classes, and a regressor has none: choose another scheme.")
        X, y = safe_split(trial.estimator, trial.X, trial.y, learned)
        found = to_host(rule.fit_weights(X, y if is_classifier(self.estimator) else None, trial.weight[learned]))
        return [np.asarray(found / np.average(found, weights=trial.weight[learned]))]


@dataclass(frozen=True)
class WeightTrial:
    """Weights in; the mean score over the folds out, and the estimator where it is kept."""

    estimator: BaseEstimator
    scorer: Callable[..., float]
    name: str  # of sample_weight in the estimator's fit
    X: MatrixLike
    y: NDArray[Any]
    weight: Array
    folds: list[Fold]
    weighted: bool  # whether the scorer is given weights
    keep: bool

    def fit(self, rows: Index, weights: Array) -> Any:
        """A clone, fitted to these rows; `weights` are of all rows."""
        estimator = clone(self.estimator)
        X, y = safe_split(estimator, self.X, self.y, rows)
        return estimator.fit(X, y, **{self.name: (self.weight * weights)[rows]})

    def __call__(self, learned: Index, candidate: Array) -> tuple[float, Any]:
        weights = np.ones(self.y.size)
        weights[learned] = candidate
        scores = []
        for train, test in self.folds:
            fitted = self.fit(train, weights)
            X, y = safe_split(fitted, self.X, self.y, test, train)
            params = {"sample_weight": self.weight[test]} if self.weighted else {}
            try:
                scores.append(self.scorer(fitted, X, y, **params))
            except TypeError as error:
                if "sample_weight" not in str(error):
                    raise
                raise ValueError(
                    f"scoring={self.scorer!r} takes no sample_weight, but fit was given one: let it take "
                    "sample_weight, or leave the weights out."
                ) from error
        return float(np.mean(scores)), fitted if self.keep else None


def _seeded(estimator: BaseEstimator, rng: np.random.Generator) -> Any:
    """A clone in which whatever would be drawn anew in every fit is drawn once."""
    estimator = clone(estimator)
    for name, value in sorted(estimator.get_params(deep=True).items()):
        if name.split("__")[-1] == "random_state" and value is None:
            estimator.set_params(**{name: int(rng.integers(np.iinfo(np.int32).max))})
    return estimator
