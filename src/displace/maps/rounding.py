"""Rows in fewer bits, in a basis that is the same for every computation of the same projection, and what that costs.

Scores depend on the span of the projection only, but the numbers that are rounded to float16 depend on the basis in it,
and where eigenvalues lie close together that basis turns with the last bits of the statistics. An update and a rebuild
would then be rounded differently everywhere. Turned to lie as near as it can to a fixed matrix, the basis is as stable
as the span.
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
"""Largest number in a row: rows are unit vectors or means of such, rounded."""
MAX_QUERIES = 500
"""Queries of one held-out traversal that the loss is measured with."""
WIDEST = 512
"""Dimensions beyond which a basis is left as it is: rounding weighs less there, and turning costs more."""


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
    """Whether no number is larger than a unit vector can have, or NaN.

    >>> within_unit(np.array([[0.6, -0.8]], np.float16)), within_unit(np.array([[0.6, -np.inf]], np.float16))
    (True, False)
    """
    if not rows.size:
        return True
    if rows.dtype == np.float16:
        # Thirty times as fast as comparing them: their bits, read as integers, are ordered as they are, by sign.
        limit = int(np.float16(LARGEST).view(np.uint16))
        positive, negative = (int(rows.view(kind).max()) for kind in (np.int16, np.uint16))
        return positive <= limit and negative <= limit | 0x8000
    return bool(-LARGEST <= rows.min() <= rows.max() <= LARGEST)


class RecallLoss:
    """R@1 with float32 rows and with rows as stored, over held-out traversals that are shown one after the other."""

    def __init__(self, dtype: str, truth: Truth) -> None:
        self.truth = truth
        self.n_queries, self.n_right = 0, {"float32": 0, dtype: 0}

    def watch(self, fusion: Fusion, queries: ReferenceSet) -> None:
        """Take in one traversal and a fusion that was fitted without it."""
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
        """What `inspect` shows; empty where no traversal could be held out."""
        if not self.n_queries:
            return {}
        recalls = {dtype: round(100 * right / self.n_queries, 2) for dtype, right in self.n_right.items()}
        return {"recall_at_1": recalls, "n_queries": self.n_queries}


def agreement(rows: Vectors, row_places: Indices, dtype: str) -> dict[str, Any]:
    """How often storing rows in fewer bits changes the best place, on the rows themselves with noise."""
    rng = np.random.default_rng(0)
    sample = spread(len(rows), 1000)
    noise = rng.standard_normal((len(sample), rows.shape[1])).astype(np.float32) / np.sqrt(rows.shape[1])
    queries = l2_normalize(rows[sample].astype(np.float32) + noise.astype(np.float32))
    exact, stored = (row_places[nearest_rows(queries, rounded(rows, name))] for name in ("float32", dtype))
    return {"same_top_match": round(100 * float((exact == stored).mean()), 2)}
