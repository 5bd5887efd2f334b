"""What speaks for a query's best match: four or five numbers that are learned from and never extrapolated.

*Similarity* is the cosine with the best row. *Standing* is how far it is above the scores of the other places, in the
units of the highest of so many chance scores (Gumbel), so that 30 places and 3000 mean the same. *Lead* is the distance
to the best other place, in standard deviations. *Distance* is that between the query and the mean of the references
that the row was made of, in the descriptors' own space: what is new about a picture lies outside the references' span,
where a projection does not look, and foreign pictures are far away there, whatever they look like through it.
*Registration*, of descriptors that are a grid over the picture, is how much more the cells of the query resemble those
of the place at the same spot than those next to it (`CellLayout.registration`).

*Centred*, similarity and standing are measured from the mean of the references; those of a map of one traversal are.
What all pictures have in common is most of a plain cosine and says nothing about a place, but changes with the light.
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

Take = Callable[[Indices], Vectors]
"""Returns the rows of a map at some indices as numbers, (r, n)."""
TOP = 20
"""Places whose scores the evidence is computed from."""
COHORT = 256
"""Rows, spread over the map, that say what scores are like by chance."""
NAMES = ("similarity", "standing", "lead", "distance", "registration")
"""Of the evidence; the last where descriptors are a grid over the picture."""
STANDING = (-3.0, 12.0)
LEAD = (0.0, 4.0)
TINY = 1e-6


@dataclass(frozen=True, eq=False)
class Anchors:
    """Where the references of each row lie in the descriptors' own space."""

    mean: Vectors
    """Shape (D,). Mean of the places."""
    lengths: Vectors
    """Shape (R,). Inner product of each row with the projected mean of its references."""
    squares: Vectors
    """Shape (R,). Squared distance of that mean from `mean`."""
    counts: Vectors
    """Shape (R,). References of each row."""

    @classmethod
    def of(
        cls,
        take: Take,
        projection: Vectors | None,
        mean: Vectors | None,
        means: Vectors,
        counts: NDArray[Any],
    ) -> Anchors:
        """Take the references of each row by their mean (R, D) and their number (R,); block by block."""
        n, dim = means.shape
        parts = list(blocks(n, row_bytes=8 * dim))
        center = sum(np.asarray(means[part], np.float64).sum(axis=0) for part in parts) / n
        lengths, squares = np.empty(n), np.empty(n)
        for part in parts:
            own = np.asarray(means[part], np.float64)
            shifted = own if mean is None else own - mean
            projected = shifted if projection is None else shifted @ projection
            lengths[part] = np.einsum("ij,ij->i", projected, take(np.arange(part.start, part.stop)))
            squares[part] = np.einsum("ij,ij->i", own - center, own - center)
        numbers = (center, lengths, squares, np.asarray(counts))
        return cls(*(values.astype(np.float32) for values in numbers))

    @classmethod
    def of_references(
        cls,
        take: Take,
        row_places: Indices,
        projection: Vectors | None,
        mean: Vectors | None,
        refs: ReferenceSet,
        ids: NDArray[Any],
    ) -> Anchors:
        """Take references of the places `ids` as they are, each with the row of its place that is most like it."""
        known = refs.select(np.isin(refs.places, ids))
        vectors, places = known.vectors, np.searchsorted(ids, known.places)
        shifted = vectors if mean is None else vectors - mean
        projected = shifted if projection is None else shifted @ projection
        at = best_rows(projected, take, row_places, places)
        counts = np.bincount(at, minlength=len(row_places))
        sums = np.zeros((len(row_places), vectors.shape[1]))
        np.add.at(sums, at, vectors)
        empty = counts == 0  # such a row stands where its place does
        if empty.any():
            place_sums = np.zeros((int(row_places.max()) + 1, vectors.shape[1]))
            np.add.at(place_sums, places, vectors)
            sums[empty] = place_sums[row_places[empty]]
            counts[empty] = np.bincount(places, minlength=len(place_sums))[row_places[empty]]
        return cls.of(take, projection, mean, sums / counts[:, None], counts)


class Witness:
    """Gives evidence about the matches of one map, whose rows `take` returns at some indices.

    `row_places` is the index of each row's place in `ids`, sorted; `projection` and `mean` are as for `Rows`, `cells`
    of descriptors that are a grid over the picture.
    """

    def __init__(
        self,
        take: Take,
        row_places: Indices,
        projection: Vectors | None,
        mean: Vectors | None,
        anchors: Anchors,
        truth: Truth,
        ids: NDArray[Any],
        cells: CellLayout | None = None,
    ) -> None:
        self.cells = cells
        self.take, self.row_places, self.anchors = take, row_places, anchors
        self.projection, self.mean, self.truth, self.ids = projection, mean, truth, ids

    @classmethod
    def of(
        cls, rows: Rows, anchors: Anchors, truth: Truth, ids: NDArray[Any], cells: CellLayout | None = None
    ) -> Witness:
        """Make the witness of rows in memory."""
        own = rows.place_index, rows.projection, rows.mean
        return cls(lambda at: rows.vectors[at], *own, anchors, truth, ids, cells)

    def evidence(self, queries: Vectors, best: Indices, scores: Vectors, centred: bool = False) -> Vectors:
        """Return the numbers (q, 4 or 5) for queries (q, D), their best places (q, k) and those places' scores.

        Places are indices, best first; up to 20 are used. `centred`, similarity and standing are measured from the mean
        of the references.
        """
        found = np.empty((len(queries), len(NAMES) - (self.cells is None)))
        for part in blocks(len(queries), row_bytes=8 * (8 * queries.shape[1] + 8 * COHORT)):
            # A query, or a map, of absurd numbers gives absurd evidence, which is clipped or counts as none.
            with np.errstate(over="ignore", invalid="ignore"):
                found[part] = self._evidence(queries[part], best[part, :TOP], scores[part, :TOP], centred)
        largest = float(np.finfo(np.float32).max)
        return np.clip(np.where(np.isnan(found), 0.0, found), -largest, largest)

    def _evidence(self, queries: Vectors, best: Indices, scores: Vectors, centred: bool) -> Vectors:
        scores, place = scores.astype(np.float64), best[:, 0]
        top = scores[:, 0]
        away = queries.astype(np.float64) - self.anchors.mean
        projected = away if self.projection is None else away @ self.projection
        unit = l2_normalize(projected + self._offset)
        target = self._targets(row := best_rows(unit, self.take, self.row_places, place))
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
        """Projected vectors in the descriptors' own space, as far as the projection's span goes."""
        if self.projection is None or self._unscaling is None:
            return targets.astype(np.float32)
        inside = targets @ self._unscaling @ self._unscaling.T
        own: Vectors = inside.astype(np.float32) @ self.projection.T
        return own

    def _targets(self, rows: Indices) -> Vectors:
        """The mean of each row's references from that of all, projected."""
        lengths = self.anchors.lengths[rows, None]
        targets: Vectors = lengths * self.take(rows).astype(np.float64) - self._offset
        return targets

    def _distance(self, centred: Vectors, projected: Vectors, target: Vectors, row: Indices) -> Vectors:
        """Squared distance of each query from the best row's references, in the descriptors' own space.

        It is divided by what one reference and a mean of K of them expect of it, 1 + 1/K: a map of more traversals is
        then judged by what one of fewer has shown.
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
        """Mean and standard deviation of the cohort's scores (q, c) without those of the best place, for each query."""
        rows = self._cohort[0]
        other = ~self.truth.correct(self.ids[self.row_places[rows]][None, :], self.ids[place][:, None])
        n = other.sum(axis=1)
        mean = np.where(other, scores, 0).sum(axis=1) / np.maximum(n, 1)
        squares = np.where(other, (scores - mean[:, None]) ** 2, 0).sum(axis=1)
        deviation = np.sqrt(squares / np.maximum(n - 1, 1))
        enough = n > 2  # fewer say nothing about chance
        return np.where(enough, mean, 0.0), np.where(enough, np.maximum(deviation, TINY), 1.0)

    @cached_property
    def _cohort(self) -> tuple[Indices, Vectors]:
        rows = spread(len(self.row_places), COHORT)
        return rows, self.take(rows).astype(np.float64)

    def _centred(self, scores: Vectors, projected: Vectors) -> Vectors:
        """The cohort's scores measured from the mean of the references; from those that are not, which saves a product.

        A row r stands for the mean λr − o of its references, and a query p was scored as (p + o)·r / |p + o|.
        """
        offset, (of_rows, lengths) = self._offset, self._cohort_from_the_mean
        square, along = np.einsum("ij,ij->i", projected, projected), projected @ offset
        inner = scores * np.sqrt(np.maximum(square + 2 * along + offset @ offset, 0))[:, None] - of_rows
        inner = self.anchors.lengths[self._cohort[0]] * inner - along[:, None]
        result: Vectors = inner / np.maximum(np.sqrt(square)[:, None] * lengths, TINY**2)
        return result

    @cached_property
    def _cohort_from_the_mean(self) -> tuple[Vectors, Vectors]:
        """Inner product of each row of the cohort with the offset, and how far its references are from the mean."""
        rows, vectors = self._cohort
        return vectors @ self._offset, np.linalg.norm(self._targets(rows), axis=1)

    @cached_property
    def _offset(self) -> Vectors:
        """What the projection of the map's mean differs by from that of the anchors'."""
        shift = self.anchors.mean.astype(np.float64) - (0.0 if self.mean is None else self.mean)
        offset: Vectors = shift if self.projection is None else shift @ self.projection
        return offset

    @cached_property
    def _unscaling(self) -> Vectors | None:
        """L⁻ᵀ of PᵀP = L·Lᵀ, which brings projected vectors back to the descriptors' own lengths."""
        if self.projection is None:
            return None
        gram = (self.projection.T @ self.projection).astype(np.float64)
        gram[np.diag_indices_from(gram)] += TINY * np.trace(gram) / len(gram)
        unscaling: Vectors = np.linalg.inv(np.linalg.cholesky(gram)).T
        return unscaling


def _cosines(a: Vectors, b: Vectors) -> Vectors:
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    result: Vectors = np.einsum("ij,ij->i", a, b) / np.maximum(lengths, TINY**2)
    return result


def best_rows(projected: Vectors, take: Take, row_places: Indices, places: Indices) -> Indices:
    """The row of its place that each projected vector is most like."""
    first = np.searchsorted(row_places, places)
    stops = np.searchsorted(row_places, places, side="right")
    for at in np.flatnonzero(stops - first > 1):
        own = np.arange(first[at], stops[at])
        first[at] = own[np.argmax(take(own) @ projected[at])]
    return first


def standing(deviations: Vectors, n_places: int) -> Vectors:
    """How far a best score stands above the highest of `n_places` chance scores: Gumbel's reduced variate.

    >>> standing(np.array([2.0, 2.0, 5.0]), 30).round(1).tolist(), standing(np.array([5.0]), 3000).round(1).tolist()
    ([0.3, 0.3, 8.1], [6.3])
    """
    n = max(n_places, 3)
    slope = np.sqrt(2 * np.log(n))
    highest = slope - (np.log(np.log(n)) + np.log(4 * np.pi)) / (2 * slope)
    result: Vectors = (deviations - highest) * slope
    return result
