"""Arrays of a data set in the stored form: read and checked, written, hashed.

The stored form is an npz file with X and y (+1 and −1), X_test and y_test where the
source has a split, and for some sets label (the source's classes) or quality.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._util.files import replacing
from .._util.typing import Index, Mask

__all__ = ["Arrays", "checksum", "first_of_its_kind", "in_canonical_order", "one_hot", "read", "write"]

Arrays = dict[str, NDArray[Any]]

_BLOCK = 4096  # rows made float32 at a time: all of mnist would take 200 MB


def _digests(*columns: NDArray[Any]) -> Iterator[bytes]:
    """A hash of each row of these columns, as little-endian float32."""
    for start in range(0, len(columns[0]), _BLOCK):
        part = [np.asarray(column[start : start + _BLOCK], dtype="<f4") for column in columns]
        # Adding zero makes −0 and 0 the same.
        for row in np.column_stack(part) + np.float32(0):
            yield hashlib.sha256(row.tobytes()).digest()


def checksum(arrays: Mapping[str, NDArray[Any]]) -> str:
    """A hash, in hexadecimal digits, of X, y, label and quality in each half, whatever the order of the rows."""
    total = hashlib.sha256()
    for half in ("", "_test"):
        names = [name + half for name in ("X", "y", "label", "quality") if name + half in arrays]
        if names:
            rows = sorted(_digests(*(arrays[name] for name in names)))
            total.update(f"{' '.join(names)} {len(rows)};".encode() + b"".join(rows))
    return total.hexdigest()


def in_canonical_order(X: NDArray[Any], rows: Index) -> Index:
    """These rows ordered by content, so that a draw from them is the same however a file orders its rows."""
    digests = [*_digests(X[rows])]
    return rows[sorted(range(len(rows)), key=digests.__getitem__)]


def first_of_its_kind(X: NDArray[Any]) -> Mask:
    """A mask of rows that are not copies of earlier ones."""
    mask = np.zeros(len(X), dtype=bool)
    mask[np.unique(X, axis=0, return_index=True)[1]] = True
    return mask


def one_hot(codes: NDArray[Any], size: int) -> NDArray[np.uint8]:
    """Codes 0, 1, … as columns of zeros and ones."""
    return np.asarray(np.arange(size) == codes[:, np.newaxis], dtype=np.uint8)


def read(path: Path, *, columns: int, needs: tuple[str, ...]) -> Arrays:
    """The arrays of a file, or one sentence on what is wrong with it."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except PermissionError:
        raise
    except Exception as error:  # a damaged zip archive fails in many ways: OSError, BadZipFile, zlib.error, EOFError …
        raise ValueError(
            f"{path} is damaged or not an npz file ({type(error).__name__}): replace it, or delete it to "
            "look elsewhere."
        ) from error
    if fault := _fault(arrays, columns, needs):
        raise ValueError(f"{path} {fault}: replace it, or delete it to look elsewhere.")
    return arrays


# Dimensions and kinds of numbers; other arrays are not read.
_EXPECTED = {"X": (2, "fiub"), "y": (1, "fiub"), "label": (1, "iu"), "quality": (1, "fiu")}


def _fault(arrays: Arrays, columns: int, needs: tuple[str, ...]) -> str | None:
    """What is wrong with the arrays, or None."""
    if missing := [name for name in ("X", "y", *needs) if name not in arrays]:
        return f"lacks the array {missing[0]}"
    if ("X_test" in arrays) != ("y_test" in arrays):
        return "has only one of X_test and y_test"
    for name in sorted(arrays):  # X before all that have as many rows
        array, base, half = arrays[name], name.removesuffix("_test"), "_test" if name.endswith("_test") else ""
        if base not in _EXPECTED or "X" + half not in arrays:
            continue
        (dimensions, kinds), X = _EXPECTED[base], arrays["X" + half]
        if base != "X" and len(np.atleast_1d(array)) != len(X):
            return f"has {len(np.atleast_1d(array))} rows in {name} but {len(X)} in X{half}"
        odd = array.ndim != dimensions or array.dtype.kind not in kinds
        if odd or (base == "X" and array.shape[1] != columns):
            expected = f" where numbers in {columns} columns are expected" if base == "X" else ""
            return f"has {name} of shape {array.shape} and type {array.dtype}{expected}"
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return f"has missing or infinite values in {name}"
        if base == "y" and np.unique(array).tolist() != [-1, 1]:
            return f"has something other than +1 and −1, or only one of them, in {name}"
    return None


def write(path: Path, arrays: Arrays) -> None:
    """Write the file whole or not at all."""
    with replacing(path) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
