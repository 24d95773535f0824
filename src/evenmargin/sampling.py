"""Samplers: seeded streams of row indices.

A sampler changes how a stochastic solver gets to the optimum, not where the optimum is: the solver divides each row's
price by how often the row is drawn. So class-balanced sampling with `class_weight="balanced"` takes steps of weight 1
(the imbalance is counted once), and with `class_weight=None` it lowers the variance of the plain machine.

The stream does not depend on how many indices are taken at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._util.typing import Array, Floats, Index

__all__ = ["SAMPLERS", "ClassBalanced", "Given", "Sampler", "Uniform", "get_sampler", "hold_out"]

Take = Callable[[int], Index]


def _kind(n: int) -> Any:
    """The dtype of indices into n rows: the narrow one is drawn in half the time."""
    return np.int32 if n < 2**31 else np.int64


class Sampler(Protocol):
    """What a stochastic solver needs of a sampler."""

    def frequency(self, y: Floats) -> Array:
        """The probability of each row in a draw."""

    def stream(self, y: Floats, rng: np.random.Generator) -> Take:
        """A function that returns the next `count` indices."""


@dataclass(frozen=True)
class Uniform:
    """Every row with the same probability, with replacement.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.sampling import Uniform
    >>> take = Uniform().stream(np.ones(5), np.random.default_rng(0))
    >>> take(4)
    array([4, 3, 2, 1], dtype=int32)
    """

    def frequency(self, y: Floats) -> Array:
        return np.full(y.size, 1.0 / y.size)

    def stream(self, y: Floats, rng: np.random.Generator) -> Take:
        return lambda count: rng.integers(y.size, size=count, dtype=_kind(y.size))


@dataclass(frozen=True)
class ClassBalanced:
    """A fair coin picks the class, then every row of it with the same probability.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.sampling import ClassBalanced
    >>> y = np.array([1.0, -1.0, -1.0, -1.0])
    >>> ClassBalanced().frequency(y).round(3)
    array([0.5  , 0.167, 0.167, 0.167])
    """

    def frequency(self, y: Floats) -> Array:
        positive = y > 0
        count = np.where(positive, positive.sum(), (~positive).sum())
        return np.asarray(0.5 / count)

    def stream(self, y: Floats, rng: np.random.Generator) -> Take:
        positive, negative = np.flatnonzero(y > 0), np.flatnonzero(y <= 0)

        def take(count: int) -> Index:
            coin, place = rng.random((count, 2)).T
            chosen = np.where(
                coin < 0.5,
                positive[(place * positive.size).astype(np.intp)],
                negative[(place * negative.size).astype(np.intp)],
            )
            return chosen.astype(_kind(y.size), copy=False)

        return take


@dataclass(frozen=True, eq=False)
class Given:
    """A sequence of row indices that the caller gives, repeated when it ends.

    Each row counts as drawn with probability 1/n, as in uniform sampling, n being `population` where the rows are part
    of something larger. Rows are counted after those of weight 0 are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.sampling import Given
    >>> Given([0, 2, 1]).stream(np.ones(3), np.random.default_rng(0))(5)
    array([0, 2, 1, 0, 2], dtype=int32)
    """

    indices: ArrayLike
    population: int | None = None

    def __post_init__(self) -> None:
        if self.population is not None and not self.population >= 1:
            raise ValueError(f"Given: population={self.population!r} must be a number of rows, at least 1.")

    def frequency(self, y: Floats) -> Array:
        return np.full(y.size, 1.0 / (self.population or y.size))

    def stream(self, y: Floats, rng: np.random.Generator) -> Take:
        indices = np.asarray(self.indices)
        whole = indices.ndim == 1 and indices.size > 0 and np.issubdtype(indices.dtype, np.integer)
        if not whole or indices.min() < 0 or indices.max() >= y.size:
            raise ValueError(f"sampling: the given indices must be a non-empty list of rows from 0 to {y.size - 1}.")
        indices = indices.astype(_kind(y.size))
        position = 0

        def take(count: int) -> Index:
            nonlocal position
            chosen = np.take(indices, np.arange(position, position + count), mode="wrap")
            position = (position + count) % indices.size
            return chosen

        return take


SAMPLERS: dict[str, type] = {"uniform": Uniform, "balanced": ClassBalanced}


def get_sampler(sampling: Any) -> Any:
    """The sampler of that name, or the sampler object itself."""
    if isinstance(sampling, str) and sampling in SAMPLERS:
        return SAMPLERS[sampling]()
    if hasattr(sampling, "stream") and hasattr(sampling, "frequency") and not isinstance(sampling, type):
        return sampling
    known = ", ".join(repr(name) for name in sorted(SAMPLERS))
    raise ValueError(f"sampling={sampling!r} is unknown; choose one of {known}, or give a sampler object.")


def hold_out(y: NDArray[Any], fraction: float, rng: np.random.Generator, *, stratify: bool) -> tuple[Index, Index]:
    """The rows to train on, and a fraction to hold out: of each class at least one row, and not all.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
    fraction : float
        0 holds nothing out.
    rng : Generator
    stratify : bool
        Whether y holds classes, each of which is split by itself.

    Returns
    -------
    train, aside : ndarrays of row numbers, in order

    Examples
    --------
    >>> import numpy as np
    >>> from evenmargin.sampling import hold_out
    >>> y = np.array([0] * 18 + [1] * 2)
    >>> train, aside = hold_out(y, 0.1, np.random.default_rng(0), stratify=True)
    >>> y[aside]
    array([0, 0, 1])
    """
    held = np.zeros(y.size, dtype=np.bool_)
    groups = [y == label for label in np.unique(y)] if stratify else [np.ones(y.size, dtype=np.bool_)]
    for group in groups if fraction > 0 else []:
        rows = np.flatnonzero(group)
        if rows.size < 2:
            whose = f"Class {y[rows].tolist()[0]!r} has" if stratify else "There is"
            raise ValueError(
                f"{whose} only one sample, but a validation part needs another: "
                "give more rows, or leave out the validation."
            )
        count = min(max(1, round(fraction * rows.size)), rows.size - 1)
        held[rng.choice(rows, count, replace=False)] = True
    return np.flatnonzero(~held), np.flatnonzero(held)
