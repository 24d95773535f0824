"""The bytes of a file or a pipe, unpacked where they were compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import lzma
import os
import shutil
import sys
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from typing import IO, Any

from ..._util.sentences import quoted, suggestion
from ._base import InputError, damaged

CHUNK = 1 << 21  # bytes read at a time


class ByteSource:
    """The bytes of a file or of standard input, unpacked if they were compressed.

    Standard input and pipes can be read only once, files `again`.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "standard input" if path == "-" else os.path.basename(path) or path
        self.again = path != "-" and (os.path.isfile(path) or not os.path.exists(path))
        self.packed = False
        self._begun: Iterator[bytes] | None = None

    def head(self) -> bytes:
        """Look at the first bytes, which `chunks` will give again."""
        chunks = self._read()
        first = next(chunks, b"")
        if self.again:
            chunks.close()
        else:
            self._begun = itertools.chain([first], chunks)
        if not first:
            raise InputError(f"{self.name} is empty.")
        return first

    def chunks(self) -> Iterator[bytes]:
        """Read all bytes, some at a time."""
        if self.again:
            return self._read()
        if self._begun is None:
            raise InputError(f"{self.name} can be read only once: write it to a file first.")
        begun, self._begun = self._begun, None
        return begun

    def spool(self) -> IO[bytes]:
        """Copy all bytes to a temporary file without a name, for formats that are not read from front to back."""
        file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, file.close)
        try:
            for chunk in self.chunks():
                file.write(chunk)
        except OSError as error:
            raise InputError(f"{self.name} could not be copied to {tempfile.gettempdir()}: {error.strerror}.") from None
        file.seek(0)
        return file

    def _read(self) -> Generator[bytes]:
        with _open(self.path, self.name) as raw:
            try:
                file = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)
                start = file.peek(6)
                unpack = next((unpack for magic, unpack in _PACKED.items() if start.startswith(magic)), None)
                self.packed = unpack is not None
                with closing(unpack(file, self.name)) if unpack else nullcontext(file) as stream:
                    while chunk := stream.read(CHUNK):
                        yield chunk
            except _DAMAGE as error:
                raise damaged(self.name, error) from None


def _open(path: str, name: str) -> AbstractContextManager[Any]:
    if path == "-":
        if sys.stdin is None:
            raise InputError("There is no standard input here: name a file.")
        return nullcontext(sys.stdin.buffer)  # it stays open
    try:
        return open(path, "rb")
    except FileNotFoundError:
        similar = ""
        with suppress(OSError):
            similar = suggestion(os.path.basename(path), os.listdir(os.path.dirname(path) or ".")[:2000])
        raise InputError(f"There is no file {path!r}{f': {similar}' if similar else '.'}") from None
    except IsADirectoryError:
        raise InputError(f"{path!r} is a folder: name a file in it.") from None
    except PermissionError:
        raise InputError(f"{path!r} may not be read: permission denied.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{name[:80]!r} cannot be opened: {getattr(error, 'strerror', None) or error}.") from None


def _unzip(file: IO[bytes], name: str) -> IO[bytes]:
    if not file.seekable():  # a zip file is read from its end
        pipe, file = file, tempfile.TemporaryFile()  # noqa: SIM115
        shutil.copyfileobj(pipe, file)
    archive = zipfile.ZipFile(file)
    members = [one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith("__MACOSX/")]
    if any(one.filename.startswith("xl/") for one in members):
        raise InputError(f"{name} is a spreadsheet: save the sheet as CSV.")
    if len(members) != 1:
        held = f"{len(members)} files, {quoted(one.filename for one in members)}," if members else "no file"
        raise InputError(f"{name} holds {held} instead of one: unpack it and name the file.")
    if members[0].flag_bits & 1:
        raise InputError(f"{name} is encrypted: unpack it with its password, and name the file.")
    member = archive.open(members[0])
    weakref.finalize(member, file.close)
    return member


def _unzstd(file: IO[bytes], name: str) -> IO[bytes]:
    try:
        from compression import zstd  # type: ignore[import-not-found]  # Python 3.14
    except ImportError:
        return need_pyarrow(f"Reading {name}, which is compressed by zstd,").input_stream(file, compression="zstd")
    return zstd.ZstdFile(file)


_PACKED: dict[bytes, Callable[[Any, str], Any]] = {
    b"\x1f\x8b": lambda file, name: gzip.GzipFile(fileobj=file),
    b"BZh": lambda file, name: bz2.BZ2File(file),
    b"\xfd7zXZ\0": lambda file, name: lzma.LZMAFile(file),  # noqa: SIM115
    b"PK\x03\x04": _unzip,
    b"\x28\xb5\x2f\xfd": _unzstd,
}
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError, RuntimeError)


def need_pyarrow(what: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise InputError(f'{what} needs pyarrow: pip install "evenmargin[parquet]"') from None
    return pyarrow
