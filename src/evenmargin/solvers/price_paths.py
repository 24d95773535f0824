"""Machines for a sequence of prices and several folds, on one kernel matrix.

This is what searches share. The kernel matrix of all rows is computed once; a fold is a set of its rows and columns,
and each machine of a path starts from the one before. Small folds (as in `KernelSVM`, up to 2 048 rows) are copied out
in float64 and solved to the last digits without returning to Python (`_core/path_loops.py`); for large ones rows
outside the fold get a price of 0, and blocked SMO (`solvers/smo.py`) works on the matrix as it is, to tol.

The matrix may be on a device (`Square`); only the blocks and sums that are asked for come over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .. import _core
from .._device import arrays
from .._util.threads import Workers
from .._util.typing import Array, Floats, Index, Mask, Tensor, VectorLike
from ..kernels import Precomputed
from ..losses import Hinge, SquaredHinge
from ..problem import KernelProblem
from .gram import SMALL, Entries, WholeGram
from .smo import SMO, SMOState

__all__ = ["Paths", "Square", "solve_paths"]


# The violation that small folds are solved to, whatever tol: as `KernelSVM` does.
_FINE = 1e-10
# The share of tol that the violation may have to come down to until the gap is within tol.
_LEAST = 1e-5
# Steps of SMO that one machine of a small fold may take, at least.
_STEPS = 10_000_000


class Square:
    """A symmetric kernel matrix on a device: the host gets parts of it and sums of its rows, in float64."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.shape, self.device = tensor, tuple(tensor.shape), tensor.device
        self.dtype = arrays.dtype_of(tensor)

    def block(self, rows: Index, columns: Index) -> Array:
        """K[rows][:, columns]."""
        across = arrays.put(columns.astype(np.int64), self.device)
        out, step = np.empty((rows.size, columns.size)), max(1, arrays.PASS // max(1, columns.size))
        for i in range(0, rows.size, step):
            down = arrays.put(rows[i : i + step].astype(np.int64), self.device)
            out[i : i + step] = arrays.fetch(self.tensor[down[:, None], across])
        return out

    def product(self, rows: Index, V: Array) -> Array:
        """V · K[rows], summed in float64."""
        step = max(1, arrays.PASS // self.shape[0])
        total = arrays.zeros((V.shape[0], self.shape[0]), self.device)
        for i in range(0, rows.size, step):
            some = self.tensor[arrays.put(rows[i : i + step].astype(np.int64), self.device)].double()
            total += arrays.put(V[:, i : i + step], self.device) @ some
        return np.asarray(arrays.fetch(total))

    def diagonal(self) -> Array:
        return np.asarray(arrays.to_host(self.tensor.diagonal()), dtype=np.float64)


class Paths(NamedTuple):
    """The machines of each fold, one for each row of prices."""

    beta: list[Array]  # (n_C, fold size) for each fold: signed coefficients of its rows, in their order
    intercept: Array  # (n_folds, n_C)
    scores: Array  # (n_folds, n_C, n): Σ β_j K(x_j, ·) + intercept, for all rows of K, in the fold or not
    converged: Mask  # (n_folds,): whether every machine of the fold is within tol


@dataclass(frozen=True)
class _Fold:
    """One fold: its rows of K, what is asked for, and where the answers go."""

    K: Floats | Square
    rows: Index
    y: Array  # of all rows of K, as prices
    prices: Array
    free: bool
    offset: float
    squared: bool
    tol: float
    beta: Array
    intercept: Array
    scores: Array


def solve_paths(
    K: Floats | Square,
    folds: Sequence[Index],
    y: VectorLike,
    prices: VectorLike,
    *,
    free: bool = True,
    intercept: float = 0.0,
    squared: bool = False,
    tol: float = 1e-3,
    workers: Workers | None = None,
) -> Paths:
    """Machines with the hinge for every fold and every row of prices, the same whatever the threads.

    Minimises 1/2 βᵀKβ + Σ_i price_i [1 − y_i (Kβ + b)_i]₊ over the rows of a fold. K is the positive semidefinite
    kernel matrix of all rows, C-contiguous in float32 or float64; it is not changed. y is −1 or +1, of shape (n,), or
    (n_folds, n), and both must be in each fold. Prices, C times the cost of each row, have shape (n_C, n), or
    (n_folds, n_C, n), and are above 0 for the rows of a fold (others are ignored). Any sequence works; one that
    ascends in C is fast, since each machine starts from the one before.

    A free intercept is learned and not penalised; otherwise it is `intercept`. (For a penalised one, add 1 to K and
    take free=False: the scores then include it.) No pair of rows violates the conditions of the optimum by more than
    tol, in units of the margin. Folds of up to 2 048 rows are solved exactly; only these allow the squared hinge.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.solvers.price_paths import solve_paths
    >>> x = np.array([-2.0, -1.0, 1.0, 2.0, 0.1])
    >>> K = x[:, None] * x
    >>> found = solve_paths(K, [np.arange(4)], [-1, -1, 1, 1, 1], [[0.1] * 5, [10.0] * 5])
    >>> found.scores[0, :, 4].round(3)
    array([0.05, 0.1 ])
    """
    n = K.shape[0]
    if squared and max(fold.size for fold in folds) > SMALL:
        raise ValueError(f"Paths of the squared hinge are for folds of up to {SMALL} rows.")
    labels = np.broadcast_to(np.asarray(y, dtype=np.float64), (len(folds), n))
    prices = np.asarray(prices, dtype=np.float64)
    prices = np.broadcast_to(prices, (len(folds), *prices.shape[-2:]))
    count = prices.shape[1]
    found = Paths(
        [np.empty((count, fold.size)) for fold in folds], np.empty((len(folds), count)),
        np.empty((len(folds), count, n)), np.zeros(len(folds), np.bool_),
    )  # fmt: skip

    def task(i: int) -> None:
        answers = found.beta[i], found.intercept[i], found.scores[i]
        fold = _Fold(K, folds[i], labels[i], prices[i], free, intercept, squared, tol, *answers)
        found.converged[i] = _solve_small(fold) if fold.rows.size <= SMALL else _solve_large(fold)

    (workers or Workers(1)).each(task, range(len(folds)))
    return found


def _solve_small(fold: _Fold) -> bool:
    """Solve a small fold to the last digits, in float64 and compiled code."""
    m, loops = fold.rows.size, _core.path_loops
    own = _gathered(fold.K, fold.rows, fold.rows)
    labels, prices = fold.y[fold.rows], np.ascontiguousarray(fold.prices[:, fold.rows])
    target = labels - fold.offset
    bound, ridge = (SquaredHinge() if fold.squared else Hinge()).dual_box()
    beta, v = fold.beta, np.empty_like(fold.beta)
    room = loops.Room(np.empty((m, m)), *np.empty((11, m)), np.empty(m, np.int64))
    limits = loops.Limits(fold.free, min(fold.tol, 1e-3), _FINE, max(_STEPS, 100 * m))
    short = loops.path(own, labels, target, prices, ridge, beta, v, limits, room)
    fold.intercept[:] = _intercepts(beta, v, labels, prices * bound) if fold.free else fold.offset
    fold.scores[:, fold.rows] = target - v - ridge / prices * beta
    aside = np.ones(fold.K.shape[0], np.bool_)
    aside[fold.rows] = False
    others = np.flatnonzero(aside)
    if others.size:
        fold.scores[:, others] = beta @ _gathered(fold.K, others, fold.rows).T
    fold.scores[...] += fold.intercept[:, None]
    return bool(short == 0)


def _gathered(K: Floats | Square, rows: Index, columns: Index) -> Array:
    """K[rows][:, columns] in float64."""
    if isinstance(K, Square):
        return K.block(rows, columns)
    out = np.empty((rows.size, columns.size))
    _core.smo_loops.gather(K, rows, columns, out)
    return out


def _intercepts(beta: Array, v: Array, y: Array, prices: Array) -> Array:
    """v at the margin for each machine: the mean over free rows, or the middle of what the others leave."""
    lo, hi = np.where(y > 0, 0.0, -prices), np.where(y > 0, prices, 0.0)
    up, down = beta < hi, beta > lo
    inside = up & down
    count = inside.sum(axis=1)
    mean = np.where(inside, v, 0.0).sum(axis=1) / np.maximum(count, 1)
    top = np.max(v, axis=1, where=up, initial=-1e300)
    bottom = np.min(v, axis=1, where=down, initial=1e300)
    return np.where(count > 0, mean, 0.5 * (top + bottom))


class _PathSMO(SMO):
    """Working sets in the order of the rows, so that K is read in one direction, and solved more closely.

    From a start that is near, fewer and closer rounds cost less than many: a round reads much of K.
    """

    def _choose(self, problem: KernelProblem, state: SMOState, top: float, bottom: float) -> Index:
        return np.sort(super()._choose(problem, state, top, bottom))

    def _solve(self, problem: KernelProblem, state: SMOState, rows: Index, violation: float) -> None:
        super()._solve(problem, state, rows, 0.1 * violation)


class _PathGram(WholeGram):
    """The whole matrix; all blocks share one buffer, as fresh memory costs as much as filling it."""

    def __init__(self, K: Floats | Square, workers: Workers) -> None:
        super().__init__(Entries(Precomputed(), K, workers))
        self._place = np.empty(0)

    def _block(self, rows: Index) -> Array:
        if isinstance(self.K, Square):
            return self.K.block(rows, rows)
        if self._place.size < rows.size**2:
            self._place = np.empty(rows.size**2)
        block = self._place[: rows.size**2].reshape(rows.size, rows.size)
        _core.smo_loops.gather(self.K, rows, rows, block)
        return block

    def _dot(self, rows: Index, scale: Array) -> Array:
        if isinstance(self.K, Square):
            return self.K.product(rows, scale[None])[0]
        out = np.zeros(self.n)
        for i in range(0, self.n, 4096):  # in cache
            _core.path_loops.add_rows(self.K, rows, scale, i, out[i : i + 4096])
        return out


def _solve_large(fold: _Fold) -> bool:
    """Blocked SMO on all of K, where rows outside the fold may not move; their scores come with the gradient."""
    n, solver = fold.K.shape[0], _PathSMO()
    price = np.zeros_like(fold.prices)
    price[:, fold.rows] = fold.prices[:, fold.rows]
    workers = Workers(1)
    gram = _PathGram(fold.K, workers)
    intercept = "free" if fold.free else fold.offset
    problem = KernelProblem(fold.K, fold.y, price[0], Hinge(), intercept, kernel=Precomputed(), workers=workers)
    zero = np.zeros(n)
    target = fold.y - fold.offset
    size = min(solver.size, n)
    state = SMOState(gram, zero, zero, zero, target, target.copy(), size, fold.tol, np.empty(0, np.intp))
    good = True
    for c in range(price.shape[0]):
        problem = replace(problem, price=price[c])
        if not _go_on(state, price[max(c - 1, 0), fold.rows], price[c], fold):
            good &= _rounds(solver, problem, state, fold.tol)
        fold.beta[c] = state.beta[fold.rows]
        _, fold.intercept[c] = solver.coefficients(problem, state)
        fold.scores[c] = target - state.v + fold.intercept[c]
    return good


def _go_on(state: SMOState, before: Array, price: Array, fold: _Fold) -> bool:
    """Set the box of the next prices, and scale β to the largest dual objective within it.

    True where that is the solution already: no row was at its price, and prices have not fallen.
    """
    own = np.abs(state.beta[fold.rows])
    inside = bool(own.any() and (own < before).all() and (price[fold.rows] >= before).all())
    box = np.where(fold.y > 0, 0.0, -price), np.where(fold.y > 0, price, 0.0)
    if inside:
        state.restart(state.beta, *box)
        return True
    gain, curve = float(state.beta @ state.target), float(state.beta @ (state.target - state.v))
    most = float((price[fold.rows] / before).min())
    scale = min(max(gain / curve if curve > 0 else 1.0, 1.0), most)
    state.restart(np.clip(scale * state.beta, *box), *box)
    state.v = state.target - scale * (state.target - state.v)
    return False


def _rounds(solver: SMO, problem: KernelProblem, state: SMOState, tol: float) -> bool:
    """Run rounds of SMO until the violation and the gap are within tol; False if they never are."""
    state.tol, state.steps, state.waited = tol, 0, 0
    state.dual, state.least = -np.inf, np.inf
    state.due, state.ending, state.checked = False, None, False
    while True:
        solver.step(problem, state, 1)
        if state.due or state.ending:
            objective, gap = solver.gap(problem, state)
            if gap <= tol * abs(objective):
                return True
            if not state.due or state.tol < _LEAST * tol:
                return False
            state.ending, state.checked = None, False  # the violation is small, but the prices are large
