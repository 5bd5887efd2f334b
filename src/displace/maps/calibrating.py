"""What a map learns about itself from its references: where they lie, how sure matches are, how drives are followed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from displace.fusion.base import Fusion
from displace.maps.driving import DriveWatch
from displace.maps.learning import learn
from displace.maps.rounding import RecallLoss
from displace.maps.state import MapState
from displace.maps.witness import Anchors
from displace.progress import Stage
from displace.references import ReferenceSet
from displace.truth import Truth


def anchored(state: MapState, refs: ReferenceSet | None = None) -> MapState:
    """Return the map with its anchors; without them where neither statistics nor references say them.

    Of statistics without place means, the references tell that the rows were made of.
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


def calibrated(
    state: MapState,
    refs: ReferenceSet,
    truth: Truth,
    progress: Stage | None = None,
    loss: RecallLoss | None = None,
) -> MapState:
    """Return the map with all that references which are held out in turn tell, however the map came about.

    It needs its fusion, unfitted; without anchors there is no confidence. The references may be those of stretches of
    the route only. `loss` is shown the folds too, `progress` counts them.
    """
    assert state.estimator is not None
    drives, n = DriveWatch(truth), len(refs.traversal_ids)

    def watch(fitted: Fusion, queries: ReferenceSet) -> None:
        drives.watch(fitted, queries)
        if loss is not None and n > 2:  # parts of two traversals show less than is lost by rounding
            loss.watch(fitted, queries)

    learned, samples = (None, None)
    if state.anchors is not None:
        learned, samples = learn(refs, state.estimator, truth, progress, watch, state.cells)
    return replace(
        state,
        calibration=learned,
        calibrated_on=dict(state.traversals),
        samples=samples and samples.thinned(),
        driving=drives.calibration(n),
    )
