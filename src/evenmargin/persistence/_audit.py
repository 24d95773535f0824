"""A check of everything that a model file asks for, before any of it is built."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from ._file import as_integer, require, unpacked
from ._trusted import KEYS, KINDS, NEVER, is_trusted

PARTS = 200_000  # brackets in schema.json: skops takes up to 5 KB for each
_DEPTH = 150  # of brackets in schema.json: skops goes down them by recursion


def parsed_schema(schema: bytes, change: Callable[[dict[str, Any]], dict[str, Any]] = lambda part: part) -> Any:
    """Parse JSON of a bounded size, without keys that come twice; `change` is applied to each dict."""
    require(schema.count(b"{") + schema.count(b"[") <= PARTS, f"it has more than {PARTS:,} parts")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        unique = dict(pairs)
        require(len(unique) == len(pairs), "a dict has keys that JSON cannot tell apart")
        return change(unique)

    return json.loads(schema, object_pairs_hook=once)


class Audit:
    """A check of all of schema.json before skops builds any of it.

    Skops has a list of trusted types, too. This check is narrower, and depends neither on that list nor on how skops
    walks through the file, so that each of the two would be enough by itself.
    """

    def __init__(self, members: dict[str, bytes], known: frozenset[str]) -> None:
        self._is_trusted = cache(partial(is_trusted, known=known))
        self.names: set[str] = set()  # types that the file asks for and may have
        self.untrusted: set[str] = set()  # types that it may not have; if there is any, nothing may be built
        self._seen: dict[int, dict[str, Any]] = {}
        self._check_member = cache(lambda check, name: check(members[name]))

    def check(self, value: Any, depth: int = 0) -> None:
        require(depth <= _DEPTH, f"it is nested more than {_DEPTH} deep")
        if isinstance(value, list):
            for part in value:
                self.check(part, depth + 1)
        if not isinstance(value, dict):
            return
        if value.keys() & {"__loader__", "__class__", "__module__", "__id__"} and not self._check_node(value):
            return
        for part in value.values():
            self.check(part, depth + 1)

    def _check_node(self, node: dict[str, Any]) -> bool:
        """Check a part of the model, and return whether it is a new one."""
        texts = [node.get(key) for key in ("__loader__", "__module__", "__class__")]
        require(all(isinstance(text, str) for text in texts), "a part of it has no type")
        kind, module, name = map(str, texts)
        # A part that comes again must be the same again: else what is checked would not be what is built.
        if "__id__" in node:
            before = self._seen.setdefault(as_integer(node["__id__"]), node)
            if before is not node:
                require(before == node, "two different parts of it have the same number")
                return False
        require(
            kind in KINDS, f"it holds {NEVER.get(kind, f'a part of kind {kind[:50]}')}, which no model file may hold"
        )
        if not self._is_trusted(kind, module, name):
            self.untrusted.add(f"{module}.{name}")
            return True
        self.names.add(f"{module}.{name}")
        check = getattr(self, f"_{kind}", None)
        if check is not None:
            check(node)
        return True

    def _NdArrayNode(self, node: dict[str, Any]) -> None:
        if node.get("type") == "numpy":
            self._check_member(_check_array, node["file"])

    def _SparseMatrixNode(self, node: dict[str, Any]) -> None:
        self._check_member(_check_sparse, node["file"])

    def _DictNode(self, node: dict[str, Any]) -> None:
        # Types of keys are called, whatever the user trusts as a type elsewhere.
        types = node["key_types"]
        fine = types["__loader__"] == "ListNode" and all(
            one["__loader__"] == "TypeNode" and f"{one['__module__']}.{one['__class__']}" in KEYS
            for one in types["content"]
        )
        require(fine, "a dict in it has keys of unknown types")

    def _RandomStateNode(self, node: dict[str, Any]) -> None:
        # NumPy reads beyond its memory from a place that is not among its 624 numbers.
        state = node["content"]
        place = state["content"]["state"]["content"]["pos"]
        kinds = [part["__loader__"] for part in (state, state["content"]["state"], place)]
        fine = kinds == ["DictNode", "DictNode", "JsonNode"] and 0 <= as_integer(json.loads(place["content"])) <= 624
        require(fine, "a random state in it is not valid")


def _check_array(content: bytes) -> None:
    """Refuse an array that is not as long as it says, or holds objects."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    file = io.BytesIO(content)
    shape, _, dtype = readers[np.lib.format.read_magic(file)](file)
    count = math.prod(shape)
    require(not dtype.hasobject and (dtype.itemsize > 0 or count == 0), "an array in it does not hold numbers")
    require(count * dtype.itemsize == len(content) - file.tell(), "an array in it is not as long as it says")


def _check_sparse(content: bytes) -> None:
    """Refuse a sparse matrix with indices beyond its shape: compiled code will trust them."""
    from scipy.sparse import load_npz

    with ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            require(info.compress_type == ZIP_STORED, "a matrix in it is compressed")
            _check_array(unpacked(archive, info))
    matrix = load_npz(io.BytesIO(content))
    require(matrix.format in ("csr", "csc"), "a matrix in it is neither CSR nor CSC")
    matrix.check_format(full_check=True)
