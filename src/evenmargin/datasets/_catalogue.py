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

from .._util.typing import Index, RandomState
from ._arrays import Arrays, in_canonical_order
from ._openml import SOURCES, OpenMLTable

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
    paper: Callable[[Arrays, RandomState], Arrays] | None  # from the stored arrays to the paper's version
    needs: tuple[str, ...]  # the arrays beside X and y that it is made from


def _draw(X: NDArray[Any], rows: Index, count: int, generator: np.random.RandomState) -> Index:
    if len(rows) < count:
        raise ValueError(
            f"The paper's version needs {count} rows of a class that has {len(rows)} here: use stored=True."
        )
    return generator.choice(in_canonical_order(X, rows), count, replace=False)


def _fewer_positives(arrays: Arrays, random_state: RandomState) -> Arrays:
    """All negatives, with 254 positives drawn for training and 119 for testing."""
    from sklearn.utils import check_random_state

    generator = check_random_state(random_state)
    chosen: Arrays = {}
    for half, count in (("", 254), ("_test", 119)):
        X, y = arrays["X" + half], arrays["y" + half]
        take = y == -1
        take[_draw(X, np.flatnonzero(y == 1), count, generator)] = True
        chosen |= {"X" + half: X[take], "y" + half: y[take]}
    return chosen


def _halves_of_letters(arrays: Arrays, random_state: RandomState) -> Arrays:
    """Q against the rest; half of the rows for testing, 353 of them positive."""
    from sklearn.utils import check_random_state

    generator = check_random_state(random_state)
    X, positive = arrays["X"], arrays["label"] == 1 + ascii_uppercase.index("Q")
    y = np.where(positive, 1, -1)
    test = np.zeros(len(X), dtype=bool)
    test[_draw(X, np.flatnonzero(positive), 353, generator)] = True
    test[_draw(X, np.flatnonzero(~positive), 10_000 - 353, generator)] = True
    return {"X": X[~test], "y": y[~test], "X_test": X[test], "y_test": y[test]}


_CONTINUOUS = (0, 14, 16, 18, 20, 22)  # of euthyroid: age, TSH, T3, TT4, T4U, FTI


def _grass(arrays: Arrays, random_state: RandomState) -> Arrays:
    signs = {f"y{half}": np.where(arrays[f"label{half}"] == 7, 1, -1) for half in ("", "_test")}
    return {"X": arrays["X"], "X_test": arrays["X_test"], **signs}


def _distinct(arrays: Arrays, random_state: RandomState, sign: int = 1) -> Arrays:
    """Rows that are not copies of earlier ones; with sign −1 the frequent class is positive."""
    keep = arrays["keep"].astype(bool)
    return {"X": arrays["X"][keep], "y": sign * arrays["y"][keep]}


# The paper's version of a set, where it is not the stored form, and the arrays beside X and y that it needs.
_VERSIONS: dict[str, tuple[Callable[[Arrays, RandomState], Arrays], tuple[str, ...]]] = {
    # Trained on the rows for testing, and the other way round.
    "ijcnn1": (
        lambda stored, _: {"X": stored["X_test"], "y": stored["y_test"], "X_test": stored["X"], "y_test": stored["y"]},
        ("X_test",),
    ),
    "letter": (_halves_of_letters, ("label",)),
    "adult_a9a": (_fewer_positives, ("X_test",)),
    "car_good": (lambda stored, _: {"X": stored["X_onehot"], "y": stored["y"]}, ("X_onehot",)),
    "euthyroid": (lambda stored, _: {"X": stored["X"][:, _CONTINUOUS], "y": stored["y"]}, ()),
    "segmentation": (_grass, ("label", "X_test", "label_test")),
    "ionosphere": (partial(_distinct, sign=-1), ("keep",)),
    "sonar": (partial(_distinct, sign=-1), ("keep",)),
    "breast_wisconsin": (_distinct, ("keep",)),
    "german_credit": (_distinct, ("keep",)),
    "wine_quality_white": (
        lambda stored, _: {"X": stored["X"], "y": stored["quality"].astype(np.float64)},
        ("quality",),
    ),
}


def _entry(facts: dict[str, str]) -> Entry:
    """The entry of a row of `catalogue.csv`."""
    texts = {key: facts[key] for key in ("name", "title", "positive", "stored_positive", "origin", "checksum", "info")}
    name, (version, needs) = facts["name"], _VERSIONS.get(facts["name"], (None, ()))
    return Entry(
        **texts,
        papers=tuple(facts["papers"].split()),
        columns=int(facts["columns"]),
        features=int(facts["features"]),
        train=(int(facts["rows"]), int(facts["positives"])),
        test=(int(facts["test_rows"]), int(facts["test_positives"])) if facts["test_rows"] else None,
        source=SOURCES.get(name),
        paper=version,
        needs=needs,
    )


with Path(__file__).with_name("catalogue.csv").open(encoding="utf-8", newline="") as _file:
    CATALOGUE = {facts["name"]: _entry(facts) for facts in csv.DictReader(_file)}
