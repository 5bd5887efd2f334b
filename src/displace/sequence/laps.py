"""Recordings that drive a part of their route twice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from displace.arrays import Indices, Vectors
from displace.holdout import spread
from displace.sequence.engine import Belief, Given, Motion, forward, smooth, unseen
from displace.sequence.weighing import Scale, Weighed, earned

_MOST_FRAMES = 400
_APART = 0.06
"""Frames nearer than this share of the recording are neighbours, not a second visit."""
_GAIN, _NOISE = 0.7, 3.0
"""Beyond the second over the root of the number of frames, which is for what few of them reach by chance, a recording
without a second lap earned at most 0.5 above chance, one with a lap of a quarter of its length over 0.8."""
_TOLD = 60.0
"""Log-evidence of all frames, above the route backwards, from which a short stretch is told. Pieces of recordings
without one reached 57, those that ended with 20 frames of their beginning 76 and more."""
_LEAST_FRAMES = 50
_NOT_LATER = -2.0
_SLOPE = 1.5
_ABOVE, _MORE = 0.27, 0.5
"""Level of the off-map state: this share of the way from what chance earns to what the path earns, and more."""


@dataclass(frozen=True)
class Lap:
    """A stretch that is seen again."""

    first: int
    last: int
    """Its frames."""
    again: int
    """From which frame on it is seen again."""
    sure: bool
    """Whether the recording as a whole speaks for it; a short stretch may be a resemblance."""


def second_lap(vectors: Vectors) -> Lap | None:
    """Find a stretch that a recording shows twice; None where there is none.

    The recording, unit vectors less their mean and without stops, is paired with what comes later in itself,
    neighbours left out: only a second lap gives a path.
    """
    taken = spread(len(vectors), _MOST_FRAMES)
    n = len(taken)
    apart = max(5, round(_APART * n))
    if n < _LEAST_FRAMES:
        return None
    similarity = _beyond_usual(vectors[taken] @ vectors[taken].T)
    later = np.arange(n)[None, :] - np.arange(n)[:, None] >= apart
    known = similarity[later]
    scores = np.where(later, (similarity - known.mean()) / max(float(known.std()), 1e-9), _NOT_LATER)
    scores = scores[: n - apart - 5].astype(np.float32)
    motion = Motion(jump=0.003, leave=0.005, back=0.02)
    chance = earned(Given(scores[:, ::-1]), _SLOPE, motion)
    path = earned(Given(scores), _SLOPE, motion)
    sure = path - chance >= _GAIN + _NOISE / np.sqrt(n)
    if not sure and _told(scores, chance, motion) < _TOLD:
        return None
    again = np.full(len(scores), -1)

    def see(frame: int, belief: Belief, evidence: Vectors) -> None:  # noqa: ARG001
        mode = int(belief.places.argmax())
        if belief.off_map < 0.5 and mode - frame > apart + 3:
            again[frame] = mode

    smooth(Weighed(Given(scores), Scale(_SLOPE, chance + _ABOVE * (path - chance) + _MORE)), motion, see)
    seen = np.flatnonzero(again >= 0)
    if len(seen) == 0:
        return None
    stretch = _longest(seen, again)
    return Lap(int(taken[stretch[0]]), int(taken[stretch[-1]]), int(taken[again[stretch[0]]]), bool(sure))


def _beyond_usual(similarity: Vectors) -> Vectors:
    """Similarity of frames (n, n) beyond what is usual for two that are so far apart.

    Scenery changes slowly: the nearer two frames, the more alike, so that a path beside the diagonal would look like a
    lap. What is usual never grows with the distance, so a lap, at whatever distance it comes, is not taken for usual.
    """
    n = len(similarity)
    usual = np.minimum.accumulate([np.diagonal(similarity, distance).mean() for distance in range(n)])
    result: Vectors = similarity - usual[np.abs(np.subtract.outer(np.arange(n), np.arange(n)))]
    return result


def _told(scores: Vectors, chance: float, motion: Motion) -> float:
    """Log-evidence of all frames, those off the path counting nothing, above that of the route backwards."""
    ways = (Weighed(Given(way), Scale(_SLOPE, chance + _MORE)) for way in (scores, scores[:, ::-1]))
    along, backwards = (float(forward(way, motion, unseen, learn=False)[1].sum()) for way in ways)
    return along - backwards


def _longest(seen: Indices, again: Indices) -> Indices:
    """Of the frames that are seen again, those of the longest stretch."""
    breaks = (np.diff(seen) > 3) | (np.abs(np.diff(again[seen])) > 10)
    return max(np.split(seen, np.flatnonzero(breaks) + 1), key=len)
