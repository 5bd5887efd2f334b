"""References: descriptors with the place and the traversal that each belongs to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from displace.arrays import LARGEST_KEPT, Indices, Vectors, as_labels, as_vectors, check_size, is_named
from displace.errors import InputError
from displace.files.tensors import MAX_LABEL
from displace.places import Places

MAX_ID = 2**63 - 1
"""Largest number that can be an id."""


@dataclass(frozen=True, eq=False)
class ReferenceSet:
    """Reference descriptors as one flat table; a place may be missing from any traversal.

    Parameters
    ----------
    vectors : array of shape (m, D)
        Descriptors, used as given (not normalised).
    places : array of shape (m,)
        Place id of each vector: integers or strings.
    traversals : array of shape (m,), optional
        Traversal of each vector. Without it the j-th reference of a place belongs to traversal j.
    groups : array of shape (m,), optional
        View of each vector, such as a heading or a camera: vectors of one place and group show the same.
    info : Places, optional
        Positions, images and order of the places; it must contain every place of the references.

    Examples
    --------
    >>> import numpy as np
    >>> refs = ReferenceSet(np.eye(4), places=[0, 1, 0, 1], traversals=["sun", "sun", "rain", "rain"])
    >>> refs
    ReferenceSet(4 references of 2 places in 2 traversals, D=4)
    >>> refs.without("rain").places
    array([0, 1])
    """

    vectors: Vectors
    places: NDArray[Any]
    traversals: NDArray[Any]
    groups: NDArray[Any] | None
    info: Places

    def __init__(
        self,
        vectors: ArrayLike,
        places: ArrayLike,
        traversals: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        info: Places | None = None,
    ) -> None:
        vectors = as_vectors(vectors)
        check_size(vectors, limit=LARGEST_KEPT)
        places = as_ids(places, len(vectors), "places")
        if traversals is None:
            traversals = occurrence(np.unique(places, return_inverse=True)[1])
        object.__setattr__(self, "vectors", vectors)
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "traversals", as_ids(traversals, len(vectors), "traversals"))
        given = None if groups is None else as_ids(groups, len(vectors), "groups")
        object.__setattr__(self, "groups", given)
        object.__setattr__(self, "info", _info_of(np.unique(places), info))

    @classmethod
    def from_traversals(
        cls, traversals: Mapping[str, ArrayLike], places: Sequence[Any] | None = None
    ) -> ReferenceSet:
        """Join traversals whose row i is place i.

        Parameters
        ----------
        traversals : mapping of name to array of shape (N, D)
            One array for each traversal, all of one shape.
        places : sequence of N ids, optional
            Place ids; by default 0 … N−1.
        """
        if not isinstance(traversals, Mapping):
            raise InputError(
                f"traversals must be a mapping of name to array; got {type(traversals).__name__}: give "
                '{"sun": …, "rain": …}'
            )
        if not traversals:
            raise InputError("traversals is empty: give at least one traversal")
        names = as_ids(list(traversals), len(traversals), "traversals")
        arrays = {name: as_vectors(array, f"traversals[{name!r}]") for name, array in traversals.items()}
        shapes = {name: array.shape for name, array in arrays.items()}
        if len(set(shapes.values())) > 1:
            raise InputError(
                f"traversals must have one shape, row i being place i; got {shapes}. "
                "Where places are missing, use ReferenceSet(vectors, places, traversals)"
            )
        n = len(next(iter(arrays.values())))
        ids = np.arange(n) if places is None else as_ids(places, n, "places")
        return cls(
            np.concatenate(list(arrays.values())),
            np.tile(ids, len(arrays)),
            np.repeat(names, n),
        )

    @property
    def place_ids(self) -> NDArray[Any]:
        """Sorted ids of the places."""
        return self.info.ids

    @property
    def dim(self) -> int:
        """D."""
        return int(self.vectors.shape[1])

    @cached_property
    def traversal_ids(self) -> NDArray[Any]:
        """Sorted names of the traversals."""
        return np.unique(self.traversals)

    def select(self, keep: NDArray[np.bool_] | Indices) -> ReferenceSet:
        """Return the references at `keep`, a mask or indices."""
        try:
            rows = np.arange(len(self))[keep]
        except IndexError as error:
            raise InputError(f"keep does not fit {len(self)} references: {error}") from None
        if np.array_equal(rows, np.arange(len(self))):  # a copy of all would be as large as they are
            return self
        groups = None if self.groups is None else self.groups[rows]
        return ReferenceSet(
            self.vectors[rows], self.places[rows], self.traversals[rows], groups=groups, info=self.info
        )

    def astype(self, dtype: Any) -> ReferenceSet:
        """Return the references in another precision, float32 or float64."""
        return replace(self, vectors=self.vectors.astype(dtype))

    def only(self, *traversals: Any) -> ReferenceSet:
        """Return the references of the named traversals."""
        return self.select(self._in(traversals))

    def without(self, *traversals: Any) -> ReferenceSet:
        """Return the references of all other traversals.

        `info` stays as it is, even if it comes from the traversals that are left out;
        ``store.references(exclude=[…])`` takes images and positions from the others only.
        """
        return self.select(~self._in(traversals))

    def _in(self, traversals: tuple[Any, ...]) -> NDArray[np.bool_]:
        known = self.traversal_ids.tolist()
        for name in traversals:
            if name not in known:
                raise InputError(f"no traversal {name!r}; there are {', '.join(map(str, known))}")
        return np.isin(self.traversals, np.array(traversals))

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        return (
            f"ReferenceSet({len(self)} references of {len(self.place_ids)} places "
            f"in {len(self.traversal_ids)} traversals, D={self.vectors.shape[1]})"
        )


@dataclass(frozen=True, eq=False)
class ReferenceStream:
    """References that are read when they are needed, such as those of a store that is larger than memory."""

    places: NDArray[Any]
    traversals: NDArray[Any]
    """Both of shape (m,)."""
    info: Places
    """What is known of the places."""
    dim: int
    """D."""
    read: Callable[[Indices], Vectors]
    """Takes row numbers, ascending, and returns their vectors, shape (b, D)."""
    rows: Indices | None = None
    """Shape (m,). Row of each in the store that they come from."""
    groups: NDArray[Any] | None = None
    """Shape (m,). View of each, as in `ReferenceSet`."""

    def __len__(self) -> int:
        return len(self.places)

    @property
    def nbytes(self) -> int:
        """Bytes of all references as float32."""
        return 4 * len(self) * self.dim

    def take(self, rows: Indices) -> ReferenceSet:
        """Read some of the references."""
        groups = None if self.groups is None else self.groups[rows]
        return ReferenceSet(
            self.read(rows), self.places[rows], self.traversals[rows], groups=groups, info=self.info
        )


def _info_of(ids: NDArray[Any], info: Places | None) -> Places:
    """What is known of the places `ids`."""
    if info is None:
        return Places(ids)
    if len(info) == len(ids) and bool(np.all(info.ids == ids)):
        return info
    rows = info.rows_of(ids)
    if (rows < 0).any():
        raise InputError(
            f"info knows nothing of place {ids[rows < 0][0]!r}; it must have every place of the references"
        )
    return info.take(rows)


def as_ids(values: ArrayLike, n: int, name: str) -> NDArray[Any]:
    """Return one id for each of `n` rows, as 64-bit integers or text; ids that files cannot store are refused.

    Whole numbers of any type become integers (a column of a table that once held NaN is floating-point).

    >>> as_ids([1.0, 7.0], 2, "places")
    array([1, 7])
    """
    ids = as_labels(values, n, name)
    if ids.dtype.kind == "U" and not isinstance(values, np.ndarray):
        ids = np.array(values, dtype=object)  # numpy made text of all, even of numbers among them
    if ids.dtype.kind in "fO":
        ids = _plain(ids, name)
    if ids.dtype.kind == "T":
        ids = ids.astype(np.str_)
    if ids.dtype.kind == "U":
        _check_text(ids, name)
        return ids
    if ids.dtype.kind not in "iu":
        way_out = "decode them first" if ids.dtype.kind == "S" else "use whole numbers or strings"
        raise InputError(f"{name} are {ids.dtype}, such as {ids[0]!r}, which are no names: {way_out}")
    if ids.dtype == np.uint64 and n and ids.max() > MAX_ID:
        raise InputError(f"{name} has {ids.max()}, which is above {MAX_ID}: use strings")
    return ids.astype(np.int64, copy=False)


def _plain(ids: NDArray[Any], name: str) -> NDArray[Any]:
    """Objects and floating-point numbers as integers or text."""
    listed = ids.tolist()
    nameless = [row for row, value in enumerate(listed) if not is_named(value)]
    if nameless:
        raise InputError(
            f"{name} has {listed[nameless[0]]} in row {nameless[0]}, which names nothing: name it, or drop the row"
        )
    kinds = {isinstance(value, str): value for value in listed}
    if len(kinds) > 1:
        raise InputError(
            f"{name} has both {kinds[True]!r} and {kinds[False]!r}: use strings only, or numbers only"
        )
    if True in kinds:
        for row, value in enumerate(listed):
            if value.endswith("\0"):  # numpy would leave it out
                raise InputError(
                    f"{name} has {value!r} in row {row}, which ends with a NUL character: rename it"
                )
        longest = max(map(len, listed))
        if longest > MAX_LABEL:
            raise InputError(f"{name} has a name of {longest} characters; at most {MAX_LABEL} are possible")
        return np.array(listed, dtype=np.str_)
    return np.array([_integer(value, name) for value in listed], dtype=np.int64)


def _integer(value: Any, name: str) -> int:
    """A whole number of any type as an integer."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or abs(value) == np.inf or value != int(value):
        raise InputError(
            f"Unknown label type: {name} must be integers or strings; got {value!r} of type {type(value).__name__}"
        )
    limit = MAX_ID if isinstance(value, int | np.integer) else 2**53  # beyond, floating point skips numbers
    if abs(int(value)) > limit:
        raise InputError(f"{name} has a number beyond ±{limit}: use strings")
    return int(value)


def _check_text(ids: NDArray[np.str_], name: str) -> None:
    """Refuse names that files cannot store: with NUL or surrogates, or too long."""
    width = ids.dtype.itemsize // 4
    if not width or not len(ids):
        return
    points = np.ascontiguousarray(ids).view(np.uint32).reshape(len(ids), width)
    inner = (points[:, :-1] == 0) & (points[:, 1:] != 0)
    halves = (points >= 0xD800) & (points < 0xE000)
    for wrong, what in ((inner, "a NUL character"), (halves, "what is no valid text")):
        if wrong.any():
            row = int(wrong.any(axis=1).argmax())
            raise InputError(f"{name} has {ids[row]!r} in row {row}, with {what} in it: rename it")
    if width > MAX_LABEL and (longest := int(np.char.str_len(ids).max())) > MAX_LABEL:
        raise InputError(f"{name} has a name of {longest} characters; at most {MAX_LABEL} are possible")


def occurrence(groups: Indices) -> Indices:
    """How many times each entry's value has occurred before it.

    >>> occurrence(np.array([7, 7, 3, 7]))
    array([0, 1, 0, 2])
    """
    order = np.argsort(groups, kind="stable")
    sorted_groups = groups[order]
    starts = np.flatnonzero(np.r_[True, sorted_groups[1:] != sorted_groups[:-1]])
    lengths = np.diff(np.r_[starts, len(groups)])
    counts = np.empty(len(groups), np.intp)
    counts[order] = np.arange(len(groups)) - np.repeat(starts, lengths)
    return counts


def rows_of_each(index: Indices) -> list[Indices]:
    """Rows of each group, in order of the groups.

    >>> [rows.tolist() for rows in rows_of_each(np.array([7, 3, 7]))]
    [[1], [0, 2]]
    """
    order = np.argsort(index, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(index[order])) + 1)


def slot_of_each(place_index: Indices, traversals: NDArray[Any] | None) -> Indices:
    """Number the slots, 0 … K−1, so that each holds a place at most once.

    A slot is a traversal; a second image of one place in one traversal opens a further slot, its neighbour. Without
    traversals the j-th reference of a place is in slot j.
    """
    if len(place_index) == 0:
        return np.empty(0, np.intp)
    if traversals is None:
        return occurrence(place_index)
    traversal_index = np.unique(traversals, return_inverse=True)[1]
    repeat = occurrence(place_index + traversal_index * (place_index.max() + 1))
    pairs = np.stack([traversal_index, repeat], axis=1)
    return np.unique(pairs, axis=0, return_inverse=True)[1].ravel()


def sum_by(vectors: Vectors, index: Indices, n: int) -> Vectors:
    """Sum the vectors of each group, shape (n, D), in rounds in which each group occurs once.

    >>> sum_by(np.array([[1.0], [2.0], [4.0]]), np.array([0, 1, 0]), 2)
    array([[5.],
           [2.]])
    """
    sums = np.zeros((n, vectors.shape[1]), vectors.dtype)
    turn = occurrence(index)
    for rows in (np.flatnonzero(turn == t) for t in range(turn.max() + 1)):
        sums[index[rows]] += vectors[rows]
    return sums


def view_groups(
    places: ArrayLike,
    traversals: ArrayLike,
    camera: ArrayLike | None = None,
    heading: ArrayLike | None = None,
) -> Indices | None:
    """Group references of a place that show the same view: by the camera, else by the heading, else not at all.

    >>> view_groups([7, 7, 7, 7], ["a", "a", "b", "b"], camera=[0, 3, 0, 3])
    array([0, 1, 0, 1])
    """
    if camera is not None:
        return np.unique(np.asarray(camera), return_inverse=True)[1]
    return None if heading is None else heading_groups(heading, places, traversals)


def heading_groups(headings: ArrayLike, places: ArrayLike, traversals: ArrayLike) -> Indices | None:
    """Group references of a place that look the same way (headings in degrees), as `ReferenceSet(groups=...)` takes it.

    Bins are as wide as the usual angle between neighbouring views of a place in a traversal, and lie around the
    headings that a place has, so that a few degrees of noise do not tear a view apart. None if headings do not separate
    views: they are missing, each traversal has one image of a place, or its images differ by less than 10°.

    >>> heading_groups([358.0, 91.0, 2.0, 87.0], [7, 7, 7, 7], ["a", "a", "b", "b"])
    array([0, 1, 0, 1])
    """
    degrees = np.asarray(headings, np.float64) % 360
    _, place = np.unique(np.asarray(places), return_inverse=True)
    _, traversal = np.unique(np.asarray(traversals), return_inverse=True)
    if len(degrees) == 0 or not np.isfinite(degrees).all():
        return None
    width = _usual_angle(degrees, place * (int(traversal.max()) + 1) + traversal)
    if width is None:
        return None
    n_bins = max(1, round(360 / width))
    step = 360 / n_bins
    phases = np.zeros(int(place.max()) + 1, complex)
    np.add.at(phases, place, np.exp(2j * np.pi * degrees / step))
    offsets = np.angle(phases) * step / (2 * np.pi)
    return np.round((degrees - offsets[place]) / step).astype(np.intp) % n_bins


def _usual_angle(degrees: NDArray[np.float64], cell: Indices) -> float | None:
    """Median angle between neighbouring headings of one cell; None without neighbours or below 10°."""
    order = np.lexsort((degrees, cell))
    same = cell[order][1:] == cell[order][:-1]
    angles = np.diff(degrees[order])[same]
    angles = np.minimum(angles, 360 - angles)
    usual = float(np.median(angles)) if len(angles) else 0.0
    return usual if usual >= 10 else None
