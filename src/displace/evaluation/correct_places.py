"""All correct places of each query, as indices: truth that can be stored, whatever the rule."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import blocks
from displace.evaluation.rankings import Numbers
from displace.truth import SamePlace, TruthRule, WithinFrames, WithinMetres, look_up


@singledispatch
def correct_places(rule: TruthRule, place_ids: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Return the correct places of each query: ``places[starts[i]:starts[i + 1]]`` are those of query i, ascending.

    They are indices into `place_ids`, the sorted ids of the map. Any rule is asked about every place, in blocks; those
    of this package have shorter ways.
    """
    n_queries = len(rule)  # type: ignore[arg-type]
    pairs: list[NDArray[Any]] = [np.empty((0, 2), np.int32)]
    for columns in blocks(len(place_ids), row_bytes=16 * max(1, n_queries)):
        ids = np.broadcast_to(place_ids[columns], (n_queries, columns.stop - columns.start))
        pairs.append(np.argwhere(rule.correct(ids)) + np.array([0, columns.start]))
    query, place = np.concatenate(pairs).T
    order = np.lexsort((place, query))
    return _starts(np.bincount(query, minlength=n_queries)), place[order].astype(np.int32)


@correct_places.register
def _same_place(rule: SamePlace, place_ids: NDArray[Any]) -> tuple[Numbers, Numbers]:
    at = np.searchsorted(place_ids, rule.places).clip(max=len(place_ids) - 1)
    found = place_ids[at] == rule.places
    return _starts(found.astype(np.intp)), at[found].astype(np.int32)


@correct_places.register
def _within_frames(rule: WithinFrames, place_ids: NDArray[Any]) -> tuple[Numbers, Numbers]:
    if rule.places is None or rule.place_frames is None:
        frames, row = place_ids.astype(np.float64), np.arange(len(place_ids))
    else:
        at = np.searchsorted(place_ids, rule.places).clip(max=len(place_ids) - 1)
        known = (place_ids[at] == rule.places) & np.isfinite(rule.place_frames)
        frames, row = rule.place_frames[known], at[known]
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
def _within_metres(rule: WithinMetres, place_ids: NDArray[Any]) -> tuple[Numbers, Numbers]:
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


def _joined(found: list[NDArray[np.intp]]) -> tuple[Numbers, Numbers]:
    places = np.concatenate([np.empty(0, np.intp), *found])
    return _starts(np.array([len(rows) for rows in found], np.intp)), places.astype(np.int32)


def _starts(counts: NDArray[np.intp]) -> Numbers:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
