"""Pictures of places: thumbnails of the images that a manifest or a map names, from folders that were listed."""

from __future__ import annotations

import io
import logging
from functools import lru_cache
from pathlib import Path

from PIL import Image

from displace.errors import ImageError
from displace.images import read_image
from displace.manifest.table import Manifest
from displace.maps.place_map import PlaceMap

log = logging.getLogger("displace.serve")
SIDE = 480
"""Longest side of a thumbnail, in pixels."""
KEPT = 500
"""Thumbnails that are kept in memory, those asked for last."""
OWN = "map"
"""Name under which a map's own image of a place is shown."""


class Gallery:
    """Which images show a place, and small copies of them; nothing outside of the folders `roots` is ever read.

    A manifest tells the images of every traversal; without it there is the one image that a map knows of each place.
    """

    def __init__(self, roots: list[Path], manifest: Manifest | None = None) -> None:
        self.roots = [root.resolve() for root in roots]
        self.named: dict[str, dict[str, Path]] = {}
        self._small = lru_cache(KEPT)(_small)
        if manifest is not None:
            rows = zip(manifest.places.tolist(), manifest.traversals.tolist(), manifest.paths(), strict=True)
            for place, traversal, path in rows:
                if place:
                    self.named.setdefault(place, {}).setdefault(traversal, path)
            self._say_if_outside()

    def of(self, place_map: PlaceMap, place: str) -> dict[str, Path]:
        """Images of a place by traversal."""
        if self.named:
            return self.named.get(place, {})
        row = _row_of(place_map, place)
        if place_map.images is None or row is None or not place_map.images[row]:
            return {}
        for root in self.roots:
            if (root / place_map.images[row]).is_file():
                return {OWN: root / place_map.images[row]}
        return {}

    def traversals(self, place_map: PlaceMap, place: str) -> list[str]:
        """Traversals of which there is a picture of the place."""
        return [name for name, path in self.of(place_map, place).items() if self._inside(path)]

    def thumbnail(self, place_map: PlaceMap, place: str, traversal: str) -> bytes | None:
        """A small JPEG of a place in a traversal; None where there is none, or it lies outside of the roots."""
        path = self.of(place_map, place).get(traversal)
        if path is None or not self._inside(path):
            return None
        try:
            return self._small(path)
        except ImageError:
            return None

    def say_if_of_other_places(self, place_map: PlaceMap) -> None:
        """Warn if a manifest has none of a map's places: no picture would ever be shown."""
        if self.named and not self.named.keys() & set(map(str, place_map.place_ids.tolist())):
            log.warning(
                "the manifest has none of the map's places, so no picture is shown: its places are called %s …, the "
                "map's %s …; give the manifest that the map was built from",
                next(iter(self.named)),
                place_map.place_ids[0],
            )

    def _say_if_outside(self) -> None:
        """Warn if the first picture lies outside the roots; most likely the others do, too."""
        first = next((path for images in self.named.values() for path in images.values()), None)
        if first is not None and not self._inside(first):
            folders = ", ".join(map(str, self.roots))
            log.warning(
                "%s lies outside of %s and is not shown: name its folder with --images",
                first.resolve(),
                folders,
            )

    def _inside(self, path: Path) -> bool:
        real = path.resolve()
        return any(real.is_relative_to(root) for root in self.roots)


def _small(path: Path) -> bytes:
    """Make a small JPEG of an image file."""
    image = Image.fromarray(read_image(path))
    image.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=82)
    return buffer.getvalue()


def _row_of(place_map: PlaceMap, place: str) -> int | None:
    """Row of a place that is named in an address, where ids are texts."""
    ids = place_map.place_ids
    try:
        wanted = type(ids[0].item())(place)
    except ValueError:
        return None
    at = int(ids.searchsorted(wanted))
    return at if at < len(ids) and ids[at] == wanted else None
