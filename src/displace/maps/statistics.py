"""The file beside a map that updates need: statistics of the fusion, digests of the traversals, kept references."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from displace.errors import FormatError, InputError
from displace.files import schema, tensors
from displace.references import ReferenceSet

FORMAT = "displace statistics"
RELEASES = {1: "0.1"}
"""Release of the package that each format version came with."""
VERSION = max(RELEASES)
UPCOMING = ".next"
"""End of the file's name until the map that it belongs to is in place."""

OF_REFERENCES = {
    "references",
    *(f"{name}{end}" for name in ("places", "traversals") for end in ("", "_utf8", "_ends")),
}
"""Names of the arrays that hold kept references."""


@dataclass(frozen=True, eq=False)
class MapStatistics:
    """What is kept of a map's references."""

    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    """Statistics of the fusion (`Fusion.restored_statistics`); empty where the map's rows suffice."""
    references: ReferenceSet | None = None
    """The references, where they were kept."""
    digests: dict[str, str] = field(default_factory=dict)
    """`digests_of` each traversal; empty in older files."""

    def __post_init__(self) -> None:
        if taken := sorted(OF_REFERENCES & self.arrays.keys()):
            raise InputError(
                f"statistics cannot be called {taken[0]!r}, as references that a map keeps are; let the fusion's "
                "to_arrays and restored_statistics call them otherwise"
            )

    @property
    def nbytes(self) -> int:
        """Size of what would be written."""
        return sum(array.nbytes for array in self._packed().values())

    def loaded(self) -> MapStatistics:
        """Return self; `StatisticsFile` reads its file now."""
        return self

    def write(self, path: str | os.PathLike[str], map_checksum: str) -> None:
        """Write the file for the map with this checksum."""
        header = {
            "format": FORMAT,
            "version": VERSION,
            "needs": f"{RELEASES[VERSION]} or later",
            "map_sha256": map_checksum,
            "digests": self.digests,
        }
        tensors.write(path, header, self._packed())

    def _packed(self) -> tensors.Arrays:
        arrays: tensors.Arrays = dict(self.arrays)
        if self.references is not None:
            arrays["references"] = self.references.vectors
            arrays |= tensors.pack_labels("places", self.references.places)
            arrays |= tensors.pack_labels("traversals", self.references.traversals)
        return arrays


@dataclass(frozen=True, eq=False)
class StatisticsFile(MapStatistics):
    """Statistics in a file that is read when they are used."""

    path: Path = Path()
    map_checksum: str = ""
    """Checksum of the map that they belong to."""

    @staticmethod
    def belongs_to(path: Path) -> str:
        """Checksum of the map that a file belongs to; FormatError where it has none."""
        header, _ = tensors.read(path, FORMAT, VERSION, verify=False)
        try:
            return schema.text(header["map_sha256"], "map_sha256")
        except (KeyError, ValueError):
            raise FormatError(f"{path} is damaged: it does not say which map it belongs to") from None

    @property
    def nbytes(self) -> int:
        """Size of the file."""
        return self._there.stat().st_size

    @property
    def _there(self) -> Path:
        """The file; where a save had died before renaming it, a later one has done so."""
        return self.path if self.path.exists() else Path(str(self.path).removesuffix(UPCOMING))

    def loaded(self) -> MapStatistics:
        """Read the file."""
        path = self._there
        header, arrays = tensors.read(path, FORMAT, VERSION)
        if self.map_checksum and header.get("map_sha256") != self.map_checksum:
            raise FormatError(f"{path} belongs to another map by now: the map was replaced; load it again")
        try:
            digests = schema.mapping(header.get("digests", {}), "digests", schema.text)
            references = None
            if "references" in arrays:
                places, traversals = (tensors.unpack_labels(n, arrays) for n in ("places", "traversals"))
                references = ReferenceSet(arrays["references"], places, traversals)
        except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise FormatError(f"{path} is damaged: {error!r}") from None
        own = {name: array for name, array in arrays.items() if name not in OF_REFERENCES}
        return MapStatistics(own, references, digests)

    def write(self, path: str | os.PathLike[str], map_checksum: str) -> None:
        """Write them for another map."""
        self.loaded().write(path, map_checksum)
