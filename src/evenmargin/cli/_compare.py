"""`evenmargin compare`: the classifiers that are installed here, on the same folds of a table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.metrics import average_precision_score, confusion_matrix
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.preprocessing import StandardScaler

from .._tables.encoder import TableEncoder
from .._util.files import check_place
from .._util.sentences import in_one_line
from .._util.typing import Array, Index, Mask, RandomState
from ..auto import EvenMarginClassifier
from ..metrics import GMean, Metric, precision, recall, roc_auc, specificity
from ..operating import Objective, choose_threshold, get_objective
from ..operating.responses import METHODS, for_class, scores_for
from ._fit import TITLES, figure, learn
from ._reading import InputError
from ._voice import STOPPED, Voice
from ._writing import check_ending, writing

OURS = "EvenMarginClassifier"

Folds = list[tuple[Index, Index]]
Method = Callable[[Index, Index], tuple[Array, Mask]]  # from training and test rows to scores, and which are flagged


@dataclass(frozen=True)
class Peer:
    """A classifier of another library, as people use it for unequal classes."""

    name: str
    home: str
    kind: str
    options: dict[str, Any]
    scaled: bool = False  # whether it takes standardised columns
    most: float = np.inf  # rows above which it would take too long

    @property
    def installed(self) -> bool:
        return find_spec(self.home.split(".")[0]) is not None

    def make(self, y: Mask, seed: RandomState, jobs: int | None) -> Any:
        options = dict(self.options)
        if "scale_pos_weight" in options:
            options["scale_pos_weight"] = float((~y).sum() / y.sum())
        made = getattr(import_module(self.home), self.kind)(**options)
        settable = made.get_params()
        shared = {"random_state": seed, "n_jobs": jobs or -1}
        return made.set_params(**{name: value for name, value in shared.items() if name in settable})


_BALANCED = {"class_weight": "balanced"}
PEERS = (
    Peer("logistic regression", "sklearn.linear_model", "LogisticRegression", _BALANCED | {"max_iter": 1000}, True),
    Peer("SVC", "sklearn.svm", "SVC", _BALANCED, True, 20_000),
    Peer("random forest", "sklearn.ensemble", "RandomForestClassifier", _BALANCED | {"n_estimators": 300}),
    Peer("histogram boosting", "sklearn.ensemble", "HistGradientBoostingClassifier", _BALANCED),
    Peer("balanced forest", "imblearn.ensemble", "BalancedRandomForestClassifier", {"n_estimators": 300}),
    Peer("EasyEnsemble", "imblearn.ensemble", "EasyEnsembleClassifier", {}),
    Peer("LightGBM", "lightgbm", "LGBMClassifier", _BALANCED | {"verbose": -1}),
    Peer("XGBoost", "xgboost", "XGBClassifier", {"scale_pos_weight": 1.0}),
    Peer(
        "CatBoost",
        "catboost",
        "CatBoostClassifier",
        {"auto_class_weights": "Balanced", "verbose": 0, "allow_writing_files": False},
    ),
)


@dataclass(frozen=True)
class Trial:
    """The rows, the objective and the seed that are the same for every classifier."""

    X: pd.DataFrame
    y: Mask
    model: EvenMarginClassifier
    tune: bool

    def ours(self, train: Index, test: Index) -> tuple[Array, Mask]:
        """Score the test rows by EvenMarginClassifier, and say which are flagged."""
        verdict = clone(self.model).fit(self.X.iloc[train], self.y[train]).assess(self.X.iloc[test])
        return verdict["score"].to_numpy(), verdict["prediction"].to_numpy()

    def theirs(self, peer: Peer, train: Index, test: Index) -> tuple[Array, Mask]:
        """Do so by a peer, at its own threshold or, tuned, at the best one on folds of the training rows."""
        seed = self.model.random_state
        encoder = TableEncoder().fit(self.X.iloc[train], np.ones(len(train)))
        known, new = encoder.transform(self.X.iloc[train]), encoder.transform(self.X.iloc[test])
        if peer.scaled:
            scaler = StandardScaler().fit(known)
            known, new = scaler.transform(known), scaler.transform(new)
        model, y = peer.make(self.y[train], seed, self.model.n_jobs), self.y[train].astype(np.intp)
        method = next(method for method in METHODS if hasattr(model, method))
        threshold = None
        if self.tune:
            inner = StratifiedKFold(min(5, int(np.bincount(y).min())), shuffle=True, random_state=seed)
            held_out = for_class(cross_val_predict(model, known, y, cv=inner, method=method), 1)
            threshold = choose_threshold(held_out, y, self.model.objective).threshold
        model.fit(known, y)
        scores = scores_for(model, new, method, 1)
        return scores, np.asarray(model.predict(new)) == 1 if threshold is None else scores > threshold


def compare(voice: Voice, *, folds: int, tune: bool, only: list[str] | None, out: Path | None, **task: Any) -> None:
    """Fit every classifier on every fold, and list them, best first."""
    if out is not None:
        check_place(out, task["data"])
        check_ending(out)
    peers = _chosen(only or [])
    lesson = learn(voice, **task)
    y = np.asarray(lesson.table.y == lesson.table.positive)
    folds = _folds(voice, y, folds)
    slow = [peer.name for peer in peers if len(y) > peer.most]
    if slow:
        voice.note(f"Left out, as they would take too long on {len(y):,} rows: {', '.join(slow)}.")
    trial = Trial(lesson.table.X, y, lesson.model.set_params(pos_label=True, verbose=0), tune)
    methods: dict[str, Method] = {OURS: trial.ours}
    methods |= {peer.name: partial(trial.theirs, peer) for peer in peers if peer.name not in slow}
    splits = list(StratifiedKFold(folds, shuffle=True, random_state=task["seed"]).split(trial.X, y))
    results, stopped = {}, False
    with voice.progress("comparing", len(methods) * len(splits)) as advance:
        for name, method in methods.items():
            try:
                results[name] = judge_folds(method, y, splits, partial(advance, 1, name))
            except KeyboardInterrupt:
                stopped = True
                break
            except Exception as error:  # of another library, which must not take the others down
                if name == OURS:
                    raise
                voice.note(f"{name} failed and is left out: {type(error).__name__}: {in_one_line(error)}")
    if stopped and not results:
        raise KeyboardInterrupt
    _tell(voice, results, get_objective(lesson.model.objective), y, len(splits), tune)
    if stopped:
        raise voice.fail("Stopped: these were finished, and nothing was written.", STOPPED)
    if out is not None:
        with writing(out) as write:
            write(pd.DataFrame(voice.facts["methods"]))
        voice.wrote("figures", out, key="out")


def _chosen(only: list[str]) -> list[Peer]:
    """Choose the peers that are installed, or those that are asked for."""
    known = {peer.name.lower(): peer for peer in PEERS}
    unknown = [name for name in only if name.lower() not in known]
    if unknown:
        raise InputError(f"--only {unknown[0]} is unknown: choose from {', '.join(peer.name for peer in PEERS)}.")
    chosen = [known[name.lower()] for name in only] or [peer for peer in PEERS if peer.installed]
    away = [peer for peer in chosen if not peer.installed]
    if away:
        package = away[0].home.split(".")[0].replace("imblearn", "imbalanced-learn")
        raise InputError(f"--only {away[0].name} needs a package that is not installed: pip install {package}.")
    return chosen


def _folds(voice: Voice, y: Mask, folds: int) -> int:
    least = int(min(y.sum(), (~y).sum()))
    if least < 4:
        raise InputError(f"The rarer class has only {least} rows: a comparison needs at least four, preferably forty.")
    if least < 2 * folds:
        voice.note(f"The rarer class has only {least} rows, so {least // 2} folds are used.")
    return min(folds, least // 2)


def judge_folds(method: Method, y: Mask, splits: Folds, advance: Callable[[], None] = lambda: None) -> dict[str, float]:
    """Sum the counts of a classifier over all folds; areas and seconds are means."""
    counts, areas, precisions, seconds = np.zeros((2, 2)), [], [], []
    for train, test in splits:
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of one fold of many
            scores, flagged = method(train, test)
        seconds.append(time.perf_counter() - started)
        counts += confusion_matrix(y[test], flagged)
        areas.append(roc_auc(y[test], scores))
        precisions.append(average_precision_score(y[test], scores))
        advance()
    tn, fp, fn, tp = counts.reshape(4, 1)  # metrics take arrays
    rates: dict[str, Metric] = {"gmean": GMean(), "recall": recall, "specificity": specificity, "precision": precision}
    return {
        **{name: float(count[0]) for name, count in (("tp", tp), ("fn", fn), ("fp", fp), ("tn", tn))},
        **{name: float(metric(tp, fn, fp, tn)[0]) for name, metric in rates.items()},
        "roc_auc": float(np.mean(areas)),
        "average_precision": float(np.mean(precisions)),
        "seconds": float(np.mean(seconds)),
    }


def _tell(voice: Voice, results: dict[str, dict[str, float]], goal: Objective, y: Mask, folds: int, tune: bool) -> None:
    """Print a table of the classifiers, best first."""
    table = pd.DataFrame.from_dict(results, orient="index").rename_axis("method")
    ranks = goal.rank(*(table[name].to_numpy() for name in ("tp", "fn", "fp", "tn")))
    shown = ["gmean", "recall", "precision", "roc_auc", "average_precision"]
    if goal.costs is not None:
        table["cost_per_1000"] = -1000.0 * ranks
        shown.insert(0, "cost_per_1000")
    table = table.iloc[np.argsort(-ranks, kind="stable")]
    rows = []
    for name, row in table.iterrows():
        cells = [f"{row[key]:,.1f}" if key == "cost_per_1000" else figure(row[key]) for key in shown]
        rows.append((name, *cells, f"{row['seconds']:.2f}"))
    others = f"at thresholds chosen for {goal} inside each fold" if tune else "at their own thresholds"
    rows_of = f"{len(y):,} rows, {y.sum():,} of them positive"
    title = f"{folds} folds of {rows_of}; sorted by {goal}; the other classifiers {others}"
    voice.table(["", *(TITLES[name] for name in shown), "seconds"], rows, title=title)
    voice.facts |= {
        "objective": str(goal),
        "folds": folds,
        "tuned": tune,
        "methods": table.reset_index().to_dict("records"),
    }
