"""Shared by the benchmarks: the papers' data, alternating timing, memory, tables, and the command line."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import tracemalloc
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import sklearn

import evenmargin


def arrays_of(folder: Path, name: str) -> tuple:
    """Features and labels of one of the papers' data sets, as stored."""
    path = folder / f"{name}.npz"
    if not path.exists():
        sys.exit(f"{path} is missing: name the folder of the papers' data by --data or EVENMARGIN_DATA.")
    with np.load(path) as arrays:
        return arrays["X"], arrays["y"].astype(np.int64)


def timed(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def alternate(functions: list, repeats: int) -> list[float]:
    """Median seconds of several functions, called in turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, taken in zip(functions, times, strict=True):
            taken.append(timed(function))
    return [float(np.median(taken)) for taken in times]


def allocated(function: Callable[[], object]) -> int:
    """Peak bytes allocated by Python during a call."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def table(title: str, header: list[str], rows: list[list]) -> None:
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)


def papers_folder() -> Path:
    """Where the papers' data are, unless --data says otherwise."""
    return Path(os.environ.get("EVENMARGIN_DATA", Path(__file__).parents[2] / "shared" / "data"))


def setting() -> str:
    """Date, machine and versions."""
    return (
        f"{date.today()}, {os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, "
        f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}, evenmargin {evenmargin.__version__}"
    )


def command_line(description: str | None) -> argparse.ArgumentParser:
    """A parser with the folder of the papers' data, to which a benchmark adds its own options."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=papers_folder())
    return parser


def main(description: str | None, parts: dict[str, Callable[[Path, int], None]], repeats: int = 5) -> None:
    """Run all parts, or the one given by --only."""
    parser = command_line(description)
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--only", choices=list(parts))
    given = parser.parse_args()
    print(f"{setting()}; median of {given.repeats}.")
    for name, part in parts.items():
        if given.only in (None, name):
            part(given.data, given.repeats)
