"""Reading a model: its file is checked, then its parts, and only then is it built."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ._audit import Audit, parsed_schema
from ._file import SCHEMA, ModelFileError, as_integer, members_of, opened, require, shortened, zipped
from ._manifest import Manifest, differing, newer, parsed_manifest
from ._trusted import LISTED, Untrusted, listed, names_of
from .types import file_name, full_name


def load(path: str | os.PathLike[str], *, trusted: Iterable[str | Callable[..., Any]] = ()) -> Any:
    """Load the model in a file that `save` wrote, without running any code of the file.

    The checksum finds damaged files, and a list of trusted types keeps out what a forger may have
    put in; the docstring of the package says what is checked. Pickles are refused.

    Parameters
    ----------
    path : path-like
    trusted : iterable of str, types or functions, default=()
        Classes and functions beyond this package and scikit-learn that may be built, or their
        full names. Take them from your own code, never from the file: trusting
        a name means that its module is imported and that it may be called. Trees of
        scikit-learn are not trusted by themselves, since a forged one can crash Python.

    Returns
    -------
    estimator

    Raises
    ------
    FileNotFoundError, ModelFileError
        The latter for anything that is not a sound model file.

    Warns
    -----
    UserWarning
        If the model was saved with a newer evenmargin, or another scikit-learn.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from evenmargin import KernelSVM
    >>> from evenmargin.persistence import load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(save(KernelSVM(C=10.0), Path(folder) / "machine.skops"))
    KernelSVM(C=10.0)
    """
    return _loaded(path, trusted)[0]


def load_with_manifest(
    path: str | os.PathLike[str], *, trusted: Iterable[str | Callable[..., Any]] = ()
) -> tuple[Any, Manifest]:
    """The model in a file and its manifest, read together; for the rest see `load`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from evenmargin import KernelSVM
    >>> from evenmargin.persistence import load_with_manifest, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(KernelSVM(C=10.0), Path(folder) / "machine.skops", notes={"target": "fraud"})
    ...     model, manifest = load_with_manifest(path)
    >>> model, manifest.notes
    (KernelSVM(C=10.0), {'target': 'fraud'})
    """
    return _loaded(path, trusted)


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """The manifest of a model file whose checksum is right; the model is not built.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from evenmargin import LinearSVM
    >>> from evenmargin.persistence import read_manifest, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_manifest(save(LinearSVM(), Path(folder) / "machine.skops")).model
    'evenmargin.persistence.types.LinearSVM'
    """
    with opened(path) as content:
        return parsed_manifest(content)


def _loaded(path: str | os.PathLike[str], trusted: Iterable[str | Callable[..., Any]]) -> tuple[Any, Manifest]:
    """The model and the manifest; a warning about versions points at the caller of the caller."""
    known = names_of(trusted)
    with opened(path) as content:
        manifest = parsed_manifest(content)
        try:
            model = built(content, known)
        except Untrusted as error:
            raise ModelFileError(f"{path} {_refusal(error.args[0], manifest)}") from None
        except Exception as error:
            versions = newer(manifest, "evenmargin")
            if not versions:
                raise
            raise ModelFileError(
                f"{path} was written by {versions}, which cannot read it ({shortened(error)}): upgrade evenmargin."
            ) from error
        held = file_name(full_name(type(model)))
        if held != manifest.model:
            raise ModelFileError(f"{path} holds a {held} but says that it holds a {manifest.model}.")
        others = differing(manifest)
    if others:
        warnings.warn(
            f"{path} was saved with {others}: predictions may differ, so compare some, or save the model again.",
            UserWarning,
            stacklevel=3,
        )
    return model, manifest


def _refusal(names: set[str], manifest: Manifest) -> str:
    """Why a file with names that are not on the list is refused, and what to do."""
    for way, package, module in (("by", "evenmargin", "evenmargin."), ("with", "scikit-learn", "sklearn.")):
        versions, unknown = newer(manifest, package), [name for name in names if name.startswith(module)]
        if versions and unknown:
            return f"was written {way} {versions}, which does not know {listed(unknown)}: upgrade {package}."
    return (
        f"holds types that are not trusted ({listed(names)}), so nothing was built: "
        "if they are your own code, name them in trusted=."
    )


def built(content: bytes, known: frozenset[str]) -> Any:
    """The model, once everything in the file has been checked."""
    import skops.io
    from sklearn.exceptions import InconsistentVersionWarning
    from skops.io.exceptions import UntrustedTypesFoundException

    members = members_of(content)
    schema = parsed_schema(members[SCHEMA])
    require(as_integer(schema["protocol"]) >= 2, "it has an old skops protocol")  # whose readers are laxer
    audit = Audit(members, known)
    audit.check(schema)
    if audit.untrusted:
        raise Untrusted(audit.untrusted)
    trusted = sorted(audit.names & (known | LISTED))
    plain = zipped(members, {})
    del members, schema, audit  # skops will hold them once more
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentVersionWarning)  # for each part; `load` says it once
            return skops.io.load(plain, trusted=trusted)
    except UntrustedTypesFoundException:
        found = skops.io.get_untrusted_types(data=plain.getvalue())
        raise Untrusted(set(found) - set(trusted)) from None
