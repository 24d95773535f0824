"""The generalized weighted loss (GWL), Tables V and VI: networks that grade white wine.

The paper trains a network with and without density weights, for each of six schemes, and
prints the mean absolute error (MAE) of both, the weighted one for its best γ_S. All
printed errors are whole multiples of 1/792: the test part is a fifth of the 3 961 wines, and
grades were rounded to whole ones before they were compared. Which rows chose γ_S is not
said; here it is done both by the test rows, and by rows held aside. The best of several
networks is better than one whatever their weights are, so random weights and the standard
network get as many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from .. import papers
from .._util.typing import Array
from ..density import SCHEMES, DensityWeights
from ._base import Job, Line, Report, Results, Settings, Sheet, Table
from ._measure import interval, mean_and_spread

__all__ = ["TABLES"]

GAMMAS = (0.01, 0.1, 1.0, 10.0, 100.0)
TEST, ASIDE = 0.2, 0.2  # of all rows, and of the rest
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


class Parts(NamedTuple):
    """Rows and grades to train on, to choose by, and to test on."""

    X: NDArray[Any]
    y: NDArray[Any]
    X_aside: NDArray[Any]
    y_aside: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]


@lru_cache(maxsize=2)
def _parts(settings: Settings, seed: int) -> Parts:
    """Those of a trial, the same for all its networks."""
    wine = settings.load("wine_quality_white")
    X, X_test, y, y_test = train_test_split(wine.X, wine.y, test_size=int(TEST * len(wine.y)), random_state=seed)
    X, X_aside, y, y_aside = train_test_split(X, y, test_size=ASIDE, random_state=seed)
    return Parts(*(np.ascontiguousarray(part) for part in (X, y, X_aside, y_aside, X_test, y_test)))


def _graded(settings: Settings, layers: tuple[int, ...], trial: int, density: Any, start: int = 0) -> list[float]:
    """One network: MAE of rounded grades on test rows, and MAE of the grades on those held aside."""
    seed = settings.seed + trial
    parts = _parts(settings, seed)
    network = papers.gwl_mlp(layers, None, epochs=20 if settings.quick else 200, random_state=seed + 1000 * start)
    network.set_params(density=density, early_stopping=True, n_iter_no_change=20).fit(parts.X, parts.y)
    return [
        float(np.mean(np.abs(np.rint(network.predict(parts.X_test)) - parts.y_test))),
        float(np.mean(np.abs(network.predict(parts.X_aside) - parts.y_aside))),
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


def _errors(settings: Settings, results: Results, kind: str) -> Array:
    """By trial, setting and figure."""
    trials = range(settings.repeats(TRIALS, 2))
    return np.array([results[_key(kind, trial)].figures["errors"] for trial in trials])


def _seconds(settings: Settings, results: Results, kind: str) -> float:
    """Of one network."""
    errors = _errors(settings, results, kind)
    return sum(results[_key(kind, trial)].seconds for trial in range(len(errors))) / (errors.shape[0] * errors.shape[1])


def _chosen(errors: Array, by: int) -> Array:
    """The rounded test error of each trial at the setting with the least figure `by`."""
    best = errors[:, :, by].argmin(axis=1)
    return np.asarray(errors[np.arange(len(errors)), best, 0])


def _report(settings: Settings, results: Results, number: str) -> Report:
    found = {kind: _errors(settings, results, kind) for kind in (PLAIN, RESTARTS, RANDOM, *SCHEMES[:6])}
    plain, matched = found[PLAIN][:, 0, 0], _chosen(found[RESTARTS], 1)
    standard = mean_and_spread(plain.tolist())
    values: list[Line] = []
    by_test: dict[str, Line] = {}
    by_aside: dict[str, Line] = {}
    for place, kind in enumerate((*SCHEMES[:6], RANDOM, RESTARTS)):
        seconds, note = _seconds(settings, results, kind), "not in the paper"
        label, theirs, gain = kind, None, None
        if place < 6:
            first, gamma, theirs = NETS[number][1][place]
            label, gain, note = f"({place + 1}) {kind}", theirs - first, f"the paper's γ_S: {gamma:g}"
            values.append(Line((label, "standard"), first, *standard, _seconds(settings, results, PLAIN)))
        best = _chosen(found[kind], 0)
        values.append(Line((label, "best on test rows"), theirs, *mean_and_spread(best.tolist()), seconds, note))
        by_test[kind] = _difference(label, gain, best - plain)
        if kind != RESTARTS:
            by_aside[kind] = _difference(label, None, _chosen(found[kind], 1) - matched, judged=True)
    how, tried = f"mean of {len(plain)} seeds", len(_gammas(settings))
    spread = "95 % interval"
    sheets = [
        Sheet(f"MAE of rounded grades, the best of {tried} on the test rows, {how}", ("scheme", "network"), values, 4,
              time="one network"),
        Sheet(f"MAE of the best of {tried} on the test rows less that of one standard network: what the paper's table "
              f"seems to show, and optimistic; {how}", ("scheme",), list(by_test.values()), 4, spread),
        Sheet(f"MAE of the best of {tried} γ_S, by rows held aside, less that of the best of {tried} standard "
              f"networks, "
              f"by the same rows; {how}", ("scheme",), list(by_aside.values()), 4, spread),
    ]  # fmt: skip
    return Report(sheets, _findings(by_test, by_aside))


def _difference(label: str, paper: float | None, differences: Array, judged: bool = False) -> Line:
    """The mean over seeds; the parts of different seeds have rows in common, which the interval counts."""
    mean, half = interval(differences.tolist(), overlap=TEST / (1.0 - TEST))
    return Line((label,), paper, mean, half, None, _verdict(mean, half) if judged else "")


def _verdict(difference: float, half: float) -> str:
    if abs(difference) <= half:
        return "no difference shown"
    return "lower" if difference < 0 else "higher"


def _findings(by_test: Mapping[str, Line], by_aside: Mapping[str, Line]) -> list[str]:
    notes = [by_aside[scheme].note for scheme in SCHEMES[:6]]
    gain = float(np.mean([by_test[scheme].ours or 0.0 for scheme in SCHEMES[:6]]))
    random, starts = (by_test[kind].ours or 0.0 for kind in (RANDOM, RESTARTS))
    return [
        f"Chosen by rows held aside, with as many networks on either side, {notes.count('lower')} of the six schemes "
        "have an error that is lower than the standard network's by its 95 % interval, "
        f"{notes.count('higher')} a higher one; for {notes.count('no difference shown')} the interval holds 0.",
        f"Chosen on the test rows, the schemes differ from one standard network by {gain:+.4f} on average; so do "
        f"random weights, by {random:+.4f}, and standard networks with other starts, by {starts:+.4f}: that much "
        "is the choice.",
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
