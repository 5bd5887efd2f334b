"""Tables as text: Markdown, CSV, LaTeX, and side by side with the published numbers."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Callable, Iterable

from displace.evaluation.published import Compared, compare
from displace.evaluation.record import Result
from displace.evaluation.tables import BOLD, NOT_RUN, UNDERLINE, Row, Table
from displace.evaluation.wins import Wins
from displace.files.outputs import cell_text
from displace.recall import DEFAULT_KS

CSV_COLUMNS = (
    "dataset", "protocol", "tolerance", "projection", "group", "method", "fusion", "model", "query", "seed",
    *(f"recall_at_{k}" for k in DEFAULT_KS), "n_queries", "n_without_answer", "dim", "n", "bytes",
    "fit_seconds", "rank_seconds", "error",
)  # fmt: skip
"""Columns of every CSV; recalls at the k of a suite come after them."""


def to_markdown(table: Table) -> str:
    """Markdown tables, one for each model where there are several queries; **bold** and <u>underlined</u>."""
    parts = [f"**{_plain(table.title)}**"]
    for names, panel in table.panels():
        lines = [_line(map(_plain, names)), _line(["---", *["---:"] * len(panel.columns)])]
        for group, rows in panel.groups():
            lines.append(_line([f"*{group}*", *[""] * len(panel.columns)]))
            lines += [_line([_plain(row.label), *_cells(panel, row, _MARKDOWN)]) for row in rows]
        parts.append("\n".join(lines))
    parts += [f"- {_plain(note)}" for note in table.notes]
    return "\n\n".join(parts) + "\n"


def wins_to_markdown(wins: Wins) -> str:
    """Who wins, and by how much in each column."""
    head = ["model", "query", wins.label, "best other", "", "difference, 95 % interval"]
    lines = [_line(map(_plain, head)), _line(["---", "---", "---:", "---", "---:", "---:"])]
    for duel in wins.duels:
        texts = (
            duel.column.model,
            duel.column.query,
            f"{duel.value:.1f}",
            duel.rival,
            f"{duel.rival_value:.1f}",
        )
        lines.append(_line([*map(_plain, texts), str(duel.difference or NOT_RUN)]))
    return f"{_plain(str(wins))}\n\n" + "\n".join(lines) + "\n"


def to_csv(*tables: Table) -> str:
    """One line for each cell of the tables, with all that a spreadsheet may want."""
    cells = [result for table in tables for result in table.results()]
    further = sorted({k for result in cells for k in result.recalls} - {*DEFAULT_KS})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*CSV_COLUMNS, *(f"recall_at_{k}" for k in further)])
    writer.writerows([*_csv_line(result), *(result.recalls.get(k, "") for k in further)] for result in cells)
    return text.getvalue()


def to_latex(table: Table) -> str:
    """A booktabs table as in the paper; needs the packages booktabs and graphicx."""
    n_queries = [sum(c.model == model for c in table.columns) for model in table.models]
    width = 1 + len(table.columns)
    lines = [
        r"% \usepackage{booktabs,graphicx}",
        r"\begin{tabular}{l" + "|".join("c" * n for n in n_queries) + "}",
        r"\toprule",
    ]
    if len(table.queries) > 1:
        rotated = [rf"\rotatebox{{90}}{{{_tex(column.query)}}}" for column in table.columns]
        lines.append(_row_of(["Queries", *rotated]))
        spans = zip(n_queries, table.models, strict=True)
        lines.append(_row_of(["References", *[rf"\multicolumn{{{n}}}{{c}}{{{_tex(m)}}}" for n, m in spans]]))
    else:
        lines.append(_row_of(["Method", *[rf"\rotatebox{{90}}{{{_tex(c.model)}}}" for c in table.columns]]))
    for group, rows in table.groups():
        lines += [r"\midrule", rf"\multicolumn{{{width}}}{{l}}{{\emph{{{group}}}}} \\"]
        lines += [_row_of([_tex(row.label), *_cells(table, row, _LATEX)]) for row in rows]
    lines += [r"\bottomrule", r"\end{tabular}", f"% {table.title}"]
    return "\n".join([*lines, *[f"% {note}" for note in table.notes]]) + "\n"


def to_published(table: Table) -> str:
    """Markdown: measured, published and difference of every cell that the paper has."""
    compared = compare(table)
    if not compared.rows:
        return "\n\n".join([f"**{_plain(table.title)}**", *compared.notes]) + "\n"
    head = ["model", "query", "method", "measured", "published", "difference"]
    lines = [_line(head), _line(["---"] * 3 + ["---:"] * 3)]
    lines += [
        _line([*map(_plain, (c.column.model, c.column.query, c.label)), *compared_texts(c)])
        for c in compared.rows
    ]
    return "\n\n".join([f"**{_plain(table.title)}**", "\n".join(lines), *compared.notes]) + "\n"


def compared_texts(compared: Compared) -> list[str]:
    """Measured, published and difference as text."""
    measured = "n/p" if compared.measured is None else f"{compared.measured:.1f}"
    difference = NOT_RUN if compared.difference is None else f"{compared.difference:+z.1f}"
    return [measured, f"{compared.published:.1f}", difference]


FORMATS: dict[str, Callable[[Table], str]] = {
    "markdown": to_markdown,
    "csv": to_csv,
    "latex": to_latex,
    "published": to_published,
}
"""Text of a table by the format's name."""

_MARKDOWN = {BOLD: "**{}**", UNDERLINE: "<u>{}</u>"}
_LATEX = {BOLD: r"\textbf{{{}}}", UNDERLINE: r"\underline{{{}}}"}


def _cells(table: Table, row: Row, marks: dict[str, str]) -> list[str]:
    return [marks.get(mark, "{}").format(text) for text, mark in table.cells(row)]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


_TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": "$<$", ">": "$>$", "|": "$|$", "−": "$-$", "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$",
    "≈": r"$\approx$", "∞": r"$\infty$", "→": r"$\to$", "←": r"$\leftarrow$",
}  # fmt: skip
_GREEK = "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ"
"""Letters that LaTeX has commands for; other capitals look like Latin ones."""


def _tex(text: str) -> str:
    """Text that LaTeX shows as it is, whatever its font encoding: `<` alone would be printed as ¡."""
    return "".join(_TEX.get(c, f"\\{c}" if c in "&%$#_{}" else _greek(c)) for c in text)


def _greek(letter: str) -> str:
    r"""A Greek letter as LaTeX writes it; others as they are.

    >>> _greek("ε"), _greek("λ"), _greek("Δ"), _greek("e"), _greek("ά")
    ('$\\epsilon$', '$\\lambda$', '$\\Delta$', 'e', 'ά')
    """
    if letter not in _GREEK:
        return letter
    name = unicodedata.name(letter).split()[-1].replace("LAMDA", "LAMBDA")
    return f"$\\{name.lower() if letter.islower() else name.capitalize()}$"


def _row_of(cells: Iterable[str]) -> str:
    return " & ".join(cells).replace(" ± ", r" $\pm$ ").replace(NOT_RUN, "--") + r" \\"


def _csv_line(r: Result) -> list[object]:
    line = [
        r.dataset, r.protocol, r.tolerance, r.projection or "", r.group, r.label, r.fusion, r.model, r.query,
        r.seed, *(r.recalls.get(k, "") for k in DEFAULT_KS), r.n_queries, r.n_unanswerable, r.dim, r.n,
        r.n_bytes, r.seconds.get("fit", ""), r.seconds.get("rank", ""), r.error,
    ]  # fmt: skip
    return [cell_text(value) if isinstance(value, str) else value for value in line]
