"""The forward–backward smoother: each frame given all frames, for recordings that are complete."""

from __future__ import annotations

from displace.arrays import Indices, Vectors
from displace.sequence.engine import Belief, Blocks
from displace.sequence.methods.base import Best, SequenceMethod
from displace.sequence.weighing import Scale, smooth_drive


class Smoother(SequenceMethod):
    """Probability of each place given all frames, with the motion learned in a first pass."""

    name = "smoother"

    def rank(self, similarity: Blocks, k: int) -> tuple[Indices, Vectors]:
        """Rank by the smoothed belief."""
        best = Best(similarity.shape, k)

        def see(frame: int, belief: Belief, evidence: Vectors) -> None:  # noqa: ARG001
            best.keep(frame, belief.places)

        smooth_drive(similarity, Scale(), see)
        return best.found
