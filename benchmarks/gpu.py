"""GPU speed: the fused kernel against its bounds and tiled torch, and the machines against the CPU.

    python benchmarks/gpu.py [--data FOLDER] [--repeats 3] [--only PART]

Prints Markdown tables, with an error against float64 for every time, and exits with status 1
if an error is above its bound. Whether a target is met is answered by yes or no. Times on
the GPU are medians after a first call, which compiles; the CPU is that of the same machine,
with all its cores. Without Triton the tables show plain torch.

- dot: K(A, B)·v, RBF, 262 144 × 262 144 × 64, in "fast" and "high" precision; other shapes.
  Errors: the largest, relative to the largest sum; relative to each row's sum, for v > 0;
  relative to Σ K|v|, for v of both signs. Bounds: a pair of rows takes one 2^x, of which a
  multiprocessor does 16 per clock, and 2·64 flops, of which it does 4 096 per clock in half
  precision (capability 9.0; half as many in tf32). "fast" computes every fourth 2^x by a
  polynomial on other units, so it could be faster: its own bound is listed as well, and "of
  the bound" refers to all 2^x by the instruction.
  Targets for "fast": 70 % of that bound, 15 × tiled torch.
- density: DensityWeights of 1 000 000 × 50. Target: less than 1.5 s.
- sgd: 1 000 000 steps of kernel SGD, log loss, on as many rows. Target: less than 15 s.
  Coefficients are compared with the CPU's on 20 000 rows.
- smo: mnist, 8 against the rest, 60 000 × 780, C = 1, balanced. Target: 10 × the CPU.
- nystroem, predict, search: features, scores and a grid search against the CPU.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from common import alternate, arrays_of, main, table, timed
from sklearn.model_selection import StratifiedKFold

from evenmargin import DensityWeights, KernelSVM
from evenmargin._device import arrays, products
from evenmargin.kernels import RBF, kernel_dot
from evenmargin.nystroem import StratifiedNystroem
from evenmargin.selection import SharedGridSearch

try:
    import torch
except ImportError:
    torch = None

missed: list[str] = []


def device() -> Any:
    """The GPU; exits with a message if there is none."""
    if torch is None or not torch.cuda.is_available():
        sys.exit("This benchmark needs a CUDA device that PyTorch can use, and there is none.")
    return torch.device("cuda", torch.cuda.current_device())


def checked(name: str, error: float, bound: float) -> str:
    """An error for a table; remembered if it is above its bound."""
    if not error <= bound:
        missed.append(f"{name}: {error:.1e}, above {bound:.0e}")
    return f"{error:.1e}"


def answer(shown: bool) -> str:
    return "yes" if shown else "no"


def milliseconds(function: Callable[[], object], repeats: int) -> float:
    """Median time on the GPU."""
    found = []
    for _ in range(repeats + 1):
        before, after = torch.cuda.Event(True), torch.cuda.Event(True)
        before.record()
        function()
        after.record()
        torch.cuda.synchronize()
        found.append(before.elapsed_time(after))
    return float(np.median(found[1:]))


def on_gpu(function: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Seconds of the first call, and the median of later ones."""

    def waiting() -> None:
        function()
        torch.cuda.synchronize()

    return timed(waiting), alternate([waiting], repeats)[0]


@contextmanager
def plain_torch():
    """Without the fused kernel."""
    engine, products._engine = products._engine, lambda device: None
    try:
        yield
    finally:
        products._engine = engine


def fused() -> bool:
    engine = products._engine(device())
    return engine is not None and engine._works(device())


def normal(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns), dtype=np.float32)


def labels(X: np.ndarray) -> np.ndarray:
    """Labels with a tenth of positives, by a curved border and some noise."""
    noise = np.random.default_rng(1).standard_normal(len(X))
    score = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * noise
    return (score > np.quantile(score, 0.9)).astype(np.int64)


# The product itself


def points(kernel: Any, X: np.ndarray, centre: Any = None) -> Any:
    return products.DevicePoints(kernel, arrays.Rows.put(X, device()), np.float32, centre)


def exact(kernel: Any, A: np.ndarray, B: np.ndarray, v: np.ndarray) -> np.ndarray:
    """K(A, B)·v on the GPU in float64, precise enough for distances from norms and products."""
    put = lambda X: torch.as_tensor(X, dtype=torch.float64, device=device())  # noqa: E731
    left, total = put(A), torch.zeros(len(A), dtype=torch.float64, device=device())
    for j in range(0, len(B), 16384):
        right = put(B[j : j + 16384])
        squares = left.square().sum(1)[:, None] + right.square().sum(1) - 2.0 * left @ right.T
        total += torch.exp(-kernel.gamma * squares.clamp_(min=0.0)) @ put(v[j : j + 16384])
    return total.cpu().numpy()


def exp_only(n: int, repeats: int) -> float:
    """Milliseconds for n² times a 2^x and an addition, from registers, in Triton."""
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(X, OUT, n, BM: tl.constexpr, BN: tl.constexpr):
        i = tl.arange(0, BM)
        x = tl.load(X + i[:, None] * BN + tl.arange(0, BN)[None, :])
        total = tl.zeros((BM, BN), tl.float32)
        more = 0.0
        for _ in range(0, n, BN):
            total += tl.inline_asm_elementwise(
                "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x + more], dtype=tl.float32, is_pure=True, pack=1
            )
            more += 1e-6
        tl.store(OUT + tl.program_id(0) * BM + i, tl.sum(total, axis=1))

    X, out = torch.randn(128, 64, device=device()), torch.empty(n, device=device())
    return milliseconds(lambda: kernel[(n // 128,)](X, out, n, 128, 64, num_warps=8), repeats)


def clock() -> float:
    """The highest clock in Hz according to PyTorch or nvidia-smi; NaN if neither knows it."""
    known = getattr(torch.cuda.get_device_properties(device()), "clock_rate", 0)
    if known:
        return 1e3 * known
    query = ["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits", f"--id={device().index}"]
    try:
        return 1e6 * float(subprocess.run(query, capture_output=True, text=True, check=True).stdout)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return float("nan")


def bounds(n: int, d: int, repeats: int) -> tuple[float, float]:
    """Print the lower bounds of the product; return the slower of exp and product in ms, calculated and measured.

    The calculated one is NaN if the clock is not known.
    """
    count, hertz = torch.cuda.get_device_properties(device()).multi_processor_count, clock()
    pairs, most = float(n) * n, count * hertz
    rate = "unknown clock" if np.isnan(hertz) else f"{hertz / 1e9:.2f} GHz"
    rows = [["2^x, 16 a clock", f"{pairs:.3g} / (16 · {count} · {rate})", 1e3 * pairs / (16 * most)]]
    if torch.cuda.get_device_capability(device()) == (9, 0):
        for name, flops in (("half", 4096), ("tf32", 2048)):
            rows.append(
                [f"product in {name}", f"2 · {d} · {pairs:.3g} / ({flops} · …)", 1e3 * 2 * d * pairs / (flops * most)]
            )
    paper = max(row[2] for row in rows[:2])
    rows.insert(1, ["2^x, three of four", 'what "fast" leaves to the instruction', 0.75 * rows[0][2]])
    square = torch.randn(8192, 8192, device=device(), dtype=torch.float16)
    rate = 2.0 * 8192**3 / milliseconds(lambda: square @ square, repeats)
    measured = [["product in half, measured", f"{rate / 1e9:.0f} TFLOP/s of torch, 8192³", 2 * d * pairs / rate]]
    if fused():
        measured.append(["2^x, measured", "from registers", exp_only(n, repeats)])
    shown = [[*row[:2], f"{row[2]:.1f}"] for row in rows + measured]
    table(f"Bounds, {n} × {n} × {d}", ["bound", "arithmetic", "ms"], shown)
    return paper, max(row[2] for row in measured)


def dot(folder: Path, repeats: int) -> None:
    print(
        f"\n{torch.cuda.get_device_name(device())}, PyTorch {torch.__version__}, Triton: {'yes' if fused() else 'no'}."
    )
    n, d = 262_144, 64
    paper, measured = bounds(n, d, repeats)
    kernel, A, B = RBF(1.0 / d), normal(n, d), normal(n, d, 1)
    rng, some = np.random.default_rng(2), np.arange(0, n, n // 512)
    above = rng.uniform(0.1, 1.0, n).astype(np.float32)
    both = rng.standard_normal(n, dtype=np.float32)
    truth, mixed, scale = (exact(kernel, A[some], B, v) for v in (above, both, np.abs(both)))
    left, right = points(kernel, A), points(kernel, B)
    v, u = (torch.as_tensor(each, device=device()) for each in (above, both))
    rows, times = [], {}

    def measure(name: str, precision: str, limit: float) -> None:
        started = time.perf_counter()
        found = products.dot(kernel, left, right, v, precision=precision).cpu().numpy()
        first = time.perf_counter() - started
        times[name] = milliseconds(lambda: products.dot(kernel, left, right, v, precision=precision), repeats)
        apart = np.abs(found[some] - truth)
        signed = np.abs(products.dot(kernel, left, right, u, precision=precision).cpu().numpy()[some] - mixed) / scale
        errors = apart.max() / truth.max(), (apart / truth).max(), signed.max()
        rows.append([name, f"{first:.2f}", f"{times[name]:.2f}", *(checked(f"dot, {name}", e, limit) for e in errors)])

    if fused():
        measure("fused, fast", "fast", 1e-3)
        measure("fused, high", "high", 1e-5)
    with plain_torch():
        measure("tiled torch", "high", 1e-5)
    for row in rows:
        ms = times[row[0]]
        times_faster, best = times["tiled torch"] / ms, row[0] == "fused, fast"
        row += [f"{paper / ms:.0%}", f"{measured / ms:.0%}", f"{times_faster:.1f}"]
        row.append(answer(paper / ms >= 0.7 and times_faster >= 15.0) if best else "")
    table(
        f"K·v, {n} × {n} × {d}",
        [
            "way",
            "first call s",
            "ms",
            "error",
            "row by row",
            "both signs",
            "of the bound",
            "as measured",
            "× tiled torch",
            "≥ 70 % and ≥ 15 ×",
        ],
        rows,
    )
    shapes(repeats)


def shapes(repeats: int) -> None:
    """Shapes that solvers need: few rows against many, many against few, long rows; and rows far apart."""
    rows, square = [], (100_000, 100_000)
    for p, q, d, far in ((1024, 400_000, 50, 0), (60_000, 250, 780, 0), (*square, 20, 0), (*square, 100, 0),
                         (*square, 20, 7), (*square, 20, 30), (*square, 20, 170)):  # fmt: skip
        kernel, A, B = RBF(1.0 / d), normal(p, d), normal(q, d, 1)
        if far:
            A = B = spread(A, far)  # as for densities: far rows have few neighbours but themselves
        v = np.random.default_rng(2).standard_normal(q, dtype=np.float32)
        some = np.arange(0, p, max(1, p // 512))
        truth, scale = exact(kernel, A[some], B, v), exact(kernel, A[some], B, np.abs(v))
        left, right, w = points(kernel, A), points(kernel, B), torch.as_tensor(v, device=device())
        row: list = [f"{p} × {q} × {d}" + (f", γ‖x‖² to {far}" if far else "")]
        limit = 1e-4 if far > 8 else 1e-5

        def add(precision: str, limit: float) -> None:
            work = lambda: products.dot(kernel, left, right, w, precision=precision)  # noqa: B023, E731
            error = float((np.abs(work().cpu().numpy()[some] - truth) / scale).max())  # noqa: B023
            row.extend([f"{milliseconds(work, repeats):.2f}", checked(f"dot {row[0]}", error, limit)])  # noqa: B023

        add("fast", 1e-3)
        add("high", limit)
        with plain_torch():
            add("high", limit)
        rows.append(row)
    header = ["shape", "fast ms", "error", "high ms", "error", "tiled torch ms", "error"]
    table("Other shapes, v of both signs", header, rows)


def spread(X: np.ndarray, far: float) -> np.ndarray:
    """Rows of many norms, up to ‖x‖²/d = far."""
    X = X * np.random.default_rng(3).uniform(0.0, 1.0, (len(X), 1)).astype(np.float32)
    return X * np.float32(np.sqrt(far * X.shape[1] / np.square(X).sum(axis=1).max()))


# The machines


def density(folder: Path, repeats: int) -> None:
    X = normal(1_000_000, 50)
    tensor = torch.as_tensor(X, device=device())
    kernel, some, rows = RBF(1.0 / X.shape[1]), np.arange(0, len(X), 5000), []
    truth = exact(kernel, X[some], X, np.ones(len(X), np.float32))
    for name, given in (("NumPy", X), ("CUDA tensor", tensor)):
        rule = DensityWeights(gamma=kernel.gamma, device="cuda")
        first, seconds = on_gpu(lambda rule=rule, given=given: rule.fit(given), repeats)
        error = np.abs(arrays.to_host(rule.density_)[some] / truth - 1.0).max()
        rows.append(
            [name, f"{first:.2f}", f"{seconds:.2f}", answer(seconds < 1.5), checked(f"density, {name}", error, 1e-5)]
        )
    table("DensityWeights of 1000000 × 50", ["X", "first call s", "s", "< 1.5 s", "error"], rows)


def sgd(folder: Path, repeats: int) -> None:
    def machine(steps: int, where: str | None) -> KernelSVM:
        return KernelSVM(
            alpha=1e-4, loss="log", class_weight="balanced", gamma=0.02, solver="sgd", intercept=None, max_iter=steps,
            random_state=0, device=where,
        )  # fmt: skip

    X = normal(1_000_000, 50)
    y = labels(X)
    few, steps = slice(0, 20_000), 20_000
    here, there = machine(steps, None).fit(X[few], y[few]), machine(steps, "cuda").fit(X[few], y[few])
    coef = np.zeros((2, steps))
    for row, svm in zip(coef, (here, there), strict=True):
        row[svm.support_] = svm.dual_coef_[0]
    apart = np.abs(coef[0] - coef[1]).max() / np.abs(coef[0]).max()
    large = machine(1_000_000, "cuda")
    seconds = timed(lambda: large.fit(X, y))
    some = np.arange(0, len(X), 5000)
    truth = exact(RBF(0.02), X[some], X[large.support_], large.dual_coef_[0])
    error = np.abs(large.decision_function(X[some]) - truth).max() / np.abs(truth).max()
    table(
        "1000000 steps of kernel SGD on 1000000 × 50",
        ["s", "< 15 s", "support vectors", "error of scores", "coefficients against the CPU's, 20000 rows"],
        [
            [
                f"{seconds:.2f}",
                answer(seconds < 15.0),
                large.support_.size,
                checked("sgd, scores", error, 1e-4),
                checked("sgd, CPU", apart, 1e-3),
            ]
        ],
    )


def smo(folder: Path, repeats: int) -> None:
    X, y = arrays_of(folder, "mnist")
    X = np.ascontiguousarray(X / 255.0, dtype=np.float32)
    if len(np.unique(y)) > 2:
        y = (y == 8).astype(np.int64)
    tensor = torch.as_tensor(X, device=device())
    options = {"C": 1.0, "gamma": 1.0 / X.shape[1], "class_weight": "balanced"}
    here, there = KernelSVM(**options), KernelSVM(**options, device="cuda")
    here.fit(X[:4000], y[:4000])  # compiled, or loaded
    there.fit(tensor[:4000], y[:4000])
    slow = timed(lambda: here.fit(X, y))
    found: list = [["CPU, NumPy", f"{slow:.2f}", "", "", *about(here), ""]]
    for name, given in (("GPU, CUDA tensor", tensor), ("GPU, NumPy", X)):
        _, seconds = on_gpu(lambda given=given: there.fit(given, y), repeats)
        apart = abs(float(there.objective_) - float(here.objective_)) / abs(float(here.objective_))
        faster = slow / seconds
        found.append(
            [name, f"{seconds:.2f}", f"{faster:.1f}", answer(faster >= 10.0), *about(there),
             checked(f"smo, {name}", apart, 1e-3)]
        )  # fmt: skip
    header = [
        "where", "s", "× CPU", "≥ 10 ×", "support vectors", "objective", "gap / objective",
        "objective against the CPU's",
    ]  # fmt: skip
    table(f"SMO, mnist, 8 against the rest, {X.shape[0]} × {X.shape[1]}", header, found)


def about(svm: KernelSVM) -> list:
    objective = float(svm.objective_)
    return [len(svm.support_), f"{objective:.4f}", f"{float(svm.dual_gap_) / objective:.0e}"]


def nystroem(folder: Path, repeats: int) -> None:
    X = normal(1_000_000, 50)
    y, some = labels(X), slice(0, 2000)
    maps = [StratifiedNystroem(gamma=0.02, n_components=500, random_state=0, device=where) for where in (None, "cuda")]
    for each in maps:
        each.fit(X[:50_000], y[:50_000])
    tensor = torch.as_tensor(X, device=device())
    truth = maps[0].transform(X[some].astype(np.float64))
    slow = timed(lambda: maps[0].transform(X))
    rows = [["CPU", f"{slow:.2f}", "", f"{np.abs(maps[0].transform(X[some]) - truth).max() / np.abs(truth).max():.1e}"]]
    for name, given in (("GPU, NumPy", X), ("GPU, CUDA tensor", tensor)):
        _, seconds = on_gpu(lambda given=given: maps[1].transform(given), repeats)
        error = np.abs(arrays.to_host(maps[1].transform(given[some])) - truth).max() / np.abs(truth).max()
        rows.append([name, f"{seconds:.3f}", f"{slow / seconds:.1f}", checked(f"nystroem, {name}", error, 1e-3)])
    table("StratifiedNystroem, 500 landmarks, transform of 1000000 × 50", ["where", "s", "× CPU", "error"], rows)


def predict(folder: Path, repeats: int) -> None:
    """With kernel values of all sizes, and with most of them near 1, where K − 1 is summed."""
    X = normal(500_000, 50)
    y, some, rows = labels(X), np.arange(0, len(X), 2500), []
    for gamma in (0.02, 0.002):
        here, there = (
            KernelSVM(gamma=gamma, class_weight="balanced", device=where).fit(X[:20_000], y[:20_000])
            for where in (None, "cuda")
        )
        slow = timed(lambda here=here: here.decision_function(X))
        fast = on_gpu(lambda there=there: there.decision_function(X), repeats)[1]
        for name, svm, seconds in (("CPU", here, slow), ("GPU", there, fast)):
            vectors = svm.support_vectors_.astype(np.float64)
            truth = kernel_dot(svm.kernel_, X[some].astype(np.float64), vectors, svm.dual_coef_[0]) + svm.intercept_
            error = np.abs(svm.decision_function(X)[some] - truth).max() / np.abs(truth).max()
            shown = checked(f"predict, {name}, gamma={gamma}", error, 1e-4)
            dtype = "float32" if svm._single else "float64"
            rows.append(
                [gamma, name, f"{seconds:.3f}", f"{slow / seconds:.1f}", svm.support_.size, svm._shift, dtype, shown]
            )
    header = ["gamma", "where", "s", "× CPU", "support vectors", "shift", "in", "error / largest score"]
    table("Scores of 500000 × 50", header, rows)


def search(folder: Path, repeats: int) -> None:
    X = normal(12_000, 30)
    y, grid = labels(X), {"C": [0.1, 1.0, 10.0, 100.0], "gamma": [0.01, 0.03, 0.1]}
    rows, scores = [], []
    for name, where in (("CPU", None), ("GPU", "cuda")):
        machine = KernelSVM(class_weight="balanced", device=where)
        found = SharedGridSearch(machine, grid, cv=StratifiedKFold(3), scoring="balanced_accuracy")
        found.fit(X[:1500], y[:1500])  # compiled, or loaded
        seconds = timed(lambda found=found: found.fit(X, y))
        scores.append(np.asarray(found.cv_results_["mean_test_score"]))
        rows.append([name, f"{seconds:.2f}", f"{found.best_score_:.4f}", str(found.best_params_)])
    apart = float(np.abs(scores[0] - scores[1]).max())
    rows[0].append("")
    rows[1].append(checked("search", apart, 5e-3))
    header = ["where", "s", "best score", "best", "largest difference of a score"]
    table("SharedGridSearch, 12000 × 30, 12 candidates × 3 folds", header, rows)


def with_gpu(part: Callable[[Path, int], None]) -> Callable[[Path, int], None]:
    def run(folder: Path, repeats: int) -> None:
        device()
        part(folder, repeats)

    return run


if __name__ == "__main__":
    parts = {part.__name__: with_gpu(part) for part in (dot, density, sgd, smo, nystroem, predict, search)}
    main(__doc__ or "", parts, repeats=3)
    if missed:
        sys.exit("Errors above their bounds: " + "; ".join(missed) + ".")
