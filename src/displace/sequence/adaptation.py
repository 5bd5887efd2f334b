"""Unsupervised adaptation of the matching to the condition of a drive (night, snow), in a batch or online.

The mean of the queries is subtracted from them, and the mean of the references from these, in the space of the map's
rows: so what a condition adds to all of them cancels. Then hubs, places that resemble every query, are penalised by
CSLS (Conneau et al. 2018): score(q, x) = 2·cos(q, x) − r(x), r the mean of the ten best cosines of place x.

Queries of a part of the route have the look of that part in their mean, too. So the references' mean is taken over the
same part, as a first matching finds it, and the CSLS term is weighted by the share of the route that is covered.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property, partial
from math import sqrt

import numpy as np

from displace.arrays import Indices, Vectors, blocks, l2_normalize
from displace.holdout import spread
from displace.sequence.engine import Floats
from displace.sequence.stops import moving, without_stops
from displace.sequence.stride import way_along

NEIGHBOURS = 10
"""Queries in the CSLS term of a place: its best ten, as in the paper; and fewest queries that adapt anything."""
LEAST_QUERIES = 100
"""Queries below which their mean is still that of their places rather than of their condition."""
_EVERY = 4
"""Online, every so many frames enter the best ten of each place: consecutive frames are alike."""
PARTS = 20
"""Equal parts of the route by which coverage is counted."""
_MATCHED = (0.1, 0.9)
"""Quantiles of the matched places whose distance is the stretch that queries cover: the rest may be wrong matches."""
_FIRST_LOOK, _LOOKED_AT = 50, 400
"""Frames after which a drive that matches one part of the route is first tested for advancing; most that are tested."""
_SLOWEST = 4.0
"""Frames per matched place from which on a drive may be stuck at a place that merely looks like its condition."""
_TOGETHER = 4
"""Consecutive frames whose scores are added to see whether they advance."""
_FRAMES_PER_SAMPLE = 3
"""Consecutive frames that count as one independent sample of the drive's mean."""


@dataclass(frozen=True, eq=False)
class MapRows:
    """Rows of a map and the place of each, in route order where there is one."""

    vectors: Vectors
    """Shape (R, n). Unit rows; those of one place side by side."""
    starts: Indices
    """Shape (N,). First row of each place."""

    @cached_property
    def columns(self) -> Vectors:
        """The rows transposed: faster for one query."""
        return np.ascontiguousarray(self.vectors.T)

    def similarity(self, query: Vectors) -> Vectors:
        """Score of each place (N,) for one unit query (n,)."""
        scores: Vectors = self.best((query.astype(np.float32, copy=False) @ self.columns)[None])[0]
        return scores

    def centred(self, mean: Vectors | None = None) -> Vectors:
        """Rows less a mean (by default their own), as unit vectors, (R, n)."""
        mean = self.vectors.mean(axis=0) if mean is None else mean
        return l2_normalize(self.vectors - mean).astype(np.float32, copy=False)

    def best(self, scores: Vectors) -> Vectors:
        """Scores of places (b, N), the best of their rows', from scores of rows (b, R)."""
        if len(self.starts) == scores.shape[1]:
            return scores
        best: Vectors = np.maximum.reduceat(scores, self.starts, axis=1)
        return best


@dataclass(frozen=True, eq=False)
class Adaptation:
    """Matching adapted to a batch of queries."""

    rows: MapRows
    centred: Vectors
    """Shape (R, n). Rows less the mean of the covered part, as unit vectors."""
    mean: Vectors
    """Shape (n,). Mean of the queries."""
    penalty: Floats
    """Shape (N,). CSLS term r: mean of the ten best cosines of each place."""
    coverage: float
    """Effective share of the route that the queries cover, 0 to 1."""

    def scores(self, queries: Vectors) -> Vectors:
        """Scores (b, N) of projected queries, comparable with cosines."""
        cosines, c = _cosines(self.rows, self.centred, queries - self.mean), self.coverage
        # CSLS (2·cos − r) at full coverage, the cosine at none; the divisor keeps it on the scale of a cosine.
        result: Vectors = ((1 + c) * cosines - c * self.penalty) / (1 + c / 2)
        return result


def adapt(rows: MapRows, queries: Vectors) -> Adaptation:
    """Adapt to a batch of projected queries (q, n): match, re-centre the rows on the covered part, match again."""
    return _adapted_to(rows, queries[without_stops(queries, partial(advance, rows))[1]])


def _adapted_to(rows: MapRows, queries: Vectors) -> Adaptation:
    """`adapt` to queries that are none of a stop."""
    # Thinned to one a place: with many, the best ten of a place are its right matches, which CSLS would penalise.
    queries = queries[:: max(1, len(queries) // max(len(rows.starts), LEAST_QUERIES))]
    mean = queries.mean(axis=0)
    everywhere = rows.centred()
    penalty, _ = _penalty(rows, everywhere, queries - mean, None)
    _, part = _penalty(rows, everywhere, queries - mean, penalty)
    weights = part[_part_of(rows)][_place_of(rows)]
    centred = rows.centred(weights @ rows.vectors / weights.sum())
    penalty, part = _penalty(rows, centred, queries - mean, None)
    return Adaptation(rows, centred, mean, penalty, _coverage(part))


class OnlineAdaptation:
    """`adapt` online, each frame by those before it; memory grows with the map, not with the drive.

    The mean of few frames is mostly the look of their places. So its difference from the references' mean is shrunk
    (James and Stein) by 1 − noise / distance², and nothing is subtracted while all frames match one part of the route:
    then their common look is that of one street, unless they advance without it.
    """

    def __init__(self, rows: MapRows) -> None:
        self.rows = rows
        self._row_mean = rows.vectors.mean(axis=0)
        self._along = rows.vectors @ self._row_mean
        self._mean_square = float(self._row_mean @ self._row_mean)
        n_places = len(rows.starts)
        self._total = np.zeros(rows.vectors.shape[1])
        self._n = 0
        self._lengths: tuple[float, Vectors | None] = (0.0, None)
        self._best = np.zeros((n_places, NEIGHBOURS), np.float32)
        self._sum, self._least = np.zeros(n_places, np.float32), np.zeros(n_places, np.float32)
        self._least_at = np.zeros(n_places, np.intp)
        self._parts, self._squares = [0] * PARTS, 0
        self._recent: deque[Vectors] = deque(maxlen=_LOOKED_AT)
        self._matched: deque[int] = deque(maxlen=_LOOKED_AT)
        self._advances, self._look = False, _FIRST_LOOK

    def scores(self, query: Vectors) -> Vectors:
        """Scores (N,) of one projected query (n,), given the queries before it."""
        self._total += query
        self._n += 1
        coverage = max(self._coverage(), self._least_coverage(query))
        share = self._shrinkage() * min(1.0, max(0.0, PARTS * coverage - 1))
        centred = (query - share / self._n * self._total).astype(np.float32, copy=False)
        centred /= np.float32(max(sqrt(float(centred @ centred)), 1e-12))
        raw = centred @ self.rows.columns
        if share:
            raw -= np.float32(share * float(self._row_mean @ centred))
            raw *= self._over_lengths(share)
        found: Vectors = self.rows.best(raw[None])[0]
        self._matched.append(int(found.argmax()))
        part = self._matched[-1] * PARTS // len(found)
        self._squares += 2 * self._parts[part] + 1
        self._parts[part] += 1
        self._keep(found)
        share = coverage * self._n / (self._n + LEAST_QUERIES / 2)
        if self._n < NEIGHBOURS or not share:
            return found
        # As `Adaptation.scores`, with c = share.
        result: Vectors = found * np.float32((1 + share) / (1 + share / 2))
        result -= self._sum * np.float32(share / (1 + share / 2) / NEIGHBOURS)
        return result

    def _shrinkage(self) -> float:
        """Shrinkage factor of the queries' mean, 0 to 1: 1 − noise / squared distance from the references' mean."""
        mean = self._total / self._n
        apart = mean - self._row_mean
        square = float(apart @ apart)
        # Queries are unit vectors, so their variance is 1 − |mean|².
        noise = _FRAMES_PER_SAMPLE * max(0.0, 1 - float(mean @ mean)) / self._n
        return 1 - noise / square if noise < square else 0.0

    def _coverage(self) -> float:
        """Effective share of the route's parts that earlier queries matched: (Σn)² / Σn² / PARTS."""
        seen = self._n - 1
        return min(1.0, seen**2 / self._squares / PARTS) if seen else 0.0

    def _least_coverage(self, query: Vectors) -> float:
        """Two parts of the route where frames that match one of them advance without their mean; else 0.

        Looked at after 50 frames, 100, 200 and so on, while they match far fewer places than a drive passes.
        """
        self._recent.append(query)
        if not self._advances and self._n >= self._look:
            self._look *= 2
            stuck = self._coverage() < 2 / PARTS and _stretch(np.array(self._matched)) < self._n / _SLOWEST
            self._advances = stuck and advance(self.rows, np.array(self._recent))
        return 2 / PARTS if self._advances else 0.0

    def _over_lengths(self, share: float) -> Vectors:
        """1 / |row − share · mean| of all rows; cached until the share changes by more than 0.005."""
        known, lengths = self._lengths
        if lengths is None or abs(share - known) > 0.005:
            square = 1 - 2 * share * self._along + share**2 * self._mean_square
            lengths = (1 / np.sqrt(np.maximum(square, 1e-12))).astype(np.float32)
            self._lengths = share, lengths
        return lengths

    def _keep(self, found: Vectors) -> None:
        """Update the ten best scores of each place, and their sum."""
        if self._n <= NEIGHBOURS:
            self._best[:, self._n - 1] = found
            self._sum += found
            if self._n == NEIGHBOURS:
                self._least, self._least_at = self._best.min(axis=1), self._best.argmin(axis=1)
            return
        if self._n > LEAST_QUERIES / 2 and self._n % _EVERY:
            return
        higher = (found > self._least).nonzero()[0]
        if len(higher):
            # The least of the ten is replaced; its index is kept, so that each row is searched once.
            new = found[higher]
            self._sum[higher] += new - self._least[higher]
            self._best[higher, self._least_at[higher]] = new
            ten = self._best[higher]
            at = ten.argmin(axis=1)
            self._least_at[higher], self._least[higher] = at, ten[np.arange(len(at)), at]


def tell_condition(rows: MapRows, queries: Vectors) -> bool:
    """Whether the mean of queries (q, n) shows their condition, and not the one place where all of them were taken.

    It does if they match enough places, or if they advance along the route once it is subtracted; for that they must be
    in the order of a drive. Pictures of a standing robot have their place as mean, and are noise without it.
    """
    if len(queries) < NEIGHBOURS:
        return False
    n_places = len(rows.starts)
    some = queries[spread(len(queries), LEAST_QUERIES)]
    best = np.array([rows.similarity(query).argmax() for query in some])
    return _stretch(best) >= min(NEIGHBOURS, n_places / PARTS) or advance(rows, queries)


def _stretch(best: Indices) -> float:
    """Places from the first to the last of most matches."""
    first, last = np.quantile(best, _MATCHED)
    return float(last - first)


def advance(rows: MapRows, queries: Vectors, stops: Indices | None = None) -> bool:
    """Whether queries that adapt the matching match places that advance along the route, or against it.

    A place may resemble all frames of a dark drive as if the robot stood there. Less their mean they advance; what is
    left of pictures of one spot is noise, and matches places in no order. Given the stop (q,) that each query may be
    of, steps from one stop to the next do not count.
    """
    found = _adapted_to(rows, queries[moving(queries)]).scores(queries[:_LOOKED_AT])
    for n in (1, _TOGETHER):  # several together, as slow drives hardly advance from one frame to the next
        first = np.arange(0, len(found), n)
        along = np.add.reduceat(found, first, axis=0).argmax(axis=1)
        if stops is not None:
            along = np.cumsum(np.diff(along, prepend=0) * (np.diff(stops[first], prepend=0) == 0))
        if way_along(along, len(rows.starts)):
            return True
    return False


def _cosines(rows: MapRows, centred: Vectors, queries: Vectors) -> Vectors:
    """Cosines (b, N) of queries and places."""
    return rows.best(l2_normalize(queries).astype(np.float32, copy=False) @ centred.T)


def _penalty(
    rows: MapRows, centred: Vectors, queries: Vectors, penalty: Floats | None
) -> tuple[Floats, Floats]:
    """CSLS term of each place, and the share of queries whose best place lies in each part of the route.

    With a `penalty`, best places are those after CSLS.
    """
    n_places, part_of = len(rows.starts), _part_of(rows)
    best = np.full((0, n_places), -np.inf, np.float32)
    parts = np.zeros(PARTS)
    k = min(NEIGHBOURS, len(queries))
    for some in blocks(len(queries), 4 * len(rows.vectors)):
        found = _cosines(rows, centred, queries[some])
        ranked = found if penalty is None else 2 * found - penalty
        np.add.at(parts, part_of[ranked.argmax(axis=1)], 1)
        best = np.concatenate([best, found])
        if len(best) > k:
            best = np.partition(best, len(best) - k, axis=0)[len(best) - k :]
    return best.mean(axis=0).astype(np.float64), parts / parts.sum()


def _coverage(parts: Floats) -> float:
    """Effective share of the parts that are covered, from the share of queries in each: 1 / Σp² / PARTS."""
    return float(min(1.0, 1 / (parts**2).sum() / PARTS))


def _part_of(rows: MapRows) -> Indices:
    """Part of the route that each place lies in."""
    n = len(rows.starts)
    return np.arange(n) * PARTS // max(n, 1)


def _place_of(rows: MapRows) -> Indices:
    """Index of each row's place."""
    counts = np.diff(np.append(rows.starts, len(rows.vectors)))
    return np.repeat(np.arange(len(rows.starts)), counts)
