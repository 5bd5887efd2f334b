"""Smoothing of a whole drive (`smooth_drive`), with a motion and a level that are estimated from the drive itself.

In turn: a first filter learns the motion; path and null model are compared (does the drive follow the order of the
places?); the best stretch (`belonging`), or else what the route's order saves (`continuity`), says whether it is along
this route at all; motion and level are re-estimated; a last pass reports.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from displace.arrays import Vectors
from displace.sequence.belonging import TOLD, belongs
from displace.sequence.continuity import continues
from displace.sequence.engine import (
    Belief,
    Blocks,
    Motion,
    Moves,
    See,
    forward,
    in_blocks,
    likelihood,
    on_places,
    rate_told,
    roughly_paced,
    smooth,
    update,
)
from displace.sequence.roadway import Roadway
from displace.sequence.stride import told_strides
from displace.sequence.tracking import STANDS, searched_in_vain
from displace.sequence.weighing import (
    Scale,
    backwards,
    earnings,
    moving_average,
    own_levels,
    scores_by_frame,
    scores_of_whole_drive,
    weighed,
)

_LEAST_GAIN, _GAIN_NOISE = 0.15, 3.0
"""Nats a frame by which path must exceed chance for the order to be used: the first plus the second over √frames, which
is what frames without order reach."""
_TWICE = 2e7
"""Frames × places up to which the motion is re-estimated by two rounds of Baum–Welch; beyond, the filter's is used."""
_FEW = 20
"""Frames at which a drive's own level counts as much as the map's prior level."""
_SLOW, _PASSED = 0.52, 0.9
"""Places a frame below which consecutive frames are averaged, and the mean step that the averages should have."""
_STEEP = 0.35
"""`weighing.STEEP` for whole drives; larger, because all frames together leave less doubt about the path."""
_CERTAIN = 0.99
"""Probability of being along the route, by the best stretch, from which on nothing else is asked."""
_ELSEWHERE = 0.37
"""Share of the cost of jumps that the route's order saves a drive through other streets, at most: of 62 through other
towns that seem to follow the route, the order saves up to 0.36 (median 0.2), of 65 nights along it 0.4 to 0.9."""


def smooth_drive(
    similarity: Blocks,
    scale: Scale,
    see: See,
    ordered: bool = True,
    roadway: Roadway | None = None,
    plain: Blocks | None = None,
) -> bool:
    """Smooth a drive with its own motion and level; each frame by itself where the frames do not follow the route.

    Parameters
    ----------
    similarity : Blocks
    scale : Scale
        Its level is the prior, which counts for short drives (`_FEW`).
    see : callable
        Gets each frame's number and belief.
    ordered : bool
        Whether the places have an order at all.
    roadway : Roadway, optional
        Where the map lacks stretches of the route.
    plain : Blocks, optional
        Similarities without the pictures, where `similarity` heeds them: by these it is judged whether the drive is
        along this route at all, as it is known what other streets reach by them.

    Returns
    -------
    bool
        Whether the frames follow the route's order.
    """
    n_frames, n_places = similarity.shape
    if not ordered or not n_frames:
        _each_alone(similarity, scale, see)
        return False
    scores, slope = scores_of_whole_drive(similarity), scale.slope
    rate, besides = told_strides(scores)
    prior = Motion(besides=besides) if rate is None else Motion(steps=roughly_paced(rate), besides=besides)
    motion, _ = forward(weighed(scores, slope, scale.level), prior)
    slow = rate_told(motion, prior, n_frames)
    if slow < _SLOW:
        n = max(2, round(_PASSED / max(slow, 1 / _FEW)))
        plain = None if plain is None else averaged(plain, n)
        return smooth_drive(
            averaged(similarity, n), scale, for_each(see, n, n_frames), ordered, roadway, plain
        )
    motion = motion.at_paces(motion.mean_step)
    path, chance = earnings(scores, slope, motion), earnings(backwards(scores), slope, motion)
    if path.mean() - chance.mean() < _LEAST_GAIN + _GAIN_NOISE / np.sqrt(n_frames):
        _each_alone(similarity, scale, see, searched=n_frames)
        return False
    alike, earned = scores, (path, chance)
    if plain is not None:
        alike = scores_of_whole_drive(plain)
        earned = earnings(alike, slope, motion), earnings(backwards(alike), slope, motion)
    belonging, stretch = belongs(earned[0], moving_average(earned[1]))
    if belonging < _CERTAIN:
        belonging = max(belonging, continues(alike, slope, motion, stretch, _ELSEWHERE))
    # Weights of ∅ in the case that the drive is elsewhere, and of the prior level: short drives claim little.
    told, short = min(1.0, n_frames / TOLD), _FEW / (n_frames + _FEW)
    # At first only the best stretch counts as on the map: the rest may be other streets.
    on_map = np.zeros(n_frames)
    on_map[stretch] = 1.0

    def keep(frame: int, belief: Belief) -> None:
        on_map[frame] = 1 - belief.off_map

    def smoothed(motion: Motion, see: See) -> Moves:
        levels = short * scale.level + (1 - short) * own_levels(path, chance, on_map, _STEEP)
        return _smooth_along(weighed(scores, slope, levels), motion, see)

    # Only from here on with the gaps of the map: path and null model above have the places alone as states.
    prior, motion = replace(prior, roadway=roadway), replace(motion, roadway=roadway)
    for _ in range(2 if n_frames * n_places <= _TWICE else 0):
        motion = smoothed(motion, keep).motion(prior)
    smoothed(motion, lambda frame, belief: see(frame, belief.in_doubt(belonging, told)))
    return True


def _smooth_along(evidence: Blocks, motion: Motion, see: See) -> Moves:
    """`engine.smooth` along the motion's roadway, if it has one: where the map has no place, evidence is 0 as of ∅."""
    roadway = motion.roadway
    if roadway is None:
        return smooth(evidence, motion, see)
    positions = Blocks(
        (evidence.shape[0], roadway.n_positions), lambda rows: roadway.spread(evidence.block(rows), 0.0)
    )
    return smooth(positions, motion, lambda frame, belief: see(frame, on_places(belief, roadway)))


def averaged(similarity: Blocks, n: int) -> Blocks:
    """Similarities of a slow drive, averaged over groups of `n` consecutive frames.

    These show the same place with the same errors: as independent evidence they would fit wherever they stand.
    """
    n_frames, n_places = similarity.shape

    def block(rows: slice) -> Vectors:
        frames = similarity.block(slice(rows.start * n, min(rows.stop * n, n_frames)))
        first = np.arange(0, len(frames), n)
        sums: Vectors = np.add.reduceat(frames, first, axis=0)
        return sums / np.diff(first, append=len(frames))[:, None].astype(sums.dtype)

    return Blocks((-(-n_frames // n), n_places), block)


def for_each(see: See, n: int, n_frames: int) -> See:
    """Return a callback that passes the belief of a group of `n` frames to `see` for each of them."""

    def each(group: int, belief: Belief) -> None:
        for frame in range(group * n, min(group * n + n, n_frames)):
            see(frame, belief)

    return each


def _each_alone(similarity: Blocks, scale: Scale, see: See, searched: int = 0) -> None:
    """Report the posterior of each frame by itself, after a search for a path among so many frames failed.

    Frames whose best match is that of the frame before do not count: a drive that stands can have no path.
    """
    evidence = weighed(scores_by_frame(similarity), scale.slope, scale.level)
    n_frames, n_places = evidence.shape
    if searched:
        matches = np.array([row.argmax() for row in similarity])
        searched = int((np.abs(np.diff(matches)) > STANDS).sum())
    for rows in in_blocks(n_frames):
        places, off = likelihood(evidence.block(rows))
        for row in range(len(places)):
            alone, _ = update(Belief.unknown(n_places), places[row], float(off[row]))
            see(rows.start + row, alone.likelier_off_map(searched_in_vain(alone.off_map, searched)))
