"""What a data set is: where its images are on disk, and the protocols people evaluate on it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from displace.errors import DatasetError, UnknownNameError
from displace.manifest.table import Manifest
from displace.protocols import Counts, Protocol
from displace.registry import unknown

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Check:
    """Comparison of a data set on disk with its expected counts; `str()` of it is a readable text."""

    title: str
    rows: list[tuple[str, str, Counts, Counts | None]]
    """Protocol, query traversal, counts found and counts expected (None where no number is known)."""
    absent: list[str]
    """Expected traversals that are not there."""
    missing: list[str]
    """Images listed without a file."""

    @property
    def ok(self) -> bool:
        """Whether everything expected is there."""
        counts = all(expected in (None, found) for _, _, found, expected in self.rows)
        return bool(self.rows) and counts and not self.absent and not self.missing

    def __str__(self) -> str:
        lines = [f"{self.title}: {'as expected' if self.ok else 'NOT as expected'}"]
        for protocol, query, found, expected in self.rows:
            differs = f" — expected {expected}" if expected not in (None, found) else ""
            lines.append(f"  {protocol}, query {query}: {found}{differs}")
        if self.absent:
            lines.append(f"  traversals not found: {', '.join(self.absent)}")
        if self.missing:
            lines.append(f"  {len(self.missing):,} images listed without a file, such as {self.missing[0]}")
        return "\n".join(lines)


class Dataset(ABC):
    """One data set; a file ``datasets/NAME.py`` with a subclass is all that a new one needs.

    A ``manifest.csv`` in the data set's folder is used as it is; `read` is for folders without one.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    obtain: ClassVar[str]
    """How to get it, and how it has to lie on disk; nothing is ever downloaded."""
    traversals: ClassVar[tuple[str, ...]] = ()
    """Traversals that the whole data set has."""
    protocols: ClassVar[tuple[Protocol, ...]]
    """Ways to evaluate; the first is the default."""

    @abstractmethod
    def read(self, root: Path) -> Manifest:
        """Make the manifest from the folder's layout."""

    def manifest(self, root: PathLike) -> Manifest:
        """Places and traversals of every image of the data set in the folder `root`."""
        root = Path(root)
        if not root.is_dir():
            raise DatasetError(f"no folder at {root}. {self.obtain}")
        own = root / "manifest.csv"
        return Manifest.read(own) if own.is_file() else self.read(root)

    def protocol(self, name: str | None = None) -> Protocol:
        """Return the protocol called `name`, by default the first."""
        known = {protocol.name: protocol for protocol in self.protocols}
        if name is None:
            return self.protocols[0]
        if name not in known:
            raise UnknownNameError(unknown("protocol", name, known))
        return known[name]

    def check(self, root: PathLike) -> Check:
        """Compare what is on disk with the published counts."""
        return self.check_manifest(self.manifest(root))

    def check_manifest(self, manifest: Manifest) -> Check:
        """Compare a manifest of this data set with the published counts, and look for missing files."""
        names = manifest.traversal_names()
        rows = [
            (protocol.name, query, protocol.count(manifest, query), protocol.expected)
            for protocol in self.protocols
            for query in protocol.queries_in(manifest)
        ]
        absent = [name for name in self.traversals if name not in names]
        return Check(self.title, rows, absent, manifest.summary().missing)

    def wrong(self, root: Path, why: str) -> DatasetError:
        """Error for a folder that is not laid out as expected."""
        return DatasetError(f"{root} is not laid out as {self.title}: {why}. {self.obtain}")


def first_folder(candidates: Iterable[Path]) -> Path | None:
    """Return the first candidate that is a folder."""
    return next((path for path in candidates if path.is_dir()), None)
