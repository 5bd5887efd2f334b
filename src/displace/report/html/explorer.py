"""The data of the per-query explorer, in columns small enough for a page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.evaluation.record import rule_text
from displace.holdout import spread
from displace.report.colours import style_of
from displace.report.html.blocks import Block
from displace.report.html.thumbnails import Album, path_of

MAX_ENTRIES = 2_000_000
"""Matches (queries × methods) that a page holds; beyond that, queries are thinned out evenly in every block."""


def explorer_data(blocks: Sequence[Block], album: Album) -> list[dict[str, Any]]:
    """Return a record of plain types for each block; `album` has the pictures of the page."""
    total = sum(len(block.questions) * len(block.results) for block in blocks)
    share = min(1.0, MAX_ENTRIES / max(1, total))
    return [_columns(block, album, share) for block in blocks]


def _columns(block: Block, album: Album, share: float) -> dict[str, Any]:
    """Columns of one block: places as numbers, right and wrong as bits, names once."""
    asked = block.questions
    n = len(asked)
    keep = max(1, int(n * share))
    # Queries with pictures are worth more than those without.
    pictured = np.array([album.number(path_of(block, str(image))) >= 0 for image in asked.query_images])
    order = np.argsort(~pictured, kind="stable")
    first = order[: min(keep, int(pictured.sum()))]
    rest = order[len(first) :]
    rows = np.sort(np.concatenate([first, rest[spread(len(rest), keep - len(first))]]))
    found = np.stack([ranking.places[rows, 0] for ranking in block.rankings])
    truth = np.array([asked.truth_of(row) for row in rows.tolist()], np.int32)
    shown = np.unique(np.concatenate([found.ravel(), truth[truth >= 0]]))
    place_thumbs = [album.number(path_of(block, str(asked.place_images[place]))) for place in shown]
    query_thumbs = [album.number(path_of(block, str(asked.query_images[row]))) for row in rows]
    return {
        "title": block.title,
        "protocol": rule_text(block.first.protocol, block.first.tolerance),
        "total": n,
        "methods": [
            {"label": r.label, "group": r.group, "colour": style_of(r.fusion, not r.parameters).colour}
            for r in block.results
        ],
        "own": block.own,
        "rival": _best(block),
        "rows": packed(rows.astype(np.uint32)),
        "names": [str(asked.query_images[row]) for row in rows],
        "places": [str(asked.place_ids[place]) for place in shown],
        "placeThumbs": packed(np.array(place_thumbs, np.int32)),
        "queryThumbs": packed(np.array(query_thumbs, np.int32)),
        "truth": packed(np.where(truth >= 0, np.searchsorted(shown, truth), -1).astype(np.int32)),
        "found": packed(np.searchsorted(shown, found).astype(np.uint32)),
        "right": packed(block.hits[:, rows].astype(np.uint8)),
    }


def _best(block: Block) -> int:
    """Index of the best rival of the block's own method; the own one if there is no rival."""
    return max(block.rivals, key=lambda at: block.results[at].recalls[1], default=block.own)


def packed(values: NDArray[Any]) -> str:
    """Numbers as little-endian bytes in base64, which a page reads into typed arrays."""
    plain = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return base64.b64encode(plain.tobytes()).decode("ascii")
