"""Stops of a drive: frames that show the same as the one before, for a drive that is known as a whole or online.

A stop is told by how little its frames change, compared with the usual change between frames of the same drive. Its
frames have the same errors: as separate evidence they would make the place that they resemble most certain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import sqrt

import numpy as np

from displace.arrays import Indices, Vectors, shows_something
from displace.sequence.engine import Floats
from displace.truth import Flags

STILL = 0.65
"""A frame belongs to a stop if it differs from the last frame kept by less than this share of the usual change between
frames; the noise of a camera at night alone makes 0.6."""
_USUAL = 0.75
"""Quantile of the changes between consecutive frames that is the usual one."""
_ROUNDS = 5
"""Most iterations of the estimate of the usual change where a drive stands most of the time."""
_FIRST_LOOK, _LOOKED_AT = 50, 400
"""Still frames from which on it is asked whether they advance; most that are kept for that, online."""
_LEAST_MOVING = 20
"""Moving frames that an estimate of the usual change needs."""


Advances = Callable[[Vectors, Indices], bool]
"""Whether frames (q, n) of a drive, each of the stop (q,) that it may be of, advance along a route."""


def without_stops(vectors: Vectors, advances: Advances | None = None) -> tuple[Vectors, Indices, Indices]:
    """Replace the frames of each stop by their mean, which averages their noise.

    Returns the m frames that are left, (m, D); the index of the first frame of each, (m,); and which of them stands for
    each frame, (n,). Frames that advance are no stop, however little they change: those of a dark road change less than
    those of a detour past lights. That is asked where most frames seem to stand.
    """
    kept = moving(vectors)
    counts = np.diff(np.append(kept, len(vectors)))
    if advances is not None and len(vectors) - len(kept) > max(len(kept), _FIRST_LOOK):
        still = np.delete(vectors, kept, axis=0)
        if advances(still, np.repeat(kept, counts - 1)):
            changes = np.linalg.norm(np.diff(still, axis=0), axis=1)
            kept = _kept(vectors, float(np.quantile(changes, _USUAL)))
            counts = np.diff(np.append(kept, len(vectors)))
    means = np.add.reduceat(vectors, kept, axis=0) / counts[:, None].astype(vectors.dtype)
    return means, kept, np.repeat(np.arange(len(kept)), counts)


def in_the_dark(vectors: Vectors) -> Flags:
    """Which descriptors (n, D) of a drive's frames are of several pictures in a row that show nothing (black), (n,).

    They look like a stop, and may be a tunnel or a covered lens: how far the drive went is not known. A single one is
    a step like any other.
    """
    dark = np.concatenate([[False], ~shows_something(vectors), [False]])
    several: Flags = dark[1:-1] & (dark[:-2] | dark[2:])
    return several


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
    """Online version of `without_stops`: says of each frame whether it belongs to a stop.

    Whether still frames advance is asked after 50 of them, 100, 200 and so on; if so, what is usual is learned anew.
    """

    def __init__(self, advances: Advances | None = None) -> None:
        self._advances = advances
        self._begin()

    def _begin(self) -> None:
        self._before: Vectors | None = None
        self._kept: Vectors | None = None
        self._usual, self._n = 0.0, 0
        self._still: deque[tuple[Vectors, int]] = deque(maxlen=_LOOKED_AT)
        self._n_still, self._look = 0, _FIRST_LOOK

    def still(self, frame: Vectors) -> bool:
        """Take the next frame (n,), a unit vector; True where it belongs to a stop."""
        if not self._seems_still(frame):
            return False
        if self._advances is None:
            return True
        self._still.append((frame, self._n))
        self._n_still += 1
        if self._n_still < self._look:
            return True
        self._look *= 2
        frames, stops = zip(*self._still, strict=True)
        if not self._advances(np.array(frames), np.array(stops)):
            return True
        self._begin()
        return False

    def _seems_still(self, frame: Vectors) -> bool:
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
