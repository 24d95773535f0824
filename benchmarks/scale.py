"""LinearSVM on dask: whether it reaches the objective of the fit in memory, and how time, bytes and memory grow.

    python benchmarks/scale.py [--data FOLDER] [--rows 1 2 5] [--workers 2] [--limit 560MB] [--only PART]

Prints Markdown tables for docs/scale.md. The generated table (millions of rows × 30 columns) is written to Parquet
piece by piece; only the reference fit, in a separate process, holds it in memory as a whole. The table of 5 million
rows (1.2 GB) is larger than the memory of two workers of 560 MB. For it, nothing is held between rounds: every round
reads the files again. Sizes of messages and answers are pickled sizes; every partition sends one answer.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from common import arrays_of, command_line, setting, table, timed
from distributed import Client, LocalCluster
from scipy.sparse import csr_matrix

from evenmargin import LinearSVM
from evenmargin.distributed import _engine, _linear

warnings.filterwarnings("ignore", "Sending large graph")  # the papers' tables are in memory

LOSSES = ("hinge", "squared_hinge", "log")
PIECE = 62_500  # rows of a file: 15 MB at 30 columns
COLUMNS = 30
TOL = 1e-5
ROUND_5 = 6  # the graph of the fifth round: the first is the survey


# --- the generated table ---


def names(d: int = COLUMNS) -> list[str]:
    return [f"x{column:03d}" for column in range(d)]


def piece(number: int, d: int = COLUMNS, rows: int = PIECE) -> tuple[np.ndarray, np.ndarray]:
    """Normal columns; some 4 % of the rows are positive, and the classes overlap."""
    rng, w = np.random.default_rng([d, number]), np.random.default_rng(99).standard_normal(d)
    X = rng.standard_normal((rows, d))
    return X, (X @ (w / np.linalg.norm(w)) + rng.standard_normal(rows) > 2.5).astype(np.int8)


def write(folder: Path, rows: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(rows // PIECE):
        X, y = piece(number)
        frame = pd.DataFrame(X, columns=names()).assign(y=y)
        frame.to_parquet(folder / f"{number:05d}.parquet", compression=None, index=False)


def read(folder: Path, rows: int) -> tuple:
    """The first rows of the table, as a dask frame."""
    parts = dd.read_parquet([str(folder / f"{number:05d}.parquet") for number in range(rows // PIECE)])
    return parts[names()], parts["y"]


def in_memory(rows: int) -> None:
    """Fit the same machines in this process; prints the objective and the seconds for each loss as JSON."""
    pieces = [piece(number) for number in range(rows // PIECE)]
    X, y = np.vstack([X for X, _ in pieces]), np.concatenate([y for _, y in pieces])
    del pieces
    found = {}
    for loss in LOSSES:
        svm = machine(loss, solver="newton")
        seconds = timed(partial(svm.fit, X, y))
        found[loss] = [float(svm.objective_), seconds]
    print(json.dumps(found))


def reference(rows: int) -> dict[str, list[float]]:
    told = subprocess.run(
        [sys.executable, __file__, "--reference", str(rows)], capture_output=True, text=True, check=True
    )
    return dict(json.loads(told.stdout.splitlines()[-1]))


# --- measuring ---


def machine(loss: str, **options: object) -> LinearSVM:
    return LinearSVM(loss=loss, class_weight="balanced", tol=TOL, random_state=0, **options)


@contextmanager
def cluster(workers: int, limit: str) -> Iterator[Client]:
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    # pyarrow's own pool keeps what it has freed, some 60 MB of each worker.
    os.environ.update(OMP_NUM_THREADS="1", ARROW_DEFAULT_MEMORY_POOL="system")
    with (
        LocalCluster(n_workers=workers, memory_limit=limit, silence_logs=logging.ERROR, **options) as local,
        Client(local) as client,
    ):
        client.run(_warm)
        yield client


def _warm() -> None:
    """Load the compiled loops before timing starts."""
    X, y = piece(0, rows=2_000)
    with dask.config.set(scheduler="synchronous"):  # not the cluster's, which waits for this
        for loss in LOSSES:
            machine(loss).fit(da.from_array(X, chunks=(1_000, -1)), y)


def peak() -> float:
    """The peak memory of this process, in MB."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


@contextmanager
def never_held() -> Iterator[None]:
    memory = _engine.Engine.memory
    _engine.Engine.memory = lambda self: 0.0  # type: ignore[method-assign]
    try:
        yield
    finally:
        _engine.Engine.memory = memory  # type: ignore[method-assign]


class Traffic:
    """Pickled bytes of the largest message and of the largest sum of answers, as the client of a fit sees them."""

    def __enter__(self) -> Traffic:
        self.down = self.up = self.graphs = 0
        self.at: dict[int, object] = {}
        create, compute = _linear.Message.__init__, _engine.Engine.compute

        def told(message: _linear.Message, *args: object) -> None:
            create(message, *args)
            self.down = max(self.down, len(pickle.dumps(message)))

        def computed(engine: _engine.Engine, graph: object) -> object:
            self.graphs += 1
            if self.graphs in self.at:
                self.at[self.graphs]()
            result = compute(engine, graph)
            if isinstance(result, list):
                self.up = max(self.up, len(pickle.dumps(result)))
            return result

        self._undo = create, compute
        _linear.Message.__init__, _engine.Engine.compute = told, computed  # type: ignore[method-assign]
        return self

    def __exit__(self, *error: object) -> None:
        _linear.Message.__init__, _engine.Engine.compute = self._undo  # type: ignore[method-assign]


def fit(loss: str, X: object, y: object) -> tuple[LinearSVM, float, Traffic]:
    with Traffic() as traffic:
        svm = machine(loss)
        seconds = timed(partial(svm.fit, X, y))
        return svm, seconds, traffic


def rounds_to(svm: LinearSVM, gap: float) -> int:
    return next(entry["rounds"] for entry in svm.history_ if entry["gap"] <= gap * entry["objective"])


def rounds_of(svm: LinearSVM) -> str:
    return f"{svm.rounds_} ({rounds_to(svm, 1e-3)})"


# --- the tables ---


def by_rows(given: argparse.Namespace) -> None:
    """Parquet with nothing held: the objective, and time by number of rows."""
    rows, peaks = [], []
    counts = [int(millions * 1e6) // PIECE * PIECE for millions in given.rows]
    references = [reference(count) for count in counts]  # while no worker shares the cores
    with cluster(given.workers, given.limit) as client, never_held():
        for count, expected in zip(counts, references, strict=True):
            X, y = read(given.folder, count)
            for loss in LOSSES:
                svm, seconds, traffic = fit(loss, X, y)
                objective, memory_seconds = expected[loss]
                each = seconds / (svm.rounds_ + 1)
                rows.append([
                    f"{count:,}", loss, rounds_of(svm), f"{svm.objective_ / objective - 1:+.0e}",
                    f"{svm.dual_gap_ / svm.objective_:.0e}", f"{seconds:.1f}", f"{each:.2f}",
                    f"{1e6 * each / count:.2f}", f"{traffic.down:,}", f"{traffic.up:,}", f"{memory_seconds:.1f}",
                ])  # fmt: skip
            workers = ", ".join(f"{most:.0f}" for most in client.run(peak).values())
            peaks.append(
                [f"{count:,}", f"{count * (8 * COLUMNS + 1) / 1e6:.0f}", given.limit, workers, f"{peak():.0f}"]
            )
    header = [
        "rows", "loss", "rounds (to a gap of 1e-3)", "F/F in memory − 1", "gap", "seconds", "a round",
        "µs a row and round", "message, bytes", "answer, bytes", "in memory, s",
    ]  # fmt: skip
    table(
        f"Parquet × {COLUMNS} columns, {given.workers} workers of {given.limit}, read again every round", header, rows
    )
    head = ["rows", "table, MB", "limit of a worker", "peak of each worker, MB", "peak of the client, MB"]
    table("Peak memory since the start, including the rows above", head, peaks)


def papers(given: argparse.Namespace) -> None:
    """The papers' tables in seven partitions, against the machine fitted in memory."""
    rows = []
    with cluster(given.workers, "4GB"):
        for name in ("adult_a9a", "ijcnn1"):
            X, y = arrays_of(given.data, name)
            X = X.astype(np.float64)
            lazy = da.from_array(X, chunks=(len(X) // 7 + 1, -1))
            if name == "adult_a9a":
                X, lazy = csr_matrix(X), lazy.map_blocks(csr_matrix)
            for loss in LOSSES:
                expected = machine(loss)
                memory_seconds = timed(partial(expected.fit, X, y))
                svm, seconds, traffic = fit(loss, lazy, y)
                rows.append([
                    name, loss, rounds_of(svm), f"{svm.objective_ / expected.objective_ - 1:+.0e}",
                    f"{svm.dual_gap_ / svm.objective_:.0e}", f"{traffic.down:,}", f"{traffic.up:,}", f"{seconds:.2f}",
                    f"{memory_seconds:.2f}",
                ])  # fmt: skip
    header = [
        "table", "loss", "rounds (to a gap of 1e-3)", "F/F in memory − 1", "gap", "message, bytes", "answer, bytes",
        "seconds", "in memory, s",
    ]  # fmt: skip
    table("The papers' tables in 7 partitions, held by the workers", header, rows)


def by_workers(given: argparse.Namespace) -> None:
    """Time by number of workers, with files read again every round and with blocks held; a worker killed mid-fit."""
    rows, count = [], int(min(given.rows) * 1e6) // PIECE * PIECE
    X, y = read(given.folder, count)
    same = []
    for workers in range(1, given.workers + 1):
        with cluster(workers, "3GB") as client:
            with never_held():
                svm, seconds, _ = fit("hinge", X, y)
            held, held_seconds, _ = fit("hinge", X, y)
            rows.append([f"{workers} workers", svm.rounds_, f"{seconds:.1f}", f"{held_seconds:.1f}"])
            same += [svm, held]
            if workers == given.workers:
                killed, killed_seconds = fit_with_a_death(client, X, y)
                rows.append([f"{workers} workers, one killed in round 5", killed.rounds_, "", f"{killed_seconds:.1f}"])
                same.append(killed)
    with never_held():
        svm, seconds, _ = fit("hinge", X, y)
    held, held_seconds, _ = fit("hinge", X, y)
    rows.append(["dask's threads, no cluster", svm.rounds_, f"{seconds:.1f}", f"{held_seconds:.1f}"])
    same += [svm, held]
    table(f"Hinge on {count:,} × {COLUMNS} by workers", ["", "rounds", "read again, s", "held, s"], rows)
    equal = all(np.array_equal(same[0].coef_, svm.coef_) for svm in same[1:])
    print(f"\nAll have the same coefficients to the last bit, including the fit with a killed worker: {equal}.")


def fit_with_a_death(client: Client, X: object, y: object) -> tuple[LinearSVM, float]:
    victim = next(iter(client.run(os.getpid).values()))
    with Traffic() as traffic:
        traffic.at[ROUND_5] = threading.Timer(0.05, os.kill, (victim, signal.SIGKILL)).start
        svm = machine("hinge")
        seconds = timed(partial(svm.fit, X, y))
    if victim in client.run(os.getpid).values():
        sys.exit("The worker that was to be killed is alive.")
    return svm, seconds


def generated(d: int, rows: int = PIECE, block_info: dict | None = None) -> np.ndarray:
    return piece(block_info[None]["chunk-location"][0], d, rows)[0]


def labels(d: int, rows: int = PIECE, block_info: dict | None = None) -> np.ndarray:
    return piece(block_info[None]["chunk-location"][0], d, rows)[1]


def by_columns(given: argparse.Namespace) -> None:
    """Time and bytes by number of columns, with blocks held by the workers."""
    rows, parts = [], 8
    with cluster(given.workers, "4GB"):
        for d in (10, 30, 100):
            chunks = (PIECE,) * parts
            X = da.map_blocks(generated, d, chunks=(chunks, (d,)), dtype=float, meta=np.empty((0, d)))
            y = da.map_blocks(labels, d, chunks=(chunks,), dtype=np.int8, meta=np.empty(0, np.int8))
            for loss in ("hinge", "log"):
                svm, seconds, traffic = fit(loss, X, y)
                each = np.diff([entry["seconds"] for entry in svm.history_ if entry["rounds"] > 1])
                each = each[each > 1e-4]  # looks at new multipliers come along with another
                rows.append([
                    d, loss, rounds_of(svm), f"{np.median(each):.2f}", f"{traffic.down:,}", f"{traffic.up:,}",
                    f"{svm.dual_gap_ / svm.objective_:.0e}", f"{seconds:.1f}",
                ])  # fmt: skip
    header = [
        "columns", "loss", "rounds (to a gap of 1e-3)", "a round, s", "message, bytes", "answer, bytes", "gap",
        "seconds",
    ]  # fmt: skip
    table(f"{PIECE * parts:,} rows by columns, {given.workers} workers, held", header, rows)


def by_partitions(given: argparse.Namespace) -> None:
    """The cost of a partition besides its rows: many held partitions with few rows each."""
    rows, few, d = [], 100, COLUMNS
    with cluster(given.workers, "4GB"):
        for parts in (16, 128, 1024, 4096):
            chunks = (few,) * parts
            X = da.map_blocks(generated, d, few, chunks=(chunks, (d,)), dtype=float, meta=np.empty((0, d)))
            y = da.map_blocks(labels, d, few, chunks=(chunks,), dtype=np.int8, meta=np.empty(0, np.int8))
            svm, seconds, _ = fit("squared_hinge", X, y)
            each = seconds / (svm.rounds_ + 1)
            rows.append([f"{parts:,}", svm.rounds_, f"{seconds:.1f}", f"{each:.2f}", f"{1e3 * each / parts:.2f}"])
    header = ["partitions", "rounds", "seconds", "a round, s", "ms a partition and round"]
    table(f"Squared hinge on partitions of {few} rows × {d}, {given.workers} workers, held", header, rows)


PARTS = {
    "rows": by_rows, "workers": by_workers, "columns": by_columns, "partitions": by_partitions, "papers": papers,
}  # fmt: skip


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[1, 2, 5], help="millions")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", default="560MB", help="memory of each worker, for the Parquet table")
    parser.add_argument("--only", choices=list(PARTS))
    parser.add_argument("--reference", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.reference:
        return in_memory(given.reference)
    print(f"{setting()}; single runs, tol {TOL:g}, balanced class weights.")
    given.folder = Path(tempfile.mkdtemp(prefix="evenmargin-parquet-"))
    try:
        if given.only in (None, "rows", "workers"):
            write(given.folder, int(max(given.rows) * 1e6))
        for name, part in PARTS.items():
            if given.only in (None, name):
                part(given)
    finally:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
