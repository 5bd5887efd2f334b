"""A small rasteriser: textured quadrilaterals, a perspective camera and a depth buffer.

Textures are (rows, columns, 4) bytes: red, green, blue and a fourth channel in which less than `HOLE` is a hole, `MATT` is
an opaque surface, and what exceeds `MATT` glows (on the ground: is wet).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Texture = NDArray[np.uint8]
Vector = tuple[float, float, float]

HOLE, MATT = 64, 128
SUPERSAMPLE = 2
_NEAR, _FAR = 0.25, 130.0
_LEAST_PIXELS = 12


Paint = tuple[Callable[..., Texture], tuple[Hashable, ...]]
"""Painter of a texture and its arguments, by which the texture is kept for the next picture."""


class Quad(NamedTuple):
    """Flat piece of scenery: `corner` is its upper left end, `u` runs to the right and `v` down."""

    paint: Paint
    corner: Vector
    u: Vector
    v: Vector
    kind: int = 0
    """One of the kinds of surface below."""
    two_sided: bool = False


WALL, ROOF, GROUND, LEAVES, VEHICLE = range(1, 6)
"""Kinds of surface, told apart by the light."""


@dataclass(frozen=True)
class Camera:
    """Pinhole camera; `to_pixels` maps directions from `centre` to supersampled homogeneous pixels."""

    centre: NDArray[np.float64]
    to_pixels: NDArray[np.float64]
    size: tuple[int, int]

    @classmethod
    def place(
        cls, centre: Vector, yaw: float, pitch: float, roll: float, field_of_view: float, size: tuple[int, int]
    ) -> Camera:
        """Set up a camera; angles in radians, `size` = (width, height) of the picture."""
        width, height = size[0] * SUPERSAMPLE, size[1] * SUPERSAMPLE
        forward = np.array(
            [math.sin(yaw) * math.cos(pitch), math.cos(yaw) * math.cos(pitch), math.sin(pitch)]
        )
        level = np.array([math.cos(yaw), -math.sin(yaw), 0.0])
        up = np.cross(level, forward)
        right = math.cos(roll) * level + math.sin(roll) * up
        down = math.sin(roll) * level - math.cos(roll) * up
        focal = 0.5 * width / math.tan(field_of_view / 2)
        intrinsic = np.array([[focal, 0, width / 2 - 0.5], [0, focal, height / 2 - 0.5], [0, 0, 1.0]])
        return cls(np.array(centre), intrinsic @ np.stack([right, down, forward]), (width, height))

    def rays(self) -> NDArray[np.float32]:
        """Direction through every final pixel, (height, width, 3), of length 1 along the optical axis."""
        inverse = np.linalg.inv(self.to_pixels)
        half = (SUPERSAMPLE - 1) / 2
        x = np.arange(self.size[0] // SUPERSAMPLE) * SUPERSAMPLE + half
        y = np.arange(self.size[1] // SUPERSAMPLE) * SUPERSAMPLE + half
        columns, rows = inverse[:, 0] * x[:, None], inverse[:, 1] * y[:, None]
        return (rows[:, None] + columns[None] + inverse[:, 2]).astype(np.float32)


@dataclass(frozen=True)
class GBuffer:
    """What the camera sees before it is lit, at the size of the picture.

    `colour` and `glow` are averaged over the supersamples; `depth` (infinite for the sky), outward `normal` and `kind` (0
    for the sky) are taken from one of them.
    """

    colour: NDArray[np.uint8]
    glow: NDArray[np.float32]
    depth: NDArray[np.float32]
    normal: NDArray[np.float32]
    kind: NDArray[np.int8]


def rasterize(camera: Camera, quads: Sequence[Quad]) -> GBuffer:
    """Draw all quads, nearest in front."""
    width, height = camera.size
    colour = np.zeros((height, width, 4), np.uint8)
    packed = colour.view(np.uint32)[..., 0]
    inverse_depth = np.full((height, width), 1 / _FAR, np.float32)
    index = np.zeros((height, width), np.int16)
    x, y = np.arange(width, dtype=np.float32)[None], np.arange(height, dtype=np.float32)[:, None]
    normals, sheets = project(camera, quads)
    for i, sheet in sheets:
        left, top, right, bottom = sheet.box
        area = np.s_[top:bottom, left:right]
        behind = inverse_depth[area]
        if behind.min() >= sheet.nearest:
            continue
        texture = _texture(quads[i], sheet.extent)
        rows, columns = texture.shape[:2]
        # Texel centres sit half a texel inside of the quad's edges.
        texels = np.array([[1 / columns, 0, 0.5 / columns], [0, 1 / rows, 0.5 / rows], [0, 0, 1]])
        shift = np.array([[1, 0, -left], [0, 1, -top], [0, 0, 1.0]])
        matrix = shift @ sheet.homography @ texels
        patch = cv2.warpPerspective(texture, matrix, (right - left, bottom - top), flags=cv2.INTER_LINEAR)
        a, b, c = sheet.plane.astype(np.float32)
        near = a * x[:, left:right] + (b * y[top:bottom] + c)
        mask = (near > behind) & (patch[:, :, 3] >= HOLE)
        np.copyto(behind, near, where=mask)
        np.copyto(index[area], np.int16(i + 1), where=mask)
        # Four bytes copied as one number: several times faster than by channel.
        np.copyto(packed[area], patch.view(np.uint32)[..., 0], where=mask)
    kinds = np.array([0, *(q.kind for q in quads)], np.int8)
    return _resolve(colour, inverse_depth, index, kinds, normals)


def _resolve(
    colour: Texture,
    inverse_depth: NDArray[np.float32],
    index: NDArray[np.int16],
    kinds: NDArray[np.int8],
    normals: NDArray[np.float32],
) -> GBuffer:
    """Average the supersamples and look up what belongs to the quads."""
    height, width = index.shape
    small = cv2.resize(colour, (width // SUPERSAMPLE, height // SUPERSAMPLE), interpolation=cv2.INTER_AREA)
    number = index[::SUPERSAMPLE, ::SUPERSAMPLE]
    depth = 1 / inverse_depth[::SUPERSAMPLE, ::SUPERSAMPLE]
    depth[number == 0] = np.inf
    glow = np.maximum(small[:, :, 3].astype(np.float32) - MATT, 0) / (255 - MATT)
    return GBuffer(small[:, :, :3], glow, depth, normals[number], kinds[number])


class Sheet(NamedTuple):
    """Quad on the picture: its box of pixels, size, homography, inverse depth per pixel (a·x + b·y + c) and the greatest."""

    box: list[int]
    extent: NDArray[np.float64]
    homography: NDArray[np.float64]
    plane: NDArray[np.float64]
    nearest: float


_CORNERS = np.array([[0, 0, 1.0], [1, 0, 1], [1, 1, 1], [0, 1, 1]])


def project(
    camera: Camera, quads: Sequence[Quad]
) -> tuple[NDArray[np.float32], Iterator[tuple[int, Sheet]]]:
    """Outward unit normals (the sky's first), and the quads that can be seen.

    The nearest quads come first: what they hide is then skipped cheaply.
    """
    frames = np.array([(q.u, q.v, q.corner) for q in quads]).transpose(0, 2, 1)
    frames[:, :, 2] -= camera.centre
    homographies = camera.to_pixels @ frames
    normals = np.cross(frames[:, :, 0], frames[:, :, 1])
    offsets = (normals * frames[:, :, 2]).sum(axis=1)
    points = np.einsum("nij,kj->nki", homographies, _CORNERS)
    depths = points[:, :, 2]
    shown = (np.array([q.two_sided for q in quads]) & (abs(offsets) > 1e-6)) | (offsets > 1e-6)
    shown &= (depths.max(axis=1) > _NEAR) & (depths.min(axis=1) < _FAR)
    order = np.argsort(depths.min(axis=1), kind="stable")
    chosen = order[shown[order]]
    planes = normals[chosen] @ np.linalg.inv(camera.to_pixels) / offsets[chosen, None]
    lengths = np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-9)
    outward = np.vstack([[0, 0, 1.0], -normals / lengths]).astype(np.float32)
    boxes, extents = _footprints(points[chosen], camera.size)
    nearest = 1 / np.maximum(depths[chosen].min(axis=1), _NEAR)
    large = (boxes[:, 2:] - boxes[:, :2]).clip(0).prod(axis=1) > _LEAST_PIXELS
    sheets = (
        (int(i), Sheet(boxes[k].tolist(), extents[k], homographies[i], planes[k], float(nearest[k])))
        for k, i in enumerate(chosen)
        if large[k]
    )
    return outward, sheets


def _footprints(points: NDArray[np.float64], size: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Boxes of pixels (n, 4: left, top, right, bottom) that quads can touch, and their sizes (n, 2) on the picture."""
    whole = (points[:, :, 2] >= _NEAR).all(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        pixels = points[:, :, :2] / points[:, :, 2:]
    low, high = pixels.min(axis=1), pixels.max(axis=1)
    edges = np.linalg.norm(np.roll(pixels, -1, axis=1) - pixels, axis=2)
    extents = np.maximum(edges[:, :2], edges[:, 2:])
    for i in np.flatnonzero(~whole):
        clipped = _clip(points[i])
        low[i], high[i] = (pick(clipped[:, :2] / clipped[:, 2:], axis=0) for pick in (np.min, np.max))
        extents[i] = math.inf
    boxes = np.hstack([np.floor(low).clip(0, size), (np.ceil(high) + 1).clip(0, size)])
    return boxes.astype(np.int64), extents


def _clip(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cut off the part of a homogeneous polygon that lies nearer than the near plane."""
    kept = []
    for start, end in zip(points, np.roll(points, -1, axis=0), strict=True):
        if start[2] >= _NEAR:
            kept.append(start)
        if (start[2] >= _NEAR) != (end[2] >= _NEAR):
            kept.append(start + (end - start) * (_NEAR - start[2]) / (end[2] - start[2]))
    return np.array(kept)


def _texture(quad: Quad, extent: NDArray[np.float64]) -> Texture:
    """Texture at about the size at which it appears, against flicker in the distance."""
    if quad.kind == GROUND:
        # Painted for one camera and never seen again.
        painter, arguments = quad.paint
        return painter(*arguments)
    texture = _level(quad.paint, 0, 0)
    rows, columns = texture.shape[:2]
    across, down = (max(0, round(math.log2(n / min(max(2, e), n)))) for n, e in zip((columns, rows), extent, strict=True))
    return _level(quad.paint, across, down)


@lru_cache(maxsize=1500)
def _level(paint: Paint, across: int, down: int) -> Texture:
    """Texture with its columns and rows halved so many times."""
    if across == down == 0:
        painter, arguments = paint
        return painter(*arguments)
    larger = _level(paint, across - (across >= down), down - (down >= across))
    rows, columns = larger.shape[:2]
    size = (max(2, columns // 2) if across >= down else columns, max(2, rows // 2) if down >= across else rows)
    return cv2.resize(larger, size, interpolation=cv2.INTER_AREA)
