"""Sketches: directions of a picture's edges on a grid, and how well two pictures fit if their parts may shift a little.

A descriptor says what a picture shows, hardly where. Two streets of one town at night may have the same descriptor;
laid on each other, their edges do not meet. Edges keep their directions in another light. Things near the camera shift
further than those far away, so the parts of a picture are laid on the other one by one, and must nearly agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors

if TYPE_CHECKING:
    from displace.images import Pixels

Sketches = NDArray[np.complex64]
"""Shape (n, ROWS, COLUMNS)."""

ROWS, COLUMNS = 60, 80
"""Grid over the picture."""
PACKED = 2 * (2 * ROWS * COLUMNS // 8)
"""Bytes of a packed sketch: two bits for each of its numbers."""
_FINE = 2
"""Pixels of the picture, each way, that make a cell."""
_BORDER = 5
"""Pixels at each side that count for nothing: frames and captions."""
_AROUND, _LEAST = 8.0, 0.3
"""An edge counts relative to the mean strength around it (pixels) and this share of that of the whole picture."""
_SMALL = 1.0
"""Numbers below the mean size, times this, are packed as 0."""
_PARTS, _BEST = (4, 5), 12
"""Parts of a picture, down and across, that are laid on another one by one, and how many of them count: the others may
show traffic, the sky, or what is near when the camera stands in another lane."""
_REACH = 9, 12
"""Cells by which a picture may be shifted against the other."""
_SLACK = 1
"""Cells, each way, by which a part may be off the shift of all."""
ZOOMS = 1.0, 0.9, 1.1
"""Sizes at which a picture is laid on another: the camera stands nearer, or farther."""


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
    usual = cv2.GaussianBlur(strength, (0, 0), _AROUND) + _LEAST * strength.mean()
    if not usual.any():
        return np.zeros((ROWS, COLUMNS), np.complex64)
    edges = (across + 1j * down) ** 2 / np.maximum(strength * usual, 1e-6)  # the angle is doubled
    inner = np.zeros_like(edges)
    inside = np.s_[_BORDER:-_BORDER, _BORDER:-_BORDER]
    inner[inside] = edges[inside]
    cells = inner.reshape(ROWS, _FINE, COLUMNS, _FINE).mean(axis=(1, 3))
    return _unit(cells.astype(np.complex64))


def fused(sketches: Sketches, known: Sketches | None = None, weight: float = 0.0) -> Sketches:
    """One sketch (ROWS, COLUMNS) of a place, from its sketches (n, …): each is moved to where it fits those before it.

    `known` is an earlier one of the place, of unit length, that counts for `weight` sketches.
    """
    total = np.zeros((ROWS, COLUMNS), np.complex64) if known is None else np.float32(weight) * known
    for sketch in sketches:
        total = total + (_laid_on(sketch, total) if total.any() else sketch)
    return total


def packed(sketches: Sketches) -> NDArray[np.uint8]:
    """Sketches, or sums of several, in two bits a number: its sign, or 0 where it is small; (n, PACKED).

    >>> picture = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    >>> unpacked(packed(sketch_of(picture)[None])).shape
    (1, 60, 80)
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


def fit(one: Sketches, other: Sketches, zooms: Sequence[float] = ZOOMS) -> Vectors:
    """How well sketches fit others, (n,): mean correlation of their best parts, in deviations over all shifts.

    About 2.0 for two pictures of different scenes, 2.2 for two places along one road, and 2.4 to 5 for two pictures of
    one place; NaN where one shows nothing.
    """
    pairs = zip(one, other, strict=True)
    return np.array(
        [
            np.max([fit_to_each(_zoomed(mine, zoom), theirs[None])[0] for zoom in zooms])
            for mine, theirs in pairs
        ]
    )


def fit_to_each(one: Sketches, others: Sketches) -> Vectors:
    """How well a sketch (ROWS, COLUMNS), at its own size, fits each of some others (n, …): as `fit`."""
    found: Vectors = _agreement(one, others).max(axis=(1, 2))
    found[~others.any(axis=(1, 2))] = np.nan
    return found if one.any() else np.full_like(found, np.nan)


def _agreement(one: Sketches, others: Sketches, slack: int = _SLACK) -> Vectors:
    """Agreement of the parts of `one` with `others` (n, …), (n, down, across), for each shift up to `_REACH`."""
    from scipy import fft

    (n_down, n_across), (down, across) = _PARTS, _REACH
    rows, columns = ROWS // n_down, COLUMNS // n_across
    size = rows + 2 * down, columns + 2 * across
    parts = one.reshape(n_down, rows, n_across, columns).transpose(0, 2, 1, 3)
    around = np.pad(others, ((0, 0), (down, down), (across, across)))
    around = np.lib.stride_tricks.sliding_window_view(around, size, axis=(1, 2))[:, ::rows, ::columns]
    # Correlation by the Fourier transform; nothing comes in from the other side, as parts are so much smaller.
    spectra = fft.fft2(around) * np.conj(fft.fft2(parts, size))
    each = fft.ifft2(spectra, overwrite_x=True).real[..., : 2 * down + 1, : 2 * across + 1]
    each = each.reshape(len(others), n_down * n_across, 2 * down + 1, 2 * across + 1)
    each = each - each.mean(axis=(2, 3), keepdims=True)
    deviations = each.std(axis=(2, 3), keepdims=True)
    each /= np.where(deviations > 1e-9, deviations, np.inf)
    for _ in range(slack):
        each = _spread(_spread(each, 2), 3)
    agreement: Vectors = np.partition(each, each.shape[1] - _BEST, axis=1)[:, -_BEST:].mean(axis=1)
    return agreement


def _spread(values: Vectors, axis: int) -> Vectors:
    """The largest of each value and of the two next to it along an axis."""
    values = np.moveaxis(values, axis, -1)
    found = values.copy()
    np.maximum(found[..., 1:], values[..., :-1], out=found[..., 1:])
    np.maximum(found[..., :-1], values[..., 1:], out=found[..., :-1])
    return np.moveaxis(found, -1, axis)


def _laid_on(sketch: Sketches, other: Sketches) -> Sketches:
    """A sketch, shifted to where it fits another best; nothing is shifted in from outside."""
    # With slack, the shifts next to the best are as good.
    (agreement,) = _agreement(sketch, _unit(other)[None], slack=0)
    down, across = np.array(np.unravel_index(agreement.argmax(), agreement.shape)) - _REACH
    moved = np.zeros_like(sketch)
    moved[max(0, down) : ROWS + min(0, down), max(0, across) : COLUMNS + min(0, across)] = sketch[
        max(0, -down) : ROWS - max(0, down), max(0, -across) : COLUMNS - max(0, across)
    ]
    return moved


def _zoomed(sketch: Sketches, zoom: float) -> Sketches:
    """A sketch as of a camera that is nearer, or farther, by a factor."""
    import cv2

    if zoom == 1:
        return sketch
    matrix = np.array([[zoom, 0, (1 - zoom) * COLUMNS / 2], [0, zoom, (1 - zoom) * ROWS / 2]])
    numbers = cv2.warpAffine(_numbers(sketch), matrix, (COLUMNS, ROWS))
    zoomed: Sketches = numbers.view(np.complex64)[..., 0]
    return zoomed


def _numbers(sketch: Sketches) -> Vectors:
    """Real and imaginary parts as two channels, (ROWS, COLUMNS, 2)."""
    return np.ascontiguousarray(sketch).view(np.float32).reshape(ROWS, COLUMNS, 2)


def _unit(sketch: Sketches) -> Sketches:
    scaled: Sketches = sketch / max(float(np.linalg.norm(sketch)), 1e-9)
    return scaled
