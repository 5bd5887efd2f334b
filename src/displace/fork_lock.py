"""A lock between threads that survives a fork."""

from __future__ import annotations

import os
import threading


class ForkLock:
    """A reentrant lock that is another one in each process.

    A forked process has a copy of every lock but not of the threads that hold them: it would wait forever.
    """

    def __init__(self) -> None:
        self._locks: dict[int, threading.RLock] = {}

    def __enter__(self) -> None:
        self._locks.setdefault(os.getpid(), threading.RLock()).acquire()

    def __exit__(self, *_: object) -> None:
        # There is none if the process was forked inside the block.
        if lock := self._locks.get(os.getpid()):
            lock.release()
