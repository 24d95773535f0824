"""`evenmargin reproduce`: the papers' tables, run again."""

from __future__ import annotations

from pathlib import Path

import typer
from rich import box
from rich.table import Table

from .. import datasets
from .. import reproduce as reproduction
from ._voice import FAILED, STOPPED, WRONG, Voice, shown


def reproduce(
    voice: Voice, names: list[str] | None, *, every: bool, quick: bool, trials: int | None, out: Path,
    data: Path | None, seed: int, fresh: bool,
) -> None:  # fmt: skip
    """Run the tables that are named, or all, or list them; one that fails does not keep the others from being run."""
    if not (names or every):
        return _list_tables(voice, data)
    if names and every:
        raise ValueError("--all runs every table: leave out the names, or leave out --all.")
    settings = reproduction.Settings(quick, trials, seed, data)
    wanted = names or list(reproduction.tables())
    status, finished = 0, {}
    try:
        for table in [reproduction.get_table(name) for name in wanted]:
            try:
                outcome = reproduction.run_table(
                    table, settings, out, fresh=fresh, verbose=voice.out.is_terminal and voice.lively
                )
            except (ValueError, ImportError, OSError, reproduction.Busy) as error:
                voice.error(f"{table.name} was not finished. {error}" if len(wanted) > 1 else str(error))
                status = WRONG
            except reproduction.JobFailed as failed:
                voice.error(str(failed))
                status = FAILED
            else:
                _show(voice, table, outcome)
                finished[table.name] = {"findings": outcome.report.findings, "files": outcome.files}
    except reproduction.Stopped as stopped:
        raise voice.fail(str(stopped), STOPPED) from None
    voice.facts["tables"] = finished
    if status:
        voice.close()
        raise typer.Exit(status)


def _list_tables(voice: Voice, folder: Path | None) -> None:
    """The tables, and whether their data are here."""
    found = datasets.list(folder=folder).set_index("name")["found"]
    listing = Table(box=box.SIMPLE_HEAD)
    for column in ("table", "what it shows", "data", "needs"):
        listing.add_column(column, no_wrap=column == "table")
    paper, known = None, []
    for table in reproduction.tables().values():
        if table.paper != paper:
            paper = table.paper
            listing.add_row("", f"[bold]{shown(voice.out, reproduction.PAPERS[paper])}[/bold]")
        missing = [name for name in table.data if found[name] == "missing"]
        away = [name for name in table.data if found[name] == "OpenML"]
        state = f"missing: {', '.join(missing)}" if missing else f"to download: {', '.join(away)}" if away else "here"
        listing.add_row(table.name, shown(voice.out, table.title), state, ", ".join(table.needs))
        known.append({"table": table.name, "paper": table.paper, "title": table.title, "data": state})
    voice.facts["tables"] = known
    voice.out.print(listing)
    voice.say(
        "Run one with: evenmargin reproduce TABLE [--quick]. The data are looked for in --data or EVENMARGIN_DATA, in "
        "the cache, and on OpenML."
    )


def _show(voice: Voice, table: reproduction.Table, outcome: reproduction.RunSummary) -> None:
    """The findings, and where the figures are."""
    lines = [f"{table.name}: {table.title}", *(f"  - {finding}" for finding in outcome.report.findings)]
    if outcome.unreadable:
        lines.append(f"{outcome.unreadable} half-written line(s) of an earlier run were dropped.")
    if table.draw is not None and not any(path.suffix == ".svg" for path in outcome.files):
        lines.append('Its figure was not drawn: pip install "evenmargin[plot]", and run the command again.')
    before = f", {outcome.kept} of them from an earlier run" if outcome.kept else ""
    files = ", ".join(map(str, outcome.files))
    lines.append(f"{outcome.kept + outcome.measured} cells{before}; written: {files}\n")
    voice.say("\n".join(lines))
