"""The online filter: each frame given those before it, which is what a robot knows while it drives."""

from __future__ import annotations

from displace.arrays import Indices, Vectors
from displace.sequence.engine import Blocks, in_blocks
from displace.sequence.methods.base import Best, SequenceMethod
from displace.sequence.tracking import Tracker
from displace.sequence.weighing import Scale, Scores, Weighed


class Filter(SequenceMethod):
    """Probability of each place given all frames so far; speed and jumps are learned on the way."""

    name = "filter"

    def rank(self, similarity: Blocks, k: int) -> tuple[Indices, Vectors]:
        """Rank by the filtered belief."""
        best = Best(similarity.shape, k)
        scale = Scale()
        scaled = Weighed(Scores(similarity), Scale(scale.slope, level=0.0))
        tracker = Tracker(scale.level)
        for rows in in_blocks(similarity.shape[0]):
            for row, ratios in enumerate(scaled.block(rows)):
                best.keep(rows.start + row, tracker.step(ratios).places)
        return best.found
