"""Calibrates a map from its own references: anchors, the confidence of photos and that of drives.

One pass over the held-out folds (leave one traversal out) serves all three: `learning` for photos, `driving` for
drives, `rounding` for the recall that is lost by storing rows in fewer bits.
"""

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
    """Return the map with its anchors, from its statistics, or else from the references; without them if both lack.

    References are needed where the statistics have no mean of each row.
    """
    anchors = _from_statistics(state)
    if anchors is None and refs is not None:
        anchors = Anchors.of_references(state.space, refs, state.places.ids)
    return replace(state, anchors=anchors)


def _from_statistics(state: MapState) -> Anchors | None:
    arrays = None if state.statistics is None else state.statistics.loaded().arrays
    if arrays is None:
        return None
    if not arrays:  # the rows are the references
        everything = state.rows_at(np.arange(len(state.row_places)))
        return Anchors.of(state.space, everything, np.ones(len(everything)))
    means, counts = arrays.get("means"), arrays.get("counts")
    if means is None or counts is None or len(means) != len(state.row_places):
        return None
    return Anchors.of(state.space, means, counts)


def calibrated(
    state: MapState,
    refs: ReferenceSet,
    truth: Truth,
    progress: Stage | None = None,
    loss: RecallLoss | None = None,
) -> MapState:
    """Return the map with the confidence of photos and of drives, learned from references held out in turn.

    It needs its fusion, unfitted; without anchors photos get no confidence. The references may be those of stretches
    of the route only. `loss` gets the folds, too; `progress` counts them.
    """
    assert state.estimator is not None
    drives, n = DriveWatch(truth), len(refs.traversal_ids)

    def watch(fitted: Fusion, queries: ReferenceSet) -> None:
        drives.watch(fitted, queries)
        if loss is not None and n > 2:  # parts of two traversals are too few queries to show a loss
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
