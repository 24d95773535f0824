"""Text in blocks of whole lines, checked before pandas sees it.

Bytes in any encoding become UTF-8, then blocks of lines that have as many fields as the
header. pandas would fill up short lines in silence, and stops at a NUL byte.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple, NoReturn

import numpy as np

from ..._util.typing import Index
from ._base import InputError

LONGEST = 100_000_000  # bytes of one line
_NEWLINE, _QUOTE = ord("\n"), ord('"')
# Byte order marks; that of UTF-32 begins with that of UTF-16.
_MARKS = {
    **dict.fromkeys((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), "utf-32"),
    **dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-16"),
    codecs.BOM_UTF8: "utf-8",
}


def utf8(chunks: Iterable[bytes], encoding: str, name: str) -> Generator[bytes]:
    """The text in UTF-8 with a plain newline at the end of each line."""
    decoder, line, carriage = None, 1, b""
    for chunk in itertools.chain(chunks, [b""]):
        if decoder is None:
            encoding = next((own for mark, own in _MARKS.items() if chunk.startswith(mark)), encoding)
            decoder = codecs.getincrementaldecoder(encoding)()  # which skips other marks itself
            chunk = chunk.removeprefix(codecs.BOM_UTF8)
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
                "or in another encoding (try --encoding utf-16)."
            )
        line += _newlines(chunk)
        if chunk:
            yield chunk


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
        raise InputError(f"{name} is not {encoding.upper()}: {byte}; try --encoding {other}.") from None


def _lines(block: bytes, separator: str) -> tuple[Index, Index]:
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


def _marks(block: bytes, separator: str) -> Index:
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


class Header(NamedTuple):
    """The header of a text, its separator, the number of the line after it, and the chunks that follow."""

    text: bytes
    separator: str
    line: int
    rest: Iterator[bytes]


def blocks(header: Header, width: int, name: str) -> Iterator[tuple[bytes, int]]:
    """Whole lines of `width` fields, blank ones dropped: some at a time, and how many."""
    parts: list[bytes] = []
    line, size, wanted = header.line, 0, 0
    for chunk in itertools.chain(header.rest, [b""]):
        last = not chunk
        parts.append(chunk)
        size += len(chunk)
        if size < wanted and not last:
            continue
        block = b"".join(parts) + (b"\n" if last else b"")
        ends, fields = _lines(block, header.separator)
        cut = int(ends[-1]) + 1 if ends.size else 0
        lines, rest = block[:cut], block[cut:]
        even, count = _even(lines, ends, fields, width, name, line)
        if count:
            yield even, count
        line += _newlines(lines)
        if (last and rest.strip()) or len(rest) > LONGEST:
            endless(rest, last, name, line)
        parts, size, wanted = [rest], len(rest), 2 * len(rest)


def _even(lines: bytes, ends: Index, fields: Index, width: int, name: str, line: int) -> tuple[bytes, int]:
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
                f"where the header has {width}: correct it, or put fields that hold the separator into double quotes."
            )
        blank.append((start, end + 1))
    edges = [0, *itertools.chain.from_iterable(blank), len(lines)]
    return b"".join(lines[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)), ends.size - len(blank)


def endless(rest: bytes, last: bool, name: str, line: int) -> NoReturn:
    if b'"' in rest and b"\n" in rest.rstrip(b"\n"):
        raise InputError(f"A double quote in line {line} of {name} is never closed: close it, or write it twice.")
    if last:
        raise InputError(
            f"A double quote in line {line}, the last of {name}, is not closed: the file may be cut short."
        )
    raise InputError(f"Line {line} of {name} is longer than {LONGEST // 10**6} MB: it is not a table, or damaged.")


def read_header(chunks: Iterable[bytes], separator: str | None, name: str) -> Header:
    """Read the first line that is not blank; without a separator, it is found there and in the next line."""
    chunks = iter(chunks)
    start, line = b"", 1
    for chunk in itertools.chain(chunks, [b""]):
        start += chunk or b"\n"
        bare = re.sub(rb"\A(?: *\n)+", b"", start)
        line, start = line + start.count(10) - bare.count(10), bare
        if start:
            separator = separator or _likely_separator(start)
            ends, _ = _lines(start, separator)
            if ends.size:
                end = int(ends[0]) + 1
                rest = itertools.chain([start[end:]], chunks)
                return Header(start[:end], separator, line + start.count(10, 0, end), rest)
            if len(start) > LONGEST or not chunk:
                endless(start, not chunk, name, line)
    raise InputError(f"{name} is empty.")


def _likely_separator(start: bytes) -> str:
    """Find the sign between fields: it is often in the header, and as often in the next line."""
    bare = re.sub(rb'"(?:[^"]|"")*+"', b"", start[: 1 << 20])
    first, second = ([line for line in bare.split(b"\n", 20)[:20] if line.strip()] + [b"", b""])[:2]

    def likely(sign: str) -> tuple[bool, int]:
        count = first.count(sign.encode())
        return count > 0 and count == second.count(sign.encode()), count

    return max([",", "\t", ";", "|"], key=likely)
