"""A digest of a table's content."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["fingerprint"]


def fingerprint(frame: pd.DataFrame) -> str:
    """A digest of a table's names and values, row by row; not of the format it came in.

    Of `Prepared.X` and what `Matcher` gives it is the same for the same table in any format.

    Examples
    --------
    >>> import pandas as pd
    >>> from evenmargin.cli._reading import fingerprint
    >>> whole, half = pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1.0, 2.0]})
    >>> fingerprint(whole) == fingerprint(half), fingerprint(whole) == fingerprint(whole[::-1])
    (True, False)
    """
    digest = hashlib.sha256(repr([str(name) for name in frame.columns]).encode("utf-8", "surrogatepass"))
    plain = {j: _plain(frame.iloc[:, j]) for j in range(frame.shape[1])}
    rows = pd.util.hash_pandas_object(pd.DataFrame(plain, index=range(len(frame))), index=False)
    digest.update(rows.to_numpy(np.uint64).tobytes())
    return digest.hexdigest()[:32]


def _plain(column: pd.Series) -> Any:
    """A column as floats or as strings, so that integers hash as floats do and categories as words."""
    kind = column.dtype
    if isinstance(kind, np.dtype) and kind.kind in "biuf":
        return column.to_numpy(np.float64) + 0.0  # there is only one zero
    if isinstance(kind, np.dtype) and kind.kind in "mM":
        column = column.astype(f"{'datetime' if kind.kind == 'M' else 'timedelta'}64[us]")
    return column.astype(object).map(str).where(column.notna(), "").to_numpy(object)
