"""Detects recordings that drive a part of their route twice (`second_lap`), which alignment cannot use.

The recording is paired with its own later part by the hidden Markov model of `engine`, near neighbours excluded. Only a
second lap gives a path that beats the null model, the reversed order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from displace.arrays import Indices, Vectors
from displace.holdout import spread
from displace.sequence.engine import Belief, Blocks, forward, smooth
from displace.sequence.pairing import MOTION, SLOPE
from displace.sequence.weighing import backwards, earned, weighed

_MOST_FRAMES = 400
"""Frames that are compared, spread over the recording: bounds the time."""
_APART = 0.06
"""Share of the recording within which frames are neighbours, not a second visit."""
_GAIN, _NOISE = 0.7, 3.0
"""Gain (nats a frame) of a sure second lap: the first plus the second over √frames. Beyond the second term, which is
chance, recordings without a second lap gained at most 0.5, those with a lap of a quarter of their length over 0.8."""
_REPORTED = 60.0
"""Log-likelihood ratio (nats, all frames) against the null model from which a short stretch is reported. Recordings
without one reached 57, those that ended with 20 frames of their beginning 76 and more."""
_LEAST_FRAMES = 50
"""Frames below which no lap is looked for."""
_NOT_LATER = -2.0
"""Standard score given to pairs that are not a later visit: excludes them from a path."""
_ABOVE, _MORE = 0.27, 0.5
"""Level of the off-map state = chance + _ABOVE · (path − chance) + _MORE, in nats."""


@dataclass(frozen=True)
class Lap:
    """A stretch that is seen again."""

    first: int
    last: int
    """Its frames."""
    again: int
    """Frame from which on it is seen again."""
    sure: bool
    """Whether the gain over all frames proves it; a short stretch may be a resemblance."""


def second_lap(vectors: Vectors) -> Lap | None:
    """Find a stretch that a recording shows twice; None where there is none.

    `vectors` are from `standardised_recording`, without stops.
    """
    taken = spread(len(vectors), _MOST_FRAMES)
    n = len(taken)
    apart = max(5, round(_APART * n))
    if n < _LEAST_FRAMES:
        return None
    similarity = _beyond_usual(vectors[taken] @ vectors[taken].T)
    later = np.arange(n)[None, :] - np.arange(n)[:, None] >= apart
    known = similarity[later]
    standard = np.where(later, (similarity - known.mean()) / max(float(known.std()), 1e-9), _NOT_LATER)
    scores = Blocks.of(standard[: n - apart - 5].astype(np.float32))
    chance = earned(backwards(scores), SLOPE, MOTION)
    path = earned(scores, SLOPE, MOTION)
    sure = path - chance >= _GAIN + _NOISE / np.sqrt(n)
    if not sure and _log_ratio(scores, chance) < _REPORTED:
        return None
    again = np.full(scores.shape[0], -1)

    def see(frame: int, belief: Belief) -> None:
        mode = int(belief.places.argmax())
        if belief.off_map < 0.5 and mode - frame > apart + 3:
            again[frame] = mode

    smooth(weighed(scores, SLOPE, chance + _ABOVE * (path - chance) + _MORE), MOTION, see)
    seen = np.flatnonzero(again >= 0)
    if len(seen) == 0:
        return None
    stretch = _longest(seen, again)
    return Lap(int(taken[stretch[0]]), int(taken[stretch[-1]]), int(taken[again[stretch[0]]]), bool(sure))


def _beyond_usual(similarity: Vectors) -> Vectors:
    """Similarity of frames (n, n) less the mean at their distance in time, which is made non-increasing.

    Scenery changes slowly, so near frames are alike and a path beside the diagonal would look like a lap. The true lap
    raises the mean at its own distance; non-increasing means keep it from being subtracted.
    """
    n = len(similarity)
    usual = np.minimum.accumulate([np.diagonal(similarity, distance).mean() for distance in range(n)])
    result: Vectors = similarity - usual[np.abs(np.subtract.outer(np.arange(n), np.arange(n)))]
    return result


def _log_ratio(scores: Blocks, chance: float) -> float:
    """Log-likelihood ratio of all frames against the null model, at a level just above chance: others count 0."""
    ways = (weighed(way, SLOPE, chance + _MORE) for way in (scores, backwards(scores)))
    along, back = (float(forward(way, MOTION, learn=False)[1].sum()) for way in ways)
    return along - back


def _longest(seen: Indices, again: Indices) -> Indices:
    """Longest run of the frames that are seen again whose later visits are consecutive, too."""
    breaks = (np.diff(seen) > 3) | (np.abs(np.diff(again[seen])) > 10)
    return max(np.split(seen, np.flatnonzero(breaks) + 1), key=len)
