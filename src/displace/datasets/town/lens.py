"""From light to picture: rain and snow in the air, drops on the glass, exposure, blur and noise."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from displace.datasets.town.looks import Look
from displace.datasets.town.randomness import noise_crop, stream

Linear = NDArray[np.float32]


def develop(light: Linear, look: Look, seed: int, place: float) -> NDArray[np.uint8]:
    """Take the picture: bytes (height, width, 3) from linear light (3, height, width)."""
    rng = stream(seed, "lens", place, look.name)
    light = _bloom(cv2.merge(tuple(light)), look)
    if look.flakes:
        light = _flakes(light, rng, look)
    if look.rain:
        light = _streaks(light, rng, look)
        light = _drops(light, rng, look)
    light = _shake(light, rng, look.blur)
    gain = look.exposure * 2 ** float(np.clip(rng.normal(0, 0.22), -0.5, 0.5))
    tint = np.array(look.tint, np.float32) * (1 + rng.normal(0, 0.015, 3)).astype(np.float32)
    channels = [
        _expose(plane, 1.35 * gain * float(tone), look.noise * noise_crop(name, plane.shape, rng, 2))
        for plane, tone, name in zip(cv2.split(light), tint, ("red", "green", "blue"), strict=True)
    ]
    picture: NDArray[np.uint8] = cv2.merge(channels)
    return picture


def _expose(plane: Linear, gain: float, grain: Linear) -> NDArray[np.uint8]:
    """Film curve, gamma and noise of one colour."""
    value = np.sqrt(1 - np.exp(np.maximum(plane, 0) * np.float32(-gain)))
    # Noise grows in the dark parts, where the sensor's gain shows.
    value += grain * (1.25 - value)
    result: NDArray[np.uint8] = cv2.convertScaleAbs(np.maximum(value, 0), alpha=255)
    return result


def _over(light: Linear, tone: float, amount: Linear) -> Linear:
    """Light with a grey tone over it, by `amount`, (height, width)."""
    result: NDArray[np.float32] = light + (np.float32(tone) - light) * cv2.merge([amount, amount, amount])
    return result


def _bloom(light: Linear, look: Look) -> Linear:
    """Halo around what is much brighter than its surroundings."""
    threshold = 0.55 if look.lamplight > 0.4 else 1.6
    bright = np.maximum(light - threshold, 0)
    small = cv2.resize(bright, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA)
    halo = 0.5 * cv2.GaussianBlur(small, (0, 0), 0.8) + 0.35 * cv2.GaussianBlur(small, (0, 0), 3.5)
    height, width = light.shape[:2]
    result: NDArray[np.float32] = light + cv2.resize(halo, (width, height), interpolation=cv2.INTER_LINEAR)
    return result


def _flakes(light: Linear, rng: np.random.Generator, look: Look) -> Linear:
    """Snowflakes, many small ones and a few near the lens."""
    height, width = light.shape[:2]
    layer = np.zeros((height, width), np.float32)
    for count, low, high, strength in ((260, 0.4, 1.0, 0.75), (30, 1.2, 2.6, 0.55), (5, 4.0, 8.0, 0.35)):
        spots = np.zeros((height, width), np.float32)
        n = int(count * look.flakes * height * width / 76800)
        centres = rng.uniform(0, (width, height), (n, 2))
        sizes = rng.uniform(low, high, n) * width / 320
        for (x, y), radius in zip(centres, sizes, strict=True):
            cv2.circle(
                spots, (int(x * 16), int(y * 16)), int(radius * 16), strength, cv2.FILLED, cv2.LINE_AA, 4
            )
        layer = np.maximum(layer, cv2.GaussianBlur(spots, (0, 0), max(0.5, low * 0.6)))
    return _over(light, max(look.horizon) * 1.15, layer)


def _streaks(light: Linear, rng: np.random.Generator, look: Look) -> Linear:
    """Falling rain, blurred to short lines."""
    height, width = light.shape[:2]
    layer = np.zeros((height, width), np.uint8)
    slant = float(rng.normal(0, 0.12))
    n = int(220 * look.rain * height * width / 76800)
    starts = rng.uniform((-20, -30), (width + 20, height), (n, 2))
    lengths = rng.uniform(6, 24, n) * height / 240
    for (x, y), length, tone in zip(starts, lengths, rng.uniform(50, 160, n), strict=True):
        end = (int((x + slant * length) * 16), int((y + length) * 16))
        cv2.line(layer, (int(x * 16), int(y * 16)), end, float(tone), 1, cv2.LINE_AA, 4)
    return _over(light, max(look.horizon), cv2.blur(layer, (1, 5)) * np.float32(0.55 / 255))


def _drops(light: Linear, rng: np.random.Generator, look: Look) -> Linear:
    """Drops on the glass: each shows the scene small, upside down and blurred."""
    height, width = light.shape[:2]
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    soft = np.zeros((height, width), np.float32)
    for _ in range(int(rng.integers(10, 34) * look.rain)):
        cx, cy = rng.uniform(0, width), rng.uniform(0, height)
        radius = float(rng.gamma(2.2, 1.7) + 1.5) * width / 320
        left, right = max(0, int(cx - radius)), min(width, int(cx + radius) + 2)
        top, bottom = max(0, int(cy - 1.2 * radius)), min(height, int(cy + 1.2 * radius) + 2)
        area = np.s_[top:bottom, left:right]
        dx, dy = x[area] - np.float32(cx), y[area] - np.float32(cy)
        inside = np.clip(1.3 - np.sqrt(dx**2 + (dy / 1.15) ** 2) / radius, 0, 0.3) / 0.3
        x[area] -= dx * inside * 5
        y[area] -= dy * inside * 5
        soft[area] = np.maximum(soft[area], inside)
    bent = cv2.remap(cv2.blur(light, (5, 5)), x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    result: NDArray[np.float32] = light + (bent - light) * cv2.merge([soft, soft, soft])
    return result


def _shake(light: Linear, rng: np.random.Generator, blur: float) -> Linear:
    """Blur along the way the camera moved while the shutter was open."""
    length = blur * float(rng.uniform(0.3, 1.3)) * light.shape[1] / 320
    angle = float(rng.normal(0, 0.5))
    if length < 0.7:
        return light
    size = 2 * math.ceil(length / 2) + 1
    kernel = np.zeros((size, size), np.float32)
    middle = (size - 1) / 2
    steps = np.linspace(-length / 2, length / 2, 4 * size)
    for step in steps:
        kernel[round(middle + step * math.sin(angle)), round(middle + step * math.cos(angle))] += 1
    result: NDArray[np.float32] = cv2.filter2D(
        light, -1, kernel / kernel.sum(), borderType=cv2.BORDER_REPLICATE
    )
    return result
