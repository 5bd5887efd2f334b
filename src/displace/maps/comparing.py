"""Photos and frames laid on the sketches of a map's places: which of their places they show, and how surely."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from displace.arrays import Indices, blocks
from displace.matches import Matches
from displace.models import frame_of
from displace.sketches import COLUMNS, ROWS, Sketches

if TYPE_CHECKING:
    from displace.maps.state import MapState
    from displace.progress import Stage

Shown = Callable[[Indices], Sketches]
"""Sketches (q, ROWS, COLUMNS) of the photos, or frames, of these numbers (q,)."""


def shown_by(state: MapState, pictures: Sequence[Any], progress: Stage | None = None) -> Shown:
    """Sketches of pictures as the map's model sees them; zeros where it sees none."""
    from displace.maps.sketching import sketches_of

    frame = frame_of(state.model)
    if frame is None:
        return lambda rows: np.zeros((len(rows), ROWS, COLUMNS), np.complex64)

    def shown(rows: Indices) -> Sketches:
        def step(done: int, _: int) -> None:
            if progress is not None:
                progress(int(rows[done - 1]) + 1, len(pictures))

        return sketches_of(frame, [pictures[row] for row in rows.tolist()], step)

    return shown


def compared(state: MapState, found: Matches, shown: Shown) -> Matches:
    """Matches of photos in view of how they fit the sketches of their places; as they are where there is none."""
    if state.sketches is None or found.confidence is None or not len(found):
        return found
    rows = np.arange(len(found))
    columns, told = np.zeros(len(rows), np.intp), np.empty(len(rows))
    for part in blocks(len(rows), row_bytes=6 * 8 * ROWS * COLUMNS):
        places = state.places.rows_of(found.places[part])
        columns[part], told[part] = state.sketches.judged(
            places, found.scores[part], found.confidence[part], shown(rows[part])
        )
    found = replace(found.led_by(columns), confidence=told, compared=True)
    return replace(found, positions=state.places.positions_of(found.places[:, 0]))
