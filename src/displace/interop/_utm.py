"""Easting and northing to latitude and longitude: the inverse transverse Mercator projection.

Krüger's series in the third flattening n up to n⁴, as in C. F. F. Karney, "Transverse Mercator with an accuracy of a
few nanometers", 2011; inside a UTM zone it is right to far less than a millimetre.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from displace.errors import InputError
from displace.geo import EQUATOR_RADIUS, Numbers, Positions

FLATTENING = 1 / 298.257223563
SCALE, FALSE_EASTING, FALSE_NORTHING = 0.9996, 500_000.0, 10_000_000.0
EASTINGS, NORTHINGS = (100_000.0, 900_000.0), (0.0, 10_000_000.0)
"""Ranges of the coordinates in a UTM zone, metres."""

_GRIDS = {"326": (1, 60, False), "327": (1, 60, True), "258": (28, 38, False)}
"""First digits of the EPSG code: first zone, last zone, southern hemisphere."""


@dataclass(frozen=True)
class Zone:
    """A UTM zone."""

    number: int
    """1 to 60, from the date line eastwards."""
    south: bool = False
    """Whether it lies on the southern hemisphere."""

    @classmethod
    def parse(cls, crs: str) -> Zone:
        """Read the name of a coordinate system.

        >>> Zone.parse("EPSG:32630")
        Zone(number=30, south=False)
        """
        match = re.fullmatch(r"\s*(?:epsg:)?(\d{3})(\d{2})\s*", crs, re.IGNORECASE)
        first, last, south = _GRIDS.get(match[1], (1, 0, False)) if match else (1, 0, False)
        if match is None or not first <= int(match[2]) <= last:
            raise InputError(
                f"crs={crs!r} is not known; give a UTM zone: EPSG:326zz (zone zz, northern hemisphere), EPSG:327zz "
                "(southern) or EPSG:258zz (ETRS89, zones 28 to 38), such as EPSG:32630 for Oxford"
            )
        return cls(int(match[2]), south)

    def to_degrees(self, points: Numbers) -> Numbers:
        """Latitudes and longitudes, (m, 2), of eastings and northings, (m, 2); NaN stays NaN.

        >>> Zone(31).to_degrees(np.array([[448251.795, 5411932.678]])).round(6)
        array([[48.8582,  2.2945]])
        """
        _check_range(points)
        n = FLATTENING / (2 - FLATTENING)
        radius = EQUATOR_RADIUS / (1 + n) * (1 + n**2 / 4 + n**4 / 64)
        east, north = (points - (FALSE_EASTING, FALSE_NORTHING * self.south)).T / (SCALE * radius)
        series = (
            n / 2 - 2 / 3 * n**2 + 37 / 96 * n**3 - 1 / 360 * n**4,
            1 / 48 * n**2 + 1 / 15 * n**3 - 437 / 1440 * n**4,
            17 / 480 * n**3 - 37 / 840 * n**4,
            4397 / 161280 * n**4,
        )
        z = north + 1j * east  # real and imaginary part of one complex sine series are Karney's two sums
        z = z - sum(b * np.sin(2 * j * z) for j, b in enumerate(series, start=1))
        xi, eta = z.real, z.imag
        isometric = np.arcsinh(np.sin(xi) / np.hypot(np.sinh(eta), np.cos(xi)))
        longitude = 6 * self.number - 183 + np.degrees(np.arctan2(np.sinh(eta), np.cos(xi)))
        return np.column_stack([np.degrees(_latitude(isometric)), (longitude + 180) % 360 - 180])


def as_degrees(positions: Positions, crs: str | None) -> Numbers:
    """Latitudes and longitudes, (m, 2), of positions; those in metres need `crs`, the name of their UTM zone."""
    if positions.degrees:
        return positions.points
    if crs is None:
        raise InputError(
            "the positions are easting and northing in metres, and latitude and longitude are needed: "
            "say which UTM zone they are in, with --crs (in Python crs=; EPSG:32630 is zone 30 north), or write CSV "
            "without it"
        )
    return Zone.parse(crs).to_degrees(positions.points)


def _latitude(isometric: Numbers) -> Numbers:
    """Latitude (radians) of an isometric latitude; each iteration gains at least two digits."""
    e = np.sqrt(FLATTENING * (2 - FLATTENING))
    sine = np.tanh(isometric)
    for _ in range(8):
        sine = np.tanh(isometric + e * np.arctanh(e * sine))
    return np.arcsin(sine)


def _check_range(points: Numbers) -> None:
    """Refuse coordinates outside any UTM zone, such as those of a local system."""
    for name, values, (low, high) in zip(
        ("easting", "northing"), points.T, (EASTINGS, NORTHINGS), strict=True
    ):
        wrong = values[(values < low) | (values > high)]
        if len(wrong):
            raise InputError(
                f"{name} {wrong[0]:.10g} is outside {low:.0f} … {high:.0f} m, as UTM has it ({len(wrong)} such "
                "values): the positions are in another system; convert them, or write CSV without crs"
            )
