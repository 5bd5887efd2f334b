"""The ground before the camera, and the shadows that fall on it, as maps seen from above."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from displace.datasets.town.canvas import blank, toned
from displace.datasets.town.looks import Look
from displace.datasets.town.lots import near
from displace.datasets.town.plan import Point, Street, StreetPlan
from displace.datasets.town.randomness import TILE, noise, stream
from displace.datasets.town.raster import GROUND, MATT, Paint, Quad, Texture
from displace.datasets.town.styles import Colour

_ASPHALT: Colour = (84, 84, 86)
_PAVING: Colour = (146, 142, 134)
_KERB: Colour = (176, 174, 168)
_PAINT: Colour = (222, 222, 214)
_LAWN: Colour = (90, 112, 58)


@dataclass(frozen=True)
class View:
    """Map frame that looks along `heading` from `at`: from `back` to `ahead` metres, `reach` to each side."""

    at: Point
    heading: float
    back: float
    ahead: float
    reach: float
    scale: float

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return round((self.ahead - self.back) * self.scale), round(2 * self.reach * self.scale)

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """(2, 3) matrix from east and north to column and row; the far edge is row 0."""
        s, c = math.sin(self.heading), math.cos(self.heading)
        turn = self.scale * np.array([[c, -s], [-s, -c]])
        offset = self.scale * np.array([self.reach, self.ahead]) - turn @ np.array(self.at)
        return np.column_stack([turn, offset])

    def pixels(self, points: ArrayLike) -> NDArray[np.int32]:
        """World points (n, 2) in pixels with four fractional bits."""
        placed = np.asarray(points, np.float64) @ self.matrix[:, :2].T + self.matrix[:, 2]
        return np.round(placed * 16).astype(np.int32)

    def quad(self, paint: Paint) -> Quad:
        """Lay a texture of this frame on the ground."""
        s, c = math.sin(self.heading), math.cos(self.heading)
        x, y = self.at
        corner = (x + self.ahead * s - self.reach * c, y + self.ahead * c + self.reach * s, 0.0)
        depth = self.ahead - self.back
        return Quad(
            paint,
            corner,
            (2 * self.reach * c, -2 * self.reach * s, 0.0),
            (-depth * s, -depth * c, 0.0),
            GROUND,
        )


def ground(view: View, seed: int, street: Street, look: Look) -> Texture:
    """Paint roads, pavements, lawns and markings; then snow, leaves or puddles over them."""
    plans = near(seed, street)
    rows, columns = view.shape
    texture = blank(rows, columns, street.district.ground)
    for plan in plans:
        for lawn in plan.lawns:
            cv2.fillPoly(texture, [view.pixels(lawn)], (*_LAWN, MATT), cv2.LINE_8, 4)
    _roads(texture, view, plans)
    if look.snow < 1:
        for plan in plans:
            _paint(texture, view, *_marks(seed, plan.street))
    coarse = _tile(noise("patches", 64), view, 4)
    tone = 1 + 0.05 * coarse
    if view.scale > 8:
        fine = _tile(noise("asphalt", 8), view, 16)
        tone += 0.09 * fine
        if look.leaves in ("autumn", "sparse"):
            texture[(fine > 2.1) & (coarse > 0.2), :3] = (150, 104, 44)
    if look.snow:
        _snow(texture, view, plans, tone)
    texture = toned(texture, tone)
    if look.wet:
        texture[:, :, 3] = MATT + np.clip(70 + 60 * coarse, 25, 127).astype(np.uint8)
    return texture


def _tile(tile: NDArray[np.float32], view: View, per_metre: float) -> NDArray[np.float32]:
    """Noise fixed to the world, `per_metre` pixels a metre, as the view sees it."""
    rows, columns = view.shape
    inverse = cv2.invertAffineTransform(view.matrix) * per_metre
    # Noise repeats: begin in its first tile.
    least = (inverse[:, :2] @ np.array([[0, columns, columns, 0], [0, 0, rows, rows]])).min(axis=1)
    inverse[:, 2] = (inverse[:, 2] + least) % TILE - least
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    result: NDArray[np.float32] = cv2.warpAffine(
        tile, inverse, (columns, rows), flags=flags, borderMode=cv2.BORDER_REPLICATE
    )
    return result


def _centre_line(plans: Sequence[StreetPlan]) -> list[tuple[StreetPlan, list[Point]]]:
    """Each street with the two ends of its middle line."""
    return [(plan, [plan.street.start, plan.street.point(plan.street.length, 0)]) for plan in plans]


def _roads(texture: Texture, view: View, plans: Sequence[StreetPlan]) -> None:
    """Pavements first, then kerbs, then carriageways, so that junctions stay open."""
    ways = [
        (line, plan.street.district.road, plan.street.district.pavement) for plan, line in _centre_line(plans)
    ]
    ways += [([start, end], width, 1.5) for plan in plans for start, end, width in plan.side_roads]
    lines = view.pixels([line for line, _, _ in ways])
    for pavement, kerb, colour in ((2.0, 0.0, _PAVING), (0.0, 0.35, _KERB), (0.0, 0.0, _ASPHALT)):
        for line, (_, road, beside) in zip(lines, ways, strict=True):
            thickness = max(1, round((road + pavement * beside + kerb) * view.scale))
            cv2.polylines(texture, [line], False, (*colour, MATT), thickness, cv2.LINE_8, 4)


@lru_cache(maxsize=64)
def _marks(seed: int, street: Street) -> tuple[NDArray[np.float64], list[Colour]]:
    """Outlines (n, 4, 2) and colours of a street's lines, crossings, repairs and covers."""
    rng = stream(seed, "marks", street.index)
    road, length = street.district.road, street.length
    boxes: list[tuple[float, float, float, float, Colour]] = []
    for _ in range(int(length / 14)):
        tone = rng.uniform(0.72, 1.12)
        colour = (int(84 * tone), int(84 * tone), int(86 * tone))
        boxes.append(
            (
                rng.uniform(0, length),
                rng.uniform(-road / 2, road / 2 - 2),
                rng.uniform(1, 6),
                rng.uniform(0.6, 1.8),
                colour,
            )
        )
    for along in np.arange(4.0, length - 4, 6.0) if road > 6.3 else ():
        boxes.append((along, -0.07, 3.0, 0.14, _PAINT))
    if road > 7.2:
        boxes += [(6.0, lateral, length - 12, 0.1, _PAINT) for lateral in (-road / 2 + 2.1, road / 2 - 2.2)]
    for _ in range(int(rng.integers(0, 3))):
        along = float(rng.uniform(12, length - 12))
        boxes += [
            (along, lateral, 3.0, 0.5, _PAINT) for lateral in np.arange(-road / 2 + 0.3, road / 2 - 0.5, 1.0)
        ]
    for _ in range(int(length / 18)):
        along, lateral = rng.uniform(0, length), rng.uniform(-road / 2 + 0.6, road / 2 - 0.6)
        boxes.append((along, lateral, 0.6, 0.6, (58, 58, 60)))
    outlines = [
        [
            street.point(a, b),
            street.point(a + long, b),
            street.point(a + long, b + wide),
            street.point(a, b + wide),
        ]
        for a, b, long, wide, _ in boxes
    ]
    return np.array(outlines), [box[-1] for box in boxes]


def _paint(texture: Texture, view: View, outlines: NDArray[np.float64], colours: Sequence[Colour]) -> None:
    """Fill those outlines that reach into the view."""
    pixels = view.pixels(outlines)
    rows, columns = view.shape
    low, high = pixels.min(axis=1), pixels.max(axis=1)
    inside = (high > 0).all(axis=1) & (low < (columns * 16, rows * 16)).all(axis=1)
    for i in np.flatnonzero(inside).tolist():
        cv2.fillConvexPoly(texture, pixels[i], (*colours[i], MATT), cv2.LINE_8, 4)


def _snow(texture: Texture, view: View, plans: Sequence[StreetPlan], tone: NDArray[np.float32]) -> None:
    """White over everything, with wheel tracks and a trodden path."""
    cover = np.full(view.shape, 0.96, np.float32)
    for plan, line in _centre_line(plans):
        road, (rx, ry) = plan.street.district.road, plan.street.right
        cv2.polylines(cover, [view.pixels(line)], False, 0.8, max(1, round(road * view.scale)), cv2.LINE_8, 4)
        for lateral in (-0.36 * road, -0.16 * road, 0.16 * road, 0.36 * road):
            track = [(x + lateral * rx, y + lateral * ry) for x, y in line]
            cv2.polylines(
                cover, [view.pixels(track)], False, 0.25, max(1, round(0.55 * view.scale)), cv2.LINE_8, 4
            )
    cover = cv2.GaussianBlur(cover, (0, 0), 0.12 * view.scale)
    cover = np.clip(cover + np.float32(2.2) * (tone - 1), 0, 1)
    for channel, white in enumerate((232, 236, 244)):
        texture[:, :, channel] = texture[:, :, channel] * (0.75 - 0.75 * cover) + white * cover


def shadow_map(
    view: View,
    footprints: Sequence[tuple[NDArray[np.float64], float]],
    trees: Sequence[tuple[Point, float, float]],
    sun: tuple[float, float],
) -> NDArray[np.float32]:
    """Height up to which each cell of the map lies in the shade.

    Heights are carried along the light in steps of 1, 2, 4 … cells: after n steps everything within 2ⁿ cells has cast
    its shadow.
    """
    heights = np.zeros(view.shape, np.float32)
    tops = [height for _, height in footprints]
    outlines = view.pixels([outline for outline, _ in footprints])
    for i in np.argsort(tops, kind="stable"):
        cv2.fillConvexPoly(heights, outlines[i], tops[i], cv2.LINE_8, 4)
    crowns = np.zeros(view.shape, np.float32)
    centres = view.pixels([at for at, _, _ in trees]).tolist() if trees else []
    for centre, (_, height, radius) in zip(centres, trees, strict=True):
        cv2.circle(crowns, centre, round(radius * view.scale * 16), height * 0.8, cv2.FILLED, cv2.LINE_8, 4)
    # Light falls through leaves here and there.
    crowns[_tile(noise("dapple", 8), view, 6) > 0.9] = 0
    shade = np.maximum(heights, crowns)
    angle = math.radians(sun[0]) - view.heading
    fall = math.tan(math.radians(sun[1])) / view.scale
    for step in (1, 2, 4, 8, 16, 32, 64):
        column, row = round(step * math.sin(angle)), -round(step * math.cos(angle))
        farther = shade - step * fall
        (to_rows, from_rows), (to_columns, from_columns) = _overlap(row), _overlap(column)
        here = shade[to_rows, to_columns]
        np.maximum(here, farther[from_rows, from_columns], out=here)
    return shade


def _overlap(shift: int) -> tuple[slice, slice]:
    """Slices of an axis that lie `shift` apart: the first at home, the second moved."""
    if shift >= 0:
        return slice(0, -shift or None), slice(shift, None)
    return slice(-shift, None), slice(0, shift)
