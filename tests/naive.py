"""The papers' update rules, one line of algebra at a time, in float64.

Nothing here is shared with the package: losses are written out again, from the
papers, and every step touches every coordinate.
"""

from __future__ import annotations

import numpy as np


def pull(loss, margin, label, a=1.0, b=1.0):
    """Minus the derivative of the loss by the margin."""
    if loss == "hinge":
        return 1.0 if margin < 1 else 0.0
    if loss == "squared_hinge":
        return 2.0 * max(0.0, 1.0 - margin)
    if loss == "log":  # Lu and Zhou, eq. 6
        with np.errstate(over="ignore"):
            return 1.0 / (1.0 + np.exp(margin))
    assert loss == "blinex"  # Blinex, eq. 6: −∂L/∂f = ab(e^u − 1)/(1 + bE)², and ∂f = y ∂margin
    slack = max(0.0, 1.0 - margin)
    u = a * label * slack
    if u > 300.0:  # the limit of inf / inf
        return 0.0
    return label * a * b * (np.exp(u) - 1.0) / (1.0 + b * (np.exp(u) - u - 1.0)) ** 2


def pegasos(X, y, order, lam, weight, loss="hinge", bias=0.0, radius=np.inf, augmented=False, **shape):
    """w ← (1 − 1/t) w + (1/(λt)) · weight · pull · y · x, then onto the ball."""
    if augmented:
        X = np.column_stack([X, np.ones(len(X))])
    w = np.zeros(X.shape[1])
    iterates = []
    for t, i in enumerate(order, start=1):
        force = pull(loss, y[i] * (w @ X[i] + bias), y[i], **shape)
        w = (1.0 - 1.0 / t) * w + (1.0 / (lam * t)) * weight[i] * force * y[i] * X[i]
        norm = np.sqrt(w @ w)
        if norm > radius:
            w = w * (radius / norm)
        iterates.append(w)
    return np.array(iterates)


def nesterov(X, y, batches, c, weight, eta0, k, gamma, loss="blinex", compound=False, **shape):
    """Algorithm 1 of the Blinex paper, on rows augmented by a constant 1."""
    X = np.column_stack([X, np.ones(len(X))])
    n = len(X)
    w, v, eta = np.zeros(X.shape[1]), np.zeros(X.shape[1]), eta0
    for t, batch in enumerate(batches):
        ahead = w + gamma * v
        gradient = ahead / n
        for i in batch:
            force = pull(loss, y[i] * (ahead @ X[i]), y[i], **shape)
            gradient = gradient - c * weight[i] / len(batch) * force * y[i] * X[i]
        v = gamma * v - eta * gradient
        w = w + v
        eta = eta * np.exp(-k * t) if compound else eta0 * np.exp(-k * (t + 1))
    return w


def kernel_pegasos(K, y, order, lam, weight, loss="hinge", bias=0.0, radius=np.inf, augmented=False, **shape):
    """The same with a kernel: β of w_{t+1} = (1 − 1/t) w_t + (1/(λt)) · weight · pull · y · φ(x), onto the ball."""
    if augmented:
        K = K + 1.0
    beta = np.zeros(len(y))
    for t, i in enumerate(order, start=1):
        force = pull(loss, y[i] * (beta @ K[i] + bias), y[i], **shape)
        beta = (1.0 - 1.0 / t) * beta
        beta[i] += (1.0 / (lam * t)) * weight[i] * force * y[i]
        norm = np.sqrt(beta @ K @ beta) if radius < np.inf else 0.0
        if norm > radius:
            beta = beta * (radius / norm)
    return beta
