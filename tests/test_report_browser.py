"""The report in a real browser: its script's figures are Python's, and it asks for nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from browsing import chromium, needs_browser, playwright, visits
from pages import COUNTS, tumours

from evenmargin import EvenMarginClassifier, LinearSVM
from evenmargin.operating import operating_curve
from evenmargin.report import write_report
from evenmargin.report._words import amount, percent, significant

pytestmark = needs_browser

HOSTILE = "<img src=x onerror='window.__pwned=1'><script>window.__pwned=1;alert(1)</script>"


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def visit(browser):
    with visits(browser) as open_file:
        yield open_file


@pytest.fixture(scope="module")
def rows():
    return tumours()


@pytest.fixture(scope="module")
def model(rows):
    return EvenMarginClassifier({"fn": 50, "fp": 1}).fit(*rows)


@pytest.fixture(scope="module")
def report(model, rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return write_report(folder / "report.html", model, *rows, training=True)


@pytest.fixture(scope="module")
def counts(model, rows):
    """What a threshold does, counted here and not by the report."""
    positive = rows[1] == "malignant"

    def at(threshold):
        flagged = model.oof_scores_ > threshold
        sides = (flagged & positive, ~flagged & positive, flagged & ~positive, ~flagged & ~positive)
        return tuple(int(np.count_nonzero(side)) for side in sides)

    return at


def shown(tab):
    names = ["where", "cost", "cost-nobody", "cost-everybody", "k-flagged"]
    names += [f"{kind}-{name}" for name in COUNTS for kind in "nk"]
    names += [f"r-{name}" for name in ("recall", "precision", "specificity", "gmean")]
    return {name: tab.locator(f"#{name}").text_content() for name in names}


def expected(tp, fn, fp, tn, probability, missed=50.0, alarm=1.0, unit=""):
    total = tp + fn + fp + tn
    recall, specificity = tp / (tp + fn), tn / (tn + fp)
    said = {"where": percent(probability), "k-flagged": amount(1000 * (tp + fp) / total)}
    for name, count in zip(COUNTS, (tp, fn, fp, tn), strict=True):
        said |= {f"n-{name}": amount(count), f"k-{name}": amount(1000 * count / total)}
    said |= {
        "r-recall": percent(recall), "r-specificity": percent(specificity),
        "r-precision": percent(tp / (tp + fp) if tp + fp else np.nan),
        "r-gmean": percent((recall * specificity) ** 0.5),
        "cost": amount(1000 * (missed * fn + alarm * fp) / total) + unit,
        "cost-nobody": amount(1000 * missed * (tp + fn) / total) + unit,
        "cost-everybody": amount(1000 * alarm * (fp + tn) / total) + unit,
    }  # fmt: skip
    return said


def where(tab):
    """The threshold and the probability that the slider stands at."""
    points = tab.evaluate("JSON.parse(document.getElementById('points').textContent)")
    place = int(tab.locator("#slider").input_value())
    return points["threshold"][place], points["probability"] and points["probability"][place]


# --- the slider ---


def test_the_figures_at_first_are_those_of_the_chosen_threshold(visit, report, model, counts):
    tab = visit(report)
    assert where(tab)[0] == model.threshold_
    assert shown(tab) == expected(*counts(model.threshold_), model.probability_threshold_)


@pytest.mark.parametrize("place", [0, 1, 57, 200, 333, -2, -1])
def test_wherever_the_slider_stands_the_figures_are_pythons(visit, report, model, counts, place):
    tab = visit(report)
    last = int(tab.locator("#slider").get_attribute("max"))
    tab.locator("#slider").evaluate(
        "(slider, place) => { slider.value = place; slider.dispatchEvent(new Event('input')); }", place % (last + 1)
    )
    threshold, _ = where(tab)
    curve = model.operating_curve_
    assert shown(tab) == expected(*counts(threshold), curve["probability"][curve["threshold"] == threshold].item())


@pytest.mark.parametrize(
    ("keys", "step"), [(["ArrowRight"] * 3, 3), (["ArrowLeft"], -1), (["Home"], None), (["End"], None)], ids=str
)
def test_keys_move_the_slider(visit, report, model, counts, keys, step):
    tab = visit(report)
    slider = tab.locator("#slider")
    before, last = int(slider.input_value()), int(slider.get_attribute("max"))
    slider.focus()
    for key in keys:
        tab.keyboard.press(key)
    assert int(slider.input_value()) == (before + step if step else {"Home": 0, "End": last}[keys[0]])
    threshold, probability = where(tab)
    assert shown(tab) == expected(*counts(threshold), probability)


def test_the_mouse_moves_the_slider(visit, report, counts):
    tab = visit(report)
    slider = tab.locator("#slider")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    tab.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"])
    threshold, probability = where(tab)
    assert 0.25 < int(slider.input_value()) / int(slider.get_attribute("max")) < 0.35
    assert shown(tab) == expected(*counts(threshold), probability)


def test_the_marks_on_the_curves_follow_the_slider(visit, report, counts):
    tab = visit(report)
    tab.locator("#slider").focus()
    for _ in range(20):
        tab.keyboard.press("ArrowLeft")
    tp, fn, fp, tn = counts(where(tab)[0])
    for chart, x, y in (("roc", fp / (fp + tn), tp / (tp + fn)), ("pr", tp / (tp + fn), tp / (tp + fp))):
        frame = tab.locator(f"#{chart}-chart").evaluate("svg => ({...svg.dataset})")
        frame = {key: float(text) for key, text in frame.items()}
        mark = tab.locator(f"#{chart}-chart-now")
        across = frame["left"] + x * (frame["right"] - frame["left"])
        up = frame["floor"] + y * (frame["roof"] - frame["floor"])
        assert float(mark.get_attribute("cx")) == pytest.approx(across, abs=0.01)
        assert float(mark.get_attribute("cy")) == pytest.approx(up, abs=0.01)


def test_what_changes_is_said_aloud_once_the_slider_rests(visit, report, counts):
    tab = visit(report)
    tab.locator("#slider").focus()
    tab.keyboard.press("Home")
    tp, fn, fp, _ = counts(where(tab)[0])
    live = tab.locator("#live")
    playwright.expect(live).to_contain_text(f"{tp} found, {fn} missed, {fp} false alarms")
    assert live.get_attribute("aria-live") == "polite"
    assert tab.locator("#slider").get_attribute("aria-valuetext") == tab.locator("#where").text_content()


# --- prices and buttons ---


def test_prices_can_be_typed_with_a_currency(visit, report, model, counts):
    tab = visit(report)
    tab.fill("#price-fn", "1234.5")
    tab.fill("#price-fp", "0.75")
    tab.fill("#currency", "<b>€")
    assert shown(tab) == expected(
        *counts(model.threshold_), model.probability_threshold_, missed=1234.5, alarm=0.75, unit=" <b>€"
    )


@pytest.mark.parametrize("prices", [(1234567.0, 0.025), (1e30, 1.0), (123456.789, 1e-9), (1e21, 1e15)], ids=str)
def test_costs_at_any_price_are_pythons(visit, model, rows, counts, tmp_path, prices):
    given = dict(zip(("fn", "fp"), prices, strict=True))
    tab = visit(write_report(tmp_path / "priced.html", model, *rows, training=True, prices=given))
    assert shown(tab) == expected(*counts(model.threshold_), model.probability_threshold_, *prices)


@pytest.mark.parametrize("typed", ["", "-3"])
def test_a_price_that_is_none_makes_the_cost_unknown(visit, report, typed):
    tab = visit(report)
    tab.fill("#price-fn", typed)
    assert tab.locator("#cost").text_content() == "unknown"


@pytest.mark.parametrize(("missed", "alarm"), [(50, 1), (1, 1), (3, 7), (1000, 1), (1, 1000)])
def test_the_cheapest_threshold_is_the_cheapest_of_the_operating_curve(
    visit, report, model, rows, counts, missed, alarm
):
    tab = visit(report)
    tab.fill("#price-fn", str(missed))
    tab.fill("#price-fp", str(alarm))
    tab.click("#go-cheapest")
    curve = operating_curve(model.oof_scores_, rows[1] == "malignant")
    costs = missed * curve["fn"] + alarm * curve["fp"]
    best = curve.iloc[int(costs.argmin())]
    assert counts(where(tab)[0]) == tuple(best[list(COUNTS)])
    assert tab.locator("#cost").text_content() == amount(1000 * costs.min() / len(rows[1]))


def test_the_button_for_recall_takes_the_highest_threshold_that_finds_enough(visit, report, model, rows, counts):
    tab = visit(report)
    tab.click("#go-recall")
    curve = operating_curve(model.oof_scores_, rows[1] == "malignant")
    best = curve[curve["recall"] >= 0.95].iloc[-1]
    assert counts(where(tab)[0]) == tuple(best[list(COUNTS)])


def test_buttons_go_to_the_unadjusted_threshold_and_back(visit, report, model):
    tab = visit(report)
    tab.click("#go-before")
    assert where(tab)[1] == pytest.approx(0.5)
    tab.click("#go-chosen")
    assert where(tab)[0] == model.threshold_


def test_scores_and_weights_are_shown_where_there_are_no_probabilities(visit, rows, tmp_path):
    X, y = (rows[0] - rows[0].mean()) / rows[0].std(), rows[1]
    weight = np.random.default_rng(0).uniform(0.1, 3.0, len(y))
    model = LinearSVM(class_weight="balanced").fit(X, y)
    tab = visit(write_report(tmp_path / "linear.html", model, X, y, sample_weight=weight))
    tab.locator("#slider").focus()
    for _ in range(7):
        tab.keyboard.press("ArrowRight")
    threshold, probability = where(tab)
    flagged, positive = model.decision_function(X) > threshold, y == "malignant"
    assert probability is None
    assert tab.locator("#where").text_content() == significant(threshold)
    assert tab.locator("#n-tp").text_content() == amount(weight[flagged & positive].sum())
    assert tab.locator("#n-fp").text_content() == amount(weight[flagged & ~positive].sum())
    assert not tab.locator("#go-before").is_visible()


# --- the page ---


def test_folded_parts_are_unfolded_for_paper(visit, report):
    tab = visit(report)
    folded = "[...document.querySelectorAll('details')].map((part) => part.open)"
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert all(tab.evaluate(folded))
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not any(tab.evaluate(folded))


def test_tab_reaches_every_control_in_order(visit, report):
    tab = visit(report)
    reached = []
    for _ in range(60):
        tab.keyboard.press("Tab")
        reached.append(tab.evaluate("document.activeElement.id"))
        ring = tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert reached[-1] == "" or ring == "solid"
    controls = [
        "slider", "go-chosen", "go-before", "go-cheapest", "go-recall", "price-fn", "price-fp", "currency",
    ]  # fmt: skip
    assert [name for name in reached if name in controls][: len(controls)] == controls


def test_controls_have_names(visit, report):
    tab = visit(report)
    playwright.expect(tab.locator("#slider")).to_have_accessible_name("Flag above a probability of")
    playwright.expect(tab.locator("#price-fn")).to_have_accessible_name("A missed case costs")
    playwright.expect(tab.locator("#currency")).to_have_accessible_name("Currency")


def test_without_a_script_the_chosen_figures_are_there(visit, report, model, counts):
    tab = visit(report, java_script_enabled=False)
    tp, *_ = counts(model.threshold_)
    assert tab.locator("#n-tp").text_content() == amount(tp)
    assert tab.locator("#static").is_visible()
    assert not tab.locator("#slider").is_visible()


def test_a_hostile_table_runs_nothing(visit, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({HOSTILE: rng.normal(size=150), "</script>" + HOSTILE: rng.normal(size=150)})
    X["words"] = np.where(rng.random(150) < 0.5, HOSTILE, "</style>")
    y = np.where(X[HOSTILE] + 0.3 * rng.normal(size=150) > 1, HOSTILE, "no")
    model = EvenMarginClassifier(time_budget="fast").fit(X, y)
    path = write_report(
        tmp_path / "hostile.html", model, X, y, training=True, title=HOSTILE, notes=[HOSTILE],
        rows=[HOSTILE] * 150, provenance={HOSTILE: HOSTILE},
    )  # fmt: skip
    tab = visit(path, viewport={"width": 360, "height": 800})
    tab.click("#go-cheapest")
    assert tab.evaluate("window.__pwned") is None
    assert tab.evaluate("document.querySelectorAll('img').length") == 0
    assert tab.title() == HOSTILE
    assert tab.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


def test_the_policy_keeps_the_page_from_the_network(browser, report):
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(report.as_uri())
    said = tab.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => error.message)")
    assert said == "Failed to fetch"
    refused = tab.evaluate(
        """() => new Promise((done) => {
             document.addEventListener('securitypolicyviolation', (event) => done(event.violatedDirective));
             const picture = new Image(); picture.src = 'http://127.0.0.1:9/a.png'; document.body.append(picture);
           })"""
    )
    assert refused == "img-src"
    context.close()
