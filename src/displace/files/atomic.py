"""Atomic writes: a file is either the old or the new one, never a mixture."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from displace.errors import DisplaceError, WriteError
from displace.files.reading import PathLike

_RANDOM = re.compile(r"\w{8}\.tmp")
"""End of the names of temporary files, after the file's own name."""


@contextmanager
def atomic_write(path: PathLike, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path`; on success make it durable and rename it to `path`.

    If the block raises or the process dies, `path` is unchanged. Mode is "wb", or "w" for UTF-8 text.
    """
    with (
        replacing(path) as temporary,
        temporary.open(mode, encoding=None if "b" in mode else "utf-8") as file,
    ):
        yield file


@contextmanager
def replacing(path: PathLike) -> Iterator[Path]:
    """Give the name of a temporary file beside `path` to write; on success it becomes `path`, durably.

    For libraries that write to a name; `atomic_write` opens the file itself. Errors of the system become a
    `WriteError`.
    """
    path = Path(path)
    check_file(path)
    try:
        with _replacing(path) as temporary:
            yield temporary
    except DisplaceError:
        raise
    except OSError as error:
        raise WriteError(path, error) from error


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    # The system applies the umask: to read it is to change it for all threads.
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if path.exists() else 0o666))
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o777)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def check_file(path: PathLike) -> None:
    """Refuse the name of a folder or device, or in a missing folder, before a long computation."""
    path = Path(path)
    if path.is_dir():
        raise WriteError(path, "it is a folder")
    if path.exists() and not path.is_file():
        raise WriteError(path, "it is no ordinary file")  # a device would be replaced
    if not path.parent.is_dir():
        raise WriteError(path, f"there is no folder {path.parent}")


def make_folder(path: PathLike) -> Path:
    """Make a folder and its parents, durably, if missing; errors of the system become a `WriteError`."""
    try:
        absent = [folder for folder in (Path(path), *Path(path).parents) if not folder.exists()]
        Path(path).mkdir(parents=True, exist_ok=True)
        for folder in absent:
            sync_folder(folder.parent)
    except FileExistsError:
        raise WriteError(path, "it is a file, and a folder is needed") from None
    except OSError as error:
        raise WriteError(path, error) from error
    return Path(path)


def remove_leftovers(path: PathLike) -> None:
    """Remove temporary files that killed writers of `path` left beside it; call it as its one writer only."""
    path = Path(path)
    start = f".{path.name}."
    for entry in os.scandir(path.parent):
        ours = entry.name.startswith(start) and _RANDOM.fullmatch(entry.name[len(start) :])
        if ours and entry.is_file(follow_symlinks=False):
            Path(entry.path).unlink(missing_ok=True)


def write_whole(path: PathLike, content: str | bytes) -> None:
    """Write a file of UTF-8 text or of bytes, atomically."""
    with atomic_write(path, "w" if isinstance(content, str) else "wb") as file:
        file.write(content)


def write_json(path: PathLike, record: Any, indent: int | None = 1) -> None:
    """Write `record` as JSON, atomically; without `indent` on one line, ten times as fast."""
    write_whole(path, json.dumps(record, indent=indent, ensure_ascii=False) + "\n")


def sync_folder(folder: PathLike) -> None:
    """Make renames inside `folder` durable, if the system supports it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
