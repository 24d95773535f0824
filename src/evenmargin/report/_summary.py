"""What is said first, in words: what was learnt, how good it is, what it will cost, and what to beware of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from .._util.typing import Array
from ..display._reliability import join_bins, sum_bins
from ..operating import MetricInterval, wilson
from ._charts import bar, dots
from ._evidence import Evidence
from ._words import amount, fixed, name_of, out_of_100, percent, plural, price, range_of_100, rows_of

__all__ = [
    "Card", "Reliability", "cards", "cautions", "cost_lines", "lead", "price_source", "quoted", "reliability",
]  # fmt: skip


_FEW = 30  # rows of the class below which figures are rough
_WIDE = 0.25  # of an interval


# --- sentences ---


def lead(evidence: Evidence) -> list[str]:
    """Paragraphs."""
    expected, (label, other) = evidence.expected, map(quoted, evidence.labels)
    count = float(evidence.weight[evidence.positive].sum())
    of = "of the weight" if evidence.weighted else "of them"
    where = "" if evidence.target is None else f" in the column {quoted(evidence.target)}"
    first = (
        f"The model looks for {label}{where}: {amount(count)} {_of_all(evidence)}, {percent(evidence.share)} {of}"
        f"{_one_in(evidence.share)}."
    )
    recall, precision, specificity = (expected[name] for name in ("recall", "precision", "specificity"))
    if not math.isfinite(recall.value):
        return [
            first,
            "How good it is on rows that it has not seen cannot be told from so few rows.",
            *_tested(evidence),
        ]
    wrongly = MetricInterval(1.0 - specificity.value, 1.0 - specificity.high, 1.0 - specificity.low)
    flags = "It flags nothing; "
    if math.isfinite(precision.value):
        flags = f"Of 100 that it flags {out_of_100(precision, 'about ')} are right ({range_of_100(precision)}); "
    second = (
        f"Of 100 cases of {label} it finds {out_of_100(recall, 'about ')} ({range_of_100(recall)}). {flags}"
        f"of 100 cases of {other} it wrongly flags {out_of_100(wrongly, 'about ')} ({range_of_100(wrongly)})."
    )
    cost = expected["cost"]
    nobody, everybody = extremes(evidence)
    third = (
        f"{price_words(evidence)} it will cost about {amount(cost.value)} for each 1,000 cases "
        f"({amount(cost.low)} to {amount(cost.high)}). Flagging nobody would cost {amount(nobody)}, "
        f"flagging everybody {amount(everybody)}."
    )
    return [first, second, third, *_tested(evidence)]


def quoted(label: Any) -> str:
    return f"“{name_of(label)}”"


def _of_all(evidence: Evidence) -> str:
    return f"of {rows_of(float(evidence.weight.sum()))}"


def _one_in(share: float) -> str:
    return f", about one in {fixed(1.0 / share, 0)}" if share < 0.4 else ""


def _tested(evidence: Evidence) -> list[str]:
    """How it was tested: what the figures are worth depends on it."""
    ranges = "Ranges in brackets hold the true figure with 95 % confidence."
    if evidence.training:
        said = "Every row was scored by machines that had not seen it (cross-validation)"
        if evidence.corrected:
            said += ", and the figures here are corrected for what was chosen on these rows: expect them of new ones"
        said += "."
        used, given = evidence.index.size, evidence.table.rows
        sample = f" {used:,} of the {given:,} rows were used, and stand for all." if used < given else ""
        return [f"{said} {ranges}{sample}"]
    said = "These rows were scored by the model as it is: the figures hold if it was not fitted on any of them."
    return [f"{said} {ranges}"]


def price_words(evidence: Evidence) -> str:
    prices = evidence.prices
    said = f"At a price of {price(prices.fn)} for a missed case and {price(prices.fp)} for a false alarm"
    if prices.tp or prices.tn:
        said += f" ({price(prices.tp)} for a case found, {price(prices.tn)} for one rightly left alone)"
    return said


def price_source(evidence: Evidence) -> str:
    """Where the prices come from."""
    return {
        "given": "These prices were given for this report.",
        "objective": "These are the prices that the model's threshold was chosen for.",
        "balance": f"A missed case is priced at {price(evidence.prices.fn)} false alarms, so that both classes weigh "
        "the same. Type your own prices below.",
    }[evidence.prices.source]


def extremes(evidence: Evidence) -> tuple[float, float]:
    """The cost of 1 000 cases if nobody is flagged, and if everybody is."""
    share, prices = evidence.share, evidence.prices
    nobody = 1000.0 * (share * prices.fn + (1.0 - share) * prices.tn)
    return nobody, 1000.0 * (share * prices.tp + (1.0 - share) * prices.fp)


# --- figures to look at ---


@dataclass(frozen=True)
class Card:
    """A figure with a picture."""

    title: str
    figure: str
    range: str
    picture: Markup


def cards(evidence: Evidence) -> list[Card]:
    recall, precision, area = (evidence.expected[name] for name in ("recall", "precision", "roc_auc"))
    if not math.isfinite(recall.value):
        return []
    shown = [_card(f"of 100 cases of {quoted(evidence.labels[0])} are found", recall, "pos")]
    if math.isfinite(precision.value):
        shown.append(_card("of 100 that are flagged are right", precision, "pos"))
    return [*shown, _card("of 100 pairs, one of each class, are ranked rightly (ROC-AUC)", area, "ink")]


def _card(title: str, found: MetricInterval, kind: str) -> Card:
    return Card(title, out_of_100(found), range_of_100(found), dots(found.value, kind))


def cost_lines(evidence: Evidence) -> list[tuple[str, str, Markup]]:
    """What 1 000 cases cost: this model, nobody, everybody."""
    nobody, everybody = extremes(evidence)
    costs = {"this model": evidence.expected["cost"].value, "flag nobody": nobody, "flag everybody": everybody}
    largest = max((abs(cost) for cost in costs.values() if math.isfinite(cost)), default=0.0) or 1.0
    kinds = ("ink", "quiet", "quiet")
    return [
        (name, amount(cost), bar(cost / largest, kind)) for (name, cost), kind in zip(costs.items(), kinds, strict=True)
    ]


# --- calibration ---


@dataclass(frozen=True)
class Reliability:
    """Bins of predictions with what came, and how far off they are."""

    predicted: Array
    observed: Array
    low: Array
    high: Array
    totals: Array
    error: float
    brier: float
    base: float

    @property
    def off(self) -> bool:
        """Whether probabilities are not to be taken at their word."""
        outside = np.count_nonzero((self.predicted < self.low) | (self.predicted > self.high))
        far = self.error > 0.5 * self.base and outside >= max(2, self.predicted.size // 3)
        return bool(self.brier > self.base or far)


def reliability(evidence: Evidence) -> Reliability | None:
    """None where the model tells no probabilities."""
    if evidence.chances is None:
        return None
    chances, positive, weight = evidence.chances, evidence.positive, evidence.weight
    bins = join_bins(chances, positive, weight, 10, 5.0 * float(weight.mean()))
    totals, hits, sums = (sum_bins(bins, part) for part in (weight, weight * positive, weight * chances))
    observed, predicted = hits / totals, sums / totals
    rows = sum_bins(bins, np.ones(weight.size))  # intervals go by rows, not by what they weigh
    low, high = wilson(observed * rows, (1.0 - observed) * rows)
    error = float(totals @ np.abs(observed - predicted) / totals.sum())
    brier = float(np.average(np.square(chances - positive), weights=weight))
    share = evidence.share
    return Reliability(predicted, observed, low, high, totals, error, brier, share * (1.0 - share))


# --- what to beware of ---


def cautions(evidence: Evidence, found: Reliability | None) -> list[str]:
    """Sentences, the weightiest first."""
    said, expected, label = [], evidence.expected, quoted(evidence.labels[0])
    count, recall, area = evidence.positives, expected["recall"], expected["roc_auc"]
    if count < _FEW:
        verb = plural(count, "row is", "rows are")
        said.append(f"Only {count} {verb} {label}: all figures are rough. Trust the ranges, not the values.")
    elif recall.high - recall.low > _WIDE:
        said.append(f"How many cases of {label} it finds is known roughly only: more rows of the class would help.")
    if area.low <= 0.5:
        said.append("It may be no better than guessing: the range of its ROC-AUC includes one half.")
    nobody, everybody = extremes(evidence)
    if expected["cost"].value > min(nobody, everybody):
        better = "nobody" if nobody < everybody else "everybody"
        said.append(f"At these prices flagging {better} costs less than using the model as it is cut now.")
    if found is not None and found.off:
        said.append("Its probabilities are badly calibrated: use them to rank rows, not as frequencies.")
    said += _of_the_model(evidence)
    if evidence.weighted:
        said.append("Rows are weighted: counts are sums of weights.")
    return said


def _of_the_model(evidence: Evidence) -> list[str]:
    """What the model itself has to say, and whether it calls rows as its scores are cut."""
    said, goal, chosen = [], evidence.objective, evidence.chosen
    if goal is not None and goal.has_floor:
        counts = (np.array([count]) for count in (chosen.tp, chosen.fn, chosen.fp))
        if not goal.reached(*counts)[0]:
            said.append(f"The {goal} that was asked for is not reached on these rows.")
    for title, text in getattr(getattr(evidence.model, "summary_", None), "lines", []):
        if title.strip() == "note" and text.startswith("time was short"):
            said.append(f"The fit ran out of time: {text.split(': ', 1)[-1]}.")
    differ = disagreements(evidence)
    if differ:
        said.append(
            f"The model's own predict calls {differ:,} {plural(differ, 'row', 'rows')} otherwise than its scores "
            "are cut here."
        )
    return said


def disagreements(evidence: Evidence) -> int:
    """Rows that `predict` calls otherwise: of models that do not go by their scores alone."""
    if evidence.training or hasattr(evidence.model, "oof_scores_") or not hasattr(evidence.model, "predict"):
        return 0
    called = np.asarray(evidence.model.predict(evidence.X)) == evidence.labels[0]
    return int(np.count_nonzero(called != evidence.flagged))
