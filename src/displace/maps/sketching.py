"""Makes the sketches of a map's places from the images that its references are of, when it is built or updated.

The level is the median fit of references with the best place that is not theirs, and a little more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, blocks
from displace.holdout import spread
from displace.maps.place_sketches import PlaceSketches
from displace.models import frame_of
from displace.progress import Stage
from displace.sketches import COLUMNS, PACKED, ROWS, Sketches, fit, fused, packed, sketch_of, unpacked

if TYPE_CHECKING:
    from displace.descriptors.store import DescriptorStore
    from displace.maps.state import MapState
    from displace.models._frame import Frame

ABOVE, LEAST = 0.4, 2.2
"""The level is so far above the median fit of wrong places, and at least the latter: pictures of other scenes fit by
about 2.0 everywhere, and some of them better."""
SAMPLE = 400
"""References from which the level is estimated."""
SEVERAL = 1.2
"""Images for each place and traversal, on average, from which on they are taken for views of different things."""

MOST = 100_000
"""Images that are read once more at most, which takes minutes; and places of a map that an update gives sketches."""

logger = logging.getLogger(__name__)


class _Reference(NamedTuple):
    """A reference of the map, and where its image is."""

    place: int
    traversal: str
    store: DescriptorStore
    row: int
    image: Path


def sketched(frame: Frame, images: Sequence[Any], progress: Stage | None = None) -> Iterator[Sketches]:
    """Sketches of images, one by one, cropped as for the model; zeros for those that cannot be read."""
    from displace.descriptors.preparation import in_order, n_cores

    with ThreadPoolExecutor(n_cores(), thread_name_prefix="displace-sketch") as pool:
        answers = in_order(pool, partial(_sketch, frame), enumerate(images), ahead=4 * n_cores())
        for row, sketch in answers:
            yield sketch
            if progress is not None:
                progress(row + 1, len(images))


def _sketch(frame: Frame, image: Any) -> Sketches:
    from displace.descriptors.preparation import Failure, attempt
    from displace.images import read_image

    found = attempt(lambda one: sketch_of(frame.apply(read_image(one))), image)
    return np.zeros((ROWS, COLUMNS), np.complex64) if isinstance(found, Failure) else found


def sketches_of(frame: Frame, images: Sequence[Any], progress: Stage | None = None) -> Sketches:
    """Sketches (q, ROWS, COLUMNS) of images."""
    if len(images) > 1:
        return np.stack(list(sketched(frame, images, progress)))
    found = _sketch(frame, images[0])[None]
    if progress is not None:
        progress(1, 1)
    return found


def with_sketches(
    state: MapState,
    stores: Iterable[DescriptorStore],
    traversals: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    progress: Stage | None = None,
) -> MapState:
    """Return the map with sketches of its places, made of the images of the stores that it was built from, or updated.

    The images must be where the stores' manifest says; a map without a confidence, with several rows for a place, or
    made with a mask gets none. Known sketches are fused with the new ones.
    """
    frame = frame_of(state.model)
    if frame is None or state.calibration is None or len(state.row_places) != len(state.places):
        return state
    found = _references(state, stores, traversals, exclude)
    if not found:
        return state
    known, sample = state.sketches, set(spread(len(found), SAMPLE).tolist())
    bits = np.zeros((len(state.places), PACKED), np.uint8) if known is None else known.packed.copy()
    n_before = len({*state.traversals} - {one.traversal for one in found})
    looked_at: dict[int, Sketches] = {}
    any_shown = False
    sketches = zip(found, sketched(frame, [one.image for one in found], progress), strict=True)
    for place, group in groupby(enumerate(sketches), key=lambda one: one[1][0].place):
        own = {number: sketch for number, (_, sketch) in group}
        any_shown |= any(sketch.any() for sketch in own.values())
        looked_at |= {number: sketch for number, sketch in own.items() if number in sample}
        before = unpacked(bits[[place]])[0]
        bits[place] = packed(fused(np.stack(list(own.values())), before, n_before)[None])
    if not any_shown:
        logger.warning(
            "the images of the store are not where its manifest says (%s …): no sketches of places can be made of "
            "them, and where there are none, photos that are located are judged by their descriptors alone",
            found[0].image,
        )
        return state
    if known is not None:
        return replace(state, sketches=replace(known, packed=bits))
    some = [found[number] for number in looked_at]
    vectors = np.concatenate([one.store.vectors([one.row]) for one in some])
    places = np.array([one.place for one in some])
    level = level_of(state, bits, vectors, np.stack(list(looked_at.values())), places)
    return replace(state, sketches=PlaceSketches(bits, level))


def level_of(
    state: MapState, bits: NDArray[np.uint8], vectors: Vectors, sketches: Sketches, places: Indices
) -> float:
    """The level, from packed sketches of all places and some references: descriptors (m, D), sketches, places."""
    # Coordinates of all places beside those of each reference.
    parts = blocks(len(places), row_bytes=64 * len(state.places))
    wrong = np.concatenate([_best_wrong(state, vectors[part], places[part]) for part in parts])
    found = fit(sketches[wrong >= 0], unpacked(bits[wrong[wrong >= 0]]))
    found = found[np.isfinite(found)]
    return max(LEAST, float(np.median(found)) + ABOVE) if len(found) else LEAST


def _best_wrong(state: MapState, vectors: Vectors, places: Indices) -> Indices:
    """The best place of some references that is not theirs; −1 where there is none."""
    ids = state.places.ids
    own = state.truth.correct(ids[None, :], ids[places][:, None])
    best = np.where(own, -np.inf, state.scores(state.project(vectors))).argmax(axis=1)
    return np.where(own.all(axis=1), -1, best)


def _references(
    state: MapState,
    stores: Iterable[DescriptorStore],
    traversals: Sequence[str] | None,
    exclude: Sequence[str],
) -> list[_Reference]:
    """The map's references in the order of their places; none where they are too many, or show different things."""
    found: list[_Reference] = []
    for store in stores:
        known = store.manifest.traversal_names()
        names = [name for name in known if traversals is None or name in traversals]
        at, paths = state.places.rows_of(store.places), store.manifest.paths()
        keep = (at >= 0) & np.isin(store.traversals, names) & ~np.isin(store.traversals, list(exclude))
        found += [
            _Reference(int(at[row]), str(store.traversals[row]), store, int(row), paths[row])
            for row in np.flatnonzero(keep)
        ]
    several = len(found) > SEVERAL * len({(one.place, one.traversal) for one in found})
    too_many = len(found) > MOST or (state.sketches is None and len(state.places) > MOST)
    return [] if several or too_many else sorted(found, key=attrgetter("place"))
