"""Protocols: which traversals are queries, which make the map, and what counts as correct."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from displace.errors import InputError, UnknownNameError
from displace.manifest.place_assignment import KnownPlaces
from displace.manifest.table import Manifest
from displace.metrics import SamePlace, TruthRule, WithinFrames, WithinMetres
from displace.registry import unknown


@dataclass(frozen=True)
class Tolerance:
    """How far a retrieved place may be from the query's.

    >>> str(Tolerance("frames", 5)), str(Tolerance("metres", 25)), str(Tolerance("exact"))
    ('±5 frames', 'within 25 m', 'exact place')
    """

    kind: Literal["exact", "frames", "metres"]
    value: float = 0

    def __post_init__(self) -> None:
        if self.kind == "frames" and self.value != int(self.value):
            raise InputError(
                f"tolerance of {self.value:g} frames must be a whole number, such as {int(self.value)} frames"
            )

    def __str__(self) -> str:
        return {
            "exact": "exact place",
            "frames": f"±{self.value:g} frames",
            "metres": f"within {self.value:g} m",
        }[self.kind]


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
    """A named way to evaluate on a data set; its name goes beside every number.

    Attributes
    ----------
    name : str
        Such as ``nordland-exact``.
    tolerance : Tolerance
        What counts as correct.
    queries : tuple of str
        Traversals that are queries, each in turn; empty for all of them.
    references : tuple of str
        Traversals that make the map for every query; empty for all but the query.
    expected : Counts or None
        For each query traversal, where the data set's size is known.
    note : str
        Who uses it.
    """

    name: str
    tolerance: Tolerance
    queries: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    expected: Counts | None = None
    note: str = ""

    def queries_in(self, manifest: Manifest) -> list[str]:
        """Query traversals that the manifest has."""
        return [name for name in manifest.traversal_names() if not self.queries or name in self.queries]

    def references_for(self, query: str, traversals: Sequence[str]) -> list[str]:
        """Traversals that make the map when `query` is located.

        >>> Protocol("all", Tolerance("exact")).references_for("night", ["sun", "night", "rain"])
        ['sun', 'rain']
        """
        if query not in traversals:
            raise UnknownNameError(unknown("traversal", query, traversals))
        named = (
            [name for name in traversals if name in self.references] if self.references else list(traversals)
        )
        return [name for name in named if name != query]

    def split(self, manifest: Manifest, query: str) -> tuple[Manifest, Manifest]:
        """References (rows with a place only) and queries when `query` is located."""
        names = self.references_for(query, manifest.traversal_names())
        references = np.isin(manifest.traversals, names) & (manifest.places != "")
        return manifest.select(references), manifest.select(manifest.traversals == query)

    def count(self, manifest: Manifest, query: str) -> Counts:
        """Size of the evaluation with `query`."""
        references, queries = self.split(manifest, query)
        return Counts(len(references.place_ids()), len(references), len(queries))

    def truth(self, manifest: Manifest, query: str) -> TruthRule:
        """Rule for `displace.recall_at`: one truth for each image of `query`, in the manifest's order."""
        makers = {"exact": _exact, "frames": _frames, "metres": _metres}
        return makers[self.tolerance.kind](self, manifest, query)


def _exact(protocol: Protocol, manifest: Manifest, query: str) -> TruthRule:
    return SamePlace(protocol.split(manifest, query)[1].places)


def _frames(protocol: Protocol, manifest: Manifest, query: str) -> TruthRule:
    references, queries = protocol.split(manifest, query)
    if references.frame is None or queries.frame is None:
        raise InputError(f"protocol {protocol.name!r} counts frames, but the manifest has no column 'frame'")
    places, first = np.unique(references.places, return_index=True)
    return WithinFrames(queries.frame, int(protocol.tolerance.value), places, references.frame[first])


def _metres(protocol: Protocol, manifest: Manifest, query: str) -> TruthRule:
    points = manifest.positions()
    if points is None:
        raise InputError(f"protocol {protocol.name!r} counts metres, but the manifest has no positions")
    # All rows are projected together, so that queries and places are in one frame.
    metric = Manifest(
        manifest.images, manifest.places, manifest.traversals, easting=points[:, 0], northing=points[:, 1]
    )
    references, queries = protocol.split(metric, query)
    known = KnownPlaces.of(references)
    at: NDArray[np.float64] = np.empty((0, 2)) if known.positions is None else known.positions.points
    own = queries.positions()
    own = np.full((len(queries), 2), np.nan) if own is None else own
    return WithinMetres(own, protocol.tolerance.value, np.array(known.ids), at)
