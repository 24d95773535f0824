"""`StratifiedNystroem` on dask collections.

One pass draws the landmarks. Every row draws an exponential number, divided by its weight, from a stream that belongs
to its partition, and of each class the rows with the least numbers are landmarks, as in memory. They come to the
client, which makes the map from their kernel values; features are computed block by block when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from .._input.checks import seed_from
from .._util.typing import Array, Index, MatrixLike, VectorLike
from ..kernels import Kernel, Precomputed, get_kernel
from ._blocks import empty_result, over_blocks, over_frames
from ._engine import Engine
from ._moments import Moments
from ._partitions import is_frame, partitions
from ._survey import FirstPass, stacked


@dataclass(frozen=True)
class Landmarks:
    """The rows that were drawn, in the order of the table, which rows they are, and the kernel for all of them."""

    components: Any
    indices: Index
    kernel: Kernel
    dtype: Any
    columns: tuple[list[Any] | None, int]


def fit_nystroem(
    machine: BaseEstimator, X: MatrixLike, y: VectorLike, sample_weight: VectorLike, counts_of: Callable[..., Index]
) -> Landmarks:
    """Landmarks by the parameters of a `StratifiedNystroem`; y is None where classes do not matter.

    `counts_of(sizes, shares, classes)` says how many landmarks each class gives.
    """
    kernel = get_kernel(machine.kernel, machine.gamma, machine.degree, machine.coef0)
    if isinstance(kernel, Precomputed):
        raise ValueError("kernel='precomputed' is a matrix of all rows: on dask collections choose another kernel.")
    table = partitions(X, y, sample_weight)
    rule = machine.stratify
    asked = rule.values() if isinstance(rule, Mapping) else [machine.n_components]
    most = max([0, *(int(count) for count in asked if isinstance(count, Integral))])
    with Engine() as engine:
        engine.check_room(table.largest)
        wanted = FirstPass(seed_from(machine.random_state), most, exponential_clock, (Moments,))
        seen = wanted.over(engine, table.blocks)
    (moments,) = seen.measures
    classes, dtype = seen.classes, seen.dtype
    sizes = np.array([seen.counts[label] for label in classes.tolist()])
    totals = np.array([seen.totals[label] for label in classes.tolist()])
    counts = counts_of(sizes, totals / totals.sum(), classes)
    drawn = [seen.sample[label].first(count) for label, count in zip(classes.tolist(), counts, strict=True)]
    lengths = np.array([seen.lengths[number] for number in range(len(seen.lengths))])
    number, row = np.concatenate([sample.place for sample in drawn]).T
    rows = np.asarray((np.cumsum(lengths) - lengths)[number] + row, dtype=np.intp)  # in the whole table
    order = np.argsort(rows)
    components = stacked([sample.X for sample in drawn])[order].astype(dtype, copy=False)
    return Landmarks(components, rows[order], moments.settle(kernel, table.width), dtype, table.columns)


def exponential_clock(rng: np.random.Generator, weight: Array) -> Array:
    """Clocks by which a row is in a sample with a probability by its weight."""
    with np.errstate(over="ignore"):
        return np.asarray(rng.standard_exponential(weight.size) / weight)


def transform_nystroem(machine: BaseEstimator, X: MatrixLike) -> Any:
    """Features, lazily: an array with the chunks of an array, a frame with the index of a frame.

    A frame, since dask joins the partitions of a file by the columns that are read: as parts of one expression,
    features and labels of the same rows stay together.
    """
    if not is_frame(X):
        return over_blocks(machine, "transform", X)
    nothing = pd.DataFrame(empty_result(machine, "transform", X), columns=machine.get_feature_names_out())
    return over_frames(machine, "transform", X, nothing)
