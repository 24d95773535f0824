"""Certificates: how far a solution can be from the optimum, and which intercept is best.

For prices p, any α with 0 ≤ α_i/p_i in the domain of the conjugate (and
Σ α_i y_i = 0 where the intercept is free) bounds the optimum from below:

    D(α) = −1/2 ‖Σ α_i y_i x_i‖² − Σ p_i loss*(−α_i/p_i) − offset · Σ α_i y_i

(with −1/2 (Σ α_i y_i)² for an augmented intercept). All sums are in float64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import _core
from .._util.typing import Array, Floats
from ..losses import slopes
from ..problem import Problem

# Entries of X up to which the last digits are worth a few more steps.
SMALL = 100_000


def dual_value(problem: Problem, alpha: Array) -> float:
    """The lower bound D(α); for a free intercept the class with more is scaled down, so that Σ α y = 0."""
    y = problem.y.astype(np.float64)
    if problem.free:
        alpha = alpha.copy()
        positive = y > 0
        plus, minus = alpha[positive].sum(), alpha[~positive].sum()
        if plus > minus:
            alpha[positive] *= minus / plus
        elif minus > plus:
            alpha[~positive] *= plus / minus
    total = float(alpha @ y)
    conjugates = _core.loss_loops.conjugate_sum(problem.loss, alpha, y, problem.price)
    value = -0.5 * problem.squared_norm(alpha * y) - conjugates
    if problem.augmented:
        value -= 0.5 * total * total
    return float(value - problem.offset * total)


def certify(problem: Problem, w: Floats, b: float, alpha: Array | None = None) -> tuple[float, float]:
    """The objective at (w, b) and the duality gap; NaN where the problem is not convex.

    Without α, the gradient's own multipliers −price·slope are used: exact at
    the optimum of a smooth loss, a valid but looser bound elsewhere.
    """
    w = w.astype(np.float64, copy=False)
    scores = problem.scores(w, b)
    objective = problem.objective(w, b, scores)
    if not (hasattr(problem.loss, "conjugate") and getattr(problem, "definite", True)):
        return objective, np.nan
    if alpha is None:
        alpha = -problem.price * slopes(problem.loss, problem.y * scores, problem.y)
    gap = objective - dual_value(problem, alpha)
    return objective, max(0.0, gap) if np.isfinite(gap) else np.inf


def settled_intercept(problem: Problem, w: Array, b: float, alpha: Array) -> float:
    """The best free intercept for w, so that it depends on the data and not on the path.

    A row strictly inside its box determines it: on large data, where the search would be felt, b is kept then.
    """
    share = alpha / problem.price
    held = problem.size > SMALL and np.any((share > 1e-9) & (share < 1.0 - 1e-9))
    if not problem.free or held:
        return b
    return best_intercept(problem, problem.scores(w, 0.0))


def best_intercept(problem: Problem, scores: Array) -> float:
    """The b that minimises Σ price_i loss(y_i (scores_i + b)) for given x_i·w.

    The derivative by b does not decrease for a convex loss: bracket its zero, then bisect. Where it is zero over an
    interval (a hinge with no support vector inside its box) the middle is taken, which depends on the data only.
    """
    y, one = problem.y.astype(np.float64), np.ones_like(scores)

    def derivative(b: float) -> float:
        return float(_core.newton_loops.slope_along(problem.loss, scores, one, b, y, problem.price))

    noise = 1e-14 * float(problem.price.sum())
    reach = 1.0 + float(np.max(np.abs(scores), initial=0.0))
    low = _edge(lambda b: derivative(b) < -noise, -reach, reach)
    high = _edge(lambda b: derivative(b) <= noise, -reach, reach)
    return 0.5 * (low + high)


def _edge(below: Callable[[float], bool], low: float, high: float) -> float:
    """Where a monotone condition changes from true to false, by bisection."""
    for _ in range(60):
        if not below(low):
            low, high = low - 2.0 * (high - low), low
        elif below(high):
            low, high = high, high + 2.0 * (high - low)
        else:
            break
    while high - low > 1e-15 * max(1.0, abs(low), abs(high)):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if below(middle) else (low, middle)
    return 0.5 * (low + high)
