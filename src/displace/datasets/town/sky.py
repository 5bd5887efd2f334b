"""The sky, its clouds, and the skyline on the horizon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from displace.datasets.town.looks import Look
from displace.datasets.town.randomness import TILE, noise, stream

_BINS = 2048


def planes(values: Sequence[float], factor: float = 1.0) -> NDArray[np.float32]:
    """Three numbers, times `factor`, in a shape (3, 1, 1) that goes with planes (3, height, width)."""
    return (np.array(values) * factor).astype(np.float32)[:, None, None]


def dot(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """Inner product of vectors given as planes."""
    result: NDArray[np.float32] = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    return result


def sky(rays: NDArray[np.float32], look: Look, seed: int, place: float) -> NDArray[np.float32]:
    """Linear colours of the sky along each ray, (3, height, width), with the skyline before it."""
    # The tangent of the elevation stands for the angle; on the horizon, where it matters, they are the same.
    rise = rays[2] / np.sqrt(rays[0] ** 2 + rays[1] ** 2)
    azimuth = np.arctan2(rays[0, -1], rays[1, -1])
    zenith, horizon = planes(look.zenith), planes(look.horizon)
    # All but the skyline is soft, so half the size will do.
    half, half_rise = rays[:, ::2, ::2], rise[::2, ::2]
    air = horizon + (zenith - horizon) * np.sqrt(np.clip(half_rise / 1.4, 0, 1))
    air = _clouds(_glow(air, half, look), half, half_rise, look, seed, place)
    colours = np.array([cv2.resize(plane, rise.shape[::-1], interpolation=cv2.INTER_LINEAR) for plane in air])
    # Twice: a hair west of north, -1e-7, is 2048 itself in float32.
    column = np.mod(azimuth / (2 * math.pi) * _BINS, _BINS).astype(np.intp) % _BINS
    for layer, (tone, reach) in enumerate(((0.55, 0.75), (0.32, 0.5))):
        outline = skyline(seed, layer)[column][None]
        # A hard edge of about one pixel, softened by hand as the sky is not supersampled.
        cover = np.clip((outline - rise) * 250 + 0.5, 0, 1)
        town = horizon * np.float32(reach) + planes(look.skylight, tone * 0.25)
        colours += (town - colours) * cover
    return colours


def _glow(colours: NDArray[np.float32], rays: NDArray[np.float32], look: Look) -> NDArray[np.float32]:
    """Brightness around the sun, as strong as its light."""
    strength = max(look.sunlight)
    if strength == 0:
        return colours
    near = np.clip(dot(look.towards_sun, rays) / np.sqrt(dot(rays, rays)), 0, 1)
    wide, aureole, disc = (cv2.pow(near, power) for power in (12, 160, 3000))
    result: NDArray[np.float32] = colours + (0.35 * wide + 0.8 * aureole + 3 * disc) * planes(look.sunlight)
    return result


def _clouds(
    colours: NDArray[np.float32],
    rays: NDArray[np.float32],
    rise: NDArray[np.float32],
    look: Look,
    seed: int,
    place: float,
) -> NDArray[np.float32]:
    """Clouds on a flat ceiling, drifting from place to place."""
    rng = stream(seed, "clouds", look.name)
    start, wind = rng.uniform(0, TILE, 2), rng.uniform(-1.5, 1.5, 2)
    ceiling = 70 / (np.maximum(rays[2], 0) + np.float32(0.12))
    offset = start + wind * place
    x = np.mod(rays[0] * ceiling + offset[0], TILE).astype(np.float32)
    y = np.mod(rays[1] * ceiling + offset[1], TILE).astype(np.float32)
    pattern = cv2.remap(noise("clouds", 128), x, y, cv2.INTER_LINEAR)
    amount = np.clip((pattern + 3.2 * look.clouds - 1.6) * 0.8, 0, 1) * np.clip(rise * 8, 0, 1)
    light = planes(look.skylight, 0.85) + planes(look.sunlight, 0.22)
    body = light * (0.92 - 0.16 * look.clouds * pattern)
    result: NDArray[np.float32] = colours + (body - colours) * (0.85 * amount)
    return result


@lru_cache(maxsize=8)
def skyline(seed: int, layer: int) -> NDArray[np.float32]:
    """Elevation angle of the horizon's outline for every azimuth: hills, then roofs and a few towers."""
    rng = stream(seed, "skyline", layer)
    turn = np.linspace(0, 2 * math.pi, _BINS, endpoint=False)
    waves = sum(rng.uniform(0.2, 1) / k * np.sin(k * turn + rng.uniform(0, 6.3)) for k in range(1, 14))
    outline = (0.035 + 0.012 * np.asarray(waves)) if layer == 0 else np.full(_BINS, 0.012)
    for _ in range(90 if layer else 14):
        start, width = int(rng.integers(_BINS)), int(rng.integers(4, 16))
        height = rng.uniform(0.015, 0.05) + (rng.uniform(0.03, 0.08) if rng.random() < 0.15 else 0)
        bins = np.arange(start, start + width) % _BINS
        outline[bins] = np.maximum(outline[bins], height)
    for _ in range(3 if layer else 0):
        start, width = int(rng.integers(_BINS)), int(rng.integers(6, 10))
        spire = rng.uniform(0.09, 0.16) * (1 - abs(np.linspace(-1, 1, width)) ** 0.6)
        bins = np.arange(start, start + width) % _BINS
        outline[bins] = np.maximum(outline[bins], spire)
    return np.maximum(outline, 0.005).astype(np.float32)
