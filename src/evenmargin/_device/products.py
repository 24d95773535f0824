"""Rows made ready for a kernel on a device, and K(A, B)·V and K(A, B) in tiles.

    DevicePoints        rows made ready
    dot, block    K(A, B)·V and K(A, B), whole
    over_tiles    what both are made of: tiles shrink where memory is short

`kernels.py` has the same for the host. Where there is a fused kernel for a product
(`fused.py`), `dot` asks it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from .._util.threads import SharedContext
from .._util.typing import AnyArray, Device, Floats, Index, Tensor
from . import arrays
from .arrays import Rows, enough_memory, is_tensor, torch

TILE = arrays.PASS  # entries of a tile, at most: 64 MB in float32, about the second-level cache of a large GPU
LEAST = 1 << 14  # entries of a tile below which there is no point in going on
PRECISIONS = (None, "high", "fast")

DeviceKernel: TypeAlias = Any  # a settled `kernels.Kernel`, which is of a layer above


class DevicePoints:
    """Rows made ready for a kernel, on their device; `kernels.Points` is the same on the host.

    `left`, the left side of products, has the scaled columns, less a centre that both sides need to share, and then
    the kernel's extra ones. It is a view into `store`, whose rows start at multiples of 16 bytes. `cache` is what a
    fused kernel has made of these rows, for the next product; so nothing writes to `store` after the first one.
    """

    def __init__(self, kernel: DeviceKernel, rows: Rows, dtype: DTypeLike, centre: Floats | None = None) -> None:
        store = padded(rows.shape[0], rows.shape[1] + kernel.extra, dtype, rows.device)
        self._hold(kernel, store, rows.shape[1], centre)
        middle = None if centre is None else arrays.put(centre, self.device, np.float64)
        step = max(1, arrays.entries_of_a_pass(self.device) // self.width)
        with enough_memory(self.device, f"{self.n} rows of {self.d} columns"):
            for i in range(0, self.n, step):
                # In float64: rows may be large, or lose digits, before they are centred and scaled.
                some = rows.tensor[i : i + step].double()
                some = (some if middle is None else some - middle) * kernel.scale()
                self.left[i : i + step, : self.d] = some
                kernel.complete(self.left[i : i + step], self.d)

    def _hold(self, kernel: DeviceKernel, store: Tensor, d: int, centre: Floats | None) -> None:
        self.kernel, self.store, self.d, self.centre = kernel, store, d, centre
        self.n, self.width, self.device = int(store.shape[0]), d + kernel.extra, store.device
        self.dtype = arrays.dtype_of(store)
        self.left = store[:, : self.width]
        self.cache: dict[Any, Any] = {}

    def like(self, store: Tensor) -> DevicePoints:
        """Other rows made ready in the same way, by their storage."""
        points = object.__new__(DevicePoints)
        points._hold(self.kernel, store, self.d, self.centre)
        return points

    def take(self, rows: slice | Index) -> DevicePoints:
        """Some of the rows: a slice (not copied), or a NumPy array of indices."""
        return self.like(arrays.picked(self.store, rows))

    def right(self, rows: slice) -> Any:
        return self.kernel.flip(self.left[rows])


def padded(n: int, width: int, dtype: DTypeLike, device: Device) -> Any:
    """Zeros for n prepared rows that start at multiples of 16 bytes."""
    per = 16 // np.dtype(dtype).itemsize
    return arrays.zeros((n, -(-width // per) * per), device, dtype, f"{n} rows of {width} columns")


# What kernels need beside the functions that NumPy and torch name alike


def copied(array: AnyArray) -> Any:
    return array.clone() if is_tensor(array) else array.copy()


def row_squares(array: AnyArray) -> Any:
    """‖·‖² of each row, in float64."""
    if is_tensor(array):
        return array.double().square().sum(dim=1)
    return np.einsum("ij,ij->i", array, array, dtype=np.float64)


def outer_product(left: AnyArray, right: AnyArray, out: AnyArray) -> Any:
    """left · rightᵀ."""
    return torch().mm(left, right.T, out=out) if is_tensor(left) else np.dot(left, right.T, out=out)


def minus_l1(left: Tensor, right: Tensor, out: Tensor) -> Any:
    """−Σ_k |a_k − b_k| for all pairs of rows of two tensors."""
    return torch().neg(torch().cdist(left, right, p=1.0), out=out)


# Products in tiles


def dot(
    kernel: DeviceKernel,
    A: DevicePoints,
    B: DevicePoints,
    V: Tensor,
    shift: float = 0.0,
    wide: bool = True,
    precision: str | None = None,
) -> Any:
    """K(A, B)·V on the device, V a tensor (q,) or (q, k) of the points' dtype; the parameters are `kernel_dot`'s.

    Within a tile sums are in the tile's dtype, over tiles in float64; without
    `wide` in the tile's dtype too, which does for a map with many columns. Sums go
    over tiles of columns in their order.
    """
    library = torch()
    kind = np.dtype(np.float64) if wide else A.dtype
    found = _fused(kernel, A, B, V, shift, precision)
    if found is not None:
        return found.to(getattr(library, kind.name))
    out = arrays.zeros((A.n, *V.shape[1:]), A.device, kind)
    if shift:
        out += (shift * V.sum(dim=0, dtype=library.float64)).to(out.dtype)
    times = library.mv if V.ndim == 1 else library.mm

    def task(i: slice, j: slice, room: Tensor) -> None:
        tile = _tile(kernel, A.left[i], B.right(j), room)
        if shift:
            tile.sub_(shift)
        out[i] += times(tile, V[j])

    over_tiles(A, B, task)
    return out


def block(kernel: DeviceKernel, A: DevicePoints, B: DevicePoints) -> Any:
    """The whole of K(A, B) on the device."""
    with enough_memory(A.device, f"{A.n} × {B.n} kernel values"), plain_float32(A.device):
        out = torch().empty((A.n, B.n), dtype=A.left.dtype, device=A.device)
        if A.n * B.n <= TILE:
            return _tile(kernel, A.left, B.right(slice(None)), out)

    def task(i: slice, j: slice, room: Tensor) -> None:
        out[i, j] = _tile(kernel, A.left[i], B.right(j), room)

    over_tiles(A, B, task)
    return out


def _tile(kernel: DeviceKernel, left: Tensor, right: Tensor, room: Tensor) -> Any:
    tile = kernel.combine(left, right, lambda size, dtype: room.view(-1))
    kernel.apply(tile)
    return tile


def over_tiles(A: DevicePoints, B: DevicePoints, task: Callable[[slice, slice, Tensor], None]) -> None:
    """Call task(rows, columns, room) for every tile, columns within rows, where `room` is memory for the tile.

    A tile that memory is too short for is done in halves, and so are those after it. Rows are halved, not columns, so
    that sums keep their order. A task that fails must have changed nothing: it adds to its result last.
    """
    library = torch()
    limit = min(TILE, max(LEAST, arrays.free_memory(A.device) // 4 // A.dtype.itemsize))
    across = _columns(A.n, B.n, B.width, limit)
    down = max(1, min(A.n, limit // across))
    room: Any = None

    def attempt(start: int, stop: int, columns: slice) -> None:
        nonlocal room, limit
        size = (stop - start) * (columns.stop - columns.start)
        if size <= limit or stop - start == 1:
            try:
                if room is None or room.numel() < size:
                    room = None
                    room = library.empty(size, dtype=A.left.dtype, device=A.device)
                task(slice(start, stop), columns, room[:size].view(stop - start, -1))
                return
            except RuntimeError as error:
                if not arrays.is_out_of_memory(error):
                    raise
                last = stop - start == 1 or size <= LEAST
            # Past the handler: while it runs, the traceback keeps tensors alive.
            room, limit = None, size // 2
            arrays.release(A.device)
            if last:
                raise MemoryError(arrays.memory_message(A.device, f"tiles of {A.n} × {B.n} kernel values"))
        middle = (start + stop) // 2
        attempt(start, middle, columns)
        attempt(middle, stop, columns)

    with plain_float32(A.device):
        for i in range(0, A.n, down):
            for j in range(0, B.n, across):
                attempt(i, min(i + down, A.n), slice(j, min(j + across, B.n)))


def _columns(rows: int, columns: int, width: int, limit: int) -> int:
    """Columns of a tile: near square, or longer where there are few rows.

    Sums are rounded once a tile, so their last bits depend on this number, and it not on free memory. Only where that
    is short of the right side of a tile, a copy of so many prepared rows, are there fewer.
    """
    wanted = max(1 << (TILE.bit_length() // 2), TILE // max(rows, 1))
    return max(1, min(columns, wanted, limit // width))


def _fused(
    kernel: DeviceKernel, A: DevicePoints, B: DevicePoints, V: Tensor, shift: float, precision: str | None
) -> Any:
    """The product by the fused kernel, or None where there is none for this case."""
    engine = _engine(A.device)
    if engine is None or A.dtype != np.float32 or not vars(type(kernel)).get("fused"):
        return None  # `fused` is not inherited: a subclass may have changed the map
    return engine.dot(A, B, V, shift, precision or "high") if engine.supports(kernel.name, A.d) else None


def _engine(device: Device) -> Any:
    """The module of the fused kernel, where the device allows it."""
    if device.type != "cuda":
        return None
    from . import fused

    return fused if fused.available(device) else None


# Products in true float32


@contextmanager
def plain_float32(device: Device) -> Iterator[None]:
    """Multiply in true float32: a user may have let torch round their factors, by tf32 or autocast."""
    with torch().autocast(device.type, enabled=False), _tf32:  # the first is a thread's own, the second is not
        yield


@contextmanager
def _without_tf32() -> Iterator[None]:
    library = torch()
    matmul = library.backends.cuda.matmul
    if not (matmul.allow_tf32 if not hasattr(matmul, "fp32_precision") else matmul.fp32_precision == "tf32"):
        yield
        return
    # torch has this setting by an older and by a newer name, refuses to multiply where they differ, and changes that of
    # the CPU's products along with it.
    places: list[Any] = [matmul, getattr(library.backends.mkldnn, "matmul", None)]
    both = [place for place in places if hasattr(place, "fp32_precision")]
    before = [place.fp32_precision for place in both]
    try:
        word = library.get_float32_matmul_precision()
    except RuntimeError:  # it was set by the newer name only, which the older one will not read
        word = None
    library.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        if word is not None:
            library.set_float32_matmul_precision(word)
        for place, precision in zip(both, before, strict=True):
            place.fp32_precision = "none"  # what torch has in general, if that is the same
            if place.fp32_precision != precision:
                place.fp32_precision = precision


_tf32 = SharedContext(_without_tf32)
