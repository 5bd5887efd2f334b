"""Digests of traversals: whether references are those that went into a map, in whatever order.

The digest of a traversal is the sum modulo 2⁶⁴, by two hash functions, of the hashes of its references (place id and
float32 vector). Sums can be computed block by block and added, which a hash of sorted rows cannot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors, blocks
from displace.references import ReferenceSet

SUM = "sum:"
"""Prefix of these digests; those without it are of older maps (`_sorted_hash`)."""
Words = NDArray[np.uint64]


class Digests:
    """Digests of traversals, computed a block of references at a time.

    >>> a = ReferenceSet([[1.0, 2.0], [3.0, 4.0]], ["gate", "tower"], ["sun", "sun"])
    >>> in_one, in_two = Digests().add(a), Digests().add(a.select([1])).add(a.select([0]))
    >>> in_one.result() == in_two.result()
    True
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.sums: dict[str, Words] = {}

    def add(self, refs: ReferenceSet) -> Digests:
        """Add references; returns self."""
        ids, index = np.unique(refs.places, return_inverse=True)
        places = np.array([_of_text(str(place)) for place in ids.tolist()], np.uint64)[index]
        names, which = np.unique(refs.traversals, return_inverse=True)
        for rows in blocks(len(refs), row_bytes=16 * refs.vectors.shape[1]):
            marks = _marks(refs.vectors[rows], places[rows])
            for number, name in enumerate(names.tolist()):
                own = which[rows] == number
                if own.any():
                    self._take(str(name), int(own.sum()), marks[own].sum(axis=0, dtype=np.uint64))
        return self

    def merge(self, other: Digests) -> Digests:
        """Add the digests of other references; returns self."""
        for name, count in other.counts.items():
            self._take(name, count, other.sums[name])
        return self

    def result(self) -> dict[str, str]:
        """Digest of each traversal, as text."""
        return {
            name: f"{SUM}{self.counts[name]}:" + "".join(f"{int(word):016x}" for word in self.sums[name])
            for name in self.sums
        }

    def _take(self, name: str, count: int, sums: Words) -> None:
        self.counts[name] = self.counts.get(name, 0) + count
        self.sums[name] = self.sums.get(name, np.zeros(2, np.uint64)) + sums


def digests_of(refs: ReferenceSet, like: Mapping[str, str] | None = None) -> dict[str, str]:
    """Digest of each traversal of `refs`; of the older kind where `like` has that for it.

    >>> a = ReferenceSet([[1.0, 2.0], [3.0, 4.0]], ["gate", "tower"], ["sun", "sun"])
    >>> digests_of(a) == digests_of(a.select(np.array([1, 0])))
    True
    """
    old = {name for name, mark in (like or {}).items() if not mark.startswith(SUM)}
    digests = Digests().add(refs).result()
    for name in refs.traversal_ids:
        if str(name) in old:
            digests[str(name)] = _sorted_hash(refs.only(name))
    return digests


def _marks(vectors: Vectors, places: Words) -> Words:
    """Two mixed 64-bit hashes of each row, (b, 2)."""
    bits = np.ascontiguousarray(vectors, "<f4")
    if bits.shape[1] % 2:
        bits = np.pad(bits, ((0, 0), (0, 1)))
    words = bits.view("<u8")
    marks = np.empty((len(words), 2), np.uint64)
    for lane in range(2):
        factors = _mixed(np.arange(words.shape[1], dtype=np.uint64) + np.uint64(lane << 40)) | np.uint64(1)
        turned = words if lane == 0 else words ^ (words >> np.uint64(31))
        marks[:, lane] = _mixed((turned * factors).sum(axis=1, dtype=np.uint64) ^ places)
    return marks


def _mixed(words: Words) -> Words:
    """Steele's SplitMix64: every bit of the result depends on every bit of the word."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _of_text(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _sorted_hash(refs: ReferenceSet) -> str:
    """Digest of one traversal in older maps: SHA-256 of the sorted SHA-256 of its references."""
    rows: list[Any] = []
    for vector, place in zip(refs.vectors, refs.places.tolist(), strict=True):
        rows.append(hashlib.sha256(f"{place}\0".encode() + vector.astype("<f4").tobytes()).digest())
    return hashlib.sha256(b"".join(sorted(rows))).hexdigest()
