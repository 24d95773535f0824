"""From a table on OpenML to the stored form.

A source names the table by its number, so that what is downloaded never changes with
the versions that OpenML calls active, and says how its columns become arrays. Nothing
is taken on trust: the caller compares the checksum.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._util.typing import Mask
from ._arrays import Arrays, first_of_its_kind, one_hot

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CAR_LEVELS", "SOURCES", "OpenMLTable", "convert", "fetch"]


@dataclass(frozen=True)
class OpenMLTable:
    """A table on OpenML and how to read it."""

    id: int
    positive: str = ""  # the class that becomes +1
    target: str | None = None  # the column of classes; by default the last one
    columns: int | None = None  # how many of the other columns are features, from the first on; by default all
    labels: Mapping[str, int] | None = None  # the numbers of the classes, for sets that keep them in `label`
    split: int | None = None  # how many rows at the start are for training, for sets with a split
    dtype: str = "float32"  # of X
    convert: Callable[[pd.DataFrame, NDArray[Any]], Arrays] | None = None  # (features, classes) -> arrays, if need be


def fetch(source: OpenMLTable, folder: Path | None) -> pd.DataFrame:
    """The table as OpenML has it; raw files are kept in a temporary folder."""
    from sklearn.datasets import fetch_openml

    # scikit-learn warns at each new attempt; one error at the end is enough. pandas guesses the types: where it is
    # given nominal ones, pandas 3.1 makes of numbers among the classes a type that scikit-learn 1.9 fails on.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".openml-") as home, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fetch_openml(
            data_id=source.id, data_home=home, target_column=None, as_frame=True, parser="pandas",
            read_csv_kwargs={"dtype": None},
        ).data  # fmt: skip


def convert(source: OpenMLTable, table: pd.DataFrame) -> Arrays:
    """The table in the stored form, without the rows that have gaps."""
    table = table.dropna()
    target = source.target or table.columns[-1]
    classes = np.array([_plain(value) for value in table[target]])
    features = table.drop(columns=target).iloc[:, : source.columns]
    if source.convert:
        return source.convert(features, classes)
    X = features.to_numpy(dtype=np.float64).astype(source.dtype)
    arrays: Arrays = {"X": X, "y": _signs(classes == _plain(source.positive))}
    if source.labels:
        labels = {_plain(name): number for name, number in source.labels.items()}
        arrays["label"] = np.array([labels[name] for name in classes], dtype=np.int8)
    if source.split:
        halves = {"": slice(None, source.split), "_test": slice(source.split, None)}
        arrays = {name + half: array[rows] for half, rows in halves.items() for name, array in arrays.items()}
    return arrays


def _plain(value: object) -> str:
    """A class as text; files quote and capitalise in different ways, and pandas reads TRUE as True."""
    return str(value).strip("'\" ").casefold()


def _signs(positive: Mask) -> NDArray[np.int8]:
    return np.where(positive, 1, -1).astype(np.int8)


def _codes(column: pd.Series, levels: tuple[str, ...]) -> NDArray[np.uint8]:
    return np.array([levels.index(_plain(value)) for value in column], dtype=np.uint8)


def _abalone(features: pd.DataFrame, classes: NDArray[Any]) -> Arrays:
    """Sex as three columns; 19 rings against the rest."""
    sex = one_hot(_codes(features.iloc[:, 0], ("f", "i", "m")), 3)
    rest = features.iloc[:, 1:].to_numpy(dtype=np.float64)
    return {"X": np.column_stack([sex, rest]).astype(np.float32), "y": _signs(classes == "19")}


CAR_LEVELS = (
    ("low", "med", "high", "vhigh"), ("low", "med", "high", "vhigh"), ("2", "3", "4", "5more"), ("2", "4", "more"),
    ("small", "med", "big"), ("low", "med", "high"),
)  # fmt: skip


def _car(features: pd.DataFrame, classes: NDArray[Any]) -> Arrays:
    """Every column has an order, which its codes follow."""
    codes = [_codes(features.iloc[:, j], levels) for j, levels in enumerate(CAR_LEVELS)]
    names = ("unacc", "acc", "good", "vgood")
    return {
        "X": np.column_stack(codes),
        "y": _signs(classes == "good"),
        "label": np.array([names.index(name) for name in classes], dtype=np.int8),
    }


def _spectra(features: pd.DataFrame, classes: NDArray[Any]) -> Arrays:
    """The 93 fluxes, which come last; spectral classes 44 and above against the rest."""
    fluxes = features.iloc[:, -93:].to_numpy(dtype=np.float64).astype(np.float32)
    return {"X": fluxes, "y": _signs(classes.astype(float) >= 44)}


def _wine(features: pd.DataFrame, classes: NDArray[Any]) -> Arrays:
    """Each distinct wine once; the quality, and whether it is 4 at most."""
    X = features.to_numpy(dtype=np.float64).astype(np.float32)
    quality = classes.astype(float).astype(np.int8)
    distinct = first_of_its_kind(np.column_stack([X, quality]))
    X, quality = X[distinct], quality[distinct]
    return {"X": X, "y": _signs(quality <= 4), "quality": quality}


# Sets that are not here have no copy of the same content.
SOURCES = {
    "mnist": OpenMLTable(554, "8", columns=780, labels={str(d): d for d in range(10)}, split=60_000, dtype="uint8"),
    "shuttle": OpenMLTable(40685, "4", labels={str(c): c for c in range(1, 8)}, split=43_500, dtype="int16"),
    "letter": OpenMLTable(6, "Z", labels={c: i for i, c in enumerate(ascii_uppercase, 1)}, dtype="uint8"),
    "ecoli_imu": OpenMLTable(39, "imU"),
    "oil_spill": OpenMLTable(311, "1", dtype="float64"),
    "abalone19": OpenMLTable(183, convert=_abalone),
    "spectrometer": OpenMLTable(313, target="LRS-class", convert=_spectra),
    "mammography": OpenMLTable(310, "1"),
    "yeast_ml8": OpenMLTable(40597, "TRUE", target="Class9", columns=103),
    "yeast_me2": OpenMLTable(181, "ME2"),
    "car_good": OpenMLTable(40975, convert=_car),
    "ionosphere": OpenMLTable(59, "b"),
    "sonar": OpenMLTable(40, "Rock"),
    "breast_wisconsin": OpenMLTable(15, "malignant", dtype="uint8"),
    "wine_quality_white": OpenMLTable(44971, target="quality", convert=_wine),
    "statlog_heart": OpenMLTable(53, "present"),
}
