"""Assigns images to places: new ones along an anchor traversal, by position, or places that exist already."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from displace.errors import InputError, ManifestError
from displace.geo import Numbers, Positions, heading_difference, longitudes_near
from displace.manifest.table import Manifest
from displace.places import Places

Rows = NDArray[np.intp]

CHOSEN, NEAR, OFF_ROUTE = 1, 0, -1
"""State of an image: it stands for a place; it lies near one that has a nearer image; it is near none."""


@dataclass(frozen=True)
class Rule:
    """When an image shows a place."""

    spacing: float = 5.0
    """Metres between places along the anchor traversal."""
    radius: float = 10.0
    """An image farther than this many metres from a place does not show it."""
    max_heading: float = 45.0
    """Nor does one whose heading differs by more degrees, where both headings are known."""

    def __post_init__(self) -> None:
        for name in ("spacing", "radius", "max_heading"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}={getattr(self, name)} must be positive")


@dataclass(frozen=True, eq=False)
class KnownPlaces:
    """Places that exist already, for a new recording to be assigned to."""

    ids: list[str]
    """The places, in route order."""
    positions: Positions | None = None
    """One for each place."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Image name without folder and ending, and the place it shows."""

    @classmethod
    def of(cls, manifest: Manifest) -> KnownPlaces:
        """Take the places of a manifest; a place's position is the mean of its images'.

        They are in the order of their smallest frame numbers; those without one last, in order of appearance.
        """
        ids, places = manifest.place_ids(), places_of(manifest)
        if places.frames is not None:
            numbers = np.where(np.isnan(places.frames), np.inf, places.frames)
            ids.sort(key=dict(zip(places.ids.tolist(), numbers.tolist(), strict=True)).__getitem__)
        positions = places.positions_of(np.array(ids, dtype=np.str_))
        return cls(ids, positions, place_of_each_name(manifest.images, manifest.places.tolist()))


def places_of(manifest: Manifest) -> Places:
    """Return the places of a manifest in the order of their ids.

    A place's position is the mean of its images', its image the first one, its number along the route its images'
    smallest frame number.
    """
    named = np.flatnonzero(manifest.places != "")
    ids, first, rows = np.unique(manifest.places[named], return_index=True, return_inverse=True)
    geo, frames = manifest.geo, None
    positions = None if geo is None else mean_positions(geo.take(named), rows, len(ids))
    if manifest.frame is not None:
        frames = np.full(len(ids), np.inf)
        np.fmin.at(frames, rows, manifest.frame[named])
        frames[np.isinf(frames)] = np.nan
    return Places(ids, positions, [manifest.images[row] for row in named[first]], frames)


def metres_from_place(manifest: Manifest) -> Numbers:
    """Distance of each image's position from that of its place; NaN where one of them is not known."""
    away, geo, places = np.full(len(manifest), np.nan), manifest.geo, places_of(manifest)
    if geo is None or places.positions is None:
        return away
    shows = manifest.places != ""
    at = places.positions.in_space()[np.searchsorted(places.ids, manifest.places[shows])]
    away[shows] = np.linalg.norm(geo.in_space()[shows] - at, axis=1)
    return away


def place_of_each_name(images: Iterable[str], places: Iterable[str]) -> dict[str, str]:
    """Place by the name of its image, without folder and ending; blank for a name that shows two places.

    >>> place_of_each_name(["sun/a.jpg", "sun/b.jpg", "rain/b.jpg"], ["0", "1", "2"])
    {'a': '0', 'b': ''}
    """
    names: dict[str, str] = {}
    for image, place in zip(images, places, strict=True):
        stem = image.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        names[stem] = place if names.get(stem, place) == place else ""
    return names


def metres_together(tracks: Sequence[Positions]) -> list[Numbers]:
    """Positions of several tracks in metres in one frame."""
    if len({track.degrees for track in tracks}) > 1:
        raise ManifestError(
            "some positions are latitude and longitude, others easting and northing; convert one of the two"
        )
    every = Positions(np.concatenate([track.points for track in tracks]), tracks[0].degrees)
    if not every.known.any():
        raise ManifestError("no image has a position")
    return [track.metres(every.origin) for track in tracks]


def space_places(points: Numbers, heading: Numbers | None, rule: Rule) -> Rows:
    """Rows of a track that become places: each at least `spacing` from every earlier one.

    Comparing with every earlier place, not only the last, keeps a standing car or a second lap from
    making the same place twice; where headings are known, the opposite direction is another place.
    """
    cells: dict[tuple[int, int], list[int]] = defaultdict(list)
    chosen: list[int] = []
    for row in np.flatnonzero(np.isfinite(points).all(axis=1)).tolist():
        i, j = (int(v) for v in np.floor(points[row] / rule.spacing))
        near = [k for a in (i - 1, i, i + 1) for b in (j - 1, j, j + 1) for k in cells.get((a, b), ())]
        apart = np.hypot(*(points[near] - points[row]).T) >= rule.spacing
        if heading is not None:
            apart |= heading_difference(heading[near], heading[row]) > rule.max_heading
        if apart.all():
            chosen.append(row)
            cells[i, j].append(row)
    return np.array(chosen, np.intp)


def match_places(
    places: Numbers,
    places_heading: Numbers | None,
    points: Numbers,
    heading: Numbers | None,
    rule: Rule,
) -> tuple[Rows, Rows]:
    """Give each place its nearest image of one traversal, and each image at most one place.

    The closest pair is settled first, then the next, as long as both are free. Returns the row of the place that each
    image stands for (−1 for none), and CHOSEN, NEAR or OFF_ROUTE: farther than both `radius` and `spacing` from every
    place, or in no such place's direction.
    """
    place, state = np.full(len(points), -1, np.intp), np.full(len(points), OFF_ROUTE, np.intp)
    known = np.flatnonzero(np.isfinite(points).all(axis=1))
    usable = np.flatnonzero(np.isfinite(places).all(axis=1))
    if not len(known) or not len(usable):
        return place, state
    from scipy.spatial import KDTree  # which locating does without

    tree, images = KDTree(places[usable]), KDTree(points[known])
    pairs = tree.sparse_distance_matrix(images, max(rule.radius, rule.spacing), output_type="ndarray")
    rows, columns = usable[pairs["i"]], known[pairs["j"]]
    if heading is not None and places_heading is not None:
        # An unknown heading (NaN) compares false and so does not stand in the way.
        agree = ~(heading_difference(places_heading[rows], heading[columns]) > rule.max_heading)
        rows, columns, pairs = rows[agree], columns[agree], pairs[agree]
    state[columns] = NEAR
    taken = np.zeros(len(places), bool)
    for pair in np.lexsort((columns, rows, pairs["v"])):
        row, column = rows[pair], columns[pair]
        if pairs["v"][pair] > rule.radius:
            break
        if not taken[row] and state[column] != CHOSEN:
            taken[row], place[column], state[column] = True, row, CHOSEN
    return place, state


def choose_anchor(tracks: Sequence[Positions], points: Sequence[Numbers], rule: Rule) -> int:
    """Find the traversal whose places the traversals together show most often."""
    from scipy.spatial import KDTree

    trees = [KDTree(p[np.isfinite(p).all(axis=1)]) if np.isfinite(p).any() else None for p in points]
    seen = []
    for track, own in zip(tracks, points, strict=True):
        places = own[space_places(own, track.heading, rule)]
        total = 0
        for tree in trees:
            if tree is not None and len(places):
                total += int(np.isfinite(tree.query(places, distance_upper_bound=rule.radius)[0]).sum())
        seen.append(total)
    return int(np.argmax(seen))


def mean_positions(geo: Positions, rows: Rows, n: int) -> Positions:
    """Mean position and heading of each place; `rows` says which place each position belongs to."""
    points, headings = np.full((n, 2), np.nan), None
    given, own = geo.points[geo.known], rows[geo.known]
    counts = np.bincount(own, minlength=n)
    some = counts > 0
    if geo.degrees:
        _, first, place = np.unique(own, return_index=True, return_inverse=True)
        given[:, 1] = longitudes_near(given[:, 1], given[first[place], 1])
    for axis in range(2):
        sums = np.bincount(own, weights=given[:, axis], minlength=n)
        points[some, axis] = sums[some] / counts[some]
    if geo.degrees:
        points[:, 1] = longitudes_near(points[:, 1], 0.0)
    if geo.heading is not None:
        with_heading = geo.known & np.isfinite(geo.heading)
        angle = np.radians(geo.heading[with_heading])
        east = np.bincount(rows[with_heading], weights=np.sin(angle), minlength=n)
        north = np.bincount(rows[with_heading], weights=np.cos(angle), minlength=n)
        headings = np.where(np.hypot(east, north) > 1e-9, np.degrees(np.arctan2(east, north)) % 360, np.nan)
    return Positions(points, geo.degrees, headings)
