"""`evenmargin predict`: a table through a model, in pieces, so that its size does not matter."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from .._util.files import check_place
from .._util.typing import MatrixLike
from ..auto import EvenMarginClassifier
from ..operating.responses import for_class, positive_label
from ._models import Loaded, open_model
from ._reading import InputError, TextOptions, open_table
from ._voice import Voice
from ._writing import check_ending, writing

_VALUES = 2_000_000  # of a piece: 16 MB
_PIECE = 1_000, 100_000  # rows of it, at least and at most


def predict(
    voice: Voice,
    path: Path,
    data: str,
    *,
    out: Path | None,
    threshold: float | None,
    keep: list[str] | None,
    **text: Unpack[TextOptions],
) -> None:
    """Score a table and write a row for each of its rows."""
    started = time.perf_counter()
    out = None if str(out) == "-" else out
    if voice.json and out is None:
        raise InputError("--json needs --out: scores and JSON cannot both go to standard output.")
    if out is not None:
        check_place(out, path, data)
        check_ending(out)
    loaded = open_model(path)
    judge = Judge(loaded, threshold)
    file = open_table(data, **text)
    keep = list(dict.fromkeys(keep or ()))
    unknown = [name for name in keep if name not in file.columns]
    if unknown:
        raise InputError(f"{file.name} has no column {unknown[0]!r} to keep.")
    if taken := set(keep) & {"prediction", "probability", "score"}:
        raise InputError(f"--keep {min(taken)}: the scores have a column of that name, so rename yours.")
    rows_of, columns = loaded.rows_of(file), loaded.columns(file.columns, keep)
    beside = [name for name in keep if name not in columns]
    size = int(np.clip(_VALUES // (len(columns) + len(beside)), *_PIECE))
    rows, flagged = 0, 0
    with voice.progress("scoring", None) as advance, writing(out) as write:
        for piece in file.pieces(size, columns=columns, words=loaded.words, exact=beside):
            verdict = judge(rows_of(piece.drop(columns=beside)))
            write(pd.concat([piece[keep].reset_index(drop=True), verdict], axis=1) if keep else verdict)
            rows += len(piece)
            flagged += int(np.count_nonzero(verdict["prediction"] == judge.positive))
            advance(len(piece), f"{rows:,} rows")
        rows_of.finish()
    voice.note(*file.notes, *rows_of.notes([*keep, *loaded.weights]))
    seconds = time.perf_counter() - started
    voice.facts |= {"rows": rows, "flagged": flagged if judge.two else None, "seconds": seconds}
    share = f"{flagged:,} of {rows:,} rows are classified as {judge.positive}" if judge.two else f"{rows:,} rows"
    voice.say(f"{share}; {seconds:.1f} s.", aside=True)
    if out is not None:
        voice.wrote("scores", out, key="out", aside=True)


class Judge:
    """What a model predicts for rows: class, probability and score, as far as it has them."""

    def __init__(self, loaded: Loaded, threshold: float | None = None) -> None:
        self.model, self.threshold = loaded.model, threshold
        self.classes = np.asarray(self.model.classes_)
        self.two = self.classes.size == 2
        self.positive = positive_label(loaded.model) if self.two else None
        self.probable, self.scored = (hasattr(self.model, name) for name in ("predict_proba", "decision_function"))
        if threshold is not None:
            self._check(threshold)

    def __call__(self, X: MatrixLike) -> pd.DataFrame:
        try:
            columns = self._columns(X)
        except ValueError as error:
            if "contains NaN" not in str(error):
                raise
            raise InputError("The table has missing values, which this model does not take: fill them in.") from None
        if self.threshold is not None:
            flagged = columns["probability" if self.probable else "score"] > self.threshold
            columns["prediction"] = np.where(flagged, self.positive, self.classes[self.classes != self.positive][0])
        if self.classes.dtype.kind not in "biuf":  # words are small and quick to write as codes
            columns["prediction"] = pd.Categorical(columns["prediction"], categories=self.classes)
        return pd.DataFrame(columns)

    def _columns(self, X: MatrixLike) -> dict[str, Any]:
        if isinstance(self.model, EvenMarginClassifier):
            verdict = self.model.assess(X)
            return {name: verdict[name].to_numpy() for name in verdict}
        columns: dict[str, Any] = {"prediction": self.model.predict(X)}
        place = 1 if not self.two or self.classes[1] == self.positive else 0
        if self.probable:
            shares = self.model.predict_proba(X)
            if self.two:
                columns["probability"] = for_class(shares, place)
            else:
                columns |= {f"probability {label}": shares[:, k] for k, label in enumerate(self.classes)}
        if self.scored:
            scores = self.model.decision_function(X)
            if scores.ndim == 1:
                columns["score"] = for_class(scores, place)
            elif scores.shape[1] == self.classes.size:
                columns |= {f"score {label}": scores[:, k] for k, label in enumerate(self.classes)}
        return columns

    def _check(self, threshold: float) -> None:
        if not self.two:
            raise InputError(f"--threshold is for two classes, but this model has {self.classes.size}.")
        if not np.isfinite(threshold):
            raise InputError(f"--threshold {threshold} is not a finite number.")
        if not (self.probable or self.scored):
            raise InputError("--threshold needs a model with probabilities or scores, but this one has neither.")
        if self.probable and not 0 <= threshold <= 1:
            raise InputError(f"--threshold {threshold:g} is not a probability: it must lie between 0 and 1.")
        if isinstance(self.model, EvenMarginClassifier) and 0 < threshold < 1:
            self.model.set_operating_point(probability=threshold)  # scores are measured from there, too
            self.threshold = None
