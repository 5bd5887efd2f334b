"""A basis for a map's rows that is the same for every computation of the same projection.

Scores depend on the span of the projection only, but the numbers that are rounded to float16 depend on the basis in it,
and where eigenvalues lie close together that basis turns with the last bits of the statistics. An update and a rebuild
would then be rounded differently everywhere. Turned to lie as near as it can to a fixed matrix, the basis is as stable
as the span.
"""

from __future__ import annotations

import numpy as np

from displace.arrays import Vectors
from displace.fusion.displace import DisPlace

WIDEST = 512
"""Dimensions beyond which it is left as it is: rounding weighs less there, and turning costs more."""


def turned(fusion: DisPlace) -> tuple[Vectors, Vectors]:
    """Place vectors and projection of a fitted DisPlace, both in float32, in that basis."""
    P, rows = fusion.projection_, fusion.place_vectors_
    dim, n = P.shape
    if n <= WIDEST and n < dim:
        fixed = np.random.default_rng(0).standard_normal((n, dim), np.float32)
        # The orthogonal factor of the polar decomposition: the rotation R that brings P·R nearest to `fixed`.
        left, _, right = np.linalg.svd(P.T.astype(np.float64) @ fixed.T.astype(np.float64))
        P, rows = P @ (left @ right), rows @ (left @ right)
    return np.ascontiguousarray(rows, np.float32), np.ascontiguousarray(P, np.float32)
