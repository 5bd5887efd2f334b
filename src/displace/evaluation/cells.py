"""Cells: one number of a table each. What determines it, and how it is computed."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
import warnings
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import scipy
import sklearn

from displace._version import __version__
from displace.arrays import Indices, Vectors
from displace.datasets.base import Protocol
from displace.errors import DisplaceError, DisplaceWarning, FallbackWarning, InputError, why_not
from displace.evaluation.loading import Split
from displace.evaluation.methods import ALONE, Method
from displace.evaluation.rankings import Ranking
from displace.evaluation.record import Result
from displace.fusion.base import AS_GIVEN, Fusion
from displace.maps.driving import rows_in_order, similarity_of
from displace.recall import DEFAULT_KS, percent
from displace.references import ReferenceSet
from displace.sequence import SEQUENCES
from displace.sequence.adaptation import LEAST_QUERIES
from displace.sequence.engine import Blocks
from displace.threads import n_threads


@dataclass(frozen=True)
class Cell:
    """One method with one model on one query traversal."""

    dataset: str
    model: str
    query: str
    protocol: Protocol
    method: Method
    references: tuple[str, ...]
    """Reference traversals."""
    store: dict[str, Any]
    """What `Result.store` records; its "content" is part of the identity."""
    projection: int | None
    """Dimension of a random projection."""
    seed: int
    """Of that projection."""
    k: int
    """Places kept of the ranking."""
    order: tuple[int, int, int]
    """Position of model, query and method in the suite."""

    @property
    def id(self) -> str:
        """Hash of everything that determines the ranking, and of the row's label; versions are not part of it."""
        what = [
            self.dataset,
            self.protocol.name,
            str(self.protocol.tolerance),
            self.model,
            self.method.fusion,
            self.method.parameters,
            self.method.label,
            self.query,
            sorted(self.references),
            self.projection,
            self.seed,
            self.k,
            self.store["content"],
            *([self.method.sequence, self.method.length, self.method.adapt] if self.method.along else []),
            *([self.method.source] if self.method.source else []),
        ]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]

    def blank(self, dim: int) -> Result:
        """Return the record of the cell before anything is computed."""
        return Result(
            cell=self.id,
            dataset=self.dataset,
            protocol=self.protocol.name,
            tolerance=str(self.protocol.tolerance),
            model=self.model,
            fusion=self.method.fusion,
            parameters=self.method.parameters,
            label=self.method.label,
            sequence=self.method.sequence if self.method.along else "",
            adapt=self.method.adapt if self.method.along else "",
            group=self.method.group,
            query=self.query,
            references=list(self.references),
            dim=dim,
            projection=self.projection,
            seed=self.seed,
            order=list(self.order),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=versions(),
            store=self.store,
        )


def compute(
    cell: Cell, split: Split, references: Vectors, queries: Vectors, questions: str
) -> tuple[Result, Ranking | None]:
    """Fit and rank; where the method cannot be fitted, the result says why and the ranking is None.

    `questions` is the name of the file of what is asked.
    """
    result = replace(
        cell.blank(references.shape[1]),
        questions=questions,
        n_places=len(split.questions.place_ids),
        n_references=len(references),
        n_queries=len(queries),
        n_unanswerable=int((~split.questions.answerable).sum()),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DisplaceWarning)
        warnings.simplefilter("ignore", FallbackWarning)  # the explanation says so
        try:
            start = time.perf_counter()
            fusion = cell.method.make().fit_references(
                ReferenceSet(references, split.places, split.traversals, groups=split.groups)
            )
            fitted = time.perf_counter()
            found, scores = _ranked(cell, split, fusion, queries)
            ranked = time.perf_counter()
            n_bytes, explained = int(fusion.nbytes_), _explained(fusion)
        except Exception as error:  # one method's fault must not end a long run
            unexpected = not isinstance(error, DisplaceError)
            return replace(result, error=why_not(error), retry=unexpected), None
    places = found.astype(np.int32)
    ranking = Ranking(places, scores.astype(np.float32), split.questions.correct(places))
    n: Any = getattr(fusion, "_n_features_out", references.shape[1])  # of what `transform` returns
    notes = [str(w.message) for w in caught if issubclass(w.category, DisplaceWarning)]
    return replace(
        result,
        recalls={k: percent(ranking.hits(k)) for k in sorted({*DEFAULT_KS, cell.k}) if k <= cell.k},
        seconds={"fit": fitted - start, "rank": ranked - fitted},
        n_bytes=n_bytes,
        n=int(n),
        explanation=". ".join([*explained, *notes]),
    ), ranking


def _ranked(cell: Cell, split: Split, fusion: Fusion, queries: Vectors) -> tuple[Indices, Vectors]:
    """Places and scores of all queries, in the order of the questions."""
    method = cell.method
    if not method.along:
        matches = fusion.rank(queries, cell.k)
        return matches.places, matches.scores
    # Batch adaptation alone needs no order of the places.
    alone = method.sequence == ALONE
    order, taken = np.arange(len(split.questions.place_ids)) if alone else split.route(), split.in_time()
    found, values = ranked_along(method, fusion, queries[taken], order, cell.k)
    places, scores = np.empty_like(found), np.empty_like(values)
    places[taken], scores[taken] = found, values
    return places, scores


def fused_scores(fusion: Fusion, queries: Vectors, order: Indices) -> Blocks:
    """Scores of a fitted fusion for queries in the order in which they were taken, its places in route order.

    A place that a query excludes (−∞: none of the traversals that BSF keeps shows it) gets the least of its other
    scores: a drive may pass it, and means over places need numbers.
    """

    def block(rows: slice) -> Vectors:
        matches = fusion.rank(queries[rows], len(order))
        scores = np.empty(matches.scores.shape, np.float32)
        columns = np.searchsorted(fusion.place_ids_, matches.places)
        np.put_along_axis(scores, columns, matches.scores.astype(np.float32), axis=1)
        excluded = np.isneginf(scores)
        if excluded.any():
            least = np.min(scores, axis=1, keepdims=True, initial=np.inf, where=~excluded)
            scores = np.where(excluded, least, scores)
        return scores[:, order]

    return Blocks((len(queries), len(order)), block)


def ranked_along(
    method: Method, fusion: Fusion, queries: Vectors, order: Indices, k: int
) -> tuple[Indices, Vectors]:
    """Best places of each frame and their scores, both (q, k), by a fitted fusion and the sequence method of `method`.

    Queries (q, D) are in the order in which they were taken, the places `order` in that of the route. A fusion may lack
    some of these, as `single` does those that its traversal never showed.
    """
    order = order[np.isin(order, fusion.place_ids_)]
    columns = np.searchsorted(fusion.place_ids_, order)
    similarity = fused_scores(fusion, queries, columns)
    if method.adapt == "batch":
        rows = fusion.rows()
        if rows is None:
            raise InputError("adapt='batch' needs a fusion that makes rows for a map")
        if len(queries) < LEAST_QUERIES:
            raise InputError(f"adapt='batch' needs at least {LEAST_QUERIES} queries; got {len(queries)}")
        along = rows_in_order(np.asarray(rows.vectors, np.float32), rows.starts, columns)
        similarity = similarity_of(along, rows.project(queries), "batch")
    best, scores = SEQUENCES.get(method.sequence)(method.length).rank(similarity, k)
    best, scores = np.asarray(best), np.asarray(scores)
    _check_ranking(method.sequence, best, scores, (len(queries), min(k, len(order))), len(order))
    return order[best], scores


def _check_ranking(
    sequence: str, best: Indices, scores: Vectors, shape: tuple[int, int], n_places: int
) -> None:
    """Refuse output of a plug-in that is not a valid ranking, from which any recall could be computed."""
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


def versions() -> dict[str, str]:
    """Versions of what computes, the machine, and the threads of its linear algebra."""
    return {
        "displace": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.platform()}, {os.cpu_count()} cores",
        "threads": str(n_threads()),
    }


def _explained(fusion: Fusion) -> list[str]:
    """What the fusion decided; nothing where there was nothing to decide."""
    said = fusion.explain()
    return [] if said == AS_GIVEN else [said]
