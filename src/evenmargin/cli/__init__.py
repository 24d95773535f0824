"""The `evenmargin` command: its words. What each of them does is in the module of its name.

Those are imported when a command runs, so that `--help` does not wait for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from ._group import Group
from ._voice import speaking

__all__ = ["app"]

app = typer.Typer(
    cls=Group,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Support vector machines for imbalanced data.",
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for machines.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No notes, no tables; only errors, and scores without --out.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="CSV, TSV, Parquet, Arrow or libsvm file, perhaps compressed; - is standard input."
    ),
]
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="File of a model that `fit` or `evenmargin.save` has written.")
]
Target = Annotated[str, typer.Option(help="Column with the answer.")]
Positive = Annotated[str | None, typer.Option(help="Value of it to find; by default the rarer one.")]
Objective = Annotated[
    str, typer.Option(help="gmean, f1, mcc, balanced-accuracy, cost:fn=100,fp=1, recall>=0.95 or precision>=0.9.")
]
Time = Annotated[str, typer.Option(help="For a fit: 90s, 2m, 1h30m, fast or thorough.")]
Drop = Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")]
Keep = Annotated[
    list[str] | None, typer.Option(help="Column to learn from though it looks like an id; may be repeated.")
]
Encoding = Annotated[str, typer.Option(help="Of a text file.")]
Separator = Annotated[str | None, typer.Option(help="Of a text file; by default what its first line shows.")]
Seed = Annotated[int, typer.Option(min=0, max=2**31, help="All random choices follow from it.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Threads; by default all cores. The answer does not depend on it.")
]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("evenmargin-demo.html"),
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compare plain and even-margin machines on bundled data, and write a report."""
    with speaking(as_json=json, quiet=quiet, debug=debug) as voice:
        from ._demo import demo as run

        run(voice, out=out, seed=seed)


@app.command()
def fit(
    data: Data,
    target: Target,
    positive: Positive = None,
    objective: Objective = "gmean",
    time_budget: Time = "5m",
    model: Annotated[Path | None, typer.Option(help="Where the model goes, such as out.skops.")] = None,
    report: Annotated[Path | None, typer.Option(help="Where the report goes, such as out.html.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of sample weights.")] = None,
    drop: Drop = None,
    keep: Keep = None,
    encoding: Encoding = "utf-8",
    separator: Separator = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Learn to find a rare value of a column, and say how well that will go."""
    with speaking(as_json=json, quiet=quiet, debug=debug) as voice:
        from ._fit import Source
        from ._fit import fit as run

        source = Source(data, target, positive, drop or [], keep or [], weight, encoding, separator)
        run(
            voice, source, objective=objective, time_budget=time_budget, model=model, report=report, seed=seed,
            jobs=jobs,
        )  # fmt: skip


@app.command()
def predict(
    model: Model,
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(help="Where the scores go: .csv, .tsv, .parquet or .arrow; by default they are printed."),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Call a row positive above this probability, not where the model would.")
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="Column to copy to the scores, such as an id; may be repeated.")
    ] = None,
    encoding: Encoding = "utf-8",
    separator: Separator = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Score a table of any size, in pieces."""
    with speaking(as_json=json, quiet=quiet, debug=debug) as voice:
        from ._predict import predict as run

        run(
            voice, model, data, out=out, threshold=threshold, keep=keep or [], encoding=encoding, separator=separator
        )  # fmt: skip


@app.command()
def report(
    model: Model,
    data: Data,
    target: Annotated[str | None, typer.Option(help="Column with the answer, if it is not that of the fit.")] = None,
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("report.html"),
    prices: Annotated[str | None, typer.Option(help="Of mistakes: fn=100,fp=1.")] = None,
    names: Annotated[str | None, typer.Option(help="Column that names the rows.")] = None,
    encoding: Encoding = "utf-8",
    separator: Separator = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a page on what a model does with a table whose answers are known."""
    with speaking(as_json=json, quiet=quiet, debug=debug) as voice:
        from ._report import report as run

        run(
            voice, model, data, target=target, out=out, prices=prices, names=names, encoding=encoding,
            separator=separator,
        )  # fmt: skip


@app.command()
def compare(
    data: Data,
    target: Target,
    positive: Positive = None,
    objective: Objective = "gmean",
    time_budget: Time = "5m",
    folds: Annotated[int, typer.Option(min=2, max=100, help="Of the cross-validation.")] = 5,
    tune: Annotated[bool, typer.Option("--tune", help="Choose the others' thresholds for the objective, too.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="A method to compare with; may be repeated.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where the figures go: .csv, .tsv or .parquet.")] = None,
    drop: Drop = None,
    keep: Keep = None,
    encoding: Encoding = "utf-8",
    separator: Separator = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Try the classifiers that are installed here on the same folds of a table."""
    with speaking(as_json=json, quiet=quiet, debug=debug) as voice:
        from ._compare import compare as run
        from ._fit import Source

        source = Source(data, target, positive, drop or [], keep or [], None, encoding, separator)
        run(
            voice, source, objective=objective, time_budget=time_budget, folds=folds, tune=tune, only=only or [],
            out=out, seed=seed, jobs=jobs,
        )  # fmt: skip


@app.command()
def info(model: Model, json: Json = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """Say what a model file holds."""
    with speaking(as_json=json, quiet=quiet, debug=debug) as voice:
        from ._info import info as run

        run(voice, model)


@app.command()
def export(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where it goes, such as out.onnx.")],
    check: Annotated[str | None, typer.Option(help="Table on whose rows the two are compared.")] = None,
    encoding: Encoding = "utf-8",
    separator: Separator = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a model as ONNX, for other languages and servers."""
    with speaking(as_json=json, quiet=quiet, debug=debug) as voice:
        from ._info import export as run

        run(voice, model, out, check, encoding=encoding, separator=separator)


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
    seed: Seed = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget the cells of an earlier run.")] = False,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run the papers' tables again and set our figures beside theirs.

    A run that is stopped goes on where it was with the same command.
    """
    with speaking(as_json=json, quiet=quiet, debug=debug) as voice:
        from ._reproduce import list_tables, run_tables

        if names or every:
            run_tables(
                voice, names or [], every=every, quick=quick, trials=trials, out=out, data=data, seed=seed, fresh=fresh
            )  # fmt: skip
        else:
            list_tables(voice, data)


@app.command()
def warmup(json: Json = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """Compile the inner loops now, so that the first fit does not wait for it."""
    with speaking(as_json=json, quiet=quiet, debug=debug) as voice:
        from ._warmup import warmup as run

        run(voice)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"evenmargin {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Support vector machines for imbalanced data."""
