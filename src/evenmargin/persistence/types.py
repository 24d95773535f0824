"""Types of this package that a model file may hold, each under a name that outlives the layout of the package.

A file says `evenmargin.persistence.types.KernelSVM`, wherever that class is defined today: each name is an attribute of
this module, imported when a file asks for it. To move or rename a class, change the right side of these tables: files
from before still open. A name on the left is never removed without notice, and never given to another type.

A new loss, kernel, solver or other part of a model must be added here, or models that hold it cannot be saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

__all__ = ["FUNCTIONS", "OBJECTS", "TUPLES", "file_name", "full_name"]

# From the name in a file to where the type is today; a table for each way in which skops builds a value.
OBJECTS: Mapping[str, str] = {
    "AUCHalting": "stopping.AUCHalting",
    "BalancedAccuracy": "metrics.BalancedAccuracy",
    "Calibrator": "operating.calibration.Calibrator",
    "ClassBalancedSampling": "sampling.ClassBalanced",
    "Committee": "auto.committee.Committee",
    "CommitteeExpansion": "auto.crossfit.Expansion",
    "CommitteeFit": "auto.summary.FitRecord",
    "CommitteeMember": "auto.crossfit.Member",
    "CommitteePlan": "auto.plan.Plan",
    "CommitteeSummary": "auto.summary.Summary",
    "CostMatrix": "metrics.CostMatrix",
    "DensityWeightedMLPClassifier": "neural.estimators.DensityWeightedMLPClassifier",
    "DensityWeightedMLPRegressor": "neural.estimators.DensityWeightedMLPRegressor",
    "DensityWeights": "density.weights.DensityWeights",
    "Detector": "auto.detector.Detector",
    "DualCoordinateDescentSolver": "solvers.dual_cd.DualCD",
    "EvenMarginClassifier": "auto.classifier.EvenMarginClassifier",
    "ExponentialKernel": "kernels.kernels.Exponential",
    "FBeta": "metrics.FBeta",
    "FloorObjective": "operating.objectives.Floor",
    "FunctionKernel": "kernels.kernels.Function",
    "GMean": "metrics.GMean",
    "GivenSampling": "sampling.Given",
    "KernelLbfgsSolver": "solvers.kernel_lbfgs.KernelLbfgs",
    "KernelSGDSolver": "solvers.kernel_sgd.KernelSGD",
    "KernelSVM": "kernel.KernelSVM",
    "LaplacianKernel": "kernels.kernels.Laplacian",
    "LbfgsSolver": "solvers.lbfgs.Lbfgs",
    "LearnedWeights": "selection.learned.LearnedWeights",
    "LinearKernel": "kernels.kernels.Linear",
    "LinearSVM": "linear.LinearSVM",
    "MCC": "metrics.MCC",
    "NesterovSolver": "solvers.nesterov.Nesterov",
    "NewtonSolver": "solvers.newton.Newton",
    "Objective": "operating.objectives.Objective",
    "PegasosSolver": "solvers.pegasos.Pegasos",
    "PiecewiseLinearView": "auto.views.PiecewiseLinear",
    "PlainColumn": "_tables.frames.PlainColumn",
    "PlainFrame": "_tables.frames.PlainFrame",
    "PolyKernel": "kernels.kernels.Poly",
    "PrecomputedKernel": "kernels.kernels.Precomputed",
    "QuantileNormalView": "auto.views.QuantileNormal",
    "RBFKernel": "kernels.kernels.RBF",
    "SMOSolver": "solvers.smo.SMO",
    "SharedGridSearch": "selection.search.SharedGridSearch",
    "SigmoidKernel": "kernels.kernels.Sigmoid",
    "FitProgress": "solvers.outcome.Progress",
    "Resumption": "solvers.outcome.Resumption",
    "StandardView": "auto.views.Standard",
    "StratifiedNystroem": "nystroem.StratifiedNystroem",
    "TaskProgress": "solvers.outcome.TaskProgress",
    "TableEncoder": "_tables.encoder.TableEncoder",
    "UniformSampling": "sampling.Uniform",
    "ZAdjustedClassifier": "zsvm.ZAdjustedClassifier",
}
TUPLES: Mapping[str, str] = {
    "BlinexLoss": "losses.Blinex",
    "HingeLoss": "losses.Hinge",
    "LogLoss": "losses.Log",
    "SquaredHingeLoss": "losses.SquaredHinge",
}
FUNCTIONS: Mapping[str, str] = {
    "columns_as_numbers": "_tables.encoder.as_numbers",
    "imbalance_counted_twice": "papers._printed_twice",
    "recall": "metrics.recall",
    "specificity": "metrics.specificity",
}


def __getattr__(name: str) -> Any:
    place = {**OBJECTS, **TUPLES, **FUNCTIONS}.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, last = place.rpartition(".")
    return getattr(import_module(f"{_PACKAGE}.{module}"), last)


def full_name(kind: Any) -> str:
    """Say where a class or a function is today."""
    return f"{kind.__module__}.{kind.__qualname__}"


def file_name(full: str) -> str:
    """Find the name in a file of what is at this place today; in other packages it is the place itself."""
    ours = full.removeprefix(f"{_PACKAGE}.")
    names = {place: name for name, place in {**OBJECTS, **TUPLES, **FUNCTIONS}.items()} if ours != full else {}
    return f"{__name__}.{names[ours]}" if ours in names else full


_PACKAGE = __name__.partition(".")[0]
