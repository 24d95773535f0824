"""The solvers, and which one to take.

| name | losses | finds |
|---|---|---|
| `newton` | hinge, squared hinge, log | the optimum; up to about a thousand columns |
| `dual_cd` | hinge, squared hinge | the optimum; any number of columns |
| `lbfgs` | squared hinge, log, Blinex | the optimum (a stationary point of Blinex) |
| `pegasos` | all | a stochastic approximation, one row a step |
| `nesterov` | all | a stochastic approximation, mini-batches |

With a kernel:

| name | losses | finds |
|---|---|---|
| `smo` | hinge, squared hinge | the optimum; any number of rows |
| `lbfgs` | squared hinge, log, Blinex | the optimum (a stationary point of Blinex), on rows whose K fits in memory |
| `sgd` | all | a stochastic approximation, one row a step |
"""

from __future__ import annotations

from typing import Any

from ..losses import Hinge
from ..problem import KernelProblem, Problem
from .base import Control, Solver, run
from .dual_cd import DualCD
from .kernel_lbfgs import KernelLbfgs
from .kernel_sgd import KernelSGD
from .lbfgs import Lbfgs
from .nesterov import Nesterov
from .newton import Newton
from .pegasos import Pegasos
from .smo import SMO

__all__ = [
    "KERNEL_SOLVERS", "SMO", "SOLVERS", "Control", "DualCD", "KernelLbfgs", "KernelSGD", "Lbfgs", "Nesterov", "Newton",
    "Pegasos", "Solver", "get_kernel_solver", "get_solver", "run",
]  # fmt: skip

SOLVERS: dict[str, type[Solver]] = {solver.name: solver for solver in (Newton, DualCD, Lbfgs, Pegasos, Nesterov)}

KERNEL_SOLVERS: dict[str, type[Solver]] = {solver.name: solver for solver in (SMO, KernelLbfgs, KernelSGD)}

# Stored entries of X up to which "auto" takes an exact solver: some seconds.
_EXACT_UP_TO = 300_000_000
# Multiply-adds of a Newton step on a smooth loss: about two seconds.
_CURVED_UP_TO = 1e11
# Rows up to which "auto" takes SMO, or L-BFGS on a factor of the kernel matrix.
SMO_UP_TO, _FACTOR_UP_TO = 200_000, 6_000


def get_solver(solver: Any, problem: Problem) -> Solver:
    """The solver of that name, the one that suits the problem for "auto", or the solver itself if it takes the loss."""
    if isinstance(solver, str) and solver == "auto":
        return _choose(problem)
    return _named(solver, problem, SOLVERS)


def get_kernel_solver(solver: Any, problem: KernelProblem) -> Solver:
    """As `get_solver`, for a machine with a kernel."""
    if not (isinstance(solver, str) and solver == "auto"):
        return _named(solver, problem, KERNEL_SOLVERS)
    n = problem.shape[0]
    if SMO().takes(problem.loss):
        return SMO() if n <= SMO_UP_TO else KernelSGD()
    exact = KernelLbfgs().takes(problem.loss) and problem.definite and n <= _FACTOR_UP_TO
    return KernelLbfgs() if exact else KernelSGD()


def _named(solver: Any, problem: Problem, solvers: dict[str, type[Solver]]) -> Solver:
    chosen = solvers[solver]() if isinstance(solver, str) and solver in solvers else solver
    if not (isinstance(chosen, Solver) and chosen.kernel == (solvers is KERNEL_SOLVERS)):
        known = ", ".join(repr(name) for name in ["auto", *solvers])
        raise ValueError(f"solver={solver!r} is unknown; choose one of {known}, or give a solver object.")
    if not chosen.takes(problem.loss):
        missing = ", ".join(repr(method) for method in chosen.needs if not hasattr(problem.loss, method))
        able = ", ".join(repr(name) for name, other in solvers.items() if other().takes(problem.loss))
        raise ValueError(
            f"solver={chosen.name!r} needs a loss with {missing}, which {problem.loss!r} does not have; "
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
