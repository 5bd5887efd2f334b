"""dMat Avg (Fischer and Milford 2020): the mean of the traversals' distance matrices."""

from __future__ import annotations

from typing import Self

import numpy as np

from displace.arrays import Vectors, l2_normalize
from displace.fusion.base import Rows, ScoreFusion
from displace.fusion.solver.scatter import Scatter
from displace.references import ReferenceSet, sum_by


class DMatAvg(ScoreFusion):
    """Mean cosine distance over the traversals that have the place. Scores are 1 − distance."""

    title = "dMat. Avg."
    place_by_place = True

    def _fuse(self, similarities: Vectors) -> Vectors:
        counts = self.present_.sum(axis=0).astype(similarities.dtype)
        mean: Vectors = similarities.sum(axis=1) / counts
        return mean

    def rows(self) -> Rows:
        """The mean of each place's unit references, not normalised: q·(1/K)Σr̂ is the mean similarity."""
        n_places = len(self.place_ids_)
        _, index = np.nonzero(self.present_)
        counts = np.bincount(index).astype(self.reference_vectors_.dtype)
        means = sum_by(self.reference_vectors_, index, n_places) / counts[:, None]
        return Rows(means, np.arange(n_places))

    def statistics(self, refs: ReferenceSet) -> Scatter:
        """Counts and means of the places' unit references."""
        return Scatter.of(l2_normalize(refs.vectors), refs.places, means_only=True)

    def from_statistics(self, statistics: Scatter, refs: ReferenceSet | None = None) -> Self:  # noqa: ARG002
        """Fit on counts and means: one reference a place, its mean."""
        self.place_ids_, self.n_features_in_ = statistics.place_ids, statistics.means.shape[1]
        self.reference_vectors_ = statistics.means
        self.present_ = np.ones((1, len(statistics.means)), bool)
        return self
