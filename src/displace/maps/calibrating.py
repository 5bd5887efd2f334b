"""What a map learns about itself from its references: how sure its matches are, and how drives are followed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from displace.fusion.base import Fusion
from displace.maps.driving import DriveWatch
from displace.maps.learning import learn
from displace.maps.rounding import RecallLoss
from displace.maps.state import MapState
from displace.references import ReferenceSet
from displace.truth import Truth


def calibrated(
    state: MapState,
    refs: ReferenceSet,
    truth: Truth,
    progress: Callable[[int, int], None] | None = None,
    loss: RecallLoss | None = None,
) -> MapState:
    """Return the map with all that references which are held out in turn tell, however the map came about.

    Parameters
    ----------
    state : MapState
        With its fusion, unfitted, and its anchors; without these there is no confidence.
    refs : ReferenceSet
        References of the map, or of stretches of its route.
    truth : Truth
        Which places count as the same.
    progress : callable, optional
        Called with (done, total) folds.
    loss : RecallLoss, optional
        Is shown the folds too.
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
