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
from ..display.binning import CalibrationBins
from ._words import cut, fixed, percent, significant

__all__ = [
    "Frame", "bar", "curve_chart", "dots", "histogram", "nice_ticks", "numbered_ticks", "rate_chart",
    "reliability_chart", "short",
]  # fmt: skip


WIDTH, HEIGHT = 360, 300
Ticks = Sequence[tuple[float, str]] | None
Heights = Sequence[tuple[str, Array]]  # of the class to find and of the other one, with their names


# --- a frame with axes ---


@dataclass
class Frame:
    """A plot area with its scales, and what has been drawn into it."""

    name: str  # for ids, which must be unique on the page
    axes: tuple[str, str] = ("", "")  # their labels
    words: tuple[str, str] = ("", "")  # title and description, for readers who do not see the chart
    x_range: tuple[float, float] = (0.0, 1.0)
    y_range: tuple[float, float] = (0.0, 1.0)
    width: float = WIDTH
    height: float = HEIGHT
    left: float = 46.0
    right: float = 22.0
    top: float = 26.0
    bottom: float = 42.0
    parts: list[str] = field(default_factory=list)

    @property
    def floor(self) -> float:
        return self.height - self.bottom

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + (self.width - self.left - self.right) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.floor - (self.floor - self.top) * (value - low) / (high - low)

    def add(self, tag: str, content: str | None = None, **attributes: object) -> None:
        """Add an element; underscores in names of attributes become dashes, and `class_` becomes class."""
        written = "".join(
            f' {name.rstrip("_").replace("_", "-")}="{short(value) if isinstance(value, float) else escape(value)}"'
            for name, value in attributes.items()
        )
        self.parts.append(f"<{tag}{written}/>" if content is None else f"<{tag}{written}>{escape(content)}</{tag}>")

    def line(self, x: Sequence[float], y: Sequence[float], class_: str) -> None:
        """Add a line through these points, in the scales of the axes."""
        self.add("polyline", class_=class_, points=self._points(x, y), fill="none")

    def area(self, x: Sequence[float], y: Sequence[float], class_: str) -> None:
        """Fill the area from these points down to 0."""
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

    def x_axis(self, ticks: Iterable[tuple[float, str]]) -> None:
        self._rule("axis", self.floor)
        for at, words in ticks:
            self.add("line", class_="axis", x1=self.x(at), x2=self.x(at), y1=self.floor, y2=self.floor + 4.0)
            self.text(self.x(at), self.floor + 16.0, words, class_="tick", text_anchor="middle")
        middle = 0.5 * (self.left + self.width - self.right)
        self.text(middle, self.height - 6.0, self.axes[0], class_="label", text_anchor="middle")

    def y_axis(self, ticks: Iterable[tuple[float, str]], grid: bool = True) -> None:
        """Grid lines and numbers; the label is above the axis, where it is read without turning the head."""
        for at, words in ticks:
            if grid:
                self._rule("grid", self.y(at))
            self.text(self.left - 6.0, self.y(at) + 4.0, words, class_="tick", text_anchor="end")
        self.text(2.0, 10.0, self.axes[1], class_="label")

    def _rule(self, class_: str, height: float) -> None:
        self.add("line", class_=class_, x1=self.left, x2=self.width - self.right, y1=height, y2=height)

    def svg(self) -> Markup:
        """The chart, with its scales for the script of the page."""
        low, high = self.x_range
        places = {"left": self.x(low), "right": self.x(high), "low": low, "high": high, "floor": self.floor}
        scales = " ".join(f'data-{key}="{short(value)}"' for key, value in (places | {"roof": self.top}).items())
        title, description = map(escape, self.words)
        return Markup(
            f'<svg id="{self.name}" viewBox="0 0 {self.width:g} {self.height:g}" role="img" {scales} '
            f'aria-labelledby="{self.name}-title {self.name}-desc"><title id="{self.name}-title">{title}</title>'
            f'<desc id="{self.name}-desc">{description}</desc>{"".join(self.parts)}</svg>'
        )


def short(value: float) -> str:
    """A coordinate in a chart."""
    return f"{value:.6g}"


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers within a range, at equal distances."""
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
    label = f"{filled} of 100 dots filled"
    return Markup(f'<svg class="dots" viewBox="0 0 200 50" role="img" aria-label="{label}">{circles}</svg>')


def bar(share: float, kind: str, signed: bool = False) -> Markup:
    """A bar of a share of the width; if signed, from the middle to the right, or to the left below 0."""
    width = 0.0 if not math.isfinite(share) else 100 * min(abs(share) if signed else max(share, 0.0), 1.0)
    start = 0.0
    if signed:
        width /= 2
        kind, start = ("pos", 50.0) if share >= 0 else ("neg", 50.0 - width)
    return Markup(
        # The figure stands beside it, so that a screen reader need not read the bar.
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="empty" width="100" height="10"/>'
        f'<rect class="{kind}" x="{start:.2f}" width="{width:.2f}" height="10"/></svg>'
    )


# --- charts ---


def curve_chart(frame: Frame, x: Array, y: Array, at: tuple[float, float], chance: tuple[float, float]) -> Markup:
    """A curve of shares, the line of guessing, and a mark that the slider moves."""
    frame.y_axis(_shares())
    frame.x_axis(_shares())
    frame.line([0.0, 1.0], chance, class_="guess")
    level = chance[0] == chance[1]
    place = (frame.x(0.02), frame.y(chance[0]) - 5.0) if level else (frame.x(0.56), frame.y(0.47))
    if not level or chance[0] < 0.85:
        frame.text(*place, "guessing", class_="note")
    frame.line(x.tolist(), y.tolist(), class_="curve")
    frame.add("circle", class_="chosen", cx=frame.x(at[0]), cy=frame.y(at[1]), r=7.0)
    frame.add("circle", class_="now", id=f"{frame.name}-now", cx=frame.x(at[0]), cy=frame.y(at[1]), r=4.5)
    return frame.svg()


def histogram(frame: Frame, edges: Array, heights: Heights, cuts: dict[str, float], ticks: Ticks) -> Markup:
    """Steps of the class to find and of the other one, each with its own share as height, and where they are cut."""
    highest = float(max(part.max() for _, part in heights))
    frame.x_range, frame.y_range = (float(edges[0]), float(edges[-1])), (0.0, 1.2 * highest)
    frame.y_axis(_shares(highest))
    for kind, (_, part) in zip(("pos", "neg"), heights, strict=True):
        steps, tops = np.repeat(edges, 2)[1:-1].tolist(), np.repeat(part, 2).tolist()
        frame.area(steps, tops, class_=f"area {kind}")
        frame.line(steps, tops, class_=f"steps {kind}")
    frame.x_axis(ticks or numbered_ticks(*frame.x_range))
    _label_peaks(frame, 0.5 * (edges[1:] + edges[:-1]), heights)
    _draw_cuts(frame, cuts)
    return frame.svg()


def _label_peaks(frame: Frame, middles: Array, heights: Heights) -> None:
    """The name of each class over the middle of its steps, the second above the first where they would overlap."""
    places: list[tuple[float, float]] = []
    for kind, (label, part) in zip(("pos", "neg"), heights, strict=True):
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
        frame.add("line", class_=f"cut {label}", x1=x, x2=x, y1=frame.top - 2.0, y2=frame.floor)
        left = label == first and x > frame.left + 60.0
        place = (-5.0, "end") if left else (5.0, "start")
        lower = 12.0 if close and label != first and frame.x(places[first]) <= frame.left + 60.0 else 0.0
        frame.text(x + place[0], frame.top + 6.0 + lower, label, class_="note", text_anchor=place[1])
    x = frame.x(places["chosen"])
    frame.add("line", class_="cut now", id=f"{frame.name}-now", x1=x, x2=x, y1=frame.top + 10.0, y2=frame.floor)


def reliability_chart(bins: CalibrationBins, base: float, label: str) -> Markup:
    """Predicted against observed shares, with intervals."""
    reach = min(1.0, 1.1 * float(max(bins.prob_pred.max(), bins.prob_true.max(), min(bins.upper.max(), 0.1))))
    figures = f"Brier score {bins.brier:.4f}; {base:.4f} for the base rate. The table has all figures."
    frame = Frame(
        "reliability-chart",
        axes=("predicted probability", f"observed share of {cut(label, 30)}"),
        words=("Predicted and observed", figures),
        x_range=(0.0, reach),
        y_range=(0.0, reach),
    )
    frame.y_axis(_shares(reach))
    frame.x_axis(_shares(reach))
    frame.line([0.0, reach], [0.0, reach], class_="guess")
    frame.text(frame.x(0.63 * reach), frame.y(0.56 * reach), "as predicted", class_="note")
    frame.intervals(bins.prob_pred, bins.lower, bins.upper)
    frame.dots(bins.prob_pred, bins.prob_true, 4.0)
    return frame.svg()


def rate_chart(
    name: str, title: str, middles: Array, rates: Array, interval: tuple[Array, Array], overall: float
) -> Markup:
    """How the share of the class changes over a column, in a small chart."""
    reach = float(min(1.0, max(1.3 * rates.max(), 2.0 * overall, 0.75 * interval[1].max())))
    pad = 0.04 * float(np.ptp(middles)) or 0.5
    steps = "; ".join(f"{significant(a)}: {percent(b)}" for a, b in zip(middles.tolist(), rates.tolist(), strict=True))
    words = (title, f"{percent(overall)} overall. At the middle of each part: {steps}.")
    x_range = (float(middles[0]) - pad, float(middles[-1]) + pad)
    frame = Frame(name, ("", ""), words, x_range, (0.0, reach), 240, 146, left=40.0, right=12.0, top=18.0, bottom=24.0)
    frame.y_axis(_shares(reach, 3))
    frame.line(frame.x_range, [overall, overall], class_="guess")
    frame.intervals(middles, *interval)
    frame.line(middles.tolist(), rates.tolist(), class_="steps pos")
    frame.dots(middles, rates, 3.0)
    frame.x_axis(numbered_ticks(*frame.x_range, 4))
    return frame.svg()
