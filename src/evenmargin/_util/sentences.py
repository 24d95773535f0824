"""Names in a sentence: in quotes, and those that a misspelt one may stand for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Names that someone who wrote `name` may have meant."""
    by_lower: dict[str, list[str]] = {}
    for other in names:
        by_lower.setdefault(other.lower().strip(), []).append(other)
    found = difflib.get_close_matches(name.lower().strip(), by_lower, n=most, cutoff=0.6)
    return [other for lower in found for other in by_lower[lower]][:most]


def quoted(names: Iterable[object], most: int = 5, conjunction: str = "and") -> str:
    """Names in quotes; of many the first ones, and how many more there are."""
    listed = [repr(name) for name in names]
    if len(listed) > most:
        return f"{', '.join(listed[:most])} and {len(listed) - most} more"
    *first, last = listed or [""]
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def in_one_line(error: object) -> str:
    """The words of an error, or its type if it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def suggestion(name: str, names: Iterable[str], most: int = 3) -> str:
    """Ask whether one of the similar names was meant; empty if there is none."""
    meant = near(name, names, most)
    return f"did you mean {quoted(meant, conjunction='or')}?" if meant else ""


def hint(name: str, names: Iterable[str]) -> str:
    """End a sentence on a name that a table does not have: with similar names, or with those that it has."""
    names = list(names)
    return f": {suggestion(name, names) or f'the table has {quoted(names, 10)}.'}"


def unknown(thing: str, name: object, names: Iterable[str]) -> str:
    """Say that there is nothing of this name, and what there is.

    Examples
    --------
    >>> from evenmargin._util.sentences import unknown
    >>> unknown("table", "tabel1", ["table1", "figure2"])
    "There is no table 'tabel1': did you mean 'table1'?"
    """
    names = list(names)
    known = suggestion(str(name), names) or f"choose from {', '.join(names)}."
    return f"There is no {thing} {name!r}: {known}"
