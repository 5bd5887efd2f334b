"""One writer of a map at a time."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from displace.errors import DisplaceError
from displace.fork_lock import ForkLock

_TURNS: dict[str, ForkLock] = {}
_HELD: set[tuple[int, str]] = set()
"""Maps that are written at the moment, each with the process that does: a forked one does not write them too."""
LOCK_BYTES = 32
"""A lock holds a process id, or nothing."""


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Be the only writer of the map at `path`: of two concurrent updates one would be lost.

    The lock is a file beside it, ``town.displace-lock``, which is removed afterwards. The system releases the lock when
    the process ends for any reason; a lock file left by a killed process blocks nobody.
    """
    key = os.path.realpath(path)
    # Threads wait for each other; within one thread, a save inside an update is the same writer.
    with _TURNS.setdefault(key, ForkLock()):
        held = os.getpid(), key
        if held in _HELD:
            yield
            return
        lock = path.with_name(f"{path.name}-lock")
        file = _open_locked(lock, path)
        _HELD.add(held)
        try:
            yield
        finally:
            _HELD.discard(held)
            with suppress(OSError):  # Windows keeps files that are open
                lock.unlink()
            file.close()


def _open_locked(lock: Path, path: Path) -> IO[str]:
    while True:
        try:
            file = open_lock(lock)
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


def open_lock(path: Path) -> IO[str]:
    """Open a lock file, and create it if missing; links are not followed, and its content is not changed.

    OSError where the file is not a lock, too.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, f"{path.name} is a link, and a lock is a file of its own") from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_size > LOCK_BYTES:
        os.close(descriptor)
        raise OSError(errno.EEXIST, f"{path.name} is no lock: remove it, or put it elsewhere")
    return os.fdopen(descriptor, "r+")


def locked(file: IO[str]) -> bool:
    """Take the system's lock on an open file; return whether it was free. It ends with the process."""
    try:
        _lock(file)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            raise
        return False
    return True


def _lock(file: IO[str]) -> None:
    """Take the system's lock on `file` or raise OSError at once."""
    if sys.platform == "win32":
        import msvcrt

        # Locks one byte far behind the text, so that others can still read who holds the lock.
        file.seek(1 << 20)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
