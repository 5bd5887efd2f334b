"""Random numbers of the town: every object draws from a stream of its own.

A stream depends on the seed and on the object's name alone, so a picture is the same whether it is drawn first,
last, in another process or without any of its neighbours.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray


def stream(*key: float | str) -> np.random.Generator:
    """Counter-based generator of the object named by `key`.

    >>> bool(stream(0, "tree", 7).random() == stream(0, "tree", 7).random())
    True
    """
    digest = hashlib.blake2b(repr(key).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


TILE = 512
"""Rows and columns after which noise repeats."""


@lru_cache(maxsize=16)
def noise(name: str, coarse: int) -> NDArray[np.float32]:
    """Fractal noise of mean 0 and standard deviation 1: a seamless tile, three times in each direction.

    Equal names give equal noise; the largest blobs have `coarse` pixels, a power of two.
    """
    rng = stream("noise", name)
    total = np.zeros((TILE, TILE), np.float32)
    cell = coarse
    while cell >= 1:
        # Two cells of wrapped margin make the interpolated tile seamless.
        grid = np.pad(rng.standard_normal((TILE // cell, TILE // cell)).astype(np.float32), 2, mode="wrap")
        fine = cv2.resize(grid, None, fx=cell, fy=cell, interpolation=cv2.INTER_CUBIC)
        total += cell**0.7 * fine[2 * cell : 2 * cell + TILE, 2 * cell : 2 * cell + TILE]
        cell //= 2
    return np.tile((total - total.mean()) / total.std(), (3, 3))


def noise_crop(
    name: str, shape: tuple[int, int], rng: np.random.Generator, coarse: int = 64
) -> NDArray[np.float32]:
    """Piece of noise of the given (rows, columns), up to 1024 each, from a random place."""
    top, left = rng.integers(0, TILE, 2)
    return noise(name, coarse)[top : top + shape[0], left : left + shape[1]]
