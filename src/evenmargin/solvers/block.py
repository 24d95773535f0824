"""The problem of a working set, whose kernel matrix is at hand.

    maximise  Σ β_i v_i − 1/2 ΔβᵀKΔβ,   lo ≤ β ≤ hi,  and Σ β as it was where the intercept is free

SMO (`_core/smo_loops.py`) finds quickly which coefficients are at a bound, and slowly what the others are; the active
set method is the other way round. So SMO runs for some steps, and if that was not enough its guess is handed over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from .. import _core
from .._util.typing import Array

# Steps of SMO before the active set method has a try, per row.
_STEPS = 4
# Steps times rows after which a block is left to the next round: a third of a second.
_MOST = 400_000_000
# What is added to K's diagonal, as a share of it: next to nothing, or enough for a K that is singular.
_RIDGES = (1e-10, 1e-6)


@dataclass
class WorkingSet:
    """Some coefficients, their box, and the gradient v; β and v are changed in place."""

    K: Array
    beta: Array
    lo: Array
    hi: Array
    v: Array
    free: bool

    def solve(self, tol: float) -> int:
        """Solve to a violation of tol; return the number of SMO steps."""
        size, spent, place = self.beta.size, 0, 0
        limit, most = _STEPS * size, max(_STEPS * size, _MOST // size)
        while True:
            steps = self.smo(tol, limit)
            spent += steps
            if steps < limit or spent >= most:
                return spent
            while not self.active_set(tol, _RIDGES[place]) and place + 1 < len(_RIDGES):
                place += 1
            limit = min(2 * limit, most - spent)

    def polish(self) -> None:
        """Solve to the last digits, or nearly so where K is singular."""
        limit = _STEPS * self.beta.size
        for ridge in (*_RIDGES, *_RIDGES[-1:] * 3):
            self.active_set(1e-10, ridge)
            if self.smo(1e-10, limit) < limit:
                return

    def smo(self, tol: float, limit: int) -> int:
        """Take up to `limit` steps of SMO, fewer where the violation is within tol; return how many."""
        loops, v = _core.smo_loops, self.v
        up = np.where(self.beta < self.hi, 0.0, -np.inf)
        down = np.where(self.beta > self.lo, 0.0, -np.inf)
        middle = float(v.mean()) if self.free else 0.0  # choices are made in float32: near 0 they see more digits
        v -= middle
        diagonal = np.ascontiguousarray(self.K.diagonal())
        block = loops.Coefficients(self.K, self.beta, self.lo, self.hi, v, up, down, diagonal)
        steps = (loops.pairs if self.free else loops.singles)(block, tol, limit)
        v += middle
        return int(steps)

    def active_set(self, tol: float, ridge: float) -> bool:
        """Guess which coefficients are free, solve for these, correct the guess, up to ten times.

        Each guess makes v equal for the free coefficients (zero without a free intercept). Those that leave their box
        go to the bound, and those at a bound with v pointing inwards by more than tol are set free: the primal-dual
        active set method of Hintermüller, Ito and Kunisch (2003). From a good start it settles after a few systems; it
        is given up when it does not get closer. `ridge` · K_ii · (Δβ_i)²/2 is taken off the objective: systems stay
        regular, and β near to where it was. Returns whether it settled; only then β and v are changed.
        """
        K, beta, lo, hi, v = self.K, self.beta, self.lo, self.hi, self.v
        now = beta.copy()
        inside = (now > lo) & (now < hi)
        stiff = ridge * K.diagonal()
        before = np.inf
        for _ in range(10):
            some = np.flatnonzero(inside)
            if some.size < 2:
                return False
            A = K[np.ix_(some, some)]
            A[np.diag_indices(some.size)] += stiff[some]
            factor, failed = lapack.dpotrf(A, lower=1, overwrite_a=1)
            if failed:
                return False
            # v once the others have moved to where they are taken to be.
            change = now - beta
            change[some] = 0.0
            moved = np.flatnonzero(change)
            slope = v.copy()
            _core.smo_loops.add_rows(K, moved, -change[moved], 0, slope)
            solved, _ = lapack.dpotrs(factor, np.column_stack([slope[some], np.ones(some.size)]), lower=1)
            level = 0.0
            if self.free:  # all changes add up to 0
                level = (solved[:, 0].sum() + change.sum()) / solved[:, 1].sum()
            step = solved[:, 0] - level * solved[:, 1]
            if self.free:
                step -= (step.sum() + change.sum()) / step.size  # of an ill-conditioned system
            _core.smo_loops.add_rows(K, some, -step, 0, slope)
            now[some] = beta[some] + step
            above, below = now > hi, now < lo
            held = slope - stiff * (now - beta) - level
            rising = ~inside & (now <= lo) & (held > tol)
            falling = ~inside & (now >= hi) & (held < -tol)
            wrong = int(above.sum() + below.sum() + rising.sum() + falling.sum())
            if wrong == 0:
                beta[:], v[:] = now, slope
                return True
            if not wrong <= before:
                return False
            before = wrong
            np.clip(now, lo, hi, out=now)
            inside = (inside & ~above & ~below) | rising | falling
        return False
