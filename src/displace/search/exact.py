"""Exact search with numpy alone, in memory or memory-mapped, in float32, float16 or int8."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, blocks, ranked, top_k
from displace.errors import FormatError
from displace.files import tensors
from displace.files.reading import PathLike
from displace.files.schema import require, shown
from displace.geo import Area
from displace.progress import Stage
from displace.search._top import best_rows, reranked
from displace.search.base import Index, as_rows, checked_queries

FORMAT, VERSION = "displace rows", 1
MAPPED_ABOVE = 2 * 2**30
"""Bytes of float32 rows above which memory-mapped rows stay on disk."""
MANY = 0.05
"""Share of the rows above which all of them are compared: gathering columns takes longer."""
LONG, FEW = 200_000, 6
"""From this many rows and queries on, blocks of rows are faster: a whole row of scores exceeds the cache."""
AGAIN = 50
"""int8 search compares this many rows, plus 4·k, again in float32."""


class Exact(Index):
    """Inner products by BLAS in float32.

    ``float32`` rows in memory are held transposed: for one query ``z @ Xᵀ`` takes up to 1.4 times reading the bytes,
    ``X @ z`` twice as long. All others are widened a block at a time, so that the rows may be larger than memory:
    ``float16`` is exact for the rows as rounded; ``int8`` finds candidates (row ≈ scale · code, a scale for each) and
    compares these again in the rows' own precision, where the rows are at hand, in memory or on disk.
    """

    kinds = ("float32", "float16", "int8")

    def __init__(
        self,
        kind: str,
        codes: NDArray[Any],
        scales: Vectors | None = None,
        rows: NDArray[Any] | None = None,
    ) -> None:
        self.kind, self.scales, self.rows = kind, scales, rows
        self.n_rows, self.dim = codes.shape
        in_memory = kind == "float32" and not (is_mapped(codes) and codes.nbytes > MAPPED_ABOVE)
        self.transposed = np.ascontiguousarray(codes.T) if in_memory else None
        self.codes = self.transposed.T if self.transposed is not None else codes

    @classmethod
    def build(cls, rows: Vectors, kind: str = "", uri: str = "", *, progress: Stage | None = None) -> Self:  # noqa: ARG003
        """Hold rows for searching; `uri` is not used."""
        kind = cls.chosen_kind(kind, rows)
        if kind == "int8":
            codes, scales = to_int8(rows, progress)
            index = cls(kind, codes, scales, rows)
        else:
            index = cls(kind, rows.astype(kind, copy=False))
        index.recall = 1.0 if kind == rows.dtype.name or kind == "float32" else index.measure_recall(rows)
        return index

    @classmethod
    def open(cls, uri: PathLike) -> Self:
        """Memory-map what `save` wrote."""
        header, arrays = tensors.read(uri, FORMAT, VERSION, verify=False)
        try:
            kind, codes, scales, rows = (
                header["kind"],
                arrays["codes"],
                arrays.get("scales"),
                arrays.get("rows"),
            )
            alike = kind in cls.kinds and codes.dtype.name == kind and codes.ndim == 2
            require(alike, f"its codes are {codes.dtype}{codes.shape}, of kind {shown(kind)}")
            require((scales is not None) == (kind == "int8"), "scales are for int8 codes, and needed there")
            require(scales is None or scales.shape == codes.shape[:1], "its scales are not those of its rows")
            require(rows is None or rows.shape == codes.shape, "its rows are not those of its codes")
        except (KeyError, ValueError) as error:
            raise FormatError(f"{uri} is damaged: {error!r}") from None
        return cls(kind, codes, scales, rows)

    @classmethod
    def chosen_kind(cls, kind: str, rows: Vectors) -> str:
        """Return `kind`; by default float32, which is fastest, or the rows' own type if that would be too large."""
        if not kind and 4 * rows.size <= MAPPED_ABOVE:
            return "float32"
        return super().chosen_kind(kind, rows)

    def search(
        self, queries: Vectors, k: int, among: Indices | Area | None = None
    ) -> tuple[Indices, Vectors]:
        """Return the best rows of each query and their scores."""
        queries, rows = checked_queries(queries, self.dim), as_rows(among, self.n_rows)
        if self.transposed is not None and rows is None:
            return self._search_transposed(queries, min(k, self.n_rows), self.transposed)
        if self.transposed is not None and rows is not None and len(rows) > MANY * self.n_rows:
            columns, all_rows = self.transposed, rows
            some = ranked(len(queries), len(rows), k, lambda part: (queries[part] @ columns)[:, all_rows], 2)
            return rows[some[0]], some[1]
        again = self.rows if self.kind == "int8" else None
        wanted = k if again is None else 4 * k + AGAIN
        best, scores = best_rows(queries, self.codes, wanted, rows, self.scales)
        return (best, scores) if again is None else reranked(queries, best, again, k)

    def _search_transposed(self, queries: Vectors, k: int, columns: Vectors) -> tuple[Indices, Vectors]:
        if len(queries) == 1:  # no blocks, no copies: half of the time at a few thousand rows
            scores = queries @ columns
            best = top_k(scores, k)
            return best, scores[:, best[0]]
        if self.n_rows > LONG and len(queries) >= FEW:
            return best_rows(queries, self.codes, k)
        return ranked(len(queries), self.n_rows, k, lambda some: queries[some] @ columns)

    def save(self, uri: PathLike) -> None:
        """Write the rows as they are kept; with int8, also those that are compared again."""
        arrays = {"codes": self.codes, "scales": self.scales, "rows": self.rows}
        header = {"format": FORMAT, "version": VERSION, "kind": self.kind}
        tensors.write(uri, header, {name: array for name, array in arrays.items() if array is not None})


def to_int8(rows: Vectors, progress: Stage | None = None) -> tuple[NDArray[np.int8], Vectors]:
    """Rows in eight bits, and the scale of each: row ≈ scale · code. In blocks."""
    codes, scales = np.empty(rows.shape, np.int8), np.empty(len(rows), np.float32)
    for block in blocks(len(rows), 4 * rows.shape[1]):
        part = np.asarray(rows[block], np.float32)
        scales[block] = np.maximum(np.abs(part).max(axis=1, initial=0), 1e-12) / np.float32(127)
        codes[block] = np.rint(part / scales[block][:, None])
        if progress:
            progress(block.stop, len(rows))
    return codes, scales


def is_mapped(array: NDArray[Any]) -> bool:
    """Whether an array is memory-mapped."""
    base: Any = array
    while base is not None:
        if isinstance(base, np.memmap):
            return True
        base = getattr(base, "base", None)
    return False
