"""Keeps the stretches of a pairing that pass the anchor's places in order; the others are set off the map.

The model may jump, but a drive along the anchor's route passes its places in order: a stretch that goes back is a
resemblance. The exception is a loop driven from another start, whose last stretch shows the beginning of the route; it
is kept if it alone fits as well as two recordings of one route must (`LEAST_STRETCH`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from displace.arrays import Indices
from displace.sequence.pairing import AROUND, LEAST_STRETCH, Pairing

_APART = 15
"""Change of place between consecutive frames, either way, above which a new stretch begins."""


def in_order(pairing: Pairing) -> Pairing:
    """Keep the stretches in route order with the largest total confidence, and one around a loop."""
    on = np.flatnonzero(pairing.off < 0.5)
    if len(on) == 0:
        return pairing
    pieces = np.split(on, np.flatnonzero(np.abs(np.diff(pairing.frames[on])) > _APART) + 1)
    kept = _heaviest(pairing, pieces)
    kept += _around_the_loop(pairing, pieces, kept)
    off, confidence = pairing.off.copy(), pairing.confidence.copy()
    dropped = np.setdiff1d(on, np.concatenate(kept))
    off[dropped], confidence[dropped] = 1.0, 0.0
    return replace(pairing, off=off, confidence=confidence)


def _heaviest(pairing: Pairing, pieces: list[Indices]) -> list[Indices]:
    """Increasing subsequence of the stretches with the largest sum of confidences (dynamic programming)."""
    first = [int(pairing.frames[piece].min()) for piece in pieces]
    last = [int(pairing.frames[piece].max()) for piece in pieces]
    weight = [float(pairing.confidence[piece].sum()) for piece in pieces]
    best, before = weight.copy(), [-1] * len(pieces)
    for i in range(len(pieces)):
        for j in range(i):
            if last[j] <= first[i] + AROUND and best[j] + weight[i] > best[i]:
                best[i], before[i] = best[j] + weight[i], j
    kept, at = [], int(np.argmax(best)) if best else -1
    while at >= 0:
        kept.append(pieces[at])
        at = before[at]
    return kept[::-1]


def _around_the_loop(pairing: Pairing, pieces: list[Indices], kept: list[Indices]) -> list[Indices]:
    """Stretches that come after the kept ones in time and lie before them on the route, or the reverse, if they fit."""
    frames, first, last = pairing.frames, kept[0], kept[-1]
    least, most = int(frames[first].min()), int(frames[last].max())
    later = [piece for piece in pieces if piece[0] > last[-1] and frames[piece].max() <= least + AROUND]
    sooner = [piece for piece in pieces if piece[-1] < first[0] and frames[piece].min() >= most - AROUND]
    found = [_heaviest(pairing, some) for some in (later, sooner)]
    enough = LEAST_STRETCH * np.sqrt(len(frames))
    fits = [some for some in found if some and pairing.surplus[np.concatenate(some)].sum() >= enough]
    return max(fits, key=lambda some: sum(map(len, some)), default=[])
