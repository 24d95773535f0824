"""The kernels.

Most kernels here are an elementwise map of a matrix product: K(a, b) = map(left(a) · right(b)); the Laplacian one is a
map of sums of absolute differences instead. The RBF kernel puts its norms into two more columns,

    −γ‖a − b‖² = (s·a, −s²‖a‖²/2, 1) · (s·b, 1, −s²‖b‖²/2),   s² = 2γ,

so that a tile is one product and one exp in place (`tiles.py`). Where rows are on a device, the same methods compute
their tiles there: what they do to a tile has one name in NumPy and torch (`arrays.namespace`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import issparse

from .. import _core
from .._device import arrays, products
from .._device.arrays import namespace
from .._util.typing import Array, Floats, MatrixLike

Buffer = Callable[[int, DTypeLike], Floats]  # an array of that size, used again in the next call


class Kernel(ABC):
    """A kernel as a map of a matrix product.

    `complete`, `flip`, `combine` and `apply` take NumPy arrays, or torch tensors where rows are on a device.
    """

    name: ClassVar[str]
    extra: ClassVar[int] = 0  # columns that `left` adds
    shift_invariant: ClassVar[bool] = False  # so that rows may be centred, which saves digits
    takes_sparse: ClassVar[bool] = True  # as the right side of `combine`
    fused: ClassVar[bool] = False  # whether a device may compute its sums in one go; a subclass speaks for itself

    def scale(self) -> float:
        """The factor of the rows on both sides."""
        return 1.0

    def complete(self, rows: Floats, d: int) -> None:  # noqa: B027 (optional)
        """Fill in the extra columns of the left side, after the d scaled ones."""

    def flip(self, left: Floats) -> Floats:
        """The right side, made from the left one."""
        return left

    def flip_back(self, right: Floats) -> Floats:
        """The left side, made from the right one."""
        return self.flip(right)

    def combine(self, left: Floats, right: MatrixLike, buffer: Buffer, compiled: bool = False) -> Floats:
        """The argument of the map for all pairs of rows, left · rightᵀ, in a buffer that is used again."""
        if issparse(right):
            return np.ascontiguousarray((right @ left.T).T)
        return products.outer_product(left, right, _tile(buffer, left, right))

    def apply(self, tile: Floats, compiled: bool = False) -> None:  # noqa: B027 (optional)
        """The elementwise map, in place."""

    @abstractmethod
    def diagonal(self, X: MatrixLike) -> Array:
        """K(x, x) for each row."""

    def settled(self, X: MatrixLike, weight: Array) -> Kernel:
        """The kernel with all parameters as numbers; those given by name are computed from the data."""
        return self


@dataclass(frozen=True)
class Linear(Kernel):
    """a·b.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.kernels import Linear, kernel_matrix
    >>> kernel_matrix(Linear(), np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    name = "linear"

    def diagonal(self, X: MatrixLike) -> Array:
        return squares(X)


@dataclass(frozen=True)
class WithGamma(Kernel):
    """gamma: a number, "scale" (1/(d · variance of all entries), by sample weight), or "auto" (1/d)."""

    gamma: Any = "scale"

    def settled(self, X: MatrixLike, weight: Array) -> Kernel:
        gamma = self.gamma
        if isinstance(gamma, str) and gamma == "scale":
            variance = variance_of(X, weight)
            with np.errstate(over="ignore"):
                gamma = float(1.0 / np.float64(X.shape[1] * variance)) if variance > 0 else 1.0
            if not math.isfinite(gamma):
                raise ValueError(
                    f"gamma='scale' is not finite, as X has a variance of {variance:.1e}: scale the features."
                )
        elif isinstance(gamma, str) and gamma == "auto":
            gamma = 1.0 / X.shape[1]
        if not (isinstance(gamma, Real) and not isinstance(gamma, bool) and 0 < float(gamma) < math.inf):
            raise ValueError(f"gamma={self.gamma!r} must be 'scale', 'auto', or a finite number above 0.")
        return replace(self, gamma=float(gamma))


class Distance(WithGamma):
    """exp(−distance)."""

    shift_invariant = True

    def apply(self, tile: Floats, compiled: bool = False) -> None:
        if compiled and tile.dtype == np.float32:
            _core.tile_loops.exp_of_negative(tile)
        else:
            namespace(tile).exp(tile, out=tile)

    def diagonal(self, X: MatrixLike) -> Array:
        return np.ones(X.shape[0])


class Euclidean(Distance):
    """A map of the squared Euclidean distance, from a product of rows with two more columns for their norms."""

    extra = 2

    def complete(self, rows: Floats, d: int) -> None:
        rows[:, d] = -0.5 * products.row_squares(rows[:, :d])
        rows[:, d + 1] = 1.0

    def flip(self, left: Floats) -> Floats:
        right = products.copied(left)
        right[:, -2], right[:, -1] = left[:, -1], left[:, -2]
        return right


@dataclass(frozen=True)
class RBF(Euclidean):
    """exp(−γ‖a − b‖²); with `sigma` instead of `gamma`, exp(−‖a − b‖²/σ²).

    Parameters
    ----------
    gamma : float, "scale" or "auto", default="scale"
    sigma : float or None, default=None

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.kernels import RBF, kernel_matrix
    >>> kernel_matrix(RBF(sigma=2.0), np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.3679]])
    """

    sigma: float | None = None
    name = "rbf"
    fused = True

    def __post_init__(self) -> None:
        if self.sigma is None:
            return
        if isinstance(self.sigma, bool) or not (isinstance(self.sigma, Real) and 1e-150 < float(self.sigma) < 1e150):
            raise ValueError(f"RBF: sigma={self.sigma!r} must be a finite number above 0.")
        object.__setattr__(self, "gamma", 1.0 / float(self.sigma) ** 2)

    def scale(self) -> float:
        return math.sqrt(2.0 * self.gamma)


@dataclass(frozen=True)
class Exponential(Euclidean):
    """exp(−γ‖a − b‖): less smooth than RBF, and as fast.

    The distance comes from a matrix product; for rows that are close to each other,
    float32 keeps half of its digits.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.kernels import Exponential, kernel_matrix
    >>> kernel_matrix(Exponential(gamma=0.5), np.array([[0.0, 0.0]]), np.array([[0.0, 2.0]])).round(4)
    array([[0.3679]])
    """

    name = "exponential"

    def scale(self) -> float:
        return math.sqrt(2.0) * float(self.gamma)

    def apply(self, tile: Floats, compiled: bool = False) -> None:
        xp = namespace(tile)
        xp.abs(tile, out=tile)  # γ²‖a − b‖², below 0 by rounding only
        xp.sqrt(tile, out=tile)
        xp.negative(tile, out=tile)
        super().apply(tile, compiled)


@dataclass(frozen=True)
class Laplacian(Distance):
    """exp(−γ Σ_k |a_k − b_k|): less sensitive to a large difference in one column than RBF.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.kernels import Laplacian, kernel_matrix
    >>> kernel_matrix(Laplacian(gamma=0.5), np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])).round(4)
    array([[0.3679]])
    """

    name = "laplacian"
    takes_sparse = False

    def scale(self) -> float:
        return float(self.gamma)

    def combine(self, left: Floats, right: MatrixLike, buffer: Buffer, compiled: bool = False) -> Floats:
        out = _tile(buffer, left, right)
        if arrays.is_tensor(left):
            return products.minus_l1(left, right, out)
        columns = np.ascontiguousarray(right.T)
        if compiled:
            _core.tile_loops.minus_l1(left, columns, out)
            return out
        # −Σ|a − b| = Σa + Σb − 2 Σ max(a, b): two passes for each column.
        out[...] = 0
        held = np.empty_like(out)
        for k, column in enumerate(columns):
            out -= np.maximum(left[:, k, None], column, out=held)
        out *= 2
        out += left.sum(axis=1)[:, None]
        out += columns.sum(axis=0)
        return np.minimum(out, 0, out=out)


class WithOffset(WithGamma):
    """A map of γ a·b + coef0, whose offset is one more column."""

    coef0: float
    extra = 1

    def settled(self, X: MatrixLike, weight: Array) -> Kernel:
        if not (isinstance(self.coef0, Real) and math.isfinite(self.coef0)):
            raise ValueError(f"coef0={self.coef0!r} must be a finite number.")
        return super().settled(X, weight)

    def scale(self) -> float:
        return math.sqrt(self.gamma)

    def complete(self, rows: Floats, d: int) -> None:
        rows[:, d] = self.coef0

    def flip(self, left: Floats) -> Floats:
        right = products.copied(left)
        right[:, -1] = 1.0
        return right

    def flip_back(self, right: Floats) -> Floats:
        left = products.copied(right)
        left[:, -1] = self.coef0
        return left


@dataclass(frozen=True)
class Poly(WithOffset):
    """(γ a·b + coef0)^degree.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.kernels import Poly, kernel_matrix
    >>> kernel_matrix(Poly(gamma=1.0, degree=2, coef0=1.0), np.array([[1.0]]), np.array([[2.0]]))
    array([[9.]])
    """

    degree: int = 3
    coef0: float = 0.0
    name = "poly"

    def settled(self, X: MatrixLike, weight: Array) -> Kernel:
        if not (isinstance(self.degree, Integral) and self.degree >= 1):
            raise ValueError(f"degree={self.degree!r} must be a whole number of at least 1.")
        return super().settled(X, weight)

    def apply(self, tile: Floats, compiled: bool = False) -> None:
        namespace(tile).pow(tile, int(self.degree), out=tile)

    def diagonal(self, X: MatrixLike) -> Array:
        return np.asarray((self.gamma * squares(X) + self.coef0) ** self.degree)


@dataclass(frozen=True)
class Sigmoid(WithOffset):
    """tanh(γ a·b + coef0); not positive definite for most parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.kernels import Sigmoid, kernel_matrix
    >>> kernel_matrix(Sigmoid(gamma=0.5), np.array([[1.0]]), np.array([[2.0]])).round(4)
    array([[0.7616]])
    """

    coef0: float = 0.0
    name = "sigmoid"

    def apply(self, tile: Floats, compiled: bool = False) -> None:
        namespace(tile).tanh(tile, out=tile)

    def diagonal(self, X: MatrixLike) -> Array:
        return np.tanh(self.gamma * squares(X) + self.coef0)


@dataclass(frozen=True)
class Precomputed(Kernel):
    """X is the kernel matrix itself: (n, n) to fit, (rows, n) to predict."""

    name = "precomputed"

    def diagonal(self, X: MatrixLike) -> Array:
        return np.asarray(X.diagonal(), dtype=np.float64)


@dataclass(frozen=True)
class Function(Kernel):
    """A callable: K = function(A, B), a matrix."""

    function: Callable[[Any, Any], Any]
    name = "function"

    def matrix(self, A: MatrixLike, B: MatrixLike) -> Array:
        """K(A, B), checked."""
        K = self.function(A, B)
        if issparse(K):
            raise ValueError("kernel: the callable must return a dense matrix, not a sparse one.")
        K = np.asarray(K)
        if K.shape != (A.shape[0], B.shape[0]) or K.dtype.kind not in "fiu":
            raise ValueError(
                f"kernel: the callable must return a matrix of {A.shape[0]} rows and {B.shape[0]} columns of numbers, "
                f"one for each pair of rows, not {K.dtype} of shape {K.shape}."
            )
        if not np.isfinite(K).all():
            raise ValueError("kernel: the callable must return finite values only.")
        return K.astype(np.float64, copy=False)

    def diagonal(self, X: MatrixLike) -> Array:
        blocks = (X[i : i + 64] for i in range(0, X.shape[0], 64))
        return np.concatenate([self.matrix(block, block).diagonal() for block in blocks])


KERNELS: dict[str, type] = {
    kernel.name: kernel for kernel in (Linear, RBF, Laplacian, Exponential, Poly, Sigmoid, Precomputed)
}


def get_kernel(kernel: Any, gamma: Any = "scale", degree: int = 3, coef0: float = 0.0) -> Any:
    """The kernel of that name with these parameters, the kernel of a callable, or the kernel object itself.

    Examples
    --------
    >>> from evenmargin.kernels import get_kernel
    >>> get_kernel("poly", gamma=0.5)
    Poly(gamma=0.5, degree=3, coef0=0.0)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str) and kernel in KERNELS:
        kind, given = KERNELS[kernel], {"gamma": gamma, "degree": degree, "coef0": coef0}
        return kind(**{field.name: given[field.name] for field in fields(kind) if field.name in given})
    if callable(kernel) and not isinstance(kernel, type):
        return Function(kernel)
    known = ", ".join(repr(name) for name in KERNELS)
    raise ValueError(f"kernel={kernel!r} is unknown; choose one of {known}, or give a kernel object or a callable.")


def _tile(buffer: Buffer, left: Floats, right: Floats) -> Floats:
    """A tile for all pairs of rows, in a buffer."""
    shape = (left.shape[0], right.shape[0])
    return buffer(shape[0] * shape[1], left.dtype).reshape(shape)


def squares(X: MatrixLike) -> Array:
    """‖x‖² of each row."""
    if issparse(X):
        X = X.astype(np.float64)
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return X.squares() if isinstance(X, arrays.Rows) else np.einsum("ij,ij->i", X, X, dtype=np.float64)


def variance_of(X: MatrixLike, weight: Array) -> float:
    """The variance of all entries of X, rows counted by their weight."""
    if isinstance(X, arrays.Rows):
        return X.variance(weight)
    total, first, second = float(weight.sum()) * X.shape[1], 0.0, 0.0
    if issparse(X):
        each = np.repeat(weight, np.diff(X.indptr))
        first = float(each @ X.data) / total
        second = float(each @ (X.data - first) ** 2) / total + first**2 * (1.0 - float(each.sum()) / total)
    else:
        parts = [slice(start, start + 4096) for start in range(0, X.shape[0], 4096)]
        first = sum(float(weight[part] @ X[part].sum(axis=1, dtype=np.float64)) for part in parts) / total
        for part in parts:
            apart = X[part].astype(np.float64) - first
            second += float(weight[part] @ np.einsum("ij,ij->i", apart, apart))
        second /= total
    return second if second > 1e-28 * first * first else 0.0  # of a constant X: rounding
