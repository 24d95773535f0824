"""Names in a sentence: in quotes, and those that a misspelt one may stand for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def near(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Names that someone who wrote `name` may have meant."""
    by_lower: dict[str, list[str]] = {}
    for other in names:
        by_lower.setdefault(other.lower().strip(), []).append(other)
    found = difflib.get_close_matches(name.lower().strip(), by_lower, n=most, cutoff=0.6)
    return [other for lower in found for other in by_lower[lower]][:most]


def quoted(names: Iterable[object], most: int = 5) -> str:
    """Names in quotes; of many the first ones, and how many more there are."""
    listed = [repr(name) for name in names]
    shown, more = listed[:most], len(listed) - most
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def hint(name: str, names: Sequence[str]) -> str:
    """The end of a sentence on a name that is not there: similar names, or those that there are."""
    meant = near(name, names)
    return f": did you mean {quoted(meant)}?" if meant else f": the table has {quoted(names, 10)}."


def unknown(thing: str, name: object, names: Iterable[str]) -> str:
    """A sentence on a name that there is not.

    Examples
    --------
    >>> from evenmargin._util.sentences import unknown
    >>> unknown("table", "tabel1", ["table1", "figure2"])
    "There is no table 'tabel1': did you mean table1?"
    """
    names = [*names]
    meant = near(str(name), names)
    return f"There is no {thing} {name!r}: " + (
        f"did you mean {' or '.join(meant)}?" if meant else f"there are {', '.join(names)}."
    )
