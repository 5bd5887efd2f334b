"""Thumbnails: small pictures for the explorer, as many as fit into a budget of bytes."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np

from displace.errors import ImageError
from displace.images import read_image
from displace.progress import Progress
from displace.report.html.blocks import Block

WIDTH = 176
QUALITY = 62


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
        self.n_queries += 1
        return True

    def number(self, path: str) -> int:
        """Number of a path's picture; −1 without one."""
        return self.numbers.get(path, -1)


def thumbnail(path: str | Path, width: int = WIDTH, quality: int = QUALITY) -> str | None:
    """Return a small JPEG of an image as base64; None if it cannot be read."""
    import cv2

    try:
        pixels = read_image(path)
    except ImageError:
        return None
    height = max(1, round(width * pixels.shape[0] / pixels.shape[1]))
    small = cv2.resize(pixels, (width, min(height, 2 * width)), interpolation=cv2.INTER_AREA)
    _, encoded = cv2.imencode(".jpg", small[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    return base64.b64encode(encoded.tobytes()).decode("ascii")


def collect(blocks: Sequence[Block], budget: int, progress: Progress | None = None) -> Album:
    """Take the pictures of query after query until the budget, in bytes, is spent.

    Blocks take turns. In each, queries on which the methods differ come first, then the others; both spread evenly
    over the traversal and finer with each step, so that whatever fits is spread.
    """
    album, total = Album(budget), sum(len(block.questions) for block in blocks)

    def tell(done: int) -> None:
        if progress is not None:
            progress("pictures of queries", done, total)

    for paths in chain.from_iterable(zip_longest(*map(_in_order, blocks))):
        if paths is None:
            continue  # this block has no more
        if not album.add(paths):
            break  # the budget is spent
        if album.n_queries < total:
            tell(album.n_queries)
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
