"""The shared search on a device, run on the CPU's torch: the host's scores and choices, and X put there once."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pytest
from conftest import imbalanced
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tensors import count_as_gpu, remote

from evenmargin import DensityWeights, KernelSVM, LinearSVM, ZAdjustedClassifier
from evenmargin._device import arrays
from evenmargin.kernels import RBF, kernel_matrix
from evenmargin.nystroem import StratifiedNystroem
from evenmargin.selection import SharedGridSearch, jobs, matrices
from evenmargin.solvers.price_paths import Square, solve_paths

torch = pytest.importorskip("torch", reason="devices need torch")

X, Y = imbalanced(n=150, d=5, ratio=0.75, seed=3)
NAMES = np.where(Y > 0, "a rare one", "common")
THREE = np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.8, 0.9])
WEIGHTS = np.random.default_rng(0).integers(0, 4, Y.size).astype(float)
MANY, LABELS = imbalanced(n=4300, d=5, ratio=0.9, seed=1, dtype=np.float32)
GRID = {"C": [0.1, 1.0, 30.0], "gamma": [0.05, 0.5]}


def scores(search):
    table = search.cv_results_
    return table[[name for name in table if "_test_" in name or "_train_" in name]].to_numpy()


def both(machine, grid, rows=X, y=Y, fit=None, **options):
    """The search on the host, and the same with the machine on a device."""
    found = []
    for device in (None, "cpu"):
        own = clone(machine).set_params(**{_name(machine): device})
        found.append(SharedGridSearch(own, grid, **{"cv": 3, "error_score": "raise", **options}))
        found[-1].fit(rows, y, **(fit or {}))
    return found


def _name(machine):
    return next(name for name in machine.get_params() if name.split("__")[-1] == "device" and "density" not in name)


def assert_same(host, device, atol=1e-12):
    assert device.shares_work_ is host.shares_work_ is True
    assert_allclose(scores(device), scores(host), atol=atol)
    assert device.best_params_ == host.best_params_


# --- the host's numbers ---


@pytest.mark.parametrize(
    ("machine", "grid", "options"),
    [
        (KernelSVM(), GRID, {"scoring": ["roc_auc", "balanced_accuracy", "matthews_corrcoef"], "refit": "roc_auc"}),
        (KernelSVM(intercept="augmented", loss="squared_hinge"), GRID, {"return_train_score": True}),
        (KernelSVM(kernel="laplacian", class_weight="balanced"), GRID, {"scoring": "f1"}),
        (KernelSVM(kernel="poly", coef0=1.0), {"C": [0.1, 1.0], "degree": [1, 2]}, {}),
        (KernelSVM(density="inverse"), {"C": [0.1, 1.0], "density": ["inverse", "same_class"]}, {}),
        (ZAdjustedClassifier(KernelSVM()), {"estimator__C": [0.1, 5.0], "method": ["z", "threshold"]}, {}),
        (make_pipeline(StandardScaler(), KernelSVM()), {"kernelsvm__C": [0.1, 5.0]}, {"scoring": "roc_auc"}),
    ],
    ids=["rbf", "squared hinge", "laplacian", "poly", "density", "z", "pipeline"],
)
def test_small_folds_have_the_scores_of_the_host(on_device, machine, grid, options):
    # A density is a sum of float32 values there; all else of small folds is in float64.
    assert_same(*both(machine, grid, **options))


@pytest.mark.parametrize("y", [NAMES, THREE], ids=["names", "three"])
def test_labels_of_any_kind(on_device, y):
    assert_same(*both(KernelSVM(), GRID, y=y, fit={"sample_weight": WEIGHTS}))


def test_large_folds_have_the_scores_of_the_host_within_tol(on_device):
    options = {"scoring": ["roc_auc", "balanced_accuracy"], "refit": "roc_auc", "cv": 2}
    host, device = both(
        KernelSVM(class_weight="balanced"), {"C": [0.1, 1.0], "gamma": [0.05, 0.5]}, MANY, LABELS, **options
    )
    assert_same(host, device, atol=2e-3)


def test_large_folds_of_adjusted_machines(on_device):
    grid = {"estimator__C": [0.1, 1.0], "method": ["z", "threshold"]}
    host, device = both(ZAdjustedClassifier(KernelSVM()), grid, MANY, LABELS, cv=2, scoring="balanced_accuracy")
    assert_same(host, device, atol=5e-3)


def test_the_answer_does_not_depend_on_threads(on_device):
    one, two = (
        SharedGridSearch(KernelSVM(device="cpu"), GRID, cv=3, n_jobs=jobs, scoring="roc_auc").fit(X, Y)
        for jobs in (1, 2)
    )
    assert_array_equal(scores(one), scores(two))


# --- in kind ---


@pytest.mark.parametrize("scoring", [None, "roc_auc", "matthews_corrcoef"])
@pytest.mark.parametrize(
    ("machine", "grid", "shares"),
    [
        (KernelSVM(), {"C": [0.1, 10.0]}, True),
        (ZAdjustedClassifier(KernelSVM()), {"method": ["z", "threshold"]}, True),
        (KernelSVM(solver="sgd", max_iter=300, random_state=0), {"C": [0.1, 10.0]}, False),
        (
            make_pipeline(StratifiedNystroem(n_components=20, random_state=0), KernelSVM()),
            {"kernelsvm__C": [0.1, 10.0]},
            True,
        ),
    ],
    ids=["kernel", "z", "one by one", "pipeline"],
)
def test_tensors_in_predictions_as_tensors_out(on_device, machine, grid, shares, scoring):
    host = SharedGridSearch(machine, grid, cv=3, scoring=scoring, error_score="raise").fit(X, Y)
    with config_context(array_api_dispatch=True):
        rows, labels = torch.from_numpy(X), torch.from_numpy(Y)
        search = clone(host).fit(rows, labels)
        found, score = search.predict(rows), search.score(rows, labels)
    assert search.shares_work_ is shares
    assert_allclose(scores(search), scores(host), atol=1e-6)
    assert search.best_params_ == host.best_params_
    assert arrays.is_tensor(found)
    assert found.device == rows.device
    assert_array_equal(found.numpy(), host.predict(X))
    assert score == pytest.approx(host.score(X, Y), abs=1e-6)
    assert isinstance(search.cv_results_, pd.DataFrame)


@pytest.mark.parametrize(
    ("machine", "grid"),
    [
        (KernelSVM(), {"C": [0.1, 10.0]}),
        (ZAdjustedClassifier(KernelSVM()), {"method": ["z", "threshold"]}),
        (KernelSVM(loss="log"), {"C": [0.1, 10.0]}),
        (
            make_pipeline(StratifiedNystroem(n_components=20, random_state=0), LinearSVM()),
            {"linearsvm__C": [0.1, 10.0]},
        ),
    ],
    ids=["kernel", "z", "one by one", "pipeline"],
)
def test_tensors_of_a_gpu_need_no_dispatch(on_device, monkeypatch, machine, grid):
    options = {"scoring": ["roc_auc", "matthews_corrcoef"], "refit": "roc_auc", "return_train_score": True}
    host = SharedGridSearch(machine, grid, cv=3, **options).fit(X, Y)
    count_as_gpu(monkeypatch)
    search = clone(host).fit(remote(X), remote(Y))
    assert_allclose(scores(search), scores(host), atol=1e-2)
    assert arrays.is_tensor(search.predict(remote(X)))
    assert search.score(remote(X), remote(Y)) == pytest.approx(host.score(X, Y), abs=1e-3)


@pytest.mark.parametrize("kind", [csr_matrix, pd.DataFrame])
def test_frames_and_sparse_rows_are_put_on_the_device(on_device, kind):
    rows = kind(X * (X > 0))
    assert_same(*both(KernelSVM(), GRID, rows=rows, scoring="roc_auc"), atol=1e-9)


def test_weights_and_labels_may_be_tensors(on_device):
    host = SharedGridSearch(KernelSVM(), GRID, cv=3).fit(X, Y, sample_weight=WEIGHTS)
    with config_context(array_api_dispatch=True):
        search = clone(host).fit(torch.from_numpy(X), torch.from_numpy(Y), sample_weight=torch.from_numpy(WEIGHTS))
    assert_same(host, search)


def test_a_scorer_of_ones_own_is_given_the_machine_itself(on_device):
    seen = []

    def own(machine, rows, y):
        seen.append(type(machine))
        return float((arrays.to_host(machine.predict(rows)) == y).mean())

    with config_context(array_api_dispatch=True):
        search = SharedGridSearch(KernelSVM(), {"C": [1.0]}, cv=2, scoring=own).fit(torch.from_numpy(X), Y)
    assert set(seen) == {KernelSVM}
    assert not search.shares_work_


def test_best_estimator_predicts_in_kind_of_what_it_is_given(on_device):
    search = SharedGridSearch(KernelSVM(device="cpu"), GRID, cv=3).fit(X, Y)
    assert type(search.predict(X)) is np.ndarray
    assert type(search.best_estimator_.support_vectors_) is np.ndarray


# --- once, and one at a time ---


def test_rows_are_put_on_the_device_once(on_device, monkeypatch):
    put, seen = arrays.Rows.put.__func__, []

    def counted(cls, rows, device):
        seen.append(rows.shape[0])
        return put(cls, rows, device)

    monkeypatch.setattr(arrays.Rows, "put", classmethod(counted))
    SharedGridSearch(KernelSVM(device="cpu"), GRID, cv=3, refit=False).fit(X, Y)
    assert seen == [Y.size]


def test_large_matrices_stay_on_the_device_one_at_a_time(on_device, monkeypatch):
    most, grams = [], []

    class Counted(jobs.KernelMatrices):
        def __init__(self, keys):
            super().__init__(keys)
            grams.append(self)

        def take(self, key):
            K = super().take(key)
            most.append(len(self.held))
            assert isinstance(K, Square)
            return K

    monkeypatch.setattr(jobs, "KernelMatrices", Counted)
    grid = {"C": [1.0], "gamma": [0.02, 0.05]}
    SharedGridSearch(KernelSVM(device="cpu"), grid, cv=2, n_jobs=2, refit=False).fit(MANY, LABELS)
    assert max(most) == 1
    assert not grams[0].held
    assert not grams[0].spare


def test_plain_fits_on_a_device_come_one_after_the_other(on_device, monkeypatch):
    seen, fit = set(), KernelSVM.fit

    def noted(self, *given, **named):
        seen.add(threading.current_thread())
        return fit(self, *given, **named)

    monkeypatch.setattr(KernelSVM, "fit", noted)
    machine = KernelSVM(solver="sgd", max_iter=200, device="cpu")
    SharedGridSearch(machine, GRID, cv=3, n_jobs=2, refit=False).fit(X, Y)
    assert seen == {threading.main_thread()}


def test_a_matrix_too_large_for_the_device_sends_candidates_to_plain_fits(on_device, monkeypatch):
    options = {"cv": 2, "refit": False, "scoring": "roc_auc"}
    grid = {"C": [0.1], "gamma": [0.05]}
    shared = SharedGridSearch(KernelSVM(device="cpu"), grid, **options).fit(MANY, LABELS)
    monkeypatch.setattr(arrays, "free_memory", lambda device: 4 * LABELS.size**2)
    plain = SharedGridSearch(KernelSVM(device="cpu"), grid, **options).fit(MANY, LABELS)
    assert shared.shares_work_
    assert not plain.n_shared_
    assert_allclose(scores(plain), scores(shared), atol=2e-3)


def test_memory_that_runs_out_on_the_way_sends_candidates_to_plain_fits(on_device, monkeypatch):
    def short(*given):
        raise MemoryError("cpu has 0 GB of memory left")

    monkeypatch.setattr(matrices.FoldRows, "_square", short)
    search = SharedGridSearch(KernelSVM(device="cpu"), {"C": [0.1]}, cv=2, refit=False).fit(MANY, LABELS)
    assert search.n_shared_ == 0
    assert np.isfinite(scores(search)).all()


# --- matrices on a device ---


def square(rows, gamma=0.2):
    K = kernel_matrix(RBF(gamma), rows, rows, dtype=np.float32)
    return np.ascontiguousarray(K), Square(torch.from_numpy(K))


@pytest.mark.parametrize("size", [1, 1000, 1 << 24])
def test_blocks_and_sums_of_rows_are_those_of_the_matrix(monkeypatch, size):
    monkeypatch.setattr(arrays, "PASS", size)
    K, held = square(X)
    rows, columns = np.array([5, 3, 140]), np.array([7, 0, 7, 149])
    V = np.random.default_rng(0).normal(size=(2, 3))
    assert_array_equal(held.block(rows, columns), K[np.ix_(rows, columns)])
    assert_allclose(held.product(rows, V), V @ K[rows].astype(np.float64), rtol=1e-14)
    assert_array_equal(held.diagonal(), K.diagonal())
    assert_array_equal(held.product(rows[:0], V[:, :0]), np.zeros((2, 150)))


@pytest.mark.parametrize("size", [1500, 2200], ids=["small", "large"])
@pytest.mark.parametrize("free", [True, False])
def test_paths_on_a_device_are_those_of_the_host(size, free):
    K, held = square(MANY[:2500])
    fold = np.sort(np.random.default_rng(0).permutation(2500)[:size])
    prices = np.outer([0.1, 1.0], np.ones(2500))
    host, device = (solve_paths(each, [fold], LABELS[:2500], prices, free=free) for each in (K, held))
    assert host.converged.all()
    assert device.converged.all()
    assert_allclose(device.scores, host.scores, atol=1e-12 if size == 1500 else 1e-2)
    assert_allclose(device.intercept, host.intercept, atol=1e-2)


# --- bad input ---


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (KernelSVM(device="gpu"), "device='gpu' .*use None, 'cpu', 'cuda' or 'cuda:0'"),
        (KernelSVM(density=DensityWeights(device="gpu")), "device='gpu' .*use None, 'cpu', 'cuda' or 'cuda:0'"),
    ],
)
def test_a_wrong_device_is_the_machines_own_sentence(machine, said):
    with pytest.raises(ValueError, match=said):
        SharedGridSearch(machine, {"C": [1.0, 2.0]}, cv=2, error_score="raise").fit(X, Y)


def test_no_gpu_is_the_machines_own_sentence():
    if torch.cuda.is_available():
        pytest.skip("there is one here")
    with pytest.raises(ValueError, match=r"All the 2 fits failed .*finds no CUDA device here"):
        SharedGridSearch(KernelSVM(device="cuda"), {"C": [1.0]}, cv=2).fit(X, Y)


def test_rows_with_gaps_are_the_machines_own_sentence(on_device):
    rows = np.where(X[3, 2] == X, np.nan, X)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        SharedGridSearch(KernelSVM(device="cpu"), {"C": [1.0]}, cv=2, error_score="raise").fit(rows, Y)
