"""The verbs that evaluate: evaluate, bench, table."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from displace import pipeline
from displace.cli import console, console_evaluation
from displace.cli.app import app
from displace.cli.console import err, out
from displace.evaluation.suites import shipped_for
from displace.evaluation.table_formats import FORMATS, wins_to_markdown
from displace.files.atomic import atomic_write

Threads = Annotated[
    int | None, typer.Option(help="Cores to use; times of 1 are steadiest.", show_default="all", min=1)
]


class Format(StrEnum):
    """How tables are shown."""

    terminal = "terminal"
    markdown = "markdown"
    csv = "csv"
    latex = "latex"
    published = "published"


@app.command()
def evaluate(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A folder made by displace extract.")],
    queries: Annotated[
        list[str] | None,
        typer.Option(
            "--query", help="Traversal to locate in all others (repeat).", show_default="each in turn"
        ),
    ] = None,
    fusion: Annotated[str, typer.Option(help="Names with commas between, or all.")] = "all",
    tolerance: Annotated[
        str | None, typer.Option(help="What is correct: exact, '5 frames' or 25m.", show_default="exact")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="A known data set's protocol instead, such as robotcar-5.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Results folder to keep the rankings in, for table and report."),
    ] = None,
    threads: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare fusions on one's own data: Recall@1, 5, 10, time and bytes.

    The traversal --query is located in a map of all other traversals. Fusions of
    other packages take part by their entry points.

    [bold]Examples[/]

    displace evaluate route.desc --query night
    displace evaluate route.desc --query night --fusion displace,hops --tolerance 25m
    displace evaluate robotcar.desc --protocol robotcar-5 -o results
    displace evaluate route.desc --json
    """
    with console.bars(err) as bars:
        results = pipeline.evaluate(
            store,
            queries=queries,
            fusion=fusion,
            tolerance=tolerance,
            protocol=protocol,
            output=output,
            threads=threads,
            progress=bars.stage,
        )
    if as_json:
        console.show_json(out, console_evaluation.records(results))
    else:
        out.print(console_evaluation.evaluation_table(results))


@app.command()
def bench(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help="A TOML file, or nordland, robotcar, pittsburgh30k, gldv2_micro, town or sped400.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Results folder.")] = Path("results"),
    stores: Annotated[
        list[str] | None,
        typer.Option("--store", metavar="MODEL=PATH", help="Where a model's descriptors are (repeat)."),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(help="Folder of the suite's descriptor stores.", show_default="the suite file's"),
    ] = None,
    threads: Threads = None,
) -> None:
    """Compute the tables of a suite: data set, models, fusions, queries.

    Each cell is kept as soon as it is computed. Stopped at any moment and run
    again, it goes on; only what is missing is computed.

    [bold]Examples[/]

    displace bench suites/robotcar.toml -o results/
    displace bench robotcar --root descriptors -o results
    displace bench nordland --store cosplace=nordland.desc
    displace bench my_suite.toml -o results
    """
    shipped = shipped_for(suite)
    if shipped is not None and shipped != suite:
        instead = f"there is no file {suite}: the suite {shipped} that comes with the package is used"
        err.print(instead, highlight=False, markup=False, soft_wrap=True)
    with console.bars(err) as bars:
        outcome = pipeline.bench(
            suite, output, stores=_paths(stores), root=root, threads=threads, progress=bars.stage
        )
    console_evaluation.show_outcome(err, outcome)
    for tabulated in pipeline.tabulate(outcome.cells, outcome.results):
        out.print(console_evaluation.results_table(tabulated))


@app.command()
def table(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A folder made by displace bench.")],
    form: Annotated[Format, typer.Option("--format", "-f", help="How to show it.")] = Format.terminal,
    k: Annotated[int, typer.Option("-k", help="The N of Recall@N: 1, 5 or 10.")] = 1,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write.", show_default="the terminal")
    ] = None,
) -> None:
    """Show results as tables, marked as in the paper, or beside its numbers.

    [bold]Examples[/]

    displace table results
    displace table results --format latex -o table.tex
    displace table results --format published
    displace table results --format csv -o cells.csv
    """
    if output is None:
        _show_tables(results, form, k)
        return
    with atomic_write(output, "w") as file:
        file.write(_text(results, Format.markdown if form is Format.terminal else form, k))
    out.print(str(output), highlight=False, markup=False, soft_wrap=True)


def _show_tables(results: Path, form: Format, k: int) -> None:
    if form is Format.terminal:
        for tabulated in pipeline.tables(results, k=k):
            out.print(console_evaluation.results_table(tabulated))
    elif form is Format.published and out.is_terminal:
        for tabulated in pipeline.tables(results, k=k):
            out.print(console_evaluation.published_view(tabulated.table))
    else:
        out.out(_text(results, form, k), end="", highlight=False)


def _text(results: Path, form: Format, k: int) -> str:
    """All tables in one text; who wins is added where prose can stand."""
    parts = []
    for number, tabulated in enumerate(pipeline.tables(results, k=k)):
        text = FORMATS[form](tabulated.table)
        if form is Format.csv and number:
            text = text.split("\n", 1)[1]  # one head for all
        if form is Format.markdown:
            text += "".join("\n" + wins_to_markdown(wins) for wins in tabulated.wins)
        parts.append(text)
    return ("" if form is Format.csv else "\n").join(parts)


def _paths(stores: list[str] | None) -> dict[str, Path]:
    """Return what --store gives: model and path."""
    given = {}
    for text in stores or ():
        model, equals, path = text.partition("=")
        if not (model and equals and path):
            raise typer.BadParameter(f"--store {text!r} must be MODEL=PATH, such as cosplace=route.desc")
        given[model] = Path(path)
    return given
