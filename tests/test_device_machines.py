"""Machines on a device: what is computed there, what comes back, and what is said when it cannot be.

Everything runs on torch's CPU taken for a device, and on a GPU where there is one.
"""

from __future__ import annotations

import copy
import pickle
from io import BytesIO

import joblib
import numpy as np
import pandas as pd
import pytest
from conftest import imbalanced
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from evenmargin import DensityWeights, KernelSVM, LinearSVM, StratifiedNystroem, ZAdjustedClassifier, papers
from evenmargin._device import arrays
from evenmargin.neural import DensityWeightedMLPClassifier
from evenmargin.persistence import load, save
from evenmargin.problem import Status
from evenmargin.selection import LearnedWeights
from evenmargin.stopping import AUCHalting

torch = pytest.importorskip("torch", reason="devices need torch")

from tensors import count_as_gpu, is_there, there  # noqa: E402 (needs torch)


def table(n=200, dtype=np.float64, place=None):
    X, y = imbalanced(n, 4, dtype=dtype)
    return (X, y) if place is None else (X, y, there(X, place))


# --- fits ---


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "options", [{"solver": "smo", "C": 10.0}, {"solver": "sgd", "max_iter": 3000}, {"loss": "log"}]
)
def test_a_fit_to_a_tensor_is_that_to_the_array(place, options, dtype):
    X, y, T = table(place=place, dtype=dtype)
    plain = KernelSVM(class_weight="balanced", random_state=0, **options).fit(X, y)
    machine = clone(plain).fit(T, y)
    for name in ("support_", "support_vectors_", "dual_coef_", "intercept_", "n_support_"):
        found = getattr(machine, name)
        assert is_there(found, place)
        assert found.cpu().numpy().dtype == getattr(plain, name).dtype
    scores = machine.decision_function(T)
    assert is_there(scores, place)
    assert scores.dtype == T.dtype
    tolerance = 5e-4 * np.abs(plain.decision_function(X)).max()
    np.testing.assert_allclose(scores.cpu().numpy(), plain.decision_function(X), atol=tolerance)
    assert machine.objective_ == pytest.approx(plain.objective_, rel=1e-3)


def test_blocked_smo_on_a_device_reaches_the_hosts_optimum(place):
    X, y, T = table(2500, place=place)
    machine, plain = KernelSVM(gamma=0.3).fit(T, y), KernelSVM(gamma=0.3).fit(X, y)
    assert machine.status_ is Status.CONVERGED
    assert machine.objective_ == pytest.approx(plain.objective_, rel=1e-3)
    assert (machine.predict(T).cpu().numpy() == plain.predict(X)).mean() > 0.995


def test_arrays_go_to_the_device_and_results_come_back_as_arrays(place):
    X, y, _ = table(place=place)
    machine = KernelSVM(device=place).fit(X, y)
    assert isinstance(machine.dual_coef_, np.ndarray)
    assert np.array_equal(machine.support_vectors_, X[machine.support_])  # the user's own numbers
    scores = machine.decision_function(X)
    assert isinstance(scores, np.ndarray)
    np.testing.assert_allclose(scores, KernelSVM().fit(X, y).decision_function(X), atol=1e-4)
    assert isinstance(machine.predict(X), np.ndarray)


def test_a_tensor_may_be_computed_on_the_host(monkeypatch):
    X, y = table()
    count_as_gpu(monkeypatch)
    machine = KernelSVM(device="cpu").fit(torch.from_numpy(X), y)
    assert np.array_equal(machine.dual_coef_.numpy(), KernelSVM().fit(X, y).dual_coef_)


def test_the_columns_of_a_frame_keep_their_names_on_a_device(place):
    X, y, _ = table(place=place)
    frame = pd.DataFrame(X, columns=list("abcd"))
    machine = KernelSVM(device=place).fit(frame, y)
    assert machine.feature_names_in_.tolist() == list("abcd")
    assert np.array_equal(machine.predict(frame), KernelSVM(device=place).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        machine.predict(frame.rename(columns={"a": "z"}))


def test_sparse_rows_become_dense_on_a_device(place):
    X, y, _ = table(place=place)
    X[np.abs(X) < 0.5] = 0.0
    machine, dense = KernelSVM(device=place).fit(csr_matrix(X), y), KernelSVM(device=place).fit(X, y)
    np.testing.assert_allclose(machine.decision_function(csr_matrix(X)), dense.decision_function(X), atol=1e-9)


def test_several_classes_are_in_kind_too(place):
    X, _, T = table(place=place)
    y = np.digitize(X[:, 0], [-0.5, 0.7])
    machine, plain = KernelSVM(loss="log").fit(T, y), KernelSVM(loss="log").fit(X, y)
    assert machine.decision_function(T).shape == (200, 3)
    assert is_there(machine.objective_, place)
    for method in ("predict", "predict_proba", "predict_log_proba"):
        found = getattr(machine, method)(T)
        assert is_there(found, place)
        np.testing.assert_allclose(found.cpu().numpy(), getattr(plain, method)(X), atol=1e-3)


@pytest.mark.parametrize("solver", ["smo", "sgd"])
def test_labels_and_weights_may_be_anywhere(place, solver):
    _, y, T = table(place=place)
    weight = np.linspace(0.0, 2.0, y.size)
    machine = KernelSVM(solver=solver, max_iter=500, random_state=0) if solver == "sgd" else KernelSVM()
    plain = clone(machine).fit(T, y.tolist(), weight.tolist())
    machine.fit(T, there(y, place), there(weight, place))
    assert torch.equal(machine.dual_coef_, plain.dual_coef_)
    assert isinstance(machine.classes_, np.ndarray)
    assert machine.score(T, there(y, place), there(weight, place)) == plain.score(T, y, weight)


def test_one_number_is_the_weight_of_every_row(place):
    _, y, T = table(place=place)
    found, wanted = KernelSVM().fit(T, y, torch.tensor(2.0)), KernelSVM().fit(T, y, 2.0)
    assert torch.equal(found.dual_coef_, wanted.dual_coef_)


def test_words_as_labels_are_predicted_as_words(place):
    _, y, T = table(place=place)
    words = np.where(y > 0, "rare", "common")
    found = KernelSVM().fit(T, words).predict(T)
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found == "rare", KernelSVM().fit(T, y).predict(T).cpu().numpy() > 0)


def test_a_fit_does_not_change_the_users_tensor(place):
    for dtype in (np.float32, np.float64):
        _, y, T = table(place=place, dtype=dtype)
        before = T.clone()
        KernelSVM(density="inverse").fit(T, y).predict(T)
        assert torch.equal(T, before)


def test_a_tensor_that_requires_its_gradient_is_taken_for_its_numbers(place):
    _, y, T = table(place=place)
    machine = KernelSVM().fit(T.clone().requires_grad_(), y)
    assert torch.equal(machine.dual_coef_, KernelSVM().fit(T, y).dual_coef_)
    assert not machine.predict(T.clone().requires_grad_()).requires_grad


@pytest.mark.parametrize(
    ("kind", "becomes"),
    [("float16", "float32"), ("bfloat16", "float32"), ("int64", "float64"), ("uint8", "float64"), ("bool", "float64")],
)
@pytest.mark.parametrize("device", ["cpu", None])
def test_half_precision_and_whole_numbers_become_floats(place, kind, becomes, device):
    _, y, T = table(place=place)
    T = (3 * T).abs().to(getattr(torch, kind))
    machine = KernelSVM(device=device).fit(T, y)
    assert machine.support_vectors_.dtype == getattr(torch, becomes)
    assert machine.decision_function(T).dtype == getattr(torch, becomes)


@pytest.mark.parametrize("options", [{"solver": "sgd", "max_iter": 400}, {"solver": "smo", "C": 100.0}])
def test_warm_start_goes_on_from_the_last_fit(place, options):
    X, y, T = table(place=place)
    machine, plain = (KernelSVM(warm_start=True, random_state=0, **options) for _ in range(2))
    once = machine.fit(T, y).decision_function(T)
    twice = machine.fit(T, y).decision_function(T).cpu().numpy()
    wanted = plain.fit(X, y).fit(X, y).decision_function(X)
    np.testing.assert_allclose(twice, wanted, atol=1e-3 * np.abs(wanted).max())
    assert np.allclose(twice, once.cpu().numpy(), atol=1e-6) == (options["solver"] == "smo")  # it was there already


@pytest.mark.parametrize("aside", ["array", "tensor"])
def test_halting_looks_at_rows_aside_wherever_they_are(place, aside):
    X, y, T = table(place=place)
    rule = AUCHalting(every=50, patience=2, validation=((X if aside == "array" else T)[::2], y[::2]))
    machine = KernelSVM(solver="sgd", stopping=rule, random_state=0).fit(T[1::2], y[1::2])
    rule = AUCHalting(every=50, patience=2, validation=(X[::2], y[::2]))
    plain = KernelSVM(solver="sgd", stopping=rule, random_state=0).fit(X[1::2], y[1::2])
    assert machine.status_ is Status.HALTED
    assert machine.n_iter_ == plain.n_iter_
    found, wanted = ([check["auc"] for check in fitted.history_ if "auc" in check] for fitted in (machine, plain))
    assert found == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    "density", ["inverse", DensityWeights("same_class", gamma=2.0), DensityWeights(method="fourier")]
)
def test_density_weights_inside_a_machine_are_those_of_the_host(place, density):
    X, y, T = table(place=place)
    machine = KernelSVM(density=density, random_state=0).fit(T, y)
    plain = KernelSVM(density=density, random_state=0).fit(X, y)
    np.testing.assert_allclose(machine.decision_function(T).cpu().numpy(), plain.decision_function(X), atol=1e-3)


def _product(A, B):
    assert isinstance(A, np.ndarray)
    return A @ B.T


@pytest.mark.parametrize("kernel", ["precomputed", _product])
def test_a_kernel_that_is_given_stays_on_the_host_and_results_are_in_kind(place, kernel):
    X, y, T = table(place=place)
    X, T = (X @ X.T, T @ T.T) if kernel == "precomputed" else (X, T)
    machine, plain = KernelSVM(kernel=kernel).fit(T, y), KernelSVM(kernel=kernel).fit(X, y)
    assert is_there(machine.dual_coef_, place)
    scores = machine.decision_function(T)
    assert is_there(scores, place)
    np.testing.assert_allclose(scores.cpu().numpy(), plain.decision_function(X), atol=1e-4)


def test_a_machine_of_the_papers_takes_a_device(place):
    X, y, _ = table(place=place)
    machine = papers.ksgd(T=300, random_state=0).set_params(device=place).fit(X, y)
    plain = papers.ksgd(T=300, random_state=0).fit(X, y)
    np.testing.assert_allclose(machine.decision_function(X), plain.decision_function(X), atol=1e-2)


# --- one kind in fit, another in predict ---


def test_a_machine_on_a_device_predicts_arrays_and_gives_arrays(place):
    X, y, T = table(place=place)
    machine = KernelSVM().fit(T, y)
    found = machine.decision_function(X)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, machine.decision_function(T).cpu().numpy(), atol=1e-6)


def test_a_machine_on_the_host_predicts_tensors_and_gives_tensors(place):
    X, y, T = table(place=place)
    machine = KernelSVM().fit(X, y)
    found = machine.decision_function(T)
    assert is_there(found, place)
    np.testing.assert_allclose(found.cpu().numpy(), machine.decision_function(X), atol=1e-6)


# --- around the machine ---


@pytest.mark.parametrize("method", ["z", "threshold"])
@pytest.mark.parametrize("cv", [None, 3])
def test_z_is_chosen_from_a_machine_on_a_device(place, method, cv):
    X, y, T = table(place=place)
    model = ZAdjustedClassifier(KernelSVM(), method=method, cv=cv).fit(T, there(y, place))
    plain = ZAdjustedClassifier(KernelSVM(), method=method, cv=cv).fit(X, y)
    assert model.best_score_ == pytest.approx(plain.best_score_, abs=1e-9)
    assert is_there(model.decision_function(T), place)
    assert is_there(model.predict(T), place)
    assert (model.predict(T).cpu().numpy() == plain.predict(X)).mean() > 0.98
    assert model.score(T, y) == pytest.approx(plain.score(X, y), abs=0.02)


def test_z_of_a_frozen_machine_on_a_device(place):
    _, y, T = table(place=place)
    model = ZAdjustedClassifier(FrozenEstimator(KernelSVM().fit(T, y))).fit(T, y)
    assert is_there(model.predict(T), place)


@pytest.mark.parametrize("start", ["ones", "inverse"])
def test_learned_weights_around_a_machine_on_a_device(place, start):
    X, y, T = table(100, place=place)
    model, plain = (LearnedWeights(KernelSVM(), start=start, rounds=1, population=3, random_state=0) for _ in range(2))
    model.fit(T, there(y, place))
    plain.fit(X, y)
    assert isinstance(model.weights_, np.ndarray)
    np.testing.assert_allclose(model.weights_, plain.weights_, rtol=1e-4)
    found = model.predict(T)
    assert is_there(found, place)
    assert np.array_equal(found.cpu().numpy(), plain.predict(X))
    assert 0 < (found > 0).sum() < y.size
    assert model.score(T, there(y, place)) == plain.score(X, y)


@pytest.mark.parametrize(
    ("around", "fits"),
    [
        (lambda machine: ZAdjustedClassifier(machine, cv=3, n_jobs=2), 3 + 1),
        (lambda machine: LearnedWeights(machine, rounds=1, population=2, n_jobs=2, random_state=0), 2 + 1 + 1),
    ],
    ids=["z", "learned"],
)
@pytest.mark.parametrize("given", ["tensor", "device"])
def test_fits_on_a_device_stay_in_one_process(place, monkeypatch, around, fits, given):
    """A process more is a CUDA context more, with a copy of X."""
    X, y, T = table(100, place=place)
    seen, fit = [], KernelSVM.fit

    def counted(self, X, y, sample_weight=None):
        seen.append(1)
        return fit(self, X, y, sample_weight)

    monkeypatch.setattr(KernelSVM, "fit", counted)
    if given == "tensor":
        around(KernelSVM()).fit(T, y)
    else:
        around(KernelSVM(device=place)).fit(X, y)
    assert len(seen) == fits


def test_nystroem_and_a_linear_machine_take_a_tensor_from_rows_to_labels(place):
    X, y, T = table(place=place)
    model = make_pipeline(StratifiedNystroem(n_components=40, random_state=0), LinearSVM())
    plain = clone(model).fit(X, y)
    found = model.fit(T, y).predict(T)
    assert is_there(model[0].transform(T), place)
    assert is_there(found, place)
    assert (found.cpu().numpy() == plain.predict(X)).mean() > 0.98


def test_linear_machines_go_on_from_tensors(place):
    X, y, T = table(place=place)
    machine, plain = (LinearSVM(solver="pegasos", alpha=0.1, random_state=0) for _ in range(2))
    for some in (slice(0, 100), slice(100, 200)):
        machine.partial_fit(T[some], there(y[some], place), classes=[-1, 1])
        plain.partial_fit(X[some], y[some], classes=[-1, 1])
    assert np.array_equal(machine.coef_, plain.coef_)
    assert is_there(machine.predict(T), place)


def test_networks_take_tensors_to_the_host(place):
    X, y, T = table(place=place)
    network, plain = (DensityWeightedMLPClassifier((4,), max_epochs=2, random_state=0) for _ in range(2))
    found = network.fit(T, there(y, place)).predict(T)
    assert np.array_equal(found, plain.fit(X, y).predict(X))


# --- travelling ---


def _joblib(model):
    file = BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def _skops(model, folder):
    return load(save(model, folder / "model.skops"))


WAYS = {
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "joblib": lambda model, _: _joblib(model),
    "deepcopy": lambda model, _: copy.deepcopy(model),
    "save": _skops,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["machine", "pipeline", "adjusted"])
def test_a_machine_on_a_device_travels_and_is_there_again(place, way, kind, tmp_path):
    _, y, T = table(place=place)
    model = {
        "machine": KernelSVM(warm_start=True),
        "pipeline": make_pipeline(StratifiedNystroem(n_components=20, random_state=0), LinearSVM()),
        "adjusted": ZAdjustedClassifier(KernelSVM()),
    }[kind].fit(T, y)
    again = WAYS[way](model, tmp_path)
    assert torch.equal(again.decision_function(T), model.decision_function(T))
    if kind == "machine":
        assert is_there(again.support_vectors_, place)
        assert "_homes" not in vars(again)
    again.fit(T, y)


@pytest.mark.parametrize("way", WAYS)
def test_a_machine_from_a_device_predicts_where_there_is_none(place, way, tmp_path, monkeypatch):
    X, y, T = table(place=place)
    model = KernelSVM().fit(T, y)
    scores = model.decision_function(T).cpu().numpy()
    written = pickle.dumps(model) if way == "pickle" else None

    def nowhere(device):
        raise ValueError("no such device")

    monkeypatch.setattr(arrays, "find_device", nowhere)
    again = pickle.loads(written) if written else WAYS[way](model, tmp_path)
    assert isinstance(again.support_vectors_, np.ndarray)
    np.testing.assert_allclose(again.decision_function(X), scores, atol=1e-6)


@pytest.mark.parametrize("said", ["Cannot re-initialize CUDA in forked subprocess.", "CUDA out of memory."])
def test_a_machine_whose_device_cannot_be_had_is_loaded_to_the_host(place, monkeypatch, said):
    X, y, T = table(place=place)
    model = KernelSVM().fit(T, y)
    written = pickle.dumps(model)

    def refused(home, array):
        raise RuntimeError(said)

    with monkeypatch.context() as patch:
        patch.setattr(arrays.Home, "give", refused)
        again = pickle.loads(written)
    assert isinstance(again.support_vectors_, np.ndarray)
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X), atol=1e-6)


def test_a_pickle_of_a_machine_on_a_device_names_nothing_of_torch(place):
    _, y, T = table(place=place)
    assert b"torch" not in pickle.dumps(KernelSVM().fit(T, y))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_loaded_machine_whose_device_is_missing_says_how_to_do_without(tmp_path):
    X, y = table()
    path = save(KernelSVM().fit(X, y).set_params(device="cuda"), tmp_path / "model.skops")
    model = load(path)
    with pytest.raises(ValueError, match=r"no CUDA device here: .* set_params\(device=None\)"):
        model.predict(X)
    assert model.set_params(device=None).predict(X).shape == y.shape


def test_clone_keeps_the_device_and_forgets_the_fit(place):
    X, y, _ = table(place=place)
    again = clone(KernelSVM(device=place).fit(X, y))
    assert again.device == place
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(again)


@pytest.mark.parametrize("kind", ["machine", "pipeline", "adjusted"])
def test_a_machine_on_a_device_is_exported_as_onnx(place, kind):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    pytest.importorskip("skl2onnx", reason="needs skl2onnx")
    from evenmargin.onnx import check_onnx, to_onnx

    X, y, T = table(place=place)
    model = {
        "machine": KernelSVM(),
        "pipeline": make_pipeline(StratifiedNystroem(n_components=20, random_state=0), LinearSVM()),
        "adjusted": ZAdjustedClassifier(KernelSVM()),
    }[kind].fit(T, y)
    proto = to_onnx(model, T)
    assert check_onnx(proto, model, T).passed
    assert check_onnx(proto, model, X).passed
