"""Contest: a projection against other settings, HOPS and pooling, on held-out traversals.

Each fold takes one traversal out of the statistics and asks its references. All contestants answer the same queries
against the same places, so that their hits can be compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError

from displace.arrays import Indices, Vectors, l2_normalize
from displace.fusion.solver.eigen import solve
from displace.fusion.solver.scatter import Scatter
from displace.fusion.solver.views import merged
from displace.holdout import Fold, spread
from displace.references import sum_by

MAX_PLACES = 500
"""Places that queries are compared with, beside their own; of more, these many spread evenly."""

Hits = NDArray[np.bool_]
Projected = tuple[Vectors, Vectors, Vectors]


@dataclass(frozen=True)
class Problem:
    """What DisPlace's settings are decided for: references, their statistics and where the projection is cut off."""

    vectors: Vectors
    """Shape (m, d). References, or their coordinates in their own span (then d < D)."""
    index: Indices
    """Shape (m,). View of each reference; with one view a place, its place."""
    traversals: NDArray[Any]
    """Shape (m,)."""
    scatter: Scatter
    """Statistics of `vectors` with `index` as place ids."""
    places: Indices
    """Shape (G,). Place of each view."""
    dim: int
    """D, the dimension of the descriptors."""
    tau: float
    n_components: int | None

    @property
    def sampling_ratio(self) -> float:
        """γ = D / Σ(K − 1), the sum over the views of all places."""
        return self.dim / self.scatter.freedom if self.scatter.freedom else float("inf")

    @property
    def several_views(self) -> bool:
        """Whether some place has more than one view."""
        return bool((self.places[1:] == self.places[:-1]).any())


@dataclass(frozen=True)
class Contestant:
    """A way to fuse."""

    ridge: float = 0.0
    """ε."""
    center: bool = False
    rows: int | None = None
    """Most rows a place; None for every view."""
    between_places: bool = False
    """S_B between the means of places instead of those of views."""
    projects: bool = True
    """Whether there is a projection at all: without one and with one row it is HOPS, with all references pooling."""


HOPS = Contestant(rows=1, projects=False)
POOLING = Contestant(projects=False)


class Round:
    """One fold: statistics without a traversal, its queries, and which contestants answer them correctly."""

    def __init__(self, problem: Problem, fold: Fold) -> None:
        self.problem, self.fold = problem, fold
        out = ~fold.references
        self.scatter = problem.scatter.copy().remove(problem.vectors[out], problem.index[out])
        self.places = problem.places[self.scatter.place_ids]
        self.truth, self.queries = (
            problem.places[problem.index[fold.queries]],
            problem.vectors[fold.queries],
        )
        there = np.unique(self.places)
        self.kept = np.union1d(there[spread(len(there), MAX_PLACES)], self.truth)

    def hits(self, contestants: Sequence[Contestant]) -> Iterator[tuple[Contestant, Hits]]:
        """Yield each contestant that has a solution, and for which queries its best place is right.

        Contestants that differ only in centring and rows should be adjacent, because they share a projection.
        """
        solved: tuple[object, Projected | None] = (None, None)
        for one in contestants:
            if one == HOPS:
                yield one, self._plain_hits(*self._hops())
                continue
            if one == POOLING:
                yield one, self._plain_hits(*self._pooled())
                continue
            key = (one.ridge, one.between_places)
            if solved[0] != key:
                solved = (key, self._projected(one))
            if solved[1] is not None:
                yield one, self._projected_hits(one, solved[1])

    def _projected(self, one: Contestant) -> Projected | None:
        """Views, queries and mean in the space of a projection; None without a solution."""
        scatter = place_means(self.scatter, self.places) if one.between_places else self.scatter
        unit = self.scatter.within_trace() / self.problem.dim
        try:
            P = solve(scatter, one.ridge * unit, self.problem.tau, self.problem.n_components).projection
        except LinAlgError:
            return None
        views = self.scatter.means[np.isin(self.places, self.kept)]
        return views @ P, self.queries @ P, scatter.mean.astype(P.dtype) @ P

    def _projected_hits(self, one: Contestant, projected: Projected) -> Hits:
        views, queries, mean = projected
        rows, queries = (l2_normalize(v - mean if one.center else v) for v in (views, queries))
        places = self.places[np.isin(self.places, self.kept)]
        if one.rows is not None:
            rows, places = merged(rows, places, one.rows)
        return self._right(queries, rows, places)

    def _hops(self) -> tuple[Vectors, Indices]:
        mine = np.isin(self.places, self.kept)
        sums = self.scatter.means[mine] * self.scatter.counts[mine, None].astype(self.scatter.means.dtype)
        return sum_by(sums, np.searchsorted(self.kept, self.places[mine]), len(self.kept)), self.kept

    def _pooled(self) -> tuple[Vectors, Indices]:
        places = self.problem.places[self.problem.index]
        rows = np.flatnonzero(self.fold.references & np.isin(places, self.kept))
        return self.problem.vectors[rows], places[rows]

    def _plain_hits(self, rows: Vectors, places: Indices) -> Hits:
        return self._right(l2_normalize(self.queries), l2_normalize(rows), places)

    def _right(self, queries: Vectors, rows: Vectors, places: Indices) -> Hits:
        right: Hits = places[(queries @ rows.T).argmax(axis=1)] == self.truth
        return right


def place_means(scatter: Scatter, places: Indices) -> Scatter:
    """Return statistics of views with the means of their `places` (G,) for S_B; W and the number of references stay."""
    ids, index = np.unique(places, return_inverse=True)
    dtype = scatter.means.dtype
    means = sum_by(scatter.means, index, len(ids)) / np.bincount(index).astype(dtype)[:, None]
    counts: Indices = np.bincount(index, weights=scatter.counts).astype(np.intp)
    return Scatter(ids, counts, means, scatter.within)
