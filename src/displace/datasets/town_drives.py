"""The rendered town as drives: each traversal at its own speed, with stops, detours and its own number of frames.

It is for lining recordings up and for following a drive: the place of each frame is known, and which frames show
places that the other drives never pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from displace.datasets.base import Protocol
from displace.datasets.town.looks import TRAVERSALS
from displace.datasets.town.randomness import stream
from displace.datasets.town.writing import Chunk, DrawnTown, check, write_chunks
from displace.errors import InputError
from displace.files.reading import PathLike
from displace.progress import Stage
from displace.truth import Tolerance

__all__ = ["DRIVES", "ELSEWHERE", "PLACES", "SIZE", "TownDrive", "TownDrives", "driven", "write"]

PLACES = 240
SIZE = (160, 120)
ELSEWHERE = 1000
"""Places from here on are those of detours: the route ends before."""
_LEAST_PLACES = 40
_CHUNK = 20


@dataclass(frozen=True)
class TownDrive:
    """How one traversal is driven; shares are of the route's length."""

    rate: float = 0.8
    """Places from one frame to the next, on average."""
    stops: int = 1
    """Times that it stands for 5 to 20 frames."""
    start: float = 0.0
    end: float = 1.0
    """Where it begins and ends."""
    detour: tuple[float, int] | None = None
    """Where it leaves the route, and the first place of the detour. It comes back some places on."""
    gap: float | None = None
    """Where the camera is off for a twelfth of the route."""


DRIVES: Mapping[str, TownDrive] = {
    "sun": TownDrive(stops=1),
    "overcast": TownDrive(stops=2, gap=0.6),
    "rain": TownDrive(stops=1, detour=(0.4, ELSEWHERE)),
    "dusk": TownDrive(rate=0.65, stops=2, detour=(0.4, ELSEWHERE)),
    "night": TownDrive(stops=2, start=0.06, detour=(0.7, ELSEWHERE + 100)),
    "snow": TownDrive(rate=1.1, stops=1, end=0.92),
}
"""Rain and dusk make the same detour; what night sees on its own no other drive saw."""


def driven(traversal: str, places: int = PLACES, seed: int = 0) -> NDArray[np.float64]:
    """Place of each frame of a drive: 12.4 lies between the places 12 and 13, from `ELSEWHERE` on it is a detour.

    >>> driven("night")[:3].round(2).tolist()
    [14.4, 14.87, 15.31]
    """
    drive, rng = DRIVES[traversal], stream(seed, "drive", traversal)
    stops = sorted(rng.uniform(0.15, 0.9, drive.stops) * places)
    detour = None if drive.detour is None else drive.detour[0] * places
    gap = None if drive.gap is None else drive.gap * places
    at, pace, frames = drive.start * places, 0.0, []
    while at <= drive.end * places - 1:
        frames.append(at)
        pace = float(np.clip(0.95 * pace + rng.normal(0, 0.2), -0.69, 0.69))
        speed = drive.rate * float(np.exp(pace))
        at += speed
        if stops and at >= stops[0]:
            stops.pop(0)
            # A car that stands still creeps: two pictures of one moment would be the same file.
            frames += [at + 0.001 * i for i in range(int(rng.integers(5, 20)))]
            at = frames[-1] + 0.001
        if detour is not None and at >= detour and drive.detour is not None:
            length = places / 8
            frames += np.arange(drive.detour[1], drive.detour[1] + length, speed).tolist()
            at, detour = at + length / 2, None
        if gap is not None and at >= gap:
            at, gap = at + places / 12, None
    return np.array(frames)


def write(
    folder: PathLike,
    places: int = PLACES,
    traversals: Sequence[str] = TRAVERSALS,
    seed: int = 0,
    size: tuple[int, int] = SIZE,
    workers: int = 2,
    progress: Stage | None = None,
) -> Path:
    """Draw drives into ``folder/<traversal>/<frame>.jpg`` and write ``folder/manifest.csv``, which is returned.

    As `displace.datasets.town.write`, along a route of 40 places or more. Frames are numbered from 0 in each drive, so
    only the manifest shows which of them show the same place: the nearest one.
    """
    check(min(places, ELSEWHERE), traversals, seed, size, workers)
    if not _LEAST_PLACES <= places <= ELSEWHERE - 100:
        raise InputError(f"places={places} must be from {_LEAST_PLACES} to {ELSEWHERE - 100}")
    chunks = []
    for name in traversals:
        frames = driven(name, places, seed).tolist()
        chunks += [
            Chunk(str(folder), name, frames[i : i + _CHUNK], seed, size, first=i)
            for i in range(0, len(frames), _CHUNK)
        ]
    return write_chunks(chunks, workers, progress, drives=places)


class TownDrives(DrawnTown):
    """Six drives through the rendered town at speeds of their own, with stops, detours and gaps."""

    name = "town_drives"
    title = "drives through the rendered town"
    obtain = "Draw it first: `from displace.datasets import town_drives; town_drives.write(FOLDER)`"
    protocols = (
        Protocol("town-drives", Tolerance("frames", 2), note="each drive in turn against all others"),
        Protocol("town-drives-25m", Tolerance("metres", 25), note="the usual tolerance of street images"),
    )
