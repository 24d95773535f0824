"""`EvenMarginClassifier`: tables in, a boundary for an objective, honest words about it."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
from conftest import imbalanced
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.metrics import confusion_matrix, roc_auc_score
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenmargin import EvenMarginClassifier
from evenmargin._tables.encoder import TableEncoder, as_table
from evenmargin._util.threads import Workers
from evenmargin.auto.committee import Committee, assemble
from evenmargin.auto.crossfit import focus
from evenmargin.auto.detector import Detector
from evenmargin.auto.plan import Plan
from evenmargin.auto.rows import ClassRows, ViewRows, fold_numbers, fold_splits, some_rows
from evenmargin.auto.views import VIEWS, PiecewiseLinear, QuantileNormal, Standard
from evenmargin.metrics import GMean
from evenmargin.operating import get_objective


def fast(**parameters):
    return EvenMarginClassifier(time_budget="fast", **parameters)


@pytest.fixture(scope="module")
def rows():
    return imbalanced(n=500, d=6, ratio=0.9, seed=3)


@pytest.fixture(scope="module")
def model(rows):
    return EvenMarginClassifier().fit(*rows)


def frauds(n=600, seed=0):
    """A frame as people have it."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "amount": rng.lognormal(3, 1, n),
        "country": pd.Categorical(rng.choice(["DE", "FR", "US"], n)),
        "new": rng.random(n) < 0.3,
        "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
        "code": rng.choice(np.array(["a", "b", None], object), n),
        "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(18, 80, n)),
        "visits": pd.array(rng.integers(0, 5, n), dtype="Int64"),
        "customer": [f"c{i}" for i in range(n)],
    })  # fmt: skip
    frame.loc[5, "visits"] = pd.NA
    fraud = (frame["amount"] > 30) & (frame["country"] == "US") & (rng.random(n) < 0.8)
    return frame, np.where(fraud, "fraud", "fine")


@pytest.fixture(scope="module")
def fraud_model():
    return fast().fit(*frauds())


# --- the ecosystem ---


@pytest.mark.filterwarnings("ignore:Class .* folds are used")
@parametrize_with_checks([EvenMarginClassifier()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_predicting_never_imports_numba(model, rows):
    code = (
        "import pickle, sys; model, X = pickle.load(sys.stdin.buffer); model.predict_proba(X); "
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps((model, rows[0])), check=True)


def test_a_pickled_model_says_the_same(model, rows):
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(rows[0]), model.predict_proba(rows[0]))
    assert str(again.summary_) == str(model.summary_)


@pytest.mark.parametrize("labels", [[-1, 1], ["rare", "usual"]])
def test_assess_says_in_one_pass_what_the_three_say(rows, labels):
    X, y = rows
    model = fast().fit(X, np.where(y > 0, labels[0], labels[1]))
    found = model.assess(X)
    place = model.classes_.tolist().index(model.pos_label_)
    assert found["prediction"].tolist() == model.predict(X).tolist()
    np.testing.assert_array_equal(found["probability"], model.predict_proba(X)[:, place])
    np.testing.assert_array_equal(found["score"], model.decision_function(X) * (1 if place else -1))


def test_assess_has_columns_for_each_of_several_classes():
    X, y = load_iris(return_X_y=True)
    model = fast().fit(X, y)
    found = model.assess(X)
    np.testing.assert_array_equal(found[[f"probability {k}" for k in range(3)]], model.predict_proba(X))
    np.testing.assert_array_equal(found[[f"score {k}" for k in range(3)]], model.decision_function(X))
    assert found["prediction"].tolist() == model.predict(X).tolist()


def test_it_works_inside_cross_validation(rows):
    assert cross_val_score(fast(), *rows, cv=3, scoring="roc_auc").mean() > 0.8


# --- tables ---


def test_a_frame_goes_in_as_it_is(fraud_model):
    frame, y = frauds(seed=1)
    assert fraud_model.pos_label_ == "fraud"
    assert fraud_model.classes_.tolist() == ["fine", "fraud"]
    assert roc_auc_score(y == "fraud", fraud_model.predict_proba(frame)[:, 1]) > 0.95
    assert fraud_model.feature_names_in_.tolist() == frame.columns.tolist()


def test_unseen_categories_and_new_gaps_are_taken_at_predict(fraud_model):
    frame, _ = frauds()
    frame["country"] = frame["country"].astype(object)
    frame.loc[0, "country"] = "XX"
    frame.loc[1, "amount"] = np.nan
    frame.loc[2, "code"] = "zzz"
    assert np.isfinite(fraud_model.predict_proba(frame)).all()


def test_polars_and_pandas_frames_are_the_same():
    rng = np.random.default_rng(0)
    data = {"a": rng.normal(size=120), "b": list("xyz") * 40, "c": [None, 1.0, 2.0] * 40}
    y = (data["a"] + rng.normal(size=120) > 1.2).astype(int)
    pandas, polars = fast().fit(pd.DataFrame(data), y), fast().fit(pl.DataFrame(data), y)
    assert np.array_equal(pandas.predict_proba(pd.DataFrame(data)), polars.predict_proba(pl.DataFrame(data)))


def test_a_column_of_identities_tells_nothing_and_is_left_out(fraud_model):
    assert not any(name.startswith("customer") for name in fraud_model.encoder_.names_)
    assert "customer" in str(fraud_model.summary_)


def test_a_column_without_values_is_left_out_with_a_warning():
    frame, y = frauds(200)
    with pytest.warns(UserWarning, match="Left out, having no values: 'empty'"):
        model = fast().fit(frame.assign(empty=np.nan), y)
    assert np.array_equal(model.predict(frame.assign(empty=np.nan)), model.predict(frame.assign(empty=3.0)))


def test_numbers_are_encoded_as_they_are_and_gaps_by_the_weighted_median():
    table = np.array([[1.0, 5.0], [2.0, np.nan], [10.0, 7.0], [3.0, 9.0]])
    encoder = TableEncoder().fit(table, np.array([1.0, 1.0, 1.0, 5.0]))
    assert encoder.names_ == ["x0", "x1", "x1 missing"]
    expected = [[1, 5, 0], [2, 9, 1], [10, 7, 0], [3, 9, 0]]
    assert np.array_equal(encoder.transform(table), expected)


def test_names_of_columns_may_be_numbers_but_not_the_same():
    frame, y = frauds(200)
    numbered = frame.set_axis([2, 0, 1, *range(3, frame.shape[1])], axis=1)
    plain = fast().fit(frame, y)
    assert np.allclose(fast().fit(numbered, y).predict_proba(numbered), plain.predict_proba(frame), atol=1e-6)
    with pytest.raises(ValueError, match="more than one column named 'amount'"):
        fast().fit(frame.rename(columns={"age": "amount"}), y)


def test_a_rare_category_is_rare_by_weight():
    frame = pd.DataFrame({"kind": ["a"] * 10 + ["b"] * 8 + ["z"] * 3, "x": np.arange(21.0)})
    weight = np.r_[np.ones(18), np.full(3, 2.0)]
    weighted = TableEncoder().fit(frame, weight)
    repeated = TableEncoder().fit(frame.loc[frame.index.repeat(weight.astype(int))], np.ones(24))
    assert weighted.names_ == repeated.names_ == ["x", "kind_a", "kind_b", "kind_z"]
    assert "kind_(other)" in TableEncoder().fit(frame, np.ones(21)).names_


def test_objects_that_are_numbers_are_numbers_and_dates_are_days():
    frame = pd.DataFrame({
        "mixed": np.array([1, 2.5, None, 1], object),
        "day": pd.to_datetime(["1970-01-02", "1970-01-03", None, "1970-01-11"]),
        "kind": np.array([1, "a", None, "a"], object),
    })  # fmt: skip
    encoder = TableEncoder().fit(as_table(frame), np.ones(4))
    numbers = pd.DataFrame(encoder.transform(frame), columns=encoder.names_)
    assert numbers["mixed"].tolist() == [1.0, 2.5, 1.0, 1.0]
    assert numbers["day"].tolist() == [1.0, 2.0, 2.0, 10.0]
    assert numbers["day missing"].tolist() == [0.0, 0.0, 1.0, 0.0]


# --- views ---


def test_views_take_a_weight_of_two_as_a_row_twice():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.lognormal(size=60), rng.integers(0, 3, 60), rng.normal(size=60)])
    times = rng.integers(1, 4, 60)
    for view in (Standard, QuantileNormal, PiecewiseLinear):
        weighted = view().fit(X, times.astype(float)).transform(X)
        repeated = view().fit(X.repeat(times, axis=0), np.ones(times.sum())).transform(X)
        assert np.allclose(weighted, repeated, atol=1e-5)
        assert weighted.dtype == np.float32


def test_the_quantile_view_sees_only_the_order_of_values():
    X = np.random.default_rng(0).normal(size=(200, 1))
    plain = QuantileNormal().fit(X, np.ones(200)).transform(X)
    bent = QuantileNormal().fit(np.exp(5 * X), np.ones(200)).transform(np.exp(5 * X))
    assert np.allclose(plain, bent, atol=1e-5)
    assert np.abs(plain).max() < 4


def test_ramps_rise_from_knot_to_knot():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    ramps = PiecewiseLinear().fit(X, np.ones(4))._ramps(np.array([[-1.0], [0.5], [2.0], [9.0]]))
    assert np.array_equal(ramps, [[0, 0, 0], [0.5, 0, 0], [1, 1, 0], [1, 1, 1]])


def test_a_focused_look_sees_the_columns_that_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    positive = X[:, 2] > 0.8
    look = ViewRows.of(VIEWS[2], X, np.ones(400))
    with Workers(1) as workers:
        scale = focus(look, np.arange(400), ClassRows(positive, np.ones(400), 0, workers))
    ramps = look.Z.shape[1] // 6
    by_column = scale.reshape(6, ramps).mean(axis=1)
    assert by_column.argmax() == 2
    assert by_column[2] > 3 * np.delete(by_column, 2).max()
    before, after = look.Z.var(axis=0).sum(), (look.Z * scale).var(axis=0).sum()
    assert np.isclose(before, after, rtol=1e-3)


# --- the committee ---


def committee_of(X, positive, plan):
    with Workers(1) as workers:
        return assemble(
            cache(lambda spec: ViewRows.of(spec, X, np.ones(len(X)))),
            ClassRows(positive, np.ones(len(X)), 0, workers),
            plan,
        )


@pytest.mark.parametrize(
    "plan", [Plan(screen=0), Plan(screen=0, rows=150), Plan(screen=0, exact=100, landmarks=120)],
    ids=["exact", "capped", "nystroem"],
)  # fmt: skip
def test_unseen_scores_are_of_machines_that_have_not_seen_the_row(plan):
    """Labels that are pure chance: scores of seen rows would know them."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 5)), np.arange(500) < 100
    committee = committee_of(X, y, plan)
    assert abs(roc_auc_score(y, committee.unseen) - 0.5) < 0.09
    assert abs(roc_auc_score(y, committee.honest) - 0.5) < 0.09
    assert roc_auc_score(y, committee.score(X)) > 0.65


def test_the_choice_of_settings_has_its_optimism_measured():
    """On labels of pure chance the best of many settings looks better than chance."""
    rng = np.random.default_rng(1)
    gains, apart = [], []
    for _ in range(6):
        X, y = rng.normal(size=(150, 4)), np.arange(150) < 20
        committee = committee_of(X, y, Plan())
        gains.append(committee.optimism)
        apart.append(roc_auc_score(y, committee.honest) - committee.optimism - 0.5)
    assert np.mean(gains) > 0.01
    assert abs(np.mean(apart)) < 0.06


def test_folds_spread_both_classes_evenly():
    positive = np.arange(103) < 23
    fold = fold_numbers(positive, 10, 0)
    assert np.ptp(np.bincount(fold[positive], minlength=10)) <= 1
    assert np.ptp(np.bincount(fold, minlength=10)) <= 1
    for train, test in fold_splits(fold, positive):
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(103))


def test_samples_keep_the_rare_class():
    positive = np.arange(5000) % 50 == 0
    rows = some_rows(np.arange(5000), positive, 1000, 0.25, 0)
    assert rows.size == 1000
    assert np.count_nonzero(positive[rows]) == 100
    assert np.array_equal(some_rows(np.arange(1200), positive, 1000, 0.25, 0), np.arange(1200))


def test_costs_give_both_classes_the_same_weight():
    positive, weight = np.array([True, False, False]), np.array([1.0, 2.0, 3.0])
    cost = ClassRows(positive, weight, 0, None).costs
    assert np.isclose(cost[positive].sum(), cost[~positive].sum())
    assert np.isclose(cost.sum(), weight.sum())


@pytest.mark.parametrize(("exact", "most"), [(10_000, 300), (100, 300)], ids=["capped", "nystroem"])
def test_many_rows_are_learned_from_in_parts_or_through_a_map(exact, most):
    X, y = make_classification(1500, 8, n_informative=6, weights=[0.85], class_sep=1.5, random_state=0)
    train, test = np.arange(1000), np.arange(1000, 1500)
    aucs = []
    for plan in (Plan(screen=0), Plan(screen=0, exact=exact, rows=most, landmarks=100)):
        committee = committee_of(X[train], y[train] == 1, plan)
        assert len(committee.members) == 3
        aucs.append(roc_auc_score(y[test], committee.score(X[test])))
        assert abs(roc_auc_score(y[train], committee.unseen) - aucs[-1]) < 0.06
    assert aucs[1] > aucs[0] - 0.03


# --- weights, order, threads ---


def test_a_weight_of_two_is_a_row_twice_and_the_order_does_not_matter(rows):
    X, y = rows[0][:200], rows[1][:200]
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, 200)
    weight[:2] = [7, 0]
    weighted = fast().fit(X, y, sample_weight=weight)
    repeated = np.repeat(np.arange(200), weight)
    shuffled = rng.permutation(repeated)
    twice = fast().fit(X[shuffled], y[shuffled])
    assert np.array_equal(weighted.decision_function(X), twice.decision_function(X))
    assert weighted.threshold_ == twice.threshold_


@pytest.mark.parametrize("weight", [1, 5])
def test_weights_do_not_make_it_believe_in_chance(weight):
    """Rows of weight 5 are rows five times, and must not be in two folds."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), np.arange(300) < 60
    model = fast().fit(X, y, sample_weight=np.full(300, weight))
    assert abs(model.estimates_.loc["roc_auc", "value"] - 0.5) < 0.1
    repeated = fast().fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert np.array_equal(model.decision_function(X), repeated.decision_function(X))


def test_a_row_that_the_table_has_often_is_not_judged_as_never_seen():
    """Half of all rows are one row, far from the others."""
    rng = np.random.default_rng(0)
    y = np.arange(400) < 40
    X = rng.normal(size=(400, 4)) + 2.0 * y[:, None]
    X[200:] = [3.0, -3.0, 3.0, -3.0]
    model = fast().fit(X, y)
    assert model.estimates_.loc["roc_auc", "value"] > 0.9
    assert np.isclose(model.detectors_[0].count.sum(), 400)
    assert np.isclose(model.detectors_[0].weight.sum(), 400)
    assert np.unique(model.oof_scores_[200:]).size > 1
    assert np.isfinite(model.oof_scores_).all()


def test_weights_of_any_size_leave_the_intervals_as_they_are(rows):
    X, y = rows
    widths = []
    for weight in (None, np.full(y.size, 1e-3), np.full(y.size, 20.0)):
        estimates = fast().fit(X, y, sample_weight=weight).estimates_
        widths.append(estimates["high"] - estimates["low"])
    assert np.allclose(widths[0], widths[2], atol=0.03)
    assert np.allclose(widths[0], widths[1], atol=0.03)


def test_the_same_bits_for_any_number_of_threads(rows):
    one, two = (EvenMarginClassifier(n_jobs=n).fit(*rows) for n in (1, 2))
    assert np.array_equal(one.decision_function(rows[0]), two.decision_function(rows[0]))


def test_swapped_labels_swap_the_answer(rows, model):
    X, y = rows
    swapped = EvenMarginClassifier().fit(X, -y)
    assert np.array_equal(swapped.predict(X), -model.predict(X))
    assert np.allclose(swapped.predict_proba(X), model.predict_proba(X)[:, ::-1], atol=1e-12)


def test_float32_and_float64_are_close(rows, model):
    X, y = rows
    single = EvenMarginClassifier().fit(X.astype(np.float32), y)
    assert np.mean(single.predict(X.astype(np.float32)) == model.predict(X)) > 0.99


# --- the boundary ---


def test_probabilities_rise_with_the_score_and_agree_with_predict(model, rows):
    X, _ = rows
    scores, probability = model.decision_function(X), model.predict_proba(X)[:, 1]
    order = np.argsort(scores)
    assert (np.diff(probability[order])[np.diff(scores[order]) > 1e-9] > 0).all()
    assert np.array_equal(model.predict(X) == 1, probability > model.probability_threshold_)
    assert np.array_equal(model.predict(X) == 1, scores > 0)


def _counts(model, labels, objective):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_operating_point(objective)
    called = model.oof_scores_ > model.threshold_
    (tn, fp), (fn, tp) = confusion_matrix(labels == model.pos_label_, called)
    return tp, fn, fp, tn


def test_each_objective_has_the_boundary_that_serves_it(rows):
    model = EvenMarginClassifier().fit(*rows)
    y = rows[1]
    recall = {level: _counts(model, y, {"recall": level}) for level in (0.7, 0.95)}
    assert all(tp / (tp + fn) >= level for level, (tp, fn, _, _) in recall.items())
    tp, _, fp, _ = _counts(model, y, {"precision": 0.8})
    assert tp / (tp + fp) >= 0.8
    dear, cheap = _counts(model, y, {"fn": 100, "fp": 1}), _counts(model, y, {"fn": 1, "fp": 1})
    assert dear[1] < cheap[1]
    assert dear[2] > cheap[2]
    found = {name: _counts(model, y, name) for name in ("gmean", "f1", "mcc", "balanced_accuracy")}
    assert GMean()(*found["gmean"]) > GMean()(*found["f1"]) - 1e-9
    same = _counts(model, y, lambda tp, fn, fp, tn: np.sqrt(tp / (tp + fn) * tn / (tn + fp)))
    assert same == found["gmean"]


def test_the_operating_point_moves_without_a_fit(rows):
    model = EvenMarginClassifier().fit(*rows)
    before = model.decision_function(rows[0])
    model.set_operating_point(probability=0.5)
    assert np.isclose(model.probability_threshold_, 0.5)
    assert np.array_equal(model.predict(rows[0]) == 1, model.predict_proba(rows[0])[:, 1] > 0.5)
    model.set_operating_point(threshold=1.25)
    assert model.threshold_ == 1.25
    assert np.ptp(model.decision_function(rows[0]) - before) < 1e-9
    assert "set by hand" in str(model.summary_)
    assert np.allclose(model.set_operating_point("gmean").decision_function(rows[0]), before)


def test_the_curve_has_every_threshold_with_counts_costs_and_intervals(rows):
    model = fast(objective={"fn": 10, "fp": 1}).fit(*rows)
    curve = model.operating_curve_
    positive = rows[1] == model.pos_label_
    for _, point in curve.iloc[1:-1].iterrows():
        called = model.oof_scores_ > point["threshold"]
        assert point["tp"] == np.count_nonzero(called & positive)
        assert point["fp"] == np.count_nonzero(called & ~positive)
        assert point["cost"] == 10 * point["fn"] + point["fp"]
        assert point["recall_low"] < point["recall"] <= point["recall_high"]
    assert (np.diff(curve["probability"]) > 0).all()
    assert len(curve) == np.unique(model.oof_scores_).size + 1


def test_an_objective_out_of_reach_gets_the_nearest_and_a_warning():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.random(200) < 0.2
    with pytest.warns(UserWarning, match=r"No threshold reaches a precision of at least 99 %.*nearest"):
        model = fast(objective={"precision": 0.99}).fit(X, y)
    assert np.isfinite(model.threshold_)


def test_pos_label_says_which_class_recall_speaks_of(rows):
    X, y = rows
    model = fast(objective={"recall": 0.99}, pos_label=-1).fit(X, y)
    assert model.pos_label_ == -1
    assert np.mean(model.oof_scores_[y == -1] > model.threshold_) >= 0.99
    assert np.array_equal(model.predict(X) == -1, model.predict_proba(X)[:, 0] > model.probability_threshold_)


# --- several classes ---


@pytest.fixture(scope="module")
def three():
    X, y = load_iris(return_X_y=True)
    keep = np.r_[0:50, 50:90, 100:112]  # classes of 50, 40 and 12 rows
    return X[keep], np.array(["se", "ve", "vi"])[y[keep]]


def test_several_classes_have_a_boundary_each(three):
    X, y = three
    model = fast().fit(X, y)
    assert model.threshold_.shape == model.probability_threshold_.shape == (3,)
    assert model.decision_function(X).shape == model.predict_proba(X).shape == (X.shape[0], 3)
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)
    assert np.mean(model.predict(X) == y) > 0.95
    assert set(model.operating_curve_) == {"se", "ve", "vi"}
    assert model.estimates_.loc["vi"].loc["roc_auc", "value"] > 0.9
    with pytest.raises(ValueError, match="for two classes"):
        model.set_operating_point(probability=0.5)


def test_a_class_above_half_is_described_as_itself():
    rng = np.random.default_rng(0)
    y = np.repeat(["big", "mid", "small"], [150, 35, 15])
    X = rng.normal(size=(200, 3)) + (y == "big")[:, None] + 3 * (y == "small")[:, None]
    model = fast(objective={"recall": 0.9}).fit(X, y)
    assert "150 rows, 75.00%" in str(model.summary_)
    assert np.mean(model.oof_scores_[y == "big", 0] > model.threshold_[0]) >= 0.9
    assert model.pos_label_ is None


def test_a_small_class_survives_when_rows_are_too_many(monkeypatch):
    monkeypatch.setattr("evenmargin.auto.plan.MOST_ROWS", 120)
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], [400, 380, 6])
    X = rng.normal(size=(786, 3)) + 2 * (y == "c")[:, None] - 2 * (y == "b")[:, None]
    with pytest.warns(UserWarning, match="6 different rows"):
        model = fast().fit(X, y)
    assert np.count_nonzero(np.isfinite(model.oof_scores_[y == "c", 0])) == 6
    assert np.count_nonzero(np.isfinite(model.oof_scores_[:, 0])) == 120
    assert np.isclose(model.detectors_[2].weight.sum(), 786)


# --- what it says of itself ---


def test_the_estimate_is_not_the_score_that_was_chosen_by():
    """Scores of pure chance: the best threshold looks better than it is, and the estimate must not."""
    rng, objective, positive = np.random.default_rng(0), get_objective("gmean"), np.arange(150) < 10
    chosen, estimated = [], []
    for _ in range(20):
        scores = rng.normal(size=150)
        committee = Committee(unseen=scores, honest=scores, fold=rng.permutation(150) % 5)
        detector = Detector("rare", committee, positive, np.ones(150), np.ones(150))
        detector.threshold = detector.choose(objective).threshold
        (tn, fp), (fn, tp) = confusion_matrix(positive, scores > detector.threshold)
        chosen.append(float(GMean()(tp, fn, fp, tn)))
        estimated.append(detector.estimates(objective).loc["gmean", "value"])
    assert np.mean(chosen) - np.mean(estimated) > 0.015
    assert np.mean(estimated) < 0.5


def test_the_interval_holds_what_new_rows_show():
    X, y = make_classification(3000, 8, n_informative=4, weights=[0.9], random_state=1)
    X, X_new, y, y_new = train_test_split(X, y, train_size=400, stratify=y, random_state=0)
    model = EvenMarginClassifier().fit(X, y)
    estimates = model.estimates_
    recall = np.mean(model.predict(X_new)[y_new == 1] == 1)
    auc = roc_auc_score(y_new, model.decision_function(X_new))
    assert estimates.loc["recall", "low"] <= recall <= estimates.loc["recall", "high"]
    assert estimates.loc["roc_auc", "low"] <= auc <= estimates.loc["roc_auc", "high"]


def test_the_summary_is_for_reading(model):
    text = str(model.summary_)
    for word in ("rows", "columns", "views", "boundary", "probability", "95 % interval", "class 1"):
        assert word in text
    assert len(model.cv_results_) == 2 * sum(len(spec.grid) for spec in VIEWS)
    assert {"view", "g", "C", "roc_auc", "gmean"} <= set(model.cv_results_.columns)


def test_few_rows_of_a_class_are_named():
    X, y = imbalanced(n=120, ratio=0.75, seed=1)
    assert "few: trust the intervals" in str(fast().fit(X, y).summary_)


# --- time ---


def test_a_budget_too_small_for_one_fit_gives_the_default_model_and_says_so(rows):
    with pytest.warns(UserWarning, match="was too short: this is the default model, with only the view 'standard'"):
        model = EvenMarginClassifier(time_budget=1e-6).fit(*rows)
    assert [member.name for member in model.detectors_[0].committee.members] == ["standard"]
    assert model.cv_results_.empty
    assert "default model" in str(model.summary_)
    assert roc_auc_score(rows[1], model.decision_function(rows[0])) > 0.8


def test_fast_tries_nothing_and_thorough_tries_more_often(rows):
    X, y = rows[0][:150], rows[1][:150]
    assert fast().fit(X, y).cv_results_.empty
    thorough = EvenMarginClassifier(time_budget="thorough").fit(X, y)
    assert thorough._fitted.plan.repeats == 10
    assert len(thorough.cv_results_) == 20
    assert thorough._fitted.plan.rows == fast().fit(X, y)._fitted.plan.rows


def test_the_clock_drops_views_when_time_runs_out(rows, monkeypatch):
    X, y = rows
    ticks = iter(np.arange(0.0, 1e6, 10.0))
    monkeypatch.setattr("time.perf_counter", lambda: next(ticks))
    committee = committee_of(X, y == 1, Plan(seconds=60.0, started=0.0))
    assert len(committee.members) < 3
    assert committee.shortened


def test_more_rows_than_it_learns_from_keep_their_weight(rows, monkeypatch):
    monkeypatch.setattr("evenmargin.auto.plan.MOST_ROWS", 200)
    X, y = rows
    model = fast().fit(X, y)
    detector = model.detectors_[0]
    assert detector.positive.sum() == np.sum(y == 1)
    assert detector.positive.size == detector.count.sum() == 200
    assert np.isclose(detector.weight[detector.positive].sum(), np.sum(y == 1))
    assert np.isclose(detector.weight.sum(), y.size)
    assert "of which 200 were used" in str(model.summary_)


# --- bad input ---


@pytest.mark.parametrize("count", [1, 2, 7])
def test_fewer_rare_rows_than_folds_shrink_the_folds(count):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.arange(60) < count
    X[y] += 3
    with pytest.warns(UserWarning, match=rf"Class True has only {count} different rows?, so {max(2, count)} folds"):
        model = fast().fit(X, y)
    assert roc_auc_score(y, model.decision_function(X)) > 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(60)}, "one class only"),
        ({"y": np.full(60, np.nan)}, "y contains NaN"),
        ({"y": None}, "requires y"),
        ({"X": np.ones((60, 2))}, "two different values"),
        ({"X": np.full((60, 1), np.inf)}, "infinity"),
        ({"sample_weight": np.zeros(60)}, "zero"),
        ({"objective": "gmeen"}, "unknown"),
        ({"objective": {"recall": 2}}, "recall"),
        ({"pos_label": 7}, "not one of the classes"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"time_budget": "slow"}, "time_budget"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_bad_input_gets_one_clear_sentence(change, message):
    rng = np.random.default_rng(0)
    parts = {"X": rng.normal(size=(60, 2)), "y": np.arange(60) % 4 == 0, "sample_weight": None}
    parts.update({key: value for key, value in change.items() if key in parts})
    parameters = {key: value for key, value in change.items() if key not in parts}
    with pytest.raises(ValueError, match=message):
        EvenMarginClassifier(**parameters).fit(**parts)


def test_bad_operating_points_and_tables_are_refused(fraud_model):
    frame, _ = frauds()
    model = pickle.loads(pickle.dumps(fraud_model))
    with pytest.raises(ValueError, match="Give exactly one of"):
        model.set_operating_point()
    with pytest.raises(ValueError, match="Give exactly one of"):
        model.set_operating_point("f1", threshold=0.0)
    with pytest.raises(ValueError, match="probability"):
        model.set_operating_point(probability=1.5)
    with pytest.raises(ValueError, match="finite"):
        model.set_operating_point(threshold=np.nan)
    with pytest.raises(ValueError, match="held numbers in training"):
        model.predict(frame.assign(amount="much"))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.drop(columns="age"))
    assert np.array_equal(model.predict(frame), fraud_model.predict(frame))


def test_clone_keeps_the_parameters():
    model = EvenMarginClassifier({"fn": 5, "fp": 1}, time_budget=7, folds=4, pos_label="x", n_jobs=2)
    assert clone(model).get_params() == model.get_params()
