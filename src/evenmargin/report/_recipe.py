"""How the report was made: versions, parameters, and Python that builds the model again."""

from __future__ import annotations

import ast
import platform
from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.base import BaseEstimator

from .. import __version__
from ..auto import EvenMarginClassifier
from ..operating import get_objective
from ._evidence import Evidence
from ._words import cut

__all__ = ["making", "snippet"]


def making(evidence: Evidence, provenance: Mapping[str, Any] | None, random_state: object) -> dict[str, Any]:
    """Tables of (title, text) by heading, and the snippet."""
    if not (provenance is None or isinstance(provenance, Mapping)):
        raise ValueError("provenance must be a dict of texts by their titles, such as {'file': 'rows.csv'}.")
    model = evidence.model
    facts = [
        ("date", datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")),
        ("evenmargin", __version__),
        ("scikit-learn", sklearn.__version__),
        ("NumPy", np.__version__),
        ("SciPy", scipy.__version__),
        ("Python", f"{platform.python_version()} on {platform.system()}"),
        ("random_state of the report", repr(random_state)),
    ]
    given = [(str(title), cut(text, 500)) for title, text in (provenance or {}).items()]
    parameters = [(name, cut(repr(part), 200)) for name, part in model.get_params(deep=False).items()]
    summary = [(title.strip(), str(text)) for title, text in getattr(getattr(model, "summary_", None), "lines", [])]
    return {
        "facts": given + facts, "model": type(model).__name__, "parameters": parameters, "summary": summary,
        "snippet": snippet(
            model, weighted=evidence.weighted and evidence.training, command=(provenance or {}).get("command")
        ),
    }  # fmt: skip


def snippet(model: BaseEstimator, *, weighted: bool = False, command: object = None) -> str:
    """Python that builds the model again from its rows X and labels y, and the command that built it, if one did.

    Examples
    --------
    >>> from evenmargin import EvenMarginClassifier
    >>> from evenmargin.report._recipe import snippet
    >>> print(snippet(EvenMarginClassifier({"fn": 50, "fp": 1})))
    from evenmargin import EvenMarginClassifier
    <BLANKLINE>
    # X, y: the training rows and their labels
    model = EvenMarginClassifier(objective={'fn': 50, 'fp': 1})
    model.fit(X, y)
    """
    written, lost = _written(model)
    rows = "X, y: the training rows and their labels"
    if weighted:
        rows = "X, y, sample_weight: the training rows, their labels and weights"
    made = [] if command is None else [f"# made by: {_one_line(command)}"]
    lines = [*made, *_imports(model), "", f"# {rows}"]
    lines += [f"# {name} was {text}: it cannot be written here, so fill it in yourself" for name, text in lost]
    weights = ", sample_weight=sample_weight" if weighted else ""
    lines += [f"model = {written}", f"model.fit(X, y{weights})"]
    if isinstance(model, EvenMarginClassifier) and _moved(model):
        lines.append(f"model.set_operating_point(threshold={float(model.threshold_)!r})")
    return "\n".join(lines)


def _one_line(command: object) -> str:
    """Words that cannot leave their comment."""
    words = " ".join(str(command).split())
    return "".join(sign if sign.isprintable() else "?" for sign in words)


def _moved(model: EvenMarginClassifier) -> bool:
    """Whether the boundary was moved after the fit."""
    return getattr(model, "objective_", None) not in (None, str(get_objective(model.objective)))


def _written(model: BaseEstimator) -> tuple[str, list[tuple[str, str]]]:
    """The model as Python writes it, without the parameters that have no such form."""
    text = _plain_repr(model)
    if _is_python(text):
        return text, []
    parameters = model.get_params(deep=False)
    defaults = type(model)().get_params(deep=False) if _has_defaults(model) else {}
    kept, lost = [], []
    for name, part in parameters.items():
        if name in defaults and defaults[name] is part:
            continue
        own = _plain_repr(part) if isinstance(part, BaseEstimator) else repr(part)
        if _is_python(own):
            kept.append(f"{name}={own}")
        else:
            lost.append((name, cut(own, 100)))
    return f"{type(model).__name__}({', '.join(kept)})", lost


def _has_defaults(model: BaseEstimator) -> bool:
    try:
        type(model)()
    except TypeError:
        return False
    return True


def _plain_repr(model: BaseEstimator) -> str:
    """Whole, not cut as it is for the eye."""
    with sklearn.config_context(print_changed_only=True):
        return " ".join(model.__repr__(N_CHAR_MAX=10**9).split())


def _is_python(text: str) -> bool:
    """Whether the text is an expression of calls of estimators, names and constants."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return "array(" not in text and not any(isinstance(node, ast.Lambda) for node in ast.walk(tree))


def _imports(model: BaseEstimator) -> list[str]:
    """A line for each module that an estimator in it is from, by its public name."""
    found: dict[str, set[str]] = {}
    parts = [model, *model.get_params(deep=True).values()]
    for part in parts:
        inner = part if isinstance(part, list | tuple) else [part]
        flat = [deep for one in inner for deep in (one if isinstance(one, list | tuple) else [one])]
        for estimator in flat:
            if isinstance(estimator, BaseEstimator):
                found.setdefault(_home(type(estimator)), set()).add(type(estimator).__name__)
    return [f"from {home} import {', '.join(sorted(names))}" for home, names in sorted(found.items())]


def _home(kind: type) -> str:
    """The shortest public module that has this class."""
    steps = kind.__module__.split(".")
    for length in range(1, len(steps) + 1):
        name = ".".join(steps[:length])
        if any(step.startswith("_") and step != "__main__" for step in steps[:length]):
            break
        if getattr(import_module(name), kind.__name__, None) is kind:
            return name
    return kind.__module__
