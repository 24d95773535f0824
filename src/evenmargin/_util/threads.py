"""BLAS on one thread, so that the answer does not depend on their number, and threads over tiles instead."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ContextDecorator, contextmanager, nullcontext
from functools import lru_cache
from threading import Lock, local
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _libraries() -> list[Any]:
    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def _set(library: Any, threads: int) -> None:
    """Set the limit from any thread: threadpoolctl (3.6 and later) lets only the first one that asks."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


class SharedContext(ContextDecorator):
    """A context that is one for all threads: the first one in opens it, the last one out closes it."""

    def __init__(self, context: Callable[[], AbstractContextManager[None]]) -> None:
        self.context, self.lock, self.inside = context, Lock(), 0
        self.opened: AbstractContextManager[None] | None = None

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.opened = self.context()
                self.opened.__enter__()
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0 and self.opened is not None:
                self.opened.__exit__(None, None, None)


@contextmanager
def _limited_blas() -> Iterator[None]:
    before = [(library, library.num_threads) for library in _libraries()]
    for library, _ in before:
        _set(library, 1)
    try:
        yield
    finally:
        for library, threads in before:
            _set(library, threads)


_one_thread = SharedContext(_limited_blas)


def one_blas_thread() -> SharedContext:
    """Keep BLAS on one thread: it splits sums by the number of threads, which changes their last bits."""
    return _one_thread


class Workers:
    """Threads over tiles, with BLAS on one thread each, and a buffer for each thread.

    Used as a context. Tiles are the same for any number of threads, so that the answer is too.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = available_cores() if threads is None else threads
        self._local = local()
        self._pool: ThreadPoolExecutor | None = None

    @classmethod
    def of(cls, workers: Workers | None, elements: int) -> AbstractContextManager[Workers]:
        """The given workers, or new ones: several threads only where the work pays for starting them."""
        if workers is not None:
            return nullcontext(workers)
        return cls(1 if elements < 1_000_000 else None)

    def __enter__(self) -> Workers:
        _one_thread.__enter__()
        if self.threads > 1:
            self._pool = ThreadPoolExecutor(self.threads - 1)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        _one_thread.__exit__()

    def each(self, task: Callable[[int], None], items: Sequence[int]) -> None:
        """Run the task for every item; threads, this one among them, take the next as soon as they are free."""
        left = iter(list(items))  # taking from it is atomic

        def work() -> None:
            try:
                for item in left:
                    task(item)
            except BaseException:
                for _ in left:  # the others need not go on
                    pass
                raise

        others = (
            [] if self._pool is None else [self._pool.submit(work) for _ in range(min(self.threads, len(items)) - 1)]
        )
        try:
            work()
        finally:
            wait(others)
        for other in others:
            other.result()

    def buffer(self, size: int, dtype: DTypeLike) -> NDArray[Any]:
        """An array of this thread's own, used again in the next call."""
        held = getattr(self._local, "held", None)
        if held is None or held.nbytes < size * np.dtype(dtype).itemsize:
            held = self._local.held = np.empty(size * np.dtype(dtype).itemsize, np.uint8)
        return held.view(np.uint8)[: size * np.dtype(dtype).itemsize].view(dtype)


def available_cores() -> int:
    """Cores that this process may use; OMP_NUM_THREADS, which joblib sets in its workers, is respected."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) > 0 else cores


def count_threads(n_jobs: int | None) -> int:
    """Threads for scikit-learn's n_jobs; None means all cores here."""
    if n_jobs is None:
        return available_cores()
    if n_jobs == 0:
        raise ValueError("n_jobs=0 has no meaning: choose a number of threads from 1, or None for all cores.")
    return int(n_jobs) if n_jobs > 0 else max(1, available_cores() + 1 + int(n_jobs))
