"""Queries tell about their own condition: matching that adapts to the night.

What a condition adds to every frame of a drive is the mean of the drive; what it adds to every reference is theirs.
Both are taken away, in the space of the map's rows. Then a place that resembles every query says little (CSLS, Conneau
et al. 2018): its score is lowered by the mean of its ten best.

Where the queries cover a part of the route only, their mean holds the part's looks besides the condition. So the
references' mean is taken over the same part, as a first matching finds it, and CSLS counts by how large the part is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from displace.arrays import Indices, Vectors, blocks, l2_normalize
from displace.holdout import spread
from displace.sequence.engine import Floats

NEIGHBOURS = 10
LEAST_QUERIES = 100
"""Fewer queries do not tell their condition from their places."""
STILL = 0.65
"""A frame that differs from the last one kept by less than this share of what is usual belongs to a stop; the noise of
a camera at night alone makes 0.6."""
_USUAL = 0.75
"""Quantile of the changes from frame to frame that counts as usual."""
_ROUNDS = 5
"""In which it is found what is usual under way."""
_SOON = 20
"""Frames under way that tell what is usual."""
_EVERY = 4
"""Of the frames of a drive under way, that places are looked at for the queries they resemble: neighbours are alike."""
PARTS = 20
"""Pieces of the route that coverage is counted in."""
_BEYOND = (0.1, 0.9)
"""Quantiles of the places that queries resemble: some may be found elsewhere by chance."""
_ALIKE = 3
"""Frames of a drive under way that tell as much about its mean as one that shows another place."""


@dataclass(frozen=True, eq=False)
class MapRows:
    """Rows of a map and the place of each, in route order where there is one."""

    vectors: Vectors
    """Shape (R, n). Unit rows; those of one place side by side."""
    starts: Indices
    """Shape (N,). First row of each place."""

    @cached_property
    def columns(self) -> Vectors:
        """The rows transposed, which is the faster way round for one query."""
        return np.ascontiguousarray(self.vectors.T)

    def similarity(self, query: Vectors) -> Vectors:
        """Score of each place (N,) for one unit query (n,)."""
        scores: Vectors = self.best((query.astype(np.float32, copy=False) @ self.columns)[None])[0]
        return scores

    def best(self, scores: Vectors) -> Vectors:
        """Scores of rows (b, R) to scores of places (b, N): the best row counts."""
        if len(self.starts) == scores.shape[1]:
            return scores
        best: Vectors = np.maximum.reduceat(scores, self.starts, axis=1)
        return best


@dataclass(frozen=True, eq=False)
class Adaptation:
    """What a batch of queries told about itself."""

    rows: MapRows
    centred: Vectors
    """Shape (R, n). Rows less their mean, as unit vectors."""
    mean: Vectors
    """Shape (n,). Of the queries."""
    penalty: Floats
    """Shape (N,). Mean of the best scores of each place."""
    coverage: float
    """Share of the route that the queries cover, 0 to 1."""

    def scores(self, queries: Vectors) -> Vectors:
        """Scores (b, N) of projected queries, comparable with cosines."""
        found = _cosines(self.rows, self.centred, queries - self.mean)
        weight = self.coverage / 2
        # ((1 + w)·s − w·r) / (1 + w / 2): on the scale of a cosine whatever the coverage is.
        result: Vectors = ((1 + 2 * weight) * found - 2 * weight * self.penalty) / (1 + weight)
        return result


def adapt(rows: MapRows, queries: Vectors) -> Adaptation:
    """Learn the condition of a batch of projected queries (q, n), at least `LEAST_QUERIES` of them."""
    queries = queries[moving(queries)]
    # A drive with many frames a place would lower the scores of the very places it shows.
    queries = queries[:: max(1, len(queries) // max(len(rows.starts), LEAST_QUERIES))]
    mean = queries.mean(axis=0)
    everywhere = _centred(rows.vectors, rows.vectors.mean(axis=0))
    penalty, _ = _penalty(rows, everywhere, queries - mean, None)
    _, part = _penalty(rows, everywhere, queries - mean, penalty)
    weights = part[_part_of(rows)][_place_of(rows)]
    centred = _centred(rows.vectors, weights @ rows.vectors / weights.sum())
    penalty, part = _penalty(rows, centred, queries - mean, None)
    return Adaptation(rows, centred, mean, penalty, _coverage(part))


class OnlineAdaptation:
    """The same, causally: state grows with the map, not with the drive.

    The mean of few frames holds their own looks. So it is taken away as far as it is certain (James and Stein): the
    farther it lies from the references' mean, the sooner. It may do so because all frames show one street; but then
    they resemble one part of the route, and nothing is taken away.
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

    def scores(self, query: Vectors) -> Vectors:
        """Scores (N,) of one projected query (n,), given the queries before it."""
        self._total += query
        self._n += 1
        coverage = self._coverage()
        share = self._certain() * min(1.0, max(0.0, PARTS * coverage - 1))
        centred = (query - share / self._n * self._total).astype(np.float32, copy=False)
        centred /= np.float32(max(sqrt(float(centred @ centred)), 1e-12))
        raw = centred @ self.rows.columns
        if share:
            raw -= np.float32(share * float(self._row_mean @ centred))
            raw *= self._over_lengths(share)
        found: Vectors = self.rows.best(raw[None])[0]
        part = int(found.argmax()) * PARTS // len(found)
        self._squares += 2 * self._parts[part] + 1
        self._parts[part] += 1
        self._keep(found)
        share = coverage * self._n / (self._n + LEAST_QUERIES / 2)
        if self._n < NEIGHBOURS or not share:
            return found
        # As `Adaptation.scores`, with w = share / 2.
        result: Vectors = found * np.float32((1 + share) / (1 + share / 2))
        result -= self._sum * np.float32(share / (1 + share / 2) / NEIGHBOURS)
        return result

    def _certain(self) -> float:
        """How much of what tells the mean of the queries from that of the references is no chance, 0 to 1."""
        mean = self._total / self._n
        apart = mean - self._row_mean
        square = float(apart @ apart)
        # Queries have length 1, so what their mean lacks is their spread.
        noise = _ALIKE * max(0.0, 1 - float(mean @ mean)) / self._n
        return 1 - noise / square if noise < square else 0.0

    def _coverage(self) -> float:
        """Share of the route that the queries before covered."""
        seen = self._n - 1
        return min(1.0, seen**2 / self._squares / PARTS) if seen else 0.0

    def _over_lengths(self, share: float) -> Vectors:
        """One over the lengths of the rows less this share of their mean; computed anew where it changed by 0.5 %."""
        known, lengths = self._lengths
        if lengths is None or abs(share - known) > 0.005:
            square = 1 - 2 * share * self._along + share**2 * self._mean_square
            lengths = (1 / np.sqrt(np.maximum(square, 1e-12))).astype(np.float32)
            self._lengths = share, lengths
        return lengths

    def _keep(self, found: Vectors) -> None:
        """Put the scores among the best of their places."""
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
            # The least of each place gives way; where it stands is known, so the ten are looked through only once.
            new = found[higher]
            self._sum[higher] += new - self._least[higher]
            self._best[higher, self._least_at[higher]] = new
            ten = self._best[higher]
            at = ten.argmin(axis=1)
            self._least_at[higher], self._least[higher] = at, ten[np.arange(len(at)), at]


def tell_condition(rows: MapRows, queries: Vectors) -> bool:
    """Whether queries (q, n) are so many, and of so many places, that what they have in common is their condition.

    What all pictures of a robot that stands have in common is the place: without it they would be noise.
    """
    if len(queries) < NEIGHBOURS:
        return False
    n_places = len(rows.starts)
    some = queries[spread(len(queries), LEAST_QUERIES)]
    best = np.array([rows.similarity(query).argmax() for query in some])
    first, last = np.quantile(best, _BEYOND)
    return bool(last - first >= min(NEIGHBOURS, n_places / PARTS))


def moving(vectors: Vectors) -> Indices:
    """Frames of a drive without those of its stops, which differ from the last one kept by much less than is usual."""
    changes = np.linalg.norm(np.diff(vectors, axis=0), axis=1)
    return _kept(vectors, _usual_change(vectors, changes)) if len(changes) else np.array([0])


def _usual_change(vectors: Vectors, changes: Floats) -> float:
    """What frames under way differ by, also where a drive stands most of the time and most changes are noise."""
    usual = float(np.quantile(changes, _USUAL))
    if len(changes) < 2 * _SOON:
        return usual
    # A frame that is black, or shows something that passes by, is gone with the next one.
    over_two = np.linalg.norm(vectors[2:] - vectors[:-2], axis=1)
    lasting = changes.copy()
    lasting[1:] = np.minimum(lasting[1:], over_two)
    lasting[:-1] = np.minimum(lasting[:-1], over_two)
    under_way = float(np.sort(lasting)[-_SOON])
    if STILL * under_way <= usual:
        return usual
    for _ in range(_ROUNDS):
        kept = _kept(vectors, under_way)[1:]
        if STILL * under_way <= usual or not len(kept):
            return usual
        under_way = float(np.quantile(lasting[kept - 1], _USUAL))
    return under_way


def _kept(vectors: Vectors, usual: float) -> Indices:
    """Frames that differ from the last one kept by no less than a stop's do, where changes of `usual` are usual."""
    kept = [0]
    for frame in range(1, len(vectors)):
        if np.linalg.norm(vectors[frame] - vectors[kept[-1]]) >= STILL * usual:
            kept.append(frame)
    return np.array(kept, np.intp)


def _centred(vectors: Vectors, mean: Vectors) -> Vectors:
    """Unit vectors less a mean, as unit vectors again."""
    return l2_normalize(vectors - mean).astype(np.float32, copy=False)


def _cosines(rows: MapRows, centred: Vectors, queries: Vectors) -> Vectors:
    """Cosines of queries and places."""
    return rows.best(l2_normalize(queries).astype(np.float32, copy=False) @ centred.T)


def _penalty(
    rows: MapRows, centred: Vectors, queries: Vectors, penalty: Floats | None
) -> tuple[Floats, Floats]:
    """Mean of the ten best scores of each place, and the share of queries whose best place lies in each part."""
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
    """Effective share of the parts that are covered."""
    return float(min(1.0, 1 / (parts**2).sum() / PARTS))


def _part_of(rows: MapRows) -> Indices:
    """Part of the route that each place lies in."""
    n = len(rows.starts)
    return np.arange(n) * PARTS // max(n, 1)


def _place_of(rows: MapRows) -> Indices:
    """Index of each row's place."""
    counts = np.diff(np.append(rows.starts, len(rows.vectors)))
    return np.repeat(np.arange(len(rows.starts)), counts)


def without_stops(vectors: Vectors) -> tuple[Vectors, Indices, Indices]:
    """Make the frames of a stop one: their noise is another's each time, what they show is not.

    Returns the mean of each stop's frames, other frames as they are, (m, D); the first frame of each, (m,); and which
    of them stands for each frame, (n,).
    """
    kept = moving(vectors)
    counts = np.diff(np.append(kept, len(vectors)))
    means = np.add.reduceat(vectors, kept, axis=0) / counts[:, None].astype(vectors.dtype)
    return means, kept, np.repeat(np.arange(len(kept)), counts)


class Stops:
    """Says of the frames of a drive under way which belong to a stop, as `moving` does afterwards."""

    def __init__(self) -> None:
        self._before: Vectors | None = None
        self._kept: Vectors | None = None
        self._usual, self._n = 0.0, 0

    def still(self, frame: Vectors) -> bool:
        """Take the next frame (n,), a unit vector."""
        before, kept = self._before, self._kept
        self._before = frame
        if before is None or kept is None:
            self._kept = frame
            return False
        change = _apart(frame, before)
        far = change if kept is before else _apart(frame, kept)
        if self._n >= _SOON and far < STILL * self._usual:
            self._usual *= 0.999  # else a drive into the dark would stand for ever
            return True
        self._n += 1
        # A quantile that follows the changes: up by three where one exceeds it, else down by one.
        step = max(1 / self._n, 0.02) * (_USUAL - (change <= self._usual))
        self._usual = change if self._n == 1 else self._usual * (1 + step)
        self._kept = frame
        return False


def _apart(a: Vectors, b: Vectors) -> float:
    """Distance of two unit vectors."""
    return sqrt(max(2 - 2 * float(a @ b), 0.0))
