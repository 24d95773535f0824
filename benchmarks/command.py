"""Speed and memory of `evenmargin predict`.

Scores thirty numeric columns with a linear machine and with `EvenMarginClassifier`, from Parquet and from CSV, against
the usual few lines of pandas and scikit-learn (with the whole table in memory). Each run is a separate process, and its
memory is the peak. Prints a section of docs/benchmarks.md.

    python benchmarks/command.py [--rows 2000000] [--gigabytes 2] [--folder FOLDER] [--repeats 3]

`--gigabytes` is the size of the last CSV file, which is written once and then removed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from common import setting, table
from sklearn.svm import LinearSVC

import evenmargin

COLUMNS = [f"c{k}" for k in range(30)]
OURS = """
import sys
from evenmargin.cli import app
app(sys.argv[1:])
"""
THEIRS = """
import sys
import joblib
import pandas as pd
path, data, out = sys.argv[1:]
model = joblib.load(path)
frame = pd.read_parquet(data) if data.endswith("parquet") else pd.read_csv(data)
scores = pd.DataFrame({"prediction": model.predict(frame), "score": model.decision_function(frame)})
scores.to_parquet(out)
"""


def measured(code: str, *words: object) -> tuple[float, float]:
    """Seconds and peak memory, in MB, of a process."""
    # Not ru_maxrss, which begins with the peak of the process that started this one.
    tail = "\nprint(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1], file=sys.stderr)"
    body = "\n".join(f"    {line}" for line in code.strip().splitlines())
    wrapped = f"import re\nimport sys\ntry:\n{body}\nexcept SystemExit as end:\n    assert not end.code{tail}"
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", wrapped, *map(str, words)], stderr=subprocess.PIPE, text=True, check=True
    )
    return time.perf_counter() - started, int(done.stderr.split()[-1]) / 1024


def rows_of(count: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(count, len(COLUMNS))).round(6), columns=COLUMNS)


def models(folder: Path) -> dict[str, Path]:
    """A linear machine, `EvenMarginClassifier`, and scikit-learn's linear machine."""
    frame = rows_of(20_000, 1)
    y = np.where(frame["c0"] + frame["c1"] ** 2 + 0.5 * frame["c2"] > 3.5, "yes", "no")
    paths = {name: folder / f"{name}.skops" for name in ("linear", "automatic")}
    evenmargin.save(evenmargin.LinearSVM(class_weight="balanced").fit(frame, y), paths["linear"])
    evenmargin.save(evenmargin.EvenMarginClassifier(time_budget="fast").fit(frame[:4000], y[:4000]), paths["automatic"])
    paths["theirs"] = folder / "linear.joblib"
    joblib.dump(LinearSVC(class_weight="balanced").fit(frame, y), paths["theirs"])
    return paths


def formats(folder: Path, count: int, repeats: int) -> None:
    """Our command and the usual script in turns, from both formats."""
    found, frame = models(folder), rows_of(count, 2)
    sources = {"Parquet": folder / "rows.parquet", "CSV": folder / "rows.csv"}
    frame.to_parquet(sources["Parquet"])
    frame.to_csv(sources["CSV"], index=False)
    out, lines = folder / "scores.parquet", []
    for name, source in sources.items():
        ours, theirs, curved = [], [], []
        few = folder / f"few{source.suffix}"
        (frame[: count // 20].to_parquet if name == "Parquet" else frame[: count // 20].to_csv)(few, index=False)
        for _ in range(repeats):
            ours.append(measured(OURS, "predict", found["linear"], source, "--out", out, "-q"))
            theirs.append(measured(THEIRS, found["theirs"], source, out))
            curved.append(measured(OURS, "predict", found["automatic"], few, "--out", out, "-q"))
        for what, runs, rows in (
            ("evenmargin predict, LinearSVM", ours, count),
            ("pandas + LinearSVC, all in memory", theirs, count),
            ("evenmargin predict, EvenMarginClassifier", curved, count // 20),
        ):
            seconds, memory = np.median(runs, axis=0)
            lines.append([name, what, f"{rows:,}", f"{seconds:.1f}", f"{rows / seconds:,.0f}", f"{memory:,.0f}"])
    table(
        "Scoring a table of 30 columns, including the start of the process",
        ["from", "what", "rows", "s", "rows/s", "peak MB"],
        lines,
    )


def large(folder: Path, gigabytes: float) -> None:
    """A CSV file of the given size."""
    found, path = models(folder), folder / "large.csv"
    block = rows_of(100_000, 3).to_csv(index=False, header=False).encode()
    copies = int(gigabytes * 1e9 / len(block)) + 1
    with path.open("wb") as file:
        file.write(",".join(COLUMNS).encode() + b"\n")
        for _ in range(copies):
            file.write(block)
    size, rows = os.path.getsize(path) / 1e9, copies * 100_000
    out = folder / "scores.parquet"
    seconds, memory = measured(OURS, "predict", found["linear"], path, "--out", out, "-q")
    assert len(pd.read_parquet(out)) == rows
    path.unlink()
    table(
        "A CSV file larger than the memory used",
        ["GB", "rows", "s", "rows/s", "peak MB"],
        [[f"{size:.2f}", f"{rows:,}", f"{seconds:.1f}", f"{rows / seconds:,.0f}", f"{memory:,.0f}"]],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    print(f"{setting()}; median of {given.repeats}.")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        formats(Path(folder), given.rows, given.repeats)
        large(Path(folder), given.gigabytes)


if __name__ == "__main__":
    main()
