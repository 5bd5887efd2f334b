"""Images to locate: files, folders and frames of videos and bags, under the names by which the user knows them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

import numpy as np

from displace.errors import ImageError, InputError, RouteWarning
from displace.files.reading import PathLike
from displace.files.temporary import temporary_folder
from displace.images import find_images, has_images, is_hidden, natural_key
from displace.manifest import Manifest
from displace.progress import Stage
from displace.recordings.frames import read_frames, warn_of_images
from displace.recordings.rosbag import extract_bag, is_bag
from displace.recordings.video import extract_frames, is_video


@dataclass
class QueryImages:
    """Image files to locate, and what the user knows them as."""

    paths: list[Path] = field(default_factory=list)
    """The files."""
    names: list[str] = field(default_factory=list)
    """The image, or the video or bag that it is a frame of, as given."""
    frames: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """Number and time in seconds of a frame of a video or bag; NaN for images."""
    folders: dict[str, list[int]] = field(default_factory=dict)
    """Rows of the images of each folder, by name; those that were named one by one are of no folder ("")."""

    def add_files(self, paths: Sequence[Path], folder: str = "") -> None:
        """Add image files, of a folder or named one by one."""
        first = len(self.paths)
        self.folders.setdefault(folder, []).extend(range(first, first + len(paths)))
        self.paths += paths
        self.names += map(str, paths)
        self.frames += [math.nan] * len(paths)
        self.times += [math.nan] * len(paths)

    def add_frames(self, video: Path, folder: Path) -> None:
        """Add the frames of a video or bag, taken out into a folder."""
        for name, time in read_frames(folder):
            self.paths.append(folder / name)
            self.names.append(str(video))
            self.frames.append(int(Path(name).stem))
            self.times.append(time)

    def videos(self) -> dict[str, list[int]]:
        """Rows of the frames of each video or bag, in time."""
        found: dict[str, list[int]] = {}
        for row, time in enumerate(self.times):
            if not math.isnan(time):
                found.setdefault(self.names[row], []).append(row)
        return found

    def label(self, row: int) -> str:
        """Name one image for a message."""
        frame = self.frames[row]
        return self.names[row] if math.isnan(frame) else f"{self.names[row]} frame {frame:.0f}"

    def manifest(self) -> Manifest:
        """List the images; frame and time where there are frames of videos."""
        n = len(self.paths)
        videos = {} if np.isnan(self.frames).all() else {"frame": self.frames, "timestamp": self.times}
        return Manifest(self.names, [""] * n, ["query"] * n, root=".", **videos)


@contextmanager
def images_of(
    sources: Sequence[PathLike], every: str, progress: Stage | None, topic: str | None = None
) -> Iterator[QueryImages]:
    """All images named, in folders, videos or bags; frames of these live as long as the context."""
    images = QueryImages()
    with temporary_folder() as frames:
        for number, source in enumerate(map(Path, sources)):
            if not source.exists():
                raise InputError(f"no file or folder {source}")
            folder = frames / str(number)
            if is_bag(source):
                extract_bag(source, folder, topic=topic, every=every, durable=False, progress=progress)
                images.add_frames(source, folder)
            elif source.is_dir():
                found = find_images(source)
                if not found:
                    raise InputError(f"no images in {source}{_deeper(source)}")
                _warn_of_others(source, len(found))
                images.add_files(found, str(source))
            elif is_video(source):
                # A dash camera's last video ends where the power did: its frames are as good as others.
                extract_frames(source, folder, every, allow_truncated=True, durable=False, progress=progress)
                images.add_frames(source, folder)
            else:
                images.add_files([source])
        warn_of_images(every, filter(None, images.folders))
        yield images


def _deeper(folder: Path) -> str:
    """Say where a folder without images has a video, or images further down."""
    there = _further_down(folder)
    return f" itself; give what is in there, such as {quote(str(there))}" if there else ""


def _warn_of_others(folder: Path, n_images: int) -> None:
    """Warn that what a folder has beside its images, in folders of its own or as videos, is not located."""
    with suppress(ImageError):  # a folder that may not be read could not be given either
        if there := _further_down(folder):
            warnings.warn(
                f"{folder}: only what is in the folder itself is located ({n_images:,} "
                f"{'image' if n_images == 1 else 'images'}); give what else is in there, too, such as "
                f"{quote(str(there))}",
                RouteWarning,
                stacklevel=4,
            )


def _further_down(folder: Path) -> Path | None:
    """Return the first video, bag or folder of images in a folder or below it."""
    inside = sorted(folder.iterdir(), key=lambda path: natural_key(path.name))
    for path in inside:
        if is_video(path) or is_bag(path):
            return path
        if path.is_dir() and not is_hidden(path.name) and has_images(path):
            return path if find_images(path) else _further_down(path)
    return None
