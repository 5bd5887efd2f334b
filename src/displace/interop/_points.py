"""Located images, or the places of a map, as rows with a position: what CSV and GeoJSON are written from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.files.reading import PathLike
from displace.geo import Positions
from displace.interop.base import Exporter
from displace.maps import PlaceMap
from displace.maps.located import Located

DECIMALS = {
    "score": 6,
    "confidence": 4,
    "timestamp": 6,
    "latitude": 8,
    "longitude": 8,
    "easting": 3,
    "northing": 3,
    "heading": 2,
}
"""Decimals of each column: 8 decimals of a degree are a millimetre."""


@dataclass(frozen=True, eq=False)
class PointTable:
    """Named columns, and a position for each row."""

    columns: dict[str, list[Any]]
    """Texts and numbers; None is a blank."""
    positions: Positions | None
    """NaN where a row has none."""


def locations_table(located: Located, min_confidence: float = 0.0, places: int = 1) -> PointTable:
    """Make one row for each image; place and position are blank below `min_confidence`: not in the map.

    For images that could not be read, the score is blank, too. The second to `places`-th best places have columns of
    their own, ``place_2``, ``score_2`` …
    """
    matches, manifest = located.matches, located.manifest
    accepted = located.accepted(min_confidence)
    best = matches.places[:, 0].tolist()
    columns: dict[str, list[Any]] = {
        "image": manifest.images,
        "place": [place if kept else None for place, kept in zip(best, accepted, strict=True)],
        "score": numbers("score", matches.scores[:, 0]),
    }
    if matches.confidence is not None:
        columns["confidence"] = numbers("confidence", matches.confidence)
    for rank in range(2, min(places, matches.places.shape[1]) + 1):
        others, known = matches.places[:, rank - 1].tolist(), np.isfinite(matches.scores[:, rank - 1])
        columns[f"place_{rank}"] = [
            place if kept else None for place, kept in zip(others, accepted & known, strict=True)
        ]
        columns[f"score_{rank}"] = numbers("score", matches.scores[:, rank - 1])
    for name in ("frame", "timestamp"):
        if name in manifest.numbers:
            columns[name] = numbers(name, manifest.numbers[name])
    positions = matches.positions
    if positions is not None:
        heading = None if positions.heading is None else np.where(accepted, positions.heading, np.nan)
        points = np.where(accepted[:, None], positions.points, np.nan)
        positions = Positions(points, positions.degrees, heading)
    return PointTable(columns, positions)


def places_table(place_map: PlaceMap) -> PointTable:
    """Make one row for each place of a map, with its reference image where the map has one."""
    columns: dict[str, list[Any]] = {"place": place_map.place_ids.tolist()}
    if place_map.images is not None:
        columns["image"] = [image or None for image in place_map.images]
    return PointTable(columns, place_map.positions)


def numbers(name: str, values: NDArray[Any]) -> list[float | None]:
    """Python numbers, rounded to the decimals of the column; None for NaN and infinity."""
    exact = np.asarray(values, np.float64)
    rounded = np.round(exact, DECIMALS[name]) if name in DECIMALS else exact
    kind = int if name == "frame" else float
    return [kind(value) if np.isfinite(value) else None for value in rounded.tolist()]


class PointExporter(Exporter, ABC):
    """Export of rows with positions; a subclass defines how a table is written."""

    @staticmethod
    @abstractmethod
    def write(table: PointTable, path: PathLike, crs: str | None) -> list[Path]:
        """Write a table."""

    @classmethod
    def write_located(
        cls,
        located: Located,
        path: PathLike,
        *,
        min_confidence: float = 0.0,
        crs: str | None = None,
        places: int = 1,
    ) -> list[Path]:
        """Write located images: image, best places, scores, confidence, position.

        Images below `min_confidence` have a blank place and position: not in the map. `places` are the best places of
        each; the second and further ones are ``place_2``, ``score_2`` … `crs` is the UTM zone of a map whose positions
        are easting and northing, such as ``EPSG:32630``: GeoJSON needs it, CSV gets latitude and longitude as well.
        """
        return cls.write(locations_table(located, min_confidence, places), path, crs)

    @classmethod
    def write_map(cls, place_map: PlaceMap, path: PathLike, *, crs: str | None = None) -> list[Path]:
        """Write the places of a map: place, reference image, position; `crs` is as for located images."""
        return cls.write(places_table(place_map), path, crs)
