"""Sequential minimal optimisation in blocks: the exact solver for kernel machines with the hinge.

In signed coefficients β_i = α_i y_i the dual is

    maximise  Σ β_i y_i − 1/2 βᵀKβ,   β_i between 0 and price_i·y_i,  Σ β_i = 0,

the last only where the intercept is free. Its gradient is v = y − Kβ, and β is optimal when no v of a row that may rise
is above that of a row that may fall; the difference is the violation, in units of the margin.

A round takes the rows that violate most and keeps the last round's free ones, solves the problem of these rows alone on
their block of K (`block.py`), and then updates v of all rows for the coefficients that changed. Sets grow when many of
their rows are free, as they are for a large C.

Many rows with a cheap kernel start from a sample, which grows from some thousand rows: the machine of a quarter of the
rows at four times their price is nearly the same function, and tells which of all rows are at which bound.

Products with K are in float32 at first. Before the result is believed, v is computed again in float64 for the rows near
the margin; if it then fails, rounds go on in float64. So the violation that ends a fit is a true one.

With the squared hinge there is no upper bound, and K has a ridge of 1/(2 price).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._util.typing import Array, Index
from ..kernels import kernel_dot
from ..losses import values
from ..problem import KernelProblem, Solution, Status
from .base import Control, Solver, State, run, whole
from .block import WorkingSet
from .gram import Entries, Gram, StreamedGram, WholeGram, hold

# Error of a float32 kernel value from which float64 is used from the start.
_COARSE = 1e-4
# Rows from which a start from a sample pays, if of its rows at least so many are at a bound, and so few are free.
_MANY, _BOUND, _FREE = 16_000, 0.3, 0.1
# Over this distance from the margin, a row's coefficient goes from one bound to the other at such a start.
_WIDTH = 0.04
# Rounds that neither gain in the dual objective nor lower the violation, after which nothing is left at this precision.
_PATIENCE = 10
# Steps inside blocks that a fit may take, at least: what LIBSVM grants too.
_STEPS = 10_000_000


@dataclass
class SMOState(State):
    gram: Gram
    beta: Array
    lo: Array
    hi: Array
    target: Array  # y, less a given intercept
    v: Array  # target − Kβ
    size: int  # rows of a working set
    tol: float
    last: Index  # the last working set
    dual: float = -np.inf  # the best so far, and the least violation
    least: float = np.inf
    waited: int = 0
    steps: int = 0  # inside blocks
    checked: bool = False  # v was computed anew in float64 since the last round

    def __post_init__(self) -> None:
        self.rise, self.fall, self.up, self.down = np.empty((4, self.beta.size))
        self.note(slice(None))

    def restart(self, beta: Array, lo: Array, hi: Array) -> None:
        """Go on from other coefficients, in another box."""
        self.beta, self.lo, self.hi = beta, lo, hi
        self.note(slice(None))

    def note(self, rows: Index | slice) -> None:
        """Note whether these rows may rise and fall: a round looks at all rows twice, but moves few."""
        self.rise[rows] = np.where(self.beta[rows] < self.hi[rows], 0.0, -np.inf)
        self.fall[rows] = np.where(self.beta[rows] > self.lo[rows], 0.0, np.inf)

    def movable(self) -> tuple[Array, Array]:
        """v of rows that may rise, −∞ for others, and of rows that may fall, ∞ for others; good until the next call."""
        return np.add(self.v, self.rise, out=self.up), np.add(self.v, self.fall, out=self.down)


@dataclass(frozen=True)
class SMO(Solver):
    """Blocked SMO; see the module.

    Parameters
    ----------
    size : int, default=1024
        Rows of a working set, to start with.
    """

    size: int = 1024

    name = "smo"
    unit = "working set"
    kernel = True
    needs = ("dual_box",)
    _conditions = {"size": whole(2)}

    def init(self, problem: KernelProblem, control: Control) -> SMOState:
        _, ridge = problem.loss.dual_box()
        constant, ridge = float(problem.augmented), ridge / problem.price if ridge else None
        entries = Entries(problem.kernel, problem.X, problem.workers, constant, ridge)
        gram = hold(entries, problem.cache_size, self.size)
        if gram.rounding > _COARSE:
            gram.widen()
        y = problem.y.astype(np.float64)
        lo, hi = _box(problem)
        beta = np.zeros(y.size)
        if control.alpha is not None:
            beta = _balanced(np.clip(control.alpha * y, lo, hi), problem.free)
        elif y.size > _MANY and isinstance(gram, StreamedGram) and control.tol < 0.1 and np.isfinite(hi).all():
            beta = self._from_samples(problem)
        target = y - problem.offset
        some = np.flatnonzero(beta)
        v = target - gram.dot(some, beta[some]) if some.size else target.copy()
        size = min(self.size, gram.most, y.size)
        if isinstance(gram, WholeGram) and y.size <= gram.most:
            size = y.size
        return SMOState(gram, beta, lo, hi, target, v, size, control.tol, np.empty(0, np.intp))

    def step(self, problem: KernelProblem, state: SMOState, limit: int) -> int:
        top, bottom = _extremes(state, problem.free)
        noise = _noise(state)
        if top - bottom <= max(state.tol, 3.0 * noise):
            before = state.checked
            self._check(problem, state, noise)
            top, bottom = _extremes(state, problem.free)
            if top - bottom <= state.tol:
                state.tol *= 0.1  # should the gap not be small enough yet
                state.due = problem.definite
                if not problem.definite:
                    state.ending = Status.STATIONARY
                elif before:  # rounding is all that is left
                    state.ending = Status.STALLED
                return 1
            _widen(state)
        state.due = False
        self._solve(problem, state, self._choose(problem, state, top, bottom), top - bottom)
        if self._is_stuck(state, top - bottom):
            state.ending = None if state.gram.single else Status.STALLED
            _widen(state)
        return 1

    def _is_stuck(self, state: SMOState, violation: float) -> bool:
        """Whether rounding, or the condition of K, leaves nothing to gain in reasonable time."""
        dual = 0.5 * float(state.beta @ (state.target + state.v))
        gained = dual > state.dual + 1e-12 * abs(dual) or violation < 0.9 * state.least
        state.waited = 0 if gained else state.waited + 1
        state.dual, state.least = max(dual, state.dual), min(violation, state.least)
        floor = 1e-15 * float(np.abs(state.beta).sum() * state.gram.largest)
        spent = state.steps >= max(_STEPS, 100 * state.beta.size)
        return state.waited >= _PATIENCE or violation <= floor or spent

    def coefficients(self, problem: KernelProblem, state: SMOState) -> tuple[Array, float]:
        return state.beta, _intercept(problem, state)

    def gap(self, problem: KernelProblem, state: SMOState) -> tuple[float, float]:
        """Objective and gap, from v alone, without another product with K."""
        b = 0.0 if problem.augmented else _intercept(problem, state)
        product = state.target - state.v
        curved = float(state.beta @ product)
        if state.gram.ridge is not None:
            product = product - state.gram.ridge * state.beta
        y = problem.y.astype(np.float64)
        lost = float(problem.price @ values(problem.loss, y * (product + b), y))
        objective = 0.5 * float(state.beta @ product) + lost
        if not problem.definite:
            return objective, np.nan
        return objective, max(0.0, objective - (float(state.beta @ state.target) - 0.5 * curved))

    def finish(self, problem: KernelProblem, state: SMOState, solution: Solution) -> bool:
        if isinstance(state.gram, WholeGram) and state.size == state.beta.size:
            self._polish(problem, state)
        else:
            self._check(problem, state, _noise(state))
        solution.coef, solution.intercept = self.coefficients(problem, state)
        solution.alpha = np.abs(state.beta)
        solution.objective, solution.gap = self.gap(problem, state)
        return False

    def certificate(self, problem: KernelProblem, solution: Solution) -> tuple[float, float]:
        return solution.objective, solution.gap  # `finish` has looked

    def _solve(self, problem: KernelProblem, state: SMOState, rows: Index, violation: float) -> None:
        """Solve the block of these rows, and update v of all rows."""
        before = state.beta[rows]
        own = before.copy()
        tol = 0.5 * state.tol
        if rows.size < state.beta.size:  # other rows will disturb it
            tol = max(tol, 0.1 * violation)
        K, lo, hi, v = state.gram.block(rows), state.lo[rows], state.hi[rows], state.v[rows]
        state.steps += WorkingSet(K, own, lo, hi, v, problem.free).solve(tol)
        moved = np.flatnonzero(own != before)
        state.beta[rows] = own
        state.note(rows[moved])
        state.v -= state.gram.dot(rows[moved], (own - before)[moved])
        state.last, state.checked = rows, False

    def _choose(self, problem: KernelProblem, state: SMOState, top: float, bottom: float) -> Index:
        """The last set's free rows, up to half of a set, and the worst violators of both kinds."""
        n, beta, v, last = state.beta.size, state.beta, state.v, state.last
        keep = last[(beta[last] > state.lo[last]) & (beta[last] < state.hi[last])]
        size = state.size = min(max(state.size, int(2.5 * keep.size)), state.gram.most, n)
        if size == n:
            return np.arange(n)
        if size < 16:
            keep = keep[:0]  # both kinds of violators need room
        if keep.size > size // 2:
            apart = np.abs(v[keep] - 0.5 * (top + bottom))
            keep = keep[np.argsort(apart)[-(size // 2) :]]
        up, down = state.movable()
        rise, fall = np.subtract(up, bottom, out=up), np.subtract(top, down, out=down)
        rise[keep] = fall[keep] = -np.inf
        room = size - keep.size
        ups = _largest(rise, room // 2)
        rise[ups] = fall[ups] = -np.inf
        downs = _largest(fall, room - ups.size)
        rise[downs] = -np.inf
        more = _largest(rise, room - ups.size - downs.size)
        return np.concatenate([keep, ups, downs, more])

    def _check(self, problem: KernelProblem, state: SMOState, noise: float) -> None:
        """Compute v again in float64 for rows that rounding may misplace: free ones, and those near the margin.

        For all rows where the others' rounding might show in the violation or the objective. (It cancels in the gap.)
        """
        before, state.checked = state.checked, True
        if before or isinstance(state.gram, WholeGram):
            return
        rows = np.arange(state.beta.size)
        dual = 0.5 * float(state.beta @ (state.target + state.v))
        if 3.0 * noise < state.tol and noise * np.linalg.norm(state.beta) < 0.02 * state.tol * dual:
            near = np.abs(state.v - _level(state, problem.free)) <= 10.0 * state.tol + 30.0 * noise
            rows = np.flatnonzero(near | ((state.beta > state.lo) & (state.beta < state.hi)))
        some = np.flatnonzero(state.beta)
        state.v[rows] = state.target[rows] - state.gram.exact(rows, some, state.beta[some])

    def _polish(self, problem: KernelProblem, state: SMOState) -> None:
        """Solve to the last digits with the whole matrix: a weight of 2 is then exactly a row twice."""
        K = state.gram.block(np.arange(state.beta.size))
        WorkingSet(K, state.beta, state.lo, state.hi, state.v, problem.free).polish()
        state.note(slice(None))
        some = np.flatnonzero(state.beta)
        state.v = state.target - state.gram.dot(some, state.beta[some])

    def _from_samples(self, problem: KernelProblem) -> Array:
        """β to start from, by samples of growing size; zero where the first one says that it would not pay."""
        rng = np.random.default_rng(0)
        classes = [rng.permutation(np.flatnonzero(kind)) for kind in (problem.y > 0, problem.y <= 0)]

        def draw(share: int) -> KernelProblem:
            """One in `share` rows of each class, but at least 200, at prices that make up for the others."""
            parts = [own[: max(min(own.size, 200), own.size // share)] for own in classes]
            sizes = np.array([part.size for part in parts])
            scale, rows = np.repeat([own.size for own in classes] / sizes, sizes), np.concatenate(parts)
            return replace(problem, X=problem.X[rows], y=problem.y[rows], price=problem.price[rows] * scale)

        share = 4 ** int(np.ceil(np.log(2 * problem.y.size / _MANY) / np.log(4)))
        sample, alpha = draw(share), None
        while True:
            found = run(sample, self, Control(tol=0.1, alpha=alpha, max_iter=1_000))
            lo, hi = _box(sample)
            free = np.mean((found.coef > lo) & (found.coef < hi))
            if alpha is None and (np.mean(found.coef != 0) < _BOUND + free or free > _FREE):
                return np.zeros(problem.y.size)
            share //= 4
            larger = draw(share) if share > 1 else problem
            beta = _extended(sample, found, larger)
            if share == 1:
                return beta
            sample, alpha = larger, np.abs(beta)


def _widen(state: SMOState) -> None:
    """Compute in float64 from now on, and v again."""
    if state.gram.single:
        state.gram.widen()
        some = np.flatnonzero(state.beta)
        state.v = state.target - state.gram.dot(some, state.beta[some])
        state.waited = 0


def _noise(state: SMOState) -> float:
    """The rounding error that v may have."""
    return state.gram.rounding * float(np.linalg.norm(state.beta)) if state.gram.single else 0.0


def _box(problem: KernelProblem) -> tuple[Array, Array]:
    bound = problem.price * problem.loss.dual_box()[0]
    return np.where(problem.y > 0, 0.0, -bound), np.where(problem.y > 0, bound, 0.0)


def _balanced(beta: Array, free: bool) -> Array:
    """β with Σ β = 0 where the intercept is free, by scaling down the larger side."""
    plus, minus = beta[beta > 0].sum(), -beta[beta < 0].sum()
    if free and plus != minus:
        beta[beta > 0] *= min(1.0, minus / plus) if plus else 0.0
        beta[beta < 0] *= min(1.0, plus / minus) if minus else 0.0
    return beta


def _extremes(state: SMOState, free: bool) -> tuple[float, float]:
    """The largest v of rows that may rise and the least of rows that may fall; without a free intercept, past 0."""
    up, down = state.movable()
    top, bottom = float(up.max()), float(down.min())
    return (top, bottom) if free else (max(top, 0.0), min(bottom, 0.0))


def _level(state: SMOState, free: bool) -> float:
    """v at the margin: the mean over free rows, or the middle of what the others leave."""
    if not free:
        return 0.0
    inside = (state.beta > state.lo) & (state.beta < state.hi)
    if inside.any():
        return float(state.v[inside].mean())
    top, bottom = _extremes(state, True)
    return 0.5 * (max(top, -1e300) + min(bottom, 1e300))


def _intercept(problem: KernelProblem, state: SMOState) -> float:
    if problem.augmented:
        return float(state.beta.sum())
    return _level(state, True) if problem.free else problem.offset


def _largest(numbers: Array, count: int) -> Index:
    """Where the largest positive numbers are, up to `count` of them."""
    places = np.flatnonzero(numbers > 0.0)
    if 0 < count < places.size:
        return places[np.argpartition(numbers[places], -count)[-count:]]
    return places[:count]


def _extended(sample: KernelProblem, found: Solution, problem: KernelProblem) -> Array:
    """β of more rows, by their margins under a machine of some; a free intercept is set so that Σ β = 0."""
    some = np.flatnonzero(found.coef)
    scores = kernel_dot(
        problem.kernel, problem.X, sample.X[some], found.coef[some], dtype=np.float32, workers=problem.workers,
        compiled=True,
    )  # fmt: skip
    y = problem.y.astype(np.float64)
    lo, hi = _box(problem)

    def at(b: float) -> Array:
        share = np.clip(0.5 + (1.0 - y * (scores + b)) / _WIDTH, 0.0, 1.0)
        return np.where(y > 0, hi, lo) * share

    if not problem.free:
        return at(found.intercept)
    low, high = found.intercept - 100.0, found.intercept + 100.0
    while high - low > 1e-12 * (abs(low) + abs(high)):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at(middle).sum() > 0.0 else (low, middle)
    beta = at(0.5 * (low + high))
    for i in np.argsort(-np.minimum(beta - lo, hi - beta))[:100]:  # what rounding has left
        beta[i] = np.clip(beta[i] - beta.sum(), lo[i], hi[i])
    return _balanced(beta, True) if abs(beta.sum()) > 1e-9 * np.abs(beta).sum() else beta
