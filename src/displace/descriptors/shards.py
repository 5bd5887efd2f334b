"""Vectors in append-only ``.npy`` shards, found by a key, on disk so that a killed writer loses nothing.

A shard is two files: ``000007.npy`` with the vectors and ``000007.json`` with their keys. The second is
written after the first is durable, so its existence makes the shard count; an append costs the shard alone. It also
holds the SHA-256 of the first, which is compared before vectors are used, and the rows of images that show nothing.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from displace.arrays import Vectors, shows_something
from displace.errors import StoreError
from displace.files.atomic import atomic_write, make_folder, write_json
from displace.files.lock import LOCK_BYTES, locked, open_lock
from displace.files.reading import file_sha256, read_json

FORMAT = 1

_NAME = re.compile(r"\d{6,18}\.npy")
_LEFT_OVER = re.compile(r"\.\d{6,18}\.(npy|json)\..*\.tmp")

logger = logging.getLogger(__name__)


class Shards:
    """The shards of one folder, which may not exist yet, by the model whose mark is `owner`: others are not seen.

    Attributes
    ----------
    damaged : list of str
        Shards whose vectors are missing, of the wrong size or, after `verify`, not those that were written. Their keys
        count as absent.
    zero : set of str
        Keys of zero vectors, known without reading any. Shards of earlier versions do not tell them.
    """

    def __init__(self, folder: Path, owner: str, dim: int, dtype: DTypeLike) -> None:
        self.folder, self.owner, self.dim, self.dtype = folder, owner, dim, np.dtype(dtype)
        self._open(verify=False)

    def _open(self, verify: bool) -> None:
        self.damaged: list[str] = []
        self._files: list[Path] = []
        self._starts: list[int] = [0]
        self._row_of: dict[str, int] = {}
        self.zero: set[str] = set()
        self._unverified: dict[int, str] = {}
        for path in sorted(self.folder.glob("*.json")):
            self._read(path, verify)

    def __contains__(self, key: object) -> bool:
        return key in self._row_of

    def __len__(self) -> int:
        return len(self._row_of)

    @property
    def nbytes(self) -> int:
        """Bytes of all vectors, whether still in use or not."""
        return self.n_rows * self.dim * self.dtype.itemsize

    @property
    def n_rows(self) -> int:
        """How many vectors the files hold."""
        return self._starts[-1]

    @property
    def n_files(self) -> int:
        """How many shards there are."""
        return len(self._files)

    def append(self, keys: Sequence[str], vectors: Vectors) -> None:
        """Write one shard; when this returns, the vectors survive any crash."""
        stored = self._stored(vectors)
        zero = np.flatnonzero(~shows_something(stored)).tolist()
        record = {"format": FORMAT, "model": self.owner, "dim": self.dim, "keys": list(keys), "zero": zero}
        with writing_to(self.folder):
            make_folder(self.folder)
            number = 1 + max((int(p.stem) for p in self._named(_NAME)), default=-1)
            path = self.folder / f"{number:06d}.npy"
            with atomic_write(path) as file:
                np.save(file, stored, allow_pickle=False)
            write_json(path.with_suffix(".json"), {**record, "sha256": _digest(path)}, indent=None)
        self._register(path, keys, zero)

    def _stored(self, vectors: Vectors) -> NDArray[Any]:
        """Vectors in the stored type; refuses those that it would make infinite, or nothing of."""
        with np.errstate(over="ignore"):
            stored = np.ascontiguousarray(vectors, self.dtype)
        lost = ~np.isfinite(stored).all(axis=1) | (stored.any(axis=1) != vectors.any(axis=1))
        if lost.any():
            largest = float(np.abs(vectors[lost]).max())
            wider = "" if self.dtype == "float32" else "store them as float32 (--dtype float32), or "
            raise StoreError(
                f"{lost.sum():,} descriptors, with numbers up to {largest:.1e}, cannot be stored as {self.dtype}: "
                f"{wider}scale them to unit length"
            )
        return stored

    def verify(self) -> None:
        """Read every shard and compare its checksum; those that differ count as absent from now on."""
        self._open(verify=True)

    def gather(self, keys: Sequence[str], dtype: DTypeLike = np.float32) -> Vectors:
        """Vectors of `keys`, in their order, copied once from the mapped shards; StoreError where one is damaged."""
        out = np.empty((len(keys), self.dim), dtype)
        shard_of, rows = self._rows_of(keys)
        for number in np.unique(shard_of):
            here = np.flatnonzero(shard_of == number)
            self._check(int(number))
            shard: NDArray[Any] = np.load(self._files[number], mmap_mode="r", allow_pickle=False)
            # Casting on assignment needs no second array of the result's size.
            out[here] = shard[rows[here]]
        return out

    def located(self, keys: Sequence[str]) -> tuple[NDArray[np.str_], NDArray[np.intp]]:
        """File of each key's vector, and its row in there."""
        shard_of, rows = self._rows_of(keys)
        return np.array([str(path.resolve()) for path in self._files])[shard_of], rows

    def _rows_of(self, keys: Sequence[str]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Number of each key's shard, and the row in there."""
        rows = np.fromiter((self._row_of[key] for key in keys), np.intp, len(keys))
        shard_of = np.searchsorted(self._starts, rows, side="right") - 1
        return shard_of, rows - np.asarray(self._starts)[shard_of]

    def clean(self) -> None:
        """Remove what killed writers left behind; call it only while holding the lock."""
        for path in self._named(_LEFT_OVER):
            path.unlink(missing_ok=True)
        known = set(self._files)
        for path in self._named(_NAME):
            if path not in known:
                path.unlink(missing_ok=True)
                path.with_suffix(".json").unlink(missing_ok=True)

    def _named(self, pattern: re.Pattern[str]) -> list[Path]:
        """Files of the folder, links aside, that have such a name."""
        if not self.folder.is_dir():
            return []
        entries = (e for e in os.scandir(self.folder) if pattern.fullmatch(e.name))
        return [self.folder / e.name for e in entries if e.is_file(follow_symlinks=False)]

    def _read(self, path: Path, verify: bool) -> None:
        try:
            record = read_json(path)
            owner, dim, keys = record["model"], record["dim"], record["keys"]
            digest = record.get("sha256")
            if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
                raise TypeError("keys are no list of texts")
            zero = [range(len(keys))[row] for row in record.get("zero", [])]
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            logger.warning("%s is damaged: its images will be described again", path)
            self.damaged.append(path.name)
            return
        if owner != self.owner:
            return
        vectors = path.with_suffix(".npy")
        whole = dim == self.dim and self._whole(vectors, len(keys))
        if whole and verify and digest is not None:
            whole = _digest(vectors) == digest
        if not whole:
            logger.warning("%s is damaged: its %d images will be described again", vectors, len(keys))
            self.damaged.append(vectors.name)
            return
        self._register(vectors, keys, zero)
        if digest is not None and not verify:
            self._unverified[len(self._files) - 1] = digest

    def _check(self, number: int) -> None:
        """Compare the checksum of a shard, once."""
        check_digest(self._files[number], self._unverified.get(number))
        self._unverified.pop(number, None)

    def _whole(self, path: Path, n_rows: int) -> bool:
        """Whether the file has the announced shape and all its bytes (opening it reads the header only)."""
        if not path.is_file():
            return False
        try:
            shard: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception:  # numpy's reader of headers raises nearly every type on damaged ones
            return False
        return (
            shard.shape == (n_rows, self.dim) and shard.dtype == self.dtype and bool(shard.flags.c_contiguous)
        )

    def _register(self, path: Path, keys: Sequence[str], zero: Sequence[int]) -> None:
        start = self._starts[-1]
        self.zero.difference_update(keys)
        self.zero.update(keys[row] for row in zero)
        self._row_of.update((key, start + i) for i, key in enumerate(keys))
        self._files.append(path)
        self._starts.append(start + len(keys))


def load_checked(path: Path) -> NDArray[Any]:
    """Map the vectors of one shard after comparing their checksum; OSError where it cannot be read."""
    check_digest(path, read_json(path.with_suffix(".json")).get("sha256"))
    shard: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return shard


def check_digest(path: Path, digest: str | None) -> None:
    """Refuse a shard that does not have the checksum of its writing; None where that is not known."""
    if digest is not None and _digest(path) != digest:
        raise StoreError(
            f"{path} is damaged: it does not have the checksum it was written with. "
            "Run displace extract again: it describes these images anew"
        )


def _digest(path: Path) -> str | None:
    """SHA-256 of a file; None if it cannot be read."""
    try:
        return file_sha256(path)
    except OSError:
        return None


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn errors of the file system into a `StoreError` with a way out."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(
            f"cannot write to {folder}: {reason}; what was written before is safe. "
            "Make room or choose another folder with -o, then run the same command again to go on"
        ) from error


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Be the one writer of `folder`. The system lifts the lock when the process ends, however it ends."""
    with writing_to(folder):
        file = open_lock(folder / "lock")
    with file:
        if not locked(file):
            writer = file.read(LOCK_BYTES).strip() or "unknown"
            raise StoreError(
                f"{folder} is being written by another process (id {writer}); "
                "wait for it or stop it, then run again"
            )
        # Written over whatever id is there, never cut off; a full disk does not matter here, the lock holds.
        with suppress(OSError):
            os.lseek(file.fileno(), 0, os.SEEK_SET)
            os.write(file.fileno(), str(os.getpid()).ljust(LOCK_BYTES - 1).encode() + b"\n")
        yield
