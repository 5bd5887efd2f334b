"""Blocks: the rankings of all methods on one query traversal with one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import numpy as np

from displace.errors import InputError
from displace.evaluation.rankings import Questions, Ranking
from displace.evaluation.record import Result
from displace.evaluation.results import Results
from displace.evaluation.tables import Table
from displace.fusion import DEFAULT
from displace.truth import Flags


@dataclass(frozen=True, eq=False)
class Block:
    """All methods on the same queries and descriptors."""

    results: list[Result]
    """One for each method, in the order of the tables."""
    rankings: list[Ranking]
    """Of the same methods."""
    questions: Questions
    root: Path
    """Folder that the images' names start from."""

    @property
    def first(self) -> Result:
        """Any result of the block, for what all of them share."""
        return self.results[0]

    @property
    def title(self) -> str:
        """Data set, model and query."""
        return f"{self.first.dataset} · {self.first.model} · {self.first.query}"

    @property
    def labels(self) -> list[str]:
        """Names of the methods."""
        return [result.label for result in self.results]

    def ranking(self, label: str) -> Ranking:
        """Ranking of the method with this name."""
        return self.rankings[self.labels.index(label)]

    @property
    def hits(self) -> Flags:
        """Whether the best place of each method is right for each query, shape (methods, q)."""
        return np.stack([ranking.hits() for ranking in self.rankings])

    @property
    def own(self) -> int:
        """Index of the method that others are compared with: DisPlace's default, any DisPlace, or the best.

        One that takes each query for itself goes before those that take them as a drive or a batch.
        """
        return own_of(self.results)

    @property
    def rivals(self) -> list[int]:
        """The other methods that use several references and take the queries alike; without any, all others."""
        own = self.results[self.own]
        others = [at for at, result in enumerate(self.results) if result.fusion != own.fusion]
        several = [at for at in others if self.results[at].group != "single"]
        alike = [at for at in several if self.results[at].along == own.along]
        return alike or several or others


def own_of(results: Sequence[Result]) -> int:
    """Index of the method that others are compared with."""
    ranks = [(r.fusion != DEFAULT, bool(r.parameters), any(r.along), -r.recalls[1]) for r in results]
    return ranks.index(min(ranks))


def read_blocks(results: Results, tables: Sequence[Table]) -> list[Block]:
    """Read the rankings behind tables, one block for each column; tables of random projections are left out."""
    blocks = []
    for table in tables:
        for column in table.columns if table.projection is None else ():
            entries = [row.entries[column] for row in table.rows if column in row.entries]
            cells = [entry.results[0] for entry in entries if entry.value is not None]
            if cells:
                blocks.append(_block(results, cells))
    if not blocks:
        raise InputError(
            f"{results.folder} has no cell that could be computed; see: displace table {quote(str(results.folder))}"
        )
    return blocks


def _block(results: Results, cells: list[Result]) -> Block:
    latest = max(cells, key=lambda cell: cell.recency).questions
    same = [cell for cell in cells if cell.questions == latest]  # others belong to an earlier manifest
    questions = results.questions(same[0])
    return Block(same, [results.ranking(cell) for cell in same], questions, questions.root(results.folder))
