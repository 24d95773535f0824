"""Reports as Markdown, CSV and pictures."""

from __future__ import annotations

import csv
import io
import os
import platform
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import sklearn

from .. import __version__
from .._util.files import replace_file
from ._base import PAPERS, Line, Report, ReportSheet, Results, Settings, Table
from ._findings import number, seconds

__all__ = ["csv_text", "markdown", "sheet_markdown", "write_report"]


def write_report(table: Table, settings: Settings, results: Results, report: Report, stem: Path) -> list[Path]:
    """Write STEM.md, STEM.csv and, where there is a figure and matplotlib, STEM.svg."""
    texts = {".md": markdown(table, settings, results, report), ".csv": csv_text(report)}
    files = [replace_file(Path(f"{stem}{ending}"), text.encode()) for ending, text in texts.items()]
    if table.draw is not None and find_spec("matplotlib") is not None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 6), layout="constrained")
        table.draw(settings, results, figure)
        picture = io.BytesIO()
        figure.savefig(picture, format="svg")
        files.append(replace_file(Path(f"{stem}.svg"), picture.getvalue()))
    return files


def markdown(table: Table, settings: Settings, results: Results, report: Report) -> str:
    """The report as a page."""
    taken = _duration(seconds(results.values()))
    size = "a quick version, smaller than the paper's; " if settings.quick else ""
    parts = [
        f"# {table.name}: {table.title}",
        f"After {PAPERS[table.paper]}.",
        f"Written {date.today()}; {size}seed {settings.seed}; {taken} on {os.cpu_count()} cores "
        f"({platform.machine()}); Python {platform.python_version()}, NumPy {np.__version__}, "
        f"scikit-learn {sklearn.__version__}, evenmargin {__version__}.",
        *(sheet_markdown(sheet) for sheet in report.sheets),
    ]
    if report.findings:
        parts.append("## Findings\n\n" + "\n".join(f"- {finding}" for finding in report.findings))
    return "\n\n".join(parts) + "\n"


def _duration(taken: float) -> str:
    if taken < 120:
        return f"{taken:.0f} s"
    return f"{taken / 60:.0f} min" if taken < 7200 else f"{taken / 3600:.1f} h"


def sheet_markdown(sheet: ReportSheet) -> str:
    """One sheet: its labels, then paper | ours | difference | time, and a note where there are any."""
    spread = f" (± {sheet.spread})" if any(line.spread is not None for line in sheet.lines) else ""
    notes = [line.note for line in sheet.lines] if any(line.note for line in sheet.lines) else None
    time = f"time (s, {sheet.time})" if sheet.time else "time (s)"
    rows = [
        [*sheet.columns, "paper", f"ours{spread}", "difference", time],
        ["---"] * len(sheet.columns) + ["---:"] * 4,
        *(_cells(line, sheet.digits) for line in sheet.lines),
    ]
    if notes:
        rows = [[*row, note] for row, note in zip(rows, ["note", "---", *notes], strict=True)]
    return f"## {sheet.title}\n\n" + "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows
    )


def _cells(line: Line, digits: int) -> list[str]:
    ours = number(line.ours, digits)
    if line.spread is not None and line.ours is not None:
        ours += f" ± {number(line.spread, digits)}"
    time = "" if line.seconds is None else f"{line.seconds:.3g}" if line.seconds < 100 else f"{line.seconds:.0f}"
    return [*line.labels, number(line.paper, digits), ours, number(line.difference, digits, "+"), time]


def csv_text(report: Report) -> str:
    """All sheets, one line for each figure."""
    labels = list(dict.fromkeys(column for sheet in report.sheets for column in sheet.columns))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["sheet", *labels, "paper", "ours", "spread", "difference", "seconds", "note"])
    for sheet in report.sheets:
        for line in sheet.lines:
            named = dict(zip(sheet.columns, line.labels, strict=True))
            figures = (line.paper, line.ours, line.spread, line.difference, line.seconds)
            plain = ["" if figure is None else repr(float(figure)) for figure in figures]
            writer.writerow([sheet.title, *(named.get(label, "") for label in labels), *plain, line.note])
    return buffer.getvalue()
