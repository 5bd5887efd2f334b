"""Fronts, side walls and roofs of the houses as textures."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from displace.datasets.town.canvas import Canvas, shade
from displace.datasets.town.looks import WARM, Look
from displace.datasets.town.plan import Building
from displace.datasets.town.randomness import noise_crop, stream
from displace.datasets.town.raster import Texture
from displace.datasets.town.styles import ACCENTS, SNOW, WHITE, Colour
from displace.datasets.town.walls import Wall


def front(house: Building, look: Look) -> Texture:
    """Street side of a house; with the gable where the gable faces the street."""
    gabled = house.style.roof == "gable"
    wall = Wall(house, look, "front", house.width, house.eaves + (house.rise if gabled else 0))
    _GROUND_FLOORS[house.style.ground_floor](wall)
    _upper_floors(wall)
    if gabled:
        wall.gable()
        if house.rise > 2.4:
            wall.window(house.width / 2, house.eaves + 0.3, (0.9, 1.1))
    else:
        wall.rect(0, house.eaves - 0.35, house.width, house.eaves, shade(house.wall, 1.12))
        wall.rect(0, house.eaves - 0.42, house.width, house.eaves - 0.35, shade(house.wall, 0.6))
    if look.snow:
        wall.rect(0, house.eaves - 0.12, house.width, house.eaves, SNOW)
    return wall.pixels


def flank(house: Building, look: Look) -> Texture:
    """Side wall of a house, with few windows."""
    pointed = house.style.roof == "eaves"
    wall = Wall(house, look, "flank", house.depth, house.eaves + (house.rise if pointed else 0))
    columns = [house.depth * at for at in ((0.25, 0.7) if wall.fixed.random() < 0.6 else (0.5,))]
    for storey in range(house.storeys):
        floor = _floor(house, storey) + 0.9
        for x in columns:
            if wall.fixed.random() < 0.6:
                wall.window(x, floor, (0.9, 1.2))
    if pointed:
        wall.gable()
    return wall.pixels


def roof(house: Building, width: float, slope: float, look: Look) -> Texture:
    """Slope of a roof, tiles in rows; white under snow."""
    rng = stream(*house.key, "roof")
    canvas = Canvas(width, slope, 10.0, house.roof)
    canvas.tone(1 + 0.10 * noise_crop("tiles", canvas.pixels.shape[:2], rng, coarse=16))
    for y in np.arange(0.0, slope, 0.4):
        canvas.line([(0, y), (width, y)], shade(house.roof, 0.78))
    if house.style.roof == "mansard" and width > 4:
        for x in np.arange(1.5, width - 1, 2.4):
            canvas.rect(x - 0.65, 0.3, x + 0.65, 2.2, WHITE)
            canvas.rect(x - 0.45, 0.5, x + 0.45, 1.9, (48, 54, 64))
    elif rng.random() < 0.5 and width > 4 and slope > 3:
        x = float(rng.uniform(1.5, width - 1.5))
        canvas.rect(x - 0.5, slope * 0.4, x + 0.5, slope * 0.4 + 1.2, (70, 84, 100))
    if look.snow:
        cover = noise_crop("snow cover", canvas.pixels.shape[:2], rng, coarse=32) > -1.1
        canvas.pixels[cover, :3] = (np.array(SNOW) * rng.uniform(0.94, 1.0)).astype(np.uint8)
    return canvas.pixels


def chimney(house: Building, look: Look) -> Texture:
    """Small wall on a roof."""
    canvas = Canvas(1.0, 1.0, 12.0, shade(house.wall, 0.8))
    canvas.rect(0, 0.85, 1.0, 1.0, SNOW if look.snow else shade(house.wall, 0.55))
    return canvas.pixels


def _upper_floors(wall: Wall) -> None:
    """Rows of windows, some with balconies."""
    house, style = wall.house, wall.house.style
    bays = max(1, round(house.width / style.bay))
    pitch = house.width / bays
    balcony_column = [wall.fixed.random() < style.balconies for _ in range(bays)]
    wide, tall = min(style.window[0], pitch - 0.3), style.window[1]
    for storey in range(1, house.storeys):
        sill = _floor(house, storey) + 0.55 * (style.storey_height - tall) + 0.25
        for bay in range(bays):
            x = (bay + 0.5) * pitch
            wall.window(x, sill, (wide, tall))
            if balcony_column[bay]:
                wall.balcony(x, sill - 0.35, min(pitch - 0.2, wide + 0.9))
        if style.material in ("stone", "plaster"):
            level = _floor(house, storey)
            wall.rect(0, level - 0.1, house.width, level + 0.05, shade(house.wall, 1.1))
            wall.rect(0, level - 0.16, house.width, level - 0.1, shade(house.wall, 0.72))


def _floor(house: Building, storey: int) -> float:
    """Height of a storey's floor."""
    return 0.2 if storey == 0 else 0.2 + house.style.ground_height + (storey - 1) * house.style.storey_height


def _house(wall: Wall) -> None:
    """One door, windows beside it."""
    house = wall.house
    bays = max(2, round(house.width / house.style.bay))
    entrance = int(wall.fixed.integers(bays))
    for bay in range(bays):
        x = (bay + 0.5) * house.width / bays
        if bay == entrance:
            wall.door(x)
        else:
            wall.window(x, 1.1, (min(1.2, house.width / bays - 0.3), 1.4))


def _steps(wall: Wall) -> None:
    """A raised door with a porch, over a basement."""
    top = wall.house.style.ground_height
    wall.rect(0, 0, wall.width, 1.0, shade(wall.house.wall, 0.75))
    _house(wall)
    wall.rect(0, top - 0.1, wall.width, top + 0.15, shade(WHITE, 0.9))


def _garage(wall: Wall) -> None:
    """A garage door beside a door and a window."""
    left = wall.fixed.random() < 0.5
    at_garage, at_door, at_window = (0.24, 0.56, 0.8) if left else (0.76, 0.44, 0.2)
    x = at_garage * wall.width
    wall.rect(x - 1.35, 0.05, x + 1.35, 2.3, shade(WHITE, 0.85))
    for y in np.arange(0.4, 2.2, 0.4):
        wall.rect(x - 1.35, y, x + 1.35, y + 0.05, (150, 150, 150))
    wall.door(at_door * wall.width)
    wall.window(at_window * wall.width, 1.0, (1.3, 1.3))


def _entrance(wall: Wall) -> None:
    """Glazed entrances of a block under canopies, flats between."""
    house = wall.house
    bays = max(2, round(house.width / house.style.bay))
    every = int(wall.fixed.integers(3, 5))
    for bay in range(bays):
        x = (bay + 0.5) * house.width / bays
        if bay % every == 1:
            wall.rect(x - 0.9, 0.1, x + 0.9, 2.5, (72, 82, 90), 0.5 if wall.look.lit > 0.2 else 0.0)
            wall.rect(x - 0.05, 0.1, x + 0.05, 2.5, (190, 190, 186))
            wall.rect(x - 1.3, 2.5, x + 1.3, 2.85, house.accent)
        else:
            wall.window(x, 1.1, house.style.window)


def _shop(wall: Wall) -> None:
    """Shop windows, a door, a sign and sometimes an awning."""
    house, look, fixed, passing = wall.house, wall.look, wall.fixed, wall.passing
    top = house.style.ground_height
    units = max(1, round(house.width / 8))
    for unit in range(units):
        left, right = unit * house.width / units + 0.3, (unit + 1) * house.width / units - 0.3
        colour = house.accent if unit == 0 else ACCENTS[int(fixed.integers(len(ACCENTS)))]
        wall.rect(left, 0.1, right, top - 0.2, shade(colour, 0.75))
        panes = max(2, int((right - left) / 1.8))
        lit = passing.random() < 2 * look.lit
        entrance = int(fixed.integers(panes))
        for pane in range(panes):
            x0 = left + 0.12 + pane * (right - left - 0.24) / panes
            x1 = x0 + (right - left - 0.24) / panes - 0.12
            low = 0.15 if pane == entrance else 0.65
            glass = WARM[2] if lit else shade((58, 66, 74), passing.uniform(0.7, 1.5))
            wall.rect(x0, low, x1, top - 1.1, glass, 0.8 if lit else 0.0)
            goods = ACCENTS[int(passing.integers(len(ACCENTS)))]
            wall.rect(
                x0 + 0.1,
                low,
                x1 - 0.1,
                low + passing.uniform(0.2, 0.9),
                shade(goods, 1.1),
                0.3 if lit else 0.0,
            )
        _sign(wall, left, right, top - 0.95, colour, 0.55 if look.lit > 0.2 else 0.0)
        if passing.random() < 0.4:
            _awning(wall, left, right, top - 1.0, ACCENTS[int(fixed.integers(len(ACCENTS)))])


def _sign(wall: Wall, left: float, right: float, y: float, colour: Colour, glow: float) -> None:
    """Board with a row of strokes that reads as lettering from afar."""
    rng = wall.fixed
    wall.rect(left, y, right, y + 0.75, colour, glow * 0.5)
    x = left + float(rng.uniform(0.3, 1.0))
    for _ in range(int(rng.integers(4, 11))):
        width = float(rng.uniform(0.15, 0.4))
        if x + width > right - 0.2:
            break
        wall.rect(x, y + 0.2, x + width, y + rng.uniform(0.45, 0.62), (238, 234, 220), glow)
        wall.rect(x + width * 0.35, y + 0.25, x + width * 0.6, y + 0.38, colour, glow * 0.5)
        x += width + 0.12


def _awning(wall: Wall, left: float, right: float, y: float, colour: Colour) -> None:
    """Striped awning, let down."""
    for i, x in enumerate(np.arange(left, right, 0.45)):
        stripe = colour if i % 2 else (228, 224, 214)
        wall.rect(x, y - 0.75, min(right, x + 0.45), y, stripe)
    wall.rect(left, y - 1.05, right, y - 0.75, (30, 30, 32))


_GROUND_FLOORS: dict[str, Callable[[Wall], None]] = {
    "house": _house,
    "steps": _steps,
    "garage": _garage,
    "entrance": _entrance,
    "shop": _shop,
}
