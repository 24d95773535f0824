"""Writing a model: it is taken apart and built again, and only then written."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from .._util.files import check_place, replace_file
from ._audit import parsed_schema
from ._file import MANIFEST, SCHEMA, ModelFileError, require, sealed, shortened
from ._load import built
from ._manifest import written_manifest
from ._trusted import Untrusted, listed, names_of
from .types import file_name, full_name


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    notes: dict[str, Any] | None = None,
    trusted: Iterable[str | Callable[..., Any]] = (),
) -> Path:
    """Write a model to a file that can be loaded without trusting who sends it.

    Before anything is written, the model is taken apart and built again, and refused if
    that fails. The file appears whole or not at all.

    Parameters
    ----------
    model : estimator
        Of this package or scikit-learn, or a pipeline or search of them; fitted or not.
    path : path-like
        Usually with the suffix .skops.
    notes : dict or None, default=None
        Stored with the model; see `read_manifest`. They come back as JSON has them:
        tuples as lists, keys as strings.
    trusted : iterable of str, types or functions, default=()
        Classes and functions from elsewhere that the model holds, or their full names.
        `load` needs them too.

    Returns
    -------
    Path

    Raises
    ------
    ModelFileError
        If the model holds what no file can: a lambda, a function or a class that
        is not trusted.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from evenmargin import LinearSVM
    >>> from evenmargin.persistence import load, read_manifest, save
    >>> model = LinearSVM().fit([[0.0], [1.0], [2.0], [3.0]], ["benign", "benign", "malignant", "malignant"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(model, Path(folder) / "tumours.skops", notes={"target": "diagnosis"})
    ...     read_manifest(path).notes, load(path).predict([[4.0]]).tolist()
    ({'target': 'diagnosis'}, ['malignant'])
    """
    known = names_of(trusted)
    if isinstance(model, type) or not hasattr(model, "get_params"):
        what = f"the class {model.__name__}" if isinstance(model, type) else f"a {full_name(type(model))}"
        raise ModelFileError(f"save takes an estimator, such as LinearSVM().fit(X, y), not {what}.")
    check_place(path)
    return replace_file(path, _packed(model, written_manifest(model, notes), known))


def _packed(model: Any, manifest: bytes, known: frozenset[str]) -> bytes:
    """Make the content of the file, and load it once."""
    import skops.io

    name = type(model).__name__
    try:
        written = skops.io.dumps(model)
    except RecursionError:
        raise ModelFileError(f"This {name} cannot be saved: it holds itself, or is nested too deeply.") from None
    except Exception:  # skops raises what the object at hand raises
        raise ModelFileError(f"This {name} cannot be saved: {_culprit(model)}.") from None
    try:
        content = sealed({MANIFEST: manifest, **_members(written)})
        built(content, known)
    except Untrusted as error:
        raise ModelFileError(
            f"This {name} cannot be saved, since it holds types that are not trusted ({listed(error.args[0])}): code "
            "that can be imported may be named in trusted=, here and in `load`."
        ) from None
    except Exception as error:
        raise ModelFileError(
            f"This {name} cannot be saved, since it could not be loaded: {shortened(error)}."
        ) from None
    return content


def _members(written: bytes) -> dict[str, bytes]:
    """Turn what skops wrote into the members of a model file."""
    with ZipFile(io.BytesIO(written)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = parsed_schema(members[SCHEMA], partial(_settled, parts={}))
    matrices = {name: _uncompressed(content) for name, content in members.items() if name.endswith(".npz")}
    return members | matrices | {SCHEMA: json.dumps(schema, separators=(",", ":")).encode()}


def _settled(part: dict[str, Any], parts: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Put the name in `types` into a part of schema.json, where skops has the place of the definition."""
    kind = part.get("__loader__")
    if not isinstance(kind, str):
        return part
    name = file_name(f"{part['__module__']}.{part['__class__']}")
    part["__module__"], _, part["__class__"] = name.rpartition(".")
    if kind == "DictNode":  # skops reads the key False as bool("false"), which is True
        kinds = [kind["__class__"].strip("_") for kind in part["key_types"]["content"]]
        pairs = zip(kinds, part["content"].items(), strict=True)
        part["content"] = {"" if kind == "bool" and key == "false" else key: value for kind, (key, value) in pairs}
        require(len(part["content"]) == len(kinds), "a dict has keys that JSON cannot tell apart")
    # A part that comes again is the same again, whatever numbers skops gives to lists that it makes of its content.
    return parts.setdefault(part["__id__"], part) if "__id__" in part else part


def _uncompressed(matrix: bytes) -> bytes:
    """Write a sparse matrix without a compression of its own inside that of the file."""
    from scipy.sparse import load_npz, save_npz

    out = io.BytesIO()
    save_npz(out, load_npz(io.BytesIO(matrix)), compressed=False)
    return out.getvalue()


def _culprit(value: Any, place: str = "it", depth: int = 10) -> str:
    """Name the innermost part that skops does not take."""
    import skops.io

    parts: dict[Any, Any] = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    if isinstance(value, list | tuple):
        parts = dict(enumerate(value))
    for name, part in parts.items() if depth else ():
        try:
            skops.io.dumps(part)
        except Exception:
            inner = f"[{name!r}]" if isinstance(value, dict | list | tuple) else f".{name}"
            return _culprit(part, f"{place.removeprefix('it')}{inner}".lstrip("."), depth - 1)
    return f"{place} is a {full_name(type(value))}, which skops does not take"
