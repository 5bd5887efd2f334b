"""What a fusion is: a scikit-learn classifier from descriptors to places that can also rank."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from displace.arrays import Indices, Vectors, blocks, check_finite, l2_normalize, ranked
from displace.errors import InputError
from displace.matches import Matches
from displace.references import as_ids, slot_of_each

FLOATS = (np.float32, np.float64)
"""Working precision: float64 stays, everything else becomes float32."""


class Fusion(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of every fusion.

    A subclass defines `_fit` and `_scores`. Fitted attributes of all fusions are `place_ids_` (sorted; also
    `classes_`), `n_features_in_` and `nbytes_`.
    """

    level: ClassVar[str]
    """"descriptor" (one comparison with stored vectors) or "score" (whole score matrices are fused)."""

    title: ClassVar[str]
    """Name in tables, as in the paper."""

    place_ids_: NDArray[Any]

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
        vectors, places = validate_data(self, X, y, dtype=list(FLOATS), ensure_all_finite=False)
        check_finite(vectors, "X")
        _check_ids(as_ids(places, len(vectors), "y"))
        labels = None if traversals is None else as_ids(traversals, len(vectors), "traversals")
        self.place_ids_, index = np.unique(places, return_inverse=True)
        self._fit(vectors, index, labels)
        return self

    def rank(self, Q: ArrayLike, k: int = 5) -> Matches:
        """Rank the places for each query.

        Parameters
        ----------
        Q : array of shape (q, D)
            Query descriptors.
        k : int
            Places to return for each query; all of them where there are fewer.
        """
        queries = self._check_queries(Q)
        if not (is_whole(k) and k >= 1):
            raise InputError(f"k={k!r} must be a whole number of at least 1")
        columns, scores = ranked(len(queries), len(self.place_ids_), k, self._scorer(queries), self._layers())
        return Matches(self.place_ids_[columns], scores)

    def predict(self, Q: ArrayLike) -> NDArray[Any]:
        """Return the best place for each query, shape (q,)."""
        return self.rank(Q, k=1).places[:, 0]

    def stored_rows(self) -> tuple[Vectors, Indices]:
        """Rows (R, n) whose inner product with a transformed query is the score, and the place index of each.

        A place scores as its best row. Fusions of whole score matrices have no such rows.
        """
        raise InputError(
            f"{self.title} needs whole score matrices and exists for evaluation only; a map can hold "
            "displace, hops, pooling, single and dmat_avg"
        )

    def _check_queries(self, Q: ArrayLike) -> Vectors:
        check_is_fitted(self)
        queries: Vectors = validate_data(self, Q, dtype=list(FLOATS), ensure_all_finite=False, reset=False)
        check_finite(queries, "Q")
        return queries

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
        """Return what scores a slice of the queries; a fusion that must see all of them first looks here."""
        return lambda rows: self._scores(Q[rows])

    def _layers(self) -> int:
        """Count the (b, N) arrays that `_scores` holds at one time."""
        return 1


def _check_ids(places: NDArray[Any]) -> None:
    """Refuse numbers that cannot be names of places."""
    if places.dtype.kind == "f" and np.any(places != np.floor(places)):
        raise InputError(
            "Unknown label type: continuous. Place ids must be integers or strings; "
            f"got {places[places != np.floor(places)][0]}"
        )


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


class VectorFusion(TransformerMixin, Fusion):  # type: ignore[misc]
    """A fusion that stores one unit vector for each place and compares transformed queries with them."""

    level = "descriptor"
    place_vectors_: Vectors

    def transform(self, Q: ArrayLike) -> Vectors:
        """Return the queries as unit vectors in the space of `place_vectors_`, shape (q, n)."""
        return self._project(self._check_queries(Q))

    @property
    def nbytes_(self) -> int:
        """Bytes of the place vectors, as float32."""
        return 4 * self.place_vectors_.size

    def stored_rows(self) -> tuple[Vectors, Indices]:
        """The place vectors, one row for each place."""
        return self.place_vectors_, np.arange(len(self.place_ids_))

    def _scores(self, Q: Vectors) -> Vectors:
        scores: Vectors = self._project(Q) @ self.place_vectors_.T
        return scores

    def _project(self, Q: Vectors) -> Vectors:
        return l2_normalize(Q)


class ScoreFusion(Fusion):
    """A fusion of one score matrix for each traversal.

    References are kept in (traversal, place) order. Where a place is missing from a traversal its score is
    `missing`, and `present_` says so; nothing is filled with vectors.
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
