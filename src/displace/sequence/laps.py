"""Recordings that drive a part of their route twice."""

from __future__ import annotations

import numpy as np

from displace.arrays import Vectors
from displace.sequence.engine import Belief, Given, Motion, smooth
from displace.sequence.weighing import Scale, Weighed, earned

_MOST_FRAMES = 400
_APART = 0.06
"""Frames nearer than this share of the recording are neighbours, not a second visit."""
_GAIN, _NOISE = 0.7, 3.0
"""A recording without a second lap earned at most 0.5 above chance, one with a lap of half its length over 1.2. The
second, over the root of the number of frames, is for what few frames reach by chance."""
_LEAST_FRAMES = 50
_NOT_LATER = -2.0
_SLOPE = 1.5
_ABOVE, _MORE = 0.27, 0.5
"""Level of the off-map state: this share of the way from what chance earns to what the path earns, and more."""


def second_lap(vectors: Vectors) -> tuple[int, int, int] | None:
    """First and last frame of a stretch that is seen again, and the frame from which it is; None where none is.

    The recording is paired with what comes later in itself, neighbours left out: only a second lap gives a path.

    Parameters
    ----------
    vectors : array of shape (n, D)
        Unit vectors less their mean, stops removed.
    """
    taken = np.unique(np.linspace(0, len(vectors) - 1, min(len(vectors), _MOST_FRAMES)).astype(np.intp))
    n = len(taken)
    apart = max(5, round(_APART * n))
    if n < _LEAST_FRAMES:
        return None
    similarity = vectors[taken] @ vectors[taken].T
    later = np.arange(n)[None, :] - np.arange(n)[:, None] >= apart
    known = similarity[later]
    scores = np.where(later, (similarity - known.mean()) / max(float(known.std()), 1e-9), _NOT_LATER)
    scores = scores[: n - apart - 5].astype(np.float32)
    motion = Motion(jump=0.003, leave=0.005, back=0.02)
    chance = earned(Given(scores[:, ::-1]), _SLOPE, motion)
    path = earned(Given(scores), _SLOPE, motion)
    if path - chance < _GAIN + _NOISE / np.sqrt(n):
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
    return int(taken[seen[0]]), int(taken[seen[-1]]), int(taken[again[seen[0]]])
