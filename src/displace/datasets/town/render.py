"""One picture of the town, from its numbers alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from displace.datasets.town.lens import develop
from displace.datasets.town.light import illuminate
from displace.datasets.town.looks import LOOKS, Look
from displace.datasets.town.plan import MAX_PLACES
from displace.datasets.town.raster import Camera, rasterize
from displace.datasets.town.scene import compose, pose
from displace.errors import InputError
from displace.registry import check_known

SIZE = (320, 240)
_LEAST_SIZE, _GREATEST_SIZE = 32, 1600


def render(
    place: float,
    traversal: str,
    seed: int = 0,
    size: tuple[int, int] = SIZE,
    turn: float = 0.0,
    lane: float = 0.0,
) -> NDArray[np.uint8]:
    """Draw what the camera sees at one place in one traversal.

    Parameters
    ----------
    place : float
        Number of the place along the route, from 0; 12.5 lies half way between 12 and 13.
    traversal : str
        One of ``TRAVERSALS``.
    seed : int
        Another seed is another town.
    size : (width, height)
        Pixels.
    turn : float
        Degrees to the right of the way ahead.
    lane : float
        Metres to the right of the usual line; never nearer to the kerb than a parked car allows.

    Returns
    -------
    (height, width, 3) uint8 array
        RGB. The same arguments give the same pixels, whatever else was drawn before.

    Examples
    --------
    >>> render(12, "night", size=(64, 48)).shape
    (48, 64, 3)
    """
    look = look_named(traversal)
    place = check_place(place, seed)
    check_size(size)
    scene = compose(seed, place, look, turn, lane)
    at = scene.pose
    angle = math.radians(look.field_of_view)
    camera = Camera.place((at.easting, at.northing, at.height), at.heading, at.pitch, at.roll, angle, size)
    light = illuminate(scene, rasterize(camera, scene.quads), camera.rays(), look, seed, place)
    return develop(light, look, seed, place)


def position(
    place: float, traversal: str, seed: int = 0, turn: float = 0.0, lane: float = 0.0
) -> tuple[float, float, float]:
    """Easting and northing (metres) and heading (degrees clockwise from north) of a picture's camera."""
    place = check_place(place, seed)
    at = pose(seed, place, look_named(traversal), turn, lane)
    return at.easting, at.northing, math.degrees(at.heading) % 360


def look_named(traversal: str) -> Look:
    """Conditions of a traversal, or an error that names those there are."""
    check_known("traversal", [traversal], LOOKS)
    return LOOKS[traversal]


def check_place(place: float, seed: int) -> float:
    """Return the place, an int where it is whole; refuse one off the route, and a negative seed."""
    if not 0 <= place <= MAX_PLACES - 1:
        raise InputError(
            f"place={place} must be from 0 to {MAX_PLACES - 1}: the route has {MAX_PLACES} places"
        )
    if seed < 0:
        raise InputError(f"seed={seed} must not be negative")
    return int(place) if place == int(place) else float(place)


def check_size(size: tuple[int, int]) -> None:
    """Refuse a picture too small to show anything or too large for the drawings."""
    for name, value in zip(("width", "height"), size, strict=True):
        if not _LEAST_SIZE <= value <= _GREATEST_SIZE:
            raise InputError(f"size={size}: the {name} must be from {_LEAST_SIZE} to {_GREATEST_SIZE} pixels")
