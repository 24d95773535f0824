"""What is said where a machine cannot compute on a device, or not with what it is given; one sentence each."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from conftest import imbalanced
from scipy.sparse import csr_matrix
from sklearn.base import clone

from evenmargin import DensityWeights, KernelSVM, LinearSVM
from evenmargin._device import arrays

torch = pytest.importorskip("torch", reason="devices need torch")

from tensors import there  # noqa: E402 (needs torch)


def table(place=None):
    X, y = imbalanced(200, 4)
    return (X, y) if place is None else (X, y, there(X, place))


def _product(A, B):
    return A @ B.T


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "mps", "", "cpu:-2"])
def test_a_name_that_is_no_device_is_refused(name):
    X, y = table()
    with pytest.raises(ValueError, match=r"use None, 'cpu', 'cuda' or 'cuda:0'\.$"):
        KernelSVM(device=name).fit(X, y)


def test_a_device_that_is_no_name_is_refused():
    X, y = table()
    with pytest.raises(ValueError, match="'device' parameter of KernelSVM must be an instance of 'str' or None"):
        KernelSVM(device=0).fit(X, y)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_no_cuda_is_said_in_one_sentence():
    X, y = table()
    with pytest.raises(ValueError, match="device='cuda:0', but PyTorch finds no CUDA device here: use device=None"):
        KernelSVM(device="cuda:0").fit(X, y)


@pytest.fixture
def no_torch(monkeypatch):
    def missing():
        raise ImportError("device= needs PyTorch, which is not installed: ...")

    monkeypatch.setattr(arrays, "torch", missing)
    monkeypatch.setattr(arrays, "find_spec", lambda name: None)


@pytest.mark.usefixtures("no_torch")
def test_the_cpu_needs_no_torch_and_a_gpu_does():
    X, y = table()
    assert np.array_equal(KernelSVM(device="cpu").fit(X, y).dual_coef_, KernelSVM().fit(X, y).dual_coef_)
    with pytest.raises(ImportError, match="device= needs PyTorch, which is not installed"):
        KernelSVM(device="cuda").fit(X, y)


def _with(T, value):
    T = T.clone()
    T[3, 1] = value
    return T


BAD = {
    "NaN": (lambda T: _with(T, np.nan), "Input X contains NaN"),
    "infinity": (lambda T: _with(T, np.inf), "Input X contains infinity"),
    "too large": (lambda T: _with(T.float(), 1e30), "too large to square in float32: scale the features"),
    "one dimension": (lambda T: T[:, 0], "Expected 2D array, got 1D"),
    "three dimensions": (lambda T: T[None], "3D tensor instead|dim 3"),
    "no rows": (lambda T: T[:0], r"0 sample\(s\)"),
    "no columns": (lambda T: T[:, :0], r"0 feature\(s\)"),
    "complex": (lambda T: T.to(torch.complex64), "Complex data not supported"),
    "sparse": (lambda T: T.as_subclass(torch.Tensor).to_sparse(), r"sparse tensor: use X\.to_dense"),
    "of no device": (lambda T: T.to("meta"), "tensor on 'meta': tensors may be on the CPU or on CUDA"),
}


@pytest.mark.parametrize("fault", BAD)
@pytest.mark.parametrize("machine", [KernelSVM(), LinearSVM(), KernelSVM(kernel=_product)])
def test_a_bad_tensor_is_refused_with_the_words_of_a_bad_array(place, machine, fault):
    _, y, T = table(place=place)
    spoil, words = BAD[fault]
    with pytest.raises(ValueError, match=words):
        clone(machine).fit(spoil(T), y)
    fitted = clone(machine).fit(T, y)
    if fault != "too large":  # a row to predict may be far away
        with pytest.raises(ValueError, match=words):
            fitted.predict(spoil(T))


def test_bad_arrays_are_refused_on_a_device_too(place):
    X, y, _ = table(place=place)
    machine = KernelSVM(device=place)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        machine.fit(X[:, 0], y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        machine.fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="could not convert string to float"):
        machine.fit(np.full(X.shape, "a"), y)
    with pytest.raises(ValueError, match="not a valid CSR matrix"):
        machine.fit(csr_matrix((np.ones(2), np.array([0, 9]), np.array([0, 1, 2])), shape=(2, 4), copy=False), y[:2])


def test_other_columns_than_in_fit_are_refused(place):
    _, y, T = table(place=place)
    with pytest.raises(ValueError, match="X has 3 features, but KernelSVM is expecting 4 features"):
        KernelSVM().fit(T, y).predict(T[:, :3])


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (lambda y: None, "requires y to be passed"),
        (lambda y: y[:-1], "inconsistent numbers of samples"),
        (lambda y: torch.ones(y.size), "one class only"),
        (lambda y: torch.from_numpy(np.where(y > 0, np.nan, 0.0)), "Input y contains NaN"),
        (lambda y: torch.linspace(0, 1, y.size), "Unknown label type: continuous"),
        (lambda y: torch.from_numpy(np.column_stack([y, y])), "y should be a 1d array"),
    ],
)
def test_bad_labels_are_refused(place, labels, words):
    _, y, T = table(place=place)
    with pytest.raises(ValueError, match=words):
        KernelSVM().fit(T, labels(y))


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (torch.ones(3), r"sample_weight has shape \(3,\); .* each of the 200 rows"),
        (-torch.ones(200), "Negative values in data passed to `sample_weight`"),
        (torch.full((200,), torch.nan), "Input sample_weight contains NaN"),
        (torch.full((200,), 1e308, dtype=torch.float64), "adds up to infinity"),
        (torch.zeros(200), "at least one non-zero number|All sample weights are zero"),
    ],
)
def test_bad_weights_are_refused(place, weight, words):
    _, y, T = table(place=place)
    with pytest.raises(ValueError, match=words):
        KernelSVM().fit(T, y, weight)


def test_predicting_before_a_fit_is_refused(place):
    _, _, T = table(place=place)
    with pytest.raises(Exception, match="not fitted yet"):
        KernelSVM().predict(T)


def test_rows_too_far_away_for_a_kernel_are_refused_when_predicting(place):
    _, y, T = table(place=place)
    machine = KernelSVM(kernel="poly", degree=5).fit(T, y)
    with pytest.raises(ValueError, match="so large that a kernel value is not finite"):
        machine.predict(T * 1e80)


def test_a_failed_fit_leaves_the_machine_as_it_was(place):
    _, y, T = table(place=place)
    machine = KernelSVM().fit(T, y)
    scores = machine.decision_function(T)
    with suppress(ValueError):
        machine.fit(_with(T, np.nan), y)
    assert torch.equal(machine.decision_function(T), scores)


def _no_room(*given, **named):
    raise torch.cuda.OutOfMemoryError("CUDA out of memory")


@pytest.mark.parametrize(
    ("owner", "name"),
    [(arrays.Rows, "__getitem__"), (KernelSVM, "_set_precision"), (arrays.Home, "give")],
    ids=["support vectors", "scores", "results"],
)
def test_memory_that_runs_out_at_the_end_of_a_fit_leaves_the_machine_as_it_was(place, monkeypatch, owner, name):
    _, y, T = table(place=place)
    machine = KernelSVM().fit(T, y)
    before, scores, store = dict(vars(machine)), machine.decision_function(T), KernelSVM._store
    with monkeypatch.context() as patch:

        def store_in_no_room(self, *given):
            patch.setattr(owner, name, _no_room)
            return store(self, *given)

        patch.setattr(KernelSVM, "_store", store_in_no_room)
        with pytest.raises((MemoryError, torch.cuda.OutOfMemoryError)):
            machine.fit(2.0 * T, -y)
    assert vars(machine).keys() == before.keys()
    assert all(vars(machine)[found] is value for found, value in before.items())
    assert torch.equal(machine.decision_function(T), scores)


def test_no_room_for_results_is_one_sentence(place, monkeypatch):
    _, y, T = table(place=place)
    monkeypatch.setattr(arrays.Home, "give", _no_room)
    with pytest.raises(MemoryError, match="GB of memory left, too little for the arrays of KernelSVM: free some there"):
        KernelSVM().fit(T, y)


def test_a_wrong_device_of_a_density_is_refused_on_a_device_too(place):
    _, y, T = table(place=place)
    with pytest.raises(ValueError, match=r"device='gpu' .*use None, 'cpu', 'cuda' or 'cuda:0'"):
        KernelSVM(density=DensityWeights(device="gpu")).fit(T, y)
