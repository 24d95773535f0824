"""How numbers are written in a text file: 1234.5, 1234,5 or 1.234,5."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pandas as pd

__all__ = ["Style"]

_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3}){1,2}(?:,\d+)?")  # of four groups it may be an address

# Decimals for sure: 1,5 and 0,037 and 1.037,5 but not 1,037; 1.5 and 0.037 but not 1.037.
_SURE_COMMA = re.compile(r"(?![+-]?[1-9]\d{0,2},\d{3}$)[+-]?(?:\d+|[1-9]\d{0,2}(?:\.\d{3}){1,2}),\d+")
_SURE_POINT = re.compile(r"(?![+-]?[1-9]\d{0,2}\.\d{3}$)[+-]?\d+\.\d+")


class Style(NamedTuple):
    """How numbers are written in a text file.

    With commas for decimals a point can only stand between thousands, unless some
    numbers have points for decimals, too.

    Examples
    --------
    >>> from evenmargin.cli._reading._numbers import Style
    >>> style = Style.of(b"12,5;no\\n1.037;yes\\n", ";")
    >>> style.decimal, style.told("1.037"), Style.of(b"980;no\\n1,037;yes\\n", ";").decimal
    (',', '1037', '.')
    """

    decimal: str = "."
    thousands: bool = False
    example: str = "1,5"
    sure: bool = False  # whether a number in the file tells

    @classmethod
    def of(cls, sample: bytes, separator: str) -> Style:
        """As the first lines have it, between separators that are no commas.

        1,037 may be more than a thousand: where all numbers with commas are like it, commas are not taken for decimals.
        """
        if separator == ",":
            return cls()
        s = re.escape(separator.encode())
        fields = re.findall(rb'(?<=[%b\n])"?([+-]?\d[\d.]*[.,]\d+)"?(?=[%b\n])' % (s, s), b"\n" + sample)
        written = [field.decode() for field in fields]
        commas = [one for one in written if _SURE_COMMA.fullmatch(one)]
        points = [one for one in written if _SURE_POINT.fullmatch(one)]
        if len(commas) > len(points):
            return cls(",", not points, commas[0], sure=True)
        return cls(sure=bool(points))

    def notes(self, name: str) -> list[str]:
        """What is assumed, if that is not the usual."""
        if self.decimal == ".":
            return []
        between = ", and points between thousands" if self.thousands else ""
        return [
            f"Numbers in {name} are read with decimal commas{between}: {self.example} is {self.told(self.example)}."
        ]

    def told(self, word: str) -> str:
        """A word as it is, or a number in it with a decimal point."""
        if self.thousands and _THOUSANDS.fullmatch(word.strip()):
            word = word.replace(".", "")
        return word.replace(",", ".") if _COMMA.fullmatch(word.strip()) else word

    def with_points(self, frame: pd.DataFrame, copied: Collection[str]) -> pd.DataFrame:
        """Numbers among the words of a column, too, in Python's form: elsewhere in the column they were read so."""
        if self.decimal == ".":
            return frame
        for name in frame.columns:
            if name not in copied and frame[name].dtype.kind not in "biuf":
                codes, words = pd.factorize(frame[name].astype(object))
                told = [self.told(word) if isinstance(word, str) else word for word in words]
                if told != list(words):
                    frame[name] = np.array([*told, np.nan], dtype=object)[codes]
        return frame
