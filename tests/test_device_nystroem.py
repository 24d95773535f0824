"""Nyström features on a device, run on the CPU's torch: the host's landmarks and features, where X is."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from conftest import imbalanced
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from tensors import count_as_gpu, limit_tiles, remote

from evenmargin import LinearSVM, nystroem
from evenmargin._device import arrays
from evenmargin.nystroem import StratifiedNystroem

pytest.importorskip("torch", reason="devices need torch")

X, Y = imbalanced(n=900, d=6, ratio=0.9, seed=3)
NAMES = np.where(Y > 0, "rare", "common")
KERNELS = ["rbf", "laplacian", "exponential", "linear", "poly", "sigmoid"]


def here(**options):
    return StratifiedNystroem(**{"n_components": 40, "gamma": 0.1, "coef0": 1.0, "random_state": 0, **options})


def on_cpu_torch(**options):
    """The same computed by torch, with the fixture `on_device`."""
    return here(device="cpu", **options)


def inner(features):
    """Inner products, which do not depend on the signs of eigenvectors."""
    features = np.asarray(features, dtype=np.float64)
    return features @ features[:60].T


# --- the numbers ---


@pytest.mark.parametrize("kernel", KERNELS)
def test_landmarks_and_features_are_those_of_the_host(on_device, kernel):
    host, device = here(kernel=kernel).fit(X, Y), on_cpu_torch(kernel=kernel).fit(X, Y)
    assert_array_equal(device.component_indices_, host.component_indices_)
    assert_array_equal(device.components_, host.components_)
    expected = inner(host.transform(X))
    assert_allclose(inner(device.transform(X)), expected, atol=1e-9 * np.abs(expected).max())


def test_float32_rows_have_float32_features_of_the_host(on_device):
    rows = X.astype(np.float32)
    found, expected = on_cpu_torch().fit(rows, Y).transform(rows), here().fit(rows, Y).transform(rows)
    assert found.dtype == np.float32
    assert_allclose(inner(found), inner(expected), atol=2e-5)


def test_all_rows_as_landmarks_give_the_kernel_itself(on_device):
    rows = X[:80]
    features = on_cpu_torch(n_components=80, stratify=None).fit(rows).transform(rows)
    assert_allclose(features @ features.T, rbf_kernel(rows, gamma=0.1), atol=1e-9)


def test_rows_far_away_are_taken_in_float64(on_device):
    rows = (X + 1e3 * (np.arange(Y.size)[:, None] % 3)).astype(np.float32)
    device = on_cpu_torch(gamma=0.3).fit(rows, Y)
    exact = rbf_kernel(rows[:50].astype(np.float64), device.components_.astype(np.float64), gamma=0.3)
    assert_allclose(device.transform(rows[:50]), exact @ device.normalization_.T, atol=1e-5)


@pytest.mark.parametrize("piece", [1, 4096, 1 << 24])
def test_pieces_of_rows_make_up_the_whole(on_device, monkeypatch, piece):
    machine = on_cpu_torch().fit(X, Y)
    whole = machine.transform(X)
    monkeypatch.setattr(nystroem, "_TILE", 64)
    monkeypatch.setattr(arrays, "PASS", piece)
    assert_allclose(machine.transform(X), whole, atol=1e-11)


# --- in kind ---


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_the_features_of_a_tensor_are_a_tensor_where_it_is(on_device, name):
    rows = on_device.from_numpy(X).to(getattr(on_device, name))
    with config_context(array_api_dispatch=True):
        machine = here().fit(rows, on_device.from_numpy(Y), on_device.ones(Y.size))
        features = machine.transform(rows)
    assert features.dtype == rows.dtype
    assert features.device == rows.device
    for attribute in ("components_", "component_indices_", "normalization_"):
        assert arrays.is_tensor(getattr(machine, attribute))
    assert_allclose(inner(features), inner(here().fit(rows.numpy(), Y).transform(rows.numpy())), atol=2e-5)


def test_tensors_of_a_gpu_need_no_dispatch(on_device, monkeypatch):
    count_as_gpu(monkeypatch)
    features = here().fit_transform(remote(X), remote(Y))
    assert arrays.is_tensor(features)
    assert_allclose(inner(arrays.to_host(features)), inner(here().fit(X, Y).transform(X)), atol=1e-9)


def test_arrays_come_back_as_arrays(on_device):
    machine = on_cpu_torch().fit(X, Y)
    for found in (machine.transform(X), machine.components_, machine.component_indices_, machine.normalization_):
        assert type(found) is np.ndarray


def test_without_dispatch_a_map_of_tensors_takes_arrays_and_gives_arrays(on_device):
    with config_context(array_api_dispatch=True):
        machine = here().fit(on_device.from_numpy(X), Y)
    found = machine.transform(X)
    assert type(found) is np.ndarray
    assert_allclose(inner(found), inner(here().fit(X, Y).transform(X)), atol=1e-9)


def test_frames_and_sparse_rows_are_put_on_the_device(on_device):
    plain = X * (X > 0)
    expected = inner(on_cpu_torch().fit(plain, Y).transform(plain))
    for rows in (csr_matrix(plain), pd.DataFrame(plain, columns=list("abcdef"))):
        machine = on_cpu_torch().fit(rows, Y)
        assert_allclose(inner(machine.transform(rows)), expected, atol=1e-9)
    assert machine.feature_names_in_.tolist() == list("abcdef")


def test_a_pipeline_with_a_linear_machine_takes_tensors(on_device):
    host = make_pipeline(here(), LinearSVM(class_weight="balanced")).fit(X, NAMES)
    with config_context(array_api_dispatch=True):
        rows = on_device.from_numpy(X)
        machine = clone(host).fit(rows, Y)
        found = machine.predict(rows)
    assert arrays.is_tensor(found)
    assert_array_equal(np.where(found.numpy() > 0, "rare", "common"), host.predict(X))


def test_precomputed_and_callable_kernels_stay_on_the_host_and_answer_in_kind(on_device):
    K = rbf_kernel(X, gamma=0.1)
    expected = inner(here().fit(X, Y).transform(X))
    with config_context(array_api_dispatch=True):
        given = here(kernel="precomputed").fit(on_device.from_numpy(K), Y).transform(on_device.from_numpy(K))
    called = on_cpu_torch(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.1)).fit(X, Y).transform(X)
    assert arrays.is_tensor(given)
    assert type(called) is np.ndarray
    assert_allclose(inner(given), expected, atol=1e-9)
    assert_allclose(inner(called), expected, atol=1e-9)


def test_it_travels_as_arrays_and_is_the_same_after(on_device):
    with config_context(array_api_dispatch=True):
        machine = here().fit(on_device.from_numpy(X), Y)
    assert b"torch" not in pickle.dumps(machine)
    again = pickle.loads(pickle.dumps(machine))
    assert_array_equal(again.components_, machine.components_)
    assert_array_equal(again.transform(X), machine.transform(X))


def test_rows_are_not_changed(on_device):
    rows = on_device.from_numpy(X.copy())
    with config_context(array_api_dispatch=True):
        here().fit(rows, Y).transform(rows)
    assert_array_equal(rows.numpy(), X)


def reasons(estimator):
    why = "rows are drawn at random: a weight changes the chance of a row, not what it is"
    return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in ("dense", "sparse")}


@pytest.mark.usefixtures("on_device")
@parametrize_with_checks([StratifiedNystroem(n_components=10, device="cpu")], expected_failed_checks=reasons)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scikit_learns_array_api_checks_with_values(on_device, dtype):
    # A number for gamma: "scale" has another rounding there, and eigenvectors may turn their signs for it.
    machine = StratifiedNystroem(n_components=10, gamma=0.1, random_state=0)
    estimator_checks.check_array_api_input(
        "StratifiedNystroem", machine, "torch", "cpu", dtype, check_values=True, check_sample_weight=True
    )


def test_rows_of_another_kind_than_in_fit_are_refused_under_dispatch(on_device):
    check = getattr(estimator_checks, "check_array_api_same_namespace", None)
    if check is None:
        pytest.skip("scikit-learn has no such rule before 1.9")
    check("StratifiedNystroem", StratifiedNystroem(n_components=10), "torch", "cpu")


# --- memory and bad input ---


def test_tiles_shrink_where_memory_is_short_and_too_little_is_one_sentence(on_device, monkeypatch):
    machine = on_cpu_torch(n_components=200).fit(X, Y)
    whole = machine.transform(X)
    limit_tiles(monkeypatch, 1 << 24, memory=4000)
    assert_allclose(machine.transform(X), whole, atol=1e-11)
    limit_tiles(monkeypatch, 1 << 24, memory=0)
    with pytest.raises(MemoryError, match=r"cpu has .* GB of memory left, too little for .*: free some there"):
        machine.transform(X)


def test_no_room_for_the_features_is_one_sentence(on_device, monkeypatch):
    with config_context(array_api_dispatch=True):
        rows = on_device.from_numpy(X)
        machine = here().fit(rows, Y)

        def full(*given):
            raise on_device.cuda.OutOfMemoryError("CUDA out of memory")

        monkeypatch.setattr(on_device.Tensor, "new_empty", full)
        with pytest.raises(MemoryError, match="too little for 900 rows of 40 features"):
            machine.transform(rows)


def test_a_fit_that_fails_leaves_the_map_as_it_was(on_device, monkeypatch):
    machine = on_cpu_torch().fit(X, Y)
    whole = machine.transform(X)

    def full(*given):
        raise MemoryError("cpu has 0 GB of memory left")

    with monkeypatch.context() as patch:
        patch.setattr(StratifiedNystroem, "_normalization", full)
        with pytest.raises(MemoryError):
            machine.set_params(gamma=1.0, random_state=1).fit(X, Y)
    assert_array_equal(machine.transform(X), whole)


@pytest.mark.parametrize("device", ["gpu", "mps", "cuda:x"])
def test_other_devices_are_refused(device):
    with pytest.raises(ValueError, match=f"device='{device}' .*use None, 'cpu', 'cuda' or 'cuda:0'"):
        here(device=device).fit(X, Y)


def test_no_gpu_is_one_sentence_also_for_a_fitted_map():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one here")
    fitted = here().fit(X, Y).set_params(device="cuda")
    for ask in (lambda: fitted.transform(X), lambda: fitted.fit(X, Y)):
        with pytest.raises(ValueError, match=r"finds no CUDA device here: .*set_params\(device=None\)"):
            ask()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (np.where(X[3, 2] == X, np.nan, X), "Input X contains NaN"),
        (X[:, :4], "4 features, but StratifiedNystroem is expecting 6"),
        (X[:0], "0 sample"),
        (X[0], "2D array"),
    ],
    ids=["nan", "columns", "empty", "flat"],
)
def test_bad_rows_are_refused_as_on_the_host(on_device, rows, said):
    for machine in (here().fit(X, Y), on_cpu_torch().fit(X, Y)):
        with pytest.raises(ValueError, match=said):
            machine.transform(rows)
