"""Matches: the ranked places of each query."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors
from displace.geo import Positions


@dataclass(frozen=True, eq=False)
class Matches:
    """Ranked places, best first."""

    places: NDArray[Any]
    """Shape (q, k). Place ids."""
    scores: Vectors
    """Shape (q, k). Higher is better; comparable within one query, and between queries of one fusion. They descend,
    except that photos put the place that their pictures show first."""
    confidence: Vectors | None = None
    """Shape (q,). Probability that the first place is correct, if the source is calibrated."""
    positions: Positions | None = None
    """Position of the first place of each query, if known."""
    view: tuple[int, int] = (0, 0)
    """Shift of the queries' pictures against those of the map, which was undone: `PlaceMap.view_of`."""
    adapted: bool = False
    """Whether the matching was adapted to the condition of all queries together."""
    compared: bool = False
    """Whether photos were compared with the pictures of their places."""

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        parts = [f"{len(self):,} queries", f"{self.places.shape[1]} places each"]
        parts += ["with confidence"] if self.confidence is not None else []
        parts += ["with positions"] if self.positions is not None else []
        parts += ["adapted"] if self.adapted else []
        return f"Matches({', '.join(parts)})"

    def take(self, rows: NDArray[np.intp]) -> Matches:
        """Return some of the queries, in the given order."""
        return replace(
            self,
            places=self.places[rows],
            scores=self.scores[rows],
            confidence=None if self.confidence is None else self.confidence[rows],
            positions=None if self.positions is None else self.positions.take(rows),
        )

    def best(self, k: int) -> Matches:
        """Return the first k places of each query."""
        return replace(self, places=self.places[:, :k], scores=self.scores[:, :k])

    def led_by(self, columns: NDArray[np.intp]) -> Matches:
        """Return the same places with the one in a column (q,) first, and the others after it as they were."""
        others = np.arange(self.places.shape[1])
        order = np.argsort(np.where(others == columns[:, None], -1, others), axis=1, kind="stable")
        places, scores = (np.take_along_axis(each, order, axis=1) for each in (self.places, self.scores))
        return replace(self, places=places, scores=scores)

    def refusing(self, rows: NDArray[np.bool_]) -> Matches:
        """Return the same matches, those of a mask with a confidence of 0."""
        if self.confidence is None:
            return self
        return replace(self, confidence=np.where(rows, 0.0, self.confidence))

    def spread(self, rows: NDArray[np.bool_]) -> Matches:
        """Give matches the rows of a mask; the rows between have blank places, and NaN for every number."""
        at = np.where(rows, np.cumsum(rows) - 1, 0)

        def numbers(values: NDArray[Any]) -> NDArray[Any]:
            return np.where(rows.reshape(-1, *[1] * (values.ndim - 1)), values[at], np.nan)

        positions, blank = self.positions, np.zeros((), self.places.dtype)
        if positions is not None:
            heading = None if positions.heading is None else numbers(positions.heading)
            positions = Positions(numbers(positions.points), positions.degrees, heading)
        return replace(
            self,
            places=np.where(rows[:, None], self.places[at], blank),
            scores=numbers(self.scores),
            confidence=None if self.confidence is None else numbers(self.confidence),
            positions=positions,
        )

    def to_json(self) -> list[dict[str, Any]]:
        """Make a record of each query, for other programs; places without a score (NaN) are left out."""
        records: list[dict[str, Any]] = []
        for places, scores in zip(self.places.tolist(), self.scores.tolist(), strict=True):
            known = [
                (place, score) for place, score in zip(places, scores, strict=True) if math.isfinite(score)
            ]
            records.append(
                {"places": [place for place, _ in known], "scores": [round(score, 6) for _, score in known]}
            )
        if self.confidence is not None:
            for record, value in zip(records, self.confidence.tolist(), strict=True):
                record["confidence"] = None if math.isnan(value) else round(value, 6)
        if self.positions is not None:
            names = ("latitude", "longitude") if self.positions.degrees else ("easting", "northing")
            for record, point in zip(records, self.positions.points.tolist(), strict=True):
                for name, value in zip(names, point, strict=True):
                    record[name] = None if math.isnan(value) else value
        return records


def joined(parts: Sequence[Matches]) -> Matches:
    """Matches of several groups of queries in one map, one after the other; NaN where a group has no confidence.

    Where a group has fewer places than others, those that are missing are blank and have no score (NaN). The view is
    that of the first group whose pictures were moved.
    """
    if len(parts) == 1:
        return parts[0]
    k = max(p.places.shape[1] for p in parts)
    sure = [np.full(len(p), np.nan) if p.confidence is None else p.confidence for p in parts]
    positions = [p.positions for p in parts if p.positions is not None]
    known = None
    if len(positions) == len(parts):
        headings = [p.heading for p in positions if p.heading is not None]
        heading = np.concatenate(headings) if len(headings) == len(parts) else None
        known = Positions(np.concatenate([p.points for p in positions]), positions[0].degrees, heading)
    return Matches(
        np.concatenate([_widened(p.places, k, np.zeros((), p.places.dtype)) for p in parts]),
        np.concatenate([_widened(p.scores, k, np.nan) for p in parts]),
        None if all(p.confidence is None for p in parts) else np.concatenate(sure),
        known,
        next((p.view for p in parts if any(p.view)), (0, 0)),
        any(p.adapted for p in parts),
        any(p.compared for p in parts),
    )


def _widened(values: NDArray[Any], k: int, blank: Any) -> NDArray[Any]:
    """Values (q, n) with blanks behind them, (q, k)."""
    return np.pad(values, ((0, 0), (0, k - values.shape[1])), constant_values=blank)
