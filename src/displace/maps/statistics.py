"""What an update needs: counts, place means and the within scatter, or the references themselves."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from scipy.linalg import get_lapack_funcs

from displace.errors import FormatError
from displace.files import tensors
from displace.fusion.solver.scatter import Scatter
from displace.references import ReferenceSet

FORMAT = "displace statistics"
RELEASES = {1: "0.1"}
"""Release of the package that each format version came with."""
VERSION = max(RELEASES)


@dataclass
class Statistics:
    """Statistics of a map's references; read from their file when they are first used.

    Parameters
    ----------
    scatter : Scatter or None
        Counts and means of the places, with the within scatter for `displace`; None for `pooling`, whose rows say all.
    references : ReferenceSet or None
        The references, where they were kept.
    digests : dict of str to str
        What `digests_of` gives for each traversal; empty in files older than it.
    path : Path or None
        File that these are read from; None when they were made, not read.
    """

    scatter: Scatter | None = None
    references: ReferenceSet | None = None
    digests: dict[str, str] = field(default_factory=dict)
    path: Path | None = None
    _waiting: bool = False

    @classmethod
    def at(cls, path: Path) -> Self:
        """Statistics in a file, to be read when they are used."""
        return cls(path=path, _waiting=True)

    @staticmethod
    def belongs_to(path: Path) -> str:
        """Checksum of the map that the file's statistics are of.

        Raises
        ------
        FormatError
            When the file is absent, damaged, foreign or of a later version.
        """
        header, _ = tensors.read(path, FORMAT, VERSION, verify=False)
        try:
            return str(header["map_sha256"])
        except KeyError:
            raise FormatError(f"{path} is damaged: it does not say which map it belongs to") from None

    @property
    def nbytes(self) -> int:
        """Size of the file, or of what would be written."""
        if self.path is not None:
            return self.path.stat().st_size
        return sum(array.nbytes for array in self._arrays().values())

    def loaded(self) -> Self:
        """Return self, after reading the file where that has not been done."""
        if self.path is None or not self._waiting:
            return self
        header, arrays = tensors.read(self.path, FORMAT, VERSION)
        try:
            self.scatter = _unpacked_scatter(arrays)
            self.digests = {str(name): str(digest) for name, digest in header.get("digests", {}).items()}
            if "references" in arrays:
                self.references = ReferenceSet(
                    arrays["references"],
                    tensors.unpack_labels("places", arrays),
                    tensors.unpack_labels("traversals", arrays),
                )
        except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise FormatError(f"{self.path} is damaged: {error!r}") from None
        self._waiting = False
        return self

    def write(self, path: str | os.PathLike[str], map_checksum: str) -> None:
        """Write the file for the map with this checksum."""
        self.loaded()
        header = {
            "format": FORMAT,
            "version": VERSION,
            "needs": f"{RELEASES[VERSION]} or later",
            "map_sha256": map_checksum,
            "digests": self.digests,
        }
        tensors.write(path, header, self._arrays())
        self.path = None

    def _arrays(self) -> tensors.Arrays:
        arrays: tensors.Arrays = {}
        if self.scatter is not None:
            arrays |= {"counts": self.scatter.counts.astype(np.int64), "means": self.scatter.means}
            arrays |= tensors.pack_labels("place_ids", self.scatter.place_ids)
            if self.scatter.within.size:
                (pack,) = get_lapack_funcs(("trttp",), (self.scatter.within,))
                arrays["within"] = pack(self.scatter.within, uplo="L")[0]
        if self.references is not None:
            arrays["references"] = self.references.vectors
            arrays |= tensors.pack_labels("places", self.references.places)
            arrays |= tensors.pack_labels("traversals", self.references.traversals)
        return arrays


def digests_of(refs: ReferenceSet) -> dict[str, str]:
    """SHA-256 of each traversal's places and float32 vectors, whatever their order.

    >>> a = ReferenceSet([[1.0, 2.0], [3.0, 4.0]], ["gate", "tower"], ["sun", "sun"])
    >>> digests_of(a) == digests_of(a.select(np.array([1, 0])))
    True
    """
    rows: dict[str, list[bytes]] = {}
    for vector, place, name in zip(refs.vectors, refs.places.tolist(), refs.traversals.tolist(), strict=True):
        content = f"{place}\0".encode() + vector.astype("<f4").tobytes()
        rows.setdefault(str(name), []).append(hashlib.sha256(content).digest())
    return {name: hashlib.sha256(b"".join(sorted(parts))).hexdigest() for name, parts in rows.items()}


def _unpacked_scatter(arrays: tensors.Arrays) -> Scatter | None:
    if "means" not in arrays:
        return None
    ids, means = tensors.unpack_labels("place_ids", arrays), np.array(arrays["means"])
    counts = np.array(arrays["counts"], np.intp)
    if means.ndim != 2 or not len(ids) == len(counts) == len(means):
        raise ValueError(f"{len(ids)} places, {len(counts)} counts and means of shape {means.shape}")
    within = np.zeros((0, 0), np.float32, order="F")
    if "within" in arrays:
        dim, packed = means.shape[1], np.array(arrays["within"])
        if packed.shape != (dim * (dim + 1) // 2,):
            raise ValueError(f"scatter of {packed.size} numbers for {dim} dimensions")
        (unpack,) = get_lapack_funcs(("tpttr",), dtype=np.float32)
        within = np.asfortranarray(unpack(dim, packed, uplo="L")[0])
    return Scatter(ids, counts, means, within)
