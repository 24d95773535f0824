"""Density weights on a device, run on the CPU's torch: the host's numbers, in kind, in bounded memory."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from conftest import imbalanced
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn import config_context
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from tensors import count_as_gpu, limit_tiles, remote

from evenmargin import KernelSVM
from evenmargin._device import arrays
from evenmargin.density import SCHEMES, DensityWeights

pytest.importorskip("torch", reason="devices need torch")

X, Y = imbalanced(n=700, d=8, ratio=0.8, seed=3)
THREE = np.array(["one", "two", "three"])[np.digitize(X[:, 0], np.quantile(X[:, 0], [0.3, 0.6]))]
WEIGHT = np.random.default_rng(0).integers(0, 3, Y.size).astype(float)
# What the docstring states: the error of s, in units of itself, where columns are standardised.
STATED = 1e-5
STATED_FAR = 4e-4  # where γ‖x‖² is nearly so large that float64 is taken


def on_cpu_torch(scheme="density", **options):
    """Weights that torch computes, with the fixture `on_device`."""
    return DensityWeights(scheme, device="cpu", **options)


# --- the numbers ---


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_are_those_of_the_host(on_device, scheme, dtype):
    for labels in (Y, THREE):
        options = {"gamma": 0.3, "random_state": 0}
        host = DensityWeights(scheme, **options).fit(X, labels, WEIGHT)
        device = on_cpu_torch(scheme, **options).fit(X.astype(dtype), labels, WEIGHT)
        assert_allclose(device.weights_, host.weights_, rtol=3 * STATED, atol=STATED * host.weights_.max())
        assert device.weights_.dtype == np.float64


@pytest.mark.parametrize(("gamma", "error"), [("scale", STATED), (8.0, STATED_FAR)], ids=["near", "far"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_stated_error_against_float64_holds(on_device, dtype, gamma, error):
    rows = np.random.default_rng(1).normal(size=(3000, 50)).astype(dtype)
    found = on_cpu_torch(gamma=gamma).fit(rows)
    exact = rbf_kernel(rows.astype(np.float64), gamma=found.gamma_).sum(axis=1)
    assert_allclose(found.density_, exact, rtol=error)


def test_a_weight_of_two_is_a_row_twice(on_device):
    twice = np.concatenate([X, X[:50]])
    weighted = on_cpu_torch(gamma=0.3).fit(X, sample_weight=1.0 + (np.arange(Y.size) < 50))
    assert_allclose(on_cpu_torch(gamma=0.3).fit(twice).density_[: Y.size], weighted.density_, rtol=STATED)


def test_rows_far_from_each_other_are_taken_in_float64(on_device):
    rows = (X + 1e3 * (np.arange(Y.size)[:, None] % 3)).astype(np.float32)
    exact = DensityWeights("density", gamma=0.3).fit(rows.astype(np.float64)).density_
    assert_allclose(on_cpu_torch(gamma=0.3).fit(rows).density_, exact, rtol=1e-7)


@pytest.mark.parametrize("labels", [None, Y, THREE], ids=["one", "two", "three"])
def test_fourier_sums_take_the_waves_of_the_host(on_device, labels):
    scheme = "density" if labels is None else "same_class"
    options = {"gamma": 0.3, "method": "fourier", "n_components": 300, "random_state": 0}
    host = DensityWeights(scheme, **options).fit(X, labels, WEIGHT)
    device = on_cpu_torch(scheme, **options).fit(X, labels, WEIGHT)
    for name in ("density_", "density_error_", "weights_"):
        exact = getattr(host, name)
        assert_allclose(getattr(device, name), exact, atol=STATED * np.abs(exact).max())


def test_one_frequency_has_no_error_bar(on_device):
    found = on_cpu_torch(method="fourier", n_components=1, random_state=0).fit(X)
    assert np.isnan(found.density_error_).all()


def test_a_machine_takes_its_density_weights_on_its_device(on_device):
    weights = on_cpu_torch("inverse").fit_weights(X)
    own = KernelSVM(density="inverse", gamma=0.3, device="cpu").fit(X, Y)
    given = KernelSVM(gamma=0.3, device="cpu").fit(X, Y, sample_weight=weights)
    assert_array_equal(own.support_, given.support_)
    assert_allclose(own.decision_function(X), given.decision_function(X), atol=1e-9)


def test_a_machine_on_the_host_takes_weights_from_a_device(on_device):
    machine = KernelSVM(density=on_cpu_torch("inverse")).fit(X, Y)
    assert_allclose(
        machine.decision_function(X), KernelSVM(density="inverse").fit(X, Y).decision_function(X), atol=1e-3
    )


# --- in kind ---


@pytest.mark.parametrize("options", [{}, {"method": "fourier", "n_components": 20}], ids=["exact", "fourier"])
def test_the_weights_of_a_tensor_are_tensors(on_device, options):
    with config_context(array_api_dispatch=True):
        found = DensityWeights("same_class", random_state=0, **options).fit(
            on_device.from_numpy(X), on_device.from_numpy(Y), on_device.from_numpy(WEIGHT)
        )
    host = DensityWeights("same_class", random_state=0, **options).fit(X, Y, WEIGHT)
    for name in ("weights_", "density_"):
        assert getattr(found, name).dtype == on_device.float64
        assert_allclose(getattr(found, name).numpy(), getattr(host, name), atol=STATED * host.density_.max())
    assert_array_equal(pickle.loads(pickle.dumps(found)).weights_, found.weights_)


def test_tensors_of_a_gpu_need_no_dispatch(on_device, monkeypatch):
    count_as_gpu(monkeypatch)
    found = DensityWeights("same_class", gamma=1.0).fit_weights(remote(X), remote(Y), remote(WEIGHT))
    assert arrays.is_tensor(found)
    exact = DensityWeights("same_class", gamma=1.0).fit_weights(X, Y, WEIGHT)
    assert_allclose(arrays.to_host(found), exact, atol=STATED * exact.max())


def test_frames_and_sparse_rows_are_put_on_the_device(on_device):
    plain, sparse = X * (X > 0), csr_matrix(X * (X > 0))
    expected = on_cpu_torch(gamma=0.3).fit(plain)
    assert_allclose(on_cpu_torch(gamma=0.3).fit(sparse).weights_, expected.weights_, rtol=STATED)
    frame = on_cpu_torch(gamma=0.3).fit(pd.DataFrame(plain, columns=list("abcdefgh")))
    assert_array_equal(frame.weights_, expected.weights_)
    assert frame.feature_names_in_.tolist() == list("abcdefgh")


def test_rows_are_not_changed(on_device):
    for dtype in (on_device.float32, on_device.float64):
        rows = on_device.from_numpy(X).to(dtype)
        before = rows.clone()
        with config_context(array_api_dispatch=True):
            for method in ("exact", "fourier"):
                DensityWeights("inverse", method=method, n_components=10).fit(rows)
        assert_array_equal(rows, before)


@pytest.mark.usefixtures("on_device")
@parametrize_with_checks(
    [on_cpu_torch("inverse"), on_cpu_torch("inverse", method="fourier", n_components=20, random_state=0)]
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_scikit_learns_array_api_check(on_device):
    estimator_checks.check_array_api_input("DensityWeights", DensityWeights(), "torch", "cpu", "float32")


# --- memory ---


@pytest.mark.parametrize("method", ["exact", "fourier"])
def test_many_tiles_give_what_one_gives(on_device, monkeypatch, method):
    options = {"method": method, "n_components": 200, "random_state": 0, "gamma": 0.3}
    whole = on_cpu_torch("same_class", **options).fit(X, THREE, WEIGHT)
    limit_tiles(monkeypatch, 20_000)
    cut = on_cpu_torch("same_class", **options).fit(X, THREE, WEIGHT)
    for name in ("density_", "density_error_")[: 1 + (method == "fourier")]:
        exact = getattr(whole, name)
        assert_allclose(getattr(cut, name), exact, atol=STATED * np.abs(exact).max())


@pytest.mark.parametrize("method", ["exact", "fourier"])
def test_tiles_shrink_where_memory_is_short(on_device, monkeypatch, method):
    options = {"method": method, "n_components": 200, "random_state": 0, "gamma": 0.3}
    whole = on_cpu_torch(**options).fit(X).density_
    limit_tiles(monkeypatch, 20_000, memory=5_000)
    assert_allclose(on_cpu_torch(**options).fit(X).density_, whole, rtol=STATED, atol=STATED * whole.max())


@pytest.mark.parametrize("method", ["exact", "fourier"])
def test_too_little_memory_is_one_sentence(on_device, monkeypatch, method):
    limit_tiles(monkeypatch, 20_000, memory=0)
    with pytest.raises(MemoryError, match=r"cpu has .* GB of memory left, too little for .*: free some there"):
        on_cpu_torch(method=method).fit(X)


def test_a_fit_that_fails_leaves_the_weights_as_they_were(on_device, monkeypatch):
    rule = on_cpu_torch().fit(X)
    before = dict(vars(rule))
    limit_tiles(monkeypatch, 20_000, memory=0)
    with pytest.raises(MemoryError):
        rule.fit(2.0 * X[:, :5])
    assert vars(rule).keys() == before.keys()
    assert all(vars(rule)[name] is value for name, value in before.items())


# --- bad input ---


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("gpu", "device='gpu' .*use None, 'cpu', 'cuda' or 'cuda:0'"),
        ("mps", "device='mps' .*use None, 'cpu', 'cuda' or 'cuda:0'"),
        (0, "The 'device' parameter"),
    ],
)
def test_other_devices_are_refused(device, said):
    with pytest.raises(ValueError, match=said):
        DensityWeights(device=device).fit(X)


def test_no_gpu_is_one_sentence():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one here")
    with pytest.raises(ValueError, match="finds no CUDA device here: use device=None"):
        DensityWeights(device="cuda").fit(X)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: np.where(rows == rows[3, 2], np.nan, rows), "Input X contains NaN"),
        (lambda rows: np.where(rows == rows[3, 2], np.inf, rows), "infinity"),
        (lambda rows: np.where(rows == rows[3, 2], 1e200, rows), "too large to square"),
        (lambda rows: rows[:0], "0 sample"),
        (lambda rows: rows[0], "2D array"),
        (lambda rows: rows + 1e9 * (np.arange(Y.size)[:, None] % 2), "no digits of their distances are left"),
    ],
    ids=["nan", "inf", "large", "empty", "flat", "far"],
)
def test_bad_rows_are_refused_as_on_the_host(on_device, change, said):
    for rule in (DensityWeights(gamma=0.3), on_cpu_torch(gamma=0.3)):
        with pytest.raises(ValueError, match=said):
            rule.fit(change(X))
