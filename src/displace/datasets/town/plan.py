"""Plan of the town: the route, its streets, and what stands along them in every traversal.

Coordinates are metres east, north and up. Angles are clockwise from north, in radians. Everything here depends on
the seed alone; light, weather, leaves and traffic come later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from displace.datasets.town.randomness import stream
from displace.datasets.town.styles import DISTRICTS, District, HouseStyle

MAX_PLACES = 2000
SPACING = (5.5, 8.5)
"""Least and greatest distance between one place and the next along the route, in metres."""

_N_STREETS = 260
_SMOOTHING = np.linspace(-7.0, 7.0, 8)

Point = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Street:
    """Straight piece of road with buildings along both sides."""

    index: int
    start: Point
    heading: float
    length: float
    chainage: float
    district: District
    bends: Point = (0.0, 0.0)
    """Turns at the start and the end, radians, right positive."""

    @property
    def forward(self) -> Point:
        """Unit vector along the street."""
        return math.sin(self.heading), math.cos(self.heading)

    @property
    def right(self) -> Point:
        """Unit vector across the street."""
        return math.cos(self.heading), -math.sin(self.heading)

    def point(self, along: float, lateral: float) -> Point:
        """Position `along` metres from the start and `lateral` metres right of the middle."""
        (fx, fy), (rx, ry) = self.forward, self.right
        return self.start[0] + along * fx + lateral * rx, self.start[1] + along * fy + lateral * ry

    def frontage(self, side: int, lateral: float) -> Point:
        """From where to where along the street the line at `lateral` runs, mitred with the next streets."""
        begin = side * lateral * math.tan(self.bends[0] / 2)
        end = self.length - side * lateral * math.tan(self.bends[1] / 2)
        return begin, end


@dataclass(frozen=True, eq=False)
class Building:
    """Box with a roof. `corner` is the front's left end as seen from the street."""

    key: tuple[int | str, ...]
    style: HouseStyle
    corner: Point
    along: Point
    inward: Point
    width: float
    depth: float
    storeys: int
    wall: tuple[int, int, int]
    roof: tuple[int, int, int]
    accent: tuple[int, int, int]

    @property
    def eaves(self) -> float:
        """Height of the walls."""
        return 0.5 + self.style.ground_height + (self.storeys - 1) * self.style.storey_height

    @property
    def rise(self) -> float:
        """Height of the roof above the walls."""
        return {"eaves": 0.32 * self.depth, "gable": 0.45 * self.width, "mansard": 2.8, "flat": 0.0}[
            self.style.roof
        ]

    @cached_property
    def footprint(self) -> NDArray[np.float64]:
        """Corners, (4, 2)."""
        p, a, n = (np.array(v) for v in (self.corner, self.along, self.inward))
        return np.array([p, p + a * self.width, p + a * self.width + n * self.depth, p + n * self.depth])


@dataclass(frozen=True)
class Tree:
    """Tree with the number of its drawing."""

    at: Point
    height: float
    crown: float
    variant: int


@dataclass
class StreetPlan:
    """Everything fixed that belongs to one street."""

    street: Street
    buildings: list[Building] = field(default_factory=list)
    side_roads: list[tuple[Point, Point, float]] = field(default_factory=list)
    lawns: list[NDArray[np.float64]] = field(default_factory=list)
    hedges: list[tuple[Point, Point, float, str]] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    lamps: list[tuple[Point, int]] = field(default_factory=list)
    signs: list[tuple[Point, int]] = field(default_factory=list)


@lru_cache(maxsize=8)
def streets(seed: int) -> tuple[Street, ...]:
    """All streets of the route, in order.

    Headings stay within 65° of a main direction, so that the route never crosses itself.
    """
    rng = stream(seed, "route")
    main = rng.uniform(0, 2 * math.pi)
    offsets = [rng.uniform(-0.6, 0.6)]
    while len(offsets) < _N_STREETS + 1:
        offset = rng.uniform(-1.13, 1.13)
        if 0.3 < abs(offset - offsets[-1]) < 1.65:
            offsets.append(offset)
    headings = main + np.array(offsets)
    kinds: list[str] = []
    while len(kinds) < _N_STREETS:
        kinds += [str(name) for name in rng.permutation(sorted(DISTRICTS))]
    made: list[Street] = []
    start, chainage, bend = (0.0, 0.0), 0.0, 0.0
    for i in range(_N_STREETS):
        length = float(rng.uniform(75, 165))
        next_bend = float(headings[i + 1] - headings[i])
        street = Street(
            i, start, float(headings[i]), length, chainage, DISTRICTS[kinds[i]], (bend, next_bend)
        )
        made.append(street)
        start, chainage, bend = street.point(length, 0), chainage + length, next_bend
    return tuple(made)


@lru_cache(maxsize=8)
def chainages(seed: int) -> NDArray[np.float64]:
    """Distance of every place from the start of the route, (MAX_PLACES,)."""
    steps = stream(seed, "places").uniform(*SPACING, MAX_PLACES)
    result: NDArray[np.float64] = 15.0 + np.cumsum(steps) - steps[0]
    return result


def chainage_of(seed: int, place: float) -> float:
    """Distance of a place, or of a point between two, from the start of the route."""
    known, before = chainages(seed), int(place)
    beyond = place - before
    return float(known[before] + beyond * (known[before + 1] - known[before]) if beyond else known[before])


def street_at(seed: int, chainage: float) -> Street:
    """Return the street on which a point of the route lies."""
    starts = [street.chainage for street in streets(seed)]
    return streets(seed)[max(0, int(np.searchsorted(starts, chainage, side="right")) - 1)]


def pose_at(seed: int, chainage: float) -> tuple[float, float, float]:
    """Position and heading of a vehicle on the middle of the road, bends driven as curves."""
    points, headings = [], []
    for offset in _SMOOTHING:
        street = street_at(seed, chainage + offset)
        points.append(street.point(chainage + offset - street.chainage, 0))
        headings.append(street.heading)
    x, y = np.mean(points, axis=0)
    return float(x), float(y), float(np.mean(headings))
