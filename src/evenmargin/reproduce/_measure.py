"""What several tables measure in the same way, and say in the same words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student
from sklearn.model_selection import StratifiedKFold

from .._util.typing import Array, Index, Labels
from ..metrics import GMean, recall
from ._base import Line, Record, Results, Settings

__all__ = [
    "Fold", "all_but", "confusion", "figures", "gmean", "interval", "line", "listed", "many", "mean", "mean_and_spread",
    "number", "records", "rows_of", "seconds", "sensitivity", "share", "stratified_folds", "verdict",
]  # fmt: skip

Fold = tuple[Index, Index]  # training rows and test rows


# --- folds and figures ---


def stratified_folds(y: NDArray[Any], count: int, seed: int) -> list[Fold]:
    """Stratified folds of shuffled rows."""
    return list(StratifiedKFold(count, shuffle=True, random_state=seed).split(y, y))


def rows_of(settings: Settings, name: str) -> tuple[Array, Labels]:
    """The training rows of a set as float64, and their labels."""
    data = settings.load(name)
    return np.ascontiguousarray(data.X, np.float64), np.asarray(data.y, np.int64)


def confusion(y: ArrayLike, predicted: ArrayLike) -> dict[str, Any]:
    """The four counts, as `evenmargin.metrics` takes them; positive is above 0."""
    positive, flagged = np.asarray(y) > 0, np.asarray(predicted) > 0
    cells = {"tp": positive & flagged, "fn": positive & ~flagged, "fp": ~positive & flagged, "tn": ~positive & ~flagged}
    return {name: int(np.count_nonzero(cell)) for name, cell in cells.items()}


def sensitivity(y: ArrayLike, predicted: ArrayLike) -> float:
    """The share of the positive rows that are found."""
    return float(recall(**confusion(y, predicted)))


def gmean(y: ArrayLike, predicted: ArrayLike) -> float:
    """The root of the product of the recalls of both classes."""
    return float(GMean()(**confusion(y, predicted)))


def mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard deviation; a single value has no deviation."""
    return mean(values), float(np.std(values, ddof=1)) if len(values) > 1 else None


def interval(differences: Sequence[float], overlap: float = 0.0, level: float = 0.95) -> tuple[float, float]:
    """Mean of differences over folds or seeds, and the half width of its interval.

    Student's, with the correction of Nadeau and Bengio where training sets overlap:
    `overlap` is the number of test rows over that of training rows in a fold (1/4 for
    five folds), 0 for independent values.
    """
    count = len(differences)
    if count < 2:
        return mean(differences), math.inf
    scale = math.sqrt((1.0 / count + overlap) * float(np.var(differences, ddof=1)))
    return mean(differences), float(student.ppf(0.5 + level / 2, count - 1)) * scale


# --- from results to lines ---


def records(results: Results, start: str) -> list[Record]:
    """The records whose keys begin like this."""
    return [record for key, record in results.items() if key.startswith(start)]


def figures(some: Iterable[Record], name: str) -> list[Any]:
    return [record.figures[name] for record in some]


def seconds(some: Iterable[Record]) -> float:
    return sum(record.seconds for record in some)


def line(
    labels: tuple[str, ...], paper: float | None, values: Sequence[float], taken: float | None = None, note: str = ""
) -> Line:
    """The mean of several values and their spread, beside the paper's figure."""
    return Line(labels, paper, *mean_and_spread(values), taken, note)


# --- words ---


def verdict(mean: float, half: float, words: tuple[str, str, str]) -> str:
    """The first word for an interval below 0, the second for one that holds 0, the third for one above."""
    if abs(mean) <= half:
        return words[1]
    return words[2] if mean > 0 else words[0]


def share(flags: Iterable[bool]) -> str:
    """How many are true, as in "3 of 5"."""
    flags = list(flags)
    return f"{sum(flags)} of {len(flags)}"


def all_but(exceptions: Sequence[str]) -> str:
    """The exceptions to a sentence, to stand at its end."""
    return f", all but {', '.join(exceptions)}." if exceptions else "."


def number(value: float, digits: int = 3, sign: str = "") -> str:
    """A number as people write it, with a minus sign."""
    return f"{value:{sign}.{digits}f}".replace("-", "−")


def many(count: int, thing: str) -> str:
    """As "1 split" or "3 splits"."""
    return f"{count} {thing}{'s' if count != 1 else ''}"


def listed(items: Iterable[object]) -> str:
    """Items as in a sentence.

    >>> listed([1, 2, 3])
    '1, 2 and 3'
    """
    *some, last = map(str, items)
    return f"{', '.join(some)} and {last}" if some else last
