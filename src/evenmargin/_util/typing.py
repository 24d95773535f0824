"""What signatures speak of, named once.

`MatrixLike` and `VectorLike` stand for what users may give, which no type checker can name: arrays, lists, CSR
matrices, frames, tensors, dask collections. What they become is checked where they enter (`_input`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Array", "ClassWeight", "Floats", "Index", "Labels", "LossLike", "Mask", "MatrixLike", "RandomState", "Single",
    "Tensor", "VectorLike",
]  # fmt: skip

Array: TypeAlias = NDArray[np.float64]
Single: TypeAlias = NDArray[np.float32]
Floats: TypeAlias = NDArray[np.floating]
Index: TypeAlias = NDArray[np.signedinteger]
Labels: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

MatrixLike: TypeAlias = Any
VectorLike: TypeAlias = Any

# An array of torch, which is optional.
Tensor: TypeAlias = Any

RandomState: TypeAlias = int | np.random.RandomState | None
ClassWeight: TypeAlias = str | Mapping[Any, float] | Callable[[Array], Any] | None


class LossLike(Protocol):
    """What every loss has: its value and slope at one margin. A loss may have more; see `losses.py`."""

    def value(self, margin: float, label: float) -> float: ...

    def slope(self, margin: float, label: float) -> float: ...
