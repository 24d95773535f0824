"""Recipes: the candidates of a search that one path over prices serves.

Only machines whose fit is known here take part: `KernelSVM` with the hinge or its square, by its exact solver, alone,
at the end of a pipeline, or inside a `ZAdjustedClassifier` that chooses on its training rows. Candidates of a recipe
differ in C (or alpha) and in how z or a threshold is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from .._input.checks import validate_parameters
from ..density import DensityWeights
from ..kernel import KernelSVM
from ..kernels import RBF, Kernel, Laplacian, Linear, Poly, get_kernel
from ..losses import Hinge, SquaredHinge, get_loss
from ..solvers import SMO
from ..zsvm import ZAdjustedClassifier, check_choices, machine_to_adjust
from .trials import Trials

# Parameters of ZAdjustedClassifier that leave its machine as it is.
_ADJUSTMENTS = ("method", "metric", "search", "place", "z_max")


class PathCandidate(NamedTuple):
    """What a candidate of a recipe has of its own: its number, C or alpha, and the choice of z or a threshold."""

    number: int
    C: float
    alpha: float | None
    adjuster: ZAdjustedClassifier | None


@dataclass
class Recipe:
    """Candidates that one path serves."""

    machine: KernelSVM  # with the recipe's parameters, but for C and alpha
    kernel: Kernel  # before a gamma given in words is a number
    steps: Pipeline | None  # the transformers before the machine
    transform: Hashable  # their parameters, as a key
    densities: Hashable  # what density weights are made of, as a key
    costs: Hashable  # what the costs of rows are made of, as a key
    candidates: list[PathCandidate] = field(default_factory=list)


class Anatomy(NamedTuple):
    """The prefix of the machine's parameters, the classifier and the pipeline around it, and the machine."""

    prefix: str
    adjuster: ZAdjustedClassifier | None
    pipeline: Pipeline | None
    machine: KernelSVM


def _anatomy(estimator: BaseEstimator) -> Anatomy | None:
    prefix, adjuster, pipeline = "", None, None
    if type(estimator) is ZAdjustedClassifier:
        if estimator.cv is not None:
            return None
        prefix, adjuster, estimator = "estimator__", estimator, machine_to_adjust(estimator)
    if type(estimator) is Pipeline:
        if not estimator.steps or getattr(estimator, "transform_input", None):
            return None
        pipeline, (name, estimator) = estimator, estimator.steps[-1]
        prefix += f"{name}__"
    return Anatomy(prefix, adjuster, pipeline, estimator) if type(estimator) is KernelSVM else None


def find_recipes(trials: Trials) -> list[Recipe]:
    """The recipes of the candidates that can share."""
    base = _anatomy(trials.estimator)
    if base is None:
        for params in trials.candidates:  # an unknown parameter is an error, not a fit that failed
            trials.made(params)
        return []
    own = {base.prefix + "C", base.prefix + "alpha", *(_ADJUSTMENTS if base.adjuster else ())}
    recipes: dict[Hashable, Recipe | None] = {}
    for number, params in enumerate(trials.candidates):
        common = {name: value for name, value in params.items() if name not in own}
        key = tuple((name, id(value)) for name, value in sorted(common.items()))
        if key not in recipes:
            recipes[key] = _recipe(trials.made(common), base, key)
        recipe = recipes[key]
        try:
            if recipe is not None:
                recipe.candidates.append(_candidate(number, params, recipe.machine, base))
        except (ValueError, TypeError):
            pass  # a plain fit will say what is wrong
    return [recipe for recipe in recipes.values() if recipe is not None and recipe.candidates]


def _recipe(estimator: BaseEstimator, base: Anatomy, key: tuple[tuple[str, int], ...]) -> Recipe | None:
    found = _anatomy(estimator)
    if found is None or found.prefix != base.prefix:
        return None
    machine, steps = found.machine, None if found.pipeline is None else found.pipeline[:-1]
    try:
        validate_parameters(machine)
        kernel = get_kernel(machine.kernel, machine.gamma, machine.degree, machine.coef0)
        if not _is_known(machine, kernel) or (found.adjuster and machine.intercept == "augmented"):
            return None
    except (ValueError, TypeError):
        return None
    transform = tuple(part for part in key if not part[0].startswith(base.prefix))
    density = machine.density.get_params() if isinstance(machine.density, DensityWeights) else machine.density
    densities = repr((density, machine.random_state))
    costs = densities, repr(machine.class_weight)
    return Recipe(machine, kernel, steps or None, transform, densities, costs)


def _is_known(machine: KernelSVM, kernel: Kernel) -> bool:
    """Whether a path gives what the machine's own fit would give."""
    exact = machine.solver in ("auto", "smo") if isinstance(machine.solver, str) else machine.solver == SMO()
    whole = machine.stopping is None and machine.max_iter is None and not machine.warm_start
    bools = isinstance(machine.intercept, bool | np.bool_) or isinstance(machine.density, bool)
    known_kernel = type(kernel) in (RBF, Laplacian, Linear) or (type(kernel) is Poly and kernel.coef0 >= 0)
    known_loss = type(get_loss(machine.loss)) in (Hinge, SquaredHinge)
    return exact and whole and known_kernel and known_loss and not bools


def _candidate(number: int, params: Mapping[str, Any], machine: KernelSVM, base: Anatomy) -> PathCandidate:
    """A candidate's own part, without a clone of the rest; ValueError or TypeError where its fit would raise one."""
    C, alpha = (params.get(base.prefix + name, getattr(machine, name)) for name in ("C", "alpha"))
    for price in (C, 1.0 if alpha is None else alpha):
        if not isinstance(price, Real) or isinstance(price, bool) or not 0 < float(price) < math.inf:
            raise ValueError(price)
    adjuster = None
    if base.adjuster is not None:
        own = {name: params.get(name, getattr(base.adjuster, name)) for name in _ADJUSTMENTS}
        adjuster = ZAdjustedClassifier(machine, **own)
        validate_parameters(adjuster)
        check_choices(adjuster, machine)
    return PathCandidate(number, float(C), None if alpha is None else float(alpha), adjuster)
