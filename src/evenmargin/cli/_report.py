"""`evenmargin report`: a page on how a model does on a table whose classes are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._util.files import check_place
from .._util.sentences import quoted
from .._util.typing import Mask
from ..auto import EvenMarginClassifier
from ..report import write_report
from ._arguments import parse_prices
from ._columns import labels
from ._fit import digest, made_by, take_weights
from ._models import Loaded, open_model
from ._reading import InputError, TextOptions, open_table
from ._target import row_count
from ._voice import Voice

__all__ = ["report"]


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
    """Write the page.

    Rows that the model was fitted on are recognised by their content: what is shown of them
    are the scores by machines that have not seen them.
    """
    check_place(out, data, path)
    costs = None if prices is None else parse_prices(prices)
    loaded = open_model(path)
    if target is not None and loaded.schema is not None:
        loaded = replace(loaded, schema=replace(loaded.schema, target=target))
    target = _target(loaded, target)
    notes = loaded.manifest.notes
    with voice.busy(f"reading {data}"):
        file = open_table(data, **text)
        rows_of = loaded.rows_of(file)
        asked = [*loaded.columns(file.columns), target, *loaded.weights, *([] if names is None else [names])]
        frame = file.read(columns=None if loaded.schema is None else asked, words=loaded.words)
    weights = [name for name in loaded.weights if name in frame.columns]
    if weights != loaded.weights:
        said = f"has no column {loaded.weights[0]!r}, which held the weights of the fit: all rows get the same weight."
        voice.note(f"{file.name} {said}")
    frame, weight = take_weights(frame, weights[0] if weights else None, file.name)
    if names is not None and names not in frame.columns:
        raise InputError(f"{file.name} has no column {names!r} to name the rows.")
    y, known = _answers(frame, loaded, target)
    if not known.all():
        voice.note(f"Left out: {row_count(int(np.count_nonzero(~known)))} without a value of {target!r}.")
    frame, y = frame[known], y[known]
    X = rows_of(frame[[name for name in loaded.columns(file.columns, [target]) if name in frame]])
    rows_of.finish()
    for note in file.notes + rows_of.notes([target, *loaded.weights, *([] if names is None else [names])]):
        voice.note(note)
    seen = isinstance(loaded.model, EvenMarginClassifier) and notes.get("digest") == digest(X, y)
    with voice.busy("writing the report"):
        write_report(
            out, loaded.model, X, y, sample_weight=None if weight is None else weight[known], training=seen,
            pos_label=None if loaded.schema is None else loaded.positive, target=target, prices=costs,
            notes=notes.get("said", []) if seen else voice.notes,
            rows=None if names is None else frame[names].to_numpy(),
            provenance={"model": path.name, **made_by(file.name)},
        )  # fmt: skip
    voice.facts |= {"rows": int(known.sum()), "trained_on_these_rows": seen}
    voice.wrote("report", out)


def _target(loaded: Loaded, target: str | None) -> str:
    named = target if loaded.schema is None else loaded.schema.target
    if named is None:
        raise InputError("The model file does not say which column has the classes: give --target.")
    return named


def _answers(frame: pd.DataFrame, loaded: Loaded, name: str) -> tuple[NDArray[Any], Mask]:
    """Find the label of each row as the model has it, and say which rows have one."""
    if loaded.schema is not None:
        return labels(frame, loaded.schema)
    if name not in frame.columns:
        raise InputError(f"The table has no column {name!r}; it has {quoted(frame.columns)}.")
    known = frame[name].notna().to_numpy()
    words = {_word(label): label for label in loaded.model.classes_.tolist()}
    answers = frame[name].map(_word)
    strange = sorted(set(answers[known]) - set(words))
    if strange:
        raise InputError(f"Column {name!r} has {quoted(strange)}, and the model knows {quoted(sorted(words))}.")
    return answers.map(words).to_numpy(), known


def _word(value: Any) -> str:
    """Write a label as text, the same for 1, 1.0, "1" and True."""
    try:
        return f"{float(value):g}"
    except (TypeError, ValueError):
        text = str(value).strip()
        return {"true": "1", "false": "0"}.get(text.lower(), text)
