"""The papers' kernel machines: each composition against its paper's own formulas."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from conftest import imbalanced
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from evenmargin import DensityWeights, LinearSVM, ZAdjustedClassifier, papers
from evenmargin.density import SCHEMES
from evenmargin.sampling import Given

N, T = 150, 600
X, Y = imbalanced(N, 4)
ORDER = np.random.default_rng(0).integers(N, size=T)
COUNTS = np.where(Y > 0, (Y > 0).sum(), (Y < 0).sum())


def dense(svm):
    beta = np.zeros(N)
    beta[svm.support_] = svm.dual_coef_[0]
    return beta


@pytest.mark.parametrize(("machine", "loss"), [(papers.ksgd, "hinge"), (papers.wksgd, "log")])
def test_ksgd_and_wksgd(machine, loss):
    """w_{t+1} = (1/t) Σ j β_j φ(x_j), β_t = s σ_t y/(λt), the margin of step j with divisor j − 1."""
    lam, K = 1e-3, rbf_kernel(X, gamma=1 / 1.5**2)
    weight = np.ones(N) if loss == "hinge" else 1.0 / COUNTS
    sums = np.zeros(N)  # Σ j β_j for each row
    for t, i in enumerate(ORDER, start=1):
        score = sums @ K[i] / (t - 1) if t > 1 else 0.0
        sums[i] += weight[i] * naive.pull(loss, Y[i] * score, Y[i]) * Y[i] / lam
    svm = machine(lam=lam, T=T).set_params(sampling=Given(ORDER)).fit(X, Y)
    assert np.abs(dense(svm) - sums / T).max() <= 1e-9 * np.abs(sums / T).max()
    assert svm.intercept_[0] == 0.0


@pytest.mark.parametrize("double_count", [False, True])
def test_kernel_pegasos_counts_violations(double_count):
    """α counts; violated when y_i (Σ α_j y_j K(x_j, x_i)/(λ(t − 1)) + b) < 1; weight 1, or 1/(2 n of the class)."""
    lam, b, K = 0.1, 0.4, rbf_kernel(X, gamma=0.5)
    svm = papers.cost_sensitive_pegasos(
        lam=lam, b=b, T=T, double_count=double_count, kernel="rbf", gamma=0.5, random_state=3
    ).fit(X, Y)
    order = _balanced_order(3)
    alpha = np.zeros(N)
    for t, i in enumerate(order, start=1):
        score = (alpha * Y) @ K[i] / (lam * (t - 1)) if t > 1 else 0.0
        if Y[i] * (score + b) < 1:
            alpha[i] += 1.0 / (2 * COUNTS[i]) if double_count else 1.0
    assert np.allclose(dense(svm), alpha * Y / (lam * T), rtol=1e-9)
    assert svm.intercept_[0] == b


def _balanced_order(random_state):
    from evenmargin._input.checks import seed_from
    from evenmargin.sampling import ClassBalanced

    seed = seed_from(random_state) + 1  # of the class in question, the second
    return ClassBalanced().stream(Y.astype(float), np.random.default_rng([seed, 0]))(T)


def test_kernel_pegasos_halts_on_auc():
    svm = papers.cost_sensitive_pegasos(lam=0.1, X=20, kernel="rbf", gamma=0.5, random_state=0).fit(X, Y)
    assert "ROC-AUC" in svm.status_.value
    assert svm.n_iter_ % 20 == 0
    assert isinstance(papers.cost_sensitive_pegasos(), LinearSVM)


@pytest.mark.parametrize("printed", [False, True])
def test_the_kernel_blinex_machine(printed):
    """w_{t+1} = (abc/t) Σ α_j φ(x_j), α += (e^u − 1)/(1 + bE)², with c·l where the objective is meant."""
    a, b, c, K = 1.2, 0.5, 0.3, rbf_kernel(X, gamma=0.5)
    scale, alpha = a * b * c * (1 if printed else N), np.zeros(N)
    for t, i in enumerate(ORDER, start=1):
        score = scale * alpha @ K[i] / (t - 1) if t > 1 else 0.0
        u = a * Y[i] * max(0.0, 1.0 - Y[i] * score)
        alpha[i] += (np.exp(u) - 1.0) / (1.0 + b * (np.exp(u) - u - 1.0)) ** 2
    svm = papers.blinex_kernel(a, b, c, T, gamma=0.5, printed_constant=printed).set_params(sampling=Given(ORDER))
    beta = scale * alpha / T
    assert np.abs(dense(svm.fit(X, Y)) - beta).max() <= 1e-8 * np.abs(beta).max()


@pytest.mark.parametrize("scheme", range(1, 9))
def test_gwl_is_svc_with_density_weights(scheme):
    if scheme == 7:  # rows among strangers have weight 0, and scikit-learn stumbles over these
        weight = DensityWeights(7, gamma=2.0).fit_weights(X, Y)
        kept = weight > 0
    else:
        weight = DensityWeights(scheme, gamma=2.0, random_state=0).fit_weights(X, Y)
        kept = np.full(N, True)
    ours = papers.gwl_svc(C=0.5, gamma_K=0.3, scheme=scheme, gamma_S=2.0, random_state=0).fit(X, Y)
    peer = SVC(C=0.5, gamma=0.3, tol=1e-8).fit(X[kept], Y[kept], weight[kept])
    assert np.abs(ours.decision_function(X) - peer.decision_function(X)).max() < 1e-3
    named = papers.gwl_svc(C=0.5, gamma_K=0.3, scheme=SCHEMES[scheme - 1], gamma_S=2.0, random_state=0).fit(X, Y)
    assert np.array_equal(named.dual_coef_, ours.dual_coef_)


def test_zsvm_is_at_least_as_good_as_the_golden_section():
    exact, golden = papers.zsvm().fit(X, Y), papers.zsvm(search="golden").fit(X, Y)
    assert isinstance(exact, ZAdjustedClassifier)
    assert exact.best_score_ >= golden.best_score_
    p, q, b = exact.estimator_.split_decision(X)
    assert np.allclose(exact.decision_function(X), exact.z_ * p + q + b)


def test_z_through_the_dual_of_the_linear_machine():
    for loss, solver in [("hinge", "newton"), ("hinge", "dual_cd"), ("log", "lbfgs")]:
        svm = LinearSVM(loss=loss, solver=solver, tol=1e-10).fit(X, Y)
        up, down, b = svm.split_decision(X)
        assert np.allclose(up + down + b, svm.decision_function(X))
        kernel = papers.KernelSVM(kernel="linear", loss=loss, tol=1e-6).fit(X, Y)
        assert np.allclose(up, kernel.split_decision(X)[0], atol=1e-3 * np.abs(up).max())
    with pytest.raises(ValueError, match=r"no dual to split.*'pegasos'"):
        ZAdjustedClassifier(LinearSVM(solver="pegasos", max_iter=100)).fit(X, Y)


def test_z_after_smote_in_a_pipeline():
    imblearn = pytest.importorskip("imblearn.over_sampling")
    from imblearn.pipeline import make_pipeline

    pipe = make_pipeline(imblearn.SMOTE(random_state=0), papers.zsvm(gamma=0.3)).fit(X, Y)
    assert pipe.score(X, Y) > 0.7
    outside = ZAdjustedClassifier(make_pipeline(imblearn.SMOTE(random_state=0), papers.KernelSVM(gamma=0.3))).fit(X, Y)
    assert outside.best_score_ > 0.7
