"""Queries of concurrent requests, located together.

While one batch is in the map, the next one gathers: nothing waits for a clock, a single query is located at once, and
under load the batches grow by themselves.
"""

from __future__ import annotations

import asyncio
import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from displace.arrays import Vectors
from displace.web.hosting import Hosted
from displace.web.limits import RefusedError

SIZES = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512)
"""Upper ends of the histogram of batches, in queries."""
LARGEST = 512
"""Queries of one batch."""
Records = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Waiting:
    """Queries of one request."""

    hosted: Hosted
    """The map that the request has met."""
    vectors: Vectors
    """Shape (q, D)."""
    k: int
    options: tuple[tuple[str, Any], ...]
    """Further arguments of `PlaceMap.locate`; only equal ones are located together."""
    answer: asyncio.Future[Records]


class Batcher:
    """Collects queries and locates them, one batch at a time, in a thread of its own.

    The thread takes the next batch by itself: were it handed over by the event loop, it would wait for requests that
    are being read. Queries beyond those that may wait are refused.
    """

    def __init__(self, waiting: int) -> None:
        self.limit = waiting
        self.queue: list[Waiting] = []
        self.n_waiting = self.n_located = 0
        self.sizes = [0] * (len(SIZES) + 1)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="displace-search")
        self._lock, self._runs = threading.Lock(), False

    async def locate(self, hosted: Hosted, vectors: Vectors, k: int, **options: Any) -> Records:
        """Find the places of queries, together with those of other requests: a record of each."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(hosted, vectors, k, tuple(sorted(options.items())), loop.create_future())
        with self._lock:
            if self.n_waiting + len(vectors) > self.limit:
                raise RefusedError(503, f"{self.n_waiting} queries are waiting; try again in a moment")
            self.queue.append(waiting)
            self.n_waiting += len(vectors)
            starts, self._runs = not self._runs, True
        if starts:
            # After the requests that the event loop has at hand: they join the batch.
            loop.call_soon(self._thread.submit, self._run)
        return await waiting.answer

    def close(self) -> None:
        """End the thread when nothing waits."""
        self._thread.shutdown(wait=True)

    def _run(self) -> None:
        """Locate until nothing waits."""
        while batch := self._next():
            found: Sequence[Records | Exception]
            try:
                found = _located(batch)
            except Exception as error:  # each request answers for it
                found = [error] * len(batch)
            hand_over([waiting.answer for waiting in batch], found)

    def _next(self) -> list[Waiting]:
        """Take the first request out of the queue, and those that can be located with it."""
        batch: list[Waiting] = []
        rest: list[Waiting] = []
        size = 0
        with self._lock:
            for waiting in self.queue:
                alike = not batch or (
                    waiting.hosted is batch[0].hosted
                    and waiting.options == batch[0].options
                    and size + len(waiting.vectors) <= LARGEST
                )
                (batch if alike else rest).append(waiting)
                size += len(waiting.vectors) * alike
            self.queue, self._runs = rest, bool(batch)
            self.n_waiting -= size
            self.n_located += size
            self.sizes[bisect_left(SIZES, size)] += bool(batch)
        return batch


def hand_over(answers: Iterable[asyncio.Future[Any]], found: Iterable[Any]) -> None:
    """Give those who wait what was found, or the error; all that one event loop waits for at once."""
    pairs = list(zip(answers, found, strict=True))
    for loop in {answer.get_loop() for answer, _ in pairs}:
        with suppress(RuntimeError):  # a loop that has ended waits for nothing
            loop.call_soon_threadsafe(_settle, [pair for pair in pairs if pair[0].get_loop() is loop])


def _settle(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for answer, found in pairs:
        if answer.done():  # the client has gone
            continue
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)


def _located(batch: list[Waiting]) -> list[Records]:
    """Locate the queries of a batch together, and give each request its own."""
    vectors = np.concatenate([waiting.vectors for waiting in batch])
    most = max(waiting.k for waiting in batch)
    records = batch[0].hosted.place_map.locate(vectors, most, **dict(batch[0].options)).to_json()
    answers, start = [], 0
    for waiting in batch:
        own = records[start : start + len(waiting.vectors)]
        start += len(own)
        if waiting.k < most:
            for record in own:
                record["places"], record["scores"] = (
                    record["places"][: waiting.k],
                    record["scores"][: waiting.k],
                )
        answers.append(own)
    return answers
