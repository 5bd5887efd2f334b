"""Recall@N."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from displace.errors import InputError
from displace.matches import Matches
from displace.truth import Flags, PlaceSets, SamePlace, TruthRule, WithinFrames, check_comparable

DEFAULT_KS = (1, 5, 10)


class Recalls(dict[int, float]):
    """Recall@N in percent, by N, with the protocol and the number of queries.

    Queries with no correct place in the map count as misses, or were left out: `unanswerable` is "miss" or "drop".
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

    __repr__ = __str__  # a notebook shows no number without its protocol


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
        The correct place of each query, the set of its correct places (or a list, an array, a tuple: anything but a
        string), or `WithinFrames` / `WithinMetres`.
    ks : sequence of int
        The values of N. Of 1, 5 and 10, the default, those above the number of ranked places are left out; other
        values must fit.
    places : array, optional
        Ids of the places in the map, to identify queries without a correct place.
    unanswerable : {"miss", "drop"}
        Whether queries without a correct place count as misses (default) or are left out, for which `places` must be
        known, here or to the rule.

    Examples
    --------
    >>> recall_at([["a", "b"], ["c", "a"]], ["a", "a"], ks=(1, 2))
    R@1 50.0  R@2 100.0  (exact place, 2 queries)
    >>> import numpy as np
    >>> from displace.truth import WithinFrames
    >>> recall_at([[4, 9]], WithinFrames(np.array([5]), tolerance=1), ks=(1,))[1]
    100.0
    """
    ranked = _as_ranking(ranked_places.places if isinstance(ranked_places, Matches) else _held(ranked_places))
    ranked = ranked[:, None] if ranked.ndim == 1 else ranked
    if ranked.ndim != 2:
        raise InputError(f"ranked_places must have shape (q, k); got shape {ranked.shape}")
    if unanswerable not in ("miss", "drop"):
        raise InputError(f"unanswerable={unanswerable!r} must be 'miss' or 'drop'")
    _check_names(ranked)
    known = None if places is None else _known_places(places, ranked)
    ks = _usable_ks(_held(ks), ranked.shape[1], known)
    rule = as_rule(_held(truth), len(ranked), "ranked_places")
    if len(ranked) == 0:
        raise InputError("no queries: ranked_places is empty")
    if unanswerable == "drop" and known is None and _knows_no_map(rule):
        raise InputError(
            "unanswerable='drop' needs places=, the ids of the places in the map: without them no query is known to "
            "have no correct place"
        )
    correct = rule.correct(ranked)
    if isinstance(ranked_places, Matches):
        correct &= ~np.isnan(ranked_places.scores)  # no place, of an image that could not be read
    hit_within = np.logical_or.accumulate(correct, axis=1)
    has_answer = rule.answerable(known)
    counted = np.ones(len(ranked), bool) if unanswerable == "miss" else has_answer
    if not counted.any():
        raise InputError("no query has a correct place in the map: nothing is left to count")
    values = {k: percent(hit_within[counted, min(k, ranked.shape[1]) - 1]) for k in ks}
    return Recalls(values, rule.name, int(counted.sum()), int((~has_answer).sum()), unanswerable)


def _held(values: Any) -> Any:
    """Values that can be gone through more than once."""
    return list(values) if isinstance(values, Iterator) else values


def _as_ranking(places: Any) -> NDArray[Any]:
    """Ranked places as an array; lists of unequal lengths are refused."""
    try:
        return np.asarray(places)
    except ValueError:
        raise InputError(
            "ranked_places has rankings of unequal lengths, and must have shape (q, k): cut all to the shortest, or "
            "fill the others up with an id that no place has"
        ) from None


def _check_names(ranked: NDArray[Any]) -> None:
    """Refuse scores or distances given as places, instead of returning a recall of 0."""
    if ranked.dtype.kind == "f" and len(odd := ranked[np.isfinite(ranked) & (ranked != np.floor(ranked))]):
        raise InputError(
            f"ranked_places has {odd[0]:g}, which names no place: give place ids, best first; of scores (q, N) these "
            "are place_ids[np.argsort(-scores, axis=1)]"
        )


def _known_places(places: Any, ranked: NDArray[Any]) -> NDArray[Any]:
    """Ids of the places in the map, in whatever holds them."""
    known = np.asarray(places if isinstance(places, np.ndarray) else list(places))
    if known.ndim != 1:
        raise InputError(f"places must have shape (N,), the id of each place; got shape {known.shape}")
    check_comparable(ranked, known, "places")
    return known


def percent(hits: Flags) -> float:
    """Share (%) of true values, rounded once: 100 times the mean would print 255 of 400 as 63.7.

    >>> percent(np.arange(400) < 255)
    63.75
    """
    return 100 * int(np.count_nonzero(hits)) / len(hits)


def _usable_ks(ks: Sequence[int], n_ranked: int, known: NDArray[Any] | None) -> list[int]:
    """Check the values of N against the length of the rankings."""
    whole = _is_collection(ks) and all(
        not isinstance(k, bool) and isinstance(k, int | np.integer) for k in ks
    )
    if not whole or len(ks) == 0:
        raise InputError(f"ks={ks!r} must be a sequence of whole numbers, at least one, such as (1, 5)")
    complete = known is not None and n_ranked >= len(np.unique(known))
    if tuple(ks) == DEFAULT_KS:
        return [k for k in DEFAULT_KS if k <= n_ranked or complete]
    for k in ks:
        if k < 1 or (k > n_ranked and not complete):
            raise InputError(
                f"ks has {k}, but {n_ranked} places are ranked for each query; rank with k={max(ks)}"
            )
    return [int(k) for k in ks]


def _knows_no_map(rule: TruthRule) -> bool:
    """Whether a rule needs the places of the map to find queries without a correct place."""
    return isinstance(rule, SamePlace) or (isinstance(rule, WithinFrames) and rule.places is None)


def as_rule(truth: Any, n: int, name: str) -> TruthRule:
    """Turn plain truth into a rule, and check that it is for `n` queries, as `name` has."""
    rule = truth if isinstance(truth, TruthRule) else _plain_rule(truth)
    given: int = len(rule)  # type: ignore[arg-type]
    if given != n:
        raise InputError(
            f"truth is for {given} queries, and {name} has {n}: both have one entry for each query, in order"
        )
    return rule


def _plain_rule(truth: Any) -> TruthRule:
    """One place for each query, or one set of places for each."""
    if not _is_collection(truth) or isinstance(truth, Set | Mapping):
        raise InputError(
            f"truth must list a place, or a set of places, for each query in order; got {type(truth).__name__}"
        )
    if getattr(truth, "ndim", 1) > 1:
        truth = np.asarray(truth)  # of a table, whose own items are its columns, the rows
    items = list(truth)
    is_set = [_is_collection(item) for item in items]
    if not any(is_set):
        # As objects where there is text: NaN among them would become the text "nan".
        plain = isinstance(truth, np.ndarray) or not any(isinstance(item, str) for item in items)
        if items and all(isinstance(item, bool | np.bool_) for item in items):
            raise InputError(
                "truth is True or False for each query: give the id of its place, or the set of right ones"
            )
        return SamePlace(np.asarray(truth) if plain else np.array(items, object))
    if not all(is_set):
        odd = is_set.index(False)
        raise InputError(
            f"truth has sets of places, but {items[odd]!r} for query {odd}: write a single place as {{{items[odd]!r}}}"
        )
    return PlaceSets(items)


def _is_collection(value: Any) -> bool:
    """Whether a value holds others; strings and arrays of no dimension are single values."""
    return (
        isinstance(value, Iterable) and not isinstance(value, str | bytes) and getattr(value, "ndim", 1) > 0
    )
