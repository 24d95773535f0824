"""`EvenMarginClassifier` on dask collections, and what estimators without a way for them say."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from conftest import imbalanced
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix

from evenmargin import EvenMarginClassifier, KernelSVM, LinearSVM, ZAdjustedClassifier
from evenmargin.report import render_report
from evenmargin.selection import LearnedWeights, SharedGridSearch

da = pytest.importorskip("dask.array", reason="dask is not installed")
dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
dask = pytest.importorskip("dask")

X, Y = imbalanced(n=500, d=4, seed=5)
WEIGHTS = np.random.default_rng(0).integers(0, 3, Y.size).astype(float)
CUTS = ((130, 0, 200, 170), (1, 3))


def fast(**options):
    return EvenMarginClassifier(time_budget="fast", **options)


def rows():
    return da.from_array(X, chunks=CUTS)


def labels(y=Y):
    return da.from_array(y, chunks=150)


def frauds(n=600, seed=0):
    """Amounts with gaps, categories, words with gaps, and dates."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "amount": np.where(rng.random(n) < 0.05, np.nan, rng.exponential(20, n)),
        "country": pd.Categorical(rng.choice(["US", "DE", "FR"], n)),
        "code": pd.Series(rng.choice(["a", "bb", None], n), dtype=object),
        "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
    })  # fmt: skip
    fraud = (frame["amount"] > 20) & (frame["country"] == "US")
    return frame.set_index(np.arange(n) + 1000), np.where(fraud, "fraud", "fine")


FRAME, FRAUD = frauds()
NAMES = FRAME.columns.tolist()


def table():
    return dd.from_pandas(FRAME.assign(y=FRAUD, w=1.0), npartitions=4)


@pytest.fixture(scope="module")
def model():
    """Fitted to a frame of dask's."""
    whole = table()
    return fast().fit(whole[NAMES], whole["y"])


# --- learning ---


def test_a_table_that_is_small_enough_gives_the_model_of_a_fit_in_memory():
    weight = da.from_array(WEIGHTS, chunks=500)
    away, here = fast().fit(rows(), labels(), weight), fast().fit(X, Y, WEIGHTS)
    assert_array_equal(away.predict_proba(X), here.predict_proba(X))
    assert away.threshold_ == here.threshold_
    assert away.summary_.lines[:2] == here.summary_.lines[:2]


def test_frames_go_in_with_categories_words_dates_and_gaps(model):
    here = fast().fit(FRAME, FRAUD)
    assert_array_equal(model.predict_proba(FRAME), here.predict_proba(FRAME))
    assert model.feature_names_in_.tolist() == NAMES
    assert model.classes_.tolist() == ["fine", "fraud"]


def test_categories_that_are_numbers_stay_categories_though_partitions_have_different_ones():
    rng = np.random.default_rng(0)
    parts = [
        pd.DataFrame({"c": pd.Categorical(rng.choice(some, 150)), "x": rng.normal(size=150)})
        for some in ([1, 2], [2, 9], [9, 1])
    ]
    whole = pd.concat([part.astype({"c": int}) for part in parts], ignore_index=True)
    y = (whole["c"] == 2).to_numpy() & (whole["x"] > 0).to_numpy()
    lazy = dd.from_delayed([dask.delayed(part) for part in parts], meta=parts[0][:0], verify_meta=False)
    found = fast().fit(lazy, dd.from_pandas(pd.Series(y), npartitions=3))
    here = fast().fit(whole.astype({"c": "category"}), y)
    assert_array_equal(found.predict_proba(whole), here.predict_proba(whole))


def test_several_classes_are_learned():
    three = np.digitize(X[:, 0], [-0.5, 1.0])
    away, here = fast().fit(rows(), labels(three)), fast().fit(X, three)
    assert_array_equal(away.predict_proba(X), here.predict_proba(X))
    assert away.predict_proba(rows()).shape == (500, 3)


def test_the_same_seed_learns_the_same_on_a_cluster(cluster):
    whole = table()
    away = fast().fit(whole[NAMES], whole["y"])
    assert_array_equal(away.predict_proba(FRAME), fast().fit(FRAME, FRAUD).predict_proba(FRAME))
    assert_array_equal(away.predict(whole[NAMES]).compute(), away.predict(FRAME))
    assert away.score(whole[NAMES], whole["y"]) == pytest.approx(away.score(FRAME, FRAUD))


# --- the sample of a large table ---


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30_000, 2))
    y = np.where(rng.random(30_000) < 0.05, "rare", "usual")
    return x, y, rng.integers(0, 3, 30_000).astype(float)


def sampled(large, most=4000, seed=0, chunks=4000):
    from evenmargin.distributed import sample_table

    x, y, weight = (da.from_array(part, chunks=(chunks, *part.shape[1:])) for part in large)
    return sample_table(x, y, weight, most, seed)


def test_a_sample_has_the_small_class_whole_and_no_more_rows_than_asked_for(large):
    _, y, weight = large
    found = sampled(large)
    rare = np.count_nonzero((y == "rare") & (weight > 0))
    assert np.count_nonzero(found.y == "rare") == rare
    assert found.y.size == 4000
    assert found.rows == np.count_nonzero(weight)


def test_its_rows_are_those_of_the_table_by_their_number(large):
    x, y, weight = large
    found = sampled(large)
    assert_array_equal(found.table, x[found.index])
    assert_array_equal(found.y, y[found.index])
    assert (weight[found.index] > 0).all()
    assert (np.diff(found.index) > 0).all()


def test_its_weights_make_up_for_the_rows_that_are_not_in_it(large):
    _, y, weight = large
    found = sampled(large)
    for label in ("rare", "usual"):
        assert found.weight[found.y == label].sum() == pytest.approx(weight[y == label].sum())


def test_it_is_uniform_over_the_table(large):
    found = sampled(large)
    places = found.index[found.y == "usual"]
    counts, _ = np.histogram(places, bins=10, range=(0, 30_000))
    assert abs(counts - counts.mean()).max() < 5 * np.sqrt(counts.mean())


def test_another_seed_draws_other_rows(large):
    assert not np.array_equal(sampled(large).index, sampled(large, seed=1).index)
    assert_array_equal(sampled(large).index, sampled(large).index)


def test_a_model_of_a_sample_says_of_how_many_rows_it_learned(large):
    x, _, _ = large
    y = np.where(x[:, 0] + 0.3 * x[:, 1] > 1.8, "rare", "usual")
    cut = da.from_array(x, chunks=(4000, 2)), da.from_array(y, chunks=5000)
    found = EvenMarginClassifier(time_budget=4.0).fit(*cut)
    assert "30,000, of which 4,000 were used" in str(found.summary_)
    assert found.sample_indices_.shape == found.oof_scores_.shape == (4000,)
    assert np.isfinite(found.oof_scores_).all()
    assert found.score(x, y) > 0.9


def test_a_fit_in_memory_forgets_the_sample_of_the_fit_before():
    found = fast().fit(rows(), labels())
    assert_array_equal(found.sample_indices_, np.arange(500))
    assert not hasattr(found.fit(X, Y), "sample_indices_")


def test_labels_are_counted_without_reading_the_rows(large):
    seen = []

    def noted(block):
        seen.append(block.shape[0])
        return block

    x, y, _ = large
    lazy = da.from_array(x, chunks=(10_000, 2)).map_blocks(noted, dtype=float, meta=np.empty((0, 0)))
    from evenmargin.distributed import sample_table

    sample_table(lazy, da.from_array(y, chunks=10_000), None, 4000, 0)
    assert sum(seen) == 30_000


# --- predicting ---


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "decision_function"])
def test_predictions_are_lazy_and_those_of_rows_in_memory(model, method):
    found, here = getattr(model, method)(table()[NAMES]), getattr(model, method)(FRAME)
    assert isinstance(found, da.Array)
    assert found.dtype == here.dtype
    if here.dtype.kind == "f":
        assert_allclose(found.compute(), here, rtol=1e-9)
    else:
        assert_array_equal(found.compute(), here)


def test_predictions_of_an_array_have_its_chunks():
    found = fast().fit(X, Y)  # in memory
    assert found.predict(rows()).chunks == (CUTS[0],)
    assert found.predict_proba(rows()).chunks == (CUTS[0], (2,))
    assert_array_equal(found.predict(rows()).compute(), found.predict(X))


def test_assess_gives_a_lazy_frame_with_the_index_of_the_rows(model):
    found, here = model.assess(table()[NAMES]), model.assess(FRAME)
    assert_array_equal(found.compute().index, FRAME.index)
    pd.testing.assert_frame_equal(found.compute().reset_index(drop=True), here, check_dtype=False)
    assert found.columns.tolist() == here.columns.tolist()


def test_assess_takes_arrays_too():
    found = fast().fit(rows(), labels())
    pd.testing.assert_frame_equal(found.assess(rows()).compute().reset_index(drop=True), found.assess(X))


def test_the_score_counts_over_blocks_by_weight(model):
    whole, weight = table(), np.arange(600.0)
    lazy = whole.assign(w=da.from_array(weight, chunks=150))
    assert model.score(whole[NAMES], whole["y"]) == pytest.approx(model.score(FRAME, FRAUD))
    assert model.score(lazy[NAMES], lazy["y"], lazy["w"]) == pytest.approx(model.score(FRAME, FRAUD, weight))


def test_the_operating_point_moves_and_the_model_travels(model):
    again = pickle.loads(pickle.dumps(model)).set_operating_point({"recall": 0.99})
    assert_array_equal(again.predict(table()[NAMES]).compute(), again.predict(FRAME))
    assert_array_equal(again.sample_indices_, np.arange(600))


def test_files_are_read_though_dask_reads_labels_in_other_pieces(tmp_path, model):
    for k in range(20):
        FRAME.assign(y=FRAUD).iloc[30 * k : 30 * (k + 1)].to_parquet(tmp_path / f"{k:02}.parquet")
    read = dd.read_parquet(tmp_path)
    found = fast().fit(read[NAMES], read["y"])
    assert_array_equal(found.predict_proba(FRAME), model.predict_proba(FRAME))
    assert found.score(read[NAMES], read["y"]) == pytest.approx(model.score(FRAME, FRAUD))


# --- faults ---


def with_gap():
    bad = FRAUD.astype(object)
    bad[200] = None
    return dd.from_pandas(FRAME.assign(y=bad), npartitions=4)["y"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: fast().fit(table()[NAMES], with_gap()),
            "Partition 1 of y: Input y contains NaN or other",
        ),
        (lambda: fast().fit(rows(), None), "requires y to be passed"),
        (lambda: fast().fit(rows(), labels(np.ones(500))), "one class only"),
        (
            lambda: fast().fit(rows(), labels(), -np.ones(500)),
            "Partition 0 of y: Negative values in data passed to `sample_weight`",
        ),
        (lambda: fast().fit(rows(), labels()[:-1]), "X has 500 rows and y has 499"),
        (lambda: fast().fit(rows().map_blocks(csr_matrix), labels()), "Partition 0: Sparse X is not supported here"),
        (lambda: fast().fit(table()["amount"], table()["y"]), "X must be a dask array or frame of two dimensions"),
        (lambda: fast().fit(table()[NAMES], FRAUD), "y must be a dask collection like X"),
        (lambda: fast(pos_label="x").fit(rows(), labels()), "pos_label='x' is not one of the classes"),
        (lambda: fast().fit(X, Y).predict(rows()[:, :3]), "X has 3 features"),
        (lambda: fast().fit(X, Y).score(rows(), labels()[:-1]), "X has 500 rows and y has 499"),
    ],
)
def test_bad_input_gets_one_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_partition_with_other_columns_is_named():
    parts = [FRAME[:300], FRAME[300:].rename(columns={"code": "kode"})]
    lazy = dd.from_delayed([dask.delayed(part) for part in parts], meta=parts[0][:0], verify_meta=False)
    y = dd.from_pandas(pd.Series(FRAUD, FRAME.index), npartitions=2)
    with pytest.raises(ValueError, match=r"Partition 1: it lacks the columns \['code'\] and has \['kode'\]"):
        fast().fit(lazy, y)


def test_partitions_of_one_class_are_fine():
    order = np.argsort(Y, kind="stable")
    found = fast().fit(da.from_array(X[order], chunks=(100, 4)), da.from_array(Y[order], chunks=100))
    assert_array_equal(found.predict_proba(X), fast().fit(X, Y).predict_proba(X))


@pytest.mark.parametrize(
    "estimator",
    [
        KernelSVM(),
        ZAdjustedClassifier(LinearSVM()),
        LearnedWeights(LinearSVM()),
        SharedGridSearch(KernelSVM(), {"C": [1.0, 10.0]}),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.parametrize("kind", ["array", "frame"])
def test_what_takes_rows_in_memory_says_so_and_loads_nothing(estimator, kind):
    @dask.delayed
    def boom():
        raise AssertionError("the table was read")

    x = da.from_delayed(boom(), shape=(500, 4), dtype=float)
    if kind == "frame":
        x = dd.from_delayed([boom()], meta=FRAME[:0], verify_meta=False)
    with pytest.raises(TypeError, match=r"X is a dask \w+, but this needs rows in memory: call X.compute\(\)"):
        estimator.fit(x, labels())


def test_so_does_a_report(model):
    with pytest.raises(TypeError, match="this needs rows in memory"):
        render_report(model, table()[NAMES], FRAUD)


@pytest.mark.parametrize("estimator", [KernelSVM(), ZAdjustedClassifier(LinearSVM())], ids=["kernel", "adjusted"])
def test_machines_fitted_in_memory_predict_block_by_block(estimator):
    estimator.fit(X, Y)
    assert_allclose(estimator.decision_function(rows()).compute(), estimator.decision_function(X), atol=1e-6)
    assert_array_equal(estimator.predict(rows()).compute(), estimator.predict(X))
