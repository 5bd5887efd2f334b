"""GeoJSON (RFC 7946): located images, or the places of a map, as points for any map viewer.

The standard knows one coordinate system, longitude and latitude on WGS 84. Positions in easting and northing are
converted, which needs the name of their UTM zone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from displace.errors import InputError
from displace.files.outputs import write_text
from displace.files.reading import PathLike
from displace.interop._points import PointExporter, PointTable, numbers
from displace.interop._utm import as_degrees


class GeoJson(PointExporter):
    """GeoJSON points: located images with confidence, or the places of a map."""

    @staticmethod
    def write(table: PointTable, path: PathLike, crs: str | None) -> list[Path]:
        """One feature a line, so that the file can be read and compared by lines."""
        if table.positions is None:
            raise InputError(
                "the map has no positions to draw: build it from a manifest with latitude and longitude or easting and "
                "northing, or write CSV"
            )
        points = as_degrees(table.positions, crs)
        latitudes, longitudes = numbers("latitude", points[:, 0]), numbers("longitude", points[:, 1])
        columns = dict(table.columns)
        if table.positions.heading is not None:
            columns["heading"] = numbers("heading", table.positions.heading)
        rows = zip(*columns.values(), strict=True)
        features = [
            _feature(dict(zip(columns, row, strict=True)), latitude, longitude)
            for row, latitude, longitude in zip(rows, latitudes, longitudes, strict=True)
        ]
        lines = ",\n".join(json.dumps(feature, ensure_ascii=False, allow_nan=False) for feature in features)
        write_text(path, f'{{"type": "FeatureCollection", "features": [\n{lines}\n]}}\n')
        return [Path(path)]


def _feature(properties: dict[str, Any], latitude: float | None, longitude: float | None) -> dict[str, Any]:
    """A point with properties; the standard's null geometry where the position is not known."""
    known = latitude is not None and longitude is not None
    geometry = {"type": "Point", "coordinates": [longitude, latitude]} if known else None
    return {"type": "Feature", "geometry": geometry, "properties": properties}
