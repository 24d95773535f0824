"""What the networks share: training, and the forward pass of a trained one in NumPy.

torch is imported by `fit` alone. A fitted network is a list of NumPy matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import StandardScaler

from .._input.checks import Interval, check_is_fitted, fit_context, seed_from, validate_rows
from .._util.progress import Report, progress_bars
from .._util.typing import Array, Index, Mask, MatrixLike, VectorLike
from ..density import DensityWeights, density_weights
from ..sampling import hold_out
from .network import TILE, Adam, Loss, LossHistory, Network, WeightedRows, load_torch, mean_one, threads_for


@dataclass(frozen=True)
class Examples:
    """Rows to learn from: their labels, sample weights, costs (by class as well), and the targets of the network."""

    X: Any
    y: NDArray[Any]
    weight: Array
    cost: Array
    target: NDArray[Any]

    def take(self, rows: Index | Mask) -> Examples:
        return Examples(*(column[rows] for column in vars(self).values()))


class DensityWeightedMLP(BaseEstimator):
    """Base of the regressor and the classifier: training and the forward pass."""

    coefs_: list[Array]
    intercepts_: list[Array]
    n_iter_: int
    loss_curve_: list[float]
    best_loss_: float

    _parameter_constraints: dict[str, list[Any]] = {
        "hidden_layer_sizes": ["array-like", Integral],
        "density": [str, Integral, DensityWeights, None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "standardize": ["boolean"],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike = None) -> Self:
        """Train the network.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Numbers for the regressor, two or more classes for the classifier.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike) -> None:
        raise NotImplementedError

    def _scores(self, X: MatrixLike) -> Array:
        """The output of the last layer, of shape (n_samples, n_outputs), by NumPy in float64."""
        check_is_fitted(self)
        X = validate_rows(self, X)
        scores = np.empty((X.shape[0], self.intercepts_[-1].size))
        last = len(self.coefs_) - 1
        for start in range(0, X.shape[0], TILE):
            part = X[start : start + TILE]
            for place, (matrix, intercept) in enumerate(zip(self.coefs_, self.intercepts_, strict=True)):
                part = np.asarray(part @ matrix)
                part += intercept
                if place < last:
                    np.maximum(part, 0.0, out=part)
            scores[start : start + TILE] = part
        return scores

    def _sizes(self, n_features: int, n_outputs: int) -> list[int]:
        given = self.hidden_layer_sizes
        sizes = [given] if isinstance(given, Integral) else list(np.asarray(given, dtype=object).ravel())
        if not all(isinstance(size, Integral) and not isinstance(size, bool) and int(size) > 0 for size in sizes):
            raise ValueError(
                f"hidden_layer_sizes={given!r} must hold whole numbers above 0, one for each hidden layer."
            )
        return [n_features, *map(int, sizes), n_outputs]

    def _split(self, y: NDArray[Any], *, stratify: bool) -> tuple[int, np.random.Generator, tuple[Index, Index]]:
        """The seed, the generator of the training, and which rows to train on and to hold out."""
        seed = seed_from(self.random_state)
        rng = np.random.default_rng(seed)
        return seed, rng, hold_out(y, self.validation_fraction if self.early_stopping else 0.0, rng, stratify=stratify)

    def _train(
        self, examples: Examples, split: tuple[int, np.random.Generator, tuple[Index, Index]], loss: Loss
    ) -> None:
        """Train on the first part of the rows, watching the second, and store the network."""
        seed, rng, (train, aside) = split
        torch, device = load_torch(type(self).__name__, self.device)
        scaler = None
        if self.standardize:
            scaler = StandardScaler(with_mean=not issparse(examples.X))
            scaler.fit(examples.X[train], sample_weight=mean_one(examples.weight[train]))
            examples = replace(examples, X=scaler.transform(examples.X))
        _check_float32("X", examples.X.data if issparse(examples.X) else examples.X)
        _check_float32("The target", examples.target)
        rows, held_out = examples.take(train), examples.take(aside)
        classes = isinstance(self, ClassifierMixin)
        density = density_weights(self.density, rows.X, rows.y, rows.weight, seed, classes=classes)
        if density is not None:
            rows = replace(rows, cost=rows.cost * density).take(density > 0)
        sizes = self._sizes(rows.X.shape[1], rows.target.shape[1])
        with torch.inference_mode(), threads_for(min(self.batch_size, rows.y.size), sizes):
            network = Network(torch, sizes, device, rng)
            learned = WeightedRows.of(network, rows.X, rows.target, rows.cost)
            watched = WeightedRows.of(network, held_out.X, held_out.target, held_out.cost) if aside.size else None
            with progress_bars(bool(self.verbose)) as open_bar:
                history = self._descend(network, learned, watched, loss, rng, open_bar("epochs"))
        self.device_ = str(device)
        self._store(network, history, scaler)

    def _descend(
        self,
        network: Network,
        rows: WeightedRows,
        held_out: WeightedRows | None,
        loss: Loss,
        rng: np.random.Generator,
        report: Report | None,
    ) -> LossHistory:
        """Take epochs until the loss watched no longer falls."""
        adam, history, best = Adam(network, float(self.learning_rate_init), float(self.alpha)), LossHistory(), None
        n = rows.target.shape[0]
        for epoch in range(1, self.max_epochs + 1):
            total = network.torch.zeros((), device=network.device)
            for batch in rows.batches(self.batch_size, rng.permutation(n)):
                total += network.gradient(*batch, loss)
                adam.step()
            history.losses.append(float(total) / n)
            if held_out is not None:
                history.held_out.append(float(held_out.mean_loss(loss)))
            latest = (history.losses if held_out is None else history.held_out)[-1]
            if not np.isfinite([latest, history.losses[-1]]).all():
                raise ValueError(
                    f"The loss is not finite in epoch {epoch}: choose a smaller learning_rate_init than "
                    f"{self.learning_rate_init:g}, or scale the features and the target (standardize=True does)."
                )
            if history.note(latest, self.tol) and held_out is not None:
                best = network.flat.clone()
            if report is not None:
                report(epoch, self.max_epochs, f"loss {latest:.4g}")
            if self.n_iter_no_change is not None and history.stale >= self.n_iter_no_change:
                break
        if best is not None:
            network.flat.copy_(best)
        return history

    def _store(self, network: Network, history: LossHistory, scaler: StandardScaler | None) -> None:
        """Store the network as a function of X as it was given: standardisation goes into the first layer."""
        layers = network.views(network.flat.cpu().numpy().astype(np.float64))
        self.coefs_ = [np.array(matrix) for matrix, _ in layers]
        self.intercepts_ = [np.array(intercept) for _, intercept in layers]
        if scaler is not None:
            self.coefs_[0] /= scaler.scale_[:, None]
            if scaler.with_mean:
                self.intercepts_[0] -= scaler.mean_ @ self.coefs_[0]
        self.n_iter_ = len(history.losses)
        self.loss_curve_, self.best_loss_ = history.losses, history.best
        self.validation_loss_curve_ = history.held_out or None


def _check_float32(name: str, values: Array) -> None:
    if values.size and np.abs(values).max() > np.finfo(np.float32).max:
        raise ValueError(f"{name} has values beyond what float32 holds: scale them, or set standardize=True.")
