"""BLAS on one thread, for the sake of the same bits on every machine."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> Any:
    """A context in which BLAS sums in one order: with more threads it splits sums by their number."""
    return _blas().limit(limits=1, user_api="blas")
