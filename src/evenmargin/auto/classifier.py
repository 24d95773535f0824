"""`EvenMarginClassifier`: one line to a good model of a table with a rare class.

It makes numbers of the table (`_tables`), cross-fits and averages kernel machines on three views of them
(`committee.py`), and on out-of-fold scores chooses the threshold, learns what a score means as a probability, and
estimates what to expect (`detector.py`).
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from functools import cache, partial
from itertools import count
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._input.checks import (
    Interval,
    StrOptions,
    check_is_fitted,
    fit_context,
    seed_from,
    store_parameters,
    validate_table,
    validate_table_training,
)
from .._input.collections import is_dask
from .._machine import Classifier, by_blocks
from .._tables.distinct import WorkingRows, distinct_rows, working_rows
from .._tables.encoder import TableEncoder, as_table
from .._tables.frames import FramesTravel
from .._util.progress import progress_bars
from .._util.threads import Workers, count_threads
from .._util.typing import Array, Index, Mask, MatrixLike, RandomState, VectorLike
from ..operating import Calibrator, Objective, get_objective
from ..operating.objectives import ObjectiveLike
from ..solvers.one_vs_rest import one_vs_rest
from .committee import assemble
from .detector import Detector, class_probabilities, class_scores
from .plan import FitRecord, Plan, Summary, most_rows, plan_for
from .rows import ClassRows, ViewRows, positive_side
from .views import VIEWS


class EvenMarginClassifier(FramesTravel, Classifier, BaseEstimator):
    """A classifier for tables with a rare class that needs no tuning.

    Data frames are taken as they are: numbers, booleans, dates, categories, missing
    values. Three kernel machines on different views of the table are cross-fitted and
    averaged, their parameters chosen by out-of-fold ROC-AUC and G-mean. On out-of-fold
    scores it chooses the boundary for the objective, calibrates probabilities, and
    estimates what to expect, with intervals.

    Parameters
    ----------
    objective : str, dict or callable, default="gmean"
        What the boundary is chosen for: "gmean", "balanced_accuracy", "f1", "mcc"; costs,
        ``{"fn": 100, "fp": 1}``; a floor, ``{"recall": 0.95}`` ("at least 95 % of the
        frauds") or ``{"precision": 0.9}``, optionally with a ``"confidence"``; a callable
        of arrays (tp, fn, fp, tn) to be maximised.
    time_budget : float, "fast" or "thorough", default=300.0
        Seconds for `fit`. Most tables need only a few; if time runs out, less is tried,
        and `summary_` says so. "fast" tries no settings: a third of the time, slightly
        worse. "thorough" repeats everything more often, without a limit.
    folds : int or None, default=None
        Folds of the cross-fitting, at most one for each row of the rare class; None: 10
        if it has fewer than 500 rows, else 5.
    pos_label : label or None, default=None
        The class that recall, precision and costs refer to; None: the rarer one.
    random_state : int, RandomState or None, default=0
        For folds and samples. The order of the rows does not matter.
    n_jobs : int or None, default=None
        Threads; None or −1 takes all cores. The answer does not depend on it.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    pos_label_ : label or None
        The positive class; None if there are more than two classes.
    threshold_ : float or ndarray of shape (n_classes,)
        The boundary on the scores; `decision_function` is the distance from it.
    probability_threshold_ : float or ndarray of shape (n_classes,)
        The probability at the boundary; above it `predict` gives the positive class.
    summary_ : Summary
        What was done and what to expect: ``print(model.summary_)``.
    estimates_ : DataFrame
        What to expect of new rows: metric by value, low and high (95 %).
    cv_results_ : DataFrame
        The settings that were tried.
    operating_curve_ : DataFrame
        See `evenmargin.operating.operating_curve`. For several classes, a dict by class.
    oof_scores_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Out-of-fold scores of the training rows, on the scale of `threshold_`: for plots.
        NaN for rows that were not used. After a fit to dask collections, only of the
        rows in `sample_indices_`.
    sample_indices_ : ndarray of shape (n_sampled,)
        After a fit to dask collections: the numbers of the rows drawn to learn from.
    objective_ : str
        What the boundary was chosen for, in words.
    calibrator_ : Calibrator or None
        From scores to probabilities, for two classes; see `evenmargin.operating`.
    encoder_ : TableEncoder
        From a table to numbers without missing values.
    detectors_ : list of Detector
        One for the positive class, or one for each of several: a `committee` of machines, a
        `calibrator`, a `threshold`, and the `sign` that makes its scores those of `classes_[1]`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    A sample weight of 2 is the same as the row twice. Up to nine identical rows stay in one
    fold, so that none is tested on its copy; a row that occurs more often is in several
    folds, since new rows will be like it. Machines have up to 8 000 rows each. Above 50 000
    rows they are linear on a Nyström map; above 100 000 they learn from a sample, with
    small classes whole.

    From dask arrays and frames such a sample is drawn where the rows are, and fitted in
    memory: up to 100 000 rows, or 1 000 for each second of `time_budget`. A table with no
    more rows gives the same model as a fit in memory. For a larger one only the sample
    counts; a category that is not in it is unknown. Labels are read twice and rows once,
    within the budget. Predictions, `assess` included, are lazy.

    Probabilities are calibrated to how frequent the classes are. Where the objective
    favours the rare class, `predict` gives the positive class at probabilities far below 1/2.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from evenmargin import EvenMarginClassifier
    >>> X, y = make_classification(n_samples=600, weights=[0.93], random_state=0)
    >>> model = EvenMarginClassifier().fit(X, y)
    >>> model.set_operating_point({"recall": 0.95}).predict(X[:3])
    array([0, 0, 0])
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "objective": [str, dict, list, tuple, np.ndarray, callable],
        "time_budget": [StrOptions({"fast", "thorough"}), Interval(Real, 0, None, closed="neither")],
        "folds": [Interval(Integral, 2, None, closed="left"), None],
        "pos_label": [object],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        objective: Any = "gmean",
        *,
        time_budget: float | str = 300.0,
        folds: int | None = None,
        pos_label: Any = None,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        store_parameters(self, locals())

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike = None) -> EvenMarginClassifier:
        """Learn from a table, or from a sample of a large table or a dask collection (see Notes).

        Parameters
        ----------
        X : DataFrame, array-like, dask array or dask frame of shape (n_samples, n_features)
        y : array-like or dask collection of shape (n_samples,)
            Two or more classes, numbers or strings.
        sample_weight : array-like or dask collection of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        started = time.perf_counter()
        for stale in ("_fitted", "sample_indices_"):  # until the end, also where it is interrupted
            self.__dict__.pop(stale, None)
        objective = get_objective(self.objective)
        seed, most = seed_from(self.random_state), most_rows(self.time_budget)
        X, y, sample_weight, size = self._in_memory(X, y, sample_weight, most, seed)
        table, y, weight, classes, kept = validate_table_training(self, as_table(X), y, sample_weight)
        self._check_pos_label(classes)
        encoder = TableEncoder().fit(table, weight)
        rows = distinct_rows(encoder.transform(table), y, weight)
        used = working_rows(rows, classes, most, seed)
        X, y = rows.X[used.index], rows.y[used.index]
        sizes = {_plain(label): int(np.count_nonzero(y == label)) for label in classes}
        plan = plan_for(sizes, self.time_budget, self.folds, started)
        self.detectors_ = self._detect(X, y, used, classes, plan, seed)
        self.classes_, self.encoder_ = classes, encoder
        self._fitted = FitRecord(size or int(kept.sum()), int(used.count.sum()), plan, time.perf_counter() - started)
        self._store(kept, used.place(rows))
        self._choose(objective, stacklevel=4)
        return self

    def set_operating_point(
        self,
        objective: ObjectiveLike | None = None,
        *,
        threshold: float | None = None,
        probability: float | None = None,
    ) -> EvenMarginClassifier:
        """Move the boundary without fitting again.

        Parameters
        ----------
        objective : default=None
            As in the constructor.
        threshold : float or None, default=None
            The boundary on the scores, as in `threshold_`, for two classes.
        probability : float or None, default=None
            Predict the positive class above this probability, for two classes.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        given = [choice for choice in (objective, threshold, probability) if choice is not None]
        if len(given) != 1:
            raise ValueError("Give exactly one of objective, threshold and probability.")
        if objective is not None:
            self._choose(get_objective(objective), stacklevel=3)
            return self
        if len(self.detectors_) > 1:
            raise ValueError("A threshold or a probability can be set for two classes; for more, give an objective.")
        (detector,) = self.detectors_
        if probability is not None:
            threshold = float(detector.calibrator.score_at(np.asarray(probability)))
        if not (isinstance(threshold, Real) and np.isfinite(float(threshold))):
            raise ValueError(f"threshold={threshold!r} must be a finite number.")
        detector.threshold = float(threshold)
        self._describe(None)
        return self

    @by_blocks
    def decision_function(self, X: MatrixLike) -> Array:
        """How far the score is above the boundary: above 0 for `classes_[1]`, or one for each of several classes.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        return class_scores(self.detectors_, self._scores(X))

    @by_blocks
    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """The class of each row: by its side of the boundary, or, of several, the one with the highest score.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._labels(self.decision_function(X))

    @by_blocks
    def predict_proba(self, X: MatrixLike) -> Array:
        """Calibrated probabilities of the classes; for two, strictly increasing in the score.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        return class_probabilities(self.detectors_, self._scores(X))

    @by_blocks
    def predict_log_proba(self, X: MatrixLike) -> Array:
        """Logarithms of `predict_proba`, with the same parameters and shape."""
        return np.log(self.predict_proba(X))

    def assess(self, X: MatrixLike) -> pd.DataFrame:
        """`predict`, `predict_proba` and `decision_function` in the time of one of them.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        DataFrame
            `prediction`; for two classes `probability`, that of `pos_label_`, and `score`, how
            far its score is above the boundary; for several, both for each class.

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from evenmargin import EvenMarginClassifier
        >>> X, y = make_classification(n_samples=300, weights=[0.9], random_state=0)
        >>> EvenMarginClassifier(time_budget="fast").fit(X, y).assess(X[:2]).columns.tolist()
        ['prediction', 'probability', 'score']
        """
        check_is_fitted(self)
        if is_dask(X):
            from ..distributed import assess_blocks

            return assess_blocks(self, X)
        raw = self._scores(X)
        scores, shares = class_scores(self.detectors_, raw), class_probabilities(self.detectors_, raw)
        columns: dict[str, Any] = {"prediction": self._labels(scores)}
        if self.classes_.size == 2:
            place = 1 if self.detectors_[0].sign > 0 else 0
            columns |= {"probability": shares[:, place], "score": self.detectors_[0].sign * scores}
        else:
            for k, label in enumerate(self.classes_):
                columns |= {f"probability {label}": shares[:, k], f"score {label}": scores[:, k]}
        return pd.DataFrame(columns)

    @property
    def calibrator_(self) -> Calibrator | None:
        check_is_fitted(self)
        return self.detectors_[0].calibrator if len(self.detectors_) == 1 else None

    @property
    def pos_label_(self) -> Any:
        check_is_fitted(self)
        return self.detectors_[0].label if len(self.detectors_) == 1 else None

    @property
    def threshold_(self) -> Any:
        check_is_fitted(self)
        return _one_or_all([detector.threshold for detector in self.detectors_])

    @property
    def probability_threshold_(self) -> Any:
        check_is_fitted(self)
        return _one_or_all([detector.probability_threshold for detector in self.detectors_])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    # --- fitting ---

    def _in_memory(
        self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike, most: int, seed: int
    ) -> tuple[MatrixLike, VectorLike, VectorLike, int | None]:
        """The rows, or a sample of dask collections and how many rows these have."""
        if not is_dask(X):
            return X, y, sample_weight, None
        from ..distributed import sample_table

        some = sample_table(X, y, sample_weight, most, seed)
        self.sample_indices_ = some.index
        return some.table, some.y, some.weight, some.rows

    def _detect(
        self, X: Array, y: NDArray[Any], used: WorkingRows, classes: NDArray[Any], plan: Plan, seed: int
    ) -> list[Detector]:
        """A detector of the positive class, or of each of several."""
        which, detectors = one_vs_rest(classes), []
        with Workers(count_threads(self.n_jobs)) as workers, progress_bars(bool(self.verbose)) as open_bar:
            bar, step = open_bar("EvenMarginClassifier"), count(1)

            def report(stage: str) -> None:
                if bar is not None:
                    bar(next(step), 2 * len(VIEWS) * len(which), stage)

            rows_of = cache(partial(ViewRows.of, X=X, weight=used.weight))
            for turn, place in enumerate(which):
                sign, positive = positive_side(y, used.weight, classes, place, self.pos_label)
                rows = ClassRows(positive, used.weight, seed, workers)
                committee = assemble(rows_of, rows, replace(plan, turn=(turn, len(which))), report)
                label = _plain(classes[place if sign > 0 else 0])
                detectors.append(Detector(label, committee, positive, used.weight, used.count, sign))
        return detectors

    def _store(self, kept: Mask, places: Index) -> None:
        """What does not depend on the boundary; `places` of the kept rows are those among the rows learned from."""
        place = np.full(kept.size, -1)
        place[kept] = places
        committees = {detector.label: detector.committee for detector in self.detectors_}
        unseen = np.column_stack([np.append(one.unseen, np.nan) for one in committees.values()])[place]
        self.oof_scores_ = unseen[:, 0] if self.classes_.size == 2 else unseen
        tried = [{"class": label, **row} for label, one in committees.items() for row in one.screened]
        self.cv_results_ = pd.DataFrame(tried)
        short = [one.shortened for one in committees.values() if one.shortened]
        if short:
            warnings.warn(f"time_budget={self.time_budget:g} s was too short: {short[-1]}.", UserWarning, stacklevel=4)

    def _check_pos_label(self, classes: NDArray[Any]) -> None:
        if self.pos_label is None:
            return
        if classes.size > 2:
            raise ValueError(f"pos_label is for two classes, but y has {classes.size}: leave it out.")
        if self.pos_label not in classes.tolist():
            raise ValueError(f"pos_label={self.pos_label!r} is not one of the classes {classes.tolist()}.")

    # --- the operating point ---

    def _choose(self, objective: Objective, stacklevel: int) -> None:
        """Move every threshold to where it is best for the objective."""
        choices = [detector.choose(objective) for detector in self.detectors_]
        for detector, choice in zip(self.detectors_, choices, strict=True):
            detector.threshold = choice.threshold
        missed = [repr(d.label) for d, choice in zip(self.detectors_, choices, strict=True) if not choice.reached]
        if missed:
            of = "" if self.classes_.size == 2 else f" for class {', '.join(missed)}"
            warnings.warn(
                f"No threshold reaches a {objective}{of} on rows held out of training: the nearest one is used.",
                UserWarning,
                stacklevel=stacklevel,
            )
        self._describe(objective)

    def _describe(self, objective: Objective | None) -> None:
        """What follows from the thresholds."""
        self.objective_ = "set by hand" if objective is None else str(objective)
        estimates = {detector.label: detector.estimates(objective) for detector in self.detectors_}
        curves = {detector.label: detector.curve(objective) for detector in self.detectors_}
        self.estimates_ = pd.concat(estimates, names=["class", "metric"])
        self.operating_curve_: Any = curves
        if self.classes_.size == 2:
            ((self.estimates_, self.operating_curve_),) = zip(estimates.values(), curves.values(), strict=True)
        left_out = self.encoder_.left_out_[:5]
        without = f" (left out, as they never vary: {', '.join(left_out)})" if left_out else ""
        lines = self._fitted.describe(f"{self.n_features_in_}, encoded as {len(self.encoder_.names_)} numbers{without}")
        for detector in self.detectors_:
            lines += detector.describe(self.objective_, estimates[detector.label])
        self.summary_ = Summary(lines)

    # --- prediction ---

    def _labels(self, scores: Array) -> NDArray[Any]:
        if scores.ndim == 2:
            return self.classes_[scores.argmax(axis=1)]
        # A score on the boundary is negative, whichever class that is.
        return self.classes_[np.where(scores > 0 if self.detectors_[0].sign > 0 else scores >= 0, 1, 0)]

    def _scores(self, X: MatrixLike) -> list[Array]:
        numbers = self.encoder_.transform(validate_table(self, as_table(X)))
        elements = numbers.shape[0] * self.detectors_[0].committee.members[0].machine.support.shape[0]
        with Workers(1 if elements < 100_000 else count_threads(self.n_jobs)) as workers:
            return [detector.committee.score(numbers, workers) for detector in self.detectors_]


def _one_or_all(values: list[float]) -> Any:
    return values[0] if len(values) == 1 else np.array(values)


def _plain(label: Any) -> Any:
    """A label as it is written in Python, not as a NumPy scalar."""
    return label.item() if isinstance(label, np.generic) else label
