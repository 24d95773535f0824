"""Promises of `EvenMarginClassifier`, `SharedGridSearch` and the displays that a stranger would put to the test."""

from __future__ import annotations

import copy
import functools
import inspect
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit, TunedThresholdClassifierCV

from evenmargin import EvenMarginClassifier, KernelSVM
from evenmargin.nystroem import StratifiedNystroem
from evenmargin.operating import metric_interval
from evenmargin.selection import SharedGridSearch

N = 200
X = np.random.default_rng(0).normal(size=(N, 3))
Y = (X[:, 0] + 0.5 * np.random.default_rng(1).normal(size=N) > 1.2).astype(int)
FRAME = pd.DataFrame(X, columns=list("abc")).assign(kind=np.where(X[:, 1] > 0, "p", "q"))


def fast(**parameters):
    return EvenMarginClassifier(time_budget="fast", **parameters)


@pytest.fixture
def model():
    return fast().fit(X, Y)


@pytest.fixture(scope="module")
def three():
    """Three classes, one of them most of the rows."""
    rng = np.random.default_rng(0)
    y = rng.choice(3, 400, p=[0.8, 0.1, 0.1])
    rows = rng.normal(size=(400, 2))
    rows[y == 1] += 1.0
    rows[y == 2] -= 1.0
    return rows, y


# --- honest estimates ---


@pytest.mark.parametrize("given", ["weights", "copies", "rare_weights"])
def test_copies_of_a_row_are_not_mistaken_for_rows_not_seen(given):
    """Labels by chance: nothing can be learned, however often a row is there."""
    rng = np.random.default_rng(1)
    rows, y = rng.normal(size=(N, 4)), rng.random(N) < 0.2
    if given == "copies":
        model = fast().fit(np.tile(rows, (5, 1)), np.tile(y, 5))
    else:
        model = fast().fit(rows, y, sample_weight=np.full(N, 10) if given == "weights" else np.where(y, 4, 1))
    assert model.estimates_.loc["roc_auc", "value"] < 0.7
    assert model.estimates_.loc["gmean", "value"] < 0.7


def test_the_interval_of_f1_knows_that_new_rows_have_another_share_of_positives():
    rng, share, cut = np.random.default_rng(0), 0.06, 1.0
    recall, alarm = 0.70, 0.10
    truth = 2 * share * recall / (share * recall + (1 - share) * alarm + share)
    held = 0
    for _ in range(300):
        positive = rng.random(400) < share
        called = rng.random(400) < np.where(positive, recall, alarm)
        interval = metric_interval(np.where(called, 2.0, 0.0) + 1e-6 * rng.random(400), positive, cut, "f1")
        held += interval.low <= truth <= interval.high
    assert held / 300 > 0.92


def test_the_curve_says_what_the_same_threshold_does(model):
    other = copy.deepcopy(model)
    for _, point in model.operating_curve_.iloc[::20].iterrows():
        other.set_operating_point(threshold=point["threshold"])
        assert np.isclose(other.probability_threshold_, point["probability"])
        assert np.isclose(other.estimates_.loc["recall", "value"], point["recall"])
        assert np.count_nonzero(model.oof_scores_ > point["threshold"]) == point["tp"] + point["fp"]


# --- several classes, one of them the majority ---


def test_the_summary_counts_the_rows_of_the_class_it_names(three):
    rows, y = three
    text = str(fast().fit(rows, y).summary_)
    for label in range(3):
        assert re.search(rf"class {label} +{np.count_nonzero(y == label):,} rows", text)


def test_what_is_expected_of_a_majority_class_is_of_that_class(three):
    """Calls better than chance are right more often than the class is frequent."""
    rows, y = three
    model = fast().fit(rows, y)
    assert model.estimates_.loc[(0, "precision"), "value"] > np.mean(y == 0)
    assert (model.operating_curve_[0]["tp"] + model.operating_curve_[0]["fn"] == np.count_nonzero(y == 0)).all()


def test_a_floor_for_each_class_does_not_leave_the_majority_uncalled(three):
    rows, y = three
    model = fast(objective={"recall": 0.95}).fit(rows, y)
    assert np.count_nonzero(model.predict(rows) == 0) > 0


# --- frames ---


@pytest.mark.parametrize(
    "names",
    [[10, 20, 30, 40], [3, 1, 0, 2], pd.MultiIndex.from_product([["u", "v"], ["x", "y"]])],
    ids=["whole_numbers", "permuted", "levels"],
)
def test_whatever_columns_are_called_they_are_what_they_hold(names):
    called = fast().fit(FRAME, Y).predict_proba(FRAME)
    other = FRAME.copy()
    other.columns = names
    assert np.array_equal(fast().fit(other, Y).predict_proba(other), called)


def test_a_model_of_a_frame_takes_an_array_with_the_warning_of_scikit_learn():
    frame = FRAME[["a", "b", "c"]]
    model = fast().fit(frame, Y)
    with pytest.warns(UserWarning, match="valid feature names"):
        assert np.array_equal(model.predict(X), model.predict(frame))


def test_a_model_of_an_array_of_objects_takes_one_of_numbers():
    model = fast().fit(X.astype(object), Y)
    assert np.array_equal(model.predict(X), model.predict(X.astype(object)))


def test_numbers_in_lists_beside_words_stay_numbers():
    rows = [[float(a), kind] for a, kind in zip(X[:, 0], FRAME["kind"], strict=True)]
    assert fast().fit(rows, Y).estimates_.loc["roc_auc", "value"] > 0.8


def test_dates_in_a_column_of_objects_or_periods_are_dates():
    days = pd.date_range("2024-01-01", periods=N)
    y = (np.arange(N) > 170).astype(int)
    for when in (np.array([day.date() for day in days], object), days.to_period("D")):
        model = fast().fit(pd.DataFrame({"a": X[:, 0], "when": when}), y)
        assert model.estimates_.loc["roc_auc", "value"] > 0.9


def test_a_category_of_numbers_is_the_same_as_whole_numbers_or_floats():
    """A missing value somewhere makes floats of a column of whole numbers."""
    rng = np.random.default_rng(0)
    code = rng.integers(1, 4, N)
    y = ((code == 2) & (rng.random(N) < 0.7)).astype(int)
    frame = pd.DataFrame({"a": X[:, 0], "code": pd.Categorical(code)})
    model = fast().fit(frame, y)
    assert np.array_equal(model.predict(frame.assign(code=pd.Categorical(code * 1.0))), model.predict(frame))


def test_a_weight_of_two_is_a_row_twice_for_rare_categories_too():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": X[:, 0], "kind": rng.choice(list("abcdefghij"), N, p=[0.5, 0.3, 0.1] + [0.1 / 7] * 7)})
    weight = rng.integers(1, 4, N)
    twice = np.repeat(np.arange(N), weight)
    weighted, repeated = fast().fit(frame, Y, sample_weight=weight), fast().fit(frame.iloc[twice], Y[twice])
    assert np.array_equal(weighted.decision_function(frame), repeated.decision_function(frame))


def test_values_beyond_float32_are_taken_without_a_warning():
    rows = X * [1.0, 1e50, 1e-300]
    assert np.isfinite(fast().fit(rows, Y).predict_proba(rows)).all()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.Series(X[:, 0]), "2D|two dimensions|DataFrame|column"),
        (pd.DataFrame({"a": X[:, 0], "b": X[:, 1] + 1j}), "[Cc]omplex"),
    ],
    ids=["series", "complex"],
)
def test_what_is_no_table_of_real_values_is_refused_in_one_sentence(table, message):
    with pytest.raises(ValueError, match=message):
        fast().fit(table, Y)


@pytest.mark.parametrize("names", [["a", "b"], ["a", "kind"]], ids=["numbers", "words"])
def test_a_frame_without_rows_is_refused_as_an_array_without_rows_is(names):
    model = fast().fit(FRAME[names], Y)
    with pytest.raises(ValueError, match=r"0 sample|no rows|at least one row"):
        model.predict(FRAME[names].iloc[:0])


@pytest.mark.parametrize(
    "column",
    [
        pd.array([True, None] * 100, dtype="boolean"),
        pd.array(["u", None] * 100, dtype="string"),
        pd.date_range("2024-01-01", periods=N, tz="Europe/Berlin"),
        pd.to_timedelta(np.arange(N), "h"),
        pd.Categorical(["u", "v"] * 100, categories=["w", "v", "u"], ordered=True),
        np.arange(N).astype(np.uint8),
        X[:, 0].astype(np.float16),
        np.append(1.0, np.full(N - 1, np.nan)),
        np.array([1, "a", None, 2.5] * 50, object),
    ],
    ids=["boolean", "string", "zone", "span", "ordered", "uint8", "float16", "lone", "mixed"],
)
def test_columns_of_all_kinds_go_in_and_a_row_alone_is_the_row_among_others(column):
    frame = pd.DataFrame({"a": X[:, 0], "column": column})
    model = fast().fit(frame, Y)
    among = model.predict_proba(frame)
    assert np.isfinite(among).all()
    assert np.allclose(model.predict_proba(frame.iloc[[7]]), among[[7]], atol=1e-6)


def test_all_may_be_missing_at_predict():
    model = fast().fit(FRAME, Y)
    nothing = pd.DataFrame({name: [None] for name in FRAME.columns})
    assert np.isfinite(model.predict_proba(nothing)).all()


# --- labels and weights ---


def test_a_missing_label_among_strings_gets_one_sentence():
    y = pd.Series(np.where(Y, "yes", "no"), dtype="string")
    y[3] = pd.NA
    with pytest.raises(ValueError, match="missing"):
        fast().fit(X, y)


@pytest.mark.parametrize("size", [1e-300, 1e-3, 1e300])
def test_weights_in_units_of_their_own_are_taken(size):
    called = fast().fit(X, Y, sample_weight=np.full(N, size)).decision_function(X)
    assert np.allclose(called, fast().fit(X, Y).decision_function(X), atol=1e-6)


def test_weights_beyond_reason_get_one_sentence():
    with pytest.raises(ValueError, match="sample_weight"):
        fast().fit(X, Y, sample_weight=np.full(N, 1.5e307))


@pytest.mark.parametrize(("rare", "rows"), [(1, 2), (1, 5), (2, 4), (3, 6)])
def test_a_handful_of_rows_is_enough_for_an_answer(rare, rows):
    y = (np.arange(rows) < rare).astype(int)
    with pytest.warns(UserWarning, match="so . folds are used"):
        model = EvenMarginClassifier().fit(X[:rows] + 3.0 * y[:, None], y)
    assert np.array_equal(model.predict(X[:rows] + 3.0 * y[:, None]), y)
    assert "nan" not in str(model.summary_)


def test_a_fit_that_failed_leaves_a_model_that_says_it_is_not_fitted():
    model = fast()
    with pytest.raises(ValueError, match="one class only"):
        model.fit(X, np.zeros(N))
    with pytest.raises(NotFittedError):
        model.predict(X)


# --- the boundary ---


@pytest.mark.parametrize("labels", [["fine", "rare"], ["zero", "rare"]], ids=["rare_last", "rare_first"])
def test_predict_and_probabilities_agree_for_a_row_on_the_boundary(labels):
    model = fast().fit(X, np.array(labels)[Y])
    place = model.classes_.tolist().index("rare")
    for score in model._scores(X)[0][::5]:
        model.set_operating_point(threshold=score)
        above = model.predict_proba(X)[:, place] > model.probability_threshold_
        assert np.array_equal(model.predict(X) == "rare", above)


@pytest.mark.parametrize("threshold", [np.nan, np.inf, "high", [1.0, 2.0]], ids=str)
def test_a_threshold_that_is_no_number_is_refused_and_changes_nothing(model, threshold):
    before = model.predict(X), str(model.summary_)
    with pytest.raises((ValueError, TypeError), match="threshold"):
        model.set_operating_point(threshold=threshold)
    assert np.array_equal(model.predict(X), before[0])
    assert str(model.summary_) == before[1]


@pytest.mark.parametrize(
    "objective",
    [
        lambda tp, fn, fp, tn: np.nan * tp,
        lambda tp, fn, fp, tn: 1.0,
        {"fn": 1},
        {"fn": -1, "fp": 1},
        {"recall": 0},
        {"recall": 1.5},
        {"recall": 0.9, "precision": 0.9},
        "accuracy",
    ],
    ids=["nan", "scalar", "half_costs", "negative", "zero", "above_one", "two_floors", "unknown"],
)
def test_an_objective_that_makes_no_sense_is_refused_and_changes_nothing(model, objective):
    before = model.predict(X), model.threshold_, str(model.summary_)
    with pytest.raises(ValueError, match="objective"):
        model.set_operating_point(objective)
    assert np.array_equal(model.predict(X), before[0])
    assert (model.threshold_, str(model.summary_)) == before[1:]


def test_an_objective_without_bounds_is_taken_without_a_warning_of_numpy(model):
    model.set_operating_point(lambda tp, fn, fp, tn: np.where(fn == 0, np.inf, tp))
    assert np.isfinite(model.threshold_)


def test_a_floor_out_of_reach_is_said_at_the_line_of_the_user(model):
    line = inspect.currentframe().f_lineno + 2
    with pytest.warns(UserWarning, match="No threshold reaches") as caught:
        model.set_operating_point({"recall": 0.999, "confidence": 0.999})
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)


# --- words ---


def test_the_summary_keeps_a_long_label_apart_from_what_is_said_of_it():
    text = str(fast().fit(X, np.where(Y, "fraudulent_transaction", "fine")).summary_)
    assert "'fraudulent_transaction' " in text


def test_the_summary_has_words_where_nothing_is_called_positive(model):
    assert "nan" not in str(model.set_operating_point(threshold=50.0).summary_)


def test_the_summary_names_an_objective_without_its_address(model):
    def gain(price, tp, fn, fp, tn):
        return tp - price * fp

    assert " at 0x" not in str(model.set_operating_point(functools.partial(gain, 0.1)).summary_)


# --- the ecosystem ---


@pytest.mark.parametrize(
    "around",
    [
        lambda model: GridSearchCV(model, {"objective": ["f1", {"fn": 5, "fp": 1}]}, cv=3),
        lambda model: VotingClassifier([("own", model), ("line", LogisticRegression())], voting="soft"),
        lambda model: CalibratedClassifierCV(FrozenEstimator(model.fit(X, Y))),
        lambda model: TunedThresholdClassifierCV(model, cv=3),
    ],
    ids=["search", "vote", "calibration", "threshold"],
)
def test_it_works_inside_other_estimators(around):
    assert around(fast()).fit(X, Y).score(X, Y) > 0.85


# --- SharedGridSearch ---


GRID = {"C": [0.1, 1, 10], "gamma": [0.1, 1]}


def _both(scoring=None, cv=None, y=Y, **fit):
    searches = (
        GridSearchCV(KernelSVM(), GRID, scoring=scoring, cv=cv),
        SharedGridSearch(KernelSVM(), GRID, scoring=scoring, cv=cv),
    )
    return [search.fit(X, y, **fit) for search in searches]


@pytest.mark.parametrize(
    "scoring",
    [
        lambda machine, rows, y: -machine.get_params()["C"],
        lambda machine, rows, y: float(isinstance(machine, KernelSVM)),
        lambda machine, rows, y: float(len(repr(machine))),
    ],
    ids=["get_params", "isinstance", "repr"],
)
def test_a_scorer_of_ones_own_sees_the_estimator_itself(scoring):
    plain, shared = _both(scoring)
    assert np.array_equal(plain.cv_results_["mean_test_score"], shared.cv_results_["mean_test_score"])


@pytest.mark.parametrize(
    "cv",
    [
        TimeSeriesSplit(3),
        [(np.arange(N) % 3 != k, np.arange(N) % 3 == k) for k in range(3)],
        [(np.arange(100), np.arange(50, 200)), (np.r_[np.arange(100), np.arange(20)], np.arange(100, 200))],
        [(np.arange(100), np.arange(-50, 0))],
    ],
    ids=["growing", "masks", "overlapping", "negative"],
)
def test_folds_of_all_kinds_give_the_numbers_of_a_plain_search(cv):
    plain, shared = _both("balanced_accuracy", cv)
    for name in (f"split{k}_test_score" for k in range(shared.n_splits_)):
        assert np.array_equal(plain.cv_results_[name], shared.cv_results_[name])
    assert plain.best_params_ == shared.best_params_


def test_a_score_that_is_not_finite_is_said_at_the_line_of_the_user():
    search = SharedGridSearch(KernelSVM(), {"C": [1, 2]}, scoring=lambda machine, rows, y: np.nan)
    line = inspect.currentframe().f_lineno + 2
    with pytest.warns(UserWarning, match="non-finite") as caught:
        search.fit(X, Y)
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)


def test_folds_that_lack_a_class_fail_alone():
    search = SharedGridSearch(KernelSVM(), GRID, cv=KFold(3), error_score=-1.0)
    with pytest.warns(FitFailedWarning, match="6 fits failed out of a total of 18"):
        search.fit(X, np.sort(Y))
    assert (search.cv_results_["split2_test_score"] == -1.0).all()
    assert (search.cv_results_["split0_test_score"] >= 0.0).all()


# --- displays, landmarks ---


@pytest.mark.parametrize("response_method", ["predict_proba", "decision_function"])
def test_a_display_marks_the_models_own_boundary(model, response_method):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    from evenmargin.display import ThresholdDisplay

    display = ThresholdDisplay.from_estimator(model, X, Y, response_method=response_method)
    pyplot.close("all")
    own = model.probability_threshold_ if response_method == "predict_proba" else 0.0
    assert np.isclose(display.at, own)


def test_landmarks_are_drawn_by_weights_of_any_size_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        landmarks = StratifiedNystroem(n_components=10).fit(X, Y, sample_weight=np.full(N, 1e-310))
    assert landmarks.component_indices_.size == 10
