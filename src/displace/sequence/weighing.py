"""Evidence from similarity: what the frames of a drive say about the states of `engine`.

Evidence of a frame for place x: e(x) = slope · z(x) − level, where z are the frame's similarities standardised over all
places (over the drive's frames, too, where all are known) and level = log p(z | ∅) on that scale.

The level is estimated per drive. `earnings` are log p(z_t | z_1 … z_t−1) at level 0 with ∅ all but excluded: along the
route for the path, along the reversed route for a null model that has the same frames, places and resemblance of
neighbours but no true path ("chance"). The level lies between the two; their difference is also the log-likelihood
ratio that says whether frames follow the route's order at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from displace.arrays import Vectors
from displace.sequence.engine import Blocks, Floats, Motion, forward, in_blocks

STEEP, HALFWAY = 0.22, 0.5
"""Level = chance + min(STEEP · g, HALFWAY) · g, where g = path − chance (nats a frame). Halfway where the two are well
apart; nearer to chance where they are not, because such a path has stretches that score no better than chance."""
_LEAST_SPREAD = 1e-6
"""Standard deviation of similarities, relative to their size, below which a frame shows nothing."""
_SAMPLE = 600
"""Most frames, from the middle of a drive, for the mean earnings of chance."""
_USUAL = 50.0
"""Pseudo-frames of the prior (mean 0, variance 1) in the statistics of a place's scores over the drive's frames."""
_AROUND = 11
"""Width (frames) of the centred moving average of earnings."""
_RISE = 1.0
"""Most nats of a level above chance: however distinct most of a route is, some stretch of it may not be."""
_TAIL, _NORMAL = 0.98, 2.054
"""Quantile of a frame's scores that is compared with the normal distribution, and its value there."""
_COUNTS = 0.6
"""Share of the excess over that value which is subtracted from the frame's scores."""
_LOOKED_AT, _TOO_FEW = 300, 100
"""Places sampled for the quantile, about; and places below which its tail is the true place and its neighbours."""


@dataclass(frozen=True)
class Scale:
    """Evidence of a standard score z: ``slope · z − level``."""

    slope: float = 1.5
    """Nats for each standard deviation. Errors of consecutive frames are correlated, so it is less than a single frame
    would deserve."""
    level: float = 2.2
    """log p(z | ∅): what a frame must earn to be on the map rather than off it. Prior for drives of unknown level."""


def scores_by_frame(similarity: Blocks) -> Blocks:
    """Standard scores over the places, each frame corrected for its heavy tail: see `beyond_normal`."""

    def scores(block: Vectors) -> Vectors:
        found = standardised(block)
        found -= beyond_normal(found)[:, None]
        return found

    return similarity.each(scores)


def scores_by_frame_and_place(similarity: Blocks, usual: float = 0.0) -> Blocks:
    """Standard scores over the places, then of each place over the frames: what every frame resembles says little.

    `usual` are pseudo-frames of a prior with mean 0 and variance 1: the statistics of few frames describe the places
    that they show.
    """
    n_frames, n_places = similarity.shape
    total, squares = np.zeros(n_places), np.full(n_places, usual)
    for rows in in_blocks(n_frames):
        scores = standardised(similarity.block(rows)).astype(np.float64)
        total += scores.sum(axis=0)
        squares += (scores**2).sum(axis=0)
    mean = total / (n_frames + usual)
    spread = np.sqrt(np.maximum(squares / (n_frames + usual) - mean**2, 0))
    spread = np.maximum(spread, 0.3)  # a place that few frames resemble varies too little to divide by
    return similarity.each(lambda block: (standardised(block) - mean) / spread)


def scores_of_whole_drive(similarity: Blocks) -> Blocks:
    """Scores of a drive that is known as a whole: standardised over places, over frames, and over places again.

    A place that many frames of the drive resemble, as a dark road does, then stands out less; else a stretch that the
    map lacks would be taken for it.
    """
    return scores_by_frame_and_place(similarity, _USUAL).each(standardised)


def weighed(scores: Blocks, slope: float, level: float | Vectors) -> Blocks:
    """Evidence slope · z − level; the level is that of all frames, or of each, (q, 1)."""

    def block(rows: slice) -> Vectors:
        return slope * scores.block(rows) - (level[rows] if isinstance(level, np.ndarray) else level)

    return Blocks(scores.shape, block)


def backwards(scores: Blocks, most: int | None = None) -> Blocks:
    """Scores with the places in reverse order (the null model), of all frames or at most so many from the middle."""
    n_frames = scores.shape[0]
    n = min(n_frames, most or n_frames)
    first = (n_frames - n) // 2
    return scores.part(slice(first, first + n), slice(None, None, -1))


def standardised(similarity: Vectors) -> Vectors:
    """Each row less its mean, divided by its standard deviation; constant rows become 0.

    >>> standardised(np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]])).round(2)
    array([[-1.22,  0.  ,  1.22],
           [ 0.  ,  0.  ,  0.  ]])
    """
    centred = similarity - similarity.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.einsum("ij,ij->i", centred, centred) / centred.shape[1])
    level = np.abs(similarity).max(axis=1, initial=0)
    flat = spread <= _LEAST_SPREAD * np.maximum(level, _LEAST_SPREAD)
    result: Vectors = centred / np.where(flat, np.inf, spread)[:, None]
    return result


def beyond_normal(scores: Vectors) -> Vectors:
    """What is subtracted from the scores (q, N) of frames whose upper tail is heavier than normal, (q,).

    A frame that resembles many places well, as a wall or a dark road does, has a high best score by chance.

    >>> beyond_normal(np.r_[np.zeros(190), np.full(10, 4.0)][None]).round(2)
    array([1.17])
    """
    stride, at = _looked_at(scores.shape[1])
    if not at:
        return np.zeros(len(scores), scores.dtype)
    tail = np.partition(scores[:, ::stride], at, axis=1)[:, at]
    # Constant frames have scores of 0, and no tail.
    explained: Vectors = np.where(tail > 0, _COUNTS * (tail - _NORMAL), 0).astype(scores.dtype)
    return explained


def _looked_at(n_places: int) -> tuple[int, int]:
    """Stride of the sampled places, and the rank of the quantile among them; 0 where places are too few."""
    if n_places < _TOO_FEW:
        return 1, 0
    stride = max(1, n_places // _LOOKED_AT)
    return stride, int(_TAIL * -(-n_places // stride))


def scores_of_row(similarity: Vectors, slope: float) -> Vectors:
    """Return slope · `scores_by_frame` of one frame (N,), in few passes over the places: for the online filter."""
    n = len(similarity)
    mean = float(np.add.reduce(similarity)) / n
    centred = similarity - similarity.dtype.type(mean)
    spread = float(np.sqrt(float(centred @ centred) / n))
    flat = spread <= _LEAST_SPREAD * max(abs(mean), _LEAST_SPREAD)
    stride, at = _looked_at(n)
    explained = 0.0
    if at and not flat:
        some = centred[::stride].copy()
        some.partition(at)
        tail = float(some[at])
        # In units of similarity, as the scores are scaled below.
        explained = _COUNTS * (tail - _NORMAL * spread) if tail > 0 else 0.0
    centred -= centred.dtype.type(explained)
    centred *= centred.dtype.type(0.0 if flat else slope / spread)
    return centred


def earnings(scores: Blocks, slope: float, motion: Motion) -> Floats:
    """Return log p(z_t | z_1 … z_t−1) of each frame (q,) at level 0, with ∅ all but excluded."""
    never_off = replace(motion, leave=1e-6, back=0.5)
    _, each = forward(weighed(scores, slope, 0.0), never_off, learn=False)
    return each


def earned(scores: Blocks, slope: float, motion: Motion) -> float:
    """Mean of the earnings, in nats a frame."""
    return float(earnings(scores, slope, motion).mean())


def earned_by_chance(scores: Blocks, slope: float, motion: Motion) -> float:
    """Mean earnings under the null model, the reversed route: what the best of many wrong paths reaches."""
    return earned(backwards(scores, _SAMPLE), slope, motion)


def level_between(chance: float, path: float, steep: float = STEEP, most: float = HALFWAY) -> float:
    """Level of the off-map state, from the mean earnings of the null model and of the path: see `STEEP`.

    >>> level_between(1.0, 2.0), level_between(1.0, 5.0)
    (1.22, 3.0)
    """
    gain = max(0.0, path - chance)
    return chance + min(steep * gain, most) * gain


def own_levels(path: Floats, chance: Floats, on_map: Floats, steep: float, most: float = HALFWAY) -> Vectors:
    """Level of each frame, estimated from the drive itself, (q, 1).

    Where scenery changes slowly, as on an open plain, the best of many wrong paths earns little, and so does the true
    one; among buildings both earn more. One level for all frames would put the plain off the map. So the level follows
    the local mean c of chance, by the share b (regression slope of the path's local mean on c, clipped to 0 … 1):
    level = mean(chance) + b · (c − mean c) + rise, where `level_between` gives the rise from the mean gain on the map.

    Parameters
    ----------
    path, chance : arrays of shape (q,)
        Earnings along the route, and along the reversed route.
    on_map : array of shape (q,)
        Probability that each frame is on the map: its weight in the mean gain.
    steep, most : float
        See `level_between`.
    """
    around_path, around_chance = moving_average(path), moving_average(chance)
    varies = around_chance - around_chance.mean()
    share = float(np.clip(varies @ around_path / max(float(varies @ varies), 1e-9), 0, 1))
    here = chance.mean() + share * varies
    gain = float(on_map @ (path - here) / max(float(on_map.sum()), 1e-9))
    rise = min(level_between(0.0, gain, steep, most), _RISE)
    levels: Vectors = (here + rise).astype(np.float32)[:, None]
    return levels


def moving_average(each: Floats) -> Floats:
    """Centred moving average over `_AROUND` frames, (q,)."""
    return np.convolve(np.pad(each, _AROUND // 2, mode="edge"), np.full(_AROUND, 1 / _AROUND), "valid")
