"""Stochastic gradient descent with a kernel, in blocks: KSGD, WKSGD, kernel Pegasos, the kernel Blinex machine.

The rule is that of `pegasos.py`, for w = Σ β_j φ(x_j). At step t = 1, 2, …:

    draw row i;  score = Σ_j c_j K(x_j, x_i) / (t − 1), 0 at t = 1
    c_i ← c_i − (price_i / frequency_i) · slope · y_i,   and  β = c / t.

The rows of the next B steps are known before they are taken. So their scores against all that was drawn before come
from one tile of K at a time, by a matrix product; only the B steps among themselves are sequential, on a B × B tile.
The iterates are those of one step after another. Rows on a device stay there: per block, B scores and the B × B tile
come down, and B coefficients go up.

Lu and Zhou for the hinge and the log loss with class-size weights; Sun for class-balanced sampling with a given bias;
the kernel algorithm of the Blinex paper, whose constant here is that of its objective.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import _core
from .._device import arrays, products
from .._util.typing import Array, Floats, Index, MatrixLike
from ..kernels import Function, Points, Precomputed, centre_of
from ..problem import KernelProblem
from .base import Control
from .duality import best_intercept
from .gram import SMALL
from .pegasos import StepsOverT, StepsState

BLOCK, BLOCK_THERE = 512, 1024  # steps that are taken from one tile, on the host and on a device
LOOK, LOOK_THERE = 500_000_000, 100_000_000_000  # kernel values that a look at all rows may cost: about a second
_COLUMNS = 768  # of a tile; a power of two is slower, as rows of it compete for places in the cache


@dataclass
class KernelSGDState(StepsState):
    coef: Array  # c, up to the scale in `tally`
    drawn: DrawnRows


@dataclass(frozen=True)
class KernelSGD(StepsOverT):
    """Blocked kernel SGD; see the module.

    Parameters
    ----------
    project : bool, default=False
        Scale w back to ‖w‖ ≤ 1/√λ after each step.
    best_b : bool, default=True
        Set a free intercept to its best value for the final w.
    """

    project: bool = False
    best_b: bool = True

    name = "sgd"
    kernel = True

    def default_max_iter(self, problem: KernelProblem) -> int:
        return min(max(10_000, 5 * problem.shape[0]), 100_000)

    def init(self, problem: KernelProblem, control: Control) -> KernelSGDState:
        coef, drawn = np.zeros(problem.shape[0]), _drawn(problem)
        state = KernelSGDState(**self._start(problem, control), coef=coef, drawn=drawn)
        if control.coef is not None and control.steps:
            state.coef = coef = control.steps * control.coef.astype(np.float64)
            rows = np.flatnonzero(coef)
            drawn.note(rows, coef[rows], coef, 1.0)
        if state.rule.radius < np.inf:
            loops = _core.sgd_loops
            extra = state.tally[loops.BIAS] ** 2 if problem.augmented else 0.0
            state.tally[loops.NORM2] = problem.squared_norm(coef) + extra
        return state

    def step(self, problem: KernelProblem, state: KernelSGDState, limit: int) -> int:
        order = state.take(min(limit, state.drawn.block))
        scores, K = state.drawn.against(order, state.coef)
        added = np.empty(order.size)
        block = K, scores, state.pull[order], problem.loss
        folded = _core.sgd_loops.kernel_steps(*block, state.t, state.tally, state.rule, added)
        if folded != 1.0:
            state.coef *= folded
        np.add.at(state.coef, order, added)
        state.drawn.note(order, added, state.coef, folded)
        state.t += order.size
        return int(order.size)

    def coefficients(self, problem: KernelProblem, state: KernelSGDState) -> tuple[Array, float]:
        loops, t = _core.sgd_loops, max(state.t, 1)
        b = state.tally[loops.BIAS] / (t if problem.augmented else 1.0)
        return state.coef * (state.tally[loops.SCALE] / t), float(b)

    def _best_intercept(self, problem: KernelProblem, w: Floats) -> float:
        n, support = problem.shape[0], max(1, int(np.count_nonzero(w)))
        if n * support <= look(problem.X):
            return super()._best_intercept(problem, w)
        some = slice(0, None, int(np.ceil(10.0 * n * support / look(problem.X))))  # all would cost more than the fit
        sample = replace(problem, X=problem.X[some], y=problem.y[some], price=problem.price[some])
        return best_intercept(sample, problem.scores_of(sample.X, w).astype(np.float64))


def look(X: MatrixLike) -> int:
    """How many kernel values may be computed to measure something on all rows, on the device of X."""
    return LOOK_THERE if isinstance(X, arrays.Rows) else LOOK


class DrawnRows(ABC):
    """The rows drawn so far, in the order in which they got a coefficient.

    A block must not cost what grows with their number, beside the products: what is prepared of them has its memory
    doubled when it is full, and only what a block has changed is written.
    """

    block = BLOCK

    def __init__(self, problem: KernelProblem) -> None:
        self.problem, self.count = problem, 0
        self.place = np.full(problem.shape[0], -1)  # where a row stands among them
        self.rows = np.empty(problem.shape[0], np.intp)  # which row stands there

    def note(self, order: Index, added: Array, coef: Array, folded: float) -> None:
        """Record a block, which has added to coefficients of its rows, now `coef`, and multiplied all others."""
        moved = np.unique(order[added != 0.0])
        new = moved[self.place[moved] < 0]
        start, self.count = self.count, self.count + new.size
        self.rows[start : self.count] = new
        self.place[new] = np.arange(start, self.count)
        if new.size:
            self._append(new, start)
        if folded != 1.0:
            moved = self.rows[: self.count]
        if moved.size:
            self._write(self.place[moved], coef[moved])

    @abstractmethod
    def against(self, order: Index, coef: Array) -> tuple[Array, Any]:
        """Σ_j c_j K(x_j, x_i) for the rows of a block, and K among them."""

    def _append(self, new: Index, start: int) -> None:  # noqa: B027 (optional)
        """Prepare new rows, from this place on."""

    def _write(self, places: Index, values: Array) -> None:  # noqa: B027 (optional)
        """Set the coefficients at these places, where they are kept beside the rows."""

    def _with_room(self, held: Any, start: int, empty: Callable[[int], Any]) -> Any:
        """The array held, or once it is full a larger one with the first `start` rows of it."""
        room = held.shape[0]
        if self.count <= room:
            return held
        larger = empty(min(max(2 * room, self.count, 4096), self.place.size))
        larger[:start] = held[:start]
        return larger


def _drawn(problem: KernelProblem) -> DrawnRows:
    if isinstance(problem.kernel, Precomputed | Function):
        return PlainDrawnRows(problem)
    return DrawnRowsOnDevice(problem) if isinstance(problem.X, arrays.Rows) else DrawnRowsOnHost(problem)


class PlainDrawnRows(DrawnRows):
    """For a kernel that is a matrix or a function: there is nothing to prepare."""

    def against(self, order: Index, coef: Array) -> tuple[Array, Any]:
        X, kernel, past = self.problem.X, self.problem.kernel, self.rows[: self.count]
        if isinstance(kernel, Precomputed):
            K = X[order]
            return np.asarray(K @ coef, dtype=np.float64), np.ascontiguousarray(K[:, order])
        own = X[order]
        scores = kernel.matrix(own, X[past]) @ coef[past] if past.size else np.zeros(order.size)
        return scores, kernel.matrix(own, own)


class DrawnRowsOnHost(DrawnRows):
    """Right sides of the rows, where they are dense."""

    def __init__(self, problem: KernelProblem) -> None:
        super().__init__(problem)
        self.points = Points(problem.kernel, problem.X, problem.X.dtype, centre_of(problem.kernel, problem.X))
        self.block = min(BLOCK, self.points.tile)  # fewer rows where they are long
        self.dense = self.points.sparse is None
        self.right = np.empty((0, self.points.width), self.points.dtype)

    def _append(self, new: Index, start: int) -> None:
        if self.dense:
            points = self.points
            self.right = self._with_room(self.right, start, lambda n: np.empty((n, points.width), points.dtype))
            self.right[start : self.count] = points.right(new)

    def against(self, order: Index, coef: Array) -> tuple[Array, Any]:
        problem, kernel = self.problem, self.problem.kernel
        left, own = self.points.left(order), np.empty((order.size, order.size), self.points.dtype)
        c = coef[self.rows[: self.count]].astype(self.points.dtype)
        starts = range(0, self.count, _COLUMNS)
        parts = np.zeros((len(starts), order.size))

        def task(place: int) -> None:
            if place == len(starts):  # the block itself, while others work on the past
                own[...] = kernel.combine(left, self.points.right(order), problem.workers.buffer, True)
                kernel.apply(own, True)
                return
            some = slice(starts[place], min(starts[place] + _COLUMNS, self.count))
            right = self.right[some] if self.dense else self.points.right(self.rows[some])
            tile = kernel.combine(left, right, problem.workers.buffer, True)
            kernel.apply(tile, True)
            parts[place] = np.dot(tile, c[some])

        problem.workers.each(task, range(len(starts), -1, -1))
        return parts.sum(axis=0), own


class DrawnRowsOnDevice(DrawnRows):
    """Prepared rows in the order drawn, and their coefficients in float32, both on the device.

    Coefficients go up from those in float64, so that nothing drifts.
    """

    block = BLOCK_THERE

    def __init__(self, problem: KernelProblem) -> None:
        super().__init__(problem)
        X, kernel = problem.X, problem.kernel
        dtype = X.dtype if X.shape[0] <= SMALL else np.float32
        self.points = products.DevicePoints(kernel, X, dtype, centre_of(kernel, X))
        self.past = self.points.take(slice(0, 0))
        self.c = arrays.zeros(self.place.size, X.device, dtype)

    def _append(self, new: Index, start: int) -> None:
        points = self.points
        kind = points.width, points.dtype, points.device
        self.past = points.like(self._with_room(self.past.store, start, lambda n: products.padded(n, *kind)))
        # Points remember what was made of them, but products are of others, taken anew for each block.
        self.past.store[start : self.count] = points.take(new).store

    def _write(self, places: Index, values: Array) -> None:
        self.c[arrays.put(places, self.c.device)] = arrays.put(values, self.c.device, self.points.dtype)

    def against(self, order: Index, coef: Array) -> tuple[Array, Any]:
        kernel, own = self.problem.kernel, self.points.take(order)
        tile = products.block(kernel, own, own)
        if self.count == 0:
            return np.zeros(order.size), arrays.fetch(tile)
        past = self.past.take(slice(0, self.count))
        scores = products.dot(kernel, own, past, self.c[: self.count])
        return arrays.fetch(scores), arrays.fetch(tile)
