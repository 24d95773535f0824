"""K(A, B) and K(A, B)·V, in tiles.

`kernel_dot` is the one primitive: densities, scores and gradient updates all call it. Its memory is that of some tiles,
whatever the number of rows. Threads take tiles of rows of A; sums go over the tiles of B in a fixed order.
The tiles of rows on a device (`arrays.Rows`) are computed there, and results are on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import csr_matrix, hstack, issparse

from .._device import arrays, products
from .._util.threads import Workers
from .._util.typing import Array, Floats, Index, MatrixLike
from .kernels import Function, Kernel, Precomputed, WithGamma, squares

Rows = slice | Index

TILE = 512  # rows and columns of a tile: 1 MB in float32
_BUDGET = 8 << 20  # bytes of prepared rows that a call may hold
_DENSE_FROM = 0.03  # share of entries from which sparse rows are worth multiplying as dense ones


class Points:
    """Rows of X prepared for a kernel: scaled, centred where that saves digits, with the extra columns.

    Parameters
    ----------
    kernel : a settled kernel, not `Precomputed` or `Function`
    X : ndarray or CSR of shape (n, d)
    dtype : of the prepared rows
    centre : ndarray of shape (d,) or None
        What to subtract; both sides of a product need the same.
    budget : int
        Bytes up to which all rows are kept prepared. Above it they are prepared each time they are needed.
    """

    def __init__(
        self, kernel: Kernel, X: MatrixLike, dtype: DTypeLike, centre: Array | None = None, budget: int = 0
    ) -> None:
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
        """How many rows to take at a time: fewer where a prepared row is long."""
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

    def right(self, rows: Rows) -> MatrixLike:
        if self.sparse is not None:
            return self.sparse[rows]
        return self.kernel.flip(self.left(rows))

    def _sparse_side(self) -> csr_matrix:
        """The right side as CSR, for rows so sparse that dense products would be a waste."""
        scaled = (csr_matrix(self.X) * self.kernel.scale()).astype(self.dtype)
        if not self.kernel.extra:
            return scaled
        head = np.zeros((self.n, self.width - self.d), self.dtype)
        if self.kernel.extra == 2:
            head[:, 1] = -0.5 * squares(scaled)
        head[:, 0] = 1.0
        return hstack([scaled, csr_matrix(head)], format="csr")


def centre_of(kernel: Kernel, X: MatrixLike) -> Array | None:
    """The point to subtract from all rows, for kernels that depend on differences of rows only."""
    if not kernel.shift_invariant or issparse(X):
        return None
    if isinstance(X, arrays.Rows):
        return X.centre()
    return np.asarray(X.mean(axis=0, dtype=np.float64)).astype(X.dtype)


def reach(
    kernel: WithGamma, X: MatrixLike, centre: Floats | None, of: Callable[[Array], np.floating] = np.max
) -> float:
    """The largest (or mean) γ‖x‖² of centred rows, which says how many digits a distance loses."""
    if isinstance(X, arrays.Rows):
        return float(kernel.gamma) * float(of(X.squares(centre)))
    parts = []
    for start in range(0, X.shape[0], 4096):
        some = X[start : start + 4096]
        if not issparse(some):
            some = some.astype(np.float64) if centre is None else some - centre.astype(np.float64)
        parts.append(squares(some))
    return float(kernel.gamma) * float(of(np.concatenate(parts)))


def kernel_dot(
    kernel: Kernel,
    A: MatrixLike,
    B: MatrixLike,
    V: Floats,
    *,
    dtype: DTypeLike | None = None,
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
        Where one of them is on a device (`arrays.Rows` or `products.DevicePoints`), the product is computed there. With
        `Precomputed`, A is K(A, B) itself and B is ignored.
    V : ndarray of shape (q,) or (q, k)
    dtype : float32 or float64, default: that of A; on a device float32
        Of the tiles; sums over tiles are in float64.
    workers : Workers, optional
        Threads over tiles; none: as many as there are cores, where it pays.
    compiled : bool, default=False
        Use the compiled exp in float32, which is twice as fast and imports numba.
    shift : float, default=0.0
        A number that most kernel values are near to. Sums are taken over the
        differences from it, which saves digits in float32 where much cancels.
    precision : "high", "fast" or None, default=None
        Of the RBF kernel on a device with tensor cores, in float32: "fast" rounds rows to 11 bits, "high" (also None)
        keeps 22 of float32's 24. Sums have an error of some 3e-4 ("fast") and 3e-7 ("high") of Σ K|v|, which grows with
        γ‖x‖² of the centred rows: to 1e-3 at 8, from where on "fast" is computed as "high", and to 4e-5 at 170, twice
        that of plain float32. Other cases ignore it.

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
        step = max(1, (16 << 20) // max(1, B.shape[0]))
        parts = [kernel.matrix(A[i : i + step], B) @ V for i in range(0, A.shape[0], step)]
        return np.concatenate(parts) if parts else np.zeros((0, *V.shape[1:]))
    A, B = _both_prepared(kernel, A, B, dtype)
    if (device := device_of(A)) is not None:
        V = arrays.put(V, device, B.dtype)
        return np.asarray(arrays.fetch(products.dot(kernel, A, B, V, shift, precision=precision)))
    common = shift * V.sum(axis=0, dtype=np.float64)
    V = np.ascontiguousarray(V, dtype=B.dtype)
    out = np.zeros((A.n, *V.shape[1:])) + common

    def add(rows: slice, columns: slice, tile: Floats) -> None:
        if shift:
            tile -= tile.dtype.type(shift)
        out[rows] += np.dot(tile, V[columns])

    _each_tile(kernel, A, B, add, workers, compiled)
    return out


def kernel_matrix(
    kernel: Kernel,
    A: MatrixLike,
    B: MatrixLike,
    *,
    dtype: DTypeLike | None = None,
    out: Floats | None = None,
    workers: Workers | None = None,
    compiled: bool = False,
) -> Floats:
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
        return _into(out, kernel.matrix(A, B).astype(dtype or np.float64, copy=False))
    symmetric = A is B and _count(A) > 8 * TILE  # below, mirroring costs more
    A, B = _both_prepared(kernel, A, B, dtype)
    if device_of(A) is not None:
        return _into(out, np.asarray(arrays.fetch(products.block(kernel, A, B))))
    filled = np.empty((A.n, B.n), A.dtype) if out is None else out

    def fill(rows: slice, columns: slice, tile: Floats) -> None:
        filled[rows, columns] = tile
        if symmetric and columns.start > rows.start:
            filled[columns, rows] = tile.T

    _each_tile(kernel, A, B, fill, workers, compiled, upper=symmetric)
    return filled


def _into(out: Floats | None, K: Floats) -> Floats:
    """K, written into `out` if that is given."""
    if out is None:
        return K
    out[...] = K
    return out


def _each_tile(
    kernel: Kernel,
    A: Points,
    B: Points,
    use: Callable[[slice, slice, Floats], None],
    workers: Workers | None,
    compiled: bool,
    upper: bool = False,
) -> None:
    """Call use(rows, columns, tile) for each tile of K(A, B), or of its upper half."""
    step, across = A.tile, B.tile
    columns = [slice(j, j + across) for j in range(0, B.n, across)]
    kept = [B.right(place) for place in columns] if B.n * B.width * B.dtype.itemsize <= _BUDGET else None

    def task(i: int) -> None:
        rows = slice(i, i + step)
        left = A.left(rows)
        for k, place in enumerate(columns):
            if upper and place.start < i:
                continue
            tile = kernel.combine(left, kept[k] if kept is not None else B.right(place), pool.buffer, compiled)
            kernel.apply(tile, compiled)
            use(rows, place, tile)

    with Workers.of(workers, A.n * B.n) as pool:
        pool.each(task, range(0, A.n, step))


def device_of(*sides: MatrixLike) -> Any:
    """The device that one of the sides is on, or None."""
    return next((side.device for side in sides if isinstance(side, arrays.Rows | products.DevicePoints)), None)


def prepared(kernel: Kernel, X: MatrixLike, dtype: DTypeLike, centre: Array | None = None, budget: int = 0) -> Any:
    """Rows prepared for the kernel, on the device that they are on; parameters as in `Points`."""
    if isinstance(X, arrays.Rows):
        return products.DevicePoints(kernel, X, dtype, centre)
    return Points(kernel, X, dtype, centre, budget)


def _both_prepared(kernel: Kernel, A: MatrixLike, B: MatrixLike, dtype: DTypeLike | None) -> tuple[Any, Any]:
    """Both sides prepared; where one of them is on a device, the other is put there."""
    device, same = device_of(A, B), A is B
    if device is None:
        dtype = dtype or A.dtype
    else:
        dtype = dtype or next((side.dtype for side in (A, B) if isinstance(side, products.DevicePoints)), np.float32)
        A, B = (side if _is_prepared(side) else arrays.Rows.put(side, device) for side in (A, B))
    if not _is_prepared(B):
        centre = A.centre if _is_prepared(A) else None if issparse(A) else centre_of(kernel, B)
        B = prepared(kernel, B, dtype, centre)
    if same:
        return B, B
    return A if _is_prepared(A) else prepared(kernel, A, dtype, B.centre), B


def _is_prepared(side: MatrixLike) -> bool:
    return isinstance(side, Points | products.DevicePoints)


def _count(side: MatrixLike) -> int:
    return int(side.n if _is_prepared(side) else side.shape[0])
