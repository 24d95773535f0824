"""The `evenmargin` command."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix, roc_auc_score
from sklearn.model_selection import train_test_split

from . import EvenMarginClassifier, KernelSVM, LinearSVM, __version__, datasets, papers
from . import reproduce as reproduction

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Support vector machines for imbalanced data.")


def _machines(seed: int) -> dict[str, dict[str, Any]]:
    """The machines of the demonstration, by kind and name."""
    return {
        "plain": {
            "hinge": LinearSVM(C=0.1, random_state=seed),
            "log loss": LinearSVM(C=0.1, loss="log", random_state=seed),
            "LSGD": papers.lsgd(T=100_000, random_state=seed),
            "RBF kernel": KernelSVM(C=0.3),
            "KSGD": papers.ksgd(lam=1e-4, random_state=seed),
        },
        "even margin": {
            "hinge": LinearSVM(C=0.1, class_weight="balanced", random_state=seed),
            "log loss": LinearSVM(C=0.1, loss="log", class_weight="balanced", random_state=seed),
            "WLSGD": papers.wlsgd(T=100_000, random_state=seed),
            "Pegasos": papers.cost_sensitive_pegasos(lam=0.01, b=-1.0, T=20_000, random_state=seed),
            "Blinex": papers.blinex_linear(a=2.0, b=0.1, c=10.0, random_state=seed).set_params(class_weight="balanced"),
            "RBF kernel": KernelSVM(C=0.3, class_weight="balanced"),
            "WKSGD": papers.wksgd(lam=1e-6, random_state=seed),
            "z-SVM": papers.zsvm(C=0.3, gamma="scale", cv=5),
        },
        "no tuning": {"automatic": EvenMarginClassifier(random_state=seed)},
    }


def _figures(machine: Any, data: list[np.ndarray[Any, Any]]) -> tuple[float, float, float, float, float]:
    """G-mean, sensitivity, specificity and ROC-AUC on the test rows, and the seconds of the fit."""
    X_train, X_test, y_train, y_test = data
    started = time.perf_counter()
    machine.fit(X_train, y_train)
    seconds = time.perf_counter() - started
    (tn, fp), (fn, tp) = confusion_matrix(y_test, machine.predict(X_test))
    sensitivity, specificity = tp / (tp + fn), tn / (tn + fp)
    auc = roc_auc_score(y_test, machine.decision_function(X_test))
    return float(np.sqrt(sensitivity * specificity)), sensitivity, specificity, float(auc), seconds


@app.command()
def demo(seed: Annotated[int, typer.Option(help="Seed of the split and of the stochastic machines.")] = 0) -> None:
    """Compare plain and even-margin machines on bundled data: digit 8 against the rest, 9 to 1."""
    console = Console()
    X, y = load_digits(return_X_y=True)
    data = train_test_split(X / 16.0, y == 8, test_size=0.5, stratify=y == 8, random_state=seed)
    table = Table(
        box=box.SIMPLE_HEAD, title=f"digit 8 against the rest: {len(data[0])} rows to learn, {len(data[1])} to test"
    )
    table.add_column("machine")
    for column in ("G-mean", "sensitivity", "specificity", "ROC-AUC", "seconds"):
        table.add_column(column, justify="right")
    for kind, machines in _machines(seed).items():
        table.add_row(f"[bold]{kind}[/bold]")
        for name, machine in track(machines.items(), "fitting", console=console, transient=True):
            machine.fit(data[0], data[2])  # load the compiled loops before the clock runs
            table.add_row(f"  {name}", *(f"{figure:.3f}" for figure in _figures(machine, data)))
    console.print(table)
    console.print(
        "sensitivity: 8s found; specificity: others left alone; G-mean: the root of their product; automatic: "
        "EvenMarginClassifier().",
        soft_wrap=True,
    )


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="TABLE", help="Which to run; none: list them.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All tables.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller versions: all tables in a few minutes.")] = False,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Repetitions; by default as many as each table has.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("reproduction"),
    data: Annotated[Path | None, typer.Option(help="Folder of the data; by default EVENMARGIN_DATA.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="All random choices follow from it.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget the cells of an earlier run.")] = False,
) -> None:
    """Run the papers' tables again and set our figures beside theirs.

    A run that is stopped goes on where it was with the same command.
    """
    console, errors = Console(), Console(stderr=True)
    if not names and not every:
        _list_tables(console, data)
        return
    if names and every:
        _say(errors, "--all runs every table: leave out the names, or leave out --all.")
        raise typer.Exit(2)
    status = 0
    try:
        settings = reproduction.Settings(quick, trials, seed, data)
        wanted = list(reproduction.tables()) if every else names or []
        for table in [reproduction.get_table(name) for name in wanted]:
            try:
                outcome = reproduction.run_table(table, settings, out, fresh=fresh, verbose=console.is_terminal)
            except (ValueError, ImportError, OSError, reproduction.Busy) as error:
                _say(errors, f"{table.name} was not finished. {error}" if len(wanted) > 1 else str(error))
                status = 2
            except reproduction.JobFailed as failed:
                _say(errors, str(failed))
                status = 1
            else:
                _show(console, table, outcome)
    except ValueError as error:
        _say(errors, str(error))
        status = 2
    except reproduction.Stopped as stopped:
        _say(errors, str(stopped))
        status = 130
    raise typer.Exit(status)


def _say(console: Console, sentence: str) -> None:
    """One sentence, in whatever letters the terminal has."""
    console.print(_shown(console, sentence), style="red", markup=False, highlight=False, soft_wrap=True)


def _shown(console: Console, text: str) -> str:
    """Text with marks in the place of letters that the terminal has not."""
    encoding = console.encoding
    return text.encode(encoding, errors="replace").decode(encoding)


def _list_tables(console: Console, folder: Path | None) -> None:
    """The tables, and whether their data are here."""
    try:
        found = datasets.list(folder=folder).set_index("name")["found"]
    except (ValueError, OSError) as error:
        _say(Console(stderr=True), str(error))
        raise typer.Exit(2) from None
    listing = Table(box=box.SIMPLE_HEAD)
    for column in ("table", "what it shows", "data", "needs"):
        listing.add_column(column, no_wrap=column == "table")
    paper = None
    for table in reproduction.tables().values():
        if table.paper != paper:
            paper = table.paper
            listing.add_row("", f"[bold]{_shown(console, reproduction.PAPERS[paper])}[/bold]")
        missing = [name for name in table.data if found[name] == "missing"]
        away = [name for name in table.data if found[name] == "OpenML"]
        state = f"missing: {', '.join(missing)}" if missing else f"to download: {', '.join(away)}" if away else "here"
        listing.add_row(table.name, _shown(console, table.title), state, ", ".join(table.needs))
    console.print(listing)
    console.print(
        "Run one with: evenmargin reproduce TABLE [--quick]. The data are looked for in --data or EVENMARGIN_DATA, in "
        "the cache, and on OpenML.",
        soft_wrap=True,
    )


def _show(console: Console, table: reproduction.Table, outcome: reproduction.Outcome) -> None:
    """The findings, and where the figures are."""
    lines = [f"{table.name}: {table.title}", *(f"  - {finding}" for finding in outcome.report.findings)]
    if outcome.unreadable:
        lines.append(f"{outcome.unreadable} half-written line(s) of an earlier run were dropped.")
    if table.draw is not None and not any(path.suffix == ".svg" for path in outcome.files):
        lines.append('Its figure was not drawn: pip install "evenmargin[plot]", and run the command again.')
    before = f", {outcome.kept} of them from an earlier run" if outcome.kept else ""
    files = ", ".join(map(str, outcome.files))
    lines.append(f"{outcome.kept + outcome.measured} cells{before}; written: {files}\n")
    for line in lines:
        console.print(_shown(console, line), markup=False, highlight=False, soft_wrap=True)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"evenmargin {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Support vector machines for imbalanced data."""


def main() -> None:
    """Run the command; Ctrl-C ends it without a traceback."""
    app()
