"""Matches: the ranked places of each query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors
from displace.geo import Positions


@dataclass(frozen=True, eq=False)
class Matches:
    """Ranked places, best first.

    Parameters
    ----------
    places : array of shape (q, k)
        Place ids.
    scores : array of shape (q, k)
        Higher is better; comparable within one query, and between queries of one fusion.
    confidence : array of shape (q,), optional
        Probability that the first place is correct, where the source is calibrated.
    positions : Positions, optional
        Where the first place is, one row for each query, where the source knows.
    """

    places: NDArray[Any]
    scores: Vectors
    confidence: Vectors | None = None
    positions: Positions | None = None

    def __len__(self) -> int:
        return len(self.places)

    def spread(self, rows: NDArray[np.bool_]) -> Matches:
        """Give matches the rows of a mask; the rows between have blank places, and NaN for every number."""
        at = np.where(rows, np.cumsum(rows) - 1, 0)

        def numbers(values: NDArray[Any]) -> NDArray[Any]:
            return np.where(rows.reshape(-1, *[1] * (values.ndim - 1)), values[at], np.nan)

        positions, blank = self.positions, np.zeros((), self.places.dtype)
        if positions is not None:
            heading = None if positions.heading is None else numbers(positions.heading)
            positions = Positions(numbers(positions.points), positions.degrees, heading)
        return Matches(
            np.where(rows[:, None], self.places[at], blank),
            numbers(self.scores),
            None if self.confidence is None else numbers(self.confidence),
            positions,
        )
