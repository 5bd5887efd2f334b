"""Locations: images, and where a map located them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors
from displace.descriptors.store import DescriptorStore, Queries
from displace.errors import InputError
from displace.manifest.table import Manifest
from displace.maps import PlaceMap
from displace.matches import Matches

FRAME = ("frame", "timestamp")


@dataclass(frozen=True, eq=False)
class Locations:
    """Images with their best places in a map.

    Parameters
    ----------
    town : PlaceMap
        The map.
    manifest : Manifest
        The images, with time stamps and frame numbers where they are known.
    matches : Matches
        What `town.locate` found for them.
    vectors : array of shape (q, D), optional
        Their descriptors; only `vme` needs them.
    """

    town: PlaceMap
    manifest: Manifest
    matches: Matches
    vectors: Vectors | None = None

    def __post_init__(self) -> None:
        if len(self.manifest) != len(self.matches):
            raise InputError(
                f"manifest has {len(self.manifest)} images, matches has {len(self.matches)}: one for each is needed"
            )

    @classmethod
    def of(cls, town: PlaceMap, queries: Queries, k: int = 5, *, search: str = "auto") -> Self:
        """Locate described images, such as ``store.queries("night")``, with their `k` best places."""
        return cls(town, queries.manifest, town.locate(queries.vectors, k, search=search), queries.vectors)

    @classmethod
    def of_store(
        cls, town: PlaceMap, store: DescriptorStore, traversal: str, k: int = 5, *, search: str = "auto"
    ) -> Self:
        """Locate a traversal of a store, which must be described by the map's model."""
        town.check_model(store.model)
        return cls.of(town, store.queries(traversal), k, search=search)

    def __len__(self) -> int:
        return len(self.manifest)

    def accepted(self, min_confidence: float = 0.0) -> NDArray[np.bool_]:
        """Which images are in the map with at least this probability; for 0 all that could be read (have a score)."""
        if not 0 <= min_confidence <= 1:
            raise InputError(f"min_confidence={min_confidence} must be a probability, 0 to 1")
        if min_confidence == 0:
            readable: NDArray[np.bool_] = np.isfinite(self.matches.scores[:, 0])
            return readable
        if self.matches.confidence is None:
            raise InputError(
                f"min_confidence={min_confidence} needs a map with a calibration, and this one has none: "
                "build it from three or more traversals, or leave min_confidence out"
            )
        accepted: NDArray[np.bool_] = self.matches.confidence >= min_confidence
        return accepted

    def to_json(self, min_confidence: float = 0.0) -> list[dict[str, Any]]:
        """Make a record of each image, for other programs."""
        matches, accepted = self.matches, self.accepted(min_confidence)
        readable, numbers = self.accepted(), self.manifest.numbers
        records = []
        for row, image in enumerate(self.manifest.images):
            record: dict[str, Any] = {
                "image": image,
                **{name: _or_none(round(float(numbers[name][row]), 6)) for name in FRAME if name in numbers},
                "in_map": bool(accepted[row]),
                "places": matches.places[row].tolist() if readable[row] else [],
                "scores": [round(float(score), 6) for score in matches.scores[row]] if readable[row] else [],
            }
            if matches.confidence is not None:
                record["confidence"] = _or_none(round(float(matches.confidence[row]), 6))
                if self.town.calibration_is_stale:
                    record["confidence_is_stale"] = True
            if matches.positions is not None:
                names = ("latitude", "longitude") if matches.positions.degrees else ("easting", "northing")
                record |= dict(zip(names, map(_or_none, matches.positions.points[row]), strict=True))
            records.append(record)
        return records


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
