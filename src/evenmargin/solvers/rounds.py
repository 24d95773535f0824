"""Newton's method over sums: rows stay where they are, a round is one sum over all of them.

Given prices p, it minimises Φ(v) = 1/2 ‖w‖² + Σ ψ_i(y_i (x_i; 1)·v), v = (w; b), as `newton.py` does. There X is at
hand; here it lies in pieces, in other processes or in files. A driver holds v and asks for value, gradient,
matrix, certificate and slopes along the step, each a sum over rows, so that pieces answer alone and their answers are
added. A round at v + direction brings all of them: the step is tried and, if it is taken, the next one is known. So
a Newton step is one round where the full step is good, two or more where it has to be shortened.

Hinge: ψ_i is the augmented Lagrangian. In shares a_i = α_i/p_i of the price it is

    ψ_i/p_i = max over 0 ≤ a ≤ 1 of  a s − (a − a_i)²/(2κ),    s = 1 − margin,    a_i ← clip(a_i + κ s, 0, 1),

which does not contain p. So multipliers are a function of where they were updated: of the *trail* (v_1, κ_1) …
(v_k, κ_k), from a = 1/2. Nobody stores them. Each answer replays the trail, k more products with X, and a piece or a
worker that is lost costs nothing but that. The trail, k·(d + 2) numbers, is also all that a warm start needs to go on
exactly. At quite other prices its multipliers mislead, and the point alone is the better start.

Certificate: α_i = −ψ_i' gives the lower bound D of `duality.py`. A free intercept needs Σ α_i y_i = 0: the class with
more is scaled by t ≤ 1 when the sums are known. loss*(t a) ≤ t loss*(a), as loss*(0) = 0 for hinge, squared hinge
and log, so that two sums of conjugates suffice. The best objective and the best bound of all rounds are kept.

With more than two thousand columns there is no matrix, which would be 16 MB in each answer: L-BFGS on the same sums,
in ten times as many rounds or more.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack
from scipy.sparse import issparse

from .. import _core
from .._util.typing import Array, LossLike
from ..losses import Hinge, slopes, values
from ..problem import Problem, Solution, Status, WithIntercept
from .base import entry
from .newton import completed, solve_lower, weighted_gram

__all__ = ["WIDE", "Course", "Request", "Sums", "Terms", "Trail", "begin", "drive", "look"]

Rounds = Generator["Request", "Sums", Any]

WIDE = 2_000  # columns above which there is no matrix
# The first κ, its growth, and how exactly a step is taken before multipliers move on: few rounds on a9a, ijcnn1 and
# normal rows. κ starts below 1/2: at w = 0 a share of 1/2 + κ ≥ 1 leaves no row that holds the intercept.
_KAPPA, _GROWTH, _KAPPA_MAX, _LOOSE = 0.3, 2.0, 1e5, 1.0
_LONGEST = 60  # updates in a trail that a warm start replays
_PAIRS = 20  # steps that L-BFGS remembers
_SHORTER = 8  # times that a step is shortened
_ROWS = 8_192  # of a tile
# Where the slope along a step is measured, for the case that the whole step is too long; from 8e-6. Smooth losses
# seldom need short steps: fewer places cost them no rounds, but the hinge up to a fifth more at large prices.
_TAUS = 1.6 ** -np.arange(25.0, -1.0, -1.0)
_TAUS_SMOOTH = 1.6 ** -np.array([25.0, 21.0, 17.0, 14.0, *range(11, -1, -1)])


def _taus(kappa: float) -> Array:
    return _TAUS if kappa else _TAUS_SMOOTH


class Trail(NamedTuple):
    """Where multipliers were updated: points (k, d + 1) and κ (k,)."""

    points: Array
    kappas: Array

    def then(self, point: Array, kappa: float) -> Trail:
        return Trail(np.vstack([self.points, point]), np.append(self.kappas, kappa))


class Request(NamedTuple):
    """What a driver asks about all rows, at point + direction."""

    point: Array  # (d + 1,)
    direction: Array | None
    trail: Trail
    kappa: float  # 0: the loss is smooth
    matrix: bool
    ahead: float = 0.0  # κ of the next multipliers: the sums with them, too


@dataclass
class Sums:
    """The answer to a request, summed over rows; adding two is the whole reduction."""

    value: float  # Σ ψ
    loss: float  # Σ price·loss
    pulls: Array  # (2, d + 1): Σ α y (x; 1) over rows of + and of −
    conjugates: Array  # (2,): Σ price·loss*(α/price)
    moved: float  # Σ price·(change of share)²
    inside: int  # rows whose multiplier is strictly inside its box
    edges: Array  # (2,): how far down and up b may go before a margin crosses 1; the least, not the sum
    slopes: Array  # Σ of d/dτ ψ at _taus
    matrix: Array | None  # lower half of Σ ψ'' (x; 1)(x; 1)ᵀ, packed column by column
    ahead: Sums | None = None

    def __add__(self, other: Sums) -> Sums:
        total: dict[str, Any] = {}
        for name in (each.name for each in fields(self)):
            mine, theirs = getattr(self, name), getattr(other, name)
            total[name] = None if mine is None or theirs is None else mine + theirs
        return Sums(**total | {"edges": np.minimum(self.edges, other.edges)})

    @classmethod
    def nothing(cls, d: int, request: Request) -> Sums:
        packed = np.zeros((d + 1) * (d + 2) // 2) if request.matrix else None
        ahead = cls.nothing(d, request._replace(ahead=0.0)) if request.ahead else None
        zeros = np.zeros((2, d + 1)), np.zeros(2)
        return cls(0.0, 0.0, *zeros, 0.0, 0, np.full(2, np.inf), np.zeros(_taus(request.kappa).size), packed, ahead)


# --- beside the rows ---


def look(problem: Problem, request: Request) -> Sums:
    """The sums over one piece, a tile of rows at a time, so that intermediate arrays are small and stay in cache."""
    n, d = problem.shape
    total = None
    for start in range(0, n, _ROWS):
        some = slice(start, min(start + _ROWS, n))
        X = problem.X[some]
        if not issparse(X):  # what came over a connection may lie at any byte, where products are slow
            X = np.require(X, requirements=["C", "A"])
        seen = _tile_sums(replace(problem, X=X, y=problem.y[some], price=problem.price[some]), request)
        total = seen if total is None else total + seen
    return Sums.nothing(d, request) if total is None else total


def _tile_sums(problem: Problem, request: Request) -> Sums:
    points, direction = [*request.trail.points, request.point], request.direction
    if direction is not None:
        points.append(request.point + direction)
    stack = np.array(points)
    scores = np.asarray(problem.X @ stack[:, :-1].T).astype(np.float64, copy=False)
    scores += stack[:, -1]
    y, share = problem.y.astype(np.float64), None
    if request.kappa:
        share = np.full(y.size, 0.5)
        for j, kappa in enumerate(request.trail.kappas):
            share = np.clip(share + kappa * (1.0 - y * scores[:, j]), 0.0, 1.0)
    found = _sums(problem, y, scores[:, -1], share, request)
    if direction is not None:
        loops, price, taus = _core.newton_loops, problem.price, _taus(request.kappa)
        now, move = scores[:, -2], scores[:, -1] - scores[:, -2]
        if share is None:
            found.slopes = np.array([loops.slope_along(problem.loss, now, move, tau, y, price) for tau in taus])
        else:
            terms = loops.Lagrangian(y, share * price, price, request.kappa)
            found.slopes = np.array([loops.lagrangian_slope_along(terms, now, move, tau) for tau in taus])
    return found


def _sums(problem: Problem, y: Array, scores: Array, share: Array | None, request: Request) -> Sums:
    margins, price = y * scores, problem.price
    found = Sums.nothing(problem.shape[1], request._replace(ahead=0.0, matrix=False))
    found.loss = found.value = float(price @ values(problem.loss, margins, y))
    if share is None:
        alpha = -price * slopes(problem.loss, margins, y)
        second = np.empty_like(alpha)
        _core.loss_loops.curvatures(problem.loss, margins, y, price, second)
    else:
        kappa, short = request.kappa, 1.0 - margins
        new = np.clip(share + kappa * short, 0.0, 1.0)
        alpha, change = price * new, new - share
        inside = (new > 0.0) & (new < 1.0)
        second = np.where(inside, kappa * price, 0.0)
        found.moved = float(price @ (change * change))
        found.value = float(price @ (new * short - change * change / (2.0 * kappa)))
        found.inside, moves = int(np.count_nonzero(inside)), y * short
        found.edges[0] = np.min(-moves[moves <= 0.0], initial=np.inf)
        found.edges[1] = np.min(moves[moves >= 0.0], initial=np.inf)
        if request.ahead:
            found.ahead = _sums(problem, y, scores, new, request._replace(kappa=request.ahead, ahead=0.0))
    for k, side in enumerate((y > 0, y < 0)):
        own = np.where(side, alpha * y, 0.0)
        found.pulls[k, :-1], found.pulls[k, -1] = own @ problem.X, own.sum()
        found.conjugates[k] = _core.loss_loops.conjugate_sum(problem.loss, np.where(side, alpha, 0.0), y, price)
    if request.matrix:
        whole = np.zeros((problem.shape[1] + 1,) * 2, order="F")
        weighted_gram(problem, np.flatnonzero(second > 0), second, whole)
        found.matrix = lapack.dtrttp(whole, uplo="L")[0]
    return found


# --- beside the driver ---


@dataclass(frozen=True)
class Terms(WithIntercept):
    """What a driver needs to know of the problem, which is all but its rows."""

    loss: LossLike
    width: int  # d + 1
    intercept: str | float | None
    tol: float
    max_iter: int = 500

    @property
    def hinge(self) -> bool:
        return isinstance(self.loss, Hinge)

    @property
    def wide(self) -> bool:
        """Whether there are too many columns for a matrix."""
        return self.width > WIDE + 1

    def penalty(self, v: Array) -> float:
        return 0.5 * float(v[:-1] @ v[:-1]) + (0.5 * float(v[-1]) ** 2 if self.augmented else 0.0)

    def penalty_slopes(self, v: Array, direction: Array, taus: Array) -> Array:
        """d/dτ of the penalty at v + τ direction, for each τ."""
        last = None if self.augmented else -1
        return np.asarray(v[:last] @ direction[:last] + taus * (direction[:last] @ direction[:last]))

    def gradient(self, v: Array, seen: Sums) -> Array:
        gradient = -seen.pulls.sum(axis=0)
        gradient[:-1] += v[:-1]
        gradient[-1] += v[-1] if self.augmented else 0.0
        # Rounding alone must not move an intercept that nothing holds.
        if not self.learned or abs(gradient[-1]) <= 1e-15 * float(np.abs(seen.pulls[:, -1]).sum()):
            gradient[-1] = 0.0
        return gradient

    def bound(self, seen: Sums) -> tuple[float, Array]:
        """D(α) and the pulls of its α: a class is scaled down where the intercept is free."""
        scale = np.ones(2)
        plus, minus = seen.pulls[0, -1], -seen.pulls[1, -1]
        if self.free:
            both = min(plus, minus) > 0.0
            scale = np.array([min(1.0, minus / plus), min(1.0, plus / minus)]) if both else np.zeros(2)
        u = scale @ seen.pulls
        value = -0.5 * float(u[:-1] @ u[:-1]) - float(scale @ seen.conjugates) - self.offset * float(u[-1])
        if self.augmented:
            value -= 0.5 * float(u[-1]) ** 2
        return (value if np.isfinite(value) else -np.inf), scale[:, None] * seen.pulls


@dataclass
class Course:
    """Where a driver is, and the best that it has seen."""

    point: Array
    trail: Trail
    kappa: float  # 0: the loss is smooth
    best: float = np.inf  # objective, where, and what the sums there were
    best_point: Array = field(default_factory=lambda: np.empty(0))
    best_sums: Sums | None = None
    bound: float = -np.inf  # and the pulls that gave it
    pulls: Array = field(default_factory=lambda: np.empty(0))
    rounds: int = 0
    steps: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    @property
    def gap(self) -> float:
        return max(0.0, self.best - self.bound)

    @property
    def relative_gap(self) -> float:
        return self.gap / max(abs(self.best), 1e-300)

    def note(self, terms: Terms, seen: Sums, point: Array) -> None:
        """Record the objective and the bound at a point."""
        objective = terms.penalty(point) + seen.loss
        if objective < self.best or self.best_sums is None:
            self.best, self.best_point, self.best_sums = objective, point, seen
        bound, pulls = terms.bound(seen)
        if bound > self.bound or not self.pulls.size:
            self.bound, self.pulls = bound, pulls
        now = entry(self.steps, self.started, rounds=self.rounds, objective=objective, gap=self.gap)
        self.history.append(now)

    def within(self, tol: float) -> bool:
        return self.gap <= tol * abs(self.best)

    def solution(self, status: Status) -> Solution:
        v = self.best_point
        return Solution(v[:-1], float(v[-1]), self.steps, self.best, self.gap, status, self.history)


def begin(terms: Terms, start: Array | None = None, before: tuple[Array, Trail, float] | None = None) -> Course:
    """The course to start with: from the point, trail and κ of an earlier one, from a point, or from zero."""
    start = start if before is None else before[0]
    point = np.zeros(terms.width) if start is None else start.astype(np.float64)
    if not terms.learned:
        point[-1] = terms.offset
    trail = Trail(np.empty((0, terms.width)), np.empty(0))
    if not terms.hinge:
        return Course(point, trail, 0.0)
    if before is not None and before[2] and before[1].kappas.size <= _LONGEST:
        return Course(point, *before[1:])
    return Course(point, trail, _KAPPA) if start is None else Course(point, trail.then(point, _KAPPA), _GROWTH * _KAPPA)


def drive(terms: Terms, course: Course) -> Rounds:
    """Yield requests, receive sums, update the course, and return the status."""
    memory: list[tuple[Array, Array]] = []
    stuck = 0
    seen = yield _ask(terms, course, None)
    course.note(terms, seen, course.point)
    while not course.within(terms.tol):
        if course.steps >= terms.max_iter:
            return Status.BUDGET
        gradient = terms.gradient(course.point, seen)
        if course.kappa and float(gradient @ gradient) <= _LOOSE * seen.moved / course.kappa:
            # The residual is small beside the move that the multipliers are about to make.
            # The sums with the new multipliers have mostly come with the last answer.
            course.trail, course.kappa = course.trail.then(course.point, course.kappa), _grown(course.kappa)
            seen = seen.ahead or (yield _ask(terms, course, None))
            course.note(terms, seen, course.point)
            memory.clear()
            if course.within(terms.tol):
                break
            gradient = terms.gradient(course.point, seen)
        direction = _lbfgs(memory, gradient) if terms.wide else -_solve(terms, seen.matrix, gradient)
        # What a step, and new multipliers after it, may still gain; these go on with each κ where steps have ended.
        gain = float(-gradient @ direction) + (seen.moved / course.kappa if course.kappa else 0.0)
        stuck = 0 if gain > 1e-16 * abs(course.best) else stuck + 1
        taken = None
        if stuck <= (2 if course.kappa else 0):
            course.steps += 1
            taken = yield from _step(terms, course, seen, gradient, direction)
        if taken is None:  # no progress is left: converged if the gap is as small as float64 allows
            return Status.CONVERGED if course.within(max(terms.tol, 1e-9)) else Status.STALLED
        if terms.wide:
            _remember(memory, taken[0] - course.point, terms.gradient(*taken) - gradient)
        course.point, seen = taken
    yield from _settle(terms, course)
    return Status.CONVERGED


def _ask(terms: Terms, course: Course, direction: Array | None) -> Request:
    course.rounds += 1
    ahead = _grown(course.kappa) if course.kappa and direction is not None else 0.0
    return Request(course.point, direction, course.trail, course.kappa, not terms.wide, ahead)


def _grown(kappa: float) -> float:
    return min(_GROWTH * kappa, _KAPPA_MAX)


def _step(terms: Terms, course: Course, seen: Sums, gradient: Array, direction: Array) -> Rounds:
    """Take a step, shortened until Φ decreases; return (point, sums) there, or None if Φ never decreases."""
    now, decrement = terms.penalty(course.point) + seen.value, float(-gradient @ direction)
    taus = _taus(course.kappa)
    for _ in range(_SHORTER):
        tried = yield _ask(terms, course, direction)
        target = course.point + direction
        course.note(terms, tried, target)
        along = tried.slopes + terms.penalty_slopes(course.point, direction, taus)
        if along[-1] <= 0.0 or terms.penalty(target) + tried.value <= now - 0.1 * decrement:
            return target, tried
        # Where no row in play holds the intercept, a full step may be 1e20 long.
        tau = _short(along, taus)
        direction, decrement = tau * direction, tau * decrement
    return None


def _short(along: Array, taus: Array) -> float:
    """The last tau up to which Φ certainly decreases, or half the first one if it does not decrease up to there."""
    k = int(np.argmax(along > 0.0))
    return float(taus[k - 1] if k else 0.5 * taus[0])


def _settle(terms: Terms, course: Course) -> Rounds:
    """Move a free intercept that no row of the hinge determines to the middle of its range, as `duality.py` does."""
    seen = course.best_sums
    if not (terms.hinge and terms.free and seen is not None and seen.inside == 0 and np.isfinite(seen.edges).all()):
        return
    best, middle = course.best, course.best_point.copy()
    middle[-1] += 0.5 * (seen.edges[1] - seen.edges[0])
    course.point = middle
    seen = yield _ask(terms, course, None)
    course.note(terms, seen, middle)
    if terms.penalty(middle) + seen.loss <= best + 1e-13 * abs(best):
        course.best_point, course.best_sums = middle, seen


def _solve(terms: Terms, packed: Array | None, right: Array) -> Array:
    """(I + matrix)⁻¹ right."""
    matrix = lapack.dtpttr(terms.width, packed, uplo="L")[0]
    return solve_lower(completed(matrix, terms, float(matrix[-1, -1])), right)


def _lbfgs(memory: list[tuple[Array, Array]], gradient: Array) -> Array:
    """The direction from the remembered steps and changes of the gradient (two loops)."""
    q, backs = -gradient, []
    for step, change in reversed(memory):
        back = (step @ q) / (step @ change)
        q = q - back * change
        backs.append(back)
    if memory:
        step, change = memory[-1]
        q = q * ((step @ change) / (change @ change))
    else:
        q = q / max(1.0, float(np.linalg.norm(gradient)))
    for (step, change), back in zip(memory, reversed(backs), strict=True):
        q = q + step * (back - (change @ q) / (step @ change))
    return q


def _remember(memory: list[tuple[Array, Array]], step: Array, change: Array) -> None:
    if step @ change > 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change)):
        memory.append((step, change))
        del memory[:-_PAIRS]
