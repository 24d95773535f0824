"""LinearSVM on dask arrays and frames, on dask's threads: the machine that it is in memory, the table not loaded."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from conftest import imbalanced
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from evenmargin import LinearSVM, ZAdjustedClassifier, load, save
from evenmargin.problem import Status

dask = pytest.importorskip("dask", reason="the extra dask is not installed")
da = pytest.importorskip("dask.array", reason="the extra dask is not installed")
dd = pytest.importorskip("dask.dataframe", reason="the extra dask is not installed")

LOSSES = ["hinge", "squared_hinge", "log"]
NAMES = list("abcdef")


@pytest.fixture(autouse=True)
def _threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture(autouse=True)
def _small_sample(monkeypatch):
    """The start is computed from a part of the rows: from all of them there would be nothing left to do."""
    monkeypatch.setattr("evenmargin.distributed._linear._SAMPLE_ROWS", 30)


@pytest.fixture(scope="module")
def rows():
    X, y = imbalanced(1_200, 6, seed=3)
    return X, y, np.random.default_rng(0).uniform(0.5, 2.0, y.size)


def cut(v, edges=(0, 5, 5, 6, 700, 1_200), kind=np.asarray):
    """A dask array of these pieces, whose lengths dask does not know; some may be empty."""
    meta = np.empty((0,) * v.ndim, v.dtype)
    parts = [
        da.from_delayed(dask.delayed(kind)(v[low:high]), (np.nan, *v.shape[1:]), meta=meta)
        for low, high in pairwise(edges)
    ]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def chunked(X, y, size=300):
    return da.from_array(X, chunks=(size, X.shape[1])), da.from_array(y, chunks=size)


def table(X, y, weight=None):
    frame = pd.DataFrame(X, columns=NAMES)
    frame["y"] = y
    frame["w"] = np.ones(y.size) if weight is None else weight
    return frame


def agree(found, expected, rel=2e-6):
    assert found.objective_ == pytest.approx(expected.objective_, rel=rel)
    assert found.coef_.shape == expected.coef_.shape
    assert np.array_equal(found.classes_, expected.classes_)
    assert found.classes_.dtype == expected.classes_.dtype
    assert found.coef_.dtype == expected.coef_.dtype


# --- the same machine ---


@pytest.mark.parametrize("intercept", ["free", "augmented", 0.3, None])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_objective_is_that_in_memory(rows, loss, intercept):
    X, y, weight = rows
    options = {"loss": loss, "class_weight": "balanced", "intercept": intercept}
    found = LinearSVM(**options, random_state=0).fit(*chunked(X, y), da.from_array(weight, chunks=300))
    agree(found, LinearSVM(**options).fit(X, y, weight))
    assert found.status_ is Status.CONVERGED
    assert found.dual_gap_ <= 1e-6 * found.objective_
    assert (found.solver_, found.n_features_in_) == ("newton", 6)
    assert 2 < found.rounds_ < 60


@pytest.mark.parametrize("name", ["adult_a9a", "ijcnn1"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_papers_tables_reach_the_objective_in_memory(papers_data, name, loss):
    data = papers_data(name)
    X, y = data["X"][:12_000].astype(np.float64), data["y"][:12_000]
    expected = LinearSVM(loss=loss, class_weight="balanced", tol=1e-5).fit(csr_matrix(X), y)
    sparse = da.from_array(X, chunks=(5_000, -1)).map_blocks(csr_matrix)
    found = LinearSVM(loss=loss, class_weight="balanced", tol=1e-5, random_state=0).fit(sparse, y)
    assert found.objective_ == pytest.approx(expected.objective_, rel=2e-5)


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
@pytest.mark.parametrize("loss", LOSSES)
def test_partitions_may_be_uneven_empty_of_one_class_and_sparse(rows, loss, kind):
    X, y, weight = rows
    order = np.argsort(y, kind="stable")  # all but one partition hold one class
    X, y, weight = X[order], y[order], weight[order]
    found = LinearSVM(loss=loss, class_weight="balanced", random_state=0)
    found.fit(cut(X, kind=kind), cut(y), cut(weight))
    agree(found, LinearSVM(loss=loss, class_weight="balanced").fit(X, y, weight))


def test_frames_with_words_as_labels_and_weights_by_label(rows):
    X, y, weight = rows
    frame = table(X, np.where(y > 0, "yes", "no"), weight)
    options = {"loss": "log", "class_weight": {"yes": 3.0}}
    parts = dd.from_pandas(frame, npartitions=4)
    found = LinearSVM(**options, random_state=0).fit(parts[NAMES], parts["y"], parts["w"])
    expected = LinearSVM(**options).fit(frame[NAMES], frame["y"].to_numpy(dtype=object), frame["w"])
    agree(found, expected)
    assert found.feature_names_in_.tolist() == NAMES


def test_labels_and_weights_of_a_frame_may_be_frames_of_one_column_and_arrays(rows):
    X, y, weight = rows
    parts = dd.from_pandas(table(X, y, weight), npartitions=4)
    first = LinearSVM(random_state=0).fit(parts[NAMES], parts["y"], parts["w"])
    second = LinearSVM(random_state=0).fit(parts[NAMES], parts[["y"]], parts["w"].to_dask_array())
    assert np.array_equal(first.coef_, second.coef_)


def test_labels_and_weights_of_an_array_may_be_its_last_columns(rows):
    X, y, weight = rows
    expected = LinearSVM().fit(X, y, weight)
    agree(LinearSVM().fit(cut(X), cut(y[:, None]), cut(weight[:, None])), expected)
    agree(LinearSVM().fit(*(da.from_array(v, chunks=(500, 1)) for v in (X, y[:, None], weight[:, None]))), expected)


def test_a_filtered_frame_may_have_empty_partitions(rows):
    X, y, _ = rows
    frame = table(X, y).assign(k=np.arange(y.size))
    kept, parts = frame[frame.k > 700], dd.from_pandas(frame, npartitions=4)
    parts = parts[parts.k > 700]
    agree(LinearSVM(random_state=0).fit(parts[NAMES], parts["y"]), LinearSVM().fit(kept[NAMES], kept["y"]))


def test_columns_of_a_parquet_file_stay_together(rows, tmp_path):
    # dask reads fewer, larger partitions where few columns are read: y alone would be cut otherwise than X.
    X, y, weight = rows
    frame = table(X, y, weight)
    for part in range(6):
        frame[part * 200 : (part + 1) * 200].to_parquet(tmp_path / f"{part}.parquet")
    parts = dd.read_parquet(tmp_path)
    found = LinearSVM(random_state=0).fit(parts[NAMES], parts["y"], parts["w"])
    agree(found, LinearSVM().fit(frame[NAMES], y, weight))
    agree(LinearSVM(random_state=0).fit(parts[NAMES], parts["y"]), LinearSVM().fit(frame[NAMES], y))


def test_columns_in_another_order_are_taken_by_name(rows):
    X, y, _ = rows
    frame = table(X, y)
    pieces = [dask.delayed(frame[NAMES][:600]), dask.delayed(frame[NAMES[::-1]][600:])]
    parts = dd.from_delayed(pieces, meta=frame[NAMES][:0], verify_meta=False)
    labels = dd.from_delayed([dask.delayed(frame["y"][:600]), dask.delayed(frame["y"][600:])], meta=frame["y"][:0])
    agree(LinearSVM(random_state=0).fit(parts, labels), LinearSVM().fit(frame[NAMES], y))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_types_of_numbers_and_columns_cut_apart(rows, dtype):
    X, y, _ = rows
    X = (5 * X).astype(dtype)
    found = LinearSVM(random_state=0).fit(da.from_array(X, chunks=(500, 4)), y)
    agree(found, LinearSVM().fit(X, y))


def test_three_classes_take_the_rounds_of_one(rows):
    X, _, weight = rows
    y = np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 1.5])
    found = LinearSVM(class_weight="balanced", random_state=0).fit(*chunked(X, y), weight)
    expected = LinearSVM(class_weight="balanced").fit(X, y, weight)
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=2e-6)
    assert np.mean(found.predict(X) == expected.predict(X)) > 0.999
    assert found.rounds_ == max(history[-1]["rounds"] for history in found.history_)
    assert found.decision_function(chunked(X, y)[0]).compute().shape == (y.size, 3)


def test_class_weights_and_alpha_are_of_the_whole_table(rows):
    X, y, _ = rows
    order = np.argsort(y, kind="stable")
    for options in ({"class_weight": "balanced"}, {"class_weight": "inverse", "C": 100.0}, {"alpha": 1e-3}):
        found = LinearSVM(**options, loss="log", random_state=0).fit(*chunked(X[order], y[order]))
        agree(found, LinearSVM(**options, loss="log").fit(X, y))


def test_a_weight_of_two_is_a_row_twice_and_of_zero_no_row(rows):
    X, y, _ = rows
    weight = np.random.default_rng(1).integers(0, 3, y.size)
    found = LinearSVM(loss="squared_hinge", tol=1e-10, random_state=0).fit(*chunked(X, y), weight)
    again = np.repeat(np.arange(y.size), weight)
    expected = LinearSVM(loss="squared_hinge", tol=1e-10).fit(X[again], y[again])
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-8)


def test_the_table_may_be_a_delayed_one_that_is_read_in_every_round(rows, monkeypatch):
    X, y, _ = rows
    reads = []

    def read(block):
        reads.append(len(block))
        return block

    lazy = da.from_array(X, chunks=(400, 6)).map_blocks(read, dtype=X.dtype, meta=np.empty((0, 6)))
    held = LinearSVM(random_state=0).fit(lazy, y)
    assert len(reads) == 3  # it fits in memory
    monkeypatch.setattr("evenmargin.distributed._engine.Engine.memory", lambda self: 0.0)
    reads.clear()
    found = LinearSVM(random_state=0).fit(lazy, y)
    assert len(reads) == 3 * (1 + found.rounds_)
    assert np.array_equal(held.coef_, found.coef_)


def test_a_source_of_rows_labels_and_weights_is_read_once_in_a_pass(rows, monkeypatch):
    X, y, weight = rows
    reads = []

    def read(number):
        reads.append(number)
        some = slice(400 * number, 400 * (number + 1))
        return np.column_stack([X[some], y[some], weight[some]])

    parts = [da.from_delayed(dask.delayed(read)(number), (400, 8), dtype=float) for number in range(3)]
    whole = da.concatenate(parts)
    monkeypatch.setattr("evenmargin.distributed._engine._HELD", 0.0)
    svm = LinearSVM(loss="log").fit(whole[:, :6], whole[:, 6].astype(int), whole[:, 7])
    assert len(reads) == 3 * (svm.rounds_ + 1)


def test_the_same_seed_gives_the_same_bits_and_another_the_same_optimum(rows):
    X, y, _ = rows
    first, second, third = (LinearSVM(random_state=seed).fit(*chunked(X, y)) for seed in (0, 0, 1))
    assert np.array_equal(first.coef_, second.coef_)
    agree(third, first)


def test_the_half_that_z_needs_is_that_in_memory(rows):
    X, y, _ = rows
    found, expected = LinearSVM(tol=1e-9, random_state=0).fit(*chunked(X, y)), LinearSVM(tol=1e-9).fit(X, y)
    np.testing.assert_allclose(
        found.positive_coef_, expected.positive_coef_, atol=1e-3 * np.abs(expected.positive_coef_).max()
    )
    up, down, b = found.split_decision(X)
    np.testing.assert_allclose(up + down + b, found.decision_function(X), atol=1e-9)
    moved = [ZAdjustedClassifier(svm, cv="prefit").fit(X, y).z_ for svm in (found, expected)]
    assert moved[0] == pytest.approx(moved[1], rel=0.05)


# --- predictions ---


@pytest.fixture(scope="module")
def fitted(rows):
    X, y, _ = rows
    frame = table(X, np.where(y > 0, "yes", "no"))
    return LinearSVM(loss="log", class_weight="balanced").fit(frame[NAMES], frame["y"].to_numpy(dtype=object)), frame


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_proba", "predict_log_proba"])
def test_predictions_are_lazy_and_those_in_memory(rows, fitted, method):
    X, y, _ = rows
    svm = LinearSVM(loss="log").fit(X, y)
    lazy = getattr(svm, method)(da.from_array(X, chunks=(500, 4)))
    expected = getattr(svm, method)(X)
    assert (lazy.dtype, lazy.shape) == (expected.dtype, expected.shape)
    assert lazy.chunks[0] == (500, 500, 200)
    same = np.array_equal if method == "predict" else np.allclose
    assert same(lazy.compute(), expected)
    svm, frame = fitted
    parts = dd.from_pandas(frame, npartitions=4)
    lazy, expected = getattr(svm, method)(parts[NAMES]), getattr(svm, method)(frame[NAMES])
    assert (lazy.dtype, lazy.ndim) == (expected.dtype, expected.ndim)
    assert same(lazy.compute(), expected)


def test_predictions_of_empty_and_sparse_blocks(rows):
    X, y, _ = rows
    svm = LinearSVM().fit(X, y)
    np.testing.assert_allclose(svm.decision_function(cut(X)).compute(), svm.decision_function(X))
    np.testing.assert_allclose(svm.decision_function(cut(X, kind=csr_matrix)).compute(), svm.decision_function(X))


def test_predictions_are_of_the_machine_as_it_was_when_they_were_asked_for(rows):
    X, y, _ = rows
    svm = LinearSVM().fit(X, y)
    expected, lazy = svm.decision_function(X), svm.decision_function(chunked(X, y)[0])
    svm.fit(X, -y)
    np.testing.assert_allclose(lazy.compute(), expected)
    np.testing.assert_allclose(svm.decision_function(chunked(X, y)[0]).compute(), svm.decision_function(X))


def test_predictions_check_the_columns_at_once(rows, fitted):
    X, y, _ = rows
    with pytest.raises(ValueError, match="6 features"):
        LinearSVM().fit(X, y).predict(da.zeros((10, 5)))
    svm, frame = fitted
    with pytest.raises(ValueError, match="feature names"):
        svm.predict(dd.from_pandas(frame[NAMES].rename(columns={"a": "q"}), npartitions=2))
    with pytest.raises(NotFittedError):
        LinearSVM().predict(da.zeros((10, 5)))


def test_the_score_is_that_in_memory(rows):
    X, y, _ = rows
    svm = LinearSVM().fit(X, y)
    assert svm.score(*chunked(X, y)) == svm.score(X, y)


# --- around the fit ---


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [1.0, 1.2])
def test_warm_start_goes_on_at_almost_the_same_price(rows, loss, C):
    X, y, _ = rows
    svm = LinearSVM(loss=loss, warm_start=True, random_state=0).fit(*chunked(X, y))
    svm.set_params(C=C).fit(*chunked(X, y))
    cold = LinearSVM(C=C, loss=loss, random_state=0).fit(*chunked(X, y))
    assert svm.rounds_ < (cold.rounds_ if C > 1 else 2)
    agree(svm, cold)


@pytest.mark.parametrize("path", [(10, 3, 1, 0.3, 0.1, 0.03), (0.03, 0.1, 0.3, 1, 3, 10)])
def test_warm_starts_along_a_path_of_prices_cost_no_more_than_cold_ones(rows, path):
    X, y, _ = rows
    warm, cold, svm = 0, 0, LinearSVM(warm_start=True, random_state=0)
    for C in path:
        warm += svm.set_params(C=C).fit(*chunked(X, y)).rounds_
        cold += LinearSVM(C=C, random_state=0).fit(*chunked(X, y)).rounds_
    assert warm <= cold


def test_multipliers_are_no_start_where_the_prices_of_the_classes_changed_and_their_total_did_not(rows):
    X, y, _ = rows
    svm = LinearSVM(warm_start=True, random_state=0).fit(*chunked(X, y))
    first, rare = svm._progress.tasks[0].resumption.points[0], float((y > 0).mean())
    svm.set_params(class_weight={-1: 0.5, 1: (1 - 0.5 * (1 - rare)) / rare}).fit(*chunked(X, y))
    assert not np.array_equal(svm._progress.tasks[0].resumption.points[0], first)
    agree(svm, LinearSVM(class_weight=svm.class_weight).fit(X, y))


@pytest.mark.parametrize("loss", LOSSES)
def test_warm_start_holds_where_the_other_class_becomes_the_smaller_one(rows, loss):
    X, _, _ = rows
    y = (X[:, 0] + 0.5 * X[:, 1] > np.quantile(X[:, 0] + 0.5 * X[:, 1], 0.51)).astype(int)
    y[::10] = 1 - y[::10]
    weight = np.where(y == 1, 1.1, 1.0)  # 49 % of the rows, more than half of the weight
    svm = LinearSVM(loss=loss, warm_start=True, random_state=0).fit(*chunked(X, y))
    before = svm._progress.tasks[0].sign
    svm.fit(*chunked(X, y), weight)
    assert svm._progress.tasks[0].sign == -before
    first = svm.history_[0]["objective"]
    assert first < 1.01 * svm.objective_
    agree(svm, LinearSVM(loss=loss).fit(X, y, weight))


@pytest.mark.parametrize("loss", LOSSES)
def test_warm_starts_cross_between_memory_and_dask(rows, loss):
    X, y, _ = rows
    expected = LinearSVM(loss=loss).fit(X, y)
    svm = LinearSVM(loss=loss, warm_start=True, random_state=0).fit(X, y)
    agree(svm.fit(*chunked(X, y)), expected)
    agree(svm.fit(X, y), expected)
    assert svm._progress.tasks[0].resumption is None


def test_warm_start_crosses_between_losses(rows):
    X, y, _ = rows
    svm = LinearSVM(loss="log", warm_start=True, random_state=0).fit(*chunked(X, y))
    agree(svm.set_params(loss="hinge").fit(*chunked(X, y)), LinearSVM().fit(X, y))
    agree(svm.set_params(loss="log").fit(*chunked(X, y)), LinearSVM(loss="log").fit(X, y))


def test_a_fit_on_arrays_forgets_the_names_of_a_frame(rows):
    X, y, _ = rows
    parts = dd.from_pandas(table(X, y), npartitions=2)
    svm = LinearSVM(random_state=0).fit(parts[NAMES], parts["y"])
    assert not hasattr(svm.fit(*chunked(X, y)), "feature_names_in_")


def test_partial_fit_goes_on_from_a_fit_on_dask(rows):
    X, y, _ = rows
    options = {"class_weight": "balanced", "random_state": 0, "tol": 1e-9}
    found, expected = LinearSVM(**options).fit(*chunked(X, y)), LinearSVM(**options).fit(X, y)
    now, then = found._progress, expected._progress
    np.testing.assert_allclose(now.totals, then.totals)
    assert (now.rows, now.seed, now.tasks[0].steps) == (then.rows, then.seed, then.tasks[0].steps)
    np.testing.assert_allclose(now.tasks[0].cost, then.tasks[0].cost)
    found.partial_fit(X[:200], y[:200])
    np.testing.assert_allclose(found.coef_, expected.partial_fit(X[:200], y[:200]).coef_, atol=1e-3)


def test_partial_fit_says_that_a_batch_is_in_memory(rows):
    X, y, _ = rows
    with pytest.raises(ValueError, match="partial_fit takes a batch that is in memory: for dask collections use fit"):
        LinearSVM().partial_fit(*chunked(X, y), classes=[-1, 1])


def test_a_budget_that_is_used_up_warns_where_fit_was_called(rows):
    X, y, _ = rows
    with pytest.warns(ConvergenceWarning, match="newton stopped after 2 iterations") as caught:
        svm = LinearSVM(max_iter=2, random_state=0).fit(*chunked(X, y))
    assert svm.status_ is Status.BUDGET
    assert svm.n_iter_ == 2
    assert caught[0].filename == __file__


def wide(n=200, d=2_010):
    X = np.random.default_rng(0).standard_normal((n, d))
    return X, np.where(3 * X[:, 0] + X[:, 1] > 1, 1, -1)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_thousands_of_columns_reach_the_objective_in_memory_by_lbfgs(loss):
    X, y = wide(300)
    found = LinearSVM(loss=loss, random_state=0).fit(*chunked(X, y, 150))
    agree(found, LinearSVM(loss=loss).fit(X, y))
    assert found.status_ is Status.CONVERGED
    assert found.solver_ == "lbfgs"


def test_newton_has_few_rounds_up_to_two_thousand_columns():
    X, y = wide(150, 1_200)
    found = LinearSVM(C=0.01, random_state=0).fit(*chunked(X, y, 75))
    agree(found, LinearSVM(C=0.01).fit(X, y))
    assert found.solver_ == "newton"
    assert found.rounds_ < 60


def test_a_sample_of_few_rows_for_its_columns_is_no_start_of_the_hinge(monkeypatch):
    def solved(*args):
        raise AssertionError("the sample was solved")

    X, y = wide(400, 60)
    monkeypatch.setattr("evenmargin.distributed._linear.run", solved)
    agree(LinearSVM(random_state=0).fit(*chunked(X, y)), LinearSVM().fit(X, y))


def test_many_columns_have_a_budget_and_a_warning_of_lbfgs():
    X, y = wide()
    with pytest.warns(ConvergenceWarning, match=r"lbfgs stopped after 2 iterations \(L-BFGS step\)"):
        LinearSVM(max_iter=2, random_state=0).fit(*chunked(X, y))


def test_rounds_are_forgotten_by_a_fit_in_memory(rows):
    X, y, _ = rows
    svm = LinearSVM(random_state=0).fit(*chunked(X, y))
    assert svm.rounds_ > 2
    assert not hasattr(svm.fit(X, y), "rounds_")


def test_a_random_state_is_drawn_from_once(rows):
    X, y, _ = rows
    here, there = np.random.RandomState(0), np.random.RandomState(0)
    found, expected = LinearSVM(random_state=there).fit(*chunked(X, y)), LinearSVM(random_state=here).fit(X, y)
    assert found._progress.seed == expected._progress.seed
    assert there.randint(1 << 30) == here.randint(1 << 30)


def test_a_partition_makes_its_weights_once_for_all_classes(rows, monkeypatch):
    from evenmargin.distributed import _linear

    X, _, _ = rows
    y = np.digitize(X[:, 0], [-0.5, 1.5])
    made, asked, weights, answer = [], [], _linear.Block.weights, _linear.answer

    def answered(block, *message):
        monkeypatch.setattr(_linear.Block, "weights", property(lambda own: made.append(1) or weights.fget(own)))
        asked.append(1)
        return answer(block, *message)

    monkeypatch.setattr(_linear, "answer", answered)
    with dask.config.set(scheduler="synchronous"):
        LinearSVM(random_state=0).fit(*chunked(X, y))
    assert len(made) == len(asked) > 0


def test_progress_is_shown(rows, capsys):
    X, y, _ = rows
    LinearSVM(verbose=1, random_state=0).fit(*chunked(X, y))
    assert "gap" in capsys.readouterr().out


def test_ctrl_c_leaves_what_was_reached(rows, monkeypatch):
    from evenmargin.distributed._engine import Engine

    X, y, _ = rows
    compute, count = Engine.compute, []

    def interrupted(self, graph):
        count.append(1)
        if len(count) == 14:
            raise KeyboardInterrupt
        return compute(self, graph)

    svm = LinearSVM(warm_start=True, random_state=0)
    monkeypatch.setattr(Engine, "compute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        svm.fit(*chunked(X, y))
    monkeypatch.undo()
    whole = LinearSVM(random_state=0).fit(*chunked(X, y))
    assert whole.dual_gap_ < svm.dual_gap_ < 0.1 * svm.objective_
    assert svm.objective_ - svm.dual_gap_ <= whole.objective_ <= svm.objective_
    assert svm.fit(*chunked(X, y)).rounds_ < whole.rounds_
    agree(svm, whole)


def test_ctrl_c_before_the_first_round_leaves_the_machine_as_it_was(rows, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    X, y, _ = rows
    svm = LinearSVM(random_state=0)
    monkeypatch.setattr("evenmargin.distributed._linear.run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        svm.fit(*chunked(X, y))
    assert not hasattr(svm, "coef_")


def test_a_fitted_machine_travels(rows, tmp_path):
    X, y, _ = rows
    svm = LinearSVM(class_weight="balanced", random_state=0).fit(*chunked(X, y))
    save(svm, tmp_path / "svm.skops")
    for other in (pickle.loads(pickle.dumps(svm)), load(tmp_path / "svm.skops")):
        assert np.array_equal(other.predict(X), svm.predict(X))
        assert other.set_params(warm_start=True).fit(*chunked(X, y)).rounds_ <= svm.rounds_
    assert not hasattr(clone(svm), "rounds_")


def test_dask_is_imported_only_where_it_is_needed():
    code = (
        "import sys, numpy as np, evenmargin; from evenmargin import LinearSVM;"
        "LinearSVM().fit(np.array([[0.], [1.]]), [0, 1]).predict([[0.]]);"
        "assert not any(name.split('.')[0] in ('dask', 'distributed') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_dask_one_sentence_says_what_to_install(monkeypatch, rows):
    X, y, _ = rows
    collection = chunked(X, y)
    for name in [name for name in sys.modules if name.startswith("evenmargin.distributed")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ModuleNotFoundError, match=r"^Dask collections need dask.*pip install 'evenmargin\[dask\]'\.$"):
        LinearSVM().fit(*collection)


def test_the_number_of_threads_changes_no_bit(rows):
    X, y, _ = rows
    with dask.config.set(scheduler="synchronous"):
        one = LinearSVM(random_state=0).fit(*chunked(X, y, 50))
    assert np.array_equal(LinearSVM(random_state=0).fit(*chunked(X, y, 50)).coef_, one.coef_)


def test_steps_are_solved_with_one_thread_of_blas(rows, monkeypatch):
    from evenmargin._util import threads
    from evenmargin.solvers import rounds

    X, y, _ = rows
    limited, solve, shared = [], rounds.solve_lower, threads.one_blas_thread()
    monkeypatch.setattr(rounds, "solve_lower", lambda *args: limited.append(shared.inside > 0) or solve(*args))
    LinearSVM(random_state=0).fit(*chunked(X, y))
    assert limited
    assert all(limited)


def test_no_warning_leaks_from_the_partitions(rows):
    X, y, _ = rows
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        LinearSVM(random_state=0).fit(*chunked(X, y))
    assert not caught
