"""BLAS on one thread, for the sake of the same bits on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = Lock()
_inside = 0  # how many fits run now: the first sets the limit, the last lifts it
_limit: Any = None


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS sums in one order: with more threads it splits sums by their number."""
    global _inside, _limit
    with _lock:
        _inside += 1
        if _inside == 1:
            _limit = _blas().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()
