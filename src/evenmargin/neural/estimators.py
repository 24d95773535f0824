"""Multilayer perceptrons whose loss is weighted by the density around each row.

Filippo Portera, "A Generalized Weighted Loss for SVC and MLP", section IV. With a weight w_i for each of n
rows, w̄ their mean, a network f with the matrices W_l is trained on

    1/n Σ_i w_i/w̄ · loss(f(x_i), y_i) + alpha/2 Σ_l ‖W_l‖²

by Adam, a batch of rows at a time; a batch takes its own mean in place of 1/n Σ. w̄ is that of all training
rows. Unnormalised weights would act as a learning rate (the paper's s² reaches n²), and dividing by the
weights of each batch would make the weight of a row depend on its neighbours in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_consistent_length, column_or_1d

from .._input import checks
from .._input.checks import StrOptions
from .._util.typing import Array, Index, MatrixLike, RandomState, VectorLike
from ..density import DensityWeights
from ..weights import row_costs
from .base import DensityWeightedMLP, Examples
from .network import absolute_error, cross_entropy, log_loss, mean_one, squared_error

__all__ = ["DensityWeightedMLPClassifier", "DensityWeightedMLPRegressor"]

_LARGEST_TARGET = 1e100  # squares of larger ones would overflow


class DensityWeightedMLPRegressor(RegressorMixin, DensityWeightedMLP):
    """A multilayer perceptron for regression, with a loss weighted by the density around each row.

    Minimises the mean of w_i · loss(f(x_i), y_i) + alpha/2 ‖matrices‖² with layers of ReLU, w_i the density
    weight times the sample weight, divided by their mean. Rows of weight 0 are left out first.

    `fit` needs torch (``pip install "evenmargin[torch]"``); predicting does not.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(100, 50, 20)
        The paper's first network; its second is (100, 80, 40). () is a linear model.
    loss : {"absolute_error", "squared_error"}, default="absolute_error"
        |f − y|, as in the paper, or (f − y)².
    density : None, str, int or DensityWeights, default=None
        A factor of the weights from the density around each training row: a scheme of `DensityWeights` by
        name or number ("same_class" is for classifiers), or such an object. Densities are those of the rows
        as the network gets them, standardised unless `standardize` is False; give others as `sample_weight`.
    alpha : float, default=1e-4
        Price of the squared entries of the matrices, not of the intercepts. It is
        not divided by the number of rows, as it is in scikit-learn's MLP.
    learning_rate_init : float, default=1e-3
        The learning rate of Adam.
    batch_size : int, default=200
        The most rows in a batch; batches are of equal size to within a row.
    max_epochs : int, default=200
        The most passes over the rows.
    early_stopping : bool, default=False
        Hold out `validation_fraction` of the rows, watch their loss, and keep the network of the epoch in
        which it was lowest. They are weighted by sample weights (and class weights) only: the density
        serves training and is not the cost of an error. False: the loss of the training rows is watched,
        and the last network kept.
    validation_fraction : float, default=0.1
    n_iter_no_change : int or None, default=10
        Stop after this many epochs in which the watched loss did not fall by `tol`; None: never.
    tol : float, default=1e-4
        In units of the loss that the network sees, with a standardised target.
    standardize : bool, default=True
        Centre and scale the columns and the target by the weighted mean and deviation of the training rows;
        columns of a sparse X are scaled only. The paper does not say whether it did.
    device : str, default="auto"
        Where to train: "auto" is "cuda" where torch finds one, otherwise "cpu".
    random_state : int, RandomState or None, default=None
        For the start, the order of the rows, those held out, and a density that needs it. The same seed
        gives the same network on the same CPU; one with more than 2·10⁷ multiplications per batch also needs
        the same number of torch's threads. torch's own random state is not touched.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    coefs_ : list of ndarray of shape (units of layer l, units of layer l + 1)
    intercepts_ : list of ndarray
        The network as a function of X and in the unit of y as given, whether it was standardised or not.
    n_iter_ : int
        Epochs.
    loss_curve_ : list of float
        The weighted mean loss of each epoch, recorded batch by batch during training.
    validation_loss_curve_ : list of float or None
        With early_stopping: the loss of the rows held out, after each epoch.
    best_loss_ : float
        The lowest loss that was watched.
    device_ : str
        Where it was trained.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    References
    ----------
    Filippo Portera, "A Generalized Weighted Loss for SVC and MLP".

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.metrics import mean_absolute_error
    >>> from evenmargin.neural import DensityWeightedMLPRegressor
    >>> X, y = make_friedman1(600, random_state=0)
    >>> mlp = DensityWeightedMLPRegressor((50, 20), density="sqrt", max_epochs=60, random_state=0)
    >>> predicted = mlp.fit(X[::2], y[::2]).predict(X[1::2])
    >>> mean_absolute_error(y[1::2], predicted) < 2
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **DensityWeightedMLP._parameter_constraints,
        "loss": [StrOptions({"absolute_error", "squared_error"})],
    }

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (100, 50, 20),
        *,
        loss: str = "absolute_error",
        density: str | int | DensityWeights | None = None,
        alpha: float = 1e-4,
        learning_rate_init: float = 1e-3,
        batch_size: int = 200,
        max_epochs: int = 200,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = 10,
        tol: float = 1e-4,
        standardize: bool = True,
        device: str = "auto",
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        checks.store_parameters(self, locals())

    def _fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike) -> None:
        checks.require_labels(self, y)
        X, _, weight, _ = checks.validate_training(self, X, np.zeros(checks.num_samples(X), np.int8), sample_weight)
        y = _numbers(y, X)
        kept = weight > 0
        if not kept.any():
            raise ValueError("All sample weights are zero: no row is left to learn from.")
        if not kept.all():
            X, y, weight = X[kept], y[kept], weight[kept]
        split = self._split(y, stratify=False)
        loss, power = (absolute_error, 1) if self.loss == "absolute_error" else (squared_error, 2)
        centre, unit = 0.0, 1.0
        if self.standardize:
            train = split[-1][0]
            scaler = StandardScaler().fit(y[train, None], sample_weight=mean_one(weight[train]))
            centre, unit = float(scaler.mean_[0]), float(scaler.scale_[0])
        self._train(Examples(X, y, weight, weight, (y[:, None] - centre) / unit), split, loss)
        self._return_to_unit(centre, unit, unit**power)

    def predict(self, X: MatrixLike) -> Array:
        """The predicted number for each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._scores(X).ravel()

    def _return_to_unit(self, centre: float, unit: float, loss_unit: float) -> None:
        """Turn the last layer and the losses from a standardised target back to the unit of y."""
        self.coefs_[-1] *= unit
        self.intercepts_[-1] *= unit
        self.intercepts_[-1] += centre
        self.best_loss_ *= loss_unit
        for curve in (self.loss_curve_, self.validation_loss_curve_ or []):
            curve[:] = [loss_unit * loss for loss in curve]


class DensityWeightedMLPClassifier(ClassifierMixin, DensityWeightedMLP):
    """A multilayer perceptron for classification, with a loss weighted by the density around each row.

    Minimises the weighted mean of the log loss, with a logistic output for two classes and a softmax for
    more. The weight of a row is its class weight times its density weight times its sample weight, divided by
    their mean: only the ratios of weights matter. Rows of weight 0 are left out first.

    `fit` needs torch (``pip install "evenmargin[torch]"``); predicting does not.

    Parameters
    ----------
    class_weight : None, "balanced" or dict, default=None
        "balanced": total/(n_classes · total of the class), where totals count sample weights. dict: by label, 1
        where a label is missing. Class weights ignore densities. Probabilities are those under the weights.
    early_stopping : bool, default=False
        Rows are held out class by class, at least one of each.
    standardize : bool, default=True
        The columns only: there is no target to scale.
    hidden_layer_sizes, density, alpha, learning_rate_init, batch_size, max_epochs, validation_fraction, \
            n_iter_no_change, tol, device, random_state, verbose
        As in `DensityWeightedMLPRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coefs_ : list of ndarray of shape (units of layer l, units of layer l + 1)
    intercepts_ : list of ndarray
        The network as a function of X as it was given: standardisation is part of
        the first layer. The last has one unit for two classes.
    n_iter_, loss_curve_, validation_loss_curve_, best_loss_, device_, n_features_in_, feature_names_in_
        As in `DensityWeightedMLPRegressor`.

    References
    ----------
    Filippo Portera, "A Generalized Weighted Loss for SVC and MLP", which proposes
    it for regression; classes are ours.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from evenmargin.neural import DensityWeightedMLPClassifier
    >>> X, y = make_moons((180, 20), noise=0.2, random_state=0)
    >>> mlp = DensityWeightedMLPClassifier((50,), class_weight="balanced", learning_rate_init=0.01, random_state=0)
    >>> mlp.fit(X, y).score(X, y) > 0.9
    True
    """

    classes_: NDArray[Any]

    _parameter_constraints: dict[str, list[Any]] = {
        **DensityWeightedMLP._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (100, 50, 20),
        *,
        class_weight: str | dict[Any, float] | None = None,
        density: str | int | DensityWeights | None = None,
        alpha: float = 1e-4,
        learning_rate_init: float = 1e-3,
        batch_size: int = 200,
        max_epochs: int = 200,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = 10,
        tol: float = 1e-4,
        standardize: bool = True,
        device: str = "auto",
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        checks.store_parameters(self, locals())

    def _fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike) -> None:
        X, y, weight, classes = checks.validate_training(self, X, y, sample_weight)
        X, y, weight, classes = checks.drop_weightless(X, y, weight, classes)
        codes: NDArray[Any] = np.asarray(np.searchsorted(classes, y))
        split = self._split(y, stratify=True)
        if classes.size == 2:
            target, loss = codes[:, None], log_loss
        else:
            target, loss = np.eye(classes.size, dtype=np.float32)[codes], cross_entropy
        cost = self._costs(y, codes, weight, classes)
        self._train(Examples(X, y, weight, cost, target), split, loss)
        self.classes_ = classes

    def decision_function(self, X: MatrixLike) -> Array:
        """Scores before the logistic (above 0 for `classes_[1]`) or the softmax.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        scores = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """The class of each row; a score of exactly 0 is `classes_[0]`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def predict_proba(self, X: MatrixLike) -> Array:
        """Probabilities of the classes, under the weights that the network was trained with.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        return np.column_stack([expit(-scores), expit(scores)]) if scores.ndim == 1 else softmax(scores, axis=1)

    def predict_log_proba(self, X: MatrixLike) -> Array:
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return log_softmax(scores, axis=1)

    def _costs(self, y: NDArray[Any], codes: Index, weight: Array, classes: NDArray[Any]) -> Array:
        if self.class_weight == "balanced":
            totals = np.bincount(codes, weight)
            return np.asarray(weight * (totals.sum() / (classes.size * totals))[codes])
        return row_costs(self.class_weight, y, codes > 0, weight, classes=classes)


def _numbers(y: VectorLike, X: MatrixLike) -> Array:
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    try:
        y = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The target y must hold numbers ({error}).") from None
    assert_all_finite(y, input_name="y")
    if np.abs(y).max() > _LARGEST_TARGET:
        raise ValueError(f"The target y has values up to {np.abs(y).max():.1e}, too large to square: scale it first.")
    return np.asarray(y)
