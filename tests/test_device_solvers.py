"""Solvers with their rows on a device, on the CPU's torch, against the same on the host."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenmargin import DensityWeights, KernelSVM
from evenmargin import kernels as k
from evenmargin._device import arrays
from evenmargin._util.threads import Workers
from evenmargin.losses import get_loss
from evenmargin.problem import KernelProblem
from evenmargin.sampling import get_sampler
from evenmargin.solvers import SMO, Control, kernel_sgd, smo
from evenmargin.solvers.base import run
from evenmargin.solvers.gram import StreamedGram
from evenmargin.solvers.kernel_lbfgs import KernelLbfgs
from evenmargin.solvers.kernel_sgd import DrawnRowsOnDevice, KernelSGD

torch = pytest.importorskip("torch", reason="torch is not installed")
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def workers():
    with Workers(1) as pool:
        yield pool


@pytest.fixture
def both(workers):
    """A function that makes a problem on the host, and the same on a device."""

    def make(n, loss="hinge", C=1.0, intercept="free", dtype=np.float32, kernel=None):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, 7)) + 0.5
        y = np.where(X[:, 0] + 0.3 * X[:, 1] ** 2 + 0.5 * rng.standard_normal(n) > 1.3, 1.0, -1.0)
        price = C * np.where(y > 0, n / (2 * (y > 0).sum()), n / (2 * (y < 0).sum()))
        here = KernelProblem(
            X.astype(dtype),
            y.astype(dtype),
            price,
            get_loss(loss),
            intercept,
            kernel=kernel or k.RBF(0.15),
            workers=workers,
        )  # fmt: skip
        return here, replace(here, X=arrays.Rows.put(here.X, CPU))

    return make


def agree(there, here, within):
    assert np.abs(there.coef - here.coef).max() < within * np.abs(here.coef).max()


# Kernel SGD


@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize(("intercept", "project"), [("free", False), ("augmented", True), (None, True)])
def test_sgd_takes_the_steps_of_the_host(both, loss, intercept, project):
    """With blocks of another size, and kernel values that another library has rounded."""
    here, there = both(2500, loss, 0.01, intercept)
    control = Control(max_iter=4000, sampling=get_sampler("balanced"), seed=3)
    wanted, found = (run(problem, KernelSGD(project=project), control) for problem in (here, there))
    agree(found, wanted, 2e-5)
    assert found.intercept == pytest.approx(wanted.intercept, abs=1e-4)
    assert found.objective == pytest.approx(wanted.objective, rel=1e-5)


def test_sgd_on_few_rows_of_float64_is_in_float64(both):
    here, there = both(900, "log", 0.01, dtype=np.float64)
    wanted, found = (run(problem, KernelSGD(), Control(max_iter=3000, seed=1)) for problem in (here, there))
    agree(found, wanted, 1e-11)


def test_sgd_goes_on_where_it_stopped(both):
    here, there = both(900, "log", 0.01, dtype=np.float64)
    first = run(here, KernelSGD(), Control(max_iter=2000, seed=1))
    control = Control(max_iter=2000, seed=1, coef=first.coef, intercept=first.intercept, steps=2000)
    wanted, found = (run(problem, KernelSGD(), control) for problem in (here, there))
    agree(found, wanted, 1e-11)


def test_sgd_stays_right_where_the_scale_is_folded(both, monkeypatch):
    """A tiny radius shrinks the scale of all coefficients below 1e-100, which is then multiplied into them."""
    here, there = (replace(problem, radius=1e-3) for problem in both(900, "hinge", 10.0, None, np.float64))
    folds, real = [], DrawnRowsOnDevice.note
    monkeypatch.setattr(DrawnRowsOnDevice, "note", lambda self, *given: folds.append(given[-1]) or real(self, *given))
    control = Control(max_iter=3000, seed=1)
    wanted, found = (run(problem, KernelSGD(project=True), control) for problem in (here, there))
    agree(found, wanted, 1e-9)
    assert min(folds) < 1.0


def test_scores_of_rows_set_aside_are_those_of_the_host(both):
    here, there = both(2500, "log", 0.01)
    beta = np.random.default_rng(0).standard_normal(2500)
    wanted = here.scores_of(here.X[:40], beta)
    np.testing.assert_allclose(there.scores_of(there.X[:40], beta), wanted, rtol=0, atol=1e-4)


def test_a_block_writes_only_what_it_has_changed(both, monkeypatch):
    """Else a million rows would cost more than their products."""
    _, there = both(5000, "log", 0.01)
    sizes, real = [], DrawnRowsOnDevice._write
    monkeypatch.setattr(
        DrawnRowsOnDevice, "_write", lambda self, places, c: sizes.append(places.size) or real(self, places, c)
    )
    run(there, KernelSGD(), Control(max_iter=6000, seed=1, certify=False))
    assert len(sizes) > 4
    assert max(sizes) <= kernel_sgd.BLOCK_THERE


def test_a_free_intercept_is_set_from_some_rows_where_all_cost_too_much(both, monkeypatch):
    here, there = both(2500, "log", 0.01)
    control = Control(max_iter=3000, seed=1)
    of_all = run(there, KernelSGD(), control)
    for name in ("LOOK", "LOOK_THERE"):
        monkeypatch.setattr(kernel_sgd, name, 4_000_000)
    wanted, found = (run(problem, KernelSGD(), control) for problem in (here, there))
    assert abs(found.intercept - of_all.intercept) > 0.1
    assert found.intercept == pytest.approx(wanted.intercept, abs=1e-5)


# SMO


@pytest.mark.parametrize(("C", "intercept", "loss"), [
    (0.1, "free", "hinge"), (1.0, "augmented", "hinge"), (100.0, "free", "hinge"), (1.0, "free", "squared_hinge"),
])  # fmt: skip
def test_smo_reaches_the_optimum_of_the_host(both, C, intercept, loss):
    here, there = both(2500, loss, C, intercept)
    wanted, found = (run(problem, SMO(), Control(tol=1e-4)) for problem in (here, there))
    assert found.status == wanted.status
    assert found.objective == pytest.approx(wanted.objective, rel=1e-4)
    assert found.gap <= 1e-4 * found.objective
    assert abs(found.n_iter - wanted.n_iter) <= 0.5 * wanted.n_iter + 3


def test_the_gap_of_smo_is_true(both):
    """Computed in float64 at the end, as the host finds it for the same coefficients."""
    here, there = both(2500)
    found = run(there, SMO(), Control(tol=1e-4))
    wide = replace(here, X=here.X.astype(np.float64))
    assert wide.objective(found.coef, found.intercept) == pytest.approx(found.objective, rel=1e-6)


def test_smo_starts_from_samples(both, monkeypatch):
    monkeypatch.setattr(smo, "_MANY", 3000)
    here, there = both(6000)
    wanted, found = (run(problem, SMO(), Control(tol=1e-3)) for problem in (here, there))
    assert found.status == wanted.status
    assert found.objective == pytest.approx(wanted.objective, rel=1e-3)


def test_smo_on_few_rows_gives_the_same_digits(both):
    here, there = both(700, dtype=np.float64)
    wanted, found = (run(problem, SMO(), Control(tol=1e-6)) for problem in (here, there))
    agree(found, wanted, 1e-9)


def test_smo_widens_where_float32_is_too_coarse(both, monkeypatch):
    """Kernel values of some 1e5: their float32 errors would be violations."""
    widened, real = [], StreamedGram.widen
    monkeypatch.setattr(StreamedGram, "widen", lambda self: widened.append(1) or real(self))
    here, there = both(2200, C=1e-4, kernel=k.Poly(5.0, 2, 1.0))
    wanted, found = (run(problem, SMO(), Control(tol=1e-3)) for problem in (here, there))
    assert widened
    assert found.objective == pytest.approx(wanted.objective, rel=1e-3)


def test_lbfgs_finds_the_machine_of_the_host(both):
    here, there = both(600, "log", dtype=np.float64)
    wanted, found = (run(problem, KernelLbfgs(), Control(tol=1e-8)) for problem in (here, there))
    assert found.status == wanted.status
    assert found.objective == pytest.approx(wanted.objective, rel=1e-8)


@pytest.mark.parametrize(
    ("machine", "result"),
    [
        (KernelSVM(solver="sgd", loss="log", max_iter=9000, random_state=0), "dual_coef_"),
        (KernelSVM(C=0.01), "dual_coef_"),
        (DensityWeights(), "density_"),
    ],
    ids=["sgd", "smo", "density"],
)
def test_two_runs_give_the_same_bits(place, machine, result):
    """With so many rows that a GPU takes its fused kernel."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 5)).astype(np.float32)
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(6000) > 1.2, 1, 0)
    machine.set_params(gamma=0.2, device=place)
    first, second = (np.array(getattr(machine.fit(X, y), result)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
