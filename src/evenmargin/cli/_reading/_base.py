"""What every file with a table can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NoReturn

import pandas as pd

from ..._util.sentences import quoted

CELLS = 4_000_000  # of a piece of a Parquet file
ROWS = 100_000


class InputError(ValueError):
    """A file or a table that cannot be used; one sentence that says why and what to do."""


class TableFile(ABC):
    """A file that holds a table; made by `open_table`."""

    name: str
    format: str  # "csv", "tsv", "parquet", "arrow" or "libsvm"
    columns: list[str]  # in the order of the file
    notes: list[str]  # what people should know of how it is read, a sentence each
    decimal_comma: bool = False  # whether its numbers are like 1,5; only in text

    def read(self, *, columns: Iterable[str] | None = None, words: Iterable[str] = ()) -> pd.DataFrame:
        """Read the whole table, or these columns of it; `words` are read as text whatever they look like.

        Names that the file does not have are ignored; in a libsvm file they are columns of zeros.
        """
        frame = self._whole(self._wanted(columns)[0], set(words))
        return frame if len(frame) else self._no_rows()

    def pieces(
        self,
        rows: int = ROWS,
        *,
        columns: Iterable[str] | None = None,
        words: Iterable[str] = (),
        exact: Iterable[str] = (),
    ) -> Iterator[pd.DataFrame]:
        """Read the table in pieces of at most so many rows; see `read`.

        Columns that are `exact`, and not among `columns`, are copied and not computed with. They have the same type
        in every piece: their own in Parquet and Arrow (a dictionary's values by themselves), pandas' "string" in
        text, where only an empty field is a gap.
        """
        wanted, copied = self._wanted(columns, exact)
        empty = True
        for piece in self._pieces(rows, wanted, set(words), copied):
            empty = False
            yield piece
        if empty:
            self._no_rows()

    @abstractmethod
    def _whole(self, columns: list[str], words: Set[str]) -> pd.DataFrame:
        """Read all rows of these columns; see `read`."""

    @abstractmethod
    def _pieces(self, rows: int, columns: list[str], words: Set[str], copied: Set[str]) -> Iterator[pd.DataFrame]:
        """Read these columns in pieces; see `pieces`."""

    def expect(self, decimal_comma: bool) -> None:  # noqa: B027  (only text leaves a doubt)
        """Read numbers as they were at the fit where the file itself does not tell: is 1.037 above a thousand?"""

    def lacks(self, names: Iterable[str]) -> list[str]:
        """List those of the names that the file cannot give."""
        known = set(self.columns)
        return [name for name in names if name not in known]

    def _wanted(self, columns: Iterable[str] | None, exact: Iterable[str] = ()) -> tuple[list[str], set[str]]:
        """List the columns to read, in the file's order, and which of them are only copied.

        Where the file has none of them it is its first column, so that rows can be counted.
        """
        read = None if columns is None else set(columns)
        copied = (set(exact) & set(self.columns)) - (read or set())
        asked = self.columns if read is None else [name for name in self.columns if name in read | copied]
        return asked or self.columns[:1], copied

    def _no_rows(self) -> NoReturn:
        raise InputError(f"{self.name} has column names but no rows: there is nothing to read.")


def damaged(name: str, error: Exception) -> InputError:
    """Put what a library says of a damaged file into one sentence."""
    message = (getattr(error, "strerror", None) or str(error)).strip().split("\n")[0][:200].rstrip(".")
    return InputError(f"{name} is damaged or cut short, and cannot be read: {message or 'no more bytes'}.")


def all_different(columns: Sequence[str], name: str) -> list[str]:
    """Refuse names of columns of which two are the same."""
    twice = [column for column, count in Counter(columns).items() if count > 1]
    if twice:
        raise InputError(f"{name} has more than one column named {quoted(twice)}: give each column a name of its own.")
    return list(columns)
