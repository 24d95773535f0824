"""The tables of the z-SVM paper: what they promise on its data, and that the machinery works without."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import imbalanced
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from evenmargin.adjust import metric_curve
from evenmargin.reproduce import z_svm
from evenmargin.reproduce._base import Record, Settings
from evenmargin.reproduce._measure import gmean, sensitivity, stratified_folds

TABLES = {table.name: table for table in z_svm.TABLES}


def run(name, settings):
    """All jobs of a table, their figures sent through JSON as the runner does."""
    pytest.importorskip("imblearn")
    return {job.key: Record(json.loads(json.dumps(job.run())), 1.0) for job in TABLES[name].jobs(settings)}


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    """A folder with a small generated set under the name of each of the paper's."""
    folder = tmp_path_factory.mktemp("data")
    columns = {"abalone19": 10, "yeast_me2": 8, "car_good": 6, "euthyroid": 24, "segmentation": 19}
    for seed, (name, d) in enumerate(columns.items()):
        X, y = imbalanced(n=120, d=d, ratio=0.8, seed=seed)
        arrays = {"X": X, "y": y.astype(np.int8)}
        if name == "car_good":
            arrays["X"] = (X > 0).astype(np.uint8)
        if name == "segmentation":
            label = np.where(y > 0, 7, 1)
            arrays |= {"label": label, "X_test": X, "y_test": arrays["y"], "label_test": label}
        np.savez(folder / f"{name}.npz", **arrays)
    return Settings(quick=True, folder=folder)


@pytest.fixture(scope="module")
def papers_own(papers_data, tmp_path_factory):
    """The paper's own data, or the test is skipped."""
    folder = tmp_path_factory.mktemp("data")
    for name in z_svm.SETS:
        np.savez(folder / f"{name}.npz", **papers_data(name))
    return Settings(quick=True, folder=folder)


@pytest.fixture(scope="module")
def table2(papers_own):
    return TABLES["z-svm-table2"].report(papers_own, run("z-svm-table2", papers_own))


@pytest.fixture(scope="module")
def scaled():
    X, y = imbalanced(n=160, d=4, ratio=0.9, seed=3)
    return MinMaxScaler((-1, 1)).fit_transform(X), y


@pytest.fixture(scope="module")
def case():
    return z_svm.SETS["euthyroid"]


def by_labels(sheet, **wanted):
    """Lines by set, of those whose labels are as wanted."""
    places = {sheet.columns.index(column): label for column, label in wanted.items()}
    return {line.labels[0]: line for line in sheet.lines if all(line.labels[i] == each for i, each in places.items())}


# --- on the paper's data ---


def test_z_svm_is_within_three_hundredths_of_the_paper_on_four_of_five_sets(table2):
    lines = by_labels(table2.sheets[0], method="z-SVM, exact search", figure="G-mean")
    assert sum(abs(line.difference) <= 0.03 for line in lines.values()) >= 4
    assert table2.findings[0].startswith("z-SVM, exact search, mean over the folds: 4 of 5 sets within 0.03")


def test_the_plain_machine_finds_no_positive_row_of_abalone_and_yeast_as_in_the_paper(table2):
    lines = by_labels(table2.sheets[0], method="SVM", figure="sensitivity")
    assert lines["abalone"].ours == lines["yeast"].ours == 0.0


def test_z_svm_beats_the_plain_machine_on_all_sets(table2):
    plain = by_labels(table2.sheets[0], method="SVM", figure="G-mean")
    adjusted = by_labels(table2.sheets[0], method="z-SVM, exact search", figure="G-mean")
    assert all(adjusted[name].ours > plain[name].ours for name in plain)


def test_figure_1_puts_positives_on_their_side_with_z(papers_own):
    results = run("z-svm-fig1", papers_own)
    for name in ("abalone19", "yeast_me2"):
        assert results[name].figures["svm"][1] < 0.0 < results[name].figures["exact"][1]


# --- without the paper's data ---


@pytest.mark.parametrize("name", TABLES)
def test_every_table_runs_and_reports_on_any_data(stand_in, name):
    results = run(name, stand_in)
    report = TABLES[name].report(stand_in, results)
    assert all(np.isfinite(line.ours) for sheet in report.sheets for line in sheet.lines)
    assert len(report.findings) >= 2
    assert all(finding.endswith(".") for finding in report.findings)


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.draw])
def test_figures_are_drawn(stand_in, name):
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure(figsize=(10, 6))
    TABLES[name].draw(stand_in, run(name, stand_in), figure)
    assert all(ax.has_data() for ax in figure.axes)


def test_a_job_gives_the_same_figures_again(stand_in):
    pytest.importorskip("imblearn")
    jobs = [list(TABLES["z-svm-table2"].jobs(stand_in)) for _ in range(2)]
    for first, second in zip(*jobs, strict=True):
        if first.key.startswith("yeast_me2"):
            assert first.key == second.key
            assert first.run() == second.run()


def test_keys_are_unique_and_the_full_run_draws_folds_three_times():
    for table in TABLES.values():
        keys = [job.key for job in table.jobs(Settings())]
        assert len(set(keys)) == len(keys)
    keys = [job.key for job in TABLES["z-svm-table2"].jobs(Settings())]
    assert sum("/chosen/" in key for key in keys) == 5 * 3 * 10
    assert next(job.key for job in TABLES["z-svm-fig3"].jobs(Settings())) == "abalone19/gamma 0.1/trial 0"


# --- the parts ---


def test_smote_adds_rows_between_positive_ones(scaled):
    pytest.importorskip("imblearn")
    X, y = scaled
    for rate in (100, 250, 1000):
        more, labels = z_svm.oversampled(X, y, rate, 0)
        positive = np.count_nonzero(y > 0)
        assert np.count_nonzero(labels > 0) == positive + round(positive * rate / 100)
        assert np.array_equal(more[: len(X)], X)
        assert np.array_equal(labels[: len(y)], y)
    own = X[y > 0]
    for new in more[len(X) :]:
        a, b = own[:, None], own[None]
        detour = np.linalg.norm(new - a, axis=-1) + np.linalg.norm(new - b, axis=-1) - np.linalg.norm(a - b, axis=-1)
        assert detour.min() < 1e-9


def test_smote_takes_fewer_neighbours_where_there_are_few_positives():
    pytest.importorskip("imblearn")
    X, y = np.arange(20.0)[:, None], np.repeat([1, -1], [3, 17])
    assert np.count_nonzero(z_svm.oversampled(X, y, 100, 0)[1] > 0) == 6


def test_a_fold_has_the_figures_of_scikit_learns_machine(scaled, case):
    X, y = scaled
    train, test = fold = stratified_folds(y, z_svm.FOLDS, 0)[0]
    found = z_svm._fold(case, X, y, fold, "svm")
    scaler = MinMaxScaler(tuple(case.scale)).fit(X[train])
    svc = SVC(C=case.C, gamma=1.0, tol=1e-8).fit(scaler.transform(X[train]), y[train])
    predicted = svc.predict(scaler.transform(X[test]))
    assert found["svm"]["gmean"] == gmean(y[test], predicted)
    assert found["svm"]["sensitivity"] == sensitivity(y[test], predicted)


def test_the_chosen_z_is_the_best_of_all_and_golden_section_no_better(scaled, case):
    X, y = scaled
    svm = z_svm.machine(case, X, y)
    up, down, intercept = svm.split_decision(X)
    best = metric_curve(y, p=up, q=down + intercept).values.max()
    found = {search: z_svm.adjusted(svm, X, y, search) for search in z_svm.SEARCHES}
    assert gmean(y, found["exact"].predict(X)) == pytest.approx(best)
    assert all(gmean(y, model.predict(X)) <= best + 1e-12 for model in found.values())
    assert found["golden10"].z_ <= 10.0


def test_the_machine_is_trained_once(scaled, case):
    X, y = scaled
    svm = z_svm.machine(case, X, y)
    assert all(z_svm.adjusted(svm, X, y, search).estimator_ is svm for search in z_svm.SEARCHES)


def test_pooled_is_the_gmean_of_all_test_rows():
    rng = np.random.default_rng(0)
    y, predicted = (rng.choice([-1, 1], (5, 40)) for _ in range(2))
    folds = [z_svm.measure(a, b) for a, b in zip(y, predicted, strict=True)]
    assert z_svm.pooled(folds) == pytest.approx(gmean(y.ravel(), predicted.ravel()))


def test_the_outer_test_rows_have_no_part_in_the_choice(stand_in, monkeypatch):
    X, y = z_svm.rows_of(stand_in, "yeast_me2")
    _, test = stratified_folds(y, z_svm.FOLDS, stand_in.seed)[0]
    before = z_svm._chosen(stand_in, "yeast_me2", 0, 0)
    spoiled = X.copy()
    spoiled[test] = 1e3
    monkeypatch.setattr(z_svm, "rows_of", lambda settings, name: (spoiled, y))
    after = z_svm._chosen(stand_in, "yeast_me2", 0, 0)
    assert after["words"] == before["words"]


def test_paper_figures_are_those_of_its_table_2():
    assert z_svm._paper_figure(z_svm.SETS["car_good"], "smote", "sensitivity") == 0.1833
    assert z_svm._paper_figure(z_svm.SETS["car_good"], "golden", "gmean") == 0.9361
    assert z_svm._paper_figure(z_svm.SETS["euthyroid"], "svm", "gmean") == 0.7259
