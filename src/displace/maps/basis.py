"""A basis for a map's rows that is the same for every computation of the same projection.

Scores depend on the span of the projection only, but the numbers that are rounded to float16 depend on the basis in it,
and where eigenvalues lie close together that basis turns with the last bits of the statistics. An update and a rebuild
would then be rounded differently everywhere. Turned to lie as near as it can to a fixed matrix, the basis is as stable
as the span.
"""

from __future__ import annotations

import numpy as np

from displace.arrays import Vectors
from displace.fusion.base import Rows

WIDEST = 512
"""Dimensions beyond which it is left as it is: rounding weighs less there, and turning costs more."""


def turning(projection: Vectors | None) -> Vectors | None:
    """Rotation of the rows' space that brings a projection into that basis; None where it stays as it is."""
    if projection is None or not projection.shape[1] <= WIDEST or projection.shape[1] >= projection.shape[0]:
        return None
    fixed = np.random.default_rng(0).standard_normal(projection.shape[::-1], np.float32)
    # The orthogonal factor of the polar decomposition: the rotation R that brings P·R nearest to `fixed`.
    left, _, right = np.linalg.svd(projection.T.astype(np.float64) @ fixed.T.astype(np.float64))
    rotation: Vectors = left @ right
    return rotation


def turned(rows: Rows) -> Rows:
    """Rows and projection of a fusion, both in float32, in that basis."""
    P, vectors, mean = rows.projection, rows.vectors, rows.mean
    rotation = turning(P)
    if P is not None and rotation is not None:
        P, vectors = P @ rotation, vectors @ rotation
    return Rows(
        np.ascontiguousarray(vectors, np.float32),
        rows.place_index,
        None if P is None else np.ascontiguousarray(P, np.float32),
        None if mean is None else np.ascontiguousarray(mean, np.float32),
    )
