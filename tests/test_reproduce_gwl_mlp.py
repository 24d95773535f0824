"""GWL Tables V and VI: networks on white wine, or on something of its shape."""

from __future__ import annotations

import numpy as np
import pytest

from evenmargin.density import SCHEMES
from evenmargin.reproduce import gwl_mlp
from evenmargin.reproduce._base import Record, Settings

TABLE_V, TABLE_VI = gwl_mlp.TABLES


def wines(folder, n=240):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 11)).astype(np.float32)
    quality = np.clip(np.rint(6 + X[:, 0] + 0.3 * rng.normal(size=n)), 3, 9)
    np.savez(folder / "wine_quality_white.npz", X=X, y=np.where(quality <= 4, 1, -1), quality=quality)
    return Settings(quick=True, trials=3, folder=folder)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    pytest.importorskip("torch", reason="networks are trained by torch")
    settings = wines(tmp_path_factory.mktemp("wine"))
    results = {job.key: Record(dict(job.run()), 0.1) for job in TABLE_V.jobs(settings)}
    return settings, results, TABLE_V.report(settings, results)


def test_every_error_of_the_paper_is_a_multiple_of_one_over_792():
    errors = [error for net in gwl_mlp.NETS.values() for row in net["errors"] for error in (row[0], row[2])]
    assert len(errors) == 24
    for error in errors:
        assert error * 792 == pytest.approx(round(error * 792), abs=1e-4)
    assert int(gwl_mlp.TEST * 3961) == 792


def test_a_report_has_the_six_schemes_and_two_controls(found):
    _, _, report = found
    values, by_test, by_held_out = report.sheets
    assert len(values.lines) == 6 * 2 + 2
    assert (len(by_test.lines), len(by_held_out.lines)) == (8, 7)
    assert all(np.isfinite(line.ours) and line.ours > 0 for line in values.lines)
    assert values.lines[1].paper == 0.57575756
    assert by_test.lines[0].paper == pytest.approx(0.57575756 - 0.5871212)
    assert by_held_out.lines[0].paper is None  # the paper does not say how it chose, and its table looks like the other


def test_choosing_on_test_rows_is_never_worse_than_choosing_on_others(found):
    _, results, _ = found
    for kind in (*SCHEMES[:6], gwl_mlp.RANDOM, gwl_mlp.RESTARTS):
        errors = gwl_mlp._errors(results, kind)
        assert (gwl_mlp._chosen(errors, 0) <= gwl_mlp._chosen(errors, 1)).all()
        assert (gwl_mlp._chosen(errors, 0) == errors[:, :, 0].min(axis=1)).all()


def test_the_parts_of_a_trial_are_those_of_all_its_networks_and_have_no_row_in_common(found):
    settings, _, _ = found
    parts = gwl_mlp._parts(settings, 1)
    assert [len(part) for part in (parts.y, parts.y_aside, parts.y_test)] == [153, 39, 48]
    rows = np.vstack([parts.X, parts.X_aside, parts.X_test])
    assert len(np.unique(rows, axis=0)) == 240


def test_the_first_of_several_starts_is_the_standard_network(found):
    settings, results, _ = found
    for trial in range(settings.trials):
        plain = results[f"{gwl_mlp.PLAIN}/trial {trial + 1}"].figures["errors"]
        starts = results[f"{gwl_mlp.RESTARTS}/trial {trial + 1}"].figures["errors"]
        assert starts[0] == plain[0]
        assert starts[1] != plain[0]


def test_schemes_and_draws_give_different_networks(found):
    _, results, _ = found
    first = [tuple(results[f"{kind}/trial 1"].figures["errors"][0]) for kind in (*SCHEMES[:6], gwl_mlp.PLAIN)]
    assert len(set(first)) == len(first)
    draws = results[f"{gwl_mlp.RANDOM}/trial 1"].figures["errors"]
    assert draws[0] != draws[1]


def test_errors_are_of_rounded_grades_on_rows_held_out(found):
    settings, results, _ = found
    rows = len(gwl_mlp._parts(settings, 0).y_test)
    rounded, aside = results[f"{gwl_mlp.PLAIN}/trial 1"].figures["errors"][0]
    assert rounded * rows == pytest.approx(round(rounded * rows))
    assert aside * 39 != pytest.approx(round(aside * 39))


def test_the_same_seed_gives_the_same_figures(found):
    settings, results, _ = found
    job = next(iter(TABLE_V.jobs(settings)))
    assert dict(job.run()) == results[job.key].figures


def test_findings_count_what_the_sheets_say(found):
    _, _, report = found
    verdicts = [line.note for line in report.sheets[2].lines[:6]]
    assert f"{verdicts.count('lower')} of the six schemes" in report.findings[0]
    assert f"for {verdicts.count('no difference shown')} the interval holds 0" in report.findings[0]


def test_the_second_table_has_the_second_network():
    assert gwl_mlp.NETS["6"]["layers"] == [100, 80, 40, 1]
    assert "100-80-40-1" in TABLE_VI.title
    assert TABLE_VI.needs == ("torch",)
