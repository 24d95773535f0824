"""scikit-learn's searches and ours on a cluster, through joblib's dask backend: the scores of a run at home."""

from __future__ import annotations

import os

import numpy as np
import pytest
from conftest import imbalanced
from joblib import parallel_backend, parallel_config
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evenmargin import EvenMarginClassifier, KernelSVM, LinearSVM, ZAdjustedClassifier
from evenmargin.nystroem import StratifiedNystroem
from evenmargin.selection import SharedGridSearch

pytest.importorskip("dask", reason="dask is not installed")
pytest.importorskip("distributed", reason="distributed is not installed")

X, Y = imbalanced(n=200, d=5, seed=1)
THREE = np.digitize(X[:, 0], [-0.8, 0.9])
CS = {"C": [0.1, 10.0]}


def columns(search):
    """Scores and ranks of a search; times are left out."""
    return {name: values for name, values in search.cv_results_.items() if "score" in name and "time" not in name}


def same(search, y, naming=parallel_config):
    """The search at home and on the cluster."""
    home = columns(search.fit(X, y))
    with naming("dask"):
        away = columns(search.fit(X, y))
    assert home.keys() == away.keys()
    for name in home:
        assert_array_equal(home[name], away[name], err_msg=name)


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (LinearSVM(class_weight="balanced"), CS),
        (LinearSVM(loss="log", solver="pegasos", max_iter=2000, tol=0, random_state=0), CS),
        (KernelSVM(class_weight="balanced"), CS),
        (ZAdjustedClassifier(LinearSVM()), {"estimator__C": [0.1, 10.0]}),
        (
            make_pipeline(StandardScaler(), StratifiedNystroem(n_components=30, random_state=0), LinearSVM()),
            {"stratifiednystroem__gamma": [0.1, 1.0]},
        ),
    ],
    ids=["linear", "stochastic", "kernel", "adjusted", "nystroem"],
)
def test_a_grid_search_has_the_same_scores(cluster, estimator, grid):
    same(GridSearchCV(estimator, grid, scoring="roc_auc", cv=3), Y)


def test_the_fits_run_in_the_workers(cluster):
    search = GridSearchCV(LinearSVM(), CS, cv=3, refit=False, scoring=lambda *_: float(os.getpid()))
    with parallel_config("dask"):
        search.fit(X, Y)
    places = {search.cv_results_[f"split{k}_test_score"][0] for k in range(3)}
    assert places <= set(cluster.run(os.getpid).values())


def test_a_grid_search_of_several_classes_and_own_threads_has_the_same_scores(cluster):
    same(GridSearchCV(LinearSVM(n_jobs=2), CS, cv=3), THREE)


def test_the_older_way_to_name_a_backend_works_too(cluster):
    same(GridSearchCV(LinearSVM(), CS, cv=3), Y, parallel_backend)


def test_the_shared_search_has_the_same_scores_and_the_same_best(cluster):
    search = SharedGridSearch(KernelSVM(), {"C": [0.1, 10.0], "gamma": [0.1, 1.0]}, cv=3, scoring="roc_auc")
    same(search, Y)
    best = search.best_params_
    assert best == search.fit(X, Y).best_params_


def test_the_classifier_that_needs_no_tuning_learns_the_same(cluster):
    model = EvenMarginClassifier(time_budget="fast", n_jobs=2)
    home = model.fit(X, Y).predict_proba(X)
    with parallel_config("dask"):
        assert_array_equal(home, model.fit(X, Y).predict_proba(X))


def test_it_is_cross_validated_on_the_cluster(cluster):
    model = EvenMarginClassifier(time_budget="fast", n_jobs=2)
    home = cross_val_score(model, X, Y, cv=2, scoring="roc_auc")
    with parallel_config("dask"):
        assert_array_equal(home, cross_val_score(model, X, Y, cv=2, scoring="roc_auc"))
