"""Kernel machines against scikit-learn's SVC and scikit-learn-intelex: fits, predictions, memory, and their parts.

    python benchmarks/kernel.py [--data FOLDER] [--repeats 3] [--only PART]

Prints Markdown tables. The data are the papers' own, as .npz files in FOLDER or in
$EVENMARGIN_DATA; features standardised (mnist: pixels/255; ijcnn1, adult, usps:
as they are), float64, RBF with gamma = 1/columns, balanced class weights, tol = 1e-3
for all. Each time is a median of alternating runs; ratios above 1 mean that we are
faster. SVC has one thread by design; intelex and ours use all cores.
scikit-learn-intelex is left out if it is not installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from common import allocated, alternate, arrays_of, main, table, timed
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from evenmargin import DensityWeights, KernelSVM, ZAdjustedClassifier
from evenmargin._util.threads import available_cores
from evenmargin.adjust import best_z
from evenmargin.kernels import RBF, kernel_dot
from evenmargin.sampling import Given

try:
    from sklearnex.svm import SVC as IntelSVC
except ImportError:
    IntelSVC = None

PEERS = [SVC] if IntelSVC is None else [SVC, IntelSVC]
NAMES = ["SVC", "intelex"][: len(PEERS)]


def load(folder: Path, name: str, n: int | None = None, dtype: type = np.float64) -> tuple:
    X, y = arrays_of(folder, name)
    X = X.astype(np.float64)
    if name == "mnist":
        X /= 255
    elif name not in ("adult_a9a", "ijcnn1", "usps"):
        X = StandardScaler().fit_transform(X)
    rows = np.random.default_rng(0).permutation(len(y))[:n] if n else np.arange(len(y))
    return np.ascontiguousarray(X[rows], dtype=dtype), y[rows]


def options(X, C: float) -> dict:
    return {"C": C, "gamma": 1.0 / X.shape[1], "class_weight": "balanced", "cache_size": 200}


def dual(machine, X) -> float:
    """Σ|β| − 1/2 βᵀKβ in float64."""
    beta = np.asarray(machine.dual_coef_).ravel()
    vectors = X[machine.support_]
    product = kernel_dot(RBF(1.0 / X.shape[1]), vectors, vectors, beta, dtype=np.float64)
    return float(np.abs(beta).sum() - 0.5 * beta @ product)


def geometric(ratios: list[list[float]], before: int, after: int) -> list[str]:
    """The last row of a table: geometric means of the ratios, with empty cells before and after them."""
    means = [f"**{np.exp(np.mean(np.log(each))):.1f}**" for each in ratios]
    return ["geometric mean", *[""] * before, *means, *[""] * after]


def compared(times: list[float], ratios: list[list[float]]) -> list[str]:
    """Times of the peers relative to ours, which is the last; kept for the geometric mean."""
    for collected, peer in zip(ratios, times[:-1], strict=True):
        collected.append(peer / times[-1])
    return [f"{collected[-1]:.1f}" for collected in ratios]


def fits(title: str, cases: list, repeats: int, peers: list, names: list, folder: Path, mark=None) -> None:
    rows, ratios = [], [[] for _ in peers]
    for name, n, C in cases:
        X, y = load(folder, name, n)
        for kind in [*peers, KernelSVM]:
            kind(**options(X, C)).fit(X[:3000], y[:3000])  # compiled, or loaded
        machines: list = []

        def fit(kind: type, X=X, y=y, C=C, machines=machines) -> None:
            machines.append(kind(**options(X, C)).fit(X, y))

        times = alternate([lambda kind=kind: fit(kind) for kind in [*peers, KernelSVM]], repeats)
        ours, theirs = machines[-1], machines[len(peers) * -1 - 1]
        apart = (dual(ours, X) - dual(theirs, X)) / abs(dual(theirs, X))
        rows.append([
            name, *X.shape, f"{C:g}", ours.support_.size, *(f"{t:.3f}" for t in times),
            *compared(times, ratios),
            f"{ours.dual_gap_ / ours.objective_:.0e}", f"{apart:+.0e}",
        ])  # fmt: skip
    rows.append(geometric(ratios, 5 + len(peers), 2))
    header = ["data", "rows", "columns", "C", "support vectors", *(f"{name} s" for name in names), "ours s"]
    table(title, [*header, *(f"× {name}" for name in names), "our gap", "dual objective over SVC's"], rows)


def usual(folder: Path, repeats: int) -> None:
    named = [("ijcnn1", None), ("adult_a9a", 10_000), ("shuttle", 20_000), ("mnist", 5_000), ("ijcnn1", 10_000)]
    fits("Fits at C = 1", [(*case, 1.0) for case in named], repeats, PEERS, NAMES, folder)
    others = [("letter", None), ("usps", None), ("adult_a9a", 20_000), ("mammography", None), ("euthyroid", None)]
    fits("Fits at C = 1, other data", [(*case, 1.0) for case in others], repeats, PEERS, NAMES, folder)


def large(folder: Path, repeats: int) -> None:
    sets = [("ijcnn1", 10_000), ("adult_a9a", 10_000), ("mammography", None), ("euthyroid", None), ("mnist", 5_000)]
    cases = [(*case, C) for C in (10.0, 100.0, 1000.0) for case in sets]
    fits("Fits at a large C", cases, repeats, PEERS, NAMES, folder)


def growth(folder: Path, repeats: int) -> None:
    cases = [(name, n, 1.0) for name in ("ijcnn1", "shuttle") for n in (5_000, 10_000, 20_000, 50_000)]
    cases += [("mnist", n, 1.0) for n in (5_000, 10_000, 20_000)]
    fits("Growth with the number of rows, one run each", cases, 1, PEERS, NAMES, folder)


def predictions(folder: Path, repeats: int) -> None:
    rows, ratios = [], [[] for _ in PEERS]
    cases = [
        ("ijcnn1", 20_000, 1.0), ("adult_a9a", 10_000, 1.0), ("shuttle", 20_000, 1.0), ("mnist", 5_000, 1.0),
        ("letter", 20_000, 1.0), ("usps", None, 1.0), ("mammography", None, 100.0), ("mnist", 5_000, 100.0),
    ]  # fmt: skip
    for name, n, C in cases:
        X, y = load(folder, name, n)
        machines = [kind(**options(X, C)).fit(X, y) for kind in [*PEERS, KernelSVM]]
        some = X[:5000]
        times = alternate([lambda m=m, some=some: m.decision_function(some) for m in machines], repeats)
        ours = machines[-1]
        exact = kernel_dot(ours.kernel_, some, ours.support_vectors_, ours.dual_coef_[0], dtype=np.float64)
        exact += ours.intercept_
        error = np.abs(ours.decision_function(some) - exact).max() / np.abs(exact).max()
        kind = "float32" if ours._single else "float64"
        rows.append([
            name, f"{C:g}", ours.support_.size, kind, *(f"{1e3 * t:.1f}" for t in times),
            *compared(times, ratios), f"{error:.0e}",
        ])  # fmt: skip
    rows.append(geometric(ratios, 4 + len(PEERS), 1))
    header = ["data", "C", "support vectors", "tiles", *(f"{name} ms" for name in NAMES), "ours ms"]
    table("Scores of 5 000 rows", [*header, *(f"× {name}" for name in NAMES), "error / largest score"], rows)


def bare(left_rows, right_rows, gamma: float, sizes: list[tuple[int, int]]) -> float:
    """Seconds for products and NumPy's exp of float32 tiles alone, on all cores: p × q values for each (p, q)."""
    scale, cores, tile = np.float32(np.sqrt(2 * gamma)), available_cores(), 512

    def ready(X, right: bool):
        half = -0.5 * np.einsum("ij,ij->i", scale * X, scale * X)[:, None]
        one = np.ones_like(half)
        return np.hstack([scale * X, one, half] if right else [scale * X, half, one])

    left, right = ready(left_rows, False), ready(right_rows, True)

    def work(first: int) -> None:
        buffer = np.empty(tile * tile, np.float32)
        for p, q in sizes:
            jobs = [(i, j) for i in range(0, p, tile) for j in range(0, q, tile)]
            for i, j in jobs[first::cores]:
                a, b = left[i : min(i + tile, p)], right[j : min(j + tile, q)]
                out = buffer[: len(a) * len(b)].reshape(len(a), len(b))
                np.dot(a, b.T, out=out)
                np.exp(out, out=out)

    started = time.perf_counter()
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(cores) as pool:
        list(pool.map(work, range(cores)))
    return time.perf_counter() - started


def row_by_row(X, y, order, lam: float, gamma: float) -> None:
    """WKSGD in NumPy with one row of kernel values per step; the rows drawn so far are stored together."""
    squares, n = np.einsum("ij,ij->i", X, X), len(y)
    place, rows, norms = np.full(n, -1), np.empty_like(X), np.empty(n, X.dtype)
    beta, count = np.zeros(n, X.dtype), 0
    weight = np.where(y > 0, 1 / (y > 0).sum(), 1 / (y < 0).sum())
    for t, i in enumerate(order, start=1):
        score = 0.0
        if count:
            k = rows[:count] @ X[i]
            k *= 2
            k -= norms[:count]
            k -= squares[i]
            k *= gamma
            np.exp(k, out=k)
            score = float(k @ beta[:count]) / (t - 1)
        if place[i] < 0:
            place[i], rows[count], norms[count] = count, X[i], squares[i]
            count += 1
        beta[place[i]] += weight[i] / lam * y[i] / (1 + np.exp(min(y[i] * score, 50.0)))


def sgd(folder: Path, repeats: int) -> None:
    X, y = load(folder, "ijcnn1", dtype=np.float32)
    gamma, T = 1.0 / X.shape[1], 50_000
    order = np.random.default_rng(0).integers(len(y), size=T)
    seen, sizes = np.zeros(len(y), bool), []
    for start in range(0, T, 256):
        sizes.append((256, int(seen.sum())))
        seen[order[start : start + 256]] = True
    rows = []
    slow = timed(lambda: row_by_row(X, y, order, 1e-4, gamma))
    for loss, class_weight in (("log", "inverse"), ("hinge", None)):
        for dtype in (np.float32, np.float64):
            svm = KernelSVM(
                alpha=1e-4, loss=loss, class_weight=class_weight, gamma=gamma, solver="sgd", intercept=None,
                sampling=Given(order), max_iter=T,
            )  # fmt: skip
            data = X.astype(dtype)
            clone = KernelSVM(**{**svm.get_params(), "max_iter": 1000})
            clone.fit(data, y)  # compiled, or loaded
            floor, ours = alternate([lambda: bare(X, X, gamma, sizes), lambda s=svm, d=data: s.fit(d, y)], repeats)
            rows.append([
                loss, dtype.__name__, svm.support_.size, f"{floor:.2f}", f"{ours:.2f}", f"{ours / floor:.2f}",
                *([f"{slow:.1f}", f"{slow / ours:.1f}"] if loss == "log" and dtype is np.float32 else ["", ""]),
            ])  # fmt: skip
    table(
        f"Kernel SGD, {T} steps on ijcnn1 (49990 × 22), against its float32 matrix products and NumPy's exp alone",
        ["loss", "dtype", "support vectors", "bare s", "ours s", "ours / bare", "row by row in NumPy s", "ratio"],
        rows,
    )


def density(folder: Path, repeats: int) -> None:
    X, _ = load(folder, "ijcnn1", dtype=np.float32)
    exact = DensityWeights("density", gamma=1.0 / X.shape[1])
    fourier = DensityWeights("density", gamma=1.0 / X.shape[1], method="fourier", random_state=0)
    exact.fit(X[:1000])
    n = len(X)
    jobs: list[Callable[[], object]] = [
        lambda: bare(X, X, 1.0 / X.shape[1], [(n, n)]), lambda: exact.fit(X), lambda: fourier.fit(X),
    ]  # fmt: skip
    floor, ours, approximate = alternate(jobs, repeats)
    error = np.sqrt(np.mean((fourier.density_ - exact.density_) ** 2)) / n
    peak = allocated(lambda: exact.fit(X)) / 1e6
    table(
        "Densities of ijcnn1 (49990 × 22, float32)",
        ["bare s", "exact s", "exact / bare", "peak MB", "X MB", "Fourier s", "its error of s/n"],
        [[f"{floor:.2f}", f"{ours:.2f}", f"{ours / floor:.2f}", f"{peak:.1f}", f"{X.nbytes / 1e6:.1f}",
          f"{approximate:.2f}", f"{error:.4f}"]],
    )  # fmt: skip


def z(folder: Path, repeats: int) -> None:
    rows = []
    for name, n in (("ijcnn1", None), ("mammography", None), ("euthyroid", None)):
        X, y = load(folder, name, n)
        svm = KernelSVM(gamma=1.0 / X.shape[1]).fit(X, y)
        up, down, b = svm.split_decision(X)
        scoring, search = alternate(
            [lambda s=svm, X=X: s.decision_function(X), lambda u=up, d=down, b=b, y=y: best_z(u, d + b, y)], repeats
        )
        whole = timed(lambda X=X, y=y: ZAdjustedClassifier(KernelSVM(gamma=1.0 / X.shape[1])).fit(X, y))
        rows.append(
            [name, len(y), f"{1e3 * scoring:.1f}", f"{1e3 * search:.1f}", f"{scoring / search:.1f}", f"{whole:.2f}"]
        )
    table(
        "The exact search for z against one pass of scores over the training rows",
        ["data", "rows", "scores ms", "search ms", "scores / search", "whole z-SVM s"],
        rows,
    )


def memory(folder: Path, repeats: int) -> None:
    rows = []
    for name, n, C, cache in (
        ("ijcnn1", None, 1.0, 200), ("mnist", 20_000, 1.0, 200), ("mnist", 20_000, 1.0, 50),
        ("adult_a9a", 10_000, 1000.0, 200), ("adult_a9a", 10_000, 1000.0, 50),
    ):  # fmt: skip
        X, y = load(folder, name, n)
        svm = KernelSVM(**{**options(X, C), "cache_size": cache})
        svm.fit(X[:3000], y[:3000])
        peak = allocated(lambda svm=svm, X=X, y=y: svm.fit(X, y)) / 1e6
        kept, size = svm.support_vectors_.nbytes / 1e6, X.nbytes / 1e6
        over = peak - cache - kept - 0.2 * size
        rows.append([name, *X.shape, f"{C:g}", cache, f"{size:.0f}", f"{kept:.0f}", f"{peak:.0f}", f"{over:+.0f}",
                     f"{over * 1e6 / len(y):+.0f}"])  # fmt: skip
    table(
        "Peak memory allocated by a fit, against cache_size + 20 % of X + the returned support vectors",
        ["data", "rows", "columns", "C", "cache_size MB", "X MB", "returned MB", "peak MB", "over MB", "bytes a row"],
        rows,
    )


if __name__ == "__main__":
    main(
        __doc__,
        {
            "usual": usual, "large": large, "predict": predictions, "sgd": sgd, "density": density, "z": z,
            "memory": memory, "growth": growth,
        },
        repeats=3,
    )  # fmt: skip
