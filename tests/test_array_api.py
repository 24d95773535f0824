"""scikit-learn's array API convention: what a tensor means, with dispatch on and off."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import imbalanced
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

from evenmargin import KernelSVM, LinearSVM, ZAdjustedClassifier

torch = pytest.importorskip("torch", reason="tensors need torch")


@pytest.fixture(params=["host", "device"])
def where(request, dispatch_allowed):
    """CPU tensors computed by NumPy, as they are, or by what a GPU would run."""
    if request.param == "device":
        request.getfixturevalue("on_device")


def tensors(n=120, dtype=np.float64):
    X, y = imbalanced(n, 4, dtype=dtype)
    return torch.from_numpy(X), torch.from_numpy(y), X, y


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize("solver", ["exact", "sgd"])
@pytest.mark.usefixtures("where")
def test_kernel_machines_pass_scikit_learns_checks_with_values(solver, loss, dtype):
    if solver == "exact":
        solver = {"hinge": "smo", "log": "lbfgs"}[loss]
    machine = KernelSVM(solver=solver, loss=loss, random_state=0)
    estimator_checks.check_array_api_input(
        "KernelSVM", machine, "torch", "cpu", dtype, check_values=True, check_sample_weight=True
    )
    estimator_checks.check_array_api_input("KernelSVM", machine, "torch", "cpu", dtype)


@pytest.mark.parametrize("method", ["z", "threshold"])
@pytest.mark.usefixtures("where")
def test_adjusted_machines_pass_scikit_learns_checks_with_values(method):
    machine = ZAdjustedClassifier(KernelSVM(), method=method)
    estimator_checks.check_array_api_input("ZAdjustedClassifier", machine, "torch", "cpu", "float64", check_values=True)


@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.usefixtures("where")
def test_rows_of_another_kind_than_in_fit_are_refused_under_dispatch(loss):
    check = getattr(estimator_checks, "check_array_api_same_namespace", None)
    if check is None:
        pytest.skip("scikit-learn has no such rule before 1.9")
    check("KernelSVM", KernelSVM(loss=loss), "torch", "cpu")


@pytest.mark.usefixtures("where", "dispatch")
def test_everything_follows_x():
    T, t, X, y = tensors()
    from_host, from_there = KernelSVM().fit(T, y), KernelSVM().fit(X, t)
    assert isinstance(from_host.dual_coef_, torch.Tensor)
    assert isinstance(from_there.dual_coef_, np.ndarray)
    assert isinstance(from_host.predict(T), torch.Tensor)
    np.testing.assert_allclose(from_host.dual_coef_.numpy(), from_there.dual_coef_, rtol=1e-6)


@pytest.mark.usefixtures("where", "dispatch")
def test_words_as_labels_stay_with_numpy():
    T, _, _, y = tensors()
    machine = KernelSVM().fit(T, np.where(y > 0, "rare", "common"))
    assert isinstance(machine.decision_function(T), torch.Tensor)
    found = machine.predict(T)
    assert isinstance(found, np.ndarray)
    assert set(found) == {"rare", "common"}


@pytest.mark.usefixtures("where")
def test_without_dispatch_a_cpu_tensor_is_an_array():
    T, t, X, y = tensors()
    machine, plain = KernelSVM().fit(T, t), KernelSVM().fit(X, y)
    assert isinstance(machine.support_vectors_, np.ndarray)
    assert isinstance(machine.predict(T), np.ndarray)
    assert np.array_equal(machine.decision_function(T), plain.decision_function(X))


@pytest.mark.usefixtures("dispatch")
def test_on_the_cpu_the_answer_is_numpys_to_the_last_bit():
    T, t, X, y = tensors(dtype=np.float32)
    machine, plain = KernelSVM(C=10).fit(T, t), KernelSVM(C=10).fit(X, y)
    assert np.array_equal(machine.decision_function(T).numpy(), plain.decision_function(X))


@pytest.mark.usefixtures("where", "dispatch")
def test_linear_machines_give_predictions_in_kind():
    T, t, X, y = tensors()
    machine, plain = LinearSVM(loss="log").fit(T, t), LinearSVM(loss="log").fit(X, y)
    for method in ("decision_function", "predict", "predict_proba", "predict_log_proba"):
        found = getattr(machine, method)(T)
        assert isinstance(found, torch.Tensor)
        assert np.array_equal(found.numpy(), getattr(plain, method)(X))


@pytest.mark.usefixtures("where", "dispatch")
def test_a_pipeline_of_scikit_learns_scaler_and_a_machine_stays_with_tensors():
    T, t, X, y = tensors()
    found = make_pipeline(StandardScaler(), KernelSVM()).fit(T, t).decision_function(T)
    assert isinstance(found, torch.Tensor)
    wanted = make_pipeline(StandardScaler(), KernelSVM()).fit(X, y).decision_function(X)
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-6)


@pytest.mark.usefixtures("where", "dispatch")
def test_cross_validation_takes_tensors():
    T, t, X, y = tensors()
    assert cross_val_score(KernelSVM(), T, t, cv=3).tolist() == cross_val_score(KernelSVM(), X, y, cv=3).tolist()


class Elsewhere:
    """An array of another library, as far as anyone looks."""

    def __init__(self, kind):
        self.shape, self.dtype = (3, 2), np.dtype(float)
        if kind == "cupy":
            self.__cuda_array_interface__ = {}

    def __getitem__(self, rows):
        return self

    def __array_namespace__(self, **_):
        return np


@pytest.mark.parametrize("machine", [KernelSVM(), LinearSVM(), ZAdjustedClassifier(KernelSVM())])
@pytest.mark.parametrize("kind", ["cupy", "jax"])
@pytest.mark.usefixtures("dispatch")
def test_arrays_of_other_libraries_are_refused_in_one_sentence(machine, kind):
    X, y = imbalanced(30, 2)
    fitted = machine.fit(X, y)
    with pytest.raises(TypeError, match=r"Elsewhere, which is not supported: .* torch\.from_dlpack"):
        fitted.fit(Elsewhere(kind), [0, 1, 1])
    with pytest.raises(TypeError, match="torch tensor"):
        fitted.predict(Elsewhere(kind))


def test_without_dispatch_arrays_on_a_gpu_of_other_libraries_are_refused_too():
    with pytest.raises(TypeError, match="torch tensor"):
        KernelSVM().fit(Elsewhere("cupy"), [0, 1, 1])


def test_machines_follow_the_convention_where_scipy_does_too():
    code = """
import numpy as np, sklearn, torch
from evenmargin import KernelSVM
X, y = np.arange(8.0).reshape(4, 2), [0, 0, 1, 1]
wanted = KernelSVM(loss="log").fit(X, y).predict_proba(X)  # by a function of SciPy, which is another one then
with sklearn.config_context(array_api_dispatch=True):
    T = torch.from_numpy(X)
    assert np.array_equal(KernelSVM(loss="log").fit(T, y).predict_proba(T).numpy(), wanted)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, env={**os.environ, "SCIPY_ARRAY_API": "1"})


def test_numpy_rows_never_import_torch():
    code = (
        "import sys, numpy as np; from evenmargin import KernelSVM; "
        "X = np.arange(8.0).reshape(4, 2); KernelSVM().fit(X, [0, 0, 1, 1]).predict(X); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
