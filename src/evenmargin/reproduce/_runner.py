"""Running a table: jobs one after the other, each kept as soon as it is done."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from .. import __version__
from .._progress import progress_bars
from ._base import Job, Record, Report, Settings, Table
from ._write import write_report

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Busy", "Outcome", "Stopped", "StrangeFile", "run_table"]

# What to install for a module that not everyone has.
_EXTRAS = {"imblearn": "reproduce", "matplotlib": "plot", "torch": "torch"}


class Busy(RuntimeError):
    """Another run is writing to the same file."""


class StrangeFile(ValueError):
    """A results file that this run cannot go on with."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C, with a sentence on what is kept."""


class Outcome(NamedTuple):
    """What a run gave."""

    report: Report
    files: list[Path]
    kept: int  # cells that were there from an earlier run
    measured: int  # cells of this run
    mended: int  # lines of the results file that a killed run had left unreadable


def run_table(table: Table, settings: Settings, out: Path, *, fresh: bool = False, verbose: bool = False) -> Outcome:
    """Run what is not there yet, then write the report."""
    check_needs(table)
    for name in table.data:
        settings.load(name)  # so that missing data are said before hours of work
    jobs = list(table.jobs(settings))
    out.mkdir(parents=True, exist_ok=True)
    stem = table.name + (".quick" if settings.quick else "")
    with _opened(out / f"{stem}.jsonl", table, settings, fresh) as (file, records, mended):
        open_jobs = [job for job in jobs if job.key not in records]
        with progress_bars(verbose) as open_bar:
            bar = open_bar(table.name) or (lambda done, total, note: None)
            for done, job in enumerate(open_jobs, start=len(jobs) - len(open_jobs)):
                bar(done, len(jobs), job.key)
                try:
                    records[job.key] = _measured(job, file)
                except KeyboardInterrupt:
                    raise Stopped(
                        f"Stopped: {done} of {len(jobs)} cells of {table.name} are kept in {file.name}; "
                        "the same command goes on from there."
                    ) from None
            bar(len(jobs), len(jobs), "done")
        results = {job.key: records[job.key] for job in jobs}
        report = table.report(settings, results)
        files = write_report(table, settings, results, report, out / stem)
    return Outcome(report, files, len(jobs) - len(open_jobs), len(open_jobs), mended)


def check_needs(table: Table) -> None:
    """Say what must be installed, before anything is run."""
    missing = [name for name in table.needs if find_spec(name) is None]
    if missing:
        extras = ",".join(_EXTRAS.get(name, name) for name in missing)
        raise ModuleNotFoundError(
            f"{table.name} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed: "
            f'pip install "evenmargin[{extras}]".'
        )


def _measured(job: Job, file: Any) -> Record:
    """Run a job and keep what it found, on the disk, before the next begins."""
    started = time.perf_counter()
    figures = dict(job.run())
    seconds = time.perf_counter() - started
    line = json.dumps({"key": job.key, "seconds": seconds, "figures": figures}) + "\n"
    file.write(line)
    file.flush()
    os.fsync(file.fileno())
    return Record(json.loads(line)["figures"], seconds)  # as a run that reads it back would have it


def _head(table: Table, settings: Settings) -> dict[str, Any]:
    return {"table": table.name, "seed": settings.seed, "quick": settings.quick, "evenmargin": __version__}


@contextmanager
def _opened(path: Path, table: Table, settings: Settings, fresh: bool) -> Iterator[tuple[Any, dict[str, Record], int]]:
    """The results file, open for more; the records in it; how many lines could not be read."""
    with path.open("a+", encoding="utf-8") as file:
        _lock(file, path)
        head = _head(table, settings)
        file.seek(0)
        text = "" if fresh else file.read()
        records, mended = _parsed(text, head, path)
        if mended or fresh or not text:
            file.seek(0)
            file.truncate()
            lines = [head, *({"key": key, **record._asdict()} for key, record in records.items())]
            file.write("".join(json.dumps(line) + "\n" for line in lines))
            file.flush()
        yield file, records, mended


def _lock(file: Any, path: Path) -> None:
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"Another run is writing {path}: wait for it to end, or choose another --out.") from None
        except OSError:
            pass  # a file system without locks


def _parsed(text: str, head: dict[str, Any], path: Path) -> tuple[dict[str, Record], int]:
    """The records of a results file; a line that a killed run left half-written is not one."""
    records: dict[str, Record] = {}
    mended = 0
    lines = text.splitlines(keepends=True)
    if not lines or (len(lines) == 1 and not text.endswith("\n")):  # nothing was finished
        return records, len(lines)
    found: Any = None
    with suppress(ValueError):
        found = json.loads(lines[0])
    if not isinstance(found, dict) or found.get("table") != head["table"]:
        raise StrangeFile(f"{path} holds no results of {head['table']}: move it away, or choose another --out.")
    if found != head:
        differing = ", ".join(f"{name} {found.get(name)}" for name in head if found.get(name) != head[name])
        raise StrangeFile(
            f"The results in {path} are of another run ({differing}): choose another --out, or start anew with --fresh."
        )
    for line in lines[1:]:
        try:
            entry = json.loads(line)
            record = Record(dict(entry["figures"]), float(entry["seconds"]))
            if not line.endswith("\n"):
                raise ValueError("half a line")
            records[str(entry["key"])] = record
        except (ValueError, KeyError, TypeError):
            mended += 1
    return records, mended
