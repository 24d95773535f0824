"""The grid of the pegasos paper's search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._util.typing import MatrixLike, RandomState, VectorLike
from ..papers import cost_sensitive_pegasos
from ..stopping import AUCHalting, improvement_waits, waiting_time


def pegasos_grid(
    X: MatrixLike,
    y: VectorLike,
    *,
    lam: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3),
    b: Sequence[float] = tuple(np.linspace(-2.0, 2.0, 10).tolist()),
    every: Sequence[int] | None = None,
    most: int | None = None,
    T: int = 1000,
    random_state: RandomState = None,
) -> dict[str, list[Any]]:
    """The grid of the pegasos paper, for `papers.cost_sensitive_pegasos`: λ, the bias, and X.

    X is the number of steps between two checks of ROC-AUC: the whole numbers in a
    confidence interval of the mean wait for an improvement (`stopping.waiting_time`),
    from the waits of one run here.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The rows of the run that waits are taken from.
    y : array-like of shape (n_samples,)
        Two classes.
    lam : sequence of float, default=(1e-4, …, 1e3)
    b : sequence of float, default=ten points in [−2, 2]
    every : sequence of int or None, default=None
        X. None: from the waits.
    most : int or None, default=None
        Take at most this many of the whole numbers, evenly spaced.
    T : int, default=1000
        Steps of the run.
    random_state : int, RandomState or None, default=None

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
                "scale the features, raise T, or set every."
            )
        steps = waiting_time(waits).integers()
    else:
        steps = np.asarray(every)
    if most is not None and steps.size > most:
        steps = np.unique(np.linspace(steps[0], steps[-1], max(1, most)).round().astype(np.int64))
    return {"alpha": list(lam), "intercept": list(b), "stopping": [AUCHalting(every=int(step)) for step in steps]}
