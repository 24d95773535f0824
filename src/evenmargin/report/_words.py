"""Numbers and names as a reader wants them. `page.js` writes the same numbers in the same way."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pandas as pd

__all__ = [
    "amount", "between", "cut", "fixed", "name_of", "out_of_100", "percent", "plural", "rows_of", "significant",
    "value",
]  # fmt: skip

_UNKNOWN = "unknown"


def fixed(number: float, decimals: int) -> str:
    """A number with so many decimals and thousands apart, halves away from zero as in JavaScript's toFixed."""
    rounded = Decimal(abs(float(number))).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    return ("−" if number < 0 and rounded != 0 else "") + f"{rounded:,}"


def amount(number: float) -> str:
    """A count or a price: whole from 100 on, else with one decimal where it has any.

    Examples
    --------
    >>> from evenmargin.report._words import amount
    >>> amount(40.0), amount(12345.6), amount(3.14), amount(float("nan")), amount(-2)
    ('40', '12,346', '3.1', 'unknown', '−2')
    """
    if not math.isfinite(number):
        return _UNKNOWN
    return fixed(number, 0) if abs(number) >= 100 else fixed(number, 1).removesuffix(".0")


def percent(share: float) -> str:
    r"""A share with one decimal, small ones with two digits; the sign stays on the same line.

    Examples
    --------
    >>> from evenmargin.report._words import percent
    >>> percent(0.9475), percent(0.00069), percent(0.0), percent(float("nan"))
    ('94.8\xa0%', '0.069\xa0%', '0.0\xa0%', 'unknown')
    """
    if not math.isfinite(share):
        return _UNKNOWN
    hundredths = 100.0 * share
    small = 0 < abs(hundredths) < 0.1
    return fixed(hundredths, min(8, 1 - math.floor(math.log10(abs(hundredths)))) if small else 1) + "\u00a0%"


def significant(number: float, digits: int = 3) -> str:
    """A number with so many digits."""
    if not math.isfinite(number):
        return _UNKNOWN if math.isnan(number) else ("−" if number < 0 else "") + "∞"
    if number == 0:
        return "0"
    size = math.floor(math.log10(abs(number)))
    if not -5 <= size < 12:
        return f"{number:.{digits - 1}e}".replace("-", "−")
    return fixed(number, max(0, digits - 1 - size))


def out_of_100(share: float) -> str:
    """How many of 100, as said in a sentence: whole, but not 0 or 100 where it is neither."""
    if not math.isfinite(share):
        return _UNKNOWN
    hundredths = 100.0 * share
    if 0 < hundredths < 0.5:
        return "fewer than 1"
    if 99.5 < hundredths < 100:
        return "more than 99"
    return fixed(hundredths, 0)


def between(low: float, high: float) -> str:
    """A range out of 100."""
    return f"{fixed(100 * low, 0)} to {fixed(100 * high, 0)}"


def plural(count: float, one: str, many: str) -> str:
    return one if count == 1 else many


def rows_of(count: float) -> str:
    """So many rows."""
    return f"{amount(count)} {plural(count, 'row', 'rows')}"


def cut(text: Any, most: int = 60) -> str:
    """A text of at most so many characters, in one line."""
    words = " ".join(str(text).split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def name_of(label: Any) -> str:
    """A label as it is shown."""
    return cut(label.item() if isinstance(label, np.generic) else label, 40)


def value(cell: Any, most: int = 40) -> str:
    """A cell of a table."""
    if pd.api.types.is_scalar(cell) and pd.isna(cell):
        return "missing"
    if isinstance(cell, bool | np.bool_):
        return "yes" if cell else "no"
    if isinstance(cell, int | np.integer):
        return f"{int(cell):,}".replace("-", "−") if abs(int(cell)) >= 100_000 else str(int(cell)).replace("-", "−")
    if isinstance(cell, float | np.floating):
        number = float(cell)
        return value(int(number)) if number.is_integer() and abs(number) < 1e12 else significant(number, 4)
    if isinstance(cell, pd.Timestamp):
        return str(cell.date()) if cell == cell.normalize() else str(cell.floor("s"))
    return cut(cell, most)
