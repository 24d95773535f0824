"""Where graphs run: on dask's threads, or on the cluster of the current client.

Graphs are plain dicts, made anew each round over the keys of the blocks: `Parts`. With a client, waiting is watched: a
cluster that has no workers, whose workers have all stopped, or whose scheduler is gone ends in `ClusterLost`, never in
an endless wait.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import dask
import dask.core
import dask.threaded
from dask._task_spec import TaskRef  # has no other name, and is what futures are to graphs
from dask.highlevelgraph import HighLevelGraph

from .._util.threads import one_blas_thread

_FAN = 8  # answers added by one task
_SMALL = 1 << 20  # bytes of a partition below which one task does as many: a task costs some milliseconds
_MANY = 128  # partitions from which on that leaves enough tasks for all workers
_HELD = 0.5  # of the free memory that partitions may take to be held between rounds
_ROOM = 3  # times a block: the block, what it was read from, and what a pass over it allocates
_PATIENCE = 30.0  # seconds without progress of any worker before the cluster is given up
_FIRST = 10  # times as long for the first worker, which a cluster may have to wait for
_LOOK = 1.0  # seconds between two looks at the cluster


class ClusterLost(RuntimeError):
    """No worker is left that makes progress, or no scheduler. The machine keeps what the fit had reached."""


@dataclass(frozen=True)
class Operation:
    """A function with its further arguments: one value of the graph, which travels once to each worker."""

    function: Callable[..., Any]
    more: tuple[Any, ...]
    numbered: bool = False  # whether the function takes the number of the part first


def _call(operation: Operation, number: int, part: Any) -> Any:
    first = (number, part) if operation.numbered else (part,)
    return operation.function(*first, *operation.more)


def _call_each(operation: Operation, start: int, parts: list[Any]) -> list[Any]:
    return [_call(operation, start + place, part) for place, part in enumerate(parts)]


@dataclass(frozen=True)
class Parts:
    """A graph, and what it has for each partition: a key, or a list of keys and plain values.

    Where `folded`, for each `_FAN` partitions, and tasks take and give lists.
    """

    graph: dict[Any, Any]
    keys: list[Any]
    folded: bool = False

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(cls, collection: Any) -> Parts:
        """The partitions of a dask frame or series as they are."""
        pieces = collection.to_delayed()
        keys = [piece.key for piece in pieces]
        return cls(_with_held(dict(pieces[0].dask) if pieces else {}, keys), keys)

    @classmethod
    def of_arrays(cls, arrays: list[Any]) -> list[Parts]:
        """The blocks of several arrays; what these share, such as a file, is computed once for all of them."""
        each = [list(dask.core.flatten(array.__dask_keys__())) for array in arrays]
        whole = HighLevelGraph.merge(*(array.__dask_graph__() for array in arrays))
        keys = [key for own in each for key in own]
        graph = _with_held(dict(arrays[0].__dask_optimize__(whole, keys)) if arrays else {}, keys)
        return [cls(graph, own) for own in each]

    def fold(self, largest: float) -> Parts:
        """The same, folded where partitions are many and none has more bytes than a small one."""
        if len(self) < _MANY or not largest <= _SMALL:
            return self
        return Parts(self.graph, _groups(self.keys), folded=True)

    def map(self, function: Callable[..., Any], *more: Any) -> Parts:
        """`function(part, *more)` of every part."""
        return self._mapped(Operation(function, more))

    def numbered(self, function: Callable[..., Any], *more: Any) -> Parts:
        """`function(number, part, *more)` of every part."""
        return self._mapped(Operation(function, more, numbered=True))

    def _mapped(self, operation: Operation) -> Parts:
        name = f"{operation.function.__name__}-{uuid4().hex}"
        what, keys = f"operation-{name}", [(name, number) for number in range(len(self))]
        call, step = (_call_each, _FAN) if self.folded else (_call, 1)
        tasks = {key: (call, what, step * key[1], part) for key, part in zip(keys, self.keys, strict=True)}
        return Parts({**self.graph, what: operation, **tasks}, keys, self.folded)

    def frame(self, meta: Any) -> Any:
        """A dask frame of the parts, one below the other."""
        import dask.dataframe as dd
        from dask.delayed import Delayed

        return dd.from_delayed([Delayed(key, self.graph) for key in self.keys], meta=meta, verify_meta=False)


def _with_held(graph: dict[Any, Any], keys: list[Any]) -> dict[Any, Any]:
    """A graph with the blocks that workers hold already, as after `persist`: dask leaves them out of it."""
    return {**{key: TaskRef(key) for key in keys}, **graph}


def _groups(keys: list[Any]) -> list[list[Any]]:
    return [keys[start : start + _FAN] for start in range(0, len(keys), _FAN)]


def reduced(parts: Parts, together: Callable[..., Any], *more: Any) -> Parts:
    """A tree of `together([part, ...], *more)` down to one.

    Its shape is fixed, so that the order of sums is that of the partitions, whoever computes them.
    """
    name = f"{together.__name__}-{uuid4().hex}"
    operation, keys, depth = f"operation-{name}", parts.keys, 0
    graph = {**parts.graph, operation: Operation(together, more)}
    if parts.folded:  # the first level of the tree, in the tasks that give its leaves
        graph.update({key: (_call, operation, 0, graph[key]) for key in keys})
        depth = 1
    while depth == 0 or len(keys) > 1:
        groups = _groups(keys)
        keys = [(name, depth, number) for number in range(len(groups))]
        graph.update({key: (_call, operation, 0, group) for key, group in zip(keys, groups, strict=True)})
        depth += 1
    return Parts(graph, keys)


class Engine:
    """Runs the graphs of one fit. Used as a context, it lets go of what it held.

    Inside a task of the cluster it leaves the task's place to others, which may be the ones that are awaited.
    """

    def __init__(self) -> None:
        self._get = dask.base.get_scheduler() or dask.threaded.get
        owner, distributed = getattr(self._get, "__self__", None), sys.modules.get("distributed")
        self.client: Any = owner if distributed is not None and isinstance(owner, distributed.Client) else None
        self._held: list[Any] = []
        self._aside = self._met = False

    def __enter__(self) -> Engine:
        if self.client is not None:
            from distributed import secede

            with suppress(ValueError, KeyError, AttributeError):  # where this is no task of a worker, or has left
                secede()
                self._aside = True
        return self

    def __exit__(self, *error: Any) -> None:
        for future in self._held:
            future.release()
        self._held.clear()
        if self._aside:
            from distributed import rejoin

            rejoin()

    def memory(self) -> float:
        """Bytes that blocks may take to be held between rounds."""
        workers = self._workers()
        if free := _free(workers):
            return _HELD * sum(free)
        near = all(w["host"] in ("127.0.0.1", "::1") or w["address"].startswith("inproc://") for w in workers)
        return _HELD * _available() if self.client is None or near else 0.0

    def check_room(self, largest: float) -> None:
        """Refuse blocks that no worker could read and look at: dask would kill one worker after the other."""
        free = _free(self._workers())
        if free and _ROOM * largest > max(free):
            raise MemoryError(
                f"The largest partition has {largest / 1e6:.0f} MB and needs {_ROOM} times as much to be processed, "
                f"but no worker has more than {max(free) / 1e6:.0f} MB left: cut the table into smaller partitions, "
                "or raise memory_limit. If its blocks are sparse, give the dask array a sparse meta."
            )

    def hold(self, blocks: Parts) -> Parts:
        """The same blocks, computed once and kept where they were computed."""
        if self.client is None:
            with one_blas_thread():
                values = self._get(blocks.graph, blocks.keys)
        else:
            self._held += self.client.get(blocks.graph, blocks.keys, sync=False)
            values = map(TaskRef, blocks.keys)  # not the futures: copies of them would hold the blocks as well
        return Parts(dict(zip(blocks.keys, values, strict=True)), blocks.keys, blocks.folded)

    def compute(self, graph: Parts) -> Any:
        """The one result of a graph."""
        (key,) = graph.keys
        if self.client is None:
            with one_blas_thread():
                return self._get(graph.graph, key)
        future = None
        try:
            future = self.client.get(graph.graph, key, sync=False)
            return self._watched(future)
        except Exception as error:
            why = self._why_lost(future, error)
            if not why:
                raise
            raise ClusterLost(why) from error
        finally:
            if future is not None:
                future.release()

    def _why_lost(self, future: Any, error: Exception) -> str:
        """What happened to the cluster, or nothing where the error is that of a task."""
        from distributed import CancelledError, KilledWorker

        if isinstance(error, KilledWorker):
            return (
                f"A partition was lost with {error.allowed_failures + 1} workers, one after the other: if they ran "
                "out of memory, cut the table into smaller partitions, or raise memory_limit."
            )
        if isinstance(error, ClusterLost) or (future is not None and future.status == "error"):
            return ""
        if isinstance(error, CancelledError) or self.client.status not in ("running", "connecting"):
            return "The scheduler is gone, or was restarted."
        return f"The scheduler does not answer ({type(error).__name__})." if isinstance(error, OSError) else ""

    def _watched(self, future: Any) -> Any:
        """Wait for the result, and give up where nobody is left to compute it."""
        from distributed import wait

        since = time.monotonic()
        while True:
            try:
                wait(future, timeout=_LOOK)
            except TimeoutError:
                pass
            except KeyboardInterrupt:
                self.client.cancel(future)
                raise
            if future.done():
                return future.result(timeout=_FIRST * _patience())
            if self.client.status not in ("running", "connecting"):
                raise ClusterLost("The connection to the scheduler is closed.")
            idle = self._why_idle()
            if not idle:
                since = time.monotonic()
            patience = _patience() * (1 if self._met else _FIRST)
            if time.monotonic() - since > patience:
                self.client.cancel(future)
                raise ClusterLost(f"For {patience:.0f} seconds {idle}.")

    def _why_idle(self) -> str:
        """Why no worker can go on now, or nothing."""
        workers = self._workers()
        if not workers:
            return "there has been no worker"
        if all(w["status"] == "paused" and not w["metrics"].get("task_counts", {}).get("executing") for w in workers):
            return (
                "all workers have been paused, their memory full: cut the table into smaller partitions, or raise "
                "memory_limit"
            )
        return ""

    def _workers(self) -> list[dict[str, Any]]:
        if self.client is None:
            return []
        patience = _patience()
        try:
            ask = self.client.scheduler.identity
            known = self.client.sync(ask, n_workers=-1, callback_timeout=patience)["workers"]
        except TimeoutError:
            raise ClusterLost(f"The scheduler has not answered for {patience:.0f} seconds.") from None
        self._met = self._met or bool(known)
        return [{**worker, "address": address} for address, worker in known.items()]


def _patience() -> float:
    return float(dask.config.get("evenmargin.patience", _PATIENCE))


def _free(workers: list[dict[str, Any]]) -> list[float]:
    """Bytes that each worker has left below its limit, some 250 MB of them for Python; nothing if any has no limit."""
    if not all(worker["memory_limit"] for worker in workers):
        return []
    return [max(0.0, float(w["memory_limit"] - w["metrics"].get("memory", 0))) for w in workers]


def _available() -> float:
    """Bytes of memory that this process may still have: what the machine has free, within the limits set for it."""
    import psutil  # type: ignore[import-untyped]  # it has no types
    from distributed.system import MEMORY_LIMIT

    return float(min(psutil.virtual_memory().available, MEMORY_LIMIT))
