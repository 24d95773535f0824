"""Kernels, and the tiles of their matrices."""

from __future__ import annotations

from .kernels import (
    KERNELS,
    RBF,
    Exponential,
    Function,
    Kernel,
    Laplacian,
    Linear,
    Poly,
    Precomputed,
    Sigmoid,
    get_kernel,
    variance_of,
)
from .tiles import Points, centre_of, device_of, kernel_dot, kernel_matrix, prepared, reach

__all__ = [
    "KERNELS",
    "RBF",
    "Exponential",
    "Function",
    "Kernel",
    "Laplacian",
    "Linear",
    "Points",
    "Poly",
    "Precomputed",
    "Sigmoid",
    "centre_of",
    "device_of",
    "get_kernel",
    "kernel_dot",
    "kernel_matrix",
    "prepared",
    "reach",
    "variance_of",
]
