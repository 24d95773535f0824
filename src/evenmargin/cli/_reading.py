"""Tables from files, whole or in pieces of bounded memory.

The format is told by the content: text with a separator, Parquet, Arrow, libsvm,
any of them compressed. What cannot be read is one sentence, an `InputError`.

**Types.** A column of a text file is read as numbers where every value is one (or
as booleans), else as text with each word as it stands in the file. Read whole that
is decided over all rows. In pieces it can only be decided piece by piece, so a
model names its columns of `words`, which are read as text in every piece; what is
not a number in the others is for `_columns.Matcher` to judge. Parquet and Arrow have
types of their own. `_columns` makes the same table of all of them.

**Text** is checked before pandas sees it, in blocks of bytes: encoding, NUL bytes,
and the number of fields in each line, of which pandas would fill up the short ones in silence.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import difflib
import gzip
import hashlib
import io
import itertools
import lzma
import os
import re
import shutil
import sys
import tempfile
import weakref
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["MISSING", "InputError", "TableFile", "fingerprint", "near", "open_table", "quoted"]

# Words that mean "no value", in every format.
_GAPS = "NA,N/A,n/a,<NA>,#NA,#N/A,#N/A N/A,NULL,null,None,NaN,nan,-NaN,-nan,1.#IND,-1.#IND,1.#QNAN,-1.#QNAN"
MISSING = frozenset(["", *_GAPS.split(",")])

_CHUNK = 1 << 20  # bytes read at a time
_PARSED = 4 << 20  # bytes of text that pandas gets at a time when reading in pieces
_LONGEST = 100_000_000  # bytes of one line
_CELLS = 4_000_000  # of a piece of a Parquet file
_WIDEST = 20_000  # columns of a libsvm file, which is read as a dense table
_ROWS = 100_000
_SLICE = 1 << 18  # bytes that pandas asks for at a time
_NEWLINE, _QUOTE = ord("\n"), ord('"')

# pandas 3.1 reads every float as Python does and deprecates the option that older ones need for it.
_EXACT = {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}

Places = NDArray[np.intp]


class InputError(ValueError):
    """A file or a table that cannot be used; one sentence that says why and what to do."""


class TableFile(ABC):
    """A file that holds a table; made by `open_table`.

    Attributes
    ----------
    name : str
        The file's name, for messages.
    format : str
        "csv", "tsv", "parquet", "arrow" or "libsvm".
    columns : list of str
        Names in the file's order.
    """

    name: str
    format: str
    columns: list[str]

    @abstractmethod
    def read(self, *, columns: Iterable[str] | None = None, words: Iterable[str] = ()) -> pd.DataFrame:
        """The whole table.

        Parameters
        ----------
        columns : iterable of str, default=None
            Read only these. Names that the file does not have are passed over; in a
            libsvm file they are columns of zeros.
        words : iterable of str, default=()
            Columns to read as text whatever they look like.
        """

    @abstractmethod
    def pieces(
        self, rows: int = _ROWS, *, columns: Iterable[str] | None = None, words: Iterable[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """The table in pieces of at most `rows` rows, fewer where they are wide; `columns` and `words` as in `read`."""

    def lacks(self, names: Iterable[str]) -> list[str]:
        """Those of the names that the file cannot give."""
        known = set(self.columns)
        return [name for name in names if name not in known]

    def _wanted(self, columns: Iterable[str] | None) -> list[str]:
        """The file's columns that are asked for, in the file's order; where it has none of them, its first."""
        if columns is None:
            return self.columns
        asked = set(columns)
        return [name for name in self.columns if name in asked] or self.columns[:1]

    def _no_rows(self) -> NoReturn:
        raise InputError(f"{self.name} has column names but no rows: there is nothing to read.")


def open_table(path: str, *, encoding: str = "utf-8", separator: str | None = None) -> TableFile:
    """Find out what a file holds, and read the names of its columns.

    Parameters
    ----------
    path : str
        A file, or "-" for standard input.
    encoding : str, default="utf-8"
        Of text. A byte order mark in the file has the last word.
    separator : str, default=None
        One character between the fields of a text file; None finds it in the first lines.

    Returns
    -------
    TableFile

    Raises
    ------
    InputError
        Where the file cannot be read or is not a table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from evenmargin.cli._reading import open_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "claims.csv"
    ...     _ = path.write_text("amount;fraud\\n12,5;no\\n980;yes\\n")
    ...     table = open_table(str(path))
    ...     print(table.format, table.columns)
    ...     print(table.read())
    csv ['amount', 'fraud']
       amount fraud
    0    12.5    no
    1   980.0   yes
    """
    separator = _one_character(separator)
    try:
        with suppress(UnicodeError):
            b"a".decode(encoding)
    except LookupError:
        raise InputError(f"There is no encoding {encoding!r}: say utf-8, latin-1 or cp1252, for instance.") from None
    source = _Source(str(path))
    head = source.head()
    kind = _kind(head, source.name)
    if kind in ("parquet", "arrow"):
        return _ArrowFile(source, kind)
    if codecs.lookup(encoding).name == "utf-8" and _binary(head):
        raise InputError(f"{source.name} is not a table that is known here: CSV, TSV, Parquet, Arrow or libsvm.")
    stem = re.sub(r"\.(gz|bz2|xz|zst|zip)$", "", source.name.lower())
    if separator is None and (stem.endswith((".libsvm", ".svmlight", ".svm")) or _LIBSVM_START.match(head)):
        return _LibsvmFile(source, encoding)
    if separator is None and stem.endswith((".tsv", ".tab")):
        separator = "\t"
    return _TextFile(source, encoding, separator)


def fingerprint(frame: pd.DataFrame) -> str:
    """A digest of a table's names and values, row by row; not of the format it came in.

    Of `Prepared.X` and `Matched.X` it is the same for the same table in any format.

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


def near(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Names that someone who wrote `name` may have meant.

    Examples
    --------
    >>> from evenmargin.cli._reading import near
    >>> near("Froud", ["amount", "fraud", "country"])
    ['fraud']
    """
    by_lower: dict[str, list[str]] = {}
    for other in names:
        by_lower.setdefault(other.lower().strip(), []).append(other)
    found = difflib.get_close_matches(name.lower().strip(), by_lower, n=most, cutoff=0.6)
    return [other for lower in found for other in by_lower[lower]][:most]


def quoted(names: Iterable[object], most: int = 5) -> str:
    """Names in quotes; of many the first, and how many more.

    Examples
    --------
    >>> from evenmargin.cli._reading import quoted
    >>> quoted("abcd", most=2)
    "'a', 'b' and 2 more"
    """
    listed = [repr(name) for name in names]
    shown, more = listed[:most], len(listed) - most
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


# Bytes: a file, a pipe, what is compressed.


class _Source:
    """The bytes of a file or of standard input, unpacked if they were compressed.

    Standard input and pipes can be read only once, others `again`.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "standard input" if path == "-" else os.path.basename(path) or path
        self.again = path != "-" and (os.path.isfile(path) or not os.path.exists(path))
        self.packed = False
        self._begun: Iterator[bytes] | None = None

    def head(self) -> bytes:
        """The first bytes, which stay to be read."""
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
        """All bytes, some at a time."""
        if self.again:
            return self._read()
        if self._begun is None:
            raise InputError(f"{self.name} can be read only once: write it to a file first.")
        begun, self._begun = self._begun, None
        return begun

    def spool(self) -> IO[bytes]:
        """All bytes in a temporary file without a name, for formats that are not read from front to back."""
        file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, file.close)
        try:
            for chunk in self.chunks():
                file.write(chunk)
        except OSError as error:
            raise InputError(f"{self.name} could not be kept in {tempfile.gettempdir()}: {error.strerror}.") from None
        file.seek(0)
        return file

    def _read(self) -> Generator[bytes]:
        with _open(self.path, self.name) as file:
            try:
                start = _read_up_to(file, 8)
                unpack = next((unpack for magic, unpack in _PACKED.items() if start.startswith(magic)), None)
                self.packed = unpack is not None
                whole = file if self.again else io.BufferedReader(_Chained(start, file), _CHUNK)
                if self.again:
                    file.seek(0)
                with closing(unpack(whole, self.name) if unpack else whole) as stream:
                    while chunk := stream.read(_CHUNK):
                        yield chunk
            except _DAMAGE as error:
                said = (getattr(error, "strerror", None) or str(error) or "no more bytes").rstrip(".")
                raise InputError(f"{self.name} is damaged or cut short, and cannot be read: {said}.") from None


class _Chained(io.RawIOBase):
    """Bytes that were read already, then the rest of their file."""

    def __init__(self, start: bytes, rest: IO[bytes]) -> None:
        self._start, self._rest = start, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        some = self._start[: len(buffer)] or self._rest.read(len(buffer))
        self._start = self._start[len(buffer) :]
        buffer[: len(some)] = some
        return len(some)


def _open(path: str, name: str) -> AbstractContextManager[IO[bytes]]:
    if path == "-":
        if sys.stdin is None:
            raise InputError("There is no standard input here: name a file.")
        return nullcontext(sys.stdin.buffer)  # it stays open
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise InputError(f"There is no file {path!r}{_instead(path)}") from None
    except IsADirectoryError:
        raise InputError(f"{path!r} is a folder: name a file in it.") from None
    except PermissionError:
        raise InputError(f"{path!r} may not be read: permission denied.") from None
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise InputError(f"{name[:80]!r} cannot be opened: {said}.") from None


def _instead(path: str) -> str:
    """Files of nearly the same name, to end a sentence."""
    try:
        found = near(
            os.path.basename(path), (other.name for other in itertools.islice(Path(path).parent.iterdir(), 2000))
        )
    except OSError:
        found = []
    return f": did you mean {quoted(found)}?" if found else "."


def _read_up_to(file: IO[bytes], size: int) -> bytes:
    """So many bytes, or all there are: a pipe may give fewer at a time."""
    parts = b""
    while len(parts) < size and (some := file.read(size - len(parts))):
        parts += some
    return parts


def _unzip(file: IO[bytes], name: str) -> IO[bytes]:
    if not file.seekable():  # a zip file is read from its end
        pipe, file = file, tempfile.TemporaryFile()  # noqa: SIM115
        shutil.copyfileobj(pipe, file)
    archive = zipfile.ZipFile(file)
    members = [one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith("__MACOSX/")]
    if any(one.filename.startswith("xl/") for one in members):
        raise InputError(f"{name} is a spreadsheet: save the sheet as CSV.")
    if len(members) != 1:
        raise InputError(f"{name} holds {len(members)} files, and one is wanted: unpack it and name the file.")
    member = archive.open(members[0])
    weakref.finalize(member, file.close)
    return member


def _unzstd(file: IO[bytes], name: str) -> IO[bytes]:
    try:
        from compression import zstd  # type: ignore[import-not-found]  # Python 3.14
    except ImportError:
        return _arrow(f"Reading {name}, which is compressed by zstd,").input_stream(file, compression="zstd")
    return zstd.ZstdFile(file)


_PACKED: dict[bytes, Callable[[Any, str], Any]] = {
    b"\x1f\x8b": lambda file, name: gzip.GzipFile(fileobj=file),
    b"BZh": lambda file, name: bz2.BZ2File(file),
    b"\xfd7zXZ\0": lambda file, name: lzma.LZMAFile(file),  # noqa: SIM115
    b"PK\x03\x04": _unzip,
    b"\x28\xb5\x2f\xfd": _unzstd,
}
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError, RuntimeError)

# What else a file may be, by its first bytes.
_OTHERS = {
    b"SQLite format 3": "is a database: write the table out as CSV",
    b"%PDF": "is a PDF document: a table is wanted, such as CSV",
    b"\x89HDF": "is HDF5: write the table out as CSV or Parquet",
    b"\x93NUMPY": "is a NumPy array: write it out as CSV or Parquet",
    b"ORC": "is ORC: write the table out as CSV or Parquet",
    b"Obj\x01": "is Avro: write the table out as CSV or Parquet",
    b"\x80\x04": "is a pickle, which is not opened here since it can run code: write the table out as CSV or Parquet",
    b"\x80\x05": "is a pickle, which is not opened here since it can run code: write the table out as CSV or Parquet",
    b"\xd0\xcf\x11\xe0": "is a document of an old office program: save the sheet as CSV",
    b"PK\x05\x06": "is an empty zip file",
}
_LIBSVM_START = re.compile(
    rb"(?:\s*#[^\n]*\n)*\s*[+-]?[\d.]+(?:[eE][+-]?\d+)?(?:[ \t]+\d+:[^\s:]+)+[ \t]*(?:#|\r?\n|\Z)"
)


def _kind(head: bytes, name: str) -> str:
    """Parquet, Arrow or text, by the first bytes."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"FEA1", b"\xff\xff\xff\xff")):
        return "arrow"
    for magic, what in _OTHERS.items():
        if head.startswith(magic):
            raise InputError(f"{name} {what}.")
    text = head[:2000].lstrip(b"\xef\xbb\xbf \t\r\n")
    if re.match(rb'[{\[]\s*["{\[\]}]', text):
        raise InputError(f"{name} is JSON: write the table out as CSV or Parquet.")
    if re.match(rb"<(!doctype|html|\?xml)", text, re.I):
        raise InputError(f"{name} is a web page or XML: a table is wanted, such as CSV.")
    return "text"


def _binary(head: bytes) -> bool:
    """Whether the first bytes have signs that no text has; NUL bytes may be UTF-16 and get a sentence of their own."""
    marked = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return not marked and len(re.findall(rb"[\x01-\x08\x0e-\x1f]", head[:2000])) > 4


# Text: bytes in any encoding -> UTF-8, checked -> blocks of whole lines, each with as many fields as the header.


def _utf8(chunks: Iterable[bytes], encoding: str, name: str) -> Generator[bytes]:
    """The text in UTF-8 with a plain newline at the end of each line."""
    decoder, line, carriage = None, 1, b""
    for chunk in itertools.chain(chunks, [b""]):
        if decoder is None:
            encoding, skip = _marked(chunk, encoding)
            decoder, chunk = codecs.getincrementaldecoder(encoding)(), chunk[skip:]
            direct = codecs.lookup(encoding).name in ("utf-8", "ascii")
        if not (direct and chunk and chunk.isascii() and not decoder.getstate()[0]):
            chunk = _decoded(decoder, chunk, line, encoding, name)
        if carriage or b"\r" in chunk:
            chunk = carriage + chunk
            carriage = b"\r" if chunk.endswith(b"\r") and chunk != b"\r" else b""
            chunk = chunk.removesuffix(carriage).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        nul = chunk.find(0)
        if nul >= 0:
            raise InputError(
                f"{name} holds a NUL byte in line {line + chunk.count(10, 0, nul)}: it is damaged, not a text file, "
                "or in another encoding (say --encoding utf-16 if it is that)."
            )
        line += _newlines(chunk)
        if chunk:
            yield chunk


def _marked(start: bytes, encoding: str) -> tuple[str, int]:
    """The encoding that a byte order mark tells, and how many bytes to skip; the decoder skips other marks itself."""
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32", 0
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", 0
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8", 3
    return encoding, 0


def _decoded(decoder: codecs.IncrementalDecoder, chunk: bytes, line: int, encoding: str, name: str) -> bytes:
    """A chunk in UTF-8; an empty one is the last."""
    try:
        return decoder.decode(chunk, final=not chunk).encode()
    except UnicodeError as error:
        where = getattr(error, "start", 0)
        data = getattr(error, "object", b"")
        line += data.count(10, 0, where)
        byte = f"byte 0x{data[where]:02X} in line {line}" if where < len(data) else f"line {line}"
        other = "latin-1" if encoding.lower().replace("_", "-") in ("utf-8", "utf8", "ascii") else "utf-8"
        raise InputError(f"{name} is not {encoding.upper()}: {byte}; say --encoding {other} if it is that.") from None


def _lines(block: bytes, separator: str) -> tuple[Places, Places]:
    """Where the lines of a block end, and how many fields each has; what follows the last line end is not counted.

    As pandas sees it: a quote opens at the start of a field only, spaces aside; two of them inside quotes are
    one, and a quote elsewhere is a letter. The block must begin with a line.
    """
    data = np.frombuffer(block, np.uint8)
    if b'"' in block:
        marks = _marks(block, separator)
        places = np.flatnonzero(data[marks] == _NEWLINE)
        return marks[places], np.diff(places, prepend=-1)
    ends = np.flatnonzero(data == _NEWLINE)
    if not ends.size:
        return ends, ends
    starts = np.concatenate([[0], ends[:-1] + 1])
    separators = (data[: ends[-1] + 1] == ord(separator)).view(np.uint8)
    return ends, np.add.reduceat(separators, starts, dtype=np.uint32).astype(np.intp) + 1


def _marks(block: bytes, separator: str) -> Places:
    """Separators and line ends that are not inside quotes."""
    data = np.frombuffer(block, np.uint8)
    places = np.flatnonzero((data == _NEWLINE) | (data == ord(separator)) | (data == _QUOTE))
    quotes = data[places] == _QUOTE
    inside = np.bitwise_xor.accumulate(quotes)
    opening = places[quotes & inside]
    before = data[opening - 1]
    apart = (before == ord(separator)) | (before == _NEWLINE) | (before == _QUOTE) | (opening == 0)
    if apart.all():
        return places[~(quotes | inside)]
    # Some quotes are letters, or have spaces before them: field by field.
    s, spaces = re.escape(separator.encode()), b"" if separator == " " else b" *+"
    field = rb'%b(?:(?:"(?:[^"]++|"")*+"[^%b\n]*+|[^%b\n"][^%b\n]*+|)([%b\n]|\Z)|")' % (spaces, s, s, s, s)
    fields = itertools.takewhile(lambda one: one[1], re.finditer(field, block))
    return np.fromiter((one.start(1) for one in fields), np.intp)


def _newlines(block: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == _NEWLINE))  # several times as fast as bytes.count


def _blocks(chunks: Iterable[bytes], separator: str, width: int, name: str, line: int) -> Iterator[tuple[bytes, int]]:
    """Whole lines of `width` fields, blank ones dropped: some at a time, and how many."""
    parts: list[bytes] = []
    size = wanted = 0
    for chunk in itertools.chain(chunks, [b""]):
        last = not chunk
        parts.append(chunk)
        size += len(chunk)
        if size < wanted and not last:
            continue
        block = b"".join(parts) + (b"\n" if last else b"")
        ends, fields = _lines(block, separator)
        cut = int(ends[-1]) + 1 if ends.size else 0
        lines, rest = block[:cut], block[cut:]
        even, count = _even(lines, ends, fields, width, name, line)
        if count:
            yield even, count
        line += _newlines(lines)
        if (last and rest.strip()) or len(rest) > _LONGEST:
            _endless(rest, last, name, line)
        parts, size, wanted = [rest], len(rest), 2 * len(rest)


def _even(lines: bytes, ends: Places, fields: Places, width: int, name: str, line: int) -> tuple[bytes, int]:
    """The lines without the blank ones, and their number; one without `width` fields is refused."""
    uneven = np.flatnonzero(np.diff(ends, prepend=-1) == 1 if width == 1 else fields != width)
    if not uneven.size:
        return lines, ends.size
    blank = []
    for i in uneven:
        start, end = int(ends[i - 1]) + 1 if i else 0, int(ends[i])
        if lines[start:end].strip():
            raise InputError(
                f"Line {line + _newlines(lines[:start])} of {name} has {fields[i]} field{'s' if fields[i] > 1 else ''} "
                f"where the header has {width}: mend it, or put fields that hold the separator into double quotes."
            )
        blank.append((start, end + 1))
    edges = [0, *itertools.chain.from_iterable(blank), len(lines)]
    return b"".join(lines[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)), ends.size - len(blank)


def _endless(rest: bytes, last: bool, name: str, line: int) -> NoReturn:
    if b'"' in rest and b"\n" in rest.rstrip(b"\n"):
        raise InputError(f"A double quote in line {line} of {name} is never closed: close it, or write it twice.")
    if last:
        raise InputError(
            f"A double quote in line {line} of {name}, the last, is not closed: the file may be cut short."
        )
    raise InputError(f"Line {line} of {name} is longer than {_LONGEST // 10**6} MB: it is not a table, or damaged.")


class _Feed:
    """Blocks of lines as a file that pandas reads; what goes wrong in them is raised as it is."""

    def __init__(self, blocks: Iterable[tuple[bytes, int]]) -> None:
        self._slices = (block[i : i + _SLICE] for block, _ in blocks for i in range(0, len(block), _SLICE))

    def read(self, size: int = -1) -> bytes:
        return next(self._slices, b"")

    def __iter__(self) -> Iterator[bytes]:
        return self._slices


class _TextFile(TableFile):
    """CSV and its kin."""

    def __init__(self, source: _Source, encoding: str, separator: str | None) -> None:
        self.name, self._source, self._encoding = source.name, source, encoding
        text = _utf8(source.chunks(), encoding, self.name)
        start = next(text, b"")
        while start and not start.strip():  # blank lines before the header
            start = next(text, b"")
        if not start:
            raise InputError(f"{self.name} is empty.")
        self.separator = separator or _separator(start)
        self.format = "tsv" if self.separator == "\t" else "csv"
        header, self._line, rest = _header(itertools.chain([start], text), self.separator, self.name)
        self.columns = _names(header, self.separator, self.name)
        sample = next(rest, b"")
        self._decimal = _decimal(sample, self.separator)
        self._begun: Iterator[bytes] | None = None if source.again else itertools.chain([sample], rest)
        if source.again:
            text.close()

    def read(self, *, columns: Iterable[str] | None = None, words: Iterable[str] = ()) -> pd.DataFrame:
        frame = self._parse(_Feed(self._lines()), self._wanted(columns), words)
        return frame if len(frame) else self._no_rows()

    def pieces(
        self, rows: int = _ROWS, *, columns: Iterable[str] | None = None, words: Iterable[str] = ()
    ) -> Iterator[pd.DataFrame]:
        wanted, words, some = self._wanted(columns), list(words), False
        for block in _gathered(self._lines(), rows):
            frame = self._parse(_Feed([block]), wanted, words)
            some = True
            yield from (frame.iloc[i : i + rows].reset_index(drop=True) for i in range(0, len(frame), rows))
        if not some:
            self._no_rows()

    def _lines(self) -> Iterator[tuple[bytes, int]]:
        """Blocks of lines after the header."""
        if self._begun is None:
            text = _utf8(self._source.chunks(), self._encoding, self.name)
            _, self._line, self._begun = _header(text, self.separator, self.name)
        rest, self._begun = self._begun, None
        return _blocks(rest, self.separator, len(self.columns), self.name, self._line)

    def _parse(self, file: Any, columns: list[str], words: Iterable[str]) -> pd.DataFrame:
        asked = set(words)
        try:
            frame = pd.read_csv(
                file,
                sep=self.separator,
                decimal=self._decimal,
                header=None,
                names=self.columns,
                usecols=columns,
                index_col=False,
                dtype={name: object for name in columns if name in asked},
                keep_default_na=False,
                na_values=sorted(MISSING),
                skipinitialspace=self.separator != " ",
                skip_blank_lines=False,  # they are dropped already, by the same rule in every pandas
                low_memory=False,
                encoding="utf-8",
                **_EXACT,
            )
        except InputError:
            raise
        except pd.errors.EmptyDataError:
            self._no_rows()
        except (ValueError, OverflowError) as error:
            said = str(error).strip().split("\n")[-1].rstrip(".")
            raise InputError(f"{self.name} cannot be read: {said}.") from None
        return _with_points(frame) if self._decimal == "," else frame


def _gathered(blocks: Iterable[tuple[bytes, int]], rows: int) -> Iterator[tuple[bytes, int]]:
    """Blocks joined until they hold so many rows, or are large."""
    parts: list[bytes] = []
    total = size = 0
    for block, count in blocks:
        parts.append(block)
        total, size = total + count, size + len(block)
        if total >= rows or size >= _PARSED:
            yield b"".join(parts), total
            parts, total, size = [], 0, 0
    if parts:
        yield b"".join(parts), total


def _one_character(separator: str | None) -> str | None:
    separator = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}.get(separator or "", separator)
    if separator is not None and (len(separator) != 1 or not separator.isascii() or separator in '"\n\r\0'):
        raise InputError(f"The separator is {separator!r} and must be one character, such as ',' ';' '|' or tab.")
    return separator


def _separator(start: bytes) -> str:
    """The sign between fields: the one that is often in the header, and as often in the next line."""
    bare = re.sub(rb'"(?:[^"]|"")*+"', b"", start[: 1 << 20])
    first, second = ([line for line in bare.split(b"\n", 20)[:20] if line.strip()] + [b"", b""])[:2]

    def likely(sign: str) -> tuple[bool, int]:
        count = first.count(sign.encode())
        return count > 0 and count == second.count(sign.encode()), count

    return max([",", "\t", ";", "|"], key=likely)


def _decimal(sample: bytes, separator: str) -> str:
    """A comma where the first lines have more numbers like 1,5 than like 1.5 between separators that are no commas."""
    if separator == ",":
        return "."
    sample = b"\n" + sample
    number = rb'(?<=[%b\n])"?[+-]?\d+%b\d+"?(?=[%b\n])'
    s = re.escape(separator.encode())
    commas, points = (len(re.findall(number % (s, sign, s), sample)) for sign in (b",", rb"\."))
    return "," if commas > points else "."


def _with_points(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers among the words of a column, too, with a point for the comma: elsewhere in the column it was read so."""
    comma = re.compile(r"\s*[+-]?\d*,\d+(?:[eE][+-]?\d+)?\s*")
    for name in frame.columns:
        if frame[name].dtype.kind not in "biuf":
            codes, words = pd.factorize(frame[name].astype(object))
            numbers = [isinstance(word, str) and comma.fullmatch(word) for word in words]
            if any(numbers):
                told = [w.replace(",", ".") if number else w for w, number in zip(words, numbers, strict=True)]
                frame[name] = np.array([*told, np.nan], dtype=object)[codes]
    return frame


def _header(chunks: Iterable[bytes], separator: str, name: str) -> tuple[bytes, int, Iterator[bytes]]:
    """The header, the number of the line after it, and the chunks that follow."""
    chunks = iter(chunks)
    start, line = b"", 1
    for chunk in itertools.chain(chunks, [b""]):
        start += chunk or b"\n"
        blank = re.match(rb"(?:[ ]*\n)*", start)
        skipped = blank.end() if blank else 0
        line, start = line + start.count(10, 0, skipped), start[skipped:]
        ends, _ = _lines(start, separator)
        if ends.size:
            end = int(ends[0]) + 1
            return start[:end], line + start.count(10, 0, end), itertools.chain([start[end:]], chunks)
        if len(start) > _LONGEST or not chunk:
            _endless(start, not chunk, name, line)
    raise InputError(f"{name} is empty.")


def _names(header: bytes, separator: str, name: str) -> list[str]:
    try:
        text = io.StringIO(header.decode(), newline="")
        fields = next(csv.reader(text, delimiter=separator, skipinitialspace=separator != " "))
    except (csv.Error, StopIteration) as error:
        raise InputError(f"The first line of {name} is not a header: {error}.") from None
    fields = [field.strip() for field in fields]
    named = [field for field in fields if field]
    whole = all(re.fullmatch(r"\d+", field) for field in named) and len(set(named)) == len(named)
    if named and not whole and all(re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", field) for field in named):
        raise InputError(f"The first line of {name} holds numbers: add a line with the names of the columns before it.")
    return _different([field or f"column {j}" for j, field in enumerate(fields, 1)], name)


def _different(columns: Sequence[str], name: str) -> list[str]:
    """The names, no two the same."""
    twice = [column for column, count in Counter(columns).items() if count > 1]
    if twice:
        raise InputError(f"{name} has more than one column named {quoted(twice)}: give each column a name of its own.")
    return list(columns)


# Parquet and Arrow.


def _arrow(what: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise InputError(f'{what} needs pyarrow: pip install "evenmargin[parquet]"') from None
    return pyarrow


class _ArrowFile(TableFile):
    """Parquet, Arrow files and streams, Feather."""

    def __init__(self, source: _Source, kind: str) -> None:
        self.name, self.format, self._source = source.name, kind, source
        self._pa = _arrow(f"Reading {self.name}")
        self._file = None if source.again and not source.packed else source.spool()
        with self._guarded():
            schema, _ = self._opened()
            self.columns = _different([str(name) for name in schema.names], self.name)

    def read(self, *, columns: Iterable[str] | None = None, words: Iterable[str] = ()) -> pd.DataFrame:
        wanted = self._wanted(columns)
        with self._guarded():
            schema, batches = self._opened(wanted)
            fields = self._pa.schema([schema.field(name) for name in wanted])
            frame = _frame(self._pa.Table.from_batches(list(batches(1 << 20)), schema=fields))
        return frame if len(frame) else self._no_rows()

    def pieces(
        self, rows: int = _ROWS, *, columns: Iterable[str] | None = None, words: Iterable[str] = ()
    ) -> Iterator[pd.DataFrame]:
        wanted, some = self._wanted(columns), False
        rows = max(1, min(rows, _CELLS // max(1, len(wanted))))
        with self._guarded():
            _, batches = self._opened(wanted)
            for batch in batches(rows):
                for i in range(0, batch.num_rows, rows):
                    some = True
                    yield _frame(self._pa.Table.from_batches([batch.slice(i, rows)]))
        if not some:
            self._no_rows()

    def _opened(self, columns: list[str] | None = None) -> tuple[Any, Callable[[int], Iterator[Any]]]:
        """The schema, and a function that gives the batches of the columns."""
        from pyarrow import feather, ipc, parquet

        file = self._file or self._pa.OSFile(self._source.path)
        file.seek(0)
        if self.format == "parquet":
            table = parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 16)  # not a row group at once
            return table.schema_arrow, lambda rows: table.iter_batches(rows, columns=columns)
        start = file.read(6)
        file.seek(0)
        if start.startswith(b"FEA1"):
            whole = feather.read_table(file)
            return whole.schema, lambda rows: iter(whole.select(columns or whole.column_names).to_batches())
        if start == b"ARROW1":
            reader = ipc.open_file(file)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            reader = batches = ipc.open_stream(file)
        return reader.schema, lambda rows: (batch.select(columns or reader.schema.names) for batch in batches)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Whatever pyarrow says of a damaged file, as one sentence."""
        try:
            yield
        except InputError:
            raise
        except (OSError, ValueError, TypeError, LookupError, OverflowError, self._pa.ArrowException) as error:
            said = str(error).strip().split("\n")[0][:200].rstrip(".") or "no more bytes"
            raise InputError(f"{self.name} is damaged or cut short, and cannot be read: {said}.") from None


def _frame(table: Any) -> pd.DataFrame:
    table = table.unify_dictionaries()
    columns = {name: _from_arrow(table.column(j)) for j, name in enumerate(table.column_names)}
    return pd.DataFrame(columns, index=pd.RangeIndex(table.num_rows), copy=False)


def _from_arrow(column: Any) -> Any:
    """A column in NumPy's types where it has one; instants in UTC; gaps in whole numbers make them floats."""
    from pyarrow import float32, float64, string, types

    kind = column.type
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    if types.is_decimal(kind):
        column = column.cast(float64())
    elif types.is_float16(kind):
        column = column.cast(float32())
    elif types.is_time(kind):
        column = column.cast(string())
    kind = column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_temporal(kind):
        return column.to_numpy()
    if types.is_boolean(kind):
        return column.to_numpy() if not column.null_count else np.array(column.to_pylist(), dtype=object)
    return column.to_pandas()


# libsvm: a label, then index:value.

_LIBSVM_NAME = re.compile(r"x(\d{1,9})")
_NUMBER = rb"[+-]?(?:\d+\.?\d*|\.\d+|nan|inf)(?:[eE][+-]?\d+)?"
_LIBSVM_LINE = re.compile(rb"\s*(?:%b(?:[ \t]+qid:\d+)?(?:[ \t]+\d+:%b)*\s*)?(?:#.*)?" % (_NUMBER, _NUMBER))


class _LibsvmFile(TableFile):
    """A label and the values that are not zero: columns "label", "x1", "x2", …, after the numbers in the file."""

    format = "libsvm"

    def __init__(self, source: _Source, encoding: str) -> None:
        self.name, self._source, self._encoding = source.name, source, encoding
        self._file = None if source.again else source.spool()
        lowest, highest = 1, 0
        for X, _ in self._blocks():
            if X.nnz:
                lowest, highest = min(lowest, int(X.indices.min())), max(highest, X.shape[1] - 1)
        if highest - lowest + 1 > _WIDEST:
            raise InputError(
                f"{self.name} has {highest - lowest + 1} columns, and a table of at most {_WIDEST} is read here: in "
                "Python, LinearSVM takes the sparse matrix of sklearn.datasets.load_svmlight_file."
            )
        self.columns = ["label", *(f"x{j}" for j in range(lowest, highest + 1))]

    def read(self, *, columns: Iterable[str] | None = None, words: Iterable[str] = ()) -> pd.DataFrame:
        return pd.concat(self.pieces(columns=columns), ignore_index=True)

    def pieces(
        self, rows: int = _ROWS, *, columns: Iterable[str] | None = None, words: Iterable[str] = ()
    ) -> Iterator[pd.DataFrame]:
        wanted = self.columns if columns is None else list(dict.fromkeys(columns))
        rows, some = max(1, min(rows, _CELLS // max(1, len(wanted)))), False
        for X, y in self._blocks():
            for i in range(0, X.shape[0], rows):
                some = True
                yield _dense(X[i : i + rows], y[i : i + rows], wanted)
        if not some:
            raise InputError(f"{self.name} has no rows: there is nothing to read.")

    def lacks(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name != "label" and not _LIBSVM_NAME.fullmatch(name)]

    def _blocks(self) -> Iterator[tuple[Any, Any]]:
        """Sparse rows and their labels, some at a time."""
        if self._file is None:
            chunks = self._source.chunks()
        else:
            self._file.seek(0)
            chunks = iter(lambda: self._file.read(_CHUNK) if self._file else b"", b"")
        line, rest = 1, b""
        for chunk in itertools.chain(_utf8(chunks, self._encoding, self.name), [b"\n"]):
            lines, newline, end = (rest + chunk).rpartition(b"\n")
            rest = end
            if len(rest) > _LONGEST:
                _endless(rest, False, self.name, line)
            if lines.strip():
                yield self._parsed(lines + newline, line)
            line += lines.count(10) + len(newline)

    def _parsed(self, lines: bytes, line: int) -> tuple[Any, Any]:
        from sklearn.datasets import load_svmlight_file

        try:
            return load_svmlight_file(io.BytesIO(lines), zero_based=True)
        except (ValueError, OverflowError, IndexError) as error:
            bad = (i for i, one in enumerate(lines.split(b"\n"), line) if not _LIBSVM_LINE.fullmatch(one))
            where = next((f"line {i}" for i in bad), f"a line after {line}")
            raise InputError(
                f"{self.name} has an error in {where}: in libsvm format a line is a label and then index:value, with "
                f"indices in their order ({error})."
            ) from None


def _dense(X: Any, y: Any, columns: list[str]) -> pd.DataFrame:
    """Rows of a sparse matrix under the names asked for, as far as they are names of its kind."""
    columns = [name for name in columns if name == "label" or _LIBSVM_NAME.fullmatch(name)]
    out = np.zeros((len(columns), X.shape[0]))
    by_column = X.tocsc()
    for j, name in enumerate(columns):
        place = -1 if name == "label" else int(name[1:])
        if place < 0:
            out[j] = y
        elif place < X.shape[1]:
            span = slice(by_column.indptr[place], by_column.indptr[place + 1])
            out[j, by_column.indices[span]] = by_column.data[span]
    return pd.DataFrame(out.T, columns=columns)
