"""Images of requests, described: in threads, or in processes of their own."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any
from weakref import WeakKeyDictionary

from displace.arrays import Vectors
from displace.descriptors.preparation import n_cores
from displace.maps.place_map import PlaceMap
from displace.models.base import DescriptorModel
from displace.web.lanes import MANY, Lanes, described, stacked
from displace.web.limits import Limits
from displace.web.worker import prepared_image

MOST_PROCESSES = 8
"""Unless more are asked for: about what one process that answers can keep busy with small images."""
THREADS = 2
"""Without processes: one after the other they do the work in Python, but a large image does not hold up the others."""
MODELS = 2
"""Whose processes are kept: when a map of another model takes over, drives may still be in the old one."""


def default_workers(cores: int) -> int:
    """Processes for models whose work is in Python; none where there is one core for all of it.

    >>> [default_workers(cores) for cores in (1, 2, 4, 64)]
    [0, 2, 4, 8]
    """
    return min(cores, MOST_PROCESSES) if cores > 1 else 0


class Describer:
    """Describes images with the model of a map, in the threads of a pool.

    `workers` is the most processes, for models whose preparation is the work (such as hog, which threads of one process
    do one after the other): by default `default_workers`, 0 for the threads alone.
    """

    def __init__(self, pool: Executor, workers: int | None, limits: Limits) -> None:
        self.pool, self.limits = pool, limits
        self.workers = default_workers(n_cores()) if workers is None else workers
        self._opened: WeakKeyDictionary[PlaceMap, tuple[DescriptorModel, str]] = WeakKeyDictionary()
        self._lanes: OrderedDict[str, Lanes] = OrderedDict()

    @property
    def n_processes(self) -> int:
        """Processes that describe images now."""
        return sum(lanes.n_processes for lanes in self._lanes.values())

    async def describe(self, place_map: PlaceMap, images: list[bytes]) -> Vectors:
        """Descriptors of images, (q, D); a `DisplaceError` if one is no image or cannot be read."""
        if place_map not in self._opened:
            self._opened[place_map] = await self._run(_opened, place_map)
        model, key = self._opened[place_map]
        if model.prepare_is_heavy:
            return await self._lanes_of(model, key).describe(images)
        if len(images) == 1:
            alone: Vectors = await self._run(_whole, model, images, self.limits)
            return alone
        tasks = [self._run(prepared_image, model, image, self.limits) for image in images]
        return stacked(await self._run(described, model, await asyncio.gather(*tasks)))

    def close(self) -> None:
        """End the processes."""
        for lanes in self._lanes.values():
            lanes.close()

    def _lanes_of(self, model: DescriptorModel, key: str) -> Lanes:
        """Threads and processes of a model; a map that is replaced by one of the same model keeps them."""
        if key not in self._lanes:
            n_lanes, many = (self.workers, MANY) if self.workers else (THREADS, None)
            self._lanes[key] = Lanes(model, n_lanes, self.limits, many)
            while len(self._lanes) > MODELS:
                self._lanes.popitem(last=False)[1].close(wait=False)
        self._lanes.move_to_end(key)
        return self._lanes[key]

    def _run(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self.pool, function, *args)


def _opened(place_map: PlaceMap) -> tuple[DescriptorModel, str]:
    """The model of a map, and what is the same for two maps of one model."""
    model = place_map.own_model()
    return model, json.dumps(model.fingerprint(), sort_keys=True)


def _whole(model: DescriptorModel, images: list[bytes], limits: Limits) -> Vectors:
    return stacked(described(model, [prepared_image(model, image, limits) for image in images]))
