"""Maps on disk: one file to locate with, and beside it one that an update needs.

``town.displace`` is the map. ``town.displace-stats`` holds the statistics; it names the map it belongs to by the
map's checksum. A save writes new statistics as ``town.displace-stats.next``, then replaces the map, which is the moment
at which the change happens, then renames the statistics: whenever the process dies, the map is the old or the new one,
and the statistics that go with it are found.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from displace import tensors
from displace._version import __version__
from displace.errors import FormatError
from displace.geo import Positions
from displace.place_map.statistics import Statistics
from displace.storage import sync_folder

if TYPE_CHECKING:
    from displace.place_map.place_map import PlaceMap

FORMAT = "displace map"
VERSION = 1
PLAIN = ("fusion", "settings", "reason", "dim", "model", "traversals", "tolerance", "notes")
"""Fields of a map that stand in the header as they are."""


def save(place_map: PlaceMap, path: str | os.PathLike[str]) -> None:
    """Write the map and its statistics."""
    path = Path(path)
    arrays = {
        "vectors": place_map.vectors,
        "row_places": place_map.row_places.astype(np.int32),
        "projection": place_map.projection,
        "mean": place_map.mean,
        "scales": place_map.scales,
        **tensors.pack_labels("place_ids", place_map.place_ids),
        **({} if place_map.images is None else tensors.pack_labels("images", np.array(place_map.images))),
        **_packed_positions(place_map.positions),
    }
    header = {
        "format": FORMAT,
        "version": VERSION,
        "needs": "0.1 or later",
        "written_by": __version__,
        "degrees": place_map.positions is not None and place_map.positions.degrees,
        "calibration": place_map.calibration and place_map.calibration.to_json(),
        **{name: getattr(place_map, name) for name in PLAIN},
    }
    present = {name: array for name, array in arrays.items() if array is not None}
    upcoming = _sidecar(path).with_name(_sidecar(path).name + ".next")
    statistics = place_map.statistics
    if statistics is not None:
        statistics.write(upcoming, map_checksum=tensors.payload_digest(present))
    tensors.write(path, header, present)
    if statistics is not None:
        upcoming.replace(_sidecar(path))
    else:
        _sidecar(path).unlink(missing_ok=True)
    sync_folder(path.parent)


def load(path: str | os.PathLike[str], verify: bool) -> dict[str, Any]:
    """Read the fields of a map; its calibration as a record, its statistics when they are asked for."""
    path = Path(path)
    header, arrays = tensors.read(path, FORMAT, VERSION, verify)
    try:
        fields = {name: header[name] for name in PLAIN}
        fields["calibration"] = header["calibration"]
        fields["place_ids"] = tensors.unpack_labels("place_ids", arrays)
        fields["vectors"] = arrays["vectors"]
        fields["row_places"] = arrays["row_places"].astype(np.intp)
        for name in ("projection", "mean", "scales"):
            fields[name] = arrays.get(name)
        has_images = "images_ends" in arrays
        fields["images"] = tensors.unpack_labels("images", arrays).tolist() if has_images else None
        fields["positions"] = _unpacked_positions(arrays, header["degrees"])
        fields["statistics"] = find_statistics(path, header["payload_sha256"])
    except (KeyError, ValueError, TypeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is damaged: {error!r}") from None
    return fields


def find_statistics(path: Path, map_checksum: str) -> Statistics | None:
    """Statistics that belong to the map with this checksum, not read yet; None where there are none."""
    sidecar = _sidecar(path)
    for candidate in (sidecar, sidecar.with_name(sidecar.name + ".next")):
        if candidate.is_file() and Statistics.belongs_to(candidate) == map_checksum:
            return Statistics.at(candidate)
    return None


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + "-stats")


def _packed_positions(positions: Positions | None) -> dict[str, NDArray[Any] | None]:
    if positions is None:
        return {}
    return {"points": positions.points.astype(np.float64), "heading": positions.heading}


def _unpacked_positions(arrays: tensors.Arrays, degrees: bool) -> Positions | None:
    if "points" not in arrays:
        return None
    heading = arrays.get("heading")
    return Positions(np.array(arrays["points"]), degrees, None if heading is None else np.array(heading))
