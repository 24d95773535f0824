"""`evenmargin fit`: from a file with a rare class to a model and a report."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .. import persistence
from .._util.files import check_place
from .._util.typing import Array, MatrixLike, VectorLike
from ..auto import EvenMarginClassifier
from ..operating import expected_cost, get_objective
from ._arguments import parse_objective, parse_time
from ._columns import AS_ASKED, Prepared, Schema, fingerprint, prepare
from ._reading import InputError, TextOptions, open_table
from ._voice import Voice

TITLES = {
    "gmean": "G-mean",
    "recall": "recall",
    "specificity": "specificity",
    "precision": "precision",
    "f1": "F1",
    "roc_auc": "ROC-AUC",
    "average_precision": "average precision",
    "cost_per_1000": "cost per 1,000",
    "seconds": "seconds",
}


@dataclass(frozen=True)
class Lesson:
    """What there is to learn from in a file, and the classifier that shall do so; `ids` are names of the rows."""

    file: str
    table: Prepared
    weights: Array | None
    ids: NDArray[Any] | None
    model: EvenMarginClassifier


def learn(
    voice: Voice,
    *,
    data: str,
    target: str,
    positive: str | None,
    objective: str,
    time_budget: str,
    drop: list[str] | None,
    keep: list[str] | None,
    seed: int,
    jobs: int | None,
    weight: str | None = None,
    **text: Unpack[TextOptions],
) -> Lesson:
    """Read a table and find out what can be learned from it."""
    goal, seconds = parse_objective(objective), parse_time(time_budget)
    with voice.progress(f"reading {data}"):
        file = open_table(data, **text)
        frame, weights = take_weights(file.read(), weight, file.name, target)
        table = prepare(frame, target, positive, drop=drop or (), keep=keep or ())
    schema = replace(table.schema, decimal_comma=file.decimal_comma)
    table = replace(table, schema=schema, notes=[*file.notes, *table.notes])
    voice.note(*table.notes)
    weights = None if weights is None else weights[table.rows]
    model = EvenMarginClassifier(
        goal, time_budget=seconds, pos_label=table.positive, random_state=seed, n_jobs=jobs, verbose=int(voice.lively)
    )
    return Lesson(file.name, table, weights, _ids(frame[table.rows], schema), model)


def _ids(frame: pd.DataFrame, schema: Schema) -> NDArray[Any] | None:
    """Find names for the rows: the first column that was left out and is different in each of them."""
    for name, why in schema.left_out.items():
        column = frame[name]
        with suppress(TypeError):  # lists cannot be compared
            if why != AS_ASKED and column.notna().all() and column.is_unique:
                return np.asarray(column)
    return None


def take_weights(
    frame: pd.DataFrame, column: str | None, name: str, target: str | None = None
) -> tuple[pd.DataFrame, Array | None]:
    """Split a frame into all but its column of weights, and the weights."""
    if column is None:
        return frame, None
    if column not in frame.columns:
        raise InputError(f"{name} has no column {column!r} for --weight.")
    if column == target:
        raise InputError(f"--weight {column} is the target: give a column that holds weights.")
    weight = pd.to_numeric(frame[column], errors="coerce").to_numpy(np.float64)
    wrong = np.flatnonzero(~(weight >= 0) | np.isinf(weight))
    if wrong.size:
        value = frame[column].iloc[wrong[0]]
        place = f"Column {column!r} for --weight has {value!r} in row {wrong[0] + 1}"
        raise InputError(f"{place}: weights must be numbers of at least 0.")
    return frame.drop(columns=column), weight


def fit(voice: Voice, *, model: Path | None, report: Path | None, weight: str | None, **task: Any) -> None:
    """Learn, say what to expect, and write the model and the report where that is asked for."""
    places = [place for place in (model, report) if place is not None]
    for place in places:
        check_place(place, task["data"])
    if len({place.resolve() for place in places}) < len(places):
        raise InputError(f"--model and --report both name {model}: give each a file of its own.")
    lesson = learn(voice, weight=weight, **task)
    X, y, machine, target = lesson.table.X, lesson.table.y, lesson.model, lesson.table.schema.target
    machine.fit(X, y, sample_weight=lesson.weights)
    tell_estimates(voice, machine, int(np.count_nonzero(y == lesson.table.positive)))
    if model is not None:
        notes = {
            "table": lesson.table.schema.to_notes(),
            "source": lesson.file,
            "rows": len(X),
            "said": lesson.table.notes,
            "digest": digest(X, y),
            "weight": weight,
        }
        persistence.save(machine, model, notes=notes)
        voice.wrote("model", model)
    if report is not None:
        write_page(
            voice, report, machine, X, y, sample_weight=lesson.weights, training=True, source={"file": lesson.file},
            title=f"{target}: {lesson.table.positive}", target=target, notes=lesson.table.notes, rows=lesson.ids,
        )  # fmt: skip
    if not places:
        voice.note("Nothing was saved: --model out.skops saves the model, --report out.html writes a report.")


def write_page(
    voice: Voice, path: Path, model: Any, X: MatrixLike, y: VectorLike, *, source: dict[str, str], hint: str = "",
    **details: Any,
) -> None:  # fmt: skip
    """Write a report, which says where its rows come from and which command made it."""
    from ..report import write_report

    provenance = {**source, "command": shlex.join(["evenmargin", *sys.argv[1:]])}
    with voice.progress("writing the report"):
        write_report(path, model, X, y, provenance=provenance, **details)
    voice.wrote("report", path, hint=hint)


def digest(X: pd.DataFrame, y: NDArray[Any]) -> str:
    """Compute what the rows that a model was fitted on are recognised by."""
    return fingerprint(X.reset_index(drop=True)) + fingerprint(pd.DataFrame({"y": y}))


def tell_estimates(voice: Voice, machine: EvenMarginClassifier, positives: int) -> None:
    """Print what to expect on new rows, after a fit to so many positive ones."""
    estimates = machine.estimates_
    voice.facts |= {
        "classes": machine.classes_.tolist(),
        "positive": machine.pos_label_,
        "objective": machine.objective_,
        "threshold": machine.threshold_,
        "probability_threshold": machine.probability_threshold_,
        "estimates": {name: dict(row) for name, row in estimates.iterrows()},
        "summary": {title.strip(): text for title, text in machine.summary_.lines},
    }
    rows = [
        (TITLES[name], figure(v), f"{figure(low)} to {figure(high)}") for name, (v, low, high) in estimates.iterrows()
    ]
    tp, fn, fp, tn = machine.operating_curve_.loc[0, ["tp", "fn", "fp", "tn"]]
    if get_objective(machine.objective).costs is not None:
        rates = estimates["value"]
        negatives = positives * (fp + tn) / (tp + fn)  # weights say how frequent the classes are, not how sure that is
        cost = expected_cost(rates["recall"], rates["specificity"], positives, negatives, machine.objective)
        voice.facts["cost_per_1000"] = {name: 1000.0 * own for name, own in cost._asdict().items()}
        value, low, high = (f"{1000.0 * own:,.0f}" for own in cost)
        rows.append(("cost of 1,000 rows", value, f"{low} to {high}"))
    title = (
        f"{' '.join(str(machine.pos_label_).split())}: {(tp + fn) / (tp + fn + fp + tn):.2%} of the rows, flagged "
        f"above a probability of {machine.probability_threshold_:.3g} (for {machine.objective_})"
    )
    voice.table(["expected on new rows", "", "95 % interval"], rows, title=title)


def figure(value: float) -> str:
    """Format a figure with three digits; "unknown" if it is NaN."""
    return "unknown" if np.isnan(value) else f"{value:.3f}"
