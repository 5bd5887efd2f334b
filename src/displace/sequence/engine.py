"""Hidden Markov model of a drive along a route: filter (`forward`) and forward–backward smoother (`smooth`).

State: a place x = 0 … N−1 in route order, or the null state ∅ (off the map). With K paces it is (pace, x), and the pace
is drawn anew with probability 1 − `KEPT`, so that a fast stretch pays for being fast once and not with every frame.

Transition from x: to ∅ with probability `leave`; else to any place, uniformly, with probability `jump`; else to x + s,
s ~ `steps` (past the last place: to ∅). From ∅: to any place, uniformly, with probability `back`. The initial
distribution is uniform as well, so a drive may begin and end anywhere: one model serves to follow a drive, to smooth
it, and to align two recordings.

Evidence of frame z, an array (q, N) made by `weighing`: log p(z | x) / p(z | ∅), hence 0 for ∅.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors
from displace.sequence.roadway import Roadway

Floats = NDArray[np.float64]

STEPS = (0.25, 0.4, 0.25, 0.1)
"""Prior P(step) of 0, 1, 2 and 3 places a frame."""
CACHED_BYTES = 256 * 2**20
"""Bytes of evidence, as float16, up to which it is cached for the two passes of `smooth`; more is computed twice."""
UNKNOWN = 0.2
"""Initial probability of ∅."""
_PRIOR = 20.0
"""Pseudo-counts, in frames, of the prior motion when the transition probabilities are estimated from a drive."""
_MEMORY = 200.0
"""Time constant (frames) of an online estimate of the motion: a count has fallen to 1/e after so many."""
MOST = 60.0
"""Most nats by which the log-likelihood of a state is below that of the best one: keeps exp() clear of underflow."""
PACES = (0.5, 1.0, 2.0)
"""Paces of a drive as multiples of its mean step."""
KEPT = 0.9
"""Probability of keeping the pace from one frame to the next (else any pace, uniformly)."""
_UNSTEADY = 0.15
"""Probability, at a steady pace, of one place less than its step, and of one more."""
_FAST = 3.0
"""Places a frame above which P(step) is a triangle of half-width pace / 2, instead of one place either side."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """A matrix of frames (rows) × places in route order (columns) that is computed block by block."""

    shape: tuple[int, int]
    """Frames and places."""
    block: Callable[[slice], Vectors]
    """Returns the rows of some frames, (b, N)."""

    @classmethod
    def of(cls, values: Vectors) -> Blocks:
        """Make blocks of a matrix in memory."""
        return cls((values.shape[0], values.shape[1]), lambda rows: values[rows])

    def each(self, function: Callable[[Vectors], Vectors]) -> Blocks:
        """Return the matrix with every block passed through a function."""
        return replace(self, block=lambda rows: function(self.block(rows)))

    def part(self, frames: slice, order: slice | Indices) -> Blocks:
        """Return some consecutive frames, with the places in another order."""
        first, n_frames = frames.start, frames.stop - frames.start
        return Blocks(
            (n_frames, self.shape[1]),
            lambda rows: self.block(slice(first + rows.start, first + rows.stop))[:, order],
        )

    def whole(self) -> Vectors:
        """Compute the matrix, (q, N)."""
        return self.block(slice(0, self.shape[0]))

    def __iter__(self) -> Iterator[Vectors]:
        """Go through the frames one by one, (N,) each."""
        for rows in in_blocks(self.shape[0]):
            yield from self.block(rows)


@dataclass(frozen=True)
class Motion:
    """Transition model: see the module."""

    steps: tuple[float, ...] = STEPS
    """P(step) of 0, 1, 2 … places a frame; sums to 1."""
    jump: float = 0.01
    """P(jump to any place | on the map)."""
    leave: float = 0.01
    """P(∅ | on the map)."""
    back: float = 0.05
    """P(any place | ∅)."""
    paces: tuple[tuple[float, ...], ...] = ()
    """P(step) of each pace; takes the place of `steps` where there are several."""
    roadway: Roadway | None = None
    """Where the map lacks stretches of the route: states are then the M positions of the route, not the N places."""
    besides: tuple[float, ...] = ()
    """Further mean steps (places a frame) that the drive has at times: each is a pace of its own."""

    @property
    def mean_step(self) -> float:
        """Expected step, in places a frame."""
        return float(np.dot(self.steps, np.arange(len(self.steps))))

    @property
    def each_pace(self) -> tuple[tuple[float, ...], ...]:
        """P(step) of each of the K paces."""
        return self.paces or (self.steps,)

    def at_paces(self, rate: float) -> Motion:
        """Return this motion with the paces of a drive whose mean step is `rate`."""
        rates = *(rate * pace for pace in PACES), *self.besides
        return replace(self, steps=paced(rate), paces=tuple(paced(each) for each in rates))


def paced(pace: float) -> tuple[float, ...]:
    """P(step) at a steady pace (its mean, in places a frame).

    >>> [round(p, 3) for p in paced(1.5)]
    [0.075, 0.425, 0.425, 0.075]
    >>> paced(4.0)
    (0.0, 0.0, 0.0, 0.25, 0.5, 0.25)
    """
    if pace > _FAST:
        half = round(pace / 2)  # a whole number, so that the mean is the pace
        return tuple(max(0.0, 1 - abs(step - pace) / half) / half for step in range(ceil(pace + half)))
    below = int(pace)
    steps = [0.0] * (below + 3)
    # Plain floats, not arrays: called at every frame of a drive that is followed.
    for step, share in ((below, below + 1 - pace), (below + 1, pace - below)):
        unsteady = _UNSTEADY * share if step else 0.0
        steps[step] += share - 2 * unsteady
        steps[step - 1] += unsteady
        steps[step + 1] += unsteady
    while steps[-1] == 0:
        steps.pop()
    return tuple(steps)


def roughly_paced(rate: float) -> tuple[float, ...]:
    """P(step) where only a rough mean is known: half the mass at that pace, half uniform from 0 to twice the rate.

    >>> [round(p, 2) for p in roughly_paced(4.0)]
    [0.06, 0.06, 0.06, 0.18, 0.31, 0.18, 0.06, 0.06, 0.06]
    """
    steady, n = paced(rate), round(2 * rate) + 1
    return tuple((steady[step] if step < len(steady) else 0.0) / 2 + 0.5 / n for step in range(n))


@dataclass(frozen=True, eq=False)
class Belief:
    """Distribution over the states: places in route order, (N,), or places at each pace, (K, N), and ∅."""

    places: Vectors
    off_map: float

    @classmethod
    def unknown(cls, n_places: int) -> Belief:
        """Prior of a single frame, whatever the pace: uniform over the places, (N,)."""
        return cls(np.full(n_places, (1 - UNKNOWN) / n_places), UNKNOWN)

    @classmethod
    def at_start(cls, n_places: int, motion: Motion) -> Belief:
        """Initial distribution of a drive: uniform over places and paces, (K, N)."""
        paces = len(motion.each_pace)
        return cls((1 - UNKNOWN) / paces * np.tile(_arrivals(motion, n_places), (paces, 1)), UNKNOWN)

    def in_doubt(self, along: float, to_off_map: float = 1.0) -> Belief:
        """Mix this belief with the case that the drive is not along the route at all.

        Parameters
        ----------
        along : float
            Probability that the drive is along the route: this belief's weight.
        to_off_map : float
            Share of the mass taken from the places that goes to ∅; the rest is spread over all places.
        """
        taken = (1 - along) * (1 - self.off_map)
        anywhere = (1 - to_off_map) * taken / self.places.size
        return Belief(self.places * along + anywhere, self.off_map + to_off_map * taken)

    def likelier_off_map(self, off_map: float) -> Belief:
        """Return this belief with a higher probability of ∅, taken from all places alike."""
        return self.in_doubt((1 - off_map) / max(1 - self.off_map, 1e-9))

    def whatever_pace(self) -> Belief:
        """Marginal over the paces."""
        return Belief(self.places.sum(axis=0), self.off_map) if self.places.ndim == 2 else self


def on_places(belief: Belief, roadway: Roadway) -> Belief:
    """Belief over a roadway's positions (M,) as one over the map's places (N,): positions without a place join ∅."""
    between = float(belief.places[roadway.between].sum())
    return Belief(belief.places[roadway.places], belief.off_map + between)


def moved(places: Vectors, steps: Sequence[float]) -> Vectors:
    """Convolve probabilities (N,) with P(step); the mass that passes the end of the route is dropped.

    >>> moved(np.array([1.0, 0.0, 0.0]), (0.5, 0.25, 0.25)).tolist()
    [0.5, 0.25, 0.25]
    """
    result = places * steps[0]
    for k in range(1, min(len(steps), len(places))):
        result[k:] += steps[k] * places[:-k]
    return result


def moved_back(places: Vectors, steps: Sequence[float]) -> Vectors:
    """Transpose of `moved`, for the backward pass."""
    result = places * steps[0]
    for k in range(1, min(len(steps), len(places))):
        result[:-k] += steps[k] * places[k:]
    return result


def rate_told(learned: Motion, prior: Motion, n_frames: int) -> float:
    """Mean step seen in so many frames, with the prior's pseudo-counts taken out again (the inverse of `Learner`)."""
    told = min(n_frames, _MEMORY)
    return max(0.0, (learned.mean_step * (told + _PRIOR) - prior.mean_step * _PRIOR) / told)


def predict(belief: Belief, motion: Motion) -> Belief:
    """Prediction step of the filter: the belief (K, N) after one transition, before the next frame is seen."""
    n_paces, n = belief.places.shape
    on_map = 1 - belief.off_map
    stays = (1 - motion.leave) * (1 - motion.jump)
    kept = _before_the_step(belief.places, motion)
    places = np.stack(
        [moved(at, [w * stays for w in steps]) for at, steps in zip(kept, motion.each_pace, strict=True)]
    )
    anywhere = on_map * (1 - motion.leave) * motion.jump + belief.off_map * motion.back
    places += anywhere / n_paces * _arrivals(motion, n)
    # ∅ gets the rest, which includes the mass that passed the end of the route.
    return Belief(places, max(0.0, 1 - float(places.sum())))


def _arrivals(motion: Motion, n: int) -> Vectors:
    """Distribution over the places for a drive that begins, jumps or comes back."""
    return np.full(n, 1 / n) if motion.roadway is None else motion.roadway.arrivals


def _before_the_step(places: Vectors, motion: Motion) -> Vectors:
    """Belief (K, N) after the changes that precede the step: of pace, and skips of a missing stretch."""
    kept = mixed_paces(places)
    return kept if motion.roadway is None else motion.roadway.shortened(kept, motion.back)


def mixed_paces(places: Vectors) -> Vectors:
    """Transition between the paces of a belief (K, N); its matrix is symmetric, so the backward pass uses it, too."""
    if len(places) == 1:
        return places
    result: Vectors = KEPT * places
    result += (1 - KEPT) / len(places) * places.sum(axis=0)
    return result


def likelihood(ratios: Vectors) -> tuple[Floats, Floats]:
    """Likelihoods of the places and of ∅, scaled per frame so that the greatest is 1.

    Parameters
    ----------
    ratios : array of shape (b, N)
        Evidence.

    Returns
    -------
    places, off_map : arrays of shape (b, N) and (b,)
    """
    top = np.maximum(ratios.max(axis=1), 0.0).astype(np.float64)
    places = np.exp(np.maximum(ratios - top[:, None], -MOST))
    return places, np.exp(-np.minimum(top, MOST))


def update(predicted: Belief, places: Floats, off_map: float) -> tuple[Belief, float]:
    """Update step of the filter: posterior given a frame's likelihoods, and the normaliser p(frame | past)."""
    joint = predicted.places * places
    off = predicted.off_map * off_map
    total = float(joint.sum()) + off
    joint /= total
    return Belief(joint, off / total), total


@dataclass
class Learner:
    """Online estimate of P(step) and P(jump): expected transition counts that decay, on top of pseudo-counts."""

    motion: Motion = field(default_factory=Motion)
    """Prior at first, then the current estimate."""

    def __post_init__(self) -> None:
        rest = 1 - self.motion.jump
        self._prior = [_PRIOR * rest * weight for weight in self.motion.steps] + [_PRIOR * self.motion.jump]
        self._counts = [0.0] * len(self._prior)

    def see(
        self, before: Vectors, on_map: float, places: Vectors, scale: float = 1.0, frames: int = 1
    ) -> None:
        """Add the posterior of the step that led to a frame.

        Parameters
        ----------
        before : array of shape (N,)
            Belief at the frame before, up to the factor `scale`.
        on_map : float
            Sum of ``scale · before``.
        places : array of shape (N,)
            Likelihoods of the frame.
        scale : float
        frames : int
            Weight of the count, where only every n-th frame is counted.
        """
        n, motion = len(places), self.motion
        if on_map < 1e-6:
            return
        # Plain floats: this runs at every frame, and numpy is slow on arrays of five.
        reach, jump = len(motion.steps) - 1, motion.jump
        if n <= reach:
            return
        # All steps at once; the last places, from which some steps would pass the end, are left out.
        reached = np.correlate(places, before[: n - reach]).tolist()
        ways = [(1 - jump) * weight * far for weight, far in zip(motion.steps, reached, strict=True)]
        ways.append(jump * on_map / scale * float(np.add.reduce(places)) / n)
        total = sum(ways)
        if total <= 0:
            return
        fades, weight = 1 - frames / _MEMORY, frames * on_map / total
        self._counts = counts = [
            fades * count + weight * way for count, way in zip(self._counts, ways, strict=True)
        ]
        shares = [prior + count for prior, count in zip(self._prior, counts, strict=True)]
        jumps = shares.pop()
        steps = sum(shares)
        self.motion = replace(
            motion, steps=tuple([share / steps for share in shares]), jump=jumps / (steps + jumps)
        )


See = Callable[[int, Belief], None]
"""Callback for one frame: its number and its belief."""


def forward(evidence: Blocks, motion: Motion, learn: bool = True) -> tuple[Motion, Floats]:
    """Filter a drive.

    Returns
    -------
    motion, log_evidence
        The motion learned, and log p(z_t | z_1 … z_t−1) / p(z_t | ∅) of each frame, (q,).
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
    return learner.motion, earned


@dataclass(frozen=True, eq=False)
class Moves:
    """Expected transition counts of a smoothed drive (the E-step of Baum–Welch)."""

    steps: Floats
    """Of steps by 0, 1, 2 … places."""
    jump: float
    leave: float
    back: float
    """Of the other transitions of `Motion`."""
    on_map: float
    off_map: float
    """Of all transitions from places, and from ∅."""

    @property
    def mean_step(self) -> float:
        """Mean step on the map, in places a frame; 0 where the drive never was on it."""
        return float(self.steps @ np.arange(len(self.steps)) / max(self.steps.sum(), 1e-9))

    def motion(self, prior: Motion) -> Motion:
        """M-step: the motion estimated from the counts, and from the prior as `_PRIOR` pseudo-counts."""
        n_steps = self.steps.sum()
        rate = (n_steps * self.mean_step + _PRIOR * prior.mean_step) / (n_steps + _PRIOR)
        jump = (self.jump + _PRIOR * prior.jump) / (n_steps + self.jump + _PRIOR)
        leave = (self.leave + _PRIOR * prior.leave) / (self.on_map + _PRIOR)
        back = (self.back + _PRIOR * prior.back) / (self.off_map + _PRIOR)
        # Clipped, so that no transition becomes impossible, or certain.
        return replace(
            prior,
            jump=float(np.clip(jump, 1e-5, 0.99)),
            leave=float(np.clip(leave, 1e-5, 0.5)),
            back=float(np.clip(back, 1e-4, 0.5)),
        ).at_paces(rate)


def smooth(evidence: Blocks, motion: Motion, see: See, block: int | None = None) -> Moves:
    """Smooth a drive by forward–backward; `see` gets frames from the last to the first.

    Memory is that of two blocks of frames: the first pass keeps the belief at the start of each block, and the backward
    pass computes the others of a block again.

    Parameters
    ----------
    evidence : Blocks
    motion : Motion
    see : callable
        Gets a frame's number and its belief given all frames.
    block : int, optional
        Frames of a block; by default about the root of their number.

    Returns
    -------
    Moves
        Expected transition counts.
    """
    n_frames, n_places = evidence.shape
    if 2 * n_frames * n_places <= CACHED_BYTES:
        evidence = _cached(evidence)
    parts = list(in_blocks(n_frames, block))
    starts, belief = [], Belief.at_start(n_places, motion)
    for rows in parts:
        starts.append(belief)
        belief = _beliefs(belief, *likelihood(evidence.block(rows)), motion, first=rows.start == 0)[-1]
    backward = _Backward(n_places, motion)
    for rows, start in zip(reversed(parts), reversed(starts), strict=True):
        places, off = likelihood(evidence.block(rows))
        beliefs = _beliefs(start, places, off, motion, first=rows.start == 0)
        for row in reversed(range(len(places))):
            see(rows.start + row, backward.posterior(beliefs[row]))
            before = beliefs[row - 1] if row else start
            if rows.start + row:
                backward.step(before, places[row], float(off[row]))
    return backward.counts()


def fixed_lag(
    beliefs: Sequence[Belief], places: Sequence[Vectors], off: Sequence[float], motion: Motion
) -> Belief:
    """Fixed-lag smoothing: belief of the first of some consecutive frames, given all of them.

    Parameters
    ----------
    beliefs : sequence of Belief
        Filtered beliefs (K, N) of the frames.
    places, off : sequences of arrays of shape (N,) and of float
        Likelihoods of the frames; those of the first are in its belief already.
    motion : Motion
    """
    backward = _Backward(beliefs[0].places.shape[1], motion)
    for frame in reversed(range(1, len(beliefs))):
        backward.step(beliefs[frame - 1], np.asarray(places[frame], np.float64), off[frame])
    return backward.posterior(beliefs[0])


def _beliefs(start: Belief, places: Floats, off: Floats, motion: Motion, first: bool) -> list[Belief]:
    """Filtered beliefs of one block's frames; `start` is the belief before it."""
    found, belief = [], start
    for row in range(len(places)):
        predicted = belief if first and row == 0 else predict(belief, motion)
        belief, _ = update(predicted, places[row], float(off[row]))
        found.append(belief)
    return found


class _Backward:
    """Backward messages p(later frames | state), up to scale, and the expected transition counts."""

    def __init__(self, n_places: int, motion: Motion) -> None:
        self.motion, self.n_places = motion, n_places
        self.places: Vectors = np.ones((len(motion.each_pace), n_places))
        self.off = 1.0
        self._steps = np.zeros(max(map(len, motion.each_pace)))
        self._jump = self._leave = self._back = self._on = self._off = 0.0

    def posterior(self, belief: Belief) -> Belief:
        """Smoothed belief of the frame at hand from its filtered one."""
        joint = np.einsum("kn,kn->n", belief.places, self.places)
        off = belief.off_map * self.off
        total = float(joint.sum()) + off
        return Belief(joint / total, off / total)

    def step(self, before: Belief, places: Floats, off: float) -> None:
        """Go back over a frame with these likelihoods; `before` is the filtered belief of the frame before it."""
        motion, n = self.motion, self.n_places
        ahead, ahead_off = places * self.places, off * self.off
        anywhere = float((ahead @ _arrivals(motion, n)).mean())
        stays = (1 - motion.leave) * (1 - motion.jump)
        # Steps past the end of the route lead to ∅.
        lost = [_past_the_end(n, steps) for steps in motion.each_pace]
        self._count(before, ahead, ahead_off, anywhere, lost)
        reach = np.stack([moved_back(at, steps) for at, steps in zip(ahead, motion.each_pace, strict=True)])
        for at, ends in zip(reach, lost, strict=True):
            at[n - len(ends) :] += ends * ahead_off
        if motion.roadway is not None:
            reach = motion.roadway.shortened_back(reach, motion.back)
        reach = mixed_paces(reach)
        reach *= stays
        reach += (1 - motion.leave) * motion.jump * anywhere + motion.leave * ahead_off
        gone = (1 - motion.back) * ahead_off + motion.back * anywhere
        scale = max(float(reach.max()), gone)
        reach /= scale
        self.places, self.off = reach, gone / scale

    def _count(
        self, before: Belief, ahead: Vectors, ahead_off: float, anywhere: float, lost: list[Floats]
    ) -> None:
        """Add the posterior probabilities of the transitions between two frames."""
        motion, n = self.motion, self.n_places
        on = 1 - before.off_map
        stays = (1 - motion.leave) * (1 - motion.jump)
        ways, end, kept = np.zeros(len(self._steps)), 0.0, _before_the_step(before.places, motion)
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
        """Expected transition counts so far."""
        return Moves(self._steps, self._jump, self._leave, self._back, self._on, self._off)


def _past_the_end(n: int, steps: Sequence[float]) -> Floats:
    """P(step past the end of the route) of the last places, from which a step can lead there."""
    reach = min(len(steps) - 1, n)
    beyond = np.cumsum(np.asarray(steps)[::-1])[::-1]
    return np.array([beyond[reach - i] for i in range(reach)]) if reach else np.empty(0)


def _cached(evidence: Blocks) -> Blocks:
    """Evidence cached as float16."""
    values = np.empty(evidence.shape, np.float16)
    for rows in in_blocks(len(values)):
        values[rows] = evidence.block(rows)
    return Blocks.of(values).each(lambda block: block.astype(np.float32))


def in_blocks(n: int, size: int | None = None) -> Iterator[slice]:
    """Slices that cover ``range(n)``, of about the root of `n` each unless a size is given."""
    size = size or max(16, int(np.ceil(np.sqrt(n))))
    for start in range(0, n, size):
        yield slice(start, min(n, start + size))
