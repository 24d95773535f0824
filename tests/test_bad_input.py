"""Bad and extreme input gives the right answer or one clear sentence, never nonsense."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from evenmargin import LinearSVM
from evenmargin.losses import Blinex
from evenmargin.sampling import Given, Uniform
from evenmargin.solvers import Nesterov, Newton, Pegasos
from evenmargin.stopping import AUCHalting, waiting_time

N = 60
_rng = np.random.default_rng(0)
X = _rng.normal(size=(N, 3))
Y = np.where(X[:, 0] + 0.5 * _rng.normal(size=N) > 0.9, 1, 0)  # 12 of 60
ONE = np.arange(N) == 7
LOSS = {"newton": "hinge", "dual_cd": "hinge", "lbfgs": "log", "pegasos": "hinge", "nesterov": "hinge"}
BUDGET = {"pegasos": 2000, "nesterov": 500}
EXACT = ["newton", "dual_cd", "lbfgs"]
STOCHASTIC = ["pegasos", "nesterov"]
NAN, INF = float("nan"), float("inf")

every_solver = pytest.mark.parametrize("solver", list(LOSS))
every_layout = pytest.mark.parametrize("layout", [np.asarray, csr_matrix], ids=["dense", "csr"])
may_not_converge = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def machine(solver="auto", **params):
    defaults = {"loss": LOSS.get(str(solver), "hinge"), "max_iter": BUDGET.get(str(solver)), "random_state": 0}
    return LinearSVM(solver=solver, **{**defaults, **params})


def finite(svm, rows=X):
    assert np.isfinite(svm.coef_).all()
    assert np.isfinite(svm.intercept_).all()
    assert np.isfinite(svm.decision_function(rows)).all()
    return svm


def fits_or_explains(svm, rows=X, weight=None):
    """Finite coefficients, or advice on what to change."""
    said = "choose"
    try:
        finite(svm.fit(rows, Y, weight), rows)
    except ValueError as error:
        said = str(error)
    assert re.search("scale the features|choose", said)


def announced(svm, rows=X):
    """Fit; True if it was refused or warned of. numpy's own warnings have a test of their own."""
    with warnings.catch_warnings(record=True) as seen, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        fits_or_explains(svm, rows)
    return not hasattr(svm, "coef_") or any(issubclass(warning.category, ConvergenceWarning) for warning in seen)


def with_cell(value):
    return np.where(ONE[:, None] & (np.arange(3) == 1), value, X)


# --- X ---


@every_layout
@every_solver
def test_data_that_cannot_be_fitted_is_refused_in_plain_words(solver, layout):
    for value, says in [(NAN, "X contains NaN"), (INF, "X contains infinity"), (-INF, "X contains infinity")]:
        with pytest.raises(ValueError, match=says):
            machine(solver).fit(layout(with_cell(value)), Y)
        with pytest.raises(ValueError, match=says):
            machine(solver).fit(layout(X), Y).predict(layout(with_cell(value)))
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        machine(solver).fit(layout(X[:0]), Y[:0])
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        machine(solver).fit(layout(X[:, :0]), Y)
    for label in (0, "rare"):  # as the user wrote it, not np.int64(0)
        with pytest.raises(ValueError, match=rf"one class only \({label!r}\).*at least two classes"):
            machine(solver).fit(layout(X), np.full(N, label))


@every_layout
@every_solver
def test_one_minority_row_is_enough(solver, layout):
    svm = finite(machine(solver, class_weight="balanced").fit(layout(X), np.where(ONE, "rare", "common")))
    if solver in EXACT:  # with all the cost of its class the row is worth a plane of its own
        assert svm.predict(layout(X[ONE])) == "rare"


@every_layout
@every_solver
def test_columns_without_news_change_nothing(solver, layout):
    plain, zeros, twice, sevens = (
        machine(solver, tol=1e-9).fit(layout(np.hstack([X, more])), Y).coef_[0]
        for more in (X[:, :0], np.zeros((N, 1)), X[:, :1], np.full((N, 1), 7.0))
    )
    assert_allclose(zeros, [*plain, 0.0], rtol=1e-6)
    assert_allclose(twice[0], twice[3], rtol=1e-6)
    assert np.isfinite(sevens).all()
    if solver in EXACT:  # the free intercept does a constant's work unpenalised
        assert_allclose(sevens, [*plain, 0.0], atol=1e-4)


@every_layout
@every_solver
def test_columns_too_small_to_matter_count_as_zeros_and_those_too_large_to_square_are_refused(solver, layout):
    for tiny in (1e-300, 1e-160):
        fits = [machine(solver, tol=1e-9).fit(layout(X * [1.0, scale, 1.0]), Y) for scale in (tiny, 0.0)]
        assert_allclose(finite(fits[0]).objective_, fits[1].objective_, rtol=1e-8)
    for scale in ([1e300] * 3, [1e-300, 1.0, 1e300], [1e160, 1.0, 1.0]):
        with pytest.raises(ValueError, match="too large to square in float64: scale the features"):
            machine(solver).fit(layout(X * scale), Y)


@every_layout
@every_solver
@pytest.mark.parametrize("intercept", ["free", "augmented", None])
@pytest.mark.parametrize("scale", [0.0, 1e-300])
def test_x_of_zeros_gives_no_weights_and_the_common_class(solver, layout, intercept, scale):
    rows = layout(scale * X)  # the CSR of zeros has no stored entry at all
    svm = finite(machine(solver, intercept=intercept).fit(rows, Y))
    assert_allclose(svm.coef_, 0, atol=1e-200)
    assert set(svm.predict(rows)) == {0}


@every_layout
@pytest.mark.parametrize("solver", ["newton", "dual_cd"])
def test_empty_rows_without_an_intercept_do_not_spoil_the_certificate(solver, layout):
    svm = machine(solver, intercept=None)
    assert not announced(svm, layout(np.where(np.arange(N)[:, None] < 5, 0.0, X)))
    assert svm.dual_gap_ <= 1e-6 * svm.objective_


@every_layout
@every_solver
def test_more_columns_than_rows_is_no_trouble(solver, layout):
    wide, labels = np.random.default_rng(1).normal(size=(10, 200)), np.arange(10) % 2
    assert finite(machine(solver).fit(layout(wide), labels), wide).score(layout(wide), labels) == 1.0


@every_solver
@may_not_converge
@pytest.mark.parametrize(
    ("scale", "params"),
    [(1e12, {}), (3e37, {}), (1e-45, {}), (1.0, {"intercept": 1e300}), (1e-40, {"C": 1e85}), (1e12, {"C": 1e30})],
)
def test_extremes_of_float32_never_overflow_unseen(solver, scale, params):
    fits_or_explains(machine(solver, **params), np.abs(scale * X).astype(np.float32))


@every_layout
def test_scores_of_huge_rows_are_never_nan(layout):
    svm = machine(C=100.0).fit(X, X[:, 0] > X[:, 1])  # weights of about 8 and −9
    with np.errstate(all="ignore"), contextlib.suppress(ValueError):
        assert not np.isnan(svm.decision_function(layout([[1.7e308, 1.7e308, 0.0]]))).any()


@every_solver
def test_csr_in_any_order_with_repeats_and_long_indices_is_the_matrix_it_means(solver):
    tidy = csr_matrix(np.where(X > 0, X, 0.0))
    order = np.concatenate([np.arange(a, b)[::-1] for a, b in zip(tidy.indptr[:-1], tidy.indptr[1:], strict=True)])
    order = np.repeat(order, 2)  # each entry twice, at half its value
    untidy = csr_matrix((0.5 * tidy.data[order], tidy.indices[order], 2 * tidy.indptr), shape=X.shape)
    untidy.indices, untidy.indptr = untidy.indices.astype(np.int64), untidy.indptr.astype(np.int64)
    expected, got = machine(solver).fit(tidy.toarray(), Y), machine(solver).fit(untidy, Y)
    assert_allclose([*got.coef_[0], *got.intercept_], [*expected.coef_[0], *expected.intercept_], rtol=1e-6)
    assert untidy.nnz == order.size  # the caller's matrix is left as it was


def test_a_csr_matrix_that_points_outside_itself_is_refused():
    code = (
        "import numpy as np; from scipy.sparse import csr_matrix; from evenmargin import LinearSVM\n"
        "X = csr_matrix(np.ones((6, 3))); X.indices[4] = 10**6; LinearSVM().fit(X, [0, 1] * 3)"
    )  # in a process of its own: compiled loops would write there
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, "ValueError" in done.stderr) == (1, True)


@pytest.mark.parametrize("convert", [lambda x: x.astype(int), lambda x: x > 0, lambda x: x.astype(object), list])
def test_numbers_of_any_type_are_numbers(convert):
    rows = convert(10 * X)
    assert_allclose(machine().fit(rows, Y).coef_, machine().fit(np.asarray(rows, dtype=float), Y).coef_, rtol=1e-12)


def test_predict_needs_a_fit_and_the_columns_of_the_fit():
    frame = pd.DataFrame(X, columns=list("abc"))
    with pytest.raises(NotFittedError, match="not fitted yet"):
        machine().predict(X)
    with pytest.raises(ValueError, match="X has 2 features, but LinearSVM is expecting 3"):
        machine().fit(X, Y).predict(csr_matrix(X[:, :2]))
    with pytest.raises(ValueError, match="same order as they were in fit"):
        machine().fit(frame, Y).predict(frame[["c", "b", "a"]])
    with pytest.raises(ValueError, match="could not convert string to float: 'red'"):
        machine().fit(frame.assign(colour="red"), Y)


# --- y, weights and parameters ---

TEXT = np.where(Y, "a", "b")
WEIGHTS = [
    *[(np.where(ONE, bad, 1.0), says) for bad, says in [(NAN, "contains NaN"), (INF, "infinity"), (-1.0, "Negative")]],
    (np.zeros(N), "(?i)sample weights.*zero"),
    (np.ones(3), r"sample_weight has shape \(3,\); .* each of the 60 rows"),
    (1.0 - Y, "one class only.*weight 0"),
]
SET_ASIDE = [
    ((X, 0 * Y), "stopping: .* must include both classes"),
    ((X[:, :2], Y), "2 features"),
    ((with_cell(NAN), Y), "NaN"),
    *[((rows, labels), "stopping|inconsistent") for rows, labels in [(X, Y[:5]), (X[:20], Y)]],
    ((X, np.where(Y, 1, 9)), "stopping"),  # 9 is no class of the fit
    ((X, np.c_[Y, Y]), "stopping|1d array"),
    ((X,), "stopping|validation"),
]


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"y": X[:, 0]}, "Unknown label type: continuous"),
        ({"y": Y[:5]}, r"inconsistent numbers of samples: \[60, 5\]"),
        ({"y": np.c_[Y, Y]}, "y should be a 1d array"),
        ({"y": np.where(ONE, NAN, Y)}, "y contains NaN"),
        ({"y": np.where(ONE, None, Y)}, "must be of one type, none of them missing"),
        ({"y": np.where(ONE, None, TEXT)}, "(?i)label|missing"),
        ({"y": pd.Series(TEXT, dtype="string").mask(ONE)}, "(?i)label|missing|contains NaN"),
        ({"y": np.array(["a", *Y[1:].tolist()], dtype=object)}, "(?i)label|classes|uniformly"),
        *[({"sample_weight": weight, "solver": solver}, says) for solver in LOSS for weight, says in WEIGHTS],
        ({"class_weight": "even"}, "class_weight='even' is unknown; choose None, 'balanced'"),
        ({"class_weight": {0: 1.0, 2: 5.0}}, r"class_weight names \[2\], but the classes are \[0, 1\]"),
        *[({"class_weight": {1: bad}}, "class_weight must give each class a finite weight above 0")
          for bad in (0, -1, NAN, INF)],
        *[({"class_weight": {1: bad}}, "class_weight") for bad in ("heavy", None)],
        *[({"class_weight": lambda _, bad=bad: bad}, "class_weight")
          for bad in (3.0, [1.0], [1.0, 2.0, 3.0], [1.0, NAN], [1.0, -1.0])],
        ({"loss": "huber"}, "loss='huber' is unknown; choose one of 'blinex', 'hinge'"),
        ({"solver": "sgd"}, "solver='sgd' is unknown; choose one of 'auto', 'newton'"),
        ({"sampling": "odd"}, "sampling='odd' is unknown; choose one of 'balanced', 'uniform'"),
        ({"sampling": Uniform}, "sampling"),  # the class, not an instance
        ({"intercept": "yes"}, "'intercept' parameter.*'augmented'"),
        ({"intercept": True}, "intercept"),  # not a fixed intercept of 1: whoever writes True wants "free"
        ({"stopping": "soon"}, "'stopping' parameter.*'auc'"),
        *[({"stopping": AUCHalting(every=10, validation=rows)}, says) for rows, says in SET_ASIDE],
        *[({name: bad}, f"'{name}' parameter .* must be .* in the range")
          for name in ("C", "alpha", "max_iter", "tol") for bad in (-1, NAN, INF, *[0] * (name != "tol"))],
        *[({"loss": Blinex(a=bad)}, "Blinex.*valid loss: a must be finite and not 0") for bad in (0, NAN, INF, "x")],
        *[({"loss": Blinex(b=bad)}, "Blinex.*valid loss: .* b finite and above 0") for bad in (-1, 0, NAN)],
        ({"solver": "dual_cd", "loss": "log"}, "needs a loss with 'dual_box'.* take this loss: 'newton', 'lbfgs'"),
        ({"solver": "newton", "loss": "blinex"}, "needs a loss with 'conjugate'.* take this loss: 'lbfgs', 'pegasos'"),
        ({"solver": "lbfgs", "loss": "hinge"}, "needs a loss with 'curvature'.* take this loss: 'newton', 'dual_cd'"),
        *[({"sampling": Given(bad)}, "given indices must be a non-empty list of rows from 0 to 59")
          for bad in ([N], [-1], [], [[0, 1]], [0.5], ["a"], None)],
    ],
    ids=lambda case: case if isinstance(case, str) else " ".join(case),
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(case, says):
    case = {"solver": "pegasos", "max_iter": 500, "y": Y, "sample_weight": None, **case}
    y, weight = case.pop("y"), case.pop("sample_weight")
    with pytest.raises((ValueError, TypeError), match=says):
        machine(**case).fit(X, y, weight)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (Nesterov, {"batch_size": 0}), (Nesterov, {"momentum": 2.0}), (Nesterov, {"eta0": -1.0}),
        (Nesterov, {"schedule": "linear"}), (Pegasos, {"change_tol": NAN}), (Newton, {"warm_epochs": 1.5}),
        (AUCHalting, {"every": 0}), (AUCHalting, {"patience": 0.5}),
    ],
)  # fmt: skip
def test_options_out_of_range_are_refused_when_given(kind, options):
    ((name, bad),) = options.items()
    with pytest.raises(ValueError, match=f"{kind.__name__}: {name}={bad!r} must be"):
        kind(**options)


def test_a_population_is_a_number_of_rows():
    with pytest.raises(ValueError, match="population=-5"):
        Given([0, 2], population=-5)


def test_methods_that_are_not_there_say_what_would_bring_them():
    for method, says in [("predict_proba", "needs loss='log'"), ("partial_fit", "needs solver='pegasos'")]:
        with pytest.raises(AttributeError, match=method) as caught:
            getattr(machine("newton"), method)
        assert says in str(caught.value.__cause__)  # where scikit-learn puts it


@pytest.mark.parametrize("C", [1e-100, 1e-12, 1e-8, 1e12, 1e200])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log"])
def test_no_solver_calls_itself_converged_above_what_another_finds(loss, C):
    solvers = {"hinge": ["newton", "dual_cd"], "log": ["newton", "lbfgs"]}.get(loss, EXACT)
    fits = [machine(solver, loss=loss, C=C) for solver in [*solvers, "nesterov"]]
    warned = [announced(svm) for svm in fits]
    best = min(getattr(svm, "objective_", INF) for svm in fits)
    for svm, unsure in zip(fits[:-1], warned[:-1], strict=True):
        assert unsure or svm.objective_ <= best * (1 + 1e-5)


@pytest.mark.parametrize(
    ("solver", "params"), [("newton", {"max_iter": 1}), ("lbfgs", {"max_iter": 1}), ("dual_cd", {"C": 1e-8})]
)
def test_a_warning_of_a_gap_above_tol_is_true(solver, params):
    svm = machine(solver, **params)
    assert announced(svm) == (not svm.dual_gap_ <= svm.tol * svm.objective_)


@every_solver
@may_not_converge
@pytest.mark.parametrize(
    ("params", "weight"),
    [({"C": 1e-12}, 1.0), ({"C": 1e12}, 1.0), ({"C": 1e200}, 1.0), ({}, 1e308), ({"class_weight": "inverse"}, 1e-320)],
)
def test_any_price_is_met_without_a_warning_from_numpy(solver, params, weight):
    fits_or_explains(machine(solver, **params), weight=np.full(N, weight))


@pytest.mark.parametrize("solver", STOCHASTIC)
@pytest.mark.parametrize(("C", "scale"), [(1e12, 1.0), (1.0, 1e8)])
def test_a_stochastic_answer_worse_than_none_is_announced(solver, C, scale):
    svm = machine(solver, C=C, max_iter=None)  # the steps are ours to choose, so the result is ours to judge
    assert announced(svm, X * [1.0, 1.0, scale]) or svm.objective_ <= C * N  # the hinge of w = 0, b = 0


@every_layout
@every_solver
@may_not_converge
def test_tol_zero_ends_at_the_last_digits(solver, layout):
    svm = finite(machine(solver, tol=0).fit(layout(X), Y))
    assert solver in STOCHASTIC or svm.dual_gap_ <= 1e-12 * svm.objective_


@every_layout
@pytest.mark.parametrize("solver", ["lbfgs", *STOCHASTIC])
@pytest.mark.parametrize("a", [100.0, -100.0])
@may_not_converge
def test_a_steep_blinex_is_finite_and_warned_of(solver, layout, a):
    with pytest.warns(UserWarning, match="choose a smaller a or b"):
        svm = finite(machine(solver, loss=Blinex(a)).fit(layout(X), Y))
    assert svm.objective_ <= 60.0  # no loss is above 1, and w = 0 has no penalty


def test_auc_halting_counts_in_whole_numbers_from_one():
    assert AUCHalting(every=waiting_time([3, 5, 2, 6]).integers()[0]).every >= 1  # numpy's own too
    for params in ({"every": 0}, {"every": -1}, {"every": 1.5}, {"every": "a"}, {"patience": 0}):
        with pytest.raises(ValueError, match="must be a whole number of at least 1"):
            AUCHalting(**params)


# --- partial_fit ---


def test_partial_fit_says_what_a_batch_lacks_and_forgets_it():
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        machine("pegasos").partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"one class only.*at least two"):
        machine("pegasos").partial_fit(X, Y, classes=[1])
    svm, untouched = (machine("pegasos").partial_fit(X, Y, classes=[0, 1]) for _ in range(2))
    for rows, labels, says in [
        (X, Y + 1, r"y has classes \[2\] that are not among \[0, 1\]"),
        (X[:, :2], Y, "X has 2 features, but LinearSVM is expecting 3"),
        (X[:0], Y[:0], r"0 sample\(s\)"),
        (with_cell(NAN), Y, "NaN"),
    ]:
        with pytest.raises(ValueError, match=says):
            svm.partial_fit(rows, labels)
    assert np.array_equal(svm.partial_fit(X, Y).coef_, untouched.partial_fit(X, Y).coef_)


@every_layout
@pytest.mark.parametrize("class_weight", [None, "balanced", "inverse", {0: 1.0, 1: 5.0}])
@pytest.mark.parametrize("sampling", ["uniform", "balanced"])
def test_a_batch_may_hold_one_class_only(layout, class_weight, sampling):
    svm = machine("pegasos", class_weight=class_weight, sampling=sampling)
    for label in (0, 1, 0):
        chosen = np.flatnonzero(label == Y)
        finite(svm.partial_fit(layout(X[chosen]), Y[chosen], classes=[0, 1]))
    assert svm.n_iter_ == N + (Y == 0).sum()


# --- Ctrl-C ---

CHILD = """
import warnings; import numpy as np; from scipy.sparse import csr_matrix; from evenmargin import LinearSVM
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(15_000, 900)); y = (X[:, 0] + rng.normal(size=15_000) > 0.5).astype(int)
for solver, loss, n, d, layout in [
    ("pegasos", "hinge", 500, 10, np.asarray), ("nesterov", "hinge", 500, 10, np.asarray),
    ("dual_cd", "hinge", 5000, 20, np.asarray), ("lbfgs", "log", 15_000, 900, csr_matrix),
    ("newton", "hinge", 15_000, 400, np.asarray), ("newton", "log", 15_000, 900, csr_matrix),
]:
    rows = layout(np.ascontiguousarray(X[:n, :d]))
    svm = LinearSVM(C=1e6, solver=solver, loss=loss, tol=0, max_iter=1, random_state=0).fit(rows[:300, :5], y[:300])
    print(solver, layout.__name__, flush=True)  # compiled and under way from here
    try:
        svm.set_params(max_iter=10**10).fit(rows, y[:n])
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    else:
        print("ended by itself", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to a child there")
def test_ctrl_c_ends_every_fit_within_a_second():
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True)
    guard = threading.Timer(100, child.kill)  # a hang would block readline
    guard.start()
    outcome, late = [], {}
    for fit in iter(child.stdout.readline, ""):
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        sent = time.monotonic()
        outcome.append(child.stdout.readline().strip())
        if time.monotonic() - sent > 1.0:
            late[fit.strip()] = time.monotonic() - sent
    guard.cancel()
    child.stdout.close()
    assert child.wait() == 0
    assert outcome == ["interrupted"] * 6
    assert not late
