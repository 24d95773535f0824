"""What users may import, with its signatures: to change `public_api.txt` is a decision, and belongs in the changelog.

`python tests/test_public_api.py` writes the list anew.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("public_api.txt")
MODULES = [
    "evenmargin", "evenmargin.adjust", "evenmargin.auto", "evenmargin.datasets", "evenmargin.density",
    "evenmargin.display", "evenmargin.distributed", "evenmargin.kernel", "evenmargin.kernels", "evenmargin.linear",
    "evenmargin.losses", "evenmargin.metrics", "evenmargin.neural", "evenmargin.nystroem", "evenmargin.onnx",
    "evenmargin.operating", "evenmargin.papers", "evenmargin.persistence", "evenmargin.problem", "evenmargin.report",
    "evenmargin.reproduce", "evenmargin.sampling", "evenmargin.selection", "evenmargin.solvers", "evenmargin.stopping",
    "evenmargin.weights", "evenmargin.zsvm",
]  # fmt: skip


def _parameters(function) -> str:
    """The parameters and their defaults, without annotations: those are mypy's."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _described(path: str, thing) -> list[str]:
    if not inspect.isclass(thing):
        return [path + _parameters(thing) if callable(thing) else path]
    lines = [path + _parameters(thing)]
    for name in sorted(dir(thing)):
        # What scikit-learn and Python bring along is theirs: only names that a class of ours defines.
        owner = next((base for base in thing.__mro__ if name in vars(base)), object)
        if name.startswith("_") or not owner.__module__.startswith("evenmargin"):
            continue
        member = inspect.getattr_static(thing, name)
        member = getattr(member, "__func__", member)
        lines.append(f"{path}.{name}" + (_parameters(member) if inspect.isfunction(member) else ""))
    return lines


def described() -> list[str]:
    lines: list[str] = []
    for module_name in MODULES:
        module = import_module(module_name)
        for name in sorted(module.__all__):
            lines += _described(f"{module_name}.{name}", getattr(module, name))
    return lines


def test_public_names_and_signatures_are_those_of_the_list():
    for extra in ("torch", "dask", "onnx"):
        pytest.importorskip(extra)
    now, then = described(), LIST.read_text().splitlines()
    assert not set(then) - set(now), f"gone: {sorted(set(then) - set(now))}"
    assert not set(now) - set(then), f"new: {sorted(set(now) - set(then))}"
    assert now == then


if __name__ == "__main__":
    LIST.write_text("\n".join(described()) + "\n")
