"""KeptViews: the references themselves, as what an update needs where views are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors
from displace.errors import InputError
from displace.files.tensors import pack_labels, unpack_labels
from displace.references import ReferenceSet

ROUNDING = 1e-5
"""Largest difference between the numbers of a reference and of what is removed as being the same."""


@dataclass
class KeptViews:
    """References with traversals and views: a new traversal may show which of them belong together.

    Parameters
    ----------
    vectors : array of shape (m, D)
    places, traversals : arrays of shape (m,)
        Places ascending.
    groups : array of shape (m,) or None
        Views, where they were given.
    """

    vectors: Vectors
    places: NDArray[Any]
    traversals: NDArray[Any]
    groups: NDArray[Any] | None = None

    @classmethod
    def of(cls, refs: ReferenceSet) -> KeptViews:
        """Return the references in order of place."""
        order = np.argsort(refs.places, kind="stable")
        groups = None if refs.groups is None else refs.groups[order]
        return cls(refs.vectors[order], refs.places[order], refs.traversals[order], groups)

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

    @property
    def place_ids(self) -> NDArray[Any]:
        """Sorted ids of the places."""
        return np.unique(self.places)

    @property
    def n_references(self) -> int:
        """Number of references."""
        return len(self.vectors)

    def merge(self, other: KeptViews) -> KeptViews:
        """Take further references in; returns self."""
        if (self.groups is None) != (other.groups is None):
            self.groups = None  # views of some are not known: they are found for all
        elif self.groups is not None and other.groups is not None:
            self.groups = np.concatenate([self.groups, other.groups])
        self.vectors = np.concatenate([self.vectors, other.vectors])
        self.places = np.concatenate([self.places, other.places])
        same = self.traversals.dtype.kind == other.traversals.dtype.kind
        names = [kept.traversals if same else kept.traversals.astype(str) for kept in (self, other)]
        self.traversals = np.concatenate(names)
        self._select(np.argsort(self.places, kind="stable"))
        return self

    def subtract(self, other: KeptViews) -> KeptViews:
        """Take references out that were merged before; returns self."""
        keep = np.ones(len(self.vectors), bool)
        for vector, place in zip(other.vectors, other.places.tolist(), strict=True):
            start, end = np.searchsorted(self.places, place), np.searchsorted(self.places, place, "right")
            candidates = start + np.flatnonzero(keep[start:end])
            away = np.abs(self.vectors[candidates] - vector).max(axis=1, initial=0)
            if len(candidates) == 0 or away.min() > ROUNDING * max(1.0, float(np.abs(vector).max(initial=0))):
                raise InputError(f"cannot remove a reference of place {place!r} that is not in the map")
            keep[candidates[away.argmin()]] = False
        self._select(np.flatnonzero(keep))
        return self

    def astype(self, dtype: Any) -> KeptViews:
        """Return a copy in another precision."""
        return KeptViews(self.vectors.astype(dtype), self.places, self.traversals, self.groups)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What a file keeps, in float32."""
        arrays: dict[str, NDArray[Any]] = {"kept_vectors": self.vectors.astype(np.float32, copy=False)}
        arrays |= pack_labels("kept_places", self.places) | pack_labels("kept_traversals", self.traversals)
        if self.groups is not None:
            arrays |= pack_labels("kept_groups", self.groups)
        return arrays

    def _select(self, rows: NDArray[np.intp]) -> None:
        self.vectors, self.places, self.traversals = (
            self.vectors[rows],
            self.places[rows],
            self.traversals[rows],
        )
        self.groups = None if self.groups is None else self.groups[rows]
