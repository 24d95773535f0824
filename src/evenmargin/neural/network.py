"""Networks of ReLU layers in torch: losses, gradients, Adam, and rows in batches.

The gradient is written out, with all parameters in one vector: layers are views into it, so that a step of Adam, a
copy of the best state and a penalty are one operation each. For networks of this size that takes half the time of
autograd, which a test compares it with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from threadpoolctl import ThreadpoolController

from .._util.typing import Array, ArrayModule, Device, Index, MatrixLike, Tensor

Loss: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

TILE = 4096  # rows at a time where no gradient is needed
_FADING = (0.9, 0.999)  # how much Adam keeps of its means of slopes and of their squares
_TINY = 1e-8
_SMALL = 20_000_000  # products of numbers in a batch, up to which one thread is enough


# --- torch, and where it computes ---


def load_torch(user: str, device: str) -> tuple[ArrayModule, Device]:
    """Import torch for the estimator of this name, and find the device of a name; "auto" is a GPU if there is one."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{user} is trained with torch, which cannot be imported ({error}): "
            "install it with pip install 'evenmargin[torch]'."
        ) from error
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"torch cannot use device={device!r} here: choose 'auto' or 'cpu' ({reason}).") from None
    return torch, torch.device(device)


def threads_for(rows: int, sizes: list[int]) -> AbstractContextManager[Any]:
    """Limit a small network to one thread: several would wait for each other, the longer the busier the machine is.

    The limit is OpenMP's, which applies to the calling thread only, so that nobody else's torch is slowed.
    """
    if rows * sum(width * height for width, height in pairwise(sizes)) > _SMALL:
        return nullcontext()
    return ThreadpoolController().limit(limits=1, user_api="openmp")


# --- losses: of scores and targets, the value and the slope of each entry ---


def absolute_error(score: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    residual = score - target
    return residual.abs(), residual.sign()  # slope 0 at the kink


def squared_error(score: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    residual = score - target
    return residual.square(), 2.0 * residual


def log_loss(score: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of two classes, with a target of 0 or 1."""
    value = score.clamp(min=0.0) - target * score + score.abs().neg().exp().log1p()
    return value, score.sigmoid() - target


def cross_entropy(score: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of several classes, with a target of 1 in the column of the row's own class."""
    logarithm = score.log_softmax(1)
    return -target * logarithm, logarithm.exp() - target


# --- the network on the device ---


class Network:
    """A network of ReLU layers in float32, its parameters `flat` and their slopes in a vector each."""

    def __init__(self, torch: ArrayModule, sizes: list[int], device: Device, rng: np.random.Generator) -> None:
        self.torch, self.device = torch, device
        self.shapes = list(pairwise(sizes))
        start = []
        for width, height in self.shapes:
            # He's width for layers followed by a ReLU.
            start.append(rng.uniform(-1.0, 1.0, width * height) * np.sqrt(6.0 / width))
            start.append(np.zeros(height))
        self.flat = self.tensor(np.concatenate(start))
        self.slope, self.penalised = torch.empty_like(self.flat), torch.zeros_like(self.flat)
        self.layers, self.slopes = self.views(self.flat), self.views(self.slope)
        for matrix, _ in self.views(self.penalised):
            matrix.fill_(1.0)

    def tensor(self, array: NDArray[Any]) -> Tensor:
        return self.torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32)).to(self.device)

    def views(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The matrix and the intercepts of each layer."""
        layers, start = [], 0
        for width, height in self.shapes:
            middle, end = start + width * height, start + (width + 1) * height
            layers.append((flat[start:middle].reshape(width, height), flat[middle:end]))
            start = end
        return layers

    def forward(self, rows: Tensor) -> list[Tensor]:
        """The input of each layer, and the output of the last."""
        through = [rows]
        for matrix, intercept in self.layers[:-1]:
            through.append(self.torch.addmm(intercept, through[-1], matrix).relu_())
        matrix, intercept = self.layers[-1]
        return [*through, self.torch.addmm(intercept, through[-1], matrix)]

    def gradient(self, rows: Tensor, target: Tensor, weight: Tensor, loss: Loss) -> Tensor:
        """Set `slope` to the gradient of the weighted mean loss, and return the weighted sum of the losses."""
        *through, score = self.forward(rows)
        value, back = loss(score, target)
        total = (weight * value).sum()
        back = back.mul_(weight).mul_(1.0 / rows.shape[0])
        for place in range(len(self.layers) - 1, -1, -1):
            into = through[place]
            self.torch.mm(into.t(), back, out=self.slopes[place][0])
            self.torch.sum(back, 0, out=self.slopes[place][1])
            if place:
                back = self.torch.mm(back, self.layers[place][0].t()).mul_(into > 0)
        return total


class Adam:
    """Steps along the mean of the slopes so far, each divided by the root of its mean square.

    On one vector that takes some ten lines. `torch.optim.Adam` would take 1.1 times as long for a fit, and import 900
    modules (a second, and 140 MB) for the first one.
    """

    def __init__(self, network: Network, rate: float, alpha: float) -> None:
        self.network, self.rate, self.alpha, self.count = network, rate, alpha, 0
        self.mean, self.square = (network.torch.zeros_like(network.flat) for _ in range(2))

    def step(self) -> None:
        network, slope, self.count = self.network, self.network.slope, self.count + 1
        if self.alpha:
            slope.addcmul_(network.penalised, network.flat, value=self.alpha)
        keep, keep_square = _FADING
        self.mean.lerp_(slope, 1.0 - keep)
        self.square.mul_(keep_square).addcmul_(slope, slope, value=1.0 - keep_square)
        # Both means start at 0 and are too small at first.
        width = self.square.sqrt().mul_((1.0 - keep_square**self.count) ** -0.5).add_(_TINY)
        network.flat.addcdiv_(self.mean, width, value=-self.rate / (1.0 - keep**self.count))


@dataclass
class LossHistory:
    """The loss of each epoch, on training rows and on those held out, the lowest, and the epochs since it fell."""

    losses: list[float] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)
    best: float = np.inf
    stale: int = 0

    def note(self, loss: float, tol: float) -> bool:
        """Count the epochs in a row that did not lower the loss by tol, and return whether it is the lowest so far."""
        self.stale = 0 if loss < self.best - tol else self.stale + 1
        lowest = loss < self.best
        self.best = min(self.best, loss)
        return lowest


@dataclass(frozen=True)
class WeightedRows:
    """Rows on the device, or sparse ones that go there a batch at a time; targets; weights of mean 1."""

    network: Network
    X: Any
    target: Tensor
    weight: Tensor

    @classmethod
    def of(cls, network: Network, X: MatrixLike, target: NDArray[Any], weight: Array) -> WeightedRows:
        rows = X.astype(np.float32) if issparse(X) else network.tensor(X)
        return cls(network, rows, network.tensor(target), network.tensor(mean_one(weight))[:, None])

    def batches(self, size: int, order: Index | None = None) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """The fewest batches of at most `size` rows, equal to within a row: a row in a small one would count more."""
        X, target, weight = self.X, self.target, self.weight
        if order is not None:
            there = self.network.torch.from_numpy(order).to(self.network.device)
            X, target, weight = X[order if issparse(X) else there], target[there], weight[there]
        n = target.shape[0]
        count = -(-n // size)
        for place in range(count):
            part = slice(place * n // count, (place + 1) * n // count)
            rows = self.network.tensor(X[part].toarray()) if issparse(X) else X[part]
            yield rows, target[part], weight[part]

    def mean_loss(self, loss: Loss) -> Tensor:
        total = self.network.torch.zeros((), device=self.network.device)
        for rows, target, weight in self.batches(TILE):
            total += (weight * loss(self.network.forward(rows)[-1], target)[0]).sum()
        return total / self.target.shape[0]


def mean_one(weight: Array) -> Array:
    """The weights divided by their mean; a scaler takes their sum for the number of rows."""
    scaled = weight / weight.max()
    return np.asarray(scaled / scaled.mean())
