"""The file of a model: its seal, its members, and what a file without a seal may be."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from .. import __version__
from .._util.sentences import in_one_line

FORMAT = 2  # 1 was of versions before the first release: types under the names of modules
MANIFEST, SCHEMA = "evenmargin.json", "schema.json"
_SEAL = re.compile(rb"evenmargin-model (\d{1,6}) sha256:([0-9a-f]{64})\Z")
_MEMBER = re.compile(r"evenmargin\.json|schema\.json|[0-9]{1,20}\.(npy|npz|bin)")
_PICKLE = re.compile(rb"\x80(?:[\x00-\x08]|\Z)|ccopy_?reg\n")
_RATIO, _ROOM = 64, 64 * 2**20  # a file unpacks to at most so many times its size, or so many bytes if that is more


class ModelFileError(ValueError):
    """A file that is no sound model file, or a model that cannot be one; the message is one sentence."""


def require(fine: bool, what: str) -> None:
    if not fine:
        raise ValueError(what)


def as_integer(value: Any) -> int:
    require(type(value) is int, f"{str(value)[:50]!r} is not a whole number")
    return int(value)


def shortened(error: Exception) -> str:
    return in_one_line(error)[:200].rstrip(".")


def zipped(members: dict[str, bytes], ways: dict[str, int]) -> io.BytesIO:
    out = io.BytesIO()
    with ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(ZipInfo(name), content, ways.get(name, ZIP_STORED))
        archive.comment = b" " * len(seal(b""))
    return out


def _compression(members: dict[str, bytes]) -> dict[str, int]:
    """Choose which members to compress: where it saves space, and so that `load` does not take the file for a bomb."""
    import zlib

    small = sum(map(len, members.values())) <= _ROOM

    def shrinks(content: bytes) -> bool:
        start = content[: 2**20]
        if len(zlib.compress(start, 1)) > 0.9 * len(start):
            return False
        return small or len(zlib.compress(content, 1)) * _RATIO > 2 * len(content)

    return {name: ZIP_DEFLATED for name, content in members.items() if shrinks(content)}


def seal(body: Any) -> bytes:
    return f"evenmargin-model {FORMAT} sha256:{hashlib.sha256(body).hexdigest()}".encode()


def sealed(members: dict[str, bytes]) -> bytes:
    content = zipped(members, _compression(members)).getbuffer()
    body = content[: -len(seal(b""))]
    return b"".join([body, seal(body)])


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Give the bytes of a sound file; whatever goes wrong with them becomes an error of one sentence."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        yield _verified(Path(path))
    except ModelFileError:
        raise
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # of zipfile, json, NumPy, skops: whatever a forged file provokes
        raise ModelFileError(
            f"{path} is not a sound model file ({type(error).__name__}: {shortened(error)})."
        ) from error


def _verified(path: Path) -> bytes:
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder, not a model file.")
    if not path.is_file():
        raise ModelFileError(f"{path} is a device or a pipe, not a model file.")
    length = len(seal(b"")) + 5  # for formats of more digits
    with path.open("rb") as file:
        head = file.read(1024)
        file.seek(max(0, os.fstat(file.fileno()).st_size - length))
        found = _SEAL.search(file.read())
        if found is None:
            raise ModelFileError(f"{path} {_what_it_is(head)}")
        file.seek(0)
        content = file.read()
    body = memoryview(content)[: -len(found[0])]
    if hashlib.sha256(body).hexdigest().encode() != found[2]:
        raise ModelFileError(f"{path} is damaged, its checksum is wrong: copy it again, or save the model again.")
    if int(found[1]) < FORMAT:
        raise ModelFileError(
            f"{path} was written before the first release of evenmargin (format {int(found[1])}), and this version "
            f"reads format {FORMAT}: fit the model again, and save it."
        )
    if int(found[1]) > FORMAT:
        raise ModelFileError(
            f"{path} was written by {_writer(content)} (format {int(found[1])}), and this is evenmargin {__version__}, "
            f"which reads format {FORMAT}: upgrade evenmargin."
        )
    return content


def _writer(content: bytes) -> str:
    """Name the version that wrote a file of a later format, if the file tells."""
    with suppress(Exception):  # of what a later format, or a forger, may hold
        version = json.loads(members_of(content, only=MANIFEST)[MANIFEST])["versions"]["evenmargin"]
        if re.fullmatch("[0-9a-z.+]{1,30}", version):
            return f"evenmargin {version}"
    return "a newer evenmargin"


def _what_it_is(head: bytes) -> str:
    """Say what a file without a seal may be, and what to do about it."""
    if not head:
        return "is empty, so it is not a model file."
    if any(map(_PICKLE.match, [head, *_decompressed(head)])):
        return (
            "is a pickle, which can run any code when opened, so it was not opened: if you trust its source, "
            "load it with joblib or pickle yourself, and save the model with evenmargin.save."
        )
    if head.startswith(b"PK\x03\x04"):
        if head[30 : 30 + len(MANIFEST)] == MANIFEST.encode():
            return "is damaged, its end is missing: copy it again, or save the model again."
        return "is a zip, but not a model that evenmargin.save wrote."
    return "is not a model file that evenmargin.save wrote."


def _decompressed(head: bytes) -> Iterator[bytes]:
    """Decompress the first bytes in the ways that joblib has."""
    import bz2
    import lzma
    import zlib

    for make in (lambda: zlib.decompressobj(zlib.MAX_WBITS | 32), bz2.BZ2Decompressor, lzma.LZMADecompressor):
        with suppress(Exception):  # compressed in another way, or not at all
            yield make().decompress(head, 64)


def members_of(content: bytes, only: str | None = None) -> dict[str, bytes]:
    """Unpack the members of the archive, none of which may be longer than it says."""
    with ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        names = [info.filename for info in infos]
        require(len(set(names)) == len(names), "two of its members have the same name")
        require(all(map(_MEMBER.fullmatch, names)), "one of its members has an unexpected name")
        total = sum(info.file_size for info in infos)
        require(total <= max(_ROOM, _RATIO * len(content)), f"it unpacks to more than {_RATIO} times its size")
        return {info.filename: unpacked(archive, info) for info in infos if only in (None, info.filename)}


def unpacked(archive: ZipFile, info: ZipInfo) -> bytes:
    """Unpack a member; without a length, zipfile would unpack all there is, whatever the header says."""
    require(info.compress_type in (ZIP_STORED, ZIP_DEFLATED), "it is compressed in an unknown way")
    with archive.open(info) as member:
        content = member.read(info.file_size)
    require(len(content) == info.file_size, "one of its members is shorter than it says")
    return content
