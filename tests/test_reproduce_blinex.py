"""What the tables of the Blinex loss promise: a fair search, wrong labels where they belong, an honest count."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from conftest import imbalanced
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from evenmargin import KernelSVM, LinearSVM
from evenmargin.losses import Blinex
from evenmargin.reproduce import blinex
from evenmargin.reproduce._base import Record, Settings
from evenmargin.reproduce.blinex import Condition

NOISE_TABLE, IMBALANCE_TABLE = blinex.TABLES
FOLDER = Path(os.environ.get("EVENMARGIN_DATA", Path(__file__).parents[2] / "shared" / "data"))  # as in conftest


def run_all(table, settings):
    """Every job of a table, its figures through JSON as the runner keeps them."""
    return {job.key: Record(json.loads(json.dumps(job.run())), 0.1) for job in table.jobs(settings)}


def write_standins(folder):
    """Small sets under the names of the quick tables, with their arrays."""
    for name, columns in (("ecoli_imu", 7), ("ionosphere", 34)):
        X, y = imbalanced(n=150, d=columns, ratio=0.75, seed=columns)
        np.savez(folder / f"{name}.npz", X=X.astype(np.float32), y=y.astype(np.int8))
    X, y = imbalanced(n=400, d=24, ratio=0.75, seed=2)
    np.savez(folder / "euthyroid.npz", X=X.astype(np.float32), y=y.astype(np.int8))
    X, y = imbalanced(n=400, d=19, ratio=0.75, seed=3)
    label = np.where(y > 0, 7, 1).astype(np.int8)
    np.savez(
        folder / "segmentation.npz", X=X[:100].astype(np.float32), y=y[:100].astype(np.int8), label=label[:100],
        X_test=X[100:].astype(np.float32), y_test=y[100:].astype(np.int8), label_test=label[100:],
    )  # fmt: skip


@pytest.fixture(scope="module")
def standin(tmp_path_factory):
    """Settings and results of the quick noise table on generated sets."""
    folder = tmp_path_factory.mktemp("sets")
    write_standins(folder)
    settings = Settings(quick=True, folder=folder)
    return settings, run_all(NOISE_TABLE, settings)


def made_up(settings, table, gain):
    """Results in which Blinex is above the others by `gain`, give or take a thousandth."""
    wobble = 0.001 * (-1.0) ** np.arange(10)
    figures = {}
    for machine in blinex.MACHINES:
        for loss in blinex.LOSSES:
            for figure in blinex.FIGURES:
                own = 0.7 + (gain + wobble if loss == "Blinex" else np.zeros(10))
                figures[f"{machine}/{loss}/{figure}"] = own.tolist()
    return {job.key: Record(figures, 1.0) for job in table.jobs(settings)}


# --- the tables ---


def test_the_quick_table_runs_on_the_papers_data(papers_data):
    for name in blinex.WRONG_LABELS.quick_sets:
        papers_data(name)
    settings = Settings(quick=True, folder=FOLDER)
    results = run_all(NOISE_TABLE, settings)
    clean = results["ecoli_imu/any label, 0 %/2 trials"].figures
    assert all(np.mean(clean[f"{machine}/{loss}/auc"]) > 0.85 for machine in blinex.MACHINES
               for loss in blinex.LOSSES)  # fmt: skip
    report = NOISE_TABLE.report(settings, results)
    assert report.findings[0].startswith("Of 48 differences")


def test_the_tables_run_on_generated_data(standin):
    settings, results = standin
    assert len(NOISE_TABLE.report(settings, results).sheets) == 4
    results = run_all(IMBALANCE_TABLE, settings)
    assert len(IMBALANCE_TABLE.report(settings, results).sheets) == 4


def test_the_same_seed_gives_the_same_figures(standin):
    settings, results = standin
    job = list(NOISE_TABLE.jobs(settings))[1]
    assert json.loads(json.dumps(job.run())) == results[job.key].figures


def test_the_drawing_has_a_line_for_each_loss(standin):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    NOISE_TABLE.draw(*standin, figure)
    assert len(figure.axes) == 8
    assert all([line.get_label() for line in ax.lines] == list(blinex.LOSSES) for ax in figure.axes)


def test_the_drawing_of_the_ratios_shows_each_of_them():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    settings = Settings()
    IMBALANCE_TABLE.draw(settings, made_up(settings, IMBALANCE_TABLE, 0.0), figure)
    assert figure.axes[0].lines[0].get_xdata().tolist() == list(blinex.RATIOS)
    assert [ax.get_title() for ax in figure.axes] == ["linear", "kernel", "", ""]
    assert figure.axes[-1].get_xlabel() == "common rows to a rare one"


def test_a_full_run_has_at_least_ten_splits_eight_sets_and_all_shares():
    jobs = list(NOISE_TABLE.jobs(Settings()))
    assert len(jobs) == len({job.key for job in jobs}) == 8 * (5 + 3)
    assert Settings().repeats(2 * blinex.OUTER, 2) == 10


# --- the report ---


@pytest.mark.parametrize(("gain", "better", "worse"), [(0.05, 512, 0), (-0.05, 0, 512), (0.0, 0, 0)])
def test_the_report_counts_what_the_intervals_exclude(gain, better, worse):
    settings = Settings()
    report = NOISE_TABLE.report(settings, made_up(settings, NOISE_TABLE, gain))
    assert report.findings[0].startswith("Of 512 differences")
    assert f"{better} are above 0 and {worse} below" in report.findings[0]


def test_the_interval_of_a_set_takes_overlapping_training_parts_into_account():
    settings = Settings()
    results = made_up(settings, NOISE_TABLE, 0.05)
    differences = blinex.ComparisonRun(blinex.WRONG_LABELS, settings, results).differences()
    spread = np.std(0.001 * (-1.0) ** np.arange(10), ddof=1)
    assert differences[0].spread == pytest.approx(2.2622 * np.sqrt(1 / 10 + 1 / 4) * spread, rel=1e-4)


def test_the_means_over_the_sets_are_given_for_each_level():
    settings = Settings()
    sheet = NOISE_TABLE.report(settings, made_up(settings, NOISE_TABLE, 0.05)).sheets[1]
    levels = [line for line in sheet.lines if line.labels[:2] == ("linear", "G-mean") and line.labels[3] == "hinge"]
    assert len(levels) == 8
    assert all(line.ours == pytest.approx(0.05) and line.note == "8 better, 0 worse of 8" for line in levels)


# --- the data ---


def test_wrong_labels_of_any_row_are_as_many_as_said():
    y = np.repeat([1, -1], [20, 180])
    noisy = blinex.with_noise(y, Condition("any label", 0.2), np.random.default_rng(0))
    assert np.count_nonzero(noisy != y) == 40


def test_hidden_rows_are_rare_ones_only():
    y = np.repeat([1, -1], [20, 180])
    noisy = blinex.with_noise(y, Condition("rare rows hidden", 0.3), np.random.default_rng(0))
    assert np.count_nonzero(noisy[:20] == -1) == 6
    assert (noisy[20:] == -1).all()


@pytest.mark.parametrize(("ratio", "rare"), [(10, 20), (30, 7), (100, 3)])
def test_a_ratio_leaves_so_many_rare_rows(ratio, rare):
    y = np.repeat([1, -1], [90, 300])
    chosen = y[blinex.with_ratio(y, ratio, 200, np.random.default_rng(0))]
    assert (np.count_nonzero(chosen > 0), np.count_nonzero(chosen < 0)) == (rare, 200)


def test_test_labels_stay_clean_and_test_rows_apart():
    X, y = imbalanced(n=200)
    X[:, 0] = np.arange(200)
    clean = blinex._split(X, y, Condition("any label", 0.0), 3, seed=0)
    noisy = blinex._split(X, y, Condition("any label", 0.3), 3, seed=0)
    assert np.array_equal(clean.X, noisy.X)
    assert np.array_equal(clean.y_test, noisy.y_test)
    assert np.count_nonzero(clean.y != noisy.y) == 48
    assert not set(clean.X[:, 0]) & set(clean.X_test[:, 0])


def test_columns_are_standardised_on_the_training_part_and_constant_ones_dropped():
    X, y = imbalanced(n=200)
    X[:, 2] = 7.0
    split = blinex._split(X, y, Condition("any label", 0.0), 0, seed=0)
    assert split.X.shape[1] == split.X_test.shape[1] == 5
    assert np.allclose(split.X.mean(axis=0), 0)
    assert np.allclose(split.X.std(axis=0), 1)


def test_five_trials_test_every_row_once():
    X, y = np.eye(100), np.repeat([1, -1], [20, 80])  # a column for each row, constant on the training part of others
    tested = [blinex._split(X, y, Condition("any label", 0.0), trial, seed=0) for trial in range(5)]
    assert [len(split.y_test) for split in tested] == [20] * 5
    assert sum(split.X.shape[1] for split in tested) == 400  # the columns of the test rows are dropped


# --- the machines ---


def test_every_loss_has_as_many_candidates_over_the_same_prices():
    own = [blinex.candidates(loss) for loss in blinex.LOSSES]
    assert len({len(tried) for tried in own}) == 1
    ends = [(min(c.price for c in tried), max(c.price for c in tried)) for tried in own]
    assert np.allclose(ends, ends[0])


def test_no_shape_turns_the_costs_around():
    assert all(b * (np.exp(a) - a - 1) < 1 for a, b in blinex.SHAPES)


def test_kernel_features_have_the_kernel_as_inner_products():
    X, _ = imbalanced(n=120)
    factor, others = blinex.kernel_features(X[:80], X[80:])
    assert np.allclose(factor @ factor.T, rbf_kernel(X[:80], gamma=1 / 6), atol=1e-8)
    assert np.allclose(others @ factor.T, rbf_kernel(X[80:], X[:80], gamma=1 / 6), atol=1e-6)


def test_the_hinge_machine_is_that_of_svc():
    X, y = imbalanced(n=150)
    coef, intercept = blinex.machines("hinge", X, y, [blinex.Candidate(0.01), blinex.Candidate(1.0)])
    peer = SVC(kernel="linear", class_weight="balanced", tol=1e-8).fit(X, y)
    assert np.allclose(X @ coef[1] + intercept[1], peer.decision_function(X), atol=1e-4)


@pytest.mark.parametrize(("loss", "own"), [("log", "log"), ("Blinex", Blinex(1.0, 1.0))])
def test_the_smooth_machines_are_those_of_the_estimator(loss, own, monkeypatch):
    monkeypatch.setattr(blinex, "_TOL", 1e-9)
    X, y = imbalanced(n=150)
    tried = [blinex.Candidate(price, 1.0, 1.0) for price in (0.1, 1.0)]
    coef, intercept = blinex.machines(loss, X, y, tried)
    peer = LinearSVM(C=1.0, loss=own, class_weight="balanced", solver="lbfgs").fit(X, y)
    assert np.allclose(X @ coef[1] + intercept[1], peer.decision_function(X), atol=1e-3)


def test_the_kernel_machine_is_that_of_the_estimator(monkeypatch):
    monkeypatch.setattr(blinex, "_TOL", 1e-9)
    X, y = imbalanced(n=150)
    factor, others = blinex.kernel_features(X[:100], X[100:])
    coef, intercept = blinex.machines("Blinex", factor, y[:100], [blinex.Candidate(1.0, 1.0, 1.0)])
    peer = KernelSVM(loss=Blinex(1.0, 1.0), gamma=1 / 6, class_weight="balanced", solver="lbfgs").fit(X[:100], y[:100])
    assert np.allclose(others @ coef[0] + intercept[0], peer.decision_function(X[100:]), atol=1e-3)


def test_the_chosen_blinex_machine_is_reached_as_in_the_search():
    tried = blinex.candidates("Blinex")
    each = len(blinex.PRICES)
    assert blinex.path_to(tried[each + 2], tried) == tried[each : each + 3]
    assert blinex.path_to(blinex.Candidate(1.0), blinex.candidates("log")) == [blinex.Candidate(1.0)]


def test_the_search_takes_the_best_mean_over_the_inner_folds():
    X, y = imbalanced(n=150)
    tried = blinex.candidates("log", quick=True)
    folds = list(blinex.stratified_folds(y, blinex.INNER, 5))
    means = []
    for candidate in tried:
        aucs = []
        for rows, held in folds:
            coef, intercept = blinex.machines("log", X[rows], y[rows], [candidate])
            aucs.append(roc_auc_score(y[held], X[held] @ coef[0] + intercept[0]))
        means.append(np.mean(aucs))
    chosen = blinex.search("log", X, y, tried, seed=5)["auc"]
    assert means[tried.index(chosen)] >= max(means) - 0.003  # a path starts elsewhere, and ends within tol
