"""The generalized weighted loss paper: its tables, run small on its own data and on stand-ins."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from conftest import imbalanced
from sklearn.metrics import f1_score
from sklearn.svm import SVC

from evenmargin._util.threads import Workers
from evenmargin.density import SCHEMES
from evenmargin.kernels import RBF, kernel_matrix
from evenmargin.reproduce import gwl, gwl_search
from evenmargin.reproduce._base import Record, Settings
from evenmargin.reproduce._measure import stratified_folds
from evenmargin.reproduce.gwl_search import Family, Grid, KernelRows


def ran(table, settings):
    """All jobs of a table, their figures as they come back from the disk, and its report."""
    results = {job.key: Record(json.loads(json.dumps(dict(job.run()))), 0.1) for job in table.jobs(settings)}
    return results, table.report(settings, results)


@pytest.fixture(scope="module")
def sonar():
    folder = Path(os.environ.get("EVENMARGIN_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (folder / "sonar.npz").exists():
        pytest.skip("sonar.npz of the papers' data is not here: set EVENMARGIN_DATA to its folder")
    return ran(gwl.TABLES[1], Settings(quick=True, folder=folder))


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for which, columns in zip(gwl.SETS, (34, 60, 9, 24), strict=True):
        X, y = imbalanced(n=70, d=columns, ratio=0.6, seed=columns, dtype=np.float32)
        np.savez(folder / f"{which.data}.npz", X=X, y=y.astype(np.int8))
    return folder


def sheet_values(sheet):
    return {line.labels[0]: line.ours for line in sheet.lines}


# --- the paper's data ---


def test_plain_svc_on_sonar_is_within_five_thousandths_of_the_paper(sonar):
    line = sonar[1].sheets[0].lines[0]
    assert line.labels == ("sklearn.svm.SVC",)
    assert abs(line.difference) <= 0.005


def test_gwl_without_weights_on_sonar_is_scikit_learns_svc(sonar):
    found = sheet_values(sonar[1].sheets[0])
    assert found["GWL SVC"] == pytest.approx(found["sklearn.svm.SVC"], abs=1e-12)


def test_the_schemes_on_sonar_are_near_the_paper_but_for_the_seventh_which_needs_the_full_grid(sonar):
    lines = {line.labels[0]: line for line in sonar[1].sheets[0].lines}
    del lines["GWL(7)"]
    assert all(abs(line.difference) < 0.04 for line in lines.values())


def test_the_finer_grid_of_compositions_is_never_worse_than_the_coarse_one(sonar):
    found = [record.figures for key, record in sonar[0].items() if key.startswith("parts")]
    assert all(figures["f1"] >= figures["coarse"] > 0.8 for figures in found)


# --- generated data: the machinery ---


@pytest.mark.parametrize("place", [0, 2, 3])
def test_a_table_runs_on_stand_ins_and_has_every_row_of_the_paper(stand_ins, place):
    table, which = gwl.TABLES[place], gwl.SETS[place]
    _, report = ran(table, Settings(quick=True, folder=stand_ins))
    rows, alone, nested, parts = report.sheets
    assert [line.ours for line in alone.lines] == [line.ours for line in rows.lines]  # one seed
    assert [line.labels[0] for line in rows.lines] == list(which.rows)
    assert [line.paper for line in rows.lines] == [paper for paper, _ in which.rows.values()]
    assert all(0 <= line.ours <= 1 for line in rows.lines)
    assert [line.labels[0] for line in nested.lines] == ["w = 1", "GWL", "GWL less w = 1"]
    assert nested.lines[2].ours == pytest.approx(nested.lines[1].ours - nested.lines[0].ours)
    assert "optimistic" in parts.title
    assert all(line.paper == which.best[1] for line in parts.lines)


def test_several_seeds_are_averaged_and_have_a_spread(stand_ins):
    settings = Settings(quick=True, folder=stand_ins, trials=2)
    results, report = ran(gwl.TABLES[3], settings)
    for line in report.sheets[0].lines:
        each = [results[f"folds {seed}/{line.labels[0]}"].figures["f1"] for seed in (0, 1)]
        assert line.ours == pytest.approx(np.mean(each))
        assert line.spread == pytest.approx(np.std(each, ddof=1))
    assert "2 × 5 outer folds" in report.sheets[2].title


def test_a_job_gives_the_same_figures_again(stand_ins):
    jobs = list(gwl.TABLES[0].jobs(Settings(quick=True, folder=stand_ins)))
    job = next(job for job in jobs if job.key == "folds 0/GWL(8)")
    assert job.run() == job.run()


def test_draws_of_the_random_control_differ():
    X, y = imbalanced(n=40)
    rows = np.arange(30)
    draws = [KernelRows(X, y).costs(Family("random", 1.0, seed), rows) for seed in (0, 1000)]
    assert not np.allclose(*draws)


def test_listing_jobs_reads_no_data(tmp_path):
    keys = [job.key for job in gwl.TABLES[3].jobs(Settings(folder=tmp_path / "nothing here"))]
    assert len(set(keys)) == len(keys) > 0


@pytest.mark.parametrize(
    ("shift", "words"), [(0.1, "it gains"), (-0.1, "it loses"), (0.0, "no gain is shown")]
)  # fmt: skip
def test_the_sentence_on_nested_folds_follows_the_interval(shift, words):
    noise = (-0.01, 0.01, 0.005, -0.005, 0.0)
    results = {
        f"nested 0/fold {fold}": Record({"w = 1": {"f1": 0.8}, "GWL": {"f1": 0.8 + shift + noise[fold]}}, 0.1)
        for fold in range(5)
    }
    assert words in gwl._nested_finding(gwl.Run(gwl.SETS[0], Settings(quick=True), results))


# --- helpers against naive twins ---


@pytest.mark.parametrize("scheme", SCHEMES[:7])
def test_costs_are_the_papers_sums_over_the_training_rows(scheme):
    X, y = imbalanced(n=40)
    rows = np.arange(0, 40, 2)
    near = np.array([[np.exp(-0.3 * ((X[i] - X[j]) ** 2).sum()) for j in rows] for i in rows])
    s, signed = near.sum(axis=1), y[rows] * (near @ y[rows])
    twins = (s**0.5, s, s**2, s**-0.5, 1 / s, s**-2.0, np.maximum(signed, 0))
    np.testing.assert_allclose(
        KernelRows(X, y).costs(Family(scheme, 0.3), rows), twins[SCHEMES.index(scheme)], rtol=1e-9, atol=1e-9
    )


def test_costs_are_zero_where_a_scheme_leaves_no_row():
    X, y = np.array([[0.0], [0.0]]), np.array([-1, 1])
    assert KernelRows(X, y).costs(Family("same_class", 1.0), np.arange(2)).tolist() == [0.0, 0.0]


def test_machines_are_those_of_svc_with_sample_weights_and_leave_out_rows_of_weight_zero():
    X, y = imbalanced(n=80, ratio=0.6)
    rows, cost = np.arange(60), np.random.default_rng(0).uniform(0.1, 3.0, 60)
    cost[::7] = 0.0
    with Workers(1) as pool:
        scores, beta = gwl_search.train(kernel_matrix(RBF(0.2), X, X), y, [(rows, cost)], [0.5, 5.0], pool)
    kept = cost > 0
    for c, C in enumerate((0.5, 5.0)):
        svc = SVC(C=C, gamma=0.2, tol=1e-8).fit(X[:60][kept], y[:60][kept], sample_weight=cost[kept])
        np.testing.assert_allclose(scores[0, c], svc.decision_function(X), atol=1e-5)
    assert not beta[0][:, ~kept].any()


def test_a_task_without_a_class_and_a_price_that_is_too_large_have_no_machine():
    X, y = imbalanced(n=40, ratio=0.6)
    rows = np.arange(40)
    lost = np.where(y > 0, 0.0, 1.0)
    with Workers(1) as pool:
        tasks = [(rows, lost), (rows, np.ones(40)), (rows, np.zeros(40))]
        scores, _ = gwl_search.train(kernel_matrix(RBF(0.2), X, X), y, tasks, [1.0, 10 * gwl_search.LARGEST], pool)
    assert np.isnan(scores).all(axis=-1).tolist() == [[True, True], [False, True], [True, True]]


def test_a_table_of_tasks_that_cannot_be_trained_is_all_nan():
    X, y = imbalanced(n=20, ratio=0.6)
    with Workers(1) as pool:
        scores, _ = gwl_search.train(kernel_matrix(RBF(0.2), X, X), y, [(np.arange(20), np.zeros(20))], [1.0], pool)
    assert np.isnan(scores).all()


def test_f1_is_scikit_learns_and_nan_stays():
    rng = np.random.default_rng(0)
    scores, positive = rng.normal(size=(5, 30)), rng.random(30) < 0.4
    twins = [f1_score(positive, row > 0) for row in scores]
    np.testing.assert_allclose(gwl_search.f1(scores, positive), twins)
    scores[2] = np.nan
    assert np.isnan(gwl_search.f1(scores, positive)).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("scheme", [None, "inverse", "same_class"])
def test_the_search_finds_the_best_candidate_of_all_fits_one_by_one(scheme):
    X, y = imbalanced(n=90, ratio=0.6)
    rows_, folds, grid = KernelRows(X, y), stratified_folds(y, 5, 0), Grid((0.05, 0.5), (0.5, 5.0, 50.0), (0.1, 1.0))
    with Workers(1) as pool:
        best = gwl_search.search(rows_, folds, grid, gwl_search.families_of([scheme], grid.gamma_S), pool)
    means = []
    for gamma_K in grid.gamma_K:
        for gamma_S in grid.gamma_S if scheme else (0.0,):
            for C in grid.C:
                each = []
                for rows, test in folds:
                    cost = rows_.costs(Family(scheme, gamma_S), rows)
                    own = rows[cost > 0]
                    svc = SVC(C=C, gamma=gamma_K, tol=1e-8).fit(X[own], y[own], sample_weight=cost[cost > 0])
                    each.append(f1_score(y[test], svc.predict(X[test])))
                means.append((np.mean(each), gamma_K, C, gamma_S))
    assert best["f1"] == pytest.approx(max(means)[0], abs=1e-9)
    assert (best["gamma_K"], best["C"], best["gamma_S"]) in [
        mean[1:] for mean in means if mean[0] > max(means)[0] - 1e-9
    ]


def test_thresholds_and_z_of_a_composition_are_those_of_its_coefficients():
    X, y = imbalanced(n=60, ratio=0.6)
    K, splits = kernel_matrix(RBF(0.3), X, X), stratified_folds(y, 5, 1)
    grid = Grid((1.0,), (1.0,), (), (1.0,), (0.0, 0.2), (1.5,))
    tasks = [(rows, np.ones(rows.size)) for rows, _ in splits]
    with Workers(1) as pool:
        found = gwl_search.mean_f1(K, y, splits, tasks, grid, pool)[0, 0]
        chosen = gwl_search.search(KernelRows(X, y, lambda gamma: RBF(0.3 * gamma)), splits, grid, [Family(None)], pool)
    twins = []
    for rows, test in splits:
        svc = SVC(C=1.0, gamma=0.3, tol=1e-8).fit(X[rows], y[rows])
        score, coef = svc.decision_function(X[test]), np.zeros(rows.size)
        coef[svc.support_] = svc.dual_coef_[0]
        up = K[np.ix_(test, rows)] @ np.maximum(coef, 0)
        twins.append([f1_score(y[test] > 0, moved > 0) for moved in (score, score - 0.2, score + 0.5 * up)])
    np.testing.assert_allclose(found, np.mean(twins, axis=0), atol=1e-9)
    assert (chosen["cut"], chosen["z"]) == [(0.0, None), (0.2, None), (None, 1.5)][int(np.argmax(found))]


@pytest.mark.parametrize("change", [{"scheme": None, "gamma_S": 0.0}, {"cut": None, "z": 1.25}, {}])
def test_the_grid_of_one_composition_has_one_candidate(change):
    X, y = imbalanced(n=60, ratio=0.6)
    best = {"gamma_K": 1.0, "C": 1.0, "gamma_S": 1.0, "class_cost": 2.0, "scheme": "inverse", "cut": 0.1, "z": None}
    rows = KernelRows(X, y, RBF, 0.1, 0.1, "mean")
    with Workers(1) as pool:
        found = gwl_search.search(rows, stratified_folds(y, 5, 0), *gwl._single_grid({**best, **change}), pool)
    assert found["candidates"] == 1
    assert {name: found[name] for name in best} == {**best, **change}


def test_a_search_in_which_nothing_can_be_trained_has_an_f1_of_zero():
    X, y = np.zeros((20, 2)), np.repeat([-1, 1], 10)  # all rows at one place: a scheme by class leaves none
    with Workers(1) as pool:
        families, grid = [Family("same_class", 1.0)], Grid((1.0,), (1.0,), (1.0,))
        best = gwl_search.search(KernelRows(X, y), stratified_folds(y, 5, 0), grid, families, pool)
    assert best["f1"] == 0.0


def test_standardised_rows_use_the_mean_and_deviation_of_the_given_ones_alone():
    X = np.array([[0.0, 5.0], [2.0, 5.0], [100.0, 6.0]])
    found = gwl_search.standardised(X, np.array([0, 1]))
    np.testing.assert_allclose(found, [[-1, 0], [1, 0], [99, 1]])


def test_the_best_rows_of_the_paper_are_those_it_prints():
    assert [which.best for which in gwl.SETS] == [
        ("GWL(6)", 0.977538), ("GWL(6)", 0.916671), ("GWL(3)", 0.967909), ("GWL(6)", 0.652786)
    ]  # fmt: skip
