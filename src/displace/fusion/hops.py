"""HOPS (Malone et al. 2025): the normalised sum of a place's references."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, l2_normalize
from displace.fusion.base import VectorFusion
from displace.fusion.solver.scatter import Scatter
from displace.references import ReferenceSet, sum_by


class Hops(VectorFusion):
    """Hyperdimensional bundling: each place is the normalised sum of its references as given.

    Attributes
    ----------
    place_vectors_ : array of shape (N, D)
        Unit vectors.

    Examples
    --------
    >>> import numpy as np
    >>> hops = Hops().fit([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], ["gate", "gate", "tower"])
    >>> hops.predict([[0.9, 0.1]])
    array(['gate'], dtype='<U5')
    """

    title = "HOPS"
    place_by_place = True

    def _fit(self, X: Vectors, index: Indices, traversals: NDArray[Any] | None) -> None:  # noqa: ARG002
        self.place_vectors_ = l2_normalize(sum_by(X, index, len(self.place_ids_)))

    def statistics(self, refs: ReferenceSet) -> Scatter:
        """Counts and means of the places."""
        return Scatter.of(refs.vectors, refs.places, means_only=True)

    def from_statistics(self, statistics: Scatter, refs: ReferenceSet | None = None) -> Self:  # noqa: ARG002
        """Fit on counts and means."""
        self.place_ids_, self.n_features_in_ = statistics.place_ids, statistics.means.shape[1]
        self.place_vectors_ = l2_normalize(statistics.means)
        return self
