"""Pictures that show nothing: discs that hide each other, and noise, both with the spectrum of photographs."""

from __future__ import annotations

import numpy as np

HEIGHT, WIDTH = 240, 320
DISCS = 400
RADII = 4.0, 150.0
"""Smallest and largest radius of a disc; how many are of each size falls with its cube, as in photographs."""


def discs(rng: np.random.Generator) -> np.ndarray:
    """Dead leaves: grey-tinted discs of all sizes in random order, each over those before it."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    picture = np.tile(rng.random(3), (HEIGHT, WIDTH, 1))
    smallest, largest = (radius**-2 for radius in RADII)
    for radius in (largest + rng.random(DISCS) * (smallest - largest)) ** -0.5:
        row, column = rng.random(2) * (HEIGHT, WIDTH)
        inside = (rows - row) ** 2 + (columns - column) ** 2 < radius**2
        picture[inside] = np.clip(rng.random() + 0.15 * rng.standard_normal(3), 0, 1)
    return (255 * picture).astype(np.uint8)


def noise(rng: np.random.Generator) -> np.ndarray:
    """Random phases with amplitudes that fall as 1/frequency, and little colour."""
    frequency = np.hypot(np.fft.fftfreq(HEIGHT)[:, None], np.fft.fftfreq(WIDTH))
    frequency[0, 0] = 1

    def layer() -> np.ndarray:
        field = np.fft.ifft2(np.fft.fft2(rng.standard_normal((HEIGHT, WIDTH))) / frequency).real
        return np.asarray(field / field.std())

    grey = layer()
    picture = np.stack([grey + 0.2 * layer() for _ in range(3)], axis=-1)
    return np.clip(128 + 50 * picture, 0, 255).astype(np.uint8)
