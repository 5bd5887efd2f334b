"""Exact search with faiss, in the precision of the rows: float16 rows are read as such, half the bytes."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from displace.arrays import Indices, Vectors
from displace.registry import missing_extra
from displace.search.base import Index


class Faiss(Index):
    """faiss' flat index (float32) or scalar-quantised index (float16), inner product."""

    def __init__(self, vectors: Vectors) -> None:
        faiss = _faiss()
        dim = vectors.shape[1]
        if vectors.dtype == np.float16:
            half = faiss.ScalarQuantizer.QT_fp16
            self.index: Any = faiss.IndexScalarQuantizer(dim, half, faiss.METRIC_INNER_PRODUCT)
        else:
            self.index = faiss.IndexFlatIP(dim)
        self.index.add(np.ascontiguousarray(vectors, np.float32))

    def search(self, queries: Vectors, k: int) -> tuple[Indices, Vectors]:
        """Return the k best rows of each query and their scores."""
        scores, rows = self.index.search(np.ascontiguousarray(queries, np.float32), k)
        return rows.astype(np.intp, copy=False), scores

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index as faiss does."""
        _faiss().write_index(self.index, os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an index that faiss wrote."""
        loaded = cls.__new__(cls)
        loaded.index = _faiss().read_index(os.fspath(path))
        return loaded


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise missing_extra("faiss-cpu", "faiss") from None
    return faiss
