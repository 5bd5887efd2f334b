"""Std dMat Min: distances standardised within each traversal, then their minimum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, blocks, check_one_of
from displace.fusion.base import ScoreFusion

AXES = ("query", "traversal")
ROUNDING = 4
"""Spacings of floating-point numbers around 1 up to which a deviation of cosines is rounding: all are equal then."""


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

    def _fit(self, X: Vectors, index: Indices, traversals: NDArray[Any] | None) -> None:
        check_one_of(self.axis, AXES, "axis")
        super()._fit(X, index, traversals)

    def _scorer(self, Q: Vectors) -> Callable[[slice], Vectors]:
        if self.axis == "query":
            return super()._scorer(Q)
        moments = self._moments_over(Q)
        return lambda rows: self._best(self._similarities(Q[rows]), *moments)

    def _fuse(self, similarities: Vectors) -> Vectors:
        return self._best(similarities, *self._moments_of_each(similarities))

    def _best(self, similarities: Vectors, mean: Vectors, deviation: Vectors) -> Vectors:
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
        return mean, self._usable(deviation)

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
        dtype = self.reference_vectors_.dtype
        return mean.astype(dtype)[None, :, None], self._usable(deviation.astype(dtype))[None, :, None]

    def _usable(self, deviation: Vectors) -> Vectors:
        """Deviations to divide by: 1 where distances do not differ."""
        return np.where(deviation > ROUNDING * np.finfo(deviation.dtype).eps, deviation, 1)
