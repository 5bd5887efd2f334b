"""What another lane, another light or another day makes of a picture: it shows the same place."""

from __future__ import annotations

import cv2
import numpy as np

from displace.images import Pixels


def from_the_left(picture: Pixels, _: np.random.Generator) -> Pixels:
    """One lane to the left, and a little ahead."""
    return _cut(picture, 0.04, 0.90, 0.03)


def from_the_right(picture: Pixels, _: np.random.Generator) -> Pixels:
    """One lane to the right, and a little ahead."""
    return _cut(picture, 0.10, 0.94, 0.05)


def dark(picture: Pixels, rng: np.random.Generator) -> Pixels:
    """Little light, and the sensor's noise."""
    return np.clip(0.28 * picture + rng.normal(0, 5, picture.shape), 0, 255).astype(np.uint8)


def foggy(picture: Pixels, _: np.random.Generator) -> Pixels:
    """Blurred, and the whiter the farther up."""
    white = np.linspace(0.7, 0.35, len(picture))[:, None, None]
    blurred = cv2.GaussianBlur(picture, (0, 0), 1)
    return ((1 - white) * blurred + 200 * white).astype(np.uint8)


def _cut(picture: Pixels, left: float, right: float, top: float) -> Pixels:
    height, width = picture.shape[:2]
    part = picture[int(top * height) :, int(left * width) : int(right * width)]
    return np.asarray(cv2.resize(part, (width, height), interpolation=cv2.INTER_AREA))
