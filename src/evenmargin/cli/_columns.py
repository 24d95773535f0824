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

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._tables.content import PLURAL, content_of, lost_note
from .._util.sentences import hint, near, quoted
from .._util.typing import Mask
from ._reading import InputError
from ._schema import AS_ASKED, Column, Schema
from ._target import Answer, labels

__all__ = ["AS_ASKED", "Column", "Matcher", "Prepared", "Schema", "labels", "prepare"]

_TELLING = 20  # values of a column that may tell the class between them
_JUDGED = 10  # values from which a column can be mostly something else
_EXAMPLES = 100  # words kept of those that count as missing
_NEW = 0.1  # share of new words from which they are spoken of


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
    rows: Mask
    positive: Any


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
        raise InputError(f"There is no column {target!r} for the target{hint(target, names)}")
    for option, asked in (("drop", drop), ("keep", sorted(keep))):
        for name in asked:
            if name not in names:
                raise InputError(f"There is no column {name!r} to {option}{hint(name, names)}")
    if target in drop:
        raise InputError(f"{target!r} is the target and cannot be dropped.")
    answer = Answer.of(frame[target], target, positive)
    rows, y = answer.known, answer.y[answer.known]
    notes: list[str] = []
    left_out, kept = dict.fromkeys(drop, AS_ASKED), {}
    for name in names:
        if name != target and name not in left_out:
            content = content_of(frame[name])
            why = content.useless(rows) or ("" if name in keep else content.identity(name))
            if why:
                left_out[name] = why
            else:
                kept[name] = content
                notes += content.remarks(name)
    if not kept:
        raise InputError(f"No column is left to learn from besides {target!r}: {_why(left_out)}.")
    columns = tuple(Column(name, content.kind) for name, content in kept.items())
    X = pd.DataFrame({name: content.series(rows) for name, content in kept.items()})
    wanted = answer.label(answer.positive)
    notes = [*answer.notes, *_left_out_notes(left_out), *notes, *_telling_notes(X, y == wanted, target)]
    vocabulary = {name: content.vocabulary for name, content in kept.items() if content.vocabulary}
    schema = Schema(
        target, answer.positive, answer.others, answer.type, answer.grouped, columns, left_out, vocabulary=vocabulary
    )
    return Prepared(X, y, schema, notes, rows, wanted)


class Matcher:
    """The columns that a model was fitted on, with the types that it was fitted on, of a table in pieces.

    Columns are found by name, others are passed over. Words where numbers were learnt
    count as missing. Where most values are such words it is another column, and refused
    by `finish`: the order of the rows, which may have all such words at the top, is no matter.

    Parameters
    ----------
    schema : Schema

    Examples
    --------
    >>> import pandas as pd
    >>> from evenmargin.cli._columns import Matcher, prepare
    >>> schema = prepare(pd.DataFrame({"sum": [12, 7, 80], "fraud": ["no", "no", "yes"]}), "fraud").schema
    >>> matcher = Matcher(schema)
    >>> [matcher(pd.DataFrame({"sum": piece, "when": "now"})).shape for piece in ([1, 2], ["3", "?"])]
    [(2, 1), (2, 1)]
    >>> matcher.finish()
    >>> matcher.notes(used=["when"])
    ["1 value of 'sum' is not a number and counts as missing: '?'."]
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._values: Counter[str] = Counter()  # by column: values, those lost, those of another kind, some words
        self._lost: Counter[str] = Counter()
        self._strange: Counter[str] = Counter()
        self._examples: dict[str, Counter[str]] = {}
        self._extra: dict[str, None] = {}
        self._new: dict[str, Counter[str]] = {}  # words that were not there at the fit

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

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A piece as the model takes it."""
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        self.check(list(frame.columns))
        return pd.DataFrame({column.name: self._as(column, frame[column.name]) for column in self.schema.columns})

    def finish(self) -> None:
        """Refuse the table, now that all of it was seen, if one of its columns is another one of the same name."""
        for column in self.schema.columns:
            if 2 * self._strange[column.name] > self._values[column.name] >= _JUDGED:
                words = self._examples[column.name].most_common(3)
                raise InputError(
                    f"Column {column.name!r} held {PLURAL[column.kind]} when the model was fitted, and now mostly "
                    f"something else, such as {quoted(word for word, _ in words)}: is it another column?"
                )

    def notes(self, used: Iterable[str] = ()) -> list[str]:
        """What people should know of the pieces so far, a sentence each.

        Columns that the model does not know are named, but for those `used` elsewhere.
        """
        elsewhere = set(used)
        extra = [name for name in self._extra if name not in elsewhere]
        notes = [f"Not used: {_columns(extra)}, unknown to the model."] if extra else []
        kinds = {column.name: column.kind for column in self.schema.columns}
        notes += [lost_note(name, kinds[name], lost, self._examples[name]) for name, lost in self._lost.items()]
        for name, words in self._new.items():
            if words.total() > _NEW * self._values[name]:
                share = words.total() / self._values[name]
                notes.append(f"{share:.0%} of the values of {name!r} are new to the model, such as {quoted(words, 3)}.")
        return notes

    def _as(self, column: Column, values: pd.Series) -> pd.Series:
        content = content_of(values, column.kind)
        if content.kind == "nested":
            raise InputError(
                f"Column {column.name!r} held {PLURAL[column.kind]} when the model was fitted, and now lists or bytes."
            )
        self._values[column.name] += content.count
        if content.lost:
            self._lost[column.name] += content.lost.total()
            words = self._examples.get(column.name, Counter()) + content.lost
            self._examples[column.name] = Counter(dict(words.most_common(_EXAMPLES)))  # there may be millions
            self._strange[column.name] += content.strange
        if column.name in self.schema.vocabulary:
            words = self._new.get(column.name, Counter()) + content.beyond(self.schema.vocabulary[column.name])
            self._new[column.name] = _shortened(words)
        return content.series(None)


def _shortened(words: Counter[str]) -> Counter[str]:
    """The same total with fewer words: the rarer ones count as one of them."""
    if len(words) <= _EXAMPLES:
        return words
    kept = Counter(dict(words.most_common(_EXAMPLES)))
    kept[next(iter(kept))] += words.total() - kept.total()
    return kept


# Sentences.


def _columns(names: Sequence[str]) -> str:
    return f"column{'' if len(names) == 1 else 's'} {quoted(names)}"


def _why(left_out: Mapping[str, str]) -> str:
    """Columns left out, together where the reason is the same."""
    by_reason: dict[str, list[str]] = {}
    for name, why in left_out.items():
        by_reason.setdefault(why, []).append(name)
    return "; ".join(f"{quoted(names)} ({why})" for why, names in by_reason.items()) or "the table has no other"


def _left_out_notes(left_out: Mapping[str, str]) -> list[str]:
    noticed = {name: why for name, why in left_out.items() if why != AS_ASKED}
    return [f"Left out: {_why(noticed)}."] if noticed else []


def _telling_notes(X: pd.DataFrame, found: Mask, target: str) -> list[str]:
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
                f"Column {name!r} alone determines {target!r} in every row: if it is not known in advance, leave it "
                f"out (--drop {name})."
            )
    return notes
