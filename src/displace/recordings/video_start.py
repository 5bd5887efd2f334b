"""When a video began: the creation time in its header, or the date in its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from displace.files.reading import open_regular
from displace.manifest.taken_at import dates_in_names

_SINCE_1904 = 2_082_844_800
"""Seconds from 1904, when the times of MP4 and QuickTime begin, to 1970."""
_LATEST = 2**33
"""A time beyond is none, in the year 2176."""
_LARGEST_HEADER = 256 * 2**20
"""Bytes of a header that is read; that of ten hours has about ten million."""


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
    width = 8 if content[:1] == b"\1" else 4
    if len(content) < 4 + 2 * width + 4 + width:
        return None
    created = int.from_bytes(content[4 : 4 + width])
    rate = int.from_bytes(content[4 + 2 * width : 8 + 2 * width])
    duration = int.from_bytes(content[8 + 2 * width : 8 + 3 * width])
    if not 0 < created < _LATEST:
        return None
    file.seek(header[1])
    if b"com.android." in file.read(header[2] - header[1]) and rate:
        created_at = (
            created - duration / rate
        )  # Android writes the header, and the time, when a recording ends
    else:
        created_at = float(created)
    # Some cameras count from 1970: by the standard they would have recorded before that.
    return created_at - _SINCE_1904 if created_at >= _SINCE_1904 else created_at


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
