"""The `evenmargin` command: its commands and their options. What each of them does is in a module of its own.

Those modules are imported when a command runs, so that `--help` does not wait for them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from .. import __version__
from ._voice import Commands, speaking

__all__ = ["app"]

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Data = Annotated[
    str,
    Argument(
        metavar="DATA",
        help="A CSV, TSV, Parquet, Arrow or libsvm file, which may be compressed; - reads standard input.",
    ),
]
Model = Annotated[
    Path, Argument(metavar="MODEL", help="A model file, written by `evenmargin fit` or `evenmargin.save`.")
]
Seed = Annotated[int, Option(min=0, max=2**31, help="Seed of all random choices.")]


# Options of several commands: of those that learn from a table, of those that read one, and of all.


def _learning(
    data: Data,
    target: Annotated[str, Option(help="The column with the classes.")],
    positive: Annotated[str | None, Option(help="The class to find; by default the rarer of two.")] = None,
    objective: Annotated[
        str,
        Option(
            help="What to optimise: gmean, f1, mcc, balanced-accuracy, cost:fn=100,fp=1, recall>=0.95 or "
            "precision>=0.9."
        ),
    ] = "gmean",
    time_budget: Annotated[str, Option(help="Time limit of one fit: 90s, 2m, 1h30m, fast or thorough.")] = "5m",
    drop: Annotated[list[str] | None, Option(help="A column to leave out. May be repeated.")] = None,
    keep: Annotated[
        list[str] | None, Option(help="A column to learn from although it looks like an id. May be repeated.")
    ] = None,
    seed: Seed = 0,
    jobs: Annotated[
        int | None, Option(min=1, help="Number of threads; by default all cores. It does not change the result.")
    ] = None,
) -> None: ...


def _reading(
    encoding: Annotated[str, Option(help="Encoding of a text file.")] = "utf-8",
    separator: Annotated[
        str | None, Option(help="Separator of a text file; by default found from its first lines.")
    ] = None,
) -> None: ...


def _speaking(
    json: Annotated[bool, Option("--json", help="Print the result as one JSON document.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print only errors, and scores if there is no --out.")] = False,
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
) -> None: ...


def _command(module: str, *, learns: bool = False, reads: bool = False) -> Callable[[Callable[..., None]], None]:
    """Add a command with the options of the decorated function and those that it shares with others.

    It calls the function of its name in `module` with a voice and the values of the options.
    """

    def add(declared: Callable[..., None]) -> None:
        @wraps(declared)
        def command(*, json: bool, quiet: bool, debug: bool, **options: Any) -> None:
            with speaking(as_json=json, quiet=quiet, debug=debug) as voice:
                getattr(import_module(module, __package__), declared.__name__)(voice, **options)

        parts: list[Callable[..., None]] = [*[_learning] * learns, declared, *[_reading] * reads, _speaking]
        parameters = [each for part in parts for each in inspect.signature(part, eval_str=True).parameters.values()]
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read by typer
            [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        )
        app.command()(command)

    return add


@_command("._demo")
def demo(
    out: Annotated[Path, Option(help="File for the report.")] = Path("evenmargin-demo.html"), seed: Seed = 0
) -> None:
    """Compare classifiers with and without an even margin on bundled data, and write a report."""


@_command("._fit", learns=True, reads=True)
def fit(
    model: Annotated[Path | None, Option(help="File for the model, such as out.skops.")] = None,
    report: Annotated[Path | None, Option(help="File for the report, such as out.html.")] = None,
    weight: Annotated[str | None, Option(help="The column of sample weights.")] = None,
) -> None:
    """Learn to find a rare class, and estimate how well new rows will be classified."""


@_command("._predict", reads=True)
def predict(
    path: Model,
    data: Data,
    out: Annotated[
        Path | None, Option(help="File for the scores: .csv, .tsv, .parquet or .arrow; by default they are printed.")
    ] = None,
    threshold: Annotated[
        float | None, Option(help="Flag rows above this probability, instead of using the threshold chosen by the fit.")
    ] = None,
    keep: Annotated[
        list[str] | None, Option(help="A column to copy to the scores, such as an id. May be repeated.")
    ] = None,
) -> None:
    """Classify and score the rows of a table of any size."""


@_command("._report", reads=True)
def report(
    path: Model,
    data: Data,
    target: Annotated[str | None, Option(help="The column with the classes, if not the one used in the fit.")] = None,
    out: Annotated[Path, Option(help="File for the report.")] = Path("report.html"),
    prices: Annotated[str | None, Option(help="Costs of mistakes, such as fn=100,fp=1.")] = None,
    names: Annotated[str | None, Option(help="The column that names the rows.")] = None,
) -> None:
    """Write a report on how well a model does on a table whose classes are known."""


@_command("._compare", learns=True, reads=True)
def compare(
    folds: Annotated[int, Option(min=2, max=100, help="Number of folds of the cross-validation.")] = 5,
    tune: Annotated[
        bool, Option("--tune", help="Choose the thresholds of the other classifiers for the objective, too.")
    ] = False,
    only: Annotated[list[str] | None, Option(help="A classifier to compare with. May be repeated.")] = None,
    out: Annotated[Path | None, Option(help="File for the results: .csv, .tsv or .parquet.")] = None,
) -> None:
    """Cross-validate this and other installed classifiers on the same folds of a table."""


@_command("._info")
def info(path: Model) -> None:
    """Show what a model file contains."""


@_command("._info", reads=True)
def export(
    path: Model,
    out: Annotated[Path, Argument(metavar="OUT", help="File for the exported model, such as out.onnx.")],
    check: Annotated[
        str | None, Option(help="A table on which to compare the exported model with the original.")
    ] = None,
) -> None:
    """Export a model to ONNX, for other languages and servers."""


@_command("._reproduce")
def reproduce(
    names: Annotated[
        list[str] | None, Argument(metavar="TABLE", help="Tables to run; if none is given, they are listed.")
    ] = None,
    every: Annotated[bool, Option("--all", help="Run all tables.")] = False,
    quick: Annotated[bool, Option("--quick", help="Run smaller versions, all in a few minutes.")] = False,
    trials: Annotated[int | None, Option(min=1, help="Number of repetitions; by default that of each table.")] = None,
    out: Annotated[Path, Option(help="Folder for the results.")] = Path("reproduction"),
    data: Annotated[Path | None, Option(help="Folder with the data; by default EVENMARGIN_DATA.")] = None,
    seed: Seed = 0,
    fresh: Annotated[bool, Option("--fresh", help="Discard the results of an earlier run.")] = False,
) -> None:
    """Run the experiments of the papers again, and compare our figures with theirs.

    If a run is stopped, the same command continues it.
    """


@_command("._warmup")
def warmup() -> None:
    """Compile the inner loops now, so that the first fit does not have to wait."""


def _version(show: bool) -> None:
    if show:
        typer.echo(f"evenmargin {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Support vector machines for imbalanced data."""
