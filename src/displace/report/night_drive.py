"""The demonstration's night as a drive: each frame for itself, followed and smoothed, and a stretch off the map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors
from displace.maps import PlaceMap
from displace.recall import percent
from displace.sequence.following import Fix
from displace.truth import Flags


@dataclass(frozen=True, eq=False)
class NightDrive:
    """What following gave."""

    recalls: dict[str, float]
    """R@1 (%) of frames followed and smoothed along the whole map."""
    missing: Flags
    """Shape (n,). Frames whose places the second map lacks."""
    off_map: dict[str, tuple[float, float]]
    """Precision and recall of being off the second map."""
    fixes: list[Fix]
    """Of the frames, followed along the second map."""
    places: NDArray[np.intp]
    """Shape (N,). Number of each of its places along the route."""


def follow_night(
    place_map: PlaceMap,
    without: PlaceMap,
    frames: Vectors,
    right: Callable[[NDArray[Any]], Flags],
) -> NightDrive:
    """Follow and smooth a drive along a map, and along one that lacks a stretch of it.

    Parameters
    ----------
    place_map, without : PlaceMap
        Their places are in route order.
    frames : array of shape (n, D)
        One of each place of the first map.
    right : callable
        Whether places (n,) are those of the frames.
    """
    whole, found = _fixes(place_map, frames), _fixes(without, frames)
    recalls = {way: percent(right(np.array([fix.place for fix in fixes]))) for way, fixes in whole.items()}
    missing = ~np.isin(place_map.place_ids, without.place_ids)
    off_map = {way: _precision_recall(fixes, missing) for way, fixes in found.items()}
    return NightDrive(recalls, missing, off_map, found["followed"], np.flatnonzero(~missing))


def _fixes(place_map: PlaceMap, frames: Vectors) -> dict[str, list[Fix]]:
    """Fixes of the frames, followed and smoothed."""
    follower = place_map.follow()
    return {"followed": [follower.step(frame) for frame in frames], "smoothed": place_map.smooth(frames)}


def _precision_recall(fixes: list[Fix], missing: Flags) -> tuple[float, float]:
    off = np.array([fix.off_map > 0.5 for fix in fixes])
    both = float((off & missing).sum())
    return both / max(1, off.sum()), both / max(1, missing.sum())
