"""The report: one HTML file that needs nothing else, from a results folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from displace.errors import InputError
from displace.evaluation.record import Result
from displace.evaluation.results import Results
from displace.evaluation.studies.compression import compressions_of
from displace.evaluation.studies.study_files import Study, studies_beside, topic_of
from displace.evaluation.tables import build_tables
from displace.files.atomic import write_whole
from displace.files.reading import PathLike
from displace.progress import Progress
from displace.report.html import sections
from displace.report.html.blocks import Block, read_blocks
from displace.report.html.environment import environment_html
from displace.report.html.explorer import Album, collect, explorer_data
from displace.report.html.findings import find
from displace.report.html.markup import n_of, own_file
from displace.report.html.plots import Plot


@dataclass(frozen=True)
class Report:
    """What was written."""

    path: Path
    n_bytes: int
    picture_bytes: int
    """Of the whole page, and of its pictures."""
    n_pictures: int
    n_results: int
    n_studies: int
    """Cells and studies that it shows."""


def write_report(
    results: Results,
    output: PathLike,
    *,
    title: str | None = None,
    picture_bytes: int = 15_000_000,
    studies: Sequence[Study] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Write the report of a results folder: summary, tables, studies, every query, and how to repeat it.

    The title is by default the names of the data sets; `picture_bytes` is the budget of the explorer's pictures, 0 for
    none; `studies` are by default those of the folder (`shown_studies`).
    """
    if picture_bytes < 0:
        raise InputError(f"picture_bytes={picture_bytes} must be at least 0")
    cells = list(results)
    tables = build_tables(cells)
    blocks = read_blocks(results, tables)
    studies = shown_studies(results) if studies is None else studies
    album = collect(blocks, picture_bytes, progress)
    plots: dict[str, Plot] = {}
    findings = find(tables, blocks, results)
    parts = {
        "title": escape(title or ", ".join(dict.fromkeys(table.dataset for table in tables))),
        "lead": sections.lead(findings, len(cells)),
        "facts": escape(_facts(blocks, cells)),
        "summary": sections.summary(findings),
        "overview": sections.overview(blocks, plots),
        "tables": "".join(map(sections.recalls_html, tables)),
        "duels": sections.duels_html(findings),
        "published": sections.published_html(tables),
        "effort": sections.effort_html(blocks),
        "studies": sections.studies_html(studies, plots),
        "study_link": '<a href="#studies">Studies</a>' if studies else "",
        "pictures": escape(_pictures(album, blocks)),
        "environment": environment_html(cells, results.folder),
        "explorer": _json(explorer_data(blocks, album)),
        "thumbs": "\n".join(album.pictures),
        "plots": _json(plots),
        **_scripts(),
    }
    path = Path(output)
    write_whole(path, Template(own_file("page.html")).substitute(parts))
    return Report(path, path.stat().st_size, album.n_bytes, len(album.pictures), len(cells), len(studies))


def shown_studies(results: Results) -> list[Study]:
    """Studies that were run, and studies of random projections in the suites unless these were run, too."""
    kept = studies_beside(results.folder, results)
    known = {topic_of(study) for study in kept}
    return [*(study for study in compressions_of(results) if topic_of(study) not in known), *kept]


def _scripts() -> dict[str, str]:
    """Style and scripts; plotly's from the installed package, once."""
    from plotly.offline import get_plotlyjs

    return {
        "css": own_file("report.css"),
        "explorer_js": own_file("explorer.js"),
        "plots_js": own_file("plots.js"),
        "plotly_js": get_plotlyjs(),
    }


def _json(record: Any) -> str:
    """JSON that cannot end the script element around it."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _facts(blocks: Sequence[Block], cells: Sequence[Result]) -> str:
    asked = {(block.first.dataset, block.first.query): len(block.questions) for block in blocks}
    impossible = sum(not cell.ok for cell in cells)
    models = dict.fromkeys(block.first.model for block in blocks)
    protocols = dict.fromkeys(block.first.rule for block in blocks)
    return (
        f"{n_of(len(cells), 'cell')}, {sum(asked.values()):,} queries asked of each method"
        + (" with each model" if len(models) > 1 else "")
        + f"; models: {', '.join(models)}; "
        f"protocols: {', '.join(protocols)}"
        + (f"; cells not possible, named below the tables: {impossible:,}" if impossible else "")
        + "."
    )


def _pictures(album: Album, blocks: Sequence[Block]) -> str:
    """Describe which pictures the page has."""
    queries = sum(len(block.questions) for block in blocks)
    if not album.pictures:
        return (
            "No pictures are embedded"
            + ("" if album.budget == 0 else ": the image files were not found")
            + "."
        )
    size = f"{album.n_bytes / 1e6:.1f} MB of at most {album.budget / 1e6:.1f} MB"
    return (
        f"{len(album.pictures):,} pictures are embedded, {size}; {album.n_queries:,} of {queries:,} queries (▣) have "
        "all of theirs. Where not all fit, queries on which the methods differ come first, spread evenly over each "
        "traversal."
    )
