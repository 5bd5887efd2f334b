"""Sketches: directions of a picture's edges on a coarse grid, and how well two pictures fit at the best shift.

A descriptor says what a picture shows, hardly where. Two streets of one town at night may have the same descriptor;
laid on each other, their edges do not meet. Edges keep their directions in another light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors, blocks

if TYPE_CHECKING:
    from displace.images import Pixels

Sketches = NDArray[np.complex64]
"""Shape (n, ROWS, COLUMNS)."""

ROWS, COLUMNS = 30, 40
"""Grid over the picture."""
PACKED = 2 * (2 * ROWS * COLUMNS // 8)
"""Bytes of a packed sketch: two bits for each of its numbers."""
_FINE = 2
"""Pixels of the picture, each way, that make a cell."""
_BORDER = 3
"""Pixels at each side that count for nothing: frames and captions."""
_STRONGEST = 3.0
"""Strength of an edge, relative to the median, from which on more does not count."""
_REACH = 0.15
"""Shifts that are tried each way, as a share of the picture."""
_SMALL = 0.5
"""Share of the mean size below which a number is packed as 0."""


def sketch_of(picture: Pixels) -> Sketches:
    """Sketch (ROWS, COLUMNS) of a picture, RGB (H, W, 3): unit length, or zeros where it shows nothing.

    Each cell is a complex number whose angle is twice that of its edges, so that light on dark is as dark on light.
    """
    import cv2  # maps do without, until they are asked for a picture

    size = _FINE * COLUMNS, _FINE * ROWS
    grey = cv2.cvtColor(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2GRAY)
    smooth = cv2.GaussianBlur(grey.astype(np.float32), (0, 0), 1)
    across, down = cv2.Sobel(smooth, cv2.CV_32F, 1, 0), cv2.Sobel(smooth, cv2.CV_32F, 0, 1)
    strength = np.hypot(across, down)
    usual = float(np.median(strength)) or float(
        strength.mean()
    )  # the median where most of it is exactly flat is 0
    if usual == 0:
        return np.zeros((ROWS, COLUMNS), np.complex64)
    edges = np.minimum(strength / (_STRONGEST * usual), 1) * np.exp(2j * np.arctan2(down, across))
    inner = np.zeros_like(edges)
    inside = np.s_[_BORDER:-_BORDER, _BORDER:-_BORDER]
    inner[inside] = edges[inside]
    cells = inner.reshape(ROWS, _FINE, COLUMNS, _FINE).mean(axis=(1, 3))
    sketch: Sketches = (cells / max(float(np.linalg.norm(cells)), 1e-9)).astype(np.complex64)
    return sketch


def packed(sketches: Sketches) -> NDArray[np.uint8]:
    """Sketches, or sums of several, in two bits a number: its sign, or 0 where it is small; (n, PACKED).

    >>> picture = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    >>> unpacked(packed(sketch_of(picture)[None])).shape
    (1, 30, 40)
    """
    numbers = np.ascontiguousarray(sketches).view(np.float32).reshape(len(sketches), -1)
    size = np.abs(numbers)
    large = size > _SMALL * size.mean(axis=1, keepdims=True)
    return np.hstack([np.packbits(large & (numbers > 0), axis=1), np.packbits(large & (numbers < 0), axis=1)])


def unpacked(bits: NDArray[np.uint8]) -> Sketches:
    """Sketches of unit length, as far as they were kept; zeros where there was none."""
    positive, negative = (
        np.unpackbits(part, axis=1).astype(np.float32) for part in np.split(bits, 2, axis=1)
    )
    numbers = positive - negative
    numbers /= np.maximum(np.linalg.norm(numbers, axis=1, keepdims=True), 1)
    sketches: Sketches = numbers.view(np.complex64).reshape(-1, ROWS, COLUMNS)
    return sketches


def fit(one: Sketches, other: Sketches) -> Vectors:
    """How well sketches fit others, (n,): highest correlation over small shifts, in deviations over all shifts.

    About 5 for two pictures of different scenes, and 7 to 13 for two of one place; NaN where one shows nothing.
    """
    found = np.empty(len(one))
    for part in blocks(len(one), row_bytes=3 * 16 * 4 * ROWS * COLUMNS):
        found[part] = _fit(one[part], other[part])
    return found


def _fit(one: Sketches, other: Sketches) -> Vectors:
    size = 2 * ROWS, 2 * COLUMNS  # zeros around, so that nothing is shifted in from the other side
    correlation = np.fft.ifft2(np.fft.fft2(one, size) * np.conj(np.fft.fft2(other, size))).real
    down, across = int(_REACH * ROWS), int(_REACH * COLUMNS)
    near = np.roll(correlation, (down, across), axis=(1, 2))[:, : 2 * down + 1, : 2 * across + 1]
    deviation = correlation.std(axis=(1, 2))
    best: Vectors = np.full(len(one), np.nan)
    np.divide(near.max(axis=(1, 2)), deviation, out=best, where=deviation > 1e-9)
    return best
