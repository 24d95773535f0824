"""`evenmargin demo`: plain and even-margin machines on bundled data, and a report.

The data are scikit-learn's breast cancer samples with all but 40 of the malignant ones left
out, so that one in ten is malignant.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import confusion_matrix, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .. import EvenMarginClassifier, KernelSVM, LinearSVM, papers
from .._util.files import check_place
from .._util.typing import Array, Mask
from ..report import write_report
from ._fit import made_by, tell_estimates
from ._voice import Voice

__all__ = ["demo", "rare_tumours"]

_KEPT = 40  # malignant samples
_FOLDS = 5


def rare_tumours() -> tuple[pd.DataFrame, NDArray[Any]]:
    """Measurements of 397 samples, of which 40 are malignant."""
    data = load_breast_cancer(as_frame=True)
    labels = np.where(data.target == 0, "malignant", "benign")
    rows = np.sort(np.concatenate([np.flatnonzero(labels == "benign"), np.flatnonzero(labels == "malignant")[:_KEPT]]))
    return data.data.iloc[rows].reset_index(drop=True), labels[rows]


def machines(seed: int) -> dict[str, dict[str, Any]]:
    """The machines of the demonstration, by kind and name."""
    return {
        "plain": {
            "hinge": LinearSVM(C=0.01, random_state=seed),
            "log loss": LinearSVM(C=0.01, loss="log", random_state=seed),
            "RBF kernel": KernelSVM(C=0.3),
        },
        "even margin": {
            "hinge": LinearSVM(C=0.01, class_weight="balanced", random_state=seed),
            "log loss": LinearSVM(C=0.01, loss="log", class_weight="balanced", random_state=seed),
            "Pegasos": papers.cost_sensitive_pegasos(lam=0.01, b=-1.0, T=20_000, random_state=seed),
            "Blinex": papers.blinex_linear(a=2.0, b=0.1, c=10.0, random_state=seed).set_params(class_weight="balanced"),
            "RBF kernel": KernelSVM(C=0.3, class_weight="balanced"),
            "WKSGD": papers.wksgd(lam=1e-6, random_state=seed),
            "z-SVM": papers.zsvm(C=10.0, gamma="scale", cv=5),
        },
    }


def demo(voice: Voice, *, out: Path, seed: int) -> None:
    """Compare machines, fit the one that needs no tuning, and write its report."""
    check_place(out)
    X, y = rare_tumours()
    malignant = y == "malignant"
    folds = list(StratifiedKFold(_FOLDS, shuffle=True, random_state=seed).split(X, malignant))
    kinds = {**machines(seed), "no tuning": {"automatic": EvenMarginClassifier(random_state=seed)}}
    rows: list[tuple[str, ...]] = []
    facts = {}
    with voice.progress("fitting", sum(map(len, kinds.values()))) as advance:
        for kind, of_kind in kinds.items():
            rows.append((kind, "", "", "", "", ""))
            for name, machine in of_kind.items():
                figures = _figures(make_pipeline(StandardScaler(), machine), X.to_numpy(), malignant, folds)
                rows.append((f"  {name}", *(f"{figure:.3f}" for figure in figures.values())))
                facts[f"{kind}: {name}"] = figures
                advance(1)
    voice.facts["machines"] = facts
    title = f"{malignant.sum()} malignant samples among {len(y)}, found in {_FOLDS} folds"
    voice.table(["machine", "G-mean", "recall", "specificity", "ROC-AUC", "seconds"], rows, title=title)
    model = EvenMarginClassifier(random_state=seed, verbose=int(voice.lively)).fit(X, y)
    tell_estimates(voice, model, int(malignant.sum()))
    with voice.busy("writing the report"):
        write_report(
            out, model, X, y, training=True, title="Malignant tissue samples",
            provenance=made_by("scikit-learn's breast cancer samples"),
            notes=[f"Only {_KEPT} of the malignant samples are kept, so that they are rare."],
        )  # fmt: skip
    voice.done = True
    voice.facts["report"] = str(out)
    voice.say(f"report: {out}  (open it in a browser)")


def _figures(machine: Any, X: Array, y: Mask, folds: list[tuple[NDArray[Any], NDArray[Any]]]) -> dict[str, float]:
    """Figures on rows that were held out, and the mean seconds of a fit."""
    counts, areas, seconds = np.zeros((2, 2)), [], []
    machine.fit(X[folds[0][0]], y[folds[0][0]])  # load the compiled loops before the clock runs
    for train, test in folds:
        started = time.perf_counter()
        machine.fit(X[train], y[train])
        seconds.append(time.perf_counter() - started)
        counts += confusion_matrix(y[test], machine.predict(X[test]))
        areas.append(roc_auc_score(y[test], machine.decision_function(X[test])))
    (tn, fp), (fn, tp) = counts
    recall, specificity = tp / (tp + fn), tn / (tn + fp)
    return {
        "gmean": float(np.sqrt(recall * specificity)),
        "recall": float(recall),
        "specificity": float(specificity),
        "roc_auc": float(np.mean(areas)),
        "seconds": float(np.mean(seconds)),
    }
