"""The content of a column: numbers, dates or words, whatever type a file gave it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._util.sentences import quoted
from .._util.typing import Array, Index, Mask
from .kinds import GAPS, LARGEST, as_floats, as_instants, declared_kind, word_of

_SHARE = 0.9  # of the values that decide what a column is
_ID_ROWS = 50  # rows from which different values make an id
_NAMED_ID_ROWS = 10  # the same, where the name says so
_VOCABULARY = 1_000  # words of a category that are kept in mind, at most

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?")
_OTHER_DATE = re.compile(r"(?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\d{1,2}[. -]+[A-Za-z]{3,9}[. -]+\d{2,4})(?:[ T].*)?")
_MONEY = r"(?:[$€£¥%]|CHF|EUR|GBP|JPY|USD)?"
_DIGITS = r"[+-]?(?:\d+(?:[.,]\d+)?|\d{1,3}(?:[.' ]\d{3})+(?:,\d+)?|\d{1,3}(?:,\d{3})+(?:\.\d+)?)"
_OTHER_NUMBER = re.compile(f"{_MONEY} ?{_DIGITS} ?{_MONEY}")  # 1,5 and 1.037,50 and 12 € and 5%
TRUTH = {"true": 1.0, "false": 0.0}
_EARLIEST, _LATEST = np.datetime64("1678-01-01"), np.datetime64("2262-01-01")  # what nanoseconds reach
_ID_WORDS = frozenset(["id", "ids", "uid", "uuid", "guid", "key", "pk", "no", "nr", "num", "number", "index", "row"])
_JOINED_ID = re.compile(r"(?:customer|client|user|account|transaction|order|row|record|person|patient|case|member)_?id")

PLURAL = {"number": "numbers", "date": "dates", "category": "words"}


@dataclass(frozen=True)
class Content:
    """The values of a column in the form of its kind, and the values that were lost."""

    kind: str
    values: NDArray[Any]  # numbers, dates, or codes of words
    words: NDArray[Any] = field(default_factory=lambda: np.empty(0, object))
    count: int = 0  # values that are not missing in the file
    lost: Counter[str] = field(default_factory=Counter)  # values that count as missing
    strange: int = 0  # how many of these are of another kind; the others are infinite, or of the year 9999

    def series(self, rows: Mask | None) -> pd.Series:
        values = self.values if rows is None or rows.all() else self.values[rows]
        if self.kind == "category":
            return pd.Series(np.append(self.words, np.nan)[values], dtype=object)
        return pd.Series(values)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words of a category, if there are not too many."""
        return tuple(sorted(map(str, self.words))) if self.words.size <= _VOCABULARY else ()

    def beyond(self, vocabulary: Iterable[str]) -> Counter[str]:
        """Count the words that are not in the vocabulary."""
        known = set(vocabulary)
        return self._counted(np.array([word not in known for word in self.words], dtype=bool))

    def _counted(self, some: Mask) -> Counter[str]:
        """Count some of the words."""
        if not some.any():
            return Counter()
        often = np.bincount(self.values[self.values >= 0], minlength=self.words.size)
        return Counter({str(self.words[i]): int(often[i]) for i in np.flatnonzero(some)})

    def useless(self, rows: Mask) -> str:
        """Say why nothing can be learned from these rows of the column, if so."""
        if self.kind == "nested":
            return "lists, structures or bytes"
        values = self.values[rows]
        known = values[values >= 0 if self.kind == "category" else ~pd.isna(values)]
        if not known.size:
            return "no values"
        return "only one value" if known.size == values.size and (known == known[0]).all() else ""

    def identity(self, name: str) -> str:
        """Say why the column only identifies its rows, if so."""
        if self.kind == "category":
            if self.count < _ID_ROWS or self.words.size <= _SHARE * self.count:
                return ""
            return self._badly_written() or "nearly every value is different"
        if self.kind != "number" or self.count < _NAMED_ID_ROWS:
            return ""
        known = self.values[~np.isnan(self.values)]
        if not (known == np.floor(known)).all() or np.unique(known).size < known.size:
            return ""
        if known.size >= _ID_ROWS and np.ptp(known) + 1 <= known.size / _SHARE:
            return "consecutive numbers, one for each row"
        return "every value is different, and it is named like an id" if _named_like_id(name) else ""

    def remarks(self, name: str) -> list[str]:
        """Say what people should know, a sentence each."""
        if self.lost:
            return [lost_note(name, self.kind, self.lost)]
        badly = self._badly_written() or self._mixed()
        return [f"Column {name!r} is read as words: {badly}."] if badly else []

    def _badly_written(self) -> str:
        """Say how to write words that were meant as numbers or as dates, if they were."""
        some = self.words[:1000]
        for pattern, what, form in ((_OTHER_NUMBER, "numbers", "1234.5"), (_OTHER_DATE, "dates", "2024-01-31")):
            such = [word for word in some if pattern.fullmatch(word)]
            # Of 980 and 1,037 only one is badly written.
            badly = next((word for word in such if np.isnan(as_number(word))), None)
            if badly is not None and len(such) >= _SHARE * len(some):
                return f"write {what} like {badly!r} as {form}"
        return ""

    def _mixed(self) -> str:
        """Say which words keep it from being a column of numbers, if most of its values are numbers."""
        others = self._counted(np.isnan([as_number(word) for word in self.words]))
        if not (1 - _SHARE) * self.count < others.total() <= self.count / 2:
            return ""
        shown = quoted(word for word, _ in others.most_common(3))
        return f"{others.total():,} of its {self.count:,} values are not numbers, such as {shown}"


def content_of(column: pd.Series, kind: str | None = None) -> Content:
    """Read a column as what most of its values are, or as the given kind; one of lists is "nested" in either case."""
    declared = declared_kind(column)
    if declared in ("nested", "complex"):
        return Content("nested", np.empty(0))
    if declared in ("number", "span") and kind in (None, "number"):
        return _finite(as_floats(column))
    if declared == "date" and kind in (None, "date"):
        return _dated(_in_utc(as_instants(column)))
    codes, words = coded(column)
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    count = int(counts.sum())
    if kind is None and declared == "category":
        kind = "category"
    for one, (parse, gap) in _PARSERS.items():
        if kind in (None, one):
            values, fits = parse(words)
            if kind is not None or counts[fits].sum() >= _SHARE * count:
                lost = Counter({words[i]: int(counts[i]) for i in np.flatnonzero(np.isnan(values))})
                strange = int(counts[~fits].sum())
                return Content(one, np.append(values, gap)[codes], count=count, lost=lost, strange=strange)
    return Content("category", codes, np.array(words, dtype=object), count)


def _finite(values: Array) -> Content:
    beyond = np.abs(values) >= LARGEST
    lost = Counter(str(value) for value in values[beyond].tolist())
    known = int(np.count_nonzero(~np.isnan(values)))
    return Content("number", np.where(beyond, np.nan, values) if lost else values, count=known, lost=lost)


def _in_utc(instants: pd.Series) -> NDArray[np.datetime64]:
    """Turn instants into NumPy's, in whatever unit."""
    return (instants if getattr(instants.dtype, "tz", None) is None else instants.dt.tz_convert(None)).to_numpy()


def _dated(values: NDArray[np.datetime64]) -> Content:
    inside, known = _in_reach(values), ~np.isnat(values)
    lost = Counter(np.datetime_as_string(values[known & np.isnat(inside)], unit="D").tolist())
    return Content("date", inside, count=int(known.sum()), lost=lost)


def _in_reach(values: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """Turn dates into nanoseconds, as far as these reach: years like 9999 mean that there is no date."""
    inside = (values >= _EARLIEST) & (values < _LATEST)
    return np.where(inside, values, np.datetime64("NaT")).astype("datetime64[ns]")


def coded(column: pd.Series) -> tuple[Index, list[str]]:
    """Code a column by its words without spaces around them; -1 is none."""
    codes, values = pd.factorize(column.astype(object))
    words = [word_of(value).strip() for value in values]
    again, different = pd.factorize(np.array([None if word in GAPS else word for word in words], dtype=object))
    if not words:
        return np.full(len(column), -1), []
    return np.where(codes >= 0, again[codes], -1), list(different)


def as_number(word: str) -> float:
    """Read a word as a number, which may be infinite; NaN if it is none."""
    truth = TRUTH.get(word.lower())
    if truth is not None:
        return truth
    try:
        return np.nan if "_" in word else float(word)
    except ValueError:
        return np.nan


def _parse_numbers(words: list[str]) -> tuple[Array, Mask]:
    """Read words as numbers that can be used, and say which words are numbers."""
    values = np.array([as_number(word) for word in words], dtype=np.float64)
    return np.where(np.abs(values) < LARGEST, values, np.nan), ~np.isnan(values)


def _parse_dates(words: list[str]) -> tuple[NDArray[np.datetime64], Mask]:
    """Read words as dates that can be used, and say which words are written like dates."""
    fits = np.array([_DATE.fullmatch(word) is not None for word in words], dtype=bool)
    if not fits.any():
        return np.full(len(words), np.datetime64("NaT", "ns")), fits
    some = [word if fit else None for word, fit in zip(words, fits, strict=True)]
    values = _in_utc(pd.Series(pd.to_datetime(some, format="ISO8601", utc=True, errors="coerce")))
    return _in_reach(values), fits


_PARSERS: dict[str, tuple[Any, Any]] = {
    "number": (_parse_numbers, np.nan),
    "date": (_parse_dates, np.datetime64("NaT", "ns")),
}


def _named_like_id(name: str) -> bool:
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return any(part.lower() in _ID_WORDS for part in parts) or _JOINED_ID.fullmatch(name.lower()) is not None


def lost_note(name: str, kind: str, lost: Counter[str]) -> str:
    """Say which values of a column count as missing, and how many."""
    words = ", ".join(repr(word) for word, _ in lost.most_common(3)) + (" and others" if len(lost) > 3 else "")
    if lost.total() == 1:
        return f"1 value of {name!r} is not a {kind} and counts as missing: {words}."
    return f"{lost.total():,} values of {name!r} are not {PLURAL[kind]} and count as missing: {words}."
