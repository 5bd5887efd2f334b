"""The page to check an alignment: matrix and path of each recording, and pairs of frames, the least certain first."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from displace.arrays import Indices, Vectors
from displace.files.atomic import write_whole
from displace.holdout import spread
from displace.report.html.markup import cells, heading, html_table, note, own_file, thumbnail
from displace.sequence.alignment import Alignment, Track
from displace.sequence.pairing import standardised_recording
from displace.sequence.weighing import standardised

SIDE = 500
"""Rows and columns of a drawn matrix."""
STRETCHES, PAIRS = 6, 8
"""Weakest stretches and pairs along the route that are shown of each recording."""
LENGTH = 20
"""Frames of a stretch."""


@dataclass(frozen=True)
class Stretch:
    """Consecutive frames, and the mean probability of their places."""

    first: int
    last: int
    confidence: float

    @property
    def middle(self) -> int:
        """The frame that is shown."""
        return (self.first + self.last) // 2


def write_alignment_page(
    path: Path, found: Alignment, vectors: Mapping[str, Vectors], images: Mapping[str, Sequence[Path]]
) -> None:
    """Write one HTML file that needs nothing else, of the descriptors (n, D) and images of each recording's frames."""
    others = [name for name in found.tracks if name != found.anchor]
    body = "".join(_recording(name, found, vectors, images) for name in others)
    lead = (
        f"{found.n_places:,} places along <b>{escape(found.anchor)}</b>; "
        f"{len(others)} recording{'s were' if len(others) > 1 else ' was'} lined up with it by sight."
    )
    write_whole(
        path,
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>displace align: {escape(found.anchor)}</title><style>{own_file('report.css')}{_CSS}</style></head>"
        "<body><main>"
        f'<header><h1>Alignment</h1><p class="lead">{lead}</p></header>'
        f"{_summary(found)}{body}</main></body></html>\n",
    )


_CSS = """
.strip { display: flex; flex-wrap: wrap; gap: .7rem; margin: .6rem 0 1.2rem }
.pair { width: 250px; margin: 0; font-size: .8rem }
.pair img { width: 122px; display: inline-block; vertical-align: top }
.matrix { max-width: 640px; width: 100% }
"""


def _summary(found: Alignment) -> str:
    """A row for each recording."""
    rows = []
    for name, track in found.tracks.items():
        seen = track.places >= 0
        sure = f"{track.confidence[seen].mean():.2f}" if seen.any() else "–"
        role = "anchor" if name == found.anchor else f"{seen.mean():.0%}"
        rows.append(f"<tr>{cells(name, f'{len(seen):,}', role, f'{track.references.sum():,}', sure)}</tr>")
    head = ("recording", "frames", "on the route", "references", "mean probability")
    return html_table("plain", head, rows) + "".join(note(text) for text in found.notes)


def _recording(
    name: str, found: Alignment, vectors: Mapping[str, Vectors], images: Mapping[str, Sequence[Path]]
) -> str:
    """Matrix, weakest stretches and pairs of one recording."""
    track, anchor = found.tracks[name], found.tracks[found.anchor]
    first_of = np.flatnonzero(anchor.references)

    def pair(frame: int, caption: str) -> str:
        return _pair(images[name][frame], images[found.anchor][first_of[track.places[frame]]], caption)

    shown = "".join(
        pair(s.middle, f"frames {s.first}–{s.last}: {s.confidence:.2f}") for s in weakest_stretches(track)
    )
    seen = np.flatnonzero(track.places >= 0)
    pairs = "".join(
        pair(frame, f"frame {frame} → place {track.places[frame]}, {track.confidence[frame]:.2f}")
        for frame in seen[spread(len(seen), PAIRS)]
    )
    picture = _matrix(vectors[name], vectors[found.anchor], track, first_of, name, found.anchor)
    return (
        f"<section><h2>{escape(name)}</h2>"
        f'<img class="matrix" alt="similarity and path" src="data:image/png;base64,{picture}">'
        + heading("Weakest stretches", "this recording left, the anchor right; with the mean probability")
        + f'<div class="strip">{shown}</div>'
        + heading("Along the route")
        + f'<div class="strip">{pairs}</div></section>'
    )


def weakest_stretches(track: Track) -> list[Stretch]:
    """Stretches of frames on the route, the least certain first."""
    found = []
    for first in range(0, len(track.places), LENGTH):
        last = min(first + LENGTH, len(track.places)) - 1
        seen = track.places[first : last + 1] >= 0
        if seen[(last - first) // 2]:
            sure = float(track.confidence[first : last + 1][seen].mean())
            found.append(Stretch(first, last, sure))
    return sorted(found, key=lambda stretch: stretch.confidence)[:STRETCHES]


def _pair(own: Path, anchor: Path, caption: str) -> str:
    """Two frames side by side."""
    pictures = "".join(
        f'<img alt="" src="data:image/jpeg;base64,{text}">'
        for text in (thumbnail(str(own)), thumbnail(str(anchor)))
        if text
    )
    return f'<figure class="pair">{pictures}<figcaption>{escape(caption)}</figcaption></figure>'


def _matrix(
    own: Vectors, anchor: Vectors, track: Track, first_of: Indices, name: str, anchor_name: str
) -> str:
    """Similarity matrix with the path, as PNG in base64."""
    from matplotlib.figure import Figure

    rows = spread(len(own), SIDE)
    columns = spread(len(first_of), SIDE)
    similarity = standardised_recording(own)[rows] @ standardised_recording(anchor[first_of])[columns].T
    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    axes = figure.subplots()
    extent = (-0.5, len(first_of) - 0.5, len(own) - 0.5, -0.5)
    axes.imshow(standardised(similarity), cmap="Greys", vmin=-1, vmax=4, aspect="auto", extent=extent)
    seen = track.places >= 0
    frames = np.arange(len(track.places))
    shade = axes.scatter(
        track.places[seen], frames[seen], c=track.confidence[seen], s=3, cmap="RdYlGn", vmin=0, vmax=1
    )
    axes.scatter(
        np.zeros((~seen).sum()), frames[~seen], s=4, c="tab:blue", marker="_", label="not on the route"
    )
    if (~seen).any():
        axes.legend(loc="upper right", fontsize=8)
    # Names may contain dollar signs, which would start a formula.
    axes.set_xlabel(f"place along {anchor_name}", parse_math=False)
    axes.set_ylabel(f"frame of {name}", parse_math=False)
    figure.colorbar(shade, label="probability that the place is right", shrink=0.7)
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=110)
    return base64.b64encode(png.getvalue()).decode()
