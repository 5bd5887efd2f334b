"""Rows of drives: a fusion's scores along the route, ranked by a sequence method, or adapted to the queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from displace.arrays import Indices, Vectors
from displace.errors import InputError
from displace.evaluation.methods import Method
from displace.fusion.base import Fusion
from displace.maps.driving import Adapted, rows_in_order
from displace.sequence import SEQUENCES
from displace.sequence.adaptation import LEAST_QUERIES, adapt
from displace.sequence.engine import Blocks


@dataclass(frozen=True, eq=False)
class FusedScores:
    """Scores of a fitted fusion for queries in the order in which they were taken, its places in route order."""

    fusion: Fusion
    queries: Vectors
    order: Indices

    @property
    def shape(self) -> tuple[int, int]:
        """Frames and places."""
        return len(self.queries), len(self.order)

    def block(self, rows: slice) -> Vectors:
        """Return the scores of some frames."""
        matches = self.fusion.rank(self.queries[rows], len(self.order))
        scores = np.empty(matches.scores.shape, np.float32)
        columns = np.searchsorted(self.fusion.place_ids_, matches.places)
        np.put_along_axis(scores, columns, matches.scores.astype(np.float32), axis=1)
        return scores[:, self.order]


def ranked_along(
    method: Method, fusion: Fusion, queries: Vectors, order: Indices, k: int
) -> tuple[Indices, Vectors]:
    """Best places of each frame and their scores, both (q, k), by a fitted fusion and the sequence method of `method`.

    Queries (q, D) are in the order in which they were taken, the places `order` in that of the route. A fusion may lack
    some of these, as `single` does those that its traversal never showed.
    """
    order = order[np.isin(order, fusion.place_ids_)]
    columns = np.searchsorted(fusion.place_ids_, order)
    similarity: Blocks = FusedScores(fusion, queries, columns)
    if method.adapt == "batch":
        rows = fusion.rows()
        if rows is None:
            raise InputError("adapt='batch' needs a fusion that makes rows for a map")
        if len(queries) < LEAST_QUERIES:
            raise InputError(f"adapt='batch' needs at least {LEAST_QUERIES} queries; got {len(queries)}")
        along = rows_in_order(np.asarray(rows.vectors, np.float32), rows.starts, columns)
        projected = rows.project(queries)
        similarity = Adapted(adapt(along, projected), projected)
    best, scores = SEQUENCES.get(method.sequence)(method.length).rank(similarity, k)
    best, scores = np.asarray(best), np.asarray(scores)
    _check_ranking(method.sequence, best, scores, (len(queries), min(k, len(order))), len(order))
    return order[best], scores


def _check_ranking(
    sequence: str, best: Indices, scores: Vectors, shape: tuple[int, int], n_places: int
) -> None:
    """Refuse what is no ranking: its recall would be that of other places."""
    if best.shape != shape or scores.shape != shape:
        raise InputError(
            f"sequence method {sequence!r}: rank returned places of shape {best.shape} and scores of shape "
            f"{scores.shape}, and both must have {shape}: the k best places of each frame"
        )
    if best.dtype.kind not in "iu" or best.min(initial=0) < 0 or best.max(initial=0) >= n_places:
        raise InputError(
            f"sequence method {sequence!r}: rank must return places as whole numbers from 0 to {n_places - 1}, their "
            "columns in the similarity"
        )
    if np.isnan(scores).any():
        raise InputError(f"sequence method {sequence!r}: scores are NaN, without order")
