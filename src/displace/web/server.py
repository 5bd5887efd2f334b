"""What the routes of a server work with: its map, queue, drives, pictures and counters."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.requests import Request

from displace.arrays import Vectors
from displace.web.batching import Batcher
from displace.web.describer import Describer
from displace.web.drives import Drives
from displace.web.gallery import Gallery
from displace.web.hosting import Host, Hosted
from displace.web.limits import Limits, RefusedError, Tokens
from displace.web.metrics import Metrics
from displace.web.uploads import read_asked


@dataclass(frozen=True)
class ServerSettings:
    """What a server serves, and to whom."""

    map_file: Path
    images: list[Path] = field(default_factory=list)
    """Folders that pictures of places may come from."""
    manifest: Path | None = None
    """Which images show which place; without it those that the map names."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Options of `PlaceMap.open_model`: weights, device, mask."""
    min_confidence: float = 0.5
    """Below this probability an answer reads "not in this map"."""
    limits: Limits = field(default_factory=Limits)
    tokens: Tokens = field(default_factory=Tokens)
    origins: tuple[str, ...] = ()
    """Web sites whose pages may ask; none by default."""
    workers: int | None = None
    """Most processes that describe images; 0 for threads alone, by default one for each core."""


class Server:
    """What the routes work with."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings, self.limits = settings, settings.limits
        self.host, self._looked = Host(settings.map_file, settings.model), False
        self.metrics = Metrics()
        self.drives = Drives(self.limits)
        self.pool = ThreadPoolExecutor(max(2, os.cpu_count() or 1), thread_name_prefix="displace-serve")
        self.batcher = Batcher(self.limits.waiting)
        self.describer = Describer(self.pool, settings.workers, self.limits)
        manifest = None
        roots = list(settings.images)
        if settings.manifest is not None:
            from displace.manifest.table import Manifest

            manifest = Manifest.read(settings.manifest)
            roots = roots or [settings.manifest.parent]
        self.gallery = Gallery(roots, manifest)
        self.gallery.say_if_of_other_places(self.host.current.place_map)

    def close(self) -> None:
        """End threads and processes when their work is done."""
        self.describer.close()
        self.batcher.close()
        self.pool.shutdown(wait=True)

    async def in_pool(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run what takes long in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, function, *args)

    async def hosted(self) -> Hosted:
        """The map of a request; one that has replaced it is read in a thread."""
        if not self._looked:  # once for all requests that the event loop has at hand
            self._looked = not self.host.is_replaced()
            asyncio.get_running_loop().call_soon(self._look_again)
        if self._looked:
            return self.host.current
        hosted: Hosted = await self.in_pool(self.host.refresh)
        return hosted

    def _look_again(self) -> None:
        self._looked = False

    async def vectors(self, request: Request, hosted: Hosted) -> Vectors:
        """Descriptors that a request asks about, its images described."""
        return (await self.asked(request, hosted))[0]

    async def asked(self, request: Request, hosted: Hosted) -> tuple[Vectors, list[bytes] | None]:
        """Descriptors that a request asks about, and the images that they are of, if it has images."""
        asked = await read_asked(request, hosted.place_map.dim, self.limits)
        if not isinstance(asked, list):
            return asked, None
        if hosted.no_images is not None:
            await self.in_pool(hosted.open_model)  # what was missing, such as weights, may be there by now
        if hosted.no_images is not None:
            raise RefusedError(422, hosted.no_images)
        return await self.describer.describe(hosted.place_map, asked), asked
