"""Sources of images: folders as they are, videos and bags turned into folders of frames first."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from displace.errors import ManifestError
from displace.files.reading import PathLike, Sources
from displace.images import find_images, has_images, is_hidden, natural_key
from displace.manifest.clock import Clock, instant
from displace.manifest.layouts import unequal
from displace.manifest.position_files import PositionFile, is_track, read_position_file
from displace.manifest.recording import (
    FRAMES,
    POSITIONS,
    Pictures,
    check_offsets,
    files_of,
    refuse_all,
    tracks_in,
    warn_of_unused,
    with_positions,
)
from displace.progress import Progress
from displace.recordings.frames import Sampler, warn_of_images, write_columns
from displace.recordings.rosbag import extract_bag, is_bag
from displace.recordings.video import extract_frames, frames_of, is_video, length_of, opened, video_start

logger = logging.getLogger(__name__)

_FOLDERS_AROUND = 3
"""How far above a source a name of its own is looked for: ``mon/camera/left`` is two folders deep."""

_SURELY_MORE, _A_FEW = 1.1, 5
"""Headers state the number of frames only roughly: one is more than another for sure if it is above so many times that
number, and so many."""


def unpack(
    source: Sources,
    frames: PathLike,
    *,
    every: int | str = 1,
    topic: str | None = None,
    positions_topic: str | None = None,
    max_gap: float = 2.0,
    allow_truncated: bool = False,
    clock_offset: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> Path | dict[str, Path]:
    """Make folders of images out of whatever a route was recorded as, for `build_manifest`.

    A source is a folder with a sub-folder, video or bag for each traversal; one video or bag; or several of these, each
    being a traversal named after its file. A folder without images that holds one video or bag, at any depth, stands
    for it and gives it its name. A file of positions beside a video or bag (``sun.mp4``, ``sun.gpx``) gives its frames
    positions; a CSV file may have seconds from the video's start.

    Frames go into a sub-folder of `frames` for each traversal, taken as `displace.recordings.video.extract_frames` and
    `displace.recordings.rosbag.extract_bag` say. `clock_offset` are seconds to add to the times of a traversal's
    frames, or of all (""), for the clock of the positions beside it; or when it began, in seconds since 1970. By
    default videos began at their creation time. Returned is the source itself where it has no videos or bags, otherwise
    each traversal's folder.
    """
    parts = _parts(source)
    if parts is None:
        warn_of_images(every, [str(source)])
        return Path(source)  # type: ignore[arg-type]
    videos: dict[str, Any] = {"every": every, "allow_truncated": allow_truncated}
    bags: dict[str, Any] = {
        "every": every,
        "topic": topic,
        "positions_topic": positions_topic,
        "max_gap": max_gap,
    }
    named = _named(parts)
    check_offsets(clock_offset, named)
    beside = _all_beside(named, max_gap, clock_offset)
    warn_of_images(every, [name for name in named if name not in beside])
    shared = cache(tracks_in)
    folders: dict[str, Path] = {}
    for name, (given, part) in named.items():
        report = partial(progress, name) if progress else None
        if name not in beside:
            folders[name] = part
            continue
        if is_bag(part):
            folders[name] = extract_bag(part, Path(frames) / name, progress=report, **bags)
        else:
            folders[name] = extract_frames(part, Path(frames) / name, progress=report, **videos)
        around = dict.fromkeys((part.resolve().parent, given.resolve().parent))
        beside[name].write_positions(folders[name], around, shared, max_gap)
    return folders


def folders_of(source: Sources, frames: PathLike) -> dict[Path, Path]:
    """Where `unpack` has the images of a source's recordings, and each recording; only names of files are read."""
    parts = _parts(source)
    if parts is not None:
        named = _named(parts)
        return {
            Path(frames) / name if is_video_or_bag(part) else part: part for name, (_, part) in named.items()
        }
    folder = Path(source)  # type: ignore[arg-type]
    children = [child for child in folder.iterdir() if child.is_dir() and child.suffix != ".frames"]
    return {child: child for child in children if _is_recording(child)} or {folder: folder}


def tells_no_place(source: Sources) -> bool:
    """Whether a source is several videos and nothing else, none with positions; no frame is decoded to tell."""
    named = _named(_parts(source) or [])
    return len(named) > 1 and all(
        is_video(part)
        and not is_bag(part)
        and not any(files_of(_stems(name, given, part)))
        and not any(map(is_track, given.absolute().parent.iterdir()))
        for name, (given, part) in named.items()
    )


def check_numbers(source: Sources, every: int | str) -> None:
    """Refuse recordings of surely different numbers of frames for the layout "order", before any is decoded."""
    sampler = Sampler(every)
    named = _named(_parts(source) or [])
    numbers = {name: n for name, (_, part) in named.items() if (n := _number_taken(part, sampler))}
    if numbers and max(numbers.values()) > _SURELY_MORE * min(numbers.values()) + _A_FEW:
        raise unequal(", ".join(f"{name}: about {n}" for name, n in numbers.items()))


def _number_taken(part: Path, sampler: Sampler) -> int:
    """Roughly how many images a recording gives, without decoding any; 0 where that is not known."""
    if is_bag(part):
        return 0
    if not is_video(part):
        return len(find_images(part, recursive=True))
    if sampler.seconds:
        return round(length_of(part) / sampler.seconds)
    return round(frames_of(part) / sampler.count)


def _all_beside(
    named: Mapping[str, tuple[Path, Path]], max_gap: float, clock_offset: Mapping[str, float] | None
) -> dict[str, _FilesBeside]:
    """What lies beside each video or bag; errors of all are raised at once, before a frame is decoded."""
    beside: dict[str, _FilesBeside] = {}
    errors: list[ManifestError] = []
    for name, (given, part) in named.items():
        if is_video(part):
            opened(part).release()
        try:
            if is_video_or_bag(part):
                beside[name] = _FilesBeside.of(name, given, part, max_gap, clock_offset)
        except ManifestError as error:
            errors.append(error)
    refuse_all(errors)
    return beside


@dataclass(frozen=True)
class _FilesBeside:
    """What lies beside a video or bag and may hold its positions."""

    stems: list[Path]
    """Paths without ending that such files have."""
    csv_files: list[PositionFile]
    """All of them, also those without positions."""
    own: list[PositionFile]
    """Those with positions, or else tracks."""
    clock: Clock
    """What the times of its frames count from."""

    @classmethod
    def of(
        cls, name: str, given: Path, part: Path, max_gap: float, clock_offset: Mapping[str, float] | None
    ) -> _FilesBeside:
        """Read what lies beside a recording; it is refused where its times cannot be those of a video."""
        stems = _stems(name, given, part)
        csv_files, tracks = files_of(stems)
        read = [read_position_file(path) for path in csv_files]
        own = with_positions(read) or [read_position_file(path) for path in tracks]
        clock = Clock.of(name, clock_offset, None if is_bag(part) else video_start(part))
        if own and own[0].dates is not None and is_video(part):
            own[0].on_clock(np.arange(0.0, length_of(part) + 1), max(max_gap, 1.0), clock)
        return cls(stems, read, own, clock)

    def write_positions(
        self,
        folder: Path,
        around: Iterable[Path],
        shared: Callable[[Path], list[PositionFile]],
        max_gap: float,
    ) -> None:
        """Write positions of frames into their folder, where the recording has no others; old ones do not stay there.

        Without a file of its own they are looked for in tracks that lie in folders `around` it.
        """
        frames, copy = read_position_file(folder / FRAMES), folder / POSITIONS
        copy.unlink(missing_ok=True)
        if frames.positions is not None and not self.own:
            return
        names = frames.images or []
        tracks = [] if self.own else [track for parent in around for track in shared(parent)]
        positions = Pictures((), names, frames.times, self.clock).positions(self.own, tracks, max_gap)
        if positions is None:
            warn_of_unused(self.clock.name, self.stems, self.csv_files)
            return
        write_columns(copy, names, positions.columns())
        if self.clock.began is not None and self.clock.by and (tracks or self.own[0].dates is not None):
            began = instant(self.clock.began + self.clock.offset)
            logger.warning("%s began at %s, by %s", self.clock.name, began, self.clock.by)


def _stems(name: str, given: Path, part: Path) -> list[Path]:
    """Paths without ending of files beside a video or bag that may hold its positions."""
    return list(dict.fromkeys((part.with_suffix(""), given.parent / name)))


def _named(parts: Sequence[Path]) -> dict[str, tuple[Path, Path]]:
    """Traversals by name: what was given, and the recording it stands for. Before a frame of any is decoded."""
    named: dict[str, tuple[Path, Path]] = {}
    for name, given in zip(_names(parts), parts, strict=True):
        if name in named:
            raise ManifestError(
                f"two sources are named {_own_name(given)!r}; rename one of them, or give the folder around each (such "
                f"as {quote(str(given.parent))})"
            )
        named[name] = given, _recorded_as(given)
    return named


def _names(parts: Sequence[Path]) -> list[str]:
    """Names of the traversals: their own; where these are equal (``mon/left``, ``tue/left``), of the folders around."""
    names, around = [_own_name(given) for given in parts], [given.absolute() for given in parts]
    for _ in range(_FOLDERS_AROUND):
        given_twice = {name for name, count in Counter(names).items() if count > 1}
        around = [path.parent for path in around]
        names = [path.name if name in given_twice else name for path, name in zip(around, names, strict=True)]
    return names


def _own_name(given: Path) -> str:
    return given.name if given.is_dir() else given.stem


def _parts(source: Sources) -> list[Path] | None:
    """One path for each traversal, or None for a plain folder of images."""
    if not isinstance(source, (str, os.PathLike)):
        parts = [Path(part) for part in source]
    else:
        path = Path(source)
        if not path.exists():
            raise ManifestError(f"no file or folder at {path}")
        if is_bag(path) or not path.is_dir():
            parts = [path]
        else:
            # What an earlier run has unpacked is no recording of its own.
            children = [child for child in path.iterdir() if child.suffix != ".frames"]
            children.sort(key=lambda child: natural_key(child.name))
            parts = [child for child in children if _is_recording(child)]
            if not any(is_video_or_bag(_recorded_as(part)) for part in parts):
                return None
    if wrong := [part for part in parts if not (part.is_dir() or is_video_or_bag(part))]:
        raise ManifestError(f"{wrong[0]} is neither a folder of images nor a video or bag")
    return parts


def is_video_or_bag(path: Path) -> bool:
    """Whether it is a video or a bag (which may be a folder, too)."""
    return is_bag(path) or is_video(path)


def _is_recording(path: Path) -> bool:
    if is_video_or_bag(path):
        return True
    return path.is_dir() and not is_hidden(path.name) and (has_images(path) or bool(_files_in(path)))


def _files_in(folder: Path) -> list[Path]:
    """Videos and bags at any depth, except in hidden folders; of a bag that is a folder, only the folder."""
    found = sorted(filter(is_video_or_bag, folder.rglob("*")), key=lambda path: natural_key(str(path)))
    shown = [path for path in found if not any(map(is_hidden, path.relative_to(folder).parts))]
    return [path for path in shown if not any(map(is_bag, path.parents))]


def _recorded_as(part: Path) -> Path:
    """Find the video or bag for which a folder without images stands; anything else is itself."""
    if is_video_or_bag(part) or has_images(part):
        return part
    found = _files_in(part)
    if len(found) > 1:
        raise ManifestError(
            f"folder {part} holds {len(found)} videos or bags, but a traversal is a single one: "
            f"{', '.join(str(path.relative_to(part)) for path in found)}. Join them, or pass each by itself: "
            f"displace manifest {quote(str(found[0]))} …"
        )
    return found[0] if found else part
