"""Images read and prepared ahead of the model, in order, with bounded memory.

Results come in the order of the files, however many workers there are, so that batches, and with them the
descriptors' last bits, do not depend on the machine.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from displace.errors import DisplaceError
from displace.images import read_image
from displace.models.base import DescriptorModel
from displace.threads import keep_to_one_core, spawning

Key = TypeVar("Key")
Item = TypeVar("Item")
Answer = TypeVar("Answer")
Prepared = NDArray[np.float32]
Source = str | bytes | NDArray[np.uint8]
"""A file's name, a file's content, or pixels."""

WORTH_PROCESSES = 1000
"""Images from which starting worker processes pays off: they import this package first, a second or two."""

CHUNK = 8
"""Images that a worker process takes at a time: each exchange with it costs as much as a tenth of an image."""

_of_process: list[DescriptorModel] = []
"""In a worker process: its model."""


class Failure(str):
    """Why an image could not be used."""


def n_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def attempt(function: Callable[[Item], Answer], path: Item) -> Answer | Failure:
    """Call `function` on a file; return a `Failure` instead of raising if the file is bad."""
    try:
        return function(path)
    except MemoryError:
        name = path if isinstance(path, str | os.PathLike) else "an image"
        return Failure(f"{name} does not fit into memory")
    except (DisplaceError, OSError) as error:
        return Failure(error)


def in_order(
    pool: Executor, function: Callable[[Item], Answer], items: Iterable[tuple[Key, Item]], ahead: int
) -> Iterator[tuple[Key, Answer]]:
    """Map `function` over the items of `items`, at most `ahead` of them in work or waiting at a time.

    ``Executor.map`` would queue all items at once.
    """
    waiting: deque[tuple[Key, Future[Answer]]] = deque()
    for key, item in items:
        waiting.append((key, pool.submit(function, item)))
        if len(waiting) >= ahead:
            done, future = waiting.popleft()
            yield done, future.result()
    for done, future in waiting:
        yield done, future.result()


def in_chunks(items: Iterable[tuple[Key, Item]], size: int) -> Iterator[tuple[list[Key], list[Item]]]:
    """Cut pairs into lists of `size` keys and `size` items; the last may be shorter.

    >>> list(in_chunks([("a", 1), ("b", 2), ("c", 3)], 2))
    [(['a', 'b'], [1, 2]), (['c'], [3])]
    """
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield [key for key, _ in chunk], [item for _, item in chunk]


def in_batches(prepared: Iterable[tuple[Key, Prepared]], size: int) -> Iterator[tuple[list[Key], Prepared]]:
    """Group images of equal shape into batches of `size`; at most ``2 * size`` images are held."""
    groups: dict[tuple[int, ...], tuple[list[Key], list[Prepared]]] = {}
    held = 0
    for key, array in prepared:
        keys, arrays = groups.setdefault(array.shape, ([], []))
        keys.append(key)
        arrays.append(array)
        held += 1
        if len(keys) == size:
            full = array.shape
        elif held >= 2 * size:
            # Images of many sizes: the oldest group is yielded although it is not full.
            full = next(iter(groups))
        else:
            continue
        keys, arrays = groups.pop(full)
        held -= len(keys)
        yield keys, np.stack(arrays)
    for keys, arrays in groups.values():
        yield keys, np.stack(arrays)


@contextmanager
def preparing(
    model: DescriptorModel, files: Iterable[tuple[Key, Source]], n_files: int, workers: int, ahead: int
) -> Iterator[Iterator[tuple[Key, Prepared | Failure]]]:
    """Read and prepare `files` in the background: in threads, or in processes where `prepare` is heavy.

    The files are iterated once, and at most `ahead` prepared images wait for the consumer. The model must be picklable
    if its `prepare_is_heavy`.
    """
    pool: Executor | None = None
    answers: Iterator[tuple[Key, Prepared | Failure]]
    try:
        if model.prepare_is_heavy and workers > 1 and n_files >= WORTH_PROCESSES:
            pool = processes(model, workers)
            chunks = in_order(
                pool, prepare_in_process, in_chunks(files, CHUNK), ahead=max(2 * workers, ahead // CHUNK)
            )
            answers = (pair for keys, chunk in chunks for pair in zip(keys, chunk, strict=True))
        else:
            pool = ThreadPoolExecutor(workers, thread_name_prefix="displace-prepare")
            answers = in_order(pool, partial(prepare, model), files, ahead)
        yield answers
    except BrokenProcessPool as error:
        raise DisplaceError(
            "a worker process ended unexpectedly. If a script of yours calls displace at its top level, put "
            "that call under if __name__ == '__main__': – otherwise memory may have run out: use --threads 1"
        ) from error
    finally:
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def processes(model: DescriptorModel, workers: int) -> ProcessPoolExecutor:
    """Start processes that hold a model, for `prepare_in_process`."""
    # A fork would also keep the store's lock beyond our death.
    pool = ProcessPoolExecutor(workers, spawning(), initializer=_start_process, initargs=(model,))
    with _ctrl_c_later(), _one_thread_each():
        for _ in range(workers):
            pool.submit(os.getpid)  # each starts a process
    return pool


def prepare(model: DescriptorModel, source: Source) -> Prepared | Failure:
    """Read an image and prepare it for a model, or return a `Failure`."""
    return attempt(lambda s: model.prepare(read_image(s)), source)


def prepare_in_process(sources: list[Source]) -> list[Prepared | Failure]:
    """`prepare` for the model of a worker process."""
    return [prepare(_of_process[0], source) for source in sources]


def _start_process(model: DescriptorModel) -> None:
    """Set up a worker process: its model, Ctrl-C left to the parent, and an end when the parent is killed."""
    keep_to_one_core()
    _of_process[:] = [model]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Delay Ctrl-C until the block ends, and block it in processes started there: the parent handles it."""
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield  # there is no mask to inherit; only the main thread may change handlers
        return
    came: list[int] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited by the processes
    # A library's thread, whose mask is its own, may take the signal all the same.
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if came:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes started in the block load BLAS with one thread: they start in half the time."""
    unset = [name for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS") if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, "1"))
    try:
        yield
    finally:
        for name in unset:
            del os.environ[name]


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
