"""Each frame by itself: the baseline of every other method."""

from __future__ import annotations

from displace.arrays import Indices, Vectors
from displace.sequence.engine import Blocks
from displace.sequence.methods.base import Best, SequenceMethod


class SingleFrame(SequenceMethod):
    """The ranking by similarity, as it is."""

    name = "single_frame"

    def rank(self, similarity: Blocks, k: int) -> tuple[Indices, Vectors]:
        """Rank by similarity."""
        best = Best(similarity.shape, k)
        for frame, scores in enumerate(similarity):
            best.keep(frame, scores)
        return best.found
