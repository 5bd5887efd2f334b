"""KeptReferences: the references themselves, as what an update needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors
from displace.errors import InputError


@dataclass
class KeptReferences:
    """Unit references in order of place: all that pooling is, and what its map holds anyway."""

    rounding: ClassVar[float] = 5e-3
    """Largest difference between a number of a unit vector and what a map has stored of it."""

    vectors: Vectors
    """Shape (m, D)."""
    places: NDArray[Any]
    """Shape (m,), ascending."""

    @property
    def place_ids(self) -> NDArray[Any]:
        """Sorted ids of the places."""
        return np.unique(self.places)

    @property
    def n_references(self) -> int:
        """Number of references."""
        return len(self.vectors)

    def merge(self, other: Self) -> Self:
        """Take further references in; returns self."""
        self.vectors = np.concatenate([self.vectors, other.vectors])
        self.places = np.concatenate([self.places, other.places])
        self._select(np.argsort(self.places, kind="stable"))
        return self

    def subtract(self, other: Self) -> Self:
        """Take references out: each takes its nearest row of the same place with it; returns self."""
        keep = np.ones(len(self.vectors), bool)
        for vector, place in zip(other.vectors, other.places.tolist(), strict=True):
            start, end = np.searchsorted(self.places, place), np.searchsorted(self.places, place, "right")
            candidates = start + np.flatnonzero(keep[start:end])
            away = np.abs(np.subtract(self.vectors[candidates], vector, dtype=np.float64)).max(axis=1)
            limit = self.rounding * max(1.0, float(np.abs(vector).max()))
            if len(candidates) == 0 or away.min() > limit:
                raise InputError(f"cannot remove a reference of place {place!r} that is not in the map")
            keep[candidates[away.argmin()]] = False
        self._select(np.flatnonzero(keep))
        return self

    def astype(self, dtype: Any) -> Self:
        """Return a copy in another precision."""
        return replace(self, vectors=self.vectors.astype(dtype))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Nothing: the rows of the map say all."""
        return {}

    def _select(self, rows: NDArray[np.intp]) -> None:
        self.vectors, self.places = self.vectors[rows], self.places[rows]
