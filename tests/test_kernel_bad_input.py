"""Bad and extreme input to the kernel machines gives the right answer or one clear sentence, never nonsense."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed
from numpy.testing import assert_allclose
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from evenmargin import KernelSVM, LinearSVM
from evenmargin.density import DensityWeights
from evenmargin.kernels import RBF, Poly, Precomputed
from evenmargin.solvers import SMO, KernelLbfgs, KernelSGD, Lbfgs, Newton, Pegasos
from evenmargin.stopping import AUCHalting
from evenmargin.zsvm import ZAdjustedClassifier

N = 60
_rng = np.random.default_rng(0)
X = _rng.normal(size=(N, 3))
Y = np.where(X[:, 0] + 0.5 * _rng.normal(size=N) > 0.9, 1, 0)  # 12 of 60
NEW = _rng.normal(size=(40, 3))
K = rbf_kernel(X, gamma=0.5)
ONE = np.arange(N) == 7
SKEW = K + 0.5 * (ONE[:, None] & (np.arange(N) == 8))
NAN, INF = float("nan"), float("inf")
SOLVERS = {"smo": "hinge", "lbfgs": "log", "sgd": "hinge"}
EXACT = [("smo", "hinge"), ("smo", "squared_hinge"), ("lbfgs", "log"), ("lbfgs", "squared_hinge"), ("lbfgs", "blinex")]
TOL = {"blinex": 3e-3}  # of the gradient, squared

every_solver = pytest.mark.parametrize("solver", list(SOLVERS))
every_layout = pytest.mark.parametrize("layout", [np.asarray, csr_matrix], ids=["dense", "csr"])
may_not_converge = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def machine(solver="smo", **params):
    return KernelSVM(solver=solver, random_state=0, **{"loss": SOLVERS.get(str(solver), "hinge"), **params})


def finite(svm, rows=X):
    assert np.isfinite(svm.dual_coef_).all()
    assert np.isfinite(svm.intercept_).all()
    assert np.isfinite(svm.decision_function(rows)).all()
    return svm


def certified(svm, K, y, price):
    """The objective, the dual objective and the constraints, all from dual_coef_ alone, in float64."""
    beta, signs = np.zeros(y.size), np.where(y == svm.classes_[1], 1.0, -1.0)
    beta[svm.support_] = svm.dual_coef_[0]
    product = K @ beta
    curved = 0.5 * float(beta @ product)
    objective = curved + float(price @ np.maximum(0.0, 1.0 - signs * (product + svm.intercept_[0])))
    assert (beta * signs >= 0).all()
    assert (beta * signs <= price * (1 + 1e-12)).all()
    assert abs(beta.sum()) <= 1e-9 * np.abs(beta).sum()
    return objective, float(beta @ signs) - curved


# --- X, kernels ---


@every_solver
def test_data_that_cannot_be_fitted_is_refused_in_plain_words(solver):
    for value, says in [(NAN, "X contains NaN"), (INF, "X contains infinity")]:
        with pytest.raises(ValueError, match=says):
            machine(solver).fit(np.where(ONE[:, None], value, X), Y)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        machine(solver).fit(X[:0], Y[:0])
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        machine(solver).fit(X[:, :0], Y)
    with pytest.raises(ValueError, match=r"one class only \(0\).*at least two classes"):
        machine(solver).fit(X, 0 * Y)
    with pytest.raises(ValueError, match="too large to square in float64: scale the features"):
        machine(solver).fit(1e160 * X, Y)


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"kernel": "precomputed", "X": K[:, :5]}, r"must be square to fit, and X has shape \(60, 5\)"),
        ({"kernel": "precomputed", "X": SKEW}, r"not symmetric \(entries differ by up to 5.0e-01\).*\(K \+ K.T\) / 2"),
        ({"kernel": "precomputed", "X": csr_matrix(K)}, "must not be sparse: use X.toarray"),
        ({"kernel": "precomputed", "X": K, "density": "inverse"}, "density needs the rows themselves"),
        *[({"gamma": bad}, "'gamma' parameter.*range") for bad in (0, -1, NAN, INF, "big", None)],
        *[({"kernel": RBF(gamma=bad)}, f"gamma={bad!r} must be 'scale', 'auto', or a finite number above 0")
          for bad in (0, -1, NAN, INF, "big", None, True)],
        ({"kernel": Poly(degree=0)}, "degree=0 must be a whole number"),
        ({"kernel": Poly(coef0=NAN)}, "coef0=nan must be a finite number"),
        *[({"kernel": bad}, "kernel=.* is unknown; choose one of 'linear', 'rbf'") for bad in ("foo", RBF)],
        *[({"kernel": bad}, "'kernel' parameter") for bad in (None, 3, ["rbf"])],
        ({"kernel": lambda A, B: A @ B.T[:, :3]}, "matrix of 60 rows and 60 columns.*shape"),
        ({"kernel": lambda A, B: np.full((len(A), len(B)), NAN)}, "callable must return finite values only"),
        *[({"kernel": lambda A, B, kind=kind: (A @ B.T).astype(kind)}, "callable must return a matrix of")
          for kind in (object, bool, complex)],
        ({"kernel": lambda A, B: None}, "callable must return a matrix of"),
        *[({name: bad}, f"'{name}' parameter")
          for name in ("C", "alpha", "tol", "max_iter", "cache_size", "degree", "coef0")
          for bad in (NAN, "a", *[-1] * (name != "coef0"))],
        *[({"cache_size": bad}, "does not hold two rows of the kernel matrix of 60 rows: give it at least 0.00096")
          for bad in (1e-9, 5e-4)],
        *[({"solver": bad}, "solver=.* is unknown; choose one of 'auto', 'smo', 'lbfgs', 'sgd'")
          for bad in ("newton", Newton(), Lbfgs(), Pegasos())],
        ({"solver": "smo", "loss": "log"}, "needs a loss with 'dual_box'.*'lbfgs', 'sgd'"),
        ({"solver": "lbfgs", "loss": "hinge"}, "needs a loss with 'curvature'.*'smo', 'sgd'"),
        *[({"stopping": rule}, "stopping is for the stochastic solvers, here 'sgd'; with 'smo' use None")
          for rule in ("auc", AUCHalting(every=10))],
        ({"n_jobs": 0}, "n_jobs=0 has no meaning"),
        ({"n_jobs": "all"}, "'n_jobs' parameter"),
        ({"intercept": True}, "intercept=True is not valid"),
        ({"sampling": "odd"}, "sampling='odd' is unknown"),
        ({"loss": "huber"}, "loss='huber' is unknown"),
        ({"class_weight": "even"}, "class_weight='even' is unknown"),
        ({"density": 1.5}, "'density' parameter"),
        ({"density": DensityWeights("same_class", gamma=1e-6), "y": ONE}, "every row of class True a weight of 0"),
        ({"density": DensityWeights(gamma=1e30)}, "so large for these rows that no digits of their distances are left"),
        ({"C": 1e100}, "C times the weights runs from 1.0e.100.*choose C"),
        ({"weight": np.where(ONE, 1e-320, 1.0), "C": 1e-10}, "every row has a price above 0"),
        ({"weight": 1.0 - Y}, "one class only.*weight 0"),
        *[({"weight": np.full(N, bad)}, says) for bad, says in
          [(0.0, "(?i)sample weights.*zero"), (-1.0, "Negative"), (NAN, "NaN"), (1e308, "adds up to infinity")]],
    ],
    ids=lambda case: case if isinstance(case, str) else " ".join(case),
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(case, says):
    case = {"X": X, "y": Y, "weight": None, **case}
    rows, y, weight = (case.pop(name) for name in ("X", "y", "weight"))
    with pytest.raises((ValueError, TypeError), match=says):
        machine(**case).fit(rows, y, weight)


@pytest.mark.parametrize("solver", [SMO(), KernelSGD(), KernelLbfgs(), "smo"])
def test_solvers_of_kernel_machines_are_not_for_the_linear_one(solver):
    with pytest.raises(ValueError, match="is unknown; choose one of 'auto', 'newton'"):
        LinearSVM(solver=solver).fit(X, Y)


@pytest.mark.parametrize(("kind", "options"), [(SMO, {"size": 1}), (SMO, {"size": 2.5}), (KernelLbfgs, {"memory": 0})])
def test_options_out_of_range_are_refused_when_given(kind, options):
    ((name, bad),) = options.items()
    with pytest.raises(ValueError, match=f"{kind.__name__}: {name}={bad!r} must be"):
        kind(**options)


def test_an_error_in_a_callable_is_the_callers_own():
    def kernel(A, B):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match=r"^mine$"):
        machine(kernel=kernel).fit(X, Y)


def test_a_callable_may_return_float32_or_read_only_values():
    plain = machine(gamma=0.5).fit(X, Y).decision_function(NEW)
    single = machine(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.5).astype(np.float32)).fit(X, Y)
    assert_allclose(single.decision_function(NEW), plain, atol=1e-4)
    flat = machine(kernel=lambda A, B: np.broadcast_to(1.0, (A.shape[0], B.shape[0]))).fit(X, Y)
    assert set(flat.predict(NEW)) == {0}


def test_predict_needs_a_fit_and_the_columns_of_the_fit():
    frame = pd.DataFrame(X, columns=list("abc"))
    with pytest.raises(NotFittedError, match="not fitted yet"):
        machine().predict(X)
    with pytest.raises(ValueError, match="X has 2 features, but KernelSVM is expecting 3"):
        machine().fit(X, Y).predict(X[:, :2])
    with pytest.raises(ValueError, match="X has 5 features, but KernelSVM is expecting 60"):
        machine(kernel="precomputed").fit(K, Y).predict(K[:, :5])
    with pytest.raises(ValueError, match="same order as they were in fit"):
        machine().fit(frame, Y).predict(frame[["c", "b", "a"]])
    with pytest.raises(ValueError, match="X contains NaN"):
        machine(kernel="precomputed").fit(K, Y).predict(np.full((1, N), NAN))


@pytest.mark.parametrize("solver", ["smo", "sgd"])
@pytest.mark.parametrize("indefinite", ["sigmoid", "precomputed", "poly"])
@may_not_converge
def test_a_kernel_that_is_not_positive_definite_is_announced_and_has_no_gap(solver, indefinite):
    noise = np.random.default_rng(1).normal(size=(N, N))
    rows = noise + noise.T if indefinite == "precomputed" else X
    svm = machine(solver, kernel=indefinite, gamma=2.0, coef0=-1.0, max_iter=2000)
    with pytest.warns(UserWarning, match="not positive definite .*there is no duality gap"):
        finite(svm.fit(rows, Y), rows)
    assert np.isnan(svm.dual_gap_)
    assert "gap" not in svm.status_.value


@every_layout
@every_solver
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_rows_that_are_all_the_same_give_the_common_class(solver, layout, kernel):
    for rows in (np.ones((N, 3)), np.zeros((N, 3))):
        assert set(finite(machine(solver, kernel=kernel).fit(layout(rows), Y), rows).predict(rows)) == {0}


@every_solver
def test_duplicates_with_opposite_labels_are_undecided(solver):
    rows, labels = np.vstack([X[:30], X[:30]]), np.repeat([0, 1], 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = finite(machine(solver).fit(rows, labels), rows).decision_function(rows)
    if solver != "sgd":
        assert_allclose(scores, 0, atol=1e-6)


@every_solver
def test_two_rows_and_one_row_of_a_class_are_enough(solver):
    assert list(finite(machine(solver).fit(X[:2], ["a", "b"])).predict(X[:2])) == ["a", "b"]
    svm = finite(machine(solver, class_weight="balanced").fit(X, np.where(ONE, "rare", "common")))
    assert svm.predict(X[ONE]) == "rare"
    assert finite(machine(solver).fit(X, np.where(ONE, 7, Y))).dual_coef_.shape[0] == 3
    wide = np.random.default_rng(1).normal(size=(10, 300))
    assert finite(machine(solver, C=100.0).fit(wide, np.arange(10) % 2), wide).score(wide, np.arange(10) % 2) == 1.0


@every_solver
@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray, csr_matrix, csc_matrix, coo_matrix, list, lambda x: x.astype(object), pd.DataFrame,
        lambda x: np.broadcast_to(x, x.shape), lambda x: np.repeat(x, 2, axis=0)[::2],
    ],
    ids=["fortran", "csr", "csc", "coo", "list", "object", "frame", "read-only", "strided"],
)  # fmt: skip
def test_rows_in_any_layout_are_the_same_rows(solver, convert):
    plain = machine(solver).fit(X, Y).decision_function(NEW)
    assert_allclose(machine(solver).fit(convert(X), Y).decision_function(convert(NEW)), plain, atol=1e-8)


@every_solver
@pytest.mark.parametrize("dtype", [np.float16, np.float32, int, bool])
def test_numbers_of_any_type_are_numbers(solver, dtype):
    rows = (3 * X).astype(dtype)
    svm, plain = (machine(solver, gamma=0.1).fit(some, Y) for some in (rows, rows.astype(float)))
    assert_allclose(svm.decision_function(rows), plain.decision_function(rows.astype(float)), atol=1e-3)


def test_csr_in_any_order_with_repeats_and_long_indices_is_the_matrix_it_means():
    tidy = csr_matrix(np.where(X > 0, X, 0.0))
    order = np.concatenate([np.arange(a, b)[::-1] for a, b in zip(tidy.indptr[:-1], tidy.indptr[1:], strict=True)])
    order = np.repeat(order, 2)
    untidy = csr_matrix((0.5 * tidy.data[order], tidy.indices[order], 2 * tidy.indptr), shape=X.shape)
    untidy.indices, untidy.indptr = untidy.indices.astype(np.int64), untidy.indptr.astype(np.int64)
    plain = machine().fit(tidy.toarray(), Y).decision_function(tidy.toarray())
    assert_allclose(machine().fit(untidy, Y).decision_function(untidy), plain, atol=1e-8)
    assert untidy.nnz == order.size


def test_a_precomputed_kernel_may_be_read_only_fortran_float32_or_whole_numbers():
    plain = machine(kernel="precomputed").fit(K, Y).decision_function(K)
    for other in (np.broadcast_to(K, K.shape), np.asfortranarray(K), K.astype(np.float32)):
        assert_allclose(machine(kernel=Precomputed()).fit(other, Y).decision_function(other), plain, atol=1e-5)
    assert machine(kernel="precomputed").fit(np.eye(N, dtype=int), Y).score(np.eye(N), Y) == 1.0


# --- prices ---


@pytest.mark.parametrize(("solver", "loss"), EXACT[:4])
@pytest.mark.parametrize("C", [1e-10, 1e10])
def test_any_price_is_met(solver, loss, C):
    svm = finite(machine(solver, loss=loss, C=C).fit(X, Y))
    assert svm.dual_gap_ <= 1e-3 * svm.objective_
    if C > 1:
        assert svm.score(X, Y) == 1.0


@every_solver
@pytest.mark.parametrize("C", [1e30, 1e59])
def test_what_a_price_makes_unsolvable_is_warned_of(solver, C):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        svm = finite(machine(solver, C=C).fit(X, Y))
    assert seen or svm.dual_gap_ <= 1e-3 * svm.objective_


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize(("solver", "loss"), EXACT)
@pytest.mark.parametrize(
    "params",
    [{}, {"density": "inverse_sqrt"}, {"density": "same_class"}, {"class_weight": "balanced"},
     {"intercept": None}, {"intercept": "augmented"}],
    ids=str,
)  # fmt: skip
def test_a_weight_of_two_is_a_row_twice_and_of_zero_no_row(solver, loss, kernel, classes, params):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(N, 3))
    y = (rows[:, 0] + 0.7 * rng.normal(size=N) > 0.7).astype(int) if classes == 2 else 1 + np.argmax(rows, axis=1)
    if params.get("density") == "same_class":
        rows = rows + 2.0 * y[:, None]  # else a class is lost
    weight = rng.choice([0, 1, 2, 3], size=N)
    svm = KernelSVM(solver=solver, loss=loss, kernel=kernel, tol=TOL.get(loss, 1e-5), **params)
    weighted = copy.deepcopy(svm).fit(rows, y, weight)
    repeated = svm.fit(np.repeat(rows, weight, axis=0), np.repeat(y, weight))
    assert_allclose(weighted.decision_function(NEW), repeated.decision_function(NEW), atol=1e-4)
    assert (weight[weighted.support_] > 0).all()


@every_solver
def test_support_speaks_of_the_rows_as_they_were_given(solver):
    weight = (np.arange(N) % 3 > 0).astype(float)
    kept = np.flatnonzero(weight)
    svm = machine(solver, kernel="precomputed").fit(K, Y, weight)
    less = machine(solver, kernel="precomputed").fit(K[np.ix_(kept, kept)], Y[kept])
    assert np.array_equal(svm.support_, kept[less.support_])
    values = rbf_kernel(NEW, X, gamma=0.5)
    assert_allclose(svm.decision_function(values), less.decision_function(values[:, kept]), atol=1e-12)
    rows = machine(solver).fit(X, Y, weight)
    assert np.array_equal(rows.support_vectors_, X[rows.support_])


@pytest.mark.parametrize("intercept", ["free", None, "augmented"])
@pytest.mark.parametrize(("solver", "loss"), [*EXACT, ("sgd", "hinge"), ("sgd", "blinex")])
def test_swapped_labels_give_the_mirrored_machine_and_the_order_of_rows_does_not_matter(solver, loss, intercept):
    svm = machine(solver, loss=loss, intercept=intercept, tol=TOL.get(loss, 1e-6))
    plain = svm.fit(X, Y).decision_function(NEW)
    assert_allclose(svm.fit(X, 1 - Y).decision_function(NEW), -plain, atol=1e-12)
    if solver != "sgd":
        assert_allclose(svm.fit(X[::-1], Y[::-1]).decision_function(NEW), plain, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_random_problems_agree_with_libsvm_and_the_certificate_is_true(kernel, weighted):
    rng = np.random.default_rng(4)
    for _ in range(25):
        n, d = rng.integers(5, 60), rng.integers(1, 5)
        rows = rng.normal(size=(n, d)).round(rng.choice([0, 9]))
        y = (rows[:, 0] + rng.choice([0.1, 1.0]) * rng.normal(size=n) > 0.4).astype(int)
        if np.unique(y).size < 2:
            continue
        C, weight = 10 ** rng.uniform(-3, 0), rng.choice([0.5, 1.0, 2.0], size=n) if weighted else np.ones(n)
        params = {"C": C, "kernel": kernel, "gamma": 0.5, "coef0": 1.0}
        svm = KernelSVM(tol=1e-6, **params).fit(rows, y, weight)
        libsvm = SVC(tol=1e-9, **params).fit(rows, y, weight)
        product = rows @ rows.T
        matrix = {"rbf": rbf_kernel(rows, gamma=0.5), "linear": product, "poly": (0.5 * product + 1) ** 3}[kernel]
        objective, dual = certified(svm, matrix, y, C * weight)
        assert svm.objective_ == pytest.approx(objective, rel=1e-9)
        assert svm.dual_gap_ == pytest.approx(objective - dual, abs=1e-9 * objective)
        assert svm.dual_gap_ <= 1e-6 * objective
        _, theirs = certified(libsvm, matrix, y, C * weight)
        assert dual >= theirs * (1 - 1e-7)


# --- warm starts, copies, other places ---


@pytest.mark.parametrize(("solver", "loss"), EXACT)
def test_a_warm_start_from_anything_ends_where_a_cold_one_does(solver, loss):
    svm = machine(solver, loss=loss, warm_start=True).fit(X, Y)
    steps = [
        ({"C": 1e-3}, X, Y), ({"C": 100.0}, X, Y), ({"kernel": "linear", "C": 1.0}, X, Y), ({"intercept": 2.0}, X, Y),
        ({"intercept": "free"}, X, 1 - Y), ({}, X[:50], Y[:50]), ({"kernel": "rbf"}, X[:, :2], Y),
        ({}, X, np.where(Y, "a", "b")), ({}, csr_matrix(X), np.arange(N) % 3), ({}, X, (X[:, 0] > -0.7).astype(int)),
    ]  # fmt: skip
    for params, rows, y in steps:
        warm = svm.set_params(**params).fit(rows, y).objective_
        assert_allclose(warm, copy.deepcopy(svm).set_params(warm_start=False).fit(rows, y).objective_, rtol=1e-3)


@pytest.mark.parametrize("kernel", ["rbf", "precomputed", RBF(sigma=2.0)], ids=str)
def test_a_fitted_machine_is_its_copies_and_deaf_to_new_parameters(kernel):
    rows = K if kernel == "precomputed" else X
    svm = machine(kernel=kernel).fit(rows, Y)
    scores = svm.decision_function(rows)
    for other in (pickle.loads(pickle.dumps(svm)), copy.deepcopy(svm)):
        assert np.array_equal(other.decision_function(rows), scores)
    for changed in ("linear", "precomputed", "rbf"):
        assert np.array_equal(svm.set_params(kernel=changed, gamma=9.0, C=0.1).decision_function(rows), scores)


def _fit(seed, solver="smo"):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(500, 4))
    svm = machine(solver, max_iter=3000 if solver == "sgd" else None)
    return svm.fit(rows, rows[:, 0] + rng.normal(size=500) > 0.8).dual_coef_


@pytest.mark.parametrize(("solver", "backends"), [("smo", ["threading", "loky"]), ("sgd", ["threading"])])
def test_fits_at_the_same_time_do_not_disturb_each_other(solver, backends):
    expected = [_fit(seed, solver) for seed in range(4)]
    for backend in backends:
        found = Parallel(n_jobs=2, backend=backend)(delayed(_fit)(seed, solver) for seed in range(4))
        assert all(map(np.array_equal, found, expected))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork there")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fit_in_a_forked_process_is_the_same():
    expected, context = _fit(0), multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=lambda: queue.put(_fit(0)))
    child.start()
    assert np.array_equal(queue.get(timeout=30), expected)
    child.join()


@every_solver
def test_threads_do_not_change_a_bit(solver):
    rows = np.random.default_rng(0).normal(size=(2500 if solver != "lbfgs" else 700, 4))
    labels = (rows[:, 0] + rows[:, 1] ** 2 > 1.5).astype(int)
    fits = [machine(solver, n_jobs=jobs, max_iter=3000).fit(rows, labels) for jobs in (1, 2, 5, -1, None)]
    for svm in fits[1:]:
        assert np.array_equal(svm.dual_coef_, fits[0].dual_coef_)
        assert np.array_equal(svm.decision_function(rows), fits[0].decision_function(rows))


def test_scikit_learns_tools_take_a_kernel_machine():
    pipeline = make_pipeline(StandardScaler(), KernelSVM())
    grid = {"kernelsvm__C": [0.1, 1.0], "kernelsvm__kernel": ["rbf", RBF(sigma=2.0)], "kernelsvm__density": [None, 5]}
    assert GridSearchCV(pipeline, grid, cv=3).fit(X, Y).best_score_ >= 0.8
    ours, theirs = (
        GridSearchCV(kind(kernel="precomputed"), {"C": [0.1, 1.0]}, cv=3).fit(K, Y).best_score_
        for kind in (KernelSVM, SVC)
    )
    assert ours == pytest.approx(theirs)
    calibrated = CalibratedClassifierCV(KernelSVM(), cv=3).fit(X, Y, sample_weight=np.ones(N))
    assert calibrated.predict_proba(X).shape == (N, 2)
    assert repr(KernelSVM(kernel=RBF(sigma=2.0))) == "KernelSVM(kernel=RBF(gamma=0.25, sigma=2.0))"


# --- z ---


@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize(
    "svm", [LinearSVM(), KernelSVM(), KernelSVM(loss="log"), KernelSVM(kernel="linear", density="inverse")], ids=str
)
def test_z_of_our_machines_splits_their_scores(svm, cv):
    adjusted = ZAdjustedClassifier(svm, cv=cv).fit(X, Y)
    up, down, intercept = adjusted.estimator_.split_decision(NEW)
    assert_allclose(up + down + intercept, adjusted.estimator_.decision_function(NEW), atol=1e-9)
    assert_allclose(adjusted.decision_function(NEW), adjusted.z_ * up + down + intercept, atol=1e-9)


@pytest.mark.parametrize("svm", [LinearSVM(), KernelSVM()], ids=str)
def test_z_of_scores_that_are_all_equal_stays_at_one(svm):
    with pytest.warns(UserWarning, match="No choice changes the metric"):
        assert ZAdjustedClassifier(svm).fit(np.zeros((N, 2)), Y).z_ == 1.0


def test_z_says_what_it_cannot_do():
    with pytest.raises(ValueError, match="'C' parameter of KernelSVM"):
        ZAdjustedClassifier(KernelSVM(C=-1)).fit(X, Y)
    with pytest.raises(ValueError, match=r"Only binary classification.*3 classes"):
        ZAdjustedClassifier(KernelSVM()).fit(X, np.arange(N) % 3)
    with pytest.raises(ValueError, match="can be split for two classes only, not for 3"):
        KernelSVM().fit(X, np.arange(N) % 3).split_decision(X)


# --- Ctrl-C ---

CHILD = """
import warnings; import numpy as np; from evenmargin import KernelSVM
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(9000, 300)); y = (X[:, 0] + rng.normal(size=9000) > 0.5).astype(int)
for name, rows, params in [
    ("streamed", X[:, :4], {"C": 1e6, "tol": 0, "gamma": 0.5}), ("whole", X[:2000, :4], {"C": 1e8, "tol": 0}),
    ("cached", X, {"C": 1e6, "tol": 0, "gamma": 0.01}), ("sgd", X[:, :20], {"solver": "sgd", "max_iter": 10**9}),
    ("lbfgs", X[:3000], {"loss": "log", "C": 1e8, "solver": "lbfgs", "tol": 1e-9}),
    ("callable", X[:6000, :9], {"kernel": lambda A, B: np.exp(-0.1 * np.abs(A @ B.T)), "C": 1e4, "tol": 0}),
]:
    KernelSVM(**{**params, "max_iter": 1}).fit(rows[:200], y[:200])
    print(name, flush=True)  # compiled and under way from here
    try:
        KernelSVM(**params).fit(rows, y[: len(rows)])
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    else:
        print("ended by itself", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to a child there")
def test_ctrl_c_ends_every_fit_within_two_seconds():
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True)
    guard = threading.Timer(100, child.kill)  # a hang would block readline
    guard.start()
    outcome, late = {}, {}
    for fit in iter(child.stdout.readline, ""):
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        sent = time.monotonic()
        outcome[fit.strip()] = child.stdout.readline().strip()
        if time.monotonic() - sent > 2.0:
            late[fit.strip()] = time.monotonic() - sent
    guard.cancel()
    child.stdout.close()
    assert child.wait() == 0
    assert outcome == dict.fromkeys(["streamed", "whole", "cached", "sgd", "lbfgs", "callable"], "interrupted")
    assert not late
