"""Each frame by itself: the baseline of every other method."""

from __future__ import annotations

from displace.arrays import Indices, Vectors
from displace.sequence.engine import Blocks, in_blocks
from displace.sequence.methods.base import Best, SequenceMethod


class SingleFrame(SequenceMethod):
    """The ranking by similarity, as it is."""

    name = "single_frame"

    def rank(self, similarity: Blocks, k: int) -> tuple[Indices, Vectors]:
        """Rank by similarity."""
        best = Best(similarity.shape, k)
        for rows in in_blocks(similarity.shape[0]):
            for row, scores in enumerate(similarity.block(rows)):
                best.keep(rows.start + row, scores)
        return best.found
