"""A drive followed frame by frame, fast enough to run beside the search for one frame."""

from __future__ import annotations

from math import exp, log

import numpy as np

from displace.arrays import Vectors
from displace.sequence.engine import MOST, UNKNOWN, Belief, Learner, Motion

ABOVE = 0.27
"""The off-map state's level: this share of the way from what chance earns to what the path earns."""
_CERTAIN = 0.999


class Tracker:
    """Follows a drive frame by frame: the belief, the motion learned so far, and whether order helps at all.

    A second chain runs along the route backwards. Where the frames fit it as well as they fit the route, they do not
    follow the route's order (places without one, a camera that jumps); then a frame is believed for itself. What the
    two earn also tells, on this very drive, how much evidence a frame must bring to be on the map.

    Parameters
    ----------
    n_places : int
    level : float
        Of the off-map state, before anything was learned.
    motion : Motion, optional
        Before anything was learned.
    ordered : bool
        Whether the places have an order at all.
    """

    _MEMORY = 50.0
    _ENOUGH = 16.0
    _SLOW, _SURE, _APART = 150.0, 20.0, 1.0

    def __init__(
        self, n_places: int, level: float, motion: Motion | None = None, ordered: bool = True
    ) -> None:
        self.ordered = ordered
        self.learner = Learner(motion or Motion())
        self._n = n_places
        self._forwards: _Chain | None = None
        self._backwards: _Chain | None = None
        self._gain = 0.0
        # What a frame earns on the path and by chance, with weights as if `_SURE` frames had been seen.
        self._path, self._path_weight = self._SURE * (level + (1 - ABOVE) * self._APART), self._SURE
        self._chance, self._chance_weight = self._SURE * (level - ABOVE * self._APART), self._SURE

    @property
    def order(self) -> float:
        """Trust that the frames follow the route's order, 0 to 1."""
        return 1 / (1 + exp(-min(max((self._gain - self._ENOUGH) / 2, -50.0), 50.0)))

    @property
    def level(self) -> float:
        """Evidence that a frame must bring to be on the map."""
        path, chance = self._path / self._path_weight, self._chance / self._chance_weight
        return chance + ABOVE * max(0.0, path - chance)

    def step(self, scores: Vectors) -> Belief:
        """Take the scaled scores (N,) of the next frame; returns the belief given all frames so far."""
        level = self.level
        top = max(float(np.maximum.reduce(scores)), level)
        places = np.subtract(scores, np.float32(top), dtype=np.float32)
        np.maximum(places, np.float32(-MOST), out=places)
        np.exp(places, out=places)
        off = exp(max(level - top, -MOST))
        if self._forwards is None or self._backwards is None or not self.ordered:
            alone = _alone(places, off)
            self._forwards, self._backwards = _Chain(alone), _Chain(alone, backwards=True)
            return alone
        self.learner.see(self._forwards.places, 1 - self._forwards.off_map, places, self._forwards.scale)
        motion = self.learner.motion
        seen, on_path = self._forwards.step(motion, places, off)
        seen_backwards, by_chance = self._backwards.step(motion, places, off)
        self._gain += log(seen) - log(seen_backwards) - self._gain / self._MEMORY
        on_map = 1 - self._forwards.off_map
        self._path += on_map * (on_path + top) - self._path / self._SLOW
        self._path_weight += on_map - self._path_weight / self._SLOW
        self._chance += by_chance + top - self._chance / self._SLOW
        self._chance_weight += 1 - self._chance_weight / self._SLOW
        trust = self.order
        followed = self._forwards.belief()
        if trust > _CERTAIN:
            return followed
        alone = _alone(places, off)
        return Belief(
            np.float32(trust) * followed.places + np.float32(1 - trust) * alone.places,
            trust * followed.off_map + (1 - trust) * alone.off_map,
        )


class _Chain:
    """A belief that moves along the route; its places are kept as float32, on a scale of their own.

    Parameters
    ----------
    belief : Belief
    backwards : bool
        Whether it moves towards the first place.
    """

    def __init__(self, belief: Belief, backwards: bool = False) -> None:
        self.places = belief.places.astype(np.float32)
        self.off_map = belief.off_map
        self.backwards = backwards
        self.scale = 1.0

    def step(self, motion: Motion, places: Vectors, off: float) -> tuple[float, float]:
        """Go on by a frame; returns the probability of having seen it, and its logarithm had it been on the map."""
        n, on_map = len(self.places), 1 - self.off_map
        stays = (1 - motion.leave) * (1 - motion.jump) * self.scale
        kernel = np.array(motion.steps, np.float32)
        kernel *= np.float32(stays)
        if self.backwards:
            joint = np.convolve(self.places, kernel[::-1])[len(kernel) - 1 :]
        else:
            joint = np.convolve(self.places, kernel)[:n]
        joint += np.float32((on_map * (1 - motion.leave) * motion.jump + self.off_map * motion.back) / n)
        # What passed the end of the route has left the map, too.
        on_map = min(float(np.add.reduce(joint)), 1.0)
        gone = (1 - on_map) * off
        joint *= places
        found = float(np.add.reduce(joint))
        seen = max(found + gone, 1e-300)
        self.places, self.scale, self.off_map = joint, 1 / seen, gone / seen
        return seen, log(max(found, 1e-300) / max(on_map, 1e-9))

    def belief(self) -> Belief:
        """The belief, summing to 1."""
        return Belief(self.places * np.float32(self.scale), self.off_map)


def _alone(places: Vectors, off: float) -> Belief:
    """Belief of a frame for itself."""
    each = (1 - UNKNOWN) / len(places)
    total = each * float(places.sum()) + UNKNOWN * off
    return Belief(places * np.float32(each / total), UNKNOWN * off / total)
