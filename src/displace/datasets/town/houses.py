"""Houses, hedges and vehicles as quads."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator

from displace.datasets.town import facades, plants, props
from displace.datasets.town.looks import Look
from displace.datasets.town.plan import Building, Point
from displace.datasets.town.raster import ROOF, VEHICLE, WALL, Paint, Quad, Texture, Vector
from displace.datasets.town.styles import Colour


def _at(point: Point, *steps: tuple[Point, float], z: float = 0.0) -> Vector:
    """Go from `point` along some vectors, each so many metres."""
    x, y = point
    for (dx, dy), metres in steps:
        x, y = x + dx * metres, y + dy * metres
    return x, y, z


def _paint(painter: Callable[..., Texture], *arguments: Hashable) -> Paint:
    return painter, arguments


def _along(vector: Point, metres: float, z: float = 0.0) -> Vector:
    return vector[0] * metres, vector[1] * metres, z


def house(b: Building, look: Look) -> Iterator[Quad]:
    """Walls and roof of one house."""
    a, n = b.along, b.inward
    front_top = b.eaves + (b.rise if b.style.roof == "gable" else 0)
    flank_top = b.eaves + (b.rise if b.style.roof == "eaves" else 0)
    front, flank = _paint(facades.front, b, look), _paint(facades.flank, b, look)
    yield Quad(front, (*b.corner, front_top), _along(a, b.width), (0, 0, -front_top), WALL)
    back = _at(b.corner, (a, b.width), (n, b.depth), z=front_top)
    yield Quad(front, back, _along(a, -b.width), (0, 0, -front_top), WALL)
    right = _at(b.corner, (a, b.width), z=flank_top)
    yield Quad(flank, right, _along(n, b.depth), (0, 0, -flank_top), WALL)
    left = _at(b.corner, (n, b.depth), z=flank_top)
    yield Quad(flank, left, _along(n, -b.depth), (0, 0, -flank_top), WALL)
    yield from _ROOFS[b.style.roof](b, look)


def _slope(b: Building, look: Look, ridge: Vector, u: Vector, v: Vector) -> Quad:
    """One slope of a roof, with a little overhang."""
    width, run = math.hypot(u[0], u[1]), math.hypot(*v)
    longer = 1 + 0.3 / run
    paint = _paint(facades.roof, b, round(width, 2), round(run, 2), look)
    return Quad(paint, ridge, u, (v[0] * longer, v[1] * longer, v[2] * longer), ROOF, two_sided=True)


def _eaves_roof(b: Building, look: Look) -> Iterator[Quad]:
    """Ridge along the street, and a chimney on it."""
    a, n, half, top = b.along, b.inward, b.depth / 2, b.eaves + b.rise
    yield _slope(b, look, _at(b.corner, (n, half), z=top), _along(a, b.width), _along(n, -half, -b.rise))
    back = _at(b.corner, (n, half), (a, b.width), z=top)
    yield _slope(b, look, back, _along(a, -b.width), _along(n, half, -b.rise))
    chimney = _at(b.corner, (n, half), (a, 0.3), z=top + 1.1)
    yield Quad(_paint(facades.chimney, b, look), chimney, _along(a, 0.9), (0, 0, -1.6), ROOF, two_sided=True)


def _gable_roof(b: Building, look: Look) -> Iterator[Quad]:
    """Ridge across, from the street to the back."""
    a, n, half, top = b.along, b.inward, b.width / 2, b.eaves + b.rise
    left = _at(b.corner, (a, half), (n, b.depth), z=top)
    yield _slope(b, look, left, _along(n, -b.depth), _along(a, -half, -b.rise))
    yield _slope(b, look, _at(b.corner, (a, half), z=top), _along(n, b.depth), _along(a, half, -b.rise))


def _mansard_roof(b: Building, look: Look) -> Iterator[Quad]:
    """Steep slopes on all four sides, flat above."""
    a, n, lean, top = b.along, b.inward, 0.9, b.eaves + b.rise
    yield _slope(b, look, _at(b.corner, (n, lean), z=top), _along(a, b.width), _along(n, -lean, -b.rise))
    right = _at(b.corner, (a, b.width - lean), z=top)
    yield _slope(b, look, right, _along(n, b.depth), _along(a, lean, -b.rise))
    left = _at(b.corner, (n, b.depth), (a, lean), z=top)
    yield _slope(b, look, left, _along(n, -b.depth), _along(a, -lean, -b.rise))


def _flat_roof(b: Building, look: Look) -> Iterator[Quad]:
    """A box for the lift."""
    corner = _at(b.corner, (b.inward, 3.0), (b.along, b.width * 0.4), z=b.eaves + 2.2)
    yield Quad(
        _paint(facades.chimney, b, look), corner, _along(b.along, 4.0), (0, 0, -2.2), ROOF, two_sided=True
    )


_ROOFS = {"eaves": _eaves_roof, "gable": _gable_roof, "mansard": _mansard_roof, "flat": _flat_roof}


def border(ends: tuple[Point, Point], height: float, kind: str, number: int, look: Look) -> Iterator[Quad]:
    """Hedge, fence or wall from one point to another, in pieces of about four metres."""
    (x0, y0), (x1, y1) = ends
    pieces = max(1, round(math.dist(*ends) / 4))
    step = ((x1 - x0) / pieces, (y1 - y0) / pieces)
    paint = _paint(plants.border, kind, number % 5, look.leaves, bool(look.snow))
    for i in range(pieces):
        corner = (x0 + i * step[0], y0 + i * step[1], height)
        yield Quad(paint, corner, (*step, 0.0), (0, 0, -height), WALL, two_sided=True)


def vehicle(kind: str, paint: Colour, at: Point, heading: float, look: Look, moving: bool) -> Iterator[Quad]:
    """Vehicle of a kind, centred on `at`."""
    shape, snow, lights = props.VEHICLES[kind], bool(look.snow), moving and look.lamplight > 0
    f, r = (math.sin(heading), math.cos(heading)), (math.cos(heading), -math.sin(heading))
    half, wide, tall = shape.length / 2, shape.width / 2, shape.height
    body = VEHICLE
    down = (0.0, 0.0, -tall)
    mirrored = _paint(props.side, kind, paint, True, snow, lights)
    yield Quad(mirrored, _at(at, (f, half), (r, -wide), z=tall), _along(f, -2 * half), down, body, True)
    plain = _paint(props.side, kind, paint, False, snow, lights)
    yield Quad(plain, _at(at, (f, -half), (r, wide), z=tall), _along(f, 2 * half), down, body, True)
    # Ends stand where the glass is; the bumper stands out from below it.
    for sign, rear, inset in ((-1, True, 0.6 * shape.roof[0]), (1, False, 0.6 * (1 - shape.roof[1]))):
        whole = _paint(props.end, kind, paint, rear, snow, lights)
        across = _along(r, -sign * 2 * wide)
        start = sign * half * (1 - 2 * inset)
        yield Quad(whole, _at(at, (f, start), (r, sign * wide), z=tall), across, down, body)
        low = _at(at, (f, sign * half), (r, sign * wide), z=0.56 * tall)
        yield Quad(_paint(_lower, *whole), low, across, (0, 0, -0.56 * tall), body)
    yield from _tops(shape, paint, at, f, r, snow)


def _tops(shape: props.Vehicle, paint: Colour, at: Point, f: Point, r: Point, snow: bool) -> Iterator[Quad]:
    """Roof, bonnet and the slanted glass between them."""
    rear, front = shape.roof
    sill = shape.glass[-1][0]
    half, wide, tall = shape.length / 2, shape.width / 2, shape.height
    glass = props.GLASS
    for begin, end, low, high, colour in (
        (rear, front, 0.99, 0.99, paint),
        (front, sill, 0.99, 0.62, glass),
        (sill, 0.99, 0.62, 0.52, paint),
        (shape.glass[0][0] / 2, rear, 0.6, 0.99, glass),
    ):
        corner = _at(at, (f, (2 * end - 1) * half), (r, -0.9 * wide), z=high * tall)
        back = _along(f, -2 * half * (end - begin), (low - high) * tall)
        texture = _paint(props.top, colour, snow and colour != glass)
        yield Quad(texture, corner, _along(r, 1.8 * wide), back, VEHICLE, two_sided=True)


def _lower(painter: Callable[..., Texture], arguments: tuple[Hashable, ...]) -> Texture:
    """Part of an end below the glass."""
    texture = painter(*arguments)
    return texture[round(0.44 * len(texture)) :].copy()
