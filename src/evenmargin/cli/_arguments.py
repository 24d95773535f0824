"""Words of the command line as values: objectives, prices, spans of time."""

from __future__ import annotations

import re
from typing import Any

from ..operating import get_objective

__all__ = ["parse_objective", "parse_prices", "parse_time"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?[hms])+")
_FLOOR = re.compile(r"(recall|precision)\s*(?:>=|≥|=)\s*([\d.]+)\s*(%?)(?:\s*@\s*([\d.]+)\s*(%?))?")


def parse_objective(text: str) -> Any:
    """An objective as `EvenMarginClassifier` takes it.

    Examples
    --------
    >>> from evenmargin.cli._arguments import parse_objective
    >>> parse_objective("cost:fn=100,fp=1")
    {'fn': 100.0, 'fp': 1.0}
    >>> parse_objective("recall>=95%"), parse_objective("recall>=0.95@0.9")
    ({'recall': 0.95}, {'recall': 0.95, 'confidence': 0.9})
    >>> parse_objective("balanced-accuracy")
    'balanced_accuracy'
    """
    words = text.strip().lower()
    objective: Any = words.replace("-", "_").replace(" ", "_")
    if found := _FLOOR.fullmatch(words):
        rate, level, percent, confidence, of_confidence = found.groups()
        objective = {rate: _share(level, percent, text)}
        if confidence is not None:
            objective["confidence"] = _share(confidence, of_confidence, text)
    elif words.startswith("cost"):
        objective = parse_prices(words.removeprefix("cost").lstrip(": "))
    try:
        get_objective(objective)
    except ValueError as error:
        if isinstance(objective, dict):
            raise ValueError(f"--objective {text}: {str(error).split('}: ', 1)[-1]}") from None
        raise ValueError(
            f"--objective {text} is unknown: choose gmean, balanced-accuracy, f1, mcc, cost:fn=100,fp=1, "
            "recall>=0.95, recall>=0.95@0.9 (with 90 % confidence) or precision>=0.9."
        ) from None
    return objective


def parse_prices(text: str) -> dict[str, float]:
    """Prices of mistakes: "fn=100,fp=1".

    Examples
    --------
    >>> from evenmargin.cli._arguments import parse_prices
    >>> parse_prices("fn=100, fp=1")
    {'fn': 100.0, 'fp': 1.0}
    """
    try:
        pairs = [part.split("=") for part in text.replace(" ", "").split(",")]
        prices = {name: float(price) for name, price in pairs}
    except ValueError:
        prices = {}
    if not {"fn", "fp"} <= set(prices) <= {"tp", "fn", "fp", "tn"}:
        raise ValueError(
            f"{text!r} is not a list of costs: write fn=100,fp=1 for the cost of a missed case (fn) and of a false "
            "alarm (fp), and add tp and tn if these cost something, too."
        )
    return prices


def parse_time(text: str) -> Any:
    """Seconds, or "fast" or "thorough".

    Examples
    --------
    >>> from evenmargin.cli._arguments import parse_time
    >>> parse_time("2m"), parse_time("1h30m"), parse_time("45"), parse_time("fast")
    (120.0, 5400.0, 45.0, 'fast')
    """
    words = text.strip().lower().replace(" ", "")
    if words in ("fast", "thorough"):
        return words
    if _SPAN.fullmatch(words):
        seconds = sum(float(part[:-1]) * _UNITS[part[-1]] for part in re.findall(r"[\d.]+[hms]", words))
    else:
        try:
            seconds = float(words)
        except ValueError:
            seconds = 0.0
    if not 0 < seconds < 1e9:
        raise ValueError(f"--time-budget {text} is not a time: write 90s, 2m, 1h30m, fast or thorough.")
    return seconds


def _share(digits: str, percent: str, text: str) -> float:
    try:
        return float(digits) / (100.0 if percent else 1.0)
    except ValueError:
        raise ValueError(f"--objective {text}: {digits!r} is not a number.") from None
