"""`EvenMarginClassifier`: one line to a good model of a table with a rare class.

It makes numbers of the table (`_tables.py`), looks at them through three lenses
with kernel machines that are cross-fitted and averaged (`_committee.py`), and on the
scores of rows that the machines have not seen chooses where to cut, learns what a
score means as a probability, and estimates what to expect (`operating.py`).
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field, replace
from functools import cache, partial
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
    validate_table,
    validate_table_training,
)
from .._input.collections import is_dask
from .._machine import Classifier, by_blocks
from .._tables.distinct import distinct_rows, working_rows
from .._tables.encoder import TableEncoder, as_table
from .._tables.frames import FramesTravel
from .._util.progress import progress_bars
from .._util.threads import Workers, count_threads
from .._util.typing import Array, Mask, MatrixLike, VectorLike
from ..operating import Objective, get_objective
from ..solvers.one_vs_rest import one_vs_rest
from ..weights import minority_is_positive
from .committee import LENSES, Case, Look, Plan, assemble
from .detector import Detector

__all__ = ["EvenMarginClassifier", "Summary"]


_ROWS = 100_000  # to learn from, at most: all of the rare class, if it is up to half of them
_PER_SECOND = 1_000  # rows to learn from, for each second of time
_FEW = 100  # rows of the rare class below which folds are repeated
_MANY = 500  # rows of the rare class from which five folds are enough


@dataclass
class Summary:
    """What was done, in words: `print(model.summary_)`."""

    lines: list[tuple[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        width = max(len(title) for title, _ in self.lines) + 2
        return "\n".join(f"{title:<{width}}{text}" for title, text in self.lines)

    __repr__ = __str__


@dataclass(frozen=True)
class _Fitted:
    """Rows of the table, rows that were learned from, the plan, and how long it took."""

    rows: int
    used: int
    plan: Plan
    seconds: float


class EvenMarginClassifier(FramesTravel, Classifier, BaseEstimator):
    """A classifier for tables with a rare class that needs no tuning.

    Frames go in as they are: numbers, booleans, dates, categories, missing values.
    Three kernel machines on different views of the table are cross-fitted and
    averaged, their parameters chosen by ROC-AUC and G-mean of rows that they have
    not seen. On the scores of such rows it chooses the boundary for the objective,
    calibrates probabilities, and estimates what to expect, with intervals.

    Parameters
    ----------
    objective : str, dict or callable, default="gmean"
        What the boundary is best for: "gmean", "balanced_accuracy", "f1", "mcc"; costs,
        ``{"fn": 100, "fp": 1}``; a floor, ``{"recall": 0.95}`` ("at least 95 % of the
        frauds") or ``{"precision": 0.9}``, perhaps with a ``"confidence"``; a callable of
        arrays (tp, fn, fp, tn) to be maximised.
    time_budget : float, "fast" or "thorough", default=300.0
        Seconds for `fit`. Most tables take a few of them; where time runs out, less
        is tried, and `summary_` says so. "fast" tries nothing: a third of the time, a
        little worse. "thorough" repeats everything more often, without a limit.
    folds : int or None, default=None
        Of the cross-fitting; None: 10 while the rare class has fewer than 500 rows,
        else 5. Fewer where the rare class has fewer rows than folds.
    pos_label : label or None, default=None
        The class that recall, precision and costs speak of; None: the rarer one.
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
        The positive class; None if they are more than two.
    threshold_ : float or ndarray of shape (n_classes,)
        Where scores are cut; `decision_function` is the distance from it.
    probability_threshold_ : float or ndarray of shape (n_classes,)
        The probability of the positive class there: `predict` calls a row positive
        exactly if its probability is above it.
    summary_ : Summary
        What was done and what to expect: ``print(model.summary_)``.
    estimates_ : DataFrame
        What to expect of new rows: metric by value, low and high (95 %).
    cv_results_ : DataFrame
        The settings that were tried.
    operating_curve_ : DataFrame
        What every threshold would do, with counts, costs and intervals; see
        `evenmargin.operating.operating_curve`. Of several classes, a dict by class.
    oof_scores_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Scores of the training rows by machines that have not seen them, in the terms of
        `threshold_`: for plots. NaN for rows that were not used. After a fit to dask
        collections, of the rows in `sample_indices_`.
    sample_indices_ : ndarray of shape (n_sampled,)
        After a fit to dask collections: which rows were drawn to learn from, by their
        numbers in the whole.
    objective_ : str
        What the boundary serves, in words.
    calibrator_ : Calibrator or None
        What a score means as a probability, of two classes; see `evenmargin.operating`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    A sample weight of 2 is the same as the row twice. Up to nine rows that are the same are
    in one fold, so that nothing is tested on itself; a row that the table has more often
    is in several, since new rows will be like it. Machines have up to 8 000 rows each.
    Above 50 000 rows they are linear on a Nyström map; above 100 000 a sample is learned
    from, the small classes whole.

    Of dask arrays and frames such a sample is drawn where the rows are, and learned from
    in memory: up to 100 000 rows, or 1 000 for each second of `time_budget`. A table with
    no more rows gives the model of a fit in memory. Of a larger one, copies of a row are
    told, and categories, medians, thresholds and estimates are taken, from the sample; a
    category that is not in it is unknown. Labels are read twice and rows once, in the
    time of the budget. Predictions, `assess` included, are lazy.

    Probabilities are calibrated to how frequent the classes are. Where the objective
    asks for the rare class, `predict` will call a row positive at a probability far
    below 1/2: see `probability_threshold_`.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from evenmargin import EvenMarginClassifier
    >>> X, y = make_classification(n_samples=600, weights=[0.93], random_state=0)
    >>> model = EvenMarginClassifier().fit(X, y)
    >>> model.predict(X[:3])
    array([0, 0, 0])
    >>> model.set_operating_point({"recall": 0.95}).predict(X[:3])
    array([0, 0, 0])
    """

    threshold_: Any
    probability_threshold_: Any

    _parameter_constraints: dict[str, list[Any]] = {
        "objective": [str, dict, list, tuple, np.ndarray, callable],
        "time_budget": [StrOptions({"fast", "thorough"}), Interval(Real, 0, None, closed="neither")],
        "folds": [Interval(Integral, 2, None, closed="left"), None],
        "pos_label": "no_validation",  # type: ignore[dict-item]
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        objective: Any = "gmean",
        *,
        time_budget: Any = 300.0,
        folds: int | None = None,
        pos_label: Any = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.objective = objective
        self.time_budget = time_budget
        self.folds = folds
        self.pos_label = pos_label
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike = None) -> EvenMarginClassifier:
        """Learn from a table; of a large one, or of dask collections, from a sample (see Notes).

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
        self.__dict__.pop("_fitted", None)  # until the end, also where it is interrupted
        self.__dict__.pop("sample_indices_", None)
        objective = get_objective(self.objective)
        seed, most, rows_in_all = seed_from(self.random_state), self._most_rows(), None
        if is_dask(X):
            from ..distributed import sample_table

            some = sample_table(X, y, sample_weight, most, seed)
            X, y, sample_weight, rows_in_all = some.table, some.y, some.weight, some.rows
            self.sample_indices_ = some.index
        table, y, weight, classes, kept = validate_table_training(self, as_table(X), y, sample_weight)
        self._check_pos_label(classes)
        encoder = TableEncoder().fit(table, weight)
        rows = distinct_rows(encoder.transform(table), y, weight)
        used = working_rows(rows, classes, most, seed)
        plan = self._plan(rows.y[used.index], classes, started)
        with Workers(count_threads(self.n_jobs)) as workers, progress_bars(bool(self.verbose)) as open_bar:
            which = one_vs_rest(classes)
            report = _counting(open_bar("EvenMarginClassifier"), 2 * len(LENSES) * len(which))
            looks = cache(partial(Look.at, X=rows.X[used.index], weight=used.weight))
            signs, detectors = [], []
            for turn, place in enumerate(which):
                sign, positive = self._sides(rows.y[used.index], used.weight, classes, place)
                case = Case(positive, used.weight, seed, workers)
                committee = assemble(looks, case, replace(plan, turn=(turn, len(which))), report)
                label = _plain(classes[place if sign > 0 else 0])
                signs.append(sign)
                detectors.append(Detector.of(label, committee, positive, used.weight, used.count))
        self.classes_, self._encoder, self._signs, self._detectors = classes, encoder, signs, detectors
        self._fitted = _Fitted(rows_in_all or y.size, int(used.count.sum()), plan, time.perf_counter() - started)
        self._place = np.full(kept.size, -1)  # of each row of the table among those that were learned from
        self._place[kept] = used.place(rows)
        self._warn_if_shortened()
        self._settle(objective, stacklevel=4)
        return self

    def set_operating_point(
        self, objective: Any = None, *, threshold: float | None = None, probability: float | None = None
    ) -> EvenMarginClassifier:
        """Move the boundary without fitting again.

        Parameters
        ----------
        objective : default=None
            As in the constructor.
        threshold : float or None, default=None
            Where to cut the score (as in `threshold_` and `operating_curve_`), of two
            classes.
        probability : float or None, default=None
            Call a row positive above this probability, of two classes.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        given = [choice for choice in (objective, threshold, probability) if choice is not None]
        if len(given) != 1:
            raise ValueError("Give one of objective, threshold and probability.")
        if objective is not None:
            self._settle(get_objective(objective), stacklevel=3)
            return self
        if len(self._detectors) > 1:
            raise ValueError("A threshold or a probability can be set for two classes; for more, give an objective.")
        (detector,) = self._detectors
        if probability is not None:
            threshold = float(detector.calibrator.score_at(np.asarray(probability)))
        if not (isinstance(threshold, Real) and np.isfinite(float(threshold))):
            raise ValueError(f"threshold={threshold!r} must be a finite number.")
        detector.threshold = float(threshold)
        self._describe(None)
        return self

    @by_blocks
    def decision_function(self, X: MatrixLike) -> Array:
        """How far the score is above the boundary: positive for `classes_[1]`, or for each class.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        return self._distances(self._scores(X))

    @by_blocks
    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """The class on whose side of its boundary a row is, or furthest of several.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._called(self.decision_function(X))

    @by_blocks
    def predict_proba(self, X: MatrixLike) -> Array:
        """Calibrated probabilities of the classes; of two, strictly increasing in the score.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        return self._shares(self._scores(X))

    @by_blocks
    def predict_log_proba(self, X: MatrixLike) -> Array:
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.log(self.predict_proba(X))

    def assess(self, X: MatrixLike) -> pd.DataFrame:
        """`predict`, `predict_proba` and `decision_function` in the time of one of them.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        DataFrame
            `prediction`; of two classes `probability`, that of `pos_label_`, and `score`, how far
            its score is above the boundary; of several, both for each class.

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
        scores, shares = self._distances(raw), self._shares(raw)
        columns: dict[str, Any] = {"prediction": self._called(scores)}
        if self.classes_.size == 2:
            place = 1 if self._signs[0] > 0 else 0
            columns |= {"probability": shares[:, place], "score": self._signs[0] * scores}
        else:
            for k, label in enumerate(self.classes_):
                columns |= {f"probability {label}": shares[:, k], f"score {label}": scores[:, k]}
        return pd.DataFrame(columns)

    @property
    def calibrator_(self) -> Any:
        check_is_fitted(self)
        return self._detectors[0].calibrator if len(self._detectors) == 1 else None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.sparse = False
        return tags

    # --- fitting ---

    def _most_rows(self) -> int:
        """Rows to learn from, at most."""
        if isinstance(self.time_budget, str):
            return _ROWS
        return int(np.clip(_PER_SECOND * self.time_budget, 4_000, _ROWS))

    def _plan(self, y: NDArray[Any], classes: NDArray[Any], started: float) -> Plan:
        """How much work to do for tables of this size."""
        sizes = np.array([np.count_nonzero(y == label) for label in classes])
        rarest, least = _plain(classes[sizes.argmin()]), int(sizes.min())
        folds = self.folds or (10 if least < _MANY else 5)
        if least < folds:
            trust = "how well it is found is anyone's guess" if least == 1 else "what is said of it will be rough"
            warnings.warn(
                f"Class {rarest!r} has {least} different row{'s' * (least > 1)} only, so that {max(2, least)} folds "
                f"are used: {trust}.",
                UserWarning,
                stacklevel=4,
            )
        plan = Plan(folds=max(2, min(folds, least)), rows=int(np.clip(y.size // 5, 4000, 8000)))
        if self.time_budget == "fast":
            return replace(plan, screen=0)
        if self.time_budget == "thorough":
            return replace(plan, screen=4000, repeats=10 if least < _FEW else 3)
        repeats = 2 if least < _FEW else 1
        return replace(plan, repeats=repeats, seconds=float(self.time_budget), started=started)

    def _sides(self, y: NDArray[Any], weight: Array, classes: NDArray[Any], place: int) -> tuple[float, Mask]:
        """The positive rows, of the rarer side or the one that is named, and the sign that makes scores the class's."""
        own = y == classes[place]
        if classes.size > 2:
            return 1.0, own
        if self.pos_label is not None:
            sign = 1.0 if classes[1] == self.pos_label else -1.0
        else:
            sign = 1.0 if minority_is_positive(own, weight) else -1.0
        return sign, own if sign > 0 else ~own

    def _warn_if_shortened(self) -> None:
        short = [detector.committee.shortened for detector in self._detectors if detector.committee.shortened]
        if short:
            warnings.warn(f"time_budget={self.time_budget:g} s was too short: {short[-1]}.", UserWarning, stacklevel=4)

    def _check_pos_label(self, classes: NDArray[Any]) -> None:
        if self.pos_label is None:
            return
        if classes.size > 2:
            raise ValueError(f"pos_label is for two classes, and these are {classes.size}: leave it out.")
        if self.pos_label not in classes.tolist():
            raise ValueError(f"pos_label={self.pos_label!r} is not one of the classes {classes.tolist()}.")

    # --- the operating point ---

    def _settle(self, objective: Objective, stacklevel: int) -> None:
        """Cut where the objective says."""
        choices = [detector.choose(objective) for detector in self._detectors]
        for detector, choice in zip(self._detectors, choices, strict=True):
            detector.threshold = choice.threshold
        missed = [repr(d.label) for d, choice in zip(self._detectors, choices, strict=True) if not choice.reached]
        if missed:
            of = "" if self.classes_.size == 2 else f" for class {', '.join(missed)}"
            warnings.warn(
                f"No threshold reaches a {objective}{of} on rows that were not trained on: the nearest one is taken.",
                UserWarning,
                stacklevel=stacklevel,
            )
        self._describe(objective)

    def _describe(self, objective: Objective | None) -> None:
        """What follows from where the scores are cut."""
        detectors = self._detectors
        self.objective_ = "set by hand" if objective is None else str(objective)
        estimates = {detector.label: detector.estimates(objective) for detector in detectors}
        curves = {detector.label: detector.curve(objective) for detector in detectors}
        if self.classes_.size == 2:
            (detector,) = detectors
            self.pos_label_ = detector.label
            self.threshold_, self.probability_threshold_ = detector.threshold, detector.probability_threshold
            self.estimates_, self.operating_curve_ = estimates[detector.label], curves[detector.label]
        else:
            self.pos_label_ = None
            self.threshold_ = np.array([detector.threshold for detector in detectors])
            self.probability_threshold_ = np.array([detector.probability_threshold for detector in detectors])
            self.estimates_ = pd.concat(estimates, names=["class", "metric"])
            self.operating_curve_ = curves
        unseen = np.column_stack([np.append(detector.committee.unseen, np.nan) for detector in detectors])[self._place]
        self.oof_scores_ = unseen[:, 0] if self.classes_.size == 2 else unseen
        tried = [{"class": detector.label, **row} for detector in detectors for row in detector.committee.screened]
        self.cv_results_ = pd.DataFrame(tried)
        self.summary_ = Summary(self._table_lines() + [line for d in detectors for line in self._lines(d, estimates)])

    def _table_lines(self) -> list[tuple[str, str]]:
        done, encoder = self._fitted, self._encoder
        sample = f", of which {done.used:,} were learned from" if done.used < done.rows else ""
        kind = "exact kernels" if done.used <= done.plan.exact else f"a Nyström map of {done.plan.landmarks} landmarks"
        without = f" (without two values: {', '.join(encoder.left_out_[:5])})" if encoder.left_out_ else ""
        return [
            ("rows", f"{done.rows:,}{sample}"),
            ("columns", f"{self.n_features_in_}, as {len(encoder.names_)} numbers{without}"),
            ("machines", f"{kind}, {done.plan.folds} folds; fitted in {done.seconds:.1f} s"),
        ]

    def _lines(self, detector: Detector, estimates: dict[Any, pd.DataFrame]) -> list[tuple[str, str]]:
        count, committee = int(detector.count[detector.positive].sum()), detector.committee
        share = detector.weight[detector.positive].sum() / detector.weight.sum()
        called = f"called so above a probability of {detector.probability_threshold:.3g}"
        lines = [
            (f"class {detector.label!r}", f"{count:,} rows, {share:.2%} of the weight"),
            ("  lenses", ", ".join(member.name for member in committee.members)),
            ("  boundary", f"{self.objective_}: {called}"),
            ("  to expect", "of rows that it has not seen:"),
        ]
        for name, title in {
            "gmean": "G-mean",
            "recall": "recall",
            "precision": "precision",
            "roc_auc": "ROC-AUC",
        }.items():
            value, low, high = estimates[detector.label].loc[name]
            said = "unknown" if np.isnan(value) else f"{value:.3f} (95 % interval {low:.3f} to {high:.3f})"
            lines.append((f"  {title}", said))
        if count < _FEW:
            lines.append(("  note", f"{count:,} rows of the class are few: trust the intervals, not the values"))
        if committee.shortened:
            lines.append(("  note", f"time was short: {committee.shortened}"))
        return lines

    # --- prediction ---

    def _distances(self, raw: list[Array]) -> Array:
        """How far the detectors' scores are above the boundary."""
        if self.classes_.size == 2:
            return np.asarray(self._signs[0] * (raw[0] - self._detectors[0].threshold))
        return np.column_stack([
            _logit(detector.probability(scores)) - _logit(detector.probability_threshold)
            for detector, scores in zip(self._detectors, raw, strict=True)
        ])  # fmt: skip

    def _called(self, scores: Array) -> NDArray[Any]:
        if scores.ndim == 1:
            # A score on the boundary is negative, whichever class that is.
            return self.classes_[np.where(scores > 0 if self._signs[0] > 0 else scores >= 0, 1, 0)]
        return self.classes_[scores.argmax(axis=1)]

    def _shares(self, raw: list[Array]) -> Array:
        """Probabilities of the classes."""
        own = [detector.probability(scores) for detector, scores in zip(self._detectors, raw, strict=True)]
        if self.classes_.size == 2:
            (share,) = own
            return np.column_stack([1.0 - share, share] if self._signs[0] > 0 else [share, 1.0 - share])
        shares = np.column_stack(own)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def _scores(self, X: MatrixLike) -> list[Array]:
        numbers = self._encoder.transform(validate_table(self, as_table(X)))
        elements = numbers.shape[0] * self._detectors[0].committee.members[0].machine.support.shape[0]
        with Workers(1 if elements < 100_000 else count_threads(self.n_jobs)) as workers:
            return [detector.score(numbers, workers) for detector in self._detectors]


def _counting(bar: Any, total: int) -> Any:
    """A function that moves the bar on by one step, with a note."""
    done = 0

    def report(stage: str) -> None:
        nonlocal done
        done += 1
        if bar is not None:
            bar(done, total, stage)

    return report


def _plain(label: Any) -> Any:
    """A label as it is written in Python, not as a NumPy scalar."""
    return label.item() if isinstance(label, np.generic) else label


def _logit(probability: Any) -> Any:
    return np.log(probability) - np.log1p(-np.asarray(probability))
