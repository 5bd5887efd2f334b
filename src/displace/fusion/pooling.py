"""Pooling: every reference is kept; a place scores as its best one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, l2_normalize
from displace.fusion.base import Fusion, Rows, Statistics, unit_rows
from displace.fusion.solver.kept_references import KeptReferences
from displace.references import ReferenceSet


class Pooling(Fusion):
    """Nearest reference of any traversal; ranks places as `dmat_min` does.

    Attributes
    ----------
    reference_vectors_ : array of shape (m, D)
        Unit vectors, those of one place side by side.
    starts_ : array of shape (N,)
        Row at which each place's references start.
    """

    title = "Pooling"
    place_by_place = True

    def _fit(self, X: Vectors, index: Indices, traversals: NDArray[Any] | None) -> None:  # noqa: ARG002
        order = np.argsort(index, kind="stable")
        self.reference_vectors_ = unit_rows(X, order)
        self.starts_ = np.searchsorted(index[order], np.arange(len(self.place_ids_)))

    @property
    def nbytes_(self) -> int:
        """Bytes of all references, as float32."""
        return 4 * self.reference_vectors_.size

    def rows(self) -> Rows:
        """All references, those of one place side by side."""
        counts = np.diff(np.r_[self.starts_, len(self.reference_vectors_)])
        return Rows(self.reference_vectors_, np.repeat(np.arange(len(counts)), counts))

    def statistics(self, refs: ReferenceSet) -> KeptReferences:
        """All references, as unit vectors."""
        order = np.argsort(refs.places, kind="stable")
        return KeptReferences(unit_rows(refs.vectors, order), refs.places[order])

    def from_statistics(self, statistics: KeptReferences, refs: ReferenceSet | None = None) -> Self:  # noqa: ARG002
        """Fit on unit references."""
        self.place_ids_, self.starts_ = np.unique(statistics.places, return_index=True)
        self.reference_vectors_ = statistics.vectors
        self.n_features_in_ = statistics.vectors.shape[1]
        return self

    @classmethod
    def restored_statistics(
        cls,
        arrays: Mapping[str, NDArray[Any]],  # noqa: ARG003
        rows: Vectors,
        places: NDArray[Any],
    ) -> Statistics:
        """Return the rows of the map."""
        return KeptReferences(rows, places)

    def _scores(self, Q: Vectors) -> Vectors:
        similarities = l2_normalize(Q) @ self.reference_vectors_.T
        return np.maximum.reduceat(similarities, self.starts_, axis=1)

    def _layers(self) -> int:
        return 1 + -(-len(self.reference_vectors_) // len(self.place_ids_))
