"""Tables from files, whole or in pieces of bounded memory.

The format is recognised by the content: text with a separator, Parquet, Arrow, libsvm, any of them compressed. Whatever
is wrong with a file becomes one sentence, an `InputError`.

A column of a text file is read as numbers (or booleans) where every value is one, else as text with each word as it
stands in the file. Of a table in pieces each piece would decide that anew, so a model names its columns of `words`,
which are read as text in every piece; what is not a number in the others is for `_columns.Matcher` to judge. Parquet
and Arrow have types of their own. `_columns` makes the same table of all of them.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from typing import TypedDict

from ._base import InputError, TableFile
from ._bytes import ByteSource
from ._columnar import ArrowFile
from ._libsvm import LibsvmFile
from ._text import TextFile

__all__ = ["InputError", "TableFile", "TextOptions", "open_table"]

# What else a file may be, by its first bytes.
_OTHERS = {
    b"SQLite format 3": "is a database: write the table out as CSV",
    b"%PDF": "is a PDF document: give a table, such as CSV",
    b"\x89HDF": "is HDF5: write the table out as CSV or Parquet",
    b"\x93NUMPY": "is a NumPy array: write it out as CSV or Parquet",
    b"ORC": "is ORC: write the table out as CSV or Parquet",
    b"Obj\x01": "is Avro: write the table out as CSV or Parquet",
    b"\x80\x04": "is a pickle, which is not opened here since it can run code: write the table out as CSV or Parquet",
    b"\x80\x05": "is a pickle, which is not opened here since it can run code: write the table out as CSV or Parquet",
    b"\xd0\xcf\x11\xe0": "is a document of an old office program: save the sheet as CSV",
    b"FEA1": "is Feather of version 1: write the table out as Parquet",
    b"PK\x05\x06": "is an empty zip file",
}
_LIBSVM_START = re.compile(
    rb"(?:\s*#[^\n]*\n)*\s*[+-]?[\d.]+(?:[eE][+-]?\d+)?(?:[ \t]+\d+:[^\s:]+)+[ \t]*(?:#|\r?\n|\Z)"
)


class TextOptions(TypedDict):
    """The options of a text file that every command that reads a table has."""

    encoding: str
    separator: str | None


def open_table(path: str, *, encoding: str = "utf-8", separator: str | None = None) -> TableFile:
    """Find out what a file holds, and read the names of its columns; "-" is standard input.

    A byte order mark in the file overrides `encoding`; without a separator, it is found in the first lines.
    """
    separator = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}.get(separator or "", separator)
    if separator is not None and (len(separator) != 1 or not separator.isascii() or separator in '"\n\r\0'):
        raise InputError(f"The separator is {separator!r} and must be one character, such as ',' ';' '|' or tab.")
    try:
        with suppress(UnicodeError):
            b"a".decode(encoding)
    except LookupError:
        raise InputError(f"There is no encoding {encoding!r}: use utf-8, latin-1 or cp1252, for instance.") from None
    source = ByteSource(str(path))
    head = source.head()
    kind = _kind(head, source.name)
    if kind in ("parquet", "arrow"):
        return ArrowFile(source, kind)
    marked = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    # Control characters, which no text has; NUL bytes may be UTF-16 and get a sentence of their own.
    binary = not marked and len(re.findall(rb"[\x01-\x08\x0e-\x1f]", head[:2000])) > 4
    if binary and codecs.lookup(encoding).name == "utf-8":
        raise InputError(f"{source.name} is not a table of a known format: CSV, TSV, Parquet, Arrow or libsvm.")
    stem = re.sub(r"\.(gz|bz2|xz|zst|zip)$", "", source.name.lower())
    if separator is None and (stem.endswith((".libsvm", ".svmlight", ".svm")) or _LIBSVM_START.match(head)):
        return LibsvmFile(source, encoding)
    if separator is None and stem.endswith((".tsv", ".tab")):
        separator = "\t"
    return TextFile(source, encoding, separator)


def _kind(head: bytes, name: str) -> str:
    """Tell Parquet, Arrow and text by the first bytes, and refuse what is none of them."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    for magic, what in _OTHERS.items():
        if head.startswith(magic):
            raise InputError(f"{name} {what}.")
    text = head[:2000].lstrip(b"\xef\xbb\xbf \t\r\n")
    if re.match(rb'[{\[]\s*["{\[\]}]', text):
        raise InputError(f"{name} is JSON: write the table out as CSV or Parquet.")
    if re.match(rb"<(!doctype|html|\?xml)", text, re.I):
        raise InputError(f"{name} is a web page or XML: give a table, such as CSV.")
    return "text"
