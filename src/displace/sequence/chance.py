"""Null distribution of match scores from the map alone, for maps of one traversal: they have no right matches to learn.

Each row is matched among the places that are not its own, so its best match is wrong by construction. How far such
matches stand out, in standard deviations of the query's own scores, depends little on the condition; queries are
judged by how far they exceed it (`Chance.deviations`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors
from displace.holdout import spread
from displace.sequence.adaptation import MapRows
from displace.sequence.engine import Floats

Same = Callable[[int], Any]
"""The places that count as the same as the i-th: a slice, or a function that chooses those of some places."""
_SAMPLE = 400
"""Most rows that are matched: enough for a mean and a deviation."""
_FEWEST = 3
"""Other places that a standard deviation needs at least; with fewer a match stands out by 0."""
_LOWEST, _HIGHEST = (-3.0, -3.0), (4.0, 6.0)
"""Bounds of the deviations from the null distribution: of the score over the mean, and over the second."""


@dataclass(frozen=True, eq=False)
class Chance:
    """Mean and standard deviation of `apart` for wrong matches, (2,) each."""

    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, rows: MapRows, same: Same) -> Chance:
        """Match rows, spread over the map, among the places that are not theirs."""
        centred = rows.centred()
        asked = spread(len(rows.starts), _SAMPLE)
        scores = rows.best(centred[rows.starts[asked]] @ centred.T)
        for row, place in zip(scores, asked.tolist(), strict=True):
            row[~_others(same, place, len(row))] = -np.inf
        found = apart(scores, same)
        return cls(found.mean(axis=0), np.maximum(found.std(axis=0), 1e-6))

    def deviations(self, scores: Vectors, same: Same) -> Floats:
        """How far the best of scores (q, N) stand out, standardised by the null distribution, (q, 2)."""
        return np.clip((apart(scores, same) - self.mean) / self.spread, _LOWEST, _HIGHEST)


def apart(scores: Vectors, same: Same) -> Floats:
    """Best of scores (q, N) less the mean, and less the highest, of all other places, (q, 2).

    In standard deviations of these others; places with a score of minus infinity do not count.

    >>> apart(np.array([[5.0, 1.0, 2.0, 3.0]]), lambda i: slice(i, i + 1)).round(2)
    array([[3.67, 2.45]])
    """
    found = np.zeros((len(scores), 2))
    for row, best, to in zip(scores, scores.argmax(axis=1).tolist(), found, strict=True):
        others = row[_others(same, best, len(row)) & np.isfinite(row)].astype(np.float64)
        if len(others) >= _FEWEST:
            apart_by = np.array([row[best] - others.mean(), row[best] - others.max()])
            to[:] = apart_by / max(float(others.std()), 1e-9)
    return found


def _others(same: Same, place: int, n_places: int) -> NDArray[np.bool_]:
    """Mask (N,) of the places that do not count as the same as one."""
    others, own = np.ones(n_places, bool), same(place)
    others[own if isinstance(own, slice) else own(np.arange(n_places))] = False
    return others
