"""Elementwise parts of Newton's method: derivatives, and the slope along a line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._util.typing import Array, Floats, Index, LossLike
from ._bridge import slope
from ._jit import jit


@jit
def slope_along(loss: LossLike, scores: Array, move: Array, tau: float, labels: Floats, price: Array) -> float:
    """d/dτ of Σ price · loss(y (scores + τ move))."""
    total = 0.0
    for i in range(scores.size):
        margin = labels[i] * (scores[i] + tau * move[i])
        total += price[i] * slope(loss, margin, labels[i]) * labels[i] * move[i]
    return total


class Lagrangian(NamedTuple):
    """The hinge's augmented Lagrangian of some rows."""

    labels: Array
    alpha: Array
    price: Array
    kappa: float


@jit
def lagrangian(terms: Lagrangian, scores: Array, first: Array, second: Array) -> tuple[float, float]:
    """First and second derivative of the hinge's augmented Lagrangian by the margin.

    Returns Σ (α − new α)²/price, and Σ price·hinge − new α·(1 − margin), with −first as the new α.
    """
    labels, alpha, price, kappa = terms
    moved = 0.0
    slack = 0.0
    for i in range(scores.size):
        short = 1.0 - labels[i] * scores[i]
        stiffness = kappa * price[i]
        pull = alpha[i] + stiffness * short
        if pull <= 0.0:
            first[i] = 0.0
            second[i] = 0.0
        elif pull >= price[i]:
            first[i] = -price[i]
            second[i] = 0.0
        else:
            first[i] = -pull
            second[i] = stiffness
        change = alpha[i] + first[i]
        moved += change * change / price[i]
        slack += price[i] * max(short, 0.0) + first[i] * short
    return moved, slack


@jit
def lagrangian_slope_along(terms: Lagrangian, scores: Array, move: Array, tau: float) -> float:
    """d/dτ of the augmented Lagrangian along scores + τ move."""
    labels, alpha, price, kappa = terms
    total = 0.0
    for i in range(scores.size):
        margin = labels[i] * (scores[i] + tau * move[i])
        pull = alpha[i] + kappa * price[i] * (1.0 - margin)
        total -= min(max(pull, 0.0), price[i]) * labels[i] * move[i]
    return total


@jit
def sparse_gram(data: Floats, indices: Index, indptr: Index, chosen: Index, weight: Array, out: Array) -> None:
    """Lower half of out += Σ weight_i (x_i; 1)(x_i; 1)ᵀ over the chosen rows of a CSR matrix."""
    d = np.uint64(out.shape[0] - 1)
    for c in range(chosen.size):
        i = chosen[c]
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        out[d, d] += weight[i]
        for k in range(start, end):
            scale = weight[i] * data[k]
            row = np.uint64(indices[k])
            out[d, row] += scale
            for m in range(start, end):
                column = np.uint64(indices[m])
                if column <= row:
                    out[row, column] += scale * data[m]
