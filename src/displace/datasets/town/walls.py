"""Walls of four materials, on which gables, windows, balconies and doors are drawn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from displace.datasets.town.canvas import Canvas, shade
from displace.datasets.town.looks import WARM, Look
from displace.datasets.town.plan import Building
from displace.datasets.town.randomness import noise_crop, stream
from displace.datasets.town.styles import SNOW, WHITE

SCALE = 20.0
"""Pixels per metre: about what the nearest front has on a picture of 320 pixels."""


class Wall(Canvas):
    """One side of a house, of its material and weathered: what is drawn upon it depends on the traversal's look.

    The numbers of `fixed` are the same in every traversal, those of `passing` are not.
    """

    def __init__(self, house: Building, look: Look, side: str, width: float, height: float) -> None:
        super().__init__(width, height, SCALE, house.wall)
        self.house, self.look, self.width = house, look, width
        self.fixed, self.passing = stream(*house.key, side), stream(*house.key, side, look.name)
        rows, columns = self.pixels.shape[:2]
        stain = noise_crop("stain", (rows, columns), self.fixed, coarse=128)
        tone = 1 + 0.045 * stain + _MATERIALS[house.style.material](rows, columns, self.fixed)
        # Splashes darken the foot of a wall, and its top is in the eaves' shade.
        up = (rows - np.arange(rows, dtype=np.float32)) / SCALE
        tone *= (1 - 0.22 * np.exp(-up / 0.7))[:, None]
        self.tone(tone.astype(np.float32))
        self.rect(0, 0, width, 0.45, shade(house.wall, 0.62))

    def gable(self) -> None:
        """Cut the corners off above the eaves and trim the edges."""
        width, eaves, rise = self.width, self.house.eaves, self.house.rise
        top = eaves + rise + 0.1
        for x, outside in ((0.0, -0.1), (width, width + 0.1)):
            self.hole(
                [(outside, eaves), (x, eaves), (width / 2, eaves + rise), (width / 2, top), (outside, top)]
            )
            self.line([(x, eaves), (width / 2, eaves + rise)], (60, 50, 44), 0.22)

    def window(self, x: float, sill: float, size: tuple[float, float]) -> None:
        """Window centred on `x`: frame, panes, curtains, sill; a light on behind some."""
        house, look, rng = self.house, self.look, self.passing
        wide, tall = size
        left, right, top = x - wide / 2, x + wide / 2, sill + tall
        if house.style.surround:
            self.rect(left - 0.18, sill - 0.1, right + 0.18, top + 0.22, shade(WHITE, 0.9))
        self.rect(left - 0.06, sill - 0.05, right + 0.06, top + 0.06, WHITE)
        if rng.random() < look.lit:
            self.rect(
                left, sill, right, top, WARM[int(rng.integers(len(WARM)))], float(rng.uniform(0.35, 1.0))
            )
        else:
            glass = rng.uniform(0.6, 1.5)
            self.rect(left, sill, right, top, shade((46, 54, 64), glass))
            self.rect(left, sill + tall * 0.55, right, top, shade((66, 78, 92), glass))
            curtain = float(rng.choice([0.0, 0.0, 0.12, 0.2, 0.5])) * wide
            for edge in ((left, left + curtain), (right - curtain, right)) if curtain else ():
                self.rect(edge[0], sill, edge[1], top, shade((190, 184, 172), rng.uniform(0.5, 1.0)))
        for pane in range(1, house.style.panes):
            bar = left + wide * pane / house.style.panes
            self.rect(bar - 0.04, sill, bar + 0.04, top, WHITE)
        if tall > 1.25:
            self.rect(left, sill + tall * 0.66, right, sill + tall * 0.66 + 0.06, WHITE)
        self.rect(
            left - 0.12, sill - 0.16, right + 0.12, sill - 0.05, SNOW if look.snow else shade(house.wall, 1.2)
        )
        self.rect(left - 0.1, sill - 0.24, right + 0.1, sill - 0.16, shade(house.wall, 0.62))

    def balcony(self, x: float, floor: float, width: float) -> None:
        """Slab and railing, with the shade below."""
        house, left, right = self.house, x - width / 2, x + width / 2
        self.rect(left, floor - 0.5, right, floor - 0.15, shade(house.wall, 0.5))
        self.rect(left, floor - 0.15, right, floor + 0.05, shade(house.wall, 0.95))
        self.rect(left, floor + 0.05, right, floor + 0.95, shade(house.accent, 0.7))
        for post in np.arange(left + 0.15, right, 0.3):
            self.rect(post, floor + 0.05, post + 0.12, floor + 0.9, shade(house.wall, 0.7))
        self.rect(left, floor + 0.9, right, floor + 1.0, SNOW if self.look.snow else (60, 60, 62))

    def door(self, x: float) -> None:
        """A front door with its frame and the window above it."""
        width, height = 1.0, 2.2
        self.rect(x - width / 2 - 0.15, 0.1, x + width / 2 + 0.15, height + 0.35, WHITE)
        self.rect(x - width / 2, 0.1, x + width / 2, height, self.house.accent)
        self.rect(x - width / 2 + 0.1, height + 0.05, x + width / 2 - 0.1, height + 0.28, (70, 80, 92))
        self.rect(x - width / 2, 0.0, x + width / 2, 0.15, (150, 148, 142))


def _plaster(rows: int, columns: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Smooth, with streaks run down by the rain."""
    streaks = rng.normal(0, 1, columns).astype(np.float32)
    fall = np.linspace(1, 0.2, rows, dtype=np.float32)[:, None]
    return 0.02 * streaks * fall + 0.02 * noise_crop("plaster", (rows, columns), rng, coarse=4)


def _masonry(
    size: tuple[int, int], spread: float, joints: tuple[float, float]
) -> Callable[[int, int, np.random.Generator], NDArray[np.float32]]:
    """Pieces of `size` pixels (height, width), each of a tone of its own, with lighter or darker joints between.

    `joints` are added to the tone of the horizontal and of the vertical ones.
    """
    high, wide = size

    def tones(rows: int, columns: int, rng: np.random.Generator) -> NDArray[np.float32]:
        of_pieces = rng.normal(0, spread, (rows // high + 1, columns // wide + 1)).astype(np.float32)
        tone = np.repeat(np.repeat(of_pieces, high, axis=0), wide, axis=1)[:rows, :columns]
        tone[::high] += joints[0]
        tone[:, ::wide] += joints[1]
        return tone

    return tones


_MATERIALS: dict[str, Callable[[int, int, np.random.Generator], NDArray[np.float32]]] = {
    "brick": _masonry((3, 6), 0.09, joints=(0.10, 0.0)),
    "plaster": _plaster,
    "stone": _masonry((9, 18), 0.06, joints=(-0.16, -0.07)),
    "panel": _masonry((56, 64), 0.035, joints=(-0.2, -0.2)),
}
