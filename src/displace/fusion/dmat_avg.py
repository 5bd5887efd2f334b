"""dMat Avg (Fischer and Milford 2020): the mean of the traversals' distance matrices."""

from __future__ import annotations

from displace.arrays import Vectors
from displace.fusion.base import ScoreFusion


class DMatAvg(ScoreFusion):
    """Mean cosine distance over the traversals that have the place. Scores are 1 − distance."""

    title = "dMat. Avg."

    def _fuse(self, similarities: Vectors) -> Vectors:
        counts = self.present_.sum(axis=0).astype(similarities.dtype)
        mean: Vectors = similarities.sum(axis=1) / counts
        return mean
