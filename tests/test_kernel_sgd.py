"""Blocked kernel SGD against the papers' rules, one step at a time."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from conftest import imbalanced
from scipy.sparse import csr_matrix
from sklearn.metrics.pairwise import rbf_kernel

from evenmargin import KernelSVM
from evenmargin.losses import Blinex
from evenmargin.sampling import Given
from evenmargin.solvers import KernelSGD
from evenmargin.stopping import AUCHalting

N, T = 200, 1100  # more than two blocks, rows drawn again and again
X, Y = imbalanced(N, 5)
K = rbf_kernel(X, gamma=0.4)
ORDER = np.random.default_rng(3).integers(N, size=T)
LOSSES = {"hinge": "hinge", "squared_hinge": "squared_hinge", "log": "log", "blinex": Blinex(1.0, 1.0)}
COUNTS = np.where(Y > 0, (Y > 0).sum(), (Y < 0).sum())
WEIGHTS = {None: np.ones(N), "balanced": N / (2 * COUNTS), "inverse": 1.0 / COUNTS}


def machine(loss, steps=T, **options):
    options = {"intercept": None, "alpha": 1e-2, "gamma": 0.4, "solver": "sgd", **options}
    return KernelSVM(loss=LOSSES[loss], sampling=Given(ORDER), max_iter=steps, random_state=0, **options)


def dense(svm, n=N):
    beta = np.zeros(n)
    beta[svm.support_] = svm.dual_coef_[0]
    return beta


# Between these, a step of Blinex is so long that the plain loop differs from itself by a third when K moves by 1e-15.
@pytest.mark.parametrize("lam", [1e-1, 1e-3, 1e-8])
@pytest.mark.parametrize("class_weight", WEIGHTS, ids=str)
@pytest.mark.parametrize("loss", ["hinge", "log", "blinex"])
def test_the_iterates_are_those_of_one_step_at_a_time(loss, class_weight, lam):
    beta = naive.kernel_pegasos(K, Y, ORDER, lam, WEIGHTS[class_weight], loss)
    found = dense(machine(loss, alpha=lam, class_weight=class_weight).fit(X, Y))
    assert np.abs(found - beta).max() <= 1e-8 * np.abs(beta).max()


@pytest.mark.parametrize("steps", [1, 2, 511, 512, 513, 1030])
@pytest.mark.parametrize("loss", LOSSES)
def test_any_number_of_steps_gives_the_prefix(loss, steps):
    radius = np.inf
    if loss == "squared_hinge":  # its slope has no bound: the first steps are kept within a ball that holds the optimum
        radius = np.sqrt(2.0 / 1e-2)
    beta = naive.kernel_pegasos(K, Y, ORDER[:steps], 1e-2, np.ones(N), loss, radius=radius)
    found = dense(machine(loss, steps).fit(X, Y))
    assert np.abs(found - beta).max() <= 1e-8 * np.abs(beta).max()


@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize(("intercept", "options"), [(0.7, {"bias": 0.7}), ("augmented", {"augmented": True})])
def test_a_given_and_a_penalised_bias(loss, intercept, options):
    beta = naive.kernel_pegasos(K, Y, ORDER, 1e-2, np.ones(N), loss, **options)
    svm = machine(loss, intercept=intercept).fit(X, Y)
    assert np.abs(dense(svm) - beta).max() <= 1e-8 * np.abs(beta).max()
    assert svm.intercept_[0] == pytest.approx(0.7 if intercept == 0.7 else beta.sum())


@pytest.mark.parametrize("augmented", [False, True])
def test_projection_keeps_w_in_the_ball(augmented):
    beta = naive.kernel_pegasos(K, Y, ORDER, 1e-3, np.ones(N), radius=1e-3**-0.5, augmented=augmented)
    options = {"intercept": "augmented" if augmented else None, "alpha": 1e-3, "solver": KernelSGD(project=True)}
    found = dense(machine("hinge", **options).fit(X, Y))
    assert np.abs(found - beta).max() <= 1e-8 * np.abs(beta).max()


@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_sparse_float32_precomputed_and_callable_take_the_same_steps(loss):
    plain = dense(machine(loss).fit(X, Y))
    wide = np.hstack([X, np.zeros((N, 300))])  # sparse enough for products with CSR
    for rows in (csr_matrix(X), csr_matrix(wide)):
        assert np.abs(dense(machine(loss).fit(rows, Y)) - plain).max() <= 1e-8 * np.abs(plain).max()
    assert np.abs(dense(machine(loss, kernel="precomputed").fit(K, Y)) - plain).max() <= 1e-8 * np.abs(plain).max()
    own = machine(loss, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.4)).fit(X, Y)
    assert np.abs(dense(own) - plain).max() <= 1e-8 * np.abs(plain).max()
    single = dense(machine(loss).fit(X.astype(np.float32), Y))
    assert np.abs(single - plain).max() <= 1e-3 * np.abs(plain).max()


def test_threads_do_not_change_a_bit():
    rows = np.random.default_rng(0).standard_normal((3000, 8))
    labels = np.where(rows[:, 0] > 1, 1, -1)
    options = {"solver": "sgd", "max_iter": 6000, "random_state": 0}
    machines = [KernelSVM(n_jobs=jobs, **options).fit(rows, labels) for jobs in (1, 2)]
    assert np.array_equal(machines[0].dual_coef_, machines[1].dual_coef_)
    assert machines[0].intercept_ == machines[1].intercept_


def test_class_balanced_sampling_counts_the_imbalance_once():
    lam, svm = 1e-2, KernelSVM(
        alpha=1e-2, class_weight="balanced", sampling="balanced", solver="sgd", intercept=0.3, gamma=0.4, max_iter=900,
        random_state=5,
    )  # fmt: skip
    found = dense(svm.fit(X, Y))
    counts = np.rint(found * lam * 900)  # α of the paper: how often each row was violated
    assert np.allclose(found * lam * 900, counts, atol=1e-8)
    assert np.array_equal(np.sign(counts[counts != 0]), Y[counts != 0])


def test_warm_start_goes_on_counting():
    half = machine("hinge", T // 2, warm_start=True).fit(X, Y)
    half.set_params(sampling=Given(ORDER[T // 2 :]), max_iter=T - T // 2).fit(X, Y)
    whole = dense(machine("hinge").fit(X, Y))
    assert np.abs(dense(half) - whole).max() <= 1e-8 * np.abs(whole).max()


def test_halting_on_auc_stops_and_keeps_the_best():
    rule = AUCHalting(every=40, patience=3, keep_best=True)
    svm = KernelSVM(alpha=1e-2, stopping=rule, gamma=0.4, intercept=0.0, random_state=0).fit(X, Y)
    assert svm.solver_ == "sgd"
    checks = [entry["auc"] for entry in svm.history_ if "auc" in entry]
    assert "halted" in svm.status_.value
    assert len(checks) >= 4
    from sklearn.metrics import roc_auc_score

    assert roc_auc_score(Y, svm.decision_function(X)) == pytest.approx(max(checks))
    aside = imbalanced(100, 5, seed=1)
    other = KernelSVM(alpha=1e-2, stopping=AUCHalting(40, validation=aside), gamma=0.4, random_state=0).fit(X, Y)
    assert "halted" in other.status_.value


def test_the_mean_over_seeds_nears_the_optimum():
    exact = KernelSVM(alpha=1e-2, gamma=0.4).fit(X, Y)
    objectives = [
        KernelSVM(alpha=1e-2, gamma=0.4, solver="sgd", max_iter=20_000, random_state=seed).fit(X, Y).objective_
        for seed in range(5)
    ]
    assert exact.objective_ <= min(objectives)
    assert np.mean(objectives) <= 1.02 * exact.objective_
