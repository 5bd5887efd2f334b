"""Tables, built from results and nothing else."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from displace.errors import InputError
from displace.evaluation.methods import ALONE, GROUPS
from displace.evaluation.record import NOTHING_TO_FUSE, Result, grouped, of_last_runs, rule_text

BOLD, UNDERLINE = "bold", "underline"
NOT_RUN = "–"


@dataclass(frozen=True, order=True)
class Column:
    """A model and a query traversal."""

    model: str
    query: str


@dataclass(frozen=True)
class Entry:
    """One number of a table."""

    value: float | None
    """Recall in percent, the mean where there are several seeds; None where it was impossible."""
    deviation: float | None = None
    """Standard deviation over seeds, where there are several."""
    results: tuple[Result, ...] = ()
    """What it was taken from; none for published numbers."""
    k: int = 1
    """The N of Recall@N."""

    @property
    def text(self) -> str:
        """The number with one decimal."""
        if self.value is None:
            return "n/p"
        return f"{self.value:.1f}" + ("" if self.deviation is None else f" ± {self.deviation:.1f}")


@dataclass(frozen=True)
class Row:
    """A method with its entries; a column without one was not run."""

    label: str
    group: str
    fusion: str
    parameters: dict[str, Any]
    entries: dict[Column, Entry]

    @property
    def along(self) -> tuple[str, str]:
        """Sequence method and adaptation (`Result.along`); empty for published numbers, which use neither."""
        taken = [result.along for entry in self.entries.values() for result in entry.results]
        return taken[0] if taken else ("", "")

    def value(self, column: Column) -> float | None:
        """Recall in one column, where there is one."""
        entry = self.entries.get(column)
        return None if entry is None else entry.value


@dataclass(frozen=True)
class Table:
    """Methods by models and query traversals, of one data set under one protocol."""

    dataset: str
    protocol: str
    tolerance: str
    k: int
    """The N of Recall@N."""
    columns: list[Column]
    rows: list[Row]
    """In groups: single reference, score level, descriptor level."""
    projection: int | None = None
    """Dimension of the random projection of the descriptors."""
    notes: list[str] = field(default_factory=list)
    """What a reader must know: queries without an answer, cells that were impossible."""
    along: str = ""
    """Ways in which rows rank queries as a drive or a batch."""

    @property
    def rule(self) -> str:
        """What counts as right (`rule_text`)."""
        return rule_text(self.protocol, self.tolerance)

    @property
    def title(self) -> str:
        """What the numbers are, with the protocol."""
        projected = (
            ""
            if self.projection is None
            else f", randomly projected to {self.projection} dimensions before fusion"
        )
        return f"Recall@{self.k} on {self.dataset} ({self.rule}{self.along}){projected}"

    def __repr__(self) -> str:
        return f"<Table: {self.title}; {len(self.rows)} rows, {len(self.columns)} columns>"

    @property
    def models(self) -> list[str]:
        """Each model once."""
        return list(dict.fromkeys(column.model for column in self.columns))

    @property
    def queries(self) -> list[str]:
        """Each query traversal once."""
        return list(dict.fromkeys(column.query for column in self.columns))

    def row(self, label: str) -> Row:
        """Return the row of a method."""
        found = next((row for row in self.rows if row.label == label), None)
        if found is None:
            raise InputError(f"no row {label!r}; there are {', '.join(row.label for row in self.rows)}")
        return found

    def results(self) -> Iterator[Result]:
        """The cells that the numbers were taken from, row by row."""
        for row in self.rows:
            for column in self.columns:
                if column in row.entries:
                    yield from row.entries[column].results

    def panels(self) -> Iterator[tuple[list[str], Table]]:
        """Narrow parts, one for each model where there are several queries, each with the names of its columns."""
        if len(self.queries) == 1:
            yield ["method", *self.models], self
            return
        for model in self.models:
            columns = [column for column in self.columns if column.model == model]
            yield [model, *(column.query for column in columns)], replace(self, columns=columns)

    def groups(self) -> Iterator[tuple[str, list[Row]]]:
        """Each group's name and rows."""
        for group, rows in groupby(self.rows, key=lambda row: row.group):
            yield GROUPS[group], list(rows)

    def cells(self, row: Row) -> list[tuple[str, str]]:
        """Text of a row in each column, and how it is marked: `BOLD`, `UNDERLINE` or not ("")."""
        return [
            (row.entries[column].text, self.marks(column).get(row.label, ""))
            if column in row.entries
            else (NOT_RUN, "")
            for column in self.columns
        ]

    def marks(self, column: Column) -> dict[str, str]:
        """Labels of the rows that are bold or underlined in a column, as in the paper.

        With single references: the best of them underlined, the best of the others bold. Without: the best bold, the
        second underlined. Numbers that are printed alike are equal (`as_printed`).
        """
        values = {row.label: row.value(column) for row in self.rows}
        single = [row.label for row in self.rows if row.group == "single"]
        if single:
            others = [label for label in values if label not in single]
            return {
                **dict.fromkeys(_best(values, single), UNDERLINE),
                **dict.fromkeys(_best(values, others), BOLD),
            }
        best = _best(values, list(values))
        second = _best(values, [label for label in values if label not in best])
        return {**dict.fromkeys(best, BOLD), **dict.fromkeys(second, UNDERLINE)}


def build_tables(results: Iterable[Result], k: int = 1) -> list[Table]:
    """Make a table of Recall@k for each data set, protocol and random projection."""
    groups = grouped(
        results, lambda cell: (cell.dataset, cell.protocol, cell.tolerance, cell.projection or 0)
    )
    return [_table(groups[key], k) for key in sorted(groups)]


def as_printed(value: float) -> float:
    """Recall with the one decimal that is printed, on which marks and wins are decided, as the paper's are.

    >>> as_printed(90.96) == as_printed(91.04) == 91.0
    True
    """
    return round(value, 1)


def _table(cells: list[Result], k: int) -> Table:
    newest = sorted(of_last_runs(cells), key=lambda cell: (cell.order, cell.seed, cell.cell))
    first = newest[0]
    rows = grouped(newest, lambda cell: (cell.group, cell.label))
    group_order = list(GROUPS)
    keys = sorted(
        rows,
        key=lambda key: (group_order.index(key[0]), min(_run_and_order(c, 2) for c in rows[key]), key[1]),
    )
    return Table(
        first.dataset,
        first.protocol,
        first.tolerance,
        k,
        _columns(newest),
        [_row(rows[key], k) for key in keys],
        first.projection,
        _notes(newest, len(cells) - len(newest)),
        along=beyond_frames(newest),
    )


def _column(cell: Result) -> Column:
    return Column(cell.model, cell.query)


def _run_and_order(cell: Result, axis: int) -> tuple[int, int]:
    """Sort key of models, queries or methods: by the run that last had them, then by their order in the suite."""
    return cell.used, cell.order[axis]


def _columns(cells: list[Result]) -> list[Column]:
    """The columns, those of a model side by side whichever runs they are of."""
    models = {
        model: min(_run_and_order(cell, 0) for cell in own)
        for model, own in grouped(cells, lambda cell: cell.model).items()
    }
    queries = {
        column: min(_run_and_order(cell, 1) for cell in own)
        for column, own in grouped(cells, _column).items()
    }
    return sorted(queries, key=lambda column: (models[column.model], column.model, queries[column], column))


def beyond_frames(cells: list[Result]) -> str:
    """Addition to a title if some rows use sequences or adaptation."""
    parts = []
    for axis in ("sequence", "adapt"):
        named = dict.fromkeys(value for cell in cells if (value := getattr(cell, axis)) not in ("", "none"))
        if list(named) not in ([], [ALONE]):
            parts.append(f"; {axis}: {', '.join(name for name in named if name != ALONE)}")
    return "".join(parts)


def _row(cells: Sequence[Result], k: int) -> Row:
    first = cells[0]
    return Row(
        first.label,
        first.group,
        first.fusion,
        first.parameters,
        {column: _entry(found, k) for column, found in grouped(cells, _column).items()},
    )


def _entry(cells: list[Result], k: int) -> Entry:
    done = [cell for cell in cells if cell.ok]
    for cell in done:
        if k not in cell.recalls:
            raise InputError(f"k={k} is none of {', '.join(map(str, cell.recalls))}, which {cell.name} has")
    values = [cell.recalls[k] for cell in done]
    if not values:
        return Entry(None, None, tuple(cells), k)
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Entry(statistics.fmean(values), deviation, tuple(done), k)


def impossible(cells: Iterable[Result]) -> list[str]:
    """Which methods were not possible, on what and why; methods that share both are named together."""
    failed = grouped((cell for cell in cells if not cell.ok), lambda cell: (cell.label, cell.error))
    labels: dict[tuple[str, str], list[str]] = {}
    for (label, why), own in failed.items():
        on = ", ".join(f"{cell.model} {cell.query}" for cell in own)
        labels.setdefault((on, why), []).append(label)
    return [
        f"{'; '.join(names)} {'was' if len(names) == 1 else 'were'} not possible on {on}: {why}"
        for (on, why), names in labels.items()
    ]


def _notes(cells: list[Result], n_older: int) -> list[str]:
    notes = []
    unanswerable = {(c.query, c.n_unanswerable, c.n_queries) for c in cells if c.n_unanswerable}
    notes += [
        f"{query}: {n:,} of {total:,} queries have no correct place in the map and count as misses"
        for query, n, total in sorted(unanswerable)
    ]
    alone = sorted({cell.query for cell in cells if cell.nothing_to_fuse})
    notes += [f"{query}: {NOTHING_TO_FUSE}" for query in alone]
    notes += [f"n/p: {note}" for note in impossible(cells)]
    if n_older:
        notes.append(
            f"{n_older:,} cells of earlier settings or descriptors under the same names are left out"
        )
    return notes


def _best(values: dict[str, float | None], labels: Sequence[str]) -> list[str]:
    """All labels with the highest value."""
    known = {label: as_printed(value) for label in labels if (value := values[label]) is not None}
    return [label for label, value in known.items() if value == max(known.values())]
