"""`StratifiedNystroem` on dask collections, alone and before a `LinearSVM`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from conftest import imbalanced
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix, issparse
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import Pipeline, make_pipeline

from evenmargin import LinearSVM
from evenmargin.nystroem import StratifiedNystroem

da = pytest.importorskip("dask.array", reason="dask is not installed")
dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
dask = pytest.importorskip("dask")

X, Y = imbalanced(n=600, d=5, seed=2)
WEIGHTS = np.random.default_rng(0).integers(0, 4, Y.size).astype(float)
NAMES = list("abcde")
CUTS = ((130, 0, 300, 170), (2, 3))  # uneven, one empty, and columns apart


def rows(dtype=np.float64):
    return da.from_array(X.astype(dtype), chunks=CUTS)


def labels(y=Y):
    return da.from_array(y, chunks=170)


def weights():
    return da.from_array(WEIGHTS, chunks=600)


def frame():
    return dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(y=Y, w=WEIGHTS), npartitions=4)


def sparse():
    return da.from_array(X, chunks=(170, 5)).map_blocks(csr_matrix)


def fitted(X=None, y=None, **options):
    options = {"n_components": 40, "random_state": 0, **options}
    return StratifiedNystroem(**options).fit(rows() if X is None else X, labels() if y is None else y)


# --- landmarks ---


def test_landmarks_are_rows_of_the_whole_table_by_their_number():
    found = fitted()
    assert_array_equal(found.components_, X[found.component_indices_])
    assert (np.diff(found.component_indices_) > 0).all()


def test_they_come_from_all_partitions():
    found = fitted().component_indices_
    assert all(((found >= start) & (found < end)).any() for start, end in ((0, 130), (130, 430), (430, 600)))


@pytest.mark.parametrize(
    ("stratify", "of_the_rare"), [("balanced", 20), ({1: 7, -1: 3}, 7), ("proportional", round(40 * (Y > 0).mean()))]
)
def test_they_are_divided_among_the_classes_as_in_memory(stratify, of_the_rare):
    here = StratifiedNystroem(n_components=40, stratify=stratify, random_state=0).fit(X, Y)
    for found in (fitted(stratify=stratify), here):
        assert np.count_nonzero(Y[found.component_indices_] > 0) == of_the_rare


@pytest.mark.parametrize("options", [{"stratify": None}, {}], ids=["stratify=None", "no y"])
def test_without_classes_whatever_comes_is_taken(options):
    found = StratifiedNystroem(n_components=40, random_state=0, **options).fit(rows(), labels() if options else None)
    assert found.components_.shape == (40, 5)


def test_all_rows_are_landmarks_where_there_are_fewer():
    found = fitted(n_components=5000)
    assert_array_equal(found.component_indices_, np.arange(600))
    Z = found.transform(rows()).compute()
    assert_allclose(Z @ Z.T, rbf_kernel(X, gamma=found.kernel_.gamma), atol=1e-6)


def test_a_row_of_weight_0_is_never_drawn_and_rows_keep_their_numbers():
    found = StratifiedNystroem(n_components=500, random_state=0).fit(rows(), labels(), weights())
    assert_array_equal(found.component_indices_, np.flatnonzero(WEIGHTS))
    assert_array_equal(found.components_, X[WEIGHTS > 0])


def test_heavy_rows_are_drawn_more_often():
    heavy = np.where(np.arange(600) % 10 == 0, 1e6, 1.0)
    found = StratifiedNystroem(n_components=20, stratify=None, random_state=0).fit(rows(), None, heavy)
    assert (found.component_indices_ % 10 == 0).all()


def test_gamma_is_that_of_the_whole_table():
    here = StratifiedNystroem(random_state=0).fit(X, Y, WEIGHTS).kernel_.gamma
    for kind in (rows(), sparse()):
        found = StratifiedNystroem(random_state=0).fit(kind, labels(), weights())
        assert found.kernel_.gamma == pytest.approx(here, rel=1e-12)


def test_gamma_has_its_digits_far_from_zero():
    far = da.from_array(X + 1e6, chunks=CUTS)
    assert fitted(far).kernel_.gamma == pytest.approx(StratifiedNystroem().fit(X + 1e6, Y).kernel_.gamma, rel=1e-8)


def test_the_same_seed_draws_the_same_rows_on_threads_and_on_a_cluster(cluster):
    away = fitted()
    with dask.config.set(scheduler="threads"):
        here = fitted()
    assert_array_equal(away.component_indices_, here.component_indices_)
    assert_array_equal(away.normalization_, here.normalization_)
    with dask.config.set(scheduler="threads"):
        there = here.transform(rows()).compute()
    assert_allclose(away.transform(rows()).compute(), there, atol=1e-12)


# --- features ---


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_features_are_lazy_in_the_chunks_and_the_precision_of_the_rows(dtype):
    found = fitted(rows(dtype))
    Z = found.transform(rows(dtype))
    assert isinstance(Z, da.Array)
    assert Z.chunks == (CUTS[0], (found.normalization_.shape[0],))
    assert Z.dtype == Z._meta.dtype == Z.compute().dtype == dtype
    assert_allclose(Z.compute(), found.transform(X.astype(dtype)), atol=1e-10 if dtype == np.float64 else 1e-4)


def test_fit_transform_is_fit_and_transform():
    map_ = StratifiedNystroem(n_components=40, random_state=0)
    assert_allclose(map_.fit_transform(rows(), labels()).compute(), fitted().transform(X), atol=1e-10)


def test_sparse_blocks_stay_sparse_and_give_the_same_features():
    found = fitted(sparse())
    assert issparse(found.components_)
    dense = fitted(da.from_array(X, chunks=(170, 5)))
    assert_array_equal(found.component_indices_, dense.component_indices_)
    Z, same = found.transform(sparse()).compute(), dense.transform(X)  # up to a rotation
    assert_allclose(Z @ Z.T, same @ same.T, atol=1e-8)


def test_a_frame_gives_a_frame_with_names_and_its_index():
    table = frame()
    found = fitted(table[NAMES], table["y"])
    Z = found.transform(table[NAMES])
    assert Z.columns.tolist() == found.get_feature_names_out().tolist()
    assert found.feature_names_in_.tolist() == NAMES
    assert_allclose(Z.compute(), found.transform(pd.DataFrame(X, columns=NAMES)), atol=1e-10)
    assert_array_equal(Z.compute().index, np.arange(600))


def test_a_frame_with_an_empty_partition_is_transformed():
    table = frame()
    some = table[table["w"] > 5]  # nothing is left
    Z = fitted(table[NAMES], table["y"]).transform(some[NAMES]).compute()
    assert Z.shape == (0, 40)
    assert (Z.dtypes == np.float64).all()


def test_a_map_fitted_in_memory_transforms_dask_rows():
    found = StratifiedNystroem(n_components=40, random_state=0).fit(X, Y)
    assert_allclose(found.transform(rows()).compute(), found.transform(X), atol=1e-10)


def test_features_are_of_the_map_as_it_was_when_they_were_asked_for():
    found = fitted()
    Z, before = found.transform(rows()), found.transform(X)
    found.set_params(random_state=5).fit(rows(), labels())
    assert_allclose(Z.compute(), before, atol=1e-10)


# --- before a linear machine ---


def pipeline(**options):
    return make_pipeline(
        StratifiedNystroem(n_components=40, random_state=0), LinearSVM(class_weight="balanced", tol=1e-5, **options)
    )


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log"])
def test_in_a_pipeline_it_reaches_the_objective_of_the_machine_in_memory(loss):
    found = pipeline(loss=loss).fit(rows(), labels())
    Z = found[0].transform(X)
    here = LinearSVM(class_weight="balanced", loss=loss, tol=1e-5).fit(Z, Y)
    assert found[1].objective_ == pytest.approx(here.objective_, rel=1e-4)
    scores = found.decision_function(rows())
    assert scores.chunks == (CUTS[0],)
    assert_allclose(scores.compute(), found.decision_function(X), atol=1e-9)
    assert_array_equal(found.predict(rows()).compute(), found.predict(X))
    assert found.score(rows(), labels()) == found.score(X, Y)


def test_a_pipeline_of_sparse_blocks_learns():
    found = Pipeline([("map", StratifiedNystroem(random_state=0)), ("svm", LinearSVM())]).fit(sparse(), labels())
    assert found.score(sparse(), labels()) > 0.9


def test_a_pipeline_takes_a_frame_from_files_though_dask_reads_labels_in_other_pieces(tmp_path):
    table = pd.DataFrame(X, columns=NAMES).assign(y=np.where(Y > 0, "rare", "usual"))
    for k in range(24):
        table.iloc[25 * k : 25 * (k + 1)].to_parquet(tmp_path / f"{k:02}.parquet")
    read = dd.read_parquet(tmp_path)
    assert len(read["y"].to_delayed()) < len(read[NAMES].to_delayed())
    found = pipeline().fit(read[NAMES], read["y"])
    assert found.score(read[NAMES], read["y"]) > 0.9
    assert set(found.predict(read[NAMES]).compute()) == {"rare", "usual"}


def test_a_pipeline_learns_on_a_cluster(cluster):
    assert pipeline().fit(rows(), labels()).score(rows(), labels()) > 0.8


# --- faults ---


def broken(value):
    bad = X.copy()
    bad[300, 2] = value
    return da.from_array(bad, chunks=(130, 5))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fitted(broken(np.nan)), "Partition 2: Input X contains NaN"),
        (lambda: fitted(broken(np.inf)), "Partition 2: Input X contains infinity"),
        (lambda: fitted(kernel="precomputed"), "kernel='precomputed' is a matrix of all rows"),
        (lambda: fitted(stratify={"x": 3}), r"stratify has labels \['x'\] that no row has"),
        (lambda: fitted(stratify={1: -2}), "can give 0 to .* landmarks, not -2"),
        (lambda: fitted(stratify={1: 3.5}), "can give 0 to .* landmarks, not 3.5"),
        (lambda: fitted(rows(), labels()[:-1]), "X has 600 rows and y has 599"),
        (lambda: StratifiedNystroem(stratify={1: 3}).fit(rows()), "call fit"),
        (lambda: StratifiedNystroem().fit(rows(), None, np.zeros(600)), "no rows of a weight above 0"),
        (
            lambda: StratifiedNystroem().fit(rows(), None, -np.ones(600)),
            "Partition 0: Negative values in data passed to `sample_weight`",
        ),
        (lambda: fitted().transform(rows()[:, :4]), "X has 4 features"),
        (lambda: fitted().transform(broken(np.nan)).compute(), "Input X contains NaN"),
        (lambda: fitted(frame()[NAMES], frame()["y"]).transform(frame()[NAMES[::-1]]), "feature names"),
        (lambda: fitted(rows()[:, 0]), "X must be a dask array or frame of two dimensions"),
    ],
)
def test_bad_input_gets_one_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_features_are_not_loaded_for_another_kind_of_output():
    map_ = fitted().set_output(transform="pandas")
    with pytest.raises(ValueError, match="Transform output 'pandas' would load all features"):
        map_.transform(rows())
    with sklearn.config_context(transform_output="pandas"), pytest.raises(ValueError, match="would load all features"):
        fitted().transform(rows())


def test_a_partition_with_other_columns_is_named():
    parts = [pd.DataFrame(X[:300], columns=NAMES), pd.DataFrame(X[300:], columns=[*NAMES[:4], "z"])]
    table = dd.from_delayed([dask.delayed(part) for part in parts], meta=parts[0][:0], verify_meta=False)
    with pytest.raises(ValueError, match=r"Partition 1: it lacks the columns \['e'\] and has \['z'\]"):
        StratifiedNystroem().fit(table)


def test_partitions_of_one_class_are_fine():
    order = np.argsort(Y, kind="stable")
    found = fitted(da.from_array(X[order], chunks=(100, 5)), da.from_array(Y[order], chunks=100))
    assert np.count_nonzero(Y[order][found.component_indices_] > 0) == 20
