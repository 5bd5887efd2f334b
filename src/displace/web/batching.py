"""Queries of concurrent requests, located together.

While one batch is in the map, the next one gathers: nothing waits for a clock, a single query is located at once, and
under load the batches grow by themselves.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from displace.arrays import Vectors
from displace.errors import DisplaceError
from displace.matches import Matches
from displace.web.hosting import Hosted


class BusyError(DisplaceError):
    """More queries are waiting than the server takes."""


@dataclass(frozen=True, eq=False)
class Waiting:
    """Queries of one request.

    Parameters
    ----------
    hosted : Hosted
        The map that the request has met.
    vectors : array of shape (q, D)
    k : int
    options : tuple of (str, object)
        Further arguments of `PlaceMap.locate`; only equal ones are located together.
    answer : Future
    """

    hosted: Hosted
    vectors: Vectors
    k: int
    options: tuple[tuple[str, Any], ...]
    answer: asyncio.Future[Matches]


class Batcher:
    """Collects queries and locates them, one batch at a time.

    Parameters
    ----------
    pool : Executor
        Threads in which the map is searched.
    waiting : int
        Queries that may wait; further ones are refused.
    largest : int
        Queries of one batch.
    """

    def __init__(self, pool: Executor, waiting: int, largest: int = 512) -> None:
        self.pool, self.limit, self.largest = pool, waiting, largest
        self.queue: list[Waiting] = []
        self.n_waiting = self.n_batches = self.n_located = 0
        self._running: asyncio.Task[None] | None = None

    async def locate(self, hosted: Hosted, vectors: Vectors, k: int, **options: Any) -> Matches:
        """Find the places of queries, together with those of other requests."""
        if self.n_waiting + len(vectors) > self.limit:
            raise BusyError(f"{self.n_waiting} queries are waiting; try again in a moment")
        waiting = Waiting(
            hosted, vectors, k, tuple(sorted(options.items())), asyncio.get_running_loop().create_future()
        )
        self.queue.append(waiting)
        self.n_waiting += len(vectors)
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await waiting.answer

    async def _run(self) -> None:
        while self.queue:
            batch = self._next()
            try:
                found = await asyncio.get_running_loop().run_in_executor(self.pool, _located, batch)
                for waiting, matches in zip(batch, found, strict=True):
                    if not waiting.answer.done():  # its client may have gone
                        waiting.answer.set_result(matches)
            except Exception as error:  # each request answers for it
                for waiting in batch:
                    if not waiting.answer.done():
                        waiting.answer.set_exception(error)
            finally:
                size = sum(len(waiting.vectors) for waiting in batch)
                self.n_waiting -= size
                self.n_located += size
                self.n_batches += 1

    def _next(self) -> list[Waiting]:
        """Take the first request out of the queue, and those that can be located with it."""
        first, size = self.queue[0], 0
        batch: list[Waiting] = []
        rest: list[Waiting] = []
        for waiting in self.queue:
            alike = waiting.hosted is first.hosted and waiting.options == first.options
            if not batch or (alike and size + len(waiting.vectors) <= self.largest):
                batch.append(waiting)
                size += len(waiting.vectors)
            else:
                rest.append(waiting)
        self.queue = rest
        return batch


def _located(batch: list[Waiting]) -> list[Matches]:
    """Locate the queries of a batch together, and give each request its own."""
    vectors = np.concatenate([waiting.vectors for waiting in batch])
    options = dict(batch[0].options)
    found = batch[0].hosted.place_map.locate(vectors, max(waiting.k for waiting in batch), **options)
    answers, start = [], 0
    for waiting in batch:
        rows = slice(start, start + len(waiting.vectors))
        start = rows.stop
        answers.append(
            Matches(
                found.places[rows, : waiting.k],
                found.scores[rows, : waiting.k],
                None if found.confidence is None else found.confidence[rows],
                None if found.positions is None else found.positions.take(np.arange(rows.start, rows.stop)),
            )
        )
    return answers
