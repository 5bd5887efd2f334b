"""Who wins: counted as the paper counts, on printed numbers, with intervals where there are rankings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from displace.bootstrap import Estimate, paired_bootstrap, resampled_text
from displace.errors import InputError
from displace.evaluation.results import Results
from displace.evaluation.tables import Column, Row, Table, as_printed
from displace.fusion import DEFAULT, FUSIONS


@dataclass(frozen=True)
class Duel:
    """A method against the best of its rivals in one column."""

    column: Column
    value: float
    """Recall of the method (%)."""
    rival: str
    """Label of the best rival."""
    rival_value: float
    difference: Estimate | None = None
    """Points between them, paired over queries; None for published numbers."""

    @property
    def won(self) -> bool:
        """Whether the method is strictly better, as the two are printed."""
        return as_printed(self.value) > as_printed(self.rival_value)

    @property
    def level(self) -> bool:
        """Whether the two are printed alike."""
        return as_printed(self.value) == as_printed(self.rival_value)

    @property
    def ahead(self) -> bool:
        """Whether the interval of the difference is above zero."""
        return self.difference is not None and self.difference.low > 0

    @property
    def behind(self) -> bool:
        """Whether the interval of the difference is below zero."""
        return self.difference is not None and self.difference.high < 0


@dataclass(frozen=True)
class Wins:
    """How often a method is better than all of its rivals."""

    label: str
    rivals: str
    """Who they are, in words."""
    duels: list[Duel]

    @property
    def measured(self) -> bool:
        """Whether there are intervals."""
        return any(duel.difference for duel in self.duels)

    @property
    def n_won(self) -> int:
        """Columns in which it is strictly better than every rival."""
        return sum(duel.won for duel in self.duels)

    def __str__(self) -> str:
        text = (
            f"{self.label} wins {self.n_won} of {len(self.duels)} against {self.rivals}, compared as printed"
        )
        if self.measured:
            ahead, behind = (sum(getattr(duel, side) for duel in self.duels) for side in ("ahead", "behind"))
            over = resampled_text(duel.difference for duel in self.duels)
            text += f"; beyond its 95 % interval (bootstrap of {over}): {ahead} ahead, {behind} behind"
        return text


def count_wins(table: Table, label: str, results: Results | None = None, *, single: bool = False) -> Wins:
    """Count the columns in which a method is strictly better than the best of its rivals.

    Rivals are the multi-reference methods of other fusions with the same sequence method and adaptation; with `single`
    they are the single references. The rankings in `results` give paired bootstrap intervals of the differences.
    """
    own = table.row(label)
    rivals = _rivals(table, own, single)
    if not rivals:
        raise InputError(f"label={label!r} has no rivals in the table")
    duels = [duel for column in table.columns if (duel := _duel(own, rivals, column, results))]
    return Wins(label, _rivals_text(rivals, single), duels)


def all_wins(table: Table, results: Results | None = None) -> list[Wins]:
    """Count for every row of DisPlace or of a fusion from elsewhere: against several references, and single ones."""
    counted = [
        count_wins(table, row.label, results, single=single)
        for row in table.rows
        if row.group != "single" and (row.fusion == DEFAULT or not FUSIONS.ships(row.fusion))
        for single in (False, True)
        if _rivals(table, row, single)
    ]
    return [wins for wins in counted if wins.duels]


def _rivals_text(rivals: list[Row], single: bool) -> str:
    """Who the rivals are. One single reference was chosen before the evaluation: it need not be the best."""
    if not single:
        return "the best multi-reference method"
    return "the best single reference" if len(rivals) > 1 else "the single reference"


def _rivals(table: Table, own: Row, single: bool) -> list[Row]:
    return [
        row
        for row in table.rows
        if (row.group == "single") == single and row.fusion != own.fusion and row.along == own.along
    ]


def _duel(own: Row, rivals: list[Row], column: Column, results: Results | None) -> Duel | None:
    value = own.value(column)
    known = [(found, row) for row in rivals if (found := row.value(column)) is not None]
    if value is None or not known:
        return None
    # Of equal rivals the first counts, as rows are listed.
    best, rival = max(known, key=lambda pair: pair[0])
    difference = None if results is None else _difference(own, rival, column, results)
    return Duel(column, value, rival.label, best, difference)


def _difference(own: Row, rival: Row, column: Column, results: Results) -> Estimate | None:
    """Paired difference over the queries, mean of the seeds; None where the two were not asked the same."""
    mine, other = (
        {(result.seed, result.questions): result for result in row.entries[column].results}
        for row in (own, rival)
    )
    if not mine or mine.keys() != other.keys():
        return None
    k = own.entries[column].k
    first, second = (
        np.mean([results.ranking(result).hits(k) for result in side.values()], axis=0)
        for side in (mine, other)
    )
    asked = results.questions(next(iter(mine.values())))
    return paired_bootstrap(first, second, order=asked.order)
