"""Online filter (`Tracker`): the hidden Markov model of `engine`, one frame at a time, in float32 and two paces.

Around the filter three things are estimated from the drive itself:

- whether the frames follow the route's order: the log-likelihood ratio of the chain along the route against a null
  chain along the reversed route, which has the same frames and places but no true path ("chance" below);
- the level, log p(z | ∅) on the scale of the scores: between what frames score under the null chain and under the path;
- whether the drive is along this route at all, and not along streets that look like it (`belonging`).

"Earned" by a frame means log p(z_t | z_1 … z_t−1, on the map), in nats, on the scale of the scores.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from displace.arrays import Vectors, sigmoid_of
from displace.sequence.belonging import Belonging
from displace.sequence.engine import KEPT, MOST, STEPS, Belief, Learner, Motion, paced, roughly_paced
from displace.sequence.roadway import Roadway
from displace.sequence.stride import USUAL, stride
from displace.sequence.weighing import HALFWAY, level_between

UNDER_WAY = (0.7, 1.5)
"""The two paces, as multiples of the mean step; a third costs more time than it gains."""
BEGINS_OFF = 0.1
"""Prior probability that a drive begins off the map. A drive without a path may be beside the map or on a stretch of it
that looks like others; the frames cannot tell, so the prior decides."""
_CERTAIN = 0.999
"""Trust above which mixing in the alternative would change nothing, and is skipped."""
_HEEDED = 0.5
"""Least weight of the filter in P(∅), also without trust in the order: a drive that begins off the map earns no trust,
and a single frame cannot tell that it is off the map."""
SEARCHED, LONGER, LONGEST = 15, 12.0, 5.0
"""A drive on the map finds its path within about SEARCHED frames. Later, each frame without one adds 1/LONGER to the
log-odds of ∅, up to LONGEST in all: frames of the map in another order never find a path either."""
STANDS = 1
"""Places between the best matches of SEARCHED frames, at most, if the drive stands. It can have no path then."""
_DOUBTED, _DOUBTED_LONGER = 60, 20.0
"""The same for a drive that has a path which other streets would give as well (`Belonging` below one half)."""
_SOON, _NOW_AND_THEN = 50, 2
"""After _SOON frames the motion is learned from every second frame only: it changes slowly, and this saves time."""
_NEAR = 8.0
"""Time constant (frames) of the means of path and chance around a frame."""
_EVEN = 10.0
"""Prior weight (frames · nats²) of the slope 0 in the regression of the path's earnings on those of chance."""
_LOOKED_AT = 20
"""Last frames from whose best matches the speed of a drive without a path is estimated."""
_FADED = 1e6
"""Scale factor at which a belief is renormalised, before float32 underflows."""
_CHANGED = np.float32((1 - KEPT) / (1 + KEPT))
"""Ratio of the probabilities of changing the pace and of keeping it, with two paces."""


def searched_in_vain(off_map: float, frames: int, searched: int = SEARCHED, longer: float = LONGER) -> float:
    """P(∅) after so many frames without a path, from its value before: see `SEARCHED`.

    >>> [round(searched_in_vain(0.1, frames), 2) for frames in (15, 45, 100)]
    [0.1, 0.58, 0.94]
    """
    likelier = exp(min(max(frames - searched, 0) / longer, LONGEST))
    return off_map * likelier / (off_map * likelier + 1 - off_map)


@dataclass(frozen=True, eq=False)
class Moment:
    """State of the filter at a frame, kept for fixed-lag smoothing (`hindsight`)."""

    belief: Belief
    """What `step` returned."""
    chain: Belief
    """Filtered belief of positions at each pace, (K, M)."""
    places: Vectors
    off: float
    """Likelihoods of the frame: shape (M,), and that of ∅."""


class Tracker:
    """Filters a drive frame by frame and learns its motion, its level and how far to trust the route's order.

    The null chain runs along the reversed route. Where frames fit it as well as the route, they do not follow the
    route's order (places without one, a camera that jumps), and the posterior of the single frame is returned instead
    of the filtered one; between the two cases they are mixed.

    Parameters
    ----------
    level : float
        Prior of the level.
    ordered : bool
        Whether the places have an order at all.
    roadway : Roadway, optional
        Where the map lacks stretches of the route.
    begins_off : float
        Prior probability of ∅ for a frame by itself, until the order is trusted.
    """

    _MEMORY = 50.0
    """Time constant (frames) of the log-likelihood ratio of route and reversed route."""
    _ENOUGH = 14.0
    """Nats of that ratio at which the trust is one half."""
    _SLOW, _SURE, _APART = 150.0, 20.0, 2.0
    """Time constant (frames) of the mean earnings; frames that their priors count for; prior nats between the two."""

    def __init__(
        self,
        level: float,
        ordered: bool = True,
        roadway: Roadway | None = None,
        begins_off: float = BEGINS_OFF,
    ) -> None:
        self.ordered, self.roadway, self.begins_off = ordered, roadway, begins_off
        self.learner = Learner()
        self._kernels = _kernels(self.learner.motion)
        self._forwards: _Chain | None = None
        self._backwards: _Chain | None = None
        self._gain, self._frame, self._searched, self._doubted = 0.0, 0, 0, 0
        self._matches: deque[int] = deque(maxlen=_LOOKED_AT)
        self._belonging, self._along = Belonging(), 1.0
        self._seen: tuple[Vectors, float] | None = None
        # Earnings on the path and under the null chain: mean over the drive, and around the last frame; and sums of
        # the regression of the former on the latter.
        path, chance = level + HALFWAY * self._APART, level - HALFWAY * self._APART
        self._path, self._chance = _Mean(path, self._SURE, self._SLOW), _Mean(chance, self._SURE, self._SLOW)
        self._near_path, self._near_chance = path, chance
        self._covariance, self._variance = 0.0, _EVEN

    @property
    def order(self) -> float:
        """Trust that the frames follow the route's order, 0 to 1: logistic in the log-likelihood ratio."""
        return sigmoid_of((self._gain - self._ENOUGH) / 2)

    @property
    def level(self) -> float:
        """Log-likelihood of ∅: what a frame must earn to be on the map rather than off it.

        It follows the null chain's earnings around the frame, by the share (regression slope, 0 to 1) with which the
        path's earnings did so before. `weighing.own_levels` is the same for a whole drive.
        """
        chance = self._chance.value
        share = min(max(self._covariance / self._variance, 0.0), 1.0)
        return level_between(chance, self._path.value) + share * (self._near_chance - chance)

    @property
    def motion(self) -> Motion:
        """The motion learned so far, at the two paces."""
        motion = self.learner.motion
        paces = tuple(paced(motion.mean_step * pace) for pace in UNDER_WAY)
        return replace(motion, paces=paces, roadway=self.roadway)

    def moment(self, belief: Belief) -> Moment:
        """State at the frame that was just taken, for which `step` returned this belief."""
        if self._forwards is None or self._seen is None:
            raise RuntimeError("no frame was taken")
        places, off = self._seen
        if self.roadway is not None:
            places = self.roadway.spread(places, off)
        return Moment(belief, self._forwards.at_paces(), places, off)

    def step(self, scores: Vectors) -> Belief:
        """Take the scores slope · z (N,) of the next frame; returns the belief given all frames so far."""
        level, match = self.level, int(scores.argmax())
        top = max(float(scores[match]), level)
        places, off = _likelihoods(scores, level, top)
        self._seen = places, off
        if self._forwards is None or self._backwards is None or not self.ordered:
            alone = _alone(places, off, self.begins_off)
            self._forwards = _Chain(alone, roadway=self.roadway)
            self._backwards = _Chain(alone, backwards=True)
            return alone
        forwards, backwards = self._forwards, self._backwards
        self._frame += 1
        self._matches.append(match)
        stands = self._stands()
        self._learn_motion(forwards, places)
        motion, kernels = self.learner.motion, self._kernels
        on_path = forwards.step(motion, kernels, places, off)
        by_chance = backwards.step(motion, kernels, places, off)
        on_map = 1 - forwards.off_map
        if not stands:  # else the null chain stands with it, and earns as much as the path
            self._learn_level(on_path + top, by_chance + top, on_map)
        # The ratio decays on the map only: off the map nothing speaks for or against the order.
        self._gain += on_path - by_chance - on_map * self._gain / self._MEMORY
        along = self._along = self._belonging.see(on_path + top, self._chance.value)
        trust = self.order
        self._searched = 0 if trust > 0.5 else self._searched + (not stands)
        self._doubted = self._doubted + 1 if trust > 0.5 and along < 0.5 else 0
        told = forwards.belief()
        if trust < _CERTAIN:
            told = self._mixed(told, _alone(places, off, self.begins_off), trust)
        return self.in_doubt(told)

    def _stands(self) -> bool:
        """Whether the last frames all match one spot."""
        last = list(self._matches)[-SEARCHED:]
        return len(last) == SEARCHED and max(last) - min(last) <= STANDS

    def _learn_motion(self, before: _Chain, places: Vectors) -> None:
        """Update the motion by the step from the belief before a frame to the frame's likelihoods."""
        if (self._searched or before.off_map > 0.5) and self._frame % _NOW_AND_THEN == 0:
            self._keep_up()
        looks = 1 if self._frame < _SOON else _NOW_AND_THEN
        if self._frame % looks == 0:
            self.learner.see(before.places, 1 - before.off_map, places, before.scale, looks)
            self._kernels = _kernels(self.learner.motion)

    def _learn_level(self, path: float, chance: float, on_map: float) -> None:
        """Take what a frame earned on the path and under the null chain: mean earnings, and their regression."""
        # Frames off the map do not count: their best wrong path would pull the level down to chance.
        known = on_map * (self.order if self._searched > 2 * SEARCHED else 1.0)
        self._path.see(path, known)
        self._chance.see(chance)
        self._near_path += (path - self._near_path) / _NEAR
        self._near_chance += (chance - self._near_chance) / _NEAR
        away = self._near_chance - self._chance.value
        self._covariance += (
            known * away * (self._near_path - self._path.value) - self._covariance / self._SLOW
        )
        self._variance += known * away**2 - (self._variance - _EVEN) / self._SLOW

    def _keep_up(self) -> None:
        """Restart the motion where the best matches of a drive without a path show another speed than it expects."""
        rate, expected = stride(np.array(self._matches)), self.learner.motion.mean_step
        if rate is None or max(rate, expected) <= USUAL or expected / 2 < rate < expected * 2:
            return
        self.learner = Learner(
            replace(self.learner.motion, steps=roughly_paced(rate) if rate > USUAL else STEPS)
        )
        self._kernels = _kernels(self.learner.motion)

    def _mixed(self, followed: Belief, alone: Belief, trust: float) -> Belief:
        """Mix the filtered belief and that of the frame alone, weighted by the trust in the order."""
        heeded = max(trust, _HEEDED)
        off_map = heeded * followed.off_map + (1 - heeded) * searched_in_vain(alone.off_map, self._searched)
        on_map = trust * (1 - followed.off_map) + (1 - trust) * (1 - alone.off_map)
        share = (1 - off_map) / max(on_map, 1e-9)
        mixed = np.float32(share * trust) * followed.places
        mixed += np.float32(share * (1 - trust)) * alone.places
        return Belief(mixed, off_map)

    def in_doubt(self, told: Belief) -> Belief:
        """Mix in the case that the drive is not along the route, where it may be anywhere or off the map."""
        if self._along > _CERTAIN:
            return told
        off_map = searched_in_vain(told.off_map, self._doubted, _DOUBTED, _DOUBTED_LONGER)
        return told.likelier_off_map(off_map).in_doubt(self._along, to_off_map=0.0)


class _Mean:
    """Weighted mean with exponential forgetting.

    Parameters
    ----------
    value : float
        Prior mean.
    weight : float
        Numbers that the prior counts for.
    memory : float
        Time constant, in numbers: the weight of one has fallen to 1/e after so many.
    """

    def __init__(self, value: float, weight: float, memory: float) -> None:
        self._sum, self._weight, self._memory = value * weight, weight, memory

    @property
    def value(self) -> float:
        """The mean so far."""
        return self._sum / self._weight

    def see(self, number: float, weight: float = 1.0) -> None:
        """Take another number."""
        self._sum += weight * number - self._sum / self._memory
        self._weight += weight - self._weight / self._memory


def _likelihoods(scores: Vectors, level: float, top: float) -> tuple[Vectors, float]:
    """Likelihoods of the places and of ∅, scaled so that the greatest is 1: `engine.likelihood` of one frame."""
    places = np.subtract(scores, np.float32(top), dtype=np.float32)
    np.maximum(places, np.float32(-MOST), out=places)
    np.exp(places, out=places)
    return places, exp(max(level - top, -MOST))


def _kernels(motion: Motion) -> tuple[Vectors, Vectors]:
    """P(step) of each pace times the probability of neither leaving, jumping nor changing the pace."""
    # `motion.mean_step`, without making an array of so few numbers at every frame.
    rate = sum(step * share for step, share in enumerate(motion.steps))
    stays = (1 - motion.leave) * (1 - motion.jump) * (1 + KEPT) / 2
    slow, fast = (np.array([stays * share for share in paced(rate * pace)], np.float32) for pace in UNDER_WAY)
    return slow, fast


class _Chain:
    """Filter with two paces in float32; probabilities are the arrays times `scale`, which saves normalising them.

    Parameters
    ----------
    belief : Belief
    backwards : bool
        Whether it moves towards the first place: the null chain.
    roadway : Roadway, optional
        Where the map lacks stretches of the route: its positions without a place count as off the map.
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
        """Predict and update; returns log p(frame | frames before, on the map)."""
        astray, roadway = self.off_map - self._between, self.roadway
        arrives = (1 - astray) * (1 - motion.leave) * motion.jump + astray * motion.back
        on_map = arrives + (1 - astray) * (1 - motion.leave) * (1 - motion.jump)
        self._change()
        if roadway is not None:
            self._slow, self._fast = (roadway.shortened(at, motion.back) for at in (self._slow, self._fast))
        slow, slow_gone = self._moved(self._slow, kernels[0])
        fast, fast_gone = self._moved(self._fast, kernels[1])
        # Mass that passed the end of the route is off the map.
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
            self.places = roadway.gathered(self.places)
        on_map -= between
        found = self.scale * float(np.add.reduce(self.places))
        left = (1 - on_map) * off
        seen = max(found + left, 1e-300)
        self.scale, self.off_map, self._between = self.scale / seen, left / seen, between * off / seen
        return log(max(found, 1e-300) / max(on_map, 1e-9))

    def _change(self) -> None:
        """Transition between the paces, relative to keeping one: that factor is in the kernels."""
        slow, fast = self._slow, self._fast
        if self.scale > _FADED:
            slow *= np.float32(self.scale)
            fast *= np.float32(self.scale)
            self.scale = 1.0
        some = slow * _CHANGED
        slow += fast * _CHANGED
        fast += some

    def _moved(self, at: Vectors, kernel: Vectors) -> tuple[Vectors, float]:
        """Convolve with a pace's steps; returns the belief, and the mass that passed the end of the route."""
        if self.backwards:
            reached = np.correlate(at, kernel, "full")
            cut = len(kernel) - 1
            return reached[cut:], sum(reached[:cut].tolist())
        reached = np.correlate(at, kernel[::-1], "full")
        return reached[: len(at)], sum(reached[len(at) :].tolist())

    def at_paces(self) -> Belief:
        """Belief of positions at each pace (2, M); mass on positions without a place is there and not in `off_map`."""
        joint = np.stack([self._slow, self._fast]).astype(np.float64)
        return Belief(joint * self.scale, self.off_map - self._between)

    def belief(self) -> Belief:
        """Belief of the places (N,), normalised."""
        return Belief(self.places * np.float32(self.scale), self.off_map)


def _alone(places: Vectors, off: float, prior: float) -> Belief:
    """Posterior of a single frame from its likelihoods and the prior probability of ∅."""
    each = (1 - prior) / len(places)
    total = each * float(places.sum()) + prior * off
    return Belief(places * np.float32(each / total), prior * off / total)
