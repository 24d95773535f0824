"""Checks of a kernel on the training rows before a fit."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.sparse import issparse

from .._util.typing import MatrixLike
from .kernels import RBF, Distance, Function, Kernel, Linear, Poly, Precomputed
from .tiles import centre_of, kernel_matrix, reach

__all__ = ["check_digits", "check_precomputed", "is_definite"]


def check_precomputed(X: MatrixLike) -> None:
    if issparse(X):
        raise ValueError("A precomputed kernel matrix must not be sparse: use X.toarray().")
    if X.shape[0] != X.shape[1]:
        raise ValueError(f"A precomputed kernel matrix must be square to fit, and X has shape {X.shape}.")
    worst = max(float(np.abs(X[i : i + 256] - X[:, i : i + 256].T).max()) for i in range(0, X.shape[0], 256))
    if worst > 1e-5 * float(np.abs(X).max()):
        raise ValueError(
            f"The precomputed kernel matrix is not symmetric (entries differ by up to {worst:.1e}): "
            "give K(x_i, x_j) for all pairs of training rows, for example (K + K.T) / 2."
        )


def check_digits(kernel: Kernel, X: MatrixLike) -> None:
    """Refuse rows so far apart, for the kernel's width, that rounding leaves no digits of their distances."""
    if isinstance(kernel, RBF) and reach(kernel, X, centre_of(kernel, X)) * np.finfo(np.float64).eps > 1e-4:
        raise ValueError(
            f"gamma={kernel.gamma:.1e} is so large for these rows that no digits of their distances are left: scale "
            "the features, for example with sklearn.preprocessing.StandardScaler (sparse rows are not centred), or "
            "choose a smaller gamma."
        )


def is_definite(kernel: Kernel, X: MatrixLike) -> bool:
    """Whether the kernel is positive definite, by its kind or on some of the rows; warn if it is not."""
    if isinstance(kernel, Distance | Linear) or (isinstance(kernel, Poly) and kernel.coef0 >= 0):
        return True
    some = np.linspace(0, X.shape[0] - 1, min(X.shape[0], 300)).astype(np.intp)
    if isinstance(kernel, Precomputed):
        K = np.asarray(X[np.ix_(some, some)], dtype=np.float64)
    else:
        K = np.asarray(kernel_matrix(kernel, X[some], X[some], dtype=np.float64))
    if isinstance(kernel, Function) and np.abs(K - K.T).max() > 1e-5 * np.abs(K).max():
        raise ValueError("kernel: the callable is not symmetric: K(a, b) must be K(b, a) for all rows.")
    eigenvalues = np.linalg.eigvalsh(0.5 * (K + K.T))
    if eigenvalues[0] >= -1e-5 * max(eigenvalues[-1], 0.0):
        return True
    warnings.warn(
        f"The kernel is not positive definite (eigenvalues from {eigenvalues[0]:.1e} to {eigenvalues[-1]:.1e} on "
        f"{some.size} rows): the fit ends at a stationary point, and there is no duality gap.",
        UserWarning,
        stacklevel=5,
    )
    return False
