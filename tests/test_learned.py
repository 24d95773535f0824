"""Weights that are searched for: never worse on the rows they are chosen on, and what estimators they take."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from conftest import imbalanced
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import make_regression
from sklearn.linear_model import Ridge
from sklearn.metrics import get_scorer, log_loss, mean_absolute_error, roc_auc_score
from sklearn.model_selection import KFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenmargin import KernelSVM
from evenmargin.density import DensityWeights
from evenmargin.selection import LearnedWeights

X, Y = imbalanced(n=160, d=5, ratio=0.7, seed=1)
R, T = make_regression(120, 4, noise=30, random_state=0)
WEIGHT = np.random.default_rng(0).integers(0, 3, 160).astype(float)
fast = {"population": 4, "rounds": 3, "random_state": 0}


def search(estimator=None, **options):
    return LearnedWeights(Ridge() if estimator is None else estimator, **{**fast, **options})


def held_out(found):
    """Which rows were held out: all others have a weight that is not 1."""
    return found.weights_ == 1.0


@parametrize_with_checks(
    [
        LearnedWeights(GaussianNB(), population=3, rounds=2, random_state=0),
        LearnedWeights(make_pipeline(StandardScaler(), Ridge()), population=3, rounds=2, random_state=0, cv=2),
    ],
    expected_failed_checks=lambda estimator: dict.fromkeys(
        ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"],
        "weights are random, and there are as many as rows: a row twice has two of them",
    ),
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# --- the search ---


def test_the_best_score_never_falls_and_starts_no_lower_than_that_of_equal_weights():
    found = search(rounds=12).fit(R, T)
    best = [turn["best_score"] for turn in found.history_]
    assert len(best) == 13
    assert best == sorted(best)
    assert found.plain_score_ == found.history_[0]["scores"][0] <= best[0]
    assert found.best_score_ == best[-1] == max(score for turn in found.history_ for score in turn["scores"])
    rises = [after > before for before, after in pairwise(best)]
    assert [turn["improved"] for turn in found.history_[1:]] == rises


def test_the_plain_score_is_that_of_the_estimator_alone():
    found = search(scoring="neg_mean_absolute_error").fit(R, T)
    aside = held_out(found)
    assert aside.sum() == 24
    plain = Ridge().fit(R[~aside], T[~aside])
    assert found.plain_score_ == pytest.approx(-mean_absolute_error(T[aside], plain.predict(R[aside])))


def test_the_best_score_is_that_of_the_best_weights():
    found = search(GaussianNB(), scoring="neg_log_loss", refit=False).fit(X, Y)
    aside = held_out(found)
    again = GaussianNB().fit(X[~aside], Y[~aside], sample_weight=found.weights_[~aside])
    assert found.best_score_ == pytest.approx(-log_loss(Y[aside], again.predict_proba(X[aside])))
    assert_allclose(found.estimator_.theta_, again.theta_)


def test_the_last_fit_gives_held_out_rows_the_mean_weight():
    found = search().fit(R, T)
    assert found.weights_[~held_out(found)].mean() == pytest.approx(1.0)
    assert_allclose(found.predict(R), Ridge().fit(R, T, sample_weight=found.weights_).predict(R))


def test_with_folds_every_row_has_a_weight_and_the_score_is_their_mean():
    folds = KFold(3, shuffle=True, random_state=0)
    found = search(cv=folds, rounds=0, population=2).fit(R, T)
    assert not held_out(found).any()
    assert found.plain_score_ == pytest.approx(cross_val_score(Ridge(), R, T, cv=folds).mean())


def test_a_search_starts_from_densities():
    rule = DensityWeights("inverse", gamma=0.1)
    found = search(start=rule, population=3, rounds=0, spread=1e-6).fit(R, T)
    assert np.isfinite(found.history_[0]["scores"]).all()
    assert found.history_[0]["scores"][1] == pytest.approx(found.history_[0]["scores"][2], rel=1e-4)
    assert found.history_[0]["scores"][0] != pytest.approx(found.history_[0]["scores"][1], rel=1e-4)
    assert not hasattr(rule, "weights_")


def test_rows_with_wrong_labels_lose_weight():
    shares, ranks = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(240, 5))
        truth = np.sign(rows[:, 0] + 0.3 * rows[:, 1])
        wrong = np.r_[rng.random(40) < 0.3, np.zeros(200, dtype=bool)]
        options = {"cv": [(np.arange(40), np.arange(40, 240))], "scoring": "neg_mean_squared_error"}
        found = search(population=8, rounds=40, **options).fit(rows, np.where(wrong, -truth, truth))
        assert found.best_score_ > 0.8 * found.plain_score_  # an error of four fifths at most
        shares.append(found.weights_[wrong].mean())
        ranks.append(roc_auc_score(~wrong[:40], found.weights_[:40]))
    assert np.mean(shares) < 0.6  # the mean of all is 1
    assert np.mean(ranks) > 0.58


def test_weights_learned_on_clean_rows_are_better_on_others():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1240, 5))
    truth = np.sign(rows[:, 0] + 0.3 * rows[:, 1])
    noisy, clean, others = np.split(np.arange(1240), [40, 240])
    labels = truth * np.where(np.arange(1240) < 40, np.where(rng.random(1240) < 0.3, -1, 1), 1)
    found = search(population=8, rounds=40, cv=[(noisy, clean)]).fit(rows, labels)
    errors = [
        mean_absolute_error(truth[others], Ridge().fit(rows[noisy], labels[noisy], weight).predict(rows[others]))
        for weight in (found.weights_[noisy], None)
    ]
    assert errors[0] < 0.9 * errors[1]


def test_the_result_does_not_depend_on_jobs():
    with parallel_config("threading"):
        one, two = (search(n_jobs=jobs).fit(R, T) for jobs in (1, 2))
    assert_array_equal(one.weights_, two.weights_)
    assert one.best_score_ == two.best_score_


def test_the_same_seed_gives_the_same_weights():
    one, two, other = (search(random_state=seed).fit(R, T).weights_ for seed in (0, 0, 1))
    assert_array_equal(one, two)
    assert np.abs(one - other).max() > 0.1


def test_an_estimator_that_draws_numbers_draws_the_same_in_every_fit():
    tree = DecisionTreeRegressor(max_features=1)
    one, two = (search(tree).fit(R, T) for _ in range(2))
    assert isinstance(one.estimator_.random_state, int)
    assert_array_equal(one.predict(R), two.predict(R))
    assert tree.random_state is None


# --- sample weights ---


def test_a_sample_weight_of_zero_is_no_row():
    kept = WEIGHT > 0
    weightless = search(GaussianNB()).fit(X, Y, sample_weight=WEIGHT)
    without = search(GaussianNB()).fit(X[kept], Y[kept], sample_weight=WEIGHT[kept])
    assert_allclose(weightless.weights_[kept], without.weights_)
    assert_allclose(weightless.predict_proba(X), without.predict_proba(X))


def test_sample_weights_count_in_the_score():
    found = search(GaussianNB(), scoring="neg_log_loss", refit=False).fit(X, Y, sample_weight=WEIGHT)
    aside = held_out(found) & (WEIGHT > 0)
    score = get_scorer("neg_log_loss")(found.estimator_, X[aside], Y[aside], sample_weight=WEIGHT[aside])
    assert found.best_score_ == pytest.approx(score)


def test_learned_weights_multiply_sample_weights():
    found = search(GaussianNB()).fit(X, Y, sample_weight=WEIGHT)
    again = GaussianNB().fit(X, Y, sample_weight=found.weights_ * WEIGHT)
    assert_allclose(found.predict_proba(X), again.predict_proba(X))


# --- what it wraps ---


def test_it_is_what_its_estimator_is():
    assert is_classifier(search(SVC()))
    assert is_regressor(search())
    names = np.where(Y > 0, "fraud", "fine")
    found = search(LinearSVC()).fit(X, names)
    assert_array_equal(found.classes_, ["fine", "fraud"])
    assert found.score(X, names) == found.estimator_.score(X, names)
    assert not hasattr(found, "predict_proba")
    assert not hasattr(search(), "decision_function")
    assert not hasattr(search(LinearSVC()), "classes_")


def test_probabilities_are_the_estimators():
    found = search(GaussianNB()).fit(X, Y)
    assert_array_equal(found.predict_proba(X), found.estimator_.predict_proba(X))
    assert_array_equal(found.predict_log_proba(X), found.estimator_.predict_log_proba(X))


def test_pipelines_frames_and_sparse_rows():
    names = list("abcde")
    found = search(make_pipeline(StandardScaler(), GaussianNB())).fit(pd.DataFrame(X, columns=names), Y)
    assert_array_equal(found.feature_names_in_, names)
    sparse = search(KernelSVM(), start="sqrt").fit(csr_array(X), Y)
    assert sparse.n_features_in_ == 5
    assert sparse.score(csr_array(X), Y) > 0.7


def test_it_can_be_kept_and_cloned():
    found = search(start=DensityWeights("sqrt")).fit(R, T)
    assert_array_equal(pickle.loads(pickle.dumps(found)).predict(R), found.predict(R))
    assert_array_equal(clone(found).fit(R, T).weights_, found.weights_)


def test_a_bar_shows_the_rounds(capsys):
    search(verbose=1).fit(R, T)
    assert "rounds" in capsys.readouterr().out


def test_ctrl_c_ends_the_search():
    calls = []

    def interrupted(*_):
        calls.append(1)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return float(len(calls))

    found = search(scoring=interrupted)
    with pytest.raises(KeyboardInterrupt):
        found.fit(R, T)
    assert len(calls) == 6
    assert not hasattr(found, "estimator_")


# --- bad input ---


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"estimator": KNeighborsRegressor()}, "KNeighborsRegressor takes no sample_weight in fit"),
        ({"population": 1}, "'population'"),
        ({"spread": 0.0}, "'spread'"),
        ({"start": "no such"}, "'scheme' parameter"),
        ({"start": "same_class"}, "a regressor has none"),
        ({"cv": 3, "refit": False}, "With cv there is a fit for each fold and no single one to keep"),
        ({"scoring": lambda *_: np.nan}, "No weights had a finite score"),
    ],
)
def test_a_choice_that_makes_no_sense(options, words):
    with pytest.raises(ValueError, match=words):
        search(**options).fit(R, T)


def test_weights_that_make_no_sense():
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        search().fit(R, T, sample_weight=-np.ones(120))
    with pytest.raises(ValueError, match="All sample weights are zero"):
        search().fit(R, T, sample_weight=np.zeros(120))


def test_every_class_must_be_in_both_parts():
    labels = np.r_[7, np.ones(80), np.zeros(79)]
    with pytest.raises(ValueError, match=r"Class 7\.0 has only one sample, but a validation part needs another"):
        search(GaussianNB()).fit(X, labels)
    with pytest.raises(ValueError, match=r"cv leaves a fold without class 7\.0 in its training part: use fewer folds"):
        search(GaussianNB(), cv=KFold(3)).fit(X, labels)
    with pytest.raises(ValueError, match="one class only"):
        search(GaussianNB()).fit(X, np.ones(160))
