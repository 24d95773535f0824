"""What a model file may ask for, by name: this package's types by their names in `types`, others by their place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from importlib import import_module
from types import MappingProxyType
from typing import Any

from . import types
from ._file import ModelFileError
from .types import full_name


def _all_in(module: str, names: str) -> tuple[str, ...]:
    return tuple(f"{module}.{name}" for name in names.split())


# What may be built, by the way in which skops builds it, beside estimators of scikit-learn, ufuncs and plain values.
TRUSTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ObjectNode": (
            *_all_in(types.__name__, " ".join(types.OBJECTS)),
            # What stands around our machines in a pipeline or a search, and is no estimator.
            *_all_in("sklearn._loss.link", "HalfLogitLink IdentityLink Interval LogLink LogitLink MultinomialLogit"),
            *_all_in(
                "sklearn._loss.loss",
                "AbsoluteError ExponentialLoss HalfBinomialLoss HalfGammaLoss HalfMultinomialLoss HalfPoissonLoss "
                "HalfSquaredError HuberLoss PinballLoss",
            ),
            *_all_in("sklearn.calibration", "_CalibratedClassifier _SigmoidCalibration"),
            "sklearn.compose._column_transformer.make_column_selector",
            *_all_in("sklearn.metrics._scorer", "_PassthroughScorer _Scorer"),
            *_all_in(
                "sklearn.model_selection._split",
                "GroupKFold KFold RepeatedKFold RepeatedStratifiedKFold ShuffleSplit StratifiedGroupKFold "
                "StratifiedKFold StratifiedShuffleSplit TimeSeriesSplit",
            ),
            *_all_in("sklearn.utils._metadata_requests", "MetadataRequest MethodMetadataRequest"),
        ),
        "TupleNode": _all_in(types.__name__, " ".join(types.TUPLES)),
        "FunctionNode": (
            *_all_in(types.__name__, " ".join(types.FUNCTIONS)),
            # What the named scorers of classifiers measure.
            *_all_in(
                "sklearn.metrics._classification",
                "accuracy_score balanced_accuracy_score brier_score_loss f1_score fbeta_score jaccard_score log_loss "
                "matthews_corrcoef precision_score recall_score",
            ),
            *_all_in("sklearn.metrics._ranking", "average_precision_score roc_auc_score top_k_accuracy_score"),
        ),
        "TypeNode": _all_in("sklearn.model_selection._split", "KFold StratifiedKFold"),
        "LossNode": (
            *_all_in(
                "sklearn._loss._loss",
                "CyAbsoluteError CyExponentialLoss CyHalfBinomialLoss CyHalfGammaLoss CyHalfMultinomialLoss "
                "CyHalfPoissonLoss CyHalfSquaredError CyHalfTweedieLoss CyHalfTweedieLossIdentity CyHuberLoss "
                "CyPinballLoss",
            ),
            *_all_in(
                "sklearn.linear_model._sgd_fast",
                "EpsilonInsensitive Hinge ModifiedHuber SquaredEpsilonInsensitive SquaredHinge",
            ),
        ),
        "DTypeNode": ("numpy.dtype",),
        "SparseMatrixNode": (
            *_all_in("scipy.sparse._csc", "csc_array csc_matrix"),
            *_all_in("scipy.sparse._csr", "csr_array csr_matrix"),
        ),
    }
)
LISTED = frozenset(name for names in TRUSTED.values() for name in names)

_SCALARS = frozenset(
    _all_in(
        "numpy",
        "bool bytes_ clongdouble complex64 complex128 datetime64 float16 float32 float64 int8 int16 int32 int64 intc "
        "long longdouble longlong str_ timedelta64 uint8 uint16 uint32 uint64 uintc ulong ulonglong",
    )
)

# What the keys of a dict may be: skops calls the type of each.
KEYS = _SCALARS | {"builtins.bool", "builtins.float", "builtins.int", "builtins.str"}

# Plain values, and what the user may add to.
_PLAIN: Mapping[str, Set[str]] = {
    "DictNode": {"builtins.dict", "collections.OrderedDict"},
    "NdArrayNode": _SCALARS | {"numpy.ndarray"},
    "TupleNode": {"builtins.tuple"},
    "TypeNode": KEYS | {"builtins.list", "builtins.set", "builtins.tuple", "numpy.object_", "numpy.void"},
}

# Values that skops makes without a look at the name, or by calling it: the name must be this, whatever the user trusts.
_FIXED = {
    "BytearrayNode": "builtins.bytearray",
    "BytesNode": "builtins.bytes",
    "DefaultDictNode": "collections.defaultdict",
    "JsonNode": "builtins.str",
    "ListNode": "builtins.list",
    "MaskedArrayNode": "numpy.ma.MaskedArray",
    "RandomStateNode": "numpy.random.mtrand.RandomState",
    "SetNode": "builtins.set",
    "SliceNode": "builtins.slice",
    "TreeNode": "sklearn.tree._tree.Tree",  # a forged one can crash Python, so the user must trust it, too
}
KINDS = {*TRUSTED, *_PLAIN, *_FIXED}
NEVER = {  # since skops would call what the file names
    "MethodNode": "a bound method",
    "PartialNode": "a partial function",
    "OperatorFuncNode": "an operator",
    "ConstructorFromReduceNode": "an object that is built by calling its class",
    "RandomGeneratorNode": "a numpy.random.Generator",
}


class Untrusted(Exception):
    """Names in a file that are not on the list."""


def is_trusted(kind: str, module: str, name: str, known: frozenset[str]) -> bool:
    """Say whether a file may ask for this if the user trusts `known`; import nothing but scikit-learn."""
    full = f"{module}.{name}"
    if "." in name:  # a name in other halves
        return False
    if kind in _FIXED:
        return full == _FIXED[kind] and (kind != "TreeNode" or full in known)
    if full in TRUSTED.get(kind, ()) or full in _PLAIN.get(kind, ()) or full in known:
        return True
    if kind == "ObjectNode":
        return _is_estimator(module, name)
    return kind == "FunctionNode" and _is_ufunc(module, name)


def _is_estimator(module: str, name: str) -> bool:
    """Say whether this is an estimator of scikit-learn, under its own name."""
    from sklearn.base import BaseEstimator

    places = module.split(".")
    if places[0] != "sklearn" or {"conftest", "experimental", "externals", "tests"} & set(places):
        return False
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        return False
    return isinstance(found, type) and issubclass(found, BaseEstimator) and full_name(found) == f"{module}.{name}"


def _is_ufunc(module: str, name: str) -> bool:
    """Say whether this is a function of numbers that NumPy or SciPy compiled."""
    import numpy as np
    from scipy import special

    home = np if module == "numpy" else special if re.fullmatch(r"scipy\.special\._\w*ufuncs", module) else None
    return isinstance(getattr(home, name, None), np.ufunc)


def names_of(trusted: Any) -> frozenset[str]:
    """List the full names of what the user trusts."""
    every = list(trusted) if isinstance(trusted, Iterable) and not isinstance(trusted, str) else [None]
    if not all(isinstance(one, str) or hasattr(one, "__qualname__") for one in every):
        raise ModelFileError(f"trusted={trusted!r} must be a list of full names, such as ['shop.features.Ratio'].")
    return frozenset(one if isinstance(one, str) else full_name(one) for one in every)


def listed(names: Iterable[str]) -> str:
    names = sorted(names)
    return ", ".join(name[:100] for name in names[:5]) + (", …" if len(names) > 5 else "")
