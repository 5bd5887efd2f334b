"""Raw rankings, and what was asked: the files beside each result, from which every number can be computed again."""

from __future__ import annotations

import hashlib
import io
import math
import os
import struct
import tokenize
import zipfile
import zlib
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors
from displace.errors import FormatError
from displace.evaluation.correct_places import CorrectPlaces, Numbers
from displace.files.atomic import atomic_write
from displace.files.reading import PathLike, open_regular
from displace.files.schema import require
from displace.truth import Flags

MAX_BYTES = 2**31
"""Of one array."""
_DAMAGED = (
    *(OSError, ValueError, KeyError, EOFError, RuntimeError, NotImplementedError, TypeError, SyntaxError),
    *(AttributeError, IndexError, OverflowError, MemoryError, struct.error, tokenize.TokenError),
    *(zipfile.BadZipFile, zlib.error),
)
"""What reading a damaged ``.npz`` raises, wherever the damage is."""


class _Arrays:
    """A dataclass of arrays that is one ``.npz`` file."""

    def save(self, path: Path) -> None:
        """Write the arrays, atomically."""
        with atomic_write(path) as file:
            np.savez_compressed(file, **self._arrays())  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the arrays."""
        try:
            with open_regular(path) as file, zipfile.ZipFile(file) as members:
                held = set(members.namelist())
                arrays = {
                    field.name: _member(members, field.name)
                    for field in fields(cls)  # type: ignore[arg-type]
                    if field.default is MISSING or f"{field.name}.npy" in held  # earlier files have not all
                }
            read = cls(**arrays)
            read._check()
            return read
        except FileNotFoundError:
            raise FormatError(
                f"{path} is missing: it belongs to the results beside it; run the suite again"
            ) from None
        except _DAMAGED as error:
            raise FormatError(f"{path} cannot be read ({error}); remove it and run the suite again") from None

    def _check(self) -> None:
        """Raise ValueError where the arrays do not fit together."""

    def _arrays(self) -> dict[str, NDArray[Any]]:
        named = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: np.asarray(values) for name, values in named.items() if values is not None}


def _member(members: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """One array of a file; its size is checked before memory is allocated."""
    info = members.getinfo(f"{name}.npy")
    require(info.file_size <= MAX_BYTES, f"{name} has {info.file_size} bytes")
    content = io.BytesIO(members.read(info))
    version = np.lib.format.read_magic(content)
    require(version == (1, 0), f"{name} is of version {version}")
    shape, _, dtype = np.lib.format.read_array_header_1_0(content)
    size = len(content.getbuffer()) - content.tell()
    require(not dtype.hasobject and math.prod(shape) * dtype.itemsize == size, f"{name} is cut short")
    content.seek(0)
    array: NDArray[Any] = np.load(content, allow_pickle=False)
    return array


@dataclass(frozen=True, eq=False)
class Ranking(_Arrays):
    """The best places of each query."""

    places: Numbers
    """Shape (q, k). Indices into `Questions.place_ids`, best first."""
    scores: Vectors
    """Shape (q, k). Higher is better."""
    correct: Flags
    """Shape (q, k). Whether each place is correct."""

    def _check(self) -> None:
        kinds = self.places.dtype.kind + self.scores.dtype.kind + self.correct.dtype.kind
        require(kinds == "ifb" and self.places.ndim == 2, "places, scores or flags are of another kind")
        require(self.places.shape == self.scores.shape == self.correct.shape, "they are of unequal shapes")
        require(int(self.places.min(initial=0)) >= 0, "a place is negative")
        require(not np.isnan(self.scores).any(), "a score is no number")

    def __repr__(self) -> str:
        return f"<Ranking: {self.places.shape[1]} places for each of {len(self.places):,} queries>"

    def hits(self, k: int = 1) -> Flags:
        """Whether each query has a correct place among its first `k`, shape (q,)."""
        found: Flags = np.logical_or.reduce(self.correct[:, :k], axis=1)
        return found


@dataclass(frozen=True, eq=False)
class Questions(_Arrays):
    """What the methods were asked: queries, places to choose from, and which are correct.

    One file serves every model and method that was asked the same.
    """

    place_ids: NDArray[np.str_]
    """Shape (N,), sorted."""
    place_images: NDArray[np.str_]
    """Shape (N,). An image of each place, relative to the folder `Questions.root`."""
    query_images: NDArray[np.str_]
    """Shape (q,)."""
    query_places: NDArray[np.str_]
    """Shape (q,). Place of each query; empty where it is not known."""
    truth_starts: Numbers
    """Shape (q + 1,). The correct places of query i are ``truth[truth_starts[i]:truth_starts[i + 1]]``."""
    truth: Numbers
    """Indices into `place_ids`."""
    image_root: NDArray[np.str_]
    """Folder that image names start from, relative to the results folder, or absolute."""
    query_order: NDArray[np.float64] | None = None
    """Shape (q,). Frame number or time of each query along its drive, NaN where unknown; None without any, and in
    files of earlier versions."""

    def _check(self) -> None:
        texts = (self.place_ids, self.place_images, self.query_images, self.query_places)
        require(all(array.dtype.kind == "U" and array.ndim == 1 for array in texts), "names are no texts")
        require(self.image_root.dtype.kind == "U" and self.image_root.ndim == 0, "image_root is no text")
        require(len(self.place_images) == len(self.place_ids), "it has not one image for each place")
        require(len(self.query_places) == len(self.query_images), "it has not one place for each query")
        starts, truth = self.truth_starts, self.truth
        require(
            starts.dtype.kind + truth.dtype.kind == "ii" and truth.ndim == 1, "the truth is of another kind"
        )
        require(starts.shape == (len(self.query_images) + 1,), "it has not one truth for each query")
        ordered = starts[0] == 0 and starts[-1] == len(truth) and bool((np.diff(starts) >= 0).all())
        require(bool(ordered), "the truth is out of order")
        inside = bool(((truth >= 0) & (truth < len(self.place_ids))).all())
        require(inside, "the truth names places that are not there")
        order = self.query_order
        if order is not None:
            require(order.dtype.kind == "f" and order.shape == self.query_images.shape, "query_order is odd")

    def __len__(self) -> int:
        return len(self.query_images)

    def __repr__(self) -> str:
        return f"<Questions: {len(self):,} queries, {len(self.place_ids):,} places>"

    def root(self, folder: PathLike) -> Path:
        """Folder that image names start from, when the results are in `folder`."""
        return Path(os.path.normpath(Path(folder) / str(self.image_root)))

    @property
    def correct_places(self) -> CorrectPlaces:
        """The correct places of all queries."""
        return CorrectPlaces(self.truth_starts, self.truth)

    def truth_of(self, query: int) -> int:
        """Return the place that stands for the truth of a query (`CorrectPlaces.shown`)."""
        return self.correct_places.shown(query, self.place_ids, self.query_places[query])

    @property
    def order(self) -> NDArray[np.float64]:
        """Where each query is along its drive, NaN where unknown: `order` of `displace.bootstrap.bootstrap`."""
        return np.full(len(self), np.nan) if self.query_order is None else self.query_order

    @property
    def answerable(self) -> Flags:
        """Whether each query has a correct place, shape (q,)."""
        return np.diff(self.truth_starts) > 0

    def correct(self, places: NDArray[Any]) -> Flags:
        """Whether each ranked place (q, k), an index into `place_ids`, is correct for its query."""
        return self.correct_places.among(places)

    def digest(self) -> str:
        """Hash of everything asked, wherever the images lie; equal questions have equal digests."""
        total = hashlib.sha256()
        for name, array in self._arrays().items():
            if name not in ("image_root", "query_order"):
                total.update(f"{name} {array.dtype.str} {array.shape}".encode())
                total.update(np.ascontiguousarray(array).tobytes())
        return total.hexdigest()[:16]
