"""KernelSVM as an estimator: scikit-learn's checks, attributes, weights, classes, sparse input."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import imbalanced
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenmargin import KernelSVM, LinearSVM, ZAdjustedClassifier
from evenmargin._util.threads import Workers, available_cores
from evenmargin.stopping import AUCHalting

STOCHASTIC = {
    "check_sample_weight_equivalence_on_dense_data": "a stochastic solver is equivalent in expectation only",
    "check_sample_weight_equivalence_on_sparse_data": "a stochastic solver is equivalent in expectation only",
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The kernel is not positive definite")
@parametrize_with_checks(
    [
        KernelSVM(),
        KernelSVM(C=10.0, class_weight="balanced", gamma=0.1),
        KernelSVM(kernel="poly", gamma=1e-4, degree=2, coef0=1.0),
        KernelSVM(kernel="linear", intercept="augmented"),
        KernelSVM(loss="squared_hinge", intercept=None),
        KernelSVM(loss="log"),
        KernelSVM(loss="squared_hinge", solver="lbfgs"),
        KernelSVM(loss="blinex"),
        KernelSVM(kernel="precomputed"),
        KernelSVM(solver="sgd", max_iter=2000),
        KernelSVM(solver="sgd", loss="log", sampling="balanced", max_iter=2000),
    ],
    expected_failed_checks=lambda estimator: STOCHASTIC if estimator.solver == "sgd" else {},
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


X, Y = imbalanced(300, 5)


def test_attributes_are_those_of_svc():
    svm, peer = KernelSVM(gamma=0.3).fit(X, Y), SVC(gamma=0.3, tol=1e-8).fit(X, Y)
    assert np.array_equal(svm.support_, np.sort(peer.support_))
    assert np.array_equal(svm.support_vectors_, X[svm.support_])
    assert np.array_equal(svm.n_support_, peer.n_support_)
    assert svm.dual_coef_.shape == (1, svm.support_.size)
    assert np.array_equal(np.sign(svm.dual_coef_[0]), Y[svm.support_])
    order = np.argsort(peer.support_)
    assert np.allclose(svm.dual_coef_[0], peer.dual_coef_[0, order], atol=1e-4)
    assert svm.intercept_ == pytest.approx(peer.intercept_, abs=1e-4)
    assert svm.kernel_.gamma == 0.3


def test_several_classes_are_one_against_the_rest():
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 1.5])]
    svm = KernelSVM(gamma=0.3, class_weight="balanced", tol=1e-5).fit(X, labels)
    assert svm.dual_coef_.shape == (3, svm.support_.size)
    assert svm.dual_gap_.shape == (3,)
    for place, label in enumerate(svm.classes_):
        alone = KernelSVM(gamma=0.3, class_weight="balanced", tol=1e-5).fit(X, labels == label)
        assert np.allclose(svm.decision_function(X)[:, place], alone.decision_function(X), atol=1e-5)
    assert svm.score(X, labels) > 0.9
    proba = KernelSVM(gamma=0.3, loss="log").fit(X, labels).predict_proba(X)
    assert np.allclose(proba.sum(axis=1), 1.0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["hinge", "squared_hinge", "log"]), st.sampled_from([0.1, 1.0, 30.0]))
def test_a_weight_is_a_repetition(seed, loss, C):
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 4, 60)
    rows, labels = X[:60], Y[:60]
    if np.unique(labels[weight > 0]).size < 2:
        return
    weighted = KernelSVM(C=C, loss=loss, class_weight="balanced").fit(rows, labels, weight)
    repeated = KernelSVM(C=C, loss=loss, class_weight="balanced").fit(
        np.repeat(rows, weight, axis=0), np.repeat(labels, weight)
    )
    assert weighted.kernel_.gamma == pytest.approx(repeated.kernel_.gamma)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-7)
    assert np.allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-5)


def test_loading_and_predicting_never_import_numba(tmp_path):
    path = tmp_path / "models.pkl"
    rows, labels = imbalanced(1500, 5)
    models = [
        KernelSVM(C=0.5).fit(rows, labels), KernelSVM(loss="log").fit(X, Y),
        ZAdjustedClassifier(KernelSVM()).fit(X, Y), ZAdjustedClassifier(LinearSVM()).fit(X, Y),
    ]  # fmt: skip
    assert models[0]._single
    path.write_bytes(pickle.dumps(models))
    code = (
        "import pickle, sys, numpy as np, evenmargin, evenmargin.papers\n"
        f"for model in pickle.load(open({str(path)!r}, 'rb')):\n"
        "    model.predict(np.zeros((3, 5)))\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


FIT = """
import numpy as np
from evenmargin import DensityWeights, KernelSVM
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 3))
y = np.where(X[:, 0] + 0.5 * rng.standard_normal(60) > 0.8, 1, 0)
for options in (
    {}, {"C": 100.0}, {"intercept": None}, {"loss": "squared_hinge"}, {"loss": "log"}, {"loss": "blinex"},
    {"solver": "sgd", "max_iter": 300, "random_state": 0},
):
    print(options, np.round(KernelSVM(**options).fit(X, y).decision_function(X[:3]), 6) + 0.0)
print(np.round(DensityWeights("density").fit_weights(X.astype(np.float32))[:3], 4))
"""


def test_the_loops_run_without_the_jit():
    runs = [
        subprocess.run(
            [sys.executable, "-c", FIT], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONWARNINGS": "error", "NUMBA_DISABLE_JIT": disable},
        ).stdout
        for disable in ("0", "1")
    ]  # fmt: skip
    assert runs[0] == runs[1]


def test_the_bar_shows_rounds(capfd):
    KernelSVM(verbose=1).fit(X, Y)
    assert "1" in capfd.readouterr().out


@pytest.mark.parametrize("kind", [LinearSVM, KernelSVM])
def test_random_density_weights_follow_the_seed(kind):
    objectives = [kind(density="random", random_state=seed).fit(X, Y).objective_ for seed in (0, 0, 1)]
    assert objectives[0] == objectives[1] != objectives[2]


def test_rows_set_aside_for_a_precomputed_kernel_with_rows_of_no_weight():
    weight = np.ones(300)
    weight[:80] = 0
    K = rbf_kernel(X, gamma=0.3)
    rule = AUCHalting(every=50, halt=False, validation=(K, Y))
    options = {"kernel": "precomputed", "solver": "sgd", "max_iter": 200, "random_state": 0}
    weighted = KernelSVM(stopping=rule, **options).fit(K, Y, weight)
    left = AUCHalting(every=50, halt=False, validation=(K[:, 80:], Y))
    removed = KernelSVM(stopping=left, **options).fit(K[80:, 80:], Y[80:])
    assert [e["auc"] for e in weighted.history_ if "auc" in e] == [e["auc"] for e in removed.history_ if "auc" in e]


def test_threads_are_as_many_as_asked_for(monkeypatch):
    opened = []
    start = Workers.__init__

    def record(self, threads=None):
        start(self, threads)
        opened.append(self.threads)

    monkeypatch.setattr(Workers, "__init__", record)
    rows, labels = imbalanced(2500, 5)
    KernelSVM(n_jobs=1).fit(rows, labels).predict(rows)
    assert set(opened) == {1}
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert available_cores() == 1
