"""The threshold that is best for an objective, on smoothed counts; and what every threshold does.

With few positive rows the best threshold of a sample is mostly luck: the metric is a step function, and noise decides
where its highest step is. `choose_threshold` therefore smooths the scores of each class by a Gaussian of the width
that Silverman's rule gives,

    h = 0.9 · min(sd, IQR/1.34) · n^(−1/5),

and takes the best threshold of the smoothed counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._input.scores import as_real
from .._util.typing import Array
from ..adjust import best_threshold, run_around
from ..metrics import METRICS, TOLERANCE, rate
from .counts import LabelledScores, between, hits_and_misses
from .intervals import wilson
from .objectives import Objective, ObjectiveLike, get_objective

if TYPE_CHECKING:
    import pandas as pd


_GROUPS = 1000  # groups of neighbouring scores that represent a class when it is smoothed
_GRID = 1000  # thresholds on an even grid, besides those between scores
_CLOSER = 129  # thresholds between the neighbours of the best one


class Choice(NamedTuple):
    """A threshold, and its effect on the rows it was chosen on: the counts, and the value that is maximised.

    Where no threshold reaches the floor of the objective, it is the nearest one and `reached` is False.
    """

    threshold: float
    value: float
    reached: bool
    tp: float
    fn: float
    fp: float
    tn: float


def choose_threshold(
    scores: ArrayLike,
    positive: ArrayLike,
    objective: ObjectiveLike = "gmean",
    sample_weight: ArrayLike | None = None,
    *,
    smooth: bool = True,
) -> Choice:
    """The threshold that is best for an objective.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Of rows that the machine was not trained on.
    positive : array-like of shape (n,)
        True (or above 0) for positive rows.
    objective : default="gmean"
        As in `get_objective`.
    sample_weight : array-like of shape (n,), default=None
        A weight of 2 counts the row twice.
    smooth : bool, default=True
        Smooth the scores of each class first, which does better on new rows. A
        floor must then be reached by smoothed and exact counts, where some threshold
        does both. A floor with a confidence, or of 1, is not smoothed. False: the
        middle of the thresholds that are best for the rows as they are.

    Returns
    -------
    Choice
        The threshold, its value, and the counts there.

    Examples
    --------
    >>> from evenmargin.operating import choose_threshold
    >>> scores, positive = [-1.2, -1.0, -0.8, -0.2, 0.1, 0.4], [0, 0, 0, 1, 0, 1]
    >>> choose_threshold(scores, positive, {"recall": 0.9}, smooth=False)
    Choice(threshold=-0.5, value=0.75, reached=True, tp=2.0, fn=0.0, fp=1.0, tn=3.0)
    """
    goal, sample = get_objective(objective), LabelledScores.of(scores, positive, sample_weight)
    exact = goal.floor is not None and (goal.floor.confidence is not None or goal.floor.level == 1)
    threshold = _smooth_threshold(sample, goal) if smooth and not exact else None
    if threshold is None:
        values, weight, true = sample.together()
        threshold = best_threshold(values, true, goal.rank, weight, place="middle").threshold
    counts = sample.counts(np.array([threshold]))
    value, reached = goal(*counts), goal.reached(*counts[:3])
    return Choice(threshold, float(value[0]), bool(reached[0]), *(float(count[0]) for count in counts))


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
    >>> curve[["threshold", "tp", "fp", "recall", "specificity"]].head(3)
       threshold   tp   fp  recall  specificity
    0     -1.015  2.0  2.0     1.0          0.0
    1     -0.750  2.0  1.0     1.0          0.5
    2     -0.250  2.0  0.0     1.0          1.0
    """
    import pandas as pd

    if not as_real(max_points) >= 10:
        raise ValueError(f"max_points={max_points!r} must be a number of at least 10.")
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


def _smooth_threshold(sample: LabelledScores, objective: Objective) -> float | None:
    """The best threshold of the smoothed counts: on a grid first, then closer around the best of it.

    None where there is no width to smooth by, or where exact counts reach a floor and smoothed ones do not.
    """
    widths = (sample.positive.width, sample.negative.width)
    if not max(widths) > 0:
        return None
    # A class of one score has no width of its own, and takes the other's.
    wide, wide_negative = (width or max(widths) for width in widths)
    groups = sample.grouped(_GROUPS)
    values = groups.distinct
    margin = 3.0 * max(widths)
    least = min(1.0, 0.5 * sample.positive.total)

    def ranks(thresholds: Array) -> Array:
        ups = groups.positive.smoothed_counts(thresholds, wide)
        downs = groups.negative.smoothed_counts(thresholds, wide_negative)
        rank = objective.rank(*ups, *downs)
        if objective.floor is None:
            return rank
        # The precision of less than a row is that of the Gaussians' tails, not of rows.
        rank = np.where(ups[0] + downs[0] < least, -np.inf, rank)
        return np.where(objective.reached(*sample.counts(thresholds)[:3]), rank, rank - 4.0)

    grid = np.union1d(between(values), np.linspace(values[0] - margin, values[-1] + margin, _GRID))
    rank = ranks(grid)
    if np.isneginf(rank).all():
        raise ValueError(f"objective {objective} is NaN or −inf at every threshold, so there is no best one.")
    below_floor = objective.floor is not None and rank.max() < 0
    if below_floor and objective.reached(*sample.counts(sample.thresholds())[:3]).any():
        return None
    first, last = _best_run(rank)
    if first == last:
        grid = np.linspace(grid[max(first - 1, 0)], grid[min(last + 1, grid.size - 1)], _CLOSER)
        first, last = _best_run(ranks(grid))
    return float(0.5 * (grid[first] + grid[last]))


def _best_run(rank: Array) -> tuple[int, int]:
    """First and last place of the neighbours that share the highest rank."""
    best = int(np.argmax(rank))
    slack = TOLERANCE * abs(rank[best]) if np.isfinite(rank[best]) else 0.0
    return run_around(rank >= rank[best] - slack, best)
