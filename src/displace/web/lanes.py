"""Images of concurrent requests, described side by side: in threads at first, in processes once there are many.

A process takes a second or two to start and its own memory, which a page that one person looks at is not worth. So a
lane is a thread, which takes what waits and describes it by itself; when images had to wait often enough it starts a
process, hands them to that one as soon as it is ready, and ends it after an idle time. A process that ends by itself
is replaced; what it was at is tried once more, each image alone.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from displace.arrays import Vectors
from displace.descriptors.extraction import described_batch
from displace.descriptors.preparation import in_batches
from displace.errors import DisplaceError
from displace.models.base import DescriptorModel
from displace.web.batching import hand_over
from displace.web.limits import Limits, RefusedError
from displace.web.worker import Answer, Worker, WorkerEndedError, prepared_image

log = logging.getLogger("displace.serve")
Described = Vectors | Exception
"""A descriptor (D,), or why there is none."""
TOGETHER = 8
"""Images of one exchange with a process, which costs as much as a tenth of an image; their descriptors are then located
together."""
MANY = 100
"""Images that had to wait until processes are started; a form of 256 images is that many, ten photos of a page not."""
IDLE_SECONDS = 600.0
"""After which a process that has nothing to do gives its memory back."""
TRIES = 3
"""Processes in a row that end before they are ready; then the threads stay alone."""
UNREADABLE = "the image could not be read: it took too long, or memory ran out; send it again"


@dataclass(eq=False)
class WaitingImage:
    """One image of a request."""

    image: bytes
    answer: asyncio.Future[Vectors]
    """Its descriptor."""
    again: bool = False
    """Whether a process ended while this image was with it: now it goes to one alone."""


class Lanes:
    """Describes images with one model, whose `prepare` is the work, in so many threads, each with a process at most.

    Processes are started when `many` images had to wait, None for threads alone, and ended after `idle_seconds`.
    """

    def __init__(
        self,
        model: DescriptorModel,
        n_lanes: int,
        limits: Limits,
        many: int | None = MANY,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.model, self.limits, self.many, self.idle_seconds = model, limits, many, idle_seconds
        self.queue: deque[WaitingImage] = deque()
        self.n_waited = self.n_failed = 0
        self.closed = False
        self.changed = threading.Condition()
        self.lanes = [Lane(self) for _ in range(n_lanes)]

    @property
    def n_processes(self) -> int:
        """Processes that are ready."""
        return sum(lane.worker is not None for lane in self.lanes)

    async def describe(self, images: Sequence[bytes]) -> Vectors:
        """Descriptors of images, (q, D); an error where one has none."""
        loop = asyncio.get_running_loop()
        waiting = [WaitingImage(image, loop.create_future()) for image in images]
        with self.changed:
            if len(self.queue) + len(waiting) > self.limits.waiting:
                raise RefusedError(503, f"{len(self.queue)} images are waiting; try again in a moment")
            self.queue.extend(waiting)
            self.changed.notify(len(waiting))
        return stacked(await asyncio.gather(*(each.answer for each in waiting), return_exceptions=True))

    def take(self) -> list[WaitingImage] | None:
        """The next images for a lane, none after the idle time; None when all is done."""
        with self.changed:
            while True:
                if not self.changed.wait_for(lambda: self.queue or self.closed, self.idle_seconds):
                    self.n_waited = 0
                    return []
                if not self.queue:
                    return None
                if taken := self._share():
                    self.n_waited += len(taken) if self.queue else 0
                    return taken

    def _share(self) -> list[WaitingImage]:
        """Take one lane's share out of the queue, except images whose clients have gone."""
        share, taken = -(-len(self.queue) // len(self.lanes)), [self.queue.popleft()]
        while len(taken) < min(share, TOGETHER) and not (taken[0].again or self.queue[0].again):
            taken.append(self.queue.popleft())
        return [each for each in taken if not each.answer.done()]

    def once_more(self, taken: list[WaitingImage]) -> None:
        """Put images back that a process was at when it ended."""
        with self.changed:
            for each in reversed(taken):
                each.again = True
                self.queue.appendleft(each)
            self.changed.notify(len(taken))

    @property
    def wants_processes(self) -> bool:
        """Whether there is enough to do for processes, and they can be started."""
        much = self.many is not None and self.n_waited >= self.many
        return much and self.n_failed < TRIES and not self.closed

    def start(self) -> Worker | None:
        """A process that is ready; None where it cannot start."""
        worker = None
        try:
            worker = Worker(self.model, self.limits)
            worker.wait()
        except (DisplaceError, OSError) as error:
            if worker is not None:
                worker.end()
            self.n_failed += 1
            log.warning("no process to describe images can be started, threads describe them: %s", error)
            return None
        self.n_failed = 0
        return worker

    def close(self, wait: bool = True) -> None:
        """End threads and processes when nothing waits."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        if wait:
            for lane in self.lanes:
                lane.join()


class Lane:
    """A thread, with a process or without one."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.worker: Worker | None = None
        self._starting: threading.Thread | None = None
        self._thread = threading.Thread(target=self._run, name="displace-lane", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def _run(self) -> None:
        while (taken := self.lanes.take()) is not None:
            if not taken:
                self._end()
                continue
            if self.worker is None and self._starting is None and self.lanes.wants_processes:
                self._starting = threading.Thread(target=self._start, name="displace-start", daemon=True)
                self._starting.start()
            try:
                found = self._described(taken)
            except WorkerEndedError as error:
                self._end()
                log.warning("%s; another one takes over", error)
                self.lanes.once_more(taken)
                continue
            except Exception as error:  # each request answers for it
                found = [error] * len(taken)
            hand_over([each.answer for each in taken], found)
        self._end()

    def _start(self) -> None:
        self.worker = self.lanes.start()
        self._starting = None

    def _end(self) -> None:
        """End the process, also one that is being started."""
        if (starting := self._starting) is not None:
            starting.join()
        if self.worker is not None:
            worker, self.worker = self.worker, None
            worker.end()

    def _described(self, taken: list[WaitingImage]) -> list[Described]:
        images, lanes = [each.image for each in taken], self.lanes
        if not taken[0].again:
            return described(lanes.model, self._prepared(images))
        try:
            return described(lanes.model, self._in_process(images))
        except WorkerEndedError as error:
            self._end()
            log.warning("%s again; its image is refused", error)
            return [RefusedError(503, UNREADABLE)]

    def _prepared(self, images: list[bytes]) -> list[Answer]:
        if self.worker is not None:
            return self.worker.prepare(images)
        return [prepared_image(self.lanes.model, image, self.lanes.limits) for image in images]

    def _in_process(self, images: list[bytes]) -> list[Answer]:
        """Prepare an image that may have ended a process: never in the server's own."""
        if (starting := self._starting) is not None:
            starting.join()
        self.worker = self.worker or self.lanes.start()
        if self.worker is None:
            raise WorkerEndedError("no process can be started")
        return self.worker.prepare(images)


def described(model: DescriptorModel, prepared: Sequence[Answer]) -> list[Described]:
    """Descriptors of prepared images, each with its own answer."""
    found: list[Described] = [each if isinstance(each, RefusedError) else each[:0] for each in prepared]
    whole = [(row, each) for row, each in enumerate(prepared) if not isinstance(each, RefusedError)]
    for rows, batch in in_batches(whole, TOGETHER):
        vectors = described_batch(model, batch).astype(np.float32, copy=False)
        for row, vector in zip(rows, vectors, strict=True):
            finite = bool(np.isfinite(vector).all())
            found[row] = (
                vector if finite else RefusedError(422, "the image has a descriptor that is not finite")
            )
    return found


def stacked(found: Sequence[Vectors | BaseException]) -> Vectors:
    """Descriptors of all images of a request, (q, D), or the first error, which says whose it is."""
    vectors: list[Vectors] = []
    for number, each in enumerate(found, 1):
        if isinstance(each, RefusedError):
            raise each.of(number, len(found))
        if isinstance(each, BaseException):
            raise each
        vectors.append(each)
    return np.stack(vectors)
