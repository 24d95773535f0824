"""The data sets of the papers: the facts of `catalogue.csv`, and what each paper made of the stored form."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
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
    paper: Callable[[Arrays, RandomState], Arrays] | None = None  # from the stored arrays to the paper's version
    needs: tuple[str, ...] = ()  # the arrays beside X and y that it is made from


def _swapped(arrays: Arrays, random_state: RandomState) -> Arrays:
    """Trained on the rows for testing, and the other way round."""
    return {"X": arrays["X_test"], "y": arrays["y_test"], "X_test": arrays["X"], "y_test": arrays["y"]}


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


def _one_hot(arrays: Arrays, random_state: RandomState) -> Arrays:
    return {"X": arrays["X_onehot"], "y": arrays["y"]}


_CONTINUOUS = (0, 14, 16, 18, 20, 22)  # age, TSH, T3, TT4, T4U, FTI


def _continuous(arrays: Arrays, random_state: RandomState) -> Arrays:
    return {"X": arrays["X"][:, _CONTINUOUS], "y": arrays["y"]}


def _grass(arrays: Arrays, random_state: RandomState) -> Arrays:
    signs = {f"y{half}": np.where(arrays[f"label{half}"] == 7, 1, -1) for half in ("", "_test")}
    return {"X": arrays["X"], "X_test": arrays["X_test"], **signs}


def _distinct(arrays: Arrays, random_state: RandomState) -> Arrays:
    keep = arrays["keep"].astype(bool)
    return {"X": arrays["X"][keep], "y": arrays["y"][keep]}


def _distinct_and_flipped(arrays: Arrays, random_state: RandomState) -> Arrays:
    distinct = _distinct(arrays, random_state)
    return {"X": distinct["X"], "y": -distinct["y"]}


def _quality(arrays: Arrays, random_state: RandomState) -> Arrays:
    return {"X": arrays["X"], "y": arrays["quality"].astype(np.float64)}


# The paper's version of a set, where it is not the stored form, and the arrays beside X and y that it needs.
_VERSIONS: dict[str, tuple[Callable[[Arrays, RandomState], Arrays], tuple[str, ...]]] = {
    "ijcnn1": (_swapped, ("X_test",)),
    "letter": (_halves_of_letters, ("label",)),
    "adult_a9a": (_fewer_positives, ("X_test",)),
    "car_good": (_one_hot, ("X_onehot",)),
    "euthyroid": (_continuous, ()),
    "segmentation": (_grass, ("label", "X_test", "label_test")),
    "ionosphere": (_distinct_and_flipped, ("keep",)),
    "sonar": (_distinct_and_flipped, ("keep",)),
    "breast_wisconsin": (_distinct, ("keep",)),
    "german_credit": (_distinct, ("keep",)),
    "wine_quality_white": (_quality, ("quality",)),
}


def _entry(facts: dict[str, str]) -> Entry:
    """The entry of a row of `catalogue.csv`."""
    texts = {key: facts[key] for key in ("name", "title", "positive", "stored_positive", "origin", "checksum", "info")}
    name, test = facts["name"], (facts["test_rows"], facts["test_positives"])
    return Entry(
        **texts,
        papers=tuple(facts["papers"].split()),
        columns=int(facts["columns"]),
        features=int(facts["features"]),
        train=(int(facts["rows"]), int(facts["positives"])),
        test=(int(test[0]), int(test[1])) if all(test) else None,
        source=SOURCES.get(name),
        paper=_VERSIONS[name][0] if name in _VERSIONS else None,
        needs=_VERSIONS[name][1] if name in _VERSIONS else (),
    )


with Path(__file__).with_name("catalogue.csv").open(encoding="utf-8", newline="") as _file:
    CATALOGUE = {facts["name"]: _entry(facts) for facts in csv.DictReader(_file)}
