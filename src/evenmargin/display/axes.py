"""What all figures share: colours, axes, reference lines, the legend, and styles that a user may replace.

The colours are from the palette of Okabe and Ito, which colour-blind readers can distinguish.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

__all__ = [
    "BLACK", "GREEN", "GREY", "NEGATIVE", "OTHERS", "POSITIVE", "Style", "check_matplotlib", "get_axes",
    "has_label", "hide_frame", "legend_above", "next_color", "reference", "style",
]  # fmt: skip

NEGATIVE, POSITIVE = "#0072B2", "#D55E00"  # blue, vermilion
BLACK, GREY, GREEN = "#222222", "#8C8C8C", "#009E73"
OTHERS = [GREEN, "#AA4499", "#56B4E9", "#B8860B"]
Style: TypeAlias = dict[str, Any]  # keyword arguments for an artist of matplotlib


def check_matplotlib() -> ModuleType:
    """matplotlib.pyplot; an error that says what to install if it is missing."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("The displays draw with matplotlib: install it with `pip install matplotlib`.") from error
    return plt


def get_axes(ax: Axes | None) -> Axes:
    """These axes, or those of a new figure that makes room for a legend outside of them."""
    plt = check_matplotlib()
    return hide_frame(plt.subplots(layout="constrained")[1] if ax is None else ax)


def hide_frame(ax: Axes) -> Axes:
    """Hide the lines at the top and at the right."""
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def style(given: Style, **defaults: object) -> Style:
    """Our keyword arguments for an artist, replaced by those that the user gives, such as "lw" for "linewidth"."""
    from matplotlib import cbook, lines, patches

    for artist in (lines.Line2D, patches.Patch):
        given = cbook.normalize_kwargs(given, artist)
    return {**defaults, **given}


def has_label(ax: Axes, label: str) -> bool:
    """Whether the axes hold an artist with this label."""
    return label in ax.get_legend_handles_labels()[1]


def reference(ax: Axes, x: ArrayLike, y: ArrayLike, color: str, label: str, linestyle: str = "--") -> None:
    """Draw a line to compare with, once however many curves share the axes."""
    if not has_label(ax, label):
        width = 1.2 if linestyle == "--" else 1.0
        ax.plot(x, y, color=color, linewidth=width, linestyle=linestyle, label=label)


def next_color(ax: Axes) -> str:
    """Another colour for each curve on the same axes; dashed and dotted lines are references."""
    curves = sum(line.get_linestyle() == "-" for line in ax.lines)
    palette = [BLACK, *OTHERS]
    return palette[curves % len(palette)]


def legend_above(ax: Axes, handles: Iterable[Artist] | None = None, title: str | None = None) -> None:
    """Draw a legend above the axes, where it covers no data, in as many columns as their width allows."""
    handles = ax.get_legend_handles_labels()[0] if handles is None else list(handles)
    for columns in range(min(4, len(handles)), 0, -1):
        legend = ax.legend(
            handles=handles, ncols=columns, title=title, loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False,
            fontsize="small", title_fontsize="medium", alignment="left", borderaxespad=0.2, columnspacing=1.2,
            handlelength=1.6,
        )  # fmt: skip
        if columns == 1 or legend.get_window_extent().width <= 1.04 * ax.get_window_extent().width:
            return
