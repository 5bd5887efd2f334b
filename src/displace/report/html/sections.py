"""Parts of the page in words and pictures: summary, overview, studies."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from itertools import groupby

from displace.evaluation.record import rule_text
from displace.evaluation.studies import Compression, Cost, Qualitative, Space, Study, kind_of
from displace.report.figures import draw, print_style
from displace.report.html.blocks import Block
from displace.report.html.findings import Finding, sentences, verdict
from displace.report.html.markup import heading, note
from displace.report.html.plots import Plot, plot_overview, plot_study

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
    "that the default decides on, open ones the paper's setting, neither. Dotted: the default τ.",
    "qualitative": "Solid frame and ✓: right; dashed frame and ✗: wrong. A place is shown by one of its references.",
    "space": "t-SNE of the places most like the query; each point is one reference. Distances in such a picture are "
    "not to scale: the cosines under it are the numbers that rank.",
    "cost": "One query at a time: median and quartiles of rounds in which the methods take turns. "
    "Stored as float32, the projection included.",
}


def lead(findings: Sequence[Finding], n_cells: int) -> str:
    """One sentence above everything."""
    duels = [duel for finding in findings for duel in finding.wins.duels]
    if not duels:
        return f"{n_cells:,} results."
    *others, last = dict.fromkeys(finding.table.dataset for finding in findings)
    datasets = escape(f"{', '.join(others)} and {last}" if others else last)
    own = escape(findings[0].label)
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


def summary(findings: Sequence[Finding]) -> str:
    """Describe in words which method wins where."""
    if not findings:
        return "<p>The results hold no two multi-reference methods that could be compared.</p>"
    parts = []
    for finding in findings:
        table = finding.table
        head = heading(table.dataset, f"{finding.model} · {rule_text(table.protocol, table.tolerance)}")
        parts.append(f'<div class="finding">{head}<p>{escape(" ".join(sentences(finding)))}</p></div>')
    return f'<div class="findings">{"".join(parts)}</div>'


def overview(blocks: Sequence[Block], plots: dict[str, Plot]) -> str:
    """Return a plot for each data set and model, and add it to `plots`."""

    def key(block: Block) -> tuple[str, str, str]:
        return block.first.dataset, block.first.protocol, block.first.model

    parts = []
    for number, ((dataset, protocol, model), group) in enumerate(groupby(blocks, key=key)):
        plots[f"overview{number}"] = plot_overview(list(group))
        parts.append(heading(dataset, f"{model} · {protocol}") + _plot(f"overview{number}"))
    return "".join(parts)


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
        parts += [heading(title), note(str(study.setting)), body, *map(note, notes)]
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
