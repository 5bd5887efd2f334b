"""The rendered town seen all around: twelve pictures at each place, and queries from another lane.

It is for places with many views: panoramas cut into pictures, or several cameras on a car.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from displace.datasets.base import Protocol
from displace.datasets.town.looks import TRAVERSALS
from displace.datasets.town.plan import MAX_PLACES
from displace.datasets.town.writing import Chunk, DrawnTown, check, write_chunks
from displace.errors import InputError
from displace.files.reading import PathLike
from displace.progress import Stage
from displace.truth import Tolerance

__all__ = ["HEADINGS", "LANES", "PLACES", "SIZE", "TownPanoramas", "write"]

PLACES, STEP = 60, 4
"""Places, and the step between them in places of the drive: some 28 m."""
HEADINGS = 12
SIZE = (160, 120)
LANES: Mapping[str, float] = {"night": -1.5, "snow": -1.5}
"""Metres right of the usual line, of the traversals that are driven elsewhere on the road."""
_CHUNK = 5


def write(
    folder: PathLike,
    places: int = PLACES,
    traversals: Sequence[str] = TRAVERSALS,
    headings: int = HEADINGS,
    seed: int = 0,
    size: tuple[int, int] = SIZE,
    lanes: Mapping[str, float] = LANES,
    workers: int = 2,
    progress: Stage | None = None,
) -> Path:
    """Draw panoramas into ``folder/<traversal>/<place>_<number>.jpg`` with ``folder/manifest.csv``, which is returned.

    As `displace.datasets.town.write`, with pictures in so many directions, evenly spread over the circle and the first
    along the way, at every fourth place of the drive. `lanes` are metres right of the usual line, for traversals that
    are driven there.
    """
    check(min(places, MAX_PLACES), traversals, seed, size, workers)
    if not 1 <= places <= MAX_PLACES // STEP:
        raise InputError(f"places={places} must be from 1 to {MAX_PLACES // STEP}")
    if not 1 <= headings <= 99:
        raise InputError(f"headings={headings} must be from 1 to 99")
    lane = {name: float(lanes.get(name, 0.0)) for name in traversals}
    turns = tuple(360 / headings * number for number in range(headings))
    chunks = [
        Chunk(
            str(folder),
            name,
            range(first * STEP, min(first + _CHUNK, places) * STEP, STEP),
            seed,
            size,
            turns,
            lane[name],
            step=STEP,
        )
        for name in traversals
        for first in range(0, places, _CHUNK)
    ]
    settings = {"headings": headings, "lanes": dict(sorted(lane.items()))}
    return write_chunks(chunks, workers, progress, **settings)


class TownPanoramas(DrawnTown):
    """Twelve headings at 60 places of the rendered town, in six conditions, two of them from another lane."""

    name = "town_panoramas"
    title = "panoramas of the rendered town"
    obtain = "Draw it first: `from displace.datasets import town_panoramas; town_panoramas.write(FOLDER)`"
    protocols = (
        Protocol(
            "town-panoramas-lane",
            Tolerance("exact"),
            queries=("night", "snow"),
            references=("sun", "overcast", "rain", "dusk"),
            note="queries of a condition and from a lane that the map does not have",
        ),
        Protocol("town-panoramas", Tolerance("exact"), note="each traversal in turn against all others"),
    )
