"""Compiled loops: flat arrays in, scalars out.

Nothing here allocates, prints, or knows of estimators. The modules are imported when first used
(`_core.cd_loops.epoch`), because that imports numba: importing evenmargin, loading a model and predicting do not.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name.endswith("_loops") or name == "rows":
        return import_module(f"{__name__}.{name}")
    if name == "cache_folder":
        return import_module(f"{__name__}._jit").cache_folder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
