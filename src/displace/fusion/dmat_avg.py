"""dMat Avg (Fischer and Milford 2020): the mean of the traversals' distance matrices."""

from __future__ import annotations

import numpy as np

from displace.arrays import Indices, Vectors
from displace.fusion.base import ScoreFusion
from displace.references import sum_by


class DMatAvg(ScoreFusion):
    """Mean cosine distance over the traversals that have the place. Scores are 1 − distance."""

    title = "dMat. Avg."

    def _fuse(self, similarities: Vectors) -> Vectors:
        counts = self.present_.sum(axis=0).astype(similarities.dtype)
        mean: Vectors = similarities.sum(axis=1) / counts
        return mean

    def stored_rows(self) -> tuple[Vectors, Indices]:
        """The mean of each place's unit references, not normalised: q·(1/K)Σr̂ is the mean similarity."""
        _, index = np.nonzero(self.present_)
        counts = np.bincount(index).astype(self.reference_vectors_.dtype)
        sums = sum_by(self.reference_vectors_, index, len(self.place_ids_))
        return sums / counts[:, None], np.arange(len(counts))
