"""Places of a map after an update: ids, with positions and images carried over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.geo import Numbers, Positions
from displace.maps.place_map import PlaceMap


@dataclass(frozen=True, eq=False)
class Places:
    """Places of the references that are added: sorted ids, and what is known of each."""

    ids: NDArray[Any]
    positions: Positions | None = None
    images: Sequence[str] | None = None


def replace_places(town: PlaceMap, ids: NDArray[Any], new: Places) -> None:
    """Give the map the places `ids`: what it knows of them stays, the rest is taken from `new`."""
    old_rows, new_rows = _rows_of(ids, town.place_ids), _rows_of(ids, new.ids)
    fresh = (old_rows < 0) & (new_rows >= 0)
    if town.positions is not None:
        town.positions = _joined(town.positions, new.positions, old_rows, np.where(fresh, new_rows, -1))
    if town.images is not None:
        images = ["" if row < 0 else town.images[row] for row in old_rows.tolist()]
        if new.images is not None:
            for row in np.flatnonzero(fresh).tolist():
                images[row] = new.images[new_rows[row]]
        town.images = images
    town.place_ids = ids


def _joined(
    old: Positions, new: Positions | None, old_rows: NDArray[Any], new_rows: NDArray[Any]
) -> Positions:
    """Positions with `old` at `old_rows`, `new` at `new_rows`; −1 is none, and neither is NaN."""
    points, heading = np.full((len(old_rows), 2), np.nan), np.full(len(old_rows), np.nan)
    for source, rows in ((old, old_rows), (new, new_rows)):
        if source is not None:
            points[rows >= 0] = source.points[rows[rows >= 0]]
            if source.heading is not None:
                heading[rows >= 0] = source.heading[rows[rows >= 0]]
    has_heading = any(source is not None and source.heading is not None for source in (old, new))
    headings: Numbers | None = heading if has_heading else None
    return Positions(points, old.degrees, headings)


def _rows_of(ids: NDArray[Any], among: NDArray[Any]) -> NDArray[np.intp]:
    """Row of each id in the sorted `among`; −1 where it is not there."""
    rows = np.searchsorted(among, ids).clip(max=max(0, len(among) - 1))
    return np.where(among[rows] == ids, rows, -1) if len(among) else np.full(len(ids), -1)
