"""The tables of the page: recalls, differences, published numbers, size and time."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from displace.bootstrap import resampled_text
from displace.evaluation.effort import Effort
from displace.evaluation.methods import GROUPS
from displace.evaluation.published import compare
from displace.evaluation.results import Result
from displace.evaluation.table_formats import compared_texts
from displace.evaluation.tables import BOLD, UNDERLINE, Column, Row, Table
from displace.report.html.blocks import Block
from displace.report.html.findings import Finding, signed, verdict
from displace.report.html.markup import cells, folded, heading, html_table, method_row, note

_TAGS = {BOLD: "b", UNDERLINE: "u"}


def recalls_html(table: Table) -> str:
    """One table with the marks of the paper, in panels where it is wide; folded where it is of random projections."""
    parts = []
    for title, panel in table.panels():
        names = [column.query if title else column.model for column in panel.columns]
        rows = []
        for group, members in groupby(panel.rows, key=lambda row: row.group):
            rows.append(f'<tr class="group"><th colspan="{1 + len(names)}">{escape(GROUPS[group])}</th></tr>')
            for row in members:
                found = "".join(_cell(panel, row, column) for column in panel.columns)
                rows.append(method_row(row.label, row.fusion, not row.parameters, found))
        parts.append(html_table("recalls", [title or "method", *names], rows))
    body = "".join([*parts, *map(note, table.notes)])
    return heading(table.title) + body if table.projection is None else folded(table.title, body)


def _cell(table: Table, row: Row, column: Column) -> str:
    entry = row.entries.get(column)
    if entry is None:
        return "<td>–</td>"
    tag = _TAGS.get(table.marks(column).get(row.label, ""))
    text = escape(entry.text)
    return f"<td>{f'<{tag}>{text}</{tag}>' if tag else text}</td>"


def duels_html(findings: Sequence[Finding]) -> str:
    """For every query traversal: the method, the best other one, and their difference."""
    if not findings:
        return ""
    rows = [
        f"<tr><th>{escape(f'{finding.table.dataset} · {duel.column.model} · {duel.column.query}')}</th>"
        f"<td>{duel.value:.1f}</td><td>{duel.rival_value:.1f} <small>{escape(duel.rival)}</small></td>"
        f"{cells(signed(duel.difference), verdict(duel.difference))}</tr>"
        for finding in findings
        for duel in finding.wins.duels
    ]
    over = resampled_text(duel.difference for finding in findings for duel in finding.wins.duels)
    own = findings[0].label
    head = ["query", own, "best other", "difference, points [95 %]", f"{own} is"]
    return (
        heading(f"{own} against the best other multi-reference method, query by query")
        + html_table("duels", head, rows)
        + note(f"Intervals: paired bootstrap of {over}.")
    )


def published_html(tables: Sequence[Table]) -> str:
    """Measured beside published numbers, if there are any for the same protocol."""
    parts = []
    for table in tables:
        found = compare(table)
        if found.rows:
            head = ["cell", "method", "measured", "published", "difference"]
            rows = [
                f"<tr><th>{escape(f'{row.column.model} · {row.column.query}')}</th>"
                f"{cells(row.label, *compared_texts(row))}</tr>"
                for row in found.rows
            ]
            body = html_table("recalls", head, rows) + "".join(map(note, found.notes))
            parts.append(folded(f"{table.title}: {len(found.rows)} measured beside published numbers", body))
    return "".join(parts)


def effort_html(blocks: Sequence[Block]) -> str:
    """Dimensions, bytes and times of each multi-reference method, for each data set and model."""

    def key(block: Block) -> tuple[str, str]:
        return block.first.dataset, block.first.model

    parts = []
    for (dataset, model), group in groupby(blocks, key=key):
        found: dict[str, list[Result]] = {}
        for result in (result for block in group for result in block.results if result.group != "single"):
            found.setdefault(result.label, []).append(result)
        head = ["method", "dimensions", "stored, MB", "fit, s", "one of many queries, ms"]
        rows = [_effort_row(label, results) for label, results in found.items()]
        parts.append(heading(dataset, model) + html_table("recalls", head, rows))
    return "".join(parts)


def _effort_row(label: str, results: Sequence[Result]) -> str:
    first, effort = results[0], Effort.of(results)
    numbers = cells(
        f"{effort.dims:,.0f}",
        f"{effort.n_bytes / 1e6:,.2f}",
        f"{effort.seconds:,.2f}",
        f"{effort.milliseconds:,.3f}",
    )
    return method_row(label, first.fusion, not first.parameters, numbers)
