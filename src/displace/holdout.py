"""Held-out traversals: each is removed from the references in turn, and its images are the queries.

Everything that is decided on a user's own data (settings, confidence, advice) uses these folds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]

STRETCH = 0.3
"""Share of the places that a fold with a missing stretch removes from the references."""
MARGIN = 0.05
"""Share of the stretch, at each end, whose queries are left out, because they may see places of the map."""


@dataclass(frozen=True, eq=False)
class Fold:
    """One traversal held out."""

    traversal: Any
    """Its name."""
    references: Mask
    """Mask of shape (m,): references that are left."""
    queries: Rows
    """Rows of the held-out traversal that are queries."""


def spread(n: int, limit: int) -> Rows:
    """At most `limit` of the numbers 0 … n−1, spread evenly.

    >>> spread(10, 4)
    array([0, 3, 6, 9])
    """
    return np.linspace(0, n - 1, min(n, limit)).astype(np.intp)


def thinned(rows: Rows, places: NDArray[Any], limit: int) -> Rows:
    """At most `limit` of the rows, spread evenly in order of place."""
    rows = rows[np.argsort(places[rows], kind="stable")]
    return rows[spread(len(rows), limit)]


def folds(
    places: NDArray[Any], traversals: NDArray[Any], *, max_folds: int, max_queries: int
) -> Iterator[Fold]:
    """Hold out each traversal in turn; its queries are those whose place the others have.

    Of more than `max_folds` traversals these many, spread over their names; of more than `max_queries` queries these
    many, spread in order of place.
    """
    names = np.unique(traversals)
    for name in names[spread(len(names), max_folds)]:
        out = traversals == name
        queries = np.flatnonzero(out)
        queries = queries[np.isin(places[queries], places[~out])]
        yield Fold(name, ~out, thinned(queries, places, max_queries))


def folds_with_a_gap(
    places: NDArray[Any],
    traversals: NDArray[Any],
    route: NDArray[Any],
    *,
    max_folds: int,
    max_queries: int,
    gaps: int = 1,
) -> Iterator[Fold]:
    """Hold out each traversal in turn (as `folds`), and remove a stretch of places from the others, along the route.

    Some queries then have no right answer. Queries at the edges of the stretch, where a neighbour may be right, are
    left out. The stretch moves along the route from fold to fold. `gaps` folds of each traversal have a stretch of
    their own: with few places one is not enough.
    """
    names = np.unique(traversals)
    names = names[spread(len(names), max_folds)]
    length = int(STRETCH * len(route))
    for number, name in enumerate(names):
        for gap in range(gaps):
            start = int((number / len(names) + gap / gaps) % 1 * (len(route) - length))
            stretch, edge = stretch_of(route, start, length, MARGIN)
            own, gone = traversals == name, np.isin(places, stretch)
            left = ~own & ~gone
            known = np.isin(places, places[left]) | gone
            queries = np.flatnonzero(own & known & ~np.isin(places, edge))
            yield Fold(name, left, queries[spread(len(queries), max_queries)])


def folds_of_quarters(
    places: NDArray[Any], traversals: NDArray[Any], route: NDArray[Any], *, max_folds: int, max_queries: int
) -> Iterator[Fold]:
    """Folds for one or two traversals, none of which can be held out entirely: each removes a quarter of the route.

    Of two traversals, the quarter opposite is held out of one of them: its queries have a right answer from the other,
    while the rest of the route shows what differs between the two. Of one traversal no query has a right answer.
    Where one of the two covers a part of the route, quarters are those of the part that both show.
    The parameters are those of `folds_with_a_gap`.
    """
    names, bounds = np.unique(traversals), _quarters(places, traversals, route)
    plan = [(quarter, name) for quarter in range(4) for name in np.roll(names, quarter)]
    for quarter, name in (plan[at] for at in spread(len(plan), max_folds)):
        stretch, edge = stretch_of(route, bounds[quarter], bounds[quarter + 1] - bounds[quarter], 2 * MARGIN)
        opposite = (quarter + 2) % 4
        held = np.isin(places, route[bounds[opposite] : bounds[opposite + 1]]) & (len(names) > 1)
        own, gone = traversals == name, np.isin(places, stretch)
        left = ~gone & ~(own & held)
        held &= np.isin(places, places[left])
        queries = np.flatnonzero(own & (held | (gone & ~np.isin(places, edge))))
        yield Fold(name, left, queries[spread(len(queries), max_queries)])


def _quarters(places: NDArray[Any], traversals: NDArray[Any], route: NDArray[Any]) -> list[int]:
    """Bounds along the route of quarters with as many places each that all traversals show; of all places otherwise."""
    shown = [np.isin(route, places[traversals == name]) for name in np.unique(traversals)]
    shared = np.flatnonzero(np.all(shown, axis=0))
    if len(shared) < 4:
        shared = np.arange(len(route))
    return [int(shared[len(shared) * part // 4]) for part in range(4)] + [int(shared[-1]) + 1]


def stretch_of(
    route: NDArray[Any], start: int, length: int, margin: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Places of a stretch, and those at its edges."""
    stretch = route[start : start + length]
    n = int(np.ceil(margin * length))
    return stretch, np.concatenate([stretch[:n], stretch[len(stretch) - n :]])
