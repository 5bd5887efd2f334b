"""Images of requests, described: in threads, or in processes of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np

from displace.arrays import Vectors
from displace.descriptors.extraction import described_batch
from displace.descriptors.preparation import (
    Failure,
    Prepared,
    in_batches,
    prepare,
    prepare_in_process,
    processes,
)
from displace.errors import ImageError
from displace.maps.place_map import PlaceMap
from displace.models.base import DescriptorModel
from displace.web.limits import Limits
from displace.web.uploads import checked_image

BATCH = 16


class Describer:
    """Describes images with the model of a map.

    Parameters
    ----------
    pool : Executor
        Threads.
    workers : int
        Processes that prepare images, for models whose preparation is the work (such as hog, which threads of one
        process do one after the other); 0 for the threads alone.
    limits : Limits
        What is refused before it is decoded.
    """

    def __init__(self, pool: Executor, workers: int, limits: Limits) -> None:
        self.pool, self.workers, self.limits = pool, workers, limits
        self._opened: tuple[PlaceMap, DescriptorModel] | None = None
        self._processes: tuple[DescriptorModel, Executor] | None = None

    async def describe(self, place_map: PlaceMap, images: list[bytes]) -> Vectors:
        """Descriptors of images, (q, D); `RefusedError` or `ImageError` where one is no image or cannot be read."""
        if self._opened is None or self._opened[0] is not place_map:
            self._opened = place_map, await self._run(place_map.own_model)
        model = self._opened[1]
        in_processes = self.workers and model.prepare_is_heavy
        if len(images) == 1 and not in_processes:
            found: Vectors = await self._run(_one, model, images[0], self.limits)
            return found
        await self._run(_check, images, self.limits)
        if in_processes:
            tasks = [_in_loop(self._of(model), prepare_in_process, [image]) for image in images]
            prepared = [answer for (answer,) in await asyncio.gather(*tasks)]
        else:
            prepared = await asyncio.gather(*[self._run(prepare, model, image) for image in images])
        described: Vectors = await self._run(_described, model, prepared)
        return described

    def close(self) -> None:
        """End the processes."""
        if self._processes is not None:
            self._processes[1].shutdown(wait=True)

    def _of(self, model: DescriptorModel) -> Executor:
        """Processes that hold the model; others end with their work when a map of another model takes over."""
        if self._processes is None or self._processes[0] is not model:
            if self._processes is not None:
                self._processes[1].shutdown(wait=False)
            self._processes = model, processes(model, self.workers)
        return self._processes[1]

    def _run(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return _in_loop(self.pool, function, *args)


def _in_loop(pool: Executor, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
    return asyncio.get_running_loop().run_in_executor(pool, function, *args)


def _one(model: DescriptorModel, image: bytes, limits: Limits) -> Vectors:
    return _described(model, [prepare(model, checked_image(image, limits))])


def _check(images: list[bytes], limits: Limits) -> None:
    for image in images:
        checked_image(image, limits)


def _described(model: DescriptorModel, prepared: list[Prepared | Failure]) -> Vectors:
    vectors = np.empty((len(prepared), model.dim), np.float32)
    whole: list[tuple[int, Prepared]] = []
    for row, answer in enumerate(prepared):
        if isinstance(answer, Failure):
            raise ImageError(str(answer))
        whole.append((row, answer))
    for rows, batch in in_batches(whole, BATCH):
        vectors[rows] = described_batch(model, batch)
    if not np.isfinite(vectors).all():
        raise ImageError("the image has a descriptor that is not finite")
    return vectors
