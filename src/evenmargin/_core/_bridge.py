"""How a loop calls a loss, or a row of X, without knowing which kind it has.

Losses and rows are NamedTuples whose methods are written for one number at a time. In Python `slope(loss, margin,
label)` is a plain method call. In a compiled loop it is resolved from numba's type for the NamedTuple, so that the
method is inlined and the loop can be cached on disk (with functions as arguments or with jitclasses it cannot).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from .._util.typing import LossLike
from ._jit import overload

_Stub = TypeVar("_Stub", bound=Callable[..., Any])


def _bare(function: FunctionType) -> FunctionType:
    """The function without its annotations, which numba would compare."""
    return FunctionType(function.__code__, function.__globals__, function.__name__)


def bridge(stub: _Stub) -> _Stub:
    """Compile calls of ``stub(self, ...)`` as calls of self's method of that name."""
    name = stub.__name__

    def resolve(self: Any, *_: Any) -> FunctionType | None:
        found = getattr(getattr(self, "instance_class", None), name, None)
        return None if found is None else _bare(found)

    assert isinstance(stub, FunctionType)
    resolve.__signature__ = inspect.signature(_bare(stub))  # type: ignore[attr-defined]  # numba reads it, and functions may have it
    overload(stub)(resolve)
    return stub


@bridge
def value(self: LossLike, margin: float, label: float) -> float:
    """The loss at one margin."""
    return float(self.value(margin, label))


@bridge
def slope(self: LossLike, margin: float, label: float) -> float:
    """The derivative of the loss with respect to the margin."""
    return float(self.slope(margin, label))


@bridge
def curvature(self: Any, margin: float, label: float) -> float:
    """The second derivative of the loss with respect to the margin."""
    return float(self.curvature(margin, label))


@bridge
def conjugate(self: Any, dual: float, label: float) -> float:
    """The convex conjugate of the loss at minus ``dual``."""
    return float(self.conjugate(dual, label))
