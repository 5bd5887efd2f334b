"""Probability that a drive is along the map's route at all, and not through streets that look like it.

A drive through another town finds short paths through the map, some twenty frames each (streets look alike as far as
the next corner), that beat the reversed route. They beat it by little, and not for long. So the statistic is that of a
CUSUM test: the largest sum over consecutive frames of

    surplus_t = path_t − chance_t − min(BEYOND · chance_t, MOST),

where path_t and chance_t are the frame's earnings (`weighing.earnings`, nats) along the route and under the null model;
chance_t is the mean around the frame for a whole drive, and that of the drive so far online. Its maximum over n frames
of a foreign drive grows with log n, and so does the threshold; a logistic function around it gives the probability.
"""

from __future__ import annotations

from math import log

import numpy as np

from displace.arrays import sigmoid_of
from displace.sequence.engine import Floats

BEYOND, MOST = 0.45, 0.95
"""Margin over chance that similar streets reach: as a multiple of chance, and at most (nats a frame). On average,
drives through other towns exceed chance by up to 0.4 times chance, and nights along the route by 0.5 and more."""
NEEDED, FEW = 5.5, 4
"""Threshold of the best stretch = NEEDED · ln(frames / FEW), in nats. One clip of another town in a hundred reaches 5
with 10 frames, 12 with 30 and 22 with 250."""
TOLD = 60
"""Frames from which on a drive that is not along the route is off the map; of a shorter one, n / TOLD of the mass is,
and the rest anywhere."""
_WIDTH = 2.0
"""Scale of the logistic function, in nats: so far from the threshold the odds are e to one."""


def best_stretch(surplus: Floats) -> slice:
    """Slice of (q,) with the largest sum of consecutive numbers; empty where none is above 0.

    >>> best_stretch(np.array([1.0, -3.0, 2.0, -1.0, 2.5, -4.0]))
    slice(2, 5, None)
    """
    total = np.concatenate([[0.0], np.cumsum(surplus)])
    last = int((total - np.minimum.accumulate(total)).argmax())
    return slice(int(total[: last + 1].argmin()), last)


def along_route(best: float, frames: int) -> float:
    """Probability that a drive of so many frames is along the route, from the surplus of its best stretch.

    >>> [round(along_route(best, 200), 2) for best in (15.0, 21.5, 30.0)]
    [0.04, 0.5, 0.99]
    """
    needed = NEEDED * log(max(frames, FEW) / FEW)
    return sigmoid_of((best - needed) / _WIDTH)


def belongs(path: Floats, chance: Floats) -> tuple[float, slice]:
    """Probability that a drive is along the route, and its best stretch.

    Parameters
    ----------
    path : array of shape (q,)
        Earnings of each frame along the route.
    chance : array of shape (q,)
        Mean earnings under the null model around it.
    """
    chance = np.maximum(chance, 0.0)
    surplus = path - chance - np.minimum(BEYOND * chance, MOST)
    stretch = best_stretch(surplus)
    return along_route(float(surplus[stretch].sum()), len(path)), stretch


class Belonging:
    """`belongs` online: a recursive CUSUM statistic whose maximum decays."""

    _MEMORY = 500.0
    """Time constant of that decay, in frames."""

    def __init__(self) -> None:
        self._stretch, self._best, self._frames = 0.0, 0.0, 0

    def see(self, path: float, chance: float) -> float:
        """Take a frame's earnings on the path and mean chance so far; returns P(along the route)."""
        self._frames += 1
        chance = max(chance, 0.0)
        self._stretch = max(0.0, self._stretch + path - chance - min(BEYOND * chance, MOST))
        self._best = max(self._best * (1 - 1 / self._MEMORY), self._stretch)
        return along_route(self._best, self._frames)
