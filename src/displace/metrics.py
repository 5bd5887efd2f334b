"""Recall@N, the rules for what counts as correct, and bootstrap intervals."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from displace.arrays import as_labels, blocks
from displace.errors import InputError
from displace.matches import Matches

Flags = NDArray[np.bool_]
DEFAULT_KS = (1, 5, 10)


@runtime_checkable
class TruthRule(Protocol):
    """What counts as correct for each query."""

    @property
    def name(self) -> str:
        """Name of the protocol, to be printed beside every number."""

    def correct(self, ranked: NDArray[Any]) -> Flags:
        """Whether each ranked place (q, k) is correct for its query."""

    def answerable(self, places: NDArray[Any] | None) -> Flags:
        """Whether each query has a correct place among `places` (all that the rule knows, where None)."""


@dataclass(frozen=True)
class SamePlace:
    """Correct is the query's own place.

    Parameters
    ----------
    places : array of shape (q,)
        Place id of each query.
    """

    places: NDArray[Any]
    name: str = "exact place"

    def correct(self, ranked: NDArray[Any]) -> Flags:
        """Whether each ranked place is the query's."""
        _check_comparable(ranked, self.places)
        flags: Flags = ranked == self.places[:, None]
        return flags

    def answerable(self, places: NDArray[Any] | None) -> Flags:
        """Whether each query's place is in the map."""
        if places is None:
            return np.ones(len(self.places), bool)
        return np.isin(self.places, places)

    def __len__(self) -> int:
        return len(self.places)


@dataclass(frozen=True)
class PlaceSets:
    """Correct is any of a set of places; an empty set has no correct place."""

    sets: Sequence[Collection[Any]]
    name: str = "sets of correct places"

    def correct(self, ranked: NDArray[Any]) -> Flags:
        """Whether each ranked place is in the query's set."""
        flags = [np.isin(row, list(right)) for row, right in zip(ranked, self.sets, strict=True)]
        return np.array(flags, bool).reshape(ranked.shape)

    def answerable(self, places: NDArray[Any] | None) -> Flags:
        """Whether each query's set has a place in the map."""
        known = None if places is None else set(places.tolist())
        return np.array([bool(s) if known is None else not known.isdisjoint(s) for s in self.sets], bool)

    def __len__(self) -> int:
        return len(self.sets)


@dataclass(frozen=True)
class WithinFrames:
    """Correct is a place whose frame number is at most `tolerance` from the query's.

    Parameters
    ----------
    frames : array of shape (q,)
        Frame number of each query.
    tolerance : int
    places, place_frames : arrays of shape (N,), optional
        Frame number of each place; by default the place ids are the frame numbers.
    """

    frames: NDArray[Any]
    tolerance: int
    places: NDArray[Any] | None = None
    place_frames: NDArray[Any] | None = None

    @property
    def name(self) -> str:
        """Name with the tolerance."""
        return f"±{self.tolerance} frames"

    def correct(self, ranked: NDArray[Any]) -> Flags:
        """Whether each ranked place's frame is near enough."""
        return self._near(np.asarray(self.frames)[:, None], self._frames_of(ranked))

    def answerable(self, places: NDArray[Any] | None) -> Flags:
        """Whether any place of the map is near enough."""
        known = self.places if places is None else places
        if known is None:
            return np.ones(len(self.frames), bool)
        frames = np.sort(self._frames_of(np.unique(known)))
        at = np.searchsorted(frames, self.frames)
        below, above = frames[(at - 1).clip(min=0)], frames[at.clip(max=len(frames) - 1)]
        return self._near(self.frames, below) | self._near(self.frames, above)

    def _near(self, query: NDArray[Any], place: NDArray[Any]) -> Flags:
        flags: Flags = np.abs(query.astype(np.float64) - place) <= self.tolerance
        return flags

    def _frames_of(self, ids: NDArray[Any]) -> NDArray[Any]:
        if self.places is None or self.place_frames is None:
            if ids.dtype.kind not in "iuf":
                raise InputError(
                    "place ids are not frame numbers: give places= and place_frames= to count frames by"
                )
            return ids
        return _look_up(ids, np.asarray(self.places), np.asarray(self.place_frames))

    def __len__(self) -> int:
        return len(self.frames)


@dataclass(frozen=True)
class WithinMetres:
    """Correct is a place within `radius` metres of the query.

    Parameters
    ----------
    positions : array of shape (q, 2)
        Easting and northing of each query.
    radius : float
    places : array of shape (N,)
    place_positions : array of shape (N, 2)
    """

    positions: NDArray[Any]
    radius: float
    places: NDArray[Any]
    place_positions: NDArray[Any]

    @property
    def name(self) -> str:
        """Name with the radius."""
        return f"within {self.radius:g} m"

    def correct(self, ranked: NDArray[Any]) -> Flags:
        """Whether each ranked place is near enough."""
        at = _look_up(ranked, np.asarray(self.places), np.asarray(self.place_positions, np.float64))
        away = np.linalg.norm(at - np.asarray(self.positions, np.float64)[:, None, :], axis=2)
        flags: Flags = away <= self.radius
        return flags

    def answerable(self, places: NDArray[Any] | None) -> Flags:
        """Whether any place of the map is near enough."""
        from scipy.spatial import cKDTree

        ids = np.asarray(self.places) if places is None else np.unique(places)
        at = _look_up(ids, np.asarray(self.places), np.asarray(self.place_positions, np.float64))
        away, _ = cKDTree(at).query(np.asarray(self.positions, np.float64))
        flags: Flags = away <= self.radius
        return flags

    def __len__(self) -> int:
        return len(self.positions)


class Recalls(dict[int, float]):
    """Recall@N in percent, by N, with what it was counted over.

    Parameters
    ----------
    values : dict of int to float
    protocol : str
        The rule for what is correct.
    n_queries : int
        Queries counted.
    n_unanswerable : int
        Queries with no correct place in the map.
    unanswerable : {"miss", "drop"}
        How those were counted.
    """

    def __init__(
        self, values: dict[int, float], protocol: str, n_queries: int, n_unanswerable: int, unanswerable: str
    ) -> None:
        super().__init__(values)
        self.protocol, self.n_queries = protocol, n_queries
        self.n_unanswerable, self.unanswerable = n_unanswerable, unanswerable

    def __str__(self) -> str:
        numbers = "  ".join(f"R@{k} {value:.1f}" for k, value in self.items())
        note = ""
        if self.n_unanswerable:
            rule = "count as misses" if self.unanswerable == "miss" else "left out"
            note = f"; {self.n_unanswerable} without a correct place {rule}"
        return f"{numbers}  ({self.protocol}, {self.n_queries} queries{note})"


def recall_at(
    ranked_places: ArrayLike | Matches,
    truth: ArrayLike | Sequence[Collection[Any]] | TruthRule,
    ks: Sequence[int] = DEFAULT_KS,
    *,
    places: ArrayLike | None = None,
    unanswerable: str = "miss",
) -> Recalls:
    """Share (%) of queries with a correct place among the first N.

    Parameters
    ----------
    ranked_places : array of shape (q, k) or (q,), or Matches
        Places, best first.
    truth : array of shape (q,), sequence of q sets, or a rule
        The correct place of each query, the set of its correct places, or `WithinFrames` / `WithinMetres`.
    ks : sequence of int
        The values of N. By default 1, 5 and 10, as far as there are that many ranked places.
    places : array, optional
        Ids of the places in the map, to tell queries that have no correct place there.
    unanswerable : {"miss", "drop"}
        Whether queries without a correct place count as misses (default) or are left out.

    Examples
    --------
    >>> print(recall_at([["a", "b"], ["c", "a"]], ["a", "a"], ks=(1, 2)))
    R@1 50.0  R@2 100.0  (exact place, 2 queries)
    >>> import numpy as np
    >>> recall_at([[4, 9]], WithinFrames(np.array([5]), tolerance=1), ks=(1,))[1]
    100.0
    """
    ranked = np.asarray(ranked_places.places if isinstance(ranked_places, Matches) else ranked_places)
    ranked = ranked[:, None] if ranked.ndim == 1 else ranked
    if ranked.ndim != 2:
        raise InputError(f"ranked_places must have shape (q, k); got shape {ranked.shape}")
    if unanswerable not in ("miss", "drop"):
        raise InputError(f"unanswerable={unanswerable!r} must be 'miss' or 'drop'")
    known = None if places is None else np.asarray(places)
    ks = _usable_ks(ks, ranked.shape[1], known)
    rule = _as_rule(truth, len(ranked))
    if len(ranked) == 0:
        raise InputError("no queries: ranked_places is empty")
    hit_within = np.logical_or.accumulate(rule.correct(ranked), axis=1)
    has_answer = rule.answerable(known)
    counted = np.ones(len(ranked), bool) if unanswerable == "miss" else has_answer
    if not counted.any():
        raise InputError("no query has a correct place in the map: nothing is left to count")
    values = {k: 100 * float(hit_within[counted, min(k, ranked.shape[1]) - 1].mean()) for k in ks}
    return Recalls(values, rule.name, int(counted.sum()), int((~has_answer).sum()), unanswerable)


def _usable_ks(ks: Sequence[int], n_ranked: int, known: NDArray[Any] | None) -> list[int]:
    """Check the values of N against the length of the rankings."""
    if ks is DEFAULT_KS:
        return [k for k in ks if k <= n_ranked]
    complete = known is not None and n_ranked >= len(np.unique(known))
    for k in ks:
        if k < 1 or (k > n_ranked and not complete):
            raise InputError(
                f"ks has {k}, but {n_ranked} places are ranked for each query; rank with k={max(ks)}"
            )
    return list(ks)


def _as_rule(truth: Any, n: int) -> TruthRule:
    """Turn plain truth into a rule, and check that it is for `n` queries."""
    if isinstance(truth, TruthRule):
        rule = truth
    elif len(truth) and isinstance(truth[0], set | frozenset | list | tuple):
        rule = PlaceSets(truth)
    else:
        rule = SamePlace(as_labels(truth, n, "truth"))
    if len(rule) != n:  # type: ignore[arg-type]
        raise InputError(f"truth is for {len(rule)} queries; ranked_places has {n}")  # type: ignore[arg-type]
    return rule


def _check_comparable(a: NDArray[Any], b: NDArray[Any]) -> None:
    """Strings never equal numbers: say so instead of a recall of 0."""
    if (
        a.size
        and b.size
        and (a.dtype.kind in "US") != (b.dtype.kind in "US")
        and "O" not in (a.dtype.kind, b.dtype.kind)
    ):
        raise InputError(f"ranked places are {a.dtype}, truth is {b.dtype}: use one kind of place id in both")


def _look_up(ids: NDArray[Any], keys: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Value of each id, from parallel `keys` and `values`."""
    _check_comparable(ids, keys)
    order = np.argsort(keys)
    at = np.searchsorted(keys, ids, sorter=order).clip(max=len(keys) - 1)
    found = order[at]
    if not np.all(keys[found] == ids):
        raise InputError(f"place {ids[keys[found] != ids].ravel()[0]!r} has no frame or position")
    result: NDArray[Any] = values[found]
    return result


@dataclass(frozen=True)
class Estimate:
    """A mean in percent with its bootstrap interval.

    Parameters
    ----------
    value : float
    low, high : float
        Ends of the interval.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"


def bootstrap(
    hits: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    level: float = 0.95,
    n_samples: int = 10_000,
    seed: int = 0,
) -> Estimate:
    """Mean (%) of the queries' hits with a percentile bootstrap interval; queries are what is resampled.

    Parameters
    ----------
    hits : array of shape (q,)
        Whether each query was found, or a number such as a share or a difference.
    groups : array of shape (q,), optional
        Condition of each query: the mean of the conditions' means is taken, each resampled on its own.
    level : float
        Share of the bootstrap's means inside the interval.
    n_samples, seed : int
        Bootstrap samples, and what they are drawn from; equal seeds give equal intervals.

    Notes
    -----
    Where every query is found, or none, resampling finds nothing else: the interval has no width then.

    Examples
    --------
    >>> print(bootstrap([True] * 300 + [False] * 100))
    75.0 [70.8, 79.2]
    """
    values = np.asarray(hits, np.float64)
    if values.ndim != 1 or not len(values):
        raise InputError(f"hits must have shape (q,), at least one; got shape {values.shape}")
    if not 0 < level < 1:
        raise InputError(f"level={level} must be above 0 and below 1")
    if n_samples < 1:
        raise InputError(f"n_samples={n_samples} must be at least 1")
    labels = np.zeros(len(values)) if groups is None else as_labels(groups, len(values), "groups")
    rng = np.random.default_rng(seed)
    parts = [values[labels == label] for label in np.unique(labels)]
    means = 100 * np.mean([_resampled_means(part, n_samples, rng) for part in parts], axis=0)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(100 * float(np.mean([part.mean() for part in parts])), float(low), float(high))


def paired_bootstrap(
    hits: ArrayLike, other_hits: ArrayLike, *, groups: ArrayLike | None = None, **options: Any
) -> Estimate:
    """Difference (percentage points) of two methods on the same queries, with its bootstrap interval.

    Both are resampled together, so that what makes a query hard for both cancels.

    Parameters
    ----------
    hits, other_hits : arrays of shape (q,)
        Hits of either method on each query; the first minus the second is estimated.
    groups : array of shape (q,), optional
        Condition of each query, as in `bootstrap`.
    **options
        `level`, `n_samples` and `seed` of `bootstrap`.

    Examples
    --------
    >>> print(paired_bootstrap([True] * 300 + [False] * 100, [True] * 290 + [False] * 110))
    2.5 [1.0, 4.2]
    """
    first, second = np.asarray(hits, np.float64), np.asarray(other_hits, np.float64)
    if first.shape != second.shape:
        raise InputError(f"hits must be of the same queries; got shapes {first.shape} and {second.shape}")
    return bootstrap(first - second, groups=groups, **options)


def _resampled_means(values: NDArray[np.float64], n_samples: int, rng: np.random.Generator) -> NDArray[Any]:
    """Means of samples drawn with replacement, shape (n_samples,)."""
    # Hits take few values: how often each is drawn is multinomial, which spares drawing every query.
    kinds, counts = np.unique(values, return_counts=True)
    n = len(values)
    means = np.empty(n_samples)
    for rows in blocks(n_samples, row_bytes=8 * len(kinds)):
        drawn = rng.multinomial(n, counts / n, size=rows.stop - rows.start)
        means[rows] = drawn @ kinds / n
    return means
