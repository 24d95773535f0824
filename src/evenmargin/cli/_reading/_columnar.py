"""Parquet, and Arrow files (which Feather files are) and streams."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Set
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from ._base import CELLS, InputError, TableFile, all_different, damaged
from ._bytes import ByteSource, need_pyarrow


class ArrowFile(TableFile):
    """Parquet, and Arrow files (which Feather files are) and streams."""

    def __init__(self, source: ByteSource, kind: str) -> None:
        self.name, self.format, self._source = source.name, kind, source
        self.notes = []
        self._pa = need_pyarrow(f"Reading {self.name}")
        self._file = None if source.again and not source.packed else source.spool()
        with self._guarded():
            schema, _ = self._opened()
            self.columns = all_different([str(name) for name in schema.names], self.name)

    def _whole(self, columns: list[str], words: Set[str]) -> pd.DataFrame:
        with self._guarded():
            schema, batches = self._opened(columns)
            fields = self._pa.schema([schema.field(name) for name in columns])
            return _frame(self._pa.Table.from_batches(list(batches(1 << 20)), schema=fields))

    def _pieces(self, rows: int, columns: list[str], words: Set[str], copied: Set[str]) -> Iterator[pd.DataFrame]:
        rows = max(1, min(rows, CELLS // max(1, len(columns))))
        with self._guarded():
            _, batches = self._opened(columns)
            for batch in batches(rows):
                for i in range(0, batch.num_rows, rows):
                    yield _frame(self._pa.Table.from_batches([batch.slice(i, rows)]), copied)

    def _opened(self, columns: list[str] | None = None) -> tuple[Any, Callable[[int], Iterator[Any]]]:
        """Open the file: its schema, and a function that reads the columns in batches."""
        from pyarrow import ipc, parquet

        file = self._file or self._pa.OSFile(self._source.path)
        file.seek(0)
        if self.format == "parquet":
            table = parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 16)  # not a row group at once
            return table.schema_arrow, lambda rows: table.iter_batches(rows, columns=columns)
        start = file.read(6)
        file.seek(0)
        if start == b"ARROW1":
            reader = ipc.open_file(file)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            reader = batches = ipc.open_stream(file)
        return reader.schema, lambda rows: (batch.select(columns or reader.schema.names) for batch in batches)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn whatever pyarrow says of a damaged file into one sentence."""
        try:
            yield
        except InputError:
            raise
        except (OSError, ValueError, TypeError, LookupError, OverflowError, self._pa.ArrowException) as error:
            raise damaged(self.name, error) from None


def _frame(table: Any, copied: Container[str] = ()) -> pd.DataFrame:
    table = table.unify_dictionaries()
    columns = {
        name: _as_it_is(table.column(j)) if name in copied else _from_arrow(table.column(j))
        for j, name in enumerate(table.column_names)
    }
    return pd.DataFrame(columns, index=pd.RangeIndex(table.num_rows), copy=False)


def _as_it_is(column: Any) -> Any:
    """Keep a column in its own type, with its gaps."""
    from pyarrow import BaseExtensionType, types

    if isinstance(column.type, BaseExtensionType):
        column = column.cast(column.type.storage_type)
    if types.is_dictionary(column.type):  # the next piece may have another one
        column = column.cast(column.type.value_type)
    return pd.arrays.ArrowExtensionArray(column)


def _from_arrow(column: Any) -> Any:
    """Turn a column into one of NumPy's types if it has one: instants in UTC, whole numbers with gaps as floats."""
    from pyarrow import float32, float64, string, types

    kind = column.type
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    for is_such, plain in ((types.is_decimal, float64()), (types.is_float16, float32()), (types.is_time, string())):
        if is_such(kind):
            column = column.cast(plain)
    kind = column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_temporal(kind):
        return column.to_numpy()
    if types.is_boolean(kind):
        return column.to_numpy() if not column.null_count else np.array(column.to_pylist(), dtype=object)
    return column.to_pandas()
