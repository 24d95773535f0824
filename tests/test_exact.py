"""The exact solvers: the optimum of their peers, of each other, and a true duality gap."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from conftest import imbalanced
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from evenmargin import LinearSVM
from evenmargin.losses import Blinex, values
from evenmargin.weights import row_costs

X, Y = imbalanced(n=300, d=8, seed=4)
WEIGHT = np.random.default_rng(0).uniform(0.2, 3.0, size=len(Y))
EXACT = {
    "hinge": ["newton", "dual_cd"],
    "squared_hinge": ["newton", "dual_cd", "lbfgs"],
    "log": ["newton", "lbfgs"],
}
EVERY = [(loss, solver) for loss, solvers in EXACT.items() for solver in solvers]
LAYOUTS = pytest.mark.parametrize("layout", [np.asarray, csr_array], ids=["dense", "csr"])


def objective(w, b, loss, C, costs, augmented=False):
    """The objective of the documentation, written out."""
    margins = Y * (X @ w + b)
    return (
        0.5 * w @ w + (0.5 * b * b if augmented else 0.0) + C * costs @ values(_named(loss), margins, Y.astype(float))
    )


def _named(loss):
    from evenmargin.losses import get_loss

    return get_loss(loss)


@pytest.mark.parametrize("C", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("solver", ["newton", "dual_cd"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_free_intercept_gives_the_machine_of_svc(solver, C, class_weight):
    peer = SVC(kernel="linear", C=C, class_weight=class_weight, tol=1e-8).fit(X, Y)
    ours = LinearSVM(C=C, class_weight=class_weight, solver=solver, tol=1e-10).fit(X, Y)
    costs = row_costs(class_weight, Y, Y > 0, np.ones(len(Y)))
    theirs = objective(peer.coef_[0], peer.intercept_[0], "hinge", C, costs)
    assert ours.objective_ <= theirs * (1 + 1e-9)
    assert ours.objective_ >= theirs * (1 - 1e-6)
    assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-4)


def test_at_large_c_it_is_libsvm_that_is_off():
    """LIBSVM keeps its kernel in float32: it ends above the optimum by 2e-7·C here, whatever its tol."""
    peer = SVC(kernel="linear", C=100.0, class_weight="balanced", tol=1e-10).fit(X, Y)
    ours = LinearSVM(C=100.0, class_weight="balanced", tol=1e-10).fit(X, Y)
    costs = row_costs("balanced", Y, Y > 0, np.ones(len(Y)))
    theirs = objective(peer.coef_[0], peer.intercept_[0], "hinge", 100.0, costs)
    assert ours.dual_gap_ <= 1e-10 * ours.objective_
    assert ours.objective_ < theirs <= ours.objective_ * (1 + 1e-4)


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("solver", ["newton", "dual_cd"])
def test_an_augmented_intercept_is_at_or_below_linearsvc(loss, solver, C):
    peer = LinearSVC(C=C, loss=loss, tol=1e-8, max_iter=1_000_000, random_state=0).fit(X, Y, WEIGHT)
    ours = LinearSVM(C=C, loss=loss, intercept="augmented", solver=solver, tol=1e-9).fit(X, Y, WEIGHT)
    theirs = objective(peer.coef_[0], peer.intercept_[0], loss, C, WEIGHT, augmented=True)
    assert ours.objective_ <= theirs * (1 + 1e-9)
    assert_allclose(ours.coef_, peer.coef_, atol=1e-4)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
@LAYOUTS
def test_log_loss_gives_the_machine_of_logistic_regression(solver, class_weight, layout):
    peer = LogisticRegression(C=0.7, class_weight=class_weight, solver="newton-cholesky", tol=1e-12).fit(X, Y, WEIGHT)
    ours = LinearSVM(C=0.7, loss="log", solver=solver)
    if class_weight == "balanced":  # scikit-learn's does not count sample weights: say it with a dict
        total = {label: WEIGHT[label == Y].sum() for label in (-1, 1)}
        by_label = {label: WEIGHT.sum() / (2 * total[label]) for label in total}
        peer.set_params(class_weight=by_label).fit(X, Y, WEIGHT)
        ours.set_params(class_weight="balanced")
    ours.fit(layout(X), Y, WEIGHT)
    assert_allclose(ours.coef_, peer.coef_, rtol=1e-6)
    assert_allclose(ours.intercept_, peer.intercept_, rtol=1e-6)
    assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-7)


@pytest.mark.parametrize("intercept", ["free", "augmented", 0.4, None])
@pytest.mark.parametrize(("loss", "solver"), EVERY)
@LAYOUTS
def test_the_gap_is_certified_small_and_true(loss, solver, intercept, layout):
    svm = LinearSVM(C=0.5, loss=loss, class_weight="balanced", intercept=intercept, solver=solver).fit(
        layout(X), Y, WEIGHT
    )
    assert "converged" in svm.status_
    assert 0 <= svm.dual_gap_ <= 1e-6 * svm.objective_
    costs = row_costs("balanced", Y, Y > 0, WEIGHT)
    b = svm.intercept_[0]
    assert svm.objective_ == pytest.approx(
        objective(svm.coef_[0], b, loss, 0.5, costs, intercept == "augmented"), rel=1e-9
    )
    best = svm.set_params(tol=1e-12).fit(layout(X), Y, WEIGHT).objective_
    optimum_is_above = best - 1e-9 * best
    loose = svm.set_params(tol=1e-2).fit(layout(X), Y, WEIGHT)
    assert loose.objective_ - loose.dual_gap_ <= best * (1 + 1e-12)
    assert loose.objective_ >= optimum_is_above


@pytest.mark.parametrize("intercept", ["free", "augmented", -0.3, None])
@pytest.mark.parametrize("loss", EXACT)
def test_one_solvers_optimum_is_anothers(loss, intercept):
    fits = [
        LinearSVM(C=2.0, loss=loss, intercept=intercept, solver=solver, class_weight="inverse", tol=1e-10).fit(X, Y)
        for solver in EXACT[loss]
    ]
    for one, other in combinations(fits, 2):
        assert one.objective_ == pytest.approx(other.objective_, rel=1e-6)
        assert_allclose(one.coef_, other.coef_, atol=1e-4 * np.abs(one.coef_).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("loss", "solver"), EVERY)
def test_float32_gives_the_same_machine(loss, solver, dtype):
    wide = LinearSVM(loss=loss, solver=solver).fit(X.astype(np.float32).astype(np.float64), Y)
    narrow = LinearSVM(loss=loss, solver=solver).fit(X.astype(dtype), Y)
    assert narrow.coef_.dtype == dtype
    assert narrow.objective_ == pytest.approx(wide.objective_, rel=1e-5)
    assert_allclose(narrow.coef_, wide.coef_, rtol=1e-3, atol=2e-3 * np.abs(wide.coef_).max())


@pytest.mark.parametrize(("loss", "solver"), EVERY)
def test_more_columns_than_rows(loss, solver):
    rng = np.random.default_rng(0)
    wide, labels = rng.normal(size=(25, 120)), np.where(np.arange(25) < 6, 1, -1)
    svm = LinearSVM(loss=loss, solver=solver).fit(wide, labels)
    assert "converged" in svm.status_
    peer = SVC(kernel="linear", tol=1e-8).fit(wide, labels)
    if loss == "hinge":
        assert_allclose(svm.coef_, peer.coef_, atol=1e-5)
    assert svm.score(wide, labels) == 1.0


@LAYOUTS
def test_blinex_ends_where_the_gradient_vanishes(layout):
    loss = Blinex(a=1.2, b=0.6)
    svm = LinearSVM(C=3.0, loss=loss, solver="lbfgs").fit(layout(X), Y, WEIGHT)

    def total(theta):
        return objective(theta[:-1], theta[-1], loss, 3.0, WEIGHT)

    here = np.append(svm.coef_[0], svm.intercept_)
    steps = 1e-5 * np.eye(here.size)
    gradient = [(total(here + step) - total(here - step)) / 2e-5 for step in steps]
    assert_allclose(gradient, 0.0, atol=1e-5 * total(here))
    again = minimize(total, here, method="BFGS")
    assert again.fun == pytest.approx(svm.objective_, rel=1e-7)
    assert np.isnan(svm.dual_gap_)
    assert "gradient" in svm.status_


@pytest.mark.parametrize("solver", ["newton", "dual_cd"])
def test_without_a_support_vector_inside_its_box_the_intercept_is_the_middle(solver):
    # Two points, C so small that both are at their bound: any b in an interval is optimal.
    two, labels = np.array([[1.0], [-1.0]]), np.array([1, -1])
    svm = LinearSVM(C=0.1, solver=solver).fit(two, labels)
    assert_allclose(svm.coef_, [[0.2]], rtol=1e-9)
    assert_allclose(svm.intercept_, [0.0], atol=1e-9)


def test_badly_scaled_columns_still_converge():
    scaled = X * np.logspace(-4, 4, X.shape[1])
    for loss, solver in EVERY:
        if solver == "dual_cd":
            continue  # one coordinate at a time cannot mend the scale; the warning says so
        svm = LinearSVM(loss=loss, solver=solver).fit(scaled, Y)
        assert svm.dual_gap_ <= 1e-6 * svm.objective_


def test_real_data_agrees_with_svc(papers_data):
    data = papers_data("euthyroid")
    raw, labels = data["X"].astype(np.float64), data["y"]
    scaled = (raw - raw.mean(axis=0)) / np.maximum(raw.std(axis=0), 1e-12)
    peer = SVC(kernel="linear", class_weight="balanced", tol=1e-6).fit(scaled, labels)
    ours = LinearSVM(class_weight="balanced").fit(scaled, labels)
    assert_allclose(ours.decision_function(scaled), peer.decision_function(scaled), atol=2e-3)


def test_an_intercept_that_nothing_holds_is_the_middle_whatever_the_path():
    """A table where no multiplier is inside its box: rounding once walked b to an end of its interval."""
    column = [
        0.346,
        0.822,
        0.33,
        -1.303,
        0.346,
        -0.537,
        0.581,
        0.365,
        0.028,
        -0.163,
        -0.482,
        0.599,
        0.04,
        -0.292,
        -0.782,
    ]
    column = np.array([*column, -0.257, 0.008, -0.276, 1.294, -2.711])[:, None]
    labels = np.array([1, -1, 1, -1, -1, 1, -1, -1, -1, -1, 1, -1, -1, -1, 1, -1, -1, -1, -1, -1])
    weight = np.array([1, 2, 3, 3, 3, 2, 3, 1, 1, 3, 2, 3, 3, 3, 1, 1, 2, 1, 3, 3])
    copies = np.repeat(np.arange(20), weight)
    for solver in ("newton", "dual_cd"):
        svm = LinearSVM(C=0.5, class_weight="balanced", solver=solver, random_state=0, tol=1e-10)
        assert svm.fit(column, labels, weight).intercept_ == pytest.approx(0.19825534, abs=1e-7)
        assert svm.fit(column[copies], labels[copies]).intercept_ == pytest.approx(0.19825534, abs=1e-7)
