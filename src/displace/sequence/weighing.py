"""Evidence from similarity, and the smoothing of a whole drive (`smooth_drive`).

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
from displace.sequence.belonging import TOLD, belongs
from displace.sequence.continuity import continues
from displace.sequence.engine import (
    Belief,
    Blocks,
    Floats,
    Motion,
    Moves,
    Row,
    around,
    forward,
    in_blocks,
    likelihood,
    on_places,
    rate_told,
    smooth,
    unseen,
    update,
)
from displace.sequence.roadway import Roadway
from displace.sequence.stride import told_strides
from displace.sequence.tracking import HALFWAY, level_between, searched_in_vain

_LEAST_SPREAD = 1e-6
"""Standard deviation of similarities, relative to their size, below which a frame shows nothing."""
_SAMPLE = 600
"""Most frames, from the middle of a drive, for the mean earnings of chance."""
_LEAST_GAIN = 0.15
_GAIN_NOISE = 3.0
"""Nats a frame by which path must exceed chance for the order to be used: the first plus the second over √frames, which
is what frames without order reach."""
_TWICE = 2e7
"""Frames × places up to which the motion is re-estimated by two rounds of Baum–Welch; beyond, the filter's is used."""
_FEW = 20
"""Frames at which a drive's own level counts as much as the map's prior level."""
_USUAL = 50.0
"""Pseudo-frames of the prior (mean 0, variance 1) in the statistics of a place's scores over the drive's frames."""
_SLOW, _PASSED = 0.52, 0.9
"""Places a frame below which consecutive frames are averaged, and the mean step that the averages should have."""
_AROUND = 11
"""Width (frames) of the centred moving average of earnings."""
_RISE = 1.0
"""Most nats of a level above chance: however distinct most of a route is, some stretch of it may not be."""
_STEEP = 0.35
"""`tracking.STEEP` for whole drives; larger, because all frames together leave less doubt about the path."""
_CERTAIN = 0.99
"""Probability of being along the route, by the best stretch, from which on nothing else is asked."""
_ELSEWHERE = 0.37
"""Share of the cost of jumps that the route's order saves a drive through other streets, at most: of 62 through other
towns that seem to follow the route, the order saves up to 0.36 (median 0.2), of 65 nights along it 0.4 to 0.9."""
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


@dataclass(frozen=True, eq=False)
class Columns:
    """Mean and standard deviation of each place's scores over all frames: what every frame resembles says little."""

    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, similarity: Blocks, usual: float = 0.0) -> Columns:
        """Compute them in one pass over the frames.

        Parameters
        ----------
        similarity : Blocks
        usual : float
            Pseudo-frames of a prior with mean 0 and variance 1: the statistics of few frames describe the places that
            they show.
        """
        n_frames, n_places = similarity.shape
        total, squares = np.zeros(n_places), np.full(n_places, usual)
        for rows in in_blocks(n_frames):
            scores = standardised(similarity.block(rows)).astype(np.float64)
            total += scores.sum(axis=0)
            squares += (scores**2).sum(axis=0)
        mean = total / (n_frames + usual)
        spread = np.sqrt(np.maximum(squares / (n_frames + usual) - mean**2, 0))
        # A place that few frames resemble varies too little to divide by.
        return cls(mean, np.maximum(spread, 0.3))


@dataclass(frozen=True, eq=False)
class Scores:
    """Standard scores of similarities, block by block."""

    similarity: Blocks
    columns: Columns | None = None
    """To standardise over frames, too. Without, each frame is corrected for its heavy tail: see `beyond_normal`."""

    @property
    def shape(self) -> tuple[int, int]:
        """Frames and places."""
        return self.similarity.shape

    def block(self, rows: slice) -> Vectors:
        """Return the scores of some frames."""
        scores = standardised(self.similarity.block(rows))
        if self.columns is not None:
            return (scores - self.columns.mean) / self.columns.spread
        scores -= beyond_normal(scores)[:, None]
        return scores


@dataclass(frozen=True, eq=False)
class WholeDrive:
    """Scores of a drive that is known as a whole: standardised over places, over frames, and over places again.

    A place that many frames of the drive resemble, as a dark road does, then stands out less; else a stretch that the
    map lacks would be taken for it.
    """

    scores: Scores
    """Standardised over places and frames."""

    @classmethod
    def of(cls, similarity: Blocks) -> WholeDrive:
        """Make them of a drive's similarities, in one pass over the frames."""
        return cls(Scores(similarity, Columns.of(similarity, _USUAL)))

    @property
    def shape(self) -> tuple[int, int]:
        """Frames and places."""
        return self.scores.shape

    def block(self, rows: slice) -> Vectors:
        """Return the scores of some frames."""
        return standardised(self.scores.block(rows))


@dataclass(frozen=True, eq=False)
class _Together:
    """Similarities of a slow drive, averaged over groups of consecutive frames.

    These show the same place with the same errors: as independent evidence they would fit wherever they stand.
    """

    similarity: Blocks
    frames: int

    @property
    def shape(self) -> tuple[int, int]:
        return -(-self.similarity.shape[0] // self.frames), self.similarity.shape[1]

    def block(self, rows: slice) -> Vectors:
        last = min(rows.stop * self.frames, self.similarity.shape[0])
        block = self.similarity.block(slice(rows.start * self.frames, last))
        first = np.arange(0, len(block), self.frames)
        sums: Vectors = np.add.reduceat(block, first, axis=0)
        return sums / np.diff(first, append=len(block))[:, None].astype(sums.dtype)

    def seen(self, see: Row) -> Row:
        """Return a callback that passes a group's belief to `see` for each of its frames."""

        def each(number: int, belief: Belief, evidence: Vectors) -> None:
            first = number * self.frames
            for frame in range(first, min(first + self.frames, self.similarity.shape[0])):
                see(frame, belief, evidence)

        return each


@dataclass(frozen=True, eq=False)
class Weighed:
    """Evidence slope · z − level, block by block."""

    scores: Blocks
    scale: Scale
    levels: Vectors | None = None
    """Shape (q, 1). The level of each frame, instead of that of the scale."""

    @property
    def shape(self) -> tuple[int, int]:
        """Frames and places."""
        return self.scores.shape

    def block(self, rows: slice) -> Vectors:
        """Return the evidence of some frames."""
        level = self.scale.level if self.levels is None else self.levels[rows]
        return self.scale.slope * self.scores.block(rows) - level


@dataclass(frozen=True, eq=False)
class _AlongRoadway:
    """Evidence of a roadway's positions: that of their places, and 0, as of ∅, where the map has none."""

    evidence: Blocks
    roadway: Roadway

    @property
    def shape(self) -> tuple[int, int]:
        return self.evidence.shape[0], self.roadway.n_positions

    def block(self, rows: slice) -> Vectors:
        return self.roadway.spread(self.evidence.block(rows), 0.0)

    def seen(self, see: Row) -> Row:
        """Return a callback for beliefs over positions that passes those over places to `see`."""
        return lambda frame, belief, evidence: see(
            frame, on_places(belief, self.roadway), evidence[self.roadway.places]
        )


@dataclass(frozen=True, eq=False)
class Backwards:
    """Scores with the places in reverse order (the null model), of all frames or at most so many from the middle."""

    scores: Blocks
    most: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Frames and places."""
        n_frames, n_places = self.scores.shape
        return min(n_frames, self.most or n_frames), n_places

    def block(self, rows: slice) -> Vectors:
        """Return the scores of some frames."""
        first = (self.scores.shape[0] - self.shape[0]) // 2
        return self.scores.block(slice(rows.start + first, rows.stop + first))[:, ::-1]


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
    """Return slope · `Scores` of one frame (N,), in few passes over the places: for the online filter."""
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
    _, each = forward(Weighed(scores, Scale(slope, 0.0)), never_off, unseen, learn=False)
    return each


def earned(scores: Blocks, slope: float, motion: Motion) -> float:
    """Mean of the earnings, in nats a frame."""
    return float(earnings(scores, slope, motion).mean())


def earned_by_chance(scores: Blocks, slope: float, motion: Motion) -> float:
    """Mean earnings under the null model, the reversed route: what the best of many wrong paths reaches."""
    return earned(Backwards(scores, _SAMPLE), slope, motion)


def smooth_drive(
    similarity: Blocks, scale: Scale, see: Row, ordered: bool = True, roadway: Roadway | None = None
) -> bool:
    """Smooth a drive with its own motion and level; each frame by itself where the frames do not follow the route.

    In turn: a first filter learns the motion; path and null model are compared (order); the best stretch (`belonging`),
    or else what the route's order saves (`continuity`), says whether the drive is along the route at all; motion and
    level are re-estimated; a last pass reports.

    Parameters
    ----------
    similarity : Blocks
    scale : Scale
        Its level is the prior, which counts for short drives (`_FEW`).
    see : callable
        Gets each frame's number, belief and evidence.
    ordered : bool
        Whether the places have an order at all.
    roadway : Roadway, optional
        Where the map lacks stretches of the route.

    Returns
    -------
    bool
        Whether the frames follow the route's order.
    """
    if not ordered:
        _each_alone(Weighed(Scores(similarity), scale), see)
        return False
    scores, slope = WholeDrive.of(similarity), scale.slope
    n_frames = scores.shape[0]
    rate, besides = told_strides(scores)
    first = Motion(besides=besides) if rate is None else Motion(steps=around(rate), besides=besides)
    motion, _ = forward(Weighed(scores, scale), first, unseen)
    slow = rate_told(motion, first, n_frames)
    if slow < _SLOW:
        some = _Together(similarity, max(2, round(_PASSED / max(slow, 1 / _FEW))))
        return smooth_drive(some, scale, some.seen(see), ordered, roadway)
    motion = motion.at_paces(motion.mean_step)
    path, chance = earnings(scores, slope, motion), earnings(Backwards(scores), slope, motion)
    if path.mean() - chance.mean() < _LEAST_GAIN + _GAIN_NOISE / np.sqrt(n_frames):
        _each_alone(Weighed(Scores(similarity), scale), see, searched=n_frames)
        return False
    belonging, stretch = belongs(path, _around(chance))
    if belonging < _CERTAIN:
        further = continues(scores, lambda some: earnings(some, slope, motion), motion, stretch, _ELSEWHERE)
        belonging = max(belonging, further)
    told, short = min(1.0, n_frames / TOLD), _FEW / (n_frames + _FEW)
    # At first only the best stretch counts as on the map: the rest may be other streets.
    off_map = np.ones(n_frames)
    off_map[stretch] = 0.0

    def tell(frame: int, belief: Belief, evidence: Vectors) -> None:
        see(frame, belief.likely(belonging, told), evidence)

    def keep(frame: int, belief: Belief, evidence: Vectors) -> None:  # noqa: ARG001
        off_map[frame] = belief.off_map

    def smoothed(motion: Motion, see: Row) -> Moves:
        levels = short * scale.level + (1 - short) * own_levels(path, chance, 1 - off_map)
        evidence: Blocks = Weighed(scores, scale, levels)
        if roadway is not None:
            along = _AlongRoadway(evidence, roadway)
            evidence, see = along, along.seen(see)
        return smooth(evidence, motion, see)[0]

    prior, motion = replace(first, roadway=roadway), replace(motion, roadway=roadway)
    for _ in range(2 if n_frames * scores.shape[1] <= _TWICE else 0):
        motion = smoothed(motion, keep).motion(prior)
    smoothed(motion, tell)
    return True


def own_levels(
    path: Floats, chance: Floats, on_map: Floats, steep: float = _STEEP, most: float = HALFWAY
) -> Vectors:
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
    around_path, around_chance = _around(path), _around(chance)
    varies = around_chance - around_chance.mean()
    share = float(np.clip(varies @ around_path / max(float(varies @ varies), 1e-9), 0, 1))
    here = chance.mean() + share * varies
    gain = float(on_map @ (path - here) / max(float(on_map.sum()), 1e-9))
    rise = min(level_between(0.0, gain, steep, most), _RISE)
    levels: Vectors = (here + rise).astype(np.float32)[:, None]
    return levels


def _around(each: Floats) -> Floats:
    """Centred moving average over `_AROUND` frames, (q,)."""
    return np.convolve(np.pad(each, _AROUND // 2, mode="edge"), np.full(_AROUND, 1 / _AROUND), "valid")


def _each_alone(evidence: Blocks, see: Row, searched: int = 0) -> None:
    """Report the posterior of each frame by itself, after a search for a path among so many frames failed."""
    n_frames, n_places = evidence.shape
    for rows in in_blocks(n_frames):
        ratios = evidence.block(rows)
        places, off = likelihood(ratios)
        for row in range(len(ratios)):
            alone, _ = update(Belief.unknown(n_places), places[row], float(off[row]))
            off_map = searched_in_vain(alone.off_map, searched)
            see(rows.start + row, alone.likely((1 - off_map) / (1 - alone.off_map)), ratios[row])
