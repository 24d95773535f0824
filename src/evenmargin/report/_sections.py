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
from ..display._common import fence
from ..operating import wilson
from . import _charts as charts
from ._evidence import Evidence
from ._influence import Influence
from ._summary import Reliability, quoted
from ._words import amount, cut, fixed, name_of, percent, plural, significant, typed, value

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


def data(evidence: Evidence, notes: Iterable[Any]) -> Context:
    table, weight, positive = evidence.table, evidence.weight, evidence.positive
    missing = table.missing()
    gaps = int(missing.sum())
    facts = [
        ("rows", f"{table.rows:,}"),
        ("columns", _kinds(table.kinds)),
        ("missing values", "none" if not gaps else f"{gaps:,}, {percent(gaps / table.rows / table.columns)} of all"),
    ]
    if evidence.index.size < table.rows:
        facts.insert(1, ("rows reported", f"{evidence.index.size:,}"))
    sides = [(positive, "pos", evidence.labels[0]), (~positive, "neg", evidence.labels[1])]
    total = float(weight.sum())
    balance = [
        {
            "label": name_of(label), "kind": kind, "count": amount(float(weight[side].sum())),
            "share": percent(float(weight[side].sum()) / total),
            "bar": charts.bar(float(weight[side].sum()) / total, kind),
        }
        for side, kind, label in sides
    ]  # fmt: skip
    listed = [
        (table.shown[j], table.kinds[j], amount(float(missing[j])), _typical(evidence, j))
        for j in range(min(table.columns, _COLUMNS))
    ]
    more = table.columns - len(listed)
    return {"facts": facts, "balance": balance, "columns": listed, "more": more, "notes": [cut(n, 1000) for n in notes]}


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
    points, chosen, share = evidence.points, evidence.chosen, evidence.share
    tp, fn, fp, tn = (points[name].to_numpy() for name in ("tp", "fn", "fp", "tn"))
    recall, wrong = tp / (tp + fn), fp / (fp + tn)
    with np.errstate(invalid="ignore"):
        precision = tp / (tp + fp)
    label = name_of(evidence.labels[0])
    area = evidence.expected["roc_auc"]
    some = np.isfinite(precision)
    at = (chosen.recall, chosen.precision if math.isfinite(chosen.precision) else 0.0)
    roc = charts.curve_chart(
        "roc-chart", wrong, recall, (1.0 - chosen.specificity, chosen.recall),
        ("others flagged wrongly", f"{cut(label, 24)} found (recall)"), np.array([0.0, 1.0]),
        ("ROC curve", f"At the chosen threshold {percent(chosen.recall)} of the class are found "
         f"and {percent(1.0 - chosen.specificity)} of the others flagged."),
    )  # fmt: skip
    pr = charts.curve_chart(
        "pr-chart", recall[some], precision[some], at,
        (f"{cut(label, 24)} found (recall)", "flagged that are right (precision)"), np.array([share, share]),
        ("Precision and recall", f"At the chosen threshold {percent(chosen.recall)} of the class are found, and "
         f"{percent(chosen.precision)} of what is flagged is right. Guessing would be right in {percent(share)}."),
    )  # fmt: skip
    said = f"{area.value:.3f} ({area.low:.3f} to {area.high:.3f})" if math.isfinite(area.value) else "unknown"
    return {"roc": roc, "pr": pr, "area": said}


# --- 4: the threshold ---


def threshold(evidence: Evidence) -> Context:
    """What the slider shows where it stands at first, and what it needs to move."""
    points, counts, total = evidence.points, evidence.chosen, evidence.chosen.total
    chance = float(points["probability"].iloc[evidence.place])
    scaled = {name: amount(1000.0 * getattr(counts, name) / total) for name in ("tp", "fn", "fp", "tn")}
    known = bool(np.isfinite(chance))
    return {
        "where": percent(chance) if known else significant(evidence.judge.threshold),
        "what": "probability" if known else "score",
        "place": evidence.place, "last": len(points) - 1,
        "counts": {name: amount(getattr(counts, name)) for name in ("tp", "fn", "fp", "tn")},
        "scaled": scaled, "flagged": amount(1000.0 * (counts.tp + counts.fp) / total),
        "rates": {name: percent(getattr(counts, name)) for name in ("recall", "precision", "specificity", "gmean")},
        "cost": amount(counts.cost(evidence.prices)), "fn": typed(evidence.prices.fn),
        "fp": typed(evidence.prices.fp),
        "goal": None if evidence.objective is None else cut(evidence.objective, 80),
        "positive": name_of(evidence.labels[0]), "negative": name_of(evidence.labels[1]),
    }  # fmt: skip


def for_the_script(evidence: Evidence) -> Context:
    """The operating points in numbers."""
    points = evidence.points
    listed = {name: points[name].tolist() for name in ("threshold", "tp", "fn", "fp", "tn")}
    chances = points["probability"].to_numpy()
    known = bool(np.isfinite(chances).all())
    return listed | {
        "probability": chances.tolist() if known else None, "chosen": evidence.place, "before": evidence.plain_place,
        "prices": {name: getattr(evidence.prices, name) for name in ("fn", "fp", "tp", "tn")},
    }  # fmt: skip


# --- 5: scores ---


def scores(evidence: Evidence) -> Context:
    values, positive, weight = evidence.scores, evidence.positive, evidence.weight
    low, high = fence(values, positive, weight)
    cuts = {"chosen": evidence.judge.threshold}
    if evidence.judge.plain_cut is not None:
        cuts["before"] = evidence.judge.plain_cut
    low, high = min(low, *cuts.values()), max(high, *cuts.values())
    pad = 0.03 * (high - low)
    edges = np.linspace(low - pad, high + pad, 33)
    inside = values.clip(edges[0], edges[-1])
    heights = [
        np.histogram(inside[side], edges, weights=weight[side])[0] / weight[side].sum()
        for side in (positive, ~positive)
    ]
    beyond = float(weight[(values < edges[0]) | (values > edges[-1])].sum() / weight.sum())
    ticks = _chance_ticks(evidence, edges)
    labels = (name_of(evidence.labels[0]), name_of(evidence.labels[1]))
    axis = "predicted probability (spaced by score)" if ticks else "score"
    chart = charts.histogram(
        "scores-chart", edges, (heights[0], heights[1]), cuts, ticks, labels, (axis, "share of each class"),
        ("Scores of both classes", f"Of {labels[0]} {percent(evidence.chosen.recall)} lie above the chosen threshold, "
         f"of {labels[1]} {percent(1.0 - evidence.chosen.specificity)}."),
    )  # fmt: skip
    return {
        "chart": chart, "before": evidence.judge.plain_name if "before" in cuts else None,
        "beyond": percent(beyond) if beyond > 0 else None, "labels": labels,
    }  # fmt: skip


def _chance_ticks(evidence: Evidence, edges: Array) -> list[tuple[float, str]] | None:
    """Round probabilities at their scores, those that have room; None where scores do not tell them."""
    grid = np.linspace(edges[0], edges[-1], 500)
    chances = evidence.judge.chance_at(grid, evidence.scores, evidence.chances)
    if chances is None or np.ptp(chances) == 0:
        return None
    ticks: list[tuple[float, str]] = []
    for chance in (0.5, 0.1, 0.9, 0.01, 0.99, 0.001, 0.999, 0.2, 0.8, 0.05, 0.3, 0.7, 0.0001):
        if chances[0] <= chance <= chances[-1]:
            at = float(np.interp(chance, chances, grid))
            if all(abs(at - other) > 0.11 * (edges[-1] - edges[0]) for other, _ in ticks):
                ticks.append((at, f"{100 * chance:.6g} %"))
    return ticks if len(ticks) >= 2 else None


# --- 6: calibration ---


def calibration(evidence: Evidence, found: Reliability | None) -> Context | None:
    if found is None:
        return None
    label = name_of(evidence.labels[0])
    chart = charts.reliability_chart(
        "reliability-chart", found.predicted, found.observed, found.low, found.high, label,
        ("Predicted and observed", f"Brier score {found.brier:.4f}, of the base rate alone {found.base:.4f}. "
         "The table beside it has the same figures."),
    )  # fmt: skip
    table = [
        (percent(p), percent(o), f"{percent(low)} to {percent(high)}", amount(total))
        for p, o, low, high, total in zip(
            found.predicted, found.observed, found.low, found.high, found.totals, strict=True
        )
    ]
    better = 1.0 - found.brier / found.base
    return {
        "chart": chart, "table": table, "label": label, "brier": significant(found.brier),
        "base": significant(found.base), "off": found.off,
        "better": f"{percent(abs(better))} {'less' if better >= 0 else 'more'}", "error": percent(found.error),
    }  # fmt: skip


# --- 8: features ---


def features(evidence: Evidence, found: Influence | None) -> Context | None:
    if found is None:
        return None
    largest = float(np.abs(found.values).max()) or 1.0
    lines = []
    for k, j in enumerate(found.columns[:_BARS]):
        figure = float(found.values[k])
        if found.linear:
            said = [charts.signed_bar(figure / largest), significant(figure)]
        else:
            said = [charts.bar(figure / largest, "ink"), percent(figure)]
        drop = [] if found.drops is None else [fixed(float(found.drops[k]), 3)]
        lines.append([evidence.table.shown[j], *said, *drop])
    return {
        "lines": lines, "linear": found.linear, "drops": found.drops is not None, "how": found.how,
        "more": found.columns.size - len(lines),
        "rates": _rates(evidence, found), "labels": (name_of(evidence.labels[0]), name_of(evidence.labels[1])),
        "share": percent(evidence.share),
    }  # fmt: skip


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
    columns = [int(j) for j in found.columns[:_BESIDE]] if found is not None else list(range(evidence.table.columns))
    columns = columns[:_BESIDE]
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
        "score": "score" if evidence.chances is None else "probability",
        "tables": [
            {
                "title": title,
                "note": note,
                "rows": [_row(evidence, int(i), columns) for i in of[:_SHOWN]],
                "all": of.size,
            }
            for title, note, of in tables
        ],
    }  # fmt: skip


def _row(evidence: Evidence, i: int, columns: list[int]) -> Context:
    place = np.array([evidence.index[i]])
    chance = None if evidence.chances is None else float(evidence.chances[i])
    return {
        "name": cut(evidence.names[int(place[0])], 40),
        "score": significant(float(evidence.scores[i])) if chance is None else percent(chance),
        "truth": name_of(evidence.labels[0 if evidence.positive[i] else 1]),
        "kind": "pos" if evidence.positive[i] else "neg",
        "values": [value(evidence.table.column(j, place).iloc[0]) for j in columns],
    }


# --- 10: the search ---


def search(evidence: Evidence) -> Context | None:
    """The settings that were tried, as the model keeps them."""
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
        "rows": [[value(cell) for cell in line] for line in found[names].head(_TRIED).itertuples(index=False)],
        "all": len(found), "settings": plural(len(found), "setting", "settings"),
    }  # fmt: skip
