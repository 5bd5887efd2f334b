"""Recordings: each traversal's images on disk, with positions and times where they are known."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from displace.errors import ManifestError, RouteWarning
from displace.files.reading import PathLike
from displace.geo import Positions
from displace.images import find_images, has_images, is_hidden, natural_key
from displace.manifest.clock import Clock
from displace.manifest.csv_file import REQUIRED
from displace.manifest.position_files import ALIASES, PositionFile, is_track, read_position_file
from displace.registry import check_known

_CSV = (".csv", ".CSV")
_TRACKS = (".gpx", ".GPX", ".nmea", ".NMEA", ".nma", ".log", ".LOG", ".txt", ".TXT")
_NOT_READ = (".kml", ".KML", ".kmz", ".fit", ".FIT", ".tcx", ".TCX")
_NO_RECORDING = frozenset({*_CSV, *_TRACKS, *_NOT_READ, ".frames", ".desc", ".displace"})
"""Endings of files beside recordings that are not recordings."""
FRAMES = "frames.csv"
"""File beside frames taken from a video or bag: image, timestamp, and positions where the bag has them."""
POSITIONS = "positions.csv"
"""Positions of the frames of a video or bag by a file beside it, in the folder of the frames."""


@dataclass(frozen=True, eq=False)
class Recording:
    """The images of one traversal in natural order."""

    name: str
    """The traversal."""
    images: list[Path]
    """Where the images are."""
    names: list[str]
    """Their paths below the deepest folder that holds them all, without endings: what "equal names" compares."""
    positions: Positions | None = None
    """One for each image."""
    times: NDArray[np.float64] | None = None
    """Shape (m,), in seconds."""

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.images)

    def take(self, rows: NDArray[np.intp]) -> Recording:
        """Return some of the images."""
        return replace(
            self,
            images=[self.images[row] for row in rows],
            names=[self.names[row] for row in rows],
            positions=None if self.positions is None else self.positions.take(rows),
            times=None if self.times is None else self.times[rows],
        )


def find_recordings(
    source: PathLike | Mapping[str, PathLike],
    max_gap: float = 2.0,
    clock_offset: Mapping[str, float] | None = None,
) -> list[Recording]:
    """Find the traversals in a folder with a sub-folder for each, in one folder of images, or in folders by name.

    An image farther than `max_gap` seconds from every position has none; `clock_offset` are seconds to add to the times
    of a traversal's images, or of all ("").
    """
    if not isinstance(source, Mapping):
        source = _traversal_folders(Path(source))
    check_offsets(clock_offset, source)
    shared = cache(tracks_in)
    recordings: list[Recording] = []
    errors: list[ManifestError] = []
    for name, folder in source.items():
        try:
            clock = Clock.of(name, clock_offset)
            recordings.append(read_recording(name, Path(folder), max_gap, clock, shared))
        except ManifestError as error:
            errors.append(error)
    refuse_all(errors)
    if empty := [r.name for r in recordings if not len(r)]:
        raise ManifestError(f"no images in traversal {', '.join(empty)}")
    return recordings


def refuse_all(errors: Sequence[ManifestError]) -> None:
    """Raise the errors about the positions of all recordings at once."""
    if len(errors) > 1:
        raise ManifestError(f"positions of {len(errors)} recordings cannot be used:", [*map(str, errors)])
    if errors:
        raise errors[0]


def check_offsets(clock_offset: Mapping[str, float] | None, names: Iterable[str]) -> None:
    """Refuse an offset for a traversal that does not exist."""
    check_known("traversal for clock_offset", [name for name in clock_offset or () if name], list(names))


def read_recording(
    name: str,
    folder: Path,
    max_gap: float = 2.0,
    clock: Clock | None = None,
    shared: Callable[[Path], list[PositionFile]] = lambda _: [],
) -> Recording:
    """Read one traversal: images at any depth below `folder`, and the positions beside them.

    Where it has none of its own, those of tracks that it shares with others are used (`tracks_in`).
    """
    images = find_images(folder, recursive=True)
    if not images:
        return Recording(name, [], [])
    common = Path(os.path.commonpath({image.parent for image in images}))
    start = len(str(common)) + 1 if common != Path() else 0
    names = [str(image)[start:].rpartition(".")[0].replace(os.sep, "/") for image in images]
    csv_files, tracks = files_of([folder.resolve()], [folder, common])
    files = [read_position_file(path) for path in csv_files]
    times = _times(files, images)
    own = with_positions(files) or [read_position_file(path) for path in tracks]
    own = own or [file for file in files if file.positions is not None]
    if len(own) > 1:
        listed = ", ".join(file.called for file in own)
        raise ManifestError(f"traversal {name!r} has several files of positions, keep one of them: {listed}")
    around = [] if own else shared(folder.resolve().parent)
    pictures = Pictures(images, _known_as(images), times, clock or Clock(name))
    positions = pictures.positions(own, around, max_gap)
    if positions is None:
        warn_of_unused(name, [folder.resolve()], files)
    return Recording(name, images, names, positions, times)


@dataclass(frozen=True)
class Pictures:
    """Images of a traversal for which positions are looked for."""

    images: Sequence[Path]
    """Where they are."""
    names: Sequence[str]
    """What a file may call them."""
    times: NDArray[np.float64] | None
    """Shape (m,), in seconds; None where they stand in names or EXIF, if anywhere."""
    clock: Clock
    """What these times count from."""

    def positions(
        self, own: Sequence[PositionFile], around: Sequence[PositionFile], max_gap: float
    ) -> Positions | None:
        """Positions from the traversal's own file, or from that of the shared ones which tells most."""
        if own:
            return self._by(own[0], max_gap)
        found: list[Positions] = []
        reasons: list[str] = []
        for file in around:
            try:
                found.append(self._by(file, max_gap))
            except ManifestError as error:
                reasons.append(str(error))
        if not found and reasons:
            warnings.warn(
                f"traversal {self.clock.name!r} has no positions from tracks around it: {'; '.join(reasons)}",
                RouteWarning,
                stacklevel=4,
            )
        return max(found, key=lambda positions: int(positions.known.sum()), default=None)

    def _by(self, file: PositionFile, max_gap: float) -> Positions:
        return file.for_images(self.names, self.times, max_gap, self.images, self.clock)


def _traversal_folders(source: Path) -> dict[str, Path]:
    """Sub-folders that hold images, or the folder itself where there are none."""
    if not source.is_dir():
        raise ManifestError(f"no folder at {source}")
    while True:
        entries = (e for e in os.scandir(source) if e.is_dir() and not is_hidden(e.name))
        # A link to the folder itself, or to one around it, is no traversal.
        around = {source.resolve(), *source.resolve().parents}
        children = [Path(e.path) for e in entries if Path(e.path).resolve() not in around]
        with_images = [child for child in children if has_images(child)]
        loose = find_images(source)
        if loose and with_images:
            names = ", ".join(sorted(child.name for child in with_images))
            raise ManifestError(
                f"{source} has images of its own ({loose[0].name}, …) beside folders of images ({names}); "
                "move them into a folder, or name the folders to use"
            )
        if loose:
            return {source.resolve().name: source}
        if not with_images:
            raise ManifestError(f"no images in {source} or in its sub-folders")
        if len(with_images) > 1 or find_images(with_images[0]):
            return {child.name: child for child in sorted(with_images, key=lambda c: natural_key(c.name))}
        source = with_images[0]  # a single folder of folders, such as images/: look inside


def files_of(stems: Sequence[Path], folders: Sequence[Path] = ()) -> tuple[list[Path], list[Path]]:
    """CSV files and tracks of a traversal: ``TRAVERSAL.csv``, ``TRAVERSAL.gpx`` beside it, and those in folders."""
    inside = sorted({path for folder in folders for path in folder.iterdir()})
    csv_files = [path for stem in stems for path in beside(stem, _CSV)]
    tracks = [path for stem in stems for path in beside(stem, _TRACKS)]
    return (
        [*csv_files, *(path for path in inside if path.suffix in _CSV)],
        [path for path in (*tracks, *inside) if is_track(path)],
    )


def with_positions(files: Sequence[PositionFile]) -> list[PositionFile]:
    """CSV files with positions, other than manifests and the `frames.csv` of a video or bag."""
    return [
        file
        for file in files
        if file.positions is not None
        and Path(file.called).name != FRAMES
        and not set(REQUIRED) <= set(file.header)
    ]


def tracks_in(folder: Path) -> list[PositionFile]:
    """Tracks in a folder of recordings that belong to none of them by name, such as one of a whole day.

    CSV files are not among them: any table may lie there.
    """
    try:
        there = sorted(folder.iterdir())
    except OSError:  # a folder that may not be listed
        return []
    tracks = [path for path in there if path.suffix in _TRACKS and is_track(path)]
    others = [path for path in there if tracks and path.suffix not in _NO_RECORDING]
    owned = {name for path in others for name in (path.name, path.stem)}
    files = []
    for path in tracks:
        if path.stem in owned:
            continue
        try:
            files.append(read_position_file(path))
        except ManifestError as error:
            warnings.warn(f"{path} is not used: {error}", RouteWarning, stacklevel=4)
    return files


def beside(stem: Path, endings: Sequence[str]) -> list[Path]:
    """Files named `stem` with one of some endings; each once, also if the file system ignores case."""
    there = [path for ending in endings if (path := Path(f"{stem}{ending}")).is_file()]
    return [path for row, path in enumerate(there) if not any(path.samefile(other) for other in there[:row])]


def warn_of_unused(name: str, stems: Sequence[Path], files: Sequence[PositionFile]) -> None:
    """Warn of files that seem to hold positions of a traversal which has none."""
    told = [
        f"{path} is not read, convert it to GPX ({path.stem}.gpx)"
        for stem in stems
        for path in beside(stem, _NOT_READ)
    ]
    for file in files:
        serves = file.images is not None and (file.times is not None or "place" in file.header)
        if not serves and any(file.header):
            told.append(f"{file.called} has {', '.join(map(repr, file.header[:12]))}")
    if told:
        known = ", ".join(column for column in ALIASES if column != "heading")
        warnings.warn(
            f"traversal {name!r} has no positions: {'; '.join(told)}. Positions are columns of a CSV file ({known}), a "
            "GPX track or an NMEA log",
            RouteWarning,
            stacklevel=4,
        )


def _times(files: list[PositionFile], images: list[Path]) -> NDArray[np.float64] | None:
    """Times of the images from the file that names them."""
    for file in files:
        if file.images is not None and file.times is not None:
            # Row −1, an image that the file does not name, is the NaN at the end.
            return np.append(file.times, np.nan)[file.rows_of(_known_as(images))]
    return None


def _known_as(images: Sequence[Path]) -> list[str]:
    """Names of images with their folders, by which a file may name them."""
    return [f"{image.parent.name}/{image.name}" for image in images]
