"""`evenmargin report`: what a model does on a table whose answers are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._util.files import check_place
from .._util.sentences import quoted
from .._util.typing import Mask
from ..auto import EvenMarginClassifier
from ..operating import get_objective
from ..report import write_report
from ._arguments import parse_prices
from ._columns import labels
from ._fit import digest, made_by, take_weights
from ._models import Loaded, open_model
from ._reading import InputError, open_table
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
    check_place(out, data, path)
    costs = None if prices is None else _prices(prices)
    loaded = open_model(path)
    if target is not None and loaded.schema is not None:
        loaded = replace(loaded, schema=replace(loaded.schema, target=target))
    notes = loaded.manifest.notes
    weighted = notes.get("weight")
    with voice.busy(f"reading {data}"):
        file = open_table(data, encoding=encoding, separator=separator)
        take = loaded.taker(file)
        asked = [*loaded.columns(file.columns), target or "", names or "", weighted or "", loaded.target or ""]
        frame = file.read(columns=None if loaded.schema is None else asked, words=loaded.words)
    if weighted is not None and weighted not in frame.columns:
        voice.note(
            f"{file.name} has no column {weighted!r}, which held the weights of the fit: all rows get the same weight."
        )
        weighted = None
    frame, weight = take_weights(frame, weighted, file.name)
    if names is not None and names not in frame.columns:
        raise InputError(f"{file.name} has no column {names!r} to name the rows.")
    y, known = _answers(frame, loaded, target)
    if not known.all():
        count = np.count_nonzero(~known)
        rows = "1 row" if count == 1 else f"{count:,} rows"
        voice.note(f"Left out: {rows} without a value of {_target(loaded, target)!r}.")
    frame, y = frame[known], y[known]
    X = take(frame[[name for name in loaded.columns(file.columns, [_target(loaded, target)]) if name in frame]])
    take.finish()
    used = [name for name in (_target(loaded, target), names, notes.get("weight")) if name]
    for note in file.notes + take.notes(used):
        voice.note(note)
    seen = isinstance(loaded.model, EvenMarginClassifier) and notes.get("digest") == digest(X, y)
    with voice.busy("writing the report"):
        write_report(
            out, loaded.model, X, y, sample_weight=None if weight is None else weight[known], training=seen,
            pos_label=None if loaded.schema is None else loaded.positive, target=_target(loaded, target), prices=costs,
            notes=notes.get("said", []) if seen else voice.notes,
            rows=None if names is None else frame[names].to_numpy(),
            provenance={"model": path.name, **made_by(file.name)},
        )  # fmt: skip
    voice.done = True
    voice.facts |= {"report": out, "rows": int(known.sum()), "trained_on_these_rows": seen}
    voice.say(f"report: {out}")


def _prices(text: str) -> dict[str, float]:
    prices = parse_prices(text)
    try:
        get_objective(prices)
    except ValueError as error:
        raise InputError(f"--prices {text}: {str(error).split('}: ', 1)[-1]}") from None
    return prices


def _target(loaded: Loaded, target: str | None) -> str:
    named = target or loaded.target
    if named is None:
        raise InputError("The model file does not say which column has the classes: give --target.")
    return named


def _answers(frame: pd.DataFrame, loaded: Loaded, target: str | None) -> tuple[NDArray[Any], Mask]:
    """The label of each row in the model's words, and where there is one."""
    name = _target(loaded, target)
    if loaded.schema is not None:
        return labels(frame, loaded.schema)
    if name not in frame.columns:
        raise InputError(f"The table has no column {name!r}; it has {quoted(frame.columns)}.")
    known = frame[name].notna().to_numpy()
    words = {_word(label): label for label in loaded.model.classes_.tolist()}
    given = frame[name].map(_word)
    strange = sorted(set(given[known]) - set(words))
    if strange:
        raise InputError(f"Column {name!r} has {quoted(strange)}, and the model knows {quoted(sorted(words))}.")
    return given.map(words).to_numpy(), known


def _word(value: Any) -> str:
    """1, 1.0, "1" and True are one answer."""
    try:
        return f"{float(value):g}"
    except (TypeError, ValueError):
        text = str(value).strip()
        return {"true": "1", "false": "0"}.get(text.lower(), text)
