"""Models that travel: one file, checked before it is opened, from which no code runs.

A model file is a zip that skops writes and reads (`schema.json` says what the model is made
of, arrays lie beside it), with one more member, `evenmargin.json`: who wrote it, when, and
notes. The comment of the archive is the seal,

    evenmargin-model 1 sha256:…

the number of the format and a checksum of all bytes before it.

The seal protects against accidents: a file that was cut short, or changed anywhere, is found
before any of it is read. It does not protect against malice, since whoever forges a file can
forge its checksum. Against that:

- Types are built only if they are on a list: `TRUSTED`, here, for what this package
  keeps, and skops' own for scikit-learn and NumPy. Nothing that the file asks for gets onto
  it, and a module that is not on it is not even imported.
- Every entry may only be what it is: an estimator an object, a loss a tuple. Of the ways
  in which skops can make a value, those that call something of the file's choice (bound methods,
  partial functions, operators, constructors) are refused.
- Arrays must be as long as they say, indices of sparse matrices within their shape.
- A file unpacks to 64 times its size at most (or 64 MiB, if that is more), and holds 200 000
  parts at most, which take less than 1 GB.

What remains: a forged file may hold a model that predicts nonsense, or one of scikit-learn's
machines with numbers that its compiled code does not expect.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import platform
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from . import __version__
from ._files import check_place, replace_file

__all__ = ["TRUSTED", "Manifest", "ModelFileError", "load", "read_manifest", "save"]

FORMAT = 1
_MANIFEST, _SCHEMA = "evenmargin.json", "schema.json"
_SEAL = re.compile(rb"evenmargin-model (\d{1,6}) sha256:([0-9a-f]{64})\Z")
_MEMBER = re.compile(r"evenmargin\.json|schema\.json|[0-9]{1,9}\.(npy|npz|bin)")
_RATIO, _ROOM = 64, 64 * 2**20  # a file unpacks to at most so many times its size, or so many bytes if that is more
_PARTS = 200_000  # brackets in schema.json: skops takes up to 5 KB for each
_DEPTH = 150  # of brackets in schema.json: skops goes down them by recursion
_START = (1980, 1, 1, 0, 0, 0)  # the date of every member, so that the same model is the same bytes

# What may be built, by the way in which skops builds it, beside what skops trusts by itself.
TRUSTED: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "ObjectNode": (
        "evenmargin._committee.Committee",
        "evenmargin._committee.Expansion",
        "evenmargin._committee.Member",
        "evenmargin._committee.Plan",
        "evenmargin._detector.Detector",
        "evenmargin._frames.Column",
        "evenmargin._frames.PlainFrame",
        "evenmargin._tables.TableEncoder",
        "evenmargin._views.PiecewiseLinear",
        "evenmargin._views.QuantileNormal",
        "evenmargin._views.Standard",
        "evenmargin.adjust.BalancedAccuracy",
        "evenmargin.adjust.CostMatrix",
        "evenmargin.adjust.FBeta",
        "evenmargin.adjust.GMean",
        "evenmargin.adjust.MCC",
        "evenmargin.auto.EvenMarginClassifier",
        "evenmargin.auto.Summary",
        "evenmargin.auto._Fitted",
        "evenmargin.density.DensityWeights",
        "evenmargin.kernel.KernelSVM",
        "evenmargin.kernels.Exponential",
        "evenmargin.kernels.Function",
        "evenmargin.kernels.Laplacian",
        "evenmargin.kernels.Linear",
        "evenmargin.kernels.Poly",
        "evenmargin.kernels.Precomputed",
        "evenmargin.kernels.RBF",
        "evenmargin.kernels.Sigmoid",
        "evenmargin.learned.LearnedWeights",
        "evenmargin.linear.LinearSVM",
        "evenmargin.neural.DensityWeightedMLPClassifier",
        "evenmargin.neural.DensityWeightedMLPRegressor",
        "evenmargin.nystroem.StratifiedNystroem",
        "evenmargin.operating.Calibrator",
        "evenmargin.operating.Floor",
        "evenmargin.operating.Objective",
        "evenmargin.problem.Solution",
        "evenmargin.sampling.ClassBalanced",
        "evenmargin.sampling.Given",
        "evenmargin.sampling.Uniform",
        "evenmargin.selection.SharedGridSearch",
        "evenmargin.solvers.dual_cd.DualCD",
        "evenmargin.solvers.kernel_lbfgs.KernelLbfgs",
        "evenmargin.solvers.kernel_sgd.KernelSGD",
        "evenmargin.solvers.lbfgs.Lbfgs",
        "evenmargin.solvers.nesterov.Nesterov",
        "evenmargin.solvers.newton.Newton",
        "evenmargin.solvers.pegasos.Pegasos",
        "evenmargin.solvers.smo.SMO",
        "evenmargin.stopping.AUCHalting",
        "evenmargin.zsvm.ZAdjustedClassifier",
        # What stands around our machines in a pipeline or a search, and is no estimator.
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.compose._column_transformer.make_column_selector",
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.metrics._scorer._Scorer",
        "sklearn.model_selection._split.GroupKFold",
        "sklearn.model_selection._split.KFold",
        "sklearn.model_selection._split.RepeatedKFold",
        "sklearn.model_selection._split.RepeatedStratifiedKFold",
        "sklearn.model_selection._split.ShuffleSplit",
        "sklearn.model_selection._split.StratifiedGroupKFold",
        "sklearn.model_selection._split.StratifiedKFold",
        "sklearn.model_selection._split.StratifiedShuffleSplit",
        "sklearn.model_selection._split.TimeSeriesSplit",
        "sklearn.utils._metadata_requests.MetadataRequest",
        "sklearn.utils._metadata_requests.MethodMetadataRequest",
    ),
    "TupleNode": (
        "evenmargin.losses.Blinex",
        "evenmargin.losses.Hinge",
        "evenmargin.losses.Log",
        "evenmargin.losses.SquaredHinge",
    ),
    "FunctionNode": (
        "evenmargin._tables._numbers",
        "evenmargin.operating._recall",
        "evenmargin.operating._specificity",
        "evenmargin.papers._printed_twice",
        # What the named scorers of classifiers measure.
        "sklearn.metrics._classification.accuracy_score",
        "sklearn.metrics._classification.balanced_accuracy_score",
        "sklearn.metrics._classification.brier_score_loss",
        "sklearn.metrics._classification.f1_score",
        "sklearn.metrics._classification.fbeta_score",
        "sklearn.metrics._classification.jaccard_score",
        "sklearn.metrics._classification.log_loss",
        "sklearn.metrics._classification.matthews_corrcoef",
        "sklearn.metrics._classification.precision_score",
        "sklearn.metrics._classification.recall_score",
        "sklearn.metrics._ranking.average_precision_score",
        "sklearn.metrics._ranking.roc_auc_score",
        "sklearn.metrics._ranking.top_k_accuracy_score",
    ),
    "TypeNode": (
        "sklearn.model_selection._split.KFold",
        "sklearn.model_selection._split.StratifiedKFold",
    ),
    "DTypeNode": ("numpy.dtype",),
    "SparseMatrixNode": (
        "scipy.sparse._csc.csc_array",
        "scipy.sparse._csc.csc_matrix",
        "scipy.sparse._csr.csr_array",
        "scipy.sparse._csr.csr_matrix",
    ),
})  # fmt: skip
_OURS = frozenset(name for names in TRUSTED.values() for name in names)

# Values that skops makes without a look at the name, or by calling it: the name must be this.
_NAMED = {
    "JsonNode": ("builtins.str",),
    "ListNode": ("builtins.list",),
    "SetNode": ("builtins.set",),
    "SliceNode": ("builtins.slice",),
    "BytesNode": ("builtins.bytes",),
    "BytearrayNode": ("builtins.bytearray",),
    "DefaultDictNode": ("collections.defaultdict",),
    "MaskedArrayNode": ("numpy.ma.MaskedArray",),
    "RandomStateNode": ("numpy.random.mtrand.RandomState",),
}
_VALUES = ("JsonNode", "TypeNode", "FunctionNode", "SliceNode", "TupleNode")  # which need not be the same object again
_KINDS = {*_NAMED, *TRUSTED, "DictNode", "LossNode", "NdArrayNode", "TreeNode"}
_NEVER = {  # since skops would call what the file names
    "MethodNode": "a bound method",
    "PartialNode": "a partial function",
    "OperatorFuncNode": "an operator",
    "ConstructorFromReduceNode": "an object that is built by calling its class",
    "RandomGeneratorNode": "a numpy.random.Generator",
}


class ModelFileError(ValueError):
    """A file that is no sound model file, or a model that cannot be one; the message is one sentence."""


class _Untrusted(Exception):
    """Names in a file that are not on the list."""


@dataclass(frozen=True)
class Manifest:
    """What a model file says of itself.

    Attributes
    ----------
    model : str
        The class of the model.
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
        """What it says in words: title and text of each line; `print(manifest)` shows them."""
        made_with = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return [("model", self.model), ("saved", self.saved), ("saved with", made_with)]

    def __str__(self) -> str:
        return "\n".join(f"{title:<12}{text}" for title, text in self.summary())


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    notes: dict[str, Any] | None = None,
    trusted: Iterable[str | Callable[..., Any]] = (),
) -> Path:
    """Write a model to a file that can be loaded without trusting who sends it.

    Before anything is written, the model is taken apart, put together again and refused if
    that fails. The file appears whole or not at all. The same model gives the same
    bytes, but for the time; SOURCE_DATE_EPOCH in the environment sets that.

    Parameters
    ----------
    model : estimator
        Of this package or scikit-learn, or a pipeline or search of them; fitted or not.
    path : path-like
        Usually with the suffix .skops.
    notes : dict or None, default=None
        Travels along; see `read_manifest`. It comes back as JSON has it: tuples as
        lists, keys as strings.
    trusted : iterable of str, types or functions, default=()
        Classes and functions from elsewhere that the model holds, or their full names.
        `load` must be given them too.

    Returns
    -------
    Path

    Raises
    ------
    ModelFileError
        Where the model holds what no file can: a lambda, a function or a class that
        is not trusted.

    See Also
    --------
    load : The way back, and what is checked there.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_breast_cancer
    >>> from evenmargin import LinearSVM
    >>> from evenmargin.persistence import load, read_manifest, save
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVM(class_weight="balanced", C=1e-4).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(model, Path(folder) / "tumours.skops", notes={"target": "benign"})
    ...     read_manifest(path).notes, bool((load(path).predict(X) == model.predict(X)).all())
    ({'target': 'benign'}, True)
    """
    known = _names(trusted)
    if isinstance(model, type) or not hasattr(model, "get_params"):
        what = f"the class {model.__name__}" if isinstance(model, type) else f"a {_full_name(type(model))}"
        raise ModelFileError(f"save takes an estimator, such as LinearSVM().fit(X, y), and this is {what}.")
    check_place(path)
    return replace_file(path, _packed(model, _manifest(model, notes), known))


def load(path: str | os.PathLike[str], *, trusted: Iterable[str | Callable[..., Any]] = ()) -> Any:
    """The model in a file that `save` wrote. No code of the file runs.

    The checksum finds files that were damaged; a list of trusted types keeps out what a forger
    may have put in: see the module for what is checked. Pickles are refused.

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
    FileNotFoundError
    ModelFileError
        For anything that is not a sound model file.

    Warns
    -----
    UserWarning
        Where it was saved with a newer evenmargin, or another scikit-learn.

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
    known = _names(trusted)
    with _opened(path) as content:
        manifest = _read_manifest(content)
        try:
            model = _built(content, known)
        except _Untrusted as error:
            raise ModelFileError(
                f"{path} holds what is not trusted ({_listed(error.args[0])}), so nothing of it was built: "
                "if this is your own code, name it in trusted=."
            ) from None
        if _full_name(type(model)) != manifest.model:
            raise ModelFileError(f"{path} holds a {_full_name(type(model))} and says that it is a {manifest.model}.")
        differing = _differing(manifest)
    if differing:
        warnings.warn(
            f"{path} was saved with {differing}: predictions may differ, so compare some, or save the model again.",
            UserWarning,
            stacklevel=2,
        )
    return model


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """What a model file says of itself, its checksum verified, without building the model.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Manifest

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from evenmargin import LinearSVM
    >>> from evenmargin.persistence import read_manifest, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_manifest(save(LinearSVM(), Path(folder) / "machine.skops")).model
    'evenmargin.linear.LinearSVM'
    """
    with _opened(path) as content:
        return _read_manifest(content)


# --- names ---


def _full_name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _names(trusted: Any) -> frozenset[str]:
    """Full names of what the user trusts."""
    given = None if isinstance(trusted, str | bool) or not isinstance(trusted, Iterable) else list(trusted)
    if given is None or not all(isinstance(one, str) or hasattr(one, "__qualname__") for one in given):
        raise ModelFileError(f"trusted={trusted!r} must be a list of full names, such as ['shop.features.Ratio'].")
    return frozenset(one if isinstance(one, str) else _full_name(one) for one in given)


def _listed(names: Iterable[str]) -> str:
    names = sorted(names)
    return ", ".join(name[:100] for name in names[:5]) + (", …" if len(names) > 5 else "")


# --- the manifest ---


def _manifest(model: Any, notes: dict[str, Any] | None) -> bytes:
    import sklearn
    import skops

    if not isinstance(notes, dict | None):
        raise ModelFileError(f"notes must be a dict, and this is a {type(notes).__name__}.")
    moment = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), UTC)
    manifest = {
        "format": FORMAT,
        "model": _full_name(type(model)),
        "saved": moment.isoformat(),
        "versions": {
            "evenmargin": __version__,
            "python": platform.python_version(),
            "scikit-learn": sklearn.__version__,
            "numpy": np.__version__,
            "skops": skops.__version__,
        },
        "notes": notes or {},
    }
    try:
        return json.dumps(manifest, indent=1, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"notes must be something that JSON can hold ({error}).") from None


def _read_manifest(content: bytes) -> Manifest:
    """The manifest of a verified file."""
    stated = json.loads(_members(content, only=_MANIFEST)[_MANIFEST])
    _require(re.fullmatch(r"[\w.]{1,200}", stated["model"]) is not None, "the name of its class is none")
    _require({"evenmargin", "scikit-learn"} <= set(stated["versions"]), "it does not say who wrote it")
    for text in (*stated["versions"], *stated["versions"].values()):
        _require(re.fullmatch(r"[\w.+-]{1,50}", text) is not None, "a version of it is none")
    _require(isinstance(stated["notes"], dict), "its notes are no dict")
    moment = datetime.fromisoformat(stated["saved"]).isoformat()
    return Manifest(stated["model"], moment, stated["versions"], stated["notes"], _whole(stated["format"]))


def _differing(manifest: Manifest) -> str:
    """Versions that matter, where they are not those of today."""
    import sklearn

    theirs, found = manifest.versions, []
    if _release(theirs["evenmargin"]) > _release(__version__):
        found.append(f"evenmargin {theirs['evenmargin']} (this is {__version__})")
    if _release(theirs["scikit-learn"])[:2] != _release(sklearn.__version__)[:2]:
        found.append(f"scikit-learn {theirs['scikit-learn']} (this is {sklearn.__version__})")
    return " and ".join(found)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


# --- from a model to bytes ---


def _packed(model: Any, manifest: bytes, known: frozenset[str]) -> bytes:
    """The file of a model, tried out."""
    import skops.io

    name = type(model).__name__
    try:
        written = skops.io.dumps(model)
    except RecursionError:
        raise ModelFileError(f"This {name} cannot be saved: it holds itself, or is nested too deeply.") from None
    except Exception:  # skops raises what the object at hand raises
        raise ModelFileError(f"This {name} cannot be saved: {_culprit(model)}.") from None
    try:
        content = _sealed({_MANIFEST: manifest, **_canonical(written)})
        _built(content, known)
    except _Untrusted as error:
        raise ModelFileError(
            f"This {name} cannot be saved, since it holds what is not trusted ({_listed(error.args[0])}): code that "
            "can be imported may be named in trusted=, here and in load."
        ) from None
    except Exception as error:
        raise ModelFileError(f"This {name} cannot be saved, since it could not be loaded: {_said(error)}.") from None
    return content


def _culprit(value: Any, place: str = "it", depth: int = 10) -> str:
    """The innermost part that skops does not take, in words."""
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
    return f"{place} is a {_full_name(type(value))}, which skops does not take"


def _canonical(written: bytes) -> dict[str, bytes]:
    """What skops wrote, the same for the same model: skops names things by where they lay in memory."""
    with ZipFile(io.BytesIO(written)) as archive:
        schema = _parsed(archive.read(_SCHEMA))
        files = {name: archive.read(name) for name in archive.namelist() if name != _SCHEMA}
    settled = _Settled()
    schema = settled.part(schema)
    arrays = {
        new: _stored(files[old]) if new.endswith(".npz") else files[old] for old, new in settled.files.items()
    }  # fmt: skip
    return {_SCHEMA: json.dumps(schema, separators=(",", ":")).encode(), **arrays}


class _Settled:
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
    _require(len(kept) == len(kinds), "a dict has keys that JSON cannot tell apart")
    return kept


def _stored(matrix: bytes) -> bytes:
    """A sparse matrix without a compression of its own inside that of the file."""
    from scipy.sparse import load_npz, save_npz

    out = io.BytesIO()
    save_npz(out, load_npz(io.BytesIO(matrix)), compressed=False)
    return out.getvalue()


def _zipped(members: dict[str, bytes], ways: dict[str, int]) -> io.BytesIO:
    out = io.BytesIO()
    with ZipFile(out, "w") as archive:
        for name, content in members.items():
            info = ZipInfo(name, _START)
            info.create_system = 3  # whatever the system is
            archive.writestr(info, content, ways.get(name, ZIP_STORED))
        archive.comment = b" " * len(_seal(b""))
    return out


def _ways(members: dict[str, bytes]) -> dict[str, int]:
    """How to compress each member: where it gains something, and so that `load` takes it for no bomb."""
    import zlib

    small = sum(map(len, members.values())) <= _ROOM

    def shrinks(content: bytes) -> bool:
        start = content[: 2**20]
        if len(zlib.compress(start, 1)) > 0.9 * len(start):
            return False
        return small or len(zlib.compress(content, 1)) * _RATIO > 2 * len(content)

    return {name: ZIP_DEFLATED for name, content in members.items() if shrinks(content)}


def _seal(body: Any) -> bytes:
    return f"evenmargin-model {FORMAT} sha256:{hashlib.sha256(body).hexdigest()}".encode()


def _sealed(members: dict[str, bytes]) -> bytes:
    content = _zipped(members, _ways(members)).getbuffer()
    body = content[: -len(_seal(b""))]
    return b"".join([body, _seal(body)])


# --- from a file to bytes that can be trusted to be what was written ---


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The bytes of a sound file; whatever goes wrong with them is said in one sentence."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        yield _verified(Path(path))
    except ModelFileError:
        raise
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # of zipfile, json, NumPy, skops: whatever a forged file provokes
        raise ModelFileError(f"{path} is not a sound model file ({type(error).__name__}: {_said(error)}).") from error


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".")


def _verified(path: Path) -> bytes:
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder, and not a model file.")
    if not path.is_file():
        raise ModelFileError(f"{path} is a device or a pipe, and not a model file.")
    length = len(_seal(b"")) + 5  # for formats of more digits
    with path.open("rb") as file:
        head = file.read(1024)
        file.seek(max(0, os.fstat(file.fileno()).st_size - length))
        seal = _SEAL.search(file.read())
        if seal is None:
            raise ModelFileError(f"{path} {_what_it_is(head)}")
        file.seek(0)
        content = file.read()
    body = memoryview(content)[: -len(seal[0])]
    if hashlib.sha256(body).hexdigest().encode() != seal[2]:
        raise ModelFileError(f"{path} is damaged, its checksum is wrong: copy it again, or save the model again.")
    if int(seal[1]) != FORMAT:
        raise ModelFileError(
            f"{path} was written by {_writer(content)} (format {int(seal[1])}), and this is evenmargin {__version__}, "
            f"which reads format {FORMAT}: upgrade evenmargin."
        )
    return content


def _writer(content: bytes) -> str:
    """Who wrote a file of a later format, if it can be told."""
    try:
        version = json.loads(_members(content, only=_MANIFEST)[_MANIFEST])["versions"]["evenmargin"]
        return f"evenmargin {re.fullmatch('[0-9a-z.+]{1,30}', version)[0]}"  # type: ignore[index]
    except Exception:
        return "a newer evenmargin"


def _what_it_is(head: bytes) -> str:
    """What a file without a seal may be, and what to do about it."""
    if not head:
        return "is empty, and no model file."
    if _is_pickle(head) or any(_is_pickle(_start_of(head, make)) for make in _decompressors(head)):
        return (
            "is a pickle, which can run any code when it is opened, so it was not: if you trust where it is from, "
            "load it with joblib or pickle yourself, and save the model with evenmargin.save."
        )
    if head.startswith(b"PK\x03\x04"):
        if head[30 : 30 + len(_MANIFEST)] == _MANIFEST.encode():
            return "is damaged, its end is missing: copy it again, or save the model again."
        return "is a zip, but not a model that evenmargin.save wrote."
    return "is not a model file that evenmargin.save wrote."


def _is_pickle(head: bytes) -> bool:
    return (head[:1] == b"\x80" and head[1:2] <= b"\x08") or head.startswith((b"ccopy_reg\n", b"ccopyreg\n"))


def _decompressors(head: bytes) -> list[Callable[[], Any]]:
    """For what joblib compresses with."""
    import bz2
    import lzma
    import zlib

    if head[:2] == b"\x1f\x8b":
        return [lambda: zlib.decompressobj(31)]
    if head[:1] == b"\x78":
        return [zlib.decompressobj]
    if head[:3] == b"BZh":
        return [bz2.BZ2Decompressor]
    return [lzma.LZMADecompressor] if head[:6] == b"\xfd7zXZ\x00" or head[:3] == b"\x5d\x00\x00" else []


def _start_of(head: bytes, make: Callable[[], Any]) -> bytes:
    try:
        return bytes(make().decompress(head, 64))
    except Exception:  # not compressed after all, or not enough of it
        return b""


# --- from bytes to a model ---


def _require(fine: bool, what: str) -> None:
    if not fine:
        raise ValueError(what)


def _whole(value: Any) -> int:
    _require(type(value) is int, f"{str(value)[:50]!r} is no whole number")
    return int(value)


def _members(content: bytes, only: str | None = None) -> dict[str, bytes]:
    """The members of the archive, none longer than it says."""
    with ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        names = [info.filename for info in infos]
        _require(len(set(names)) == len(names), "two of its members have one name")
        _require(all(map(_MEMBER.fullmatch, names)), "one of its members has an odd name")
        total = sum(info.file_size for info in infos)
        _require(total <= max(_ROOM, _RATIO * len(content)), f"it unpacks to more than {_RATIO} times its size")
        return {info.filename: _unpacked(archive, info) for info in infos if only in (None, info.filename)}


def _unpacked(archive: ZipFile, info: ZipInfo) -> bytes:
    """A member. Without a length, zipfile would unpack all there is, whatever the header says."""
    _require(info.compress_type in (ZIP_STORED, ZIP_DEFLATED), "it is compressed in an odd way")
    with archive.open(info) as member:
        content = member.read(info.file_size)
    _require(len(content) == info.file_size, "one of its members is shorter than it says")
    return content


def _parsed(schema: bytes) -> Any:
    """JSON of a bounded size in memory, without keys that come twice."""
    _require(schema.count(b"{") + schema.count(b"[") <= _PARTS, f"it has more than {_PARTS:,} parts")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        unique = dict(pairs)
        _require(len(unique) == len(pairs), "a dict has keys that JSON cannot tell apart")
        return unique

    return json.loads(schema, object_pairs_hook=once)


def _built(content: bytes, known: frozenset[str]) -> Any:
    """The model, once everything in the file has been looked at."""
    import skops.io
    from sklearn.exceptions import InconsistentVersionWarning
    from skops.io.exceptions import UntrustedTypesFoundException

    members = _members(content)
    schema = _parsed(members[_SCHEMA])
    _require(_whole(schema["protocol"]) >= 2, "it is of an old skops protocol")  # whose readers are laxer
    audit = _Audit(members, known)
    audit.look(schema)
    trusted = sorted(audit.names & (known | _OURS))
    plain = _zipped(members, {})
    del members, schema, audit  # skops will hold them once more
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentVersionWarning)  # for each part; `load` says it once
            return skops.io.load(plain, trusted=trusted)
    except UntrustedTypesFoundException:
        found = skops.io.get_untrusted_types(data=plain.getvalue())
        raise _Untrusted(set(found) - set(trusted)) from None


class _Audit:
    """A look at all of schema.json before skops builds any of it.

    Skops has a list of trusted types too. This one is narrower, and does not rest on how
    skops goes through the file.
    """

    def __init__(self, members: dict[str, bytes], known: frozenset[str]) -> None:
        self.members, self.known = members, known
        self.names: set[str] = set()
        self._seen: dict[int, dict[str, Any]] = {}
        self._checked: set[tuple[str, str]] = set()

    def look(self, value: Any, depth: int = 0) -> None:
        _require(depth <= _DEPTH, f"it is nested more than {_DEPTH} deep")
        if isinstance(value, list):
            for part in value:
                self.look(part, depth + 1)
        if not isinstance(value, dict):
            return
        if value.keys() & {"__loader__", "__class__", "__module__", "__id__"} and not self._look_at_node(value):
            return
        for part in value.values():
            self.look(part, depth + 1)

    def _look_at_node(self, node: dict[str, Any]) -> bool:
        """Check a part of the model; whether it is a new one."""
        texts = [node.get(key) for key in ("__loader__", "__module__", "__class__")]
        _require(all(isinstance(text, str) for text in texts), "a part of it has no type")
        kind, full = str(texts[0]), f"{texts[1]}.{texts[2]}"
        # A part that comes again must be the same again: else what is checked would not be what is built.
        if "__id__" in node:
            before = self._seen.setdefault(_whole(node["__id__"]), node)
            if before is not node:
                _require(before == node, "two of its parts have one number")
                return False
        _require(kind in _KINDS, f"it holds {_NEVER.get(kind, f'a part of kind {kind[:50]}')}, which no model file may")
        misplaced = full in _OURS and full not in TRUSTED.get(kind, ()) and full not in self.known
        if misplaced or full not in _NAMED.get(kind, (full,)):
            raise _Untrusted({full})
        self.names.add(full)
        check = getattr(self, f"_{kind}", None)
        if check is not None:
            check(node, full)
        return True

    def _file(self, node: dict[str, Any], check: Callable[[bytes], None]) -> None:
        entry = (node["__loader__"], node["file"])
        if entry not in self._checked:
            check(self.members[node["file"]])
            self._checked.add(entry)

    def _NdArrayNode(self, node: dict[str, Any], full: str) -> None:
        _require(full.startswith("numpy."), "an array of it is none")  # it is called with the array
        if node.get("type") == "numpy":
            self._file(node, _check_array)

    def _SparseMatrixNode(self, node: dict[str, Any], full: str) -> None:
        self._file(node, _check_sparse)

    def _DictNode(self, node: dict[str, Any], full: str) -> None:
        keys = node["key_types"]  # skops calls them
        _require(keys["__loader__"] == "ListNode", "a dict of it has odd keys")
        for key in keys["content"]:
            _require(key["__loader__"] == "TypeNode", "a dict of it has odd keys")
            _require(key["__module__"] in ("builtins", "numpy"), "a dict of it has odd keys")

    def _RandomStateNode(self, node: dict[str, Any], full: str) -> None:
        # NumPy reads beyond its memory from a place that is not among its 624 numbers.
        place = node["content"]
        for key in ("state", "pos"):
            _require(place["__loader__"] == "DictNode", "a random state of it is none")
            place = place["content"][key]
        _require(place["__loader__"] == "JsonNode", "a random state of it is none")
        _require(0 <= _whole(json.loads(place["content"])) <= 624, "a random state of it is none")


def _check_array(content: bytes) -> None:
    """An array is as long as it says, and holds no objects."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    file = io.BytesIO(content)
    shape, _, dtype = readers[np.lib.format.read_magic(file)](file)
    count = math.prod(shape)
    _require(not dtype.hasobject and (dtype.itemsize > 0 or count == 0), "an array of it holds no numbers")
    _require(count * dtype.itemsize == len(content) - file.tell(), "an array of it is not as long as it says")


def _check_sparse(content: bytes) -> None:
    """A sparse matrix whose indices are within its shape: compiled code will trust them."""
    from scipy.sparse import load_npz

    with ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            _require(info.compress_type == ZIP_STORED, "a matrix of it is compressed")
            _check_array(_unpacked(archive, info))
    matrix = load_npz(io.BytesIO(content))
    _require(matrix.format in ("csr", "csc"), "a matrix of it is neither CSR nor CSC")
    matrix.check_format(full_check=True)
