"""dMat Min (Fischer and Milford 2020): the minimum of the traversals' distance matrices."""

from __future__ import annotations

import numpy as np

from displace.arrays import Vectors
from displace.fusion.base import ScoreFusion


class DMatMin(ScoreFusion):
    """Smallest cosine distance over the traversals. Scores are 1 − distance."""

    title = "dMat. Min."
    missing = -np.inf

    def _fuse(self, similarities: Vectors) -> Vectors:
        best: Vectors = similarities.max(axis=1)
        return best
