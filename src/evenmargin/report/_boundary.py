"""The boundary before and after the adjustment, in a plane of two columns: its regions, and the chart of them.

Regions are filled, outlined, and hatched where shades alone would not distinguish them.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import numpy as np
from markupsafe import Markup
from scipy.sparse import issparse

from .._util.typing import Array, Mask
from ..display.binning import typical_range
from ._charts import Frame, numbered_ticks, short
from ._evidence import Evidence
from ._influence import Influence
from ._words import cut, percent

__all__ = ["boundary"]


_CELLS = 60  # of the plane, in each direction
_POINTS = {"pos": 60, "neg": 120}
_HATCHES = {"after": 45, "before": -45}  # the angles of their stripes


def boundary(evidence: Evidence, found: Influence | None, seed: int) -> dict[str, Any] | None:
    """What the template shows of the section; None if there is neither an adjustment nor a plane."""
    plane, changed = _plane(evidence, found, seed), evidence.before is not None
    return {"before": evidence.rule.plain_name, "changed": changed, "slice": plane} if changed or plane else None


def _plane(evidence: Evidence, found: Influence | None, seed: int) -> dict[str, Any] | None:
    """The plane of the two number columns that matter most, with typical values in the other columns."""
    pair = _columns(evidence, found)
    if pair is None:
        return None
    edges = [_span(evidence, j) for j in pair]
    regions = _regions(evidence, pair, edges)
    if regions is None:
        return None
    titles = {"both": "flagged before and after" if len(regions) > 1 else "flagged"}
    titles |= {"after": "flagged only after", "before": "flagged only before", "none": "not flagged"}
    shares = {kind: float(np.mean(mask)) for kind, mask in regions.items()}
    shares["none"] = 1.0 - sum(shares.values())
    kinds = [(kind, titles[kind]) for kind, share in shares.items() if share > 0.0]
    listed = (kind for kind, share in shares.items() if share > 0.0 or kind == "both")
    areas = "; ".join(f"{titles[kind]}: {percent(shares[kind])}" for kind in listed)
    x, y = (evidence.table.shown[j] for j in pair)
    words = ("The boundary", f"Shares of the area in the plane of {x} and {y}: {areas}.")
    frame = Frame("slice-chart", (cut(x, 44), cut(y, 50)), words, height=320, left=52.0)
    chart = _plane_chart(frame, edges, regions, _some_points(evidence, pair, edges, seed))
    return {"chart": chart, "kinds": kinds}


def _regions(evidence: Evidence, pair: tuple[int, int], edges: list[Array]) -> dict[str, Mask] | None:
    """Which cells are flagged, before and after, with other columns as near the threshold; None if all are alike."""
    near = np.argsort(np.abs(evidence.scores - evidence.rule.threshold), kind="stable")
    rows = evidence.index[near[: max(10, min(500, near.size // 20))]]
    across, up = np.meshgrid(*(0.5 * (part[1:] + part[:-1]) for part in edges))
    grid = evidence.table.slice(evidence.table.typical(rows), *pair, across.ravel(), up.ravel())
    scores = evidence.rule.score(grid)
    after, before = scores > evidence.rule.threshold, evidence.rule.flagged_before(grid, scores)
    if after.all() or not after.any():
        return None
    regions = {"both": after}
    if before is not None:
        regions = {"both": after & before, "after": after & ~before, "before": before & ~after}
    return {kind: mask.reshape(across.shape) for kind, mask in regions.items()}


def _columns(evidence: Evidence, found: Influence | None) -> tuple[int, int] | None:
    """The two columns that matter most, among those of numbers with more than two values."""
    if found is None or issparse(evidence.table.X):
        return None
    some = evidence.index[:20_000]
    wide = (
        int(j)
        for j in found.columns
        if evidence.table.kinds[j] == "number" and evidence.table.column(int(j), some).nunique() > 2
    )
    pair = tuple(islice(wide, 2))
    return pair if len(pair) == 2 else None


def _span(evidence: Evidence, j: int) -> Array:
    """Edges of the cells in a column, over its typical range for both classes."""
    numbers = evidence.table.numbers(j, evidence.index)
    known = np.isfinite(numbers)
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    if np.unique(evidence.positive[known]).size == 2:
        low, high = typical_range(numbers[known], evidence.positive[known], evidence.weight[known])
    pad = 0.02 * (high - low)
    return np.linspace(low - pad, high + pad, _CELLS + 1)


def _some_points(evidence: Evidence, pair: tuple[int, int], edges: list[Array], seed: int) -> dict[str, Any]:
    """Some rows of each class that lie within the edges."""
    places = [evidence.table.numbers(j, evidence.index) for j in pair]
    inside = np.ones(evidence.index.size, dtype=np.bool_)
    for numbers, part in zip(places, edges, strict=True):
        inside &= (numbers >= part[0]) & (numbers <= part[-1])
    points, rng = {}, np.random.default_rng(seed)
    for kind, side in (("neg", ~evidence.positive), ("pos", evidence.positive)):
        rows = rng.permutation(np.flatnonzero(side & inside))[: _POINTS[kind]]
        points[kind] = (places[0][rows], places[1][rows])
    return points


# --- the chart ---


def _plane_chart(
    frame: Frame, edges: list[Array], regions: dict[str, Mask], points: dict[str, tuple[Array, Array]]
) -> Markup:
    """Regions, each a mask of cells (row by row from below) between the edges, with some rows as points."""
    frame.x_range, frame.y_range = ((float(part[0]), float(part[-1])) for part in edges)
    width, height = frame.width - frame.left - frame.right, frame.floor - frame.top
    frame.add("rect", class_="ground", x=frame.left, y=frame.top, width=width, height=height)
    across, up = ([short(scale(at)) for at in part] for scale, part in zip((frame.x, frame.y), edges, strict=True))
    for kind, mask in regions.items():
        path = _covering(mask, across, up)
        frame.add("path", class_=f"region {kind}", d=path)
        if kind in _HATCHES:
            frame.parts.append(
                f'<pattern id="hatch-{kind}" width="9" height="9" patternUnits="userSpaceOnUse" '
                f'patternTransform="rotate({_HATCHES[kind]})"><path class="stripe {kind}" d="M4.5 0V9"/></pattern>'
            )
            frame.add("path", class_=f"hatch {kind}", d=path, fill=f"url(#hatch-{kind})")
    frame.add("path", class_="outline", d=_outline(list(regions.values()), across, up))
    _draw_points(frame, points)
    frame.x_axis(numbered_ticks(*frame.x_range, 5))
    frame.y_axis(numbered_ticks(*frame.y_range, 5), grid=False)
    return frame.svg()


def _draw_points(frame: Frame, points: dict[str, tuple[Array, Array]]) -> None:
    """Triangles for the class to find, circles for the other."""
    for kind, (across, up) in points.items():
        for a, b in zip(across.tolist(), up.tolist(), strict=True):
            x, y = frame.x(a), frame.y(b)
            if kind == "pos":
                frame.add("path", class_="point pos", d=f"M{x:.1f} {y - 4.2:.1f}l4 7h-8z")
            else:
                frame.add("circle", class_="point neg", cx=round(x, 1), cy=round(y, 1), r=2.4)


# --- cells ---


def _runs(cells: Mask) -> list[tuple[int, int]]:
    """Where runs of cells start and end."""
    ends = np.flatnonzero(np.diff(cells.astype(np.int8), prepend=0, append=0)).tolist()
    return list(zip(ends[::2], ends[1::2], strict=True))


def _covering(mask: Mask, across: list[str], up: list[str]) -> str:
    """Rectangles that cover the cells, one for each run in a row."""
    return "".join(
        f"M{across[left]} {up[k + 1]}H{across[right]}V{up[k]}H{across[left]}z"
        for k, cells in enumerate(mask)
        for left, right in _runs(cells)
    )


def _outline(masks: list[Mask], across: list[str], up: list[str]) -> str:
    """Lines between cells of different regions."""
    region = sum((k + 1) * mask.astype(np.int8) for k, mask in enumerate(masks))
    lines = []
    for j, (one, other) in enumerate(pairwise(np.transpose(region)), start=1):
        lines += [f"M{across[j]} {up[start]}V{up[end]}" for start, end in _runs(one != other)]
    for i, (one, other) in enumerate(pairwise(np.asarray(region)), start=1):
        lines += [f"M{across[start]} {up[i]}H{across[end]}" for start, end in _runs(one != other)]
    return "".join(lines)
