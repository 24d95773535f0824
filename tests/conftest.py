"""Data for the tests: generated, bundled with scikit-learn, or the papers' own where present."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from sklearn import config_context
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version, sp_version

from evenmargin._device import arrays

# The same examples in every run of CI; a run at a desk looks for new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_collection_modifyitems(items):
    """Examples that need an extra are skipped where it is missing."""
    needs = (("evenmargin.neural.", "torch"), ("evenmargin.onnx", "onnxruntime"), ("evenmargin.distributed", "dask"))
    for start, module in needs:
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


@pytest.fixture
def dispatch_allowed(monkeypatch):
    """scikit-learn asks for this variable when its array API dispatch is turned on.

    SciPy looks at it when it is imported; its functions would then be others in all tests. Nothing here needs that.
    """
    if sp_version < parse_version("1.14"):
        pytest.skip("scikit-learn's array API dispatch asks for SciPy 1.14")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


@pytest.fixture
def dispatch(dispatch_allowed):
    """scikit-learn's array API dispatch is on."""
    with config_context(array_api_dispatch=True):
        yield


@pytest.fixture
def on_device(dispatch_allowed, monkeypatch):
    """torch, its CPU taken for a device: CPU tensors and device="cpu" run what a GPU would run."""
    torch = pytest.importorskip("torch", reason="devices need torch")
    monkeypatch.setattr(arrays, "native", lambda device: device is None)
    return torch


@pytest.fixture(params=["cpu", "cuda"] if Path("/dev/nvidiactl").exists() else ["cpu"])
def place(request, on_device, monkeypatch):
    """The name of a device whose tensors NumPy cannot read: a GPU where there is one, and torch's CPU taken for one."""
    if request.param == "cuda":
        if not on_device.cuda.is_available():
            pytest.skip("PyTorch finds no GPU here")
        monkeypatch.undo()
        return "cuda"
    from tensors import Remote, count_as_gpu

    count_as_gpu(monkeypatch)
    give = arrays.Home.give

    def give_unreadable(home, array):
        array = give(home, array)
        return array.as_subclass(Remote) if isinstance(array, on_device.Tensor) else array

    monkeypatch.setattr(arrays.Home, "give", give_unreadable)
    return "cpu"


@pytest.fixture(scope="session")
def _client():
    """Two worker processes, started once in a run."""
    from clusters import started

    with started() as client:
        yield client


@pytest.fixture
def cluster(_client):
    """The client, in charge for one test; where nobody asks for it, dask's threads are."""
    with _client.as_current():
        yield _client


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
