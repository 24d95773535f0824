"""Data for the tests: generated, bundled with scikit-learn, or the papers' own where present."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.preprocessing import StandardScaler

# The same examples in every run of CI; a run at a desk looks for new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_collection_modifyitems(items):
    """Examples that need an extra are skipped where it is missing."""
    for start, module in (("evenmargin.neural.", "torch"), ("evenmargin.onnx", "onnxruntime")):
        for item in items if find_spec(module) is None else []:
            if item.name.startswith(start):
                item.add_marker(pytest.mark.skip(reason=f"{module} is not installed"))


def imbalanced(n=200, d=6, ratio=0.85, seed=0, dtype=np.float64):
    """A small two-class problem with overlapping classes of unequal size; labels −1 and +1."""
    X, y = make_classification(
        n_samples=n, n_features=d, n_informative=d - 1, n_redundant=1, n_clusters_per_class=1,
        weights=[ratio], flip_y=0.05, class_sep=0.8, random_state=seed,
    )  # fmt: skip
    return np.ascontiguousarray(X, dtype=dtype), np.where(y == 1, 1, -1)


@pytest.fixture(scope="session")
def breast():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="session")
def papers_data():
    """A function that loads one of the papers' data sets, or skips the test."""
    folder = Path(os.environ.get("EVENMARGIN_DATA", Path(__file__).parents[2] / "shared" / "data"))

    def load(name):
        path = folder / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"{path.name} of the papers' data is not here: set EVENMARGIN_DATA to its folder")
        with np.load(path) as arrays:
            return {key: arrays[key] for key in arrays.files}

    load.folder = folder
    return load
