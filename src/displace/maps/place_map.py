"""PlaceMap: places that queries can be located among."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from displace.arrays import Indices, Vectors, as_vectors, l2_normalize
from displace.errors import FormatError, InputError, ModelMismatchError
from displace.geo import Positions
from displace.maps import file
from displace.maps.calibration import TOP, Calibration
from displace.maps.rounding import within_unit
from displace.matches import Matches
from displace.search import INDEXES
from displace.search.base import Index

if TYPE_CHECKING:
    from displace.maps.statistics import Statistics
    from displace.maps.updating import Update
    from displace.models.base import DescriptorModel
    from displace.references import ReferenceSet


@dataclass(eq=False)
class PlaceMap:
    """Places, each with one or more rows; a query is projected and a place scores as its best row.

    Made by `displace.build` or `PlaceMap.load`.

    Parameters
    ----------
    place_ids : array of shape (N,)
        Sorted ids.
    vectors : array of shape (R, n)
        Rows as stored: float16, float32, or int8 with `scales`.
    row_places : array of shape (R,)
        Index of each row's place; the rows of one place are side by side.
    fusion : str
        Registry name of the fusion that made it.
    settings : dict
        Its parameters, with what was "auto" decided.
    reason : str
        Why those settings.
    dim : int
        D, the dimension of a descriptor.
    projection, mean : arrays of shape (D, n) and (D,), optional
        A query q becomes normalise((q − mean)·projection).
    scales : array of shape (R,), optional
        For int8 rows: row = scale · stored.
    model : dict, optional
        Fingerprint of the descriptor model; None for maps of bare vectors.
    traversals : dict of str to int
        References of each traversal that went in.
    positions : Positions, optional
        Where each place is.
    images : list of str, optional
        One reference image of each place.
    calibration : Calibration, optional
        How rankings become probabilities; None where there were fewer than three traversals.
    calibrated_on : dict of str to int, optional
        `traversals` as they were when the calibration was made.
    tolerance : float
        What "correct" meant in the calibration: metres where places have positions; 0 is the very place.
    notes : dict
        Further facts that `inspect` shows, such as the loss by storing rows in float16.
    statistics : Statistics, optional
        What an update needs; kept in a file of its own.
    no_statistics : str
        Why a map that was read from a file has none.
    """

    place_ids: NDArray[Any]
    vectors: NDArray[Any]
    row_places: Indices
    fusion: str
    settings: dict[str, Any]
    reason: str
    dim: int
    projection: Vectors | None = None
    mean: Vectors | None = None
    scales: Vectors | None = None
    model: dict[str, Any] | None = None
    traversals: dict[str, int] = field(default_factory=dict)
    positions: Positions | None = None
    images: list[str] | None = None
    calibration: Calibration | None = None
    calibrated_on: dict[str, int] | None = None
    tolerance: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict)
    statistics: Statistics | None = None
    no_statistics: str = ""

    def __repr__(self) -> str:
        return (
            f"PlaceMap({len(self.place_ids)} places from {len(self.traversals)} traversals, {self.fusion}, "
            f"{self.vectors.shape[1]} of {self.dim} dimensions, {self.vectors.dtype})"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the map to `path`, and what an update needs to ``path-stats``; atomically."""
        file.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], verify: bool = True) -> Self:
        """Read a map.

        Parameters
        ----------
        path : path-like
        verify : bool
            Read all bytes and compare their checksum. Without, the rows are memory-mapped and read when used; all else
            is checked as far as a map made of it works.
        """
        return cls(**file.load(path, verify))

    @property
    def nbytes(self) -> int:
        """Bytes needed to locate: rows, projection and mean, as stored."""
        arrays = (self.vectors, self.scales, self.projection, self.mean)
        return sum(array.nbytes for array in arrays if array is not None)

    @property
    def calibration_is_stale(self) -> bool:
        """Whether an update has changed the references since the confidence was learned."""
        return self.calibration is not None and self.calibrated_on != self.traversals

    @property
    def model_name(self) -> str:
        """Name of the model, with its variant, as `get_model` takes it."""
        return _model_name(self.model or {})

    def locate(
        self,
        queries: ArrayLike | Sequence[str | os.PathLike[str]],
        k: int = 5,
        *,
        search: str = "auto",
        model: DescriptorModel | None = None,
    ) -> Matches:
        """Find the places of queries.

        Parameters
        ----------
        queries : array of shape (q, D), or paths of images
            Descriptors by the map's model, or images to be described with it.
        k : int
            Places to return for each query; all of them where there are fewer.
        search : str
            Backend: "exact", "faiss", or "auto" (faiss for float16 rows where it is installed).
        model : DescriptorModel, optional
            Describes the images; by default the map's own, with its default weights and preprocessing.

        Returns
        -------
        Matches
            With `confidence` where the map is calibrated, and `positions` where it has them.
        """
        if k < 1:
            raise InputError(f"k={k} must be at least 1")
        vectors = self._as_vectors(queries, model)
        if vectors.shape[1] != self.dim:
            raise InputError(f"queries have {vectors.shape[1]} dimensions; the map has {self.dim}")
        wanted = k if self.calibration is None else max(k, TOP)
        best, scores = self._search(self.project(vectors), wanted, self._index(search))
        confidence = None if self.calibration is None else self.calibration.probability(scores)
        positions = None if self.positions is None else self.positions.take(best[:, 0])
        return Matches(self.place_ids[best[:, :k]], scores[:, :k], confidence, positions)

    def project(self, queries: Vectors) -> Vectors:
        """Bring descriptors into the space of the rows: normalise((q − mean)·projection)."""
        centred = queries if self.mean is None else queries - self.mean
        return l2_normalize(centred if self.projection is None else centred @ self.projection)

    def rows(self) -> Vectors:
        """The rows as numbers: float16 or float32, int8 rows multiplied out.

        Raises
        ------
        FormatError
            When they are not those of unit vectors: damage that loading without `verify` did not look for.
        """
        rows: Vectors = self.vectors if self.scales is None else self.vectors * self.scales[:, None]
        if not within_unit(rows):
            raise FormatError("the rows of the map are damaged: load it with verify=True, or build it anew")
        return rows

    def check_model(self, fingerprint: Mapping[str, Any] | None) -> None:
        """Raise an error that names both where `fingerprint` is not the map's model."""
        if self.model is None or fingerprint is None or dict(fingerprint) == self.model:
            return
        parts = [
            f"{key}: {fingerprint.get(key)!r}, the map has {self.model.get(key)!r}"
            for key in sorted({*fingerprint, *self.model})
            if fingerprint.get(key) != self.model.get(key)
        ]
        raise ModelMismatchError(
            f"the queries were described by {_model_name(fingerprint)}, the map's references by "
            f"{_model_name(self.model)}; they differ in\n  " + "\n  ".join(parts)
        )

    def add(
        self, refs: ReferenceSet, positions: Positions | None = None, images: Sequence[str] | None = None
    ) -> Update:
        """Add new traversals, of known or new places. Needs the statistics, not the old references.

        Parameters
        ----------
        refs : ReferenceSet
            Of traversals that the map does not have.
        positions : Positions, optional
            Of `refs`' places, in the order of its `place_ids`: given to new places, and compared with the map's.
        images : sequence of str, optional
            One reference image of each of these places; given to new places.
        """
        from displace.maps import updating

        return updating.add(self, refs, positions, images)

    def remove(self, refs: ReferenceSet | str) -> Update:
        """Remove traversals: given all their references, or by name where the references were kept."""
        from displace.maps import updating

        return updating.remove(self, refs)

    def _as_vectors(self, queries: Any, model: DescriptorModel | None) -> Vectors:
        if isinstance(queries, np.ndarray) or not _are_paths(queries):
            return as_vectors(queries, "queries")
        return self._describe([Path(path) for path in queries], model)

    def _describe(self, paths: list[Path], model: DescriptorModel | None) -> Vectors:
        """Describe images by the map's model."""
        from displace.descriptors.extraction import describe
        from displace.models import get_model

        if self.model is None:
            raise InputError("the map was built from bare vectors: it knows no model to describe images with")
        model = model or get_model(self.model_name)
        self.check_model(model.fingerprint())
        return describe(model, paths)

    def _index(self, search: str) -> Index:
        if search == "auto":
            search = self._best_backend
        if search not in self._indexes:
            self._indexes[search] = INDEXES.get(search).build(self.rows())
        return self._indexes[search]

    @cached_property
    def _indexes(self) -> dict[str, Index]:
        return {}

    @cached_property
    def _best_backend(self) -> str:
        import importlib.util

        # faiss reads float16 as it is; on float32 rows it takes 1.4 times as long as BLAS (docs/performance.md).
        half = self.vectors.dtype == np.float16
        return "faiss" if half and importlib.util.find_spec("faiss") else "exact"

    @cached_property
    def _most_rows(self) -> int:
        """Rows of the place that has most."""
        return int(np.bincount(self.row_places).max())

    def _search(self, projected: Vectors, k: int, index: Index) -> tuple[Indices, Vectors]:
        """Best places and their scores, (q, min(k, N))."""
        n_rows, n_places = len(self.row_places), len(self.place_ids)
        k = min(k, n_places)
        if n_rows == n_places:
            return index.search(projected, k)
        rows, scores = index.search(projected, min(n_rows, k * self._most_rows))  # enough rows for k places
        return _best_of_each(self.row_places[rows], scores, k)


def _best_of_each(places: Indices, scores: Vectors, k: int) -> tuple[Indices, Vectors]:
    """First occurrence of each place in rows that are sorted by score, (q, k)."""
    best = np.empty((len(places), k), np.intp)
    values = np.empty((len(places), k), scores.dtype)
    for row, (ids, score) in enumerate(zip(places, scores, strict=True)):
        _, first = np.unique(ids, return_index=True)
        first = np.sort(first)[:k]
        best[row], values[row] = ids[first], score[first]
    return best, values


def _are_paths(queries: Any) -> bool:
    return isinstance(queries, Sequence) and all(isinstance(query, str | os.PathLike) for query in queries)


def _model_name(fingerprint: Mapping[str, Any]) -> str:
    variant = fingerprint.get("variant")
    return f"{fingerprint.get('model')}:{variant}" if variant else str(fingerprint.get("model"))
