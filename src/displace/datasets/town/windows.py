"""Windows, balconies and doors."""

from __future__ import annotations

import numpy as np

from displace.datasets.town.canvas import Canvas, shade
from displace.datasets.town.looks import WARM, Look
from displace.datasets.town.plan import Building
from displace.datasets.town.styles import SNOW, WHITE


def window(
    canvas: Canvas,
    house: Building,
    look: Look,
    rng: np.random.Generator,
    x: float,
    sill: float,
    size: tuple[float, float],
) -> None:
    """Window centred on `x`: frame, panes, curtains, sill; a light on behind some."""
    wide, tall = size
    left, right, top = x - wide / 2, x + wide / 2, sill + tall
    if house.style.surround:
        canvas.rect(left - 0.18, sill - 0.1, right + 0.18, top + 0.22, shade(WHITE, 0.9))
    canvas.rect(left - 0.06, sill - 0.05, right + 0.06, top + 0.06, WHITE)
    if rng.random() < look.lit:
        canvas.rect(left, sill, right, top, WARM[int(rng.integers(len(WARM)))], float(rng.uniform(0.35, 1.0)))
    else:
        glass = rng.uniform(0.6, 1.5)
        canvas.rect(left, sill, right, top, shade((46, 54, 64), glass))
        canvas.rect(left, sill + tall * 0.55, right, top, shade((66, 78, 92), glass))
        curtain = float(rng.choice([0.0, 0.0, 0.12, 0.2, 0.5])) * wide
        for edge in ((left, left + curtain), (right - curtain, right)) if curtain else ():
            canvas.rect(edge[0], sill, edge[1], top, shade((190, 184, 172), rng.uniform(0.5, 1.0)))
    for pane in range(1, house.style.panes):
        bar = left + wide * pane / house.style.panes
        canvas.rect(bar - 0.04, sill, bar + 0.04, top, WHITE)
    if tall > 1.25:
        canvas.rect(left, sill + tall * 0.66, right, sill + tall * 0.66 + 0.06, WHITE)
    canvas.rect(
        left - 0.12, sill - 0.16, right + 0.12, sill - 0.05, SNOW if look.snow else shade(house.wall, 1.2)
    )
    canvas.rect(left - 0.1, sill - 0.24, right + 0.1, sill - 0.16, shade(house.wall, 0.62))


def balcony(canvas: Canvas, house: Building, x: float, floor: float, width: float, snow: bool) -> None:
    """Slab and railing, with the shade below."""
    left, right = x - width / 2, x + width / 2
    canvas.rect(left, floor - 0.5, right, floor - 0.15, shade(house.wall, 0.5))
    canvas.rect(left, floor - 0.15, right, floor + 0.05, shade(house.wall, 0.95))
    canvas.rect(left, floor + 0.05, right, floor + 0.95, shade(house.accent, 0.7))
    for post in np.arange(left + 0.15, right, 0.3):
        canvas.rect(post, floor + 0.05, post + 0.12, floor + 0.9, shade(house.wall, 0.7))
    canvas.rect(left, floor + 0.9, right, floor + 1.0, SNOW if snow else (60, 60, 62))


def door(canvas: Canvas, house: Building, x: float) -> None:
    """A front door with its frame and the window above it."""
    width, height = 1.0, 2.2
    canvas.rect(x - width / 2 - 0.15, 0.1, x + width / 2 + 0.15, height + 0.35, WHITE)
    canvas.rect(x - width / 2, 0.1, x + width / 2, height, house.accent)
    canvas.rect(x - width / 2 + 0.1, height + 0.05, x + width / 2 - 0.1, height + 0.28, (70, 80, 92))
    canvas.rect(x - width / 2, 0.0, x + width / 2, 0.15, (150, 148, 142))
