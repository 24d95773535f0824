"""How a loop calls a loss, or a row of X, without knowing which kind it has.

Losses and rows are NamedTuples whose methods are written for one number at a time. In Python `slope(loss, margin,
label)` is a plain method call. In a compiled loop it is resolved from numba's type for the NamedTuple, so that the
method is inlined and the loop can be cached on disk (with functions as arguments or with jitclasses it cannot).
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from types import FunctionType
from typing import Any

from ._jit import overload


def bridge(name: str, *arguments: str) -> Callable[..., Any]:
    """The function f(self, *arguments) that calls self's method of that name, in Python and in compiled loops."""

    def call(self: Any, *given: Any) -> Any:
        return getattr(self, name)(*given)

    def resolve(self: Any, *_: Any) -> FunctionType | None:
        found = getattr(getattr(self, "instance_class", None), name, None)
        if found is None:
            return None
        return FunctionType(found.__code__, found.__globals__, name)  # without annotations, which numba would compare

    kind = Parameter.POSITIONAL_OR_KEYWORD
    resolve.__signature__ = Signature([Parameter(each, kind) for each in ("self", *arguments)])  # type: ignore[attr-defined]  # numba reads it
    overload(call)(resolve)
    return call


value = bridge("value", "margin", "label")  # the loss at one margin
slope = bridge("slope", "margin", "label")  # its derivative by the margin
curvature = bridge("curvature", "margin", "label")  # its second derivative
conjugate = bridge("conjugate", "dual", "label")  # its convex conjugate at minus `dual`
