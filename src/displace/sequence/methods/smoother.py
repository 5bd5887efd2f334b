"""The forward–backward smoother: each frame given all frames, for recordings that are complete."""

from __future__ import annotations

from displace.arrays import Indices, Vectors
from displace.sequence.engine import Blocks
from displace.sequence.methods.base import Best, SequenceMethod
from displace.sequence.weighing import Scale
from displace.sequence.whole_drive import smooth_drive


class Smoother(SequenceMethod):
    """Probability of each place given all frames, with the motion learned in a first pass."""

    name = "smoother"

    def rank(self, similarity: Blocks, k: int) -> tuple[Indices, Vectors]:
        """Rank by the smoothed belief."""
        best = Best(similarity.shape, k)
        smooth_drive(similarity, Scale(), lambda frame, belief: best.keep(frame, belief.places))
        return best.found
