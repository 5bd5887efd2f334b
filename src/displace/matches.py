"""Matches: the ranked places of each query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
