"""Pieces of HTML that several parts of the page share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from displace.report.colours import style_of


def own_file(name: str) -> str:
    """Return the text of a template, style or script beside this file."""
    return (files("displace.report.html") / name).read_text(encoding="utf-8")


def html_table(kind: str, head: Sequence[str], rows: Iterable[str]) -> str:
    """Return a table of a class, of column names as text and rows as HTML, on a card that scrolls sideways if wide."""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    return (
        f'<div class="card scroll"><table class="{kind}"><thead><tr>{names}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def cells(*values: str) -> str:
    """Return cells of a row, from text."""
    return "".join(f"<td>{escape(value)}</td>" for value in values)


def method_row(label: str, fusion: str, plain: bool, rest: str) -> str:
    """Return the row of a method: a dot of its colour, its name, then `rest`, which is HTML."""
    own = ' class="own"' if fusion == "displace" else ""
    dot = f'<i class="dot" style="background:{style_of(fusion, plain).colour}"></i>'
    return f"<tr{own}><th>{dot}{escape(label)}</th>{rest}</tr>"


def note(text: str) -> str:
    """Return a quiet paragraph."""
    return f'<p class="note">{escape(text)}</p>'


def heading(text: str, detail: str = "") -> str:
    """Return a heading of the third level."""
    small = f" <small>{escape(detail)}</small>" if detail else ""
    return f"<h3>{escape(text)}{small}</h3>"


def folded(title: str, body: str) -> str:
    """Return what opens with a click."""
    return f"<details><summary>{escape(title)}</summary>{body}</details>"
