"""Types of parameters and results, named once.

`MatrixLike` and `VectorLike` stand for what users may give, which no type checker can name: arrays, lists, CSR
matrices, frames, tensors, dask collections. What they become is checked where they enter (`_input`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Single: TypeAlias = NDArray[np.float32]
Floats: TypeAlias = NDArray[np.floating]
Index: TypeAlias = NDArray[np.signedinteger]
Labels: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

MatrixLike: TypeAlias = Any
VectorLike: TypeAlias = Any

# torch is optional and slow to import, so that its types can only be named here.
Tensor: TypeAlias = Any  # torch.Tensor
Device: TypeAlias = Any  # torch.device; None where arrays are NumPy's
AnyArray: TypeAlias = Any  # an array of NumPy or a tensor
ArrayModule: TypeAlias = Any  # numpy or torch

RandomState: TypeAlias = int | np.random.RandomState | None
ClassWeight: TypeAlias = str | Mapping[Any, float] | Callable[[Array], Any] | None


class LossLike(Protocol):
    """What every loss has: its value and slope at one margin. A loss may have more; see `losses.py`."""

    def value(self, margin: float, label: float) -> float: ...

    def slope(self, margin: float, label: float) -> float: ...
