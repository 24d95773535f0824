"""The target: the labels of a table, and which of them to find."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._tables.content import TRUTH, as_number, coded
from .._tables.kinds import declared_kind
from .._util.sentences import suggestion
from .._util.typing import Index, Mask
from ..weights import is_minority
from ._reading import InputError

_CLASSES = 20  # different numbers of a target, above which it is a measurement


@dataclass(frozen=True)
class Answer:
    """The labels of a table; for the names see `Schema`."""

    y: NDArray[Any]
    known: Mask
    type: str
    positive: str
    others: tuple[str, ...]
    grouped: bool
    notes: list[str]

    @classmethod
    def of(cls, column: pd.Series, name: str, positive: str | None) -> Answer:
        codes, words, kind = _label_words(column)
        known = codes >= 0
        counts = dict(zip(words, np.bincount(codes[known], minlength=len(words)).tolist(), strict=True))
        if len(counts) < 2:
            what = f"only one value, {words[0]!r}" if words else "no value"
            gaps = "" if known.all() else " (an empty field counts as missing, and so do words like NA, None and null)"
            raise InputError(f"The target {name!r} has {what}{gaps}: there are no classes to distinguish.")
        notes = unlabelled_notes(known, name)
        chosen = _rarer(counts, name, notes) if positive is None else _named(positive, counts, name)
        others = tuple(word for word in sorted(words) if word != chosen)
        grouped = len(others) > 1
        if grouped:
            rest = "rest"
            while rest in counts:
                rest = f"({rest})"
            notes.append(f"{chosen!r} is distinguished from all other values of {name!r}, which are named {rest!r}.")
            words, others, kind = [word if word == chosen else rest for word in words], (rest,), "text"
        return cls(as_labels(codes, words, kind), known, kind, chosen, others, grouped, notes)


def _label_words(column: pd.Series) -> tuple[Index, list[str], str]:
    """Code the labels, and say whether they are "bool", "number" or "text"; 1 and 1.0 are one label."""
    if declared_kind(column) in ("nested", "complex"):
        raise InputError(f"The target {column.name!r} holds lists or bytes: it must have one label in each row.")
    codes, words = coded(column)
    values = np.array([as_number(word) for word in words])
    if not words or not (np.abs(values) < 2**53).all():  # some word is no number, or one that floats do not have
        return codes, words, "text"
    whole = bool((values == np.rint(values)).all())
    # Fractions as labels would be a target of regression to scikit-learn.
    kind = "bool" if all(word.lower() in TRUTH for word in words) else "number" if whole else "text"
    plain = [str(bool(v)) if kind == "bool" else str(int(v)) if whole else str(float(v)) for v in values]
    again, different = pd.factorize(np.array(plain, dtype=object))
    return np.where(codes >= 0, again[codes], -1), list(different), kind


def as_labels(codes: Index, words: list[str], kind: str) -> NDArray[Any]:
    """Turn coded words into labels of the type that they have in y."""
    if kind == "bool":
        return np.array([word == "True" for word in words])[codes]
    if kind == "number":
        return np.array([int(word) for word in words])[codes]
    return np.array(words, dtype=str)[codes]


def recognised(word: str, known: Iterable[str]) -> str | None:
    """Find the label that is meant: 1, 1.0 and true are the same one."""
    if word in known:
        return word
    number = as_number(word)
    return next((label for label in known if as_number(label) == number), None)


def _rarer(counts: dict[str, int], name: str, notes: list[str]) -> str:
    """Choose which of two labels to find."""
    numbers = not np.isnan([as_number(word) for word in counts]).any()
    if len(counts) > 2:
        if numbers and len(counts) > _CLASSES:
            raise InputError(
                f"The target {name!r} holds {len(counts):,} different numbers, so it is a measurement, not classes: "
                "make a column of two classes from it, or choose one value with --positive VALUE."
            )
        raise InputError(
            f"The target {name!r} has {len(counts):,} different values, {_counted(counts)}: choose the "
            "one to find with --positive VALUE, and all others become the other class."
        )
    first, last = sorted(counts, key=lambda word: (as_number(word) if numbers else 0.0, word))
    total = sum(counts.values())
    if counts[first] == counts[last]:
        notes.append(
            f"The class to find is {last!r} in {name!r}; for {first!r}, which is as frequent, give --positive {first}."
        )
        return last
    rare = last if is_minority(counts[last], counts[first]) else first
    notes.append(f"The class to find is {rare!r} in {name!r}, the rarer one: {counts[rare]:,} of {total:,} rows.")
    return rare


def _named(positive: str, counts: dict[str, int], name: str) -> str:
    """Find the label that --positive names."""
    word = positive.strip()
    if (label := recognised(word, counts)) is not None:
        return label
    similar = suggestion(word, counts, 1)
    perhaps = f" ({similar})" if similar else ""
    raise InputError(f"{positive!r} is not a value of the target {name!r}{perhaps}, which has {_counted(counts)}.")


def _counted(counts: dict[str, int], most: int = 8) -> str:
    """List values and how often each occurs, the frequent ones first."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    more = f" and {len(ordered) - most:,} more" if len(ordered) > most else ""
    return ", ".join(f"{word!r} ({count:,})" for word, count in ordered[:most]) + more


def unlabelled_notes(known: Mask, name: str) -> list[str]:
    """Say how many rows have no label, if there are any."""
    count = int(np.count_nonzero(~known))
    return [f"Left out: {count:,} row{'' if count == 1 else 's'} without a value of {name!r}."] if count else []
