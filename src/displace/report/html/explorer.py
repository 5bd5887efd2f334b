"""The per-query explorer: its data in columns small enough for a page, and as many pictures as fit into a budget."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.holdout import spread
from displace.progress import Progress
from displace.report.colours import style_of
from displace.report.html.blocks import Block
from displace.report.html.markup import thumbnail, told_apart

MAX_ENTRIES = 2_000_000
"""Matches (queries × methods) that a page holds; beyond that, queries are thinned out evenly in every block."""


@dataclass
class Album:
    """Pictures within a budget."""

    budget: int
    """Bytes of JPEG, encoded as text, for all pictures together."""
    pictures: list[str] = field(default_factory=list)
    """Base64 of each JPEG."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Number of each path's picture; −1 where it could not be read."""
    n_bytes: int = 0
    """Bytes of all pictures, as text."""
    n_queries: int = 0
    """Queries all of whose pictures are there."""

    def add(self, paths: Sequence[str]) -> bool:
        """Add all pictures of one query, or none if they do not fit."""
        encoded = {path: thumbnail(path) for path in dict.fromkeys(paths) if path not in self.numbers}
        size = sum(len(text) for text in encoded.values() if text)
        if self.n_bytes + size > self.budget:
            return False
        for path, text in encoded.items():
            self.numbers[path] = len(self.pictures) if text else -1
            self.pictures += [text] if text else []
        self.n_bytes += size
        self.n_queries += all(self.numbers[path] >= 0 for path in paths)
        return True

    def number(self, path: str) -> int:
        """Number of a path's picture; −1 without one."""
        return self.numbers.get(path, -1)


def explorer_data(blocks: Sequence[Block], album: Album) -> list[dict[str, Any]]:
    """Return a record of plain types for each block; `album` has the pictures of the page."""
    total = sum(len(block.questions) * len(block.results) for block in blocks)
    share = min(1.0, MAX_ENTRIES / max(1, total))
    titles = told_apart([(block.title, block.first.rule) for block in blocks])
    return [
        {"title": title, **_columns(block, album, share)} for title, block in zip(titles, blocks, strict=True)
    ]


def _columns(block: Block, album: Album, share: float) -> dict[str, Any]:
    """Columns of one block: places as numbers, right and wrong as bits, names once."""
    asked = block.questions
    n = len(asked)
    keep = max(1, int(n * share))
    # Queries with pictures are worth more than those without.
    pictured = np.array([album.number(path_of(block, str(image))) >= 0 for image in asked.query_images])
    order = np.argsort(~pictured, kind="stable")
    first = order[: min(keep, int(pictured.sum()))]
    rest = order[len(first) :]
    rows = np.sort(np.concatenate([first, rest[spread(len(rest), keep - len(first))]]))
    found = np.stack([ranking.places[rows, 0] for ranking in block.rankings])
    truth = np.array([asked.truth_of(row) for row in rows.tolist()], np.int32)
    shown = np.unique(np.concatenate([found.ravel(), truth[truth >= 0]]))
    place_thumbs = [album.number(path_of(block, str(asked.place_images[place]))) for place in shown]
    query_thumbs = [album.number(path_of(block, str(asked.query_images[row]))) for row in rows]
    return {
        "protocol": block.first.rule,
        "total": n,
        "methods": [
            {"label": r.label, "group": r.group, "colour": style_of(r.fusion, not r.parameters).colour}
            for r in block.results
        ],
        "own": block.own,
        "rival": _best(block),
        "rows": packed(rows.astype(np.uint32)),
        "names": [str(asked.query_images[row]) for row in rows],
        "places": [str(asked.place_ids[place]) for place in shown],
        "placeThumbs": packed(np.array(place_thumbs, np.int32)),
        "queryThumbs": packed(np.array(query_thumbs, np.int32)),
        "truth": packed(np.where(truth >= 0, np.searchsorted(shown, truth), -1).astype(np.int32)),
        "found": packed(np.searchsorted(shown, found).astype(np.uint32)),
        "right": packed(block.hits[:, rows].astype(np.uint8)),
    }


def _best(block: Block) -> int:
    """Index of the best rival of the block's own method; the own one if there is no rival."""
    return max(block.rivals, key=lambda at: block.results[at].recalls[1], default=block.own)


def packed(values: NDArray[Any]) -> str:
    """Numbers as little-endian bytes in base64, which a page reads into typed arrays."""
    plain = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return base64.b64encode(plain.tobytes()).decode("ascii")


def collect(blocks: Sequence[Block], budget: int, progress: Progress | None = None) -> Album:
    """Take the pictures of query after query until the budget, in bytes, is spent.

    Blocks take turns. In each, queries on which the methods differ come first, then the others; both spread evenly
    over the traversal and finer with each step, so that whatever fits is spread.
    """
    album, total = Album(budget), sum(len(block.questions) for block in blocks)

    def tell(done: int) -> None:
        if progress is not None:
            progress("pictures of queries", done, total)

    every = chain.from_iterable(zip_longest(*map(_in_order, blocks)))  # None where a block has no more
    for done, paths in enumerate((paths for paths in every if paths is not None), 1):
        if not album.add(paths):
            break  # the budget is spent
        if done < total:
            tell(done)
    tell(total)
    return album


def _in_order(block: Block) -> Iterator[list[str]]:
    """Paths of the pictures of each query; queries on which the methods differ come first."""
    hits = block.hits
    differ = hits.any(axis=0) != hits.all(axis=0)
    for rows in (np.flatnonzero(differ), np.flatnonzero(~differ)):
        for at in _spread(len(rows)):
            yield paths_of(block, int(rows[at]))


def _spread(n: int) -> Iterator[int]:
    """Count 0 … n−1, each once, ever finer: 0, the middle, the quarters … (van der Corput's sequence)."""
    bits = max(1, (n - 1).bit_length())
    for number in range(2**bits):
        turned = int(f"{number:0{bits}b}"[::-1], 2)
        if turned < n:
            yield turned


def paths_of(block: Block, row: int) -> list[str]:
    """Paths of the pictures that the explorer shows for one query: it, its place, and what each method found."""
    asked = block.questions
    places = [int(ranking.places[row, 0]) for ranking in block.rankings]
    truth = asked.truth_of(row)
    shown = ([truth] if truth >= 0 else []) + places
    images = [asked.query_images[row], *(asked.place_images[place] for place in shown)]
    return [path_of(block, str(image)) for image in images]


def path_of(block: Block, image: str) -> str:
    """Path of an image of the block."""
    return (block.root / image).as_posix()
