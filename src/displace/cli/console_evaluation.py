"""Output of evaluations: recalls on one's own data, tables, winners, the demonstration."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.table import Table as Grid
from rich.text import Text

from displace.cli.console import bare_table, err, out, say, show_text
from displace.evaluation.benchmark import Outcome
from displace.evaluation.published import compare
from displace.evaluation.record import NOTHING_TO_FUSE, Effort, Result
from displace.evaluation.table_formats import compared_texts
from displace.evaluation.tables import BOLD, NOT_RUN, UNDERLINE, Table, as_printed, beyond_frames, impossible
from displace.evaluation.wins import Wins
from displace.fusion.base import AS_GIVEN
from displace.report.demonstration import Demo, TextTable
from displace.report.html import Report
from displace.verbs.tabulate import Tabulated, as_text, tables_of

MEANING = "R@k: percent of the queries with a right place among the first k"
STYLES = {BOLD: "bold green", UNDERLINE: "underline"}


def show_evaluate(results: Sequence[Result], given: Mapping[str, Any]) -> None:
    """Print recalls, times and bytes, and where the results are."""
    out.print(evaluation_table(results))
    if given["output"] is not None:
        report = shlex.join(["displace", "report", str(given["output"])])
        say(f"results in {given['output']}: {report} makes a page of them")


def show_bench(outcome: Outcome, _: Mapping[str, Any]) -> None:
    """Print what was computed, and the tables of the suite."""
    show_outcome(outcome)
    for tabulated in tables_of(outcome.cells, outcome.results):
        out.print(results_table(tabulated))


def show_table(tables: Sequence[Tabulated], given: Mapping[str, Any]) -> None:
    """Print tables, or the file that they were written to."""
    if given["output"] is not None:
        show_text(given["output"], given)
    elif given["form"] == "terminal":
        out.print(*map(results_table, tables), sep="")
    elif given["form"] == "published" and out.is_terminal:
        out.print(*(published_view(tabulated.table) for tabulated in tables), sep="")
    else:
        out.out(as_text(tables, given["form"]), end="")


def show_report(done: Report, _: Mapping[str, Any]) -> None:
    """Print where the report is and what it contains."""
    studied = "1 study" if done.n_studies == 1 else f"{done.n_studies:,} studies"
    say(
        f"{done.path}: {decimal(done.n_bytes)}, {done.n_results:,} cells, {studied}, "
        f"{done.n_pictures:,} pictures ({decimal(done.picture_bytes)})",
    )


def show_demo(demo: Demo, _: Mapping[str, Any]) -> None:
    """Show what the map located, all fusions, the conditions and where the page is."""
    right = demo.right
    out.print(
        f"protocol {demo.protocol.name}: {demo.meaning}\n"
        f"{demo.map_file} ({decimal(demo.map_file.stat().st_size)}) locates {right.sum()} of {len(right)} "
        f"{demo.query} pictures ({demo.by_descriptors:.1f} % by their descriptors alone)\n",
        markup=False,
    )
    for table in demo.tables:
        out.print(text_grid(table))
    out.print(demo.worst_sentence)
    say(f"\nOpen {demo.page} in a browser to see it.", "bold")


def evaluation_table(results: Sequence[Result]) -> Group:
    """Recalls, times and bytes of each fusion, a table for each query traversal."""
    parts: list[RenderableType] = []
    for query, cells in groupby(results, key=lambda result: result.query):
        parts += _query_table(query, list(cells))
    parts += [Text(note, style="yellow") for note in impossible(results)]
    return Group(*parts, Text(MEANING, style="dim"))


def _query_table(query: str, cells: list[Result]) -> list[RenderableType]:
    first = cells[0]
    rule = f"{first.protocol}{beyond_frames(cells)}"
    head = Text(f"{query} located in {', '.join(first.references)}: {rule}", style="bold")
    grid = bare_table(None, ["fusion"], ("R@1", "R@5", "R@10", "fit", "a query", "bytes"))
    done = [cell for cell in cells if cell.ok]
    best = max((as_printed(cell.recalls[1]) for cell in done), default=0.0)
    for cell in done:
        effort = Effort.of([cell])
        grid.add_row(
            Text(cell.label),
            Text(f"{cell.recalls[1]:.1f}", style=STYLES[BOLD] if as_printed(cell.recalls[1]) == best else ""),
            *(f"{cell.recalls[k]:.1f}" for k in (5, 10)),
            f"{effort.seconds:.2f} s",
            f"{effort.milliseconds:.2f} ms",
            decimal(cell.n_bytes),
        )
    missed = (
        f"; {first.n_unanswerable:,} without a correct place count as misses" if first.n_unanswerable else ""
    )
    counts = Text(
        f"{first.tolerance}; {first.n_places:,} places, {first.n_references:,} references, "
        f"{first.n_queries:,} queries{missed}; {first.model}, {first.dim} dimensions",
        style="dim",
    )
    explained = [NOTHING_TO_FUSE] if first.nothing_to_fuse else _explanations(done)
    return [head, grid, counts, *(Text(line, style="dim") for line in explained), Text()]


def _explanations(cells: list[Result]) -> list[str]:
    """What each fusion decided, once: sequences and adaptation use the same fitted fusion."""
    labels: dict[tuple[str, str], str] = {}
    for cell in cells:
        if cell.explanation not in ("", AS_GIVEN):
            key = cell.fusion, cell.explanation
            labels[key] = min(labels.get(key, cell.label), cell.label, key=len)
    return [f"{label}: {explanation}" for (_, explanation), label in labels.items()]


def results_table(tabulated: Tabulated) -> Group:
    """One table as in the paper, a panel for each model where there are several queries."""
    table = tabulated.table
    parts: list[RenderableType] = [Text(table.title, style="bold")]
    parts += [_panel(names, panel) for names, panel in table.panels()]
    for wins in tabulated.wins:
        parts += [Text(str(wins)), *([_wins_table(wins)] if wins.measured else [])]
    parts += [Text(note, style="yellow") for note in table.notes]
    return Group(*parts, Text())


def _wins_table(wins: Wins) -> Grid:
    """The difference in each column, with its interval."""
    grid = bare_table(None, ("model", "query", "best other"), ["difference, 95 % interval"])
    for duel in wins.duels:
        style = "green" if duel.ahead else "red" if duel.behind else ""
        rival = f"{duel.rival} {duel.rival_value:.1f}"
        cells = (duel.column.model, duel.column.query, rival)
        grid.add_row(*map(Text, cells), Text(str(duel.difference or NOT_RUN), style=style))
    return grid


def published_view(table: Table) -> Group:
    """Measured and published number of each cell that the paper has, and their difference."""
    compared = compare(table)
    parts: list[RenderableType] = [Text(table.title, style="bold")]
    if compared.rows:
        names, numbers = ("model", "query", "method"), ("measured", "published", "difference")
        grid = bare_table(None, names, numbers)
        for row in compared.rows:
            grid.add_row(*map(Text, (row.column.model, row.column.query, row.label, *compared_texts(row))))
        parts.append(grid)
    return Group(*parts, *[Text(note) for note in compared.notes], Text())


def show_outcome(outcome: Outcome) -> None:
    """Print what a run computed, and what it could not."""
    reused = len(outcome.cells) - outcome.n_computed
    say(outcome.title, "bold", err)
    counts = f"{outcome.n_computed:,} cells computed, {reused:,} reused, in {outcome.seconds:,.1f} s"
    say(f"{counts}: {outcome.results.folder}", to=err)
    for model, path in outcome.absent.items():
        say(f"left out: {model}, as there is no descriptor store at {path}", "yellow", err)
    if outcome.impossible:
        say(
            f"not possible: {len(outcome.impossible):,} of them; the notes below the table say why",
            "yellow",
            err,
        )


def _panel(names: Sequence[str], panel: Table) -> Grid:
    grid = bare_table()
    grid.add_column(Text(names[0]), overflow="fold")
    for name in names[1:]:
        grid.add_column(Text(name), justify="right")
    for group, rows in panel.groups():
        grid.add_row(Text(group, style="dim italic"))
        for row in rows:
            cells = [Text(text, style=STYLES.get(mark, "")) for text, mark in panel.cells(row)]
            grid.add_row(Text(row.label), *cells)
    return grid


def text_grid(table: TextTable) -> Grid:
    """Return a table for the terminal; a row whose name is in bold stands out."""
    grid = bare_table(table.title)
    for number, name in enumerate(table.head):
        longest = max(map(len, name.split()), default=0)  # so that no word is cut
        grid.add_column(
            name,
            justify="right" if number else "left",
            no_wrap=not number,
            min_width=longest if number else None,
        )
    for first, *rest in table.rows:
        plain = first.strip("*")
        grid.add_row(plain, *rest, style="" if plain == first else "bold green")
    return grid
