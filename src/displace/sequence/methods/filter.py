"""The online filter: each frame given those before it, which is what a robot knows while it drives."""

from __future__ import annotations

from displace.arrays import Indices, Vectors
from displace.sequence.engine import Blocks
from displace.sequence.methods.base import Best, SequenceMethod
from displace.sequence.tracking import Tracker
from displace.sequence.weighing import Scale, scores_by_frame, weighed


class Filter(SequenceMethod):
    """Probability of each place given all frames so far; speed and jumps are learned on the way."""

    name = "filter"

    def rank(self, similarity: Blocks, k: int) -> tuple[Indices, Vectors]:
        """Rank by the filtered belief."""
        best, scale = Best(similarity.shape, k), Scale()
        tracker = Tracker(scale.level)
        for frame, scores in enumerate(weighed(scores_by_frame(similarity), scale.slope, 0.0)):
            best.keep(frame, tracker.step(scores).places)
        return best.found
