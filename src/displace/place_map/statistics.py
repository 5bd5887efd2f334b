"""What an update needs: counts, place means and the within scatter, or the references themselves."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from scipy.linalg import get_lapack_funcs

from displace import tensors
from displace.errors import DisplaceError, FormatError
from displace.references import ReferenceSet
from displace.scatter import Scatter

FORMAT = "displace statistics"
VERSION = 1


@dataclass
class Statistics:
    """Statistics of a map's references; read from their file when they are first used.

    Parameters
    ----------
    scatter : Scatter or None
        Counts and means of the places, with the within scatter for `displace`.
    references : ReferenceSet or None
        The references, where they were kept.
    path : Path or None
        File that the two are read from, while they are None.
    """

    scatter: Scatter | None = None
    references: ReferenceSet | None = None
    path: Path | None = None

    @classmethod
    def at(cls, path: Path) -> Self:
        """Statistics in a file, to be read when they are used."""
        return cls(path=path)

    @staticmethod
    def belongs_to(path: Path) -> str | None:
        """Checksum of the map that the file's statistics are of; None where it cannot be read."""
        try:
            return str(tensors.read(path, FORMAT, VERSION, verify=False)[0]["map_sha256"])
        except (DisplaceError, KeyError):
            return None

    @property
    def nbytes(self) -> int:
        """Size of the file, or of what would be written."""
        if self.path is not None:
            return self.path.stat().st_size
        return sum(array.nbytes for array in self._arrays().values())

    def loaded(self) -> Self:
        """Return self, after reading the file where that has not been done."""
        if self.path is None or self.scatter is not None:
            return self
        _, arrays = tensors.read(self.path, FORMAT, VERSION)
        try:
            ids = tensors.unpack_labels("place_ids", arrays)
            dim = arrays["means"].shape[1]
            within = np.zeros((0, 0), np.float32, order="F")
            if "within" in arrays:
                (unpack,) = get_lapack_funcs(("tpttr",), dtype=np.float32)
                within = np.asfortranarray(unpack(dim, np.array(arrays["within"]), uplo="L")[0])
            self.scatter = Scatter(
                ids, np.array(arrays["counts"], np.intp), np.array(arrays["means"]), within
            )
            if "references" in arrays:
                self.references = ReferenceSet(
                    arrays["references"],
                    tensors.unpack_labels("places", arrays),
                    tensors.unpack_labels("traversals", arrays),
                )
        except (KeyError, ValueError, TypeError) as error:
            raise FormatError(f"{self.path} is damaged: {error!r}") from None
        return self

    def write(self, path: str | os.PathLike[str], map_checksum: str) -> None:
        """Write the file for the map with this checksum."""
        self.loaded()
        header = {"format": FORMAT, "version": VERSION, "map_sha256": map_checksum}
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
