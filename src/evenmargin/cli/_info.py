"""`evenmargin info` and `evenmargin export`: what a model file holds, and the model for other runtimes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from .._files import check_place
from ._models import open_model
from ._reading import InputError, open_table
from ._voice import FAILED, Voice

__all__ = ["export", "info"]


def info(voice: Voice, path: Path) -> None:
    """What is in a model file."""
    loaded = open_model(path)
    manifest, model = loaded.manifest, loaded.model
    lines = dict(manifest.summary())
    if loaded.schema is not None:
        lines["target"] = f"{loaded.schema.target}, to find {loaded.schema.positive}"
        lines["columns"] = ", ".join(f"{column.name} ({column.kind})" for column in loaded.schema.columns)
    width = max(map(len, lines)) + 2
    for title, text in lines.items():
        voice.say(f"{title:<{width}}{text}")
    summary = getattr(model, "summary_", None)
    if summary is not None:
        voice.say()
        voice.say(str(summary))
    voice.facts |= {**lines, "notes_of_the_file": manifest.notes, "parameters": _parameters(model)}
    if summary is not None:
        voice.facts["summary"] = {title.strip(): text for title, text in summary.lines}


def export(voice: Voice, path: Path, out: Path, check: str | None, *, encoding: str, separator: str | None) -> None:
    """Write the model as ONNX, and compare it with the model on some rows."""
    from ..onnx import check_onnx, export_onnx

    if out.suffix.lower() != ".onnx":
        raise InputError(f"{out}: end its name in .onnx, the format it is written in.")
    check_place(out)
    loaded = open_model(path)
    with voice.busy("exporting"):
        export_onnx(loaded.model, out)
    voice.done = True
    voice.facts["onnx"] = str(out)
    voice.say(f"onnx: {out}")
    if check is None:
        return
    file = open_table(check, encoding=encoding, separator=separator)
    take = loaded.taker(file)
    piece = next(iter(file.pieces(10_000, columns=loaded.columns(file.columns), words=loaded.words)))
    found = check_onnx(out, loaded.model, take(piece))
    voice.facts["check"] = {**asdict(found), "passed": found.passed}
    if not found.passed:
        raise voice.fail(f"{out} does not agree with the model. {found}", FAILED)
    voice.say(str(found))


def _parameters(model: object) -> dict[str, str]:
    return {name: repr(value) for name, value in model.get_params(deep=False).items()}  # type: ignore[attr-defined]
