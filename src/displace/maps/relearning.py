"""Confidence of a map after an update, from what the map keeps.

With the references kept, it is learned as in a build. Without, the samples (held-out features) that the map keeps are
updated and refitted: an added traversal is a held-out one for the map as it was, and is located in it with a stretch
masked; the samples of a removed one are dropped, and the oldest of many, which were located in a map of fewer
traversals than it has now, hence worse. The calibration of drives is treated alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import top_k
from displace.fusion.base import Fusion, Rows
from displace.holdout import MARGIN, STRETCH, spread, stretch_of
from displace.maps.calibrating import calibrated
from displace.maps.calibration import BASES
from displace.maps.driving import DriveWatch, drives_by_rule
from displace.maps.learning import MAX_FOLDS, basis_of, calibration_of, labelled
from displace.maps.samples import KEPT, Samples, joined
from displace.maps.state import MapState
from displace.maps.witness import TOP
from displace.references import ReferenceSet
from displace.sequence.following import DriveCalibration

WHOLE = 4
"""Traversals with samples from which on those of the first two are dropped, if these are of parts of them."""
BUILD_AGAIN = "build the map again from all references"


def relearned(
    old: MapState,
    new: MapState,
    refs: ReferenceSet,
    gained: bool,
    fusion: Fusion,
    kept: ReferenceSet | None,
) -> tuple[MapState, str]:
    """Return the new map with its confidence learned again where possible, and a sentence about it for the user.

    `refs` were added (`gained`) or removed; `kept` are all references of the new map, where it keeps them. The fusion
    has the map's settings, unfitted.
    """
    if old.calibrated_on is None:
        return new, ""  # it was built without, on purpose
    if kept is None and old.calibration is not None and old.calibration.reads_rankings:
        return new, f"as it was before, learned from other traversals; {BUILD_AGAIN} to learn it again"
    if kept is None:
        new = replace(new, driving=_drives_after(old, new, refs, gained))
    if new.anchors is None:
        return replace(new, calibration=None, samples=None), f"none: {BUILD_AGAIN} to have one"
    if kept is not None:
        return learned_again(new, kept, fusion), "learned again from the references that were kept"
    if (old.projection is None) != (new.projection is None):
        shown = "one traversal had shown does not hold for two"
        if new.projection is None:
            shown = "several traversals had shown does not hold for the one that is left"
        return _with(new, None, None), f"none: what {shown}; {BUILD_AGAIN}"
    samples, parts = _samples_after(old, refs, gained)
    calibration = None if samples is None else calibration_of(samples, basis_of(len(new.traversals)))
    if samples is None or calibration is None:
        return _with(new, None, samples), f"none: the map keeps too few held-out queries; {BUILD_AGAIN}"
    how = f"learned again from {len(samples)} held-out queries"
    if parts:
        calibration = replace(calibration, basis=BASES[1])
        how += f", most of them from parts of two traversals; {BUILD_AGAIN} to have it surer"
    return _with(new, calibration, samples), how


def learned_again(state: MapState, kept: ReferenceSet, fusion: Fusion) -> MapState:
    """Return the map with the confidence, of photos and drives, that a build from its references gives."""
    return calibrated(replace(state, estimator=fusion), replace(kept, info=state.places), state.truth)


def _with(state: MapState, calibration: Any, samples: Samples | None) -> MapState:
    return replace(
        state,
        calibration=calibration,
        samples=samples and samples.thinned(),
        calibrated_on=dict(state.traversals),
    )


def _samples_after(old: MapState, refs: ReferenceSet, gained: bool) -> tuple[Samples | None, bool]:
    """Samples of the map, with the traversals that were added and without those that were removed.

    Also whether those of the first two traversals are of parts of them (`folds_of_quarters`) and still needed.
    """
    names = [str(name) for name in refs.traversal_ids]
    if not gained:
        return (old.samples and old.samples.without(names)) or None, False
    found = joined([old.samples, _located_before(old, refs)])
    if found is None:
        return None, False
    parts = old.calibration is not None and old.calibration.basis == BASES[1]
    if parts and len(found.traversals) >= WHOLE:
        found, parts = found.without(found.traversals[:2]), False
    return found.latest(MAX_FOLDS), parts


def _located_before(old: MapState, refs: ReferenceSet) -> Samples | None:
    """Samples of new traversals, located in the map as it was with a stretch in the middle of the route masked."""
    if old.witness is None:
        return None
    asked, stretch = _asked(old, refs)
    return joined(_masked(old, asked.only(name), stretch, str(name)) for name in asked.traversal_ids)


def _asked(old: MapState, refs: ReferenceSet) -> tuple[ReferenceSet, NDArray[Any]]:
    """New references at places of the map, without those at the edges of the masked stretch; and that stretch."""
    route = old.places.route
    stretch, edges = stretch_of(route, int((1 - STRETCH) / 2 * len(route)), int(STRETCH * len(route)), MARGIN)
    return refs.select(np.isin(refs.places, np.setdiff1d(route, edges))), stretch


def _drives_after(old: MapState, new: MapState, refs: ReferenceSet, gained: bool) -> DriveCalibration | None:
    """Calibration of drives without the references: the old one, or one from the new traversals as held-out drives.

    That of a build with three traversals is kept: its drives went along maps of two, and it holds from two on.
    """
    if len(new.traversals) == 1 or (old.projection is None) != (new.projection is None):
        return drives_by_rule(new.places)
    known = old.driving is not None and old.driving.followed is not None
    if known or not gained:
        return old.driving
    drives, (asked, stretch) = DriveWatch(old.truth), _asked(old, refs)
    ids = np.setdiff1d(old.places.ids, stretch)
    for name in asked.traversal_ids:
        drives.drive(_rows_of(old, ids), ids, asked.only(name))
    return drives.calibration(len(new.traversals)) or old.driving


def _rows_of(state: MapState, ids: NDArray[Any]) -> Rows:
    """Rows of some places of a map."""
    places = state.places.ids[state.row_places]
    at = np.flatnonzero(np.isin(places, ids))
    return Rows(state.rows_at(at), np.searchsorted(ids, places[at]), state.projection, state.mean)


def _masked(state: MapState, queries: ReferenceSet, masked: NDArray[Any], name: str) -> Samples | None:
    """Samples of queries in a map some of whose places are masked, centred if the map's samples are."""
    ids = np.setdiff1d(state.places.ids, masked)
    if state.witness is None or len(queries) == 0 or len(ids) < 3:
        return None
    queries = queries.select(spread(len(queries), KEPT))
    vectors = queries.vectors.astype(np.float32)
    scores = state.scores(state.project(vectors))
    scores[:, np.isin(state.places.ids, masked)] = -np.inf
    best = top_k(scores, min(TOP, len(ids)))
    scores = np.take_along_axis(scores, best, axis=1)
    centred = state.samples is not None and state.samples.centred
    evidence = state.witness.evidence(vectors, best, scores, centred)
    labels = labelled(state.places.ids[best[:, 0]], queries.places, ids, state.truth)
    return Samples.of_fold(evidence, labels, name, centred)
