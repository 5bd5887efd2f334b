"""dMat Med (Fischer and Milford 2020): the median of the traversals' distance matrices."""

from __future__ import annotations

import numpy as np

from displace.arrays import Vectors
from displace.fusion.base import ScoreFusion

NETWORK_LIMIT = 24
"""Up to this many traversals whole-array exchanges beat sorting each short column (12 times for 3)."""


class DMatMed(ScoreFusion):
    """Median cosine distance over the traversals that have the place. Scores are 1 − distance."""

    title = "dMat. Med."
    missing = np.inf  # sorts behind all that is there

    def _fuse(self, similarities: Vectors) -> Vectors:
        counts = self.present_.sum(axis=0)
        layers = sort_layers(similarities)
        middle = [layers[:, at, np.arange(len(counts))] for at in ((counts - 1) // 2, counts // 2)]
        return (middle[0] + middle[1]) / 2


def sort_layers(layers: Vectors) -> Vectors:
    """Sort (b, K, N) along K, in place where K is small (odd-even transposition network)."""
    n_layers = layers.shape[1]
    if n_layers > NETWORK_LIMIT:
        return np.sort(layers, axis=1)
    for turn in range(n_layers):
        for k in range(turn % 2, n_layers - 1, 2):
            low = np.minimum(layers[:, k], layers[:, k + 1])
            np.maximum(layers[:, k], layers[:, k + 1], out=layers[:, k + 1])
            layers[:, k] = low
    return layers
