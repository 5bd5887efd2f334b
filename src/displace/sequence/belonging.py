"""Whether a drive is along a map's route at all: the streets of another town resemble those of the map, too.

A drive through another town finds paths through the map here and there, for some twenty frames each: one street is
like another as far as its next corner. What its frames earn there is more than what they earn along the route
backwards, so that this alone does not tell them from a hard night. But it is not much more, and not for long. So what
counts is the best stretch of a drive: the most that frames which follow each other earn together beyond chance, and
beyond what streets that resemble each other earn (`BEYOND`). Of a drive that is known as a whole, what chance earns is
that around a frame: in scenery that changes slowly wrong paths earn more than elsewhere, and the right one no more
beyond them. Under way it is that of the drive so far. The longer a drive, the better the best stretch of a foreign one,
by the logarithm of its length.
"""

from __future__ import annotations

from math import exp, log

import numpy as np

from displace.sequence.engine import Floats

BEYOND, MOST = 0.45, 0.95
"""What a frame must earn beyond chance before it speaks for the route, in units of what chance earns, and at most. On
average, drives through other towns earn up to 0.4, and nights along the route 0.5 and more."""
NEEDED, FEW = 5.5, 4
"""What a drive's best stretch must earn beyond that for each e-fold of frames, from so many on: one clip of another
town in a hundred earns 5 with 10 frames, 12 with 30 and 22 with 250."""
TOLD = 60
"""Frames of a drive from which on one that is not along the route is off the map; of fewer nobody knows."""
_WIDTH = 2.0
"""Less or more than is needed, at which the odds are e to one."""


def best_stretch(surplus: Floats) -> slice:
    """Neighbouring numbers, of (q,), that add up to the most; none where none is above 0.

    >>> best_stretch(np.array([1.0, -3.0, 2.0, -1.0, 2.5, -4.0]))
    slice(2, 5, None)
    """
    total = np.concatenate([[0.0], np.cumsum(surplus)])
    last = int((total - np.minimum.accumulate(total)).argmax())
    return slice(int(total[: last + 1].argmin()), last)


def along_route(best: float, frames: int) -> float:
    """Probability that a drive of so many frames, whose best stretch earned so much, is along the route.

    >>> [round(along_route(best, 200), 2) for best in (15.0, 21.5, 30.0)]
    [0.04, 0.5, 0.99]
    """
    needed = NEEDED * log(max(frames, FEW) / FEW)
    return 1 / (1 + exp(-min(max((best - needed) / _WIDTH, -50.0), 50.0)))


def belongs(path: Floats, chance: Floats) -> tuple[float, slice]:
    """Probability that a drive is along the route, and its best stretch.

    Parameters
    ----------
    path : array of shape (q,)
        What each frame earns on its best way along the route.
    chance : array of shape (q,)
        What is earned around it on a path that cannot be right.
    """
    chance = np.maximum(chance, 0.0)
    surplus = path - chance - np.minimum(BEYOND * chance, MOST)
    stretch = best_stretch(surplus)
    return along_route(float(surplus[stretch].sum()), len(path)), stretch


class Belonging:
    """The same of a drive under way, frame by frame; what long ago spoke for the route fades."""

    _MEMORY = 500.0

    def __init__(self) -> None:
        self._stretch, self._best, self._frames = 0.0, 0.0, 0

    def see(self, path: float, chance: float) -> float:
        """Take what a frame earns on its path, and by chance; returns the probability of being along the route."""
        self._frames += 1
        chance = max(chance, 0.0)
        self._stretch = max(0.0, self._stretch + path - chance - min(BEYOND * chance, MOST))
        self._best = max(self._best * (1 - 1 / self._MEMORY), self._stretch)
        return along_route(self._best, self._frames)
