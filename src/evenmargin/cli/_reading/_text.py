"""CSV and other text with a separator: the header, how numbers are written, and pandas' reader."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Set
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..._tables.kinds import GAPS
from ._base import InputError, TableFile, all_different
from ._bytes import ByteSource
from ._lines import blocks, read_header, utf8

_SLICE = 1 << 18  # bytes that pandas asks for at a time
_GAPS = sorted(GAPS)

_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3}){1,2}(?:,\d+)?")  # of four groups it may be an address

# Decimals for sure: 1,5 and 0,037 and 1.037,5 but not 1,037; 1.5 and 0.037 but not 1.037.
_SURE_COMMA = re.compile(r"(?![+-]?[1-9]\d{0,2},\d{3}$)[+-]?(?:\d+|[1-9]\d{0,2}(?:\.\d{3}){1,2}),\d+")
_SURE_POINT = re.compile(r"(?![+-]?[1-9]\d{0,2}\.\d{3}$)[+-]?\d+\.\d+")

# pandas 3.1 reads every float as Python does and deprecates the option that older ones need for it.
_ROUND_TRIP = {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}


class TextFile(TableFile):
    """CSV, TSV and the like."""

    def __init__(self, source: ByteSource, encoding: str, separator: str | None) -> None:
        self.name, self._source, self._encoding = source.name, source, encoding
        text = utf8(source.chunks(), encoding, self.name)
        header = read_header(text, separator, self.name)
        self.separator = header.separator
        self.format = "tsv" if self.separator == "\t" else "csv"
        self.columns = _names(header.text, self.separator, self.name)
        sample = next(header.rest, b"")
        self._use(Style.of(sample, self.separator))
        self._begun = None if source.again else header._replace(rest=itertools.chain([sample], header.rest))
        if source.again:
            text.close()

    def _use(self, style: Style) -> None:
        self._style, self.notes, self.decimal_comma = style, style.notes(self.name), style.decimal == ","

    def _whole(self, columns: list[str], words: Set[str]) -> pd.DataFrame:
        return self._parse(_Feed(self._lines()), columns, words)

    def _pieces(self, rows: int, columns: list[str], words: Set[str], copied: Set[str]) -> Iterator[pd.DataFrame]:
        for block in self._lines():
            frame = self._parse(_Feed([block]), columns, words, copied)
            yield from (frame.iloc[i : i + rows].reset_index(drop=True) for i in range(0, len(frame), rows))

    def expect(self, decimal_comma: bool) -> None:
        if decimal_comma and not self._style.sure and self.separator != ",":
            self._use(Style(",", True))

    def _lines(self) -> Iterator[tuple[bytes, int]]:
        """Blocks of lines after the header."""
        header, self._begun = self._begun, None
        if header is None:
            header = read_header(utf8(self._source.chunks(), self._encoding, self.name), self.separator, self.name)
        return blocks(header, len(self.columns), self.name)

    def _parse(self, file: _Feed, columns: list[str], words: Set[str], copied: Set[str] = frozenset()) -> pd.DataFrame:
        types = dict.fromkeys(words & set(columns), "object") | dict.fromkeys(copied, "string")
        # NA may be Namibia: in what is copied only an empty field is a gap.
        gaps = {name: [""] if name in copied else _GAPS for name in columns} if copied else _GAPS
        try:
            frame = pd.read_csv(
                file,
                sep=self.separator,
                decimal=self._style.decimal,
                header=None,
                names=self.columns,
                usecols=columns,
                index_col=False,
                dtype=types,
                keep_default_na=False,
                na_values=gaps,
                skipinitialspace=self.separator != " ",
                skip_blank_lines=False,  # they are dropped already, by the same rule in every pandas
                low_memory=False,
                encoding="utf-8",
                **_ROUND_TRIP,
            )
        except InputError:
            raise
        except pd.errors.EmptyDataError:
            self._no_rows()
        except (ValueError, OverflowError) as error:
            message = str(error).strip().split("\n")[-1].rstrip(".")
            raise InputError(f"{self.name} cannot be read: {message}.") from None
        return self._style.with_points(frame, copied)


class Style(NamedTuple):
    """How numbers are written in a text file: 1234.5, 1234,5 or 1.234,5."""

    decimal: str = "."
    thousands: bool = False  # with decimal commas, unless some numbers have decimal points, too
    example: str = "1,5"
    sure: bool = False  # whether a number in the file tells

    @classmethod
    def of(cls, sample: bytes, separator: str) -> Style:
        """Find the style of the first lines.

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
        """Say what is assumed, if it is not the usual."""
        if self.decimal == ".":
            return []
        between = ", and points between thousands" if self.thousands else ""
        number = self.with_point(self.example)
        return [f"Numbers in {name} are read with decimal commas{between}: {self.example} is {number}."]

    def with_point(self, word: str) -> str:
        """Write a number with a decimal point; other words stay as they are."""
        if self.thousands and _THOUSANDS.fullmatch(word.strip()):
            word = word.replace(".", "")
        return word.replace(",", ".") if _COMMA.fullmatch(word.strip()) else word

    def with_points(self, frame: pd.DataFrame, copied: Collection[str]) -> pd.DataFrame:
        """Write numbers in columns of words with a decimal point, too: where all are numbers they were read so."""
        if self.decimal == ".":
            return frame
        for name in frame.columns:
            if name not in copied and frame[name].dtype.kind not in "biuf":
                codes, words = pd.factorize(frame[name].astype(object))
                plain = [self.with_point(word) if isinstance(word, str) else word for word in words]
                if plain != list(words):
                    frame[name] = np.array([*plain, np.nan], dtype=object)[codes]
        return frame


class _Feed:
    """A file of blocks of lines for pandas, which passes on the errors that are raised in them."""

    def __init__(self, blocks: Iterable[tuple[bytes, int]]) -> None:
        self._slices = (block[i : i + _SLICE] for block, _ in blocks for i in range(0, len(block), _SLICE))

    def read(self, size: int = -1) -> bytes:
        return next(self._slices, b"")

    def __iter__(self) -> Iterator[bytes]:
        return self._slices


def _names(header: bytes, separator: str, name: str) -> list[str]:
    try:
        text = io.StringIO(header.decode(), newline="")
        fields = next(csv.reader(text, delimiter=separator, skipinitialspace=separator != " "))
    except (csv.Error, StopIteration) as error:
        raise InputError(f"The first line of {name} is not a header: {error}.") from None
    fields = [field.strip() for field in fields]
    named = [field for field in fields if field]
    whole = all(re.fullmatch(r"\d+", field) for field in named) and len(set(named)) == len(named)
    if named and not whole and all(re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", field) for field in named):
        raise InputError(f"The first line of {name} holds numbers: add a line with the names of the columns before it.")
    return all_different([field or f"column {j}" for j, field in enumerate(fields, 1)], name)
