"""The report: its figures are Python's and its words are plain."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from pages import COUNTS, Page, at_chosen, counts_of, tumours
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from evenmargin import EvenMarginClassifier, KernelSVM, LinearSVM, ZAdjustedClassifier
from evenmargin.operating import MetricInterval, get_objective, metric_interval, operating_curve
from evenmargin.report import render_report
from evenmargin.report._charts import dots
from evenmargin.report._evidence import gather
from evenmargin.report._words import amount, out_of_100, percent, range_of_100, significant, value


@pytest.fixture(scope="module")
def rows():
    return tumours()


@pytest.fixture(scope="module")
def model(rows):
    return EvenMarginClassifier({"fn": 50, "fp": 1}).fit(*rows)


@pytest.fixture(scope="module")
def page(model, rows):
    return Page(render_report(model, *rows, training=True))


@pytest.fixture(scope="module")
def halves():
    """Rows to learn from and rows to report on."""
    X, y = tumours()
    return X[::2], y[::2], X[1::2], y[1::2]


def plain(halves):
    X, y, *_ = halves
    return make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced")).fit(X, y)


# --- figures ---


def test_the_points_of_the_slider_are_those_of_the_models_own_curve(page, model):
    points, own = pd.DataFrame({name: page.data[name] for name in COUNTS}), model.operating_curve_
    assert points.drop_duplicates().to_numpy().tolist() == own[list(COUNTS)].drop_duplicates().to_numpy().tolist()
    others = set(page.data["threshold"]) - set(own["threshold"])
    assert len(points) <= 500
    assert len(others) <= 2  # where it was cut before, and where it is cut now


def test_the_chosen_threshold_is_the_models(page, model):
    place = page.data["chosen"]
    assert page.data["threshold"][place] == model.threshold_
    assert page.data["probability"][place] == pytest.approx(model.probability_threshold_)
    assert page.texts["where"] == percent(model.probability_threshold_)


def test_the_page_shows_the_counts_and_rates_of_the_chosen_threshold(page, model, rows):
    positive, flagged = rows[1] == "malignant", model.oof_scores_ > model.threshold_
    tp, fp = np.count_nonzero(positive & flagged), np.count_nonzero(~positive & flagged)
    fn, tn = positive.sum() - tp, (~positive).sum() - fp
    for name, count in zip(COUNTS, (tp, fn, fp, tn), strict=True):
        assert page.texts[f"n-{name}"] == amount(count)
        assert page.texts[f"k-{name}"] == amount(1000 * count / positive.size)
    assert page.texts["r-recall"] == percent(tp / (tp + fn))
    assert page.texts["r-precision"] == percent(tp / (tp + fp))
    assert page.texts["r-specificity"] == percent(tn / (tn + fp))
    assert page.texts["r-gmean"] == percent((tp / (tp + fn) * tn / (tn + fp)) ** 0.5)
    assert page.texts["cost"] == amount(1000 * (50 * fn + fp) / positive.size)


def test_the_page_says_what_the_threshold_was_chosen_for(page):
    assert "The chosen threshold is the best one for this goal: cost with fn = 50, fp = 1." in page.words


def test_the_summary_says_the_models_own_estimates(page, model):
    value, low, high = (f"{100 * part:.0f}" for part in model.estimates_.loc["recall"])
    assert f"Of 100 cases of “malignant”, it finds about {value} ({low} to {high})." in page.words
    value, low, high = (f"{100 * part:.0f}" for part in model.estimates_.loc["precision"])
    assert f"Of 100 rows that it flags, about {value} ({low} to {high}) are right" in page.words


def test_the_summary_says_which_column_the_labels_are_of(model, rows):
    page = Page(render_report(model, *rows, training=True, target="<b>diagnosis"))
    assert "The model looks for “malignant” in the column “<b>diagnosis”: 40 of 397 rows" in page.words


def test_a_rare_mistake_is_said_with_its_decimals():
    rng = np.random.default_rng(0)
    y = np.arange(4000) < 400
    X = np.where(y, 4.5, 0.0)[:, None] + rng.normal(size=(4000, 1))
    page = Page(render_report(LogisticRegression().fit(X, y), X, y))
    said = re.search(r"Of 100 cases of “False”, it wrongly flags about (0\.\d+) \((0\.\d+) to (0\.\d+)\)", page.words)
    value, low, high = (float(number) for number in said.groups())
    assert low < value < high


def test_the_summary_says_what_flagging_nobody_and_everybody_costs(page):
    said = "Flagging nobody would cost 5,038, flagging everybody 899."
    assert said in page.words  # 1,000 · 40/397 · 50 and 1,000 · 357/397


def test_the_expected_cost_is_that_of_the_expected_rates(model, rows):
    evidence = gather(model, *rows, training=True)
    recall, specificity = model.estimates_.loc["recall", "value"], model.estimates_.loc["specificity", "value"]
    cost = evidence.expected["cost"]
    assert cost.value == pytest.approx(1000 * (50 * 40 * (1 - recall) + 357 * (1 - specificity)) / 397)
    assert cost.low < cost.value < cost.high


def test_on_unseen_rows_the_counts_are_those_of_predict(model, rows):
    X, y = rows
    page = Page(render_report(model, X[::3], y[::3]))
    assert at_chosen(page) == counts_of(model, X[::3], y[::3], "malignant")
    assert "scored by the final model" in page.words


@pytest.mark.parametrize(
    "make",
    [
        plain,
        lambda halves: RandomForestClassifier(20, random_state=0).fit(*halves[:2]),
        lambda halves: make_pipeline(StandardScaler(), LinearSVM(class_weight="balanced")).fit(*halves[:2]),
        lambda halves: make_pipeline(StandardScaler(), KernelSVM()).fit(*halves[:2]),
        lambda halves: make_pipeline(StandardScaler(), SVC()).fit(*halves[:2]),
        lambda halves: ZAdjustedClassifier(make_pipeline(StandardScaler(), KernelSVM()), cv=3).fit(*halves[:2]),
        lambda halves: ZAdjustedClassifier(GaussianNB(), method="threshold").fit(*halves[:2]),
        lambda halves: FixedThresholdClassifier(GaussianNB(), threshold=0.2, pos_label="malignant").fit(*halves[:2]),
    ],
    ids=["logistic", "forest", "linear", "kernel", "SVC", "z", "threshold", "fixed"],
)
@pytest.mark.parametrize("pos_label", ["malignant", "benign"])
def test_any_classifier_is_reported_as_it_predicts(make, halves, pos_label):
    model = make(halves)
    page = Page(render_report(model, *halves[2:], pos_label=pos_label))
    assert at_chosen(page) == counts_of(model, *halves[2:], pos_label)
    assert "predictions differ from those of its scores" not in page.words


def test_intervals_of_unseen_rows_are_metric_interval_s(halves):
    model = plain(halves)
    X, y = halves[2:]
    evidence = gather(model, X, y, pos_label="malignant")
    scores = model.decision_function(X)
    for name in ("recall", "precision", "roc_auc"):
        expected = metric_interval(scores, y == "malignant", evidence.rule.threshold, name)
        assert evidence.expected[name] == pytest.approx(expected)


def test_a_long_curve_is_thinned_and_keeps_its_ends_and_the_chosen_threshold():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3))
    y = (X[:, 0] + rng.normal(size=5000) > 2).astype(int)
    model = LogisticRegression().fit(X, y)
    data = Page(render_report(model, X, y)).data
    assert len(data["tp"]) <= 500
    assert [data["fn"][0], data["tn"][0], data["tp"][-1], data["fp"][-1]] == [0, 0, 0, 0]
    assert data["threshold"] == sorted(data["threshold"])
    whole = operating_curve(model.decision_function(X), y, max_points=10**6)
    assert set(zip(data["tp"], data["fp"], strict=True)) <= set(zip(whole.tp, whole.fp, strict=True))


def test_weights_count_as_rows(halves):
    model, (X, y) = plain(halves), halves[2:]
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    page = Page(render_report(model, X, y, sample_weight=weight))
    np.testing.assert_allclose(at_chosen(page), counts_of(model, X, y, "malignant", weight))
    assert "sums of weights" in page.words
    repeated = Page(render_report(model, X.loc[X.index.repeat(weight.astype(int))], np.repeat(y, weight.astype(int))))
    assert at_chosen(repeated) == at_chosen(page)


def test_scaled_weights_do_not_make_figures_surer(halves):
    model, (X, y) = plain(halves), halves[2:]
    once, thrice = (gather(model, X, y, sample_weight=np.full(len(y), k)).expected for k in (1.0, 3.0))
    for name in once:
        assert once[name] == pytest.approx(thrice[name])


def test_rows_of_a_sample_stand_for_all():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=9000) > 1.5).astype(int)
    model = EvenMarginClassifier(time_budget="fast").fit(X, y)
    model.oof_scores_ = model.oof_scores_.copy()
    model.oof_scores_[np.flatnonzero(y == 0)[::2]] = np.nan
    page = Page(render_report(model, X, y, training=True))
    assert at_chosen(page)[2] + at_chosen(page)[3] == pytest.approx(np.count_nonzero(y == 0))
    assert "represent all of them" in page.words


# --- prices ---


def test_given_prices_come_before_those_of_the_objective(model, rows):
    page = Page(render_report(model, *rows, training=True, prices={"fn": 7, "fp": 2}))
    assert page.data["prices"] == {"fn": 7, "fp": 2, "tp": 0, "tn": 0}
    assert "At a price of 7 for a missed case and 2 for a false alarm" in page.words


def test_without_prices_both_classes_weigh_alike_and_the_page_says_so(halves):
    page = Page(render_report(plain(halves), *halves[2:]))
    positives = np.count_nonzero(halves[3] == "malignant")
    assert page.data["prices"]["fn"] == round((len(halves[3]) - positives) / positives, 1)
    assert (
        f"A missed case is priced at {page.data['prices']['fn']} false alarms, so that both classes count the same. "
        "Type your own prices below." in page.words
    )


@pytest.mark.parametrize("prices", [(1234567.0, 0.025), (1e30, 1.0), (123456.789, 1e-9), (1e300, 1e15)], ids=str)
def test_prices_are_shown_with_all_their_digits(model, rows, prices):
    page = Page(render_report(model, *rows, training=True, prices=dict(zip(("fn", "fp"), prices, strict=True))))
    fields = {attrs.get("id"): attrs.get("value") for tag, attrs in page.tags if tag == "input"}
    assert (float(fields["price-fn"]), float(fields["price-fp"])) == prices
    said = re.search(r"At a price of (\S+) for a missed case and (\S+) for a false alarm", page.words)
    assert tuple(float(number.replace(",", "")) for number in said.groups()) == prices


def test_prices_of_right_calls_are_counted(model, rows):
    prices = {"fn": 50, "fp": 3, "tp": 2, "tn": 1}
    page = Page(render_report(model, *rows, training=True, prices=prices))
    tp, fn, fp, tn = at_chosen(page)
    assert page.texts["cost"] == amount(1000 * (50 * fn + 3 * fp + 2 * tp + tn) / 397)


# --- cautions ---


def test_few_cases_are_cautioned_against():
    X, y = tumours(malignant=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = EvenMarginClassifier(time_budget="fast").fit(X, y)
    page = Page(render_report(model, X, y, training=True))
    assert "Only 3 rows are “malignant”: all figures are rough." in page.words


def test_a_model_that_costs_more_than_doing_nothing_is_cautioned_against(model, rows):
    page = Page(render_report(model, *rows, training=True, prices={"fn": 1, "fp": 50}))
    assert "At these prices, flagging nobody costs less" in page.words


def test_bad_probabilities_are_cautioned_against():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 20))
    X[:, 1:] = X[:, :1] + 0.1 * X[:, 1:]  # the same column again and again makes naive Bayes too sure
    y = (X[:, 0] + 2.0 * rng.normal(size=600) > 2).astype(int)
    page = Page(render_report(GaussianNB().fit(X[:300], y[:300]), X[300:], y[300:]))
    assert "badly calibrated" in page.words


def test_guessing_is_called_guessing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), (np.arange(300) % 10 == 0).astype(int)
    page = Page(render_report(LogisticRegression().fit(X, y), *(rng.permutation(X), y)))
    assert "no better than guessing" in page.words


def test_a_floor_that_is_not_reached_is_said(rows):
    X, y = rows
    model = EvenMarginClassifier({"recall": 0.999}, time_budget="fast").fit(X, y)
    model.set_operating_point(threshold=float(np.nanmax(model.oof_scores_)) + 1.0)
    model.objective_ = str(get_objective({"recall": 0.999}))  # as it would be where no threshold reaches the floor
    assert "is not reached on these rows" in Page(render_report(model, X, y, training=True)).words


# --- numbers ---


def test_numbers_are_written_for_reading():
    assert [amount(x) for x in (0, 0.05, 99.96, 1234567.8, -0.04, np.nan)] == [
        "0", "0.1", "100", "1,234,568", "0", "unknown",
    ]  # fmt: skip
    assert percent(0.12345) == "12.3\u00a0%"
    assert percent(0.00001234) == "0.0012\u00a0%"
    assert significant(-1.7460) == "−1.75"
    assert significant(123456.0) == "123,456"
    assert significant(-1.126e-7) == "−1.13e−7"
    assert [amount(x) for x in (1e15, 1.125e15, -1e30, 999_999_999_999_999)] == [
        "1.00e+15", "1.13e+15", "−1.00e+30", "999,999,999,999,999",
    ]  # fmt: skip
    cells = (True, np.nan, pd.NaT, None, 3.0, 0.1234567, np.int64(-5), pd.Timestamp("2024-03-01"))
    said = ["yes", "missing", "missing", "missing", "3", "0.1235", "−5", "2024-03-01"]
    assert [value(cell) for cell in cells] == said


@pytest.mark.parametrize(
    ("found", "said", "interval"),
    [
        ((0.93, 0.81, 0.98), "about 93", "81 to 98"),
        ((0.998, 0.9, 1.0), "more than 99", "90 to 100"),
        ((0.004, 0.0, 0.2), "fewer than 1", "0 to 20"),
        ((0.003, 0.001, 0.008), "about 0.3", "0.1 to 0.8"),
        ((0.0003, 0.0, 0.02), "less than 0.1", "0 to 2"),
        ((0.9999, 0.992, 1.0), "more than 99.9", "99.2 to 100"),
        ((0.0002, 0.0001, 0.0004), "about 0.020", "0.010 to 0.040"),
        ((0.0, 0.0, 0.3), "about 0", "0 to 30"),
        ((1.0, 0.9, 1.0), "about 100", "90 to 100"),
        ((np.nan, 0.0, 1.0), "unknown", "0 to 100"),
    ],
)
def test_shares_are_said_out_of_100_as_fine_as_their_range(found, said, interval):
    found = MetricInterval(*found)
    assert out_of_100(found, "about ") == said
    assert range_of_100(found) == interval


def test_all_dots_are_filled_only_where_it_is_all():
    for share, filled in ((1.0, 100), (0.9999, 99), (0.5, 50), (0.0, 0), (np.nan, 0)):
        assert f"{filled} of 100 dots filled" in dots(share, "pos")
        assert dots(share, "pos").count('class="pos"') == filled
