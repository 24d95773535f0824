"""The fused kernel in Triton's interpreter, on the CPU: a script, to be run with TRITON_INTERPRET=1.

Prints, as JSON, the largest error of each product as a share of Σ K|v|; then how far machines whose
products are fused are from those of the host, and by how many products.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
from sklearn.base import clone

COLUMNS = (1, 17, 50, 90, 129)
FAR = (30, 170)


def main():
    from evenmargin._device import fused
    from evenmargin.kernels import RBF

    fused.EXP2 = ""  # machine code is not interpreted: Triton's own 2^x
    fused._properties = lambda device: SimpleNamespace(multi_processor_count=4)
    found = {}
    for d in COLUMNS:
        sides = RBF(0.3 / d), rows(201, d, 0), rows(777, d, 1)
        found[f"fast {d}"] = error(*sides, high=False)
        found[f"high {d}"] = error(*sides, high=True)
        found[f"shift {d}"] = error(*sides, high=True, shift=1.0)
    for far in FAR:
        X = rows(301, 3, 0)
        X[7:9] *= np.sqrt(far / (X[7:9] ** 2).sum(axis=1, keepdims=True))
        found[f"far {far}"] = error(RBF(1.0), X, X, high=False)
    for name, (apart, products) in machines(fused):
        found[name], found[f"{name}, products"] = apart, products
    print(json.dumps(found))


def rows(n, d, seed):
    return np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)


def error(kernel, A, B, high, shift=0.0):
    """Of sides that are no multiples of a tile, and three vectors with zeros and both signs."""
    import torch

    from evenmargin._device import arrays, fused, products
    from evenmargin.kernels import kernel_dot

    V = rows(len(B), 3, 2)
    V[::5] = 0.0
    points = [products.DevicePoints(kernel, arrays.Rows.put(X, torch.device("cpu")), np.float32) for X in (A, B)]
    found = fused._product(*points, torch.from_numpy(V).T, high, shift).T.numpy()
    A, B, V = (X.astype(np.float64) for X in (A, B, V))
    return float((np.abs(found - kernel_dot(kernel, A, B, V)) / kernel_dot(kernel, A, B, np.abs(V))).max())


def machines(engine):
    """(name, (largest difference from the host, as a share; products)) of fits with torch's CPU taken for a GPU."""
    import torch

    from evenmargin import DensityWeights, KernelSVM
    from evenmargin._device import arrays, products
    from evenmargin.nystroem import StratifiedNystroem

    engine.SMALL, engine._works = 0, lambda device: True
    torch.cuda.device = lambda device: nullcontext()
    arrays.native = lambda device: device is None
    products._engine = lambda device: engine
    product, count = engine._product, []
    engine._product = lambda *given: count.append(1) or product(*given)
    X = rows(2_300, 5, 3)  # more than are held whole
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 1.2).astype(int)
    sgd = {"solver": "sgd", "alpha": 1e-3, "max_iter": 2_300, "random_state": 0, "intercept": None}
    each = {
        "smo": (KernelSVM(gamma=0.2, class_weight="balanced", tol=1e-6), "decision_function"),
        "sgd": (KernelSVM(gamma=0.2, loss="log", **sgd), "decision_function"),
        "density": (DensityWeights(gamma=0.2), None),
        "same_class": (DensityWeights("same_class", gamma=0.2), None),
        "nystroem": (StratifiedNystroem(n_components=12, gamma=0.2, random_state=0), "transform"),
    }
    for name, (machine, method) in each.items():
        count.clear()
        here, there = (clone(machine).set_params(device=device).fit(X, y) for device in (None, "cpu"))
        a, b = (fit.density_ if method is None else getattr(fit, method)(X) for fit in (here, there))
        yield name, (float(np.abs(a - b).max() / np.abs(a).max()), len(count))


if __name__ == "__main__":
    main()
