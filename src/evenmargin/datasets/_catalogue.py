"""The data sets of the papers: the facts of `catalogue.csv`, and what each paper made of the stored form."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._util.typing import Index
from ._arrays import Arrays, first_of_its_kind, in_canonical_order, one_hot
from ._openml import CAR_LEVELS, SOURCES, OpenMLTable

__all__ = ["CATALOGUE", "Entry"]


@dataclass(frozen=True)
class Entry:
    """One data set; counts, features and the positive class are those of the paper's version."""

    name: str
    title: str
    papers: tuple[str, ...]  # who used it: "log-loss", "pegasos", "z-svm", "gwl"
    positive: str
    stored_positive: str  # the positive class of the stored form, where it is another one
    origin: str
    columns: int  # of the stored form
    features: int
    train: tuple[int, int]  # rows and positives
    test: tuple[int, int] | None
    checksum: str  # of the stored form
    info: str  # what differs from the paper, or what it does not say
    source: OpenMLTable | None  # the copy on OpenML, where there may be one of the same content
    paper: Callable[[Arrays, np.random.RandomState], Arrays] | None  # from the stored arrays to the paper's version
    needs: tuple[str, ...]  # the arrays beside X and y that it is made from


def _draw(X: NDArray[Any], rows: Index, count: int, generator: np.random.RandomState) -> Index:
    if len(rows) < count:
        raise ValueError(
            f"The paper's version needs {count} rows of a class that has {len(rows)} here: use stored=True."
        )
    return generator.choice(in_canonical_order(X, rows), count, replace=False)


def _swapped(arrays: Arrays, _: np.random.RandomState) -> Arrays:
    """Trained on the rows for testing, and the other way round."""
    return {"X": arrays["X_test"], "y": arrays["y_test"], "X_test": arrays["X"], "y_test": arrays["y"]}


def _fewer_positives(arrays: Arrays, generator: np.random.RandomState) -> Arrays:
    """All negatives, with 254 positives drawn for training and 119 for testing."""
    chosen: Arrays = {}
    for half, count in (("", 254), ("_test", 119)):
        X, y = arrays["X" + half], arrays["y" + half]
        take = y == -1
        take[_draw(X, np.flatnonzero(y == 1), count, generator)] = True
        chosen |= {"X" + half: X[take], "y" + half: y[take]}
    return chosen


def _halves_of_letters(arrays: Arrays, generator: np.random.RandomState) -> Arrays:
    """Q against the rest; half of the rows for testing, 353 of them positive."""
    X, positive = arrays["X"], arrays["label"] == 1 + ascii_uppercase.index("Q")
    y = np.where(positive, 1, -1)
    test = np.zeros(len(X), dtype=bool)
    test[_draw(X, np.flatnonzero(positive), 353, generator)] = True
    test[_draw(X, np.flatnonzero(~positive), 10_000 - 353, generator)] = True
    return {"X": X[~test], "y": y[~test], "X_test": X[test], "y_test": y[test]}


_CONTINUOUS = (0, 14, 16, 18, 20, 22)  # of euthyroid: age, TSH, T3, TT4, T4U, FTI


def _grass(arrays: Arrays, _: np.random.RandomState) -> Arrays:
    signs = {f"y{half}": np.where(arrays[f"label{half}"] == 7, 1, -1) for half in ("", "_test")}
    return {"X": arrays["X"], "X_test": arrays["X_test"], **signs}


def _car_columns(arrays: Arrays, _: np.random.RandomState) -> Arrays:
    """A column for each level, in place of the codes."""
    wide = [one_hot(codes, len(levels)) for codes, levels in zip(arrays["X"].T, CAR_LEVELS, strict=True)]
    return {"X": np.column_stack(wide), "y": arrays["y"]}


def _distinct(arrays: Arrays, _: np.random.RandomState, sign: int = 1) -> Arrays:
    """Rows that are not copies of earlier ones; with sign −1 the frequent class is positive."""
    keep = first_of_its_kind(arrays["X"])
    return {"X": arrays["X"][keep], "y": sign * arrays["y"][keep]}


# The paper's version of a set, where it is not the stored form.
_VERSIONS: dict[str, Callable[[Arrays, np.random.RandomState], Arrays]] = {
    "ijcnn1": _swapped,
    "letter": _halves_of_letters,
    "adult_a9a": _fewer_positives,
    "car_good": _car_columns,
    "euthyroid": lambda stored, _: {"X": stored["X"][:, _CONTINUOUS], "y": stored["y"]},
    "segmentation": _grass,
    "ionosphere": partial(_distinct, sign=-1),
    "sonar": partial(_distinct, sign=-1),
    "breast_wisconsin": _distinct,
    "german_credit": _distinct,
    "wine_quality_white": lambda stored, _: {"X": stored["X"], "y": stored["quality"].astype(np.float64)},
}
_NEEDS = {  # the arrays beside X and y that it is made from
    "ijcnn1": ("X_test",),
    "letter": ("label",),
    "adult_a9a": ("X_test",),
    "segmentation": ("label", "X_test", "label_test"),
    "wine_quality_white": ("quality",),
}


def _entry(facts: dict[str, str]) -> Entry:
    """The entry of a row of `catalogue.csv`."""
    texts = {key: facts[key] for key in ("name", "title", "positive", "stored_positive", "origin", "checksum", "info")}
    name = facts["name"]
    return Entry(
        **texts,
        papers=tuple(facts["papers"].split()),
        columns=int(facts["columns"]),
        features=int(facts["features"]),
        train=(int(facts["rows"]), int(facts["positives"])),
        test=(int(facts["test_rows"]), int(facts["test_positives"])) if facts["test_rows"] else None,
        source=SOURCES.get(name),
        paper=_VERSIONS.get(name),
        needs=_NEEDS.get(name, ()),
    )


with Path(__file__).with_name("catalogue.csv").open(encoding="utf-8", newline="") as _file:
    CATALOGUE = {facts["name"]: _entry(facts) for facts in csv.DictReader(_file)}
