"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces `path` when the block ends without an error.

    Until then it lies beside it under a hidden name. Where the block is left by an
    error, or Ctrl-C, it is removed, and what was at `path` stays as it was.
    """
    path = Path(os.path.realpath(path))  # a link stays a link
    if path.exists() and not path.is_file():
        with path.open("wb") as file:  # a device or a pipe; of a folder the system says what it is
            yield file
        return
    half = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}")  # a name that nobody can lie in wait at
    try:
        with half.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            with suppress(OSError):
                half.chmod(path.stat().st_mode)
        os.replace(half, path)
    except OSError as error:
        half.unlink(missing_ok=True)
        if error.filename is not None and str(error.filename) == str(half):
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise
    except BaseException:
        half.unlink(missing_ok=True)
        raise


def replace_file(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a file whole or not at all."""
    with replacing(path) as file:
        file.write(content)
    return Path(path)


def user_cache() -> Path:
    """The folder where programs keep what they can make again; a RuntimeError where the user has no home."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home())
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def writable(folder: Path) -> Path | None:
    """The folder, made if need be; None where nothing can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    return folder


def check_place(path: str | os.PathLike[str], *read: str | os.PathLike[str] | None) -> None:
    """Refuse a path that could not be written, or one that is `read`, before work is spent on what goes there."""
    path = Path(path)
    if str(path) == "-":
        raise ValueError("Only scores can go to standard output: give the name of a file.")
    for other in read:
        if other is not None and path.exists() and os.path.exists(other) and os.path.samefile(path, other):
            raise ValueError(f"{path} is an input file: give the output another name.")
    folder = Path(os.path.realpath(path)).parent
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file in it.")
    if path.exists() and not path.is_file():
        return  # a device or a pipe
    if not folder.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {folder}.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{path} cannot be written: you may not write to the folder {folder}.")
