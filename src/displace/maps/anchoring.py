"""Where a map's references lie, from the statistics that the map keeps, or from the references."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from displace.maps.state import MapState
from displace.maps.witness import Anchors
from displace.references import ReferenceSet


def anchored(state: MapState, refs: ReferenceSet | None = None) -> MapState:
    """Return the map with its anchors; without them where neither statistics nor references say them.

    Parameters
    ----------
    state : MapState
    refs : ReferenceSet, optional
        The references that the rows were made of; needed where the statistics have no place means.
    """
    return replace(state, anchors=_from_statistics(state) or _from_references(state, refs))


def _from_statistics(state: MapState) -> Anchors | None:
    arrays = None if state.statistics is None else state.statistics.loaded().arrays
    if arrays is None:
        return None
    if not arrays:  # the rows are the references
        everything = state.rows_at(np.arange(len(state.row_places)))
        return Anchors.of(state.rows_at, state.projection, state.mean, everything, np.ones(len(everything)))
    means, counts = arrays.get("means"), arrays.get("counts")
    if means is None or counts is None or len(means) != len(state.row_places):
        return None
    return Anchors.of(state.rows_at, state.projection, state.mean, means, counts)


def _from_references(state: MapState, refs: ReferenceSet | None) -> Anchors | None:
    if refs is None:
        return None
    own = state.rows_at, state.row_places, state.projection, state.mean
    return Anchors.of_references(*own, refs, state.places.ids)
