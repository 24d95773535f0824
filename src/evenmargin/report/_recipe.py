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
    """The last section: tables of (title, text), and the snippet."""
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
    code = snippet(model, evidence.weighted and evidence.training, (provenance or {}).get("command"))
    return {"facts": given + facts, "parameters": parameters, "summary": summary, "snippet": code}


def snippet(model: BaseEstimator, weighted: bool = False, command: object = None) -> str:
    """Python that builds the model again from its rows X and labels y, and the command that built it, if one did.

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
    lines = [] if command is None else [f"# made by: {_one_line(command)}"]
    lines += [*_imports(model), "", f"# {rows}"]
    lines += [f"# {name} was {text}, which cannot be written in Python: fill it in yourself" for name, text in lost]
    weights = ", sample_weight=sample_weight" if weighted else ""
    lines += [f"model = {written}", f"model.fit(X, y{weights})"]
    if isinstance(model, EvenMarginClassifier) and _moved(model):
        lines.append(f"model.set_operating_point(threshold={float(model.threshold_)!r})")
    return "\n".join(lines)


def _one_line(command: object) -> str:
    """Text that cannot end the comment that it is in."""
    words = " ".join(str(command).split())
    return "".join(sign if sign.isprintable() else "?" for sign in words)


def _moved(model: EvenMarginClassifier) -> bool:
    """Whether the boundary was moved after the fit."""
    return getattr(model, "objective_", None) not in (None, str(get_objective(model.objective)))


def _written(model: BaseEstimator) -> tuple[str, list[tuple[str, str]]]:
    """The model in Python, and the parameters (name, value) that cannot be written in it."""
    text = _plain_repr(model)
    if _is_python(text):
        return text, []
    try:
        defaults = type(model)().get_params(deep=False)
    except TypeError:  # it has parameters without a default
        defaults = {}
    kept, lost = [], []
    for name, part in model.get_params(deep=False).items():
        if name in defaults and defaults[name] is part:
            continue
        own = _plain_repr(part) if isinstance(part, BaseEstimator) else repr(part)
        if _is_python(own):
            kept.append(f"{name}={own}")
        else:
            lost.append((name, cut(own, 100)))
    return f"{type(model).__name__}({', '.join(kept)})", lost


def _plain_repr(model: BaseEstimator) -> str:
    """The whole text, which scikit-learn cuts for display."""
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
    """A line for each public module from which the model or an estimator in it is imported."""
    found: dict[str, set[str]] = {}
    for part in (model, *model.get_params(deep=True).values()):  # steps of a pipeline have names of their own there
        if isinstance(part, BaseEstimator):
            found.setdefault(_home(type(part)), set()).add(type(part).__name__)
    return [f"from {home} import {', '.join(sorted(names))}" for home, names in sorted(found.items())]


def _home(kind: type) -> str:
    """The shortest public name of a module that has this class."""
    steps = kind.__module__.split(".")
    for length in range(1, len(steps) + 1):
        name = ".".join(steps[:length])
        if any(step.startswith("_") and step != "__main__" for step in steps[:length]):
            break
        if getattr(import_module(name), kind.__name__, None) is kind:
            return name
    return kind.__module__
