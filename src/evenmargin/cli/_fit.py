"""`evenmargin fit`: from a file with a rare class to a model and a report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .. import persistence
from .._util.files import check_place
from .._util.typing import Array
from ..auto import EvenMarginClassifier
from ..operating import expected_cost, get_objective
from ._arguments import parse_objective, parse_time
from ._columns import AS_ASKED, Schema, prepare
from ._reading import InputError, fingerprint, open_table
from ._voice import Voice

__all__ = ["Lesson", "TrainingTable", "digest", "figure", "fit", "learn", "made_by", "take_weights", "tell_estimates"]

TITLES = {
    "gmean": "G-mean",
    "recall": "recall",
    "specificity": "specificity",
    "precision": "precision",
    "f1": "F1",
    "roc_auc": "ROC-AUC",
}


@dataclass(frozen=True)
class TrainingTable:
    """Which table to learn from, and how to read it."""

    data: str
    target: str
    positive: str | None = None
    drop: Sequence[str] | None = None
    keep: Sequence[str] | None = None
    weight: str | None = None
    encoding: str = "utf-8"
    separator: str | None = None


@dataclass(frozen=True)
class Lesson:
    """Rows to learn from."""

    name: str
    X: pd.DataFrame
    y: NDArray[Any]
    weight: Array | None
    schema: Schema
    positive: Any
    notes: list[str]
    ids: NDArray[Any] | None


def learn(voice: Voice, source: TrainingTable) -> Lesson:
    """Read a table and see what can be learned from it."""
    with voice.busy(f"reading {source.data}"):
        file = open_table(source.data, encoding=source.encoding, separator=source.separator)
        frame, weight = take_weights(file.read(), source.weight, file.name, source.target)
        ready = prepare(frame, source.target, source.positive, drop=source.drop or (), keep=source.keep or ())
    notes, schema = [*file.notes, *ready.notes], replace(ready.schema, decimal_comma=file.decimal_comma)
    for note in notes:
        voice.note(note)
    if weight is not None:
        weight = weight[ready.rows]
    ids = _ids(frame[ready.rows], schema)
    return Lesson(file.name, ready.X, ready.y, weight, schema, ready.positive, notes, ids)


def _ids(frame: pd.DataFrame, schema: Schema) -> NDArray[Any] | None:
    """Names for the rows: the first column that was left out and names each of them."""
    for name, why in schema.left_out.items():
        column = frame[name]
        with suppress(TypeError):  # lists cannot be compared
            if why != AS_ASKED and column.notna().all() and column.is_unique:
                return np.asarray(column)
    return None


def take_weights(
    frame: pd.DataFrame, column: str | None, name: str, target: str | None = None
) -> tuple[pd.DataFrame, Array | None]:
    """The frame without its column of weights, and the weights."""
    if column is None:
        return frame, None
    if column not in frame.columns:
        raise InputError(f"{name} has no column {column!r} for --weight.")
    if column == target:
        raise InputError(f"--weight {column}: that is the target; weights need a column of their own.")
    weight = pd.to_numeric(frame[column], errors="coerce").to_numpy(np.float64)
    wrong = np.flatnonzero(~(weight >= 0) | np.isinf(weight))
    if wrong.size:
        value = frame[column].iloc[wrong[0]]
        raise InputError(
            f"Column {column!r} for --weight has {value!r} in row {wrong[0] + 1}: weights are numbers of at least 0."
        )
    return frame.drop(columns=column), weight


def fit(
    voice: Voice, *, objective: str, time_budget: str, model: Path | None, report: Path | None, seed: int,
    jobs: int | None, **table: Any,
) -> None:  # fmt: skip
    """Learn, say what to expect, and keep the model and the report where that is asked for."""
    source = TrainingTable(**table)
    goal, seconds = parse_objective(objective), parse_time(time_budget)
    places = [place for place in (model, report) if place is not None]
    for place in places:
        check_place(place, source.data)
    if len({place.resolve() for place in places}) < len(places):
        raise InputError(f"{model} is given for the model and for the report: give each a file of its own.")
    lesson = learn(voice, source)
    machine = EvenMarginClassifier(
        goal, time_budget=seconds, pos_label=lesson.positive, random_state=seed, n_jobs=jobs, verbose=int(voice.lively)
    )
    machine.fit(lesson.X, lesson.y, sample_weight=lesson.weight)
    tell_estimates(voice, machine, int(np.count_nonzero(lesson.y == lesson.positive)))
    if model is not None:
        notes = {
            "table": lesson.schema.to_notes(), "source": lesson.name, "rows": len(lesson.X), "said": lesson.notes,
            "digest": digest(lesson.X, lesson.y), "weight": source.weight,
        }  # fmt: skip
        persistence.save(machine, model, notes=notes)
        voice.done = True
        voice.facts["model"] = str(model)
        voice.say(f"model:  {model}")
    if report is not None:
        from ..report import write_report

        with voice.busy("writing the report"):
            write_report(
                report, machine, lesson.X, lesson.y, sample_weight=lesson.weight, training=True,
                title=f"{lesson.schema.target}: {lesson.positive}", target=lesson.schema.target, notes=lesson.notes,
                rows=lesson.ids, provenance=made_by(lesson.name),
            )  # fmt: skip
        voice.done = True
        voice.facts["report"] = str(report)
        voice.say(f"report: {report}")
    if model is None and report is None:
        voice.note("Nothing was saved: --model out.skops saves the model, --report out.html writes a report.")


def digest(X: pd.DataFrame, y: NDArray[Any]) -> str:
    """By which rows that a model was fitted on are known again."""
    return fingerprint(X.reset_index(drop=True)) + fingerprint(pd.DataFrame({"y": y}))


def made_by(name: str) -> dict[str, str]:
    """Where a report comes from."""
    return {"file": name, "command": shlex.join(["evenmargin", *sys.argv[1:]])}


def tell_estimates(voice: Voice, machine: EvenMarginClassifier, positives: int) -> None:
    """A short table: what to expect of rows that were not trained on, among which so many were positive."""
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
    rows = []
    for name, title in TITLES.items():
        value, low, high = estimates.loc[name]
        rows.append((title, figure(value), f"{figure(low)} to {figure(high)}"))
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
    """Three digits, or that it cannot be told."""
    return "unknown" if np.isnan(value) else f"{value:.3f}"
