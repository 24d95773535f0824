"""Charts as SVG, drawn for a width of 360 so that their text can be read on a phone.

Colours come from the page's style sheet by class names, so that both themes and
paper have their own. Text from the data is escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup, escape

from .._util.typing import Array
from ..display.calibration import CalibrationBins
from ._words import cut, fixed, percent, significant

__all__ = [
    "Frame", "bar", "curve_chart", "dots", "histogram", "nice_ticks", "numbered_ticks", "rate_chart",
    "reliability_chart", "short",
]  # fmt: skip


WIDTH, HEIGHT = 360, 300


# --- a frame with axes ---


@dataclass
class Frame:
    """A plot area with its scales, and what has been drawn into it."""

    name: str  # for ids, so that they are the page's only ones
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = 46.0
    right: float = 22.0
    top: float = 26.0
    bottom: float = 42.0
    parts: list[str] = field(default_factory=list)

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + (self.width - self.left - self.right) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.height - self.bottom - (self.height - self.top - self.bottom) * (value - low) / (high - low)

    def add(self, tag: str, content: str | None = None, **attributes: object) -> None:
        """An element; underscores in names of attributes are dashes, `class_` is class."""
        said = "".join(
            f' {name.rstrip("_").replace("_", "-")}="{short(value) if isinstance(value, float) else escape(value)}"'
            for name, value in attributes.items()
        )
        self.parts.append(f"<{tag}{said}/>" if content is None else f"<{tag}{said}>{escape(content)}</{tag}>")

    def line(self, x: Sequence[float], y: Sequence[float], class_: str) -> None:
        """Through these points, in the scales of the axes."""
        self.add("polyline", class_=class_, points=self._points(x, y), fill="none")

    def area(self, x: Sequence[float], y: Sequence[float], class_: str) -> None:
        """From these points down to 0."""
        self.add("polygon", class_=class_, points=self._points([x[0], *x, x[-1]], [0.0, *y, 0.0]))

    def _points(self, x: Sequence[float], y: Sequence[float]) -> str:
        return " ".join(f"{short(self.x(a))},{short(self.y(b))}" for a, b in zip(x, y, strict=True))

    def text(self, x: float, y: float, words: str, class_: str, text_anchor: str = "start") -> None:
        if words:
            self.add("text", words, class_=class_, x=x, y=y, text_anchor=text_anchor)

    def dots(self, x: Array, y: Array, radius: float) -> None:
        for a, b in zip(x, y, strict=True):
            self.add("circle", class_="dot pos", cx=self.x(a), cy=self.y(b), r=radius)

    def intervals(self, x: Array, low: Array, high: Array) -> None:
        """Upright lines, cut where the frame ends."""
        for at, lower, upper in zip(x, low, high, strict=True):
            self.line([at, at], [lower, min(upper, self.y_range[1])], class_="interval")

    def x_axis(self, ticks: Iterable[tuple[float, str]], label: str = "") -> None:
        floor = self.height - self.bottom
        self._rule("axis", floor)
        for at, words in ticks:
            self.add("line", class_="axis", x1=self.x(at), x2=self.x(at), y1=floor, y2=floor + 4.0)
            self.text(self.x(at), floor + 16.0, words, class_="tick", text_anchor="middle")
        middle = 0.5 * (self.left + self.width - self.right)
        self.text(middle, self.height - 6.0, label, class_="label", text_anchor="middle")

    def y_axis(self, ticks: Iterable[tuple[float, str]], label: str = "", grid: bool = True) -> None:
        """Grid lines and numbers; the label is upright above the axis, where it is read without turning."""
        for at, words in ticks:
            if grid:
                self._rule("grid", self.y(at))
            self.text(self.left - 6.0, self.y(at) + 4.0, words, class_="tick", text_anchor="end")
        self.text(2.0, 10.0, label, class_="label")

    def _rule(self, class_: str, height: float) -> None:
        self.add("line", class_=class_, x1=self.left, x2=self.width - self.right, y1=height, y2=height)

    def svg(self, title: str, description: str) -> Markup:
        """The chart, with its words for those who do not see it and its scales for the script."""
        where = " ".join(
            f'data-{key}="{short(value)}"'
            for key, value in {
                "left": self.x(self.x_range[0]), "right": self.x(self.x_range[1]), "low": self.x_range[0],
                "high": self.x_range[1], "floor": self.y(self.y_range[0]), "roof": self.y(self.y_range[1]),
                "bottom": self.y_range[0], "top": self.y_range[1],
            }.items()
        )  # fmt: skip
        return Markup(
            f'<svg id="{self.name}" viewBox="0 0 {self.width:g} {self.height:g}" role="img" {where} '
            f'aria-labelledby="{self.name}-title {self.name}-desc"><title id="{self.name}-title">{escape(title)}'
            f'</title><desc id="{self.name}-desc">{escape(description)}</desc>{"".join(self.parts)}</svg>'
        )  # fmt: skip


def short(value: float) -> str:
    """A place in a chart."""
    return f"{value:.6g}"


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers within a range."""
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= most)
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def numbered_ticks(low: float, high: float, most: int = 6) -> list[tuple[float, str]]:
    """Round numbers with as many decimals as their distance needs."""
    ticks = nice_ticks(low, high, most)
    largest = max((abs(at) for at in ticks), default=0.0)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else largest
    if not 1e-5 <= step <= largest <= 1e7:
        return [(at, significant(at, 2)) for at in ticks]
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [(at, fixed(at, decimals)) for at in ticks]


def _shares(high: float = 1.0, most: int = 5) -> list[tuple[float, str]]:
    return [(at, f"{100 * at:.4g} %") for at in nice_ticks(0.0, high, most)]


# --- small ones, without axes ---


def dots(share: float, kind: str) -> Markup:
    """A hundred dots, filled for each hundredth of the share; all of them only for a share of 1."""
    filled = 0 if math.isnan(share) else min(math.floor(100 * share + 0.5), 100 if share >= 1 else 99)
    circles = "".join(
        f'<circle class="{kind if k < filled else "empty"}" cx="{5 + 10 * (k % 20)}" cy="{5 + k // 20 * 10}" r="3.6"/>'
        for k in range(100)
    )
    words = f"{filled} of 100 dots filled"
    return Markup(f'<svg class="dots" viewBox="0 0 200 50" role="img" aria-label="{words}">{circles}</svg>')


def bar(share: float, kind: str, signed: bool = False) -> Markup:
    """A bar of a share of the width, or, if signed, from the middle to the right or, below 0, to the left.

    The figure is written beside it, so that it need not be read out.
    """
    width = 0.0 if not math.isfinite(share) else 100 * min(abs(share) if signed else max(share, 0.0), 1.0)
    start = 0.0
    if signed:
        width /= 2
        kind, start = ("pos", 50.0) if share >= 0 else ("neg", 50.0 - width)
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="empty" width="100" height="10"/>'
        f'<rect class="{kind}" x="{start:.2f}" width="{width:.2f}" height="10"/></svg>'
    )


# --- charts ---


def curve_chart(
    name: str, x: Array, y: Array, at: tuple[float, float], axes: tuple[str, str], chance: Array, words: tuple[str, str]
) -> Markup:
    """A curve of shares with what guessing would give, and a mark that the slider moves."""
    frame = Frame(name, (0.0, 1.0), (0.0, 1.0))
    frame.y_axis(_shares(), axes[1])
    frame.x_axis(_shares(), axes[0])
    frame.line([0.0, 1.0], list(chance), class_="guess")
    level = chance[0] == chance[1]
    place = (frame.x(0.02), frame.y(float(chance[0])) - 5.0) if level else (frame.x(0.56), frame.y(0.47))
    if not level or chance[0] < 0.85:
        frame.text(*place, "guessing", class_="note")
    frame.line(x.tolist(), y.tolist(), class_="curve")
    frame.add("circle", class_="chosen", cx=frame.x(at[0]), cy=frame.y(at[1]), r=7.0)
    frame.add("circle", class_="now", id=f"{name}-now", cx=frame.x(at[0]), cy=frame.y(at[1]), r=4.5)
    return frame.svg(*words)


def histogram(
    name: str,
    edges: Array,
    heights: tuple[Array, Array],
    cuts: dict[str, float],
    ticks: list[tuple[float, str]] | None,
    labels: tuple[str, str],
    axes: tuple[str, str],
    words: tuple[str, str],
) -> Markup:
    """Steps of both classes, each with its own share as height, and where they are cut."""
    highest = float(max(part.max() for part in heights))
    frame = Frame(name, (float(edges[0]), float(edges[-1])), (0.0, 1.2 * highest), height=290, top=32.0)
    frame.y_axis(_shares(highest), axes[1])
    for kind, part in zip(("pos", "neg"), heights, strict=True):
        steps, tops = np.repeat(edges, 2)[1:-1].tolist(), np.repeat(part, 2).tolist()
        frame.area(steps, tops, class_=f"area {kind}")
        frame.line(steps, tops, class_=f"steps {kind}")
    frame.x_axis(ticks or numbered_ticks(*frame.x_range), axes[0])
    _label_peaks(frame, 0.5 * (edges[1:] + edges[:-1]), heights, labels)
    _draw_cuts(frame, cuts)
    return frame.svg(*words)


def _label_peaks(frame: Frame, middles: Array, heights: tuple[Array, Array], labels: tuple[str, str]) -> None:
    """The name of each class over the middle of its steps, the second above the first where they would overlap."""
    places: list[tuple[float, float]] = []
    for kind, part, label in zip(("pos", "neg"), heights, labels, strict=True):
        at = frame.x(float(np.average(middles, weights=part)))
        at = min(max(at, frame.left + 40.0), frame.width - frame.right - 40.0)
        top = frame.y(float(part.max())) - 6.0
        if any(abs(at - x) < 70.0 and abs(top - y) < 13.0 for x, y in places):
            top = min(y for _, y in places) - 13.0
        places.append((at, top))
        frame.text(at, top, cut(label, 18), class_=f"direct {kind}", text_anchor="middle")


def _draw_cuts(frame: Frame, cuts: dict[str, float]) -> None:
    """Upright lines with their names at the top, on the sides away from each other; one that the slider moves."""
    low, high = frame.x_range
    places = {label: min(max(at, low), high) for label, at in cuts.items()}
    first = min(places, key=lambda label: places[label])
    close = len(places) > 1 and np.ptp([frame.x(at) for at in places.values()]) < 50.0
    for label, at in places.items():
        x = frame.x(at)
        frame.add("line", class_=f"cut {label}", x1=x, x2=x, y1=frame.top - 2.0, y2=frame.height - frame.bottom)
        left = label == first and x > frame.left + 60.0
        place = (-5.0, "end") if left else (5.0, "start")
        lower = 12.0 if close and label != first and frame.x(places[first]) <= frame.left + 60.0 else 0.0
        frame.text(x + place[0], frame.top + 6.0 + lower, label, class_="note", text_anchor=place[1])
    x = frame.x(places["chosen"])
    floor = frame.height - frame.bottom
    frame.add("line", class_="cut now", id=f"{frame.name}-now", x1=x, x2=x, y1=frame.top + 10.0, y2=floor)


def reliability_chart(name: str, bins: CalibrationBins, base: float, label: str) -> Markup:
    """Predicted against observed shares, with intervals."""
    reach = min(1.0, 1.1 * float(max(bins.prob_pred.max(), bins.prob_true.max(), min(bins.upper.max(), 0.1))))
    frame = Frame(name, (0.0, reach), (0.0, reach))
    frame.y_axis(_shares(reach), f"of these were {cut(label, 30)}")
    frame.x_axis(_shares(reach), "predicted probability")
    frame.line([0.0, reach], [0.0, reach], class_="guess")
    frame.text(frame.x(0.63 * reach), frame.y(0.56 * reach), "as predicted", class_="note")
    frame.intervals(bins.prob_pred, bins.lower, bins.upper)
    frame.dots(bins.prob_pred, bins.prob_true, 4.0)
    words = f"Brier score {bins.brier:.4f}, and {base:.4f} for the base rate. The table beside it has the same figures."
    return frame.svg("Predicted and observed", words)


def rate_chart(
    name: str, middles: Array, rates: Array, low: Array, high: Array, overall: float, column: str, label: str
) -> Markup:
    """How the share of the class changes over a column, in a small chart."""
    reach = float(min(1.0, max(1.3 * rates.max(), 2.0 * overall, 0.75 * high.max())))
    pad = 0.04 * float(np.ptp(middles)) or 0.5
    frame = Frame(
        name, (float(middles[0]) - pad, float(middles[-1]) + pad), (0.0, reach),
        width=240, height=146, left=40.0, right=12.0, top=18.0, bottom=24.0,
    )  # fmt: skip
    frame.y_axis(_shares(reach, 3))
    frame.line(list(frame.x_range), [overall, overall], class_="guess")
    frame.intervals(middles, low, high)
    frame.line(middles.tolist(), rates.tolist(), class_="steps pos")
    frame.dots(middles, rates, 3.0)
    frame.x_axis(numbered_ticks(*frame.x_range, 4))
    steps = "; ".join(f"{significant(a)}: {percent(b)}" for a, b in zip(middles.tolist(), rates.tolist(), strict=True))
    title = f"Share of {label} by {column}"
    return frame.svg(title, f"Over all {percent(overall)}. By the middle of each part: {steps}.")
