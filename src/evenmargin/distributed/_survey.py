"""The first pass over a table: its classes, their weights, its size, its faults, and a sample of rows.

Every row draws a number, its clock, from a stream that belongs to its partition; of each class those rows are the
sample whose clocks ring first. So it is the same whoever computes it, and samples of parts merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from .._util.typing import Array
from ._engine import Engine, Parts, reduced
from ._partitions import Block, Partitions

Clock: TypeAlias = Callable[[np.random.Generator, Array], Array]


def uniform_clock(rng: np.random.Generator, weight: Array) -> Array:
    """Clocks by which every row is equally likely to be in a sample."""
    return rng.random(weight.size)


@dataclass(frozen=True)
class Sample:
    """Rows of one class, with their weights, their clocks, and their places: partition and row in it."""

    X: Any
    weight: Array
    clock: Array
    place: NDArray[np.int64]

    def first(self, most: int) -> Sample:
        order = np.argsort(self.clock, kind="stable")[:most]
        return Sample(*(column[order] for column in vars(self).values()))


@dataclass
class Survey:
    """What is known of all rows after one pass. Totals and counts are by label."""

    rows: int = 0
    nbytes: int = 0
    largest: int = 0  # bytes of a block
    totals: dict[Any, float] = field(default_factory=dict)
    counts: dict[Any, int] = field(default_factory=dict)
    sample: dict[Any, Sample] = field(default_factory=dict)
    faults: list[tuple[int, str]] = field(default_factory=list)
    dtypes: set[Any] = field(default_factory=set)  # of X
    kinds: set[Any] = field(default_factory=set)  # of y
    heaviest: float = 0.0  # the largest weight of a row
    lengths: dict[int, int] = field(default_factory=dict)  # rows of each partition, those of weight 0 included
    measures: list[Any] = field(default_factory=list)  # `Moments` and the like, where asked for

    @property
    def dtype(self) -> Any:
        return np.result_type(*self.dtypes)

    @property
    def classes(self) -> NDArray[Any]:
        """The labels, sorted, in the dtype that a single array of them would have."""
        try:
            known = sorted(self.totals)
        except TypeError as error:
            raise ValueError(f"The labels in y must be of one type in all partitions ({error}).") from None
        if any(kind.kind in "OT" for kind in self.kinds):
            return np.array(known, dtype=object)
        return np.array(known, dtype=np.result_type(*self.kinds))

    def check(self, of: str = "") -> Survey:
        """Raise the fault of the first partition (of X, or `of` what was surveyed) that has one."""
        if self.faults:
            number, words = min(self.faults)
            more = f" ({len(self.faults)} partitions have faults)" if len(self.faults) > 1 else ""
            raise ValueError(f"Partition {number}{of}: {words}{more}.")
        if not self.rows:
            raise ValueError("X has no rows of a weight above 0.")
        return self

    def check_classes(self, of: str = "") -> Survey:
        if len(self.check(of).totals) < 2:
            raise ValueError(
                f"The target has one class only ({next(iter(self.totals))!r}) among rows of a weight above 0; "
                "a classifier needs rows of at least two classes."
            )
        return self


@dataclass(frozen=True)
class FirstPass:
    """What to find in one pass: up to `most` rows of each class, by their clocks, and measures such as `Moments`."""

    seed: int = 0
    most: int = 0
    clock: Clock = uniform_clock
    measures: tuple[type[Any], ...] = ()

    def over(self, engine: Engine, blocks: Parts) -> Survey:
        """The survey of all blocks, without a fault."""
        found: Survey = engine.compute(reduced(blocks.map(survey, self), merge_surveys, self.most))
        return found.check()

    def settle(self, engine: Engine, table: Partitions) -> tuple[Parts, Survey]:
        """The blocks of a table, held in the workers' memory where they fit, and their survey."""
        engine.check_room(table.largest)
        if table.nbytes <= engine.memory():  # False where it is not known
            blocks = engine.hold(table.blocks)
            return blocks, self.over(engine, blocks)
        found = self.over(engine, table.blocks)
        engine.check_room(found.largest)
        return (engine.hold(table.blocks) if found.nbytes <= engine.memory() else table.blocks), found


def survey(block: Block, wanted: FirstPass) -> Survey:
    """The survey of one partition."""
    if block.fault:
        return Survey(faults=[(block.number, block.fault)])
    weight, number = block.weights, block.number
    found = Survey(measures=[kind.of(block) for kind in wanted.measures])
    found.lengths[number] = weight.size if block.kept is None else block.kept.size
    if not weight.size:
        return found
    found.rows, found.heaviest = weight.size, float(weight.max())
    found.nbytes = found.largest = block.nbytes
    found.dtypes, found.kinds = {block.X.dtype}, {block.labels.dtype}
    clock = wanted.clock(np.random.default_rng([wanted.seed, number]), weight)
    rows = np.arange(weight.size) if block.kept is None else np.flatnonzero(block.kept)
    totals = np.bincount(block.codes, weights=weight, minlength=block.labels.size)
    for code, label in enumerate(block.labels.tolist()):
        own = np.flatnonzero(block.codes == code)
        found.totals[label], found.counts[label] = float(totals[code]), own.size
        own = own[np.argsort(clock[own], kind="stable")[: wanted.most]]
        place = np.column_stack([np.full(own.size, number), rows[own]])
        found.sample[label] = Sample(block.X[own], weight[own], clock[own], place)
    return found


def merge_surveys(surveys: Iterable[Survey], most: int) -> Survey:
    """The survey of several parts, added in their order."""
    whole = Survey()
    gathered: dict[Any, list[Sample]] = {}
    for one in surveys:
        whole.rows += one.rows
        whole.nbytes += one.nbytes
        whole.largest = max(whole.largest, one.largest)
        whole.heaviest = max(whole.heaviest, one.heaviest)
        whole.lengths |= one.lengths
        pairs = zip(whole.measures, one.measures, strict=False)  # a part with a fault has none
        whole.measures = [a + b for a, b in pairs] or one.measures
        whole.faults += one.faults
        whole.dtypes |= one.dtypes
        whole.kinds |= one.kinds
        for label, total in one.totals.items():
            whole.totals[label] = whole.totals.get(label, 0.0) + total
            whole.counts[label] = whole.counts.get(label, 0) + one.counts[label]
            gathered.setdefault(label, []).append(one.sample[label])
    for label, parts in gathered.items():
        X, *columns = zip(*(vars(part).values() for part in parts), strict=True)
        whole.sample[label] = Sample(stacked(list(X)), *map(np.concatenate, columns)).first(most)
    return whole


def stacked(parts: list[Any]) -> Any:
    """Rows of several parts, one below the other; CSR where any of them is sparse."""
    if any(issparse(part) for part in parts):
        return vstack(parts, format="csr")
    return np.vstack(parts)
