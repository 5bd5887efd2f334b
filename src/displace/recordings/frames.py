"""Frames taken out of a video or bag: a folder that is complete, or says that it is not and can be resumed.

::

    route.frames/sun/
      000000.jpg 000005.jpg …     named by their number in the source
      frames.csv                  image, timestamp and, where the source has them, positions; written last
      frames.json                 source and settings the frames were made from
"""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from displace.errors import ImageError, InputError, RouteWarning
from displace.files.atomic import atomic_write, make_folder, write_json, write_whole
from displace.files.reading import PathLike, read_json
from displace.manifest.csv_file import number_text
from displace.manifest.recording import FRAMES

_RECORD = "frames.json"
_FRAME_NAME = re.compile(r"\d{6,}\.(jpg|png)")
_EVERY = re.compile(r"(?P<count>\d+)|(?P<seconds>\d*\.?\d+)\s*s")


class Sampler:
    """Chooses frames: every n-th one (``5``, ``"5"``), or one each so many seconds (``"0.5s"``).

    >>> sampler = Sampler("0.5s")
    >>> [sampler.wants(i, i / 5) for i in range(6)]
    [True, False, False, True, False, True]
    """

    def __init__(self, every: int | str) -> None:
        match = _EVERY.fullmatch(str(every).strip().lower())
        self.count = int(match["count"]) if match and match["count"] else 0
        self.seconds = float(match["seconds"]) if match and match["seconds"] else 0.0
        if self.count <= 0 and self.seconds <= 0:
            raise InputError(
                f"every={every!r} must be a number of frames such as 5, or of seconds such as '0.5s'"
            )
        self._next: float | None = None

    def wants(self, index: int, time: float) -> bool:
        """Whether to keep frame `index` at `time` seconds; to be asked for each frame in turn."""
        if self.count:
            return index % self.count == 0
        if self._next is None:
            self._next = time
        if time < self._next - 1e-6:
            return False
        # Staying on the grid keeps the average rate where frames do not fall on it.
        self._next += self.seconds * (1 + (time - self._next + 1e-6) // self.seconds)
        return True


class FramesFolder:
    """A folder of frames being filled; those of another source (a video or bag) or of other settings are replaced.

    `durable` writes each frame so that it outlives a power cut; not worth its time in a temporary folder.
    """

    def __init__(
        self, folder: PathLike, source: PathLike, settings: Mapping[str, Any], durable: bool = True
    ) -> None:
        self.folder, self.durable = Path(folder), durable
        self.names: list[str] = []
        self.times: list[float] = []
        self.record: dict[str, Any] = {
            "format": 1,
            "source": _identity(Path(source)),
            "settings": dict(settings),
        }
        try:
            make_folder(self.folder)
            if self._old_record() != self.record:
                self._clear()
                write_json(self.folder / _RECORD, self.record)
        except OSError as error:
            raise ImageError(f"cannot write frames to {folder}: {error.strerror}") from None

    @property
    def complete(self) -> bool:
        """Whether an earlier run has finished."""
        return (self.folder / FRAMES).is_file()

    def has(self, name: str) -> bool:
        """Whether the frame is there already."""
        return (self.folder / name).is_file()

    def write(self, name: str, content: bytes) -> None:
        """Write one frame, atomically where it is to be durable."""
        try:
            if not self.durable:
                (self.folder / name).write_bytes(content)
                return
            write_whole(self.folder / name, content)
        except OSError as error:
            place = "choose another place with -o" if self.durable else "name another folder (TMPDIR=…)"
            raise ImageError(
                f"cannot write frame {self.folder / name}: {error.strerror}. "
                f"Make room, take fewer frames with --every, or {place}"
            ) from None

    def keep(self, number: int, time: float, suffix: str, content: Callable[[], bytes]) -> None:
        """Take in the next frame, by its number in the source; what an earlier run has written stays."""
        name = f"{number:06d}{suffix}"
        if not self.has(name):
            self.write(name, content())
        self.names.append(name)
        self.times.append(time)

    def finish(self, columns: Mapping[str, Iterable[float]] | None = None) -> None:
        """Write `frames.csv` with times and further columns, which says that every frame is there."""
        write_columns(self.folder / FRAMES, self.names, {"timestamp": self.times, **(columns or {})})

    def _old_record(self) -> Any:
        try:
            return read_json(self.folder / _RECORD)
        except FileNotFoundError:
            if any(self.folder.iterdir()):
                raise ImageError(
                    f"{self.folder} holds files that are not frames of {self.record['source']['name']}; "
                    "choose another folder or empty it"
                ) from None
            return None
        except ValueError:
            return None

    def _clear(self) -> None:
        """Remove earlier frames, `frames.csv` first: without it the folder counts as unfinished."""
        (self.folder / FRAMES).unlink(missing_ok=True)
        for path in self.folder.iterdir():
            if _FRAME_NAME.fullmatch(path.name):
                path.unlink()


def warn_of_images(every: int | str, folders: Iterable[str]) -> None:
    """Warn that `every` does not apply to folders of images: all of them are taken."""
    names = ", ".join(folders)
    if str(every).strip() != "1" and names:
        warnings.warn(
            f"every={str(every)!r} is for videos and bags: all images of {names} are taken",
            RouteWarning,
            stacklevel=3,
        )


def write_columns(path: Path, images: Sequence[str], columns: Mapping[str, Iterable[float]]) -> None:
    """Write numbers of frames as a CSV file, a column for each beside `image`."""
    texts = [[number_text(float(value)) for value in column] for column in columns.values()]
    with atomic_write(path, "w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["image", *columns])
        writer.writerows(zip(images, *texts, strict=True))


def taken_with(folder: Path) -> dict[str, Any]:
    """Settings with which frames were taken; empty for a folder that holds no frames of a recording."""
    try:
        return dict(read_json(folder / _RECORD)["settings"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def is_of(folder: Path, source: Path) -> bool:
    """Whether frames are of a recording as it is now; True for a folder that holds no frames of one."""
    try:
        known = read_json(folder / _RECORD)["source"]
    except (OSError, ValueError, KeyError, TypeError):
        return True
    return bool(known == _identity(source))


def read_frames(folder: Path) -> list[tuple[str, float]]:
    """Read file name and time in seconds of each frame in a finished folder."""
    with (folder / FRAMES).open(encoding="utf-8", newline="") as file:
        return [(row["image"], float(row["timestamp"])) for row in csv.DictReader(file)]


def _identity(source: Path) -> dict[str, Any]:
    """Name, size and time of change of a file, or of a folder's files together."""
    files = [path for path in source.rglob("*") if path.is_file()] if source.is_dir() else [source]
    stats = [path.stat() for path in files]
    return {
        "name": source.name,
        "bytes": sum(stat.st_size for stat in stats),
        "changed": max((stat.st_mtime_ns for stat in stats), default=0),
    }
