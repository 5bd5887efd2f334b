"""How similarity becomes evidence: standardised within each frame, compared with what chance reaches."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from displace.arrays import Vectors
from displace.sequence.belonging import TOLD, belongs
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
_SAMPLE = 600
"""Frames that the level of chance is estimated from."""
_LEAST_GAIN = 0.15
_GAIN_NOISE = 3.0
"""Log-evidence above the route driven backwards that a frame must earn: the first, and the second over the root of
their number, which is what drives without order reach by chance."""
_TWICE = 2e7
"""Frames times places up to which the motion is learned by smoothing, too."""
_FEW = 20
"""Frames whose own level counts as much as the map's."""
_USUAL = 50.0
"""Frames of a drive that tell as much about what all of them resemble as is known beforehand."""
_SLOW, _PASSED = 0.52, 0.9
"""Places a frame below which a drive's frames count together, and how many they then pass."""
_AROUND = 11
"""Frames, half of them before, that tell what chance earns at the one in their middle."""
_RISE = 1.0
"""What a level is above chance, at most: however distinct most of a route is, some stretch of it may not be."""
_STEEP = 0.35
"""As `STEEP` where a drive is followed; more, as all frames together leave less doubt about the path."""
_TAIL, _NORMAL = 0.98, 2.054
"""Share of places that chance alone keeps below a frame's tail, and the standard score of it were they normal."""
_COUNTS = 0.6
"""How much of a tail beyond the normal one is taken from a frame's evidence."""
_LOOKED_AT, _TOO_FEW = 300, 100
"""Places that the tail is told from, about; and how few have none but the place itself and its neighbours."""


@dataclass(frozen=True)
class Scale:
    """Evidence of a standard score z: ``slope · z − level``."""

    slope: float = 1.5
    """How fast evidence grows. Frames that follow each other make the same errors, so less than one frame alone is
    worth."""
    level: float = 2.2
    """What a frame must earn, by where it may be and how it got there, to be on the map rather than off it."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Mean and spread of each place's standard scores over all frames: what every frame resembles says little."""

    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, similarity: Blocks, usual: float = 0.0) -> Columns:
        """Go over all frames once.

        Parameters
        ----------
        similarity : Blocks
        usual : float
            Frames that a mean of 0 and a spread of 1 count for: few frames tell more of their own places than of what
            every frame resembles.
        """
        n_frames, n_places = similarity.shape
        total, squares = np.zeros(n_places), np.full(n_places, usual)
        for rows in in_blocks(n_frames):
            scores = standardised(similarity.block(rows)).astype(np.float64)
            total += scores.sum(axis=0)
            squares += (scores**2).sum(axis=0)
        mean = total / (n_frames + usual)
        spread = np.sqrt(np.maximum(squares / (n_frames + usual) - mean**2, 0))
        # A place seen by few frames has no spread worth dividing by.
        return cls(mean, np.maximum(spread, 0.3))


@dataclass(frozen=True, eq=False)
class Scores:
    """Standard scores of similarities, block by block."""

    similarity: Blocks
    columns: Columns | None = None
    """Standardise over frames, too. Without, the tail of each frame counts: see `beyond_normal`."""

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
    """Standard scores of a drive that is known as a whole: over places, over its frames, and over places again.

    A place that many frames of the drive resemble, as a dark road does, stands out less: else a stretch that the map
    lacks would be taken for it.
    """

    scores: Scores
    """Over places and frames."""

    @classmethod
    def of(cls, similarity: Blocks) -> WholeDrive:
        """Go over all frames of a drive."""
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
    """Similarities of a slow drive: so many frames that follow each other count as one, their mean.

    They show the same place, and make the same errors: each counting by itself, they fit wherever they stand.
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
        """As `see`, of each frame by itself."""

        def each(number: int, belief: Belief, evidence: Vectors) -> None:
            first = number * self.frames
            for frame in range(first, min(first + self.frames, self.similarity.shape[0])):
                see(frame, belief, evidence)

        return each


@dataclass(frozen=True, eq=False)
class Weighed:
    """Evidence made from standard scores."""

    scores: Blocks
    scale: Scale
    levels: Vectors | None = None
    """Shape (q, 1). The level of each frame, where it is not the same for all."""

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
    """Evidence of places as evidence of a roadway's positions: where the map has no place, that of being off it."""

    evidence: Blocks
    roadway: Roadway

    @property
    def shape(self) -> tuple[int, int]:
        return self.evidence.shape[0], self.roadway.n_positions

    def block(self, rows: slice) -> Vectors:
        return self.roadway.spread(self.evidence.block(rows), 0.0)

    def seen(self, see: Row) -> Row:
        """As `see`, for beliefs over positions."""
        return lambda frame, belief, evidence: see(
            frame, on_places(belief, self.roadway), evidence[self.roadway.places]
        )


@dataclass(frozen=True, eq=False)
class Backwards:
    """Frames of a drive against the route driven backwards: all of them, or at most so many from the middle."""

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
    """Each row less its mean, divided by its spread; rows without any spread become 0.

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
    """What of standard scores (q, N) the tail of their frame explains, (q,).

    A frame that resembles many places well, as a wall or a dark road does, resembles one of them best by chance. So
    being on the map takes more of it.

    >>> beyond_normal(np.r_[np.zeros(190), np.full(10, 4.0)][None]).round(2)
    array([1.17])
    """
    stride, at = _looked_at(scores.shape[1])
    if not at:
        return np.zeros(len(scores), scores.dtype)
    tail = np.partition(scores[:, ::stride], at, axis=1)[:, at]
    # A frame without anything to see has no tail.
    explained: Vectors = np.where(tail > 0, _COUNTS * (tail - _NORMAL), 0).astype(scores.dtype)
    return explained


def _looked_at(n_places: int) -> tuple[int, int]:
    """One place in how many the tail is told from, and the rank among them where it begins; 0 where there is none."""
    if n_places < _TOO_FEW:
        return 1, 0
    stride = max(1, n_places // _LOOKED_AT)
    return stride, int(_TAIL * -(-n_places // stride))


def scores_of_row(similarity: Vectors, slope: float) -> Vectors:
    """As `Scores`, for one frame (N,) and times a slope: no more passes over the places than it takes."""
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
        # Taken away before the scores are scaled, while they are as they came.
        explained = _COUNTS * (tail - _NORMAL * spread) if tail > 0 else 0.0
    centred -= centred.dtype.type(explained)
    centred *= centred.dtype.type(0.0 if flat else slope / spread)
    return centred


def earnings(scores: Blocks, slope: float, motion: Motion) -> Floats:
    """Log-evidence of each frame (q,), were the drive on the route all the time."""
    never_off = replace(motion, leave=1e-6, back=0.5)
    _, each = forward(Weighed(scores, Scale(slope, 0.0)), never_off, unseen, learn=False)
    return each


def earned(scores: Blocks, slope: float, motion: Motion) -> float:
    """Mean of the earnings."""
    return float(earnings(scores, slope, motion).mean())


def earned_by_chance(scores: Blocks, slope: float, motion: Motion) -> float:
    """Log-evidence of a frame on a path that cannot be right: along the route driven backwards.

    The same frames, the same places and the same resemblance between neighbours, but no true path; so it tells how
    far the best of many wrong paths comes.
    """
    return earned(Backwards(scores, _SAMPLE), slope, motion)


def smooth_drive(
    similarity: Blocks, scale: Scale, see: Row, ordered: bool = True, roadway: Roadway | None = None
) -> bool:
    """Smooth a drive with the motion learned from itself; each frame for itself where order does not help.

    Parameters
    ----------
    similarity : Blocks
    scale : Scale
        Its level counts for a short drive; a long one tells its own.
    see : callable
        Gets each frame's number, belief and evidence.
    ordered : bool
        Whether the places have an order at all.
    roadway : Roadway, optional
        Where the map lacks stretches of the route.

    Returns
    -------
    bool
        Whether the frames follow the route's order: they fit it better than they fit the route backwards.
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
    told, short = min(1.0, n_frames / TOLD), _FEW / (n_frames + _FEW)
    # What being on the map earns is told by the best stretch at first: all else may be other streets.
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
    """Level of each frame of a drive as the drive itself tells it, (q, 1).

    Where scenery changes slowly, as on an open plain, the best of many wrong paths earns little, and so does the true
    one; among buildings both earn more. One level for a whole drive would call its plain stretches off the map. So the
    level goes up and down with what chance earns around a frame, as far as the path's earnings do so on this drive.

    Parameters
    ----------
    path, chance : arrays of shape (q,)
        What frames earn on the path, and on one that cannot be right.
    on_map : array of shape (q,)
        How likely each is on the map: the others do not tell what the path earns.
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
    """Means of the numbers around each, (q,)."""
    return np.convolve(np.pad(each, _AROUND // 2, mode="edge"), np.full(_AROUND, 1 / _AROUND), "valid")


def _each_alone(evidence: Blocks, see: Row, searched: int = 0) -> None:
    """Show each frame's belief for itself, after a path was searched for in vain among so many frames."""
    n_frames, n_places = evidence.shape
    for rows in in_blocks(n_frames):
        ratios = evidence.block(rows)
        places, off = likelihood(ratios)
        for row in range(len(ratios)):
            alone, _ = update(Belief.unknown(n_places), places[row], float(off[row]))
            off_map = searched_in_vain(alone.off_map, searched)
            see(rows.start + row, alone.likely((1 - off_map) / (1 - alone.off_map)), ratios[row])
