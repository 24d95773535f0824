"""The report: its figures are Python's, its words are plain, and nothing in it runs but its own script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import time
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from evenmargin import EvenMarginClassifier, KernelSVM, LinearSVM, ZAdjustedClassifier
from evenmargin.operating import get_objective, metric_interval, operating_curve
from evenmargin.report import render_report, write_report
from evenmargin.report._charts import _rectangles, nice_ticks
from evenmargin.report._evidence import gather
from evenmargin.report._influence import influence
from evenmargin.report._page import safe_json
from evenmargin.report._recipe import snippet
from evenmargin.report._words import amount, out_of_100, percent, significant, value

HOSTILE = "<script>alert(1)</script>"
COUNTS = ("tp", "fn", "fp", "tn")
VOID = {"meta", "input", "br", "circle", "line", "rect", "path", "polyline", "polygon"}


class Page(HTMLParser):
    """What a reader needs of a page: texts by id, elements, whether all are closed."""

    def __init__(self, html):
        super().__init__()
        self.html, self.open, self.tags, self.texts, self.headings, self.ids = html, [], [], {}, [], []
        self.feed(html)
        self.close()
        self.data = json.loads(self.texts["points"])
        self.words = " ".join("".join(self.texts[None]).split())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if tag in ("td", "th", "dt", "dd"):
            self.texts.setdefault(None, []).append(" ")
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append((tag, attrs.get("id")))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, name in self.open:
            if name:
                self.texts[name] = self.texts.get(name, "") + data
        if not {"script", "style", "title"} & {tag for tag, _ in self.open}:
            self.texts.setdefault(None, []).append(data)

    def sections(self):
        return [attrs["id"] for tag, attrs in self.tags if tag == "section"]


def tumours(malignant=40):
    data = load_breast_cancer(as_frame=True)
    y = np.where(data.target == 0, "malignant", "benign")
    keep = np.concatenate([np.flatnonzero(y == "benign"), np.flatnonzero(y == "malignant")[:malignant]])
    return data.data.iloc[keep].reset_index(drop=True), y[keep]


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


def counts_of(model, X, y, label, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    called, true = model.predict(X) == label, np.asarray(y) == label
    sides = (called & true, ~called & true, called & ~true, ~called & ~true)
    return [float(weight[side].sum()) for side in sides]


def at_chosen(page):
    return [page.data[name][page.data["chosen"]] for name in COUNTS]


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
    assert "The chosen one is best for: cost with fn = 50, fp = 1." in page.words


def test_the_summary_says_the_models_own_estimates(page, model):
    value, low, high = model.estimates_.loc["recall"]
    said = f"Of 100 cases of “malignant” it finds about {out_of_100(value)} ({100 * low:.0f} to {100 * high:.0f})."
    assert said in page.words
    value, low, high = model.estimates_.loc["precision"]
    assert (
        f"Of 100 that it flags about {out_of_100(value)} are right ({100 * low:.0f} to {100 * high:.0f})" in page.words
    )


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
    assert "scored by the model as it is" in page.words


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
    assert "otherwise than its scores" not in page.words


def test_intervals_of_unseen_rows_are_metric_interval_s(halves):
    model = plain(halves)
    X, y = halves[2:]
    evidence = gather(model, X, y, pos_label="malignant")
    scores = model.decision_function(X)
    for name in ("recall", "precision", "roc_auc"):
        expected = metric_interval(scores, y == "malignant", evidence.judge.threshold, name)
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
    assert "stand for all" in page.words


# --- prices ---


def test_given_prices_come_before_those_of_the_objective(model, rows):
    page = Page(render_report(model, *rows, training=True, prices={"fn": 7, "fp": 2}))
    assert page.data["prices"] == {"fn": 7, "fp": 2, "tp": 0, "tn": 0}
    assert "At a price of 7 for a missed case and 2 for a false alarm" in page.words


def test_without_prices_both_classes_weigh_alike_and_the_page_says_so(halves):
    page = Page(render_report(plain(halves), *halves[2:]))
    positives = np.count_nonzero(halves[3] == "malignant")
    assert page.data["prices"]["fn"] == round((len(halves[3]) - positives) / positives, 1)
    assert "No prices were given" in page.words


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
    assert "At these prices flagging nobody costs less" in page.words


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


# --- parts ---


def test_the_parts_come_in_order(page):
    assert page.sections() == [
        "summary", "data", "curves", "threshold", "scores", "calibration", "boundary", "features", "rows", "search",
        "making",
    ]  # fmt: skip


def test_what_a_model_lacks_is_left_out(halves):
    model = make_pipeline(StandardScaler(), SVC()).fit(*halves[:2])
    page = Page(render_report(model, *halves[2:]))
    assert not {"calibration", "search"} & set(page.sections())
    assert "before and after" not in page.words
    assert page.data["probability"] is None
    assert page.data["before"] is None


def test_the_search_of_a_grid_is_listed(halves):
    grid = GridSearchCV(make_pipeline(StandardScaler(), LinearSVM()), {"linearsvm__C": [0.1, 1.0]}, cv=3)
    page = Page(render_report(grid.fit(*halves[:2]), *halves[2:]))
    assert "linearsvm__C = 0.1" in page.words


def test_before_is_the_machine_as_it_was_trained(halves):
    X, y, X_new, y_new = halves
    model = ZAdjustedClassifier(make_pipeline(StandardScaler(), SVC(C=0.1)), cv=3).fit(X, y)
    page = Page(render_report(model, X_new, y_new))
    before = counts_of(model.estimator_, X_new, y_new, "malignant")
    after = counts_of(model, X_new, y_new, "malignant")
    for title, first, last in zip(("found", "missed"), before, after, strict=False):
        assert f"“malignant” {title} {amount(first)} {amount(last)}" in page.words


def test_before_of_the_automatic_model_is_a_probability_of_one_half(page, model, rows):
    (detector,) = model._detectors
    half = detector.probability(model.oof_scores_) > 0.5
    found = np.count_nonzero(half & (rows[1] == "malignant"))
    place = page.data["before"]
    assert page.data["probability"][place] == pytest.approx(0.5)
    assert page.data["tp"][place] == found


def test_coefficients_are_of_one_standard_deviation():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) * [1.0, 10.0, 0.1]
    y = (X[:, 0] - 0.2 * X[:, 1] > 1.5).astype(int)
    model = LogisticRegression().fit(X, y)
    found = influence(gather(model, X, y), 0)
    expected = model.coef_.ravel() * X.std(axis=0)
    assert found.linear
    np.testing.assert_allclose(found.values, expected[found.columns])
    assert list(np.abs(found.values)) == sorted(np.abs(found.values), reverse=True)


def test_a_pipeline_that_mixes_columns_has_no_coefficients_of_its_own():
    from sklearn.decomposition import PCA

    X, y = tumours()
    model = make_pipeline(PCA(), LogisticRegression(max_iter=5000)).fit(X, y)
    assert not influence(gather(model, X, y), 0).linear


def test_permutations_find_the_column_that_matters():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    y = (np.abs(X[:, 3]) > 1.8).astype(int)
    found = influence(gather(RandomForestClassifier(30, random_state=0).fit(X[:300], y[:300]), X[300:], y[300:]), 0)
    assert found.columns[0] == 3
    assert found.drops[0] > 0.2


def test_permutations_are_the_same_for_the_same_seed(model, rows):
    evidence = gather(model, *rows, training=True)
    np.testing.assert_array_equal(influence(evidence, 3, 60.0).values, influence(evidence, 3, 60.0).values)


class Slow(GaussianNB):
    """A model that takes a while for each call."""

    def predict_proba(self, X):
        time.sleep(0.05)
        return super().predict_proba(X)


def test_permutations_stop_in_time_and_say_so(rows):
    evidence = gather(Slow().fit(*rows), *rows)
    started = time.perf_counter()
    found = influence(evidence, 0, 0.6)
    assert time.perf_counter() - started < 4.0
    assert found.columns.size < 30
    assert "It was cut short after 0.6 seconds" in found.how


def test_the_worst_mistakes_are_the_worst(page, model, rows):
    scores, positive = model.oof_scores_, rows[1] == "malignant"
    alarm = int(np.flatnonzero(~positive)[scores[~positive].argmax()]) + 1
    miss = int(np.flatnonzero(positive)[scores[positive].argmin()]) + 1
    riskiest = int(scores.argmax()) + 1
    for title, row in {"riskiest rows": riskiest, "worst misses": miss, "worst false alarms": alarm}.items():
        after = page.words.rindex(f"The {title}")
        assert re.search(r"truth .*? (\d+) [\d.]+\s%", page.words[after:])[1] == str(row)


def test_rows_have_the_names_that_are_given(model, rows):
    names = [f"patient {k}" for k in range(len(rows[1]))]
    page = Page(render_report(model, *rows, training=True, rows=names))
    assert f"patient {int(model.oof_scores_.argmax())}" in page.words


def test_where_all_is_right_there_are_no_mistakes_to_show():
    X = np.r_[np.zeros((50, 2)), np.full((10, 2), 9.0)] + np.random.default_rng(0).normal(size=(60, 2))
    y = np.r_[np.zeros(50, int), np.ones(10, int)]
    page = Page(render_report(LogisticRegression().fit(X, y), X, y))
    assert at_chosen(page) == [10, 0, 0, 50]
    assert page.words.count("There are none.") == 2


def test_notes_and_provenance_are_shown(model, rows):
    page = Page(
        render_report(
            model, *rows, training=True, title="Tumours", notes=["id was left out"], provenance={"file": "a.csv"}
        )
    )
    assert "id was left out" in page.words
    assert "file a.csv" in page.words
    assert page.words.startswith("Skip to the summary EvenMarginClassifier, a report")
    assert "<title>Tumours</title>" in page.html


@pytest.mark.parametrize(
    ("model", "weighted"),
    [
        (EvenMarginClassifier({"fn": 50, "fp": 1}, time_budget="fast", folds=3), False),
        (EvenMarginClassifier({"recall": 0.9}, time_budget="fast"), True),
        (make_pipeline(StandardScaler(), LinearSVM(C=0.5, class_weight="balanced")), False),
        (ZAdjustedClassifier(make_pipeline(StandardScaler(), SVC(gamma=0.01)), cv=3), False),
    ],
    ids=["costs", "weights", "pipeline", "z"],
)
def test_the_snippet_builds_the_model_again(model, weighted, rows):
    X, y = rows
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y)) if weighted else None
    model.fit(X, y, **({"sample_weight": weight} if weighted else {}))
    page = Page(render_report(model, X, y, sample_weight=weight, training=weighted))
    names = {"X": X, "y": y, "sample_weight": weight}
    exec(page.texts["snippet"], names)
    np.testing.assert_allclose(names["model"].decision_function(X), model.decision_function(X), rtol=1e-9, atol=1e-9)


def test_the_snippet_moves_the_boundary_where_it_was_moved(rows):
    X, y = rows
    model = EvenMarginClassifier(time_budget="fast").fit(X, y).set_operating_point(probability=0.3)
    names = {"X": X, "y": y}
    exec(snippet(model), names)
    assert names["model"].threshold_ == model.threshold_


def test_the_snippet_says_what_it_cannot_write(rows):
    model = EvenMarginClassifier(lambda tp, fn, fp, tn: tp - fp, time_budget="fast")
    written = snippet(model)
    assert "# objective was <function" in written
    assert "model = EvenMarginClassifier(time_budget='fast')" in written
    compile(written, "snippet", "exec")


# --- the file ---


def test_the_page_is_well_formed(page):
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(page.headings, page.headings[1:], strict=False))


def test_pictures_have_words(page):
    for tag, attrs in page.tags:
        if tag == "svg":
            assert attrs.get("aria-hidden") == "true" or "aria-label" in attrs or "aria-labelledby" in attrs
            assert set(attrs.get("aria-labelledby", "").split()) <= set(page.ids)


def test_cells_have_headings_that_say_what_they_head(page):
    scopes = [attrs.get("scope") for tag, attrs in page.tags if tag == "th"]
    assert scopes
    assert set(scopes) == {"row", "col"}


def test_the_page_loads_nothing(page):
    assert not {"link", "img", "iframe", "object", "base", "form"} & {tag for tag, _ in page.tags}
    for tag, attrs in page.tags:
        assert not attrs.get("src")
        assert not attrs.get("style"), tag  # the policy would not allow it
        assert not [name for name in attrs if name.startswith("on")]
        assert attrs.get("href", "#").startswith("#")
    assert "http://" not in page.html
    assert "https://" not in page.html
    assert "url(" not in page.html


def test_the_policy_allows_this_script_and_style_only(page):
    (policy,) = [attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy
    for kind, pattern in (("script", r"<script>(.*?)</script>"), ("style", r"<style>(.*?)</style>")):
        (source,) = re.findall(pattern, page.html, re.S)
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_the_file_appears_whole_or_not_at_all(model, rows, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("earlier")
    with pytest.raises(ValueError, match="one class"):
        write_report(path, model, rows[0][:5], rows[1][:5])
    assert path.read_text() == "earlier"
    assert write_report(path, model, *rows, training=True) == path
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [found.name for found in tmp_path.iterdir()] == ["report.html"]


def test_markup_in_names_labels_and_cells_is_shown_and_not_run():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({HOSTILE: rng.normal(size=120), "</title><b>": rng.normal(size=120), "'\"&": rng.normal(size=120)})
    X["cat"] = np.where(rng.random(120) < 0.5, "<img src=x onerror=alert(1)>", "-->")
    y = np.where(X[HOSTILE] + 0.3 * rng.normal(size=120) > 1, "<i>yes</i>", "</script>no")
    model = EvenMarginClassifier(time_budget="fast").fit(X, y)
    page = Page(
        render_report(
            model, X, y, training=True, rows=[f"<u>{k}</u>" for k in range(120)], title=HOSTILE,
            notes=[HOSTILE], provenance={HOSTILE: HOSTILE},
        )
    )  # fmt: skip
    found = {tag for tag, _ in page.tags}
    assert not {"i", "u", "img", "alert"} & found
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert HOSTILE in page.words
    assert "<i>yes</i>" in page.words


def test_json_cannot_end_its_element():
    text = safe_json({"a": "</script><!--\u2028&"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--\u2028&"}


def test_a_report_of_many_rows_and_columns_is_small():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(100_000, 199)).astype(np.float32))
    X.columns = [f"{j} " + "long name " * 30 for j in range(199)]
    words = np.array(["a" * 5000, "b" * 5000], object)[rng.integers(0, 2, 100_000)]
    X["words"] = words
    y = (X.iloc[:, 0] + X.iloc[:, 1] > 3).to_numpy()
    model = make_pipeline(Numbers(), GaussianNB()).fit(X[:2000], y[:2000])
    html = render_report(model, X, y, rows=[f"row {k} " * 50 for k in range(100_000)])
    assert len(html.encode()) < 500_000
    assert "a" * 100 not in html


class Numbers(StandardScaler):
    """Without the last column, which holds words."""

    def fit(self, X, y=None):
        return super().fit(X.iloc[:, :-1], y)

    def transform(self, X):
        return super().transform(X.iloc[:, :-1])


# --- what is given ---


def small(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + 0.5 * rng.normal(size=n) > 1.2


@pytest.mark.parametrize("labels", [("no", "yes"), (False, True), (0, 1), (-1, 1), (2.0, 1.0)], ids=str)
def test_labels_of_any_kind_are_shown_as_they_are(labels):
    X, positive = small()
    y = np.array(labels)[positive.astype(int)]
    page = Page(render_report(LogisticRegression().fit(X, y), X, y))
    assert f"The model looks for “{labels[1]}”: {positive.sum()} of 120 rows" in page.words


@pytest.mark.parametrize(
    "make", [np.asarray, pd.DataFrame, csr_matrix, lambda X: X.tolist()], ids=["array", "frame", "sparse", "list"]
)
def test_tables_of_any_kind_give_the_same_figures(make):
    X, y = small()
    model = LogisticRegression().fit(X, y)
    assert Page(render_report(model, make(X), y)).data["tp"] == Page(render_report(model, X, y)).data["tp"]


def test_polars_frames_are_taken():
    X, y = small()
    frame = pl.DataFrame(X, schema=["a", "b", "c"])
    model = EvenMarginClassifier(time_budget="fast").fit(frame, y)
    assert "a" in Page(render_report(model, frame, y, training=True)).words


def test_mixed_columns_are_described():
    rng = np.random.default_rng(0)
    n = 300
    X = pd.DataFrame({
        "größe": rng.normal(size=n), "2024": rng.integers(0, 50, n), "flag": rng.random(n) < 0.5,
        "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
        "colour": pd.Categorical(rng.choice(["red", "green"], n)), "x" * 300: rng.normal(size=n),
    })  # fmt: skip
    X.loc[::7, "größe"] = np.nan
    y = np.where((X["2024"] > 42) & X["flag"], 1, 0)
    model = EvenMarginClassifier(time_budget="fast").fit(X, y)
    page = Page(render_report(model, X, y, training=True))
    assert "6: 3 numbers, 1 yes or no, 1 date, 1 category" in page.words
    assert "missing values 43, 2.4 % of all" in page.words
    assert "2024-01-01 to" in page.words
    assert "x" * 100 not in page.words


@pytest.mark.parametrize("names", [["a", "a", "b"], [1, "1", "b"]], ids=str)
def test_columns_with_the_same_name_are_refused(names):
    X, y = small()
    with pytest.raises(ValueError, match="X has more than one column named"):
        render_report(GaussianNB().fit(X, y), pd.DataFrame(X, columns=names), y)


def test_constant_scores_make_a_report():
    X, y = small()
    model = LogisticRegression().fit(X, y)
    model.coef_[:] = 0.0
    page = Page(render_report(model, X, y))
    assert at_chosen(page) in ([0, y.sum(), 0, (~y).sum()], [y.sum(), 0, (~y).sum(), 0])
    assert "no better than guessing" in page.words


def test_three_cases_make_a_report():
    X, y = small()
    keep = np.r_[np.flatnonzero(~y), np.flatnonzero(y)[:3]]
    page = Page(render_report(LogisticRegression().fit(X, y), X[keep], y[keep]))
    assert "Only 3 rows are “True”" in page.words


def test_one_column_makes_a_report():
    X, y = small()
    page = Page(render_report(GaussianNB().fit(X[:, :1], y), X[:, :1], y))
    assert "boundary" not in page.sections()


def test_a_single_case_makes_a_report_that_promises_nothing():
    X, _ = small()
    y = np.arange(120) == X[:, 0].argmax()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = EvenMarginClassifier(time_budget="fast").fit(X, y)
    page = Page(render_report(model, X, y, training=True))
    assert "cannot be told from so few rows" in page.words
    assert "ROC-AUC is unknown" in page.words
    assert "nan" not in page.words


def test_the_other_class_can_be_looked_for(model, rows):
    page = Page(render_report(model, *rows, training=True, pos_label="benign"))
    tn, fp, fn, tp = at_chosen(page)
    positive, flagged = rows[1] == "malignant", model.oof_scores_ > model.threshold_
    assert (tp, fn) == (np.count_nonzero(positive & flagged), np.count_nonzero(positive & ~flagged))
    assert (fp, tn) == (np.count_nonzero(~positive & flagged), np.count_nonzero(~positive & ~flagged))
    assert "corrected for what was chosen" not in page.words


def test_columns_of_every_dtype_are_taken():
    X, y = small()
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "integer": pd.array(rng.integers(0, 5, 120), dtype="Int64"),
        "number": X[:, 0],
        "flag": pd.array(rng.random(120) < 0.5, dtype="boolean"),
        "span": pd.to_timedelta(rng.integers(0, 9, 120), "D"),
        "moment": pd.date_range("2020", periods=120, tz="UTC"),
        "period": pd.period_range("2020", periods=120, freq="D"),
        "sparse words": [None] * 119 + ["seldom"],
    })  # fmt: skip
    frame.loc[3, ["integer", "flag"]] = pd.NA
    model = EvenMarginClassifier(time_budget="fast").fit(frame, y)
    page = Page(render_report(model, frame, y, training=True))
    assert "7: 2 numbers, 1 yes or no, 3 dates, 1 category" in page.words


def test_numbers_in_a_list_with_words_stay_numbers():
    X, y = small()
    listed = [[float(a), "up" if b > 0 else "down"] for a, b in X[:, :2]]
    model = EvenMarginClassifier(time_budget="fast").fit(listed, y)
    assert at_chosen(Page(render_report(model, listed, y))) == counts_of(model, listed, y, True)


def test_a_name_that_was_read_badly_does_not_break_the_file(tmp_path):
    X, y = small()
    path = write_report(tmp_path / "report.html", GaussianNB().fit(X, y), X, y, rows=["caf\udce9 \x00 \u2028"] * 120)
    assert "caf?" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: {"y": np.zeros(120, bool)}, "y holds one class only .False.: a report needs rows of both"),
        (lambda X, y: {"y": y[:7]}, "X has 120 rows and y has 7 labels"),
        (lambda X, y: {"y": np.arange(120) % 3}, "y holds 3 classes"),
        (lambda X, y: {"y": np.where(y, "a", "b")}, "which the model does not know"),
        (lambda X, y: {"y": np.where(y, 1.0, np.nan)}, "Some labels in y are missing"),
        (lambda X, y: {"y": np.where(y, "a", None)}, "Some labels in y are missing"),
        (lambda X, y: {"X": X[0]}, "X has shape"),
        (lambda X, y: {"X": X[:0]}, "X has shape"),
        (lambda X, y: {"model": LogisticRegression()}, "not fitted"),
        (lambda X, y: {"model": LinearRegression().fit(X, y)}, "is not a classifier"),
        (lambda X, y: {"model": LogisticRegression().fit(X, np.arange(120) % 3)}, "was fitted on 3 classes"),
        (lambda X, y: {"pos_label": "maybe"}, "pos_label='maybe' is not a class of the model"),
        (lambda X, y: {"training": True}, "training=True is for EvenMarginClassifier"),
        (lambda X, y: {"prices": {"fn": 1}}, "costs need 'fn'"),
        (lambda X, y: {"prices": {"recall": 0.9}}, "must be a dict such as"),
        (lambda X, y: {"prices": 100}, "must be a dict such as"),
        (lambda X, y: {"rows": ["a"]}, "rows has 1 names"),
        (lambda X, y: {"provenance": "a.csv"}, "provenance must be a dict"),
        (lambda X, y: {"sample_weight": np.full(120, -1.0)}, "none below 0"),
        (lambda X, y: {"sample_weight": y.astype(float)}, "Rows of both classes with a weight above 0"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(change, message):
    X, y = small()
    given = {"model": LogisticRegression().fit(X, y), "X": X, "y": y} | change(X, y)
    with pytest.raises(ValueError, match=message) as raised:
        render_report(given.pop("model"), given.pop("X"), given.pop("y"), **given)
    assert "\n" not in str(raised.value)


def test_training_rows_must_be_all_of_them(model, rows):
    with pytest.raises(ValueError, match="needs the rows that the model was fitted on, 397 of them"):
        render_report(model, rows[0][:-1], rows[1][:-1], training=True)


def test_a_report_never_imports_numba(tmp_path):
    import subprocess

    code = (
        "import sys\n"
        "import numpy as np\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "from evenmargin.report import render_report\n"
        "X = np.random.default_rng(0).normal(size=(60, 2)); y = X[:, 0] > 1\n"
        "render_report(LogisticRegression().fit(X, y), X, y)\n"
        "assert 'numba' not in sys.modules and 'matplotlib' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_report_of_a_middling_table_takes_seconds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 12))
    y = X[:, 0] + X[:, 1] * X[:, 2] > 3
    model = EvenMarginClassifier(time_budget="fast").fit(X, y)
    started = time.perf_counter()
    render_report(model, X, y, training=True)
    assert time.perf_counter() - started < 15  # 5 on a quiet machine


# --- numbers ---


def test_numbers_are_written_for_reading():
    assert [amount(x) for x in (0, 0.05, 99.96, 1234567.8, -0.04, np.nan)] == [
        "0", "0.1", "100", "1,234,568", "0", "unknown",
    ]  # fmt: skip
    assert percent(0.12345) == "12.3\u00a0%"
    assert percent(0.00001234) == "0.0012\u00a0%"
    assert significant(-1.7460) == "−1.75"
    assert significant(123456.0) == "123,456"
    cells = (True, np.nan, pd.NaT, None, 3.0, 0.1234567, np.int64(-5), pd.Timestamp("2024-03-01"))
    said = ["yes", "missing", "missing", "missing", "3", "0.1235", "−5", "2024-03-01"]
    assert [value(cell) for cell in cells] == said


def test_ticks_are_round_and_inside():
    for low, high in ((0.0, 1.0), (-3.2, 17.9), (1e-6, 3e-6), (0.0, 12345.0)):
        ticks = nice_ticks(low, high)
        assert 2 <= len(ticks) <= 7
        assert low - 1e-12 <= ticks[0]
        assert ticks[-1] <= high * (1 + 1e-12)


def test_rectangles_cover_the_cells_and_no_others():
    mask = np.random.default_rng(0).random((20, 30)) < 0.6
    covered = np.zeros_like(mask, dtype=int)
    for below, above, left, right in _rectangles(mask):
        covered[below:above, left:right] += 1
    np.testing.assert_array_equal(covered, mask)
