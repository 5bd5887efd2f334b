"""The results of the demonstration, and its tables as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors
from displace.bootstrap import resampled_text
from displace.datasets.base import Protocol
from displace.evaluation.record import Effort
from displace.evaluation.results import Results
from displace.evaluation.tables import Column, Row, Table, build_tables
from displace.fusion import DEFAULT, get_fusion
from displace.fusion.base import Fusion
from displace.manifest.table import Manifest
from displace.maps import PlaceMap
from displace.matches import Matches
from displace.recall import percent
from displace.report.html.blocks import Block, read_blocks
from displace.report.html.findings import Finding, find, signed, verdict
from displace.sequence.following import Fix
from displace.truth import Flags


@dataclass(frozen=True)
class FusionScore:
    """One fusion on every condition."""

    row: Row
    """Of the table of recalls."""
    recall_1: float
    recall_5: float
    """R@1 and R@5 (%) on the condition that is shown in detail."""
    mean: float
    """Mean R@1 (%) over the conditions."""
    effort: Effort

    @property
    def storable(self) -> bool:
        """Whether a map can hold it; not where whole score matrices are fused."""
        return get_fusion(self.row.fusion).rows is not Fusion.rows


@dataclass(frozen=True)
class TextTable:
    """A table of text cells; the first cell of each row is its name."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False)
class NightDrive:
    """The query's pictures as frames of a drive: followed, smoothed, and along a map that lacks a stretch."""

    recalls: dict[str, float]
    """R@1 (%) of frames followed and smoothed along the whole map."""
    missing: Flags
    """Shape (n,). Frames whose places the second map lacks."""
    off_map: dict[str, tuple[float, float]]
    """Precision and recall of being off the second map, by the same names."""
    fixes: list[Fix]
    """Fix of each frame, followed along the second map."""
    places: NDArray[np.intp]
    """Shape (N,). Number of each of its places along the route."""


def follow_night(
    place_map: PlaceMap,
    without: PlaceMap,
    frames: Vectors,
    pictures: Sequence[Path],
    right: Callable[[NDArray[Any]], Flags],
) -> NightDrive:
    """Follow and smooth a drive, a frame (n, D) for each place, along a map, and along one that lacks a stretch of it.

    `pictures` are the images of the frames. The places of both maps are in route order; `right` takes the places found,
    (n,), and returns which of them are correct.
    """
    whole, found = _fixes(place_map, frames, pictures), _fixes(without, frames, pictures)
    recalls = {way: percent(right(np.array([fix.place for fix in fixes]))) for way, fixes in whole.items()}
    missing = ~np.isin(place_map.place_ids, without.place_ids)
    off_map = {way: _precision_recall(fixes, missing) for way, fixes in found.items()}
    return NightDrive(recalls, missing, off_map, found["followed"], np.flatnonzero(~missing))


def _fixes(place_map: PlaceMap, frames: Vectors, pictures: Sequence[Path]) -> dict[str, list[Fix]]:
    follower = place_map.follow()
    followed = [follower.step(frame, picture) for frame, picture in zip(frames, pictures, strict=True)]
    return {"followed": followed, "smoothed": place_map.smooth(frames, pictures=pictures)}


def _precision_recall(fixes: list[Fix], missing: Flags) -> tuple[float, float]:
    off = np.array([fix.off_map > 0.5 for fix in fixes])
    both = float((off & missing).sum())
    return both / max(1, off.sum()), both / max(1, missing.sum())


@dataclass(frozen=True, eq=False)
class Demo:
    """The map, what it located and how the fusions compare."""

    folder: Path
    """Holds ``town/``, ``town.desc``, ``town.displace``, ``demo_results/``, ``demo.html`` and ``demo.md``."""
    place_map: PlaceMap
    """Built from all traversals but the query's."""
    queries: Manifest
    """The located images."""
    matches: Matches
    """Where the map located them."""
    results: Results
    """All fusions on all conditions."""
    protocol: Protocol
    """What counts as correct; its name is printed beside every number."""
    query: str
    """The condition that the map has not seen."""
    drive: NightDrive
    """Its pictures as frames of a drive."""

    @property
    def map_file(self) -> Path:
        """The saved map."""
        return self.folder / "town.displace"

    @property
    def page(self) -> Path:
        """The page with map and pictures."""
        return self.folder / "demo.html"

    @cached_property
    def table(self) -> Table:
        """Recall@1 of every fusion, and of each single traversal, on each condition."""
        return build_tables(self.results)[0]

    @cached_property
    def blocks(self) -> dict[str, Block]:
        """Rankings by condition."""
        return {block.first.query: block for block in read_blocks(self.results, [self.table])}

    @cached_property
    def finding(self) -> Finding:
        """DisPlace against the best other fusion on each condition."""
        return find([self.table], list(self.blocks.values()), self.results)[0]

    @property
    def scores(self) -> list[FusionScore]:
        """Every fusion, best mean first."""
        rows = (row for row in self.table.rows if "traversal" not in row.parameters)
        return sorted(map(self._score, rows), key=lambda score: (-score.mean, score.row.fusion))

    def score(self, fusion: str) -> FusionScore:
        """Return the score of a fusion by its registry name."""
        return next(score for score in self.scores if score.row.fusion == fusion)

    def _score(self, row: Row) -> FusionScore:
        cells = [entry.results[0] for entry in row.entries.values()]
        shown = row.entries[Column(cells[0].model, self.query)].results[0].recalls
        mean = fmean(cell.recalls[1] for cell in cells)
        return FusionScore(row, shown[1], shown[5], mean, Effort.of(cells))

    @property
    def singles(self) -> dict[str, dict[str, float]]:
        """R@1 (%) by query, then by the one traversal that was searched."""
        rows = [row for row in self.table.rows if "traversal" in row.parameters]
        return {
            column.query: {
                row.label: value for row in self._in_order(rows) if (value := row.value(column)) is not None
            }
            for column in self.table.columns
        }

    def _in_order(self, rows: Sequence[Row]) -> list[Row]:
        return sorted(rows, key=lambda row: self.table.queries.index(row.label))

    @property
    def right(self) -> Flags:
        """Whether the map located each query correctly."""
        asked = self.blocks[self.query].questions
        return asked.correct(np.searchsorted(asked.place_ids, self.matches.places[:, :1]))[:, 0]

    @property
    def meaning(self) -> str:
        """What counts as correct."""
        return self.protocol.note or str(self.protocol.tolerance)

    @property
    def worst_sentence(self) -> str:
        """The condition on which DisPlace does worst, even if it loses there."""
        worst = self.finding.worst
        return (
            f"Compared with the best other fusion, DisPlace does worst on {worst.column.query}: {worst.value:.1f} "
            f"against {worst.rival_value:.1f} by {worst.rival}, {signed(worst.difference)} points "
            f"({verdict(worst.difference)})."
        )

    @property
    def by_descriptors(self) -> float:
        """R@1 (%) of the query's pictures by their descriptors alone, not compared with the places' pictures."""
        return self.score(DEFAULT).recall_1

    @property
    def tables(self) -> list[TextTable]:
        """Fusions, the drive, conditions, single traversals."""
        return [
            self._fusions_table(),
            self._drive_table(),
            self._conditions_table(),
            self._singles_table(),
        ]

    def _drive_table(self) -> TextTable:
        alone = f"{percent(self.right):.1f}"
        rows = [["each frame for itself", alone, "–", "–"]]
        for way, recall in self.drive.recalls.items():
            precision, found = self.drive.off_map[way]
            rows.append([way, f"{recall:.1f}", f"{precision:.2f}", f"{found:.2f}"])
        head = [f"{self.query} as a drive", "R@1", "off the map: precision", "off the map: recall"]
        return TextTable("a drive along the map, and along one without a fifth of its places", head, rows)

    def _fusions_table(self) -> TextTable:
        mean = f"mean R@1 of {len(self.table.columns)} conditions"
        rows = [
            [
                f"**{score.row.label}**" if score.row.fusion == DEFAULT else score.row.label,
                f"{score.recall_1:.1f}",
                f"{score.recall_5:.1f}",
                f"{score.mean:.1f}",
                f"{score.effort.seconds:.2f}",
                f"{score.effort.milliseconds:.3f}",
                f"{score.effort.n_bytes / 1e6:.1f}",
            ]
            for score in self.scores
        ]
        head = ["fusion", f"{self.query} R@1", f"{self.query} R@5", mean, "fit, s", "query, ms", "MB"]
        return TextTable("every fusion, R@1 and R@5 in percent", head, rows)

    def _conditions_table(self) -> TextTable:
        rows = [
            [
                duel.column.query,
                f"{duel.value:.1f}",
                f"{duel.rival_value:.1f} ({duel.rival})",
                signed(duel.difference),
            ]
            for duel in self.finding.wins.duels
        ]
        head = ["query", "DisPlace R@1", "best other fusion", "lead, points [95 %]"]
        over = resampled_text(duel.difference for duel in self.finding.wins.duels)
        return TextTable(f"each condition as the query, R@1; brackets: bootstrap of {over}", head, rows)

    def _singles_table(self) -> TextTable:
        names = self.table.queries
        rows = [
            [query, *(f"{found[name]:.1f}" if name in found else "–" for name in names)]
            for query, found in self.singles.items()
        ]
        return TextTable("plain matching in one single recording, R@1", ["query ↓, searched →", *names], rows)


def demo_markdown(demo: Demo) -> str:
    """Return the tables for the documentation. Recalls are the same on every machine; times are not."""
    fusions, drive, conditions, singles = map(_markdown, demo.tables)
    protocol = f"Protocol `{demo.protocol.name}` ({demo.meaning}), {len(demo.place_map.place_ids)} places"
    parts = [
        f"{protocol}; R@1 and R@5 in percent.",
        fusions,
        demo.worst_sentence,
        drive,
        conditions,
        "R@1 of plain matching in one single recording:",
        singles,
    ]
    return "\n\n".join(parts) + "\n"


def _markdown(table: TextTable) -> str:
    lines = [table.head, ["---"] + ["---:"] * (len(table.head) - 1), *table.rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
