"""Pictures as a map sees them: descriptors with their sketches beside them, one array for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from displace import PlaceMap
from displace.descriptors.extraction import describe
from displace.holdout import spread
from displace.maps.comparing import Shown, compared
from displace.maps.place_sketches import AMONG, PlaceSketches
from displace.maps.sketching import SAMPLE, level_of, sketches_of
from displace.matches import Matches
from displace.models import get_model
from displace.sequence.following import Fix
from displace.sketches import COLUMNS, ROWS, fused, packed

SKETCH = 2 * ROWS * COLUMNS
"""Numbers of a sketch."""


def seen(model_name: str, images: Sequence[Any]) -> np.ndarray:
    """Descriptors and sketches of images, (n, D + SKETCH)."""
    model = get_model(model_name)
    sketches = sketches_of(model.frame, images).view(np.float32).reshape(len(images), SKETCH)
    return np.hstack([describe(model, images), sketches])


def vectors_of(pictures: np.ndarray) -> np.ndarray:
    """Descriptors (n, D) of pictures."""
    return pictures[:, :-SKETCH]


def drawn_of(pictures: np.ndarray) -> np.ndarray:
    """Sketches (n, ROWS, COLUMNS) of pictures."""
    return np.ascontiguousarray(pictures[:, -SKETCH:]).view(np.complex64).reshape(-1, ROWS, COLUMNS)


def with_pictures_of(place_map: PlaceMap, pictures: np.ndarray, places: np.ndarray) -> PlaceMap:
    """The map with sketches of its places, as `displace build` makes them of the references' images."""
    order = np.argsort(places, kind="stable")
    pictures, at = pictures[order], place_map.places.rows_of(places[order])
    sketches = drawn_of(pictures)
    bits = packed(np.stack([fused(sketches[at == place]) for place in range(len(place_map.place_ids))]))
    some = spread(len(pictures), SAMPLE)
    level = level_of(place_map.state, bits, vectors_of(pictures)[some], sketches[some], at[some])
    return place_map.changed(sketches=PlaceSketches(bits, level))


def shown_by(pictures: np.ndarray) -> Shown:
    """Their sketches, by number."""
    sketches = drawn_of(pictures)
    return lambda rows: sketches[rows]


def located(place_map: PlaceMap, pictures: np.ndarray, adapt: str, k: int = 1) -> Matches:
    """Locate photos, as `displace locate` does."""
    matches = place_map.locate(vectors_of(pictures), k=max(k, AMONG), adapt=adapt)
    return compared(place_map.state, matches, shown_by(pictures)).best(k)


def smoothed(place_map: PlaceMap, pictures: np.ndarray, adapt: str = "auto") -> list[Fix]:
    """Smooth a drive, as `displace locate` does."""
    return place_map._smooth(place_map.state, vectors_of(pictures), adapt, shown_by(pictures))[0]
