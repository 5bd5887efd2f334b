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
    """

    def __init__(self, pool: Executor, workers: int = 0) -> None:
        self.pool, self.workers = pool, workers
        self._opened: tuple[PlaceMap, DescriptorModel] | None = None
        self._processes: tuple[DescriptorModel, Executor] | None = None

    async def describe(self, place_map: PlaceMap, images: list[bytes]) -> Vectors:
        """Descriptors of images, (q, D); an `ImageError` where one cannot be read."""
        if self._opened is None or self._opened[0] is not place_map:
            self._opened = place_map, await self._run(place_map.own_model)
        model = self._opened[1]
        if self.workers and model.prepare_is_heavy:
            tasks = [_in_loop(self._of(model), prepare_in_process, [image]) for image in images]
            prepared = [answer for (answer,) in await asyncio.gather(*tasks)]
        elif len(images) == 1:
            found: Vectors = await self._run(_one, model, images[0])
            return found
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


def _one(model: DescriptorModel, image: bytes) -> Vectors:
    return _described(model, [prepare(model, image)])


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
