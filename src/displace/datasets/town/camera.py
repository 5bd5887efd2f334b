"""The camera: where it stands, where it looks, and which pixel sees what."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = tuple[float, float, float]

SUPERSAMPLE = 1.5
"""Pixels drawn for each pixel of the picture, across and down."""


@dataclass(frozen=True)
class Camera:
    """Pinhole camera; `to_pixels` maps directions from `centre` to supersampled homogeneous pixels."""

    centre: NDArray[np.float64]
    to_pixels: NDArray[np.float64]
    size: tuple[int, int]
    """Of the picture; what is drawn before it is averaged is `drawn` pixels wide and high."""
    drawn: tuple[int, int]

    @classmethod
    def place(
        cls,
        centre: Vector,
        yaw: float,
        pitch: float,
        roll: float,
        field_of_view: float,
        size: tuple[int, int],
    ) -> Camera:
        """Set up a camera; angles in radians, `size` = (width, height) of the picture."""
        width, height = (round(n * SUPERSAMPLE) for n in size)
        forward = np.array(
            [math.sin(yaw) * math.cos(pitch), math.cos(yaw) * math.cos(pitch), math.sin(pitch)]
        )
        level = np.array([math.cos(yaw), -math.sin(yaw), 0.0])
        up = np.cross(level, forward)
        right = math.cos(roll) * level + math.sin(roll) * up
        down = math.sin(roll) * level - math.cos(roll) * up
        focal = 0.5 * width / math.tan(field_of_view / 2)
        intrinsic = np.array([[focal, 0, width / 2 - 0.5], [0, focal, height / 2 - 0.5], [0, 0, 1.0]])
        return cls(np.array(centre), intrinsic @ np.stack([right, down, forward]), size, (width, height))

    def rays(self) -> NDArray[np.float32]:
        """Direction through every pixel of the picture, (3, height, width), of length 1 along the optical axis."""
        inverse = np.linalg.inv(self.to_pixels)
        x, y = (
            (np.arange(n) + 0.5) * drawn / n - 0.5 for n, drawn in zip(self.size, self.drawn, strict=True)
        )
        columns = (inverse[:, :1] * x + inverse[:, 2:]).astype(np.float32)
        rows = (inverse[:, 1:2] * y).astype(np.float32)
        return rows[:, :, None] + columns[:, None, :]
