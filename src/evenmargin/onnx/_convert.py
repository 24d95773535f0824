"""From a fitted model to an ONNX graph, and from rows to its inputs."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from .. import __version__
from .._device.arrays import to_host
from .._input.checks import check_is_fitted
from .._util.files import replace_file
from .._util.typing import MatrixLike
from ..kernel import KernelSVM
from ..zsvm import ZAdjustedClassifier
from ._graph import Proto
from ._inputs import Input, feed, inputs_of
from ._machines import kernel_of, unwrapped
from ._register import CLASSIFIERS, imputed, labels_of, tensor

__all__ = ["export_onnx", "need", "onnx_inputs", "to_onnx"]

_OPSET = 21  # the newest that onnxruntime 1.20 runs
_MOST = 2**31 - 1  # bytes of a protobuf


def to_onnx(model: BaseEstimator, X: MatrixLike = None) -> Proto:
    """A fitted model as an ONNX graph; the module's help says which models, and what goes in and out.

    Parameters
    ----------
    model : fitted estimator
    X : DataFrame or array-like of shape (n_samples, n_features), default=None
        Some rows. Needed only for pipelines that were fitted on a frame, to see which
        columns are numbers and which are categories.

    Returns
    -------
    onnx.ModelProto

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from evenmargin import KernelSVM
    >>> from evenmargin.onnx import to_onnx
    >>> X, y = make_classification(weights=[0.9], random_state=0)
    >>> proto = to_onnx(KernelSVM(class_weight="balanced").fit(X, y))
    >>> [output.name for output in proto.graph.output]
    ['label', 'scores']
    """
    need("skl2onnx")
    check_is_fitted(model)
    model = _supported(model)
    labels_of(model.classes_)  # which refuses classes that ONNX has no type for
    inputs = inputs_of(model, X)
    if any(own.name == "" for own in inputs):
        raise ValueError("A column of X has an empty name, which ONNX does not allow: rename it.")
    proto = _converted(model, inputs)
    _rename(proto, [own.name for own in inputs])
    _describe(proto, model)
    if proto.ByteSize() > _MOST:
        raise ValueError("The model is larger than the 2 GB of an ONNX file: fit it on fewer rows.")
    return proto


def export_onnx(model: BaseEstimator, path: str | os.PathLike[str], X: MatrixLike = None) -> Path:
    """Write a fitted model to an ONNX file; an interrupted write leaves no partial file.

    Parameters
    ----------
    model : fitted estimator
    path : path-like
    X : DataFrame or array-like of shape (n_samples, n_features), default=None
        Some rows, as in `to_onnx`.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import make_classification
    >>> from evenmargin import LinearSVM
    >>> from evenmargin.onnx import check_onnx, export_onnx
    >>> X, y = make_classification(weights=[0.9], random_state=0)
    >>> model = LinearSVM().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_onnx(export_onnx(model, Path(folder) / "model.onnx"), model, X).wrong_labels
    0
    """
    return replace_file(path, to_onnx(model, X).SerializeToString())


def onnx_inputs(model: BaseEstimator, X: MatrixLike) -> dict[str, NDArray[Any]]:
    """Rows as the arrays that the graph of a model takes.

    Parameters
    ----------
    model : estimator
        The fitted estimator that was exported.
    X : DataFrame or array-like of shape (n_samples, n_features)

    Returns
    -------
    dict of str to ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin import LinearSVM
    >>> from evenmargin.onnx import onnx_inputs
    >>> onnx_inputs(LinearSVM().fit([[0.0], [1.0]], [0, 1]), [[2.0]])
    {'X': array([[2.]])}
    """
    check_is_fitted(model)
    model = _supported(model)
    return feed(model, inputs_of(model, X), X)


def need(name: str) -> None:
    """Raise an error that says what to install if a package is missing."""
    if find_spec(name) is None:
        raise ImportError(f'Models as ONNX need {name}: install it with `pip install "evenmargin[onnx]"`.')


# --- steps ---


def _supported(model: BaseEstimator) -> BaseEstimator:
    """The model without wrappers that have no part in predicting; an error if it cannot be exported."""
    steps, last = unwrapped(model)
    if type(last) not in CLASSIFIERS:
        inner = next((name for name in ("best_estimator_", "estimator_") if hasattr(last, name)), None)
        hint = f" (perhaps its {inner})" if inner else ""
        raise ValueError(
            f"{type(last).__name__} cannot be exported{hint}: LinearSVM, KernelSVM, ZAdjustedClassifier and "
            "EvenMarginClassifier can, and pipelines that end in one of them."
        )
    if isinstance(last, ZAdjustedClassifier | KernelSVM):
        kernel_of(last if isinstance(last, KernelSVM) else unwrapped(last.estimator_)[1])  # which refuses some
    return Pipeline([(f"step{k}", step) for k, step in enumerate([*steps, last])]) if steps else last


def _converted(model: BaseEstimator, inputs: list[Input]) -> Proto:
    from skl2onnx import convert_sklearn
    from skl2onnx.common.exceptions import MissingConverter, MissingShapeCalculator

    declared = [(own.name, tensor(own.dtype, [None, own.width])) for own in inputs]
    name, own_converters = type(unwrapped(model)[1]).__name__, {SimpleImputer: imputed}
    try:
        return convert_sklearn(model, name, declared, target_opset=_OPSET, custom_conversion_functions=own_converters)
    except (MissingConverter, MissingShapeCalculator, NotImplementedError, RuntimeError, TypeError) as error:
        words = " ".join(str(error).split())
        raise ValueError(f"skl2onnx cannot convert a step of this pipeline: {words[:200]}") from error


def _rename(proto: Proto, columns: list[str]) -> None:
    """Name inputs after their columns, of which skl2onnx has made identifiers."""
    names = {own.name: column for own, column in zip(proto.graph.input, columns, strict=True)}
    taken = set(columns)

    def new(name: str) -> str:
        if name in names:
            return names[name]
        while name in taken:
            name += "_out"
        return name

    def rename(graph: Proto) -> None:
        for one in [*graph.input, *graph.output, *graph.initializer, *graph.value_info]:
            one.name = new(one.name)
        for node in graph.node:
            node.input[:] = [new(name) for name in node.input]
            node.output[:] = [new(name) for name in node.output]
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    rename(attribute.g)

    rename(proto.graph)


def _describe(proto: Proto, model: BaseEstimator) -> None:
    """Write into the file what the model is."""
    from onnx import helper

    last = unwrapped(model)[1]
    facts = {"evenmargin_version": __version__, "model": type(last).__name__}
    for name in ("classes_", "threshold_", "z_", "pos_label_", "objective_"):
        if hasattr(last, name):
            value = labels_of(last.classes_) if name == "classes_" else to_host(getattr(last, name))
            value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            facts[name.rstrip("_")] = value if isinstance(value, str) else json.dumps(value, default=str)
    proto.producer_name, proto.producer_version, proto.domain = "evenmargin", __version__, ""
    helper.set_model_props(proto, facts)
