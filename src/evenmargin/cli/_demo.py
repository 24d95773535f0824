"""`evenmargin demo`: plain and even-margin machines on scikit-learn's breast cancer samples, and a report."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from .. import EvenMarginClassifier, KernelSVM, LinearSVM, papers
from .._util.files import check_place
from .._util.typing import Array, Index, Mask
from ._compare import judge_folds
from ._fit import TITLES, tell_estimates, write_page
from ._voice import Voice

_KEPT = 40  # malignant samples
_FOLDS = 5


def rare_tumours() -> tuple[pd.DataFrame, NDArray[Any]]:
    """Measurements of 397 samples; all but 40 of the malignant ones are left out, so that one in ten is malignant."""
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
    shown = ("gmean", "recall", "specificity", "roc_auc", "seconds")
    rows: list[tuple[str, ...]] = []
    facts = voice.facts["machines"] = {}
    with voice.progress("fitting", sum(map(len, kinds.values()))) as advance:
        for kind, of_kind in kinds.items():
            rows.append((kind, *[""] * len(shown)))
            for name, machine in of_kind.items():
                method = partial(_scored, make_pipeline(StandardScaler(), machine), X.to_numpy(), malignant)
                method(*folds[0])  # load the compiled loops before the clock runs
                figures = judge_folds(method, malignant, folds)
                facts[f"{kind}: {name}"] = {key: figures[key] for key in shown}
                rows.append((f"  {name}", *(f"{figures[key]:.3f}" for key in shown)))
                advance(1)
    title = f"Finding {malignant.sum()} malignant samples among {len(y)}, cross-validated in {_FOLDS} folds"
    voice.table(["machine", *(TITLES[name] for name in shown)], rows, title)
    model = EvenMarginClassifier(random_state=seed, verbose=int(voice.lively)).fit(X, y)
    tell_estimates(voice, model, int(malignant.sum()))
    write_page(
        voice, out, model, X, y, training=True, title="Malignant tissue samples",
        source={"file": "scikit-learn's breast cancer samples"}, hint="  (open it in a browser)",
        notes=[f"Only {_KEPT} of the malignant samples are kept, so that they are rare."],
    )  # fmt: skip


def _scored(machine: Pipeline, X: Array, y: Mask, train: Index, test: Index) -> tuple[Array, Mask]:
    """Score rows that were held out, and predict their classes."""
    machine.fit(X[train], y[train])
    return machine.decision_function(X[test]), machine.predict(X[test])
