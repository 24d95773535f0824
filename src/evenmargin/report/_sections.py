"""The parts of the page after the summary: each function gives what the template shows of one, or None."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from .._util.typing import Array
from ..display.calibration import CalibrationBins
from ..display.ranges import typical_range
from ..operating import wilson
from . import _charts as charts
from ._evidence import Counts, Evidence
from ._influence import Influence
from ._summary import trusted
from ._words import cut, name_of, percent, plural, quoted, significant, value

__all__ = [
    "calibration", "curves", "data", "features", "for_the_script", "row_tables", "scores", "search", "threshold",
]  # fmt: skip

Context = dict[str, Any]

_COLUMNS = 60  # listed by name
_BARS = 15
_SHOWN = 10  # rows in a table
_BESIDE = 4  # columns beside each row
_TRIED = 100  # settings listed


# --- 2: the data ---


def data(evidence: Evidence, notes: Iterable[object]) -> Context:
    table = evidence.table
    missing = table.missing()
    gaps = int(missing.sum())
    facts = [
        ("rows", f"{table.rows:,}"),
        ("columns", _kinds(table.kinds)),
        ("missing values", "none" if not gaps else f"{gaps:,}, {percent(gaps / table.rows / table.columns)} of all"),
    ]
    if evidence.index.size < table.rows:
        facts.insert(1, ("rows reported", f"{evidence.index.size:,}"))
    listed = [
        (table.shown[j], table.kinds[j], float(missing[j]), _typical(evidence, j))
        for j in range(min(table.columns, _COLUMNS))
    ]
    sides = (("pos", evidence.positive), ("neg", ~evidence.positive))
    balance = [
        (label, kind, float(evidence.weight[side].sum()))
        for label, (kind, side) in zip(evidence.labels, sides, strict=True)
    ]
    return {"facts": facts, "balance": balance, "columns": listed, "more": table.columns - len(listed), "notes": notes}


def _kinds(kinds: list[str]) -> str:
    said = {
        "number": ("number", "numbers"), "yes or no": ("yes or no", "yes or no"), "date": ("date", "dates"),
        "category": ("category", "categories"),
    }  # fmt: skip
    counts = Counter(kinds)
    parts = [f"{counts[kind]:,} {plural(counts[kind], *words)}" for kind, words in said.items() if counts[kind]]
    return parts[0] if len(parts) == 1 else f"{len(kinds):,}: {', '.join(parts)}"


def _typical(evidence: Evidence, j: int) -> str:
    """The range of numbers, the most frequent categories."""
    column = evidence.table.column(j, evidence.index[:100_000])
    known = column.dropna()
    if known.empty:
        return "no value"
    if evidence.table.kinds[j] == "number":
        numbers = evidence.table.numbers(j, evidence.index[:100_000])
        low, middle, high = np.nanquantile(numbers, [0.0, 0.5, 1.0])
        return f"{value(low)} to {value(high)}, half up to {value(middle)}"
    if evidence.table.kinds[j] == "date":
        return f"{value(known.min())} to {value(known.max())}"
    often = known.astype(str).value_counts()
    return ", ".join(f"{cut(word, 20)} ({count:,})" for word, count in often.iloc[:3].items()) + (
        f" and {often.size - 3:,} more" if often.size > 3 else ""
    )


# --- 3: curves ---


def curves(evidence: Evidence) -> Context:
    rates, share = evidence.chosen.rates, evidence.share
    tp, fn, fp, tn = (evidence.points[name].to_numpy() for name in Counts._fields)
    found, wrong = tp / (tp + fn), fp / (fp + tn)
    with np.errstate(invalid="ignore"):
        right = tp / (tp + fp)
    known = np.isfinite(right)
    recall, false_alarms, precision = rates["recall"], 1.0 - rates["specificity"], rates["precision"]
    title, at = (
        f"{cut(name_of(evidence.labels[0]), 24)} found (recall)",
        f"At the chosen threshold {percent(recall)} of",
    )
    roc = charts.curve_chart(
        "roc-chart", wrong, found, (false_alarms, recall), ("others flagged wrongly", title), np.array([0.0, 1.0]),
        ("ROC curve", f"{at} the class are found and {percent(false_alarms)} of the others are flagged."),
    )  # fmt: skip
    pr = charts.curve_chart(
        "pr-chart", found[known], right[known], (recall, precision if math.isfinite(precision) else 0.0),
        (title, "flagged that are right (precision)"), np.array([share, share]),
        ("Precision and recall", f"{at} the class are found, and {percent(precision)} of the flagged rows are right. "
         f"Guessing would be right for {percent(share)}."),
    )  # fmt: skip
    return {"roc": roc, "pr": pr}


# --- 4: the threshold ---


def threshold(evidence: Evidence) -> Context:
    """Where the slider stands at first."""
    probability = float(evidence.points["probability"].iloc[evidence.place])
    known = math.isfinite(probability)
    return {
        "where": percent(probability) if known else significant(evidence.rule.threshold),
        "what": "probability" if known else "score",
    }  # fmt: skip


def for_the_script(evidence: Evidence) -> Context:
    """The operating points in numbers."""
    probability = evidence.points["probability"].to_numpy()
    return {
        **{name: evidence.points[name].tolist() for name in ("threshold", *Counts._fields)},
        "probability": probability.tolist() if np.isfinite(probability).all() else None,
        "chosen": evidence.place, "before": evidence.plain_place,
        "prices": {name: getattr(evidence.prices, name) for name in ("fn", "fp", "tp", "tn")},
    }  # fmt: skip


# --- 5: scores ---


def scores(evidence: Evidence) -> Context:
    values, positive, weight = evidence.scores, evidence.positive, evidence.weight
    low, high = typical_range(values, positive, weight)
    cuts = {"chosen": evidence.rule.threshold}
    if evidence.rule.plain_threshold is not None:
        cuts["before"] = evidence.rule.plain_threshold
    low, high = min(low, *cuts.values()), max(high, *cuts.values())
    pad = 0.03 * (high - low)
    edges = np.linspace(low - pad, high + pad, 33)
    inside = values.clip(edges[0], edges[-1])
    heights = [
        np.histogram(inside[side], edges, weights=weight[side])[0] / weight[side].sum()
        for side in (positive, ~positive)
    ]
    beyond = float(weight[(values < edges[0]) | (values > edges[-1])].sum() / weight.sum())
    ticks = _probability_ticks(evidence, edges)
    labels = (name_of(evidence.labels[0]), name_of(evidence.labels[1]))
    axis = "predicted probability (spaced by score)" if ticks else "score"
    chart = charts.histogram(
        "scores-chart", edges, (heights[0], heights[1]), cuts, ticks, labels, (axis, "share of each class"),
        ("Scores of both classes", f"{percent(evidence.chosen.rates['recall'])} of {labels[0]} lie above the chosen "
         f"threshold, and {percent(1.0 - evidence.chosen.rates['specificity'])} of {labels[1]}."),
    )  # fmt: skip
    return {"chart": chart, "before": evidence.rule.plain_name if "before" in cuts else None, "beyond": beyond}


def _probability_ticks(evidence: Evidence, edges: Array) -> list[tuple[float, str]] | None:
    """Round probabilities at their scores, as far as there is room; None where scores do not determine them."""
    grid = np.linspace(edges[0], edges[-1], 500)
    at_grid = evidence.rule.probability_at(grid, evidence.scores, evidence.probabilities)
    if at_grid is None or np.ptp(at_grid) == 0:
        return None
    ticks: list[tuple[float, str]] = []
    for probability in (0.5, 0.1, 0.9, 0.01, 0.99, 0.001, 0.999, 0.2, 0.8, 0.05, 0.3, 0.7, 0.0001):
        if at_grid[0] <= probability <= at_grid[-1]:
            at = float(np.interp(probability, at_grid, grid))
            if all(abs(at - other) > 0.11 * (edges[-1] - edges[0]) for other, _ in ticks):
                ticks.append((at, f"{100 * probability:.6g} %"))
    return ticks if len(ticks) >= 2 else None


# --- 6: calibration ---


def calibration(evidence: Evidence, bins: CalibrationBins | None) -> Context | None:
    if bins is None:
        return None
    base = evidence.share * (1.0 - evidence.share)
    chart = charts.reliability_chart("reliability-chart", bins, base, name_of(evidence.labels[0]))
    table = np.column_stack([bins.prob_pred, bins.prob_true, bins.lower, bins.upper, bins.totals]).tolist()
    better = 1.0 - bins.brier / base
    return {
        "chart": chart, "table": table, "bins": bins, "base": base, "trusted": trusted(bins, evidence),
        "better": f"{percent(abs(better))} {'less' if better >= 0 else 'more'}",
    }  # fmt: skip


# --- 8: features ---


def features(evidence: Evidence, found: Influence | None) -> Context | None:
    if found is None:
        return None
    largest = float(np.abs(found.values).max()) or 1.0
    lines = [
        (evidence.table.shown[j], figure, figure / largest)
        for j, figure in zip(found.columns[:_BARS], found.values.tolist(), strict=False)
    ]
    return {"lines": lines, "found": found, "rates": _rates(evidence, found)}


def _rates(evidence: Evidence, found: Influence) -> list[tuple[str, Markup]]:
    """How the share of the class changes over the first few columns of numbers."""
    charts_of: list[tuple[str, Markup]] = []
    for j in found.columns[:12]:
        if evidence.table.kinds[j] != "number" or len(charts_of) == 4:
            continue
        numbers = evidence.table.numbers(int(j), evidence.index)
        chart = _rate(evidence, numbers, evidence.table.shown[j], len(charts_of))
        if chart is not None:
            charts_of.append((evidence.table.shown[j], chart))
    return charts_of


def _rate(evidence: Evidence, numbers: Array, name: str, place: int) -> Markup | None:
    known = np.isfinite(numbers)
    numbers, positive, weight = numbers[known], evidence.positive[known], evidence.weight[known]
    parts = int(np.clip(np.count_nonzero(positive) // 5, 4, 8))
    edges = np.unique(np.quantile(numbers, np.linspace(0, 1, parts + 1))) if numbers.size else numbers
    if edges.size < 4:
        return None
    bins = np.searchsorted(edges[1:-1], numbers, side="left")
    totals, hits, rows = (
        np.bincount(bins, weights=part, minlength=edges.size - 1) for part in (weight, weight * positive, None)
    )
    middles = np.array([np.median(numbers[bins == k]) if rows[k] else np.nan for k in range(rows.size)])
    kept = np.isfinite(middles)
    rates = (hits / np.where(totals > 0, totals, 1.0))[kept]
    low, high = wilson(rates * rows[kept], (1.0 - rates) * rows[kept])
    label = name_of(evidence.labels[0])
    return charts.rate_chart(f"rate-{place}", middles[kept], rates, low, high, evidence.share, name, label)


# --- 9: rows ---


def row_tables(evidence: Evidence, found: Influence | None) -> Context:
    columns = [int(j) for j in (range(evidence.table.columns) if found is None else found.columns)][:_BESIDE]
    order = np.argsort(-evidence.scores, kind="stable")
    missed = order[(evidence.positive & ~evidence.flagged)[order]][::-1]
    alarms = order[(~evidence.positive & evidence.flagged)[order]]
    label = quoted(evidence.labels[0])
    tables = [
        ("The riskiest rows", f"The {min(_SHOWN, order.size)} rows with the highest scores.", order),
        ("The worst misses", f"Rows that are {label} and have the lowest scores of those not flagged.", missed),
        ("The worst false alarms", f"Rows that are not {label} and have the highest scores of those flagged.", alarms),
    ]
    return {
        "names": [evidence.table.shown[j] for j in columns],
        "tables": [
            (title, note, [_row(evidence, int(i), columns) for i in of[:_SHOWN]], of.size) for title, note, of in tables
        ],
    }  # fmt: skip


def _row(evidence: Evidence, i: int, columns: list[int]) -> Context:
    place, probabilities = evidence.index[i : i + 1], evidence.probabilities
    return {
        "name": cut(evidence.names[int(place[0])], 40),
        "score": significant(float(evidence.scores[i])) if probabilities is None else percent(float(probabilities[i])),
        "truth": evidence.labels[0 if evidence.positive[i] else 1],
        "kind": "pos" if evidence.positive[i] else "neg",
        "cells": [evidence.table.column(j, place).iloc[0] for j in columns],
    }


# --- 10: the search ---


def search(evidence: Evidence) -> Context | None:
    """The settings that were tried, from the results that the model keeps."""
    found = getattr(evidence.model, "cv_results_", None)
    if isinstance(found, dict) and "params" in found and "mean_test_score" in found:
        ranks = np.asarray(found.get("rank_test_score", np.arange(len(found["params"]))))
        found = pd.DataFrame({
            "rank": ranks,
            "setting": [", ".join(f"{key} = {part!r}" for key, part in params.items()) for params in found["params"]],
            "mean score": found["mean_test_score"],
        }).sort_values("rank")  # fmt: skip
    if not isinstance(found, pd.DataFrame) or found.empty:
        return None
    titles = {"roc_auc": "ROC-AUC", "gmean": "G-mean"}
    names = [name for name in found.columns if name != "class" or found["class"].nunique() > 1]
    return {
        "names": [titles.get(name, str(name)) for name in names],
        "rows": list(found[names].head(_TRIED).itertuples(index=False)), "all": len(found),
    }  # fmt: skip
