"""Reads and writes maps: one file to locate with, and beside it one that updates need.

``town.displace`` is the map. ``town.displace-stats`` holds the statistics, with the checksum of the map they belong to.
A save writes new statistics as ``town.displace-stats.next``, replaces the map (the moment of the change), then renames
the statistics: whenever the process dies, the map is the old or the new one, and its statistics are found.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace._version import __version__
from displace.errors import DisplaceError, FormatError, InputError
from displace.files import schema, tensors
from displace.files.atomic import check_file, remove_leftovers, sync_folder
from displace.files.lock import exclusive
from displace.geo import Positions
from displace.maps.checking import KINDS, check_fields, check_row_places, check_rows, checked_calibration
from displace.maps.place_sketches import PlaceSketches
from displace.maps.samples import Samples
from displace.maps.state import MapState
from displace.maps.statistics import UPCOMING, MapStatistics, StatisticsFile
from displace.maps.witness import Anchors
from displace.places import Places
from displace.sequence.following import DriveCalibration
from displace.sketches import PACKED
from displace.truth import Tolerance

FORMAT = "displace map"
RELEASES = {1: "0.1"}
"""Release of the package that each format version came with."""
VERSION = max(RELEASES)
_COARSE = 600
"""Bytes of a sketch as maps had them at first, which are left out: photos are judged by their descriptors."""


def save(state: MapState, path: str | os.PathLike[str]) -> None:
    """Write the map and its statistics.

    Statistics that are there already are replaced. A map without statistics removes those of the map that it replaces,
    and leaves others alone.
    """
    path = Path(path)
    with _writing(path):
        check_file(path)
    header, arrays = packed(state)
    statistics = state.statistics and state.statistics.loaded()
    sidecar, upcoming = _sidecar(path), _upcoming(path)
    with _writing(path), exclusive(path):
        _finish_killed_save(path)
        for file in (path, upcoming):
            remove_leftovers(file)
        replaced = _checksum(path)
        try:
            if statistics is not None:
                statistics.write(upcoming, map_checksum=tensors.payload_digest(arrays))
            tensors.write(path, header, arrays, check=_read_back)
        except BaseException:
            _drop_upcoming(path)
            raise
        if statistics is not None:
            upcoming.replace(sidecar)
        elif replaced is not None and _map_of(sidecar) == replaced:
            sidecar.unlink()
        sync_folder(path.parent)


def load(path: str | os.PathLike[str], verify: bool) -> MapState:
    """Read a map; its statistics when they are asked for. All but the rows is checked in any case."""
    path = Path(path)
    fields, header = _read(path, verify)
    if verify:
        check_rows(path, fields)
    if header.get("keeps_statistics") is not False:  # unknown in files of the first releases
        fields["statistics"], fields["no_statistics"] = find_statistics(path, str(header["payload_sha256"]))
    return MapState(**fields)


def _instead(path: Path) -> str:
    """Advice if `path` is not a map but something known; empty for a damaged map."""
    from displace.descriptors.store import is_store
    from displace.images import is_image

    if re.fullmatch(r"[\w.-]+:\d+", str(path)):
        return f"; if it is the address of a server, write http://{path}"
    if not path.exists():
        return f"; make a map with: displace build SOURCE -o {path}"
    if is_store(path):
        return f"; it is a descriptor store, make a map of it with: displace build {quote(str(path))}"
    if path.suffix.lower() == ".csv":
        return f"; if it is a manifest, make a map of it with: displace build {quote(str(path))}"
    return "; it is a picture: the map comes first, then the images" if is_image(path) else ""


def _read_file(path: Path, verify: bool) -> tuple[dict[str, Any], tensors.Arrays]:
    """Header and arrays of a map's file."""
    try:
        return tensors.read(path, FORMAT, VERSION, verify)
    except FormatError as error:
        raise FormatError(f"{error}{_instead(path)}") from None


def _read(path: Path, verify: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of the map in a file, and its header."""
    header, arrays = _read_file(path, verify)
    return unpacked(header, arrays, str(path)), header


def unpacked(header: dict[str, Any], arrays: tensors.Arrays, name: str) -> dict[str, Any]:
    """Fields of a map from its header and arrays, checked; `name` is what messages call it."""
    try:
        fields = {field: header[field] for field in KINDS}
        fields["calibration"] = checked_calibration(header["calibration"])
        fields["calibrated_on"] = header.get("calibrated_on", dict(header["traversals"]))
        driving = header.get("driving")
        fields["driving"] = None if driving is None else DriveCalibration.from_json(driving)
        fields["tolerance"] = _tolerance(header)
        fields["places"] = _unpacked_places(arrays, header["degrees"])
        fields["vectors"] = arrays["vectors"]
        check_row_places(arrays["row_places"], len(arrays["vectors"]), len(fields["places"]))
        fields["row_places"] = arrays["row_places"].astype(np.intp)
        for part in ("projection", "mean", "scales"):
            fields[part] = arrays.get(part)
        fields["anchors"] = _unpacked_anchors(arrays)
        fields["samples"] = _unpacked_samples(arrays, header)
        fields["sketches"] = _unpacked_sketches(arrays, header, len(fields["places"]))
        check_fields(fields)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise FormatError(f"{name} is damaged: {error!r}") from None
    return fields


def _read_back(path: Path) -> None:
    """Refuse to replace a map by a file that would not load."""
    try:
        _read(path, verify=False)
    except FormatError as error:
        raise InputError(f"the map cannot be saved, for it could not be loaded again: {error}") from error


def find_statistics(path: Path, map_checksum: str) -> tuple[MapStatistics | None, str]:
    """Statistics of the map with this checksum, not read yet; or None, and why there are none."""
    sidecar, upcoming = _sidecar(path), _upcoming(path)
    if _map_of(upcoming) == map_checksum:
        return StatisticsFile(path=upcoming, map_checksum=map_checksum), ""
    if not sidecar.exists():
        return None, f"there are no statistics beside it ({sidecar.name}); put the file back"
    try:
        if StatisticsFile.belongs_to(sidecar) == map_checksum:
            return StatisticsFile(path=sidecar, map_checksum=map_checksum), ""
    except FormatError as error:
        return None, f"the statistics beside it cannot be used: {error}"
    return None, f"the statistics beside it ({sidecar.name}) belong to another map; put its own back"


def _finish_killed_save(path: Path) -> None:
    """Rename the statistics where a process died after replacing the map, before this save overwrites them."""
    if _upcoming(path).is_file() and _map_of(_upcoming(path)) == _checksum(path):
        _upcoming(path).replace(_sidecar(path))


def _drop_upcoming(path: Path) -> None:
    """Remove the statistics of a failed save, unless the map was replaced already and needs them."""
    if _map_of(_upcoming(path)) != _checksum(path) or _map_of(_sidecar(path)) == _checksum(path):
        _upcoming(path).unlink(missing_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn errors of the file system into a DisplaceError that says what to do."""
    try:
        yield
    except OSError as error:
        raise DisplaceError(
            f"cannot write {path}: {error.strerror or error}; a map that was there before is whole. "
            "Make room or choose another place with -o, then run the same command again"
        ) from error


def checksum_of(path: Path) -> str:
    """Checksum of the arrays of the map at `path`."""
    return str(_read_file(Path(path), verify=False)[0]["payload_sha256"])


def version_of(path: Path) -> str:
    """Short hash of the map at `path`: of its header, which has the checksum of the arrays."""
    header = _read_file(Path(path), verify=False)[0]
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:12]


def _checksum(path: Path) -> str | None:
    """Checksum of the map at `path`; None where there is none that can be read."""
    try:
        return checksum_of(path)
    except FormatError:
        return None


def _map_of(sidecar: Path) -> str | None:
    """Checksum of the map that the statistics belong to; None where they cannot be read."""
    try:
        return StatisticsFile.belongs_to(sidecar)
    except FormatError:
        return None


def _sidecar(path: Path) -> Path:
    return path.with_name(f"{path.name}-stats")


def _upcoming(path: Path) -> Path:
    return path.with_name(f"{_sidecar(path).name}{UPCOMING}")


def packed(state: MapState) -> tuple[dict[str, Any], tensors.Arrays]:
    """Header and arrays of a map."""
    places, in_frames = state.places, state.tolerance.kind == "frames"
    arrays = {
        "vectors": state.vectors,
        "row_places": state.row_places.astype(np.int32),
        "projection": state.projection,
        "mean": state.mean,
        "scales": state.scales,
        "frames": places.frames,
        **_packed_anchors(state.anchors),
        **_packed_samples(state.samples),
        "sketches": None if state.sketches is None else state.sketches.packed,
        **tensors.pack_labels("place_ids", places.ids),
        **({} if places.images is None else tensors.pack_labels("images", np.array(places.images))),
        **_packed_positions(places.positions),
    }
    header = {
        "format": FORMAT,
        "version": VERSION,
        "needs": f"{RELEASES[VERSION]} or later",
        "written_by": __version__,
        "degrees": places.positions is not None and places.positions.degrees,
        "calibration": state.calibration and state.calibration.to_json(),
        "calibrated_on": state.calibrated_on,
        "sampled": [] if state.samples is None else state.samples.names,
        "sampled_centred": state.samples is not None and state.samples.centred,
        "driving": state.driving and state.driving.to_json(),
        **({} if state.sketches is None else {"sketch_level": state.sketches.level}),
        # True also where they are missing: the user may put the file back.
        "keeps_statistics": state.statistics is not None or bool(state.no_statistics),
        **{name: getattr(state, name) for name in KINDS},
        # In metres since the first version, 0 for exact places; a tolerance in frames has a field of its own.
        "tolerance": state.tolerance.value if state.tolerance.kind == "metres" else 0.0,
        **({"tolerance_frames": state.tolerance.value} if in_frames else {}),
    }
    return header, {name: array for name, array in arrays.items() if array is not None}


def _tolerance(header: dict[str, Any]) -> Tolerance:
    if "tolerance_frames" in header:
        return Tolerance("frames", schema.number(header["tolerance_frames"], "tolerance_frames", 0))
    metres = schema.number(header["tolerance"], "tolerance", 0)
    return Tolerance("metres", metres) if metres > 0 else Tolerance("exact")


def _packed_anchors(anchors: Anchors | None) -> dict[str, NDArray[Any] | None]:
    if anchors is None:
        return {}
    by_row = np.stack([anchors.lengths, anchors.squares, anchors.counts], axis=1)
    return {"anchor_mean": anchors.mean, "anchors": by_row}


def _unpacked_anchors(arrays: tensors.Arrays) -> Anchors | None:
    if "anchors" not in arrays:
        return None
    lengths, squares, counts = np.array(arrays["anchors"]).T
    return Anchors(np.array(arrays["anchor_mean"]), lengths, squares, counts)


def _packed_samples(samples: Samples | None) -> dict[str, NDArray[Any] | None]:
    if samples is None:
        return {}
    labels, evidence = np.stack([samples.labels, samples.folds], axis=1), samples.evidence.astype(np.float32)
    # The fifth feature is an array of its own, so that releases which know four can read the map.
    more = {"sample_registration": np.ascontiguousarray(evidence[:, 4])} if evidence.shape[1] > 4 else {}
    return {"samples": np.ascontiguousarray(evidence[:, :4]), "sample_labels": labels, **more}


def _unpacked_samples(arrays: tensors.Arrays, header: dict[str, Any]) -> Samples | None:
    if "samples" not in arrays:
        return None
    centred = header.get("sampled_centred", False)
    schema.require(isinstance(centred, bool), f"sampled_centred is {schema.shown(centred)}")
    # int8 in files of the first releases.
    labels, folds = arrays["sample_labels"].astype(np.int32, casting="safe").T
    with np.errstate(invalid="ignore"):  # a damaged number is refused with the others
        evidence = np.array(arrays["samples"], np.float64)
        if "sample_registration" in arrays:
            evidence = np.column_stack([evidence, arrays["sample_registration"].astype(np.float64)])
    return Samples(evidence, labels.astype(np.int8), folds, list(header.get("sampled", [])), centred)


def _unpacked_sketches(arrays: tensors.Arrays, header: dict[str, Any], n_places: int) -> PlaceSketches | None:
    if "sketches" not in arrays:
        return None
    sketches = arrays["sketches"]
    if sketches.ndim == 2 and sketches.shape[1] == _COARSE:
        return None
    fits = sketches.dtype == np.uint8 and sketches.ndim == 2 and sketches.shape == (n_places, PACKED)
    schema.require(fits, f"sketches are {sketches.dtype} of shape {sketches.shape}")
    return PlaceSketches(np.array(sketches), schema.number(header["sketch_level"], "sketch_level", 0, 1000))


def _packed_positions(positions: Positions | None) -> dict[str, NDArray[Any] | None]:
    if positions is None:
        return {}
    return {"points": positions.points, "heading": positions.heading}


def _unpacked_places(arrays: tensors.Arrays, degrees: bool) -> Places:
    schema.require(isinstance(degrees, bool), f"degrees is {schema.shown(degrees)}")
    images = tensors.unpack_texts("images", arrays) if "images_ends" in arrays else None
    positions = None
    if "points" in arrays:
        heading = arrays.get("heading")
        heading = None if heading is None else np.array(heading)
        positions = Positions(np.array(arrays["points"]), degrees, heading)
    frames = np.array(arrays["frames"]) if "frames" in arrays else None
    return Places(tensors.unpack_labels("place_ids", arrays), positions, images, frames)
