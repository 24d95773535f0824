"""`evenmargin warmup`: fit small machines of every kind, so that all loops are compiled before the first real fit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import make_classification

from .. import EvenMarginClassifier, KernelSVM, LinearSVM, SharedGridSearch
from .._core import cache_folder
from ..losses import LOSSES, get_loss
from ..solvers import KERNEL_SOLVERS, SOLVERS, Solver
from ._voice import Voice


def warmup(voice: Voice) -> None:
    """Fit one of each."""
    started = time.perf_counter()
    steps = list(_steps())
    with voice.progress("compiling", len(steps)) as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few rows do not converge, and need not
        for name, fit in steps:
            advance(0, name)
            fit()
            advance(1, name)
    seconds, folder = time.perf_counter() - started, cache_folder()
    where = f"kept in {folder}" if folder else "but nothing could be kept: there is no cache folder to write to"
    voice.done = True
    voice.say(f"Compiled the loops of {len(steps)} kinds of fits in {seconds:.1f} s, {where}.")
    voice.facts |= {"kinds": len(steps), "seconds": seconds, "cache": folder}


def _steps() -> Iterator[tuple[str, Callable[[], Any]]]:
    X, y = make_classification(120, 5, weights=[0.8], random_state=0)
    yield "EvenMarginClassifier", partial(EvenMarginClassifier(folds=2).fit, X, y)
    search = SharedGridSearch(KernelSVM(), {"C": [0.1, 1.0], "gamma": [0.1, 1.0]}, cv=2)
    yield "SharedGridSearch", partial(search.fit, X, y)
    for dtype in (np.float64, np.float32):
        dense = np.ascontiguousarray(X, dtype)
        for layout, rows in (("dense", dense), ("sparse", csr_array(dense))):
            for solver, loss in _pairs(SOLVERS):
                linear = LinearSVM(loss=loss, solver=solver, max_iter=20, random_state=0)
                yield f"linear {solver} {loss} {layout}", partial(linear.fit, rows, y)
        for solver, loss in _pairs(KERNEL_SOLVERS):
            curved = KernelSVM(loss=loss, solver=solver, max_iter=20, random_state=0)
            yield f"kernel {solver} {loss}", partial(curved.fit, dense, y)


def _pairs(solvers: dict[str, type[Solver]]) -> Iterator[tuple[str, str]]:
    """Solvers with the losses that they take."""
    for name, solver in solvers.items():
        yield from ((name, loss) for loss in LOSSES if solver().takes(get_loss(loss)))
