"""`DensityWeights` on dask collections: the weights of a fit in memory, lazily."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from clusters import left_as_it_was
from conftest import imbalanced
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix

from evenmargin import DensityWeights, LinearSVM
from evenmargin.density import SCHEMES

da = pytest.importorskip("dask.array", reason="dask is not installed")
dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
dask = pytest.importorskip("dask")

X, Y = imbalanced(n=400, d=4, seed=4)
X = X + 2.0
WEIGHTS = np.random.default_rng(0).integers(0, 4, Y.size).astype(float)
NAMES = list("abcd")
CUTS = ((90, 0, 200, 110), (1, 3))
OPTIONS = {"method": "fourier", "n_components": 150, "random_state": 3}


def rows(dtype=np.float64):
    return da.from_array(X.astype(dtype), chunks=CUTS)


def labels():
    return da.from_array(Y, chunks=150)


def weights():
    return da.from_array(WEIGHTS, chunks=400)


def frame():
    return dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(y=Y, w=WEIGHTS), npartitions=3)


def sparse():
    return da.from_array(X, chunks=(110, 4)).map_blocks(csr_matrix)


def fitted(scheme="inverse_sqrt", X=None, y=None, weight=None, **options):
    rule = DensityWeights(scheme, **{**OPTIONS, **options})
    return rule.fit(rows() if X is None else X, labels() if y is None else y, weight)


# --- the same weights ---


@pytest.mark.parametrize("normalize", [None, "mean"])
@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if scheme != "random"])
def test_weights_and_densities_are_those_of_a_fit_in_memory(scheme, normalize):
    here = fitted(scheme, X, Y, WEIGHTS, normalize=normalize)
    away = fitted(scheme, weight=weights(), normalize=normalize)
    assert away.gamma_ == pytest.approx(here.gamma_, rel=1e-12)
    for name in ("weights_", "density_", "density_error_"):
        assert_allclose(getattr(away, name).compute(), getattr(here, name), rtol=1e-9, atol=1e-9)


def test_sparse_blocks_and_frames_have_the_same_weights():
    table = frame()
    here = fitted("same_class", X, Y, WEIGHTS).weights_
    assert_allclose(fitted("same_class", sparse(), weight=weights()).weights_.compute(), here, atol=1e-9)
    assert_allclose(fitted("same_class", table[NAMES], table["y"], table["w"]).weights_.compute(), here, atol=1e-9)


def test_several_classes_have_the_same_weights():
    three = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.3, 0.6]))
    here = fitted("same_class", X, three, gamma=1.0)
    away = fitted("same_class", y=da.from_array(three, chunks=150), gamma=1.0)
    assert_allclose(away.weights_.compute(), here.weights_, atol=1e-9)


def test_rows_of_a_class_without_weight_have_the_same_weights():
    three = np.where(np.arange(400) % 9 == 0, "a third", np.where(Y > 0, "rare", "usual"))
    weight = np.where(three == "a third", 0.0, 1.0)
    here = fitted("same_class", X, three, weight).weights_
    assert_allclose(fitted("same_class", y=da.from_array(three, chunks=150), weight=weight).weights_, here, atol=1e-9)


def test_float32_rows_are_computed_in_float32():
    here, away = fitted(X=X.astype(np.float32)), fitted(X=rows(np.float32))
    assert_allclose(away.weights_.compute(), here.weights_, rtol=1e-4)
    assert not np.array_equal(away.weights_.compute(), fitted().weights_.compute())


def test_the_control_scheme_draws_the_same_weights_each_time_and_divides_by_their_mean():
    found = fitted("random", weight=weights(), normalize="mean", method="exact").weights_.compute()
    assert_array_equal(found, fitted("random", weight=weights(), normalize="mean").weights_.compute())
    assert np.average(found, weights=WEIGHTS) == pytest.approx(1.0)
    assert np.unique(found).size == 400


def test_a_cluster_has_the_same_weights(cluster):
    away = fitted("square", weight=weights(), normalize="mean").weights_.compute()
    assert_allclose(away, fitted("square", X, Y, WEIGHTS, normalize="mean").weights_, rtol=1e-9)


def test_a_fit_leaves_nothing_on_the_cluster(cluster):
    with left_as_it_was(cluster):
        rule = fitted("same_class", weight=weights(), normalize="mean")
    assert rule.weights_.compute().any()


def test_another_fit_leaves_nothing_of_the_one_before():
    rule = fitted("square")
    assert not hasattr(rule.set_params(scheme="random").fit(rows()), "density_")


# --- lazy, and cut as the rows are ---


def test_weights_are_lazy_in_the_chunks_of_an_array():
    found = fitted().weights_
    assert isinstance(found, da.Array)
    assert found.chunks == (CUTS[0],)
    assert found.dtype == np.float64


def test_weights_are_a_series_with_the_index_of_a_frame():
    table = frame().set_index("a", drop=False, npartitions=3)
    found = fitted(X=table[NAMES], y=table["y"]).weights_
    assert_array_equal(found.compute().index, table["a"].compute())
    assert found.npartitions == table.npartitions


def test_a_frame_takes_weights_that_are_an_array():
    table = frame()
    here = fitted(X=X, weight=WEIGHTS, y=Y).weights_
    found = fitted(X=table[NAMES], y=table["y"], weight=table["w"].to_dask_array()).weights_
    assert_allclose(found.compute(), here, rtol=1e-9)


def test_chunks_of_unknown_length_are_taken():
    table = frame()
    found = fitted(X=table[NAMES].to_dask_array(), y=table["y"].to_dask_array()).weights_
    assert_allclose(found.compute(), fitted(X=X, y=Y).weights_, rtol=1e-9)


def test_fit_weights_gives_the_lazy_weights():
    found = DensityWeights(**OPTIONS).fit_weights(rows())
    assert_array_equal(found.compute(), fitted().weights_.compute())


def test_only_labels_that_matter_are_read():
    @dask.delayed
    def boom():
        raise AssertionError("y was read")

    y = da.from_delayed(boom(), shape=(400,), dtype=int)
    assert fitted(y=y).weights_.compute().shape == (400,)


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_a_linear_machine_takes_them_as_sample_weight(kind):
    table, here = frame(), fitted(X=X, y=Y)
    x, y = (rows(), labels()) if kind == "array" else (table[NAMES], table["y"])
    machine = LinearSVM(tol=1e-6).fit(x, y, sample_weight=fitted(X=x, y=y).weights_)
    assert machine.objective_ == pytest.approx(LinearSVM().fit(X, Y, here.weights_).objective_, rel=1e-5)


def test_a_machine_on_files_takes_them_though_dask_reads_labels_in_other_pieces(tmp_path):
    table = pd.DataFrame(X, columns=NAMES).assign(y=Y)
    for k in range(20):
        table.iloc[20 * k : 20 * (k + 1)].to_parquet(tmp_path / f"{k:02}.parquet")
    read = dd.read_parquet(tmp_path)
    found = fitted("same_class", read[NAMES], read["y"])
    machine = LinearSVM(tol=1e-6).fit(read[NAMES], read["y"], sample_weight=found.weights_)
    here = LinearSVM().fit(X, Y, fitted("same_class", X, Y).weights_)
    assert machine.objective_ == pytest.approx(here.objective_, rel=1e-5)


# --- faults ---


def broken():
    bad = X.copy()
    bad[300, 2] = np.nan
    return da.from_array(bad, chunks=(130, 4))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fitted(method="exact"), "method='exact' takes all pairs of rows: on dask collections choose"),
        (lambda: DensityWeights("same_class", **OPTIONS).fit(rows()), "needs the classes of the rows"),
        (lambda: fitted(X=broken()), "Partition 2: Input X contains NaN"),
        (lambda: fitted(weight=-np.ones(400)), "Partition 0: Negative values in data passed to `sample_weight`"),
        (lambda: fitted(weight=np.zeros(400)), "no rows of a weight above 0"),
        (lambda: fitted(gamma=1e16), "no digits of their distances are left"),
        (lambda: fitted("same_class", y=Y[:-1]), "X has 400 rows and y has 399"),
    ],
)
def test_bad_input_gets_one_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_class_that_is_left_without_weight_is_named():
    inside = np.where(np.arange(400) % 40 == 0, "lost", "dense")
    with pytest.warns(UserWarning, match="at every row of class 'lost' other classes are denser"):
        fitted("same_class", y=da.from_array(inside, chunks=150), gamma=1e-3)


def test_partitions_of_one_class_have_the_same_weights():
    order = np.argsort(Y, kind="stable")
    away = fitted("same_class", da.from_array(X[order], chunks=(100, 4)), da.from_array(Y[order], chunks=100))
    assert_allclose(away.weights_.compute(), fitted("same_class", X[order], Y[order]).weights_, atol=1e-9)


# --- what parts add up to ---


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
def test_moments_of_parts_add_up_to_those_of_the_whole(kind):
    from evenmargin.distributed._moments import Moments, added
    from evenmargin.distributed._partitions import prepare

    parts = [prepare(k, (kind(X[s]), None, WEIGHTS[s]), None, 4) for k, s in enumerate((slice(0, 7), slice(7, 400)))]
    whole = prepare(0, (kind(X), None, WEIGHTS), None, 4)
    found, expected = added([Moments(), *map(Moments.of, parts)]), Moments.of(whole)
    assert (found.total, found.mean, found.spread) == pytest.approx((expected.total, expected.mean, expected.spread))


@pytest.mark.parametrize("kinds", [(np.asarray, np.asarray), (csr_matrix, csr_matrix), (np.asarray, csr_matrix)])
def test_no_row_is_further_from_the_centre_than_the_extent_says(kinds):
    from evenmargin.distributed._moments import Extent, added
    from evenmargin.distributed._partitions import prepare

    blocks = [prepare(0, (kinds[0](X[:9]), None, None), None, 4), prepare(1, (kinds[1](X[9:]), None, None), None, 4)]
    found = added([Extent(), *map(Extent.of, blocks)])
    centre = np.zeros(4) if found.centre is None else found.centre
    furthest = np.linalg.norm(X - centre, axis=1).max()
    assert furthest <= found.radius <= 3 * furthest
    if kinds[1] is np.asarray:
        assert_allclose(found.centre, X.mean(axis=0))
