"""Stops of a drive: frames that show the same as the one before, for a drive that is known as a whole or online.

A stop is told by how little its frames change, compared with the usual change between frames of the same drive. Its
frames have the same errors: as separate evidence they would make the place that they resemble most certain.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from displace.arrays import Indices, Vectors
from displace.sequence.engine import Floats

STILL = 0.65
"""A frame belongs to a stop if it differs from the last frame kept by less than this share of the usual change between
frames; the noise of a camera at night alone makes 0.6."""
_USUAL = 0.75
"""Quantile of the changes between consecutive frames that is the usual one."""
_ROUNDS = 5
"""Most iterations of the estimate of the usual change where a drive stands most of the time."""
_LEAST_MOVING = 20
"""Moving frames that an estimate of the usual change needs."""


def without_stops(vectors: Vectors) -> tuple[Vectors, Indices, Indices]:
    """Replace the frames of each stop by their mean, which averages their noise.

    Returns the m frames that are left, (m, D); the index of the first frame of each, (m,); and which of them stands for
    each frame, (n,).
    """
    kept = moving(vectors)
    counts = np.diff(np.append(kept, len(vectors)))
    means = np.add.reduceat(vectors, kept, axis=0) / counts[:, None].astype(vectors.dtype)
    return means, kept, np.repeat(np.arange(len(kept)), counts)


def moving(vectors: Vectors) -> Indices:
    """Frames of a drive without those of its stops: see `STILL`."""
    changes = np.linalg.norm(np.diff(vectors, axis=0), axis=1)
    return _kept(vectors, _usual_change(vectors, changes)) if len(changes) else np.array([0])


def _usual_change(vectors: Vectors, changes: Floats) -> float:
    """Usual change between moving frames, also of a drive that mostly stands, where most changes are noise."""
    usual = float(np.quantile(changes, _USUAL))
    if len(changes) < 2 * _LEAST_MOVING:
        return usual
    # Of a single outlier (a black frame, something passing by) the change over two frames counts, which is small.
    over_two = np.linalg.norm(vectors[2:] - vectors[:-2], axis=1)
    lasting = changes.copy()
    lasting[1:] = np.minimum(lasting[1:], over_two)
    lasting[:-1] = np.minimum(lasting[:-1], over_two)
    under_way = float(np.sort(lasting)[-_LEAST_MOVING])
    if STILL * under_way <= usual:
        return usual
    for _ in range(_ROUNDS):
        kept = _kept(vectors, under_way)[1:]
        if STILL * under_way <= usual or not len(kept):
            return usual
        under_way = float(np.quantile(lasting[kept - 1], _USUAL))
    return under_way


def _kept(vectors: Vectors, usual: float) -> Indices:
    """Frames that differ from the last one kept by at least `STILL` · `usual`."""
    kept = [0]
    for frame in range(1, len(vectors)):
        if np.linalg.norm(vectors[frame] - vectors[kept[-1]]) >= STILL * usual:
            kept.append(frame)
    return np.array(kept, np.intp)


class Stops:
    """Online version of `moving`: says of each frame whether it belongs to a stop."""

    def __init__(self) -> None:
        self._before: Vectors | None = None
        self._kept: Vectors | None = None
        self._usual, self._n = 0.0, 0

    def still(self, frame: Vectors) -> bool:
        """Take the next frame (n,), a unit vector; True where it belongs to a stop."""
        before, kept = self._before, self._kept
        self._before = frame
        if before is None or kept is None:
            self._kept = frame
            return False
        change = _apart(frame, before)
        far = change if kept is before else _apart(frame, kept)
        if self._n >= _LEAST_MOVING and far < STILL * self._usual:
            self._usual *= 0.999  # decays, or a drive into the dark would count as a stop for ever
            return True
        self._n += 1
        # Stochastic estimate of the quantile 0.75: up by three steps where a change exceeds it, else down by one.
        step = max(1 / self._n, 0.02) * (_USUAL - (change <= self._usual))
        self._usual = change if self._n == 1 else self._usual * (1 + step)
        self._kept = frame
        return False


def _apart(a: Vectors, b: Vectors) -> float:
    """Distance of two unit vectors."""
    return sqrt(max(2 - 2 * float(a @ b), 0.0))
