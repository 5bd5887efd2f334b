"""Drawing board for textures, measured in metres from the lower left corner."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from displace.datasets.town.raster import MATT, Texture
from displace.datasets.town.styles import Colour


class Canvas:
    """Texture under construction: a board of so many metres, with `scale` pixels per metre.

    A colour fills it; without one everything not drawn upon stays a hole.
    """

    def __init__(self, width: float, height: float, scale: float, colour: Colour | None = None) -> None:
        self.scale = scale
        shape = (max(2, round(height * scale)), max(2, round(width * scale)))
        self.pixels: Texture = blank(shape[0], shape[1], colour)

    def rect(
        self, x0: float, y0: float, x1: float, y1: float, colour: Sequence[float], glow: float = 0.0
    ) -> None:
        """Fill a rectangle; `glow` from 0 to 1 makes it shine."""
        s, top = self.scale, self.pixels.shape[0]
        first = (round(x0 * s), top - round(y1 * s))
        last = (max(first[0], round(x1 * s) - 1), max(first[1], top - round(y0 * s) - 1))
        cv2.rectangle(self.pixels, first, last, _ink(colour, glow), cv2.FILLED)

    def polygon(
        self, points: Sequence[tuple[float, float]], colour: Sequence[float], glow: float = 0.0
    ) -> None:
        """Fill a polygon."""
        cv2.fillPoly(self.pixels, [self._grid(points)], _ink(colour, glow), cv2.LINE_8, 4)

    def line(
        self,
        points: Sequence[tuple[float, float]],
        colour: Sequence[float],
        width: float = 0.0,
        glow: float = 0.0,
    ) -> None:
        """Draw a polyline `width` metres wide, one pixel at least."""
        thickness = max(1, round(width * self.scale))
        cv2.polylines(self.pixels, [self._grid(points)], False, _ink(colour, glow), thickness, cv2.LINE_8, 4)

    def disc(self, x: float, y: float, radius: float, colour: Sequence[float]) -> None:
        """Fill a circle."""
        self.discs(np.array([(x, y)]), np.array([radius]), np.array([colour]))

    def discs(
        self, centres: NDArray[np.float64], radii: NDArray[np.float64], colours: NDArray[np.float64]
    ) -> None:
        """Fill many circles, (n, 2), (n,) and (n, 3), one over the other."""
        sizes = np.maximum(8, np.round(radii * self.scale * 16)).astype(int).tolist()
        inks = np.column_stack([colours, np.full(len(colours), MATT)]).tolist()
        for centre, size, ink in zip(self._grid(centres).tolist(), sizes, inks, strict=True):
            cv2.circle(self.pixels, centre, size, ink, cv2.FILLED, cv2.LINE_8, 4)

    def hole(self, points: Sequence[tuple[float, float]]) -> None:
        """Cut a polygon out."""
        cv2.fillPoly(self.pixels, [self._grid(points)], (0, 0, 0, 0), cv2.LINE_8, 4)

    def tone(self, factor: NDArray[np.float32]) -> None:
        """Multiply the colours by `factor`, one for each pixel."""
        self.pixels = toned(self.pixels, factor)

    def _grid(self, points: Sequence[tuple[float, float]] | NDArray[np.float64]) -> NDArray[np.int32]:
        """Metres to pixels with four fractional bits."""
        array = np.asarray(points, np.float64) * self.scale
        array[:, 1] = self.pixels.shape[0] - array[:, 1]
        return np.round((array - 0.5) * 16).astype(np.int32)


def blank(rows: int, columns: int, colour: Colour | None = None) -> Texture:
    """Texture of one colour, or one big hole."""
    texture = np.zeros((rows, columns, 4), np.uint8)
    if colour is not None:
        cv2.rectangle(texture, (0, 0), (columns, rows), (*colour, MATT), cv2.FILLED)
    return texture


def toned(texture: Texture, factor: NDArray[np.float32]) -> Texture:
    """Texture with its colours multiplied by `factor`, one (0 to 2) for each pixel."""
    steps = cv2.convertScaleAbs(factor, alpha=128)
    same = np.full_like(steps, 128)
    product: Texture = cv2.multiply(texture, cv2.merge([steps, steps, steps, same]), scale=1 / 128)
    return product


def _ink(colour: Sequence[float], glow: float) -> tuple[float, ...]:
    return colour[0], colour[1], colour[2], MATT + glow * (255 - MATT)


def shade(colour: Sequence[float], factor: float) -> Colour:
    """Return the colour made lighter or darker, within the range of a byte."""
    return (
        min(255, int(colour[0] * factor)),
        min(255, int(colour[1] * factor)),
        min(255, int(colour[2] * factor)),
    )
