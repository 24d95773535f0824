"""z-SVM: strengthen the minority's support vectors of a trained machine until a metric is best.

The score of a machine is f(x) = up(x) + down(x) + b: the terms of the support
vectors with positive coefficients, of those with negative ones, and the
intercept. For the minority as the positive class, f(x, z) = z·p(x) + q(x) with

    p = up,     q = down + b      if the minority is classes_[1],
    p = −down,  q = −(up + b)     if it is classes_[0].

`adjust.py` chooses z from p, q and the labels; here they are had from machines.
A machine takes part by a method `_split_decision(X)` that returns up, down and b.
"""

from __future__ import annotations

import math
import warnings
from numbers import Integral, Real
from typing import Any

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
    validate_rows,
    weight_name,
)
from ._input.collections import by_blocks, refuse_dask
from ._input.entry import Classifier, kind_of, on_device
from ._util.typing import Array, Index, Mask, MatrixLike, VectorLike
from .adjust import BestThreshold, BestZ, best_threshold, best_z
from .kernels import get_kernel, kernel_dot
from .metrics import get_metric
from .weights import minority_is_positive

__all__ = ["ZAdjustedClassifier"]


_TILE = 2**22  # kernel values at a time: 32 MB
_RESOLUTION = 1e-12  # rows whose scores are closer are apart by rounding only


class ZAdjustedClassifier(Classifier, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A support vector machine whose boundary is moved for the minority after training.

    A machine trained on classes of unequal size leaves too little room to the
    smaller one. z-SVM multiplies the part of the score that comes from the
    minority's support vectors by z, chosen for the best G-mean (or another
    metric) of the training rows. The machine is not trained again.

    The minority is the class with the smaller sum of sample weights, on a tie
    `classes_[1]`. It is the positive class of the metric.

    Parameters
    ----------
    estimator : estimator or None, default=None
        The machine, fitted or not. For method="z": KernelSVM, LinearSVM,
        scikit-learn's SVC or NuSVC, or a Pipeline that ends in one of them,
        imbalanced-learn's included. For method="threshold": any classifier with
        `decision_function` or `predict_proba`. None: ``KernelSVM()``. Wrap a
        fitted one in `FrozenEstimator`, or use cv="prefit".
    method : {"z", "threshold"}, default="z"
        "z" turns and moves the boundary; "threshold" shifts it only.
    metric : {"gmean", "f1", "balanced_accuracy"}, a metric, cost matrix or callable, default="gmean"
        What to make best, with the minority as positive class. An object such as
        ``FBeta(2.0)``; a cost matrix [[tn, fp], [fn, tp]], to be made least; or a
        function of arrays (tp, fn, fp, tn), to be made largest. See `evenmargin.adjust`.
    search : {"exact", "golden"}, default="exact"
        "golden" is the golden section search of the paper, which may miss the best z.
    place : {"upper", "middle", "lower"}, default="upper"
        Where among equally good z or thresholds: "upper" is kindest to the
        minority (the largest z, the smallest threshold).
    z_max : float or None, default=None
        Upper end of the golden section search. None: where all rows that can
        be called positive are.
    cv : None, "prefit", int, splitter or iterable, default=None
        None: choose on the scores of the training rows, as in the paper. A number
        of folds or a splitter: choose on the scores of rows that were held out,
        which is safer where the machine fits its training rows closely, and fit
        again on all rows. These scores come from as many machines, which are
        taken to be on one scale. "prefit": `estimator` is fitted; choose on the
        rows given to `fit`.
    n_jobs : int or None, default=None
        Folds fitted at a time; one, where the machine runs on a GPU.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    estimator_ : estimator
        The fitted machine.
    minority_ : label
        The class that was taken as positive.
    z_ : float
        For method="z". 1 leaves the machine as it was.
    threshold_ : float
        For method="threshold": the minority is predicted where its own score
        (minus the decision function, if it is `classes_[0]`, or its
        probability) is above this.
    best_score_ : float
        The metric there, on the scores it was chosen on; minus the mean cost for
        a cost matrix.
    interval_ : tuple of two floats
        All z, or thresholds, around the chosen one that are as good.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    Rows may be tensors where the estimator takes them: of a KernelSVM on a GPU kernel
    values stay there, z is chosen on the CPU, and scores and labels come back as
    tensors. Tensors on the CPU are taken for arrays unless scikit-learn's array API
    dispatch is on.

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

    classes_: NDArray[Any]
    estimator_: Any
    minority_: Any
    z_: float
    threshold_: float
    best_score_: float
    interval_: tuple[float, float]

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
        estimator: Any = None,
        *,
        method: str = "z",
        metric: Any = "gmean",
        search: str = "exact",
        place: str = "upper",
        z_max: float | None = None,
        cv: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.metric = metric
        self.search = search
        self.place = place
        self.z_max = z_max
        self.cv = cv
        self.n_jobs = n_jobs

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
        estimator, metric = self._estimator(), get_metric(self.metric)
        self._check_choices(estimator)
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
        rows, held_out = kept, None
        if self.cv is not None and not self._prefit:
            held_out = self._held_out(estimator, X, y, kept, params, split_params, minority)
        if kept.size < y.size:
            if get_tags(estimator).input_tags.pairwise:  # it will be given a column for each row, weightless or not
                rows = np.arange(y.size)
            else:
                params = check_method_params(X, params, indices=kept)
                X, _ = safe_split(estimator, X, y, kept)
        fitted = estimator if self._prefit else clone(estimator).fit(X, y[rows], **params)
        if not np.array_equal(fitted.classes_, classes):
            raise ValueError(
                f"The estimator knows the classes {np.asarray(fitted.classes_).tolist()}, but y has "
                f"{classes.tolist()}: "
                "choose on rows of the same two classes."
            )
        parts, rows = held_out or (score_parts(self.method, fitted, X, minority), rows)
        self._choose(parts, y[rows] == classes[minority], weight[rows], metric, fitted)

        self.classes_, self.estimator_, self.minority_ = classes, fitted, classes[minority]
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(fitted, name):
                setattr(self, name, getattr(fitted, name))
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
        minority = int(self.minority_ == self.classes_[1])
        if hasattr(self, "z_"):
            p, q = score_parts("z", self.estimator_, X, minority)
            with np.errstate(over="ignore"):
                score = self.z_ * p + q
        else:
            score = score_parts("threshold", self.estimator_, X, minority)[0] - self.threshold_
        if minority == 0:  # 0 is for the majority, which is above 0 here
            score = np.where(score == 0.0, np.nextafter(0.0, 1.0), -score)
        return kind_of(X).give(score)

    @by_blocks
    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """The class of each row; a score of exactly 0 is the majority's.

        Parameters
        ----------
        X : array-like, sparse matrix or torch tensor of shape (n_samples, n_features)

        Returns
        -------
        ndarray or tensor of shape (n_samples,)
            Labels that are text stay with NumPy.
        """
        above = to_host(self.decision_function(X)) > 0
        return kind_of(X).give(np.asarray(self.classes_[above.astype(np.intp)]))

    def get_metadata_routing(self) -> MetadataRouter:
        """What the estimator and the splitter ask for.

        Returns
        -------
        MetadataRouter
        """
        fit = MethodMapping().add(caller="fit", callee="fit")
        split = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self._estimator(), method_mapping=fit).add(splitter=self.cv, method_mapping=split)

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self._estimator())
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.pairwise = inner.input_tags.pairwise
        return tags

    @property
    def _prefit(self) -> bool:
        return isinstance(self.cv, str)  # "prefit" is the only one

    def _estimator(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        from .kernel import KernelSVM

        svm = KernelSVM()
        return svm.set_fit_request(sample_weight=True) if get_config()["enable_metadata_routing"] else svm

    def _check_choices(self, estimator: Any) -> None:
        name = type(unfrozen(estimator)).__name__
        if self.method == "z" and not _can_split(estimator):
            raise ValueError(
                f"{name} has no support vectors to split: method='z' takes KernelSVM, LinearSVM, scikit-learn's "
                "SVC or NuSVC, or a Pipeline that ends in one; method='threshold' takes any classifier with scores."
            )
        if self.method == "threshold":
            if not (hasattr(estimator, "decision_function") or hasattr(estimator, "predict_proba")):
                raise ValueError(f"{name} has neither decision_function nor predict_proba: there is nothing to cut.")
            if self.search == "golden":
                raise ValueError("search='golden' is for method='z'; a threshold is always searched exactly.")
        if self._prefit:
            check_is_fitted(estimator)

    def _route(self, estimator: Any, weight: Array | None, fit_params: dict[str, Any]) -> tuple[Any, Any]:
        """What goes to the estimator's `fit` and to the splitter."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=weight, **fit_params)
            return routed.estimator.fit, routed.splitter.split
        if weight is None:
            return fit_params, {}
        name = weight_name(estimator)
        if name is not None:
            return {**fit_params, name: weight}, {}
        if not self._prefit and not isinstance(estimator, FrozenEstimator):
            warnings.warn(
                f"{type(estimator).__name__} takes no sample_weight (or resamples before it could use it): "
                "the weights count in the metric only.",
                stacklevel=4,
            )
        return fit_params, {}

    def _held_out(
        self,
        estimator: Any,
        X: MatrixLike,
        y: NDArray[Any],
        kept: Index,
        params: Any,
        split_params: Any,
        minority: int,
    ) -> tuple[tuple[Array, ...], Index]:
        """The parts of the scores of held-out rows, and which rows these are; rows of weight 0 are left out."""
        every, weighs = np.arange(y.size), np.isin(np.arange(y.size), kept)
        if isinstance(self.cv, Integral):
            splits = check_cv(self.cv, y[kept], classifier=True).split(kept, y[kept])
            folds = [(kept[train], kept[test]) for train, test in splits]
        else:  # it speaks of the rows as they were given
            splits = check_cv(self.cv, y, classifier=True).split(X, y, **split_params)
            folds = [(every[train], every[test]) for train, test in splits]
            folds = [(train[weighs[train]], test[weighs[test]]) for train, test in folds]
        each = Parallel(n_jobs=1 if on_device(estimator, X) else self.n_jobs)(
            delayed(_fold)(self.method, clone(estimator), X, y, train, test, params, minority) for train, test in folds
        )
        parts = tuple(np.concatenate(part) for part in zip(*each, strict=True))
        return parts, np.concatenate([test for _, test in folds])

    def _choose(self, parts: tuple[Array, ...], positive: Mask, weight: Array, metric: Any, fitted: Any) -> None:
        best: BestZ | BestThreshold
        if self.method == "z":
            p, q = parts
            best = best_z(
                p, q, positive, metric, weight,
                search=self.search, place=self.place, z_max=self.z_max, resolution=_RESOLUTION,
            )  # fmt: skip
            name, unchanged, whole = "z_", "z = 1 leaves the machine as it was", (0.0, math.inf)
        else:
            neutral = 0.0 if hasattr(fitted, "decision_function") else 0.5
            best = best_threshold(
                parts[0], positive, metric, weight, place=self.place, neutral=neutral, resolution=_RESOLUTION
            )
            name, unchanged, whole = "threshold_", f"the threshold stays at {neutral}", (-math.inf, math.inf)
        for stale in ("z_", "threshold_"):
            self.__dict__.pop(stale, None)
        setattr(self, name, best[0])
        self.best_score_, self.interval_ = best.value, best.interval
        if best.interval == whole:
            warnings.warn(
                f"No choice changes the metric, as when all scores are equal: {unchanged}. "
                "Look at the estimator's parameters and at the metric.",
                stacklevel=4,
            )


# --- input ---


def unfrozen(estimator: Any) -> Any:
    return unfrozen(estimator.estimator) if isinstance(estimator, FrozenEstimator) else estimator


# --- scores in parts ---


def _fold(
    method: str, estimator: Any, X: MatrixLike, y: NDArray[Any], train: Any, test: Any, params: Any, minority: int
) -> tuple[Array, ...]:
    """Fit on the training rows of a fold; the parts of the scores of its test rows."""
    X_train, y_train = safe_split(estimator, X, y, train)
    X_test, _ = safe_split(estimator, X, y, test, train)
    if np.unique(y_train).size < 2:
        raise ValueError("cv leaves a fold with training rows of one class only: use fewer folds, stratified.")
    estimator.fit(X_train, y_train, **check_method_params(X, params, indices=train))
    return score_parts(method, estimator, X_test, minority)


def score_parts(method: str, estimator: Any, X: MatrixLike, minority: int) -> tuple[Array, ...]:
    """(p, q), or the score alone for "threshold", with classes_[minority] as the positive class."""
    if method == "threshold":
        if hasattr(estimator, "decision_function"):
            score = to_host(estimator.decision_function(X), np.float64)
            return (score if minority == 1 else -score,)
        return (to_host(estimator.predict_proba(X)[:, minority], np.float64),)
    up, down, intercept = split_scores(estimator, X)
    return (up, down + intercept) if minority == 1 else (-down, -(up + intercept))


def _can_split(estimator: Any) -> bool:
    estimator = unfrozen(estimator)
    if isinstance(estimator, Pipeline):
        return _can_split(estimator.steps[-1][1])
    return hasattr(estimator, "_split_decision") or isinstance(estimator, SVC | NuSVC)


def split_scores(estimator: Any, X: MatrixLike) -> tuple[Array, Array, float]:
    """Terms of positive coefficients, of negative ones, and the intercept: their sum is the decision function."""
    estimator = unfrozen(estimator)
    if isinstance(estimator, Pipeline):
        for _, step in estimator.steps[:-1]:
            if step is not None and step != "passthrough" and not hasattr(step, "fit_resample"):
                X = step.transform(X)
        return split_scores(estimator.steps[-1][1], X)
    own = hasattr(estimator, "_split_decision")
    up, down, intercept = estimator._split_decision(X) if own else _svc_split(estimator, X)
    return np.asarray(up, dtype=np.float64), np.asarray(down, dtype=np.float64), float(np.squeeze(intercept))


def _svc_split(svc: Any, X: MatrixLike) -> tuple[Array, Array, float]:
    """The same of scikit-learn's SVC with two classes, whose `dual_coef_` speaks of classes_[1]."""
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
        rows = max(1, _TILE // svc.shape_fit_[0])  # its own callable: columns for all training rows
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        pulls = np.zeros((n, 2))
        for start in range(0, n if signed.size else 0, rows):
            K = svc._compute_kernel(X[start : start + rows])
            pulls[start : start + rows] = K[:, svc.support_] @ signed
    return pulls[:, 0], pulls[:, 1], float(svc.intercept_[0])
