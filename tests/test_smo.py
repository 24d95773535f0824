"""Blocked SMO against LIBSVM, against its own certificate, and against itself."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from conftest import imbalanced
from scipy.sparse import csr_matrix, random_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

from evenmargin import KernelSVM, LinearSVM
from evenmargin.solvers import SMO

KERNELS = {
    "rbf": ({"kernel": "rbf", "gamma": 0.3}, lambda A, B: rbf_kernel(A, B, gamma=0.3)),
    "linear": ({"kernel": "linear"}, linear_kernel),
    "poly": (
        {"kernel": "poly", "gamma": 0.2, "degree": 2, "coef0": 1.0},
        lambda A, B: polynomial_kernel(A, B, gamma=0.2, degree=2, coef0=1.0),
    ),
}
X, Y = imbalanced(400)


def weights(kind, y=Y):
    rng = np.random.default_rng(1)
    each = {"none": np.ones(y.size), "random": rng.exponential(size=y.size), "wide": 10.0 ** rng.uniform(-3, 1, y.size)}
    return each[kind]


def dual(K, beta, y):
    """The dual objective, to be minimised as LIBSVM writes it."""
    return 0.5 * beta @ K @ beta - np.abs(beta).sum()


def coefficients(svm, n):
    beta = np.zeros(n)
    beta[svm.support_] = np.asarray(svm.dual_coef_).ravel()
    return beta


@pytest.mark.parametrize("kind", ["none", "random", "wide"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {1: 7.0}], ids=str)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_dual_objective_is_at_most_libsvms(kernel, C, class_weight, kind):
    options, function = KERNELS[kernel]
    K, weight = function(X, X), weights(kind)
    if class_weight == "balanced":  # ours counts weights: give SVC the same costs
        positive = Y > 0
        totals = np.where(positive, weight[positive].sum(), weight[~positive].sum())
        peer = SVC(C=C, tol=1e-6, **options).fit(X, Y, weight * weight.sum() / (2 * totals))
    else:
        peer = SVC(C=C, tol=1e-6, class_weight=class_weight, **options).fit(X, Y, weight)
    svm = KernelSVM(C=C, tol=1e-6, class_weight=class_weight, **options).fit(X, Y, weight)
    ours, theirs = coefficients(svm, 400), coefficients(peer, 400)
    assert abs(ours.sum()) <= 1e-9 * np.abs(ours).sum()
    assert dual(K, ours, Y) <= dual(K, theirs, Y) + 1e-6 * abs(dual(K, theirs, Y))
    scale = np.abs(svm.decision_function(X)).max()
    # LIBSVM's kernel rows are in float32; a polynomial one at a large C amplifies that.
    allowed = 1e-3 if C <= 1 or kernel == "rbf" else 3e-3
    apart = svm.decision_function(X) - peer.decision_function(X)
    price = svm.C * weight  # of the rows, but for the class weights, which no test below depends on
    if not np.any((np.abs(ours) > 1e-6 * price) & (np.abs(svm.decision_function(X) * Y - 1.0) < 1e-4)):
        apart -= np.median(apart)  # no row on the margin: b is one of an interval, and SVC's choice is rounding's
    assert np.abs(apart).max() <= allowed * max(1.0, scale)


def recomputed_gap(svm, X, y, price, K):
    beta = coefficients(svm, y.size) * np.where(svm.classes_[1] == 1, 1, -1)
    scores = K @ beta + svm.intercept_[0]
    primal = 0.5 * beta @ K @ beta + price @ np.maximum(0.0, 1.0 - y * scores)
    return primal, primal + dual(K, beta, y)


@pytest.mark.parametrize("n", [300, 2500])
@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-5])
@pytest.mark.parametrize("d", [6, 250])
def test_the_reported_gap_is_true(n, tol, d):
    rows, y = imbalanced(n, 6)
    rows = np.hstack([rows, 0.1 * np.random.default_rng(0).standard_normal((n, d - 6))])
    svm = KernelSVM(C=5.0, gamma=0.2, tol=tol).fit(rows, y)
    assert svm.status_.value.startswith("converged")
    primal, gap = recomputed_gap(svm, rows, y, np.full(n, 5.0), rbf_kernel(rows, gamma=0.2))
    assert svm.objective_ == pytest.approx(primal, rel=1e-6)
    assert gap <= tol * primal
    assert abs(gap - svm.dual_gap_) <= 1e-6 * primal + 0.02 * gap


@pytest.mark.parametrize("intercept", ["free", "augmented", None, 0.4], ids=str)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("n", [300, 2600])
def test_every_intercept_and_both_losses_against_the_linear_machine(n, loss, intercept):
    rows, y = imbalanced(n, 5)
    options = {"C": 0.5, "loss": loss, "intercept": intercept, "class_weight": "balanced"}
    linear = LinearSVM(tol=1e-9, **options).fit(rows, y)
    kernel = KernelSVM(kernel="linear", tol=1e-6, **options).fit(rows, y)
    assert linear.objective_ * (1 - 1e-8) <= kernel.objective_ <= linear.objective_ * (1 + 2e-6)
    assert np.abs(kernel.decision_function(rows) - linear.decision_function(rows)).max() < 1e-3


def test_the_smooth_exact_solver_agrees_on_the_squared_hinge():
    options = {"C": 3.0, "loss": "squared_hinge", "gamma": 0.3, "tol": 1e-5}
    smo, lbfgs = (KernelSVM(solver=solver, **options).fit(X, Y) for solver in ("smo", "lbfgs"))
    assert smo.objective_ == pytest.approx(lbfgs.objective_, rel=1e-9)
    assert np.abs(smo.decision_function(X) - lbfgs.decision_function(X)).max() < 1e-5


def test_log_loss_is_exact_too():
    options = {"C": 0.7, "loss": "log", "class_weight": "balanced"}
    linear = LinearSVM(tol=1e-12, **options).fit(X, Y)
    kernel = KernelSVM(kernel="linear", tol=1e-5, **options).fit(X, Y)
    assert kernel.solver_ == "lbfgs"
    assert kernel.objective_ == pytest.approx(linear.objective_, rel=1e-9)
    assert np.allclose(kernel.predict_proba(X), linear.predict_proba(X), atol=1e-5)
    curved = KernelSVM(gamma=0.3, **options).fit(X, Y)
    beta, K = coefficients(curved, 400), rbf_kernel(X, gamma=0.3)
    price = 0.7 * 400 / (2 * np.where(Y > 0, (Y > 0).sum(), (Y < 0).sum()))
    scores = K @ beta + curved.intercept_
    gradient = beta - price * Y / (1.0 + np.exp(Y * scores))
    assert np.sqrt(gradient @ K @ gradient) < 1e-5 * np.sqrt(beta @ K @ beta)
    assert abs(beta.sum()) < 1e-6 * np.abs(beta).sum()


@pytest.mark.parametrize(("n", "d"), [(5000, 4), (5000, 220), (18_000, 3)])
def test_streams_caches_and_samples_reach_libsvms_objective(n, d):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, d))
    y = np.where(rows[:, 0] + 0.8 * rng.standard_normal(n) > 1.0, 1, -1)
    options = {"C": 1.0, "gamma": 1.0 / d, "class_weight": "balanced"}
    svm, peer = KernelSVM(**options).fit(rows, y), SVC(**options).fit(rows, y)
    some = np.union1d(svm.support_, peer.support_)
    K = rbf_kernel(rows[some], gamma=1.0 / d)
    ours, theirs = (dual(K, coefficients(m, n)[some], y) for m in (svm, peer))
    assert ours <= theirs + 1e-5 * abs(theirs)
    assert np.abs(svm.decision_function(rows[:500]) - peer.decision_function(rows[:500])).max() < 5e-3


def test_a_large_C_needs_few_rounds():
    rows, y = imbalanced(3000, 6)
    svm = KernelSVM(C=1000.0, gamma=0.3).fit(rows, y)
    assert svm.status_.value.startswith("converged")
    assert svm.n_iter_ <= 40


def test_small_working_sets_and_caches_end_at_the_same_optimum():
    rows, y = imbalanced(2500, 6)
    plain = KernelSVM(C=2.0, gamma=0.3, tol=1e-4).fit(rows, y)
    small = KernelSVM(C=2.0, gamma=0.3, tol=1e-4, solver=SMO(size=64), cache_size=1.0).fit(rows, y)
    assert small.objective_ == pytest.approx(plain.objective_, rel=1e-4)


def test_the_bias_is_the_mean_over_free_support_vectors_or_the_middle():
    svm = KernelSVM(C=2.0, gamma=0.3).fit(X, Y)
    beta = coefficients(svm, 400)
    free = (np.abs(beta) > 1e-9) & (np.abs(beta) < 2.0 - 1e-9)
    assert free.any()
    assert svm.intercept_[0] == pytest.approx((Y - rbf_kernel(X, gamma=0.3) @ beta)[free].mean())
    # Four rows, all at their bound: any b in an interval is optimal.
    rows, y = np.array([[-1.0], [-0.5], [0.5], [1.0]]), np.array([-1, -1, 1, 1])
    held = KernelSVM(C=0.01, kernel="linear").fit(rows, y)
    assert np.allclose(np.abs(held.dual_coef_), 0.01)
    assert held.intercept_[0] == pytest.approx(0.0, abs=1e-12)


def test_warm_starts_take_fewer_rounds():
    rows, y = imbalanced(4000, 6)
    svm = KernelSVM(C=1.0, gamma=0.3, warm_start=True).fit(rows, y)
    first = svm.n_iter_
    again = svm.fit(rows, y).n_iter_
    assert again <= 2 < first
    moved = svm.set_params(C=1.2).fit(rows, y)
    cold = KernelSVM(C=1.2, gamma=0.3).fit(rows, y)
    assert moved.objective_ == pytest.approx(cold.objective_, rel=1e-3)
    assert moved.n_iter_ < cold.n_iter_


def test_rows_of_both_labels_and_repeated_rows():
    rows = np.repeat(X[:60], 3, axis=0)
    y = np.tile([1, -1, -1], 60)
    svm = KernelSVM(gamma=0.3).fit(rows, y)
    assert svm.status_.value.startswith("converged")
    assert svm.support_.size > 100


def test_every_row_a_support_vector():
    rng = np.random.default_rng(0)
    rows, y = rng.standard_normal((200, 50)), np.where(rng.random(200) < 0.5, 1, -1)
    svm = KernelSVM(gamma=1.0).fit(rows, y)
    assert svm.support_.size == 200
    assert svm.score(rows, y) == 1.0


def test_a_kernel_that_is_not_positive_definite_is_reported_and_the_fit_ends():
    with pytest.warns(UserWarning, match="not positive definite.*no duality gap"):
        svm = KernelSVM(kernel="sigmoid", gamma=1.0, coef0=-1.0).fit(X, Y)
    assert np.isnan(svm.dual_gap_)
    assert "gradient is within tol" in svm.status_.value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelSVM(kernel="poly", gamma=0.2, coef0=1.0).fit(X, Y)


def test_memory_stays_within_the_cache_and_a_fifth_of_X():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6000, 250)).astype(np.float32)
    y = np.where(rows[:, 0] + rng.standard_normal(6000) > 1.0, 1, -1)
    svm = KernelSVM(gamma=0.004, cache_size=30.0, class_weight="balanced")
    svm.fit(rows[:3000], y[:3000])  # compiled, or loaded
    tracemalloc.start()
    svm.fit(rows, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    kept = svm.support_vectors_.nbytes
    assert peak <= 30e6 + 0.2 * rows.nbytes + 400 * 6000 + kept


def test_sparse_rows_give_the_same_machine():
    rows, y = imbalanced(2500, 6)
    rows[np.abs(rows) < 0.5] = 0.0
    dense = KernelSVM(gamma=0.3, tol=1e-5).fit(rows, y)
    sparse = KernelSVM(gamma=0.3, tol=1e-5).fit(csr_matrix(rows), y)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-6)
    assert np.abs(sparse.decision_function(csr_matrix(rows)) - dense.decision_function(rows)).max() < 1e-3
    assert sparse.support_vectors_.shape == (sparse.support_.size, 6)


def test_threads_do_not_change_a_bit():
    rows, y = imbalanced(3000, 6)
    machines = [KernelSVM(gamma=0.3, n_jobs=jobs).fit(rows, y) for jobs in (1, 2)]
    assert np.array_equal(machines[0].dual_coef_, machines[1].dual_coef_)
    assert np.array_equal(machines[0].decision_function(rows), machines[1].decision_function(rows))


def test_scores_in_float32_are_close_and_used_only_where_they_are():
    rows, y = imbalanced(4000, 6)
    mild = KernelSVM(gamma=0.3).fit(rows, y)
    assert mild._single
    exact = rbf_kernel(rows, mild.support_vectors_, gamma=0.3) @ mild.dual_coef_[0] + mild.intercept_
    assert np.abs(mild.decision_function(rows) - exact).max() <= 1e-4 * np.abs(exact).max()
    harsh = KernelSVM(C=1e5, gamma=0.01, max_iter=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        harsh.fit(rows, y)
    exact = rbf_kernel(rows, harsh.support_vectors_, gamma=0.01) @ harsh.dual_coef_[0] + harsh.intercept_
    assert np.abs(harsh.decision_function(rows) - exact).max() <= 1e-4 * np.abs(exact).max()


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        (lambda X: X[:, :5] + 1000.0, {"kernel": "linear"}),
        (lambda X: X + 1000.0, {"kernel": "linear", "C": 1e-4}),
        (lambda X: X[:, :5] * [1e4, 1, 1, 1, 1], {"kernel": "linear", "C": 1e-4}),
        (lambda X: X[:, :3], {"gamma": 1e7}),
        (lambda X: X[:, :3], {"gamma": 0.3, "C": 300.0}),
        (lambda X: X[:, :3].astype(np.float32), {"gamma": 0.3, "C": 300.0}),
    ],
    ids=["far linear", "far wide linear", "one large column", "narrow", "dear", "dear float32"],
)
def test_certificates_hold_whatever_the_size_of_K(shape, options):
    """Beyond the whole-matrix path, where products are in float32 at first."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2300, 220))
    y = np.where(rows[:, 0] + rng.standard_normal(2300) > 1.0, 1, -1)
    rows = shape(rows)
    svm = KernelSVM(**options).fit(rows, y)
    assert svm.status_.value.startswith("converged")
    wide = rows.astype(np.float64)
    K = linear_kernel(wide) if options.get("kernel") == "linear" else rbf_kernel(wide, gamma=options["gamma"])
    primal, gap = recomputed_gap(svm, wide, y, np.full(2300, options.get("C", 1.0)), K)
    assert svm.objective_ == pytest.approx(primal, rel=1e-5)
    assert gap <= 1e-3 * primal
    assert abs(gap - svm.dual_gap_) <= 1e-5 * primal


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_very_sparse_rows_beyond_the_whole_matrix(kernel):
    rows = random_array((2300, 400), density=0.01, rng=0, format="csr")
    y = np.where(
        np.asarray(rows[:, :100].sum(axis=1)).ravel() + 0.3 * np.random.default_rng(0).random(2300) > 0.8, 1, -1
    )
    options = {"kernel": kernel, "gamma": 0.5, "coef0": 1.0, "degree": 2, "class_weight": "balanced"}
    sparse = KernelSVM(**options).fit(rows, y)
    dense = KernelSVM(**options).fit(rows.toarray(), y)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-4)
    assert np.abs(sparse.decision_function(rows) - dense.decision_function(rows.toarray())).max() < 1e-2


@pytest.mark.parametrize("size", [1e-40, 1e40])
def test_the_unit_of_the_features_does_not_matter(size):
    rows, y = imbalanced(2300, 5)
    plain, scaled = (KernelSVM().fit(size_ * rows, y) for size_ in (1.0, size))
    assert scaled.objective_ == pytest.approx(plain.objective_, rel=1e-5)
    assert np.allclose(scaled.decision_function(size * rows), plain.decision_function(rows), atol=2e-3)


def test_scores_that_float32_cannot_hold_are_computed_in_float64():
    rows, y = imbalanced(900, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm = KernelSVM(kernel="poly", degree=10, gamma=100.0, max_iter=3).fit(100.0 * rows, y)
    assert not svm._single
    assert np.isfinite(svm.decision_function(100.0 * rows)).all()


@pytest.mark.parametrize("n", [60, 2300])
def test_a_tol_of_zero_ends_where_rounding_leaves_nothing(n):
    rows, y = imbalanced(n, 5)
    for seed in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            svm = KernelSVM(tol=0.0, gamma=0.3).fit(np.roll(rows, seed, axis=1), y)
        assert svm.n_iter_ <= 200
        assert svm.dual_gap_ <= 1e-9 * svm.objective_


def test_smooth_losses_need_a_definite_kernel_to_be_exact():
    sigmoid = {"kernel": "sigmoid", "gamma": 1.0, "coef0": -1.0}
    with (
        pytest.warns(UserWarning, match="not positive definite"),
        pytest.raises(ValueError, match="'lbfgs' needs a positive definite kernel"),
    ):
        KernelSVM(loss="log", solver="lbfgs", **sigmoid).fit(X, Y)
    with pytest.warns(UserWarning, match="not positive definite"):
        assert KernelSVM(loss="log", max_iter=500, **sigmoid).fit(X, Y).solver_ == "sgd"


def test_a_callable_is_called_for_blocks():
    calls = []

    def kernel(A, B):
        calls.append(A.shape[0] * B.shape[0])
        return rbf_kernel(A, B, gamma=0.3)

    rows, y = imbalanced(2300, 5)
    own = KernelSVM(kernel=kernel).fit(rows, y)
    assert len(calls) < 200
    assert own.objective_ == pytest.approx(KernelSVM(gamma=0.3).fit(rows, y).objective_, rel=1e-4)
