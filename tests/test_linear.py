"""LinearSVM as its users meet it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from conftest import imbalanced
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer, recall_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from evenmargin import LinearSVM
from evenmargin.losses import Blinex
from evenmargin.solvers import Nesterov, Pegasos
from evenmargin.stopping import AUCHalting

X, Y = imbalanced(n=240, d=6, seed=2)

# --- scikit-learn's own checks ---

EXACT = [
    LinearSVM(),
    LinearSVM(loss="squared_hinge"),
    LinearSVM(loss="log", class_weight="balanced"),
    LinearSVM(solver="dual_cd", tol=1e-12),
    LinearSVM(solver="dual_cd", loss="squared_hinge", tol=1e-16),
    LinearSVM(solver="lbfgs", loss="log"),
    LinearSVM(solver="lbfgs", loss="squared_hinge"),
    LinearSVM(solver="lbfgs", loss="blinex", tol=1e-12),
    LinearSVM(intercept="augmented"),
]
STOCHASTIC = [LinearSVM(solver="pegasos"), LinearSVM(solver="nesterov")]


def _declared(estimator):
    """The two checks that a stochastic solver can meet in expectation only; see test_stochastic.py."""
    if estimator.solver not in ("pegasos", "nesterov"):
        return {}
    reason = "a row twice is drawn twice as often: equal to a weight of 2 in expectation, not draw by draw"
    return {f"check_sample_weight_equivalence_on_{layout}_data": reason for layout in ("dense", "sparse")}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(EXACT + STOCHASTIC, expected_failed_checks=_declared)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# --- input ---


@pytest.mark.parametrize("frame", [pd.DataFrame, lambda a, columns: pl.DataFrame(a, schema=list(columns))])
def test_frames_keep_their_names(frame):
    names = [f"column {j}" for j in range(6)]
    table = frame(X, columns=names)
    svm = LinearSVM().fit(table, np.where(Y > 0, "fraud", "fine"))
    assert_array_equal(svm.feature_names_in_, names)
    assert set(svm.predict(table)) == {"fraud", "fine"}
    assert_allclose(svm.coef_, LinearSVM().fit(X, Y).coef_)
    with pytest.raises(ValueError, match="feature names"):
        svm.predict(frame(X, columns=names[::-1]))


@pytest.mark.parametrize("container", [csr_array, csr_matrix])
def test_sparse_containers_and_duplicate_entries(container):
    plain = container(X)
    doubled = container(
        (np.tile(X.ravel() / 2, 2), (np.tile(np.repeat(np.arange(240), 6), 2), np.tile(np.arange(6), 480)))
    )
    unsummed = container((240, 6))
    unsummed.data = np.repeat(X.ravel() / 2, 2)
    unsummed.indices = np.repeat(np.tile(np.arange(6), 240), 2).astype(np.int32)
    unsummed.indptr = np.arange(0, 2881, 12).astype(np.int32)
    expected = LinearSVM().fit(X, Y).coef_
    for matrix in (plain, doubled, unsummed):
        assert_allclose(LinearSVM().fit(matrix, Y).coef_, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "options", [{"solver": "pegasos"}, {"solver": "lbfgs", "loss": "log"}, {}, {"solver": "dual_cd"}]
)
def test_a_good_x_is_not_copied(options):
    rng = np.random.default_rng(0)
    table = np.zeros((40_000, 500), dtype=np.float32)
    table[:, :20] = rng.normal(size=(40_000, 20))
    labels = np.where(table[:, 0] + rng.normal(size=40_000) > 2, 1, -1)
    svm = LinearSVM(C=1e-3, tol=1e-2, max_iter=20, random_state=0, **options)
    svm.fit(table[:500], labels[:500])  # compile first
    tracemalloc.start()
    svm.fit(table, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 0.10 * table.nbytes


# --- several classes ---


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_several_classes_are_one_against_the_rest(loss, class_weight):
    flowers, kinds = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[kinds]
    svm = LinearSVM(loss=loss, class_weight=class_weight).fit(flowers, names)
    assert svm.coef_.shape == (3, 4)
    assert svm.objective_.shape == svm.dual_gap_.shape == (3,)
    assert len(svm.status_) == len(svm.history_) == 3
    peer = OneVsRestClassifier(LinearSVM(loss=loss, class_weight=class_weight)).fit(flowers, names)
    assert_allclose(svm.decision_function(flowers), peer.decision_function(flowers), rtol=1e-6, atol=1e-8)
    assert_array_equal(svm.predict(flowers), peer.predict(flowers))
    if loss == "log":
        assert_allclose(svm.predict_proba(flowers).sum(axis=1), 1.0)


def test_a_dict_of_class_weights_reaches_every_row_of_its_class():
    flowers, kinds = load_iris(return_X_y=True)
    by_class = LinearSVM(class_weight={0: 1.0, 1: 3.0, 2: 0.5}).fit(flowers, kinds)
    by_row = LinearSVM().fit(flowers, kinds, np.array([1.0, 3.0, 0.5])[kinds])
    assert_allclose(by_class.coef_, by_row.coef_, rtol=1e-6, atol=1e-8)


# --- what the machine says of itself ---


def test_the_minority_gains_from_balance():
    plain, even = LinearSVM().fit(X, Y), LinearSVM(class_weight="balanced").fit(X, Y)
    assert recall_score(Y, even.predict(X)) > recall_score(Y, plain.predict(X))


@pytest.mark.parametrize(
    ("options", "solver"),
    [({}, "newton"), ({"loss": "log"}, "newton"), ({"loss": "blinex"}, "lbfgs"), ({"solver": Nesterov(8)}, "nesterov")],
)
def test_it_says_which_solver_it_took_and_why_it_stopped(options, solver):
    svm = LinearSVM(random_state=0, **options).fit(X, Y)
    assert svm.solver_ == solver
    assert svm.n_iter_ >= 1
    assert isinstance(svm.status_.value, str)
    assert svm.history_[-1]["objective"] == pytest.approx(svm.objective_)


def test_many_columns_are_left_to_other_solvers():
    rng = np.random.default_rng(0)
    wide, labels = rng.normal(size=(30, 1001)), np.where(np.arange(30) < 8, 1, -1)
    assert LinearSVM().fit(wide, labels).solver_ == "dual_cd"
    assert LinearSVM(loss="log").fit(wide, labels).solver_ == "lbfgs"


def test_a_budget_that_is_too_small_gets_a_warning_one_can_act_on():
    table, labels = imbalanced(n=20_000, d=6)
    for options in ({"solver": "newton"}, {"solver": "dual_cd"}, {"solver": "lbfgs", "loss": "log"}):
        with pytest.warns(ConvergenceWarning, match="raise max_iter, scale the features"):
            LinearSVM(max_iter=1, **options).fit(table, labels)


def test_blinex_that_turns_the_costs_around_is_warned_of():
    with pytest.warns(UserWarning, match="choose a smaller a or b"):
        LinearSVM(loss=Blinex(a=3.0, b=1.0)).fit(X, Y)


def test_verbose_draws_a_bar(capsys):
    LinearSVM(solver="pegasos", verbose=1, max_iter=2000, random_state=0).fit(X, Y)
    assert "2000/2000" in capsys.readouterr().out


def test_the_html_of_the_estimator_names_it():
    assert "LinearSVM" in LinearSVM(loss=Blinex(2.0, 0.1), solver=Pegasos())._repr_html_()


# --- seeds and threads ---


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "pegasos"}, {"solver": "nesterov"}, {"solver": "dual_cd"}, {"solver": "newton"},
        {"solver": "lbfgs", "loss": "log"},
        {"solver": "pegasos", "sampling": "balanced", "stopping": AUCHalting(50, 3)},
    ],
)  # fmt: skip
def test_the_same_seed_gives_the_same_bits_whatever_the_threads(options):
    rng = np.random.default_rng(5)
    table = rng.normal(size=(3000, 40))
    kinds = np.argmax(table[:, :3] + rng.normal(size=(3000, 3)), axis=1)
    first = LinearSVM(random_state=7, C=0.01, **options).fit(table, kinds)
    for jobs, blas in ((1, 1), (2, 1), (2, 2), (1, 2)):
        with threadpool_limits(blas, user_api="blas"):
            again = LinearSVM(random_state=7, C=0.01, n_jobs=jobs, **options).fit(table, kinds)
        assert_array_equal(first.coef_, again.coef_)
        assert_array_equal(first.intercept_, again.intercept_)
    if options["solver"] in ("pegasos", "nesterov"):
        assert np.any(LinearSVM(random_state=8, C=0.01, **options).fit(table, kinds).coef_ != first.coef_)


# --- warm starts and streams ---


@pytest.mark.parametrize(
    ("loss", "solver"), [("hinge", "dual_cd"), ("hinge", "newton"), ("log", "newton"), ("log", "lbfgs")]
)
def test_a_warm_start_goes_on_from_the_last_fit(loss, solver):
    cold = LinearSVM(loss=loss, solver=solver, C=1.0, random_state=0).fit(X, Y)
    warm = LinearSVM(loss=loss, solver=solver, C=0.9, random_state=0, warm_start=True).fit(X, Y)
    warm.set_params(C=1.0).fit(X, Y)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-6)
    again = warm.fit(X, Y)
    assert again.n_iter_ < 0.5 * cold.n_iter_
    assert again.objective_ == pytest.approx(cold.objective_, rel=2e-6)


def test_a_warm_start_obeys_another_intercept():
    svm = LinearSVM(loss="log", warm_start=True, random_state=0).fit(X, Y)
    for intercept in (None, 0.7):
        for solver in ("newton", "lbfgs", "nesterov", "pegasos"):
            cold = LinearSVM(loss="log", intercept=intercept).fit(X, Y)
            svm.set_params(intercept=intercept, solver=solver).fit(X, Y)
            assert svm.intercept_ == (intercept or 0.0)
            assert svm.objective_ >= cold.objective_ * (1 - 1e-9)
            assert svm.objective_ - svm.dual_gap_ <= cold.objective_ * (1 + 1e-9)


def test_a_small_budget_is_kept_on_small_data():
    for options in ({"solver": "newton"}, {"solver": "lbfgs", "loss": "log"}, {"solver": "dual_cd"}):
        with pytest.warns(ConvergenceWarning):
            svm = LinearSVM(max_iter=2, random_state=0, **options).fit(X, Y)
        assert svm.n_iter_ == 2
        assert svm.dual_gap_ > 1e-6 * svm.objective_


def test_stopping_is_for_stochastic_solvers():
    assert LinearSVM(stopping="auc", random_state=0).fit(X, Y).solver_ == "pegasos"
    with pytest.raises(ValueError, match="with 'newton' use None"):
        LinearSVM(stopping="auc", solver="newton").fit(X, Y)


def _batches(count=30, size=200):
    rng = np.random.default_rng(0)
    for _ in range(count):
        rows = rng.normal(size=(size, 5))
        yield rows, np.where(rows @ [1, -1, 0.5, 0, 0] + rng.normal(size=size) > 2.5, "rare", "common")


@pytest.mark.parametrize("price", [{"alpha": 0.1}, {"C": 0.002}], ids=["alpha", "C"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"rare": 8.0}], ids=["none", "balanced", "dict"])
@pytest.mark.parametrize(("size", "layout"), [(200, np.asarray), (200, csr_array), (10, np.asarray), (1, np.asarray)])
def test_a_stream_ends_near_the_machine_of_all_its_rows_however_it_is_cut(class_weight, price, size, layout):
    stream = LinearSVM(class_weight=class_weight, random_state=0, **price)
    rows, labels = [], []
    for X_batch, y_batch in _batches(6000 // size, size):
        stream.partial_fit(layout(X_batch), y_batch, classes=["common", "rare"])
        rows.append(X_batch)
        labels.append(y_batch)
    whole = LinearSVM(class_weight=class_weight, **price).fit(np.concatenate(rows), np.concatenate(labels))
    ours, theirs = (np.append(svm.coef_, svm.intercept_) for svm in (stream, whole))
    length, goal = np.linalg.norm(ours), np.linalg.norm(theirs)
    assert ours @ theirs > 0.985 * length * goal
    assert 0.8 * goal < length < 1.6 * goal
    assert stream.n_iter_ == 6000


def test_a_stream_of_several_classes_may_show_one_class_at_a_time():
    flowers, kinds = load_iris(return_X_y=True)
    flowers = StandardScaler().fit_transform(flowers)
    svm = LinearSVM(alpha=1e-2, class_weight="balanced", random_state=0)
    order = np.random.default_rng(0).permutation(150)
    for _ in range(20):
        for start in range(0, 150, 25):
            part = order[start : start + 25]
            for kind in range(3):
                chosen = part[kinds[part] == kind]
                svm.partial_fit(flowers[chosen], kinds[chosen], classes=[0, 1, 2])
    assert svm.score(flowers, kinds) > 0.8


def test_a_stream_refuses_other_classes_and_stays_as_it_was():
    svm = LinearSVM(alpha=0.1, random_state=0)
    with pytest.raises(ValueError, match="not among"):
        svm.partial_fit(X, Y, classes=[0, 1])
    assert not hasattr(svm, "coef_")
    svm.partial_fit(X, Y, classes=[-1, 1])
    with pytest.raises(ValueError, match="differ from those of earlier calls"):
        svm.partial_fit(X, Y, classes=[-1, 1, 2])


def test_a_stream_goes_on_after_fit():
    svm = LinearSVM(alpha=1e-2, random_state=0).fit(X, Y)
    before, auc = svm.coef_.copy(), roc_auc_score(Y, svm.decision_function(X))
    svm.partial_fit(X[:50], Y[:50])
    assert svm.n_iter_ == 290
    assert np.any(svm.coef_ != before)
    assert roc_auc_score(Y, svm.decision_function(X)) > 0.9 * auc


# --- in company ---


def test_metadata_routing_carries_sample_weights():
    weight = np.where(Y > 0, 4.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        svm = LinearSVM().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        result = cross_validate(svm, X, Y, params={"sample_weight": weight}, return_estimator=True, cv=3)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipe = make_pipeline(scaler, svm).fit(X, Y, sample_weight=weight)
    assert all(np.isfinite(result["test_score"]))
    assert_allclose(
        pipe[-1].coef_, LinearSVM().fit(StandardScaler().fit_transform(X), Y, weight).coef_, rtol=1e-6, atol=1e-9
    )


def test_a_grid_search_over_parts():
    grid = {
        "loss": ["hinge", "log", Blinex(1.5, 0.5)],
        "class_weight": [None, "balanced"],
        "solver": [Pegasos(), Nesterov(batch_size=8)],
    }
    svm = LinearSVM(C=0.1, max_iter=500, random_state=0)
    search = GridSearchCV(svm, grid, scoring=make_scorer(recall_score), cv=3).fit(X, Y)
    assert len(search.cv_results_["params"]) == 12
    assert search.best_params_["class_weight"] == "balanced"


@pytest.mark.parametrize("svm", [LinearSVM(), LinearSVM(solver=Pegasos(), loss=Blinex(), random_state=0)])
def test_models_survive_pickling_and_cloning(svm):
    svm.fit(X, Y)
    copy = pickle.loads(pickle.dumps(svm))
    assert_array_equal(copy.predict(X), svm.predict(X))
    assert clone(svm).get_params()["loss"] == svm.loss


def _python(code, folder=None, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder,
        env={**os.environ, **environment},
    ).stdout.strip()  # fmt: skip


def test_importing_and_predicting_never_import_numba(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(
        pickle.dumps(LinearSVM(solver=Pegasos(), stopping=AUCHalting(), loss=Blinex(), random_state=0).fit(X, Y))
    )
    code = (
        "import pickle, sys, numpy as np, evenmargin, evenmargin.papers, evenmargin.solvers\n"
        f"model = pickle.load(open({str(path)!r}, 'rb'))\n"
        "model.predict(np.zeros((3, 6)))\n"
        "print('numba' in sys.modules)"
    )
    assert _python(code) == "False"


def test_a_loss_of_the_users_own_is_not_kept_on_disk(tmp_path):
    """The digest of our sources says nothing of it: an edit would go unnoticed."""
    code = (
        "import sys; sys.path.insert(0, '.')\nimport numpy as np\nfrom evenmargin import LinearSVM\n"
        "from mine import Mine\nX = np.array([[1.0], [2.0], [-1.0]]); y = np.array([1, 1, 0])\n"
        "print(LinearSVM(loss=Mine(), solver='pegasos', intercept=None, max_iter=1, random_state=0).fit(X, y).coef_)"
    )
    seen = []
    for slope in ("-1.0", "-2.0"):
        (tmp_path / "mine.py").write_text(
            "from typing import NamedTuple\nclass Mine(NamedTuple):\n"
            "    def value(self, margin, label): return -margin\n"
            f"    def slope(self, margin, label): return {slope}\n"
        )
        seen.append(_python(code, folder=tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache")))
    assert seen[0] != seen[1]


FIT = (
    "import numpy as np\nfrom evenmargin import LinearSVM\n"
    "X = np.array([[0.0, 1], [1, 0], [2, 2], [3, 1], [0, 0], [1, 3]]); y = np.array([0, 0, 1, 1, 0, 1])\n"
    "for loss, solver in [('hinge', 'newton'), ('hinge', 'dual_cd'), ('log', 'lbfgs'), ('log', 'newton'),"
    " ('hinge', 'pegasos'), ('blinex', 'nesterov')]:\n"
    "    m = LinearSVM(loss=loss, solver=solver, max_iter=None if solver in ('newton', 'dual_cd', 'lbfgs') else 200,"
    " random_state=0).fit(X, y)\n"
    "    print(solver, np.round(m.coef_[0], 6) + 0.0)\n"
)


def test_the_loops_run_without_the_jit():
    """What coverage tools see, and where numba cannot run; also shows NaNs that compiled code hides."""
    assert _python(FIT, NUMBA_DISABLE_JIT="1", PYTHONWARNINGS="error") == _python(FIT)


def test_a_folder_that_cannot_be_written_means_compiling_in_memory(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    code = (
        "from evenmargin._core import _jit\nfrom evenmargin._core.loss_loops import values\n"
        "import numpy as np\nfrom evenmargin.losses import Hinge\n"
        "out = np.empty(1); values(Hinge(), np.zeros(1), np.ones(1), out)\nprint(_jit.cache_folder(), out[0])"
    )
    assert _python(code, NUMBA_CACHE_DIR=str(blocked)) == "None 1.0"


def test_compiled_loops_are_cached_under_a_digest_of_the_sources(tmp_path):
    code = (
        "from evenmargin._core import _jit, loss_loops\nimport numpy as np\nfrom evenmargin.losses import Hinge\n"
        "loss_loops.values(Hinge(), np.zeros(1), np.ones(1), np.empty(1))\n"
        "print(_jit.source_digest(), sum(loss_loops.values.stats.cache_hits.values()))"
    )
    digest, hits = _python(code, NUMBA_CACHE_DIR=str(tmp_path)).split()
    assert hits == "0"
    assert list((tmp_path / "evenmargin" / digest).glob("*.nbc"))
    assert _python(code, NUMBA_CACHE_DIR=str(tmp_path)).split() == [digest, "1"]


def test_a_fixed_intercept_stays_what_it_is_over_the_batches_of_a_stream():
    X, y = imbalanced(300)
    svm = LinearSVM(intercept=0.5, random_state=0)
    for start in range(0, 300, 100):
        svm.partial_fit(X[start : start + 100], y[start : start + 100], classes=[-1, 1])
        assert svm.intercept_[0] == 0.5
