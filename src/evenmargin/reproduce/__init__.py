"""The papers' experiments, run again, with our figures beside theirs.

`evenmargin reproduce` on the command line; `run` in Python. Every table is in the
file of its paper, as jobs that measure and a report that compares.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from .._util.sentences import unknown
from ._base import PAPERS, Report, Settings, Table
from ._runner import Busy, JobFailed, RunSummary, Stopped, StrangeFile, run_table

__all__ = [
    "PAPERS", "Busy", "JobFailed", "Report", "RunSummary", "Settings", "Stopped", "StrangeFile", "Table", "get_table",
    "run", "run_table", "tables",
]  # fmt: skip


@lru_cache(maxsize=1)
def tables() -> dict[str, Table]:
    """All tables by name, in the order of the papers.

    Examples
    --------
    >>> from evenmargin import reproduce
    >>> list(reproduce.tables())[:2]
    ['log-loss-table3', 'log-loss-table4']
    """
    from . import blinex, gwl, gwl_mlp, log_loss, pegasos, z_svm

    papers = (log_loss.TABLES, pegasos.TABLES, z_svm.TABLES, blinex.TABLES, gwl.TABLES, gwl_mlp.TABLES)
    return {table.name: table for paper in papers for table in paper}


def get_table(name: str) -> Table:
    """A table by its name; a ValueError suggests names for one that does not exist."""
    known = tables()
    if name not in known:
        raise ValueError(unknown("table", name, known))
    return known[name]


def run(
    name: str,
    *,
    quick: bool = False,
    trials: int | None = None,
    seed: int = 0,
    out: str | os.PathLike[str] = "reproduction",
    folder: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    verbose: bool = True,
) -> RunSummary:
    """Run one table, or continue a run that was stopped.

    Parameters
    ----------
    name : str
        One of `tables()`.
    quick : bool, default=False
        A small version: fewer trials, smaller grids.
    trials : int or None, default=None
        Repetitions; None: as many as the table has.
    seed : int, default=0
    out : path, default="reproduction"
        Folder for the results: NAME.md, NAME.csv, NAME.svg where there is a figure,
        and NAME.jsonl, to which every finished cell is appended.
    folder : path or None, default=None
        Where the data are; see `evenmargin.datasets.load`.
    fresh : bool, default=False
        Discard the cells of an earlier run.
    verbose : bool, default=True
        Show a progress bar.

    Returns
    -------
    summary : RunSummary
        With `report` and the `files` written.
    """
    settings = Settings(quick, trials, seed, None if folder is None else Path(folder))
    return run_table(get_table(name), settings, Path(out), fresh=fresh, verbose=verbose)
