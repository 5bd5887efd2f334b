"""Layouts: the ways in which people keep several recordings of one route in folders.

=============  ==============================================================================================
``utm``        file names ``@east@north@zone@letter@latitude@longitude@panorama@tile@heading@…@.jpg``
``positions``  each traversal has a CSV file of positions (`displace.manifest.position_files`), or GPS in EXIF
``landmarks``  one folder for each place, alone or below one folder for each traversal
``names``      one folder for each traversal, the same file name being the same place
``order``      one folder for each traversal, the i-th image being the i-th place
``sight``      one folder for each traversal, places left blank: `displace align` finds them by sight
=============  ==============================================================================================
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from displace.errors import ManifestError, RouteWarning
from displace.geo import Numbers, Positions, courses, heading_difference
from displace.images import natural_key
from displace.manifest.place_assignment import (
    CHOSEN,
    OFF_ROUTE,
    KnownPlaces,
    Rule,
    choose_anchor,
    match_places,
    metres_together,
    space_places,
)
from displace.manifest.recording import Recording
from displace.manifest.table import Manifest
from displace.manifest.utm_names import panoramas
from displace.registry import check_known

_OFF_BY_GPS = 50.0
"""Metres by which positions of one route may differ, in narrow streets say."""
_BACK, _FEW = 135.0, 0.02
"""Degrees from which on courses are opposite, and the share of places at which they may be: positions jump."""
_BETWEEN = 0.05
"""Share of the images that may lie between places, off the route by the rule, before a wider radius is proposed."""


@dataclass(frozen=True)
class Route:
    """Recordings of one route, and how places are to be made of them."""

    recordings: Sequence[Recording]
    root: Path
    rule: Rule
    anchor: str | None = None
    keep_off_route: bool = True

    def manifest(self, places: Iterable[Sequence[str]], frames: Iterable[Iterable[float]] = ()) -> Manifest:
        """Put a table together from each recording's places and, where given, frame numbers."""
        recordings = self.recordings
        images = [image for r in recordings for image in r.images]
        start = {parent: os.path.relpath(parent, self.root) for parent in {image.parent for image in images}}
        numbers = _number_columns(recordings)
        if frames:
            numbers["frame"] = np.fromiter((f for part in frames for f in part), np.float64)
        return Manifest(
            images=[_posix(start[image.parent], image.name) for image in images],
            places=[place for part in places for place in part],
            traversals=[r.name for r in recordings for _ in r.images],
            root=self.root,
            **numbers,
        )


def by_names(route: Route) -> Manifest:
    """Equal names are one place."""
    merged = sorted({name for r in route.recordings for name in r.names}, key=natural_key)
    number = {name: i for i, name in enumerate(merged)}
    names = [r.names for r in route.recordings]
    return route.manifest(names, [[number[name] for name in part] for part in names])


def by_sight(route: Route) -> Manifest:
    """No place is known yet; the images are in the order in which they were taken."""
    return route.manifest([[""] * len(r) for r in route.recordings])


def by_order(route: Route) -> Manifest:
    """The i-th image of each traversal is place i, which they must all have."""
    lengths = [len(r) for r in route.recordings]
    if len(set(lengths)) > 1:
        raise unequal(", ".join(f"{r.name}: {len(r)}" for r in route.recordings))
    ids = numbered(lengths[0])
    return route.manifest([ids[:n] for n in lengths], [range(n) for n in lengths])


def unequal(numbers: str) -> ManifestError:
    """Say that layout "order" is not possible with such numbers of images."""
    return ManifestError(
        "layout 'order' takes the i-th image of every traversal as place i, which fails if one of them lacks a frame; "
        f"the traversals have different numbers of images ({numbers}). Use layout 'sight' and then displace align, "
        "which finds the places by sight"
    )


def by_landmarks(route: Route) -> Manifest:
    """The folder is the place; without a folder for each traversal the traversal is "reference"."""
    if any("/" in name for r in route.recordings for name in r.names):
        return route.manifest([[name.split("/", 1)[0] for name in r.names] for r in route.recordings])
    places = [[r.name] * len(r) for r in route.recordings]
    one = replace(route, recordings=[replace(r, name="reference") for r in route.recordings])
    return one.manifest(places)


def by_positions(route: Route) -> Manifest:
    """One place every `spacing` metres along the anchor; the nearest image of each other traversal."""
    tracks = [track_of(r) for r in route.recordings]
    points = metres_together(tracks)
    names = [r.name for r in route.recordings]
    if route.anchor is None:
        anchor = choose_anchor(tracks, points, route.rule)
    else:
        check_known("traversal", [route.anchor], names)
        anchor = names.index(route.anchor)
    places = space_places(points[anchor], tracks[anchor].heading, route.rule)
    return assign_by_position(route, KnownPlaces(numbered(len(places)), tracks[anchor].take(places)))


def by_utm(route: Route) -> Manifest:
    """Several traversals are assigned by position; of a database alone each panorama is a place.

    Recordings whose name begins with "quer" are queries: their place stays blank, their position is kept.
    """
    if any("/" in name for r in route.recordings for name in r.names):
        raise ManifestError(
            f"{route.root} has @-names in several levels of folders; give the folder with database and queries"
        )
    queries = [r for r in route.recordings if r.name.lower().startswith("quer")]
    references = [r for r in route.recordings if r not in queries]
    if len(references) > 1:
        known = by_positions(replace(route, recordings=references))
    else:
        known = replace(route, recordings=references).manifest([panoramas(r.images) for r in references])
    return joined([known, replace(route, recordings=queries).manifest([[""] * len(r) for r in queries])])


LAYOUTS: dict[str, Callable[[Route], Manifest]] = {
    "utm": by_utm,
    "positions": by_positions,
    "landmarks": by_landmarks,
    "names": by_names,
    "order": by_order,
    "sight": by_sight,
}


def assign_by_position(route: Route, known: KnownPlaces) -> Manifest:
    """Give each known place the nearest image of each recording, as `match_places` does."""
    if known.positions is None:
        raise ManifestError("the known places have no positions")
    tracks = [track_of(r) for r in route.recordings]
    places, *points = metres_together([known.positions, *tracks])
    kept, labels, frames, beside = [], [], [], []
    ways = np.full((len(tracks), len(places)), np.nan)
    for recording, track, own, way in zip(route.recordings, tracks, points, ways, strict=True):
        place, state = match_places(places, known.positions.heading, own, track.heading, route.rule)
        rows = np.flatnonzero((state == CHOSEN) | ((state == OFF_ROUTE) & route.keep_off_route))
        kept.append(recording.take(rows))
        beside.append(own[state == OFF_ROUTE])
        labels.append([known.ids[p] if p >= 0 else "" for p in place[rows]])
        if not (state == CHOSEN).any():
            _warn_of_elsewhere(recording.name, own, places, route.rule)
        if track.heading is None:
            way[place[state == CHOSEN]] = courses(own)[state == CHOSEN]
        frames.append(np.where(place[rows] >= 0, place[rows], np.nan))
    _warn_of_few(sum(map(len, kept)), sum(map(len, route.recordings)), route.rule)
    _warn_of_ways_back(ways)
    _warn_of_between(np.concatenate(beside), sum(map(len, route.recordings)), places, route.rule)
    return replace(route, recordings=kept).manifest(labels, frames)


def _warn_of_elsewhere(name: str, points: Numbers, places: Numbers, rule: Rule) -> None:
    """Warn of a recording that shows none of the places."""
    known, usable = (track[np.isfinite(track).all(axis=1)] for track in (points, places))
    if not len(known) or not len(usable):
        where = "their positions are not known"
    elif (nearest := _nearest(known, usable)) > rule.radius:
        where = f"the nearest was taken {nearest:,.0f} m away"
        if nearest < _OFF_BY_GPS:
            where += ", as GPS may be off: displace manifest --radius takes it, or --layout sight goes by the images"
    else:
        where = f"those near one are headed otherwise (by more than {rule.max_heading:g}°)"
    warnings.warn(
        f"no image of {name!r} shows one of the places within {rule.radius:g} m: {where}",
        RouteWarning,
        stacklevel=3,
    )


def _warn_of_ways_back(ways: Numbers) -> None:
    """Warn of places that recordings pass in opposite directions; `ways`: courses of recordings at places, degrees."""
    both = np.isfinite(ways).sum(axis=0) > 1
    passed = ways[:, both]
    first = np.take_along_axis(passed, np.isfinite(passed).argmax(axis=0)[None], axis=0)
    back = int((heading_difference(passed, first) > _BACK).any(axis=0).sum())
    if back > _FEW * passed.shape[1]:
        warnings.warn(
            f"{back:,} of {passed.shape[1]:,} places are passed in opposite directions, where a camera that looks "
            "ahead sees other places. Add a column 'heading' to the positions, or a recording for each direction",
            RouteWarning,
            stacklevel=4,
        )


def _warn_of_between(beside: Numbers, n_images: int, places: Numbers, rule: Rule) -> None:
    """Warn where the images of the anchor are so far apart that others between them count as off the route."""
    from scipy.spatial import KDTree

    beside, usable = (points[np.isfinite(points).all(axis=1)] for points in (beside, places))
    if not len(beside) or len(usable) < 2:
        return
    tree = KDTree(usable)
    apart, away = float(np.median(tree.query(usable, 2)[0][:, 1])), tree.query(beside)[0]
    between = away[(away > max(rule.radius, rule.spacing)) & (away < apart)]
    if len(between) > _BETWEEN * n_images:
        warnings.warn(
            f"{len(between):,} of {n_images:,} images lie between places, which are {apart:.0f} m apart, and farther "
            f"than {max(rule.radius, rule.spacing):g} m from each: they count as off the route, without a place. "
            f"displace manifest --radius {np.ceil(between.max()):.0f} takes them",
            RouteWarning,
            stacklevel=4,
        )


def _nearest(points: Numbers, places: Numbers) -> float:
    """Distance of the point that is nearest to a place."""
    from scipy.spatial import KDTree

    return float(KDTree(places).query(points)[0].min())


def _warn_of_few(n_kept: int, n_images: int, rule: Rule) -> None:
    """Warn where the default leaves most images out: of a slow drive, or one of many frames a second."""
    if rule.spacing == Rule.spacing and 2 * n_kept < n_images:
        warnings.warn(
            f"kept {n_kept:,} of {n_images:,} images: for each recording the one nearest to a place, with a place "
            f"every {rule.spacing:g} m of the route. A smaller --spacing makes more places and keeps more images",
            RouteWarning,
            stacklevel=3,
        )


def track_of(recording: Recording) -> Positions:
    """Positions of a recording, which must have some."""
    if recording.positions is None:
        raise ManifestError(
            f"traversal {recording.name!r} has no positions: put {recording.name}.csv (timestamp or image, "
            "easting, northing or latitude, longitude) beside its folder; GPS in EXIF is used if at least half of "
            "the images have it"
        )
    return recording.positions


def joined(manifests: Sequence[Manifest]) -> Manifest:
    """Rows of several manifests with one root, one after the other."""
    return Manifest(
        images=[image for m in manifests for image in m.images],
        places=[place for m in manifests for place in m.places.tolist()],
        traversals=[name for m in manifests for name in m.traversals.tolist()],
        root=manifests[0].root,
        **_columns([(len(m), m.numbers) for m in manifests]),
    )


def numbered(n: int) -> list[str]:
    """Place ids that sort in route order: 0000, 0001, …."""
    width = max(4, len(str(n - 1)))
    return [f"{i:0{width}d}" for i in range(n)]


def _number_columns(recordings: Sequence[Recording]) -> dict[str, Numbers]:
    """Positions, headings and times of all recordings under the manifest's column names, NaN where unknown."""
    parts = []
    for r in recordings:
        columns = {} if r.positions is None else r.positions.columns()
        parts.append((len(r), columns if r.times is None else {**columns, "timestamp": r.times}))
    return _columns(parts)


def _columns(parts: Sequence[tuple[int, dict[str, Numbers]]]) -> dict[str, Numbers]:
    """Columns of several tables, each with its number of rows, one below the other; NaN where one has none."""
    names = dict.fromkeys(name for _, columns in parts for name in columns)
    return {
        name: np.concatenate([columns.get(name, np.full(n, np.nan)) for n, columns in parts])
        for name in names
    }


def _posix(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder.replace(os.sep, '/')}/{name}"
