"""The sections of the page: each function gives what the template shows in one of them, or None to leave it out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from .._util.typing import Array
from ..display.binning import CalibrationBins, calibration_bins, typical_range
from ..metrics import rate
from ..operating import wilson
from . import _charts as charts
from ._boundary import boundary
from ._evidence import Counts, Evidence
from ._influence import Influence, influence
from ._words import amount, cut, name_of, percent, plural, quoted, significant, value

__all__ = ["sections", "slider"]

Context = dict[str, Any]

_FEW = 30  # rows of the class below which figures are rough
_WIDE = 0.25  # of an interval
_COLUMNS = 60  # listed by name
_BARS = 15
_SHOWN = 10  # rows in a table
_BESIDE = 4  # columns beside each row
_TRIED = 100  # settings listed


_TITLES = {
    "summary": "Summary", "data": "Data", "curves": "Curves", "threshold": "Threshold", "scores": "Scores",
    "calibration": "Probabilities", "boundary": "Boundary", "features": "Columns", "rows": "Rows", "search": "Search",
    "making": "How it was made",
}  # fmt: skip


def sections(evidence: Evidence, notes: Iterable[object], seed: int) -> Context:
    """What the template shows, by section, and the list of contents."""
    bins, found, goal = _reliability(evidence), influence(evidence, seed), evidence.objective
    optional = {
        "calibration": _calibration(evidence, bins),
        "boundary": boundary(evidence, found, seed),
        "features": _features(evidence, found),
        "search": _search(evidence),
    }
    return optional | {
        "contents": [(name, title) for name, title in _TITLES.items() if optional.get(name, title) is not None],
        "model": type(evidence.model).__name__,
        "evidence": evidence,
        "estimated": math.isfinite(evidence.expected["recall"].value),
        "cautions": _cautions(evidence, bins),
        "goal": None if goal is None else cut(goal, 80),
        "data_notes": _data(evidence, [cut(note, 1000) for note in notes]),
        "curves": _curves(evidence),
        "scores": _scores(evidence),
        "tables": _row_tables(evidence, found),
    }


# --- what to beware of ---


def _reliability(evidence: Evidence) -> CalibrationBins | None:
    """Predicted against observed shares; None for a model without probabilities."""
    if evidence.probabilities is None:
        return None
    weight = evidence.weight
    rows = np.ones(weight.size)  # intervals go by rows, not by what they weigh
    return calibration_bins(evidence.probabilities, evidence.positive, weight, 10, 5.0 * float(weight.mean()), rows)


def _trusted(bins: CalibrationBins, evidence: Evidence) -> bool:
    """Whether probabilities are no worse than the base rate, and within most of their intervals."""
    base = evidence.share * (1.0 - evidence.share)
    outside = np.count_nonzero((bins.prob_pred < bins.lower) | (bins.prob_pred > bins.upper))
    far = bins.ece > 0.5 * base and outside >= max(2, bins.prob_pred.size // 3)
    return bool(bins.brier <= base and not far)


def _cautions(evidence: Evidence, bins: CalibrationBins | None) -> list[str]:
    """Warnings in whole sentences, the most important ones first."""
    sentences, expected, label = [], evidence.expected, quoted(evidence.labels[0])
    count, recall, area = evidence.positives, expected["recall"], expected["roc_auc"]
    if count < _FEW:
        verb = plural(count, "row is", "rows are")
        sentences.append(f"Only {count} {verb} {label}: all figures are rough. Trust the ranges, not the values.")
    elif recall.high - recall.low > _WIDE:
        sentences.append(f"How many cases of {label} the model finds is only roughly known: more such rows would help.")
    if area.low <= 0.5:
        sentences.append("The model may be no better than guessing: the range of its ROC-AUC includes one half.")
    better = min(evidence.extremes, key=lambda group: evidence.extremes[group])
    if expected["cost"].value > evidence.extremes[better]:
        sentences.append(f"At these prices, flagging {better} costs less than using the model at its threshold.")
    if bins is not None and not _trusted(bins, evidence):
        sentences.append("The probabilities are badly calibrated: use them to rank rows, not as frequencies.")
    sentences += _of_the_model(evidence)
    if evidence.weighted:
        sentences.append("Rows are weighted: counts are sums of weights.")
    return sentences


def _of_the_model(evidence: Evidence) -> list[str]:
    """What the model itself reports, and whether its predictions are those of its scores and threshold."""
    sentences, goal, chosen = [], evidence.objective, evidence.chosen
    if goal is not None and goal.has_floor and not goal.reached(*np.array(chosen[:3])[:, None])[0]:
        sentences.append(f"The goal, {goal}, is not reached on these rows.")
    for title, text in getattr(getattr(evidence.model, "summary_", None), "lines", []):
        if title.strip() == "note" and text.startswith("time was short"):
            sentences.append(f"The fit ran out of time: {text.split(': ', 1)[-1]}.")
    differ = _disagreements(evidence)
    if differ:
        sentences.append(
            f"The model's own predictions differ from those of its scores and threshold for {differ:,} "
            f"{plural(differ, 'row', 'rows')}."
        )
    return sentences


def _disagreements(evidence: Evidence) -> int:
    """How many rows `predict` puts in the other class: some models predict by more than their scores."""
    if evidence.training or hasattr(evidence.model, "oof_scores_") or not hasattr(evidence.model, "predict"):
        return 0
    predicted = np.asarray(evidence.model.predict(evidence.X)) == evidence.labels[0]
    return int(np.count_nonzero(predicted != evidence.flagged))


# --- the data ---


def _data(evidence: Evidence, notes: Iterable[object]) -> Context:
    table = evidence.table
    missing = table.missing()
    gaps = int(missing.sum())
    facts = [("rows", f"{table.rows:,}")]
    if evidence.index.size < table.rows:
        facts.append(("rows reported", f"{evidence.index.size:,}"))
    facts.append(("columns", _kinds(table.kinds)))
    share = percent(gaps / table.rows / table.columns)
    facts.append(("missing values", f"{gaps:,}, {share} of all" if gaps else "none"))
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
    plurals = {"number": "numbers", "yes or no": "yes or no", "date": "dates", "category": "categories"}
    counts = Counter(kinds)
    parts = [f"{counts[kind]:,} {plural(counts[kind], kind, many)}" for kind, many in plurals.items() if counts[kind]]
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
        return f"{value(low)} to {value(high)}, median {value(middle)}"
    if evidence.table.kinds[j] == "date":
        return f"{value(known.min())} to {value(known.max())}"
    often = known.astype(str).value_counts()
    listed = ", ".join(f"{cut(word, 20)} ({count:,})" for word, count in often.iloc[:3].items())
    return f"{listed} and {often.size - 3:,} more" if often.size > 3 else listed


# --- curves ---


def _curves(evidence: Evidence) -> Context:
    rates, share = evidence.chosen.rates, evidence.share
    tp, fn, fp, tn = (evidence.points[name].to_numpy() for name in Counts._fields)
    found, wrong, right = rate(tp, fn), rate(fp, tn), rate(tp, fp)
    known = np.isfinite(right)
    recall, false_alarms, precision = rates["recall"], 1.0 - rates["specificity"], rates["precision"]
    title = f"{cut(name_of(evidence.labels[0]), 24)} found (recall)"
    at = f"At the chosen threshold {percent(recall)} of the class is found, and"
    words = ("ROC curve", f"{at} {percent(false_alarms)} of the others are flagged.")
    frame = charts.Frame("roc-chart", axes=("others wrongly flagged", title), words=words)
    roc = charts.curve_chart(frame, wrong, found, (false_alarms, recall), (0.0, 1.0))
    right_share = f"{percent(precision)} of the flagged rows are right. Guessing would be right for {percent(share)}."
    words = ("Precision and recall", f"{at} {right_share}")
    frame = charts.Frame("pr-chart", axes=(title, "flagged rows that are right (precision)"), words=words)
    chosen = (recall, precision if math.isfinite(precision) else 0.0)
    return {"roc": roc, "pr": charts.curve_chart(frame, found[known], right[known], chosen, (share, share))}


# --- the threshold ---


def slider(evidence: Evidence) -> Context:
    """The operating points in numbers, and in words what the page shows at each of them, by the ids of its elements."""
    points, names, prices = evidence.points, list(Counts._fields), evidence.prices
    known = bool(np.isfinite(points["probability"]).all())
    where = points["probability"].map(percent) if known else points["threshold"].map(significant)
    shown = [_counts_in_words(Counts(*point)) for point in points[names].itertuples(index=False)]
    return {
        **points[["threshold", *names]].to_dict("list"),
        "probability": points["probability"].tolist() if known else None,
        "shown": {"where": where.tolist(), **pd.DataFrame(shown).to_dict("list")},
        "chosen": evidence.place,
        "before": evidence.plain_place,
        "prices": {name: getattr(prices, name) for name in names},
    }


def _counts_in_words(counts: Counts) -> dict[str, str]:
    rates = {f"r-{name}": percent(rate) for name, rate in counts.rates.items()}
    of_rows = {f"n-{name}": amount(count) for name, count in counts._asdict().items()}
    of_1000 = {f"k-{name}": amount(counts.per_1000(count)) for name, count in counts._asdict().items()}
    return rates | of_rows | of_1000 | {"k-flagged": amount(counts.per_1000(counts.tp + counts.fp))}


# --- scores ---


def _scores(evidence: Evidence) -> Context:
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
    label, other = (name_of(label) for label in evidence.labels)
    rates = evidence.chosen.rates
    above = f"{percent(rates['recall'])} of {label} and {percent(1.0 - rates['specificity'])} of {other}"
    frame = charts.Frame(
        "scores-chart",
        axes=("predicted probability (spaced by score)" if ticks else "score", "share of each class"),
        words=("Scores of both classes", f"{above} lie above the chosen threshold."),
        height=290,
        top=32.0,
    )
    chart = charts.histogram(frame, edges, [(label, heights[0]), (other, heights[1])], cuts, ticks)
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


# --- probabilities ---


def _calibration(evidence: Evidence, bins: CalibrationBins | None) -> Context | None:
    if bins is None:
        return None
    base = evidence.share * (1.0 - evidence.share)
    chart = charts.reliability_chart(bins, base, name_of(evidence.labels[0]))
    table = np.column_stack([bins.prob_pred, bins.prob_true, bins.lower, bins.upper, bins.totals]).tolist()
    gain = 1.0 - bins.brier / base
    better = f"{percent(abs(gain))} {'less' if gain >= 0 else 'more'}"
    found = {"chart": chart, "table": table, "bins": bins, "base": base, "better": better}
    return found | {"trusted": _trusted(bins, evidence)}


# --- columns ---


def _features(evidence: Evidence, found: Influence | None) -> Context | None:
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
    title = f"Share of {name_of(evidence.labels[0])} by {name}"
    return charts.rate_chart(f"rate-{place}", title, middles[kept], rates, (low, high), evidence.share)


# --- rows ---


def _row_tables(evidence: Evidence, found: Influence | None) -> Context:
    columns = [int(j) for j in (range(evidence.table.columns) if found is None else found.columns)][:_BESIDE]
    order = np.argsort(-evidence.scores, kind="stable")
    missed = order[(evidence.positive & ~evidence.flagged)[order]][::-1]
    alarms = order[(~evidence.positive & evidence.flagged)[order]]
    label, score = quoted(evidence.labels[0]), "score" if evidence.probabilities is None else "probability"
    tables = [
        ("The riskiest rows", f"The {min(_SHOWN, order.size)} rows with the highest scores.", order),
        ("The worst misses", f"Rows of {label} that are not flagged, the lowest scores first.", missed),
        ("The worst false alarms", f"Flagged rows that are not {label}, the highest scores first.", alarms),
    ]
    listed = [(title, note, [_row(evidence, i, columns) for i in of[:_SHOWN]], of.size) for title, note, of in tables]
    names = [(evidence.table.shown[j], "number") for j in columns]
    return {"heads": [("row", ""), (score, "number"), ("truth", ""), *names], "tables": listed}


def _row(evidence: Evidence, i: np.intp, columns: list[int]) -> Context:
    place, probabilities = evidence.index[i : i + 1], evidence.probabilities
    return {
        "name": cut(evidence.names[int(place[0])], 40),
        "score": significant(float(evidence.scores[i])) if probabilities is None else percent(float(probabilities[i])),
        "truth": evidence.labels[0 if evidence.positive[i] else 1],
        "kind": "pos" if evidence.positive[i] else "neg",
        "cells": [evidence.table.column(j, place).iloc[0] for j in columns],
    }


# --- the search ---


def _search(evidence: Evidence) -> Context | None:
    """The settings that were tried, if the model keeps its results."""
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
    heads = [(titles.get(name, str(name)), "") for name in names]
    return {"heads": heads, "rows": list(found[names].head(_TRIED).itertuples(index=False)), "all": len(found)}
