"""Sample weights from the density around each row: the generalized weighted loss (GWL).

Filippo Portera, "A Generalized Weighted Loss for SVC and MLP". The density at row
i, and that of its own class less that of the others, are

    s_i  = Σ_j exp(−γ‖x_i − x_j‖²),
    sy_i = Σ_j ±exp(−γ‖x_i − x_j‖²),   + for rows of the same class, − for others,

j = i included. A weight is a power of s_i, or sy_i cut at 0; it multiplies C.
With sample weights, row j counts sample_weight_j times. The rules from densities to
weights are in `schemes.py`, the sums in `exact.py` and `fourier.py`.
"""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .._device import arrays, products
from .._input import checks
from .._input.checks import Interval, StrOptions
from .._input.collections import is_dask
from .._input.entry import Portable, enter, stored_like_input
from .._util.typing import Array, Index, MatrixLike, VectorLike
from ..kernels import RBF, Points, centre_of, reach
from .exact import exact_on_device, exact_on_host
from .fourier import draw_waves, fourier_on_device, fourier_on_host, precision_for
from .schemes import SCHEMES, classes_without_weight, densities, normalized, scheme_name, scheme_weights

__all__ = ["DensityWeights", "density_weights", "fit_in_memory"]


class DensityWeights(Portable):
    """Sample weights from the density around each row (generalized weighted loss, GWL).

    s_i = Σ_j exp(−γ‖x_i − x_j‖²) is large where many rows are close together. The weights are a function of
    it, for any estimator whose `fit` takes `sample_weight`. They multiply C there: without `normalize`, s
    reaches n and s² reaches n², so C must be chosen separately for each scheme.

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
        7. "same_class": the density of the row's own class minus that of the
           others, cut at 0. A row of weight 0 is ignored in training.
        8. "random": 1 + U[0, 1), which does not depend on the data: a control.

        1 to 3 emphasise rows in dense regions, 4 to 6 isolated rows.
    gamma : float, "scale" or "auto", default="scale"
        γ, as in `SVC`: "scale" is 1/(d · variance of all entries), counting sample weights, "auto" 1/d.
    normalize : {"mean"} or None, default=None
        "mean": divide the weights by their mean, counting sample weights. None: as in the paper.
    method : {"exact", "fourier"}, default="exact"
        "exact": all n²/2 kernel values, computed in tiles that are not kept. "fourier": random Fourier
        features, in a time of n · n_components. The standard error of s_i/n is at most √(1/(2 ·
        n_components)), and about √(s̄/(2 · n_components · n)), s̄ the mean of s, where few rows are near;
        `density_error_` estimates it for s_i. As j = i counts, s_i is at least
        1 (the row's sample weight, if there is one), and lower estimates are raised to
        that. So this works well in dense regions and says little about isolated rows.
    n_components : int, default=1000
        Frequencies of method="fourier"; n_components · n_features numbers are held.
    random_state : int, RandomState or None, default=None
        For scheme="random" and method="fourier".
    device : None, "cpu", "cuda" or "cuda:0", default=None
        Where to compute. None: where X is, which is a GPU for a CUDA tensor. If X is a
        tensor, the weights are a tensor on its device. As the `density` of a machine
        that runs on a GPU, weights are computed there, whatever is given here.

    Attributes
    ----------
    weights_ : ndarray of shape (n_samples,)
        The weights, without `sample_weight`: multiply by it if there is one. After a fit to a dask array,
        this and the next two are lazy arrays with its chunks, after a fit to a dask frame, series with its
        index. An estimator that holds these cannot be saved: save the computed values.
    density_ : ndarray of shape (n_samples,)
        s_i, or for "same_class" sy_i before the cut; absent for "random".
    density_error_ : ndarray of shape (n_samples,)
        For method="fourier": the standard error of `density_`, estimated from the
        spread over frequencies; NaN with a single frequency.
    gamma_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    Densities of float32 rows are computed in float32, which is several times as fast
    and accurate to about six digits, unless γ‖x‖² is so large that digits would be lost.
    The result is the same for any number of threads.

    On a GPU densities are computed in float32 for rows of either type. The relative error of s_i is at most
    1e-5, tested against float64 on standardised columns with gamma="scale". It grows with γ‖x‖², measured
    from the mean row, to 4e-4 at 800; beyond that, everything is in float64. The memory needed there is X, a
    copy of X in float32, and tiles of 64 MB. The fused kernel for CUDA takes a second such copy in place of
    tiles, and some 30 bytes for each row.

    References
    ----------
    Filippo Portera, "A Generalized Weighted Loss for SVC and MLP".

    Ali Rahimi and Benjamin Recht, "Random Features for Large-Scale Kernel Machines", for method="fourier".

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
        random_state: int | np.random.RandomState | None = None,
        device: str | None = None,
    ) -> None:
        checks.store_parameters(self, locals())

    @checks.fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: VectorLike = None, sample_weight: VectorLike = None) -> DensityWeights:
        """Compute the weights of the rows of X.

        Parameters
        ----------
        X : array-like, CSR matrix, tensor, dask array or dask frame of shape (n_samples, n_features)
            Dask collections need method="fourier". Their weights are those of a fit in memory with the same
            `random_state`, up to rounding, except for scheme="random", which draws different ones.
        y : array-like of shape (n_samples,), default=None
            Classes, two or more, for scheme="same_class"; ignored otherwise.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 counts the row twice. A row of weight 0 does not count for the
            others; its own weight is what it would be if it occurred once.

        Returns
        -------
        self
        """
        if is_dask(X):
            gone = self._fit_collection(X, y, sample_weight)
        else:
            X, home = enter(X, self.device)
            with stored_like_input(self, home):
                gone = self._fit(X, y, sample_weight)
        if gone:
            warnings.warn(
                f"scheme='same_class': at every row of class {', '.join(map(repr, gone))} other classes are denser "
                "than its own, so all its weights are 0; choose a larger gamma or another scheme.",
                UserWarning,
                stacklevel=3,
            )
        return self

    def _fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike) -> list[Any]:
        """Sets the weights, as NumPy, and returns the classes left without any; X is on the host or `arrays.Rows`."""
        scheme = scheme_name(self.scheme)
        signed = scheme == "same_class"
        if signed and y is None:
            raise ValueError("scheme='same_class' needs the classes of the rows: call fit(X, y).")
        labels = y if signed else np.zeros(checks.num_samples(X), np.int8)  # one class: all signs are +
        X, labels, weight, classes = checks.validate_training(self, X, labels, sample_weight)
        if not weight.any():
            raise ValueError("All sample weights are zero: no row is left to compute a density for.")
        for name in ("density_", "density_error_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        kernel: Any = RBF(self.gamma).settled(X, weight)
        self.gamma_ = kernel.gamma
        if scheme == "random":
            found = 1.0 + np.random.default_rng(checks.seed_from(self.random_state)).random(X.shape[0])
        else:
            self.density_ = self._density(kernel, X, np.searchsorted(classes, labels), weight)
            found = scheme_weights(self.density_, scheme, weight)
        self.weights_ = normalized(found, self.normalize, weight)
        if not signed:
            return []
        alive = np.unique(labels[(found > 0) & (weight > 0)]).tolist()
        return classes_without_weight(alive, np.unique(labels[weight > 0]).tolist())

    def _fit_collection(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike) -> list[Any]:
        """The same of a dask collection."""
        from ..distributed import fit_density

        found = fit_density(self, X, y, sample_weight)
        for name in ("density_", "density_error_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.gamma_, self.weights_ = found.gamma, found.weights
        if found.density is not None:
            self.density_, self.density_error_ = found.density, found.error
        checks.remember_columns(self, *found.columns)
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

    def _density(self, kernel: RBF, X: MatrixLike, codes: Index, weight: Array) -> Array:
        """s, or sy where there are several classes."""
        on_device = isinstance(X, arrays.Rows)
        centre = centre_of(kernel, X)
        dtype = precision_for(kernel, reach(kernel, X, centre), np.dtype(np.float32 if on_device else X.dtype))
        largest = weight.max()
        share = weight / largest
        if self.method == "fourier":
            waves = draw_waves(kernel, X.shape[1], int(self.n_components), checks.seed_from(self.random_state), dtype)
            approximate = fourier_on_device if on_device else fourier_on_host
            sums, errors = approximate(X, centre, waves, codes, share)
            self.density_error_ = largest * errors
        elif on_device:
            sums = exact_on_device(products.DevicePoints(kernel, X, dtype, centre), codes, share)
        else:
            sums = exact_on_host(Points(kernel, X, dtype, centre), codes, share)
        return densities(sums, weight, largest, one_class=not codes.any())


def fit_in_memory(rule: DensityWeights, X: MatrixLike, y: VectorLike, weight: Array) -> DensityWeights:
    """Fit to rows in memory or on a device, without a warning about classes that lose their weight; all in NumPy."""
    rule._fit(enter(X, rule.device)[0], y, weight)
    return rule


def density_weights(
    density: DensityWeights | str | int | None,
    X: MatrixLike,
    y: NDArray[Any],
    weight: Array,
    seed: int,
    *,
    classes: bool = True,
) -> Array | None:
    """The weights for an estimator's parameter `density`: None without one; no class may lose all its weight."""
    if density is None:
        return None
    if isinstance(density, bool):
        raise ValueError(f"density={density} is not an option: give None, or a scheme of DensityWeights.")
    rule = clone(density) if isinstance(density, DensityWeights) else DensityWeights(density)
    checks.validate_parameters(rule)
    if rule.random_state is None:
        rule.random_state = seed
    if rule.scheme in ("same_class", 7) and not classes:
        raise ValueError(f"density={density!r} needs classes, which a regressor does not have: choose another scheme.")
    found = fit_in_memory(rule, X, y if classes else None, weight).weights_.astype(np.float64)
    lost = np.setdiff1d(y, y[found > 0])
    if lost.size:
        raise ValueError(
            f"density={density!r} gives every row of class {lost.tolist()[0]!r} a weight of 0: "
            "choose another scheme, or a larger gamma in DensityWeights."
        )
    return found
