"""The interface of fusions: scikit-learn classifiers from descriptors to places that can also rank.

Maps use fusions only through this interface, never by name: `rows` is what a map stores, `statistics` what an update
needs, `from_statistics` fits on those, `settings` and `explain` return what was decided.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from displace.arrays import (
    LONGEST,
    Indices,
    Vectors,
    blocks,
    check_count,
    check_finite,
    check_not_masked,
    check_size,
    l2_normalize,
    plain,
    ranked,
)
from displace.errors import ConditioningWarning, InputError
from displace.fusion.solver.scatter import Scatter
from displace.matches import Matches
from displace.references import ReferenceSet, as_ids, slot_of_each

FLOATS = (np.float32, np.float64)
"""Working precision: float64 stays, everything else becomes float32."""

AS_GIVEN = "as given"
"""Explanation of a fusion with nothing to decide."""


@dataclass(frozen=True, eq=False)
class Rows:
    """What a map stores: a query becomes normalise((q − mean)·projection), and a place scores as its best row."""

    vectors: Vectors
    """Shape (R, n). The score of a row is its inner product with the projected query."""
    place_index: Indices
    """Shape (R,). Index of each row's place in the fusion's `place_ids_`; the rows of one place side by side, places in
    order."""
    projection: Vectors | None = None
    """Shape (D, n). None if nothing is projected (n = D)."""
    mean: Vectors | None = None
    """Shape (D,). None if nothing is subtracted."""

    @property
    def nbytes(self) -> int:
        """Bytes as float32."""
        arrays = (self.vectors, self.projection, self.mean)
        return 4 * sum(array.size for array in arrays if array is not None)

    @cached_property
    def starts(self) -> Indices:
        """Row at which each place's rows start, shape (N,)."""
        return np.searchsorted(self.place_index, np.arange(int(self.place_index[-1]) + 1))

    def project(self, queries: Vectors) -> Vectors:
        """Bring descriptors into the space of the rows."""
        centred = queries if self.mean is None else queries - self.mean
        return l2_normalize(centred if self.projection is None else centred @ self.projection)

    def scores(self, queries: Vectors) -> Vectors:
        """Score of each place for each of the descriptors, shape (q, N): that of its best row."""
        scores: Vectors = self.project(queries) @ self.vectors.T
        if len(self.starts) == len(self.place_index):
            return scores
        return np.maximum.reduceat(scores, self.starts, axis=1)


class Statistics(Protocol):
    """Additive statistics that a fusion can be fitted on instead of references, such as `Scatter`."""

    @property
    def place_ids(self) -> NDArray[Any]:
        """Sorted ids of the places."""

    @property
    def n_references(self) -> int:
        """Number of references."""

    def merge(self, other: Any) -> Any:
        """Take the statistics of other references in; returns self."""

    def subtract(self, other: Any) -> Any:
        """Take the statistics of references out that were merged before; returns self."""

    def astype(self, dtype: Any) -> Any:
        """Return a copy in another precision."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays to store; `Fusion.restored_statistics` is the inverse."""


class Fusion(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of every fusion.

    A subclass defines `_fit` and `_scores`. With `rows` it can be a map; with `statistics` and `from_statistics` that
    map can be updated. Fitted attributes of all fusions are `place_ids_` (sorted; also `classes_`), `n_features_in_`
    and `nbytes_`.
    """

    level: ClassVar[str] = "descriptor"
    """"descriptor" (one comparison with stored vectors) or "score" (whole score matrices are fused)."""

    title: ClassVar[str]
    """Name in tables, as in the paper; by default that of the class."""

    compared: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    """Settings that advice compares, the default first."""

    place_by_place: ClassVar[bool] = False
    """Whether the rows of a place depend on its own references alone, so that some places can be fitted at a time."""

    place_ids_: NDArray[Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "title" not in cls.__dict__:
            cls.title = cls.__name__

    def fit(self, X: ArrayLike, y: ArrayLike, traversals: ArrayLike | None = None) -> Self:
        """Fit on references.

        Parameters
        ----------
        X : array of shape (m, D)
            Reference descriptors.
        y : array of shape (m,)
            Place id of each reference; a place may have any number of references.
        traversals : array of shape (m,), optional
            Traversal of each reference. Without it the j-th reference of a place is in traversal j.
        """
        self._fit(*self._checked(X, y, traversals))
        return self

    def fit_references(self, refs: ReferenceSet) -> Self:
        """Fit on the parts of a reference set that the fusion uses."""
        return self.fit(refs.vectors, refs.places, refs.traversals)

    def rank(self, Q: ArrayLike, k: int = 5) -> Matches:
        """Rank the places for each query.

        Parameters
        ----------
        Q : array of shape (q, D)
            Query descriptors.
        k : int
            Places to return for each query, or all if there are fewer.
        """
        queries = self._check_queries(Q)
        check_count(k, "k")
        columns, scores = ranked(
            len(queries), len(self.place_ids_), k, self._checked_scorer(queries), self._layers()
        )
        return Matches(self.place_ids_[columns], scores)

    def predict(self, Q: ArrayLike) -> NDArray[Any]:
        """Return the best place for each query, shape (q,)."""
        return self.rank(Q, k=1).places[:, 0]

    def rows(self) -> Rows | None:
        """What a map stores of the fitted fusion; None if it needs whole score matrices."""
        return None

    def statistics(self, refs: ReferenceSet) -> Statistics | None:  # noqa: ARG002
        """Statistics of references for `from_statistics`; None if a map of this fusion cannot be updated."""
        return None

    def further_statistics(self, refs: ReferenceSet, before: Any) -> Statistics | None:  # noqa: ARG002
        """Statistics of references that are added to, or removed from, those in `before`."""
        return self.statistics(refs)

    def from_statistics(self, statistics: Any, refs: ReferenceSet | None = None) -> Self:
        """Fit on what `statistics` makes, such as that of a map that is updated.

        If the references themselves are given, settings can be decided by holding traversals out.
        """
        raise NotImplementedError(f"{type(self).__name__} has no statistics to be fitted on")

    def rows_of(self, statistics: Any) -> Vectors:
        """Rows of some places, from their statistics; the fusion must be fitted unless it is `place_by_place`."""
        rows = clone(self).from_statistics(statistics).rows()
        vectors: Vectors = rows.vectors
        return vectors

    def wants_references(self, n_places: int, dim: int, n_traversals: int) -> bool:  # noqa: ARG002
        """Whether `from_statistics` decides better with the references; only if they are few."""
        return False

    def for_blocks(self, places: NDArray[Any], traversals: NDArray[Any]) -> Fusion:  # noqa: ARG002
        """Return the unfitted fusion for references that are read a block of places at a time; by default a clone."""
        same: Fusion = clone(self)
        return same

    @classmethod
    def restored_statistics(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        rows: Vectors,  # noqa: ARG003
        places: NDArray[Any],  # noqa: ARG003
    ) -> Statistics:
        """Return the statistics whose `to_arrays` gave `arrays`; by default a `Scatter`.

        A fusion may need no more than the map's rows as stored, (R, n), and the place id of each, (R,).
        """
        return Scatter.from_arrays(arrays)

    def references_in(self, statistics: Any) -> ReferenceSet | None:  # noqa: ARG002
        """The references, if the statistics contain them; None if they are summed up."""
        return None

    def settings(self) -> dict[str, Any]:
        """Parameters with every "auto" decided, JSON-able: with them, equal references give the same map."""
        found: dict[str, Any] = plain(self.get_params())
        return found

    def explain(self) -> str:
        """Describe in one line which settings were used, and why."""
        return AS_GIVEN

    def outgrown(self, before: Any, after: Any, chosen_at: float | None = None) -> str:  # noqa: ARG002
        """Describe settings that were decided on `before` and may not suit `after`; blank if all do.

        After several updates, `chosen_at` is the `sampling_ratio` at which they were decided.
        """
        return ""

    def spectrum(self) -> Vectors:
        """Eigenvalues in descending order, of which the projection keeps the leading ones; empty without one."""
        return np.empty(0)

    def used(self, refs: ReferenceSet) -> ReferenceSet:
        """The references that the fitted fusion uses; all by default."""
        return refs

    def kept_statistics(self, statistics: Any, refs: ReferenceSet) -> Any:  # noqa: ARG002
        """Return the statistics of `refs` that a map keeps; by default those that the fusion was fitted on."""
        return statistics

    def _checked(
        self, X: ArrayLike, y: ArrayLike, traversals: ArrayLike | None
    ) -> tuple[Vectors, Indices, NDArray[Any] | None]:
        """Check references and learn `place_ids_`; returns vectors, the index of each one's place, and traversals."""
        check_not_masked(X, "X")
        check_not_masked(y, "y")
        given = np.asarray(y)
        # scikit-learn makes text of all that stands beside text.
        if given.ndim == 1 and given.dtype.kind in "OU":
            y = as_ids(y, len(given), "y")
        vectors, places = validate_data(self, X, y, dtype=list(FLOATS), ensure_all_finite=False)
        check_finite(vectors, "X")
        check_size(vectors, "X")
        places = as_ids(places, len(vectors), "y")
        labels = None if traversals is None else as_ids(traversals, len(vectors), "traversals")
        self.place_ids_, index = np.unique(places, return_inverse=True)
        return read_only(vectors), index, None if labels is None else read_only(labels)

    def _check_queries(self, Q: ArrayLike) -> Vectors:
        check_is_fitted(self)
        check_not_masked(Q, "Q")
        queries: Vectors = validate_data(self, Q, dtype=list(FLOATS), ensure_all_finite=False, reset=False)
        check_finite(queries, "Q")
        return read_only(queries)

    @property
    def classes_(self) -> NDArray[Any]:
        """The place ids, under scikit-learn's name."""
        return self.place_ids_

    @property
    @abstractmethod
    def nbytes_(self) -> int:
        """Bytes to store for locating, as float32, the projection included."""

    @abstractmethod
    def _fit(self, X: Vectors, index: Indices, traversals: NDArray[Any] | None) -> None:
        """Learn from checked references; `index` is the row of each one's place in `place_ids_`."""

    @abstractmethod
    def _scores(self, Q: Vectors) -> Vectors:
        """Scores of checked queries against every place, shape (b, N); higher is better."""

    def _scorer(self, Q: Vectors) -> Callable[[slice], Vectors]:
        """Return a function that scores a slice of the queries; override it to see all of them first."""
        return lambda rows: self._scores(Q[rows])

    def _checked_scorer(self, Q: Vectors) -> Callable[[slice], Vectors]:
        """As `_scorer`, with a check of the scores: NaN, or another shape, would rank the wrong places."""
        scores_of = self._scorer(Q)

        def checked(rows: slice) -> Vectors:
            scores = scores_of(rows)
            expected = (len(Q[rows]), len(self.place_ids_))
            if np.shape(scores) != expected:
                raise InputError(
                    f"{self.title}: the scores have shape {np.shape(scores)}, and must have {expected}: a row for "
                    "each query, a column for each place in the order of place_ids_"
                )
            if wrong := int(np.isnan(np.max(scores, axis=1)).sum()):
                raise InputError(
                    f"{self.title}: the scores of {wrong:,} of {len(scores):,} queries are NaN, without order"
                )
            return scores

        return checked

    def _layers(self) -> int:
        """Count the (b, N) arrays that `_scores` holds at one time."""
        return 1


def fit_unwarned(fusion: Fusion, refs: ReferenceSet) -> Fusion:
    """Fit a fusion without the warning that references are few: where some are held out, that is on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConditioningWarning)
        return fusion.fit_references(refs)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """View of an array that cannot be written to: other methods are compared on the same descriptors."""
    view = array.view()
    view.flags.writeable = False
    return view


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a parameter is a real number; infinity and NaN are, True and "0.9" are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Whether a parameter is an integer; True is not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def unit_rows(X: Vectors, order: Indices) -> Vectors:
    """Rows of X in the given order, scaled to unit length; in blocks, so that one copy is held and not two."""
    rows: Vectors = X[order]
    for block in blocks(len(rows), row_bytes=rows.itemsize * rows.shape[1]):
        rows[block] = l2_normalize(rows[block])
    return rows


class VectorFusion(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Fusion):  # type: ignore[misc]
    """A fusion that stores one unit vector for each place and compares transformed queries with them.

    `_fit` sets `place_vectors_`; and where queries are not just normalised, `projection_` (D, n) or `mean_` (D,).
    """

    place_vectors_: Vectors
    projection_: Vectors | None = None
    mean_: Vectors | None = None

    def transform(self, Q: ArrayLike) -> Vectors:
        """Return the queries as unit vectors in the space of `place_vectors_`, shape (q, n)."""
        return self._project(self._check_queries(Q))

    @property
    def _n_features_out(self) -> int:
        """Dimensions of what `transform` returns, for scikit-learn's names of them."""
        return int(self.place_vectors_.shape[1])

    @property
    def nbytes_(self) -> int:
        """Bytes of the place vectors and what projects queries, as float32."""
        return self._stored().nbytes

    def fit(self, X: ArrayLike, y: ArrayLike, traversals: ArrayLike | None = None) -> Self:
        """Fit on references; as `Fusion.fit`, with a check of what `_fit` learned."""
        super().fit(X, y, traversals)
        self._check_lengths()
        return self

    def rows(self) -> Rows | None:
        """The place vectors, one row for each place, and what projects queries."""
        if type(self)._project is not VectorFusion._project:
            raise InputError(
                f"{type(self).__name__} projects queries in a way of its own, which a map cannot store: set "
                "projection_ (D, n) and mean_ (D,) in _fit instead of defining _project, or define rows()"
            )
        self._check_lengths()
        return self._stored()

    def _stored(self) -> Rows:
        vectors, n_places = getattr(self, "place_vectors_", None), len(self.place_ids_)
        if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or len(vectors) != n_places:
            found = f"is of type {type(vectors).__name__}"
            if isinstance(vectors, np.ndarray):
                found = f"has shape {vectors.shape}"
            raise InputError(
                f"{self.title}: place_vectors_ {found}, and must be an array of shape ({n_places}, n): _fit sets one "
                "vector for each place, in the order of place_ids_"
            )
        self._check_projection(vectors.shape[1])
        return Rows(vectors, np.arange(n_places), self.projection_, self.mean_)

    def _check_projection(self, n: int) -> None:
        """Refuse a projection or a mean that cannot bring queries into the space of the place vectors."""
        if type(self)._project is not VectorFusion._project:
            return
        dim = self.n_features_in_
        for name, shape in (("projection_", (dim, n)), ("mean_", (dim,))):
            value = getattr(self, name)
            if value is not None and np.shape(value) != shape:
                raise InputError(f"{self.title}: {name} has shape {np.shape(value)}, and must have {shape}")
        if self.projection_ is None and n != dim:
            raise InputError(
                f"{self.title}: place_vectors_ has {n} columns, and queries {dim}: set projection_ ({dim}, {n}) in _fit"
            )

    def _check_lengths(self) -> None:
        """Refuse rows longer than unit vectors: a long one would be found everywhere."""
        vectors = self._stored().vectors
        lengths = np.sqrt(np.einsum("rn,rn->r", vectors, vectors))
        if len(long := np.flatnonzero(lengths > LONGEST)):
            raise InputError(
                f"{self.title}: row {long[0]} of place_vectors_ has length {lengths[long[0]]:.3g}, and must be a unit "
                "vector, for the score to be a cosine: place_vectors_ = l2_normalize(…), of displace.arrays"
            )

    def _scores(self, Q: Vectors) -> Vectors:
        return self._stored().scores(Q)

    def _project(self, Q: Vectors) -> Vectors:
        return self._stored().project(Q)


class ScoreFusion(Fusion):
    """A fusion of one score matrix for each traversal.

    References are kept in (traversal, place) order. A place that is missing from a traversal scores `missing` there and
    is marked in `present_`; no vectors are made up.
    """

    level = "score"
    missing: ClassVar[float] = 0.0

    reference_vectors_: Vectors
    present_: NDArray[np.bool_]
    """(K, N): whether traversal k has place p."""

    @property
    def nbytes_(self) -> int:
        """Bytes of all references, as float32."""
        return 4 * self.reference_vectors_.size

    def _fit(self, X: Vectors, index: Indices, traversals: NDArray[Any] | None) -> None:
        slots = slot_of_each(index, traversals)
        order = np.lexsort((index, slots))
        self.reference_vectors_ = unit_rows(X, order)
        self.present_ = np.zeros((slots.max() + 1, len(self.place_ids_)), bool)
        self.present_[slots, index] = True

    def _scores(self, Q: Vectors) -> Vectors:
        return self._fuse(self._similarities(Q))

    def _similarities(self, Q: Vectors) -> Vectors:
        """Cosine of each query with each place in each traversal, shape (b, K, N)."""
        flat = l2_normalize(Q) @ self.reference_vectors_.T
        if self.present_.all():
            return flat.reshape(len(Q), *self.present_.shape)
        similarities = np.full((len(Q), *self.present_.shape), self.missing, flat.dtype)
        similarities[:, self.present_] = flat
        return similarities

    @abstractmethod
    def _fuse(self, similarities: Vectors) -> Vectors:
        """Fuse (b, K, N) similarities, which may be overwritten, to (b, N) scores."""

    def _layers(self) -> int:
        return 3 * len(self.present_)
