"""Operating points: objectives, thresholds, calibration, and what to expect."""

from __future__ import annotations

from .operating import (
    Calibrator,
    Choice,
    Floor,
    MetricInterval,
    Objective,
    choose_threshold,
    expected_cost,
    get_objective,
    metric_interval,
    operating_curve,
    wilson,
)

__all__ = [
    "Calibrator",
    "Choice",
    "Floor",
    "MetricInterval",
    "Objective",
    "choose_threshold",
    "expected_cost",
    "get_objective",
    "metric_interval",
    "operating_curve",
    "wilson",
]
