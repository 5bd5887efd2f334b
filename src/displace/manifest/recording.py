"""Recordings: each traversal's images on disk, with positions and times where they are known."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from displace.errors import ManifestError, RouteWarning
from displace.geo import Positions
from displace.images import find_images, has_images, natural_key
from displace.manifest.position_files import ALIASES, PositionFile, read_position_file

CSV = (".csv", ".CSV")
OTHER_TRACKS = (".gpx", ".GPX", ".kml", ".nmea", ".fit")
PathLike = str | os.PathLike[str]
FRAMES = "frames.csv"
"""File beside frames taken from a video or bag: image, timestamp, and positions where the bag has them."""
POSITIONS = "positions.csv"
"""Copy of the file of positions beside a video, in the folder of its frames."""


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
        return Recording(
            self.name,
            [self.images[row] for row in rows],
            [self.names[row] for row in rows],
            None if self.positions is None else self.positions.take(rows),
            None if self.times is None else self.times[rows],
        )


def find_recordings(source: PathLike | Mapping[str, PathLike], max_gap: float = 2.0) -> list[Recording]:
    """Find the traversals in `source`.

    Parameters
    ----------
    source : path-like or mapping of str to path-like
        A folder with one sub-folder for each traversal, or one folder of images, or the folder of each
        traversal under its name.
    max_gap : float
        Seconds between an image and the nearest position for the image to have one.
    """
    if not isinstance(source, Mapping):
        source = _traversal_folders(Path(source))
    recordings = [read_recording(name, Path(folder), max_gap) for name, folder in source.items()]
    if empty := [r.name for r in recordings if not len(r)]:
        raise ManifestError(f"no images in traversal {', '.join(empty)}")
    return recordings


def read_recording(name: str, folder: Path, max_gap: float = 2.0) -> Recording:
    """Read one traversal: images at any depth below `folder`, and the positions beside them."""
    images = find_images(folder, recursive=True)
    if not images:
        return Recording(name, [], [])
    common = Path(os.path.commonpath({image.parent for image in images}))
    start = len(str(common)) + 1 if common != Path() else 0
    names = [str(image)[start:].rpartition(".")[0].replace(os.sep, "/") for image in images]
    files = [read_position_file(path, _called(path, name)) for path in _csv_files(folder, common)]
    times = _times(files, images)
    with_positions = [file for file in files if file.positions is not None]
    if len(with_positions) > 1:
        listed = ", ".join(file.called for file in with_positions)
        raise ManifestError(f"traversal {name!r} has several files of positions, keep one of them: {listed}")
    positions = None
    if with_positions:
        positions = with_positions[0].for_images(_known_as(images), times, max_gap, images)
    else:
        _tell_of_unused(name, folder, files)
    return Recording(name, images, names, positions, times)


def _traversal_folders(source: Path) -> dict[str, Path]:
    """Sub-folders that hold images, or the folder itself where there are none."""
    if not source.is_dir():
        raise ManifestError(f"no folder at {source}")
    while True:
        entries = (e for e in os.scandir(source) if e.is_dir() and not e.name.startswith("."))
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


def _csv_files(folder: Path, images_folder: Path) -> list[Path]:
    """CSV files that belong to a traversal: ``TRAVERSAL.csv`` beside its folder, and those inside."""
    inside = {path for place in (folder, images_folder) for path in place.iterdir() if path.suffix in CSV}
    return [*beside(folder.resolve(), CSV), *sorted(inside)]


def _called(path: Path, traversal: str) -> str:
    """What messages call a file of positions: of a copy among frames, where the user's own is."""
    copied = path.name == POSITIONS and (path.parent / FRAMES).is_file()
    return f"the file of positions beside video {traversal!r}" if copied else str(path)


def beside(stem: Path, endings: Sequence[str]) -> list[Path]:
    """Files of the name `stem` with one of some endings; each once, where the file system knows no capitals."""
    there = [path for ending in endings if (path := Path(f"{stem}{ending}")).is_file()]
    return [path for row, path in enumerate(there) if not any(path.samefile(other) for other in there[:row])]


def _tell_of_unused(name: str, folder: Path, files: Sequence[PositionFile]) -> None:
    """Warn of files that seem to hold positions of a traversal which has none."""
    told = [f"{path} is no CSV file" for path in beside(folder.resolve(), OTHER_TRACKS)]
    for file in files:
        serves = file.images is not None and (file.times is not None or "place" in file.header)
        if not serves and any(file.header):
            told.append(f"{file.called} has {', '.join(map(repr, file.header[:12]))}")
    if told:
        warn_of_unused(name, told)


def warn_of_unused(name: str, told: Sequence[str]) -> None:
    """Warn of a traversal without positions, beside which there seem to be some."""
    known = ", ".join(column for column in ALIASES if column != "heading")
    warnings.warn(
        f"traversal {name!r} has no positions: {'; '.join(told)}. Positions are columns of a CSV file ({known})",
        RouteWarning,
        stacklevel=5,
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
