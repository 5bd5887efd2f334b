"""One picture's scene: where the camera is, what it can see, and what passes by just then."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from displace.datasets.town import houses, plants, props
from displace.datasets.town.ground import View, ground
from displace.datasets.town.looks import Look
from displace.datasets.town.lots import near, plan
from displace.datasets.town.plan import Point, Street, StreetPlan, chainage_of, pose_at, street_at
from displace.datasets.town.randomness import stream
from displace.datasets.town.raster import LEAVES, VEHICLE, WALL, Quad, Vector

_SIGHT = 130.0


@dataclass(frozen=True)
class Pose:
    """Where a picture was taken: metres and radians; `street` and `chainage` locate it on the route."""

    easting: float
    northing: float
    height: float
    heading: float
    pitch: float
    roll: float
    street: Street
    chainage: float


@dataclass(frozen=True)
class Scene:
    """Quads, and what the light needs to know besides."""

    pose: Pose
    plans: Sequence[StreetPlan]
    quads: list[Quad]
    vehicles: list[tuple[str, Point, float]]


def pose(seed: int, place: float, look: Look, turn: float = 0.0, lane: float = 0.0) -> Pose:
    """Pose of the camera: no two traversals keep the same line, stop at the same metre or look quite the same way.

    `turn` is in degrees right of the way ahead, `lane` in metres right of the usual line.
    """
    rng = stream(seed, "pose", int(place), look.name)
    chainage = float(chainage_of(seed, place) + np.clip(rng.normal(0, 0.7), -1.6, 1.6))
    x, y, heading = pose_at(seed, chainage)
    street = street_at(seed, chainage)
    # Never nearer to the kerb than a parked car allows.
    free = street.district.road / 2 - 1.9
    lateral = min(
        free, 0.16 * street.district.road + look.lateral + lane + float(np.clip(rng.normal(0, 0.4), -1, 1))
    )
    yaw, pitch, roll = rng.normal(0, (2.6, 1.0, 0.9)).clip(-6, 6) * math.pi / 180
    return Pose(
        easting=x + lateral * math.cos(heading),
        northing=y - lateral * math.sin(heading),
        height=look.height + float(rng.normal(0, 0.04)),
        heading=heading + float(yaw) + math.radians(turn),
        pitch=float(pitch) + math.radians(2.0),
        roll=float(roll),
        street=street,
        chainage=chainage,
    )


def compose(seed: int, place: float, look: Look, turn: float = 0.0, lane: float = 0.0) -> Scene:
    """Gather everything that stands or moves before the camera."""
    at = pose(seed, place, look, turn, lane)
    plans = near(seed, at.street)
    quads: list[Quad] = []
    vehicles: list[tuple[str, Point, float]] = []
    for view in (
        View((at.easting, at.northing), at.heading, 0.5, 22.0, 16.5, 14.0),
        View((at.easting, at.northing), at.heading, 21.9, 110.0, 40.0, 4.0),
    ):
        quads.append(view.quad((ground, (view, seed, at.street, look))))
    for street_plan in plans:
        quads += _seen(at, *_fixed(seed, street_plan.street.index, look))
        vehicles += _parked(seed, street_plan.street.index, look)
    quads += _standing(at, plans, look)
    quads += _people(seed, place, at, look)
    for vehicle in _moving(seed, place, at, look):
        quads += _vehicle(vehicle, look, moving=True)
        vehicles.append(vehicle)
    return Scene(at, plans, quads, vehicles)


def _vehicle(vehicle: tuple[str, Point, float], look: Look, moving: bool) -> Iterator[Quad]:
    """Quads of a vehicle; where it stands decides its colour."""
    kind, point, heading = vehicle
    paint = props.PAINTS[int(abs(point[0] * 7 + point[1] * 13)) % len(props.PAINTS)]
    return houses.vehicle(kind, paint, point, heading, look, moving)


@lru_cache(maxsize=64)
def _fixed(seed: int, index: int, look: Look) -> tuple[list[Quad], NDArray[np.float64]]:
    """Houses, borders and parked vehicles of one street, and both ends (n, 2, 2) of each quad."""
    street_plan = plan(seed, index)
    quads = [quad for building in street_plan.buildings for quad in houses.house(building, look)]
    for number, (start, end, height, kind) in enumerate(street_plan.hedges):
        quads += houses.border((start, end), height, kind, number, look)
    for vehicle in _parked(seed, index, look):
        quads += _vehicle(vehicle, look, moving=False)
    corners, edges = (np.array(part)[:, :2] for part in zip(*((q.corner, q.u) for q in quads), strict=True))
    return quads, np.stack([corners, corners + edges], axis=1)


def _seen(at: Pose, quads: list[Quad], ends: NDArray[np.float64]) -> list[Quad]:
    """Quads of which an end lies before the camera, in sight and within its angle (with a margin)."""
    away = ends - (at.easting, at.northing)
    ahead = away @ (math.sin(at.heading), math.cos(at.heading))
    aside = abs(away @ (math.cos(at.heading), -math.sin(at.heading)))
    near = (ahead > -30) & (ahead < _SIGHT) & (aside < 25 + 1.1 * ahead.clip(0))
    return [quads[i] for i in np.flatnonzero(near.any(axis=1))]


def _in_sight(at: Pose, point: Point, far: float = _SIGHT) -> bool:
    """Whether a point lies before the camera and not too far off."""
    dx, dy = point[0] - at.easting, point[1] - at.northing
    ahead = dx * math.sin(at.heading) + dy * math.cos(at.heading)
    return -3 < ahead < far and abs(dx * math.cos(at.heading) - dy * math.sin(at.heading)) < 9 + ahead


def _billboard(at: Pose, point: Point, width: float, height: float) -> tuple[Vector, Vector]:
    """Upper left corner and right-pointing edge of an upright quad that faces the camera."""
    c, s = math.cos(at.heading), math.sin(at.heading)
    corner = (point[0] - width / 2 * c, point[1] + width / 2 * s, height)
    return corner, (width * c, -width * s, 0.0)


def _standing(at: Pose, plans: Sequence[StreetPlan], look: Look) -> Iterator[Quad]:
    """Trees, lamps and signs."""
    for street_plan in plans:
        for tree in street_plan.trees:
            if _in_sight(at, tree.at):
                corner, u = _billboard(at, tree.at, 2.2 * tree.crown, tree.height)
                yield Quad(
                    (plants.tree, (tree.variant, look.leaves)), corner, u, (0, 0, -tree.height), LEAVES, True
                )
        right = street_plan.street.right
        for point, side in street_plan.lamps:
            if _in_sight(at, point):
                shift = -1.8 if side > 0 else -0.2
                corner = (point[0] + shift * right[0], point[1] + shift * right[1], 7.2)
                paint = (props.lamp, (look.lit > 0.2, side > 0))
                yield Quad(paint, corner, (2 * right[0], 2 * right[1], 0.0), (0, 0, -7.2), VEHICLE, True)
        for point, variant in street_plan.signs:
            if _in_sight(at, point, 80):
                corner, u = _billboard(at, point, 0.8, 2.9)
                yield Quad((props.sign, (variant,)), corner, u, (0, 0, -2.9), VEHICLE, True)


@lru_cache(maxsize=64)
def _parked(seed: int, index: int, look: Look) -> list[tuple[str, Point, float]]:
    """Vehicles along both kerbs."""
    street = plan(seed, index).street
    rng = stream(seed, "parked", index, look.name)
    found = []
    for side in (-1, 1):
        lateral = side * (street.district.road / 2 - 0.45)
        begin, end = street.frontage(side, abs(lateral))
        for along in np.arange(begin + 5, end - 5, 6.2):
            taken, shift, kind = rng.random(), rng.normal(0, 0.3), rng.random()
            if taken < look.parked * (0.55 if street.district.road < 6.5 else 1.0):
                name = "van" if kind < 0.12 else "saloon" if kind < 0.45 else "hatchback"
                point = street.point(float(along + shift), lateral + float(rng.normal(0, 0.06)))
                found.append((name, point, street.heading + (math.pi if side < 0 else 0.0)))
    return found


def _moving(seed: int, place: float, at: Pose, look: Look) -> list[tuple[str, Point, float]]:
    """Vehicle ahead in the same lane and one that comes towards the camera; far away when the lane is free."""
    rng = stream(seed, "traffic", place, look.name)
    found = []
    for side, least in ((1, 7.0), (-1, 4.0)):
        present, kind, gap = rng.random() < look.traffic, rng.random(), rng.uniform(least, least + 32)
        chainage = at.chainage + (float(gap) if present else 400.0)
        street = street_at(seed, chainage)
        name = "bus" if kind < 0.14 else "van" if kind < 0.34 else "saloon" if kind < 0.65 else "hatchback"
        ahead = chainage - street.chainage + props.VEHICLES[name].length / 2
        point = street.point(ahead, side * street.district.road * 0.22 + float(rng.normal(0, 0.15)))
        found.append((name, point, street.heading + (math.pi if side < 0 else 0.0)))
    return found


def _people(seed: int, place: float, at: Pose, look: Look) -> Iterator[Quad]:
    """People on the pavements, now and then on the road."""
    rng = stream(seed, "people", place, look.name)
    for _ in range(int(rng.poisson(look.people))):
        chainage = at.chainage + float(rng.uniform(5, 40))
        street = street_at(seed, chainage)
        district = street.district
        lateral = float(rng.choice([-1, 1])) * (
            district.road / 2 + float(rng.uniform(0.6, district.pavement))
        )
        if rng.random() < 0.1:
            lateral = float(rng.uniform(-0.4, 0.4)) * district.road
        point = street.point(chainage - street.chainage, lateral)
        corner, u = _billboard(at, point, 0.9, 2.2)
        paint = (props.person, (int(rng.integers(24)), look.rain > 0, look.leaves != "green"))
        yield Quad(paint, corner, u, (0, 0, -2.2), WALL, True)
