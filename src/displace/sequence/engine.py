"""A hidden Markov chain over the places of a route in their order, with a state for being off the map.

From one frame to the next a drive moves by 0, 1, 2 … places, with learned probabilities; now and then it jumps to any
place, leaves the map, or comes back to it anywhere. So both ends are open, and one chain serves to follow a drive,
to smooth it afterwards and to align two recordings. Where all frames are known, a drive may also keep a pace for a
while, slower or faster than usual: then being fast is paid for once, not again with every frame.

What a frame says about a place is the logarithm of how much likelier its similarity is if the frame was taken there
than if it was not: the evidence. Off the map nothing is taken anywhere: its evidence is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors
from displace.sequence.roadway import Roadway

Floats = NDArray[np.float64]

STEPS = (0.25, 0.4, 0.25, 0.1)
"""Probabilities of moving on by 0, 1, 2 and 3 places, before anything was learned."""
KEPT_BYTES = 256 * 2**20
"""Evidence up to this size is computed once and kept as float16; more is computed again when needed."""
UNKNOWN = 0.2
"""Probability of being off the map before anything was seen."""
_PRIOR = 20.0
"""Weight of `STEPS` and of the rates, in frames, while learning from a drive."""
MOST = 60.0
"""Greatest exponent of a likelihood."""
PACES = (0.5, 1.0, 2.0)
"""Paces of a drive, relative to its usual one."""
KEPT = 0.9
"""Probability of keeping a pace from one frame to the next."""
_UNSTEADY = 0.15
"""Probability of a place less, and of one more, than a pace says."""
_FAST = 3.0
"""Places a frame beyond which a pace is less steady: up to half as many less, or more."""


class Blocks(Protocol):
    """Numbers of frames (rows) and places in route order (columns), made block by block."""

    @property
    def shape(self) -> tuple[int, int]:
        """Frames and places."""

    def block(self, rows: slice) -> Vectors:
        """Return the numbers of some frames, (b, N)."""


@dataclass(frozen=True, eq=False)
class Given:
    """Numbers that are there as one array."""

    values: Vectors

    @property
    def shape(self) -> tuple[int, int]:
        """Frames and places."""
        return self.values.shape[0], self.values.shape[1]

    def block(self, rows: slice) -> Vectors:
        """Return the numbers of some frames."""
        return self.values[rows]


@dataclass(frozen=True)
class Motion:
    """How a drive moves along the route."""

    steps: tuple[float, ...] = STEPS
    """Probability of moving on by 0, 1, 2 … places; sums to 1."""
    jump: float = 0.01
    """Probability of being anywhere on the route instead."""
    leave: float = 0.01
    """Probability of leaving the map."""
    back: float = 0.05
    """Probability of coming back to it, anywhere."""
    paces: tuple[tuple[float, ...], ...] = ()
    """Where a drive keeps one of several paces for a while: the steps of each, instead of `steps`."""
    roadway: Roadway | None = None
    """Where the map lacks stretches of the route: the chain then runs over its positions, not over the places."""
    besides: tuple[float, ...] = ()
    """Rates, in places a frame, that the drive has at times."""

    @property
    def mean_step(self) -> float:
        """Places moved on from one frame to the next, on average."""
        return float(np.dot(self.steps, np.arange(len(self.steps))))

    @property
    def each_pace(self) -> tuple[tuple[float, ...], ...]:
        """Steps of each pace."""
        return self.paces or (self.steps,)

    def at_paces(self, rate: float) -> Motion:
        """As this, with the paces of a drive that moves on by `rate` places a frame, on average."""
        rates = *(rate * pace for pace in PACES), *self.besides
        return replace(self, steps=paced(rate), paces=tuple(paced(rate) for rate in rates))


def paced(pace: float) -> tuple[float, ...]:
    """Probabilities of steps at a steady pace.

    >>> [round(p, 3) for p in paced(1.5)]
    [0.075, 0.425, 0.425, 0.075]
    >>> paced(4.0)
    (0.0, 0.0, 0.0, 0.25, 0.5, 0.25)
    """
    if pace > _FAST:
        around = round(pace / 2)  # a whole number, so that the mean is the pace
        return tuple(max(0.0, 1 - abs(step - pace) / around) / around for step in range(ceil(pace + around)))
    below = int(pace)
    steps = [0.0] * (below + 3)
    # Plain numbers: a drive under way learns its pace with every frame.
    for step, share in ((below, below + 1 - pace), (below + 1, pace - below)):
        unsteady = _UNSTEADY * share if step else 0.0
        steps[step] += share - 2 * unsteady
        steps[step - 1] += unsteady
        steps[step + 1] += unsteady
    while steps[-1] == 0:
        steps.pop()
    return tuple(steps)


def around(rate: float) -> tuple[float, ...]:
    """Probabilities of steps where nothing but an average is known: half at that pace, half any up to twice as many.

    >>> [round(p, 2) for p in around(4.0)]
    [0.06, 0.06, 0.06, 0.18, 0.31, 0.18, 0.06, 0.06, 0.06]
    """
    steady, n = paced(rate), round(2 * rate) + 1
    return tuple((steady[step] if step < len(steady) else 0.0) / 2 + 0.5 / n for step in range(n))


@dataclass(frozen=True, eq=False)
class Belief:
    """Probability of each place in route order, (N,), or of each place at each pace, (K, N); and of none of them."""

    places: Vectors
    off_map: float

    @classmethod
    def unknown(cls, n_places: int, off_map: float = UNKNOWN) -> Belief:
        """Nothing seen yet."""
        return cls(np.full(n_places, (1 - off_map) / n_places), off_map)

    @classmethod
    def at_start(cls, n_places: int, motion: Motion) -> Belief:
        """Nothing seen yet, at any pace."""
        paces = len(motion.each_pace)
        return cls((1 - UNKNOWN) / paces * np.tile(_arrivals(motion, n_places), (paces, 1)), UNKNOWN)

    def likely(self, share: float, told: float = 1.0) -> Belief:
        """As this, where the drive is along the route with this probability; else off the map, or anywhere.

        Parameters
        ----------
        share : float
            Probability that the drive is along the route.
        told : float
            Of what is then left, how much is off the map; the rest may be anywhere.
        """
        left = (1 - share) * (1 - self.off_map)
        anywhere = (1 - told) * left / self.places.size
        return Belief(self.places * share + anywhere, self.off_map + told * left)

    def whatever_pace(self) -> Belief:
        """Sum over paces."""
        return Belief(self.places.sum(axis=0), self.off_map) if self.places.ndim == 2 else self


def on_places(belief: Belief, roadway: Roadway) -> Belief:
    """Belief of positions (M,) as that of the map's places: on positions without one a drive is off the map."""
    between = float(belief.places[roadway.between].sum())
    return Belief(belief.places[roadway.places], belief.off_map + between)


def moved(places: Vectors, steps: Sequence[float]) -> Vectors:
    """Move probabilities on along the route; what passes its end is lost.

    >>> moved(np.array([1.0, 0.0, 0.0]), (0.5, 0.25, 0.25)).tolist()
    [0.5, 0.25, 0.25]
    """
    result = places * steps[0]
    for k in range(1, min(len(steps), len(places))):
        result[k:] += steps[k] * places[:-k]
    return result


def moved_back(places: Vectors, steps: Sequence[float]) -> Vectors:
    """Transpose of `moved`: each place gathers what lies ahead of it."""
    result = places * steps[0]
    for k in range(1, min(len(steps), len(places))):
        result[:-k] += steps[k] * places[k:]
    return result


def rate_told(learned: Motion, prior: Motion, n_frames: int) -> float:
    """Places a frame that so many frames tell, without what was assumed before: the inverse of what `Learner` does."""
    told = min(n_frames, Learner.memory)
    return max(0.0, (learned.mean_step * (told + _PRIOR) - prior.mean_step * _PRIOR) / told)


def predict(belief: Belief, motion: Motion) -> Belief:
    """Belief before the next frame is seen, of places at each pace (K, N)."""
    n_paces, n = belief.places.shape
    on_map = 1 - belief.off_map
    stays = (1 - motion.leave) * (1 - motion.jump)
    kept = _on_the_way(belief.places, motion)
    places = np.stack(
        [moved(at, [w * stays for w in steps]) for at, steps in zip(kept, motion.each_pace, strict=True)]
    )
    anywhere = on_map * (1 - motion.leave) * motion.jump + belief.off_map * motion.back
    places += anywhere / n_paces * _arrivals(motion, n)
    # What passed the end of the route has left the map, too.
    return Belief(places, max(0.0, 1 - float(places.sum())))


def _arrivals(motion: Motion, n: int) -> Vectors:
    """Probability of each place for a drive that comes from elsewhere."""
    return np.full(n, 1 / n) if motion.roadway is None else motion.roadway.arrivals


def _on_the_way(places: Vectors, motion: Motion) -> Vectors:
    """Places at each pace (K, N) before they are moved on: some at another pace, some past a missing stretch."""
    kept = changed(places)
    return kept if motion.roadway is None else motion.roadway.shortened(kept, motion.back)


def changed(places: Vectors) -> Vectors:
    """Let some of each pace, (K, N), change to any; it is its own transpose."""
    if len(places) == 1:
        return places
    result: Vectors = KEPT * places
    result += (1 - KEPT) / len(places) * places.sum(axis=0)
    return result


def likelihood(ratios: Vectors) -> tuple[Floats, Floats]:
    """Likelihoods of places and, for each frame, of being off the map: scaled so that the greatest is 1.

    Parameters
    ----------
    ratios : array of shape (b, N)

    Returns
    -------
    places, off_map : arrays of shape (b, N) and (b,)
    """
    top = np.maximum(ratios.max(axis=1), 0.0).astype(np.float64)
    places = np.exp(np.maximum(ratios - top[:, None], -MOST))
    return places, np.exp(-np.minimum(top, MOST))


def update(predicted: Belief, places: Floats, off_map: float) -> tuple[Belief, float]:
    """Belief after a frame with these likelihoods, and the probability of having seen it."""
    joint = predicted.places * places
    off = predicted.off_map * off_map
    total = float(joint.sum()) + off
    joint /= total
    return Belief(joint, off / total), total


@dataclass
class Learner:
    """Learns the motion from the frames seen so far: expected counts on top of a prior, slowly forgotten."""

    motion: Motion = field(default_factory=Motion)
    """As it is before the first frame."""
    memory: float = 200.0
    """Frames after which what was learned has faded to 37 %."""

    def __post_init__(self) -> None:
        rest = 1 - self.motion.jump
        self._prior = [_PRIOR * rest * weight for weight in self.motion.steps] + [_PRIOR * self.motion.jump]
        self._counts = [0.0] * len(self._prior)

    def see(
        self, before: Vectors, on_map: float, places: Vectors, scale: float = 1.0, frames: int = 1
    ) -> None:
        """Count how the drive got to a frame with these likelihoods.

        Parameters
        ----------
        before : array of shape (N,)
            The belief before it, once multiplied by `scale`.
        on_map : float
            What it then sums to.
        places : array of shape (N,)
        scale : float
        frames : int
            For how many it counts, where only some are looked at.
        """
        n, motion = len(places), self.motion
        if on_map < 1e-6:
            return
        # Plain numbers: a drive of few frames a second is followed among other things, and arrays of five are slow.
        reach, jump = len(motion.steps) - 1, motion.jump
        if n <= reach:
            return
        # All steps at once; the last places, from where not all of them stay on the route, do not count.
        reached = np.correlate(places, before[: n - reach]).tolist()
        ways = [(1 - jump) * weight * far for weight, far in zip(motion.steps, reached, strict=True)]
        ways.append(jump * on_map / scale * float(np.add.reduce(places)) / n)
        total = sum(ways)
        if total <= 0:
            return
        fades, weight = 1 - frames / self.memory, frames * on_map / total
        self._counts = counts = [
            fades * count + weight * way for count, way in zip(self._counts, ways, strict=True)
        ]
        shares = [prior + count for prior, count in zip(self._prior, counts, strict=True)]
        jumps = shares.pop()
        steps = sum(shares)
        self.motion = Motion(
            tuple([share / steps for share in shares]),
            jumps / (steps + jumps),
            motion.leave,
            motion.back,
            motion.paces,
            motion.roadway,
            motion.besides,
        )


Row = Callable[[int, Belief, Vectors], None]
"""Gets the number of a frame, its belief and its evidence."""


def forward(evidence: Blocks, motion: Motion, see: Row, learn: bool = True) -> tuple[Motion, Floats]:
    """Filter a drive; `see` gets frames from the first to the last.

    Returns
    -------
    motion, log_evidence
        The motion learned, and the logarithm of the probability of having seen each frame, (q,).
    """
    n_frames, n_places = evidence.shape
    learner = Learner(motion)
    belief, earned = Belief.at_start(n_places, motion), np.zeros(n_frames)
    for rows in in_blocks(n_frames):
        ratios = evidence.block(rows)
        places, off = likelihood(ratios)
        earned[rows] = np.maximum(ratios.max(axis=1), 0.0)
        for row in range(len(places)):
            frame = rows.start + row
            if frame and learn:
                learner.see(belief.whatever_pace().places, 1 - belief.off_map, places[row])
            predicted = predict(belief, learner.motion) if frame else belief
            belief, seen = update(predicted, places[row], float(off[row]))
            earned[frame] += np.log(seen)
            see(frame, belief.whatever_pace(), ratios[row])
    return learner.motion, earned


@dataclass(frozen=True, eq=False)
class Moves:
    """Expected numbers of each way to move, from smoothing."""

    steps: Floats
    jump: float
    leave: float
    back: float
    on_map: float
    off_map: float

    @property
    def mean_step(self) -> float:
        """Places moved on from one frame to the next on the map, on average; 0 where it never was."""
        return float(self.steps @ np.arange(len(self.steps)) / max(self.steps.sum(), 1e-9))

    def motion(self, prior: Motion, weight: float = _PRIOR) -> Motion:
        """Motion that these counts speak for at any pace, with a prior worth `weight` frames."""
        moves = self.steps.sum() + self.jump + weight
        rate = (self.steps.sum() * self.mean_step + weight * prior.mean_step) / (self.steps.sum() + weight)
        return Motion(
            prior.steps,
            float(np.clip((self.jump + weight * prior.jump) / moves, 1e-5, 0.99)),
            float(np.clip((self.leave + weight * prior.leave) / (self.on_map + weight), 1e-5, 0.5)),
            float(np.clip((self.back + weight * prior.back) / (self.off_map + weight), 1e-4, 0.5)),
            roadway=prior.roadway,
            besides=prior.besides,
        ).at_paces(rate)


def smooth(evidence: Blocks, motion: Motion, see: Row, block: int | None = None) -> tuple[Moves, float]:
    """Smooth a drive by forward–backward; `see` gets frames from the last to the first.

    Memory is bounded by two blocks of frames: the forward beliefs of a block are computed again from its first.

    Parameters
    ----------
    evidence : Blocks
    motion : Motion
    see : callable
        Gets a frame's number, its belief given all frames and its evidence.
    block : int, optional
        Frames of a block; by default about the root of all.

    Returns
    -------
    counts, log_evidence
    """
    n_frames, n_places = evidence.shape
    kept = _Kept(evidence) if 2 * n_frames * n_places <= KEPT_BYTES else evidence
    parts = list(in_blocks(n_frames, block))
    starts, belief, total = [], Belief.at_start(n_places, motion), 0.0
    for rows in parts:
        starts.append(belief)
        ratios = kept.block(rows)
        places, off = likelihood(ratios)
        total += float(np.maximum(ratios.max(axis=1), 0.0).sum())
        for row in range(len(places)):
            predicted = predict(belief, motion) if rows.start + row else belief
            belief, seen = update(predicted, places[row], float(off[row]))
            total += float(np.log(seen))
    backward = _Backward(n_places, motion)
    for rows, start in zip(reversed(parts), reversed(starts), strict=True):
        ratios = kept.block(rows)
        places, off = likelihood(ratios)
        beliefs = _beliefs(start, places, off, motion, first=rows.start == 0)
        for row in reversed(range(len(places))):
            see(rows.start + row, backward.posterior(beliefs[row]), ratios[row])
            before = beliefs[row - 1] if row else start
            if rows.start + row:
                backward.step(before, places[row], float(off[row]))
    return backward.counts(), total


def given_later(
    beliefs: Sequence[Belief], places: Sequence[Vectors], off: Sequence[float], motion: Motion
) -> Belief:
    """Belief of the first of some frames in a row, given all of them.

    Parameters
    ----------
    beliefs : sequence of Belief
        Of each frame given those before it, of places at each pace (K, N).
    places, off : sequences of arrays of shape (N,) and of float
        Likelihoods of each frame; those of the first do not count again.
    motion : Motion
    """
    backward = _Backward(beliefs[0].places.shape[1], motion)
    for frame in reversed(range(1, len(beliefs))):
        backward.step(beliefs[frame - 1], np.asarray(places[frame], np.float64), off[frame])
    return backward.posterior(beliefs[0])


def _beliefs(start: Belief, places: Floats, off: Floats, motion: Motion, first: bool) -> list[Belief]:
    """Forward beliefs of one block's frames."""
    found, belief = [], start
    for row in range(len(places)):
        predicted = belief if first and row == 0 else predict(belief, motion)
        belief, _ = update(predicted, places[row], float(off[row]))
        found.append(belief)
    return found


class _Backward:
    """What all later frames say about each place, and how the drive moved."""

    def __init__(self, n_places: int, motion: Motion) -> None:
        self.motion, self.n_places = motion, n_places
        self.places: Vectors = np.ones((len(motion.each_pace), n_places))
        self.off = 1.0
        self._steps = np.zeros(max(map(len, motion.each_pace)))
        self._jump = self._leave = self._back = self._on = self._off = 0.0

    def posterior(self, belief: Belief) -> Belief:
        """Belief of the frame at hand, given all frames."""
        joint = np.einsum("kn,kn->n", belief.places, self.places)
        off = belief.off_map * self.off
        total = float(joint.sum()) + off
        return Belief(joint / total, off / total)

    def step(self, before: Belief, places: Floats, off: float) -> None:
        """Go one frame back, over a frame with these likelihoods; `before` is the belief of the earlier one."""
        motion, n = self.motion, self.n_places
        ahead, ahead_off = places * self.places, off * self.off
        anywhere = float((ahead @ _arrivals(motion, n)).mean())
        stays = (1 - motion.leave) * (1 - motion.jump)
        # What would pass the end of the route leaves the map instead.
        lost = [_lost(n, steps) for steps in motion.each_pace]
        self._count(before, ahead, ahead_off, anywhere, lost)
        reach = np.stack([moved_back(at, steps) for at, steps in zip(ahead, motion.each_pace, strict=True)])
        for at, ends in zip(reach, lost, strict=True):
            at[n - len(ends) :] += ends * ahead_off
        if motion.roadway is not None:
            reach = motion.roadway.shortened_back(reach, motion.back)
        reach = changed(reach)
        reach *= stays
        reach += (1 - motion.leave) * motion.jump * anywhere + motion.leave * ahead_off
        gone = (1 - motion.back) * ahead_off + motion.back * anywhere
        scale = max(float(reach.max()), gone)
        reach /= scale
        self.places, self.off = reach, gone / scale

    def _count(
        self, before: Belief, ahead: Vectors, ahead_off: float, anywhere: float, lost: list[Floats]
    ) -> None:
        """Add the expected numbers of each way to move."""
        motion, n = self.motion, self.n_places
        on = 1 - before.off_map
        stays = (1 - motion.leave) * (1 - motion.jump)
        ways, end, kept = np.zeros(len(self._steps)), 0.0, _on_the_way(before.places, motion)
        for at, to, steps, ends in zip(kept, ahead, motion.each_pace, lost, strict=True):
            for k in range(min(len(steps), n)):
                ways[k] += stays * steps[k] * (at[: n - k] @ to[k:])
            end += float(at[n - len(ends) :] @ ends)
        jump = on * (1 - motion.leave) * motion.jump * anywhere
        leave = (on * motion.leave + stays * end) * ahead_off
        back = before.off_map * motion.back * anywhere
        parked = before.off_map * (1 - motion.back) * ahead_off
        total = float(ways.sum()) + jump + leave + back + parked
        self._steps += ways / total
        self._jump += jump / total
        self._leave += leave / total
        self._back += back / total
        self._on += (float(ways.sum()) + jump + leave) / total
        self._off += (back + parked) / total

    def counts(self) -> Moves:
        """Expected numbers of each way to move."""
        return Moves(self._steps, self._jump, self._leave, self._back, self._on, self._off)


def _lost(n: int, steps: Sequence[float]) -> Floats:
    """Probability, for the last places, that a step leads past the end of the route."""
    reach = min(len(steps) - 1, n)
    beyond = np.cumsum(np.asarray(steps)[::-1])[::-1]
    return np.array([beyond[reach - i] for i in range(reach)]) if reach else np.empty(0)


class _Kept:
    """Evidence computed once and kept as float16."""

    def __init__(self, evidence: Blocks) -> None:
        self.shape = evidence.shape
        self._values = np.empty(self.shape, np.float16)
        for rows in in_blocks(self.shape[0]):
            self._values[rows] = evidence.block(rows)

    def block(self, rows: slice) -> Vectors:
        return self._values[rows].astype(np.float32)


def in_blocks(n: int, size: int | None = None) -> Iterator[slice]:
    """Slices that cover ``range(n)``, of about the root of `n` each unless a size is given."""
    size = size or max(16, int(np.ceil(np.sqrt(n))))
    for start in range(0, n, size):
        yield slice(start, min(n, start + size))


def unseen(frame: int, belief: Belief, evidence: Vectors) -> None:
    """For `see`, where nothing is to be kept."""
