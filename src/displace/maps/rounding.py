"""Rows in float16 or int8: a reproducible basis for them, the rounding itself, and the recall that it costs.

Scores depend on the span of the projection only, but rounded rows depend on the basis in it, and where eigenvalues are
close together that basis rotates with the last bits of the statistics: an update and a rebuild would be rounded
differently everywhere. So the basis is rotated as near as possible to a fixed random matrix (orthogonal Procrustes),
which makes it as stable as the span.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, l2_normalize, nearest_rows
from displace.holdout import spread
from displace.references import ReferenceSet
from displace.search.exact import to_int8
from displace.truth import Truth

if TYPE_CHECKING:
    from displace.fusion.base import Fusion, Rows

DTYPES = ("float16", "float32", "int8")
LARGEST = 1.01
"""Largest number that a row can have: rows are unit vectors or means of such, rounded."""
MAX_QUERIES = 500
"""Most queries of a held-out traversal with which the loss is measured."""
WIDEST = 512
"""Dimensions beyond which the basis is left as it is: rounding matters less there, and rotating costs more."""


def stable_rotation(projection: Vectors | None) -> Vectors | None:
    """Rotation (n, n) that brings a projection into the reproducible basis; None where it stays as it is."""
    if projection is None or not projection.shape[1] <= WIDEST or projection.shape[1] >= projection.shape[0]:
        return None
    fixed = np.random.default_rng(0).standard_normal(projection.shape[::-1], np.float32)
    # The orthogonal factor of the polar decomposition: the rotation R that brings P·R nearest to `fixed`.
    left, _, right = np.linalg.svd(projection.T.astype(np.float64) @ fixed.T.astype(np.float64))
    rotation: Vectors = left @ right
    return rotation


def in_stable_basis(rows: Rows) -> Rows:
    """Rows and projection of a fusion, in float32 and in the reproducible basis."""
    P, vectors, mean = rows.projection, rows.vectors, rows.mean
    rotation = stable_rotation(P)
    if P is not None and rotation is not None:
        P, vectors = P @ rotation, vectors @ rotation
    return replace(
        rows,
        vectors=np.ascontiguousarray(vectors, np.float32),
        projection=None if P is None else np.ascontiguousarray(P, np.float32),
        mean=None if mean is None else np.ascontiguousarray(mean, np.float32),
    )


def quantize(rows: Vectors, dtype: str) -> tuple[NDArray[Any], Vectors | None]:
    """Rows as stored, and the scales of int8 rows."""
    return to_int8(rows) if dtype == "int8" else (rows.astype(dtype), None)


def rounded(rows: Vectors, dtype: str) -> Vectors:
    """Rows as float32 after storing them as `dtype`."""
    stored, scales = quantize(rows, dtype)
    return (stored if scales is None else stored * scales[:, None]).astype(np.float32, copy=False)


def within_unit(rows: Vectors) -> bool:
    """Whether all numbers are finite and no larger than `LARGEST`.

    >>> within_unit(np.array([[0.6, -0.8]], np.float16)), within_unit(np.array([[0.6, -np.inf]], np.float16))
    (True, False)
    """
    if not rows.size:
        return True
    if rows.dtype == np.float16:
        # Thirty times as fast as comparing floats: read as integers, the bits of one sign are in the floats' order.
        limit = int(np.float16(LARGEST).view(np.uint16))
        positive, negative = (int(rows.view(kind).max()) for kind in (np.int16, np.uint16))
        return positive <= limit and negative <= limit | 0x8000
    return bool(-LARGEST <= rows.min() <= rows.max() <= LARGEST)


class RecallLoss:
    """R@1 of held-out traversals with float32 rows and with rows as stored, one traversal at a time."""

    def __init__(self, dtype: str, truth: Truth) -> None:
        self.truth = truth
        self.n_queries, self.n_right = 0, {"float32": 0, dtype: 0}

    def watch(self, fusion: Fusion, queries: ReferenceSet) -> None:
        """Take a fold: a fusion, and queries of a traversal that it was fitted without."""
        queries = queries.select(np.isin(queries.places, fusion.place_ids_))
        queries = queries.select(spread(len(queries), MAX_QUERIES))
        rows = fusion.rows()
        assert rows is not None
        projected = rows.project(queries.vectors)
        for dtype in self.n_right:
            best = rows.place_index[nearest_rows(projected, rounded(rows.vectors, dtype))]
            self.n_right[dtype] += int(self.truth.correct(fusion.place_ids_[best], queries.places).sum())
        self.n_queries += len(queries)

    def notes(self) -> dict[str, Any]:
        """Figures for `inspect`; empty where no traversal could be held out."""
        if not self.n_queries:
            return {}
        recalls = {dtype: round(100 * right / self.n_queries, 2) for dtype, right in self.n_right.items()}
        return {"recall_at_1": recalls, "n_queries": self.n_queries}


def agreement(rows: Vectors, row_places: Indices, dtype: str) -> dict[str, Any]:
    """Share of noisy copies of the rows whose best place is the same after rounding: without held-out traversals."""
    rng = np.random.default_rng(0)
    sample = spread(len(rows), 1000)
    noise = rng.standard_normal((len(sample), rows.shape[1])).astype(np.float32) / np.sqrt(rows.shape[1])
    queries = l2_normalize(rows[sample].astype(np.float32) + noise.astype(np.float32))
    exact, stored = (row_places[nearest_rows(queries, rounded(rows, name))] for name in ("float32", dtype))
    return {"same_top_match": round(100 * float((exact == stored).mean()), 2)}
