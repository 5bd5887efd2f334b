"""When images and positions were taken: times in names, in ISO 8601, and in logs that cut seconds off."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from displace.geo import Numbers, as_seconds
from displace.images import exif_of

_LAST_NUMBER = re.compile(r"(\d+(?:\.\d+)?)$")
_DATE = re.compile(r"((?:19|20)\d\d)" + r"\D?(\d\d)" * 5 + r"(?:\D?(\d{1,6}))?$")
"""A date and a time of day at the end of a name, with or without signs between: ``20270104_123000``."""
SINCE_1970 = 1e8
"""Seconds from which a number is a time since 1970 (1973 and later), and not a count of frames."""
_LAST_DATE = 2e11
"""Seconds beyond which there is no date, in the year 8307."""
_LONG = 10
_EXIF, _TAKEN = 0x8769, (0x9003, 0x9291, 0x9011)
"""Directory of EXIF; tags of the date and time, their fraction of a second and their zone."""


def times_in_names(names: Sequence[str]) -> Numbers | None:
    """Seconds from the number, or the date and time, at the end of each name; None unless every name has one.

    >>> times_in_names(["cam_2027-01-04_12-30-00.jpg", "cam_2027-01-04_12-30-00_5.jpg"]) - 1_799_065_800
    array([0. , 0.5])
    """
    if (dates := dates_in_names(names)) is not None:
        return dates
    found = [_LAST_NUMBER.search(_stem(name)) for name in names]
    if not found or not all(found):
        return None
    return as_seconds([float(match.group(1)) for match in found if match])


def dates_in_names(names: Sequence[str]) -> Numbers | None:
    """Seconds from the date and time at the end of each name, taken as UTC; None unless every name has one."""
    dates = [_date(_stem(name)) for name in names]
    return np.array(dates, np.float64) if names and None not in dates else None


def times_in_exif(images: Sequence[Path]) -> tuple[Numbers, bool] | None:
    """Seconds since 1970 from each image's EXIF, NaN where it has none, and whether all name their zone.

    Times without one are taken as UTC. None unless at least half of the images have a time. Images that cannot be read
    count as without; extraction reports them.
    """
    # Most recordings have none: do not read all images.
    if not any(map(_exif_time, (*images[:1], *images[-1:]))):
        return None
    found = [_exif_time(image) for image in images]
    times = np.array([np.nan if time is None else time[0] for time in found])
    if 2 * np.isfinite(times).sum() < len(times):
        return None
    return times, all(time is None or time[1] for time in found)


def _exif_time(image: Path) -> tuple[float, bool] | None:
    """When an image was taken, and whether its zone is known."""
    tags = exif_of(image, _EXIF)
    taken, part, zone = (str(tags.get(tag, "")).strip("\0 ") for tag in _TAKEN)
    try:
        seconds = datetime.strptime(taken, "%Y:%m:%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
        ahead = datetime.strptime(zone, "%z").utcoffset() if zone else None
    except ValueError:
        return None
    seconds += float(f"0.{part}") if part.isdecimal() else 0.0
    return (seconds, False) if ahead is None else (seconds - ahead.total_seconds(), True)


def since_1970(times: Numbers) -> bool:
    """Whether times are dates, and do not count from some start."""
    return bool(np.nanmax(times, initial=0.0) >= SINCE_1970)


def merely_count(numbers: Numbers) -> bool:
    """Whether numbers in names are those of frames, taken in equal steps, and no times.

    >>> merely_count(np.arange(20.0)), merely_count(1.4e9 + np.arange(20.0))
    (True, False)
    """
    whole = bool(numbers[0] < SINCE_1970 and (numbers == np.round(numbers)).all())
    return whole and len(numbers) >= _LONG and len(np.unique(np.diff(numbers))) == 1


def seconds_of(text: str) -> float:
    """Seconds since 1970 of a date and time in ISO 8601, in UTC where it names no zone.

    >>> seconds_of("1970-01-02 01:00:00.5+01:00")
    86400.5
    """
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def span_of(times: Numbers) -> str:
    """First and last of some times: as dates where they are since 1970, else in seconds.

    >>> span_of(np.array([1_799_065_800.0, np.nan, 1_799_069_400.25]))
    '2027-01-04 12:30:00 to 2027-01-04 13:30:00 (UTC)'
    >>> span_of(np.array([0.0, 12.25]))
    '0.000 to 12.250 s'
    """
    first, last = float(np.nanmin(times)), float(np.nanmax(times))
    if first < SINCE_1970 or last > _LAST_DATE:
        return f"{first:.3f} to {last:.3f} s"
    return (
        " to ".join(f"{datetime.fromtimestamp(t, UTC):%Y-%m-%d %H:%M:%S}" for t in (first, last)) + " (UTC)"
    )


def spread_apart(times: Numbers, points: Numbers) -> Numbers:
    """Times of which those that several rows share are spread evenly until the next one, in the order of the rows.

    A log that cuts its times off to seconds has ten positions of one time and a leap to the next. A row that repeats
    time and position of the one before stays with it. No row is moved by more than the usual step between times.

    >>> spread_apart(np.array([0.0, 0, 1, 1, 2, 9, 9]), np.arange(14.0).reshape(7, 2)).tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0, 9.0, 9.5]
    """
    usable = np.flatnonzero(np.isfinite(times) & np.isfinite(points).all(axis=1))
    order = usable[np.argsort(times[usable], kind="stable")]
    clock = times[order]
    begins = np.diff(clock, prepend=-np.inf) > 0
    steps = np.diff(clock[begins])
    if not len(steps):
        return times
    moves = begins | (np.diff(points[order], axis=0, prepend=np.nan) != 0).any(axis=1)
    group, number = np.cumsum(begins) - 1, np.cumsum(moves)
    number -= number[begins][group]
    room = np.minimum(np.append(steps, np.inf), np.median(steps))
    apart = times.copy()
    apart[order] += room[group] * number / np.bincount(group, moves)[group]
    return apart


def without_ending(name: str) -> str:
    """Return a path without an ending of letters (``1418.25`` keeps its decimals), with slashes between its parts."""
    return re.sub(r"\.[A-Za-z]\w*$", "", name.replace("\\", "/"))


def _date(stem: str) -> float | None:
    """Seconds since 1970 of a date and time at the end of a name, taken as UTC; None where there is none."""
    if (match := _DATE.search(stem)) is None:
        return None
    *whole, part = match.groups()
    try:
        time = datetime.strptime("".join(whole), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return time.timestamp() + float(f"0.{part or 0}")


def _stem(name: str) -> str:
    """Return the last part of a path without an ending of letters."""
    return without_ending(name).rsplit("/", 1)[-1]
