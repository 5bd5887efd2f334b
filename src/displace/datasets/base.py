"""The interface of data sets: their images on disk, and the protocols of their evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from displace.errors import DatasetError, InputError, PluginError
from displace.files.reading import PathLike
from displace.manifest.place_assignment import mean_positions
from displace.manifest.table import Manifest
from displace.registry import check_known
from displace.truth import SamePlace, Tolerance, TruthRule, WithinFrames, WithinMetres


@dataclass(frozen=True)
class Counts:
    """How many places, reference images and query images an evaluation has."""

    places: int
    references: int
    queries: int

    def __str__(self) -> str:
        return f"{self.places:,} places, {self.references:,} references, {self.queries:,} queries"


@dataclass(frozen=True)
class Protocol:
    """A named way to evaluate on a data set; its name goes beside every number."""

    name: str
    """Such as ``nordland-exact``."""
    tolerance: Tolerance
    """What counts as correct."""
    queries: tuple[str, ...] = ()
    """Traversals that are queries, each in turn; empty for all of them."""
    references: tuple[str, ...] = ()
    """Traversals that make the map for every query; empty for all but the query."""
    expected: Counts | None = None
    """Expected counts for each query traversal, if known."""
    note: str = ""
    """Who uses it."""
    on_route: bool = False
    """Whether queries with neither a place nor a frame number are left out: they were not found along the route.
    Otherwise they are misses."""

    def queries_in(self, manifest: Manifest) -> list[str]:
        """Query traversals that the manifest has."""
        return [name for name in manifest.traversal_names() if not self.queries or name in self.queries]

    def references_for(self, query: str, traversals: Sequence[str]) -> list[str]:
        """Traversals that make the map when `query` is located.

        >>> Protocol("all", Tolerance("exact")).references_for("night", ["sun", "night", "rain"])
        ['sun', 'rain']
        """
        check_known("traversal", [query], traversals)
        named = (
            [name for name in traversals if name in self.references] if self.references else list(traversals)
        )
        return [name for name in named if name != query]

    def mapped(self, manifest: Manifest, query: str) -> NDArray[np.bool_]:
        """Which images of the manifest are the references when `query` is located: those with a place."""
        names = self.references_for(query, manifest.traversal_names())
        placed: NDArray[np.bool_] = manifest.places != ""
        return placed & np.isin(manifest.traversals, names)

    def asked(self, manifest: Manifest, query: str) -> NDArray[np.bool_]:
        """Which images of the manifest are the queries when `query` is located."""
        own: NDArray[np.bool_] = manifest.traversals == query
        if self.on_route and manifest.frame is not None:
            own &= (manifest.places != "") | np.isfinite(manifest.frame)
        return own

    def count(self, manifest: Manifest, query: str) -> Counts:
        """Size of the evaluation with `query`."""
        mapped, asked = self.mapped(manifest, query), self.asked(manifest, query)
        return Counts(len(np.unique(manifest.places[mapped])), int(mapped.sum()), int(asked.sum()))

    def truth(self, manifest: Manifest, query: str) -> TruthRule:
        """Rule for `displace.recall_at`: one truth for each image of `query`, in the manifest's order."""
        mapped, asked = self.mapped(manifest, query), self.asked(manifest, query)
        if self.tolerance.kind == "exact":
            return SamePlace(manifest.places[asked])
        if self.tolerance.kind == "frames":
            frames, places = manifest.frame, manifest.places[mapped]
            if frames is None:
                raise InputError(
                    f"protocol {self.name!r} counts frames, but the manifest has no column 'frame'; add one, or count "
                    "exact places"
                )
            return WithinFrames(frames[asked], int(self.tolerance.value), places, frames[mapped])
        geo = manifest.geo
        if geo is None:
            raise InputError(
                f"protocol {self.name!r} counts metres, but the manifest has no positions; count frames ('2 frames') "
                "or exact places"
            )
        ids, rows = np.unique(manifest.places[mapped], return_inverse=True)
        at = mean_positions(geo.take(mapped), rows, len(ids))
        return WithinMetres(geo.take(asked).in_space(), self.tolerance.value, ids, at.in_space())


@dataclass(frozen=True)
class Check:
    """Comparison of a data set on disk with its expected counts; `str()` of it is a readable text."""

    title: str
    rows: list[tuple[str, str, Counts, Counts | None]]
    """Protocol, query traversal, counts found and counts expected (None if unknown)."""
    absent: list[str]
    """Expected traversals that are not there."""
    missing: list[str]
    """Images listed without a file."""
    notes: list[str] = field(default_factory=list)
    """Further notes, such as on images that were left out."""

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
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)


class Dataset(ABC):
    """One data set; a file ``datasets/NAME.py`` with a subclass is all that a new one needs.

    A ``manifest.csv`` in the data set's folder is used as it is; `read` is for folders without one.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    obtain: ClassVar[str]
    """How to get it, and its layout on disk; nothing is downloaded."""
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
        if own.is_file():
            return Manifest.read(own)
        made = self.read(root)
        if not isinstance(made, Manifest):
            raise PluginError(
                f"the data set {self.name!r} read {root} as {made!r}, and must return a Manifest"
            )
        return made

    def protocol(self, name: str | None = None) -> Protocol:
        """Return the protocol called `name`, by default the first."""
        known = {protocol.name: protocol for protocol in self.protocols}
        if name is None:
            return self.protocols[0]
        check_known("protocol", [name], known)
        return known[name]

    def check(self, root: PathLike) -> Check:
        """Compare what is on disk with the published counts."""
        return self.check_manifest(self.manifest(root), root)

    def notes(self, root: Path, manifest: Manifest) -> list[str]:  # noqa: ARG002
        """Notes for the user about a manifest that `read` made."""
        return []

    def check_manifest(self, manifest: Manifest, root: PathLike) -> Check:
        """Compare a manifest of this data set, made from `root`, with the published counts; look for missing files."""
        names = manifest.traversal_names()
        rows = [
            (protocol.name, query, protocol.count(manifest, query), protocol.expected)
            for protocol in self.protocols
            for query in protocol.queries_in(manifest)
        ]
        absent = [name for name in self.traversals if name not in names]
        own = (Path(root) / "manifest.csv").is_file()
        notes = [] if own else self.notes(Path(root), manifest)
        notes += [
            f"{protocol.name}: no traversal is its query ({', '.join(protocol.queries)})"
            for protocol in self.protocols
            if not protocol.queries_in(manifest)
        ]
        return Check(self.title, rows, absent, manifest.summary().missing, notes)

    def wrong(self, root: Path, why: str) -> DatasetError:
        """Error for a folder that is not laid out as expected."""
        return DatasetError(f"{root} is not laid out as {self.title}: {why}. {self.obtain}")


def first_folder(candidates: Iterable[Path]) -> Path | None:
    """Return the first candidate that is a folder."""
    return next((path for path in candidates if path.is_dir()), None)
