"""The first pass over a table: its classes, their weights, its size, its faults, and a sample of rows.

Every row draws a number, its clock, from a stream that belongs to its partition; of each class those rows are the
sample whose clocks ring first. So it is uniform, the same whoever computes it, and samples of parts merge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from ._partitions import Array, Block

__all__ = ["Sample", "Survey", "merge_surveys", "stacked", "survey"]


@dataclass(frozen=True)
class Sample:
    """Rows of one class, with their weights and clocks."""

    X: Any
    weight: Array
    clock: Array


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

    @property
    def size(self) -> tuple[int, int]:
        return self.nbytes, self.largest

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
        """Itself, or the fault of the first partition (of X, or `of` what was surveyed) that has one."""
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


def survey(block: Block, seed: int, most: int) -> Survey:
    """One partition's survey, with up to `most` rows of each class."""
    if block.fault:
        return Survey(faults=[(block.number, block.fault)])
    if not block.codes.size:
        return Survey()
    weight = block.weights
    clock = np.random.default_rng([seed, block.number]).random(weight.size)
    totals = np.bincount(block.codes, weights=weight, minlength=block.labels.size)
    found = Survey(weight.size, block.nbytes, block.nbytes, dtypes={block.X.dtype}, kinds={block.labels.dtype})
    for code, label in enumerate(block.labels.tolist()):
        own = np.flatnonzero(block.codes == code)
        found.totals[label], found.counts[label] = float(totals[code]), own.size
        own = own[np.argsort(clock[own], kind="stable")[:most]]
        found.sample[label] = Sample(block.X[own], weight[own], clock[own])
    return found


def merge_surveys(surveys: Iterable[Survey], most: int) -> Survey:
    """The survey of several parts, added in their order."""
    whole = Survey()
    gathered: dict[Any, list[Sample]] = {}
    for one in surveys:
        whole.rows += one.rows
        whole.nbytes += one.nbytes
        whole.largest = max(whole.largest, one.largest)
        whole.faults += one.faults
        whole.dtypes |= one.dtypes
        whole.kinds |= one.kinds
        for label, total in one.totals.items():
            whole.totals[label] = whole.totals.get(label, 0.0) + total
            whole.counts[label] = whole.counts.get(label, 0) + one.counts[label]
            gathered.setdefault(label, []).append(one.sample[label])
    for label, parts in gathered.items():
        clock = np.concatenate([part.clock for part in parts])
        first = np.argsort(clock, kind="stable")[:most]
        weight = np.concatenate([part.weight for part in parts])
        whole.sample[label] = Sample(stacked([part.X for part in parts])[first], weight[first], clock[first])
    return whole


def stacked(parts: list[Any]) -> Any:
    """Rows of several parts, one below the other; CSR where any of them is sparse."""
    if any(issparse(part) for part in parts):
        return vstack(parts, format="csr")
    return np.vstack(parts)
