"""The manifest of a model file: what it holds, who wrote it, when, and notes."""

from __future__ import annotations

import json
import platform
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from .. import __version__
from ._file import FORMAT, MANIFEST, ModelFileError, as_integer, members_of, require
from .types import file_name, full_name


@dataclass(frozen=True)
class Manifest:
    """What a model file says about itself.

    Attributes
    ----------
    model : str
        The type of the model; one of this package by its name in `persistence.types`.
    saved : str
        When, in ISO 8601.
    versions : dict of str
        Of evenmargin, python, scikit-learn, numpy and skops, where it was saved.
    notes : dict
        As given to `save`.
    format : int
    """

    model: str
    saved: str
    versions: dict[str, str]
    notes: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def summary(self) -> list[tuple[str, str]]:
        """Describe the file in words, a title and a text for each line; `print(manifest)` shows them."""
        made_with = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return [("model", self.model), ("saved", self.saved), ("saved with", made_with)]

    def __str__(self) -> str:
        return "\n".join(f"{title:<12}{text}" for title, text in self.summary())


def _versions() -> dict[str, str]:
    import sklearn
    import skops

    packages = {"scikit-learn": sklearn, "numpy": np, "skops": skops}
    versions = {name: package.__version__ for name, package in packages.items()}
    return {"evenmargin": __version__, "python": platform.python_version(), **versions}


def written_manifest(model: Any, notes: dict[str, Any] | None) -> bytes:
    if not isinstance(notes, dict | None):
        raise ModelFileError(f"notes must be a dict, not a {type(notes).__name__}.")
    manifest = {
        "format": FORMAT,
        "model": file_name(full_name(type(model))),
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": _versions(),
        "notes": notes or {},
    }
    try:
        return json.dumps(manifest, indent=1, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"notes must be something that JSON can hold ({error}).") from None


def parsed_manifest(content: bytes) -> Manifest:
    """Read the manifest of a verified file."""
    stated = json.loads(members_of(content, only=MANIFEST)[MANIFEST])
    require(re.fullmatch(r"[\w.]{1,200}", stated["model"]) is not None, "the name of its type is not valid")
    require({"evenmargin", "scikit-learn"} <= set(stated["versions"]), "it does not say who wrote it")
    for text in (*stated["versions"], *stated["versions"].values()):
        require(re.fullmatch(r"[\w.+-]{1,50}", text) is not None, "a version in it is not valid")
    require(isinstance(stated["notes"], dict), "its notes are not a dict")
    moment = datetime.fromisoformat(stated["saved"]).isoformat()
    return Manifest(stated["model"], moment, stated["versions"], stated["notes"], as_integer(stated["format"]))


def differing(manifest: Manifest) -> str:
    """List the versions that matter and are not those of today."""
    theirs, ours = manifest.versions, _versions()
    others = ["evenmargin"] if newer(manifest, "evenmargin") else []
    if _release(theirs["scikit-learn"])[:2] != _release(ours["scikit-learn"])[:2]:
        others.append("scikit-learn")
    return " and ".join(f"{name} {theirs[name]} (this is {ours[name]})" for name in others)


def newer(manifest: Manifest, package: str) -> str:
    """Name both versions of a package, if it was newer where the file was saved."""
    theirs, ours = manifest.versions[package], _versions()[package]
    return f"{package} {theirs}, and this is {ours}" if _release(theirs) > _release(ours) else ""


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
