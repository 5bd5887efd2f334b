"""The map that is served; when its file is replaced, the new one takes over between two requests."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from displace.errors import DisplaceError
from displace.files.reading import file_stamp
from displace.maps.file import version_of
from displace.maps.place_map import PlaceMap

log = logging.getLogger("displace.serve")


@dataclass(eq=False)
class Hosted:
    """A map and its version; a request keeps to one from its beginning to its end."""

    place_map: PlaceMap
    version: str
    """The beginning of the checksum of its file's content."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `PlaceMap.open_model`: weights, device and mask of the map's model."""
    no_images: str | None = None
    """Why images cannot be described; None where they can."""

    def open_model(self) -> None:
        """Open the map's model, and note why that cannot be."""
        try:
            self.place_map.own_model(**self.options)
            self.no_images = None
        except DisplaceError as error:
            self.no_images = f"only descriptors can be located, no images: {error}"


class Host:
    """Holds the map of a file, and reads the file again when it has been replaced.

    A file that cannot be read, such as one that is being copied, changes nothing; it is tried again when it changes.
    `options` are those of `PlaceMap.open_model`.
    """

    def __init__(self, path: Path, options: Mapping[str, Any]) -> None:
        self.path, self.options = path, options
        self._reading = threading.Lock()
        self._seen = file_stamp(self.path)
        self.current = self._load()

    def is_replaced(self) -> bool:
        """Whether the file is another one than that which was read."""
        mark = file_stamp(self.path)
        return mark is not None and mark != self._seen

    def refresh(self) -> Hosted:
        """Return the map, read again where its file is another one than before."""
        mark = file_stamp(self.path)
        if mark != self._seen and mark is not None and self._reading.acquire(blocking=False):
            try:
                self.current = self._load()
                log.info("map replaced", extra={"fields": {"map": self.current.version}})
            except DisplaceError as error:
                log.warning("the new map cannot be used, the old one is served: %s", error)
            finally:
                self._seen = mark
                self._reading.release()
        return self.current

    def _load(self) -> Hosted:
        version = version_of(self.path)
        # In memory: a file that is written over in place, as `cp` does, must not pull the rows from under a request.
        hosted = Hosted(PlaceMap(PlaceMap.load(self.path).state.unmapped()), version, self.options)
        hosted.open_model()
        if hosted.no_images is not None:
            log.warning("%s", hosted.no_images)
        return hosted
