"""From results to lines and sentences, where several tables do it in the same way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ._base import Line, Record, Results
from ._measure import mean_and_spread

__all__ = ["all_but", "figures", "line", "many", "number", "records", "seconds", "share", "verdict"]


def records(results: Results, start: str) -> list[Record]:
    """The records whose keys begin with `start`."""
    return [record for key, record in results.items() if key.startswith(start)]


def figures(some: Iterable[Record], name: str) -> list[Any]:
    return [record.figures[name] for record in some]


def seconds(some: Iterable[Record]) -> float:
    return sum(record.seconds for record in some)


def line(
    labels: tuple[str, ...], paper: float | None, values: Sequence[float], taken: float | None = None, note: str = ""
) -> Line:
    """The mean of several values and their spread, beside the paper's figure."""
    return Line(labels, paper, *mean_and_spread(values), taken, note)


def verdict(mean: float, half: float, words: tuple[str, str, str]) -> str:
    """The first word for an interval below 0, the second for one that holds 0, the third for one above."""
    if abs(mean) <= half:
        return words[1]
    return words[2] if mean > 0 else words[0]


def share(flags: Iterable[bool]) -> str:
    """How many are true, as in "3 of 5"."""
    flags = list(flags)
    return f"{sum(flags)} of {len(flags)}"


def all_but(exceptions: Sequence[str]) -> str:
    """The exceptions to a sentence, to stand at its end."""
    return f", all but {', '.join(exceptions)}." if exceptions else "."


def number(value: float | None, digits: int = 3, sign: str = "") -> str:
    """A number with a true minus sign; an empty text for None."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return "∞" if value == math.inf else "–"
    return f"{value:{sign}.{digits}f}".replace("-", "−")


def many(count: int, thing: str) -> str:
    """A count with its noun, as in "1 split" or "3 splits"."""
    return f"{count} {thing}{'s' if count != 1 else ''}"
