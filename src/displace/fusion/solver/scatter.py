"""Within- and between-place statistics that can be added to, removed from and merged.

Counts K_p, place means μ_p and the unnormalised within scatter W = Σ (r − μ_p)(r − μ_p)ᵀ determine DisPlace
completely. Adding r to a place with k references and mean μ_p changes W by k/(k+1)·(r−μ_p)(r−μ_p)ᵀ (Welford), so
references are taken in rounds in which each place occurs once, and each round is one symmetric rank-N update.
The shorter "second moment minus means" loses 35 times as much accuracy to cancellation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from displace.arrays import Indices, Vectors, blocks, l2_normalize
from displace.errors import InputError
from displace.files.disk_rows import DiskRows
from displace.files.tensors import pack_labels, unpack_labels
from displace.references import occurrence

ROUNDING = 8
"""Spacings of floating-point numbers, of a reference's length, up to which references and means are equal: in their own
span (`thin_basis`) equal ones differ by about one."""
MAX_COUNT = 2**31
MAX_MEAN = 1e18
"""Largest count and mean that statistics in a file may have: their squares are still numbers."""


@dataclass
class Scatter:
    """Statistics of a set of references."""

    place_ids: NDArray[Any]
    """Shape (N,), sorted."""
    counts: Indices
    """Shape (N,). References of each place, at least 1."""
    means: Vectors
    """Shape (N, D). Place means; `DiskRows` where they are too many for memory, for everything but adding and
    removing."""
    within: Vectors
    """Shape (D, D). W, unnormalised, Fortran-ordered; only the lower triangle is kept."""

    @classmethod
    def empty(
        cls, dim: int, dtype: Any = np.float32, ids: Any = np.int64, *, means_only: bool = False
    ) -> Scatter:
        """Return the statistics of no references; with `means_only`, W stays empty and is never updated."""
        size = 0 if means_only else dim
        return cls(
            np.empty(0, ids),
            np.empty(0, np.intp),
            np.empty((0, dim), dtype),
            np.zeros((size, size), dtype, order="F"),
        )

    @classmethod
    def of(cls, vectors: Vectors, places: NDArray[Any], *, means_only: bool = False) -> Scatter:
        """Return the statistics of references, float32 unless the vectors are float64."""
        dtype = np.float64 if vectors.dtype == np.float64 else np.float32
        scatter = cls.empty(vectors.shape[1], dtype, places.dtype, means_only=means_only)
        return scatter.add(vectors, places)

    def copy(self) -> Scatter:
        """Return a copy whose changes leave this one alone."""
        return Scatter(
            self.place_ids.copy(), self.counts.copy(), self.means.copy(), self.within.copy(order="F")
        )

    def astype(self, dtype: Any) -> Scatter:
        """Return a copy in another precision."""
        return Scatter(
            self.place_ids, self.counts.copy(), self.means.astype(dtype), self.within.astype(dtype, order="F")
        )

    @property
    def n_references(self) -> int:
        """Number of references m = Σ K_p."""
        return int(self.counts.sum())

    @property
    def freedom(self) -> int:
        """Degrees of freedom of S_W: Σ (K_p − 1), an upper bound of its rank."""
        return self.n_references - len(self.counts)

    @property
    def sampling_ratio(self) -> float:
        """γ = D / Σ (K_p − 1): how poorly the references determine S_W (infinite for one reference a place)."""
        dim = self.means.shape[1]
        return dim / self.freedom if self.freedom else float("inf")

    @property
    def mean(self) -> Vectors:
        """μ, the mean of the place means (in float64, as N can be large)."""
        if not self.is_on_disk:
            mean: Vectors = self.means.mean(axis=0, dtype=np.float64)
            return mean
        total = np.zeros(self.means.shape[1])
        for rows in self._blocks(len(self.means)):
            total += self.means[rows].sum(axis=0, dtype=np.float64)
        return total / len(self.means)

    def mean_square(self) -> float:
        """Mean over the references of the squared length of their place's mean."""
        total = 0.0
        for rows in self._blocks(len(self.means)):
            part = self.means[rows]
            total += float(self.counts[rows] @ np.einsum("nd,nd->n", part, part, dtype=np.float64))
        return total / self.n_references if self.n_references else 0.0

    @property
    def rounding(self) -> float:
        """Length up to which a difference between references is rounding."""
        length = float(np.sqrt(self.within_trace() + self.mean_square()))
        return ROUNDING * float(np.finfo(self.within.dtype).eps) * length

    def means_are_equal(self) -> bool:
        """Whether all places have the same mean, but for rounding."""
        first, limit = self.means[:1], self.rounding
        return not any(
            np.any(np.abs(self.means[rows] - first) > limit) for rows in self._blocks(len(self.means))
        )

    def projected(self, projection: Vectors, mean: Vectors) -> Vectors:
        """Place means as unit vectors of the projected space, (N, n); on disk if the means are."""
        if not self.is_on_disk:
            return l2_normalize((self.means - mean) @ projection)
        means: Any = self.means
        on_disk: Any = DiskRows(means.path.with_suffix(".projected"), projection.shape[1], projection.dtype)
        for rows in self._blocks(len(self.means)):
            on_disk.append(l2_normalize((means[rows] - mean) @ projection))
        rows_on_disk: Vectors = on_disk
        return rows_on_disk

    @property
    def is_on_disk(self) -> bool:
        """Whether the means are rows in a file."""
        means: Any = self.means
        return isinstance(means, DiskRows)

    def _blocks(self, n_rows: int) -> Iterator[slice]:
        """Slices of so many rows as the means are, a bounded number of bytes each."""
        return blocks(n_rows, row_bytes=self.means.itemsize * self.means.shape[1])

    def within_trace(self) -> float:
        """tr(S_W)."""
        if not self.n_references:
            return 0.0
        return float(np.trace(self.within, dtype=np.float64)) / self.n_references

    def between_rows(self, rows: slice = slice(None), mean: Vectors | None = None) -> Vectors:
        """Return the rows of B, shape (N, D), with S_B = BᵀB; all of them, or a slice with the `mean` at hand."""
        B: Vectors = self.means[rows] - (self.mean if mean is None else mean).astype(self.means.dtype)
        B /= np.sqrt(len(self.means)).astype(B.dtype)
        return B

    def between(self) -> Vectors:
        """Return S_B, its lower triangle, without holding B."""
        S_B, mean = np.zeros_like(self.within), self.mean
        (syrk,) = get_blas_funcs(("syrk",), (S_B,))
        for rows in self._blocks(len(self.means)):
            S_B = syrk(1, self.between_rows(rows, mean).T, beta=1, c=S_B, lower=True, overwrite_c=1)
        return S_B

    def add(self, vectors: Vectors, places: NDArray[Any]) -> Scatter:
        """Add references of known or new places; returns self."""
        self._check(vectors, places)
        self._make_room_for(np.unique(places))
        index = np.searchsorted(self.place_ids, places)
        for rows in self._rounds(index):
            at = index[rows]
            k = self.counts[at].astype(self.means.dtype)
            deviation = vectors[rows] - self.means[at]
            self.means[at] += deviation / (k + 1)[:, None]
            self._update(deviation, k / (k + 1))
            self.counts[at] += 1
        return self

    def remove(self, vectors: Vectors, places: NDArray[Any]) -> Scatter:
        """Remove references that were added before, and places left without any; returns self."""
        self._check(vectors, places)
        self._check_removable(*np.unique(places, return_counts=True))
        index = np.searchsorted(self.place_ids, places)
        for rows in self._rounds(index):
            at = index[rows]
            k = self.counts[at].astype(self.means.dtype)
            rest = np.maximum(k - 1, 1)
            deviation = vectors[rows] - self.means[at]
            self.means[at] -= deviation / rest[:, None]
            self._update(deviation, np.where(k > 1, k / rest, 0), sign=-1)
            self.counts[at] -= 1
        return self._without_empty()

    def merge(self, other: Scatter) -> Scatter:
        """Add the statistics of other references, of the same or of other places; returns self."""
        if other.means.shape[1] != self.means.shape[1]:
            raise InputError(
                f"cannot merge statistics of D={other.means.shape[1]} into statistics of D={self.means.shape[1]}"
            )
        self._make_room_for(other.place_ids)
        self.within += other.within
        at = np.searchsorted(self.place_ids, other.place_ids)
        for rows in self._blocks(len(at)):
            k = self.counts[at[rows]].astype(self.means.dtype)
            j = other.counts[rows].astype(self.means.dtype)
            deviation = other.means[rows] - self.means[at[rows]]
            self.means[at[rows]] += deviation * (j / (k + j))[:, None]
            self._update(deviation, k * j / (k + j))
        self.counts[at] += other.counts
        return self

    def subtract(self, other: Scatter) -> Scatter:
        """Remove the statistics of references that were merged before, and places left without any.

        The parallel-variance formula backwards: the rest's mean is (kμ − jν)/(k − j), and W loses the other's W and
        j(k − j)/k of the square of the difference between the two means. Returns self.
        """
        self._check_removable(other.place_ids, other.counts)
        self.within -= other.within
        at = np.searchsorted(self.place_ids, other.place_ids)
        for rows in self._blocks(len(at)):
            k = self.counts[at[rows]].astype(self.means.dtype)
            j = other.counts[rows].astype(self.means.dtype)
            rest = np.maximum(k - j, 1)
            # The rest's mean − the mean before.
            shift = (self.means[at[rows]] - other.means[rows]) * (j / rest)[:, None]
            deviation = self.means[at[rows]] + shift - other.means[rows]
            self._update(deviation, (k - j) * j / k, sign=-1)
            self.means[at[rows]] += shift
        self.counts[at] -= other.counts
        return self._without_empty()

    def numbered(self) -> Scatter:
        """Return the same statistics with 0 … N−1 as place ids; the arrays are shared."""
        return Scatter(np.arange(len(self.place_ids)), self.counts, self.means, self.within)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays to store, in float32: counts, means, ids, and W packed to a triangle."""
        means: Any = self.means
        arrays: dict[str, NDArray[Any]] = {
            "counts": self.counts.astype(np.int64),
            "means": means.mapped() if self.is_on_disk else means.astype(np.float32, copy=False),
            **pack_labels("place_ids", self.place_ids),
        }
        if self.within.size:
            (pack,) = get_lapack_funcs(("trttp",), dtype=np.float32)
            within = self.within.astype(np.float32, order="F", copy=False)
            arrays["within"] = pack(within, uplo="L")[0]
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Scatter:
        """Return the statistics of `to_arrays`; ValueError or KeyError if they are inconsistent."""
        ids, means = unpack_labels("place_ids", dict(arrays)), np.array(arrays["means"])
        counts = np.array(arrays["counts"], np.intp)
        if means.ndim != 2 or counts.ndim != 1 or not 0 < len(ids) == len(counts) == len(means):
            raise ValueError(f"{len(ids)} places, {counts.shape} counts and means of shape {means.shape}")
        if counts.min() < 1 or counts.max() > MAX_COUNT or arrays["counts"].dtype.kind != "i":
            raise ValueError("counts of references below 1, or too many to be true")
        if means.dtype != np.float32 or not np.isfinite(means).all() or np.abs(means).max() > MAX_MEAN:
            raise ValueError("means that are no numbers, or too large")
        if not (ids[1:] > ids[:-1]).all():
            raise ValueError("place ids are out of order")
        within = np.zeros((0, 0), np.float32, order="F")
        if "within" in arrays:
            dim, packed = means.shape[1], np.array(arrays["within"])
            if packed.shape != (dim * (dim + 1) // 2,):
                raise ValueError(f"scatter of {packed.size} numbers for {dim} dimensions")
            if packed.dtype != np.float32 or not np.isfinite(packed).all():
                raise ValueError("a scatter with values that are no numbers")
            (unpack,) = get_lapack_funcs(("tpttr",), dtype=np.float32)
            within = np.asfortranarray(unpack(dim, packed, uplo="L")[0])
        return cls(ids, counts, means, within)

    def _rounds(self, index: Indices) -> Iterator[Indices]:
        """Rows in which every place occurs at most once, a bounded number at a time."""
        turn = occurrence(index)
        order = np.argsort(turn, kind="stable")
        for rows in np.split(order, np.cumsum(np.bincount(turn))[:-1]) if len(order) else []:
            for block in self._blocks(len(rows)):
                yield rows[block]

    def _update(self, deviation: Vectors, weight: Vectors, sign: int = 1) -> None:
        """W += sign · Σ weight · deviation deviationᵀ, in place."""
        if self.within.size == 0:
            return
        used = weight > 0
        rows = deviation if used.all() else deviation[used]
        rows = np.ascontiguousarray(rows * np.sqrt(weight[used])[:, None], dtype=self.within.dtype)
        (syrk,) = get_blas_funcs(("syrk",), (self.within,))
        self.within = syrk(sign, rows.T, beta=1, c=self.within, lower=True, overwrite_c=1)

    def _make_room_for(self, ids: NDArray[Any]) -> None:
        """Give the places `ids` rows with a count of 0, keeping the ids sorted."""
        joined = np.union1d(self.place_ids, ids)
        if len(joined) == len(self.place_ids):
            return
        at = np.searchsorted(joined, self.place_ids)
        means = np.zeros((len(joined), self.means.shape[1]), self.means.dtype)
        counts = np.zeros(len(joined), np.intp)
        means[at], counts[at] = self.means, self.counts
        self.place_ids, self.counts, self.means = joined, counts, means

    def _without_empty(self) -> Scatter:
        """Drop places without references; returns self."""
        left = self.counts > 0
        if not left.all():
            self.place_ids, self.counts, self.means = (
                self.place_ids[left],
                self.counts[left],
                self.means[left],
            )
        if self.freedom == 0:
            self.within[:] = 0  # only rounding is left there
        return self

    def _check(self, vectors: Vectors, places: NDArray[Any]) -> None:
        if vectors.ndim != 2 or vectors.shape != (len(places), self.means.shape[1]):
            raise InputError(
                f"vectors must have shape ({len(places)}, {self.means.shape[1]}): one row for each place id, "
                f"D as before; got {vectors.shape}"
            )

    def _check_removable(self, ids: NDArray[Any], counts: Indices) -> None:
        known = np.isin(ids, self.place_ids)
        if not known.all():
            raise InputError(
                f"cannot remove references of places that are not there: {ids[~known][:5].tolist()}"
            )
        at = np.searchsorted(self.place_ids, ids)
        over = counts > self.counts[at]
        if over.any():
            worst = np.flatnonzero(over)[0]
            raise InputError(
                f"cannot remove {counts[worst]} references of place {ids.tolist()[worst]!r}: "
                f"it has {self.counts[at][worst]}"
            )
