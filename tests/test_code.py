"""Lint, types, the import contract, and the command: part of the test command, so that they cannot rot."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import imbalanced

from evenmargin import LinearSVM

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "command", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"], ["lint-imports"]], ids=" ".join
)
def test_the_code_is_clean(command):
    tool = shutil.which(command[0], path=str(Path(sys.executable).parent)) or shutil.which(command[0])
    assert tool, f"{command[0]} is part of the test extra"
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_demo_compares_plain_and_even_machines_and_writes_a_report(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "evenmargin", "demo"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    figures = {}
    kind = None
    for line in done.stdout.splitlines():
        if line.strip() in ("plain", "even margin", "no tuning"):
            kind = line.strip()
        elif found := re.match(
            r"\s*([\w-]+(?: loss| kernel)?)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)", line
        ):
            figures[kind, found[1]] = [float(figure) for figure in found.groups()[1:]]
    assert len(figures) == 11
    assert figures["no tuning", "automatic"][0] > 0.93
    for name in ("hinge", "log loss", "RBF kernel"):
        assert figures["even margin", name][0] > figures["plain", name][0] + 0.05
    for gmean, recall, specificity, auc, _ in figures.values():
        assert abs(gmean - (recall * specificity) ** 0.5) < 2e-3
        assert 0.9 < auc <= 1
    assert done.stdout.splitlines()[-1].startswith("report: evenmargin-demo.html")
    assert 50_000 < (tmp_path / "evenmargin-demo.html").stat().st_size < 2_000_000


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("page", ["README.md", "docs/guide.md", "docs/scale.md"])
def test_the_python_in_the_pages_runs(page):
    pytest.importorskip("matplotlib").use("Agg")
    X, y = imbalanced()
    names = {"X": X, "y": y, "LinearSVM": LinearSVM, "batches": [(X, np.where(y > 0, "fraud", "fine"))]}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.S)
    assert blocks
    for block in blocks:
        exec(block, names)


@pytest.mark.parametrize("page", [*sorted(path.name for path in (ROOT / "docs").glob("*.md")), "../README.md"])
def test_links_and_pictures_in_the_pages_are_there(page):
    folder = ROOT / "docs"
    text = (folder / page).read_text()
    assert "@@" not in text
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", text):
        assert ((folder / page).parent / target).exists(), target


def test_the_version_is_printed():
    done = subprocess.run([sys.executable, "-m", "evenmargin", "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"evenmargin \d+\.\d+\.\d+\S*\n", done.stdout)
