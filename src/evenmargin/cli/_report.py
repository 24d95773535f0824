"""`evenmargin report`: a page on how a model does on a table whose classes are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np

from .._tables.kinds import word_of
from .._util.files import check_place
from ..auto import EvenMarginClassifier
from ..operating.responses import positive_label
from ._arguments import parse_prices
from ._columns import Schema, labels
from ._fit import digest, take_weights, write_page
from ._models import Loaded, open_model
from ._reading import InputError, TextOptions, open_table
from ._target import unlabelled_notes
from ._voice import Voice


def report(
    voice: Voice,
    path: Path,
    data: str,
    *,
    target: str | None,
    out: Path,
    prices: str | None,
    names: str | None,
    **text: Unpack[TextOptions],
) -> None:
    """Write the page; rows of the fit, known by their content, have scores by machines that had not seen them."""
    check_place(out, data, path)
    costs = None if prices is None else parse_prices(prices)
    loaded = open_model(path)
    schema = _schema(loaded, target)
    target = schema.target
    notes = loaded.manifest.notes
    with voice.progress(f"reading {data}"):
        file = open_table(data, **text)
        rows_of = loaded.rows_of(file)
        beside = [target, *loaded.weights, *([] if names is None else [names])]
        asked = None if loaded.schema is None else [*loaded.columns(file.columns), *beside]
        frame = file.read(columns=asked, words=loaded.words)
    weights = [name for name in loaded.weights if name in frame.columns]
    if weights != loaded.weights:
        missing = f"{file.name} has no column {loaded.weights[0]!r}, which held the weights of the fit"
        voice.note(f"{missing}: all rows get the same weight.")
    frame, weight = take_weights(frame, weights[0] if weights else None, file.name)
    if names is not None and names not in frame.columns:
        raise InputError(f"{file.name} has no column {names!r} to name the rows.")
    y, known = labels(frame, schema)
    voice.note(*unlabelled_notes(known, target))
    frame, y = frame[known], y[known]
    X = rows_of(frame[[name for name in loaded.columns(file.columns, [target]) if name in frame]])
    rows_of.finish()
    voice.note(*file.notes, *rows_of.notes(beside))
    seen = isinstance(loaded.model, EvenMarginClassifier) and notes.get("digest") == digest(X, y)
    voice.facts |= {"rows": int(known.sum()), "trained_on_these_rows": seen}
    write_page(
        voice, out, loaded.model, X, y, sample_weight=None if weight is None else weight[known], training=seen,
        pos_label=None if loaded.schema is None else positive_label(loaded.model), target=target, prices=costs,
        notes=notes.get("said", []) if seen else voice.notes, rows=None if names is None else frame[names].to_numpy(),
        source={"model": path.name, "file": file.name},
    )  # fmt: skip


def _schema(loaded: Loaded, target: str | None) -> Schema:
    """The schema of the fit or, of a model that was saved from Python, one that has its classes."""
    if loaded.schema is not None:
        return loaded.schema if target is None else replace(loaded.schema, target=target)
    if target is None:
        raise InputError("The model file does not say which column has the classes: give --target.")
    classes = np.asarray(loaded.model.classes_)
    kind = {"b": "bool", "i": "number", "u": "number", "f": "number"}.get(classes.dtype.kind, "text")
    first, *others = map(word_of, classes.tolist())
    return Schema(target, first, tuple(others), kind, False, {})
