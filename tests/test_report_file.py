"""The report as a file: well formed, small, and nothing in it runs but its own script."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import numpy as np
import pandas as pd
import pytest
from pages import Page, tumours
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evenmargin import EvenMarginClassifier
from evenmargin.report import render_report, write_report
from evenmargin.report._page import safe_json

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def rows():
    return tumours()


@pytest.fixture(scope="module")
def model(rows):
    return EvenMarginClassifier({"fn": 50, "fp": 1}).fit(*rows)


@pytest.fixture(scope="module")
def page(model, rows):
    return Page(render_report(model, *rows, training=True))


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
    assert "url(" not in page.html.replace("url(#", "")  # patterns of the page itself


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
