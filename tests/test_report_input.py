"""What the report is given: tables and labels of any kind, and a sentence for what it cannot take."""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pages import Page, at_chosen, counts_of, small, tumours
from scipy.sparse import csr_matrix
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB

from evenmargin import EvenMarginClassifier
from evenmargin.report import render_report, write_report


@pytest.fixture(scope="module")
def rows():
    return tumours()


@pytest.fixture(scope="module")
def model(rows):
    return EvenMarginClassifier({"fn": 50, "fp": 1}).fit(*rows)


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
    assert "cannot be estimated from so few rows" in page.words
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
        (lambda X, y: {"y": y[:7]}, "X has 120 rows, but y has 7 labels"),
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
        (lambda X, y: {"sample_weight": np.full(120, -1.0)}, "Negative values in data passed to `sample_weight`"),
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
    with pytest.raises(ValueError, match="needs the 397 rows that the model was fitted on"):
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
