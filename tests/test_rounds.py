"""Newton over sums: what the pieces answer adds up, and the driver ends where the solvers in memory do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from conftest import imbalanced
from scipy.sparse import csr_matrix

from evenmargin.losses import Hinge, get_loss
from evenmargin.problem import Problem, Status
from evenmargin.solvers import Control, DualCD, Newton, run
from evenmargin.solvers.duality import certify
from evenmargin.solvers.rounds import Request, Sums, Terms, Trail, _short, _taus, begin, drive, look

LOSSES = ["hinge", "squared_hinge", "log"]


def make(n=300, d=6, loss="hinge", intercept="free", C=1.0, sparse=False, seed=0, dtype=np.float64):
    X, y = imbalanced(n, d, seed=seed, dtype=dtype)
    price = C * np.random.default_rng(seed).uniform(0.5, 2.0, n)
    return Problem(csr_matrix(X) if sparse else X, y.astype(dtype), price, get_loss(loss), intercept)


def pieces(problem, cuts):
    edges = [0, *cuts, problem.shape[0]]
    for low, high in pairwise(edges):
        rows = slice(low, high)
        yield replace(problem, X=problem.X[rows], y=problem.y[rows], price=problem.price[rows])


def total(problem, request, cuts=(100, 100, 107)):
    first, *others = [look(piece, request) for piece in pieces(problem, cuts)]
    for other in others:
        first = first + other
    return first


def solve(problem, start=None, before=None, tol=1e-9, max_iter=500, cuts=(100, 100, 107)):
    """Where the driver ends on pieces, one of them empty; its course and its status."""
    terms = Terms(problem.loss, problem.shape[1] + 1, problem.intercept, tol, max_iter)
    course = begin(terms, start, before)
    driver = drive(terms, course)
    seen = None
    while True:
        try:
            request = driver.send(seen)
        except StopIteration as end:
            return course, end.value
        seen = total(problem, request, cuts)


def figures(seen: Sums):
    every = [seen.value, seen.loss, seen.pulls, seen.conjugates, seen.moved, seen.inside, seen.edges, seen.slopes]
    return np.concatenate([np.ravel(each) for each in [*every, seen.matrix]])


def a_request(problem, ahead=0.0):
    rng, width = np.random.default_rng(1), problem.shape[1] + 1
    trail, kappa = Trail(np.empty((0, width)), np.empty(0)), 0.0
    if isinstance(problem.loss, Hinge):
        trail, kappa = trail.then(rng.standard_normal(width), 0.3).then(rng.standard_normal(width), 0.6), 1.2
    return Request(rng.standard_normal(width), 0.3 * rng.standard_normal(width), trail, kappa, True, ahead)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_looks_of_pieces_add_up_to_the_look_of_all_rows(loss, sparse):
    problem = make(loss=loss, sparse=sparse)
    request = a_request(problem, ahead=2.4 if loss == "hinge" else 0.0)
    whole, parts = look(problem, request), total(problem, request, cuts=(1, 1, 50, 299))
    np.testing.assert_allclose(figures(parts), figures(whole), rtol=1e-11)
    if loss == "hinge":
        np.testing.assert_allclose(figures(parts.ahead), figures(whole.ahead), rtol=1e-11)


def test_looks_do_not_depend_on_tiles(monkeypatch):
    problem = make()
    whole = look(problem, a_request(problem))
    monkeypatch.setattr("evenmargin.solvers.rounds._ROWS", 7)
    np.testing.assert_allclose(figures(look(problem, a_request(problem))), figures(whole), rtol=1e-11)


def test_rows_that_lie_at_odd_bytes_are_looked_at_all_the_same():
    problem = make()
    raw = np.zeros(problem.X.nbytes + 1, np.uint8)
    odd = raw[1:].view(np.float64).reshape(problem.X.shape)
    odd[:] = problem.X
    assert not odd.flags.aligned
    seen = look(replace(problem, X=odd), a_request(problem))
    assert np.array_equal(figures(seen), figures(look(problem, a_request(problem))))


@pytest.mark.parametrize("loss", LOSSES)
def test_pulls_matrix_and_slopes_are_the_derivatives_of_the_value(loss):
    problem = make(loss=loss)
    request, terms = a_request(problem), Terms(problem.loss, problem.shape[1] + 1, "free", 1e-6)
    target = request.point + request.direction

    def value(v):
        return terms.penalty(v) + look(problem, request._replace(point=v, direction=None)).value

    def gradient(v):
        return terms.gradient(v, look(problem, request._replace(point=v, direction=None)))

    seen, step = look(problem, request), 1e-6
    moves = step * np.eye(target.size)
    steepness = [(value(target + move) - value(target - move)) / (2 * step) for move in moves]
    np.testing.assert_allclose(terms.gradient(target, seen), steepness, rtol=1e-5, atol=1e-4)
    curvature = np.array([(gradient(target + move) - gradient(target - move)) / (2 * step) for move in moves])
    curvature -= np.diag([1.0] * (target.size - 1) + [0.0])
    np.testing.assert_allclose(seen.matrix, curvature.T[np.triu_indices(target.size)], rtol=1e-4, atol=1e-2)
    along = seen.slopes + terms.penalty_slopes(request.point, request.direction, _taus(request.kappa))
    assert along[-1] == pytest.approx(terms.gradient(target, seen) @ request.direction, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_step_that_is_too_long_is_cut_where_the_value_still_goes_down(loss):
    problem = make(loss=loss)
    terms = Terms(problem.loss, problem.shape[1] + 1, "free", 1e-6)
    request = a_request(problem)
    start = look(problem, request._replace(direction=None))
    down = -terms.gradient(request.point, start)
    taus = _taus(request.kappa)
    seen = look(problem, request._replace(direction=down))
    along = seen.slopes + terms.penalty_slopes(request.point, down, taus)
    tau = _short(along, taus)
    assert tau < 1.0

    def value(step):
        v = request.point + step * down
        return terms.penalty(v) + look(problem, request._replace(point=v, direction=None)).value

    assert value(tau) < value(0.5 * tau) < value(0.0)


def test_smooth_losses_look_at_fewer_places_along_a_step():
    hinge, log = make(), make(loss="log")
    assert look(log, a_request(log)).slopes.size < 0.7 * look(hinge, a_request(hinge)).slopes.size


def test_replaying_the_trail_gives_the_multipliers_that_a_loop_would_have_stored():
    problem = make()
    request = a_request(problem)
    alpha, price = 0.5 * problem.price, problem.price
    for v, kappa in zip(request.trail.points, request.trail.kappas, strict=True):
        alpha = np.clip(alpha + kappa * price * (1 - problem.y * problem.scores(v[:-1], v[-1])), 0.0, price)
    v = request.point + request.direction
    new = np.clip(alpha + request.kappa * price * (1 - problem.y * problem.scores(v[:-1], v[-1])), 0.0, price)
    seen = look(problem, request)
    np.testing.assert_allclose(seen.pulls.sum(axis=0)[:-1], problem.combine(new * problem.y), rtol=1e-10)
    assert seen.moved == pytest.approx(((new - alpha) ** 2 / price).sum(), rel=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", ["free", "augmented", 0.3, None])
def test_the_bound_of_any_look_is_below_the_optimum(loss, intercept):
    problem = make(loss=loss, intercept=intercept)
    best = run(problem, Newton(), Control(tol=1e-10, intercept=problem.offset)).objective
    terms = Terms(problem.loss, problem.shape[1] + 1, intercept, 1e-6)
    for scale in (0.01, 0.3, 1.0):
        request = a_request(problem)
        seen = look(problem, request._replace(point=scale * request.point, direction=None))
        assert terms.bound(seen)[0] <= best * (1 + 1e-9)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", ["free", "augmented", 0.3, None])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_driver_ends_at_the_optimum_in_memory(loss, intercept, sparse):
    problem = make(loss=loss, intercept=intercept, sparse=sparse)
    expected = run(problem, Newton(), Control(tol=1e-10, intercept=problem.offset))
    course, status = solve(problem)
    assert status is Status.CONVERGED
    assert course.best == pytest.approx(expected.objective, rel=3e-9)
    assert course.gap <= 1e-9 * course.best
    found = course.solution(status)
    np.testing.assert_allclose(found.coef, expected.coef, atol=2e-3)
    assert problem.objective(found.coef, found.intercept) == pytest.approx(found.objective, rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gap_is_true_in_every_round(loss):
    problem = make(loss=loss)
    best = run(problem, DualCD() if loss == "hinge" else Newton(), Control(tol=1e-10)).objective
    course, _ = solve(problem)
    lowest = np.minimum.accumulate([entry["objective"] for entry in course.history])
    gaps = np.array([entry["gap"] for entry in course.history])
    assert (lowest - best <= gaps + 1e-9 * best).all()
    assert (np.diff(gaps) <= 0).all()


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3, 1e5])
@pytest.mark.parametrize("loss", LOSSES)
def test_small_and_large_prices_converge(loss, C):
    problem = make(loss=loss, C=C)
    course, status = solve(problem, tol=1e-6)
    assert status is Status.CONVERGED
    assert course.best == pytest.approx(run(problem, Newton(), Control(tol=1e-9)).objective, rel=2e-6)


@pytest.mark.parametrize("wrong", [0, 1, 20])
@pytest.mark.parametrize("loss", LOSSES)
def test_separable_and_nearly_separable_rows_converge_at_a_large_price(loss, wrong):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 6))
    y = np.where(X[:, 0] > 1, 1.0, -1.0)
    y[:wrong] *= -1
    problem = Problem(X, y, np.full(900, 1e3), get_loss(loss))
    course, status = solve(problem, tol=1e-6)
    assert status is Status.CONVERGED
    assert course.rounds < 120
    assert course.best == pytest.approx(run(problem, Newton(), Control(tol=1e-8)).objective, rel=2e-6)


def test_badly_scaled_columns_converge():
    problem = make()
    problem = replace(problem, X=problem.X * np.array([1e-3, 1.0, 10.0, 1e3, 1.0, 1.0]))
    course, status = solve(problem, tol=1e-6)
    assert status is Status.CONVERGED
    assert course.gap <= 1e-6 * course.best


@pytest.mark.parametrize("loss", LOSSES)
def test_many_columns_converge_without_a_matrix(loss, monkeypatch):
    monkeypatch.setattr("evenmargin.solvers.rounds.WIDE", 3)
    problem = make(loss=loss, C=0.1)
    course, status = solve(problem, tol=1e-5, max_iter=2_000)
    assert status is Status.CONVERGED
    assert course.best == pytest.approx(run(problem, Newton(), Control(tol=1e-9)).objective, rel=2e-5)
    assert course.best_sums.matrix is None


def test_float32_rows_have_a_gap_in_float64():
    problem = make(dtype=np.float32)
    course, status = solve(problem, tol=1e-8)
    assert status is Status.CONVERGED
    exact = replace(problem, X=problem.X.astype(np.float64), y=problem.y.astype(np.float64))
    assert course.best == pytest.approx(run(exact, Newton(), Control(tol=1e-10)).objective, rel=2e-8)


def test_a_good_start_saves_rounds():
    problem = make(n=2_000, loss="log")
    near = run(problem, Newton(), Control(tol=1e-3))
    cold, _ = solve(problem)
    warm, _ = solve(problem, start=np.append(near.coef, near.intercept))
    assert warm.rounds < cold.rounds
    assert warm.best == pytest.approx(cold.best, rel=1e-9)


def test_a_trail_goes_on_at_another_price():
    problem = make(n=2_000)
    first, _ = solve(problem, tol=1e-6)
    dearer = replace(problem, price=1.3 * problem.price)
    cold, _ = solve(dearer, tol=1e-6)
    warm, status = solve(dearer, before=(first.point, first.trail, first.kappa), tol=1e-6)
    assert status is Status.CONVERGED
    assert warm.rounds < cold.rounds
    assert warm.best == pytest.approx(cold.best, rel=2e-6)


def test_an_interrupted_course_goes_on_from_its_trail():
    problem = make(n=2_000)
    whole, _ = solve(problem, tol=1e-6)
    part, status = solve(problem, tol=1e-6, max_iter=6)
    assert status is Status.BUDGET
    rest, _ = solve(problem, before=(part.point, part.trail, part.kappa), tol=1e-6)
    assert rest.rounds < whole.rounds
    assert rest.best == pytest.approx(whole.best, rel=2e-6)


def test_the_budget_of_steps_is_kept_and_its_gap_is_true():
    problem = make(loss="squared_hinge")
    course, status = solve(problem, max_iter=2)
    assert (status, course.steps) == (Status.BUDGET, 2)
    assert certify(problem, course.best_point[:-1], course.best_point[-1])[0] == pytest.approx(course.best, rel=1e-12)


def test_an_intercept_that_no_row_holds_goes_to_the_middle():
    X = np.array([[1.0], [2.0], [-1.0], [-1.5]])
    problem = Problem(X, np.array([1.0, 1.0, -1.0, -1.0]), np.full(4, 1e-3), Hinge())
    course, status = solve(problem, cuts=(2,))
    expected = run(problem, Newton(), Control(tol=1e-12))
    assert status is Status.CONVERGED
    assert course.best_sums.inside == 0
    assert course.best_point[-1] == pytest.approx(expected.intercept, abs=1e-9)
    assert course.best == pytest.approx(expected.objective, rel=1e-12)
