"""From folders to a manifest: find the recordings, tell their layout, assign places."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shlex import quote

import numpy as np

from displace.errors import ImageError, ManifestError, RouteWarning
from displace.files.reading import PathLike
from displace.images import natural_key, read_image
from displace.manifest.exif_positions import with_exif_positions
from displace.manifest.layouts import LAYOUTS, Route, assign_by_position
from displace.manifest.place_assignment import KnownPlaces, Rule
from displace.manifest.recording import Recording, find_recordings
from displace.manifest.table import Manifest
from displace.manifest.utm_names import is_utm_name, utm_positions
from displace.registry import check_known

_WEAKER_THAN_GPS = ("names", "order", "sight")
"""Layouts for recordings without positions; only before one of them is used are images searched for GPS in EXIF."""
_MANY_FOLDERS = 20
_MANY_IMAGES = 20
"""A folder with more images is part of a recording (100APPLE, 101APPLE; left, right) and not a place."""
_LONG = 10
ONLY_COUNTED = "their names only count the frames of each traversal"
_LAST_DIGITS = re.compile(r"\d{1,18}$")


def build_manifest(
    source: PathLike | Mapping[str, PathLike],
    layout: str = "auto",
    *,
    against: Manifest | KnownPlaces | None = None,
    anchor: str | None = None,
    spacing: float = 5.0,
    radius: float = 10.0,
    max_heading: float = 45.0,
    max_gap: float = 2.0,
    clock_offset: Mapping[str, float] | None = None,
    keep_off_route: bool = True,
) -> Manifest:
    """Make a manifest from folders of images.

    Parameters
    ----------
    source : path-like or mapping of str to path-like
        A folder with one sub-folder for each traversal (or place), or each traversal's folder by name.
    layout : {"auto", "utm", "positions", "landmarks", "names", "order", "sight"}
        How places are told (`displace.manifest.layouts`); "auto" finds out (`detect`).
        Recordings without a file of positions have those that stand in the EXIF of their images, where places would
        else be told by names, order or sight.
    against : Manifest or KnownPlaces, optional
        Places that exist already, to which `source` is assigned: by position where both have positions, by
        equal names where at least half of the names are known, by order where the numbers are equal; `layout`
        "positions", "names" or "order" forces one of the three.
    anchor : str, optional
        Traversal along which places are made, for positions; by default the one whose places the traversals
        together show most often.
    spacing, radius, max_heading : float
        Metres between places; metres within which an image shows a place; degrees that its heading may differ.
    max_gap : float
        Seconds between an image and the nearest recorded position for the image to have one.
    clock_offset : mapping of str to float, optional
        Seconds to add to the times of a traversal's images, or of all (""), for the clock of recorded positions; or
        when it began, in seconds since 1970, where the times count from then.
    keep_off_route : bool
        Keep images off the route, farther than both `radius` and `spacing` from every place or without a
        position, with a blank place. (Images between places, and those near a place to which another image of
        the traversal is nearer, are always left out.)

    Returns
    -------
    Manifest
        Its `summary()` says how many of the places each traversal shows.

    Examples
    --------
    >>> build_manifest("route").write("route.csv")                                      # doctest: +SKIP
    >>> build_manifest({"snow": "2027-01-04"}, against=Manifest.read("route.csv"))      # doctest: +SKIP
    """
    check_known("layout", [layout], ["auto", *LAYOUTS])
    rule = Rule(spacing, radius, max_heading)
    recordings = [_with_name_positions(r) for r in find_recordings(source, max_gap, clock_offset)]
    route = Route(recordings, _root(source), rule, anchor, keep_off_route)
    if against is not None:
        known = KnownPlaces.of(against) if isinstance(against, Manifest) else against
        if layout in ("auto", "positions") and known.positions is not None and known.positions.degrees:
            route = replace(route, recordings=with_exif_positions(recordings))
        return assign(route, known, layout)
    chosen = detect(recordings) if layout == "auto" else layout
    if layout == "positions" or (layout == "auto" and chosen in _WEAKER_THAN_GPS):
        route = replace(route, recordings=with_exif_positions(recordings))
        chosen = "positions" if all(r.positions is not None for r in route.recordings) else chosen
    if anchor is not None and chosen not in ("positions", "utm"):
        raise ManifestError(f"anchor={anchor!r} is for positions; {route.root} has layout {chosen!r}")
    if chosen in _WEAKER_THAN_GPS:
        _warn_of_cameras(recordings)
        _warn_of_turned(recordings)
    return LAYOUTS[chosen](route)


def detect(recordings: Sequence[Recording]) -> str:
    """Tell the layout of some recordings: the first that fits of the seven below.

    1. every name has the form ``@east@north@…``: "utm";
    2. every recording has positions: "positions";
    3. more than 20 folders with images, and more folders than images in the largest: "landmarks";
    4. at least half of the images share their name with an image of another recording, and some of every
       recording's do, or there is only one recording: "names";
    5. every recording has the same number of images: "order";
    6. the images of every recording are in sub-folders, none of more than 20: "landmarks";
    7. there are several recordings: "sight", which leaves it to the images themselves.

    Where "names", "order" or "sight" is left, `build_manifest` looks for GPS in EXIF before it takes one of them.
    4 and 5 never fit frames that were merely counted: the n-th frame of two drives is not one place.
    """
    folders = Counter(image.parent for r in recordings for image in r.images)
    names = Counter(name for r in recordings for name in set(r.names))
    shared = [sum(names[name] > 1 for name in r.names) for r in recordings]
    nested = (
        all("/" in name for r in recordings for name in r.names) and max(folders.values()) <= _MANY_IMAGES
    )
    alone, counted = len(recordings) == 1 and not nested, len(recordings) > 1 and merely_counted(recordings)
    fits = {
        "utm": all(is_utm_name(image.name) for r in recordings for image in r.images),
        "positions": all(r.positions is not None for r in recordings),
        "landmarks": len(folders) > max(_MANY_FOLDERS, *folders.values()),
        "names": alone or (2 * sum(shared) >= sum(map(len, recordings)) and all(shared) and not counted),
        "order": len(recordings) > 1 and len({len(r) for r in recordings}) == 1 and not counted,
    }
    return next((layout for layout, fit in fits.items() if fit), "landmarks" if nested else "sight")


def alike_folders(recording: Recording) -> list[str]:
    """Sub-folders of many images of which at least half have the same names, as those of two cameras do."""
    inside: dict[str, set[str]] = {}
    for name in recording.names:
        folder, _, image = name.rpartition("/")
        inside.setdefault(folder, set()).add(image)
    many = {folder: images for folder, images in inside.items() if len(images) > _MANY_IMAGES}
    return [
        folder
        for folder, images in many.items()
        if any(2 * len(images & others) >= len(images) for other, others in many.items() if other != folder)
    ]


def merely_counted(recordings: Sequence[Recording], known: Sequence[str] = ()) -> bool:
    """Whether file names are only frame counters, which say nothing about places.

    They are if a recording has times, as frames of videos and bags do; or if all names, also the sorted names of
    `known` places, are numbered in equal steps while the recordings differ in length: names that identify places have
    gaps where a traversal lacks some.
    """
    if any(r.times is not None for r in recordings):
        return True
    sequences = [*(r.names for r in recordings), *([known] if known else [])]
    lengths = [len(names) for names in sequences]
    if len(set(lengths)) == 1 or min(lengths) < _LONG:
        return False
    steps: set[int] = set()
    for names in sequences:
        numbers = [int(match.group()) for match in map(_LAST_DIGITS.search, names) if match]
        if len(numbers) < len(names):
            return False
        steps.update(np.diff(numbers).tolist())
    return len(steps) == 1


def _warn_of_cameras(recordings: Sequence[Recording]) -> None:
    """Warn of sub-folders that look like cameras of one car: their images count as places of their own."""
    for recording in recordings:
        if alike := alike_folders(recording):
            warnings.warn(
                f"traversal {recording.name!r} has images of equal names in {', '.join(alike)}: these folders are "
                "treated as consecutive parts of one drive. If they are cameras that see the same places, "
                f"pass one camera of each drive: displace build ROUTE/*/{quote(alike[0])}",
                RouteWarning,
                stacklevel=3,
            )
            return


def _warn_of_turned(recordings: Sequence[Recording]) -> None:
    """Warn of recordings of which some are upright and others are wide: a phone that was turned sees no place again."""
    shapes = {}
    for recording in recordings:
        with suppress(ImageError):  # extraction says what is wrong with it
            shapes[recording.name] = read_image(recording.images[len(recording) // 2]).shape
    upright = [
        f"{name} ({width} × {height})" for name, (height, width, _) in shapes.items() if height > width
    ]
    wide = [f"{name} ({width} × {height})" for name, (height, width, _) in shapes.items() if height < width]
    if upright and wide:
        warnings.warn(
            f"images are upright in {', '.join(upright)} and wide in {', '.join(wide)}: pictures that lie on their "
            "side resemble none that do not. Where a camera was turned, turn its images back",
            RouteWarning,
            stacklevel=3,
        )


def assign(route: Route, known: KnownPlaces, how: str = "auto") -> Manifest:
    """Assign recordings to known places, "auto" or by "positions", "names" or "order" as in `build_manifest`."""
    check_known("way to assign to known places", [how], ["auto", *_ASSIGNMENTS])
    return _ASSIGNMENTS[_way(route, known) if how == "auto" else how](route, known)


def _way(route: Route, known: KnownPlaces) -> str:
    """Find the first way that fits; names and order never do where frames were merely counted."""
    recordings = route.recordings
    names = [name for r in recordings for name in _last_parts(r)]
    n_known = sum(bool(known.names.get(name)) for name in names)
    counted = merely_counted(recordings, sorted(known.names, key=natural_key))
    fits = {
        "positions": known.positions is not None and all(r.positions is not None for r in recordings),
        "names": 2 * n_known >= len(names) and not counted,
        "order": all(len(r) == len(known.ids) for r in recordings) and not counted,
    }
    for way, fit in fits.items():
        if fit:
            return way
    counts = ", ".join(f"{r.name} {len(r)}" for r in recordings)
    why = (
        f"and {ONLY_COUNTED} ({counts}). Put a TRAVERSAL.csv of positions beside each, or, where the n-th frames do "
        "show one place, choose --layout names"
        if counted
        else f"{n_known} of {len(names)} names are known, and the numbers of images differ ({counts})"
    )
    raise ManifestError(
        f"cannot assign images to the {len(known.ids)} known places: positions are missing on one side, {why}"
    )


def _by_names(route: Route, known: KnownPlaces) -> Manifest:
    places = [[known.names.get(name, "") for name in _last_parts(r)] for r in route.recordings]
    return route.manifest(places)


def _by_order(route: Route, known: KnownPlaces) -> Manifest:
    for r in route.recordings:
        if len(r) != len(known.ids):
            raise ManifestError(
                f"traversal {r.name!r} has {len(r)} images for {len(known.ids)} known places; "
                "by order the numbers must be equal"
            )
    return route.manifest([known.ids for _ in route.recordings], [range(len(r)) for r in route.recordings])


_ASSIGNMENTS = {"positions": assign_by_position, "names": _by_names, "order": _by_order}


def _with_name_positions(recording: Recording) -> Recording:
    """Take positions from names of the form ``@east@north@…`` where there is no file of positions."""
    if recording.positions is None and all(is_utm_name(image.name) for image in recording.images):
        return replace(recording, positions=utm_positions(recording.images))
    return recording


def _last_parts(recording: Recording) -> list[str]:
    return [name.rsplit("/", 1)[-1] for name in recording.names]


def _root(source: PathLike | Mapping[str, PathLike]) -> Path:
    """Folder that the manifest's paths start from until it is written elsewhere."""
    if not isinstance(source, Mapping):
        return Path(source)
    return Path(os.path.commonpath([Path(folder).resolve() for folder in source.values()]))
