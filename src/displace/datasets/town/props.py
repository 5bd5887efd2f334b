"""Vehicles, people, lamps and signs as textures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from displace.datasets.town.canvas import Canvas, shade
from displace.datasets.town.randomness import stream
from displace.datasets.town.raster import Texture
from displace.datasets.town.styles import ACCENTS, SNOW, Colour

_SCALE = 36.0
GLASS: Colour = (38, 46, 56)
_TYRE: Colour = (24, 24, 26)
PAINTS: tuple[Colour, ...] = (
    (196, 198, 200), (58, 60, 64), (28, 30, 34), (226, 226, 224), (130, 30, 30),
    (40, 66, 110), (120, 124, 128), (52, 84, 66), (168, 152, 120),
)  # fmt: skip


@dataclass(frozen=True)
class Vehicle:
    """Shape of a kind of vehicle: length, width, height, and the side's outline and glass as shares of them."""

    length: float
    width: float
    height: float
    outline: tuple[tuple[float, float], ...]
    glass: tuple[tuple[float, float], ...]
    roof: tuple[float, float]
    """From where to where along the length the roof runs, from the rear."""


VEHICLES = {
    "hatchback": Vehicle(
        4.0, 1.75, 1.5,
        ((0, 0.2), (0, 0.55), (0.06, 0.95), (0.12, 1), (0.5, 1), (0.7, 0.62), (0.97, 0.5), (1, 0.2)),
        ((0.09, 0.62), (0.13, 0.93), (0.48, 0.93), (0.64, 0.62)), (0.1, 0.52),
    ),
    "saloon": Vehicle(
        4.6, 1.8, 1.45,
        ((0, 0.2), (0, 0.6), (0.14, 0.66), (0.26, 1), (0.54, 1), (0.7, 0.64), (0.97, 0.52), (1, 0.2)),
        ((0.19, 0.66), (0.28, 0.94), (0.52, 0.94), (0.65, 0.66)), (0.25, 0.56),
    ),
    "van": Vehicle(
        5.2, 2.0, 2.3,
        ((0, 0.14), (0, 0.97), (0.04, 1), (0.72, 1), (0.86, 0.55), (0.99, 0.45), (1, 0.14)),
        ((0.64, 0.58), (0.64, 0.9), (0.72, 0.9), (0.81, 0.58)), (0.02, 0.72),
    ),
    "bus": Vehicle(
        11.0, 2.5, 3.1,
        ((0, 0.1), (0, 0.97), (0.01, 1), (0.99, 1), (1, 0.97), (1, 0.1)),
        ((0.03, 0.45), (0.03, 0.85), (0.97, 0.85), (0.97, 0.45)), (0.0, 1.0),
    ),
}  # fmt: skip


def side(kind: str, paint: Colour, mirrored: bool, snow: bool, lights: bool) -> Texture:
    """Vehicle from its side, the front to the right unless `mirrored`."""
    vehicle = VEHICLES[kind]
    long, tall = vehicle.length, vehicle.height
    canvas = Canvas(long, tall, _SCALE)
    canvas.polygon([(x * long, y * tall) for x, y in vehicle.outline], paint)
    canvas.rect(0.05, 0.2 * tall if tall < 2 else 0.3, long - 0.05, 0.36 * tall, shade(paint, 0.72))
    glow = 0.35 if lights and kind == "bus" else 0.0
    canvas.polygon([(x * long, y * tall) for x, y in vehicle.glass], (236, 214, 160) if glow else GLASS, glow)
    for post in (0.38, 0.56) if kind != "bus" else (0.16, 0.3, 0.44, 0.58, 0.72, 0.86):
        canvas.rect(post * long - 0.05, 0.45 * tall, post * long + 0.05, 0.92 * tall, paint)
    if snow:
        canvas.line([(x * long, y * tall - 0.05) for x, y in vehicle.outline[1:-1]], SNOW, 0.13)
    radius = 0.32 if kind != "bus" else 0.48
    for x in (0.19, 0.81):
        canvas.disc(x * long, radius, radius, _TYRE)
        canvas.disc(x * long, radius, radius * 0.55, (120, 122, 124))
    canvas.rect(long - 0.18, 0.42 * tall, long - 0.02, 0.5 * tall, (250, 246, 226), 1.0 if lights else 0.0)
    canvas.rect(0.02, 0.42 * tall, 0.14, 0.5 * tall, (170, 24, 20), 0.6 if lights else 0.0)
    return canvas.pixels[:, ::-1].copy() if mirrored else canvas.pixels


def end(kind: str, paint: Colour, rear: bool, snow: bool, lights: bool) -> Texture:
    """Vehicle from behind, or from the front."""
    vehicle = VEHICLES[kind]
    wide, tall = vehicle.width, vehicle.height
    canvas = Canvas(wide, tall, _SCALE)
    inset = 0.16 if tall < 2 else 0.04
    body = (
        (0.02, 0.2),
        (0.0, 0.6),
        (inset / wide, 0.97),
        (0.2, 1),
        (0.8, 1),
        (1 - inset / wide, 0.97),
        (1, 0.6),
        (0.98, 0.2),
    )
    canvas.polygon([(x * wide, y * tall) for x, y in body], paint)
    for x in (0.05, wide - 0.3):
        canvas.rect(x, 0, x + 0.25, 0.3 * tall, _TYRE)
    window = ((0.09, 0.6), (0.14, 0.92), (0.86, 0.92), (0.91, 0.6))
    canvas.polygon([(x * wide, y * tall) for x, y in window], GLASS)
    if snow:
        canvas.rect(0.2 * wide, 0.93 * tall, 0.8 * wide, tall, SNOW)
    canvas.rect(0.05, 0.2 * tall, wide - 0.05, 0.3 * tall, shade(paint, 0.6))
    canvas.rect(wide / 2 - 0.26, 0.3 * tall, wide / 2 + 0.26, 0.3 * tall + 0.12, (222, 216, 190))
    lamp: Colour = (210, 28, 22) if rear else (255, 250, 232)
    glow = (0.75 if rear else 1.0) if lights else 0.0
    for x in (0.06, wide - 0.34):
        canvas.rect(x, 0.42 * tall, x + 0.28, 0.42 * tall + 0.16, lamp, glow)
    return canvas.pixels


def top(paint: Colour, snow: bool) -> Texture:
    """Roof or bonnet of a vehicle."""
    return Canvas(1.0, 1.0, 8.0, SNOW if snow else shade(paint, 1.05)).pixels


def person(variant: int, umbrella: bool, warm: bool) -> Texture:
    """Somebody on foot, 0.9 m by 2 m (2.2 m under an umbrella)."""
    rng = stream("person", variant)
    canvas = Canvas(0.9, 2.2, 40.0)
    coat: Sequence[float] = ACCENTS[int(rng.integers(len(ACCENTS)))] if rng.random() < 0.5 else (60, 62, 70)
    trousers, skin = (
        shade((50, 54, 74), rng.uniform(0.6, 1.5)),
        shade((214, 170, 140), rng.uniform(0.5, 1.05)),
    )
    stride = float(rng.uniform(0.03, 0.16))
    for x in (0.45 - stride, 0.45 + stride):
        canvas.line([(0.45, 0.9), (x, 0.05)], trousers, 0.15)
        canvas.rect(x - 0.08, 0, x + 0.12, 0.07, (34, 30, 30))
    hem = 0.62 if warm else 0.82
    canvas.polygon([(0.24, hem), (0.27, 1.45), (0.63, 1.45), (0.66, hem)], coat)
    canvas.line([(0.29, 1.38), (0.2, 0.85)], shade(coat, 0.8), 0.1)
    canvas.line([(0.61, 1.38), (0.7, 0.85)], shade(coat, 0.8), 0.1)
    canvas.disc(0.45, 1.6, 0.12, skin)
    canvas.disc(0.45, 1.66, 0.11, shade((60, 44, 34), rng.uniform(0.5, 2.2)))
    if umbrella:
        colour = ACCENTS[int(rng.integers(len(ACCENTS)))]
        canvas.polygon([(0.0, 1.75), (0.12, 1.98), (0.45, 2.14), (0.78, 1.98), (0.9, 1.75)], colour)
    return canvas.pixels


def lamp(lit: bool, mirrored: bool) -> Texture:
    """Street lamp of 7 m with an arm of 1.6 m over the road, to the right unless `mirrored`."""
    canvas = Canvas(2.0, 7.2, 20.0)
    canvas.rect(0.12, 0, 0.3, 6.9, (70, 74, 76))
    canvas.rect(0.08, 0, 0.34, 1.2, (60, 64, 66))
    canvas.line([(0.2, 6.85), (0.9, 7.1), (1.7, 7.05)], (70, 74, 76), 0.1)
    canvas.rect(1.3, 6.92, 1.95, 7.08, (255, 214, 150) if lit else (200, 202, 200), 1.0 if lit else 0.0)
    return canvas.pixels[:, ::-1].copy() if mirrored else canvas.pixels


def sign(variant: int) -> Texture:
    """Road sign on a post, 0.8 m by 2.9 m."""
    canvas = Canvas(0.8, 2.9, 36.0)
    canvas.rect(0.36, 0, 0.44, 2.4, (130, 134, 136))
    red, blue, white = (178, 30, 34), (34, 74, 150), (236, 236, 232)
    if variant % 4 == 0:
        canvas.disc(0.4, 2.5, 0.36, red)
        canvas.disc(0.4, 2.5, 0.26, white)
    elif variant % 4 == 1:
        canvas.polygon([(0.02, 2.2), (0.4, 2.88), (0.78, 2.2)], red)
        canvas.polygon([(0.18, 2.29), (0.4, 2.68), (0.62, 2.29)], white)
    elif variant % 4 == 2:
        canvas.rect(0.08, 2.15, 0.72, 2.85, blue)
        canvas.rect(0.28, 2.28, 0.38, 2.74, white)
        canvas.rect(0.38, 2.5, 0.54, 2.74, white)
    else:
        canvas.rect(0.02, 2.3, 0.78, 2.8, (214, 176, 50))
        canvas.rect(0.12, 2.5, 0.68, 2.6, (40, 40, 40))
    return canvas.pixels
