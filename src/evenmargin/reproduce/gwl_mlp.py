"""The generalized weighted loss (GWL), Tables V and VI: networks that grade white wine.

The paper trains a network with and without density weights, for each of six schemes, and
prints the mean absolute error (MAE) of both, the weighted one for its best γ_S. All
printed errors are whole multiples of 1/792: the test part is a fifth of the 3 961 wines, and
grades were rounded to whole ones before they were compared. Which rows chose γ_S is not
said; here it is done both by the test rows, and by rows held out of the training part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from .. import papers
from ..density import SCHEMES, DensityWeights
from ._base import Job, Line, Report, Results, Settings, Sheet, Table
from ._measure import interval, mean_and_spread

__all__ = ["TABLES"]

GAMMAS = (0.01, 0.1, 1.0, 10.0, 100.0)
TEST = 0.2
TRIALS = 10
PLAIN, RESTARTS, RANDOM = "w = 1", "w = 1, other starts", "random, other draws"

# Layers, and for schemes 1 to 6 the MAE of the standard network, γ_S, and the MAE of the weighted one.
NETS: dict[str, tuple[tuple[int, ...], tuple[tuple[float, float, float], ...]]] = {
    "5": (
        (100, 50, 20, 1),
        (
            (0.5871212, 10, 0.57575756), (0.5694444, 10, 0.5530303), (0.5568182, 1, 0.53661615),
            (0.5580808, 0.01, 0.540404), (0.54924244, 0.1, 0.54671717), (0.510101, 100, 0.510101),
        ),
    ),
    "6": (
        (100, 80, 40, 1),
        (
            (0.5694444, 10, 0.5580808), (0.53661615, 1, 0.5290404), (0.5378788, 100, 0.5378788),
            (0.5770202, 10, 0.5580808), (0.54924244, 0.01, 0.5252525), (0.56565654, 1, 0.5555556),
        ),
    ),
}  # fmt: skip


@lru_cache(maxsize=2)
def _parts(settings: Settings, seed: int) -> list[NDArray[Any]]:
    """Training and test rows of a trial, X and grades."""
    wine = settings.load("wine_quality_white")
    parts = train_test_split(wine.X, wine.y, test_size=int(TEST * len(wine.y)), random_state=seed)
    return [np.ascontiguousarray(part) for part in parts]


def _graded(settings: Settings, layers: tuple[int, ...], trial: int, density: Any, start: int = 0) -> list[float]:
    """One network: MAE of rounded grades and of the grades themselves on test rows, and the MAE on held out rows."""
    seed = settings.seed + trial
    X, X_test, y, y_test = _parts(settings, seed)
    network = papers.gwl_mlp(layers, None, epochs=20 if settings.quick else 200, random_state=seed + 1000 * start)
    network.set_params(density=density, early_stopping=True, validation_fraction=0.2, n_iter_no_change=20)
    found = network.fit(X, y).predict(X_test)
    return [
        float(np.mean(np.abs(np.rint(found) - y_test))),
        float(np.mean(np.abs(found - y_test))),
        float(network.best_loss_),
    ]


def _trial(settings: Settings, layers: tuple[int, ...], kind: str, trial: int) -> dict[str, Any]:
    graded, gammas = partial(_graded, settings, layers, trial), _gammas(settings)
    if kind == PLAIN:
        errors = [graded(None)]
    elif kind == RESTARTS:  # as many looks at the test rows as a scheme has
        errors = [graded(None, start) for start in range(len(gammas))]
    elif kind == RANDOM:
        errors = [graded(DensityWeights("random", random_state=draw)) for draw in range(len(gammas))]
    else:
        errors = [graded(DensityWeights(kind, gamma=gamma)) for gamma in gammas]
    return {"errors": errors}


def _gammas(settings: Settings) -> tuple[float, ...]:
    return GAMMAS[1:4:2] if settings.quick else GAMMAS


def _key(kind: str, trial: int) -> str:
    return f"{kind}/trial {trial + 1}"


def _jobs(settings: Settings, number: str) -> Iterator[Job]:
    layers = NETS[number][0]
    for trial in range(settings.repeats(TRIALS, 2)):
        for kind in (PLAIN, RESTARTS, *SCHEMES[:6], RANDOM):
            yield Job(_key(kind, trial), partial(_trial, settings, layers, kind, trial))


def _errors(settings: Settings, results: Results, kind: str) -> NDArray[np.float64]:
    """By trial, setting and figure."""
    trials = range(settings.repeats(TRIALS, 2))
    return np.array([results[_key(kind, trial)].figures["errors"] for trial in trials])


def _seconds(settings: Settings, results: Results, kind: str) -> float:
    """Of one network."""
    errors = _errors(settings, results, kind)
    return sum(results[_key(kind, trial)].seconds for trial in range(len(errors))) / (errors.shape[0] * errors.shape[1])


def _chosen(errors: NDArray[np.float64], by: int) -> NDArray[np.float64]:
    """The rounded test error of each trial at the setting with the least figure `by`."""
    best = errors[:, :, by].argmin(axis=1)
    return np.asarray(errors[np.arange(len(errors)), best, 0])


def _report(settings: Settings, results: Results, number: str) -> Report:
    plain = _errors(settings, results, PLAIN)[:, 0, 0]
    standard = mean_and_spread(plain.tolist())
    values: list[Line] = []
    by_test: list[Line] = []
    by_held_out: list[Line] = []
    for place, kind in enumerate((*SCHEMES[:6], RANDOM, RESTARTS)):
        errors, seconds = _errors(settings, results, kind), _seconds(settings, results, kind)
        label, theirs, gain, note = kind, None, None, "not in the paper"
        if place < 6:
            first, gamma, theirs = NETS[number][1][place]
            label, gain, note = f"({place + 1}) {kind}", theirs - first, f"the paper's γ_S: {gamma:g}"
            values.append(Line((label, "standard"), first, *standard, _seconds(settings, results, PLAIN)))
        values.append(
            Line((label, "best on test rows"), theirs, *mean_and_spread(_chosen(errors, 0).tolist()), seconds, note)
        )
        by_test.append(_difference(label, gain, _chosen(errors, 0) - plain))
        by_held_out.append(_difference(label, None, _chosen(errors, 2) - plain))
    how, tried = f"mean of {len(plain)} seeds", len(_gammas(settings))
    less = "Weighted less standard MAE,"
    sheets = [
        Sheet(f"MAE of rounded grades, best of {tried} γ_S on the test rows, {how}", ("scheme", "network"), values, 4),
        Sheet(f"{less} chosen on the test rows (optimistic), {how}", ("scheme",), by_test, 4, "95 % interval"),
        Sheet(f"{less} chosen on held out rows, {how}", ("scheme",), by_held_out, 4, "95 % interval"),
    ]
    return Report(sheets, _findings(by_test, by_held_out))


def _difference(label: str, paper: float | None, differences: NDArray[np.float64]) -> Line:
    """The mean over seeds; the parts of different seeds have rows in common, which the interval counts."""
    mean, half = interval(differences.tolist(), overlap=TEST / (1.0 - TEST))
    return Line((label,), paper, mean, half, None, _verdict(mean, half))


def _verdict(difference: float, half: float) -> str:
    if abs(difference) <= half or not np.isfinite(half):
        return "no difference seen"
    return "better" if difference < 0 else "worse"


def _findings(by_test: Sequence[Line], by_validation: Sequence[Line]) -> list[str]:
    schemes = by_validation[:6]
    counts = {word: sum(line.note == word for line in schemes) for word in ("better", "worse", "no difference seen")}
    gain = float(np.mean([line.ours or 0.0 for line in by_test[:6]]))
    luck = by_test[7].ours or 0.0
    return [
        f"With γ_S chosen on held out rows, of the six schemes {counts['better']} have a lower error than the standard "
        f"network, {counts['worse']} a higher one, and for {counts['no difference seen']} the 95 % interval holds 0.",
        f"Chosen on the test rows, as the paper's table looks, the six schemes differ from the standard network by "
        f"{gain:+.4f} on average; taking the best of as many standard networks with other random starts gives "
        f"{luck:+.4f}.",
    ]


TABLES = tuple(
    Table(
        name=f"gwl-table{number}",
        title=f"MAE of networks {'-'.join(map(str, NETS[number][0]))} on white wine, with and without density weights",
        paper="gwl",
        data=("wine_quality_white",),
        jobs=partial(_jobs, number=number),
        report=partial(_report, number=number),
        needs=("torch",),
    )
    for number in NETS
)
