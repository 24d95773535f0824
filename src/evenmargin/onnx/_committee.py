"""`EvenMarginClassifier` as nodes: from the columns of a table to scores and probabilities.

It follows `_tables.encoder`, `auto.views`, `auto.committee` and `operating.Calibrator` step by
step, in the same precision: views are float32 to the last digit.
"""

from __future__ import annotations

import numpy as np

from .._tables.encoder import TableEncoder
from ..auto import EvenMarginClassifier
from ..auto.committee import Committee
from ..auto.views import FAR, PiecewiseLinear, QuantileNormal, Standard, View
from ..operating import Calibrator
from ._graph import Graph
from ._inputs import MISSING, OTHER, table_columns
from ._machines import kernel_sums

__all__ = ["class_probabilities", "class_scores", "committee_scores", "encoded", "log_odds_of"]


def encoded(g: Graph, encoder: TableEncoder, inputs: list[str]) -> str:
    """A matrix in double without missing values; inputs are the columns of the table, or the table as one matrix."""
    raw = g.beside(*[g.double(one) for one in inputs]) if encoder.columns_ is None else _raw(g, encoder, inputs)
    gaps = g("IsNaN", raw)
    filled = g("Where", gaps, encoder.medians_, raw)
    if encoder.gaps_.size:
        filled = g.beside(filled, g.double(g.columns(gaps, encoder.gaps_)))
    return g.columns(filled, encoder.kept_)


def _raw(g: Graph, encoder: TableEncoder, inputs: list[str]) -> str:
    """Numbers with missing values, and a column for each category."""
    assert encoder.columns_ is not None
    names = [str(name) for name in encoder.columns_.feature_names_in_]
    if len(inputs) == 1 < len(names):  # the table as one matrix
        inputs = [g.columns(inputs[0], [j]) for j in range(len(names))]
    own = dict(zip(names, inputs, strict=True))
    numbers, categories = table_columns(encoder)
    parts = [g.double(own[name]) for name in numbers]
    for name, words in categories.items():
        place = {word: k for k, word in enumerate(words)}
        unknown = place.get(OTHER, -1)  # a column of its own, or none
        place.setdefault("", place.get(MISSING, unknown))
        code = g(
            "LabelEncoder", own[name], op_domain="ai.onnx.ml", op_version=2, default_int64=unknown,
            keys_strings=list(place), values_int64s=list(place.values()),
        )  # fmt: skip
        parts.append(g.double(g("Equal", code, np.arange(len(words), dtype=np.int64))))
    return g.beside(*parts)


def _viewed(g: Graph, view: View, rows: str) -> str:
    """Rows as the view transforms them, in float32."""
    if isinstance(view, Standard):
        return g.cast(_standardised(g, view, rows), np.float32)
    if isinstance(view, QuantileNormal):
        mapped = [j for j, known in enumerate(view.maps) if known is not None]
        if mapped:
            knots, levels = zip(*[known for known in view.maps if known is not None], strict=True)
            others = np.setdiff1d(np.arange(len(view.maps)), mapped)
            parts = [g.interpolated(g.columns(rows, mapped), list(knots), list(levels)), g.columns(rows, others)]
            order = np.argsort(np.concatenate([mapped, others]))
            rows = g.columns(g.beside(*parts), order) if others.size else parts[0]
        return g.cast(_standardised(g, view.after, rows), np.float32)
    if isinstance(view, PiecewiseLinear):
        ramps = g("Div", g("Sub", g.columns(rows, view.column), view.start), view.length)
        ramps = g("Sub", g.clipped(ramps, 0.0, 1.0), view.mean)
        return g.cast(g("Mul", ramps, float(view.scale)), np.float32)
    raise ValueError(f"The view {type(view).__name__} cannot be exported to ONNX.")


def _standardised(g: Graph, view: Standard, rows: str) -> str:
    return g.clipped(g("Div", g("Sub", rows, view.mean), view.spread), -FAR, FAR)


def committee_scores(g: Graph, committees: list[Committee], rows: str) -> list[str]:
    """The mean log-odds of each committee, as columns; views that committees share are computed once."""
    seen: dict[int, str] = {}
    scores = []
    for committee in committees:
        odds = []
        for member in committee.members:
            if id(member.view) not in seen:
                seen[id(member.view)] = _viewed(g, member.view, rows)
            machine, Z = member.machine, seen[id(member.view)]
            if machine.scale is not None:
                Z = g("Mul", Z, machine.scale)
            sums = kernel_sums(g, machine.kernel, Z, machine.support, machine.beta[:, None])
            sums = g("Add", sums, float(machine.intercept))
            odds.append(g("Add", g("Mul", sums, float(member.slope)), float(member.offset)))
        scores.append(g("Div", g("Sum", *odds), float(len(odds))))
    return scores


def log_odds_of(g: Graph, calibrator: Calibrator, scores: str) -> str:
    """The log-odds for a column of scores; beyond the limits they grow like a logarithm."""
    knots, (below, above), (low, high) = calibrator.knots_, calibrator.slopes_, calibrator.limits_
    inside = g.interpolated(scores, [knots], [calibrator.log_odds_])
    under = g("Mul", g("Min", g("Sub", scores, float(knots[0])), 0.0), float(below))
    over = g("Mul", g("Max", g("Sub", scores, float(knots[-1])), 0.0), float(above))
    line = g("Add", g("Add", inside, under), over)
    more = g("Log", g("Add", g("Max", g("Sub", line, float(high)), 0.0), 1.0))
    less = g("Log", g("Add", g("Max", g("Sub", float(low), line), 0.0), 1.0))
    return g("Sub", g("Add", g.clipped(line, float(low), float(high)), more), less)


def class_scores(g: Graph, model: EvenMarginClassifier, scores: list[str], shares: list[str]) -> str:
    """The decision function: one column for two classes, else one for each class."""
    if model.classes_.size == 2:
        apart = g("Sub", scores[0], float(model.detectors_[0].threshold))
        return apart if model.detectors_[0].sign > 0 else g("Neg", apart)
    columns = []
    for detector, share in zip(model.detectors_, shares, strict=True):
        cut = detector.probability_threshold
        odds = g("Sub", g("Log", share), g("Log", g("Sub", 1.0, share)))
        columns.append(g("Sub", odds, float(np.log(cut) - np.log1p(-cut))))
    return g.beside(*columns)


def class_probabilities(g: Graph, model: EvenMarginClassifier, shares: list[str]) -> str:
    """The probabilities of all classes, from those of the detectors."""
    if model.classes_.size == 2:
        rest = g("Sub", 1.0, shares[0])
        return g.beside(rest, shares[0]) if model.detectors_[0].sign > 0 else g.beside(shares[0], rest)
    every = g.beside(*shares)
    return g("Div", every, g.total(every))
