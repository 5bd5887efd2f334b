"""Measured beside published numbers."""

from __future__ import annotations

from dataclasses import dataclass

from displace.datasets import DATASETS
from displace.datasets.base import Counts
from displace.evaluation.paper import DIMS, PARAMETERS, PROTOCOLS, SOURCE, published_recall
from displace.evaluation.tables import Column, Row, Table
from displace.fusion import get_fusion


@dataclass(frozen=True)
class Compared:
    """One cell that was measured and published."""

    column: Column
    label: str
    """The method."""
    measured: float | None
    """Recall@1 (%); None where it was impossible."""
    published: float

    @property
    def difference(self) -> float | None:
        """Measured minus published, in points."""
        return None if self.measured is None else self.measured - self.published


@dataclass(frozen=True)
class Comparison:
    """All such cells of a table."""

    rows: list[Compared]
    """Empty where nothing is comparable; `notes` say why."""
    notes: list[str]


def compare(table: Table) -> Comparison:
    """Put the published Recall@1 beside the measured.

    Only numbers under the same protocol, of the same method with the same parameters, are comparable. A suite's own
    protocol may have a published one's name: what it counts as right must be the same, too.
    """
    if why := _not_comparable(table):
        return Comparison([], [why])
    rows, others = [], {}
    for column in table.columns:
        for row in (row for row in table.rows if column in row.entries):
            where = table.dataset, column.model, column.query, row.fusion, row.parameters.get("traversal")
            value = published_recall(*where)
            if value is None:
                continue
            if why := _other_settings(row):
                others[row.label] = why
            else:
                rows.append(Compared(column, row.label, row.value(column), value))
    return Comparison(
        rows,
        [
            f"protocol {table.protocol}; published: {SOURCE}",
            *others.values(),
            *_other_sizes(table),
            *_other_dims(rows, table),
        ],
    )


def _not_comparable(table: Table) -> str:
    """Say why nothing published can stand beside a table; nothing where it can."""
    expected = PROTOCOLS.get(table.dataset)
    if expected is None:
        return f"nothing is published for the data set {table.dataset}"
    if table.protocol != expected:
        return f"published numbers are under {expected}, these under {table.protocol}: not comparable"
    tolerance = str(DATASETS.get(table.dataset)().protocol(expected).tolerance)
    if table.tolerance != tolerance:
        return f"published numbers are under {expected} with {tolerance}, these with {table.tolerance}: not comparable"
    if table.k != 1:
        return f"published numbers are Recall@1, these Recall@{table.k}"
    return "published numbers are without random projection" if table.projection is not None else ""


def _other_settings(row: Row) -> str:
    """Say which settings of a method are not the paper's; nothing where they are."""
    if any(row.along):
        return f"{row.label} is not put beside the published numbers, which take each query for itself"
    usual = get_fusion(row.fusion)().get_params()
    ours, paper = usual | row.parameters, usual | PARAMETERS.get(row.fusion, {})
    differ = [name for name in paper if name not in ("traversal", "solver") and ours[name] != paper[name]]
    if not differ:
        return ""
    settings = ", ".join(f"{name}={ours[name]!r} (paper: {paper[name]!r})" for name in differ)
    return f"{row.label} is not put beside the published numbers, as its settings are others: {settings}"


def _other_sizes(table: Table) -> list[str]:
    """Say which queries do not have the data set's own number of places, references and queries."""
    expected = DATASETS.get(table.dataset)().protocol(table.protocol).expected
    found = {
        result.query: Counts(result.n_places, result.n_references, result.n_queries)
        for result in table.results()
    }
    return [
        f"{query} is not the whole data set: {counts}; published with {expected}"
        for query, counts in found.items()
        if expected is not None and counts != expected
    ]


def _other_dims(rows: list[Compared], table: Table) -> list[str]:
    """Say which models do not have the paper's number of dimensions."""
    compared = {compared.column for compared in rows}
    found = {
        result.model: result.dim
        for result in table.results()
        if Column(result.model, result.query) in compared
    }
    return [
        f"{model} has {dim} dimensions here; published with {DIMS[model]}"
        for model, dim in found.items()
        if dim != DIMS[model]
    ]
