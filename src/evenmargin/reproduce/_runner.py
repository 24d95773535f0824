"""Running a table: one job after another, each kept as soon as it is done."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from .. import __version__
from .._util.files import replace_file
from .._util.progress import progress_bars
from ..datasets import find
from ._base import Record, Report, Settings, Table, TableJob
from ._write import write_report

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # a module is expected

__all__ = ["Busy", "JobFailed", "RunSummary", "Stopped", "StrangeFile", "run_table"]

# The extra that installs an optional module.
_EXTRAS = {"imblearn": "reproduce", "matplotlib": "plot", "torch": "torch"}


class Busy(RuntimeError):
    """Another run is writing to the same file."""


class StrangeFile(ValueError):
    """A results file that this run cannot continue."""


class JobFailed(RuntimeError):
    """A job raised an error, which is the cause of this one; the finished cells are kept."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C, with a sentence on what is kept."""


class RunSummary(NamedTuple):
    """The report of a run, the files written, and how many cells it has."""

    report: Report
    files: list[Path]
    kept: int  # cells from an earlier run
    measured: int  # cells of this run
    unreadable: int  # lines of the results file that a killed run left half-written


def run_table(table: Table, settings: Settings, out: Path, *, fresh: bool = False, verbose: bool = False) -> RunSummary:
    """Run the jobs that have no result yet, then write the report."""
    jobs = list(table.jobs(settings))
    stem = out / (table.name + (".quick" if settings.quick else ""))
    path, head = Path(f"{stem}.jsonl"), _head(table, settings)

    def kept(what: str, done: int) -> str:
        again = "run the same command again to continue"
        return f"{what}: {done} of {len(jobs)} cells of {table.name} are kept in {path}; {again}."

    with _explain_errors(f"The results cannot be written to {out}", "choose another --out"):
        present = _read(path, head, fresh)
        if any(job.key not in present.records for job in jobs):  # before hours of work, not in the middle of them
            check_needs(table)
            for name in table.data:
                settings.load(name)
        out.mkdir(parents=True, exist_ok=True)
        file, contents = _open_results(path, head, fresh)
    records, before = contents.records, sum(job.key in contents.records for job in jobs)
    with file:
        with progress_bars(verbose) as open_bar:
            _run_missing(jobs, records, file, open_bar(table.name) or (lambda done, total, note: None), kept)
        results = {job.key: records[job.key] for job in jobs}
        with _explain_errors(f"The report cannot be written to {out}", "the cells are kept"):
            try:
                report = table.report(settings, results)
                files = write_report(table, settings, results, report, stem)
            except KeyboardInterrupt:
                raise Stopped(kept("Stopped", len(jobs))) from None
            except (KeyError, IndexError, TypeError) as error:
                raise StrangeFile(
                    f"The cells in {path} are not those of {table.name} ({type(error).__name__}: {error}): start over "
                    "with --fresh."
                ) from error
    return RunSummary(report, files, before, len(jobs) - before, contents.unreadable)


def _run_missing(
    jobs: list[TableJob],
    records: dict[str, Record],
    file: BinaryIO,
    show: Callable[[int, int, str], None],
    kept: Callable[[str, int], str],
) -> None:
    """Run the jobs that have no record yet, and keep each as soon as it is done."""
    missing = [job for job in jobs if job.key not in records]
    for done, job in enumerate(missing, start=len(jobs) - len(missing)):
        show(done, len(jobs), job.key)
        started = time.perf_counter()
        try:
            figures = dict(job.run())
            line = _line({"key": job.key, "seconds": time.perf_counter() - started, "figures": figures})
        except KeyboardInterrupt:
            raise Stopped(kept("Stopped", done)) from None
        except Exception as error:
            words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise JobFailed(kept(f"{job.key} failed ({words})", done)) from error
        with _explain_errors(kept("The next cell cannot be written", done), "make room for it"):
            file.write(line)
            os.fsync(file.fileno())  # on the disk before the next job begins
        records[job.key] = _record(json.loads(line))  # as a run that reads it back has it
    show(len(jobs), len(jobs), "done")


def _record(entry: dict[str, Any]) -> Record:
    return Record(dict(entry["figures"]), float(entry["seconds"]))


@contextmanager
def _explain_errors(what: str, advice: str) -> Iterator[None]:
    """Turn an error of the file system into a sentence; errors of this package are left as they are."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(f"{what.rstrip('.')} ({error.strerror}): {advice}.") from error


def check_needs(table: Table) -> None:
    """Raise an error that names what must be installed."""
    missing = [name for name in table.needs if find_spec(name) is None]
    if missing:
        extras = ",".join(_EXTRAS.get(name, name) for name in missing)
        raise ModuleNotFoundError(
            f"{table.name} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed: "
            f'pip install "evenmargin[{extras}]".'
        )


# --- the results file ---


@dataclass
class Contents:
    """What a results file holds: its records, the lines that can be read, and how many cannot."""

    records: dict[str, Record] = field(default_factory=dict)
    lines: list[bytes] = field(default_factory=list)
    unreadable: int = 0


def _head(table: Table, settings: Settings) -> dict[str, Any]:
    """What all cells of a file have in common; digests of those data that are on this machine."""
    paths = {name: find(name, folder=settings.folder) for name in table.data}
    digests = {name: sha256(path.read_bytes()).hexdigest()[:16] for name, path in paths.items() if path is not None}
    run = {"table": table.name, "seed": settings.seed, "quick": settings.quick, "evenmargin": __version__}
    return {**run, "data": digests}


def _read(path: Path, head: dict[str, Any], fresh: bool) -> Contents:
    """Read a results file, which need not exist, without a line that a killed run left half-written.

    With `fresh` the file is only checked, so that nothing but results is ever deleted.
    """
    content = path.read_bytes() if path.exists() else b""
    first, *others = content.splitlines(keepends=True) or [b""]
    contents = Contents()
    if not first.endswith(b"\n") and _line(head).startswith(first):  # empty, or killed in its first line
        return contents
    _check_head(first, head, path, fresh)
    if fresh:
        return contents
    contents.lines.append(first)
    for line in others:
        try:
            if not line.endswith(b"\n"):
                raise ValueError("half a line")
            entry = json.loads(line)
            contents.records[str(entry["key"])] = _record(entry)
            contents.lines.append(line)
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            contents.unreadable += 1
    return contents


def _check_head(line: bytes, head: dict[str, Any], path: Path, fresh: bool) -> None:
    """Refuse a file of another program, or of a run with other settings."""
    found: Any = None
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
    if not isinstance(found, dict) or found.get("table") != head["table"]:
        raise StrangeFile(f"{path} holds no results of {head['table']}: move it away, or choose another --out.")
    if fresh:
        return
    theirs, ours = found.get("data"), head["data"]
    differing = [f"{name} {found.get(name)}" for name in head if name != "data" and found.get(name) != head[name]]
    if isinstance(theirs, dict):  # a set that is no longer on this machine cannot be compared
        differing += [f"other data for {name}" for name in ours if theirs.get(name, ours[name]) != ours[name]]
    if differing:
        raise StrangeFile(
            f"The results in {path} come from another run ({', '.join(differing)}): choose another --out, or start "
            "over with --fresh."
        )


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def _open_results(path: Path, head: dict[str, Any], fresh: bool) -> tuple[BinaryIO, Contents]:
    """Open and lock the results file for more lines, and read it; unreadable lines are removed."""
    file = _open_locked(path)
    contents = _read(path, head, fresh)
    if fresh or contents.unreadable or not contents.lines:
        replace_file(path, b"".join(contents.lines) or _line(head))
        file.close()
        file = _open_locked(path)
    return file, contents


def _open_locked(path: Path) -> BinaryIO:
    file = path.open("ab", buffering=0)
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"Another run is writing to {path}: wait for it to end, or choose another --out.") from None
        except OSError:
            pass  # a file system without locks
    return file
