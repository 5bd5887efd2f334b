"""Manifest: the table that says which image shows which place in which traversal.

On disk it is a CSV file; image paths are relative to its folder (absolute ones are allowed)::

    image,place,traversal,easting,northing
    sun/000.jpg,000,sun,620021.1,5734795.4
    night/000.jpg,000,night,620021.9,5734795.2
    night/917.jpg,,night,620400.0,5734100.0

A blank place is a query without a known place or a frame off the route. Optional columns: `easting` and
`northing` (metres), `latitude` and `longitude` (degrees), `heading` (degrees clockwise from north), `camera` (its
number, where a car has several), `frame` (number along the route, for tolerances in frames), `timestamp` (seconds); of
recordings lined up by sight `alignment` (the probability that the place is right), `lo` and `hi` (the first and the
last frame it may be). Other columns are ignored.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from displace.errors import InputError, ManifestError
from displace.files.atomic import atomic_write, make_folder
from displace.files.reading import PathLike
from displace.geo import Numbers, Positions
from displace.manifest.csv_file import LIMITS, LONGEST, NUMBERS, REQUIRED, number_text, read_table
from displace.progress import Stage
from displace.registry import check_known

if TYPE_CHECKING:
    from displace.manifest.summary import Summary

Labels = NDArray[np.str_]


MAX_BYTES = 2**31
"""Of a column of texts in memory: as many characters for each as the longest has."""


class Manifest:
    """Images with their places and traversals.

    Parameters
    ----------
    images : sequence of str
        Paths as written, relative to `root` or absolute.
    places : sequence of str
        One for each image; an empty string where the place is not known.
    traversals : sequence of str
        One for each image.
    root : path-like
        Folder that relative paths start from.
    **numbers : array-like or None
        Optional columns, one value for each image, NaN where unknown: `easting`, `northing`, `latitude`,
        `longitude`, `heading`, `camera`, `frame`, `timestamp`: each is an attribute of the same name, None where it
        was not given; and `alignment`, `lo`, `hi`. Those given are in the dict `numbers`.

    Examples
    --------
    >>> manifest = Manifest(["sun/0.jpg", "night/0.jpg"], ["0", "0"], ["sun", "night"], root="route")
    >>> len(manifest), manifest.select(manifest.traversals == "night").images
    (2, ['night/0.jpg'])
    """

    def __init__(
        self,
        images: Iterable[str],
        places: Iterable[str],
        traversals: Iterable[str],
        root: PathLike = ".",
        **numbers: ArrayLike | None,
    ) -> None:
        self.images = list(images)
        self.places: Labels = _labels(places, "places")
        self.traversals: Labels = _labels(traversals, "traversals")
        self.root = Path(root)
        if wrong := sorted(set(numbers) - set(NUMBERS)):
            raise InputError(
                f"unknown manifest column {wrong[0]!r}; known: {', '.join((*REQUIRED, *NUMBERS))}"
            )
        self.numbers: dict[str, Numbers] = {
            name: np.asarray(numbers[name], np.float64) for name in NUMBERS if numbers.get(name) is not None
        }
        self.easting = self.numbers.get("easting")
        self.northing = self.numbers.get("northing")
        self.latitude = self.numbers.get("latitude")
        self.longitude = self.numbers.get("longitude")
        self.heading = self.numbers.get("heading")
        self.camera = self.numbers.get("camera")
        self.frame = self.numbers.get("frame")
        self.timestamp = self.numbers.get("timestamp")
        columns = {"places": self.places, "traversals": self.traversals, **self.numbers}
        for name, values in columns.items():
            if values.shape != (len(self.images),):
                raise InputError(
                    f"{name} must have shape ({len(self.images)},), as many as images; got {values.shape}"
                )

    @classmethod
    def read(cls, path: PathLike) -> Manifest:
        """Read a CSV file; a file with problems raises one `ManifestError` that lists all of them."""
        texts, numbers = read_table(path)
        return cls(texts["image"], texts["place"], texts["traversal"], Path(path).parent, **numbers)

    def write(self, path: PathLike) -> None:
        """Write as CSV, atomically; relative image paths become relative to the file's folder."""
        path = Path(path)
        names = [*REQUIRED, *self.numbers]
        columns: list[Iterable[str]] = [self._images_from(path.parent), self.places, self.traversals]
        _check_texts(columns)
        _check_limits(self.numbers)
        columns += [map(number_text, values.tolist()) for values in self.numbers.values()]
        try:
            make_folder(path.parent)
            with atomic_write(path, "w") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(names)
                writer.writerows(zip(*columns, strict=True))
        except UnicodeEncodeError as error:
            raise ManifestError(
                f"an image's name is not valid text: {error.object!r}; rename it, or set PYTHONUTF8=1 where names "
                "of files are UTF-8 and the locale says otherwise"
            ) from None
        except OSError as error:
            raise ManifestError(f"cannot write manifest {path}: {error.strerror}") from None

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.images)

    def __repr__(self) -> str:
        n_places, n_traversals = len(self.place_ids()), len(self.traversal_names())
        return f"<Manifest: {len(self)} images, {n_places} places, {n_traversals} traversals>"

    def paths(self) -> list[Path]:
        """Where each image is: relative paths start from `root`, absolute ones stay."""
        return [self.root / image for image in self.images]

    def select(self, rows: ArrayLike) -> Manifest:
        """Return the rows of a mask or of an array of row numbers."""
        chosen = np.asarray(rows)
        index = np.arange(len(self))[chosen if chosen.dtype == bool else chosen.astype(np.intp)]
        numbers: dict[str, Any] = {name: values[index] for name, values in self.numbers.items()}
        images = [self.images[i] for i in index]
        return Manifest(images, self.places[index], self.traversals[index], self.root, **numbers)

    def select_traversals(self, names: Sequence[str]) -> Manifest:
        """Return the rows of these traversals; an unknown name raises and suggests the nearest one."""
        check_known("traversal", names, self.traversal_names())
        return self.select(np.isin(self.traversals, list(names)))

    def traversal_names(self) -> list[str]:
        """Each traversal once, in order of appearance."""
        return list(dict.fromkeys(self.traversals.tolist()))

    def place_ids(self) -> list[str]:
        """Each place once, in order of appearance, without the blank."""
        return [place for place in dict.fromkeys(self.places.tolist()) if place]

    def in_time(self) -> NDArray[np.intp]:
        """Rows in the order in which they were taken: by time where all have one, else as listed."""
        if self.timestamp is None or not np.isfinite(self.timestamp).all():
            return np.arange(len(self))
        return np.argsort(self.timestamp, kind="stable")

    @property
    def geo(self) -> Positions | None:
        """Positions and headings as given, or None where no row has a position."""
        return Positions.of(self.numbers)

    def positions(self) -> Numbers | None:
        """Positions in metres, shape (m, 2), NaN where unknown; None where no row has one.

        Easting and northing as given, or latitude and longitude projected around their mean; when both are
        there, the pair that more rows have (easting and northing in a tie).
        """
        return None if self.geo is None else self.geo.metres()

    def summary(self, check_images: bool = False, progress: Stage | None = None) -> Summary:
        """Count places, traversals, coverage and duplicates, and look for missing files.

        Parameters
        ----------
        check_images : bool
            Also decode every image, to find those that cannot be read.
        progress : callable, optional
            Called with (images done, images in all).
        """
        from displace.manifest.summary import summarize  # needs Pillow, which a plain import should not load

        rows = self.images, self.paths(), self.places.tolist(), self.traversals.tolist()
        return summarize(*rows, check_images, progress)

    def relative_to(self, folder: Path) -> Manifest:
        """Return the same manifest with the paths of its images relative to another folder."""
        images = self._images_from(folder)
        return Manifest(images, self.places.tolist(), self.traversals.tolist(), folder, **self.numbers)

    def _images_from(self, folder: Path) -> list[str]:
        """Image paths as they are written in a file in `folder`."""
        here, there = self.root.resolve(), folder.resolve()
        if here == there:
            return self.images
        below = _below(self.root, folder)
        return [_written(image, below, here, there) for image in self.images]


def _below(root: Path, folder: Path) -> str | None:
    """Path down from a folder to another one as both were given, links and all; None where it does not lead down."""
    parts = Path(os.path.relpath(root, folder)).parts
    return None if ".." in (*parts, *root.parts, *folder.parts) else "/".join(parts)


def _written(image: str, below: str | None, here: Path, there: Path) -> str:
    """An image's path from `there` instead of `here`, which is `below` it where a path leads down."""
    if Path(image).is_absolute():
        return image
    if below is not None and ".." not in Path(image).parts:
        return f"{below}/{image}"
    return Path(os.path.relpath(here / image, there)).as_posix()


def _labels(texts: Iterable[str], name: str) -> Labels:
    """Texts as an array, unless one long one would make it fill the memory."""
    listed = list(texts)
    longest = max(map(len, listed), default=1)
    if 4 * longest * len(listed) > MAX_BYTES:
        raise InputError(
            f"{name} of {len(listed)} images have up to {longest} characters, which takes "
            f"{4 * longest * len(listed) / 2**30:.0f} GiB of memory: use shorter names"
        )
    if any(text.endswith("\0") for text in listed):
        raise InputError(
            f"{name} has a text that ends with a NUL character, which would be left out: rename it"
        )
    return np.array(listed, dtype=np.str_)


def _check_texts(columns: list[Iterable[str]]) -> None:
    """Refuse names that would not be read back as they are."""
    for name, texts in zip(REQUIRED, columns, strict=True):
        for text in texts:
            if why := _unreadable(text, LONGEST[name]):
                raise ManifestError(f"{name} {text[:60]!r} {why}, which a manifest cannot keep; rename it")


def _check_limits(columns: dict[str, Numbers]) -> None:
    """Refuse numbers that would not be read back."""
    for name, values in columns.items():
        wrong = values[(np.abs(values) > LIMITS.get(name, np.inf)) | np.isinf(values)]
        if len(wrong):
            raise ManifestError(f"{name} has {wrong[0]:g}, which a manifest cannot keep: it is not possible")


def _unreadable(text: str, longest: int) -> str:
    """Why a text would not be read back as it is; empty where it would."""
    if len(text) > longest:
        return f"has {len(text)} characters"
    if text != text.strip():
        return "begins or ends with a blank"
    if "\0" in text:
        return "has a NUL character"
    return "has a carriage return" if "\r" in text else ""
