"""The boundary before and after the adjustment: counts, and a plane in which it can be seen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from .._util.typing import Array, Index, Mask
from ..display.ranges import typical_range
from ._charts import Frame
from ._evidence import Evidence
from ._influence import Influence
from ._plane import plane_chart
from ._words import cut, percent

__all__ = ["boundary"]


_CELLS = 60  # of the plane, in each direction
_POINTS = {"pos": 60, "neg": 120}


def boundary(evidence: Evidence, found: Influence | None, seed: int) -> dict[str, Any] | None:
    """What the template shows of them; None where there is neither."""
    drawn = _slice(evidence, found, seed)
    if evidence.before is None and drawn is None:
        return None
    return {"before": evidence.rule.plain_name, "changed": evidence.before is not None, "slice": drawn}


def _slice(evidence: Evidence, found: Influence | None, seed: int) -> dict[str, Any] | None:
    """The plane of the two number columns that matter most, the other columns typical of all rows or of the class."""
    pair = _plane(evidence, found)
    if pair is None:
        return None
    edges = [_span(evidence, j) for j in pair]
    middles = [0.5 * (part[1:] + part[:-1]) for part in edges]
    across, up = (part.ravel() for part in np.meshgrid(*middles))
    plane = _best_slice(evidence, pair, across, up)
    if plane is None:
        return None
    regions = {kind: mask.reshape(_CELLS, _CELLS) for kind, mask in plane.regions.items()}
    titles = {"both": "flagged before and after"} if len(regions) > 1 else {"both": "flagged"}
    titles |= {"after": "flagged only after", "before": "flagged only before", "none": "not flagged"}
    x, y = (evidence.table.shown[j] for j in pair)
    words = ("The boundary", f"In the plane of {x} and {y}, {_areas(regions, titles)}.")
    frame = Frame("slice-chart", (cut(x, 44), cut(y, 50)), words, height=320, left=52.0)
    chart = plane_chart(frame, edges, regions, _some_points(evidence, pair, edges, seed))
    kinds = [(kind, title) for kind, title in titles.items() if kind == "none" or np.any(regions.get(kind, False))]
    return {"chart": chart, "of": plane.of, "kinds": kinds}


def _areas(regions: dict[str, Mask], titles: dict[str, str]) -> str:
    """How much of the plane is flagged, in words."""
    shares = {titles[kind]: float(np.mean(mask)) for kind, mask in regions.items() if kind == "both" or mask.any()}
    shares["not flagged"] = 1.0 - sum(shares.values())
    first, *others = (f"{words}: {percent(share)}" for words, share in shares.items())
    return "; ".join([f"{first} of the area", *others])


class _PlaneCut(NamedTuple):
    """Which cells of a plane are flagged, after and before, and what the other columns are typical of."""

    after: Mask
    before: Mask | None
    of: str

    @property
    def regions(self) -> dict[str, Mask]:
        if self.before is None:
            return {"both": self.after}
        after, before = self.after, self.before
        return {"both": after & before, "after": after & ~before, "before": before & ~after}


def _best_slice(evidence: Evidence, pair: tuple[int, int], across: Array, up: Array) -> _PlaneCut | None:
    """The first plane that shows the boundary well, or the best of all; None if each is of one colour."""
    tried: list[tuple[bool, float, int, _PlaneCut]] = []
    for turn, (rows, of) in enumerate(_typical_of(evidence)):
        grid = evidence.table.slice(evidence.table.typical(rows), *pair, across, up)
        scores = evidence.rule.score(grid)
        plane = _PlaneCut(scores > evidence.rule.threshold, evidence.rule.flagged_before(grid, scores), of)
        share, both = float(np.mean(plane.after)), plane.before is None or bool((plane.after & plane.before).any())
        if 0.15 < share < 0.85 and both:
            return plane
        if 0 < share < 1:
            tried.append((both, -abs(share - 0.5), -turn, plane))
    return max(tried, key=lambda one: one[:3])[-1] if tried else None


def _typical_of(evidence: Evidence) -> list[tuple[Index, str]]:
    """Rows for the other columns to be typical of: of all, and of those near the threshold, where the boundary is."""
    near = np.argsort(np.abs(evidence.scores - evidence.rule.threshold), kind="stable")
    some = evidence.index[:: max(1, evidence.index.size // 5_000)]
    close = max(10, min(500, evidence.index.size // 20))
    flagged = evidence.index[evidence.positive]
    own = flagged[:: max(1, flagged.size // 5_000)]
    return [(some, "all rows"), (evidence.index[near[:close]], "rows near the threshold"), (own, "the class itself")]


def _plane(evidence: Evidence, found: Influence | None) -> tuple[int, int] | None:
    """The two columns of numbers, of more than two values, that matter most."""
    if found is None or issparse(evidence.table.X):
        return None
    some = evidence.index[:20_000]
    wide = (
        int(j)
        for j in found.columns
        if evidence.table.kinds[j] == "number" and evidence.table.column(int(j), some).nunique() > 2
    )
    first, second = next(wide, None), next(wide, None)
    return None if first is None or second is None else (first, second)


def _span(evidence: Evidence, j: int) -> Array:
    """Edges of cells over nearly all of a column, the rare class included."""
    numbers = evidence.table.numbers(j, evidence.index)
    known = np.isfinite(numbers)
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    if np.unique(evidence.positive[known]).size == 2:
        low, high = typical_range(numbers[known], evidence.positive[known], evidence.weight[known])
    pad = 0.02 * (high - low)
    return np.linspace(low - pad, high + pad, _CELLS + 1)


def _some_points(evidence: Evidence, pair: tuple[int, int], edges: list[Array], seed: int) -> dict[str, Any]:
    """Some rows of each class that lie in the plane's range."""
    places = [evidence.table.numbers(j, evidence.index) for j in pair]
    inside = np.ones(evidence.index.size, dtype=np.bool_)
    for numbers, part in zip(places, edges, strict=True):
        inside &= (numbers >= part[0]) & (numbers <= part[-1])
    points, rng = {}, np.random.default_rng(seed)
    for kind, side in (("neg", ~evidence.positive), ("pos", evidence.positive)):
        rows = rng.permutation(np.flatnonzero(side & inside))[: _POINTS[kind]]
        points[kind] = (places[0][rows], places[1][rows])
    return points
