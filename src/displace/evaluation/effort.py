"""What a method costs: dimensions, bytes and times of its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from displace.evaluation.results import Result


@dataclass(frozen=True)
class Effort:
    """Medians over cells of one method."""

    dims: float
    """Length of a stored vector."""
    n_bytes: float
    """To store for locating, as float32."""
    seconds: float
    milliseconds: float
    """To fit, and to rank one of many queries."""

    @classmethod
    def of(cls, results: Sequence[Result]) -> Effort:
        """Return the effort of cells that could be computed."""
        return cls(
            median(result.n for result in results),
            median(result.n_bytes for result in results),
            median(result.seconds["fit"] for result in results),
            median(1000 * result.seconds["rank"] / max(1, result.n_queries) for result in results),
        )
