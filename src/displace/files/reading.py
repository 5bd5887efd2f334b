"""Reading untrusted files: only regular files of limited size, checked before memory is allocated."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import stat
from collections.abc import Sequence
from typing import IO, Any

from displace.errors import FormatError

PathLike = str | os.PathLike[str]
Sources = PathLike | Sequence[PathLike]
"""One file or folder, or several."""

MAX_TEXT = 2**30
"""Bytes of a table or a list that is read whole."""
MAX_JSON = 256 * 2**20
"""Bytes of a JSON file; Python needs up to thirty times as many while it reads one."""
MAX_DEPTH = 64
"""How deeply lists and objects may be nested."""


def open_regular(path: PathLike, buffering: int = -1) -> IO[bytes]:
    """Open a file for reading; pipes, devices and folders are refused without waiting for them.

    OSError for these, too, and for a name that the locale cannot encode.
    """
    try:
        _check_regular(os.stat(path), path)  # noqa: PTH116  a device is not even opened
    except UnicodeEncodeError as error:
        reason = (
            f"names of files are {error.encoding} by the locale, which has no {error.object[error.start]!r}"
        )
        raise OSError(errno.EILSEQ, f"{reason}; set PYTHONUTF8=1", os.fspath(path)) from None
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        _check_regular(os.fstat(descriptor), path)
        return os.fdopen(descriptor, "rb", buffering)
    except BaseException:
        os.close(descriptor)
        raise


def open_csv(path: PathLike) -> IO[str]:
    """Open a regular file as the module `csv` wants it; a byte order mark, as spreadsheets write it, is skipped."""
    file = open_regular(path)
    try:
        check_size(file, path, MAX_TEXT)
        return io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    except BaseException:
        file.close()
        raise


def read_text(path: PathLike, limit: int = MAX_TEXT) -> str:
    """Text of a regular file of at most `limit` bytes."""
    with open_regular(path) as file:
        check_size(file, path, limit)
        return file.read(limit + 1).decode("utf-8")


def text_of(path: PathLike, what: str) -> str:
    """Text of a regular file; errors name `what` it should be."""
    try:
        return read_text(path)
    except OSError as error:
        raise FormatError(f"cannot read {what} {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FormatError(f"{path} is not {what}: it is not UTF-8 text") from None


def read_json(path: PathLike) -> Any:
    """Read a JSON file of at most `MAX_JSON` bytes; whatever is wrong with it is an OSError or a ValueError."""
    return parse_json(read_text(path, MAX_JSON))


def parse_json(text: str) -> Any:
    """Read JSON of limited depth; whatever is wrong with it is a ValueError.

    >>> parse_json("[[1], {}]")
    [[1], {}]
    """
    try:
        record = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _deeper(record, MAX_DEPTH):
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
    return record


def file_sha256(path: PathLike) -> str:
    """SHA-256 of a regular file, in hexadecimal; raises OSError if it cannot be read."""
    # A buffer between file and digest doubles the cost of an ordinary photo.
    with open_regular(path, buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def file_stamp(path: PathLike) -> tuple[int, int, int] | None:
    """What tells one file from another of the same name; None while there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def check_size(file: IO[Any], path: PathLike, limit: int) -> None:
    """Raise OSError where an open file has more than `limit` bytes."""
    size = os.fstat(file.fileno()).st_size
    if size > limit:
        raise OSError(errno.EFBIG, f"it has {size} bytes; at most {limit} are read", os.fspath(path))


def _check_regular(status: os.stat_result, path: PathLike) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", os.fspath(path))


def _deeper(record: Any, depth: int) -> bool:
    """Whether lists and objects are nested more than `depth` deep."""
    level = [record] if isinstance(record, dict | list) else []
    for _ in range(depth):
        parts = (value.values() if isinstance(value, dict) else value for value in level)
        level = [part for values in parts for part in values if isinstance(part, dict | list)]
        if not level:
            return False
    return True
