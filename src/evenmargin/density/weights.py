"""Sample weights from the density around each row: the generalized weighted loss (GWL).

Filippo Portera, "A Generalized Weighted Loss for SVC and MLP". The density at row
i, and that of its own class less that of the others, are

    s_i  = Σ_j exp(−γ‖x_i − x_j‖²),
    sy_i = Σ_j ±exp(−γ‖x_i − x_j‖²),   + for rows of the same class, − for others,

j = i included. A weight is a power of s_i, or sy_i cut at 0; it multiplies C.
With sample weights, row j counts sample_weight_j times.

Exact sums go over tiles of the kernel matrix, each of which serves two blocks of
rows: its rows sum to one, its columns to the other. Round r takes the pairs of
blocks (p, q) with p + q = r modulo their number. No block is in two pairs of a
round and each pair is in one round, so that threads may share a round, every sum
has one order, and nothing is held but some tiles.

Fourier sums take cos(ω·(x_i − x_j)), averaged over D frequencies ω ~ N(0, 2γI),
for the kernel. With φ(ω) = Σ_j exp(iω·x_j) that is one pass for φ and one for

    s_i ≈ mean over ω of Re(exp(−iω·x_i) φ(ω)).

A kernel value k has the standard error (1 − k²)/√(2D), so that s_i/n has at most
√(1/(2D)). As the mean of |φ|² is Σ_j s_j, s_i/n also has at most √(s̄/(Dn)), s̄ the
mean of s, and about √(s̄/(2Dn)) where few rows are near.

On a device sums are those of `_device_sums.py`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from .._device import arrays, products
from .._input.checks import (
    Interval,
    StrOptions,
    fit_context,
    num_samples,
    remember_columns,
    seed_from,
    validate_parameters,
    validate_training,
)
from .._input.collections import is_dask
from .._input.entry import Portable, enter, in_kind
from .._util.threads import Workers
from .._util.typing import Array, Floats, Index, MatrixLike, VectorLike
from ..kernels import RBF, Points, centre_of, reach
from .device import exact_on_device, fourier_on_device

__all__ = ["SCHEMES", "DensityWeights", "density_weights"]


# In the order of the paper, which numbers them from 1.
SCHEMES = ("sqrt", "density", "square", "inverse_sqrt", "inverse", "inverse_square", "same_class", "random")
_POWERS = {"sqrt": 0.5, "density": 1.0, "square": 2.0, "inverse_sqrt": -0.5, "inverse": -1.0, "inverse_square": -2.0}

_BLOCKS = 32  # blocks of rows at least, where rows are many; half as many tasks are open at a time
_PREPARED = 2 << 20  # bytes of prepared rows in a block
_WAVES = 1 << 18  # cosines at a time
_LOST = 1e-4  # error of an exponent that is too large


class DensityWeights(Portable, BaseEstimator):  # type: ignore[misc]
    """Sample weights from the density around each row (generalized weighted loss, GWL).

    s_i = Σ_j exp(−γ‖x_i − x_j‖²) is large where rows are many. The weights are a
    function of it, for any estimator whose `fit` takes `sample_weight`. They
    multiply C there: without `normalize`, s reaches n and s² reaches n², so
    that C must be chosen anew for each scheme.

    Parameters
    ----------
    scheme : str or int, default="inverse_sqrt"
        By name, or by the number that the paper gives it:

        1. "sqrt": √s
        2. "density": s
        3. "square": s²
        4. "inverse_sqrt": 1/√s
        5. "inverse": 1/s
        6. "inverse_square": 1/s²
        7. "same_class": the density of the row's own class less that of the
           others, cut at 0. A weight of 0 is no row.
        8. "random": 1 + U[0, 1), which knows nothing of the data: a control.

        1 to 3 trust rows in a crowd, 4 to 6 rows on their own.
    gamma : float, "scale" or "auto", default="scale"
        γ, as in `SVC`: "scale" is 1/(d · variance of all entries), counting
        sample weights, "auto" 1/d.
    normalize : {"mean"} or None, default=None
        "mean": divided by their mean, counting sample weights. None: as they
        are, as in the paper.
    method : {"exact", "fourier"}, default="exact"
        "exact": all n²/2 kernel values, computed in tiles and forgotten.
        "fourier": random Fourier features, in a time of n · n_components. The
        standard error of s_i/n is at most √(1/(2 · n_components)), and about
        √(s̄/(2 · n_components · n)), s̄ the mean of s, where few rows are near;
        `density_error_` is the measured one of s_i. s_i cannot be below 1, as j = i
        counts, and is cut there (at the row's sample weight, where it has one).
        So this is good for rows in a crowd and says little of rows on their own.
    n_components : int, default=1000
        Frequencies of method="fourier"; n_components · n_features numbers are held.
    random_state : int, RandomState or None, default=None
        For scheme="random" and method="fourier".
    device : None, "cpu", "cuda" or "cuda:0", default=None
        Where to compute. None: where X is, which is a GPU for a CUDA tensor. The
        weights of a tensor are a tensor on its device. As `density` of a machine that
        runs on a GPU they are computed there, with its rows, whatever is given here.

    Attributes
    ----------
    weights_ : ndarray of shape (n_samples,)
        The weights, without `sample_weight`: multiply by it where there is one. Of a
        dask array this and the next two are lazy arrays with its chunks, of a dask
        frame series with its index. An estimator that has such cannot be saved: save
        what they are computed to.
    density_ : ndarray of shape (n_samples,)
        s_i, or for "same_class" sy_i before the cut; not there for "random".
    density_error_ : ndarray of shape (n_samples,)
        For method="fourier": the standard error of `density_`, as seen in the
        spread over frequencies; NaN for one frequency.
    gamma_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    float32 rows are computed in float32, which is several times as fast and good
    for about six digits, unless γ‖x‖² is so large that digits would be lost. The
    answer is the same for any number of threads.

    On a GPU rows of either type are computed in float32, s_i with an error of at
    most 1e-5 of itself, tested against float64 on standardised columns and γ as
    "scale". It grows with γ‖x‖², measured from the mean row, to 4e-4 at 800; beyond, all is
    in float64. The memory it takes there is X, once more X in float32, and tiles of 64 MB.
    The fused kernel for CUDA has no tiles. It holds X a third time, as pairs of halves (4
    bytes a number, the columns padded to 16 or more), some 30 bytes for each row, and 4
    bytes for each row and every 65 536 rows to be summed (more of them for few rows, so
    that no processor idles).

    References
    ----------
    Filippo Portera, "A Generalized Weighted Loss for SVC and MLP".

    Ali Rahimi and Benjamin Recht, "Random Features for Large-Scale Kernel
    Machines", for method="fourier".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from evenmargin.density import DensityWeights
    >>> X, y = np.array([[0.0], [0.1], [0.2], [2.0]]), np.array([0, 0, 1, 1])
    >>> weights = DensityWeights("inverse", gamma=1.0).fit_weights(X)
    >>> weights.round(2)
    array([0.34, 0.33, 0.33, 0.92])
    >>> SVC(C=10).fit(X, y, sample_weight=weights).predict([[1.5]])
    array([1])
    """

    weights_: Array
    density_: Array
    density_error_: Array
    gamma_: float

    _parameter_constraints: dict[str, list[Any]] = {
        "scheme": [StrOptions(set(SCHEMES)), Interval(Integral, 1, len(SCHEMES), closed="both")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "normalize": [StrOptions({"mean"}), None],
        "method": [StrOptions({"exact", "fourier"})],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "device": [str, None],
    }

    def __init__(
        self,
        scheme: str | int = "inverse_sqrt",
        *,
        gamma: float | str = "scale",
        normalize: str | None = None,
        method: str = "exact",
        n_components: int = 1000,
        random_state: Any = None,
        device: str | None = None,
    ) -> None:
        self.scheme = scheme
        self.gamma = gamma
        self.normalize = normalize
        self.method = method
        self.n_components = n_components
        self.random_state = random_state
        self.device = device

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: VectorLike = None, sample_weight: VectorLike = None) -> DensityWeights:
        """Compute the weights of the rows of X.

        Parameters
        ----------
        X : array-like, CSR matrix, tensor, dask array or dask frame of shape (n_samples, n_features)
            Dask collections need method="fourier". They have the weights that a fit in
            memory finds from the same `random_state`, up to rounding; but for
            scheme="random", which draws others.
        y : array-like of shape (n_samples,), default=None
            Classes, two or more, for scheme="same_class"; not looked at otherwise.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 is the same as a row twice. A row of weight 0 is no row
            to the others; its own weight is the one it would have if it were
            there once.

        Returns
        -------
        self
        """
        if is_dask(X):
            gone = self._fit_collection(X, y, sample_weight)
        else:
            X, home = enter(X, self.device)
            with in_kind(self, home):
                gone = self._fit(X, y, sample_weight)
        if gone:
            warnings.warn(
                f"scheme='same_class': at every row of class {', '.join(map(repr, gone))} other classes are denser "
                "than its own, so that all its weights are 0; choose a larger gamma or another scheme.",
                UserWarning,
                stacklevel=3,
            )
        return self

    def _fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike) -> list[Any]:
        """The weights as NumPy, and which classes are left without any; X is on the host or `arrays.Rows`."""
        scheme = self.scheme if isinstance(self.scheme, str) else SCHEMES[self.scheme - 1]
        gone: list[Any] = []
        signed = scheme == "same_class"
        if signed and y is None:
            raise ValueError("scheme='same_class' needs the classes of the rows: call fit(X, y).")
        labels = y if signed else np.zeros(num_samples(X), np.int8)  # one class: all signs are +
        X, labels, weight, classes = validate_training(self, X, labels, sample_weight)
        if not weight.any():
            raise ValueError("All sample weights are zero: no row is left to take a density of.")
        for name in ("density_", "density_error_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        kernel: Any = RBF(self.gamma).settled(X, weight)
        self.gamma_ = kernel.gamma

        if scheme == "random":
            found = 1.0 + np.random.default_rng(seed_from(self.random_state)).random(X.shape[0])
        else:
            codes = np.searchsorted(classes, labels)
            self.density_ = self._density(kernel, X, codes, weight)
            if signed:
                found = np.maximum(self.density_, 0.0)
                gone = _lost_classes(found, labels, weight, classes)
            else:
                found = _power(self.density_, scheme, weight)
        if self.normalize == "mean":
            found = found / found.max()  # so that their sum is finite
            found = found / np.average(found, weights=weight)
        self.weights_ = found
        return gone

    def _fit_collection(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike) -> list[Any]:
        """The same of a dask collection."""
        from ..distributed import fit_density

        found = fit_density(self, X, y, sample_weight)
        for name in ("density_", "density_error_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.gamma_, self.weights_ = found.gamma, found.weights
        if found.density is not None:
            self.density_, self.density_error_ = found.density, found.error
        remember_columns(self, *found.columns)
        return found.gone

    def fit_weights(self, X: MatrixLike, y: VectorLike = None, sample_weight: VectorLike = None) -> Array:
        """Fit, and return `weights_`.

        Parameters
        ----------
        X : array-like, CSR matrix or tensor of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        ndarray or tensor of shape (n_samples,)
        """
        return self.fit(X, y, sample_weight).weights_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _density(self, kernel: Any, X: MatrixLike, codes: Index, weight: Array) -> Array:
        """s, or sy where there are several classes."""
        on_device = isinstance(X, arrays.Rows)
        centre = centre_of(kernel, X)
        far = reach(kernel, X, centre)
        dtype = np.dtype(np.float32 if on_device else X.dtype)
        dtype = precision_for(kernel, far, dtype)
        largest = weight.max()
        share = weight / largest
        if self.method == "fourier":
            waves = draw_waves(kernel, X.shape[1], int(self.n_components), seed_from(self.random_state), dtype)
            sums, errors = (fourier_on_device if on_device else _fourier_sums)(X, centre, waves, codes, share)
            self.density_error_ = largest * errors
        elif on_device:
            sums = exact_on_device(products.Points(kernel, X, dtype, centre), codes, share)
        else:
            sums = _exact_sums(Points(kernel, X, dtype, centre), codes, share)
        sums *= largest
        sums[weight == 0] += 1.0
        return sums if codes.any() else np.maximum(sums, np.where(weight > 0, weight, 1.0))


def _exact_sums(points: Points, codes: Index, share: Array) -> Array:
    """Σ_j ±share_j K_ij for every row, by the class of i and j."""
    with Workers.of(None, points.n * points.n) as pool:
        if codes.max() < 2:
            sign = 1.0 - 2.0 * codes
            return sign * _symmetric_sums(points, sign * share, pool)
        sums = -_symmetric_sums(points, share, pool)
        for code in range(codes.max() + 1):
            rows = np.flatnonzero(codes == code)
            sums[rows] += 2.0 * _symmetric_sums(points, share[rows], pool, rows)
        return sums


def _symmetric_sums(points: Points, v: Array, pool: Workers, rows: Index | None = None) -> Array:
    """K·v, K the kernel matrix of all rows or of the given ones."""
    n, step, kernel = v.size, points.tile, points.kernel
    held = _PREPARED // (step * points.width * points.dtype.itemsize)
    size = step * max(1, min(-(-n // (_BLOCKS * step)), held))
    count = -(-n // size)
    out, small = np.zeros(n), v.astype(points.dtype)

    def tiles(block: int, prepare: Callable[[Any], Any]) -> list[tuple[slice, Any]]:
        """The tiles of rows of a block, prepared."""
        places = [slice(i, min(i + step, n)) for i in range(block * size, min((block + 1) * size, n), step)]
        return [(place, prepare(place if rows is None else rows[place])) for place in places]

    def task(pair: int) -> None:
        p, q = divmod(pair, count)
        columns = tiles(q, points.right)
        for down, (i, left) in enumerate(tiles(p, points.left)):
            for across, (j, right) in enumerate(columns):
                if p == q and across < down:
                    continue
                tile = kernel.combine(left, right, pool.buffer, True)
                kernel.apply(tile, compiled=True)
                out[i] += np.dot(tile, small[j])
                if i != j:
                    out[j] += np.dot(small[i], tile)

    for turn in range(count):
        pairs = [(p, (turn - p) % count) for p in range(count)]
        pairs.sort(key=lambda pair: pair[0] == pair[1])  # the halves last
        pool.each(task, [p * count + q for p, q in pairs if p <= q])
    return out


def _fourier_sums(
    X: MatrixLike, centre: Array | None, waves: Floats, codes: Index, share: Array
) -> tuple[Array, Array]:
    """The same by random frequencies, with standard errors."""
    return fourier_spread(X, centre, waves, codes, fourier_phases(X, centre, waves, codes, share, int(codes.max()) + 1))


def precision_for(kernel: Any, far: float, dtype: Any) -> np.dtype[Any]:
    """The given dtype, or float64 where its digits are too few for rows that are so `far` (see `reach`)."""
    if far * np.finfo(dtype).eps >= _LOST:
        dtype = np.float64
    if not far * np.finfo(dtype).eps < _LOST:
        raise ValueError(
            f"gamma={kernel.gamma:.1e} is so large for these rows that no digits of their distances are left: "
            "scale the features, for example with sklearn.preprocessing.StandardScaler, or choose a smaller gamma."
        )
    return np.dtype(dtype)


def draw_waves(kernel: Any, width: int, count: int, seed: int, dtype: Any) -> Floats:
    """Frequencies ω as columns; the same wherever they are drawn."""
    waves = np.random.default_rng(seed).standard_normal((width, count))
    return (kernel.scale() * waves).astype(dtype)


def fourier_phases(
    X: MatrixLike, centre: Array | None, waves: Floats, codes: Index, share: Array, classes: int
) -> Array:
    """Σ_j share_j (cos ω·x_j, sin ω·x_j) over the rows of each class, of shape (classes, 2, frequencies)."""
    starts, size, step = _wave_blocks(share.size, waves.shape[1])
    phases = np.zeros((len(starts), classes, 2, waves.shape[1]))

    def gather(start: int) -> None:
        into = phases[start // size]
        for i in range(start, min(start + size, share.size), step):
            rows = slice(i, min(i + step, start + size, share.size))
            member = (share[rows] * (codes[rows] == np.arange(classes)[:, None])).astype(waves.dtype)
            for part, wave in enumerate(_angles(X, centre, waves, rows)):
                into[:, part] += member @ wave

    with Workers.of(None, share.size * waves.shape[1]) as pool:
        pool.each(gather, starts)
    return np.asarray(phases.sum(axis=0))


def fourier_spread(
    X: MatrixLike, centre: Array | None, waves: Floats, codes: Index, phase: Array
) -> tuple[Array, Array]:
    """The densities of rows, given the phases of all rows: of the own class less the others, and standard errors."""
    n, count = codes.size, waves.shape[1]
    starts, size, step = _wave_blocks(n, count)
    total = (2.0 * phase - phase.sum(axis=0)).astype(waves.dtype)
    sums, errors = np.empty(n), np.empty(n)

    def spread(start: int) -> None:
        for i in range(start, min(start + size, n), step):
            rows = slice(i, min(i + step, start + size, n))
            cosine, sine = _angles(X, centre, waves, rows)
            cosine *= total[codes[rows], 0]
            sine *= total[codes[rows], 1]
            cosine += sine
            sums[rows] = cosine.mean(axis=1, dtype=np.float64)
            errors[rows] = cosine.std(axis=1, dtype=np.float64) / (math.sqrt(count - 1) or np.nan)

    with Workers.of(None, n * count) as pool:
        pool.each(spread, starts)
    return sums, errors


def _wave_blocks(n: int, count: int) -> tuple[range, int, int]:
    """Where blocks of rows start, their rows, and rows at a time."""
    step = max(16, _WAVES // count)
    size = step * max(1, -(-n // (_BLOCKS * step)))
    return range(0, n, size), size, step


def _angles(X: MatrixLike, centre: Array | None, waves: Floats, rows: slice) -> tuple[Any, Any]:
    some = X[rows] if centre is None else X[rows] - centre
    angle = np.asarray(some @ waves, dtype=waves.dtype)
    return np.cos(angle), np.sin(angle, out=angle)


def _power(s: Array, scheme: str, weight: Array) -> Array:
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        found = s ** _POWERS[scheme]
    if not (np.isfinite(found) & (found > 0)).all():
        raise ValueError(
            f"scheme={scheme!r} gives weights beyond the floating-point numbers, as sample_weight goes from "
            f"{weight[weight > 0].min():.1e} to {weight.max():.1e}: divide it by its mean, or choose another scheme."
        )
    return found


def _lost_classes(found: Array, labels: NDArray[Any], weight: Array, classes: NDArray[Any]) -> list[Any]:
    """A class without weight is no class to whoever trains with these weights."""
    alive = np.unique(labels[(found > 0) & (weight > 0)]).tolist()
    return lost_among(alive, [label for label in classes.tolist() if weight[labels == label].any()])


def lost_among(alive: Collection[Any], classes: list[Any]) -> list[Any]:
    """The classes that have no row of a weight above 0, unlike those alive."""
    if not alive:
        raise ValueError(
            "scheme='same_class': at every row other classes are denser than its own, so that all weights are 0; "
            "choose a larger gamma or another scheme."
        )
    return [label for label in classes if label not in alive]


def density_weights(
    density: Any, X: MatrixLike, y: NDArray[Any], weight: Array, seed: int, *, classes: bool = True
) -> Array | None:
    """What an estimator's parameter `density` asks for: None, or the weights of the rows, none of its classes lost."""
    if density is None:
        return None
    if isinstance(density, bool):
        raise ValueError(f"density={density} is no choice: give None, or a scheme of DensityWeights.")
    rule = clone(density) if isinstance(density, DensityWeights) else DensityWeights(density)
    validate_parameters(rule)
    if rule.random_state is None:
        rule.random_state = seed
    if rule.scheme in ("same_class", 7) and not classes:
        raise ValueError(f"density={density!r} needs classes, and a regressor has none: choose another scheme.")
    rule._fit(enter(X, rule.device)[0], y if classes else None, weight)
    found = rule.weights_.astype(np.float64)
    lost = np.setdiff1d(y, y[found > 0])
    if lost.size:
        raise ValueError(
            f"density={density!r} gives every row of class {lost.tolist()[0]!r} a weight of 0: "
            "choose another scheme, or a larger gamma in DensityWeights."
        )
    return found
