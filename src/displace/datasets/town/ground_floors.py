"""Ground floors: doors, shops, garages and what is between them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from displace.datasets.town.canvas import Canvas, shade
from displace.datasets.town.looks import WARM, Look
from displace.datasets.town.plan import Building
from displace.datasets.town.styles import ACCENTS, WHITE, Colour
from displace.datasets.town.walls import door, window


def ground_floor(
    canvas: Canvas, house: Building, look: Look, fixed: np.random.Generator, passing: np.random.Generator
) -> None:
    """Doors and what is between them."""
    _GROUND_FLOORS[house.style.ground_floor](canvas, house, look, fixed, passing)


def _house(
    canvas: Canvas, house: Building, look: Look, fixed: np.random.Generator, passing: np.random.Generator
) -> None:
    """One door, windows beside it."""
    bays = max(2, round(house.width / house.style.bay))
    entrance = int(fixed.integers(bays))
    for bay in range(bays):
        x = (bay + 0.5) * house.width / bays
        if bay == entrance:
            door(canvas, house, x)
        else:
            window(canvas, house, look, passing, x, 1.1, (min(1.2, house.width / bays - 0.3), 1.4))


def _steps(
    canvas: Canvas, house: Building, look: Look, fixed: np.random.Generator, passing: np.random.Generator
) -> None:
    """A raised door with a porch, over a basement."""
    canvas.rect(0, 0, house.width, 1.0, shade(house.wall, 0.75))
    _house(canvas, house, look, fixed, passing)
    canvas.rect(
        0, house.style.ground_height - 0.1, house.width, house.style.ground_height + 0.15, shade(WHITE, 0.9)
    )


def _garage(
    canvas: Canvas, house: Building, look: Look, fixed: np.random.Generator, passing: np.random.Generator
) -> None:
    """A garage door beside a door and a window."""
    left = fixed.random() < 0.5
    at_garage, at_door, at_window = (0.24, 0.56, 0.8) if left else (0.76, 0.44, 0.2)
    x = at_garage * house.width
    canvas.rect(x - 1.35, 0.05, x + 1.35, 2.3, shade(WHITE, 0.85))
    for y in np.arange(0.4, 2.2, 0.4):
        canvas.rect(x - 1.35, y, x + 1.35, y + 0.05, (150, 150, 150))
    door(canvas, house, at_door * house.width)
    window(canvas, house, look, passing, at_window * house.width, 1.0, (1.3, 1.3))


def _entrance(
    canvas: Canvas, house: Building, look: Look, fixed: np.random.Generator, passing: np.random.Generator
) -> None:
    """Glazed entrances of a block under canopies, flats between."""
    bays = max(2, round(house.width / house.style.bay))
    every = int(fixed.integers(3, 5))
    for bay in range(bays):
        x = (bay + 0.5) * house.width / bays
        if bay % every == 1:
            canvas.rect(x - 0.9, 0.1, x + 0.9, 2.5, (72, 82, 90), 0.5 if look.lit > 0.2 else 0.0)
            canvas.rect(x - 0.05, 0.1, x + 0.05, 2.5, (190, 190, 186))
            canvas.rect(x - 1.3, 2.5, x + 1.3, 2.85, house.accent)
        else:
            window(canvas, house, look, passing, x, 1.1, house.style.window)


def _shop(
    canvas: Canvas, house: Building, look: Look, fixed: np.random.Generator, passing: np.random.Generator
) -> None:
    """Shop windows, a door, a sign and sometimes an awning."""
    top = house.style.ground_height
    units = max(1, round(house.width / 8))
    for unit in range(units):
        left, right = unit * house.width / units + 0.3, (unit + 1) * house.width / units - 0.3
        colour = house.accent if unit == 0 else ACCENTS[int(fixed.integers(len(ACCENTS)))]
        canvas.rect(left, 0.1, right, top - 0.2, shade(colour, 0.75))
        panes = max(2, int((right - left) / 1.8))
        lit = passing.random() < 2 * look.lit
        entrance = int(fixed.integers(panes))
        for pane in range(panes):
            x0 = left + 0.12 + pane * (right - left - 0.24) / panes
            x1 = x0 + (right - left - 0.24) / panes - 0.12
            low = 0.15 if pane == entrance else 0.65
            glass = WARM[2] if lit else shade((58, 66, 74), passing.uniform(0.7, 1.5))
            canvas.rect(x0, low, x1, top - 1.1, glass, 0.8 if lit else 0.0)
            goods = ACCENTS[int(passing.integers(len(ACCENTS)))]
            canvas.rect(
                x0 + 0.1,
                low,
                x1 - 0.1,
                low + passing.uniform(0.2, 0.9),
                shade(goods, 1.1),
                0.3 if lit else 0.0,
            )
        _sign(canvas, left, right, top - 0.95, colour, fixed, 0.55 if look.lit > 0.2 else 0.0)
        if passing.random() < 0.4:
            _awning(canvas, left, right, top - 1.0, ACCENTS[int(fixed.integers(len(ACCENTS)))])


def _sign(
    canvas: Canvas, left: float, right: float, y: float, colour: Colour, rng: np.random.Generator, glow: float
) -> None:
    """Board with a row of strokes that reads as lettering from afar."""
    canvas.rect(left, y, right, y + 0.75, colour, glow * 0.5)
    x = left + float(rng.uniform(0.3, 1.0))
    for _ in range(int(rng.integers(4, 11))):
        width = float(rng.uniform(0.15, 0.4))
        if x + width > right - 0.2:
            break
        canvas.rect(x, y + 0.2, x + width, y + rng.uniform(0.45, 0.62), (238, 234, 220), glow)
        canvas.rect(x + width * 0.35, y + 0.25, x + width * 0.6, y + 0.38, colour, glow * 0.5)
        x += width + 0.12


def _awning(canvas: Canvas, left: float, right: float, y: float, colour: Colour) -> None:
    """Striped awning, let down."""
    for i, x in enumerate(np.arange(left, right, 0.45)):
        stripe = colour if i % 2 else (228, 224, 214)
        canvas.rect(x, y - 0.75, min(right, x + 0.45), y, stripe)
    canvas.rect(left, y - 1.05, right, y - 0.75, (30, 30, 32))


_GROUND_FLOORS: dict[
    str, Callable[[Canvas, Building, Look, np.random.Generator, np.random.Generator], None]
] = {"house": _house, "steps": _steps, "garage": _garage, "entrance": _entrance, "shop": _shop}
