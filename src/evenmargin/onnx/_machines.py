"""Scores of the machines as nodes: kernel sums and linear scores.

Kernel values are in double, whatever precision `predict` uses, so that the rounding of
`predict` is the only difference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC

from .. import kernels
from .._device.arrays import to_host
from .._util.typing import Array, Floats, MatrixLike
from ..kernel import KernelSVM
from ..kernels import Kernel
from ..linear import LinearSVM
from ._graph import Graph

__all__ = ["kernel_of", "kernel_sums", "linear_scores", "machine_scores", "unwrapped"]

_BLOCK = 2**22  # kernel values at a time: 32 MB


def unwrapped(model: BaseEstimator) -> tuple[list[BaseEstimator], BaseEstimator]:
    """The steps before the last estimator, and that estimator."""
    if isinstance(model, FrozenEstimator):
        return unwrapped(model.estimator)
    if not isinstance(model, Pipeline):
        return [], model
    steps = [step for _, step in model.steps[:-1] if step is not None and not isinstance(step, str)]
    before, last = unwrapped(model.steps[-1][1])
    return [step for step in steps if not hasattr(step, "fit_resample")] + before, last


# --- kernels ---


def kernel_sums(g: Graph, kernel: Kernel, rows: str, others: MatrixLike, V: Floats) -> str:
    """K(rows, others) · V, computed for some rows at a time."""
    others, V = to_host(others), to_host(V)
    if V.shape[0] == 0:  # no support vectors
        return g("MatMul", g.double(rows), np.zeros((others.shape[1], V.shape[1])))
    # The Laplacian kernel takes as many differences as there are columns for each value: they should fit into a cache.
    numbers, least = (16 * others.shape[1], 4) if isinstance(kernel, kernels.Laplacian) else (1, 64)
    step = int(np.clip(_BLOCK // (V.shape[0] * numbers), least, 4_096))

    def sums(body: Graph, block: str) -> str:
        return body("MatMul", kernel_values(body, kernel, block, others), body.double(V))

    return g.in_blocks(rows, step, V.shape[1], sums)


def kernel_values(g: Graph, kernel: Kernel, rows: str, others: MatrixLike) -> str:
    """K(rows, others), a matrix; `others` is an array or CSR."""
    others = others.toarray() if issparse(others) else np.asarray(others)
    centre = kernels.centre_of(kernel, others)
    width = others.shape[1]
    left, right = (_scaled(g, kernel, side, centre, width) for side in (rows, others))
    if isinstance(kernel, kernels.Laplacian):
        apart = g("Sub", g("Unsqueeze", left, np.array([1])), g("Unsqueeze", right, np.array([0])))
        return g("Exp", g("Neg", g("ReduceSum", g("Abs", apart), np.array([2]), keepdims=0)))
    if isinstance(kernel, kernels.RBF | kernels.Exponential):
        # −‖a − b‖²/2 = (a, −‖a‖²/2) · (b, 1) − ‖b‖²/2
        left = g.beside(left, _minus_half_square(g, left))
        norms = g("Transpose", _minus_half_square(g, right), perm=[1, 0])
        right = g.beside(right, g.constant(np.ones((others.shape[0], 1))))
        tile = g("Gemm", left, right, norms, transB=1)
        if isinstance(kernel, kernels.Exponential):
            tile = g("Neg", g("Sqrt", g("Abs", tile)))  # below 0 by rounding only
        return g("Exp", tile)
    products = g("MatMul", left, g("Transpose", right, perm=[1, 0]))
    if isinstance(kernel, kernels.Poly):
        return g("Pow", g("Add", products, float(kernel.coef0)), float(kernel.degree))
    if isinstance(kernel, kernels.Sigmoid):
        return g("Tanh", g("Add", products, float(kernel.coef0)))
    if isinstance(kernel, kernels.Linear):
        return products
    raise ValueError(
        f"{kernel!r} cannot be exported to ONNX: use the kernel 'rbf', 'laplacian', 'exponential', 'linear', 'poly' or "
        "'sigmoid'."
    )


def _scaled(g: Graph, kernel: Kernel, rows: str | Floats, centre: Array | None, width: int) -> str:
    """Rows centred and scaled for the kernel, in double; onnxruntime folds constants when it loads the model."""
    rows = g.double(rows)
    if centre is not None:
        rows = g("Sub", rows, centre.astype(np.float64))
    if kernel.scale() == 1.0:
        return rows
    # One number for each column: a single one would become a factor of the product, which is kept in float32.
    return g("Mul", rows, np.full(width, kernel.scale()))


def _minus_half_square(g: Graph, rows: str) -> str:
    return g("Mul", g.total(g("Mul", rows, rows)), -0.5)


# --- machines ---


def linear_scores(g: Graph, svm: LinearSVM, rows: str, dtype: DTypeLike) -> str:
    """w·x + b of each class, in the precision of `predict`."""
    coef, intercept = svm.coef_.T.astype(dtype), svm.intercept_.astype(dtype)
    return g("Add", g("MatMul", g.cast(rows, dtype), coef), intercept)


def kernel_of(machine: BaseEstimator) -> Kernel:
    """The kernel of a machine; an error if it cannot be exported."""
    if isinstance(machine, LinearSVM):
        return kernels.Linear()
    if not isinstance(machine, KernelSVM | SVC | NuSVC):
        raise ValueError(
            f"ZAdjustedClassifier around {type(machine).__name__} cannot be exported: LinearSVM, KernelSVM, "
            "scikit-learn's SVC and NuSVC can, and pipelines that end in one of them."
        )
    if isinstance(machine, KernelSVM):
        kernel: Kernel = machine.kernel_
    else:
        kernel = kernels.get_kernel(machine.kernel, machine._gamma, machine.degree, machine.coef0)
    if isinstance(kernel, kernels.Precomputed | kernels.Function):
        kind = "precomputed kernel" if isinstance(kernel, kernels.Precomputed) else "function as a kernel"
        raise ValueError(
            f"A {kind} cannot be exported to ONNX: fit with kernel='rbf', 'laplacian', 'exponential', 'linear', 'poly' "
            "or 'sigmoid'."
        )
    return kernel


def machine_scores(g: Graph, machine: BaseEstimator, rows: str, up: float = 1.0, down: float = 1.0) -> str:
    """The decision function in double, with its positive terms (of `split_decision`) times `up`, the others `down`."""
    rows, intercept = g.double(rows), to_host(machine.intercept_, np.float64)
    if isinstance(machine, LinearSVM):
        coef = machine.coef_.astype(np.float64)
        if up != 1.0 or down != 1.0:
            half = np.asarray(machine.positive_coef_, dtype=np.float64)
            coef = up * half + down * (coef - half)
        return g("Add", g("MatMul", rows, coef.T), intercept)
    coef = machine.dual_coef_.toarray() if issparse(machine.dual_coef_) else to_host(machine.dual_coef_)
    coef = coef * np.where(coef > 0, up, down)
    return g("Add", kernel_sums(g, kernel_of(machine), rows, machine.support_vectors_, coef.T), intercept)
