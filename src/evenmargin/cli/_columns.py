"""What to learn from in a table, and the same columns again when predicting.

A column is of one of three kinds, which are those of `_tables`:

- `number`: at least nine values in ten are numbers (or true and false). Others count as missing.
- `date`: at least nine in ten are dates like 2024-01-31 or 2024-01-31T10:00Z.
- `category`: words, as they stand in the file but for spaces around them.

The rule looks at values and not at the file's types, so that a table gives the same columns from CSV and from Parquet;
only what a Parquet file declares as a dictionary is a category whatever its values. Numbers become float64, dates
datetime64[ns] in UTC, words strings.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._tables.content import PLURAL, Content, coded, content_of, lost_note
from .._util.sentences import hint, near, quoted
from .._util.typing import Mask
from ._reading import InputError
from ._target import Answer, as_labels, recognised

AS_ASKED = "dropped"  # why a column was left out, if the user said so
_TELLING = 20  # values of a column that may give the class away between them
_JUDGED = 10  # values from which a column can be mostly something else
_EXAMPLES = 100  # words of a column that are counted one by one
_NEW = 0.1  # share of new words from which they are mentioned


@dataclass(frozen=True)
class Schema:
    """The table that a model was fitted on; it is stored with the model."""

    target: str
    positive: str  # the class to find, as text
    others: tuple[str, ...]  # the other classes
    label_type: str  # of the labels in y: "text", "number" (whole ones) or "bool"
    grouped: bool  # whether every value of the target but `positive` is the one class in `others`
    columns: Mapping[str, str]  # their kinds, "number", "category" or "date", in the order of the model
    left_out: Mapping[str, str] = field(default_factory=dict)  # other columns, and why they were left out
    decimal_comma: bool = False  # whether numbers of the file had decimal commas; see `TableFile.expect`
    vocabulary: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the words of the smaller categories

    @property
    def words(self) -> list[str]:
        """The columns that are read from a text file as they stand in it."""
        return [name for name, kind in self.columns.items() if kind != "number"]

    def to_notes(self) -> dict[str, Any]:
        """Make something of the schema that JSON can hold."""
        return {**asdict(self), "columns": list(self.columns.items())}

    @classmethod
    def from_notes(cls, notes: Mapping[str, Any]) -> Schema:
        """Make the schema again of what `to_notes` gave."""
        try:
            target, positive, label_type = (str(notes[name]) for name in ("target", "positive", "label_type"))
            others, grouped = tuple(map(str, notes["others"])), bool(notes["grouped"])
            columns = {str(name): str(kind) for name, kind in notes["columns"]}
            left_out = {str(name): str(why) for name, why in notes["left_out"].items()}
            decimal_comma = bool(notes.get("decimal_comma", False))
            vocabulary = {str(name): tuple(map(str, words)) for name, words in notes.get("vocabulary", {}).items()}
            return cls(target, positive, others, label_type, grouped, columns, left_out, decimal_comma, vocabulary)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                "The model file's description of its training table cannot be read: fit the model again."
            ) from None


@dataclass(frozen=True)
class Prepared:
    """The rows of a table that have a label."""

    X: pd.DataFrame
    y: NDArray[Any]
    schema: Schema  # what a model that is fitted on them has to know
    notes: list[str]  # what people should know, a sentence each
    rows: Mask  # which rows of the table they are
    positive: Any  # the label in y that is to be found


def prepare(
    frame: pd.DataFrame, target: str, positive: str | None = None, *, drop: Sequence[str] = (), keep: Sequence[str] = ()
) -> Prepared:
    """Find out what can be learned from a table, as `TableFile.read` gives it.

    Ids, columns with one value or none, and lists are left out, each with a note; `keep` names ids to learn from.
    `positive` is the label to find, as text: "1" is 1 and 1.0. It may be left out where there are two labels.
    """
    names = list(frame.columns)
    for purpose, asked in (("for the target", [target]), ("to drop", drop), ("to keep", keep)):
        for name in asked:
            if name not in names:
                raise InputError(f"There is no column {name!r} {purpose}{hint(name, names)}")
    if target in drop:
        raise InputError(f"{target!r} is the target and cannot be dropped.")
    answer = Answer.of(frame[target], target, positive)
    rows, y = answer.known, answer.y[answer.known]
    left_out: dict[str, str] = dict.fromkeys(drop, AS_ASKED)
    kept: dict[str, Content] = {}
    for name in names:
        if name != target and name not in left_out:
            content = content_of(frame[name])
            why = content.useless(rows) or ("" if name in keep else content.identity(name))
            if why:
                left_out[name] = why
            else:
                kept[name] = content
    if not kept:
        raise InputError(f"No column is left to learn from besides {target!r}: {_reasons(left_out)}.")
    X = pd.DataFrame({name: content.series(rows) for name, content in kept.items()})
    wanted = as_labels(np.zeros(1, np.intp), [answer.positive], answer.type)[0].item()
    noticed = {name: why for name, why in left_out.items() if why != AS_ASKED}
    notes = [*answer.notes, *([f"Left out: {_reasons(noticed)}."] if noticed else [])]
    notes += [note for name, content in kept.items() for note in content.remarks(name)]
    schema = Schema(
        target, answer.positive, answer.others, answer.type, answer.grouped,
        {name: content.kind for name, content in kept.items()}, left_out,
        vocabulary={name: content.vocabulary for name, content in kept.items() if content.vocabulary},
    )  # fmt: skip
    return Prepared(X, y, schema, notes + _telling_notes(X, y == wanted, target), rows, wanted)


def labels(frame: pd.DataFrame, schema: Schema) -> tuple[NDArray[Any], Mask]:
    """Labels as in the training, and which rows have one; others have any."""
    if schema.target not in frame.columns:
        raise InputError(f"There is no column {schema.target!r} with the classes{hint(schema.target, frame.columns)}")
    codes, words = coded(frame[schema.target])
    if not words:
        raise InputError(f"Column {schema.target!r} has no values: there are no classes to compare with.")
    known = [schema.positive, *schema.others]
    meant = [recognised(word, known) for word in words]
    if schema.grouped:
        meant = [word if word == schema.positive else schema.others[0] for word in meant]
    strange = [word for word, label in zip(words, meant, strict=True) if label is None]
    if strange:
        raise InputError(f"Column {schema.target!r} has {quoted(strange)}, but the model knows only {quoted(known)}.")
    return as_labels(codes, [str(word) for word in meant], schema.label_type), codes >= 0


@dataclass
class Tally:
    """What the pieces so far hold in a column: `lost` values count as missing, `strange` ones are of another kind."""

    values: int = 0
    strange: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    new: Counter[str] = field(default_factory=Counter)  # words that were not there at the fit

    def add(self, content: Content, vocabulary: Sequence[str] | None) -> None:
        self.values += content.count
        self.strange += content.strange
        self.lost = _shortened(self.lost + content.lost)
        if vocabulary is not None:
            self.new = _shortened(self.new + content.beyond(vocabulary))


class NeededColumns:
    """The columns that a model needs from a table in pieces, by name; others are ignored, and noted if not `known`."""

    def __init__(self, names: Iterable[str], known: Iterable[str] = ()) -> None:
        self.names = dict.fromkeys(names)
        self._known = {*self.names, *known}
        self._extra: dict[str, None] = {}

    def check(self, columns: Sequence[str], lacking: Sequence[str] | None = None) -> None:
        """Refuse a table that lacks columns, and remember which ones the model does not know.

        `lacking` is what a file cannot give (`TableFile.lacks`); by default it is what is not among `columns`.
        """
        if lacking is None:
            found = set(columns)
            lacking = [name for name in self.names if name not in found]
        if lacking:
            free = [name for name in columns if name not in self.names]
            meant = {name: near(name, free, 1) for name in lacking[:5]}
            hints = ", ".join(f"{other[0]!r} for {name!r}" for name, other in meant.items() if other)
            raise InputError(
                f"The table has no {_columns(lacking)}, which the model needs"
                + (f": did you mean {hints}?" if hints else ".")
            )
        self._extra.update(dict.fromkeys(name for name in columns if name not in self._known))

    def notes(self, used: Sequence[str] = ()) -> list[str]:
        """What people should know of the pieces so far, a sentence each; columns `used` elsewhere are not named."""
        extra = [name for name in self._extra if name not in used]
        return [f"Not used: {_columns(extra)}, unknown to the model."] if extra else []

    def finish(self) -> None:
        """Refuse the table, now that all of it was seen, if one of its columns is another one of the same name."""


class Matcher(NeededColumns):
    """The columns that a model was fitted on, with the types that it was fitted on, of a table in pieces.

    Words where numbers were learned count as missing. Where most values are such words it is another column, and
    refused by `finish`: the order of the rows, which may have all such words at the top, does not matter.
    """

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema.columns, [*schema.left_out, schema.target])
        self.schema = schema
        self.tallies = {name: Tally() for name in schema.columns}

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Turn a piece into what the model takes."""
        self.check(list(frame.columns))
        series = {}
        for name, kind in self.schema.columns.items():
            content = content_of(frame[name], kind)
            if content.kind == "nested":
                raise InputError(
                    f"Column {name!r} held {PLURAL[kind]} when the model was fitted, but now lists or bytes."
                )
            self.tallies[name].add(content, self.schema.vocabulary.get(name))
            series[name] = content.series(None)
        return pd.DataFrame(series)

    def finish(self) -> None:
        for name, kind in self.schema.columns.items():
            tally = self.tallies[name]
            if 2 * tally.strange > tally.values >= _JUDGED:
                words = quoted(word for word, _ in tally.lost.most_common(3))
                raise InputError(
                    f"Column {name!r} held {PLURAL[kind]} when the model was fitted, but now mostly other values, "
                    f"such as {words}: is it a different column?"
                )

    def notes(self, used: Sequence[str] = ()) -> list[str]:
        notes = super().notes(used)
        notes += [
            lost_note(name, self.schema.columns[name], own.lost) for name, own in self.tallies.items() if own.lost
        ]
        for name, tally in self.tallies.items():
            if tally.new.total() > _NEW * tally.values:
                share = tally.new.total() / tally.values
                words = quoted(tally.new, 3)
                notes.append(f"{share:.0%} of the values of {name!r} are new to the model, such as {words}.")
        return notes


def _shortened(words: Counter[str]) -> Counter[str]:
    """Keep the most frequent words, of which there may be millions; the first takes the counts of the others."""
    if len(words) <= _EXAMPLES:
        return words
    kept = Counter(dict(words.most_common(_EXAMPLES)))
    kept[next(iter(kept))] += words.total() - kept.total()
    return kept


def _columns(names: Sequence[str]) -> str:
    return f"column{'' if len(names) == 1 else 's'} {quoted(names)}"


def _reasons(left_out: Mapping[str, str]) -> str:
    """Name the columns that are left out, those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, why in left_out.items():
        by_reason.setdefault(why, []).append(name)
    return "; ".join(f"{quoted(names)} ({why})" for why, names in by_reason.items()) or "the table has no other"


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


def fingerprint(frame: pd.DataFrame) -> str:
    """Compute a digest of names and values, row by row, which is the same for the same table in any format."""
    digest = hashlib.sha256(repr([str(name) for name in frame.columns]).encode("utf-8", "surrogatepass"))
    plain = {j: _plain(frame.iloc[:, j]) for j in range(frame.shape[1])}
    rows = pd.util.hash_pandas_object(pd.DataFrame(plain, index=range(len(frame))), index=False)
    digest.update(rows.to_numpy(np.uint64).tobytes())
    return digest.hexdigest()[:32]


def _plain(column: pd.Series) -> Any:
    """Turn a column into floats or strings, so that integers hash as floats do and categories as words."""
    kind = column.dtype
    if isinstance(kind, np.dtype) and kind.kind in "biuf":
        return column.to_numpy(np.float64) + 0.0  # there is only one zero
    if isinstance(kind, np.dtype) and kind.kind in "mM":
        column = column.astype(f"{'datetime' if kind.kind == 'M' else 'timedelta'}64[us]")
    return column.astype(object).map(str).where(column.notna(), "").to_numpy(object)
