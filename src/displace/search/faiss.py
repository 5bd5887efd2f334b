"""Search with faiss: rows read in float16 or int8, or an approximate index."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, blocks
from displace.errors import FormatError
from displace.files import schema, tensors
from displace.files.reading import PathLike
from displace.geo import Area
from displace.holdout import spread
from displace.progress import Stage
from displace.registry import import_extra
from displace.search._top import RunningTop, best_rows, reranked
from displace.search.base import GOAL, Index, as_rows, checked_queries
from displace.search.exact import AGAIN, FORMAT, VERSION

FEW = 6
"""From this many queries on, BLAS over widened blocks is faster than faiss' scan, which takes them one by one."""


class Faiss(Index):
    """faiss' indexes by inner product.

    ======== =========================================== ======================================================
    kind     faiss                                       a query reads
    ======== =========================================== ======================================================
    float16  IndexScalarQuantizer, QT_fp16               all rows, in half the bytes
    float32  IndexFlatIP                                 all rows
    int8     IndexScalarQuantizer, QT_8bit_direct_signed all rows in a quarter of the bytes; the best are compared
                                                         again in the rows' own precision
    ivf      IndexIVFScalarQuantizer, QT_fp16            the nearest of √R lists
    hnsw     IndexHNSWSQ, QT_fp16, 32 neighbours         a walk along neighbours
    ======== =========================================== ======================================================

    The last two are approximate. `build` increases their search effort until 99 % of a sample find what an exact
    search finds; `recall` is the share reached.
    """

    kinds = ("float16", "float32", "int8", "ivf", "hnsw")

    def __init__(self, index: Any, kind: str, scale: float = 1.0, rows: NDArray[Any] | None = None) -> None:
        self.index, self.kind, self.scale, self.rows = index, kind, scale, rows
        self.n_rows, self.dim = int(index.ntotal), int(index.d)

    @classmethod
    def build(cls, rows: Vectors, kind: str = "", uri: str = "", *, progress: Stage | None = None) -> Self:  # noqa: ARG003
        """Make a faiss index in memory; `uri` is not used."""
        kind = cls.chosen_kind(kind, rows)
        index, scale = _made(kind, rows), 1.0
        if kind == "int8":
            scale = max(_largest(rows), 1e-12) / 127
        if kind in ("ivf", "hnsw"):
            wanted = 40 * getattr(index, "nlist", 1)  # for each list that is learned
            index.train(np.ascontiguousarray(rows[spread(len(rows), wanted)], np.float32))
        for block in blocks(len(rows), 4 * rows.shape[1]):
            part = np.ascontiguousarray(rows[block], np.float32)
            index.add(part if kind != "int8" else np.rint(part / np.float32(scale)))
            if progress:
                progress(block.stop, len(rows))
        made = cls(index, kind, scale, rows if kind == "int8" else None)
        made.recall = 1.0 if kind in (rows.dtype.name, "float32") else made.measure_recall(rows)
        while made.recall < GOAL and made._look_further():
            made.recall = made.measure_recall(rows)
        return made

    @classmethod
    def open(cls, uri: PathLike) -> Self:
        """Read an index that faiss wrote, of whatever kind."""
        faiss = _faiss()
        try:
            index = faiss.read_index(os.fspath(uri))
        except RuntimeError as error:
            raise FormatError(f"{uri} cannot be read by faiss: {str(error).splitlines()[-1]}") from None
        kind = _kind_of(faiss, index)
        if kind != "int8":
            return cls(index, kind)
        header, arrays = tensors.read(_beside(uri), FORMAT, VERSION, verify=False)
        rows = arrays.get("rows")
        try:
            scale = schema.number(header["scale"], "scale")
            fits = rows is None or rows.shape == (index.ntotal, index.d)
            schema.require(fits, "its rows are not those of the index")
        except (KeyError, ValueError) as error:
            raise FormatError(f"{_beside(uri)} is damaged: {error!r}") from None
        return cls(index, kind, scale, rows)

    def search(
        self, queries: Vectors, k: int, among: Indices | Area | None = None
    ) -> tuple[Indices, Vectors]:
        """Return the best rows of each query and their scores."""
        queries, rows = checked_queries(queries, self.dim), as_rows(among, self.n_rows)
        k = min(k, self.n_rows)
        if rows is not None:
            return self._search_among(queries, k, rows)
        if self.kind != "int8":
            return self._search_all(queries, k)
        wanted = k if self.rows is None else min(4 * k + AGAIN, self.n_rows)
        best, scores = self._search_all(queries, wanted)
        return (
            (best, scores * np.float32(self.scale))
            if self.rows is None
            else reranked(queries, best, self.rows, k)
        )

    def save(self, uri: PathLike) -> None:
        """Write the index as faiss does; with int8, the scale and the rows to compare again beside it."""
        _faiss().write_index(self.index, os.fspath(uri))
        if self.kind == "int8":
            header = {"format": FORMAT, "version": VERSION, "kind": "int8", "scale": self.scale}
            tensors.write(_beside(uri), header, {} if self.rows is None else {"rows": self.rows})

    def _search_all(self, queries: Vectors, k: int) -> tuple[Indices, Vectors]:
        """Search the index as it is kept, int8 scores without their scale."""
        if len(queries) >= FEW and (codes := self._codes()) is not None:
            return self._search_codes(queries, k, codes)
        # One more than k: faiss picks any of equal scores, and the extra one shows whether it dropped some.
        scores, best = self.index.search(np.ascontiguousarray(queries), min(k + 1, self.n_rows))
        # An approximate search may find fewer: faiss pads with −1, which would index the last row.
        short = np.flatnonzero((best < 0).any(axis=1))
        if len(short):
            best[short], scores[short] = self._search_every_row(queries[short], best.shape[1])
        best, scores, cut = _in_row_order(best, scores, k)
        if len(cut) and (codes := self._codes()) is not None:
            best[cut], scores[cut] = self._search_codes(queries[cut], k, codes)
        return best.astype(np.intp, copy=False), scores

    def _search_codes(self, queries: Vectors, k: int, codes: NDArray[Any]) -> tuple[Indices, Vectors]:
        """Search the rows as faiss keeps them, with BLAS."""
        best, scores = best_rows(queries, codes, k)
        # faiss keeps code + 128: each score is too large by 128 times the sum of its query.
        return best, scores - 128 * queries.sum(axis=1)[:, None] if self.kind == "int8" else scores

    def _search_every_row(self, queries: Vectors, k: int) -> tuple[Indices, Vectors]:
        """Compare all rows, a block of them at a time."""
        top = RunningTop(len(queries), k)
        for block in blocks(self.n_rows, 4 * self.dim):
            rows = np.arange(block.start, block.stop)
            top.take(queries @ self.index.reconstruct_batch(rows).T, rows)
        return top.result()

    def _search_among(self, queries: Vectors, k: int, rows: Indices) -> tuple[Indices, Vectors]:
        """Search some of the rows, as exactly as they are kept."""
        if self.rows is not None:
            return best_rows(queries, self.rows, k, rows)
        kept = self.index.reconstruct_batch(rows) if len(rows) else np.empty((0, self.dim), np.float32)
        best, scores = best_rows(queries, kept, k)
        return rows[best], scores * np.float32(self.scale)

    def _codes(self) -> NDArray[Any] | None:
        """Return the rows as faiss keeps them, without a copy; None for approximate kinds."""
        if self.kind in ("ivf", "hnsw") or self.n_rows == 0:
            return None
        dtype = np.dtype("uint8" if self.kind == "int8" else self.kind)
        raw = _faiss().rev_swig_ptr(self.index.codes.data(), self.n_rows * self.dim * dtype.itemsize)
        codes: NDArray[Any] = raw.view(dtype).reshape(self.n_rows, self.dim)
        return codes

    def _look_further(self) -> bool:
        """Let an approximate search look at more rows; False at its limit."""
        if self.kind == "ivf" and 2 * self.index.nprobe < self.index.nlist:
            self.index.nprobe *= 2
            return True
        if self.kind == "hnsw" and self.index.hnsw.efSearch < 512:
            self.index.hnsw.efSearch *= 2
            return True
        return False


def _in_row_order(best: Indices, scores: Vectors, k: int) -> tuple[Indices, Vectors, Indices]:
    """The k best, rows of equal scores in order, and the queries for which further rows score as the last of them.

    >>> _in_row_order(np.array([[7, 5, 4], [7, 5, 4]]), np.array([[1.0, 1, 0], [1, 0, 0]]), 2)
    (array([[5, 7],
           [7, 4]]), array([[1., 1.],
           [1., 0.]]), array([1]))
    """
    equal = scores[:, 1:] == scores[:, :-1]
    if not equal.any():
        return best[:, :k], scores[:, :k], np.empty(0, np.intp)
    order = np.lexsort((best, -scores))[:, :k]
    ordered = np.take_along_axis(best, order, 1), np.take_along_axis(scores, order, 1)
    return *ordered, np.flatnonzero(equal[:, k - 1 :].any(axis=1))


def _made(kind: str, rows: Vectors) -> Any:
    """Return an empty index for such rows."""
    faiss, (n_rows, dim) = _faiss(), rows.shape
    product, types = faiss.METRIC_INNER_PRODUCT, faiss.ScalarQuantizer
    if kind == "float32":
        return faiss.IndexFlatIP(dim)
    if kind == "ivf":
        n_lists = max(1, int(np.sqrt(n_rows)))
        index = faiss.IndexIVFScalarQuantizer(
            faiss.IndexFlatIP(dim), dim, n_lists, types.QT_fp16, product, False
        )
        index.set_direct_map_type(faiss.DirectMap.Array)
        index.nprobe = max(1, n_lists // 16)
        return index
    if kind == "hnsw":
        index = faiss.IndexHNSWSQ(dim, types.QT_fp16, 32, product)
        index.hnsw.efSearch = 64
        return index
    return faiss.IndexScalarQuantizer(
        dim, types.QT_fp16 if kind == "float16" else types.QT_8bit_direct_signed, product
    )


def _largest(rows: Vectors) -> float:
    """Largest absolute value, in blocks."""
    parts = (np.abs(rows[block]).max(initial=0) for block in blocks(len(rows), 4 * rows.shape[1]))
    return float(max(parts, default=0.0))


def _kind_of(faiss: Any, index: Any) -> str:
    """Return the kind of an index that was read."""
    if isinstance(index, faiss.IndexIVF):
        return "ivf"
    if isinstance(index, faiss.IndexHNSW):
        return "hnsw"
    if isinstance(index, faiss.IndexScalarQuantizer):
        return "float16" if index.sq.qtype == faiss.ScalarQuantizer.QT_fp16 else "int8"
    return "float32"


def _beside(uri: PathLike) -> Path:
    return Path(f"{os.fspath(uri)}-rows")


def _faiss() -> Any:
    return import_extra("faiss", "faiss", "faiss-cpu")
