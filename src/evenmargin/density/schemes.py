"""The weights that the schemes make of densities."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from .._util.typing import Array

# In the order of the paper, which numbers them from 1.
SCHEMES = ("sqrt", "density", "square", "inverse_sqrt", "inverse", "inverse_square", "same_class", "random")
_POWERS = {"sqrt": 0.5, "density": 1.0, "square": 2.0, "inverse_sqrt": -0.5, "inverse": -1.0, "inverse_square": -2.0}


def scheme_name(scheme: str | int) -> str:
    """The name of a scheme that is given by name or number."""
    return scheme if isinstance(scheme, str) else SCHEMES[scheme - 1]


def densities(sums: Array, weight: Array, largest: float, *, one_class: bool) -> Array:
    """Densities from sums whose weights are in units of the largest one.

    A row of weight 0 has the density it would have if it were there once. Within one
    class a density is at least that of the row itself, which rounding may miss.
    """
    sums = largest * sums
    sums[weight == 0] += 1.0
    return np.maximum(sums, np.where(weight > 0, weight, 1.0)) if one_class else sums


def scheme_weights(density: Array, scheme: str, weight: Array) -> Array:
    """The weights of rows, from their densities (in "same_class" the own class less the others) and sample weights."""
    if scheme == "same_class":
        return np.maximum(density, 0.0)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        found = density ** _POWERS[scheme]
    if not (np.isfinite(found) & (found > 0)).all():
        raise ValueError(
            f"scheme={scheme!r} gives weights too large or too small to represent, as sample_weight ranges from "
            f"{weight[weight > 0].min():.1e} to {weight.max():.1e}: divide it by its mean, or choose another scheme."
        )
    return np.asarray(found)


def normalized(found: Array, normalize: str | None, weight: Array) -> Array:
    """The weights as they are, or for "mean" divided by their mean, which counts sample weights."""
    if normalize is None:
        return found
    found = found / found.max()  # so that their sum is finite
    return np.asarray(found / np.average(found, weights=weight))


def classes_without_weight(alive: Collection[Any], classes: list[Any]) -> list[Any]:
    """The classes without any row of a weight above 0, given those that have one."""
    if not alive:
        raise ValueError(
            "scheme='same_class': at every row other classes are denser than its own, so all weights are 0; "
            "choose a larger gamma or another scheme."
        )
    return [label for label in classes if label not in alive]
