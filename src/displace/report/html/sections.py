"""Sections of the page: summary, overview, tables, studies."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from itertools import groupby

from displace.bootstrap import resampled_text
from displace.evaluation.published import compare
from displace.evaluation.record import Effort, Result, grouped
from displace.evaluation.studies.compression import Compression
from displace.evaluation.studies.cost import Cost
from displace.evaluation.studies.qualitative import Qualitative
from displace.evaluation.studies.space import Space
from displace.evaluation.studies.study_files import Study, about, kind_of
from displace.evaluation.table_formats import compared_texts
from displace.evaluation.tables import BOLD, UNDERLINE, Table
from displace.report.figures import draw, print_style, same_curves
from displace.report.html.blocks import Block
from displace.report.html.findings import Finding, sentences, signed, verdict
from displace.report.html.markup import cells, folded, heading, html_table, method_row, note, told_apart
from displace.report.html.plots import Plot, plot_overview, plot_study

_TAGS = {BOLD: "b", UNDERLINE: "u"}
TITLES = {
    "compression": "Fewer dimensions",
    "tau": "How much to keep: τ",
    "qualitative": "Single queries on which the methods differ",
    "space": "What the projection does to one query",
    "cost": "What a query costs",
}
EXPLAINED = {
    "compression": "Both sides were multiplied by the same Gaussian random matrix: references and queries before "
    "fusion, or fused places and transformed queries after it, as the title says. Bars: ± 1 standard deviation over "
    "the matrices; thin lines: not projected.",
    "tau": "DisPlace keeps the leading eigenvectors that make up the share τ of the eigenvalues' sum. All of them were "
    "computed once for each query traversal and setting, and cut at each τ: filled markers have the ridge and centring "
    "that the default decides on, open ones the paper's setting, neither. Dotted: the default τ; thin lines: HOPS, no "
    "projection.",
    "qualitative": "Solid frame and ✓: right; dashed frame and ✗: wrong. A place is shown by one of its references.",
    "space": "t-SNE of the places most like the query; each point is one reference. Distances in such a picture are "
    "not to scale: the cosines under it are the numbers that rank.",
    "cost": "One query at a time: median and quartiles of rounds in which the methods take turns. "
    "Stored as float32, the projection included.",
}


def lead(findings: Sequence[Finding], n_cells: int) -> str:
    """The sentence at the top of the page: how often the method wins."""
    duels = [duel for finding in findings for duel in finding.wins.duels]
    if not duels:
        return f"{n_cells:,} results."
    *others, last = dict.fromkeys(finding.table.dataset for finding in findings)
    datasets = escape(f"{', '.join(others)} and {last}" if others else last)
    own = escape(" or ".join(_compared(findings)))
    if len(duels) == 1:
        duel = duels[0]
        return (
            f"On {datasets}, query {escape(duel.column.query)}, {own} finds <b>{duel.value:.1f} %</b>, the best other "
            f"method, {escape(duel.rival)}, {duel.rival_value:.1f} %: {own} is {verdict(duel.difference)}."
        )
    won = sum(duel.won for duel in duels)
    sure = sum(duel.won and duel.ahead for duel in duels)
    lost = sum(duel.behind for duel in duels)
    level = sum(duel.level for duel in duels)
    also = f" and level with the best other in {level}" if level else ""
    return (
        f"On {datasets}, {own} is the best multi-reference method in <b>{won} of {len(duels)}</b> comparisons{also}. "
        f"Beyond chance, {own} is ahead in {sure} and behind in {lost} of them."
    )


def _compared(findings: Sequence[Finding]) -> list[str]:
    """Methods that others are compared with: one, unless the tables have it under several names."""
    return list(dict.fromkeys(finding.label for finding in findings))


def summary(findings: Sequence[Finding]) -> str:
    """Describe in words which method wins where."""
    if not findings:
        return "<p>The results hold no two multi-reference methods that could be compared.</p>"
    parts = []
    for finding in findings:
        table = finding.table
        head = heading(table.dataset, f"{finding.model} · {table.rule}")
        parts.append(f'<div class="finding">{head}<p>{escape(" ".join(sentences(finding)))}</p></div>')
    return f'<div class="findings">{"".join(parts)}</div>'


def overview(blocks: Sequence[Block], plots: dict[str, Plot]) -> str:
    """Return a plot for each data set and model, and add it to `plots`."""

    def key(block: Block) -> tuple[str, str, str]:
        return block.first.dataset, block.first.rule, block.first.model

    parts = []
    for number, ((dataset, rule, model), group) in enumerate(groupby(blocks, key=key)):
        plots[f"overview{number}"] = plot_overview(list(group))
        parts.append(heading(dataset, f"{model} · {rule}") + _plot(f"overview{number}"))
    return "".join(parts)


def recalls_html(table: Table) -> str:
    """One table with the marks of the paper, in panels if it is wide; folded for random projections."""
    parts = []
    for names, panel in table.panels():
        rows = []
        for group, members in panel.groups():
            rows.append(f'<tr class="group"><th colspan="{len(names)}">{escape(group)}</th></tr>')
            for row in members:
                found = "".join(_cell(text, _TAGS.get(mark)) for text, mark in panel.cells(row))
                rows.append(method_row(row.label, row.fusion, not row.parameters, found))
        parts.append(html_table("recalls", names, rows))
    body = "".join([*parts, *map(note, table.notes)])
    return heading(table.title) + body if table.projection is None else folded(table.title, body)


def _cell(text: str, tag: str | None) -> str:
    return f"<td>{f'<{tag}>{escape(text)}</{tag}>' if tag else escape(text)}</td>"


def duels_html(findings: Sequence[Finding]) -> str:
    """For every query traversal: the method, the best other one, and their difference."""
    if not findings:
        return ""
    duels = [(finding, duel) for finding in findings for duel in finding.wins.duels]
    names = told_apart(
        [
            (f"{finding.table.dataset} · {duel.column.model} · {duel.column.query}", finding.table.rule)
            for finding, duel in duels
        ]
    )
    several = len(compared := _compared(findings)) > 1
    rows = [
        f"<tr><th>{escape(name)}</th>"
        f"<td>{duel.value:.1f}{f' <small>{escape(finding.label)}</small>' if several else ''}</td>"
        f"<td>{duel.rival_value:.1f} <small>{escape(duel.rival)}</small></td>"
        f"{cells(signed(duel.difference), verdict(duel.difference))}</tr>"
        for name, (finding, duel) in zip(names, duels, strict=True)
    ]
    over = resampled_text(duel.difference for _, duel in duels)
    own, it = ("method", "it") if several else (compared[0], compared[0])
    head = ["query", own, "best other", "difference, points [95 %]", f"{it} is"]
    return (
        heading(f"{' or '.join(compared)} against the best other multi-reference method, query by query")
        + html_table("duels", head, rows)
        + note(f"Intervals: paired bootstrap of {over}.")
    )


def published_html(tables: Sequence[Table]) -> str:
    """Measured beside published numbers, if there are any for the same protocol."""
    parts = []
    for table in tables:
        found = compare(table)
        if found.rows:
            head = ["cell", "measured", "published", "difference"]
            rows = [
                f"<tr><th>{escape(f'{row.column.model} · {row.column.query} · {row.label}')}</th>"
                f"{cells(*(text.replace('-', '−') for text in compared_texts(row)))}</tr>"
                for row in found.rows
            ]
            body = html_table("recalls", head, rows) + "".join(map(note, found.notes))
            parts.append(folded(f"{table.title}: {len(found.rows)} measured beside published numbers", body))
    return "".join(parts)


def effort_html(blocks: Sequence[Block]) -> str:
    """Dimensions, bytes and times of each multi-reference method, for each data set and model."""
    several = (result for block in blocks for result in block.results if result.group != "single")
    parts = []
    for (dataset, model), results in grouped(several, lambda result: (result.dataset, result.model)).items():
        head = ["method", "dimensions", "stored, MB", "fit, s", "one of many queries, ms"]
        rows = [_effort_row(*of_one) for of_one in grouped(results, lambda result: result.label).items()]
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


def studies_html(studies: Sequence[Study], plots: dict[str, Plot]) -> str:
    """Return the section of the studies, and add its plots to `plots`; empty without studies."""
    if not studies:
        return ""
    parts = ['<section id="studies"><h2>Studies</h2>']
    for number, study in enumerate(studies):
        kind, plot = kind_of(study), plot_study(study)
        if plot is not None:
            plots[f"study{number}"] = plot
        body = _picture(study) if plot is None else _plot(f"study{number}")
        notes = [EXPLAINED[kind], *_details(study)]
        title = f"{TITLES[kind]}, {study.where}" if isinstance(study, Compression) else TITLES[kind]
        parts += [heading(title), note(about(study)), body, *map(note, notes)]
    return "".join([*parts, "</section>"])


def _details(study: Study) -> list[str]:
    """Further notes on a study."""
    if isinstance(study, Space):
        return [f"Query {study.row}: {study.reason}.", *study.notes]
    if isinstance(study, Qualitative):
        chosen = f"Chosen from {study.n_differing:,} queries on which the methods differ: {study.rule}."
        return [chosen, *study.notes]
    if isinstance(study, Cost):
        bars = f"Vertical bars: 95 % bootstrap of {study.resampled}."
        return [f"Measured on {study.measured}. {bars}", *study.notes]
    if isinstance(study, Compression):
        return [
            *(f"{alike[0].upper()}{alike[1:]}".rstrip(".") + "." for alike in same_curves(study)),
            *study.notes,
        ]
    return study.notes


def _plot(name: str) -> str:
    return f'<div class="card"><div class="plot" data-plot="{name}"></div></div>'


def _picture(study: Study) -> str:
    """Return a figure as an embedded picture."""
    file = io.BytesIO()
    with print_style():
        draw(study).savefig(file, format="jpeg", dpi=130, pil_kwargs={"quality": 80})
    encoded = base64.b64encode(file.getvalue()).decode("ascii")
    source = f"data:image/jpeg;base64,{encoded}"
    return (
        f'<div class="card scroll"><img class="figure" alt="Query, truth and matches" src="{source}"></div>'
    )
