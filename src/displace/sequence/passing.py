"""Which stretches of a recording pass the places of the anchor in their order.

A drive along the anchor's route passes its places in their order: a stretch that jumps back and forth is a resemblance,
not a visit. But a loop may be driven from another start: then what comes last shows the beginning of the route. This is
believed of a stretch that fits the route by itself, as well as two recordings of one route must.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from displace.arrays import Indices
from displace.sequence.pairing import AROUND, LEAST_STRETCH, Pairing

_APART = 15
"""Places from one frame to the next, either way, beyond which another stretch begins."""


def in_order(pairing: Pairing) -> Pairing:
    """Keep the heaviest frames whose places follow the route, or a loop; what goes against it is off the map."""
    on = np.flatnonzero(pairing.off < 0.5)
    if len(on) == 0:
        return pairing
    pieces = np.split(on, np.flatnonzero(np.abs(np.diff(pairing.frames[on])) > _APART) + 1)
    kept = _heaviest(pairing, pieces)
    kept += _around_the_loop(pairing, pieces, kept)
    off, confidence = pairing.off.copy(), pairing.confidence.copy()
    dropped = np.setdiff1d(on, np.concatenate(kept))
    off[dropped], confidence[dropped] = 1.0, 0.0
    return replace(pairing, off=off, confidence=confidence, overlap=float((off < 0.5).mean()))


def _heaviest(pairing: Pairing, pieces: list[Indices]) -> list[Indices]:
    """The pieces, in the order of time, whose places follow each other and whose confidences add up to most."""
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
    """Pieces that come later and lie before what is kept along the route, or the reverse; none that hardly fit."""
    frames, first, last = pairing.frames, kept[0], kept[-1]
    least, most = int(frames[first].min()), int(frames[last].max())
    later = [piece for piece in pieces if piece[0] > last[-1] and frames[piece].max() <= least + AROUND]
    sooner = [piece for piece in pieces if piece[-1] < first[0] and frames[piece].min() >= most - AROUND]
    found = [_heaviest(pairing, some) for some in (later, sooner)]
    enough = LEAST_STRETCH * np.sqrt(len(frames))
    fits = [some for some in found if some and pairing.surplus[np.concatenate(some)].sum() >= enough]
    return max(fits, key=lambda some: sum(map(len, some)), default=[])
