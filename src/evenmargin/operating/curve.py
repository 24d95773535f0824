"""The operating curve: what every threshold does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .._input.scores import as_real
from ..metrics import METRICS, rate
from .counts import LabelledScores, hits_and_misses
from .intervals import wilson
from .objectives import ObjectiveLike, get_objective

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["operating_curve"]


def operating_curve(
    scores: ArrayLike,
    positive: ArrayLike,
    sample_weight: ArrayLike | None = None,
    objective: ObjectiveLike | None = None,
    *,
    max_points: int = 1000,
) -> pd.DataFrame:
    """What every threshold does: a table with a row for each, in ascending order.

    Parameters
    ----------
    scores, positive, sample_weight
        As in `choose_threshold`.
    objective : default=None
        As in `get_objective`. Adds the column `value` (to be maximised), for costs
        also `cost` (in total) and `cost_per_row`, for a floor `reached`.
    max_points : int, default=1000
        If more thresholds than this give different predictions, take this many of
        them, spread over the ranks of both classes, densely at their ends.

    Returns
    -------
    DataFrame
        `threshold`; the weights `tp`, `fn`, `fp`, `tn`; `flagged`, the share of rows
        above the threshold; `recall`, `specificity`, `precision` (NaN where no row
        is flagged), `gmean`, `balanced_accuracy`, `f1`, `mcc`; and 95 % Wilson
        intervals, `recall_low`, `recall_high` and so on.

    Examples
    --------
    >>> from evenmargin.operating import operating_curve
    >>> curve = operating_curve([-1.0, -0.5, 0.0, 0.5], [0, 0, 1, 1])
    >>> curve[["threshold", "tp", "fp", "recall", "specificity"]]
       threshold   tp   fp  recall  specificity
    0     -1.015  2.0  2.0     1.0          0.0
    1     -0.750  2.0  1.0     1.0          0.5
    2     -0.250  2.0  0.0     1.0          1.0
    3      0.250  1.0  0.0     0.5          1.0
    4      0.515  0.0  0.0     0.0          1.0
    """
    import pandas as pd

    if not as_real(max_points) >= 10:
        raise ValueError(f"max_points={max_points!r} must be a number of thresholds, 10 or more.")
    sample = LabelledScores.of(scores, positive, sample_weight)
    threshold = sample.thresholds(int(max_points))
    tp, fn, fp, tn = counts = sample.counts(threshold)
    rates = hits_and_misses(counts)
    columns = {"threshold": threshold, "tp": tp, "fn": fn, "fp": fp, "tn": tn}
    columns["flagged"] = (tp + fp) / (tp + fn + fp + tn)
    columns |= {name: rate(hits, misses) for name, (hits, misses) in rates.items()}
    columns |= {name: METRICS[name](*counts) for name in ("gmean", "balanced_accuracy", "f1", "mcc")}
    if objective is not None:
        goal = get_objective(objective)
        columns["value"] = goal(*counts)
        if goal.costs is not None:
            columns["cost"] = 0.0 - columns["value"] * sum(counts)
            columns["cost_per_row"] = 0.0 - columns["value"]
        if goal.floor is not None:
            columns["reached"] = np.asarray(goal.reached(*counts[:3]))
    for name, (hits, misses) in rates.items():
        columns[f"{name}_low"], columns[f"{name}_high"] = wilson(hits, misses)
    return pd.DataFrame(columns)
