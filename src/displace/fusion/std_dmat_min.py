"""Std dMat Min: distances standardised within each traversal, then their minimum."""

from __future__ import annotations

import numpy as np

from displace.arrays import Vectors, blocks
from displace.errors import InputError
from displace.fusion.base import ScoreFusion

AXES = ("query", "traversal")


class StdDMatMin(ScoreFusion):
    """Smallest standardised distance over the traversals. Scores are its negative.

    The paper does not say over which axis the distances are standardised.

    Parameters
    ----------
    axis : {"query", "traversal"}
        "query": each query's distances over the places of a traversal. "traversal": all distances of a traversal,
        over the queries of the call and the places; a query's result then depends on the others it comes with.
    """

    title = "Std. dMat. Min."

    def __init__(self, axis: str = "query") -> None:
        self.axis = axis

    def _prepare(self, Q: Vectors) -> None:
        if self.axis not in AXES:
            raise InputError(f"axis={self.axis!r} must be one of {', '.join(AXES)}")
        if self.axis == "traversal":
            self._moments = self._moments_over(Q)

    def _fuse(self, similarities: Vectors) -> Vectors:
        if self.axis == "traversal":
            mean, deviation = self._moments
        else:
            mean, deviation = self._moments_of_each(similarities)
        # Standardising a distance 1 − s negates the standardised similarity s.
        similarities -= mean
        similarities /= deviation
        similarities[:, ~self.present_] = -np.inf
        best: Vectors = similarities.max(axis=1)
        return best

    def _moments_of_each(self, similarities: Vectors) -> tuple[Vectors, Vectors]:
        """Mean and standard deviation over the places present, shapes (b, K, 1)."""
        present = True if self.present_.all() else self.present_[None]
        mean = similarities.mean(axis=2, keepdims=True, where=present)
        deviation = similarities.std(axis=2, keepdims=True, where=present)
        return mean, np.where(deviation > 0, deviation, 1)

    def _moments_over(self, Q: Vectors) -> tuple[Vectors, Vectors]:
        """Mean and standard deviation over all queries and places, shapes (1, K, 1); two passes in blocks."""
        count = len(Q) * self.present_.sum(axis=1)
        row_bytes = 4 * self.present_.size * self._layers()
        parts = list(blocks(len(Q), row_bytes))

        def total(power: int, shift: Vectors) -> Vectors:
            sums = np.zeros(len(count))
            for rows in parts:
                values = (self._similarities(Q[rows]) - shift[:, None]) ** power
                sums += values.sum(axis=(0, 2), where=self.present_[None], dtype=np.float64)
            return sums

        mean = total(1, np.zeros(len(count))) / count
        deviation = np.sqrt(total(2, mean) / count)
        deviation[deviation == 0] = 1
        dtype = self.reference_vectors_.dtype
        return mean.astype(dtype)[None, :, None], deviation.astype(dtype)[None, :, None]
