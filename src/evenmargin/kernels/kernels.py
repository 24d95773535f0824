"""Kernels, and K(A, B)·V in tiles.

Most kernels here are an elementwise map of a matrix product: K(a, b) =
map(left(a) · right(b)); the Laplacian one is a map of sums of absolute
differences instead. The RBF kernel puts its norms
into two more columns,

    −γ‖a − b‖² = (s·a, −s²‖a‖²/2, 1) · (s·b, 1, −s²‖b‖²/2),   s² = 2γ,

so that a tile is one product and one exp in place. `kernel_dot` is the one
primitive: densities, scores and gradient updates all call it. Its memory is that
of some tiles, whatever the number of rows. Threads take tiles of rows of A; sums
go over the tiles of B in their order, so the answer does not depend on threads.

Rows on a device (`arrays.Rows`) are taken wherever rows are. Their tiles are
computed there, by the same methods of the kernel: what these do to a tile has one
name in NumPy and torch (`arrays.namespace`). Results are on the host.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix, hstack, issparse

from .. import _core
from .._device import arrays, products
from .._device.arrays import namespace
from .._util.threads import Workers
from .._util.typing import Array, Floats, Index, MatrixLike

__all__ = [
    "KERNELS", "RBF", "Exponential", "Function", "Kernel", "Laplacian", "Linear", "Points", "Poly", "Precomputed",
    "Sigmoid", "centre_of", "device_of", "get_kernel", "kernel_dot", "kernel_matrix", "prepared", "reach",
    "variance_of",
]  # fmt: skip

Rows = slice | Index

TILE = 512  # rows and columns of a tile: 1 MB in float32
_BUDGET = 8 << 20  # bytes of prepared rows that a call may hold
_DENSE_FROM = 0.03  # share of entries from which sparse rows are worth multiplying as dense ones


class Kernel(ABC):
    """A kernel as a map of a matrix product; see the module.

    `complete`, `flip`, `combine` and `apply` are given NumPy arrays, or torch tensors
    where rows are on a device.
    """

    name: ClassVar[str]
    extra: ClassVar[int] = 0  # columns that `left` adds
    shift_invariant: ClassVar[bool] = False  # so that rows may be centred, which saves digits
    takes_sparse: ClassVar[bool] = True  # as the right side of `combine`
    fused: ClassVar[bool] = False  # whether a device may compute its sums in one go; a subclass speaks for itself

    @abstractmethod
    def scale(self) -> float:
        """What rows are multiplied by, on both sides."""

    def complete(self, rows: Floats, d: int) -> None:  # noqa: B027 (optional)
        """Fill in the extra columns of the left side, after the d scaled ones."""

    def flip(self, left: Floats) -> Floats:
        """The right side of the same rows."""
        return left

    def flip_back(self, right: Floats) -> Floats:
        """The left side, from the right one."""
        return right

    def combine(self, left: Floats, right: Any, buffer: Callable[[int, Any], Floats], compiled: bool = False) -> Floats:
        """What the map is applied to, for all pairs of rows: left · rightᵀ, in a buffer that is used again."""
        if issparse(right):
            return np.ascontiguousarray((right @ left.T).T)
        return products.outer_product(left, right, _in(buffer, left, right))  # type: ignore[no-any-return]

    def apply(self, tile: Floats, compiled: bool = False) -> None:  # noqa: B027 (optional)
        """The elementwise map, in place."""

    @abstractmethod
    def diagonal(self, X: MatrixLike) -> Array:
        """K(x, x) for each row."""

    def settled(self, X: MatrixLike, weight: Array) -> Kernel:
        """The kernel with its parameters as numbers, from the data where they are named."""
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

    def scale(self) -> float:
        return 1.0

    def diagonal(self, X: MatrixLike) -> Array:
        return _squares(X)


@dataclass(frozen=True)
class _WithGamma(Kernel):
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


@dataclass(frozen=True)
class RBF(_WithGamma):
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
    extra = 2
    shift_invariant = True

    def __post_init__(self) -> None:
        if self.sigma is None:
            return
        if isinstance(self.sigma, bool) or not (isinstance(self.sigma, Real) and 1e-150 < float(self.sigma) < 1e150):
            raise ValueError(f"RBF: sigma={self.sigma!r} must be a finite number above 0.")
        object.__setattr__(self, "gamma", 1.0 / float(self.sigma) ** 2)

    def scale(self) -> float:
        return math.sqrt(2.0 * self.gamma)

    def complete(self, rows: Floats, d: int) -> None:
        rows[:, d] = -0.5 * products.row_squares(rows[:, :d])
        rows[:, d + 1] = 1.0

    def flip(self, left: Floats) -> Floats:
        right = products.copied(left)
        right[:, -2], right[:, -1] = left[:, -1], left[:, -2]
        return right

    def flip_back(self, right: Floats) -> Floats:
        return self.flip(right)

    def apply(self, tile: Floats, compiled: bool = False) -> None:
        if compiled and tile.dtype == np.float32:
            _core.tile_loops.exp_of_negative(tile)
        else:
            namespace(tile).exp(tile, out=tile)

    def diagonal(self, X: MatrixLike) -> Array:
        return np.ones(X.shape[0])


@dataclass(frozen=True)
class Exponential(_WithGamma):
    """exp(−γ‖a − b‖): less smooth than RBF, as fast.

    The distance comes from a matrix product, so that of rows that are close to
    each other float32 keeps half of its digits.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.kernels import Exponential, kernel_matrix
    >>> kernel_matrix(Exponential(gamma=0.5), np.array([[0.0, 0.0]]), np.array([[0.0, 2.0]])).round(4)
    array([[0.3679]])
    """

    name = "exponential"
    extra = 2
    shift_invariant = True
    complete = RBF.complete
    flip = RBF.flip
    flip_back = RBF.flip_back
    diagonal = RBF.diagonal

    def scale(self) -> float:
        return math.sqrt(2.0) * float(self.gamma)

    def apply(self, tile: Floats, compiled: bool = False) -> None:
        xp = namespace(tile)
        xp.abs(tile, out=tile)  # γ²‖a − b‖², below 0 by rounding only
        xp.sqrt(tile, out=tile)
        xp.negative(tile, out=tile)
        RBF.apply(self, tile, compiled)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Laplacian(_WithGamma):
    """exp(−γ Σ_k |a_k − b_k|): less disturbed by a single far column than RBF.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.kernels import Laplacian, kernel_matrix
    >>> kernel_matrix(Laplacian(gamma=0.5), np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])).round(4)
    array([[0.3679]])
    """

    name = "laplacian"
    shift_invariant = True
    takes_sparse = False
    apply = RBF.apply
    diagonal = RBF.diagonal

    def scale(self) -> float:
        return float(self.gamma)

    def combine(self, left: Floats, right: Any, buffer: Callable[[int, Any], Floats], compiled: bool = False) -> Floats:
        out = _in(buffer, left, right)
        if arrays.is_tensor(left):
            return products.minus_l1(left, right, out)  # type: ignore[no-any-return]
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


@dataclass(frozen=True)
class Poly(_WithGamma):
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
    extra = 1

    def settled(self, X: MatrixLike, weight: Array) -> Kernel:
        if not (isinstance(self.degree, Integral) and self.degree >= 1):
            raise ValueError(f"degree={self.degree!r} must be a whole number from 1.")
        _check_coef0(self.coef0)
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

    def apply(self, tile: Floats, compiled: bool = False) -> None:
        namespace(tile).pow(tile, int(self.degree), out=tile)

    def diagonal(self, X: MatrixLike) -> Array:
        return np.asarray((self.gamma * _squares(X) + self.coef0) ** self.degree)


@dataclass(frozen=True)
class Sigmoid(_WithGamma):
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
    extra = 1

    scale = Poly.scale
    complete = Poly.complete
    flip = Poly.flip
    flip_back = Poly.flip_back

    def settled(self, X: MatrixLike, weight: Array) -> Kernel:
        _check_coef0(self.coef0)
        return super().settled(X, weight)

    def apply(self, tile: Floats, compiled: bool = False) -> None:
        namespace(tile).tanh(tile, out=tile)

    def diagonal(self, X: MatrixLike) -> Array:
        return np.tanh(self.gamma * _squares(X) + self.coef0)


@dataclass(frozen=True)
class Precomputed(Kernel):
    """X is the kernel matrix itself: (n, n) to fit, (rows, n) to predict."""

    name = "precomputed"

    def scale(self) -> float:
        return 1.0

    def diagonal(self, X: MatrixLike) -> Array:
        return np.asarray(X.diagonal(), dtype=np.float64)


@dataclass(frozen=True)
class Function(Kernel):
    """A callable: K = function(A, B), a matrix."""

    function: Callable[[Any, Any], Any]
    name = "function"

    def scale(self) -> float:
        return 1.0

    def matrix(self, A: Any, B: Any) -> Array:
        K = self.function(A, B)
        if issparse(K):
            raise ValueError("kernel: the callable returned a sparse matrix, and a dense one is needed.")
        K = np.asarray(K)
        if K.shape != (A.shape[0], B.shape[0]) or K.dtype.kind not in "fiu":
            raise ValueError(
                f"kernel: the callable must return a matrix of {A.shape[0]} rows and {B.shape[0]} columns of numbers, "
                f"one for each pair of rows, not {K.dtype} of shape {K.shape}."
            )
        if not np.isfinite(K).all():
            raise ValueError("kernel: the callable returned values that are not finite.")
        return K.astype(np.float64, copy=False)

    def diagonal(self, X: MatrixLike) -> Array:
        blocks = (X[i : i + 64] for i in range(0, X.shape[0], 64))
        return np.concatenate([self.matrix(block, block).diagonal() for block in blocks])


KERNELS: dict[str, type] = {
    kernel.name: kernel for kernel in (Linear, RBF, Laplacian, Exponential, Poly, Sigmoid, Precomputed)
}


def get_kernel(kernel: Any, gamma: Any = "scale", degree: int = 3, coef0: float = 0.0) -> Any:
    """The kernel for a name and parameters, for a callable, or the given kernel itself.

    Examples
    --------
    >>> from evenmargin.kernels import get_kernel
    >>> get_kernel("poly", gamma=0.5)
    Poly(gamma=0.5, degree=3, coef0=0.0)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if kernel in ("rbf", "laplacian", "exponential"):
        return KERNELS[kernel](gamma)
    if kernel == "poly":
        return Poly(gamma, degree, coef0)
    if kernel == "sigmoid":
        return Sigmoid(gamma, coef0)
    if isinstance(kernel, str) and kernel in KERNELS:
        return KERNELS[kernel]()
    if callable(kernel) and not isinstance(kernel, type):
        return Function(kernel)
    known = ", ".join(repr(name) for name in KERNELS)
    raise ValueError(f"kernel={kernel!r} is unknown; choose one of {known}, or give a kernel object or a callable.")


class Points:
    """Rows of X made ready for a kernel: scaled, centred where that saves digits, with the extra columns.

    Parameters
    ----------
    kernel : a settled kernel, not `Precomputed` or `Function`
    X : ndarray or CSR of shape (n, d)
    dtype : of the prepared rows
    centre : ndarray of shape (d,) or None
        What to subtract; both sides of a product need the same.
    budget : int
        Bytes up to which all rows are kept prepared. Above it they are prepared
        whenever they are asked for.
    """

    def __init__(self, kernel: Kernel, X: MatrixLike, dtype: Any, centre: Array | None = None, budget: int = 0) -> None:
        self.kernel, self.X, self.dtype, self.centre = kernel, X, np.dtype(dtype), centre
        self.n, self.d = X.shape
        self.width = self.d + kernel.extra
        wide = issparse(X) and X.nnz < _DENSE_FROM * X.shape[0] * X.shape[1] and self.d > 64 and kernel.takes_sparse
        self.sparse = self._sparse_side() if wide else None
        small = not wide and self.n * self.width * self.dtype.itemsize <= budget
        self.ready: Floats | None = None
        self.ready = self.left(slice(0, self.n)) if small else None

    @property
    def tile(self) -> int:
        """Rows to take at a time: fewer where a prepared row is long."""
        return max(16, min(TILE, (4 << 20) // (self.width * self.dtype.itemsize)))

    def left(self, rows: Rows) -> Floats:
        if self.ready is not None:
            return self.ready[rows]
        if self.sparse is not None:
            return self.kernel.flip_back(self.sparse[rows].toarray())
        X = self.X[rows]
        if issparse(X):
            X = X.toarray()
        out = np.empty((X.shape[0], self.width), self.dtype)
        # In the wider of the two types: rows may be large, or lose digits, before they are centred and scaled.
        wide = np.result_type(X.dtype, self.dtype)
        if self.centre is not None:
            X = np.subtract(X, self.centre, dtype=wide)
        np.multiply(X, self.kernel.scale(), out=out[:, : self.d], dtype=wide, casting="same_kind")
        self.kernel.complete(out, self.d)
        return out

    def right(self, rows: Rows) -> Any:
        if self.sparse is not None:
            return self.sparse[rows]
        return self.kernel.flip(self.left(rows))

    def _sparse_side(self) -> Any:
        """The right side as CSR, for rows so sparse that dense products would be a waste."""
        scaled = (csr_matrix(self.X) * self.kernel.scale()).astype(self.dtype)
        if not self.kernel.extra:
            return scaled
        head = np.zeros((self.n, self.width - self.d), self.dtype)
        if self.kernel.extra == 2:
            head[:, 1] = -0.5 * _squares(scaled)
        head[:, 0] = 1.0
        return hstack([scaled, csr_matrix(head)], format="csr")


def centre_of(kernel: Kernel, X: MatrixLike) -> Array | None:
    """What to subtract from the rows, for kernels that see differences only."""
    if not kernel.shift_invariant or issparse(X):
        return None
    if isinstance(X, arrays.Rows):
        return X.centre()
    return np.asarray(X.mean(axis=0, dtype=np.float64)).astype(X.dtype)


def reach(kernel: Any, X: MatrixLike, centre: Floats | None, of: Callable[[Any], Any] = np.max) -> float:
    """The largest (or mean) γ‖x‖² of centred rows, which says how many digits a distance loses."""
    if isinstance(X, arrays.Rows):
        return float(kernel.gamma) * float(of(X.squares(centre)))
    parts = []
    for start in range(0, X.shape[0], 4096):
        some = X[start : start + 4096]
        if not issparse(some):
            some = some.astype(np.float64) if centre is None else some - centre.astype(np.float64)
        parts.append(_squares(some))
    return float(kernel.gamma) * float(of(np.concatenate(parts)))


def kernel_dot(
    kernel: Any,
    A: Any,
    B: Any,
    V: Floats,
    *,
    dtype: Any = None,
    workers: Workers | None = None,
    compiled: bool = False,
    shift: float = 0.0,
    precision: str | None = None,
) -> Array:
    """K(A, B) · V in tiles, in bounded memory.

    Parameters
    ----------
    kernel : a settled kernel
    A, B : ndarray or CSR of shapes (p, d) and (q, d), or `Points` of the kernel
        Where one of them is on a device (`arrays.Rows` or `products.DevicePoints`), the
        product is computed there. With `Precomputed`, A is K(A, B) itself and B is
        not looked at.
    V : ndarray of shape (q,) or (q, k)
    dtype : float32 or float64, default: that of A; on a device float32
        Of the tiles; sums over tiles are in float64.
    workers : Workers, optional
        Threads over tiles; none: as many as there are cores, where it pays.
    compiled : bool, default=False
        Take the compiled exp in float32, twice as fast, which imports numba.
    shift : float, default=0.0
        A number that most kernel values are near to. Sums are taken over what they
        differ from it, which saves digits in float32 where much cancels.
    precision : "high", "fast" or None, default=None
        Of the RBF kernel on a device with tensor cores, in float32: "fast" rounds rows
        to 11 bits, "high" (also None) keeps 22 of float32's 24. Sums have an error of
        some 3e-4 ("fast") and 3e-7 ("high") of Σ K|v|, which grows with γ‖x‖² of the
        centred rows: to 1e-3 at 8, from where on "fast" is computed as "high", and to
        4e-5 at 170, twice that of plain float32. Other cases have no use for it.

    Returns
    -------
    float64 ndarray of shape (p,) or (p, k)

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.kernels import RBF, kernel_dot
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> kernel_dot(RBF(gamma=1.0), X, X, np.ones(3)).round(4)
    array([1.368 , 1.3862, 1.0184])
    """
    if precision not in products.PRECISIONS:
        raise ValueError(f"precision={precision!r} must be 'high', 'fast' or None.")
    if isinstance(kernel, Precomputed):
        return np.asarray(A @ V, dtype=np.float64)
    if V.shape[0] == 0:
        return np.zeros((_count(A), *V.shape[1:]))
    if isinstance(kernel, Function):
        return _function_dot(kernel, A, B, V)
    if (device := device_of(A, B)) is not None:
        A, B = _device_points(kernel, A, B, dtype)
        V = arrays.put(V, device, B.dtype)
        return np.asarray(arrays.to_host(products.dot(kernel, A, B, V, shift, precision=precision)))
    A, B = _points(kernel, A, B, dtype)
    common = shift * V.sum(axis=0, dtype=np.float64)
    V = np.ascontiguousarray(V, dtype=B.dtype)
    out = np.zeros((A.n, *V.shape[1:])) + common
    step, across = A.tile, B.tile
    columns = range(0, B.n, across)
    held = [B.right(slice(j, j + across)) for j in columns] if _holds(B) else None

    def task(i: int) -> None:
        left, total = A.left(slice(i, i + step)), out[i : i + step]
        for place, j in enumerate(columns):
            right = held[place] if held is not None else B.right(slice(j, j + across))
            tile = kernel.combine(left, right, pool.buffer, compiled)
            kernel.apply(tile, compiled)
            if shift:
                tile -= tile.dtype.type(shift)
            total += np.dot(tile, V[j : j + across])

    with Workers.of(workers, A.n * B.n) as pool:
        pool.each(task, range(0, A.n, step))
    return out


def kernel_matrix(
    kernel: Any, A: Any, B: Any, *, dtype: Any = None, out: Floats | None = None, workers: Workers | None = None,
    compiled: bool = False,
) -> Floats:  # fmt: skip
    """K(A, B), whole; parameters as in `kernel_dot`.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.kernels import Linear, kernel_matrix
    >>> kernel_matrix(Linear(), np.eye(2), np.ones((1, 2)))
    array([[1.],
           [1.]])
    """
    if isinstance(kernel, Function):
        K = kernel.matrix(A, B)
        if out is None:
            return K.astype(dtype or np.float64, copy=False)
        out[...] = K
        return out
    if device_of(A, B) is not None:
        K = np.asarray(arrays.to_host(products.block(kernel, *_device_points(kernel, A, B, dtype))))
        if out is None:
            return K
        out[...] = K
        return out
    symmetric = A is B and _count(A) > 8 * TILE  # below, mirroring costs more
    A, B = _points(kernel, A, B, dtype)
    if out is None:
        out = np.empty((A.n, B.n), A.dtype)
    filled, step, across = out, A.tile, B.tile
    columns = range(0, B.n, across)
    held = [B.right(slice(j, j + across)) for j in columns] if _holds(B) else None

    def task(i: int) -> None:
        left = A.left(slice(i, i + step))
        for place, j in enumerate(columns):
            if symmetric and j < i:
                continue
            right = held[place] if held is not None else B.right(slice(j, j + across))
            tile = kernel.combine(left, right, pool.buffer, compiled)
            kernel.apply(tile, compiled)
            filled[i : i + step, j : j + across] = tile
            if symmetric and j > i:
                filled[j : j + across, i : i + step] = tile.T

    with Workers.of(workers, A.n * B.n) as pool:
        pool.each(task, range(0, A.n, step))
    return out


def _in(buffer: Callable[[int, Any], Floats], left: Floats, right: Floats) -> Floats:
    """A tile of a buffer."""
    shape = (left.shape[0], right.shape[0])
    return buffer(shape[0] * shape[1], left.dtype)[: shape[0] * shape[1]].reshape(shape)


def _holds(B: Points) -> bool:
    return B.n * B.width * B.dtype.itemsize <= _BUDGET


def _points(kernel: Kernel, A: Any, B: Any, dtype: Any) -> tuple[Points, Points]:
    if A is B and not isinstance(A, Points):
        A = B = Points(kernel, A, dtype or A.dtype, centre_of(kernel, A))
    if not isinstance(B, Points):
        centre = A.centre if isinstance(A, Points) else None if issparse(A) else centre_of(kernel, B)
        B = Points(kernel, B, dtype or A.dtype, centre)
    if not isinstance(A, Points):
        A = Points(kernel, A, dtype or A.dtype, B.centre)
    return A, B


def device_of(*sides: Any) -> Any:
    """The device that one of the sides is on, or None."""
    return next((side.device for side in sides if isinstance(side, arrays.Rows | products.DevicePoints)), None)


def prepared(kernel: Kernel, X: MatrixLike, dtype: Any, centre: Array | None = None, budget: int = 0) -> Any:
    """Rows made ready for the kernel where they are; parameters as in `Points`."""
    if isinstance(X, arrays.Rows):
        return products.DevicePoints(kernel, X, dtype, centre)
    return Points(kernel, X, dtype, centre, budget)


def _device_points(kernel: Kernel, A: Any, B: Any, dtype: Any) -> tuple[products.DevicePoints, products.DevicePoints]:
    """As `_points`, on the device that one of the sides is on; the other is put there."""
    device, known, same = device_of(A, B), products.DevicePoints, A is B
    dtype = dtype or next((side.dtype for side in (A, B) if isinstance(side, known)), np.float32)
    if not isinstance(B, known):
        B = arrays.Rows.put(B, device)
        B = known(kernel, B, dtype, A.centre if isinstance(A, known) else centre_of(kernel, B))
    if same:
        return B, B
    if not isinstance(A, known):
        A = known(kernel, arrays.Rows.put(A, device), dtype, B.centre)
    return A, B


def _count(A: Any) -> int:
    return int(A.n if isinstance(A, Points | products.DevicePoints) else A.shape[0])


def _function_dot(kernel: Function, A: Any, B: Any, V: Floats) -> Array:
    step = max(1, (16 << 20) // max(1, B.shape[0]))
    parts = [kernel.matrix(A[i : i + step], B) @ V for i in range(0, A.shape[0], step)]
    return np.concatenate(parts) if parts else np.zeros((0, *V.shape[1:]))


def _squares(X: MatrixLike) -> Array:
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
        for start in range(0, X.shape[0], 4096):
            first += float(weight[start : start + 4096] @ X[start : start + 4096].sum(axis=1, dtype=np.float64))
        first /= total
        for start in range(0, X.shape[0], 4096):
            apart = X[start : start + 4096].astype(np.float64) - first
            second += float(weight[start : start + 4096] @ np.einsum("ij,ij->i", apart, apart))
        second /= total
    return second if second > 1e-28 * first * first else 0.0  # of a constant X: rounding


def _check_coef0(coef0: Any) -> None:
    if not (isinstance(coef0, Real) and math.isfinite(coef0)):
        raise ValueError(f"coef0={coef0!r} must be a finite number.")
