"""Mean similarity along diagonals, after SeqSLAM (Milford and Wyeth, ICRA 2012), at equal speeds."""

from __future__ import annotations

from collections import deque

import numpy as np

from displace.arrays import Indices, Vectors
from displace.sequence.engine import Blocks
from displace.sequence.methods.base import Best, SequenceMethod
from displace.sequence.weighing import standardised


class SeqSlam(SequenceMethod):
    """Standardised similarity averaged over the last L frames, each one place further back.

    Right where a drive passes one place a frame, as recordings at equal spacing do; wrong at other speeds.
    """

    name = "seqslam"
    default_length = 10

    def rank(self, similarity: Blocks, k: int) -> tuple[Indices, Vectors]:
        """Rank by the mean along the diagonal that ends at a frame."""
        n_places = similarity.shape[1]
        # A diagonal has no more frames than the route has places.
        length = min(max(1, self.length or 1), n_places)
        best = Best(similarity.shape, k)
        recent: deque[Vectors] = deque(maxlen=length)
        for frame, scores in enumerate(similarity.each(standardised)):
            recent.append(scores)
            total, seen = np.zeros(n_places), np.zeros(n_places)
            for back, earlier in enumerate(reversed(recent)):
                total[back:] += earlier[: n_places - back]
                seen[back:] += 1
            best.keep(frame, total / seen)
        return best.found
