"""`displace table`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from displace.verbs.base import Argument, Option, Output, PathLike, check_own_output

if TYPE_CHECKING:
    from displace.evaluation.record import Result
    from displace.evaluation.results import Results
    from displace.evaluation.tables import Table
    from displace.evaluation.wins import Wins

COMMAND = "table"
MARKS = ("**Recall@", "dataset,protocol,tolerance,", "\\usepackage{booktabs")
"""Marks near the beginning of tables that this verb writes, by format."""

ENDINGS = {".csv": "csv", ".tex": "latex"}
"""Formats of files by the ending of their names; others are Markdown."""


@dataclass(frozen=True)
class Tabulated:
    """A table and its winners."""

    table: Table
    wins: list[Wins]


def tabulate(
    results: Annotated[PathLike, Argument("RESULTS")],
    output: Output = None,
    *,
    form: Annotated[
        Literal["terminal", "markdown", "csv", "latex", "published"], Option("-f --format")
    ] = "terminal",
    k: Annotated[int, Option("-k")] = 1,
) -> list[Tabulated]:
    """Show results as tables, marked as in the paper, or beside its numbers.

    There is a table for each data set, protocol and random projection.

    Parameters
    ----------
    results : path-like
        A folder made by `bench`, or by `evaluate` with an output.
    output : path-like, optional
        File to write; by default tables are shown in the terminal.
    form : {"terminal", "markdown", "csv", "latex", "published"}
        Output format; in a file, terminal becomes CSV if its name ends in .csv, LaTeX if in .tex, else Markdown.
    k : int
        The N of Recall@N: 1, 5, 10, or the k of the suite.

    Examples
    --------
    ::

        displace table results
        displace table results -o table.tex
        displace table results --format published
        displace table results -o cells.csv
    """
    from displace.evaluation.results import Results
    from displace.files.atomic import write_whole

    if output is not None:
        check_own_output(output, MARKS, "table")
    folder = Results.open(results)
    found = tables_of(folder, folder, k)
    if output is not None:
        named = ENDINGS.get(Path(output).suffix.lower(), "markdown")
        write_whole(output, as_text(found, named if form == "terminal" else form))
    return found


def tables_of(cells: Iterable[Result], results: Results, k: int = 1) -> list[Tabulated]:
    """Make tables of some cells of a results folder, such as those of one run."""
    from displace.evaluation.tables import build_tables
    from displace.evaluation.wins import all_wins

    return [Tabulated(table, all_wins(table, results)) for table in build_tables(cells, k)]


def as_text(tables: Iterable[Tabulated], form: str) -> str:
    """All tables in one text; Markdown also says which method wins."""
    from displace.evaluation.table_formats import FORMATS, to_csv, wins_to_markdown

    if form == "csv":
        return to_csv(*(tabulated.table for tabulated in tables))
    parts = []
    for tabulated in tables:
        text = FORMATS[form](tabulated.table)
        if form == "markdown":
            text += "".join("\n" + wins_to_markdown(wins) for wins in tabulated.wins)
        parts.append(text)
    return "\n".join(parts)
