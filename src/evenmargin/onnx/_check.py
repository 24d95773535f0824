"""Compare onnxruntime's outputs with the model's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._device.arrays import to_host
from .._util.typing import Array, MatrixLike
from ..auto import EvenMarginClassifier
from ._convert import need, onnx_inputs
from ._graph import Proto
from ._machines import unwrapped

__all__ = ["BOUND", "COMMITTEE_BOUND", "PROBABILITY_BOUND", "Check", "check_onnx"]

BOUND = 1e-4  # of the largest score: `predict` takes float32 where that changes scores by less
# The same for EvenMarginClassifier, whose float32 distances lose digits on rows that it was fitted on.
COMMITTEE_BOUND = 5e-3
PROBABILITY_BOUND = 0.02
_ROWS = 4_096  # to run at a time


@dataclass(frozen=True)
class Check:
    """How far onnxruntime is from the model, on some rows.

    Attributes
    ----------
    rows : int
    wrong_labels : int
        Rows whose label differs.
    near_labels : int
        How many of these are closer to the boundary than scores may differ.
    score_difference : float
        The largest difference of a score.
    largest_score : float
        The largest absolute score of the model.
    probability_difference : float or None
        The largest difference of a probability; None if the model has none.
    bound : float
        How much scores may differ, as a share of the largest.
    """

    rows: int
    wrong_labels: int
    near_labels: int
    score_difference: float
    largest_score: float
    probability_difference: float | None
    bound: float

    @property
    def passed(self) -> bool:
        """Whether scores and probabilities are within bounds, and labels differ only next to the boundary."""
        scores = self.score_difference <= self.bound * self.largest_score
        probabilities = not (self.probability_difference or 0.0) > PROBABILITY_BOUND
        return scores and probabilities and self.wrong_labels == self.near_labels

    def __str__(self) -> str:
        labels = "labels equal"
        if self.wrong_labels:
            near = f", {self.near_labels:,} of them within rounding of the boundary" if self.near_labels else ""
            labels = f"labels of {self.wrong_labels:,} differ{near}"
        share = self.score_difference / self.largest_score if self.largest_score else self.score_difference
        text = f"{self.rows:,} rows: {labels}, scores within {share:.1e} of the largest"
        if self.probability_difference is not None:
            text += f", probabilities within {self.probability_difference:.1e}"
        return text


def check_onnx(exported: Proto | bytes | str | os.PathLike[str], model: BaseEstimator, X: MatrixLike) -> Check:
    """Run a graph with onnxruntime, and compare its outputs with the model's.

    Parameters
    ----------
    exported : onnx.ModelProto, bytes, or path-like
    model : estimator
        The fitted estimator that was exported.
    X : DataFrame or array-like of shape (n_samples, n_features)

    Returns
    -------
    Check
        How far labels, scores and probabilities are apart; `passed` says whether that is within the bounds.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from evenmargin import LinearSVM
    >>> from evenmargin.onnx import check_onnx, to_onnx
    >>> X, y = make_classification(weights=[0.9], random_state=0)
    >>> model = LinearSVM(loss="log").fit(X, y)
    >>> check_onnx(to_onnx(model), model, X).passed
    True
    """
    need("onnxruntime")
    import onnxruntime

    if isinstance(exported, str | os.PathLike):
        exported = Path(exported).read_bytes()
    elif hasattr(exported, "SerializeToString"):
        exported = exported.SerializeToString()
    try:
        session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own exceptions have no common base class
        raise ValueError(f"onnxruntime cannot load this model: {str(error).splitlines()[0]}") from error
    outputs = _run(session, onnx_inputs(model, X))
    scores = to_host(model.decision_function(X), np.float64)
    largest = float(np.abs(scores).max())
    bound = COMMITTEE_BOUND if isinstance(unwrapped(model)[1], EvenMarginClassifier) else BOUND
    wrong = np.asarray(outputs[0]) != to_host(model.predict(X))
    return Check(
        rows=wrong.size,
        wrong_labels=int(np.count_nonzero(wrong)),
        near_labels=int(np.count_nonzero(_to_boundary(scores[wrong]) <= bound * largest)),
        score_difference=_apart(outputs[-1], scores),
        largest_score=largest,
        probability_difference=_apart(outputs[1], model.predict_proba(X)) if len(outputs) == 3 else None,
        bound=bound,
    )


def _to_boundary(scores: Array) -> Array:
    """How far scores are from a change of the label."""
    if scores.ndim == 1:
        return np.abs(scores)
    best = np.sort(scores, axis=1)
    return np.asarray(0.5 * (best[:, -1] - best[:, -2]))


def _run(session: Any, fed: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """Outputs, computed for some rows at a time; numbers are cast to the precision that the graph takes."""
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64}
    for own in session.get_inputs():
        if own.name not in fed:
            raise ValueError(f"The graph has an input {own.name!r} that the model lacks: it belongs to another model.")
        if own.type in kinds:
            fed[own.name] = fed[own.name].astype(kinds[own.type], copy=False)
    rows = next(iter(fed.values())).shape[0]
    parts = [
        session.run(None, {name: values[start : start + _ROWS] for name, values in fed.items()})
        for start in range(0, rows, _ROWS)
    ]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _apart(ours: MatrixLike, theirs: MatrixLike) -> float:
    return float(np.abs(to_host(ours, np.float64) - to_host(theirs, np.float64)).max())
