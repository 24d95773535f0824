"""`DensityWeights` on dask collections, by random Fourier features.

A first pass finds γ and how far rows reach, a second the phases φ(ω) = Σ_j exp(iω·x_j) of every class: 2 · n_components
numbers for each. Densities and weights follow from them row by row, and are lazy. Every partition draws the frequencies
for itself, the ones that a fit in memory draws from the same seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._input.checks import check_weights, seed_from
from .._util.typing import Array, Floats, Index, MatrixLike, VectorLike
from ..density.fourier import draw_waves, fourier_phases, fourier_spread, precision_for
from ..density.schemes import classes_without_weight, densities, scheme_name, scheme_weights
from ..kernels import RBF
from ._engine import Engine, Parts, reduced
from ._moments import Extent, Moments, added
from ._partitions import Block, Partitions, is_frame, joined, partitions, prepare, triples, two_dimensional
from ._survey import FirstPass

_COLUMNS = ["weights", "density", "density_error"]


@dataclass(frozen=True)
class DensityRule:
    """What a partition must know of the whole table to weigh its rows.

    `phase` has the shape (classes + 1, 2, frequencies), the last for rows of a class that has no weight; `mean` is what
    weights are divided by.
    """

    scheme: str
    kernel: Any
    width: int
    components: int
    seed: int
    classes: NDArray[Any]
    centre: Array | None = None
    dtype: Any = np.float64
    largest: float = 1.0
    phase: Array | None = None
    mean: float = 1.0

    def waves(self) -> Floats:
        return draw_waves(self.kernel, self.width, self.components, self.seed, self.dtype)

    def codes(self, block: Block) -> Index:
        known = np.isin(block.labels, self.classes)
        return np.where(known, np.searchsorted(self.classes, block.labels), self.classes.size)[block.codes]

    def weigh(self, block: Block, weight: Array) -> Array:
        """Weight, density and its error of every row, in columns."""
        found = np.full((weight.size, len(_COLUMNS)), np.nan)
        if self.phase is None:
            kept = np.arange(weight.size) if block.kept is None else block.kept
            drawn = np.random.default_rng([self.seed, block.number]).random(kept.size)[kept]
            found[:, 0] = (1.0 + drawn) / self.mean
            return found
        sums, errors = fourier_spread(block.X, self.centre, self.waves(), self.codes(block), self.phase)
        sums = densities(sums, weight, self.largest, one_class=self.classes.size == 1)
        given = scheme_weights(sums, self.scheme, weight)
        found[:, 0], found[:, 1], found[:, 2] = given / self.mean, sums, self.largest * errors
        return found


@dataclass(frozen=True)
class WeightTotals:
    """The largest weight, the sum by sample weight in units of it, and the classes that have any weight."""

    peak: float
    total: float
    alive: frozenset[Any]

    @classmethod
    def of(cls, block: Block, rule: DensityRule) -> WeightTotals:
        weight = block.weights
        given = rule.weigh(block, weight)[:, 0]
        peak = float(given.max(initial=0.0))
        alive = np.unique(block.codes[given > 0])
        return cls(peak, float(weight @ given) / peak if peak else 0.0, frozenset(block.labels[alive].tolist()))

    def __add__(self, other: WeightTotals) -> WeightTotals:
        peak = max(self.peak, other.peak)
        total = (self.total * self.peak + other.total * other.peak) / peak if peak else 0.0
        return WeightTotals(peak, total, self.alive | other.alive)


@dataclass(frozen=True)
class CollectionWeights:
    """The weights of all rows, lazily, and what they were computed with; `gone` are classes left without any weight."""

    gamma: float
    weights: Any
    density: Any
    error: Any
    gone: list[Any]
    columns: tuple[list[Any] | None, int]


def fit_density(estimator: BaseEstimator, X: MatrixLike, y: VectorLike, sample_weight: VectorLike) -> CollectionWeights:
    """Weights by the parameters of a `DensityWeights`."""
    scheme = scheme_name(estimator.scheme)
    if estimator.method == "exact" and scheme != "random":
        raise ValueError("method='exact' takes all pairs of rows: on dask collections choose method='fourier'.")
    if scheme != "same_class":
        y = None
    elif y is None:
        raise ValueError("scheme='same_class' needs the classes of the rows: call fit(X, y).")
    table = partitions(X, y, sample_weight)
    with Engine() as engine:
        rule, gone = _find_rule(engine, table, estimator, scheme)
    weights, density, error = _columns(X, y, sample_weight, rule)
    if rule.phase is None:
        density = error = None
    return CollectionWeights(rule.kernel.gamma, weights, density, error, gone, table.columns)


def _find_rule(
    engine: Engine, table: Partitions, estimator: BaseEstimator, scheme: str
) -> tuple[DensityRule, list[Any]]:
    """Find the rule in two or three passes over the blocks."""
    blocks, found = FirstPass(measures=(Moments, Extent)).settle(engine, table)
    moments, extent = found.measures
    kernel: Any = moments.settle(RBF(estimator.gamma), table.width)
    count, seed = int(estimator.n_components), seed_from(estimator.random_state)
    rule = DensityRule(scheme, kernel, table.width, count, seed, found.classes)
    if scheme != "random":
        centre = None if extent.centre is None else extent.centre.astype(found.dtype)
        precision = precision_for(kernel, kernel.gamma * extent.radius**2, found.dtype)
        rule = replace(rule, centre=centre, dtype=precision, largest=found.heaviest)
        rule = replace(rule, phase=np.pad(_sum(engine, blocks, _phases, rule), ((0, 1), (0, 0), (0, 0))))
    gone: list[Any] = []
    if scheme == "same_class" or estimator.normalize == "mean":
        given: WeightTotals = _sum(engine, blocks, WeightTotals.of, rule)
        if scheme == "same_class":
            gone = classes_without_weight(given.alive, found.classes.tolist())
        if estimator.normalize == "mean":
            rule = replace(rule, mean=given.peak * (given.total / sum(found.totals.values())))
    return rule, gone


def _phases(block: Block, rule: DensityRule) -> Array:
    """One partition's part of φ."""
    share, classes = block.weights / rule.largest, rule.classes.size
    return fourier_phases(block.X, rule.centre, rule.waves(), rule.codes(block), share, classes)


def _sum(engine: Engine, blocks: Parts, function: Callable[..., Any], *more: Any) -> Any:
    """Σ function(block, *more) over all blocks."""
    return engine.compute(reduced(blocks.map(function, *more), added))


def _columns(X: MatrixLike, y: VectorLike, weight: VectorLike, rule: DensityRule) -> list[Any]:
    """Weights, densities and errors, lazily: arrays with the chunks of an array, series with the index of a frame."""
    names = list(X.columns) if is_frame(X) else None
    meta = pd.DataFrame(np.empty((0, len(_COLUMNS))), columns=_COLUMNS)
    if names is None:
        found = _array(triples(X, y, weight).numbered(_weighed, rule, None), two_dimensional(X).chunks[0])
        return [found[:, place] for place in range(len(_COLUMNS))]
    meta = meta.set_axis(X._meta.index, axis=0)
    together = joined(X, y, weight)
    if together is not None:
        found = together.map_partitions(_framed, rule, names, meta=meta, enforce_metadata=False)
    else:
        found = triples(X, y, weight).numbered(_numbered, rule, names).frame(meta)
    return [found[name] for name in _COLUMNS]


def _array(parts: Parts, rows: tuple[Any, ...]) -> Any:
    """An array of the parts, one below the other; `concatenate` would leave the empty ones out."""
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    name = f"density-{uuid4().hex}"
    graph = {(name, number, 0): key for number, key in enumerate(parts.keys)}
    whole = HighLevelGraph.from_collections(name, {**parts.graph, **graph})
    return da.Array(whole, name, (rows, (len(_COLUMNS),)), dtype=np.float64)


def _weighed(number: int, piece: tuple[Any, Any, Any], rule: DensityRule, names: list[Any] | None) -> Array:
    """The columns of one partition as it is, rows of weight 0 included."""
    rows, y, weight = piece
    block = prepare(number, (rows, y, None), names, rule.width)
    if block.fault:  # it had none when it was surveyed
        raise ValueError(f"Partition {number}: {block.fault}.")
    return rule.weigh(block, check_weights(weight, block.codes.size))


def _numbered(number: int, piece: tuple[Any, Any, Any], rule: DensityRule, names: list[Any]) -> pd.DataFrame:
    return _framed(piece, rule, names, {"number": number})


def _framed(
    piece: tuple[Any, Any, Any], rule: DensityRule, names: list[Any], partition_info: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    number = 0 if partition_info is None else partition_info["number"]
    return pd.DataFrame(_weighed(number, piece, rule, names), columns=_COLUMNS, index=piece[0].index)
