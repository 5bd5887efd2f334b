"""Maps on disk: one file to locate with, and beside it one that an update needs.

``town.displace`` is the map. ``town.displace-stats`` holds the statistics; it names the map it belongs to by the
map's checksum. A save writes new statistics as ``town.displace-stats.next``, then replaces the map, which is the moment
at which the change happens, then renames the statistics: whenever the process dies, the map is the old or the new one,
and the statistics that go with it are found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from displace._version import __version__
from displace.errors import DisplaceError, FormatError
from displace.files import tensors
from displace.files.atomic import sync_folder
from displace.geo import Positions
from displace.maps.checking import KINDS, check_fields, checked_calibration
from displace.maps.statistics import Statistics

if TYPE_CHECKING:
    from displace.maps.place_map import PlaceMap

FORMAT = "displace map"
RELEASES = {1: "0.1"}
"""Release of the package that each format version came with."""
VERSION = max(RELEASES)


def save(place_map: PlaceMap, path: str | os.PathLike[str]) -> None:
    """Write the map and its statistics.

    A file of statistics that is there already is replaced by the new ones. Where there are no new ones it is removed if
    it belongs to the map that is replaced, and left alone otherwise.
    """
    path = Path(path)
    header, arrays = _packed(place_map)
    statistics = place_map.statistics and place_map.statistics.loaded()
    sidecar, upcoming = _sidecar(path), _upcoming(path)
    with _writing(path):
        _finish_killed_save(path)
        replaced = _checksum(path)
        try:
            if statistics is not None:
                statistics.write(upcoming, map_checksum=tensors.payload_digest(arrays))
            tensors.write(path, header, arrays)
        except BaseException:
            _drop_upcoming(path)
            raise
        if statistics is not None:
            upcoming.replace(sidecar)
        elif replaced is not None and _map_of(sidecar) == replaced:
            sidecar.unlink()
        sync_folder(path.parent)


def load(path: str | os.PathLike[str], verify: bool) -> dict[str, Any]:
    """Read the fields of a map; its statistics when they are asked for. All but the rows is checked in any case."""
    path = Path(path)
    header, arrays = tensors.read(path, FORMAT, VERSION, verify)
    try:
        fields = {name: header[name] for name in KINDS}
        fields["calibration"] = checked_calibration(header["calibration"])
        fields["calibrated_on"] = header.get("calibrated_on", dict(header["traversals"]))
        fields["place_ids"] = tensors.unpack_labels("place_ids", arrays)
        fields["vectors"] = arrays["vectors"]
        fields["row_places"] = arrays["row_places"].astype(np.intp)
        for name in ("projection", "mean", "scales"):
            fields[name] = arrays.get(name)
        has_images = "images_ends" in arrays
        fields["images"] = tensors.unpack_labels("images", arrays).tolist() if has_images else None
        fields["positions"] = _unpacked_positions(arrays, header["degrees"])
        check_fields(fields)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise FormatError(f"{path} is damaged: {error!r}") from None
    fields["statistics"], fields["no_statistics"] = find_statistics(path, header["payload_sha256"])
    return fields


def find_statistics(path: Path, map_checksum: str) -> tuple[Statistics | None, str]:
    """Statistics that belong to the map with this checksum, not read yet; where there are none, why."""
    sidecar, upcoming = _sidecar(path), _upcoming(path)
    if upcoming.exists() and _map_of(upcoming) == map_checksum:
        return Statistics.at(upcoming), ""
    if not sidecar.exists():
        return None, f"there are no statistics beside it ({sidecar.name}); put the file back"
    try:
        if Statistics.belongs_to(sidecar) == map_checksum:
            return Statistics.at(sidecar), ""
    except FormatError as error:
        return None, f"the statistics beside it cannot be used: {error}"
    return None, f"the statistics beside it ({sidecar.name}) belong to another map; put its own back"


def _finish_killed_save(path: Path) -> None:
    """Put the statistics in place where a process died after replacing the map, or this save would write over them."""
    if _upcoming(path).is_file() and _map_of(_upcoming(path)) == _checksum(path):
        _upcoming(path).replace(_sidecar(path))


def _drop_upcoming(path: Path) -> None:
    """Remove what a save has written in vain, unless the map was replaced and needs it."""
    if _map_of(_upcoming(path)) != _checksum(path) or _map_of(_sidecar(path)) == _checksum(path):
        _upcoming(path).unlink(missing_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn errors of the file system into one that says what to do."""
    try:
        yield
    except OSError as error:
        raise DisplaceError(
            f"cannot write {path}: {error.strerror or error}; a map that was there before is whole. "
            "Make room or choose another place with -o, then run the same command again"
        ) from error


def _checksum(path: Path) -> str | None:
    """Checksum of the map at `path`; None where there is none that can be read."""
    try:
        return str(tensors.read(path, FORMAT, VERSION, verify=False)[0]["payload_sha256"])
    except FormatError:
        return None


def _map_of(sidecar: Path) -> str | None:
    """Checksum of the map that the statistics belong to; None where they cannot be read."""
    try:
        return Statistics.belongs_to(sidecar)
    except FormatError:
        return None


def _sidecar(path: Path) -> Path:
    return path.with_name(f"{path.name}-stats")


def _upcoming(path: Path) -> Path:
    return path.with_name(f"{path.name}-stats.next")


def _packed(place_map: PlaceMap) -> tuple[dict[str, Any], tensors.Arrays]:
    """Header and arrays of a map."""
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
        "needs": f"{RELEASES[VERSION]} or later",
        "written_by": __version__,
        "degrees": place_map.positions is not None and place_map.positions.degrees,
        "calibration": place_map.calibration and place_map.calibration.to_json(),
        "calibrated_on": place_map.calibrated_on,
        **{name: getattr(place_map, name) for name in KINDS},
    }
    return header, {name: array for name, array in arrays.items() if array is not None}


def _packed_positions(positions: Positions | None) -> dict[str, NDArray[Any] | None]:
    if positions is None:
        return {}
    return {"points": positions.points.astype(np.float64), "heading": positions.heading}


def _unpacked_positions(arrays: tensors.Arrays, degrees: bool) -> Positions | None:
    if "points" not in arrays:
        return None
    heading = arrays.get("heading")
    return Positions(np.array(arrays["points"]), degrees, None if heading is None else np.array(heading))
