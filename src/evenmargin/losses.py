"""The losses: functions of the margin y·f(x) and of the label y.

Each loss is a NamedTuple whose methods take one margin and one label (−1, or +1 for the minority). The compiled loops
run the same source, so that each formula is written once. The methods must use plain arithmetic and :mod:`math` only.

- ``value`` and ``slope`` (its derivative by the margin): every loss.
- ``curvature`` (the second derivative): losses with a continuous slope.
- ``conjugate(a)`` = sup over m of (−a·m − loss(m)), 0 ≤ a: convex losses, for the duality gap.
- ``dual_box``: losses whose dual is a quadratic over a box (see `dual_cd`).

At a kink the slope is that of the larger margin's side: as in the papers, a margin of 1 does not violate the hinge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from . import _core
from ._util.typing import Floats

__all__ = ["LOSSES", "Blinex", "Hinge", "Log", "Loss", "SquaredHinge", "get_loss", "slopes", "values"]


class Hinge(NamedTuple):
    """max(0, 1 − m): the loss of the support vector machine.

    Examples
    --------
    >>> from evenmargin.losses import Hinge
    >>> Hinge().value(0.25, 1.0), Hinge().slope(0.25, 1.0)
    (0.75, -1.0)
    """

    def value(self, margin: float, label: float) -> float:
        return max(0.0, 1.0 - margin)

    def slope(self, margin: float, label: float) -> float:
        return -1.0 if margin < 1.0 else 0.0

    def conjugate(self, dual: float, label: float) -> float:
        return -dual

    def dual_box(self) -> tuple[float, float]:
        """Upper bound of the dual variable, and its ridge, per unit of cost."""
        return 1.0, 0.0


class SquaredHinge(NamedTuple):
    """max(0, 1 − m)².

    Examples
    --------
    >>> from evenmargin.losses import SquaredHinge
    >>> SquaredHinge().value(-1.0, 1.0), SquaredHinge().slope(-1.0, 1.0)
    (4.0, -4.0)
    """

    def value(self, margin: float, label: float) -> float:
        slack = max(0.0, 1.0 - margin)
        return slack * slack

    def slope(self, margin: float, label: float) -> float:
        return -2.0 * max(0.0, 1.0 - margin)

    def curvature(self, margin: float, label: float) -> float:
        return 2.0 if margin < 1.0 else 0.0

    def conjugate(self, dual: float, label: float) -> float:
        return -dual + 0.25 * dual * dual

    def dual_box(self) -> tuple[float, float]:
        return math.inf, 0.5


class Log(NamedTuple):
    """log(1 + exp(−m)): the logistic loss.

    Examples
    --------
    >>> from evenmargin.losses import Log
    >>> round(Log().value(0.0, 1.0), 4), Log().slope(0.0, 1.0)
    (0.6931, -0.5)
    """

    def value(self, margin: float, label: float) -> float:
        if margin > 0.0:
            return math.log1p(math.exp(-margin))
        return math.log1p(math.exp(margin)) - margin

    def slope(self, margin: float, label: float) -> float:
        if margin > 0.0:
            small = math.exp(-margin)
            return -small / (1.0 + small)
        return -1.0 / (1.0 + math.exp(margin))

    def curvature(self, margin: float, label: float) -> float:
        small = math.exp(-abs(margin))
        return small / ((1.0 + small) * (1.0 + small))

    def conjugate(self, dual: float, label: float) -> float:
        if dual <= 0.0 or dual >= 1.0:
            return 0.0
        return dual * math.log(dual) + (1.0 - dual) * math.log1p(-dual)


class Blinex(NamedTuple):
    """The bounded linear-exponential loss, asymmetric in the label.

    With ξ = max(0, 1 − m) and u = a·y·ξ the loss is 1 − 1/(1 + b·(exp(u) − u − 1)). It is not convex. It stays below 1,
    so a wrong label costs little, and a > 0 makes a missed positive row more expensive than a false alarm.

    Being bounded, it can invert the costs: at ξ = 1 a positive row pulls 1.72 times as hard as a negative one for a = b
    = 1, but 0.64 times for a = 3, b = 1. Keep b·(exp(a) − a − 1) below about 1.

    Parameters
    ----------
    a : float, default=1.0
        Asymmetry; not 0.
    b : float, default=1.0
        Steepness; above 0.

    Examples
    --------
    >>> from evenmargin.losses import Blinex
    >>> loss = Blinex(a=1.0, b=1.0)
    >>> round(loss.value(0.0, 1.0), 4), round(loss.value(0.0, -1.0), 4)
    (0.418, 0.2689)
    """

    a: float = 1.0
    b: float = 1.0

    def value(self, margin: float, label: float) -> float:
        u = self.a * label * max(0.0, 1.0 - margin)
        if u > 30.0:  # exp(u) would overflow: divide through by it
            small = math.exp(-u)
            excess = self.b * (1.0 - (u + 1.0) * small)
            return excess / (small + excess)
        if abs(u) < 1e-3:  # expm1(u) - u cancels
            excess = self.b * 0.5 * u * u * (1.0 + u / 3.0 + u * u / 12.0)
        else:
            excess = self.b * (math.expm1(u) - u)
        return excess / (1.0 + excess)

    def slope(self, margin: float, label: float) -> float:
        if margin >= 1.0:
            return 0.0
        u = self.a * label * (1.0 - margin)
        if u > 30.0:
            small = math.exp(-u)
            scaled = small + self.b * (1.0 - (u + 1.0) * small)
            return -self.a * self.b * label * (small * (1.0 - small)) / (scaled * scaled)
        growth = math.expm1(u)
        scaled = 1.0 + self.b * (growth - u)
        return -self.a * self.b * label * growth / (scaled * scaled)

    def curvature(self, margin: float, label: float) -> float:
        if margin >= 1.0:
            return 0.0
        u = self.a * label * (1.0 - margin)
        if u > 30.0:
            return 0.0  # below 1e-12, and negative: of no use to a Newton step
        growth = math.expm1(u)
        scaled = 1.0 + self.b * (growth - u)
        bend = (growth + 1.0) * scaled - 2.0 * self.b * growth * growth
        return self.a * self.a * self.b * bend / (scaled * scaled * scaled)


Loss = Hinge | SquaredHinge | Log | Blinex

LOSSES: dict[str, type] = {"hinge": Hinge, "squared_hinge": SquaredHinge, "log": Log, "blinex": Blinex}


def get_loss(loss: Any) -> Any:
    """The loss of that name, or the loss object itself, with its parameters as floats.

    Examples
    --------
    >>> from evenmargin.losses import get_loss
    >>> get_loss("log")
    Log()
    >>> get_loss("huber")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: loss='huber' is unknown; choose one of 'blinex', 'hinge', ..., or give a loss object.
    """
    if loss == "log_loss":  # scikit-learn's name
        return Log()
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]()
    if isinstance(loss, Blinex) and not (
        all(isinstance(field, Real) for field in loss) and math.isfinite(loss.a) and 0 < loss.b < math.inf and loss.a
    ):
        raise ValueError(f"{loss!r} is not a valid loss: a must be finite and not 0, b finite and above 0.")
    if isinstance(loss, tuple) and hasattr(loss, "slope") and hasattr(loss, "value"):
        kind: Any = type(loss)
        return kind(*(float(field) for field in loss))  # one compiled loop per loss, not per int or float
    known = ", ".join(repr(name) for name in sorted(LOSSES))
    raise ValueError(f"loss={loss!r} is unknown; choose one of {known}, or give a loss object.")


def values(loss: Loss, margins: ArrayLike, labels: ArrayLike) -> Floats:
    """The loss of many margins at once, by the compiled loop.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.losses import Hinge, values
    >>> values(Hinge(), np.array([0.0, 2.0]), np.array([1.0, 1.0]))
    array([1., 0.])
    """
    return _vector(_core.loss_loops.values, loss, margins, labels)


def slopes(loss: Loss, margins: ArrayLike, labels: ArrayLike) -> Floats:
    """The slope of the loss at many margins at once, by the compiled loop.

    Examples
    --------
    >>> from evenmargin.losses import Blinex, Hinge, slopes
    >>> slopes(Hinge(), [0.0, 2.0], [1.0, 1.0])
    array([-1.,  0.])
    >>> slopes(Blinex(), [0.0, 0.0], [1.0, -1.0]).round(2)  # a missed positive pulls harder
    array([-0.58, -0.34])
    """
    return _vector(_core.loss_loops.slopes, loss, margins, labels)


def _vector(loop: Callable[..., None], loss: Loss, margins: ArrayLike, labels: ArrayLike) -> Floats:
    margins = np.ascontiguousarray(margins)
    labels = np.ascontiguousarray(np.broadcast_to(labels, margins.shape), dtype=margins.dtype)
    out = np.empty_like(margins)
    loop(loss, margins.ravel(), labels.ravel(), out.ravel())
    return out
