"""How the report looks: both themes, a phone, paper and forced colours, by contrast and as pictures."""

from __future__ import annotations

import numpy as np
import pytest
from browsing import chromium, needs_browser, picture, visits
from pages import tumours

from evenmargin import EvenMarginClassifier
from evenmargin.report import write_report

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def visit(browser):
    with visits(browser) as open_file:
        yield open_file


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    rows = tumours()
    model = EvenMarginClassifier({"fn": 50, "fp": 1}).fit(*rows)
    return write_report(tmp_path_factory.mktemp("report") / "report.html", model, *rows, training=True)


# --- sizes and colours ---


@pytest.mark.parametrize("width", [320, 360, 390, 768, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows_at_any_width(visit, report, width, scheme):
    tab = visit(report, viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert tab.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


def test_on_a_desk_the_table_of_probabilities_needs_no_scrolling(visit, report):
    tab = visit(report, viewport={"width": 1280, "height": 800})
    assert tab.locator("#calibration .scroll").evaluate("part => part.scrollWidth <= part.clientWidth")


CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const ground = (part) => {
    for (; part; part = part.parentElement) {
      const colour = rgb(getComputedStyle(part).backgroundColor);
      if (colour[3] > 0) return colour;
    }
    return [255, 255, 255, 255];
  };
  const ratio = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const poor = [];
  const walk = document.createTreeWalker(document.querySelector('body'), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const part = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || part.closest('script, style, title, desc, [hidden]')) continue;
    const style = getComputedStyle(part);
    const ink = rgb(part.ownerSVGElement ? style.fill : style.color);
    if (ratio(ink, ground(part)) < 4.5) poor.push(walk.currentNode.textContent.trim());
  }
  const lines = {
    'button, .prices input': ['borderTopColor'], '.guess, .axis, .interval, .curve, .steps, .cut': ['stroke'],
    '.outline, .stripe, .ground': ['stroke'], '.swatch': ['borderTopColor'], '.point': ['fill'],
  };
  for (const [parts, [name]] of Object.entries(lines))
    for (const part of document.querySelectorAll(parts))
      if (part.getClientRects().length && ratio(rgb(getComputedStyle(part)[name]), ground(part.parentElement)) < 3)
        poor.push(part.outerHTML.slice(0, 60));
  return poor;
}"""


@pytest.mark.parametrize("forced", ["none", "active"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_words_and_lines_have_contrast_enough(visit, report, scheme, forced):
    assert visit(report, color_scheme=scheme, forced_colors=forced).evaluate(CONTRAST) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forced_colours_leave_the_keys_their_own(visit, report, scheme):
    tab = visit(report, color_scheme=scheme, forced_colors="active")
    colour = "part => getComputedStyle(part).backgroundColor"
    assert tab.locator(".key.pos").first.evaluate(colour) == "rgb(213, 94, 0)"
    assert tab.locator(".key.neg").first.evaluate(colour) == "rgb(0, 114, 178)"
    fill = "part => getComputedStyle(part).fill"
    assert tab.locator(".point.pos").first.evaluate(fill) == "rgb(213, 94, 0)"
    assert "gradient" in tab.locator(".swatch.after").evaluate("part => getComputedStyle(part).backgroundImage")


def test_the_theme_follows_the_system(visit, report):
    tab = visit(report, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = tab.evaluate(ground)
    tab.emulate_media(color_scheme="light")
    assert tab.evaluate(ground) != dark


def test_paper_is_white_and_has_no_controls(visit, report):
    tab = visit(report, color_scheme="dark")
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for name in ("nav", "#slider", "#go-chosen"):
        assert not tab.locator(name).is_visible()
    assert tab.locator("#n-tp").is_visible()
    assert tab.pdf().startswith(b"%PDF")


# --- pictures ---

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


def luminance(pixels):
    """From 0 for black to 1 for white, of what most of the picture is."""
    return float(np.median(pixels @ [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize(("scheme", "low", "high"), [("light", 0.9, 1.0), ("dark", 0.0, 0.2)])
@pytest.mark.parametrize(("device", "viewport"), [("desk", DESK), ("phone", PHONE)])
def test_the_picture_of_the_page_is_light_or_dark_and_as_wide_as_the_screen(
    visit, report, tmp_path, scheme, low, high, device, viewport
):
    tab = visit(report, viewport=viewport, color_scheme=scheme)
    pixels = picture(tab, tmp_path, f"{device}-{scheme}", full_page=True)
    assert pixels.shape[1] == viewport["width"]
    assert pixels.shape[0] > 3 * viewport["height"]
    assert low <= luminance(pixels) <= high
    for corner in (pixels[:8, :8], pixels[-8:, -8:]):
        assert low <= luminance(corner) <= high


def test_the_picture_of_paper_is_white_whatever_the_theme(visit, report, tmp_path):
    tab = visit(report, viewport={"width": 794, "height": 1123}, color_scheme="dark")
    tab.emulate_media(media="print")
    pixels = picture(tab, tmp_path, "paper", full_page=True)
    assert pixels.shape[1] == 794
    assert luminance(pixels) == 1.0


@pytest.mark.parametrize(("scheme", "low", "high"), [("light", 0.9, 1.0), ("dark", 0.0, 0.1)])
def test_forced_colours_paint_the_page_in_them(visit, report, tmp_path, scheme, low, high):
    tab = visit(report, viewport=DESK, color_scheme=scheme, forced_colors="active")
    assert low <= luminance(picture(tab, tmp_path, f"forced-{scheme}", full_page=True)) <= high


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_slider_is_filled_as_far_as_it_was_moved(visit, report, tmp_path, scheme):
    tab = visit(report, viewport=DESK, color_scheme=scheme)
    slider, filled = tab.locator("#slider"), {}
    for key in ("Home", "End"):
        slider.press(key)
        pixels = picture(slider, tmp_path, f"slider-{scheme}-{key.lower()}")
        middle = pixels[pixels.shape[0] // 2, 40:-40]
        filled[key] = float(np.mean(middle[:, 2] - middle[:, 0] > 0.2))  # blue
    assert filled["Home"] < 0.05
    assert filled["End"] > 0.95


def test_the_regions_of_the_boundary_can_be_told_in_grey(visit, report, tmp_path):
    tab = visit(report, viewport=DESK, color_scheme="light")
    grey = picture(tab.locator("#slice-chart"), tmp_path, "boundary") @ [0.2126, 0.7152, 0.0722]
    frame = tab.locator("#slice-chart .ground").bounding_box()
    chart = tab.locator("#slice-chart").bounding_box()
    left, top = (round(frame[side] - chart[side]) + 4 for side in "xy")
    inside = grey[top : top + round(frame["height"]) - 8, left : left + round(frame["width"]) - 8]
    hatched = [row for row in inside if np.count_nonzero(np.abs(np.diff(row)) > 0.15) > 8]
    assert len(hatched) > 0.3 * len(inside)
