"""Positions recorded beside images: CSV files with time stamps or image names, GPX tracks and NMEA logs."""

from __future__ import annotations

import csv
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from displace.errors import ManifestError, RouteWarning
from displace.files.reading import PathLike, open_csv
from displace.geo import Numbers, Positions, as_seconds, at_times
from displace.manifest.clock import Clock
from displace.manifest.csv_file import number_column
from displace.manifest.gpx import read_gpx
from displace.manifest.nmea import is_nmea, read_nmea
from displace.manifest.taken_at import (
    dates_in_names,
    merely_count,
    seconds_of,
    since_1970,
    span_of,
    spread_apart,
    times_in_exif,
    times_in_names,
    without_ending,
)

logger = logging.getLogger(__name__)

ALIASES = {
    "image": ("image", "filename", "file", "name"),
    "timestamp": ("timestamp", "time", "stamp", "t"),
    "easting": ("easting", "utm_east", "east", "x"),
    "northing": ("northing", "utm_north", "north", "y"),
    "latitude": ("latitude", "lat"),
    "longitude": ("longitude", "lon", "lng", "long"),
    "heading": ("heading", "bearing", "course"),
}
"""Column names that are understood, in lower case; others are ignored."""

_TRACK = ["timestamp", "latitude", "longitude"]
_PERHAPS_NMEA = (".log", ".txt", ".nma")
"""Endings under which logs of receivers are kept, among other things."""
_TIME = "a number, nor a time such as 2027-01-04T12:30:00Z"
_OFFSET = 0.02
"""Share of a recording's length; a smaller difference of the clocks cannot be told from a late start."""
_ALIKE = 0.8
"""Least ratio of the times by which images and positions differ at both ends, for the clocks to be the reason."""


@dataclass(frozen=True, eq=False)
class PositionFile:
    """Columns of one file; what it does not have is None."""

    called: str
    header: list[str]
    images: list[str] | None
    times: Numbers | None
    positions: Positions | None

    @property
    def dates(self) -> Numbers | None:
        """Times since 1970, by which images are found; None where that is by name, or times count from a start."""
        by_time = self.images is None and self.times is not None and since_1970(self.times)
        return self.times if by_time else None

    def for_images(
        self,
        names: Sequence[str],
        times: Numbers | None,
        max_gap: float,
        images: Sequence[Path] = (),
        clock: Clock | None = None,
    ) -> Positions:
        """Positions of images, by name where the file has names, otherwise by time.

        Names may be with or without folder and ending. Times, in seconds on the file's clock unless `clock` relates
        them, are by default those in the names, or in the EXIF of `images`. An image farther than `max_gap` seconds
        from every fix has no position, see `at_times`.
        """
        clock = clock or Clock("")
        positions = self._known_positions()
        if self.images is not None:
            return self._by_name(positions, names)
        if self.times is None:
            raise ManifestError(f"{self.called} needs a column 'image' or 'timestamp'")
        taken = self._taken(self.times, names, images) if times is None else times
        taken = self.on_clock(taken, max_gap, clock)
        found = at_times(positions, self._apart(positions), taken, max_gap)
        fixes = self.times[positions.known]
        self._warn_of_clocks(fixes, taken, max_gap, clock)
        self._log_gaps(fixes, taken, found.known)
        return found

    def on_clock(self, times: Numbers, max_gap: float, clock: Clock) -> Numbers:
        """Times of images on the clock of the file's; refused where it has a position at none of them."""
        positions = self._known_positions()
        assert self.times is not None
        known = positions.known & np.isfinite(self.times)
        if not known.any():
            raise ManifestError(f"{self.called} has no row with both a time stamp and a position")
        fixes = self.times[known]
        taken = clock.times(times, fixes, self.called)
        if not at_times(positions, self.times, taken, max_gap).known.any():
            raise ManifestError(
                f"no image has a position in {self.called}: images are from {span_of(taken)}, positions from "
                f"{span_of(fixes)}; both must be on one clock. Times that name no zone, as in names of images, "
                f"count as UTC. {clock.advice(taken, fixes)}"
            )
        return taken

    def _known_positions(self) -> Positions:
        """Positions of the file, which is refused without any."""
        if self.positions is None:
            raise ManifestError(
                f"{self.called} has no position: no row has easting and northing, or latitude and longitude other "
                "than 0, 0 (a receiver without a fix)"
            )
        return self.positions

    def _warn_of_clocks(self, fixes: Numbers, images: Numbers, max_gap: float, clock: Clock) -> None:
        """Warn where the images begin as much before the positions as they end, or as much after: clocks may differ."""
        begins, ends = np.nanmin(fixes) - np.nanmin(images), np.nanmax(fixes) - np.nanmax(images)
        near, far = sorted((abs(begins), abs(ends)))
        least = max(max_gap, _OFFSET * (np.nanmax(images) - np.nanmin(images)))
        if begins * ends > 0 and near > least and near > _ALIKE * far:
            order = "before" if begins > 0 else "after"
            warnings.warn(
                f"images begin {abs(begins):,.0f} s {order} the positions in {self.called}, and end {abs(ends):,.0f} s "
                f"{order} them: where both were recorded together, the clocks differ by as much, and every position is "
                f"wrong. If so: {clock.shifted(float(begins + ends) / 2)}",
                RouteWarning,
                stacklevel=4,
            )

    def _log_gaps(self, fixes: Numbers, images: Numbers, known: NDArray[np.bool_]) -> None:
        """Say which images have no position: those before and after the file's, and in its gaps."""
        clock, without = np.unique(fixes[np.isfinite(fixes)]), images[~known & np.isfinite(images)]
        between = without[(without > clock[0]) & (without < clock[-1])]
        after = np.searchsorted(clock, between)
        longest = float(np.max(clock[after] - clock[after - 1], initial=0.0))
        counts = {
            "before its first": int((without < clock[0]).sum()),
            "after its last": int((without > clock[-1]).sum()),
            f"in gaps of up to {longest:,.0f} s (--max-gap {np.ceil(longest / 2):.0f} puts them on the straight line "
            "across)": len(between),
        }
        if len(without):
            logger.warning(
                "%s: %s of %s images have no position: %s",
                *(self.called, f"{len(without):,}", f"{len(images):,}"),
                ", ".join(f"{count:,} {where}" for where, count in counts.items() if count),
            )

    def _taken(self, log: Numbers, names: Sequence[str], images: Sequence[Path]) -> Numbers:
        """Times of images, where no file says them: in their names, or in EXIF.

        EXIF is preferred to dates in names if it gives the time zone, and to numbers that count from some start.
        """
        clock, dates = times_in_names(names), dates_in_names(names)
        counted = clock is None or merely_count(clock)
        asked = since_1970(log) and (
            counted or dates is not None or (clock is not None and not since_1970(clock))
        )
        if asked and (found := times_in_exif(images)) is not None and (found[1] or dates is None):
            logger.warning(
                "%s: images were taken when their EXIF says%s",
                self.called,
                "" if found[1] else ", in UTC, as it names no zone",
            )
            return found[0]
        if clock is None or counted:
            are = "are none" if clock is None else "only count frames"
            raise ManifestError(
                f"{self.called} has time stamps, and the images' names ({names[0]} to {names[-1]}) {are}; "
                "name the images in a column 'image', put a frames.csv (image,timestamp) beside them, or pass the "
                "video that they were taken from"
            )
        return clock

    def _apart(self, positions: Positions) -> Numbers:
        """Times of the rows, those that share one spread until the next time."""
        assert self.times is not None
        times = spread_apart(self.times, positions.points)
        if shared := int((times > self.times).sum()):
            warnings.warn(
                f"{self.called}: {shared:,} of {len(times):,} rows repeat the time of the row before, as in logs "
                "without fractions of a second: they are spread evenly up to the next time",
                RouteWarning,
                stacklevel=5,
            )
        return times

    def rows_of(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Row that names each image, with or without folder and ending; −1 where none does.

        Where names stand in several folders (``left/1.jpg``, ``right/1.jpg``), the last folder counts, too.
        """
        own = [without_ending(image) for image in self.images or ()]
        depth = 1 if len(set(own)) == len({_last(name, 1) for name in own}) else 2
        row_of = {_last(name, depth): row for row, name in enumerate(own)}
        return np.array([row_of.get(_last(without_ending(name), depth), -1) for name in names], np.intp)

    def _by_name(self, positions: Positions, names: Sequence[str]) -> Positions:
        """Positions of the images called `names`; NaN for those that the file does not name."""
        rows = self.rows_of(names)
        if self.images and (rows < 0).all():
            raise ManifestError(
                f"{self.called} names none of the images; it has {self.images[0]!r}, not {names[0]!r}"
            )
        found = positions.take(rows)
        found.points[rows < 0] = np.nan
        if found.heading is not None:
            found.heading[rows < 0] = np.nan
        return found


def is_track(path: Path) -> bool:
    """Whether a file is a track that can be read: GPX, or NMEA by its ending or content."""
    ending = path.suffix.lower()
    return ending in (".gpx", ".nmea") or (ending in _PERHAPS_NMEA and is_nmea(path))


def read_position_file(path: PathLike) -> PositionFile:
    """Read a CSV file of positions, a GPX track or an NMEA log; what is not a number is listed with its line.

    Columns of CSV are separated by commas, or by semicolons or tabs: numbers may have decimal commas then.
    """
    path = Path(path)
    called, ending = str(path), path.suffix.lower()
    try:
        if ending == ".gpx":
            return _table(called, _TRACK, read_gpx(path, called), ",")
        if ending in (".nmea", *_PERHAPS_NMEA):
            return _table(called, _TRACK, read_nmea(path, called), ".")
        with open_csv(path) as file:
            first = file.readline()
            file.seek(0)
            separator = max(",;\t", key=first.count)
            reader = csv.reader(file, delimiter=separator)
            header = [name.strip().lower() for name in next(reader, [])]
            lines_rows = [(reader.line_num, row) for row in reader if any(row)]
    except UnicodeDecodeError as error:
        raise ManifestError(
            f"cannot read positions from {called}: it is not UTF-8 text ({error.reason}); save it as 'CSV UTF-8'"
        ) from None
    except (OSError, csv.Error) as error:
        raise ManifestError(f"cannot read positions from {called}: {error}") from None
    return _table(called, header, lines_rows, "." if separator == "," else ",")


def _table(
    called: str, header: list[str], lines_rows: list[tuple[int, list[str]]], point: str
) -> PositionFile:
    """Columns of the rows of a file; `point` is what may stand for the decimal point."""
    found = {
        name: next((header.index(a) for a in names if a in header), -1) for name, names in ALIASES.items()
    }
    cells = {
        name: [row[at].strip() if at < len(row) else "" for _, row in lines_rows]
        for name, at in found.items()
        if at >= 0
    }
    images = cells.pop("image", None)
    lines = [line for line, _ in lines_rows]
    columns: dict[str, Numbers] = {}
    problems: list[str] = []
    for name, texts in cells.items():
        plain = [text.replace(point, ".") for text in texts]
        how = (_time, _TIME) if name == "timestamp" else (float, "a number")
        columns[name], wrong = number_column(name, plain, lines, *how)
        problems += [f"line {line}: {text}" for line, text in wrong]
    if problems:
        raise ManifestError(f"{called} has {len(problems)} problems:", problems)
    times = as_seconds(columns["timestamp"]) if "timestamp" in columns else None
    return PositionFile(called, header, images, times, Positions.of(_with_fix(columns)))


def _with_fix(columns: dict[str, Numbers]) -> dict[str, Numbers]:
    """Columns without the positions 0° 0′, which receivers write while they have none."""
    if not {"latitude", "longitude"} <= columns.keys():
        return columns
    fix = (columns["latitude"] != 0) | (columns["longitude"] != 0)
    return columns | {name: np.where(fix, columns[name], np.nan) for name in ("latitude", "longitude")}


def _time(cell: str) -> float:
    return seconds_of(cell) if ":" in cell else float(cell)


def _last(name: str, depth: int) -> str:
    """Return the last parts of a path."""
    return "/".join(name.split("/")[-depth:])
