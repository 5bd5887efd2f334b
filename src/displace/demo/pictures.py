"""The pictures of the page: which examples are shown, and pictures as text inside of HTML."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from html import escape
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from displace.demo.comparison import Flags, first_is_right
from displace.demo.drawings import confidences
from displace.demo.outcome import Demo
from displace.images import read_image

SHOWN_IN = "sun"
"""Traversal whose pictures stand for the places."""
RIVAL = "hops"
APART = 6
"""Examples of one kind are at least this many places apart."""
_SIZE = (320, 240)
_QUALITY = 80


@dataclass(frozen=True)
class Kind:
    """Queries that came out in one way.

    Parameters
    ----------
    title : str
    rows : array
        All queries of the kind.
    shown : list of int
        Those that are shown: the most confident ones, some way apart.
    """

    title: str
    rows: NDArray[np.intp]
    shown: list[int]


def kinds(demo: Demo) -> list[Kind]:
    """Sort the queries by who located them rightly, and choose examples by a fixed rule."""
    truth = demo.comparison.truth[demo.comparison.query]
    own, rival = (
        demo.right,
        first_is_right(demo.comparison.score(RIVAL).matches[demo.comparison.query], truth),
    )
    title = demo.comparison.score(RIVAL).title
    wanted: list[tuple[str, Flags, int]] = [
        (f"DisPlace is right, {title} is wrong", own & ~rival, 4),
        ("Both are right", own & rival, 2),
        (f"{title} is right, DisPlace is wrong", ~own & rival, 1),
        ("Both are wrong", ~own & ~rival, 1),
    ]
    surest = np.argsort(-confidences(demo), kind="stable")
    return [_kind(label, flags, surest, count) for label, flags, count in wanted]


def _kind(title: str, flags: Flags, surest: NDArray[np.intp], count: int) -> Kind:
    """Take the surest queries of a kind that are not neighbours."""
    shown: list[int] = []
    for row in surest[flags[surest]].tolist():
        if len(shown) < count and all(abs(row - other) >= APART for other in shown):
            shown.append(row)
    return Kind(title, np.flatnonzero(flags), shown)


def example(demo: Demo, row: int) -> str:
    """Show one query, its true place, and what DisPlace and the rival found, with frames that say who is right."""
    query = demo.comparison.query
    rival = demo.comparison.score(RIVAL)
    truth = demo.comparison.truth[query]
    both = (("DisPlace", demo.matches), (rival.title, rival.matches[query]))
    own = str(demo.queries.places[row])
    cells = [
        picture(demo, query, own, f"query, {query}", f"place {own}"),
        picture(demo, SHOWN_IN, own, f"where it was, in {SHOWN_IN}", f"place {own}"),
    ]
    for title, matches in both:
        placed = str(matches.places[row, 0])
        right = bool(first_is_right(matches, truth)[row])
        sure = f", confidence {confidences(demo)[row]:.2f}" if matches is demo.matches else ""
        cells.append(
            picture(
                demo,
                SHOWN_IN,
                placed,
                f"{'✓' if right else '✗'} {title}: {'right' if right else 'wrong'}",
                f"place {placed}{sure}",
                "right" if right else "wrong",
            )
        )
    return f'<div class="example">{"".join(cells)}</div>'


def picture(demo: Demo, traversal: str, place: str, caption: str, detail: str = "", kind: str = "") -> str:
    """One picture of the town with its caption."""
    path = demo.folder / "town" / traversal / f"{place}.jpg"
    small = f"<small>{escape(detail)}</small>" if detail else ""
    return (
        f'<figure class="{kind}"><img width="{_SIZE[0]}" height="{_SIZE[1]}" alt="{escape(caption)}" '
        f'src="{data_uri(path)}"><figcaption>{escape(caption)}{small}</figcaption></figure>'
    )


def data_uri(path: Path) -> str:
    """Return a picture as a JPEG inside of an address, small enough for a page of many."""
    pixels = cv2.resize(read_image(path), _SIZE, interpolation=cv2.INTER_AREA)
    _, encoded = cv2.imencode(".jpg", pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return "data:image/jpeg;base64," + base64.b64encode(encoded.tobytes()).decode("ascii")
