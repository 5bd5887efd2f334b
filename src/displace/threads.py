"""Limits on the threads of linear algebra.

`threadpoolctl` finds the loaded libraries by walking through all of them, which takes longer than a small fit. So the
walk is made once, and again only when modules were imported since: an import is what loads a library.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from multiprocessing.context import BaseContext

from threadpoolctl import ThreadpoolController

from displace.fork_lock import ForkLock

SMALL = 2**37
"""Multiplications, of vectors (m, D) with themselves, up to which one thread is fastest or nearly so."""

_lock = ForkLock()
_known: tuple[int, ThreadpoolController] | None = None
"""Number of modules at the last walk, and its result."""
_limit = ExitStack()
_n_inside = 0
"""The limit of BLAS to one thread, and how many blocks it holds for."""


def controller() -> ThreadpoolController:
    """The controller of every library that is loaded now."""
    global _known
    with _lock:
        if _known is None or _known[0] != len(sys.modules):
            found = ThreadpoolController()
            _known = len(sys.modules), found
        return _known[1]


def limit_threads(threads: int | None) -> AbstractContextManager[object]:
    """Limit every library to `threads` threads, from the call until the end of a ``with`` block; None: no limit."""
    return nullcontext() if threads is None else controller().limit(limits=threads)


def spawning() -> BaseContext:
    """How processes are started: not forked, as a copy of a process with running threads (BLAS, OpenCV) may hang.

    A child that gets here while it starts runs the script again that started it, and ends without a word: the script
    lacks ``if __name__ == "__main__":``, which the parent says.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)
    return multiprocessing.get_context("spawn")


def keep_to_one_core() -> None:
    """Use one thread from now on: for one of several processes, whose threads would only wait for each other."""
    import cv2

    cv2.setNumThreads(1)
    limit_threads(1)


def threads_for(asked: int | None, n_vectors: int, dim: int) -> int | None:
    """Return `asked`; by default 1 for few vectors, where threads do not pay off, else None (no limit).

    On a busy machine, waiting threads cost several times what they save on an idle one.

    >>> threads_for(None, 1600, 2048), threads_for(None, 50_000, 8448), threads_for(4, 1600, 2048)
    (1, None, 4)
    """
    return 1 if asked is None and n_vectors * dim * min(n_vectors, dim) <= SMALL else asked


def one_blas_thread(small: bool = True) -> AbstractContextManager[object]:
    """Limit BLAS to one thread for `small` problems, where threads cost more than they bring."""
    return _one_for_all() if small else nullcontext()


@contextmanager
def _one_for_all() -> Iterator[None]:
    """Limit BLAS from the first of several blocks, of any threads, to the last: a limit is the whole process's.

    A block that began inside another would put back one thread when it ends, and that other had already ended.
    """
    global _n_inside
    with _lock:
        if _n_inside == 0:
            _limit.enter_context(controller().limit(limits=1, user_api="blas"))
        _n_inside += 1
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            if _n_inside == 0:
                _limit.close()


def n_threads() -> int:
    """The most threads that any of the libraries may use."""
    return max((int(pool["num_threads"]) for pool in controller().info()), default=1)
