"""The fused kernel in Triton's interpreter, on the CPU: a script, to be run with TRITON_INTERPRET=1.

Prints, as JSON, the largest error of each case as a share of Σ K|v|.
"""

from __future__ import annotations

import json

import numpy as np

COLUMNS = (1, 17, 50, 90, 129)
FAR = (30, 170)


def main():
    from evenmargin import _triton
    from evenmargin.kernels import RBF

    _triton.EXP2 = ""  # machine code is not interpreted: Triton's own 2^x
    _triton._processors, _triton._shared_memory = (lambda device: 4), (lambda device: _triton.ROOM)
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
    print(json.dumps(found))


def rows(n, d, seed):
    return np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)


def error(kernel, A, B, high, shift=0.0):
    """Of sides that are no multiples of a tile, and three vectors with zeros and both signs."""
    import torch

    from evenmargin import _array, _products, _triton
    from evenmargin.kernels import kernel_dot

    V = rows(len(B), 3, 2)
    V[::5] = 0.0
    points = [_products.Points(kernel, _array.Rows.put(X, torch.device("cpu")), np.float32) for X in (A, B)]
    found = _triton._product(*points, torch.from_numpy(V).T, high, shift).T.numpy()
    A, B, V = (X.astype(np.float64) for X in (A, B, V))
    return float((np.abs(found - kernel_dot(kernel, A, B, V)) / kernel_dot(kernel, A, B, np.abs(V))).max())


if __name__ == "__main__":
    main()
