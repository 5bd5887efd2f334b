"""Rows of numbers in a file, for arrays that go through in blocks and need never be in memory as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from displace.files.reading import PathLike


class DiskRows:
    """A two-dimensional array in a file, which is emptied first: rows are appended, then read by slices.

    It is array enough for code that goes through its rows in slices (`len`, `shape`, `dtype`, indexing). Slices are
    read, not mapped: mapped pages would count as the process's memory.

    >>> import tempfile
    >>> rows = DiskRows(tempfile.mkdtemp() + "/rows", dim=2, dtype=np.float32)
    >>> rows.append(np.eye(2)).append(np.ones((1, 2))).shape
    (3, 2)
    >>> rows[1:]
    array([[0., 1.],
           [1., 1.]], dtype=float32)
    """

    def __init__(self, path: PathLike, dim: int, dtype: DTypeLike) -> None:
        self.path, self.dim, self.dtype = Path(path), dim, np.dtype(dtype)
        self._n = 0
        self.path.write_bytes(b"")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and numbers of each."""
        return self._n, self.dim

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return self.dtype.itemsize

    def __len__(self) -> int:
        return self._n

    def append(self, rows: NDArray[Any]) -> Self:
        """Write rows (b, dim) after the others; returns self."""
        with self.path.open("ab") as file:
            np.ascontiguousarray(rows, self.dtype).tofile(file)
        self._n += len(rows)
        return self

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Read a row, a slice, or rows by number."""
        if not isinstance(rows, slice):
            return np.array(self.mapped()[rows])
        start, stop, step = rows.indices(self._n)
        count = max(0, stop - start) * self.dim
        offset = start * self.dim * self.itemsize
        block = np.fromfile(self.path, self.dtype, count, offset=offset)
        return block.reshape(-1, self.dim)[::step]

    def astype(self, dtype: DTypeLike, **_: Any) -> DiskRows:  # noqa: ARG002
        """Return self: slices are converted where they are used."""
        return self

    def mapped(self) -> NDArray[Any]:
        """The file as a memory-mapped array, read-only."""
        if self._n == 0:
            return np.empty(self.shape, self.dtype)
        return np.memmap(self.path, self.dtype, "r", shape=self.shape)
