"""First: a place is its first reference, turned."""

import numpy as np

from displace.arrays import l2_normalize
from displace.fusion.base import VectorFusion


class First(VectorFusion):
    """Each place is its first reference, in a basis of its own; it keeps no statistics."""

    title = "First"

    def _fit(self, X, index, traversals):
        rng = np.random.default_rng(0)
        self.projection_ = np.linalg.qr(rng.standard_normal((X.shape[1], X.shape[1])))[0].astype(X.dtype)
        rows = np.unique(index, return_index=True)[1]
        self.place_vectors_ = l2_normalize(X[rows] @ self.projection_)
