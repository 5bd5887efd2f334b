"""Fronts, side walls and roofs of the houses as textures."""

from __future__ import annotations

import numpy as np

from displace.datasets.town.canvas import Canvas, shade
from displace.datasets.town.ground_floors import ground_floor
from displace.datasets.town.looks import Look
from displace.datasets.town.plan import Building
from displace.datasets.town.randomness import noise_crop, stream
from displace.datasets.town.raster import Texture
from displace.datasets.town.styles import SNOW, WHITE
from displace.datasets.town.walls import balcony, gable, wall, window


def front(house: Building, look: Look) -> Texture:
    """Street side of a house; with the gable where the gable faces the street."""
    fixed, passing = stream(*house.key, "front"), stream(*house.key, "front", look.name)
    gabled = house.style.roof == "gable"
    canvas = wall(house, house.width, house.eaves + (house.rise if gabled else 0), fixed)
    ground_floor(canvas, house, look, fixed, passing)
    _upper_floors(canvas, house, look, fixed, passing)
    if gabled:
        gable(canvas, house.width, house.eaves, house.rise)
        if house.rise > 2.4:
            window(canvas, house, look, passing, house.width / 2, house.eaves + 0.3, (0.9, 1.1))
    else:
        canvas.rect(0, house.eaves - 0.35, house.width, house.eaves, shade(house.wall, 1.12))
        canvas.rect(0, house.eaves - 0.42, house.width, house.eaves - 0.35, shade(house.wall, 0.6))
    if look.snow:
        canvas.rect(0, house.eaves - 0.12, house.width, house.eaves, SNOW)
    return canvas.pixels


def flank(house: Building, look: Look) -> Texture:
    """Side wall of a house, with few windows."""
    fixed, passing = stream(*house.key, "flank"), stream(*house.key, "flank", look.name)
    pointed = house.style.roof == "eaves"
    canvas = wall(house, house.depth, house.eaves + (house.rise if pointed else 0), fixed)
    columns = [house.depth * at for at in ((0.25, 0.7) if fixed.random() < 0.6 else (0.5,))]
    for storey in range(house.storeys):
        floor = _floor(house, storey) + 0.9
        for x in columns:
            if fixed.random() < 0.6:
                window(canvas, house, look, passing, x, floor, (0.9, 1.2))
    if pointed:
        gable(canvas, house.depth, house.eaves, house.rise)
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
            window(canvas, house, look, passing, x, sill, (wide, tall))
            if balcony_column[bay]:
                balcony(canvas, house, x, sill - 0.35, min(pitch - 0.2, wide + 0.9), bool(look.snow))
        if style.material in ("stone", "plaster"):
            level = _floor(house, storey)
            canvas.rect(0, level - 0.1, house.width, level + 0.05, shade(house.wall, 1.1))
            canvas.rect(0, level - 0.16, house.width, level - 0.1, shade(house.wall, 0.72))


def _floor(house: Building, storey: int) -> float:
    """Height of a storey's floor."""
    return 0.2 if storey == 0 else 0.2 + house.style.ground_height + (storey - 1) * house.style.storey_height
