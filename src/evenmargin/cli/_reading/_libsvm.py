"""libsvm format: a label, then index:value."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Iterator, Set
from typing import Any

import pandas as pd

from ..._util.typing import VectorLike
from ._base import CELLS, ROWS, InputError, TableFile
from ._bytes import CHUNK, ByteSource
from ._lines import LONGEST, endless, utf8

_WIDEST = 20_000  # columns of a libsvm file, which is read as a dense table
_LIBSVM_NAME = re.compile(r"x(\d{1,9})")
_NUMBER = rb"[+-]?(?:\d+\.?\d*|\.\d+|nan|inf)(?:[eE][+-]?\d+)?"
_LIBSVM_LINE = re.compile(rb"\s*(?:%b(?:[ \t]+qid:\d+)?(?:[ \t]+\d+:%b)*\s*)?(?:#.*)?" % (_NUMBER, _NUMBER))


class LibsvmFile(TableFile):
    """A label and the values that are not zero: columns "label", "x1", "x2", …, by the numbers in the file."""

    format = "libsvm"

    def __init__(self, source: ByteSource, encoding: str) -> None:
        self.name, self._source, self._encoding = source.name, source, encoding
        self.notes = []
        self._file = None if source.again else source.spool()
        lowest, highest = 1, 0
        for X, _ in self._blocks():
            if X.nnz:
                lowest, highest = min(lowest, int(X.indices.min())), max(highest, X.shape[1] - 1)
        if highest - lowest + 1 > _WIDEST:
            raise InputError(
                f"{self.name} has {highest - lowest + 1} columns, but at most {_WIDEST} can be read here: in "
                "Python, LinearSVM takes the sparse matrix of sklearn.datasets.load_svmlight_file."
            )
        self.columns = ["label", *(f"x{j}" for j in range(lowest, highest + 1))]

    def _wanted(self, columns: Iterable[str] | None, exact: Iterable[str] = ()) -> tuple[list[str], set[str]]:
        return (self.columns if columns is None else list(dict.fromkeys([*columns, *exact]))), set()

    def _whole(self, columns: list[str], words: Set[str]) -> pd.DataFrame:
        pieces = list(self._pieces(ROWS, columns, words, set()))
        return pd.concat(pieces, ignore_index=True) if pieces else self._no_rows()

    def _pieces(self, rows: int, columns: list[str], words: Set[str], copied: Set[str]) -> Iterator[pd.DataFrame]:
        rows = max(1, min(rows, CELLS // max(1, len(columns))))
        for X, y in self._blocks():
            for i in range(0, X.shape[0], rows):
                yield _dense(X[i : i + rows], y[i : i + rows], columns)

    def lacks(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name != "label" and not _LIBSVM_NAME.fullmatch(name)]

    def _blocks(self) -> Iterator[tuple[Any, Any]]:
        """Read sparse rows and their labels, some at a time."""
        if self._file is None:
            chunks = self._source.chunks()
        else:
            self._file.seek(0)
            chunks = iter(lambda: self._file.read(CHUNK) if self._file else b"", b"")
        line, rest = 1, b""
        for chunk in itertools.chain(utf8(chunks, self._encoding, self.name), [b"\n"]):
            lines, newline, end = (rest + chunk).rpartition(b"\n")
            rest = end
            if len(rest) > LONGEST:
                endless(rest, False, self.name, line)
            if lines.strip():
                yield self._parsed(lines + newline, line)
            line += lines.count(10) + len(newline)

    def _parsed(self, lines: bytes, line: int) -> tuple[Any, Any]:
        from sklearn.datasets import load_svmlight_file

        try:
            return load_svmlight_file(io.BytesIO(lines), zero_based=True)
        except (ValueError, OverflowError, IndexError) as error:
            bad = (i for i, one in enumerate(lines.split(b"\n"), line) if not _LIBSVM_LINE.fullmatch(one))
            where = next((f"line {i}" for i in bad), f"a line after {line}")
            raise InputError(
                f"{self.name} has an error in {where}: in libsvm format a line is a label and then index:value, with "
                f"indices in their order ({error})."
            ) from None


def _dense(X: Any, y: VectorLike, columns: list[str]) -> pd.DataFrame:
    """Make a table of rows of a sparse matrix, with the columns that are asked for and have names of its kind."""
    names = [name for name in columns if _LIBSVM_NAME.fullmatch(name)]
    places = [int(name[1:]) for name in names]
    X.resize(X.shape[0], max([X.shape[1], *(place + 1 for place in places)]))
    frame = pd.DataFrame(X.tocsc()[:, places].toarray(), columns=names)
    if "label" in columns:
        frame.insert(0, "label", y)
    return frame[[name for name in columns if name in frame]]
