"""Processes that die on purpose: forked from one that has imported everything, so that many take little time."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable


def in_child(work: Callable[[], object]) -> int:
    """Run `work` in a forked process; 0 when it ended well, 1 when it raised, minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(step: int) -> None:
    """Kill this process at the `step`-th moment before or after a durable operation."""
    remaining = [step]

    def tick() -> None:
        if remaining[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        remaining[0] -= 1

    def watched(function):
        def call(*args):
            tick()
            result = function(*args)
            tick()
            return result

        return call

    os.fsync, os.replace = watched(os.fsync), watched(os.replace)


def die_at_call(number: int) -> None:
    """Kill this process when its thread calls a function, or returns from one, for the `number`-th time."""
    calls = itertools.count()
    sys.setprofile(lambda *_: os.kill(os.getpid(), signal.SIGKILL) if next(calls) >= number else None)
