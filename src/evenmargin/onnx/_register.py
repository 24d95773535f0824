"""evenmargin's converters for skl2onnx: parsers, shapes, and the graphs themselves.

The outputs of a classifier are its label, its probabilities where it has them, and its
scores as `decision_function` gives them. There is no ZipMap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.base import BaseEstimator

from ..auto import EvenMarginClassifier
from ..kernel import KernelSVM
from ..linear import LinearSVM
from ..nystroem import StratifiedNystroem
from ..zsvm import ZAdjustedClassifier
from ._committee import class_probabilities, class_scores, committee_scores, encoded, log_odds_of
from ._graph import Container, Graph, Operator, Scope
from ._machines import kernel_sums, linear_scores, machine_scores, unwrapped

__all__ = ["CLASSIFIERS", "imputed", "labels_of", "register", "tensor"]

CLASSIFIERS = (LinearSVM, KernelSVM, ZAdjustedClassifier, EvenMarginClassifier)


def register() -> None:
    """Register the converters of evenmargin's estimators with skl2onnx."""
    from skl2onnx import update_registered_converter

    converters = {
        LinearSVM: _convert_machine,
        KernelSVM: _convert_machine,
        ZAdjustedClassifier: _convert_adjusted,
        EvenMarginClassifier: _convert_committee,
    }
    for model, convert in converters.items():
        # skl2onnx passes the option zipmap to every classifier of a pipeline; it has no effect here.
        update_registered_converter(
            model, f"Evenmargin{model.__name__}", _classifier_shapes, convert, parser=_parse_classifier,
            options={"zipmap": [True, False, "columns"]},
        )  # fmt: skip
    update_registered_converter(StratifiedNystroem, "EvenmarginStratifiedNystroem", _nystroem_shapes, _convert_nystroem)


# --- what goes in and out ---


def labels_of(classes: NDArray[Any]) -> NDArray[Any]:
    """The classes in a type that ONNX has: int64, bool, a float, or strings."""
    values = np.asarray(classes)
    kinds = str(values.dtype)
    if values.dtype.kind == "O":
        plain = {type(value.item() if isinstance(value, np.generic) else value) for value in values}
        kinds = ", ".join(sorted(kind.__name__ for kind in plain))
        values = np.array(values.tolist()) if len(plain) == 1 and plain <= {str, int, bool, float} else values
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    if values.dtype.kind == "f" and values.dtype != np.float32:
        return values.astype(np.float64)
    if values.dtype.kind not in "bfU":
        raise ValueError(f"Classes of type {kinds} cannot be exported to ONNX: use numbers, booleans or strings.")
    return values


def tensor(dtype: DTypeLike, shape: list[int | None]) -> Any:
    """skl2onnx's type for arrays of this dtype and shape."""
    from skl2onnx.common import data_types as types

    kinds = {"i": types.Int64TensorType, "b": types.BooleanTensorType, "U": types.StringTensorType}
    dtype = np.dtype(dtype)
    wide = types.FloatTensorType if dtype == np.float32 else types.DoubleTensorType
    return kinds.get(dtype.kind, wide)(shape)


def _inputs_are(operator: Operator, kind: str) -> bool:
    """Whether all inputs are of this type of skl2onnx's."""
    return all(type(one.type).__name__ == kind for one in operator.inputs)


def _precision(operator: Operator) -> type:
    """The precision in which the estimator computes scores of such rows."""
    model = operator.raw_operator
    single = _inputs_are(operator, "FloatTensorType")
    if isinstance(model, LinearSVM):
        single = single and model.coef_.dtype == np.float32
    elif not isinstance(model, KernelSVM | StratifiedNystroem):
        return np.float64
    return np.float32 if single else np.float64


def _parse_classifier(
    scope: Scope, model: BaseEstimator, inputs: list[Any], custom_parsers: dict[type, Any] | None = None
) -> list[Any]:
    """Declare the operator, after the steps of a pipeline inside ZAdjustedClassifier."""
    from skl2onnx import get_model_alias
    from skl2onnx._parse import _parse_sklearn as parse

    if isinstance(model, ZAdjustedClassifier):
        for step in unwrapped(model.estimator_)[0]:
            inputs = parse(scope, step, inputs, custom_parsers=custom_parsers)
    operator = scope.declare_local_operator(get_model_alias(type(model)), model)
    operator.inputs = inputs
    names = ["label", "probabilities", "scores"] if hasattr(model, "predict_proba") else ["label", "scores"]
    for name in names:  # types are set with the shapes
        operator.outputs.append(scope.declare_local_variable(name, tensor(np.float64, [None])))
    return operator.outputs


def _classifier_shapes(operator: Operator) -> None:
    classes = labels_of(operator.raw_operator.classes_)
    several: list[int | None] = [None, classes.size]
    dtype = _precision(operator)
    operator.outputs[0].type = tensor(classes.dtype, [None])
    for output in operator.outputs[1:-1]:
        output.type = tensor(dtype, several)
    operator.outputs[-1].type = tensor(dtype, [None] if classes.size == 2 else several)


def _finish(g: Graph, operator: Operator, above: str | None, scores: str, shares: str | None = None) -> None:
    """Name the outputs. `above` says whether a row is of `classes_[1]`; if None, the largest score wins."""
    classes = labels_of(operator.raw_operator.classes_)
    outputs = [output.full_name for output in operator.outputs]
    place = g("ArgMax", scores, axis=1, keepdims=0) if above is None else g.flat(g.cast(above, np.int64))
    g("Gather", classes, place, out=outputs[0])
    if shares is not None:
        g("Identity", shares, out=outputs[1])
    g("Identity", g.flat(scores) if classes.size == 2 else scores, out=outputs[-1])


# --- converters ---


def _rows(g: Graph, operator: Operator) -> str:
    """The inputs as one matrix, in float32 if all of them are, else in double."""
    names = [one.full_name for one in operator.inputs]
    return g.beside(*(names if _inputs_are(operator, "FloatTensorType") else map(g.double, names)))


def _convert_machine(scope: Scope, operator: Operator, container: Container) -> None:
    """`LinearSVM` and `KernelSVM`."""
    g, model, dtype = Graph(scope, container), operator.raw_operator, _precision(operator)
    rows = _rows(g, operator)
    if isinstance(model, LinearSVM):
        scores = linear_scores(g, model, rows, dtype)
    else:
        scores = g.cast(machine_scores(g, model, rows), dtype)
    zero: Any = np.zeros((), dtype=dtype)
    above = g("Greater", scores, zero) if model.classes_.size == 2 else None
    shares = None
    if hasattr(model, "predict_proba"):
        each = g("Sigmoid", scores)
        if model.classes_.size == 2:
            shares = g.beside(g("Sigmoid", g("Neg", scores)), each)
        else:
            total = g.total(each)
            some = g("Greater", total, zero)  # else all are 0
            share = g("Div", each, g("Where", some, total, np.ones((), dtype=dtype)))
            shares = g("Where", some, share, np.full((), 1 / model.classes_.size, dtype=dtype))
    _finish(g, operator, above, scores, shares)


def _convert_adjusted(scope: Scope, operator: Operator, container: Container) -> None:
    """`ZAdjustedClassifier`: the score of the minority; a score of 0 is for the majority."""
    g, model = Graph(scope, container), operator.raw_operator
    machine, rows = unwrapped(model.estimator_)[1], _rows(g, operator)
    second = bool(model.minority_ == model.classes_[1])
    z, threshold = getattr(model, "z_", 1.0), getattr(model, "threshold_", 0.0)
    score = machine_scores(g, machine, rows, *((z, 1.0) if second else (1.0, z)))
    score = g("Sub", score if second else g("Neg", score), float(threshold))
    if second:
        return _finish(g, operator, g("Greater", score, 0.0), score)
    least = float(np.nextafter(0.0, 1.0))
    turned = g("Where", g("Equal", score, 0.0), least, g("Neg", score))
    return _finish(g, operator, g("LessOrEqual", score, 0.0), turned)


def _convert_committee(scope: Scope, operator: Operator, container: Container) -> None:
    """`EvenMarginClassifier`."""
    g, model = Graph(scope, container), operator.raw_operator
    table = encoded(g, model.encoder_, [one.full_name for one in operator.inputs])
    detectors = model.detectors_
    scores = committee_scores(g, [detector.committee for detector in detectors], table)
    shares = [
        g("Sigmoid", log_odds_of(g, detector.calibrator, own)) for detector, own in zip(detectors, scores, strict=True)
    ]
    final = class_scores(g, model, scores, shares)
    above = None
    if model.classes_.size == 2:  # a score on the boundary is negative, whichever class that is
        above = g("Greater" if model.detectors_[0].sign > 0 else "GreaterOrEqual", final, 0.0)
    _finish(g, operator, above, final, class_probabilities(g, model, shares))


def _nystroem_shapes(operator: Operator) -> None:
    operator.outputs[0].type = tensor(_precision(operator), [None, operator.raw_operator.normalization_.shape[0]])


def _convert_nystroem(scope: Scope, operator: Operator, container: Container) -> None:
    """`StratifiedNystroem`."""
    g, model = Graph(scope, container), operator.raw_operator
    features = kernel_sums(g, model.kernel_, _rows(g, operator), model.components_, model.normalization_.T)
    g("Identity", g.cast(features, _precision(operator)), out=operator.outputs[0].full_name)


def imputed(scope: Scope, operator: Operator, container: Container) -> None:
    """scikit-learn's `SimpleImputer` on doubles, for which onnxruntime's own operator has no kernel."""
    from skl2onnx.common._registration import get_converter

    model = operator.raw_operator
    plain = isinstance(model.missing_values, float) and np.isnan(model.missing_values) and not model.add_indicator
    known = np.asarray(model.statistics_)
    if not plain or known.dtype.kind != "f" or np.isnan(known).any() or not _inputs_are(operator, "DoubleTensorType"):
        return get_converter("SklearnSimpleImputer")(scope, operator, container)
    g = Graph(scope, container)
    rows = _rows(g, operator)
    g("Where", g("IsNaN", rows), known.astype(np.float64), rows, out=operator.outputs[0].full_name)
    return None
