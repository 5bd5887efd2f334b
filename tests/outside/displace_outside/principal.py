"""Principal: places in the directions in which their means differ most."""

import numpy as np

from displace.arrays import l2_normalize
from displace.fusion.base import VectorFusion
from displace.fusion.solver.scatter import Scatter


class Principal(VectorFusion):
    """Each place is its mean in the leading principal directions of all places' means."""

    title = "Principal"

    def __init__(self, n_components=8):
        self.n_components = n_components

    def statistics(self, refs):
        """Counts and means of the places."""
        return Scatter.of(refs.vectors, refs.places, means_only=True)

    def from_statistics(self, statistics, refs=None):
        """Fit on counts and means."""
        self.place_ids_, self.n_features_in_ = statistics.place_ids, statistics.means.shape[1]
        self.mean_ = statistics.mean.astype(statistics.means.dtype)
        centred = statistics.means - self.mean_
        directions = np.linalg.svd(centred, full_matrices=False)[2]
        self.projection_ = directions[: self.n_components].T
        self.place_vectors_ = l2_normalize(centred @ self.projection_)
        return self

    def _fit(self, X, index, traversals):
        ids = self.place_ids_
        self.from_statistics(Scatter.of(X, index, means_only=True))
        self.place_ids_ = ids
