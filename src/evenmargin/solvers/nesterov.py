"""Nesterov's accelerated gradient with mini-batches and a decaying rate.

Objective: the problem's, divided by n. With batch size m, momentum γ and the
gain of a row price_i / frequency_i, at step t = 0, 1, …:

    w̃ = w + γ v
    g = w̃/n + 1/(n m) Σ_batch gain_i · slope_i · y_i x_i
    v ← γ v − η g;   w ← w + v;   η ← η e^{−k}

Algorithm 1 of the Blinex SVM; for any loss here. The paper prints
η_{t+1} = η_t e^{−kt}, which falls like e^{−kt²/2} and freezes: `schedule="compound"`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .. import _core
from .._util.typing import Array, Floats, Index
from ..problem import Problem
from .base import CHUNK, DRAWS, Control, Solver, State, is_real, whole


@dataclass
class NesterovState(State):
    motion: Any  # of `_core.nesterov_loops`
    schedule: Any
    gain: Array
    take: Callable[[int], Index]
    t: int = 0


@dataclass(frozen=True)
class Nesterov(Solver):
    """Nesterov's accelerated gradient; see the module.

    Parameters
    ----------
    batch_size : int, default=32
    momentum : float, default=0.9
    eta0 : float or None, default=None
        First rate. None takes it from the data: one over the curvature that a row of typical length and price gives.
    decay : float or None, default=None
        k of the rate η₀ e^{−kt}. None ends at a hundredth of η₀.
    schedule : {"exponential", "compound"}, default="exponential"
        "compound" multiplies by e^{−kt} at step t, as the paper prints it.
    """

    batch_size: int = 32
    momentum: float = 0.9
    eta0: float | None = None
    decay: float | None = None
    schedule: Literal["exponential", "compound"] = "exponential"

    name = "nesterov"
    unit = "mini-batch"
    exact = False
    needs = ("slope",)
    _conditions = {
        "batch_size": whole(1),
        "momentum": (lambda value: is_real(value, 0.0, 1.0), "a number of at least 0 and below 1"),
        "eta0": (lambda value: value is None or (is_real(value, 0.0) and value > 0), "a number above 0, or None"),
        "decay": (lambda value: value is None or is_real(value, 0.0), "a number of at least 0, or None"),
        "schedule": (lambda value: value in ("exponential", "compound"), "'exponential' or 'compound'"),
    }

    def default_max_iter(self, problem: Problem) -> int:
        return max(5_000, 20 * problem.shape[0] // self.batch_size)

    def init(self, problem: Problem, control: Control) -> NesterovState:
        loops, d, dtype = _core.nesterov_loops, problem.shape[1], problem.X.dtype
        budget = control.max_iter or self.default_max_iter(problem)
        w, b = np.zeros(d, dtype), problem.offset
        if control.coef is not None:
            w, b = control.coef.astype(dtype), control.intercept
        rate = self._first_rate(problem) if self.eta0 is None else self.eta0
        return NesterovState(
            motion=loops.Motion(w, *np.zeros((3, d), dtype), np.array([b, 0.0]), np.array([rate])),
            schedule=loops.Schedule(
                batch=self.batch_size,
                learn_bias=problem.learned,
                bias_penalty=float(problem.augmented),
                momentum=self.momentum,
                decay=math.log(100.0) / budget if self.decay is None else self.decay,
                compound=self.schedule == "compound",
            ),
            gain=problem.price / control.sampling.frequency(problem.y),
            take=control.sampling.stream(problem.y, np.random.default_rng(control.seed)),
        )

    def step(self, problem: Problem, state: NesterovState, limit: int) -> int:
        per_step = self.batch_size * (problem.size / problem.shape[0] + 10.0) + 4 * problem.shape[1]
        count = max(1, min(limit, int(CHUNK / per_step), DRAWS // self.batch_size))
        order, rows = state.take(count * self.batch_size), (problem.rows, problem.y, state.gain, problem.loss)
        _core.nesterov_loops.steps(*rows, order, state.t, state.motion, state.schedule)
        state.t += count
        return count

    def coefficients(self, problem: Problem, state: NesterovState) -> tuple[Floats, float]:
        return state.motion.w, float(state.motion.bias[0])

    def _first_rate(self, problem: Problem) -> float:
        n = problem.shape[0]
        squares = np.empty(n)
        _core.cd_loops.squared_norms(problem.rows, squares)
        return float(1.0 / (1.0 / n + problem.price.mean() * (squares.mean() + 1.0)))
