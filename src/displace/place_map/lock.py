"""One writer of a map at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from displace.errors import DisplaceError
from displace.storage import locked


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Be the one writer of the map at `path`: of two updates at a time one would be lost.

    The lock is a file beside it, ``town.displace-lock``, that is gone afterwards. The system lifts the lock when the
    process ends, however it ends; a file that a killed process left behind is in nobody's way.
    """
    lock = path.with_name(f"{path.name}-lock")
    file = _open_locked(lock, path)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows keeps files that are open
            lock.unlink()
        file.close()


def _open_locked(lock: Path, path: Path) -> IO[str]:
    while True:
        try:
            file = lock.open("a+")
        except OSError as error:
            raise DisplaceError(
                f"cannot write {path}: {error.strerror or error}; choose another place with -o"
            ) from error
        if not locked(file):
            file.close()
            raise DisplaceError(
                f"{path} is being written by another process; wait until it has finished, then run again"
            )
        # The previous holder may have removed the file between our opening and our locking it.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                return file
        file.close()
