"""Three views of a numeric table, for kernels to look at.

    Standard          each column standardised and clipped
    QuantileNormal    each column by its normal quantiles: only the order of values counts
    PiecewiseLinear   each column as a few ramps between its quantiles: sharp steps become visible

They use no labels. Everything is by sample weight, so that a weight of 2 is a row twice. `fit` takes float64 without
missing values, `transform` gives float32.

A kernel on a view is exp(−g·d/m), where d is a distance and m the median of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from .._util.typing import Array, Single
from ..kernels import RBF, Exponential

FAR = 10.0  # standard deviations at which a standardised value is clipped
_TAIL = 3.0  # normal quantiles at which a value is clipped
_FEW = 10  # distinct values up to which a column is not worth a map of its own
_KNOTS = 250  # of a quantile map, at most
_RAMPS = 800  # columns of the piecewise-linear view, roughly


class View(ABC):
    """A map of the columns, fitted without labels."""

    @abstractmethod
    def fit(self, X: Array, weight: Array) -> View: ...

    @abstractmethod
    def transform(self, X: Array) -> Single: ...


class Standard(View):
    """(x − mean)/sd, clipped at ±10."""

    def fit(self, X: Array, weight: Array) -> Standard:
        self.mean = np.average(X, axis=0, weights=weight)
        spread = np.sqrt(np.average((X - self.mean) ** 2, axis=0, weights=weight))
        self.spread = np.where(spread > 1e-12 * np.abs(self.mean), spread, 1.0)
        return self

    def transform(self, X: Array) -> Single:
        return np.clip((X - self.mean) / self.spread, -FAR, FAR).astype(np.float32)


class QuantileNormal(View):
    """The normal quantile of a value's place among the training rows, clipped at ±3; then standardised.

    Columns of up to 10 values are only standardised.
    """

    def fit(self, X: Array, weight: Array) -> QuantileNormal:
        self.maps = [_normal_scores(column, weight) for column in X.T]
        self.after = Standard().fit(self._mapped(X), weight)
        return self

    def transform(self, X: Array) -> Single:
        return self.after.transform(self._mapped(X))

    def _mapped(self, X: Array) -> Array:
        out = np.array(X, dtype=np.float64)
        for j, known in enumerate(self.maps):
            if known is not None:
                out[:, j] = np.interp(X[:, j], *known)
        return out


class PiecewiseLinear(View):
    """Each column as k ramps from 0 to 1 between its quantiles; centred, at one scale for all.

    k is 800 over the number of columns, but 2 to 8, and no more than the distinct
    values allow.
    """

    def fit(self, X: Array, weight: Array) -> PiecewiseLinear:
        count = int(np.clip(_RAMPS // X.shape[1], 2, 8))
        levels = np.linspace(0.0, 1.0, count + 1)
        knots = [_distinct_quantiles(column, weight, levels) for column in X.T]
        self.column = np.repeat(np.arange(X.shape[1]), [own.size - 1 for own in knots])  # that a ramp is of
        self.start = np.concatenate([own[:-1] for own in knots])
        self.length = np.concatenate([np.diff(own) for own in knots])
        ramps = self._ramps(X)
        self.mean = np.average(ramps, axis=0, weights=weight)
        total = np.average((ramps - self.mean) ** 2, axis=0, weights=weight).sum()
        self.scale = 1.0 / np.sqrt(total) if total > 0 else 1.0
        return self

    def transform(self, X: Array) -> Single:
        return ((self._ramps(X) - self.mean) * self.scale).astype(np.float32)

    def _ramps(self, X: Array) -> Array:
        ramps = X[:, self.column]
        ramps -= self.start
        ramps /= self.length
        return np.clip(ramps, 0.0, 1.0, out=ramps)


def _normal_scores(column: Array, weight: Array) -> tuple[Array, Array] | None:
    """Knots of the map from values to normal quantiles; None for a column of few values."""
    values, place = np.unique(column, return_inverse=True)
    if values.size <= _FEW:
        return None
    mass = np.bincount(place, weights=weight)
    middle = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    if values.size > _KNOTS:
        kept = np.unique(np.searchsorted(middle, np.linspace(middle[0], middle[-1], _KNOTS)))
        values, middle = values[kept], middle[kept]
    return values, np.clip(ndtri(middle), -_TAIL, _TAIL)


def _distinct_quantiles(column: Array, weight: Array, levels: Array) -> Array:
    knots = np.unique(np.quantile(column, levels, weights=weight, method="inverted_cdf"))
    values = np.unique(column)
    if values.size <= levels.size:  # every value is a knot
        knots = values
    if knots.size == 1:
        knots = np.array([knots[0] - 1.0, knots[0]]) if knots[0] == values[-1] else np.array([knots[0], values[-1]])
    return knots


@dataclass(frozen=True)
class ViewSpec:
    """A view with its kernel and its settings."""

    name: str
    view: type[View]
    kernel: type[RBF] | type[Exponential]  # its gamma is g/m
    grid: tuple[float, ...]  # the g to choose from
    usual: tuple[float, float]  # g and C without a screen
    focused: bool = False  # columns are weighted by how much the score of a first machine changes with them


VIEWS: tuple[ViewSpec, ...] = (
    ViewSpec("standard", Standard, RBF, (0.1, 0.4, 1.6, 6.4), (1.6, 1.0)),
    ViewSpec("ranks", QuantileNormal, Exponential, (0.3, 1.0, 3.0), (1.0, 1.0)),
    ViewSpec("ramps", PiecewiseLinear, RBF, (0.1, 0.4, 1.6), (0.4, 1.0), focused=True),
)
