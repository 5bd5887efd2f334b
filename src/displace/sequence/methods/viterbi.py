"""Viterbi: the most likely path; other places of a frame are ranked by the best path that ends there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors
from displace.sequence.engine import Blocks, Motion
from displace.sequence.methods.base import Best, SequenceMethod
from displace.sequence.weighing import Scale, scores_by_frame, weighed


class Viterbi(SequenceMethod):
    """Path with the greatest probability over steps of 0 to 3 places and jumps to anywhere.

    Backpointers take one byte for each frame and place.
    """

    name = "viterbi"

    def rank(self, similarity: Blocks, k: int) -> tuple[Indices, Vectors]:
        """Rank each frame's places by the best path that ends there; the path itself comes first."""
        n_frames, n_places = similarity.shape
        motion, scale = Motion(), Scale()
        ways = np.zeros((n_frames, n_places), np.uint8)
        jumped_from = np.zeros(n_frames, np.intp)
        best = Best(similarity.shape, k)
        total: Vectors = np.zeros(n_places)
        for frame, ratios in enumerate(weighed(scores_by_frame(similarity), scale.slope, scale.level)):
            if frame:
                jumped_from[frame] = total.argmax()
                total, ways[frame] = _moved_best(total, motion)
            total = total + ratios
            total -= total.max()
            best.keep(frame, total)
        _path_first(best, ways, jumped_from, int(total.argmax()), len(motion.steps))
        return best.found


def _moved_best(total: Vectors, motion: Motion) -> tuple[Vectors, NDArray[np.uint8]]:
    """Best predecessor of each place: log-probability, and the step taken (``len(motion.steps)``: a jump)."""
    options = np.full((len(motion.steps) + 1, len(total)), -np.inf)
    for k, weight in enumerate(motion.steps[: len(total)]):
        options[k, k:] = total[: len(total) - k] + np.log(weight * (1 - motion.jump))
    options[-1] = total.max() + np.log(motion.jump / len(total))
    way = options.argmax(axis=0)
    return options[way, np.arange(len(total))], way.astype(np.uint8)


def _path_first(best: Best, ways: NDArray[np.uint8], jumped_from: Indices, last: int, jump: int) -> None:
    """Trace the best path back and put its places first, each with its score.

    A place that is not among the k best replaces the last one and takes its score, which its own does not exceed.
    """
    place = last
    for frame in reversed(range(len(ways))):
        places, scores = best.places[frame], best.scores[frame]
        at = next(iter(np.flatnonzero(places == place)), best.k - 1)
        places[at] = place
        places[: at + 1], scores[: at + 1] = np.roll(places[: at + 1], 1), np.roll(scores[: at + 1], 1)
        way = int(ways[frame, place])
        place = int(jumped_from[frame]) if way == jump else place - way
