"""The only use of numba: how loops are compiled and where the result is kept.

numba's own disk cache stamps a compiled function with the file it stands in, so editing a function that it calls
elsewhere would go on running the old code. Here every loop is cached under a folder named by a digest of all sources
that can end up in a loop, in the user's cache folder. Where nothing can be written, loops are compiled in memory.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numba
from llvmlite import ir
from numba.core import caching, cgutils, types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from .._util.files import user_cache, writable

__all__ = ["jit", "jit_exactly", "overload", "prefetch"]

Loop: TypeAlias = Callable[..., Any]

# Sums may be reordered and fused, which is what lets LLVM vectorise a dot
# product; NaN and infinity keep their meaning.
_FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})


@lru_cache(maxsize=1)
def source_digest() -> str:
    """Digest of every source file whose code may be inlined into a loop."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted([*package.glob("_core/*.py"), package / "losses.py"]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1)
def cache_folder() -> Path | None:
    """The folder for compiled loops, or None where none can be written."""
    try:
        place = Path(os.environ.get("NUMBA_CACHE_DIR") or user_cache())
    except RuntimeError:  # the user has no home
        return None
    return writable(place / "evenmargin" / source_digest())


class _Locator(caching.UserProvidedCacheLocator):
    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return source_digest()

    @classmethod
    def from_function(cls, py_func: Loop, py_file: str) -> _Locator:
        return cls(py_func, py_file)


class _CacheImpl(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]


class _Cache(caching.FunctionCache):
    """Caches only loops made from this package's code: the digest does not cover a user's own loss."""

    _impl_class = _CacheImpl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return super().load_overload(sig, target_context) if _ours(sig) else None

    def save_overload(self, sig: Any, data: Any) -> None:
        if _ours(sig):
            super().save_overload(sig, data)


def _ours(signature: Any) -> bool:
    classes = [kind.instance_class for kind in signature if hasattr(kind, "instance_class")]
    return all(kind.__module__.split(".")[0] == "evenmargin" for kind in classes)


def jit(function: Loop, fastmath: frozenset[str] = _FASTMATH) -> Loop:
    """Compile a loop on its first call, without the GIL, cached on disk."""
    compiled = numba.njit(nogil=True, fastmath=set(fastmath), error_model="numpy")(function)
    # Under NUMBA_DISABLE_JIT the function comes back as it was.
    if hasattr(compiled, "_cache") and cache_folder() is not None:
        compiled._cache = _Cache(function)
    return compiled


# For arithmetic whose order matters: products and sums may be fused, not reordered.
jit_exactly = partial(jit, fastmath=frozenset({"contract"}))


@intrinsic
def _prefetch(typingctx, array, i, j):
    """Ask for the cache line of array[i, j] (of array[i] where it has one axis)."""

    def generate(context, builder, signature, args):
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, args[0])
        places = [
            context.cast(builder, value, of, types.intp) for value, of in zip(args[1:], signature.args[1:], strict=True)
        ]
        item = cgutils.get_item_pointer(context, builder, kind, view, places[: kind.ndim])
        pointer, flag = cgutils.voidptr_t, ir.IntType(32)
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch", [pointer], ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
        )
        builder.call(hint, [builder.bitcast(item, pointer), flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, i, j), generate


def prefetch(array: NDArray[Any], i: int, j: int) -> None:
    """Hint that array[i, j] is read soon; does nothing in Python."""


@overload(prefetch)
def _compiled_prefetch(array, i, j):
    return lambda array, i, j: _prefetch(array, i, j)  # type: ignore[call-arg]  # an intrinsic's first parameter is numba's
