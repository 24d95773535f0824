"""A plane in regions: filled, outlined, and hatched where shades would not distinguish them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from markupsafe import Markup

from .._util.typing import Array, Mask
from ._charts import Frame, numbered_ticks, short

__all__ = ["plane_chart"]


_HATCH = 4  # cells from one line to the next


def plane_chart(
    frame: Frame, edges: list[Array], regions: dict[str, Mask], points: dict[str, tuple[Array, Array]]
) -> Markup:
    """Regions, each a mask of cells (row by row from below) between the edges, with some rows as points."""
    frame.x_range, frame.y_range = ((float(part[0]), float(part[-1])) for part in edges)
    width, height = frame.width - frame.left - frame.right, frame.floor - frame.top
    frame.add("rect", class_="ground", x=frame.left, y=frame.top, width=width, height=height)
    across, up = ([short(scale(at)) for at in part] for scale, part in zip((frame.x, frame.y), edges, strict=True))
    for kind, mask in regions.items():
        _draw_region(frame, kind, mask, across, up)
    _draw_path(frame, "outline", _outline(list(regions.values()), across, up))
    _draw_points(frame, points)
    frame.x_axis(numbered_ticks(*frame.x_range, 5))
    frame.y_axis(numbered_ticks(*frame.y_range, 5), grid=False)
    return frame.svg()


def _draw_region(frame: Frame, kind: str, mask: Mask, across: list[str], up: list[str]) -> None:
    path = "".join(
        f"M{across[left]} {up[above]}H{across[right]}V{up[below]}H{across[left]}z"
        for below, above, left, right in _rectangles(mask)
    )
    _draw_path(frame, f"region {kind}", path)
    if kind != "both":
        _draw_path(frame, f"hatch {kind}", _hatch(mask, kind == "after", across, up))


def _draw_path(frame: Frame, class_: str, path: str) -> None:
    if path:
        frame.add("path", class_=class_, d=path)


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


def _rectangles(mask: Mask) -> list[tuple[int, int, int, int]]:
    """Few rectangles (below, above, left, right) that cover the cells: runs in a row, joined with equal ones below."""
    open_runs: dict[tuple[int, int], int] = {}
    done: list[tuple[int, int, int, int]] = []
    for k in range(mask.shape[0] + 1):
        runs = set(_runs(mask[k])) if k < mask.shape[0] else set()
        for run in [run for run in open_runs if run not in runs]:
            done.append((open_runs.pop(run), k, *run))
        for run in runs:
            open_runs.setdefault(run, k)
    return done


def _outline(masks: list[Mask], across: list[str], up: list[str]) -> str:
    """Lines between cells of different regions."""
    region = sum((k + 1) * mask.astype(np.int8) for k, mask in enumerate(masks))
    lines = []
    for j, (one, other) in enumerate(pairwise(np.transpose(region)), start=1):
        lines += [f"M{across[j]} {up[start]}V{up[end]}" for start, end in _runs(one != other)]
    for i, (one, other) in enumerate(pairwise(np.asarray(region)), start=1):
        lines += [f"M{across[start]} {up[i]}H{across[end]}" for start, end in _runs(one != other)]
    return "".join(lines)


def _hatch(mask: Mask, rising: bool, across: list[str], up: list[str]) -> str:
    """Every fourth diagonal of the cells, as far as the mask goes."""
    turned, places = (mask, up) if rising else (mask[::-1], up[::-1])
    lines = []
    for offset in range(-mask.shape[0] + 1, mask.shape[1]):
        if offset % _HATCH == 0:
            i, j = max(0, -offset), max(0, offset)
            for start, end in _runs(np.diagonal(turned, offset)):
                lines.append(f"M{across[j + start]} {places[i + start]}L{across[j + end]} {places[i + end]}")
    return "".join(lines)
