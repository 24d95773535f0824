"""`evenmargin info` and `evenmargin export`: what a model file contains, and the model for other runtimes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Unpack

from .._util.files import check_place, replace_file
from ._models import open_model
from ._reading import InputError, TextOptions, open_table
from ._voice import FAILED, Voice

_CHECKED = 10_000  # rows on which an exported model is compared, at most


def info(voice: Voice, path: Path) -> None:
    """Show what a model file contains."""
    loaded = open_model(path)
    model, manifest = loaded.model, loaded.manifest
    lines = dict(manifest.summary())
    if loaded.schema is not None:
        lines["target"] = f"{loaded.schema.target}; the class to find is {loaded.schema.positive}"
        lines["columns"] = ", ".join(f"{name} ({kind})" for name, kind in loaded.schema.columns.items())
    width = max(map(len, lines)) + 2
    for title, text in lines.items():
        voice.say(f"{title:<{width}}{text}")
    parameters = {name: repr(value) for name, value in model.get_params(deep=False).items()}
    voice.facts |= {**lines, "notes_of_the_file": manifest.notes, "parameters": parameters}
    if (summary := getattr(model, "summary_", None)) is not None:
        voice.say(f"\n{summary}")
        voice.facts["summary"] = {title.strip(): text for title, text in summary.lines}


def export(voice: Voice, path: Path, out: Path, check: str | None, **text: Unpack[TextOptions]) -> None:
    """Write the model as ONNX, and compare it with the model on some rows."""
    from ..onnx import check_onnx, to_onnx

    if out.suffix.lower() != ".onnx":
        raise InputError(f"{out}: the name of the file must end in .onnx.")
    check_place(out, path, check)
    loaded = open_model(path)
    rows = None
    if check is not None:
        file = open_table(check, **text)
        pieces = file.pieces(_CHECKED, columns=loaded.columns(file.columns), words=loaded.words)
        rows = loaded.rows_of(file)(next(iter(pieces)))
    with voice.progress("exporting"):
        graph = to_onnx(loaded.model, rows)
        found = None if rows is None else check_onnx(graph, loaded.model, rows)
    if found is not None:
        voice.facts["check"] = {**asdict(found), "passed": found.passed}
        if not found.passed:
            sentence = f"The exported model does not agree with the original, so it was not written: {found}."
            raise voice.fail(sentence, FAILED)
    replace_file(out, graph.SerializeToString())
    voice.wrote("onnx", out)
    if found is not None:
        voice.say(str(found))
