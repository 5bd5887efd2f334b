"""The interface of search backends: the best rows by inner product, in memory, in files or in a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self

import numpy as np

from displace.arrays import LARGEST, Indices, Vectors
from displace.errors import InputError
from displace.files.reading import PathLike
from displace.geo import Area
from displace.holdout import spread
from displace.progress import Stage
from displace.registry import check_known
from displace.search._top import best_rows

SAMPLE = 100
"""Queries with which the recall of a new index is measured."""
GOAL = 0.99
"""Recall that an approximate index must reach, or increase its search effort."""


ROUNDING = 1e-6
"""By how much the score of a row may exceed that of a better one, where a backend has rounded them in other ways."""


class Index(ABC):
    """Rows to be searched by inner product.

    Made by `build` or `open`. A subclass defines these two, `search` and `save`.
    """

    kinds: ClassVar[tuple[str, ...]]
    """How rows can be kept, the default first."""

    takes_areas: ClassVar[bool] = False
    """Whether `among` may be an `Area`: the backend knows where the rows are."""

    kind: str
    """One of `kinds`: how rows are kept."""
    n_rows: int
    dim: int
    """R and n."""
    recall: float | None = None
    """Share of `SAMPLE` queries whose best row is that of an exact search over the rows as given; None if it was not
    measured, because the index was opened from a file."""

    @classmethod
    @abstractmethod
    def build(cls, rows: Vectors, kind: str = "", uri: str = "", *, progress: Stage | None = None) -> Self:
        """Make an index.

        Parameters
        ----------
        rows : array of shape (R, n)
            float16 or float32; may be memory-mapped, and is then read in blocks.
        kind : str
            One of `kinds`; by default the rows' own type where it is one of them, else the first.
        uri : str
            Where to make it, for backends that live elsewhere (``postgresql://…#name``).
        progress : callable, optional
        """

    @classmethod
    @abstractmethod
    def open(cls, uri: PathLike) -> Self:
        """Open an index that `save` wrote or `build` made elsewhere, without reading all of its rows."""

    @abstractmethod
    def search(
        self, queries: Vectors, k: int, among: Indices | Area | None = None
    ) -> tuple[Indices, Vectors]:
        """Return the best rows of each query and their scores, best first.

        Parameters
        ----------
        queries : array of shape (q, n)
        k : int
        among : array of row numbers, optional
            Search exactly among these rows only, whatever the kind. Backends with `takes_areas` take an `Area` as well.

        Returns
        -------
        rows, scores : arrays of shape (q, min(k, rows searched))
        """

    @abstractmethod
    def save(self, uri: PathLike) -> None:
        """Write the index, for `open`."""

    @classmethod
    def chosen_kind(cls, kind: str, rows: Vectors) -> str:
        """Return `kind`, or the default for these rows; an unknown one is an error."""
        cls.check_kind(kind)
        return kind or (rows.dtype.name if rows.dtype.name in cls.kinds else cls.kinds[0])

    @classmethod
    def check_kind(cls, kind: str) -> None:
        """Refuse an unknown kind; "" is the default."""
        if kind:
            check_known(f"kind of {cls.__module__.rsplit('.', 1)[-1]} index", [kind], cls.kinds)

    def measure_recall(self, rows: Vectors) -> float:
        """Share of noisy rows, taken as queries, for which `search` finds the row that an exact search finds."""
        queries = noisy_sample(rows, SAMPLE)
        exact, _ = best_rows(queries, rows, 1)
        found, _ = self.search(queries, 1)
        return float((found[:, 0] == exact[:, 0]).mean()) if len(queries) else 1.0


def check_found(index: Index, rows: Indices, scores: Vectors, shape: tuple[int, int]) -> None:
    """Refuse what is no answer to a search, (queries, k): other places would be found, as sure as the right ones."""
    name = type(index).__name__
    if np.shape(rows) != shape or np.shape(scores) != shape:
        raise InputError(
            f"{name}.search returned rows of shape {np.shape(rows)} and scores of shape {np.shape(scores)}, and both "
            f"must have {shape}: the best k rows of each query"
        )
    kind = np.asarray(rows).dtype.kind
    if kind not in "iu" or np.min(rows, initial=0) < 0 or np.max(rows, initial=0) >= index.n_rows:
        raise InputError(
            f"{name}.search must return rows as whole numbers from 0 to {index.n_rows - 1}, without a filler such as -1"
        )
    falling = scores[:, 1:] <= scores[:, :-1] + ROUNDING
    if not np.all(falling) or np.isnan(scores).any():
        raise InputError(
            f"{name}.search must return inner products, the greatest first: its scores are distances, or not sorted"
        )


def noisy_sample(rows: Vectors, n: int) -> Vectors:
    """Up to `n` rows, evenly spread, with noise of their own length, as queries; always the same."""
    sample = np.asarray(rows[spread(len(rows), n)], np.float32)
    noise = np.random.default_rng(0).standard_normal(sample.shape).astype(np.float32)
    length = np.linalg.norm(sample, axis=1, keepdims=True)
    noisy: Vectors = sample + noise * (length / np.float32(np.sqrt(max(1, sample.shape[1]))))
    return noisy


def checked_queries(queries: Vectors, dim: int) -> Vectors:
    """Queries as float32 (q, n)."""
    queries = np.asarray(queries, np.float32)
    if queries.ndim != 2 or queries.shape[1] != dim:
        raise InputError(f"queries must have shape (q, {dim}); got {queries.shape}")
    if np.abs(queries).max(initial=0) > LARGEST:
        raise InputError(f"queries have numbers beyond ±{LARGEST:g}: scale them, such as to unit length")
    return queries


def as_rows(among: Indices | Area | None, n_rows: int) -> Indices | None:
    """Check row numbers to search among; None stays None."""
    if among is None:
        return None
    if isinstance(among, Area):
        raise InputError("this search backend does not know where its rows are: give row numbers")
    rows = np.asarray(among, np.intp)
    if rows.ndim != 1 or (len(rows) and not 0 <= rows.min() <= rows.max() < n_rows):
        raise InputError(f"among must be row numbers from 0 to {n_rows - 1}; got {among!r}")
    return np.unique(rows)
