"""Features of a query's best match, from which its confidence is computed: (q, 4), or (q, 5) with registration.

- Similarity: cosine with the best row of the best place.
- Standing: that score against the scores of a cohort of other places, in deviations, as Gumbel's reduced variate of the
  maximum of N such scores, so that it means the same with 30 places and with 3000.
- Lead: score less that of the rival, the best place that does not count as the same, in the cohort's deviations.
- Distance: squared distance, in the descriptors' own space, from the mean of the references that the row was made of.
  What is new about a picture lies outside the span of the references, which a projection does not see.
- Registration, for descriptors that are a grid over the picture: how much more its cells resemble the place's cells at
  the same spot than those beside it (`CellLayout.registration`).

Centred (maps of one traversal), similarity and standing are computed about the mean of the references: what all
pictures have in common makes most of a plain cosine, says nothing about the place, and changes with the light.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, blocks, l2_normalize
from displace.cell_layout import CellLayout
from displace.holdout import spread
from displace.truth import Truth

if TYPE_CHECKING:
    from displace.fusion.base import Rows
    from displace.references import ReferenceSet

TOP = 20
"""Best places that are searched for the rival."""
COHORT = 256
"""Rows, spread over the map, whose scores give mean and deviation of wrong matches."""
NAMES = ("similarity", "standing", "lead", "distance", "registration")
"""The features in their order; the last only where descriptors are a grid over the picture."""
STANDING = (-3.0, 12.0)
LEAD = (0.0, 4.0)
"""Bounds to which standing and lead are clipped: beyond them more says no more."""
TINY = 1e-6
"""Least deviation; and the ridge, relative to the mean variance, where a projection is inverted."""


@dataclass(frozen=True, eq=False)
class RowSpace:
    """The rows of a map, wherever they are stored, and the projection of descriptors into their space."""

    take: Callable[[Indices], Vectors]
    """Returns the rows at some indices as floats, (r, n)."""
    row_places: Indices
    """Shape (R,). Index of each row's place, in ascending order."""
    projection: Vectors | None = None
    mean: Vectors | None = None
    """As for `Rows`."""

    @classmethod
    def of(cls, rows: Rows) -> RowSpace:
        """The space of rows in memory."""
        return cls(lambda at: rows.vectors[at], rows.place_index, rows.projection, rows.mean)

    def project(self, vectors: Vectors) -> Vectors:
        """Subtract the mean and project, without normalising."""
        return self.project_centred(vectors if self.mean is None else vectors - self.mean)

    def project_centred(self, centred: Vectors) -> Vectors:
        """Project vectors from which a mean was subtracted."""
        return centred if self.projection is None else centred @ self.projection

    def best_rows(self, projected: Vectors, places: Indices) -> Indices:
        """Index of the row of its place that each projected vector is most similar to."""
        first = np.searchsorted(self.row_places, places)
        stops = np.searchsorted(self.row_places, places, side="right")
        for at in np.flatnonzero(stops - first > 1):
            own = np.arange(first[at], stops[at])
            first[at] = own[np.argmax(self.take(own) @ projected[at])]
        return first


@dataclass(frozen=True, eq=False)
class Anchors:
    """Position of each row's references in the descriptors' own space: three numbers a row, instead of D."""

    mean: Vectors
    """Shape (D,). Mean over the rows of the means of their references."""
    lengths: Vectors
    """Shape (R,). Inner product λ of each row r with the projected mean of its references, which is about λr."""
    squares: Vectors
    """Shape (R,). Squared distance of that mean from `mean`."""
    counts: Vectors
    """Shape (R,). Number of references of each row."""

    @classmethod
    def of(cls, space: RowSpace, means: Vectors, counts: NDArray[Any]) -> Anchors:
        """Compute them from the mean (R, D) and number (R,) of each row's references, block by block."""
        n, dim = means.shape
        parts = list(blocks(n, row_bytes=8 * 4 * dim))
        center = sum(np.asarray(means[part], np.float64).sum(axis=0) for part in parts) / n
        lengths, squares = np.empty(n), np.empty(n)
        for part in parts:
            own = np.asarray(means[part], np.float64)
            rows = space.take(np.arange(part.start, part.stop))
            lengths[part] = np.einsum("ij,ij->i", space.project(own), rows)
            away = own - center
            squares[part] = np.einsum("ij,ij->i", away, away)
        numbers = (center, lengths, squares, np.asarray(counts))
        return cls(*(values.astype(np.float32) for values in numbers))

    @classmethod
    def of_references(cls, space: RowSpace, refs: ReferenceSet, ids: NDArray[Any]) -> Anchors:
        """Compute them from references; each counts for the row of its place that is most similar."""
        known = refs.select(np.isin(refs.places, ids))
        vectors, places, row_places = known.vectors, np.searchsorted(ids, known.places), space.row_places
        at = space.best_rows(space.project(vectors), places)
        counts = np.bincount(at, minlength=len(row_places))
        sums = np.zeros((len(row_places), vectors.shape[1]))
        np.add.at(sums, at, vectors)
        empty = counts == 0  # a row without references gets those of its place
        if empty.any():
            place_sums = np.zeros((int(row_places.max()) + 1, vectors.shape[1]))
            np.add.at(place_sums, places, vectors)
            sums[empty] = place_sums[row_places[empty]]
            counts[empty] = np.bincount(places, minlength=len(place_sums))[row_places[empty]]
        sums /= counts[:, None]
        return cls.of(space, sums, counts)


@dataclass(frozen=True, eq=False)
class Witness:
    """Computes the features of matches in one map."""

    space: RowSpace
    anchors: Anchors
    truth: Truth
    ids: NDArray[Any]
    """Place ids, which the places of rows and matches are indices of."""
    cells: CellLayout | None = None
    """For descriptors that are a grid over the picture."""

    def evidence(self, queries: Vectors, best: Indices, scores: Vectors, centred: bool = False) -> Vectors:
        """Return the features (q, 4 or 5) of queries (q, D), given their best places (q, k) and these places' scores.

        Places are indices, best first; up to `TOP` are used. `centred`: see the module.
        """
        found = np.empty((len(queries), len(NAMES) - (self.cells is None)))
        for part in blocks(len(queries), row_bytes=8 * (8 * queries.shape[1] + 8 * COHORT)):
            # Overflow from absurd input is clipped, or becomes 0, below.
            with np.errstate(over="ignore", invalid="ignore"):
                found[part] = self._evidence(queries[part], best[part, :TOP], scores[part, :TOP], centred)
        largest = float(np.finfo(np.float32).max)
        return np.clip(np.where(np.isnan(found), 0.0, found), -largest, largest)

    def _evidence(self, queries: Vectors, best: Indices, scores: Vectors, centred: bool) -> Vectors:
        scores, place = scores.astype(np.float64), best[:, 0]
        top = scores[:, 0]
        away = queries.astype(np.float64) - self.anchors.mean
        projected = self.space.project_centred(away)
        unit = l2_normalize(projected + self._offset)
        target = self._targets(row := self.space.best_rows(unit, place))
        by_chance = unit @ self._cohort[1].T
        chance, deviation = self._chance(by_chance, place)
        similarity, stands = top, (top - chance) / deviation
        if centred:
            similarity = _cosines(projected, target)
            usual, its_deviation = self._chance(self._centred(by_chance, projected), place)
            stands = (similarity - usual) / its_deviation
        ids = self.ids[best]
        others = np.where(self.truth.correct(ids, ids[:, :1]), -np.inf, scores).max(axis=1)
        rival = np.where(np.isfinite(others), others, scores[:, -1])
        numbers = [
            similarity,
            np.clip(standing(stands, len(self.ids)), *STANDING),
            np.clip((top - rival) / deviation, *LEAD),
            self._distance(away, projected, target, row),
        ]
        if self.cells is not None:
            numbers.append(self.cells.registration(away.astype(np.float32), self._in_own_space(target)))
        return np.stack(numbers, axis=1)

    def _in_own_space(self, targets: Vectors) -> Vectors:
        """Projected vectors back in the descriptors' own space, within the span of the projection."""
        if self.space.projection is None or self._unscaling is None:
            return targets.astype(np.float32)
        inside = targets @ self._unscaling @ self._unscaling.T
        return inside.astype(np.float32) @ self.space.projection.T

    def _targets(self, rows: Indices) -> Vectors:
        """Projected mean of each row's references, relative to that of all."""
        lengths = self.anchors.lengths[rows, None]
        return lengths * self.space.take(rows).astype(np.float64) - self._offset

    def _distance(self, centred: Vectors, projected: Vectors, target: Vectors, row: Indices) -> Vectors:
        """Squared distance of each query from the best row's references, in the descriptors' own space.

        Divided by 1 + 1/K, the expected squared distance of a sample from the mean of K others in units of the
        variance: so a fit on fewer traversals (the folds) holds for the map of all.
        """
        anchors = self.anchors
        if self._unscaling is not None:
            projected, target = projected @ self._unscaling, target @ self._unscaling
        away = np.einsum("ij,ij->i", centred, centred) + anchors.squares[row]
        distance: Vectors = (away - 2 * np.einsum("ij,ij->i", projected, target)) / (
            1 + 1 / anchors.counts[row]
        )
        return distance

    def _chance(self, scores: Vectors, place: Indices) -> tuple[Vectors, Vectors]:
        """Mean and standard deviation, for each query, of the cohort's scores (q, c) without its best place."""
        rows = self._cohort[0]
        other = ~self.truth.correct(self.ids[self.space.row_places[rows]][None, :], self.ids[place][:, None])
        n = other.sum(axis=1)
        mean = np.where(other, scores, 0).sum(axis=1) / np.maximum(n, 1)
        squares = np.where(other, (scores - mean[:, None]) ** 2, 0).sum(axis=1)
        deviation = np.sqrt(squares / np.maximum(n - 1, 1))
        enough = n > 2  # with fewer: mean 0, deviation 1
        return np.where(enough, mean, 0.0), np.where(enough, np.maximum(deviation, TINY), 1.0)

    @cached_property
    def _cohort(self) -> tuple[Indices, Vectors]:
        rows = spread(len(self.space.row_places), COHORT)
        return rows, self.space.take(rows).astype(np.float64)

    def _centred(self, scores: Vectors, projected: Vectors) -> Vectors:
        """The cohort's scores about the mean of the references, derived from plain ones to save a matrix product.

        The references of row r have the mean λr − o (o = `_offset`), and query p was scored as (p + o)·r / |p + o|.
        """
        offset, (of_rows, lengths) = self._offset, self._cohort_from_the_mean
        square, along = np.einsum("ij,ij->i", projected, projected), projected @ offset
        inner = scores * np.sqrt(np.maximum(square + 2 * along + offset @ offset, 0))[:, None] - of_rows
        inner = self.anchors.lengths[self._cohort[0]] * inner - along[:, None]
        result: Vectors = inner / np.maximum(np.sqrt(square)[:, None] * lengths, TINY**2)
        return result

    @cached_property
    def _cohort_from_the_mean(self) -> tuple[Vectors, Vectors]:
        """Inner product of each row of the cohort with the offset, and the length of its target (`_targets`)."""
        rows, vectors = self._cohort
        return vectors @ self._offset, np.linalg.norm(self._targets(rows), axis=1)

    @cached_property
    def _offset(self) -> Vectors:
        """Projected difference o of the anchors' mean and the mean that the map subtracts from queries."""
        return self.space.project(self.anchors.mean.astype(np.float64))

    @cached_property
    def _unscaling(self) -> Vectors | None:
        """L⁻ᵀ of PᵀP = L·Lᵀ: multiplied with it, projected vectors have their lengths in the descriptors' own space."""
        if (P := self.space.projection) is None:
            return None
        gram = (P.T @ P).astype(np.float64)
        gram[np.diag_indices_from(gram)] += TINY * np.trace(gram) / len(gram)
        return np.linalg.inv(np.linalg.cholesky(gram)).T


def _cosines(a: Vectors, b: Vectors) -> Vectors:
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    result: Vectors = np.einsum("ij,ij->i", a, b) / np.maximum(lengths, TINY**2)
    return result


def standing(deviations: Vectors, n_places: int) -> Vectors:
    """Gumbel's reduced variate of a best score, in deviations, as the maximum of `n_places` normal scores.

    >>> standing(np.array([2.0, 2.0, 5.0]), 30).round(1).tolist(), standing(np.array([5.0]), 3000).round(1).tolist()
    ([0.3, 0.3, 8.1], [6.3])
    """
    n = max(n_places, 3)
    slope = np.sqrt(2 * np.log(n))
    highest = slope - (np.log(np.log(n)) + np.log(4 * np.pi)) / (2 * slope)
    result: Vectors = (deviations - highest) * slope
    return result
