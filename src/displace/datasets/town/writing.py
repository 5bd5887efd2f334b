"""The town as a folder: one JPEG for each place and traversal, and a manifest."""

from __future__ import annotations

import gc
import json
import math
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from displace.arrays import check_count
from displace.datasets.base import Dataset
from displace.datasets.town.looks import TRAVERSALS
from displace.datasets.town.plan import MAX_PLACES
from displace.datasets.town.render import SIZE, check_place, check_size, look_named, position, render
from displace.errors import DatasetError, InputError
from displace.files.atomic import make_folder, write_json, write_whole
from displace.files.reading import PathLike
from displace.manifest.table import Manifest
from displace.progress import Stage
from displace.threads import spawning

VERSION = 1
"""Changes whenever the same arguments would give other pixels."""

PLACES = 240
MANIFEST = "manifest.csv"
_SETTINGS = "town.json"
_QUALITY = 92
_CHUNK = 20


class DrawnTown(Dataset):
    """The town in one of the ways to draw it."""

    paper = "none: drawn by this package"
    traversals = TRAVERSALS

    def read(self, root: Path) -> Manifest:
        """Refuse: a finished town has a manifest."""
        raise self.wrong(root, "there is no manifest.csv, so it was never drawn or not finished")


class Chunk(NamedTuple):
    """Consecutive places of one traversal: neighbours share most of their houses."""

    folder: str
    traversal: str
    places: Sequence[float]
    seed: int
    size: tuple[int, int]
    turns: tuple[float, ...] = (0.0,)
    """Degrees; with more than one, each place is several pictures."""
    lane: float = 0.0
    first: int | None = None
    """Number of the first picture's file, if pictures are not named after their places."""
    step: int = 1
    """Places of the drive from one frame to the next."""

    def pictures(self) -> Iterator[tuple[str, float, float]]:
        """Name, place and turn of each picture."""
        for at, place in enumerate(self.places):
            called = int(place) if self.first is None else self.first + at
            for number, turn in enumerate(self.turns):
                suffix = f"_{number:02d}" if len(self.turns) > 1 else ""
                yield f"{self.traversal}/{called:04d}{suffix}.jpg", place, turn


def write(
    folder: PathLike,
    places: int = PLACES,
    traversals: Sequence[str] = TRAVERSALS,
    seed: int = 0,
    size: tuple[int, int] = SIZE,
    workers: int = 2,
    progress: Stage | None = None,
) -> Path:
    """Draw the town into ``folder/<traversal>/<place>.jpg`` and write ``folder/manifest.csv``.

    Pictures that are already there are kept, so an interrupted call continues where it stopped; the manifest comes
    last.

    Parameters
    ----------
    folder : path-like
        Created where absent. Must be empty, or the town's own with the same seed and size.
    places : int
        Number of places, from the start of the route.
    traversals : sequence of str
        Which of ``TRAVERSALS``.
    seed, size
        As for ``render``.
    workers : int
        Processes; 1 draws in this one.
    progress : callable, optional
        Called with the number of pictures done and their total.

    Returns
    -------
    Path
        The manifest, with columns image, place, traversal, easting, northing, heading and frame (the place's
        number). Positions are the camera's own: they differ from traversal to traversal by a metre or two.

    Notes
    -----
    A script that asks for several workers must start its work under ``if __name__ == "__main__":``.
    """
    check(places, traversals, seed, size, workers)
    chunks = [
        Chunk(str(folder), traversal, range(first, min(first + _CHUNK, places)), seed, size)
        for traversal in traversals
        for first in range(0, places, _CHUNK)
    ]
    return write_chunks(chunks, workers, progress)


def write_chunks(chunks: list[Chunk], workers: int, progress: Stage | None, **settings: Any) -> Path:
    """Draw all chunks, write the manifest and return its path; `settings` are further parameters of the drawing."""
    root, seed, size = Path(chunks[0].folder), chunks[0].seed, chunks[0].size
    claim(root, {"town": VERSION, "seed": seed, "size": list(size), **settings})
    for traversal in {chunk.traversal for chunk in chunks}:
        make_folder(root / traversal)
    done, total = 0, sum(len(chunk.places) * len(chunk.turns) for chunk in chunks)
    for count in draw_all(chunks, workers):
        done += count
        if progress is not None:
            progress(done, total)
    return _write_manifest(root, chunks)


def check(places: int, traversals: Sequence[str], seed: int, size: tuple[int, int], workers: int) -> None:
    """Refuse arguments before anything is written."""
    if not 1 <= places <= MAX_PLACES:
        raise InputError(f"places={places} must be from 1 to {MAX_PLACES}")
    check_place(0, seed)
    check_size(size)
    if isinstance(traversals, str) or not traversals:
        raise InputError(
            f"traversals={traversals!r} must be a sequence of names, of: {', '.join(TRAVERSALS)}"
        )
    for traversal in traversals:
        look_named(traversal)
    if len(set(traversals)) < len(traversals):
        raise InputError(f"traversals={list(traversals)} names one of them twice")
    check_count(workers, "workers")


def claim(root: Path, wanted: dict[str, Any]) -> None:
    """Mark the folder as the town's, or check that it has the same settings."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        settings = root / _SETTINGS
        if not settings.exists():
            if any(root.iterdir()):
                raise DatasetError(f"{root} holds other files and no {_SETTINGS}; choose an empty folder")
            write_json(settings, wanted)
            return
        found = json.loads(settings.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DatasetError(f"cannot use {root} for the town: {error}") from error
    if found != wanted:
        raise DatasetError(
            f"{root} holds another town ({found}, wanted {wanted}); choose another folder or delete it"
        )


def draw_all(chunks: list[Chunk], workers: int) -> Iterator[int]:
    """Draw all chunks; yields the number of pictures in each as it is finished."""
    lanes = min(workers, len(chunks))
    if lanes == 1:
        for chunk in chunks:
            yield draw(chunk)
        return
    context = spawning()
    share = math.ceil(len(chunks) / lanes)
    with ExitStack() as stack:
        jobs: list[Future[int]] = []
        # A pool for each lane, so that one process draws what comes one after the other and keeps its houses.
        for first in range(0, len(chunks), share):
            pool = stack.enter_context(ProcessPoolExecutor(1, context, _start_worker))
            jobs += [pool.submit(draw, chunk) for chunk in chunks[first : first + share]]
        try:
            for job in as_completed(jobs):
                yield job.result()
        except BrokenProcessPool as error:
            raise DatasetError(
                'a worker that draws the town died. In a script, call it under `if __name__ == "__main__":`; '
                "or pass workers=1"
            ) from error
        finally:
            for job in jobs:
                job.cancel()


def _start_worker() -> None:
    """Leave other cores to other workers, Ctrl-C to the parent, and imported modules out of garbage collection."""
    cv2.setNumThreads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()


def draw(chunk: Chunk) -> int:
    """Draw the pictures of a chunk that are missing; returns how many it has."""
    for name, place, turn in chunk.pictures():
        path = Path(chunk.folder) / name
        if path.exists():
            continue
        picture = render(place, chunk.traversal, chunk.seed, chunk.size, turn, chunk.lane)
        _, encoded = cv2.imencode(".jpg", picture[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
        write_whole(path, encoded.tobytes())
    return len(chunk.places) * len(chunk.turns)


def _write_manifest(root: Path, chunks: Sequence[Chunk]) -> Path:
    """Write the table of all pictures; the place of a picture is the nearest one."""
    rows = [(chunk, *picture) for chunk in chunks for picture in chunk.pictures()]
    poses = np.array(
        [position(at, chunk.traversal, chunk.seed, turn, chunk.lane) for chunk, _, at, turn in rows]
    )
    easting, northing, heading = poses.round(2).T
    manifest = Manifest(
        images=[name for _, name, _, _ in rows],
        places=[f"{round(at):04d}" for _, _, at, _ in rows],
        traversals=[chunk.traversal for chunk, _, _, _ in rows],
        root=root,
        easting=easting,
        northing=northing,
        heading=heading,
        frame=[round(at) // chunk.step for chunk, _, at, _ in rows],
    )
    path = root / MANIFEST
    manifest.write(path)
    return path
