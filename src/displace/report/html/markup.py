"""Pieces of HTML that several parts of the page share."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from displace.errors import ImageError
from displace.images import read_image
from displace.report.colours import style_of

WIDTH = 176
QUALITY = 62
"""Of a thumbnail."""


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


def n_of(n: int, name: str) -> str:
    """Return a count in words.

    >>> n_of(1, "cell"), n_of(1200, "cell")
    ('1 cell', '1,200 cells')
    """
    return f"{n:,} {name}" + "s" * (n != 1)


def told_apart(names: Sequence[tuple[str, str]]) -> list[str]:
    """Return the first of each pair, with the second where it occurs several times.

    >>> told_apart([("winter", "2 frames"), ("winter", "exact"), ("summer", "exact")])
    ['winter · 2 frames', 'winter · exact', 'summer']
    """
    times = Counter(name for name, _ in names)
    return [f"{name} · {detail}" if times[name] > 1 else name for name, detail in names]


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
    """Return a part of the page that opens with a click."""
    return f"<details><summary>{escape(title)}</summary>{body}</details>"


def thumbnail(path: str | Path, width: int = WIDTH, quality: int = QUALITY) -> str | None:
    """Return a small JPEG of an image as base64; None if it cannot be read."""
    import cv2

    try:
        pixels = read_image(path)
    except ImageError:
        return None
    height = max(1, round(width * pixels.shape[0] / pixels.shape[1]))
    small = cv2.resize(pixels, (width, min(height, 2 * width)), interpolation=cv2.INTER_AREA)
    _, encoded = cv2.imencode(".jpg", small[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    return base64.b64encode(encoded.tobytes()).decode("ascii")
