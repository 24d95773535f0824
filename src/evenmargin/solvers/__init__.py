"""The solvers, and which one to take.

| name | losses | finds |
|---|---|---|
| `newton` | hinge, squared hinge, log | the optimum; up to about a thousand columns |
| `dual_cd` | hinge, squared hinge | the optimum; any number of columns |
| `lbfgs` | squared hinge, log, Blinex | the optimum (a stationary point of Blinex) |
| `pegasos` | all | a stochastic approximation, one row a step |
| `nesterov` | all | a stochastic approximation, mini-batches |
"""

from __future__ import annotations

from typing import Any

from ..losses import Hinge
from ..problem import Problem
from .base import Control, Solver, run
from .dual_cd import DualCD
from .lbfgs import Lbfgs
from .nesterov import Nesterov
from .newton import Newton
from .pegasos import Pegasos

__all__ = ["SOLVERS", "Control", "DualCD", "Lbfgs", "Nesterov", "Newton", "Pegasos", "Solver", "get_solver", "run"]

SOLVERS: dict[str, type[Solver]] = {solver.name: solver for solver in (Newton, DualCD, Lbfgs, Pegasos, Nesterov)}

# Stored entries of X up to which "auto" takes an exact solver: some seconds.
_EXACT_UP_TO = 300_000_000
# Multiply-adds of a Newton step on a smooth loss: about two seconds.
_CURVED_UP_TO = 1e11


def get_solver(solver: Any, problem: Problem) -> Solver:
    """The solver for a name or "auto", or the given one, if it takes the loss."""
    if isinstance(solver, str) and solver == "auto":
        return _choose(problem)
    chosen = SOLVERS[solver]() if isinstance(solver, str) and solver in SOLVERS else solver
    if not isinstance(chosen, Solver):
        known = ", ".join(repr(name) for name in ["auto", *SOLVERS])
        raise ValueError(f"solver={solver!r} is unknown; choose one of {known}, or give a solver object.")
    if not chosen.takes(problem.loss):
        missing = ", ".join(repr(method) for method in chosen.needs if not hasattr(problem.loss, method))
        able = ", ".join(repr(name) for name, other in SOLVERS.items() if other().takes(problem.loss))
        raise ValueError(
            f"solver={chosen.name!r} needs a loss with {missing}, which {problem.loss!r} has not; "
            f"solvers that take this loss: {able}."
        )
    return chosen


def _choose(problem: Problem) -> Solver:
    """An exact solver where it is affordable, else stochastic gradients."""
    if problem.size > _EXACT_UP_TO:
        return Pegasos()
    newton, (n, d) = Newton(), problem.shape
    # With many columns the d³ operations of a Newton step outgrow a pass over X;
    # a loss that curves everywhere also brings n·d² (of stored entries) in.
    everywhere = 0.0 if isinstance(problem.loss, Hinge) else problem.size**2 / n
    if newton.takes(problem.loss) and d <= 1_000 and everywhere <= _CURVED_UP_TO:
        return newton
    descent = DualCD()
    return descent if descent.takes(problem.loss) else Lbfgs()
