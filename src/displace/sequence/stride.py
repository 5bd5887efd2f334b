"""How many places a drive moves on from one frame to the next, told by the best match of each frame alone.

A map made on foot has ten places where a car takes one picture. The chain expects a few places a frame, and finds no
path along the route where there are more. But of frames that are found rightly one by one, each is as far ahead of the
one before as the drive is fast, and matches by chance lie behind as often as ahead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from displace.arrays import Indices
from displace.holdout import spread
from displace.sequence.engine import Blocks

USUAL = 3
"""Places ahead that the chain expects without being told."""
_PACES = (4.5, 6.5, 9.0, 13.0, 18.0, 26.0)
"""Places ahead that are looked for beyond that, each from two thirds of it to half as many more."""
_WIDTH = 1.5
_FEWEST, _SURE = 5, 3.0
"""Frames by which those ahead must outnumber those behind, and by how many standard deviations."""
WINDOW, _WINDOWS = 30, 20
"""Frames of a drive that tell how fast it is there, and how many such stretches are looked at."""


def stride(best: Indices) -> float | None:
    """Places from one frame to the next: 1 where they are as few as usual, None where the matches do not tell.

    `best` is the place, by its number along the route, that each frame resembles most.

    >>> by_chance = np.random.default_rng(0).integers(0, 200, 20)
    >>> stride(np.arange(20) * 8), stride(np.arange(20) * 2), stride(by_chance)
    (8.0, 1.0, None)
    """
    changes, most, found = np.diff(best), 0, None
    for least, last in ((0.0, float(USUAL)), *((pace / _WIDTH, pace * _WIDTH) for pace in _PACES)):
        ahead = (changes >= least) & (changes <= last)
        behind = (-changes >= max(least, 1)) & (-changes <= last)
        n, surplus = int((ahead | behind).sum()), int(ahead.sum()) - int(behind.sum())
        if surplus > most and surplus >= max(_FEWEST, _SURE * np.sqrt(n)):
            most, found = surplus, 1.0 if last <= USUAL else float(np.median(changes[ahead]))
    return found


def strides(parts: Sequence[Indices]) -> tuple[float | None, tuple[float, ...]]:
    """Places from one frame to the next for most of a drive, None where that is as usual; and at times besides.

    The parts are as for `stride`, of some `WINDOW` frames of the drive each.

    >>> slow, fast = np.arange(60), 7 * np.arange(60)
    >>> strides([slow, slow, fast]), strides([fast])
    ((None, (7.0,)), (7.0, ()))
    """
    told = [rate for part in parts if (rate := stride(part)) is not None]
    fast = [rate for rate in told if rate > USUAL]
    if not fast:
        return None, ()
    rate, n_usual = float(np.median(fast)), len(told) - len(fast)
    return (rate, (1.0,) if n_usual else ()) if len(fast) > n_usual else (None, (rate,))


def told_strides(scores: Blocks) -> tuple[float | None, tuple[float, ...]]:
    """The same of a drive whose frames are compared with all places, from stretches that are spread over it."""
    n_frames = scores.shape[0]
    parts = [slice(first, min(first + WINDOW, n_frames)) for first in range(0, n_frames, WINDOW)]
    return strides([scores.block(parts[at]).argmax(axis=1) for at in spread(len(parts), _WINDOWS)])
