"""The content of a map (`MapState`): rows, projection, calibration, and the search over them.

Frozen, so that threads can share it while an update makes the next one; what is derived from it is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, l2_normalize
from displace.cell_layout import CellLayout
from displace.errors import FormatError, InputError
from displace.files.memory import physical_memory
from displace.fork_lock import ForkLock
from displace.geo import Area
from displace.maps.calibration import Calibration
from displace.maps.place_sketches import PlaceSketches
from displace.maps.rounding import within_unit
from displace.maps.samples import Samples
from displace.maps.witness import TOP, Anchors, RowSpace, Witness
from displace.models import cells_of
from displace.places import Places
from displace.search import INDEXES, exact
from displace.search.base import Index, check_found
from displace.sequence.following import DriveCalibration
from displace.truth import Tolerance, Truth

if TYPE_CHECKING:
    from displace.fusion.base import Fusion
    from displace.maps.statistics import MapStatistics

CHOSEN_AT = "settings_chosen_at"
"""Note of an updated map: γ at which its settings were chosen. Compared with γ before each update alone, many small
updates would never be seen to outgrow the settings."""
LARGE = 1e15
"""Descriptors with larger numbers are projected in float64, as their products would overflow float32."""
_SAFE = 1e-20, 1e25
"""Range of |x|² in which float32 neither overflows nor underflows, and every number is far below `LARGE`."""
_EVERYWHERE = ("_indexes", "_making", "_best_backend", "_most_rows", "truth", "witness")
"""Cached parts that do not depend on the area, and are shared with maps `within` one."""
DAMAGED = "the rows of the map are damaged: build it anew, or take a copy that is whole"


@dataclass(frozen=True, eq=False)
class MapState:
    """Places, each with one or more rows, and everything that turns a query into matches."""

    places: Places
    """Ids, positions, images and route order."""
    vectors: NDArray[Any]
    """Shape (R, n). Rows as stored: float16, float32, or int8 with `scales`."""
    row_places: Indices
    """Shape (R,). Index of each row's place; the rows of one place are side by side."""
    fusion: str
    """Registry name of the fusion that made it."""
    settings: dict[str, Any]
    """Its parameters, with what was "auto" decided."""
    reason: str
    """Why those settings."""
    dim: int
    """D, the dimension of a descriptor."""
    projection: Vectors | None = None
    mean: Vectors | None = None
    """Shapes (D, n) and (D,). A query q becomes normalise((q − mean)·projection)."""
    scales: Vectors | None = None
    """Shape (R,). For int8 rows: row = scale · stored."""
    model: dict[str, Any] | None = None
    """Fingerprint of the descriptor model; None for maps of bare vectors."""
    traversals: dict[str, int] = field(default_factory=dict)
    """References of each traversal that went in."""
    calibration: Calibration | None = None
    """Confidence of a match; None where the map has none."""
    calibrated_on: dict[str, int] | None = None
    """`traversals` as they were when the calibration was made; None for a map built without one."""
    anchors: Anchors | None = None
    """Position of each row's references, from which the distance of a query is computed."""
    samples: Samples | None = None
    """Held-out queries that the confidence was fitted to."""
    driving: DriveCalibration | None = None
    """Calibration of drives and adapted matches."""
    sketches: PlaceSketches | None = None
    """Sketches of the places, with which photos are compared; None where the map was not built from images."""
    tolerance: Tolerance = field(default_factory=lambda: Tolerance("exact"))
    """What "correct" meant in the calibration."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Further figures for `inspect`, such as the recall lost by storing rows in float16."""
    statistics: MapStatistics | None = None
    """What an update needs; kept in a file of its own."""
    no_statistics: str = ""
    """Why a map that was read from a file has none."""
    estimator: Fusion | None = None
    """The fusion, unfitted, where the map was built in this process; a map that was read finds it by name."""
    area: Area | None = None
    """Where queries are known to be: only places inside are found."""
    _indexes: dict[str, Index] = field(default_factory=dict, init=False, repr=False)
    _making: ForkLock = field(default_factory=ForkLock, init=False, repr=False)
    """Search indexes by backend, and what makes sure that each is made once."""

    def unmapped(self) -> MapState:
        """Return the same map with no array mapped from its file, which may then be written over in place."""
        mapped: dict[str, Any] = {}
        for name in ("vectors", "projection", "mean", "scales"):
            array = getattr(self, name)
            if array is not None and exact.is_mapped(array):
                mapped[name] = np.array(array)
        return replace(self, **mapped) if mapped else self

    @cached_property
    def truth(self) -> Truth:
        """Which places count as the same."""
        return Truth(self.places, self.tolerance)

    @property
    def space(self) -> RowSpace:
        """The rows, and the projection of queries into their space; not kept, as it refers to this object."""
        return RowSpace(self.rows_at, self.row_places, self.projection, self.mean)

    @property
    def usual(self) -> Vectors:
        """Mean descriptor (D,): that of the references if it is known, else what is subtracted, else zeros."""
        if self.anchors is not None:
            return self.anchors.mean
        return np.zeros(self.dim, np.float32) if self.mean is None else self.mean

    def project(self, queries: Vectors) -> Vectors:
        """Bring descriptors into the space of the rows: normalise((q − mean)·projection)."""
        if (np.abs(queries) > LARGE).any():
            queries = queries.astype(np.float64)  # or products would be beyond the range of numbers
        return l2_normalize(self.space.project(queries))

    def takes(self, query: Any) -> TypeGuard[Vectors]:
        """Whether a query is a descriptor (D,) that needs no further checks.

        The squared length alone shows in one pass that all numbers are finite, not too large and not all zero.
        """
        if (
            not isinstance(query, np.ndarray)
            or np.ma.isMaskedArray(query)
            or query.dtype not in (np.float32, np.float64)
            or query.shape != (self.dim,)
        ):
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            return _SAFE[0] < float(query @ query) < _SAFE[1]

    def project_one(self, query: Vectors) -> Vectors | None:
        """As `project`, for one descriptor (D,); None where it needs the care of the general path."""
        with np.errstate(over="ignore", invalid="ignore"):
            centred = query if self.mean is None else query - self.mean
            projected = centred if self.projection is None else centred @ self.projection
            square = float(projected @ projected)
        if not _SAFE[0] < square < _SAFE[1]:
            return None
        return projected / projected.dtype.type(sqrt(square))

    def rows(self) -> Vectors:
        """The rows as numbers: float16 or float32, int8 rows multiplied out.

        FormatError where they are not those of unit vectors: damage that loading without `verify` did not look for.
        """
        rows: Vectors = self.vectors if self.scales is None else self.vectors * self.scales[:, None]
        if not within_unit(rows):
            raise FormatError(DAMAGED)
        return rows

    def index(self, search: str) -> Index:
        """The rows behind a search backend, which may name a kind ("faiss:int8"), made once; "auto" is the fastest."""
        chosen = self._best_backend if search == "auto" else search
        name, _, kind = chosen.partition(":")
        backend = INDEXES.get(name)
        with self._making:
            if chosen not in self._indexes:
                as_stored = name == "exact" and kind in ("", "int8") and self._too_large_widened
                self._indexes[chosen] = (
                    self._index_as_stored() if as_stored else backend.build(self.rows(), kind)
                )
            return self._indexes[chosen]

    def best(self, projected: Vectors, k: int, search: str) -> tuple[Indices, Vectors]:
        """Best places and their scores, (q, min(k, N)); of the places inside the area, where there is one."""
        index, n_rows, n_places = self.index(search), len(self.row_places), len(self.places)
        among: Indices | Area | None = None
        if self.area is not None:
            n_places = len(self.inside)
            among = self.area if index.takes_areas else np.flatnonzero(np.isin(self.row_places, self.inside))
        k = min(k, n_places)
        several = n_rows != len(self.places)
        wanted = min(n_rows, k * self._most_rows) if several else k  # enough for k places
        rows, scores = index.search(projected, wanted, among)
        if not type(index).__module__.startswith("displace."):
            n_searched = len(among) if isinstance(among, np.ndarray) else n_rows
            # How many rows are in an area, only the backend knows.
            k_found = np.shape(rows)[-1] if isinstance(among, Area) else min(wanted, n_searched)
            check_found(index, rows, scores, (len(projected), k_found))
        if not several:
            return rows, scores
        return _best_of_each(self.row_places[rows], scores, k)

    def confidence(
        self, queries: Vectors, best: Indices, scores: Vectors, together: bool = False
    ) -> Vectors | None:
        """Probability that the first of the best places is right, (q,); None where the map cannot say.

        The parameters are those of `Witness.evidence`, and `together` as for `Calibration.probability`.
        """
        if self.calibration is None:
            return None
        if self.calibration.reads_rankings:
            return self.calibration.probability_of_scores(scores)
        if self.witness is None:
            return None
        evidence = self.witness.evidence(queries, best, scores, self.calibration.centred)
        if evidence.shape[1] < len(self.calibration.weights):
            return None  # the map's model, of somebody's own, is not installed here
        return self.calibration.probability(evidence, together)

    @property
    def ranked_at_least(self) -> int:
        """Places that must be ranked for the confidence."""
        return 1 if self.calibration is None else TOP

    @cached_property
    def witness(self) -> Witness | None:
        """Features of matches; None for maps without anchors, as those of the first release."""
        if self.anchors is None:
            return None
        return Witness(self.space, self.anchors, self.truth, self.places.ids, self.cells)

    @property
    def cells(self) -> CellLayout | None:
        """Which numbers of a descriptor stand for which part of the picture; None where it is no grid over it."""
        cells = cells_of(self.model)
        return cells if cells is not None and cells.dim == self.dim else None

    def rows_at(self, rows: Indices) -> Vectors:
        """Some of the rows as numbers, (r, n)."""
        taken: Vectors = self.vectors[rows].astype(np.float32)
        return taken if self.scales is None else taken * self.scales[rows, None]

    def within(self, area: Area) -> MapState:
        """The same map for queries inside an area; what does not depend on it is made once and shared."""
        if self.places.positions is None:
            raise InputError("the map has no positions: it cannot be searched near a point")
        state = replace(self, area=area)
        state.__dict__.update({name: getattr(self, name) for name in _EVERYWHERE})
        if len(state.inside) == 0:
            away = self.places.positions.metres(area.near)
            if not self.places.positions.degrees:
                away = away - np.asarray(area.near)
            nearest = float(np.nanmin(np.hypot(away[:, 0], away[:, 1]), initial=np.inf))
            raise InputError(
                f"no place of the map lies within radius={area.radius:g} m of near={area.near}; the nearest is "
                f"{nearest:.0f} m away"
            )
        return state

    @cached_property
    def inside(self) -> Indices:
        """Places inside the area."""
        assert self.area is not None
        assert self.places.positions is not None
        return self.area.inside(self.places.positions)

    @property
    def at_hand(self) -> bool:
        """Whether all rows can be compared in memory: only then "auto" adapts the matching."""
        return 4 * self.vectors.size <= exact.MAPPED_ABOVE

    def in_memory(self) -> MapState:
        """The map with its rows at hand: this one."""
        return self

    @cached_property
    def working_rows(self) -> Vectors:
        """The rows in float32, for whole score matrices."""
        return np.ascontiguousarray(self.rows(), np.float32)

    @cached_property
    def starts(self) -> Indices:
        """Row at which each place's rows start."""
        return np.searchsorted(self.row_places, np.arange(len(self.places)))

    def scores(self, projected: Vectors) -> Vectors:
        """Score of every place for each of some projected queries, (b, N), in the order of the ids."""
        rows = projected.astype(np.float32, copy=False) @ self.working_rows.T
        if len(self.row_places) == len(self.places):
            return rows
        return np.maximum.reduceat(rows, self.starts, axis=1)

    def __reduce__(self) -> tuple[type[MapState], tuple[Any, ...]]:
        """Copies, and what other processes get, make their own indexes and locks."""
        return type(self), tuple(getattr(self, one.name) for one in fields(self) if one.init)

    @cached_property
    def _best_backend(self) -> str:
        import importlib.util

        # faiss reads float16 as it is; on float32 rows it takes 1.7 times as long as BLAS (docs/performance.md). It
        # holds a copy: rows that leave no room for it are searched where they are, in the map's file.
        half = self.vectors.dtype == np.float16 and self.vectors.nbytes <= physical_memory() / 2
        return "faiss" if half and importlib.util.find_spec("faiss") else "exact"

    @property
    def _too_large_widened(self) -> bool:
        """Whether int8 rows would be too large as float32, which is faster to search."""
        return self.scales is not None and 4 * self.vectors.size > exact.MAPPED_ABOVE

    def _index_as_stored(self) -> Index:
        """Search eight-bit rows as the map holds them, in its file."""
        assert self.scales is not None
        if not within_unit(127 * self.scales[:, None]):
            raise FormatError(DAMAGED)
        index = exact.Exact("int8", self.vectors, self.scales)
        index.recall = 1.0
        return index

    @cached_property
    def _most_rows(self) -> int:
        """Rows of the place that has most."""
        return int(np.bincount(self.row_places).max())


def _best_of_each(places: Indices, scores: Vectors, k: int) -> tuple[Indices, Vectors]:
    """First occurrence of each place in rows that are sorted by score, (q, k)."""
    best = np.empty((len(places), k), np.intp)
    values = np.empty((len(places), k), scores.dtype)
    for row, (ids, score) in enumerate(zip(places, scores, strict=True)):
        _, first = np.unique(ids, return_index=True)
        first = np.sort(first)[:k]
        best[row], values[row] = ids[first], score[first]
    return best, values
