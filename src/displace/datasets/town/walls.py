"""Bare walls of four materials, and gables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from displace.datasets.town.canvas import Canvas, shade
from displace.datasets.town.plan import Building
from displace.datasets.town.randomness import noise_crop

SCALE = 20.0
"""Pixels per metre: about what the nearest front has on a picture of 320 pixels."""


def wall(house: Building, width: float, height: float, rng: np.random.Generator) -> Canvas:
    """Bare wall of the house's material, weathered."""
    canvas = Canvas(width, height, SCALE, house.wall)
    rows, columns = canvas.pixels.shape[:2]
    stain = noise_crop("stain", (rows, columns), rng, coarse=128)
    tone = 1 + 0.045 * stain + _MATERIALS[house.style.material](rows, columns, rng)
    # Splashes darken the foot of a wall, and its top is in the eaves' shade.
    up = (rows - np.arange(rows, dtype=np.float32)) / SCALE
    tone *= (1 - 0.22 * np.exp(-up / 0.7))[:, None]
    canvas.tone(tone.astype(np.float32))
    canvas.rect(0, 0, width, 0.45, shade(house.wall, 0.62))
    return canvas


def _brick(rows: int, columns: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Courses of bricks of slightly different tone, with light joints."""
    tone = _pieces(rows, columns, rng, 0.09, (3, 6))
    tone[::3] += 0.10
    return tone


def _plaster(rows: int, columns: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Smooth, with streaks run down by the rain."""
    streaks = rng.normal(0, 1, columns).astype(np.float32)
    fall = np.linspace(1, 0.2, rows, dtype=np.float32)[:, None]
    return 0.02 * streaks * fall + 0.02 * noise_crop("plaster", (rows, columns), rng, coarse=4)


def _stone(rows: int, columns: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Blocks with dark joints."""
    tone = _pieces(rows, columns, rng, 0.06, (9, 18))
    tone[::9] -= 0.16
    tone[:, ::18] -= 0.07
    return tone


def _panel(rows: int, columns: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Large plates."""
    tone = _pieces(rows, columns, rng, 0.035, (56, 64))
    tone[::56] -= 0.2
    tone[:, ::64] -= 0.2
    return tone


def _pieces(
    rows: int, columns: int, rng: np.random.Generator, spread: float, size: tuple[int, int]
) -> NDArray[np.float32]:
    """Rectangles of `size` pixels (height, width), each of a tone of its own."""
    tones = rng.normal(0, spread, (rows // size[0] + 1, columns // size[1] + 1)).astype(np.float32)
    return np.repeat(np.repeat(tones, size[0], axis=0), size[1], axis=1)[:rows, :columns]


_MATERIALS: dict[str, Callable[[int, int, np.random.Generator], NDArray[np.float32]]] = {
    "brick": _brick,
    "plaster": _plaster,
    "stone": _stone,
    "panel": _panel,
}


def gable(canvas: Canvas, width: float, eaves: float, rise: float) -> None:
    """Cut the corners off above the eaves and trim the edges."""
    top = eaves + rise + 0.1
    for x, outside in ((0.0, -0.1), (width, width + 0.1)):
        canvas.hole(
            [(outside, eaves), (x, eaves), (width / 2, eaves + rise), (width / 2, top), (outside, top)]
        )
        canvas.line([(x, eaves), (width / 2, eaves + rise)], (60, 50, 44), 0.22)
