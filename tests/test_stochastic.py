"""Pegasos and Nesterov: the papers' iterates, step by step."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from conftest import imbalanced
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from evenmargin import LinearSVM, papers
from evenmargin.losses import Blinex
from evenmargin.sampling import ClassBalanced, Given
from evenmargin.solvers import Nesterov, Pegasos
from evenmargin.stopping import AUCHalting, roc_auc

X, Y = imbalanced(n=80, d=5)
N_POS, N_NEG = (Y > 0).sum(), (Y < 0).sum()
ORDER = np.random.default_rng(0).integers(len(Y), size=400)
PREFIXES = [1, 2, 3, 10, 57, 400]
SAMPLE_WEIGHT = np.random.default_rng(1).integers(1, 4, size=len(Y)).astype(float)
LOSSES = {"hinge": {}, "squared_hinge": {}, "log": {}, "blinex": {"a": 1.5, "b": 0.4}}


def _loss(name):
    return Blinex(**LOSSES[name]) if name == "blinex" else name


def _weights(rule, sample_weight):
    """The papers' weight of a step, relative to a mean sample weight of 1."""
    weight = np.ones(len(Y)) if sample_weight is None else sample_weight
    plus, minus = weight[Y > 0].sum(), weight[Y < 0].sum()
    by_class = {
        "none": np.ones(len(Y)),
        "inverse": np.where(Y > 0, 1 / plus, 1 / minus),
        "balanced": np.where(Y > 0, weight.sum() / (2 * plus), weight.sum() / (2 * minus)),
        "dict": np.where(Y > 0, 7.0, 0.5),
    }[rule]
    return by_class * weight * len(Y) / weight.sum()


def _class_weight(rule):
    return {"none": None, "dict": {1: 7.0, -1: 0.5}}.get(rule, rule)


@pytest.mark.parametrize("layout", [np.asarray, csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("project", [False, True], ids=["", "project"])
@pytest.mark.parametrize("rule", ["none", "inverse", "balanced", "dict"])
@pytest.mark.parametrize("loss", LOSSES)
def test_pegasos_iterates_are_the_rule_done_naively(loss, rule, project, layout):
    lam, bias = 0.02, -0.3
    weight = _weights(rule, None)
    radius = 1 / np.sqrt(lam)
    if loss == "squared_hinge":  # always held back, to where the objective is below that of w = 0
        radius = max(radius, np.sqrt(2 * weight @ (1 - Y * bias) ** 2 / (lam * len(Y))))
    elif rule == "dict":
        radius = max(radius, np.sqrt(weight.sum() / (lam * len(Y))))
    radius = radius if project or loss == "squared_hinge" else np.inf
    expected = naive.pegasos(X, Y, ORDER, lam, weight, loss, bias, radius, **LOSSES[loss])
    for steps in PREFIXES:
        svm = LinearSVM(
            alpha=lam, loss=_loss(loss), class_weight=_class_weight(rule), intercept=bias,
            solver=Pegasos(project=project), sampling=Given(ORDER), max_iter=steps,
        ).fit(layout(X), Y)  # fmt: skip
        assert_allclose(svm.coef_[0], expected[steps - 1], rtol=1e-10, atol=1e-12 * abs(expected).max())


@pytest.mark.parametrize("rule", ["none", "balanced"])
def test_sample_weights_enter_the_step(rule):
    expected = naive.pegasos(X, Y, ORDER, 0.02, _weights(rule, SAMPLE_WEIGHT), "log")
    svm = LinearSVM(
        alpha=0.02, loss="log", class_weight=_class_weight(rule), intercept=None, solver="pegasos",
        sampling=Given(ORDER), max_iter=400,
    ).fit(X, Y, SAMPLE_WEIGHT)  # fmt: skip
    assert_allclose(svm.coef_[0], expected[-1], rtol=1e-10)


@pytest.mark.parametrize("project", [False, True])
def test_the_average_is_the_mean_of_the_iterates(project):
    iterates = naive.pegasos(X, Y, ORDER, 0.02, np.ones(len(Y)), "hinge", 0.1, 1 / np.sqrt(0.02) if project else np.inf)
    svm = LinearSVM(
        alpha=0.02, intercept=0.1, solver=Pegasos(average=True, project=project), sampling=Given(ORDER), max_iter=400
    ).fit(X, Y)
    assert_allclose(svm.coef_[0], iterates.mean(axis=0), rtol=1e-10)


@pytest.mark.parametrize("average", [False, True])
def test_an_augmented_intercept_is_a_constant_column(average):
    iterates = naive.pegasos(X, Y, ORDER, 0.02, np.ones(len(Y)), "log", augmented=True)
    expected = iterates.mean(axis=0) if average else iterates[-1]
    svm = LinearSVM(
        alpha=0.02, loss="log", intercept="augmented", solver=Pegasos(average=average), sampling=Given(ORDER),
        max_iter=400,
    ).fit(X, Y)  # fmt: skip
    assert_allclose(np.append(svm.coef_[0], svm.intercept_), expected, rtol=1e-10)


def test_a_free_intercept_ends_at_its_best_value():
    svm = LinearSVM(alpha=0.02, solver="pegasos", random_state=0).fit(X, Y)
    scores = X @ svm.coef_[0]

    def total(b):
        return np.maximum(0, 1 - Y * (scores + b)).sum()

    assert total(svm.intercept_[0]) <= min(total(b) for b in np.linspace(-5, 5, 2001)) + 1e-9


@pytest.mark.parametrize("intercept", ["augmented", 0.3])
def test_a_warm_start_continues_the_count_of_steps(intercept):
    order = np.tile(ORDER[:150], 3)
    fixed = 0.0 if intercept == "augmented" else intercept
    expected = naive.pegasos(X, Y, order, 0.02, np.ones(len(Y)), "log", fixed, augmented=intercept == "augmented")[-1]
    svm = LinearSVM(
        alpha=0.02, loss="log", intercept=intercept, solver="pegasos", sampling=Given(ORDER[:150]), max_iter=150,
        warm_start=True,
    )  # fmt: skip
    for _ in range(3):
        svm.fit(X, Y)
    assert_allclose(svm.coef_[0], expected[: X.shape[1]], rtol=1e-10)
    assert svm.partial_fit(X[:5], Y[:5]).n_iter_ == 455


def test_lsgd_and_wlsgd_are_the_rules_of_the_paper():
    for machine, loss, weight in (
        (papers.lsgd(lam=1e-3, T=400), "hinge", np.ones(len(Y))),
        (papers.wlsgd(lam=1e-3, T=400), "log", np.where(Y > 0, 1 / N_POS, 1 / N_NEG)),
    ):
        machine.set_params(sampling=Given(ORDER)).fit(X, Y)
        assert_allclose(machine.coef_[0], naive.pegasos(X, Y, ORDER, 1e-3, weight, loss)[-1], rtol=1e-10)
        assert machine.intercept_ == 0


class _ReplayedCoins(ClassBalanced):
    """Class-balanced sampling whose draws are known."""

    def stream(self, y, rng):
        return Given(ORDER).stream(y, rng)


@pytest.mark.parametrize("project", [False, True])
@pytest.mark.parametrize(
    ("double_count", "weight"), [(False, np.ones(len(Y))), (True, np.where(Y > 0, 1 / (2 * N_POS), 1 / (2 * N_NEG)))]
)
def test_cost_sensitive_pegasos_weighs_a_balanced_step_once_or_as_printed(double_count, weight, project):
    lam, b = 0.05, 0.5
    machine = papers.cost_sensitive_pegasos(lam, b, T=400, project=project, double_count=double_count)
    machine.set_params(sampling=_ReplayedCoins()).fit(X, Y)
    radius = 1 / np.sqrt(lam) if project else np.inf
    expected = naive.pegasos(X, Y, ORDER, lam, weight, "hinge", b, radius)
    assert_allclose(machine.coef_[0], expected[-1], rtol=1e-10)
    assert machine.intercept_ == b


@pytest.mark.parametrize("every", [1, 3, 7])
def test_halting_is_the_papers_rule(every):
    iterates = naive.pegasos(X, Y, ORDER, 0.1, np.ones(len(Y)), "hinge", 0.2)
    last, halted = 0.5, None
    for t in range(every, 401, every):
        auc = roc_auc(Y, X @ iterates[t - 1])
        if auc <= last:
            halted = t
            break
        last = auc
    machine = papers.cost_sensitive_pegasos(0.1, 0.2, T=400, X=every).set_params(sampling=_ReplayedCoins()).fit(X, Y)
    assert machine.n_iter_ == halted
    assert_allclose(machine.coef_[0], iterates[halted - 1], rtol=1e-10)
    assert [entry["auc"] for entry in machine.history_ if "auc" in entry][-1] == pytest.approx(auc)


def test_halting_can_look_at_rows_set_aside_and_return_the_best():
    X_all, y_all = imbalanced(n=600, d=8, seed=3)
    held = X_all[400:], np.where(y_all[400:] > 0, "rare", "common")
    rule = AUCHalting(every=20, patience=10, keep_best=True, validation=held)
    svm = LinearSVM(alpha=1e-3, solver="pegasos", stopping=rule, random_state=0)
    svm.fit(X_all[:400], np.where(y_all[:400] > 0, "rare", "common"))
    seen = [entry["auc"] for entry in svm.history_ if "auc" in entry]
    assert roc_auc(held[1] == "rare", svm.decision_function(held[0])) == pytest.approx(max(seen))
    scores = X_all[:400] @ svm.coef_[0]

    def total(b):
        return np.maximum(0, 1 - y_all[:400] * (scores + b)).sum()

    assert total(svm.intercept_[0]) <= min(total(b) for b in np.linspace(-20, 20, 4001)) + 1e-9


def test_the_change_of_w_stops_it():
    iterates = naive.pegasos(X, Y, ORDER, 0.5, np.ones(len(Y)), "hinge")
    change = np.abs(np.diff(iterates, axis=0, prepend=0)).sum(axis=1)
    eps = np.sort(change)[5:7].mean()
    expected = int(np.argmax(change < eps)) + 1
    assert 1 < expected < 400
    machine = papers.lsgd(lam=0.5, T=400, eps=eps).set_params(sampling=Given(ORDER)).fit(X, Y)
    assert machine.n_iter_ == expected
    assert "settled" in machine.status_


@pytest.mark.parametrize("layout", [np.asarray, csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("compound", [False, True], ids=["exponential", "compound"])
@pytest.mark.parametrize("loss", LOSSES)
def test_nesterov_is_algorithm_1_done_naively(loss, compound, layout):
    batches = ORDER.reshape(-1, 8)
    options = {"eta0": 0.05, "momentum": 0.8, "decay": 0.002}
    expected = naive.nesterov(
        X, Y, batches, 0.7, _weights("balanced", None), 0.05, 0.002, 0.8, loss, compound, **LOSSES[loss]
    )
    svm = LinearSVM(
        C=0.7, loss=_loss(loss), class_weight="balanced", intercept="augmented", sampling=Given(ORDER),
        solver=Nesterov(batch_size=8, schedule="compound" if compound else "exponential", **options),
        max_iter=len(batches),
    ).fit(layout(X), Y)  # fmt: skip
    assert_allclose(np.append(svm.coef_[0], svm.intercept_), expected, rtol=1e-10)


def test_blinex_linear_is_algorithm_1():
    machine = papers.blinex_linear(a=1.2, b=0.5, c=2.0, T=50, m=8, eta0=0.1, k=0.01, gamma=0.7, printed_rate=True)
    machine.set_params(sampling=Given(ORDER)).fit(X, Y)
    expected = naive.nesterov(
        X, Y, ORDER.reshape(-1, 8), 2.0, np.ones(len(Y)), 0.1, 0.01, 0.7, compound=True, a=1.2, b=0.5
    )
    assert_allclose(np.append(machine.coef_[0], machine.intercept_), expected, rtol=1e-10)


@pytest.mark.parametrize("solver", ["pegasos", "nesterov"])
@pytest.mark.parametrize("sampling", ["uniform", "balanced"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_sampling_changes_the_path_and_not_the_objective(solver, sampling, class_weight):
    svm = LinearSVM(C=0.05, loss="log", class_weight=class_weight, intercept="augmented", random_state=0)
    optimum = svm.fit(X, Y).objective_
    svm.set_params(solver=solver, sampling=sampling, max_iter=400_000 if solver == "pegasos" else 20_000).fit(X, Y)
    assert optimum <= svm.objective_ <= 1.01 * optimum


@pytest.mark.parametrize("solver", ["pegasos", "nesterov"])
def test_a_weight_is_a_repetition_in_expectation(solver):
    """What the two declared estimator checks ask of exact solvers, for a mean over seeds."""
    repeated = np.repeat(np.arange(len(Y)), SAMPLE_WEIGHT.astype(int))
    weighted, copied = [], []
    for seed in range(30):
        svm = LinearSVM(C=0.02, loss="log", intercept="augmented", solver=solver, max_iter=20_000, random_state=seed)
        if solver == "nesterov":
            svm.set_params(max_iter=2_000)
        weighted.append(svm.fit(X, Y, SAMPLE_WEIGHT).coef_[0])
        copied.append(svm.fit(X[repeated], Y[repeated]).coef_[0])
    difference = np.mean(weighted, axis=0) - np.mean(copied, axis=0)
    error = np.sqrt((np.var(weighted, axis=0) + np.var(copied, axis=0)) / 30)
    assert np.all(np.abs(difference) < 4.5 * error + 1e-4)
    unweighted = LinearSVM(C=0.02, loss="log", intercept="augmented").fit(X, Y).coef_[0]
    assert np.abs(np.mean(weighted, axis=0) - unweighted).max() > 10 * np.abs(difference).max()


def test_float32_stays_float32_and_close():
    for solver, steps in (("pegasos", 400), ("nesterov", 50)):
        svm = LinearSVM(C=0.1, solver=solver, intercept="augmented", sampling=Given(ORDER), max_iter=steps)
        wide = svm.fit(X, Y).coef_
        narrow = svm.fit(X.astype(np.float32), Y).coef_
        assert narrow.dtype == np.float32
        assert_allclose(narrow, wide, rtol=2e-4, atol=1e-5)
