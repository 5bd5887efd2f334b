"""The best rows over blocks of rows of any precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, blocks, top_k

BLOCK = 2**19
"""Numbers per block: a few MB as float32, so that they are still in the cache when they are multiplied."""
QUERIES_AT_ONCE = 256


class RunningTop:
    """The k best rows of each query among all blocks of scores shown so far; of equal scores, the first shown."""

    def __init__(self, n_queries: int, k: int) -> None:
        self.k = k
        self._least = np.full(n_queries, -np.inf, np.float32)
        self._best: list[tuple[Vectors, Indices]] = [
            (np.empty(0, np.float32), np.empty(0, np.intp))
        ] * n_queries

    def take(self, scores: Vectors, rows: Indices) -> None:
        """Take in the scores (q, b) of `rows` (b,)."""
        for query in np.flatnonzero(scores.max(axis=1, initial=-np.inf) > self._least):
            columns = np.flatnonzero(scores[query] > self._least[query])
            if len(columns) > self.k:  # the first block: sorting all of it would cost more than its products
                columns = columns[top_k(scores[query, columns][None], self.k)[0]]
            values, numbers = self._best[query]
            values = np.concatenate([values, scores[query, columns]])
            numbers = np.concatenate([numbers, rows[columns]])
            order = np.argsort(-values, kind="stable")[: self.k]
            self._best[query] = values[order], numbers[order]
            if len(order) == self.k:
                self._least[query] = values[order[-1]]

    def result(self) -> tuple[Indices, Vectors]:
        """Rows and scores, (q, k), best first; fewer columns where fewer rows were shown."""
        width = min((len(numbers) for _, numbers in self._best), default=0)
        rows = np.array([numbers[:width] for _, numbers in self._best], np.intp)
        scores = np.array([values[:width] for values, _ in self._best], np.float32)
        return rows.reshape(len(self._best), width), scores.reshape(len(self._best), width)


def best_rows(
    queries: Vectors,
    rows: NDArray[Any],
    k: int,
    among: Indices | None = None,
    scales: Vectors | None = None,
) -> tuple[Indices, Vectors]:
    """The k best rows of each query by inner product, exactly, a block of rows at a time.

    Rows are float32, float16 or int8, and may be memory-mapped; `among` are those to look at, all by default. `scales`
    (R,) is what the scores of each row are multiplied by.
    """
    queries = np.asarray(queries, np.float32)
    n_rows, dim = rows.shape
    n_rows = n_rows if among is None else len(among)
    parts = []
    for some in blocks(len(queries), 1, QUERIES_AT_ONCE):
        top = RunningTop(some.stop - some.start, min(k, n_rows))
        # Allocated once: new memory for each block would cost a fifth of the time.
        out = np.empty((min(n_rows, max(1, BLOCK // dim)), dim), np.float32)
        room = np.empty((some.stop - some.start) * len(out), np.float32)
        for block in blocks(n_rows, dim, BLOCK):
            numbers = np.arange(block.start, block.stop) if among is None else among[block]
            wide = widened(rows[block if among is None else numbers], out)
            scores = _products(queries[some], wide, room)
            if scales is not None:
                scores *= scales[numbers]
            top.take(scores, numbers)
        parts.append(top.result())
    if not parts:
        empty = (0, min(k, n_rows))
        return np.empty(empty, np.intp), np.empty(empty, np.float32)
    return np.concatenate([r for r, _ in parts]), np.concatenate([s for _, s in parts])


def _products(queries: Vectors, rows: Vectors, room: Vectors) -> Vectors:
    """Inner products (q, b) of queries and rows, in the memory of `room`.

    BLAS is a fifth to a half faster if C-contiguous rows are the left factor.
    """
    shape = len(queries), len(rows)
    if rows.flags.c_contiguous:
        return np.matmul(rows, queries.T, out=room[: shape[0] * shape[1]].reshape(shape[::-1])).T
    return np.matmul(queries, rows.T, out=room[: shape[0] * shape[1]].reshape(shape))


def reranked(queries: Vectors, candidates: Indices, rows: NDArray[Any], k: int) -> tuple[Indices, Vectors]:
    """The k best of each query's candidate rows (q, c) by their inner product in float32."""
    k = min(k, candidates.shape[1])
    best, values = np.empty((len(queries), k), np.intp), np.empty((len(queries), k), np.float32)
    for query, numbers in enumerate(np.sort(candidates, axis=1)):
        scores = np.asarray(rows[numbers], np.float32) @ np.asarray(queries[query], np.float32)
        order = np.argsort(-scores, kind="stable")[:k]
        best[query], values[query] = numbers[order], scores[order]
    return best, values


def widened(rows: NDArray[Any], out: Vectors) -> Vectors:
    """Rows as float32, in the first rows of `out` unless they are float32 already.

    numpy converts float16 one number at a time. Bits do it four times as fast: those of a float16, shifted to a
    float32's place, are the same number but for the exponent's bias, 2⁻¹¹² (subnormal numbers too).
    """
    if rows.dtype == np.float32:
        return rows
    wide = out[: len(rows)]
    if rows.dtype != np.float16:
        np.copyto(wide, rows)
        return wide
    bits = wide.view(np.int32)
    np.copyto(bits, np.ascontiguousarray(rows).view(np.int16))
    np.left_shift(bits, 13, out=bits)
    np.bitwise_and(bits, np.int32(-0x70002000), out=bits)  # 0x8fffe000: sign, exponent, mantissa
    np.multiply(wide, np.float32(2.0**112), out=wide)
    return wide
