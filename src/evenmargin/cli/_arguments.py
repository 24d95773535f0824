"""Objectives, prices and times as they are written on the command line."""

from __future__ import annotations

import re

from ..metrics import METRICS
from ..operating import get_objective

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?[hms])+")
_FLOOR = re.compile(r"(recall|precision)\s*(?:>=|≥|=)\s*(\d+\.?\d*|\.\d+)\s*(%?)(?:\s*@\s*(\d+\.?\d*|\.\d+)\s*(%?))?")


def parse_objective(text: str) -> str | dict[str, float]:
    """Read an objective as `EvenMarginClassifier` takes it: "gmean", "cost:fn=100,fp=1", "recall>=95%@0.9"."""
    words = text.strip().lower()
    if words.startswith("cost"):
        return parse_prices(words.removeprefix("cost").lstrip(": "), f"--objective {text}")
    if found := _FLOOR.fullmatch(words):
        rate, level, percent, confidence, of_confidence = found.groups()
        floor = {rate: float(level) / (100.0 if percent else 1.0)}
        if confidence is not None:
            floor["confidence"] = float(confidence) / (100.0 if of_confidence else 1.0)
        return _checked(floor, f"--objective {text}")
    objective = words.replace("-", "_").replace(" ", "_")
    try:
        get_objective(objective)
    except ValueError:
        raise ValueError(
            f"--objective {text} is unknown: choose {', '.join(METRICS).replace('_', '-')}, cost:fn=100,fp=1, "
            "recall>=0.95, recall>=0.95@0.9 (with 90 % confidence) or precision>=0.9."
        ) from None
    return objective


def parse_prices(text: str, option: str = "") -> dict[str, float]:
    """Read the prices of mistakes: "fn=100,fp=1"."""
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
    return _checked(prices, option or f"--prices {text}")


def parse_time(text: str) -> float | str:
    """Read a time as seconds ("90s", "1h30m", "45"), or as "fast" or "thorough"."""
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


def _checked(numbers: dict[str, float], option: str) -> dict[str, float]:
    """Refuse an objective that makes no sense by the name of its option."""
    try:
        get_objective(numbers)
    except ValueError as error:
        raise ValueError(f"{option}: {str(error).split('}: ', 1)[-1]}") from None
    return numbers
