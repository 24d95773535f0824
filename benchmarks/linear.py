"""Linear machines against scikit-learn: ratios of times, memory, start-up.

    python benchmarks/linear.py [--data FOLDER] [--repeats 5] [--only PART]

Prints Markdown tables. The data are the papers' own (ijcnn1, adult_a9a as CSR,
mnist, shuttle) as .npz files in FOLDER or in $EVENMARGIN_DATA. Each ratio is the
median time of scikit-learn over ours, with alternating runs so that a busy machine
slows both; above 1 we are faster.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from common import allocated, alternate, arrays_of, main, table, timed
from scipy.sparse import csr_array, issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC

from evenmargin import LinearSVM, papers

warnings.simplefilter("ignore", ConvergenceWarning)


def load(folder: Path, name: str, dtype: type) -> tuple:
    """Features scaled to at most 1 in size, and labels."""
    X, y = arrays_of(folder, name)
    X = X.astype(dtype)
    if name in ("mnist", "shuttle", "letter"):
        X /= np.maximum(np.abs(X).max(axis=0), 1) if name != "mnist" else 255
    return (csr_array(X) if name == "adult_a9a" else np.ascontiguousarray(X)), y


def objective(model, X, y, C, loss, augmented) -> float:
    w, b = model.coef_[0].astype(np.float64), float(model.intercept_[0])
    slack = np.maximum(0, 1 - y * (X @ w + b)) if loss == "hinge" else np.logaddexp(0, -y * (X @ w + b))
    return 0.5 * w @ w + (0.5 * b * b if augmented else 0) + C * slack.sum()


def layout(X) -> str:
    return f"{X.shape[0]} × {X.shape[1]} {'CSR' if issparse(X) else 'dense'} {X.dtype}"


def sgd(folder: Path, repeats: int) -> None:
    rows = []
    for name in ("ijcnn1", "shuttle", "mnist", "adult_a9a"):
        for dtype in (np.float64, np.float32):
            X, y = load(folder, name, dtype)
            fits = []
            for epochs in (5, 25):
                peer = SGDClassifier(alpha=1e-4, fit_intercept=False, max_iter=epochs, tol=None, random_state=0)
                ours = LinearSVM(alpha=1e-4, intercept=None, solver="pegasos", max_iter=epochs * len(y), random_state=0)
                fits += [partial(peer.fit, X, y), partial(ours.fit, X, y)]
            fits[1]()
            few_peer, few, many_peer, many = alternate(fits, repeats)
            theirs, own = (many_peer - few_peer) / 20, (many - few) / 20
            rows.append(
                [name, layout(X), f"{1e3 * theirs:.2f}", f"{1e3 * own:.2f}", f"**{theirs / own:.1f}**",
                 f"{many_peer / many:.1f}"]
            )  # fmt: skip
    table(
        "One epoch of SGD with the hinge: a fit of 25 epochs minus one of 5, divided by 20",
        ["data", "X", "SGDClassifier ms", "LinearSVM(solver='pegasos') ms", "ratio", "ratio of whole fits of 25"], rows,
    )  # fmt: skip


def exact(folder: Path, repeats: int) -> None:
    rows = []
    for name in ("ijcnn1", "shuttle", "mnist", "adult_a9a"):
        X, y = load(folder, name, np.float64)
        peer = LinearSVC(loss="hinge", max_iter=1_000_000, random_state=0).fit(X, y)
        target = objective(peer, X, y, 1.0, "hinge", True)
        # One coordinate at a time takes half a minute on MNIST, like the peer: not repeated here.
        machines = [reaching(target, solver, X, y) for solver in ("newton", "dual_cd")[: 1 + (name != "mnist")]]
        theirs, *own = alternate([partial(model.fit, X, y) for model in (peer, *machines)], repeats)
        for ours, seconds in zip(machines, own, strict=True):
            rows.append(
                [name, layout(X), f"{target:.4f}", f"{theirs:.3f}", ours.solver_, f"{ours.tol:.0e}",
                 f"{ours.objective_:.4f}", f"{ours.dual_gap_ / ours.objective_:.0e}", f"{seconds:.3f}",
                 f"**{theirs / seconds:.1f}**"]
            )  # fmt: skip
    table(
        "The exact hinge at C = 1, to LinearSVC's objective at its default tol (max_iter raised)",
        ["data", "X", "LinearSVC objective", "s", "our solver", "tol", "objective", "gap", "s", "ratio"], rows,
    )  # fmt: skip


def unseen(folder: Path, repeats: int) -> None:
    rows = []
    for name, prices in (("letter", (0.1, 1.0, 10.0)), ("usps", (0.1, 1.0))):
        X, y = load(folder, name, np.float64)
        for C in prices:
            peer = LinearSVC(C=C, loss="hinge", max_iter=1_000_000, random_state=0).fit(X, y)
            ours = reaching(objective(peer, X, y, C, "hinge", True), "newton", X, y, C)
            theirs, own = alternate([partial(peer.fit, X, y), partial(ours.fit, X, y)], repeats)
            rows.append(
                [name, layout(X), C, f"{theirs:.3f}", f"{ours.tol:.0e}", f"{own:.3f}", f"**{theirs / own:.1f}**"]
            )
    table(
        "The same on data not used to choose the constants of `newton`",
        ["data", "X", "C", "LinearSVC s", "our tol", "newton s", "ratio"], rows,
    )  # fmt: skip


def reaching(target: float, solver: str, X, y, C: float = 1.0) -> LinearSVM:
    """The machine with the loosest tol that ends at or below the target."""
    for tol in (1e-5, 1e-6, 1e-7, 1e-8, 1e-9):
        ours = LinearSVM(C=C, intercept="augmented", solver=solver, tol=tol, random_state=0).fit(X, y)
        if ours.objective_ <= target * (1 + 1e-12):
            return ours
    raise RuntimeError(f"{solver} did not reach the objective of the peer")


def logistic(folder: Path, repeats: int) -> None:
    rows = []
    for name in ("ijcnn1", "shuttle", "adult_a9a"):
        X, y = load(folder, name, np.float64)
        peer = LogisticRegression(tol=1e-6, max_iter=10_000).fit(X, y)
        target = objective(peer, X, y, 1.0, "log", False)
        ours = LinearSVM(loss="log", tol=1e-8).fit(X, y)
        assert ours.objective_ <= target * (1 + 1e-9)
        theirs, own = alternate([partial(peer.fit, X, y), partial(ours.fit, X, y)], repeats)
        rows.append([name, layout(X), f"{theirs:.3f}", ours.solver_, f"{own:.3f}", f"**{theirs / own:.1f}**"])
    table(
        "Log loss at C = 1, at or below the objective of LogisticRegression(tol=1e-6)",
        ["data", "X", "LogisticRegression s", "our solver", "s", "ratio"], rows,
    )  # fmt: skip


def million_steps(folder: Path) -> None:
    X, y = load(folder, "mnist", np.float32)
    rows = []
    for name, paper in (("lsgd", 597.53), ("wlsgd", 633.60)):
        machine = getattr(papers, name)(random_state=0)
        machine.fit(X[:500], y[:500])
        seconds = timed(partial(machine.fit, X, y))
        rows.append([name.upper(), machine.n_iter_, f"{paper:.0f}", f"{seconds:.2f}"])
    table(
        "The log-loss paper's linear run on MNIST, 10⁶ steps (on different computers, so without a ratio)",
        ["machine", "steps", "paper s", "here s"], rows,
    )  # fmt: skip


def memory(folder: Path) -> None:
    rows = []
    for name in ("mnist", "ijcnn1"):
        for dtype in (np.float32, np.float64):
            X, y = load(folder, name, dtype)
            for options in (
                {"solver": "pegasos"}, {"solver": "dual_cd"}, {"solver": "newton"}, {"solver": "lbfgs", "loss": "log"},
            ):  # fmt: skip
                machine = LinearSVM(C=0.01, tol=1e-2, random_state=0, **options).fit(X[:2000], y[:2000])
                share = allocated(partial(machine.fit, X, y)) / X.nbytes
                rows.append([name, layout(X), options["solver"], f"{100 * share:.1f} %"])
    table("Peak memory allocated by a fit, relative to X", ["data", "X", "solver", "share of X"], rows)


def startup(repeats: int) -> None:
    def seconds(code: str) -> float:
        taken = []
        for _ in range(repeats + 1):
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            taken.append(float(done.stdout))
        return float(np.median(taken[1:]))

    clock = "import time; t = time.perf_counter()\n"
    peer = "import sklearn.linear_model, sklearn.svm\n"
    over = seconds(peer + clock + "import evenmargin\nprint(time.perf_counter() - t)")
    data = (
        peer + "import evenmargin, numpy as np\nX = np.random.default_rng(0).normal(size=(500, 5)); y = X[:, 0] > 1\n"
    )
    rows = [["import evenmargin, scikit-learn's linear_model and svm being imported", f"{over:.3f}"]]
    for options in ("", "solver='pegasos'", "loss='log'"):
        first = seconds(data + clock + f"evenmargin.LinearSVM({options}).fit(X, y)\nprint(time.perf_counter() - t)")
        rows.append([f"first LinearSVM({options}).fit in a process, compiled loops on disk", f"{first:.3f}"])
    table("Start-up", ["", "s"], rows)


if __name__ == "__main__":
    main(
        __doc__,
        {
            "sgd": sgd,
            "exact": exact,
            "unseen": unseen,
            "logistic": logistic,
            "steps": lambda folder, repeats: million_steps(folder),
            "memory": lambda folder, repeats: memory(folder),
            "startup": lambda folder, repeats: startup(repeats),
        },
    )
