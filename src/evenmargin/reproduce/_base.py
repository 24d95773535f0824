"""What a table is made of: jobs that measure, and a report that sets our figures beside the paper's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..datasets import Dataset, load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "PAPERS", "Line", "Record", "Report", "ReportSheet", "Results", "Settings", "Table", "TableJob", "paper_figures",
]  # fmt: skip

PAPERS = {
    "log-loss": "Shuxia Lu and Mi Zhou, “Log-loss SVM Classification for Imbalanced Data”",
    "pegasos": "John Sun, “PEGASOS SVM for Imbalanced Classification”",
    "z-svm": "Tasadduq Imam, Kai Ming Ting and Joarder Kamruzzaman, “z-SVM: An SVM for Improved Classification of "
    "Imbalanced Data”",
    "blinex": "“Cost-sensitive Blinex SVM Model”",
    "gwl": "Filippo Portera, “A Generalized Weighted Loss for SVC and MLP”",
}


def paper_figures(paper: str) -> Any:
    """What a paper prints, and how its rows are read, from `papers.json`."""
    return json.loads(Path(__file__).with_name("papers.json").read_text(encoding="utf-8"))[paper]


@dataclass(frozen=True)
class Settings:
    """How a table is run.

    Parameters
    ----------
    quick : bool, default=False
        A small version that exercises every part: fewer trials, smaller grids.
    trials : int or None, default=None
        Repetitions, at least 1, where the table has any; None: the table's own number.
    seed : int, default=0
        All random choices follow from it.
    folder : Path or None, default=None
        Where the data are; see `evenmargin.datasets.load`.
    """

    quick: bool = False
    trials: int | None = None
    seed: int = 0
    folder: Path | None = None

    def __post_init__(self) -> None:
        if self.trials is not None and self.trials < 1:
            raise ValueError(f"trials={self.trials} must be at least 1.")

    def repeats(self, full: int, quick: int) -> int:
        """How many trials: those asked for, or the table's own number."""
        if self.trials is not None:
            return self.trials
        return quick if self.quick else full

    def load(self, name: str, random_state: int = 0) -> Dataset:
        """Load a data set, and keep it in memory for the next jobs."""
        return _load(name, self.folder or os.environ.get("EVENMARGIN_DATA"), random_state)


@lru_cache(maxsize=2)
def _load(name: str, folder: Path | str | None, random_state: int) -> Dataset:
    return load(name, folder=folder or None, random_state=random_state)


class TableJob(NamedTuple):
    """One cell of a table, or a part of one: the unit that is kept when a run is stopped.

    `key` names everything the figures depend on apart from seed and quick, as
    "mnist/WKSGD/T=2000/trial 3". `run` returns figures that JSON can hold.
    """

    key: str
    run: Callable[[], Mapping[str, Any]]


class Record(NamedTuple):
    """The figures of a job, and how long it took."""

    figures: dict[str, Any]
    seconds: float


Results = Mapping[str, Record]


@dataclass(frozen=True)
class Line:
    """One figure beside the paper's."""

    labels: tuple[str, ...]
    paper: float | None
    ours: float | None
    spread: float | None = None
    seconds: float | None = None
    note: str = ""

    @property
    def difference(self) -> float | None:
        return None if self.paper is None or self.ours is None else self.ours - self.paper


@dataclass(frozen=True)
class ReportSheet:
    """Lines of one kind.

    `columns` names their labels; `spread` says what stands after ±, and `time` what the time was spent on.
    """

    title: str
    columns: tuple[str, ...]
    lines: Sequence[Line]
    digits: int = 3
    spread: str = "standard deviation"
    time: str = ""


@dataclass(frozen=True)
class Report:
    """The sheets of a table, and sentences on what they show, computed from them."""

    sheets: Sequence[ReportSheet]
    findings: Sequence[str] = ()


@dataclass(frozen=True)
class Table:
    """One table or figure of a paper."""

    name: str  # as on the command line: "log-loss-table3"
    title: str
    paper: str  # a key of PAPERS
    data: tuple[str, ...]  # names of data sets
    jobs: Callable[[Settings], Iterable[TableJob]]  # in the order in which they are run; cheap
    report: Callable[[Settings, Results], Report]
    needs: tuple[str, ...] = ()  # optional modules
    draw: Callable[[Settings, Results, Figure], None] | None = None
