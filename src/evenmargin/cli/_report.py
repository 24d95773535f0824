"""`evenmargin report`: what a model does on a table whose answers are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._files import check_place
from ..auto import EvenMarginClassifier
from ..report import write_report
from ._arguments import parse_prices
from ._columns import labels
from ._fit import digest, made_by, take_weights
from ._models import Loaded, open_model
from ._reading import InputError, open_table, quoted
from ._voice import Voice

__all__ = ["report"]


def report(
    voice: Voice, path: Path, data: str, *, target: str | None, out: Path, prices: str | None, names: str | None,
    encoding: str, separator: str | None,
) -> None:  # fmt: skip
    """Write the page.

    Rows that the model was fitted on are known by their content: what is shown of them
    are the scores by machines that have not seen them.
    """
    check_place(out)
    costs = None if prices is None else parse_prices(prices)
    loaded = open_model(path)
    if target is not None and loaded.schema is not None:
        loaded = replace(loaded, schema=replace(loaded.schema, target=target))
    notes = loaded.manifest.notes
    with voice.busy(f"reading {data}"):
        file = open_table(data, encoding=encoding, separator=separator)
        frame = file.read(words=loaded.words)
    weighted = notes.get("weight")
    frame, weight = take_weights(frame, weighted if weighted in frame.columns else None, file.name)
    if names is not None and names not in frame.columns:
        raise InputError(f"{file.name} has no column {names!r} to name the rows by.")
    y, known = _answers(frame, loaded, target)
    if not known.all():
        voice.note(f"{np.count_nonzero(~known):,} rows without an answer in {_target(loaded, target)!r} are left out.")
    frame, y = frame[known], y[known]
    take = loaded.taker(file)
    X = take(frame[[name for name in loaded.columns(file.columns, [_target(loaded, target)]) if name in frame]])
    for note in take.notes([_target(loaded, target), *([names] if names else [])]):
        voice.note(note)
    seen = isinstance(loaded.model, EvenMarginClassifier) and notes.get("digest") == digest(X, y)
    with voice.busy("writing the report"):
        write_report(
            out, loaded.model, X, y, sample_weight=None if weight is None else weight[known], training=seen,
            pos_label=loaded.positive, target=_target(loaded, target), prices=costs,
            notes=notes.get("said", []) if seen else voice.notes,
            rows=None if names is None else frame[names].to_numpy(),
            provenance={"model": path.name, **made_by(file.name)},
        )  # fmt: skip
    voice.done = True
    voice.facts |= {"report": out, "rows": int(known.sum()), "trained_on_these_rows": seen}
    voice.say(f"report: {out}")


def _target(loaded: Loaded, target: str | None) -> str:
    named = target or (None if loaded.schema is None else loaded.schema.target)
    if named is None:
        raise InputError("The model does not know which column has the answer: give --target.")
    return named


def _answers(frame: pd.DataFrame, loaded: Loaded, target: str | None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The label of each row in the model's words, and where there is one."""
    name = _target(loaded, target)
    if loaded.schema is not None:
        return labels(frame, loaded.schema)
    if name not in frame.columns:
        raise InputError(f"The table has no column {name!r}; it has {quoted(frame.columns)}.")
    words = {str(label): label for label in loaded.model.classes_.tolist()}
    given, known = frame[name].astype(str), frame[name].notna().to_numpy()
    strange = sorted(set(given[known]) - set(words))
    if strange:
        raise InputError(f"Column {name!r} has {quoted(strange)}, and the model knows {quoted(sorted(words))}.")
    return given.map(words).to_numpy(), known
