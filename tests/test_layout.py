"""Rules of docs/architecture.md that no single file shows: what is where, how large it is, and who may reach whom."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import evenmargin

ROOT = Path(evenmargin.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py"))
IDS = [path.relative_to(ROOT).as_posix() for path in FILES]

# Private names of others that are used here, and why.
FOREIGN = {
    "_input/checks.py": {  # scikit-learn's conventions for estimators, which its own packages import as well
        "_check_method_params", "_check_sample_weight", "_fit_context", "_get_feature_names", "_num_samples",
        "_safe_split", "_validate_params",
    },
    "_core/_jit.py": {"_cache"},  # numba has no public way to choose the folder of a function's cache
    "onnx/_register.py": {"_parse_sklearn"},  # skl2onnx: how the parts of a model are parsed
    "selection/scoring.py": {"_accept_sample_weight"},  # scikit-learn: whether a scorer takes weights
    "zsvm.py": {"_gamma", "_compute_kernel"},  # SVC: gamma as a number, and a callable kernel's values
    "onnx/_machines.py": {"_gamma"},
}  # fmt: skip
NAMED_TUPLE = {"_asdict", "_fields", "_make", "_replace"}  # NamedTuple's public methods
DASK = {"_meta", "_meta_nonempty"}  # dask has no other name for the empty frame that types a collection

# What is imported by a name that is put together when the program runs, and why.
BY_NAME = {
    "__init__.py": "the public names, when they are first asked for",
    "_core/__init__.py": "compiled loops, when they are first used",
    "cli/__init__.py": "the module of a command, when it runs",
    "cli/_compare.py": "rivals that may not be installed",
    "persistence/types.py": "the types that model files name",
    "persistence/_trusted.py": "types of other packages that model files name",
    "report/_recipe.py": "the public module of a class that the report names",
}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def functions():
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def length(node: ast.FunctionDef) -> int:
    """Lines of a function without its docstring."""
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        lines -= node.body[0].end_lineno - node.body[0].lineno + 1
    return lines


def parameters(node: ast.FunctionDef):
    spec = node.args
    every = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
    return [each for each in every if each is not None and each.annotation is not None]


def test_the_top_floor_is_small():
    entries = [path.name for path in ROOT.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= 36, sorted(entries)
    assert sum(name.startswith("_") for name in entries) <= 8


def test_a_file_has_at_most_500_lines():
    assert not {name_of(path): size for path in FILES if (size := path.read_text("utf-8").count("\n")) > 500}


def test_a_function_has_at_most_60_lines_and_a_fit_25():
    sizes = {f"{name_of(path)}:{node.name}": length(node) for path, node in functions()}
    assert not {name: size for name, size in sizes.items() if size > 60}
    fits = {f"{name_of(path)}:{node.name}": length(node) for path, node in functions() if node.name.endswith("fit")}
    assert not {name: size for name, size in fits.items() if size > 25 and not name.startswith("cli/")}


def test_no_two_classes_have_the_same_name():
    names = Counter(node.name for path in FILES for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef))
    assert not [name for name, count in names.items() if count > 1]


def test_kinds_of_arrays_are_defined_once():
    """`Array` and its like are `_util.typing`'s: no other file gives an NDArray a name."""
    again = [
        f"{name_of(path)}: {ast.unparse(node)}"
        for path in FILES
        if name_of(path) != "_util/typing.py"
        for node in tree_of(path).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and ast.unparse(node.value).startswith("NDArray[")
    ]
    assert not again


def test_few_parameters_are_of_any_type():
    every = [ast.unparse(each.annotation) for _, node in functions() for each in parameters(node)]
    assert every.count("Any") < 0.12 * len(every)


def test_a_type_error_is_ignored_seldom_and_with_a_reason():
    lines = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in FILES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if "type: ignore" in line
    ]
    assert len(lines) < 25
    assert not [line for line in lines if not re.search(r"type: ignore\[[\w, -]+\]  # \S", line)]


def imported(path: Path):
    """(line, steps from the top floor, name) of each relative import, the steps being those of the module."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for alias in node.names:
                module = folder / alias.name
                is_module = module.is_dir() or module.with_suffix(".py").exists()
                yield node.lineno, (module if is_module else folder).relative_to(ROOT).parts, alias.name


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_what_is_private_to_a_package_stays_there(path):
    """A name with an underscore is its module's, a module with one its package's; `_core`, `_util` … are for all."""
    home = path.parent.relative_to(ROOT).parts
    strangers = [
        f"{line}: {'.'.join(steps)}: {name}"
        for line, steps, name in imported(path)
        if any(is_private(step) and steps[:place] != home[:place] for place, step in enumerate(steps) if place)
        or (is_private(name) and name != steps[-1] and steps[:-1] != home)
    ]
    assert not strangers


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_private_names_of_others_are_left_alone(path):
    """Of other libraries none is imported, and none is reached on another module's object, but those listed above."""
    tree, name = tree_of(path), name_of(path)
    allowed = FOREIGN.get(name, set()) | NAMED_TUPLE | (DASK if name.startswith("distributed/") else set())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            allowed.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                allowed.update(part.id for part in ast.walk(target) if isinstance(part, ast.Name))
    strangers = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            strangers += [alias.name for alias in node.names if is_private(alias.name)]
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls", "super()"):
                strangers.append(node.attr)
    assert not set(strangers) - allowed


def test_modules_are_imported_by_a_name_in_a_string_only_where_the_page_says_so():
    """The import contract does not see such imports, so that a cycle could hide there."""
    found = {
        name_of(path)
        for path in FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__")
    }
    assert found <= set(BY_NAME), found - set(BY_NAME)
    for name in found - {"persistence/types.py"}:  # what is named there lies below, which a test of the table checks
        text = (ROOT / name).read_text("utf-8")
        assert not re.search(r"import_module\(\s*f?[\"']evenmargin", text), name
