"""Estimates how many places a drive advances per frame, and whether it advances, from the best match of each alone.

A map made on foot has ten places where a car takes one picture; the prior of the motion covers three, and the hidden
Markov model would find no path. But right matches advance by the stride, while wrong ones go back as often as
ahead: a sign test over ranges of strides finds it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from displace.arrays import Indices
from displace.holdout import spread
from displace.sequence.engine import Blocks
from displace.truth import Flags

USUAL = 3
"""Places a frame up to which the prior of the motion (`engine.STEPS`) suffices."""
_PACES = (4.5, 6.5, 9.0, 13.0, 18.0, 26.0)
"""Strides that are tested beyond that; each stands for the range from pace / `_WIDTH` to pace · `_WIDTH`."""
_WIDTH = 1.5
_FEWEST, _SURE = 5, 3.0
"""Steps ahead must outnumber those back by so many frames, and by so many standard deviations (√n)."""
_CHANGES = 20
"""Fewest changes of place between consecutive images for `way_along`."""
_NEAR = 0.02
"""Longest step that counts, as a share of the map's places; at least two places."""
_AHEAD = 0.15
"""Steps one way must outnumber those the other way by this share of all changes, …"""
_DEVIATIONS = 2.5
"""… and by so many standard deviations (√ of the number of steps)."""
_CERTAIN, _STRETCH = 3.0, 50
"""The same for a stretch of so many images by itself: a folder has many, and photos from elsewhere must not pass."""
WINDOW, _WINDOWS = 30, 20
"""Frames of a window in which the stride is estimated, and the number of windows, spread over the drive."""


def stride(best: Indices) -> float | None:
    """Stride in places a frame: 1 where the prior covers it, None where no range passes the test.

    `best` is the index, along the route, of each frame's best match.

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
    """Stride of most windows of a drive, None where the prior covers it; and further strides that it has at times.

    Each part is as for `stride`, of one window.

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
    """`strides` of a drive, from its scores."""
    n_frames = scores.shape[0]
    parts = [slice(first, min(first + WINDOW, n_frames)) for first in range(0, n_frames, WINDOW)]
    return strides([scores.block(parts[at]).argmax(axis=1) for at in spread(len(parts), _WINDOWS)])


def way_along(along: Indices, n_places: int) -> int:
    """Sign test: places, numbered along the route, advance by short steps along it (1), against it (−1) or neither (0).

    Foreign images, and those of another stretch, match nearby places now and then, but ahead as often as behind.

    >>> way_along(np.arange(40), 500), way_along(np.arange(40)[::-1], 500), way_along(np.arange(40) * 97 % 500, 500)
    (1, -1, 0)
    """
    more, enough, n_changes = _more_ahead(along, n_places)
    return int(np.sign(more)) if n_changes >= _CHANGES and abs(more) >= enough else 0


def right_in_order(along: Indices, n_places: int) -> tuple[Flags, float]:
    """Matches that are in order with those beside them, (q,), and how many of these the order proves to be right.

    Two right matches in a row advance by a short step; others go ahead as often as back. So the surplus of steps one
    way, less its error, is at most the square of the share of right ones, in any light. It is taken of each stretch of
    images that advances by itself: photos from elsewhere may follow a drive. Of these a match is in order if it is a
    short step from one of the two before it or behind it.

    >>> in_order, right = right_in_order(np.r_[np.arange(60), np.arange(60) * 97 % 500], 500)
    >>> int(in_order[:60].sum()), int(in_order[60:].sum()), 40 < right < 60
    (60, 0, True)
    """
    reach, in_order = _reach(n_places), np.zeros(len(along), bool)
    near = np.zeros(len(along), bool)
    for step in (1, 2):
        close = np.abs(along[step:] - along[:-step]) <= step * reach
        near[step:] |= close
        near[:-step] |= close
    surplus = n_changes = n_images = 0
    for part in np.array_split(np.arange(len(along)), max(1, len(along) // _STRETCH)):
        more, enough, changed = _more_ahead(along[part], n_places, _CERTAIN)
        if changed >= _CHANGES and abs(more) >= enough:
            in_order[part] = near[part]
            surplus, n_changes, n_images = surplus + abs(more), n_changes + changed, n_images + len(part)
    proved = max(0.0, surplus - _DEVIATIONS * surplus**0.5) / max(n_changes, 1)
    return in_order, proved**0.5 * n_images


def _reach(n_places: int) -> int:
    """Longest step that is short, in places."""
    return max(2, int(_NEAR * n_places))


def _more_ahead(along: Indices, n_places: int, sure: float = _DEVIATIONS) -> tuple[int, float, int]:
    """Short steps ahead less those back, how many more one way are beyond chance, and the number of changes."""
    changes = np.diff(along)
    # Steps of 0 say nothing: slow drives stay at a place, and so do foreign images that look alike.
    changes = changes[changes != 0]
    ahead, behind = ((changes * way > 0) & (np.abs(changes) <= _reach(n_places)) for way in (1, -1))
    more = int(ahead.sum()) - int(behind.sum())
    enough = max(_AHEAD * len(changes), sure * float(np.sqrt((ahead | behind).sum())))
    return more, enough, len(changes)
