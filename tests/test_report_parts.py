"""The parts of the report after its summary: what the model was, what it goes by, and how to build it again."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from pages import Page, at_chosen, counts_of, tumours
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from evenmargin import EvenMarginClassifier, LinearSVM, ZAdjustedClassifier
from evenmargin.report import render_report
from evenmargin.report._boundary import _covering, _outline
from evenmargin.report._charts import nice_ticks
from evenmargin.report._evidence import gather
from evenmargin.report._influence import influence
from evenmargin.report._recipe import snippet
from evenmargin.report._words import amount


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
    curve = model.operating_curve_
    found = curve["tp"][curve["probability"] <= 0.5].iloc[-1]
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
    assert "This ended after 0.6 seconds" in found.how


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
    assert page.words.startswith("Skip to the summary Report on EvenMarginClassifier")
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


def test_the_snippet_says_which_command_made_it(model, rows):
    command = "evenmargin fit rows.csv\n--target y\x00\rimport os"
    page = Page(render_report(model, *rows, training=True, provenance={"command": command}))
    first, *_ = page.texts["snippet"].split("\n")
    assert first == "# made by: evenmargin fit rows.csv --target y? import os"
    compile(page.texts["snippet"], "snippet", "exec")


def test_without_a_command_the_snippet_starts_with_its_imports(page):
    assert page.texts["snippet"].startswith("from evenmargin import EvenMarginClassifier\n")


# --- the picture of the boundary ---


def test_the_picture_of_the_boundary_says_how_much_is_flagged(page):
    share = r"(\d+\.\d)\s%"
    said = re.search(
        rf"flagged before and after: {share}; flagged only after: {share}; not flagged: {share}\.",
        page.texts["slice-chart-desc"],
    )
    assert sum(map(float, said.groups())) == pytest.approx(100.0, abs=0.2)


def test_the_picture_of_a_plain_model_says_how_much_is_flagged(halves):
    model = make_pipeline(StandardScaler(), SVC()).fit(*halves[:2])
    words = Page(render_report(model, *halves[2:])).texts["slice-chart-desc"]
    assert re.search(r"flagged: \d+\.\d\s%; not flagged: \d+\.\d\s%\.", words)


def test_what_is_flagged_only_after_is_hatched_and_outlined(page):
    drawn = [attrs.get("class") for tag, attrs in page.tags if tag == "path"]
    assert {"region after", "hatch after", "outline"} <= set(drawn)


def test_what_is_flagged_before_and_after_is_filled_and_not_hatched(halves):
    model = ZAdjustedClassifier(GaussianNB(), method="threshold").fit(*halves[:2])
    drawn = [attrs.get("class") for tag, attrs in Page(render_report(model, *halves[2:])).tags if tag == "path"]
    assert "region both" in drawn
    assert "hatch both" not in drawn


GRID = [str(k) for k in range(31)]


def test_outlines_lie_between_cells_of_different_regions_and_nowhere_else():
    mask = np.random.default_rng(0).random((20, 30)) < 0.6
    upright = re.findall(r"M(\d+) (\d+)V(\d+)", _outline([mask], GRID, GRID))
    level = re.findall(r"M(\d+) (\d+)H(\d+)", _outline([mask], GRID, GRID))
    for j, below, above in (map(int, line) for line in upright):
        assert (mask[below:above, j - 1] != mask[below:above, j]).all()
    for left, i, right in (map(int, line) for line in level):
        assert (mask[i - 1, left:right] != mask[i, left:right]).all()
    length = sum(int(b) - int(a) for _, a, b in upright) + sum(int(b) - int(a) for a, _, b in level)
    assert length == sum(np.count_nonzero(np.diff(mask, axis=axis)) for axis in (0, 1))


def test_ticks_are_round_and_inside():
    for low, high in ((0.0, 1.0), (-3.2, 17.9), (1e-6, 3e-6), (0.0, 12345.0)):
        ticks = nice_ticks(low, high)
        assert 2 <= len(ticks) <= 7
        assert low - 1e-12 <= ticks[0]
        assert ticks[-1] <= high * (1 + 1e-12)


def test_rectangles_cover_the_cells_and_no_others():
    mask = np.random.default_rng(0).random((20, 30)) < 0.6
    covered = np.zeros_like(mask, dtype=int)
    rectangles = re.findall(r"M(\d+) (\d+)H(\d+)V(\d+)H\1z", _covering(mask, GRID, GRID))
    for left, above, right, below in (map(int, corners) for corners in rectangles):
        covered[below:above, left:right] += 1
    np.testing.assert_array_equal(covered, mask)
