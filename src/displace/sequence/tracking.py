"""A drive followed frame by frame, fast enough to run beside the search for one frame."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from displace.arrays import Vectors
from displace.sequence.belonging import Belonging
from displace.sequence.engine import KEPT, MOST, STEPS, Belief, Learner, Motion, around, paced
from displace.sequence.roadway import Roadway
from displace.sequence.stride import USUAL, stride

UNDER_WAY = (0.7, 1.5)
"""Paces of a drive that is followed, relative to its usual one; a third would cost more than it tells."""
STEEP, HALFWAY = 0.22, 0.5
"""The off-map state's level, as a share of the way from what chance earns to what the path earns: so much for each
nat between them, but no more than half. Where they are near each other, the path has stretches that earn no more than
chance does, and a level in the middle would call them off the map."""
BEGINS_OFF = 0.1
"""Probability that a drive begins off the map. One that finds no path may be beside the map, or on a stretch of it that
looks like others: only what is usual tells."""
_CERTAIN = 0.999
_HEEDED = 0.5
"""What the chain says about being off the map counts at least this much: a drive that begins where the map has nothing
earns no trust, and a frame for itself cannot tell that it is beside the map."""
SEARCHED, LONGER, LONGEST = 15, 12.0, 5.0
"""Frames of a drive on the map before its path is found, at least and how many more on average; and how much the
logarithm of the odds of being off the map may grow meanwhile: places in another order than the route's are found one by
one."""
_DOUBTED, _DOUBTED_LONGER = 60, 20.0
"""The same of a drive that has a path, but one that other streets would give as well."""
_SOON, _NOW_AND_THEN = 50, 2
"""After so many frames, the pace is learned from one frame in so many: it does not change that fast."""
_NEAR = 8.0
"""Frames, about, that tell what is earned around a frame."""
_EVEN = 10.0
"""Frames, times the square of what is earned, that speak for chance earning the same all along the drive."""
_LOOKED_AT = 20
"""Frames that tell how fast a drive is for which no path is found."""
_FADED = 1e6
"""A belief on a scale beyond this is brought back: products of float32 must not vanish."""


_CHANGED = np.float32((1 - KEPT) / (1 + KEPT))
"""What of a pace changes to the other, to what is kept."""


def level_between(chance: float, path: float, steep: float = STEEP, most: float = HALFWAY) -> float:
    """Level of the off-map state between what chance and what the path earn; see `STEEP`.

    >>> level_between(1.0, 2.0), level_between(1.0, 5.0)
    (1.22, 3.0)
    """
    gain = max(0.0, path - chance)
    return chance + min(steep * gain, most) * gain


def searched_in_vain(off_map: float, frames: int, searched: int = SEARCHED, longer: float = LONGER) -> float:
    """Probability of being off the map, after so many frames without a path: on the map one would have been found.

    >>> [round(searched_in_vain(0.1, frames), 2) for frames in (15, 45, 100)]
    [0.1, 0.58, 0.94]
    """
    likelier = exp(min(max(frames - searched, 0) / longer, LONGEST))
    return off_map * likelier / (off_map * likelier + 1 - off_map)


@dataclass(frozen=True, eq=False)
class Moment:
    """What is known of a drive at a frame, for later frames to tell more about it."""

    belief: Belief
    """As the frame was told."""
    chain: Belief
    """Of positions at each pace, (K, M)."""
    places: Vectors
    off: float
    """Likelihoods of the frame: shape (M,), and a number."""


class Tracker:
    """Follows a drive frame by frame: the belief, the motion learned so far, and whether order helps at all.

    A second chain runs along the route backwards. Where the frames fit it as well as they fit the route, they do not
    follow the route's order (places without one, a camera that jumps); then a frame is believed for itself. What the
    two earn also tells, on this very drive, how much evidence a frame must bring to be on the map.

    Parameters
    ----------
    level : float
        Of the off-map state, before anything was learned.
    motion : Motion, optional
        Before anything was learned.
    ordered : bool
        Whether the places have an order at all.
    roadway : Roadway, optional
        Where the map lacks stretches of the route.
    begins_off : float
        Probability of being off the map until the order is trusted.
    """

    _MEMORY = 50.0
    _ENOUGH = 14.0
    _SLOW, _SURE, _APART = 150.0, 20.0, 2.0

    def __init__(
        self,
        level: float,
        motion: Motion | None = None,
        ordered: bool = True,
        roadway: Roadway | None = None,
        begins_off: float = BEGINS_OFF,
    ) -> None:
        self.ordered, self.roadway, self.begins_off = ordered, roadway, begins_off
        self.learner = Learner(motion or Motion())
        self._kernels = _kernels(self.learner.motion)
        self._forwards: _Chain | None = None
        self._backwards: _Chain | None = None
        self._gain, self._frame, self._searched, self._doubted = 0.0, 0, 0, 0
        self._matches: deque[int] = deque(maxlen=_LOOKED_AT)
        self._belonging = Belonging()
        self._seen: tuple[Vectors, float] | None = None
        # What a frame earns on the path and by chance: all along the drive, and around the last frame.
        path, chance = level + HALFWAY * self._APART, level - HALFWAY * self._APART
        self._path, self._chance = _Mean(path, self._SURE, self._SLOW), _Mean(chance, self._SURE, self._SLOW)
        self._near_path, self._near_chance = path, chance
        self._together, self._varies = 0.0, _EVEN

    @property
    def order(self) -> float:
        """Trust that the frames follow the route's order, 0 to 1."""
        return 1 / (1 + exp(-min(max((self._gain - self._ENOUGH) / 2, -50.0), 50.0)))

    @property
    def level(self) -> float:
        """Evidence that a frame must bring to be on the map.

        It goes up and down with what chance earns around the frame, as far as the path's earnings did so: see
        `own_levels`, for a drive that is known as a whole.
        """
        chance = self._chance.value
        share = min(max(self._together / self._varies, 0.0), 1.0)
        return level_between(chance, self._path.value) + share * (self._near_chance - chance)

    @property
    def motion(self) -> Motion:
        """The motion learned so far, at the paces under way."""
        motion = self.learner.motion
        paces = tuple(paced(motion.mean_step * pace) for pace in UNDER_WAY)
        return replace(motion, paces=paces, roadway=self.roadway)

    def moment(self, belief: Belief) -> Moment:
        """What is known at the frame that was just taken, and was told to have this belief."""
        if self._forwards is None or self._seen is None:
            raise RuntimeError("no frame was taken")
        places, off = self._seen
        if self.roadway is not None:
            places = self.roadway.spread(places, off)
        return Moment(belief, self._forwards.at_paces(), places, off)

    def step(self, scores: Vectors) -> Belief:
        """Take the scaled scores (N,) of the next frame; returns the belief given all frames so far."""
        level, match = self.level, int(scores.argmax())
        top = max(float(scores[match]), level)
        places = np.subtract(scores, np.float32(top), dtype=np.float32)
        np.maximum(places, np.float32(-MOST), out=places)
        np.exp(places, out=places)
        off = exp(max(level - top, -MOST))
        self._seen = places, off
        if self._forwards is None or self._backwards is None or not self.ordered:
            alone = _alone(places, off, self.begins_off)
            self._forwards = _Chain(alone, roadway=self.roadway)
            self._backwards = _Chain(alone, backwards=True)
            return alone
        forwards, backwards = self._forwards, self._backwards
        self._frame += 1
        self._matches.append(match)
        if (self._searched or forwards.off_map > 0.5) and self._frame % _NOW_AND_THEN == 0:
            self._keep_up()
        looks = 1 if self._frame < _SOON else _NOW_AND_THEN
        if self._frame % looks == 0:
            self.learner.see(forwards.places, 1 - forwards.off_map, places, forwards.scale, looks)
            self._kernels = _kernels(self.learner.motion)
        motion, kernels = self.learner.motion, self._kernels
        on_path = forwards.step(motion, kernels, places, off)
        on_map = 1 - forwards.off_map
        # Off the map the best of wrong paths would bring the level down to what chance earns.
        known = on_map * (self.order if self._searched > 2 * SEARCHED else 1.0)
        self._path.see(on_path + top, known)
        by_chance = backwards.step(motion, kernels, places, off)
        # Off the map there is nothing to follow in order: the trust stays as it was.
        self._gain += on_path - by_chance - on_map * self._gain / self._MEMORY
        self._chance.see(by_chance + top)
        self._compare(on_path + top, by_chance + top, known)
        along = self._belonging.see(on_path + top, self._chance.value)
        trust = self.order
        self._searched = 0 if trust > 0.5 else self._searched + 1
        self._doubted = self._doubted + 1 if trust > 0.5 and along < 0.5 else 0
        told = forwards.belief()
        if trust < _CERTAIN:
            told = self._mixed(told, _alone(places, off, self.begins_off), trust)
        return told if along > _CERTAIN else self._in_doubt(told, along)

    def _compare(self, path: float, chance: float, known: float) -> None:
        """Learn whether what the path earns goes up and down with what chance earns."""
        self._near_path += (path - self._near_path) / _NEAR
        self._near_chance += (chance - self._near_chance) / _NEAR
        away = self._near_chance - self._chance.value
        self._together += known * away * (self._near_path - self._path.value) - self._together / self._SLOW
        self._varies += known * away**2 - (self._varies - _EVEN) / self._SLOW

    def _keep_up(self) -> None:
        """Expect other steps, where a drive without a path is seen to be faster than the chain expects, or no more."""
        rate, expected = stride(np.array(self._matches)), self.learner.motion.mean_step
        if rate is None or max(rate, expected) <= USUAL or expected / 2 < rate < expected * 2:
            return
        self.learner = Learner(replace(self.learner.motion, steps=around(rate) if rate > USUAL else STEPS))
        self._kernels = _kernels(self.learner.motion)

    def _mixed(self, followed: Belief, alone: Belief, trust: float) -> Belief:
        """Belief of a frame followed and for itself, as far as the route's order is trusted."""
        heeded = max(trust, _HEEDED)
        off_map = heeded * followed.off_map + (1 - heeded) * searched_in_vain(alone.off_map, self._searched)
        on_map = trust * (1 - followed.off_map) + (1 - trust) * (1 - alone.off_map)
        share = (1 - off_map) / max(on_map, 1e-9)
        mixed = np.float32(share * trust) * followed.places
        mixed += np.float32(share * (1 - trust)) * alone.places
        return Belief(mixed, off_map)

    def _in_doubt(self, told: Belief, along: float) -> Belief:
        """Belief where the drive is along the route with this probability only, else anywhere or off the map."""
        off_map = searched_in_vain(told.off_map, self._doubted, _DOUBTED, _DOUBTED_LONGER)
        share = (1 - off_map) / max(1 - told.off_map, 1e-9)
        places = told.places * np.float32(share * along)
        places += np.float32((1 - along) * (1 - off_map) / len(places))
        return Belief(places, off_map)


class _Mean:
    """A mean of numbers, of which those long ago fade.

    Parameters
    ----------
    value : float
        Before any was seen.
    weight : float
        Numbers that it then counts for.
    memory : float
        Numbers after which one has faded to 37 %.
    """

    def __init__(self, value: float, weight: float, memory: float) -> None:
        self._sum, self._weight, self._memory = value * weight, weight, memory

    @property
    def value(self) -> float:
        return self._sum / self._weight

    def see(self, number: float, weight: float = 1.0) -> None:
        """Take another number."""
        self._sum += weight * number - self._sum / self._memory
        self._weight += weight - self._weight / self._memory


def _kernels(motion: Motion) -> tuple[Vectors, Vectors]:
    """Steps at each of the paces under way, times the probability of keeping to the route and to the pace."""
    rate = sum(step * share for step, share in enumerate(motion.steps))
    stays = (1 - motion.leave) * (1 - motion.jump) * (1 + KEPT) / 2
    slow, fast = (np.array([stays * share for share in paced(rate * pace)], np.float32) for pace in UNDER_WAY)
    return slow, fast


class _Chain:
    """A belief that moves along the route at one of two paces; kept as float32, on a scale of its own.

    Parameters
    ----------
    belief : Belief
    backwards : bool
        Whether it moves towards the first place.
    roadway : Roadway, optional
        Where the map lacks stretches of the route: what is on them is off the map.
    """

    def __init__(self, belief: Belief, backwards: bool = False, roadway: Roadway | None = None) -> None:
        self.places: Vectors = belief.places.astype(np.float32)
        self._slow: Vectors = self.places * np.float32(0.5)
        if roadway is not None:
            self._slow = roadway.spread(self._slow, 0.0)
        self._fast: Vectors = self._slow.copy()
        self.off_map, self._between = belief.off_map, 0.0
        self.backwards, self.roadway = backwards, roadway
        self.scale = 1.0

    def step(self, motion: Motion, kernels: tuple[Vectors, Vectors], places: Vectors, off: float) -> float:
        """Go on by a frame; returns the logarithm of the probability of having seen it, had it been on the map."""
        astray, roadway = self.off_map - self._between, self.roadway
        arrives = (1 - astray) * (1 - motion.leave) * motion.jump + astray * motion.back
        on_map = arrives + (1 - astray) * (1 - motion.leave) * (1 - motion.jump)
        self._change()
        if roadway is not None:
            self._slow, self._fast = (roadway.shortened(at, motion.back) for at in (self._slow, self._fast))
        slow, slow_gone = self._moved(self._slow, kernels[0])
        fast, fast_gone = self._moved(self._fast, kernels[1])
        # What passed the end of the route has left the map, too.
        on_map -= self.scale * (slow_gone + fast_gone)
        anywhere: Vectors | np.float32 = np.float32(arrives / (2 * len(places) * self.scale))
        between = 0.0
        if roadway is not None:
            between = self.scale * float(roadway.missing @ slow + roadway.missing @ fast)
            anywhere = roadway.open * anywhere
            places = roadway.spread(places, off)
        for joint in (slow, fast):
            joint += anywhere
            joint *= places
        self._slow, self._fast, self.places = slow, fast, slow + fast
        if roadway is not None:
            self.places = self.places.take(roadway.places)
        on_map -= between
        found = self.scale * float(np.add.reduce(self.places))
        left = (1 - on_map) * off
        seen = max(found + left, 1e-300)
        self.scale, self.off_map, self._between = self.scale / seen, left / seen, between * off / seen
        return log(max(found, 1e-300) / max(on_map, 1e-9))

    def _change(self) -> None:
        """Let some of each pace change to the other; what is kept is left to the kernels."""
        slow, fast = self._slow, self._fast
        if self.scale > _FADED:
            slow *= np.float32(self.scale)
            fast *= np.float32(self.scale)
            self.scale = 1.0
        some = slow * _CHANGED
        slow += fast * _CHANGED
        fast += some

    def _moved(self, at: Vectors, kernel: Vectors) -> tuple[Vectors, float]:
        """Belief moved on by the steps of a pace, and how much of it passed the end of the route."""
        if self.backwards:
            reached = np.correlate(at, kernel, "full")
            cut = len(kernel) - 1
            return reached[cut:], sum(reached[:cut].tolist())
        reached = np.correlate(at, kernel[::-1], "full")
        return reached[: len(at)], sum(reached[len(at) :].tolist())

    def at_paces(self) -> Belief:
        """The belief of positions at each pace (2, M), summing to 1 with what is off the map and not between places."""
        joint = np.stack([self._slow, self._fast]).astype(np.float64)
        return Belief(joint * self.scale, self.off_map - self._between)

    def belief(self) -> Belief:
        """The belief, summing to 1."""
        return Belief(self.places * np.float32(self.scale), self.off_map)


def _alone(places: Vectors, off: float, prior: float) -> Belief:
    """Belief of a frame for itself, where it is off the map with this probability before it is seen."""
    each = (1 - prior) / len(places)
    total = each * float(places.sum()) + prior * off
    return Belief(places * np.float32(each / total), prior * off / total)
