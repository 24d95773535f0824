"""Losses: scalar = vector = finite differences, stable at any margin, conjugate as defined."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from evenmargin.losses import LOSSES, Blinex, Hinge, Log, SquaredHinge, get_loss, slopes, values

ALL = [Hinge(), SquaredHinge(), Log(), Blinex(), Blinex(a=2.0, b=0.1), Blinex(a=-0.7, b=3.0)]
MARGINS = np.array([-40.0, -7.3, -1.0, -1e-3, 0.0, 0.4, 0.999, 1.0, 1.001, 3.0, 60.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_vector_equals_scalar(loss, dtype):
    for label in (-1.0, 1.0):
        margins = MARGINS.astype(dtype)
        tolerance = {"rtol": 4 * np.finfo(dtype).eps, "atol": np.finfo(dtype).tiny}
        assert values(loss, margins, label).dtype == dtype
        assert_allclose(values(loss, margins, label), [loss.value(float(m), label) for m in margins], **tolerance)
        assert_allclose(slopes(loss, margins, label), [loss.slope(float(m), label) for m in margins], **tolerance)


@pytest.mark.parametrize("label", [-1.0, 1.0])
@pytest.mark.parametrize("loss", ALL, ids=repr)
@pytest.mark.parametrize("margin", [m for m in MARGINS if m != 1.0])
def test_slope_is_the_derivative(loss, label, margin):
    step = 1e-6
    difference = (loss.value(margin + step, label) - loss.value(margin - step, label)) / (2 * step)
    assert_allclose(loss.slope(margin, label), difference, rtol=2e-6, atol=2e-9)


@pytest.mark.parametrize("label", [-1.0, 1.0])
@pytest.mark.parametrize("loss", [loss for loss in ALL if hasattr(loss, "curvature")], ids=repr)
@pytest.mark.parametrize("margin", MARGINS)
def test_curvature_is_the_second_derivative(loss, label, margin):
    step = 1e-6
    below, here, above = (loss.slope(margin + turn * step, label) for turn in (-1, 0, 1))
    if abs((above - here) - (here - below)) > 1e-3 * step:
        pytest.skip("the slope bends here")
    difference = (above - below) / (2 * step)
    assert_allclose(loss.curvature(margin, label), difference, rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("loss", [*ALL, Blinex(a=50.0), Blinex(a=1000.0, b=1e-3)], ids=repr)
@pytest.mark.parametrize("size", [30.0, 800.0, 1e4, 1e6])
def test_no_overflow_however_large_the_margin(loss, size):
    with np.errstate(all="raise"):
        for margin in (-size, size):
            for label in (-1.0, 1.0):
                value, slope = loss.value(margin, label), loss.slope(margin, label)
                assert math.isfinite(value)
                assert value >= 0
                assert math.isfinite(slope)
                assert slope <= 0
                assert np.isfinite(values(loss, np.array([margin]), label)).all()
                assert np.isfinite(slopes(loss, np.array([margin]), label)).all()


def test_limits_of_the_log_loss_are_exact():
    assert Log().value(-1e6, 1.0) == 1e6
    assert Log().slope(-1e6, 1.0) == -1.0
    assert Log().value(1e6, 1.0) == 0.0
    assert_allclose(Log().value(30.0, 1.0), math.exp(-30.0), rtol=1e-12)


@given(st.floats(0.05, 4), st.floats(0.01, 5), st.floats(-3, 0.99), st.sampled_from([-1.0, 1.0]))
def test_blinex_agrees_with_its_definition(a, b, margin, label):
    u = a * label * (1 - margin)
    direct = 1 - 1 / (1 + b * (math.exp(u) - u - 1))
    assert_allclose(Blinex(a, b).value(margin, label), direct, rtol=1e-9, atol=1e-12)
    assert 0 <= Blinex(a, b).value(margin, label) < 1


def test_blinex_joins_its_limit_form_without_a_step():
    loss = Blinex(a=1.0, b=0.5)
    below, above = 1 - 30.0 + 1e-9, 1 - 30.0 - 1e-9
    assert_allclose(loss.value(below, 1.0), loss.value(above, 1.0), rtol=1e-12)
    assert_allclose(loss.slope(below, 1.0), loss.slope(above, 1.0), rtol=1e-7)


@pytest.mark.parametrize(("a", "b", "ratio"), [(1, 1, 1.72), (2, 1, 1.16), (3, 1, 0.64), (2, 0.1, 4.43)])
def test_blinex_pulls_a_positive_row_harder_unless_it_saturates(a, b, ratio):
    loss = Blinex(float(a), float(b))
    assert loss.slope(0.0, 1.0) / loss.slope(0.0, -1.0) == pytest.approx(ratio, abs=0.01)


@pytest.mark.parametrize("loss", [loss for loss in ALL if hasattr(loss, "conjugate")], ids=repr)
@pytest.mark.parametrize("dual", [0.0, 0.01, 0.3, 0.5, 0.99, 1.0])
def test_conjugate_is_the_supremum(loss, dual):
    margins = np.linspace(-30, 30, 600_001)
    supremum = np.max(-dual * margins - values(loss, margins, 1.0))
    assert_allclose(loss.conjugate(dual, 1.0), supremum, atol=1e-7)


def test_a_margin_of_exactly_one_does_not_violate():
    for loss in ALL:
        assert loss.value(1.0, 1.0) == loss.value(1.0, -1.0) == 0.0 or isinstance(loss, Log)
        assert loss.slope(1.0, 1.0) == 0.0 or isinstance(loss, Log)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_found_by_name(name):
    assert type(get_loss(name)) is LOSSES[name]


def test_whole_numbers_become_floats_so_that_one_compiled_loop_serves():
    assert all(isinstance(field, float) for field in get_loss(Blinex(2, 1)))
