"""All correct places of each query, as indices: truth that can be stored, whatever the rule."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from displace.arrays import blocks
from displace.places import Places
from displace.truth import Flags, SamePlace, TruthRule, WithinFrames, WithinMetres, look_up

Numbers = NDArray[np.int32]


class CorrectPlaces(NamedTuple):
    """The correct places of each query, as indices into the sorted ids of the map."""

    starts: Numbers
    """Shape (q + 1,)."""
    places: Numbers
    """Those of query i are ``places[starts[i]:starts[i + 1]]``, ascending."""

    def of(self, query: int) -> Numbers:
        """Return those of one query."""
        return self.places[self.starts[query] : self.starts[query + 1]]

    def shown(self, query: int, place_ids: NDArray[Any], own: Any) -> int:
        """The place to show if several are correct: the query's own, else the middle one; −1 if there is none.

        Along a route, the middle one is the nearest.

        >>> ids, correct = np.array(["a", "b", "c", "d"]), CorrectPlaces(np.array([0, 3]), np.array([0, 1, 2]))
        >>> correct.shown(0, ids, "a"), correct.shown(0, ids, "")
        (0, 1)
        """
        correct = self.of(query)
        owned = correct[place_ids[correct] == own]
        if len(owned):
            return int(owned[0])
        return int(correct[len(correct) // 2]) if len(correct) else -1

    def among(self, ranked: NDArray[Any]) -> Flags:
        """Whether each place of a ranking (q, k) is correct.

        >>> CorrectPlaces(np.array([0, 2, 3]), np.array([0, 1, 0])).among(np.array([[0, 2], [1, 0]]))
        array([[ True, False],
               [False,  True]])
        """
        n = 1 + max(int(ranked.max(initial=0)), int(self.places.max(initial=0)))
        query = np.repeat(np.arange(len(ranked), dtype=np.int64), np.diff(self.starts))
        asked = np.arange(len(ranked), dtype=np.int64)[:, None] * n + ranked
        return np.isin(asked, query * n + self.places)


@singledispatch
def correct_places(rule: TruthRule, place_ids: NDArray[Any]) -> CorrectPlaces:
    """Return the correct places of each query, among the sorted ids of the map.

    Any rule is asked about every place, in blocks; those of this package have shorter ways.
    """
    n_queries = len(rule)  # type: ignore[arg-type]
    pairs: list[NDArray[Any]] = [np.empty((0, 2), np.int32)]
    for columns in blocks(len(place_ids), row_bytes=16 * max(1, n_queries)):
        ids = np.broadcast_to(place_ids[columns], (n_queries, columns.stop - columns.start))
        pairs.append(np.argwhere(rule.correct(ids)) + np.array([0, columns.start]))
    query, place = np.concatenate(pairs).T
    order = np.lexsort((place, query))
    return _counted(np.bincount(query, minlength=n_queries), place[order])


@correct_places.register
def _same_place(rule: SamePlace, place_ids: NDArray[Any]) -> CorrectPlaces:
    rows = Places(place_ids).rows_of(rule.places)
    return _counted((rows >= 0).astype(np.intp), rows[rows >= 0])


@correct_places.register
def _within_frames(rule: WithinFrames, place_ids: NDArray[Any]) -> CorrectPlaces:
    if rule.places is None or rule.place_frames is None:
        frames, row = place_ids.astype(np.float64), np.arange(len(place_ids))
    else:
        rows = Places(place_ids).rows_of(rule.places)
        known = (rows >= 0) & np.isfinite(rule.place_frames)
        frames, row = rule.place_frames[known], rows[known]
    order = np.argsort(frames, kind="stable")
    # A frame more to either side: a sum rounds fractions elsewhere than the rule's difference, which decides.
    first = np.searchsorted(frames[order], rule.frames - rule.tolerance - 1)
    last = np.searchsorted(frames[order], rule.frames + rule.tolerance + 1)
    found = []
    for asked, a, b in zip(rule.frames, first, last, strict=True):
        near = order[a:b]
        found.append(np.unique(row[near[np.abs(asked - frames[near]) <= rule.tolerance]]))
    return _joined(found)


@correct_places.register
def _within_metres(rule: WithinMetres, place_ids: NDArray[Any]) -> CorrectPlaces:
    from scipy.spatial import cKDTree

    points = look_up(place_ids, rule.places, rule.place_positions)
    known = np.flatnonzero(np.isfinite(points).all(axis=1))
    asked = rule.positions
    found = [np.empty(0, np.intp)] * len(asked)
    located = np.flatnonzero(np.isfinite(asked).all(axis=1))
    if len(known) and len(located):
        # The tree rounds its distances elsewhere than the rule does: it proposes, the rule's own formula decides.
        near = cKDTree(points[known]).query_ball_point(asked[located], rule.radius * (1 + 1e-9) + 1e-9)
        for query, rows in zip(located, near, strict=True):
            rows = known[np.sort(np.array(rows, np.intp))]
            away = np.linalg.norm(points[rows] - asked[query], axis=-1)
            found[query] = rows[away <= rule.radius]
    return _joined(found)


def _joined(found: list[NDArray[np.intp]]) -> CorrectPlaces:
    counts = np.array([len(rows) for rows in found], np.intp)
    return _counted(counts, np.concatenate([np.empty(0, np.intp), *found]))


def _counted(counts: NDArray[np.intp], places: NDArray[np.intp]) -> CorrectPlaces:
    """As many of the places for each query as `counts` says."""
    return CorrectPlaces(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32), places.astype(np.int32))
