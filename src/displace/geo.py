"""Positions: metres or degrees, headings, a local projection, and interpolation in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from displace.errors import InputError

Numbers = NDArray[np.float64]

# WGS 84
EQUATOR_RADIUS = 6378137.0
_ECCENTRICITY2 = 6.69437999014e-3
_STANDS, _UNSTEADY = 1.0, 0.1
"""Metres below which a track counts as standing, and the share of points at which a real track may turn back."""


@dataclass(frozen=True, eq=False)
class Positions:
    """Where images were taken."""

    points: Numbers
    """Shape (m, 2). Easting and northing in metres, or latitude and longitude in degrees; NaN where unknown."""
    degrees: bool = False
    """Whether `points` are latitude and longitude."""
    heading: Numbers | None = None
    """Shape (m,). Degrees clockwise from north, NaN where unknown."""

    def __post_init__(self) -> None:
        points = as_numbers(self.points, "points")
        if points.ndim != 2 or points.shape[1] != 2:
            raise InputError(
                f"points must have shape (m, 2), such as [[51.752, -1.258], …]; got shape {points.shape}"
            )
        object.__setattr__(self, "points", points)
        if self.heading is not None:
            heading = as_numbers(self.heading, "heading")
            if heading.shape != (len(points),):
                raise InputError(
                    f"heading must have shape ({len(points)},), one for each point; got {heading.shape}"
                )
            object.__setattr__(self, "heading", heading)

    @classmethod
    def of(cls, columns: Mapping[str, Numbers]) -> Positions | None:
        """Take positions from named columns; None if no row has a complete pair.

        With both metres and degrees, the pair that more rows have is used (metres in a tie).
        """
        best: Positions | None = None
        for pair, degrees in ((("easting", "northing"), False), (("latitude", "longitude"), True)):
            if not all(name in columns for name in pair):
                continue
            points = np.column_stack([columns[name] for name in pair]).astype(np.float64)
            candidate = cls(points, degrees, columns.get("heading"))
            if candidate.known.sum() > (best.known.sum() if best else 0):
                best = candidate
        return best

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.points)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which rows have a position."""
        known: NDArray[np.bool_] = np.isfinite(self.points.sum(axis=1))
        return known

    @property
    def origin(self) -> tuple[float, float]:
        """Mean of the known points."""
        points = self.points[self.known]
        if self.degrees:
            points[:, 1] = longitudes_near(points[:, 1], points[:1, 1])
        mean = points.mean(axis=0)
        return float(mean[0]), float(longitudes_near(mean[1], 0.0) if self.degrees else mean[1])

    def metres(self, origin: tuple[float, float] | None = None) -> Numbers:
        """Points in metres; degrees are projected around `origin` (by default their own mean)."""
        if not self.degrees:
            return self.points
        return local_metres(self.points, origin or self.origin)

    def in_space(self) -> Numbers:
        """Points whose straight distances are metres wherever on earth they are: (m, 3) of degrees, else (m, 2).

        On a plane, distances a thousand kilometres north of its origin would be a fifth too long.
        """
        if not self.degrees:
            return self.points
        latitude, longitude = np.radians(self.points).T
        radius = EQUATOR_RADIUS / np.sqrt(1 - _ECCENTRICITY2 * np.sin(latitude) ** 2)
        from_axis = radius * np.cos(latitude)
        up = radius * (1 - _ECCENTRICITY2) * np.sin(latitude)
        return np.column_stack([from_axis * np.cos(longitude), from_axis * np.sin(longitude), up])

    def columns(self) -> dict[str, Numbers]:
        """Named columns, the opposite of `of`."""
        names = ("latitude", "longitude") if self.degrees else ("easting", "northing")
        columns = dict(zip(names, self.points.T, strict=True))
        return columns if self.heading is None else {**columns, "heading": self.heading}

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Positions:
        """Return some of the rows."""
        heading = None if self.heading is None else self.heading[rows]
        return Positions(self.points[rows], self.degrees, heading)


@dataclass(frozen=True)
class Area:
    """A circle to search in, of metres around latitude and longitude, or easting and northing, as positions are.

    >>> positions = Positions(np.array([[0.0, 0.0], [30.0, 40.0], [np.nan, np.nan]]))
    >>> Area((0.0, 0.0), 50.0).inside(positions)
    array([0, 1])
    """

    near: tuple[float, float]
    radius: float

    def __post_init__(self) -> None:
        try:
            first, second = map(float, self.near)
            radius = float(self.radius)
        except (TypeError, ValueError):
            raise InputError(
                f"near={self.near!r} and radius={self.radius!r} must be two numbers, such as (51.752, -1.258), and one "
                "of metres"
            ) from None
        if not np.isfinite([first, second]).all():
            raise InputError(
                f"near={self.near!r} must be two numbers: latitude, longitude or easting, northing"
            )
        if not 0 < radius < np.inf:
            raise InputError(f"radius={radius!r} must be a number of metres above 0")
        object.__setattr__(self, "near", (first, second))
        object.__setattr__(self, "radius", radius)

    def inside(self, positions: Positions) -> NDArray[np.intp]:
        """Rows of `positions` inside the area; unknown positions are not."""
        self.check(positions.degrees)
        away = positions.metres(self.near) - (0.0 if positions.degrees else np.asarray(self.near))
        return np.flatnonzero(np.hypot(away[:, 0], away[:, 1]) <= self.radius)

    def check(self, degrees: bool) -> None:
        """Raise an error if positions are in degrees and the centre is not a latitude and a longitude."""
        if degrees and not (abs(self.near[0]) <= 90 and abs(self.near[1]) <= 360):
            raise InputError(
                f"near={self.near!r} is no latitude, longitude, which is what the places' positions are"
            )


def as_numbers(values: ArrayLike, name: str) -> Numbers:
    """Numbers of any kind, NaN where unknown, as float64."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers, NaN where unknown: {error}") from None


def local_metres(degrees: Numbers, origin: tuple[float, float]) -> Numbers:
    """Project latitudes and longitudes, shape (m, 2), to metres east and north of `origin`.

    An equirectangular projection with the ellipsoid's radii at the origin: near it distances are right to
    0.1 %, and 10 km north of it still to about 0.3 %, which is what choosing the nearest image needs.

    >>> local_metres(np.array([[60.0, 10.001]]), (60.0, 10.0)).round(1)
    array([[55.8,  0. ]])
    """
    east_radius, north_radius = radii_at(origin[0])
    north, east = np.radians(degrees - np.asarray(origin)).T
    east = (east + np.pi) % (2 * np.pi) - np.pi  # the short way across the date line
    return np.column_stack([east * east_radius, north * north_radius])


def longitudes_near(longitudes: ArrayLike, start: ArrayLike) -> Numbers:
    """Longitudes moved by whole turns to within half a turn of `start`, so that their mean lies between them.

    Those of one side of the date line stay as they are, to the last bit.

    >>> longitudes_near([179.0, -179.0], 179.0)
    array([179., 181.])
    """
    values = np.asarray(longitudes, np.float64)
    near: Numbers = values - 360 * np.round((values - np.asarray(start)) / 360)
    return near


def radii_at(latitude: float) -> tuple[float, float]:
    """Metres of one radian eastwards and northwards on the ellipsoid, at a latitude in degrees."""
    angle = np.radians(latitude)
    bend = 1 - _ECCENTRICITY2 * np.sin(angle) ** 2
    east_radius = EQUATOR_RADIUS / np.sqrt(bend) * np.cos(angle)
    return float(east_radius), float(EQUATOR_RADIUS * (1 - _ECCENTRICITY2) / bend**1.5)


def heading_difference(a: ArrayLike, b: ArrayLike) -> Numbers:
    """Smallest angle between headings in degrees, 0 to 180; NaN where one is unknown.

    >>> heading_difference([350.0], [10.0])
    array([20.])
    """
    return np.abs((np.asarray(a, np.float64) - np.asarray(b, np.float64) + 180) % 360 - 180)


def courses(points: Numbers) -> Numbers:
    """Direction of a track at each of its points (m, 2), in degrees; NaN where it stands still.

    NaN everywhere if the points do not form a track, like photos in any order.

    >>> courses(np.array([[0.0, 0], [0, 5], [0, 10], [5, 10], [10, 10]]))
    array([nan,  0., 45., 90., nan])
    """
    found = np.full(len(points), np.nan)
    known = np.flatnonzero(np.isfinite(points).all(axis=1))
    step = points[known[2:]] - points[known[:-2]]
    away = np.hypot(step[:, 0], step[:, 1])
    found[known[1:-1]] = np.where(
        away > _STANDS, np.degrees(np.arctan2(step[:, 0], step[:, 1])) % 360, np.nan
    )
    turns = heading_difference(found[known[1:-2]], found[known[2:-1]])
    turns = turns[np.isfinite(turns)]
    return found if len(turns) and np.mean(turns > 90) <= _UNSTEADY else np.full(len(points), np.nan)


def as_seconds(times: ArrayLike) -> Numbers:
    """Time stamps in seconds. Those since 1970 may be given in s, ms, µs or ns: the unit is inferred from their size.

    >>> as_seconds([1418381798086398])
    array([1.4183818e+09])
    """
    seconds = np.asarray(times, np.float64)
    if np.isinf(seconds).any():
        raise InputError("a time stamp is infinite; leave it blank where it is not known")
    largest = np.nanmax(np.abs(seconds), initial=0.0)
    while largest > 1e11:
        seconds, largest = seconds / 1000, largest / 1000
    return seconds


def at_times(track: Positions, track_times: Numbers, times: Numbers, max_gap: float = 2.0) -> Positions:
    """Positions at `times`, on the straight line between the fixes before and after; in seconds on one clock.

    A time farther than `max_gap` seconds from the nearest fix has no position (NaN). Before the first fix and after the
    last, where nothing tells how it went on, the position is theirs for as long as fixes are usually apart (the
    median), if that is less.
    """
    usable = track.known & np.isfinite(track_times)
    order = np.flatnonzero(usable)[np.argsort(track_times[usable], kind="stable")]
    if not len(order):
        raise InputError("no position with a time stamp among the fixes")
    fixes, clock = track.take(order), track_times[order]
    after = np.clip(np.searchsorted(clock, times), 0, len(clock) - 1)
    before = np.maximum(after - 1, 0)
    gap = np.minimum(np.abs(clock[after] - times), np.abs(times - clock[before]))
    beyond = (times < clock[0]) | (times > clock[-1])
    usual = float(np.median(np.diff(clock))) if len(clock) > 1 else max_gap
    near = gap <= np.where(beyond, min(usual, max_gap), max_gap)
    points = fixes.points.copy()
    if track.degrees:
        points[:, 1] = np.unwrap(points[:, 1], period=360)
    found = np.column_stack([np.interp(times, clock, column) for column in points.T])
    found[~near] = np.nan
    if track.degrees:
        found[:, 1] = longitudes_near(found[:, 1], 0.0)
    heading = None
    if fixes.heading is not None:
        nearer = np.where(np.abs(clock[after] - times) < np.abs(times - clock[before]), after, before)
        heading = np.where(near, fixes.heading[nearer], np.nan)
    return Positions(found, track.degrees, heading)
