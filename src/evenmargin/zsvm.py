"""z-SVM: strengthen the minority's support vectors of a trained machine, by the factor that is best for a metric.

The score of a machine is f(x) = up(x) + down(x) + b: the terms of the support vectors with positive coefficients, of
those with negative ones, and the intercept. With the minority as the positive class, f(x, z) = z·p(x) + q(x) where

    p = up,     q = down + b      if the minority is classes_[1],
    p = −down,  q = −(up + b)     if it is classes_[0].

`adjust.py` chooses z from p, q and the labels; this module obtains them from machines. A machine takes part by a
method `split_decision(X)` that returns up, down and b.
"""

from __future__ import annotations

import math
import warnings
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import indexable

from ._device.arrays import to_host
from ._input.checks import (
    Interval,
    StrOptions,
    check_is_fitted,
    check_labels,
    check_method_params,
    check_weights,
    drop_weightless,
    fit_context,
    safe_split,
    store_parameters,
    validate_rows,
    weight_name,
)
from ._input.collections import refuse_dask
from ._input.entry import kind_of, on_device
from ._machine import Classifier, by_blocks
from ._util.typing import Array, Index, Mask, MatrixLike, VectorLike
from .adjust import BestThreshold, BestZ, best_threshold, best_z
from .kernels import get_kernel, kernel_dot
from .metrics import MetricLike, get_metric
from .operating.responses import neutral_threshold, score_method, scores_for
from .weights import minority_is_positive

__all__ = ["ZAdjustedClassifier"]

Best = BestZ | BestThreshold

_TILE = 2**22  # kernel values at a time: 32 MB
_RESOLUTION = 1e-12  # rows whose scores are closer differ by rounding only


class RowsToAdjust(NamedTuple):
    """The rows of a fit; `kept` are those with a weight, `params` are for the machine's fit."""

    X: MatrixLike
    y: NDArray[Any]
    kept: Index
    classes: NDArray[Any]
    minority: int
    params: dict[str, Any]


class ZAdjustedClassifier(Classifier, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn: no types
    """A support vector machine whose boundary is moved in favour of the minority after training.

    A machine trained on classes of unequal size leaves too little room for the
    smaller one. z-SVM multiplies the part of the score that comes from the
    minority's support vectors by z, chosen for the best G-mean (or another
    metric). The minority is the class with the smaller sum of sample weights, or
    `classes_[1]` on a tie.

    Parameters
    ----------
    estimator : estimator or None, default=None
        For method="z": KernelSVM, LinearSVM, scikit-learn's SVC or NuSVC, or a
        Pipeline that ends in one of them, imbalanced-learn's included. For
        method="threshold": any classifier with scores or probabilities. None:
        ``KernelSVM()``. Wrap a fitted one in `FrozenEstimator`, or use cv="prefit".
    method : {"z", "threshold"}, default="z"
        "z" turns and moves the boundary; "threshold" shifts it only.
    metric : {"gmean", "f1", "balanced_accuracy"}, a metric, cost matrix or callable, default="gmean"
        What to optimise, with the minority as positive class: also ``FBeta(2.0)``, costs
        [[tn, fp], [fn, tp]] to be minimised, or a function of arrays (tp, fn, fp, tn) to
        be maximised. See `evenmargin.metrics`.
    search : {"exact", "golden"}, default="exact"
        "golden" is the golden section search of the paper, which may miss the best z.
    place : {"upper", "middle", "lower"}, default="upper"
        Which of equally good choices: "upper" is the largest z, the smallest threshold.
    z_max : float or None, default=None
        Upper end for "golden". None: where all rows that can be flagged are flagged.
    cv : None, "prefit", int, splitter or iterable, default=None
        None: choose on the scores of the training rows, as in the paper. A number
        of folds or a splitter: choose on out-of-fold scores, which is safer where the
        machine fits its training rows closely, and then fit on all rows. These scores
        come from several machines, which are assumed to be on one scale. "prefit":
        `estimator` is fitted already; choose on the rows given to `fit`.
    n_jobs : int or None, default=None
        Folds fitted at a time; always one if the machine runs on a GPU.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    estimator_ : estimator
        The fitted machine.
    minority_ : label
    z_ : float
        For method="z". 1 leaves the machine as it was.
    threshold_ : float
        For method="threshold": the minority is predicted where its own score (its
        probability, or the decision function with its sign) is above this.
    best_score_ : float
        The metric on the scores it was chosen on; minus the mean cost for costs.
    interval_ : tuple of two floats
        All z, or thresholds, around the chosen one that are as good.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    Rows may be tensors if the estimator takes them. With a KernelSVM on a GPU, kernel
    values stay there, and scores and labels come back as tensors. Tensors on the CPU
    are treated as arrays unless scikit-learn's array API dispatch is on.

    See Also
    --------
    sklearn.model_selection.TunedThresholdClassifierCV : Thresholds on a grid, for any scorer.

    References
    ----------
    Tasadduq Imam, Kai Ming Ting and Joarder Kamruzzaman, "z-SVM: An SVM for
    Improved Classification of Imbalanced Data".

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.metrics import recall_score
    >>> from sklearn.svm import SVC
    >>> from evenmargin import ZAdjustedClassifier
    >>> X, y = make_classification(500, weights=[0.95], class_sep=0.5, random_state=0)
    >>> svm = ZAdjustedClassifier(SVC(), cv=5).fit(X[::2], y[::2])
    >>> bool(svm.z_ > 1)
    True
    >>> plain, adjusted = (recall_score(y[1::2], m.predict(X[1::2])) for m in (svm.estimator_, svm))
    >>> plain < adjusted
    True
    """

    estimator_: Any
    z_: float
    threshold_: float

    _parameter_constraints: dict[str, list[Any]] = {
        "estimator": [BaseEstimator, None],
        "method": [StrOptions({"z", "threshold"})],
        "metric": [str, callable, "array-like"],
        "search": [StrOptions({"exact", "golden"})],
        "place": [StrOptions({"upper", "middle", "lower"})],
        "z_max": [Interval(Real, 0, None, closed="neither"), None],
        "cv": ["cv_object", StrOptions({"prefit"})],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        method: str = "z",
        metric: MetricLike = "gmean",
        search: str = "exact",
        place: str = "upper",
        z_max: float | None = None,
        cv: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        store_parameters(self, locals())

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike = None, **fit_params: Any
    ) -> ZAdjustedClassifier:
        """Fit the machine, unless it is fitted, and choose z or the threshold.

        Parameters
        ----------
        X : array-like, sparse matrix or torch tensor of shape (n_samples, n_features)
            As the estimator takes it; square for precomputed kernels.
        y : array-like of shape (n_samples,)
            Two classes, numbers or strings.
        sample_weight : array-like of shape (n_samples,), default=None
            For the metric, and for the estimator if it takes weights.
        **fit_params : dict
            For the estimator's `fit`, or as metadata routing says.

        Returns
        -------
        self
        """
        estimator = machine_to_adjust(self)
        check_choices(self, estimator)
        refuse_dask(X)
        X, y = indexable(X, to_host(y))
        y = check_labels(y)
        weight = check_weights(sample_weight, y.size)
        params, split_params = self._route(estimator, None if sample_weight is None else weight, fit_params)
        kept, _, _, classes = drop_weightless(np.arange(y.size), y, weight, np.unique(y))
        if classes.size > 2:
            raise ValueError(
                f"Only binary classification is supported. y has {classes.size} classes: "
                "wrap the adjusted machine in sklearn.multiclass.OneVsRestClassifier."
            )
        minority = int(minority_is_positive(y == classes[1], weight))
        rows = RowsToAdjust(X, y, kept, classes, minority, params)
        held_out = self._held_out(estimator, rows, split_params)
        fitted, X, used = self._fit_machine(estimator, rows)
        parts, used = held_out or (parts_of_score(self.method, fitted, X, minority), used)
        best = best_choice(self, parts, y[used] == classes[minority], weight[used], fitted)
        self._keep(best, fitted, classes, minority)
        return self

    @by_blocks
    def decision_function(self, X: MatrixLike) -> Array:
        """Adjusted scores, above 0 for `classes_[1]`.

        Parameters
        ----------
        X : array-like, sparse matrix or torch tensor of shape (n_samples, n_features)

        Returns
        -------
        ndarray or tensor of shape (n_samples,)
        """
        check_is_fitted(self)
        method, chosen = ("z", self.z_) if hasattr(self, "z_") else ("threshold", self.threshold_)
        minority = int(self.minority_ == self.classes_[1])
        score = adjusted_scores(parts_of_score(method, self.estimator_, X, minority), chosen, minority)
        return kind_of(X).give(score)

    @by_blocks
    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """The class of each row; a score of exactly 0 means the majority.

        Parameters
        ----------
        X : as in `decision_function`

        Returns
        -------
        ndarray or tensor of shape (n_samples,)
            Text labels are always a NumPy array.
        """
        above = to_host(self.decision_function(X)) > 0
        return kind_of(X).give(np.asarray(self.classes_[above.astype(np.intp)]))

    def get_metadata_routing(self) -> MetadataRouter:
        """The metadata that the estimator and the splitter request.

        Returns
        -------
        MetadataRouter
        """
        fit, split = (MethodMapping().add(caller="fit", callee=callee) for callee in ("fit", "split"))
        router = MetadataRouter(owner=self).add_self_request(self).add(splitter=self.cv, method_mapping=split)
        return router.add(estimator=machine_to_adjust(self), method_mapping=fit)

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(machine_to_adjust(self))
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse, tags.input_tags.pairwise = inner.input_tags.sparse, inner.input_tags.pairwise
        return tags

    def _route(self, estimator: BaseEstimator, weight: Array | None, fit_params: dict[str, Any]) -> tuple[Any, Any]:
        """What goes to the estimator's `fit` and to the splitter."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=weight, **fit_params)
            return routed.estimator.fit, routed.splitter.split
        if weight is None:
            return fit_params, {}
        if (name := weight_name(estimator)) is not None:
            return {**fit_params, name: weight}, {}
        if not isinstance(self.cv, str) and not isinstance(estimator, FrozenEstimator):
            warnings.warn(
                f"{type(estimator).__name__} takes no sample_weight (or resamples before it could use it): "
                "the weights count in the metric only.",
                stacklevel=4,
            )
        return fit_params, {}

    def _held_out(
        self, estimator: BaseEstimator, rows: RowsToAdjust, split_params: dict[str, Any]
    ) -> tuple[tuple[Array, ...], Index] | None:
        """The parts of the scores of held-out rows, and which rows these are; rows of weight 0 are left out."""
        if self.cv is None or isinstance(self.cv, str):
            return None
        y, kept = rows.y, rows.kept
        if isinstance(self.cv, Integral):
            splits = check_cv(self.cv, y[kept], classifier=True).split(kept, y[kept])
            folds = [(kept[train], kept[test]) for train, test in splits]
        else:  # a splitter refers to the rows as they were given
            every, counts = np.arange(y.size), np.isin(np.arange(y.size), kept)
            splits = check_cv(self.cv, y, classifier=True).split(rows.X, y, **split_params)
            folds = [(every[train][counts[train]], every[test][counts[test]]) for train, test in splits]
        each = Parallel(n_jobs=1 if on_device(estimator, rows.X) else self.n_jobs)(
            delayed(_fold)(self.method, clone(estimator), rows, train, test) for train, test in folds
        )
        parts = tuple(np.concatenate(part) for part in zip(*each, strict=True))
        return parts, np.concatenate([test for _, test in folds])

    def _fit_machine(self, estimator: BaseEstimator, rows: RowsToAdjust) -> tuple[Any, MatrixLike, Index]:
        """The machine, fitted to the rows with a weight; and the rows whose scores it is asked for."""
        X, y, used, params = rows.X, rows.y, rows.kept, rows.params
        if used.size < y.size:
            if get_tags(estimator).input_tags.pairwise:  # it will get a column for each row, weightless or not
                used = np.arange(y.size)
            else:
                params = check_method_params(X, params, indices=used)
                X, _ = safe_split(estimator, X, y, used)
        fitted = estimator if isinstance(self.cv, str) else clone(estimator).fit(X, y[used], **params)
        if not np.array_equal(fitted.classes_, rows.classes):
            raise ValueError(
                f"The estimator knows the classes {np.asarray(fitted.classes_).tolist()}, but y has "
                f"{rows.classes.tolist()}: give rows of the same two classes."
            )
        return fitted, X, used

    def _keep(self, best: Best, fitted: BaseEstimator, classes: NDArray[Any], minority: int) -> None:
        columns = ("n_features_in_", "feature_names_in_")
        for stale in ("z_", "threshold_", *columns):
            self.__dict__.pop(stale, None)
        setattr(self, "z_" if isinstance(best, BestZ) else "threshold_", best[0])
        self.best_score_, self.interval_ = best.value, best.interval
        self.classes_, self.estimator_, self.minority_ = classes, fitted, classes[minority]
        self.__dict__.update({name: getattr(fitted, name) for name in columns if hasattr(fitted, name)})


# --- the choice, also for searches ---


def machine_to_adjust(adjuster: ZAdjustedClassifier) -> Any:
    """The adjuster's estimator, before a fit: None means a KernelSVM."""
    if adjuster.estimator is not None:
        return adjuster.estimator
    from .kernel import KernelSVM

    svm = KernelSVM()
    return svm.set_fit_request(sample_weight=True) if get_config()["enable_metadata_routing"] else svm


def check_choices(adjuster: ZAdjustedClassifier, estimator: BaseEstimator) -> None:
    """Whether the estimator can be adjusted as the adjuster's parameters say."""
    get_metric(adjuster.metric)
    name = type(unfrozen(estimator)).__name__
    if adjuster.method == "z" and not _can_split(estimator):
        raise ValueError(
            f"{name} has no support vectors to split: method='z' takes KernelSVM, LinearSVM, scikit-learn's "
            "SVC or NuSVC, or a Pipeline that ends in one; method='threshold' takes any classifier with scores."
        )
    if adjuster.method == "threshold":
        if not (hasattr(estimator, "decision_function") or hasattr(estimator, "predict_proba")):
            raise ValueError(f"{name} has neither decision_function nor predict_proba: a threshold needs scores.")
        if adjuster.search == "golden":
            raise ValueError("search='golden' is for method='z': the search for a threshold is always exact.")
    if isinstance(adjuster.cv, str):  # "prefit"
        check_is_fitted(estimator)


def best_choice(
    adjuster: ZAdjustedClassifier, parts: tuple[Array, ...], positive: Mask, weight: Array, fitted: BaseEstimator
) -> Best:
    """The adjuster's choice of z or of the threshold, with a warning where none changes the metric."""
    metric = get_metric(adjuster.metric)
    options: dict[str, Any] = {"place": adjuster.place, "resolution": _RESOLUTION}
    if adjuster.method == "z":
        p, q = parts
        best: Best = best_z(p, q, positive, metric, weight, search=adjuster.search, z_max=adjuster.z_max, **options)
        unchanged, whole = "z = 1 leaves the machine as it was", (0.0, math.inf)
    else:
        neutral = neutral_threshold(score_method(fitted))
        best = best_threshold(parts[0], positive, metric, weight, neutral=neutral, **options)
        unchanged, whole = f"the threshold stays at {neutral}", (-math.inf, math.inf)
    if best.interval == whole:
        warnings.warn(
            f"No choice changes the metric, as when all scores are equal: {unchanged}. "
            "Check the estimator's parameters and the metric.",
            stacklevel=4,
        )
    return best


def adjusted_scores(parts: tuple[Array, ...], chosen: float, minority: int) -> Array:
    """Scores above 0 for `classes_[1]`: from p, q and z, or from the score and the threshold."""
    with np.errstate(over="ignore"):
        score = chosen * parts[0] + parts[1] if len(parts) == 2 else parts[0] - chosen
    # 0 means the majority: if that is classes_[1], its score must be above 0.
    return score if minority == 1 else np.where(score == 0.0, np.nextafter(0.0, 1.0), -score)


# --- scores in parts ---


def _fold(method: str, estimator: BaseEstimator, rows: RowsToAdjust, train: Index, test: Index) -> tuple[Array, ...]:
    """Fit on the training rows of a fold; the parts of the scores of its test rows."""
    X_train, y_train = safe_split(estimator, rows.X, rows.y, train)
    X_test, _ = safe_split(estimator, rows.X, rows.y, test, train)
    if np.unique(y_train).size < 2:
        raise ValueError("cv leaves a fold with training rows of one class only: use fewer folds, stratified.")
    estimator.fit(X_train, y_train, **check_method_params(rows.X, rows.params, indices=train))
    return parts_of_score(method, estimator, X_test, rows.minority)


def parts_of_score(method: str, estimator: BaseEstimator, X: MatrixLike, minority: int) -> tuple[Array, ...]:
    """(p, q), or the score alone for "threshold", with classes_[minority] as the positive class."""
    if method == "threshold":
        return (scores_for(estimator, X, score_method(estimator), minority),)
    return z_parts(*split_decision(estimator, X), minority)


def z_parts(up: Array, down: Array, intercept: float, minority: int) -> tuple[Array, Array]:
    """p and q of a split score; see the module."""
    return (up, down + intercept) if minority == 1 else (-down, -(up + intercept))


def unfrozen(estimator: BaseEstimator) -> Any:
    """The estimator inside any number of `FrozenEstimator`."""
    return unfrozen(estimator.estimator) if isinstance(estimator, FrozenEstimator) else estimator


def machine_in(estimator: BaseEstimator) -> Any:
    """The last step of any pipelines, without `FrozenEstimator`."""
    machine = unfrozen(estimator)
    return machine_in(machine.steps[-1][1]) if isinstance(machine, Pipeline) else machine


def _can_split(estimator: BaseEstimator) -> bool:
    machine = machine_in(estimator)
    return hasattr(machine, "split_decision") or isinstance(machine, SVC | NuSVC)


def split_decision(estimator: BaseEstimator, X: MatrixLike) -> tuple[Array, Array, float]:
    """Terms of positive coefficients, of negative ones, and the intercept: their sum is the decision function."""
    estimator = unfrozen(estimator)
    if isinstance(estimator, Pipeline):
        for _, step in estimator.steps[:-1]:
            if step is not None and step != "passthrough" and not hasattr(step, "fit_resample"):
                X = step.transform(X)
        return split_decision(estimator.steps[-1][1], X)
    split = getattr(estimator, "split_decision", None)
    up, down, intercept = _svc_split(estimator, X) if split is None else split(X)
    return np.asarray(up, dtype=np.float64), np.asarray(down, dtype=np.float64), float(np.squeeze(intercept))


def _svc_split(svc: SVC | NuSVC, X: MatrixLike) -> tuple[Array, Array, float]:
    """The same for scikit-learn's SVC with two classes, whose positive coefficients mean classes_[1]."""
    coef = svc.dual_coef_.toarray() if issparse(svc.dual_coef_) else np.asarray(svc.dual_coef_)
    signed = np.column_stack([np.maximum(coef.ravel(), 0.0), np.minimum(coef.ravel(), 0.0)])
    if not callable(svc.kernel):
        X = validate_rows(svc, X)
        if svc.kernel == "precomputed":
            pulls = np.asarray(X[:, svc.support_] @ signed, dtype=np.float64)
        else:
            kernel = get_kernel(svc.kernel, svc._gamma, svc.degree, svc.coef0)
            pulls = kernel_dot(kernel, X, svc.support_vectors_, signed, dtype=np.float64)
    else:
        rows = max(1, _TILE // svc.shape_fit_[0])  # a callable has a column for each training row
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        pulls = np.zeros((n, 2))
        for start in range(0, n if signed.size else 0, rows):
            K = svc._compute_kernel(X[start : start + rows])
            pulls[start : start + rows] = K[:, svc.support_] @ signed
    return pulls[:, 0], pulls[:, 1], float(svc.intercept_[0])
