"""What the demonstration made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from displace.demo.comparison import Comparison, Flags, first_is_right
from displace.manifest.table import Manifest
from displace.maps import PlaceMap
from displace.matches import Matches


@dataclass(frozen=True, eq=False)
class Demo:
    """The map, what it located and how the fusions compare.

    Parameters
    ----------
    folder : Path
        Holds ``town/``, ``town.desc``, ``town.displace``, ``demo.html`` and ``demo.md``.
    town : PlaceMap
        Built from all traversals but the query's.
    queries : Manifest
        The located images.
    matches : Matches
        Where the map located them.
    comparison : Comparison
        All fusions on all conditions.
    """

    folder: Path
    town: PlaceMap
    queries: Manifest
    matches: Matches
    comparison: Comparison

    @property
    def map_file(self) -> Path:
        """The saved map."""
        return self.folder / "town.displace"

    @property
    def page(self) -> Path:
        """The page with map and pictures."""
        return self.folder / "demo.html"

    @property
    def right(self) -> Flags:
        """Whether the map located each query rightly."""
        return first_is_right(self.matches, self.comparison.truth[self.comparison.query])
