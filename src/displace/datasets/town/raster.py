"""A small rasteriser: textured quadrilaterals, a perspective camera and a depth buffer.

Textures are (rows, columns, 4) bytes: red, green, blue and a fourth channel in which less than `HOLE` is a hole,
`MATT` is an opaque surface, and what exceeds `MATT` glows (on the ground: is wet).
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

SUPERSAMPLE = 1.5
"""Pixels drawn for each pixel of the picture, across and down."""

HOLE, MATT = 64, 128
_NEAR, _FAR = 0.25, 130.0
_LEAST_PIXELS = 16

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
    """Of the picture; what is drawn before it is averaged is `drawn` pixels wide and high."""
    drawn: tuple[int, int]

    @classmethod
    def place(
        cls,
        centre: Vector,
        yaw: float,
        pitch: float,
        roll: float,
        field_of_view: float,
        size: tuple[int, int],
    ) -> Camera:
        """Set up a camera; angles in radians, `size` = (width, height) of the picture."""
        width, height = (round(n * SUPERSAMPLE) for n in size)
        forward = np.array(
            [math.sin(yaw) * math.cos(pitch), math.cos(yaw) * math.cos(pitch), math.sin(pitch)]
        )
        level = np.array([math.cos(yaw), -math.sin(yaw), 0.0])
        up = np.cross(level, forward)
        right = math.cos(roll) * level + math.sin(roll) * up
        down = math.sin(roll) * level - math.cos(roll) * up
        focal = 0.5 * width / math.tan(field_of_view / 2)
        intrinsic = np.array([[focal, 0, width / 2 - 0.5], [0, focal, height / 2 - 0.5], [0, 0, 1.0]])
        return cls(np.array(centre), intrinsic @ np.stack([right, down, forward]), size, (width, height))

    def rays(self) -> NDArray[np.float32]:
        """Direction through every pixel of the picture, (3, height, width), of length 1 along the optical axis."""
        inverse = np.linalg.inv(self.to_pixels)
        x, y = (
            (np.arange(n) + 0.5) * drawn / n - 0.5 for n, drawn in zip(self.size, self.drawn, strict=True)
        )
        columns = (inverse[:, :1] * x + inverse[:, 2:]).astype(np.float32)
        rows = (inverse[:, 1:2] * y).astype(np.float32)
        return rows[:, :, None] + columns[:, None, :]


@dataclass(frozen=True)
class GBuffer:
    """What the camera sees before it is lit, at the size of the picture.

    `colour` and `glow` are averaged over the supersamples; `depth` (infinite for the sky), outward `normal` and
    `kind` (0 for the sky) are taken from one of them. Channels come first, (3, height, width): arithmetic on whole
    planes is several times faster than on triples.
    """

    colour: NDArray[np.uint8]
    glow: NDArray[np.float32]
    depth: NDArray[np.float32]
    normal: NDArray[np.float32]
    kind: NDArray[np.int8]


def rasterize(camera: Camera, quads: Sequence[Quad]) -> GBuffer:
    """Draw all quads, nearest in front."""
    width, height = camera.drawn
    colour = np.zeros((height, width, 4), np.uint8)
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
        a, b, c = sheet.plane
        near = a * x[:, left:right] + (b * y[top:bottom] + c)
        seen = cv2.bitwise_and(cv2.compare(near, behind, cv2.CMP_GT), sheet.inside())
        if cv2.countNonZero(seen) < _LEAST_PIXELS:
            continue
        # What is left of the box: much of it is hidden as a rule.
        dx, dy, wide, tall = cv2.boundingRect(seen)
        part = np.s_[dy : dy + tall, dx : dx + wide]
        drawn = _warp(_texture(quads[i], sheet.extent), sheet.homography, (left + dx, top + dy), (wide, tall))
        mask = cv2.bitwise_and(seen[part], cv2.compare(drawn[:, :, 3], HOLE, cv2.CMP_GE))
        cv2.copyTo(near[part], mask, behind[part])
        cv2.copyTo(drawn, mask, colour[area][part])
        cv2.copyTo(np.full((tall, wide), i + 1, np.int16), mask, index[area][part])
    kinds = np.array([0, *(q.kind for q in quads)], np.int8)
    small = cv2.resize(colour, camera.size, interpolation=cv2.INTER_AREA)
    number, depth = (
        cv2.resize(layer, camera.size, interpolation=cv2.INTER_NEAREST) for layer in (index, inverse_depth)
    )
    depth = np.where(number > 0, 1 / depth, np.float32(np.inf))
    glow = np.maximum(small[:, :, 3].astype(np.float32) - MATT, 0) / (255 - MATT)
    planes = np.ascontiguousarray(small[:, :, :3].transpose(2, 0, 1))
    return GBuffer(planes, glow, depth, np.take(normals.T, number, axis=1), kinds[number])


def _warp(
    texture: Texture, homography: NDArray[np.float64], corner: tuple[int, int], size: tuple[int, int]
) -> Texture:
    """Texture as it appears in the box of pixels at `corner` (left, top)."""
    rows, columns = texture.shape[:2]
    matrix = homography / (columns, rows, 1)
    # Texel centres sit half a texel inside of the quad's edges.
    matrix[:, 2] += 0.5 * (matrix[:, 0] + matrix[:, 1])
    matrix[0] -= corner[0] * matrix[2]
    matrix[1] -= corner[1] * matrix[2]
    result: NDArray[np.uint8] = cv2.warpPerspective(
        texture, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return result


class Sheet(NamedTuple):
    """Quad on the picture.

    Its box of pixels, corners, size, homography, inverse depth per pixel (a·x + b·y + c) and the greatest of these.
    """

    box: list[int]
    corners: NDArray[np.int32]
    """With four fractional bits."""
    extent: NDArray[np.float64]
    homography: NDArray[np.float64]
    plane: NDArray[np.float32]
    nearest: float

    def inside(self) -> NDArray[np.uint8]:
        """Mask of the pixels of the box that the quad covers."""
        left, top, right, bottom = self.box
        covered = np.zeros((bottom - top, right - left), np.uint8)
        cv2.fillConvexPoly(
            covered, self.corners - np.array([left * 16, top * 16], np.int32), 255, cv2.LINE_8, 4
        )
        return covered


_CORNERS = np.array([[0, 0, 1.0], [1, 0, 1], [1, 1, 1], [0, 1, 1]])


def project(camera: Camera, quads: Sequence[Quad]) -> tuple[NDArray[np.float32], Iterator[tuple[int, Sheet]]]:
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
    planes = (normals[chosen] @ np.linalg.inv(camera.to_pixels) / offsets[chosen, None]).astype(np.float32)
    lengths = np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-9)
    outward = np.vstack([[0, 0, 1.0], -normals / lengths]).astype(np.float32)
    corners, extents = _outlines(points[chosen])
    low, high = np.floor(corners.min(axis=1)), np.ceil(corners.max(axis=1)) + 1
    boxes = np.hstack([low.clip(0, camera.drawn), high.clip(0, camera.drawn)]).astype(np.int64)
    grid = np.round(corners * 16).astype(np.int32)
    nearest = 1 / np.maximum(depths[chosen].min(axis=1), _NEAR)
    large = (boxes[:, 2:] - boxes[:, :2]).clip(0).prod(axis=1) > _LEAST_PIXELS
    sheets = (
        (i, Sheet(box, grid[k], extents[k], homographies[i], planes[k], nearest[k]))
        for k, i, box in zip(
            np.flatnonzero(large).tolist(), chosen[large].tolist(), boxes[large].tolist(), strict=True
        )
    )
    return outward, sheets


def _outlines(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Outlines (n, 5, 2) of quads in pixels, cut off at the near plane, and their sizes (n, 2) on the picture."""
    with np.errstate(divide="ignore", invalid="ignore"):
        pixels = points[:, :, :2] / points[:, :, 2:]
    edges = np.linalg.norm(np.roll(pixels, -1, axis=1) - pixels, axis=2)
    extents = np.maximum(edges[:, :2], edges[:, 2:])
    # Cutting gives three to five corners; the last is repeated.
    outlines = pixels[:, [0, 1, 2, 3, 3]]
    for i in np.flatnonzero((points[:, :, 2] < _NEAR).any(axis=1)):
        clipped = _clip(points[i])
        corners = clipped[:, :2] / clipped[:, 2:]
        outlines[i] = corners[np.minimum(np.arange(5), len(corners) - 1)]
        extents[i] = math.inf
    return outlines, extents


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
    wide, tall = extent.tolist()
    across = round(math.log2(columns / max(2.0, wide))) if wide < columns else 0
    down = round(math.log2(rows / max(2.0, tall))) if tall < rows else 0
    return _level(quad.paint, across, down)


@lru_cache(maxsize=1500)
def _level(paint: Paint, across: int, down: int) -> Texture:
    """Texture with its columns and rows halved so many times."""
    if across == down == 0:
        painter, arguments = paint
        return painter(*arguments)
    larger = _level(paint, across - (across >= down), down - (down >= across))
    rows, columns = larger.shape[:2]
    size = (
        max(2, columns // 2) if across >= down else columns,
        max(2, rows // 2) if down >= across else rows,
    )
    result: NDArray[np.uint8] = cv2.resize(larger, size, interpolation=cv2.INTER_AREA)
    return result
