"""The papers' data sets by name, as the papers used them.

    load("letter")                  the paper's positive class, columns, rows and split
    load("letter", stored=True)     the set as its source has it, the minority as +1
    list()                          what there is, and where it would come from now

No data come with the package. A set is looked for in this order:

1. NAME.npz in `folder`, or else in the folder that EVENMARGIN_DATA names;
2. the user's cache, where downloads are kept (EVENMARGIN_CACHE names another folder);
3. the sets that come with scikit-learn;
4. OpenML, through scikit-learn's `fetch_openml`, unless `download=False`.

A download is accepted only if its content has the checksum of the catalogue: copies on OpenML
differ in rows, rounding and order, and a paper's figures hold for its own rows only. Some sets
have no such copy; the error says where they come from. Files in your own folder are taken as
they are.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._util.files import user_cache, writable
from .._util.sentences import unknown
from ._arrays import Arrays, checksum, read, write
from ._catalogue import CATALOGUE, Entry
from ._openml import OpenMLTable, convert, fetch

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Dataset", "DatasetNotFound", "find", "list", "load"]


class DatasetNotFound(FileNotFoundError):
    """A data set is in none of the places that are searched."""


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """A data set, ready for an estimator.

    Attributes
    ----------
    name, title : str
        The name it is loaded by, and what it is.
    X, X_test : ndarray of shape (n_samples, n_features)
        float32 or float64, not scaled. X_test is None where there is no split.
    y, y_test : ndarray of shape (n_samples,)
        +1 and −1; in the paper's version of the wine set the quality, as a float.
    positive : str
        What +1 stands for.
    source : str
        Where the arrays came from.
    info : str
        What differs from the paper, or what the paper leaves open.
    """

    name: str
    title: str
    X: NDArray[Any]
    y: NDArray[Any]
    X_test: NDArray[Any] | None
    y_test: NDArray[Any] | None
    positive: str
    source: str
    info: str

    def __repr__(self) -> str:
        rows, features = self.X.shape
        text = f"{self.name!r}, {rows} rows, {features} features"
        if self.y.dtype.kind == "i":
            text += f", {np.count_nonzero(self.y == 1)} positive ({self.positive})"
        if self.X_test is not None:
            text += f", {len(self.X_test)} test rows"
        return f"Dataset({text})"


def load(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    random_state: Any = 0,
    stored: bool = False,
    download: bool = True,
) -> Dataset:
    """Load a data set of the papers.

    Parameters
    ----------
    name : str
        One of the names in `list()`.
    folder : path, optional
        Where to look for NAME.npz first; by default the folder that EVENMARGIN_DATA names.
    random_state : int, RandomState instance or None, default=0
        For letter and adult_a9a, of which the papers drew rows without saying which.
        The draw does not depend on the order of the rows in the file.
    stored : bool, default=False
        Give the set as its source has it: the source's split, all rows and columns, the
        minority as +1.
    download : bool, default=True
        Whether a set that is not on this machine may be downloaded from OpenML.

    Returns
    -------
    dataset : Dataset
        X, y, X_test and y_test, with notes on them.

    Raises
    ------
    DatasetNotFound
        If the set is in none of these places, or OpenML has another one of its name.

    Examples
    --------
    >>> from evenmargin import datasets
    >>> datasets.load("breast_wdbc", download=False)
    Dataset('breast_wdbc', 569 rows, 30 features, 212 positive (malignant))
    """
    entry = _entry(name)
    arrays, source = _read(entry, _folder(folder), download)
    positive = entry.positive
    if stored:
        positive = entry.stored_positive or positive
    elif entry.paper:
        from sklearn.utils import check_random_state

        arrays = entry.paper(arrays, check_random_state(random_state))
    return Dataset(
        name=entry.name, title=entry.title, X=_floats(arrays["X"]), y=_labels(arrays["y"]),
        X_test=_floats(arrays["X_test"]) if "X_test" in arrays else None,
        y_test=_labels(arrays["y_test"]) if "y_test" in arrays else None,
        positive=positive, source=source, info=entry.info,
    )  # fmt: skip


def list(*, folder: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """All data sets that `load` knows.

    Parameters
    ----------
    folder : path, optional
        The folder that `load` would be given.

    Returns
    -------
    table : DataFrame
        One row for each set: name, title, papers that use it, rows, features and positives
        of the part for training in the paper's version, what the positive class is, and
        where `load` would find it now ("folder", "cache", "scikit-learn", "OpenML" or
        "missing"). "OpenML" means that a download may be tried; the network is not used.

    Examples
    --------
    >>> from evenmargin import datasets
    >>> table = datasets.list()
    >>> table.set_index("name").loc["ionosphere", ["rows", "features", "positives"]].tolist()
    [350, 34, 225]
    >>> table.name[table.papers.str.contains("gwl")].tolist()
    ['ionosphere', 'sonar', 'breast_wisconsin', 'german_credit', 'wine_quality_white']
    """
    import pandas as pd

    own = _folder(folder)
    table = pd.DataFrame(
        {
            "name": entry.name, "title": entry.title, "papers": ", ".join(entry.papers), "rows": entry.train[0],
            "features": entry.features, "positives": entry.train[1] or None,
            "positive": entry.positive, "found": _locate(entry, own)[0],
        }
        for entry in CATALOGUE.values()
    )  # fmt: skip
    return table.astype({"positives": "Int64"})


def find(name: str, *, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """The file that `load` would read, if there is one.

    Parameters
    ----------
    name : str
        One of the names in `list()`.
    folder : path, optional
        As for `load`.

    Returns
    -------
    path : Path or None
        None where the set comes with scikit-learn, or would have to be downloaded.

    Examples
    --------
    >>> from evenmargin import datasets
    >>> print(datasets.find("breast_wdbc"))  # doctest: +SKIP
    None
    """
    return _locate(_entry(name), _folder(folder))[1]


def _floats(X: NDArray[Any]) -> NDArray[Any]:
    """X as float32 where that holds every number of its type, else as float64."""
    return np.ascontiguousarray(X, dtype=np.result_type(X.dtype, np.float32))


def _labels(y: NDArray[Any]) -> NDArray[Any]:
    """Signs as integers, a quality as it is."""
    return y.astype(np.int64) if np.isin(y, (-1, 1)).all() else y


def _entry(name: str) -> Entry:
    if isinstance(name, str) and name in CATALOGUE:
        return CATALOGUE[name]
    raise ValueError(unknown("data set", name, CATALOGUE))


def _folder(folder: str | os.PathLike[str] | None) -> Path | None:
    """The user's own folder, if any."""
    if folder is None and not (folder := os.environ.get("EVENMARGIN_DATA")):
        return None
    path = Path(folder)
    with contextlib.suppress(RuntimeError):  # ~name, where there is no such user
        path = path.expanduser()
    if not path.is_dir():
        raise DatasetNotFound(
            f"{path} is not a folder: give the one with the npz files by EVENMARGIN_DATA, folder= or --data."
        )
    return path


def _cache() -> Path | None:
    """The folder of downloads, which may not exist yet; None where the user has no home."""
    if folder := os.environ.get("EVENMARGIN_CACHE"):
        return Path(folder).expanduser() / "data"
    try:
        return user_cache() / "evenmargin" / "data"
    except RuntimeError:
        return None


def _breast_cancer() -> Arrays:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    return {"X": data.data.astype(np.float32), "y": np.where(data.target == 0, 1, -1)}


def _locate(entry: Entry, folder: Path | None) -> tuple[str, Path | None]:
    """The first place that has the set, and the file there, if it is a file."""
    for place, path in (("folder", folder), ("cache", _cache())):
        if path and (file := path / f"{entry.name}.npz").is_file():
            return place, file
    if entry.name == "breast_wdbc":
        return "scikit-learn", None
    return "OpenML" if entry.source else "missing", None


def _read(entry: Entry, folder: Path | None, download: bool) -> tuple[Arrays, str]:
    """The stored form, and where it came from."""
    place, file = _locate(entry, folder)
    if file:
        return read(file, columns=entry.columns, needs=entry.needs), str(file)
    if place == "scikit-learn":
        return _breast_cancer(), "scikit-learn"
    if entry.source and download:
        return _download(entry, entry.source), f"OpenML, data set {entry.source.id}"
    if entry.source:
        hint = f"allow its download from OpenML by download=True, or {_advice(entry)}"
    else:
        hint = f"no copy of the same content is known on OpenML, so {_advice(entry)}"
    raise DatasetNotFound(f"The data set {entry.name} is not on this machine: {hint}")


def _advice(entry: Entry) -> str:
    """How to get a set that is not on this machine."""
    return f"put {entry.name}.npz into a folder named by folder= or EVENMARGIN_DATA (it comes from {entry.origin})."


def _download(entry: Entry, source: OpenMLTable) -> Arrays:
    """Download the set, compare its checksum, and keep it in the cache where that can be written."""
    cache = (folder := _cache()) and writable(folder)
    copy, advice = f"{entry.name} on OpenML (data set {source.id})", _advice(entry)
    try:
        table = fetch(source, cache)
    except Exception as error:  # the network, the server and the parser fail in many ways
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise DatasetNotFound(f"{copy} could not be downloaded ({reason}): try again later, or {advice}") from error
    try:
        arrays = convert(source, table)
    except (LookupError, TypeError, ValueError) as error:
        raise DatasetNotFound(
            f"{copy} has other columns or classes than expected ({error}), so it was not kept: {advice}"
        ) from error
    if (found := checksum(arrays)) != entry.checksum:
        raise DatasetNotFound(
            f"{copy} differs from the papers' set (checksum {found[:12]}… where {entry.checksum[:12]}… is expected), "
            f"so it was not kept: {advice}"
        )
    if cache:
        with contextlib.suppress(OSError):  # without room to keep it, it is still returned
            write(cache / f"{entry.name}.npz", arrays)
    return arrays
