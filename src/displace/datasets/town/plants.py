"""Trees and hedges in every state of their leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from displace.datasets.town.canvas import Canvas, shade
from displace.datasets.town.randomness import noise_crop, stream
from displace.datasets.town.raster import Texture
from displace.datasets.town.styles import SNOW, Colour


@dataclass(frozen=True)
class Foliage:
    """State of the leaves: their number, their colours, and snow on the branches."""

    leaves: int
    colours: tuple[Colour, ...]
    snow: bool = False


FOLIAGE = {
    "green": Foliage(1700, ((62, 92, 38), (78, 108, 46), (52, 80, 40), (94, 116, 52))),
    "autumn": Foliage(650, ((168, 118, 40), (186, 140, 52), (148, 90, 38), (120, 110, 50))),
    "sparse": Foliage(170, ((146, 96, 42), (120, 92, 44), (98, 88, 48))),
    "bare": Foliage(0, ((0, 0, 0),)),
    "snowy": Foliage(0, ((0, 0, 0),), snow=True),
}

_WIDTH, _HEIGHT, _SCALE = 6.0, 9.0, 16.0
_BARK: Colour = (70, 58, 48)


def tree(variant: int, leaves: str) -> Texture:
    """Drawing of a tree, to be stretched to its size; one of several for each state of the leaves."""
    foliage = FOLIAGE[leaves]
    canvas = Canvas(_WIDTH, _HEIGHT, _SCALE)
    rng = stream("tree", variant)
    _branch(canvas, rng, (_WIDTH / 2, 0.0), math.pi / 2, _HEIGHT * 0.29, 0.34, 6, foliage.snow)
    # Boughs: where the foliage gathers. They belong to the tree, whatever the season.
    boughs = np.column_stack([rng.uniform(0.22, 0.78, 12) * _WIDTH, rng.uniform(0.42, 0.86, 12) * _HEIGHT])
    _leaves(canvas, stream("leaves", variant, leaves), boughs, foliage)
    return canvas.pixels


def _leaves(canvas: Canvas, rng: np.random.Generator, boughs: NDArray[np.float64], foliage: Foliage) -> None:
    """Clumps of leaves, back to front: the first are in the shade, the last catch the light of the sky."""
    n = foliage.leaves
    points = boughs[rng.integers(len(boughs), size=n)] + rng.normal(0, (0.5, 0.45), (n, 2))
    low, high = boughs[:, 1].min(), boughs[:, 1].max()
    light = (
        0.42
        + 0.4 * np.arange(n) / max(1, n)
        + 0.35 * (points[:, 1] - low) / (high - low)
        + rng.uniform(-0.12, 0.12, n)
    )
    colours = np.array(foliage.colours)[rng.integers(len(foliage.colours), size=n)] * light[:, None]
    canvas.discs(points, rng.uniform(0.08, 0.3, n), colours.clip(0, 255))


def _branch(
    canvas: Canvas,
    rng: np.random.Generator,
    start: tuple[float, float],
    angle: float,
    length: float,
    width: float,
    order: int,
    snow: bool,
) -> None:
    """Draw a branch and those that grow from it."""
    end = (start[0] + length * math.cos(angle), start[1] + length * math.sin(angle))
    canvas.line([start, end], shade(_BARK, float(rng.uniform(0.8, 1.2))), width)
    if snow and order < 6:
        lift = width / 2 + 0.04
        canvas.line([(start[0], start[1] + lift), (end[0], end[1] + lift)], SNOW, width * 0.55)
    if order == 0:
        return
    for turn in (-1, 1) if rng.random() < 0.75 else (-1, 0.1, 1):
        spread = float(turn * rng.uniform(0.25, 0.62) + rng.normal(0, 0.08))
        _branch(
            canvas,
            rng,
            end,
            angle + spread,
            length * float(rng.uniform(0.6, 0.82)),
            width * 0.66,
            order - 1,
            snow,
        )


def border(kind: str, variant: int, leaves: str, snow: bool) -> Texture:
    """Four metres of hedge, fence or garden wall."""
    return {"hedge": _hedge, "fence": _fence, "wall": _garden_wall}[kind](variant, leaves, snow)


def _hedge(variant: int, leaves: str, snow: bool) -> Texture:
    canvas = Canvas(4.0, 1.0, 20.0, (58, 78, 42) if leaves != "bare" else (72, 76, 50))
    rng = stream("hedge", variant)
    canvas.tone(1 + 0.28 * noise_crop("hedge", canvas.pixels.shape[:2], rng, coarse=4))
    if snow:
        canvas.pixels[: 6 + variant % 3, :, :3] = SNOW
    return canvas.pixels


def _fence(variant: int, leaves: str, snow: bool) -> Texture:  # noqa: ARG001 (all borders are painted alike)
    canvas = Canvas(4.0, 1.0, 20.0)
    metal = ((52, 56, 60), (196, 192, 182), (96, 74, 54))[variant % 3]
    for x in np.arange(0.0, 4.0, 0.25):
        canvas.rect(x, 0, x + 0.1, 0.95, metal)
    for y in (0.15, 0.8):
        canvas.rect(0, y, 4, y + 0.1, SNOW if snow else metal)
    return canvas.pixels


def _garden_wall(variant: int, leaves: str, snow: bool) -> Texture:  # noqa: ARG001
    colour = ((140, 84, 64), (160, 154, 142), (124, 76, 60))[variant % 3]
    canvas = Canvas(4.0, 1.0, 20.0, colour)
    rng = stream("garden wall", variant)
    canvas.tone(1 + 0.12 * noise_crop("garden wall", canvas.pixels.shape[:2], rng, coarse=4))
    canvas.rect(0, 0.88, 4, 1.0, SNOW if snow else (170, 166, 158))
    return canvas.pixels
