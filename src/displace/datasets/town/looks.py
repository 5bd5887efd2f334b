"""The six traversals: season, hour and weather, and how each was driven."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from displace.datasets.town.styles import Colour

Light = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Look:
    """Conditions of one traversal. Light is linear; 1 makes a white surface just white at exposure 1."""

    name: str
    sun: tuple[float, float]
    """Azimuth, clockwise from north, and elevation, in degrees."""
    sunlight: Light
    skylight: Light
    """Light from the sun's direction, and from everywhere above."""
    zenith: Light
    horizon: Light
    """Colours of the sky, which is also what distance fades to (`haze`, per metre)."""
    clouds: float
    """0 clear to 1 closed."""
    haze: float
    leaves: str
    """State of the trees: names a painter of `plants`."""
    wet: float = 0.0
    snow: float = 0.0
    """0 dry or bare to 1."""
    lit: float = 0.0
    """Share of windows with a light on; above 0 street lamps and headlights are on, too."""
    lamplight: float = 0.0
    """Strength of everything that shines by itself."""
    exposure: float = 1.0
    noise: float = 0.008
    blur: float = 0.0
    """Camera: gain, sensor noise (standard deviation of pixel values / 255), motion blur (pixels)."""
    tint: Light = (1.0, 1.0, 1.0)
    """White balance of this camera."""
    height: float = 1.6
    lateral: float = 0.0
    field_of_view: float = 72.0
    """Camera above the road, right of the usual line (metres), horizontal angle (degrees)."""
    traffic: float = 0.4
    people: float = 2.0
    parked: float = 0.5
    """How busy: chance of a vehicle in each lane, mean number of people, share of parking spaces taken."""
    rain: float = 0.0
    flakes: float = 0.0
    """Amount in the air."""

    @property
    def towards_sun(self) -> NDArray[np.float32]:
        """Unit vector."""
        azimuth, elevation = (math.radians(angle) for angle in self.sun)
        flat = math.cos(elevation)
        return np.array([math.sin(azimuth) * flat, math.cos(azimuth) * flat, math.sin(elevation)], np.float32)


_ALL_LOOKS = (
    Look(
        "sun", (215, 38), (2.3, 2.1, 1.75), (0.46, 0.58, 0.8), (0.16, 0.34, 0.78), (0.62, 0.74, 0.92), 0.35, 0.0012,
        "green", exposure=0.95, height=1.6, people=3.0, tint=(1.03, 1.0, 0.95),
    ),
    Look(
        "overcast", (160, 50), (0.0, 0.0, 0.0), (0.92, 0.96, 1.0), (0.62, 0.66, 0.7), (0.84, 0.86, 0.88), 0.8, 0.0028,
        "autumn", exposure=1.05, height=1.45, lateral=-0.35, parked=0.65, tint=(0.98, 1.0, 1.02),
    ),
    Look(
        "rain", (200, 40), (0.0, 0.0, 0.0), (0.5, 0.54, 0.58), (0.36, 0.39, 0.43), (0.55, 0.58, 0.62), 0.95, 0.0085,
        "sparse", wet=1.0, lit=0.12, lamplight=0.5, exposure=1.25, noise=0.014, blur=1.5, height=1.75, lateral=0.3,
        people=1.2, rain=1.0, tint=(0.94, 1.0, 1.06),
    ),
    Look(
        "dusk", (285, 4), (0.10, 0.05, 0.03), (0.17, 0.17, 0.25), (0.10, 0.12, 0.27), (0.85, 0.46, 0.28), 0.5, 0.0035,
        "bare", lit=0.4, lamplight=0.8, exposure=1.75, noise=0.018, blur=2.0, height=1.6, lateral=0.15,
        field_of_view=69, traffic=0.55, people=2.5, parked=0.75, tint=(1.06, 0.98, 1.0),
    ),
    Look(
        "night", (0, -30), (0.0, 0.0, 0.0), (0.010, 0.011, 0.018), (0.006, 0.007, 0.014), (0.035, 0.026, 0.022), 0.6,
        0.002, "green", lit=0.22, lamplight=1.0, exposure=2.1, noise=0.04, blur=3.5, height=1.5, lateral=-0.2,
        field_of_view=74, traffic=0.3, people=0.8, parked=0.9, tint=(1.08, 1.0, 0.86),
    ),
    Look(
        "snow", (150, 25), (0.0, 0.0, 0.0), (0.8, 0.85, 0.95), (0.62, 0.66, 0.72), (0.80, 0.83, 0.87), 0.7, 0.008,
        "snowy", snow=1.0, lit=0.08, lamplight=0.3, exposure=0.95, noise=0.012, blur=0.8, height=1.9, lateral=0.4,
        people=1.5, parked=0.45, flakes=1.0, tint=(0.97, 1.0, 1.05),
    ),
)  # fmt: skip
LOOKS = {look.name: look for look in _ALL_LOOKS}
TRAVERSALS = tuple(LOOKS)
"""Names of the traversals, in the order in which they were driven."""

WARM: tuple[Colour, ...] = ((255, 208, 130), (255, 190, 110), (255, 226, 170), (230, 236, 255))
"""Colours of lit windows."""
