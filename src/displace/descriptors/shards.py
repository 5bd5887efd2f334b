"""Vectors in append-only ``.npy`` shards, found by a key, on disk so that a killed writer loses nothing.

A shard is two files: ``000007.npy`` with the vectors and ``000007.json`` with their keys. The second is
written after the first is durable, so its existence makes the shard count; an append costs the shard alone.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from displace.arrays import Vectors
from displace.errors import StoreError
from displace.files.atomic import atomic_write, write_json
from displace.files.lock import locked

FORMAT = 1

logger = logging.getLogger(__name__)


class Shards:
    """The shards of one folder.

    Parameters
    ----------
    folder : Path
        Where the files are; may not exist yet.
    owner : str
        Mark of the model that made the vectors. Shards with another mark are not seen.
    dim : int
        Length of a vector.
    dtype : dtype-like
        Stored type of the numbers.

    Attributes
    ----------
    damaged : list of str
        Shards whose vectors are missing or of the wrong size. Their keys count as absent.
    """

    def __init__(self, folder: Path, owner: str, dim: int, dtype: DTypeLike) -> None:
        self.folder, self.owner, self.dim, self.dtype = folder, owner, dim, np.dtype(dtype)
        self.damaged: list[str] = []
        self._files: list[Path] = []
        self._starts: list[int] = [0]
        self._row_of: dict[str, int] = {}
        for path in sorted(folder.glob("*.json")):
            self._read(path)

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
        record = {"format": FORMAT, "model": self.owner, "dim": self.dim, "keys": list(keys)}
        with writing_to(self.folder):
            self.folder.mkdir(exist_ok=True)
            number = 1 + max((int(p.stem) for p in self.folder.glob("[0-9]*.npy")), default=-1)
            path = self.folder / f"{number:06d}.npy"
            with atomic_write(path) as file:
                np.save(file, np.ascontiguousarray(vectors, self.dtype), allow_pickle=False)
            write_json(path.with_suffix(".json"), record, indent=None)
        self._register(path, keys)

    def gather(self, keys: Sequence[str], dtype: DTypeLike = np.float32) -> Vectors:
        """Vectors of `keys`, in their order, copied once from the memory-mapped shards."""
        out = np.empty((len(keys), self.dim), dtype)
        rows = np.fromiter((self._row_of[key] for key in keys), np.intp, len(keys))
        shard_of = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(shard_of):
            here = np.flatnonzero(shard_of == number)
            shard: NDArray[Any] = np.load(self._files[number], mmap_mode="r", allow_pickle=False)
            # Casting on assignment needs no second array of the result's size.
            out[here] = shard[rows[here] - self._starts[number]]
        return out

    def clean(self) -> None:
        """Remove what killed writers left behind; call it only while holding the lock."""
        for path in self.folder.glob(".*.tmp"):
            path.unlink(missing_ok=True)
        known = set(self._files)
        for path in self.folder.glob("[0-9]*.npy"):
            if path not in known:
                path.unlink(missing_ok=True)
                path.with_suffix(".json").unlink(missing_ok=True)

    def _read(self, path: Path) -> None:
        try:
            record = json.loads(path.read_text("utf-8"))
            owner, dim, keys = record["model"], record["dim"], record["keys"]
        except (OSError, ValueError, KeyError, TypeError):
            self.damaged.append(path.name)
            return
        if owner != self.owner:
            return
        vectors = path.with_suffix(".npy")
        if dim != self.dim or not self._whole(vectors, len(keys)):
            logger.warning("%s is damaged: its %d images will be described again", vectors, len(keys))
            self.damaged.append(vectors.name)
            return
        self._register(vectors, keys)

    def _whole(self, path: Path, n_rows: int) -> bool:
        """Whether the file has the announced shape and all its bytes (opening it reads the header only)."""
        try:
            shard: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return False
        return shard.shape == (n_rows, self.dim) and shard.dtype == self.dtype

    def _register(self, path: Path, keys: Sequence[str]) -> None:
        start = self._starts[-1]
        self._row_of.update((key, start + i) for i, key in enumerate(keys))
        self._files.append(path)
        self._starts.append(start + len(keys))


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn errors of the file system into ones that say what to do."""
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
        file = (folder / "lock").open("a+")
    with file:
        if not locked(file):
            file.seek(0)
            writer = file.read().strip() or "unknown"
            raise StoreError(
                f"{folder} is being written by another process (id {writer}); "
                "wait for it or stop it, then run again"
            )
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield
