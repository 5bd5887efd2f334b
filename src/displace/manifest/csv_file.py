"""A manifest's CSV file: reading that finds every problem, with its line."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shlex import quote

import numpy as np
from numpy.typing import NDArray

from displace.errors import ManifestError
from displace.files.reading import PathLike, open_csv

REQUIRED = ("image", "place", "traversal")
NUMBERS = (
    *("easting", "northing", "latitude", "longitude", "heading", "camera", "frame", "timestamp"),
    *("alignment", "lo", "hi"),
)

_PAIRS = (("easting", "northing"), ("latitude", "longitude"))
LIMITS = {"latitude": 90.0, "longitude": 180.0, "heading": 360.0}
"""Largest degrees of a column, either side of zero."""

CAMERA = "a number: number a car's cameras, such as 0 for the front one"

LONGEST = {"image": 4096, "place": 1000, "traversal": 1000}
"""Characters of each text."""

Texts = dict[str, list[str]]
NumberColumns = dict[str, NDArray[np.float64]]


def is_table(path: PathLike) -> bool:
    """Whether a file begins as a manifest does."""
    try:
        with open_csv(path) as file:
            header = [name.strip().lower() for name in next(csv.reader(file), [])]
    except (UnicodeDecodeError, csv.Error, OSError):
        return False
    return set(REQUIRED) <= set(header)


def read_table(path: PathLike) -> tuple[Texts, NumberColumns]:
    """Read a manifest's columns: texts stripped of blanks around them, numbers with NaN for blanks.

    ManifestError names every problem of the file, not only the first.
    """
    path = Path(path)
    try:
        with open_csv(path) as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip().lower() for name in next(reader, [])]
            if wrong := _header_problems(header):
                raise ManifestError(f"{path} is not a manifest:", wrong)
            columns, lines, problems = _rows(reader, header)
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path} is not UTF-8 text ({error.reason}); save it as 'CSV UTF-8'") from None
    except csv.Error as error:
        raise ManifestError(f"{path} is not a CSV file: line {reader.line_num}: {error}") from None
    except OSError as error:
        way_out = "" if path.exists() else f"; make one with: displace manifest FOLDER -o {quote(str(path))}"
        raise ManifestError(f"cannot read manifest {path}: {error.strerror}{way_out}") from None
    texts = {name: columns[name] for name in REQUIRED}
    numbers = {}
    for name in NUMBERS:
        if name in columns:
            wanted = CAMERA if name == "camera" else "a number"
            numbers[name], found = number_column(name, columns[name], lines, wanted=wanted)
            problems += found
    problems += [*_text_problems(texts, lines), *_half_positions(numbers, lines)]
    if problems:
        problems.sort(key=lambda problem: problem[0])
        listed = [f"line {line}: {text}" for line, text in problems]
        raise ManifestError(f"{path} has {len(listed)} problem{'s' * (len(listed) > 1)}:", listed)
    return texts, numbers


def number_text(value: float) -> str:
    """Write a number so that it reads back the same; NaN becomes a blank.

    >>> [number_text(value) for value in (3.0, 0.1, float("nan"))]
    ['3', '0.1', '']
    """
    if value != value:
        return ""
    return str(int(value)) if value.is_integer() else repr(value)


Problem = tuple[int, str]


def _header_problems(header: list[str]) -> list[str]:
    """Find what is wrong with the first line."""
    if not header:
        return ["the file is empty; its first line must be image,place,traversal"]
    known = [*REQUIRED, *NUMBERS]
    problems = [f"column {name!r} occurs twice" for name in known if header.count(name) > 1]
    strangers = [name for name in header if name not in known]
    for name in REQUIRED:
        if name not in header:
            near = difflib.get_close_matches(name, strangers, n=1)
            hint = f"; is {near[0]!r} meant?" if near else ""
            problems.append(f"line 1: no column {name!r} (columns: {', '.join(header)}){hint}")
    for name in NUMBERS:
        # An optional column with a typing error would be ignored without a word.
        if name not in header and (near := difflib.get_close_matches(name, strangers, n=1, cutoff=0.85)):
            problems.append(f"line 1: unknown column {near[0]!r}; did you mean {name!r}?")
    for one, other in (*_PAIRS, *(pair[::-1] for pair in _PAIRS)):
        if one in header and other not in header:
            problems.append(f"line 1: column {one!r} needs column {other!r}")
    if len(header) == 1 and (separator := next((c for c in ";\t|" if c in header[0]), None)):
        problems.append(f"line 1: columns are separated by {separator!r}; a manifest uses ','")
    return problems


def _rows(reader: Iterator[list[str]], header: list[str]) -> tuple[Texts, list[int], list[Problem]]:
    """Sort cells into columns; rows of the wrong length are problems, empty lines are skipped."""
    columns: Texts = {name: [] for name in (*REQUIRED, *NUMBERS) if name in header}
    cells = [(header.index(name), column.append) for name, column in columns.items()]
    lines: list[int] = []
    problems: list[Problem] = []
    for row in reader:
        line: int = reader.line_num  # type: ignore[attr-defined]
        if len(row) != len(header):
            if any(cell.strip() for cell in row):
                problems.append((line, f"{len(row)} values, but the first line names {len(header)} columns"))
            continue
        lines.append(line)
        for at, append in cells:
            append(row[at].strip())
    return columns, lines, problems


def number_column(
    name: str,
    cells: Sequence[str],
    lines: Sequence[int],
    parse: Callable[[str], float] = float,
    wanted: str = "a number",
) -> tuple[NDArray[np.float64], list[Problem]]:
    """Convert a column of numbers, NaN for blanks; what is not `wanted`, or out of range, is a problem of its line."""
    problems: list[Problem] = []
    values = np.full(len(cells), np.nan)
    limit = LIMITS.get(name, np.inf)
    for row, (line, cell) in enumerate(zip(lines, cells, strict=True)):
        if not cell:
            continue
        try:
            value = parse(cell)
        except ValueError:
            problems.append((line, f"{name} {cell[:60]!r} is not {wanted}"))
            continue
        if abs(value) > limit:
            problems.append((line, f"{name} {cell[:60]} is outside ±{limit:g} degrees"))
        elif abs(value) == np.inf:
            problems.append((line, f"{name} {cell[:60]!r} is not finite"))
        values[row] = value
    return values, problems


def _text_problems(texts: Texts, lines: list[int]) -> Iterator[Problem]:
    """Blank images and traversals, names that no file could keep, and images that are listed more than once."""
    first: dict[str, int] = {}
    for name, longest in LONGEST.items():
        for line, cell in zip(lines, texts[name], strict=True):
            if len(cell) > longest:
                yield line, f"{name} has {len(cell)} characters; at most {longest} are possible"
            elif "\0" in cell:
                yield line, f"{name} {cell[:60]!r} has a NUL character; rename it"
    for line, image, traversal in zip(lines, texts["image"], texts["traversal"], strict=True):
        if not image:
            yield line, "image is blank"
        elif first.setdefault(image, line) != line:
            yield line, f"image {image!r} is listed already in line {first[image]}"
        if not traversal:
            yield line, "traversal is blank (only place may be)"


def _half_positions(numbers: NumberColumns, lines: list[int]) -> Iterator[Problem]:
    """Rows with one half of a position."""
    for one, other in _PAIRS:
        if one in numbers and other in numbers:
            half = np.isnan(numbers[one]) != np.isnan(numbers[other])
            for row in np.flatnonzero(half):
                yield lines[row], f"{one} and {other} go together; one of them is blank"
