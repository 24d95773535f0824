"""Tables to files, piece by piece: CSV, TSV, Parquet, Arrow, or CSV on standard output."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pandas as pd

from .._files import replacing
from ._reading import InputError

__all__ = ["writing"]

Write = Callable[[pd.DataFrame], None]

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_ARROW = {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}


@contextmanager
def writing(path: Path | None) -> Iterator[Write]:
    """A function that writes frames one below the other; the file is there when the block ends well."""
    if path is None or str(path) == "-":
        yield _text(sys.stdout.buffer, ",")
        sys.stdout.flush()
        return
    endings = [ending.lower() for ending in path.suffixes[-2:]]
    packed = endings[-1:] == [".gz"]
    ending = endings[-2 if packed else -1] if len(endings) > packed else ""
    if ending in _ARROW and not packed:
        kind = _ARROW[ending]
        _need_pyarrow(path)
        with replacing(path) as file, _columnar(file, kind) as write:
            yield write
    elif ending in _SEPARATORS:
        with replacing(path) as file:
            if not packed:
                yield _text(file, _SEPARATORS[ending])
                return
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as zipped:
                yield _text(zipped, _SEPARATORS[ending])
    else:
        raise InputError(f"{path}: end its name in .csv, .tsv (or .csv.gz, .tsv.gz), .parquet or .arrow.")


def _text(file: Any, separator: str) -> Write:
    first = True

    def write(frame: pd.DataFrame) -> None:
        nonlocal first
        text = frame.to_csv(None, sep=separator, index=False, header=first, lineterminator="\n")
        file.write(text.encode())
        first = False

    return write


@contextmanager
def _columnar(file: IO[bytes], kind: str) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None

    def write(frame: pd.DataFrame) -> None:
        nonlocal writer
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if writer is None:
            make = pq.ParquetWriter if kind == "parquet" else pa.ipc.new_file
            writer = make(file, table.schema)
        else:
            table = table.cast(writer.schema) if kind == "parquet" else table
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


def _need_pyarrow(path: Path) -> None:
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise InputError(f'{path}: Parquet and Arrow need pyarrow: pip install "evenmargin[parquet]".')
