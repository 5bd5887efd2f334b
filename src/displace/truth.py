"""What counts as correct.

A `Tolerance` is how far off a place may be. `Truth` applies it between the places of one route, for maps and advice; a
`TruthRule` applies it to queries with their own positions or frame numbers, for `displace.recall_at`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from displace.arrays import is_named
from displace.errors import InputError
from displace.places import Places

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Tolerance:
    """How far a retrieved place may be from the query's.

    >>> str(Tolerance("frames", 5)), str(Tolerance("metres", 25)), str(Tolerance("exact"))
    ('±5 frames', 'within 25 m', 'exact place')
    """

    kind: Literal["exact", "frames", "metres"]
    value: float = 0

    def __post_init__(self) -> None:
        _check_reach(self.value, "tolerance", self.kind)
        if self.kind == "frames" and self.value != int(self.value):
            raise InputError(f"tolerance of {self.value:g} frames must be a whole number, such as 2 frames")

    @classmethod
    def parse(cls, given: str | float | Tolerance) -> Tolerance:
        """Return the tolerance of a text; a number is one of metres.

        >>> [str(Tolerance.parse(text)) for text in ("exact", "5 frames", "25m", 10)]
        ['exact place', '±5 frames', 'within 25 m', 'within 10 m']
        """
        if isinstance(given, Tolerance):
            return given
        if isinstance(given, int | float | np.integer | np.floating):
            return cls("metres", float(given))
        text = given.strip().lower()
        if text == "exact":
            return cls("exact")
        for endings, kind in ((("frames", "frame"), "frames"), (("metres", "meters", "m", ""), "metres")):
            for ending in endings:
                number = text.removesuffix(ending).strip()
                if text.endswith(ending) and number.replace(".", "", 1).isdecimal():
                    return cls(kind, float(number))  # type: ignore[arg-type]
        raise InputError(
            f"tolerance={given!r} must be 'exact', a number of frames ('5 frames') or of metres ('25m')"
        )

    def __str__(self) -> str:
        return {
            "exact": "exact place",
            "frames": f"±{self.value:g} frames",
            "metres": f"within {self.value:g} m",
        }[self.kind]


METRES = 25.0
"""Tolerance where places have positions and none is given."""


@dataclass(frozen=True, eq=False)
class Truth:
    """Which places of a route count as the same.

    Metres need positions, frames need the route's order (`Truth.of` checks). A place whose position or number is not
    known is right for itself only. A place of several frames has the number of the first. Along a route of equally long
    places, a neighbour then counts as right where it is so for each of the place's frames, by the rule of
    `WithinFrames`: which of them a query is, is not known here.

    >>> from displace.places import Places
    >>> truth = Truth.of(Places(np.array(["a", "b", "c"]), frames=[0, 1, 2]), "1 frames")
    >>> truth.correct(np.array(["b", "c"]), np.array(["a", "a"]))
    array([ True, False])
    """

    places: Places
    tolerance: Tolerance

    @classmethod
    def of(cls, places: Places, tolerance: str | float | Tolerance | None = None) -> Truth:
        """Check that the places can be judged by a tolerance; by default 25 m with positions, else the exact place."""
        located = places.positions is not None and bool(places.positions.known.any())
        if tolerance is None:
            return cls(places, Tolerance("metres", METRES) if located else Tolerance("exact"))
        asked = Tolerance.parse(tolerance)
        if asked.kind == "metres" and not located:
            raise InputError(
                f"tolerance={asked.value:g} m needs positions of the places, and there are none; count frames "
                "('2 frames'), or leave it out"
            )
        if asked.kind == "frames" and places.order is None:
            raise InputError(
                f"tolerance='{asked.value:g} frames' needs the order of the places along the route (the manifest's "
                "column 'frame'), and there is none; count metres ('25m'), or leave it out"
            )
        return cls(places, asked)

    @property
    def name(self) -> str:
        """Name of the protocol, to be printed beside every number."""
        return str(self.tolerance)

    def correct(self, found: NDArray[Any], truth: NDArray[Any]) -> Flags:
        """Whether each place found is right for a query at the place beside it; both in any one shape."""
        right: Flags = found == truth
        if self._points is not None:
            with np.errstate(over="ignore"):  # absurdly large positions are far away
                away = np.linalg.norm(self._at(found) - self._at(truth), axis=-1)
            right |= away <= self.tolerance.value
        return right

    def answerable(self, truth: NDArray[Any], known: NDArray[Any]) -> Flags:
        """Whether `known` has a right answer for a query at each of the places `truth`."""
        there: Flags = np.isin(truth, known)
        if self._points is not None:
            there |= _any_within(self.tolerance.value, self._at(truth), self._at(known))
        return there

    @cached_property
    def _points(self) -> NDArray[np.float64] | None:
        """Where the places are: metres (N, 2 or 3), numbers along the route (N, 1), or None for the exact place."""
        if self.tolerance.kind == "metres" and self.places.positions is not None:
            return self.places.positions.in_space()
        if self.tolerance.kind == "frames" and self.places.frames is not None:
            return self.places.frames[:, None]
        return None

    def _at(self, ids: NDArray[Any]) -> NDArray[np.float64]:
        assert self._points is not None
        rows = np.searchsorted(self.places.ids, ids)
        return self._points[rows]


@runtime_checkable
class TruthRule(Protocol):
    """What counts as correct for each query."""

    @property
    def name(self) -> str:
        """Name of the protocol, to be printed beside every number."""

    def correct(self, ranked: NDArray[Any]) -> Flags:
        """Whether each ranked place (q, k) is correct for its query."""

    def answerable(self, places: NDArray[Any] | None) -> Flags:
        """Whether each query has a correct place among `places` (None: all that the rule knows)."""


@dataclass(frozen=True)
class SamePlace:
    """Correct is the query's own place."""

    places: NDArray[Any]
    """Shape (q,). Place id of each query; None or NaN where it has none."""
    name: str = "exact place"

    def __post_init__(self) -> None:
        _keep_checked(self, "places", "q")
        if self.places.dtype == object:
            named = [place if is_named(place) else None for place in self.places.tolist()]
            object.__setattr__(self, "places", np.fromiter(named, object, len(named)))

    def correct(self, ranked: NDArray[Any]) -> Flags:
        """Whether each ranked place is the query's."""
        check_comparable(ranked, self.places)
        flags: Flags = ranked == self.places[:, None]
        return flags

    def answerable(self, places: NDArray[Any] | None) -> Flags:
        """Whether each query's place is in the map; None and NaN are not places."""
        if places is None:
            return np.array([is_named(place) for place in self.places.tolist()], bool)
        return np.isin(self.places, places)

    def __len__(self) -> int:
        return len(self.places)


@dataclass(frozen=True)
class PlaceSets:
    """Correct is any of a set of places; an empty set has no correct place."""

    sets: Sequence[Collection[Any]]
    """Of place ids, one for each query: sets, lists, arrays or other collections; stored as lists, without None and
    NaN, which are not places."""
    name: str = "sets of correct places"

    def __post_init__(self) -> None:
        lists = [[place for place in _plain_places(places) if is_named(place)] for places in self.sets]
        if any(isinstance(place, bool | np.bool_) for place in chain.from_iterable(lists)):
            raise InputError(
                "truth has sets of True and False: give ids of places; of a mask (q, N) of the right ones these are "
                "[place_ids[row] for row in mask]"
            )
        object.__setattr__(self, "sets", lists)

    def correct(self, ranked: NDArray[Any]) -> Flags:
        """Whether each ranked place is in the query's set."""
        check_comparable(ranked, np.fromiter(chain.from_iterable(self.sets), object))
        flags = [np.isin(row, list(right)) for row, right in zip(ranked, self.sets, strict=True)]
        return np.array(flags, bool).reshape(ranked.shape)

    def answerable(self, places: NDArray[Any] | None) -> Flags:
        """Whether each query's set has a place in the map."""
        known = None if places is None else set(places.tolist())
        return np.array([bool(s) if known is None else not known.isdisjoint(s) for s in self.sets], bool)

    def __len__(self) -> int:
        return len(self.sets)


def _plain_places(places: Collection[Any]) -> Iterator[Any]:
    """Place ids of a set, also of a tensor or of several, whose numbers are objects that equal no number."""
    held: Any = np.asarray(places).flat if hasattr(places, "__array__") else places
    return (place.item() if getattr(place, "ndim", None) == 0 else place for place in held)


@dataclass(frozen=True)
class WithinFrames:
    """Correct is a place that has a frame number at most `tolerance` from the query's."""

    frames: NDArray[Any]
    """Shape (q,). Frame number of each query."""
    tolerance: int
    places: NDArray[Any] | None = None
    place_frames: NDArray[Any] | None = None
    """Both of shape (m,). Places with a frame number each; a place with several numbers is repeated. By default the
    place ids are the frame numbers."""

    def __post_init__(self) -> None:
        _check_reach(self.tolerance, "tolerance", "frames")
        _keep_checked(self, "frames", "q", numbers=True)
        if self.places is not None:
            _keep_checked(self, "places", "m")
        if self.place_frames is not None:
            if self.places is None:
                raise InputError(
                    "place_frames needs places=, the ids of the places that they number, in order"
                )
            _keep_checked(self, "place_frames", f"{len(self.places)}", numbers=True)

    @property
    def name(self) -> str:
        """Name with the tolerance."""
        return f"±{self.tolerance} frames"

    def correct(self, ranked: NDArray[Any]) -> Flags:
        """Whether each ranked place has a frame that is near enough."""
        away = np.abs(self.frames[:, None, None] - self._frames_of(ranked))
        flags: Flags = np.any(away <= self.tolerance, axis=2)
        return flags

    def answerable(self, places: NDArray[Any] | None) -> Flags:
        """Whether any place of the map is near enough."""
        known = self.places if places is None else places
        if known is None:
            return np.ones(len(self.frames), bool)
        frames = self._frames_of(np.unique(known)).reshape(-1, 1)
        return _any_within(self.tolerance, self.frames[:, None], frames)

    def _frames_of(self, ids: NDArray[Any]) -> NDArray[np.float64]:
        """All frames of each place in a last dimension, NaN behind those of places that have fewer."""
        if self.places is None or self.place_frames is None:
            if ids.dtype.kind not in "iuf":
                raise InputError(
                    "place ids are not frame numbers: give places= and place_frames= to count frames by"
                )
            return ids[..., None].astype(np.float64)
        return look_up(ids, *self._table)

    @cached_property
    def _table(self) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """The places, each once, and all frames of each."""
        assert self.places is not None
        assert self.place_frames is not None
        places, row = np.unique(self.places, return_inverse=True)
        pairs = np.stack([row, self.place_frames], axis=1)
        pairs = np.unique(pairs[np.isfinite(pairs).all(axis=1)], axis=0)
        row = pairs[:, 0].astype(np.intp)
        column = np.arange(len(row)) - np.searchsorted(row, row)
        frames = np.full((len(places), 1 + int(column.max(initial=0))), np.nan)
        frames[row, column] = pairs[:, 1]
        return places, frames

    def __len__(self) -> int:
        return len(self.frames)


@dataclass(frozen=True)
class WithinMetres:
    """Correct is a place within `radius` metres of the query."""

    positions: NDArray[Any]
    """Shape (q, 2) or (q, 3). Easting and northing of each query; or points in space, of degrees
    ``Positions(…, degrees=True).in_space()``."""
    radius: float
    places: NDArray[Any]
    """Shape (N,). Each once."""
    place_positions: NDArray[Any]
    """Shape (N, 2) or (N, 3). As those of the queries."""

    def __post_init__(self) -> None:
        _check_reach(self.radius, "radius", "metres")
        columns = 3 if np.shape(self.positions)[-1:] == (3,) else 2
        _keep_checked(self, "positions", f"q, {columns}", numbers=True)
        _keep_checked(self, "places", "N")
        _keep_checked(self, "place_positions", f"{len(self.places)}, {columns}", numbers=True)
        listed, counts = np.unique(self.places, return_counts=True)
        if (counts > 1).any():
            raise InputError(
                f"places has {listed[counts > 1].tolist()[0]!r} twice: give one position of each place"
            )

    @property
    def name(self) -> str:
        """Name with the radius."""
        return f"within {self.radius:g} m"

    def correct(self, ranked: NDArray[Any]) -> Flags:
        """Whether each ranked place is near enough."""
        at = look_up(ranked, self.places, self.place_positions)
        away = np.linalg.norm(at - self.positions[:, None, :], axis=2)
        flags: Flags = away <= self.radius
        return flags

    def answerable(self, places: NDArray[Any] | None) -> Flags:
        """Whether any place of the map is near enough."""
        known = self.places if places is None else np.unique(places)
        return _any_within(self.radius, self.positions, look_up(known, self.places, self.place_positions))

    def __len__(self) -> int:
        return len(self.positions)


def _keep_checked(rule: Any, name: str, shape: str, *, numbers: bool = False) -> None:
    """Convert a rule's attribute to an array and check its shape, such as "q, 2"; numbers become float64.

    An array of another shape would be broadcast over the queries and give a wrong recall.
    """
    array = np.asarray(getattr(rule, name))
    lengths = shape.split(", ")
    fits = array.ndim == len(lengths) and all(
        not wanted.isdecimal() or int(wanted) == length
        for wanted, length in zip(lengths, array.shape, strict=True)
    )
    if not fits:
        comma = "" if len(lengths) > 1 else ","
        raise InputError(f"{name} must have shape ({shape}{comma}); got shape {array.shape}")
    if numbers and array.dtype.kind not in "iuf":
        raise InputError(f"{name} must be numbers; got dtype {array.dtype}")
    object.__setattr__(rule, name, array.astype(np.float64, copy=False) if numbers else array)


def _check_reach(value: Any, name: str, unit: str) -> None:
    """Refuse negative, infinite and NaN distances, instead of returning a recall of 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{name}={value!r} must be a number of {unit}")
    if not 0 <= value < np.inf:
        raise InputError(f"{name}={value:g} must be at least 0 {unit}, and finite")


def check_comparable(ranked: NDArray[Any], truth: NDArray[Any], name: str = "truth") -> None:
    """Refuse to compare strings, bytes and numbers, which are never equal, instead of returning a recall of 0."""
    have, want = _examples(ranked), _examples(truth)
    strange = want.keys() - have.keys()
    if have and strange:
        raise InputError(
            f"{name} has {want[strange.pop()]!r}, but places are ranked such as {next(iter(have.values()))!r}: "
            "use one kind of place id in both"
        )


def _examples(ids: NDArray[Any]) -> dict[type, Any]:
    """The first string, the first bytes and the first other value, by kind; values that name no place do not count."""
    values = ids.ravel()[::-1] if ids.dtype == object else ids.ravel()[:1]
    kinds = (str, bytes)
    return {
        next((kind for kind in kinds if isinstance(value, kind)), object): value
        for value in values.tolist()
        if is_named(value)
    }


def _any_within(radius: float, points: NDArray[Any], targets: NDArray[Any]) -> Flags:
    """Whether each of the points (q, d) has a target (t, d) within `radius`; NaN is near nothing."""
    from scipy.spatial import cKDTree

    flags = np.asarray(np.isfinite(points).all(axis=1))
    away, _ = cKDTree(targets[np.isfinite(targets).all(axis=1)]).query(points[flags])
    flags[flags] = away <= radius
    return flags


def look_up(ids: NDArray[Any], keys: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Value of each id, from parallel `keys` and `values`."""
    check_comparable(ids, keys)
    if ids.size and not len(keys):
        raise InputError("no place has a frame or position: places is empty")
    order = np.argsort(keys)
    at = np.searchsorted(keys, ids, sorter=order).clip(max=len(keys) - 1)
    found = order[at]
    if not np.all(keys[found] == ids):
        raise InputError(f"place {ids[keys[found] != ids].tolist()[0]!r} has no frame or position")
    result: NDArray[Any] = values[found]
    return result
