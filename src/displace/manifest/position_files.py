"""Positions recorded beside images: CSV files with time stamps or image names."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from displace.errors import ManifestError
from displace.files.reading import open_csv
from displace.geo import Positions, as_seconds, at_times
from displace.manifest.csv_file import LIMITS

Numbers = NDArray[np.float64]

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

_LAST_NUMBER = re.compile(r"(\d+(?:\.\d+)?)$")


@dataclass(frozen=True, eq=False)
class PositionFile:
    """Columns of one CSV file; what it does not have is None."""

    path: Path
    images: list[str] | None
    times: Numbers | None
    positions: Positions | None

    def for_images(self, names: Sequence[str], times: Numbers | None, max_gap: float) -> Positions:
        """Positions of images, by name where the file has names, otherwise by time.

        Parameters
        ----------
        names : sequence of str
            The images' names, with or without their ending.
        times : (m,) array, optional
            Their times in seconds; by default the number that each name ends in.
        max_gap : float
            Seconds; an image farther than that from every fix has no position.
        """
        if self.positions is None:
            raise ManifestError(f"{self.path} has no row with easting and northing or latitude and longitude")
        if self.images is not None:
            return self._by_name(self.positions, names)
        if self.times is None:
            raise ManifestError(f"{self.path} needs a column 'image' or 'timestamp'")
        clock = times_in_names(names) if times is None else times
        if clock is None:
            raise ManifestError(
                f"{self.path} has time stamps, but the images' names (such as {names[0]!r}) are none; "
                "name the images in a column 'image', or put a frames.csv (image,timestamp) beside them"
            )
        if not (self.positions.known & np.isfinite(self.times)).any():
            raise ManifestError(f"{self.path} has no row with both a time stamp and a position")
        found = at_times(self.positions, self.times, clock, max_gap)
        if not found.known.any():
            raise ManifestError(
                f"no image has a position in {self.path}: images are from {_span(clock)}, "
                f"positions from {_span(self.times)} (seconds)"
            )
        return found

    def rows_of(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Row that names each image, with or without folder and ending; −1 where none does."""
        row_of = {_stem(image): row for row, image in enumerate(self.images or ())}
        return np.array([row_of.get(_stem(name), -1) for name in names], np.intp)

    def _by_name(self, positions: Positions, names: Sequence[str]) -> Positions:
        """Positions of the images called `names`; NaN for those that the file does not name."""
        rows = self.rows_of(names)
        if self.images and (rows < 0).all():
            raise ManifestError(
                f"{self.path} names none of the images; it has {self.images[0]!r}, not {names[0]!r}"
            )
        found = positions.take(rows)
        found.points[rows < 0] = np.nan
        if found.heading is not None:
            found.heading[rows < 0] = np.nan
        return found


def read_position_file(path: str | os.PathLike[str]) -> PositionFile:
    """Read a CSV file of positions; every cell that is not a number is listed with its line."""
    path = Path(path)
    try:
        with open_csv(path) as file:
            reader = csv.reader(file)
            header = [name.strip().lower() for name in next(reader, [])]
            lines_rows = [(reader.line_num, row) for row in reader if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ManifestError(f"cannot read positions from {path}: {error}") from None
    where = {
        name: next((header.index(a) for a in names if a in header), None) for name, names in ALIASES.items()
    }
    problems: list[str] = []
    columns = {
        name: _column(name, column, lines_rows, problems)
        for name, column in where.items()
        if column is not None and name != "image"
    }
    if problems:
        raise ManifestError(f"{path} has {len(problems)} problems:", problems)
    images = None
    if (column := where["image"]) is not None:
        images = [row[column].strip() if column < len(row) else "" for _, row in lines_rows]
    times = as_seconds(columns["timestamp"]) if "timestamp" in columns else None
    return PositionFile(path, images, times, Positions.of(columns))


def times_in_names(names: Sequence[str]) -> Numbers | None:
    """Seconds from the number at the end of each name; None unless every name has one."""
    found = [_LAST_NUMBER.search(_stem(name)) for name in names]
    if not found or not all(found):
        return None
    return as_seconds([float(match.group(1)) for match in found if match])


def _column(name: str, column: int, lines_rows: list[tuple[int, list[str]]], problems: list[str]) -> Numbers:
    """One column of numbers, NaN for blanks."""
    values = np.full(len(lines_rows), np.nan)
    for index, (line, row) in enumerate(lines_rows):
        cell = row[column].strip() if column < len(row) else ""
        try:
            value = float(cell or "nan")
        except ValueError:
            problems.append(f"line {line}: {name} {cell[:60]!r} is not a number")
            continue
        if abs(value) == np.inf:
            problems.append(f"line {line}: {name} {cell[:60]!r} is not finite")
        elif abs(value) > (limit := LIMITS.get(name, np.inf)):
            problems.append(f"line {line}: {name} {cell[:60]} is outside ±{limit:g} degrees")
        values[index] = value
    return values


def _stem(name: str) -> str:
    """Return the last part of a path without an ending of letters (``1418.25`` keeps its decimals)."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return re.sub(r"\.[A-Za-z]\w*$", "", last)


def _span(times: Numbers) -> str:
    return f"{np.nanmin(times):.3f} to {np.nanmax(times):.3f}"
