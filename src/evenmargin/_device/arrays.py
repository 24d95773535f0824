"""The one file that knows array libraries and devices.

What other modules use:

    Home          the kind of array that X was, for results
    Rows          rows of X on a device; to the code above: shape, dtype, X[rows], host()
    namespace     NumPy or torch, by the array: most functions of a tile have one name in both
    memory        how much is free on a device, and the error where it runs out

Products of rows are in `products.py`.

Solvers keep coefficients, gradients and labels in NumPy, and whatever is sequential sees nothing else: `to_host` is the
way back. torch is imported when a device is first asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._util.typing import AnyArray, Array, ArrayModule, Device, Floats, Index, Mask, MatrixLike, Tensor

PASS = 1 << 24  # entries that a pass over a tensor takes at a time
LEAST_PASS = 1 << 14  # even where memory is short
PINNED = 64 << 20  # bytes up to which results come down through memory that the device writes to directly
ROUNDING = 5e-7  # error of a float32 kernel value computed on a device, in units of its size


def torch() -> ArrayModule:
    """Import torch, or say how to install it."""
    try:
        import torch as library
    except ImportError:
        raise ImportError(
            "device= needs PyTorch, which is not installed: pip install 'evenmargin[torch]', or leave device=None."
        ) from None
    return library


def is_tensor(array: AnyArray) -> bool:
    """Whether this is a torch tensor; torch is not imported for the answer."""
    library = sys.modules.get("torch")
    return library is not None and isinstance(array, getattr(library, "Tensor", ()))


def namespace(array: AnyArray) -> ArrayModule:
    """NumPy or torch, whichever the array belongs to."""
    return np if isinstance(array, np.ndarray) else torch()


def to_host(array: AnyArray, dtype: DTypeLike | None = None) -> Any:
    """Take a tensor or Rows to NumPy; return anything else as it is."""
    if isinstance(array, Rows):
        array = array.tensor
    if is_tensor(array):
        array = array.detach().cpu().resolve_neg()
        array = (array.float() if array.dtype == torch().bfloat16 else array).numpy()  # NumPy has no bfloat16
    return array if dtype is None else np.asarray(array, dtype=dtype)


def readable(X: Tensor) -> Any:
    """A tensor whose numbers can be read: detached, dense, float32 or float64.

    Half precision becomes float32. Whole numbers become float64, as NumPy's do.
    """
    if X.device.type not in ("cpu", "cuda"):
        raise ValueError(f"X is a tensor on {str(X.device)!r}: tensors may be on the CPU or on CUDA devices.")
    if "strided" not in str(X.layout):
        raise ValueError("X is a sparse tensor: use X.to_dense(), or a CSR matrix of SciPy.")
    if X.dtype.is_complex:
        raise ValueError("Complex data not supported: X is a tensor of complex numbers.")
    X, floats = X.detach(), (torch().float32, torch().float64)
    if X.dtype in floats:
        return X
    return X.float() if X.dtype.is_floating_point else X.double()


def fetch(tensor: Tensor) -> Any:
    """Take a result that is used at once to NumPy: through pinned memory, some three times as fast."""
    if tensor.device.type != "cuda" or tensor.nbytes > PINNED:
        return to_host(tensor)
    library = torch()
    try:  # torch keeps it for the next
        host = library.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
    except RuntimeError:  # no more memory may be pinned
        return to_host(tensor)
    host.copy_(tensor, non_blocking=True)
    library.cuda.current_stream(tensor.device).synchronize()
    return host.numpy()


def put(array: AnyArray, device: Device, dtype: DTypeLike | None = None) -> Any:
    """Put an array on the device as a tensor, which may share its memory and so must not be written to."""
    if isinstance(array, np.ndarray):
        plain = array.flags.writeable and array.flags.c_contiguous
        array = torch().from_numpy(array if plain else np.array(array, order="C"))
    with enough_memory(device, f"an array of shape {tuple(array.shape)}"):
        return array.to(device=device, dtype=None if dtype is None else getattr(torch(), np.dtype(dtype).name))


def zeros(shape: int | tuple[int, ...], device: Device, dtype: DTypeLike = np.float64, what: str = "") -> Any:
    """A tensor of zeros; an error on too little memory says `what` it is for."""
    with enough_memory(device, what or f"an array of shape {shape}"):
        return torch().zeros(shape, dtype=getattr(torch(), np.dtype(dtype).name), device=device)


def dtype_of(tensor: Tensor) -> np.dtype[Any]:
    """NumPy's name for the dtype of a tensor."""
    return np.dtype(str(tensor.dtype).removeprefix("torch."))


# Where to compute, and how to return results


def find_device(device: Device | str) -> Any:
    """The torch device for a name, or an error where there is none.

    Without torch the CPU is None.
    """
    if device == "cpu" and find_spec("torch") is None:
        return None
    library = torch()
    try:
        found = library.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"device={device!r} is not a device: use None, 'cpu', 'cuda' or 'cuda:0'.") from None
    if found.type == "cpu":
        return found
    if found.type != "cuda":
        raise ValueError(f"device={device!r} is not supported: use None, 'cpu', 'cuda' or 'cuda:0'.")
    if not library.cuda.is_available():
        raise ValueError(
            f"device={device!r}, but PyTorch finds no CUDA device here: use device=None for the "
            "CPU (for a fitted model, set_params(device=None))."
        )
    count = library.cuda.device_count()
    if found.index is not None and found.index >= count:
        raise ValueError(f"device={device!r}, but PyTorch finds {count} CUDA device(s) here, numbered from 0.")
    return library.device("cuda", library.cuda.current_device() if found.index is None else found.index)


def known_device(device: Device | str) -> Device:
    """The torch device for a name; None where there is none."""
    try:
        return find_device(device)
    except (ValueError, ImportError):
        return None


def native(device: Device) -> bool:
    """Whether this device is the host, where NumPy and the compiled loops are faster than torch.

    Tests replace it by one that says no, so that what runs on a GPU runs on the CPU.
    """
    return device is None or device.type == "cpu"


@dataclass(frozen=True)
class Home:
    """The kind of array that X was: on the device of a tensor, or None for NumPy and the like."""

    device: Device = None

    @classmethod
    def of(cls, X: MatrixLike, dispatch: bool) -> Home:
        """Follow scikit-learn's convention: a tensor counts as one where array API dispatch is on.

        A tensor on a GPU always does: it cannot be taken for a NumPy array, so
        there is nothing else that it could mean.
        """
        return cls(X.device) if is_tensor(X) and (dispatch or X.device.type != "cpu") else cls()

    def give(self, array: AnyArray) -> Any:
        """A result as the kind of array that X was; what no tensor holds (strings, long doubles) stays with NumPy."""
        if self.device is None:
            return to_host(array)
        if isinstance(array, Rows):
            array = array.tensor
        if isinstance(array, np.ndarray):
            if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
                return array
            array = array.astype(array.dtype.newbyteorder("="), copy=False)
        return put(array, self.device)


# Rows


class Rows:
    """Rows of X on a device, float32 or float64. Indices come from the host: slices or NumPy arrays.

    Nothing works in place on them: they may be the user's own tensor.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.device = tensor, tensor.device
        self.shape, self.ndim = tuple(tensor.shape), tensor.ndim
        self.dtype = dtype_of(tensor)
        self.original: Any = tensor  # what the user gave: the columns of a frame have names

    @classmethod
    def put(cls, X: MatrixLike, device: Device) -> Rows:
        """Put X on the device: CSR becomes dense, and what is there already is not copied."""
        library = torch()
        if isinstance(X, Rows):
            return X if X.device == device else cls(X.tensor.to(device))
        with enough_memory(device, f"{X.shape[0]} rows of {X.shape[1]} columns"):
            if hasattr(X, "indptr"):
                kind = library.float64 if X.dtype == np.float64 else library.float32
                dense = library.empty(X.shape, dtype=kind, device=device)
                step = max(1, PASS // max(1, X.shape[1]))
                for i in range(0, X.shape[0], step):
                    dense[i : i + step] = library.from_numpy(X[i : i + step].toarray())
                return cls(dense)
            return cls(readable(put(X, device)).contiguous())

    def __getitem__(self, rows: slice | Index | Mask) -> Rows:
        return Rows(picked(self.tensor, rows))

    def __len__(self) -> int:
        return int(self.shape[0])

    def host(self) -> Floats:
        return np.asarray(to_host(self.tensor))

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Refuse: NumPy would silently make an array of one object of it."""
        raise TypeError("These rows are on a device: code that needs them on the host must call host().")

    def centre(self) -> NDArray[Any]:
        """The mean row, summed in float64."""
        total = sum(self._over(lambda _, some: some.sum(dim=0)))
        return np.asarray((to_host(total) / self.shape[0]).astype(self.dtype))

    def squares(self, centre: Floats | None = None) -> Array:
        """‖x − centre‖² of each row in float64, on the host."""
        middle = None if centre is None else put(centre, self.device, np.float64)
        parts = self._over(lambda _, some: (some if middle is None else some.sub_(middle)).square_().sum(dim=1).cpu())
        return np.concatenate([part.numpy() for part in parts])

    def variance(self, weight: Array) -> float:
        """The variance of all entries, rows counted by their weight, in two passes."""
        w = put(weight, self.device, np.float64)
        total = float(weight.sum()) * self.shape[1]
        first = sum(self._over(lambda at, some: float(w[at] @ some.sum(dim=1)))) / total
        second = sum(self._over(lambda at, some: float(w[at] @ some.sub_(first).square_().sum(dim=1)))) / total
        return second if second > 1e-28 * first * first else 0.0  # of a constant X: rounding

    def check(self, name: str, squared: bool = True) -> None:
        """Refuse what is not finite, in scikit-learn's words, or too large to square."""
        low, high = (float(edge) for edge in self.tensor.aminmax())
        if not np.isfinite([low, high]).all():
            nan = np.isnan(low) or np.isnan(high)  # aminmax hands NaN on
            kind = "NaN" if nan else f"infinity or a value too large for dtype({self.dtype.name!r})"
            raise ValueError(f"Input X contains {kind}.\n{name} does not accept missing values encoded as NaN.")
        largest = max(-low, high)
        if squared and largest > float(np.finfo(self.dtype).max) ** (1.0 / 3.0):
            raise ValueError(too_large_message(largest, self.dtype))

    def _over(self, task: Callable[[slice, Tensor], Any]) -> list[Any]:
        """Call task(where, rows) with some rows at a time, copied to float64."""
        step = max(1, entries_of_a_pass(self.device) // max(1, self.shape[1]))
        with enough_memory(self.device, f"a pass over {self.shape[0]} rows of {self.shape[1]} columns"):
            return [
                task(slice(i, i + step), self.tensor[i : i + step].to(torch().float64, copy=True))
                for i in range(0, self.shape[0], step)
            ]


def picked(tensor: Tensor, rows: slice | Index | Mask) -> Tensor:
    """Rows of a tensor, by indices as NumPy takes them."""
    if isinstance(rows, slice):
        return tensor[rows]
    index: NDArray[Any] = np.asarray(rows)
    index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.int64, copy=False)
    if index.size and index.min() < 0:  # from the end, which torch does not know here
        index = np.where(index < 0, index + tensor.shape[0], index)
    with enough_memory(tensor.device, f"{index.size} rows of {tensor.shape[1]} columns"):
        return tensor.index_select(0, put(index, tensor.device))


# Memory, and error messages


def too_large_message(largest: float, dtype: DTypeLike) -> str:
    return (
        f"X has values up to {largest:.1e}, too large to square in {dtype}: "
        "scale the features first, for example with sklearn.preprocessing.StandardScaler."
    )


def free_memory(device: Device) -> int:
    """Bytes that may be taken there, with those that torch holds without using them."""
    if device.type != "cuda":
        return 1 << 34
    cuda = torch().cuda
    return int(cuda.mem_get_info(device)[0] + cuda.memory_reserved(device) - cuda.memory_allocated(device))


def entries_of_a_pass(device: Device) -> int:
    """How many entries of X a pass may take at a time, in float64 and with some copies."""
    return min(PASS, max(LEAST_PASS, free_memory(device) // 32))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out: torch's own, or what CUDA, cuBLAS and Triton raise past it."""
    words = ("out of memory", "ALLOC_FAILED")
    return isinstance(error, torch().cuda.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    )


def release(device: Device) -> None:
    if device.type == "cuda":
        torch().cuda.empty_cache()


def memory_message(device: Device, what: str) -> str:
    return (
        f"{device} has {free_memory(device) / 1e9:.2g} GB of memory left, too little for {what}: "
        "free some there, take fewer rows, or compute on the CPU (device='cpu')."
    )


@contextmanager
def enough_memory(device: Device, what: str) -> Iterator[None]:
    """Say what was too large where memory runs out, as torch does not."""
    try:
        yield
        return
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    release(device)
    raise MemoryError(memory_message(device, what))
