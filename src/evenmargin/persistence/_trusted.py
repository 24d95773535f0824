"""What a model file may ask for, by name.

A new loss, kernel, solver or other part of a model is added to `TRUSTED`; else no model that holds
it can be saved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from importlib import import_module
from types import MappingProxyType
from typing import Any

from ._file import ModelFileError

__all__ = [
    "KEYS", "KINDS", "NEVER", "OURS", "TRUSTED", "Untrusted", "full_name", "is_trusted", "listed", "names_of",
]  # fmt: skip

# What may be built, by the way in which skops builds it, beside estimators of scikit-learn, ufuncs and plain values.
TRUSTED: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "ObjectNode": (
        "evenmargin.auto.committee.Committee",
        "evenmargin.auto.committee.Expansion",
        "evenmargin.auto.committee.Member",
        "evenmargin.auto.committee.Plan",
        "evenmargin.auto.detector.Detector",
        "evenmargin._tables.frames.Column",
        "evenmargin._tables.frames.PlainFrame",
        "evenmargin._tables.encoder.TableEncoder",
        "evenmargin.auto.views.PiecewiseLinear",
        "evenmargin.auto.views.QuantileNormal",
        "evenmargin.auto.views.Standard",
        "evenmargin.metrics.BalancedAccuracy",
        "evenmargin.metrics.CostMatrix",
        "evenmargin.metrics.FBeta",
        "evenmargin.metrics.GMean",
        "evenmargin.metrics.MCC",
        "evenmargin.auto.classifier.EvenMarginClassifier",
        "evenmargin.auto.classifier.Summary",
        "evenmargin.auto.classifier._Fitted",
        "evenmargin.density.weights.DensityWeights",
        "evenmargin.kernel.KernelSVM",
        "evenmargin.kernels.kernels.Exponential",
        "evenmargin.kernels.kernels.Function",
        "evenmargin.kernels.kernels.Laplacian",
        "evenmargin.kernels.kernels.Linear",
        "evenmargin.kernels.kernels.Poly",
        "evenmargin.kernels.kernels.Precomputed",
        "evenmargin.kernels.kernels.RBF",
        "evenmargin.kernels.kernels.Sigmoid",
        "evenmargin.selection.learned.LearnedWeights",
        "evenmargin.linear.LinearSVM",
        "evenmargin.neural.estimators.DensityWeightedMLPClassifier",
        "evenmargin.neural.estimators.DensityWeightedMLPRegressor",
        "evenmargin.nystroem.StratifiedNystroem",
        "evenmargin.operating.calibration.Calibrator",
        "evenmargin.operating.objectives.Floor",
        "evenmargin.operating.objectives.Objective",
        "evenmargin.problem.Solution",
        "evenmargin.sampling.ClassBalanced",
        "evenmargin.sampling.Given",
        "evenmargin.sampling.Uniform",
        "evenmargin.selection.search.SharedGridSearch",
        "evenmargin.solvers.dual_cd.DualCD",
        "evenmargin.solvers.kernel_lbfgs.KernelLbfgs",
        "evenmargin.solvers.kernel_sgd.KernelSGD",
        "evenmargin.solvers.lbfgs.Lbfgs",
        "evenmargin.solvers.nesterov.Nesterov",
        "evenmargin.solvers.newton.Newton",
        "evenmargin.solvers.outcome.Progress",
        "evenmargin.solvers.outcome.Resumption",
        "evenmargin.solvers.outcome.TaskProgress",
        "evenmargin.solvers.pegasos.Pegasos",
        "evenmargin.solvers.smo.SMO",
        "evenmargin.stopping.AUCHalting",
        "evenmargin.zsvm.ZAdjustedClassifier",
        # What stands around our machines in a pipeline or a search, and is no estimator.
        "sklearn._loss.link.HalfLogitLink",
        "sklearn._loss.link.IdentityLink",
        "sklearn._loss.link.Interval",
        "sklearn._loss.link.LogLink",
        "sklearn._loss.link.LogitLink",
        "sklearn._loss.link.MultinomialLogit",
        "sklearn._loss.loss.AbsoluteError",
        "sklearn._loss.loss.ExponentialLoss",
        "sklearn._loss.loss.HalfBinomialLoss",
        "sklearn._loss.loss.HalfGammaLoss",
        "sklearn._loss.loss.HalfMultinomialLoss",
        "sklearn._loss.loss.HalfPoissonLoss",
        "sklearn._loss.loss.HalfSquaredError",
        "sklearn._loss.loss.HuberLoss",
        "sklearn._loss.loss.PinballLoss",
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
        "evenmargin._tables.encoder.as_numbers",
        "evenmargin.metrics.recall",
        "evenmargin.metrics.specificity",
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
    "LossNode": (
        "sklearn._loss._loss.CyAbsoluteError",
        "sklearn._loss._loss.CyExponentialLoss",
        "sklearn._loss._loss.CyHalfBinomialLoss",
        "sklearn._loss._loss.CyHalfGammaLoss",
        "sklearn._loss._loss.CyHalfMultinomialLoss",
        "sklearn._loss._loss.CyHalfPoissonLoss",
        "sklearn._loss._loss.CyHalfSquaredError",
        "sklearn._loss._loss.CyHalfTweedieLoss",
        "sklearn._loss._loss.CyHalfTweedieLossIdentity",
        "sklearn._loss._loss.CyHuberLoss",
        "sklearn._loss._loss.CyPinballLoss",
        "sklearn.linear_model._sgd_fast.EpsilonInsensitive",
        "sklearn.linear_model._sgd_fast.Hinge",
        "sklearn.linear_model._sgd_fast.ModifiedHuber",
        "sklearn.linear_model._sgd_fast.SquaredEpsilonInsensitive",
        "sklearn.linear_model._sgd_fast.SquaredHinge",
    ),
    "DTypeNode": ("numpy.dtype",),
    "SparseMatrixNode": (
        "scipy.sparse._csc.csc_array",
        "scipy.sparse._csc.csc_matrix",
        "scipy.sparse._csr.csr_array",
        "scipy.sparse._csr.csr_matrix",
    ),
})  # fmt: skip
OURS = frozenset(name for names in TRUSTED.values() for name in names)

_SCALARS = frozenset(
    f"numpy.{name}"
    for name in (
        "bool", "bytes_", "clongdouble", "complex64", "complex128", "datetime64", "float16", "float32", "float64",
        "int8", "int16", "int32", "int64", "intc", "long", "longdouble", "longlong", "str_", "timedelta64",
        "uint8", "uint16", "uint32", "uint64", "uintc", "ulong", "ulonglong",
    )
)  # fmt: skip

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
}
_TREE = "sklearn.tree._tree.Tree"  # which is built whatever the name is
KINDS = {*TRUSTED, *_PLAIN, *_FIXED, "TreeNode"}
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
    """Whether a file may ask for this, the user trusting what is known. Imports nothing but scikit-learn."""
    full = f"{module}.{name}"
    if "." in name:  # a name in other halves
        return False
    if kind in _FIXED:
        return full == _FIXED[kind]
    if kind == "TreeNode":
        return full == _TREE and full in known
    if full in TRUSTED.get(kind, ()) or full in _PLAIN.get(kind, ()) or full in known:
        return True
    if kind == "ObjectNode":
        return _is_estimator(module, name)
    return kind == "FunctionNode" and _is_ufunc(module, name)


def _is_estimator(module: str, name: str) -> bool:
    """Whether this is an estimator of scikit-learn, under its own name."""
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
    """Whether this is a function of numbers that NumPy or SciPy compiled."""
    import numpy as np
    from scipy import special

    home = np if module == "numpy" else special if re.fullmatch(r"scipy\.special\._\w*ufuncs", module) else None
    return isinstance(getattr(home, name, None), np.ufunc)


# --- names ---


def full_name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def names_of(trusted: Any) -> frozenset[str]:
    """Full names of what the user trusts."""
    given = None if isinstance(trusted, str | bool) or not isinstance(trusted, Iterable) else list(trusted)
    if given is None or not all(isinstance(one, str) or hasattr(one, "__qualname__") for one in given):
        raise ModelFileError(f"trusted={trusted!r} must be a list of full names, such as ['shop.features.Ratio'].")
    return frozenset(one if isinstance(one, str) else full_name(one) for one in given)


def listed(names: Iterable[str]) -> str:
    names = sorted(names)
    return ", ".join(name[:100] for name in names[:5]) + (", …" if len(names) > 5 else "")
