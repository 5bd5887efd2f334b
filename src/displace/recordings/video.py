"""Video files: frames as JPEG files with their times, and when a video began."""

from __future__ import annotations

import os
import struct
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

import cv2

from displace.errors import ImageError, RouteWarning
from displace.files.reading import PathLike, open_regular
from displace.manifest.taken_at import dates_in_names
from displace.progress import Stage
from displace.recordings.frames import FramesFolder, Sampler

EXTENSIONS = frozenset(
    {
        *(".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg"),
        *(".wmv", ".mts", ".m2ts", ".ts", ".3gp", ".flv"),
    }
)
"""File name endings that count as videos, in lower case."""

_QUALITY = 95
_MOST_FRAMES = 1e8
"""A header that states more does not know."""
_SINCE_1904 = 2_082_844_800
"""Seconds from 1904, when the times of MP4 and QuickTime begin, to 1970."""
_LATEST = 2**33
"""A time beyond is none, in the year 2176."""
_LARGEST_HEADER = 256 * 2**20
"""Bytes of a header that is read; that of ten hours has about ten million."""


def is_video(path: PathLike) -> bool:
    """Whether the file's name says that it is a video."""
    path = Path(path)
    return path.suffix.lower() in EXTENSIONS and not path.name.startswith(".")


def extract_frames(
    video: PathLike,
    folder: PathLike,
    every: int | str = 1,
    *,
    allow_truncated: bool = False,
    durable: bool = True,
    progress: Stage | None = None,
) -> Path:
    """Write frames of a video as JPEG files of quality 95, named by frame number; return the folder.

    It gets a `frames.csv`, too (image, timestamp in seconds from the start). Frames that an interrupted run has left
    are kept; a finished folder is returned at once. `every` is each n-th frame (``5``), or one each so many seconds
    (``"0.5s"``). With `allow_truncated`, what can be read of a file is kept that ends before its header says. Without
    `durable`, which is faster in a temporary folder, frames may not outlive a power cut.
    """
    video, sampler = Path(video), Sampler(every)
    capture = opened(video)
    try:
        frames = FramesFolder(folder, video, {"every": str(every), "quality": _QUALITY}, durable)
        if frames.complete:
            return frames.folder
        expected = max(0, int(capture.get(cv2.CAP_PROP_FRAME_COUNT)))
        n_read = 0
        for index, time in _grabbed(capture):
            n_read = index + 1
            if sampler.wants(index, time):
                frames.keep(index, time, ".jpg", partial(_jpeg, capture, video, index))
            if progress:
                progress(n_read, expected)
    finally:
        capture.release()
    # Containers state the number only roughly, hence the margin.
    if not frames.names or n_read < 0.95 * expected - 5:
        said = f"video {video} ends after frame {n_read} of {expected}: it is truncated or damaged"
        if not frames.names or not allow_truncated:
            raise ImageError(
                f"{said}; repair it, or keep what can be read: displace manifest SOURCE --allow-truncated "
                "(allow_truncated=True)"
            )
        warnings.warn(f"{said}; using what can be read", RouteWarning, stacklevel=2)
    frames.finish()
    return frames.folder


def opened(video: Path) -> cv2.VideoCapture:
    """Open a video; refuse a file whose header cannot be read."""
    if not video.is_file():
        raise ImageError(f"no video at {video}")
    capture = _capture(video)
    if not capture.isOpened():
        raise ImageError(f"cannot read video {video}: it is truncated or damaged, or its codec is not known")
    return capture


def _capture(video: Path) -> cv2.VideoCapture:
    """Open a video; what is wrong with it is said by the caller, not by OpenCV, FFmpeg or other readers in between."""
    try:
        str(video).encode()
    except UnicodeEncodeError:  # which would crash OpenCV
        raise ImageError(
            f"the name of a video is not valid text: {str(video)!r}; rename it (and its folder, if need be), or set "
            "PYTHONUTF8=1 where names of files are UTF-8 and the locale says otherwise"
        ) from None
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    ffmpeg = cv2.videoio_registry.hasBackend(cv2.CAP_FFMPEG)
    before = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_ERROR)
    try:
        return cv2.VideoCapture(str(video), cv2.CAP_FFMPEG if ffmpeg else cv2.CAP_ANY)
    finally:
        cv2.utils.logging.setLogLevel(before)


def length_of(video: Path) -> float:
    """Seconds that a video takes by its header; 0 where it does not say."""
    count, rate = _stated(video)
    return count / rate if rate > 0 else 0.0


def frames_of(video: Path) -> int:
    """Frames of a video by its header, roughly; 0 where it does not say."""
    return int(_stated(video)[0])


def _stated(video: Path) -> tuple[float, float]:
    """Number and rate of a video's frames by its header; a number of 0 where it does not say."""
    capture = _capture(video)
    try:
        count, rate = capture.get(cv2.CAP_PROP_FRAME_COUNT), capture.get(cv2.CAP_PROP_FPS)
    finally:
        capture.release()
    return count if 0 < count < _MOST_FRAMES else 0.0, rate


def _grabbed(capture: cv2.VideoCapture) -> Iterator[tuple[int, float]]:
    """Step through a video without decoding to pixels; yield each frame's number and time in seconds."""
    rate = capture.get(cv2.CAP_PROP_FPS) or 30.0
    index, before = 0, -1.0
    while capture.grab():
        time = capture.get(cv2.CAP_PROP_POS_MSEC) / 1000
        if time <= before:  # some containers have no times: count frames instead
            time = before + 1 / rate
        yield index, time
        index, before = index + 1, time


def _jpeg(capture: cv2.VideoCapture, video: Path, index: int) -> bytes:
    """Decode the frame that was grabbed last and encode it."""
    decoded, pixels = capture.retrieve()
    if not decoded:
        raise ImageError(f"cannot decode frame {index} of video {video}")
    _, content = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return content.tobytes()


def video_start(video: Path) -> tuple[float, str] | None:
    """Seconds since 1970 at which a video began, and what says so; None where nothing does."""
    try:
        with open_regular(video) as file:
            began = _created(file)
    except OSError:
        began = None
    if began is not None:
        return began, "the creation time in the video"
    dates = dates_in_names([video.name])
    return None if dates is None else (float(dates[0]), "the date in its name, in UTC, as it names no zone")


def _created(file: IO[bytes]) -> float | None:
    """When a file of MP4 or QuickTime began (box ``mvhd`` in ``moov``)."""
    size = file.seek(0, 2)
    header = next((box for box in _boxes(file, 0, size) if box[0] == b"moov"), None)
    if header is None or header[2] - header[1] > _LARGEST_HEADER:
        return None
    fields = next((box for box in _boxes(file, *header[1:]) if box[0] == b"mvhd"), None)
    if fields is None:
        return None
    file.seek(fields[1])
    content = file.read(32)
    layout = ">4xQQIQ" if content[:1] == b"\1" else ">4xIIII"
    if len(content) < struct.calcsize(layout):
        return None
    created, _, rate, duration = struct.unpack_from(layout, content)
    if not 0 < created < _LATEST:
        return None
    file.seek(header[1])
    android = b"com.android." in file.read(header[2] - header[1])
    # Android writes the header, and the time, when a recording ends.
    began = created - duration / rate if android and rate else float(created)
    # Some cameras count from 1970: by the standard they would have recorded before that.
    return began - _SINCE_1904 if began >= _SINCE_1904 else began


def _boxes(file: IO[bytes], start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Kind, and first and last byte of the content, of each box of a part of a file."""
    while start + 8 <= end:
        file.seek(start)
        head = file.read(16)
        size, kind, begins = int.from_bytes(head[:4]), head[4:8], start + 8
        if size == 1:  # a larger one follows
            size, begins = int.from_bytes(head[8:16]), start + 16
        stop = end if size == 0 else start + size
        if not begins <= stop <= end:
            return
        yield kind, begins, stop
        start = stop
