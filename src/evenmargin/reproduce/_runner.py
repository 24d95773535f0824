"""Running a table: jobs one after the other, each kept as soon as it is done."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from .. import __version__
from .._progress import progress_bars
from ..datasets import find
from ._base import Job, Record, Report, Settings, Table
from ._write import write_report

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Busy", "JobFailed", "Outcome", "Stopped", "StrangeFile", "run_table"]

# What to install for a module that not everyone has.
_EXTRAS = {"imblearn": "reproduce", "matplotlib": "plot", "torch": "torch"}


class Busy(RuntimeError):
    """Another run is writing to the same file."""


class StrangeFile(ValueError):
    """A results file that this run cannot go on with."""


class JobFailed(RuntimeError):
    """A job raised an error, which is the cause of this one; what was finished is kept."""


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
    jobs = list(table.jobs(settings))
    stem = table.name + (".quick" if settings.quick else "")
    path, head = out / f"{stem}.jsonl", _head(table, settings)
    kept = Kept() if fresh else _read(path, head)
    if any(job.key not in kept.records for job in jobs):  # what hours of work would need is said before them
        check_needs(table)
        for name in table.data:
            if name not in head["data"]:
                settings.load(name)
    out.mkdir(parents=True, exist_ok=True)
    with _opened(path, head, fresh) as (file, kept):
        records = kept.records
        open_jobs = [job for job in jobs if job.key not in records]
        before = len(jobs) - len(open_jobs)
        with progress_bars(verbose) as open_bar:
            bar = open_bar(table.name) or (lambda done, total, note: None)
            for done, job in enumerate(open_jobs, start=before):
                bar(done, len(jobs), job.key)
                there = f"{done} of {len(jobs)} cells of {table.name} are kept in {path}"
                try:
                    records[job.key] = _measured(job, file)
                except KeyboardInterrupt:
                    raise Stopped(f"Stopped: {there}; the same command goes on from there.") from None
                except Exception as error:
                    raise JobFailed(f"{job.key} failed: {error} ({there}.)") from error
            bar(len(jobs), len(jobs), "done")
        results = {job.key: records[job.key] for job in jobs}
        report = table.report(settings, results)
        files = write_report(table, settings, results, report, out / stem)
    return Outcome(report, files, before, len(open_jobs), kept.unreadable)


def check_needs(table: Table) -> None:
    """Say what must be installed, before anything is run."""
    missing = [name for name in table.needs if find_spec(name) is None]
    if missing:
        extras = ",".join(_EXTRAS.get(name, name) for name in missing)
        raise ModuleNotFoundError(
            f"{table.name} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed: "
            f'pip install "evenmargin[{extras}]".'
        )


def _measured(job: Job, file: BinaryIO) -> Record:
    """Run a job and keep what it found, on the disk, before the next begins."""
    started = time.perf_counter()
    figures = dict(job.run())
    seconds = time.perf_counter() - started
    entry = {"key": job.key, "seconds": seconds, "figures": figures}
    _append(file, entry)
    return Record(json.loads(_line(entry))["figures"], seconds)  # as a run that reads it back would have it


def _head(table: Table, settings: Settings) -> dict[str, Any]:
    """What all cells of a file have in common; of the data what is known without a download."""
    digests = {}
    for name in table.data:
        path = find(name, folder=settings.folder)
        if path is not None:
            digests[name] = sha256(path.read_bytes()).hexdigest()[:16]
    return {
        "table": table.name, "seed": settings.seed, "quick": settings.quick, "evenmargin": __version__, "data": digests,
    }  # fmt: skip


@dataclass
class Kept:
    """What a results file holds: its records, how many lines cannot be read, and where its last whole line ends."""

    records: dict[str, Record] = field(default_factory=dict)
    unreadable: int = 0
    end: int = 0


def _read(path: Path, head: dict[str, Any]) -> Kept:
    """The records of a results file, which need not exist; a line that a killed run left half-written is not one."""
    content = path.read_bytes() if path.exists() else b""
    whole, _, rest = content.rpartition(b"\n")
    kept = Kept(unreadable=bool(rest), end=len(content) - len(rest))
    lines = whole.split(b"\n") if kept.end else []
    _check_head(lines[0] if lines else rest, head, path, begun=bool(lines))
    for line in lines[1:]:
        try:
            entry = json.loads(line)
            kept.records[str(entry["key"])] = Record(dict(entry["figures"]), float(entry["seconds"]))
        except (ValueError, KeyError, TypeError):
            kept.unreadable += 1
    return kept


def _check_head(line: bytes, head: dict[str, Any], path: Path, *, begun: bool) -> None:
    """Refuse a file that is not ours, or of another run; a first line that a killed run left half-written is ours."""
    if not begun and _line(head).startswith(line):
        return
    found: Any = None
    with suppress(ValueError):
        found = json.loads(line)
    if not isinstance(found, dict) or found.get("table") != head["table"]:
        raise StrangeFile(f"{path} holds no results of {head['table']}: move it away, or choose another --out.")
    theirs, ours = found.pop("data", {}), head["data"]
    differing = [f"{name} {value}" for name, value in found.items() if head.get(name) != value]
    differing += [f"other data of {name}" for name in ours if theirs.get(name, ours[name]) != ours[name]]
    if differing:
        raise StrangeFile(
            f"The results in {path} are of another run ({', '.join(differing)}): choose another --out, or start anew "
            "with --fresh."
        )


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"


@contextmanager
def _opened(path: Path, head: dict[str, Any], fresh: bool) -> Iterator[tuple[BinaryIO, Kept]]:
    """The results file, open for more lines, and what it holds; half a line at its end is cut off."""
    with path.open("ab") as file:
        _lock(file, path)
        kept = Kept() if fresh else _read(path, head)
        file.truncate(kept.end)
        if kept.end == 0:
            _append(file, head)
        yield file, kept


def _append(file: BinaryIO, entry: dict[str, Any]) -> None:
    """Onto the disk, before anything else is done."""
    file.write(_line(entry))
    file.flush()
    os.fsync(file.fileno())


def _lock(file: Any, path: Path) -> None:
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"Another run is writing {path}: wait for it to end, or choose another --out.") from None
        except OSError:
            pass  # a file system without locks
