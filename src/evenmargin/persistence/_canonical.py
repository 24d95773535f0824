"""What skops wrote, as a model file has it: types under their lasting names, and the same model as the same bytes.

Skops names types by where they are defined, and parts and arrays by where they lay in memory.
"""

from __future__ import annotations

import io
import json
from typing import Any
from zipfile import ZipFile

from ._audit import parsed_schema
from ._file import SCHEMA, require
from .types import file_name

__all__ = ["canonical"]

_OURS = __name__.partition(".")[0]
_VALUES = ("JsonNode", "TypeNode", "FunctionNode", "SliceNode", "TupleNode")  # which need not be the same object again


def canonical(written: bytes) -> dict[str, bytes]:
    """What skops wrote, the same for the same model: skops names things by where they lay in memory."""
    with ZipFile(io.BytesIO(written)) as archive:
        schema = parsed_schema(archive.read(SCHEMA))
        files = {name: archive.read(name) for name in archive.namelist() if name != SCHEMA}
    settled = _CanonicalSchema()
    schema = settled.part(schema)
    arrays = {
        new: _stored(files[old]) if new.endswith(".npz") else files[old] for old, new in settled.files.items()
    }  # fmt: skip
    return {SCHEMA: json.dumps(schema, separators=(",", ":")).encode(), **arrays}


class _CanonicalSchema:
    """Parts of schema.json, numbered as they come; a part that comes again is the same again."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self._known: dict[int, dict[str, Any]] = {}

    def part(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.part(one) for one in value]
        if not isinstance(value, dict):
            return value
        number = value.pop("__id__", None)
        if number in self._known:
            return self._known[number]
        kind = value.get("__loader__")
        if kind is not None and value["__module__"].startswith(_OURS):
            value["__module__"], _, value["__class__"] = file_name(
                f"{value['__module__']}.{value['__class__']}"
            ).rpartition(".")
        if kind == "SetNode":  # in no order
            value["content"].sort(key=_sorting)
        if kind == "DictNode":
            value["content"] = _bools_kept(value)
        settled = {name: self.part(one) for name, one in value.items()}
        if isinstance(settled.get("file"), str):
            suffix = settled["file"].rpartition(".")[2]
            settled["file"] = self.files.setdefault(settled["file"], f"{len(self.files) + 1}.{suffix}")
        if number is not None and kind not in _VALUES:
            self._known[number] = settled
            settled["__id__"] = len(self._known)
        return settled


def _sorting(state: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in state.items() if name != "__id__"})


def _bools_kept(state: dict[str, Any]) -> dict[str, Any]:
    """Keys of a dict such that False is False again: skops makes it bool("false"), which is True."""
    kinds = [kind["__class__"].strip("_") for kind in state["key_types"]["content"]]
    pairs = zip(kinds, state["content"].items(), strict=True)
    kept = {"" if kind == "bool" and key == "false" else key: value for kind, (key, value) in pairs}
    require(len(kept) == len(kinds), "a dict has keys that JSON cannot tell apart")
    return kept


def _stored(matrix: bytes) -> bytes:
    """A sparse matrix without a compression of its own inside that of the file."""
    from scipy.sparse import load_npz, save_npz

    out = io.BytesIO()
    save_npz(out, load_npz(io.BytesIO(matrix)), compressed=False)
    return out.getvalue()
