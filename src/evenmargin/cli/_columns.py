"""What to learn from in a table, and the same columns again when predicting.

A column is of one of three kinds, which are those of `_tables`:

- `number`: at least nine values in ten are numbers (or true and false). Others count as missing.
- `date`: at least nine in ten are dates like 2024-01-31 or 2024-01-31T10:00Z.
- `category`: words, as they stand in the file but for spaces around them.

The rule looks at values and not at the file's types, so that a table gives the same
columns from CSV and from Parquet; only a column that a Parquet file declares as a
dictionary is a category whatever its values. Numbers come out as float64, dates as
datetime64[ns] in UTC, words as strings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._reading import MISSING, InputError, TableFile, near, quoted

__all__ = ["Column", "Matched", "Matcher", "Prepared", "Schema", "labels", "match", "prepare"]

Codes = NDArray[np.intp]

_SHARE = 0.9  # of the values that decide what a column is
_ID_ROWS = 50  # rows from which different values make an id
_NAMED_ID_ROWS = 10  # the same, where the name says so
_CLASSES = 20  # different numbers of a target, above which it is a measurement
_TELLING = 20  # values of a column that may tell the class between them
_JUDGED = 10  # values from which a column can be mostly something else
_EXAMPLES = 100  # words kept of those that count as missing
_LARGEST = 1e100  # as in `_tables`: numbers beyond are no measurements

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?")
_OTHER_DATE = re.compile(r"(?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\d{1,2}[. -]+[A-Za-z]{3,9}[. -]+\d{2,4})(?:[ T].*)?")
_COMMAS = re.compile(r"[+-]?\d+,\d+|[+-]?\d{1,3}(?:[.' ]\d{3})+(?:,\d+)?|[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_TRUTH = {"true": 1.0, "false": 0.0}
_EARLIEST, _LATEST = np.datetime64("1678-01-01"), np.datetime64("2262-01-01")  # what nanoseconds reach
_ID_WORDS = frozenset(["id", "ids", "uid", "uuid", "guid", "key", "pk", "no", "nr", "num", "number", "index", "row"])
_JOINED_ID = re.compile(r"(?:customer|client|user|account|transaction|order|row|record|person|patient|case|member)_?id")

_NUMBERS = ("integer", "floating", "mixed-integer-float", "boolean", "decimal")
_DATES = ("date", "datetime", "datetime64")
_PLURAL = {"number": "numbers", "date": "dates", "category": "words"}
_NESTED = (list, dict, tuple, set, bytes, np.ndarray)


@dataclass(frozen=True)
class Column:
    """A column that a model was fitted on; its kind is "number", "category" or "date"."""

    name: str
    kind: str


@dataclass(frozen=True)
class Schema:
    """What a model was fitted on; it travels with the model.

    Attributes
    ----------
    target : str
        The column of labels.
    positive : str
        The label that is looked for, as text.
    others : tuple of str
        The other labels.
    label_type : str
        "text", "number" or "bool": what labels are in y.
    grouped : bool
        Whether every value of the target but `positive` is the one label in `others`.
    columns : tuple of Column
        In the order in which the model knows them.
    left_out : mapping of str to str
        Other columns, and why.
    """

    target: str
    positive: str
    others: tuple[str, ...]
    label_type: str
    grouped: bool
    columns: tuple[Column, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return [column.name for column in self.columns]

    @property
    def words(self) -> list[str]:
        """Columns that a text file must give as they stand in it."""
        return [column.name for column in self.columns if column.kind != "number"]

    def to_notes(self) -> dict[str, Any]:
        """What JSON can hold."""
        return {
            "target": self.target,
            "positive": self.positive,
            "others": list(self.others),
            "label_type": self.label_type,
            "grouped": self.grouped,
            "columns": [[column.name, column.kind] for column in self.columns],
            "left_out": dict(self.left_out),
        }

    @classmethod
    def from_notes(cls, notes: Mapping[str, Any]) -> Schema:
        """The schema again.

        Examples
        --------
        >>> from evenmargin.cli._columns import Column, Schema
        >>> schema = Schema("fraud", "yes", ("no",), "text", False, (Column("amount", "number"),))
        >>> Schema.from_notes(schema.to_notes()) == schema
        True
        """
        try:
            return cls(
                str(notes["target"]),
                str(notes["positive"]),
                tuple(map(str, notes["others"])),
                str(notes["label_type"]),
                bool(notes["grouped"]),
                tuple(Column(str(name), str(kind)) for name, kind in notes["columns"]),
                {str(name): str(why) for name, why in notes["left_out"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError("The model's notes about its table cannot be read: fit it again.") from None


@dataclass(frozen=True)
class Prepared:
    """A table to learn from.

    Attributes
    ----------
    X : DataFrame
    y : ndarray of shape (n_rows,)
        Labels: strings, numbers or booleans.
    schema : Schema
    notes : list of str
        What people should know, a sentence each.
    rows : ndarray of bool
        Which rows of the table X and y have: those with a label.
    positive : str, int, float or bool
        The label in y that is looked for.
    """

    X: pd.DataFrame
    y: NDArray[Any]
    schema: Schema
    notes: list[str]
    rows: NDArray[np.bool_]
    positive: Any


@dataclass(frozen=True)
class Matched:
    """Rows as a model takes them, and what people should know."""

    X: pd.DataFrame
    notes: list[str]


def prepare(
    frame: pd.DataFrame,
    target: str,
    positive: str | None = None,
    *,
    drop: Iterable[str] = (),
    keep: Iterable[str] = (),
) -> Prepared:
    """Find out what can be learned from a table.

    Ids, columns with one value or none, and lists are left out, each with a word.

    Parameters
    ----------
    frame : DataFrame
        As `open_table(path).read()` gives it.
    target : str
        The column of labels. Rows without one are left out.
    positive : str, default=None
        The label to look for, as text: "1" is 1 and 1.0. With more than two labels it
        must be given, and stands against the rest. None: the rarer of two.
    drop : iterable of str, default=()
        Columns to leave out.
    keep : iterable of str, default=()
        Columns to keep although they look like ids.

    Returns
    -------
    Prepared

    Examples
    --------
    >>> import pandas as pd
    >>> from evenmargin.cli._columns import prepare
    >>> frame = pd.DataFrame({"sum": ["12", "7.5", "80"], "bank": ["A", "A", "B"], "fraud": ["no", "no", "yes"]})
    >>> ready = prepare(frame, "fraud")
    >>> ready.schema.positive, ready.schema.columns[0]
    ('yes', Column(name='sum', kind='number'))
    >>> ready.X["sum"].tolist(), ready.y.tolist()
    ([12.0, 7.5, 80.0], ['no', 'no', 'yes'])
    """
    names, drop, keep = [str(name) for name in frame.columns], list(drop), set(keep)
    frame = frame.set_axis(names, axis=1)
    if target not in names:
        raise InputError(f"There is no column {target!r} for the target{_hint(target, names)}")
    for option, asked in (("drop", drop), ("keep", sorted(keep))):
        for name in asked:
            if name not in names:
                raise InputError(f"There is no column {name!r} to {option}{_hint(name, names)}")
    if target in drop:
        raise InputError(f"{target!r} is the target and cannot be dropped.")
    answer = _Answer.of(frame[target], target, positive)
    rows, y = answer.known, answer.y[answer.known]
    notes: list[str] = []
    left_out, kept = dict.fromkeys(drop, "as asked"), {}
    for name in names:
        if name != target and name not in left_out:
            content = _content(frame[name])
            why = content.useless(rows) or ("" if name in keep else content.identity(name))
            if why:
                left_out[name] = why
            else:
                kept[name] = content
                notes += content.remarks(name)
    if not kept:
        raise InputError(f"No column is left to learn from beside {target!r}: {_why(left_out)}.")
    columns = tuple(Column(name, content.kind) for name, content in kept.items())
    X = pd.DataFrame({name: content.series(rows) for name, content in kept.items()})
    wanted = answer.label(answer.positive)
    notes = [*answer.notes, *_left_out_notes(left_out), *notes, *_telling_notes(X, y == wanted, target)]
    schema = Schema(target, answer.positive, answer.others, answer.type, answer.grouped, columns, left_out)
    return Prepared(X, y, schema, notes, rows, wanted)


def match(frame: pd.DataFrame, schema: Schema) -> Matched:
    """The columns that a model was fitted on, with the types that it was fitted on.

    Columns are found by name, others are passed over. Words where numbers were learnt
    count as missing; where most values are such words it is another column, and refused.

    Examples
    --------
    >>> import pandas as pd
    >>> from evenmargin.cli._columns import match, prepare
    >>> schema = prepare(pd.DataFrame({"sum": [12, 7, 80], "fraud": ["no", "no", "yes"]}), "fraud").schema
    >>> match(pd.DataFrame({"when": ["now"], "sum": ["9"]}), schema).X
       sum
    0  9.0
    """
    matcher = Matcher(schema)
    X = matcher(frame)
    return Matched(X, matcher.notes())


class Matcher:
    """`match` for a table that comes in pieces: what is noted is counted over all of them.

    Parameters
    ----------
    schema : Schema

    Examples
    --------
    >>> import pandas as pd
    >>> from evenmargin.cli._columns import Matcher, prepare
    >>> schema = prepare(pd.DataFrame({"sum": [12, 7, 80], "fraud": ["no", "no", "yes"]}), "fraud").schema
    >>> matcher = Matcher(schema)
    >>> [matcher(pd.DataFrame({"sum": piece})).shape for piece in ([1, 2], ["3", "?"])]
    [(2, 1), (2, 1)]
    >>> matcher.notes()
    ["1 value of 'sum' is not a number and counts as missing: '?'."]
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._values: Counter[str] = Counter()  # by column: values, those lost, those of another kind, some words
        self._lost: Counter[str] = Counter()
        self._strange: Counter[str] = Counter()
        self._examples: dict[str, Counter[str]] = {}
        self._extra: dict[str, None] = {}

    def check(self, columns: Sequence[str], lacking: Sequence[str] | None = None) -> None:
        """Say which columns are missing, if any, and keep in mind which are not needed.

        `lacking` is what a file says it cannot give (`TableFile.lacks`); by default it is looked up.
        """
        given = set(columns)
        if lacking is None:
            lacking = [name for name in self.schema.names if name not in given]
        if lacking:
            needed = set(self.schema.names)
            free = [name for name in columns if name not in needed]
            meant = {name: near(name, free, 1) for name in lacking[:5]}
            hints = ", ".join(f"{found[0]!r} for {name!r}" for name, found in meant.items() if found)
            raise InputError(
                f"The table has no {_columns(lacking)}, which the model needs"
                + (f": did you mean {hints}?" if hints else ".")
            )
        known = {*self.schema.names, *self.schema.left_out, self.schema.target}
        self._extra.update(dict.fromkeys(name for name in columns if name not in known))

    def pieces(self, table: TableFile, rows: int = 100_000) -> Iterator[pd.DataFrame]:
        """A file's rows as the model takes them, some at a time."""
        self.check(table.columns, table.lacks(self.schema.names))
        for piece in table.pieces(rows, columns=self.schema.names, words=self.schema.words):
            yield self(piece)

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A piece as the model takes it."""
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        self.check(list(frame.columns))
        return pd.DataFrame({column.name: self._as(column, frame[column.name]) for column in self.schema.columns})

    def notes(self) -> list[str]:
        """What people should know of the pieces so far, a sentence each."""
        notes = [f"Not used: {_columns(list(self._extra))}, unknown to the model."] if self._extra else []
        kinds = {column.name: column.kind for column in self.schema.columns}
        return notes + [_lost_note(name, kinds[name], lost, self._examples[name]) for name, lost in self._lost.items()]

    def _as(self, column: Column, values: pd.Series) -> pd.Series:
        content = _content(values, column.kind)
        self._values[column.name] += content.count
        if content.lost:
            self._lost[column.name] += content.lost.total()
            words = self._examples.get(column.name, Counter()) + content.lost
            self._examples[column.name] = Counter(dict(words.most_common(_EXAMPLES)))  # there may be millions
            self._strange[column.name] += content.strange
            if 2 * self._strange[column.name] > self._values[column.name] >= _JUDGED:
                raise InputError(
                    f"Column {column.name!r} held {_PLURAL[column.kind]} when the model was fitted, and now mostly "
                    f"something else, such as {quoted(word for word, _ in words.most_common(3))}: is it another column?"
                )
        return content.series(None)


def labels(frame: pd.DataFrame, schema: Schema) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Labels as in the training, and which rows have one; others have any.

    Examples
    --------
    >>> import pandas as pd
    >>> from evenmargin.cli._columns import labels, prepare
    >>> schema = prepare(pd.DataFrame({"sum": [12, 7, 80], "fraud": ["no", "no", "yes"]}), "fraud").schema
    >>> y, known = labels(pd.DataFrame({"fraud": ["yes", None, "no"]}), schema)
    >>> y[known].tolist()
    ['yes', 'no']
    """
    names = [str(name) for name in frame.columns]
    if schema.target not in names:
        raise InputError(f"There is no column {schema.target!r} with the answers{_hint(schema.target, names)}")
    codes, words = _coded(frame.set_axis(names, axis=1)[schema.target])
    if not words:
        raise InputError(f"Column {schema.target!r} has no value: there are no answers to compare with.")
    known = [schema.positive, *schema.others]
    told = [_recognised(word, known) for word in words]
    if schema.grouped:
        told = [word if word == schema.positive else schema.others[0] for word in told]
    strange = [word for word, label in zip(words, told, strict=True) if label is None]
    if strange:
        raise InputError(f"Column {schema.target!r} has {quoted(strange)}, and the model knows {quoted(known)}.")
    return _labelled(codes, [str(word) for word in told], schema.label_type), codes >= 0


# The target.


@dataclass(frozen=True)
class _Answer:
    """The labels of a table; see `Schema`."""

    y: NDArray[Any]
    known: NDArray[np.bool_]
    type: str
    positive: str
    others: tuple[str, ...]
    grouped: bool
    notes: list[str]

    @classmethod
    def of(cls, column: pd.Series, name: str, positive: str | None) -> _Answer:
        codes, words, kind = _label_words(column)
        known = codes >= 0
        counts = dict(zip(words, np.bincount(codes[known], minlength=len(words)).tolist(), strict=True))
        if len(counts) < 2:
            what = f"only one value, {words[0]!r}" if words else "no value"
            raise InputError(f"The target {name!r} has {what}: there is nothing to tell apart.")
        notes = []
        if not known.all():
            notes.append(f"{_count(int((~known).sum()), 'row')} without a value of {name!r} left out.")
        chosen = _rarer(counts, name, kind, notes) if positive is None else _found(positive, counts, name)
        others = tuple(word for word in sorted(words) if word != chosen)
        grouped = len(others) > 1
        if grouped:
            rest = "rest"
            while rest in counts:
                rest = f"({rest})"
            notes.append(f"{chosen!r} is told from all other values of {name!r}, which are called {rest!r}.")
            words, others, kind = [word if word == chosen else rest for word in words], (rest,), "text"
        return cls(_labelled(codes, words, kind), known, kind, chosen, others, grouped, notes)

    def label(self, word: str) -> Any:
        """A label as it is in y, in Python's types."""
        return _labelled(np.zeros(1, np.intp), [word], self.type)[0].item()


def _label_words(column: pd.Series) -> tuple[Codes, list[str], str]:
    """Labels by code, and whether they are truth values, numbers or text; 1 and 1.0 are one label."""
    if _own_kind(column) == "nested":
        raise InputError(f"The target {column.name!r} holds lists or bytes: a column with one label a row is wanted.")
    codes, words = _coded(column)
    values = np.array([_number(word) for word in words])
    if not words or not (np.abs(values) < 2**53).all():  # some word is no number, or one that floats do not have
        return codes, words, "text"
    whole = bool((values == np.rint(values)).all())
    kind = "bool" if all(word.lower() in _TRUTH for word in words) else "number"
    told = [str(bool(v)) if kind == "bool" else str(int(v)) if whole else str(float(v)) for v in values]
    again, different = pd.factorize(np.array(told, dtype=object))
    return np.where(codes >= 0, again[codes], -1), list(different), kind


def _labelled(codes: Codes, words: list[str], kind: str) -> NDArray[Any]:
    """Labels in the type that they have in y."""
    if kind == "bool":
        return np.array([word == "True" for word in words])[codes]
    if kind == "number":
        return np.array([float(word) if "." in word or "e" in word else int(word) for word in words])[codes]
    return np.array(words, dtype=str)[codes]


def _recognised(word: str, known: Iterable[str]) -> str | None:
    """The label that is meant: 1, 1.0 and true are the same one."""
    if word in known:
        return word
    number = _number(word)
    return next((label for label in known if _number(label) == number), None)


def _rarer(counts: dict[str, int], name: str, kind: str, notes: list[str]) -> str:
    """Which of two labels to look for."""
    if len(counts) > 2:
        if kind == "number" and len(counts) > _CLASSES:
            raise InputError(
                f"The target {name!r} holds {len(counts):,} different numbers, a measurement and not classes: make a "
                "column that says yes or no of it, or name one value by --positive VALUE."
            )
        raise InputError(
            f"The target {name!r} has {len(counts):,} different values, {_counted(counts)}: --positive VALUE tells "
            "that value from all others."
        )
    first, last = sorted(counts, key=lambda word: (float(word) if kind == "number" else 0.0, word))
    total = sum(counts.values())
    if counts[first] == counts[last]:
        notes.append(f"{last!r} of {name!r} is looked for; {first!r}, as frequent, would be by --positive {first}.")
        return last
    rare = min(counts, key=lambda word: counts[word])
    notes.append(f"{rare!r} of {name!r} is looked for, the rarer value: {counts[rare]:,} of {total:,} rows.")
    return rare


def _found(positive: str, counts: dict[str, int], name: str) -> str:
    """The label that someone means."""
    given = positive.strip()
    if (label := _recognised(given, counts)) is not None:
        return label
    meant = near(given, counts, 1)
    hint = f" (did you mean {meant[0]!r}?)" if meant else ""
    raise InputError(f"{positive!r} is not a value of the target {name!r}{hint}: it has {_counted(counts)}.")


def _counted(counts: dict[str, int], most: int = 8) -> str:
    """Values and how often they are there, the frequent ones first."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    more = f" and {len(ordered) - most:,} more" if len(ordered) > most else ""
    return ", ".join(f"{word!r} ({count:,})" for word, count in ordered[:most]) + more


# A column.


@dataclass(frozen=True)
class _Content:
    """A column's values in the form of its kind, and what was lost."""

    kind: str
    values: NDArray[Any]  # numbers, dates, or codes of words
    words: NDArray[Any] | None = None
    count: int = 0  # values that are not missing in the file
    lost: Counter[str] = field(default_factory=Counter)  # values that count as missing
    strange: int = 0  # how many of these are not of the kind; others are infinite, or of the year 9999

    def series(self, rows: NDArray[np.bool_] | None) -> pd.Series:
        values = self.values if rows is None or rows.all() else self.values[rows]
        if self.words is None:
            return pd.Series(values)
        return pd.Series(np.append(self.words, np.nan)[values], dtype=object)

    def useless(self, rows: NDArray[np.bool_]) -> str:
        """Why nothing can be learned from it, if so."""
        if self.kind == "nested":
            return "lists, structures or bytes"
        values = self.values[rows]
        gaps = values < 0 if self.words is not None else np.isnat(values) if self.kind == "date" else np.isnan(values)
        known = values[~gaps]
        if not known.size:
            return "no value"
        return "only one value" if known.size == values.size and (known == known[0]).all() else ""

    def identity(self, name: str) -> str:
        """Why it only says which row it is, if so."""
        if self.kind == "category" and self.words is not None:
            if self.count < _ID_ROWS or self.words.size <= _SHARE * self.count:
                return ""
            return self._badly_written() or "nearly every value is different"
        if self.kind != "number" or self.count < _NAMED_ID_ROWS:
            return ""
        known = self.values[~np.isnan(self.values)]
        if not (known == np.floor(known)).all() or np.unique(known).size < known.size:
            return ""
        if known.size >= _ID_ROWS and np.ptp(known) + 1 <= known.size / _SHARE:
            return "numbers that count the rows"
        return "every value is different, and it is named like an id" if _named_like_id(name) else ""

    def remarks(self, name: str) -> list[str]:
        """What people should know."""
        if self.lost:
            return [_lost_note(name, self.kind, self.lost.total(), self.lost)]
        badly = self._badly_written()
        return [f"Column {name!r} is taken as words: {badly}."] if badly else []

    def _badly_written(self) -> str:
        """How to write what was meant as a number or as a date, if that is so."""
        if self.words is None or not self.words.size:
            return ""
        some = self.words[:1000]
        for pattern, what, form in ((_COMMAS, "numbers", "1234.5"), (_OTHER_DATE, "dates", "2024-01-31")):
            such = [word for word in some if pattern.fullmatch(word)]
            if len(such) >= _SHARE * len(some):
                return f"{what} like {such[0]!r} are to be written {form}"
        return ""


def _content(column: pd.Series, kind: str | None = None) -> _Content:
    """A column as it is best read, or as the given kind."""
    own = _own_kind(column)
    if own == "nested":
        if kind is None:
            return _Content("nested", np.empty(0))
        raise InputError(
            f"Column {column.name!r} held {_PLURAL[kind]} when the model was fitted, and now lists or bytes."
        )
    if own == "number" and kind in (None, "number"):
        return _finite(_floats(column))
    if own == "date" and kind in (None, "date"):
        return _dated(_instants(column))
    codes, words = _coded(column)
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    if kind is None and own == "category":
        kind = "category"
    for one, (parse, gap) in _PARSERS.items():
        if kind in (None, one):
            values, fits = parse(words)
            if kind is not None or counts[fits].sum() >= _SHARE * counts.sum():
                lost = Counter({words[i]: int(counts[i]) for i in np.flatnonzero(np.isnan(values))})
                strange = int(counts[~fits].sum())
                return _Content(one, np.append(values, gap)[codes], None, int(counts.sum()), lost, strange)
    return _Content("category", codes, np.array(words, dtype=object), int(counts.sum()))


def _own_kind(column: pd.Series) -> str:
    """What a column's type, or the type of its values, says: number, date, category, nested, or nothing for text."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return "category"
    if isinstance(kind, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(kind):
        return "date"
    if pd.api.types.is_complex_dtype(kind):
        return "nested"
    if pd.api.types.is_numeric_dtype(kind) or kind.kind == "m":
        return "number"
    if kind.kind != "O" or isinstance(kind, pd.StringDtype):
        return ""
    first = next((value for value in column if isinstance(value, _NESTED) or not pd.isna(value)), None)
    if isinstance(first, _NESTED):
        return "nested"
    inferred = pd.api.types.infer_dtype(column, skipna=True)
    return "number" if inferred in _NUMBERS else "date" if inferred in _DATES else ""


def _floats(column: pd.Series) -> NDArray[np.float64]:
    """A column of numbers as float64; spans in days."""
    if column.dtype.kind == "m":
        column = column / pd.Timedelta(days=1)
    if column.dtype.kind == "O":
        return np.array([np.nan if pd.isna(value) else float(value) for value in column])
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy(np.float64)
    return column.to_numpy(np.float64, na_value=np.nan)


def _finite(values: NDArray[np.float64]) -> _Content:
    if values.size and values.min() > -_LARGEST and values.max() < _LARGEST:  # neither is NaN, most often
        return _Content("number", values, None, values.size)
    count = int(np.count_nonzero(~np.isnan(values)))
    beyond = np.abs(values) >= _LARGEST
    if not beyond.any():
        return _Content("number", values, None, count)
    lost = Counter(str(value) for value in values[beyond].tolist())
    return _Content("number", np.where(beyond, np.nan, values), None, count, lost)


def _instants(column: pd.Series) -> NDArray[np.datetime64]:
    """A column of dates in UTC, in whatever unit it has."""
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    elif column.dtype.kind == "O":
        column = pd.to_datetime(column, utc=True, errors="coerce")
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert(None)
    return column.to_numpy()


def _dated(values: NDArray[np.datetime64]) -> _Content:
    known = ~np.isnat(values)
    beyond = known & ~((values >= _EARLIEST) & (values < _LATEST))
    lost = Counter(np.datetime_as_string(values[beyond], unit="D").tolist())
    return _Content("date", _nanoseconds(values), None, int(known.sum()), lost)


def _nanoseconds(values: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """In nanoseconds, as far as these reach: years like 9999 mean that there is no date."""
    inside = (values >= _EARLIEST) & (values < _LATEST)
    return np.where(inside, values, np.datetime64("NaT")).astype("datetime64[ns]")


def _coded(column: pd.Series) -> tuple[Codes, list[str]]:
    """Words without spaces around them, and for each row which one it has; -1 for none."""
    codes, values = pd.factorize(column.astype(object))
    words = [_word(value).strip() for value in values]
    again, different = pd.factorize(np.array([None if word in MISSING else word for word in words], dtype=object))
    if not words:
        return np.full(len(column), -1), []
    return np.where(codes >= 0, again[codes], -1), list(different)


def _word(value: Any) -> str:
    """A whole number is the same word as integer and as float, as in `_tables`."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _number(word: str) -> float:
    """A word as a number, which may be infinite; NaN if it is none."""
    truth = _TRUTH.get(word.lower())
    if truth is not None:
        return truth
    try:
        return np.nan if "_" in word else float(word)
    except ValueError:
        return np.nan


def _parse_numbers(words: list[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers that can be used, and which words are numbers."""
    values = np.array([_number(word) for word in words], dtype=np.float64)
    return np.where(np.abs(values) < _LARGEST, values, np.nan), ~np.isnan(values)


def _parse_dates(words: list[str]) -> tuple[NDArray[np.datetime64], NDArray[np.bool_]]:
    """Dates that can be used, and which words are written like dates."""
    fits = np.array([_DATE.fullmatch(word) is not None for word in words], dtype=bool)
    if not fits.any():
        return np.full(len(words), np.datetime64("NaT", "ns")), fits
    some = [word if fit else None for word, fit in zip(words, fits, strict=True)]
    values = _instants(pd.Series(pd.to_datetime(some, format="ISO8601", utc=True, errors="coerce")))
    return _nanoseconds(values), fits


_PARSERS: dict[str, tuple[Any, Any]] = {
    "number": (_parse_numbers, np.nan),
    "date": (_parse_dates, np.datetime64("NaT", "ns")),
}


def _named_like_id(name: str) -> bool:
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return any(part.lower() in _ID_WORDS for part in parts) or _JOINED_ID.fullmatch(name.lower()) is not None


# Sentences.


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _columns(names: Sequence[str]) -> str:
    return f"column{'' if len(names) == 1 else 's'} {quoted(names)}"


def _hint(name: str, names: Sequence[str]) -> str:
    """Which columns there are, as far as that helps, to end a sentence."""
    meant = near(name, names)
    return f": did you mean {quoted(meant)}?" if meant else f": the table has {quoted(names, 10)}."


def _lost_note(name: str, kind: str, lost: int, words: Counter[str]) -> str:
    shown = ", ".join(repr(word) for word, _ in words.most_common(3)) + (" and others" if len(words) > 3 else "")
    if lost == 1:
        return f"1 value of {name!r} is not a {kind} and counts as missing: {shown}."
    return f"{lost:,} values of {name!r} are not {_PLURAL[kind]} and count as missing: {shown}."


def _why(left_out: Mapping[str, str]) -> str:
    """Columns left out, together where the reason is the same."""
    by_reason: dict[str, list[str]] = {}
    for name, why in left_out.items():
        by_reason.setdefault(why, []).append(name)
    return "; ".join(f"{quoted(names)} ({why})" for why, names in by_reason.items()) or "the table has no other"


def _left_out_notes(left_out: Mapping[str, str]) -> list[str]:
    noticed = {name: why for name, why in left_out.items() if why != "as asked"}
    return [f"Left out: {_why(noticed)}."] if noticed else []


def _telling_notes(X: pd.DataFrame, found: NDArray[np.bool_], target: str) -> list[str]:
    """Columns that give the answer away: each value, or whether there is one, belongs to one class only."""
    notes = []
    for name in X.columns:
        gaps = X[name].isna().to_numpy()
        telling = bool((gaps == found).all() or (gaps != found).all())
        if not telling and X[name].iloc[:1000].nunique() <= _TELLING:
            codes, values = pd.factorize(X[name], use_na_sentinel=False)
            share = np.bincount(codes, found) / np.bincount(codes)
            telling = len(values) <= _TELLING and bool(np.isin(share, (0, 1)).all())
        if telling:
            notes.append(
                f"Column {name!r} alone tells {target!r} in every row: if it is not known beforehand, leave it out "
                f"(--drop {name})."
            )
    return notes
