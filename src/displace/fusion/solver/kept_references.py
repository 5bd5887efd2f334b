"""The references themselves as statistics, for pooling and for maps with several views per place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors
from displace.errors import InputError
from displace.files.tensors import pack_labels, unpack_labels
from displace.references import ReferenceSet


@dataclass
class KeptReferences:
    """Unit references in order of place: the rows of a pooling map."""

    rounding: ClassVar[float] = 5e-3
    """Largest difference between a number of a unit vector and the rounded number in a map."""

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
        """Add further references; returns self."""
        self.vectors = np.concatenate([self.vectors, other.vectors])
        self.places = np.concatenate([self.places, other.places])
        self._select(np.argsort(self.places, kind="stable"))
        return self

    def subtract(self, other: Self) -> Self:
        """Remove for each reference the nearest row of the same place and, if known, traversal; returns self."""
        keep, own, theirs = np.ones(len(self.vectors), bool), self._labels(), other._labels()
        for vector, place, label in zip(other.vectors, other.places.tolist(), theirs.tolist(), strict=True):
            start, end = np.searchsorted(self.places, place), np.searchsorted(self.places, place, "right")
            candidates = start + np.flatnonzero(keep[start:end] & (own[start:end] == label))
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
        """Nothing: the rows of the map are the references."""
        return {}

    def _labels(self) -> NDArray[np.str_]:
        """Traversal of each reference, as text, (m,); blank where it is not known."""
        return np.full(len(self.vectors), "")

    def _select(self, rows: NDArray[np.intp]) -> None:
        self.vectors, self.places = self.vectors[rows], self.places[rows]


@dataclass
class KeptViews(KeptReferences):
    """References with traversals and views: a new traversal may show which of them belong together."""

    rounding = 1e-5
    """Largest difference between the numbers of a reference and of the one to remove."""

    traversals: NDArray[Any]
    """Shape (m,)."""
    groups: NDArray[Any] | None = None
    """Shape (m,). Views, if given."""

    @classmethod
    def of(cls, refs: ReferenceSet) -> KeptViews:
        """Return the references in order of place."""
        order = np.argsort(refs.places, kind="stable")
        groups = None if refs.groups is None else refs.groups[order]
        return cls(refs.vectors[order], refs.places[order], refs.traversals[order], groups)

    def references(self) -> ReferenceSet:
        """Return the references that are kept."""
        return ReferenceSet(self.vectors, self.places, self.traversals.astype(str), groups=self.groups)

    @staticmethod
    def are(arrays: Mapping[str, NDArray[Any]]) -> bool:
        """Whether a file's arrays are of this kind."""
        return "kept_vectors" in arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> KeptViews:
        """Return the references that `to_arrays` gave."""
        kept = dict(arrays)
        places, traversals = (unpack_labels(f"kept_{name}", kept) for name in ("places", "traversals"))
        grouped = any(name.startswith("kept_groups") for name in kept)
        groups = unpack_labels("kept_groups", kept) if grouped else None
        return cls(np.array(kept["kept_vectors"]), places, traversals, groups)

    def merge(self, other: Self) -> Self:
        """Take further references in; returns self."""
        if self.groups is not None and other.groups is not None:
            self.groups = np.concatenate([self.groups, other.groups])
        else:
            self.groups = None  # if views of some are unknown, they are found for all
        same = self.traversals.dtype.kind == other.traversals.dtype.kind
        names = [kept.traversals if same else kept.traversals.astype(str) for kept in (self, other)]
        self.traversals = np.concatenate(names)
        return super().merge(other)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays to store, in float32."""
        arrays: dict[str, NDArray[Any]] = {"kept_vectors": self.vectors.astype(np.float32, copy=False)}
        arrays |= pack_labels("kept_places", self.places) | pack_labels("kept_traversals", self.traversals)
        if self.groups is not None:
            arrays |= pack_labels("kept_groups", self.groups)
        return arrays

    def _labels(self) -> NDArray[np.str_]:
        return self.traversals.astype(np.str_)

    def _select(self, rows: NDArray[np.intp]) -> None:
        super()._select(rows)
        self.traversals = self.traversals[rows]
        self.groups = None if self.groups is None else self.groups[rows]
