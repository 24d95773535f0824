"""A report on a model for people to read: one HTML file that opens from disk and loads nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._input.checks import seed_from
from .._util.files import replace_file
from .._util.typing import MatrixLike, VectorLike

__all__ = ["render_report", "write_report"]


def render_report(
    model: BaseEstimator,
    X: MatrixLike,
    y: VectorLike,
    *,
    sample_weight: VectorLike = None,
    training: bool = False,
    pos_label: object = None,
    title: str | None = None,
    target: str | None = None,
    prices: Any = None,
    notes: Iterable[str] = (),
    rows: Sequence[Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
    random_state: int | np.random.RandomState | None = 0,
) -> str:
    """The report on a fitted model as one HTML page.

    It says what the model finds, how good it is on rows that it has not seen and what
    that costs, and lets readers move the threshold and enter their own prices.
    What a model does not have (probabilities, an adjustment, a search) is left out.

    Parameters
    ----------
    model : fitted classifier of two classes
        `EvenMarginClassifier`, or any with `decision_function` or `predict_proba`.
    X : DataFrame, array or sparse matrix of shape (n_samples, n_features)
        Rows that the model has not seen, or, with `training`, those it was fitted on.
    y : array-like of shape (n_samples,)
        Their labels.
    sample_weight : array-like of shape (n_samples,), default=None
        With weights, counts are sums of weights.
    training : bool, default=False
        Whether X and y are the rows that an `EvenMarginClassifier` was fitted on, in that
        order. The report then shows the score of each row by machines that have not seen it.
    pos_label : label, default=None
        The class to find; if None, the model's own, or the rarer one.
    title : str, default=None
    target : str, default=None
        What the labels describe, such as the name of their column.
    prices : dict, default=None
        What a missed case and a false alarm cost, ``{"fn": 100, "fp": 1}``. If None, the
        prices of the model's objective or, if it has none, prices at which both classes
        count the same.
    notes : iterable of str, default=()
        Sentences on the data, such as which columns were left out and why.
    rows : sequence, default=None
        Names of the rows; if None, their numbers from 1.
    provenance : mapping of str, default=None
        More facts on how the model was made, such as the file and the command.
    random_state : int, RandomState or None, default=0
        For samples of rows.

    Returns
    -------
    str
        The page as HTML, with style, script and pictures in it.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from evenmargin.report import render_report
    >>> X, y = make_classification(n_samples=400, weights=[0.9], random_state=0)
    >>> model = LogisticRegression().fit(X[:200], y[:200])
    >>> page = render_report(model, X[200:], y[200:], prices={"fn": 20, "fp": 1})
    >>> page.startswith("<!doctype html>")
    True
    """
    from ._evidence import gather
    from ._page import page
    from ._recipe import making
    from ._sections import sections, slider
    from ._words import quoted

    seed = seed_from(random_state)
    evidence = gather(
        model, X, y, sample_weight=sample_weight, training=training, pos_label=pos_label, prices=prices, rows=rows,
        target=target,
    )  # fmt: skip
    points = slider(evidence)
    context = {
        "title": title or f"Finding {quoted(evidence.labels[0])}",
        "what": "score" if points["probability"] is None else "probability",
        "shown": {name: texts[evidence.place] for name, texts in points["shown"].items()},
        "making": making(evidence, provenance, random_state),
        **sections(evidence, [notes] if isinstance(notes, str) else notes, seed),
    }
    return page(context, points)


def write_report(
    path: str | os.PathLike[str], model: BaseEstimator, X: MatrixLike, y: VectorLike, **options: Any
) -> Path:
    """Write the report on a fitted model to a file; an interrupted write leaves no partial file.

    Parameters
    ----------
    path : str or path
        The file to write, with a name that ends in .html.
    model, X, y, **options
        As in `render_report`.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import make_classification
    >>> from evenmargin import LinearSVM
    >>> from evenmargin.report import write_report
    >>> X, y = make_classification(n_samples=200, weights=[0.9], random_state=0)
    >>> model = LinearSVM(class_weight="balanced").fit(X[:100], y[:100])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(Path(folder) / "report.html", model, X[100:], y[100:]).name
    'report.html'
    """
    page = render_report(model, X, y, **options)
    return replace_file(path, page.encode(errors="replace"))  # text that was decoded badly may hold lone surrogates
