"""Tables to files, piece by piece: CSV, TSV, Parquet, Arrow, or CSV on standard output."""

from __future__ import annotations

import gzip
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import pandas as pd

from .._util.files import replacing
from ._reading import InputError

Write = Callable[[pd.DataFrame], None]

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_ARROW = {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}


def check_ending(path: Path) -> None:
    """Refuse a file whose name does not say which format it is to have."""
    ending, packed = _ending(path)
    if path.exists() and not path.is_file():
        return  # a device or a pipe takes CSV
    if ending not in _SEPARATORS and (packed or ending not in _ARROW):
        raise InputError(
            f"{path}: the name of the file must end in .csv, .tsv (or .csv.gz, .tsv.gz), .parquet or .arrow."
        )
    if ending in _ARROW and find_spec("pyarrow") is None:
        raise InputError(f'{path}: Parquet and Arrow need pyarrow: pip install "evenmargin[parquet]".')


@contextmanager
def writing(path: Path | None) -> Iterator[Write]:
    """Yield a function that writes frames one below the other; the file is there when the block ends well."""
    if path is None:
        if sys.stdout is None:
            raise InputError("There is no standard output here: give --out.")
        yield _text(sys.stdout.buffer, ",")
        sys.stdout.flush()
        return
    ending, packed = _ending(path)
    separator = _SEPARATORS.get(ending, ",")
    with replacing(path) as file:
        if ending in _ARROW:
            with _columnar(file, _ARROW[ending]) as write:
                yield write
        elif packed:
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as zipped:
                yield _text(zipped, separator)
        else:
            yield _text(file, separator)


def _ending(path: Path) -> tuple[str, bool]:
    """What the name says of the format, and whether it is to be compressed."""
    endings = [ending.lower() for ending in path.suffixes[-2:]]
    packed = endings[-1:] == [".gz"]
    return (endings[-1 - packed] if len(endings) > packed else ""), packed


def _text(file: Any, separator: str) -> Write:
    header = itertools.chain([True], itertools.repeat(False))

    def write(frame: pd.DataFrame) -> None:
        text = frame.to_csv(None, sep=separator, index=False, header=next(header), lineterminator="\n")
        file.write(text.encode())

    return write


@contextmanager
def _columnar(file: IO[bytes], kind: str) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None
    schema: Any = None

    def write(frame: pd.DataFrame) -> None:
        nonlocal writer, schema
        table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
        if writer is None:
            schema = table.schema
            writer = (pq.ParquetWriter if kind == "parquet" else pa.ipc.new_file)(file, schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
