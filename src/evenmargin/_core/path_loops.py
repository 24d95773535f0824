"""A whole path of machines over growing prices, on a kernel matrix that is at hand.

    maximise  Σ β_i t_i − 1/2 βᵀKβ,   β_i between 0 and price_i·y_i,  Σ β_i = 0 where the intercept is free

for each row of prices (the hinge). For the squared hinge β_i has one bound only, and K_ii is larger by 1/(2 price_i).
Each machine starts from the one before, scaled by the best factor that its box allows. SMO finds which coefficients are
at a bound, the primal-dual active set method (as in `solvers/block.py`, with a Cholesky factorisation of its own) the
values of the others to the last digits. There is nothing but compiled code between two machines of a path.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._util.typing import Array, Floats, Index, Labels
from ._jit import jit
from .smo_loops import Coefficients, pairs, singles


class Room(NamedTuple):
    """Working memory for a fold of m rows: an (m, m) matrix, and vectors of m numbers."""

    A: Array
    diagonal: Array
    lo: Array
    hi: Array
    up: Array
    down: Array
    now: Array
    slope: Array
    step: Array
    ones: Array
    inside: Array
    base: Array
    some: Labels


class Limits(NamedTuple):
    """How a machine is to be solved."""

    free: bool  # Σ β is kept at 0
    tol: float  # the violation that SMO goes to
    fine: float  # the violation in the end
    budget: int  # steps of SMO that a machine may take


@jit
def path(
    K: Array, y: Array, target: Array, prices: Array, ridge: float, beta: Array, v: Array, limits: Limits, room: Room
) -> int:
    """Solve for every row of prices; β and the gradient v = t − Kβ of each go to the rows of beta and v.

    `ridge` is 0 for the hinge, and 1/2 for the squared hinge; the diagonal of K is changed then.
    Returns how many machines used up their budget of steps.
    """
    diagonal, lo, hi, base = room.diagonal, room.lo, room.hi, room.base
    short = 0
    for k in range(y.size):
        base[k] = diagonal[k] = K[k, k]
    for c in range(prices.shape[0]):
        for k in range(y.size):
            bound = prices[c, k]
            if ridge > 0.0:
                diagonal[k] = K[k, k] = base[k] + ridge / bound
                bound = np.inf
            lo[k] = 0.0 if y[k] > 0.0 else -bound
            hi[k] = bound if y[k] > 0.0 else 0.0
        if c == 0:
            beta[c] = 0.0
            v[c] = target
        elif ridge > 0.0:
            _start_again(beta[c - 1], v[c - 1], target, prices[c - 1], prices[c], ridge, beta[c], v[c])
        elif _start(beta[c - 1], v[c - 1], target, prices[c - 1], prices[c], lo, hi, beta[c], v[c]):
            continue
        if not _solve(K, beta[c], v[c], limits, room):
            short += 1
    return short


@jit
def _start(
    old: Array, v_old: Array, target: Array, before: Array, prices: Array, lo: Array, hi: Array, beta: Array, v: Array
) -> bool:
    """s·β with the s of the largest dual objective that the larger box allows; v follows without a product with K.

    True where that is the solution already: no row was at its price, and prices have not fallen.
    """
    gain = curve = 0.0
    most = np.inf
    bound = False
    for k in range(old.size):
        gain += old[k] * target[k]
        curve += old[k] * (target[k] - v_old[k])
        most = min(most, prices[k] / before[k])
        bound |= abs(old[k]) >= before[k]
    scale = min(max(gain / curve if curve > 0.0 else 1.0, 1.0), most)
    if not bound and most >= 1.0:
        scale = 1.0
    for k in range(old.size):
        beta[k] = min(max(scale * old[k], lo[k]), hi[k])
        v[k] = target[k] - scale * (target[k] - v_old[k])
    return not bound and most >= 1.0


@jit
def _start_again(
    old: Array, v_old: Array, target: Array, before: Array, prices: Array, ridge: float, beta: Array, v: Array
) -> None:
    """s·β for the squared hinge, whose box stays but whose ridge is another."""
    gain = curve = 0.0
    for k in range(old.size):
        beta[k] = target[k] - v_old[k] + ridge * (1.0 / prices[k] - 1.0 / before[k]) * old[k]  # Kβ, for now
        gain += old[k] * target[k]
        curve += old[k] * beta[k]
    scale = gain / curve if gain > 0.0 and curve > 0.0 else 0.0
    for k in range(old.size):
        v[k] = target[k] - scale * beta[k]
        beta[k] = scale * old[k]


@jit
def _solve(K: Array, beta: Array, v: Array, limits: Limits, room: Room) -> bool:
    """SMO and the active set method in turns, until the violation is within `fine`; False where the budget is spent."""
    free, tol, fine, budget = limits
    limit = 4 * beta.size
    spent = 0
    ridge = 1e-10
    while True:
        steps = _smo(K, beta, v, free, tol, limit, room)
        spent += steps
        if steps < limit:
            break
        if spent >= budget:
            return False
        if not _active_set(K, beta, v, free, tol, ridge, room) and ridge < 1e-6:
            ridge = 1e-6
            _active_set(K, beta, v, free, tol, ridge, room)
        limit = min(2 * limit, budget - spent)
    if fine >= tol:
        return True
    limit = 4 * beta.size
    for again in range(5):
        _active_set(K, beta, v, free, fine, 1e-10 if again == 0 else 1e-6, room)
        if _smo(K, beta, v, free, fine, limit, room) < limit:
            return True
    return True


@jit
def _smo(K: Floats, beta: Array, v: Array, free: bool, tol: float, limit: int, room: Room) -> int:
    diagonal, lo, hi, up, down = room.diagonal, room.lo, room.hi, room.up, room.down
    block = Coefficients(K, beta, lo, hi, v, up, down, diagonal)
    total, count = 0.0, 0
    for k in range(beta.size):
        up[k] = 0.0 if beta[k] < hi[k] else -np.inf
        down[k] = 0.0 if beta[k] > lo[k] else -np.inf
        if up[k] == 0.0 and down[k] == 0.0:
            total += v[k]
            count += 1
    if not free:
        return singles(block, tol, limit)
    level = total / count if count > 0 else np.mean(v)  # near 0 the choices, made in float32, see more digits
    for k in range(beta.size):
        v[k] -= level
    steps = pairs(block, tol, limit)
    for k in range(beta.size):
        v[k] += level
    return steps


@jit
def _active_set(K: Array, beta: Array, v: Array, free: bool, tol: float, ridge: float, room: Room) -> bool:
    """Guess which coefficients are free, solve for these, correct the guess; see `solvers.block.active_set`."""
    m = beta.size
    A, diagonal, lo, hi, now, slope = room.A, room.diagonal, room.lo, room.hi, room.now, room.slope
    step, ones, inside, some = room.step, room.ones, room.inside, room.some
    for k in range(m):
        now[k] = beta[k]
        inside[k] = 1.0 if lo[k] < beta[k] < hi[k] else 0.0
    before = m + 1
    for _ in range(10):
        p = 0
        for k in range(m):
            if inside[k] > 0.0:
                some[p] = k
                p += 1
        if p < 2:
            return False
        for i in range(p):
            row, source = A[i], K[some[i]]
            for j in range(i + 1):
                row[j] = source[some[j]]
            row[i] += ridge * diagonal[some[i]]
        if not _cholesky(A, p):
            return False
        # v once the others have moved to where they are taken to be.
        moved = 0.0
        slope[:] = v
        for k in range(m):
            if inside[k] == 0.0 and now[k] != beta[k]:
                _add(slope, beta[k] - now[k], K[k])
                moved += now[k] - beta[k]
        for i in range(p):
            step[i], ones[i] = slope[some[i]], 1.0
        _substitute(A, p, step)
        level = 0.0
        if free:  # all changes add up to 0
            _substitute(A, p, ones)
            level = (np.sum(step[:p]) + moved) / np.sum(ones[:p])
            for i in range(p):
                step[i] -= level * ones[i]
            rest = (np.sum(step[:p]) + moved) / p  # of an ill-conditioned system
            for i in range(p):
                step[i] -= rest
        for i in range(p):
            now[some[i]] = beta[some[i]] + step[i]
            _add(slope, -step[i], K[some[i]])
        wrong = _correct(beta, level, tol, ridge, room)
        if wrong == 0:
            beta[:] = now
            v[:] = slope
            return True
        if not wrong <= before:
            return False
        before = wrong
    return False


@jit
def _correct(beta: Array, level: float, tol: float, ridge: float, room: Room) -> int:
    """Put what left its box on the bound, free what wants to leave its bound, and count both."""
    now, lo, hi, slope, diagonal, inside = room.now, room.lo, room.hi, room.slope, room.diagonal, room.inside
    wrong = 0
    for k in range(beta.size):
        held = slope[k] - ridge * diagonal[k] * (now[k] - beta[k]) - level
        if not lo[k] <= now[k] <= hi[k]:
            wrong += 1
            inside[k] = 0.0
            now[k] = hi[k] if now[k] > hi[k] else lo[k]
        elif inside[k] == 0.0 and ((now[k] <= lo[k] and held > tol) or (now[k] >= hi[k] and held < -tol)):
            wrong += 1
            inside[k] = 1.0
    return wrong


@jit
def _add(out: Array, factor: float, row: Floats) -> None:
    for k in range(out.size):
        out[k] += factor * row[k]


@jit
def add_rows(K: Floats, rows: Index, scale: Array, start: int, out: Array) -> None:
    """out += Σ scale_r · K[row_r, start : start + out.size], four rows at a time."""
    whole = rows.size - rows.size % 4
    for r in range(0, whole, 4):
        one, two, three, four = K[rows[r]], K[rows[r + 1]], K[rows[r + 2]], K[rows[r + 3]]
        a, b, c, d = scale[r], scale[r + 1], scale[r + 2], scale[r + 3]
        for k in range(out.size):
            at = start + k
            out[k] += a * one[at] + b * two[at] + c * three[at] + d * four[at]
    for r in range(whole, rows.size):
        _add(out, scale[r], K[rows[r], start:])


@jit
def _cholesky(A: Array, p: int) -> bool:
    """The lower factor of the first p rows and columns, in place; False where they are not positive definite."""
    for i in range(p):
        row = A[i]
        for j in range(i):
            other = A[j]
            total = row[j]
            for k in range(j):
                total -= row[k] * other[k]
            row[j] = total / other[j]
        total = row[i]
        for k in range(i):
            total -= row[k] * row[k]
        if not total > 0.0:
            return False
        row[i] = np.sqrt(total)
    return True


@jit
def _substitute(A: Array, p: int, x: Array) -> None:
    """Solve A Aᵀ x = x in place, for a lower A."""
    for i in range(p):
        row = A[i]
        total = x[i]
        for k in range(i):
            total -= row[k] * x[k]
        x[i] = total / row[i]
    for i in range(p - 1, -1, -1):
        row = A[i]
        x[i] /= row[i]
        for k in range(i):
            x[k] -= x[i] * row[k]
