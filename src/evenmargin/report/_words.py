"""Numbers and names in the form that readers of the report see. `page.js` writes costs in the same form."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pandas as pd

from ..operating import MetricInterval

__all__ = [
    "amount", "cut", "fixed", "name_of", "out_of_100", "percent", "plural", "price", "quoted", "range_of_100",
    "rows_of", "significant", "typed", "value",
]  # fmt: skip

_UNKNOWN = "unknown"
_LARGE = 1e15  # from here on with a power of ten
_DIGITS = Context(prec=400)  # enough for every float


def fixed(number: float, decimals: int) -> str:
    """A number with so many decimals and thousands separated, halves away from zero as in JavaScript's toFixed."""
    rounded = Decimal(abs(float(number))).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP, _DIGITS)
    return ("−" if number < 0 and rounded != 0 else "") + f"{rounded:,}"


def _exponent(number: float, digits: int = 3) -> str:
    """As in JavaScript's toExponential: halves away from zero, no zeros before the power."""
    rounded = Context(prec=digits, rounding=ROUND_HALF_UP).create_decimal_from_float(float(number))
    return f"{rounded:.{digits - 1}e}".replace("-", "−")


def amount(number: float) -> str:
    """A count or a cost: whole from 100 on, else with one decimal where it has any.

    >>> amount(40.0), amount(12345.6), amount(3.14), amount(float("nan")), amount(-2), amount(1e30)
    ('40', '12,346', '3.1', 'unknown', '−2', '1.00e+30')
    """
    if not math.isfinite(number):
        return _UNKNOWN
    if abs(number) >= _LARGE:
        return _exponent(number)
    return fixed(number, 0) if abs(number) >= 100 else fixed(number, 1).removesuffix(".0")


def typed(number: float) -> str:
    """A number with all its digits, as a reader would type it into a field of the page."""
    return repr(float(number)).removesuffix(".0")


def price(number: float) -> str:
    """A price with all its digits, thousands separated.

    >>> price(1234567.0), price(0.025), price(1e30)
    ('1,234,567', '0.025', '1e+30')
    """
    written = typed(number)
    return written if "e" in written else f"{Decimal(written):,f}"


def percent(share: float) -> str:
    r"""A share with one decimal, or with two digits if it is small; the sign stays on the same line.

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
        return _exponent(number, digits)
    return fixed(number, max(0, digits - 1 - size))


def out_of_100(found: MetricInterval, about: str = "") -> str:
    """How many of 100, for a sentence: as precise as its range, and not 0 or 100 where it is neither.

    `about` is put before a figure that is no bound.

    >>> for found in (MetricInterval(0.93, 0.81, 0.98), MetricInterval(0.003, 0.001, 0.008)):
    ...     print(out_of_100(found, about="about "), f"({range_of_100(found)})")
    about 93 (81 to 98)
    about 0.3 (0.1 to 0.8)
    >>> out_of_100(MetricInterval(0.998, 0.9, 1.0), about="about ")
    'more than 99'
    """
    if not math.isfinite(found.value):
        return _UNKNOWN
    decimals, hundredths = _decimals(found), 100.0 * found.value
    least = 10.0**-decimals
    if 0 < hundredths < 0.5 * least:
        return f"{'less' if decimals else 'fewer'} than {_short(least, decimals)}"
    if 100.0 - 0.5 * least < hundredths < 100.0:
        return f"more than {_short(100.0 - least, decimals)}"
    return about + _short(hundredths, decimals)


def range_of_100(found: MetricInterval) -> str:
    """The range of a share, out of 100."""
    decimals = _decimals(found)
    return f"{_short(100.0 * found.low, decimals)} to {_short(100.0 * found.high, decimals)}"


def _decimals(found: MetricInterval) -> int:
    """0 for most ranges; more where all of the range is near 0 or near 100."""
    reach = 100.0 * min(found.high, 1.0 - found.low)
    return 0 if not 0 < reach < 5 else min(8, 1 - math.floor(math.log10(2.0 * reach)))


def _short(number: float, decimals: int) -> str:
    """A number with so many decimals, or none if they are all zeros."""
    return fixed(number, decimals).removesuffix("." + decimals * "0")


def plural(count: float, one: str, many: str) -> str:
    return one if count == 1 else many


def rows_of(count: float) -> str:
    return f"{amount(count)} {plural(count, 'row', 'rows')}"


def cut(text: object, most: int = 60) -> str:
    """A text in one line, cut after so many characters."""
    words = " ".join(str(text).split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def name_of(label: object) -> str:
    return cut(label.item() if isinstance(label, np.generic) else label, 40)


def quoted(label: object) -> str:
    return f"“{name_of(label)}”"


def value(cell: object, most: int = 40) -> str:
    """A cell of a table, in a few characters."""
    if pd.api.types.is_scalar(cell) and pd.isna(cell):
        return "missing"
    if isinstance(cell, bool | np.bool_):
        return "yes" if cell else "no"
    if isinstance(cell, int | np.integer):
        return (f"{int(cell):,}" if abs(int(cell)) >= 100_000 else str(int(cell))).replace("-", "−")
    if isinstance(cell, float | np.floating):
        number = float(cell)
        return value(int(number)) if number.is_integer() and abs(number) < 1e12 else significant(number, 4)
    if isinstance(cell, pd.Timestamp):
        return str(cell.date()) if cell == cell.normalize() else str(cell.floor("s"))
    return cut(cell, most)
