"""Fronts, side walls and roofs of the houses as textures."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from displace.datasets._town_canvas import Canvas, shade
from displace.datasets._town_looks import WARM, Look
from displace.datasets._town_plan import Building
from displace.datasets._town_random import noise_crop, stream
from displace.datasets._town_raster import Texture
from displace.datasets._town_styles import ACCENTS, Colour

SCALE = 20.0
"""Pixels per metre: about what the nearest front has on a picture of 320 pixels."""

_SNOW: Colour = (236, 240, 246)
_WHITE: Colour = (226, 224, 216)


def front(house: Building, look: Look) -> Texture:
    """Street side of a house; with the gable where the gable faces the street."""
    fixed, passing = stream(*house.key, "front"), stream(*house.key, "front", look.name)
    gabled = house.style.roof == "gable"
    canvas = _wall(house, house.width, house.eaves + (house.rise if gabled else 0), fixed)
    _ground_floor(canvas, house, look, fixed, passing)
    _upper_floors(canvas, house, look, fixed, passing)
    if gabled:
        _gable(canvas, house.width, house.eaves, house.rise)
        if house.rise > 2.4:
            _window(canvas, house, look, passing, house.width / 2, house.eaves + 0.3, (0.9, 1.1))
    else:
        canvas.rect(0, house.eaves - 0.35, house.width, house.eaves, shade(house.wall, 1.12))
        canvas.rect(0, house.eaves - 0.42, house.width, house.eaves - 0.35, shade(house.wall, 0.6))
    if look.snow:
        canvas.rect(0, house.eaves - 0.12, house.width, house.eaves, _SNOW)
    return canvas.pixels


def flank(house: Building, look: Look) -> Texture:
    """Side wall of a house, with few windows."""
    fixed, passing = stream(*house.key, "flank"), stream(*house.key, "flank", look.name)
    pointed = house.style.roof == "eaves"
    canvas = _wall(house, house.depth, house.eaves + (house.rise if pointed else 0), fixed)
    columns = [house.depth * at for at in ((0.25, 0.7) if fixed.random() < 0.6 else (0.5,))]
    for storey in range(house.storeys):
        floor = _floor(house, storey) + 0.9
        for x in columns:
            if fixed.random() < 0.6:
                _window(canvas, house, look, passing, x, floor, (0.9, 1.2))
    if pointed:
        _gable(canvas, house.depth, house.eaves, house.rise)
    return canvas.pixels


def roof(house: Building, width: float, slope: float, look: Look) -> Texture:
    """Slope of a roof, tiles in rows; white under snow."""
    rng = stream(*house.key, "roof")
    canvas = Canvas(width, slope, 10.0, house.roof)
    canvas.tone(1 + 0.10 * noise_crop("tiles", canvas.pixels.shape[:2], rng, coarse=16))
    for y in np.arange(0.0, slope, 0.4):
        canvas.line([(0, y), (width, y)], shade(house.roof, 0.78))
    if house.style.roof == "mansard" and width > 4:
        for x in np.arange(1.5, width - 1, 2.4):
            canvas.rect(x - 0.65, 0.3, x + 0.65, 2.2, _WHITE)
            canvas.rect(x - 0.45, 0.5, x + 0.45, 1.9, (48, 54, 64))
    elif rng.random() < 0.5 and width > 4 and slope > 3:
        x = float(rng.uniform(1.5, width - 1.5))
        canvas.rect(x - 0.5, slope * 0.4, x + 0.5, slope * 0.4 + 1.2, (70, 84, 100))
    if look.snow:
        cover = noise_crop("snow cover", canvas.pixels.shape[:2], rng, coarse=32) > -1.1
        canvas.pixels[cover, :3] = (np.array(_SNOW) * rng.uniform(0.94, 1.0)).astype(np.uint8)
    return canvas.pixels


def chimney(house: Building, look: Look) -> Texture:
    """Small wall on a roof."""
    canvas = Canvas(1.0, 1.0, 12.0, shade(house.wall, 0.8))
    canvas.rect(0, 0.85, 1.0, 1.0, _SNOW if look.snow else shade(house.wall, 0.55))
    return canvas.pixels


def _floor(house: Building, storey: int) -> float:
    """Height of a storey's floor."""
    return 0.2 if storey == 0 else 0.2 + house.style.ground_height + (storey - 1) * house.style.storey_height


def _wall(house: Building, width: float, height: float, rng: np.random.Generator) -> Canvas:
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
    bricks = rng.normal(0, 0.09, (rows // 3 + 1, columns // 6 + 1)).astype(np.float32)
    tone = np.repeat(np.repeat(bricks, 3, axis=0), 6, axis=1)[:rows, :columns]
    tone[::3] += 0.10
    return tone


def _plaster(rows: int, columns: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Smooth, with streaks run down by the rain."""
    streaks = rng.normal(0, 1, columns).astype(np.float32)
    fall = np.linspace(1, 0.2, rows, dtype=np.float32)[:, None]
    fine: NDArray[np.float32] = 0.02 * streaks * fall + 0.02 * noise_crop("plaster", (rows, columns), rng, coarse=4)
    return fine


def _stone(rows: int, columns: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Blocks with dark joints."""
    blocks = rng.normal(0, 0.06, (rows // 9 + 1, columns // 18 + 1)).astype(np.float32)
    tone = np.repeat(np.repeat(blocks, 9, axis=0), 18, axis=1)[:rows, :columns]
    tone[::9] -= 0.16
    tone[:, ::18] -= 0.07
    return tone


def _panel(rows: int, columns: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Large plates."""
    plates = rng.normal(0, 0.035, (rows // 56 + 1, columns // 64 + 1)).astype(np.float32)
    tone = np.repeat(np.repeat(plates, 56, axis=0), 64, axis=1)[:rows, :columns]
    tone[::56] -= 0.2
    tone[:, ::64] -= 0.2
    return tone


_MATERIALS: dict[str, Callable[[int, int, np.random.Generator], NDArray[np.float32]]] = {
    "brick": _brick,
    "plaster": _plaster,
    "stone": _stone,
    "panel": _panel,
}


def _gable(canvas: Canvas, width: float, eaves: float, rise: float) -> None:
    """Cut the corners off above the eaves and trim the edges."""
    top = eaves + rise + 0.1
    for x, outside in ((0.0, -0.1), (width, width + 0.1)):
        canvas.hole([(outside, eaves), (x, eaves), (width / 2, eaves + rise), (width / 2, top), (outside, top)])
        canvas.line([(x, eaves), (width / 2, eaves + rise)], (60, 50, 44), 0.22)


def _upper_floors(
    canvas: Canvas, house: Building, look: Look, fixed: np.random.Generator, passing: np.random.Generator
) -> None:
    """Rows of windows, some with balconies."""
    style = house.style
    bays = max(1, round(house.width / style.bay))
    pitch = house.width / bays
    balcony_column = [fixed.random() < style.balconies for _ in range(bays)]
    wide, tall = min(style.window[0], pitch - 0.3), style.window[1]
    for storey in range(1, house.storeys):
        sill = _floor(house, storey) + 0.55 * (style.storey_height - tall) + 0.25
        for bay in range(bays):
            x = (bay + 0.5) * pitch
            _window(canvas, house, look, passing, x, sill, (wide, tall))
            if balcony_column[bay]:
                _balcony(canvas, house, x, sill - 0.35, min(pitch - 0.2, wide + 0.9), bool(look.snow))
        if style.material in ("stone", "plaster"):
            level = _floor(house, storey)
            canvas.rect(0, level - 0.1, house.width, level + 0.05, shade(house.wall, 1.1))
            canvas.rect(0, level - 0.16, house.width, level - 0.1, shade(house.wall, 0.72))


def _window(
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
        canvas.rect(left - 0.18, sill - 0.1, right + 0.18, top + 0.22, shade(_WHITE, 0.9))
    canvas.rect(left - 0.06, sill - 0.05, right + 0.06, top + 0.06, _WHITE)
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
        canvas.rect(bar - 0.04, sill, bar + 0.04, top, _WHITE)
    if tall > 1.25:
        canvas.rect(left, sill + tall * 0.66, right, sill + tall * 0.66 + 0.06, _WHITE)
    canvas.rect(left - 0.12, sill - 0.16, right + 0.12, sill - 0.05, _SNOW if look.snow else shade(house.wall, 1.2))
    canvas.rect(left - 0.1, sill - 0.24, right + 0.1, sill - 0.16, shade(house.wall, 0.62))


def _balcony(canvas: Canvas, house: Building, x: float, floor: float, width: float, snow: bool) -> None:
    """Slab and railing, with the shade below."""
    left, right = x - width / 2, x + width / 2
    canvas.rect(left, floor - 0.5, right, floor - 0.15, shade(house.wall, 0.5))
    canvas.rect(left, floor - 0.15, right, floor + 0.05, shade(house.wall, 0.95))
    canvas.rect(left, floor + 0.05, right, floor + 0.95, shade(house.accent, 0.7))
    for post in np.arange(left + 0.15, right, 0.3):
        canvas.rect(post, floor + 0.05, post + 0.12, floor + 0.9, shade(house.wall, 0.7))
    canvas.rect(left, floor + 0.9, right, floor + 1.0, _SNOW if snow else (60, 60, 62))


def _ground_floor(
    canvas: Canvas, house: Building, look: Look, fixed: np.random.Generator, passing: np.random.Generator
) -> None:
    """Doors and what is between them."""
    _GROUND_FLOORS[house.style.ground_floor](canvas, house, look, fixed, passing)


def _door(canvas: Canvas, house: Building, x: float, width: float = 1.0, height: float = 2.2) -> None:
    canvas.rect(x - width / 2 - 0.15, 0.1, x + width / 2 + 0.15, height + 0.35, _WHITE)
    canvas.rect(x - width / 2, 0.1, x + width / 2, height, house.accent)
    canvas.rect(x - width / 2 + 0.1, height + 0.05, x + width / 2 - 0.1, height + 0.28, (70, 80, 92))
    canvas.rect(x - width / 2, 0.0, x + width / 2, 0.15, (150, 148, 142))


def _house(
    canvas: Canvas, house: Building, look: Look, fixed: np.random.Generator, passing: np.random.Generator
) -> None:
    """One door, windows beside it."""
    bays = max(2, round(house.width / house.style.bay))
    door = int(fixed.integers(bays))
    for bay in range(bays):
        x = (bay + 0.5) * house.width / bays
        if bay == door:
            _door(canvas, house, x)
        else:
            _window(canvas, house, look, passing, x, 1.1, (min(1.2, house.width / bays - 0.3), 1.4))


def _steps(
    canvas: Canvas, house: Building, look: Look, fixed: np.random.Generator, passing: np.random.Generator
) -> None:
    """A raised door with a porch, over a basement."""
    canvas.rect(0, 0, house.width, 1.0, shade(house.wall, 0.75))
    _house(canvas, house, look, fixed, passing)
    canvas.rect(0, house.style.ground_height - 0.1, house.width, house.style.ground_height + 0.15, shade(_WHITE, 0.9))


def _garage(
    canvas: Canvas, house: Building, look: Look, fixed: np.random.Generator, passing: np.random.Generator
) -> None:
    """A garage door beside a door and a window."""
    left = fixed.random() < 0.5
    garage, door, window = (0.24, 0.56, 0.8) if left else (0.76, 0.44, 0.2)
    x = garage * house.width
    canvas.rect(x - 1.35, 0.05, x + 1.35, 2.3, shade(_WHITE, 0.85))
    for y in np.arange(0.4, 2.2, 0.4):
        canvas.rect(x - 1.35, y, x + 1.35, y + 0.05, (150, 150, 150))
    _door(canvas, house, door * house.width)
    _window(canvas, house, look, passing, window * house.width, 1.0, (1.3, 1.3))


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
            _window(canvas, house, look, passing, x, 1.1, house.style.window)


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
        door = int(fixed.integers(panes))
        for pane in range(panes):
            x0 = left + 0.12 + pane * (right - left - 0.24) / panes
            x1 = x0 + (right - left - 0.24) / panes - 0.12
            low = 0.15 if pane == door else 0.65
            glass = WARM[2] if lit else shade((58, 66, 74), passing.uniform(0.7, 1.5))
            canvas.rect(x0, low, x1, top - 1.1, glass, 0.8 if lit else 0.0)
            goods = ACCENTS[int(passing.integers(len(ACCENTS)))]
            canvas.rect(x0 + 0.1, low, x1 - 0.1, low + passing.uniform(0.2, 0.9), shade(goods, 1.1), 0.3 if lit else 0.0)
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
