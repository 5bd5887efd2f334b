"""Client side of a map on a server (`displace serve`): locates as a `PlaceMap` does."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np

from displace.arrays import Vectors
from displace.client import Client, RemoteDrive, ServerError
from displace.errors import ImageError, InputError
from displace.geo import Positions
from displace.maps.place_sketches import AMONG
from displace.maps.questions import check_same_model
from displace.matches import Matches
from displace.progress import Progress, Stage, counted

AT_ONCE = 4
"""Images that are sent concurrently."""
OF_THE_IMAGE = (413, 415, 422)
"""HTTP statuses that refuse one image (too large, not an image, cannot be read) and not the others."""
POSITION = {True: ("latitude", "longitude"), False: ("easting", "northing")}


def is_served(address: object) -> bool:
    """Whether a map is named by the address of a server.

    >>> is_served("http://robot:8008"), is_served("town.displace")
    (True, False)
    """
    return str(address).startswith(("http://", "https://"))


class RemoteMap:
    """Locates as a `PlaceMap` does, by asking a server; nothing of the map itself is here.

    `area` is the ``near`` and ``radius`` of every query, where the server is asked within an area.
    """

    def __init__(self, client: Client, area: dict[str, Any] | None = None) -> None:
        self.client, self.area = client, area or {}
        self.facts = client.map()

    @property
    def calibration(self) -> dict[str, Any] | None:
        """Calibration of the confidence; None where the map has none."""
        found: dict[str, Any] | None = self.facts["calibration"]
        return found

    @property
    def calibration_is_stale(self) -> bool:
        """Whether an update has changed the references since the confidence was learned."""
        return bool(self.facts["calibration_is_stale"])

    @property
    def has_positions(self) -> bool:
        """Whether the places have positions."""
        return self.facts["degrees"] is not None

    @property
    def in_degrees(self) -> bool:
        """Whether positions of places are latitude and longitude."""
        return bool(self.facts["degrees"])

    @property
    def has_order(self) -> bool:
        """Whether the places have an order along a route."""
        return bool(self.facts["has_order"])

    def check_model(self, fingerprint: Mapping[str, Any] | None) -> None:
        """Raise an error that names both where `fingerprint` is not the map's model."""
        check_same_model(self.facts["fingerprint"], fingerprint)

    def within(self, near: tuple[float, float], radius: float) -> RemoteMap:
        """Return the same map for queries that are known to be in an area."""
        return RemoteMap(self.client, {"near": f"{near[0]},{near[1]}", "radius": radius})

    def described(
        self,
        paths: Sequence[str | os.PathLike[str]],
        failures: dict[int, str],
        progress: Progress | None = None,
    ) -> Vectors:
        """Descriptors of image files by the map's model, (q, D); `failures` takes why an image has none (NaN)."""
        if not self.facts["takes_images"]:
            raise InputError(f"{self.client.http.base_url}: {self.facts['no_images']}")
        vectors = np.full((len(paths), self.facts["dim"]), np.nan, np.float32)

        def one(row: int) -> None:
            try:
                vectors[row] = self.client.describe(paths[row])
            except ImageError as error:
                failures[row] = str(error)
            except ServerError as error:
                if error.status not in OF_THE_IMAGE:
                    raise
                failures[row] = f"{paths[row]}: {error}"

        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="displace-client") as pool:
            for done, _ in enumerate(pool.map(one, range(len(paths))), start=1):
                if progress:
                    progress("describing", done, len(paths))
        return vectors

    def locate(
        self,
        vectors: Vectors,
        k: int = 5,
        *,
        search: str = "auto",
        adapt: str = "none",
        pictures: Sequence[str | os.PathLike[str]] | None = None,
        progress: Stage | None = None,
    ) -> Matches:
        """Find the places of descriptors; adaptation is within each request.

        A server that compares pictures is then sent those of the descriptors, if they are given.
        """
        if search != "auto":
            raise InputError(f"search={search!r} is the server's to choose: leave it out")
        if vectors.shape[1] != self.facts["dim"]:
            raise InputError(f"queries have {vectors.shape[1]} dimensions; the map has {self.facts['dim']}")
        limits = self.facts["limits"]
        size = max(1, min(limits["queries"], limits["upload_bytes"] // (4 * vectors.shape[1])))
        # Parts of equal size, so that none is too small to adapt where others do.
        parts = np.array_split(vectors, max(1, -(-len(vectors) // size)))
        options = {**self.area, "adapt": adapt}
        compares = pictures is not None and bool(self.facts.get("compares_pictures"))
        wanted = max(k, min(AMONG, limits.get("places", k))) if compares else k
        records = [
            record for part in parts for record in self.client.locate(part, wanted, **options)["results"]
        ]
        if pictures is not None and compares:
            with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="displace-client") as pool:
                told = pool.map(self._compared, records, pictures)
                records = [next(told) for _ in counted(records, progress)]
        return self._matches(records).best(k)

    def smoothed(
        self,
        vectors: Vectors,
        k: int = 5,
        *,
        adapt: str = "auto",
        pictures: Sequence[str | os.PathLike[str]] | None = None,
        progress: Stage | None = None,
    ) -> Matches:
        """Follow a drive on the server, each frame given those before it; it returns ten places a frame.

        A server that compares pictures is sent the frames themselves, if they are given.
        """
        shown: Sequence[Any] = [None] * len(vectors)
        if pictures is not None and self.facts.get("compares_pictures"):
            shown = pictures
        with self.client.drive("none" if adapt == "none" else "online") as drive:
            frames = counted(list(zip(vectors, shown, strict=True)), progress)
            fixes = [_step(drive, vector, picture) for vector, picture in frames]
        records = [
            {
                **fix,
                "places": fix["places"][:k],
                "scores": fix["scores"][:k],
                "confidence": fix["probability"],
            }
            for fix in fixes
        ]
        return self._matches(records)

    def _compared(self, record: dict[str, Any], picture: str | os.PathLike[str]) -> dict[str, Any]:
        """Record of an image, in view of how it fits its places; as it was where the image is not there any more."""
        if record.get("confidence") is None:
            return record
        with suppress(ImageError):
            return self.client.compare(picture, record)
        return record

    def _matches(self, records: list[dict[str, Any]]) -> Matches:
        positions = None
        if self.has_positions:
            degrees = bool(self.facts["degrees"])
            points = [[record[name] for name in POSITION[degrees]] for record in records]
            positions = Positions(np.array(points, np.float64), degrees)
        sure = None
        if "confidence" in records[0]:
            sure = np.array([record["confidence"] for record in records], np.float64)
        return Matches(
            np.array([record["places"] for record in records]),
            np.array([record["scores"] for record in records], np.float64),
            sure,
            positions,
        )


def _step(drive: RemoteDrive, vector: Vectors, picture: Any) -> dict[str, Any]:
    """Send a drive's next frame: the picture, or its descriptor where there is none any more."""
    if picture is not None:
        with suppress(ImageError):
            return drive.step(picture)
    return drive.step(vector)
