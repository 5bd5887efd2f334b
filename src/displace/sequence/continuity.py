"""Whether a drive goes on along a route: the log-evidence that the route's order saves against rearranged routes.

Cut the route into blocks of `BLOCK` places and put these in another order. A drive along the route must now jump at the
end of each block, which costs it about log(N / P(jump)) nats. A drive through other streets resembles the route as far
as the next corner, in any order of the blocks: it jumps anyway and loses little. Both keep what single frames and
neighbouring places look like, so a hard night and a strange town, which earn about as much beyond chance
(`belonging`), differ in the share of the cost of all jumps that the true order saves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log

import numpy as np

from displace.arrays import Indices, Vectors
from displace.sequence.engine import Blocks, Floats, Motion

BLOCK = 30
"""Places of a block: streets of two towns look alike for some twenty."""
ORDERS = 8
"""Rearranged routes, whose mean counts."""
MOST = 600
"""Frames that are compared, at most."""
_CLEAR = 2.0
"""Nats beyond what other streets save at which either is as likely."""


@dataclass(frozen=True, eq=False)
class Rearranged:
    """Scores of some frames, with the places in another order."""

    scores: Blocks
    order: Indices
    frames: slice

    @property
    def shape(self) -> tuple[int, int]:
        """Frames and places."""
        return self.frames.stop - self.frames.start, len(self.order)

    def block(self, rows: slice) -> Vectors:
        """Return the scores of some frames."""
        first = self.frames.start
        return self.scores.block(slice(first + rows.start, first + rows.stop))[:, self.order]


def continues(
    scores: Blocks, earn: Callable[[Blocks], Floats], motion: Motion, around: slice, usual: float
) -> float:
    """Probability that a drive goes on along the route; 0 where the route is too short to tell.

    Parameters
    ----------
    scores : Blocks
        Standard scores of frames and places.
    earn : callable
        Earnings of each frame, (q,), given scores and this motion.
    motion : Motion
    around : slice
        Frames in the middle of those that are compared.
    usual : float
        Share of the cost of all jumps that drives through other streets save.
    """
    n_frames, n_places = scores.shape
    if n_places < 4 * BLOCK:
        return 0.0
    middle, compared = (around.start + around.stop) // 2, min(n_frames, MOST)
    first = min(max(middle - compared // 2, 0), n_frames - compared)
    frames, rng = slice(first, first + compared), np.random.default_rng(0)
    orders = [rearranged(n_places, rng) for _ in range(ORDERS)]
    others = [float(earn(Rearranged(scores, order, frames)).sum()) for order in orders]
    saved = float(earn(Rearranged(scores, np.arange(n_places), frames)).sum() - np.mean(others))
    jumps = compared * motion.mean_step / BLOCK * log(n_places / motion.jump)
    return 1 / (1 + exp(-min(max(saved - usual * jumps - _CLEAR, -50.0), 50.0)))


def rearranged(n_places: int, rng: np.random.Generator) -> Indices:
    """Places in an order in which no block is followed by the one that it was followed by."""
    cuts = np.arange(rng.integers(1, BLOCK + 1), n_places, BLOCK)
    blocks = np.split(np.arange(n_places), cuts)
    order = rng.permutation(len(blocks))
    while (np.diff(order) == 1).any():
        order = rng.permutation(len(blocks))
    return np.concatenate([blocks[at] for at in order])
